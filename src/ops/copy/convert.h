// Elements between memory of any dtype and strides and a dense tile of the dtype that a loop computes in.
// One set per ISA; for files that are compiled per ISA, and for those that pick by ctx->isa.
#ifndef NBX_OPS_COPY_CONVERT_H
#define NBX_OPS_COPY_CONVERT_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// A tile and every operand's part of a block are at most this long, so that a handful of them stay in the L2 cache, and a
// square of 64 x 64 floats is one. Where nothing is turned over a quarter of it is used, for the L1 cache.
#define NBX_TILE_BYTES 16384

// nbx_convert:     count dense elements of dtype `from` to dense elements of dtype `to`, as ATen casts: floats truncate
//                  toward zero to integers, complex loses its imaginary part, anything but zero is true.
// nbx_load_block:  n1 rows of n0 elements with strides s0, s1 (bytes) into a dense tile.
// nbx_store_block: the inverse.
// nbx_move_block:  the same bytes from one strided block to another, elements of `bytes` bytes.
#define NBX_CONVERT_DECLARE(isa)                                                                                       \
    void nbx_convert_##isa(nbx_dtype to_dtype, void *to, nbx_dtype from_dtype, const void *from, int64_t count);       \
    void nbx_load_block_##isa(nbx_dtype tile_dtype, void *tile, nbx_dtype dtype, const void *from, int64_t n0,         \
                              int64_t n1, int64_t s0, int64_t s1);                                                     \
    void nbx_store_block_##isa(nbx_dtype dtype, void *to, nbx_dtype tile_dtype, const void *tile, int64_t n0,          \
                               int64_t n1, int64_t s0, int64_t s1);                                                    \
    void nbx_move_block_##isa(size_t bytes, void *to, int64_t to0, int64_t to1, const void *from, int64_t from0,       \
                              int64_t from1, int64_t n0, int64_t n1)
NBX_CONVERT_DECLARE(baseline);
NBX_CONVERT_DECLARE(avx2);
NBX_CONVERT_DECLARE(avx512);

#ifdef __cplusplus
}
#endif
#endif
