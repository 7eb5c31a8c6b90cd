// layer_norm(x, normalized_shape, weight, bias, eps): y = (x - mean) / sqrt(var + eps) * weight + bias over the last dims,
// and rms_norm: y = x / sqrt(mean(x^2) + eps) * weight.
//   x float16 bfloat16 float32 float64; weight, bias [normalized_shape], dtype of x, or float32 beside halves; y contiguous
//   mean, rstd: shape of x with 1 for the normalised dims; dtype of x, float32 when mixed (rms_norm: the compute dtype)
//   source: aten::native_layer_norm, aten::_fused_rms_norm; moments by two passes over pieces in cache, joined by Chan's rule
#include "ops/compose.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"

#include <float.h>

nbx_status norm_dtypes(nbx_op_call *c, const nbx_tensor *x, int count, const nbx_tensor *const *parameters, nbx_dtype *stats) {
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const bool half = d == NBX_FLOAT16 || d == NBX_BFLOAT16;
    if (!half && d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
    bool mixed = false;
    for (int i = 0; i < count; i++) mixed |= parameters[i] && half && parameters[i]->dtype == NBX_FLOAT32;
    *stats = mixed ? NBX_FLOAT32 : d;
    for (int i = 0; i < count; i++) {
        if (!parameters[i] || (nbx_dtype)parameters[i]->dtype == *stats) continue;
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a parameter is %s where %s is expected", nbx_dtype_name((nbx_dtype)parameters[i]->dtype),
                             nbx_dtype_name(*stats));
    }
    return NBX_OK;
}

static nbx_status check_shapes(nbx_op_call *c, const nbx_tensor *x, int count, const int64_t *normalized, int parameters) {
    char want[NBX_SHAPE_TEXT], found[NBX_SHAPE_TEXT];
    if (count < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "normalized_shape is empty");
    nbx_shape_text(count, normalized, want, sizeof want);
    for (int i = 2; i < 2 + parameters; i++) {
        const nbx_tensor *p = arg_tensor(c, i);
        if (p && !nbx_shape_equal(p->rank, p->shape, count, normalized))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "a parameter has shape %s where %s is expected",
                                 nbx_shape_text(p->rank, p->shape, found, sizeof found), want);
    }
    if (x->rank < count || !nbx_shape_equal(count, x->shape + (x->rank - count), count, normalized))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "normalized_shape %s does not end the shape %s", want,
                             nbx_shape_text(x->rank, x->shape, found, sizeof found));
    return NBX_OK;
}

static nbx_status describe(nbx_op_call *c, layer_norm_job job, nbx_dtype stats) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t rows_end = x->rank - job.normalized;
    int64_t shape[NBX_MAX_RANK], n = 1;
    nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status == NBX_OK && job.rstd >= 0) status = nbx_call_need_target(c, job.rstd, stats);
    if (status != NBX_OK) return status;
    layer_norm_job *kept = nbx_call_state(c, sizeof job);
    if (!kept) return nbx_last_status(c->ctx);
    *kept = job;
    for (int d = 0; d < x->rank; d++) {
        shape[d] = d < rows_end ? x->shape[d] : 1;
        if (d >= rows_end) n *= x->shape[d];
    }
    c->scratch_bytes = (size_t)n * 2 * (x->dtype == NBX_FLOAT64 ? 8 : 4);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, x->shape, NULL)) return nbx_last_status(c->ctx);
    if (job.mean >= 0 && !out_new(c, job.mean, stats, x->rank, shape, NULL)) return nbx_last_status(c->ctx);
    if (job.rstd >= 0 && !out_new(c, job.rstd, stats, x->rank, shape, NULL)) return nbx_last_status(c->ctx);
    return NBX_OK;
}

