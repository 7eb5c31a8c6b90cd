// Sizes as people write them: "2*s77 + 1" for Add(Mul(Integer(2), Symbol('s77', positive=True, integer=True)), Integer(1)).
#include <stdarg.h>
#include <stdio.h>

#include "program/expr.h"

enum { IN_SUM = 1, IN_PRODUCT, IN_POWER, ALONE };  // how tightly the operator around a part binds

typedef struct writer {
    const char *const *names;
    char *text;
    size_t size, used;
    bool failed;
} writer;

static void put(writer *w, const char *format, ...) NBX_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(w->text + w->used, w->size - w->used, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= w->size - w->used) w->failed = true;
    else w->used += (size_t)length;
}

static void write_part(writer *w, const nbx_expr *e, int around);

static void write_joined(writer *w, const nbx_expr *e, const char *between, int inside) {
    for (int i = 0; i < e->count && !w->failed; i++) {
        if (i) put(w, "%s", between);
        write_part(w, e->as.children[i], inside + (i > 0));  // a*(b//c) is not a*b//c
    }
}

// Numbers come last and bring their sign: SymPy has them first.
static void write_sum(writer *w, const nbx_expr *e) {
    bool first = true;
    for (int i = 0; i < e->count && !w->failed; i++) {
        if (e->as.children[i]->op == NBX_EXPR_INT) continue;
        if (!first) put(w, " + ");
        write_part(w, e->as.children[i], IN_SUM);
        first = false;
    }
    for (int i = 0; i < e->count && !w->failed; i++) {
        const nbx_expr *number = e->as.children[i];
        if (number->op != NBX_EXPR_INT) continue;
        if (first) put(w, "%lld", (long long)number->as.integer);
        else if (number->as.integer < 0) put(w, " - %llu", 0 - (unsigned long long)number->as.integer);
        else put(w, " + %lld", (long long)number->as.integer);
        first = false;
    }
}

static void write_call(writer *w, const nbx_expr *e, const char *name) {
    put(w, "%s(", name);
    write_joined(w, e, ", ", 0);
    put(w, ")");
}

// A part of less binding than what is around it stands in parentheses.
static void write_part(writer *w, const nbx_expr *e, int around) {
    const int inside = e->op == NBX_EXPR_ADD || e->op == NBX_EXPR_SUB ? IN_SUM
                       : e->op >= NBX_EXPR_MUL && e->op <= NBX_EXPR_MOD ? IN_PRODUCT
                       : e->op == NBX_EXPR_POW                          ? IN_POWER
                                                                        : ALONE;
    const bool closed = inside < around;
    if (closed) put(w, "(");
    switch ((nbx_expr_op)e->op) {
    case NBX_EXPR_INT: put(w, "%lld", (long long)e->as.integer); break;
    case NBX_EXPR_SYMBOL: put(w, "%s", w->names[e->as.symbol]); break;
    case NBX_EXPR_ADD: write_sum(w, e); break;
    case NBX_EXPR_SUB: write_joined(w, e, " - ", IN_SUM); break;
    case NBX_EXPR_MUL: write_joined(w, e, "*", IN_PRODUCT); break;
    case NBX_EXPR_DIV: write_joined(w, e, "/", IN_PRODUCT); break;
    case NBX_EXPR_FLOOR_DIV: write_joined(w, e, "//", IN_PRODUCT); break;
    case NBX_EXPR_MOD: write_joined(w, e, " % ", IN_PRODUCT); break;
    case NBX_EXPR_POW: write_joined(w, e, "**", IN_POWER); break;
    case NBX_EXPR_MIN: write_call(w, e, "min"); break;
    case NBX_EXPR_MAX: write_call(w, e, "max"); break;
    default: w->failed = true;
    }
    if (closed) put(w, ")");
}

bool nbx_expr_text(const nbx_expr *e, const char *const *names, char *text, size_t size) {
    writer w = {names, text, size, 0, false};
    write_part(&w, e, 0);
    return !w.failed;
}
