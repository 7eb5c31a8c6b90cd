// Vectors of the same width on every instruction set: 16 float, 16 int32, 8 double, 8 int64 (one cache line each).
//
// A vector is a struct of named native registers: 1 on AVX-512, 2 on AVX2, 4 on SSE2 and NEON. (Named, because an array of
// registers goes through memory: 1.13 against 0.26 ns per element with GCC 12 on AVX2.) Lane numbers, the order of sums
// and fused multiply-adds are the same everywhere, so a kernel written with these functions returns the same bits on
// every instruction set, except for which NaN it returns. Only files compiled once per instruction set include this; all
// functions are static inline, so that no AVX-512 copy can be linked into baseline code.
//
//   vf32 v_   16 float       vi32 vi_  16 int32      vm32 vm_  16 truth values
//   vf64 vd_   8 double      vi64 vl_   8 int64      vm64 vq_   8 truth values
//
// Part files (simd_avx512.h ...) define the native functions pf_, pi_, pd_, pl_, pm_, pq_, that nobody else calls.
#ifndef NBX_CPU_SIMD_H
#define NBX_CPU_SIMD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cpu/isa.h"

#ifndef NBX_ISA_LEVEL
#error "cpu/simd.h is for files that are compiled once per instruction set (*_cpu.c)"
#endif

#if defined(NBX_SIMD_PLAIN)
#include "cpu/simd_plain.h"
#elif defined(__x86_64__) && NBX_ISA_LEVEL == 2
#include "cpu/simd_avx512.h"
#elif defined(__x86_64__) && NBX_ISA_LEVEL == 1
#include "cpu/simd_avx2.h"
#elif defined(__x86_64__)
#include "cpu/simd_sse2.h"
#elif defined(__aarch64__)
#include "cpu/simd_neon.h"
#else
#include "cpu/simd_plain.h"
#endif

// For functions that take or return vectors: left out of line, they would pass them through memory (3x on AVX2, GCC 12).
#define SIMD_INLINE static inline __attribute__((always_inline))

#define VF32_LANES 16
#define VF64_LANES 8

#define EACH_LANES_F NBX_SIMD_PART_LANES
#define EACH_LANES_D (NBX_SIMD_PART_LANES / 2)

// How a function of parts becomes a function of vectors.
#if NBX_SIMD_PARTS == 1
#define PARTS(T) T a
#define EACH0(f, k) {f(k)}
#define EACH1(f, x) {f((x).a)}
#define EACH1K(f, x, k) {f((x).a, k)}
#define EACH2(f, x, y) {f((x).a, (y).a)}
#define EACH3(f, x, y, z) {f((x).a, (y).a, (z).a)}
#define EACHP(f, p, step) {f(p)}
#define EACH_STORE(f, p, x, step) f(p, (x).a)
#define TREE(f, x) f((x).a)
#define EACHG(f, p, x) {f(p, (x).a)}
#define BITS(f, x, step) f((x).a)
#define LOW_OF(low, high, x) {low((x).a)}
#define HIGH_OF(low, high, x) {high((x).a)}
#define JOIN_OF(pair, x, y) {pair((x).a, (y).a)}
#define ZIP_FIRST(low, high, x, y) {low((x).a, (y).a)}
#define ZIP_SECOND(low, high, x, y) {high((x).a, (y).a)}
#define EACH_FIRST(f, p, n, step) {f(p, n)}
#define EACH_STORE_FIRST(f, p, x, n, step) f(p, (x).a, n)
#define EACHPM(f, p, m, step) {f(p, (m).a)}
#elif NBX_SIMD_PARTS == 2
#define PARTS(T) T a, b
#define EACH0(f, k) {f(k), f(k)}
#define EACH1(f, x) {f((x).a), f((x).b)}
#define EACH1K(f, x, k) {f((x).a, k), f((x).b, k)}
#define EACH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b)}
#define EACH3(f, x, y, z) {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b)}
#define EACHP(f, p, step) {f(p), f((p) + (step))}
#define EACH_STORE(f, p, x, step) (f(p, (x).a), f((p) + (step), (x).b))
#define TREE(f, x) f((x).a, (x).b)
#define EACHG(f, p, x) {f(p, (x).a), f(p, (x).b)}
#define BITS(f, x, step) (f((x).a) | f((x).b) << (step))
#define LOW_OF(low, high, x) {low((x).a), high((x).a)}
#define HIGH_OF(low, high, x) {low((x).b), high((x).b)}
#define JOIN_OF(pair, x, y) {pair((x).a, (x).b), pair((y).a, (y).b)}
#define ZIP_FIRST(low, high, x, y) {low((x).a, (y).a), high((x).a, (y).a)}
#define ZIP_SECOND(low, high, x, y) {low((x).b, (y).b), high((x).b, (y).b)}
#define EACH_FIRST(f, p, n, step) {f(p, part_of(n, 0, step)), f((p) + (step), part_of(n, step, step))}
#define EACH_STORE_FIRST(f, p, x, n, step) \
    (f(p, (x).a, part_of(n, 0, step)), f((p) + (step), (x).b, part_of(n, step, step)))
