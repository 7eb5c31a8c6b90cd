// Composites over the products: outer, inner, kron, addr, addbmm, chains, powers, fused activations.
#include <math.h>
#include <string.h>

#include "ops/compose.h"

// ------------------------------------------------------------------------------------------------- outer, inner, kron
// outer(a, b)[i, j] = a[i] * b[j], promoted.
static nbx_status outer(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->rank != 1 || b->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects vectors, found %d and %d dims", a->rank, b->rank);
    return out_tensor(c, 0, do_mul(c->ctx, do_reshape(c->ctx, a, 2, (int64_t[]){a->shape[0], 1}), b));
}

static nbx_status inner(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->rank == 0 || b->rank == 0) return out_tensor(c, 0, do_mul(c->ctx, a, b));
    if (a->shape[a->rank - 1] != b->shape[b->rank - 1])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "last dims have sizes %lld and %lld", (long long)a->shape[a->rank - 1],
                             (long long)b->shape[b->rank - 1]);
    const int64_t last = -1;
    const nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)a->dtype);
    if (status != NBX_OK) return status;
    return NBX_FORWARD(c, "aten::tensordot", T(a), T(b), nbx_of_ints(&last, 1), nbx_of_ints(&last, 1));
}

// kron: every element of a times the whole of b, tiled. Dims of a and b alternate, then merge.
static nbx_status kron(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    int64_t shape_a[2 * NBX_MAX_RANK], shape_b[2 * NBX_MAX_RANK], shape[NBX_MAX_RANK];
    if (2 * rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK / 2);
    for (int i = 0; i < rank; i++) {
        const int at_a = i - (rank - a->rank), at_b = i - (rank - b->rank);
        shape_a[2 * i] = at_a < 0 ? 1 : a->shape[at_a];
        shape_a[2 * i + 1] = 1;
        shape_b[2 * i] = 1;
        shape_b[2 * i + 1] = at_b < 0 ? 1 : b->shape[at_b];
        shape[i] = shape_a[2 * i] * shape_b[2 * i + 1];
    }
    nbx_tensor *y = do_mul(c->ctx, do_reshape(c->ctx, a, 2 * rank, shape_a), do_reshape(c->ctx, b, 2 * rank, shape_b));
    return out_tensor(c, 0, do_reshape(c->ctx, y, rank, shape));
}

// ------------------------------------------------------------------------------------------------------ addr, addbmm
static bool is_zero(const nbx_value *v) {
    return v->kind == NBX_KIND_COMPLEX ? v->as.complex[0] == 0 && v->as.complex[1] == 0 : nbx_scalar_to_double(v) == 0;
}

static bool is_one(const nbx_value *v) { return v->kind != NBX_KIND_COMPLEX && nbx_scalar_to_double(v) == 1; }

static nbx_tensor *scaled(nbx_context *ctx, nbx_tensor *t, const nbx_value *factor) {
    return is_one(factor) ? t : do_mul_scalar(ctx, t, *factor);
}

// A factor must fit the dtype it multiplies.
static nbx_status check_factor(nbx_op_call *c, int arg, nbx_dtype dtype) {
    const int kind = c->args[arg].kind;
    const bool fits = kind == NBX_KIND_COMPLEX ? nbx_dtype_is_complex(dtype)
                      : kind == NBX_KIND_FLOAT ? !nbx_dtype_is_integral(dtype, true)
                      : kind == NBX_KIND_INT   ? true
                                               : dtype == NBX_BOOL;
    if (fits) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s does not fit %s", c->schema->params[arg].name, nbx_dtype_name(dtype));
}

