// Singular values and vectors, by divide and conquer (gesdd): A = U diag(S) Vh, S falling.
//   full: U [m, m], Vh [n, n]; else U [m, k], Vh [k, n] with k = min(m, n); without vectors both have shape [0]
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"

enum { HOW_JOB };  // in job->how: gesdd's A, S or N

typedef struct svd_places {
    size_t matrix, work, rwork, iwork, bytes;
} svd_places;

static svd_places places_of(const linalg_job *job) {
    linalg_job count = {0};
    const int64_t low = job->k, high = job->m > job->n ? job->m : job->n;
    const int64_t rwork = job->type < LAPACK_C ? 0 : job->how[HOW_JOB] == 'N' ? 7 * low : low * (5 * low + 7 + 2 * high + 2 * low);
    svd_places p;
    p.matrix = linalg_work(&count, (int64_t)job->m * job->n, (size_t)job->width);
    p.work = linalg_work(&count, job->lwork, (size_t)job->width);
    p.rwork = linalg_work(&count, rwork, (size_t)job->width / 2);
    p.iwork = linalg_work(&count, 8 * low, sizeof(int));
    p.bytes = count.work_bytes;
    return p;
}

static void svd_call(const nbx_lapack *lapack, const linalg_job *job, void *a, void *s, void *u, void *vh, void *work, const int *lwork,
                     void *rwork, int *iwork, int *info) {
    const int lda = linalg_ld(job->m), ldvh = job->how[HOW_JOB] == 'A' ? linalg_ld(job->n) : linalg_ld(job->k);
    if (job->type < LAPACK_C)
        lapack->gesdd[job->type](&job->how[HOW_JOB], &job->m, &job->n, a, &lda, s, u, &lda, vh, &ldvh, work, lwork, iwork, info, 1);
    else
        lapack->gesdd_complex[job->type](&job->how[HOW_JOB], &job->m, &job->n, a, &lda, s, u, &lda, vh, &ldvh, work, lwork, rwork, iwork, info, 1);
}

static nbx_status query(nbx_op_call *c, linalg_job *job) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    const int all = -1;
    char none[16] = {0}, work[16] = {0};
    int iwork = 0, info = 0;
    if (!lapack) return nbx_last_status(c->ctx);
    svd_call(lapack, job, none, none, none, none, work, &all, none, &iwork, &info);
    job->lwork = linalg_queried(job->type, work);
    return NBX_OK;
}

static nbx_status infer_svd(nbx_op_call *c) {
    nbx_status status = linalg_need_matrix(c, 0);
    if (status != NBX_OK) return status;
    if (!arg_is_none(c, 3)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a driver can be chosen on CUDA only");
    const nbx_tensor *a = arg_tensor(c, 0);
    const nbx_dtype dtype = (nbx_dtype)a->dtype;
    const bool full = arg_bool(c, 1), vectors = arg_bool(c, 2);
    linalg_job *job = linalg_job_new(c, a);
    if (!job) return nbx_last_status(c->ctx);
    const int least = job->k = job->m < job->n ? job->m : job->n;
    job->how[HOW_JOB] = vectors ? full ? 'A' : 'S' : 'N';
    job->flops = (vectors ? 14.0 : 4.0) * job->m * job->n * least;
    status = query(c, job);
    job->work_bytes = places_of(job).bytes;
    if (status == NBX_OK) status = vectors ? linalg_out(c, 0, dtype, job, job->m, full ? job->m : least) : linalg_out_empty(c, 0, dtype);
    if (status == NBX_OK) status = linalg_out_vector(c, 1, nbx_dtype_to_real(dtype), job, least);
    if (status == NBX_OK) status = vectors ? linalg_out(c, 2, dtype, job, full ? job->n : least, job->n) : linalg_out_empty(c, 2, dtype);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static bool is_double(const linalg_job *job) { return (size_t)job->width / (job->type < LAPACK_C ? 1 : 2) == sizeof(double); }

// Whether numbers, real or parts of complex ones, are all no NaN and some infinite.
static bool overflows(const linalg_job *job, const void *numbers, int64_t count) {
    bool infinite = false;
    for (int64_t i = 0; i < count; i++) {
        const double x = is_double(job) ? ((const double *)numbers)[i] : (double)((const float *)numbers)[i];
        if (x != x) return false;
        infinite |= isinf(x) != 0;
    }
    return infinite;
}

static void fill_nan(const linalg_job *job, void *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (is_double(job)) ((double *)numbers)[i] = NAN;
        else ((float *)numbers)[i] = NAN;
    }
}

static int svd_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const svd_places p = places_of(job);
    const nbx_tensor *u = out_get(t->call, 0), *vh = out_get(t->call, 2);
    const bool vectors = job->how[HOW_JOB] != 'N';
    char *u_at = vectors && u->numel ? linalg_at(job, u, 2, index) : work, *vh_at = vectors && vh->numel ? linalg_at(job, vh, 2, index) : work;
    int info = 0;
    if (job->k == 0) {
        if (vectors && u->numel) linalg_identity(job, u_at, job->m, (int)linalg_cols(u));
        if (vectors && vh->numel) linalg_identity(job, vh_at, (int)linalg_rows(vh), job->n);
        return 0;
    }
    linalg_load(job, work + p.matrix, arg_tensor(t->call, 0), index, false);
    const int64_t parts = job->type < LAPACK_C ? 1 : 2;
    if (overflows(job, work + p.matrix, (int64_t)job->m * job->n * parts)) {  // gesdd would search without end; ATen gives NaN
        fill_nan(job, linalg_at(job, out_get(t->call, 1), 1, index), job->k);
        if (vectors) fill_nan(job, u_at, (int64_t)linalg_rows(u) * linalg_cols(u) * parts);
        if (vectors) fill_nan(job, vh_at, (int64_t)linalg_rows(vh) * linalg_cols(vh) * parts);
        return 0;
    }
    svd_call(t->lapack, job, work + p.matrix, linalg_at(job, out_get(t->call, 1), 1, index), u_at, vh_at, work + p.work, &job->lwork,
             work + p.rwork, (int *)(work + p.iwork), &info);
    return info;
}

