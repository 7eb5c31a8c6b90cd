// Matrix products summed in float: f32, f16, bf16, and complex64 as pairs.
//
// The AVX-512 tile is 14 rows of 2 vectors: 28 sums, 2 vectors of B, 1 broadcast of A in 32 registers. Measured from L1 on
// Zen 4 with GCC 12: 117.7 of 118 GFLOP/s. AVX2 and NEON: 6 rows of 16 columns.
#include "cpu/simd.h"

#include <math.h>

#include "cpu/gemm_kernels.h"
#include "cpu/gemm_load.h"
#include "cpu/vecmath.h"

#define REAL float
#define VEC vf32
#define LANES 16
#define V(op) v_##op
#define NAME(name) name##_f32
#if NBX_SIMD_PARTS == 1
#define TILE_ROWS 14
#define TILE_VECS 2
#else
#define TILE_ROWS 6
#define TILE_VECS 1
#endif

SIMD_INLINE void add_sum_f32(bool integer, float *acc, vf32 sum, bool first)
{
    if (integer) {
        int32_t *const total = (int32_t *)(void *)acc;
        const vi32 whole = v_round_to_i32(sum);
        vi_store(total, first ? whole : vi_add(vi_load(total), whole));
    } else {
        v_store(acc, first ? sum : v_add(v_load(acc), sum));
    }
}

// Neighbours in k are neighbours in memory: 16 x 16 tiles are turned over. A panel narrower than 16 goes through a buffer.
SIMD_INLINE void pack_columns_f32(nbx_dtype dtype, int size, const char *p, int64_t outer, int count, int64_t ks, int width, float *out)
{
    int64_t k = 0;
    for (; k + 16 <= ks; k += 16) {
        for (int i = 0; i < width; i += 16) {
            vf32 rows[16];
            const int here = count - i;
            for (int r = 0; r < 16; r++)
                rows[r] = r < here ? load_vec_f32(dtype, p + ((i + r) * outer + k) * size) : v_zero();
            if (i + 16 <= width) {
                v_store_transposed(out + k * width + i, width, rows);
            } else {
                float tile[16][16];
                v_store_transposed(tile[0], 16, rows);
                for (int r = 0; r < 16; r++) v_store_n(out + (k + r) * width + i, v_load(tile[r]), width - i);
            }
        }
    }
    for (; k < ks; k++)
        for (int i = 0; i < width; i++) out[k * width + i] = i < count ? load_real_f32(dtype, p, i * outer + k) : 0;
}

#include "cpu/gemm_real.h"

static void pack_f32(const gemm_side *s, int64_t first, int64_t outers, int64_t k0, int64_t ks, int width, void *out, int64_t stride)
{
    switch (s->dtype) {
    case NBX_FLOAT16: pack_dtype_f32(NBX_FLOAT16, 2, s, first, outers, k0, ks, width, out, stride); break;
    case NBX_BFLOAT16: pack_dtype_f32(NBX_BFLOAT16, 2, s, first, outers, k0, ks, width, out, stride); break;
    case NBX_INT8: pack_dtype_f32(NBX_INT8, 1, s, first, outers, k0, ks, width, out, stride); break;
    case NBX_UINT8: pack_dtype_f32(NBX_UINT8, 1, s, first, outers, k0, ks, width, out, stride); break;
    default: pack_dtype_f32(NBX_FLOAT32, 4, s, first, outers, k0, ks, width, out, stride); break;
    }
}

// ---- from sums to results -------------------------------------------------------------------------------------------

// 16 elements of C, D or the bias, of which n exist.
SIMD_INLINE vf32 load_out(nbx_dtype dtype, const char *p, int64_t stride, int n)
{
    if (stride == 1 && n == 16) return load_vec_f32(dtype, p);
    float lanes[16] = {0};
    for (int i = 0; i < n; i++) lanes[i] = load_real_f32(dtype, p, i * stride);
    return v_load(lanes);
}

SIMD_INLINE void store_out(nbx_dtype dtype, char *p, int64_t stride, int n, vf32 y)
{
    if (dtype == NBX_FLOAT32) {
        float *out = (float *)(void *)p, lanes[16];
        if (stride == 1) {
            if (n == 16) v_store(out, y);
            else v_store_n(out, y, n);
            return;
        }
        v_store(lanes, y);
        for (int i = 0; i < n; i++) out[i * stride] = lanes[i];
        return;
    }
    uint16_t *out = (uint16_t *)(void *)p, lanes[16];
    uint16_t *const to = stride == 1 && n == 16 ? out : lanes;
    if (dtype == NBX_FLOAT16) v_store_f16(to, y);
    else v_store_bf16(to, y);
    for (int i = 0; to == lanes && i < n; i++) out[i * stride] = lanes[i];
}

