// Formulas of functions of two and three arguments on CUDA: comparisons, logic, bits, extremes, powers, choice, limits.
#include "ops/elementwise/engine.cuh"

#include "ops/elementwise/complex.cuh"

#include <type_traits>

enum {
    EQ, NE, LT, LE, GT, GE, AND, OR, XOR, ISNAN, ISINF, ISFINITE, ISPOSINF, ISNEGINF, ISREAL, SIGNBIT, NOT, ISCLOSE,
    BIT_AND, BIT_OR, BIT_XOR, BIT_NOT, SHIFT_LEFT, SHIFT_RIGHT, GCD, LCM,
    MAXIMUM, MINIMUM, FMAX, FMIN, ATAN2, HYPOT, NEXTAFTER, COPYSIGN, HEAVISIDE, LOGADDEXP, LOGADDEXP2, XLOGY, XLOG1PY, SWIGLU, PRELU, POW, POW_NUMBER, POW_OF_ONE,
    WHERE, MASKED, CLAMP, CLAMP3, ADDCMUL, ADDCDIV, LERP,
};

// --------------------------------------------------------------------------------------------------------- comparisons
// Integers are compared in the default float.
template <typename C> using ewc_real_of = std::conditional_t<std::is_same_v<C, double>, double, float>;
template <typename C> static __device__ __forceinline__ bool close_to(C a, C b, const ewc_params &p) {
    if (a == b) return true;
    if (p.i[0] && a != a && b != b) return true;
    const auto difference = fabs((ewc_real_of<C>)a - (ewc_real_of<C>)b);
    return difference < (ewc_real_of<C>)INFINITY && difference <= (ewc_real_of<C>)p.f[1] + fabs((ewc_real_of<C>)p.f[0] * (ewc_real_of<C>)b);
}

struct order_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_REALS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(LT, (C)(a < b))
            EWC_CASE2(LE, (C)(a <= b))
            EWC_CASE2(GT, (C)(a > b))
            EWC_CASE2(GE, (C)(a >= b))
            EWC_CASE2(AND, (C)(a != 0 && b != 0))
            EWC_CASE2(OR, (C)(a != 0 || b != 0))
            EWC_CASE2(XOR, (C)((a != 0) != (b != 0)))
            EWC_CASE2(EQ, (C)(a == b))
            EWC_CASE2(NE, (C)(a != b))
        default:
            EWC_CASE2(ISCLOSE, (C)close_to(a, b, p))
        }
    }
};
template <typename C> static __device__ __forceinline__ bool close_to_complex(C a, C b, const ewc_params &p) {
    if (a == b) return true;
    if (p.i[0] && zc_isnan(a) && zc_isnan(b)) return true;
    const double difference = hypot((double)a.re - (double)b.re, (double)a.im - (double)b.im), size = hypot((double)b.re, (double)b.im);
    return difference < (double)INFINITY && difference <= p.f[1] + fabs(p.f[0] * size);
}
struct complex_equal_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) {
            const C a = x[0][i], b = x[1][i];
            r[0][i].re = code == ISCLOSE ? close_to_complex(a, b, p) : (a == b) == (code == EQ);
            r[0][i].im = 0;
        }
    }
};
struct test_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE(ISNAN, (C)(a != a))
            EWC_CASE(ISINF, (C)(isinf(a) != 0))
            EWC_CASE(ISFINITE, (C)(isfinite(a) != 0))
            EWC_CASE(ISPOSINF, (C)(isinf(a) && a > 0))
            EWC_CASE(ISNEGINF, (C)(isinf(a) && a < 0))
            EWC_CASE(ISREAL, (C)1)
        default:
            EWC_CASE(SIGNBIT, (C)(signbit(a) != 0))
        }
    }
};
struct integer_test_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_INT };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE(NOT, (C)(a == 0))
            EWC_CASE(SIGNBIT, (C)(a < 0))
            EWC_CASE(ISFINITE, (C)1)
            EWC_CASE(ISREAL, (C)1)
            EWC_CASE(BIT_NOT, ~a)
        default:
            EWC_CASE(ISNAN, (C)0)
        }
    }
};
struct complex_test_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) {
            const C z = x[0][i];
            r[0][i].re = code == ISNAN ? z.re != z.re || z.im != z.im : code == ISINF ? isinf(z.re) || isinf(z.im) : code == ISREAL ? z.im == 0 : isfinite(z.re) && isfinite(z.im);
            r[0][i].im = 0;
        }
    }
};

