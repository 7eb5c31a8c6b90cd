// Quantization that lives in ordinary tensors: quantized_decomposed::*, and ATen's fake_quantize_*. In short
//   quantize    clamp(round(x / scale) + zero_point, quant_min, quant_max), in float32, then an integer dtype
//   dequantize  (q - zero_point) * scale
// ATen's own quantized dtypes do not exist here; what makes them is refused by name.
#include "ops/compose.h"

#include <math.h>

// ---------------------------------------------------------------------------------------------------------------- parts
static nbx_tensor *scaled(nbx_context *ctx, const nbx_tensor *x, nbx_value by) { return NBX_DO(ctx, "aten::mul.Tensor", T(x), by); }
static nbx_tensor *shifted(nbx_context *ctx, const nbx_tensor *x, nbx_value by) { return NBX_DO(ctx, "aten::add.Tensor", T(x), by); }
static nbx_tensor *lowered(nbx_context *ctx, const nbx_tensor *x, nbx_value by) { return NBX_DO(ctx, "aten::sub.Tensor", T(x), by); }
static nbx_tensor *rounded(nbx_context *ctx, const nbx_tensor *x) { return do_unary(ctx, "aten::round", x); }
static nbx_tensor *clamped(nbx_context *ctx, const nbx_tensor *x, int64_t low, int64_t high) { return NBX_DO(ctx, "aten::clamp", T(x), I(low), I(high)); }
static nbx_tensor *inverse(nbx_context *ctx, const nbx_tensor *x) { return do_unary(ctx, "aten::reciprocal", x); }

// Both are the bounds of what fits: quant_min <= x <= quant_max.
static nbx_tensor *fits(nbx_context *ctx, const nbx_tensor *x, int64_t low, int64_t high) {
    return NBX_DO(ctx, "aten::logical_and", T(NBX_DO(ctx, "aten::ge.Scalar", T(x), I(low))), T(NBX_DO(ctx, "aten::le.Scalar", T(x), I(high))));
}

// A number, or the one element of a tensor.
static nbx_status read_number(nbx_op_call *c, int arg, nbx_value *number) {
    const nbx_tensor *t = arg_tensor(c, arg);
    *number = c->args[arg];
    if (!t) return NBX_OK;
    if (t->numel != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s must have one element, not %lld", c->schema->params[arg].name, (long long)t->numel);
    return nbx_do_many(c->ctx, "aten::_local_scalar_dense", 1, (nbx_value[]){T(t)}, number, 1);
}

// Do quant_min and quant_max lie within the dtype of quantized values?
static nbx_status check_bounds(nbx_op_call *c, nbx_dtype dtype, int64_t low, int64_t high) {
    static const struct { nbx_dtype dtype; int64_t low, high; } limits[] = {
        {NBX_UINT8, 0, 255}, {NBX_INT8, -128, 127}, {NBX_UINT16, 0, 65535}, {NBX_INT16, -32768, 32767},
        {NBX_INT32, INT32_MIN, INT32_MAX}, {NBX_FLOAT8_E5M2, -57344, 57344}, {NBX_FLOAT8_E4M3FN, -448, 448},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].dtype != dtype) continue;
        if (low >= limits[i].low && high <= limits[i].high) return NBX_OK;
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "quant_min %lld and quant_max %lld do not fit %s", (long long)low, (long long)high, nbx_dtype_name(dtype));
    }
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is no dtype of quantized values", nbx_dtype_name(dtype));
}

static nbx_status check_dtype(nbx_op_call *c, const nbx_tensor *x, nbx_dtype dtype) {
    if ((nbx_dtype)x->dtype == dtype) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an input of %s, found %s", nbx_dtype_name(dtype), nbx_dtype_name((nbx_dtype)x->dtype));
}

// float16 and bfloat16 as float32, which is what quantizing takes. NULL fails the call.
static nbx_tensor *as_float(nbx_op_call *c, const nbx_tensor *x) {
    if (x->dtype == NBX_FLOAT16 || x->dtype == NBX_BFLOAT16) return do_cast(c->ctx, x, NBX_FLOAT32);
    return check_dtype(c, x, NBX_FLOAT32) == NBX_OK ? (nbx_tensor *)x : NULL;
}

