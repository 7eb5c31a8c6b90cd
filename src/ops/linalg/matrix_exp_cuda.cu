// matrix_exp on CUDA: the polynomial and the squarings of matrix_exp.c in one kernel, so that neither the degree nor how often a
// matrix is halved comes back to the host. A group of blocks has a matrix: one block where there are many, else as many as run
// at the same time at least, which meet after every product.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/linalg/matrix_exp.h"

enum { EXP_THREADS = 256, EXP_TILE = 64, EXP_DEPTH = 16, EXP_EACH = 4 };

typedef struct exp_call {
    flat in;                   // over the batch
    int64_t n, down, along;    // bytes between rows and columns
    char *out, *buffers;       // out: dense; buffers of a group after another
    double *norms;             // [group][part]
    unsigned *met;             // of each group: how often its blocks arrived
    int groups, parts, degrees;
    double reach[NBX_EXP_DEGREES];
} exp_call;

// Numbers that other blocks wrote come from L2.
static __device__ __forceinline__ float exp_get(const float *p) { return __ldcg(p); }
static __device__ __forceinline__ double exp_get(const double *p) { return __ldcg(p); }
static __device__ __forceinline__ cfloat exp_get(const cfloat *p) { const float2 z = __ldcg((const float2 *)p); return {z.x, z.y}; }
static __device__ __forceinline__ cdouble exp_get(const cdouble *p) { const double2 z = __ldcg((const double2 *)p); return {z.x, z.y}; }
static __device__ __forceinline__ float exp_fma(float a, float b, float c) { return fmaf(a, b, c); }
static __device__ __forceinline__ double exp_fma(double a, double b, double c) { return fma(a, b, c); }
static __device__ __forceinline__ cfloat exp_fma(cfloat a, cfloat b, cfloat c) { return {fmaf(-a.im, b.im, fmaf(a.re, b.re, c.re)), fmaf(a.im, b.re, fmaf(a.re, b.im, c.im))}; }
static __device__ __forceinline__ cdouble exp_fma(cdouble a, cdouble b, cdouble c) { return {fma(-a.im, b.im, fma(a.re, b.re, c.re)), fma(a.im, b.re, fma(a.re, b.im, c.im))}; }
static __device__ __forceinline__ float exp_scaled(float x, double f, float c) { return c + (float)f * x; }
static __device__ __forceinline__ double exp_scaled(double x, double f, double c) { return c + f * x; }
static __device__ __forceinline__ cfloat exp_scaled(cfloat x, double f, cfloat c) { return {c.re + (float)f * x.re, c.im + (float)f * x.im}; }
static __device__ __forceinline__ cdouble exp_scaled(cdouble x, double f, cdouble c) { return {c.re + f * x.re, c.im + f * x.im}; }
static __device__ __forceinline__ double exp_size(float x) { return fabs((double)x); }
static __device__ __forceinline__ double exp_size(double x) { return fabs(x); }
static __device__ __forceinline__ double exp_size(cfloat x) { return hypot((double)x.re, (double)x.im); }
static __device__ __forceinline__ double exp_size(cdouble x) { return hypot(x.re, x.im); }

