// Inputs and weights of one position of a resampled dim: one source for the CPU and for CUDA, so that both round alike.
#ifndef NBX_OPS_RESAMPLE_TABLE_H
#define NBX_OPS_RESAMPLE_TABLE_H

#include <math.h>

#include "ops/resample/resample.h"

#ifdef __CUDACC__
#define RESAMPLE_INLINE static __host__ __device__ inline
#else
#define RESAMPLE_INLINE static inline
#endif

// Input positions per position of the result.
RESAMPLE_INLINE double resample_step(const nbx_resample *p, int d) {
    const resample_axis *a = &p->axis[d];
    if (p->align_corners && p->kind >= RESAMPLE_LINEAR) return a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
    return a->scale > 0 ? 1 / a->scale : (double)a->in / (double)a->out;
}

// ATen computes positions in float32, but for float64 and bytes.
RESAMPLE_INLINE double resample_narrowed(const nbx_resample *p, double x) {
    return p->dtype == NBX_FLOAT64 || p->dtype == NBX_UINT8 ? x : (double)(float)x;
}

RESAMPLE_INLINE int64_t nearest_index(const nbx_resample *p, int d, int64_t o) {
    const resample_axis *a = &p->axis[d];
    const float step = (float)resample_step(p, d);
    int64_t i;
    // In two dims ATen does without the factor where the sizes are equal or doubled.
    const bool planar = p->dims == 2;
    if (p->kind == RESAMPLE_NEAREST_EXACT) i = (int64_t)floorf(((float)o + 0.5f) * step);
    else if (planar && a->out == a->in) i = o;
    else if (planar && a->out == 2 * a->in) i = o >> 1;
    else i = (int64_t)floorf((float)o * step);
    return i < a->in - 1 ? i : a->in - 1;
}

// Cubic convolution: 1 at 0, 0 at other whole numbers, support 2.
RESAMPLE_INLINE double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

RESAMPLE_INLINE double triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

RESAMPLE_INLINE void plain_taps(const nbx_resample *p, int d, int64_t o, int32_t *index, double *weight) {
    const resample_axis *a = &p->axis[d];
    const double step = resample_narrowed(p, resample_step(p, d));
    double at = p->align_corners ? step * (double)o : step * ((double)o + 0.5) - 0.5;
    at = resample_narrowed(p, at);
    if (p->kind == RESAMPLE_LINEAR) {
        at = at < 0 ? 0 : at;
        const int64_t i = (int64_t)at < a->in - 1 ? (int64_t)at : a->in - 1;
        const double t = fmin(fmax(at - (double)i, 0.0), 1.0);
        index[0] = (int32_t)i, index[1] = (int32_t)(i < a->in - 1 ? i + 1 : i);
        weight[0] = 1 - t, weight[1] = t;
        return;
    }
    const double base = floor(at), t = at - base;
    for (int k = 0; k < 4; k++) {
        const double i = base - 1 + k;
        index[k] = (int32_t)(i < 0 ? 0 : i > (double)(a->in - 1) ? (double)(a->in - 1) : i);
        weight[k] = cubic(t + 1 - k, -0.75);
    }
}

// Weights of a filter as wide as a position's share of the input, over the inputs it covers, normalised.
RESAMPLE_INLINE void filter_taps(const nbx_resample *p, int d, int64_t o, int32_t *index, double *weight) {
    const resample_axis *a = &p->axis[d];
    const double step = resample_narrowed(p, resample_step(p, d)), wide = fmax(step, 1.0), support = (p->kind == RESAMPLE_LINEAR ? 1 : 2) * wide;
    const double middle = (double)o + 0.5, centre = resample_narrowed(p, step * middle);
    // One rounding, as the compiled ATen has it: which inputs a NaN at the edge of the filter reaches depends on it.
    int64_t first = (int64_t)resample_narrowed(p, resample_narrowed(p, fma(step, middle, -support)) + 0.5);
    int64_t last = (int64_t)resample_narrowed(p, resample_narrowed(p, fma(step, middle, support)) + 0.5);
    double total = 0;
    if (first < 0) first = 0;
    if (last > a->in) last = a->in;
    for (int k = 0; k < a->taps; k++) {
        const double x = ((double)(first + k) - centre + 0.5) / wide;
        index[k] = first + k < last ? (int32_t)(first + k) : -1;
        weight[k] = index[k] < 0 ? 0 : p->kind == RESAMPLE_LINEAR ? triangle(x) : cubic(x, -0.5);
        total += weight[k];
    }
    for (int k = 0; k < a->taps && total != 0; k++) weight[k] /= total;
}

// Taps of one input become one, so that its weight is rounded once.
RESAMPLE_INLINE void merge_taps(int taps, int32_t *index, double *weight) {
    int last = 0;
    for (int k = 1; k < taps; k++) {
        if (index[k] == index[last]) weight[last] += weight[k];
        else index[++last] = index[k], weight[last] = weight[k];
    }
    for (int k = last + 1; k < taps; k++) index[k] = -1, weight[k] = 0;
}

// Position o of dim d: index, weight [taps].
RESAMPLE_INLINE void resample_position(const nbx_resample *p, int d, int64_t o, int32_t *index, double *weight) {
    const resample_axis *a = &p->axis[d];
    if (p->kind < RESAMPLE_LINEAR) {
        index[0] = (int32_t)nearest_index(p, d, o);
        weight[0] = 1;
    } else if (a->taps == 1) {
        index[0] = a->in == a->out ? (int32_t)o : 0, weight[0] = 1;  // a dim that is not resampled
    } else if (p->antialias) {
        filter_taps(p, d, o, index, weight);
    } else {
        plain_taps(p, d, o, index, weight);
        if (p->dtype == NBX_UINT8) merge_taps(a->taps, index, weight);
    }
}

#endif
