// Python's arithmetic on integers, floats and truth values. Integers that leave 64 bits are an error, not a wrap.
#include "ops/symbolic/symbolic.h"

#include <math.h>
#include <string.h>

typedef struct row {
    const char *target;
    uint8_t code;
} row;

// clang-format off
static const row operators[] = {  // _operator.NAME, operator.NAME, builtins.NAME
    {"add", NBX_HOST_ADD}, {"sub", NBX_HOST_SUB}, {"mul", NBX_HOST_MUL}, {"truediv", NBX_HOST_TRUEDIV},
    {"floordiv", NBX_HOST_FLOORDIV}, {"mod", NBX_HOST_MOD}, {"pow", NBX_HOST_POW}, {"lshift", NBX_HOST_LSHIFT},
    {"rshift", NBX_HOST_RSHIFT}, {"neg", NBX_HOST_NEG}, {"pos", NBX_HOST_POS}, {"abs", NBX_HOST_ABS}, {"round", NBX_HOST_ROUND},
    {"and_", NBX_HOST_AND}, {"or_", NBX_HOST_OR}, {"xor", NBX_HOST_XOR}, {"invert", NBX_HOST_INVERT}, {"inv", NBX_HOST_INVERT},
    {"not_", NBX_HOST_NOT}, {"eq", NBX_HOST_EQ}, {"ne", NBX_HOST_NE}, {"lt", NBX_HOST_LT}, {"le", NBX_HOST_LE},
    {"gt", NBX_HOST_GT}, {"ge", NBX_HOST_GE}, {"iadd", NBX_HOST_ADD}, {"isub", NBX_HOST_SUB}, {"imul", NBX_HOST_MUL},
    {"index", NBX_HOST_TO_INT}, {"truth", NBX_HOST_TO_BOOL}, {"int", NBX_HOST_TO_INT}, {"float", NBX_HOST_TO_FLOAT},
    {"bool", NBX_HOST_TO_BOOL}, {"min", NBX_HOST_MIN}, {"max", NBX_HOST_MAX},
};
static const row functions[] = {  // math.NAME, torch.NAME
    {"ceil", NBX_HOST_CEIL}, {"floor", NBX_HOST_FLOOR}, {"trunc", NBX_HOST_TRUNC}, {"sqrt", NBX_HOST_SQRT}, {"pow", NBX_HOST_POW},
    {"exp", NBX_HOST_EXP}, {"log", NBX_HOST_LOG}, {"log2", NBX_HOST_LOG2}, {"sin", NBX_HOST_SIN}, {"cos", NBX_HOST_COS},
    {"tan", NBX_HOST_TAN}, {"asin", NBX_HOST_ASIN}, {"acos", NBX_HOST_ACOS}, {"atan", NBX_HOST_ATAN}, {"sinh", NBX_HOST_SINH},
    {"cosh", NBX_HOST_COSH}, {"tanh", NBX_HOST_TANH}, {"fabs", NBX_HOST_ABS},
    {"sym_max", NBX_HOST_MAX}, {"sym_min", NBX_HOST_MIN}, {"sym_float", NBX_HOST_TO_FLOAT}, {"sym_int", NBX_HOST_TO_INT},
    {"sym_ite", NBX_HOST_ITE}, {"sym_not", NBX_HOST_NOT}, {"sym_sum", NBX_HOST_SUM}, {"sym_sqrt", NBX_HOST_SQRT},
    {"_sym_sqrt", NBX_HOST_SQRT}, {"_sym_cos", NBX_HOST_COS}, {"_sym_sin", NBX_HOST_SIN}, {"_sym_tan", NBX_HOST_TAN},
    {"_sym_cosh", NBX_HOST_COSH}, {"_sym_sinh", NBX_HOST_SINH}, {"_sym_tanh", NBX_HOST_TANH}, {"_sym_acos", NBX_HOST_ACOS},
    {"_sym_asin", NBX_HOST_ASIN}, {"_sym_atan", NBX_HOST_ATAN}, {"_sym_log2", NBX_HOST_LOG2},
    {"sym_fresh_size", NBX_HOST_TO_INT}, {"_functorch.predispatch.lazy_load_decompositions", NBX_HOST_NOTHING},
};
static const row aten[] = {  // torch.ops.aten.NAME
    {"sym_size.int", NBX_HOST_SYM_SIZE}, {"sym_stride.int", NBX_HOST_SYM_STRIDE}, {"sym_numel.default", NBX_HOST_SYM_NUMEL},
    {"sym_storage_offset.default", NBX_HOST_SYM_OFFSET}, {"_assert_scalar.default", NBX_HOST_ASSERT_SCALAR},
    {"_assert_tensor_metadata.default", NBX_HOST_ASSERT_METADATA},
    {"sym_constrain_range.default", NBX_HOST_CONSTRAIN_RANGE}, {"sym_constrain_range_for_size.default", NBX_HOST_CONSTRAIN_SIZE},
    {"_print.default", NBX_HOST_NOTHING},
};
// clang-format on

