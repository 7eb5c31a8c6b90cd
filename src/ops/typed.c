// The typed functions of nbx/ops.h: each binds its arguments by position and enters the one door.
#include "nbx/ops.h"
#include "ops/registry.h"

// A call site: finds its operator once.
typedef struct site {
    const char *name;
    const nbx_operator *op;
} site;

static nbx_status enter(nbx_context *ctx, site *s, int count, const nbx_value *args, nbx_value *results) {
    const nbx_operator *op = __atomic_load_n(&s->op, __ATOMIC_ACQUIRE);
    if (!op) {
        op = nbx_registry_find(s->name);
        if (!op) return nbx_fail(ctx, NBX_ERROR_UNKNOWN, "no operator is named %s", s->name);
        __atomic_store_n(&s->op, op, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < count; i++)
        if (args[i].kind == NBX_KIND_TENSOR && !args[i].as.tensor)
            return ctx->status != NBX_OK ? ctx->status : nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: argument %d is NULL", s->name, i);
    return nbx_dispatch(ctx, op, args, count, NULL, 0, results, NBX_MAX_RESULTS, NULL);
}

static nbx_tensor *expression(nbx_context *ctx, site *s, int count, const nbx_value *args) {
    nbx_value results[NBX_MAX_RESULTS];
    return enter(ctx, s, count, args, results) == NBX_OK ? (nbx_tensor *)results[0].as.tensor : NULL;
}

#define VALUES(...) (int)(sizeof((nbx_value[]){__VA_ARGS__}) / sizeof(nbx_value)), (nbx_value[]){__VA_ARGS__}
#define EXPRESSION(NAME, ...)                                                                                          \
    static site s = {NAME, NULL};                                                                                      \
    return expression(ctx, &s, VALUES(__VA_ARGS__))
#define COMMAND(NAME, ...)                                                                                             \
    static site s = {NAME, NULL};                                                                                      \
    nbx_value results[NBX_MAX_RESULTS];                                                                                \
    return enter(ctx, &s, VALUES(__VA_ARGS__), results)
#define INTS(list, count) nbx_of_ints(list, count)
#define DTYPE(d) nbx_of_dtype(d)

#define NBX_1(name, op) nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *x) { EXPRESSION(op, T(x)); }
#define NBX_2(name, op) nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) { EXPRESSION(op, T(a), T(b)); }
#define NBX_K(name, op) nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *a, double b) { EXPRESSION(op, T(a), F(b)); }

// ---------------------------------------------------------------------------------------------------------- creation
#define CREATE(name, op)                                                                                               \
    nbx_tensor *nbx_##name(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape) {                        \
        EXPRESSION(op, INTS(shape, rank), DTYPE(dtype), NIL, nbx_of_device(ctx->device));                              \
    }
CREATE(zeros, "aten::zeros")
CREATE(ones, "aten::ones")
CREATE(rand, "aten::rand")
CREATE(randn, "aten::randn")

nbx_tensor *nbx_full(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape, double value) {
    EXPRESSION("aten::full", INTS(shape, rank), F(value), DTYPE(dtype), NIL, nbx_of_device(ctx->device));
}
nbx_tensor *nbx_arange(nbx_context *ctx, nbx_dtype dtype, double start, double end, double step) {
    EXPRESSION("aten::arange.start_step", F(start), F(end), F(step), DTYPE(dtype), NIL, nbx_of_device(ctx->device));
}
nbx_tensor *nbx_eye(nbx_context *ctx, nbx_dtype dtype, int64_t n) {
    EXPRESSION("aten::eye", I(n), DTYPE(dtype), NIL, nbx_of_device(ctx->device));
}
NBX_1(zeros_like, "aten::zeros_like")
NBX_1(ones_like, "aten::ones_like")

