// Kernels that walk planes, one source for both devices: gradients of pooling, fractional pooling.
#ifndef NBX_OPS_POOL_PLANES_H
#define NBX_OPS_POOL_PLANES_H

#include <math.h>

#include "ops/matmul/plain_numbers.h"
#include "ops/pool/pooling.h"

// What each input of a window gets of the gradient g of its position.
INLINE double pool_share(const nbx_pooling *p, double g, pool_window y, pool_window x, nbx_dtype d) {
    if (p->kind == POOL_ADAPTIVE_AVG) return in_dtype(in_dtype(g / (double)(y.end - y.start), d) / (double)(x.end - x.start), d);
    const int64_t count = p->divisor ? p->divisor : p->count_padding ? y.padded * x.padded : (y.end - y.start) * (x.end - x.start);
    return d == NBX_INT64 ? (double)((int64_t)g / count) : in_dtype(g / (double)count, d);
}

INLINE int64_t fractional_start(const nbx_fractional *f, int64_t n, int64_t channel, int dim, int64_t i, nbx_dtype d) {
    const int64_t most = f->in[dim] - f->kernel[dim], last = f->out[dim] - 1, *s = f->sample_stride;
    if (i == last) return most;
    const double sample = load_real(f->samples, n * s[0] + channel * s[1] + (f->dims == 2 ? 2 - dim : dim) * s[2], d);
    const double alpha = in_dtype(in_dtype((double)most, d) / in_dtype((double)last, d), d);
    const double start = trunc(in_dtype(in_dtype(in_dtype((double)i, d) + sample, d) * alpha, d)) - trunc(in_dtype(sample * alpha, d));
    return !(start > 0) ? 0 : start < (double)most ? (int64_t)start : most;
}

INLINE void fractional_position(const nbx_fractional *f, int64_t plane, int64_t o, nbx_dtype d) {
    const int64_t n = plane / f->channels, channel = plane % f->channels, base = n * f->stride[0] + channel * f->stride[1];
    const int64_t at[POOL_DIMS] = {o / f->out[2] / f->out[1], o / f->out[2] % f->out[1], o % f->out[2]};
    int64_t start[POOL_DIMS];
    for (int i = 0; i < POOL_DIMS; i++) start[i] = i < POOL_DIMS - f->dims ? 0 : fractional_start(f, n, channel, i, at[i], d);
    int64_t place = (start[0] * f->in[1] + start[1]) * f->in[2] + start[2];
    double most = -(double)INFINITY;
    for (int64_t z = start[0]; z < start[0] + f->kernel[0]; z++)
        for (int64_t y = start[1]; y < start[1] + f->kernel[1]; y++)
            for (int64_t x = start[2]; x < start[2] + f->kernel[2]; x++) {
                const double value = load_real(f->input, base + z * f->stride[2] + y * f->stride[3] + x * f->stride[4], d);
                if (value > most || value != value) most = value, place = (z * f->in[1] + y) * f->in[2] + x;
            }
    store_real(f->output, plane * f->out_plane + o, d, most);
    f->places[plane * f->out_plane + o] = place;
}

#endif
