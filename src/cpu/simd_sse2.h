// One part = one xmm, with nothing newer than SSE2: 4 float, 4 int32, 2 double, 2 int64. Included by simd.h only.
//
// Fused multiply-add is computed exactly without the instruction, so that this set returns the bits of the others: the
// product of two floats is exact in double; the sum with the third operand is rounded to odd, and a value rounded to
// odd with two spare bits rounds to float as the exact one would (Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums", 2008). It costs about 20 instructions; for double the C library's fma is called lane by lane.
#include <emmintrin.h>
#include <math.h>

#define NBX_SIMD_PARTS 4
#define NBX_SIMD_PART_LANES 4

typedef __m128 pf;
typedef __m128i pi;
typedef __m128d pd;
typedef __m128i pl;
typedef __m128i pm;
typedef __m128i pq;

static inline pf pf_set1(float x) { return _mm_set1_ps(x); }
static inline pf pf_load(const float *p) { return _mm_loadu_ps(p); }
static inline void pf_store(float *p, pf x) { _mm_storeu_ps(p, x); }
static inline void pf_stream(float *p, pf x) { _mm_stream_ps(p, x); }
static inline void stream_end(void) { _mm_sfence(); }
static inline pf pf_load_first(const float *p, int n)
{
    float lanes[4] = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return _mm_loadu_ps(lanes);
}
static inline void pf_store_first(float *p, pf x, int n)
{
    float lanes[4];
    _mm_storeu_ps(lanes, x);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
static inline pf pf_add(pf x, pf y) { return _mm_add_ps(x, y); }
static inline pf pf_sub(pf x, pf y) { return _mm_sub_ps(x, y); }
static inline pf pf_mul(pf x, pf y) { return _mm_mul_ps(x, y); }
static inline pf pf_div(pf x, pf y) { return _mm_div_ps(x, y); }
static inline pf pf_sqrt(pf x) { return _mm_sqrt_ps(x); }

// a + b rounded to odd: when inexact and the last bit is 0, step one unit towards the lost part.
static inline __m128d add_to_odd(__m128d a, __m128d b)
{
    const __m128d s = _mm_add_pd(a, b), zero = _mm_setzero_pd();
    const __m128d bb = _mm_sub_pd(s, a);
    const __m128d lost = _mm_add_pd(_mm_sub_pd(a, _mm_sub_pd(s, bb)), _mm_sub_pd(b, bb));
    const __m128d up = _mm_cmpgt_pd(lost, zero), down = _mm_cmplt_pd(lost, zero), negative = _mm_cmplt_pd(s, zero);
    const __m128d away = _mm_or_pd(_mm_andnot_pd(negative, up), _mm_and_pd(negative, down));
    const __m128i inexact = _mm_castpd_si128(_mm_or_pd(up, down));
    const __m128i bits = _mm_castpd_si128(s), one = _mm_set1_epi64x(1);
    const __m128i even = _mm_sub_epi64(_mm_and_si128(bits, one), one); // all ones when the last bit is 0
    const __m128i step = _mm_or_si128(_mm_and_si128(_mm_castpd_si128(away), one),
                                      _mm_andnot_si128(_mm_castpd_si128(away), _mm_set1_epi64x(-1)));
    return _mm_castsi128_pd(_mm_add_epi64(bits, _mm_and_si128(step, _mm_and_si128(inexact, even))));
}
static inline pf pf_fma(pf a, pf b, pf c)
{
    const __m128d low = add_to_odd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
    const __m128 ah = _mm_movehl_ps(a, a), bh = _mm_movehl_ps(b, b), ch = _mm_movehl_ps(c, c);
    const __m128d high = add_to_odd(_mm_mul_pd(_mm_cvtps_pd(ah), _mm_cvtps_pd(bh)), _mm_cvtps_pd(ch));
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
static inline pf pf_flip(pf x) { return _mm_xor_ps(x, _mm_set1_ps(-0.0f)); }
static inline pf pf_fnma(pf a, pf b, pf c) { return pf_fma(pf_flip(a), b, c); }
static inline pf pf_fms(pf a, pf b, pf c) { return pf_fma(a, b, pf_flip(c)); }

static inline pf pf_select(pm m, pf a, pf b)
{
    const __m128 k = _mm_castsi128_ps(m);
    return _mm_or_ps(_mm_and_ps(k, a), _mm_andnot_ps(k, b));
}
static inline pf pf_rint(pf x)
{
    const __m128 sign = _mm_and_ps(x, _mm_set1_ps(-0.0f)), size = _mm_xor_ps(x, sign), big = _mm_set1_ps(8388608.0f);
    const __m128 near = _mm_or_ps(_mm_sub_ps(_mm_add_ps(size, big), big), sign);
    return pf_select(_mm_castps_si128(_mm_cmplt_ps(size, big)), near, x);
}
static inline pf pf_keep_sign(pf r, pf x) { return _mm_or_ps(r, _mm_and_ps(x, _mm_set1_ps(-0.0f))); }
static inline pf pf_floor(pf x)
{
    const __m128 r = pf_rint(x);
    return pf_keep_sign(_mm_sub_ps(r, _mm_and_ps(_mm_cmpgt_ps(r, x), _mm_set1_ps(1.0f))), x);
}
static inline pf pf_ceil(pf x)
{
    const __m128 r = pf_rint(x);
    return pf_keep_sign(_mm_add_ps(r, _mm_and_ps(_mm_cmplt_ps(r, x), _mm_set1_ps(1.0f))), x);
}
static inline pf pf_trunc(pf x)
{
    const __m128 sign = _mm_and_ps(x, _mm_set1_ps(-0.0f));
    return _mm_or_ps(pf_floor(_mm_xor_ps(x, sign)), sign);
}
static inline pf pf_min_fast(pf x, pf y) { return _mm_min_ps(x, y); }
static inline pf pf_max_fast(pf x, pf y) { return _mm_max_ps(x, y); }
static inline pm pf_eq(pf x, pf y) { return _mm_castps_si128(_mm_cmpeq_ps(x, y)); }
static inline pm pf_ne(pf x, pf y) { return _mm_castps_si128(_mm_cmpneq_ps(x, y)); }
static inline pm pf_lt(pf x, pf y) { return _mm_castps_si128(_mm_cmplt_ps(x, y)); }
static inline pm pf_le(pf x, pf y) { return _mm_castps_si128(_mm_cmple_ps(x, y)); }
static inline pm pf_isnan(pf x) { return _mm_castps_si128(_mm_cmpunord_ps(x, x)); }
static inline pf pf_gather(const float *base, pi index)
{
    int32_t i[4];
    _mm_storeu_si128((__m128i *)i, index);
    return _mm_setr_ps(base[i[0]], base[i[1]], base[i[2]], base[i[3]]);
}

static inline pi pf_bits(pf x) { return _mm_castps_si128(x); }
static inline pf pi_float_bits(pi x) { return _mm_castsi128_ps(x); }
static inline pi pf_to_pi_trunc(pf x) { return _mm_cvttps_epi32(x); }
static inline pi pf_to_pi_round(pf x) { return _mm_cvtps_epi32(x); }
static inline pf pi_to_pf(pi x) { return _mm_cvtepi32_ps(x); }

static inline pi pi_set1(int32_t x) { return _mm_set1_epi32(x); }
static inline pi pi_load(const int32_t *p) { return _mm_loadu_si128((const __m128i *)p); }
static inline void pi_store(int32_t *p, pi x) { _mm_storeu_si128((__m128i *)p, x); }
static inline pi pi_add(pi x, pi y) { return _mm_add_epi32(x, y); }
static inline pi pi_sub(pi x, pi y) { return _mm_sub_epi32(x, y); }
static inline pi pi_mul(pi x, pi y)
{
    const __m128i even = _mm_mul_epu32(x, y), odd = _mm_mul_epu32(_mm_srli_epi64(x, 32), _mm_srli_epi64(y, 32));
    return _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08));
}
static inline pi pi_and(pi x, pi y) { return _mm_and_si128(x, y); }
static inline pi pi_or(pi x, pi y) { return _mm_or_si128(x, y); }
static inline pi pi_xor(pi x, pi y) { return _mm_xor_si128(x, y); }
static inline pi pi_andnot(pi x, pi y) { return _mm_andnot_si128(x, y); }
static inline pi pi_shl(pi x, int n) { return _mm_sll_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shr(pi x, int n) { return _mm_srl_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_sar(pi x, int n) { return _mm_sra_epi32(x, _mm_cvtsi32_si128(n)); }
static inline pi pi_shlv(pi x, pi n)
{
    uint32_t v[4], k[4];
    _mm_storeu_si128((__m128i *)v, x);
    _mm_storeu_si128((__m128i *)k, n);
    for (int i = 0; i < 4; i++) v[i] = k[i] < 32 ? v[i] << k[i] : 0;
    return _mm_loadu_si128((const __m128i *)v);
}
static inline pi pi_shrv(pi x, pi n)
{
    uint32_t v[4], k[4];
    _mm_storeu_si128((__m128i *)v, x);
    _mm_storeu_si128((__m128i *)k, n);
    for (int i = 0; i < 4; i++) v[i] = k[i] < 32 ? v[i] >> k[i] : 0;
    return _mm_loadu_si128((const __m128i *)v);
}
static inline pm pi_eq(pi x, pi y) { return _mm_cmpeq_epi32(x, y); }
static inline pm pi_gt(pi x, pi y) { return _mm_cmpgt_epi32(x, y); }
static inline pi pi_select(pm m, pi a, pi b) { return _mm_or_si128(_mm_and_si128(m, a), _mm_andnot_si128(m, b)); }
static inline pi pi_min(pi x, pi y) { return pi_select(_mm_cmpgt_epi32(x, y), y, x); }
static inline pi pi_max(pi x, pi y) { return pi_select(_mm_cmpgt_epi32(x, y), x, y); }
static inline pi pi_load_u16(const uint16_t *p)
{
    return _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)p), _mm_setzero_si128());
}
static inline pi pi_load_i16(const int16_t *p)
{
    const __m128i x = _mm_loadl_epi64((const __m128i *)p);
    return _mm_srai_epi32(_mm_unpacklo_epi16(x, x), 16);
}
static inline pi pi_load_u8(const uint8_t *p) { return _mm_setr_epi32(p[0], p[1], p[2], p[3]); }
static inline pi pi_load_i8(const int8_t *p) { return _mm_setr_epi32(p[0], p[1], p[2], p[3]); }
static inline void pi_store_u16(uint16_t *p, pi x)
{
    const __m128i s = _mm_srai_epi32(_mm_slli_epi32(x, 16), 16); // sign-extended, so that the signed pack is exact
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi32(s, s));
}
static inline void pi_store_u8(uint8_t *p, pi x)
{
    const __m128i b = _mm_and_si128(x, _mm_set1_epi32(0xff)), h = _mm_packs_epi32(b, b);
    const int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(h, h));
    memcpy(p, &four, 4);
}