#define FIND(rows, name) find(rows, (int)(sizeof rows / sizeof *rows), name)
static nbx_host_code find(const row *rows, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].target, name) == 0) return (nbx_host_code)rows[i].code;
    return NBX_HOST_NONE;
}

static const char *after(const char *text, const char *start) {
    const size_t length = strlen(start);
    return strncmp(text, start, length) == 0 ? text + length : NULL;
}

nbx_host_code nbx_host_find(const char *target) {
    const char *name;
    if ((name = after(target, "torch.ops.aten."))) return FIND(aten, name);
    if (after(target, "torch.ops.")) return NBX_HOST_NONE;
    if ((name = after(target, "_operator.")) || (name = after(target, "operator.")) || (name = after(target, "builtins.")))
        return FIND(operators, name);
    if ((name = after(target, "math.")) || (name = after(target, "torch."))) return FIND(functions, name);
    return NBX_HOST_NONE;
}

// ------------------------------------------------------------------------------------------------------------- numbers
typedef struct number {
    bool real, truth;  // neither: an integer
    int64_t i;
    double d;
} number;

static bool to_number(const nbx_value *v, number *x) {
    x->real = v->kind == NBX_KIND_FLOAT;
    x->truth = v->kind == NBX_KIND_BOOL;
    x->i = v->kind == NBX_KIND_INT ? v->as.integer : v->kind == NBX_KIND_BOOL ? v->as.boolean : 0;
    x->d = x->real ? v->as.real : (double)x->i;
    return x->real || x->truth || v->kind == NBX_KIND_INT;
}

static bool is_true(const number *x) { return x->real ? x->d != 0 : x->i != 0; }
static bool give_int(nbx_value *result, int64_t x) { return *result = nbx_of_int(x), true; }
static bool give_real(nbx_value *result, double x) { return *result = nbx_of_float(x), true; }
static bool give_bool(nbx_value *result, bool x) { return *result = nbx_of_bool(x), true; }

static bool floor_divide(const number *a, const number *b, bool remainder, nbx_value *result) {
    if (a->real || b->real) {
        if (b->d == 0) return false;
        double rest = fmod(a->d, b->d);
        if (rest != 0 && (rest < 0) != (b->d < 0)) rest += b->d;
        if (remainder) return give_real(result, rest == 0 ? copysign(0.0, b->d) : rest);
        const double quotient = (a->d - rest) / b->d;
        return give_real(result, floor(quotient) + (quotient - floor(quotient) > 0.5 ? 1 : 0));
    }
    if (b->i == 0 || (b->i == -1 && a->i == INT64_MIN)) return false;
    int64_t quotient = a->i / b->i, rest = a->i % b->i;
    if (rest != 0 && (rest < 0) != (b->i < 0)) quotient--, rest += b->i;
    return give_int(result, remainder ? rest : quotient);
}

static bool power(const number *a, const number *b, nbx_value *result) {
    if (a->real || b->real || b->i < 0) return give_real(result, pow(a->d, b->d));
    int64_t x = 1, base = a->i;
    for (int64_t n = b->i; n; n >>= 1) {
        if ((n & 1) && __builtin_mul_overflow(x, base, &x)) return false;
        if (n > 1 && __builtin_mul_overflow(base, base, &base)) return false;
    }
    return give_int(result, x);
}

