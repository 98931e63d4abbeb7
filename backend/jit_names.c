/* Names of JIT code for perf and gdb.
 *
 * Note [Names of JIT code]. The JIT chooses where the sections of an object are placed, and tells addresses of global symbols
 * only. So the object that it loads has one more symbol in each section, "moec.section.N". Then
 *   perf finds a line with address, size and name of each function in /tmp/perf-PID.map, which it reads for code of no file;
 *   gdb is told by its JIT interface of a copy of the object whose section headers have the addresses. If the object was
 *       made with -g, the copy has the lines of the .moe file.
 * Whatever fails here leaves the code without names, and nothing else: it runs as well. */
#include "backend/jit_names.h"

#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A relocatable file that object_merge() or LLVM wrote. */
typedef struct ElfView {
    char *at;
    Elf64_Ehdr *head;
    Elf64_Shdr *sections, *symtab, *strtab;
} ElfView;

static ElfView view(char *bytes)
{
    ElfView v = {.at = bytes, .head = (Elf64_Ehdr *)(void *)bytes};
    v.sections = (Elf64_Shdr *)(void *)(bytes + v.head->e_shoff);
    for (uint32_t i = 1; i < v.head->e_shnum; i++)
        if (v.sections[i].sh_type == SHT_SYMTAB)
            v.symtab = &v.sections[i];
    if (v.symtab)
        v.strtab = &v.sections[v.symtab->sh_link];
    return v;
}

static const char *section_name(const ElfView *v, uint32_t i)
{
    return v->at + v->sections[v->head->e_shstrndx].sh_offset + v->sections[i].sh_name;
}

/* The JIT takes .eh_frame apart, and nobody asks where it is. */
static int is_marked(const ElfView *v, uint32_t i)
{
    const Elf64_Shdr *s = &v->sections[i];
    return s->sh_flags & SHF_ALLOC && s->sh_size && strcmp(section_name(v, i), ".eh_frame") != 0;
}

static const char *mark_of(Arena *a, uint32_t i) { return arena_printf(a, "moec.section.%u", i); }

/* ---- before the object is loaded ---- */

/* Adds bytes behind the file at a multiple of 8; returns where. */
static size_t append(Text *file, const void *bytes, size_t len)
{
    static const char zeros[8];
    text_add_bytes(file, zeros, -file->len & 7);
    text_add_bytes(file, bytes, len);
    return file->len - len;
}

static void add_marks(const ElfView *v, Arena *a, Text *symbols, Text *names)
{
    for (uint32_t i = 1; i < v->head->e_shnum; i++) {
        if (!is_marked(v, i))
            continue;
        Elf64_Sym mark = {.st_name = (Elf64_Word)names->len,
                          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE),
                          .st_shndx = (Elf64_Section)i};
        const char *name = mark_of(a, i);
        text_add_bytes(names, name, strlen(name) + 1);
        text_add_bytes(symbols, (const char *)&mark, sizeof mark);
    }
}

/* Both tables and the section headers are written anew behind everything else; global symbols are the last anyway. */
ObjectBytes jit_names_mark(ObjectBytes object, Arena *a)
{
    Text file = {.arena = a}, symbols = {.arena = a}, names = {.arena = a}, headers = {.arena = a};
    text_add_bytes(&file, object.at, object.len);
    ElfView old = view(file.at);
    if (!old.symtab)
        return object;
    text_add_bytes(&symbols, old.at + old.symtab->sh_offset, old.symtab->sh_size);
    text_add_bytes(&names, old.at + old.strtab->sh_offset, old.strtab->sh_size);
    add_marks(&old, a, &symbols, &names);
    text_add_bytes(&headers, (const char *)old.sections, old.head->e_shnum * sizeof *old.sections);
    size_t symtab = append(&file, symbols.at, symbols.len), strtab = append(&file, names.at, names.len),
           table = append(&file, headers.at, headers.len);
    ((Elf64_Ehdr *)(void *)file.at)->e_shoff = table;
    ElfView v = view(file.at);
    v.symtab->sh_offset = symtab;
    v.symtab->sh_size = symbols.len;
    v.strtab->sh_offset = strtab;
    v.strtab->sh_size = names.len;
    return (ObjectBytes){file.at, file.len};
}

