/* The config.json of a model. Promise: a config that is accepted is written as text that reads back with the same values. */
#include "tests/fuzz/fuzz.h"

#include "model/model.h"

static void round_trip(Arena *a, const ModelConfig *c)
{
    ModelConfig again;
    Text t = {.arena = a};
    model_config_write(c, &t);
    const char *error = model_config_read(a, "again.json", t.at, t.len, &again, NULL);
    if (error)
        fuzz_fail("%s\n%s", error, t.at);
    for (uint32_t i = 0; i < config_count; i++)
        if (model_config_value(c, &config_table[i]) != model_config_value(&again, &config_table[i]))
            fuzz_fail("%s is read back differently from\n%s", config_table[i].field, t.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ModelConfig c;
    ModelNames unknown = {0};
    fuzz_begin();
    FuzzText f = fuzz_text();
    if (!model_config_read(f.arena, "config.json", (const char *)data, size, &c, &unknown))
        round_trip(f.arena, &c);
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
