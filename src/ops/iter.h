// The planner for strided work. Takes operands of one broadcast shape, orders dims by stride, merges what is adjacent,
// and hands out inner runs; every elementwise operator, copy and reduction walks memory through it.
#ifndef NBX_OPS_ITER_H
#define NBX_OPS_ITER_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NBX_ITER_OPERANDS 8

typedef struct nbx_iter {
    int operands;                                   // operand 0 is the output (or outputs first)
    int rank;                                       // dims left after merging; dim 0 is the innermost
    bool narrow;                                    // every byte offset fits 32 bits
    int64_t numel;
    int64_t shape[NBX_MAX_RANK];
    int64_t stride[NBX_ITER_OPERANDS][NBX_MAX_RANK];  // in bytes, of each operand, dim 0 innermost; 0: broadcast
} nbx_iter;

// Plans a walk over `shape` for operands broadcast to it. Order of dims follows operand 0, then the next ones.
void nbx_iter_plan(nbx_iter *it, int rank, const int64_t *shape, int operands, const nbx_tensor *const *tensors);
// Calls body(arg, pointers, strides, count) for every inner run (along dim 0) between elements begin and end of the walk.
// pointers are advanced copies of base; strides are the innermost byte strides.
typedef void (*nbx_run_fn)(void *arg, char *const *pointers, const int64_t *strides, int64_t count);
void nbx_iter_walk(const nbx_iter *it, char *const *base, int64_t begin, int64_t end, nbx_run_fn body, void *arg);
// Strides ATen's TensorIterator gives a new elementwise result over these inputs (order of the inputs kept when they agree).
void nbx_iter_out_strides(int rank, const int64_t *shape, int inputs, const nbx_tensor *const *tensors, int64_t *stride);

#ifdef __cplusplus
}
#endif
#endif
