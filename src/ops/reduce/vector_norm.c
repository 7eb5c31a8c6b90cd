// Norms: linalg_vector_norm and the older norm, of vectors and of matrices, and what is built from them.
//   linalg_vector_norm(x, ord, dims, keepdim, dtype): (sum |x|^ord)^(1/ord); 0 counts what is not 0, +-inf are the extremes
//   x floating point or complex, cast to dtype first; the result is real
#include <math.h>
#include <string.h>

#include "ops/compose.h"
#include "ops/reduce/reduce.h"

// dtype= may widen within floats or complex numbers, nothing else.
static nbx_status check_dtype(nbx_op_call *c, const nbx_tensor *x, nbx_dtype dtype) {
    if (dtype == NBX_DTYPE_NONE) return NBX_OK;
    const bool complex = nbx_dtype_is_complex((nbx_dtype)x->dtype);
    if (!nbx_dtype_is_float(dtype) && !nbx_dtype_is_complex(dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "dtype should be floating point or complex, found %s", nbx_dtype_name(dtype));
    if (complex != nbx_dtype_is_complex(dtype) || nbx_promote((nbx_dtype)x->dtype, dtype) != dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s cannot become %s", nbx_dtype_name((nbx_dtype)x->dtype), nbx_dtype_name(dtype));
    return NBX_OK;
}

static nbx_status infer_vector_norm(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const double ord = nbx_scalar_to_double(&c->args[1]);
    const nbx_dtype asked = arg_dtype(c, 4), cast = asked == NBX_DTYPE_NONE ? (nbx_dtype)x->dtype : asked;
    reduce_job job = {.op = REDUCE_POWER, .finish = REDUCE_P_ROOT, .cast = (uint8_t)cast, .p = ord};
    nbx_status status = nbx_call_need_float(c, x, true);
    if (status == NBX_OK) status = nbx_call_dims(c, 2, x->rank, true, &job.mask);
    if (status == NBX_OK && (ord < 0 || ord == (double)INFINITY))
        status = reduce_need_elements(c, x, job.mask, !arg_is_none(c, 2) && c->args[2].count > 0);
    if (status == NBX_OK) status = check_dtype(c, x, asked);
    if (status != NBX_OK) return status;
    int64_t reduced = 1;
    for (int d = 0; d < x->rank; d++) reduced *= job.mask >> d & 1 ? x->shape[d] : 1;
    if (ord == 0.0) job.op = REDUCE_COUNT, job.finish = REDUCE_PLAIN;
    else if (ord == 1.0) job.op = REDUCE_ABS, job.finish = REDUCE_PLAIN;
    else if (ord == 2.0) job.op = REDUCE_SQUARE, job.finish = REDUCE_ROOT;
    else if (reduced == 1) job.op = REDUCE_MAX_ABS, job.finish = REDUCE_PLAIN;  // of one number, whatever the order
    else if (isinf(ord)) job.op = ord > 0 ? REDUCE_MAX_ABS : REDUCE_MIN_ABS, job.finish = REDUCE_PLAIN;
    return reduce_describe(c, x, job, arg_bool(c, 3), nbx_dtype_to_real(cast), NBX_DTYPE_NONE);
}

// The result of a composite whose out= form wants the very dtype.
static nbx_status give_exact(nbx_op_call *c, const nbx_tensor *t) {
    if (!t) return nbx_last_status(c->ctx);
    const nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)t->dtype);
    return status == NBX_OK ? out_tensor(c, 0, t) : status;
}

// ----------------------------------------------------------------------------------------------------------- older names
static nbx_status vector_norm(nbx_op_call *c, nbx_value p, nbx_value dims, nbx_value keepdim, nbx_value dtype) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_status status = nbx_call_need_float(c, x, true);
    if (status != NBX_OK) return status;
    if (p.kind == NBX_KIND_NONE) p = I(2);
    return give_exact(c, NBX_DO(c->ctx, "aten::linalg_vector_norm", T(x), p, dims, keepdim, dtype));
}

