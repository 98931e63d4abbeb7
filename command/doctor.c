/* `moec doctor`: what the compiler finds on this computer, what it measures, what it chooses and why, and what is wrong. */
#include "command/command.h"

#include "base/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct DoctorRow {
    const char *section, *name, *value,
        *why; /* why: where it is from, or what it decides; "": nothing to say */
} DoctorRow;

typedef struct DoctorProblem {
    int fatal; /* kernels cannot be compiled */
    const char *what, *help;
} DoctorProblem;

typedef struct Doctor {
    Arena *arena;
    Vec(DoctorRow) rows;
    Vec(DoctorProblem) problems;
} Doctor;

static void add(Doctor *d, const char *section, const char *name, const char *value, const char *why)
{
    vec_push(d->arena, &d->rows, (DoctorRow){section, name, value, why});
}

static void complain(Doctor *d, int fatal, const char *what, const char *help)
{
    vec_push(d->arena, &d->problems, (DoctorProblem){fatal, what, help});
}

#define TEXT(...) arena_printf(d->arena, __VA_ARGS__)

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- the CPU ---- */

static const char *cpu_model(Doctor *d)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    const char *found = NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (value)
            found = TEXT("%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    }
    if (f)
        fclose(f);
    return found ? found : "unknown";
}

static void look_at_cpu(Doctor *d)
{
    const char *core = cpu_core();
    add(d, "cpu", "model", cpu_model(d), "/proc/cpuinfo");
    add(d, "cpu", "core", *core ? core : "none",
        *core ? "row of machines/cores.def" : "no row of machines/cores.def: its rates are timed");
}

/* ---- instruction sets ---- */

static void look_at_isas(Doctor *d)
{
    CpuRates rates = *cpu_rates(), now = rates;
    const Isa best = cpu_fastest(cpu_choices(), &rates);
    const char *forced = setting("MOE_ISA");
    Isa isa;
    cpu_probe(cpu_choices(), cpu_time_loop, NULL, &now);
    add(d, "instruction sets", "chosen", forced ? forced : cpu_table[best].name,
        forced                     ? "MOE_ISA forces it"
        : rates.from == RATES_NONE ? "the highest that the CPU and the system allow"
                                   : "the highest that no other one beats in products of bf16");
    for (isa = 0; isa < ISA_COUNT; isa++)
        if (cpu_has(isa))
            add(d, "instruction sets", cpu_table[isa].name,
                now.mflops[isa] ? TEXT("%.0f GFLOP/s", now.mflops[isa] / 1e3) : "yes",
                now.mflops[isa] && rates.mflops[isa]
                    ? TEXT("products of bf16 of one thread, measured now; decided by %.0f: %s",
                           rates.mflops[isa] / 1e3, cpu_rate_source(&rates, isa))
                    : "");
    if (forced && (!cpu_find(forced, &isa) || !cpu_has(isa)))
        complain(d, 1, TEXT("MOE_ISA forces '%s', which this CPU lacks", forced),
                 "unset MOE_ISA, or name one that `moec machines host` lists");
    else if (forced && isa != best)
        complain(d, 0, TEXT("MOE_ISA forces %s, although %s is faster here", forced, cpu_table[best].name),
                 "unset MOE_ISA");
}

/* ---- memory ---- */

enum { COPIED = 64 << 20, COPIES = 5 };

/* Bytes read and written per second by the fastest of some copies. */
static void measure_memory(Doctor *d)
{
    char *from = malloc(COPIED), *to = malloc(COPIED);
    double best = 0;
    if (from && to) {
        memset(from, 1, COPIED);
        memset(to, 2, COPIED);
        for (int i = 0; i < COPIES; i++) {
            double start = clock_seconds();
            memcpy(to, from, COPIED);
            double rate = 2.0 * COPIED / (clock_seconds() - start);
            best = rate > best ? rate : best;
        }
        add(d, "memory", "copy", TEXT("%.1f GB/s", best / 1e9),
            TEXT("read and written by one thread, measured now (byte %d)", to[COPIED / 2]));
    }
    free(from);
    free(to);
}

