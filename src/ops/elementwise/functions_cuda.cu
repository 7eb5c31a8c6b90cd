// Formulas of functions of one argument on CUDA: rounding, signs, roots, exponentials, logarithms, circular and hyperbolic
// ones, activations. The parameters are those that the rows' setup takes (unary.c, activation.c).
#include "ops/elementwise/engine.cuh"

#include "ops/elementwise/complex.cuh"

enum {
    ABS, NEG, SIGN, SQUARE, RECIPROCAL, SQRT, RSQRT, FLOOR, CEIL, ROUND, TRUNC, FRAC, ROUND_DECIMALS, NAN_TO_NUM, DEG2RAD, RAD2DEG,
    EXP, EXP2, EXPM1, LOG, LOG2, LOG10, LOG1P, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH, SIGMOID,
    ERF, ERFC, LOGIT, SINC, ANGLE, CONJ,
    RELU, HARDTANH, LEAKY_RELU, ELU, GELU, SILU, MISH, SOFTPLUS, SOFTSHRINK, HARDSHRINK, HARDSIGMOID, HARDSWISH, THRESHOLD, LOG_SIGMOID,
};

template <typename C> static __device__ __forceinline__ C sign_of(C x) { return (C)((x > 0) - (x < 0)); }
template <typename C> static __device__ __forceinline__ C six(C x) { return smaller(larger(x + (C)3, (C)0), (C)6); }
template <typename C> static __device__ __forceinline__ C sigmoid_of(C x) { return (C)1 / ((C)1 + exp(-x)); }
template <typename C> static __device__ __forceinline__ C log_sigmoid_of(C x) { return smaller(x, (C)0) - log1p(exp(-fabs(x))); }

template <typename C> static __device__ __forceinline__ C round_decimals(C x, const ewc_params &p) {
    if (p.i[0] == 0) return rint(x);
    const C ten = (C)p.f[0];
    return p.i[0] > 0 ? rint(x * ten) / ten : rint(x / ten) * ten;
}
template <typename C> static __device__ __forceinline__ C nan_to_num(C x, const ewc_params &p) {
    return x != x ? (C)p.f[0] : isinf(x) ? (C)(x > 0 ? p.f[1] : p.f[2]) : x;
}
template <typename C> static __device__ __forceinline__ C logit_of(C x, const ewc_params &p) {
    const C low = narrowed((C)p.f[0], p), high = narrowed((C)p.f[1], p);
    if (p.i[0]) x = x < low ? low : x > high ? high : x;
    return log(narrowed(x / narrowed((C)1 - x, p), p));
}
template <typename C> static __device__ __forceinline__ C sinc_of(C x) {
    if (x == 0) return (C)1;
    const C product = (C)3.14159265358979323846 * x;
    return sin(product) / product;
}
template <typename C> static __device__ __forceinline__ C gelu_of(C x, bool by_tanh) {
    if (by_tanh) return (C)0.5 * x * ((C)1 + tanh((C)0.79788456080286535588 * (x + (C)0.044715 * x * x * x)));
    return x * (C)0.5 * ((C)1 + erf(x * (C)0.70710678118654752440));
}
// ATen's float32 and bfloat16 overflow at half the largest number and give NaN at infinity, its float16 and float64 do not.
template <typename C> static __device__ __forceinline__ void gelu_ends(const C (&x)[EWC_LANES], const ewc_params &p, C (&y)[EWC_LANES]) {
    if (sizeof(C) == 8 || p.compute == NBX_FLOAT16) return;
    bool far = false;
#pragma unroll
    for (int i = 0; i < EWC_LANES; i++) far = far || x[i] >= (C)0x1p127;
    if (!far) return;
#pragma unroll
    for (int i = 0; i < EWC_LANES; i++)
        if (x[i] >= (C)0x1p127) y[i] = isinf(x[i]) ? (C)NAN : (C)INFINITY;
}
// Of 16-bit results: by the hardware's exponential and division, whose errors (1e-6) are far below half a unit of theirs.
static __device__ __forceinline__ float quick_sigmoid(float x) { return quick_reciprocal(1.f + quick_exp2(-1.4426950408889634f * x)); }
static __device__ __forceinline__ float quick_silu(float x) { return x * quick_sigmoid(x); }
// x times the normal distribution, whose tail beyond |x| is 2^p(|x|), p fitted to 6.5 (errs by 6.8e-6 at most) and to 5.8 (3.2e-9);
// p falls ever faster beyond. p(0) is -1, so small numbers are halved exactly.
static __device__ __forceinline__ float gelu_of_tail(float x, float p) {
    const float tail = quick_exp2(p);
    return x * (x < 0.f ? tail : 1.f - tail);
}
static __device__ __forceinline__ float quick_gelu(float x) {
    const float z = fabsf(x);
    float p = fmaf(z, -1.76032415e-6f, 6.00019957e-5f);
    p = fmaf(z, p, -9.17044235e-4f);
    p = fmaf(z, p, 8.45107343e-3f);
    p = fmaf(z, p, -5.38355298e-2f);
    p = fmaf(z, p, -4.58597898e-1f);
    p = fmaf(z, p, -1.1511941f);
    return gelu_of_tail(x, fmaf(z, p, -1.f));
}
static __device__ __forceinline__ float float_gelu(float x) {
    const float z = fabsf(x);
    float p = fmaf(z, -2.57298682e-10f, 1.12434755e-8f);
    p = fmaf(z, p, -2.23099732e-7f);
    p = fmaf(z, p, 2.65191284e-6f);
    p = fmaf(z, p, -2.08315487e-5f);
    p = fmaf(z, p, 1.10198751e-4f);
    p = fmaf(z, p, -3.51804512e-4f);
    p = fmaf(z, p, 9.41117614e-5f);
    p = fmaf(z, p, 6.87612779e-3f);
    p = fmaf(z, p, -5.24138063e-2f);
    p = fmaf(z, p, -4.59225178e-1f);
    p = fmaf(z, p, -1.15110409f);
    return gelu_of_tail(x, fmaf(z, p, -1.f));
}
static __device__ __forceinline__ float quick_gelu_tanh(float x) { return x * quick_sigmoid(1.5957691216057308f * x * fmaf(0.044715f, x * x, 1.f)); }
static __device__ __forceinline__ double quick_gelu(double x) { return gelu_of(x, false); }
static __device__ __forceinline__ double float_gelu(double x) { return gelu_of(x, false); }
static __device__ __forceinline__ double quick_gelu_tanh(double x) { return gelu_of(x, true); }
static __device__ __forceinline__ double quick_sigmoid(double x) { return sigmoid_of(x); }
static __device__ __forceinline__ double quick_silu(double x) { return x * sigmoid_of(x); }

