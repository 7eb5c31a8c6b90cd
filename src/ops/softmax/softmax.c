// softmax(x, dim): exp(x - max) / sum(exp(x - max)) along dim, and log_softmax, its logarithm.
//   x float16 bfloat16 float32 float64 (any dtype when dtype= converts it); result contiguous, of the converted dtype
//   half_to_float: a half x gives a float32 result
//   source: aten::_softmax, aten::_log_softmax; rows of only -inf are NaN, except in _safe_softmax
#include "ops/softmax/softmax.h"

#include <math.h>

#include "ops/compose.h"
#include "ops/reduce/reduce.h"

typedef struct form {
    bool log, safe, half_to_float;
} form;

static const form plain = {false, false, true}, logarithm = {true, false, true};
static const form plain_dtype = {false, false, false}, logarithm_dtype = {true, false, false}, safe_dtype = {false, true, false};

static nbx_status infer(nbx_op_call *c) {
    const form *f = c->op->data;
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_dtype dtype = (nbx_dtype)x->dtype;
    int dim;
    const nbx_status status = nbx_call_dim(c, arg_int(c, 1), x->rank, &dim);
    if (status != NBX_OK) return status;
    if (!f->half_to_float && !arg_is_none(c, 2)) dtype = arg_dtype(c, 2);
    if (dtype == NBX_DTYPE_NONE || !nbx_dtype_is_float(dtype) || nbx_dtype_is_float8(dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(dtype));
    if (f->half_to_float && arg_bool(c, 2)) {
        if (dtype != NBX_FLOAT16 && dtype != NBX_BFLOAT16)
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "half_to_float needs a half input, found %s", nbx_dtype_name(dtype));
        dtype = NBX_FLOAT32;
    }
    const nbx_status fits = nbx_call_need_target(c, 0, dtype);
    if (fits != NBX_OK) return fits;
    softmax_job *job = nbx_call_state(c, sizeof *job);
    if (!job) return nbx_last_status(c->ctx);
    *job = (softmax_job){dim, f->log, f->safe};
    return out_new(c, 0, dtype, x->rank, x->shape, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

// _masked_softmax(self, mask, dim, mask_type): softmax of what the mask leaves; the rest is 0. A mask of another shape is,
// for self [batch, heads, length, length], that of attention [length, length] (type 0) or of keys [batch, length] (type 1).
static nbx_status masked(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    const int64_t type = arg_int_or(c, 3, 2), dim = arg_int_or(c, 2, x->rank - 1);
    if (mask->dtype != NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask must be bool, found %s", nbx_dtype_name((nbx_dtype)mask->dtype));
    if (type < 0 || type > 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mask_type %lld is not 0, 1 or 2", (long long)type);
    if (!nbx_same_shape(x, mask)) {
        const bool fits = type < 2 && x->rank == 4 && mask->rank == 2 && mask->shape[1] == x->shape[3] && mask->shape[0] == x->shape[type == 0 ? 2 : 0];
        if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the mask does not fit self");
        const int64_t attention[4] = {1, 1, mask->shape[0], mask->shape[1]}, keys[4] = {mask->shape[0], 1, 1, mask->shape[1]};
        mask = do_reshape(c->ctx, mask, 4, type == 0 ? attention : keys);
    }
    const nbx_tensor *left = NBX_DO(c->ctx, "aten::masked_fill.Scalar", T(x), T(mask), F(-(double)INFINITY));
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::_softmax", T(left), I(dim), B(false)));
}

// The gradients: (g - sum(g y)) y of softmax, g - exp(y) sum(g) of log_softmax, with y the result; sums along dim. Halves are
// computed in float32 and rounded once.
static nbx_status backward(nbx_op_call *c, bool log) {
    nbx_context *ctx = c->ctx;
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype, wide = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : dtype;
    const int64_t dim = arg_int(c, 2);
    if (arg_tensor(c, 1)->dtype != dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "grad_output is %s, output %s", nbx_dtype_name(dtype), nbx_dtype_name((nbx_dtype)arg_tensor(c, 1)->dtype));
    if (nbx_call_need_float(c, arg_tensor(c, 0), false) != NBX_OK) return ctx->status;
    if (!nbx_same_shape(arg_tensor(c, 0), arg_tensor(c, 1))) return nbx_call_fail(c, NBX_ERROR_SHAPE, "grad_output and output differ in shape");
    const nbx_tensor *g = do_cast(ctx, arg_tensor(c, 0), wide), *y = do_cast(ctx, arg_tensor(c, 1), wide), *sum, *x;
    if (log) {
        sum = do_sum(ctx, g, 1, &dim, true);
        x = do_sub(ctx, g, do_mul(ctx, do_unary(ctx, "aten::exp", y), sum));
    } else {
        const nbx_tensor *gy = do_mul(ctx, g, y);
        sum = do_sum(ctx, gy, 1, &dim, true);
        x = do_sub(ctx, gy, do_mul(ctx, y, sum));
    }
    return out_tensor(c, 0, do_contiguous(ctx, do_cast(ctx, x, dtype)));
}

static nbx_status softmax_backward(nbx_op_call *c) { return backward(c, false); }
static nbx_status log_softmax_backward(nbx_op_call *c) { return backward(c, true); }

#define SOFTMAX(NAME, FORM) {.name = NAME, .infer = infer, .cpu = NBX_CPU_KERNEL(softmax_cpu), .data = &FORM}

const nbx_op nbx_ops_softmax[] = {
    SOFTMAX("aten::_softmax", plain),
    SOFTMAX("aten::_log_softmax", logarithm),
    SOFTMAX("aten::softmax.int", plain_dtype),
    SOFTMAX("aten::log_softmax.int", logarithm_dtype),
    SOFTMAX("aten::_safe_softmax", safe_dtype),
    {.name = "aten::_masked_softmax", .composite = masked, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_softmax_backward_data", .composite = softmax_backward, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::_log_softmax_backward_data", .composite = log_softmax_backward, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