/* ---- threads ---- */

static void look_at_waiting(Doctor *d)
{
    const char *policy = setting("OMP_WAIT_POLICY"), *spin = setting("GOMP_SPINCOUNT");
    add(d, "threads", "waiting",
        policy ? policy : TEXT("spins %s rounds, then sleeps", spin ? spin : "libgomp's"),
        policy ? "OMP_WAIT_POLICY" : "GOMP_SPINCOUNT: moec sets 1000 where nothing is set");
    if (policy && strcasecmp(policy, "active") == 0)
        complain(d, 0, "OMP_WAIT_POLICY=active: threads that wait burn the time of the work beside them",
                 "unset OMP_WAIT_POLICY");
    else if (!policy && spin && (strcmp(spin, "infinite") == 0 || atoll(spin) > 100000))
        complain(d, 0,
                 TEXT("GOMP_SPINCOUNT=%s: threads that wait burn milliseconds of the work beside them", spin),
                 "unset GOMP_SPINCOUNT");
}

static void look_at_threads(Doctor *d)
{
    const int cores = cores_of_process();
    const int granted = cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    const int usable = granted && granted < cores ? granted : cores;
    const char *number = setting("OMP_NUM_THREADS");
    add(d, "threads", "cores", TEXT("%d", cores), "that this process may run on");
    add(d, "threads", "granted", granted ? TEXT("%d", granted) : "all", "by the limits of its control group");
    add(d, "threads", "used", number ? number : TEXT("%d", usable),
        number ? "OMP_NUM_THREADS" : "one for each core");
    look_at_waiting(d);
    if (number && atoi(number) > usable)
        complain(d, 0, TEXT("OMP_NUM_THREADS=%s, but only %d cores are usable", number, usable),
                 TEXT("OMP_NUM_THREADS=%d, or unset it", usable));
}

/* ---- compiler, cache, linker ---- */

static void look_at_backend(Doctor *d)
{
    const char *error = NULL, *folder = plugin_directory(d->arena);
    add(d, "compiler", "version", MOEC_VERSION, TEXT("build %s", plugin_build_id(d->arena)));
    add(d, "compiler", "LLVM", MOEC_LLVM_VERSION, TEXT("%s/moec-llvm.so", folder));
    if (!plugin_open(d->arena, &error))
        complain(d, 1, TEXT("the back end cannot be opened: %s", error),
                 "install moec-llvm.so beside libmoec, and the LLVM library that it names");
}

static void look_at_cache(Doctor *d)
{
    const char *folder = cache_directory(NULL, d->arena);
    DIR *dir = folder ? opendir(folder) : NULL;
    long long files = 0, bytes = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat s;
        if (fstatat(dirfd(dir), e->d_name, &s, 0) == 0 && S_ISREG(s.st_mode)) {
            files++;
            bytes += s.st_size;
        }
    }
    if (dir)
        closedir(dir);
    add(d, "cache", "folder", folder ? folder : "none",
        setting("MOEC_CACHE") ? "MOEC_CACHE" : "~/.cache/moec");
    add(d, "cache", "holds", TEXT("%lld files, %.1f MB", files, (double)bytes / 1e6), "");
    if (!folder)
        complain(d, 0, "there is no folder for the compile cache: each start compiles anew",
                 "let MOEC_CACHE name a folder of yours");
}

static const char probe[] = "moe 1\ndim T\nkernel doctor(in x: f32[T], out y: f32[T]) { y[t] = 2 * x[t] }\n";

