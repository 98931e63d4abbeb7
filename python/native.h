/* The extension module moec._native: kernels called with Python's tensors. It has the part of libmoec inside that reads
 * manifests and checks calls, so that a kernel.so needs no compiler; libmoec itself is opened only to compile. */
#ifndef PYTHON_NATIVE_H
#define PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "moec/moec.h"

/* A Python object's memory while a call uses it. */
typedef struct TensorView {
    DLTensor tensor;
    int64_t shape[MOEC_MAX_RANK], strides[MOEC_MAX_RANK];
    Py_buffer buffer; /* obj NULL: not held */
    PyObject *held;   /* a capsule, or what the object was viewed as; or NULL */
    const struct TensorExchange *library; /* of the object, if it has C functions; or NULL */
} TensorView;

/* 0: *v has the object's memory, until view_close(). 1: the object is no tensor. -1: a Python exception is set. */
int view_open(TensorView *v, PyObject *o, int writable);
void view_close(TensorView *v);
/* A tensor of the library that v's object is of, its values whatever they are; NULL, without an exception, if Python must ask for it. */
PyObject *view_make(const TensorView *v, DLDataType type, int rank, int64_t *shape);

extern PyType_Spec kernel_spec;

/* A kernel as an object that keeps its module. */
PyObject *kernel_object(PyTypeObject *type, PyObject *module, const moec_kernel *k);

/* Raises moec.errors.NAME(text, detail) and returns NULL; takes the reference to detail (NULL: None). */
PyObject *raise_error(const char *name, const char *text, PyObject *detail);

/* The functions of libmoec that are called from here. */
typedef struct Compiler {
    moec_context *(*context_new)(void);
    void (*context_free)(moec_context *c);
    const char *(*error_text)(const moec_context *c);
    const char *(*error_json)(const moec_context *c);
    int (*compile_text)(moec_context *c, const char *name, const char *text, size_t len,
                        const moec_options *o, moec_module **out);
    int (*compile_file)(moec_context *c, const char *path, const moec_options *o, moec_module **out);
    void (*module_free)(moec_module *m);
    const char *(*module_manifest)(const moec_module *m);
    const moec_kernel *(*module_kernel)(const moec_module *m, const char *name);
    moe_entry *(*kernel_entry)(const moec_kernel *k);
    int (*kernel_interpret)(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args);
    int (*space)(moec_context *c, const moec_work *w, const moec_options *o, const char **json);
    int (*predict)(moec_context *c, const moec_work *w, const moec_options *o, moec_prediction *out);
    int (*case_new)(moec_context *c, const moec_work *w, const moec_options *o, moec_case **out);
    void (*case_free)(moec_case *k);
    double (*case_time)(void *k, int calls);
    const char *(*case_error)(const moec_case *k);
    const char *(*case_text)(const moec_case *k);
    const char *(*case_target)(const moec_case *k);
    int64_t (*case_bytes)(const moec_case *k);
    int (*case_check)(moec_case *k, moec_score *score, const char **sizes);
    const char *(*case_digest)(moec_case *k);
    int (*measure)(moec_runner *r, size_t n, const moec_patience *p);
    moec_ratio (*compare)(const double *a, const double *b, size_t n, double confidence);
    int (*records_open)(moec_context *c, const char *path, int write, moec_records **out);
    void (*records_close)(moec_records *r);
    int (*records_each)(moec_records *r, int (*f)(void *user, const moec_record *record), void *user);
    const char *(*records_error)(const moec_records *r);
} Compiler;
extern Compiler compiler;
/* Opens libmoec, which stays open, and takes moec_options from a dict. 0, or -1 with a Python exception. */
int open_compiler(const char *path);
int take_options(PyObject *dict, moec_options *o);

PyObject *native_space(PyObject *self, PyObject *args);
PyObject *native_predict(PyObject *self, PyObject *args);
PyObject *native_measure(PyObject *self, PyObject *args);
PyObject *native_case_new(PyObject *self, PyObject *args);
PyObject *native_case_time(PyObject *self, PyObject *args);
PyObject *native_case_check(PyObject *self, PyObject *args);
PyObject *native_case_digest(PyObject *self, PyObject *args);
PyObject *native_compare(PyObject *self, PyObject *args);
PyObject *native_records(PyObject *self, PyObject *args);
PyObject *native_compile(PyObject *self, PyObject *args);
PyObject *native_open(PyObject *self, PyObject *args);
PyObject *native_threads(PyObject *self, PyObject *args);

#endif
