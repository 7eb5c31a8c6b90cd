// One dim indexed by a vector: index_select, embedding, index_add, index_copy, index_fill, index_reduce.
#include "ops/elementwise/elementwise.h"
#include "ops/index/rows.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

#include <string.h>

static void byte_strides(const nbx_tensor *t, int64_t *bytes) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    for (int d = 0; d < t->rank; d++) bytes[d] = t->stride[d] * width;
}

static nbx_status need_vector(nbx_op_call *c, const nbx_tensor *index) {
    if (index->rank <= 1) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_INDEX, "the index must be a vector, not of %d dims", index->rank);
}

static nbx_status need_dtype(nbx_op_call *c, const nbx_tensor *index, bool narrow_too) {
    if (index->dtype == NBX_INT64 || (narrow_too && index->dtype == NBX_INT32)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "the index must be int64%s, not %s", narrow_too ? " or int32" : "",
                         nbx_dtype_name((nbx_dtype)index->dtype));
}

// -------------------------------------------------------------------------------------------------------- index_select
static nbx_status select_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2);
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), self->rank, &d) != NBX_OK || need_vector(c, index) != NBX_OK || need_dtype(c, index, true) != NBX_OK)
        return c->ctx->status;
    c->args[1] = I(d);
    int64_t shape[NBX_MAX_RANK];
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    if (self->rank > 0) shape[d] = index->numel;
    else if (index->numel != 1) return nbx_call_fail(c, NBX_ERROR_INDEX, "a 0-dim tensor takes an index of one element, not of %lld", (long long)index->numel);
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status select_rows(nbx_op_call *c, const nbx_tensor *self, int d, const nbx_tensor *index) {
    const nbx_tensor *out = out_get(c, 0);
    nbx_rows r;
    int rank;
    int64_t shape[NBX_MAX_RANK], bytes[NBX_MAX_RANK] = {0};
    if (nbx_rows_plan_dim(c, &r, self, d, index, &rank, shape) != NBX_OK) return c->ctx->status;
    byte_strides(out, bytes);
    r.table = nbx_data(self);
    r.rows = nbx_data(out);
    nbx_rows_strides(&r, bytes);
    return nbx_rows_run(c, &r);
}

static nbx_status select_cpu(nbx_op_call *c) { return select_rows(c, arg_tensor(c, 0), (int)arg_int(c, 1), arg_tensor(c, 2)); }

static void row_cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *out = out_get(c, 0);
    const double bytes = (double)out->numel * (double)nbx_dtype_size((nbx_dtype)out->dtype);
    cost->bytes_read = bytes;
    cost->bytes_written = bytes;
}

