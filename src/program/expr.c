// Parser of symbolic expressions, by recursive descent with Python's precedences:
//   or, and, not, comparisons (chained ones too), + -, * / // %, unary -, **, and calls f(a, b, keyword=...).
#include "program/expr.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 200, MOST_ARGUMENTS = 64, LONGEST_NAME = 128, LONGEST_TEXT = 8192 };

typedef struct parser {
    nbx_context *ctx;
    nbx_arena *arena;
    nbx_name_map *symbols;
    const char *at, *end;
    int depth;
} parser;

static nbx_expr *parse_or(parser *p);

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')) p->at++;
}

// Takes a word of symbols if it stands next.
static bool take(parser *p, const char *token) {
    skip_space(p);
    const size_t length = strlen(token);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, token, length) != 0) return false;
    p->at += length;
    return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool take_word(parser *p, const char *word) {
    const char *before = p->at;
    if (!take(p, word)) return false;
    if (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at))) return p->at = before, false;
    return true;
}

static nbx_expr *new_node(parser *p, nbx_expr_op op, int count, nbx_expr *const *children) {
    for (int i = 0; i < count; i++)
        if (!children[i]) return NULL;
    nbx_expr *e = nbx_arena_alloc(p->ctx, p->arena, sizeof *e);
    if (!e) return NULL;
    e->op = (uint8_t)op;
    e->count = count;
    if (!count) return e;
    e->as.children = nbx_arena_array(p->ctx, p->arena, (size_t)count, sizeof *children);
    if (!e->as.children) return NULL;
    memcpy(e->as.children, children, (size_t)count * sizeof *children);
    return e;
}

static nbx_expr *binary(parser *p, nbx_expr_op op, nbx_expr *a, nbx_expr *b) {
    nbx_expr *children[2] = {a, b};
    return new_node(p, op, 2, children);
}

static nbx_expr *new_int(parser *p, int64_t integer) {
    nbx_expr *e = new_node(p, NBX_EXPR_INT, 0, NULL);
    if (e) e->as.integer = integer;
    return e;
}

static nbx_expr *new_real(parser *p, double real) {
    nbx_expr *e = new_node(p, NBX_EXPR_REAL, 0, NULL);
    if (e) e->as.real = real;
    return e;
}

// -------------------------------------------------------------------------------------------------------------- leaves
// Decimal text to a double without the process's locale: digits and an exponent, no point.
static bool to_double(const char *text, size_t length, double *out) {
    char plain[64];
    size_t count = 0;
    long exponent = 0;
    bool fraction = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c == '.' && !fraction) {
            fraction = true;
        } else if ((c == 'e' || c == 'E') && i + 1 < length) {
            exponent += strtol(text + i + 1, NULL, 10);
            break;
        } else if (is_digit(c) || (c == '-' && i == 0)) {
            if (count >= 40) return false;
            plain[count++] = c;
            exponent -= fraction;
        } else {
            return false;
        }
    }
    plain[count++] = 'e';
    if (exponent < -9999 || exponent > 9999) return false;
    if (exponent < 0) plain[count++] = '-', exponent = -exponent;
    for (long unit = 1000; unit; unit /= 10) plain[count++] = (char)('0' + exponent / unit % 10);
    plain[count] = 0;
    *out = strtod(plain, NULL);
    return true;
}

static nbx_expr *parse_number(parser *p) {
    const char *start = p->at;
    bool real = false;
    while (p->at < p->end) {
        const char c = *p->at;
        if (c == '.' || c == 'e' || c == 'E') real = true;
        else if (!is_digit(c) && !((c == '-' || c == '+') && (p->at[-1] == 'e' || p->at[-1] == 'E'))) break;
        p->at++;
    }
    double x;
    int64_t whole = 0;
    if (real) return to_double(start, (size_t)(p->at - start), &x) ? new_real(p, x) : NULL;
    for (const char *c = start; c < p->at; c++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *c - '0', &whole)) return NULL;
    return new_int(p, whole);
}

static bool take_name(parser *p, char *name) {
    size_t length = 0;
    skip_space(p);
    while (p->at < p->end && (is_letter(*p->at) || is_digit(*p->at) || *p->at == '.') && length < LONGEST_NAME - 1)
        name[length++] = *p->at++;
    name[length] = 0;
    return length > 0;
}