static void activate_row(nbx_activation activation, float *row, int64_t count)
{
    for (int64_t j = 0; j < count; j += 16) {
        const vf32 y = v_load(row + j);
        switch (activation) {
        case NBX_ACTIVATION_RELU: v_store(row + j, v_relu(y)); break;
        case NBX_ACTIVATION_GELU: v_store(row + j, v_gelu(y)); break;
        case NBX_ACTIVATION_GELU_TANH: v_store(row + j, v_gelu_tanh(y)); break;
        case NBX_ACTIVATION_SILU: v_store(row + j, v_silu(y)); break;
        case NBX_ACTIVATION_SIGMOID: v_store(row + j, v_sigmoid(y)); break;
        default: break;
        }
    }
}

// One row. Up to 128 columns at a time, each step over all of them, in a buffer in the first cache.
SIMD_INLINE void finish_row(nbx_dtype dtype, const nbx_gemm *g, const float *sums, char *out, const char *d, int64_t stride_d,
                            const char *bias, int64_t bias_stride, int64_t cols)
{
    enum { SIZE_OF_HALF = 2, STEP = 128 };
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : SIZE_OF_HALF;
    const vf32 alpha = v_set1((float)g->alpha), beta = v_set1((float)g->beta);
    float row[STEP];
    for (int64_t start = 0; start < cols; start += STEP) {
        const int64_t count = cols - start < STEP ? cols - start : STEP;
        for (int64_t j = 0; j < count; j += 16) {
            const int n = (int)(count - j < 16 ? count - j : 16);
            vf32 y = sums == NULL ? v_zero() : v_load(sums + start + j);
            if (g->alpha != 1) y = v_mul(y, alpha);
            if (g->beta != 0) y = v_fma(beta, load_out(dtype, d + (start + j) * stride_d * size, stride_d, n), y);
            if (bias != NULL) y = v_add(y, load_out(dtype, bias + (start + j) * bias_stride * size, bias_stride, n));
            v_store(row + j, y);
        }
        if (g->activation != NBX_ACTIVATION_NONE) activate_row(g->activation, row, count);
        for (int64_t j = 0; j < count; j += 16) {
            const int n = (int)(count - j < 16 ? count - j : 16);
            store_out(dtype, out + (start + j) * g->col_stride_c * size, g->col_stride_c, n, v_load(row + j));
        }
    }
}

static void finish_f32(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols, const void *acc, int64_t ld)
{
    const int64_t size = (int64_t)nbx_dtype_size(g->out_dtype), bias_stride = g->bias_stride == 0 ? 1 : g->bias_stride;
    for (int64_t r = row; r < row + rows; r++) {
        const float *sums = acc == NULL ? NULL : (const float *)acc + (r - row) * ld;
        char *out = (char *)g->c + (entry * g->batch_stride_c + r * g->row_stride_c + col * g->col_stride_c) * size;
        const char *d = g->d == NULL ? out
            : (const char *)g->d + (entry * g->batch_stride_d + r * g->row_stride_d + col * g->col_stride_d) * size;
        const int64_t stride_d = g->d == NULL ? g->col_stride_c : g->col_stride_d;
        const char *bias = g->bias == NULL ? NULL : (const char *)g->bias + (g->bias_per_row ? r : col) * bias_stride * size;
        const int64_t step = g->bias_per_row ? 0 : bias_stride;
        switch (g->out_dtype) {
        case NBX_FLOAT16: finish_row(NBX_FLOAT16, g, sums, out, d, stride_d, bias, step, cols); break;
        case NBX_BFLOAT16: finish_row(NBX_BFLOAT16, g, sums, out, d, stride_d, bias, step, cols); break;
        default: finish_row(NBX_FLOAT32, g, sums, out, d, stride_d, bias, step, cols); break;
        }
    }
}

void NBX_KERNEL(gemv_f32)(const gemv_work *w); // gemv_cpu.c

const gemm_kernels NBX_KERNEL(gemm_kernels_f32) = {TILE_ROWS, TILE_VECS * 16, 4, pack_f32, pack_f32, block_f32, finish_f32,
                                                   NBX_KERNEL(gemv_f32)};
const gemm_kernels NBX_KERNEL(gemm_kernels_c64) = {TILE_ROWS, TILE_VECS * 16, 4, pack_complex_a_f32, pack_complex_b_f32,
                                                   block_f32, finish_complex_f32, NULL};
