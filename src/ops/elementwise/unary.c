// Rows of functions of one argument: rounding, signs, roots, exponentials, logarithms, circular and hyperbolic ones.
#include "ops/elementwise/elementwise.h"

#include <math.h>

#define KERNELS(X)                                                                                                     \
    X(abs) X(neg) X(sign) X(sgn) X(square) X(reciprocal) X(sqrt) X(rsqrt) X(exp) X(exp2) X(expm1) X(log) X(log2)       \
    X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh)  \
    X(sigmoid) X(floor) X(ceil) X(round) X(trunc) X(frac) X(round_decimals) X(erf) X(erfc) X(angle) X(deg2rad)         \
    X(rad2deg) X(conj) X(frexp) X(nan_to_num) X(logit) X(sinc)
#define DECLARE(NAME) NBX_CPU_DECLARE(ew_##NAME);
KERNELS(DECLARE)

// round.decimals(self, *, decimals): params f[0] = 10^|decimals|, i[0] = decimals
static nbx_status take_decimals(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    p->i[0] = arg_int(c, 1);
    p->f[0] = pow(10.0, fabs((double)p->i[0]));
    return NBX_OK;
}

// nan_to_num(self, nan, posinf, neginf): absent infinities become the extremes of the dtype.
static nbx_status take_replacements(nbx_op_call *c, ew_types *types, ew_params *p) {
    const nbx_dtype real = nbx_dtype_to_real(types->compute);
    const double largest = real == NBX_FLOAT16    ? 65504.0
                           : real == NBX_BFLOAT16 ? 3.3895313892515355e38
                           : real == NBX_FLOAT32  ? 3.4028234663852886e38
                                                  : 1.7976931348623157e308;
    p->f[0] = arg_float_or(c, 1, 0);
    p->f[1] = arg_float_or(c, 2, largest);
    p->f[2] = arg_float_or(c, 3, -largest);
    return NBX_OK;
}

// logit(self, eps): without eps, or with a NaN, nothing is clamped (params i[0] 0).
static nbx_status take_eps(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    p->f[0] = arg_float_or(c, 1, 0);
    p->i[0] = !arg_is_none(c, 1) && !isnan(p->f[0]);
    p->f[1] = 1 - p->f[0];
    return NBX_OK;
}

static nbx_status square_of_bool(nbx_op_call *c, ew_types *types, ew_params *p) {  // pow(bool, 2) is int64
    (void)c;
    (void)p;
    if (types->compute == NBX_BOOL) types->compute = types->out[0] = NBX_INT64;
    return NBX_OK;
}

// abs writes the dtype of self; of complex numbers, into any real dtype that takes the result.
static nbx_status size_target(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (!target || !nbx_dtype_is_complex(types->compute)) return nbx_call_need_target(c, 0, types->compute);
    if (c->schema->params[0].written) return nbx_call_fail(c, NBX_ERROR_DTYPE, "gives real numbers: not in place of complex ones");
    return nbx_dtype_is_complex((nbx_dtype)target->dtype) ? nbx_call_need_target(c, 0, types->compute) : NBX_OK;
}