template <typename C> struct exp_group {
    const exp_call &p;
    int group, part;
    unsigned arrivals;
    C *first;  // of the buffers

    __device__ __forceinline__ exp_group(const exp_call &call) : p(call), group((int)blockIdx.x / call.parts), part((int)blockIdx.x % call.parts), arrivals(0) {
        first = (C *)call.buffers + (int64_t)group * NBX_EXP_BUFFERS * call.n * call.n;
    }
    // A^k, k from 1; then what products alternate between.
    __device__ __forceinline__ C *power(int k) const { return first + (int64_t)(k - 1) * p.n * p.n; }
    // All blocks of the group.
    __device__ __forceinline__ void meet() {
        arrivals += (unsigned)p.parts;
        __syncthreads();
        if (p.parts == 1) return;
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(&p.met[group], 1u);
            while (*(volatile unsigned *)&p.met[group] < arrivals) {}
            __threadfence();
        }
        __syncthreads();
    }
    // f(i) for every element, by the group.
    template <typename F> __device__ __forceinline__ void each(F f) const {
        for (int64_t i = (int64_t)part * EXP_THREADS + threadIdx.x; i < p.n * p.n; i += (int64_t)p.parts * EXP_THREADS) f(i);
    }
    // Element i of a sum, with the terms of a block of the polynomial: powers below q, and the identity.
    __device__ __forceinline__ C with_terms(int q, int block, int64_t i, C x) const {
        for (int k = q - 1; k >= 1; k--) x = exp_scaled(exp_get(power(k) + i), 1 / factorial_of(block * q + k), x);
        return i % (p.n + 1) == 0 ? exp_scaled(ewc_from<C, float>::get(1.f), 1 / factorial_of(block * q), x) : x;
    }
    // to = a x b; with the terms of a block where that is not negative.
    __device__ __noinline__ void product(const C *a, const C *b, C *to, int q, int block) const {
        __shared__ C left[EXP_DEPTH][EXP_TILE + 1], right[EXP_DEPTH][EXP_TILE + 1];
        const int64_t n = p.n, across = (n + EXP_TILE - 1) / EXP_TILE;
        const int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
        for (int64_t tile = part; tile < across * across; tile += p.parts) {
            const int64_t row0 = tile / across * EXP_TILE, col0 = tile % across * EXP_TILE;
            C sum[EXP_EACH][EXP_EACH];
#pragma unroll
            for (int i = 0; i < EXP_EACH; i++)
#pragma unroll
                for (int j = 0; j < EXP_EACH; j++) sum[i][j] = ewc_from<C, float>::get(0.f);
            for (int64_t k0 = 0; k0 < n; k0 += EXP_DEPTH) {
#pragma unroll
                for (int i = tid; i < EXP_DEPTH * EXP_TILE; i += EXP_THREADS) {
                    const int64_t lk = k0 + i % EXP_DEPTH, lr = row0 + i / EXP_DEPTH, rk = k0 + i / EXP_TILE, rc = col0 + i % EXP_TILE;
                    left[i % EXP_DEPTH][i / EXP_DEPTH] = lk < n && lr < n ? exp_get(a + lr * n + lk) : ewc_from<C, float>::get(0.f);
                    right[i / EXP_TILE][i % EXP_TILE] = rk < n && rc < n ? exp_get(b + rk * n + rc) : ewc_from<C, float>::get(0.f);
                }
                __syncthreads();
#pragma unroll 4
                for (int k = 0; k < EXP_DEPTH; k++) {
                    C x[EXP_EACH], y[EXP_EACH];
#pragma unroll
                    for (int i = 0; i < EXP_EACH; i++) x[i] = left[k][ty * EXP_EACH + i], y[i] = right[k][tx + 16 * i];
#pragma unroll
                    for (int i = 0; i < EXP_EACH; i++)
#pragma unroll
                        for (int j = 0; j < EXP_EACH; j++) sum[i][j] = exp_fma(x[i], y[j], sum[i][j]);
                }
                __syncthreads();
            }
#pragma unroll
            for (int i = 0; i < EXP_EACH; i++)
#pragma unroll
                for (int j = 0; j < EXP_EACH; j++) {
                    const int64_t row = row0 + ty * EXP_EACH + i, col = col0 + tx + 16 * j;
                    if (row < n && col < n) to[row * n + col] = block < 0 ? sum[i][j] : with_terms(q, block, row * n + col, sum[i][j]);
                }
        }
    }
    // The largest sum of a row of buffer 0: the same in every block.
    __device__ __forceinline__ double norm() {
        __shared__ double most[EXP_THREADS / 32];
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const auto larger_of = [](double a, double b) { return b > a || b != b ? b : a; };
        double top = 0;
        for (int64_t row = (int64_t)part * (EXP_THREADS / 32) + warp; row < p.n; row += (int64_t)p.parts * (EXP_THREADS / 32)) {
            double sum = 0;
            for (int64_t j = lane; j < p.n; j += 32) sum += exp_size(exp_get(first + row * p.n + j));
            for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
            top = larger_of(top, sum);
        }
        if (lane == 0) most[warp] = top;
        __syncthreads();
        double *own = p.norms + (int64_t)group * NBX_EXP_PARTS;
        if (threadIdx.x == 0) {
            for (int w = 1; w < EXP_THREADS / 32; w++) top = larger_of(top, most[w]);
            own[part] = top;
        }
        meet();
        top = 0;
        for (int k = 0; k < p.parts; k++) top = larger_of(top, *(volatile double *)&own[k]);
        return top;
    }
    // exp of the matrix in buffer 0; the buffer that holds it.
    __device__ __forceinline__ C *exponential(double norm) {
        int at = 0, halvings = 0;
        while (at < p.degrees - 1 && !(norm <= p.reach[at])) at++;
        if (!(norm <= p.reach[at])) halvings = (int)ceil(log2(norm / p.reach[at]));
        const int q = degree(at, true), r = degree(at, false);
        C *sum = power(NBX_EXP_POWERS + 1), *next = power(NBX_EXP_POWERS + 2);
        if (halvings) {
            each([&](int64_t i) { first[i] = exp_scaled(exp_get(first + i), ldexp(1., -halvings), ewc_from<C, float>::get(0.f)); });
            meet();
        }
        for (int k = 2; k <= q; k++) {
            product(power(k - 1), first, power(k), q, -1);
            meet();
        }
        each([&](int64_t i) { sum[i] = with_terms(q, r - 1, i, exp_scaled(exp_get(power(q) + i), 1 / factorial_of(q * r), ewc_from<C, float>::get(0.f))); });
        meet();
        for (int block = r - 2; block >= -halvings; block--) {  // those below 0: squarings
            product(sum, block >= 0 ? power(q) : sum, next, q, block);
            meet();
            C *held = sum;
            sum = next, next = held;
        }
        return sum;
    }
    static __device__ __forceinline__ int degree(int i, bool of_q) {
        constexpr int q[NBX_EXP_DEGREES] = {1, 2, 2, 3, 3, 4, 4, 5}, r[NBX_EXP_DEGREES] = {1, 1, 2, 2, 3, 3, 4, 4};
        return of_q ? q[i] : r[i];
    }
    static __device__ __forceinline__ double factorial_of(int n) {
        double product = 1;
        for (int i = 2; i <= n; i++) product *= i;
        return product;
    }
};

