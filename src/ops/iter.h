// The planner for strided work. Takes operands of one broadcast shape, orders dims by stride, merges what is adjacent,
// and hands out runs or blocks; every elementwise operator, copy and reduction walks memory through it.
#ifndef NBX_OPS_ITER_H
#define NBX_OPS_ITER_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NBX_ITER_OPERANDS 8

typedef struct nbx_iter_dim {
    int64_t size;
    int64_t stride[NBX_ITER_OPERANDS];  // in bytes; 0: broadcast
} nbx_iter_dim;

typedef struct nbx_iter {
    int32_t operands;          // operand 0 is the output (or outputs first)
    int32_t rank;              // dims left after merging, at least 2 (padded with size 1); dim 0 is the innermost
    int64_t numel;
    int64_t block[2];          // of nbx_iter_blocks: extent along dims 0 and 1
    int64_t blocks[2];         //                     how many along dims 0 and 1
    int64_t block_count;       //                     and in all
    bool crossed;              // an operand runs along dim 1: its blocks come one after another along that
    nbx_iter_dim dim[NBX_MAX_RANK];
} nbx_iter;

// Bytes of a plan with at most so many dims, for keeping it in a call's state.
static inline size_t nbx_iter_bytes(int rank) {
    return offsetof(nbx_iter, dim) + sizeof(nbx_iter_dim) * (size_t)(rank < 2 ? 2 : rank);
}

// Plans a walk over `shape` for operands broadcast to it (aligned at the last dim; NULL: one element, stride 0).
// The order of dims follows the strides of operand 0, then the next ones.
void nbx_iter_plan(nbx_iter *it, int rank, const int64_t *shape, int operands, const nbx_tensor *const *tensors);

// Runs: calls body(arg, pointers, strides, count) for every piece along dim 0 between elements begin and end of the walk.
// pointers are advanced copies of base; strides are those of dim 0.
typedef void (*nbx_run_fn)(void *arg, char *const *pointers, const int64_t *strides, int64_t count);
void nbx_iter_walk(const nbx_iter *it, char *const *base, int64_t begin, int64_t end, nbx_run_fn body, void *arg);

// Blocks: pieces of n0 x n1 elements along dims 0 and 1, at most `elements` each. Where an operand runs along another dim
// than the output does, that dim becomes dim 1 and blocks become squares, so that both sides use whole cache lines.
void nbx_iter_set_blocks(nbx_iter *it, int64_t elements);
// Other sides for them, cut to the dims.
void nbx_iter_set_sides(nbx_iter *it, int64_t side0, int64_t side1);
typedef void (*nbx_block_fn)(void *arg, char *const *pointers, int64_t n0, int64_t n1);
void nbx_iter_blocks(const nbx_iter *it, char *const *base, int64_t begin, int64_t end, nbx_block_fn body, void *arg);

// Strides ATen's TensorIterator gives a new elementwise result over these inputs (order of the inputs kept when they agree).
// Returns false when they are the contiguous ones.
bool nbx_iter_out_strides(int rank, const int64_t *shape, int inputs, const nbx_tensor *const *tensors, int64_t *stride);

#ifdef __cplusplus
}
#endif
#endif
