// Factories whose elements are all alike: empty, zeros, ones, full, their _like and new_ forms, scalar_tensor.
#include "ops/copy/copy.h"
#include "ops/create/create.h"
#include "ops/elementwise/elementwise.h"

#include <string.h>

static nbx_status keep_plan(nbx_op_call *c, const nbx_tensor *t) {
    if (!t) return c->ctx->status;
    return c->ctx->recorder && !nbx_call_state(c, nbx_copy_plan_bytes(t->rank)) ? c->ctx->status : NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- fillings
static nbx_status fill(nbx_op_call *c, const nbx_value *number) {
    const nbx_tensor *to = out_get(c, 0);
    if (to->numel == 0) return NBX_OK;
    double element[2];
    ew_store_number((nbx_dtype)to->dtype, element, number);
    nbx_copy_plan local, *p = nbx_copy_plan_of(c, &local);
    if (p == &local || !p->ready) nbx_copy_plan_make(p, to, NULL, (nbx_dtype)to->dtype, false);
    nbx_copy_plan_run(c->ctx, p, nbx_data(to), element);
    return NBX_OK;
}

static nbx_status fill_nothing(nbx_op_call *c) {
    (void)c;
    return NBX_OK;
}
static nbx_status fill_zero(nbx_op_call *c) { return fill(c, &(nbx_value){.kind = NBX_KIND_INT, .as.integer = 0}); }
static nbx_status fill_one(nbx_op_call *c) { return fill(c, &(nbx_value){.kind = NBX_KIND_INT, .as.integer = 1}); }
static nbx_status fill_arg_0(nbx_op_call *c) { return fill(c, &c->args[0]); }
static nbx_status fill_arg_1(nbx_op_call *c) { return fill(c, &c->args[1]); }
static nbx_status fill_arg_2(nbx_op_call *c) { return fill(c, &c->args[2]); }

// --------------------------------------------------------------------------------------------------------------- shapes
static nbx_status check_sizes(nbx_op_call *c, int rank, const int64_t *shape) {
    if (rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d dims are more than %d", rank, NBX_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is negative", (long long)shape[i], i);
    return NBX_OK;
}

static nbx_status describe(nbx_op_call *c, int size_arg, nbx_dtype dtype, const int64_t *stride) {
    int rank;
    const int64_t *shape = arg_ints(c, size_arg, &rank);
    const nbx_status status = check_sizes(c, rank, shape);
    return status == NBX_OK ? keep_plan(c, out_new(c, 0, dtype, rank, shape, stride)) : status;
}

// Strides of a memory format for a shape, or NULL with a failed call.
static const int64_t *strides_of_format(nbx_op_call *c, nbx_memory_format format, int rank, const int64_t *shape, int64_t *stride) {
    const int needed = format == NBX_CHANNELS_LAST ? 4 : format == NBX_CHANNELS_LAST_3D ? 5 : rank;
    if (needed != rank) {
        nbx_call_fail(c, NBX_ERROR_ARGUMENT, "this memory format needs rank %d, not %d", needed, rank);
        return NULL;
    }
    nbx_strides_format(format, rank, shape, stride);
    return stride;
}

static nbx_status infer_size(nbx_op_call *c) { return describe(c, 0, create_dtype(c, 1, NBX_FLOAT32), NULL); }

// full(size, fill_value, *, dtype): the number's dtype by default.
static nbx_status infer_full(nbx_op_call *c) {
    const nbx_dtype dtype = create_dtype(c, 2, nbx_scalar_dtype(&c->args[1]));
    const nbx_status status = ew_check_fill(c, dtype, &c->args[1]);
    return status == NBX_OK ? describe(c, 0, dtype, NULL) : status;
}

// The memory_format argument: four after dtype, in whose place it stands in out= forms.
static const nbx_value *format_arg(const nbx_op_call *c, int dtype_arg) { return &c->args[nbx_call_target(c, 0) ? dtype_arg : dtype_arg + 4]; }

// empty.memory_format(size, *, dtype, layout, device, pin_memory, memory_format)
static nbx_status infer_empty(nbx_op_call *c) {
    int rank;
    int64_t stride[NBX_MAX_RANK];
    const int64_t *shape = arg_ints(c, 0, &rank);
    const nbx_dtype dtype = create_dtype(c, 1, NBX_FLOAT32);
    if (format_arg(c, 1)->kind != NBX_KIND_MEMORY_FORMAT) return describe(c, 0, dtype, NULL);
    const nbx_memory_format format = format_arg(c, 1)->as.memory_format;
    const nbx_status status = check_sizes(c, rank, shape);
    if (status != NBX_OK) return status;
    if (format == NBX_PRESERVE_FORMAT) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "there is no tensor whose memory format to preserve");
    const int64_t *strides = strides_of_format(c, format, rank, shape, stride);
    return strides ? describe(c, 0, dtype, strides) : c->ctx->status;
}

// empty_strided(size, stride, *, dtype)
static nbx_status describe_strided(nbx_op_call *c, int size_arg, nbx_dtype dtype) {
    int rank, strides;
    const int64_t *shape = arg_ints(c, size_arg, &rank), *stride = arg_ints(c, size_arg + 1, &strides);
    if (rank != strides) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d sizes do not match %d strides", rank, strides);
    const nbx_status status = check_sizes(c, rank, shape);
    if (status != NBX_OK) return status;
    for (int i = 0; i < rank; i++)
        if (stride[i] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "stride %lld of dim %d is negative", (long long)stride[i], i);
    return describe(c, size_arg, dtype, stride);
}
static nbx_status infer_empty_strided(nbx_op_call *c) { return describe_strided(c, 0, create_dtype(c, 2, NBX_FLOAT32)); }