static nbx_status infer_layer_norm(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *parameters[2] = {arg_tensor(c, 2), arg_tensor(c, 3)};
    const bool native = c->op->data != NULL;
    int count;
    nbx_dtype stats = NBX_FLOAT32;
    const int64_t *normalized = arg_ints(c, 1, &count);
    nbx_status status = check_shapes(c, x, count, normalized, 2);
    if (status == NBX_OK) status = norm_dtypes(c, x, 2, parameters, &stats);
    if (status != NBX_OK) return status;
    const layer_norm_job job = {arg_float(c, 4), false, 2, 3, native ? 1 : -1, native ? 2 : -1, count};
    return describe(c, job, stats);
}

static nbx_status infer_rms_norm(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const bool fused = c->op->data != NULL;
    int count;
    const int64_t *normalized = arg_ints(c, 1, &count);
    if (!nbx_dtype_is_float((nbx_dtype)x->dtype) || nbx_dtype_is_float8((nbx_dtype)x->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name((nbx_dtype)x->dtype));
    const nbx_status status = check_shapes(c, x, count, normalized, 1);
    if (status != NBX_OK) return status;
    const bool wide = x->dtype == NBX_FLOAT64;
    const layer_norm_job job = {arg_float_or(c, 3, wide ? DBL_EPSILON : (double)FLT_EPSILON), true, 2, -1, -1, fused ? 1 : -1, count};
    return describe(c, job, wide ? NBX_FLOAT64 : NBX_FLOAT32);
}

// The formula in other operators, for complex dtypes.
static nbx_status compose_complex_rms_norm(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *weight = arg_tensor(c, 2);
    int count;
    const int64_t *normalized = arg_ints(c, 1, &count);
    const nbx_status status = check_shapes(c, x, count, normalized, 1);
    if (status != NBX_OK) return status;
    int64_t dims[NBX_MAX_RANK];
    for (int i = 0; i < count; i++) dims[i] = x->rank - count + i;
    const double eps = arg_float_or(c, 3, x->dtype == NBX_COMPLEX128 ? DBL_EPSILON : (double)FLT_EPSILON);
    const nbx_tensor *square = NBX_DO(ctx, "aten::mean.dim", T(do_mul(ctx, x, x)), nbx_of_ints(dims, count), B(true));
    const nbx_tensor *rstd = do_unary(ctx, "aten::rsqrt", NBX_DO(ctx, "aten::add.Scalar", T(square), F(eps)));
    const nbx_tensor *y = do_mul(ctx, x, rstd);
    if (weight) y = do_mul(ctx, y, weight);
    return out_tensor(c, 0, y ? do_cast(ctx, y, (nbx_dtype)x->dtype) : NULL);
}

// Real x goes to the kernel of _fused_rms_norm. The result keeps a channels-last layout.
static nbx_status compose_rms_norm(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) return compose_complex_rms_norm(c);
    const nbx_tensor *y = NBX_DO(c->ctx, "aten::_fused_rms_norm", T(x), c->args[1], c->args[2], c->args[3]);
    const nbx_memory_format format = nbx_suggest_memory_format(x);
    if (y && format != NBX_CONTIGUOUS_FORMAT) y = NBX_DO(c->ctx, "aten::contiguous", T(y), nbx_of_memory_format(format));
    return out_tensor(c, 0, y);
}

static const bool with_statistics = true;

const nbx_op nbx_ops_layer_norm[] = {
    {.name = "aten::layer_norm", .infer = infer_layer_norm, .cpu = NBX_CPU_KERNEL(layer_norm_cpu)},
    {.name = "aten::native_layer_norm", .infer = infer_layer_norm, .cpu = NBX_CPU_KERNEL(layer_norm_cpu), .data = &with_statistics},
    {.name = "aten::_fused_rms_norm", .infer = infer_rms_norm, .cpu = NBX_CPU_KERNEL(layer_norm_cpu), .data = &with_statistics},
    {.name = "aten::rms_norm", .composite = compose_rms_norm},
    NBX_OPS_END,
};