// addr = beta * self + alpha * outer(vec1, vec2), computed in float32 for halves; on bools "and" and "or".
static nbx_status addr(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *self = arg_tensor(c, 0), *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (a->rank != 1 || b->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects vectors, found %d and %d dims", a->rank, b->rank);
    const int64_t shape[] = {a->shape[0], b->shape[0]};
    self = do_expand(ctx, self, 2, shape);  // also one without dims counts as one that has them
    if (!self) return ctx->status;
    nbx_promotion promotion;
    nbx_promotion_start(&promotion);
    nbx_promotion_tensor(&promotion, self);
    nbx_promotion_tensor(&promotion, a);
    nbx_promotion_tensor(&promotion, b);
    const nbx_dtype dtype = nbx_promotion_result(&promotion);
    nbx_status status = check_factor(c, 3, dtype);
    if (!status) status = check_factor(c, 4, dtype);
    if (status) return status;
    const nbx_dtype inside = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : dtype;
    nbx_tensor *left = do_unsqueeze(ctx, do_cast(ctx, a, inside), 1), *right = do_cast(ctx, b, inside), *y;
    if (dtype == NBX_BOOL) {
        y = do_mul(ctx, left, right);
        if (is_zero(&c->args[4])) y = NBX_DO(ctx, "aten::zeros_like", T(y));
        if (!is_zero(&c->args[3])) y = NBX_DO(ctx, "aten::logical_or", T(self), T(y));
        return out_tensor(c, 0, do_cast(ctx, y, NBX_BOOL));
    }
    y = do_mul(ctx, scaled(ctx, left, &c->args[4]), right);
    if (!is_zero(&c->args[3])) y = do_add(ctx, scaled(ctx, do_cast(ctx, self, inside), &c->args[3]), y);
    return out_tensor(c, 0, do_cast(ctx, y, dtype));
}

// addbmm = beta * self + alpha * sum over the batch of a x b: one product whose inner dim is batch * k.
static nbx_status addbmm(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (a->rank != 3 || b->rank != 3 || a->shape[0] != b->shape[0] || a->shape[2] != b->shape[1])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "batch1 and batch2 must be [b, m, k] and [b, k, n]");
    const int64_t inner = a->shape[0] * a->shape[2];
    a = do_reshape(ctx, do_permute(ctx, a, 3, (int64_t[]){1, 0, 2}), 2, (int64_t[]){a->shape[1], inner});
    b = do_reshape(ctx, b, 2, (int64_t[]){inner, b->shape[2]});
    return NBX_FORWARD(c, "aten::addmm", T(arg_tensor(c, 0)), T(a), T(b), c->args[3], c->args[4]);
}

// -------------------------------------------------------------------------------------------------------------- chains
#define CHAIN 64

// Cheapest order of a chain's products: split[i][j] is where the product of matrices i..j is cut.
static void chain_order(int count, const int64_t *sizes, int8_t split[CHAIN][CHAIN]) {
    double cost[CHAIN][CHAIN];
    for (int i = 0; i < count; i++) cost[i][i] = 0;
    for (int length = 1; length < count; length++) {
        for (int i = 0; i + length < count; i++) {
            const int j = i + length;
            cost[i][j] = INFINITY;
            for (int k = i; k < j; k++) {
                const double price = cost[i][k] + cost[k + 1][j] + (double)sizes[i] * (double)sizes[k + 1] * (double)sizes[j + 1];
                if (price < cost[i][j]) cost[i][j] = price, split[i][j] = (int8_t)k;
            }
        }
    }
}

static const nbx_tensor *chain_product(nbx_context *ctx, const nbx_tensor *const *t, int8_t split[CHAIN][CHAIN], int i, int j) {
    if (i == j) return t[i];
    const nbx_tensor *a = chain_product(ctx, t, split, i, split[i][j]), *b = chain_product(ctx, t, split, split[i][j] + 1, j);
    return do_mm(ctx, a, b);
}

static nbx_status multi_dot(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    int count;
    const nbx_tensor *const *given = arg_tensors(c, 0, &count);
    const nbx_tensor *t[CHAIN];
    int64_t sizes[CHAIN + 1], shape[2];
    int8_t split[CHAIN][CHAIN];
    int rank = 0;
    if (count < 2 || count > CHAIN) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "between 2 and %d tensors, found %d", CHAIN, count);
    for (int i = 0; i < count; i++) {
        const bool end = i == 0 || i == count - 1;
        t[i] = given[i];
        if (t[i]->rank != 2 && !(end && t[i]->rank == 1))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensor %d has %d dims", i, t[i]->rank);
        if (t[i]->dtype != t[0]->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "tensors of different dtypes");
        if (t[i]->rank == 1) t[i] = do_unsqueeze(ctx, t[i], i == 0 ? 0 : 1);
        if (!t[i]) return ctx->status;
        if (i && t[i]->shape[0] != sizes[i])
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensors %d and %d do not multiply: inner sizes %lld and %lld", i - 1, i,
                                 (long long)sizes[i], (long long)t[i]->shape[0]);
        sizes[i] = t[i]->shape[0];
        sizes[i + 1] = t[i]->shape[1];
    }
    if (given[0]->rank == 2) shape[rank++] = sizes[0];
    if (given[count - 1]->rank == 2) shape[rank++] = sizes[count];
    chain_order(count, sizes, split);
    return out_tensor(c, 0, do_view(ctx, chain_product(ctx, t, split, 0, count - 1), rank, shape));
}

