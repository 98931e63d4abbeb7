/* `moec explain --html`: one page with the source, the equations after each pass, the tiles and the machine code beside each other; a line
 * of the source shows what became of it. Made from the texts that the command prints anyway, by the lines that these name. */
#include "explain/explain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ViewPage {
    const Explain *e;
    Arena *arena;
    Text *out;
    Name kernel; /* only this one; NULL: all */
} ViewPage;

static const char style[] =
    "body{font:14px/1.4 "
    "system-ui,sans-serif;margin:0;color:#222;background:#fff;display:flex;flex-direction:column;height:"
    "100vh}"
    "header{padding:.4em 1em;border-bottom:1px solid #ccc}h1{font-size:1.1em;margin:0;display:inline}"
    ".note{color:#666;margin-left:1em}main{display:flex;flex:1;min-height:0}"
    "section{flex:1;min-width:0;display:flex;flex-direction:column;border-right:1px solid #ccc}"
    "h2{font-size:1em;margin:0;padding:.3em .6em;background:#f2f2f2}"
    "pre{flex:1;overflow:auto;margin:0;padding:.4em 0;font:12px/1.5 ui-monospace,monospace}"
    ".l{display:block;padding:0 "
    ".6em}.l[data-l]{cursor:pointer}.n{color:#999;user-select:none}.on{background:#ffe9a8}[hidden]{display:"
    "none}";

/* Lines of one number belong together: the mouse shows them, a click also scrolls to them. */
static const char script[] =
    "const all=n=>document.querySelectorAll('[data-l=\"'+n+'\"]');let at=null;"
    "function "
    "show(n){if(at)all(at).forEach(x=>x.classList.remove('on'));at=n;if(n)all(n).forEach(x=>x.classList.add('"
    "on'))}"
    "document.addEventListener('mouseover',e=>{const x=e.target.closest('.l');if(x)show(x.dataset.l)});"
    "document.addEventListener('click',e=>{const x=e.target.closest('.l[data-l]');if(!x)return;"
    "document.querySelectorAll('pre').forEach(p=>{if(p.hidden||p.contains(x))return;"
    "const y=p.querySelector('[data-l=\"'+x.dataset.l+'\"]');if(y)p.scrollTop=y.offsetTop-p.offsetTop-40})});"
    "const "
    "pick=document.getElementById('pass');if(pick)pick.onchange=()=>document.querySelectorAll('[data-pass]')"
    ".forEach(p=>p.hidden=p.dataset.pass!==pick.value);";

/* ---- lines ---- */

typedef struct ViewLine {
    const char *at;
    size_t len;
} ViewLine;

/* 0: there is none. */
static int next_line(const char **text, ViewLine *line)
{
    if (!**text)
        return 0;
    const char *end = strchr(*text, '\n');
    *line = (ViewLine){*text, end ? (size_t)(end - *text) : strlen(*text)};
    *text = end ? end + 1 : *text + line->len;
    return 1;
}

/* number 0: of no line of the source. */
static void put_line(ViewPage *p, ViewLine line, uint32_t number)
{
    text_add(p->out, number ? "<span class=\"l\" data-l=\"%u\">" : "<span class=\"l\">", number);
    text_add_html(p->out, line.at, line.len);
    text_add(p->out, "\n</span>");
}

static int begins(ViewLine line, const char *word)
{
    return line.len >= strlen(word) && memcmp(line.at, word, strlen(word)) == 0;
}

/* Follows which kernel the lines are of. */
typedef struct ViewScope {
    const Kernel *k; /* NULL: of none */
    int hidden;      /* of one that is not asked for */
} ViewScope;

static Name word_at(const ViewPage *p, const char *at, size_t len)
{
    size_t n = 0;
    while (n < len && (isalnum((unsigned char)at[n]) || at[n] == '_'))
        n++;
    return name_of_bytes(p->e->m->names, at, n);
}

/* Of a text in the form of .moe: a `}` at the beginning of a line ends a block. */
static void follow(const ViewPage *p, ViewScope *s, ViewLine line)
{
    static const char kernel[] = "kernel ", schedule[] = "schedule ", test[] = "test ";
    const char *const words[] = {kernel, schedule, test};
    for (int i = 0; i < 3; i++) {
        if (!begins(line, words[i]))
            continue;
        size_t n = strlen(words[i]);
        Name name = word_at(p, line.at + n, line.len - n);
        s->k = ir_find_kernel(p->e->m, name);
        s->hidden = p->kernel && name != p->kernel;
    }
}

