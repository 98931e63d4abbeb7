/* See object.h. The sections stay as they are and stand one after another; only numbers change: section
 * numbers in headers and symbols, symbol numbers in relocations, name offsets in the two string tables.
 *
 * Symbols: local ones of all parts first, as ELF wants, and among them the hidden ones, which only the parts
 * of this object share; then global ones, each name once. */
#include "backend/object.h"

#include <elf.h>
#include <string.h>

typedef struct ObjectPart {
    const char *at;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;
    const Elf64_Sym *symbols;
    const char *names;         /* of symbols */
    uint32_t nsymbols, symtab; /* section number */
    uint32_t *section;         /* old number -> new, 0: dropped */
    uint32_t *symbol;
} ObjectPart;

typedef struct Merge {
    Arena *a;
    ObjectPart *parts;
    uint32_t n;
    Vec(Elf64_Shdr) sections; /* sh_offset: still within `bytes` */
    Vec(Elf64_Sym) symbols;
    uint32_t hidden, locals; /* the first hidden one; how many are local */
    Text section_names, symbol_names, bytes;
} Merge;

static uint32_t add_name(Text *names, const char *name)
{
    uint32_t at = (uint32_t)names->len;
    text_add_bytes(names, name, strlen(name) + 1);
    return at;
}

/* 1 when the part is a relocatable file that this page can merge. */
static int open_part(Arena *a, ObjectPart *p, ObjectBytes b)
{
    p->at = b.at;
    p->head = (const Elf64_Ehdr *)(const void *)b.at;
    if (b.len < sizeof *p->head || memcmp(b.at, ELFMAG, SELFMAG) != 0 || p->head->e_type != ET_REL ||
        !p->head->e_shnum)
        return 0;
    p->sections = (const Elf64_Shdr *)(const void *)(b.at + p->head->e_shoff);
    p->section = arena_array(a, uint32_t, p->head->e_shnum);
    for (uint32_t i = 1; i < p->head->e_shnum; i++) {
        if (p->sections[i].sh_type != SHT_SYMTAB)
            continue;
        p->symtab = i;
        p->symbols = (const Elf64_Sym *)(const void *)(b.at + p->sections[i].sh_offset);
        p->nsymbols = (uint32_t)(p->sections[i].sh_size / sizeof *p->symbols);
        p->names = b.at + p->sections[p->sections[i].sh_link].sh_offset;
    }
    p->symbol = arena_array(a, uint32_t, p->nsymbols + 1);
    return p->symtab != 0;
}

static int keeps(const ObjectPart *p, uint32_t section)
{
    const Elf64_Shdr *s = &p->sections[section];
    int strings = section == p->head->e_shstrndx || section == p->sections[p->symtab].sh_link;
    return s->sh_type != SHT_NULL && s->sh_type != SHT_SYMTAB && !strings && s->sh_type < SHT_LOOS;
}

static void add_bytes(Merge *m, const char *bytes, size_t len, size_t align)
{
    static const char zeros[64];
    size_t over = m->bytes.len % align;
    text_add_bytes(&m->bytes, zeros, over ? align - over : 0);
    text_add_bytes(&m->bytes, bytes, len);
}

/* Gives numbers to the sections of a part and takes their bytes. */
static void take_sections(Merge *m, ObjectPart *p)
{
    const char *names = p->at + p->sections[p->head->e_shstrndx].sh_offset;
    for (uint32_t i = 1; i < p->head->e_shnum; i++) {
        if (!keeps(p, i))
            continue;
        Elf64_Shdr s = p->sections[i];
        size_t len = s.sh_type == SHT_NOBITS ? 0 : s.sh_size,
               align = s.sh_addralign > 64 ? 64 : s.sh_addralign;
        add_bytes(m, p->at + s.sh_offset, len, align ? align : 1);
        s.sh_offset = m->bytes.len - len;
        s.sh_name = add_name(&m->section_names, names + s.sh_name);
        p->section[i] = m->sections.len;
        vec_push(m->a, &m->sections, s);
    }
}

static int is_local(const Elf64_Sym *s) { return ELF64_ST_BIND(s->st_info) == STB_LOCAL; }

static Elf64_Sym moved(Merge *m, const ObjectPart *p, const Elf64_Sym *s)
{
    Elf64_Sym r = *s;
    r.st_name = s->st_name ? add_name(&m->symbol_names, p->names + s->st_name) : 0;
    if (s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE)
        r.st_shndx = (Elf64_Section)p->section[s->st_shndx];
    return r;
}

static void take_locals(Merge *m, ObjectPart *p)
{
    for (uint32_t i = 1; i < p->nsymbols; i++) {
        if (!is_local(&p->symbols[i]))
            continue;
        p->symbol[i] = m->symbols.len;
        vec_push(m->a, &m->symbols, moved(m, p, &p->symbols[i]));
    }
}

static int is_hidden(const Elf64_Sym *s) { return ELF64_ST_VISIBILITY(s->st_other) == STV_HIDDEN; }

static void take_hidden(Merge *m, ObjectPart *p)
{
    for (uint32_t i = 1; i < p->nsymbols; i++) {
        const Elf64_Sym *s = &p->symbols[i];
        if (is_local(s) || !is_hidden(s) || s->st_shndx == SHN_UNDEF)
            continue;
        Elf64_Sym r = moved(m, p, s);
        r.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(s->st_info));
        r.st_other = STV_DEFAULT;
        vec_push(m->a, &m->symbols, r);
    }
}

