/* Vec: a growing array in an arena. `Vec(int) v = {0}; vec_push(arena, &v, 7); v.at[0], v.len`. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/arena.h"

#define Vec(T)                                                                                               \
    struct {                                                                                                 \
        T *at;                                                                                               \
        uint32_t len, cap;                                                                                   \
    }

#define vec_reserve(arena, v, count)                                                                         \
    do {                                                                                                     \
        uint32_t need_ = (uint32_t)(count);                                                                  \
        if (need_ > (v)->cap) {                                                                              \
            uint32_t cap_ = (v)->cap ? (v)->cap : 4;                                                         \
            while (cap_ < need_)                                                                             \
                cap_ *= 2;                                                                                   \
            (v)->at = arena_grow((arena), (v)->at, sizeof *(v)->at * (v)->len, sizeof *(v)->at * cap_);      \
            (v)->cap = cap_;                                                                                 \
        }                                                                                                    \
    } while (0)

#define vec_push(arena, v, ...)                                                                              \
    do {                                                                                                     \
        vec_reserve((arena), (v), (v)->len + 1);                                                             \
        (v)->at[(v)->len++] = (__VA_ARGS__);                                                                 \
    } while (0)

#endif
