// Symbolic expressions: sizes such as 2*s0 + 1, written by PyTorch as infix text (to 2.5), as SymPy constructors (from 2.6) and
// as guards over the inputs, L['x'].size()[1] <= 64 (from 2.9). One parser reads all three: they are Python expressions.
#ifndef NBX_PROGRAM_EXPR_H
#define NBX_PROGRAM_EXPR_H

#include "program/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nbx_expr_op {
    NBX_EXPR_INT,
    NBX_EXPR_REAL,
    NBX_EXPR_SYMBOL,     // as.symbol: number of the symbol
    NBX_EXPR_INPUT,      // as.path: L['n'], a number given as input; "n", "batch.a", "state.0"
    NBX_EXPR_SIZE,       // as.path and dim: L['x'].size()[1]
    NBX_EXPR_ADD, NBX_EXPR_SUB, NBX_EXPR_MUL, NBX_EXPR_DIV, NBX_EXPR_FLOOR_DIV, NBX_EXPR_MOD, NBX_EXPR_POW,
    NBX_EXPR_NEG, NBX_EXPR_MIN, NBX_EXPR_MAX, NBX_EXPR_ABS, NBX_EXPR_SQRT,
    NBX_EXPR_FLOOR, NBX_EXPR_CEIL, NBX_EXPR_TRUNC, NBX_EXPR_ROUND, NBX_EXPR_TO_FLOAT,
    NBX_EXPR_EQ, NBX_EXPR_NE, NBX_EXPR_LT, NBX_EXPR_LE, NBX_EXPR_GT, NBX_EXPR_GE,
    NBX_EXPR_AND, NBX_EXPR_OR, NBX_EXPR_NOT, NBX_EXPR_WHERE, NBX_EXPR_MODULAR,  // (a // b) % c
} nbx_expr_op;

typedef struct nbx_expr nbx_expr;
struct nbx_expr {
    uint8_t op;          // nbx_expr_op
    int32_t count;       // children
    int32_t dim;
    union {
        int64_t integer;
        double real;
        int32_t symbol;
        const char *path;
        nbx_expr **children;
    } as;
};

typedef struct nbx_number {
    bool real;
    int64_t integer;     // also 0 and 1 for truth values
    double value;        // if real
} nbx_number;

// What the leaves stand for. Either function may say false: not known.
typedef struct nbx_expr_env {
    bool (*symbol)(const struct nbx_expr_env *env, int32_t symbol, int64_t *value);
    bool (*input)(const struct nbx_expr_env *env, const char *path, int32_t dim, nbx_number *value);  // dim -1: the number itself
    const void *data;
} nbx_expr_env;

// Reads an expression; symbols get the next free numbers in the map. NULL without failure: it is not understood.
nbx_expr *nbx_expr_parse(nbx_context *ctx, nbx_arena *arena, const char *text, size_t length, nbx_name_map *symbols);
// false: a leaf is not known, or the value overflows or divides by zero.
bool nbx_expr_eval(const nbx_expr *e, const nbx_expr_env *env, nbx_number *value);
// Writes it as people do, "2*s77 + 1"; names: of the symbols. false: it holds more than arithmetic, or size is too small.
bool nbx_expr_text(const nbx_expr *e, const char *const *names, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