#define EACHPM(f, p, m, step) {f(p, (m).a), f((p) + (step), (m).b)}
#else
#define PARTS(T) T a, b, c, d
#define EACH0(f, k) {f(k), f(k), f(k), f(k)}
#define EACH1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define EACH1K(f, x, k) {f((x).a, k), f((x).b, k), f((x).c, k), f((x).d, k)}
#define EACH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}
#define EACH3(f, x, y, z) \
    {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c), f((x).d, (y).d, (z).d)}
#define EACHP(f, p, step) {f(p), f((p) + (step)), f((p) + 2 * (step)), f((p) + 3 * (step))}
#define EACH_STORE(f, p, x, step) \
    (f(p, (x).a), f((p) + (step), (x).b), f((p) + 2 * (step), (x).c), f((p) + 3 * (step), (x).d))
#define TREE(f, x) f((x).a, (x).b, (x).c, (x).d)
#define EACHG(f, p, x) {f(p, (x).a), f(p, (x).b), f(p, (x).c), f(p, (x).d)}
#define BITS(f, x, step) (f((x).a) | f((x).b) << (step) | f((x).c) << (2 * (step)) | f((x).d) << (3 * (step)))
#define LOW_OF(low, high, x) {low((x).a), high((x).a), low((x).b), high((x).b)}
#define HIGH_OF(low, high, x) {low((x).c), high((x).c), low((x).d), high((x).d)}
#define JOIN_OF(pair, x, y) {pair((x).a, (x).b), pair((x).c, (x).d), pair((y).a, (y).b), pair((y).c, (y).d)}
#define ZIP_FIRST(low, high, x, y) {low((x).a, (y).a), high((x).a, (y).a), low((x).b, (y).b), high((x).b, (y).b)}
#define ZIP_SECOND(low, high, x, y) {low((x).c, (y).c), high((x).c, (y).c), low((x).d, (y).d), high((x).d, (y).d)}
#define EACH_FIRST(f, p, n, step)                                                   \
    {f(p, part_of(n, 0, step)), f((p) + (step), part_of(n, step, step)),            \
     f((p) + 2 * (step), part_of(n, 2 * (step), step)), f((p) + 3 * (step), part_of(n, 3 * (step), step))}
#define EACH_STORE_FIRST(f, p, x, n, step)                                                       \
    (f(p, (x).a, part_of(n, 0, step)), f((p) + (step), (x).b, part_of(n, step, step)),           \
     f((p) + 2 * (step), (x).c, part_of(n, 2 * (step), step)),                                   \
     f((p) + 3 * (step), (x).d, part_of(n, 3 * (step), step)))
#define EACHPM(f, p, m, step) {f(p, (m).a), f((p) + (step), (m).b), f((p) + 2 * (step), (m).c), f((p) + 3 * (step), (m).d)}
#endif

typedef struct vf32 { PARTS(pf); } vf32;
typedef struct vi32 { PARTS(pi); } vi32;
typedef struct vm32 { PARTS(pm); } vm32;
typedef struct vf64 { PARTS(pd); } vf64;
typedef struct vi64 { PARTS(pl); } vi64;
typedef struct vm64 { PARTS(pq); } vm64;

// How many of the first n lanes lie in the part that starts at lane start.
SIMD_INLINE int part_of(int n, int start, int lanes)
{
    const int left = n - start;
    return left < 0 ? 0 : left > lanes ? lanes : left;
}

// ---- float: 16 lanes ------------------------------------------------------------------------------------------------
// No pointer needs alignment. The _n forms touch only the first n lanes (0 <= n <= 16); loads set the others to zero.
SIMD_INLINE vf32 v_set1(float x) { return (vf32)EACH0(pf_set1, x); }
SIMD_INLINE vf32 v_zero(void) { return v_set1(0.0f); }
SIMD_INLINE vf32 v_load(const float *p) { return (vf32)EACHP(pf_load, p, EACH_LANES_F); }
SIMD_INLINE void v_store(float *p, vf32 x) { EACH_STORE(pf_store, p, x, EACH_LANES_F); }
// Past the caches: the line is not read first. p is 64-byte aligned; v_stream_end before another thread is told.
SIMD_INLINE void v_stream(float *p, vf32 x) { EACH_STORE(pf_stream, p, x, EACH_LANES_F); }
SIMD_INLINE void v_stream_end(void) { stream_end(); }
// Asks for the line at p, which may lie anywhere, while something else is computed.
SIMD_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
// The lanes where m holds; zero in the others, whose memory is not touched.
SIMD_INLINE vf32 v_load_where(const float *p, vm32 m) { return (vf32)EACHPM(pf_load_where, p, m, EACH_LANES_F); }
SIMD_INLINE vf32 v_load_n(const float *p, int n) { return (vf32)EACH_FIRST(pf_load_first, p, n, EACH_LANES_F); }
SIMD_INLINE void v_store_n(float *p, vf32 x, int n) { EACH_STORE_FIRST(pf_store_first, p, x, n, EACH_LANES_F); }

