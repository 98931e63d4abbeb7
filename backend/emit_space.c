/* Note [Work space]. What a call needs beside its tensors: the tensors that all threads share, one behind the other, then a
 * region for each thread. Nothing outlives a launch in a thread's memory, so the matrices of different launches lie in the same
 * bytes: first those that several launches use, behind them each launch's own.
 *   [ d_a | d_u | blocks ][ thread 0: left | right, right2 of launch 1 ][ thread 1: ... ]
 *                         [                | right3 of launch 2        ] */
#include "backend/emit.h"

static int is_used_by(const Launch *launch, uint32_t buffer)
{
    for (uint32_t i = 0; i < launch->slots.len; i++)
        if (!launch->slots.at[i].is_dim && launch->slots.at[i].id == buffer)
            return 1;
    return 0;
}

static uint32_t users(const Plan *p, uint32_t buffer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->launches.len; i++)
        n += (uint32_t)is_used_by(&p->launches.at[i], buffer);
    return n;
}

/* Where a thread's matrix begins in its region. top: by launch, the end of what lies there so far. */
static V place_in_thread(Emit *e, uint32_t buffer, V *top)
{
    L *l = e->l;
    V at = l_i64(l, 0), bytes = emit_bytes(e, buffer);
    for (uint32_t i = 0; i < e->p->launches.len; i++)
        if (is_used_by(&e->p->launches.at[i], buffer))
            at = l_max(l, at, top[i]);
    for (uint32_t i = 0; i < e->p->launches.len; i++)
        if (is_used_by(&e->p->launches.at[i], buffer))
            top[i] = l_add(l, at, bytes);
    return at;
}

WorkSpace emit_work_space(Emit *e)
{
    L *l = e->l;
    const Plan *p = e->p;
    V zero = l_i64(l, 0), *top = arena_array(l->arena, V, p->launches.len + 1);
    WorkSpace w = {arena_array(l->arena, V, p->buffers.len + 1), zero, zero};
    for (uint32_t i = 0; i < p->launches.len; i++)
        top[i] = zero;
    for (int own = 0; own < 2; own++)
        for (uint32_t i = 0; i < p->buffers.len; i++)
            if (plan_needs_space(&p->buffers.at[i]) && p->buffers.at[i].space == SPACE_THREAD &&
                own == (users(p, i) < 2))
                w.at[i] = place_in_thread(e, i, top);
    for (uint32_t i = 0; i < p->launches.len; i++)
        w.thread = l_max(l, w.thread, top[i]);
    for (uint32_t i = 0; i < p->buffers.len; i++)
        if (plan_needs_space(&p->buffers.at[i]) && p->buffers.at[i].space == SPACE_WORK) {
            w.at[i] = w.shared;
            w.shared = l_add(l, w.shared, emit_bytes(e, i));
        }
    return w;
}
