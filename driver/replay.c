/* The replay file of an internal error: what it takes to see it again. */
#include "driver/driver.h"

static void add_option(Text *t, const char *name, const char *value)
{
    if (value)
        text_add(t, "// %s=%s\n", name, value);
}

static int write_replay(Compilation *c, void *user)
{
    const CompileOptions *o = &c->options;
    const char **path = user;
    Text t = {.arena = c->arena};
    Output out = {.arena = c->arena};
    text_add(&t, "// moec %s (LLVM %s, build %s) failed inside:\n// %s\n", MOEC_VERSION, MOEC_LLVM_VERSION,
             plugin_build_id(c->arena), arena_message(c->arena));
    text_add(&t, "// options: -O%d%s%s%s --pass-limit=%d --schedule-seed=%llu\n", o->level,
             o->debug ? " -g" : "", o->verify_each ? " --verify-each" : "", o->no_cache ? " --no-cache" : "",
             o->limit, (unsigned long long)o->schedule_seed);
    for (uint32_t i = 0; i < c->isas.n; i++)
        add_option(&t, "target", cpu_table[c->isas.at[i]].name);
    add_option(&t, "start-at", o->start_at);
    add_option(&t, "stop-after", o->stop_after);
    text_add_bytes(&t, c->text.at ? c->text.at : "", c->text.len);
    const char *name = arena_printf(c->arena, "%s.replay", c->path);
    if (output_add(&out, name, (Bytes){text_string(&t), t.len}, 0) || output_commit(&out))
        return DRIVER_ERROR;
    *path = name;
    return DRIVER_OK;
}

const char *compile_replay(Compilation *c)
{
    const char *path = NULL;
    return compile_guard(c, write_replay, &path) ? NULL : path;
}
