// Running results on CUDA. Lines whose neighbours are closer than their elements: a thread per line. Others: a block per line,
// tiles of 2048 elements, 8 in a row per thread, carried from tile to tile: the order depends on the length alone. Sums of dense
// lines have a kernel of their own, a warp or a block for each line; few long lines are cut into pieces whose totals come first.
#include "ops/elementwise/complex.cuh"
#include "ops/scan/scan.h"

#include <string.h>

enum { SCAN_DIMS = 12, SCAN_THREADS = 256 };

typedef struct scan_call {
    const char *x;
    char *y;
    int64_t *index;  // cummax, cummin
    int in, cast, out, op;
    bool through;    // the dtype cast to is narrower than the class of computing
    bool dense;      // lines are dense and aligned for vectors, on both sides
    int64_t count, length, x_step, y_step, index_step;
    int64_t pieces, piece;  // of each line; elements of one
    void *totals;           // not NULL: only the totals of the pieces are made
    const void *starts;     // not NULL: running totals of the pieces
    int rank;
    int64_t shape[SCAN_DIMS], x_line[SCAN_DIMS], y_line[SCAN_DIMS], index_line[SCAN_DIMS];
} scan_call;

template <typename C, bool PLACED> struct running {  // PLACED: cummax, cummin
    C v;
    int64_t at;
};
template <typename C> struct running<C, false> {
    C v;
};
template <typename C> static __device__ __forceinline__ bool is_nan(C x) { return x != x; }

// What follows b after a.
template <typename C, bool PLACED> static __device__ __forceinline__ running<C, PLACED> join(int op, const running<C, PLACED> &a, const running<C, PLACED> &b) {
    running<C, PLACED> r = b;
    switch (op) {
    case SCAN_SUM: r.v = a.v + b.v; break;
    case SCAN_PROD: r.v = a.v * b.v; break;
    default:
        if constexpr (!ewc_class<C>::complex) {
            if constexpr (PLACED) {
                if (op == SCAN_MAX) return is_nan(b.v) || (!is_nan(a.v) && b.v >= a.v) ? b : a;
                return is_nan(b.v) || (!is_nan(a.v) && b.v <= a.v) ? b : a;
            } else if constexpr (!ewc_class<C>::integral) {
                const C high = a.v > b.v || is_nan(a.v) ? a.v : b.v, low = a.v > b.v || is_nan(a.v) ? b.v : a.v;
                r.v = is_nan(high) || is_nan(low) ? (C)NAN : isinf(high) ? high : high + (C)log1p(exp(low - high));
            }
        } else {
            r.v = zc_narrow<C>(zc_logaddexp(zc_wide(a.v), zc_wide(b.v)));
        }
        break;
    }
    return r;
}

template <typename C, bool PLACED> static __device__ __forceinline__ running<C, PLACED> as_read(const scan_call &p, C v, int64_t i) {
    running<C, PLACED> r;
    r.v = p.through ? ewc_through<C>(p.cast, v) : v;
    if constexpr (ewc_class<C>::complex)
        if (i == 0 && p.op == SCAN_PROD) r.v = C{1, 0} * r.v;  // ATen begins with 1, which makes NaN of infinite parts
    if constexpr (PLACED) r.at = i;
    return r;
}

template <typename C, bool PLACED> static __device__ __forceinline__ running<C, PLACED> element(const scan_call &p, const char *x, int64_t i) {
    return as_read<C, PLACED>(p, ewc_load<C>(p.in, x + i * p.x_step), i);
}

template <typename C, bool PLACED> static __device__ __forceinline__ void put(const scan_call &p, char *y, int64_t *index, int64_t i, const running<C, PLACED> &r) {
    ewc_store<C>(p.out, y + i * p.y_step, r.v);
    if constexpr (PLACED) index[i * p.index_step] = r.at;
}

static __device__ __forceinline__ void line_place(const scan_call &p, int64_t line, const char **x, char **y, int64_t **index) {
    *x = p.x, *y = p.y, *index = p.index;
    for (int d = 0; d < p.rank; d++) {
        const int64_t rest = d + 1 < p.rank ? quotient_of(line, p.shape[d]) : 0, at = line - rest * p.shape[d];
        line = rest;
        *x += at * p.x_line[d], *y += at * p.y_line[d];
        if (p.index) *index += at * p.index_line[d];
    }
}

