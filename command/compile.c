/* `moec FILE.moe -o kernel.so`, and `moec check FILE`. */
#include "command/command.h"

#include "explain/explain.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_EMIT = COMMAND_LAST,
    KEY_DUMP,
    KEY_DUMP_DIR,
    KEY_VERIFY,
    KEY_STOP,
    KEY_START,
    KEY_LIMIT,
    KEY_TIME,
    KEY_FORMAT,
    KEY_NO_CACHE,
    KEY_WERROR,
    KEY_SEED,
    KEY_TUNED,
    KEY_THREADS,
    KEY_MACHINE,
    KEY_BREAK,
    KEY_SONAME
};

static const struct argp_option compile_options[] = {
    {"output", 'o', "FILE", 0,
     "Output; its ending chooses what is written (.so .o .s .ll .h .json .moe .moetiles), "
     "and beside a .so or .o its header appears. '-' is the standard output",
     0},
    {"emit", KEY_EMIT, "WHAT", 0,
     "ir, tiles, llvm, asm, obj, so, header or manifest; without -o to the standard output", 0},
    {"target", COMMAND_TARGET, "ISA,...", 0,
     "Instruction sets: host (default; MOE_ISA forces which), all, or some of those that `moec machines "
     "host` "
     "lists. Several are all compiled and chosen from at load time",
     0},
    {"machine", KEY_MACHINE, "NAME", 0,
     "Take the blocks of this machine (`moec machines` lists them, NAME.json is read from a file); for an "
     "NPU --emit=tiles "
     "writes the plan",
     0},
    COMMAND_TYPE_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion, plain code; up to 3. Default 2", 0},
    {NULL, 'g', NULL, 0, "Debugging information: gdb stops at lines of the .moe file", 0},
    {"no-cache", KEY_NO_CACHE, NULL, 0,
     "Neither read nor write the compile cache ($MOEC_CACHE, else ~/.cache/moec)", 0},
    {"soname", KEY_SONAME, "NAME", 0,
     "The SONAME of a .so: programs that are linked with it look for that name; without, for its path", 0},
    {"werror", KEY_WERROR, NULL, 0, "Warnings are errors", 0},
    COMMAND_ALLOW_OPTION,
    {"error-format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {NULL, 0, NULL, 0, "Looking inside (`moec passes` lists the passes):", 2},
    {"dump-ir", KEY_DUMP, "PASS,...", OPTION_ARG_OPTIONAL,
     "Print the program after each pass that changed it, or after those named", 2},
    {"dump-dir", KEY_DUMP_DIR, "DIR", 0,
     "Into numbered files of this folder, DIR/01-PASS.moe; alone: after each pass", 2},
    {"verify-each", KEY_VERIFY, NULL, 0, "Verify after every pass", 2},
    {"stop-after", KEY_STOP, "PASS", 0, "Stop there; what there is then is the output", 2},
    {"start-at", KEY_START, "PASS", 0,
     "The input has been through the passes before; 'tiles': it is the tile level", 2},
    {"pass-limit", KEY_LIMIT, "N", 0, "Stop after N passes, to bisect", 2},
    {"time-passes", KEY_TIME, NULL, 0, "Print the time of each pass", 2},
    {"tuned-for", KEY_TUNED, "T=2048,...,routing=CLAUSE", 0,
     "What calls will be like: take a schedule that `moec tune` found for that", 2},
    {"threads", KEY_THREADS, "N", 0, "With --tuned-for: threads of a call; default 1", 2},
    {"schedule", COMMAND_SCHEDULE, "TEXT|FILE", 0, "Schedule blocks instead of the file's", 2},
    {"schedule-seed", KEY_SEED, "N", 0,
     "Draw every knob that no schedule fixes from its space; 0 (default): the usual values", 2},
    {"break-in", KEY_BREAK, "PASS", OPTION_HIDDEN, "End in an internal error there, to see what it leaves",
     2},
    {0}};

typedef struct CompileCommand {
    CompileOptions options;
    const char *input, *output, *dump_dir;
    CompileProduct product; /* PRODUCT_COUNT: not said */
    int json;
} CompileCommand;

/* ---- options ---- */

static const struct {
    const char *emit, *ending;
} products[PRODUCT_COUNT] = {
    [PRODUCT_IR] = {"ir", ".moe"},       [PRODUCT_TILES] = {"tiles", ".moetiles"},
    [PRODUCT_LLVM] = {"llvm", ".ll"},    [PRODUCT_ASM] = {"asm", ".s"},
    [PRODUCT_OBJECT] = {"obj", ".o"},    [PRODUCT_SO] = {"so", ".so"},
    [PRODUCT_HEADER] = {"header", ".h"}, [PRODUCT_MANIFEST] = {"manifest", ".json"},
};

static CompileProduct product_named(const char *emit)
{
    for (CompileProduct p = 0; p < PRODUCT_COUNT; p++)
        if (strcmp(products[p].emit, emit) == 0)
            return p;
    return PRODUCT_COUNT;
}

static CompileProduct product_of_path(const char *path)
{
    const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
    for (CompileProduct p = 0; dot && p < PRODUCT_COUNT; p++)
        if (strcmp(products[p].ending, dot) == 0)
            return p;
    return dot && strcmp(dot, ".moeir") == 0 ? PRODUCT_IR : PRODUCT_COUNT;
}

static void parse_words(CompileCommand *c, int key, const char *arg, struct argp_state *state)
{
    if (key == KEY_EMIT) {
        c->product = product_named(arg);
        if (c->product == PRODUCT_COUNT)
            argp_error(state, "--emit takes ir, tiles, llvm, asm, obj, so, header or manifest, not '%s'",
                       arg);
    } else if (strcmp(arg, "json") != 0 && strcmp(arg, "text") != 0) {
        argp_error(state, "--error-format takes text or json, not '%s'", arg);
    } else {
        c->json = strcmp(arg, "json") == 0;
    }
}

static int stops_at_tiles(const char *pass)
{
    const Pass *p = pass_find(pass);
    return p && p->level >= LEVEL_TILES;
}

/* Asked to look, not to write. A replay says itself what is made, which is not written: it is there to fail. */
static int is_looked_at(const CompileCommand *c)
{
    return c->options.dump || c->options.time_passes || compile_is_replay(c->input);
}

/* --emit, else the ending of -o: where it says something, it must say the same. */
static void settle_product(CompileCommand *c, struct argp_state *state)
{
    const CompileProduct ending = c->output ? product_of_path(c->output) : PRODUCT_COUNT;
    if (c->product == PRODUCT_COUNT)
        c->product = ending;
    else if (ending != PRODUCT_COUNT && ending != c->product)
        argp_error(state, "--emit=%s, but the ending of '%s' is that of --emit=%s", products[c->product].emit,
                   c->output, products[ending].emit);
}

/* What follows from all options together. */
static void settle(CompileCommand *c, struct argp_state *state)
{
    if (!c->input)
        argp_error(state, "no input file; `moec help` lists the commands");
    settle_product(c, state);
    if (c->product == PRODUCT_COUNT && c->options.stop_after)
        c->product = stops_at_tiles(c->options.stop_after) ? PRODUCT_TILES : PRODUCT_IR;
    if (c->product == PRODUCT_COUNT && !(is_looked_at(c) && !c->output))
        argp_error(state,
                   c->output ? "the ending of '%s' does not say what to write; --emit does"
                             : "say what to write: -o kernel.so, or --emit to the standard output%s",
                   c->output ? c->output : "");
    command_tuned(state, &c->options);
    command_target(state, c->options.target, c->options.machine);
    command_needs(state, c->options.soname != NULL, "--soname", c->product == PRODUCT_SO, "-o FILE.so");
    int binary = c->product == PRODUCT_SO || c->product == PRODUCT_OBJECT;
    if (binary && !c->output && !is_looked_at(c) && isatty(STDOUT_FILENO))
        argp_error(state, "machine code is not written to a terminal: give -o");
}

static error_t parse_compile(int key, char *arg, struct argp_state *state)
{
    CompileCommand *c = state->input;
    switch (key) {
    case 'o': c->output = arg; return 0;
    case 'O': c->options.level = (int)command_number(state, "-O", arg, 0, 3); return 0;
    case 'g': c->options.debug = 1; return 0;
    case COMMAND_TARGET: c->options.target = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &c->options.types); return 0;
    case KEY_EMIT:
    case KEY_FORMAT: parse_words(c, key, arg, state); return 0;
    case KEY_DUMP: c->options.dump = arg ? arg : ""; return 0;
    case KEY_DUMP_DIR:
        c->dump_dir = arg;
        c->options.dump = c->options.dump ? c->options.dump : "";
        return 0;
    case KEY_VERIFY: c->options.verify_each = 1; return 0;
    case KEY_STOP: c->options.stop_after = arg; return 0;
    case KEY_START: c->options.start_at = arg; return 0;
    case KEY_LIMIT: c->options.limit = (int)command_number(state, "--pass-limit", arg, 0, 1000000); return 0;
    case KEY_BREAK: c->options.break_in = arg; return 0;
    case KEY_TIME: c->options.time_passes = 1; return 0;
    case KEY_MACHINE: c->options.machine = arg; return 0;
    case COMMAND_SCHEDULE: c->options.schedule = command_schedule(state, "--schedule", arg); return 0;
    case KEY_SEED: c->options.schedule_seed = command_seed(state, arg); return 0;
    case KEY_TUNED: c->options.tuned_for = command_tuned_for(state, arg); return 0;
    case KEY_THREADS:
        c->options.tuned_threads = (int)command_number(state, "--threads", arg, 1, 4096);
        return 0;
    case KEY_NO_CACHE: c->options.no_cache = 1; return 0;
    case KEY_SONAME:
        if (!*arg || strchr(arg, '/') || strlen(arg) > NAME_MAX)
            argp_error(state, "--soname takes the name of a file, not '%s'", arg);
        c->options.soname = arg;
        return 0;
    case KEY_WERROR: c->options.werror = 1; return 0;
    case COMMAND_ALLOW: command_allow(state, arg, &c->options.allow); return 0;
    case ARGP_KEY_ARG:
        if (c->input)
            argp_error(state, "one input file at a time: '%s' and '%s'", c->input, arg);
        c->input = arg;
        return 0;
    case ARGP_KEY_END: settle(c, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- output ---- */

static int is_input(const CompileCommand *c)
{
    struct stat in, out;
    return stat(c->input, &in) == 0 && stat(c->output, &out) == 0 && in.st_dev == out.st_dev &&
           in.st_ino == out.st_ino;
}

/* kernel.so -> kernel.h; NULL when there is no such place (a device, another ending). */
static const char *header_path(const CompileCommand *c, Arena *a)
{
    size_t len = strlen(c->output);
    struct stat s;
    int ending = product_of_path(c->output) == c->product;
    int device = stat(c->output, &s) == 0 && !S_ISREG(s.st_mode);
    if (!ending || device || (c->product != PRODUCT_SO && c->product != PRODUCT_OBJECT))
        return NULL;
    return arena_printf(a, "%.*s.h", (int)(len - strlen(products[c->product].ending)), c->output);
}

/* Nobody's hand-written header is overwritten because a kernel has the same name. */
static const char *check_header_is_ours(const char *path, Arena *a)
{
    static const char mark[] = "/* Written by moec ";
    char start[sizeof mark - 1];
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t n = fread(start, 1, sizeof start, f);
    fclose(f);
    if (n == 0 || (n == sizeof start && memcmp(start, mark, n) == 0))
        return NULL;
    return arena_printf(a, "%s: exists and was not written by moec: choose another -o, or remove it", path);
}

typedef struct WriteOrder {
    const CompileCommand *command;
    Bytes bytes;
} WriteOrder;

static int write_output(Compilation *c, void *user)
{
    const WriteOrder *w = user;
    const CompileCommand *command = w->command;
    Output out = {.arena = c->arena};
    const char *error = NULL;
    if (!command->output && is_looked_at(command))
        return DRIVER_OK;
    if (command->output && is_input(command))
        error = arena_printf(c->arena, "%s: is the input", command->output);
    const char *header = !error && command->output ? header_path(command, c->arena) : NULL;
    if (header)
        error = check_header_is_ours(header, c->arena);
    if (!error)
        error = output_add(&out, command->output ? command->output : "-", w->bytes,
                           command->product == PRODUCT_SO);
    if (!error && header)
        error = output_add(&out, header, c->header, 0);
    if (!error)
        error = output_commit(&out);
    return error ? compile_fail(c, DIAG_driver_file, error) : DRIVER_OK;
}

/* The dumps as files that appear together; NULL or an error text. */
static const char *write_dumps(const Compilation *c, const char *dir)
{
    Output out = {.arena = c->arena};
    const char *error = NULL;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return arena_printf(c->arena, "%s: cannot be made: %s", dir, strerror(errno));
    for (uint32_t i = 0; i < c->dump.len && !error; i++) {
        const Dump *d = &c->dump.at[i];
        const char *ending = products[d->pass->level >= LEVEL_TILES ? PRODUCT_TILES : PRODUCT_IR].ending;
        const char *path = arena_printf(c->arena, "%s/%02u-%s%s", dir, i + 1, d->pass->name, ending);
        error = output_add(&out, path, (Bytes){d->text, strlen(d->text)}, 0);
    }
    return error ? error : output_commit(&out);
}

static int put_dumps(Compilation *c, void *user)
{
    const CompileCommand *command = user;
    if (command->dump_dir) {
        const char *error = write_dumps(c, command->dump_dir);
        return error ? compile_fail(c, DIAG_driver_file, error) : DRIVER_OK;
    }
    for (uint32_t i = 0; i < c->dump.len; i++)
        fprintf(stderr, "// after %s\n%s", c->dump.at[i].pass->name, c->dump.at[i].text);
    return DRIVER_OK;
}

static int compile_and_write(Compilation *c, CompileCommand *command)
{
    WriteOrder order = {.command = command};
    int status = compile_open(c, command->input);
    if (!status) {
        if (command->product == PRODUCT_COUNT && compile_is_replay(command->input))
            command->product = c->product;
        status = compile_product(c, command->product, &order.bytes);
        int put = compile_guard(c, put_dumps, command);
        fputs(text_string(&c->times), stderr);
        status = status ? status : put;
    }
    if (!status)
        status = compile_guard(c, write_output, &order);
    return command_tell(c, status, command->json);
}

int command_compile(int argc, char **argv)
{
    static const struct argp argp = {
        .options = compile_options,
        .parser = parse_compile,
        .args_doc = "FILE.moe -o kernel.so"
#define COMMAND(name, arguments, doc) "\n" #name " " arguments
#include "command/commands.def"
        ,
        .doc = "Compiles tensor kernels written as equations.\v"
               "Commands (`moec COMMAND --help` has their options; docs/cli.md has examples):\n"
#define COMMAND(name, arguments, doc) "  " #name ": " doc "\n"
#include "command/commands.def"
               "\nExit codes: 0 success, 1 an error of the input, 2 usage, 3 internal error. A failed "
               "compilation "
               "leaves no output.",
    };
    CompileCommand command = {.options = compile_defaults, .product = PRODUCT_COUNT};
    cli_parse(&argp, argc, argv, &command);
    command.options.color = command_color();
    Compilation *c = compile_new(&command.options);
    if (!c)
        return command_error("out of memory");
    int status = compile_and_write(c, &command);
    compile_free(c);
    return status;
}

/* ---- check ---- */

static const struct argp_option check_options[] = {
    COMMAND_TYPE_OPTION,
    {"machine", KEY_MACHINE, "NAME", 0, "Also whether all kernels fit this machine, as in `moec --machine`",
     0},
    {"werror", KEY_WERROR, NULL, 0, "Warnings are errors", 0},
    COMMAND_ALLOW_OPTION,
    {"error-format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {0}};

static error_t parse_check(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_END && !((CompileCommand *)state->input)->input)
        argp_error(state, "no input file");
    return key == ARGP_KEY_END ? 0 : parse_compile(key, arg, state);
}

int command_check(int argc, char **argv)
{
    static const struct argp argp = {
        .options = check_options,
        .parser = parse_check,
        .args_doc = "FILE.moe",
        .doc = "Reports errors, warnings and hints of a file and of what it asks to derive. Makes no output.",
    };
    Bytes tiles;
    CompileCommand command = {.options = compile_defaults, .product = PRODUCT_COUNT};
    cli_parse(&argp, argc, argv, &command);
    command.options.color = command_color();
    Compilation *c = compile_new(&command.options);
    if (!c)
        return command_error("out of memory");
    int status = compile_open(c, command.input);
    if (!status)
        status = command.options.machine ? compile_product(c, PRODUCT_TILES, &tiles) : explain_check(c);
    command_tell(c, status, command.json);
    compile_free(c);
    return status;
}