static nbx_status compose_norm(nbx_op_call *c) { return vector_norm(c, c->args[1], NIL, B(false), NIL); }
static nbx_status compose_norm_dtype(nbx_op_call *c) { return vector_norm(c, c->args[1], NIL, B(false), c->args[2]); }
static nbx_status compose_norm_dim(nbx_op_call *c) { return vector_norm(c, c->args[1], c->args[2], c->args[3], NIL); }
static nbx_status compose_norm_dim_dtype(nbx_op_call *c) { return vector_norm(c, c->args[1], c->args[2], c->args[3], c->args[4]); }

static nbx_status compose_frobenius(nbx_op_call *c) {
    if (c->args[1].count > 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected at most 2 dims, found %d", c->args[1].count);
    return vector_norm(c, I(2), c->args[1], c->args[2], NIL);
}

// The norm of a difference.
static nbx_status compose_dist(nbx_op_call *c) {
    const nbx_tensor *d = do_sub(c->ctx, arg_tensor(c, 0), arg_tensor(c, 1));
    return give_exact(c, NBX_DO(c->ctx, "aten::linalg_vector_norm", T(d), c->args[2]));
}

// -------------------------------------------------------------------------------------------------------------- matrices
// The two dims of a matrix norm, wrapped and different.
static nbx_status matrix_dims(nbx_op_call *c, int arg, const nbx_tensor *x, nbx_dtype dtype, bool half_too, int dims[2]) {
    int count;
    const int64_t *given = arg_ints(c, arg, &count);
    const int64_t all[2] = {0, 1};
    if (arg_is_none(c, arg)) given = all, count = 2;
    nbx_status status = nbx_call_need_float(c, x, true);
    if (status == NBX_OK && !half_too && (x->dtype == NBX_FLOAT16 || x->dtype == NBX_BFLOAT16) && dtype == NBX_DTYPE_NONE)
        status = nbx_call_fail(c, NBX_ERROR_DTYPE, "low precision dtypes are not supported");
    if (status == NBX_OK && x->rank < 2) status = nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least 2 dims, found %d", x->rank);
    if (status == NBX_OK && count != 2) status = nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected two dims, found %d", count);
    if (status == NBX_OK) status = nbx_call_dim(c, given[0], x->rank, &dims[0]);
    if (status == NBX_OK) status = nbx_call_dim(c, given[1], x->rank, &dims[1]);
    if (status == NBX_OK && dims[0] == dims[1]) status = nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the two dims must differ");
    return status == NBX_OK ? check_dtype(c, x, dtype) : status;
}

// amax, amin or a sum over one dim. The largest of no elements is 0, as norms are not negative.
static nbx_tensor *over_dim(nbx_context *ctx, const char *name, const nbx_tensor *t, int64_t dim, bool keepdim) {
    if (!t) return NULL;
    const int at = (int)(dim < 0 ? dim + t->rank : dim);
    if (strcmp(name, "aten::amax") == 0 && t->shape[at] == 0) {
        int64_t shape[NBX_MAX_RANK];
        const int rank = reduce_shape(t, (uint64_t)1 << at, keepdim, shape);
        return do_full(ctx, nbx_device_of(t), (nbx_dtype)t->dtype, rank, shape, I(0));
    }
    return NBX_DO(ctx, name, T(t), nbx_of_ints(&dim, 1), B(keepdim));
}

// Singular values with the matrix dims last; they are reduced by `name`, and the dims come back as 1 if keepdim.
static nbx_tensor *of_singular_values(nbx_context *ctx, const nbx_tensor *x, const int dims[2], bool keepdim, nbx_dtype dtype,
                                      const char *name) {
    int64_t order[NBX_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != dims[0] && d != dims[1]) order[rank++] = d;
    order[rank] = dims[0], order[rank + 1] = dims[1];
    if (dtype != NBX_DTYPE_NONE) x = do_cast(ctx, x, dtype);
    const nbx_tensor *values = NBX_DO(ctx, "aten::linalg_svdvals", T(do_permute(ctx, x, rank + 2, order)));
    nbx_tensor *result = over_dim(ctx, name, values, -1, false);
    if (!keepdim) return result;
    const int first = dims[0] < dims[1] ? dims[0] : dims[1], second = dims[0] < dims[1] ? dims[1] : dims[0];
    return do_unsqueeze(ctx, do_unsqueeze(ctx, result, first), second);
}

static nbx_status matrix_norm(nbx_op_call *c, double ord, int dims_arg, bool keepdim, nbx_value dtype) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const double size = fabs(ord);
    const nbx_dtype asked = dtype.kind == NBX_KIND_DTYPE ? dtype.as.dtype : NBX_DTYPE_NONE;
    int dims[2];
    if (size != 2.0 && size != 1.0 && !isinf(size)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "order %g is not supported", ord);
    const nbx_status status = matrix_dims(c, dims_arg, x, asked, size != 2.0, dims);
    if (status != NBX_OK) return status;
    const char *extreme = ord > 0 ? "aten::amax" : "aten::amin";
    if (size == 2.0) return give_exact(c, of_singular_values(c->ctx, x, dims, keepdim, asked, extreme));
    int64_t first = isinf(size) ? dims[1] : dims[0], second = isinf(size) ? dims[0] : dims[1];
    if (!keepdim && first < second) second--;
    const nbx_tensor *sums = NBX_DO(c->ctx, "aten::linalg_vector_norm", T(x), I(1), nbx_of_ints(&first, 1), B(keepdim), dtype);
    return give_exact(c, over_dim(c->ctx, extreme, sums, second, keepdim));
}

