/* `moec explain FILE [KERNEL]`: what the compiler decided about a file; `moec explain E0123`: the page of a code. */
#include "command/command.h"
#include "explain/explain.h"
#include "frontend/frontend.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_FORMAT = COMMAND_LAST,
    KEY_SPACE,
    KEY_DECISIONS,
    KEY_SEED,
    KEY_TUNED,
    KEY_THREADS,
    KEY_HTML,
    KEY_MACHINE
};

static const struct argp_option explain_options[] = {
    {"target", COMMAND_TARGET, "ISA", 0, "Instruction set, as in `moec --target`", 0},
    {"machine", KEY_MACHINE, "NAME", 0,
     "Decisions for this machine, as in `moec --machine`; of an NPU its plan's", 0},
    COMMAND_TYPE_OPTION,
    COMMAND_ALLOW_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion", 0},
    {"sizes", COMMAND_SIZES, "T=33,...", 0, "Sizes of dimensions: bytes and padding become numbers", 0},
    {"routing", COMMAND_ROUTING, "exact(...)", 0,
     "Rows of each group, where padding depends on them; default: spread evenly", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {"space", KEY_SPACE, NULL, 0,
     "Instead print the space of schedules: every knob with its values, as .moe text", 0},
    {"decisions", KEY_DECISIONS, NULL, 0,
     "Instead print how each launch is laid over loops: blocks, lanes, operands, where sums are accumulated",
     0},
    {"html", KEY_HTML, "FILE", 0,
     "Instead write a page: source, equations after each pass, tiles and machine code beside each other", 0},
    {"tuned-for", KEY_TUNED, "T=2048,...,routing=CLAUSE", 0,
     "As in `moec`, and say which record the schedule is from, or why there is none", 0},
    {"threads", KEY_THREADS, "N", 0, "With --tuned-for: threads of a call; default 1", 0},
    COMMAND_SCHEDULE_OPTION,
    {"schedule-seed", KEY_SEED, "N", 0, "Draw every knob that no schedule fixes from its space", 0},
    {0}};

typedef struct ExplainCommand {
    CompileOptions options;
    CommandCall call;
    const char *html;
    int json, space, decisions;
} ExplainCommand;

static error_t parse_explain(int key, char *arg, struct argp_state *state)
{
    ExplainCommand *c = state->input;
    switch (key) {
    case COMMAND_TARGET: c->options.target = arg; return 0;
    case KEY_MACHINE: c->options.machine = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &c->options.types); return 0;
    case COMMAND_ALLOW: command_allow(state, arg, &c->options.allow); return 0;
    case 'O': c->options.level = (int)command_number(state, "-O", arg, 0, 3); return 0;
    case KEY_SPACE: c->space = 1; return 0;
    case KEY_HTML: c->html = arg; return 0;
    case KEY_DECISIONS: c->decisions = 1; return 0;
    case KEY_TUNED: c->options.tuned_for = command_tuned_for(state, arg); return 0;
    case KEY_THREADS:
        c->options.tuned_threads = (int)command_number(state, "--threads", arg, 1, 4096);
        return 0;
    case COMMAND_SCHEDULE: c->options.schedule = command_schedule(state, "--schedule", arg); return 0;
    case KEY_SEED: c->options.schedule_seed = command_seed(state, arg); return 0;
    case KEY_FORMAT:
        if (strcmp(arg, "json") != 0 && strcmp(arg, "text") != 0)
            argp_error(state, "--format takes text or json, not '%s'", arg);
        c->json = strcmp(arg, "json") == 0;
        return 0;
    case ARGP_KEY_END:
        if (!c->call.path)
            argp_error(state, "which file, or which code? For example: moec explain E0101");
        if (c->space + c->decisions + (c->html != NULL) > 1)
            argp_error(state, "--space, --decisions and --html are printed one at a time");
        command_target(state, c->options.target, c->options.machine);
        if (c->json && (c->space || c->html))
            argp_error(state, "there is no JSON of %s", c->space ? "--space" : "--html");
        command_tuned(state, &c->options);
        return 0;
    default: return command_call(key, arg, state, &c->call);
    }
}

/* ---- sizes ---- */

/* Has the kernel a route, or one of the file's if none is named? What is missing is said later. */
static int has_route(const Module *m, const char *kernel)
{
    int missing = 1;
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        if (kernel && strcmp(k->name, kernel) != 0)
            continue;
        missing = 0;
        if (k->routes.len)
            return 1;
    }
    return missing;
}

