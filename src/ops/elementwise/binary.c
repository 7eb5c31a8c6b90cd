// Rows of other functions of two arguments.
#include "ops/elementwise/elementwise.h"

#define KERNELS(X)                                                                                                     \
    X(maximum) X(minimum) X(fmax) X(fmin) X(atan2) X(hypot) X(copysign) X(nextafter) X(heaviside) X(logaddexp)         \
    X(logaddexp2) X(xlogy) X(xlog1py) X(complex) X(polar) X(swiglu)
#define DECLARE(NAME) NBX_CPU_DECLARE(ew_##NAME);
KERNELS(DECLARE)

static nbx_status same_dtypes(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    (void)p;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->dtype == b->dtype) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes two tensors of one dtype, not %s and %s", nbx_dtype_name((nbx_dtype)a->dtype),
                         nbx_dtype_name((nbx_dtype)b->dtype));
}

// ldexp(self, other) = self * 2^other, where 2 is a tensor without dims: of the dtype of self, or of the default float.
static nbx_status ldexp_composite(nbx_op_call *c) {
    const nbx_dtype d = (nbx_dtype)arg_tensor(c, 0)->dtype, base = nbx_dtype_is_integral(d, true) ? NBX_FLOAT32 : d;
    const nbx_tensor *two = NBX_DO(c->ctx, "aten::scalar_tensor", F(2.0), nbx_of_dtype(base), NIL, nbx_of_device(c->device));
    const nbx_tensor *power = NBX_DO(c->ctx, "aten::pow.Tensor_Tensor", T(two), c->args[1]);
    return NBX_FORWARD(c, "aten::mul.Tensor", c->args[0], T(power));
}

#define EXTREME EW_BINARY, .accepts = EW_NUMBERS | EW_BOOLS
#define REAL EW_BINARY, .accepts = EW_FLOATS
#define REAL_OF_INTS EW_BINARY, .rule = EW_FLOAT, .accepts = EW_FLOATS

const nbx_op nbx_ops_binary[] = {
    EW_OP("maximum", ew_maximum, EXTREME),
    EW_OP("max.other", ew_maximum, EXTREME),
    EW_OP("clamp_min.Tensor", ew_maximum, EXTREME),
    EW_OP("minimum", ew_minimum, EXTREME),
    EW_OP("min.other", ew_minimum, EXTREME),
    EW_OP("clamp_max.Tensor", ew_minimum, EXTREME),
    EW_OP("fmax", ew_fmax, EXTREME),
    EW_OP("fmin", ew_fmin, EXTREME),
    EW_OP("atan2", ew_atan2, REAL_OF_INTS, .flags = EW_HEAVY),
    EW_OP("hypot", ew_hypot, REAL),
    EW_OP("copysign.Tensor", ew_copysign, REAL_OF_INTS),
    EW_OP("copysign.Scalar", ew_copysign, REAL_OF_INTS),
    EW_OP("nextafter", ew_nextafter, REAL),
    EW_OP("heaviside", ew_heaviside, EXTREME, .setup = same_dtypes),
    EW_OP("logaddexp", ew_logaddexp, EW_BINARY, .accepts = EW_FLOATS | EW_COMPLEXES),
    EW_OP("logaddexp2", ew_logaddexp2, REAL),
    EW_OP("xlogy.Tensor", ew_xlogy, REAL_OF_INTS),
    EW_OP("xlogy.Scalar_Self", ew_xlogy, REAL_OF_INTS),
    EW_OP("xlogy.Scalar_Other", ew_xlogy, REAL_OF_INTS),
    EW_OP("special_xlog1py", ew_xlog1py, REAL_OF_INTS),
    EW_OP("special_xlog1py.self_scalar", ew_xlog1py, REAL_OF_INTS),
    EW_OP("special_xlog1py.other_scalar", ew_xlog1py, REAL_OF_INTS),
    EW_OP_EXACT("complex", ew_complex, EW_BINARY, .out = {EW_COMPLEX}, .accepts = EW_SINGLES, .setup = same_dtypes),
    EW_OP_EXACT("polar", ew_polar, EW_BINARY, .out = {EW_COMPLEX}, .accepts = EW_SINGLES, .setup = same_dtypes),
    EW_OP_NAMED("nbx::swiglu_fused", ew_swiglu, EW_BINARY, .accepts = EW_FLOATS),
    {.name = "aten::ldexp.Tensor", .composite = ldexp_composite},
    NBX_OPS_END,
};
