// Loops of + - * / and the integer quotients and rests.
#include "ops/elementwise/loops_simd.h"

#include "ops/elementwise/complex_math.h"

// ---------------------------------------------------------------------------------------------------------- add, sub
static inline int64_t i_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static inline int64_t i_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static inline int64_t i_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static inline uint64_t u_add(uint64_t x, uint64_t y) { return x + y; }
static inline uint64_t u_sub(uint64_t x, uint64_t y) { return x - y; }
static inline uint64_t u_mul(uint64_t x, uint64_t y) { return x * y; }
static inline double d_add(double x, double y) { return x + y; }
static inline double d_sub(double x, double y) { return x - y; }
static inline double d_mul(double x, double y) { return x * y; }
static inline double d_div(double x, double y) { return x / y; }
static inline vf32 f_add_scaled(vf32 x, vf32 y, ew_k32 k) { return v_fma(y, k.a, x); }
static inline vf32 f_sub_scaled(vf32 x, vf32 y, ew_k32 k) { return v_fnma(y, k.a, x); }
static inline double d_add_scaled(double x, double y, ew_k64 k) { return x + k.a * y; }
static inline double d_sub_scaled(double x, double y, ew_k64 k) { return x - k.a * y; }
static inline uint8_t b_or(uint8_t x, uint8_t y) { return x | y; }
static inline uint8_t b_and(uint8_t x, uint8_t y) { return x & y; }
// Complex sums take the product with alpha even where that is 1, as ATen does: an infinite part makes the other one NaN.
static inline ew_c128 c128_add_scaled(ew_c128 x, ew_c128 y, ew_k64 k) { return complex_add(x, complex_mul(complex_make(k.a, k.b), y)); }
static inline ew_c128 c128_sub_scaled(ew_c128 x, ew_c128 y, ew_k64 k) { return complex_add(x, complex_mul(complex_make(-k.a, -k.b), y)); }

// float16 and bfloat16: alpha and the product are rounded, too.
EW_INLINE void scaled_halves(const ew_run *r, double alpha, nbx_dtype compute) {
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0];
    const vf32 scale = ew_round(v_set1((float)alpha), compute);
    for (int64_t i = 0; i < r->count; i += 16) {
        const int n = r->count - i < 16 ? (int)(r->count - i) : 16;
        v_store_n(z + i, v_add(v_load_n(x + i, n), ew_round(v_mul(scale, v_load_n(y + i, n)), compute)), n);
    }
}
static void scaled(const ew_run *r, double alpha) {
    if (r->compute == NBX_BFLOAT16) scaled_halves(r, alpha, NBX_BFLOAT16);
    else scaled_halves(r, alpha, NBX_FLOAT16);
}
static inline bool is_half(const ew_run *r) { return r->compute == NBX_BFLOAT16 || r->compute == NBX_FLOAT16; }
static inline bool unscaled(const ew_run *r) { return r->params->f[0] == 1 && r->params->f[1] == 0; }

static void add_f32(const ew_run *r) {
    if (unscaled(r)) ew_map2(r, v_add);
    else if (is_half(r)) scaled(r, r->params->f[0]);
    else ew_map2k(r, f_add_scaled);
}
static void sub_f32(const ew_run *r) {
    if (unscaled(r)) ew_map2(r, v_sub);
    else if (is_half(r)) scaled(r, -r->params->f[0]);
    else ew_map2k(r, f_sub_scaled);
}
EW_INLINE void scaled_sum_halves(const ew_run *r, double alpha) {
    const vf32 scale = ew_round(v_set1((float)alpha), r->compute);
    if (r->compute == NBX_BFLOAT16) ew_halves2_of(r, v_add, &scale, NBX_BFLOAT16);
    else ew_halves2_of(r, v_add, &scale, NBX_FLOAT16);
}
static void add_halves(const ew_run *r) {
    if (unscaled(r)) ew_halves2(r, v_add);
    else scaled_sum_halves(r, r->params->f[0]);
}
static void sub_halves(const ew_run *r) {
    if (unscaled(r)) ew_halves2(r, v_sub);
    else scaled_sum_halves(r, -r->params->f[0]);
}
static void add_f64(const ew_run *r) {
    if (unscaled(r)) ew_apply2_f64(r, d_add);
    else ew_apply2k_f64(r, d_add_scaled);
}
static void sub_f64(const ew_run *r) {
    if (unscaled(r)) ew_apply2_f64(r, d_sub);
    else ew_apply2k_f64(r, d_sub_scaled);
}
// Sixteen numbers at a time: products and sums are rounded as in the plain functions above. `scale`: the product of it with y is
// added to x; else x times y.
EW_INLINE void pairs(const ew_run *r, bool scaled_sum, float scale_re, float scale_im) {
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0], tail[2][32] = {{0}};
    for (int64_t i = 0; i < r->count; i += 16) {
        const size_t left = r->count - i < 16 ? 8 * (size_t)(r->count - i) : 0;
        vf32 a, b, c, d;
        if (left) memcpy(tail[0], x + 2 * i, left), memcpy(tail[1], y + 2 * i, left);
        v_load_pairs(left ? tail[0] : x + 2 * i, &a, &b);
        v_load_pairs(left ? tail[1] : y + 2 * i, &c, &d);
        const vf32 e = scaled_sum ? v_set1(scale_re) : a, f = scaled_sum ? v_set1(scale_im) : b;
        const vf32 re = v_sub(v_mul(e, c), v_mul(f, d)), im = v_add(v_mul(e, d), v_mul(f, c));
        v_store_pairs(left ? tail[0] : z + 2 * i, scaled_sum ? v_add(a, re) : re, scaled_sum ? v_add(b, im) : im);
        if (left) memcpy(z + 2 * i, tail[0], left);
    }
}
static void add_c64(const ew_run *r) { pairs(r, true, (float)r->params->f[0], (float)r->params->f[1]); }
static void sub_c64(const ew_run *r) { pairs(r, true, -(float)r->params->f[0], -(float)r->params->f[1]); }
EW_LOOP(add_c128, ew_apply2k_c128, c128_add_scaled)
EW_LOOP(sub_c128, ew_apply2k_c128, c128_sub_scaled)
// x + alpha y in the memory's own width: products and sums modulo 2^n.
static void scaled_ints(const ew_run *r, int64_t alpha) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *y = r->in[1];                                                                              \
    T *z = r->out[0];                                                                                                  \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = (T)i_add((int64_t)x[i], i_mul(alpha, (int64_t)y[i]));
    EW_EACH_INT(i_add, u_add)
