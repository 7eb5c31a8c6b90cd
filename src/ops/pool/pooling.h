// Pooling as numbers. Every kind is the same walk: along each dim, position o looks at inputs start, start + step ... < end.
#ifndef NBX_OPS_POOLING_H
#define NBX_OPS_POOLING_H

#include "core/both.h"
#include "ops/op.h"

#define POOL_DIMS 3

typedef enum pool_kind { POOL_MAX, POOL_AVG, POOL_ADAPTIVE_MAX, POOL_ADAPTIVE_AVG } pool_kind;

// What a row of the table says of its operator.
typedef struct pool_form {
    int8_t kind, dims;
    bool indices;  // max: the second result
    bool restride; // an out= of a batch gets the strides of the result
    bool is_mean;  // one position in all is the mean, also of nothing
} pool_form;

typedef struct pool_window {
    int64_t start, end;
    int64_t padded;  // its length with padding counted
} pool_window;

typedef struct nbx_pooling {
    nbx_dtype dtype;
    pool_kind kind;
    int64_t batch, channels;
    int64_t in[POOL_DIMS], out[POOL_DIMS];  // depth, height, width; absent dims are 1
    int64_t kernel[POOL_DIMS], stride[POOL_DIMS], padding[POOL_DIMS], step[POOL_DIMS];  // adaptive, uneven: stride 0
    bool ceil_mode, count_padding;
    int64_t divisor;  // 0: the window's size
    int64_t in_stride[5], out_stride[5], index_stride[5];  // batch, channel, depth, height, width
    const char *input;
    char *output;
    int64_t *indices;  // NULL: not wanted
} nbx_pooling;

void nbx_pooling_of(const nbx_op_call *c, nbx_pooling *p);
NBX_BOTH pool_window nbx_pooling_window(const nbx_pooling *p, int d, int64_t o) {
    pool_window w;
    if (p->kind >= POOL_ADAPTIVE_MAX) {
        const bool even = p->stride[d] * p->out[d] == p->in[d];  // small planes have as many windows as elements: no divisions
        w.start = even ? o * p->stride[d] : o * p->in[d] / p->out[d];
        w.end = even ? w.start + p->stride[d] : ((o + 1) * p->in[d] + p->out[d] - 1) / p->out[d];
        w.padded = w.end - w.start;
        return w;
    }
    w.start = o * p->stride[d] - p->padding[d], w.end = w.start + (p->kernel[d] - 1) * p->step[d] + 1;
    if (w.end > p->in[d] + p->padding[d]) w.end = p->in[d] + p->padding[d];
    w.padded = w.end - w.start;
    if (w.start < 0) w.start += (-w.start + p->step[d] - 1) / p->step[d] * p->step[d];
    if (w.end > p->in[d]) w.end = p->in[d];
    return w;
}
// Do the windows along the width lie close and evenly? Then a row and its padding take this many floats, with room for
// vectors of positions beyond the last.
bool nbx_pooling_is_even(const nbx_pooling *p);
int64_t nbx_pooling_row_floats(const nbx_pooling *p);

NBX_CPU_DECLARE(pooling_cpu);

// Gradients of pooling in two dims: input is the gradient given, with out_stride; output the one made, with in_stride.
nbx_status nbx_pool_gradient_of(nbx_op_call *c, nbx_pooling *p);

// Fractional pooling: windows of one size, whose starts random samples spread over the input. Results are contiguous.
typedef struct nbx_fractional {
    nbx_dtype dtype;
    int dims;
    int64_t planes, channels, in[POOL_DIMS], out[POOL_DIMS], kernel[POOL_DIMS], out_plane;
    int64_t stride[5], sample_stride[3];  // batch, channel, depth, height, width
    const char *input, *samples;
    char *output;
    int64_t *places;
} nbx_fractional;
void nbx_fractional_of(const nbx_op_call *c, nbx_fractional *f);

// Strides of a tensor with `dims` spatial dims: batch, channel, depth, height, width; 0 where it has no such dim.
void nbx_pool_strides(const nbx_tensor *t, int dims, int64_t *strides);
// A list argument of `dims` numbers, or of one that stands for all; empty: `absent`. None is below `least`.
nbx_status nbx_pool_list(nbx_op_call *c, int arg, int dims, const int64_t *absent, int64_t least, int64_t *list);
// How often a window fits along a dim; with ceil_mode, the last one must start inside the input or the padding before it.
int64_t nbx_pool_positions(int64_t in, int64_t kernel, int64_t padding, int64_t stride, int64_t dilation, bool ceil_mode);

#endif
