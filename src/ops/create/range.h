// What the rows of arange, linspace and their like hand to the kernel.
#ifndef NBX_OPS_CREATE_RANGE_H
#define NBX_OPS_CREATE_RANGE_H

#include "ops/op.h"

typedef enum range_kind { RANGE_STEP, RANGE_LINEAR, RANGE_LOGARITHMIC } range_kind;

typedef struct range_numbers {
    range_kind kind;
    nbx_value start, step;  // RANGE_STEP
    nbx_value end;          // the other kinds: from start to end in so many steps
    int64_t steps;
    double base;            // RANGE_LOGARITHMIC
} range_numbers;

#endif
