// Nodes that compute on the host: arithmetic of symbolic numbers (_operator.*, math.*, torch.sym_*), sizes of tensors, and the
// checks that export leaves in a program.
#ifndef NBX_OPS_SYMBOLIC_SYMBOLIC_H
#define NBX_OPS_SYMBOLIC_SYMBOLIC_H

#include "core/context.h"

typedef enum nbx_host_code {
    NBX_HOST_NONE,
    // Python's operators and functions on numbers
    NBX_HOST_ADD, NBX_HOST_SUB, NBX_HOST_MUL, NBX_HOST_TRUEDIV, NBX_HOST_FLOORDIV, NBX_HOST_MOD, NBX_HOST_POW,
    NBX_HOST_LSHIFT, NBX_HOST_RSHIFT, NBX_HOST_NEG, NBX_HOST_POS, NBX_HOST_ABS, NBX_HOST_ROUND, NBX_HOST_CEIL, NBX_HOST_FLOOR,
    NBX_HOST_TRUNC, NBX_HOST_SQRT, NBX_HOST_TO_FLOAT, NBX_HOST_TO_INT, NBX_HOST_TO_BOOL, NBX_HOST_MIN, NBX_HOST_MAX, NBX_HOST_SUM,
    NBX_HOST_ITE, NBX_HOST_AND, NBX_HOST_OR, NBX_HOST_XOR, NBX_HOST_INVERT, NBX_HOST_NOT,
    NBX_HOST_EQ, NBX_HOST_NE, NBX_HOST_LT, NBX_HOST_LE, NBX_HOST_GT, NBX_HOST_GE,
    // math functions of one number
    NBX_HOST_EXP, NBX_HOST_LOG, NBX_HOST_LOG2, NBX_HOST_SIN, NBX_HOST_COS, NBX_HOST_TAN, NBX_HOST_ASIN, NBX_HOST_ACOS,
    NBX_HOST_ATAN, NBX_HOST_SINH, NBX_HOST_COSH, NBX_HOST_TANH,
    // facts of tensors
    NBX_HOST_SYM_SIZE, NBX_HOST_SYM_STRIDE, NBX_HOST_SYM_NUMEL, NBX_HOST_SYM_OFFSET, NBX_HOST_IDENTITY,
    // checks
    NBX_HOST_ASSERT_SCALAR, NBX_HOST_ASSERT_METADATA, NBX_HOST_CONSTRAIN_RANGE, NBX_HOST_CONSTRAIN_SIZE,
    // what prints, or prepares PyTorch itself
    NBX_HOST_NOTHING,
} nbx_host_code;

// Code of a node's target, "_operator.add" or "torch.ops.aten.sym_size.int"; NONE: it is not computed here.
nbx_host_code nbx_host_find(const char *target);
// Arguments are in the order of the schema or of the Python function. *result is NONE for checks.
nbx_status nbx_host_call(nbx_context *ctx, nbx_host_code code, const nbx_value *args, int count, nbx_value *result);

#endif
