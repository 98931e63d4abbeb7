#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

static void print_hex(XXH128_hash_t h, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

void hash_hex(const void *bytes, size_t length, char out[33]) { print_hex(XXH3_128bits(bytes, length), out); }

/* The rest of an open file. */
static int hash_rest(int fd, XXH3_state_t *state, unsigned char *room, size_t size)
{
    for (ssize_t n; (n = read(fd, room, size)) != 0;) {
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0)
            XXH3_128bits_update(state, room, (size_t)n);
    }
    return 0;
}

int hash_file(const char *path, char out[33])
{
    enum { PIECE = 1 << 18 };
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for its writer */
    if (fd < 0)
        return errno;
    XXH3_state_t *state = XXH3_createState();
    unsigned char *room = malloc(PIECE);
    int reason = ENOMEM;
    if (state && room) {
        XXH3_128bits_reset(state);
        reason = hash_rest(fd, state, room, PIECE);
        print_hex(XXH3_128bits_digest(state), out);
    }
    free(room);
    XXH3_freeState(state);
    close(fd);
    return reason;
}
