// The transforms themselves: complex to complex, real to complex, complex to real, over any dims.
//   _fft_c2c(x, dim, normalization, forward)         complex64 complex128; no dims: a copy
//   _fft_r2c(x, dim, normalization, onesided)        float32 float64; the last listed dim gets n / 2 + 1 entries when onesided
//   _fft_c2r(x, dim, normalization, last_dim_size)   the last listed dim gets last_dim_size entries; reads n / 2 + 1 of x's
//   normalization 0 none, 1 divided by sqrt(n), 2 by n: the product of the sizes of all transformed dims
//   strides: as ATen's with MKL: transformed dims innermost, in the order of x's strides, the other dims around them
//   source: aten::_fft_c2c, _fft_r2c, _fft_c2r
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "ops/fft/fft_device.h"
#include "ops/fft/fft_job.h"

static bool is_double(const nbx_tensor *x) { return x->dtype == NBX_FLOAT64 || x->dtype == NBX_COMPLEX128; }

static nbx_status read_dims(nbx_op_call *c, int rank, int *dims, int *count) {
    const int64_t *given = arg_ints(c, 1, count);
    uint64_t seen = 0;
    if (*count > rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d dims for a tensor of %d", *count, rank);
    for (int i = 0; i < *count; i++) {
        const nbx_status status = nbx_call_dim(c, given[i], rank, &dims[i]);
        if (status) return status;
        if (seen >> dims[i] & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d is listed twice", dims[i]);
        seen |= (uint64_t)1 << dims[i];
    }
    return NBX_OK;
}

// Sorts dims by decreasing stride, equal ones as they are.
static void sort_by_stride(int *dims, int count, const int64_t *stride) {
    for (int i = 1; i < count; i++) {
        const int d = dims[i];
        int j = i;
        for (; j > 0 && stride[d] > stride[dims[j - 1]]; j--) dims[j] = dims[j - 1];
        dims[j] = d;
    }
}

// Strides of a result: the other dims outside, in the order of the input's strides (equal ones in the order in which
// exchanging from both ends leaves them, as ATen's), then the transformed ones as listed.
static void result_strides(int rank, const int64_t *in_stride, const int64_t *shape, const int *dims, int count, int64_t *stride) {
    int order[NBX_MAX_RANK], first = 0, last = rank;
    uint64_t transformed = 0;
    for (int i = 0; i < count; i++) transformed |= (uint64_t)1 << dims[i];
    for (int d = 0; d < rank; d++) order[d] = d;
    for (;; first++) {
        while (first < last && !(transformed >> order[first] & 1)) first++;
        if (first == last) break;
        for (last--; first < last && (transformed >> order[last] & 1);) last--;
        if (first == last) break;
        const int d = order[first];
        order[first] = order[last], order[last] = d;
    }
    sort_by_stride(order, first, in_stride);
    for (int i = 0; i < count; i++) order[first + i] = dims[i];
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[order[i]] = step;
        step *= shape[order[i]] ? shape[order[i]] : 1;
    }
}

// A side of a pass: strides in elements, and reals per element.
typedef struct side { const int64_t *stride; int reals; fft_buffer buffer; } side;

// Appends a pass along `dim` of length n; the other dims have `shape`.
static nbx_status add_pass(nbx_op_call *c, fft_kind kind, int rank, const int64_t *shape, int dim, int64_t n, side in, side out, bool inverse) {
    fft_lines lines = {.count = 1, .inverse = inverse, .scale = 1, .in_step = in.stride[dim] * in.reals, .out_step = out.stride[dim] * out.reals};
    int order[NBX_MAX_RANK], others = 0;
    for (int d = 0; d < rank; d++)
        if (d != dim && shape[d] != 1) order[others++] = d;
    sort_by_stride(order, others, out.stride);
    for (int i = others - 1; i >= 0; i--) {
        const int d = order[i];
        lines.shape[lines.rank] = shape[d], lines.count *= shape[d];
        lines.in_stride[lines.rank] = in.stride[d] * in.reals, lines.out_stride[lines.rank++] = out.stride[d] * out.reals;
    }
    const fft_plan *plan = nbx_fft_plan(c->ctx, n, kind, is_double(arg_tensor(c, 0)), lines.count);
    fft_job *job = plan ? nbx_realloc(c->state, c->state_bytes + plan->bytes) : NULL;
    if (!job) return plan ? nbx_fail_memory(c->ctx, c->state_bytes + plan->bytes, "tables of a Fourier transform") : c->ctx->status;
    c->state = job;
    job->pass[job->passes++] = (fft_pass){lines, (int64_t)c->state_bytes, (int32_t)in.buffer, (int32_t)out.buffer};
    memcpy((char *)job + c->state_bytes, plan, plan->bytes);
    c->state_bytes += plan->bytes;
    fft_device device = {0};
    if (c->device.type != NBX_CPU && !fft_device_plan(&device, n, lines.count, is_double(arg_tensor(c, 0))))
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "lines of %lld points on CUDA", (long long)n);
    const size_t scratch = (size_t)job->work_at + (c->device.type == NBX_CPU ? nbx_fft_scratch(plan, c->ctx->threads) : device.bytes);
    if (scratch > c->scratch_bytes) c->scratch_bytes = scratch;
    return NBX_OK;
}

