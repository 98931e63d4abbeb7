/* The public function about the space of a kernel's schedules. */
#include "explain/explain.h"
#include "driver/module.h"

#include <stdlib.h>

typedef struct Asked {
    const moec_work *work;
    const char *json;
} Asked;

static int find_space(Compilation *c, void *user)
{
    Asked *asked = user;
    Explain e = {.c = c};
    int status = compile_prepare(c);
    if (status)
        return status;
    int64_t *sizes = arena_array(c->arena, int64_t, c->module->dims.len + 1);
    for (DimId d = 0; d < c->module->dims.len; d++)
        sizes[d] = -1;
    e.sizes = sizes;
    status = explain_make(&e) || explain_collect(&e, asked->work->kernel);
    if (status)
        return status;
    if (!e.kernels.len)
        return compile_fail(c, DIAG_driver_kernel, "the file has no kernel");
    char *json = explain_space_json(&e, &e.kernels.at[0], abs(asked->work->threads));
    asked->json = json ? arena_strdup(c->arena, json) : NULL;
    free(json);
    return asked->json ? DRIVER_OK : compile_fail(c, DIAG_driver_argument, "out of memory");
}

int moec_space(moec_context *c, const moec_work *w, const moec_options *o, const char **json)
{
    Asked asked = {.work = w};
    int status = api_begin_work(c, w, o, json, "json");
    if (status)
        return status;
    status = api_read_work(c, w);
    if (!status)
        status = compile_guard(api_compilation(c), find_space, &asked);
    *json = asked.json;
    return status;
}
