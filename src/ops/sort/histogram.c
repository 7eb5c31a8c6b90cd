// Counting into bins: histc, histogram, bincount.
#include "ops/index/nonzero.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/histogram.h"

#include <math.h>

// The i-th element in row-major order.
static const char *element_at(const nbx_tensor *t, int64_t i) {
    return (const char *)nbx_data(t) + nbx_element_offset(t, t->rank, i);
}

static double value_at(const nbx_tensor *t, int64_t i) { return element_double((nbx_dtype)t->dtype, element_at(t, i)); }

static double rounded(nbx_dtype d, double x) {
    char element[16];
    element_set_double(d, element, x);
    return element_double(d, element);
}

// Dense float32 and float64, read as they lie.
static bool is_plain(const nbx_tensor *t) { return t->contiguous && (t->dtype == NBX_FLOAT32 || t->dtype == NBX_FLOAT64); }
ELEMENT_INLINE double plain_at(bool narrow, const void *p, int64_t i) { return narrow ? (double)((const float *)p)[i] : ((const double *)p)[i]; }

ELEMENT_INLINE void plain_range(bool narrow, const void *p, int64_t n, double *low, double *high) {
    double least = *low, most = *high;
    for (int64_t i = 1; i < n; i++) {
        const double x = plain_at(narrow, p, i);
        least = x < least || x != x ? x : least;
        most = x > most || x != x ? x : most;
    }
    *low = least, *high = most;
}

