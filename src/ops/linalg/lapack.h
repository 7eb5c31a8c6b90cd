// LAPACK as one table of functions. Nothing is linked: liblapack.so.3 is opened when an operator first asks, so whoever has
// no use for linear algebra needs no LAPACK. Debian's liblapack3 or libopenblas0 provides it; integers have 32 bits.
#ifndef NBX_OPS_LAPACK_H
#define NBX_OPS_LAPACK_H

#include "ops/op.h"

typedef enum lapack_type { LAPACK_S, LAPACK_D, LAPACK_C, LAPACK_Z } lapack_type;

typedef struct nbx_lapack {
#define NBX_LAPACK(field, real_name, complex_name, params) void(*field[4]) params;
#include "ops/linalg/lapack.def"
#undef NBX_LAPACK
} nbx_lapack;

// The table; any thread may ask. NULL: fails the call with the name of the package to install.
const nbx_lapack *nbx_lapack_of(nbx_op_call *c);

static inline lapack_type lapack_type_of(nbx_dtype d) {
    return d == NBX_FLOAT32 ? LAPACK_S : d == NBX_FLOAT64 ? LAPACK_D : d == NBX_COMPLEX64 ? LAPACK_C : LAPACK_Z;
}

#endif
