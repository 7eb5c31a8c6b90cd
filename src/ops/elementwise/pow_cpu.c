// Loops of powers.
#include "ops/elementwise/loops_simd.h"

#include "ops/elementwise/complex_math.h"

// Modulo 2^64, which is right in every narrower width, too. Negative exponents leave 1, -1 and 0.
static inline uint64_t u_pow(uint64_t x, uint64_t e) {
    uint64_t r = 1;
    for (; e; e >>= 1) {
        if (e & 1) r *= x;
        x *= x;
    }
    return r;
}
static inline int64_t i_pow(int64_t x, int64_t e) {
    if (e < 0) return x == 1 ? 1 : x == -1 ? (e & 1 ? -1 : 1) : 0;
    return (int64_t)u_pow((uint64_t)x, (uint64_t)e);
}
static inline ew_c128 z_pow(ew_c128 x, ew_c128 e) {
    if (e == 0 && x != 0 && isfinite(__real__ x) && isfinite(__imag__ x)) return complex_make(1, 0);
    if (x == 0 && !(__real__ e > 0)) return complex_make((double)NAN, (double)NAN);
    return x == 0 ? complex_make(0, 0) : cpow(x, e);
}
// In float, as ATen: a power by double would differ from ATen's by more than its error.
static inline ew_c64 zf_pow(ew_c64 x, ew_c64 e) {
    if (e == 0 && x != 0 && isfinite(__real__ x) && isfinite(__imag__ x)) return complex_makef(1, 0);
    if (x == 0 && !(__real__ e > 0)) return complex_makef(NAN, NAN);
    return x == 0 ? complex_makef(0, 0) : cpowf(x, e);
}
EW_LOOP(pow_c64, ew_apply2_c64, zf_pow)
EW_LOOP(pow_f32, ew_map2, v_pow)
EW_LOOP(pow_f64, ew_dmap2, vd_pow)
EW_LOOP(pow_i64, ew_apply2_i64, i_pow)
EW_LOOP(pow_c128, ew_apply2_c128, z_pow)
EW_KERNEL(ew_pow, .f32 = pow_f32, .f64 = pow_f64, .i64 = pow_i64, .c64 = pow_c64, .c128 = pow_c128)

// ------------------------------------------------------------------------------------------------ quick exponents, in order
static inline vf32 f_one(vf32 x) { return (void)x, v_set1(1.0f); }
static inline vf32 f_same(vf32 x) { return x; }
static inline vf32 f_square(vf32 x) { return v_mul(x, x); }
static inline vf32 f_cube(vf32 x) { return v_mul(v_mul(x, x), x); }
static inline vf32 f_inverse(vf32 x) { return v_div(v_set1(1.0f), x); }
static inline vf32 f_inverse_square(vf32 x) { return v_div(v_set1(1.0f), v_mul(x, x)); }
static inline double d_one(double x) { return (void)x, 1; }
static inline double d_same(double x) { return x; }
static inline double d_square(double x) { return x * x; }
static inline double d_cube(double x) { return x * x * x; }
static inline double d_inverse(double x) { return 1 / x; }
static inline double d_inverse_square(double x) { return 1 / (x * x); }
static inline double d_inverse_sqrt(double x) { return 1 / sqrt(x); }
static inline int64_t i_one(int64_t x) { return (void)x, 1; }
static inline int64_t i_same(int64_t x) { return x; }
static inline int64_t i_square(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
static inline int64_t i_cube(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x * (uint64_t)x); }
static inline uint64_t u_one(uint64_t x) { return (void)x, 1; }
static inline uint64_t u_same(uint64_t x) { return x; }
static inline uint64_t u_square(uint64_t x) { return x * x; }
static inline uint64_t u_cube(uint64_t x) { return x * x * x; }