static void unfollow(ViewScope *s, ViewLine line)
{
    if (line.len && line.at[line.len - 1] == '}' && *line.at != ' ')
        *s = (ViewScope){.k = NULL};
}

/* ---- panes ---- */

static void put_source(ViewPage *p)
{
    const char *text = p->e->c->text.at;
    ViewLine line;
    text_add(p->out, "<section><h2>source</h2><pre>");
    for (uint32_t n = 1; next_line(&text, &line); n++) {
        text_add(p->out, "<span class=\"l\" data-l=\"%u\"><span class=\"n\">%4u </span>", n, n);
        text_add_html(p->out, line.at, line.len);
        text_add(p->out, "\n</span>");
    }
    text_add(p->out, "</pre></section>\n");
}

/* Programs are read more than once, and each reading has files of its own. */
static int is_of_source(const ViewPage *p, Loc loc)
{
    const Diags *d = &p->e->c->diags;
    return loc.line && loc.file < d->files.len && strcmp(d->files.at[loc.file].path, p->e->c->path) == 0;
}

/* Where the tensor is defined: by its equation, or by one that was fused away, which its own place stands for. 0: in another file. */
static uint32_t defined_line(const ViewPage *p, const Kernel *k, TensorId t)
{
    Loc loc = k->tensors.at[t].loc;
    for (uint32_t q = 0; q < k->eqs.len; q++)
        if (k->eqs.at[q].lhs == t && k->eqs.at[q].loc.line) {
            loc = k->eqs.at[q].loc;
            break;
        }
    return is_of_source(p, loc) ? loc.line : 0;
}

/* Of the line in which an equation of the kernel begins, that of the source. */
static uint32_t equation_line(const ViewPage *p, const ViewScope *s, ViewLine line)
{
    size_t indent = 0;
    while (indent < line.len && line.at[indent] == ' ')
        indent++;
    TensorId t = s->k && indent == 2 ? ir_find_tensor(s->k, word_at(p, line.at + 2, line.len - 2)) : NONE;
    return t == NONE ? 0 : defined_line(p, s->k, t);
}

static void put_equations(ViewPage *p, const char *text)
{
    ViewScope s = {.k = NULL};
    ViewLine line;
    uint32_t number = 0;
    while (next_line(&text, &line)) {
        follow(p, &s, line);
        uint32_t own = equation_line(p, &s, line);
        number = own || !begins(line, "    ") ? own : number; /* an equation may go on in further lines */
        if (!s.hidden)
            put_line(p, line, number);
        unfollow(&s, line);
    }
}

static void put_passes(ViewPage *p, const DumpList *dumps)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < dumps->len; i++)
        last = dumps->at[i].pass->level < LEVEL_TILES ? i : last;
    text_add(p->out, "<section><h2>equations after <select id=\"pass\">");
    for (uint32_t i = 0; i < dumps->len; i++)
        if (dumps->at[i].pass->level < LEVEL_TILES)
            text_add(p->out, "<option value=\"%u\"%s>%s</option>", i, i == last ? " selected" : "",
                     dumps->at[i].pass->name);
    text_add(p->out, "</select></h2>");
    for (uint32_t i = 0; i < dumps->len; i++) {
        if (dumps->at[i].pass->level >= LEVEL_TILES)
            continue;
        text_add(p->out, "<pre data-pass=\"%u\"%s>", i, i == last ? "" : " hidden");
        put_equations(p, dumps->at[i].text);
        text_add(p->out, "</pre>");
    }
    text_add(p->out, "</section>\n");
}

/* `@16` at the end of a statement, before the `{` of its body; 0: there is none. */
static uint32_t stated_line(ViewLine line)
{
    size_t end = line.len;
    end -= end > 2 && line.at[end - 1] == '{' ? 2 : 0;
    size_t at = end;
    while (at && isdigit((unsigned char)line.at[at - 1]))
        at--;
    return at > 1 && at < end && line.at[at - 1] == '@' && line.at[at - 2] == ' '
               ? (uint32_t)strtoul(line.at + at, NULL, 10)
               : 0;
}

