// Moving elements without looking at them: strided copies by element width. What cat, flip, pad, roll and index are made of.
#ifndef NBX_OPS_MOVE_H
#define NBX_OPS_MOVE_H

#include "cpu/pool.h"
#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// One stretch of elements seen twice. Strides are in bytes; those of `from` may be 0 or negative, those of `to` may be
// anything under which no two elements share memory.
typedef struct nbx_move {
    char *to;
    const char *from;
    int width;                         // bytes of an element: 1, 2, 4, 8 or 16
    int rank;
    int64_t shape[NBX_MAX_RANK];
    int64_t to_stride[NBX_MAX_RANK], from_stride[NBX_MAX_RANK];
} nbx_move;

// Copies all elements, by all threads of the pool (NULL: by the caller alone). Reorders the dims of *m.
void nbx_move_run(nbx_pool *pool, nbx_move *m);
// The same for a whole tensor into one of equal shape and dtype size.
void nbx_move_tensor(nbx_pool *pool, const nbx_tensor *to, const nbx_tensor *from);
// Fills every element of t with the width bytes at value.
void nbx_fill_tensor(nbx_pool *pool, const nbx_tensor *t, const void *value);
// count elements one after another, `stride` bytes apart on either side.
void nbx_move_run_1d(int width, int64_t count, char *to, int64_t to_stride, const char *from, int64_t from_stride);

// The elements of *m from one dtype into another (m->width does not count), by the caller alone.
void nbx_convert_strided(nbx_move *m, nbx_dtype to_dtype, nbx_dtype from_dtype);
// The 16-byte buffer holds a scalar as one element of dtype.
void nbx_scalar_element(const nbx_value *scalar, nbx_dtype dtype, void *element);
// Converts count elements between any two dtypes with ATen's casts; strides in bytes.
void nbx_convert_run(nbx_dtype to_dtype, char *to, int64_t to_stride, nbx_dtype from_dtype, const char *from, int64_t from_stride,
                     int64_t count);

#ifdef __cplusplus
}
#endif
#endif
