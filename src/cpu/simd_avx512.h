// One part = one zmm: 16 float, 16 int32, 8 double, 8 int64. Included by simd.h only.
#include <immintrin.h>

#define NBX_SIMD_PARTS 1
#define NBX_SIMD_PART_LANES 16

typedef __m512 pf;
typedef __m512i pi;
typedef __m512d pd;
typedef __m512i pl;
typedef __mmask16 pm;
typedef __mmask8 pq;

static inline pf pf_set1(float x) { return _mm512_set1_ps(x); }
static inline pf pf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void pf_store(float *p, pf x) { _mm512_storeu_ps(p, x); }
static inline void pf_stream(float *p, pf x) { _mm512_stream_ps(p, x); }
static inline void stream_end(void) { _mm_sfence(); }
static inline pf pf_load_first(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p); }
static inline pf pf_load_where(const float *p, pm m) { return _mm512_maskz_loadu_ps(m, p); }
static inline void pf_store_first(float *p, pf x, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), x); }
static inline pf pf_add(pf x, pf y) { return _mm512_add_ps(x, y); }
static inline pf pf_sub(pf x, pf y) { return _mm512_sub_ps(x, y); }
static inline pf pf_mul(pf x, pf y) { return _mm512_mul_ps(x, y); }
static inline pf pf_div(pf x, pf y) { return _mm512_div_ps(x, y); }
static inline pf pf_fma(pf a, pf b, pf c) { return _mm512_fmadd_ps(a, b, c); }
static inline pf pf_fnma(pf a, pf b, pf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline pf pf_fms(pf a, pf b, pf c) { return _mm512_fmsub_ps(a, b, c); }
static inline pf pf_sqrt(pf x) { return _mm512_sqrt_ps(x); }
static inline pf pf_floor(pf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline pf pf_ceil(pf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline pf pf_trunc(pf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline pf pf_rint(pf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline pf pf_min_fast(pf x, pf y) { return _mm512_min_ps(x, y); }
static inline pf pf_max_fast(pf x, pf y) { return _mm512_max_ps(x, y); }
static inline pm pf_eq(pf x, pf y) { return _mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ); }
static inline pm pf_ne(pf x, pf y) { return _mm512_cmp_ps_mask(x, y, _CMP_NEQ_UQ); }
static inline pm pf_lt(pf x, pf y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ); }
static inline pm pf_le(pf x, pf y) { return _mm512_cmp_ps_mask(x, y, _CMP_LE_OQ); }
static inline pm pf_isnan(pf x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
static inline pf pf_select(pm m, pf a, pf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline pf pf_gather(const float *base, pi index) { return _mm512_i32gather_ps(index, base, 4); }

static inline pi pf_bits(pf x) { return _mm512_castps_si512(x); }
static inline pf pi_float_bits(pi x) { return _mm512_castsi512_ps(x); }
static inline pi pf_to_pi_trunc(pf x) { return _mm512_cvttps_epi32(x); }
static inline pi pf_to_pi_round(pf x) { return _mm512_cvtps_epi32(x); }
static inline pf pi_to_pf(pi x) { return _mm512_cvtepi32_ps(x); }

static inline pi pi_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline pi pi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void pi_store(int32_t *p, pi x) { _mm512_storeu_si512(p, x); }
static inline pi pi_add(pi x, pi y) { return _mm512_add_epi32(x, y); }
static inline pi pi_sub(pi x, pi y) { return _mm512_sub_epi32(x, y); }
static inline pi pi_mul(pi x, pi y) { return _mm512_mullo_epi32(x, y); }
static inline pi pi_and(pi x, pi y) { return _mm512_and_si512(x, y); }
static inline pi pi_or(pi x, pi y) { return _mm512_or_si512(x, y); }
static inline pi pi_xor(pi x, pi y) { return _mm512_xor_si512(x, y); }
static inline pi pi_andnot(pi x, pi y) { return _mm512_andnot_si512(x, y); }
static inline pi pi_shl(pi x, int n) { return _mm512_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shr(pi x, int n) { return _mm512_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_sar(pi x, int n) { return _mm512_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shlv(pi x, pi n) { return _mm512_sllv_epi32(x, n); }
static inline pi pi_shrv(pi x, pi n) { return _mm512_srlv_epi32(x, n); }
static inline pm pi_eq(pi x, pi y) { return _mm512_cmpeq_epi32_mask(x, y); }
static inline pm pi_gt(pi x, pi y) { return _mm512_cmpgt_epi32_mask(x, y); }
static inline pi pi_select(pm m, pi a, pi b) { return _mm512_mask_blend_epi32(m, b, a); }
static inline pi pi_min(pi x, pi y) { return _mm512_min_epi32(x, y); }
static inline pi pi_max(pi x, pi y) { return _mm512_max_epi32(x, y); }
static inline pi pi_load_u16(const uint16_t *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
static inline pi pi_load_i16(const int16_t *p) { return _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
static inline pi pi_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline pi pi_load_i8(const int8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline void pi_store_u16(uint16_t *p, pi x) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(x)); }
static inline void pi_store_u8(uint8_t *p, pi x) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(x)); }
static inline pf pf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline void pf_store_f16(uint16_t *p, pf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline pm pm_and(pm x, pm y) { return (pm)(x & y); }
static inline pm pm_or(pm x, pm y) { return (pm)(x | y); }
static inline pm pm_xor(pm x, pm y) { return (pm)(x ^ y); }
static inline pm pm_not(pm x) { return (pm)~x; }
static inline uint32_t pm_bits(pm x) { return (uint32_t)x; }

static inline pd pd_set1(double x) { return _mm512_set1_pd(x); }
static inline pd pd_load(const double *p) { return _mm512_loadu_pd(p); }
static inline void pd_store(double *p, pd x) { _mm512_storeu_pd(p, x); }
static inline pd pd_load_first(const double *p, int n) { return _mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1u), p); }
static inline void pd_store_first(double *p, pd x, int n) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1u), x); }
static inline pd pd_add(pd x, pd y) { return _mm512_add_pd(x, y); }
static inline pd pd_sub(pd x, pd y) { return _mm512_sub_pd(x, y); }
static inline pd pd_mul(pd x, pd y) { return _mm512_mul_pd(x, y); }
static inline pd pd_div(pd x, pd y) { return _mm512_div_pd(x, y); }
static inline pd pd_fma(pd a, pd b, pd c) { return _mm512_fmadd_pd(a, b, c); }
static inline pd pd_fnma(pd a, pd b, pd c) { return _mm512_fnmadd_pd(a, b, c); }
static inline pd pd_fms(pd a, pd b, pd c) { return _mm512_fmsub_pd(a, b, c); }
static inline pd pd_sqrt(pd x) { return _mm512_sqrt_pd(x); }
static inline pd pd_floor(pd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline pd pd_ceil(pd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline pd pd_trunc(pd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline pd pd_rint(pd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline pd pd_min_fast(pd x, pd y) { return _mm512_min_pd(x, y); }
static inline pd pd_max_fast(pd x, pd y) { return _mm512_max_pd(x, y); }
static inline pq pd_eq(pd x, pd y) { return _mm512_cmp_pd_mask(x, y, _CMP_EQ_OQ); }
static inline pq pd_ne(pd x, pd y) { return _mm512_cmp_pd_mask(x, y, _CMP_NEQ_UQ); }
static inline pq pd_lt(pd x, pd y) { return _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ); }
static inline pq pd_le(pd x, pd y) { return _mm512_cmp_pd_mask(x, y, _CMP_LE_OQ); }
static inline pq pd_isnan(pd x) { return _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q); }
static inline pd pd_select(pq m, pd a, pd b) { return _mm512_mask_blend_pd(m, b, a); }
static inline pl pd_bits(pd x) { return _mm512_castpd_si512(x); }
static inline pd pl_double_bits(pl x) { return _mm512_castsi512_pd(x); }

static inline pl pl_set1(int64_t x) { return _mm512_set1_epi64(x); }
static inline pl pl_add(pl x, pl y) { return _mm512_add_epi64(x, y); }
static inline pl pl_sub(pl x, pl y) { return _mm512_sub_epi64(x, y); }
static inline pl pl_and(pl x, pl y) { return _mm512_and_si512(x, y); }
static inline pl pl_or(pl x, pl y) { return _mm512_or_si512(x, y); }
static inline pl pl_xor(pl x, pl y) { return _mm512_xor_si512(x, y); }
static inline pl pl_andnot(pl x, pl y) { return _mm512_andnot_si512(x, y); }
static inline pl pl_shl(pl x, int n) { return _mm512_sll_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_shr(pl x, int n) { return _mm512_srl_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_select(pq m, pl a, pl b) { return _mm512_mask_blend_epi64(m, b, a); }
static inline pq pl_eq(pl x, pl y) { return _mm512_cmpeq_epi64_mask(x, y); }

static inline pq pq_and(pq x, pq y) { return (pq)(x & y); }
static inline pq pq_or(pq x, pq y) { return (pq)(x | y); }
static inline pq pq_xor(pq x, pq y) { return (pq)(x ^ y); }
static inline pq pq_not(pq x) { return (pq)~x; }
static inline uint32_t pq_bits(pq x) { return (uint32_t)x; }

static inline pd pf_low_pd(pf x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
static inline pd pf_high_pd(pf x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
static inline pf pd_pair_pf(pd low, pd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
static inline pq pm_low_pq(pm x) { return (pq)x; }
static inline pq pm_high_pq(pm x) { return (pq)(x >> 8); }
static inline pm pq_pair_pm(pq low, pq high) { return (pm)(low | (unsigned)high << 8); }

// Element i of the result is f(f(f(i, i+8), i+4), ...) - the tree that every instruction set follows.
static inline float v_tree_add(pf a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline double vd_tree_add(pd a)
{
    const __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

// rows[i] is column i of what it was.
// Pairs taken apart and put together: even and odd lanes of x followed by y; lanes of x and y in turn, first and second half.
#define LANES_IN_STEP(first, step) \
    _mm512_add_epi32(_mm512_set1_epi32(first), _mm512_mullo_epi32(_mm512_set1_epi32(step), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)))
#define LANES_IN_TURN(first) \
    _mm512_setr_epi32(first, first + 16, first + 1, first + 17, first + 2, first + 18, first + 3, first + 19, first + 4, first + 20, \
                      first + 5, first + 21, first + 6, first + 22, first + 7, first + 23)
static inline pf pf_even(pf x, pf y) { return _mm512_permutex2var_ps(x, LANES_IN_STEP(0, 2), y); }
static inline pf pf_odd(pf x, pf y) { return _mm512_permutex2var_ps(x, LANES_IN_STEP(1, 2), y); }
static inline pf pf_zip_low(pf x, pf y) { return _mm512_permutex2var_ps(x, LANES_IN_TURN(0), y); }
static inline pf pf_zip_high(pf x, pf y) { return _mm512_permutex2var_ps(x, LANES_IN_TURN(8), y); }
static inline pd pd_even(pd x, pd y) { return _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), y); }
static inline pd pd_odd(pd x, pd y) { return _mm512_permutex2var_pd(x, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), y); }
static inline pd pd_zip_low(pd x, pd y) { return _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), y); }
static inline pd pd_zip_high(pd x, pd y) { return _mm512_permutex2var_pd(x, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), y); }

static inline __attribute__((always_inline)) void pf_transpose(pf *rows)
{
    pf pairs[16], quads[16];
    for (int i = 0; i < 16; i += 2) {
        pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { // 128-bit lane l of quads[i + c]: column 4 l + c of rows i .. i + 3
        for (int c = 0; c < 2; c++) {
            const __m512d x = _mm512_castps_pd(pairs[i + c]), y = _mm512_castps_pd(pairs[i + c + 2]);
            quads[i + 2 * c] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            quads[i + 2 * c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    for (int c = 0; c < 4; c++) {
        const pf low = _mm512_shuffle_f32x4(quads[c], quads[c + 4], 0x44), low2 = _mm512_shuffle_f32x4(quads[c + 8], quads[c + 12], 0x44);
        const pf high = _mm512_shuffle_f32x4(quads[c], quads[c + 4], 0xee), high2 = _mm512_shuffle_f32x4(quads[c + 8], quads[c + 12], 0xee);
        rows[c] = _mm512_shuffle_f32x4(low, low2, 0x88);
        rows[c + 4] = _mm512_shuffle_f32x4(low, low2, 0xdd);
        rows[c + 8] = _mm512_shuffle_f32x4(high, high2, 0x88);
        rows[c + 12] = _mm512_shuffle_f32x4(high, high2, 0xdd);
    }
}
