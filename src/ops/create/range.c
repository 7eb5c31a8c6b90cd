// Rows of arange, range, iota, linspace, logspace: counts, dtypes and checks.
#include "ops/create/range.h"
#include "ops/create/create.h"
#include "ops/elementwise/elementwise.h"

#include <math.h>

NBX_CPU_DECLARE(range_cpu);

// Which arguments a row reads; -1: absent.
typedef struct range_form {
    int start, end, step;  // of linspace and logspace, step is how many
    int base, dtype;
    bool inclusive;        // range: the end belongs to it
    bool whole;            // arange: integers give int64
} range_form;

static const nbx_value zero = {.kind = NBX_KIND_INT, .as.integer = 0}, one = {.kind = NBX_KIND_INT, .as.integer = 1};
static bool is_whole(const nbx_value *v) { return v->kind == NBX_KIND_INT || v->kind == NBX_KIND_BOOL; }

// A result of so many elements: an out= argument that has so many keeps its shape.
static nbx_status describe(nbx_op_call *c, nbx_dtype dtype, int64_t count) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    const bool keeps = target && target->numel == count;
    return create_status(c, out_new(c, 0, dtype, keeps ? target->rank : 1, keeps ? target->shape : &count, NULL));
}

static nbx_status keep_numbers(nbx_op_call *c, const range_numbers *n) {
    range_numbers *kept = nbx_call_state(c, sizeof *kept);
    if (!kept) return c->ctx->status;
    *kept = *n;
    return NBX_OK;
}

static nbx_status check_dtype(nbx_op_call *c, nbx_dtype dtype, uint32_t accepts) {
    if (EW_BIT(dtype) & accepts) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(dtype));
}

