// Convolution as numbers: what infer and the kernels of the family share.
//
// Both directions are one problem. A phase is a set of output positions o = first + q * step whose inputs are found by the
// same taps: i = q * stride + shift[tap]. A convolution has one phase (step 1); a transposed one has as many as its strides
// multiply to, each a convolution of stride 1 with the taps that reach it, so nothing is multiplied by inserted zeros.
#ifndef NBX_OPS_CONV_H
#define NBX_OPS_CONV_H

#include "cpu/pool.h"
#include "ops/op.h"

#define CONV_DIMS 3

// Sizes in depth, height, width; absent dims are 1 (depth first).
typedef struct nbx_conv {
    nbx_dtype dtype;
    int64_t batch, groups, in_channels, out_channels;  // channels of one group
    int64_t in[CONV_DIMS], out[CONV_DIMS], kernel[CONV_DIMS];
    int64_t stride[CONV_DIMS], padding[CONV_DIMS], dilation[CONV_DIMS];
    bool transposed;
    // Strides in elements: batch, channel, depth, height, width. Of the weight: channel of the result, of the input, kernel dims.
    int64_t in_stride[5], out_stride[5], weight_stride[5];
    int64_t bias_stride;
    const char *input, *weight, *bias;
    char *output;
    float *packed;  // NULL, or the weights in the blocked kernel's tiles
} nbx_conv;

// Describes a call of aten::convolution (its arguments in that order).
void nbx_conv_of(const nbx_op_call *c, nbx_conv *p);
size_t nbx_conv_scratch(const nbx_conv *p, int threads);
size_t nbx_conv_packed_bytes(const nbx_conv *p);  // of the weights in tiles; 0: they are used as they lie

// Positions of phase `index` along dim d: first, step, and how many; a tap k reaches them when its shift is whole.
typedef struct conv_axis {
    int64_t first, step, count;  // outputs first + q * step, q < count
    int64_t stride;              // of the input per q
} conv_axis;

static inline conv_axis conv_axis_of(const nbx_conv *p, int d, int64_t phase) {
    if (!p->transposed) return (conv_axis){0, 1, p->out[d], p->stride[d]};
    const int64_t count = phase < p->out[d] ? (p->out[d] - phase + p->stride[d] - 1) / p->stride[d] : 0;
    return (conv_axis){phase, p->stride[d], count, 1};
}

// Input position of output 0 of the phase through tap k; false: the tap does not reach the phase.
static inline bool conv_tap_shift(const nbx_conv *p, int d, int64_t phase, int64_t k, int64_t *shift) {
    if (!p->transposed) {
        *shift = k * p->dilation[d] - p->padding[d];
        return true;
    }
    const int64_t at = phase + p->padding[d] - k * p->dilation[d];
    *shift = at / p->stride[d];
    if (at % p->stride[d] == 0) return true;
    return false;
}

extern const nbx_packing nbx_conv_packing;

NBX_CPU_DECLARE(convolution_cpu);
NBX_CPU_DECLARE(conv_pack);

#endif
