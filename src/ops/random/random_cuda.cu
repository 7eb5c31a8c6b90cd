// Random numbers on CUDA: Philox4x32-10 (Salmon and others, 2011) as PyTorch's CUDA generator runs it, so that the same seed
// and the same calls give its numbers. A call of a thread gives 4 words; thread t has the stream t of the seed, from the
// generator's offset on. A grid of at most what the device holds at once strides over the elements as they lie in memory; the
// words of one call go to elements a whole grid apart.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/random/draw.h"
#include "ops/random/generator.h"
#include "ops/sort/keys.cuh"

#include <float.h>
#include <math.h>

enum { DRAW_THREADS = 256, DRAW_EACH_THREADS = 512 };

typedef struct philox {
    uint64_t seed, offset;
} philox;

static __device__ uint4 philox_words(const philox &p, uint64_t stream, uint64_t call) {
    const uint64_t counter = p.offset / 4 + call;
    uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = (uint32_t)stream, d = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)p.seed, k1 = (uint32_t)(p.seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        const uint32_t high_a = __umulhi(0xd2511f53u, a), low_a = 0xd2511f53u * a, high_c = __umulhi(0xcd9e8d57u, c), low_c = 0xcd9e8d57u * c;
        a = high_c ^ b ^ k0, b = low_c, c = high_a ^ d ^ k1, d = low_a;
    }
    return make_uint4(a, b, c, d);
}

// --------------------------------------------------------------------------------------------- numbers of a call's 4 words
// In (0, 1].
static __device__ __forceinline__ float unit(uint32_t x) { return fmaf((float)x, 0x1p-32f, 0x1p-33f); }
static __device__ __forceinline__ double unit(uint32_t low, uint32_t high) { return fma((double)((uint64_t)low ^ (uint64_t)high << 21), 0x1p-53, 0x1p-54); }

template <typename A> struct call_of;
template <> struct call_of<float> {
    enum { NUMBERS = 4 };
    static __device__ void uniform(uint4 w, float (&x)[4]) { x[0] = unit(w.x), x[1] = unit(w.y), x[2] = unit(w.z), x[3] = unit(w.w); }
    static __device__ void pair(uint32_t u, uint32_t v, float *x) {
        const float radius = sqrtf(-2.f * logf(unit(u))), angle = 0x1p-32f * 6.2831855f;
        __sincosf(fmaf((float)v, angle, angle / 2), &x[0], &x[1]);
        x[0] *= radius, x[1] *= radius;
    }
    static __device__ void normal(uint4 w, float (&x)[4]) { pair(w.x, w.y, x), pair(w.z, w.w, x + 2); }
};
template <> struct call_of<double> {
    enum { NUMBERS = 2 };
    static __device__ void uniform(uint4 w, double (&x)[2]) { x[0] = unit(w.x, w.y), x[1] = unit(w.z, w.w); }
    static __device__ void normal(uint4 w, double (&x)[2]) {
        const double radius = sqrt(-2 * log(unit(w.x, w.y))), turn = fma((double)((uint64_t)w.z ^ (uint64_t)w.w << 21), 0x1p-52, 0x1p-53);
        sincospi(turn, &x[0], &x[1]);
        x[0] *= radius, x[1] *= radius;
    }
};
template <> struct call_of<uint32_t> { enum { NUMBERS = 4 }; };
template <> struct call_of<uint64_t> { enum { NUMBERS = 2 }; };

// float: by the hardware's functions, as PyTorch has them here.
static __device__ __forceinline__ float log_of(float x) { return __logf(x); }
static __device__ __forceinline__ double log_of(double x) { return log(x); }
static __device__ __forceinline__ float log1p_of(float x) { return __logf(1.f + x); }
static __device__ __forceinline__ double log1p_of(double x) { return log1p(x); }
static __device__ __forceinline__ float exp_of(float x) { return __expf(x); }
static __device__ __forceinline__ double exp_of(double x) { return exp(x); }
static __device__ __forceinline__ float tan_of(float x) { return __tanf(x); }
static __device__ __forceinline__ double tan_of(double x) { return tan(x); }

