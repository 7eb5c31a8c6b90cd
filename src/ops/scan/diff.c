// Differences and trapezoids: diff, gradient, trapezoid, cumulative_trapezoid. Each is a few slices and sums of them.
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

static nbx_tensor *part(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t start, int64_t end) {
    return do_slice(ctx, x, dim, start, end);
}

// diff(x, n, dim, prepend, append): x[i+1] - x[i], n times over; xor of bools.
static nbx_status compose_diff(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *prepend = arg_tensor(c, 3), *append = arg_tensor(c, 4);
    int64_t n = arg_int(c, 1);
    int dim;
    if (n < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "order must not be negative, found %lld", (long long)n);
    if (x->rank < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a tensor of at least one dim");
    nbx_status status = nbx_call_dim(c, arg_int(c, 2), x->rank, &dim);
    if (status == NBX_OK && n == 0) status = reduce_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status != NBX_OK) return status;
    if ((prepend && prepend->rank != x->rank) || (append && append->rank != x->rank))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "prepend and append need the rank of the input");
    if (n == 0) return out_tensor(c, 0, NBX_DO(ctx, "aten::clone", T(x)));
    if (prepend || append) {
        const nbx_tensor *parts[3];
        int count = 0;
        if (prepend) parts[count++] = prepend;
        parts[count++] = x;
        if (append) parts[count++] = append;
        x = NBX_DO(ctx, "aten::cat", nbx_of_tensors(parts, count), I(dim));
        if (!x) return nbx_last_status(ctx);
    }
    if (n > x->shape[dim]) n = x->shape[dim];
    for (; n > 0 && x; n--) {
        const int64_t size = x->shape[dim];
        const nbx_tensor *later = part(ctx, x, dim, 1, size), *earlier = part(ctx, x, dim, 0, size > 0 ? size - 1 : 0);
        x = x->dtype == NBX_BOOL ? NBX_DO(ctx, "aten::logical_xor", T(later), T(earlier)) : do_sub(ctx, later, earlier);
    }
    return out_tensor(c, 0, x);
}

// y[i] + y[i+1] along dim.
static nbx_tensor *neighbours(nbx_context *ctx, const nbx_tensor *y, int dim) {
    const int64_t size = y->shape[dim];
    return do_add(ctx, part(ctx, y, dim, 0, size > 0 ? size - 1 : 0), part(ctx, y, dim, 1, size));
}

static nbx_status compose_trapezoid_of_none(nbx_op_call *c, const nbx_tensor *y, int dim) {
    int64_t shape[NBX_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < y->rank; d++)
        if (d != dim) shape[rank++] = y->shape[d];
    return out_tensor(c, 0, do_full(c->ctx, nbx_device_of(y), (nbx_dtype)y->dtype, rank, shape, I(0)));
}

