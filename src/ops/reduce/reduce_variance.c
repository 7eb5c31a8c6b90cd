// Variances and standard deviations: sum of squared distances from the mean, divided by max(0, n - correction).
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

typedef struct form {
    bool root;      // standard deviation
    bool mean_too;
} form;

static const form variance = {false, false}, deviation = {true, false}, variance_mean = {false, true}, deviation_mean = {true, true};

// The dtype of an out=, in which ATen then computes; without one that of x.
static nbx_dtype target_dtype(const nbx_op_call *c, nbx_dtype d) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    return target ? (nbx_dtype)target->dtype : d;
}

static nbx_status describe(nbx_op_call *c, uint64_t mask, double correction, bool keepdim) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const form *f = c->op->data;
    const nbx_status status = nbx_call_need_float(c, x, true);
    if (status != NBX_OK) return status;
    const nbx_dtype d = (nbx_dtype)x->dtype, wanted = target_dtype(c, d);
    const bool half = d == NBX_FLOAT16 || d == NBX_BFLOAT16, everything = mask == reduce_all_dims(x->rank);
    if (!f->mean_too && wanted != d && x->numel > 0 && (everything ? half && nbx_dtype_size(wanted) > 2 : nbx_dtype_is_complex(wanted) && !nbx_dtype_is_complex(d)))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "can't be computed of %s in %s", nbx_dtype_name(d), nbx_dtype_name(wanted));
    const bool in_target = !f->mean_too && nbx_dtype_is_float(d) && nbx_dtype_is_float(wanted);
    const reduce_job job = {.op = REDUCE_MOMENTS, .finish = f->root ? REDUCE_STD : REDUCE_VAR, .cast = (uint8_t)(in_target ? wanted : d),
                            .any_target = !f->mean_too, .p = correction, .mask = mask};
    return reduce_describe(c, x, job, keepdim, in_target ? wanted : nbx_dtype_to_real(d), f->mean_too ? d : NBX_DTYPE_NONE);
}

static nbx_status infer_all(nbx_op_call *c) {
    return describe(c, reduce_all_dims(arg_tensor(c, 0)->rank), arg_bool(c, 1) ? 1.0 : 0.0, false);
}

static nbx_status infer_dims(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, true, &mask);
    return status == NBX_OK ? describe(c, mask, arg_bool(c, 2) ? 1.0 : 0.0, arg_bool(c, 3)) : status;
}

static nbx_status infer_correction(nbx_op_call *c) {
    uint64_t mask;
    const nbx_status status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, true, &mask);
    const double correction = arg_is_none(c, 2) ? 1.0 : nbx_scalar_to_double(&c->args[2]);
    return status == NBX_OK ? describe(c, mask, correction, arg_bool(c, 3)) : status;
}

#define VARIANCE(NAME, INFER, FORM) {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(reduce_cpu), .data = &FORM}

const nbx_op nbx_ops_reduce_variance[] = {
    VARIANCE("aten::var", infer_all, variance),
    VARIANCE("aten::var.dim", infer_dims, variance),
    VARIANCE("aten::var.correction", infer_correction, variance),
    VARIANCE("aten::std", infer_all, deviation),
    VARIANCE("aten::std.dim", infer_dims, deviation),
    VARIANCE("aten::std.correction", infer_correction, deviation),
    VARIANCE("aten::var_mean", infer_all, variance_mean),
    VARIANCE("aten::var_mean.dim", infer_dims, variance_mean),
    VARIANCE("aten::var_mean.correction", infer_correction, variance_mean),
    VARIANCE("aten::std_mean", infer_all, deviation_mean),
    VARIANCE("aten::std_mean.dim", infer_dims, deviation_mean),
    VARIANCE("aten::std_mean.correction", infer_correction, deviation_mean),
    NBX_OPS_END,
};
