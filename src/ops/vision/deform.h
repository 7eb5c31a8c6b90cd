// Deformable convolution as numbers, and the columns that the kernel reads: one source for both devices.
#ifndef NBX_OPS_DEFORM_H
#define NBX_OPS_DEFORM_H

#include "ops/op.h"
#include "ops/vision/bilinear.h"

typedef struct deform_job {
    nbx_dtype dtype;
    int64_t batch, channels, in[2], kernel[2], out[2], step[2], padding[2], dilation[2], groups, offset_groups;
    int64_t out_channels, taps, positions;  // of a kernel; of a result plane
    size_t columns_bytes;                   // of columns, weight and bias, dense, in the scratch
    int64_t x_stride[4], offset_stride[4], mask_stride[4];
    const char *x, *offset, *mask;          // mask NULL: none
} deform_job;

// Element [channel tap, position] of an image's columns. Channels of one offset group share offsets.
INLINE double deform_column(const deform_job *j, int64_t image, int64_t row, int64_t at, nbx_dtype d) {
    const int64_t channel = row / j->taps, tap = row % j->taps, group = channel / (j->channels / j->offset_groups), *os = j->offset_stride, *ms = j->mask_stride;
    const int64_t pair = 2 * (group * j->taps + tap), oy = at / j->out[1], ox = at % j->out[1];
    const int64_t place = image * os[0] + pair * os[1] + oy * os[2] + ox * os[3];
    const double y0 = (double)(oy * j->step[0] - j->padding[0] + tap / j->kernel[1] * j->dilation[0]);
    const double x0 = (double)(ox * j->step[1] - j->padding[1] + tap % j->kernel[1] * j->dilation[1]);
    const double y = in_dtype(in_dtype(y0, d) + load_real(j->offset, place, d), d);
    const double x = in_dtype(in_dtype(x0, d) + load_real(j->offset, place + os[1], d), d);
    bilinear b;
    double value = 0;
    if (bilinear_padded(&b, y, x, j->in[0], j->in[1], j->x_stride[2], j->x_stride[3], d))
        value = bilinear_value(&b, j->x, image * j->x_stride[0] + channel * j->x_stride[1], d);
    if (j->mask) value *= load_real(j->mask, image * ms[0] + (group * j->taps + tap) * ms[1] + oy * ms[2] + ox * ms[3], d);
    return value;
}

void nbx_deform_pointers(const nbx_op_call *c, deform_job *j);

#endif