static inline pm pm_and(pm x, pm y) { return _mm_and_si128(x, y); }
static inline pm pm_or(pm x, pm y) { return _mm_or_si128(x, y); }
static inline pm pm_xor(pm x, pm y) { return _mm_xor_si128(x, y); }
static inline pm pm_not(pm x) { return _mm_xor_si128(x, _mm_set1_epi32(-1)); }
static inline uint32_t pm_bits(pm x) { return (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(x)); }
static inline pf pf_load_where(const float *p, pm m)
{
    float lanes[4] = {0, 0, 0, 0};
    for (uint32_t bits = pm_bits(m), i = 0; i < 4; i++)
        if (bits >> i & 1) lanes[i] = p[i];
    return _mm_loadu_ps(lanes);
}

static inline pd pd_set1(double x) { return _mm_set1_pd(x); }
static inline pd pd_load(const double *p) { return _mm_loadu_pd(p); }
static inline void pd_store(double *p, pd x) { _mm_storeu_pd(p, x); }
static inline pd pd_load_first(const double *p, int n)
{
    return n == 0 ? _mm_setzero_pd() : n == 1 ? _mm_load_sd(p) : _mm_loadu_pd(p);
}
static inline void pd_store_first(double *p, pd x, int n)
{
    if (n > 0) _mm_storel_pd(p, x);
    if (n > 1) _mm_storeh_pd(p + 1, x);
}
static inline pd pd_add(pd x, pd y) { return _mm_add_pd(x, y); }
static inline pd pd_sub(pd x, pd y) { return _mm_sub_pd(x, y); }
static inline pd pd_mul(pd x, pd y) { return _mm_mul_pd(x, y); }
static inline pd pd_div(pd x, pd y) { return _mm_div_pd(x, y); }
static inline pd pd_fma(pd a, pd b, pd c)
{
    return _mm_setr_pd(fma(_mm_cvtsd_f64(a), _mm_cvtsd_f64(b), _mm_cvtsd_f64(c)),
                       fma(_mm_cvtsd_f64(_mm_unpackhi_pd(a, a)), _mm_cvtsd_f64(_mm_unpackhi_pd(b, b)),
                           _mm_cvtsd_f64(_mm_unpackhi_pd(c, c))));
}
static inline pd pd_flip(pd x) { return _mm_xor_pd(x, _mm_set1_pd(-0.0)); }
static inline pd pd_fnma(pd a, pd b, pd c) { return pd_fma(pd_flip(a), b, c); }
static inline pd pd_fms(pd a, pd b, pd c) { return pd_fma(a, b, pd_flip(c)); }
static inline pd pd_sqrt(pd x) { return _mm_sqrt_pd(x); }
static inline pd pd_select(pq m, pd a, pd b)
{
    const __m128d k = _mm_castsi128_pd(m);
    return _mm_or_pd(_mm_and_pd(k, a), _mm_andnot_pd(k, b));
}
static inline pd pd_rint(pd x)
{
    const __m128d sign = _mm_and_pd(x, _mm_set1_pd(-0.0)), size = _mm_xor_pd(x, sign), big = _mm_set1_pd(0x1p52);
    const __m128d near = _mm_or_pd(_mm_sub_pd(_mm_add_pd(size, big), big), sign);
    return pd_select(_mm_castpd_si128(_mm_cmplt_pd(size, big)), near, x);
}
static inline pd pd_keep_sign(pd r, pd x) { return _mm_or_pd(r, _mm_and_pd(x, _mm_set1_pd(-0.0))); }
static inline pd pd_floor(pd x)
{
    const __m128d r = pd_rint(x);
    return pd_keep_sign(_mm_sub_pd(r, _mm_and_pd(_mm_cmpgt_pd(r, x), _mm_set1_pd(1.0))), x);
}
static inline pd pd_ceil(pd x)
{
    const __m128d r = pd_rint(x);
    return pd_keep_sign(_mm_add_pd(r, _mm_and_pd(_mm_cmplt_pd(r, x), _mm_set1_pd(1.0))), x);
}
static inline pd pd_trunc(pd x)
{
    const __m128d sign = _mm_and_pd(x, _mm_set1_pd(-0.0));
    return _mm_or_pd(pd_floor(_mm_xor_pd(x, sign)), sign);
}
static inline pd pd_min_fast(pd x, pd y) { return _mm_min_pd(x, y); }
static inline pd pd_max_fast(pd x, pd y) { return _mm_max_pd(x, y); }
static inline pq pd_eq(pd x, pd y) { return _mm_castpd_si128(_mm_cmpeq_pd(x, y)); }
static inline pq pd_ne(pd x, pd y) { return _mm_castpd_si128(_mm_cmpneq_pd(x, y)); }
static inline pq pd_lt(pd x, pd y) { return _mm_castpd_si128(_mm_cmplt_pd(x, y)); }
static inline pq pd_le(pd x, pd y) { return _mm_castpd_si128(_mm_cmple_pd(x, y)); }
static inline pq pd_isnan(pd x) { return _mm_castpd_si128(_mm_cmpunord_pd(x, x)); }
static inline pl pd_bits(pd x) { return _mm_castpd_si128(x); }
static inline pd pl_double_bits(pl x) { return _mm_castsi128_pd(x); }

