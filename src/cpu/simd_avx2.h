// One part = one ymm: 8 float, 8 int32, 4 double, 4 int64. Included by simd.h only.
#include <immintrin.h>

#define NBX_SIMD_PARTS 2
#define NBX_SIMD_PART_LANES 8

typedef __m256 pf;
typedef __m256i pi;
typedef __m256d pd;
typedef __m256i pl;
typedef __m256i pm;
typedef __m256i pq;

static inline __m256i first_lanes(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
static inline __m256i first_pairs(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }

static inline pf pf_set1(float x) { return _mm256_set1_ps(x); }
static inline pf pf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void pf_store(float *p, pf x) { _mm256_storeu_ps(p, x); }
static inline void pf_stream(float *p, pf x) { _mm256_stream_ps(p, x); }
static inline void stream_end(void) { _mm_sfence(); }
static inline pf pf_load_first(const float *p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
static inline pf pf_load_where(const float *p, pm m) { return _mm256_maskload_ps(p, m); }
// In pieces: a masked store takes about 20 cycles on Zen, and loads that follow wait for it.
static inline void pf_store_first(float *p, pf x, int n) {
    if (n >= 8) {
        _mm256_storeu_ps(p, x);
    } else if (n > 0) {
        __m128 rest = _mm256_castps256_ps128(x);
        if (n & 4) _mm_storeu_ps(p, rest), p += 4, rest = _mm256_extractf128_ps(x, 1);
        if (n & 2) _mm_storel_pi((__m64 *)(void *)p, rest), p += 2, rest = _mm_movehl_ps(rest, rest);
        if (n & 1) _mm_store_ss(p, rest);
    }
}
static inline pf pf_add(pf x, pf y) { return _mm256_add_ps(x, y); }
static inline pf pf_sub(pf x, pf y) { return _mm256_sub_ps(x, y); }
static inline pf pf_mul(pf x, pf y) { return _mm256_mul_ps(x, y); }
static inline pf pf_div(pf x, pf y) { return _mm256_div_ps(x, y); }
static inline pf pf_fma(pf a, pf b, pf c) { return _mm256_fmadd_ps(a, b, c); }
static inline pf pf_fnma(pf a, pf b, pf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline pf pf_fms(pf a, pf b, pf c) { return _mm256_fmsub_ps(a, b, c); }
static inline pf pf_sqrt(pf x) { return _mm256_sqrt_ps(x); }
static inline pf pf_floor(pf x) { return _mm256_floor_ps(x); }
static inline pf pf_ceil(pf x) { return _mm256_ceil_ps(x); }
static inline pf pf_trunc(pf x) { return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline pf pf_rint(pf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline pf pf_min_fast(pf x, pf y) { return _mm256_min_ps(x, y); }
static inline pf pf_max_fast(pf x, pf y) { return _mm256_max_ps(x, y); }
static inline pm pf_eq(pf x, pf y) { return _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_EQ_OQ)); }
static inline pm pf_ne(pf x, pf y) { return _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_NEQ_UQ)); }
static inline pm pf_lt(pf x, pf y) { return _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_LT_OQ)); }
static inline pm pf_le(pf x, pf y) { return _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_LE_OQ)); }
static inline pm pf_isnan(pf x) { return _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
static inline pf pf_select(pm m, pf a, pf b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)); }
static inline pf pf_gather(const float *base, pi index) { return _mm256_i32gather_ps(base, index, 4); }

static inline pi pf_bits(pf x) { return _mm256_castps_si256(x); }
static inline pf pi_float_bits(pi x) { return _mm256_castsi256_ps(x); }
static inline pi pf_to_pi_trunc(pf x) { return _mm256_cvttps_epi32(x); }
static inline pi pf_to_pi_round(pf x) { return _mm256_cvtps_epi32(x); }
static inline pf pi_to_pf(pi x) { return _mm256_cvtepi32_ps(x); }

