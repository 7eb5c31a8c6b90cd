// What the files of this folder share.
#ifndef NBX_OPS_CREATE_CREATE_H
#define NBX_OPS_CREATE_CREATE_H

#include "ops/op.h"

// The tensor that an out= form writes; NULL in the functional form. It is the last argument.
static inline const nbx_tensor *create_target(const nbx_op_call *c) {
    return c->schema->params[c->arg_count - 1].written ? arg_tensor(c, c->arg_count - 1) : (const nbx_tensor *)0;
}
// The dtype of the target, else of the dtype argument, else the one that stands when that is absent.
static inline nbx_dtype create_dtype(const nbx_op_call *c, int arg, nbx_dtype absent) {
    const nbx_tensor *target = create_target(c);
    if (target) return (nbx_dtype)target->dtype;
    const nbx_dtype d = arg_dtype(c, arg);
    return d == NBX_DTYPE_NONE ? absent : d;
}
static inline nbx_status create_status(const nbx_op_call *c, const nbx_tensor *t) { return t ? NBX_OK : c->ctx->status; }

#endif
