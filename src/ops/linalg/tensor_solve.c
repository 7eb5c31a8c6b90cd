// Systems whose matrix is a tensor: some dims count as rows, the others as columns.
//   tensorinv(A, ind): the first ind dims are rows, their product that of the rest; the inverse has the rest first
//   tensorsolve(A, B, dims): A X = B, where B's dims are the first of A; `dims` move to the end before
#include "ops/linalg/linalg.h"

static int64_t product(const int64_t *sizes, int count) {
    int64_t n = 1;
    for (int i = 0; i < count; i++) n *= sizes[i];
    return n;
}

static nbx_status tensorinv(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0);
    const int64_t ind = arg_int(c, 1);
    int64_t shape[NBX_MAX_RANK];
    if (ind <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected a positive ind, found %lld", (long long)ind);
    if (ind > a->rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "ind %lld is above the rank %d", (long long)ind, a->rank);
    const int rows = (int)ind, columns = a->rank - rows;
    const int64_t n = product(a->shape, rows), m = product(a->shape + rows, columns);
    if (n != m) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the first dims have %lld elements, the others %lld", (long long)n, (long long)m);
    for (int i = 0; i < a->rank; i++) shape[i] = a->shape[i < columns ? rows + i : i - columns];
    const nbx_tensor *inverse = NBX_DO(ctx, "aten::linalg_inv", T(do_reshape(ctx, a, 2, (int64_t[]){n, m})));
    return out_tensor(c, 0, do_reshape(ctx, inverse, a->rank, shape));
}

static nbx_status tensorsolve(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    int count;
    const int64_t *dims = arg_ints(c, 2, &count);
    if (count > a->rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d dims for a tensor of %d", count, a->rank);
    if (count) {
        int64_t to[NBX_MAX_RANK];
        for (int i = 0; i < count; i++) to[i] = a->rank - count + i;
        a = NBX_DO(ctx, "aten::movedim.intlist", T(a), nbx_of_ints(dims, count), nbx_of_ints(to, count));
        if (!a) return nbx_last_status(ctx);
    }
    if (b->rank > a->rank) return nbx_call_fail(c, NBX_ERROR_SHAPE, "other has more dims than self");
    const int64_t n = b->numel, m = product(a->shape + b->rank, a->rank - b->rank);
    if (product(a->shape, b->rank) != n || n != m)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self cannot be seen as a square matrix for %lld elements of other", (long long)n);
    const nbx_tensor *x = NBX_DO(ctx, "aten::linalg_solve", T(do_reshape(ctx, a, 2, (int64_t[]){n, m})), T(do_reshape(ctx, b, 1, &n)));
    return out_tensor(c, 0, do_reshape(ctx, x, a->rank - b->rank, a->shape + b->rank));
}

const nbx_op nbx_ops_tensor_solve[] = {
    {.name = "aten::linalg_tensorinv", .composite = tensorinv, .flags = NBX_OP_EXACT_DTYPE | NBX_OP_PACKED_OUT},
    {.name = "aten::linalg_tensorsolve", .composite = tensorsolve, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