template <typename C, bool PLACED> static __global__ void __launch_bounds__(SCAN_THREADS) scan_lines(const __grid_constant__ scan_call p) {
    const int64_t line = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x;
    if (line >= p.count) return;
    const char *x;
    char *y;
    int64_t *index;
    line_place(p, line, &x, &y, &index);
    running<C, PLACED> r = element<C, PLACED>(p, x, 0);
    put(p, y, index, 0, r);
    for (int64_t i = 1; i < p.length; i++) {
        r = join(p.op, r, element<C, PLACED>(p, x, i));
        put(p, y, index, i, r);
    }
}

template <typename C, bool PLACED> static __global__ void __launch_bounds__(SCAN_THREADS) scan_rows(const __grid_constant__ scan_call p) {
    typedef running<C, PLACED> state;
    __shared__ state warps[SCAN_THREADS / 32];
    const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const char *x;
    char *y;
    int64_t *index;
    line_place(p, blockIdx.x, &x, &y, &index);
    state carry;
    bool carried = false;
    for (int64_t first = 0; first < p.length; first += SCAN_THREADS * EWC_LANES) {
        const int64_t begin = first + tid * EWC_LANES;
        const int mine = begin < p.length ? (int)(p.length - begin < EWC_LANES ? p.length - begin : EWC_LANES) : 0;
        state r[EWC_LANES], total;
        bool any = mine > 0;
        if (p.dense && mine == EWC_LANES) {
            C v[EWC_LANES];
            ewc_load_dense<C>(p.in, x + begin * p.x_step, v);
#pragma unroll
            for (int k = 0; k < EWC_LANES; k++) {
                const state e = as_read<C, PLACED>(p, v[k], begin + k);
                r[k] = k == 0 ? e : join(p.op, r[k - 1], e);
            }
        } else {
#pragma unroll
            for (int k = 0; k < EWC_LANES; k++)
                if (k < mine) r[k] = k == 0 ? element<C, PLACED>(p, x, begin) : join(p.op, r[k - 1], element<C, PLACED>(p, x, begin + k));
        }
        total = mine > 0 ? r[0] : carry;
#pragma unroll
        for (int k = 1; k < EWC_LANES; k++)
            if (k < mine) total = r[k];
        // inclusive over the threads of a warp, then over warps
        state before = total;
        bool has_before = false;
        for (int step = 1; step < 32; step <<= 1) {
            state o;
#pragma unroll
            for (int i = 0; i < (int)(sizeof o / 4); i++) ((uint32_t *)&o)[i] = __shfl_up_sync(~0u, ((const uint32_t *)&total)[i], step);
            const bool other = __shfl_up_sync(~0u, any ? 1 : 0, step) != 0;
            if (lane >= step && other) total = any ? join(p.op, o, total) : o, any = true;
        }
#pragma unroll
        for (int i = 0; i < (int)(sizeof before / 4); i++) ((uint32_t *)&before)[i] = __shfl_up_sync(~0u, ((const uint32_t *)&total)[i], 1);
        has_before = __shfl_up_sync(~0u, any ? 1 : 0, 1) != 0 && lane > 0;
        if (lane == 31) warps[warp] = total;
        __syncthreads();
        state ahead = carry;
        bool has_ahead = carried;
        for (int w = 0; w < warp; w++) {
            if (first + (int64_t)w * 32 * EWC_LANES >= p.length) break;
            ahead = has_ahead ? join(p.op, ahead, warps[w]) : warps[w];
            has_ahead = true;
        }
        if (has_before) ahead = has_ahead ? join(p.op, ahead, before) : before, has_ahead = true;
#pragma unroll
        for (int k = 0; k < EWC_LANES; k++)
            if (k < mine && has_ahead) r[k] = join(p.op, ahead, r[k]);
        if (!PLACED && p.dense && mine == EWC_LANES) {
            C v[EWC_LANES];
#pragma unroll
            for (int k = 0; k < EWC_LANES; k++) v[k] = r[k].v;
            ewc_store_dense<C>(p.out, y + begin * p.y_step, v);
        } else {
#pragma unroll
            for (int k = 0; k < EWC_LANES; k++)
                if (k < mine) put(p, y, index, begin + k, r[k]);
        }
        for (int w = 0; w < SCAN_THREADS / 32; w++) {
            if (first + (int64_t)w * 32 * EWC_LANES >= p.length) break;
            carry = carried ? join(p.op, carry, warps[w]) : warps[w];
            carried = true;
        }
        __syncthreads();
    }
}