static inline pl pl_set1(int64_t x) { return _mm_set1_epi64x(x); }
static inline pl pl_add(pl x, pl y) { return _mm_add_epi64(x, y); }
static inline pl pl_sub(pl x, pl y) { return _mm_sub_epi64(x, y); }
static inline pl pl_and(pl x, pl y) { return _mm_and_si128(x, y); }
static inline pl pl_or(pl x, pl y) { return _mm_or_si128(x, y); }
static inline pl pl_xor(pl x, pl y) { return _mm_xor_si128(x, y); }
static inline pl pl_andnot(pl x, pl y) { return _mm_andnot_si128(x, y); }
static inline pl pl_shl(pl x, int n) { return _mm_sll_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_shr(pl x, int n) { return _mm_srl_epi64(x, _mm_cvtsi32_si128(n)); }
static inline pl pl_select(pq m, pl a, pl b) { return _mm_or_si128(_mm_and_si128(m, a), _mm_andnot_si128(m, b)); }
static inline pq pl_eq(pl x, pl y)
{
    const __m128i half = _mm_cmpeq_epi32(x, y);
    return _mm_and_si128(half, _mm_shuffle_epi32(half, 0xb1));
}

static inline pq pq_and(pq x, pq y) { return _mm_and_si128(x, y); }
static inline pq pq_or(pq x, pq y) { return _mm_or_si128(x, y); }
static inline pq pq_xor(pq x, pq y) { return _mm_xor_si128(x, y); }
static inline pq pq_not(pq x) { return _mm_xor_si128(x, _mm_set1_epi32(-1)); }
static inline uint32_t pq_bits(pq x) { return (uint32_t)_mm_movemask_pd(_mm_castsi128_pd(x)); }

static inline pd pf_low_pd(pf x) { return _mm_cvtps_pd(x); }
static inline pd pf_high_pd(pf x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
static inline pf pd_pair_pf(pd low, pd high) { return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high)); }
static inline pq pm_low_pq(pm x) { return _mm_unpacklo_epi32(x, x); }
static inline pq pm_high_pq(pm x) { return _mm_unpackhi_epi32(x, x); }
static inline pm pq_pair_pm(pq low, pq high)
{
    return _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), 0x88));
}