// positive(self): self, but not of bool.
static nbx_status positive(nbx_op_call *c) {
    if (arg_tensor(c, 0)->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for bool");
    return out_tensor(c, 0, arg_tensor(c, 0));
}

#define ANALYTIC EW_UNARY, .rule = EW_FLOAT, .accepts = EW_FLOATS | EW_COMPLEXES
#define REAL_ONLY EW_UNARY, .rule = EW_FLOAT, .accepts = EW_FLOATS
#define SIZE EW_UNARY, .out = {EW_REAL}, .accepts = EW_NUMBERS | EW_COMPLEXES | EW_FLOAT8S, .setup = size_target
#define CURVE ANALYTIC, .flags = EW_TABLED
#define ROUNDING EW_UNARY, .accepts = EW_NUMBERS | EW_UINTS

const nbx_op nbx_ops_unary[] = {
    EW_OP("abs", ew_abs, SIZE),
    EW_OP("absolute", ew_abs, SIZE),
    EW_OP_EXACT("neg", ew_neg, EW_UNARY, .accepts = EW_NUMBERS | EW_COMPLEXES),
    EW_OP_EXACT("negative", ew_neg, EW_UNARY, .accepts = EW_NUMBERS | EW_COMPLEXES),
    EW_OP_EXACT("sign", ew_sign, EW_UNARY, .accepts = EW_NUMBERS | EW_BOOLS),
    EW_OP_EXACT("sgn", ew_sgn, EW_UNARY, .accepts = EW_NUMBERS | EW_BOOLS | EW_COMPLEXES),
    EW_OP("square", ew_square, EW_UNARY, .accepts = EW_NUMBERS | EW_COMPLEXES, .setup = square_of_bool),
    EW_OP("reciprocal", ew_reciprocal, ANALYTIC),
    EW_OP("sqrt", ew_sqrt, ANALYTIC),
    EW_OP("rsqrt", ew_rsqrt, ANALYTIC),
    EW_OP("exp", ew_exp, ANALYTIC),
    EW_OP("exp2", ew_exp2, CURVE),
    EW_OP("expm1", ew_expm1, CURVE),
    EW_OP("log", ew_log, CURVE),
    EW_OP("log2", ew_log2, CURVE),
    EW_OP("log10", ew_log10, CURVE),
    EW_OP("log1p", ew_log1p, CURVE),
    EW_OP("sin", ew_sin, CURVE),
    EW_OP("cos", ew_cos, CURVE),
    EW_OP("tan", ew_tan, CURVE),
    EW_OP("asin", ew_asin, CURVE),
    EW_OP("acos", ew_acos, CURVE),
    EW_OP("atan", ew_atan, CURVE),
    EW_OP("sinh", ew_sinh, CURVE),
    EW_OP("cosh", ew_cosh, CURVE),
    EW_OP("tanh", ew_tanh, CURVE),
    EW_OP("asinh", ew_asinh, CURVE),
    EW_OP("acosh", ew_acosh, CURVE),
    EW_OP("atanh", ew_atanh, CURVE),
    EW_OP("sigmoid", ew_sigmoid, CURVE),
    EW_OP("special_expit", ew_sigmoid, CURVE),
    EW_OP("sinc", ew_sinc, CURVE),
    EW_OP("erf", ew_erf, REAL_ONLY, .flags = EW_TABLED),
    EW_OP("erfc", ew_erfc, REAL_ONLY, .flags = EW_TABLED),
    EW_OP("deg2rad", ew_deg2rad, REAL_ONLY),
    EW_OP("rad2deg", ew_rad2deg, REAL_ONLY),
    EW_OP("logit", ew_logit, REAL_ONLY, .flags = EW_TABLED, .setup = take_eps),
    EW_OP("special_logit", ew_logit, REAL_ONLY, .flags = EW_TABLED, .setup = take_eps),
    EW_OP("angle", ew_angle, EW_UNARY, .rule = EW_FLOAT, .out = {EW_REAL}, .flags = EW_PLAIN_COMPLEX, .accepts = EW_FLOATS | EW_COMPLEXES),
    EW_OP_EXACT("floor", ew_floor, ROUNDING),
    EW_OP_EXACT("ceil", ew_ceil, ROUNDING),
    EW_OP_EXACT("round", ew_round, ROUNDING),
    EW_OP_EXACT("trunc", ew_trunc, ROUNDING),
    EW_OP_EXACT("fix", ew_trunc, ROUNDING),
    EW_OP_EXACT("frac", ew_frac, EW_UNARY, .accepts = EW_FLOATS),
    EW_OP_EXACT("round.decimals", ew_round_decimals, EW_UNARY, .accepts = EW_FLOATS, .setup = take_decimals),
    EW_OP_EXACT("frexp.Tensor", ew_frexp, EW_UNARY, .outputs = 2, .out = {EW_SAME, EW_INT32}, .accepts = EW_FLOATS),
    EW_OP("_conj_physical", ew_conj, EW_UNARY, .accepts = EW_NUMBERS | EW_BOOLS | EW_COMPLEXES),
    EW_OP_EXACT("nan_to_num", ew_nan_to_num, EW_UNARY, .accepts = ~EW_FLOAT8S, .setup = take_replacements),
    {.name = "aten::positive", .composite = positive},
    NBX_OPS_END,
};
