/* Spaces, predictions, cases and timing of kernels: moec_space, moec_predict, moec_case_*, moec_measure. Work is a tuple (path, text, kernel, sizes,
 * routing, seed, threads). */
#include "python/native.h"

#include <stdlib.h>

/* What these functions begin with. */
typedef struct MeasuredWork {
    moec_work work;
    moec_options options;
    moec_context *context;
} MeasuredWork;

/* 0, or -1 with an exception. Texts are those of the Python objects, which the caller holds. */
static int begin(const char *library, PyObject *work, PyObject *options, MeasuredWork *out)
{
    unsigned long long seed;
    *out = (MeasuredWork){.work = {.seed = 0}};
    if (!PyArg_ParseTuple(work, "zzzzzKi", &out->work.path, &out->work.text, &out->work.kernel,
                          &out->work.sizes, &out->work.routing, &seed, &out->work.threads) ||
        take_options(options, &out->options) || open_compiler(library))
        return -1;
    out->work.seed = seed;
    out->context = compiler.context_new();
    return 0;
}

static PyObject *end(MeasuredWork *asked, int status, PyObject *result)
{
    if (status)
        raise_error("CompileError", compiler.error_text(asked->context),
                    PyUnicode_FromString(compiler.error_json(asked->context)));
    compiler.context_free(asked->context);
    return result;
}

/* space(libmoec, work, options): JSON. */
PyObject *native_space(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library, *json = NULL;
    PyObject *work, *options;
    MeasuredWork asked;
    if (!PyArg_ParseTuple(args, "sOO", &library, &work, &options) || begin(library, work, options, &asked))
        return NULL;
    int status = compiler.space(asked.context, &asked.work, &asked.options, &json);
    return end(&asked, status, status ? NULL : PyUnicode_FromString(json));
}

/* predict(libmoec, work, options): seconds, flops_16bit, flops. */
PyObject *native_predict(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library;
    PyObject *work, *options;
    MeasuredWork asked;
    moec_prediction p = {0};
    int status;
    if (!PyArg_ParseTuple(args, "sOO", &library, &work, &options) || begin(library, work, options, &asked))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = compiler.predict(asked.context, &asked.work, &asked.options, &p);
    Py_END_ALLOW_THREADS return end(&asked, status,
                                    status ? NULL : Py_BuildValue("ddd", p.seconds, p.flops_16bit, p.flops));
}

/* ---- cases ---- */

static void free_case(PyObject *capsule) { compiler.case_free(PyCapsule_GetPointer(capsule, "moec_case")); }

static moec_case *case_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, "moec_case"); }

static PyObject *fail_case(const moec_case *k)
{
    return raise_error("CallError", compiler.case_error(k), NULL);
}

/* case_new(libmoec, work, options): the case, what it is in words, its instruction set, bytes. */
PyObject *native_case_new(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library;
    PyObject *work, *options, *result = NULL;
    MeasuredWork asked;
    moec_case *made = NULL;
    if (!PyArg_ParseTuple(args, "sOO", &library, &work, &options) || begin(library, work, options, &asked))
        return NULL;
    int status = compiler.case_new(asked.context, &asked.work, &asked.options, &made);
    PyObject *capsule = status ? NULL : PyCapsule_New(made, "moec_case", free_case);
    if (capsule)
        result = Py_BuildValue("NssL", capsule, compiler.case_text(made), compiler.case_target(made),
                               (long long)compiler.case_bytes(made));
    return end(&asked, status, result);
}

/* case_time(case, calls): seconds of all calls together. */
PyObject *native_case_time(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    int calls;
    double seconds;
    moec_case *k = PyArg_ParseTuple(args, "Oi", &capsule, &calls) ? case_of(capsule) : NULL;
    if (!k)
        return NULL;
    Py_BEGIN_ALLOW_THREADS seconds = compiler.case_time(k, calls);
    Py_END_ALLOW_THREADS return seconds < 0 ? fail_case(k) : PyFloat_FromDouble(seconds);
}