/* The whole path to a shared object, without the cache: back end, linker, room for temporary files. */
static void look_at_path(Doctor *d)
{
    CompileOptions options = compile_defaults;
    Bytes out;
    options.no_cache = 1;
    Compilation *c = compile_new(&options);
    double start = clock_seconds();
    if (!c)
        return;
    compile_text(c, "<doctor>", probe, sizeof probe - 1);
    int status = compile_product(c, PRODUCT_SO, &out);
    add(d, "compiler", "a small kernel", status ? "fails" : TEXT("%.0f ms", 1e3 * (clock_seconds() - start)),
        "compiled and linked now, without the cache");
    if (status)
        complain(d, 1,
                 TEXT("a small kernel does not compile: %.*s", (int)strcspn(c->errors, "\n"), c->errors),
                 "see above, and `moec explain E0952`");
    compile_free(c);
}

/* ---- output ---- */

static void print_text(const Doctor *d)
{
    const char *section = "";
    for (uint32_t i = 0; i < d->rows.len; i++) {
        const DoctorRow *r = &d->rows.at[i];
        if (strcmp(section, r->section) != 0)
            printf("%s%s\n", i ? "\n" : "", r->section);
        section = r->section;
        printf(*r->why ? "  %-16s %-28s %s\n" : "  %-16s %s\n", r->name, r->value, r->why);
    }
    printf("\n");
    for (uint32_t i = 0; i < d->problems.len; i++)
        printf("%s: %s\nhelp: %s\n", d->problems.at[i].fatal ? "error" : "warning", d->problems.at[i].what,
               d->problems.at[i].help);
    if (d->problems.len == 0)
        printf("nothing is wrong\n");
}

static void print_json(const Doctor *d)
{
    json_t *root = json_object(), *problems = json_array();
    for (uint32_t i = 0; i < d->rows.len; i++) {
        const DoctorRow *r = &d->rows.at[i];
        if (!json_object_get(root, r->section))
            json_object_set_new(root, r->section, json_object());
        json_object_set_new(json_object_get(root, r->section), r->name,
                            json_pack("{s:s, s:s}", "value", r->value, "why", r->why));
    }
    for (uint32_t i = 0; i < d->problems.len; i++)
        json_array_append_new(problems, json_pack("{s:s, s:s, s:s}", "severity",
                                                  d->problems.at[i].fatal ? "error" : "warning", "message",
                                                  d->problems.at[i].what, "help", d->problems.at[i].help));
    json_object_set_new(root, "problems", problems);
    printf("%s\n", json_text(d->arena, root));
}

/* ---- the command ---- */

enum { KEY_FORMAT = COMMAND_LAST };

static const struct argp_option doctor_options[] = {
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0}, {0}};

static error_t parse_doctor(int key, char *arg, struct argp_state *state)
{
    int *json = state->input;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is too much", arg);
    if (key == KEY_FORMAT && strcmp(arg, "json") != 0 && strcmp(arg, "text") != 0)
        argp_error(state, "--format takes text or json, not '%s'", arg);
    if (key == KEY_FORMAT)
        *json = strcmp(arg, "json") == 0;
    return key == KEY_FORMAT || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

int command_doctor(int argc, char **argv)
{
    static const struct argp argp = {
        .options = doctor_options,
        .parser = parse_doctor,
        .doc = "Says what the compiler finds on this computer: its CPU and what was measured, the "
               "instruction set that is chosen and "
               "why, threads and how they wait, LLVM, the compile cache, and what is wrong with any of it. "
               "Ends with 1 where "
               "kernels cannot be compiled.",
    };
    int json = 0, fatal = 0;
    cli_parse(&argp, argc, argv, &json);
    Doctor d = {.arena = arena_new()};
    if (!d.arena)
        return command_error("memory is exhausted");
    look_at_cpu(&d);
    look_at_isas(&d);
    measure_memory(&d);
    look_at_threads(&d);
    look_at_backend(&d);
    look_at_path(&d);
    look_at_cache(&d);
    (json ? print_json : print_text)(&d);
    for (uint32_t i = 0; i < d.problems.len; i++)
        fatal |= d.problems.at[i].fatal;
    arena_free(d.arena);
    return fatal ? DRIVER_ERROR : DRIVER_OK;
}
