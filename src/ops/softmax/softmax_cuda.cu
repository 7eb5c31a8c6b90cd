// Softmax on CUDA: a warp (to 1024 elements) or a block per row; dense rows of at most 16384 elements stay in registers and
// are read once; longer ones are held by a cluster of blocks, 64 KB in each. Where that is not possible they are read a second
// time, from L2 as far as it goes. Other dims: a thread per line, neighbouring lines in neighbouring lanes.
#include "cuda/cluster.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/softmax/softmax.h"

#include <string.h>

enum { LINE_DIMS = 12 };

typedef struct softmax_call {
    const char *x;
    char *y;
    int in, out;
    bool log, safe, dense;
    int64_t count, length, x_step, y_step;
    int rank;
    int64_t shape[LINE_DIMS], x_line[LINE_DIMS], y_line[LINE_DIMS];
} softmax_call;

template <typename C> struct peak {  // largest, and sum of exp(x - largest)
    C top, sum;
    __device__ __forceinline__ void join(C t, C s) {
        if (t == top || t != t) {
            top = t;
            sum += s;
            return;
        }
        const C higher = top > t || top != top ? top : t;
        sum = sum * (C)exp(top - higher) + s * (C)exp(t - higher);
        top = higher;
    }
};

template <typename C, int THREADS> static __device__ __forceinline__ peak<C> over_row(peak<C> a) {
    __shared__ peak<C> part[THREADS / 32];
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        const C t = __shfl_xor_sync(~0u, a.top, step), s = __shfl_xor_sync(~0u, a.sum, step);
        a.join(t, s);
    }
    if (THREADS == 32) return a;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = a;
    __syncthreads();
    a = part[0];
    for (int w = 1; w < THREADS / 32; w++) a.join(part[w].top, part[w].sum);
    return a;
}

template <typename C, int THREADS> static __device__ __forceinline__ C top_of_row(C top) {
    __shared__ C part[THREADS / 32];
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        const C t = __shfl_xor_sync(~0u, top, step);
        top = fmax(top, t);
    }
    if (THREADS == 32) return top;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
    __syncthreads();
    top = part[0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; w++) top = fmax(top, part[w]);
    return top;
}

template <typename C, int THREADS> static __device__ __forceinline__ C sum_of_row(C sum) {
    __shared__ C part[THREADS / 32];
#pragma unroll
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (THREADS == 32) return sum;
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) sum += part[w];
    return sum;
}

// Of 16-bit results by the hardware's exponential: its error is far below half a unit of theirs.
template <int DTYPE> static __device__ __forceinline__ float exponential(float x) {
    return DTYPE == NBX_BFLOAT16 || DTYPE == NBX_FLOAT16 ? quick_exp2(1.4426950408889634f * x) : expf(x);
}
template <int DTYPE> static __device__ __forceinline__ double exponential(double x) { return exp(x); }

template <typename C> static __device__ __forceinline__ void line_place(const softmax_call &p, int64_t line, const char **x, char **y) {
    *x = p.x, *y = p.y;
    for (int d = 0; d < p.rank; d++) {
        const int64_t rest = d + 1 < p.rank ? quotient_of(line, p.shape[d]) : 0, at = line - rest * p.shape[d];
        line = rest;
        *x += at * p.x_line[d];
        *y += at * p.y_line[d];
    }
}

