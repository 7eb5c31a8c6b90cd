// Accumulators of reductions on CUDA: what one thread keeps, how two are merged, what is written in the end.
// C is the class of computing (elementwise/engine.cuh). Merging is done in an order that depends on the shape alone.
#ifndef NBX_OPS_ACCUMULATE_CUH
#define NBX_OPS_ACCUMULATE_CUH

#include "ops/elementwise/engine.cuh"
#include "ops/reduce/reduce.h"

template <typename C> struct red_real { typedef C type; };
template <> struct red_real<cfloat> { typedef float type; };
template <> struct red_real<cdouble> { typedef double type; };

template <typename C> static __device__ __forceinline__ bool red_isnan(C x) { return x != x; }
template <> __device__ __forceinline__ bool red_isnan<cdouble>(cdouble x) { return x.re != x.re || x.im != x.im; }
template <typename C> static __device__ __forceinline__ C red_abs(C x) { return x < 0 ? -x : x == 0 ? (C)0 : x; }
template <> __device__ __forceinline__ cdouble red_abs<cdouble>(cdouble x) { return {hypot(x.re, x.im), 0.}; }
template <typename C> static __device__ __forceinline__ C red_lowest() { return (C)-INFINITY; }
template <> __device__ __forceinline__ int64_t red_lowest<int64_t>() { return INT64_MIN; }
template <> __device__ __forceinline__ cdouble red_lowest<cdouble>() { return {-INFINITY, 0.}; }
template <typename C> static __device__ __forceinline__ C red_highest() { return (C)INFINITY; }
template <> __device__ __forceinline__ int64_t red_highest<int64_t>() { return INT64_MAX; }
template <> __device__ __forceinline__ cdouble red_highest<cdouble>() { return {INFINITY, 0.}; }
template <typename C> static __device__ __forceinline__ C red_one() { return (C)1; }
template <> __device__ __forceinline__ cdouble red_one<cdouble>() { return {1., 0.}; }
template <typename C> static __device__ __forceinline__ C red_zero() { return (C)0; }
template <> __device__ __forceinline__ cdouble red_zero<cdouble>() { return {0., 0.}; }
template <typename C> static __device__ __forceinline__ bool red_less(C a, C b) { return a < b; }
template <> __device__ __forceinline__ bool red_less<cdouble>(cdouble a, cdouble b) { return a.re < b.re; }
template <typename C> static __device__ __noinline__ C red_power(C x, double p) { return (C)pow((double)x, p); }
template <> __device__ __noinline__ cdouble red_power<cdouble>(cdouble x, double p) { return {pow(x.re, p), 0.}; }
template <typename C> static __device__ __forceinline__ C red_max(C a, C b) { return red_isnan(a) || !red_less(a, b) ? (red_isnan(b) ? b : a) : b; }
template <typename C> static __device__ __forceinline__ C red_min(C a, C b) { return red_isnan(a) || !red_less(b, a) ? (red_isnan(b) ? b : a) : b; }

// The sum alone, which most reductions are.
template <typename C> struct red_sum {
    typedef C value;
    static constexpr bool VECTORS = true, KNOWN = true;  // KNOWN: kernels for each common dtype, elements as they are
    C v;
    __device__ __forceinline__ void start(int) { v = red_zero<C>(); }
    __device__ __forceinline__ void add(int, double, C x, int64_t) { v = v + x; }
    __device__ __forceinline__ void merge(int, const red_sum &o) { v = v + o.v; }
};

// Sums, products, counts and extremes: one value.
template <typename C> struct red_simple {
    typedef C value;
    static constexpr bool VECTORS = true, KNOWN = false;  // dense operands are read by vectors: worth the code where kernels are small
    C v;
    __device__ __forceinline__ void start(int op) {
        v = op == REDUCE_PROD ? red_one<C>() : op == REDUCE_MAX ? red_lowest<C>() : op == REDUCE_MIN || op == REDUCE_MIN_ABS ? red_highest<C>() : red_zero<C>();
    }
    __device__ __forceinline__ void add(int op, double p, C x, int64_t) {
        switch (op) {
        case REDUCE_SUM: v = v + x; break;
        case REDUCE_NANSUM: v = red_isnan(x) ? v : v + x; break;
        case REDUCE_ABS: v = v + red_abs(x); break;
        case REDUCE_SQUARE: {
            const C a = red_abs(x);
            v = v + a * a;
            break;
        }
        case REDUCE_POWER: v = v + red_power(red_abs(x), p); break;
        case REDUCE_COUNT: v = ewc_truth(x) ? v + red_one<C>() : v; break;
        case REDUCE_PROD: v = v * x; break;
        case REDUCE_MAX: v = red_max(v, x); break;
        case REDUCE_MIN: v = red_min(v, x); break;
        case REDUCE_MAX_ABS: v = red_max(v, red_abs(x)); break;
        default: v = red_min(v, red_abs(x)); break;
        }
    }
    __device__ __forceinline__ void merge(int op, const red_simple &o) {
        switch (op) {
        case REDUCE_PROD: v = v * o.v; break;
        case REDUCE_MAX:
        case REDUCE_MAX_ABS: v = red_max(v, o.v); break;
        case REDUCE_MIN:
        case REDUCE_MIN_ABS: v = red_min(v, o.v); break;
        default: v = v + o.v; break;
        }
    }
};