static bool has_complex(const nbx_op_call *c) {  // among what is read
    for (int i = 0; i < c->arg_count; i++)
        if (i > 0 && c->schema->params[i].written) continue;
        else if (c->args[i].kind == NBX_KIND_COMPLEX || (c->args[i].kind == NBX_KIND_TENSOR && nbx_dtype_is_complex((nbx_dtype)c->args[i].as.tensor->dtype))) return true;
    return false;
}

template <int CODE> static nbx_status order(nbx_op_call *c) {
    return (CODE == EQ || CODE == NE || CODE == ISCLOSE) && has_complex(c) ? ewc_run<complex_equal_group>(c, CODE) : ewc_run<order_group>(c, CODE);
}
template <int CODE> static nbx_status test(nbx_op_call *c) {
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    if (nbx_dtype_is_complex(dtype) && CODE != NOT) return ewc_run<complex_test_group>(c, CODE);
    return CODE == NOT || nbx_dtype_is_integral(dtype, true) ? ewc_run<integer_test_group>(c, CODE) : ewc_run<test_group>(c, CODE);
}

NBX_CUDA_KERNEL("aten::eq.Tensor", order<EQ>)
NBX_CUDA_KERNEL("aten::eq.Scalar", order<EQ>)
NBX_CUDA_KERNEL("aten::ne.Tensor", order<NE>)
NBX_CUDA_KERNEL("aten::ne.Scalar", order<NE>)
NBX_CUDA_KERNEL("aten::not_equal.Tensor", order<NE>)
NBX_CUDA_KERNEL("aten::lt.Tensor", order<LT>)
NBX_CUDA_KERNEL("aten::lt.Scalar", order<LT>)
NBX_CUDA_KERNEL("aten::less.Tensor", order<LT>)
NBX_CUDA_KERNEL("aten::le.Tensor", order<LE>)
NBX_CUDA_KERNEL("aten::le.Scalar", order<LE>)
NBX_CUDA_KERNEL("aten::less_equal.Tensor", order<LE>)
NBX_CUDA_KERNEL("aten::gt.Tensor", order<GT>)
NBX_CUDA_KERNEL("aten::gt.Scalar", order<GT>)
NBX_CUDA_KERNEL("aten::greater.Tensor", order<GT>)
NBX_CUDA_KERNEL("aten::ge.Tensor", order<GE>)
NBX_CUDA_KERNEL("aten::ge.Scalar", order<GE>)
NBX_CUDA_KERNEL("aten::greater_equal.Tensor", order<GE>)
NBX_CUDA_KERNEL("aten::logical_and", order<AND>)
NBX_CUDA_KERNEL("aten::logical_or", order<OR>)
NBX_CUDA_KERNEL("aten::logical_xor", order<XOR>)
NBX_CUDA_KERNEL("aten::isclose", order<ISCLOSE>)
NBX_CUDA_KERNEL("aten::logical_not", test<NOT>)
NBX_CUDA_KERNEL("aten::isnan", test<ISNAN>)
NBX_CUDA_KERNEL("aten::isinf", test<ISINF>)
NBX_CUDA_KERNEL("aten::isfinite", test<ISFINITE>)
NBX_CUDA_KERNEL("aten::isposinf", test<ISPOSINF>)
NBX_CUDA_KERNEL("aten::isneginf", test<ISNEGINF>)
NBX_CUDA_KERNEL("aten::isreal", test<ISREAL>)
NBX_CUDA_KERNEL("aten::signbit", test<SIGNBIT>)