// What becomes of one element once top and sum are known. A row of -inf: NaN, or 0 when it is safe.
template <typename C> struct finisher {
    C top, last;  // of log: the sum's logarithm, else its reciprocal
    bool zero, log;
    __device__ __forceinline__ finisher(const softmax_call &p, peak<C> a) {
        zero = p.safe && a.top == (C)-INFINITY;
        log = p.log;
        if (a.top == (C)INFINITY) a.sum = (C)NAN;  // inf - inf
        top = a.top;
        last = p.log ? (C)::log(a.sum) : (C)1 / a.sum;
    }
    __device__ __forceinline__ C of_exponential(C e) const { return zero ? (C)0 : e * last; }
    __device__ __forceinline__ C operator()(C x) const { return zero ? (C)0 : log ? (x - top) - last : (C)exp(x - top) * last; }
};
// DTYPE: of both sides; -1: any. Rows in registers hold exponentials once their peak is known.
template <typename C, int THREADS, int PER, int DTYPE>
static __global__ void __launch_bounds__(THREADS == 32 ? 256 : THREADS) softmax_rows(const __grid_constant__ softmax_call p) {
    constexpr int ROWS = THREADS == 32 ? 8 : 1;
    const int lane = (int)threadIdx.x % THREADS;
    const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / THREADS;
    if (row >= p.count) return;
    const char *x;
    char *y;
    line_place<C>(p, row, &x, &y);
    const int from = DTYPE < 0 ? p.in : DTYPE, to = DTYPE < 0 ? p.out : DTYPE;
    const int in = nbx_cuda_dtype_bytes(from), out = nbx_cuda_dtype_bytes(to);
    peak<C> a = {(C)-INFINITY, (C)0};
    constexpr int N = PER > 0 ? PER : 1;
    C v[N][EWC_LANES];
    if (PER > 0) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int64_t i = ((int64_t)k * THREADS + lane) * EWC_LANES;
            if (i < p.length) ewc_load_dense<C>(from, x + i * in, v[k]);
            else
#pragma unroll
                for (int j = 0; j < EWC_LANES; j++) v[k][j] = (C)-INFINITY;
        }
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int j = 0; j < EWC_LANES; j++) a.top = fmax(a.top, v[k][j]);  // a NaN shows in the sum
        a.top = top_of_row<C, THREADS>(a.top);
        const C base = a.top == (C)-INFINITY ? (C)0 : a.top;
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int j = 0; j < EWC_LANES; j++) {
                const C e = exponential<DTYPE>(v[k][j] - base);
                if (!p.log) v[k][j] = e;
                a.sum += e;
            }
        a.sum = sum_of_row<C, THREADS>(a.sum);
        if (a.sum != a.sum) a.top = a.sum;
    } else {
        for (int64_t i = lane; i < p.length; i += THREADS) {
            const C e = ewc_load<C>(from, x + i * p.x_step);
            if (e <= a.top) a.sum += (C)exp(e - (isinf(a.top) && a.top < 0 ? (C)0 : a.top));
            else a.join(e, (C)1);
        }
        if (a.top == (C)-INFINITY) a.sum = 0;
        a = over_row<C, THREADS>(a);
    }
    const finisher<C> f(p, a);
    if (PER > 0) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int64_t i = ((int64_t)k * THREADS + lane) * EWC_LANES;
            if (i >= p.length) continue;
#pragma unroll
            for (int j = 0; j < EWC_LANES; j++) v[k][j] = p.log ? f(v[k][j]) : f.of_exponential(v[k][j]);
            ewc_store_dense<C>(to, y + i * out, v[k]);
        }
    } else {
        for (int64_t i = lane; i < p.length; i += THREADS) ewc_store<C>(to, y + i * p.y_step, f(ewc_load<C>(from, x + i * p.x_step)));
    }
}

// Long dense rows: two reads by vectors.
template <typename C> static __global__ void __launch_bounds__(1024) softmax_long(const __grid_constant__ softmax_call p) {
    const char *x;
    char *y;
    line_place<C>(p, blockIdx.x, &x, &y);
    const int in = nbx_cuda_dtype_bytes(p.in), out = nbx_cuda_dtype_bytes(p.out);
    peak<C> a = {(C)-INFINITY, (C)0};
    for (int64_t i = (int64_t)threadIdx.x * EWC_LANES; i < p.length; i += 1024 * EWC_LANES) {
        C v[EWC_LANES];
        ewc_load_dense<C>(p.in, x + i * in, v);
        C top = v[0];
#pragma unroll
        for (int j = 1; j < EWC_LANES; j++) top = top > v[j] || top != top ? top : v[j];
        if (!(top <= a.top)) {
            const C sum = a.top == (C)-INFINITY ? (C)0 : a.sum * (C)exp(a.top - top);
            a.top = top;
            a.sum = sum;
        }
        const C base = isinf(a.top) && a.top < 0 ? (C)0 : a.top;
#pragma unroll
        for (int j = 0; j < EWC_LANES; j++) a.sum += (C)exp(v[j] - base);
    }
    if (a.top == (C)-INFINITY) a.sum = 0;
    a = over_row<C, 1024>(a);
    const finisher<C> f(p, a);
    for (int64_t i = (int64_t)threadIdx.x * EWC_LANES; i < p.length; i += 1024 * EWC_LANES) {
        C v[EWC_LANES];
        ewc_load_dense<C>(p.in, x + i * in, v);
#pragma unroll
        for (int j = 0; j < EWC_LANES; j++) v[j] = f(v[j]);
        ewc_store_dense<C>(p.out, y + i * out, v);
    }
}

