/* From masters to safetensors. */
#include "model/weights_plan.h"

#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct WeightsSaver {
    Arena *a;
    const char *folder;
    const ModelWeights *weights;
    const float *const *masters;
    PlannedTensors plan;
    Vec(uint32_t) ends; /* of the files: the tensor behind the last one */
} WeightsSaver;

/* ---- elements ---- */

/* at: [rows, columns]   ->   out: its columns c0 .. c0 + n - 1, as [n, rows] */
static void transpose_columns(const float *at, int64_t rows, int64_t columns, int64_t c0, int64_t n,
                              float *out)
{
    for (int64_t r0 = 0; r0 < rows; r0 += TRANSPOSE_BLOCK)
        for (int64_t c = 0; c < n; c++)
            for (int64_t r = r0; r < rows && r < r0 + TRANSPOSE_BLOCK; r++)
                out[c * rows + r] = at[r * columns + c0 + c];
}

static void append_elements(SafeWriter *f, StoredType type, const float *at, int64_t n, unsigned char *room)
{
    stored_convert(type, at, n, room);
    safetensors_append(f, room, (size_t)n * stored_type_bytes(type));
}

/* at: rows x columns elements. By blocks of columns of it, which are rows of theirs. */
static void append_transposed(Arena *scratch, SafeWriter *f, StoredType type, const float *at, int64_t rows,
                              int64_t columns)
{
    float *block = arena_array(scratch, float, TRANSPOSE_BLOCK *rows);
    unsigned char *room = arena_alloc(scratch, sizeof(float) * (size_t)(TRANSPOSE_BLOCK * rows));
    for (int64_t c = 0; c < columns; c += TRANSPOSE_BLOCK) {
        int64_t n = columns - c < TRANSPOSE_BLOCK ? columns - c : TRANSPOSE_BLOCK;
        transpose_columns(at, rows, columns, c, n, block);
        append_elements(f, type, block, n * rows, room);
    }
}

static void append_plain(Arena *scratch, SafeWriter *f, StoredType type, const float *at, int64_t n)
{
    enum { PIECE = 1 << 16 };
    unsigned char *room = arena_alloc(scratch, PIECE * sizeof(float));
    for (int64_t i = 0; i < n; i += PIECE)
        append_elements(f, type, at + i, n - i < PIECE ? n - i : PIECE, room);
}

static void append_tensor(WeightsSaver *s, SafeWriter *f, const PlannedTensor *t)
{
    const ModelWeight *w = &s->weights->at[t->weight];
    int64_t n = stored_elements(&t->stored);
    const float *at = s->masters[t->weight] + t->part * n;
    Arena *scratch = arena_scratch(s->a);
    ArenaMark mark = arena_mark(scratch);
    if (planned_is_transposed(w))
        append_transposed(scratch, f, t->stored.type, at, planned_rows(w), w->columns);
    else
        append_plain(scratch, f, t->stored.type, at, n);
    arena_release(scratch, mark);
}

/* ---- files ---- */

/* Leaves out copies, if they are not wanted, and weights that have no values. */
static void select_tensors(WeightsSaver *s, int copies)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->plan.len; i++) {
        PlannedTensor t = s->plan.at[i];
        if ((copies || t.use == PLANNED_WEIGHT) && s->masters[t.weight])
            s->plan.at[kept++] = t;
    }
    s->plan.len = kept;
}

static void cut_files(WeightsSaver *s, uint64_t file_bytes)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->plan.len; i++) {
        uint64_t n = s->plan.at[i].stored.bytes;
        if (bytes && bytes + n > file_bytes) {
            vec_push(s->a, &s->ends, i);
            bytes = 0;
        }
        bytes += n;
    }
    vec_push(s->a, &s->ends, s->plan.len);
}

static const char *file_name(const WeightsSaver *s, uint32_t file)
{
    return s->ends.len == 1 ? "model.safetensors"
                            : arena_printf(s->a, "model-%05u-of-%05u.safetensors", file + 1, s->ends.len);
}

/* The planned tensors from `first` to before `end`. */
static const char *write_tensors(WeightsSaver *s, const char *path, uint32_t first, uint32_t end)
{
    StoredTensor *tensors = arena_array(s->a, StoredTensor, end - first + 1);
    for (uint32_t i = first; i < end; i++)
        tensors[i - first] = s->plan.at[i].stored;
    SafeWriter f = safetensors_create(s->a, path, tensors, end - first);
    for (uint32_t i = first; i < end && !f.file.error; i++)
        append_tensor(s, &f, &s->plan.at[i]);
    return safetensors_commit(&f);
}

static const char *write_file(WeightsSaver *s, uint32_t file)
{
    return write_tensors(s, arena_printf(s->a, "%s/%s", s->folder, file_name(s, file)),
                         file ? s->ends.at[file - 1] : 0, s->ends.at[file]);
}

static const char *write_text(WeightsSaver *s, const char *name, const Text *t)
{
    FileWriter f = file_create(s->a, arena_printf(s->a, "%s/%s", s->folder, name));
    file_append(&f, t->at, t->len);
    return file_commit(&f);
}

static const char *write_index(WeightsSaver *s)
{
    Text t = {.arena = s->a};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->plan.len; i++)
        bytes += s->plan.at[i].stored.bytes;
    json_t *map = json_object();
    for (uint32_t i = 0, file = 0; i < s->plan.len; i++) {
        file += i == s->ends.at[file];
        json_object_set_new(map, s->plan.at[i].stored.name, json_string(file_name(s, file)));
    }
    text_add(&t, "%s\n",
             json_text(s->a, json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes,
                                       "weight_map", map)));
    return write_text(s, "model.safetensors.index.json", &t);
}

static const char *make_folder(Arena *a, const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return NULL;
    return arena_printf(a, "%s: cannot be made: %s", folder, strerror(errno));
}

const char *model_weights_save(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                               const float *const *masters, StoredType type, uint64_t file_bytes)
{
    WeightsSaver s = {a, folder, w, masters, plan_tensors(a, c, w, type), {0}};
    Text config = {.arena = a};
    select_tensors(&s, !c->tied); /* where embedding and head are one, nobody repeats them */
    cut_files(&s, file_bytes);
    const char *error = make_folder(a, folder);
    for (uint32_t i = 0; !error && i < s.ends.len; i++)
        error = write_file(&s, i);
    if (!error && s.ends.len > 1)
        error = write_index(&s);
    if (error)
        return error;
    model_config_write(c, &config);
    return write_text(&s, "config.json", &config);
}

const char *model_weights_write(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                                const float *const *values, StoredType type)
{
    WeightsSaver s = {.a = a, .weights = w, .masters = values, .plan = plan_tensors(a, c, w, type)};
    select_tensors(&s, 0);
    return write_tensors(&s, path, 0, s.plan.len);
}
