// Sums, means, products and counts: sum, nansum, mean, nanmean, prod, any, all, count_nonzero, logsumexp, trace.
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

static reduce_job job_of(reduce_op op, reduce_finish finish, nbx_dtype cast, uint64_t mask) {
    reduce_job job = {.op = (uint8_t)op, .finish = (uint8_t)finish, .cast = (uint8_t)cast, .mask = mask};
    return job;
}

// sum(x, dims, keepdim, dtype): x cast to dtype, then summed; dims absent or empty: all of them.
static nbx_status describe_sum(nbx_op_call *c, reduce_op op, reduce_finish finish, uint64_t mask, bool keepdim, int dtype_arg) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype dtype = reduce_sum_dtype(c, x, dtype_arg);
    return reduce_describe(c, x, job_of(op, finish, dtype, mask), keepdim, dtype, NBX_DTYPE_NONE);
}

// Without dims the dtype of out= does not count.
static nbx_status describe_all(nbx_op_call *c, reduce_op op) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_dtype dtype = arg_dtype(c, 1);
    if (dtype == NBX_DTYPE_NONE) dtype = nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? NBX_INT64 : (nbx_dtype)x->dtype;
    return reduce_describe(c, x, job_of(op, REDUCE_PLAIN, dtype, reduce_all_dims(x->rank)), false, dtype, NBX_DTYPE_NONE);
}
static nbx_status infer_sum_all(nbx_op_call *c) { return describe_all(c, REDUCE_SUM); }
static nbx_status infer_prod_all(nbx_op_call *c) { return describe_all(c, REDUCE_PROD); }

static nbx_status infer_sum_dims(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, true, &mask);
    return status == NBX_OK ? describe_sum(c, REDUCE_SUM, REDUCE_PLAIN, mask, arg_bool(c, 2), 3) : status;
}

static nbx_status infer_nansum(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "complex inputs are not supported");
    const nbx_status status = nbx_call_dims(c, 1, x->rank, true, &mask);
    if (status != NBX_OK) return status;
    const reduce_op op = nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? REDUCE_SUM : REDUCE_NANSUM;
    return describe_sum(c, op, REDUCE_PLAIN, mask, arg_bool(c, 2), 3);
}

// mean: only of floating point and complex dtypes, after the cast.
static nbx_status describe_mean(nbx_op_call *c, uint64_t mask, bool keepdim, int dtype_arg) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype asked = arg_dtype(c, dtype_arg), in = asked == NBX_DTYPE_NONE ? (nbx_dtype)x->dtype : asked;
    if (nbx_dtype_is_integral(in, true))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs a floating point or complex dtype, found %s", nbx_dtype_name(in));
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (target && nbx_dtype_is_integral((nbx_dtype)target->dtype, true))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a mean can't be cast to %s", nbx_dtype_name((nbx_dtype)target->dtype));
    return describe_sum(c, REDUCE_SUM, REDUCE_MEAN, mask, keepdim, dtype_arg);
}

static nbx_status infer_mean_all(nbx_op_call *c) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (target && !nbx_can_cast((nbx_dtype)arg_tensor(c, 0)->dtype, (nbx_dtype)target->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a complex mean can't be cast to %s", nbx_dtype_name((nbx_dtype)target->dtype));
    return describe_mean(c, reduce_all_dims(arg_tensor(c, 0)->rank), false, 1);
}

static nbx_status infer_mean_dims(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, true, &mask);
    return status == NBX_OK ? describe_mean(c, mask, arg_bool(c, 2), 3) : status;
}

static nbx_status describe_prod(nbx_op_call *c, uint64_t mask, bool keepdim, int dtype_arg) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype dtype = reduce_sum_dtype(c, x, dtype_arg);
    return reduce_describe(c, x, job_of(REDUCE_PROD, REDUCE_PLAIN, dtype, mask), keepdim, dtype, NBX_DTYPE_NONE);
}

static nbx_status infer_prod_dim(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = reduce_one_dim(c, 1, arg_tensor(c, 0)->rank, &mask);
    return status == NBX_OK ? describe_prod(c, mask, arg_bool(c, 2), 3) : status;
}

