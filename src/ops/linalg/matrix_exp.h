// What matrix_exp needs on both devices: the polynomials, and the memory of a GPU.
#ifndef NBX_OPS_MATRIX_EXP_H
#define NBX_OPS_MATRIX_EXP_H

#include "ops/op.h"

#include <math.h>

// A degree q r, in powers of A^q.
static const struct { int q, r; } nbx_exp_degrees[] = {{1, 1}, {2, 1}, {2, 2}, {3, 2}, {3, 3}, {4, 3}, {4, 4}, {5, 4}};
enum { NBX_EXP_DEGREES = 8, NBX_EXP_POWERS = 5, NBX_EXP_BUFFERS = NBX_EXP_POWERS + 2 };  // A ... A^5, and two that products alternate between

static inline double nbx_exp_factorial(int n) { return n < 2 ? 1 : n * nbx_exp_factorial(n - 1); }

static inline int nbx_exp_degree_count(nbx_dtype dtype) { return nbx_dtype_to_real(dtype) == NBX_FLOAT32 ? NBX_EXP_DEGREES - 2 : NBX_EXP_DEGREES; }
// The largest norm that degree i is for.
static inline double nbx_exp_reach(nbx_dtype dtype, int i) {
    const int m = nbx_exp_degrees[i].q * nbx_exp_degrees[i].r;
    return pow((nbx_dtype_to_real(dtype) == NBX_FLOAT32 ? 0x1p-25 : 0x1p-54) * nbx_exp_factorial(m + 1), 1.0 / m);
}

// Groups of blocks of a GPU: each has buffers, and takes matrices one after the other. Numbers beside the buffers: a norm for each
// block of each group, and a counter for each group.
enum { NBX_EXP_GROUPS = 128, NBX_EXP_PARTS = 256 };
static inline int64_t nbx_exp_groups(int64_t count) { return count < NBX_EXP_GROUPS ? count : NBX_EXP_GROUPS; }
static inline size_t nbx_exp_device_bytes(int64_t count, int64_t n, nbx_dtype dtype) {
    return (size_t)nbx_exp_groups(count) * ((size_t)(NBX_EXP_BUFFERS * n * n) * nbx_dtype_size(dtype) + (NBX_EXP_PARTS + 1) * sizeof(double)) + 16;
}

#endif
