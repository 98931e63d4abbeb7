/* moec-make-helpers FILE: writes the helpers of all instruction sets, see made.h. A part of the build. */
#include "backend/emit.h"
#include "backend/made.h"

#include <setjmp.h>
#include <stdio.h>

enum { OBJECT_ALIGN = 64 };

static void add(Text *objects, const char *bytes, size_t len)
{
    static const char zeros[OBJECT_ALIGN];
    text_add_bytes(objects, bytes, len);
    text_add_bytes(objects, zeros, (OBJECT_ALIGN - objects->len % OBJECT_ALIGN) % OBJECT_ALIGN);
}

typedef struct Maker {
    Arena *a;
    Vec(MadeRow) rows; /* whose objects are counted from the first */
    Text objects;
} Maker;

static int is_made(const Maker *m, Isa owner, uint32_t helper)
{
    for (uint32_t i = 0; i < m->rows.len; i++)
        if (m->rows.at[i].owner == owner && m->rows.at[i].helper == helper)
            return 1;
    return 0;
}

static const char *make(Maker *m, Isa target, uint32_t helper)
{
    const Isa owner = helper_owner(target, helper);
    ObjectBytes object = {NULL, 0};
    if (is_made(m, owner, helper) || !helper_exists(target, helper))
        return NULL;
    const char *error = backend_make_helper(target, helper, m->a, &object);
    vec_push(m->a, &m->rows, (MadeRow){owner, helper, m->objects.len, object.len});
    add(&m->objects, object.at, object.len);
    return error;
}

static const char *make_all(Maker *m)
{
    const char *error = NULL;
    for (Isa target = 0; target < ISA_COUNT; target++)
        for (uint32_t helper = 0; helper < HELPERS && !error; helper++)
            error = make(m, target, helper);
    return error;
}

static const char *write_file(Maker *m, const char *path)
{
    Text head = {.arena = m->a};
    uint64_t first = (m->rows.len + 1) * sizeof(MadeRow);
    first += (OBJECT_ALIGN - first % OBJECT_ALIGN) % OBJECT_ALIGN;
    for (uint32_t i = 0; i < m->rows.len; i++)
        m->rows.at[i].at += first;
    vec_push(m->a, &m->rows, (MadeRow){0});
    add(&head, (const char *)m->rows.at, m->rows.len * sizeof(MadeRow));
    FILE *f = fopen(path, "wb");
    int written = f && fwrite(head.at, 1, head.len, f) == head.len &&
                  fwrite(m->objects.at, 1, m->objects.len, f) == m->objects.len;
    return (!f || fclose(f) == 0) && written ? NULL : "cannot be written";
}

int main(int argc, char **argv)
{
    jmp_buf landing;
    Maker m = {.a = arena_new()};
    if (argc != 2 || !m.a)
        return 2;
    m.objects.arena = m.a;
    arena_set_landing(m.a, &landing);
    const char *error = setjmp(landing) ? arena_message(m.a) : make_all(&m);
    error = error ? error : write_file(&m, argv[1]);
    if (error)
        fprintf(stderr, "moec-make-helpers: %s: %s\n", argv[1], error);
    arena_free(m.a);
    return error != NULL;
}
