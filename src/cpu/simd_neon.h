// One part = one 128-bit NEON register: 4 float, 4 int32, 2 double, 2 int64. aarch64 always has FMA and float16
// conversion. Included by simd.h only.
#include <arm_neon.h>

#define NBX_SIMD_PARTS 4
#define NBX_SIMD_PART_LANES 4

typedef float32x4_t pf;
typedef int32x4_t pi;
typedef float64x2_t pd;
typedef int64x2_t pl;
typedef uint32x4_t pm;
typedef uint64x2_t pq;

static inline pf pf_set1(float x) { return vdupq_n_f32(x); }
static inline pf pf_load(const float *p) { return vld1q_f32(p); }
static inline void pf_store(float *p, pf x) { vst1q_f32(p, x); }
static inline void pf_stream(float *p, pf x) { vst1q_f32(p, x); }
static inline void stream_end(void) {}
static inline pf pf_load_first(const float *p, int n)
{
    float lanes[4] = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return vld1q_f32(lanes);
}
static inline void pf_store_first(float *p, pf x, int n)
{
    float lanes[4];
    vst1q_f32(lanes, x);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
static inline pf pf_add(pf x, pf y) { return vaddq_f32(x, y); }
static inline pf pf_sub(pf x, pf y) { return vsubq_f32(x, y); }
static inline pf pf_mul(pf x, pf y) { return vmulq_f32(x, y); }
static inline pf pf_div(pf x, pf y) { return vdivq_f32(x, y); }
static inline pf pf_fma(pf a, pf b, pf c) { return vfmaq_f32(c, a, b); }
static inline pf pf_fnma(pf a, pf b, pf c) { return vfmsq_f32(c, a, b); }
static inline pf pf_fms(pf a, pf b, pf c) { return vfmaq_f32(vnegq_f32(c), a, b); }
static inline pf pf_sqrt(pf x) { return vsqrtq_f32(x); }
static inline pf pf_floor(pf x) { return vrndmq_f32(x); }
static inline pf pf_ceil(pf x) { return vrndpq_f32(x); }
static inline pf pf_trunc(pf x) { return vrndq_f32(x); }
static inline pf pf_rint(pf x) { return vrndnq_f32(x); }
static inline pm pf_eq(pf x, pf y) { return vceqq_f32(x, y); }
static inline pm pf_ne(pf x, pf y) { return vmvnq_u32(vceqq_f32(x, y)); }
static inline pm pf_lt(pf x, pf y) { return vcltq_f32(x, y); }
static inline pm pf_le(pf x, pf y) { return vcleq_f32(x, y); }
static inline pm pf_isnan(pf x) { return vmvnq_u32(vceqq_f32(x, x)); }
static inline pf pf_select(pm m, pf a, pf b) { return vbslq_f32(m, a, b); }
static inline pf pf_min_fast(pf x, pf y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
static inline pf pf_max_fast(pf x, pf y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
static inline pf pf_gather(const float *base, pi index)
{
    const float lanes[4] = {base[vgetq_lane_s32(index, 0)], base[vgetq_lane_s32(index, 1)],
                            base[vgetq_lane_s32(index, 2)], base[vgetq_lane_s32(index, 3)]};
    return vld1q_f32(lanes);
}

static inline pi pf_bits(pf x) { return vreinterpretq_s32_f32(x); }
static inline pf pi_float_bits(pi x) { return vreinterpretq_f32_s32(x); }

// The instruction saturates; x86 answers INT32_MIN for everything out of range, and so do we.
static inline pi pf_out_of_range(pf x, pi r)
{
    const pm inside = vandq_u32(vcgeq_f32(x, vdupq_n_f32(-0x1p31f)), vcltq_f32(x, vdupq_n_f32(0x1p31f)));
    return vbslq_s32(inside, r, vdupq_n_s32(INT32_MIN));
}
static inline pi pf_to_pi_trunc(pf x) { return pf_out_of_range(x, vcvtq_s32_f32(x)); }
static inline pi pf_to_pi_round(pf x) { return pf_out_of_range(x, vcvtnq_s32_f32(x)); }
static inline pf pi_to_pf(pi x) { return vcvtq_f32_s32(x); }

static inline pi pi_set1(int32_t x) { return vdupq_n_s32(x); }
static inline pi pi_load(const int32_t *p) { return vld1q_s32(p); }
static inline void pi_store(int32_t *p, pi x) { vst1q_s32(p, x); }
static inline pi pi_add(pi x, pi y) { return vaddq_s32(x, y); }
static inline pi pi_sub(pi x, pi y) { return vsubq_s32(x, y); }
static inline pi pi_mul(pi x, pi y) { return vmulq_s32(x, y); }
static inline pi pi_and(pi x, pi y) { return vandq_s32(x, y); }
static inline pi pi_or(pi x, pi y) { return vorrq_s32(x, y); }
static inline pi pi_xor(pi x, pi y) { return veorq_s32(x, y); }
static inline pi pi_andnot(pi x, pi y) { return vbicq_s32(y, x); }
static inline pi pi_shl(pi x, int n) { return vshlq_s32(x, vdupq_n_s32(n)); }
static inline pi pi_shr(pi x, int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-n)));
}
static inline pi pi_sar(pi x, int n) { return vshlq_s32(x, vdupq_n_s32(-n)); }
static inline pi pi_shlv(pi x, pi n)
{
    const pi k = vreinterpretq_s32_u32(vminq_u32(vreinterpretq_u32_s32(n), vdupq_n_u32(32)));
    return vshlq_s32(x, k);
}
static inline pi pi_shrv(pi x, pi n)
{
    const pi k = vreinterpretq_s32_u32(vminq_u32(vreinterpretq_u32_s32(n), vdupq_n_u32(32)));
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vnegq_s32(k)));
}
static inline pm pi_eq(pi x, pi y) { return vceqq_s32(x, y); }
static inline pm pi_gt(pi x, pi y) { return vcgtq_s32(x, y); }
static inline pi pi_select(pm m, pi a, pi b) { return vbslq_s32(m, a, b); }
static inline pi pi_min(pi x, pi y) { return vminq_s32(x, y); }
static inline pi pi_max(pi x, pi y) { return vmaxq_s32(x, y); }
static inline pi pi_load_u16(const uint16_t *p) { return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p))); }
static inline pi pi_load_i16(const int16_t *p) { return vmovl_s16(vld1_s16(p)); }
static inline pi pi_load_u8(const uint8_t *p)
{
    const int32_t lanes[4] = {p[0], p[1], p[2], p[3]};
    return vld1q_s32(lanes);
}
static inline pi pi_load_i8(const int8_t *p)
{
    const int32_t lanes[4] = {p[0], p[1], p[2], p[3]};
    return vld1q_s32(lanes);
}
static inline void pi_store_u16(uint16_t *p, pi x) { vst1_u16(p, vmovn_u32(vreinterpretq_u32_s32(x))); }
static inline void pi_store_u8(uint8_t *p, pi x)
{
    const uint16x4_t h = vmovn_u32(vreinterpretq_u32_s32(x));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(h, h))), 0);
    memcpy(p, &four, 4);
}
static inline pf pf_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void pf_store_f16(uint16_t *p, pf x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }

static inline pm pm_and(pm x, pm y) { return vandq_u32(x, y); }
static inline pm pm_or(pm x, pm y) { return vorrq_u32(x, y); }
static inline pm pm_xor(pm x, pm y) { return veorq_u32(x, y); }
static inline pm pm_not(pm x) { return vmvnq_u32(x); }
static inline uint32_t pm_bits(pm x)
{
    static const uint32_t weight[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(x, vld1q_u32(weight)));
}
static inline pf pf_load_where(const float *p, pm m)
{
    float lanes[4] = {0, 0, 0, 0};
    for (uint32_t bits = pm_bits(m), i = 0; i < 4; i++)
        if (bits >> i & 1) lanes[i] = p[i];
    return vld1q_f32(lanes);
}

static inline pd pd_set1(double x) { return vdupq_n_f64(x); }
static inline pd pd_load(const double *p) { return vld1q_f64(p); }
static inline void pd_store(double *p, pd x) { vst1q_f64(p, x); }
static inline pd pd_load_first(const double *p, int n)
{
    const double lanes[2] = {n > 0 ? p[0] : 0, n > 1 ? p[1] : 0};
    return vld1q_f64(lanes);
}
static inline void pd_store_first(double *p, pd x, int n)
{
    if (n > 0) p[0] = vgetq_lane_f64(x, 0);
    if (n > 1) p[1] = vgetq_lane_f64(x, 1);
}
static inline pd pd_add(pd x, pd y) { return vaddq_f64(x, y); }
static inline pd pd_sub(pd x, pd y) { return vsubq_f64(x, y); }
static inline pd pd_mul(pd x, pd y) { return vmulq_f64(x, y); }
static inline pd pd_div(pd x, pd y) { return vdivq_f64(x, y); }
static inline pd pd_fma(pd a, pd b, pd c) { return vfmaq_f64(c, a, b); }
static inline pd pd_fnma(pd a, pd b, pd c) { return vfmsq_f64(c, a, b); }
static inline pd pd_fms(pd a, pd b, pd c) { return vfmaq_f64(vnegq_f64(c), a, b); }
static inline pd pd_sqrt(pd x) { return vsqrtq_f64(x); }
static inline pd pd_floor(pd x) { return vrndmq_f64(x); }
static inline pd pd_ceil(pd x) { return vrndpq_f64(x); }
static inline pd pd_trunc(pd x) { return vrndq_f64(x); }
static inline pd pd_rint(pd x) { return vrndnq_f64(x); }
static inline pq pd_eq(pd x, pd y) { return vceqq_f64(x, y); }
static inline pq pq_not(pq x) { return vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(x))); }
static inline pq pd_ne(pd x, pd y) { return pq_not(vceqq_f64(x, y)); }
static inline pq pd_lt(pd x, pd y) { return vcltq_f64(x, y); }
static inline pq pd_le(pd x, pd y) { return vcleq_f64(x, y); }
static inline pq pd_isnan(pd x) { return pq_not(vceqq_f64(x, x)); }
static inline pd pd_select(pq m, pd a, pd b) { return vbslq_f64(m, a, b); }
static inline pd pd_min_fast(pd x, pd y) { return vbslq_f64(vcltq_f64(x, y), x, y); }
static inline pd pd_max_fast(pd x, pd y) { return vbslq_f64(vcgtq_f64(x, y), x, y); }
static inline pl pd_bits(pd x) { return vreinterpretq_s64_f64(x); }
static inline pd pl_double_bits(pl x) { return vreinterpretq_f64_s64(x); }