// embedding(weight, indices): rows of weight, in the shape of indices.
static nbx_status embedding_infer(nbx_op_call *c) {
    const nbx_tensor *weight = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    int64_t shape[NBX_MAX_RANK];
    if (weight->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "weight must be a matrix, not of %d dims", weight->rank);
    if (need_dtype(c, indices, true) != NBX_OK) return c->ctx->status;
    if (indices->rank + 1 > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    memcpy(shape, indices->shape, sizeof(int64_t) * (size_t)indices->rank);
    shape[indices->rank] = weight->shape[1];
    return out_new(c, 0, (nbx_dtype)weight->dtype, indices->rank + 1, shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status embedding_cpu(nbx_op_call *c) {
    const nbx_tensor *indices = arg_tensor(c, 1), *out = out_get(c, 0);
    if (indices->rank > 0) return select_rows(c, arg_tensor(c, 0), 0, indices);
    nbx_tensor row = *out;  // one row for a 0-dim index
    int64_t shape[2] = {1, out->shape[0]}, stride[2] = {0, out->stride[0]};
    row.rank = 2, row.shape = shape, row.stride = stride;
    nbx_rows r;
    int rank;
    int64_t planned[NBX_MAX_RANK], bytes[2];
    if (nbx_rows_plan_dim(c, &r, arg_tensor(c, 0), 0, indices, &rank, planned) != NBX_OK) return c->ctx->status;
    byte_strides(&row, bytes);
    r.table = nbx_data(arg_tensor(c, 0));
    r.rows = nbx_data(out);
    nbx_rows_strides(&r, bytes);
    return nbx_rows_run(c, &r);
}

// ------------------------------------------------------------------------------ index_add, index_copy, index_reduce, index_fill
// The result starts as a copy of self, unless it is self (in-place forms).
static void start_from_self(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) nbx_move_tensor(c->pool, out, self);
}

static nbx_status source_infer(nbx_op_call *c, bool narrow_too) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *source = arg_tensor(c, 3);
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), self->rank, &d) != NBX_OK || need_vector(c, index) != NBX_OK || need_dtype(c, index, narrow_too) != NBX_OK)
        return c->ctx->status;
    c->args[1] = I(d);
    if (self->dtype != source->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, source is %s", nbx_dtype_name((nbx_dtype)self->dtype), nbx_dtype_name((nbx_dtype)source->dtype));
    const int64_t along = source->rank == 0 ? 1 : source->rank > d ? source->shape[d] : -1;
    bool fits = source->rank == self->rank || (source->rank <= 1 && self->rank <= 1);
    for (int i = 0; fits && i < self->rank && source->rank == self->rank; i++) fits = i == d || source->shape[i] == self->shape[i];
    if (!fits || along != index->numel) {
        char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "source of shape %s does not fit %lld rows of self of shape %s along dim %d",
                             nbx_shape_text(source->rank, source->shape, a, sizeof a), (long long)index->numel,
                             nbx_shape_text(self->rank, self->shape, b, sizeof b), d);
    }
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, self->shape, NULL) ? NBX_OK : c->ctx->status;
}

// Writes rows at `rows` into the result; strides NULL: one element for all.
static nbx_status write_rows(nbx_op_call *c, char *rows, const nbx_tensor *source, nbx_combine how, bool wrap) {
    const nbx_tensor *out = out_get(c, 0);
    nbx_rows r;
    int rank;
    int64_t shape[NBX_MAX_RANK], bytes[NBX_MAX_RANK] = {0};
    if (nbx_rows_plan_dim(c, &r, out, (int)arg_int(c, 1), arg_tensor(c, 2), &rank, shape) != NBX_OK) return c->ctx->status;
    if (source != NULL) byte_strides(source, bytes);
    r.table = nbx_data(out);
    r.rows = rows;
    r.write = true;
    r.wrap = wrap;
    r.how = how;
    nbx_rows_strides(&r, bytes);
    return nbx_rows_run(c, &r);
}

static bool is_one(const nbx_value *v) { return v->kind != NBX_KIND_COMPLEX && nbx_scalar_to_double(v) == 1; }

static nbx_status add_infer(nbx_op_call *c) {
    if (source_infer(c, true) != NBX_OK) return c->ctx->status;
    const nbx_tensor *source = arg_tensor(c, 3);
    const nbx_value *alpha = &c->args[4];
    const nbx_category number = alpha->kind == NBX_KIND_COMPLEX ? NBX_CATEGORY_COMPLEX : alpha->kind == NBX_KIND_FLOAT ? NBX_CATEGORY_FLOAT : NBX_CATEGORY_INTEGER;
    if (number > nbx_dtype_category((nbx_dtype)source->dtype) && !(number == NBX_CATEGORY_INTEGER))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "alpha must not be of a higher kind than %s", nbx_dtype_name((nbx_dtype)source->dtype));
    if (nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)source->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s cannot be added", nbx_dtype_name((nbx_dtype)source->dtype));
    if (!is_one(alpha)) c->scratch_bytes = (size_t)source->numel * nbx_dtype_size((nbx_dtype)source->dtype);
    if (c->device.type != NBX_CPU) c->scratch_bytes += nbx_combine_sort_bytes((nbx_dtype)source->dtype, 1, arg_tensor(c, 2)->numel);
    return NBX_OK;
}