static nbx_status matrix_norm_named(nbx_op_call *c, const char *name, int dims_arg, bool keepdim, nbx_value dtype) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype asked = dtype.kind == NBX_KIND_DTYPE ? dtype.as.dtype : NBX_DTYPE_NONE;
    const bool frobenius = strcmp(name, "fro") == 0;
    int dims[2];
    if (!frobenius && strcmp(name, "nuc") != 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "order %s is not supported", name);
    const nbx_status status = matrix_dims(c, dims_arg, x, asked, frobenius, dims);
    if (status != NBX_OK) return status;
    if (!frobenius) return give_exact(c, of_singular_values(c->ctx, x, dims, keepdim, asked, "aten::sum.dim_IntList"));
    const int64_t both[2] = {dims[0], dims[1]};
    return give_exact(c, NBX_DO(c->ctx, "aten::linalg_vector_norm", T(x), I(2), nbx_of_ints(both, 2), B(keepdim), dtype));
}

static nbx_status compose_matrix_norm(nbx_op_call *c) {
    return matrix_norm(c, nbx_scalar_to_double(&c->args[1]), 2, arg_bool(c, 3), c->args[4]);
}
static nbx_status compose_matrix_norm_named(nbx_op_call *c) {
    return matrix_norm_named(c, arg_string(c, 1), 2, arg_bool(c, 3), c->args[4]);
}

static nbx_status check_norm_dims(nbx_op_call *c, bool ordered) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (!arg_is_none(c, 2) && c->args[2].count != 1 && c->args[2].count != 2)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected one or two dims, found %d", c->args[2].count);
    if (arg_is_none(c, 2) && ordered && x->rank != 1 && x->rank != 2)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "an order without dims needs an input of 1 or 2 dims, found %d", x->rank);
    return NBX_OK;
}

static bool is_matrix(const nbx_op_call *c) { return arg_is_none(c, 2) ? arg_tensor(c, 0)->rank == 2 : c->args[2].count == 2; }

// linalg_norm: of vectors without an order or with one dim, else of matrices.
static nbx_status compose_linalg_norm(nbx_op_call *c) {
    const bool ordered = !arg_is_none(c, 1);
    const nbx_status status = check_norm_dims(c, ordered);
    if (status != NBX_OK) return status;
    if (ordered && is_matrix(c)) return matrix_norm(c, nbx_scalar_to_double(&c->args[1]), 2, arg_bool(c, 3), c->args[4]);
    return vector_norm(c, c->args[1], c->args[2], c->args[3], c->args[4]);
}

static nbx_status compose_linalg_norm_named(nbx_op_call *c) {
    const nbx_status status = check_norm_dims(c, true);
    if (status != NBX_OK) return status;
    return matrix_norm_named(c, arg_string(c, 1), 2, arg_bool(c, 3), c->args[4]);
}

static nbx_status compose_nuclear(nbx_op_call *c) { return matrix_norm_named(c, "nuc", 1, arg_bool(c, 2), NIL); }
static nbx_status compose_nuclear_of_matrix(nbx_op_call *c) {
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::nuclear_norm.dim", c->args[0], nbx_of_ints((int64_t[]){-2, -1}, 2), c->args[1]));
}

