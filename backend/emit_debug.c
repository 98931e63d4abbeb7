/* DWARF lines of the .moe file: one compile unit, a subprogram per launch, a line per statement. */
#include "backend/emit.h"

#include <string.h>

struct Debug {
    L *l;
    const Module *m;
    LLVMDIBuilderRef di;
    LLVMMetadataRef *files; /* by Diags.files */
    LLVMMetadataRef unit, type, scope;
};

static LLVMMetadataRef file_of(Debug *d, uint32_t file)
{
    const char *path = file < d->m->diags->files.len ? d->m->diags->files.at[file].path : d->m->path;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    return LLVMDIBuilderCreateFile(d->di, base, strlen(base), path, slash ? (size_t)(slash - path) : 0);
}

static LLVMMetadataRef known_file(Debug *d, uint32_t file)
{
    uint32_t at = file < d->m->diags->files.len ? file : d->m->diags->files.len;
    if (!d->files[at])
        d->files[at] = file_of(d, file);
    return d->files[at];
}

static void add_flag(L *l, const char *name, unsigned value)
{
    V v = l_i32(l, value);
    LLVMAddModuleFlag(l->mod, LLVMModuleFlagBehaviorWarning, name, strlen(name), LLVMValueAsMetadata(v));
}

Debug *debug_new(L *l, const Module *m)
{
    Debug *d = arena_new_of(l->arena, Debug);
    *d = (Debug){.l = l, .m = m, .di = LLVMCreateDIBuilder(l->mod)};
    d->files = arena_array(l->arena, LLVMMetadataRef, m->diags->files.len + 1);
    d->unit =
        LLVMDIBuilderCreateCompileUnit(d->di, LLVMDWARFSourceLanguageC99, known_file(d, 0), "moec", 4, 1, "",
                                       0, 0, "", 0, LLVMDWARFEmissionFull, 0, 0, 0, "", 0, "", 0);
    d->type = LLVMDIBuilderCreateSubroutineType(d->di, known_file(d, 0), NULL, 0, LLVMDIFlagZero);
    add_flag(l, "Debug Info Version", LLVMDebugMetadataVersion());
    add_flag(l, "Dwarf Version", 4);
    return d;
}

void debug_function(Debug *d, V fn, const char *name, Loc loc)
{
    LLVMMetadataRef file = known_file(d, loc.file);
    d->scope = LLVMDIBuilderCreateFunction(d->di, file, name, strlen(name), name, strlen(name), file,
                                           loc.line, d->type, 1, 1, loc.line, LLVMDIFlagZero, 1);
    LLVMSetSubprogram(fn, d->scope);
}

void debug_line(Debug *d, Loc loc)
{
    if (loc.line)
        LLVMSetCurrentDebugLocation2(
            d->l->b, LLVMDIBuilderCreateDebugLocation(d->l->ctx, loc.line, loc.col, d->scope, NULL));
}

void debug_finish(Debug *d)
{
    LLVMDIBuilderFinalize(d->di);
    LLVMDisposeDIBuilder(d->di);
}