// --------------------------------------------------------------------------------------------------------------- by step
// How many numbers from start on in steps lie before end (inclusive: up to end).
static nbx_status count_steps(nbx_op_call *c, const range_numbers *n, const nbx_value *end, nbx_dtype dtype, bool inclusive, int64_t *count) {
    const bool exact = nbx_dtype_is_integral(dtype, true);
    const double a = nbx_scalar_to_double(&n->start), b = nbx_scalar_to_double(end), by = nbx_scalar_to_double(&n->step);
    const int64_t ia = nbx_scalar_to_int(&n->start), ib = nbx_scalar_to_int(end), iby = nbx_scalar_to_int(&n->step);
    if (exact ? iby == 0 : !(by > 0 || by < 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the step must not be 0");
    if (!isfinite(a) || !isfinite(b)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "there is no range from %g to %g", a, b);
    if (exact ? (iby > 0 ? ib < ia : ib > ia) : (by > 0 ? b < a : b > a))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "steps of %g lead from %g away from %g", by, a, b);
    if (dtype == NBX_INT64) {
        const uint64_t span = iby > 0 ? (uint64_t)ib - (uint64_t)ia : (uint64_t)ia - (uint64_t)ib, size = iby > 0 ? (uint64_t)iby : 0 - (uint64_t)iby;
        *count = (int64_t)((span / size & INT64_MAX) + (inclusive || span % size != 0));
        return *count >= 0 ? NBX_OK : nbx_call_fail(c, NBX_ERROR_SHAPE, "the range is larger than any memory");
    }
    const double steps = inclusive ? floor((b - a) / by + 1) : ceil((b - a) / by);
    if (!(steps >= 0 && steps < 9.2e18)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the range is larger than any memory");
    *count = (int64_t)steps;
    return NBX_OK;
}

static nbx_status infer_steps(nbx_op_call *c) {
    const range_form *f = c->op->data;
    const range_numbers n = {.kind = RANGE_STEP, .start = f->start < 0 ? zero : c->args[f->start], .step = f->step < 0 ? one : c->args[f->step]};
    const nbx_value *numbers[] = {&n.start, &c->args[f->end], &n.step};
    const bool whole = f->whole && is_whole(numbers[0]) && is_whole(numbers[1]) && is_whole(numbers[2]);
    const nbx_dtype dtype = create_dtype(c, f->dtype, whole ? NBX_INT64 : NBX_FLOAT32);
    int64_t count = 0;
    nbx_status status = check_dtype(c, dtype, EW_NUMBERS);
    for (int i = 0; i < 3 && status == NBX_OK; i++)
        status = ew_check_number(c, nbx_dtype_is_integral(dtype, true) && isfinite(nbx_scalar_to_double(numbers[i])) ? NBX_INT64 : NBX_FLOAT64, numbers[i]);
    if (status == NBX_OK) status = count_steps(c, &n, numbers[1], dtype, f->inclusive, &count);
    if (status == NBX_OK) status = describe(c, dtype, count);
    return status == NBX_OK ? keep_numbers(c, &n) : status;
}

// prims::iota(length, *, start, step, dtype, device, requires_grad)
static nbx_status infer_iota(nbx_op_call *c) {
    const range_numbers n = {.kind = RANGE_STEP, .start = c->args[1], .step = c->args[2]};
    const int64_t count = arg_int(c, 0);
    nbx_status status = check_dtype(c, arg_dtype(c, 3), EW_INTS);
    if (status != NBX_OK) return status;
    if (count < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "length %lld is negative", (long long)count);
    if (arg_int(c, 2) == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the step must not be 0");
    status = describe(c, arg_dtype(c, 3), count);
    return status == NBX_OK ? keep_numbers(c, &n) : status;
}

// -------------------------------------------------------------------------------------------------------------- by count
// A number, or a 0-dim tensor that holds it.
static nbx_status read_number(nbx_op_call *c, int arg, nbx_value *number) {
    const nbx_tensor *t = arg_tensor(c, arg);
    *number = c->args[arg];
    if (!t) return NBX_OK;
    if (t->rank != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s must be a number or a 0-dim tensor, not one of %d dims", c->schema->params[arg].name, t->rank);
    return nbx_do_many(c->ctx, "aten::_local_scalar_dense", 1, (nbx_value[]){T(t)}, number, 1);
}

static nbx_status infer_between(nbx_op_call *c) {
    const range_form *f = c->op->data;
    range_numbers n = {.kind = f->base < 0 ? RANGE_LINEAR : RANGE_LOGARITHMIC, .steps = arg_int(c, f->step), .base = f->base < 0 ? 0 : arg_float(c, f->base)};
    nbx_status status = read_number(c, f->start, &n.start);
    if (status == NBX_OK) status = read_number(c, f->end, &n.end);
    if (status != NBX_OK) return status;
    const bool needs_complex = n.start.kind == NBX_KIND_COMPLEX || n.end.kind == NBX_KIND_COMPLEX;
    const nbx_dtype dtype = create_dtype(c, f->dtype, needs_complex ? NBX_COMPLEX64 : NBX_FLOAT32);
    if (needs_complex && !nbx_dtype_is_complex(dtype) && !nbx_call_target(c, 0))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "complex numbers do not fit %s", nbx_dtype_name(dtype));
    if (n.steps < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld steps are negative", (long long)n.steps);
    if (n.steps > 1) {
        status = check_dtype(c, dtype, EW_NUMBERS | EW_COMPLEXES);
        if (status == NBX_OK) status = ew_check_number(c, dtype, &n.start);
        if (status == NBX_OK) status = ew_check_number(c, dtype, &n.end);
    }
    if (n.steps == 1 && n.kind == RANGE_LINEAR) status = ew_check_number(c, dtype, &n.start);
    if (status == NBX_OK) status = describe(c, dtype, n.steps);
    return status == NBX_OK ? keep_numbers(c, &n) : status;
}

#define FORM(...) .data = &(const range_form){__VA_ARGS__}
#define RANGE(NAME, INFER, ...) {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(range_cpu), __VA_ARGS__}
#define LINSPACE .start = 0, .end = 1, .step = 2, .base = -1, .dtype = 3

const nbx_op nbx_ops_range[] = {
    RANGE("aten::arange", infer_steps, FORM(.start = -1, .end = 0, .step = -1, .dtype = 1, .whole = true)),
    RANGE("aten::arange.start", infer_steps, FORM(.start = 0, .end = 1, .step = -1, .dtype = 2, .whole = true)),
    RANGE("aten::arange.start_step", infer_steps, FORM(.start = 0, .end = 1, .step = 2, .dtype = 3, .whole = true)),
    RANGE("aten::range", infer_steps, FORM(.start = 0, .end = 1, .step = -1, .dtype = 2, .inclusive = true)),
    RANGE("aten::range.step", infer_steps, FORM(.start = 0, .end = 1, .step = 2, .dtype = 3, .inclusive = true)),
    RANGE("prims::iota", infer_iota),
    RANGE("aten::linspace", infer_between, FORM(LINSPACE)),
    RANGE("aten::linspace.Tensor_Tensor", infer_between, FORM(LINSPACE), .flags = NBX_OP_READS_DATA),
    RANGE("aten::linspace.Tensor_Scalar", infer_between, FORM(LINSPACE), .flags = NBX_OP_READS_DATA),
    RANGE("aten::linspace.Scalar_Tensor", infer_between, FORM(LINSPACE), .flags = NBX_OP_READS_DATA),
    RANGE("aten::logspace", infer_between, FORM(.start = 0, .end = 1, .step = 2, .base = 3, .dtype = 4)),
    RANGE("aten::logspace.Tensor_Tensor", infer_between, FORM(.start = 0, .end = 1, .step = 2, .base = 3, .dtype = 4), .flags = NBX_OP_READS_DATA),
    RANGE("aten::logspace.Tensor_Scalar", infer_between, FORM(.start = 0, .end = 1, .step = 2, .base = 3, .dtype = 4), .flags = NBX_OP_READS_DATA),
    RANGE("aten::logspace.Scalar_Tensor", infer_between, FORM(.start = 0, .end = 1, .step = 2, .base = 3, .dtype = 4), .flags = NBX_OP_READS_DATA),
    NBX_OPS_END,
};
