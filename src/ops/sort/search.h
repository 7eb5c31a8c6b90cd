// Searches as numbers, for the kernels of both devices.
#ifndef NBX_OPS_SEARCH_H
#define NBX_OPS_SEARCH_H

#include "ops/sort/keys.h"

#ifdef __cplusplus
extern "C" {
#endif

// searchsorted, bucketize: where values belong in the rows of a sorted sequence.
typedef struct nbx_search {
    const nbx_tensor *sequence, *values, *sorter, *out;
    const nbx_value *scalar;      // instead of values
    nbx_dtype common, scalar_dtype;
    bool right;
    int64_t length, rows, per_row;  // of the sequence; values of one row
    nbx_row_walk walk, sorter_walk;
} nbx_search;
// All but the walks and out.
nbx_status nbx_search_plan(nbx_op_call *c, nbx_search *s);

// isin: which elements are among the test elements.
typedef struct nbx_membership {
    const nbx_tensor *elements, *tests, *out;
    const nbx_value *scalar;  // in the place of whichever tensor is NULL
    nbx_dtype common, scalar_dtype;
    bool invert;
    uint64_t *keys;           // of the test elements, sorted
    int64_t count;
} nbx_membership;
nbx_status nbx_membership_plan(nbx_op_call *c, nbx_membership *m);

#ifdef __cplusplus
}
#endif
#endif
