// Reductions: what is accumulated, over which dims, and in which order.
//
// Elements are computed in one of four domains: float (float16, bfloat16, float32), double, int64, complex double. A walk
// is either of rows (the fastest dim is reduced) or of columns (it is kept, and its neighbours lie in vector lanes). When
// few results are left the reduced elements are cut into pieces, whose number depends on the shape alone, so that the
// order of a sum never depends on the number of threads.
#ifndef NBX_OPS_REDUCE_H
#define NBX_OPS_REDUCE_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is accumulated.
typedef enum reduce_op {
    REDUCE_SUM,      // sum x
    REDUCE_NANSUM,   // sum x, NaN counts as 0
    REDUCE_ABS,      // sum |x|
    REDUCE_SQUARE,   // sum |x|^2
    REDUCE_POWER,    // sum |x|^p
    REDUCE_COUNT,    // how many are not 0 (in the integer domain, whatever the dtype)
    REDUCE_PROD,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_MAX_ABS,
    REDUCE_MIN_ABS,
    REDUCE_MINMAX,
    REDUCE_ARGMAX,   // largest and its first index; NaN is larger than all
    REDUCE_ARGMIN,
    REDUCE_MOMENTS,  // mean, and sum of squared distances from it
    REDUCE_LOGSUMEXP,
} reduce_op;

// What becomes of it.
typedef enum reduce_finish {
    REDUCE_PLAIN,     // the sum, product, count or extreme itself
    REDUCE_MEAN,      // divided by the number of elements
    REDUCE_ROOT,      // square root
    REDUCE_P_ROOT,    // 1/p-th power
    REDUCE_ANY,       // count > 0
    REDUCE_ALL,       // count = number of elements
    REDUCE_VALUE_INDEX,  // extreme to result 0, index to result 1
    REDUCE_INDEX,     // index to result 0
    REDUCE_VAR,       // variance to result 0, mean to result 1 if there is one
    REDUCE_STD,
    REDUCE_LOG,       // of logsumexp
} reduce_finish;

typedef enum reduce_domain { REDUCE_F32, REDUCE_F64, REDUCE_I64, REDUCE_COMPLEX } reduce_domain;

// One reduction: plain data, kept as the state of a call.
typedef struct reduce_job {
    uint8_t op, finish, domain;
    uint8_t in;        // dtype of the elements
    uint8_t cast;      // dtype they are converted to before anything else
    bool ordered;      // reduced dims are walked in their logical order, not by stride
    bool any_target;   // out= may have another dtype than the result (one that it can be cast to)
    double p;          // exponent of a norm, or correction of a variance
    uint64_t mask;     // reduced dims
} reduce_job;

// The walk: dims without those of size 1, adjacent ones merged, dim 0 the fastest. Strides in bytes; `to` in elements of
// the results, which are contiguous.
typedef struct reduce_plan {
    int kept, reduced;
    bool columns;
    int64_t kept_count, reduced_count;
    int64_t pieces, piece;   // the reduced elements are cut into so many pieces of so many elements
    int64_t kept_shape[NBX_MAX_RANK], kept_step[NBX_MAX_RANK], kept_to[NBX_MAX_RANK];
    int64_t reduced_shape[NBX_MAX_RANK], reduced_step[NBX_MAX_RANK];
} reduce_plan;

// Domain in which a dtype is computed.
reduce_domain reduce_domain_of(nbx_dtype dtype);
void reduce_plan_make(reduce_plan *plan, const reduce_job *job, int rank, const int64_t *shape, const int64_t *stride);
size_t reduce_scratch_bytes(const reduce_plan *plan);
// Into how many pieces a GPU cuts the reduced elements when results are few; each takes 32 bytes of scratch a result.
int64_t reduce_device_pieces(const reduce_plan *plan);
// The most scratch that a reduction takes on a CPU, whatever the walk; and one to so many results on a GPU.
#define REDUCE_WIDE_RESULTS 16384  // results of all pieces where columns are cut
static inline size_t reduce_cpu_bound(void) { return 32 * (size_t)REDUCE_WIDE_RESULTS; }
static inline size_t reduce_device_bound(int64_t results) {
    const int64_t cut = 1024 * (results < 256 ? results : 256);
    return 32 * (size_t)(cut > results ? cut : results);
}
// Shape of the results; returns the rank.
int reduce_shape(const nbx_tensor *x, uint64_t mask, bool keepdim, int64_t *shape);

// Runs a job over memory: x to results (NULL: not wanted), both contiguous in the order of the kept dims.
typedef struct reduce_run {
    const reduce_job *job;
    const reduce_plan *plan;
    const void *x;
    void *out[2];
    nbx_dtype out_dtype[2];
    void *scratch;
    nbx_pool *pool;
} reduce_run;
void reduce_execute_baseline(const reduce_run *run), reduce_execute_avx2(const reduce_run *run),
    reduce_execute_avx512(const reduce_run *run);

// infer of all reductions of one tensor: results described, job kept as state, scratch announced. The kernel is reduce_cpu.
// x: the input; results 0 (and 1 when dtype1 is not NBX_DTYPE_NONE) get the reduced shape.
nbx_status reduce_describe(nbx_op_call *c, const nbx_tensor *x, reduce_job job, bool keepdim, nbx_dtype dtype0,
                           nbx_dtype dtype1);
NBX_CPU_DECLARE(reduce_cpu);

// ATen's dtype of a sum: the one asked for, else the target's, else int64 for integers and bool, else that of x.
nbx_dtype reduce_sum_dtype(const nbx_op_call *c, const nbx_tensor *x, int dtype_arg);
// Fails when a reduced dim (any, or x as a whole when `dims_given` is false) has no elements.
nbx_status reduce_need_elements(nbx_op_call *c, const nbx_tensor *x, uint64_t mask, bool dims_given);
// One dim as a mask; absent (when the schema allows it) means all.
nbx_status reduce_one_dim(nbx_op_call *c, int arg, int rank, uint64_t *mask);
uint64_t reduce_all_dims(int rank);

#define NBX_REDUCTION(NAME, INFER) {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(reduce_cpu)}

#ifdef __cplusplus
}
#endif
#endif