// norm_except_dim(v, pow, dim): over all dims but one, which stays in place (dim -1: over all).
static nbx_status compose_norm_except(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t dims[NBX_MAX_RANK];
    int dim, count = 0;
    if (arg_int(c, 2) == -1) return NBX_FORWARD(c, "aten::norm.Scalar", T(x), c->args[1]);
    const nbx_status status = nbx_call_dim(c, arg_int(c, 2), x->rank, &dim);
    if (status != NBX_OK) return status;
    for (int d = 0; d < x->rank; d++)
        if (d != dim) dims[count++] = d;
    return NBX_FORWARD(c, "aten::norm.ScalarOpt_dim", T(x), c->args[1], nbx_of_ints(dims, count), B(true));
}

// renorm(x, p, dim, maxnorm): slices along dim whose norm is larger are scaled to it. Norms of halves are float32's.
static nbx_status compose_renorm(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0);
    const double p = nbx_scalar_to_double(&c->args[1]), most = nbx_scalar_to_double(&c->args[3]);
    const nbx_dtype dtype = (nbx_dtype)x->dtype, real = nbx_dtype_to_real(dtype), wide = real == NBX_FLOAT64 ? NBX_FLOAT64 : NBX_FLOAT32;
    int64_t dims[NBX_MAX_RANK];
    int dim, count = 0;
    nbx_status status = nbx_call_need_float(c, x, true);
    if (status != NBX_OK) return status;
    if (c->args[1].kind == NBX_KIND_COMPLEX || !(p > 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p must be positive");
    if (c->args[3].kind == NBX_KIND_COMPLEX || !(most >= 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "maxnorm must not be negative");
    if (x->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least two dims, found %d", x->rank);
    status = nbx_call_dim(c, arg_int(c, 2), x->rank, &dim);
    if (status != NBX_OK) return status;
    for (int d = 0; d < x->rank; d++)
        if (d != dim) dims[count++] = d;
    const nbx_tensor *norms = NBX_DO(ctx, "aten::linalg_vector_norm", T(x), F(p), nbx_of_ints(dims, count), B(true), wide == real ? NIL : nbx_of_dtype(wide));
    const nbx_tensor *scale = NBX_DO(ctx, "aten::mul.Scalar", T(do_unary(ctx, "aten::reciprocal", NBX_DO(ctx, "aten::add.Scalar", T(norms), F(1e-7)))), F(most));
    scale = NBX_DO(ctx, "aten::where.ScalarOther", T(NBX_DO(ctx, "aten::gt.Scalar", T(norms), F(most))), T(scale), I(1));
    return out_tensor(c, 0, do_contiguous(ctx, do_mul(ctx, x, scale ? do_cast(ctx, scale, real) : NULL)));
}

const nbx_op nbx_ops_vector_norm[] = {
    NBX_REDUCTION("aten::linalg_vector_norm", infer_vector_norm),
    {.name = "aten::norm.Scalar", .composite = compose_norm},
    {.name = "aten::norm.ScalarOpt_dtype", .composite = compose_norm_dtype},
    {.name = "aten::norm.ScalarOpt_dim", .composite = compose_norm_dim},
    {.name = "aten::norm.ScalarOpt_dim_dtype", .composite = compose_norm_dim_dtype},
    {.name = "aten::frobenius_norm.dim", .composite = compose_frobenius},
    {.name = "aten::dist", .composite = compose_dist},
    {.name = "aten::nuclear_norm", .composite = compose_nuclear_of_matrix},
    {.name = "aten::nuclear_norm.dim", .composite = compose_nuclear},
    {.name = "aten::norm_except_dim", .composite = compose_norm_except},
    {.name = "aten::renorm", .composite = compose_renorm, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::linalg_norm", .composite = compose_linalg_norm},
    {.name = "aten::linalg_norm.ord_str", .composite = compose_linalg_norm_named},
    {.name = "aten::linalg_matrix_norm", .composite = compose_matrix_norm},
    {.name = "aten::linalg_matrix_norm.str_ord", .composite = compose_matrix_norm_named},
    NBX_OPS_END,
};
