// unique on CUDA: elements, or slices along a dim, sorted (or as they lie), then every one tells whether it begins a run; runs
// are numbered by a running sum, whose last value is the one number that is read back. Elements are compared as numbers: 0
// equals -0, and no NaN equals another.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

typedef struct runs_call {
    flat self;             // elements, slice after slice
    int64_t count, slice;  // slices; elements of one
    const int64_t *order;  // NULL: as they lie
    int64_t *runs;         // of each place in the order: first whether it begins a run after the first, then its number
    char *values;          // of elements
    int64_t *inverse, *starts, *counts, *firsts;  // NULL: not wanted; firsts: the slice that begins each run
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
    if (i >= p.count) return;
    bool equal = i > 0;
    const int64_t before = equal ? element_of(p, i - 1) * p.slice : 0, here = element_of(p, i) * p.slice;
    for (int64_t k = 0; k < p.slice && equal; k++) equal = same(p.self.dtype, flat_at(p.self, before + k), flat_at(p.self, here + k));
    p.runs[i] = i > 0 && !equal;
}

static __global__ void __launch_bounds__(FLAT_THREADS) write_runs(const __grid_constant__ runs_call p) {
    const int64_t i = flat_item();
    if (i >= p.count) return;
    const int64_t run = p.runs[i], from = element_of(p, i);
    if (p.inverse) p.inverse[from] = run;
    if (i > 0 && p.runs[i - 1] == run) return;
    if (p.values) copy_element(p.self.width, p.values + run * p.self.width, flat_at(p.self, from));
    if (p.firsts) p.firsts[run] = from;
    if (p.starts) p.starts[run] = i;
}

static __global__ void __launch_bounds__(FLAT_THREADS) count_runs(const __grid_constant__ runs_call p) {
    const int64_t run = flat_item();
    if (run < p.found) p.counts[run] = (run + 1 < p.found ? p.starts[run + 1] : p.count) - p.starts[run];
}

// Marks and numbers the runs.
static nbx_status number_runs(nbx_op_call *c, runs_call *p) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *marks = nbx_new(ctx, c->device, NBX_INT64, 1, &p->count);
    if (!marks) return ctx->status;
    p->runs = (int64_t *)nbx_data(marks);
    mark_runs<<<flat_blocks(p->count), FLAT_THREADS, 0, stream_of(c)>>>(*p);
    const nbx_value args[] = {nbx_of_tensor(marks), nbx_of_int(0)};
    const nbx_tensor *numbers = nbx_do(ctx, "aten::cumsum", 2, args);
    if (!numbers) return ctx->status;
    p->runs = (int64_t *)nbx_data(numbers);
    const nbx_value last[] = {nbx_of_tensor(numbers), nbx_of_int(0), nbx_of_int(-1)};
    const nbx_tensor *most = nbx_do(ctx, "aten::select.int", 3, last);
    if (!most || nbx_tensor_read(ctx, most, &p->found) != NBX_OK) return ctx->status;
    p->found++;
    return NBX_OK;
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
    p.count = n, p.slice = 1;
    if (n > 0) status = number_runs(c, &p);
    if (status != NBX_OK) return status;
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

// ------------------------------------------------------------------------------------------------------- along one dim
// Merges neighbouring runs of `width` sorted slices: a slice's place is its own in its run, and how many of the other run come
// before it. Equal slices keep their order.
static __device__ bool less_slice(const runs_call &p, int64_t a, int64_t b) {
    for (int64_t k = 0; k < p.slice; k++) {
        const char *x = flat_at(p.self, a * p.slice + k), *y = flat_at(p.self, b * p.slice + k);
        switch (p.self.dtype) {
        case NBX_FLOAT64:
        case NBX_FLOAT32:
        case NBX_FLOAT16:
        case NBX_BFLOAT16:
        case NBX_FLOAT8_E4M3FN:
        case NBX_FLOAT8_E5M2: {
            const double i = ewc_load<double>(p.self.dtype, x), j = ewc_load<double>(p.self.dtype, y);
            if (i < j || i > j) return i < j;
            break;
        }
        default: {
            const int64_t i = ewc_load<int64_t>(p.self.dtype, x), j = ewc_load<int64_t>(p.self.dtype, y);
            if (i != j) return p.self.dtype == NBX_UINT64 ? (uint64_t)i < (uint64_t)j : i < j;
        }
        }
    }
    return false;
}

static __global__ void __launch_bounds__(FLAT_THREADS) merge_runs(const __grid_constant__ runs_call p, const int64_t *from, int64_t *to, int64_t width) {
    const int64_t i = flat_item();
    if (i >= p.count) return;
    const int64_t pair = i / (2 * width) * 2 * width, middle = pair + width < p.count ? pair + width : p.count;
    const int64_t end = middle + width < p.count ? middle + width : p.count;
    const bool first = i < middle;
    int64_t low = first ? middle : pair, high = first ? end : middle;
    const int64_t begin = low, mine = from ? from[i] : i;
    while (low < high) {
        const int64_t at = low + (high - low) / 2, other = from ? from[at] : at;
        if (first ? less_slice(p, other, mine) : !less_slice(p, mine, other)) low = at + 1;
        else high = at;
    }
    to[(first ? i : pair + i - middle) + low - begin] = mine;
}

