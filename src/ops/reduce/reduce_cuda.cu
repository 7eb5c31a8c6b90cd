// Reductions on CUDA. Rows: a warp or a block for each result, vectors of 8 elements where the reduced dim is dense.
// Columns: neighbouring results in neighbouring lanes (8 each where they are dense), reduced rows spread over the block.
// Few results: the reduced elements are cut into pieces whose partials a second kernel merges in order.
#include "ops/reduce/accumulate.cuh"
#include "ops/reduce/reduce_cuda.cuh"

#include <string.h>

enum { RED_DIMS = 14, RED_THREADS = 256 };

typedef struct red_call {
    const char *x;
    red_target target;
    void *scratch;
    int op, cast, in;
    bool round_cast;              // the dtype cast to is narrower than the class of computing
    int kept, reduced;
    int64_t kept_count, reduced_count, pieces, piece;
    int64_t kept_shape[RED_DIMS], kept_step[RED_DIMS], kept_to[RED_DIMS];
    int64_t reduced_shape[RED_DIMS], reduced_step[RED_DIMS];
} red_call;

static __device__ __forceinline__ int64_t reduced_offset(const red_call &p, int64_t index) {
    if (p.reduced <= 1) return index * p.reduced_step[0];
    int64_t offset = 0;
    for (int d = 0; d < p.reduced; d++) {
        const int64_t rest = quotient_of(index, p.reduced_shape[d]);
        offset += (index - rest * p.reduced_shape[d]) * p.reduced_step[d];
        index = rest;
    }
    return offset;
}

static __device__ __forceinline__ void kept_place(const red_call &p, int64_t index, int64_t *from, int64_t *to) {
    *from = *to = 0;
    for (int d = 0; d < p.kept; d++) {
        const int64_t rest = quotient_of(index, p.kept_shape[d]), at = index - rest * p.kept_shape[d];
        *from += at * p.kept_step[d];
        *to += at * p.kept_to[d];
        index = rest;
    }
}

template <typename A, int DTYPE> static __device__ __forceinline__ void take(const red_call &p, A &a, int64_t index, typename A::value x) {
    a.add(p.op, p.target.p, DTYPE < 0 && p.round_cast ? ewc_through<typename A::value>(p.cast, x) : x, index);
}

template <typename A> static __device__ __forceinline__ void give(const red_call &p, int64_t index, int64_t to, const A &a) {
    if (p.pieces == 1) red_finish(p.target, to, a);
    else ((A *)p.scratch)[blockIdx.y * p.kept_count + index] = a;
}

// --------------------------------------------------------------------------------------------------------------- rows
// THREADS per result: 32 (a warp, 8 results a block) or 256 (a block). DTYPE: that of the elements, which need no cast; -1: any.
template <typename A, int THREADS, bool DENSE, int DTYPE> static __global__ void __launch_bounds__(RED_THREADS) reduce_rows(const __grid_constant__ red_call p) {
    typedef typename A::value C;
    const int lane = (int)threadIdx.x % THREADS;
    const int64_t index = (int64_t)blockIdx.x * (RED_THREADS / THREADS) + threadIdx.x / THREADS;
    if (THREADS == 32 && index >= p.kept_count) return;
    int64_t from, to;
    kept_place(p, index, &from, &to);
    const char *x = p.x + from;
    const int64_t begin = (int64_t)blockIdx.y * p.piece;
    const int64_t end = begin + p.piece < p.reduced_count ? begin + p.piece : p.reduced_count;
    const int dtype = DTYPE < 0 ? p.in : DTYPE, size = nbx_cuda_dtype_bytes(dtype);
    A a;
    a.start(p.op);
    if (DENSE) {
        const int vector = size == 1 ? 8 : 16;
        const bool aligned = ((uintptr_t)(x + begin * size) & (vector - 1)) == 0;
        int64_t i = begin;
        if (aligned) {
            const int64_t whole = begin + (end - begin) / EWC_LANES * EWC_LANES;
#pragma unroll(DTYPE < 0 ? 1 : 4)
            for (i = begin + lane * EWC_LANES; i < whole; i += THREADS * EWC_LANES) {
                C v[EWC_LANES];
                ewc_load_dense<C>(dtype, x + i * size, v);
                if constexpr (red_is_place<A>::value && DTYPE >= 0) a.add_vector(v, i);
                else
#pragma unroll
                    for (int k = 0; k < EWC_LANES; k++) take<A, DTYPE>(p, a, i + k, v[k]);
            }
            i = whole;
        }
        for (i += lane; i < end; i += THREADS) take<A, DTYPE>(p, a, i, ewc_load<C>(dtype, x + i * size));
    } else {
        for (int64_t i = begin + lane; i < end; i += THREADS) take<A, DTYPE>(p, a, i, ewc_load<C>(dtype, x + reduced_offset(p, i)));
    }
    red_warp(p.op, a);
    if (THREADS > 32) {
        __shared__ A part[THREADS / 32];
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = a;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 1; w < THREADS / 32; w++) a.merge(p.op, part[w]);
    }
    if (lane == 0) give(p, index, to, a);
}

