/* PyTorch, in a process of its own: torch_peer.py reads a request in JSON from each line and answers in lines of text. */
#include "bench/peers.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program, made from torch_peer.py by the build. */
extern const char source_torch_peer[];

static struct Torch {
    pid_t process;
    FILE *to, *from;
    char version[64];
} torch;

static void run_python(const char *python, int in, int out)
{
    dup2(in, 0);
    dup2(out, 1);
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0); /* huge pages, as our data has them */
    execlp(python, python, "-c", source_torch_peer, (char *)NULL);
    _exit(127);
}

static int has_torch(const char *python)
{
    int status = 1;
    const pid_t child = fork();
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 1);
        dup2(nothing, 2);
        execlp(python, python, "-c", "import torch", (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The first Python that has torch: the one that the user names, those of bench/install and tests/transformers/install (beside
 * this program's folder), Debian's. NULL: none. */
static const char *find_python(void)
{
    static char venvs[2][600];
    char self[512] = "";
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *folder = n > 0 ? strstr(self, "/bin/moe-bench") : NULL;
    if (folder)
        *folder = 0;
    snprintf(venvs[0], sizeof venvs[0], "%s/bench/venv/bin/python", self);
    snprintf(venvs[1], sizeof venvs[1], "%s/transformers/venv/bin/python", self);
    const char *const pythons[] = {getenv("MOE_BENCH_PYTHON"), venvs[0], venvs[1], "/usr/bin/python3",
                                   "python3"};
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++)
        if (pythons[i] && *pythons[i] && has_torch(pythons[i]))
            return pythons[i];
    return NULL;
}

/* One line of the answer, without its end. 1: there is none. */
static int answer(char *line, size_t room)
{
    if (!torch.from || !fgets(line, (int)room, torch.from))
        return 1;
    line[strcspn(line, "\n")] = 0;
    return 0;
}

int torch_begin(void)
{
    int down[2], up[2];
    const char *python = find_python();
    signal(SIGPIPE, SIG_IGN);
    if (!python || pipe(down) || pipe(up))
        return 1;
    torch.process = fork();
    if (torch.process == 0) {
        close(down[1]);
        close(up[0]);
        run_python(python, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    torch.to = fdopen(down[1], "w");
    torch.from = fdopen(up[0], "r");
    return !torch.to || answer(torch.version, sizeof torch.version);
}

void torch_end(void)
{
    if (torch.to)
        fclose(torch.to); /* the end of its input ends it */
    if (torch.from)
        fclose(torch.from);
    if (torch.process > 0)
        waitpid(torch.process, NULL, 0);
}

const char *torch_version(void) { return torch.version; }

/* ---- requests ---- */

/* A line of JSON; takes the reference. A process that is gone is found out by who waits for its answer. */
static void ask(json_t *request)
{
    json_dumpf(request, torch.to, JSON_COMPACT);
    json_decref(request);
    fputc('\n', torch.to);
    fflush(torch.to);
}

static json_t *choices_of(const moe_route *r)
{
    json_t *list = json_array();
    int32_t *expert = malloc((size_t)r->rows * sizeof *expert);
    if (!expert)
        abort();
    for (int64_t e = 0; e < r->groups; e++)
        for (int64_t row = r->start[e]; row < r->start[e] + r->count[e]; row++)
            expert[r->slot_of[row]] = (int32_t)e;
    for (int64_t i = 0; i < r->rows; i++)
        json_array_append_new(list, json_integer(expert[i]));
    free(expert);
    return list;
}

typedef struct TorchWay {
    int number;
    char name[64];
} TorchWay;

static double way_time(void *self, int calls)
{
    char line[128], *end;
    ask(json_pack("{s:i, s:i}", "run", ((TorchWay *)self)->number, "calls", calls));
    if (answer(line, sizeof line))
        return -1;
    double seconds = strtod(line, &end);
    return end == line ? -1 : seconds;
}

/* The answer is a line with the number of ways, then their names. */
void torch_ask(Case *c, const char *what, const moe_route *route)
{
    char line[64];
    json_t *request = json_pack("{s:s, s:i}", "make", what, "threads", c->threads);
    for (char letter = 'A'; letter <= 'Z'; letter++)
        json_object_set_new(request, (char[]){letter, '\0'}, json_integer(SIZE(c->sizes, letter)));
    if (route)
        json_object_set_new(request, "expert", choices_of(route));
    ask(request);
    int ways = answer(line, sizeof line) ? 0 : atoi(line);
    for (int i = 0; i < ways; i++) {
        TorchWay *w = memory_get(&c->bench->memory, sizeof *w); /* its name is part of the results */
        w->number = i;
        if (!answer(w->name, sizeof w->name))
            case_runner(c, PEER, c->threads, "PyTorch", w->name, way_time, w);
    }
}

void torch_forget(void) { ask(json_pack("{s:b}", "forget", 1)); }