// One number for each index of dim 0, broadcast over a tensor of this rank.
static nbx_tensor *along_first(nbx_context *ctx, const nbx_tensor *t, int rank) {
    int64_t shape[NBX_MAX_RANK] = {t->shape[0]};
    for (int i = 1; i < rank; i++) shape[i] = 1;
    return do_view(ctx, t, rank, shape);
}

// Exchanges dim 0 and the axis: its own inverse. The results keep the strides of that.
static nbx_tensor *axis_first(nbx_context *ctx, const nbx_tensor *x, int axis) { return do_transpose(ctx, x, 0, axis); }

static nbx_status check_channels(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *scales, const nbx_tensor *zero_points, int *axis) {
    if (scales->rank < 1 || (zero_points && zero_points->numel != scales->shape[0]))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "scales and zero_points must be lists of one length");
    return nbx_call_dim(c, arg_int(c, 3), x->rank, axis);
}

// ----------------------------------------------------------------------------------------------- quantized_decomposed::*
// quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype): numbers, or tensors of one element
static nbx_status quantize_per_tensor(nbx_op_call *c) {
    nbx_value n[5] = {{0}};
    nbx_status status = NBX_OK;
    for (int i = 1; i <= 4 && status == NBX_OK; i++) status = read_number(c, i, &n[i]);
    if (status != NBX_OK) return status;
    const int64_t low = nbx_scalar_to_int(&n[3]), high = nbx_scalar_to_int(&n[4]);
    const nbx_tensor *x = as_float(c, arg_tensor(c, 0));
    if (!x || check_bounds(c, arg_dtype(c, 5), low, high) != NBX_OK) return c->ctx->status;
    if (nbx_scalar_to_double(&n[1]) == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the scale is 0");
    const nbx_tensor *q = shifted(c->ctx, rounded(c->ctx, scaled(c->ctx, x, F(1 / nbx_scalar_to_double(&n[1])))), n[2]);
    return out_tensor(c, 0, do_cast(c->ctx, clamped(c->ctx, q, low, high), arg_dtype(c, 5)));
}

// dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype)
static nbx_status dequantize_per_tensor(nbx_op_call *c) {
    nbx_value scale = {0}, zero_point = {0};
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype dtype = arg_dtype(c, 6) == NBX_DTYPE_NONE ? NBX_FLOAT32 : arg_dtype(c, 6);
    nbx_status status = read_number(c, 1, &scale);
    if (status == NBX_OK) status = read_number(c, 2, &zero_point);
    if (status == NBX_OK) status = check_dtype(c, x, arg_dtype(c, 5));
    if (status == NBX_OK) status = check_bounds(c, arg_dtype(c, 5), 0, 0);
    if (status != NBX_OK) return status;
    return out_tensor(c, 0, scaled(c->ctx, lowered(c->ctx, do_cast(c->ctx, x, dtype), zero_point), scale));
}

// quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype)
static nbx_status quantize_per_channel(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = as_float(c, arg_tensor(c, 0)), *scales = arg_tensor(c, 1), *zero_points = arg_tensor(c, 2);
    const int64_t low = arg_int(c, 4), high = arg_int(c, 5);
    int axis;
    if (!x || check_channels(c, x, scales, zero_points, &axis) != NBX_OK || check_bounds(c, arg_dtype(c, 6), low, high) != NBX_OK) return ctx->status;
    const nbx_tensor *by = inverse(ctx, along_first(ctx, scales, x->rank)), *zero = along_first(ctx, zero_points, x->rank);
    const nbx_tensor *q = clamped(ctx, shifted(ctx, rounded(ctx, scaled(ctx, axis_first(ctx, x, axis), T(by))), T(zero)), low, high);
    return out_tensor(c, 0, do_cast(ctx, axis_first(ctx, q, axis), arg_dtype(c, 6)));
}

// dequantize_per_channel(input, scales, zero_points?, axis, quant_min, quant_max, dtype, *, out_dtype)
static nbx_status dequantize_per_channel(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *scales = arg_tensor(c, 1), *zero_points = arg_tensor(c, 2);
    const nbx_dtype dtype = arg_dtype(c, 7) == NBX_DTYPE_NONE ? NBX_FLOAT32 : arg_dtype(c, 7);
    int axis;
    if (check_dtype(c, x, arg_dtype(c, 6)) != NBX_OK || check_channels(c, x, scales, zero_points, &axis) != NBX_OK ||
        check_bounds(c, arg_dtype(c, 6), arg_int(c, 4), arg_int(c, 5)) != NBX_OK)
        return ctx->status;
    const nbx_tensor *y = axis_first(ctx, x, axis);
    if (zero_points) y = lowered(ctx, y, T(along_first(ctx, zero_points, x->rank)));
    y = do_cast(ctx, scaled(ctx, y, T(along_first(ctx, scales, x->rank))), dtype);
    return out_tensor(c, 0, axis_first(ctx, y, axis));
}

// x as rows of group_size elements, each with a scale of its own; the zero point is added before rounding.
static nbx_tensor *quantize_rows(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *scales, const nbx_tensor *zero_points) {
    const nbx_tensor *q = rounded(c->ctx, shifted(c->ctx, scaled(c->ctx, x, T(inverse(c->ctx, scales))), T(zero_points)));
    return do_cast(c->ctx, clamped(c->ctx, q, arg_int(c, 3), arg_int(c, 4)), arg_dtype(c, 5));
}
static nbx_tensor *dequantize_rows(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *scales, nbx_value zero_points, nbx_dtype dtype) {
    return do_cast(c->ctx, scaled(c->ctx, lowered(c->ctx, x, zero_points), T(scales)), dtype);
}

// quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype), dequantize_per_token(..., output_dtype):
// scales and zero_points have one element for every row along the last dim.
static nbx_status check_tokens(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t tokens = 1;
    for (int i = 0; i + 1 < x->rank; i++) tokens *= x->shape[i];
    if (tokens == arg_tensor(c, 1)->numel && tokens == arg_tensor(c, 2)->numel) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld tokens need as many scales and zero_points", (long long)tokens);
}
static nbx_status quantize_per_token(nbx_op_call *c) {
    if (check_bounds(c, arg_dtype(c, 5), arg_int(c, 3), arg_int(c, 4)) != NBX_OK || check_tokens(c) != NBX_OK) return c->ctx->status;
    return out_tensor(c, 0, quantize_rows(c, arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2)));
}
static nbx_status dequantize_per_token(nbx_op_call *c) {
    return out_tensor(c, 0, dequantize_rows(c, arg_tensor(c, 0), arg_tensor(c, 1), T(arg_tensor(c, 2)), arg_dtype(c, 6)));
}

// quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size), dequantize_...(..., output_dtype):
// every group_size elements of the last dim share a scale.
static nbx_tensor *in_groups(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *scales) {
    int64_t size = arg_int(c, 6);
    if (x->rank != 2 || scales->rank < 1) {
        nbx_call_fail(c, NBX_ERROR_SHAPE, "input must have 2 dims, not %d", x->rank);
        return NULL;
    }
    if (size > x->shape[1] && scales->shape[scales->rank - 1] == 1) size = x->shape[1];
    if (arg_int(c, 6) <= 1 || size < 1 || x->shape[1] % size != 0) {
        nbx_call_fail(c, NBX_ERROR_ARGUMENT, "groups of %lld do not divide a row of %lld", (long long)size, (long long)x->shape[1]);
        return NULL;
    }
    return do_reshape(c->ctx, x, 2, (int64_t[]){-1, size});
}
static nbx_tensor *as_column(nbx_op_call *c, const nbx_tensor *t) { return do_reshape(c->ctx, t, 2, (int64_t[]){-1, 1}); }
static nbx_status quantize_per_channel_group(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *rows = in_groups(c, x, arg_tensor(c, 1));
    const nbx_tensor *q = quantize_rows(c, rows, as_column(c, arg_tensor(c, 1)), as_column(c, arg_tensor(c, 2)));
    return out_tensor(c, 0, do_reshape(c->ctx, q, 2, x->shape));
}
static nbx_status dequantize_per_channel_group(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *rows = in_groups(c, x, arg_tensor(c, 1));
    const nbx_value zero = arg_is_none(c, 2) ? I(0) : T(as_column(c, arg_tensor(c, 2)));
    const nbx_tensor *y = dequantize_rows(c, rows, as_column(c, arg_tensor(c, 1)), zero, arg_dtype(c, 7));
    return out_tensor(c, 0, do_reshape(c->ctx, y, 2, x->shape));
}

