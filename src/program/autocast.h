// Autocast's rules: which operators compute in the lower precision, which in float32, which in the widest of their inputs.
#ifndef NBX_PROGRAM_AUTOCAST_H
#define NBX_PROGRAM_AUTOCAST_H

#include "core/context.h"

typedef enum nbx_autocast_policy {
    NBX_AUTOCAST_KEEP,     // as it is
    NBX_AUTOCAST_LOWER,    // float inputs to the region's dtype
    NBX_AUTOCAST_FLOAT32,  // float inputs to float32
    NBX_AUTOCAST_PROMOTE,  // float inputs to the widest among them
} nbx_autocast_policy;

// Policies of an operator by its name, "aten::linear", in regions of autocast on the CPU and on CUDA.
void nbx_autocast_find(const char *name, uint8_t *cpu, uint8_t *cuda);
// Casts the tensors of a call (in place, results owned by the scope) for a region of the given lower dtype.
nbx_status nbx_autocast_apply(nbx_context *ctx, nbx_autocast_policy policy, nbx_dtype lower, nbx_value *args, int count);

#endif
