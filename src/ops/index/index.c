// index and index_put: tensors as indices of one or several dims. Masks become index tensors here (nonzero); the kernels see
// int64 and int32 only.
#include "ops/index/rows.h"
#include "ops/iter.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

#include <string.h>

static bool is_mask(const nbx_tensor *t) { return !nbx_is_none(t) && (t->dtype == NBX_BOOL || t->dtype == NBX_UINT8); }

// ---------------------------------------------------------------------------------------------------------------- masks
typedef struct index_list {
    int count;
    const nbx_tensor *tensors[NBX_MAX_RANK];
    bool changed;  // a mask was among them
} index_list;

static nbx_status push(nbx_op_call *c, index_list *l, const nbx_tensor *t) {
    if (t == NULL) return c->ctx->status;
    if (l->count == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_INDEX, "more than %d indices", NBX_MAX_RANK);
    l->tensors[l->count++] = t;
    return NBX_OK;
}

// A mask over several dims: the coordinates of its true elements, one tensor for each dim.
static nbx_status push_mask(nbx_op_call *c, index_list *l, const nbx_tensor *mask, const nbx_tensor *self) {
    for (int d = 0; d < mask->rank; d++)
        if (l->count + d >= self->rank || mask->shape[d] != self->shape[l->count + d])
            return nbx_call_fail(c, NBX_ERROR_INDEX, "the mask's size %lld at dim %d is not that of the tensor's dim %d",
                                 (long long)mask->shape[d], d, l->count + d);
    const nbx_tensor *places = NBX_DO(c->ctx, "aten::nonzero", T(mask));
    if (places == NULL) return c->ctx->status;
    for (int d = 0; d < mask->rank; d++)
        if (push(c, l, NBX_DO(c->ctx, "aten::select.int", T(places), I(1), I(d))) != NBX_OK) return c->ctx->status;
    l->changed = true;
    return NBX_OK;
}

static nbx_status without_masks(nbx_op_call *c, const nbx_tensor *self, int arg, index_list *l) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, arg, &count);
    *l = (index_list){0};
    for (int i = 0; i < count; i++) {
        const nbx_status status = is_mask(list[i]) ? push_mask(c, l, list[i], self) : push(c, l, list[i]);
        if (status != NBX_OK) return status;
    }
    return NBX_OK;
}

// The only mask of a list of masks and nones, and the dims before it; NULL: there are other indices.
static const nbx_tensor *only_mask(const nbx_op_call *c, int arg, int *position) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, arg, &count), *mask = NULL;
    for (int i = 0; i < count; i++) {
        if (nbx_is_none(list[i])) continue;
        if (mask != NULL || !is_mask(list[i])) return NULL;
        mask = list[i];
        *position = i;
    }
    return mask;
}

static const nbx_tensor *as_bool(nbx_op_call *c, const nbx_tensor *mask) {
    return mask->dtype == NBX_BOOL ? mask : nbx_cast(c->ctx, mask, NBX_BOOL);
}

// ---------------------------------------------------------------------------------------------------------------- index
// Strides ATen's iterator gives the result: the order of self's dims is kept where the index allows it.
static void result_strides(const nbx_rows *r, int rank, const int64_t *shape, int64_t *stride) {
    nbx_tensor fake[1 + NBX_ROWS_INDICES];
    int64_t strides[1 + NBX_ROWS_INDICES][NBX_MAX_RANK], shapes[NBX_MAX_RANK];
    const nbx_tensor *operands[1 + NBX_ROWS_INDICES];
    memcpy(shapes, shape, sizeof(int64_t) * (size_t)rank);
    for (int i = 0; i <= r->count; i++) {
        int at = 0;
        for (int d = 0; d < r->before.rank; d++) strides[i][at++] = i == 0 ? r->before.table[d] / r->width : 0;
        for (int d = 0; d < r->index_rank; d++) strides[i][at++] = i == 0 ? 0 : r->index_stride[i - 1][d] / (int64_t)nbx_dtype_size((nbx_dtype)r->index[i - 1]->dtype);
        for (int d = 0; d < r->after.rank; d++) strides[i][at++] = i == 0 ? r->after.table[d] / r->width : 0;
        memset(&fake[i], 0, sizeof fake[i]);
        fake[i].dtype = i == 0 ? (uint8_t)r->dtype : r->index[i - 1]->dtype;
        fake[i].rank = (int16_t)rank;
        fake[i].numel = nbx_shape_numel(rank, shape);
        fake[i].shape = shapes;
        fake[i].stride = strides[i];
        operands[i] = &fake[i];
    }
    nbx_iter_out_strides(rank, shape, r->count + 1, operands, stride);
}

