// The register tile and the packing of matrix products, for one real type. Included by gemm_f32_cpu.c and gemm_f64_cpu.c with
//   REAL, VEC, LANES, V(op), NAME(name)    and    TILE_ROWS x TILE_VECS, the shape of the register tile.
// load_real(dtype, p, index): one element as REAL; load_vec(dtype, p): LANES adjacent ones; load_some(dtype, p, n): n of them
// and zeros. dtype is constant in each copy.

// rows x (vecs * LANES) sums over k: every product is a fused multiply-add to the running sum of its element. a[i, p] lies
// at a[i * outer + p * inner]. integer: sums are exact in float, and acc holds int32.
SIMD_INLINE void NAME(tile)(int rows, int vecs, bool integer, const REAL *a, int64_t outer, int64_t inner, const REAL *b,
                            int64_t ldb, int64_t k, REAL *acc, int64_t ld, bool first)
{
    VEC sum[TILE_ROWS][TILE_VECS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vecs; v++) sum[i][v] = V(zero)();
    for (int64_t p = 0; p < k; p++) {
        VEC bv[TILE_VECS];
        for (int v = 0; v < vecs; v++) bv[v] = V(load)(b + v * LANES);
        for (int i = 0; i < rows; i++) {
            const VEC av = V(set1)(a[i * outer]);
            for (int v = 0; v < vecs; v++) sum[i][v] = V(fma)(av, bv[v], sum[i][v]);
        }
        a += inner;
        b += ldb;
    }
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < vecs; v++) NAME(add_sum)(integer, acc + i * ld + v * LANES, sum[i][v], first);
    }
}

#define TILE_CASE(R) case R: NAME(tile)(R, vecs, integer, a, outer, inner, b, ldb, k, acc, ld, first); break;
#if TILE_ROWS == 14
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6) TILE_CASE(7) TILE_CASE(8) \
    TILE_CASE(9) TILE_CASE(10) TILE_CASE(11) TILE_CASE(12) TILE_CASE(13) TILE_CASE(14)
#else
#define TILE_CASES TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6)
#endif

SIMD_INLINE void NAME(tiles)(const gemm_block *g, int vecs, bool integer, bool packed)
{
    const int64_t k = g->k, ldb = g->b_inner, ld = g->ld;
    const bool first = g->first;
    const int64_t outer = packed ? 1 : g->a_outer, inner = packed ? TILE_ROWS : g->a_inner;
    for (int64_t row = 0; row < g->rows; row += TILE_ROWS) {
        const REAL *a = (const REAL *)g->a + (packed ? row / TILE_ROWS * g->a_panel : row * outer);
        for (int64_t col = 0; col < g->cols; col += vecs * LANES) {
            const REAL *b = (const REAL *)g->b + col;
            REAL *acc = (REAL *)g->acc + row * ld + col;
            switch (g->rows - row < TILE_ROWS ? g->rows - row : TILE_ROWS) { TILE_CASES }
        }
    }
}

// One function per variant, so that each tile is compiled on its own.
static void NAME(packed_wide)(const gemm_block *g) { NAME(tiles)(g, TILE_VECS, false, true); }
static void NAME(strided_wide)(const gemm_block *g) { NAME(tiles)(g, TILE_VECS, false, false); }
#if TILE_VECS > 1
static void NAME(packed_narrow)(const gemm_block *g) { NAME(tiles)(g, 1, false, true); }
static void NAME(strided_narrow)(const gemm_block *g) { NAME(tiles)(g, 1, false, false); }
#else
#define NAME_NARROW_IS_WIDE 1
#endif

static void NAME(block)(const gemm_block *g)
{
#if TILE_VECS > 1
    if (g->cols <= LANES) {
        if (g->a_panel != 0) NAME(packed_narrow)(g);
        else NAME(strided_narrow)(g);
        return;
    }
#endif
    if (g->a_panel != 0) NAME(packed_wide)(g);
    else NAME(strided_wide)(g);
}

// ---- packing --------------------------------------------------------------------------------------------------------

// Neighbours in outer are neighbours in memory: a row of each panel is a piece of a row there. All panels advance together,
// so that memory is read in pieces of 512 bytes, not of one panel's 64 or 128.
SIMD_INLINE void NAME(pack_rows)(nbx_dtype dtype, int size, const char *p, int64_t inner, int64_t count, int64_t ks, int width,
                                 REAL *out, int64_t stride)
{
    for (int64_t k = 0; k < ks; k++, out += width, p += inner * size) {
        REAL *to = out;
        for (int64_t panel = 0; panel < count; panel += width, to += stride) {
            const int here = (int)(count - panel < width ? count - panel : width);
            const char *from = p + panel * size;
            int i = 0;
            for (; i + LANES <= here; i += LANES) V(store)(to + i, NAME(load_vec)(dtype, from + i * size));
            for (; i < width; i += LANES) {
                const VEC rest = NAME(load_some)(dtype, from + i * size, here > i ? here - i : 0);
                V(store_n)(to + i, rest, width - i < LANES ? width - i : LANES);
            }
        }
    }
}