template <typename A> static __device__ __forceinline__ A cauchy_of(A u, A median, A sigma) {
    const A eps = sizeof(A) == 8 ? (A)0 : (A)FLT_EPSILON;  // float's tangent has no value at the ends
    u = u > 1 - eps ? 1 - eps : u < eps ? eps : u;
    return fma(sigma, tan_of((A)3.14159265358979323846 * (u - (A)0.5)), median);
}

template <typename A> static __device__ A number_of(const nbx_draw &d, A x) {
    const A a = (A)d.a, b = (A)d.b, half_eps = (A)(sizeof(A) == 8 ? DBL_EPSILON / 2 : FLT_EPSILON / 2);
    switch (d.kind) {
    case DRAW_UNIFORM: {  // the bounds are turned round: [from, to)
        if (d.dtype == NBX_FLOAT32 || d.dtype == NBX_FLOAT64) {
            const A y = fma(x, b - a, a);
            return y == b ? a : y;
        }
        const A from = ewc_through<A>(d.dtype, a), to = ewc_through<A>(d.dtype, b), range = ewc_through<A>(d.dtype, to - from);
        const A y = ewc_through<A>(d.dtype, fma(x, range, from));
        return y == to ? from : y;
    }
    case DRAW_NORMAL: return fma(x, b, a);
    case DRAW_LOG_NORMAL: return exp_of(fma(x, b, a));
    case DRAW_EXPONENTIAL: return -1 / a * (x >= 1 - half_eps ? -half_eps : log_of(x));
    case DRAW_GEOMETRIC: return ceil(log_of(x) / log1p_of(-a));
    case DRAW_CAUCHY: return cauchy_of(x, a, b);
    default: return (A)(x < a);  // DRAW_BERNOULLI
    }
}

static __device__ __forceinline__ int64_t whole_of(const nbx_draw &d, uint64_t x) {
    if (d.kind == DRAW_RANGE) return (int64_t)((d.range ? x % d.range : x) + (uint64_t)d.base);
    switch (d.dtype) {
    case NBX_INT64: return (int64_t)(x & INT64_MAX);
    case NBX_FLOAT64: return (int64_t)(x % (((uint64_t)1 << 53) + 1));
    case NBX_FLOAT32: return (int64_t)(x % ((1u << 24) + 1));
    case NBX_FLOAT16: return (int64_t)(x % ((1u << 11) + 1));
    case NBX_BFLOAT16: return (int64_t)(x % ((1u << 8) + 1));
    case NBX_BOOL: return (int64_t)(x & 1);
    case NBX_INT8: return (int64_t)(x & 0x7f);
    case NBX_INT16: return (int64_t)(x & 0x7fff);
    case NBX_INT32: return (int64_t)(x & 0x7fffffff);
    default: return (int64_t)x;
    }
}

// ------------------------------------------------------------------------------------------------------------- filling
static __device__ __forceinline__ void draw_numbers(const nbx_draw &d, uint4 w, float (&x)[4]) {
    if (d.kind == DRAW_NORMAL || d.kind == DRAW_LOG_NORMAL) call_of<float>::normal(w, x);
    else call_of<float>::uniform(w, x);
}
static __device__ __forceinline__ void draw_numbers(const nbx_draw &d, uint4 w, double (&x)[2]) {
    if (d.kind == DRAW_NORMAL || d.kind == DRAW_LOG_NORMAL) call_of<double>::normal(w, x);
    else call_of<double>::uniform(w, x);
}
static __device__ __forceinline__ void draw_numbers(const nbx_draw &, uint4 w, uint32_t (&x)[4]) { x[0] = w.x, x[1] = w.y, x[2] = w.z, x[3] = w.w; }
static __device__ __forceinline__ void draw_numbers(const nbx_draw &, uint4 w, uint64_t (&x)[2]) {
    x[0] = (uint64_t)w.x << 32 | w.y, x[1] = (uint64_t)w.z << 32 | w.w;
}
static __device__ __forceinline__ void put(const nbx_draw &d, char *at, float x) { ewc_store<float>(d.dtype, at, number_of(d, x)); }
static __device__ __forceinline__ void put(const nbx_draw &d, char *at, double x) { ewc_store<double>(d.dtype, at, number_of(d, x)); }
static __device__ __forceinline__ void put(const nbx_draw &d, char *at, uint32_t x) { ewc_store<int64_t>(d.dtype, at, whole_of(d, x)); }
static __device__ __forceinline__ void put(const nbx_draw &d, char *at, uint64_t x) { ewc_store<int64_t>(d.dtype, at, whole_of(d, x)); }

