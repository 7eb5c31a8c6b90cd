// Matrix products on raw pointers.
//
//   C[m,n] = activation(alpha * A[m,k] @ B[k,n] + beta * D[m,n] + bias)       for every entry of a batch
//
//   dtype of A and B   accumulated in   dtypes of C, D and bias
//   f32                f32              f32 f16 bf16
//   f16, bf16          f32              f32 f16 bf16
//   f64                f64              f64
//   complex64, 128     f32, f64         the same as A
//   int8, uint8        int32            int32, int8, uint8 (wrapping)
//   other integers     int64            the same as A (wrapping)
//
// The order of a sum, which depends on k alone: products are added by fused multiply-add, one after the other, within
// blocks of 256 (complex: 128) values of k, each block from zero; the blocks' sums are added in order. So a result has the
// same bits for any m and n, any number of threads, any strides, packed or not, and on every instruction set. Then alpha,
// beta D, bias and activation are applied in float, in that order, and the result is rounded once.
#ifndef NBX_CPU_GEMM_H
#define NBX_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "cpu/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nbx_activation {
    NBX_ACTIVATION_NONE, NBX_ACTIVATION_RELU, NBX_ACTIVATION_GELU, NBX_ACTIVATION_GELU_TANH, NBX_ACTIVATION_SILU,
    NBX_ACTIVATION_SIGMOID
} nbx_activation;

// Weights kept in a form of their own: writes B[k .. k + ks, col .. col + cols] as floats, panel after panel of `width` columns,
// to[panel * stride + i * width + j], and zeros in the columns that the last panel has too many.
typedef void (*nbx_gemm_unpack)(const void *weights, int64_t col, int64_t cols, int64_t k, int64_t ks, int width, float *to, int64_t stride);

// Strides count elements and may be anything, 0 and negative too; C must not overlap A, B or itself. Set what differs from 0:
//   nbx_gemm g = {.m = m, .n = n, .k = k, .batch = 1, .dtype = NBX_FLOAT32, .out_dtype = NBX_FLOAT32,
//                 .a = a, .row_stride_a = k, .col_stride_a = 1, .b = w, .row_stride_b = 1, .col_stride_b = k,
//                 .c = c, .row_stride_c = n, .col_stride_c = 1, .alpha = 1};
typedef struct nbx_gemm {
    int64_t m, n, k, batch;
    nbx_dtype dtype, out_dtype;
    const void *a, *b;
    void *c;
    int64_t row_stride_a, col_stride_a, batch_stride_a; // A: m rows, k columns
    int64_t row_stride_b, col_stride_b, batch_stride_b; // B: k rows, n columns
    int64_t row_stride_c, col_stride_c, batch_stride_c;
    double alpha, alpha_imaginary; // the imaginary parts count for complex dtypes only
    double beta, beta_imaginary;   // beta 0: D is not read, so that NaN there does not matter
    const void *d;                 // NULL: C itself is D. Otherwise like C in dtype; strides 0 broadcast it
    int64_t row_stride_d, col_stride_d, batch_stride_d;
    const void *bias;              // NULL, or n values, one for each column; with bias_per_row m values
    int64_t bias_stride;           // 0 counts as 1
    bool bias_per_row;
    nbx_activation activation;     // f32, f16, bf16 and f64 results only
    const void *packed_b;          // what nbx_gemm_pack_b wrote; then b and its strides are not used
    nbx_gemm_unpack unpack_b;      // NULL, or where B comes from instead of b (f32, f16 and bf16; one B for all of the batch)
    const void *weights;           // its first argument
    void (*finished)(const void *arg, int64_t first, int64_t count); // NULL, or told of each stretch of C once it is final, in elements
    const void *finished_arg;      // from c on; by any thread. Columns of C are adjacent, then (col_stride_c 1)
    int force_isa;                 // 0: the best. 1 + nbx_isa: that one, if the machine has it (tests)
} nbx_gemm;

// Scratch that nbx_gemm_run wants, 64-byte aligned, for a pool of this many threads or fewer. Pointers need not be set.
size_t nbx_gemm_scratch_bytes(const nbx_gemm *g, int threads);

// No error is possible. k == 0 gives activation(beta * D + bias). pool may be NULL.
void nbx_gemm_run(const nbx_gemm *g, nbx_pool *pool, void *scratch);

// Packing B once, for weights. The layout belongs to the instruction set, so it is for this process, not for a file.
// f16 and bf16 stay 16 bits wide. The size is 0 for dtypes that have no packed form (integers, complex).
// n, k, batch, dtype and b with its strides must be set; batch_stride_b 0 packs a single matrix for all of the batch.
size_t nbx_gemm_packed_bytes(const nbx_gemm *g);
void nbx_gemm_pack_b(const nbx_gemm *g, void *packed, nbx_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
