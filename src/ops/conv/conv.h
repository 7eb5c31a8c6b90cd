// Convolution as numbers: what infer and the kernels of the family share.
//
// Both directions are one problem. A phase is a set of output positions o = first + q * step whose inputs are found by the
// same taps: i = q * stride + shift[tap]. A convolution has one phase (step 1); a transposed one has as many as its strides
// multiply to, each a convolution of stride 1 with the taps that reach it, so nothing is multiplied by inserted zeros.
#ifndef NBX_OPS_CONV_H
#define NBX_OPS_CONV_H

#include "cpu/pool.h"
#include "ops/epilogue.h"

#define CONV_DIMS 3

// Sizes in depth, height, width; absent dims are 1 (depth first).
typedef struct nbx_conv {
    nbx_dtype dtype;
    int64_t batch, groups, in_channels, out_channels;  // channels of one group
    int64_t in[CONV_DIMS], out[CONV_DIMS], kernel[CONV_DIMS];
    int64_t stride[CONV_DIMS], padding[CONV_DIMS], dilation[CONV_DIMS];
    bool transposed;
    bool tf32;  // the context allows it, and the dtype is float32
    // Strides in elements: batch, channel, depth, height, width. Of the weight: channel of the result, of the input, kernel dims.
    int64_t in_stride[5], out_stride[5], weight_stride[5];
    int64_t bias_stride;
    const char *input, *weight, *bias;
    char *output;
    float *packed;  // NULL, or the weights in the blocked kernel's tiles
    const nbx_epilogue *epilogue;
} nbx_conv;

// Describes a call of aten::convolution (its arguments in that order).
void nbx_conv_of(const nbx_op_call *c, nbx_conv *p);
size_t nbx_conv_scratch(const nbx_conv *p, int threads);
size_t nbx_conv_packed_bytes(const nbx_conv *p);  // of the weights in tiles; 0: they are used as they lie
bool nbx_conv_channels_suit(const nbx_conv *p);  // may channels of the result be the lanes? With packed weights, or enough positions
size_t nbx_conv_panel_bytes(const nbx_conv *p);   // of the weights in panels of 16 channels of the result

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

// How a GPU reads the input of a float convolution: channels last, from a copy in scratch unless the tensor lies so already.
// Tensor cores (16-bit dtypes, tf32) read 16 bytes at once: channels are padded for them.
typedef struct conv_image {
    int64_t channels;  // of a pixel and group in the copy: those of the input, then zeros
    int64_t run;       // elements read at a tap: the channels, or those under a whole row of the kernel (by_rows)
    int64_t inner;     // the run as filters are packed
    int64_t width;     // of the copy, by_rows with the padding to both sides
    bool by_rows;      // few channels: the taps of a row of the kernel are neighbours in memory
} conv_image;

static inline int64_t conv_rounded(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

static inline conv_image conv_image_of(const nbx_conv *p) {
    const int64_t vector = nbx_dtype_size(p->dtype) == 2 ? 8 : p->tf32 ? 4 : 1;
    const bool by_rows = !p->transposed && p->groups == 1 && p->in_channels < 8 && p->dilation[2] == 1 && p->kernel[2] > 1;
    const bool half_vectors = by_rows && p->in_channels <= 4 && p->stride[2] % 2 == 0 && vector == 8;
    const int64_t channels = conv_rounded(p->in_channels, half_vectors ? 4 : vector);
    const int64_t run = by_rows ? p->kernel[2] * channels : channels;
    return (conv_image){channels, run, conv_rounded(run, vector), by_rows ? conv_rounded(p->in[2] + 2 * p->padding[2], 2) : p->in[2], by_rows};
}

// Phases along dim d that have outputs.
static inline int64_t conv_phases(const nbx_conv *p, int d) { return !p->transposed ? 1 : p->stride[d] < p->out[d] ? p->stride[d] : p->out[d]; }

// Bytes of the packed filters of all phases, each aligned to 256 bytes, on a GPU.
static inline size_t conv_filter_bytes(const nbx_conv *p, const conv_image *image) {
    const int64_t taps = p->kernel[0] * p->kernel[1] * (image->by_rows ? 1 : p->kernel[2]);
    const int64_t phases = conv_phases(p, 0) * conv_phases(p, 1) * conv_phases(p, 2);
    return (size_t)(p->groups * p->out_channels * taps * image->inner) * nbx_dtype_size(p->dtype) + 256 * (size_t)(phases + 1);
}

NBX_CPU_DECLARE(convolution_cpu);
nbx_status conv_pack_baseline(nbx_op_call *, int64_t, int64_t), conv_pack_avx2(nbx_op_call *, int64_t, int64_t),
    conv_pack_avx512(nbx_op_call *, int64_t, int64_t);

#endif