#undef EW_INT_LOOP
}
static void add_ints(const ew_run *r) {
    if (r->params->i[0] == 1) ew_ints2(r, i_add, u_add);
    else scaled_ints(r, r->params->i[0]);
}
static void sub_ints(const ew_run *r) {
    if (r->params->i[0] == 1) ew_ints2(r, i_sub, u_sub);
    else scaled_ints(r, i_sub(0, r->params->i[0]));
}
static inline uint8_t b_first(uint8_t x, uint8_t y) { return (void)y, x; }
static void add_bool(const ew_run *r) {
    if (r->params->f[0] != 0) ew_apply2_bool(r, b_or);
    else ew_apply2_bool(r, b_first);
}
EW_KERNEL(ew_add, .f32 = add_f32, .halves = add_halves, .f64 = add_f64, .ints = add_ints, .boolean = add_bool, .c64 = add_c64, .c128 = add_c128)
EW_KERNEL(ew_sub, .f32 = sub_f32, .halves = sub_halves, .f64 = sub_f64, .ints = sub_ints, .c64 = sub_c64, .c128 = sub_c128)

// ---------------------------------------------------------------------------------------------------------- mul, div
EW_LOOP(mul_f32, ew_map2, v_mul)
EW_LOOP(mul_halves, ew_halves2, v_mul)
EW_LOOP(mul_f64, ew_apply2_f64, d_mul)
EW_LOOP(mul_ints, ew_ints2, i_mul, u_mul)
EW_LOOP(mul_bool, ew_apply2_bool, b_and)
static void mul_c64(const ew_run *r) { pairs(r, false, 0, 0); }
EW_LOOP(mul_c128, ew_apply2_c128, complex_mul)
EW_KERNEL(ew_mul, .f32 = mul_f32, .halves = mul_halves, .f64 = mul_f64, .ints = mul_ints, .boolean = mul_bool, .c64 = mul_c64, .c128 = mul_c128)

EW_LOOP(div_f32, ew_map2, v_div)
EW_LOOP(div_halves, ew_halves2, v_div)
EW_LOOP(div_f64, ew_apply2_f64, d_div)
EW_LOOP(div_c64, ew_apply2_c64, complex_divf)
EW_LOOP(div_c128, ew_apply2_c128, complex_div)
EW_KERNEL(ew_div, .f32 = div_f32, .halves = div_halves, .f64 = div_f64, .c64 = div_c64, .c128 = div_c128)

// ---------------------------------------------------------------------------------------------------- rounded quotients
static inline vf32 f_div_trunc(vf32 x, vf32 y) { return v_trunc(v_div(x, y)); }
static inline vf32 bf16_div_trunc(vf32 x, vf32 y) { return v_trunc(v_round_bf16(v_div(x, y))); }
static inline vf32 f16_div_trunc(vf32 x, vf32 y) { return v_trunc(v_round_f16(v_div(x, y))); }
static inline double d_div_trunc(double x, double y) { return trunc(x / y); }

