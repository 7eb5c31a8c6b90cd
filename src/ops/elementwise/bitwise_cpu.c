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
        z[i] = inside ? (T)((uint64_t)x[i] << (inside ? (int)s[i] : 0)) : (T)0;                                        \
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
        z[i] = inside ? (T)(x[i] >> (inside ? (int)s[i] : 0)) : (T)(x[i] < (T)1 && x[i] != 0 ? -1 : 0);                \
    }
    EW_EACH_INT(INSIDE, INSIDE)
#undef EW_INT_LOOP
}
EW_KERNEL(ew_left_shift, .ints = left_shift_ints)
EW_KERNEL(ew_right_shift, .ints = right_shift_ints)

static inline uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }
static inline uint64_t u_gcd(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
static inline int64_t i_gcd(int64_t a, int64_t b) { return (int64_t)u_gcd(magnitude(a), magnitude(b)); }
static inline int64_t i_lcm(int64_t a, int64_t b) {
    const uint64_t g = u_gcd(magnitude(a), magnitude(b));
    return g ? (int64_t)magnitude((int64_t)(magnitude(a) / g * magnitude(b))) : 0;
}
EW_LOOP(gcd_i64, ew_apply2_i64, i_gcd)
EW_LOOP(lcm_i64, ew_apply2_i64, i_lcm)
EW_KERNEL(ew_gcd, .i64 = gcd_i64)
EW_KERNEL(ew_lcm, .i64 = lcm_i64)
