// Copies, casts and fills: plans, and the operators copy, _to_copy, clone, fill, zero.
#include "ops/copy/copy.h"
#include "cpu/cache.h"
#include "ops/copy/convert.h"
#include "ops/elementwise/elementwise.h"

#include <string.h>

// --------------------------------------------------------------------------------------------------------------- plans
static bool dense_row(const nbx_iter *it, int k, size_t bytes) { return it->dim[0].size == 1 || it->dim[0].stride[k] == (int64_t)bytes; }

void nbx_copy_plan_make(nbx_copy_plan *p, const nbx_tensor *to, const nbx_tensor *from, nbx_dtype from_dtype, bool clamp) {
    const nbx_tensor *tensors[2] = {to, from};
    nbx_iter_plan(&p->iter, to->rank, to->shape, 2, tensors);
    p->to = to->dtype;
    p->from = (uint8_t)(from ? from->dtype : from_dtype);
    p->clamp = clamp && p->to == NBX_FLOAT16 && p->from != NBX_FLOAT16;
    p->fill = !p->clamp && (!from || (from->numel == 1 && to->numel != 1));
    const size_t to_bytes = nbx_dtype_size((nbx_dtype)p->to), from_bytes = nbx_dtype_size((nbx_dtype)p->from);
    const size_t widest = p->fill || to_bytes > from_bytes ? to_bytes : from_bytes;
    p->rows = dense_row(&p->iter, 0, to_bytes) && (p->fill || dense_row(&p->iter, 1, from_bytes));
    p->flat = p->rows && !p->clamp && p->iter.rank == 2 && p->iter.dim[1].size == 1;
    const int64_t side = 256 / (int64_t)widest;  // squares of whole lines that are moved as they lie
    nbx_iter_set_blocks(&p->iter, p->to == p->from ? side * side : NBX_TILE_BYTES / (int64_t)(p->clamp ? 8 : widest));
    p->rows = p->rows && dense_row(&p->iter, 0, to_bytes);
    p->stream = nbx_past_caches(p->iter.numel * (int64_t)to_bytes) && dense_row(&p->iter, 0, to_bytes);
    const int64_t run = NBX_TURNED_RUN / (int64_t)to_bytes, along = NBX_TURNED_BYTES / NBX_TURNED_RUN;
    if (p->stream && p->iter.crossed && p->to == p->from && to_bytes >= 4 && p->iter.dim[1].size >= along) nbx_iter_set_sides(&p->iter, run, along);
    // few channels: all of them, of more positions (64 x 28672 floats on a Zen 3 core: 22 -> 19 ms)
    const int64_t all = p->iter.dim[1].size * (int64_t)to_bytes;
    if (p->stream && p->iter.crossed && p->to == p->from && all <= NBX_TURNED_RUN) nbx_iter_set_sides(&p->iter, NBX_TURNED_BYTES / 4 / all, p->iter.dim[1].size);
    const int64_t elements = 65536 / (int64_t)widest, block = p->iter.block[0] * p->iter.block[1];
    p->grain = p->flat ? elements : block ? (elements + block - 1) / block : 1;
    p->ready = true;
}

void nbx_copy_plan_run(nbx_context *ctx, const nbx_copy_plan *p, void *to, const void *from) {
#if defined(NBX_HAVE_ISA_AVX512)
    if (ctx->isa >= 2) {
        nbx_copy_run_avx512(ctx->pool, p, to, from);
        return;
    }
#endif
#if defined(NBX_HAVE_ISA_AVX2)
    if (ctx->isa >= 1) {
        nbx_copy_run_avx2(ctx->pool, p, to, from);
        return;
    }
#endif
#if defined(NBX_HAVE_ISA_BASELINE)
    nbx_copy_run_baseline(ctx->pool, p, to, from);
#elif defined(NBX_HAVE_ISA_AVX2)
    nbx_copy_run_avx2(ctx->pool, p, to, from);
#else
    nbx_copy_run_avx512(ctx->pool, p, to, from);
#endif
}

static bool on_host(const nbx_tensor *t) { return t->storage->device.type == NBX_CPU; }