/* --sizes and --routing=exact(...); NULL or an error text. Sizes that are not named stay unknown. */
static const char *take_sizes(const ExplainCommand *command, Module *m, Explain *e)
{
    int64_t *sizes = arena_array(m->arena, int64_t, m->dims.len + 1);
    TestRun *run = arena_new_of(m->arena, TestRun);
    for (DimId d = 0; d < m->dims.len; d++)
        sizes[d] = m->dims.at[d].constant;
    const CommandCall *call = &command->call;
    const char *error = call->sizes ? frontend_sizes(m, call->sizes, sizes) : NULL;
    if (!error && call->routing && !has_route(m, call->kernel))
        error = arena_printf(m->arena, "%s has no route: routing=%s would have no effect",
                             call->kernel ? call->kernel : "the file", call->routing);
    if (!error && call->routing)
        error = frontend_routing(m, call->routing, run);
    for (uint32_t i = 0; !error && i < m->kernels.len; i++)
        error = ir_run_flaw(m->kernels.at[i], sizes, run, m->arena);
    e->sizes = sizes;
    if (error || !call->routing)
        return error;
    e->rows = &run->routings.at[0];
    return run->routings.len == 1 && e->rows->kind == ROUTING_EXACT
               ? NULL
               : "only exact(n0, n1, ...) says how many rows each group has";
}

/* ---- the command ---- */

static int write_page(const Explain *e, const ExplainCommand *command)
{
    Text page = {.arena = e->c->arena};
    Output out = {.arena = e->c->arena};
    int status = explain_html(e, command->call.kernel, &page);
    if (status)
        return status;
    const char *error = output_add(&out, command->html, (Bytes){text_string(&page), page.len}, 0);
    if (!error)
        error = output_commit(&out);
    return error ? compile_fail(e->c, DIAG_driver_file, error) : DRIVER_OK;
}

static int explain_file(Compilation *c, void *user)
{
    const ExplainCommand *command = user;
    Explain e = {.c = c};
    int status = compile_prepare(c);
    if (status)
        return status;
    if (c->isas.n != 1)
        return compile_fail(c, DIAG_driver_target, "explain takes one instruction set at a time");
    const char *error = take_sizes(command, c->module, &e);
    if (error)
        return compile_fail(c, DIAG_driver_sizes, error);
    status = explain_make(&e) || explain_collect(&e, command->call.kernel);
    if (status)
        return status;
    if (command->html)
        return write_page(&e, command);
    Text out = {.arena = c->arena};
    explain_hints(&e);
    if (command->space)
        explain_space(&e, &out);
    else if (command->decisions && !command->json)
        explain_decisions(&e, &out);
    else if (!command->json) {
        text_add(&out, "%s%s", text_string(&c->tuned), c->tuned.len ? "\n" : "");
        explain_text(&e, &out);
    }
    printf("%s%s", command->json && !command->space ? explain_json(&e) : text_string(&out),
           command->json && !command->space ? "\n" : "");
    return DRIVER_OK;
}

/* E0123 */
static int is_code(const char *text)
{
    return strchr("EWH", *text) && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
}

int command_explain(int argc, char **argv)
{
    static const struct argp argp = {
        .options = explain_options,
        .parser = parse_explain,
        .args_doc = "FILE.moe [KERNEL] [SIZE=N ...]\nE0123",
        .doc = "Says what the compiler decided about each kernel of a file: which values go straight into "
               "their reader, "
               "how each sum of products is made, and every knob with its value and where that comes from. "
               "With a code: "
               "prints the page of that error, warning or hint.",
    };
    ExplainCommand command = {.options = compile_defaults};
    cli_parse(&argp, argc, argv, &command);
    const char *path = command.call.path, *page = diag_page(path);
    const char *more = command.call.kernel ? command.call.kernel : command.call.sizes;
    if (page && !more) {
        fputs(page, stdout);
        return DRIVER_OK;
    }
    if ((page || is_code(path)) && access(path, F_OK) != 0) {
        if (page)
            fprintf(stderr, "moec: %s is a code, behind which '%s' is too much\n", path, more);
        else
            fprintf(stderr, "moec: there is no error, warning or hint '%s'\n", path);
        return DRIVER_ERROR;
    }
    command.options.color = command_color();
    Compilation *c = compile_new(&command.options);
    if (!c)
        return command_error("out of memory");
    int status = compile_open(c, path);
    if (!status)
        status = compile_guard(c, explain_file, &command);
    command_tell(c, status, 0);
    compile_free(c);
    return status;
}
