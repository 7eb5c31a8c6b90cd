// Integer products: sums in 64 bits, wrapping. Models use them rarely, so the loops are plain; the compiler vectorises the
// inner one where B's rows are contiguous.
#include "cpu/gemm_kernels.h"

#define COLUMNS 64

static inline __attribute__((always_inline)) int64_t load(nbx_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case NBX_UINT8: case NBX_BOOL: return ((const uint8_t *)p)[i];
    case NBX_INT8: return ((const int8_t *)p)[i];
    case NBX_UINT16: return ((const uint16_t *)p)[i];
    case NBX_INT16: return ((const int16_t *)p)[i];
    case NBX_UINT32: return ((const uint32_t *)p)[i];
    case NBX_INT32: return ((const int32_t *)p)[i];
    default: return ((const int64_t *)p)[i];
    }
}

static void store(nbx_dtype dtype, void *p, int64_t i, int64_t value)
{
    switch (dtype) {
    case NBX_BOOL: ((uint8_t *)p)[i] = value != 0; break;
    case NBX_UINT8: case NBX_INT8: ((uint8_t *)p)[i] = (uint8_t)value; break;
    case NBX_UINT16: case NBX_INT16: ((uint16_t *)p)[i] = (uint16_t)value; break;
    case NBX_UINT32: case NBX_INT32: ((uint32_t *)p)[i] = (uint32_t)value; break;
    default: ((int64_t *)p)[i] = value; break;
    }
}

static int64_t wrap_multiply(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

void gemm_store_integer(const nbx_gemm *g, int64_t entry, int64_t row, int64_t col, int64_t sum)
{
    const int64_t at = entry * g->batch_stride_c + row * g->row_stride_c + col * g->col_stride_c;
    int64_t y = wrap_multiply(sum, (int64_t)g->alpha);
    if (g->beta != 0) {
        const int64_t d = g->d == NULL ? load(g->out_dtype, g->c, at)
            : load(g->out_dtype, g->d, entry * g->batch_stride_d + row * g->row_stride_d + col * g->col_stride_d);
        y = wrap_add(y, wrap_multiply(d, (int64_t)g->beta));
    }
    if (g->bias != NULL) {
        y = wrap_add(y, load(g->out_dtype, g->bias, (g->bias_per_row ? row : col) * (g->bias_stride == 0 ? 1 : g->bias_stride)));
    }
    if (g->activation == NBX_ACTIVATION_RELU && y < 0) y = 0;
    store(g->out_dtype, g->c, at, y);
}

static inline __attribute__((always_inline)) void rows_of(nbx_dtype dtype, const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows)
{
    const int64_t base_a = entry * g->batch_stride_a, base_b = entry * g->batch_stride_b;
    for (int64_t i = row; i < row + rows; i++) {
        for (int64_t j = 0; j < g->n; j += COLUMNS) {
            const int64_t cols = g->n - j < COLUMNS ? g->n - j : COLUMNS;
            uint64_t sums[COLUMNS] = {0};
            for (int64_t k = 0; k < g->k; k++) {
                const uint64_t a = (uint64_t)load(dtype, g->a, base_a + i * g->row_stride_a + k * g->col_stride_a);
                const int64_t at = base_b + k * g->row_stride_b + j * g->col_stride_b;
                if (g->col_stride_b == 1) for (int64_t c = 0; c < cols; c++) sums[c] += a * (uint64_t)load(dtype, g->b, at + c);
                else for (int64_t c = 0; c < cols; c++) sums[c] += a * (uint64_t)load(dtype, g->b, at + c * g->col_stride_b);
            }
            for (int64_t c = 0; c < cols; c++) gemm_store_integer(g, entry, i, j + c, (int64_t)sums[c]);
        }
    }
}

void gemm_integer_rows(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows)
{
    switch (g->dtype) {
    case NBX_INT16: rows_of(NBX_INT16, g, entry, row, rows); break;
    case NBX_INT32: rows_of(NBX_INT32, g, entry, row, rows); break;
    case NBX_INT64: case NBX_UINT64: rows_of(NBX_INT64, g, entry, row, rows); break;
    case NBX_UINT16: rows_of(NBX_UINT16, g, entry, row, rows); break;
    case NBX_UINT32: rows_of(NBX_UINT32, g, entry, row, rows); break;
    default: rows_of(g->dtype, g, entry, row, rows); break;
    }
}
