// Rows of sym::*, the arithmetic of symbolic numbers: so that they can be called like any operator. Programs take the shorter
// way, nbx_host_call.
#include "ops/op.h"
#include "ops/symbolic/symbolic.h"

static nbx_status on_host(nbx_op_call *c) {
    nbx_value result;
    const nbx_status status = nbx_host_call(c->ctx, *(const nbx_host_code *)c->op->data, c->args, c->arg_count, &result);
    if (status == NBX_OK) out_value(c, 0, result);
    return status;
}

#define SYM(NAME, CODE) {.name = "sym::" NAME, .composite = on_host, .data = &(const nbx_host_code){NBX_HOST_##CODE}}

const nbx_op nbx_ops_sym[] = {
    SYM("add", ADD), SYM("sub", SUB), SYM("mul", MUL), SYM("truediv", TRUEDIV), SYM("floordiv", FLOORDIV), SYM("mod", MOD),
    SYM("pow", POW), SYM("and_", AND), SYM("or_", OR), SYM("lshift", LSHIFT), SYM("rshift", RSHIFT),
    SYM("sym_max", MAX), SYM("sym_min", MIN), SYM("eq", EQ), SYM("ne", NE), SYM("lt", LT), SYM("le", LE), SYM("gt", GT), SYM("ge", GE),
    SYM("neg", NEG), SYM("pos", POS), SYM("abs", ABS), SYM("ceil", CEIL), SYM("floor", FLOOR), SYM("trunc", TRUNC), SYM("round", ROUND),
    SYM("sqrt", SQRT), SYM("sym_sqrt", SQRT), SYM("_sym_sqrt", SQRT), SYM("sym_int", TO_INT), SYM("sym_float", TO_FLOAT),
    SYM("not_", NOT), SYM("sym_not", NOT), SYM("sym_ite", ITE), SYM("sym_sum", SUM),
    NBX_OPS_END,
};
