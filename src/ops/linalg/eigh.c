// Eigenvalues and eigenvectors of symmetric and Hermitian matrices, by divide and conquer (syevd, heevd). Values rise;
// the sign (complex: phase) of a vector is LAPACK's.
#include <string.h>

#include "ops/linalg/linalg.h"

enum { HOW_JOB, HOW_UPLO };  // in job->how

static void eigh_call(const nbx_lapack *lapack, const linalg_job *job, char *a, void *values, char *work, const int *lwork, char *rwork,
                      const int *lrwork, int *iwork, const int *liwork, int *info) {
    const int ld = linalg_ld(job->n);
    if (job->type < LAPACK_C)
        lapack->syevd[job->type](&job->how[HOW_JOB], &job->how[HOW_UPLO], &job->n, a, &ld, values, work, lwork, iwork, liwork, info, 1, 1);
    else
        lapack->heevd[job->type](&job->how[HOW_JOB], &job->how[HOW_UPLO], &job->n, a, &ld, values, work, lwork, rwork, lrwork, iwork,
                                 liwork, info, 1, 1);
}

// The three workspaces; the matrix itself, too, when no vectors are wanted.
static nbx_status lay_out(nbx_op_call *c, linalg_job *job) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    const int all = -1;
    char a[16] = {0}, values[16] = {0}, work[16] = {0}, rwork[16] = {0};
    int iwork = 0, info = 0;
    if (!lapack) return nbx_last_status(c->ctx);
    eigh_call(lapack, job, a, values, work, &all, rwork, &all, &iwork, &all, &info);
    job->lwork = linalg_queried(job->type, work);
    job->lrwork = job->type < LAPACK_C ? 1 : linalg_queried(job->type, rwork);
    job->liwork = iwork < 1 ? 1 : iwork;
    return NBX_OK;
}

typedef struct eigh_places {
    size_t matrix, work, rwork, iwork, bytes;
} eigh_places;

static eigh_places places_of(const linalg_job *job) {
    linalg_job count = {0};
    eigh_places p;
    p.matrix = linalg_work(&count, job->how[HOW_JOB] == 'N' ? (int64_t)job->n * job->n : 0, (size_t)job->width);
    p.work = linalg_work(&count, job->lwork, (size_t)job->width);
    p.rwork = linalg_work(&count, job->lrwork, (size_t)job->width);
    p.iwork = linalg_work(&count, job->liwork, sizeof(int));
    p.bytes = count.work_bytes;
    return p;
}

static nbx_status infer_eigh(nbx_op_call *c) {
    nbx_status status = linalg_need_square(c, 0);
    if (status != NBX_OK) return status;
    const nbx_tensor *a = arg_tensor(c, 0);
    const char *uplo = arg_string(c, 1);
    const char letter = (char)(*uplo & ~0x20);
    if (!*uplo || uplo[1] || (letter != 'L' && letter != 'U'))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "UPLO '%s' is neither L nor U", uplo);
    linalg_job *job = linalg_job_new(c, a);
    if (!job) return nbx_last_status(c->ctx);
    job->how[HOW_JOB] = arg_bool(c, 2) ? 'V' : 'N', job->how[HOW_UPLO] = letter;
    job->flops = (arg_bool(c, 2) ? 9.0 : 4.0 / 3) * job->n * job->n * job->n;
    status = lay_out(c, job);
    if (status != NBX_OK) return status;
    job->work_bytes = places_of(job).bytes;
    status = linalg_out_vector(c, 0, nbx_dtype_to_real((nbx_dtype)a->dtype), job, job->n);
    if (status == NBX_OK) status = arg_bool(c, 2) ? linalg_out(c, 1, (nbx_dtype)a->dtype, job, job->n, job->n) : linalg_out_empty(c, 1, (nbx_dtype)a->dtype);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int eigh_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const eigh_places p = places_of(job);
    int info = 0;
    if (job->n == 0) return 0;
    char *a = job->how[HOW_JOB] == 'V' ? linalg_at(job, out_get(t->call, 1), 2, index) : work + p.matrix;
    linalg_load(job, a, arg_tensor(t->call, 0), index, false);
    eigh_call(t->lapack, job, a, linalg_at(job, out_get(t->call, 0), 1, index), work + p.work, &job->lwork, work + p.rwork, &job->lrwork,
              (int *)(work + p.iwork), &job->liwork, &info);
    return info;
}

static nbx_status eigh_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, eigh_one, NULL, &failed, &info);
    if (status != NBX_OK || failed < 0) return status;
    return linalg_fail(c, c->state, failed, "the algorithm did not converge: the matrix is ill-conditioned or not finite");
}

static nbx_status eigh(nbx_op_call *c) { return NBX_FORWARD(c, "aten::_linalg_eigh", c->args[0], c->args[1], B(true)); }
static nbx_status eigvalsh(nbx_op_call *c) {
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::_linalg_eigh", c->args[0], c->args[1], B(false)));
}

const nbx_op nbx_ops_eigh[] = {
    {.name = "aten::_linalg_eigh", .infer = infer_eigh, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(eigh_cpu), .flags = LINALG_FLAGS},
    {.name = "aten::linalg_eigh", .composite = eigh, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::linalg_eigvalsh", .composite = eigvalsh, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