static inline pi pi_set1(int32_t x) { return _mm256_set1_epi32(x); }
static inline pi pi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void pi_store(int32_t *p, pi x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline pi pi_add(pi x, pi y) { return _mm256_add_epi32(x, y); }
static inline pi pi_sub(pi x, pi y) { return _mm256_sub_epi32(x, y); }
static inline pi pi_mul(pi x, pi y) { return _mm256_mullo_epi32(x, y); }
static inline pi pi_and(pi x, pi y) { return _mm256_and_si256(x, y); }
static inline pi pi_or(pi x, pi y) { return _mm256_or_si256(x, y); }
static inline pi pi_xor(pi x, pi y) { return _mm256_xor_si256(x, y); }
static inline pi pi_andnot(pi x, pi y) { return _mm256_andnot_si256(x, y); }
static inline pi pi_shl(pi x, int n) { return _mm256_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shr(pi x, int n) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_sar(pi x, int n) { return _mm256_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shlv(pi x, pi n) { return _mm256_sllv_epi32(x, n); }
static inline pi pi_shrv(pi x, pi n) { return _mm256_srlv_epi32(x, n); }
static inline pm pi_eq(pi x, pi y) { return _mm256_cmpeq_epi32(x, y); }
static inline pm pi_gt(pi x, pi y) { return _mm256_cmpgt_epi32(x, y); }
static inline pi pi_select(pm m, pi a, pi b) { return _mm256_blendv_epi8(b, a, m); }
static inline pi pi_min(pi x, pi y) { return _mm256_min_epi32(x, y); }
static inline pi pi_max(pi x, pi y) { return _mm256_max_epi32(x, y); }
static inline pi pi_load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline pi pi_load_i16(const int16_t *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p)); }
static inline pi pi_load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline pi pi_load_i8(const int8_t *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
static inline __m128i low_halves(pi x) // the low 16 bits of each lane
{
    const __m256i kept = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(kept, kept), 0x08);
    return _mm256_castsi256_si128(packed);
}
static inline void pi_store_u16(uint16_t *p, pi x) { _mm_storeu_si128((__m128i *)p, low_halves(x)); }
static inline void pi_store_u8(uint8_t *p, pi x)
{
    const __m128i h = low_halves(_mm256_and_si256(x, _mm256_set1_epi32(0xff)));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(h, h));
}
static inline pf pf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline void pf_store_f16(uint16_t *p, pf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline pm pm_and(pm x, pm y) { return _mm256_and_si256(x, y); }
static inline pm pm_or(pm x, pm y) { return _mm256_or_si256(x, y); }
static inline pm pm_xor(pm x, pm y) { return _mm256_xor_si256(x, y); }
static inline pm pm_not(pm x) { return _mm256_xor_si256(x, _mm256_set1_epi32(-1)); }
static inline uint32_t pm_bits(pm x) { return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(x)); }

