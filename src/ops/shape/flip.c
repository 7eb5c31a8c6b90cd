// Elements in another order along dims: flip, roll, rot90, and the shuffles of pixels and channels.
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

#include <string.h>

// ----------------------------------------------------------------------------------------------------------------- flip
static nbx_status flip_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    uint64_t mask;
    if (nbx_call_dims(c, 1, self->rank, false, &mask) != NBX_OK) return c->ctx->status;
    return out_like(c, 0, (nbx_dtype)self->dtype, self) ? NBX_OK : c->ctx->status;
}

static nbx_status flip(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    uint64_t mask;
    if (out->numel == 0 || nbx_call_dims(c, 1, self->rank, false, &mask) != NBX_OK) return c->ctx->status;
    nbx_move m = {.to = nbx_data(out), .from = nbx_data(self), .width = (int)width, .rank = self->rank};
    for (int d = 0; d < self->rank; d++) {
        m.shape[d] = self->shape[d];
        m.to_stride[d] = out->stride[d] * width;
        m.from_stride[d] = self->stride[d] * width;
        if (!(mask >> d & 1)) continue;
        m.from += (self->shape[d] - 1) * m.from_stride[d];
        m.from_stride[d] = -m.from_stride[d];
    }
    nbx_move_run(c->pool, &m);
    return NBX_OK;
}

static nbx_status flip_of(nbx_op_call *c, const nbx_tensor *t, int64_t dim) {
    return NBX_FORWARD(c, "aten::flip", T(t), nbx_of_ints(&dim, 1));
}

static nbx_status fliplr(nbx_op_call *c) {
    if (arg_tensor(c, 0)->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 2 dims");
    return flip_of(c, arg_tensor(c, 0), 1);
}

static nbx_status flipud(nbx_op_call *c) {
    if (arg_tensor(c, 0)->rank < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 1 dim");
    return flip_of(c, arg_tensor(c, 0), 0);
}

static nbx_status rot90(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count, a, b;
    const int64_t *dims = arg_ints(c, 2, &count);
    if (count != 2 || self->rank < 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes 2 dims of a tensor of at least 2");
    if (nbx_call_dim(c, dims[0], self->rank, &a) != NBX_OK || nbx_call_dim(c, dims[1], self->rank, &b) != NBX_OK) return c->ctx->status;
    if (a == b) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the dims %lld and %lld are the same", (long long)dims[0], (long long)dims[1]);
    const int64_t turns = (arg_int(c, 1) % 4 + 4) % 4;
    if (turns == 2) return NBX_FORWARD(c, "aten::flip", T(self), nbx_of_ints(dims, 2));
    if (turns == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(self), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT)));
    const int64_t flipped = turns == 1 ? b : a;
    const nbx_tensor *turned = NBX_DO(c->ctx, "aten::flip", T(self), nbx_of_ints(&flipped, 1));
    return nbx_give(c, 0, nbx_transposed(c->ctx, turned, a, b));
}

// ----------------------------------------------------------------------------------------------------------------- roll
// Elements move by shift along dim; those that fall off the end come in at the start.
static const nbx_tensor *roll_dim(nbx_op_call *c, const nbx_tensor *t, int64_t shift, int64_t dim) {
    int d;
    if (t == NULL) return NULL;
    if (t->numel == 0) return NBX_DO(c->ctx, "aten::clone", T(t));  // whatever the dim: ATen does not look at it
    if (nbx_call_dim(c, dim, t->rank, &d) != NBX_OK) return NULL;
    const int64_t size = t->shape[d], start = ((size - shift % size) % size + size) % size;
    const nbx_tensor *parts[2] = {nbx_narrowed(c->ctx, t, d, start, size - start), nbx_narrowed(c->ctx, t, d, 0, start)};
    if (parts[0] == NULL || parts[1] == NULL) return NULL;
    return NBX_DO(c->ctx, "aten::cat", nbx_of_tensors(parts, 2), I(d));
}

static nbx_status roll(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count, dim_count;
    const int64_t *shifts = arg_ints(c, 1, &count), *dims = arg_ints(c, 2, &dim_count), minus_one = -1;
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one shift");
    if (dim_count == 0 && count == 1) {  // as if flat
        const nbx_tensor *flat = roll_dim(c, nbx_reshaped(c->ctx, nbx_contiguous(c->ctx, self), 1, &minus_one), shifts[0], 0);
        return flat == NULL ? c->ctx->status : nbx_give(c, 0, nbx_reshaped(c->ctx, flat, self->rank, self->shape));
    }
    if (count != dim_count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d shifts for %d dims", count, dim_count);
    if (self->rank == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "a 0-dim tensor has no dim %lld", (long long)dims[0]);
    const nbx_tensor *rolled = self;
    for (int i = 0; i < count; i++) {
        rolled = roll_dim(c, rolled, shifts[i], dims[i]);
        if (rolled == NULL) return c->ctx->status;
    }
    return out_tensor(c, 0, rolled);
}

// -------------------------------------------------------------------------------------------------------------- shuffles
// view, permute, copy: the last `tail` dims of self are seen as `inner`, in the order of `order`, and stored as `outer`.
static nbx_status shuffled(nbx_op_call *c, int tail, int inner_count, const int64_t *inner, const int64_t *order, const int64_t *outer) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int head = self->rank - tail;
    int64_t shape[NBX_MAX_RANK], dims[NBX_MAX_RANK];
    if (head + inner_count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)head);
    memcpy(shape + head, inner, sizeof(int64_t) * (size_t)inner_count);
    for (int d = 0; d < head; d++) dims[d] = d;
    for (int d = 0; d < inner_count; d++) dims[head + d] = head + order[d];
    const nbx_tensor *seen = nbx_reshaped(c->ctx, self, head + inner_count, shape);
    const nbx_tensor *copy = nbx_cloned(c->ctx, nbx_permuted(c->ctx, seen, head + inner_count, dims));
    memcpy(shape + head, outer, sizeof(int64_t) * (size_t)tail);
    return nbx_give(c, 0, nbx_reshaped(c->ctx, copy, self->rank, shape));
}

