/* What samples say of each other, and records of tuned schedules: moec_compare, moec_records_*. */
#include "python/native.h"

#include <stdlib.h>

/* ---- ratios ---- */

static double *numbers_of(PyObject *list, Py_ssize_t n)
{
    double *out = malloc((size_t)(n ? n : 1) * sizeof *out);
    for (Py_ssize_t i = 0; out && i < n; i++)
        out[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    if (!out)
        PyErr_NoMemory();
    return out;
}

/* compare(libmoec, times, base, confidence), of two lists: low, ratio, high. */
PyObject *native_compare(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library;
    PyObject *times, *base, *result = NULL;
    double confidence;
    if (!PyArg_ParseTuple(args, "sO!O!d", &library, &PyList_Type, &times, &PyList_Type, &base, &confidence) ||
        open_compiler(library))
        return NULL;
    Py_ssize_t n = PyList_Size(times);
    if (n < 1 || n != PyList_Size(base))
        return PyErr_Format(PyExc_ValueError, "times of the same rounds are compared: %zd and %zd", n,
                            PyList_Size(base));
    double *a = numbers_of(times, n), *b = numbers_of(base, n);
    if (a && b && !PyErr_Occurred()) {
        moec_ratio r = compiler.compare(a, b, (size_t)n, confidence);
        result = Py_BuildValue("ddd", r.low, r.ratio, r.high);
    }
    free(a);
    free(b);
    return result;
}

/* ---- records ---- */

static int add_record(void *list, const moec_record *r)
{
    PyObject *one = Py_BuildValue(
        "{s:L,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:d,s:d,s:d,s:d,s:d,s:d,s:L,s:L}", "id",
        (long long)r->id, "content", r->content, "kernel", r->kernel, "target", r->target, "machine",
        r->machine, "build", r->build, "sizes", r->sizes, "routing", r->routing, "schedule", r->schedule,
        "why", r->why, "threads", r->threads, "state", (int)r->state, "seconds", r->seconds,
        "default_seconds", r->default_seconds, "ratio", r->ratio, "low", r->low, "high", r->high, "predicted",
        r->predicted, "rounds", (long long)r->rounds, "made", (long long)r->made);
    int failed = !one || PyList_Append(list, one);
    Py_XDECREF(one);
    return failed;
}

/* records(libmoec, path): dicts, in the order in which they were made; path None: the default database. */
PyObject *native_records(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library, *path;
    moec_records *r = NULL;
    if (!PyArg_ParseTuple(args, "sz", &library, &path) || open_compiler(library))
        return NULL;
    moec_context *c = compiler.context_new();
    PyObject *list = PyList_New(0);
    int failed = compiler.records_open(c, path, 0, &r);
    if (failed)
        raise_error("CompileError", compiler.error_text(c), PyUnicode_FromString(compiler.error_json(c)));
    else if (compiler.records_each(r, add_record, list) && !PyErr_Occurred())
        raise_error("CompileError", compiler.records_error(r), NULL);
    compiler.records_close(r);
    compiler.context_free(c);
    if (PyErr_Occurred()) {
        Py_XDECREF(list);
        return NULL;
    }
    return list;
}
