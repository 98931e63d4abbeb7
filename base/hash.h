/* Hashes: a 64-bit one for tables, a 128-bit one that names cached content (XXH3 of libxxhash). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed);
/* 32 hexadecimal digits and '\0' of the content's 128-bit hash. */
void hash_hex(const void *bytes, size_t length, char out[33]);
/* The same of a file, read piece by piece. Returns 0, or the reason. */
int hash_file(const char *path, char out[33]);

#endif
