// Order statistics on CUDA. Medians: a block for each line finds the key of the rank byte by byte. Modes and quantiles: lines
// are sorted first (sort_cuda.cu), but for modes of lines up to 16, which a thread sorts by itself as ATen does.
#include "ops/reduce/order_stat.h"
#include "ops/elementwise/engine.cuh"
#include "ops/sort/keys.cuh"

enum { ORDER_SHORT = 16 };

typedef struct order_call {
    key_rows k;
    char *values;      // contiguous, in the order of the lines
    int64_t *indices;  // or NULL
    bool floating;
    int stat, between;
} order_call;

static __device__ __forceinline__ void give(const order_call &p, int64_t line, const char *from, int64_t place) {
    copy_element(p.k.rows.width, p.values + line * p.k.rows.width, from + flat_offset(p.k.along, place));
    if (p.indices) p.indices[line] = place;
}

static __global__ void __launch_bounds__(256) median_lines(const __grid_constant__ order_call p) {
    __shared__ unsigned long long hist[256];
    __shared__ int64_t room[33];
    const int64_t n = p.k.along.count;
    const char *from = flat_at(p.k.rows, blockIdx.x);
    const uint64_t nan = key_mask(p.k.rows.width);
    int64_t nans = 0, mine = 0, seen = 0, total, rank = (n - 1) / 2;
    if (p.floating) {
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += row_key(p.k, from, i) == nan;
        block_before(mine, room, &nans);
    }
    uint64_t key = nan;
    if (p.stat == ORDER_NANMEDIAN) rank = nans < n ? (n - nans - 1) / 2 : 0;
    if (p.stat == ORDER_MEDIAN && nans > 0) rank = 0;  // the first NaN
    else key = select_key(p.k, from, n, &rank, hist);
    for (int64_t begin = 0; begin < n && seen <= rank; begin += blockDim.x) {
        const int64_t i = begin + threadIdx.x;
        const bool same = i < n && row_key(p.k, from, i) == key;
        const int64_t before = block_before((int64_t)same, room, &total);
        if (same && seen + before == rank) give(p, blockIdx.x, from, i);
        seen += total;
    }
}

// Insertion sort; NaN, being neither below nor above, is a barrier that only an element below the first one passes.
static __global__ void __launch_bounds__(FLAT_THREADS) mode_short(const __grid_constant__ order_call p) {
    const int64_t line = flat_item();
    if (line >= p.k.rows.count) return;
    const int n = (int)p.k.along.count;
    const char *from = flat_at(p.k.rows, line);
    const uint64_t nan = p.floating ? key_mask(p.k.rows.width) : 0;
    uint64_t keys[ORDER_SHORT];
    int places[ORDER_SHORT];
    bool any_nan = false;
    for (int i = 0; i < n; i++) any_nan = any_nan || (p.floating && row_key(p.k, from, i) == nan);
    for (int i = 0; i < n; i++) {
        const uint64_t key = row_key(p.k, from, i);
        const bool number = !(p.floating && key == nan);
        const bool to_front = any_nan && i > 0 && number && keys[0] != nan && key < keys[0];
        int at = i;
        while (at > 0 && (to_front || (any_nan ? number && keys[at - 1] != nan && key < keys[at - 1] : key < keys[at - 1]))) {
            keys[at] = keys[at - 1];
            places[at] = places[at - 1];
            at--;
        }
        keys[at] = key;
        places[at] = i;
    }
    int longest = 0, run = 0, best = 0;
    for (int i = 0; i < n; i++) {
        run++;
        if (i + 1 < n && keys[i + 1] == keys[i] && !(p.floating && keys[i] == nan)) continue;
        if (run > longest) longest = run, best = places[i];
        run = 0;
    }
    give(p, line, from, best);
}

// The end of the longest run of equal keys; the first of several. NaN equals nothing.
static __global__ void __launch_bounds__(256) mode_lines(const __grid_constant__ order_call p, const sorted_rows sorted) {
    __shared__ unsigned long long best;
    const int64_t n = p.k.along.count, line = blockIdx.x;
    const uint64_t *keys = sorted.keys + line * n;
    const uint64_t nan = key_mask(p.k.rows.width);
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const uint64_t key = keys[i];
        const bool is_nan = p.floating && key == nan;
        if (i + 1 < n && keys[i + 1] == key && !is_nan) continue;
        int64_t low = 0, high = i;  // where the run begins
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (keys[middle] < key) low = middle + 1;
            else high = middle;
        }
        const uint64_t run = is_nan ? 1 : (uint64_t)(i - low + 1);
        atomicMax(&best, (unsigned long long)(run << 32 | (0xffffffffu - (uint32_t)i)));
    }
    __syncthreads();
    if (threadIdx.x == 0) give(p, line, flat_at(p.k.rows, line), sorted.places[line * n + (0xffffffffu - (uint32_t)best)]);
}