// (sum(y) - (y[0] + y[-1]) / 2) dx along dim; 0 without elements.
static nbx_status compose_trapezoid(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *y = arg_tensor(c, 0);
    int dim;
    const nbx_status status = nbx_call_dim(c, arg_int(c, 2), y->rank, &dim);
    if (status != NBX_OK) return status;
    if (y->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a tensor of at least one dim");
    if (c->args[1].kind == NBX_KIND_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "dx must not be a bool");
    if (y->shape[dim] == 0) return compose_trapezoid_of_none(c, y, dim);
    const int64_t at = dim;
    const nbx_tensor *ends = do_add(ctx, do_select(ctx, y, dim, 0), do_select(ctx, y, dim, -1));
    const nbx_tensor *inner = do_sub(ctx, do_sum(ctx, y, 1, &at, false), NBX_DO(ctx, "aten::mul.Scalar", T(ends), F(0.5)));
    return out_tensor(c, 0, NBX_DO(ctx, "aten::mul.Scalar", T(inner), F(nbx_scalar_to_double(&c->args[1]))));
}

// Running sums of (y[i] + y[i+1]) dx / 2: one element fewer.
static nbx_status compose_cumulative_trapezoid(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *y = arg_tensor(c, 0);
    int dim;
    const nbx_status status = nbx_call_dim(c, arg_int(c, 2), y->rank, &dim);
    if (status != NBX_OK) return status;
    if (y->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a tensor of at least one dim");
    if (c->args[1].kind == NBX_KIND_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "dx must not be a bool");
    const double half = nbx_scalar_to_double(&c->args[1]) / 2.0;
    const nbx_tensor *areas = NBX_DO(ctx, "aten::mul.Scalar", T(neighbours(ctx, y, dim)), F(half));
    return out_tensor(c, 0, NBX_DO(ctx, "aten::cumsum", T(areas), I(dim)));
}

// x as steps along dim of y: x[i+1] - x[i], seen with the rank of y where x is a vector. NULL: failed.
static const nbx_tensor *steps_of(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *y, int dim) {
    int64_t shape[NBX_MAX_RANK];
    const int at = x->rank == y->rank ? dim : x->rank - 1;
    const nbx_tensor *steps = NBX_DO(c->ctx, "aten::diff", T(x), I(1), I(at < 0 ? 0 : at));
    if (!steps || x->rank != 1) return steps;
    for (int d = 0; d < y->rank; d++) shape[d] = d == dim ? steps->shape[0] : 1;
    return do_view(c->ctx, steps, y->rank, shape);
}

// trapezoid(y, x, dim) and its running sums: areas (x[i+1] - x[i]) (y[i] + y[i+1]) / 2.
static nbx_status compose_trapezoid_at(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const bool *running = c->op->data;
    const nbx_tensor *y = arg_tensor(c, 0), *x = arg_tensor(c, 1);
    int dim;
    const nbx_status status = nbx_call_dim(c, arg_int(c, 2), y->rank, &dim);
    if (status != NBX_OK) return status;
    if (y->rank == 0 || x->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected tensors of at least one dim");
    if (y->dtype == NBX_BOOL || x->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for bool");
    if (!*running && y->shape[dim] == 0) return compose_trapezoid_of_none(c, y, dim);
    if (x->rank == 1 && x->shape[0] != y->shape[dim])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "x has %lld places for %lld values", (long long)x->shape[0], (long long)y->shape[dim]);
    int64_t shape[NBX_MAX_RANK];
    const nbx_tensor *seen = x;
    if (x->rank > 1 && x->rank < y->rank) {
        for (int d = 0; d < y->rank; d++) shape[d] = d < y->rank - x->rank ? 1 : x->shape[d - (y->rank - x->rank)];
        seen = do_view(ctx, x, y->rank, shape);
        if (!seen) return nbx_last_status(ctx);
    }
    const nbx_tensor *steps = steps_of(c, seen, y, dim), *areas = do_mul(ctx, steps, neighbours(ctx, y, dim));
    const int64_t at = dim;
    areas = *running ? NBX_DO(ctx, "aten::cumsum", T(areas), I(dim)) : do_sum(ctx, areas, 1, &at, false);
    return out_tensor(c, 0, NBX_DO(ctx, "aten::div.Scalar", T(areas), F(2)));
}

// -------------------------------------------------------------------------------------------------------------- gradient
// The slope at element `at`, from it and its neighbours in the direction of step: f1 - f0, or -1.5 f0 + 2 f1 - 0.5 f2.
static nbx_tensor *edge_slope(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t at, int64_t step, int64_t order) {
    const nbx_tensor *f0 = part(ctx, x, dim, at, at + 1), *f1 = part(ctx, x, dim, at + step, at + step + 1);
    if (order == 1) return step > 0 ? do_sub(ctx, f1, f0) : do_sub(ctx, f0, f1);
    const nbx_tensor *f2 = part(ctx, x, dim, at + 2 * step, at + 2 * step + 1);
    const nbx_tensor *near = do_add(ctx, NBX_DO(ctx, "aten::mul.Scalar", T(f0), F(-1.5)), NBX_DO(ctx, "aten::mul.Scalar", T(f1), I(2)));
    nbx_tensor *slope = do_sub(ctx, near, NBX_DO(ctx, "aten::mul.Scalar", T(f2), F(0.5)));
    return step > 0 ? slope : do_unary(ctx, "aten::neg", slope);
}

// Central differences along a dim; one-sided ones of the order asked for at its ends.
static nbx_tensor *gradient_along(nbx_context *ctx, const nbx_tensor *x, int dim, nbx_value spacing, int64_t order) {
    const int64_t n = x->shape[dim];
    const nbx_tensor *middle = do_sub(ctx, part(ctx, x, dim, 2, n), part(ctx, x, dim, 0, n - 2));
    const nbx_tensor *parts[3] = {edge_slope(ctx, x, dim, 0, 1, order), NBX_DO(ctx, "aten::div.Scalar", T(middle), I(2)),
                                  edge_slope(ctx, x, dim, n - 1, -1, order)};
    for (int i = 0; i < 3; i++) {
        parts[i] = NBX_DO(ctx, "aten::div.Scalar", T(parts[i]), spacing);
        if (!parts[i]) return NULL;
    }
    return NBX_DO(ctx, "aten::cat", nbx_of_tensors(parts, 3), I(dim));
}

static nbx_status compose_gradient(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t order = arg_int(c, 3);
    const nbx_value spacing = arg_is_none(c, 1) ? I(1) : c->args[1];
    int only = 0, first = 0, count = x->rank;
    if (order != 1 && order != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "edge_order is 1 or 2, found %lld", (long long)order);
    if (x->dtype == NBX_UINT8) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for uint8");
    if (!arg_is_none(c, 2)) {
        const nbx_status status = nbx_call_dim(c, arg_int(c, 2), x->rank, &only);
        if (status != NBX_OK) return status;
        first = only, count = x->rank > 0 ? 1 : 0;
    }
    for (int d = first; d < first + count; d++)
        if (x->shape[d] < order + 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d has fewer than %lld elements", d, (long long)order + 1);
    nbx_status status = out_list(c, count);
    for (int d = 0; d < count && status == NBX_OK; d++) status = out_tensor(c, d, gradient_along(ctx, x, first + d, spacing, order));
    return status;
}

const nbx_op nbx_ops_diff[] = {
    {.name = "aten::gradient.scalarint", .composite = compose_gradient},
    {.name = "aten::diff", .composite = compose_diff},
    {.name = "aten::trapezoid.dx", .composite = compose_trapezoid},
    {.name = "aten::cumulative_trapezoid.dx", .composite = compose_cumulative_trapezoid},
    {.name = "aten::trapezoid.x", .composite = compose_trapezoid_at, .data = &(const bool){false}},
    {.name = "aten::cumulative_trapezoid.x", .composite = compose_trapezoid_at, .data = &(const bool){true}},
    NBX_OPS_END,
};
