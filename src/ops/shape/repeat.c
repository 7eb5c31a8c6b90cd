// Repetition: repeat, tile, repeat_interleave. A repeated dim is an expanded one, copied.
#include "ops/index/nonzero.h"
#include "ops/shape/geometry.h"

#include <string.h>

// self repeated repeats[d] times along dim d of [1, ..., self.shape].
static nbx_status repeat_to(nbx_op_call *c, const nbx_tensor *self, int count, const int64_t *repeats) {
    nbx_geometry g;
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    if (count < self->rank)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d repeats are fewer than the tensor's %d dims", count, self->rank);
    if (count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    g.rank = 0;
    g.offset = self->offset;
    for (int d = 0; d < count; d++) {
        const int own = d - (count - self->rank);
        const int64_t size = own >= 0 ? self->shape[own] : 1;
        if (repeats[d] < 0 && size != 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld repeats of dim %d", (long long)repeats[d], d);
        if (__builtin_mul_overflow(size, repeats[d], &shape[d])) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d grows beyond 63 bits", d);
        if (g.rank + 2 > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims repeated", NBX_MAX_RANK / 2);
        if (repeats[d] != 1) nbx_geometry_insert(&g, g.rank, repeats[d] < 0 ? 0 : repeats[d], 0);
        nbx_geometry_insert(&g, g.rank, size, own >= 0 ? self->stride[own] : 0);
    }
    const nbx_tensor *copy = nbx_cloned(c->ctx, nbx_geometry_view(c->ctx, self, &g));
    if (copy == NULL) return c->ctx->status;
    nbx_strides_contiguous(count, shape, stride);
    return nbx_give(c, 0, nbx_tensor_view(c->ctx, copy, (nbx_dtype)copy->dtype, count, shape, stride, copy->offset));
}

static nbx_status repeat(nbx_op_call *c) {
    int count;
    const int64_t *repeats = arg_ints(c, 1, &count);
    return repeat_to(c, arg_tensor(c, 0), count, repeats);
}

// tile: missing leading repeats are 1.
static nbx_status tile(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count;
    const int64_t *repeats = arg_ints(c, 1, &count);
    int64_t all[NBX_MAX_RANK];
    if (count >= self->rank) return repeat_to(c, self, count, repeats);
    for (int d = 0; d < self->rank; d++) all[d] = d < self->rank - count ? 1 : repeats[d - (self->rank - count)];
    return repeat_to(c, self, self->rank, all);
}

// --------------------------------------------------------------------------------------------------- repeat_interleave
// repeat_interleave.Tensor(repeats): i, repeats[i] times, for every i.
static nbx_status interleave_indices(nbx_op_call *c) {
    const nbx_tensor *repeats = arg_tensor(c, 0);
    int64_t count;
    if (repeats->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "repeats must be a vector, not of %d dims", repeats->rank);
    if (repeats->dtype != NBX_INT64 && repeats->dtype != NBX_INT32)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "repeats must be int64 or int32, not %s", nbx_dtype_name((nbx_dtype)repeats->dtype));
    const int64_t *times = nbx_read_ints(c, repeats, &count);
    if (times == NULL) return c->ctx->status;
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        if (times[i] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "repeats[%lld] is negative", (long long)i);
        if (__builtin_add_overflow(total, times[i], &total)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "repeats add up to more than 63 bits");
    }
    if (!arg_is_none(c, 1) && arg_int(c, 1) != total && count > 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "repeats add up to %lld, output_size is %lld", (long long)total, (long long)arg_int(c, 1));
    const nbx_tensor *out = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, 1, &total);
    if (out == NULL) return c->ctx->status;
    int64_t *to = nbx_data(out);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < times[i]; k++) *to++ = i;
    if (repeats->dtype == NBX_INT32) out = nbx_cast(c->ctx, out, NBX_INT32);
    return nbx_give(c, 0, nbx_from_host(c, out));
}

// Without dim the tensor counts as flat.
static const nbx_tensor *along(nbx_op_call *c, int arg, int64_t *dim) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t minus_one = -1;
    *dim = arg_int_or(c, arg, 0);
    if (!arg_is_none(c, arg) && self->rank > 0) return self;
    return nbx_reshaped(c->ctx, self, 1, &minus_one);
}

static nbx_status interleave_tensor(nbx_op_call *c) {
    const nbx_tensor *repeats = arg_tensor(c, 1);
    int64_t dim;
    int d;
    const nbx_tensor *self = along(c, 2, &dim);
    if (self == NULL || nbx_call_dim(c, dim, self->rank, &d) != NBX_OK) return c->ctx->status;
    if (repeats->rank > 1 || (repeats->rank == 1 && repeats->numel != 1 && repeats->numel != self->shape[d]))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld repeats for a dim of size %lld", (long long)repeats->numel, (long long)self->shape[d]);
    if (repeats->numel != self->shape[d] || repeats->rank == 0) {
        const int64_t minus_one = -1, size = self->shape[d];
        const nbx_tensor *one = nbx_reshaped(c->ctx, repeats, 1, &minus_one);
        repeats = NBX_DO(c->ctx, "aten::expand", T(one), nbx_of_ints(&size, 1));
    }
    const nbx_tensor *rows = NBX_DO(c->ctx, "aten::repeat_interleave.Tensor", T(repeats), c->args[3]);
    return NBX_FORWARD(c, "aten::index_select", T(self), I(d), T(rows));
}

static nbx_status interleave_int(nbx_op_call *c) {
    const int64_t times = arg_int(c, 1);
    int64_t dim, shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    int d;
    const nbx_tensor *self = along(c, 2, &dim);
    if (self == NULL || nbx_call_dim(c, dim, self->rank, &d) != NBX_OK) return c->ctx->status;
    if (times < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld repeats", (long long)times);
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    if (__builtin_mul_overflow(shape[d], times, &shape[d])) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d grows beyond 63 bits", d);
    if (!arg_is_none(c, 3) && arg_int(c, 3) != shape[d])
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the repeated dim has size %lld, output_size is %lld", (long long)shape[d], (long long)arg_int(c, 3));
    nbx_geometry g;
    nbx_geometry_of(self, &g);
    if (g.rank == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    nbx_geometry_insert(&g, d + 1, times, 0);
    const nbx_tensor *copy = nbx_cloned(c->ctx, nbx_geometry_view(c->ctx, self, &g));
    if (copy == NULL) return c->ctx->status;
    nbx_strides_contiguous(self->rank, shape, stride);
    return nbx_give(c, 0, nbx_tensor_view(c->ctx, copy, (nbx_dtype)copy->dtype, self->rank, shape, stride, copy->offset));
}

const nbx_op nbx_ops_repeat[] = {
    {.name = "aten::repeat", .composite = repeat, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::tile", .composite = tile},
    {.name = "aten::repeat_interleave.Tensor", .composite = interleave_indices, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT},
    {.name = "aten::repeat_interleave.self_Tensor", .composite = interleave_tensor},
    {.name = "aten::repeat_interleave.self_int", .composite = interleave_int},
    NBX_OPS_END,
};
