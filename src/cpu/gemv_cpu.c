// A few rows times a matrix: bound by reading the matrix, so it is read once, in the order it lies in memory, and the sums
// are kept in registers or in the first cache. The order of every sum is that of gemm.h.
#include "cpu/simd.h"

#include "cpu/gemm_kernels.h"
#include "cpu/gemm_load.h"

#define PANEL_VECS (NBX_SIMD_PARTS == 1 ? 2 : 1) // as the register tile of gemm_f32_cpu.c

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// ---- columns adjacent: eight rows of B at a time, over all columns of the piece ---------------------------------------

enum { TOGETHER = 8 };

SIMD_INLINE void add_rows(nbx_dtype dtype, int rows, int count, const gemv_work *w, int64_t k)
{
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : 2;
    const char *b = w->b + (k * w->stride + w->col) * size;
    for (int64_t j = 0; j < w->cols; j += 16) {
        const int n = (int)smaller(16, w->cols - j);
        vf32 sum[GEMV_ROWS];
        for (int i = 0; i < rows; i++) sum[i] = v_load(w->part + i * GEMV_PART + j);
        for (int r = 0; r < count; r++) {
            const char *p = b + (r * w->stride + j) * size;
            const vf32 row = n == 16 ? load_vec_f32(dtype, p) : load_some_f32(dtype, p, n);
            for (int i = 0; i < rows; i++) sum[i] = v_fma(v_set1(w->x[i * w->x_stride + k + r]), row, sum[i]);
        }
        for (int i = 0; i < rows; i++) v_store(w->part + i * GEMV_PART + j, sum[i]);
    }
}

SIMD_INLINE void along_n(nbx_dtype dtype, int rows, const gemv_work *w)
{
    for (int64_t k0 = w->k; k0 < w->k + w->ks; k0 += GEMM_K_BLOCK) {
        const int64_t end = smaller(k0 + GEMM_K_BLOCK, w->k + w->ks);
        for (int i = 0; i < rows; i++)
            for (int64_t j = 0; j < w->cols; j += 16) v_store(w->part + i * GEMV_PART + j, v_zero());
        int64_t k = k0;
        for (; k + TOGETHER <= end; k += TOGETHER) add_rows(dtype, rows, TOGETHER, w, k);
        for (; k < end; k++) add_rows(dtype, rows, 1, w, k);
        for (int i = 0; i < rows; i++) {
            for (int64_t j = 0; j < w->cols; j += 16) {
                const vf32 sum = v_load(w->part + i * GEMV_PART + j);
                float *total = w->sums + i * w->ld + j;
                v_store(total, k0 == w->k ? sum : v_add(v_load(total), sum));
            }
        }
    }
}

// ---- values of k adjacent: 16 columns at a time, turned over in tiles of 16 x 16 ---------------------------------------

// Sixteen values of k (n < 16 at the end) of 16 columns, of which `columns` exist.
SIMD_INLINE void add_tile(nbx_dtype dtype, int rows, const char *b, int64_t stride, int columns, int n, const float *x,
                          int64_t x_stride, vf32 *sum)
{
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : 2;
    vf32 lines[16];
    float tile[16][16];
    for (int r = 0; r < 16; r++) {
        const char *p = b + r * stride * size;
        lines[r] = r >= columns ? v_zero() : n == 16 ? load_vec_f32(dtype, p) : load_some_f32(dtype, p, n);
        if (columns == 16) __builtin_prefetch(p + 1024, 0, 2); // 16 streams are more than the hardware follows
    }
    v_store_transposed(tile[0], 16, lines);
    for (int r = 0; r < n; r++) {
        const vf32 values = v_load(tile[r]);
        for (int i = 0; i < rows; i++) sum[i] = v_fma(v_set1(x[i * x_stride + r]), values, sum[i]);
    }
}