// nanmean = nansum / number of elements that are not NaN.
static nbx_status compose_nanmean(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_status status = nbx_call_need_float(c, x, true);
    if (status != NBX_OK) return status;
    const nbx_tensor *number = do_unary(ctx, "aten::logical_not", do_unary(ctx, "aten::isnan", x));
    const nbx_tensor *count = NBX_DO(ctx, "aten::sum.dim_IntList", T(number), c->args[1], c->args[2]);
    const nbx_tensor *sum = NBX_DO(ctx, "aten::nansum", T(x), c->args[1], c->args[2], c->args[3]);
    return out_tensor(c, 0, do_div(ctx, sum, count));
}

// --------------------------------------------------------------------------------------------------------- truth, counts
// any, all: bool, but uint8 for uint8.
static nbx_status describe_truth(nbx_op_call *c, reduce_finish finish, uint64_t mask, bool keepdim) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = nbx_call_target(c, 0);
    nbx_dtype dtype = x->dtype == NBX_UINT8 ? NBX_UINT8 : NBX_BOOL;
    if (target && (target->dtype == NBX_UINT8 || target->dtype == NBX_BOOL)) dtype = (nbx_dtype)target->dtype;
    return reduce_describe(c, x, job_of(REDUCE_COUNT, finish, NBX_BOOL, mask), keepdim, dtype, NBX_DTYPE_NONE);
}

static reduce_finish truth_of(const nbx_op_call *c) { return (reduce_finish)(uintptr_t)c->op->data; }

static nbx_status infer_truth_all(nbx_op_call *c) {
    return describe_truth(c, truth_of(c), reduce_all_dims(arg_tensor(c, 0)->rank), false);
}

static nbx_status infer_truth_dim(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = reduce_one_dim(c, 1, arg_tensor(c, 0)->rank, &mask);
    return status == NBX_OK ? describe_truth(c, truth_of(c), mask, arg_bool(c, 2)) : status;
}

// Dims absent: all; an empty list: none.
static nbx_status infer_truth_dims(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, false, &mask);
    return status == NBX_OK ? describe_truth(c, truth_of(c), mask, arg_bool(c, 2)) : status;
}

static nbx_status describe_count(nbx_op_call *c, uint64_t mask) {
    return reduce_describe(c, arg_tensor(c, 0), job_of(REDUCE_COUNT, REDUCE_PLAIN, NBX_BOOL, mask), false, NBX_INT64, NBX_DTYPE_NONE);
}

static nbx_status infer_count_dim(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = reduce_one_dim(c, 1, arg_tensor(c, 0)->rank, &mask);
    return status == NBX_OK ? describe_count(c, mask) : status;
}

static nbx_status infer_count_dims(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, true, &mask);
    return status == NBX_OK ? describe_count(c, mask) : status;
}

// --------------------------------------------------------------------------------------------------------------- others
// logsumexp(x, dims): log(sum(exp(x))), about the maximum; integers give the default float.
static nbx_status infer_logsumexp(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, x->rank, true, &mask);
    if (status != NBX_OK) return status;
    if (c->args[1].count == 0 && c->args[1].kind != NBX_KIND_INT && x->rank > 0 && !arg_bool(c, 2) && !nbx_dtype_is_complex((nbx_dtype)x->dtype))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "no dims to reduce, and no keepdim: ATen's result does not fit its own shape");
    nbx_dtype dtype = nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? NBX_FLOAT32 : (nbx_dtype)x->dtype;
    const nbx_tensor *target = nbx_call_target(c, 0);  // a wider out= gets more than the digits of a half
    if (target && (target->dtype == NBX_FLOAT32 || target->dtype == NBX_FLOAT64) && nbx_dtype_size(dtype) == 2) dtype = NBX_FLOAT32;
    reduce_job job = job_of(REDUCE_LOGSUMEXP, REDUCE_LOG, dtype, mask);
    job.any_target = true;
    return reduce_describe(c, x, job, arg_bool(c, 2), dtype, NBX_DTYPE_NONE);
}

// trace: the diagonal as a strided vector, summed; integers to int64.
static nbx_status compose_trace(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a matrix, found a tensor of rank %d", x->rank);
    const nbx_dtype dtype = nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? NBX_INT64 : (nbx_dtype)x->dtype;
    const nbx_status status = nbx_call_need_target(c, 0, dtype);
    if (status != NBX_OK) return status;
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::sum", T(NBX_DO(c->ctx, "aten::diagonal", T(x), I(0), I(0), I(1)))));
}