static nbx_status index_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count, rank;
    const nbx_tensor *const *list = arg_tensors(c, 1, &count);
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    nbx_rows r;
    if (nbx_rows_plan(c, &r, self, count, list, &rank, shape) != NBX_OK) return c->ctx->status;
    if (r.count == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "at least one index must be a tensor");
    for (int i = 0; i < r.count && r.index_rank > 0; i++)
        if (r.size[i] == 0 && nbx_shape_numel(r.index_rank, r.index_shape) != 0)
            return nbx_call_fail(c, NBX_ERROR_INDEX, "dim %d of size 0 has nothing to index", r.dim[i]);
    result_strides(&r, rank, shape, stride);
    return out_new(c, 0, r.dtype, rank, shape, stride) ? NBX_OK : c->ctx->status;
}

static void rows_of(nbx_rows *r, const nbx_tensor *t) {
    int64_t bytes[NBX_MAX_RANK];
    for (int d = 0; d < t->rank; d++) bytes[d] = t->stride[d] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    r->rows = nbx_data(t);
    nbx_rows_strides(r, bytes);
}

static nbx_status index_cpu(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    int count, rank;
    const nbx_tensor *const *list = arg_tensors(c, 1, &count);
    int64_t shape[NBX_MAX_RANK];
    nbx_rows r;
    if (nbx_rows_plan(c, &r, self, count, list, &rank, shape) != NBX_OK) return c->ctx->status;
    r.table = nbx_data(self);
    rows_of(&r, out);
    return nbx_rows_run(c, &r);
}

static nbx_status index_tensor(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int position = 0;
    if (c->args[1].count == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "at least one index must be given");
    const nbx_tensor *mask = only_mask(c, 1, &position);
    if (mask != NULL && mask->rank > 0 && nbx_same_shape(mask, self))
        return NBX_FORWARD(c, "aten::masked_select", T(self), T(as_bool(c, mask)));
    index_list l;
    if (without_masks(c, self, 1, &l) != NBX_OK) return c->ctx->status;
    bool any = false;
    for (int i = 0; i < l.count; i++) any = any || !nbx_is_none(l.tensors[i]);
    if (!any && l.count <= self->rank) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(self)));
    return NBX_FORWARD(c, "aten::_unsafe_index.Tensor", T(self), nbx_of_tensors(l.tensors, l.count));
}

// ------------------------------------------------------------------------------------------------------------ index_put
// _index_put_impl_(self, indices, values, accumulate, unsafe), int64 and int32 indices: the kernel.
static nbx_status put_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = arg_tensor(c, 2);
    int count, rank;
    const nbx_tensor *const *list = arg_tensors(c, 1, &count);
    int64_t shape[NBX_MAX_RANK];
    nbx_rows r;
    if (values->dtype != self->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "values are %s, self is %s", nbx_dtype_name((nbx_dtype)values->dtype),
                             nbx_dtype_name((nbx_dtype)self->dtype));
    if (nbx_has_internal_overlap(self))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "some elements of self share memory: clone it first");
    if (arg_bool(c, 3) && nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)self->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s cannot be added", nbx_dtype_name((nbx_dtype)self->dtype));
    if (nbx_rows_plan(c, &r, self, count, list, &rank, shape) != NBX_OK) return c->ctx->status;
    if (r.count == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "at least one index must be a tensor");
    const int64_t *sizes = values->shape;
    int dims = values->rank;
    for (int d = 0; d < dims; d++)
        if (dims > rank || (sizes[d] != 1 && sizes[d] != shape[rank - dims + d])) {
            char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "values of shape %s cannot be broadcast to the indexed %s",
                                 nbx_shape_text(values->rank, values->shape, a, sizeof a), nbx_shape_text(rank, shape, b, sizeof b));
        }
    if (c->device.type != NBX_CPU) {
        int64_t entries = 1, places = 1;
        for (int d = 0; d < r.index_rank; d++) entries *= r.index_shape[d];
        for (int k = 0; k < r.count; k++) places *= r.size[k];
        c->scratch_bytes = arg_bool(c, 3) ? nbx_combine_sort_bytes((nbx_dtype)self->dtype, 1, entries) : nbx_rows_meeting_bytes(entries, places);
    }
    return out_tensor(c, 0, self);
}

