// _foreach_X(Tensor[] self, ...): X of every tensor of a list, one call each. Of the other arguments lists give their i-th element,
// everything else serves all. In-place and out= forms are derived, as everywhere.
//   errors: ARGUMENT when a list is empty or lists differ in length; else those of X
//   source: aten::_foreach_*, the plain kernels
#include "ops/compose.h"

static bool is_list(const nbx_value *v) { return v->kind == NBX_KIND_TENSORS || v->kind == NBX_KIND_VALUES; }

// out arguments, which come last, stay with the door.
static int given_count(const nbx_op_call *c) {
    int count = c->arg_count;
    while (count > 1 && c->schema->params[count - 1].written) count--;
    return count;
}

// The one length of all lists.
static nbx_status count_tensors(nbx_op_call *c, int *count) {
    *count = -1;
    for (int i = 0; i < given_count(c); i++) {
        if (!is_list(&c->args[i])) continue;
        if (*count >= 0 && c->args[i].count != *count)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s is a list of %d, beside one of %d", c->schema->params[i].name, (int)c->args[i].count, *count);
        *count = c->args[i].count;
    }
    return *count > 0 ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes lists of at least one tensor");
}

// The i-th call's arguments; returns how many.
static int arguments_at(const nbx_op_call *c, int i, nbx_value *args) {
    const int count = given_count(c);
    for (int k = 0; k < count; k++) {
        const nbx_value *v = &c->args[k];
        args[k] = v->kind == NBX_KIND_TENSORS ? T(v->as.tensors[i]) : v->kind == NBX_KIND_VALUES ? v->as.values[i] : *v;
    }
    return count;
}

static nbx_status foreach(nbx_op_call *c) {
    int count;
    nbx_status status = count_tensors(c, &count);
    if (status == NBX_OK) status = out_list(c, count);
    for (int i = 0; i < count && status == NBX_OK; i++) {
        nbx_value args[NBX_MAX_ARGS];
        const int given = arguments_at(c, i, args);
        status = out_tensor(c, i, nbx_do(c->ctx, c->op->data, given, args));
    }
    return status;
}

// One 0-dim tensor beside all.
static nbx_status foreach_beside(nbx_op_call *c) {
    const int rank = arg_tensor(c, 1)->rank;
    return rank == 0 ? foreach(c) : nbx_call_fail(c, NBX_ERROR_SHAPE, "other must be a 0-dim tensor, found %d dims", rank);
}

// The numbers of addcmul and addcdiv as a vector: the i-th call's is read.
static nbx_status foreach_of_vector(nbx_op_call *c) {
    enum { SCALARS = 3 };
    const nbx_tensor *scalars = arg_tensor(c, SCALARS);
    const int64_t count = scalars->rank == 1 ? scalars->shape[0] : -1;
    if (count != c->args[0].count)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "scalars must be a vector of one number for each of the %d tensors", (int)c->args[0].count);
    nbx_value *values = nbx_scope_alloc(c->ctx, sizeof *values * (size_t)(count ? count : 1));
    if (!values) return c->ctx->status;
    for (int64_t i = 0; i < count; i++) {
        const nbx_value item[1] = {T(NBX_DO(c->ctx, "aten::select.int", T(scalars), I(0), I(i)))};
        const nbx_status status = nbx_do_many(c->ctx, "aten::item", 1, item, &values[i], 1);
        if (status != NBX_OK) return status;
    }
    c->args[SCALARS] = nbx_of_values(values, (int)count);
    return foreach(c);
}

// norm(self, ord, dtype) over all elements, and powsum: the norm without its root, the sum of |x|^ord.
static nbx_tensor *norm(nbx_op_call *c, const nbx_tensor *x) {
    return NBX_DO(c->ctx, "aten::linalg_vector_norm", T(x), c->args[1], NIL, B(false), c->args[2]);
}

static nbx_tensor *powsum(nbx_op_call *c, const nbx_tensor *x) {
    const nbx_tensor *size = do_unary(c->ctx, "aten::abs", x);
    if (!arg_is_none(c, 2)) size = do_cast(c->ctx, size, arg_dtype(c, 2));
    return NBX_DO(c->ctx, "aten::sum", T(NBX_DO(c->ctx, "aten::pow.Tensor_Scalar", T(size), c->args[1])));
}

