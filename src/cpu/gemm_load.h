// Elements of the types that are summed in float, one, 16 or fewer at a time. dtype is a constant in each copy.
#ifndef NBX_CPU_GEMM_LOAD_H
#define NBX_CPU_GEMM_LOAD_H

#include "core/dtype.h"
#include "core/half.h"
#include "cpu/simd.h"

SIMD_INLINE float load_real_f32(nbx_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case NBX_FLOAT16: return nbx_from_f16(((const uint16_t *)p)[i]);
    case NBX_BFLOAT16: return nbx_from_bf16(((const uint16_t *)p)[i]);
    case NBX_INT8: return ((const int8_t *)p)[i];
    case NBX_UINT8: return ((const uint8_t *)p)[i];
    default: return ((const float *)p)[i];
    }
}

SIMD_INLINE vf32 load_vec_f32(nbx_dtype dtype, const void *p)
{
    switch (dtype) {
    case NBX_FLOAT16: return v_load_f16(p);
    case NBX_BFLOAT16: return v_load_bf16(p);
    case NBX_INT8: return v_from_i32(vi_load_i8(p));
    case NBX_UINT8: return v_from_i32(vi_load_u8(p));
    default: return v_load(p);
    }
}

SIMD_INLINE vf32 load_some_f32(nbx_dtype dtype, const void *p, int n)
{
    if (dtype == NBX_FLOAT32) return v_load_n(p, n);
    if (dtype == NBX_FLOAT16) return v_load_f16_n(p, n);
    if (dtype == NBX_BFLOAT16) return v_load_bf16_n(p, n);
    float lanes[16] = {0};
    for (int i = 0; i < n; i++) lanes[i] = load_real_f32(dtype, p, i);
    return v_load(lanes);
}

#endif
