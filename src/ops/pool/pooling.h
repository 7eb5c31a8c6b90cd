// Pooling as numbers. Every kind is the same walk: along each dim, position o looks at inputs start, start + step ... < end.
#ifndef NBX_OPS_POOLING_H
#define NBX_OPS_POOLING_H

#include "ops/op.h"

#define POOL_DIMS 3

typedef enum pool_kind { POOL_MAX, POOL_AVG, POOL_ADAPTIVE_MAX, POOL_ADAPTIVE_AVG } pool_kind;

// What a row of the table says of its operator.
typedef struct pool_form {
    int8_t kind, dims;
    bool indices;  // max: the second result
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
    int64_t kernel[POOL_DIMS], stride[POOL_DIMS], padding[POOL_DIMS], step[POOL_DIMS];
    bool ceil_mode, count_padding;
    int64_t divisor;  // 0: the window's size
    int64_t in_stride[5], out_stride[5], index_stride[5];  // batch, channel, depth, height, width
    const char *input;
    char *output;
    int64_t *indices;  // NULL: not wanted
} nbx_pooling;

void nbx_pooling_of(const nbx_op_call *c, nbx_pooling *p);
pool_window nbx_pooling_window(const nbx_pooling *p, int d, int64_t o);

NBX_CPU_DECLARE(pooling_cpu);
nbx_status max_unpool_cpu(nbx_op_call *c);
nbx_status fractional_max_pool_cpu(nbx_op_call *c);
nbx_status avg_pool2d_backward_cpu(nbx_op_call *c);
nbx_status adaptive_avg_pool2d_backward_cpu(nbx_op_call *c);
nbx_status max_pool2d_backward_cpu(nbx_op_call *c);

#endif
