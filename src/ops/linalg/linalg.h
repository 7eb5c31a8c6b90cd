// Batches of matrices for LAPACK: checks, column-major results, and the loop over a batch.
// A row's infer describes results with linalg_out and keeps a linalg_job; its kernel hands a body to linalg_run, which calls
// it for every matrix, in parallel over the batch.
#ifndef NBX_OPS_LINALG_H
#define NBX_OPS_LINALG_H

#include "ops/compose.h"
#include "ops/linalg/lapack.h"

typedef struct linalg_job {
    lapack_type type;
    int width;                         // bytes of an element
    int m, n, k;                       // rows, columns; right-hand sides or reflectors
    int64_t count;                     // matrices of the loop
    int batch_rank;
    int64_t batch[NBX_MAX_RANK];       // what broadcast operands are seen as
    size_t work_bytes;                 // of one thread
    int lwork, lrwork, liwork;         // lengths of LAPACK's workspaces
    double flops;                      // of one matrix
    char how[4];                       // the family's letters: uplo, trans, job ...
} linalg_job;

typedef struct linalg_task {
    nbx_op_call *call;
    const linalg_job *job;
    const nbx_lapack *lapack;
} linalg_task;

// One matrix of the batch; work: job->work_bytes of this thread. Returns LAPACK's info.
typedef int (*linalg_body)(const linalg_task *task, int64_t index, char *work);

// --------------------------------------------------------------------------------------------------------------- checks
// At least two dims, float32, float64 or complex, sizes that LAPACK can count.
nbx_status linalg_need_matrix(nbx_op_call *c, int arg);
nbx_status linalg_need_square(nbx_op_call *c, int arg);
nbx_status linalg_need_same_dtype(nbx_op_call *c, int a, int b);

static inline int64_t linalg_rows(const nbx_tensor *t) { return t->shape[t->rank - 2]; }
static inline int64_t linalg_cols(const nbx_tensor *t) { return t->shape[t->rank - 1]; }

// ---------------------------------------------------------------------------------------------------------------- infer
// A job for matrices like those of t, kept with the call. NULL: failed.
linalg_job *linalg_job_new(nbx_op_call *c, const nbx_tensor *t);
// The batch dims of t and of b (may be NULL) broadcast into the job.
nbx_status linalg_broadcast(nbx_op_call *c, linalg_job *job, const nbx_tensor *b);
// Result k: the job's batch, then rows x cols in column-major order; or one vector of `length`; or one number.
nbx_status linalg_out(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, int64_t rows, int64_t cols);
nbx_status linalg_out_vector(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, int64_t length);
nbx_status linalg_out_scalar(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job);
nbx_status linalg_out_empty(nbx_op_call *c, int k, nbx_dtype dtype);  // of shape [0]
// Adds `count` elements of so many bytes to the work of a thread; -1 in count fails. Returns where they start.
size_t linalg_work(linalg_job *job, int64_t count, size_t bytes);
// Sets the scratch of the call from the job.
nbx_status linalg_ready(nbx_op_call *c, const linalg_job *job);
// The length that a LAPACK query left in its first element of work.
int linalg_queried(lapack_type type, const void *work);

// --------------------------------------------------------------------------------------------------------------- kernels
// Where matrix `index` of t lies when t's batch dims are broadcast to the job's; t has `inner` dims after its batch.
char *linalg_at(const linalg_job *job, const nbx_tensor *t, int inner, int64_t index);
// Matrix `index` of t, or its transpose, into column-major memory, and back.
void linalg_load(const linalg_job *job, char *to, const nbx_tensor *t, int64_t index, bool transposed);
void linalg_store(const linalg_job *job, const nbx_tensor *t, int64_t index, const char *from, bool transposed);
nbx_dtype linalg_dtype(const linalg_job *job);
void linalg_identity(const linalg_job *job, char *to, int rows, int cols);
// Zeros below (lower) or above the diagonal of a column-major matrix.
void linalg_clear_triangle(const linalg_job *job, char *a, int rows, int cols, bool lower);

static inline int linalg_ld(int rows) { return rows > 1 ? rows : 1; }

// Calls the body for all matrices of a job. infos (may be NULL) receives what they return; *failed the first index with an info that
// is not 0, or -1, and *info that info.
nbx_status linalg_run(nbx_op_call *c, const linalg_job *job, linalg_body body, const nbx_tensor *infos, int64_t *failed, int *info);
// What ATen's check says when there is one: "batch element 3: <why>".
nbx_status linalg_fail(nbx_op_call *c, const linalg_job *job, int64_t index, const char *why);

void linalg_cost(const nbx_op_call *c, nbx_cost *cost);

// A^H, in composites.
static inline nbx_tensor *do_adjoint(nbx_context *ctx, const nbx_tensor *t) {
    return t ? do_unary(ctx, "aten::_conj_physical", do_transpose(ctx, t, -2, -1)) : NULL;
}

#define LINALG_FLAGS (NBX_OP_ON_HOST | NBX_OP_EXACT_DTYPE)

#endif
