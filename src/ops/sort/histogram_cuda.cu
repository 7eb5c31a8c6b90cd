// histc, histogram and bincount on CUDA. Counts are integers, added by atomics in any order; weights are summed by a block for
// each bin, which looks at all elements, so that results are the same from run to run. A range that is not given is found on
// the device; errors of the data are faults.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

enum { BLOCK = 256, SHARED_BINS = 4096 };

typedef struct histogram_call {
    flat self, weight, edges;       // weight.data NULL: none
    char *hist;                     // or the counts of bincount
    int64_t hist_step, bins;
    int dtype;                      // of hist
    double *range;                  // low, high, and what find_range keeps: keys of both
    unsigned long long *counts;     // [bins]
    int64_t *bin;                   // of each element, -1: none; where there are weights
    bool find, density;
    double low, high, widen;
    nbx_fault_slot *fault;
    int op;
} histogram_call;

// --------------------------------------------------------------------------------------------------------------- range
// Doubles as integers in their order; NaN is above and below all.
static __device__ __forceinline__ unsigned long long key_of(double x) {
    const unsigned long long bits = (unsigned long long)__double_as_longlong(x);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}
static __device__ __forceinline__ double of_key(unsigned long long key) {
    return __longlong_as_double((long long)(key >> 63 ? key ^ 1ull << 63 : ~key));
}

static __global__ void __launch_bounds__(BLOCK) begin_range(const __grid_constant__ histogram_call p) {
    unsigned long long *keys = (unsigned long long *)(p.range + 2);
    keys[0] = ~0ull, keys[1] = 0;
}

static __global__ void __launch_bounds__(BLOCK) find_range(const __grid_constant__ histogram_call p) {
    __shared__ unsigned long long lows[BLOCK / 32], highs[BLOCK / 32];
    unsigned long long low = ~0ull, high = 0, *keys = (unsigned long long *)(p.range + 2);
    for (int64_t i = flat_item(); i < p.self.count; i += (int64_t)gridDim.x * BLOCK) {
        const double x = ewc_load<double>(p.self.dtype, flat_at(p.self, i));
        const unsigned long long key = key_of(x);
        low = x != x ? 0 : key < low ? key : low;
        high = x != x ? ~0ull : key > high ? key : high;
    }
    for (int step = 16; step > 0; step /= 2) {
        const unsigned long long a = __shfl_xor_sync(~0u, low, step), b = __shfl_xor_sync(~0u, high, step);
        low = a < low ? a : low, high = b > high ? b : high;
    }
    if (threadIdx.x % 32 == 0) lows[threadIdx.x / 32] = low, highs[threadIdx.x / 32] = high;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < BLOCK / 32; w++) low = lows[w] < low ? lows[w] : low, high = highs[w] > high ? highs[w] : high;
    atomicMin(&keys[0], low);
    atomicMax(&keys[1], high);
}

// Widened in the dtype of self where it is one value.
static __global__ void settle_range(const __grid_constant__ histogram_call p) {
    const unsigned long long *keys = (const unsigned long long *)(p.range + 2);
    double low = p.low, high = p.high;
    if (p.find) low = of_key(keys[0]), high = of_key(keys[1]);
    if (!isfinite(low) || !isfinite(high)) raise_fault(p.fault, p.op, NBX_FAULT_ASSERT, 0, 0);
    if (low == high) low = ewc_through<double>(p.dtype, low - p.widen), high = ewc_through<double>(p.dtype, high + p.widen);
    p.range[0] = low, p.range[1] = high;
}

static void launch_range(const histogram_call &p, cudaStream_t stream) {
    if (p.find) {
        const int64_t wanted = (p.self.count + BLOCK * 8 - 1) / (BLOCK * 8);
        begin_range<<<1, 1, 0, stream>>>(p);
        find_range<<<(unsigned)(wanted < 1024 ? wanted : 1024), BLOCK, 0, stream>>>(p);
    }
    settle_range<<<1, 1, 0, stream>>>(p);
}

