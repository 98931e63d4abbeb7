/* Allocations are counted: these functions stand before the C library's, for all libraries of the process. For one file of a test
 * program; not under sanitizers, which have a malloc of their own. */
#ifndef TESTS_ALLOCATIONS_H
#define TESTS_ALLOCATIONS_H

#include <stddef.h>

static long allocations;
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) { return allocations++, __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return allocations++, __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return allocations++, __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return allocations++, __libc_memalign(align, n); }

#endif