// ---------------------------------------------------------------------------------------------------------------- bits
static __device__ __forceinline__ int64_t gcd_of(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = b == -1 ? 0 : a % b;
        a = b, b = rest;
    }
    return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
}
struct bits_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_INT };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(BIT_AND, a &b)
            EWC_CASE2(BIT_OR, a | b)
            EWC_CASE2(BIT_XOR, a ^ b)
            EWC_CASE2(SHIFT_LEFT, b < 0 || b >= 64 ? (C)0 : (C)((uint64_t)a << b))
            EWC_CASE2(SHIFT_RIGHT, a >> (b < 0 || b >= 64 ? 63 : b))
            EWC_CASE2(GCD, gcd_of(a, b))
        default:
            EWC_CASE2(LCM, gcd_of(a, b) == 0 ? (C)0 : (a / gcd_of(a, b) * b < 0 ? -(a / gcd_of(a, b) * b) : a / gcd_of(a, b) * b))
        }
    }
};
EWC_OP(bits_group, BIT_AND, "aten::bitwise_and.Tensor")
EWC_OP(bits_group, BIT_AND, "aten::bitwise_and.Scalar")
EWC_OP(bits_group, BIT_AND, "aten::bitwise_and.Scalar_Tensor")
EWC_OP(bits_group, BIT_AND, "aten::__and__.Tensor")
EWC_OP(bits_group, BIT_AND, "aten::__and__.Scalar")
EWC_OP(bits_group, BIT_OR, "aten::bitwise_or.Tensor")
EWC_OP(bits_group, BIT_OR, "aten::bitwise_or.Scalar")
EWC_OP(bits_group, BIT_OR, "aten::bitwise_or.Scalar_Tensor")
EWC_OP(bits_group, BIT_OR, "aten::__or__.Tensor")
EWC_OP(bits_group, BIT_OR, "aten::__or__.Scalar")
EWC_OP(bits_group, BIT_XOR, "aten::bitwise_xor.Tensor")
EWC_OP(bits_group, BIT_XOR, "aten::bitwise_xor.Scalar")
EWC_OP(bits_group, BIT_XOR, "aten::bitwise_xor.Scalar_Tensor")
EWC_OP(bits_group, BIT_XOR, "aten::__xor__.Tensor")
EWC_OP(bits_group, BIT_XOR, "aten::__xor__.Scalar")
EWC_OP(bits_group, SHIFT_LEFT, "aten::bitwise_left_shift.Tensor")
EWC_OP(bits_group, SHIFT_LEFT, "aten::bitwise_left_shift.Tensor_Scalar")
EWC_OP(bits_group, SHIFT_LEFT, "aten::bitwise_left_shift.Scalar_Tensor")
EWC_OP(bits_group, SHIFT_LEFT, "aten::__lshift__.Scalar")
EWC_OP(bits_group, SHIFT_LEFT, "aten::__lshift__.Tensor")
EWC_OP(bits_group, SHIFT_RIGHT, "aten::bitwise_right_shift.Tensor")
EWC_OP(bits_group, SHIFT_RIGHT, "aten::bitwise_right_shift.Tensor_Scalar")
EWC_OP(bits_group, SHIFT_RIGHT, "aten::bitwise_right_shift.Scalar_Tensor")
EWC_OP(bits_group, SHIFT_RIGHT, "aten::__rshift__.Scalar")
EWC_OP(bits_group, SHIFT_RIGHT, "aten::__rshift__.Tensor")
EWC_OP(bits_group, GCD, "aten::gcd")
EWC_OP(bits_group, LCM, "aten::lcm")
// ~ of a bool is its negation.
static nbx_status bitwise_not(nbx_op_call *c) {
    return ewc_run<integer_test_group>(c, arg_tensor(c, 0)->dtype == NBX_BOOL ? NOT : BIT_NOT);
}
NBX_CUDA_KERNEL("aten::bitwise_not", bitwise_not)

// -------------------------------------------------------------------------------------------------------- two arguments
template <typename C> static __device__ __forceinline__ C logaddexp_of(C a, C b) {
    if (isinf(a) && a == b) return a;
    const C top = larger(a, b);
    return top + log1p(exp(-fabs(a - b)));
}
template <typename C> static __device__ __forceinline__ C logaddexp2_of(C a, C b) {
    if (isinf(a) && a == b) return a;
    const C top = larger(a, b);
    return top + log1p(exp2(-fabs(a - b))) * (C)1.44269504088896340736;
}
template <typename C> static __device__ __forceinline__ C xlogy_of(C a, C b) { return b != b ? b : a == 0 ? (C)0 : a * log(b); }
template <typename C> static __device__ __forceinline__ C xlog1py_of(C a, C b) { return b != b ? b : a == 0 ? (C)0 : a * log1p(b); }

