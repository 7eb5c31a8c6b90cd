// Resampling as numbers. Along each dim, position o of the result is a weighted sum of a few inputs; the sums are separable.
#ifndef NBX_OPS_RESAMPLE_H
#define NBX_OPS_RESAMPLE_H

#include "ops/op.h"

#define RESAMPLE_DIMS 3

#ifdef __cplusplus
extern "C" {
#endif

typedef enum resample_kind { RESAMPLE_NEAREST, RESAMPLE_NEAREST_EXACT, RESAMPLE_LINEAR, RESAMPLE_CUBIC } resample_kind;

typedef struct resample_form {
    int8_t kind, dims;
    bool antialias;
    bool vec;  // arguments are (input, sizes or none, [align_corners], scale factors or none)
} resample_form;

// How a dim is resampled; without one (out == in == 1) it has a single tap.
typedef struct resample_axis {
    int64_t in, out;
    double scale;  // the factor that was passed, or 0
    int taps;      // inputs of a position at most
} resample_axis;

typedef struct nbx_resample {
    nbx_dtype dtype;
    resample_kind kind;
    int dims;
    bool antialias, align_corners;
    int64_t batch, channels;
    resample_axis axis[RESAMPLE_DIMS];      // depth, height, width
    int64_t in_stride[5], out_stride[5];
    const char *input;
    char *output;
} nbx_resample;

void nbx_resample_of(const nbx_op_call *c, nbx_resample *p);
// Inputs and weights of all positions of a dim: index, weight [out][taps]. Unused taps come last and have index -1.
void nbx_resample_table(const nbx_resample *p, int d, int32_t *index, double *weight);

// Places in scratch, bytes.
typedef struct resample_places {
    size_t index[RESAMPLE_DIMS], weight[RESAMPLE_DIMS];  // of int32 and double
    size_t threads, thread_bytes, total;
} resample_places;
void nbx_resample_places(const nbx_resample *p, int threads, resample_places *places);

NBX_CPU_DECLARE(resample_cpu);
NBX_CPU_DECLARE(grid_sampler_cpu);

#ifdef __cplusplus
}
#endif
#endif
