// What gemm.c, which decides, asks of the files compiled per instruction set, which compute. Complex matrices are real
// ones here: k and n count reals, twice as many, since (a + ib)(c + id) is the product of [a b] and [[c d] [-d c]].
#ifndef NBX_CPU_GEMM_KERNELS_H
#define NBX_CPU_GEMM_KERNELS_H

#include "cpu/gemm.h"
#include "cpu/isa.h"

#define GEMM_K_BLOCK 256 // reals; fixes the order of sums

// One operand. outer runs over m or n, inner over k.
typedef struct gemm_side {
    const char *data;
    int64_t outer, inner; // strides in elements
    nbx_dtype dtype;
} gemm_side;

// acc[i][j] (+)= sum over one block of k. acc is [rows, ld]; a and b hold reals.
typedef struct gemm_block {
    const void *a;
    int64_t a_outer, a_inner; // strides of a when it is not packed
    int64_t a_panel;          // from one packed panel of A to the next; 0: a is not packed
    int64_t rows;
    const void *b;
    int64_t b_inner;          // from one k to the next; columns are adjacent
    int64_t cols, k;
    void *acc;
    int64_t ld;
    bool first;               // the sum of the first block: acc is written, not added to
} gemm_block;

// Products with at most GEMV_ROWS rows: B is read once, where it lies.
//   sums[i * ld + j] = sum over k of x[i * x_stride + k] * b[k, col + j]       in blocks, as everywhere
#define GEMV_ROWS 8

typedef enum gemv_layout {
    GEMV_ALONG_N, // columns adjacent; stride: from k to k + 1
    GEMV_ALONG_K, // values of k adjacent; stride: from column to column
    GEMV_PANELS   // packed; stride: elements of a panel; col is a multiple of the panel's width
} gemv_layout;

typedef struct gemv_work {
    int rows;
    const float *x;
    int64_t x_stride;
    gemv_layout layout;
    nbx_dtype dtype;
    const char *b;
    int64_t stride;
    int64_t col, cols, k, ks; // k is a multiple of GEMM_K_BLOCK
    float *sums;              // cols rounded up to a panel's width
    int64_t ld;
    float *part;              // rows x GEMV_PART floats, for GEMV_ALONG_N
    int64_t apart;            // a dot product: 0, or the sums of its blocks are kept, so far apart
} gemv_work;

#define GEMV_PART 1024 // the most columns of one piece of work

typedef struct gemm_kernels {
    int rows, cols;  // of the register tile
    int real_bytes;
    // Copies outers x ks values, converted, into panels of `width`: out[panel * stride + k * width + i]. The rest of the last
    // panel is zero.
    void (*pack_a)(const gemm_side *s, int64_t outer, int64_t outers, int64_t k, int64_t ks, int width, void *out, int64_t stride);
    void (*pack_b)(const gemm_side *s, int64_t outer, int64_t outers, int64_t k, int64_t ks, int width, void *out, int64_t stride);
    void (*block)(const gemm_block *b);
    // Writes C[row .. row + rows, col .. col + cols] of one batch entry from acc (NULL: zeros).
    void (*finish)(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols, const void *acc, int64_t ld);
    void (*gemv)(const gemv_work *w); // or NULL
} gemm_kernels;

typedef enum gemm_kind { GEMM_F32, GEMM_F64, GEMM_INT8, GEMM_COMPLEX64, GEMM_COMPLEX128, GEMM_KINDS } gemm_kind;

extern const gemm_kernels gemm_kernels_f32_baseline, gemm_kernels_f32_avx2, gemm_kernels_f32_avx512;
extern const gemm_kernels gemm_kernels_int8_baseline, gemm_kernels_int8_avx2, gemm_kernels_int8_avx512;
extern const gemm_kernels gemm_kernels_c64_baseline, gemm_kernels_c64_avx2, gemm_kernels_c64_avx512;
extern const gemm_kernels gemm_kernels_f64_baseline, gemm_kernels_f64_avx2, gemm_kernels_f64_avx512;
extern const gemm_kernels gemm_kernels_c128_baseline, gemm_kernels_c128_avx2, gemm_kernels_c128_avx512;

// Rows of C for integers wider than 8 bits, in plain loops.
void gemm_integer_rows(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows);

// C[row .. row + rows, col .. col + cols] of one entry is final.
void gemm_report(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols);

// One element of C of an integer type from its sum: alpha, beta D and bias, wrapping.
void gemm_store_integer(const nbx_gemm *g, int64_t entry, int64_t row, int64_t col, int64_t sum);

#endif