/* A name that is known: a hidden one of any part, or of an earlier part; at most one of them defines it. */
static uint32_t find_global(const Merge *m, const char *name)
{
    for (uint32_t i = m->hidden; i < m->symbols.len; i++)
        if (strcmp(m->symbol_names.at + m->symbols.at[i].st_name, name) == 0)
            return i;
    return 0;
}

static void take_globals(Merge *m, ObjectPart *p)
{
    for (uint32_t i = 1; i < p->nsymbols; i++) {
        if (is_local(&p->symbols[i]))
            continue;
        uint32_t known = find_global(m, p->names + p->symbols[i].st_name);
        p->symbol[i] = known ? known : m->symbols.len;
        if (!known)
            vec_push(m->a, &m->symbols, moved(m, p, &p->symbols[i]));
        else if (m->symbols.at[known].st_shndx == SHN_UNDEF) /* so it is no hidden one */
            m->symbols.at[known] = moved(m, p, &p->symbols[i]);
    }
}

/* Numbers in the part's relocation sections, now that all symbols have theirs. */
static void fix_relocations(Merge *m, const ObjectPart *p, uint32_t symtab)
{
    for (uint32_t i = 1; i < p->head->e_shnum; i++) {
        if (!p->section[i] || p->sections[i].sh_type != SHT_RELA)
            continue;
        Elf64_Shdr *s = &m->sections.at[p->section[i]];
        s->sh_link = symtab;
        s->sh_info = p->section[p->sections[i].sh_info];
        Elf64_Rela *r = (Elf64_Rela *)(void *)(m->bytes.at + s->sh_offset);
        for (uint64_t j = 0; j < s->sh_size / sizeof *r; j++)
            r[j].r_info = ELF64_R_INFO(p->symbol[ELF64_R_SYM(r[j].r_info)], ELF64_R_TYPE(r[j].r_info));
    }
}

static void add_table(Merge *m, const char *name, uint32_t type, const void *bytes, size_t len,
                      Elf64_Shdr more)
{
    more.sh_name = add_name(&m->section_names, name);
    more.sh_type = type;
    more.sh_size = len;
    more.sh_addralign = type == SHT_SYMTAB ? 8 : 1;
    add_bytes(m, bytes, len, more.sh_addralign);
    more.sh_offset = m->bytes.len - len;
    vec_push(m->a, &m->sections, more);
}

static ObjectBytes write_file(Merge *m, const Elf64_Ehdr *model)
{
    Elf64_Ehdr head = *model;
    size_t start = (sizeof head + 63) / 64 * 64; /* bytes were aligned as if they began here */
    size_t table = (start + m->bytes.len + 7) / 8 * 8;
    head.e_shoff = table;
    head.e_shnum = (Elf64_Half)m->sections.len;
    head.e_shstrndx = (Elf64_Half)(m->sections.len - 1);
    ObjectBytes out = {.len = table + m->sections.len * sizeof *m->sections.at};
    char *at = arena_alloc(m->a, out.len);
    for (uint32_t i = 1; i < m->sections.len; i++)
        m->sections.at[i].sh_offset += start;
    memcpy(at, &head, sizeof head);
    memcpy(at + start, m->bytes.at, m->bytes.len);
    memcpy(at + table, m->sections.at, m->sections.len * sizeof *m->sections.at);
    out.at = at;
    return out;
}

const char *object_merge(const ObjectBytes *objects, uint32_t n, Arena *a, ObjectBytes *out)
{
    Merge m = {.a = a, .parts = arena_array(a, ObjectPart, n), .n = n};
    m.section_names.arena = m.symbol_names.arena = m.bytes.arena = a;
    add_name(&m.section_names, "");
    add_name(&m.symbol_names, "");
    vec_push(a, &m.sections, (Elf64_Shdr){0});
    vec_push(a, &m.symbols, (Elf64_Sym){0});
    for (uint32_t i = 0; i < n; i++)
        if (!open_part(a, &m.parts[i], objects[i]))
            return "an object that LLVM wrote has no symbol table";
    for (uint32_t i = 0; i < n; i++)
        take_sections(&m, &m.parts[i]);
    for (uint32_t i = 0; i < n; i++)
        take_locals(&m, &m.parts[i]);
    m.hidden = m.symbols.len;
    for (uint32_t i = 0; i < n; i++)
        take_hidden(&m, &m.parts[i]);
    m.locals = m.symbols.len;
    for (uint32_t i = 0; i < n; i++)
        take_globals(&m, &m.parts[i]);
    uint32_t symtab = m.sections.len;
    for (uint32_t i = 0; i < n; i++)
        fix_relocations(&m, &m.parts[i], symtab);
    Elf64_Shdr links = {.sh_link = symtab + 1, .sh_info = m.locals, .sh_entsize = sizeof(Elf64_Sym)};
    add_table(&m, ".symtab", SHT_SYMTAB, m.symbols.at, m.symbols.len * sizeof *m.symbols.at, links);
    add_table(&m, ".strtab", SHT_STRTAB, m.symbol_names.at, m.symbol_names.len, (Elf64_Shdr){0});
    uint32_t own = add_name(&m.section_names, ".shstrtab");
    add_bytes(&m, m.section_names.at, m.section_names.len, 1);
    vec_push(a, &m.sections,
             (Elf64_Shdr){.sh_name = own,
                          .sh_type = SHT_STRTAB,
                          .sh_size = m.section_names.len,
                          .sh_offset = m.bytes.len - m.section_names.len,
                          .sh_addralign = 1});
    if (m.sections.len >= SHN_LORESERVE)
        return "the merged object has too many sections";
    *out = write_file(&m, m.parts[0].head);
    return NULL;
}
