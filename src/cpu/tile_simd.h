// The inner block of products, convolutions and attention: a few rows times 16-lane vectors, all sums in registers.
//   acc[i][j] += sum over k of a[i * a_row + k * a_k] * b_k[j]      in the order of k, one fused multiply-add each
// The array of sums stays in registers: the loops over it are unrolled in full (117 of 117 GFLOP/s on a Zen 4 core from
// GCC 12 and Clang 14, with AVX2 6 x 16 and AVX-512 8 x 48; 14 x 32 reads 90 when the rows of a lie 4096 bytes apart).
#ifndef NBX_CPU_TILE_SIMD_H
#define NBX_CPU_TILE_SIMD_H

#include "cpu/simd.h"

#define TILE_INLINE static inline __attribute__((always_inline))

#if NBX_ISA_LEVEL == 2
#define TILE_ROWS 8
#define TILE_VECTORS 3
#else
#define TILE_ROWS 6
#define TILE_VECTORS 1
#endif
#define TILE_LANES (16 * TILE_VECTORS)

// c[i][v] starts from acc, [rows][TILE_LANES], or from zero. b_k = b + offset[k]; or b + k * b_k when offset is NULL (a constant).
TILE_INLINE void tile_multiply(vf32 c[TILE_ROWS][TILE_VECTORS], const float *a, int64_t a_row, int64_t a_k, const float *b, const int32_t *offset,
                               int64_t b_k, int64_t count, const float *acc, bool first, int rows, int vectors) {
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) c[i][v] = first ? v_zero() : v_load(acc + i * TILE_LANES + v * 16);
    for (int64_t k = 0; k < count; k++) {
        const float *at = b + (offset ? offset[k] : k * b_k);
        vf32 x[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) x[v] = v_load(at + v * 16);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const vf32 y = v_set1(a[i * a_row + k * a_k]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) c[i][v] = v_fma(y, x[v], c[i][v]);
        }
    }
}

TILE_INLINE void tile_sums(const float *a, int64_t a_row, int64_t a_k, const float *b, const int32_t *offset, int64_t b_k,
                           int64_t count, float *acc, bool first, int rows, int vectors) {
    vf32 c[TILE_ROWS][TILE_VECTORS];
    tile_multiply(c, a, a_row, a_k, b, offset, b_k, count, acc, first, rows, vectors);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) v_store(acc + i * TILE_LANES + v * 16, c[i][v]);
}

#endif