static fft_job *new_job(nbx_op_call *c, int passes) {
    return nbx_call_state(c, (sizeof(fft_job) + (size_t)passes * sizeof(fft_pass) + 63) & ~(size_t)63);
}

// The factor of the whole transform goes to the last pass.
static void scale_last(nbx_op_call *c, int64_t normalization, double points) {
    fft_job *job = c->state;
    if (!job->passes || normalization == 0) return;
    job->pass[job->passes - 1].lines.scale = normalization == 1 ? 1 / sqrt(points) : 1 / points;
}

static nbx_status check(nbx_op_call *c, bool complex, int *dims, int *count) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    if (complex ? d != NBX_COMPLEX64 && d != NBX_COMPLEX128 : d != NBX_FLOAT32 && d != NBX_FLOAT64)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    const int64_t normalization = arg_int(c, 2);
    if (normalization < 0 || normalization > 2)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "normalization is 0, 1 or 2, found %lld", (long long)normalization);
    const nbx_status status = read_dims(c, x->rank, dims, count);
    if (status) return status;
    if (x->numel == 0 && *count) return nbx_call_fail(c, NBX_ERROR_SHAPE, "not defined for tensors without elements");
    return NBX_OK;
}

static nbx_dtype real_of(const nbx_tensor *x) { return is_double(x) ? NBX_FLOAT64 : NBX_FLOAT32; }
static nbx_dtype complex_of(const nbx_tensor *x) { return is_double(x) ? NBX_COMPLEX128 : NBX_COMPLEX64; }

static nbx_status infer_r2c(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int dims[NBX_MAX_RANK], count;
    int64_t shape[NBX_MAX_RANK], half[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    nbx_status status = check(c, false, dims, &count);
    if (status) return status;
    if (!count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "needs at least one dim");
    const int last = dims[count - 1];
    double points = 1;
    for (int i = 0; i < count; i++) points *= (double)x->shape[dims[i]];
    memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->rank);
    memcpy(half, x->shape, sizeof(int64_t) * (size_t)x->rank);
    half[last] = x->shape[last] / 2 + 1;
    if (arg_bool(c, 3)) shape[last] = half[last];
    sort_by_stride(dims, count - 1, x->stride);
    result_strides(x->rank, x->stride, shape, dims, count, stride);
    if (!out_new(c, 0, complex_of(x), x->rank, shape, stride)) return c->ctx->status;
    fft_job *job = new_job(c, count);
    if (!job) return c->ctx->status;
    job->mirror = !arg_bool(c, 3), job->last = last;
    for (int i = 0; i < count; i++) job->dims |= (uint64_t)1 << dims[i];
    const side in = {x->stride, 1, FFT_INPUT}, out = {stride, 2, FFT_OUTPUT};
    status = add_pass(c, FFT_R2C, x->rank, half, last, x->shape[last], in, out, false);
    for (int i = count - 2; i >= 0 && !status; i--) status = add_pass(c, FFT_C2C, x->rank, half, dims[i], half[dims[i]], out, out, false);
    if (!status) scale_last(c, arg_int(c, 2), points);
    return status;
}

