#include "step/kernels.h"

#include <string.h>

typedef struct KernelSource {
    const char *file, *text;
    size_t len;
    Text requests;         /* derive blocks that were asked for, */
    size_t requests_read;  /* and how much of their text `read` has */
    Text used;             /* names of kernels that need code, comma separated */
    const char *tuned_for; /* NULL: no tuned schedules are looked for */
    int tuned_threads;
    moec_module *
        read; /* signatures, pairs, the interpreter: the last reading; names of earlier ones are still used */
    moec_module *code; /* after kernels_compile() */
} KernelSource;

struct KernelSet {
    Arena *arena;
    moec_context *compiler;
    const char *types, *error;
    Vec(KernelSource) sources;
    Vec(DeriveRequest) requests;
    Vec(const char *) used;
    Vec(moec_module *) modules; /* all that was ever read or compiled */
};

extern const char source_glue[]; /* step/glue.moe, made by the build */
extern const size_t source_glue_len;

KernelSet *kernels_open(const char *types)
{
    Arena *a = arena_new();
    moec_context *compiler = moec_context_new();
    if (!a || !compiler) {
        if (a)
            arena_free(a);
        if (compiler)
            moec_context_free(compiler);
        return NULL;
    }
    KernelSet *s = arena_new_of(a, KernelSet);
    *s = (KernelSet){.arena = a, .compiler = compiler, .types = types, .error = ""};
    kernels_add(s, "glue.moe", source_glue, source_glue_len);
    return s;
}

void kernels_close(KernelSet *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->modules.len; i++)
        moec_module_free(s->modules.at[i]);
    moec_context_free(s->compiler);
    arena_free(s->arena);
}

const char *kernels_error(const KernelSet *s) { return s->error; }

/* Sets the error of the last call that failed; returns 1. */
static int refuse(KernelSet *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    s->error = arena_vprintf(s->arena, format, args);
    va_end(args);
    return 1;
}

/* Compiles a source with its requests; `kernels` NULL: signatures only. */
static int compile(KernelSet *s, const KernelSource *source, const char *kernels, moec_module **out)
{
    Text derive = source->requests;
    const moec_options options = {.types = s->types,
                                  .derive = derive.len ? text_string(&derive) : NULL,
                                  .kernels = kernels,
                                  .interpret = kernels == NULL,
                                  .tuned_for = kernels ? source->tuned_for : NULL,
                                  .tuned_threads = source->tuned_threads};
    if (!moec_compile_text(s->compiler, source->file, source->text, source->len, &options, out)) {
        vec_push(s->arena, &s->modules, *out);
        return 0;
    }
    return refuse(s, "%s does not compile\n%s", source->file, moec_error_text(s->compiler));
}

int kernels_add(KernelSet *s, const char *file, const char *text, size_t len)
{
    KernelSource source = {
        .file = file, .text = text, .len = len, .requests.arena = s->arena, .used.arena = s->arena};
    if (compile(s, &source, NULL, &source.read))
        return 1;
    vec_push(s->arena, &s->sources, source);
    return 0;
}

static KernelSource *source_of(const KernelSet *s, const char *name)
{
    for (uint32_t i = 0; i < s->sources.len; i++)
        if (moec_module_kernel(s->sources.at[i].read, name))
            return &s->sources.at[i];
    return NULL;
}

const moec_kernel *kernels_find(const KernelSet *s, const char *name)
{
    const KernelSource *source = source_of(s, name);
    return source ? moec_module_kernel(source->read, name) : NULL;
}

const char *kernels_source(const KernelSet *s, const char *name)
{
    const KernelSource *source = source_of(s, name);
    return source ? source->file : NULL;
}

int kernels_pair(const KernelSet *s, const char *from, KernelPair *out)
{
    const KernelSource *source = source_of(s, from);
    for (size_t i = 0; source && i < moec_module_pairs(source->read); i++) {
        *out = (KernelPair){source->read, i, moec_module_pair(source->read, i)};
        if (!strcmp(out->pair.from, from))
            return 1;
    }
    return 0;
}

/* ---- requests ---- */

static const char *const mode_words[] = {
    [WRT_SKIP] = "", [WRT_WRITE] = "", [WRT_WRITE_F32] = " as f32", [WRT_ADD] = " +=", [WRT_PASS] = " pass"};

/* The targets of the first or of the second kernel, behind a word. Returns whether there were any. */
static int add_targets(const KernelPair *p, const WrtMode *modes, int later, const char *word, Text *t)
{
    int any = 0;
    for (size_t i = 0; i < p->pair.gradients; i++) {
        const moec_gradient g = moec_module_gradient(p->module, p->number, i);
        if (modes[i] == WRT_SKIP || g.later != later)
            continue;
        text_add(t, "%s%s%s", any ? ", " : word, g.input, mode_words[modes[i]]);
        any = 1;
    }
    return any;
}

static void add_saves(const KernelPair *p, Text *t)
{
    for (size_t i = 0; i < p->pair.saved; i++) {
        const moec_saved saved = moec_module_saved(p->module, p->number, i);
        text_add(t, "%s%s as %s", i ? ", " : " save ", saved.local, saved.type);
        if (strcmp(saved.param, saved.local) != 0)
            text_add(t, " in %s", saved.param);
    }
}