// ------------------------------------------------------------------------------------------------------------- columns
// A block takes BX x V neighbouring results; its BY rows of threads share the reduced elements.
template <typename A, int V, int DTYPE> static __global__ void __launch_bounds__(RED_THREADS) reduce_columns(const __grid_constant__ red_call p, int64_t tiles, int bx) {
    typedef typename A::value C;
    extern __shared__ __align__(16) char shared[];
    const int tx = (int)threadIdx.x % bx, ty = (int)threadIdx.x / bx, by = RED_THREADS / bx;
    const int64_t width = p.kept_shape[0], tile = blockIdx.x % tiles, outer = blockIdx.x / tiles;
    const int64_t column = (tile * bx + tx) * V;
    const int dtype = DTYPE < 0 ? p.in : DTYPE, size = nbx_cuda_dtype_bytes(dtype);
    int64_t from = column * size, to = 0, rest = outer;
    for (int d = 1; d < p.kept; d++) {
        const int64_t at = rest % p.kept_shape[d];
        rest /= p.kept_shape[d];
        from += at * p.kept_step[d];
        to += at * p.kept_to[d];
    }
    const int64_t begin = (int64_t)blockIdx.y * p.piece;
    const int64_t end = begin + p.piece < p.reduced_count ? begin + p.piece : p.reduced_count;
    A a[V];
#pragma unroll
    for (int k = 0; k < V; k++) a[k].start(p.op);
    int64_t i = begin + ty;
    if constexpr (V == EWC_LANES && DTYPE >= 0) {  // several rows in flight
        constexpr int WORDS = DTYPE == NBX_FLOAT32 ? 2 : 1, ROWS = 8 / WORDS;
        const int64_t step = p.reduced_step[0] * by;
        for (; p.reduced <= 1 && column < width && i + (ROWS - 1) * by < end; i += ROWS * by) {
            uint4 words[ROWS][WORDS];
            const char *x = p.x + from + i * p.reduced_step[0];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int w = 0; w < WORDS; w++) words[r][w] = ((const uint4 *)(x + r * step))[w];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                C v[EWC_LANES];
                ewc_load_dense<C>(DTYPE, words[r], v);
#pragma unroll
                for (int k = 0; k < V; k++) take<A, DTYPE>(p, a[k], i + r * by, v[k]);
            }
        }
    }
    if (column < width)
        for (; i < end; i += by) {
            const char *x = p.x + from + reduced_offset(p, i);
            if (V == EWC_LANES) {
                C v[EWC_LANES];
                ewc_load_dense<C>(dtype, x, v);
#pragma unroll
                for (int k = 0; k < V; k++) take<A, DTYPE>(p, a[k], i, v[k]);
            } else {
                take<A, DTYPE>(p, a[0], i, ewc_load<C>(dtype, x));
            }
        }
    A *part = (A *)shared;
#pragma unroll
    for (int k = 0; k < V; k++) {
        part[ty * bx + tx] = a[k];
        __syncthreads();
        if (ty == 0 && column + k < width) {
            for (int y = 1; y < by; y++) a[k].merge(p.op, part[y * bx + tx]);
            give(p, outer * width + column + k, to + (column + k) * p.kept_to[0], a[k]);
        }
        __syncthreads();
    }
}

// -------------------------------------------------------------------------------------------------------------- pieces
template <typename A> static __global__ void __launch_bounds__(RED_THREADS) merge_pieces(const __grid_constant__ red_call p) {
    const int64_t index = (int64_t)blockIdx.x * (RED_THREADS / 32) + threadIdx.x / 32;
    if (index >= p.kept_count) return;
    const int lane = (int)threadIdx.x % 32;
    A a;
    a.start(p.op);
    for (int64_t i = lane; i < p.pieces; i += 32) {
        a.merge(p.op, ((const A *)p.scratch)[i * p.kept_count + index]);
    }
    red_warp(p.op, a);
    int64_t from, to;
    kept_place(p, index, &from, &to);
    if (lane == 0) red_finish(p.target, to, a);
}

// -------------------------------------------------------------------------------------------------------------- launch
static bool dense_columns(const red_call &p, int64_t size) {
    const int64_t vector = size == 1 ? 8 : 16;
    bool dense = (uintptr_t)p.x % (uintptr_t)vector == 0 && p.kept_shape[0] % EWC_LANES == 0;
    for (int d = 1; d < p.kept; d++) dense = dense && p.kept_step[d] % vector == 0;
    for (int d = 0; d < p.reduced; d++) dense = dense && p.reduced_step[d] % vector == 0;
    return dense;
}