template <typename C> static __global__ void __launch_bounds__(EXP_THREADS, 2) exp_matrices(const __grid_constant__ exp_call p) {
    exp_group<C> g(p);
    for (int64_t index = g.group; index < p.in.count; index += p.groups) {
        const char *from = flat_at(p.in, index);
        char *to = p.out + index * p.n * p.n * p.in.width;
        g.each([&](int64_t i) { g.first[i] = ewc_load<C>(p.in.dtype, from + i / p.n * p.down + i % p.n * p.along); });
        g.meet();
        const double norm = g.norm();
        if (isfinite(norm)) {
            const C *result = g.exponential(norm);
            g.each([&](int64_t i) { ewc_store<C>(p.in.dtype, to + i * p.in.width, exp_get(result + i)); });
        } else {
            const cdouble nan = {NAN, NAN};
            g.each([&](int64_t i) {
                if constexpr (ewc_class<C>::complex) ewc_store<cdouble>(p.in.dtype, to + i * p.in.width, nan);
                else ewc_store<C>(p.in.dtype, to + i * p.in.width, (C)NAN);
            });
        }
        g.meet();  // before buffers and norms are written again
    }
}

static nbx_status matrix_exp_cuda(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *out = out_get(c, 0);
    if (out->numel == 0) return NBX_OK;
    exp_call p = {};
    nbx_status status = flat_of_dims(c, a, ((uint64_t)1 << (a->rank - 2)) - 1, &p.in);
    if (status != NBX_OK) return status;
    const nbx_dtype dtype = a->dtype == NBX_FLOAT16 || a->dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : (nbx_dtype)a->dtype;
    p.n = a->shape[a->rank - 1];
    p.down = a->stride[a->rank - 2] * p.in.width, p.along = a->stride[a->rank - 1] * p.in.width;
    p.out = (char *)nbx_data(out);
    p.degrees = nbx_exp_degree_count(dtype);
    for (int i = 0; i < p.degrees; i++) p.reach[i] = nbx_exp_reach(dtype, i);
    p.groups = (int)nbx_exp_groups(p.in.count);
    const int64_t across = (p.n + EXP_TILE - 1) / EXP_TILE, tiles = across * across, most = nbx_cuda_device_facts(c->device.index)->sm_count / p.groups;
    p.parts = (int)(tiles < most ? tiles : most);
    p.parts = p.parts < 1 ? 1 : p.parts > NBX_EXP_PARTS ? (int)NBX_EXP_PARTS : p.parts;
    p.norms = (double *)c->scratch;
    p.met = (unsigned *)(p.norms + p.groups * NBX_EXP_PARTS);
    p.buffers = (char *)(p.norms + p.groups * (NBX_EXP_PARTS + 1));
    p.buffers += (16 - (uintptr_t)p.buffers % 16) % 16;
    cudaStream_t stream = stream_of(c);
    status = nbx_cuda_set_bytes(c, p.met, 0, (size_t)p.groups * sizeof(unsigned));
    if (status != NBX_OK) return status;
    const unsigned blocks = (unsigned)(p.groups * p.parts);
    switch (dtype) {
    case NBX_FLOAT32: exp_matrices<float><<<blocks, EXP_THREADS, 0, stream>>>(p); break;
    case NBX_FLOAT64: exp_matrices<double><<<blocks, EXP_THREADS, 0, stream>>>(p); break;
    case NBX_COMPLEX64: exp_matrices<cfloat><<<blocks, EXP_THREADS, 0, stream>>>(p); break;
    default: exp_matrices<cdouble><<<blocks, EXP_THREADS, 0, stream>>>(p); break;
    }
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::linalg_matrix_exp", matrix_exp_cuda)
NBX_CUDA_KERNEL("aten::matrix_exp", matrix_exp_cuda)
