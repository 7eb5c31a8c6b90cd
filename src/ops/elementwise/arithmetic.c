// Rows of + - * / and the integer quotients and rests.
#include "ops/elementwise/elementwise.h"

#include <string.h>

NBX_CPU_DECLARE(ew_add);
NBX_CPU_DECLARE(ew_sub);
NBX_CPU_DECLARE(ew_mul);
NBX_CPU_DECLARE(ew_div);
NBX_CPU_DECLARE(ew_div_mode);
NBX_CPU_DECLARE(ew_remainder);
NBX_CPU_DECLARE(ew_fmod);

// alpha of add and sub: params f[0] + f[1]i, and i[0].
static nbx_status take_alpha(nbx_op_call *c, int arg, const ew_types *types, ew_params *p) {
    const nbx_value *alpha = &c->args[arg];
    const nbx_category category = nbx_dtype_category(types->compute);
    p->f[0] = nbx_scalar_to_double(alpha);
    p->f[1] = alpha->kind == NBX_KIND_COMPLEX ? alpha->as.complex[1] : 0;
    p->i[0] = nbx_scalar_to_int(alpha);
    if (alpha->kind == NBX_KIND_BOOL && types->compute != NBX_BOOL)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a bool alpha is for bool results only");
    if (alpha->kind >= NBX_KIND_FLOAT && alpha->kind != NBX_KIND_BOOL && category <= NBX_CATEGORY_INTEGER)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "alpha must be an integer for integer results");
    if (alpha->kind == NBX_KIND_COMPLEX && category != NBX_CATEGORY_COMPLEX)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "alpha must be real for real results");
    return NBX_OK;
}

static nbx_status alpha_2(nbx_op_call *c, ew_types *types, ew_params *p) { return take_alpha(c, 2, types, p); }

// rounding_mode of div: params i[0] is 0 for true division, 1 for trunc, 2 for floor.
static nbx_status rounding_mode(nbx_op_call *c, ew_types *types, ew_params *p) {
    const char *mode = arg_string(c, 2);
    p->i[0] = !mode ? 0 : strcmp(mode, "trunc") == 0 ? 1 : strcmp(mode, "floor") == 0 ? 2 : 3;
    if (p->i[0] == 3) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "rounding_mode is None, 'trunc' or 'floor', not '%s'", mode);
    if (p->i[0] == 0) {
        if (nbx_dtype_is_integral(types->compute, true)) types->compute = types->out[0] = NBX_FLOAT32;
        return NBX_OK;
    }
    if (types->compute == NBX_BOOL || nbx_dtype_is_complex(types->compute))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "with a rounding_mode is not defined for %s", nbx_dtype_name(types->compute));
    return NBX_OK;
}

static nbx_status floor_mode(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)c;
    (void)types;
    p->i[0] = 2;
    return NBX_OK;
}

// prims::div(self, other): integers are divided toward 0, also by fractions. Tensors of one dtype and shape, or a number or 0-dim tensor beside one.
static nbx_status prim_division(nbx_op_call *c, ew_types *types, ew_params *p) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!a->wrapped && !b->wrapped && a->dtype != b->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes tensors of one dtype, not %s and %s", nbx_dtype_name((nbx_dtype)a->dtype), nbx_dtype_name((nbx_dtype)b->dtype));
    if (a->rank && b->rank && !nbx_same_shape(a, b)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes tensors of one shape");
    if (types->compute == NBX_BOOL) types->compute = types->out[0] = NBX_FLOAT32;
    p->i[0] = nbx_dtype_is_integral((nbx_dtype)a->dtype, a->wrapped);
    return NBX_OK;
}

#define ANY (EW_NUMBERS | EW_COMPLEXES)
#define ADD EW_BINARY, .accepts = ANY | EW_BOOLS, .setup = alpha_2
#define SUB EW_BINARY, .accepts = ANY, .setup = alpha_2, .flags = EW_NO_BOOL_INPUT
#define RSUB .inputs = 2, .arg = {1, 0}, .accepts = ANY, .setup = alpha_2, .flags = EW_NO_BOOL_INPUT
#define MUL EW_BINARY, .accepts = ANY | EW_BOOLS | EW_UINTS | EW_FLOAT8S, .flags = EW_EXACT_NUMBERS
#define DIV EW_BINARY, .rule = EW_FLOAT, .accepts = EW_FLOATS | EW_COMPLEXES, .flags = EW_EXACT_NUMBERS
#define DIV_MODE EW_BINARY, .accepts = ANY, .setup = rounding_mode, .flags = EW_EXACT_NUMBERS
#define FLOOR EW_BINARY, .accepts = EW_NUMBERS, .setup = floor_mode, .flags = EW_EXACT_NUMBERS
#define REST EW_BINARY, .accepts = EW_NUMBERS

const nbx_op nbx_ops_arithmetic[] = {
    EW_OP("add.Tensor", ew_add, ADD),
    EW_OP("add.Scalar", ew_add, ADD),
    EW_OP("sub.Tensor", ew_sub, SUB),
    EW_OP("sub.Scalar", ew_sub, SUB),
    EW_OP("subtract.Tensor", ew_sub, SUB),
    EW_OP("rsub.Tensor", ew_sub, RSUB),
    EW_OP("rsub.Scalar", ew_sub, RSUB),
    EW_OP("mul.Tensor", ew_mul, MUL),
    EW_OP("mul.Scalar", ew_mul, MUL),
    EW_OP("multiply.Tensor", ew_mul, MUL),
    EW_OP("div.Tensor", ew_div, DIV),
    EW_OP("div.Scalar", ew_div, DIV),
    EW_OP("divide.Tensor", ew_div, DIV),
    EW_OP("true_divide.Tensor", ew_div, DIV),
    EW_OP("div.Tensor_mode", ew_div_mode, DIV_MODE),
    EW_OP("div.Scalar_mode", ew_div_mode, DIV_MODE),
    EW_OP_NAMED("prims::div", ew_div_mode, EW_BINARY, .accepts = ANY, .setup = prim_division, .flags = EW_EXACT_NUMBERS),
    EW_OP("floor_divide", ew_div_mode, FLOOR),
    EW_OP("floor_divide.Scalar", ew_div_mode, FLOOR),
    EW_OP("remainder.Tensor", ew_remainder, REST),
    EW_OP("remainder.Scalar", ew_remainder, REST),
    EW_OP("remainder.Scalar_Tensor", ew_remainder, REST),
    EW_OP("fmod.Tensor", ew_fmod, REST),
    EW_OP("fmod.Scalar", ew_fmod, REST),
    NBX_OPS_END,
};