// DTYPE: of both sides; -1: any. WARPS of them for a line or a piece of one. -0 is what adds nothing.
template <typename C, int DTYPE, int WARPS> static __global__ void __launch_bounds__(SCAN_THREADS, 4) scan_sums(const __grid_constant__ scan_call p) {
    constexpr int GROUPS = DTYPE == NBX_BFLOAT16 || DTYPE == NBX_FLOAT16 ? 2 : 1, LANES = GROUPS * EWC_LANES;  // neighbours of a thread
    constexpr int THREADS = WARPS * 32, TOGETHER = SCAN_THREADS / THREADS, TILE = THREADS * LANES;
    constexpr int SIZE = DTYPE == NBX_FLOAT32 ? 4 : 2, WORDS = DTYPE < 0 ? 1 : SIZE * LANES / 16;
    __shared__ C parts[2][WARPS];
    const int tid = (int)threadIdx.x % THREADS, lane = tid & 31, warp = tid >> 5;
    const int in = DTYPE < 0 ? p.in : DTYPE, out = DTYPE < 0 ? p.out : DTYPE;
    // The first tile of the next line is asked for while this one ends; not of float32 in blocks, which has no registers left for it.
    constexpr bool AHEAD = GROUPS == 2 || WARPS == 1;
    int parity = 0;
    struct place {
        const char *x;
        char *y;
        int64_t start, end;
    };
    const auto place_of = [&](int64_t unit, place *u) {
        if (AHEAD && unit >= p.count * p.pieces) return void(u->start = u->end = 0);
        const int64_t line = p.pieces == 1 ? unit : unit / p.pieces;
        int64_t *index;
        u->start = (unit - line * p.pieces) * p.piece;
        u->end = u->start + p.piece < p.length ? u->start + p.piece : p.length;
        line_place(p, line, &u->x, &u->y, &index);
    };
    uint4 next[WORDS];
    const auto fetch = [&](const place &u, int64_t at) {
        if (DTYPE >= 0 && at + LANES <= u.end)
#pragma unroll
            for (int w = 0; w < WORDS; w++) next[w] = ((const uint4 *)(u.x + at * SIZE))[w];
    };
    place here, after;
    int64_t unit = (int64_t)blockIdx.x * TOGETHER + threadIdx.x / THREADS;
    if (AHEAD) place_of(unit, &here), fetch(here, here.start + tid * LANES);
    for (; unit < p.count * p.pieces; unit += (int64_t)gridDim.x * TOGETHER) {
        if (!AHEAD) place_of(unit, &here), fetch(here, here.start + tid * LANES);
        const char *x = here.x;
        char *y = here.y;
        const int64_t start = here.start, end = here.end;
        if (AHEAD) place_of(unit + (int64_t)gridDim.x * TOGETHER, &after);
        C carry = p.starts && start ? ((const C *)p.starts)[unit - 1] : (C)-0.0;
        for (int64_t tile = start; tile < end; tile += TILE) {
            const int64_t begin = tile + tid * LANES;
            const bool whole = (DTYPE >= 0 || p.dense) && begin + LANES <= end;
            C v[LANES];
            if (whole) {
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    C(&part)[EWC_LANES] = *(C(*)[EWC_LANES])&v[g * EWC_LANES];
                    if (DTYPE >= 0) ewc_load_dense<C>(DTYPE, &next[g * WORDS / GROUPS], part);
                    else ewc_load_dense<C>(in, x + begin * p.x_step, part);
                }
            } else {
#pragma unroll
                for (int k = 0; k < LANES; k++) v[k] = begin + k < end ? ewc_load<C>(in, x + (begin + k) * p.x_step) : (C)-0.0;
            }
            if (!AHEAD || tile + TILE < end) fetch(here, begin + TILE);
            else fetch(after, after.start + tid * LANES);
#pragma unroll
            for (int k = 1; k < LANES; k++) v[k] = v[k - 1] + v[k];
            C before = v[LANES - 1], total;  // inclusive over the lanes, then exclusive
#pragma unroll
            for (int step = 1; step < 32; step <<= 1) {
                const C other = __shfl_up_sync(~0u, before, step);
                if (lane >= step) before = other + before;
            }
            total = __shfl_sync(~0u, before, 31);
            before = __shfl_up_sync(~0u, before, 1);
            if (lane == 0) before = (C)-0.0;
            if (WARPS > 1) {
                if (lane == 31) parts[parity][warp] = total;
                __syncthreads();
                C ahead = carry;
#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    if (w == warp) before = ahead + before;
                    ahead = ahead + parts[parity][w];
                }
                carry = ahead;
                parity ^= 1;
            } else {
                before = carry + before;
                carry = carry + total;
            }
            if (p.totals) continue;
#pragma unroll
            for (int k = 0; k < LANES; k++) v[k] = before + v[k];
            if (whole) {
#pragma unroll
                for (int g = 0; g < GROUPS; g++) ewc_store_dense<C>(out, y + (begin + g * EWC_LANES) * p.y_step, *(const C(*)[EWC_LANES])&v[g * EWC_LANES]);
            } else {
#pragma unroll
                for (int k = 0; k < LANES; k++)
                    if (begin + k < end) ewc_store<C>(out, y + (begin + k) * p.y_step, v[k]);
            }
        }
        if (p.totals && tid == 0) ((C *)p.totals)[unit] = carry;
        if (AHEAD) here = after;
    }
}

