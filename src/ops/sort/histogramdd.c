// histogramdd(self [..., d], bins [d], range, weight, density) -> (hist [bins], edges): counts of points in d dims.
//   range: low and high of each dim; without it those of the data, widened by half on both sides when they are equal
//   bins: how many in each dim, or in all, or their edges; _histogramdd_* give one of the two results
#include <math.h>
#include <string.h>

#include "ops/compose.h"
#include "ops/shape/element.h"
#include "ops/sort/histogram.h"

enum { SELF, BINS, RANGE, WEIGHT, DENSITY };

static int64_t dims_of(const nbx_tensor *self) { return self->shape[self->rank - 1]; }

static nbx_status check(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, SELF), *weight = arg_tensor(c, WEIGHT);
    const nbx_dtype d = (nbx_dtype)self->dtype;
    if (self->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must have at least 2 dims, found %d", self->rank);
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes float32 and float64, not %s", nbx_dtype_name(d));
    if (c->args[BINS].count != dims_of(self) || c->args[BINS].count > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d numbers of bins for points of %lld dims", c->args[BINS].count, (long long)dims_of(self));
    for (int i = 0; i < c->args[BINS].count; i++)
        if (c->args[BINS].as.ints[i] <= 0 || c->args[BINS].as.ints[i] > ((int64_t)1 << 48))
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld bins", (long long)c->args[BINS].as.ints[i]);
    if (weight && (weight->dtype != self->dtype || !nbx_shape_equal(weight->rank, weight->shape, self->rank - 1, self->shape)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weight must have self's dtype, and its shape without the last dim");
    if (arg_is_none(c, RANGE)) return NBX_OK;
    if (c->args[RANGE].count != 2 * c->args[BINS].count)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "range has %d numbers, not two for each dim", c->args[RANGE].count);
    for (int i = 0; i < c->args[RANGE].count; i += 2) {
        const double low = c->args[RANGE].as.floats[i], high = c->args[RANGE].as.floats[i + 1];
        if (!isfinite(low) || !isfinite(high) || low > high)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the range [%g, %g] is not finite, or not rising", low, high);
    }
    return NBX_OK;
}

static bool here(const nbx_op_call *c) { return c->device.type == NBX_CPU; }

static double coordinate(const nbx_tensor *points, int64_t point, int64_t dim) {  // points are dense
    const nbx_dtype d = (nbx_dtype)points->dtype;
    return element_double(d, (const char *)nbx_data(points) + (point * dims_of(points) + dim) * (int64_t)nbx_dtype_size(d));
}

static nbx_status extremes_of(nbx_op_call *c, const nbx_tensor *points, int dim, double *low, double *high) {
    const nbx_tensor *x = do_select(c->ctx, points, -1, dim);
    nbx_value number;
    for (int i = 0; i < 2; i++) {
        const nbx_value extreme = T(do_unary(c->ctx, i ? "aten::max" : "aten::min", x));
        if (!extreme.as.tensor || nbx_do_many(c->ctx, "aten::_local_scalar_dense", 1, &extreme, &number, 1) != NBX_OK) return c->ctx->status;
        *(i ? high : low) = nbx_scalar_to_double(&number);
    }
    return NBX_OK;
}

static nbx_status range_of(nbx_op_call *c, const nbx_tensor *points, int dim, double *low, double *high) {
    const int64_t count = dims_of(points) ? points->numel / dims_of(points) : 0;
    *low = 0, *high = 1;
    if (!arg_is_none(c, RANGE)) {
        *low = c->args[RANGE].as.floats[2 * dim], *high = c->args[RANGE].as.floats[2 * dim + 1];
    } else if (count > 0) {
        if (!here(c) && extremes_of(c, points, dim, low, high) != NBX_OK) return c->ctx->status;
        if (here(c)) *low = *high = coordinate(points, 0, dim);
        for (int64_t i = 1; here(c) && i < count; i++) {
            const double x = coordinate(points, i, dim);
            *low = x < *low || isnan(x) ? x : *low;
            *high = x > *high || isnan(x) ? x : *high;
        }
        if (!isfinite(*low) || !isfinite(*high)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d: the range [%g, %g] is not finite", dim, *low, *high);
    }
    if (*low == *high) *low -= 0.5, *high += 0.5;
    return NBX_OK;
}

// The edges of all dims, owned by the scope.
static nbx_status make_edges(nbx_op_call *c, const nbx_tensor *points, nbx_tensor **edges) {
    for (int i = 0; i < c->args[BINS].count; i++) {
        const int64_t count = c->args[BINS].as.ints[i] + 1;
        double low, high;
        const nbx_status status = range_of(c, points, i, &low, &high);
        if (status != NBX_OK) return status;
        edges[i] = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, (nbx_dtype)points->dtype, 1, &count);
        if (!edges[i]) return nbx_last_status(c->ctx);
        nbx_histogram_edges(edges[i], low, high);
        if (!here(c)) edges[i] = nbx_tensor_to_device(c->ctx, edges[i], c->device);
        if (!edges[i]) return nbx_last_status(c->ctx);
    }
    return NBX_OK;
}

// The place of a point in the histogram; -1: outside in some dim.
static int64_t place_of(const nbx_tensor *points, int64_t point, int dims, const nbx_tensor *const *edges) {
    int64_t place = 0;
    for (int i = 0; i < dims; i++) {
        const int64_t bin = nbx_histogram_bin(edges[i], coordinate(points, point, i));
        if (bin < 0) return -1;
        place = place * (edges[i]->numel - 1) + bin;
    }
    return place;
}

// Counts over their sum and over the bin's extent in every dim.
static nbx_tensor *density_of(nbx_context *ctx, const nbx_tensor *hist, const nbx_tensor *const *edges) {
    const nbx_tensor *y = do_div(ctx, hist, NBX_DO(ctx, "aten::sum", T(hist)));
    for (int i = 0; y && i < hist->rank; i++) {
        int64_t shape[NBX_MAX_RANK];
        for (int d = 0; d < hist->rank; d++) shape[d] = d == i ? hist->shape[d] : 1;
        y = do_div(ctx, y, do_view(ctx, NBX_DO(ctx, "aten::diff", T(edges[i])), hist->rank, shape));
    }
    return (nbx_tensor *)y;
}

// On a GPU: the bins of each dim by searching, places in all dims counted; what lies outside, in one more place.
static const nbx_tensor *count_there(nbx_op_call *c, const nbx_tensor *points, int dims, const nbx_tensor *const *edges, const nbx_tensor *weight,
                                     const int64_t *shape) {
    nbx_context *ctx = c->ctx;
    const int64_t count = points->numel / dims, total = nbx_shape_numel(dims, shape);
    const nbx_tensor *flat = do_reshape(ctx, points, 2, (int64_t[]){count, dims}), *place = NULL, *inside = NULL;
    for (int i = 0; i < dims; i++) {
        const nbx_tensor *x = do_contiguous(ctx, do_select(ctx, flat, 1, i));
        const nbx_tensor *bin = NBX_DO(ctx, "aten::searchsorted.Tensor", T(edges[i]), T(x), B(false), B(true));
        bin = NBX_DO(ctx, "aten::clamp_max", T(NBX_DO(ctx, "aten::sub.Scalar", T(bin), I(1))), I(shape[i] - 1));
        const nbx_tensor *low = NBX_DO(ctx, "aten::ge.Tensor", T(x), T(do_select(ctx, edges[i], 0, 0)));
        const nbx_tensor *both = NBX_DO(ctx, "aten::logical_and", T(low), T(NBX_DO(ctx, "aten::le.Tensor", T(x), T(do_select(ctx, edges[i], 0, -1)))));
        inside = i ? NBX_DO(ctx, "aten::logical_and", T(inside), T(both)) : both;
        place = i ? do_add(ctx, NBX_DO(ctx, "aten::mul.Scalar", T(place), I(shape[i])), bin) : bin;
    }
    place = NBX_DO(ctx, "aten::where.ScalarOther", T(inside), T(place), I(total));
    const nbx_tensor *weights = weight ? do_reshape(ctx, weight, 1, &count) : NULL;
    if (!place || (weight && !weights)) return NULL;
    const nbx_tensor *counts = NBX_DO(ctx, "aten::bincount", T(place), T_OR_NONE(weights), I(total + 1));
    counts = do_cast(ctx, NBX_DO(ctx, "aten::narrow", T(counts), I(0), I(0), I(total)), (nbx_dtype)points->dtype);
    return do_view(ctx, counts, dims, shape);
}

static nbx_tensor *count_points(nbx_op_call *c, const nbx_tensor *points, int dims, const nbx_tensor *const *edges, const nbx_tensor *weight,
                                bool density) {
    const nbx_tensor *weights = weight ? do_contiguous(c->ctx, weight) : NULL;
    const nbx_dtype d = (nbx_dtype)points->dtype;
    const int64_t size = (int64_t)nbx_dtype_size(d);
    int64_t shape[NBX_MAX_RANK];
    for (int i = 0; i < dims; i++) shape[i] = edges[i]->numel - 1;
    if (!here(c) && points->numel) {
        const nbx_tensor *there = count_there(c, points, dims, edges, weight, shape);
        return there && density ? density_of(c->ctx, there, edges) : (nbx_tensor *)there;
    }
    nbx_tensor *hist = do_full(c->ctx, c->device, d, dims, shape, F(0));
    if (!hist || (weight && !weights)) return NULL;
    for (int64_t i = 0; dims && i < points->numel / dims; i++) {
        const int64_t place = place_of(points, i, dims, edges);
        if (place < 0) continue;
        char *to = (char *)nbx_data(hist) + place * size;
        element_set_double(d, to, element_double(d, to) + (weights ? element_double(d, (const char *)nbx_data(weights) + i * size) : 1));
    }
    return density ? density_of(c->ctx, hist, edges) : hist;
}

static nbx_status histogramdd(nbx_op_call *c, bool want_hist, bool want_edges) {
    nbx_tensor *edges[NBX_MAX_RANK];
    nbx_status status = check(c);
    const nbx_tensor *points = status == NBX_OK ? do_contiguous(c->ctx, arg_tensor(c, SELF)) : NULL;
    if (!points) return nbx_last_status(c->ctx);
    const int dims = c->args[BINS].count;
    status = make_edges(c, points, edges);
    if (status == NBX_OK && want_hist)
        status = out_tensor(c, 0, count_points(c, points, dims, (const nbx_tensor *const *)edges, arg_tensor(c, WEIGHT), arg_bool(c, DENSITY)));
    if (status == NBX_OK && want_edges) status = out_list(c, dims);
    for (int i = 0; status == NBX_OK && want_edges && i < dims; i++) status = out_tensor(c, i, edges[i]);
    return status;
}

static nbx_status both(nbx_op_call *c) { return histogramdd(c, true, true); }
static nbx_status only_hist(nbx_op_call *c) { return histogramdd(c, true, false); }
static nbx_status only_edges(nbx_op_call *c) { return histogramdd(c, false, true); }

// One number of bins for every dim.
static nbx_status with_one_number(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, SELF);
    int64_t bins[NBX_MAX_RANK];
    if (self->rank < 2 || dims_of(self) > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "points of too many dims, or a vector");
    for (int i = 0; i < dims_of(self); i++) bins[i] = arg_int(c, BINS);
    return NBX_FORWARD(c, "aten::histogramdd", c->args[SELF], nbx_of_ints(bins, (int)dims_of(self)), c->args[RANGE], c->args[WEIGHT], c->args[DENSITY]);
}

// Edges given: (self, bins, range, weight, density), or without a range. Each a rising vector.
static nbx_status with_edges(nbx_op_call *c, const nbx_tensor *weight, bool density) {
    const nbx_tensor *self = arg_tensor(c, SELF);
    const nbx_dtype d = (nbx_dtype)self->dtype;
    int dims;
    const nbx_tensor *const *bins = arg_tensors(c, BINS, &dims), *edges[NBX_MAX_RANK];
    if (self->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must have at least 2 dims, found %d", self->rank);
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes float32 and float64, not %s", nbx_dtype_name(d));
    if (dims != dims_of(self) || dims > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "edges of %d dims for points of %lld", dims, (long long)dims_of(self));
    if (weight && (weight->dtype != self->dtype || !nbx_shape_equal(weight->rank, weight->shape, self->rank - 1, self->shape)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weight must have self's dtype, and its shape without the last dim");
    for (int i = 0; i < dims; i++) {
        if (bins[i]->rank != 1 || bins[i]->numel < 2 || bins[i]->dtype != self->dtype)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the edges of dim %d must be a vector of self's dtype, at least two", i);
        edges[i] = do_contiguous(c->ctx, bins[i]);
        if (!edges[i]) return nbx_last_status(c->ctx);
    }
    const nbx_tensor *points = do_contiguous(c->ctx, self);
    return points ? out_tensor(c, 0, count_points(c, points, dims, edges, weight, density)) : nbx_last_status(c->ctx);
}

static nbx_status hist_of_edges(nbx_op_call *c) { return with_edges(c, arg_tensor(c, 2), arg_bool(c, 3)); }

static nbx_status both_of_edges(nbx_op_call *c) {
    int dims;
    const nbx_tensor *const *bins = arg_tensors(c, BINS, &dims);
    nbx_status status = with_edges(c, arg_tensor(c, WEIGHT), arg_bool(c, DENSITY));
    if (status == NBX_OK) status = out_list(c, dims);
    for (int i = 0; status == NBX_OK && i < dims; i++) status = out_tensor(c, i, bins[i]);
    return status;
}

const nbx_op nbx_ops_histogramdd[] = {
    {.name = "aten::histogramdd", .composite = both, .flags = NBX_OP_READS_BACK},
    {.name = "aten::_histogramdd_from_bin_cts", .composite = only_hist, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT},
    {.name = "aten::_histogramdd_bin_edges", .composite = only_edges, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT},
    {.name = "aten::histogramdd.int_bins", .composite = with_one_number},
    {.name = "aten::histogramdd.TensorList_bins", .composite = both_of_edges, .flags = NBX_OP_READS_BACK},
    {.name = "aten::_histogramdd_from_bin_tensors", .composite = hist_of_edges, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
