/* Random numbers: xoshiro256** seeded by splitmix64 (Blackman and Vigna). Same seed, same stream, everywhere. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

typedef struct Random {
    uint64_t s[4];
} Random;

Random random_new(uint64_t seed);
uint64_t random_bits(Random *r);
double random_unit(Random *r);                   /* uniform in [0, 1) */
double random_normal(Random *r);                 /* mean 0, variance 1 */
int64_t random_below(Random *r, int64_t limit);  /* uniform in 0..limit-1; limit > 0 */

/* Element i of a permutation of 0..n-1 that the seed chooses; 0 <= i < n. Nothing is stored. */
int64_t random_permuted(uint64_t seed, int64_t i, int64_t n);

#endif