// empty_permuted(size, physical_layout, *, dtype): dims in the order of memory, outermost first.
static nbx_status infer_empty_permuted(nbx_op_call *c) {
    int rank, count;
    const int64_t *shape = arg_ints(c, 0, &rank), *order = arg_ints(c, 1, &count);
    const nbx_status status = check_sizes(c, rank, shape);
    if (status != NBX_OK) return status;
    if (rank != count) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d sizes do not match a layout of %d dims", rank, count);
    int64_t stride[NBX_MAX_RANK], next = 1;
    bool seen[NBX_MAX_RANK] = {false};
    for (int i = rank - 1; i >= 0; i--) {
        const int64_t d = order[i];
        if (d < 0 || d >= rank) return nbx_call_fail(c, NBX_ERROR_INDEX, "dim %lld is out of range [0, %d]", (long long)d, rank - 1);
        if (seen[d]) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %lld appears more than once", (long long)d);
        seen[d] = true;
        stride[d] = next;
        if (__builtin_mul_overflow(next, shape[d], &next)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "its sizes multiply to more than any memory holds");
    }
    return describe(c, 0, create_dtype(c, 2, NBX_FLOAT32), stride);
}

// X_like(self, [fill_value,] *, dtype, layout, device, pin_memory, memory_format): dtype_arg is the first keyword.
static nbx_status describe_like(nbx_op_call *c, int dtype_arg) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const nbx_dtype dtype = create_dtype(c, dtype_arg, (nbx_dtype)self->dtype);
    const nbx_value *format = format_arg(c, dtype_arg);
    int64_t stride[NBX_MAX_RANK];
    if (dtype_arg == 2) {
        const nbx_status status = ew_check_fill(c, dtype, &c->args[1]);
        if (status != NBX_OK) return status;
    }
    if (format->kind != NBX_KIND_MEMORY_FORMAT || format->as.memory_format == NBX_PRESERVE_FORMAT)
        return keep_plan(c, out_like(c, 0, dtype, self));
    if (!strides_of_format(c, format->as.memory_format, self->rank, self->shape, stride)) return c->ctx->status;
    return keep_plan(c, out_new(c, 0, dtype, self->rank, self->shape, stride));
}
static nbx_status infer_like(nbx_op_call *c) { return describe_like(c, 1); }
static nbx_status infer_full_like(nbx_op_call *c) { return describe_like(c, 2); }

// new_X(self, size, [fill_value | stride,] *, dtype, ...)
static nbx_status infer_new(nbx_op_call *c) { return describe(c, 1, create_dtype(c, 2, (nbx_dtype)arg_tensor(c, 0)->dtype), NULL); }
static nbx_status infer_new_full(nbx_op_call *c) {
    const nbx_dtype dtype = create_dtype(c, 3, (nbx_dtype)arg_tensor(c, 0)->dtype);
    const nbx_status status = ew_check_fill(c, dtype, &c->args[2]);
    return status == NBX_OK ? describe(c, 1, dtype, NULL) : status;
}
static nbx_status infer_new_empty_strided(nbx_op_call *c) {
    return describe_strided(c, 1, create_dtype(c, 3, (nbx_dtype)arg_tensor(c, 0)->dtype));
}

// scalar_tensor(s, *, dtype): the default float, whatever s is.
static nbx_status infer_scalar(nbx_op_call *c) {
    const bool is_complex = c->args[0].kind == NBX_KIND_COMPLEX;
    const nbx_dtype dtype = create_dtype(c, 1, is_complex ? NBX_COMPLEX64 : NBX_FLOAT32);
    const nbx_status status = ew_check_fill(c, dtype, &c->args[0]);
    return status == NBX_OK ? keep_plan(c, out_new(c, 0, dtype, 0, NULL, NULL)) : status;
}

#define FACTORY(NAME, INFER, FILL)                                                                                     \
    {.name = "aten::" NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL_ONE(FILL), .flags = NBX_OP_STRIDED_OUT}

const nbx_op nbx_ops_create[] = {
    FACTORY("zeros", infer_size, fill_zero),
    FACTORY("ones", infer_size, fill_one),
    FACTORY("full", infer_full, fill_arg_1),
    FACTORY("empty.memory_format", infer_empty, fill_nothing),
    FACTORY("empty_strided", infer_empty_strided, fill_nothing),
    FACTORY("empty_permuted", infer_empty_permuted, fill_nothing),
    FACTORY("empty_like", infer_like, fill_nothing),
    FACTORY("zeros_like", infer_like, fill_zero),
    FACTORY("ones_like", infer_like, fill_one),
    FACTORY("full_like", infer_full_like, fill_arg_1),
    FACTORY("new_empty", infer_new, fill_nothing),
    FACTORY("new_zeros", infer_new, fill_zero),
    FACTORY("new_ones", infer_new, fill_one),
    FACTORY("new_full", infer_new_full, fill_arg_2),
    FACTORY("new_empty_strided", infer_new_empty_strided, fill_nothing),
    FACTORY("scalar_tensor", infer_scalar, fill_arg_0),
    NBX_OPS_END,
};