static nbx_status svd_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, svd_one, NULL, &failed, &info);
    if (status != NBX_OK || failed < 0) return status;
    return linalg_fail(c, c->state, failed, "the algorithm did not converge: the matrix is ill-conditioned or not finite");
}

static nbx_status svd(nbx_op_call *c) { return NBX_FORWARD(c, "aten::_linalg_svd", c->args[0], c->args[1], B(true), c->args[2]); }

static nbx_status svdvals(nbx_op_call *c) {
    nbx_value r[NBX_MAX_RESULTS];
    const nbx_value args[] = {c->args[0], B(false), B(false), c->args[1]};
    const nbx_status status = nbx_do_many(c->ctx, "aten::_linalg_svd", 4, args, r, NBX_MAX_RESULTS);
    return status == NBX_OK ? out_tensor(c, 0, r[1].as.tensor) : status;
}

// svd(A, some, compute_uv) -> U, S, V of A = U diag(S) V^H; without vectors U and V are zeros.
static nbx_status plain_svd(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0);
    const bool vectors = arg_bool(c, 2);
    nbx_value r[NBX_MAX_RESULTS];
    nbx_status status = nbx_do_many(ctx, "aten::_linalg_svd", 3, (nbx_value[]){T(a), B(!arg_bool(c, 1)), B(vectors)}, r, NBX_MAX_RESULTS);
    if (status != NBX_OK) return status;
    const nbx_tensor *u = r[0].as.tensor, *v = vectors ? do_unary(ctx, "aten::mH", r[2].as.tensor) : NULL;
    if (!vectors) {
        int64_t shape[NBX_MAX_RANK];
        memcpy(shape, a->shape, sizeof *shape * (size_t)a->rank);
        shape[a->rank - 1] = linalg_rows(a);
        u = do_full(ctx, c->device, (nbx_dtype)a->dtype, a->rank, shape, I(0));
        shape[a->rank - 1] = shape[a->rank - 2] = linalg_cols(a);
        v = do_full(ctx, c->device, (nbx_dtype)a->dtype, a->rank, shape, I(0));
    }
    status = out_tensor(c, 0, u);
    if (status == NBX_OK) status = out_tensor(c, 1, r[1].as.tensor);
    return status == NBX_OK ? out_tensor(c, 2, v) : status;
}

const nbx_op nbx_ops_svd[] = {
    {.name = "aten::_linalg_svd", .infer = infer_svd, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(svd_cpu), .flags = LINALG_FLAGS},
    {.name = "aten::linalg_svd", .composite = svd, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::svd", .composite = plain_svd, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::linalg_svdvals", .composite = svdvals, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
