// Values of symbolic expressions: Python's integers as far as 64 bits reach, and doubles.
#include <math.h>

#include "program/expr.h"

static bool give_int(int64_t x, nbx_number *out) {
    out->real = false;
    out->integer = x;
    out->value = (double)x;
    return true;
}

static bool give_real(double x, nbx_number *out) {
    out->real = true;
    out->integer = 0;
    out->value = x;
    return true;
}

static bool is_true(const nbx_number *x) { return x->real ? x->value != 0 : x->integer != 0; }

static int compare(const nbx_number *a, const nbx_number *b) {
    if (a->real || b->real) return a->value < b->value ? -1 : a->value > b->value;
    return a->integer < b->integer ? -1 : a->integer > b->integer;
}

static bool power(const nbx_number *a, const nbx_number *b, nbx_number *out) {
    if (a->real || b->real || b->integer < 0) return give_real(pow(a->value, b->value), out);
    int64_t result = 1, base = a->integer;
    for (int64_t n = b->integer; n; n >>= 1) {
        if ((n & 1) && __builtin_mul_overflow(result, base, &result)) return false;
        if (n > 1 && __builtin_mul_overflow(base, base, &base)) return false;
    }
    return give_int(result, out);
}

// Python's // and %: the quotient rounds down, the remainder has the divisor's sign.
static bool divide(const nbx_number *a, const nbx_number *b, bool remainder, nbx_number *out) {
    if (a->real || b->real) {
        if (b->value == 0) return false;
        const double quotient = floor(a->value / b->value);
        return give_real(remainder ? a->value - quotient * b->value : quotient, out);
    }
    if (b->integer == 0 || (b->integer == -1 && a->integer == INT64_MIN)) return false;
    int64_t quotient = a->integer / b->integer, rest = a->integer % b->integer;
    if (rest != 0 && (rest < 0) != (b->integer < 0)) quotient--, rest += b->integer;
    return give_int(remainder ? rest : quotient, out);
}

static bool arithmetic(nbx_expr_op op, const nbx_number *a, const nbx_number *b, nbx_number *out) {
    const bool real = a->real || b->real;
    int64_t x = 0;
    switch (op) {
    case NBX_EXPR_ADD:
        if (real) return give_real(a->value + b->value, out);
        return !__builtin_add_overflow(a->integer, b->integer, &x) && give_int(x, out);
    case NBX_EXPR_SUB:
        if (real) return give_real(a->value - b->value, out);
        return !__builtin_sub_overflow(a->integer, b->integer, &x) && give_int(x, out);
    case NBX_EXPR_MUL:
        if (real) return give_real(a->value * b->value, out);
        return !__builtin_mul_overflow(a->integer, b->integer, &x) && give_int(x, out);
    case NBX_EXPR_DIV: return b->value != 0 && give_real(a->value / b->value, out);
    case NBX_EXPR_FLOOR_DIV: return divide(a, b, false, out);
    case NBX_EXPR_MOD: return divide(a, b, true, out);
    case NBX_EXPR_POW: return power(a, b, out);
    case NBX_EXPR_MIN: return *out = compare(a, b) <= 0 ? *a : *b, true;
    case NBX_EXPR_MAX: return *out = compare(a, b) >= 0 ? *a : *b, true;
    case NBX_EXPR_EQ: return give_int(compare(a, b) == 0, out);
    case NBX_EXPR_NE: return give_int(compare(a, b) != 0, out);
    case NBX_EXPR_LT: return give_int(compare(a, b) < 0, out);
    case NBX_EXPR_LE: return give_int(compare(a, b) <= 0, out);
    case NBX_EXPR_GT: return give_int(compare(a, b) > 0, out);
    case NBX_EXPR_GE: return give_int(compare(a, b) >= 0, out);
    case NBX_EXPR_AND: return give_int(is_true(a) && is_true(b), out);
    case NBX_EXPR_OR: return give_int(is_true(a) || is_true(b), out);
    default: return false;
    }
}

static bool to_whole(double x, nbx_number *out) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 && give_int((int64_t)x, out);
}

static bool unary(nbx_expr_op op, const nbx_number *a, nbx_number *out) {
    int64_t x;
    switch (op) {
    case NBX_EXPR_NEG:
        if (a->real) return give_real(-a->value, out);
        return !__builtin_sub_overflow(0, a->integer, &x) && give_int(x, out);
    case NBX_EXPR_ABS:
        if (a->real) return give_real(fabs(a->value), out);
        return a->integer != INT64_MIN && give_int(a->integer < 0 ? -a->integer : a->integer, out);
    case NBX_EXPR_SQRT: return give_real(sqrt(a->value), out);
    case NBX_EXPR_FLOOR: return a->real ? to_whole(floor(a->value), out) : give_int(a->integer, out);
    case NBX_EXPR_CEIL: return a->real ? to_whole(ceil(a->value), out) : give_int(a->integer, out);
    case NBX_EXPR_TRUNC: return a->real ? to_whole(trunc(a->value), out) : give_int(a->integer, out);
    case NBX_EXPR_ROUND: return a->real ? to_whole(nearbyint(a->value), out) : give_int(a->integer, out);
    case NBX_EXPR_TO_FLOAT: return give_real(a->value, out);
    case NBX_EXPR_NOT: return give_int(!is_true(a), out);
    default: return false;
    }
}

static bool eval_many(const nbx_expr *e, const nbx_expr_env *env, nbx_number *out) {
    nbx_number total, next;
    if (!nbx_expr_eval(e->as.children[0], env, &total)) return false;
    for (int32_t i = 1; i < e->count; i++)
        if (!nbx_expr_eval(e->as.children[i], env, &next) || !arithmetic((nbx_expr_op)e->op, &total, &next, &total)) return false;
    *out = total;
    return true;
}

static bool eval_three(const nbx_expr *e, const nbx_expr_env *env, nbx_number *out) {
    nbx_number a, b, c;
    if (!nbx_expr_eval(e->as.children[0], env, &a)) return false;
    if (e->op == NBX_EXPR_WHERE) return nbx_expr_eval(e->as.children[is_true(&a) ? 1 : 2], env, out);
    return nbx_expr_eval(e->as.children[1], env, &b) && nbx_expr_eval(e->as.children[2], env, &c) && divide(&a, &b, false, &a) &&
           divide(&a, &c, true, out);
}

bool nbx_expr_eval(const nbx_expr *e, const nbx_expr_env *env, nbx_number *out) {
    nbx_number a;
    int64_t x;
    switch (e->op) {
    case NBX_EXPR_INT: return give_int(e->as.integer, out);
    case NBX_EXPR_REAL: return give_real(e->as.real, out);
    case NBX_EXPR_SYMBOL: return env->symbol && env->symbol(env, e->as.symbol, &x) && give_int(x, out);
    case NBX_EXPR_INPUT:
    case NBX_EXPR_SIZE: return env->input && env->input(env, e->as.path, e->dim, out);
    case NBX_EXPR_WHERE:
    case NBX_EXPR_MODULAR: return eval_three(e, env, out);
    case NBX_EXPR_NEG: case NBX_EXPR_ABS: case NBX_EXPR_SQRT: case NBX_EXPR_FLOOR: case NBX_EXPR_CEIL: case NBX_EXPR_TRUNC:
    case NBX_EXPR_ROUND: case NBX_EXPR_TO_FLOAT: case NBX_EXPR_NOT:
        return nbx_expr_eval(e->as.children[0], env, &a) && unary((nbx_expr_op)e->op, &a, out);
    default: return eval_many(e, env, out);
    }
}