// A cluster for each row, a slice of it in the shared memory of each block; of float32 exponentials to the block's peak, once it is
// known, which are the costly ones.
template <int DTYPE> struct held_row {
    enum { THREADS = DTYPE == NBX_FLOAT32 ? 384 : 256, LANES = ewc_word<DTYPE>::LANES, SLICE = SLICE_BYTES / 16 };
};
template <int DTYPE, int CLUSTER>
static __global__ void __launch_bounds__(held_row<DTYPE>::THREADS, 3) NBX_CLUSTER(CLUSTER) softmax_cluster(const __grid_constant__ softmax_call p) {
    constexpr int THREADS = held_row<DTYPE>::THREADS, LANES = held_row<DTYPE>::LANES;
    constexpr bool HALVES = DTYPE != NBX_FLOAT32;
    constexpr float LOG2E = 1.4426950408889634f;
    extern __shared__ uint4 held[];
    __shared__ uint64_t arrived[SLICE_PARTS];
    __shared__ float tops[CLUSTER], sums[CLUSTER];
    const int block = (int)blockIdx.x % CLUSTER, tid = (int)threadIdx.x;
    const int words = (int)(p.length / LANES), share = (words + CLUSTER - 1) / CLUSTER, first = block * share;
    const int left = words - first < share ? words - first : share, count = left > 0 ? left : 0;
    const char *x;
    char *y;
    line_place<float>(p, blockIdx.x / CLUSTER, &x, &y);
    if (tid == 0) fetch_slice(held, arrived, (const uint4 *)x + first, count);
    cluster_arrive();
    __syncthreads();
    peak<float> a = {-INFINITY, 0};
    first_over_slice<THREADS>(arrived, count, [&](int i) {
        float v[LANES];
        ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
        for (int j = 0; j < LANES; j++) a.top = fmaxf(a.top, v[j]);
    });
    a.top = top_of_row<float, THREADS>(a.top);
    const float base = a.top == -INFINITY ? 0.f : a.top;
    // Loops without a branch: then several words are under way.
    const auto add_exponentials = [&](auto keep) {
        over_slice<THREADS>(count, [&](int i) {
            float v[LANES];
            ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
            for (int j = 0; j < LANES; j++) {
                v[j] = HALVES ? quick_exp2(fmaf(v[j], LOG2E, -base * LOG2E)) : expf(v[j] - base);
                a.sum += v[j];
            }
            if (keep.value) held[i] = ewc_narrow_word<DTYPE>(v);
        });
    };
    if (HALVES || p.log) add_exponentials(std::false_type());
    else add_exponentials(std::true_type());
    a.sum = sum_of_row<float, THREADS>(a.sum);
    cluster_wait();  // the others have begun, their shared memory is there
    if (tid < CLUSTER) {
        cluster_store(&tops[block], tid, a.top);
        cluster_store(&sums[block], tid, a.sum);
    }
    cluster_arrive();
    cluster_wait();
    const float own = a.top;
    a = {-INFINITY, 0};
#pragma unroll
    for (int b = 0; b < CLUSTER; b++) a.top = fmaxf(a.top, tops[b]);
#pragma unroll
    for (int b = 0; b < CLUSTER; b++) a.sum += tops[b] == -INFINITY ? sums[b] : sums[b] * expf(tops[b] - a.top);
    if (a.sum != a.sum) a.top = a.sum;
    const finisher<float> f(p, a);
    const float factor = f.zero ? 0.f : HALVES ? f.last : f.last * expf(own - a.top), shift = f.zero ? 0.f : -f.top * LOG2E;
    uint4 *to = (uint4 *)y + first;
    if (p.log)
        over_slice<THREADS>(count, [&](int i) {
            float v[LANES];
            ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
            for (int j = 0; j < LANES; j++) v[j] = f.zero ? 0.f : (v[j] - f.top) - f.last;
            to[i] = ewc_narrow_word<DTYPE>(v);
        });
    else
        over_slice<THREADS>(count, [&](int i) {
            float v[LANES];
            ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
            for (int j = 0; j < LANES; j++) v[j] = (HALVES ? quick_exp2(fmaf(v[j], LOG2E, shift)) : v[j]) * factor;
            to[i] = ewc_narrow_word<DTYPE>(v);
        });
}

