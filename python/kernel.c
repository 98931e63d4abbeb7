/* moec._native.Kernel: one call, from a tuple of Python objects to a status. */
#include "driver/module.h"
#include "python/native.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct KernelObject {
    PyObject ob_base;
    PyObject *module; /* whose memory k is */
    const moec_kernel *k;
} KernelObject;

PyObject *kernel_object(PyTypeObject *type, PyObject *module, const moec_kernel *k)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    KernelObject *o = (KernelObject *)allocate(type, 0);
    if (o) {
        o->module = Py_NewRef(module);
        o->k = k;
    }
    return (PyObject *)o;
}

static void kernel_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((KernelObject *)self)->module);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- contexts: one for each thread ---- */

static pthread_key_t context_key;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static int wanted_threads; /* as in moe_ctx */

static void free_context(void *ctx) { moe_ctx_free(ctx); }
static void make_key(void) { pthread_key_create(&context_key, free_context); }

/* Of this thread, with its work space; NULL when memory is exhausted. */
static moe_ctx *own_context(void)
{
    pthread_once(&context_once, make_key);
    moe_ctx *ctx = pthread_getspecific(context_key);
    if (!ctx && (ctx = moe_ctx_new(0)))
        pthread_setspecific(context_key, ctx);
    if (ctx)
        ctx->threads = wanted_threads;
    return ctx;
}

PyObject *native_threads(PyObject *self, PyObject *args)
{
    (void)self;
    int before = wanted_threads, n = before;
    if (!PyArg_ParseTuple(args, "|i", &n))
        return NULL;
    wanted_threads = n;
    return PyLong_FromLong(before);
}

/* ---- arguments ---- */

enum { FEW = 24 }; /* parameters of a call that allocates nothing */

typedef struct PythonCall {
    const moec_kernel *k;
    moe_ctx *ctx;
    size_t n;         /* parameters */
    PyObject *values; /* a tuple: by parameter; None: an `out` that is to be made */
    moec_arg *args;   /* by parameter, as the rest */
    const int64_t **shapes;
    TensorView *views;
    PyObject **made;  /* `out` tensors that were made for this call */
    int64_t dims[64]; /* by dimension of the kernel */
} PythonCall;

static PyObject *raise_status(const PythonCall *c, int status)
{
    return raise_error("CallError", moe_ctx_message(c->ctx), PyLong_FromLong(status));
}

static int refuse(const PythonCall *c, size_t i, const char *what, PyObject *o)
{
    PyObject *type = PyType_GetName(Py_TYPE(o));
    PyObject *text = PyUnicode_FromFormat("%s: '%s' is %s, but the argument is of type %U", c->k->sig->name,
                                          c->k->sig->params[i].name, what, type);
    const char *bytes = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    raise_error("CallError", bytes ? bytes : "an argument has the wrong type", PyLong_FromLong(MOE_ARGUMENT));
    Py_XDECREF(type);
    Py_XDECREF(text);
    return -1;
}

/* What the tensor's library says of it, with the parameter before it. */
static int refuse_view(const PythonCall *c, size_t i)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *said = value ? PyObject_Str(value) : NULL;
    const char *why = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    refuse_argument(c->ctx, "%s: '%s' cannot be used: %.*s", c->k->sig->name, c->k->sig->params[i].name,
                    why ? (int)strcspn(why, "\n") : 0, why ? why : "");
    Py_XDECREF(said), Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    PyErr_Clear();
    raise_status(c, MOE_ARGUMENT);
    return -1;
}

/* 16 bits stand for bf16 where a library has no such type. */
static void take_bits(const SigParam *p, DLTensor *t)
{
    if (p->elem == EL_BF16 && t->dtype.code == kDLUInt && t->dtype.bits == 16)
        t->dtype.code = kDLBfloat;
}

static DLDataType type_of(Elem e)
{
    uint8_t code = e == EL_BF16 ? kDLBfloat : e == EL_I32 ? kDLInt : kDLFloat;
    return (DLDataType){code, (uint8_t)(8 * elem_bytes(e)), 1};
}

