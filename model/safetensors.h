/* Files of tensors in the safetensors format: eight bytes with the length of a header, the header (JSON: name -> type, shape,
 * place), the elements, little-endian and row-major. A model may be cut into several files with an index beside them. */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "base/base.h"

typedef enum StoredType { STORED_F32, STORED_BF16, STORED_F16, STORED_I32, STORED_I64, STORED_TYPES } StoredType;
const char *stored_type_name(StoredType type); /* "BF16" */
size_t stored_type_bytes(StoredType type);

enum { STORED_MAX_RANK = 8 };

typedef struct StoredTensor {
    const char *name;
    StoredType type;
    uint32_t rank;
    int64_t shape[STORED_MAX_RANK];
    const unsigned char *at; /* its elements in the mapped file, not aligned */
    size_t bytes;
    uint32_t file;           /* the number of its file */
} StoredTensor;
typedef Vec(StoredTensor) StoredTensors;

int64_t stored_elements(const StoredTensor *t);
const char *stored_shape_text(Arena *a, const StoredTensor *t); /* "[2, 3]" */

/* ---- reading ---- */

/* The tensors of one file in memory, in the order of their places. Returns NULL, or a message that names file, tensor and rule:
 * sizes, types, places (which must follow one another without gap or overlap to the end of the file), names. */
const char *safetensors_parse(Arena *a, const char *file, const unsigned char *bytes, size_t len, StoredTensors *out);

typedef struct SafeTensors {
    const char *path;
    Vec(const char *) names; /* of the files */
    Vec(MappedFile) files;
    StoredTensors tensors;   /* of all files, in the order of their names */
} SafeTensors;

/* Opens a file FOO.safetensors, an index FOO.safetensors.index.json with the files that it names, or a folder with
 * model.safetensors or its index. To be closed after an error, too. */
const char *safetensors_open(Arena *a, const char *path, SafeTensors *out);
void safetensors_close(SafeTensors *s);
const StoredTensor *safetensors_find(const SafeTensors *s, const char *name); /* NULL: there is none */

/* n elements from `first` on as f32; the type is F32, BF16 or F16. */
void stored_read(const StoredTensor *t, int64_t first, int64_t n, float *out);
/* n elements at `out` in that type, rounded to the nearest. */
void stored_convert(StoredType type, const float *values, int64_t n, unsigned char *out);

/* ---- writing ---- */

/* What stands before the elements of a file of these tensors, of which name, type and shape are read. */
Text safetensors_header(Arena *a, const StoredTensor *tensors, uint32_t n);

typedef struct SafeWriter {
    FileWriter file;
    uint64_t left; /* bytes that are still to come */
} SafeWriter;

/* Begins a file with its header. The elements follow in the same order by safetensors_append(). Errors are kept until the end, as by file_create(). */
SafeWriter safetensors_create(Arena *a, const char *path, const StoredTensor *tensors, uint32_t n);
void safetensors_append(SafeWriter *w, const void *bytes, size_t len);
const char *safetensors_commit(SafeWriter *w);
void safetensors_drop(SafeWriter *w);

/* ---- files that several processes fill ---- */

/* Tensors cut into files FOLDER/STEM.safetensors, or FOLDER/STEM-00001-of-00003.safetensors and so on with an index beside them. Every
 * process that has the same tensors cuts them alike. */
typedef struct SafeFile {
    const char *name;    /* in the folder */
    uint32_t first, end; /* its tensors */
    Text header;
    uint64_t bytes;      /* of the file */
} SafeFile;
typedef struct SafeCut {
    Arena *arena;
    const char *folder, *stem; /* folder: NULL: the name of its one file is a path */
    const StoredTensor *tensors;
    uint64_t *places; /* by tensor: the first of its bytes in its file */
    Vec(SafeFile) files;
} SafeCut;
/* A file has at most `file_bytes` bytes of elements, or one tensor. */
SafeCut safetensors_cut(Arena *a, const char *folder, const char *stem, const StoredTensor *tensors, uint32_t n, uint64_t file_bytes);
/* One process makes the files, which hold zeros, and the index. Returns NULL, or a message, as the next one. */
const char *safetensors_make(const SafeCut *c);
/* Each process writes what it has of each tensor: fill() puts it behind `at`, the place of the tensor in the file. first: the process
 * that made the files, and writes their headers too. */
typedef void SafeFill(void *self, FilePatch *f, uint32_t tensor, uint64_t at);
const char *safetensors_fill(const SafeCut *c, int first, SafeFill *fill, void *self);

#endif