struct extreme_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_REALS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(MAXIMUM, larger(a, b))
            EWC_CASE2(MINIMUM, smaller(a, b))
            EWC_CASE2(FMAX, a > b || b != b ? a : b)
            EWC_CASE2(FMIN, a < b || b != b ? a : b)
        default:
            EWC_CASE2(HEAVISIDE, a == 0 ? b : (C)(a > 0))
        }
    }
};
// nextafter: the neighbour of x toward y, among 16-bit floats by their bits, which are in order of magnitude.
static __device__ __forceinline__ double next_of(double x, double y, const ewc_params &) { return nextafter(x, y); }
static __device__ __forceinline__ float next_of(float x, float y, const ewc_params &p) {
    const bool bfloat = p.compute == NBX_BFLOAT16;
    if (!bfloat && p.compute != NBX_FLOAT16) return nextafterf(x, y);
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    uint16_t bits = bfloat ? ewc_to_bf16(x) : ewc_to_half(x);
    if (x == 0) bits = y < 0 ? 0x8001 : 1;
    else bits = (uint16_t)((x < y) == (x > 0) ? bits + 1 : bits - 1);
    return bfloat ? ewc_bf16_bits(bits) : ewc_half_bits(bits);
}

struct pair_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(ATAN2, atan2(a, b))
            EWC_CASE2(HYPOT, hypot(a, b))
            EWC_CASE2(NEXTAFTER, next_of(a, b, p))
            EWC_CASE2(COPYSIGN, copysign(a, b))
            EWC_CASE2(LOGADDEXP, logaddexp_of(a, b))
            EWC_CASE2(LOGADDEXP2, logaddexp2_of(a, b))
            EWC_CASE2(XLOGY, xlogy_of(a, b))
            EWC_CASE2(XLOG1PY, xlog1py_of(a, b))
            EWC_CASE2(SWIGLU, a / ((C)1 + exp(-a)) * b)
        default:
            EWC_CASE2(PRELU, a > 0 ? a : a * b)
        }
    }
};
struct complex_pair_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[2][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = zc_narrow<C>(zc_logaddexp(zc_wide(x[0][i]), zc_wide(x[1][i])));
    }
};
static nbx_status logaddexp(nbx_op_call *c) {
    return has_complex(c) ? ewc_run<complex_pair_group>(c, LOGADDEXP) : ewc_run<pair_group>(c, LOGADDEXP);
}

// complex(re, im) and polar(size, angle): real operands, read into the parts of the complex class.
enum { COMPLEX, POLAR };
struct parts_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) {
            const auto a = x[0][i].re, b = x[1][i].re;
            if (code == COMPLEX) r[0][i] = {a, b};
            else r[0][i] = {a * cos(b), a * sin(b)};
        }
    }
};
template <int CODE> static nbx_status from_parts(nbx_op_call *c) {
    ewc_plan p;
    bool empty;
    const nbx_status status = ewc_plan_make(c, CODE, &p, &empty);
    if (status != NBX_OK || empty) return status;
    if (p.compute == NBX_FLOAT64) ewc_launch<parts_group, cdouble>(p, stream_of(c));
    else ewc_launch<parts_group, cfloat>(p, stream_of(c));
    return launch_status(c);
}
NBX_CUDA_KERNEL("aten::complex", from_parts<COMPLEX>)
NBX_CUDA_KERNEL("aten::polar", from_parts<POLAR>)

