// Attention as numbers. See attention_cpu.c for the method.
#ifndef NBX_OPS_ATTENTION_H
#define NBX_OPS_ATTENTION_H

#include "ops/op.h"

// A [batch, heads, rows, columns] operand; strides in elements.
typedef struct attention_side {
    const char *data;
    int64_t batch, head, row, col;
} attention_side;

typedef struct nbx_attention {
    nbx_dtype dtype, mask_dtype;
    int64_t batch, heads, kv_heads;          // kv_heads divides heads
    int64_t q_len, k_len, head_dim, v_dim;
    attention_side q, k, v, mask, out, lse;  // mask.data NULL: none; lse.col is not used
    float scale;
    double scale64;
    bool coarse_exp;       // the exponential of ATen's kernel for halves on CPUs, which logsumexp shows
    bool causal;
    int64_t causal_shift;  // query i sees keys up to i + shift
} nbx_attention;

void nbx_attention_of(const nbx_op_call *c, nbx_attention *p);

NBX_CPU_DECLARE(attention_cpu);

#define ATTENTION_LANES 48  // queries of a tile at most
#define ATTENTION_KEYS 96   // keys of a block: whole tiles of 6 and of 8

// Floats of scratch per thread, for float32 and narrower; doubles for float64.
static inline size_t nbx_attention_floats(const nbx_attention *p) {
    const size_t lanes = ATTENTION_LANES, keys = ATTENTION_KEYS;
    const size_t columns = (size_t)(p->head_dim + p->v_dim);
    const size_t floats = p->dtype == NBX_FLOAT64 ? 2 * (size_t)(p->k_len + p->v_dim) : columns * lanes + keys * lanes + keys * columns;
    return (floats + 15) & ~(size_t)15;
}

#endif