// One side on a device: dense bytes cross, the host casts and spreads.
static nbx_status copy_across(nbx_context *ctx, const nbx_tensor *to, const nbx_tensor *from) {
    if (to->dtype == from->dtype && to->contiguous && from->contiguous && nbx_same_shape(to, from))
        return nbx_copy_bytes(ctx, nbx_device_of(to), nbx_data(to), nbx_device_of(from), nbx_data(from), nbx_tensor_nbytes(to));
    const nbx_device host = {NBX_CPU, 0};
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_status status = NBX_OK;
    nbx_tensor *source = on_host(from) ? nbx_retain(from) : nbx_retain(nbx_tensor_to_device(ctx, from, host));
    if (!source) status = ctx->status;
    if (status == NBX_OK && on_host(to)) {
        status = nbx_copy_tensor(ctx, to, source);
    } else if (status == NBX_OK) {
        nbx_tensor *dense = nbx_new(ctx, host, (nbx_dtype)to->dtype, to->rank, to->shape);
        status = dense ? nbx_copy_tensor(ctx, dense, source) : ctx->status;
        if (status == NBX_OK) {
            const nbx_tensor *there = nbx_tensor_to_device(ctx, dense, nbx_device_of(to));
            if (!there || !NBX_DO(ctx, "aten::copy_", T(to), T(there))) status = ctx->status;
        }
    }
    nbx_release(source);
    nbx_scope_close(ctx, scope, NULL);
    return status;
}

nbx_status nbx_copy_tensor(nbx_context *ctx, const nbx_tensor *to, const nbx_tensor *from) {
    if (to->numel == 0) return NBX_OK;
    if (!on_host(to) || !on_host(from)) return copy_across(ctx, to, from);
    nbx_copy_plan plan;
    nbx_copy_plan_make(&plan, to, from, NBX_DTYPE_NONE, ctx->clamp_half);
    nbx_copy_plan_run(ctx, &plan, nbx_data(to), nbx_data(from));
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------ copy operators
static nbx_status keep_plan(nbx_op_call *c, int rank) {
    return c->ctx->recorder && !nbx_call_state(c, nbx_copy_plan_bytes(rank)) ? c->ctx->status : NBX_OK;
}

static nbx_status copy_from(nbx_op_call *c, const nbx_tensor *from) {
    const nbx_tensor *to = out_get(c, 0);
    if (to->numel == 0 || to == from) return NBX_OK;
    if (!on_host(to) || !on_host(from)) return nbx_copy_tensor(c->ctx, to, from);
    nbx_copy_plan local, *p = nbx_copy_plan_of(c, &local);
    if (p == &local || !p->ready) nbx_copy_plan_make(p, to, from, NBX_DTYPE_NONE, c->ctx->clamp_half);
    nbx_copy_plan_run(c->ctx, p, nbx_data(to), nbx_data(from));
    return NBX_OK;
}

static nbx_status run_from_self(nbx_op_call *c) { return copy_from(c, arg_tensor(c, 0)); }
static nbx_status run_from_source(nbx_op_call *c) { return copy_from(c, arg_tensor(c, 1)); }

// copy(self, src): src broadcast to self's shape, in self's dtype and strides.
static nbx_status infer_copy(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *src = arg_tensor(c, 1);
    int rank = self->rank;
    int64_t shape[NBX_MAX_RANK];
    memcpy(shape, self->shape, sizeof *shape * (size_t)rank);
    const nbx_status status = nbx_broadcast(c, &rank, shape, src->rank, src->shape);
    if (status != NBX_OK) return status;
    if (!nbx_shape_equal(rank, shape, self->rank, self->shape)) {
        char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "a source of shape %s does not broadcast to %s",
                             nbx_shape_text(src->rank, src->shape, a, sizeof a), nbx_shape_text(self->rank, self->shape, b, sizeof b));
    }
    if (self->storage) c->device = self->storage->device;
    if (!out_like(c, 0, (nbx_dtype)self->dtype, self)) return c->ctx->status;
    return keep_plan(c, rank);
}

