/* What stands in the L2 cache, and who gets global memory's bandwidth when: see memory.h. */
#include "emulator/memory.h"

#include <string.h>

enum { TABLE_BITS = 10 };                 /* lines of a table */
enum { PLACE_BITS = 40, LINE_BITS = 34 }; /* bytes and lines of a tensor */

typedef struct Line {
    uint64_t used;         /* 1 + lines that had come when it was last used; 0: it never came */
    uint32_t valid, dirty; /* by sector */
} Line;

typedef struct Table {
    uint64_t number; /* of its first line >> TABLE_BITS */
    uint64_t used;   /* the latest Line.used */
    Line *lines;
} Table;

typedef struct Cache {
    Arena *arena;
    int64_t capacity,
        sure;      /* lines: so many others drive each line out, and before so many have come it is there */
    uint64_t come; /* lines that have come */
    /* Tables by hash of their number: open addressing. `last` is the one of the access before. */
    Table *tables, *last;
    uint32_t ntables, used;
    Vec(Line *) spare; /* lines of tables that went, all zeros */
} Cache;

struct Memory {
    Arena *arena;
    int64_t line, sector, jump;
    Cache cache;
    Cache *own; /* by core of a CPU */
    /* Bandwidth that is left, by span of cycles since `begin`; before `full` there is none. */
    Vec(int64_t) left;
    int64_t begin;
    int64_t per_span;
    uint32_t full;
};

static Cache cache_new(Arena *a, int64_t lines, int64_t sure)
{
    enum { TABLES = 64 };
    return (Cache){.arena = a,
                   .capacity = lines,
                   .sure = sure,
                   .tables = arena_array(a, Table, TABLES),
                   .ntables = TABLES};
}

Memory *memory_new(Arena *a, const Machine *machine)
{
    Memory *m = arena_new_of(a, Memory);
    m->arena = a;
    m->line = machine->align.line;
    m->sector = machine->memory.sector;
    while (m->line / m->sector > 32) /* as many as the masks have bits */
        m->sector *= 2;
    m->jump = machine->memory.jump;
    m->cache = cache_new(a, machine->memory.l2 / m->line, machine->memory.l2 / m->line);
    m->own = arena_array(a, Cache, machine->cores.cube);
    for (int64_t i = 0; i < machine->cores.cube; i++)
        m->own[i] = cache_new(a, machine->caches.l2 / m->line, memory_sure(machine) / m->line);
    m->per_span = memory_per_span(machine);
    return m;
}

int64_t memory_per_span(const Machine *machine)
{
    return (int64_t)((double)machine->memory.gm_rate * 1000 * MEMORY_SPAN / (double)machine->clock.core) + 1;
}

void memory_launch(Memory *m, int64_t begin)
{
    m->begin = begin;
    m->left.len = m->full = 0;
}

/* ---- the cache ---- */

static Table *find_table(const Cache *c, uint64_t number)
{
    uint32_t i = (uint32_t)(hash_bytes(&number, sizeof number, 0) & (c->ntables - 1));
    while (c->tables[i].lines && c->tables[i].number != number)
        i = (i + 1) & (c->ntables - 1);
    return &c->tables[i];
}

/* Is a line that was last used then gone when so many others have come? */
static int is_gone(const Cache *c, uint64_t used, int64_t others)
{
    return !used || used - 1 + (uint64_t)others <= c->come;
}

/* How many others must come before the line goes: by chance, the same for each line in each run. */
static int64_t others_for(const Cache *c, uint64_t number)
{
    uint64_t chance = number * 0x9e3779b97f4a7c15u >> 40; /* 24 bits */
    return c->sure + (int64_t)(chance * (uint64_t)(c->capacity - c->sure) >> 24);
}

/* Tables whose lines are all gone go too: what has been read once is not kept for ever. */
static void make_room(Cache *c)
{
    Table *old = c->tables;
    uint32_t n = c->ntables, left = 0;
    for (uint32_t i = 0; i < n; i++)
        left += old[i].lines && !is_gone(c, old[i].used, c->capacity);
    if (left * 4 > n)
        c->ntables *= 2;
    c->tables = arena_array(c->arena, Table, c->ntables);
    c->used = left;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].lines && is_gone(c, old[i].used, c->capacity)) {
            memset(old[i].lines, 0, sizeof(Line) << TABLE_BITS);
            vec_push(c->arena, &c->spare, old[i].lines);
        } else if (old[i].lines) {
            *find_table(c, old[i].number) = old[i];
        }
}

static Line *new_lines(Cache *c)
{
    return c->spare.len ? c->spare.at[--c->spare.len] : arena_array(c->arena, Line, 1 << TABLE_BITS);
}

static Line *line_at(Cache *c, uint64_t number)
{
    uint64_t of = number >> TABLE_BITS;
    if (!c->last || c->last->number != of) {
        if (c->used * 2 > c->ntables)
            make_room(c);
        c->last = find_table(c, of);
        if (!c->last->lines) {
            *c->last = (Table){.number = of, .lines = new_lines(c)};
            c->used++;
        }
    }
    return &c->last->lines[number & ((1 << TABLE_BITS) - 1)];
}