static nbx_status put_cpu(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = arg_tensor(c, 2);
    int count, rank;
    const nbx_tensor *const *list = arg_tensors(c, 1, &count);
    int64_t shape[NBX_MAX_RANK], bytes[NBX_MAX_RANK];
    nbx_rows r;
    if (nbx_rows_plan(c, &r, self, count, list, &rank, shape) != NBX_OK) return c->ctx->status;
    r.table = nbx_data(self);
    r.rows = nbx_data(values);
    r.write = true;
    r.how = arg_bool(c, 3) ? NBX_COMBINE_ADD : NBX_COMBINE_SET;
    for (int d = 0; d < rank; d++) bytes[d] = nbx_broadcast_stride(values, rank, d) * r.width;
    nbx_rows_strides(&r, bytes);
    return nbx_rows_run(c, &r);
}

// Is it a masked_fill: one number, and the only index a mask of the dims of self where it stands? The number may have any dtype then.
static bool fills(const nbx_tensor *self, const nbx_tensor *mask, int position, const nbx_tensor *values, bool accumulate) {
    if (!mask || accumulate || values->numel != 1 || mask->rank == 0 || position + mask->rank > self->rank) return false;
    for (int d = 0; d < mask->rank; d++)
        if (mask->shape[d] != self->shape[position + d]) return false;
    return true;
}

static nbx_status fill_masked(nbx_op_call *c, const nbx_tensor *self, const nbx_tensor *mask, int position, const nbx_tensor *values) {
    const nbx_tensor *wide = as_bool(c, mask), *value = nbx_reshaped(c->ctx, nbx_cast(c->ctx, values, (nbx_dtype)self->dtype), 0, NULL);
    for (int d = position + mask->rank; d < self->rank; d++) wide = nbx_unsqueezed(c->ctx, wide, -1);
    return NBX_DO(c->ctx, "aten::masked_fill_.Tensor", T(self), T(wide), T(value)) ? out_tensor(c, 0, self) : c->ctx->status;
}

// self with everything written; self itself may be written when in_place.
static nbx_status put(nbx_op_call *c, const nbx_tensor *self) {
    const nbx_tensor *values = arg_tensor(c, 2);
    const bool accumulate = arg_bool(c, 3);
    int position = 0;
    const nbx_tensor *mask = only_mask(c, 1, &position);
    if (self == NULL) return c->ctx->status;
    if (fills(self, mask, position, values, accumulate)) return fill_masked(c, self, mask, position, values);
    if (values->dtype != self->dtype && !values->wrapped)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "values are %s, self is %s", nbx_dtype_name((nbx_dtype)values->dtype),
                             nbx_dtype_name((nbx_dtype)self->dtype));
    if (values->dtype != self->dtype) values = nbx_cast(c->ctx, values, (nbx_dtype)self->dtype);
    index_list l;
    if (without_masks(c, self, 1, &l) != NBX_OK) return c->ctx->status;
    const nbx_tensor *done = NBX_DO(c->ctx, "aten::_index_put_impl_", T(self), nbx_of_tensors(l.tensors, l.count), T(values), B(accumulate));
    return nbx_give(c, 0, done);
}

