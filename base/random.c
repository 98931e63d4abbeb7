#include "base/random.h"

#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

Random random_new(uint64_t seed)
{
    Random r;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&seed);
    return r;
}

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

uint64_t random_bits(Random *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double random_unit(Random *r) { return (double)(random_bits(r) >> 11) * 0x1p-53; }

double random_normal(Random *r)
{
    double u = 1.0 - random_unit(r), v = random_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

int64_t random_below(Random *r, int64_t limit) { return (int64_t)(random_bits(r) % (uint64_t)limit); }

/* A Feistel network permutes the pairs of halves, at most four times as many as n; the walk goes on until it is back below n. */
int64_t random_permuted(uint64_t seed, int64_t i, int64_t n)
{
    enum { ROUNDS = 4 };
    int bits = 1;
    while (n > (int64_t)1 << 2 * bits)
        bits++;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = (uint64_t)i;
    do
        for (uint64_t round = 0; round < ROUNDS; round++) {
            const uint64_t left = at >> bits, right = at & mask;
            uint64_t key = seed + round, mixed = splitmix(&key) ^ right;
            at = right << bits | (left ^ (splitmix(&mixed) & mask));
        }
    while (at >= (uint64_t)n);
    return (int64_t)at;
}