SIMD_INLINE vf32 v_add(vf32 x, vf32 y) { return (vf32)EACH2(pf_add, x, y); }
SIMD_INLINE vf32 v_sub(vf32 x, vf32 y) { return (vf32)EACH2(pf_sub, x, y); }
SIMD_INLINE vf32 v_mul(vf32 x, vf32 y) { return (vf32)EACH2(pf_mul, x, y); }
SIMD_INLINE vf32 v_div(vf32 x, vf32 y) { return (vf32)EACH2(pf_div, x, y); }
// One rounding: a * b + c, c - a * b, a * b - c. Exact on every instruction set (slow on SSE2, see simd_sse2.h).
SIMD_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return (vf32)EACH3(pf_fma, a, b, c); }
SIMD_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return (vf32)EACH3(pf_fnma, a, b, c); }
SIMD_INLINE vf32 v_fms(vf32 a, vf32 b, vf32 c) { return (vf32)EACH3(pf_fms, a, b, c); }
SIMD_INLINE vf32 v_sqrt(vf32 x) { return (vf32)EACH1(pf_sqrt, x); }
// To an integral value. The sign of zero is kept: floor(-0) and ceil(-0.5) are -0. NaN and infinities pass.
SIMD_INLINE vf32 v_floor(vf32 x) { return (vf32)EACH1(pf_floor, x); }
SIMD_INLINE vf32 v_ceil(vf32 x) { return (vf32)EACH1(pf_ceil, x); }
SIMD_INLINE vf32 v_trunc(vf32 x) { return (vf32)EACH1(pf_trunc, x); }
SIMD_INLINE vf32 v_rint(vf32 x) { return (vf32)EACH1(pf_rint, x); } // halves to even

// Comparisons with NaN are false, except v_ne, which is true.
SIMD_INLINE vm32 v_eq(vf32 x, vf32 y) { return (vm32)EACH2(pf_eq, x, y); }
SIMD_INLINE vm32 v_ne(vf32 x, vf32 y) { return (vm32)EACH2(pf_ne, x, y); }
SIMD_INLINE vm32 v_lt(vf32 x, vf32 y) { return (vm32)EACH2(pf_lt, x, y); }
SIMD_INLINE vm32 v_le(vf32 x, vf32 y) { return (vm32)EACH2(pf_le, x, y); }
SIMD_INLINE vm32 v_gt(vf32 x, vf32 y) { return v_lt(y, x); }
SIMD_INLINE vm32 v_ge(vf32 x, vf32 y) { return v_le(y, x); }
SIMD_INLINE vm32 v_isnan(vf32 x) { return (vm32)EACH1(pf_isnan, x); }
// Lanes of a where m is true, else of b.
SIMD_INLINE vf32 v_select(vm32 m, vf32 a, vf32 b) { return (vf32)EACH3(pf_select, m, a, b); }

// x < y ? x : y and x > y ? x : y: the second operand when either is NaN, or both are zeros.
SIMD_INLINE vf32 v_min_fast(vf32 x, vf32 y) { return (vf32)EACH2(pf_min_fast, x, y); }
SIMD_INLINE vf32 v_max_fast(vf32 x, vf32 y) { return (vf32)EACH2(pf_max_fast, x, y); }
// NaN when either is NaN; of two zeros of different sign, the second.
SIMD_INLINE vf32 v_min(vf32 x, vf32 y) { return v_select(v_isnan(x), x, v_min_fast(x, y)); }
SIMD_INLINE vf32 v_max(vf32 x, vf32 y) { return v_select(v_isnan(x), x, v_max_fast(x, y)); }