static nbx_status put_in_place(nbx_op_call *c) { return put(c, arg_tensor(c, 0)); }

static nbx_status put_functional(nbx_op_call *c) { return put(c, NBX_DO(c->ctx, "aten::clone", T(arg_tensor(c, 0)))); }

// _unsafe_masked_index(self, mask, indices, fill): self[indices] where mask, else fill; what mask hides may be out of range.
static const nbx_tensor *const *clamped_indices(nbx_op_call *c, const nbx_tensor *self, int *count) {
    const nbx_tensor *const *list = arg_tensors(c, 2, count);
    const nbx_tensor **clamped = nbx_scope_alloc(c->ctx, sizeof *clamped * (size_t)(*count ? *count : 1));
    for (int i = 0; clamped != NULL && i < *count; i++) {
        clamped[i] = list[i];
        if (!nbx_is_none(list[i]) && i < self->rank)
            clamped[i] = NBX_DO(c->ctx, "aten::clamp", T(list[i]), I(-self->shape[i]), I(self->shape[i] - 1));
        if (clamped[i] == NULL) return NULL;
    }
    return clamped;
}

static nbx_status unsafe_masked_index(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    int count;
    if (self->numel == 0) {
        int64_t shape[NBX_MAX_RANK];  // only the shape of the result counts: indexed dims need one element
        const nbx_tensor *const *given = arg_tensors(c, 2, &count);
        for (int d = 0; d < self->rank; d++) shape[d] = self->shape[d] == 0 && d < count && !nbx_is_none(given[d]) ? 1 : self->shape[d];
        const nbx_tensor *full = NBX_DO(c->ctx, "aten::new_full", T(self), nbx_of_ints(shape, self->rank), c->args[3]);
        const nbx_tensor *const *zeros = clamped_indices(c, self, &count);
        return nbx_give(c, 0, zeros ? NBX_DO(c->ctx, "aten::_unsafe_index.Tensor", T(full), nbx_of_tensors(zeros, count)) : NULL);
    }
    const nbx_tensor *const *list = clamped_indices(c, self, &count);
    if (list == NULL) return c->ctx->status;
    const nbx_tensor *found = NBX_DO(c->ctx, "aten::_unsafe_index.Tensor", T(self), nbx_of_tensors(list, count));
    const nbx_tensor *hidden = NBX_DO(c->ctx, "aten::logical_not", T(mask));
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::masked_fill.Scalar", T(found), T(hidden), c->args[3]));
}

static nbx_status unsafe_masked_put(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    int count;
    if (self->numel == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(self)));
    const nbx_tensor *const *list = clamped_indices(c, self, &count);
    if (list == NULL) return c->ctx->status;
    const nbx_tensor *hidden = NBX_DO(c->ctx, "aten::logical_not", T(mask));
    const nbx_tensor *values = NBX_DO(c->ctx, "aten::masked_fill.Scalar", c->args[3], T(hidden), I(0));
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::_unsafe_index_put", T(self), nbx_of_tensors(list, count), T(values), B(true)));
}

const nbx_op nbx_ops_index[] = {
    {.name = "aten::index.Tensor", .composite = index_tensor, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_unsafe_index.Tensor", .infer = index_infer, .cpu = NBX_CPU_KERNEL_ONE(index_cpu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::index_put", .composite = put_functional},
    {.name = "aten::index_put_", .composite = put_in_place, .flags = NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    {.name = "aten::_unsafe_index_put", .composite = put_functional},
    {.name = "aten::_index_put_impl_", .infer = put_infer, .cpu = NBX_CPU_KERNEL_ONE(put_cpu), .flags = NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    {.name = "aten::_index_put_impl", .composite = put_functional},
    {.name = "aten::_unsafe_masked_index", .composite = unsafe_masked_index},
    {.name = "aten::_unsafe_masked_index_put_accumulate", .composite = unsafe_masked_put},
    NBX_OPS_END,
};