// The n-th power of square matrices by repeated squaring; negative n inverts first.
static nbx_status matrix_power(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0);
    int64_t n = arg_int(c, 1);
    if (a->rank < 2 || a->shape[a->rank - 1] != a->shape[a->rank - 2])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects square matrices");
    if (n == 0) {
        const nbx_tensor *eye = NBX_DO(ctx, "aten::eye", I(a->shape[a->rank - 1]), nbx_of_dtype((nbx_dtype)a->dtype), NIL,
                                       nbx_of_device(nbx_device_of(a)));
        eye = do_expand(ctx, eye, a->rank, a->shape);
        return out_tensor(c, 0, NBX_DO(ctx, "aten::clone", T(eye), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT)));
    }
    if (n < 0) {
        if (n == INT64_MIN) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the power is too small");
        a = NBX_DO(ctx, "aten::linalg_inv", T(a));
        n = -n;
    }
    if (n == 1) return out_tensor(c, 0, a == arg_tensor(c, 0) ? NBX_DO(ctx, "aten::clone", T(a)) : a);
    const nbx_tensor *square = a, *y = NULL;
    for (bool first = true; n > 0 && square; n >>= 1, first = false) {
        if (!first) square = do_matmul(ctx, square, square);
        if (n & 1) y = y ? do_matmul(ctx, y, square) : square;
    }
    return out_tensor(c, 0, square ? y : NULL);
}

// ---------------------------------------------------------------------------------------------------- with activations
static nbx_status addmm_activation(nbx_op_call *c) {
    nbx_tensor *y = NBX_DO(c->ctx, "aten::addmm", T(arg_tensor(c, 0)), T(arg_tensor(c, 1)), T(arg_tensor(c, 2)), c->args[3], c->args[4]);
    if (arg_bool(c, 5)) return out_tensor(c, 0, NBX_DO(c->ctx, "aten::gelu", T(y), nbx_of_string("none")));
    return out_tensor(c, 0, do_unary(c->ctx, "aten::relu", y));
}

// The product is rounded to its dtype before the activation, as the unfused pair would.
static nbx_status activate(nbx_op_call *c, nbx_tensor *y, const char *name, const char *approximate) {
    if (!strcmp(name, "gelu")) return out_tensor(c, 0, NBX_DO(c->ctx, "aten::gelu", T(y), nbx_of_string(approximate)));
    if (!strcmp(name, "silu")) return out_tensor(c, 0, do_unary(c->ctx, "aten::silu", y));
    if (!strcmp(name, "relu")) return out_tensor(c, 0, do_unary(c->ctx, "aten::relu", y));
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "epilogue '%s' is not silu, gelu or relu", name);
}

static nbx_status mm_epilogue(nbx_op_call *c) {
    return activate(c, do_mm(c->ctx, arg_tensor(c, 0), arg_tensor(c, 1)), arg_string(c, 2), arg_string(c, 3));
}

static nbx_status addmm_epilogue(nbx_op_call *c) {
    nbx_tensor *y = NBX_DO(c->ctx, "aten::addmm", T(arg_tensor(c, 0)), T(arg_tensor(c, 1)), T(arg_tensor(c, 2)), c->args[3], c->args[4]);
    return activate(c, y, arg_string(c, 5), arg_string(c, 6));
}

const nbx_op nbx_ops_products[] = {
    {.name = "aten::outer", .composite = outer},
    {.name = "aten::ger", .composite = outer},
    {.name = "aten::inner", .composite = inner, .flags = NBX_OP_PACKED_OUT},
    {.name = "aten::kron", .composite = kron},
    {.name = "aten::addr", .composite = addr},
    {.name = "aten::addbmm", .composite = addbmm, .flags = NBX_OP_EXACT_OUT | NBX_OP_RESIZE_SELF},
    {.name = "aten::linalg_multi_dot", .composite = multi_dot, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::linalg_matrix_power", .composite = matrix_power, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_addmm_activation", .composite = addmm_activation, .flags = NBX_OP_EXACT_OUT},
    {.name = "nbx::mm_epilogue", .composite = mm_epilogue},
    {.name = "nbx::addmm_epilogue", .composite = addmm_epilogue},
    NBX_OPS_END,
};
