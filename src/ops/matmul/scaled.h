// Products of float8 matrices with scales.
#ifndef NBX_OPS_SCALED_H
#define NBX_OPS_SCALED_H

#include "ops/op.h"

// Arguments of _scaled_mm: y = (self x mat2) * scale_a * scale_b + bias, divided by scale_result where y is float8.
enum { SCALED_A, SCALED_B, SCALED_SCALE_A, SCALED_SCALE_B, SCALED_BIAS, SCALED_RESULT, SCALED_DTYPE };

#endif
