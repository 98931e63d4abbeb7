#include "records/records.h"
#include "records/sqlite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERSION = 1, OWNER = 0x6d6f6574 /* "moet" */, BUSY_MS = 20000 };

struct Records {
    const Sqlite *sql;
    sqlite3 *db;
    char error[512];
};

/* ---- statements ---- */

static int fail(Records *r)
{
    const int busy =
        r->db && (r->sql->errcode(r->db) == SQLITE_BUSY || r->sql->errcode(r->db) == SQLITE_LOCKED);
    if (busy)
        snprintf(r->error, sizeof r->error, "another program has kept it locked for %d s", BUSY_MS / 1000);
    else
        snprintf(r->error, sizeof r->error, "%s", r->sql->errmsg(r->db));
    return 1;
}

static int run(Records *r, const char *text)
{
    return r->sql->exec(r->db, text, NULL, NULL, NULL) ? fail(r) : 0;
}

static int get_number(Records *r, const char *text, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    int bad = r->sql->prepare_v2(r->db, text, -1, &s, NULL) || r->sql->step(s) != SQLITE_ROW;
    if (!bad)
        *out = r->sql->column_int64(s, 0);
    else
        fail(r);
    r->sql->finalize(s);
    return bad;
}

/* ---- one record ---- */

typedef const char *Column_text;

static const char create[] = "CREATE TABLE IF NOT EXISTS records(id INTEGER PRIMARY KEY"
#define COLUMN(kind, name) ", " #name " " #kind
#include "records/columns.def"
                             "); CREATE INDEX IF NOT EXISTS by_content ON records(content);";
static const char insert[] = "INSERT INTO records VALUES(NULL"
#define COLUMN(kind, name) ", ?"
#include "records/columns.def"
                             ")";
static const char list[] = "SELECT id"
#define COLUMN(kind, name) ", " #name
#include "records/columns.def"
                           " FROM records WHERE ?1 IS NULL OR content = ?1 ORDER BY id";

static int bind_text(const Records *r, sqlite3_stmt *s, int at, const char *value)
{
    return r->sql->bind_text(s, at, value ? value : "", -1, SQLITE_STATIC);
}

static int bind_integer(const Records *r, sqlite3_stmt *s, int at, int64_t value)
{
    return r->sql->bind_int64(s, at, value);
}

/* What is not known is NULL there. */
static int bind_real(const Records *r, sqlite3_stmt *s, int at, double value)
{
    return isfinite(value) ? r->sql->bind_double(s, at, value) : SQLITE_OK;
}

static const char *take_text(const Records *r, sqlite3_stmt *s, int at)
{
    const char *text = (const char *)r->sql->column_text(s, at);
    return text ? text : "";
}

static int64_t take_integer(const Records *r, sqlite3_stmt *s, int at) { return r->sql->column_int64(s, at); }

static double take_real(const Records *r, sqlite3_stmt *s, int at)
{
    return r->sql->column_type(s, at) == SQLITE_NULL ? NAN : r->sql->column_double(s, at);
}

int records_add(Records *r, const moec_record *record)
{
    sqlite3_stmt *s = NULL;
    int at = 0, bad = r->sql->prepare_v2(r->db, insert, -1, &s, NULL);
#define COLUMN(kind, name) bad = bad || bind_##kind(r, s, ++at, record->name);
#include "records/columns.def"
    bad = bad || r->sql->step(s) != SQLITE_DONE;
    if (bad)
        fail(r);
    r->sql->finalize(s);
    return bad;
}

static moec_record take(const Records *r, sqlite3_stmt *s)
{
    moec_record out = {.id = r->sql->column_int64(s, 0)};
    int at = 0;
#define COLUMN(kind, name) out.name = (__typeof__(out.name))take_##kind(r, s, ++at);
#include "records/columns.def"
    return out;
}

int records_each(Records *r, const char *content, int (*f)(void *user, const moec_record *record), void *user)
{
    sqlite3_stmt *s = NULL;
    int got = SQLITE_ROW, stop = 0;
    if (r->sql->prepare_v2(r->db, list, -1, &s, NULL) ||
        (content && r->sql->bind_text(s, 1, content, -1, SQLITE_STATIC)))
        got = SQLITE_ERROR;
    while (got == SQLITE_ROW && !stop) {
        got = r->sql->step(s);
        if (got == SQLITE_ROW) {
            moec_record record = take(r, s);
            stop = f(user, &record);
        }
    }
    int bad = got != SQLITE_ROW && got != SQLITE_DONE;
    if (bad)
        fail(r);
    r->sql->finalize(s);
    return bad;
}