static bool shift(const number *a, const number *b, bool left, nbx_value *result) {
    if (a->real || b->real || b->i < 0) return false;
    if (!left) return give_int(result, b->i > 63 ? (a->i < 0 ? -1 : 0) : a->i >> b->i);
    if (a->i == 0) return give_int(result, 0);
    int64_t x;
    return b->i < 63 && !__builtin_mul_overflow(a->i, (int64_t)1 << b->i, &x) && give_int(result, x);
}

static bool bits(nbx_host_code code, const number *a, const number *b, nbx_value *result) {
    if (a->real || b->real) return false;
    const int64_t x = code == NBX_HOST_AND ? a->i & b->i : code == NBX_HOST_OR ? a->i | b->i : a->i ^ b->i;
    return a->truth && b->truth ? give_bool(result, x != 0) : give_int(result, x);
}

static int compare(const number *a, const number *b) {
    if (a->real || b->real) return a->d < b->d ? -1 : a->d > b->d ? 1 : a->d == b->d ? 0 : 2;  // 2: a NaN
    return a->i < b->i ? -1 : a->i > b->i;
}

static bool arithmetic(nbx_host_code code, const number *a, const number *b, nbx_value *result) {
    int64_t x;
    if (a->real || b->real)
        return give_real(result, code == NBX_HOST_ADD ? a->d + b->d : code == NBX_HOST_SUB ? a->d - b->d : a->d * b->d);
    const bool overflow = code == NBX_HOST_ADD   ? __builtin_add_overflow(a->i, b->i, &x)
                          : code == NBX_HOST_SUB ? __builtin_sub_overflow(a->i, b->i, &x)
                                                 : __builtin_mul_overflow(a->i, b->i, &x);
    return !overflow && give_int(result, x);
}

// ATen's sym_max and sym_min, like torch's: the result is a float as soon as one of the two is.
static bool choose(const number *a, const number *b, bool greatest, nbx_value *result) {
    const int order = compare(a, b);
    const number *x = (greatest ? order >= 0 : order <= 0) ? a : b;
    if (a->real || b->real) return give_real(result, order == 2 ? NAN : x->d);
    return give_int(result, x->i);
}

static bool binary(nbx_host_code code, const number *a, const number *b, nbx_value *result) {
    const int order = compare(a, b);
    switch (code) {
    case NBX_HOST_ADD: case NBX_HOST_SUB: case NBX_HOST_MUL: return arithmetic(code, a, b, result);
    case NBX_HOST_TRUEDIV: return b->d != 0 && give_real(result, a->d / b->d);
    case NBX_HOST_FLOORDIV: return floor_divide(a, b, false, result);
    case NBX_HOST_MOD: return floor_divide(a, b, true, result);
    case NBX_HOST_POW: return power(a, b, result);
    case NBX_HOST_LSHIFT: return shift(a, b, true, result);
    case NBX_HOST_RSHIFT: return shift(a, b, false, result);
    case NBX_HOST_MIN: return choose(a, b, false, result);
    case NBX_HOST_MAX: return choose(a, b, true, result);
    case NBX_HOST_AND: case NBX_HOST_OR: case NBX_HOST_XOR: return bits(code, a, b, result);
    case NBX_HOST_EQ: return give_bool(result, order == 0);
    case NBX_HOST_NE: return give_bool(result, order != 0);
    case NBX_HOST_LT: return give_bool(result, order == -1);
    case NBX_HOST_LE: return give_bool(result, order == -1 || order == 0);
    case NBX_HOST_GT: return give_bool(result, order == 1);
    case NBX_HOST_GE: return give_bool(result, order == 1 || order == 0);
    case NBX_HOST_ROUND: {  // round(x, digits)
        if (!a->real || b->i > 300 || b->i < -300) return !a->real && give_int(result, a->i);
        const double scale = pow(10, b->d);
        return give_real(result, nearbyint(a->d * scale) / scale);
    }
    default: return false;
    }
}

static bool whole(double x, nbx_value *result) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 && give_int(result, (int64_t)x);
}

