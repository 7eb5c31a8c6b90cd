// Histograms of equal bins: histc counts, histogram sums weights and gives the edges.
//   histc(x, bins, min, max): min = max takes the range of the data; values outside are dropped; the last bin is closed
//   histogram(x, bins, range, weight, density): (hist [bins], edges [bins + 1]), dtype of x; density divides by area
//   source: aten::histc, histogram.bin_ct. Bins are (x - left) bins / (right - left), rounded as the dtype of x rounds.
#include <math.h>

#include "core/half.h"
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

typedef struct histogram_job {
    int64_t bins;
    bool counts_only;  // histc
    bool range_given, density;
    double left, right;
} histogram_job;

static nbx_status describe(nbx_op_call *c, histogram_job job) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const int64_t bins = job.bins, edges = bins + 1;
    if (!nbx_dtype_is_float(d) || nbx_dtype_is_float8(d) || (!job.counts_only && d != NBX_FLOAT32 && d != NBX_FLOAT64))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
    if (bins <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "bins must be positive, found %lld", (long long)bins);
    nbx_status status = reduce_need_target(c, 0, d);
    if (status == NBX_OK && !job.counts_only) status = reduce_need_target(c, 1, d);
    if (status != NBX_OK) return status;
    histogram_job *kept = nbx_call_state(c, sizeof job);
    if (!kept) return nbx_last_status(c->ctx);
    *kept = job;
    c->scratch_bytes = (size_t)bins * 8;
    if (!out_new(c, 0, d, 1, &bins, NULL)) return nbx_last_status(c->ctx);
    return job.counts_only || out_new(c, 1, d, 1, &edges, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status infer_histc(nbx_op_call *c) {
    const double left = nbx_scalar_to_double(&c->args[2]), right = nbx_scalar_to_double(&c->args[3]);
    if (left > right) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "max must not be below min");
    return describe(c, (histogram_job){arg_int(c, 1), true, left != right, false, left, right});
}

static nbx_status infer_histogram(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *weight = arg_tensor(c, 3);
    histogram_job job = {.bins = arg_int(c, 1), .density = arg_bool(c, 4)};
    if (!arg_is_none(c, 2)) {
        if (c->args[2].count != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "range needs two numbers, found %d", c->args[2].count);
        job.range_given = true;
        job.left = c->args[2].as.floats[0], job.right = c->args[2].as.floats[1];
        if (job.left > job.right) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the range ends before it starts");
    }
    if (weight && (weight->dtype != x->dtype || !nbx_same_shape(weight, x)))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "weight should have dtype and shape of the input");
    return describe(c, job);
}

// -------------------------------------------------------------------------------------------------------------- kernel
static double element(const nbx_tensor *t, int64_t i) {
    int64_t offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) offset += i % t->shape[d] * t->stride[d], i /= t->shape[d];
    switch (t->dtype) {
    case NBX_FLOAT64: return ((const double *)nbx_data(t))[offset];
    case NBX_FLOAT32: return (double)((const float *)nbx_data(t))[offset];
    case NBX_FLOAT16: return (double)nbx_from_f16(((const uint16_t *)nbx_data(t))[offset]);
    default: return (double)nbx_from_bf16(((const uint16_t *)nbx_data(t))[offset]);
    }
}

static double rounded(double x, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT64: return x;
    case NBX_FLOAT32: return (double)(float)x;
    case NBX_FLOAT16: return (double)nbx_from_f16(nbx_to_f16((float)x));
    default: return (double)nbx_from_bf16(nbx_to_bf16((float)x));
    }
}

static void store(const nbx_tensor *t, int64_t i, double x) {
    switch (t->dtype) {
    case NBX_FLOAT64: ((double *)nbx_data(t))[i] = x; break;
    case NBX_FLOAT32: ((float *)nbx_data(t))[i] = (float)x; break;
    case NBX_FLOAT16: ((uint16_t *)nbx_data(t))[i] = nbx_to_f16((float)x); break;
    default: ((uint16_t *)nbx_data(t))[i] = nbx_to_bf16((float)x); break;
    }
}

static nbx_status find_range(nbx_op_call *c, const histogram_job *job, double *left, double *right) {
    const nbx_tensor *x = arg_tensor(c, 0);
    *left = job->left, *right = job->right;
    if (!job->range_given && x->numel > 0) {
        *left = *right = element(x, 0);
        for (int64_t i = 1; i < x->numel; i++) {
            const double v = element(x, i);
            if (v < *left || v != v) *left = v;
            if (v > *right || v != v) *right = v;
            if (v != v) break;
        }
    } else if (!job->range_given && !job->counts_only) {
        *left = 0.0, *right = 1.0;
    }
    if (!isfinite(*left) || !isfinite(*right)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the range [%g, %g] is not finite", *left, *right);
    const double margin = job->counts_only ? 1.0 : 0.5;
    if (*left == *right) *left -= margin, *right += margin;
    *left = rounded(*left, (nbx_dtype)x->dtype), *right = rounded(*right, (nbx_dtype)x->dtype);
    return NBX_OK;
}

static double edge(double left, double right, int64_t bins, int64_t k, nbx_dtype dtype) {
    const double step = rounded((right - left) / (double)bins, dtype);
    return rounded(k < (bins + 1) / 2 ? left + step * (double)k : right - step * (double)(bins - k), dtype);
}

static nbx_status histogram_cpu(nbx_op_call *c) {
    const histogram_job *job = c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *weight = job->counts_only ? NULL : arg_tensor(c, 3), *hist = out_get(c, 0);
    const nbx_dtype dtype = (nbx_dtype)x->dtype;
    double left, right, total = 0.0, *sums = c->scratch;
    const nbx_status status = find_range(c, job, &left, &right);
    if (status != NBX_OK) return status;
    for (int64_t k = 0; k < job->bins; k++) sums[k] = 0.0;
    for (int64_t i = 0; i < x->numel; i++) {
        const double v = element(x, i);
        if (!(v >= left && v <= right)) continue;
        const double scaled = rounded(rounded(v - left, dtype) * (double)job->bins, dtype);
        int64_t bin = (int64_t)rounded(scaled / rounded(right - left, dtype), dtype);
        if (bin > job->bins - 1) bin = job->bins - 1;
        if (!job->counts_only) {  // the edges decide
            if (v < edge(left, right, job->bins, bin, dtype)) bin--;
            else if (bin + 1 < job->bins && v >= edge(left, right, job->bins, bin + 1, dtype)) bin++;
            if (bin < 0) bin = 0;
        }
        sums[bin] += weight ? element(weight, i) : 1.0;
    }
    for (int64_t k = 0; k < job->bins; k++) total += sums[k];
    for (int64_t k = 0; k < job->bins; k++) {
        const double width = edge(left, right, job->bins, k + 1, dtype) - edge(left, right, job->bins, k, dtype);
        store(hist, k, job->density ? sums[k] / total / width : sums[k]);
    }
    if (job->counts_only) return NBX_OK;
    for (int64_t k = 0; k <= job->bins; k++) store(out_get(c, 1), k, edge(left, right, job->bins, k, dtype));
    return NBX_OK;
}

const nbx_op nbx_ops_histogram[] = {
    {.name = "aten::histc", .infer = infer_histc, .cpu = NBX_CPU_KERNEL_ONE(histogram_cpu)},
    {.name = "aten::histogram.bin_ct", .infer = infer_histogram, .cpu = NBX_CPU_KERNEL_ONE(histogram_cpu)},
    NBX_OPS_END,
};