// -------------------------------------------------------------------------------------------------------------- counting
// Few bins are counted in shared memory first. `of` gives the bin of an element, -1: none.
template <typename F> static __device__ __forceinline__ void count_all(const histogram_call &p, F of) {
    __shared__ unsigned own[SHARED_BINS];
    const bool shared = p.bins <= SHARED_BINS;
    if (shared)
        for (int i = (int)threadIdx.x; i < p.bins; i += BLOCK) own[i] = 0;
    __syncthreads();
    for (int64_t i = flat_item(); i < p.self.count; i += (int64_t)gridDim.x * BLOCK) {
        const int64_t bin = of(i);
        if (p.bin) p.bin[i] = bin;
        else if (bin >= 0 && shared) atomicAdd(&own[bin], 1u);
        else if (bin >= 0) atomicAdd(&p.counts[bin], 1ull);
    }
    __syncthreads();
    if (shared && !p.bin)
        for (int i = (int)threadIdx.x; i < p.bins; i += BLOCK)
            if (own[i]) atomicAdd(&p.counts[i], (unsigned long long)own[i]);
}

static unsigned counting_blocks(int64_t count) {
    const int64_t wanted = (count + BLOCK * 16 - 1) / (BLOCK * 16);
    return (unsigned)(wanted < 1 ? 1 : wanted < 2048 ? wanted : 2048);
}

// A count as a sum of ones in the dtype has it: it ends where one more is lost.
static __device__ __forceinline__ double summed_ones(int dtype, unsigned long long n) {
    const unsigned long long most = dtype == NBX_BFLOAT16 ? 1ull << 8 : dtype == NBX_FLOAT16 ? 1ull << 11 : dtype == NBX_FLOAT32 ? 1ull << 24 : 1ull << 53;
    return (double)(n < most ? n : most);
}

static __global__ void __launch_bounds__(BLOCK) write_counts(const __grid_constant__ histogram_call p) {
    const int64_t i = flat_item();
    if (i < p.bins) ewc_store<double>(p.dtype, p.hist + i * p.hist_step, summed_ones(p.dtype, p.counts[i]));
}

static __global__ void __launch_bounds__(BLOCK) sum_weights(const __grid_constant__ histogram_call p) {
    __shared__ double room[BLOCK];
    const int64_t bin = blockIdx.x;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < p.self.count; i += BLOCK)
        if (p.bin[i] == bin) sum += ewc_load<double>(p.weight.dtype, flat_at(p.weight, i));
    room[threadIdx.x] = sum;
    __syncthreads();
    for (int step = BLOCK / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step) room[threadIdx.x] += room[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) ewc_store<double>(p.dtype, p.hist + bin * p.hist_step, room[0]);
}

// ----------------------------------------------------------------------------------------------------------------- histc
static __global__ void __launch_bounds__(BLOCK) count_evenly(const __grid_constant__ histogram_call p) {
    const int d = p.dtype;
    const double low = p.range[0], high = p.range[1];
    const double extent = ewc_through<double>(d, high - low), bins = ewc_through<double>(d, (double)p.bins);
    count_all(p, [&](int64_t i) -> int64_t {
        const double x = ewc_load<double>(d, flat_at(p.self, i));
        if (!(x >= low && x <= high)) return -1;
        const double place = ewc_through<double>(d, ewc_through<double>(d, ewc_through<double>(d, x - low) * bins) / extent);  // in self's dtype
        return place < (double)p.bins ? (int64_t)place : p.bins - 1;  // not a number: the last one
    });
}

static nbx_status begin_call(nbx_op_call *c, histogram_call *p) {
    const nbx_tensor *hist = out_get(c, 0);
    p->hist = (char *)nbx_data(hist), p->hist_step = hist->stride[0] * (int64_t)nbx_dtype_size((nbx_dtype)hist->dtype), p->bins = hist->shape[0], p->dtype = hist->dtype;
    p->range = (double *)c->scratch, p->counts = (unsigned long long *)(p->range + 4);
    p->fault = nbx_cuda_fault_slot(c, &p->op);
    const nbx_status status = flat_of(c, arg_tensor(c, 0), &p->self);
    return status == NBX_OK ? nbx_cuda_set_bytes(c, p->counts, 0, (size_t)p->bins * 8) : status;
}

static double in_half_or_float(nbx_dtype d, double x) {
    if (d == NBX_FLOAT16) return (double)__half2float(__float2half((float)x));
    if (d == NBX_BFLOAT16) return (double)__bfloat162float(__float2bfloat16((float)x));
    return d == NBX_FLOAT32 ? (double)(float)x : x;
}

