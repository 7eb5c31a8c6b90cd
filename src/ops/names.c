// Operators that are another operator under a second name: the same arguments in the same order, the same results.
#include "ops/op.h"

// out arguments, which come last, stay with the door.
static nbx_status second_name(nbx_op_call *c) {
    int count = c->arg_count;
    while (count > 1 && c->schema->params[count - 1].written) count--;
    return nbx_forward(c, c->op->data, count, c->args);
}

#define NAME_FLAGS(NAME, OF, FLAGS) {.name = "aten::" NAME, .composite = second_name, .data = "aten::" OF, .flags = FLAGS}
#define NAME(NAME, OF) NAME_FLAGS(NAME, OF, 0)
#define NAME_EXACT(NAME, OF) NAME_FLAGS(NAME, OF, NBX_OP_EXACT_DTYPE)

const nbx_op nbx_ops_names[] = {
    NAME("arccos", "acos"), NAME("arccosh", "acosh"), NAME("arcsin", "asin"), NAME("arcsinh", "asinh"), NAME("arctan", "atan"),
    NAME("arctanh", "atanh"), NAME("arctan2", "atan2"),
    NAME("subtract.Scalar", "sub.Scalar"), NAME("multiply.Scalar", "mul.Scalar"), NAME("divide.Scalar", "div.Scalar"),
    NAME("true_divide.Scalar", "div.Scalar"), NAME("divide.Tensor_mode", "div.Tensor_mode"), NAME("divide.Scalar_mode", "div.Scalar_mode"),
    NAME("greater.Scalar", "gt.Scalar"), NAME("greater_equal.Scalar", "ge.Scalar"), NAME("less.Scalar", "lt.Scalar"),
    NAME("less_equal.Scalar", "le.Scalar"), NAME("not_equal.Scalar", "ne.Scalar"),
    NAME("special_erf", "erf"), NAME("special_erfc", "erfc"), NAME("special_exp2", "exp2"), NAME("special_expm1", "expm1"),
    NAME("special_log1p", "log1p"), NAME("special_sinc", "sinc"), NAME("special_multigammaln", "mvlgamma"),
    NAME("special_polygamma", "polygamma"), NAME_EXACT("special_round", "round.decimals"), NAME("special_xlogy", "xlogy.Tensor"),
    NAME("special_xlogy.self_scalar", "xlogy.Scalar_Self"), NAME("special_xlogy.other_scalar", "xlogy.Scalar_Other"),
    NAME("special_logsumexp", "logsumexp"), NAME("special_log_softmax", "log_softmax.int"), NAME("special_softmax", "softmax.int"),
    NAME("_logcumsumexp", "logcumsumexp"), NAME("_stack", "stack"), NAME("_is_all_true", "all"), NAME("_is_any_true", "any"),
    NAME_EXACT("det", "linalg_det"), NAME("slogdet", "linalg_slogdet"), NAME_EXACT("inverse", "linalg_inv"),
    NAME_EXACT("matrix_power", "linalg_matrix_power"), NAME_EXACT("linalg_matmul", "matmul"), NAME_FLAGS("chain_matmul", "linalg_multi_dot", NBX_OP_EXACT_OUT),
    NAME("linalg_diagonal", "diagonal"), NAME("orgqr", "linalg_householder_product"),
    NAME("_lu_with_info", "linalg_lu_factor_ex"), NAME("trapz.x", "trapezoid.x"), NAME("trapz.dx", "trapezoid.dx"), NAME("pinverse", "linalg_pinv"),
    NBX_OPS_END,
};
