// Fourier transforms in double: vectors of 8 lines.
#include "cpu/simd.h"

#include <string.h>

#include "cpu/pool.h"
#include "ops/fft/fft.h"

#define REAL double
#define VEC vf64
#define LANES 8
#define V(op) vd_##op
#define NAME(name) name##_f64
#define RUN fft_run_f64

// out[j * stride + i] = lane j of rows[i]
SIMD_INLINE void store_turned_f64(double *out, int64_t stride, const vf64 *rows)
{
    double tile[8][8];
    for (int i = 0; i < 8; i++) vd_store(tile[i], rows[i]);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) out[j * stride + i] = tile[i][j];
}

#include "ops/fft/fft_nodes.h"
#include "ops/fft/fft_lines.h"