static nbx_status histc_cuda(nbx_op_call *c) {
    histogram_call p = {};
    const nbx_status status = begin_call(c, &p);
    if (status != NBX_OK) return status;
    p.low = in_half_or_float((nbx_dtype)p.dtype, nbx_scalar_to_double(&c->args[2])), p.high = in_half_or_float((nbx_dtype)p.dtype, nbx_scalar_to_double(&c->args[3]));
    p.find = p.low == p.high && p.self.count > 0, p.widen = 1;
    launch_range(p, stream_of(c));
    count_evenly<<<counting_blocks(p.self.count), BLOCK, 0, stream_of(c)>>>(p);
    write_counts<<<flat_blocks(p.bins), BLOCK, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::histc", histc_cuda)

// ------------------------------------------------------------------------------------------------------------- histogram
static __device__ __forceinline__ double edge(const histogram_call &p, int64_t i) { return ewc_load<double>(p.dtype, flat_at(p.edges, i)); }

static __global__ void __launch_bounds__(BLOCK) write_edges(const __grid_constant__ histogram_call p) {
    const int64_t i = flat_item(), count = p.bins + 1;
    if (i >= count) return;
    const double low = p.range[0], high = p.range[1];
    double x;
    if (p.dtype == NBX_FLOAT64) {
        const double by = (high - low) / (double)(count - 1);
        x = i < count / 2 ? __dadd_rn(low, __dmul_rn(by, (double)i)) : __dadd_rn(high, -__dmul_rn(by, (double)(count - 1 - i)));
    } else {
        const float by = ((float)high - (float)low) / (float)(count - 1);
        x = i < count / 2 ? __fadd_rn((float)low, __fmul_rn(by, (float)i)) : __fadd_rn((float)high, -__fmul_rn(by, (float)(count - 1 - i)));
    }
    ewc_store<double>(p.dtype, flat_at(p.edges, i), x);
}

static __global__ void __launch_bounds__(BLOCK) check_edges(const __grid_constant__ histogram_call p) {
    const int64_t i = flat_item();
    if (i < p.bins && edge(p, i + 1) < edge(p, i)) raise_fault(p.fault, p.op, NBX_FAULT_ASSERT, i, 0);
}

static __global__ void __launch_bounds__(BLOCK) count_between(const __grid_constant__ histogram_call p) {
    const double first = edge(p, 0), last = edge(p, p.bins);
    count_all(p, [&](int64_t i) -> int64_t {
        const double x = ewc_load<double>(p.dtype, flat_at(p.self, i));
        if (!(x >= first && x <= last)) return -1;
        int64_t low = 0, high = p.bins + 1;
        while (low < high) {  // first edge above x
            const int64_t middle = low + (high - low) / 2;
            if (edge(p, middle) <= x) low = middle + 1;
            else high = middle;
        }
        return low - 1 < p.bins ? low - 1 : p.bins - 1;
    });
}

static __global__ void __launch_bounds__(BLOCK) make_density(const __grid_constant__ histogram_call p) {
    __shared__ double total;
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int64_t b = 0; b < p.bins; b++) sum += ewc_load<double>(p.dtype, p.hist + b * p.hist_step);
        total = sum;
    }
    __syncthreads();
    for (int64_t b = threadIdx.x; b < p.bins; b += BLOCK)
        ewc_store<double>(p.dtype, p.hist + b * p.hist_step, ewc_load<double>(p.dtype, p.hist + b * p.hist_step) / total / (edge(p, b + 1) - edge(p, b)));
}

