// cat and what is made of it: stack, hstack, vstack, dstack, column_stack, block_diag.
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

#include <string.h>

// Old programs join tensors of shape [0] with anything: ATen passes over them.
static bool skipped(const nbx_tensor *t) { return t->rank == 1 && t->shape[0] == 0; }

// Channels last when all tensors are, else contiguous.
static nbx_memory_format common_format(int count, const nbx_tensor *const *list) {
    const nbx_memory_format first = nbx_suggest_memory_format(list[0]);
    for (int k = 1; k < count; k++)
        if (nbx_suggest_memory_format(list[k]) != first) return NBX_CONTIGUOUS_FORMAT;
    return first;
}

static nbx_status check_fit(nbx_op_call *c, const nbx_tensor *first, const nbx_tensor *t, int d, int k) {
    bool fits = t->rank == first->rank;
    for (int i = 0; fits && i < t->rank; i++) fits = i == d || t->shape[i] == first->shape[i];
    if (fits) return NBX_OK;
    char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "shapes %s and %s of tensor %d differ outside dim %d",
                         nbx_shape_text(first->rank, first->shape, a, sizeof a), nbx_shape_text(t->rank, t->shape, b, sizeof b), k, d);
}

static nbx_status cat_infer(nbx_op_call *c) {
    int count, d = 0;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count), *first = NULL;
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    nbx_promotion p;
    nbx_promotion_start(&p);
    bool one_dtype = true;
    for (int k = 0; k < count; k++) {
        if (list[k]->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensor %d has no dims", k);
        nbx_promotion_tensor(&p, list[k]);
        one_dtype = one_dtype && list[k]->dtype == list[0]->dtype;
        if (first == NULL && !skipped(list[k])) first = list[k];
    }
    const nbx_dtype dtype = one_dtype ? (nbx_dtype)list[0]->dtype : nbx_promotion_result(&p);
    if (dtype == NBX_DTYPE_NONE) return nbx_call_fail(c, NBX_ERROR_DTYPE, "the tensors have no common dtype");
    const int64_t nothing = 0;
    if (first == NULL) return out_new(c, 0, dtype, 1, &nothing, NULL) ? NBX_OK : c->ctx->status;
    if (nbx_call_dim(c, arg_int(c, 1), first->rank, &d) != NBX_OK) return c->ctx->status;
    c->args[1] = I(d);
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    memcpy(shape, first->shape, sizeof(int64_t) * (size_t)first->rank);
    shape[d] = 0;
    for (int k = 0; k < count; k++) {
        if (skipped(list[k])) continue;
        if (check_fit(c, first, list[k], d, k) != NBX_OK) return c->ctx->status;
        shape[d] += list[k]->shape[d];
    }
    nbx_strides_format(common_format(count, list), first->rank, shape, stride);
    return out_new(c, 0, dtype, first->rank, shape, stride) ? NBX_OK : c->ctx->status;
}

// --------------------------------------------------------------------------------------------------------------- kernel
// Rows of the result: what one index of the dims outside `dim` holds, when everything is dense.
typedef struct rows {
    const nbx_tensor *const *list;
    int count;
    char *to;
    int64_t row_bytes;
    int64_t inner_bytes;  // of one step along dim
    int dim;
} rows;

static void copy_rows(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const rows *r = arg;
    for (int64_t row = begin; row < end; row++) {
        char *to = r->to + row * r->row_bytes;
        for (int k = 0; k < r->count; k++) {
            const nbx_tensor *t = r->list[k];
            if (t->numel == 0) continue;
            const size_t bytes = (size_t)(t->shape[r->dim] * r->inner_bytes);
            memcpy(to, (const char *)nbx_data(t) + row * (int64_t)bytes, bytes);
            to += bytes;
        }
    }
}

static void place(nbx_op_call *c, const nbx_tensor *out, const nbx_tensor *t, int d, int64_t start) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype), t_width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    nbx_move m = {.to = (char *)nbx_data(out) + start * out->stride[d] * width, .from = nbx_data(t), .width = (int)width, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        m.shape[i] = t->shape[i];
        m.to_stride[i] = out->stride[i] * width;
        m.from_stride[i] = t->stride[i] * t_width;
    }
    if (out->dtype == t->dtype) nbx_move_run(c->pool, &m);
    else nbx_convert_strided(&m, (nbx_dtype)out->dtype, (nbx_dtype)t->dtype);
}