EWC_OP(extreme_group, MAXIMUM, "aten::maximum")
EWC_OP(extreme_group, MAXIMUM, "aten::max.other")
EWC_OP(extreme_group, MAXIMUM, "aten::clamp_min.Tensor")
EWC_OP(extreme_group, MINIMUM, "aten::minimum")
EWC_OP(extreme_group, MINIMUM, "aten::min.other")
EWC_OP(extreme_group, MINIMUM, "aten::clamp_max.Tensor")
EWC_OP(extreme_group, FMAX, "aten::fmax")
EWC_OP(extreme_group, FMIN, "aten::fmin")
EWC_OP(extreme_group, HEAVISIDE, "aten::heaviside")
EWC_OP(pair_group, ATAN2, "aten::atan2")
EWC_OP(pair_group, HYPOT, "aten::hypot")
EWC_OP(pair_group, COPYSIGN, "aten::copysign.Tensor")
EWC_OP(pair_group, COPYSIGN, "aten::copysign.Scalar")
EWC_OP(pair_group, NEXTAFTER, "aten::nextafter")
NBX_CUDA_KERNEL("aten::logaddexp", logaddexp)
EWC_OP(pair_group, LOGADDEXP2, "aten::logaddexp2")
EWC_OP(pair_group, XLOGY, "aten::xlogy.Tensor")
EWC_OP(pair_group, XLOGY, "aten::xlogy.Scalar_Self")
EWC_OP(pair_group, XLOGY, "aten::xlogy.Scalar_Other")
EWC_OP(pair_group, XLOG1PY, "aten::special_xlog1py")
EWC_OP(pair_group, XLOG1PY, "aten::special_xlog1py.self_scalar")
EWC_OP(pair_group, XLOG1PY, "aten::special_xlog1py.other_scalar")
EWC_OP(pair_group, SWIGLU, "nbx::swiglu_fused")
EWC_OP(pair_group, PRELU, "aten::_prelu_kernel")

// -------------------------------------------------------------------------------------------------------------- powers
template <typename C> static __device__ __noinline__ C power_of(C a, C e) { return pow(a, e); }
template <> __device__ __noinline__ int64_t power_of<int64_t>(int64_t a, int64_t e) {
    if (e < 0) return a == 1 ? 1 : a == -1 ? (e & 1 ? -1 : 1) : 0;
    uint64_t r = 1, x = (uint64_t)a;
    for (; e; e >>= 1) {
        if (e & 1) r *= x;
        x *= x;
    }
    return (int64_t)r;
}
template <typename C> static __device__ __forceinline__ C root_of(C a) { return sqrt(a); }
template <> __device__ __forceinline__ int64_t root_of<int64_t>(int64_t a) { return a; }
template <typename C> static __device__ __forceinline__ C inverse_of(C a) { return (C)1 / a; }
template <> __device__ __forceinline__ int64_t inverse_of<int64_t>(int64_t a) { return a == 0 ? 0 : 1 / a; }

template <typename C> static __device__ __forceinline__ C quick_power(int which, C a, C e) {
    switch (which) {
    case 1: return (C)1;
    case 2: return a;
    case 3: return a * a;
    case 4: return a * a * a;
    case 5: return root_of(a);
    case 6: return inverse_of(root_of(a));
    case 7: return inverse_of(a);
    case 8: return inverse_of(a * a);
    default: return power_of(a, e);
    }
}
struct power_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_REALS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(POW, power_of(a, b))
            EWC_CASE2(POW_NUMBER, quick_power((int)p.i[0], a, b))
        default:
            EWC_CASE2(POW_OF_ONE, p.i[0] ? (C)1 : power_of(a, b))
        }
    }
};
template <typename C> static __device__ __forceinline__ C one() { return (C)1; }
template <> __device__ __forceinline__ cfloat one<cfloat>() { return {1.f, 0.f}; }
template <> __device__ __forceinline__ cdouble one<cdouble>() { return {1., 0.}; }
// Complex powers of complex64 in float, as ATen: a power by double would differ from ATen's by more than its error.
template <typename C> static __device__ __noinline__ C complex_power(C a, C e) {
    const bool zero = a.re == 0 && a.im == 0;
    if (e.re == 0 && e.im == 0 && !zero && isfinite(a.re) && isfinite(a.im)) return one<C>();
    if (zero) return e.re > 0 ? C{0, 0} : C{NAN, NAN};
    return zc_pow(a, e);
}
template <typename C> static __device__ __forceinline__ C quick_complex_power(int which, C a, C e) {
    switch (which) {
    case 1: return one<C>();
    case 2: return a;
    case 3: return a * a;
    default: return complex_power(a, e);
    }
}
struct complex_power_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        const int which = code == POW_NUMBER ? (int)p.i[0] : code == POW_OF_ONE && p.i[0] ? 1 : 0;
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = quick_complex_power(which, x[0][i], x[1][i]);
    }
};
template <int CODE> static nbx_status power(nbx_op_call *c) {
    return has_complex(c) ? ewc_run<complex_power_group>(c, CODE) : ewc_run<power_group>(c, CODE);
}
NBX_CUDA_KERNEL("aten::pow.Tensor_Tensor", power<POW>)
NBX_CUDA_KERNEL("aten::pow.Scalar", power<POW_OF_ONE>)
NBX_CUDA_KERNEL("aten::pow.Tensor_Scalar", power<POW_NUMBER>)
NBX_CUDA_KERNEL("aten::float_power.Tensor_Scalar", power<POW_NUMBER>)
NBX_CUDA_KERNEL("aten::float_power.Tensor_Tensor", power<POW>)
NBX_CUDA_KERNEL("aten::float_power.Scalar", power<POW>)