static bool take_quoted(parser *p, const char **text, size_t *length) {
    skip_space(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return false;
    const char quote = *p->at++;
    *text = p->at;
    while (p->at < p->end && *p->at != quote && *p->at != '\\') p->at++;
    if (p->at == p->end || *p->at != quote) return false;
    *length = (size_t)(p->at++ - *text);
    return true;
}

static nbx_expr *new_symbol(parser *p, const char *name, size_t length) {
    int32_t number;
    char *copy = nbx_arena_text(p->ctx, p->arena, name, length);
    nbx_expr *e = copy ? new_node(p, NBX_EXPR_SYMBOL, 0, NULL) : NULL;
    if (!e || nbx_name_add(p->ctx, p->arena, p->symbols, copy, (int32_t)p->symbols->count, &number) == NBX_ADDED_FAILED) return NULL;
    e->as.symbol = number;
    return e;
}

// The subscripts of L['batch'][0] as a path, "batch.0".
static bool take_path(parser *p, char *path) {
    size_t used = 0;
    while (take(p, "[")) {
        const char *text;
        size_t length;
        skip_space(p);
        if (!take_quoted(p, &text, &length)) {
            text = p->at;
            while (p->at < p->end && is_digit(*p->at)) p->at++;
            length = (size_t)(p->at - text);
        }
        if (!length || used + length + 2 > LONGEST_NAME || !take(p, "]")) return false;
        if (used) path[used++] = '.';
        memcpy(path + used, text, length);
        used += length;
    }
    path[used] = 0;
    return used > 0;
}

static nbx_expr *parse_input(parser *p) {
    char path[LONGEST_NAME];
    int64_t dim = -1;
    if (!take_path(p, path)) return NULL;
    if (take(p, ".size()[") || take(p, ".shape[")) {
        nbx_expr *index = parse_or(p);
        if (!index || index->op != NBX_EXPR_INT || !take(p, "]")) return NULL;
        dim = index->as.integer;
    } else if (take(p, ".")) {
        return NULL;
    }
    nbx_expr *e = new_node(p, dim < 0 ? NBX_EXPR_INPUT : NBX_EXPR_SIZE, 0, NULL);
    if (!e || dim > NBX_MAX_RANK) return NULL;
    e->dim = (int32_t)dim;
    e->as.path = nbx_arena_text(p->ctx, p->arena, path, strlen(path));
    return e->as.path ? e : NULL;
}

// --------------------------------------------------------------------------------------------------------------- calls
typedef struct function {
    const char *name;
    uint8_t op, fewest, most;
} function;

// clang-format off
static const function functions[] = {
    {"Add", NBX_EXPR_ADD, 1, MOST_ARGUMENTS}, {"Mul", NBX_EXPR_MUL, 1, MOST_ARGUMENTS},
    {"Pow", NBX_EXPR_POW, 2, 2}, {"FloatPow", NBX_EXPR_POW, 2, 2}, {"PowByNatural", NBX_EXPR_POW, 2, 2},
    {"FloorDiv", NBX_EXPR_FLOOR_DIV, 2, 2}, {"CleanDiv", NBX_EXPR_FLOOR_DIV, 2, 2}, {"Rational", NBX_EXPR_DIV, 2, 2},
    {"IntTrueDiv", NBX_EXPR_DIV, 2, 2}, {"FloatTrueDiv", NBX_EXPR_DIV, 2, 2},
    {"Mod", NBX_EXPR_MOD, 2, 2}, {"PythonMod", NBX_EXPR_MOD, 2, 2}, {"ModularIndexing", NBX_EXPR_MODULAR, 3, 3},
    {"Min", NBX_EXPR_MIN, 1, MOST_ARGUMENTS}, {"Max", NBX_EXPR_MAX, 1, MOST_ARGUMENTS},
    {"min", NBX_EXPR_MIN, 1, MOST_ARGUMENTS}, {"max", NBX_EXPR_MAX, 1, MOST_ARGUMENTS},
    {"Abs", NBX_EXPR_ABS, 1, 1}, {"abs", NBX_EXPR_ABS, 1, 1}, {"sqrt", NBX_EXPR_SQRT, 1, 1}, {"math.sqrt", NBX_EXPR_SQRT, 1, 1},
    {"OpaqueUnaryFn_sqrt", NBX_EXPR_SQRT, 1, 1}, {"torch._sym_sqrt", NBX_EXPR_SQRT, 1, 1}, {"torch.sym_sqrt", NBX_EXPR_SQRT, 1, 1},
    {"floor", NBX_EXPR_FLOOR, 1, 1}, {"FloorToInt", NBX_EXPR_FLOOR, 1, 1}, {"math.floor", NBX_EXPR_FLOOR, 1, 1},
    {"ceiling", NBX_EXPR_CEIL, 1, 1}, {"CeilToInt", NBX_EXPR_CEIL, 1, 1}, {"math.ceil", NBX_EXPR_CEIL, 1, 1},
    {"TruncToInt", NBX_EXPR_TRUNC, 1, 1}, {"TruncToFloat", NBX_EXPR_TRUNC, 1, 1}, {"int", NBX_EXPR_TRUNC, 1, 1},
    {"math.trunc", NBX_EXPR_TRUNC, 1, 1}, {"trunc", NBX_EXPR_TRUNC, 1, 1}, {"torch.sym_int", NBX_EXPR_TRUNC, 1, 1},
    {"RoundToInt", NBX_EXPR_ROUND, 1, 1}, {"round", NBX_EXPR_ROUND, 1, 1},
    {"ToFloat", NBX_EXPR_TO_FLOAT, 1, 1}, {"float", NBX_EXPR_TO_FLOAT, 1, 1}, {"torch.sym_float", NBX_EXPR_TO_FLOAT, 1, 1},
    {"Equality", NBX_EXPR_EQ, 2, 2}, {"Eq", NBX_EXPR_EQ, 2, 2}, {"Unequality", NBX_EXPR_NE, 2, 2}, {"Ne", NBX_EXPR_NE, 2, 2},
    {"StrictLessThan", NBX_EXPR_LT, 2, 2}, {"Lt", NBX_EXPR_LT, 2, 2}, {"LessThan", NBX_EXPR_LE, 2, 2}, {"Le", NBX_EXPR_LE, 2, 2},
    {"StrictGreaterThan", NBX_EXPR_GT, 2, 2}, {"Gt", NBX_EXPR_GT, 2, 2},
    {"GreaterThan", NBX_EXPR_GE, 2, 2}, {"Ge", NBX_EXPR_GE, 2, 2},
    {"And", NBX_EXPR_AND, 1, MOST_ARGUMENTS}, {"Or", NBX_EXPR_OR, 1, MOST_ARGUMENTS}, {"Not", NBX_EXPR_NOT, 1, 1},
    {"Where", NBX_EXPR_WHERE, 3, 3}, {"torch.sym_max", NBX_EXPR_MAX, 2, 2}, {"torch.sym_min", NBX_EXPR_MIN, 2, 2},
    {"torch.sym_not", NBX_EXPR_NOT, 1, 1}, {"torch.sym_ite", NBX_EXPR_WHERE, 3, 3},
};
// clang-format on

// keyword=value inside a call: skipped.
static bool skip_keyword(parser *p) {
    const char *before = p->at;
    char name[LONGEST_NAME];
    if (take_name(p, name) && take(p, "=") && (p->at == p->end || *p->at != '=')) {
        while (p->at < p->end && *p->at != ',' && *p->at != ')') p->at++;
        return true;
    }
    p->at = before;
    return false;
}

static nbx_expr *parse_symbol_call(parser *p) {
    const char *name;
    size_t length;
    if (!take_quoted(p, &name, &length)) return NULL;
    while (take(p, ","))
        if (!skip_keyword(p)) return NULL;
    return take(p, ")") ? new_symbol(p, name, length) : NULL;
}

static nbx_expr *parse_integer_call(parser *p) {
    const bool minus = take(p, "-");
    skip_space(p);
    nbx_expr *e = p->at < p->end && is_digit(*p->at) ? parse_number(p) : NULL;
    if (!e || e->op != NBX_EXPR_INT || !take(p, ")")) return NULL;
    if (minus) e->as.integer = -e->as.integer;
    return e;
}

static nbx_expr *parse_float_call(parser *p) {
    const char *text;
    size_t length;
    double x;
    if (!take_quoted(p, &text, &length) || !to_double(text, length, &x)) return NULL;
    while (take(p, ","))
        if (!skip_keyword(p)) return NULL;
    return take(p, ")") ? new_real(p, x) : NULL;
}

static nbx_expr *parse_call(parser *p, const char *name) {
    if (strcmp(name, "Symbol") == 0) return parse_symbol_call(p);
    if (strcmp(name, "Integer") == 0) return parse_integer_call(p);
    if (strcmp(name, "Float") == 0) return parse_float_call(p);
    nbx_expr *args[MOST_ARGUMENTS];
    int count = 0;
    while (!take(p, ")")) {
        if (count && !take(p, ",")) return NULL;
        if (skip_keyword(p)) continue;
        if (count == MOST_ARGUMENTS || !(args[count++] = parse_or(p))) return NULL;
    }
    if (strcmp(name, "Identity") == 0 && count == 1) return args[0];
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0 && count >= functions[i].fewest && count <= functions[i].most)
            return new_node(p, (nbx_expr_op)functions[i].op, count, args);
    return NULL;
}

