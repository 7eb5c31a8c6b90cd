// Pairs. Even and odd lanes of two vectors, in an order of the instruction set's own where the right one takes a second permutation (AVX2): sums of
// such vectors are put in order once, at their end.
#ifndef NBX_CPU_PAIRS_SIMD_H
#define NBX_CPU_PAIRS_SIMD_H

#include "cpu/simd.h"

#if defined(__x86_64__) && NBX_ISA_LEVEL == 1 && !defined(NBX_SIMD_PLAIN)
static inline pf pf_even_mixed(pf x, pf y) { return _mm256_shuffle_ps(x, y, 0x88); }
static inline pf pf_odd_mixed(pf x, pf y) { return _mm256_shuffle_ps(x, y, 0xdd); }
static inline pf pf_in_order(pf x) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8)); }
SIMD_INLINE vf32 v_even_mixed(vf32 x, vf32 y) { return (vf32)JOIN_OF(pf_even_mixed, x, y); }
SIMD_INLINE vf32 v_odd_mixed(vf32 x, vf32 y) { return (vf32)JOIN_OF(pf_odd_mixed, x, y); }
SIMD_INLINE vf32 v_in_order(vf32 x) { return (vf32)EACH1(pf_in_order, x); }
#else
SIMD_INLINE vf32 v_even_mixed(vf32 x, vf32 y) { return v_even(x, y); }
SIMD_INLINE vf32 v_odd_mixed(vf32 x, vf32 y) { return v_odd(x, y); }
SIMD_INLINE vf32 v_in_order(vf32 x) { return x; }
#endif

// Every lane holds two int16: the sum of the products of the low ones and of the high ones.
#if defined(NBX_SIMD_PLAIN) || !(defined(__x86_64__) || defined(__aarch64__))
static inline pi pi_add_products(pi x, pi y)
{
    pi sum;
    for (int i = 0; i < NBX_SIMD_PART_LANES; i++) sum.v[i] = (int16_t)x.v[i] * (int16_t)y.v[i] + (x.v[i] >> 16) * (y.v[i] >> 16);
    return sum;
}
#elif defined(__aarch64__)
static inline pi pi_add_products(pi x, pi y)
{
    const int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(y);
    return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}
#elif defined(__x86_64__) && NBX_ISA_LEVEL == 2
static inline pi pi_add_products(pi x, pi y) { return _mm512_madd_epi16(x, y); }
#elif defined(__x86_64__) && NBX_ISA_LEVEL == 1
static inline pi pi_add_products(pi x, pi y) { return _mm256_madd_epi16(x, y); }
#elif defined(__x86_64__)
static inline pi pi_add_products(pi x, pi y) { return _mm_madd_epi16(x, y); }
#endif
SIMD_INLINE vi32 vi_add_products(vi32 x, vi32 y) { return (vi32)EACH2(pi_add_products, x, y); }

#endif