static nbx_status over_all(nbx_op_call *c, nbx_tensor *(*one)(nbx_op_call *, const nbx_tensor *)) {
    int count;
    nbx_status status = count_tensors(c, &count);
    if (status == NBX_OK) status = out_list(c, count);
    for (int i = 0; i < count && status == NBX_OK; i++)
        status = out_tensor(c, i, one(c, c->args[0].as.tensors[i]));
    return status;
}
static nbx_status foreach_norm(nbx_op_call *c) { return over_all(c, norm); }
static nbx_status foreach_powsum(nbx_op_call *c) { return over_all(c, powsum); }

#define EACH(NAME, OF) {.name = "aten::_foreach_" NAME, .composite = foreach, .data = "aten::" OF}
#define EACH_SAME(NAME) EACH(NAME, NAME)
#define EACH_NUMBER(NAME, OF) EACH(NAME ".Scalar", OF), EACH(NAME ".ScalarList", OF)
#define EACH_BINARY(NAME) EACH(NAME ".List", NAME ".Tensor"), EACH_NUMBER(NAME, NAME ".Scalar")
#define EACH_BESIDE(NAME) {.name = "aten::_foreach_" NAME ".Tensor", .composite = foreach_beside, .data = "aten::" NAME ".Tensor"}
#define EACH_BOUND(NAME, OF) EACH(NAME ".List", OF ".Tensor"), EACH_NUMBER(NAME, OF)
#define EACH_POINT(NAME) EACH_NUMBER(NAME, NAME), \
    {.name = "aten::_foreach_" NAME ".Tensor", .composite = foreach_of_vector, .data = "aten::" NAME, .flags = NBX_OP_READS_BACK}

const nbx_op nbx_ops_foreach[] = {
    EACH_SAME("abs"), EACH_SAME("acos"), EACH_SAME("asin"), EACH_SAME("atan"), EACH_SAME("ceil"), EACH_SAME("cos"), EACH_SAME("cosh"),
    EACH_SAME("erf"), EACH_SAME("erfc"), EACH_SAME("exp"), EACH_SAME("expm1"), EACH_SAME("floor"), EACH_SAME("frac"), EACH_SAME("lgamma"),
    EACH_SAME("log"), EACH_SAME("log10"), EACH_SAME("log1p"), EACH_SAME("log2"), EACH_SAME("neg"), EACH_SAME("reciprocal"), EACH_SAME("round"),
    EACH_SAME("rsqrt"), EACH_SAME("sigmoid"), EACH_SAME("sign"), EACH_SAME("sin"), EACH_SAME("sinh"), EACH_SAME("sqrt"), EACH_SAME("tan"),
    EACH_SAME("tanh"), EACH_SAME("trunc"), EACH_SAME("max"), EACH_SAME("zero"), EACH_SAME("copy"),
    EACH_BINARY("add"), EACH_BINARY("sub"), EACH_BINARY("mul"), EACH_BINARY("div"),
    EACH_BESIDE("add"), EACH_BESIDE("mul"), EACH_BESIDE("div"),
    EACH_BOUND("clamp_min", "clamp_min"), EACH_BOUND("clamp_max", "clamp_max"), EACH_BOUND("maximum", "clamp_min"), EACH_BOUND("minimum", "clamp_max"),
    EACH_POINT("addcmul"), EACH_POINT("addcdiv"),
    EACH("lerp.List", "lerp.Tensor"), EACH_NUMBER("lerp", "lerp.Scalar"),
    EACH("pow.List", "pow.Tensor_Tensor"), EACH_NUMBER("pow", "pow.Tensor_Scalar"), EACH("pow.ScalarAndTensor", "pow.Scalar"),
    {.name = "aten::_foreach_norm.Scalar", .composite = foreach_norm},
    {.name = "aten::_foreach_powsum.Scalar", .composite = foreach_powsum},
    NBX_OPS_END,
};