// ---- int32: 16 lanes, wrapping --------------------------------------------------------------------------------------
SIMD_INLINE vi32 vi_set1(int32_t x) { return (vi32)EACH0(pi_set1, x); }
SIMD_INLINE vi32 vi_load(const int32_t *p) { return (vi32)EACHP(pi_load, p, EACH_LANES_F); }
SIMD_INLINE void vi_store(int32_t *p, vi32 x) { EACH_STORE(pi_store, p, x, EACH_LANES_F); }
SIMD_INLINE vi32 vi_add(vi32 x, vi32 y) { return (vi32)EACH2(pi_add, x, y); }
SIMD_INLINE vi32 vi_sub(vi32 x, vi32 y) { return (vi32)EACH2(pi_sub, x, y); }
SIMD_INLINE vi32 vi_mul(vi32 x, vi32 y) { return (vi32)EACH2(pi_mul, x, y); }
SIMD_INLINE vi32 vi_and(vi32 x, vi32 y) { return (vi32)EACH2(pi_and, x, y); }
SIMD_INLINE vi32 vi_or(vi32 x, vi32 y) { return (vi32)EACH2(pi_or, x, y); }
SIMD_INLINE vi32 vi_xor(vi32 x, vi32 y) { return (vi32)EACH2(pi_xor, x, y); }
SIMD_INLINE vi32 vi_andnot(vi32 x, vi32 y) { return (vi32)EACH2(pi_andnot, x, y); } // ~x & y
// Shifts by 0 <= n < 32; shr fills with zeros, sar with the sign. In the v forms n differs by lane, and n >= 32 gives 0.
SIMD_INLINE vi32 vi_shl(vi32 x, int n) { return (vi32)EACH1K(pi_shl, x, n); }
SIMD_INLINE vi32 vi_shr(vi32 x, int n) { return (vi32)EACH1K(pi_shr, x, n); }
SIMD_INLINE vi32 vi_sar(vi32 x, int n) { return (vi32)EACH1K(pi_sar, x, n); }
SIMD_INLINE vi32 vi_shlv(vi32 x, vi32 n) { return (vi32)EACH2(pi_shlv, x, n); }
SIMD_INLINE vi32 vi_shrv(vi32 x, vi32 n) { return (vi32)EACH2(pi_shrv, x, n); }
SIMD_INLINE vm32 vi_eq(vi32 x, vi32 y) { return (vm32)EACH2(pi_eq, x, y); }
SIMD_INLINE vm32 vi_gt(vi32 x, vi32 y) { return (vm32)EACH2(pi_gt, x, y); }
SIMD_INLINE vm32 vi_lt(vi32 x, vi32 y) { return vi_gt(y, x); }
SIMD_INLINE vi32 vi_select(vm32 m, vi32 a, vi32 b) { return (vi32)EACH3(pi_select, m, a, b); }
SIMD_INLINE vi32 vi_min(vi32 x, vi32 y) { return (vi32)EACH2(pi_min, x, y); }
SIMD_INLINE vi32 vi_max(vi32 x, vi32 y) { return (vi32)EACH2(pi_max, x, y); }
SIMD_INLINE vi32 vi_neg(vi32 x) { return vi_sub(vi_set1(0), x); }
// 0, 1, 2 ... 15
SIMD_INLINE vi32 vi_iota(void)
{
    static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vi_load(lanes);
}
// 16 narrow integers widened; and the low bits of each lane stored.
SIMD_INLINE vi32 vi_load_u8(const uint8_t *p) { return (vi32)EACHP(pi_load_u8, p, EACH_LANES_F); }
SIMD_INLINE vi32 vi_load_i8(const int8_t *p) { return (vi32)EACHP(pi_load_i8, p, EACH_LANES_F); }
SIMD_INLINE vi32 vi_load_u16(const uint16_t *p) { return (vi32)EACHP(pi_load_u16, p, EACH_LANES_F); }
SIMD_INLINE vi32 vi_load_i16(const int16_t *p) { return (vi32)EACHP(pi_load_i16, p, EACH_LANES_F); }
SIMD_INLINE void vi_store_u8(uint8_t *p, vi32 x) { EACH_STORE(pi_store_u8, p, x, EACH_LANES_F); }
SIMD_INLINE void vi_store_u16(uint16_t *p, vi32 x) { EACH_STORE(pi_store_u16, p, x, EACH_LANES_F); }

// The same bits under the other type, and conversions of value.
SIMD_INLINE vi32 v_bits(vf32 x) { return (vi32)EACH1(pf_bits, x); }
SIMD_INLINE vf32 v_from_bits(vi32 x) { return (vf32)EACH1(pi_float_bits, x); }
SIMD_INLINE vf32 v_from_i32(vi32 x) { return (vf32)EACH1(pi_to_pf, x); }
// Toward zero, and to nearest even. NaN and values outside int32 become INT32_MIN.
SIMD_INLINE vi32 v_to_i32(vf32 x) { return (vi32)EACH1(pf_to_pi_trunc, x); }
SIMD_INLINE vi32 v_round_to_i32(vf32 x) { return (vi32)EACH1(pf_to_pi_round, x); }
// base[index[i]] for each lane. All sixteen are read.
SIMD_INLINE vf32 v_gather(const float *base, vi32 index) { return (vf32)EACHG(pf_gather, base, index); }