static nbx_status pixel_shuffle(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t r = arg_int(c, 1);
    if (self->rank < 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 3 dims, not %d", self->rank);
    const int64_t *s = self->shape + self->rank - 3;
    if (r <= 0 || r > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "factor %lld is not positive", (long long)r);
    if (s[0] % (r * r) != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld channels are not divisible by the factor's square %lld", (long long)s[0], (long long)(r * r));
    const int64_t inner[5] = {s[0] / (r * r), r, r, s[1], s[2]}, order[5] = {0, 3, 1, 4, 2}, outer[3] = {s[0] / (r * r), s[1] * r, s[2] * r};
    return shuffled(c, 3, 5, inner, order, outer);
}

static nbx_status pixel_unshuffle(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t r = arg_int(c, 1);
    if (self->rank < 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 3 dims, not %d", self->rank);
    const int64_t *s = self->shape + self->rank - 3;
    if (r <= 0 || r > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "factor %lld is not positive", (long long)r);
    if (s[1] % r != 0 || s[2] % r != 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "height %lld and width %lld are not divisible by %lld", (long long)s[1], (long long)s[2], (long long)r);
    if (self->numel == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(self)));  // of the shape it has, as in ATen
    const int64_t inner[5] = {s[0], s[1] / r, r, s[2] / r, r}, order[5] = {0, 2, 4, 1, 3}, outer[3] = {s[0] * r * r, s[1] / r, s[2] / r};
    return shuffled(c, 3, 5, inner, order, outer);
}

// channel_shuffle(self [n, c, ...], groups): channels as [groups, c / groups], transposed.
static nbx_status channel_shuffle(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t groups = arg_int(c, 1);
    if (self->rank <= 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of more than 2 dims, not %d", self->rank);
    if (groups <= 0 || self->shape[1] % groups != 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld channels are not divisible into %lld groups", (long long)self->shape[1], (long long)groups);
    if (self->numel == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::alias", T(self)));
    int64_t rest = 1;
    for (int d = 2; d < self->rank; d++) rest *= self->shape[d];
    const int64_t seen[4] = {self->shape[0], groups, self->shape[1] / groups, rest};
    const nbx_tensor *grouped = nbx_cloned(c->ctx, nbx_transposed(c->ctx, nbx_reshaped(c->ctx, self, 4, seen), 1, 2));
    const nbx_tensor *out = nbx_reshaped(c->ctx, grouped, self->rank, self->shape);
    if (nbx_suggest_memory_format(self) == NBX_CONTIGUOUS_FORMAT) return nbx_give(c, 0, out);
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::contiguous", T(out), nbx_of_memory_format(nbx_suggest_memory_format(self))));
}

const nbx_op nbx_ops_flip[] = {
    {.name = "aten::flip", .infer = flip_infer, .cpu = NBX_CPU_KERNEL_ONE(flip), .flags = NBX_OP_STRIDED_SAME},
    {.name = "prims::rev", .infer = flip_infer, .cpu = NBX_CPU_KERNEL_ONE(flip), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::fliplr", .composite = fliplr},
    {.name = "aten::flipud", .composite = flipud},
    {.name = "aten::rot90", .composite = rot90, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::roll", .composite = roll, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::pixel_shuffle", .composite = pixel_shuffle, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::pixel_unshuffle", .composite = pixel_unshuffle, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::channel_shuffle", .composite = channel_shuffle, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::native_channel_shuffle", .composite = channel_shuffle},
    NBX_OPS_END,
};
