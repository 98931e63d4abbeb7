/* Where modules come from: text, compiled by libmoec, which is opened for it, and a kernel.so. Both end as what
 * moec._native.Module takes: the manifest, where each kernel's entries are, and an object that keeps them there. */
#include "base/base.h"
#include "python/native.h"

#include <dlfcn.h>
#include <string.h>

Compiler compiler;

int open_compiler(const char *path)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define FUNCTION(name) {"moec_" #name, offsetof(Compiler, name)}
        FUNCTION(context_new),  FUNCTION(context_free),     FUNCTION(error_text),
        FUNCTION(error_json),   FUNCTION(compile_text),     FUNCTION(compile_file),
        FUNCTION(module_free),  FUNCTION(module_manifest),  FUNCTION(module_kernel),
        FUNCTION(kernel_entry), FUNCTION(kernel_interpret), FUNCTION(space),
        FUNCTION(predict),      FUNCTION(case_new),         FUNCTION(case_free),
        FUNCTION(case_time),    FUNCTION(case_error),       FUNCTION(case_text),
        FUNCTION(case_target),  FUNCTION(case_bytes),       FUNCTION(case_check),
        FUNCTION(case_digest),  FUNCTION(measure),          FUNCTION(compare),
        FUNCTION(records_open), FUNCTION(records_close),    FUNCTION(records_each),
        FUNCTION(records_error)};
    if (compiler.kernel_entry)
        return 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        raise_error("CompileError", dlerror(), NULL);
        return -1;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f) {
            raise_error("CompileError", dlerror(), NULL);
            return -1;
        }
        memcpy((char *)&compiler + functions[i].at, &f, sizeof f);
    }
    return 0;
}

/* ---- options ---- */

static int take_flag(PyObject *value, int *out)
{
    *out = PyObject_IsTrue(value);
    return *out < 0 ? -1 : 0;
}