template <typename A, int DTYPE> static void launch_rows(const red_call &p, bool dense, cudaStream_t stream) {
    constexpr bool DENSE = A::VECTORS;
    if (p.piece <= 1024 || (DTYPE >= 0 && p.kept_count >= 16384 && p.piece <= 16384)) {
        const dim3 grid((unsigned)((p.kept_count + 7) / 8), (unsigned)p.pieces);
        if (dense) reduce_rows<A, 32, DENSE, DTYPE><<<grid, RED_THREADS, 0, stream>>>(p);
        else reduce_rows<A, 32, false, -1><<<grid, RED_THREADS, 0, stream>>>(p);
    } else {
        const dim3 grid((unsigned)p.kept_count, (unsigned)p.pieces);
        if (dense) reduce_rows<A, RED_THREADS, DENSE, DTYPE><<<grid, RED_THREADS, 0, stream>>>(p);
        else reduce_rows<A, RED_THREADS, false, -1><<<grid, RED_THREADS, 0, stream>>>(p);
    }
}

template <typename A, int DTYPE> static void launch_columns(const red_call &p, bool wide, cudaStream_t stream) {
    const int64_t vectors = wide ? p.kept_shape[0] / EWC_LANES : p.kept_shape[0];
    int bx = 4;
    while (bx < 32 && bx < vectors) bx *= 2;
    const int64_t tiles = (vectors + bx - 1) / bx;
    const dim3 grid((unsigned)(tiles * (p.kept_count / p.kept_shape[0])), (unsigned)p.pieces);
    if (wide) reduce_columns<A, A::VECTORS ? EWC_LANES : 1, DTYPE><<<grid, RED_THREADS, RED_THREADS * sizeof(A), stream>>>(p, tiles, bx);
    else reduce_columns<A, 1, -1><<<grid, RED_THREADS, RED_THREADS * sizeof(A), stream>>>(p, tiles, bx);
}

template <typename A, int DTYPE> static void launch_walk(const red_call &p, cudaStream_t stream) {
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)p.in);
    const bool dense_rows = p.reduced <= 1 && (p.reduced == 0 || p.reduced_step[0] == size);
    if (p.kept > 0 && p.kept_step[0] == size && !(dense_rows && p.reduced == 1)) launch_columns<A, DTYPE>(p, A::VECTORS && dense_columns(p, size), stream);
    else launch_rows<A, DTYPE>(p, dense_rows, stream);
}

template <typename A> static void launch(const red_call &p, cudaStream_t stream) {
    bool known = false;
    if constexpr (A::KNOWN && sizeof(typename A::value) == 4) {
        known = !p.round_cast;
        if (known && p.in == NBX_FLOAT32) launch_walk<A, NBX_FLOAT32>(p, stream);
        else if (known && p.in == NBX_BFLOAT16) launch_walk<A, NBX_BFLOAT16>(p, stream);
        else if (known && p.in == NBX_FLOAT16) launch_walk<A, NBX_FLOAT16>(p, stream);
        else known = false;
    }
    if (!known) launch_walk<A, -1>(p, stream);
    if (p.pieces > 1) merge_pieces<A><<<(unsigned)((p.kept_count + 7) / 8), RED_THREADS, 0, stream>>>(p);
}

template <typename C> static void launch_real(const red_call &p, cudaStream_t stream) {
    switch (p.op) {
    case REDUCE_SUM: launch<red_sum<C>>(p, stream); break;
    case REDUCE_ARGMAX: launch<red_place<C, true>>(p, stream); break;
    case REDUCE_ARGMIN: launch<red_place<C, false>>(p, stream); break;
    case REDUCE_MINMAX: launch<red_range<C>>(p, stream); break;
    case REDUCE_MOMENTS:
        if constexpr (!ewc_class<C>::integral) launch<red_moments<C>>(p, stream);
        break;
    case REDUCE_LOGSUMEXP:
        if constexpr (!ewc_class<C>::integral) launch<red_exponentials<C>>(p, stream);
        break;
    default: launch<red_simple<C>>(p, stream); break;
    }
}

static void launch_complex(const red_call &p, cudaStream_t stream) {
    if (p.op == REDUCE_MOMENTS) launch<red_moments<cdouble>>(p, stream);
    else if (p.op == REDUCE_LOGSUMEXP) launch<red_complex_exponentials>(p, stream);
    else launch<red_simple<cdouble>>(p, stream);
}