/* What a request asks for, without the names that it gives. Where no one wants what the first kernel would make, there is no
 * second one. */
static const char *request_body(KernelSet *s, const KernelPair *p, const WrtMode *modes, int *has_later)
{
    Text t = {.arena = s->arena};
    text_add(&t, "from %s", p->pair.from);
    const int has_first = add_targets(p, modes, 0, " wrt ", &t);
    *has_later = add_targets(p, modes, 1, has_first ? " then " : " wrt ", &t) && has_first;
    add_saves(p, &t);
    return text_string(&t);
}

static const DeriveRequest *known_request(const KernelSet *s, const char *body)
{
    for (uint32_t i = 0; i < s->requests.len; i++)
        if (!strcmp(strstr(s->requests.at[i].text, "from "), body))
            return &s->requests.at[i];
    return NULL;
}

DeriveRequest kernels_request(KernelSet *s, const KernelPair *p, const WrtMode *modes)
{
    int has_later;
    const char *body = request_body(s, p, modes, &has_later);
    const DeriveRequest *known = known_request(s, body);
    if (known)
        return *known;
    const unsigned n = s->requests.len;
    KernelSource *source = source_of(s, p->pair.from);
    DeriveRequest r = {.backward = arena_printf(s->arena, "%s_%u", p->pair.backward, n),
                       .source = source->file};
    r.later = has_later ? arena_printf(s->arena, "%s_%u", p->pair.later, n) : NULL;
    r.text = arena_printf(s->arena, "derive (%s_%u, %s%s%s) %s", p->pair.forward, n, r.backward,
                          r.later ? ", " : "", r.later ? r.later : "", body);
    text_add(&source->requests, "%s\n", r.text);
    vec_push(s->arena, &s->requests, r);
    return r;
}

int kernels_read(KernelSet *s)
{
    for (uint32_t i = 0; i < s->sources.len; i++) {
        KernelSource *source = &s->sources.at[i];
        if (source->requests.len == source->requests_read)
            continue;
        if (compile(s, source, NULL, &source->read))
            return 1;
        source->requests_read = source->requests.len;
    }
    return 0;
}

/* ---- code ---- */

int kernels_text(const KernelSet *s, const char *name, KernelText *out)
{
    const KernelSource *source = source_of(s, name);
    if (!source)
        return 0;
    Text derive = source->requests;
    *out = (KernelText){.file = source->file,
                        .text = arena_strndup(s->arena, source->text, source->len),
                        .types = s->types,
                        .derive = derive.len ? text_string(&derive) : NULL};
    return 1;
}

void kernels_tuned_for(KernelSet *s, const char *file, const char *calls, int threads)
{
    for (uint32_t i = 0; i < s->sources.len; i++)
        if (!strcmp(s->sources.at[i].file, file)) {
            s->sources.at[i].tuned_for = arena_printf(s->arena, "%s", calls);
            s->sources.at[i].tuned_threads = threads;
        }
}

void kernels_use(KernelSet *s, const char *name)
{
    for (uint32_t i = 0; i < s->used.len; i++)
        if (!strcmp(s->used.at[i], name))
            return;
    KernelSource *source = source_of(s, name);
    text_add(&source->used, "%s%s", source->used.len ? "," : "", name);
    vec_push(s->arena, &s->used, arena_printf(s->arena, "%s", name));
}

int kernels_compile(KernelSet *s)
{
    for (uint32_t i = 0; i < s->sources.len; i++) {
        KernelSource *source = &s->sources.at[i];
        if (source->used.len && !source->code &&
            compile(s, source, text_string(&source->used), &source->code))
            return 1;
    }
    return 0;
}

const moec_kernel *kernels_code(const KernelSet *s, const char *name)
{
    const KernelSource *source = source_of(s, name);
    return source && source->code ? moec_module_kernel(source->code, name) : NULL;
}

static int64_t work_bytes(const Program *p, const Task *t, const KernelSet *k)
{
    int64_t *dims = arena_array(p->arena, int64_t, t->dims.len + 1);
    const moec_kernel *code = kernels_code(k, p->kernels.at[t->kernel].name);
    for (uint32_t i = 0; i < t->dims.len; i++)
        dims[i] = t->dims.at[i].size;
    return code ? moec_kernel_workspace(code, dims) : -1;
}

int kernels_add_work(KernelSet *k, Program *p)
{
    for (TaskId t = 0; t < p->tasks.len; t++) {
        Task *task = &p->tasks.at[t];
        if (task->kind != TASK_kernel || task->work != STEP_NONE)
            continue;
        const int64_t bytes = work_bytes(p, task, k);
        if (bytes < 0)
            return refuse(k, "kernel %s: its work space at these sizes is out of range",
                          p->kernels.at[task->kernel].name);
        if (bytes > 0)
            task->work = step_add(p, (StepBuffer){.name = arena_printf(p->arena, "work.%u", t),
                                                  .owner = OWNER_work,
                                                  .bytes = bytes,
                                                  .rank = 0,
                                                  .base = STEP_NONE});
    }
    return 0;
}