static nbx_status cat(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const nbx_tensor *out = out_get(c, 0);
    const int d = (int)arg_int(c, 1);
    if (out->numel == 0) return NBX_OK;
    rows r = {.list = list, .count = count, .to = nbx_data(out), .dim = d, .inner_bytes = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype)};
    bool dense = out->contiguous;
    int64_t outer = 1;
    for (int k = 0; k < count; k++) dense = dense && list[k]->contiguous && list[k]->dtype == out->dtype;
    for (int i = 0; i < out->rank; i++)
        if (i < d) outer *= out->shape[i];
        else if (i > d) r.inner_bytes *= out->shape[i];
    r.row_bytes = r.inner_bytes * out->shape[d];
    if (dense && outer > 1 && r.row_bytes <= 256 << 10) {
        nbx_parallel_for(c->pool, outer, (64 << 10) / r.row_bytes + 1, copy_rows, &r);
        return NBX_OK;
    }
    int64_t start = 0;
    for (int k = 0; k < count; k++) {
        if (skipped(list[k])) continue;
        if (list[k]->numel > 0) place(c, out, list[k], d, start);
        start += list[k]->shape[d];
    }
    return NBX_OK;
}

// ----------------------------------------------------------------------------------------------------------- composites
static nbx_status cat_of(nbx_op_call *c, const nbx_tensor *const *list, int count, int64_t dim) {
    return NBX_FORWARD(c, "aten::cat", nbx_of_tensors(list, count), I(dim));
}

static const nbx_tensor **list_of(nbx_op_call *c, int count) {
    return nbx_scope_alloc(c->ctx, sizeof(nbx_tensor *) * (size_t)(count ? count : 1));
}

static nbx_status stack(nbx_op_call *c) {
    int count, d;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    if (nbx_call_dim(c, arg_int(c, 1), list[0]->rank + 1, &d) != NBX_OK) return c->ctx->status;
    const int rank = list[0]->rank;
    for (int k = 1; k < count; k++) {
        if (nbx_same_shape(list[k], list[0])) continue;
        char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "shapes %s and %s of tensor %d differ",
                             nbx_shape_text(list[0]->rank, list[0]->shape, a, sizeof a),
                             nbx_shape_text(list[k]->rank, list[k]->shape, b, sizeof b), k);
    }
    if (d < rank && list[0]->numel > 0) {  // joined along dim d, which is then split: keeps the order of the tensors' strides
        const nbx_tensor *flat = NBX_DO(c->ctx, "aten::cat", c->args[0], I(d));
        const int64_t split[2] = {count, list[0]->shape[d]};
        return nbx_give(c, 0, NBX_DO(c->ctx, "aten::unflatten.int", T(flat), I(d), nbx_of_ints(split, 2)));
    }
    const nbx_tensor **raised = list_of(c, count);
    for (int k = 0; raised != NULL && k < count; k++) {
        raised[k] = nbx_unsqueezed(c->ctx, list[k], d);
        if (raised[k] == NULL) return c->ctx->status;
    }
    return raised == NULL ? c->ctx->status : cat_of(c, raised, count, d);
}

static nbx_status concat(nbx_op_call *c) { return NBX_FORWARD(c, "aten::cat", c->args[0], c->args[1]); }

