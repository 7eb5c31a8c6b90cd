// What the losses share.
#ifndef NBX_OPS_LOSS_H
#define NBX_OPS_LOSS_H

#include "core/half.h"
#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum loss_reduction { LOSS_NONE = 0, LOSS_MEAN = 1, LOSS_SUM = 2 } loss_reduction;

// A floating point or integer element as a double.
static inline double loss_load(const void *p, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT64: return *(const double *)p;
    case NBX_FLOAT32: return (double)*(const float *)p;
    case NBX_FLOAT16: return (double)nbx_from_f16(*(const uint16_t *)p);
    case NBX_BFLOAT16: return (double)nbx_from_bf16(*(const uint16_t *)p);
    default: return 0.0;
    }
}
static inline void loss_store(void *p, nbx_dtype dtype, double x) {
    switch (dtype) {
    case NBX_FLOAT64: *(double *)p = x; break;
    case NBX_FLOAT32: *(float *)p = (float)x; break;
    case NBX_FLOAT16: *(uint16_t *)p = nbx_to_f16((float)x); break;
    case NBX_BFLOAT16: *(uint16_t *)p = nbx_to_bf16((float)x); break;
    default: break;
    }
}
static inline int64_t loss_index(const void *p, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_INT64: return *(const int64_t *)p;
    case NBX_INT32: return *(const int32_t *)p;
    case NBX_UINT8: return *(const uint8_t *)p;
    default: return 0;
    }
}

nbx_status nll_loss_cpu(nbx_op_call *c);
nbx_status multi_margin_loss_cpu(nbx_op_call *c);
nbx_status multilabel_margin_loss_cpu(nbx_op_call *c);
nbx_status ctc_loss_cpu(nbx_op_call *c);

#ifdef __cplusplus
}
#endif
#endif