// Sign-bit operations; they work on NaN too.
SIMD_INLINE vf32 v_abs(vf32 x) { return v_from_bits(vi_and(v_bits(x), vi_set1(0x7fffffff))); }
SIMD_INLINE vf32 v_neg(vf32 x) { return v_from_bits(vi_xor(v_bits(x), vi_set1(INT32_MIN))); }
SIMD_INLINE vi32 v_sign_bit(vf32 x) { return vi_and(v_bits(x), vi_set1(INT32_MIN)); }
SIMD_INLINE vf32 v_flip_sign(vf32 x, vi32 sign_bit) { return v_from_bits(vi_xor(v_bits(x), sign_bit)); }
SIMD_INLINE vf32 v_copysign(vf32 size, vf32 sign) { return v_from_bits(vi_or(v_bits(v_abs(size)), v_sign_bit(sign))); }

// ---- truth values ---------------------------------------------------------------------------------------------------
SIMD_INLINE vm32 vm_and(vm32 x, vm32 y) { return (vm32)EACH2(pm_and, x, y); }
SIMD_INLINE vm32 vm_or(vm32 x, vm32 y) { return (vm32)EACH2(pm_or, x, y); }
SIMD_INLINE vm32 vm_xor(vm32 x, vm32 y) { return (vm32)EACH2(pm_xor, x, y); }
SIMD_INLINE vm32 vm_not(vm32 x) { return (vm32)EACH1(pm_not, x); }
SIMD_INLINE uint32_t vm_bits(vm32 x) { return BITS(pm_bits, x, EACH_LANES_F); } // bit i = lane i
SIMD_INLINE bool vm_any(vm32 x) { return vm_bits(x) != 0; }
SIMD_INLINE bool vm_all(vm32 x) { return vm_bits(x) == 0xffff; }
SIMD_INLINE vm32 vm_first(int n) { return vi_gt(vi_set1(n), vi_iota()); } // lanes below n
SIMD_INLINE vi32 vm_to_i32(vm32 x) { return vi_select(x, vi_set1(1), vi_set1(0)); }
// 16 bools, one byte each; any byte but 0 is true.
SIMD_INLINE vm32 vm_load_bool(const void *p) { return vm_not(vi_eq(vi_load_u8((const uint8_t *)p), vi_set1(0))); }
SIMD_INLINE void vm_store_bool(void *p, vm32 x) { vi_store_u8((uint8_t *)p, vm_to_i32(x)); }