/* ---- perf ---- */

/* In one write, so that lines of several threads do not mix. Neither another user's file nor a link is followed. */
static void write_map(const Text *lines)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    int own = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid();
    ssize_t written = own ? write(fd, lines->at, lines->len) : 0;
    (void)written; /* a full disk costs names only */
    close(fd);
}

static void tell_perf(const ElfView *v, Arena *a)
{
    Text lines = {.arena = a};
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(v->at + v->symtab->sh_offset);
    for (uint64_t i = 0; i < v->symtab->sh_size / sizeof *symbols; i++) {
        const Elf64_Sym *s = &symbols[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF ||
            s->st_shndx >= v->head->e_shnum)
            continue;
        unsigned long long at = v->sections[s->st_shndx].sh_addr + s->st_value;
        if (v->sections[s->st_shndx].sh_addr)
            text_add(&lines, "%llx %llx %s\n", at, (unsigned long long)s->st_size,
                     v->at + v->strtab->sh_offset + s->st_name);
    }
    if (lines.len)
        write_map(&lines);
}

/* ---- gdb ---- */

/* What gdb looks for in every library, with the names and layouts that its manual gives ("JIT Compilation Interface"). */
struct jit_code_entry {
    struct jit_code_entry *next, *prev;
    const char *symfile_addr;
    uint64_t symfile_size;
};

enum { GDB_NOTHING, GDB_REGISTER, GDB_UNREGISTER };

struct jit_descriptor {
    uint32_t version, action_flag;
    struct jit_code_entry *relevant_entry, *first_entry;
};

void __jit_debug_register_code(void);
extern struct jit_descriptor __jit_debug_descriptor;

/* gdb stops in it, and then looks at the descriptor. */
__attribute__((noinline, visibility("default"))) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"))) struct jit_descriptor __jit_debug_descriptor = {.version = 1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct JitNames {
    struct jit_code_entry entry;
    char object[];
};

static void act(JitNames *names, uint32_t action)
{
    __jit_debug_descriptor.relevant_entry = &names->entry;
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = GDB_NOTHING;
}

static JitNames *tell_gdb(const ElfView *v, size_t len)
{
    JitNames *names = malloc(sizeof *names + len);
    if (!names)
        return NULL;
    memcpy(names->object, v->at, len);
    pthread_mutex_lock(&lock);
    struct jit_code_entry *first = __jit_debug_descriptor.first_entry;
    names->entry = (struct jit_code_entry){.next = first, .symfile_addr = names->object, .symfile_size = len};
    if (first)
        first->prev = &names->entry;
    __jit_debug_descriptor.first_entry = &names->entry;
    act(names, GDB_REGISTER);
    pthread_mutex_unlock(&lock);
    return names;
}

void jit_names_free(JitNames *names)
{
    if (!names)
        return;
    pthread_mutex_lock(&lock);
    struct jit_code_entry *next = names->entry.next, *prev = names->entry.prev;
    *(prev ? &prev->next : &__jit_debug_descriptor.first_entry) = next;
    if (next)
        next->prev = prev;
    act(names, GDB_UNREGISTER);
    pthread_mutex_unlock(&lock);
    free(names);
}

/* ---- after it is loaded ---- */

JitNames *jit_names_tell(ObjectBytes marked, BackendJit *jit, Arena *a)
{
    char *copy = arena_alloc(a, marked.len);
    memcpy(copy, marked.at, marked.len);
    ElfView v = view(copy);
    if (!v.symtab)
        return NULL;
    for (uint32_t i = 1; i < v.head->e_shnum; i++)
        if (is_marked(&v, i))
            v.sections[i].sh_addr = (Elf64_Addr)(uintptr_t)jit_symbol(jit, mark_of(a, i));
    tell_perf(&v, a);
    return tell_gdb(&v, marked.len);
}