template <typename C> static __device__ __forceinline__ C softplus_of(C x, const ewc_params &p) {
    return x * (C)p.f[0] > (C)p.f[1] ? x : log1p(exp(x * (C)p.f[0])) / (C)p.f[0];
}
template <typename C> static __device__ __forceinline__ C softshrink_of(C x, C k) { return x > k ? x - k : x < -k ? x + k : x * (C)0; }
template <typename C> static __device__ __forceinline__ C elu_of(C x, const ewc_params &p) {
    return x > 0 ? x * (C)p.f[2] : expm1(x * (C)p.f[0]) * (C)p.f[1];
}

// Cheap ones, integers too.
struct cheap_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_FLOATS, HOT = 1 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE(ABS, fabs(a))
            EWC_CASE(NEG, -a)
            EWC_CASE(SIGN, sign_of(a))
            EWC_CASE(SQUARE, a *a)
            EWC_CASE(RECIPROCAL, (C)1 / a)
            EWC_CASE(SQRT, sqrt(a))
            EWC_CASE(RSQRT, (C)1 / sqrt(a))
            EWC_CASE(FLOOR, floor(a))
            EWC_CASE(CEIL, ceil(a))
            EWC_CASE(ROUND, rint(a))
            EWC_CASE(TRUNC, trunc(a))
            EWC_CASE(FRAC, a - trunc(a))
            EWC_CASE(ROUND_DECIMALS, round_decimals(a, p))
            EWC_CASE(NAN_TO_NUM, nan_to_num(a, p))
            EWC_CASE(DEG2RAD, a *(C)(3.14159265358979323846 / 180))
            EWC_CASE(RAD2DEG, a *(C)(180 / 3.14159265358979323846))
            EWC_CASE(RELU, larger(a, (C)0))
            EWC_CASE(HARDTANH, smaller(larger(a, (C)p.f[0]), (C)p.f[1]))
            EWC_CASE(LEAKY_RELU, a > 0 ? a : a * (C)p.f[0])
            EWC_CASE(SOFTSHRINK, softshrink_of(a, (C)p.f[0]))
            EWC_CASE(HARDSHRINK, a >= -(C)p.f[0] && a <= (C)p.f[0] ? (C)0 : a)
            EWC_CASE(HARDSIGMOID, six(a) / (C)6)
            EWC_CASE(HARDSWISH, a *six(a) / (C)6)
            EWC_CASE(THRESHOLD, a <= (C)p.f[0] ? (C)p.f[1] : a)
            EWC_CASE(ANGLE, a != a ? a : a < 0 ? (C)3.14159265358979323846 : (C)0)
        default:
            EWC_CASE(CONJ, a)
        }
    }
};