// ------------------------------------------------------------------------------------------------------ three arguments
template <typename C> static __device__ __forceinline__ bool near_start(C w) { return fabs(w) < (C)0.5; }
template <> __device__ __forceinline__ bool near_start<int64_t>(int64_t w) { return w == 0; }
template <> __device__ __forceinline__ bool near_start<cfloat>(cfloat w) { return w.re * w.re + w.im * w.im < 0.25f; }
template <> __device__ __forceinline__ bool near_start<cdouble>(cdouble w) { return w.re * w.re + w.im * w.im < 0.25; }
template <typename C> static __device__ __forceinline__ C quotient(C a, C b) { return a / b; }
template <> __device__ __forceinline__ int64_t quotient<int64_t>(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }

struct choice_group {
    enum { INPUTS = 3, OUTPUTS = 1, CLASSES = EWC_ALL, HOT_MASK = 1 };
    static constexpr int mask(int code) { return code == WHERE ? 1 : 2; }
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[3][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE3(WHERE, ewc_truth(a) ? b : d)
        default:
            EWC_CASE3(MASKED, ewc_truth(b) ? d : a)
        }
    }
};
struct three_group {
    enum { INPUTS = 3, OUTPUTS = 1, CLASSES = EWC_ALL };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[3][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE3(ADDCMUL, a + number<C>(p) * b * d)
            EWC_CASE3(ADDCDIV, a + quotient(number<C>(p) * b, d))
        default:
            EWC_CASE3(LERP, near_start(d) ? a + d * (b - a) : b - (b - a) * (one<C>() - d))
        }
    }
};
EWC_OP(choice_group, WHERE, "aten::where.self")
EWC_OP(choice_group, WHERE, "aten::where.ScalarSelf")
EWC_OP(choice_group, WHERE, "aten::where.ScalarOther")
EWC_OP(choice_group, WHERE, "aten::where.Scalar")
EWC_OP(choice_group, MASKED, "aten::masked_fill.Scalar")
EWC_OP(choice_group, MASKED, "aten::masked_fill.Tensor")
EWC_OP(three_group, ADDCMUL, "aten::addcmul")
EWC_OP(three_group, ADDCDIV, "aten::addcdiv")
EWC_OP(three_group, LERP, "aten::lerp.Tensor")
EWC_OP(three_group, LERP, "aten::lerp.Scalar")

template <typename C> static __device__ __forceinline__ C bound(const ewc_params &p, int k) { return (C)p.f[k]; }
template <> __device__ __forceinline__ int64_t bound<int64_t>(const ewc_params &p, int k) { return p.i[k]; }
struct clamp_group {
    enum { INPUTS = 3, OUTPUTS = 1, CLASSES = EWC_REALS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[3][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        if (code == CLAMP) {
#pragma unroll
            for (int i = 0; i < EWC_LANES; i++) r[0][i] = smaller(larger(x[0][i], bound<C>(p, 0)), bound<C>(p, 1));
        } else {
#pragma unroll
            for (int i = 0; i < EWC_LANES; i++) r[0][i] = smaller(larger(x[0][i], x[1][i]), x[2][i]);
        }
    }
};
EWC_OP(clamp_group, CLAMP, "aten::clamp")
EWC_OP(clamp_group, CLAMP, "aten::clip")
EWC_OP(clamp_group, CLAMP, "aten::clamp_min")
EWC_OP(clamp_group, CLAMP, "aten::clamp_max")
EWC_OP(clamp_group, CLAMP3, "aten::clamp.Tensor")
EWC_OP(clamp_group, CLAMP3, "aten::clip.Tensor")