static nbx_status add_cpu(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3);
    if (source->numel == 0) {
        start_from_self(c);
        return NBX_OK;
    }
    if (is_one(&c->args[4])) {
        start_from_self(c);
        return write_rows(c, nbx_data(source), source, NBX_COMBINE_ADD, false);
    }
    const nbx_dtype dtype = (nbx_dtype)source->dtype;
    char alpha[16];
    int64_t stride[NBX_MAX_RANK];
    nbx_storage memory = {.data = c->scratch};
    nbx_tensor scaled = *source;
    nbx_strides_contiguous(source->rank, source->shape, stride);
    scaled.storage = &memory, scaled.offset = 0, scaled.stride = stride;
    nbx_scalar_element(&c->args[4], dtype, alpha);
    nbx_move_tensor(c->pool, &scaled, source);
    nbx_combine_of(NBX_COMBINE_MUL, dtype)(c->scratch, (int64_t)nbx_dtype_size(dtype), alpha, 0, source->numel);
    start_from_self(c);
    return write_rows(c, c->scratch, &scaled, NBX_COMBINE_ADD, false);
}

static nbx_status copy_infer(nbx_op_call *c) {
    const nbx_status status = source_infer(c, false);
    const nbx_tensor *self = arg_tensor(c, 0);
    if (status == NBX_OK && c->device.type != NBX_CPU)
        c->scratch_bytes = nbx_rows_meeting_bytes(arg_tensor(c, 2)->numel, self->rank == 0 ? 1 : self->shape[arg_int(c, 1)]);
    return status;
}

static nbx_status copy_cpu(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3);
    start_from_self(c);
    return source->numel == 0 ? NBX_OK : write_rows(c, nbx_data(source), source, NBX_COMBINE_SET, false);
}

