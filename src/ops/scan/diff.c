// Differences and trapezoids: diff, gradient, trapezoid, cumulative_trapezoid. Each is a few slices and sums of them.
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

static nbx_tensor *part(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t start, int64_t end) {
    return do_slice(ctx, x, dim, start, end);
}

// May `more` stand beside x along dim?
static bool continues(const nbx_tensor *x, const nbx_tensor *more, int dim) {
    bool fits = !more || more->rank == x->rank;
    for (int d = 0; more && fits && d < x->rank; d++) fits = d == dim || more->shape[d] == x->shape[d];
    return fits;
}

// diff(x, n, dim, prepend, append): x[i+1] - x[i], n times over; xor of bools.
static nbx_status compose_diff(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *prepend = arg_tensor(c, 3), *append = arg_tensor(c, 4);
    int64_t n = arg_int(c, 1);
    int dim;
    if (n < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "order must not be negative, found %lld", (long long)n);
    if (x->rank < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a tensor of at least one dim");
    nbx_status status = n == 0 ? nbx_call_need_target(c, 0, (nbx_dtype)x->dtype) : NBX_OK;
    if (status == NBX_OK && n == 0 && !prepend && !append) return out_tensor(c, 0, NBX_DO(ctx, "aten::clone", T(x)));
    if (status == NBX_OK) status = nbx_call_dim(c, arg_int(c, 2), x->rank, &dim);
    if (status != NBX_OK) return status;
    if (!continues(x, prepend, dim) || !continues(x, append, dim))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "prepend and append need the shape of the input but along dim %d", dim);
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

// The dim of (y, dx, dim), checked with the others.
static nbx_status even_dim(nbx_op_call *c, int *dim) {
    const nbx_tensor *y = arg_tensor(c, 0);
    const nbx_status status = nbx_call_dim(c, arg_int(c, 2), y->rank, dim);
    if (status != NBX_OK) return status;
    if (y->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a tensor of at least one dim");
    if (y->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for bool");
    if (c->args[1].kind == NBX_KIND_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "dx must not be a bool");
    return NBX_OK;
}

// (sum(y) - (y[0] + y[-1]) / 2) dx along dim; 0 without elements.
static nbx_status compose_trapezoid(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *y = arg_tensor(c, 0);
    int dim;
    const nbx_status status = even_dim(c, &dim);
    if (status != NBX_OK) return status;
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
    const nbx_status status = even_dim(c, &dim);
    if (status != NBX_OK) return status;
    const double half = nbx_scalar_to_double(&c->args[1]) / 2.0;
    const nbx_tensor *areas = NBX_DO(ctx, "aten::mul.Scalar", T(neighbours(ctx, y, dim)), F(half));
    return out_tensor(c, 0, NBX_DO(ctx, "aten::cumsum", T(areas), I(dim)));
}

// x as steps along dim of y: x[i+1] - x[i], seen with the rank of y where x is a vector. NULL: failed.
static const nbx_tensor *steps_of(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *y, int dim) {
    int64_t shape[NBX_MAX_RANK];
    const int at = x->rank >= y->rank ? dim : x->rank - 1;
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
    if (step > 0) return do_sub(ctx, do_add(ctx, do_mul_scalar(ctx, f0, F(-1.5)), do_mul_scalar(ctx, f1, I(2))), do_mul_scalar(ctx, f2, F(0.5)));
    return do_add(ctx, do_sub(ctx, do_mul_scalar(ctx, f2, F(0.5)), do_mul_scalar(ctx, f1, I(2))), do_mul_scalar(ctx, f0, F(1.5)));
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

// a f[i-1] + b f[i] + c f[i+1] with weights that stand along dim.
static nbx_tensor *weighted(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t first, int64_t count, const nbx_tensor *const weights[3]) {
    const nbx_tensor *sum = NULL;
    int64_t shape[NBX_MAX_RANK];
    for (int d = 0; d < x->rank; d++) shape[d] = d == dim ? count : 1;
    for (int k = 0; k < 3; k++) {
        const nbx_tensor *term = do_mul(ctx, part(ctx, x, dim, first + k, first + k + count), do_view(ctx, weights[k], x->rank, shape));
        sum = k ? do_add(ctx, sum, term) : term;
        if (!sum) return NULL;
    }
    return (nbx_tensor *)sum;
}

// The derivative at the point `at` (0 left, 1 middle, 2 right) of the parabola through three points with gaps h and g.
static nbx_tensor *through_three(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t first, int64_t count, const nbx_tensor *h, const nbx_tensor *g, int at) {
    const nbx_tensor *both = do_add(ctx, h, g), *left = do_mul(ctx, h, both), *middle = do_mul(ctx, h, g), *right = do_mul(ctx, g, both);
    const nbx_tensor *minus_h = do_unary(ctx, "aten::neg", h), *minus_g = do_unary(ctx, "aten::neg", g), *minus_both = do_unary(ctx, "aten::neg", both);
    const nbx_tensor *weights[3] = {
        do_div(ctx, at == 0 ? do_unary(ctx, "aten::neg", do_add(ctx, do_mul_scalar(ctx, h, I(2)), g)) : at == 1 ? minus_g : g, left),
        do_div(ctx, at == 0 ? both : at == 1 ? do_sub(ctx, g, h) : minus_both, middle),
        do_div(ctx, at == 0 ? minus_h : at == 1 ? h : do_add(ctx, h, do_mul_scalar(ctx, g, I(2))), right),
    };
    return weights[0] && weights[1] && weights[2] ? weighted(ctx, x, dim, first, count, weights) : NULL;
}

// The same for values at places that need not be even.
static nbx_tensor *gradient_at(nbx_context *ctx, const nbx_tensor *x, int dim, const nbx_tensor *places, int64_t order) {
    const int64_t n = x->shape[dim];
    const nbx_tensor *gaps = NBX_DO(ctx, "aten::diff", T(places));
    const nbx_tensor *h = part(ctx, gaps, 0, 0, n - 2), *g = part(ctx, gaps, 0, 1, n - 1), *parts[3];
    parts[1] = through_three(ctx, x, dim, 0, n - 2, h, g, 1);
    if (order == 1) {
        parts[0] = do_div(ctx, edge_slope(ctx, x, dim, 0, 1, 1), do_select(ctx, gaps, 0, 0));
        parts[2] = do_div(ctx, edge_slope(ctx, x, dim, n - 1, -1, 1), do_select(ctx, gaps, 0, -1));
    } else {
        parts[0] = through_three(ctx, x, dim, 0, 1, part(ctx, h, 0, 0, 1), part(ctx, g, 0, 0, 1), 0);
        parts[2] = through_three(ctx, x, dim, n - 3, 1, part(ctx, h, 0, n - 3, n - 2), part(ctx, g, 0, n - 3, n - 2), 2);
    }
    return parts[0] && parts[1] && parts[2] ? NBX_DO(ctx, "aten::cat", nbx_of_tensors(parts, 3), I(dim)) : NULL;
}

// (self, spacing, dim, edge_order): spacing absent, a number, or for each dim a number or a vector of places; dim absent, one or several.
static nbx_status compose_gradient(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0);
    const int at_dims = c->arg_count - 2;
    const int64_t order = arg_int(c, c->arg_count - 1);
    const nbx_value spacing = at_dims < 2 || arg_is_none(c, 1) ? I(1) : c->args[1], *given = &c->args[at_dims];
    const bool listed = spacing.kind == NBX_KIND_VALUES || spacing.kind == NBX_KIND_TENSORS;
    int dims[NBX_MAX_RANK], count = given->kind == NBX_KIND_NONE ? x->rank : given->kind == NBX_KIND_INTS ? given->count : 1;
    uint64_t seen = 0;
    if (order != 1 && order != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "edge_order is 1 or 2, found %lld", (long long)order);
    if (x->dtype == NBX_UINT8) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for uint8");
    if (count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d dims for a tensor of %d", count, x->rank);
    if (listed && spacing.count != count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d spacings for %d dims", spacing.count, count);
    for (int i = 0; i < count; i++) {
        dims[i] = i;
        const nbx_status status =
            given->kind == NBX_KIND_NONE ? NBX_OK : nbx_call_dim(c, given->kind == NBX_KIND_INTS ? given->as.ints[i] : given->as.integer, x->rank, &dims[i]);
        if (status != NBX_OK) return status;
        if (seen >> dims[i] & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d is listed twice", dims[i]);
        seen |= (uint64_t)1 << dims[i];
    }
    if (x->rank == 0) count = 0;
    for (int i = 0; i < count; i++) {
        if (x->shape[dims[i]] < order + 1)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d has fewer than %lld elements", dims[i], (long long)order + 1);
        if (spacing.kind != NBX_KIND_TENSORS) continue;
        const nbx_tensor *places = spacing.as.tensors[i];
        if (nbx_is_none(places) || places->rank != 1 || places->shape[0] != x->shape[dims[i]])
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "spacing %d must be a vector with a place for each element of dim %d", i, dims[i]);
    }
    nbx_status status = out_list(c, count);
    for (int i = 0; i < count && status == NBX_OK; i++)
        status = out_tensor(c, i, spacing.kind == NBX_KIND_TENSORS ? gradient_at(ctx, x, dims[i], spacing.as.tensors[i], order)
                                                                   : gradient_along(ctx, x, dims[i], listed ? spacing.as.values[i] : spacing, order));
    return status;
}

#define GRADIENT(FORM) {.name = "aten::gradient." FORM, .composite = compose_gradient}

const nbx_op nbx_ops_diff[] = {
    GRADIENT("scalarint"), GRADIENT("array"), GRADIENT("scalararray"), GRADIENT("scalarrayarray"), GRADIENT("scalarrayint"), GRADIENT("tensorarray"),
    GRADIENT("tensorarrayint"),
    {.name = "aten::diff", .composite = compose_diff},
    {.name = "aten::trapezoid.dx", .composite = compose_trapezoid},
    {.name = "aten::cumulative_trapezoid.dx", .composite = compose_cumulative_trapezoid},
    {.name = "aten::trapezoid.x", .composite = compose_trapezoid_at, .data = &(const bool){false}},
    {.name = "aten::cumulative_trapezoid.x", .composite = compose_trapezoid_at, .data = &(const bool){true}},
    NBX_OPS_END,
};
