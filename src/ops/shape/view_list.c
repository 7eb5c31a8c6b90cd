// Views in lists: split and its kin, chunk, tensor_split, unbind, broadcast_tensors, meshgrid, atleast of sequences.
#include "ops/shape/geometry.h"

#include <string.h>

// Result k: elements start .. start + length of dim d.
static nbx_status piece(nbx_op_call *c, int k, int d, int64_t start, int64_t length) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    g.offset += start * g.stride[d];
    g.shape[d] = length;
    return nbx_geometry_out(c, k, x, &g);
}

static nbx_status list_dim(nbx_op_call *c, int64_t dim, int *d) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "a 0-dim tensor cannot be split");
    return nbx_call_dim(c, dim, x->rank, d);
}

// count pieces of `length`, the last one shorter.
static nbx_status even_pieces(nbx_op_call *c, int d, int64_t length) {
    const int64_t size = arg_tensor(c, 0)->shape[d];
    if (length < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "split size %lld is negative", (long long)length);
    if (length == 0 && size != 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "split size 0 for a dim of size %lld", (long long)size);
    const int64_t count = length == 0 || size == 0 ? 1 : (size - 1) / length + 1;
    if (out_list(c, (int)count) != NBX_OK) return c->ctx->status;
    for (int64_t k = 0; k < count; k++) {
        const int64_t start = k * length, rest = size - start;
        if (piece(c, (int)k, d, start, rest < length ? rest : length) != NBX_OK) return c->ctx->status;
    }
    return NBX_OK;
}

static nbx_status split(nbx_op_call *c) {
    int d;
    if (list_dim(c, arg_int(c, 2), &d) != NBX_OK) return c->ctx->status;
    return even_pieces(c, d, arg_int(c, 1));
}

static nbx_status split_sizes(nbx_op_call *c) {
    int d, count;
    const int64_t *sizes = arg_ints(c, 1, &count);
    if (list_dim(c, arg_int(c, 2), &d) != NBX_OK) return c->ctx->status;
    int64_t sum = 0;
    for (int k = 0; k < count; k++) {
        if (sizes[k] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "split size %lld is negative", (long long)sizes[k]);
        if (__builtin_add_overflow(sum, sizes[k], &sum)) sum = -1;
        if (sum < 0) break;
    }
    const int64_t size = arg_tensor(c, 0)->shape[d];
    if (sum != size)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "split sizes add up to %lld, dim %d has %lld", (long long)sum, d, (long long)size);
    if (out_list(c, count) != NBX_OK) return c->ctx->status;
    for (int64_t k = 0, start = 0; k < count; start += sizes[k++])
        if (piece(c, (int)k, d, start, sizes[k]) != NBX_OK) return c->ctx->status;
    return NBX_OK;
}

static nbx_status chunk(nbx_op_call *c) {
    const int64_t chunks = arg_int(c, 1);
    int d;
    if (list_dim(c, arg_int(c, 2), &d) != NBX_OK) return c->ctx->status;
    if (chunks <= 0 || chunks > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld chunks", (long long)chunks);
    const int64_t size = arg_tensor(c, 0)->shape[d];
    if (size > 0) return even_pieces(c, d, (size - 1) / chunks + 1);
    if (out_list(c, (int)chunks) != NBX_OK) return c->ctx->status;  // an empty dim gives as many as asked for
    for (int k = 0; k < (int)chunks; k++)
        if (piece(c, k, d, 0, 0) != NBX_OK) return c->ctx->status;
    return NBX_OK;
}

// The first size % sections pieces get one element more.
static nbx_status sections_of(nbx_op_call *c, int d, int64_t sections) {
    if (sections <= 0 || sections > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld sections", (long long)sections);
    const int64_t size = arg_tensor(c, 0)->shape[d], least = size / sections, more = size % sections;
    if (out_list(c, (int)sections) != NBX_OK) return c->ctx->status;
    for (int64_t k = 0, start = 0; k < sections; k++) {
        const int64_t length = least + (k < more);
        if (piece(c, (int)k, d, start, length) != NBX_OK) return c->ctx->status;
        start += length;
    }
    return NBX_OK;
}

// Pieces between indices, by the rule of slices.
static nbx_status indices_of(nbx_op_call *c, int d, int count, const int64_t *indices) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (out_list(c, count + 1) != NBX_OK) return c->ctx->status;
    for (int k = 0; k <= count; k++) {
        nbx_geometry g;
        nbx_geometry_of(x, &g);
        const int64_t start = k == 0 ? 0 : indices[k - 1], end = k == count ? INT64_MAX : indices[k];
        if (nbx_geometry_slice(c, &g, d, start, end, 1) != NBX_OK || nbx_geometry_out(c, k, x, &g) != NBX_OK) return c->ctx->status;
    }
    return NBX_OK;
}

static nbx_status tensor_split_sections(nbx_op_call *c) {
    int d;
    if (list_dim(c, arg_int(c, 2), &d) != NBX_OK) return c->ctx->status;
    return sections_of(c, d, arg_int(c, 1));
}

static nbx_status tensor_split_indices(nbx_op_call *c) {
    int d, count;
    const int64_t *indices = arg_ints(c, 1, &count);
    if (list_dim(c, arg_int(c, 2), &d) != NBX_OK) return c->ctx->status;
    return indices_of(c, d, count, indices);
}

static nbx_status tensor_split_tensor(nbx_op_call *c) {
    const nbx_tensor *spec = arg_tensor(c, 1);
    if (spec->dtype != NBX_INT64 || spec->rank > 1)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "sections or indices must be an int64 tensor of rank 0 or 1");
    int64_t count;
    const int64_t *values = nbx_read_ints(c, spec, &count);
    if (values == NULL) return c->ctx->status;
    if (spec->rank == 0) return NBX_FORWARD(c, "aten::tensor_split.sections", c->args[0], I(values[0]), c->args[2]);
    return NBX_FORWARD(c, "aten::tensor_split.indices", c->args[0], nbx_of_ints(values, count), c->args[2]);
}

