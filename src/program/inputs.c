// Checks the caller's inputs before a run: kind, dtype, rank, sizes, symbols, ranges, and the guards export wrote down.
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "program/program_parts.h"

// PyTorch lets dims of size 0 and 1 pass whatever the range says, as long as the range starts no later than at 2.
enum { LOWEST_CHECKED_MIN = 2 };

typedef struct checker {
    nbx_context *ctx;
    const nbx_program *p;
    const nbx_value *inputs;
    int64_t *values;  // of symbols
    bool *known;
} checker;

static bool symbol_value(const nbx_expr_env *env, int32_t symbol, int64_t *value) {
    const checker *c = env->data;
    if (symbol >= c->p->symbol_count || !c->known[symbol]) return false;
    *value = c->values[symbol];
    return true;
}

// "flat_args.3" counts the leaves of all inputs, fixed ones included.
static int input_at(const nbx_program *p, const char *path) {
    for (int i = 0; i < p->input_count; i++)
        if (strcmp(p->inputs[i].path, path) == 0) return i;
    int leaf;
    char rest;
    if (sscanf(path, "flat_args.%d%c", &leaf, &rest) != 1) return -1;
    for (int32_t i = 0; i < p->graph->input_count; i++)
        if ((p->sources[i].kind == NBX_SOURCE_USER || p->sources[i].kind == NBX_SOURCE_FIXED) && leaf-- == 0)
            return p->sources[i].kind == NBX_SOURCE_USER ? p->sources[i].user : -1;
    return -1;
}

static bool input_value(const nbx_expr_env *env, const char *path, int32_t dim, nbx_number *number) {
    const checker *c = env->data;
    const int i = input_at(c->p, path);
    if (i < 0) return false;
    const nbx_value *v = &c->inputs[i];
    number->real = v->kind == NBX_KIND_FLOAT;
    if (dim >= 0) {
        if (v->kind != NBX_KIND_TENSOR || dim >= v->as.tensor->rank) return false;
        number->integer = v->as.tensor->shape[dim];
    } else {
        if (v->kind != NBX_KIND_INT && v->kind != NBX_KIND_FLOAT && v->kind != NBX_KIND_BOOL) return false;
        number->integer = v->kind == NBX_KIND_INT ? v->as.integer : v->kind == NBX_KIND_BOOL ? v->as.boolean : 0;
    }
    number->value = number->real ? v->as.real : (double)number->integer;
    return true;
}

static nbx_expr_env env_of(const checker *c) {
    const nbx_expr_env env = {symbol_value, input_value, c};
    return env;
}

// --------------------------------------------------------------------------------------------------------------- texts
static void put(char *text, size_t size, const char *part) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", part);
}

// "[2, s0 (1 to 64), 3]": what a tensor input may be.
static const char *wanted_shape(const nbx_program_value *v, char *text, size_t size) {
    snprintf(text, size, "[");
    for (int i = 0; i < v->rank; i++) {
        const nbx_program_dim *d = &v->dims[i];
        char part[160];
        if (d->size >= 0) snprintf(part, sizeof part, "%lld", (long long)d->size);
        else if (d->max >= 0) snprintf(part, sizeof part, "%.64s (%lld to %lld)", d->symbol[0] ? d->symbol : "any", (long long)d->min, (long long)d->max);
        else if (d->min > 1) snprintf(part, sizeof part, "%.64s (from %lld)", d->symbol[0] ? d->symbol : "any", (long long)d->min);
        else snprintf(part, sizeof part, "%.64s", d->symbol[0] ? d->symbol : "any");
        if (i) put(text, size, ", ");
        put(text, size, part);
    }
    put(text, size, "]");
    return text;
}

static nbx_status wrong_shape(checker *c, int i, const char *why) {
    const nbx_program_value *v = &c->p->inputs[i];
    const nbx_tensor *t = c->inputs[i].as.tensor;
    char wanted[512], found[NBX_SHAPE_TEXT];
    return nbx_fail(c->ctx, NBX_ERROR_SHAPE, "input %s has shape %s, but the program takes %s%s%s", v->name,
                    nbx_shape_text(t->rank, t->shape, found, sizeof found), wanted_shape(v, wanted, sizeof wanted), why[0] ? ": " : "", why);
}

