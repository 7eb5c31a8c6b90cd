// Geometry of views: each function is the metadata half of one ATen view, with ATen's checks.
#include "ops/shape/geometry.h"

#include <string.h>

void nbx_geometry_of(const nbx_tensor *t, nbx_geometry *g) {
    g->rank = t->rank;
    g->offset = t->offset;
    memcpy(g->shape, t->shape, sizeof(int64_t) * (size_t)t->rank);
    memcpy(g->stride, t->stride, sizeof(int64_t) * (size_t)t->rank);
}

nbx_status nbx_geometry_out(nbx_op_call *c, int k, const nbx_tensor *base, const nbx_geometry *g) {
    return out_view(c, k, base, (nbx_dtype)base->dtype, g->rank, g->shape, g->stride, g->offset) ? NBX_OK : c->ctx->status;
}

nbx_tensor *nbx_geometry_view(nbx_context *ctx, const nbx_tensor *base, const nbx_geometry *g) {
    return nbx_tensor_view(ctx, base, (nbx_dtype)base->dtype, g->rank, g->shape, g->stride, g->offset);
}

void nbx_geometry_insert(nbx_geometry *g, int dim, int64_t size, int64_t stride) {
    const size_t tail = sizeof(int64_t) * (size_t)(g->rank - dim);
    memmove(g->shape + dim + 1, g->shape + dim, tail);
    memmove(g->stride + dim + 1, g->stride + dim, tail);
    g->shape[dim] = size;
    g->stride[dim] = stride;
    g->rank++;
}

void nbx_geometry_remove(nbx_geometry *g, int dim) {
    const size_t tail = sizeof(int64_t) * (size_t)(g->rank - dim - 1);
    memmove(g->shape + dim, g->shape + dim + 1, tail);
    memmove(g->stride + dim, g->stride + dim + 1, tail);
    g->rank--;
}

nbx_status nbx_geometry_select(nbx_op_call *c, nbx_geometry *g, int64_t dim, int64_t index) {
    int d;
    if (g->rank == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "a 0-dim tensor has no dim to select from");
    if (nbx_call_dim(c, dim, g->rank, &d) != NBX_OK) return c->ctx->status;
    const int64_t size = g->shape[d];
    if (index < -size || index >= size)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [%lld, %lld] of dim %d", (long long)index,
                             (long long)-size, (long long)size - 1, d);
    g->offset += (index < 0 ? index + size : index) * g->stride[d];
    nbx_geometry_remove(g, d);
    return NBX_OK;
}

