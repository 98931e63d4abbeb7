/* Rows of an experiment as CSV (RFC 4180), a line for each: Note [Rows]. */
#include "tuner/experiment.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- fields ---- */

typedef const char *Field_text;
typedef double Field_real;
typedef int64_t Field_integer;

static void put_text(Text *t, const char *value)
{
    int quoted = value && strpbrk(value, ",\"") != NULL;
    if (quoted)
        text_add(t, "\"");
    for (const char *p = value ? value : ""; *p; p++)
        text_add(t, *p == '"' ? "\"\"" : "%c", *p == '\n' ? ' ' : *p); /* a row is a line */
    if (quoted)
        text_add(t, "\"");
}

static void put_real(Text *t, double value)
{
    if (isfinite(value))
        text_add(t, "%.6g", value);
}

static void put_integer(Text *t, int64_t value) { text_add(t, "%lld", (long long)value); }

static Field_text take_text(Arena *a, const char *field)
{
    (void)a;
    return field;
}

static Field_real take_real(Arena *a, const char *field)
{
    (void)a;
    return *field ? strtod(field, NULL) : NAN;
}

static Field_integer take_integer(Arena *a, const char *field)
{
    (void)a;
    return strtoll(field, NULL, 10);
}

/* The next field of a line; *at is behind it, or NULL after the last one. */
static const char *next_field(Arena *a, const char **at)
{
    Text t = {.arena = a};
    const char *p = *at;
    if (*p == '"') {
        for (p++; *p && (*p != '"' || p[1] == '"'); p++) {
            p += *p == '"';
            text_add(&t, "%c", *p);
        }
        p += *p == '"';
    } else {
        size_t n = strcspn(p, ",");
        text_add_bytes(&t, p, n);
        p += n;
    }
    *at = *p == ',' ? p + 1 : NULL;
    return text_string(&t);
}

/* ---- lines ---- */

static const char *head(Arena *a)
{
    Text t = {.arena = a};
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        text_add(&t, "%s%s", i ? "," : "", grid_columns[i]);
#define COLUMN(kind, name) text_add(&t, ",%s", #name);
#include "tuner/rows.def"
    return text_string(&t);
}

static void put_row(Text *t, const GridRow *r)
{
    for (GridAxisId i = 0; i < GRID_AXES; i++) {
        text_add(t, "%s", i ? "," : "");
        put_text(t, r->axis[i]);
    }
#define COLUMN(kind, name) \
    text_add(t, ",");      \
    put_##kind(t, r->name);
#include "tuner/rows.def"
    text_add(t, "\n");
}

/* Fields that a line lacks are empty. */
static GridRow take_row(Arena *a, const char *line)
{
    GridRow r;
    const char *at = line;
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        r.axis[i] = at ? next_field(a, &at) : "";
#define COLUMN(kind, name) r.name = take_##kind(a, at ? next_field(a, &at) : "");
#include "tuner/rows.def"
    return r;
}

/* ---- the file ---- */

static const char *cannot(const GridRows *r, const char *what)
{
    return arena_printf(r->arena, "%s: cannot be %s: %s", r->path, what, strerror(errno));
}

static const char *read_whole(const GridRows *r, int fd, Text *t)
{
    char part[1 << 16];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0)
        text_add_bytes(t, part, (size_t)n);
    return n < 0 ? cannot(r, "read") : NULL;
}

static const char *take_lines(GridRows *r, char *text, size_t *whole)
{
    char *line = text, *end;
    int first = 1;
    for (; (end = strchr(line, '\n')); line = end + 1, first = 0) {
        *end = '\0';
        if (first && strcmp(line, head(r->arena)) != 0)
            return arena_printf(r->arena, "%s: has other columns than the rows of an experiment", r->path);
        if (!first)
            vec_push(r->arena, &r->rows, take_row(r->arena, line));
    }
    *whole = (size_t)(line - text);
    return NULL;
}

static const char *write_all(const GridRows *r, const char *text, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t some = write(r->fd, text + done, n - done);
        if (some < 0 && errno != EINTR)
            return cannot(r, "written");
        done += some > 0 ? (size_t)some : 0;
    }
    return fdatasync(r->fd) ? cannot(r, "written") : NULL;
}

/* The part of a line that a kill has left goes; a new file gets its head. */
static const char *mend(GridRows *r, size_t whole)
{
    if (ftruncate(r->fd, (off_t)whole) || lseek(r->fd, 0, SEEK_END) < 0)
        return cannot(r, "written");
    const char *line = arena_printf(r->arena, "%s\n", head(r->arena));
    return whole ? NULL : write_all(r, line, strlen(line));
}

const char *rows_open(GridRows *r, Arena *a, const char *path, int write)
{
    Text t = {.arena = a};
    size_t whole = 0;
    *r = (GridRows){.arena = a,
                    .path = path,
                    .fd = open(path, write ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666)};
    if (r->fd < 0)
        return cannot(r, write ? "written" : "read");
    const char *error = write && flock(r->fd, LOCK_EX | LOCK_NB)
                            ? arena_printf(a, "%s: another run writes there", path)
                            : read_whole(r, r->fd, &t);
    if (!error && t.len)
        error = take_lines(r, t.at, &whole);
    if (!error && write)
        error = mend(r, whole);
    if (!write || error)
        rows_close(r);
    return error;
}

void rows_close(GridRows *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

GridRow row_of(const Experiment *e, const GridPoint *p)
{
    GridRow r = {.state = ""};
    for (GridAxisId i = 0; i < GRID_AXES; i++)
        r.axis[i] = grid_value(e, p, i)->name;
    r.seconds = r.lower = r.upper = r.ratio = r.ratio_lower = r.ratio_upper = r.low = r.high = r.first =
        r.first_lower = r.first_upper = r.load = NAN;
    return r;
}

static int is_of(const GridRow *row, const Experiment *e, const GridPoint *p)
{
    int same = 1;
    for (GridAxisId i = 0; i < GRID_AXES && same; i++)
        same = strcmp(row->axis[i], grid_value(e, p, i)->name) == 0;
    return same;
}

const GridRow *rows_find(const GridRows *r, const Experiment *e, const GridPoint *p, const char *state)
{
    for (uint32_t i = 0; i < r->rows.len; i++) {
        const GridRow *row = &r->rows.at[i];
        int right = state ? strcmp(row->state, state) == 0 : strcmp(row->state, "tuned") != 0;
        if (right && is_of(row, e, p))
            return row;
    }
    return NULL;
}

const char *rows_add(GridRows *r, const GridRow *rows, size_t n)
{
    Text t = {.arena = r->arena};
    for (size_t i = 0; i < n; i++) {
        put_row(&t, &rows[i]);
        vec_push(r->arena, &r->rows, rows[i]);
    }
    return n ? write_all(r, t.at, t.len) : NULL;
}