// Largest or smallest with its first index; NaN wins, the first NaN. A thread meets its elements in the order of their index.
template <typename C, bool LARGEST> struct red_place {
    typedef C value;
    static constexpr bool VECTORS = true, KNOWN = true;
    C v;
    int64_t at;
    __device__ __forceinline__ void start(int) { v = LARGEST ? red_lowest<C>() : red_highest<C>(), at = INT64_MAX; }
    static __device__ __forceinline__ bool beats(C x, C v) { return LARGEST ? red_less(v, x) : red_less(x, v); }
    __device__ __forceinline__ void add(int, double, C x, int64_t i) {
        if (beats(x, v) || at == INT64_MAX || (red_isnan(x) && !red_isnan(v))) v = x, at = i;
    }
    // A vector of floats, by fewer instructions: two comparisons an element, the place once.
    __device__ __forceinline__ void add_vector(const float (&x)[8], int64_t i) {
        int best = at == INT64_MAX ? 0 : -1;
        if (best == 0) v = x[0];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const bool better = (LARGEST ? !(x[k] <= v) : !(x[k] >= v)) && v == v;
            v = better ? x[k] : v;
            best = better ? k : best;
        }
        if (best >= 0) at = i + best;
    }
    __device__ __forceinline__ void merge(int, const red_place &o) {
        if (o.at == INT64_MAX) return;
        const bool nan = red_isnan(v), other_nan = red_isnan(o.v);
        const bool better = at == INT64_MAX || (nan || other_nan ? other_nan && (!nan || o.at < at) : beats(o.v, v) || (!beats(v, o.v) && o.at < at));
        if (better) v = o.v, at = o.at;
    }
};

template <typename A> struct red_is_place { static constexpr bool value = false; };
template <bool LARGEST> struct red_is_place<red_place<float, LARGEST>> { static constexpr bool value = true; };

template <typename C> struct red_range {
    typedef C value;
    static constexpr bool VECTORS = false, KNOWN = false;
    C low, high;
    __device__ __forceinline__ void start(int) { low = red_highest<C>(), high = red_lowest<C>(); }
    __device__ __forceinline__ void add(int, double, C x, int64_t) { low = red_min(low, x), high = red_max(high, x); }
    __device__ __forceinline__ void merge(int, const red_range &o) { low = red_min(low, o.low), high = red_max(high, o.high); }
};

// Mean and sum of squared distances, combined by Chan's formula.
template <typename C> struct red_moments {
    typedef C value;
    static constexpr bool VECTORS = false, KNOWN = false;
    C mean;
    typename red_real<C>::type m2, count;
    __device__ __forceinline__ void start(int) { mean = red_zero<C>(), m2 = 0, count = 0; }
    __device__ __forceinline__ void add(int, double, C x, int64_t) {
        count += 1;
        const C before = x - mean;
        mean = mean + scaled(before, (typename red_real<C>::type)1 / count);
        m2 += product(before, x - mean);
    }
    static __device__ __forceinline__ C scaled(C x, typename red_real<C>::type s) { return x * s; }
    static __device__ __forceinline__ typename red_real<C>::type product(C a, C b) { return a * b; }
    __device__ __forceinline__ void merge(int, const red_moments &o) {
        if (o.count == 0) return;
        const auto total = count + o.count;
        const C delta = o.mean - mean;
        mean = mean + scaled(delta, o.count / total);
        m2 += o.m2 + product(delta, delta) * (count * o.count / total);
        count = total;
    }
};
template <> __device__ __forceinline__ cdouble red_moments<cdouble>::scaled(cdouble x, double s) { return {x.re * s, x.im * s}; }
template <> __device__ __forceinline__ double red_moments<cdouble>::product(cdouble a, cdouble b) { return a.re * b.re + a.im * b.im; }

// log of the sum of exponentials: the largest so far, and the sum of exp(x - largest).
template <typename C> struct red_exponentials {
    typedef C value;
    static constexpr bool VECTORS = false, KNOWN = false;
    C top, sum;
    __device__ __forceinline__ void start(int) { top = red_lowest<C>(), sum = 0; }
    __device__ __noinline__ void join(C t, C s) {
        const C higher = red_max(top, t);
        const C base = isinf(higher) ? (C)0 : higher;
        sum = sum * (C)exp(top - base) + s * (C)exp(t - base);
        top = higher;
    }
    __device__ __forceinline__ void add(int, double, C x, int64_t) {
        if (red_isnan(x)) top = x, sum = x;
        else if (x <= top) sum += x == top && isinf(x) ? (C)(x > 0) : (C)exp(x - (isinf(top) ? (C)0 : top));
        else join(x, (C)1);
    }
    __device__ __forceinline__ void merge(int, const red_exponentials &o) {
        if (o.top == red_lowest<C>() && o.sum == 0) return;
        join(o.top, o.sum);
    }
};

