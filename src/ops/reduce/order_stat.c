// Order statistics: median, nanmedian, mode, quantile, nanquantile. Each gives the value and where it stood.
//   median: the lower one of an even number; NaN wins over all (nanmedian passes over them)
//   mode: the most frequent value, the smallest of equals, its last index
//   quantile(x, q): between neighbours in sorted order; NaN if there is one (nanquantile passes over them); q [..] gives a leading dim
//   source: aten::median, mode, quantile
#include <string.h>

#include "ops/compose.h"
#include "ops/reduce/order_stat.h"
#include "ops/reduce/reduce.h"
#include "ops/sort/keys.h"

static order_stat stat_of(const nbx_op_call *c) { return (order_stat)(uintptr_t)c->op->data; }

static nbx_status need_order(nbx_op_call *c, const nbx_tensor *x) {
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const bool bool_too = stat_of(c) == ORDER_MODE;
    if (!nbx_dtype_is_complex(d) && !nbx_dtype_is_float8(d) && (bool_too || d != NBX_BOOL)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
}

// Every thread sorts in a place of its own, with another one to merge into.
static nbx_status keep_job(nbx_op_call *c, order_job job, const nbx_tensor *x) {
    order_job *kept = nbx_call_state(c, sizeof job);
    if (!kept) return nbx_last_status(c->ctx);
    *kept = job;
    int64_t length = 1;
    for (int d = 0; d < x->rank; d++)
        if (job.mask >> d & 1) length *= x->shape[d];
    if (c->device.type == NBX_CPU) c->scratch_bytes = (size_t)nbx_context_threads(c->ctx) * 2 * (size_t)length * sizeof(order_item) + 64;
    else if (job.stat == ORDER_MODE || job.stat >= ORDER_QUANTILE) c->scratch_bytes = nbx_device_sort_bytes(length ? x->numel / length : 0, length);
    return NBX_OK;
}

static nbx_status describe(nbx_op_call *c, uint64_t mask, bool keepdim, bool with_index) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t shape[NBX_MAX_RANK];
    nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status == NBX_OK && with_index) status = nbx_call_need_target(c, 1, NBX_INT64);
    if (status == NBX_OK) status = keep_job(c, (order_job){mask, (uint8_t)stat_of(c), 0}, x);
    if (status != NBX_OK) return status;
    const int rank = reduce_shape(x, mask, keepdim, shape);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, rank, shape, NULL)) return nbx_last_status(c->ctx);
    if (with_index && !out_new(c, 1, NBX_INT64, rank, shape, NULL)) return nbx_last_status(c->ctx);
    return NBX_OK;
}

static nbx_status infer_all(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_status status = need_order(c, x);
    return status == NBX_OK ? describe(c, reduce_all_dims(x->rank), false, false) : status;
}

static nbx_status infer_dim(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    nbx_status status = need_order(c, x);
    if (status == NBX_OK) status = reduce_one_dim(c, 1, x->rank, &mask);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, true);
    return status == NBX_OK ? describe(c, mask, arg_bool(c, 2), true) : status;
}

// -------------------------------------------------------------------------------------------------------------- quantile
static nbx_status find_between(nbx_op_call *c, const char *name, uint8_t *between) {
    static const char *const names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    for (uint8_t i = 0; i < 5; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *between = i;
        return NBX_OK;
    }
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "interpolation %s is not known", name);
}

static nbx_status infer_quantile(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *q = arg_tensor(c, 1);
    order_job job = {.stat = (uint8_t)stat_of(c)};
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    if (x->numel == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the input has no elements");
    if (x->dtype != NBX_FLOAT32 && x->dtype != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected float32 or float64, found %s", nbx_dtype_name((nbx_dtype)x->dtype));
    if (q->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "q has another dtype than the input");
    if (q->rank > 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "q should be a number or a vector, found rank %d", q->rank);
    nbx_status status = reduce_one_dim(c, 2, x->rank, &job.mask);
    if (status == NBX_OK) status = find_between(c, arg_string(c, 4), &job.between);
    if (status == NBX_OK) status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status == NBX_OK) status = keep_job(c, job, x);
    if (status != NBX_OK) return status;
    // As if the quantiles were the last dim and then moved to the front.
    const int rank = reduce_shape(x, job.mask, arg_bool(c, 3), shape + 1);
    if (q->rank == 0) return out_new(c, 0, (nbx_dtype)x->dtype, rank, shape + 1, NULL) ? NBX_OK : nbx_last_status(c->ctx);
    shape[0] = q->numel;
    nbx_strides_contiguous(rank, shape + 1, stride + 1);
    for (int d = 1; d <= rank; d++) stride[d] *= q->numel;
    stride[0] = 1;
    return out_new(c, 0, (nbx_dtype)x->dtype, rank + 1, shape, stride) ? NBX_OK : nbx_last_status(c->ctx);
}

// One quantile, given as a number.
static nbx_status compose_quantile(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const double q = arg_float(c, 1);
    if (!(q >= 0.0 && q <= 1.0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "q must lie in [0, 1], found %g", q);
    if (!nbx_dtype_is_float((nbx_dtype)x->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected float32 or float64, found %s", nbx_dtype_name((nbx_dtype)x->dtype));
    return NBX_FORWARD(c, c->op->data, T(x), T(do_full(c->ctx, c->device, (nbx_dtype)x->dtype, 0, NULL, F(q))), c->args[2], c->args[3], c->args[4]);
}

#define ORDER(NAME, INFER, STAT)                                                                                       \
    {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(order_stat_cpu), .data = (const void *)(uintptr_t)STAT}
#define QUANTILE(NAME, STAT)                                                                                           \
    {.name = NAME, .infer = infer_quantile, .cpu = NBX_CPU_KERNEL(quantile_cpu), .data = (const void *)(uintptr_t)STAT}

const nbx_op nbx_ops_order_stat[] = {
    ORDER("aten::median", infer_all, ORDER_MEDIAN),
    ORDER("aten::median.dim", infer_dim, ORDER_MEDIAN),
    ORDER("aten::nanmedian", infer_all, ORDER_NANMEDIAN),
    ORDER("aten::nanmedian.dim", infer_dim, ORDER_NANMEDIAN),
    ORDER("aten::mode", infer_dim, ORDER_MODE),
    QUANTILE("aten::quantile", ORDER_QUANTILE),
    QUANTILE("aten::nanquantile", ORDER_NANQUANTILE),
    {.name = "aten::quantile.scalar", .composite = compose_quantile, .data = "aten::quantile", .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::nanquantile.scalar", .composite = compose_quantile, .data = "aten::nanquantile", .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