// Python's floor division: from the exact rest, so that it agrees with remainder.
static inline double d_div_floor(double a, double b) {
    if (b == 0) return a / b;
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0.0, a / b);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}
// The rest with the sign of x, exact: in double, where the quotient has less than 52 bits; else, and for what is not finite, the
// C library's. A quotient that rounding lifted over an integer leaves a rest below 0, one that it kept under leaves y.
EW_INLINE vf64 rest_short(vf64 x, vf64 y, vm64 *usual) {
    const vf64 a = vd_abs(x), b = vd_abs(y), quotient = vd_div(a, b);
    *usual = vd_lt(quotient, vd_set1(0x1p52));
    vf64 r = vd_fnma(vd_trunc(quotient), b, a);
    r = vd_select(vd_lt(r, vd_zero()), vd_add(r, b), r);
    r = vd_select(vd_ge(r, b), vd_sub(r, b), r);
    return vd_copysign(r, x);
}
EW_INLINE vf32 v_rest(vf32 x, vf32 y) {
    vm64 low, high;
    const vf64 a = rest_short(v_low_f64(x), v_low_f64(y), &low), b = rest_short(v_high_f64(x), v_high_f64(y), &high);
    const vm32 usual = vm_and(vm_join(low, high), v_lt(v_abs(y), v_set1(INFINITY)));
    if (vm_all(usual)) return v_from_f64(a, b);
    float lanes_x[16], lanes_y[16];
    v_store(lanes_x, x), v_store(lanes_y, y);
    for (int i = 0; i < 16; i++) lanes_x[i] = fmodf(lanes_x[i], lanes_y[i]);
    return v_load(lanes_x);
}
// Lanes where there is a rest whose sign is not the divisor's.
EW_INLINE vm32 v_crosses(vf32 rest, vf32 y) { return vm_and(v_ne(rest, v_zero()), vm_xor(v_lt(y, v_zero()), v_lt(rest, v_zero()))); }
static inline vf32 v_remainder(vf32 x, vf32 y) {
    const vf32 rest = v_rest(x, y);
    return v_select(v_crosses(rest, y), v_add(rest, y), rest);
}
static inline vf32 v_div_floor(vf32 x, vf32 y) {
    const vf32 rest = v_rest(x, y), one = v_set1(1.0f), zero = v_zero(), plain = v_div(x, y);
    vf32 quotient = v_div(v_sub(x, rest), y);
    quotient = v_select(v_crosses(rest, y), v_sub(quotient, one), quotient);
    const vf32 whole = v_floor(quotient), nearest = v_select(v_gt(v_sub(quotient, whole), v_set1(0.5f)), v_add(whole, one), whole);
    return v_select(v_eq(y, zero), plain, v_select(v_eq(quotient, zero), v_copysign(zero, plain), nearest));
}

static inline int64_t i_div_trunc(int64_t a, int64_t b) { return b == -1 ? i_sub(0, a) : a / b; }
static inline int64_t i_rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static inline int64_t i_div_floor(int64_t a, int64_t b) {
    const int64_t q = i_div_trunc(a, b);
    return i_rest(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static inline int64_t i_remainder(int64_t a, int64_t b) {
    const int64_t r = i_rest(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Divisors of 0 are a fault; the result there is 0.
EW_INLINE void divide_i64(const ew_run *r, int64_t (*f)(int64_t, int64_t)) {
    const int64_t *x = r->in[0], *y = r->in[1];
    int64_t *z = r->out[0];
    bool zero = false;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t b = y[i];
        zero |= b == 0;
        z[i] = b ? f(x[i], b) : 0;
    }
    if (zero) __atomic_store_n(r->fault, EW_FAULT_ZERO_DIVISION, __ATOMIC_RELAXED);
}

static void div_mode_f32(const ew_run *r) {
    if (r->params->i[0] == 0) ew_map2(r, v_div);
    else if (r->params->i[0] == 2) ew_map2(r, v_div_floor);
    else if (r->compute == NBX_BFLOAT16) ew_map2(r, bf16_div_trunc);
    else if (r->compute == NBX_FLOAT16) ew_map2(r, f16_div_trunc);
    else ew_map2(r, f_div_trunc);
}
static void div_mode_f64(const ew_run *r) {
    if (r->params->i[0] == 0) ew_apply2_f64(r, d_div);
    else if (r->params->i[0] == 1) ew_apply2_f64(r, d_div_trunc);
    else ew_apply2_f64(r, d_div_floor);
}
static void div_mode_i64(const ew_run *r) {
    if (r->params->i[0] == 1) divide_i64(r, i_div_trunc);
    else divide_i64(r, i_div_floor);
}
EW_KERNEL(ew_div_mode, .f32 = div_mode_f32, .f64 = div_mode_f64, .i64 = div_mode_i64, .c64 = div_c64, .c128 = div_c128)

// --------------------------------------------------------------------------------------------------------------- rests
static inline double d_remainder(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
EW_LOOP(remainder_f32, ew_map2, v_remainder)
EW_LOOP(remainder_f64, ew_apply2_f64, d_remainder)
EW_LOOP(remainder_i64, divide_i64, i_remainder)
EW_KERNEL(ew_remainder, .f32 = remainder_f32, .f64 = remainder_f64, .i64 = remainder_i64)

EW_LOOP(fmod_f32, ew_map2, v_rest)
EW_LOOP(fmod_f64, ew_apply2_f64, fmod)
EW_LOOP(fmod_i64, divide_i64, i_rest)
EW_KERNEL(ew_fmod, .f32 = fmod_f32, .f64 = fmod_f64, .i64 = fmod_i64)
