// weight_norm(v, g, dim): w = v g / |v|, the 2-norm over all dims but dim (over all of them for dim -1); and
// embedding_renorm: rows of a table scaled down to a largest norm.
//   the interface form also gives the norms, in float32 for halves, which are computed in float32
#include "ops/compose.h"
#include "ops/norm/distance.h"
#include "ops/reduce/reduce.h"

static nbx_tensor *wide(nbx_context *ctx, const nbx_tensor *t) {
    return t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16 ? do_cast(ctx, t, NBX_FLOAT32) : (nbx_tensor *)t;
}

static nbx_status weight_norm(nbx_op_call *c, bool norms_too) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *v = arg_tensor(c, 0), *g = arg_tensor(c, 1);
    const int64_t given = arg_int(c, 2);
    int dim = -1, count = 0;
    int64_t dims[NBX_MAX_RANK];
    nbx_status status = nbx_call_need_float(c, v, false);
    if (status == NBX_OK && (norms_too || given != -1)) status = nbx_call_dim(c, given, v->rank, &dim);
    if (status != NBX_OK) return status;
    if (norms_too && dim != 0 && dim != v->rank - 1)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim must be the first or the last, found %d", dim);
    for (int d = 0; d < v->rank; d++)
        if (d != dim) dims[count++] = d;
    const nbx_tensor *x = wide(ctx, v);
    const nbx_tensor *norms = NBX_DO(ctx, "aten::linalg_vector_norm", T(x), I(2), nbx_of_ints(dims, count), B(dim >= 0));
    if (count == 0) norms = do_unary(ctx, "aten::abs", x);
    const nbx_tensor *w = do_mul(ctx, x, do_div(ctx, wide(ctx, g), norms));
    status = out_tensor(c, 0, w ? do_cast(ctx, w, (nbx_dtype)v->dtype) : NULL);
    return status == NBX_OK && norms_too ? out_tensor(c, 1, norms) : status;
}

static nbx_status compose_weight_norm(nbx_op_call *c) { return weight_norm(c, false); }
static nbx_status compose_weight_norm_interface(nbx_op_call *c) { return weight_norm(c, true); }

static nbx_status infer_renorm(nbx_op_call *c) {
    const nbx_tensor *table = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    if (table->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a table of 2 dims, found %d", table->rank);
    if (indices->dtype != NBX_INT64 && indices->dtype != NBX_INT32) return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices must be int32 or int64");
    const nbx_status status = nbx_call_need_float(c, table, false);
    if (status != NBX_OK) return status;
    c->scratch_bytes = (size_t)table->shape[0] + 1;
    return out_like(c, 0, (nbx_dtype)table->dtype, table) ? NBX_OK : nbx_last_status(c->ctx);
}

const nbx_op nbx_ops_weight_norm[] = {
    {.name = "aten::_weight_norm", .composite = compose_weight_norm},
    {.name = "aten::_weight_norm_interface", .composite = compose_weight_norm_interface},
    {.name = "aten::embedding_renorm", .infer = infer_renorm, .cpu = NBX_CPU_KERNEL(embedding_renorm_cpu)},
    NBX_OPS_END,
};