static nbx_status histogram_cuda(nbx_op_call *c) {
    const nbx_tensor *given = arg_tensor(c, 1), *weight = arg_tensor(c, given ? 2 : 3);
    histogram_call p = {};
    nbx_status status = begin_call(c, &p);
    if (status == NBX_OK) status = flat_of(c, out_get(c, 1), &p.edges);
    if (status == NBX_OK && weight) status = flat_of(c, weight, &p.weight);
    if (status == NBX_OK && given) status = nbx_cuda_copy(c, out_get(c, 1), given);
    if (status != NBX_OK) return status;
    if (weight) p.bin = (int64_t *)(p.counts + p.bins);
    cudaStream_t stream = stream_of(c);
    if (given) {
        if (p.bins) check_edges<<<flat_blocks(p.bins), BLOCK, 0, stream>>>(p);
    } else {
        const bool range = !arg_is_none(c, 2);
        p.find = !range && p.self.count > 0, p.widen = 0.5;
        p.high = p.self.count > 0 ? 0 : 1;
        if (range) p.low = c->args[2].as.floats[0], p.high = c->args[2].as.floats[1];
        if (range && p.low == p.high) p.low -= 0.5, p.high += 0.5;
        launch_range(p, stream);
        write_edges<<<flat_blocks(p.bins + 1), BLOCK, 0, stream>>>(p);
    }
    if (p.bins == 0) return launch_status(c);
    if (p.self.count) count_between<<<counting_blocks(p.self.count), BLOCK, 0, stream>>>(p);
    if (weight) sum_weights<<<(unsigned)p.bins, BLOCK, 0, stream>>>(p);
    else write_counts<<<flat_blocks(p.bins), BLOCK, 0, stream>>>(p);
    if (arg_bool(c, given ? 3 : 4)) make_density<<<1, BLOCK, 0, stream>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::histogram.bin_ct", histogram_cuda)
NBX_CUDA_KERNEL("aten::histogram.bins_tensor", histogram_cuda)

// -------------------------------------------------------------------------------------------------------------- bincount
static __global__ void __launch_bounds__(BLOCK) count_integers(const __grid_constant__ histogram_call p) {
    count_all(p, [&](int64_t i) -> int64_t { return ewc_load<int64_t>(p.self.dtype, flat_at(p.self, i)); });
}

static nbx_status extreme(nbx_op_call *c, const char *name, int64_t *x) {
    const nbx_value self = c->args[0];
    nbx_value number;
    const nbx_value whole = nbx_of_tensor(nbx_do(c->ctx, name, 1, &self));
    if (!whole.as.tensor || nbx_do_many(c->ctx, "aten::_local_scalar_dense", 1, &whole, &number, 1) != NBX_OK) return c->ctx->status;
    *x = nbx_scalar_to_int(&number);
    return NBX_OK;
}

static nbx_status bincount_cuda(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *self = arg_tensor(c, 0), *weights = arg_tensor(c, 1);
    int64_t bins = arg_int(c, 2), least = 0, most = -1;
    if (!nbx_dtype_is_integral((nbx_dtype)self->dtype, false)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes integers, not %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (bins < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "minlength %lld is negative", (long long)bins);
    if (self->rank != 1 && self->numel != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector, not a tensor of %d dims", self->rank);
    if (weights && weights->numel != self->numel) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld weights for %lld elements", (long long)weights->numel, (long long)self->numel);
    if (self->numel && (extreme(c, "aten::min", &least) != NBX_OK || extreme(c, "aten::max", &most) != NBX_OK)) return ctx->status;
    if (least < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "element %lld is negative", (long long)least);
    if (most == INT64_MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "element %lld is too large", (long long)most);
    if (most + 1 > bins) bins = most + 1;
    histogram_call p = {};
    p.dtype = !weights || self->numel == 0 ? NBX_INT64 : weights->dtype == NBX_FLOAT32 ? NBX_FLOAT32 : NBX_FLOAT64;
    const nbx_value args[] = {nbx_of_ints(&bins, 1), nbx_of_dtype((nbx_dtype)p.dtype), nbx_of_none(), nbx_of_device(c->device)};
    const nbx_tensor *out = nbx_do(ctx, "aten::zeros", 4, args), *bin = weights && self->numel ? nbx_new(ctx, c->device, NBX_INT64, 1, &self->numel) : NULL;
    if (!out || (weights && self->numel && !bin)) return ctx->status;
    if (self->numel == 0) return out_tensor(c, 0, out);
    nbx_status status = flat_of(c, self, &p.self);
    if (status == NBX_OK && weights) status = flat_of(c, weights, &p.weight);
    if (status != NBX_OK) return status;
    p.bins = bins, p.hist = (char *)nbx_data(out), p.hist_step = (int64_t)nbx_dtype_size((nbx_dtype)p.dtype);
    p.counts = (unsigned long long *)p.hist, p.bin = bin ? (int64_t *)nbx_data(bin) : NULL;
    cudaStream_t stream = (cudaStream_t)ctx->stream;
    count_integers<<<counting_blocks(p.self.count), BLOCK, 0, stream>>>(p);
    if (bin) sum_weights<<<(unsigned)bins, BLOCK, 0, stream>>>(p);
    status = launch_status(c);
    return status == NBX_OK ? out_tensor(c, 0, out) : status;
}

NBX_CUDA_KERNEL("aten::bincount", bincount_cuda)