template <typename C, int DTYPE> static void launch_units(const scan_call &p, int sm_count, cudaStream_t stream) {
    const bool short_lines = p.piece <= 1024;
    const int64_t blocks = short_lines ? (p.count * p.pieces + 7) / 8 : p.count * p.pieces, most = (int64_t)sm_count * (short_lines || DTYPE == NBX_BFLOAT16 || DTYPE == NBX_FLOAT16 ? 4 : 8);
    const unsigned n = (unsigned)(blocks < most ? blocks : most);
    if (short_lines) scan_sums<C, DTYPE, 1><<<n, SCAN_THREADS, 0, stream>>>(p);
    else scan_sums<C, DTYPE, 8><<<n, SCAN_THREADS, 0, stream>>>(p);
}

// Halves are summed in float, float32 in double.
template <typename C> static void launch_sums(const scan_call &p, int sm_count, cudaStream_t stream) {
    constexpr bool HALVES = sizeof(C) == 4;
    if (HALVES && p.in == NBX_BFLOAT16) launch_units<C, HALVES ? NBX_BFLOAT16 : -1>(p, sm_count, stream);
    else if (HALVES && p.in == NBX_FLOAT16) launch_units<C, HALVES ? NBX_FLOAT16 : -1>(p, sm_count, stream);
    else if (!HALVES && !ewc_class<C>::integral && p.in == NBX_FLOAT32 && p.out == NBX_FLOAT32) launch_units<C, HALVES || ewc_class<C>::integral ? -1 : NBX_FLOAT32>(p, sm_count, stream);
    else launch_units<C, -1>(p, sm_count, stream);
}

// Dense lines of sums; in pieces: their totals, the running totals of these, and then the pieces themselves.
template <typename C> static void launch_sums_of(scan_call p, int64_t pieces, void *scratch, int sm_count, cudaStream_t stream) {
    p.pieces = pieces, p.piece = pieces > 1 ? SCAN_PIECE : p.length;
    if (pieces > 1) {
        p.totals = scratch;
        launch_sums<C>(p, sm_count, stream);
        scan_call t;
        memset(&t, 0, sizeof t);
        t.x = (const char *)scratch, t.y = (char *)((C *)scratch + p.count * pieces);
        t.in = t.out = ewc_class<C>::integral ? NBX_INT64 : sizeof(C) == 4 ? NBX_FLOAT32 : NBX_FLOAT64;
        t.count = p.count, t.length = t.piece = pieces, t.pieces = 1, t.x_step = t.y_step = sizeof(C);
        t.rank = 1, t.shape[0] = p.count, t.x_line[0] = t.y_line[0] = pieces * (int64_t)sizeof(C);
        launch_sums<C>(t, sm_count, stream);
        p.totals = NULL, p.starts = t.y;
    }
    launch_sums<C>(p, sm_count, stream);
}