// The same of complex numbers, by their real parts.
struct red_complex_exponentials {
    typedef cdouble value;
    static constexpr bool VECTORS = false, KNOWN = false;
    double top;
    cdouble sum;
    __device__ __forceinline__ void start(int) { top = -INFINITY, sum = {0, 0}; }
    __device__ __noinline__ void join(double t, cdouble s) {
        const double higher = red_max(top, t), base = isfinite(higher) ? higher : 0;
        const double mine = top == higher || top == -INFINITY ? 1 : exp(top - base), other = t == higher ? 1 : exp(t - base);
        sum = {sum.re * mine + s.re * other, sum.im * mine + s.im * other};
        top = higher;
    }
    __device__ __forceinline__ void add(int, double, cdouble x, int64_t) {
        const double size = isfinite(x.re) ? 1 : exp(x.re);
        join(x.re, {size * cos(x.im), x.im == 0 ? 0 : size * sin(x.im)});
    }
    __device__ __forceinline__ void merge(int, const red_complex_exponentials &o) {
        if (o.top != -INFINITY || o.sum.re != 0 || o.sum.im != 0) join(o.top, o.sum);
    }
};

// ------------------------------------------------------------------------------------------------------------ finishing
struct red_target {
    void *out[2];
    uint8_t dtype[2];
    double elements;  // reduced
    double p;         // exponent, or correction
    int finish;
};

template <typename V> static __device__ __forceinline__ void red_put(const red_target &t, int k, int64_t at, V v) {
    if (t.out[k]) ewc_store<V>(t.dtype[k], (char *)t.out[k] + at * nbx_cuda_dtype_bytes(t.dtype[k]), v);
}

template <typename C> static __device__ __forceinline__ C red_divide(C v, double n) { return (C)(v / (C)n); }
template <> __device__ __forceinline__ int64_t red_divide<int64_t>(int64_t v, double n) { return n == 0 ? 0 : v / (int64_t)n; }
template <> __device__ __forceinline__ cdouble red_divide<cdouble>(cdouble v, double n) { return {v.re / n, v.im / n}; }

template <typename C> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_sum<C> &a) {
    red_put<C>(t, 0, at, t.finish == REDUCE_MEAN ? red_divide<C>(a.v, t.elements) : a.v);
}
template <typename C> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_simple<C> &a) {
    switch (t.finish) {
    case REDUCE_MEAN: red_put<C>(t, 0, at, red_divide<C>(a.v, t.elements)); break;
    case REDUCE_ROOT: red_put<double>(t, 0, at, sqrt(ewc_real(a.v))); break;
    case REDUCE_P_ROOT: red_put<double>(t, 0, at, pow(ewc_real(a.v), 1 / t.p)); break;
    case REDUCE_ANY: red_put<int64_t>(t, 0, at, ewc_real(a.v) > 0); break;
    case REDUCE_ALL: red_put<int64_t>(t, 0, at, ewc_real(a.v) == t.elements); break;
    default: red_put<C>(t, 0, at, a.v); break;
    }
}
template <typename C, bool LARGEST> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_place<C, LARGEST> &a) {
    if (t.finish == REDUCE_INDEX) {
        red_put<int64_t>(t, 0, at, a.at);
        return;
    }
    red_put<C>(t, 0, at, a.v);
    red_put<int64_t>(t, 1, at, a.at);
}
template <typename C> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_range<C> &a) {
    red_put<C>(t, 0, at, a.low);
    red_put<C>(t, 1, at, a.high);
}
template <typename C> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_moments<C> &a) {
    const double divisor = t.elements - t.p;
    double v = t.elements == 0 ? NAN : (double)a.m2 / (divisor > 0 ? divisor : 0);
    if (t.finish == REDUCE_STD) v = sqrt(v);
    red_put<double>(t, 0, at, v);
    if (t.elements == 0) red_put<double>(t, 1, at, NAN);
    else red_put<C>(t, 1, at, a.mean);
}
template <typename C> static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_exponentials<C> &a) {
    if (isinf(a.top)) red_put<C>(t, 0, at, a.top);
    else red_put<C>(t, 0, at, (C)log(a.sum) + a.top);
}

static __device__ __forceinline__ void red_finish(const red_target &t, int64_t at, const red_complex_exponentials &a) {
    const double base = isfinite(a.top) ? a.top : 0;
    red_put<cdouble>(t, 0, at, {log(hypot(a.sum.re, a.sum.im)) + base, atan2(a.sum.im, a.sum.re)});
}

// -------------------------------------------------------------------------------------------------------- between threads
template <typename A> static __device__ __forceinline__ A red_shuffle(const A &a, int from) {
    static_assert(sizeof(A) % 4 == 0, "whole words");
    A b;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(A) / 4); i++) ((uint32_t *)&b)[i] = __shfl_xor_sync(~0u, ((const uint32_t *)&a)[i], from);
    return b;
}

template <typename A> static __device__ __forceinline__ void red_warp(int op, A &a) {
#pragma unroll
    for (int step = 16; step; step >>= 1) a.merge(op, red_shuffle(a, step));
}

#endif