static nbx_status infer_c2c(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int dims[NBX_MAX_RANK], count;
    int64_t stride[NBX_MAX_RANK];
    nbx_status status = check(c, true, dims, &count);
    if (status) return status;
    double points = 1;
    for (int i = 0; i < count; i++) points *= (double)x->shape[dims[i]];
    sort_by_stride(dims, count, x->stride);
    result_strides(x->rank, x->stride, x->shape, dims, count, stride);
    if (!out_new(c, 0, complex_of(x), x->rank, x->shape, stride) || !new_job(c, count)) return c->ctx->status;
    const side in = {x->stride, 2, FFT_INPUT}, out = {stride, 2, FFT_OUTPUT};
    for (int i = count - 1; i >= 0 && !status; i--)
        status = add_pass(c, FFT_C2C, x->rank, x->shape, dims[i], x->shape[dims[i]], i == count - 1 ? in : out, out, !arg_bool(c, 3));
    if (!status) scale_last(c, arg_int(c, 2), points);
    return status;
}

// Several dims: all but the last are transformed into scratch first.
static nbx_status infer_c2r(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int dims[NBX_MAX_RANK], count;
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK], between[NBX_MAX_RANK];
    nbx_status status = check(c, true, dims, &count);
    if (status) return status;
    if (!count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "needs at least one dim");
    const int last = dims[count - 1];
    const int64_t n = arg_int(c, 3);
    if (n < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "last_dim_size must be positive, found %lld", (long long)n);
    if (x->shape[last] != n / 2 + 1 && x->shape[last] != n)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "last_dim_size %lld needs %lld or as many entries in dim %d, found %lld", (long long)n,
                             (long long)(n / 2 + 1), last, (long long)x->shape[last]);
    double points = (double)n;
    for (int i = 0; i < count - 1; i++) points *= (double)x->shape[dims[i]];
    memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->rank);
    shape[last] = n;
    side in = {x->stride, 2, FFT_INPUT};
    const side middle = {between, 2, FFT_SCRATCH};
    fft_job *job = new_job(c, count);
    if (!job) return c->ctx->status;
    if (count > 1) {
        sort_by_stride(dims, count - 1, x->stride);
        result_strides(x->rank, x->stride, x->shape, dims, count - 1, between);
        job->work_at = (int64_t)(((size_t)x->numel * nbx_dtype_size((nbx_dtype)x->dtype) + 63) & ~(size_t)63);
        for (int i = count - 2; i >= 0 && !status; i--, in = middle)
            status = add_pass(c, FFT_C2C, x->rank, x->shape, dims[i], x->shape[dims[i]], in, middle, true);
    }
    result_strides(x->rank, in.stride, shape, &last, 1, stride);
    if (!out_new(c, 0, real_of(x), x->rank, shape, stride)) return c->ctx->status;
    if (!status) status = add_pass(c, FFT_C2R, x->rank, shape, last, n, in, (side){stride, 1, FFT_OUTPUT}, false);
    if (!status) scale_last(c, arg_int(c, 2), points);
    return status;
}

static nbx_status prims_r2c(nbx_op_call *c) { return NBX_FORWARD(c, "aten::_fft_r2c", c->args[0], c->args[1], I(0), c->args[2]); }

// n log2(n) for each transformed dim, five operations each for complex numbers.
static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const fft_job *job = c->state;
    for (int i = 0; i < job->passes; i++) {
        const fft_plan *p = (const fft_plan *)(const void *)((const char *)job + job->pass[i].plan);
        cost->flops += (p->kind == FFT_C2C ? 5 : 2.5) * (double)job->pass[i].lines.count * (double)p->n * log2((double)p->n + 1);
    }
    cost->bytes_read = (double)x->numel * (double)nbx_dtype_size((nbx_dtype)x->dtype);
    cost->bytes_written = (double)y->numel * (double)nbx_dtype_size((nbx_dtype)y->dtype);
    cost->scratch_bytes = c->scratch_bytes;
}

#define FFT(NAME, INFER) {.name = NAME, .infer = INFER, .cost = cost, .cpu = NBX_CPU_KERNEL(fft_cpu), .flags = NBX_OP_PACKED_OUT | NBX_OP_ANY_OUT}

const nbx_op nbx_ops_fft[] = {
    FFT("aten::_fft_c2c", infer_c2c),
    FFT("aten::_fft_r2c", infer_r2c),
    FFT("aten::_fft_c2r", infer_c2r),
    {.name = "prims::fft_r2c", .composite = prims_r2c},
    NBX_OPS_END,
};