static nbx_status unique_along(nbx_op_call *c, int64_t dim, bool sorted) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *self = arg_tensor(c, 0);
    int d, zeros = 0;
    nbx_status status = nbx_call_dim(c, dim, self->rank, &d);
    if (status != NBX_OK) return status;
    const nbx_value grown[] = {nbx_of_tensor(self), nbx_of_int(0)};
    if (self->rank == 0) self = nbx_do(ctx, "aten::unsqueeze", 2, grown);
    if (!self) return ctx->status;
    for (int i = 0; i < self->rank; i++) zeros += self->shape[i] == 0;
    if (zeros > (self->shape[d] == 0)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dims of size 0 other than dim %d", d);
    if (sorted && nbx_dtype_is_complex((nbx_dtype)self->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no order", nbx_dtype_name((nbx_dtype)self->dtype));
    const nbx_value to_front[] = {nbx_of_tensor(self), nbx_of_int(d), nbx_of_int(0)};
    const nbx_value moved = nbx_of_tensor(nbx_do(ctx, "aten::movedim.int", 3, to_front));
    const nbx_tensor *front = moved.as.tensor ? nbx_do(ctx, "aten::contiguous", 1, &moved) : NULL;
    if (!front) return ctx->status;
    runs_call p = {};
    p.count = front->shape[0], p.slice = p.count ? front->numel / p.count : 0;
    status = flat_of(c, front, &p.self);
    const nbx_tensor *order[2], *inverse = nbx_new(ctx, c->device, NBX_INT64, 1, &p.count), *starts = nbx_new(ctx, c->device, NBX_INT64, 1, &p.count);
    for (int i = 0; i < 2; i++) order[i] = nbx_new(ctx, c->device, NBX_INT64, 1, &p.count);
    if (!order[0] || !order[1] || !inverse || !starts) return ctx->status;
    c->stream = ctx->stream;
    int now = 0;
    for (int64_t width = 1; sorted && p.count > 0 && (width < p.count || !p.order); width *= 2, now = !now) {
        merge_runs<<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p, p.order, (int64_t *)nbx_data(order[now]), width);
        p.order = (const int64_t *)nbx_data(order[now]);
    }
    if (p.count > 0 && status == NBX_OK) status = number_runs(c, &p);
    const nbx_tensor *firsts = nbx_new(ctx, c->device, NBX_INT64, 1, &p.found), *counts = nbx_new(ctx, c->device, NBX_INT64, 1, &p.found);
    if (status != NBX_OK || !firsts || !counts) return ctx->status;
    if (p.count > 0) {
        p.inverse = (int64_t *)nbx_data(inverse), p.starts = (int64_t *)nbx_data(starts), p.firsts = (int64_t *)nbx_data(firsts), p.counts = (int64_t *)nbx_data(counts);
        write_runs<<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
        count_runs<<<flat_blocks(p.found), FLAT_THREADS, 0, stream_of(c)>>>(p);
        status = launch_status(c);
    }
    const nbx_value pick[] = {nbx_of_tensor(front), nbx_of_int(0), nbx_of_tensor(firsts)};
    const nbx_tensor *picked = status == NBX_OK ? nbx_do(ctx, "aten::index_select", 3, pick) : NULL;
    const nbx_value back[] = {nbx_of_tensor(picked), nbx_of_int(0), nbx_of_int(d)};
    if (!picked || out_tensor(c, 0, nbx_do(ctx, "aten::movedim.int", 3, back)) != NBX_OK) return ctx->status;
    status = out_tensor(c, 1, inverse);
    return status == NBX_OK && c->schema->result_count > 2 ? out_tensor(c, 2, counts) : status;
}

static nbx_status unique_dim_cuda(nbx_op_call *c) { return unique_along(c, arg_int(c, 1), true); }
static nbx_status unique_dim_consecutive_cuda(nbx_op_call *c) { return unique_along(c, arg_int(c, 1), false); }

// unique_consecutive(self, return_inverse, return_counts, dim): the only dim of a vector is as good as none.
static nbx_status unique_consecutive_cuda(nbx_op_call *c) {
    const bool vector = arg_tensor(c, 0)->rank == 1 && arg_int_or(c, 3, 0) == 0;
    if (arg_is_none(c, 3) || vector) return unique_flat(c, false, arg_bool(c, 1), arg_bool(c, 2));
    return unique_along(c, arg_int(c, 3), false);
}

NBX_CUDA_KERNEL("aten::_unique", unique_cuda)
NBX_CUDA_KERNEL("aten::_unique2", unique2_cuda)
NBX_CUDA_KERNEL("aten::unique_dim", unique_dim_cuda)
NBX_CUDA_KERNEL("aten::unique_dim_consecutive", unique_dim_consecutive_cuda)
NBX_CUDA_KERNEL("aten::unique_consecutive", unique_consecutive_cuda)
