/* The .moe files of model/sources.def, which the program holds as texts. */
#include "model/recipe.h"

#define SOURCE(name)                   \
    extern const char source_##name[]; \
    extern const size_t source_##name##_len;
#include "model/sources.def"

int recipe_add_sources(KernelSet *s)
{
    const struct {
        const char *file, *text;
        size_t len;
    } sources[] = {
#define SOURCE(name) {#name ".moe", source_##name, source_##name##_len},
#include "model/sources.def"
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (kernels_add(s, sources[i].file, sources[i].text, sources[i].len))
            return 1;
    return 0;
}