static void pow_number_f32(const ew_run *r) {
    switch (r->params->i[0]) {
    case 1: ew_map1(r, f_one); break;
    case 2: ew_map1(r, f_same); break;
    case 3: ew_map1(r, f_square); break;
    case 4: ew_map1(r, f_cube); break;
    case 5: ew_map1(r, v_sqrt); break;
    case 6: ew_map1(r, v_rsqrt); break;
    case 7: ew_map1(r, f_inverse); break;
    case 8: ew_map1(r, f_inverse_square); break;
    default: ew_map2(r, v_pow); break;
    }
}
static void pow_number_f64(const ew_run *r) {
    switch (r->params->i[0]) {
    case 1: ew_apply1_f64(r, d_one); break;
    case 2: ew_apply1_f64(r, d_same); break;
    case 3: ew_apply1_f64(r, d_square); break;
    case 4: ew_apply1_f64(r, d_cube); break;
    case 5: ew_apply1_f64(r, sqrt); break;
    case 6: ew_apply1_f64(r, d_inverse_sqrt); break;
    case 7: ew_apply1_f64(r, d_inverse); break;
    case 8: ew_apply1_f64(r, d_inverse_square); break;
    default: ew_dmap2(r, vd_pow); break;
    }
}
static void pow_number_ints(const ew_run *r) {
    switch (r->params->i[0]) {
    case 1: ew_ints1(r, i_one, u_one); break;
    case 2: ew_ints1(r, i_same, u_same); break;
    case 3: ew_ints1(r, i_square, u_square); break;
    case 4: ew_ints1(r, i_cube, u_cube); break;
    default: ew_ints2(r, i_pow, u_pow); break;
    }
}
static inline ew_c128 z_one(ew_c128 x) { return (void)x, complex_make(1, 0); }
static inline ew_c128 z_same(ew_c128 x) { return x; }
static inline ew_c128 z_square(ew_c128 x) { return complex_mul(x, x); }
static inline ew_c128 z_cube(ew_c128 x) { return complex_mul(complex_mul(x, x), x); }
static inline ew_c128 z_inverse(ew_c128 x) { return complex_div(complex_make(1, 0), x); }
static inline ew_c128 z_inverse_square(ew_c128 x) { return complex_div(complex_make(1, 0), complex_mul(x, x)); }
static inline ew_c128 z_inverse_sqrt(ew_c128 x) { return complex_div(complex_make(1, 0), csqrt(x)); }
static void pow_number_c128(const ew_run *r) {
    switch (r->params->i[0]) {
    case 1: ew_apply1_c128(r, z_one); break;
    case 2: ew_apply1_c128(r, z_same); break;
    case 3: ew_apply1_c128(r, z_square); break;
    case 4: ew_apply1_c128(r, z_cube); break;
    case 5: ew_apply1_c128(r, csqrt); break;
    case 6: ew_apply1_c128(r, z_inverse_sqrt); break;
    case 7: ew_apply1_c128(r, z_inverse); break;
    case 8: ew_apply1_c128(r, z_inverse_square); break;
    default: ew_apply2_c128(r, z_pow); break;
    }
}
static inline ew_c64 zf_one(ew_c64 x) { return (void)x, complex_makef(1, 0); }
static inline ew_c64 zf_same(ew_c64 x) { return x; }
static inline ew_c64 zf_square(ew_c64 x) { return complex_mulf(x, x); }
static void pow_number_c64(const ew_run *r) {
    switch (r->params->i[0]) {
    case 1: ew_apply1_c64(r, zf_one); break;
    case 2: ew_apply1_c64(r, zf_same); break;
    case 3: ew_apply1_c64(r, zf_square); break;
    default: ew_apply2_c64(r, zf_pow); break;
    }
}
EW_KERNEL(ew_pow_number, .f32 = pow_number_f32, .f64 = pow_number_f64, .ints = pow_number_ints, .c64 = pow_number_c64,
          .c128 = pow_number_c128)

// ------------------------------------------------------------------------------------------------- a number to the power x
static void base_f32(const ew_run *r) {
    if (r->params->i[0]) ew_map1(r, f_one);
    else ew_map2(r, v_pow);
}
static void base_f64(const ew_run *r) {
    if (r->params->i[0]) ew_apply1_f64(r, d_one);
    else ew_dmap2(r, vd_pow);
}
static void base_ints(const ew_run *r) {
    if (r->params->i[0]) ew_ints1(r, i_one, u_one);
    else ew_ints2(r, i_pow, u_pow);
}
static void base_c128(const ew_run *r) {
    if (r->params->i[0]) ew_apply1_c128(r, z_one);
    else ew_apply2_c128(r, z_pow);
}
static void base_c64(const ew_run *r) {
    if (r->params->i[0]) ew_apply1_c64(r, zf_one);
    else ew_apply2_c64(r, zf_pow);
}
EW_KERNEL(ew_pow_of_one, .c64 = base_c64, .f32 = base_f32, .f64 = base_f64, .ints = base_ints, .c128 = base_c128)