struct integer_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_INT };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE(ABS, a < 0 ? (C)(0 - (uint64_t)a) : a)
            EWC_CASE(NEG, (C)(0 - (uint64_t)a))
            EWC_CASE(SIGN, sign_of(a))
            EWC_CASE(SQUARE, (C)((uint64_t)a * (uint64_t)a))
            EWC_CASE(RELU, a > 0 ? a : 0)
            EWC_CASE(HARDTANH, a < p.i[0] ? p.i[0] : a > p.i[1] ? p.i[1] : a)
            EWC_CASE(THRESHOLD, a <= p.i[0] ? p.i[1] : a)
        default:
            EWC_CASE(CONJ, a)  // rounding, too: integers stay
        }
    }
};

struct math_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_FLOATS, HOT = 1 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
            EWC_CASE(EXP, exp(a))
            EWC_CASE(EXP2, exp2(a))
            EWC_CASE(EXPM1, expm1(a))
            EWC_CASE(LOG, log(a))
            EWC_CASE(LOG2, log2(a))
            EWC_CASE(LOG10, log10(a))
            EWC_CASE(LOG1P, log1p(a))
            EWC_CASE(TANH, tanh(a))
            EWC_CASE(ERF, erf(a))
            EWC_CASE(MISH, a *tanh(log1p(exp(a))))
            EWC_CASE(SOFTPLUS, softplus_of(a, p))
            EWC_CASE(ELU, elu_of(a, p))
        default:
            EWC_CASE(LOG_SIGMOID, log_sigmoid_of(a))
        }
    }
};

// Apart, for fewer registers.
struct gate_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_FLOATS, HOT = 1 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
        switch (code) {
        case GELU:
            if (is_half(p) && p.i[0]) {
                EWC_EACH(quick_gelu_tanh(a))
            } else if (p.i[0]) {
                EWC_EACH(gelu_of(a, true))
            } else {
                if (is_half(p)) {
                    EWC_EACH(quick_gelu(a))
                } else {
                    EWC_EACH(float_gelu(a))
                }
                gelu_ends(x[0], p, r[0]);
            }
            break;
        case SILU:
            if (is_half(p)) {
                EWC_EACH(quick_silu(a))
            } else {
                EWC_EACH(a *sigmoid_of(a))
            }
            break;
        default:
            if (is_half(p)) {
                EWC_EACH(quick_sigmoid(a))
            } else {
                EWC_EACH(sigmoid_of(a))
            }
        }
    }
};

struct circle_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++) {
            const C a = x[0][i];
            C y;
            switch (code) {
            case SIN: y = sin(a); break;
            case COS: y = cos(a); break;
            case TAN: y = tan(a); break;
            case ASIN: y = asin(a); break;
            case ACOS: y = acos(a); break;
            case ATAN: y = atan(a); break;
            case SINH: y = sinh(a); break;
            case COSH: y = cosh(a); break;
            case ASINH: y = asinh(a); break;
            case ACOSH: y = acosh(a); break;
            case ATANH: y = atanh(a); break;
            case ERFC: y = erfc(a); break;
            case LOGIT: y = logit_of(a, p); break;
            default: y = sinc_of(a); break;
            }
            r[0][i] = y;
        }
    }
};

