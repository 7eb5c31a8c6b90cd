// eye: zeros with ones on the diagonal.
#include "ops/compose.h"
#include "ops/create/create.h"
#include "ops/elementwise/elementwise.h"

static nbx_status eye_of(nbx_op_call *c, int64_t rows, int64_t columns, int dtype_arg) {
    const nbx_dtype dtype = create_dtype(c, dtype_arg, NBX_FLOAT32);
    if (rows < 0 || columns < 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes must not be negative, but are %lld and %lld", (long long)rows, (long long)columns);
    if (EW_BIT(dtype) & EW_UINTS) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(dtype));
    nbx_tensor *y = do_full(c->ctx, c->device, dtype, 2, (int64_t[]){rows, columns}, I(0));
    if (!NBX_DO(c->ctx, "aten::fill_.Scalar", T(NBX_DO(c->ctx, "aten::diagonal", T(y))), I(1))) return c->ctx->status;
    return out_tensor(c, 0, y);
}

static nbx_status eye(nbx_op_call *c) { return eye_of(c, arg_int(c, 0), arg_int(c, 0), 1); }
static nbx_status eye_m(nbx_op_call *c) { return eye_of(c, arg_int(c, 0), arg_int(c, 1), 2); }

const nbx_op nbx_ops_eye[] = {
    {.name = "aten::eye", .composite = eye},
    {.name = "aten::eye.m", .composite = eye_m},
    NBX_OPS_END,
};