static inline pd pd_set1(double x) { return _mm256_set1_pd(x); }
static inline pd pd_load(const double *p) { return _mm256_loadu_pd(p); }
static inline void pd_store(double *p, pd x) { _mm256_storeu_pd(p, x); }
static inline pd pd_load_first(const double *p, int n) { return _mm256_maskload_pd(p, first_pairs(n)); }
static inline void pd_store_first(double *p, pd x, int n) { _mm256_maskstore_pd(p, first_pairs(n), x); }
static inline pd pd_add(pd x, pd y) { return _mm256_add_pd(x, y); }
static inline pd pd_sub(pd x, pd y) { return _mm256_sub_pd(x, y); }
static inline pd pd_mul(pd x, pd y) { return _mm256_mul_pd(x, y); }
static inline pd pd_div(pd x, pd y) { return _mm256_div_pd(x, y); }
static inline pd pd_fma(pd a, pd b, pd c) { return _mm256_fmadd_pd(a, b, c); }
static inline pd pd_fnma(pd a, pd b, pd c) { return _mm256_fnmadd_pd(a, b, c); }
static inline pd pd_fms(pd a, pd b, pd c) { return _mm256_fmsub_pd(a, b, c); }
static inline pd pd_sqrt(pd x) { return _mm256_sqrt_pd(x); }
static inline pd pd_floor(pd x) { return _mm256_floor_pd(x); }
static inline pd pd_ceil(pd x) { return _mm256_ceil_pd(x); }
static inline pd pd_trunc(pd x) { return _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline pd pd_rint(pd x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline pd pd_min_fast(pd x, pd y) { return _mm256_min_pd(x, y); }
static inline pd pd_max_fast(pd x, pd y) { return _mm256_max_pd(x, y); }
static inline pq pd_eq(pd x, pd y) { return _mm256_castpd_si256(_mm256_cmp_pd(x, y, _CMP_EQ_OQ)); }
static inline pq pd_ne(pd x, pd y) { return _mm256_castpd_si256(_mm256_cmp_pd(x, y, _CMP_NEQ_UQ)); }
static inline pq pd_lt(pd x, pd y) { return _mm256_castpd_si256(_mm256_cmp_pd(x, y, _CMP_LT_OQ)); }
static inline pq pd_le(pd x, pd y) { return _mm256_castpd_si256(_mm256_cmp_pd(x, y, _CMP_LE_OQ)); }
static inline pq pd_isnan(pd x) { return _mm256_castpd_si256(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)); }
static inline pd pd_select(pq m, pd a, pd b) { return _mm256_blendv_pd(b, a, _mm256_castsi256_pd(m)); }
static inline pl pd_bits(pd x) { return _mm256_castpd_si256(x); }
static inline pd pl_double_bits(pl x) { return _mm256_castsi256_pd(x); }

static inline pl pl_set1(int64_t x) { return _mm256_set1_epi64x(x); }
static inline pl pl_add(pl x, pl y) { return _mm256_add_epi64(x, y); }
static inline pl pl_sub(pl x, pl y) { return _mm256_sub_epi64(x, y); }
static inline pl pl_and(pl x, pl y) { return _mm256_and_si256(x, y); }
static inline pl pl_or(pl x, pl y) { return _mm256_or_si256(x, y); }
static inline pl pl_xor(pl x, pl y) { return _mm256_xor_si256(x, y); }
static inline pl pl_andnot(pl x, pl y) { return _mm256_andnot_si256(x, y); }
static inline pl pl_shl(pl x, int n) { return _mm256_sll_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_shr(pl x, int n) { return _mm256_srl_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_select(pq m, pl a, pl b) { return _mm256_blendv_epi8(b, a, m); }
static inline pq pl_eq(pl x, pl y) { return _mm256_cmpeq_epi64(x, y); }

static inline pq pq_and(pq x, pq y) { return _mm256_and_si256(x, y); }
static inline pq pq_or(pq x, pq y) { return _mm256_or_si256(x, y); }
static inline pq pq_xor(pq x, pq y) { return _mm256_xor_si256(x, y); }
static inline pq pq_not(pq x) { return _mm256_xor_si256(x, _mm256_set1_epi32(-1)); }
static inline uint32_t pq_bits(pq x) { return (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(x)); }

static inline pd pf_low_pd(pf x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
static inline pd pf_high_pd(pf x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
static inline pf pd_pair_pf(pd low, pd high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}
static inline pq pm_low_pq(pm x) { return _mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)); }
static inline pq pm_high_pq(pm x) { return _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1)); }
static inline pm pq_pair_pm(pq low, pq high)
{
    const __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(even), 0xd8);
}

static inline float v_tree_add(pf a, pf b)
{
    const __m256 h = _mm256_add_ps(a, b);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline double vd_tree_add(pd a, pd b)
{
    const __m256d h = _mm256_add_pd(a, b);
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

// Pairs taken apart and put together: even and odd lanes of x followed by y; lanes of x and y in turn, first and second half.
static inline pf pf_even(pf x, pf y) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0x88)), 0xd8)); }
static inline pf pf_odd(pf x, pf y) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0xdd)), 0xd8)); }
static inline pf pf_zip_low(pf x, pf y) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y), 0x20); }
static inline pf pf_zip_high(pf x, pf y) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y), 0x31); }
static inline pd pd_even(pd x, pd y) { return _mm256_permute4x64_pd(_mm256_unpacklo_pd(x, y), 0xd8); }
static inline pd pd_odd(pd x, pd y) { return _mm256_permute4x64_pd(_mm256_unpackhi_pd(x, y), 0xd8); }
static inline pd pd_zip_low(pd x, pd y) { return _mm256_permute2f128_pd(_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y), 0x20); }
static inline pd pd_zip_high(pd x, pd y) { return _mm256_permute2f128_pd(_mm256_unpacklo_pd(x, y), _mm256_unpackhi_pd(x, y), 0x31); }

// rows[i] is column i of what it was.
static inline __attribute__((always_inline)) void pf_transpose(pf *rows)
{
    pf pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int c = 0; c < 2; c++) {
            quads[i + 2 * c] = _mm256_shuffle_ps(pairs[i + c], pairs[i + c + 2], 0x44);
            quads[i + 2 * c + 1] = _mm256_shuffle_ps(pairs[i + c], pairs[i + c + 2], 0xee);
        }
    }
    for (int c = 0; c < 4; c++) {
        rows[c] = _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x20);
        rows[c + 4] = _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x31);
    }
}