// Blocks of one long dot product, 16 at a time, each in a lane, so that their chains hide each other's latency: 1.2 -> 0.2 ns a
// product. Their sums are added in order, or kept `apart` floats from each other.
SIMD_INLINE void dot_blocks(nbx_dtype dtype, const gemv_work *w)
{
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : 2, end = w->k + w->ks;
    float total = 0;
    for (int64_t k0 = w->k, block = 0; k0 < end; k0 += 16 * GEMM_K_BLOCK) {
        const int64_t blocks = smaller(16, (end - k0 + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK);
        float values[16][16], factors[16][16], sums[16];
        vf32 lines[16], others[16], sum = v_zero();
        for (int64_t i = 0; i < GEMM_K_BLOCK; i += 16) {
            for (int64_t r = 0; r < 16; r++) {
                const int64_t k = k0 + r * GEMM_K_BLOCK + i, left = end - k;
                const char *b = w->b + (w->col * w->stride + k) * size;
                lines[r] = left >= 16 ? load_vec_f32(dtype, b) : left <= 0 ? v_zero() : load_some_f32(dtype, b, (int)left);
                others[r] = left >= 16 ? v_load(w->x + k) : left <= 0 ? v_zero() : v_load_n(w->x + k, (int)left);
            }
            v_store_transposed(values[0], 16, lines);
            v_store_transposed(factors[0], 16, others);
            // past the end of the last block nothing is added, not even zeros: they would turn a sum of -0 into 0
            for (int64_t r = 0; r < 16; r++) {
                const vf32 next = v_fma(v_load(factors[r]), v_load(values[r]), sum);
                const int64_t whole = (end - k0 - i - r + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK;  // blocks that have this value
                sum = whole >= blocks ? next : v_select(vm_first(whole > 0 ? (int)whole : 0), next, sum);
            }
        }
        v_store(sums, sum);
        for (int64_t r = 0; r < blocks; r++, block++) {
            if (w->apart) w->sums[block * w->apart] = sums[r];
            else total = block == 0 ? sums[r] : total + sums[r];
        }
    }
    if (!w->apart) w->sums[0] = total;
}

SIMD_INLINE void along_k(nbx_dtype dtype, int rows, const gemv_work *w)
{
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : 2;
    if (rows == 1 && w->cols == 1) {
        dot_blocks(dtype, w);
        return;
    }
    for (int64_t j = 0; j < w->cols; j += 16) {
        const int columns = (int)smaller(16, w->cols - j);
        const char *b = w->b + (w->col + j) * w->stride * size;
        vf32 total[GEMV_ROWS];
        for (int i = 0; i < rows; i++) total[i] = v_zero();
        for (int64_t k0 = w->k; k0 < w->k + w->ks; k0 += GEMM_K_BLOCK) {
            const int64_t end = smaller(k0 + GEMM_K_BLOCK, w->k + w->ks);
            vf32 sum[GEMV_ROWS];
            for (int i = 0; i < rows; i++) sum[i] = v_zero();
            int64_t k = k0;
            if (columns == 16) {
                for (; k + 16 <= end; k += 16) add_tile(dtype, rows, b + k * size, w->stride, 16, 16, w->x + k, w->x_stride, sum);
            }
            for (; k < end; k += 16)
                add_tile(dtype, rows, b + k * size, w->stride, columns, (int)smaller(16, end - k), w->x + k, w->x_stride, sum);
            for (int i = 0; i < rows; i++) total[i] = k0 == w->k ? sum[i] : v_add(total[i], sum[i]);
        }
        for (int i = 0; i < rows; i++) v_store(w->sums + i * w->ld + j, total[i]);
    }
}

// ---- panels ----------------------------------------------------------------------------------------------------------

SIMD_INLINE void panels(nbx_dtype dtype, int rows, const gemv_work *w)
{
    enum { WIDTH = PANEL_VECS * 16 };
    const int64_t size = dtype == NBX_FLOAT32 ? 4 : 2;
    for (int64_t j = 0; j < w->cols; j += WIDTH) {
        const char *b = w->b + ((w->col + j) / WIDTH * w->stride + w->k * WIDTH) * size;
        for (int64_t k0 = w->k; k0 < w->k + w->ks; k0 += GEMM_K_BLOCK) {
            const int64_t end = smaller(k0 + GEMM_K_BLOCK, w->k + w->ks);
            vf32 sum[GEMV_ROWS][PANEL_VECS];
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < PANEL_VECS; v++) sum[i][v] = v_zero();
            for (int64_t k = k0; k < end; k++, b += WIDTH * size) {
                for (int v = 0; v < PANEL_VECS; v++) {
                    const vf32 row = load_vec_f32(dtype, b + v * 16 * size);
                    for (int i = 0; i < rows; i++) sum[i][v] = v_fma(v_set1(w->x[i * w->x_stride + k]), row, sum[i][v]);
                }
            }
            for (int i = 0; i < rows; i++) {
                for (int v = 0; v < PANEL_VECS; v++) {
                    float *total = w->sums + i * w->ld + j + v * 16;
                    v_store(total, k0 == w->k ? sum[i][v] : v_add(v_load(total), sum[i][v]));
                }
            }
        }
    }
}

SIMD_INLINE void with_rows(nbx_dtype dtype, int rows, const gemv_work *w)
{
    switch (w->layout) {
    case GEMV_ALONG_N: along_n(dtype, rows, w); break;
    case GEMV_ALONG_K: along_k(dtype, rows, w); break;
    default: panels(dtype, rows, w); break;
    }
}

SIMD_INLINE void with_dtype(nbx_dtype dtype, const gemv_work *w)
{
    switch (w->rows) {
    case 1: with_rows(dtype, 1, w); break;
    case 2: with_rows(dtype, 2, w); break;
    case 3: with_rows(dtype, 3, w); break;
    case 4: with_rows(dtype, 4, w); break;
    case 5: with_rows(dtype, 5, w); break;
    case 6: with_rows(dtype, 6, w); break;
    case 7: with_rows(dtype, 7, w); break;
    default: with_rows(dtype, 8, w); break;
    }
}

void NBX_KERNEL(gemv_f32)(const gemv_work *w);
void NBX_KERNEL(gemv_f32)(const gemv_work *w)
{
    switch (w->dtype) {
    case NBX_FLOAT16: with_dtype(NBX_FLOAT16, w); break;
    case NBX_BFLOAT16: with_dtype(NBX_BFLOAT16, w); break;
    default: with_dtype(NBX_FLOAT32, w); break;
    }
}
