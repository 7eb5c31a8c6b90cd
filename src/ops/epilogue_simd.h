// The plain epilogues, on vectors: the bits of add.Tensor and of relu or hardtanh, one after the other.
#ifndef NBX_OPS_EPILOGUE_SIMD_H
#define NBX_OPS_EPILOGUE_SIMD_H

#include "cpu/simd.h"
#include "ops/epilogue.h"

SIMD_INLINE vf32 epilogue_clamp(vf32 y, const nbx_epilogue_plain *e)
{
    return v_select(v_isnan(y), y, v_min_fast(v_max_fast(y, v_set1(e->low)), v_set1(e->high)));
}

// y is element `at` of the result, and the next ones; count of them exist.
SIMD_INLINE vf32 epilogue_plain(vf32 y, const nbx_epilogue_plain *e, int64_t at, int count)
{
    if (e->residual) {
        const vf32 r = count == 16 ? v_load(e->residual + at) : v_load_n(e->residual + at, count);
        y = e->residual_first ? v_add(r, y) : v_add(y, r);
    }
    return e->clamps ? epilogue_clamp(y, e) : y;
}

#endif
