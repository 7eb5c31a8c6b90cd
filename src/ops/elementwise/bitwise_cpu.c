// Loops of bitwise operators and shifts.
#include "ops/elementwise/loops_simd.h"

static inline int64_t i_and(int64_t x, int64_t y) { return x & y; }
static inline int64_t i_or(int64_t x, int64_t y) { return x | y; }
static inline int64_t i_xor(int64_t x, int64_t y) { return x ^ y; }
static inline int64_t i_not(int64_t x) { return ~x; }
static inline uint64_t u_and(uint64_t x, uint64_t y) { return x & y; }
static inline uint64_t u_or(uint64_t x, uint64_t y) { return x | y; }
static inline uint64_t u_xor(uint64_t x, uint64_t y) { return x ^ y; }
static inline uint64_t u_not(uint64_t x) { return ~x; }
static inline uint8_t b_not(uint8_t x) { return x ^ 1; }
EW_LOOP(and_ints, ew_ints2, i_and, u_and)
EW_LOOP(or_ints, ew_ints2, i_or, u_or)
EW_LOOP(xor_ints, ew_ints2, i_xor, u_xor)
EW_LOOP(not_ints, ew_ints1, i_not, u_not)
EW_LOOP(not_bool, ew_apply1_bool, b_not)
EW_KERNEL(ew_bitwise_and, .ints = and_ints)
EW_KERNEL(ew_bitwise_or, .ints = or_ints)
EW_KERNEL(ew_bitwise_xor, .ints = xor_ints)
EW_KERNEL(ew_bitwise_not, .ints = not_ints, .boolean = not_bool)

// Shifts by less than 0 or by all bits and more: 0 to the left, the sign (unsigned: 0) to the right.
static void left_shift_ints(const ew_run *r) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *s = r->in[1];                                                                              \
    T *z = r->out[0];                                                                                                  \
    const int bits = (int)sizeof(T) * 8;                                                                               \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                   \
        const bool inside = G((int64_t)s[i], bits);                                                                    \
        z[i] = (T)(inside ? (uint64_t)x[i] << (inside ? (int)s[i] : 0) : 0);                                           \
    }
#define INSIDE(S, BITS) ((S) >= 0 && (S) < (BITS))
    EW_EACH_INT(INSIDE, INSIDE)
#undef EW_INT_LOOP
}
static void right_shift_ints(const ew_run *r) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *s = r->in[1];                                                                              \
    T *z = r->out[0];                                                                                                  \
    const int bits = (int)sizeof(T) * 8;                                                                               \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                   \
        const bool inside = G((int64_t)s[i], bits);                                                                    \
        z[i] = (T)(inside ? x[i] >> (inside ? (int)s[i] : 0) : x[i] < (T)1 && x[i] != 0 ? (T)-1 : (T)0);               \
    }
    EW_EACH_INT(INSIDE, INSIDE)
#undef EW_INT_LOOP
}
EW_KERNEL(ew_left_shift, .ints = left_shift_ints)
EW_KERNEL(ew_right_shift, .ints = right_shift_ints)

static inline uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }
// In the width of the dtype, as ATen: the smallest number is its own magnitude.
static inline int64_t narrowed(int64_t x, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_INT8: return (int8_t)x;
    case NBX_UINT8: return (uint8_t)x;
    case NBX_INT16: return (int16_t)x;
    case NBX_INT32: return (int32_t)x;
    default: return x;
    }
}
static inline int64_t size_in(int64_t x, nbx_dtype dtype) { return narrowed((int64_t)magnitude(x), dtype); }
static inline int64_t gcd_in(int64_t x, int64_t y, nbx_dtype dtype) {
    int64_t a = size_in(x, dtype), b = size_in(y, dtype);
    while (a != 0) {
        const int64_t rest = a == -1 ? 0 : b % a;
        b = a;
        a = rest;
    }
    return b;
}
static inline int64_t lcm_in(int64_t x, int64_t y, nbx_dtype dtype) {
    const int64_t g = gcd_in(x, y, dtype);
    if (g == 0) return 0;
    const uint64_t part = g == -1 ? 0 - (uint64_t)x : (uint64_t)(x / g);
    const nbx_dtype width = dtype == NBX_INT64 ? NBX_INT64 : NBX_INT32;  // C's promotion of the product
    return narrowed(size_in(narrowed((int64_t)(part * (uint64_t)y), width), width), dtype);
}
EW_INLINE void each_in(const ew_run *r, int64_t (*f)(int64_t, int64_t, nbx_dtype)) {
    const int64_t *x = r->in[0], *y = r->in[1];
    int64_t *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) z[i] = f(x[i], y[i], r->compute);
}
EW_LOOP(gcd_i64, each_in, gcd_in)
EW_LOOP(lcm_i64, each_in, lcm_in)
EW_KERNEL(ew_gcd, .i64 = gcd_i64)
EW_KERNEL(ew_lcm, .i64 = lcm_i64)