// ------------------------------------------------------------------------------------------------------- elementwise
NBX_1(abs, "aten::abs")
NBX_1(neg, "aten::neg")
NBX_1(exp, "aten::exp")
NBX_1(log, "aten::log")
NBX_1(sqrt, "aten::sqrt")
NBX_1(rsqrt, "aten::rsqrt")
NBX_1(reciprocal, "aten::reciprocal")
NBX_1(square, "aten::square")
NBX_1(sin, "aten::sin")
NBX_1(cos, "aten::cos")
NBX_1(tanh, "aten::tanh")
NBX_1(erf, "aten::erf")
NBX_1(floor, "aten::floor")
NBX_1(ceil, "aten::ceil")
NBX_1(round, "aten::round")
NBX_1(sigmoid, "aten::sigmoid")
NBX_1(relu, "aten::relu")
NBX_1(silu, "aten::silu")
NBX_1(gelu, "aten::gelu")
nbx_tensor *nbx_gelu_tanh(nbx_context *ctx, const nbx_tensor *x) { EXPRESSION("aten::gelu", T(x), nbx_of_string("tanh")); }
NBX_1(logical_not, "aten::logical_not")
NBX_1(isnan, "aten::isnan")
NBX_2(add, "aten::add.Tensor")
NBX_2(sub, "aten::sub.Tensor")
NBX_2(mul, "aten::mul.Tensor")
NBX_2(div, "aten::div.Tensor")
NBX_2(pow, "aten::pow.Tensor_Tensor")
NBX_2(maximum, "aten::maximum")
NBX_2(minimum, "aten::minimum")
NBX_2(eq, "aten::eq.Tensor")
NBX_2(ne, "aten::ne.Tensor")
NBX_2(lt, "aten::lt.Tensor")
NBX_2(le, "aten::le.Tensor")
NBX_2(gt, "aten::gt.Tensor")
NBX_2(ge, "aten::ge.Tensor")
NBX_2(logical_and, "aten::logical_and")
NBX_2(logical_or, "aten::logical_or")
NBX_K(add_scalar, "aten::add.Scalar")
NBX_K(sub_scalar, "aten::sub.Scalar")
NBX_K(mul_scalar, "aten::mul.Scalar")
NBX_K(div_scalar, "aten::div.Scalar")
NBX_K(pow_scalar, "aten::pow.Tensor_Scalar")
NBX_K(eq_scalar, "aten::eq.Scalar")
NBX_K(lt_scalar, "aten::lt.Scalar")
NBX_K(gt_scalar, "aten::gt.Scalar")
nbx_tensor *nbx_where(nbx_context *ctx, const nbx_tensor *condition, const nbx_tensor *a, const nbx_tensor *b) {
    EXPRESSION("aten::where.self", T(condition), T(a), T(b));
}
nbx_tensor *nbx_clamp(nbx_context *ctx, const nbx_tensor *x, double low, double high) { EXPRESSION("aten::clamp", T(x), F(low), F(high)); }
nbx_tensor *nbx_masked_fill(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *mask, double value) {
    EXPRESSION("aten::masked_fill.Scalar", T(x), T(mask), F(value));
}
nbx_tensor *nbx_to_dtype(nbx_context *ctx, const nbx_tensor *x, nbx_dtype dtype) { EXPRESSION("aten::to.dtype", T(x), DTYPE(dtype)); }

// -------------------------------------------------------------------------------------------------------- reductions
#define REDUCE(name, op)                                                                                               \
    nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, bool keepdim) {      \
        EXPRESSION(op, T(x), INTS(dims, count), B(keepdim));                                                           \
    }
REDUCE(sum, "aten::sum.dim_IntList")
REDUCE(mean, "aten::mean.dim")
REDUCE(amax, "aten::amax")
REDUCE(amin, "aten::amin")
nbx_tensor *nbx_var(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, double correction, bool keepdim) {
    EXPRESSION("aten::var.correction", T(x), INTS(dims, count), F(correction), B(keepdim));
}
nbx_tensor *nbx_argmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim, bool keepdim) { EXPRESSION("aten::argmax", T(x), I(dim), B(keepdim)); }
nbx_tensor *nbx_cumsum(nbx_context *ctx, const nbx_tensor *x, int64_t dim) { EXPRESSION("aten::cumsum", T(x), I(dim)); }
nbx_tensor *nbx_softmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim) { EXPRESSION("aten::_softmax", T(x), I(dim), B(false)); }
nbx_tensor *nbx_log_softmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim) {
    EXPRESSION("aten::_log_softmax", T(x), I(dim), B(false));
}

