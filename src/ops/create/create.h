// What the files of this folder share.
#ifndef NBX_OPS_CREATE_CREATE_H
#define NBX_OPS_CREATE_CREATE_H

#include "ops/op.h"

// The dtype argument, or the one that stands when it is absent.
static inline nbx_dtype create_dtype(const nbx_op_call *c, int arg, nbx_dtype absent) {
    const nbx_dtype d = arg_dtype(c, arg);
    return d == NBX_DTYPE_NONE ? absent : d;
}
static inline nbx_status create_status(const nbx_op_call *c, const nbx_tensor *t) { return t ? NBX_OK : c->ctx->status; }

#endif