// Complex numbers, through double.
static __device__ __noinline__ cdouble complex_function(int code, cdouble z, const ewc_params &p) {
    switch (code) {
    case ABS: return {hypot(z.re, z.im), 0};
    case ANGLE: return {atan2(z.im, z.re), 0};
    case NEG: return -z;
    case CONJ: return {z.re, -z.im};
    case SIGN: {
        const double size = hypot(z.re, z.im);
        return size == 0 ? cdouble{0, 0} : cdouble{z.re / size, z.im / size};
    }
    case NAN_TO_NUM: return {nan_to_num(z.re, p), nan_to_num(z.im, p)};
    case SQUARE: return z * z;
    case RECIPROCAL: return cdouble{1, 0} / z;
    case SQRT: return zc_sqrt(z);
    case RSQRT: return cdouble{1, 0} / zc_sqrt(z);
    case EXP: return zc_exp(z);
    case EXP2: return zc_exp(zc_scale(z, 0.693147180559945309417));
    case EXPM1: return zc_expm1(z);
    case LOG: return zc_log(z);
    case LOG2: return zc_scale(zc_log(z), 1.44269504088896340736);
    case LOG10: return zc_scale(zc_log(z), 0.434294481903251827651);
    case LOG1P: return zc_log1p(z);
    case SIN: return zc_sin(z);
    case COS: return zc_cos(z);
    case TAN: return zc_tan(z);
    case ASIN: return zc_asin(z);
    case ACOS: return zc_acos(z);
    case ATAN: return zc_atan(z);
    case SINH: return zc_sinh(z);
    case COSH: return zc_cosh(z);
    case TANH: return zc_tanh(z);
    case ASINH: return zc_asinh(z);
    case ACOSH: return zc_acosh(z);
    case ATANH: return zc_atanh(z);
    case SIGMOID: return cdouble{1, 0} / (cdouble{1, 0} + zc_exp(-z));
    case SILU: return z / (cdouble{1, 0} + zc_exp(-z));
    default: {
        if (z.re == 0 && z.im == 0) return {1, 0};
        // complex64: pi z in float, as ATen
        const cdouble t = p.compute == NBX_COMPLEX64 ? cdouble{(float)z.re * 3.14159265358979323846f, (float)z.im * 3.14159265358979323846f}
                                                     : zc_scale(z, 3.14159265358979323846);
        return zc_sin(t) / t;
    }
    }
}
struct complex_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_C64 | EWC_C128 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[1][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = zc_narrow<C>(complex_function(code, zc_wide(x[0][i]), p));
    }
};

struct log_sigmoid_group {  // log_sigmoid_forward(self) -> (output, e^-|self|)
    enum { INPUTS = 1, OUTPUTS = 2, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[2][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) {
            r[0][i] = log_sigmoid_of(x[0][i]);
            r[1][i] = exp(-fabs(x[0][i]));
        }
    }
};
EWC_OP(log_sigmoid_group, LOG_SIGMOID, "aten::log_sigmoid_forward")

struct frexp_group {  // frexp(self) -> (fraction, exponent)
    enum { INPUTS = 1, OUTPUTS = 2, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[2][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) {
            int exponent = 0;
            r[0][i] = frexp(x[0][i], &exponent);
            r[1][i] = (C)(isfinite(x[0][i]) ? exponent : 0);
        }
    }
};
EWC_OP(frexp_group, 0, "aten::frexp.Tensor")

template <typename Group, int CODE> static nbx_status function(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const bool integral = x && nbx_dtype_is_integral((nbx_dtype)x->dtype, true);
    if (x && nbx_dtype_is_complex((nbx_dtype)x->dtype)) return ewc_run<complex_group>(c, CODE);
    // integers that stay integers
    const bool stays = CODE <= TRUNC || CODE == NAN_TO_NUM || CODE == CONJ || CODE == RELU || CODE == HARDTANH || CODE == THRESHOLD;
    const bool becomes_float = CODE == RECIPROCAL || CODE == SQRT || CODE == RSQRT;
    if (integral && stays && !becomes_float) return ewc_run<integer_group>(c, CODE);
    return ewc_run<Group>(c, CODE);
}

