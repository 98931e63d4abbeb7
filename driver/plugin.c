/* Finds and opens the back end's plug-in, and names the build of the compiler.
 *
 * The plug-in is opened only when something must be compiled: a cached kernel never loads LLVM. Its build id
 * is therefore read from the file. */
#include "driver/driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The directory of the file that holds this code: libmoec.so, or a program that has it inside. */
static const char *own_file(Arena *a)
{
    char exe[PATH_MAX];
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((void *)(uintptr_t)&plugin_open, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
        map->l_name[0])
        return arena_strdup(a, map->l_name);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    return n > 0 ? arena_strndup(a, exe, (size_t)n) : NULL;
}

static const char *own_directory(Arena *a)
{
    char real[PATH_MAX];
    const char *file = own_file(a);
    if (!file || !realpath(file, real))
        return NULL;
    return arena_strndup(a, real, (size_t)(strrchr(real, '/') - real));
}

/* Beside this file in a build tree, below the library directory once installed. */
static const char *find_plugin(Arena *a)
{
    static const char *const places[] = {"moec-llvm.so", "../lib/moec-llvm.so", "moec/moec-llvm.so",
                                         "../" MOEC_LIBDIR "/moec/moec-llvm.so"};
    const char *forced = secure_getenv("MOEC_BACKEND");
    if (forced && *forced)
        return forced;
    const char *directory = own_directory(a);
    for (size_t i = 0; directory && i < sizeof places / sizeof *places; i++) {
        const char *path = arena_printf(a, "%s/%s", directory, places[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

const char *plugin_directory(Arena *a)
{
    const char *path = find_plugin(a), *end = path ? strrchr(path, '/') : NULL;
    return end ? arena_strndup(a, path, (size_t)(end - path)) : ".";
}

const BackendApi *plugin_open(Arena *a, const char **error)
{
    const char *path = find_plugin(a);
    if (!path) {
        *error = "the back end moec-llvm.so is not where the compiler is installed; MOEC_BACKEND can name it";
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: LLVM cannot be unloaded */
    BackendEntry *entry = handle ? (BackendEntry *)(uintptr_t)dlsym(handle, "backend_entry") : NULL;
    if (!entry) {
        const char *why = dlerror();
        *error = arena_printf(a, "the back end cannot be loaded: %s", why ? why : path);
        return NULL;
    }
    return entry();
}

static void *load_plugin(void *path)
{
    dlopen(path, RTLD_NOW | RTLD_LOCAL); /* a failure is plugin_open()'s to report */
    return NULL;
}

void plugin_load_begin(PluginLoad *load, Arena *a)
{
    const char *path = find_plugin(a);
    if (path && !pthread_create(&load->thread, NULL, load_plugin, (void *)(uintptr_t)path))
        load->path = path;
}

void plugin_load_end(PluginLoad *load)
{
    if (load->path)
        pthread_join(load->thread, NULL);
    load->path = NULL;
}

/* ---- build ids ---- */

static int note_matches(const ElfW(Nhdr) * note)
{
    return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0;
}

static Bytes build_id_in_notes(const char *notes, size_t len)
{
    size_t at = 0;
    while (len - at >= sizeof(ElfW(Nhdr)) && at < len) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = ((size_t)note->n_namesz + 3) & ~(size_t)3;
        size_t id = ((size_t)note->n_descsz + 3) & ~(size_t)3;
        if (name > len || id > len || sizeof *note + name + id > len - at)
            break;
        if (note_matches(note))
            return (Bytes){(const char *)(note + 1) + name, note->n_descsz};
        at += sizeof *note + name + id;
    }
    return (Bytes){NULL, 0};
}

static Bytes build_id_in_headers(const char *image, size_t len)
{
    const ElfW(Ehdr) *h = (const void *)image;
    if (len < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_phentsize != sizeof(ElfW(Phdr)) ||
        h->e_phoff > len || h->e_phnum * sizeof(ElfW(Phdr)) > len - h->e_phoff)
        return (Bytes){NULL, 0};
    const ElfW(Phdr) *p = (const void *)(image + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_NOTE && p[i].p_offset <= len && p[i].p_filesz <= len - p[i].p_offset) {
            Bytes id = build_id_in_notes(image + p[i].p_offset, p[i].p_filesz);
            if (id.len)
                return id;
        }
    return (Bytes){NULL, 0};
}

/* The linker's build id of a file; when it has none, the hash of all its bytes. */
static void add_identity(Text *t, const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s) != 0 || s.st_size <= 0) {
        text_add(t, "missing");
    } else {
        size_t len = (size_t)s.st_size;
        char *image = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            char hex[33];
            Bytes id = build_id_in_headers(image, len);
            hash_hex(id.len ? id.at : image, id.len ? id.len : len, hex);
            text_add(t, "%s", hex);
            munmap(image, len);
        }
    }
    if (fd >= 0)
        close(fd);
}

const char *plugin_build_id(Arena *a)
{
    Text t = {.arena = a};
    const char *own = own_file(a), *plugin = find_plugin(a);
    char hex[33];
    text_add(&t, "%s %s ", MOEC_VERSION, MOEC_LLVM_VERSION);
    add_identity(&t, own ? own : "");
    text_add(&t, " ");
    add_identity(&t, plugin ? plugin : "");
    hash_hex(text_string(&t), t.len, hex);
    return arena_strndup(a, hex, 32);
}
