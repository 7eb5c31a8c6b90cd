// Walks along one dim: a tensor as lines of `length` elements, and the dims that number the lines, ordered and merged for
// up to four operands of one shape. Softmax, scans and order statistics work line by line.
#ifndef NBX_OPS_LINES_H
#define NBX_OPS_LINES_H

#include "core/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LINES_OPERANDS = 4 };

typedef struct lines {
    int operands;
    int64_t length;                 // of a line
    int64_t count;                  // of lines
    int64_t along[LINES_OPERANDS];  // bytes from one element of a line to the next
    int rank;                       // dims that number the lines; dim 0 is the fastest for operand 0
    int64_t shape[NBX_MAX_RANK];
    int64_t step[LINES_OPERANDS][NBX_MAX_RANK];  // in bytes
} lines;

// Operands have the shape of the first, but for `dim`, where the others may have another size. NULL operands have no steps.
void lines_plan(lines *l, int dim, int operands, const nbx_tensor *const *tensors);

// Where line `index` starts, in bytes from each operand's first element.
static inline void lines_place(const lines *l, int64_t index, int64_t *offset) {
    for (int k = 0; k < l->operands; k++) offset[k] = 0;
    for (int d = 0; d < l->rank; d++) {
        const int64_t at = index % l->shape[d];
        index /= l->shape[d];
        for (int k = 0; k < l->operands; k++) offset[k] += at * l->step[k][d];
    }
}

#ifdef __cplusplus
}
#endif
#endif