// ---- float16 and bfloat16 in memory, float in registers -------------------------------------------------------------
// Stores round to nearest even; too large becomes infinity; a NaN stays one, quiet, with its sign and upper payload.
// Subnormals are exact. Pointers are to the raw 16 bits.
SIMD_INLINE vf32 v_load_f16(const uint16_t *p) { return (vf32)EACHP(pf_load_f16, p, EACH_LANES_F); }
SIMD_INLINE void v_store_f16(uint16_t *p, vf32 x) { EACH_STORE(pf_store_f16, p, x, EACH_LANES_F); }
SIMD_INLINE vf32 v_load_bf16(const uint16_t *p) { return v_from_bits(vi_shl(vi_load_u16(p), 16)); }
SIMD_INLINE vi32 v_to_bf16_bits(vf32 x)
{
    const vi32 bits = v_bits(x), upper = vi_shr(bits, 16);
    const vi32 rounded = vi_shr(vi_add(bits, vi_add(vi_and(upper, vi_set1(1)), vi_set1(0x7fff))), 16);
    return vi_select(v_isnan(x), vi_or(upper, vi_set1(0x40)), rounded);
}
SIMD_INLINE void v_store_bf16(uint16_t *p, vf32 x) { vi_store_u16(p, v_to_bf16_bits(x)); }
// The float nearest to x among those of the narrow type, without a store.
SIMD_INLINE vf32 v_round_bf16(vf32 x) { return v_from_bits(vi_shl(v_to_bf16_bits(x), 16)); }
SIMD_INLINE vf32 v_round_f16(vf32 x)
{
    uint16_t lanes[16];
    v_store_f16(lanes, x);
    return v_load_f16(lanes);
}
// 32 numbers in two vectors: which one is where does not matter to those who store them the same way.
SIMD_INLINE void v_load_two_f16(const uint16_t *p, vf32 *a, vf32 *b) { *a = v_load_f16(p), *b = v_load_f16(p + 16); }
SIMD_INLINE void v_store_two_f16(uint16_t *p, vf32 a, vf32 b) { v_store_f16(p, a), v_store_f16(p + 16, b); }
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
SIMD_INLINE vi32 v_to_upper_bf16(vf32 x) // in the upper half of each lane; below it anything
{
    const vi32 bits = v_bits(x), odd = vi_and(vi_shr(bits, 16), vi_set1(1));
    return vi_select(v_isnan(x), vi_or(bits, vi_set1(0x400000)), vi_add(vi_add(bits, vi_set1(0x7fff)), odd));
}
SIMD_INLINE void v_load_two_bf16(const uint16_t *p, vf32 *a, vf32 *b) // even ones, odd ones
{
    const vi32 pairs = vi_load((const int32_t *)(const void *)p);
    *a = v_from_bits(vi_shl(pairs, 16)), *b = v_from_bits(vi_and(pairs, vi_set1(-65536)));
}
SIMD_INLINE void v_store_two_bf16(uint16_t *p, vf32 a, vf32 b)
{
    const vi32 pairs = vi_or(vi_shr(v_to_upper_bf16(a), 16), vi_and(v_to_upper_bf16(b), vi_set1(-65536)));
    vi_store((int32_t *)(void *)p, pairs);
}
#else
SIMD_INLINE void v_load_two_bf16(const uint16_t *p, vf32 *a, vf32 *b) { *a = v_load_bf16(p), *b = v_load_bf16(p + 16); }
SIMD_INLINE void v_store_two_bf16(uint16_t *p, vf32 a, vf32 b) { v_store_bf16(p, a), v_store_bf16(p + 16, b); }
#endif
SIMD_INLINE vf32 v_load_f16_n(const uint16_t *p, int n)
{
    uint16_t lanes[16] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return v_load_f16(lanes);
}
SIMD_INLINE void v_store_f16_n(uint16_t *p, vf32 x, int n)
{
    uint16_t lanes[16];
    v_store_f16(lanes, x);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
SIMD_INLINE vf32 v_load_bf16_n(const uint16_t *p, int n)
{
    uint16_t lanes[16] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return v_load_bf16(lanes);
}
SIMD_INLINE void v_store_bf16_n(uint16_t *p, vf32 x, int n)
{
    uint16_t lanes[16];
    v_store_bf16(lanes, x);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}

// ---- double and int64: 8 lanes --------------------------------------------------------------------------------------
SIMD_INLINE vf64 vd_set1(double x) { return (vf64)EACH0(pd_set1, x); }
SIMD_INLINE vf64 vd_zero(void) { return vd_set1(0.0); }
SIMD_INLINE vf64 vd_load(const double *p) { return (vf64)EACHP(pd_load, p, EACH_LANES_D); }
SIMD_INLINE void vd_store(double *p, vf64 x) { EACH_STORE(pd_store, p, x, EACH_LANES_D); }
SIMD_INLINE vf64 vd_load_n(const double *p, int n) { return (vf64)EACH_FIRST(pd_load_first, p, n, EACH_LANES_D); }
SIMD_INLINE void vd_store_n(double *p, vf64 x, int n) { EACH_STORE_FIRST(pd_store_first, p, x, n, EACH_LANES_D); }
SIMD_INLINE vf64 vd_add(vf64 x, vf64 y) { return (vf64)EACH2(pd_add, x, y); }
SIMD_INLINE vf64 vd_sub(vf64 x, vf64 y) { return (vf64)EACH2(pd_sub, x, y); }
SIMD_INLINE vf64 vd_mul(vf64 x, vf64 y) { return (vf64)EACH2(pd_mul, x, y); }
SIMD_INLINE vf64 vd_div(vf64 x, vf64 y) { return (vf64)EACH2(pd_div, x, y); }
SIMD_INLINE vf64 vd_fma(vf64 a, vf64 b, vf64 c) { return (vf64)EACH3(pd_fma, a, b, c); }
SIMD_INLINE vf64 vd_fnma(vf64 a, vf64 b, vf64 c) { return (vf64)EACH3(pd_fnma, a, b, c); }
SIMD_INLINE vf64 vd_fms(vf64 a, vf64 b, vf64 c) { return (vf64)EACH3(pd_fms, a, b, c); }
SIMD_INLINE vf64 vd_sqrt(vf64 x) { return (vf64)EACH1(pd_sqrt, x); }
SIMD_INLINE vf64 vd_floor(vf64 x) { return (vf64)EACH1(pd_floor, x); }
SIMD_INLINE vf64 vd_ceil(vf64 x) { return (vf64)EACH1(pd_ceil, x); }
SIMD_INLINE vf64 vd_trunc(vf64 x) { return (vf64)EACH1(pd_trunc, x); }
SIMD_INLINE vf64 vd_rint(vf64 x) { return (vf64)EACH1(pd_rint, x); }
SIMD_INLINE vm64 vd_eq(vf64 x, vf64 y) { return (vm64)EACH2(pd_eq, x, y); }
SIMD_INLINE vm64 vd_ne(vf64 x, vf64 y) { return (vm64)EACH2(pd_ne, x, y); }
SIMD_INLINE vm64 vd_lt(vf64 x, vf64 y) { return (vm64)EACH2(pd_lt, x, y); }
SIMD_INLINE vm64 vd_le(vf64 x, vf64 y) { return (vm64)EACH2(pd_le, x, y); }
SIMD_INLINE vm64 vd_gt(vf64 x, vf64 y) { return vd_lt(y, x); }
SIMD_INLINE vm64 vd_ge(vf64 x, vf64 y) { return vd_le(y, x); }
SIMD_INLINE vm64 vd_isnan(vf64 x) { return (vm64)EACH1(pd_isnan, x); }
SIMD_INLINE vf64 vd_select(vm64 m, vf64 a, vf64 b) { return (vf64)EACH3(pd_select, m, a, b); }
SIMD_INLINE vf64 vd_min_fast(vf64 x, vf64 y) { return (vf64)EACH2(pd_min_fast, x, y); }
SIMD_INLINE vf64 vd_max_fast(vf64 x, vf64 y) { return (vf64)EACH2(pd_max_fast, x, y); }
SIMD_INLINE vf64 vd_min(vf64 x, vf64 y) { return vd_select(vd_isnan(x), x, vd_min_fast(x, y)); }
SIMD_INLINE vf64 vd_max(vf64 x, vf64 y) { return vd_select(vd_isnan(x), x, vd_max_fast(x, y)); }

SIMD_INLINE vi64 vl_set1(int64_t x) { return (vi64)EACH0(pl_set1, x); }
SIMD_INLINE vi64 vl_add(vi64 x, vi64 y) { return (vi64)EACH2(pl_add, x, y); }
SIMD_INLINE vi64 vl_sub(vi64 x, vi64 y) { return (vi64)EACH2(pl_sub, x, y); }
SIMD_INLINE vi64 vl_and(vi64 x, vi64 y) { return (vi64)EACH2(pl_and, x, y); }
SIMD_INLINE vi64 vl_or(vi64 x, vi64 y) { return (vi64)EACH2(pl_or, x, y); }
SIMD_INLINE vi64 vl_xor(vi64 x, vi64 y) { return (vi64)EACH2(pl_xor, x, y); }
SIMD_INLINE vi64 vl_andnot(vi64 x, vi64 y) { return (vi64)EACH2(pl_andnot, x, y); }
SIMD_INLINE vi64 vl_shl(vi64 x, int n) { return (vi64)EACH1K(pl_shl, x, n); }
SIMD_INLINE vi64 vl_shr(vi64 x, int n) { return (vi64)EACH1K(pl_shr, x, n); } // fills with zeros
SIMD_INLINE vm64 vl_eq(vi64 x, vi64 y) { return (vm64)EACH2(pl_eq, x, y); }
SIMD_INLINE vi64 vl_select(vm64 m, vi64 a, vi64 b) { return (vi64)EACH3(pl_select, m, a, b); }
SIMD_INLINE vi64 vd_bits(vf64 x) { return (vi64)EACH1(pd_bits, x); }
SIMD_INLINE vf64 vd_from_bits(vi64 x) { return (vf64)EACH1(pl_double_bits, x); }

SIMD_INLINE vm64 vq_and(vm64 x, vm64 y) { return (vm64)EACH2(pq_and, x, y); }
SIMD_INLINE vm64 vq_or(vm64 x, vm64 y) { return (vm64)EACH2(pq_or, x, y); }
SIMD_INLINE vm64 vq_xor(vm64 x, vm64 y) { return (vm64)EACH2(pq_xor, x, y); }
SIMD_INLINE vm64 vq_not(vm64 x) { return (vm64)EACH1(pq_not, x); }
SIMD_INLINE uint32_t vq_bits(vm64 x) { return BITS(pq_bits, x, EACH_LANES_D); }
SIMD_INLINE bool vq_any(vm64 x) { return vq_bits(x) != 0; }
SIMD_INLINE bool vq_all(vm64 x) { return vq_bits(x) == 0xff; }

SIMD_INLINE vf64 vd_abs(vf64 x) { return vd_from_bits(vl_and(vd_bits(x), vl_set1(INT64_MAX))); }
SIMD_INLINE vf64 vd_neg(vf64 x) { return vd_from_bits(vl_xor(vd_bits(x), vl_set1(INT64_MIN))); }
SIMD_INLINE vi64 vd_sign_bit(vf64 x) { return vl_and(vd_bits(x), vl_set1(INT64_MIN)); }
SIMD_INLINE vf64 vd_flip_sign(vf64 x, vi64 sign_bit) { return vd_from_bits(vl_xor(vd_bits(x), sign_bit)); }
SIMD_INLINE vf64 vd_copysign(vf64 size, vf64 sign) { return vd_from_bits(vl_or(vd_bits(vd_abs(size)), vd_sign_bit(sign))); }

// ---- between float and double ---------------------------------------------------------------------------------------
SIMD_INLINE vf64 v_low_f64(vf32 x) { return (vf64)LOW_OF(pf_low_pd, pf_high_pd, x); }   // lanes 0..7
SIMD_INLINE vf64 v_high_f64(vf32 x) { return (vf64)HIGH_OF(pf_low_pd, pf_high_pd, x); } // lanes 8..15
SIMD_INLINE vf32 v_from_f64(vf64 low, vf64 high) { return (vf32)JOIN_OF(pd_pair_pf, low, high); }
SIMD_INLINE vm64 vm_low(vm32 x) { return (vm64)LOW_OF(pm_low_pq, pm_high_pq, x); }
SIMD_INLINE vm64 vm_high(vm32 x) { return (vm64)HIGH_OF(pm_low_pq, pm_high_pq, x); }
SIMD_INLINE vm32 vm_join(vm64 low, vm64 high) { return (vm32)JOIN_OF(pq_pair_pm, low, high); }

// ---- pairs in memory, such as complex numbers --------------------------------------------------------------------------
SIMD_INLINE vf32 v_even(vf32 x, vf32 y) { return (vf32)JOIN_OF(pf_even, x, y); } // even lanes of x, then of y
SIMD_INLINE vf32 v_odd(vf32 x, vf32 y) { return (vf32)JOIN_OF(pf_odd, x, y); }
SIMD_INLINE void v_load_pairs(const float *p, vf32 *first, vf32 *second)
{
    const vf32 x = v_load(p), y = v_load(p + 16);
    *first = v_even(x, y), *second = v_odd(x, y);
}
SIMD_INLINE void v_store_pairs(float *p, vf32 first, vf32 second)
{
    const vf32 x = ZIP_FIRST(pf_zip_low, pf_zip_high, first, second), y = ZIP_SECOND(pf_zip_low, pf_zip_high, first, second);
    v_store(p, x), v_store(p + 16, y);
}
SIMD_INLINE void vd_load_pairs(const double *p, vf64 *first, vf64 *second)
{
    const vf64 x = vd_load(p), y = vd_load(p + 8);
    *first = (vf64)JOIN_OF(pd_even, x, y), *second = (vf64)JOIN_OF(pd_odd, x, y);
}
SIMD_INLINE void vd_store_pairs(double *p, vf64 first, vf64 second)
{
    const vf64 x = ZIP_FIRST(pd_zip_low, pd_zip_high, first, second), y = ZIP_SECOND(pd_zip_low, pd_zip_high, first, second);
    vd_store(p, x), vd_store(p + 8, y);
}

// ---- a 16 x 16 tile turned over ---------------------------------------------------------------------------------------
// out[j * out_stride + i] = in[i * in_stride + j]
SIMD_INLINE void v_copy_transposed(float *out, int64_t out_stride, const float *in, int64_t in_stride)
{
    enum { LANES = NBX_SIMD_PART_LANES };
    for (int i = 0; i < 16; i += LANES) {
        for (int j = 0; j < 16; j += LANES) {
            pf part[LANES];
            for (int l = 0; l < LANES; l++) part[l] = pf_load(in + (i + l) * in_stride + j);
            pf_transpose(part);
            for (int l = 0; l < LANES; l++) pf_store(out + (j + l) * out_stride + i, part[l]);
        }
    }
}
// out[j * stride + i] = lane j of rows[i]
SIMD_INLINE void v_store_transposed(float *out, int64_t stride, const vf32 *rows)
{
    float tile[16][16];
    for (int i = 0; i < 16; i++) v_store(tile[i], rows[i]);
    v_copy_transposed(out, stride, tile[0], 16);
}

// ---- reductions over the lanes: one order everywhere ----------------------------------------------------------------
// Lane i with lane i + 8, then i + 4, i + 2, i + 1 (double: from i + 4).
SIMD_INLINE float v_reduce_add(vf32 x) { return TREE(v_tree_add, x); }
SIMD_INLINE double vd_reduce_add(vf64 x) { return TREE(vd_tree_add, x); }
// Largest and smallest; NaN when any lane is NaN.
SIMD_INLINE void larger_half(float *lanes, int half)
{
    for (int i = 0; i < half; i++) lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
}
SIMD_INLINE float v_reduce_max(vf32 x)
{
    float lanes[16];
    const uint32_t nan = vm_bits(v_isnan(x));
    v_store(lanes, x);
    if (nan) return lanes[__builtin_ctz(nan)];
    larger_half(lanes, 8), larger_half(lanes, 4), larger_half(lanes, 2), larger_half(lanes, 1);
    return lanes[0];
}
SIMD_INLINE float v_reduce_min(vf32 x) { return -v_reduce_max(v_neg(x)); }
SIMD_INLINE double vd_reduce_max(vf64 x)
{
    double lanes[8], r;
    vd_store(lanes, x);
    r = lanes[0];
    for (int i = 1; i < 8; i++) r = lanes[i] > r || lanes[i] != lanes[i] ? lanes[i] : r;
    return r;
}
SIMD_INLINE double vd_reduce_min(vf64 x)
{
    double lanes[8], r;
    vd_store(lanes, x);
    r = lanes[0];
    for (int i = 1; i < 8; i++) r = lanes[i] < r || lanes[i] != lanes[i] ? lanes[i] : r;
    return r;
}

#endif
