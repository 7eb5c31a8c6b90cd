// Rotary embedding by name, as language models ask for it (swiglu_fused is an elementwise row).
#include "ops/compose.h"

// x * cos + (-second half of x, first half of x) * sin, over the last dim. Halves are computed in float32 and rounded once.
static nbx_tensor *rotate(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *cos, const nbx_tensor *sin) {
    const int64_t half = x->shape[x->rank - 1] / 2;
    const nbx_dtype dtype = (nbx_dtype)x->dtype;
    if (dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16) {
        x = do_cast(ctx, x, NBX_FLOAT32), cos = do_cast(ctx, cos, NBX_FLOAT32), sin = do_cast(ctx, sin, NBX_FLOAT32);
        if (!x) return NULL;
    }
    const nbx_tensor *swapped[] = {do_unary(ctx, "aten::neg", do_slice(ctx, x, -1, half, x->shape[x->rank - 1])), do_slice(ctx, x, -1, 0, half)};
    if (!swapped[0] || !swapped[1]) return NULL;
    const nbx_tensor *other = NBX_DO(ctx, "aten::cat", nbx_of_tensors(swapped, 2), I(-1));
    return do_cast(ctx, do_add(ctx, do_mul(ctx, x, cos), do_mul(ctx, other, sin)), dtype);
}

// (q, k, cos, sin): q, k [batch, heads, length, size]; cos, sin broadcast to them.
static nbx_status rope(nbx_op_call *c) {
    for (int i = 0; i < 2; i++) {
        const nbx_tensor *x = arg_tensor(c, i);
        if (x->rank < 1 || x->shape[x->rank - 1] % 2)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "the last dim of %s must be even", c->schema->params[i].name);
        const nbx_status status = out_tensor(c, i, rotate(c->ctx, x, arg_tensor(c, 2), arg_tensor(c, 3)));
        if (status) return status;
    }
    return NBX_OK;
}

const nbx_op nbx_ops_fused[] = {
    {.name = "nbx::rope_fused", .composite = rope},
    NBX_OPS_END,
};