static nbx_status order_plan(nbx_op_call *c, order_call *p) {
    const order_job *job = (const order_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *indices = c->out_count > 1 ? out_get(c, 1) : NULL;
    p->k.falling = false;
    p->values = (char *)nbx_data(out_get(c, 0));
    p->indices = indices ? (int64_t *)nbx_data(indices) : NULL;
    p->floating = nbx_dtype_is_float((nbx_dtype)x->dtype);
    p->stat = job->stat, p->between = job->between;
    const nbx_status status = flat_of_dims(c, x, ~job->mask, &p->k.rows);
    return status == NBX_OK ? flat_of_dims(c, x, job->mask, &p->k.along) : status;
}

static nbx_status order_stat_cuda(nbx_op_call *c) {
    order_call p;
    const nbx_status status = order_plan(c, &p);
    if (status != NBX_OK || p.k.rows.count == 0) return status;
    const nbx_dtype dtype = (nbx_dtype)out_get(c, 0)->dtype;
    if (p.k.along.count == 0) {  // the median of nothing: NaN, or the smallest integer
        const nbx_value least = p.floating ? nbx_of_float(NAN) : nbx_of_int(dtype == NBX_INT64 ? INT64_MIN : dtype == NBX_INT32 ? INT32_MIN : 0);
        return nbx_cuda_fill(c, &least, NULL);
    }
    cudaStream_t stream = stream_of(c);
    if (p.stat != ORDER_MODE) {
        median_lines<<<(unsigned)p.k.rows.count, 256, 0, stream>>>(p);
    } else if (p.k.along.count <= ORDER_SHORT) {
        mode_short<<<flat_blocks(p.k.rows.count), FLAT_THREADS, 0, stream>>>(p);
    } else {
        sorted_rows sorted;
        const nbx_status sorting = nbx_cuda_sort_rows(c, &p.k, c->scratch, &sorted);
        if (sorting != NBX_OK) return sorting;
        mode_lines<<<(unsigned)p.k.rows.count, 256, 0, stream>>>(p, sorted);
    }
    return launch_status(c);
}

// -------------------------------------------------------------------------------------------------------------- quantile
template <typename C> static __global__ void __launch_bounds__(FLAT_THREADS) quantiles(const __grid_constant__ order_call p, const __grid_constant__ flat q, const sorted_rows sorted,
                                                                                       nbx_fault_slot *fault, int op) {
    const int64_t item = flat_item(), n = p.k.along.count;
    if (item >= p.k.rows.count * q.count) return;
    const int64_t line = item / q.count, k = item - line * q.count;
    const C part = *(const C *)flat_at(q, k);
    if (!(part >= (C)0 && part <= (C)1)) {
        raise_fault(fault, op, NBX_FAULT_ASSERT, 0, 0);
        return;
    }
    const char *from = flat_at(p.k.rows, line);
    const uint64_t *keys = sorted.keys + line * n;
    const uint32_t *places = sorted.places + line * n;
    const uint64_t nan = key_mask(p.k.rows.width);
    int64_t used = n;
    if (p.stat == ORDER_NANQUANTILE) {  // up to the first NaN
        int64_t top = n;
        for (used = 0; used < top;) {
            const int64_t middle = used + (top - used) / 2;
            if (keys[middle] < nan) used = middle + 1;
            else top = middle;
        }
    }
    if (used == 0 || (p.stat != ORDER_NANQUANTILE && keys[n - 1] == nan)) {
        ((C *)p.values)[line * q.count + k] = (C)NAN;
        return;
    }
    C place = part * (C)(used - 1);
    if (place < (C)0) place = 0;
    if (p.between == ORDER_LOWER) place = floor(place);
    if (p.between == ORDER_HIGHER) place = ceil(place);
    if (p.between == ORDER_NEAREST) place = rint(place);
    const int64_t low = (int64_t)place, top = (int64_t)ceil(place), high = top < used ? top : used - 1;
    const double a = (double)*(const C *)(from + flat_offset(p.k.along, places[low])) + 0.0;
    const double b = (double)*(const C *)(from + flat_offset(p.k.along, places[high])) + 0.0;
    const double weight = p.between == ORDER_MIDPOINT ? 0.5 : (double)(place - (C)low);
    double value = weight < 0.5 ? a + weight * (b - a) : b - (b - a) * (1.0 - weight);
    if (p.between != ORDER_LINEAR && p.between != ORDER_MIDPOINT) value = a;
    ((C *)p.values)[line * q.count + k] = (C)value;
}

static nbx_status quantile_cuda(nbx_op_call *c) {
    order_call p;
    flat q;
    sorted_rows sorted;
    int op;
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    nbx_status status = order_plan(c, &p);
    if (status == NBX_OK) status = flat_of(c, arg_tensor(c, 1), &q);
    if (status != NBX_OK || p.k.rows.count * q.count == 0) return status;
    status = nbx_cuda_sort_rows(c, &p.k, c->scratch, &sorted);
    if (status != NBX_OK) return status;
    const unsigned blocks = flat_blocks(p.k.rows.count * q.count);
    if (p.k.rows.width == 8) quantiles<double><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p, q, sorted, fault, op);
    else quantiles<float><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p, q, sorted, fault, op);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::median", order_stat_cuda)
NBX_CUDA_KERNEL("aten::median.dim", order_stat_cuda)
NBX_CUDA_KERNEL("aten::nanmedian", order_stat_cuda)
NBX_CUDA_KERNEL("aten::nanmedian.dim", order_stat_cuda)
NBX_CUDA_KERNEL("aten::mode", order_stat_cuda)
NBX_CUDA_KERNEL("aten::quantile", quantile_cuda)
NBX_CUDA_KERNEL("aten::nanquantile", quantile_cuda)