typedef enum LineUse { USE_READ, USE_WRITE, USE_READ_AND_WRITE, USE_PAST } LineUse;

/* Uses the sectors `mask` of a line: how many had to come from memory, or will have to go there. */
static int use_line(Cache *c, uint64_t number, uint32_t mask, LineUse use)
{
    Line *l = line_at(c, number);
    if (use == USE_PAST) {
        l->valid &= ~mask;
        l->dirty &= ~mask;
        return __builtin_popcount(mask);
    }
    if (is_gone(c, l->used, others_for(c, number))) {
        *l = (Line){0};
        c->come++;
    }
    int missing = use == USE_WRITE ? 0 : __builtin_popcount(mask & ~l->valid);
    if (use != USE_READ) {
        missing += __builtin_popcount(mask & ~l->dirty);
        l->dirty |= mask;
    }
    l->valid |= mask;
    l->used = c->last->used = c->come + 1;
    return missing;
}

typedef struct Used {
    int64_t sectors, shared,
        missing; /* of all runs; that were not in the core's own cache; nor in the shared one */
    int64_t jumps;
} Used;

/* The sectors first..last of a line: a mask. */
static uint32_t mask_of(int64_t first, int64_t last)
{
    return (uint32_t)(((2ull << (last - first)) - 1) << first);
}

static LineUse use_of(const MemoryRun *r)
{
    return !r->write ? USE_READ : r->past ? USE_PAST : r->own_rate ? USE_READ_AND_WRITE : USE_WRITE;
}

/* A run from byte `begin` on, of a numbering in which lines begin at multiples of their length. */
static void use_run(Memory *m, const MemoryRun *r, int64_t begin, int64_t bytes, Used *u)
{
    int64_t end = begin + bytes, first = begin / m->line, last = (end - 1) / m->line, missing = 0;
    for (int64_t i = first; i <= last; i++) {
        int64_t from = i == first ? begin % m->line / m->sector : 0;
        int64_t to = ((i == last ? (end - 1) % m->line : m->line - 1)) / m->sector;
        uint64_t number = (r->place >> PLACE_BITS << LINE_BITS) + (uint64_t)i;
        u->sectors += to - from + 1;
        if (r->own_rate &&
            !use_line(&m->own[r->core], number, mask_of(from, to), r->past ? USE_PAST : USE_READ)) {
            int written = r->write ? use_line(&m->cache, number, mask_of(from, to), USE_WRITE) : 0;
            u->shared += written;
            missing += written;
            continue;
        }
        u->shared += to - from + 1;
        missing += use_line(&m->cache, number, mask_of(from, to), use_of(r));
    }
    u->missing += missing;
    if (missing)
        u->jumps += first == last ? 1 : 1 + (begin % m->line != 0) + (end % m->line != 0);
}

/* ---- bandwidth ---- */

/* Takes n bytes of memory's bandwidth from cycle `at` on, evenly over at least `cycles`: when it has them. */
static int64_t take(Memory *m, int64_t at, int64_t n, int64_t cycles)
{
    int64_t rate = n / (cycles > 0 ? cycles : 1) + 1;
    at -= m->begin;
    uint32_t i = (uint32_t)(at / MEMORY_SPAN);
    if (i < m->full)
        i = m->full;
    for (;; i++) {
        while (m->left.len <= i)
            vec_push(m->arena, &m->left, m->per_span);
        int64_t begin = (int64_t)i * MEMORY_SPAN > at ? (int64_t)i * MEMORY_SPAN : at;
        int64_t most = rate * ((int64_t)(i + 1) * MEMORY_SPAN - begin), got = n < most ? n : most;
        if (got > m->left.at[i])
            got = m->left.at[i];
        m->left.at[i] -= got;
        n -= got;
        while (m->full < m->left.len && !m->left.at[m->full])
            m->full++;
        if (n == 0)
            return m->begin + begin + got / rate;
    }
}

Flow memory_move(Memory *m, int64_t at, const MemoryRun *run)
{
    int64_t runs = run->runs, bytes = run->bytes, begin = (int64_t)(run->place & ((1ull << PLACE_BITS) - 1));
    Used u = {0};
    if (run->apart == bytes) { /* one behind the other: one run */
        bytes *= runs;
        runs = 1;
    }
    for (int64_t i = 0, at_byte = begin; i < runs && bytes > 0; i++, at_byte += run->apart)
        use_run(m, run, at_byte > 0 ? at_byte : 0, bytes, &u);
    int64_t missing = u.missing * m->sector, shared = u.shared * m->sector,
            own = u.sectors * m->sector - shared;
    int64_t from_shared = shared > missing ? shared - missing : 0; /* what is stored comes and goes */
    int64_t slow = run->write || run->alone > run->rate ? run->rate : run->alone;
    int64_t alone = (own ? own / run->own_rate : 0) + from_shared / run->rate + missing / slow;
    int64_t taken = missing + u.jumps * m->jump;
    int64_t got = missing ? take(m, at, taken, alone) : 0;
    return (Flow){.end = got > at + alone ? got : at + alone,
                  .alone = alone,
                  .bytes = missing,
                  .shared = shared,
                  .taken = taken};
}