/* case_check(case): the largest error in units of its bound, elements compared, of them in doubt, the sizes. */
PyObject *native_case_check(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    moec_score score = {0};
    const char *sizes = NULL;
    int wrong;
    moec_case *k = PyArg_ParseTuple(args, "O", &capsule) ? case_of(capsule) : NULL;
    if (!k)
        return NULL;
    Py_BEGIN_ALLOW_THREADS wrong = compiler.case_check(k, &score, &sizes);
    Py_END_ALLOW_THREADS return wrong
        ? fail_case(k)
        : Py_BuildValue("dLLz", score.worst, (long long)score.compared, (long long)score.doubtful, sizes);
}

/* case_digest(case): a hash of the bits of its results. */
PyObject *native_case_digest(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    const char *digest;
    moec_case *k = PyArg_ParseTuple(args, "O", &capsule) ? case_of(capsule) : NULL;
    if (!k)
        return NULL;
    Py_BEGIN_ALLOW_THREADS digest = compiler.case_digest(k);
    Py_END_ALLOW_THREADS return digest ? PyUnicode_FromString(digest) : fail_case(k);
}

/* ---- measuring ---- */

enum { SCHEDULES = 64, ROUNDS = 10000 };

static PyObject *samples_of(const moec_runner *r, Py_ssize_t n)
{
    PyObject *all = PyList_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        PyObject *one = PyList_New((Py_ssize_t)r[i].rounds);
        for (size_t k = 0; one && k < r[i].rounds; k++)
            PyList_SetItem(one, (Py_ssize_t)k, PyFloat_FromDouble(r[i].samples[k]));
        PyList_SetItem(all, i, one);
    }
    return all;
}

static int make_cases(MeasuredWork *asked, PyObject *schedules, Py_ssize_t n, moec_runner *r)
{
    int status = 0;
    for (Py_ssize_t i = 0; i < n && !status; i++) {
        PyObject *schedule = PyList_GetItem(schedules, i);
        moec_case *made = NULL;
        asked->options.schedule = schedule == Py_None ? NULL : PyUnicode_AsUTF8AndSize(schedule, NULL);
        status = compiler.case_new(asked->context, &asked->work, &asked->options, &made);
        r[i] = (moec_runner){
            .time = compiler.case_time, .user = made, .samples = calloc(ROUNDS, sizeof(double))};
    }
    return status;
}

/* measure(libmoec, work, options, schedules, rounds, seconds): a list of seconds of a call, one for each round, for each of
 * the schedules (None: the usual one), which take turns. */
PyObject *native_measure(PyObject *self, PyObject *args)
{
    (void)self;
    const char *library;
    PyObject *work, *options, *schedules, *result = NULL;
    Py_ssize_t rounds;
    double seconds;
    MeasuredWork asked;
    moec_runner r[SCHEDULES] = {{0}};
    if (!PyArg_ParseTuple(args, "sOOOnd", &library, &work, &options, &schedules, &rounds, &seconds))
        return NULL;
    Py_ssize_t n = PyList_Size(schedules);
    if (n < 1 || n > SCHEDULES || rounds < 1 || rounds > ROUNDS)
        return PyErr_Format(PyExc_ValueError, "1 to %d schedules and 1 to %d rounds are measured", SCHEDULES,
                            ROUNDS);
    if (begin(library, work, options, &asked))
        return NULL;
    const moec_patience p = {.fewest = (size_t)rounds, .most = ROUNDS, .seconds = seconds};
    int status = make_cases(&asked, schedules, n, r), failed = 0;
    if (!status) {
        Py_BEGIN_ALLOW_THREADS failed = compiler.measure(r, (size_t)n, &p);
        Py_END_ALLOW_THREADS result =
            failed ? raise_error("CallError", compiler.case_error(r[failed - 1].user), NULL)
                   : samples_of(r, n);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        compiler.case_free(r[i].user);
        free(r[i].samples);
    }
    return end(&asked, status, result);
}
