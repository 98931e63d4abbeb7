/* Python objects as DLPack tensors, without a copy: PyTorch through its table of C functions, which costs least; whatever has
 * the buffer protocol, as numpy's arrays have; everything else through __dlpack__(). */
#include "driver/element.h"
#include "python/native.h"

#include <string.h>

/* DLPackExchangeAPI of DLPack 1.3, as far as it is used here; older headers do not have it. */
typedef struct TensorExchange {
    struct {
        uint32_t major, minor;
    } version;
    void *previous;
    int (*allocate)(DLTensor *like, void **managed, void *user,
                    void (*refuse)(void *user, const char *kind, const char *text));
    void *managed_from;
    int (*managed_to)(void *managed, void **object); /* takes it; -1: a Python exception is set */
    int (*tensor_from)(void *object, DLTensor *out); /* borrows; likewise */
} TensorExchange;

/* Of the types that were met last, tensors and parameters, say; the references keep them. */
enum { KNOWN = 4 };
static struct {
    PyObject *type;
    const TensorExchange *exchange;
    int may_negate; /* its memory may hold the values with the other sign, as PyTorch's: is_neg() */
} known[KNOWN];
static unsigned known_next;

/* What the type says, NULL if it says nothing that is of use. */
static const TensorExchange *ask_exchange(PyObject *type)
{
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const TensorExchange *found = NULL;
    if (capsule)
        found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    PyErr_Clear();
    Py_XDECREF(capsule); /* the table is as old as the process */
    return found && found->version.major == 1 ? found : NULL;
}

static const TensorExchange *find_exchange(PyObject *type)
{
    for (int i = 0; i < KNOWN; i++)
        if (known[i].type == type)
            return known[i].exchange;
    const TensorExchange *found = ask_exchange(type);
    if (found) {
        unsigned at = known_next++ % KNOWN;
        PyObject *before = known[at].type;
        known[at].type = Py_NewRef(type);
        known[at].exchange = found;
        known[at].may_negate = PyObject_HasAttrString(type, "is_neg");
        Py_XDECREF(before);
    }
    return found;
}

/* The library's own __dlpack__() refuses such a tensor, its table of functions does not. Returns -1 with an exception. */
static int check_sign(PyObject *o)
{
    int may_negate = 0;
    for (int i = 0; i < KNOWN; i++)
        may_negate |= known[i].type == (PyObject *)Py_TYPE(o) && known[i].may_negate;
    PyObject *negates = may_negate ? PyObject_CallMethod(o, "is_neg", NULL) : NULL;
    const int bad = negates == Py_True;
    Py_XDECREF(negates);
    if (bad)
        PyErr_SetString(PyExc_ValueError, "its memory has the values with the other sign (PyTorch's negative "
                                          "bit): t.resolve_neg() makes a tensor of them");
    return bad || PyErr_Occurred() ? -1 : 0;
}

/* What is wrong the library says again when it is asked in Python. */
static void leave_reason(void *user, const char *kind, const char *text)
{
    (void)user, (void)kind, (void)text;
}

PyObject *view_make(const TensorView *v, DLDataType type, int rank, int64_t *shape)
{
    const TensorExchange *x = v->library;
    DLTensor like = {.device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
    void *managed, *made;
    if (x && x->allocate && x->managed_to && x->allocate(&like, &managed, NULL, leave_reason) == 0 &&
        x->managed_to(managed, &made) == 0)
        return made;
    PyErr_Clear();
    return NULL;
}

/* ---- buffers ---- */

/* The type that a format of the struct module means; the kind that no parameter has where it is none of them. */
static DLDataType type_of_format(const char *format, Py_ssize_t bytes)
{
    static const struct {
        const char *letters;
        uint8_t code;
    } kinds[] = {{"efd", kDLFloat}, {"bhilqn", kDLInt}, {"BHILQN", kDLUInt}, {"?", DLPACK_BOOL}};
    format += format && strchr("@=<", *format) && *format;
    DLDataType type = {kDLOpaqueHandle, (uint8_t)(8 * bytes), 1};
    for (size_t i = 0; format && format[0] && !format[1] && i < sizeof kinds / sizeof *kinds; i++)
        if (strchr(kinds[i].letters, *format))
            type.code = kinds[i].code;
    return type;
}

static int take_buffer(TensorView *v)
{
    const Py_buffer *b = &v->buffer;
    if (b->ndim > MOEC_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "a tensor has at most %d axes, not %d", MOEC_MAX_RANK, b->ndim);
        return -1;
    }
    v->tensor = (DLTensor){.data = b->buf,
                           .device = {kDLCPU, 0},
                           .ndim = b->ndim,
                           .dtype = type_of_format(b->format, b->itemsize),
                           .shape = v->shape,
                           .strides = v->strides};
    for (int i = 0; i < b->ndim; i++) {
        v->shape[i] = b->shape[i];
        v->strides[i] = b->itemsize && b->strides[i] % b->itemsize == 0 ? b->strides[i] / b->itemsize : -1;
    }
    return 0;
}

/* An array whose type the buffer protocol has no letter for: bfloat16 of the package ml_dtypes is seen as 16 bits. */
static int open_viewed(TensorView *v, PyObject *o, int flags)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *dtype = PyObject_GetAttrString(o, "dtype"), *name = dtype ? PyObject_Str(dtype) : NULL;
    if (name && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0)
        v->held = PyObject_CallMethod(o, "view", "s", "uint16");
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    PyErr_Clear();
    if (v->held && PyObject_GetBuffer(v->held, &v->buffer, flags) == 0) {
        Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
        return take_buffer(v);
    }
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return -1;
}

static int open_buffer(TensorView *v, PyObject *o, int writable)
{
    int flags = PyBUF_FORMAT | PyBUF_STRIDES | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(o, &v->buffer, flags) == 0)
        return take_buffer(v);
    v->buffer.obj = NULL;
    return open_viewed(v, o, flags);
}

/* ---- __dlpack__ ---- */

static int open_capsule(TensorView *v, PyObject *o)
{
    if (!PyObject_HasAttrString(o, "__dlpack__"))
        return 1;
    v->held = PyObject_CallMethod(o, "__dlpack__", NULL);
    const DLManagedTensor *managed = v->held ? PyCapsule_GetPointer(v->held, "dltensor") : NULL;
    if (!managed)
        return -1;
    v->tensor = managed->dl_tensor; /* the capsule is not consumed: it frees what it holds when it goes */
    return 0;
}

/* ---- the front ---- */

int view_open(TensorView *v, PyObject *o, int writable)
{
    v->buffer.obj = NULL;
    v->held = NULL;
    v->library = NULL;
    if (PyObject_CheckBuffer(o))
        return open_buffer(v, o, writable);
    v->library = find_exchange((PyObject *)Py_TYPE(o));
    if (!v->library)
        return open_capsule(v, o);
    return check_sign(o) ? -1 : v->library->tensor_from(o, &v->tensor);
}

void view_close(TensorView *v)
{
    if (v->buffer.obj)
        PyBuffer_Release(&v->buffer);
    Py_CLEAR(v->held);
}
