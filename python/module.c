/* The extension module itself; moec._native.Module: kernels by name. */
#include "base/base.h"
#include "driver/module.h"
#include "ir/ir.h"
#include "python/native.h"

#include <string.h>

typedef struct ModuleObject {
    PyObject ob_base;
    PyObject *owner; /* keeps the code */
    Arena *arena;
    moec_module m;
} ModuleObject;

static void module_free(PyObject *self)
{
    ModuleObject *o = (ModuleObject *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (o->arena)
        arena_free(o->arena);
    Py_XDECREF(o->owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void *entry_named(PyObject *entries, const char *name)
{
    PyObject *address = PyDict_GetItemString(entries, name);
    return address ? PyLong_AsVoidPtr(address) : NULL;
}

/* run of a kernel whose `function` is libmoec's, which is interpreted. */
static int run_interpreted(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    return compiler.kernel_interpret(k->function, ctx, dims, args);
}

static moec_kernel kernel_of(const moec_module *m, const SigKernel *sig, void *entry, int interpreted)
{
    if (interpreted)
        return (moec_kernel){.module = m, .sig = sig, .function = entry, .run = run_interpreted};
    return (moec_kernel){
        .module = m, .sig = sig, .entry = (moe_entry *)(uintptr_t)entry, .run = entry ? call_entry : NULL};
}

static const char *read_kernels(ModuleObject *o, const char *manifest, PyObject *entries, int interpreted)
{
    moec_module *m = &o->m;
    const char *error = signature_read(manifest, o->arena, &m->signatures);
    if (error)
        return error;
    m->kernels = arena_array(o->arena, moec_kernel, m->signatures.nkernels + 1);
    for (uint32_t i = 0; i < m->signatures.nkernels; i++) {
        const SigKernel *sig = &m->signatures.kernels[i];
        m->kernels[i] = kernel_of(m, sig, entry_named(entries, sig->name), interpreted);
    }
    return NULL;
}

/* Under a landing place: an arena that is exhausted jumps. */
static const char *read_guarded(ModuleObject *o, const char *manifest, PyObject *entries, int interpreted)
{
    jmp_buf landing;
    if (setjmp(landing))
        return arena_message(o->arena);
    arena_set_landing(o->arena, &landing);
    const char *error = read_kernels(o, manifest, entries, interpreted);
    arena_set_landing(o->arena, NULL);
    return error;
}

/* Module(manifest, entries, owner, interpreted): entries has the address of each kernel's uniform entry, or of libmoec's kernel
 * that is interpreted. */
static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    (void)names;
    const char *manifest;
    PyObject *entries, *owner;
    int interpreted;
    if (!PyArg_ParseTuple(args, "sOOi", &manifest, &entries, &owner, &interpreted))
        return NULL;
    ModuleObject *o = (ModuleObject *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!o)
        return NULL;
    o->owner = Py_NewRef(owner);
    o->arena = arena_new();
    const char *error = o->arena ? read_guarded(o, manifest, entries, interpreted) : "out of memory";
    if (!error)
        return (PyObject *)o;
    raise_error("CompileError", error, NULL);
    Py_DECREF(o);
    return NULL;
}

static PyObject *kernel_type;

/* kernel(name) */
static PyObject *module_kernel(PyObject *self, PyObject *args)
{
    const moec_module *m = &((ModuleObject *)self)->m;
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    for (uint32_t i = 0; i < m->signatures.nkernels; i++)
        if (strcmp(m->signatures.kernels[i].name, name) == 0)
            return kernel_object((PyTypeObject *)kernel_type, self, &m->kernels[i]);
    PyErr_SetString(PyExc_KeyError, name);
    return NULL;
}

static PyMethodDef module_methods[] = {{"kernel", module_kernel, METH_VARARGS, "kernel(name)"},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot module_slots[] = {{Py_tp_new, (void *)module_new},
                                     {Py_tp_dealloc, (void *)module_free},
                                     {Py_tp_methods, module_methods},
                                     {0, NULL}};
static PyType_Spec module_spec = {"moec._native.Module", sizeof(ModuleObject), 0, Py_TPFLAGS_DEFAULT,
                                  module_slots};

/* ---- errors ---- */

PyObject *raise_error(const char *name, const char *text, PyObject *detail)
{
    PyObject *errors = PyImport_ImportModule("moec.errors"),
             *type = errors ? PyObject_GetAttrString(errors, name) : NULL;
    PyObject *error = type ? PyObject_CallFunction(type, "sO", text, detail ? detail : Py_None) : NULL;
    if (error)
        PyErr_SetObject(type, error);
    Py_XDECREF(errors);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(detail);
    return NULL;
}

/* ---- routes ---- */

/* The memory of a tensor that the caller holds on to: dense, of that many integers; NULL: an exception is set. */
static void *memory_of(PyObject *o, int writable, const char *name, unsigned bits, int64_t elements)
{
    TensorView v;
    int64_t found = 1;
    int status = view_open(&v, o, writable), good = !status;
    for (int d = 0; good && d < v.tensor.ndim; d++)
        found *= v.tensor.shape[d];
    good = good && v.tensor.dtype.bits == bits && v.tensor.dtype.code <= kDLUInt &&
           call_is_dense(&v.tensor) && v.tensor.device.device_type == kDLCPU && found == elements;
    if (!good && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "a route's %s is a dense tensor of %lld integers of %u bits", name,
                     (long long)elements, bits);
    void *memory = good ? (char *)v.tensor.data + v.tensor.byte_offset : NULL;
    if (!status)
        view_close(&v);
    return memory;
}

static int fill_route(const moe_route *r, const int32_t *ids, int64_t capacity)
{
    EvalRoute route = {.tokens = r->tokens,
                       .choices = r->choices,
                       .groups = r->groups,
                       .rows = r->rows,
                       .start = r->start,
                       .count = r->count,
                       .slot_of = r->slot_of,
                       .row_of = r->row_of};
    int64_t fault = ir_make_route(ids, capacity, &route);
    if (fault > 0)
        PyErr_Format(PyExc_ValueError, "choice %lld is expert %d, outside -1..%lld", (long long)fault - 1,
                     (int)ids[fault - 1], (long long)r->groups - 1);
    else if (fault < 0)
        PyErr_Format(PyExc_ValueError, "the rows of the experts do not fit into %lld", (long long)r->rows);
    return fault != 0;
}

/* route(memory, sizes, start, count, slot_of, row_of, ids, capacity): fills struct moe_route in `memory`; and the four arrays
 * from ids (int32; None: the arrays are there). */
static PyObject *native_route(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *memory, *array[4], *ids;
    long long sizes[4], capacity;
    if (!PyArg_ParseTuple(args, "O(LLLL)OOOOOL", &memory, &sizes[0], &sizes[1], &sizes[2], &sizes[3],
                          &array[0], &array[1], &array[2], &array[3], &ids, &capacity))
        return NULL;
    static const char *const names[] = {"start", "count", "slot_of", "row_of"};
    int64_t slots = sizes[0] * sizes[1], elements[] = {sizes[2] + 1, sizes[2], sizes[3], slots};
    moe_route *r = memory_of(memory, 1, "memory", 8, sizeof *r);
    void *at[4] = {NULL};
    for (int i = 0; i < 4; i++)
        at[i] = PyErr_Occurred()
                    ? NULL
                    : memory_of(array[i], ids != Py_None, names[i], i < 2 ? 64 : 32, elements[i]);
    const int32_t *chosen = ids == Py_None || PyErr_Occurred() ? NULL : memory_of(ids, 0, "ids", 32, slots);
    if (PyErr_Occurred())
        return NULL;
    *r = (moe_route){sizes[0], sizes[1], sizes[2], sizes[3], at[0], at[1], at[2], at[3]};
    return chosen && fill_route(r, chosen, capacity) ? NULL : PyLong_FromVoidPtr(r);
}

static PyMethodDef functions[] = {
    {"compile", native_compile, METH_VARARGS, "compile(libmoec, path, text, options, names)"},
    {"space", native_space, METH_VARARGS, "space(libmoec, work, options)"},
    {"predict", native_predict, METH_VARARGS, "predict(libmoec, work, options)"},
    {"measure", native_measure, METH_VARARGS, "measure(libmoec, work, options, schedules, rounds, seconds)"},
    {"case_new", native_case_new, METH_VARARGS, "case_new(libmoec, work, options)"},
    {"case_time", native_case_time, METH_VARARGS, "case_time(case, calls)"},
    {"case_check", native_case_check, METH_VARARGS, "case_check(case)"},
    {"case_digest", native_case_digest, METH_VARARGS, "case_digest(case)"},
    {"compare", native_compare, METH_VARARGS, "compare(libmoec, times, base, confidence)"},
    {"records", native_records, METH_VARARGS, "records(libmoec, path)"},
    {"open", native_open, METH_VARARGS, "open(path, names)"},
    {"route", native_route, METH_VARARGS,
     "route(memory, sizes, start, count, slot_of, row_of, ids, capacity)"},
    {"threads", native_threads, METH_VARARGS, "threads([n])"},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    PyObject *kernel = PyType_FromSpec(&kernel_spec), *type = PyType_FromSpec(&module_spec);
    int failed = !kernel || !type || PyModule_AddObjectRef(module, "Module", type);
    Py_XDECREF(type);
    kernel_type = kernel;
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "moec._native",
                                        "Kernels called with Python's tensors.",
                                        0,
                                        functions,
                                        slots,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