template <typename A> static __global__ void __launch_bounds__(DRAW_THREADS) fill_numbers(const __grid_constant__ nbx_draw d, const __grid_constant__ flat out, philox p) {
    enum { NUMBERS = call_of<A>::NUMBERS };
    const int64_t thread = (int64_t)blockIdx.x * DRAW_THREADS + threadIdx.x, apart = (int64_t)gridDim.x * DRAW_THREADS;
    uint64_t call = 0;
    for (int64_t first = thread; first < out.count; first += apart * NUMBERS) {
        A x[NUMBERS];
        draw_numbers(d, philox_words(p, (uint64_t)thread, call++), x);
        for (int k = 0; k < NUMBERS; k++)
            if (first + k * apart < out.count) put(d, flat_at(out, first + k * apart), x[k]);
    }
}

// Blocks of a fill, and what it takes from the generator.
static unsigned blocks_of(nbx_op_call *c, nbx_generator *g, int64_t count, int numbers, philox *p) {
    const nbx_cuda_facts *facts = nbx_cuda_device_facts(c->device.index);
    const int64_t most = (int64_t)facts->sm_count * (facts->threads_per_sm / DRAW_THREADS), wanted = (count + DRAW_THREADS - 1) / DRAW_THREADS;
    const int64_t blocks = wanted < most ? wanted : most, calls = (count - 1) / (DRAW_THREADS * blocks * numbers) + 1;
    p->seed = g->seed, p->offset = nbx_generator_reserve(g, (uint64_t)calls * 4);
    return (unsigned)blocks;
}

