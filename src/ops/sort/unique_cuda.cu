// unique of all elements on CUDA: sorted (or as they lie), then every element tells whether it begins a run; runs are numbered
// by a running sum, whose last value is the one number that is read back. Elements are compared as numbers: 0 equals -0, and
// no NaN equals another. unique along a dim runs on the host.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

typedef struct runs_call {
    flat self;
    const int64_t *order;  // NULL: as they lie
    int64_t *runs;         // of each place in the order: first whether it begins a run after the first, then its number
    char *values;
    int64_t *inverse, *starts, *counts;  // NULL: not wanted
    int64_t found;
} runs_call;

static __device__ __forceinline__ bool same(int dtype, const char *a, const char *b) {
    switch (dtype) {
    case NBX_FLOAT64: return *(const double *)a == *(const double *)b;
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16: return ewc_load<float>(dtype, a) == ewc_load<float>(dtype, b);
    case NBX_COMPLEX64:
    case NBX_COMPLEX128: return ewc_load<cdouble>(dtype, a) == ewc_load<cdouble>(dtype, b);
    case NBX_FLOAT8_E4M3FN:
    case NBX_FLOAT8_E5M2: return ewc_load<float>(dtype, a) == ewc_load<float>(dtype, b);
    default: return ewc_load<int64_t>(dtype, a) == ewc_load<int64_t>(dtype, b);
    }
}

static __device__ __forceinline__ int64_t element_of(const runs_call &p, int64_t i) { return p.order ? p.order[i] : i; }

static __global__ void __launch_bounds__(FLAT_THREADS) mark_runs(const __grid_constant__ runs_call p) {
    const int64_t i = flat_item();
    if (i < p.self.count) p.runs[i] = i > 0 && !same(p.self.dtype, flat_at(p.self, element_of(p, i - 1)), flat_at(p.self, element_of(p, i)));
}

static __global__ void __launch_bounds__(FLAT_THREADS) write_runs(const __grid_constant__ runs_call p) {
    const int64_t i = flat_item();
    if (i >= p.self.count) return;
    const int64_t run = p.runs[i], from = element_of(p, i);
    if (p.inverse) p.inverse[from] = run;
    if (i > 0 && p.runs[i - 1] == run) return;
    copy_element(p.self.width, p.values + run * p.self.width, flat_at(p.self, from));
    if (p.starts) p.starts[run] = i;
}

static __global__ void __launch_bounds__(FLAT_THREADS) count_runs(const __grid_constant__ runs_call p) {
    const int64_t run = flat_item();
    if (run < p.found) p.counts[run] = (run + 1 < p.found ? p.starts[run + 1] : p.self.count) - p.starts[run];
}

static nbx_status unique_flat(nbx_op_call *c, bool sorted, bool inverse, bool counts) {
    const nbx_tensor *self = arg_tensor(c, 0), *order = NULL;
    nbx_context *ctx = c->ctx;
    const int64_t n = self->numel, nothing = 0, all = -1;
    runs_call p = {};
    nbx_status status = flat_of(c, self, &p.self);
    if (status != NBX_OK) return status;
    if (sorted && n > 0) {
        nbx_value both[2];
        const nbx_value shape[] = {nbx_of_tensor(self), nbx_of_ints(&all, 1)};
        const nbx_tensor *list = nbx_do(ctx, "aten::reshape", 2, shape);
        if (!list) return ctx->status;
        const nbx_value args[] = {nbx_of_tensor(list), nbx_of_bool(true), nbx_of_int(0), nbx_of_bool(false)};
        if (nbx_do_many(ctx, "aten::sort.stable", 4, args, both, 2) != NBX_OK) return ctx->status;
        order = both[1].as.tensor;
        p.order = (const int64_t *)nbx_data(order);
    }
    c->stream = ctx->stream;
    if (n > 0) {
        const nbx_tensor *marks = nbx_new(ctx, c->device, NBX_INT64, 1, &n);
        if (!marks) return ctx->status;
        p.runs = (int64_t *)nbx_data(marks);
        mark_runs<<<flat_blocks(n), FLAT_THREADS, 0, stream_of(c)>>>(p);
        const nbx_value args[] = {nbx_of_tensor(marks), nbx_of_int(0)};
        const nbx_tensor *numbers = nbx_do(ctx, "aten::cumsum", 2, args);
        if (!numbers) return ctx->status;
        p.runs = (int64_t *)nbx_data(numbers);
        const nbx_value last[] = {nbx_of_tensor(numbers), nbx_of_int(0), nbx_of_int(-1)};
        const nbx_tensor *most = nbx_do(ctx, "aten::select.int", 3, last);
        if (!most || nbx_tensor_read(ctx, most, &p.found) != NBX_OK) return ctx->status;
        p.found++;
    }
    const nbx_tensor *values = nbx_new(ctx, c->device, (nbx_dtype)self->dtype, 1, &p.found);
    const nbx_tensor *places = inverse ? nbx_new(ctx, c->device, NBX_INT64, self->rank, self->shape) : nbx_new(ctx, c->device, NBX_INT64, 1, &nothing);
    const nbx_tensor *sizes = nbx_new(ctx, c->device, NBX_INT64, 1, counts ? &p.found : &nothing);
    const nbx_tensor *starts = nbx_new(ctx, c->device, NBX_INT64, 1, counts ? &p.found : &nothing);
    if (!values || !places || !sizes || !starts) return ctx->status;
    p.values = (char *)nbx_data(values);
    p.inverse = inverse ? (int64_t *)nbx_data(places) : NULL;
    if (counts) p.starts = (int64_t *)nbx_data(starts), p.counts = (int64_t *)nbx_data(sizes);
    if (n > 0) write_runs<<<flat_blocks(n), FLAT_THREADS, 0, stream_of(c)>>>(p);
    if (n > 0 && counts) count_runs<<<flat_blocks(p.found), FLAT_THREADS, 0, stream_of(c)>>>(p);
    status = launch_status(c);
    if (status == NBX_OK) status = out_tensor(c, 0, values);
    if (status == NBX_OK) status = out_tensor(c, 1, places);
    return status == NBX_OK && c->schema->result_count > 2 ? out_tensor(c, 2, sizes) : status;
}

static nbx_status unique_cuda(nbx_op_call *c) { return unique_flat(c, true, arg_bool(c, 2), false); }
static nbx_status unique2_cuda(nbx_op_call *c) { return unique_flat(c, true, arg_bool(c, 2), arg_bool(c, 3)); }

// unique_consecutive(self, return_inverse, return_counts, dim): the only dim of a vector is as good as none.
static nbx_status unique_consecutive_cuda(nbx_op_call *c) {
    const bool vector = arg_tensor(c, 0)->rank == 1 && arg_int_or(c, 3, 0) == 0;
    if (arg_is_none(c, 3) || vector) return unique_flat(c, false, arg_bool(c, 1), arg_bool(c, 2));
    const nbx_value args[] = {c->args[0], c->args[3], c->args[1], c->args[2]};
    return nbx_forward(c, "aten::unique_dim_consecutive", 4, args);
}

NBX_CUDA_KERNEL("aten::_unique", unique_cuda)
NBX_CUDA_KERNEL("aten::_unique2", unique2_cuda)
NBX_CUDA_KERNEL("aten::unique_consecutive", unique_consecutive_cuda)