static nbx_expr *parse_primary(parser *p) {
    char name[LONGEST_NAME];
    skip_space(p);
    if (p->at == p->end) return NULL;
    if (is_digit(*p->at)) return parse_number(p);
    if (take(p, "(")) {
        nbx_expr *e = parse_or(p);
        return take(p, ")") ? e : NULL;
    }
    if (!is_letter(*p->at) || !take_name(p, name)) return NULL;
    if (strcmp(name, "L") == 0) return parse_input(p);
    if (take(p, "(")) return parse_call(p, name);
    if (strcmp(name, "True") == 0 || strcmp(name, "true") == 0) return new_int(p, 1);
    if (strcmp(name, "False") == 0 || strcmp(name, "false") == 0) return new_int(p, 0);
    return strchr(name, '.') ? NULL : new_symbol(p, name, strlen(name));
}

// ----------------------------------------------------------------------------------------------------------- operators
static nbx_expr *parse_unary(parser *p);

static nbx_expr *parse_power(parser *p) {
    nbx_expr *base = parse_primary(p);
    return base && take(p, "**") ? binary(p, NBX_EXPR_POW, base, parse_unary(p)) : base;
}

static nbx_expr *parse_unary(parser *p) {
    if (++p->depth > DEEPEST) return NULL;
    nbx_expr *e;
    if (take(p, "-")) {
        e = parse_unary(p);
        e = new_node(p, NBX_EXPR_NEG, 1, &e);
    } else {
        e = take(p, "+") ? parse_unary(p) : parse_power(p);
    }
    p->depth--;
    return e;
}

