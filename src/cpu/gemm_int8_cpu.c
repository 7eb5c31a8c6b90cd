// Products of 8-bit integers, summed in int32: values of k in pairs of int16, whose two products one instruction adds. Exact, and twice the
// rate of the float32 tile (Zen 3, AVX2: 256 x 512 x 512 in 1970 us through that). A panel holds, for each block of k,
// [k / 2][width] pairs, and a gap as long.
#include "cpu/simd.h"

#include "cpu/gemm_kernels.h"
#include "cpu/pairs_simd.h"

#if NBX_SIMD_PARTS == 1
#define TILE_ROWS 14
#define TILE_VECS 2
#else
#define TILE_ROWS 4 // of 6 GCC 12 keeps half of the sums in memory, since sums and products take turns in the registers
#define TILE_VECS 1
#endif

SIMD_INLINE int32_t value_of(nbx_dtype d, const char *p, int64_t i) { return d == NBX_UINT8 ? ((const uint8_t *)p)[i] : ((const int8_t *)p)[i]; }
SIMD_INLINE int32_t pair_of(int32_t even, int32_t odd) { return (int32_t)((uint32_t)even & 0xffff) | (int32_t)((uint32_t)odd << 16); }
SIMD_INLINE vi32 load_values(nbx_dtype d, const char *p) { return d == NBX_UINT8 ? vi_load_u8((const uint8_t *)p) : vi_load_i8((const int8_t *)p); }

// Neighbours in outer are neighbours in memory, `whole` of them a multiple of 16.
SIMD_INLINE void pack_adjacent(nbx_dtype d, const char *even, const char *odd, int whole, int32_t *to)
{
    for (int i = 0; i < whole; i += 16) {
        const vi32 low = vi_and(load_values(d, even + i), vi_set1(0xffff));
        vi_store(to + i, odd == NULL ? low : vi_or(low, vi_shl(load_values(d, odd + i), 16)));
    }
}

SIMD_INLINE void pack_panel(nbx_dtype d, const char *p, int64_t outer, int64_t inner, int count, int64_t ks, int width, int32_t *to)
{
    const int whole = outer == 1 ? count / 16 * 16 : 0;
    for (int64_t k = 0; k < ks; k += 2, to += width) {
        if (k > 0 && k % GEMM_K_BLOCK == 0) to += GEMM_K_BLOCK / 2 * width;
        const char *even = p + k * inner, *odd = even + inner;
        pack_adjacent(d, even, k + 1 < ks ? odd : NULL, whole, to);
        for (int i = whole; i < count; i++) to[i] = pair_of(value_of(d, even, i * outer), k + 1 < ks ? value_of(d, odd, i * outer) : 0);
        for (int i = count; i < width; i++) to[i] = 0;
    }
}

static void pack(const gemm_side *s, int64_t outer, int64_t outers, int64_t k, int64_t ks, int width, void *out, int64_t stride)
{
    int32_t *to = out;
    for (int64_t i = 0; i < outers; i += width, to += stride) {
        const char *p = s->data + (outer + i) * s->outer + k * s->inner;
        const int count = (int)(outers - i < width ? outers - i : width);
        if (s->dtype == NBX_UINT8) pack_panel(NBX_UINT8, p, s->outer, s->inner, count, ks, width, to);
        else pack_panel(NBX_INT8, p, s->outer, s->inner, count, ks, width, to);
    }
}

SIMD_INLINE void tile(int rows, const int32_t *a, const int32_t *b, int64_t pairs, int32_t *acc, int64_t ld, bool first)
{
    enum { WIDTH = TILE_VECS * 16 };
    vi32 sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < TILE_VECS; v++) sum[i][v] = vi_set1(0);
    for (int64_t p = 0; p < pairs; p++, a += TILE_ROWS, b += WIDTH) {
        vi32 bv[TILE_VECS];
#pragma GCC unroll 2
        for (int v = 0; v < TILE_VECS; v++) bv[v] = vi_load(b + v * 16);
    #pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
            const vi32 av = vi_set1(a[i]);
    #pragma GCC unroll 2
        for (int v = 0; v < TILE_VECS; v++) sum[i][v] = vi_add(sum[i][v], vi_add_products(av, bv[v]));
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int v = 0; v < TILE_VECS; v++) {
            int32_t *to = acc + i * ld + v * 16;
            vi_store(to, first ? sum[i][v] : vi_add(vi_load(to), sum[i][v]));
        }
}

// One function for each height, so that each is compiled on its own.
#define TILE(R) static void tile_##R(const int32_t *a, const int32_t *b, int64_t pairs, int32_t *acc, int64_t ld, bool first) { tile(R, a, b, pairs, acc, ld, first); }
TILE(1) TILE(2) TILE(3) TILE(4)
#if TILE_ROWS == 14
TILE(5) TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#endif
#define TILE_CASE(R) case R: tile_##R(a, b, pairs, acc, g->ld, g->first); break;
#if TILE_ROWS == 14
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6) TILE_CASE(7) TILE_CASE(8) \
    TILE_CASE(9) TILE_CASE(10) TILE_CASE(11) TILE_CASE(12) TILE_CASE(13) TILE_CASE(14)
#else
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4)
#endif

// One panel of B; A is always packed.
static void block(const gemm_block *g)
{
    const int64_t pairs = (g->k + 1) / 2;
    const int32_t *b = g->b;
    for (int64_t row = 0; row < g->rows; row += TILE_ROWS) {
        const int32_t *a = (const int32_t *)g->a + row / TILE_ROWS * g->a_panel;
        int32_t *acc = (int32_t *)g->acc + row * g->ld;
        switch (g->rows - row < TILE_ROWS ? g->rows - row : TILE_ROWS) { TILE_CASES }
    }
}

static void finish(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols, const void *acc, int64_t ld)
{
    const int32_t *sums = acc;
    const bool copies = sums != NULL && g->alpha == 1 && g->beta == 0 && g->bias == NULL && g->activation == NBX_ACTIVATION_NONE &&
                        g->out_dtype == NBX_INT32 && g->col_stride_c == 1;
    for (int64_t i = 0; i < rows; i++) {
        if (copies) {
            int32_t *to = (int32_t *)g->c + entry * g->batch_stride_c + (row + i) * g->row_stride_c + col;
            for (int64_t j = 0; j < cols; j++) to[j] = sums[i * ld + j];
            continue;
        }
        for (int64_t j = 0; j < cols; j++) gemm_store_integer(g, entry, row + i, col + j, sums == NULL ? 0 : sums[i * ld + j]);
    }
}

const gemm_kernels NBX_KERNEL(gemm_kernels_int8) = {TILE_ROWS, TILE_VECS * 16, 4, pack, pack, block, finish, NULL};