// sum_to_size(x, size): sums the dims that broadcasting would have added or stretched.
static nbx_status compose_sum_to_size(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int count, stretched = 0;
    const int64_t *size = arg_ints(c, 1, &count);
    int64_t dims[NBX_MAX_RANK];
    const int lead = x->rank - count;
    bool fits = lead >= 0;
    for (int d = 0; d < x->rank && fits; d++) {
        if (d < lead) dims[stretched++] = d;
        else if (size[d - lead] == 1 && x->shape[d] != 1) dims[stretched++] = d;
        else fits = size[d - lead] == x->shape[d];
    }
    if (!fits) {
        char want[NBX_SHAPE_TEXT], found[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %s is not expandable to %s", nbx_shape_text(count, size, want, sizeof want),
                             nbx_shape_text(x->rank, x->shape, found, sizeof found));
    }
    if (count == 0) return out_tensor(c, 0, NBX_DO(c->ctx, "aten::sum", T(x)));
    if (stretched == 0) return out_tensor(c, 0, x);
    const nbx_tensor *sum = do_sum(c->ctx, x, stretched, dims, true);
    return out_tensor(c, 0, lead > 0 ? do_view(c->ctx, sum, count, size) : sum);
}

// -------------------------------------------------------------------------------------------------------------- prims
// prims.sum(x, dims, output_dtype): the same sum; the result is converted, not the input.
static nbx_status compose_prims_sum(nbx_op_call *c) {
    const nbx_tensor *sum = NBX_DO(c->ctx, "aten::sum.dim_IntList", T(arg_tensor(c, 0)), c->args[1], B(false), c->args[2]);
    return out_tensor(c, 0, sum);
}

static nbx_status compose_prims_amax(nbx_op_call *c) {
    const nbx_value dims = arg_is_none(c, 1) ? nbx_of_ints(NULL, 0) : c->args[1];
    const nbx_tensor *most = NBX_DO(c->ctx, "aten::amax", T(arg_tensor(c, 0)), dims);
    if (!arg_is_none(c, 2)) most = do_cast(c->ctx, most, arg_dtype(c, 2));
    return out_tensor(c, 0, most);
}

static nbx_status compose_prims_var(nbx_op_call *c) {
    const nbx_tensor *var = NBX_DO(c->ctx, "aten::var.correction", T(arg_tensor(c, 0)), c->args[1], c->args[2]);
    if (!arg_is_none(c, 3)) var = do_cast(c->ctx, var, arg_dtype(c, 3));
    return out_tensor(c, 0, var);
}

#define TRUTH(NAME, INFER, FINISH)                                                                                     \
    {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(reduce_cpu), .data = (const void *)(uintptr_t)FINISH}
#define COMPOSITE(NAME, FUNCTION) {.name = NAME, .composite = FUNCTION}

const nbx_op nbx_ops_reduce_sums[] = {
    NBX_REDUCTION("aten::sum", infer_sum_all),
    NBX_REDUCTION("aten::sum.dim_IntList", infer_sum_dims),
    NBX_REDUCTION("aten::nansum", infer_nansum),
    NBX_REDUCTION("aten::mean", infer_mean_all),
    NBX_REDUCTION("aten::mean.dim", infer_mean_dims),
    NBX_REDUCTION("aten::prod", infer_prod_all),
    NBX_REDUCTION("aten::prod.dim_int", infer_prod_dim),
    COMPOSITE("aten::nanmean", compose_nanmean),
    TRUTH("aten::any", infer_truth_all, REDUCE_ANY),
    TRUTH("aten::any.dim", infer_truth_dim, REDUCE_ANY),
    TRUTH("aten::any.dims", infer_truth_dims, REDUCE_ANY),
    TRUTH("aten::all", infer_truth_all, REDUCE_ALL),
    TRUTH("aten::all.dim", infer_truth_dim, REDUCE_ALL),
    TRUTH("aten::all.dims", infer_truth_dims, REDUCE_ALL),
    NBX_REDUCTION("aten::count_nonzero", infer_count_dim),
    NBX_REDUCTION("aten::count_nonzero.dim_IntList", infer_count_dims),
    NBX_REDUCTION("aten::logsumexp", infer_logsumexp),
    COMPOSITE("aten::trace", compose_trace),
    COMPOSITE("aten::sum_to_size", compose_sum_to_size),
    COMPOSITE("prims::sum", compose_prims_sum),
    COMPOSITE("prims::amax", compose_prims_amax),
    COMPOSITE("prims::var", compose_prims_var),
    NBX_OPS_END,
};