static nbx_status pair(nbx_status status, const nbx_value *results, nbx_tensor **values, nbx_tensor **indices) {
    *values = status == NBX_OK ? (nbx_tensor *)results[0].as.tensor : NULL;
    *indices = status == NBX_OK ? (nbx_tensor *)results[1].as.tensor : NULL;
    return status;
}
nbx_status nbx_topk(nbx_context *ctx, const nbx_tensor *x, int64_t k, int64_t dim, nbx_tensor **values, nbx_tensor **indices) {
    static site s = {"aten::topk", NULL};
    nbx_value results[NBX_MAX_RESULTS];
    return pair(enter(ctx, &s, VALUES(T(x), I(k), I(dim)), results), results, values, indices);
}
nbx_status nbx_sort(nbx_context *ctx, const nbx_tensor *x, int64_t dim, bool descending, nbx_tensor **values, nbx_tensor **indices) {
    static site s = {"aten::sort", NULL};
    nbx_value results[NBX_MAX_RESULTS];
    return pair(enter(ctx, &s, VALUES(T(x), I(dim), B(descending)), results), results, values, indices);
}

// ------------------------------------------------------------------------------------------------------------- norms
nbx_tensor *nbx_layer_norm(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape, const nbx_tensor *weight,
                           const nbx_tensor *bias, double eps) {
    EXPRESSION("aten::layer_norm", T(x), INTS(shape, rank), T(weight), T(bias), F(eps));
}
nbx_tensor *nbx_rms_norm(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape, const nbx_tensor *weight, double eps) {
    EXPRESSION("aten::rms_norm", T(x), INTS(shape, rank), T(weight), F(eps));
}
nbx_tensor *nbx_group_norm(nbx_context *ctx, const nbx_tensor *x, int64_t groups, const nbx_tensor *weight, const nbx_tensor *bias,
                           double eps) {
    EXPRESSION("aten::group_norm", T(x), I(groups), T(weight), T(bias), F(eps));
}
nbx_tensor *nbx_batch_norm(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias,
                           const nbx_tensor *running_mean, const nbx_tensor *running_var, double eps) {
    EXPRESSION("aten::batch_norm", T(x), T(weight), T(bias), T(running_mean), T(running_var), B(false), F(0), F(eps), B(false));
}

// ----------------------------------------------------------------------------------------------------------- products
NBX_2(mm, "aten::mm")
NBX_2(bmm, "aten::bmm")
NBX_2(matmul, "aten::matmul")
nbx_tensor *nbx_linear(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias) {
    EXPRESSION("aten::linear", T(x), T(weight), T(bias));
}
nbx_tensor *nbx_addmm(nbx_context *ctx, const nbx_tensor *bias, const nbx_tensor *a, const nbx_tensor *b) {
    EXPRESSION("aten::addmm", T(bias), T(a), T(b));
}
nbx_tensor *nbx_conv2d(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias, const int64_t stride[2],
                       const int64_t padding[2], const int64_t dilation[2], int64_t groups) {
    EXPRESSION("aten::conv2d", T(x), T(weight), T(bias), INTS(stride, 2), INTS(padding, 2), INTS(dilation, 2), I(groups));
}
nbx_tensor *nbx_max_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t kernel[2], const int64_t stride[2], const int64_t padding[2]) {
    EXPRESSION("aten::max_pool2d", T(x), INTS(kernel, 2), INTS(stride, 2), INTS(padding, 2));
}
nbx_tensor *nbx_avg_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t kernel[2], const int64_t stride[2], const int64_t padding[2]) {
    EXPRESSION("aten::avg_pool2d", T(x), INTS(kernel, 2), INTS(stride, 2), INTS(padding, 2));
}
nbx_tensor *nbx_adaptive_avg_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t size[2]) {
    EXPRESSION("aten::adaptive_avg_pool2d", T(x), INTS(size, 2));
}
nbx_tensor *nbx_scaled_dot_product_attention(nbx_context *ctx, const nbx_tensor *query, const nbx_tensor *key, const nbx_tensor *value,
                                             const nbx_tensor *mask, bool causal, double scale, bool gqa) {
    EXPRESSION("aten::scaled_dot_product_attention", T(query), T(key), T(value), T(mask), F(0), B(causal), scale == 0 ? NIL : F(scale), B(gqa));
}