static bool unary(nbx_host_code code, const number *a, nbx_value *result) {
    switch (code) {
    case NBX_HOST_NEG: return a->real ? give_real(result, -a->d) : a->i != INT64_MIN && give_int(result, -a->i);
    case NBX_HOST_POS: return a->real ? give_real(result, a->d) : give_int(result, a->i);
    case NBX_HOST_ABS: return a->real ? give_real(result, fabs(a->d)) : a->i != INT64_MIN && give_int(result, a->i < 0 ? -a->i : a->i);
    case NBX_HOST_ROUND: return a->real ? whole(nearbyint(a->d), result) : give_int(result, a->i);
    case NBX_HOST_CEIL: return a->real ? whole(ceil(a->d), result) : give_int(result, a->i);
    case NBX_HOST_FLOOR: return a->real ? whole(floor(a->d), result) : give_int(result, a->i);
    case NBX_HOST_TRUNC: case NBX_HOST_TO_INT: return a->real ? whole(trunc(a->d), result) : give_int(result, a->i);
    case NBX_HOST_TO_FLOAT: return give_real(result, a->d);
    case NBX_HOST_TO_BOOL: return give_bool(result, is_true(a));
    case NBX_HOST_NOT: return give_bool(result, !is_true(a));
    case NBX_HOST_INVERT: return !a->real && give_int(result, ~a->i);
    case NBX_HOST_SQRT: return a->d >= 0 && give_real(result, sqrt(a->d));
    case NBX_HOST_EXP: return give_real(result, exp(a->d));
    case NBX_HOST_LOG: return a->d > 0 && give_real(result, log(a->d));
    case NBX_HOST_LOG2: return a->d > 0 && give_real(result, log2(a->d));
    case NBX_HOST_SIN: return give_real(result, sin(a->d));
    case NBX_HOST_COS: return give_real(result, cos(a->d));
    case NBX_HOST_TAN: return give_real(result, tan(a->d));
    case NBX_HOST_ASIN: return fabs(a->d) <= 1 && give_real(result, asin(a->d));
    case NBX_HOST_ACOS: return fabs(a->d) <= 1 && give_real(result, acos(a->d));
    case NBX_HOST_ATAN: return give_real(result, atan(a->d));
    case NBX_HOST_SINH: return give_real(result, sinh(a->d));
    case NBX_HOST_COSH: return give_real(result, cosh(a->d));
    case NBX_HOST_TANH: return give_real(result, tanh(a->d));
    default: return false;
    }
}

static bool sum(const nbx_value *list, nbx_value *result) {
    number total = {0}, x;
    for (int i = 0; i < list->count; i++) {
        const nbx_value item = list->kind == NBX_KIND_INTS     ? nbx_of_int(list->as.ints[i])
                               : list->kind == NBX_KIND_FLOATS ? nbx_of_float(list->as.floats[i])
                                                               : list->as.values[i];
        if (!to_number(&item, &x) || !arithmetic(NBX_HOST_ADD, &total, &x, result) || !to_number(result, &total)) return false;
    }
    return list->count ? true : give_int(result, 0);
}

static bool compute(nbx_host_code code, const nbx_value *args, int count, nbx_value *result) {
    number a, b, c;
    if (code == NBX_HOST_SUM && count == 1 && args[0].kind >= NBX_KIND_INTS) return sum(&args[0], result);
    if (count < 1 || !to_number(&args[0], &a)) return false;
    if (count == 1) return unary(code, &a, result);
    if (!to_number(&args[1], &b)) return false;
    if (code == NBX_HOST_ITE) {
        if (count != 3 || !to_number(&args[2], &c)) return false;
        *result = is_true(&a) ? args[1] : args[2];
        return true;
    }
    for (int i = 1; i < count; i++) {  // max(a, b, c)
        if (i > 1 && code != NBX_HOST_MIN && code != NBX_HOST_MAX) return false;
        if (!to_number(&args[i], &b) || !binary(code, &a, &b, result) || !to_number(result, &a)) return false;
    }
    return true;
}

// -------------------------------------------------------------------------------------------------------------- checks
static nbx_status assert_scalar(nbx_context *ctx, const nbx_value *args, int count) {
    number x;
    if (count < 1 || !to_number(&args[0], &x)) return nbx_fail(ctx, NBX_ERROR_FORMAT, "_assert_scalar without a number");
    if (is_true(&x)) return NBX_OK;
    return nbx_fail(ctx, NBX_ERROR_ASSERT, "%s", count > 1 && args[1].kind == NBX_KIND_STRING ? args[1].as.string : "assertion failed");
}