SIMD_INLINE void NAME(pack_any)(nbx_dtype dtype, const char *p, int64_t outer, int64_t inner, int count, int64_t ks, int width, REAL *out)
{
    for (int64_t k = 0; k < ks; k++, out += width) {
        for (int i = 0; i < count; i++) out[i] = NAME(load_real)(dtype, p, i * outer + k * inner);
        for (int i = count; i < width; i++) out[i] = 0;
    }
}

SIMD_INLINE void NAME(pack_dtype)(nbx_dtype dtype, int size, const gemm_side *s, int64_t first, int64_t outers, int64_t k0,
                                  int64_t ks, int width, REAL *out, int64_t stride)
{
    const char *p = s->data + (first * s->outer + k0 * s->inner) * size;
    if (s->outer == 1) {
        NAME(pack_rows)(dtype, size, p, s->inner, outers, ks, width, out, stride);
        return;
    }
    for (int64_t i = 0; i < outers; i += width, out += stride, p += width * s->outer * size) {
        const int count = (int)(outers - i < width ? outers - i : width);
        if (s->inner == 1) NAME(pack_columns)(dtype, size, p, s->outer, count, ks, width, out);
        else NAME(pack_any)(dtype, p, s->outer, s->inner, count, ks, width, out);
    }
}

// ---- complex: pairs of reals ----------------------------------------------------------------------------------------

// A: re and im of one element are two values of k. out[2 k + part][i]
static void NAME(pack_complex_a)(const gemm_side *s, int64_t first, int64_t outers, int64_t k0, int64_t ks, int width, void *to, int64_t stride)
{
    REAL *out = to;
    for (int64_t i = 0; i < outers; i += width, out += stride) {
        const int64_t count = outers - i < width ? outers - i : width;
        for (int64_t k = 0; k < ks; k += 2) {
            for (int64_t r = 0; r < width; r++) {
                const REAL *x = (const REAL *)s->data + 2 * ((first + i + (r < count ? r : 0)) * s->outer + (k0 + k) / 2 * s->inner);
                out[k * width + r] = r < count ? x[0] : 0;
                out[(k + 1) * width + r] = r < count ? x[1] : 0;
            }
        }
    }
}

// B: one element is the 2 x 2 matrix [[re im] [-im re]] over two values of k and two columns.
static void NAME(pack_complex_b)(const gemm_side *s, int64_t first, int64_t outers, int64_t k0, int64_t ks, int width, void *to, int64_t stride)
{
    REAL *out = to;
    for (int64_t i = 0; i < outers; i += width, out += stride) {
        const int64_t count = outers - i < width ? outers - i : width;
        for (int64_t k = 0; k < ks; k += 2) {
            REAL *upper = out + k * width, *lower = upper + width;
            for (int64_t r = 0; r < width; r += 2) {
                const REAL *x = (const REAL *)s->data + 2 * ((first + i + (r < count ? r : 0)) / 2 * s->outer + (k0 + k) / 2 * s->inner);
                const REAL re = r < count ? x[0] : 0, im = r < count ? x[1] : 0;
                upper[r] = re;
                upper[r + 1] = im;
                lower[r] = -im;
                lower[r + 1] = re;
            }
        }
    }
}

static void NAME(finish_complex)(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols, const void *acc, int64_t ld)
{
    const REAL *sums = acc;
    const REAL alpha = (REAL)g->alpha, alpha_i = (REAL)g->alpha_imaginary, beta = (REAL)g->beta, beta_i = (REAL)g->beta_imaginary;
    const bool scaled = alpha != 1 || alpha_i != 0, adds = beta != 0 || beta_i != 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j += 2) {
            const int64_t r = row + i, c = (col + j) / 2;
            REAL re = sums == NULL ? 0 : sums[i * ld + j], im = sums == NULL ? 0 : sums[i * ld + j + 1];
            if (scaled) {
                const REAL x = re * alpha - im * alpha_i;
                im = re * alpha_i + im * alpha;
                re = x;
            }
            REAL *out = (REAL *)g->c + 2 * (entry * g->batch_stride_c + r * g->row_stride_c + c * g->col_stride_c);
            if (adds) {
                const REAL *d = g->d == NULL ? out
                    : (const REAL *)g->d + 2 * (entry * g->batch_stride_d + r * g->row_stride_d + c * g->col_stride_d);
                const REAL dr = d[0], di = d[1];
                re += dr * beta - di * beta_i;
                im += dr * beta_i + di * beta;
            }
            if (g->bias != NULL) {
                const REAL *bias = (const REAL *)g->bias + 2 * (g->bias_stride == 0 ? 1 : g->bias_stride) * (g->bias_per_row ? r : c);
                re += bias[0];
                im += bias[1];
            }
            out[0] = re;
            out[1] = im;
        }
    }
}