template <typename C, bool PLACED> static void launch_state(const scan_call &p, bool rows, cudaStream_t stream) {
    if (rows) scan_rows<C, PLACED><<<(unsigned)p.count, SCAN_THREADS, 0, stream>>>(p);
    else scan_lines<C, PLACED><<<(unsigned)((p.count + SCAN_THREADS - 1) / SCAN_THREADS), SCAN_THREADS, 0, stream>>>(p);
}

template <typename C> static void launch(const scan_call &p, bool rows, cudaStream_t stream) {
    if constexpr (!ewc_class<C>::complex)
        if (p.index) return launch_state<C, true>(p, rows, stream);
    launch_state<C, false>(p, rows, stream);
}

static nbx_status scan_cuda(nbx_op_call *c) {
    const scan_job *job = (const scan_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0), *index = c->out_count > 1 ? out_get(c, 1) : NULL;
    const nbx_tensor *operands[3] = {y, x, index};
    if (y->numel == 0) return NBX_OK;
    lines l;
    lines_plan(&l, job->dim, index ? 3 : 2, operands);
    if (l.rank > SCAN_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", SCAN_DIMS);
    scan_call p;
    memset(&p, 0, sizeof p);
    p.x = (const char *)nbx_data(x), p.y = (char *)nbx_data(y), p.index = index ? (int64_t *)nbx_data(index) : NULL;
    p.in = job->in, p.cast = job->cast, p.out = y->dtype, p.op = job->op;
    p.through = job->cast != job->in && nbx_dtype_size((nbx_dtype)job->cast) < 8;
    p.count = l.count, p.length = l.length, p.y_step = l.along[0], p.x_step = l.along[1], p.index_step = index ? l.along[2] / 8 : 0;
    p.rank = l.rank;
    for (int d = 0; d < l.rank; d++) {
        p.shape[d] = l.shape[d], p.y_line[d] = l.step[0][d], p.x_line[d] = l.step[1][d];
        p.index_line[d] = index ? l.step[2][d] / 8 : 0;
    }
    const int64_t in = (int64_t)nbx_dtype_size((nbx_dtype)p.in), out = (int64_t)nbx_dtype_size((nbx_dtype)p.out);
    p.dense = p.x_step == in && p.y_step == out && (uintptr_t)p.x % 16 == 0 && (uintptr_t)p.y % 16 == 0;
    for (int d = 0; d < l.rank; d++) p.dense = p.dense && p.x_line[d] % 16 == 0 && p.y_line[d] % 16 == 0;
    const bool rows = (p.length > 256 && p.count < 4096) || (l.rank > 0 ? p.x_step <= l.step[1][0] : true);
    cudaStream_t stream = stream_of(c);
    if (p.dense && rows && p.op == SCAN_SUM && !p.through && job->domain != REDUCE_COMPLEX) {
        const int sm_count = nbx_cuda_device_facts(c->device.index)->sm_count;
        const int64_t pieces = scan_pieces(job, p.count, p.length);
        if (job->domain == REDUCE_I64) launch_sums_of<int64_t>(p, pieces, c->scratch, sm_count, stream);
        else if (p.in == p.out && (p.in == NBX_BFLOAT16 || p.in == NBX_FLOAT16)) launch_sums_of<float>(p, pieces, c->scratch, sm_count, stream);
        else launch_sums_of<double>(p, pieces, c->scratch, sm_count, stream);
        return launch_status(c);
    }
    if (job->domain == REDUCE_COMPLEX) launch<cdouble>(p, rows, stream);
    else if (job->domain == REDUCE_I64) launch<int64_t>(p, rows, stream);
    else launch<double>(p, rows, stream);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::cumsum", scan_cuda)
NBX_CUDA_KERNEL("aten::cumprod", scan_cuda)
NBX_CUDA_KERNEL("aten::cummax", scan_cuda)
NBX_CUDA_KERNEL("aten::cummin", scan_cuda)
NBX_CUDA_KERNEL("aten::logcumsumexp", scan_cuda)
