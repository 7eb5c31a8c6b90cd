// Rows of comparisons, tests and logic: all give bool.
#include "ops/elementwise/elementwise.h"

NBX_CPU_DECLARE(ew_eq);
NBX_CPU_DECLARE(ew_ne);
NBX_CPU_DECLARE(ew_lt);
NBX_CPU_DECLARE(ew_le);
NBX_CPU_DECLARE(ew_gt);
NBX_CPU_DECLARE(ew_ge);
NBX_CPU_DECLARE(ew_logical_and);
NBX_CPU_DECLARE(ew_logical_or);
NBX_CPU_DECLARE(ew_logical_xor);
NBX_CPU_DECLARE(ew_logical_not);
NBX_CPU_DECLARE(ew_isnan);
NBX_CPU_DECLARE(ew_isinf);
NBX_CPU_DECLARE(ew_isfinite);
NBX_CPU_DECLARE(ew_isposinf);
NBX_CPU_DECLARE(ew_isneginf);
NBX_CPU_DECLARE(ew_isreal);
NBX_CPU_DECLARE(ew_signbit);
NBX_CPU_DECLARE(ew_isclose);

// Logic looks at what is not zero, so all of it computes in bool.
static nbx_status as_bool(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    const ew_row *row = c->op->data;
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *t = arg_tensor(c, row->arg[k]);
        if (t && (EW_BIT(t->dtype) & (EW_UINTS | EW_FLOAT8S)))
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name((nbx_dtype)t->dtype));
    }
    types->compute = types->out[0] = NBX_BOOL;
    return NBX_OK;
}

// isclose(self, other, rtol, atol, equal_nan)
static nbx_status tolerances(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->dtype != b->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s does not match %s", nbx_dtype_name((nbx_dtype)a->dtype), nbx_dtype_name((nbx_dtype)b->dtype));
    p->f[0] = arg_float(c, 2);
    p->f[1] = arg_float(c, 3);
    p->i[0] = arg_bool(c, 4);
    if (!(p->f[0] >= 0) || !(p->f[1] >= 0))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "rtol and atol must not be negative, but are %g and %g", p->f[0], p->f[1]);
    return NBX_OK;
}

// ---------------------------------------------------------------------------------------------- one bool for all elements
static nbx_status all_true(nbx_op_call *c, const nbx_tensor *each) {
    bool answer = true;
    const nbx_tensor *all = NBX_DO(c->ctx, "aten::all", T(each));
    if (!all || nbx_tensor_read(c->ctx, all, &answer) != NBX_OK) return c->ctx->status;
    out_value(c, 0, nbx_of_bool(answer));
    return NBX_OK;
}

static nbx_status allclose(nbx_op_call *c) {
    return all_true(c, NBX_DO(c->ctx, "aten::isclose", c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]));
}

#define ORDER EW_BINARY, .out = {EW_BOOL}, .accepts = EW_NUMBERS | EW_BOOLS
#define EQUALITY EW_BINARY, .out = {EW_BOOL}
#define TEST EW_UNARY, .out = {EW_BOOL}
#define LOGIC EW_BINARY, .setup = as_bool

const nbx_op nbx_ops_compare[] = {
    EW_OP("eq.Tensor", ew_eq, EQUALITY),
    EW_OP("eq.Scalar", ew_eq, EQUALITY),
    EW_OP("ne.Tensor", ew_ne, EQUALITY),
    EW_OP("ne.Scalar", ew_ne, EQUALITY),
    EW_OP("not_equal.Tensor", ew_ne, EQUALITY),
    EW_OP("lt.Tensor", ew_lt, ORDER),
    EW_OP("lt.Scalar", ew_lt, ORDER),
    EW_OP("less.Tensor", ew_lt, ORDER),
    EW_OP("le.Tensor", ew_le, ORDER),
    EW_OP("le.Scalar", ew_le, ORDER),
    EW_OP("less_equal.Tensor", ew_le, ORDER),
    EW_OP("gt.Tensor", ew_gt, ORDER),
    EW_OP("gt.Scalar", ew_gt, ORDER),
    EW_OP("greater.Tensor", ew_gt, ORDER),
    EW_OP("ge.Tensor", ew_ge, ORDER),
    EW_OP("ge.Scalar", ew_ge, ORDER),
    EW_OP("greater_equal.Tensor", ew_ge, ORDER),
    EW_OP("logical_and", ew_logical_and, LOGIC),
    EW_OP("logical_or", ew_logical_or, LOGIC),
    EW_OP("logical_xor", ew_logical_xor, LOGIC),
    EW_OP("logical_not", ew_logical_not, EW_UNARY, .setup = as_bool),
    EW_OP("isnan", ew_isnan, TEST),
    EW_OP("isinf", ew_isinf, TEST, .accepts = ~EW_BIT(NBX_FLOAT8_E4M3FN)),
    EW_OP("isfinite", ew_isfinite, TEST, .accepts = ~EW_BIT(NBX_FLOAT8_E4M3FN)),
    EW_OP_EXACT("isposinf", ew_isposinf, TEST, .accepts = EW_NUMBERS | EW_UINTS | EW_BOOLS),
    EW_OP_EXACT("isneginf", ew_isneginf, TEST, .accepts = EW_NUMBERS | EW_UINTS | EW_BOOLS),
    EW_OP("isreal", ew_isreal, TEST),
    EW_OP_EXACT("signbit", ew_signbit, TEST, .accepts = EW_NUMBERS | EW_BOOLS),
    EW_OP("isclose", ew_isclose, EW_BINARY, .out = {EW_BOOL}, .accepts = ~EW_FLOAT8S, .setup = tolerances),
    {.name = "aten::allclose", .composite = allclose, .flags = NBX_OP_READS_BACK},
    NBX_OPS_END,
};