static inline float v_tree_add(pf a, pf b, pf c, pf d)
{
    const __m128 q = _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
    const __m128 h = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}
static inline double vd_tree_add(pd a, pd b, pd c, pd d)
{
    const __m128d q = _mm_add_pd(_mm_add_pd(a, c), _mm_add_pd(b, d));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

static inline __attribute__((always_inline)) void pf_transpose(pf *rows) { _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]); }

#include "cpu/simd_f16_soft.h"

// Pairs taken apart and put together: even and odd lanes of x followed by y; lanes of x and y in turn, first and second half.
static inline pf pf_even(pf x, pf y) { return _mm_shuffle_ps(x, y, 0x88); }
static inline pf pf_odd(pf x, pf y) { return _mm_shuffle_ps(x, y, 0xdd); }
static inline pf pf_zip_low(pf x, pf y) { return _mm_unpacklo_ps(x, y); }
static inline pf pf_zip_high(pf x, pf y) { return _mm_unpackhi_ps(x, y); }
static inline pd pd_even(pd x, pd y) { return _mm_unpacklo_pd(x, y); }
static inline pd pd_odd(pd x, pd y) { return _mm_unpackhi_pd(x, y); }
static inline pd pd_zip_low(pd x, pd y) { return _mm_unpacklo_pd(x, y); }
static inline pd pd_zip_high(pd x, pd y) { return _mm_unpackhi_pd(x, y); }