// Sizes and dtype are what the export relied on; strides, device and layout may differ from run to run.
static nbx_status assert_metadata(nbx_context *ctx, const nbx_value *args, int count) {
    if (count < 1 || args[0].kind != NBX_KIND_TENSOR) return NBX_OK;
    const nbx_tensor *t = args[0].as.tensor;
    char found[NBX_SHAPE_TEXT], wanted[NBX_SHAPE_TEXT];
    if (count > 3 && args[3].kind == NBX_KIND_DTYPE && args[3].as.dtype != (nbx_dtype)t->dtype)
        return nbx_fail(ctx, NBX_ERROR_ASSERT, "the program expects a tensor of %s here, not %s", nbx_dtype_name(args[3].as.dtype),
                        nbx_dtype_name((nbx_dtype)t->dtype));
    if (count > 1 && args[1].kind == NBX_KIND_INTS && !nbx_shape_equal(t->rank, t->shape, args[1].count, args[1].as.ints))
        return nbx_fail(ctx, NBX_ERROR_ASSERT, "the program expects a tensor of shape %s here, not %s",
                        nbx_shape_text(args[1].count, args[1].as.ints, wanted, sizeof wanted),
                        nbx_shape_text(t->rank, t->shape, found, sizeof found));
    return NBX_OK;
}

static nbx_status constrain_range(nbx_context *ctx, const nbx_value *args, int count) {
    number size, low, high;
    if (count < 1 || !to_number(&args[0], &size)) return nbx_fail(ctx, NBX_ERROR_FORMAT, "sym_constrain_range without a number");
    const bool has_low = count > 1 && to_number(&args[1], &low), has_high = count > 2 && to_number(&args[2], &high);
    if (has_low && compare(&size, &low) < 0)
        return nbx_fail(ctx, NBX_ERROR_ASSERT, "the program expects at least %lld here, not %lld", (long long)low.i, (long long)size.i);
    if (has_high && compare(&size, &high) > 0)
        return nbx_fail(ctx, NBX_ERROR_ASSERT, "the program expects at most %lld here, not %lld", (long long)high.i, (long long)size.i);
    return NBX_OK;
}

// -------------------------------------------------------------------------------------------------------------- tensors
static nbx_status tensor_fact(nbx_context *ctx, nbx_host_code code, const nbx_value *args, int count, nbx_value *result) {
    if (count < 1 || args[0].kind != NBX_KIND_TENSOR) return nbx_fail(ctx, NBX_ERROR_FORMAT, "a size is asked of what is no tensor");
    const nbx_tensor *t = args[0].as.tensor;
    if (code == NBX_HOST_SYM_NUMEL) return give_int(result, t->numel), NBX_OK;
    if (code == NBX_HOST_SYM_OFFSET) return give_int(result, t->offset), NBX_OK;
    int64_t dim = count > 1 && args[1].kind == NBX_KIND_INT ? args[1].as.integer : 0;
    if (dim < 0) dim += t->rank;
    if (dim < 0 || dim >= t->rank) return nbx_fail(ctx, NBX_ERROR_INDEX, "dim is out of range for a tensor of %d dims", t->rank);
    return give_int(result, code == NBX_HOST_SYM_SIZE ? t->shape[dim] : t->stride[dim]), NBX_OK;
}

nbx_status nbx_host_call(nbx_context *ctx, nbx_host_code code, const nbx_value *args, int count, nbx_value *result) {
    *result = nbx_of_none();
    switch (code) {
    case NBX_HOST_SYM_SIZE: case NBX_HOST_SYM_STRIDE: case NBX_HOST_SYM_NUMEL: case NBX_HOST_SYM_OFFSET:
        return tensor_fact(ctx, code, args, count, result);
    case NBX_HOST_ASSERT_SCALAR: return assert_scalar(ctx, args, count);
    case NBX_HOST_ASSERT_METADATA: return assert_metadata(ctx, args, count);
    case NBX_HOST_CONSTRAIN_RANGE: return constrain_range(ctx, args, count);
    case NBX_HOST_CONSTRAIN_SIZE: return constrain_range(ctx, args, count);
    case NBX_HOST_NOTHING: return NBX_OK;
    default: break;
    }
    if (compute(code, args, count, result)) return NBX_OK;
    return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "symbolic arithmetic fails here (division by zero, more than 64 bits, or not a number)");
}