static int64_t clamped(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

nbx_status nbx_geometry_slice(nbx_op_call *c, nbx_geometry *g, int64_t dim, int64_t start, int64_t end, int64_t step) {
    int d;
    if (g->rank == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a 0-dim tensor cannot be sliced");
    if (nbx_call_dim(c, dim, g->rank, &d) != NBX_OK) return c->ctx->status;
    if (step <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "step %lld is not positive", (long long)step);
    const int64_t size = g->shape[d];
    start = clamped(start < 0 ? start + size : start, 0, size);
    end = clamped(end < 0 ? end + size : end, start, size);
    g->offset += start * g->stride[d];
    g->shape[d] = (end - start) / step + ((end - start) % step != 0);
    int64_t stride;  // a step that overflows leaves one element at most, whose stride is never used
    if (!__builtin_mul_overflow(g->stride[d], step, &stride)) g->stride[d] = stride;
    return NBX_OK;
}

nbx_status nbx_geometry_permute(nbx_op_call *c, nbx_geometry *g, int count, const int64_t *dims) {
    if (count != g->rank)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d dims are given for a tensor of rank %d", count, g->rank);
    nbx_geometry old = *g;
    uint64_t seen = 0;
    for (int i = 0; i < count; i++) {
        int d;
        if (nbx_call_dim(c, dims[i], g->rank, &d) != NBX_OK) return c->ctx->status;
        if (seen >> d & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d is given twice", d);
        seen |= (uint64_t)1 << d;
        g->shape[i] = old.shape[d];
        g->stride[i] = old.stride[d];
    }
    return NBX_OK;
}

nbx_status nbx_geometry_transpose(nbx_op_call *c, nbx_geometry *g, int64_t dim0, int64_t dim1) {
    int a, b;
    if (nbx_call_dim(c, dim0, g->rank, &a) != NBX_OK || nbx_call_dim(c, dim1, g->rank, &b) != NBX_OK) return c->ctx->status;
    if (g->rank == 0) return NBX_OK;
    const int64_t size = g->shape[a], stride = g->stride[a];
    g->shape[a] = g->shape[b];
    g->stride[a] = g->stride[b];
    g->shape[b] = size;
    g->stride[b] = stride;
    return NBX_OK;
}

nbx_status nbx_geometry_diagonal(nbx_op_call *c, nbx_geometry *g, int64_t offset, int64_t dim1, int64_t dim2) {
    int a, b;
    if (nbx_call_dim(c, dim1, g->rank, &a) != NBX_OK || nbx_call_dim(c, dim2, g->rank, &b) != NBX_OK) return c->ctx->status;
    if (a == b) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dims %lld and %lld are the same", (long long)dim1, (long long)dim2);
    const int64_t rows = g->shape[a], columns = g->shape[b];
    int64_t size;
    if (offset >= 0)
        size = offset >= columns ? 0 : rows < columns - offset ? rows : columns - offset;
    else
        size = offset <= -rows ? 0 : rows + offset < columns ? rows + offset : columns;
    const int64_t stride = (int64_t)((uint64_t)g->stride[a] + (uint64_t)g->stride[b]);  // without elements it may be anything
    if (size > 0) g->offset += offset >= 0 ? offset * g->stride[b] : -offset * g->stride[a];
    nbx_geometry_remove(g, a > b ? a : b);
    nbx_geometry_remove(g, a > b ? b : a);
    nbx_geometry_insert(g, g->rank, size, stride);
    return NBX_OK;
}

nbx_status nbx_geometry_unsqueeze(nbx_op_call *c, nbx_geometry *g, int64_t dim) {
    int d;
    if (g->rank == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    if (nbx_call_dim(c, dim, g->rank + 1, &d) != NBX_OK) return c->ctx->status;
    nbx_geometry_insert(g, d, 1, d >= g->rank ? 1 : g->shape[d] * g->stride[d]);
    return NBX_OK;
}

nbx_status nbx_geometry_expand(nbx_op_call *c, nbx_geometry *g, int count, const int64_t *size) {
    if (count < g->rank || count > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d sizes are given for a tensor of rank %d", count, g->rank);
    const nbx_geometry old = *g;
    g->rank = count;
    for (int i = count - 1; i >= 0; i--) {
        const int from = i - (count - old.rank);
        const int64_t own = from >= 0 ? old.shape[from] : 1;
        int64_t stride = from >= 0 ? old.stride[from] : i + 1 < count ? g->shape[i + 1] * g->stride[i + 1] : 1;
        int64_t want = size[i];
        if (want == -1 && from >= 0) want = own;
        if (want < 0)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is not allowed", (long long)size[i], i);
        if (own != want && own != 1)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d cannot become %lld", (long long)own, i, (long long)want);
        if (own != want) stride = 0;
        g->shape[i] = want;
        g->stride[i] = stride;
    }
    return NBX_OK;
}

nbx_status nbx_infer_size(nbx_op_call *c, int64_t numel, int count, const int64_t *size, int64_t *shape) {
    char text[NBX_SHAPE_TEXT];
    if (count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    int open = -1;
    int64_t product = 1;
    bool fits = true;
    for (int i = 0; i < count; i++) {
        shape[i] = size[i];
        if (size[i] == -1) {
            if (open >= 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "only one size can be -1");
            open = i;
        } else if (size[i] < 0) {
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is not allowed", (long long)size[i], i);
        } else {
            fits = fits && !__builtin_mul_overflow(product, size[i], &product);
        }
    }
    if (open >= 0 && fits && product == 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "-1 in %s could be any size", nbx_shape_text(count, size, text, sizeof text));
    if (!fits || (open >= 0 ? numel % product != 0 : product != numel))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "shape %s does not fit %lld elements",
                             nbx_shape_text(count, size, text, sizeof text), (long long)numel);
    if (open >= 0) shape[open] = numel / product;
    return NBX_OK;
}

const int64_t *nbx_read_ints(nbx_op_call *c, const nbx_tensor *t, int64_t *count) {
    const nbx_tensor *wide = nbx_cast(c->ctx, t, NBX_INT64);
    if (wide == NULL) return NULL;
    int64_t *values = nbx_scope_alloc(c->ctx, sizeof(int64_t) * (size_t)(wide->numel > 0 ? wide->numel : 1));
    if (values == NULL || nbx_tensor_read(c->ctx, wide, values) != NBX_OK) return NULL;
    *count = wide->numel;
    return values;
}