// ------------------------------------------------------------------------------------------------------ shape and views
nbx_tensor *nbx_view(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape) { EXPRESSION("aten::view", T(x), INTS(shape, rank)); }
nbx_tensor *nbx_reshape(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape) {
    EXPRESSION("aten::reshape", T(x), INTS(shape, rank));
}
nbx_tensor *nbx_flatten(nbx_context *ctx, const nbx_tensor *x, int64_t first, int64_t last) {
    EXPRESSION("aten::flatten.using_ints", T(x), I(first), I(last));
}
nbx_tensor *nbx_permute(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims) {
    EXPRESSION("aten::permute", T(x), INTS(dims, count));
}
nbx_tensor *nbx_transpose(nbx_context *ctx, const nbx_tensor *x, int64_t a, int64_t b) { EXPRESSION("aten::transpose.int", T(x), I(a), I(b)); }
nbx_tensor *nbx_squeeze(nbx_context *ctx, const nbx_tensor *x, int64_t dim) { EXPRESSION("aten::squeeze.dim", T(x), I(dim)); }
nbx_tensor *nbx_unsqueeze(nbx_context *ctx, const nbx_tensor *x, int64_t dim) { EXPRESSION("aten::unsqueeze", T(x), I(dim)); }
nbx_tensor *nbx_expand(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape) {
    EXPRESSION("aten::expand", T(x), INTS(shape, rank));
}
nbx_tensor *nbx_narrow(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t start, int64_t length) {
    EXPRESSION("aten::narrow", T(x), I(dim), I(start), I(length));
}
nbx_tensor *nbx_slice(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step) {
    EXPRESSION("aten::slice.Tensor", T(x), I(dim), I(start), I(end), I(step));
}
nbx_tensor *nbx_select(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t index) { EXPRESSION("aten::select.int", T(x), I(dim), I(index)); }
NBX_1(t, "aten::t")
NBX_1(contiguous, "aten::contiguous")
NBX_1(clone, "aten::clone")
nbx_tensor *nbx_cat(nbx_context *ctx, int count, const nbx_tensor *const *tensors, int64_t dim) {
    EXPRESSION("aten::cat", nbx_of_tensors(tensors, count), I(dim));
}
nbx_tensor *nbx_stack(nbx_context *ctx, int count, const nbx_tensor *const *tensors, int64_t dim) {
    EXPRESSION("aten::stack", nbx_of_tensors(tensors, count), I(dim));
}
nbx_tensor *nbx_repeat(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *repeats) {
    EXPRESSION("aten::repeat", T(x), INTS(repeats, count));
}

// ----------------------------------------------------------------------------------------------------------- indexing
nbx_tensor *nbx_embedding(nbx_context *ctx, const nbx_tensor *weight, const nbx_tensor *indices) {
    EXPRESSION("aten::embedding", T(weight), T(indices));
}
nbx_tensor *nbx_index_select(nbx_context *ctx, const nbx_tensor *x, int64_t dim, const nbx_tensor *index) {
    EXPRESSION("aten::index_select", T(x), I(dim), T(index));
}
nbx_tensor *nbx_gather(nbx_context *ctx, const nbx_tensor *x, int64_t dim, const nbx_tensor *index) {
    EXPRESSION("aten::gather", T(x), I(dim), T(index));
}

// ----------------------------------------------------------------------------------------------------------- commands
nbx_status nbx_copy_(nbx_context *ctx, nbx_tensor *to, const nbx_tensor *from) { COMMAND("aten::copy_", T(to), T(from)); }
nbx_status nbx_fill_(nbx_context *ctx, nbx_tensor *x, double value) { COMMAND("aten::fill_.Scalar", T(x), F(value)); }
nbx_status nbx_add_(nbx_context *ctx, nbx_tensor *x, const nbx_tensor *other) { COMMAND("aten::add_.Tensor", T(x), T(other)); }
nbx_status nbx_add_out(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b, nbx_tensor *out) {
    COMMAND("aten::add.out", T(a), T(b), I(1), T(out));
}
nbx_status nbx_mm_out(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b, nbx_tensor *out) {
    COMMAND("aten::mm.out", T(a), T(b), T(out));
}
nbx_status nbx_index_copy_(nbx_context *ctx, nbx_tensor *x, int64_t dim, const nbx_tensor *index, const nbx_tensor *source) {
    COMMAND("aten::index_copy_", T(x), I(dim), T(index), T(source));
}