#define FUNCTION(GROUP, CODE, NAME) NBX_CUDA_KERNEL(NAME, function<GROUP, CODE>)
FUNCTION(cheap_group, ABS, "aten::abs")
FUNCTION(cheap_group, ABS, "aten::absolute")
FUNCTION(cheap_group, NEG, "aten::neg")
FUNCTION(cheap_group, NEG, "aten::negative")
FUNCTION(cheap_group, SIGN, "aten::sign")
FUNCTION(cheap_group, SIGN, "aten::sgn")
FUNCTION(cheap_group, SQUARE, "aten::square")
FUNCTION(cheap_group, RECIPROCAL, "aten::reciprocal")
FUNCTION(cheap_group, SQRT, "aten::sqrt")
FUNCTION(cheap_group, RSQRT, "aten::rsqrt")
FUNCTION(cheap_group, FLOOR, "aten::floor")
FUNCTION(cheap_group, CEIL, "aten::ceil")
FUNCTION(cheap_group, ROUND, "aten::round")
FUNCTION(cheap_group, TRUNC, "aten::trunc")
FUNCTION(cheap_group, TRUNC, "aten::fix")
FUNCTION(cheap_group, FRAC, "aten::frac")
FUNCTION(cheap_group, ROUND_DECIMALS, "aten::round.decimals")
FUNCTION(cheap_group, NAN_TO_NUM, "aten::nan_to_num")
FUNCTION(cheap_group, DEG2RAD, "aten::deg2rad")
FUNCTION(cheap_group, RAD2DEG, "aten::rad2deg")
FUNCTION(cheap_group, ANGLE, "aten::angle")
FUNCTION(cheap_group, CONJ, "aten::_conj_physical")
FUNCTION(math_group, EXP, "aten::exp")
FUNCTION(math_group, EXP2, "aten::exp2")
FUNCTION(math_group, EXPM1, "aten::expm1")
FUNCTION(math_group, LOG, "aten::log")
FUNCTION(math_group, LOG2, "aten::log2")
FUNCTION(math_group, LOG10, "aten::log10")
FUNCTION(math_group, LOG1P, "aten::log1p")
FUNCTION(math_group, TANH, "aten::tanh")
FUNCTION(gate_group, SIGMOID, "aten::sigmoid")
FUNCTION(gate_group, SIGMOID, "aten::special_expit")
FUNCTION(math_group, ERF, "aten::erf")
FUNCTION(circle_group, ERFC, "aten::erfc")
FUNCTION(circle_group, SIN, "aten::sin")
FUNCTION(circle_group, COS, "aten::cos")
FUNCTION(circle_group, TAN, "aten::tan")
FUNCTION(circle_group, ASIN, "aten::asin")
FUNCTION(circle_group, ACOS, "aten::acos")
FUNCTION(circle_group, ATAN, "aten::atan")
FUNCTION(circle_group, SINH, "aten::sinh")
FUNCTION(circle_group, COSH, "aten::cosh")
FUNCTION(circle_group, ASINH, "aten::asinh")
FUNCTION(circle_group, ACOSH, "aten::acosh")
FUNCTION(circle_group, ATANH, "aten::atanh")
FUNCTION(circle_group, LOGIT, "aten::logit")
FUNCTION(circle_group, LOGIT, "aten::special_logit")
FUNCTION(circle_group, SINC, "aten::sinc")
FUNCTION(cheap_group, RELU, "aten::relu")
FUNCTION(cheap_group, HARDTANH, "aten::relu6")
FUNCTION(cheap_group, HARDTANH, "aten::hardtanh")
FUNCTION(cheap_group, LEAKY_RELU, "aten::leaky_relu")
FUNCTION(math_group, ELU, "aten::elu")
FUNCTION(math_group, ELU, "aten::selu")
FUNCTION(math_group, ELU, "aten::celu")
FUNCTION(gate_group, GELU, "aten::gelu")
FUNCTION(gate_group, SILU, "aten::silu")
FUNCTION(math_group, MISH, "aten::mish")
FUNCTION(math_group, SOFTPLUS, "aten::softplus")
FUNCTION(cheap_group, SOFTSHRINK, "aten::softshrink")
FUNCTION(cheap_group, HARDSHRINK, "aten::hardshrink")
FUNCTION(cheap_group, HARDSIGMOID, "aten::hardsigmoid")
FUNCTION(cheap_group, HARDSWISH, "aten::hardswish")
FUNCTION(cheap_group, THRESHOLD, "aten::threshold")
FUNCTION(math_group, LOG_SIGMOID, "aten::log_sigmoid")