/* Of an object that Kernel.pack() made: the bytes, with the shape of what was packed. */
static int take_packed(PythonCall *c, size_t i, PyObject *o)
{
    TensorView *v = &c->views[i];
    const SigParam *p = &c->k->sig->params[i];
    PyObject *memory = PyObject_GetAttrString(o, "memory"), *shape = PyObject_GetAttrString(o, "shape");
    int bad = !memory || !shape || !PyTuple_Check(shape) || PyTuple_Size(shape) != (Py_ssize_t)p->rank;
    if (!bad)
        bad = view_open(v, memory, p->role != ROLE_IN);
    for (uint32_t d = 0; !bad && d < p->rank; d++)
        v->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    if (bad) {
        PyErr_Clear();
        return refuse(c, i, "packed", o);
    }
    v->tensor.ndim = (int)p->rank;
    v->tensor.shape = v->shape;
    v->tensor.strides = NULL;
    v->tensor.dtype = type_of(p->elem);
    return 0;
}

/* A tensor of no memory: the kernel reads only the shape. */
static int take_shape(PythonCall *c, size_t i, PyObject *o)
{
    const SigParam *p = &c->k->sig->params[i];
    TensorView *v = &c->views[i];
    if (!p->unread || PyTuple_Size(o) > MOEC_MAX_RANK)
        return refuse(c, i, "a tensor", o);
    v->tensor = (DLTensor){
        .device = {kDLCPU, 0}, .ndim = (int)PyTuple_Size(o), .dtype = type_of(p->elem), .shape = v->shape};
    for (int d = 0; d < v->tensor.ndim; d++)
        v->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(o, d));
    return PyErr_Occurred() ? -1 : 0;
}

static int take_view(PythonCall *c, size_t i, PyObject *o)
{
    const int status = view_open(&c->views[i], o, c->k->sig->params[i].role != ROLE_IN);
    return status < 0 ? refuse_view(c, i) : status ? refuse(c, i, "a tensor", o) : 0;
}

static int take_tensor(PythonCall *c, size_t i, PyObject *o)
{
    const SigParam *p = &c->k->sig->params[i];
    TensorView *v = &c->views[i];
    if (PyTuple_Check(o) ? take_shape(c, i, o) : p->packed ? take_packed(c, i, o) : take_view(c, i, o))
        return -1;
    take_bits(p, &v->tensor);
    c->args[i] = (moec_arg){.kind = MOEC_TENSOR, .tensor = &v->tensor};
    c->shapes[i] = (uint32_t)v->tensor.ndim == p->rank ? v->tensor.shape : NULL;
    return 0;
}

static int take_route(PythonCall *c, size_t i, PyObject *o)
{
    PyObject *address = PyObject_GetAttrString(o, "address");
    moe_route *r = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    if (!r && PyErr_ExceptionMatches(PyExc_ValueError)) /* a route whose tensors are none of its */
        return -1;
    if (!r) {
        PyErr_Clear();
        return refuse(c, i, "a route", o);
    }
    c->args[i] = (moec_arg){.kind = MOEC_ROUTE, .route = r};
    c->shapes[i] = &r->tokens;
    return 0;
}

static int take_scalar(PythonCall *c, size_t i, PyObject *o)
{
    double value = PyFloat_AsDouble(o);
    if (value == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return refuse(c, i, "a scalar", o);
    }
    c->args[i] = (moec_arg){.kind = MOEC_SCALAR, .scalar = value};
    return 0;
}

static int take_value(PythonCall *c, size_t i, PyObject *o)
{
    switch (c->k->sig->params[i].kind) {
    case MOEC_TENSOR: return o == Py_None ? 0 : take_tensor(c, i, o);
    case MOEC_ROUTE: return o == Py_None && c->k->sig->params[i].role == ROLE_OUT ? 0 : take_route(c, i, o);
    case MOEC_SCALAR: return take_scalar(c, i, o);
    case MOEC_NONE: break;
    }
    return -1;
}

/* ---- outputs that are to be made ---- */

