// Fourier transforms in float: vectors of 16 lines.
#include "cpu/simd.h"

#include <string.h>

#include "cpu/pool.h"
#include "ops/fft/fft.h"

#define REAL float
#define VEC vf32
#define LANES 16
#define V(op) v_##op
#define NAME(name) name##_f32
#define RUN fft_run_f32

SIMD_INLINE void store_turned_f32(float *out, int64_t stride, const vf32 *rows) { v_store_transposed(out, stride, rows); }

#include "ops/fft/fft_nodes.h"
#include "ops/fft/fft_lines.h"