// --------------------------------------------------------------------------------------------------- aten::fake_quantize_*
static nbx_status check_order(nbx_op_call *c, int64_t low, int64_t high) {
    if (nbx_call_need_float(c, arg_tensor(c, 0), false) != NBX_OK) return c->ctx->status;
    return low <= high ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "quant_min %lld is above quant_max %lld", (long long)low, (long long)high);
}

// The dtype steps are computed in: float64 for float64, else float32.
static nbx_tensor *widened(nbx_context *ctx, const nbx_tensor *x) { return x->dtype == NBX_FLOAT64 ? (nbx_tensor *)x : do_cast(ctx, x, NBX_FLOAT32); }

// The result, and where it was not clamped, if the form asks for that.
static nbx_status give(nbx_op_call *c, const nbx_tensor *y, const nbx_tensor *mask) {
    const nbx_status status = out_tensor(c, 0, do_cast(c->ctx, y, (nbx_dtype)arg_tensor(c, 0)->dtype));
    return status == NBX_OK && c->schema->result_count > 1 ? out_tensor(c, 1, mask) : status;
}

// Steps of one size: q, clamped and widened again. Scale and zero are numbers or 0-dim tensors; NaN becomes quant_min.
static nbx_tensor *quantize_steps(nbx_op_call *c, nbx_value inverse, nbx_value scale, nbx_value zero, int64_t low, int64_t high, const nbx_tensor **mask) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *q = shifted(ctx, rounded(ctx, scaled(ctx, widened(ctx, arg_tensor(c, 0)), inverse)), zero);
    const nbx_tensor *low_t = nbx_wrap_number(ctx, c->device, &(nbx_value){.kind = NBX_KIND_INT, .as.integer = low}), *high_t = nbx_wrap_number(ctx, c->device, &(nbx_value){.kind = NBX_KIND_INT, .as.integer = high});
    const nbx_tensor *inside = NBX_DO(ctx, "aten::fmin", T(NBX_DO(ctx, "aten::fmax", T(q), T(low_t))), T(high_t));
    *mask = fits(ctx, q, low, high);
    return scaled(ctx, lowered(ctx, do_cast(ctx, inside, NBX_FLOAT32), zero), scale);
}

// (self, scale, zero_point, quant_min, quant_max): numbers of float32
static nbx_status fake_quantize_by(nbx_op_call *c, double scale, int64_t zero, int64_t low, int64_t high) {
    const nbx_tensor *mask = NULL;
    const float step = (float)scale;
    if (check_order(c, low, high) != NBX_OK) return c->ctx->status;
    if (zero < low || zero > high) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "zero_point %lld is not between quant_min and quant_max", (long long)zero);
    const nbx_tensor *y = quantize_steps(c, F((double)(1 / step)), F((double)step), I(zero), low, high, &mask);
    return give(c, y, mask);
}

static nbx_status fake_quantize_per_tensor(nbx_op_call *c) {
    return fake_quantize_by(c, arg_float(c, 1), arg_int(c, 2), arg_int(c, 3), arg_int(c, 4));
}

// The same with scale and zero_point in tensors of one element; of the longer form, argument 3 says whether to quantize at all.
static nbx_status fake_quantize_by_tensors(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const bool switched = c->schema->result_count > 1;
    const int64_t low = arg_int(c, 3 + switched), high = arg_int(c, 4 + switched);
    const nbx_tensor *self = arg_tensor(c, 0), *mask = NULL;
    if (check_order(c, low, high) != NBX_OK) return ctx->status;
    const nbx_tensor *scale = do_cast(ctx, do_reshape(ctx, arg_tensor(c, 1), 0, NULL), NBX_FLOAT32), *zero = do_reshape(ctx, arg_tensor(c, 2), 0, NULL);
    const nbx_tensor *y = zero && scale ? quantize_steps(c, T(inverse(ctx, scale)), T(scale), T(zero), low, high, &mask) : NULL;
    if (!y) return ctx->status;
    if (!switched) return give(c, y, mask);
    const nbx_tensor *off = NBX_DO(ctx, "aten::lt.Scalar", T(do_reshape(ctx, arg_tensor(c, 3), 0, NULL)), I(1));
    y = NBX_DO(ctx, "aten::where.self", T(off), T(self), T(do_cast(ctx, y, (nbx_dtype)self->dtype)));
    return give(c, y, NBX_DO(ctx, "aten::logical_or", T(mask), T(off)));
}