/* As the first argument whose library has C functions, which cost least; or as allocate() likes. */
static PyObject *new_out(PythonCall *c, size_t i, int64_t *extents, PyObject *allocate)
{
    const SigParam *p = &c->k->sig->params[i];
    PyObject *made = NULL;
    for (size_t j = 0; j < c->n && !p->packed && !made; j++)
        made = view_make(&c->views[j], type_of(p->elem), (int)p->rank, extents);
    if (made)
        return made;
    PyObject *shape = PyTuple_New(p->rank);
    for (uint32_t d = 0; shape && d < p->rank; d++)
        PyTuple_SetItem(shape, d, PyLong_FromLongLong(extents[d]));
    made = shape ? PyObject_CallFunction(allocate, "nOO", (Py_ssize_t)i, shape, c->values) : NULL;
    Py_XDECREF(shape);
    return made;
}

/* A dimension of this shape that the call did not find, or NULL. */
static const char *unknown_size(const PythonCall *c, const SigParam *p)
{
    const SigKernel *sig = c->k->sig;
    for (uint32_t a = 0; a < param_rank(p); a++) {
        const SigExtent *e = param_extent(c->k, p, a);
        for (uint32_t t = 0; t < e->nterms; t++)
            for (uint32_t d = 0; d < e->terms[t].ndims; d++)
                for (uint32_t i = 0; i < sig->ndims; i++)
                    if (sig->dims[i] == e->terms[t].dims[d] && c->dims[i] < 0)
                        return c->k->module->signatures.dims[sig->dims[i]].name;
    }
    return NULL;
}

/* Why the shape of output i is not known: an argument that is not what its parameter takes, or that no shape says it. */
static int refuse_shape(const PythonCall *c, size_t i)
{
    int status = MOE_OK;
    for (size_t j = 0; j < c->n && !status; j++)
        if (c->k->sig->params[j].kind == MOEC_TENSOR && PyTuple_GetItem(c->values, (Py_ssize_t)j) != Py_None)
            status = call_check_tensor(c->k, c->ctx, (uint32_t)j, &c->views[j].tensor);
    const SigParam *p = &c->k->sig->params[i];
    const char *size = status ? NULL : unknown_size(c, p);
    if (size)
        status = refuse_argument(
            c->ctx, "%s: the shape of '%s' cannot be found: no argument's shape says %s; write %s=...",
            c->k->sig->name, p->name, size, size);
    else if (!status)
        status = refuse_argument(c->ctx, "%s: the shape of '%s' cannot be found from the arguments' shapes",
                                 c->k->sig->name, p->name);
    raise_status(c, status);
    return -1;
}

/* Room for a route, which allocate() makes for the sizes of the call's dimensions. */
static int make_route(PythonCall *c, size_t i, PyObject *allocate)
{
    const Py_ssize_t n = (Py_ssize_t)c->k->sig->ndims;
    if (unknown_size(c, &c->k->sig->params[i]))
        return refuse_shape(c, i);
    PyObject *sizes = PyTuple_New(n);
    for (Py_ssize_t d = 0; sizes && d < n; d++)
        PyTuple_SetItem(sizes, d, PyLong_FromLongLong(c->dims[d]));
    c->made[i] = sizes ? PyObject_CallFunction(allocate, "nOO", (Py_ssize_t)i, sizes, c->values) : NULL;
    Py_XDECREF(sizes);
    return c->made[i] ? take_route(c, i, c->made[i]) : -1;
}

static int make_out(PythonCall *c, size_t i, PyObject *allocate)
{
    int64_t extents[MOEC_MAX_RANK];
    if (c->k->sig->params[i].kind == MOEC_ROUTE)
        return make_route(c, i, allocate);
    if (moec_kernel_param_shape(c->k, i, c->dims, extents))
        return refuse_shape(c, i);
    c->made[i] = new_out(c, i, extents, allocate);
    return c->made[i] ? take_tensor(c, i, c->made[i]) : -1;
}

static int make_outs(PythonCall *c, PyObject *allocate)
{
    int solved = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (PyTuple_GetItem(c->values, (Py_ssize_t)i) != Py_None)
            continue;
        if (c->k->sig->params[i].role != ROLE_OUT)
            return refuse(c, i, "needed", Py_None);
        int status = solved++ ? 0 : moec_kernel_solve_dims(c->k, c->ctx, c->shapes, c->dims);
        if (status)
            return raise_status(c, status), -1;
        if (make_out(c, i, allocate))
            return -1;
    }
    return 0;
}

