// What the files of this folder share.
#ifndef NBX_OPS_CREATE_CREATE_H
#define NBX_OPS_CREATE_CREATE_H

#include "ops/op.h"

// The dtype of the target, else of the dtype argument, else the one that stands when that is absent.
static inline nbx_dtype create_dtype(const nbx_op_call *c, int arg, nbx_dtype absent) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (target) return (nbx_dtype)target->dtype;
    const nbx_dtype d = arg_dtype(c, arg);
    return d == NBX_DTYPE_NONE ? absent : d;
}
static inline nbx_status create_status(const nbx_op_call *c, const nbx_tensor *t) { return t ? NBX_OK : c->ctx->status; }

#endif
