// Rows of powers, with ATen's short cuts: x^0 is 1, x^1 is x, 1^x is 1, whatever x is.
#include "ops/elementwise/elementwise.h"

NBX_CPU_DECLARE(ew_pow);
NBX_CPU_DECLARE(ew_pow_number);
NBX_CPU_DECLARE(ew_pow_of_one);

static bool is_number(const nbx_value *v, double x) {
    return nbx_scalar_to_double(v) == x && (v->kind != NBX_KIND_COMPLEX || v->as.complex[1] == 0);
}

// Exponents that have a loop of their own: params i[0] = 1 + index; f[0] + f[1]i is the exponent.
static nbx_status take_exponent(nbx_op_call *c, ew_types *types, ew_params *p) {
    static const double quick[] = {0, 1, 2, 3, 0.5, -0.5, -1, -2};
    const nbx_value *e = &c->args[1];
    const bool whole = nbx_dtype_is_integral(types->compute, true);
    p->f[0] = nbx_scalar_to_double(e);
    p->f[1] = e->kind == NBX_KIND_COMPLEX ? e->as.complex[1] : 0;
    p->i[1] = nbx_scalar_to_int(e);
    p->i[0] = 0;
    for (int i = 0; i < 8; i++)
        if (is_number(e, quick[i])) p->i[0] = 1 + i;
    const bool root = p->i[0] == 5 || p->i[0] == 6;
    if (root && types->compute == NBX_FLOAT16) p->i[0] = 0;  // there ATen's roots of -inf are those of pow, not of sqrt
    if (p->i[0] == 1 || p->i[0] == 2) return NBX_OK;
    if (types->compute == NBX_BOOL || (EW_BIT(types->compute) & (EW_UINTS | EW_FLOAT8S)))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(types->compute));
    if (whole && p->i[1] < 0) return ew_fail_fault(c, EW_FAULT_NEGATIVE_POWER);
    return whole || (EW_BIT(types->compute) & EW_HALVES) ? ew_check_number(c, types->compute, e) : NBX_OK;
}

// The base is a number: 1 gives 1 in every dtype.
static nbx_status take_base(nbx_op_call *c, ew_types *types, ew_params *p) {
    p->i[0] = is_number(&c->args[0], 1);
    if (!p->i[0] && (types->compute == NBX_BOOL || (EW_BIT(types->compute) & (EW_UINTS | EW_FLOAT8S))))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(types->compute));
    return NBX_OK;
}

// float_power computes in double, or complex double, and writes nothing else.
static nbx_status in_double(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    types->compute = nbx_dtype_is_complex(types->compute) ? NBX_COMPLEX128 : NBX_FLOAT64;
    types->out[0] = types->compute;
    return nbx_call_need_target(c, 0, types->compute);
}
static nbx_status exponent_in_double(nbx_op_call *c, ew_types *types, ew_params *p) {
    const nbx_status status = in_double(c, types, p);
    return status == NBX_OK ? take_exponent(c, types, p) : status;
}

#define ANY (EW_NUMBERS | EW_COMPLEXES)

// The exponent of pow_number is among the inputs for the sake of promotion.
const nbx_op nbx_ops_pow[] = {
    EW_OP("pow.Tensor_Tensor", ew_pow, EW_BINARY, .accepts = ANY),
    EW_OP("pow.Scalar", ew_pow_of_one, EW_BINARY, .flags = EW_PLAIN_OUT, .setup = take_base),
    EW_OP("pow.Tensor_Scalar", ew_pow_number, EW_BINARY, .setup = take_exponent),
    EW_OP("float_power.Tensor_Scalar", ew_pow_number, EW_BINARY, .setup = exponent_in_double),
    EW_OP("float_power.Tensor_Tensor", ew_pow, EW_BINARY, .setup = in_double),
    EW_OP("float_power.Scalar", ew_pow, EW_BINARY, .flags = EW_PLAIN_OUT, .setup = in_double),
    NBX_OPS_END,
};