// ------------------------------------------------------------------------------------------------------------- symbols
// A symbol stands for one number in all inputs.
static bool bind(checker *c, int32_t symbol, int64_t value) {
    if (c->known[symbol]) return c->values[symbol] == value;
    c->known[symbol] = true;
    c->values[symbol] = value;
    return true;
}

static bool in_range(const checker *c, int32_t symbol, int64_t value) {
    if (symbol >= c->p->range_capacity || !c->p->ranges[symbol].known) return true;
    const nbx_symbol_range *range = &c->p->ranges[symbol];
    return (range->min <= LOWEST_CHECKED_MIN || value >= range->min) && (range->max < 0 || value <= range->max);
}

// Solves e = value for the one unknown symbol of a*s + b, by two evaluations. false: the equation has no whole solution.
static bool solve(checker *c, const nbx_expr *e, int64_t value) {
    int32_t unknown = -1;
    const nbx_expr *stack[64];
    int depth = 0;
    stack[depth++] = e;
    while (depth) {
        const nbx_expr *at = stack[--depth];
        if (at->op == NBX_EXPR_SYMBOL && !c->known[at->as.symbol]) {
            if (unknown >= 0 && unknown != at->as.symbol) return true;  // two unknowns: left open
            unknown = at->as.symbol;
        }
        for (int32_t i = 0; i < at->count; i++) {
            if (at->op < NBX_EXPR_ADD || depth == 64) return true;
            stack[depth++] = at->as.children[i];
        }
    }
    const nbx_expr_env env = env_of(c);
    nbx_number at[3];
    if (unknown < 0) return !nbx_expr_eval(e, &env, &at[0]) || at[0].real || at[0].integer == value;
    bool good = true;
    c->known[unknown] = true;
    for (int i = 0; i < 3 && good; i++) {
        c->values[unknown] = 60 * (i + 1);
        good = nbx_expr_eval(e, &env, &at[i]) && !at[i].real;
    }
    c->known[unknown] = false;
    if (!good || at[1].integer - at[0].integer != at[2].integer - at[1].integer) return true;  // not linear: left open
    const int64_t slope = at[1].integer - at[0].integer, rest = value - at[0].integer;
    if (slope == 0) return rest == 0;
    if (slope % 60 != 0 || rest * 60 % slope != 0) return slope % 60 != 0;
    return bind(c, unknown, 60 + rest * 60 / slope);
}

// -------------------------------------------------------------------------------------------------------------- inputs
static nbx_status check_kind(checker *c, int i) {
    static const char *const names[] = {"nothing", "a tensor", "an integer", "a float", "a bool", "a complex number"};
    const nbx_program_value *v = &c->p->inputs[i];
    const nbx_value *given = &c->inputs[i];
    if (given->kind == NBX_KIND_TENSOR && !given->as.tensor)  // it may have failed in another context
        return c->ctx->status != NBX_OK ? c->ctx->status : nbx_fail(c->ctx, NBX_ERROR_ARGUMENT, "input %s is NULL", v->name);
    if (given->kind == (int32_t)v->kind && !(given->kind == NBX_KIND_TENSOR && nbx_is_none(given->as.tensor))) return NBX_OK;
    if (given->kind == NBX_KIND_INT && v->kind == NBX_KIND_FLOAT) return NBX_OK;
    return nbx_fail(c->ctx, NBX_ERROR_ARGUMENT, "input %s must be %s, not %s", v->name, names[v->kind <= NBX_KIND_COMPLEX ? v->kind : 0],
                    names[given->kind <= NBX_KIND_COMPLEX ? given->kind : 0]);
}

static nbx_status check_tensor(checker *c, int i) {
    const nbx_program_value *v = &c->p->inputs[i];
    const nbx_tensor *t = c->inputs[i].as.tensor;
    char wanted[512];
    if (t->dtype != v->dtype)
        return nbx_fail(c->ctx, NBX_ERROR_DTYPE, "input %s has dtype %s, but the program takes %s %s", v->name, nbx_dtype_name((nbx_dtype)t->dtype),
                        nbx_dtype_name(v->dtype), wanted_shape(v, wanted, sizeof wanted));
    if (nbx_device_of(t).type != c->p->device.type)
        return nbx_fail(c->ctx, NBX_ERROR_DEVICE, "input %s lies on another device than the program", v->name);
    if (t->rank != v->rank) return wrong_shape(c, i, "the number of dims differs");
    for (int d = 0; d < t->rank; d++)
        if (v->dims[d].size >= 0 && v->dims[d].size != t->shape[d]) return wrong_shape(c, i, "a fixed dim differs");
    return NBX_OK;
}