static int take_number(PyObject *value, int *out)
{
    *out = (int)PyLong_AsLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static int take_text(PyObject *value, const char **out)
{
    *out = PyUnicode_AsUTF8AndSize(value, NULL);
    return *out ? 0 : -1;
}

static int take_seed(PyObject *value, uint64_t *out)
{
    *out = PyLong_AsUnsignedLongLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static const char what_text[] = "a text", what_flag[] = "True or False", what_number[] = "a whole number",
                  what_seed[] = "a whole number of 64 bits that is not negative";

static int refuse_option(const char *name, const char *what, PyObject *value)
{
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "the option '%s' is %s, not %R", name, what, value);
    return -1;
}

/* The fields of moec_options under their own names. */
static int take_option(const char *name, PyObject *value, moec_options *o)
{
    Guess guess = guess_new(name);
#define FIELD(kind, field)                                                                  \
    if (strcmp(name, #field) == 0)                                                          \
        return take_##kind(value, &o->field) ? refuse_option(name, what_##kind, value) : 0; \
    guess_try(&guess, #field);
    FIELD(text, target)
    FIELD(flag, no_optimize)
    FIELD(flag, debug)
    FIELD(flag, no_cache)
    FIELD(text, cache_dir)
    FIELD(flag, interpret)
    FIELD(text, schedule)
    FIELD(text, machine)
    FIELD(seed, schedule_seed)
    FIELD(text, types)
    FIELD(text, derive)
    FIELD(text, kernels)
    FIELD(flag, jit_names)
    FIELD(text, tuned_for)
    FIELD(number, tuned_threads)
    PyErr_Format(PyExc_TypeError, "there is no option '%s'%s%s%s", name, guess.best ? "; did you mean '" : "",
                 guess.best ? guess.best : "", guess.best ? "'?" : "");
    return -1;
}

int take_options(PyObject *dict, moec_options *o)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || (value != Py_None && take_option(name, value, o)))
            return -1;
    }
    return 0;
}

/* ---- compiling ---- */

static void free_module(PyObject *capsule)
{
    compiler.module_free(PyCapsule_GetPointer(capsule, "moec_module"));
}

static PyObject *compile_error(const moec_context *c)
{
    return raise_error("CompileError", compiler.error_text(c), PyUnicode_FromString(compiler.error_json(c)));
}

/* entry(kernel): where the code of a kernel is, or libmoec's kernel that is interpreted; of the names in the list that have some. */
static PyObject *entries_of(const moec_module *m, PyObject *names, int interpret)
{
    PyObject *entries = PyDict_New();
    for (Py_ssize_t i = 0; entries && i < PyList_Size(names); i++) {
        PyObject *name = PyList_GetItem(names, i);
        const moec_kernel *k = compiler.module_kernel(m, PyUnicode_AsUTF8AndSize(name, NULL));
        const uintptr_t entry = interpret ? (uintptr_t)k : k ? (uintptr_t)compiler.kernel_entry(k) : 0;
        PyObject *address = PyLong_FromVoidPtr((void *)entry);
        if (entry && address)
            PyDict_SetItem(entries, name, address);
        Py_XDECREF(address);
    }
    return entries;
}

/* The list of names comes from Python, which reads the manifest. */
static PyObject *describe(moec_module *m, PyObject *read_names, int interpret)
{
    const char *manifest = compiler.module_manifest(m);
    PyObject *owner = PyCapsule_New(m, "moec_module", free_module);
    PyObject *names = owner ? PyObject_CallFunction(read_names, "s", manifest) : NULL;
    PyObject *entries = names && PyList_Check(names) ? entries_of(m, names, interpret) : NULL;
    PyObject *all = entries ? Py_BuildValue("sOOi", manifest, entries, owner, interpret) : NULL;
    Py_XDECREF(owner);
    Py_XDECREF(names);
    Py_XDECREF(entries);
    return all;
}

/* compile(libmoec, path, text, options, names): text None: that of the file at path. Returns manifest, entries, owner, whether
 * entries are kernels to interpret. */
PyObject *native_compile(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library, *path, *text;
    Py_ssize_t len;
    PyObject *options, *names;
    moec_options o = {.target = NULL};
    if (!PyArg_ParseTuple(args, "ssz#OO", &library, &path, &text, &len, &options, &names) ||
        take_options(options, &o) || open_compiler(library))
        return NULL;
    moec_context *c = compiler.context_new();
    moec_module *m = NULL;
    int status = 0;
    Py_BEGIN_ALLOW_THREADS status = text ? compiler.compile_text(c, path, text, (size_t)len, &o, &m)
                                         : compiler.compile_file(c, path, &o, &m);
    Py_END_ALLOW_THREADS PyObject *result = status ? compile_error(c) : describe(m, names, o.interpret);
    compiler.context_free(c);
    return result;
}

/* open(path, names): a kernel.so, which stays open. Returns manifest, entries, owner (None). */
PyObject *native_open(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    PyObject *read_names;
    if (!PyArg_ParseTuple(args, "sO", &path, &read_names))
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *manifest = library ? dlsym(library, "moec_manifest") : NULL;
    if (!manifest)
        return raise_error("CompileError", dlerror(), NULL);
    PyObject *names = PyObject_CallFunction(read_names, "s", manifest), *entries = PyDict_New();
    for (Py_ssize_t i = 0; names && entries && i < PyList_Size(names); i++) {
        PyObject *name = PyList_GetItem(names, i), *symbol = PyUnicode_FromFormat("%U__call", name);
        void *entry = dlsym(library, PyUnicode_AsUTF8AndSize(symbol, NULL));
        PyObject *address = PyLong_FromVoidPtr(entry);
        if (entry)
            PyDict_SetItem(entries, name, address);
        Py_XDECREF(symbol);
        Py_XDECREF(address);
    }
    PyObject *all = names && entries ? Py_BuildValue("sOO", manifest, entries, Py_None) : NULL;
    Py_XDECREF(names);
    Py_XDECREF(entries);
    return all;
}
