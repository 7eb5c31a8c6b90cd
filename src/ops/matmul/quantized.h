// Matrices of weights in 8 and 4 bits, as numbers. The value of weight [n, k] is q * scale[k / group, n] + zero[k / group, n].
#ifndef NBX_OPS_QUANTIZED_H
#define NBX_OPS_QUANTIZED_H

#include <math.h>

#include "core/both.h"
#include "ops/op.h"

typedef enum quantized_format {
    QUANTIZED_INT8,    // int8 [n, k]
    QUANTIZED_BLOCKS,  // q + 8 in 4 bits, ATen's layout on CPUs with AVX-512: blocks of 64 n, in each of them k rows of 32 bytes.
                       // Byte j holds n = j in its low half and n = j + 32 in its high one. A last, narrower block of w has rows
                       // of w / 2 bytes, byte j with n = 2 j and 2 j + 1. (ATen's bits differ on CPUs without AVX-512.)
    QUANTIZED_TILES,   // q + 8 in 4 bits, ATen's layout on CUDA: int32 [n / 8, k / (16 t), 32, t / 2], t = 2, 4 or 8. Word
                       // [.., lane, j] holds 8 of 32 k: see quantized_tile
    QUANTIZED_FLOATS,  // float [n, k / 2], each the value of a byte that holds q + 8 of k = 2 i (low half) and 2 i + 1
} quantized_format;

// Where QUANTIZED_BLOCKS keeps [n, k]: the byte, and the shift in it.
NBX_BOTH int64_t quantized_block(int64_t n, int64_t k, int64_t all_n, int64_t all_k, int *shift) {
    const int64_t block = n / 64 * 64, wide = all_n - block < 64 ? all_n - block : 64, at = n - block;
    *shift = (int)(wide == 64 ? at / 32 * 4 : at % 2 * 4);
    return block * (all_k / 2) + k * (wide / 2) + (wide == 64 ? at % 32 : at / 2);
}

typedef struct quantized_weights {
    quantized_format format;
    const void *data;
    int64_t n, k, group;
    const char *scale, *zero;          // zero NULL: none
    int64_t scale_stride_n, scale_stride_group;  // in elements of scale_dtype; of zero, too
    nbx_dtype scale_dtype;
    int64_t tiles;                     // t
} quantized_weights;

// Where QUANTIZED_TILES keeps [n, k]: the word, and the shift in it.
NBX_BOTH int64_t quantized_tile(int64_t n, int64_t k, int64_t all_k, int64_t tiles, int *shift) {
    const int64_t pair = k % 16 / 2, lane = n % 8 * 4 + pair % 4;
    *shift = (int)(4 * (k % 2 * 4 + k % 32 / 16 * 2 + pair / 4));
    return ((n / 8 * (all_k / (16 * tiles)) + k / (16 * tiles)) * 32 + lane) * (tiles / 2) + k % (16 * tiles) / 32;
}

// A row of the input in 8 bits: the integers over its range, which includes 0, minus the integer that stands for 0, times the step.
typedef struct quantized_scale {
    float scale, step, zero;
} quantized_scale;

NBX_BOTH quantized_scale quantized_scale_of(float least, float most) {
    quantized_scale s;
    s.scale = least == most ? 1 : 255 / (most - least), s.step = 1 / s.scale;
    const float low = least * s.scale, high = most * s.scale, zero = -128 + low + (127 + high) > 0 ? -128 - low : 127 - high;
    s.zero = rintf(zero < -128 ? -128 : zero > 127 ? 127 : zero);
    return s;
}
NBX_BOTH float quantized_rounded(const quantized_scale *s, float x) {
    const float q = roundf(x * s->scale) + s->zero;
    return ((q < -128 ? -128 : q > 127 ? 127 : q) - s->zero) * s->step;
}

// The product that a call asks for; data pointers are NULL while results are being described.
typedef struct quantized_product {
    quantized_weights w;
    nbx_dtype dtype;
    int64_t m, row_stride, col_stride;  // of the input
    const float *bias;
    bool rounds_input;  // rows of the input become 8-bit integers with a scale each
} quantized_product;

void nbx_quantized_product(const nbx_op_call *c, quantized_product *p);
// Floats of scratch in front of the product's own: the rounded rows, and sums whose lower bits a bfloat16 result loses.
static inline int64_t nbx_quantized_rows(const quantized_product *p) { return p->rounds_input ? (p->m * p->w.k + 15) / 16 * 16 : 0; }
static inline int64_t nbx_quantized_sums(const quantized_product *p) {
    return p->rounds_input && p->dtype == NBX_BFLOAT16 ? (p->m * p->w.n + 15) / 16 * 16 : 0;
}

NBX_CPU_DECLARE(quantized_cpu);

#endif
