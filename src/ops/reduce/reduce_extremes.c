// Largest and smallest elements, and where they are: amax, amin, aminmax, max, min, argmax, argmin.
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

enum { ANY_TARGET = 256 };  // beside the reduce_op in a row's data: out= of max and min of everything may differ in dtype

static reduce_op op_of(const nbx_op_call *c) { return (reduce_op)((uintptr_t)c->op->data & 255); }

static nbx_status need_order(nbx_op_call *c, const nbx_tensor *x, bool bool_too) {
    const nbx_dtype d = (nbx_dtype)x->dtype;
    if (!nbx_dtype_is_complex(d) && (bool_too || d != NBX_BOOL)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
}

static nbx_status describe(nbx_op_call *c, reduce_finish finish, uint64_t mask, bool keepdim, nbx_dtype dtype0, nbx_dtype dtype1) {
    const nbx_tensor *x = arg_tensor(c, 0);
    reduce_job job = {.op = (uint8_t)op_of(c), .finish = (uint8_t)finish, .cast = x->dtype, .mask = mask};
    job.any_target = (uintptr_t)c->op->data & ANY_TARGET;
    return reduce_describe(c, x, job, keepdim, dtype0, dtype1);
}

static nbx_status infer_amax(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    nbx_status status = need_order(c, x, true);
    if (status == NBX_OK) status = nbx_call_dims(c, 1, x->rank, true, &mask);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, c->args[1].count > 0 || c->args[1].kind == NBX_KIND_INT);
    return status == NBX_OK ? describe(c, REDUCE_PLAIN, mask, arg_bool(c, 2), (nbx_dtype)x->dtype, NBX_DTYPE_NONE) : status;
}

static nbx_status infer_aminmax(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    nbx_status status = need_order(c, x, true);
    if (status == NBX_OK) status = reduce_one_dim(c, 1, x->rank, &mask);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, !arg_is_none(c, 1));
    return status == NBX_OK ? describe(c, REDUCE_PLAIN, mask, arg_bool(c, 2), (nbx_dtype)x->dtype, (nbx_dtype)x->dtype) : status;
}

static nbx_status infer_max_all(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const uint64_t mask = reduce_all_dims(x->rank);
    nbx_status status = need_order(c, x, true);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, false);
    return status == NBX_OK ? describe(c, REDUCE_PLAIN, mask, false, (nbx_dtype)x->dtype, NBX_DTYPE_NONE) : status;
}

static nbx_status infer_max_dim(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    nbx_status status = need_order(c, x, true);
    if (status == NBX_OK) status = reduce_one_dim(c, 1, x->rank, &mask);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, true);
    return status == NBX_OK ? describe(c, REDUCE_VALUE_INDEX, mask, arg_bool(c, 2), (nbx_dtype)x->dtype, NBX_INT64) : status;
}

static nbx_status infer_argmax(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    uint64_t mask;
    nbx_status status = need_order(c, x, false);
    if (status == NBX_OK) status = reduce_one_dim(c, 1, x->rank, &mask);
    if (status == NBX_OK) status = reduce_need_elements(c, x, mask, !arg_is_none(c, 1));
    return status == NBX_OK ? describe(c, REDUCE_INDEX, mask, arg_bool(c, 2), NBX_INT64, NBX_DTYPE_NONE) : status;
}

// The older names of aminmax: over all dims, or one.
static nbx_status aminmax_all(nbx_op_call *c) { return NBX_FORWARD(c, "aten::aminmax", c->args[0]); }
static nbx_status aminmax_dim(nbx_op_call *c) { return NBX_FORWARD(c, "aten::aminmax", c->args[0], c->args[1], c->args[2]); }

#define EXTREME(NAME, INFER, OP)                                                                                       \
    {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(reduce_cpu), .data = (const void *)(uintptr_t)OP}

const nbx_op nbx_ops_reduce_extremes[] = {
    EXTREME("aten::amax", infer_amax, REDUCE_MAX),
    EXTREME("aten::amin", infer_amax, REDUCE_MIN),
    EXTREME("aten::aminmax", infer_aminmax, REDUCE_MINMAX),
    {.name = "aten::_aminmax", .composite = aminmax_all, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_aminmax.dim", .composite = aminmax_dim, .flags = NBX_OP_EXACT_OUT},
    EXTREME("aten::max", infer_max_all, (REDUCE_MAX | ANY_TARGET)),
    EXTREME("aten::min", infer_max_all, (REDUCE_MIN | ANY_TARGET)),
    EXTREME("aten::max.dim", infer_max_dim, REDUCE_ARGMAX),
    EXTREME("aten::min.dim", infer_max_dim, REDUCE_ARGMIN),
    EXTREME("aten::argmax", infer_argmax, REDUCE_ARGMAX),
    EXTREME("aten::argmin", infer_argmax, REDUCE_ARGMIN),
    NBX_OPS_END,
};