int records_prune(Records *r, const char *build, int64_t before, int64_t *removed)
{
    static const char text[] = "DELETE FROM records WHERE (?1 IS NOT NULL AND build <> ?1) OR made < ?2";
    sqlite3_stmt *s = NULL;
    int bad = r->sql->prepare_v2(r->db, text, -1, &s, NULL) ||
              (build && r->sql->bind_text(s, 1, build, -1, SQLITE_STATIC)) ||
              r->sql->bind_int64(s, 2, before) || r->sql->step(s) != SQLITE_DONE;
    if (bad)
        fail(r);
    *removed = bad ? 0 : r->sql->changes(r->db);
    r->sql->finalize(s);
    return bad;
}

const char *records_error(const Records *r) { return r->error; }

/* ---- the file ---- */

/* 1 and an error: it is another program's, or of another version. */
static int check_owner(Records *r, int64_t owner, int64_t version)
{
    if (owner != OWNER)
        snprintf(r->error, sizeof r->error, "it is not a database of moec");
    else if (version != VERSION)
        snprintf(r->error, sizeof r->error, "it is of version %lld, and this compiler's is %d",
                 (long long)version, VERSION);
    return owner != OWNER || version != VERSION;
}

static int make_tables(Records *r)
{
    char mark[96];
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d;", OWNER, VERSION);
    return run(r, create) || run(r, mark);
}

/* An empty file becomes a database of ours, of which two processes may think at once. */
static int begin(Records *r, int may_make)
{
    int64_t owner = 0, version = 0, tables = 0;
    if (may_make && run(r, "BEGIN IMMEDIATE"))
        return 1;
    int bad = get_number(r, "PRAGMA application_id", &owner) ||
              get_number(r, "PRAGMA user_version", &version) ||
              get_number(r, "SELECT count(*) FROM sqlite_master", &tables);
    if (!bad && may_make && !owner && !version && !tables)
        bad = make_tables(r);
    else
        bad = bad || check_owner(r, owner, version);
    if (may_make && bad)
        r->sql->exec(r->db, "ROLLBACK", NULL, NULL, NULL);
    return bad || (may_make && run(r, "COMMIT"));
}

/* For SQLite, which keeps in memory what has some names, or none. */
static const char *file_name(const char *path, RecordsMode mode, Arena *a)
{
    if (mode == RECORDS_FROZEN)
        return arena_printf(a, "file:%s?immutable=1", path);
    return *path == '/' ? path : arena_printf(a, "./%s", path);
}

/* NULL, or an error: the file has something else in it. SQLite takes one of some bytes for an empty database, and overwrites it. */
static const char *foreign(const char *path)
{
    static const char mark[] = "SQLite format 3"; /* with the 0 behind it */
    char start[sizeof mark];
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    const size_t n = f ? fread(start, 1, sizeof start, f) : 0;
    const int failed = f && ferror(f);
    if (f)
        fclose(f);
    return !failed && n && (n < sizeof start || memcmp(start, mark, n) != 0) ? "file is not a database"
                                                                             : NULL;
}

static const char *open_file(Records *r, const char *path, RecordsMode mode, Arena *a)
{
    static const int flags[] = {[RECORDS_READ] = SQLITE_OPEN_READWRITE,
                                [RECORDS_FROZEN] = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                                [RECORDS_WRITE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE};
    const char *name = file_name(path, mode, a), *other = foreign(path);
    if (other)
        return arena_printf(a, "%s: %s", path, other);
    int bad = r->sql->open_v2(name, &r->db, flags[mode], NULL);
    if (!bad)
        r->sql->busy_timeout(r->db, BUSY_MS);
    if (!bad && mode == RECORDS_WRITE) /* of two that change it at once one may fail; it is changed then */
        r->sql->exec(r->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    if (bad)
        fail(r);
    bad = bad || begin(r, mode == RECORDS_WRITE);
    return bad ? arena_printf(a, "%s: %s", path, r->error) : NULL;
}

const char *records_open(const char *path, RecordsMode mode, Arena *a, Records **out)
{
    Records *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return "out of memory";
    r->sql = sqlite_find();
    const char *error = r->sql ? open_file(r, path, mode, a)
                               : arena_printf(a, "%s: libsqlite3.so.0 is not installed here", path);
    if (error) {
        records_close(r);
        return error;
    }
    *out = r;
    return NULL;
}

void records_close(Records *r)
{
    if (r && r->db)
        r->sql->close(r->db);
    free(r);
}