static nbx_status fill_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *value = arg_tensor(c, 3);
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), self->rank, &d) != NBX_OK || need_vector(c, index) != NBX_OK || need_dtype(c, index, false) != NBX_OK)
        return c->ctx->status;
    if (value != NULL && value->rank != 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "value must be a 0-dim tensor, not of %d dims", value->rank);
    const bool complex = value != NULL ? nbx_dtype_is_complex((nbx_dtype)value->dtype) : c->args[3].kind == NBX_KIND_COMPLEX;
    if (complex && !nbx_dtype_is_complex((nbx_dtype)self->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a complex value does not fit %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (value == NULL && ew_check_number(c, (nbx_dtype)self->dtype, &c->args[3]) != NBX_OK) return c->ctx->status;
    c->args[1] = I(d);
    if (c->device.type != NBX_CPU) c->scratch_bytes = 16;  // the value, converted
    return out_like(c, 0, (nbx_dtype)self->dtype, self) ? NBX_OK : c->ctx->status;
}

static nbx_status fill_cpu(nbx_op_call *c) {
    const nbx_tensor *value = arg_tensor(c, 3), *out = out_get(c, 0);
    char element[16];
    if (value == NULL) nbx_scalar_element(&c->args[3], (nbx_dtype)out->dtype, element);
    else nbx_convert_run((nbx_dtype)out->dtype, element, 0, (nbx_dtype)value->dtype, nbx_data(value), 0, 1);
    start_from_self(c);
    return arg_tensor(c, 2)->numel == 0 ? NBX_OK : write_rows(c, element, NULL, NBX_COMBINE_SET, true);
}

// --------------------------------------------------------------------------------------------------------- index_reduce
static nbx_status reduce_infer(nbx_op_call *c) {
    nbx_combine how;
    bool mean;
    if (!nbx_combine_parse(arg_string(c, 4), &how, &mean) || (how == NBX_COMBINE_ADD && !mean))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "reduce must be prod, mean, amax or amin, not %s", arg_string(c, 4));
    if (source_infer(c, true) != NBX_OK) return c->ctx->status;
    const nbx_tensor *self = arg_tensor(c, 0);
    if (nbx_combine_of(how, (nbx_dtype)self->dtype) == NULL || nbx_dtype_is_complex((nbx_dtype)self->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no %s", nbx_dtype_name((nbx_dtype)self->dtype), arg_string(c, 4));
    if (mean) c->scratch_bytes = sizeof(int64_t) * (size_t)(self->rank == 0 ? 1 : self->shape[arg_int(c, 1)] + 1);
    return NBX_OK;
}

static int64_t index_at(const nbx_tensor *index, int64_t i) {
    const char *p = (const char *)nbx_data(index) + (index->rank == 0 ? 0 : i * index->stride[0]) * (int64_t)nbx_dtype_size((nbx_dtype)index->dtype);
    int64_t wide;
    int32_t narrow;
    if (index->dtype == NBX_INT64) memcpy(&wide, p, sizeof wide);
    else memcpy(&narrow, p, sizeof narrow), wide = narrow;
    return wide;
}

// Divides every row of the result by how many values it holds.
static void divide_rows(nbx_op_call *c, bool include_self) {
    const nbx_tensor *out = out_get(c, 0), *index = arg_tensor(c, 2);
    const int d = (int)arg_int(c, 1);
    const int64_t size = out->rank == 0 ? 1 : out->shape[d], width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t *counts = c->scratch, at[NBX_MAX_RANK] = {0};
    for (int64_t i = 0; i < size; i++) counts[i] = include_self;
    for (int64_t i = 0; i < index->numel; i++) counts[index_at(index, i)]++;
    char *to = nbx_data(out);
    for (;;) {  // over all elements, whatever their strides
        const int64_t count = counts[out->rank == 0 ? 0 : at[d]];
        if (count > 1) nbx_divide_run((nbx_dtype)out->dtype, to, 0, count, 1);
        int i = out->rank - 1;
        for (; i >= 0; i--) {
            to += out->stride[i] * width;
            if (++at[i] < out->shape[i]) break;
            to -= out->stride[i] * width * at[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

static nbx_status reduce_cpu(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3), *out = out_get(c, 0);
    const bool include_self = arg_bool(c, 5);
    nbx_combine how = NBX_COMBINE_MUL;
    bool mean = false;
    char identity[16];
    nbx_combine_parse(arg_string(c, 4), &how, &mean);
    start_from_self(c);
    if (source->numel == 0 || out->numel == 0) return NBX_OK;
    nbx_combine_identity(how, (nbx_dtype)out->dtype, identity);
    if (!include_self && write_rows(c, identity, NULL, NBX_COMBINE_SET, false) != NBX_OK) return c->ctx->status;
    if (write_rows(c, nbx_data(source), source, how, false) != NBX_OK) return c->ctx->status;
    if (mean) divide_rows(c, include_self);
    return NBX_OK;
}

const nbx_op nbx_ops_select[] = {
    {.name = "aten::index_select", .infer = select_infer, .cost = row_cost, .cpu = NBX_CPU_KERNEL_ONE(select_cpu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::embedding", .infer = embedding_infer, .cost = row_cost, .cpu = NBX_CPU_KERNEL_ONE(embedding_cpu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::index_add", .infer = add_infer, .cpu = NBX_CPU_KERNEL_ONE(add_cpu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::index_copy", .infer = copy_infer, .cpu = NBX_CPU_KERNEL_ONE(copy_cpu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::index_fill.int_Scalar", .infer = fill_infer, .cpu = NBX_CPU_KERNEL_ONE(fill_cpu),
     .flags = NBX_OP_STRIDED_SAME | NBX_OP_SHARED_SELF},
    {.name = "aten::index_fill.int_Tensor", .infer = fill_infer, .cpu = NBX_CPU_KERNEL_ONE(fill_cpu),
     .flags = NBX_OP_STRIDED_SAME | NBX_OP_SHARED_SELF},
    {.name = "aten::index_reduce", .infer = reduce_infer, .cpu = NBX_CPU_KERNEL_ONE(reduce_cpu), .flags = NBX_OP_STRIDED_SAME},
    NBX_OPS_END,
};