static inline pl pl_set1(int64_t x) { return vdupq_n_s64(x); }
static inline pl pl_add(pl x, pl y) { return vaddq_s64(x, y); }
static inline pl pl_sub(pl x, pl y) { return vsubq_s64(x, y); }
static inline pl pl_and(pl x, pl y) { return vandq_s64(x, y); }
static inline pl pl_or(pl x, pl y) { return vorrq_s64(x, y); }
static inline pl pl_xor(pl x, pl y) { return veorq_s64(x, y); }
static inline pl pl_andnot(pl x, pl y) { return vbicq_s64(y, x); }
static inline pl pl_shl(pl x, int n) { return vshlq_s64(x, vdupq_n_s64(n)); }
static inline pl pl_shr(pl x, int n)
{
    return vreinterpretq_s64_u64(vshlq_u64(vreinterpretq_u64_s64(x), vdupq_n_s64(-n)));
}
static inline pl pl_select(pq m, pl a, pl b) { return vbslq_s64(m, a, b); }
static inline pq pl_eq(pl x, pl y) { return vceqq_s64(x, y); }

static inline pq pq_and(pq x, pq y) { return vandq_u64(x, y); }
static inline pq pq_or(pq x, pq y) { return vorrq_u64(x, y); }
static inline pq pq_xor(pq x, pq y) { return veorq_u64(x, y); }
static inline uint32_t pq_bits(pq x)
{
    return (uint32_t)((vgetq_lane_u64(x, 0) & 1) | (vgetq_lane_u64(x, 1) & 2));
}

static inline pd pf_low_pd(pf x) { return vcvt_f64_f32(vget_low_f32(x)); }
static inline pd pf_high_pd(pf x) { return vcvt_high_f64_f32(x); }
static inline pf pd_pair_pf(pd low, pd high) { return vcvt_high_f32_f64(vcvt_f32_f64(low), high); }
static inline pq pm_low_pq(pm x) { return vreinterpretq_u64_u32(vzip1q_u32(x, x)); }
static inline pq pm_high_pq(pm x) { return vreinterpretq_u64_u32(vzip2q_u32(x, x)); }
static inline pm pq_pair_pm(pq low, pq high)
{
    return vuzp1q_u32(vreinterpretq_u32_u64(low), vreinterpretq_u32_u64(high));
}

static inline float v_tree_add(pf a, pf b, pf c, pf d)
{
    const pf q = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
    const float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
static inline double vd_tree_add(pd a, pd b, pd c, pd d)
{
    const pd q = vaddq_f64(vaddq_f64(a, c), vaddq_f64(b, d));
    return vgetq_lane_f64(q, 0) + vgetq_lane_f64(q, 1);
}

static inline __attribute__((always_inline)) void pf_transpose(pf *rows)
{
    const float32x4x2_t x = vtrnq_f32(rows[0], rows[1]), y = vtrnq_f32(rows[2], rows[3]);
    rows[0] = vcombine_f32(vget_low_f32(x.val[0]), vget_low_f32(y.val[0]));
    rows[1] = vcombine_f32(vget_low_f32(x.val[1]), vget_low_f32(y.val[1]));
    rows[2] = vcombine_f32(vget_high_f32(x.val[0]), vget_high_f32(y.val[0]));
    rows[3] = vcombine_f32(vget_high_f32(x.val[1]), vget_high_f32(y.val[1]));
}

// Pairs taken apart and put together: even and odd lanes of x followed by y; lanes of x and y in turn, first and second half.
static inline pf pf_even(pf x, pf y) { return vuzp1q_f32(x, y); }
static inline pf pf_odd(pf x, pf y) { return vuzp2q_f32(x, y); }
static inline pf pf_zip_low(pf x, pf y) { return vzip1q_f32(x, y); }
static inline pf pf_zip_high(pf x, pf y) { return vzip2q_f32(x, y); }
static inline pd pd_even(pd x, pd y) { return vuzp1q_f64(x, y); }
static inline pd pd_odd(pd x, pd y) { return vuzp2q_f64(x, y); }
static inline pd pd_zip_low(pd x, pd y) { return vzip1q_f64(x, y); }
static inline pd pd_zip_high(pd x, pd y) { return vzip2q_f64(x, y); }