// The range of finite data when none is given; a range of one value is widened on both sides, in self's dtype.
static nbx_status find_range(nbx_op_call *c, const nbx_tensor *self, double *low, double *high, double widen) {
    if (*low == *high && self->numel > 0) {
        *low = *high = value_at(self, 0);
        if (is_plain(self) && self->dtype == NBX_FLOAT32) plain_range(true, nbx_data(self), self->numel, low, high);
        else if (is_plain(self)) plain_range(false, nbx_data(self), self->numel, low, high);
        for (int64_t i = 1; !is_plain(self) && i < self->numel; i++) {
            const double x = value_at(self, i);
            *low = x < *low || x != x ? x : *low;
            *high = x > *high || x != x ? x : *high;
        }
    }
    if (!isfinite(*low) || !isfinite(*high)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the range [%g, %g] is not finite", *low, *high);
    if (*low == *high) *low = rounded((nbx_dtype)self->dtype, *low - widen), *high = rounded((nbx_dtype)self->dtype, *high + widen);
    return NBX_OK;
}

// A range, counts, and the bins of elements that have weights.
static size_t device_scratch(int64_t bins, int64_t weighted) { return 8 * (4 + (size_t)bins + (size_t)weighted); }

// ----------------------------------------------------------------------------------------------------------------- histc
static nbx_status histc_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t bins = arg_int(c, 1);
    if (!nbx_dtype_is_float((nbx_dtype)self->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes floating tensors, not %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (bins <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld bins", (long long)bins);
    if (nbx_scalar_to_double(&c->args[2]) > nbx_scalar_to_double(&c->args[3])) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "max is less than min");
    if (!out_new(c, 0, (nbx_dtype)self->dtype, 1, &bins, NULL)) return c->ctx->status;
    c->scratch_bytes = device_scratch(bins, 0);
    return NBX_OK;
}

// In self's dtype; what is no number counts in the last bin.
ELEMENT_INLINE void plain_histc(bool narrow, const void *p, int64_t n, int64_t bins, double low, double high, int64_t *counts) {
    const double of = narrow ? (double)(float)bins : (double)bins, span = narrow ? (double)(float)(high - low) : high - low;
    for (int64_t i = 0; i < n; i++) {
        const double x = plain_at(narrow, p, i);
        if (!(x >= low && x <= high)) continue;
        double place = x - low;
        if (narrow) place = (double)(float)((double)(float)((double)(float)place * of) / span);
        else place = place * of / span;
        counts[place < (double)bins ? (int64_t)place : bins - 1]++;
    }
}

// A bin is counted up by 1 in self's dtype, so it stops at the first number whose successor it does not hold.
static void store_counts(const nbx_tensor *out, const int64_t *counts) {
    const nbx_dtype d = (nbx_dtype)out->dtype;
    const int64_t most = (int64_t)1 << (d == NBX_FLOAT32 ? 24 : 53);
    char *to = nbx_data(out);
    for (int64_t b = 0; b < out->shape[0]; b++, to += out->stride[0] * (int64_t)nbx_dtype_size(d))
        element_set_double(d, to, (double)(counts[b] < most ? counts[b] : most));
}

static nbx_status histc(nbx_op_call *c) {
    static const char zero[16];
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    const nbx_dtype d = (nbx_dtype)out->dtype;
    double low = rounded(d, nbx_scalar_to_double(&c->args[2])), high = rounded(d, nbx_scalar_to_double(&c->args[3]));
    const int64_t bins = out->shape[0], step = out->stride[0] * (int64_t)nbx_dtype_size(d);
    if (find_range(c, self, &low, &high, 1) != NBX_OK) return c->ctx->status;
    if (is_plain(self)) {
        int64_t *counts = c->scratch;
        memset(counts, 0, sizeof *counts * (size_t)bins);
        if (d == NBX_FLOAT32) plain_histc(true, nbx_data(self), self->numel, bins, low, high, counts);
        else plain_histc(false, nbx_data(self), self->numel, bins, low, high, counts);
        store_counts(out, counts);
        return NBX_OK;
    }
    nbx_fill_tensor(NULL, out, zero);
    for (int64_t i = 0; i < self->numel; i++) {
        const double x = value_at(self, i);
        if (!(x >= low && x <= high)) continue;
        const double place = rounded(d, rounded(d, rounded(d, x - low) * rounded(d, (double)bins)) / rounded(d, high - low));  // in self's dtype
        const int64_t bin = place < (double)bins ? (int64_t)place : bins - 1;  // not a number: the last one
        char *to = (char *)nbx_data(out) + bin * step;
        element_set_double(d, to, element_double(d, to) + 1);
    }
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- histogram
// histogram(self, bins, range, weight, density) -> (hist, bin_edges); bins a number, or the edges themselves.
enum { BINS = 1, RANGE = 2 };

static nbx_status histogram_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *edges = arg_tensor(c, BINS);
    const int weight_arg = edges ? 2 : 3;
    const nbx_tensor *weight = arg_tensor(c, weight_arg);
    const nbx_dtype d = (nbx_dtype)self->dtype;
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes float32 and float64, not %s", nbx_dtype_name(d));
    if (weight != NULL && (weight->dtype != self->dtype || !nbx_same_shape(weight, self)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weight must have self's shape and dtype");
    if (edges != NULL && (edges->rank != 1 || edges->dtype != self->dtype || edges->numel < 2))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the edges must be a vector of self's dtype");
    const int64_t bins = edges ? edges->numel - 1 : arg_int(c, BINS);
    if (edges == NULL && (bins <= 0 || bins == INT64_MAX)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld bins", (long long)bins);
    const int64_t count = bins + 1;
    if (edges == NULL && !arg_is_none(c, RANGE)) {
        const nbx_value *range = &c->args[RANGE];
        if (range->count != 2 || !isfinite(range->as.floats[0]) || !isfinite(range->as.floats[1]) || range->as.floats[0] > range->as.floats[1])
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "range must be two finite numbers, the lower first");
    }
    if (!out_new(c, 0, d, 1, &bins, NULL) || !out_new(c, 1, d, 1, &count, NULL)) return c->ctx->status;
    if (c->device.type != NBX_CPU) c->scratch_bytes = device_scratch(bins, weight ? self->numel : 0);
    return NBX_OK;
}

static double edge_at(const nbx_tensor *edges, int64_t i) { return value_at(edges, i); }

int64_t nbx_histogram_bin(const nbx_tensor *edges, double x) {
    const int64_t count = edges->numel;
    if (count < 2 || !(x >= edge_at(edges, 0) && x <= edge_at(edges, count - 1))) return -1;
    int64_t low = 0, high = count;
    while (low < high) {  // first edge above x
        const int64_t middle = low + (high - low) / 2;
        if (edge_at(edges, middle) <= x) low = middle + 1;
        else high = middle;
    }
    return low - 1 < count - 1 ? low - 1 : count - 2;
}

void nbx_histogram_edges(const nbx_tensor *edges, double low, double high) {
    const nbx_dtype d = (nbx_dtype)edges->dtype;
    const int64_t count = edges->numel, step = edges->stride[0] * (int64_t)nbx_dtype_size(d);
    for (int64_t i = 0; i < count; i++) {
        char *to = (char *)nbx_data(edges) + i * step;
        if (d == NBX_FLOAT64) {
            const double by = (high - low) / (double)(count - 1);
            element_put_f64(to, i < count / 2 ? low + by * (double)i : high - by * (double)(count - 1 - i));
        } else {
            const float by = ((float)high - (float)low) / (float)(count - 1);
            element_put_f32(to, i < count / 2 ? (float)low + by * (float)i : (float)high - by * (float)(count - 1 - i));
        }
    }
}

static nbx_status histogram(nbx_op_call *c) {
    static const char zero[16];
    const nbx_tensor *self = arg_tensor(c, 0), *given = arg_tensor(c, BINS), *hist = out_get(c, 0), *edges = out_get(c, 1);
    const nbx_tensor *weight = arg_tensor(c, given ? 2 : 3);
    const bool density = arg_bool(c, given ? 3 : 4);
    const nbx_dtype d = (nbx_dtype)hist->dtype;
    const int64_t step = hist->stride[0] * (int64_t)nbx_dtype_size(d);
    if (given != NULL) {
        for (int64_t i = 1; i < given->numel; i++)
            if (edge_at(given, i) < edge_at(given, i - 1)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the edges must rise");
        nbx_move_tensor(c->pool, edges, given);
    } else {
        double low = 0, high = self->numel > 0 ? 0 : 1;
        if (!arg_is_none(c, RANGE)) low = c->args[RANGE].as.floats[0], high = c->args[RANGE].as.floats[1];
        if (arg_is_none(c, RANGE) && find_range(c, self, &low, &high, 0.5) != NBX_OK) return c->ctx->status;
        if (low == high) low -= 0.5, high += 0.5;
        nbx_histogram_edges(edges, low, high);
    }
    if (hist->numel == 0) return NBX_OK;
    nbx_fill_tensor(NULL, hist, zero);
    double total = 0;
    for (int64_t i = 0; i < self->numel; i++) {
        const int64_t bin = nbx_histogram_bin(edges, value_at(self, i));
        if (bin < 0) continue;
        char *to = (char *)nbx_data(hist) + bin * step;
        element_set_double(d, to, element_double(d, to) + (weight ? value_at(weight, i) : 1));
    }
    for (int64_t b = 0; density && b < hist->numel; b++) total += value_at(hist, b);
    for (int64_t b = 0; density && b < hist->numel; b++) {
        char *to = (char *)nbx_data(hist) + b * step;
        element_set_double(d, to, element_double(d, to) / total / (edge_at(edges, b + 1) - edge_at(edges, b)));
    }
    return NBX_OK;
}

// -------------------------------------------------------------------------------------------------------------- bincount
enum { PART = 512 };

// Elements of a contiguous tensor from i on, up to PART of them, in another dtype; how many there are.
static int64_t part_of(const nbx_tensor *t, nbx_dtype to, int64_t i, void *values) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), n = t->numel - i < PART ? t->numel - i : PART;
    nbx_convert_run(to, values, (int64_t)nbx_dtype_size(to), (nbx_dtype)t->dtype, (const char *)nbx_data(t) + i * width, width, n);
    return n;
}

// The same as int64: where they lie, if they are.
static const int64_t *integers_of(const nbx_tensor *t, int64_t i, int64_t *buffer, int64_t *n) {
    *n = t->numel - i < PART ? t->numel - i : PART;
    if (t->dtype == NBX_INT64) return (const int64_t *)nbx_data(t) + i;
    part_of(t, NBX_INT64, i, buffer);
    return buffer;
}

static nbx_status bincount(nbx_op_call *c) {
    const nbx_tensor *self = nbx_on_host(c->ctx, arg_tensor(c, 0)), *weights = arg_tensor(c, 1);
    const int64_t least = arg_int(c, 2);
    if (weights != NULL) weights = nbx_on_host(c->ctx, weights);
    if (self == NULL) return c->ctx->status;
    const nbx_dtype dtype = (nbx_dtype)self->dtype;
    if (!nbx_dtype_is_integral(dtype, false)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes integers, not %s", nbx_dtype_name(dtype));
    if (least < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "minlength %lld is negative", (long long)least);
    if (self->rank != 1 && self->numel != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector, not a tensor of %d dims", self->rank);
    if (weights != NULL && self->numel > 0 && (weights->rank != 1 || weights->numel != self->numel))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld weights for %lld elements", (long long)weights->numel, (long long)self->numel);
    int64_t bins = least, low = 0, high = -1, buffer[PART], n;
    for (int64_t i = 0; i < self->numel; i += PART) {
        const int64_t *values = integers_of(self, i, buffer, &n);
        int64_t k = 0, all = 0, a = high, b = high, d = high, e = high;
        for (; k + 4 <= n; k += 4) {
            all |= (values[k] | values[k + 1]) | (values[k + 2] | values[k + 3]);
            a = values[k] > a ? values[k] : a, b = values[k + 1] > b ? values[k + 1] : b;
            d = values[k + 2] > d ? values[k + 2] : d, e = values[k + 3] > e ? values[k + 3] : e;
        }
        for (; k < n; k++) all |= values[k], a = values[k] > a ? values[k] : a;
        a = a > b ? a : b, d = d > e ? d : e, high = a > d ? a : d;
        for (k = 0; all < 0 && k < n; k++) low = values[k] < low ? values[k] : low;
    }
    if (low < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "element %lld is negative", (long long)low);
    if (high == INT64_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "element %lld is too large", (long long)high);
    if (high >= bins) bins = high + 1;
    const nbx_dtype to_dtype = weights == NULL || self->numel == 0 ? NBX_INT64 : weights->dtype == NBX_FLOAT32 ? NBX_FLOAT32 : NBX_FLOAT64;
    const nbx_tensor *out = NBX_DO(c->ctx, "aten::zeros", nbx_of_ints(&bins, 1), nbx_of_dtype(to_dtype), NIL, nbx_of_device((nbx_device){NBX_CPU, 0}));
    if (out == NULL) return c->ctx->status;
    int64_t *const counts = nbx_data(out);
    float *const narrow = nbx_data(out);
    double *const wide = nbx_data(out);
    for (int64_t i = 0; i < self->numel; i += PART) {
        const int64_t *values = integers_of(self, i, buffer, &n);
        double shares[PART];
        if (weights) part_of(weights, NBX_FLOAT64, i, shares);
        if (to_dtype == NBX_INT64)
            for (int64_t k = 0; k < n; k++) counts[values[k]]++;
        else if (to_dtype == NBX_FLOAT32)
            for (int64_t k = 0; k < n; k++) narrow[values[k]] += (float)shares[k];
        else
            for (int64_t k = 0; k < n; k++) wide[values[k]] += shares[k];
    }
    return nbx_give(c, 0, nbx_from_host(c, out));
}

const nbx_op nbx_ops_histogram[] = {
    {.name = "aten::histc", .infer = histc_infer, .cpu = NBX_CPU_KERNEL_ONE(histc), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::histogram.bin_ct", .infer = histogram_infer, .cpu = NBX_CPU_KERNEL_ONE(histogram), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::histogram.bins_tensor", .infer = histogram_infer, .cpu = NBX_CPU_KERNEL_ONE(histogram), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::bincount", .composite = bincount, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