// Learned parameters: a zero point that is no integer is rounded (up from a half) and clamped first.
static nbx_status fake_quantize_learned(nbx_op_call *c) {
    double values[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const nbx_tensor *first = do_cast(c->ctx, do_select(c->ctx, do_reshape(c->ctx, arg_tensor(c, 1 + i), 1, (const int64_t[]){-1}), 0, 0), NBX_FLOAT64);
        if (!first || nbx_tensor_read(c->ctx, first, &values[i]) != NBX_OK) return c->ctx->status;
    }
    const int64_t low = arg_int(c, 3), high = arg_int(c, 4);
    const float zero = fminf(fmaxf((float)values[1] + 0.5f, (float)low), (float)high);
    return fake_quantize_by(c, values[0], (int64_t)zero, low, high);
}

// (self, scale, zero_point, axis, quant_min, quant_max): a zero point of floats is added before rounding, one of int32 after.
static nbx_status check_channel_form(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *scale = arg_tensor(c, 1), *zero = arg_tensor(c, 2);
    const int64_t axis = arg_int(c, 3), low = arg_int(c, 4), high = arg_int(c, 5);
    if (scale->dtype != NBX_FLOAT32 && scale->dtype != NBX_BFLOAT16)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "scale must be float32 or bfloat16, not %s", nbx_dtype_name((nbx_dtype)scale->dtype));
    if (zero->dtype != NBX_INT32 && zero->dtype != NBX_FLOAT32 && zero->dtype != NBX_FLOAT16)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "zero_point must be int32, float32 or float16, not %s", nbx_dtype_name((nbx_dtype)zero->dtype));
    if (scale->rank != 1 || zero->rank != 1 || scale->numel != zero->numel)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "scale and zero_point must have one dim of the same size");
    if (axis < 0 || axis >= self->rank) return nbx_call_fail(c, NBX_ERROR_INDEX, "axis %lld is out of range [0, %d]", (long long)axis, self->rank - 1);
    if (self->shape[axis] != scale->numel)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld scales do not match a dim of %lld", (long long)scale->numel, (long long)self->shape[axis]);
    if (check_order(c, low, high) != NBX_OK) return c->ctx->status;
    if (zero->dtype != NBX_INT32 || zero->numel == 0) return NBX_OK;
    const nbx_tensor *all = do_unary(c->ctx, "aten::all", fits(c->ctx, zero, low, high));
    return nbx_do_many(c->ctx, "aten::_assert_async.msg", 2, (nbx_value[]){T(all), nbx_of_string("zero_point must lie between quant_min and quant_max")}, NULL, 0);
}

static nbx_status fake_quantize_per_channel(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t low = arg_int(c, 4), high = arg_int(c, 5);
    if (check_channel_form(c) != NBX_OK) return ctx->status;
    int64_t shape[NBX_MAX_RANK];
    for (int i = 0; i < self->rank; i++) shape[i] = i == arg_int(c, 3) ? -1 : 1;
    const nbx_tensor *scale = do_cast(ctx, do_reshape(ctx, arg_tensor(c, 1), self->rank, shape), NBX_FLOAT32);
    const nbx_tensor *zero = do_reshape(ctx, arg_tensor(c, 2), self->rank, shape);
    if (!scale || !zero) return ctx->status;
    const nbx_tensor *q = scaled(ctx, widened(ctx, self), T(inverse(ctx, scale)));
    q = zero->dtype == NBX_INT32 ? shifted(ctx, rounded(ctx, q), T(zero)) : rounded(ctx, shifted(ctx, q, T(zero)));
    q = do_cast(ctx, q, NBX_INT64);
    const nbx_tensor *inside = do_cast(ctx, clamped(ctx, q, low, high), self->dtype == NBX_FLOAT64 ? NBX_FLOAT64 : NBX_FLOAT32);
    return give(c, scaled(ctx, lowered(ctx, inside, T(zero)), T(scale)), fits(ctx, q, low, high));
}