nbx_status nbx_cuda_reduce(nbx_op_call *c, const reduce_job *job, const nbx_tensor *x, void *const out[2], const nbx_dtype dtype[2], void *scratch) {
    reduce_plan plan;
    red_call p;
    reduce_plan_make(&plan, job, x->rank, x->shape, x->stride);
    if (plan.kept > RED_DIMS || plan.reduced > RED_DIMS)
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", RED_DIMS);
    if (plan.kept_count == 0) return NBX_OK;
    if (plan.kept_count > 0x7fffffff) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than 2^31 results of a reduction on CUDA");
    memset(&p, 0, sizeof p);
    p.x = (const char *)nbx_data(x);
    p.scratch = scratch;
    p.op = job->op, p.in = job->in, p.cast = job->cast;
    p.kept = plan.kept, p.reduced = plan.reduced;
    p.kept_count = plan.kept_count, p.reduced_count = plan.reduced_count;
    p.pieces = reduce_device_pieces(&plan);
    p.piece = (plan.reduced_count + p.pieces - 1) / p.pieces;
    p.piece = (p.piece + EWC_LANES - 1) / EWC_LANES * EWC_LANES;
    for (int d = 0; d < plan.kept; d++) p.kept_shape[d] = plan.kept_shape[d], p.kept_step[d] = plan.kept_step[d], p.kept_to[d] = plan.kept_to[d];
    for (int d = 0; d < plan.reduced; d++) p.reduced_shape[d] = plan.reduced_shape[d], p.reduced_step[d] = plan.reduced_step[d];
    for (int k = 0; k < 2; k++) p.target.out[k] = out[k], p.target.dtype[k] = (uint8_t)dtype[k];
    p.target.elements = (double)plan.reduced_count;
    p.target.p = job->p;
    p.target.finish = job->finish;
    const nbx_dtype in = (nbx_dtype)job->in;
    reduce_domain domain = (reduce_domain)job->domain;
    if (job->op == REDUCE_COUNT) domain = nbx_dtype_is_complex(in) ? REDUCE_COMPLEX : nbx_dtype_is_float(in) ? REDUCE_F64 : REDUCE_I64;
    p.round_cast = job->cast != job->in && job->op != REDUCE_COUNT && nbx_dtype_size((nbx_dtype)job->cast) < 8 &&
                   job->cast != NBX_FLOAT32 && job->cast != NBX_COMPLEX64;
    cudaStream_t stream = stream_of(c);
    switch (domain) {
    case REDUCE_F32: launch_real<float>(p, stream); break;
    case REDUCE_F64: launch_real<double>(p, stream); break;
    case REDUCE_I64: launch_real<int64_t>(p, stream); break;
    case REDUCE_COMPLEX: launch_complex(p, stream); break;
    }
    return launch_status(c);
}

static nbx_status reduce_cuda(nbx_op_call *c) {
    void *out[2] = {NULL, NULL};
    nbx_dtype dtype[2] = {NBX_FLOAT32, NBX_FLOAT32};
    for (int k = 0; k < 2 && k < c->out_count; k++) {
        const nbx_tensor *t = out_get(c, k);
        if (!t) continue;
        out[k] = nbx_data(t);
        dtype[k] = (nbx_dtype)t->dtype;
    }
    return nbx_cuda_reduce(c, (const reduce_job *)c->state, arg_tensor(c, 0), out, dtype, c->scratch);
}

#define REDUCE(NAME) NBX_CUDA_KERNEL(NAME, reduce_cuda)
REDUCE("aten::all")
REDUCE("aten::all.dim")
REDUCE("aten::all.dims")
REDUCE("aten::amax")
REDUCE("aten::amin")
REDUCE("aten::aminmax")
REDUCE("aten::any")
REDUCE("aten::any.dim")
REDUCE("aten::any.dims")
REDUCE("aten::argmax")
REDUCE("aten::argmin")
REDUCE("aten::count_nonzero")
REDUCE("aten::count_nonzero.dim_IntList")
REDUCE("aten::linalg_vector_norm")
REDUCE("aten::linalg_vector_norm")
REDUCE("aten::logsumexp")
REDUCE("aten::max")
REDUCE("aten::max.dim")
REDUCE("aten::mean")
REDUCE("aten::mean.dim")
REDUCE("aten::min")
REDUCE("aten::min.dim")
REDUCE("aten::nansum")
REDUCE("aten::prod")
REDUCE("aten::prod.dim_int")
REDUCE("aten::std")
REDUCE("aten::std.correction")
REDUCE("aten::std.dim")
REDUCE("aten::std_mean")
REDUCE("aten::std_mean.correction")
REDUCE("aten::std_mean.dim")
REDUCE("aten::sum")
REDUCE("aten::sum.dim_IntList")
REDUCE("aten::var")
REDUCE("aten::var.correction")
REDUCE("aten::var.dim")
REDUCE("aten::var_mean")
REDUCE("aten::var_mean.correction")
REDUCE("aten::var_mean.dim")