/* The `out` tensors and routes in the kernel's order, given or made. */
static PyObject *results(PythonCall *c)
{
    Py_ssize_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        n += c->k->sig->params[i].role == ROLE_OUT;
    PyObject *outs = PyTuple_New(n);
    n = 0;
    for (size_t i = 0; outs && i < c->n; i++)
        if (c->k->sig->params[i].role == ROLE_OUT)
            PyTuple_SetItem(outs, n++,
                            Py_NewRef(c->made[i] ? c->made[i] : PyTuple_GetItem(c->values, (Py_ssize_t)i)));
    return outs;
}

/* ---- the call ---- */

static PyObject *run(PythonCall *c, PyObject *allocate)
{
    int status = MOE_OK;
    for (size_t i = 0; i < c->n; i++)
        if (take_value(c, i, PyTuple_GetItem(c->values, (Py_ssize_t)i)))
            return NULL;
    if (make_outs(c, allocate))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = call_tensors(c->k, c->ctx, c->args, c->n, c->dims);
    Py_END_ALLOW_THREADS return status ? raise_status(c, status) : results(c);
}

/* Sizes that the caller gives, by dimension of the kernel; None: none. */
static int take_dims(PythonCall *c, PyObject *dims)
{
    size_t n = moec_kernel_dims(c->k);
    if (n > sizeof c->dims / sizeof *c->dims || (dims != Py_None && (size_t)PyTuple_Size(dims) != n)) {
        PyErr_SetString(PyExc_ValueError, "the kernel has another number of dimensions");
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        c->dims[i] = dims == Py_None ? -1 : PyLong_AsLongLong(PyTuple_GetItem(dims, (Py_ssize_t)i));
    return PyErr_Occurred() ? -1 : 0;
}

/* With room for n parameters. */
static PyObject *run_in(PythonCall *c, void *room, PyObject *dims, PyObject *allocate)
{
    c->views = room;
    c->args = (moec_arg *)(void *)(c->views + c->n);
    c->shapes = (const int64_t **)(void *)(c->args + c->n);
    c->made = (PyObject **)(void *)(c->shapes + c->n);
    for (size_t i = 0; i < c->n; i++) {
        c->views[i].buffer.obj = NULL;
        c->views[i].held = c->made[i] = NULL;
        c->views[i].library = NULL;
        c->shapes[i] = NULL;
    }
    PyObject *result = take_dims(c, dims) ? NULL : run(c, allocate);
    for (size_t i = 0; i < c->n; i++) {
        view_close(&c->views[i]);
        Py_XDECREF(c->made[i]);
    }
    return result;
}

enum { EACH = sizeof(TensorView) + sizeof(moec_arg) + 2 * sizeof(void *) };

/* call(values, dims, allocate): values by parameter; dims by dimension, or None; allocate(i, shape, values) makes an `out`
 * that is None. Returns the `out` tensors. */
static PyObject *kernel_call(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    PythonCall c = {.k = ((KernelObject *)self)->k, .ctx = own_context()};
    if (!c.ctx)
        return PyErr_NoMemory();
    c.n = c.k->sig->nparams;
    if (n != 3 || !PyTuple_Check(args[0]) || (size_t)PyTuple_Size(args[0]) != c.n) {
        PyErr_SetString(PyExc_TypeError, "call(values, dims, allocate)");
        return NULL;
    }
    c.values = args[0];
    _Alignas(16) char room[FEW * EACH];
    if (c.n <= FEW)
        return run_in(&c, room, args[1], args[2]);
    void *more = malloc(c.n * EACH);
    PyObject *result = more ? run_in(&c, more, args[1], args[2]) : PyErr_NoMemory();
    free(more);
    return result;
}

/* ---- packing ---- */

/* packed_bytes(i, dims): of the memory that parameter i takes. */
static PyObject *kernel_packed_bytes(PyObject *self, PyObject *args)
{
    PythonCall c = {.k = ((KernelObject *)self)->k};
    Py_ssize_t i;
    PyObject *dims;
    if (!PyArg_ParseTuple(args, "nO", &i, &dims) || take_dims(&c, dims))
        return NULL;
    return PyLong_FromLongLong(moec_kernel_param_bytes(c.k, (size_t)i, c.dims));
}

/* Are these the rows of parameter i at the call's dimensions? If not, the context says why. */
static int check_rows(const PythonCall *c, size_t i, TensorView *v)
{
    int64_t shape[MOEC_MAX_RANK];
    const SigParam *p = &c->k->sig->params[i];
    take_bits(p, &v->tensor);
    int status = call_check_tensor(c->k, c->ctx, (uint32_t)i, &v->tensor);
    if (!status && moec_kernel_param_shape(c->k, i, c->dims, shape))
        return refuse_argument(c->ctx, "%s: the sizes of '%s' are not known", c->k->sig->name, p->name);
    for (uint32_t d = 0; !status && d < p->rank; d++)
        if (v->tensor.shape[d] != shape[d])
            status = refuse_argument(c->ctx, "%s: '%s' has %lld at axis %u, but %s is %lld here",
                                     c->k->sig->name, p->name, (long long)v->tensor.shape[d], d,
                                     p->shape[d].text, (long long)shape[d]);
    return status;
}

/* Are there as many bytes as parameter i needs? */
static int check_memory(const PythonCall *c, size_t i, const DLTensor *t)
{
    int64_t wanted = moec_kernel_param_bytes(c->k, i, c->dims);
    if (t->ndim == 1 && t->dtype.bits == 8 && t->shape[0] >= wanted && wanted >= 0 && call_is_dense(t))
        return MOE_OK;
    return refuse_argument(c->ctx, "%s: '%s' takes %lld bytes of packed memory", c->k->sig->name,
                           c->k->sig->params[i].name, (long long)wanted);
}

static void *data_of(const TensorView *v) { return (char *)v->tensor.data + v->tensor.byte_offset; }

/* pack(i, dims, rows, memory) and unpack(i, dims, rows, memory). */
static PyObject *move_packed(PyObject *self, PyObject *args, int unpack)
{
    PythonCall c = {.k = ((KernelObject *)self)->k, .ctx = own_context()};
    Py_ssize_t i;
    PyObject *dims, *rows, *memory;
    TensorView r = {.held = NULL}, m = {.held = NULL};
    if (!PyArg_ParseTuple(args, "nOOO", &i, &dims, &rows, &memory) || take_dims(&c, dims))
        return NULL;
    if (!moec_kernel_param_packed(c.k, (size_t)i))
        return raise_error("CallError", "the parameter is not packed", PyLong_FromLong(MOE_ARGUMENT));
    int status = view_open(&r, rows, unpack) || view_open(&m, memory, !unpack);
    if (status && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "rows and packed memory are tensors");
    if (!status)
        status = check_rows(&c, (size_t)i, &r) || check_memory(&c, (size_t)i, &m.tensor);
    if (!status && (status = unpack ? moec_kernel_unpack(c.k, (size_t)i, c.dims, data_of(&m), data_of(&r))
                                    : moec_kernel_pack(c.k, (size_t)i, c.dims, data_of(&r), data_of(&m))))
        call_refuse(c.ctx, status, moe_strerror(status));
    view_close(&r);
    view_close(&m);
    if (PyErr_Occurred())
        return NULL;
    return status ? raise_status(&c, c.ctx->status) : Py_NewRef(Py_None);
}

static PyObject *kernel_pack(PyObject *self, PyObject *args) { return move_packed(self, args, 0); }
static PyObject *kernel_unpack(PyObject *self, PyObject *args) { return move_packed(self, args, 1); }

static PyMethodDef kernel_methods[] = {
    {"call", (PyCFunction)(void *)kernel_call, METH_FASTCALL, "call(values, dims, allocate)"},
    {"packed_bytes", kernel_packed_bytes, METH_VARARGS, "packed_bytes(i, dims)"},
    {"pack", kernel_pack, METH_VARARGS, "pack(i, dims, rows, memory)"},
    {"unpack", kernel_unpack, METH_VARARGS, "unpack(i, dims, rows, memory)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_dealloc, (void *)kernel_free}, {Py_tp_methods, kernel_methods}, {0, NULL}};

PyType_Spec kernel_spec = {"moec._native.Kernel", sizeof(KernelObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kernel_slots};