static nbx_status bind_tensor(checker *c, int i, bool plain) {
    const nbx_tensor *t = c->inputs[i].as.tensor;
    for (int d = 0; d < t->rank; d++) {
        const nbx_expr *e = c->p->input_dims[i][d];
        char why[160];
        if (!e || (e->op == NBX_EXPR_SYMBOL) != plain) continue;
        if (!plain) {
            if (!solve(c, e, t->shape[d])) return wrong_shape(c, i, "sizes do not fit together");
            continue;
        }
        if (!in_range(c, e->as.symbol, t->shape[d])) {
            snprintf(why, sizeof why, "dim %d is out of range", d);
            return wrong_shape(c, i, why);
        }
        if (bind(c, e->as.symbol, t->shape[d])) continue;
        snprintf(why, sizeof why, "%.64s is %lld elsewhere", c->p->symbol_names[e->as.symbol], (long long)c->values[e->as.symbol]);
        return wrong_shape(c, i, why);
    }
    return NBX_OK;
}

static nbx_status bind_number(checker *c, int i) {
    const nbx_expr *e = c->p->input_numbers[i];
    if (!e || e->op != NBX_EXPR_SYMBOL) return NBX_OK;
    const int64_t value = c->inputs[i].as.integer;
    const char *symbol = c->p->symbol_names[e->as.symbol], *name = c->p->inputs[i].name;
    if (!in_range(c, e->as.symbol, value)) {
        const nbx_symbol_range *range = &c->p->ranges[e->as.symbol];
        if (range->max < 0)
            return nbx_fail(c->ctx, NBX_ERROR_ARGUMENT, "input %s is %lld, but the program takes %lld or more", name, (long long)value, (long long)range->min);
        return nbx_fail(c->ctx, NBX_ERROR_ARGUMENT, "input %s is %lld, but the program takes %lld to %lld", name, (long long)value,
                        (long long)range->min, (long long)range->max);
    }
    if (bind(c, e->as.symbol, value)) return NBX_OK;
    return nbx_fail(c->ctx, NBX_ERROR_ARGUMENT, "input %s is %lld, but %s is %lld elsewhere", name, (long long)value, symbol,
                    (long long)c->values[e->as.symbol]);
}

static nbx_status check_guards(checker *c) {
    const nbx_expr_env env = env_of(c);
    for (int i = 0; i < c->p->guard_count; i++) {
        nbx_number value;
        if (nbx_expr_eval(c->p->guards[i].expr, &env, &value) && !value.real && !value.integer)
            return nbx_fail(c->ctx, NBX_ERROR_SHAPE, "the inputs break a condition of the program: %s", c->p->guards[i].text);
    }
    return NBX_OK;
}

static nbx_status check_all(checker *c) {
    nbx_status status = NBX_OK;
    for (int i = 0; i < c->p->input_count && status == NBX_OK; i++) {
        status = check_kind(c, i);
        if (status == NBX_OK && c->p->inputs[i].kind == NBX_KIND_TENSOR) status = check_tensor(c, i);
    }
    for (int pass = 0; pass < 2; pass++)  // plain symbols first, then expressions of them
        for (int i = 0; i < c->p->input_count && status == NBX_OK; i++) {
            if (c->p->inputs[i].kind == NBX_KIND_TENSOR) status = bind_tensor(c, i, pass == 0);
            else if (c->p->inputs[i].kind == NBX_KIND_INT && pass == 0) status = bind_number(c, i);
        }
    return status == NBX_OK ? check_guards(c) : status;
}

nbx_status nbx_inputs_check(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, int count) {
    if (count != p->input_count)
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "the program takes %d inputs, %d were given", p->input_count, count);
    enum { FEW = 64 };
    int64_t values[FEW];
    bool known[FEW] = {false};
    checker c = {ctx, p, inputs, values, known};
    if (p->symbol_count <= FEW) return check_all(&c);
    c.values = nbx_alloc_zero((size_t)p->symbol_count * sizeof *c.values);
    c.known = nbx_alloc_zero((size_t)p->symbol_count * sizeof *c.known);
    nbx_status status = c.values && c.known ? check_all(&c) : nbx_fail_memory(ctx, (size_t)p->symbol_count * 9, "symbols");
    nbx_free(c.values);
    nbx_free(c.known);
    return status;
}
