// Copies, casts and fills between any layouts on the CPU, planned once and run many times.
#ifndef NBX_OPS_COPY_COPY_H
#define NBX_OPS_COPY_COPY_H

#include "ops/iter.h"

#ifdef __cplusplus
extern "C" {
#endif

// A block that is turned over on its way past the caches: 512 elements of each row, read along 16 rows at a time, and streamed
// in runs of 256 bytes (1024 x 28672 floats on a Zen 4 core: 14.0 ms by squares of 64, 12.6 so).
enum { NBX_TURNED_BYTES = 1 << 17, NBX_TURNED_RUN = 256 };

typedef struct nbx_copy_plan {
    bool ready;
    bool flat;            // both dense in the same order
    bool fill;            // the source is one element
    bool clamp;           // to float16, finite values limited to +-65504
    bool rows;            // rows are dense on both sides
    bool stream;          // the result is larger than the caches
    uint8_t to, from;     // dtypes
    int64_t grain;        // blocks (flat: elements) worth a thread
    nbx_iter iter;        // last: a kept plan has room for its dims only
} nbx_copy_plan;

// Copies all elements of `from`, broadcast and cast, over `to`: any dtypes, strides and devices. The two must not overlap
// unless they lie exactly alike.
nbx_status nbx_copy_tensor(nbx_context *ctx, const nbx_tensor *to, const nbx_tensor *from);

// The parts, for kernels: `from` NULL plans a fill with one element of dtype from_dtype.
static inline size_t nbx_copy_plan_bytes(int rank) { return offsetof(nbx_copy_plan, iter) + nbx_iter_bytes(rank); }
void nbx_copy_plan_make(nbx_copy_plan *plan, const nbx_tensor *to, const nbx_tensor *from, nbx_dtype from_dtype, bool clamp);
void nbx_copy_plan_run(nbx_context *ctx, const nbx_copy_plan *plan, void *to, const void *from);
void nbx_copy_run_baseline(nbx_pool *pool, const nbx_copy_plan *plan, void *to, const void *from);
void nbx_copy_run_avx2(nbx_pool *pool, const nbx_copy_plan *plan, void *to, const void *from);
void nbx_copy_run_avx512(nbx_pool *pool, const nbx_copy_plan *plan, void *to, const void *from);

// The kernel's plan: the call's state when it is recorded, else `local`.
static inline nbx_copy_plan *nbx_copy_plan_of(nbx_op_call *c, nbx_copy_plan *local) {
    return c->state ? (nbx_copy_plan *)c->state : local;
}

#ifdef __cplusplus
}
#endif
#endif