template <int DTYPE, int CLUSTER> static bool launch_clusters(const softmax_call &p, int device, cudaStream_t stream) {
    static int room[CLUSTER_DEVICES];
    const int64_t words = p.length / held_row<DTYPE>::LANES;
    if (p.count > INT32_MAX / CLUSTER || !clusters_known(room, device, (const void *)softmax_cluster<DTYPE, CLUSTER == 1 ? 2 : CLUSTER>)) return false;
    shared_limit<softmax_cluster<DTYPE, CLUSTER>>(SLICE_BYTES);
    softmax_cluster<DTYPE, CLUSTER><<<(unsigned)p.count * CLUSTER, held_row<DTYPE>::THREADS, (size_t)((words + CLUSTER - 1) / CLUSTER) * 16, stream>>>(p);
    return true;
}

template <int DTYPE> static bool launch_cluster(const softmax_call &p, int device, cudaStream_t stream) {
    const int64_t slices = (p.length / held_row<DTYPE>::LANES + held_row<DTYPE>::SLICE - 1) / held_row<DTYPE>::SLICE;
    if (slices <= 1) return launch_clusters<DTYPE, 1>(p, device, stream);
    if (slices <= 2) return launch_clusters<DTYPE, 2>(p, device, stream);
    if (slices <= 4) return launch_clusters<DTYPE, 4>(p, device, stream);
    return slices <= 8 && launch_clusters<DTYPE, 8>(p, device, stream);
}

static bool launch_held(const softmax_call &p, int device, cudaStream_t stream) {
    if (p.in != p.out) return false;
    return p.in == NBX_FLOAT32 ? launch_cluster<NBX_FLOAT32>(p, device, stream)
           : p.in == NBX_BFLOAT16 ? launch_cluster<NBX_BFLOAT16>(p, device, stream)
                                  : p.in == NBX_FLOAT16 && launch_cluster<NBX_FLOAT16>(p, device, stream);
}

template <typename C> static __global__ void __launch_bounds__(128) softmax_lines(const __grid_constant__ softmax_call p) {
    const int64_t line = (int64_t)blockIdx.x * 128 + threadIdx.x;
    if (line >= p.count) return;
    const char *x;
    char *y;
    line_place<C>(p, line, &x, &y);
    peak<C> a = {(C)-INFINITY, (C)0};
    for (int64_t i = 0; i < p.length; i++) {
        const C e = ewc_load<C>(p.in, x + i * p.x_step);
        if (e <= a.top) a.sum += (C)exp(e - (isinf(a.top) && a.top < 0 ? (C)0 : a.top));
        else a.join(e, (C)1);
    }
    if (a.top == (C)-INFINITY) a.sum = 0;
    const finisher<C> f(p, a);
    for (int64_t i = 0; i < p.length; i++) ewc_store<C>(p.out, y + i * p.y_step, f(ewc_load<C>(p.in, x + i * p.x_step)));
}