static nbx_expr *parse_product(parser *p) {
    nbx_expr *e = parse_unary(p);
    while (e) {
        if (take(p, "//")) e = binary(p, NBX_EXPR_FLOOR_DIV, e, parse_unary(p));
        else if (take(p, "/")) e = binary(p, NBX_EXPR_DIV, e, parse_unary(p));
        else if (take(p, "%")) e = binary(p, NBX_EXPR_MOD, e, parse_unary(p));
        else if (take(p, "*")) e = binary(p, NBX_EXPR_MUL, e, parse_unary(p));
        else break;
    }
    return e;
}

static nbx_expr *parse_sum(parser *p) {
    nbx_expr *e = parse_product(p);
    while (e) {
        if (take(p, "+")) e = binary(p, NBX_EXPR_ADD, e, parse_product(p));
        else if (take(p, "-")) e = binary(p, NBX_EXPR_SUB, e, parse_product(p));
        else break;
    }
    return e;
}

static int take_comparison(parser *p) {
    static const struct { const char *token; nbx_expr_op op; } all[] = {
        {"==", NBX_EXPR_EQ}, {"!=", NBX_EXPR_NE}, {"<=", NBX_EXPR_LE}, {">=", NBX_EXPR_GE}, {"<", NBX_EXPR_LT}, {">", NBX_EXPR_GT},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (take(p, all[i].token)) return (int)all[i].op;
    return -1;
}

static nbx_expr *parse_comparison(parser *p) {
    nbx_expr *left = parse_sum(p), *all = NULL;
    for (int op; left && (op = take_comparison(p)) >= 0;) {
        nbx_expr *right = parse_sum(p);
        nbx_expr *one = binary(p, (nbx_expr_op)op, left, right);
        all = all ? binary(p, NBX_EXPR_AND, all, one) : one;
        if (!all) return NULL;
        left = right;
    }
    return all ? all : left;
}

static nbx_expr *parse_not(parser *p) {
    if (++p->depth > DEEPEST) return NULL;
    nbx_expr *e;
    if (take_word(p, "not")) {
        e = parse_not(p);
        e = new_node(p, NBX_EXPR_NOT, 1, &e);
    } else {
        e = parse_comparison(p);
    }
    p->depth--;
    return e;
}

static nbx_expr *parse_and(parser *p) {
    nbx_expr *e = parse_not(p);
    while (e && take_word(p, "and")) e = binary(p, NBX_EXPR_AND, e, parse_not(p));
    return e;
}

static nbx_expr *parse_or(parser *p) {
    if (++p->depth > DEEPEST) return NULL;
    nbx_expr *e = parse_and(p);
    while (e && take_word(p, "or")) e = binary(p, NBX_EXPR_OR, e, parse_and(p));
    p->depth--;
    return e;
}

nbx_expr *nbx_expr_parse(nbx_context *ctx, nbx_arena *arena, const char *text, size_t length, nbx_name_map *symbols) {
    if (length > LONGEST_TEXT) return NULL;
    parser p = {ctx, arena, symbols, text, text + length, 0};
    nbx_expr *e = parse_or(&p);
    skip_space(&p);
    return p.at == p.end ? e : NULL;
}
