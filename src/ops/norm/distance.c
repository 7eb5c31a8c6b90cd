// Distances between rows: |a - b|_p for every pair (cdist), every pair of one matrix (pdist), or row by row.
//   cdist(a [..., p, m], b [..., r, m], p): [..., p, r]; batch dims broadcast; float32 and float64
//   pdist(x [n, m], p): [n (n - 1) / 2], pairs in the order (0, 1), (0, 2) ... (1, 2) ...
//   pairwise_distance(a, b, p, eps): |a - b + eps|_p over the last dim; cosine_similarity(a, b, dim, eps)
//   source: aten::_cdist_forward, _pdist_forward. Euclidean distances are summed, never taken from products: those cancel.
#include <math.h>

#include "ops/compose.h"
#include "ops/norm/distance.h"

static nbx_status need_full_float(nbx_op_call *c, const nbx_tensor *x) {
    if (x->dtype == NBX_FLOAT32 || x->dtype == NBX_FLOAT64) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name((nbx_dtype)x->dtype));
}

static nbx_status describe_cdist(nbx_op_call *c, double p) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    int64_t shape[NBX_MAX_RANK];
    nbx_status status = need_full_float(c, a);
    if (status == NBX_OK) status = need_full_float(c, b);
    if (status != NBX_OK) return status;
    if (a->dtype != b->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "the two inputs have different dtypes");
    if (a->rank < 2 || b->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected inputs of at least 2 dims");
    if (a->shape[a->rank - 1] != b->shape[b->rank - 1]) return nbx_call_fail(c, NBX_ERROR_SHAPE, "rows have different lengths");
    if (!(p >= 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p must not be negative, found %g", p);
    int rank = a->rank - 2;
    for (int d = 0; d < rank; d++) shape[d] = a->shape[d];
    status = nbx_broadcast(c, &rank, shape, b->rank - 2, b->shape);
    if (status != NBX_OK) return status;
    shape[rank] = a->shape[a->rank - 2];
    shape[rank + 1] = b->shape[b->rank - 2];
    double *power = nbx_call_state(c, sizeof *power);
    if (!power) return nbx_last_status(c->ctx);
    *power = p;
    return out_new(c, 0, (nbx_dtype)a->dtype, rank + 2, shape, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status infer_cdist(nbx_op_call *c) {
    if (!arg_is_none(c, 3) && (arg_int(c, 3) < 0 || arg_int(c, 3) > 2))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "compute_mode is 0, 1 or 2, found %lld", (long long)arg_int(c, 3));
    return describe_cdist(c, arg_float(c, 2));
}
static nbx_status infer_euclidean(nbx_op_call *c) { return describe_cdist(c, 2.0); }

static nbx_status infer_pdist(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const double p = arg_float(c, 1);
    const nbx_status status = need_full_float(c, x);
    if (status != NBX_OK) return status;
    if (x->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a matrix, found a tensor of rank %d", x->rank);
    if (!(p >= 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p must not be negative, found %g", p);
    double *power = nbx_call_state(c, sizeof *power);
    if (!power) return nbx_last_status(c->ctx);
    *power = p;
    const int64_t n = x->shape[0], pairs = n > 1 ? n * (n - 1) / 2 : 0;
    return out_new(c, 0, (nbx_dtype)x->dtype, 1, &pairs, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status compose_pairwise(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const int64_t dim = (a->rank > b->rank ? a->rank : b->rank) - 1;
    const nbx_tensor *d = NBX_DO(ctx, "aten::add.Scalar", T(do_sub(ctx, a, b)), c->args[3]);
    return out_tensor(c, 0, NBX_DO(ctx, "aten::norm.ScalarOpt_dim", T(d), c->args[2], nbx_of_ints(&dim, 1), c->args[4]));
}

static nbx_status compose_cosine(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x[2] = {arg_tensor(c, 0), arg_tensor(c, 1)};
    const int64_t dim = arg_int(c, 2);
    if (!(arg_float(c, 3) >= 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "eps %g is negative or no number", arg_float(c, 3));
    nbx_promotion promotion;
    nbx_promotion_start(&promotion);
    nbx_promotion_tensor(&promotion, x[0]);
    nbx_promotion_tensor(&promotion, x[1]);
    const nbx_dtype common = nbx_promotion_result(&promotion);
    if (common == NBX_DTYPE_NONE || !nbx_dtype_is_float(common))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected a floating point dtype");
    int64_t shape[NBX_MAX_RANK];
    int rank = x[0]->rank;
    for (int d = 0; d < rank; d++) shape[d] = x[0]->shape[d];
    const nbx_status status = nbx_broadcast(c, &rank, shape, x[1]->rank, x[1]->shape);
    if (status != NBX_OK) return status;
    for (int i = 0; i < 2; i++) {  // each divided by its norm in a dtype of its own
        const nbx_tensor *own = nbx_dtype_is_float((nbx_dtype)x[i]->dtype) ? x[i] : do_cast(ctx, x[i], common);
        const nbx_tensor *t = do_expand(ctx, own, rank, shape);
        const nbx_tensor *norm = NBX_DO(ctx, "aten::linalg_vector_norm", T(t), I(2), nbx_of_ints(&dim, 1), B(true));
        x[i] = do_div(ctx, t, NBX_DO(ctx, "aten::clamp_min", T(norm), c->args[3]));
    }
    return out_tensor(c, 0, do_sum(ctx, do_mul(ctx, x[0], x[1]), 1, &dim, false));
}

const nbx_op nbx_ops_distance[] = {
    {.name = "aten::_cdist_forward", .infer = infer_cdist, .cpu = NBX_CPU_KERNEL(cdist_cpu)},
    {.name = "aten::cdist", .infer = infer_cdist, .cpu = NBX_CPU_KERNEL(cdist_cpu)},
    {.name = "aten::_euclidean_dist", .infer = infer_euclidean, .cpu = NBX_CPU_KERNEL(cdist_cpu)},
    {.name = "aten::_pdist_forward", .infer = infer_pdist, .cpu = NBX_CPU_KERNEL(pdist_cpu)},
    {.name = "aten::pdist", .infer = infer_pdist, .cpu = NBX_CPU_KERNEL(pdist_cpu)},
    {.name = "aten::pairwise_distance", .composite = compose_pairwise},
    {.name = "aten::cosine_similarity", .composite = compose_cosine},
    NBX_OPS_END,
};