/* A statement that names no line is of that of the statement around it. */
static void put_tiles(ViewPage *p, const char *text)
{
    Vec(uint32_t) around = {0};
    ViewScope s = {.k = NULL};
    ViewLine line;
    text_add(p->out, "<section><h2>tiles</h2><pre>");
    while (next_line(&text, &line)) {
        uint32_t outer = around.len ? around.at[around.len - 1] : 0, own = stated_line(line);
        follow(p, &s, line);
        int closes = line.len && line.at[line.len - 1] == '}' && around.len;
        if (!s.hidden)
            put_line(p, line, own ? own : closes ? 0 : outer);
        around.len -= closes ? 1 : 0;
        if (line.len && line.at[line.len - 1] == '{')
            vec_push(p->arena, &around, own ? own : outer);
        unfollow(&s, line);
    }
    text_add(p->out, "</pre></section>\n");
}

/* A function of a launch is called KERNEL.ISA. ... */
static int is_of_kernel(const ViewPage *p, ViewLine label)
{
    for (uint32_t i = 0; i < p->e->m->kernels.len; i++) {
        Name name = p->e->m->kernels.at[i]->name;
        size_t n = strlen(name);
        if (label.len > n && memcmp(label.at, name, n) == 0 && label.at[n] == '.' &&
            (!p->kernel || p->kernel == name))
            return 1;
    }
    return 0;
}

/* Instructions and labels of functions that compute; `.loc FILE LINE ...` says of which line the next ones are. */
static void put_assembly(ViewPage *p, const char *text)
{
    int shown = 0;
    uint32_t number = 0;
    ViewLine line;
    text_add(p->out, "<section><h2>machine code for %s</h2><pre>", cpu_table[p->e->isa].name);
    while (next_line(&text, &line)) {
        unsigned file, at;
        const int is_label =
            line.len && !isspace((unsigned char)*line.at) && *line.at != '.' && *line.at != '#';
        if (is_label)
            shown = is_of_kernel(p, line);
        if (begins(line, "\t.loc") && sscanf(line.at, "\t.loc %u %u", &file, &at) == 2)
            number = file == 1 ? at : 0;
        if (begins(line, "\t.section"))
            shown = 0;
        if (shown && !begins(line, "\t.") && !begins(line, ".Lfunc") && !begins(line, ".Ltmp"))
            put_line(p, line, is_label ? 0 : number);
    }
    text_add(p->out, "</pre></section>\n");
}

/* ---- the page ---- */

static void put_page(const Explain *e, const char *kernel, const DumpList *dumps, const char *assembly,
                     Text *out)
{
    ViewPage p = {
        .e = e, .arena = out->arena, .out = out, .kernel = kernel ? name_of(e->m->names, kernel) : NULL};
    const Dump *tiles = NULL;
    for (uint32_t i = 0; i < dumps->len; i++)
        tiles = dumps->at[i].pass->level >= LEVEL_TILES ? &dumps->at[i] : tiles;
    text_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>");
    text_add_html(out, e->c->path, strlen(e->c->path));
    text_add(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<header><h1>", style);
    text_add_html(out, e->c->path, strlen(e->c->path));
    text_add(out, "</h1><span class=\"note\">the mouse shows what belongs together, a click goes "
                  "there</span></header>\n<main>\n");
    put_source(&p);
    put_passes(&p, dumps);
    if (tiles)
        put_tiles(&p, tiles->text);
    put_assembly(&p, assembly);
    text_add(out, "</main>\n<script>%s</script>\n</body>\n</html>\n", script);
}

/* ---- the texts ---- */

/* The same program and options in a compilation of their own. NULL: no memory. */
static Compilation *again(const Compilation *c, CompileOptions o)
{
    Compilation *own = compile_new(&o);
    if (own)
        compile_text(own, c->path, c->text.at, c->text.len);
    return own;
}

int explain_html(const Explain *e, const char *kernel, Text *out)
{
    CompileOptions dumping = e->c->options, debugging = e->c->options;
    dumping.dump = "";
    debugging.debug = 1;
    Compilation *passes = again(e->c, dumping), *code = again(e->c, debugging);
    Bytes tiles, assembly;
    int status = passes && code ? DRIVER_OK : DRIVER_ERROR;
    if (!status)
        status = compile_product(passes, PRODUCT_TILES, &tiles);
    if (!status)
        status = compile_product(code, PRODUCT_ASM, &assembly);
    if (!status)
        put_page(e, kernel, &passes->dump, assembly.at, out);
    compile_free(passes);
    compile_free(code);
    return status ? compile_fail(e->c, DIAG_driver_backend,
                                 "the page cannot be made: there is no code of this program")
                  : DRIVER_OK;
}