// Elements in the order of memory. Complex numbers are pairs, whose parts have half the variance.
static nbx_status memory_order(nbx_op_call *c, const nbx_tensor *t, nbx_draw *d, flat *f) {
    int order[NBX_MAX_RANK], rank = 0;
    for (int i = 0; i < t->rank; i++) {
        int at = rank++;
        for (; at > 0 && t->stride[order[at - 1]] < t->stride[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    flat_begin(f, t);
    nbx_status status = NBX_OK;
    for (int i = 0; i < rank && status == NBX_OK; i++) status = flat_push(c, f, t->shape[order[i]], t->stride[order[i]] * f->width);
    if (!nbx_dtype_is_complex(d->dtype) || status != NBX_OK) return status;
    d->dtype = nbx_dtype_to_real(d->dtype);
    if (d->kind == DRAW_NORMAL) d->b /= sqrt(2.0);
    f->dtype = d->dtype, f->width /= 2;
    return flat_push(c, f, 2, f->width);
}

static void launch_fill(nbx_op_call *c, nbx_generator *g, const nbx_draw &d, const flat &out) {
    const bool whole = d.kind == DRAW_RANGE || d.kind == DRAW_FULL;
    const bool wide = d.kind == DRAW_RANGE  ? d.range == 0 || d.range >= (uint64_t)1 << 28
                      : d.kind == DRAW_FULL ? d.dtype == NBX_INT64 || d.dtype == NBX_UINT64 || d.dtype == NBX_FLOAT64
                                            : d.dtype == NBX_FLOAT64;
    philox p;
    const unsigned blocks = blocks_of(c, g, out.count, wide ? 2 : 4, &p);
    if (whole && wide) fill_numbers<uint64_t><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(d, out, p);
    else if (whole) fill_numbers<uint32_t><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(d, out, p);
    else if (wide) fill_numbers<double><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(d, out, p);
    else fill_numbers<float><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(d, out, p);
}

static nbx_status fill_cuda(nbx_op_call *c) {
    const nbx_fill_form *f = (const nbx_fill_form *)c->op->data;
    const nbx_tensor *out = out_get(c, 0);
    nbx_draw d;
    flat elements;
    nbx_status status = nbx_draw_of(c, (nbx_dtype)out->dtype, &d);
    nbx_generator *g = nbx_generator_of(c, f->generator);
    if (status != NBX_OK || !g) return c->ctx->status;
    if (out->numel == 0) return NBX_OK;
    if (nbx_dtype_is_complex(d.dtype) && d.kind != DRAW_UNIFORM && d.kind != DRAW_NORMAL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(d.dtype));
    status = memory_order(c, out, &d, &elements);
    if (status != NBX_OK) return status;
    launch_fill(c, g, d, elements);
    return launch_status(c);
}

// ------------------------------------------------------------------------------------------------- with tensors of parameters
// A source of as many numbers as one element wants.
typedef struct variate_source {
    philox p;
    uint64_t stream, call;
    uint4 words;
    bool half;         // two of the words are left
    bool has_normal;
    double normal;
} variate_source;

static __device__ double variate_uniform(variate_source *s) {
    if (!s->half) s->words = philox_words(s->p, s->stream, s->call++);
    const uint64_t word = s->half ? (uint64_t)s->words.z << 32 | s->words.w : (uint64_t)s->words.x << 32 | s->words.y;
    s->half = !s->half;
    return (double)(word >> 11) * 0x1p-53;
}

static __device__ double variate_normal(variate_source *s) {
    if (s->has_normal) {
        s->has_normal = false;
        return s->normal;
    }
    const double radius = sqrt(-2 * log1p(-variate_uniform(s))), turn = 2 * variate_uniform(s);
    double x;
    sincospi(turn, &s->normal, &x);
    s->normal *= radius, s->has_normal = true;
    return x * radius;
}

#include "ops/random/variates.h"

static __global__ void __launch_bounds__(DRAW_EACH_THREADS) draw_each(const __grid_constant__ nbx_draw d, const __grid_constant__ flat out, const __grid_constant__ flat second,
                                                                     const __grid_constant__ flat third, philox p, nbx_fault_slot *fault, int op) {
    const int64_t i = (int64_t)blockIdx.x * DRAW_EACH_THREADS + threadIdx.x;
    if (i >= out.count) return;
    const double a = ewc_load<double>(second.dtype, flat_at(second, i)), b = third.data ? ewc_load<double>(third.dtype, flat_at(third, i)) : 0;
    variate_source s = {p, (uint64_t)i, 0, {0, 0, 0, 0}, false, false, 0};
    bool right = true;
    double x = 0;
    if (d.kind == DRAW_POISSON) {
        right = a >= 0;
        if (right) x = (double)poisson_of(&s, a);
    } else if (d.kind == DRAW_GAMMA) {
        const double least = d.dtype == NBX_FLOAT64 ? 2.2250738585072014e-308 : 1.17549435e-38;
        x = gamma_of(&s, a);
        x = x < least ? least : x;
    } else {
        right = a >= 0 && b >= 0 && b <= 1;
        if (right) x = binomial_of(&s, a, b);
    }
    if (!right) raise_fault(fault, op, NBX_FAULT_ASSERT, i, 0);
    ewc_store<double>(d.dtype, flat_at(out, i), x);
}

// bernoulli of a tensor: a thread has four neighbours.
static __global__ void __launch_bounds__(DRAW_EACH_THREADS) draw_truths(nbx_dtype dtype, const __grid_constant__ flat out, const __grid_constant__ flat chances, philox p,
                                                                       nbx_fault_slot *fault, int op) {
    const int64_t thread = (int64_t)blockIdx.x * DRAW_EACH_THREADS + threadIdx.x;
    if (4 * thread >= out.count) return;
    float x[4];
    call_of<float>::uniform(philox_words(p, (uint64_t)thread, 0), x);
    for (int k = 0; k < 4 && 4 * thread + k < out.count; k++) {
        const double chance = ewc_load<double>(chances.dtype, flat_at(chances, 4 * thread + k));
        if (!(chance >= 0 && chance <= 1)) raise_fault(fault, op, NBX_FAULT_ASSERT, 4 * thread + k, 0);
        ewc_store<float>(dtype, flat_at(out, 4 * thread + k), (double)x[k] <= chance ? 1.f : 0.f);
    }
}

static nbx_status fill_by_tensors_cuda(nbx_op_call *c) {
    const nbx_fill_form *f = (const nbx_fill_form *)c->op->data;
    const nbx_tensor *out = out_get(c, 0), *third = f->kind == DRAW_BINOMIAL ? arg_tensor(c, f->b) : NULL;
    nbx_draw d;
    flat elements, a, b = {};
    int op;
    nbx_status status = nbx_draw_of(c, (nbx_dtype)out->dtype, &d);
    nbx_generator *g = nbx_generator_of(c, f->generator);
    if (status != NBX_OK || !g) return c->ctx->status;
    if (out->numel == 0) return NBX_OK;
    status = flat_of(c, out, &elements);
    if (status == NBX_OK) status = flat_broadcast(c, arg_tensor(c, f->a), out->rank, out->shape, &a);
    if (status == NBX_OK && third) status = flat_broadcast(c, third, out->rank, out->shape, &b);
    if (status != NBX_OK) return status;
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    const int64_t threads = f->kind == DRAW_BERNOULLI_TENSOR ? (out->numel + 3) / 4 : out->numel;
    const unsigned blocks = (unsigned)((threads + DRAW_EACH_THREADS - 1) / DRAW_EACH_THREADS);
    const philox p = {g->seed, nbx_generator_reserve(g, f->kind == DRAW_BERNOULLI_TENSOR ? 10 : 256)};
    if (f->kind == DRAW_BERNOULLI_TENSOR) draw_truths<<<blocks, DRAW_EACH_THREADS, 0, stream_of(c)>>>(d.dtype, elements, a, p, fault, op);
    else draw_each<<<blocks, DRAW_EACH_THREADS, 0, stream_of(c)>>>(d, elements, a, b, p, fault, op);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::uniform", fill_cuda)
NBX_CUDA_KERNEL("aten::normal_functional", fill_cuda)
NBX_CUDA_KERNEL("aten::log_normal", fill_cuda)
NBX_CUDA_KERNEL("aten::exponential", fill_cuda)
NBX_CUDA_KERNEL("aten::geometric", fill_cuda)
NBX_CUDA_KERNEL("aten::cauchy", fill_cuda)
NBX_CUDA_KERNEL("aten::bernoulli.p", fill_cuda)
NBX_CUDA_KERNEL("aten::random", fill_cuda)
NBX_CUDA_KERNEL("aten::random.from", fill_cuda)
NBX_CUDA_KERNEL("aten::random.to", fill_cuda)
NBX_CUDA_KERNEL("aten::normal.float_float", fill_cuda)
NBX_CUDA_KERNEL("aten::rand", fill_cuda)
NBX_CUDA_KERNEL("aten::rand.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randn", fill_cuda)
NBX_CUDA_KERNEL("aten::randn.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randint", fill_cuda)
NBX_CUDA_KERNEL("aten::randint.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randint.low", fill_cuda)
NBX_CUDA_KERNEL("aten::randint.low_generator", fill_cuda)
NBX_CUDA_KERNEL("aten::rand_like", fill_cuda)
NBX_CUDA_KERNEL("aten::rand_like.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randn_like", fill_cuda)
NBX_CUDA_KERNEL("aten::randn_like.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randint_like", fill_cuda)
NBX_CUDA_KERNEL("aten::randint_like.generator", fill_cuda)
NBX_CUDA_KERNEL("aten::randint_like.low_dtype", fill_cuda)
NBX_CUDA_KERNEL("aten::randint_like.low_generator_dtype", fill_cuda)
NBX_CUDA_KERNEL("aten::bernoulli", fill_by_tensors_cuda)
NBX_CUDA_KERNEL("aten::bernoulli.Tensor", fill_by_tensors_cuda)
NBX_CUDA_KERNEL("aten::poisson", fill_by_tensors_cuda)
NBX_CUDA_KERNEL("aten::_standard_gamma", fill_by_tensors_cuda)
NBX_CUDA_KERNEL("aten::binomial", fill_by_tensors_cuda)

// --------------------------------------------------------------------------------------------------------------- rrelu
template <typename A> static __global__ void __launch_bounds__(DRAW_THREADS) leak(const __grid_constant__ flat x, const __grid_constant__ flat noise, const __grid_constant__ flat y,
                                                                                 double lower, double upper, philox p) {
    enum { NUMBERS = call_of<A>::NUMBERS };
    const int64_t thread = (int64_t)blockIdx.x * DRAW_THREADS + threadIdx.x, apart = (int64_t)gridDim.x * DRAW_THREADS;
    uint64_t call = 0;
    for (int64_t first = thread; first < y.count; first += apart * NUMBERS) {
        A u[NUMBERS];
        call_of<A>::uniform(philox_words(p, (uint64_t)thread, call++), u);
        for (int k = 0; k < NUMBERS; k++) {
            const int64_t i = first + k * apart;
            if (i >= y.count) break;
            const double value = ewc_load<double>(x.dtype, flat_at(x, i)), slope = ewc_through<double>(noise.dtype, ewc_through<double>(x.dtype, (double)u[k]) * (upper - lower) + lower);
            ewc_store<double>(noise.dtype, flat_at(noise, i), value <= 0 ? slope : 1);
            ewc_store<double>(y.dtype, flat_at(y, i), value <= 0 ? value * slope : value);
        }
    }
}

static __global__ void __launch_bounds__(DRAW_THREADS) leak_evenly(const __grid_constant__ flat x, const __grid_constant__ flat y, double slope) {
    const int64_t i = flat_item();
    if (i >= y.count) return;
    const double value = ewc_load<double>(x.dtype, flat_at(x, i));
    ewc_store<double>(y.dtype, flat_at(y, i), value <= 0 ? value * slope : value);
}

static nbx_status rrelu_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const double lower = nbx_scalar_to_double(&c->args[2]), upper = nbx_scalar_to_double(&c->args[3]);
    flat x, noise, y;
    nbx_status status = flat_of(c, self, &x);
    if (status == NBX_OK) status = flat_of(c, out_get(c, 1), &noise);
    if (status == NBX_OK) status = flat_of(c, out_get(c, 0), &y);
    if (status != NBX_OK || y.count == 0) return status;
    if (!arg_bool(c, 4)) {
        leak_evenly<<<flat_blocks(y.count), DRAW_THREADS, 0, stream_of(c)>>>(x, y, (lower + upper) / 2);
        status = launch_status(c);
        return status == NBX_OK ? nbx_cuda_copy(c, out_get(c, 1), arg_tensor(c, 1)) : status;
    }
    nbx_generator *g = nbx_generator_of(c, 5);
    if (!g) return c->ctx->status;
    philox p;
    const bool wide = self->dtype == NBX_FLOAT64;
    const unsigned blocks = blocks_of(c, g, y.count, wide ? 2 : 4, &p);
    if (wide) leak<double><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(x, noise, y, lower, upper, p);
    else leak<float><<<blocks, DRAW_THREADS, 0, stream_of(c)>>>(x, noise, y, lower, upper, p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::rrelu_with_noise_functional", rrelu_cuda)

// ------------------------------------------------------------------------------------------------------------ randperm
// Numbers sorted by random keys, of so many bits that equal ones are rare; those are shuffled by the first thread of each run.
static __global__ void __launch_bounds__(FLAT_THREADS) mask_keys(int width, char *keys, int64_t count, uint64_t mask) {
    const int64_t i = flat_item();
    if (i >= count) return;
    if (width == 4) ((uint32_t *)keys)[i] = mask == 0xffffffffu ? ((uint32_t *)keys)[i] ^ 0x80000000u : ((uint32_t *)keys)[i] & (uint32_t)mask;
    else ((uint64_t *)keys)[i] = mask == ~(uint64_t)0 ? ((uint64_t *)keys)[i] ^ (uint64_t)1 << 63 : ((uint64_t *)keys)[i] & mask;
}

static __global__ void __launch_bounds__(DRAW_EACH_THREADS) shuffle_runs(const uint64_t *keys, uint32_t *places, int64_t count, philox p) {
    const int64_t i = (int64_t)blockIdx.x * DRAW_EACH_THREADS + threadIdx.x;
    if (i >= count - 1 || keys[i] != keys[i + 1] || (i > 0 && keys[i] == keys[i - 1])) return;
    int64_t size = 2;
    while (i + size < count && keys[i + size] == keys[i]) size++;
    uint4 words = {};
    for (int64_t k = size - 1, drawn = 0; k > 0; k--, drawn++) {
        if (drawn % 4 == 0) words = philox_words(p, (uint64_t)i, (uint64_t)drawn / 4);
        const uint32_t word = drawn % 4 == 0 ? words.x : drawn % 4 == 1 ? words.y : drawn % 4 == 2 ? words.z : words.w;
        const int64_t other = (int64_t)(word % (uint32_t)(k + 1));
        const uint32_t place = places[i + k];
        places[i + k] = places[i + other], places[i + other] = place;
    }
}

static __global__ void __launch_bounds__(FLAT_THREADS) write_places(const uint32_t *places, const __grid_constant__ flat out) {
    const int64_t i = flat_item();
    if (i < out.count) ewc_store<int64_t>(out.dtype, flat_at(out, i), (int64_t)places[i]);
}

static nbx_status randperm_cuda(nbx_op_call *c) {
    const nbx_tensor *result = out_get(c, 0);
    const int64_t n = result->numel;
    flat out, keys = {};
    nbx_status status = flat_of(c, result, &out);
    nbx_generator *g = nbx_generator_of(c, c->args[1].kind == NBX_KIND_GENERATOR ? 1 : -1);
    if (status != NBX_OK || !g) return c->ctx->status;
    if (n == 0) return NBX_OK;
    if (n > UINT32_MAX) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than 2^32 numbers on CUDA");
    const double count = (double)n;
    const int wanted = (int)ceil(log2(count - (6 * count * count + 1) / (log(0.9) * 12))), bits = wanted < 64 ? wanted : 64;
    const bool wide = bits > 32;
    nbx_draw d = {};
    d.kind = DRAW_RANGE, d.dtype = wide ? NBX_INT64 : NBX_INT32;
    d.base = wide ? INT64_MIN : INT32_MIN, d.range = wide ? UINT64_MAX : UINT32_MAX;
    keys.data = (char *)c->scratch, keys.count = 1;
    keys.dtype = d.dtype, keys.width = wide ? 8 : 4;
    status = flat_push(c, &keys, n, keys.width);
    if (status != NBX_OK) return status;
    launch_fill(c, g, d, keys);
    mask_keys<<<flat_blocks(n), FLAT_THREADS, 0, stream_of(c)>>>(keys.width, keys.data, n, ~(uint64_t)0 >> (64 - bits));
    keys.dtype = wide ? NBX_UINT64 : NBX_UINT32;
    key_rows k = {};
    k.along = keys, k.rows = keys, k.rows.rank = 0, k.rows.count = 1;
    sorted_rows sorted;
    status = nbx_cuda_sort_rows(c, &k, keys.data + (n * 8 + 255) / 256 * 256, &sorted);
    if (status != NBX_OK) return status;
    const philox p = {g->seed, nbx_generator_reserve(g, (uint64_t)n)};
    shuffle_runs<<<(unsigned)((n + DRAW_EACH_THREADS - 1) / DRAW_EACH_THREADS), DRAW_EACH_THREADS, 0, stream_of(c)>>>(sorted.keys, (uint32_t *)sorted.places, n, p);
    write_places<<<flat_blocks(n), FLAT_THREADS, 0, stream_of(c)>>>(sorted.places, out);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::randperm", randperm_cuda)
NBX_CUDA_KERNEL("aten::randperm.generator", randperm_cuda)

// --------------------------------------------------------------------------------------- multinomial, with replacement
// sums: running sums of a row's weights over their sum. The first category whose sum is not below the number.
static __global__ void __launch_bounds__(128) sample_rows(const double *sums, const double *weights, int64_t *out, int64_t rows, int64_t categories, int64_t samples,
                                                          nbx_dtype dtype, philox p) {
    const int64_t sample = (int64_t)blockIdx.x * 128 + threadIdx.x, stream = (int64_t)blockIdx.y * gridDim.x * 128 + sample;
    uint64_t call = 0;
    if (sample >= samples) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const double u = ewc_through<double>(dtype, (double)unit(philox_words(p, (uint64_t)stream, call++).x));
        const double *of_row = sums + row * categories;
        int64_t low = 0, high = categories;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (of_row[middle] < u) low = middle + 1;
            else high = middle;
        }
        if (low == categories) low--;
        while (low > 0 && weights[row * categories + low] == 0) low--;
        out[row * samples + sample] = low;
    }
}

static const nbx_tensor *operated(nbx_op_call *c, const char *name, nbx_value a, nbx_value b) {
    const nbx_value args[] = {a, b};
    return a.kind == NBX_KIND_TENSOR && !a.as.tensor ? NULL : nbx_do(c->ctx, name, 2, args);
}
static const nbx_tensor *over_rows(nbx_op_call *c, const char *name, const nbx_tensor *t, bool keepdim) {
    const int64_t last = -1;
    const nbx_value args[] = {nbx_of_tensor(t), nbx_of_ints(&last, 1), nbx_of_bool(keepdim)};
    return t ? nbx_do(c->ctx, name, 3, args) : NULL;
}
static nbx_status need_all(nbx_op_call *c, const nbx_tensor *truths, const char *message) {
    const nbx_value truth = nbx_of_tensor(truths), all = nbx_of_tensor(truths ? nbx_do(c->ctx, "aten::all", 1, &truth) : NULL);
    nbx_value right;
    if (!all.as.tensor || nbx_do_many(c->ctx, "aten::is_nonzero", 1, &all, &right, 1) != NBX_OK) return c->ctx->status;
    return right.as.boolean ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s", message);
}

static nbx_status check_weights(nbx_op_call *c, const nbx_tensor *self) {
    const nbx_value number = nbx_of_tensor(self);
    const nbx_tensor *positive = operated(c, "aten::ge.Scalar", number, nbx_of_int(0)), *finite = operated(c, "aten::lt.Scalar", number, nbx_of_float(INFINITY));
    if (!positive || !finite) return c->ctx->status;
    const nbx_status status = need_all(c, operated(c, "aten::logical_and", nbx_of_tensor(positive), nbx_of_tensor(finite)), "a weight is negative or not finite");
    if (status != NBX_OK) return status;
    const nbx_tensor *sums = over_rows(c, "aten::sum.dim_IntList", self, false);
    return sums ? need_all(c, operated(c, "aten::gt.Scalar", nbx_of_tensor(sums), nbx_of_int(0)), "the weights of a row add up to nothing") : c->ctx->status;
}

static nbx_status sample_with_replacement(nbx_op_call *c, const nbx_tensor *self, nbx_generator *g) {
    const int64_t categories = self->shape[self->rank - 1], rows = self->rank == 2 ? self->shape[0] : 1, samples = arg_int(c, 1);
    const int64_t shape[2] = {rows, samples}, across = (samples + 127) / 128, down = rows < 65535 ? rows : 65535;
    const nbx_tensor *out = nbx_new(c->ctx, c->device, NBX_INT64, self->rank, shape + 2 - self->rank), *sum = over_rows(c, "aten::sum.dim_IntList", self, true);
    if (!out || !sum) return c->ctx->status;
    if (rows == 0) return out_tensor(c, 0, out);
    const nbx_tensor *weights = operated(c, "aten::div.Tensor", nbx_of_tensor(self), nbx_of_tensor(sum));
    const nbx_tensor *sums = weights ? operated(c, "aten::cumsum", nbx_of_tensor(weights), nbx_of_int(-1)) : NULL;
    const nbx_value wide[] = {nbx_of_tensor(sums), nbx_of_tensor(weights)}, as_double = nbx_of_dtype(NBX_FLOAT64);
    const nbx_tensor *both[2] = {};
    for (int i = 0; sums && i < 2; i++) {
        const nbx_tensor *cast = operated(c, "aten::to.dtype", wide[i], as_double);
        const nbx_value value = nbx_of_tensor(cast);
        both[i] = cast ? nbx_do(c->ctx, "aten::contiguous", 1, &value) : NULL;
    }
    if (!both[0] || !both[1]) return c->ctx->status;
    const philox p = {g->seed, nbx_generator_reserve(g, (uint64_t)((rows - 1) / down + 1) * 4)};
    sample_rows<<<dim3((unsigned)across, (unsigned)down), 128, 0, (cudaStream_t)c->ctx->stream>>>(
        (const double *)nbx_data(both[0]), (const double *)nbx_data(both[1]), (int64_t *)nbx_data(out), rows, categories, samples, (nbx_dtype)self->dtype, p);
    const nbx_status status = launch_status(c);
    return status == NBX_OK ? out_tensor(c, 0, out) : status;
}

static nbx_status multinomial_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    nbx_generator *g = nbx_generator_of(c, 3);
    if (!g || nbx_multinomial_check(c) != NBX_OK || check_weights(c, self) != NBX_OK) return c->ctx->status;
    if (arg_bool(c, 2) && arg_int(c, 1) > 1) return sample_with_replacement(c, self, g);
    return nbx_multinomial_by_quotients(c);
}

NBX_CUDA_KERNEL("aten::multinomial", multinomial_cuda)
