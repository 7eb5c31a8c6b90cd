// Matrix products summed in double: f64, and complex128 as pairs. The same tile as for float with half the lanes.
#include "cpu/simd.h"

#include <math.h>

#include "cpu/gemm_kernels.h"
#include "cpu/vecmath.h"

#define REAL double
#define VEC vf64
#define LANES 8
#define V(op) vd_##op
#define NAME(name) name##_f64
#if NBX_SIMD_PARTS == 1
#define TILE_ROWS 14
#define TILE_VECS 2
#else
#define TILE_ROWS 6
#define TILE_VECS 1
#endif

SIMD_INLINE void add_sum_f64(bool integer, double *acc, vf64 sum, bool first)
{
    (void)integer;
    vd_store(acc, first ? sum : vd_add(vd_load(acc), sum));
}
SIMD_INLINE double load_real_f64(nbx_dtype dtype, const void *p, int64_t i)
{
    (void)dtype;
    return ((const double *)p)[i];
}
SIMD_INLINE vf64 load_vec_f64(nbx_dtype dtype, const void *p)
{
    (void)dtype;
    return vd_load(p);
}
SIMD_INLINE vf64 load_some_f64(nbx_dtype dtype, const void *p, int n)
{
    (void)dtype;
    return vd_load_n(p, n);
}
// Eight values of k at a time, so that each line of memory is read once.
SIMD_INLINE void pack_columns_f64(nbx_dtype dtype, int size, const char *p, int64_t outer, int count, int64_t ks, int width, double *out)
{
    const double *x = (const double *)(const void *)p;
    (void)dtype, (void)size;
    for (int64_t k = 0; k < ks; k += 8) {
        const int64_t here = ks - k < 8 ? ks - k : 8;
        for (int i = 0; i < width; i++)
            for (int64_t r = 0; r < here; r++) out[(k + r) * width + i] = i < count ? x[i * outer + k + r] : 0;
    }
}

#include "cpu/gemm_real.h"

static void pack_f64(const gemm_side *s, int64_t first, int64_t outers, int64_t k0, int64_t ks, int width, void *out, int64_t stride)
{
    pack_dtype_f64(NBX_FLOAT64, 8, s, first, outers, k0, ks, width, out, stride);
}

static double activate(nbx_activation activation, double y)
{
    switch (activation) {
    case NBX_ACTIVATION_RELU: return y > 0 || y != y ? y : 0;
    case NBX_ACTIVATION_GELU: return y * 0.5 * (1 + erf(y * 0.70710678118654752440));
    case NBX_ACTIVATION_GELU_TANH: return y * 0.5 * (1 + tanh(0.79788456080286535588 * fma(0.044715, y * y * y, y)));
    case NBX_ACTIVATION_SILU: return y / (1 + exp(-y));
    case NBX_ACTIVATION_SIGMOID: return 1 / (1 + exp(-y));
    default: return y;
    }
}

static void finish_f64(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols, const void *acc, int64_t ld)
{
    const double *sums = acc, *bias = g->bias;
    const int64_t bias_stride = g->bias_stride == 0 ? 1 : g->bias_stride;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const int64_t r = row + i, c = col + j;
            double *out = (double *)g->c + entry * g->batch_stride_c + r * g->row_stride_c + c * g->col_stride_c;
            double y = sums == NULL ? 0 : sums[i * ld + j] * g->alpha;
            if (g->beta != 0) {
                const double *d = g->d == NULL ? out
                    : (const double *)g->d + entry * g->batch_stride_d + r * g->row_stride_d + c * g->col_stride_d;
                y = fma(g->beta, *d, y);
            }
            if (bias != NULL) y += bias[(g->bias_per_row ? r : c) * bias_stride];
            *out = activate(g->activation, y);
        }
    }
}

const gemm_kernels NBX_KERNEL(gemm_kernels_f64) = {TILE_ROWS, TILE_VECS * 8, 8, pack_f64, pack_f64, block_f64, finish_f64, NULL};
const gemm_kernels NBX_KERNEL(gemm_kernels_c128) = {TILE_ROWS, TILE_VECS * 8, 8, pack_complex_a_f64, pack_complex_b_f64,
                                                    block_f64, finish_complex_f64, NULL};