static nbx_status fake_quantize_learned_channels(nbx_op_call *c) {
    const nbx_tensor *zero = NBX_DO(c->ctx, "aten::clamp", T(do_unary(c->ctx, "aten::round", arg_tensor(c, 2))), c->args[4], c->args[5]);
    return NBX_FORWARD(c, "aten::fake_quantize_per_channel_affine", c->args[0], c->args[1], T(zero), c->args[3], c->args[4], c->args[5]);
}

// fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max)
static nbx_status fake_quant_per_channel(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0);
    int axis;
    if (check_dtype(c, x, NBX_FLOAT32) != NBX_OK || check_channels(c, x, arg_tensor(c, 1), arg_tensor(c, 2), &axis) != NBX_OK) return ctx->status;
    int64_t shape[NBX_MAX_RANK];
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis ? -1 : 1;
    const nbx_tensor *scale = do_cast(ctx, do_reshape(ctx, arg_tensor(c, 1), x->rank, shape), NBX_FLOAT32);
    const nbx_tensor *zero = do_cast(ctx, do_reshape(ctx, arg_tensor(c, 2), x->rank, shape), NBX_INT32);
    const nbx_tensor *q = shifted(ctx, rounded(ctx, scaled(ctx, x, T(inverse(ctx, scale)))), T(zero));
    return out_tensor(c, 0, scaled(ctx, lowered(ctx, clamped(ctx, q, arg_int(c, 4), arg_int(c, 5)), T(zero)), T(scale)));
}

// ----------------------------------------------------------------------------------------------------- quantized tensors
static nbx_status quantized_dtype(nbx_op_call *c) {
    return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "there are no quantized dtypes: export with quantized_decomposed::quantize_per_tensor");
}

// Of a tensor that is not quantized: its values in float32.
static nbx_status dequantize(nbx_op_call *c) { return NBX_FORWARD(c, "aten::to.dtype", c->args[0], nbx_of_dtype(NBX_FLOAT32)); }

#define DECOMPOSED(NAME, FUNCTION, FLAGS) {.name = "quantized_decomposed::" NAME, .composite = FUNCTION, .flags = FLAGS}

const nbx_op nbx_ops_quantize[] = {
    DECOMPOSED("quantize_per_tensor", quantize_per_tensor, 0),
    DECOMPOSED("quantize_per_tensor.tensor", quantize_per_tensor, NBX_OP_READS_BACK),
    DECOMPOSED("quantize_per_tensor.tensor2", quantize_per_tensor, NBX_OP_READS_BACK),
    DECOMPOSED("dequantize_per_tensor", dequantize_per_tensor, 0),
    DECOMPOSED("dequantize_per_tensor.tensor", dequantize_per_tensor, NBX_OP_READS_BACK),
    DECOMPOSED("dequantize_per_tensor.tensor2", dequantize_per_tensor, NBX_OP_READS_BACK),
    DECOMPOSED("quantize_per_channel", quantize_per_channel, 0),
    DECOMPOSED("dequantize_per_channel", dequantize_per_channel, 0),
    DECOMPOSED("quantize_per_channel_group", quantize_per_channel_group, 0),
    DECOMPOSED("dequantize_per_channel_group", dequantize_per_channel_group, 0),
    DECOMPOSED("quantize_per_token", quantize_per_token, 0),
    DECOMPOSED("dequantize_per_token", dequantize_per_token, 0),
    DECOMPOSED("fake_quant_per_channel", fake_quant_per_channel, 0),
    {.name = "aten::fake_quantize_per_tensor_affine", .composite = fake_quantize_per_tensor},
    {.name = "aten::fake_quantize_per_tensor_affine_cachemask", .composite = fake_quantize_per_tensor, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::fake_quantize_per_tensor_affine.tensor_qparams", .composite = fake_quantize_by_tensors},
    {.name = "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", .composite = fake_quantize_by_tensors, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_fake_quantize_learnable_per_tensor_affine", .composite = fake_quantize_learned, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT},
    {.name = "aten::_fake_quantize_learnable_per_channel_affine", .composite = fake_quantize_learned_channels, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::fake_quantize_per_channel_affine", .composite = fake_quantize_per_channel},
    {.name = "aten::fake_quantize_per_channel_affine_cachemask", .composite = fake_quantize_per_channel, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::quantize_per_tensor", .composite = quantized_dtype},
    {.name = "aten::dequantize.self", .composite = dequantize, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
