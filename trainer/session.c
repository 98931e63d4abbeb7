#include "trainer/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bind.h"
#include "step/memory.h"
#include "step/verify.h"
#include "trainer/complain.h"

void session_share(Session *s, const Ranks *ranks, int64_t rank)
{
    s->ranks = *ranks, s->rank = rank;
    s->shards = model_shards(s->arena, &s->weights, ranks->members);
}

int session_open(Session *s, const ModelConfig *model, moec_type act, int threads, int check)
{
    const Ranks alone = ranks_one();
    allow_threads(threads);
    *s = (Session){.model = *model, .act = act, .run = {.threads = threads, .check = check}};
    s->arena = arena_new();
    s->kernels = kernels_open(act == MOEC_F32 ? "act=f32" : NULL);
    s->store = store_new();
    if (!s->arena || !s->kernels || !s->store)
        return complain("out of memory");
    arena_set_limit(s->arena, (size_t)16 << 30); /* beyond what STEP_MAX_TASKS take with all passes */
    s->weights = model_weights(s->arena, model);
    session_share(s, &alone, 0);
    const double begin = clock_seconds();
    const int bad = recipe_add_sources(s->kernels);
    s->compile_seconds = clock_seconds() - begin;
    return bad ? complain("kernels: %s", kernels_error(s->kernels)) : 0;
}

void session_close(Session *s)
{
    if (s->run.swap_fd > 0)
        close(s->run.swap_fd);
    store_free(s->store);
    kernels_close(s->kernels);
    if (s->arena)
        arena_free(s->arena);
}

Recording session_record(Session *s, const char *name, int train, int64_t sequences, int64_t positions)
{
    Recorder *r = recorder_new(s->arena, s->kernels, name, train);
    const Ranks *ranks = &s->ranks;
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (a != AXIS_edp || ranks->members[AXIS_ep] > 1) /* else it is dp */
            record_group(r, a, ranks->members[a]);
    return (Recording){r, recipe_of(s->arena, r, name, &s->model, s->act, sequences, positions)};
}

Program *session_finish(Session *s, const Recording *r)
{
    const char *error;
    const double begin = clock_seconds();
    Program *p = recorder_finish(r->recorder, &error);
    s->compile_seconds += clock_seconds() - begin;
    if (!p)
        complain_alike("the program of the step: %s", error);
    return p;
}

/* Of a choice that module_choice_read() can read; NULL: all of it is kept. */
static const char *never_kept(Arena *a, StepPass pass, const char *choice)
{
    ModuleChoice c = {0};
    const char *why = NULL;
    if (!choice || module_choice_read(a, choice, &c))
        return NULL;
    for (uint32_t i = 0; i < c.ranges.len && !why; i++)
        if (c.ranges.at[i].module && (why = recipe_never_kept(c.ranges.at[i].module)))
            why = arena_printf(a, "--%s: `%s`: %s", pass_names[pass], c.ranges.at[i].module, why);
    return why;
}

int session_passes(Program *p, const char *const choices[PASS_COUNT])
{
    const char *error = NULL;
    for (StepPass pass = 0; pass < PASS_COUNT && !error; pass++)
        error = never_kept(p->arena, pass, choices[pass]);
    if (!error)
        error = step_passes(p, choices);
    return error ? complain_alike("the program of the step: %s", error) : 0;
}

Program *session_record_setup(Session *s, int64_t positions)
{
    Recording r = session_record(s, "setup", 0, 1, positions);
    recipe_setup(&r.recipe);
    return session_finish(s, &r);
}

int session_compile(Session *s)
{
    const double begin = clock_seconds();
    const int bad = kernels_compile(s->kernels);
    s->compile_seconds += clock_seconds() - begin;
    return bad ? complain("kernels: %s", kernels_error(s->kernels)) : 0;
}

int session_place(Session *s, Program *p)
{
    if (kernels_add_work(s->kernels, p))
        return complain_alike("%s: %s", p->name, kernels_error(s->kernels));
    memory_place(p);
    const char *error = step_verify(p, s->kernels);
    return error ? complain_alike("%s: %s", p->name, error) : 0;
}

/* Memory that no program of the session named before, against that of the machine: most of it is touched only later. */
static int check_memory(const Session *s, const Program *p)
{
    double need = (double)store_bytes(s->store) + (double)p->arena_bytes + (double)arena_bytes(s->arena);
    const double have = computer_memory();
    for (BufferId b = 0; b < p->buffers.len; b++)
        if (step_persists(p, b) && p->buffers.at[b].base == STEP_NONE &&
            !store_at(s->store, p->buffers.at[b].name))
            need += (double)p->buffers.at[b].bytes;
    if (need <= have)
        return 0;
    return complain(
        "the model and its micro-batch need %.1f GiB and this machine has %.1f GiB: choose smaller "
        "sizes or more --micro-batches",
        need / 0x1p30, have / 0x1p30);
}

/* A file without a name, which is gone with the process. */
static int open_unnamed(Arena *a, const char *folder)
{
    const int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    char *name = arena_printf(a, "%s/moe-train.XXXXXX", folder);
    const int named = mkostemp(name, O_CLOEXEC);
    if (named >= 0)
        unlink(name);
    return named;
}

/* The swap file with room for the program, so that a full disk is known before the first step. */
static int open_swap(Session *s, const Program *p)
{
    const char *set = getenv("TMPDIR"), *folder = s->swap_folder ? s->swap_folder : set ? set : "/var/tmp";
    if (!p->disk_bytes)
        return 0;
    if (s->run.swap_fd <= 0)
        s->run.swap_fd = open_unnamed(s->arena, folder);
    const int error = s->run.swap_fd < 0 ? errno : posix_fallocate(s->run.swap_fd, 0, p->disk_bytes);
    if (!error)
        return 0;
    return complain("swap file of %.1f MiB in %s: %s", (double)p->disk_bytes / 0x1p20, folder,
                    strerror(error));
}

Run *session_start(Session *s, Program *p, BatchSource source)
{
    const char *error;
    if (session_place(s, p) || check_memory(s, p) || open_swap(s, p))
        return NULL;
    RunOptions options = s->run;
    options.source = source;
    Run *r = run_new(p, s->kernels, s->store, &options, &error);
    if (!r)
        complain("%s: %s", p->name, error);
    return r;
}

int session_run(Run *r)
{
    const int bad = run_program(r);
    return bad && *run_error(r) ? complain("step: %s", run_error(r)) : bad;
}

void *session_at(const Session *s, const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return store_at(s->store, name);
}

float *session_number(const Session *s, const char *name)
{
    static float nowhere;
    float *at = store_at(s->store, name);
    return at ? at : &nowhere;
}