// hsplit, vsplit, dsplit: tensor_split along dim 1 (0 of a vector), 0, 2, whose size must be divisible.
typedef struct direction { int dim, least_rank; } direction;
static const direction horizontal = {1, 1}, vertical = {0, 2}, deep = {2, 3};

static nbx_status direction_dim(nbx_op_call *c, int *d) {
    const direction *way = c->op->data;
    const int rank = arg_tensor(c, 0)->rank;
    if (rank < way->least_rank)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least %d dims, not %d", way->least_rank, rank);
    *d = rank == 1 ? 0 : way->dim;
    return NBX_OK;
}

static nbx_status split_direction_int(nbx_op_call *c) {
    int d = 0;
    const int64_t sections = arg_int(c, 1);
    if (direction_dim(c, &d) != NBX_OK) return c->ctx->status;
    const int64_t size = arg_tensor(c, 0)->shape[d];
    if (sections <= 0 || size % sections != 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is not divisible into %lld", (long long)size, d, (long long)sections);
    return sections_of(c, d, sections);
}

static nbx_status split_direction_array(nbx_op_call *c) {
    int d = 0, count;
    const int64_t *indices = arg_ints(c, 1, &count);
    return direction_dim(c, &d) != NBX_OK ? c->ctx->status : indices_of(c, d, count, indices);
}

static nbx_status unbind(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int d;
    if (x->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "a 0-dim tensor has no dim to unbind");
    if (nbx_call_dim(c, arg_int(c, 1), x->rank, &d) != NBX_OK) return c->ctx->status;
    if (x->shape[d] > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld results", (long long)x->shape[d]);
    if (out_list(c, (int)x->shape[d]) != NBX_OK) return c->ctx->status;
    for (int k = 0; k < (int)x->shape[d]; k++) {
        nbx_geometry g;
        nbx_geometry_of(x, &g);
        g.offset += k * g.stride[d];
        nbx_geometry_remove(&g, d);
        if (nbx_geometry_out(c, k, x, &g) != NBX_OK) return c->ctx->status;
    }
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------- several tensors
static nbx_status broadcast_tensors(nbx_op_call *c) {
    int count, rank = 0;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    int64_t shape[NBX_MAX_RANK];
    for (int k = 0; k < count; k++)
        if (nbx_broadcast(c, &rank, shape, list[k]->rank, list[k]->shape) != NBX_OK) return c->ctx->status;
    if (out_list(c, count) != NBX_OK) return c->ctx->status;
    for (int k = 0; k < count; k++)
        if (nbx_give(c, k, NBX_DO(c->ctx, "aten::expand", T(list[k]), nbx_of_ints(shape, rank))) != NBX_OK) return c->ctx->status;
    return NBX_OK;
}

// Result k is tensor k along dim k, expanded; "xy" swaps the first two dims.
static nbx_status meshgrid_as(nbx_op_call *c, const char *indexing) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const bool swap = indexing[0] == 'x' && count >= 2;
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    if (count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d tensors", NBX_MAX_RANK);
    int64_t shape[NBX_MAX_RANK], one[NBX_MAX_RANK];
    for (int k = 0; k < count; k++) {
        const int at = swap && k < 2 ? 1 - k : k;
        if (list[k]->rank > 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes tensors of at most 1 dim, not %d", list[k]->rank);
        if (list[k]->dtype != list[0]->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes tensors of one dtype");
        shape[at] = list[k]->numel;
    }
    if (out_list(c, count) != NBX_OK) return c->ctx->status;
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < count; i++) one[i] = 1;
        one[swap && k < 2 ? 1 - k : k] = list[k]->numel;
        const nbx_tensor *column = nbx_reshaped(c->ctx, list[k], count, one);
        if (nbx_give(c, k, NBX_DO(c->ctx, "aten::expand", T(column), nbx_of_ints(shape, count))) != NBX_OK) return c->ctx->status;
    }
    return NBX_OK;
}

static nbx_status meshgrid(nbx_op_call *c) { return meshgrid_as(c, "ij"); }

static nbx_status meshgrid_indexing(nbx_op_call *c) {
    const char *indexing = arg_string(c, 1);
    if (strcmp(indexing, "ij") != 0 && strcmp(indexing, "xy") != 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "indexing must be 'ij' or 'xy', not '%s'", indexing);
    return meshgrid_as(c, indexing);
}

// A tensor with at least so many dims: [n] becomes [1, n] and [1, n, 1], [m, n] becomes [m, n, 1].
static nbx_tensor *with_dims(nbx_context *ctx, const nbx_tensor *x, int least) {
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (g.rank == 0 && least >= 1) nbx_geometry_insert(&g, 0, 1, 1);
    if (g.rank == 1 && least >= 2) nbx_geometry_insert(&g, 0, 1, g.shape[0] * g.stride[0]);
    if (g.rank == 2 && least >= 3) nbx_geometry_insert(&g, 2, 1, 1);
    return nbx_geometry_view(ctx, x, &g);
}

static int least_rank(const nbx_op_call *c) { return *(const int *)c->op->data; }
static const int one_dim = 1, two_dims = 2, three_dims = 3;

static nbx_status atleast(nbx_op_call *c) { return nbx_give(c, 0, with_dims(c->ctx, arg_tensor(c, 0), least_rank(c))); }

static nbx_status atleast_sequence(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    if (out_list(c, count) != NBX_OK) return c->ctx->status;
    for (int k = 0; k < count; k++)
        if (nbx_give(c, k, with_dims(c->ctx, list[k], least_rank(c))) != NBX_OK) return c->ctx->status;
    return NBX_OK;
}

const nbx_op nbx_ops_view_list[] = {
    {.name = "aten::split.Tensor", .infer = split},
    {.name = "aten::split.sizes", .infer = split_sizes},
    {.name = "aten::split_with_sizes", .infer = split_sizes},
    {.name = "aten::unsafe_split.Tensor", .infer = split, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::unsafe_split_with_sizes", .infer = split_sizes, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::chunk", .infer = chunk},
    {.name = "aten::unsafe_chunk", .infer = chunk},
    {.name = "aten::tensor_split.sections", .infer = tensor_split_sections},
    {.name = "aten::tensor_split.indices", .infer = tensor_split_indices},
    {.name = "aten::tensor_split.tensor_indices_or_sections", .composite = tensor_split_tensor, .flags = NBX_OP_READS_BACK | NBX_OP_ANY_DEVICE},
    {.name = "aten::hsplit.int", .infer = split_direction_int, .data = &horizontal},
    {.name = "aten::hsplit.array", .infer = split_direction_array, .data = &horizontal},
    {.name = "aten::vsplit.int", .infer = split_direction_int, .data = &vertical},
    {.name = "aten::vsplit.array", .infer = split_direction_array, .data = &vertical},
    {.name = "aten::dsplit.int", .infer = split_direction_int, .data = &deep},
    {.name = "aten::dsplit.array", .infer = split_direction_array, .data = &deep},
    {.name = "aten::unbind.int", .infer = unbind},
    {.name = "aten::broadcast_tensors", .composite = broadcast_tensors},
    {.name = "aten::meshgrid", .composite = meshgrid},
    {.name = "aten::meshgrid.indexing", .composite = meshgrid_indexing},
    {.name = "aten::atleast_1d", .composite = atleast, .data = &one_dim},
    {.name = "aten::atleast_2d", .composite = atleast, .data = &two_dims},
    {.name = "aten::atleast_3d", .composite = atleast, .data = &three_dims},
    {.name = "aten::atleast_1d.Sequence", .composite = atleast_sequence, .data = &one_dim},
    {.name = "aten::atleast_2d.Sequence", .composite = atleast_sequence, .data = &two_dims},
    {.name = "aten::atleast_3d.Sequence", .composite = atleast_sequence, .data = &three_dims},
    NBX_OPS_END,
};
