// Even and odd lanes of two vectors, in an order of the instruction set's own where the right one takes a second permutation (AVX2): sums of
// such vectors are put in order once, at their end.
#ifndef NBX_CPU_PAIRS_SIMD_H
#define NBX_CPU_PAIRS_SIMD_H

#include "cpu/simd.h"

#if NBX_ISA_LEVEL == 1
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

#endif