// Strides for a memory_format argument (none: preserve) after self; false: the call failed.
static bool format_strides(nbx_op_call *c, int arg, const nbx_tensor *self, int64_t *stride) {
    const nbx_value *v = &c->args[arg];
    const nbx_memory_format format = v->kind == NBX_KIND_MEMORY_FORMAT ? v->as.memory_format : NBX_PRESERVE_FORMAT;
    if (format == NBX_PRESERVE_FORMAT) {
        nbx_strides_preserve(self, stride);
        return true;
    }
    const int needed = format == NBX_CHANNELS_LAST ? 4 : format == NBX_CHANNELS_LAST_3D ? 5 : self->rank;
    if (needed != self->rank) {
        nbx_call_fail(c, NBX_ERROR_ARGUMENT, "this memory format needs a tensor of rank %d, not %d", needed, self->rank);
        return false;
    }
    nbx_strides_format(format, self->rank, self->shape, stride);
    return true;
}

static nbx_status infer_clone(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int64_t stride[NBX_MAX_RANK];
    if (!format_strides(c, 1, self, stride)) return c->ctx->status;
    if (!out_new(c, 0, (nbx_dtype)self->dtype, self->rank, self->shape, stride)) return c->ctx->status;
    return keep_plan(c, self->rank);
}

// _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format)
static nbx_status infer_to_copy(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const nbx_dtype dtype = arg_dtype(c, 1);
    int64_t stride[NBX_MAX_RANK];
    if (!format_strides(c, 6, self, stride)) return c->ctx->status;
    if (!out_new(c, 0, dtype == NBX_DTYPE_NONE ? (nbx_dtype)self->dtype : dtype, self->rank, self->shape, stride)) return c->ctx->status;
    return keep_plan(c, self->rank);
}

// ---------------------------------------------------------------------------------------------------------------- fills
static nbx_status fill_with(nbx_op_call *c, nbx_dtype dtype, const void *element) {
    const nbx_tensor *to = out_get(c, 0);
    if (to->numel == 0) return NBX_OK;
    nbx_copy_plan local, *p = nbx_copy_plan_of(c, &local);
    if (p == &local || !p->ready) nbx_copy_plan_make(p, to, NULL, dtype, false);
    nbx_copy_plan_run(c->ctx, p, nbx_data(to), element);
    return NBX_OK;
}

static nbx_status infer_zero(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (!out_like(c, 0, (nbx_dtype)self->dtype, self)) return c->ctx->status;
    return keep_plan(c, self->rank);
}

static nbx_status infer_fill(nbx_op_call *c) {
    const nbx_tensor *value = arg_tensor(c, 1);
    if (value && value->rank != 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "the value must be a 0-dim tensor, not one of %d dims", value->rank);
    const nbx_status status = value ? NBX_OK : ew_check_fill(c, (nbx_dtype)arg_tensor(c, 0)->dtype, &c->args[1]);
    return status == NBX_OK ? infer_zero(c) : status;
}

static nbx_status run_fill(nbx_op_call *c) {
    const nbx_tensor *value = arg_tensor(c, 1);
    if (value) return fill_with(c, (nbx_dtype)value->dtype, nbx_data(value));
    double element[2];
    const nbx_dtype dtype = (nbx_dtype)out_get(c, 0)->dtype;
    ew_store_number(dtype, element, &c->args[1]);
    return fill_with(c, dtype, element);
}

static nbx_status run_zero(nbx_op_call *c) {
    const double element[2] = {0, 0};
    return fill_with(c, (nbx_dtype)out_get(c, 0)->dtype, element);
}

#define COPY_OP(NAME, INFER, RUN, FLAGS)                                                                               \
    {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL_ONE(RUN), .flags = NBX_OP_STRIDED_OUT | (FLAGS)}

const nbx_op nbx_ops_copy[] = {
    COPY_OP("aten::copy", infer_copy, run_from_source, NBX_OP_ANY_DEVICE),
    COPY_OP("aten::clone", infer_clone, run_from_self, 0),
    COPY_OP("aten::_to_copy", infer_to_copy, run_from_self, NBX_OP_ANY_DEVICE | NBX_OP_ANY_OUT),
    COPY_OP("aten::fill.Scalar", infer_fill, run_fill, NBX_OP_SHARED_SELF),
    COPY_OP("aten::fill.Tensor", infer_fill, run_fill, NBX_OP_ANY_DEVICE),
    COPY_OP("aten::zero", infer_zero, run_zero, NBX_OP_SHARED_SELF),
    NBX_OPS_END,
};
