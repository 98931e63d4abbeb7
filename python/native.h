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
} TensorView;

/* 0: *v has the object's memory, until view_close(). 1: the object is no tensor. -1: a Python exception is set. */
int view_open(TensorView *v, PyObject *o, int writable);
void view_close(TensorView *v);

extern PyType_Spec kernel_spec, module_spec;

/* A kernel as an object that keeps its module. */
PyObject *kernel_object(PyTypeObject *type, PyObject *module, const moec_kernel *k);

/* Raises moec.errors.NAME(text, detail) and returns NULL; takes the reference to detail (NULL: None). */
PyObject *raise_error(const char *name, const char *text, PyObject *detail);

PyObject *native_compile(PyObject *self, PyObject *args);
PyObject *native_open(PyObject *self, PyObject *args);
PyObject *native_route(PyObject *self, PyObject *args);
PyObject *native_threads(PyObject *self, PyObject *args);

#endif