// hstack, vstack, dstack, column_stack: atleast_nd, then cat along a dim.
static nbx_status joined(nbx_op_call *c, const char *atleast, int64_t dim) {
    nbx_value list;
    if (c->args[0].count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    if (nbx_do_many(c->ctx, atleast, 1, c->args, &list, 1) != NBX_OK) return c->ctx->status;
    return cat_of(c, list.as.tensors, list.count, dim == 1 && list.as.tensors[0]->rank == 1 ? 0 : dim);
}

static nbx_status hstack(nbx_op_call *c) { return joined(c, "aten::atleast_1d.Sequence", 1); }
static nbx_status vstack(nbx_op_call *c) { return joined(c, "aten::atleast_2d.Sequence", 0); }
static nbx_status dstack(nbx_op_call *c) { return joined(c, "aten::atleast_3d.Sequence", 2); }

static nbx_status column_stack(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const nbx_tensor **columns = list_of(c, count);
    if (columns == NULL) return c->ctx->status;
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    for (int k = 0; k < count; k++) {
        const int64_t column[2] = {list[k]->numel, 1};
        columns[k] = list[k]->rank <= 1 ? nbx_reshaped(c->ctx, list[k], 2, column) : list[k];
        if (columns[k] == NULL) return c->ctx->status;
    }
    return cat_of(c, columns, count, 1);
}

static nbx_status block_diag(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const nbx_tensor **blocks = list_of(c, count);
    if (blocks == NULL) return c->ctx->status;
    int64_t shape[2] = {0, 0};
    nbx_promotion p;
    nbx_promotion_start(&p);
    for (int k = 0; k < count; k++) {
        if (list[k]->rank > 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensor %d has more than 2 dims", k);
        const int64_t matrix[2] = {list[k]->rank == 2 ? list[k]->shape[0] : 1, list[k]->rank == 0 ? 1 : list[k]->shape[list[k]->rank - 1]};
        blocks[k] = nbx_reshaped(c->ctx, list[k], 2, matrix);
        nbx_promotion_tensor(&p, list[k]);
        shape[0] += matrix[0], shape[1] += matrix[1];
    }
    if (count == 0) shape[0] = 1;
    const nbx_dtype dtype = count == 0 ? NBX_FLOAT32 : nbx_promotion_result(&p);
    const nbx_tensor *out = NBX_DO(c->ctx, "aten::zeros", nbx_of_ints(shape, 2), nbx_of_dtype(dtype), NIL, nbx_of_device(c->device));
    for (int64_t k = 0, row = 0, column = 0; k < count && out != NULL; k++) {
        const int64_t rows_here = blocks[k] ? blocks[k]->shape[0] : 0, columns_here = blocks[k] ? blocks[k]->shape[1] : 0;
        const nbx_tensor *place_here = nbx_narrowed(c->ctx, nbx_narrowed(c->ctx, out, 0, row, rows_here), 1, column, columns_here);
        if (NBX_DO(c->ctx, "aten::copy_", T(place_here), T(blocks[k])) == NULL) return c->ctx->status;
        row += rows_here, column += columns_here;
    }
    return nbx_give(c, 0, out);
}

// _chunk_cat(tensors, dim, num_chunks): every tensor in num_chunks chunks along dim (filled up with zeros), all that follows dim in a
// row; the chunks of one number side by side.
static nbx_status chunk_cat(nbx_op_call *c) {
    int count, d;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const int64_t chunks = arg_int(c, 2);
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    if (chunks < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "num_chunks must be positive, found %lld", (long long)chunks);
    if (nbx_call_dim(c, arg_int(c, 1), list[0]->rank, &d) != NBX_OK) return c->ctx->status;
    const nbx_tensor **chunked = list_of(c, count);
    if (chunked == NULL) return c->ctx->status;
    for (int k = 0; k < count; k++) {
        bool fits = list[k]->dtype == list[0]->dtype && list[k]->rank > d && list[k]->numel > 0;
        for (int i = 0; i < d && fits; i++) fits = list[k]->shape[i] == list[0]->shape[i];
        if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensor %d is empty or differs from the first in dtype or in front of dim %d", k, d);
        int64_t pads[2 * NBX_MAX_RANK] = {0}, shape[NBX_MAX_RANK];
        const int last = 2 * (list[k]->rank - 1 - d) + 1;
        const int64_t size = list[k]->shape[d];
        pads[last] = ((size - 1) / chunks + 1) * chunks - size;
        for (int i = 0; i < d; i++) shape[i] = list[k]->shape[i];
        shape[d] = chunks, shape[d + 1] = -1;
        const nbx_tensor *whole = pads[last] ? NBX_DO(c->ctx, "aten::constant_pad_nd", T(list[k]), nbx_of_ints(pads, last + 1), I(0)) : list[k];
        chunked[k] = NBX_DO(c->ctx, "aten::reshape", T(whole), nbx_of_ints(shape, d + 2));
        if (chunked[k] == NULL) return c->ctx->status;
    }
    return cat_of(c, chunked, count, d + 1);
}

const nbx_op nbx_ops_cat[] = {
    {.name = "aten::cat", .infer = cat_infer, .cpu = NBX_CPU_KERNEL_ONE(cat), .flags = NBX_OP_STRIDED_OUT},
    {.name = "aten::concat", .composite = concat},
    {.name = "aten::concatenate", .composite = concat},
    {.name = "aten::stack", .composite = stack},
    {.name = "aten::hstack", .composite = hstack},
    {.name = "aten::vstack", .composite = vstack},
    {.name = "aten::row_stack", .composite = vstack},
    {.name = "aten::dstack", .composite = dstack},
    {.name = "aten::column_stack", .composite = column_stack},
    {.name = "aten::_chunk_cat", .composite = chunk_cat, .flags = NBX_OP_PACKED_OUT},
    {.name = "aten::block_diag", .composite = block_diag, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