template <typename C, int DTYPE> static void launch_dense(const softmax_call &p, cudaStream_t stream) {
    const unsigned count = (unsigned)p.count, eighth = (unsigned)((p.count + 7) / 8);
    const bool many = p.count >= 8192 && DTYPE >= 0;  // enough rows for a warp each
    if (p.length <= 256) softmax_rows<C, 32, 1, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 1024) softmax_rows<C, 32, 4, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 2048 && many) softmax_rows<C, 32, 8, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 4096 && many) softmax_rows<C, 128, 4, DTYPE><<<count, 128, 0, stream>>>(p);
    else if (p.length <= 4096) softmax_rows<C, 256, 2, DTYPE><<<count, 256, 0, stream>>>(p);
    else softmax_rows<C, 512, 4, DTYPE><<<count, 512, 0, stream>>>(p);
}

template <typename C> static void launch(const softmax_call &p, bool rows, int device, cudaStream_t stream) {
    const unsigned count = (unsigned)p.count, eighth = (unsigned)((p.count + 7) / 8);
    if (!rows) softmax_lines<C><<<(unsigned)((p.count + 127) / 128), 128, 0, stream>>>(p);
    else if (!p.dense && p.length <= 1024) softmax_rows<C, 32, 0, -1><<<eighth, 256, 0, stream>>>(p);
    else if (!p.dense) softmax_rows<C, 512, 0, -1><<<count, 512, 0, stream>>>(p);
    else if (p.length > 16384) {
        if (!launch_held(p, device, stream)) softmax_long<C><<<count, 1024, 0, stream>>>(p);
    }
    else if (sizeof(C) == 4 && p.in == p.out && p.in == NBX_FLOAT32) launch_dense<C, sizeof(C) == 4 ? NBX_FLOAT32 : -1>(p, stream);
    else if (sizeof(C) == 4 && p.in == p.out && p.in == NBX_BFLOAT16) launch_dense<C, sizeof(C) == 4 ? NBX_BFLOAT16 : -1>(p, stream);
    else if (sizeof(C) == 4 && p.in == p.out && p.in == NBX_FLOAT16) launch_dense<C, sizeof(C) == 4 ? NBX_FLOAT16 : -1>(p, stream);
    else launch_dense<C, -1>(p, stream);
}

static nbx_status softmax_cuda(nbx_op_call *c) {
    const softmax_job *job = (const softmax_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const nbx_tensor *operands[2] = {y, x};
    if (y->numel == 0) return NBX_OK;
    lines l;
    lines_plan(&l, job->dim, 2, operands);
    if (l.rank > LINE_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", LINE_DIMS);
    softmax_call p;
    memset(&p, 0, sizeof p);
    p.x = (const char *)nbx_data(x), p.y = (char *)nbx_data(y);
    p.in = x->dtype, p.out = y->dtype;
    p.log = job->log, p.safe = job->safe;
    p.count = l.count, p.length = l.length, p.y_step = l.along[0], p.x_step = l.along[1];
    p.rank = l.rank;
    const int64_t in = (int64_t)nbx_dtype_size((nbx_dtype)x->dtype), out = (int64_t)nbx_dtype_size((nbx_dtype)y->dtype);
    p.dense = p.x_step == in && p.y_step == out && p.length % EWC_LANES == 0 && (uintptr_t)p.x % 16 == 0 && (uintptr_t)p.y % 16 == 0;
    for (int d = 0; d < l.rank; d++) {
        p.shape[d] = l.shape[d], p.y_line[d] = l.step[0][d], p.x_line[d] = l.step[1][d];
        p.dense = p.dense && p.x_line[d] % 16 == 0 && p.y_line[d] % 16 == 0;
    }
    // Lines whose neighbours are closer than their elements are walked by a thread each.
    const bool rows = p.x_step == in || l.rank == 0 || l.step[1][0] != in || p.count < 1024;
    if (x->dtype == NBX_FLOAT64 || y->dtype == NBX_FLOAT64) launch<double>(p, rows, c->device.index, stream_of(c));
    else launch<float>(p, rows, c->device.index, stream_of(c));
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_softmax", softmax_cuda)
NBX_CUDA_KERNEL("aten::_log_softmax", softmax_cuda)
NBX_CUDA_KERNEL("aten::softmax.int", softmax_cuda)
NBX_CUDA_KERNEL("aten::log_softmax.int", softmax_cuda)
NBX_CUDA_KERNEL("aten::_safe_softmax", softmax_cuda)
