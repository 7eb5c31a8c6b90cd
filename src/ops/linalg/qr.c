// Householder factorisations: geqrf gives R and the reflectors, orgqr multiplies reflectors out.
//   linalg_qr(A, mode): A = Q R; reduced: Q [m, min(m, n)]; complete: Q [m, m]; r: R as of reduced, Q of shape [0]
#include <string.h>

#include "ops/linalg/linalg.h"

enum { HOW_MODE };  // in job->how: 'r' reduced, 'c' complete, 'n' no Q

static int least(const linalg_job *job) { return job->m < job->n ? job->m : job->n; }

// The workspaces of geqrf and orgqr; query says which are wanted. LAPACK answers without looking at the matrices.
static nbx_status query(nbx_op_call *c, linalg_job *job, bool factor, int columns, int reflectors) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    const int all = -1, ld = linalg_ld(job->m);
    char work[16] = {0};
    int info = 0;
    if (!lapack) return nbx_last_status(c->ctx);
    job->lwork = 1;
    if (factor) {
        lapack->geqrf[job->type](&job->m, &job->n, work, &ld, work, work, &all, &info);
        job->lwork = linalg_queried(job->type, work);
    }
    if (columns > 0) {
        lapack->orgqr[job->type](&job->m, &columns, &reflectors, work, &ld, work, work, &all, &info);
        const int length = linalg_queried(job->type, work);
        if (length > job->lwork) job->lwork = length;
    }
    return NBX_OK;
}

// ----------------------------------------------------------------------------------------------------------------- geqrf
static nbx_status infer_geqrf(nbx_op_call *c) {
    nbx_status status = linalg_need_matrix(c, 0);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    job->flops = 2.0 * job->m * job->n * least(job);
    status = query(c, job, true, 0, 0);
    linalg_work(job, job->lwork, (size_t)job->width);
    if (status == NBX_OK) status = linalg_out(c, 0, dtype, job, job->m, job->n);
    if (status == NBX_OK) status = linalg_out_vector(c, 1, dtype, job, least(job));
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int geqrf_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    int info = 0;
    if (least(job) == 0) return 0;
    char *a = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, a, arg_tensor(t->call, 0), index, false);
    t->lapack->geqrf[job->type](&job->m, &job->n, a, &job->m, linalg_at(job, out_get(t->call, 1), 1, index), work, &job->lwork, &info);
    return info;
}

static nbx_status geqrf_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, geqrf_one, NULL, &failed, &info);
}

// -------------------------------------------------------------------------------------------------------------------- qr
static nbx_status infer_qr(nbx_op_call *c) {
    const char *mode = arg_string(c, 1);
    nbx_status status = linalg_need_matrix(c, 0);
    if (status == NBX_OK && strcmp(mode, "reduced") && strcmp(mode, "complete") && strcmp(mode, "r"))
        status = nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode '%s' is not reduced, complete or r", mode);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    const bool complete = *mode == 'c';
    job->how[HOW_MODE] = mode[1] ? *mode : 'n';
    job->k = complete ? job->m : least(job);
    job->flops = 2.0 * job->m * job->n * least(job) + (job->how[HOW_MODE] == 'n' ? 0 : 2.0 * job->m * job->k * least(job));
    status = query(c, job, true, job->how[HOW_MODE] == 'n' ? 0 : job->k, least(job));
    linalg_work(job, (int64_t)job->m * (job->n > job->k ? job->n : job->k), (size_t)job->width);
    linalg_work(job, least(job), (size_t)job->width);
    linalg_work(job, job->lwork, (size_t)job->width);
    if (status == NBX_OK) status = job->how[HOW_MODE] == 'n' ? linalg_out_empty(c, 0, dtype) : linalg_out(c, 0, dtype, job, job->m, job->k);
    if (status == NBX_OK) status = linalg_out(c, 1, dtype, job, job->k, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int qr_one(const linalg_task *t, int64_t index, char *work) {
    linalg_job places = {0};  // where the three parts of the work lie
    const linalg_job *job = t->job;
    const int rank = least(job);
    char *a = work + linalg_work(&places, (int64_t)job->m * (job->n > job->k ? job->n : job->k), (size_t)job->width);
    char *tau = work + linalg_work(&places, rank, (size_t)job->width), *rest = work + places.work_bytes;
    const nbx_tensor *q = out_get(t->call, 0), *r = out_get(t->call, 1);
    int info = 0;
    if (rank == 0) {
        if (job->how[HOW_MODE] != 'n' && q->numel) linalg_identity(job, linalg_at(job, q, 2, index), job->m, job->k);
        return 0;
    }
    linalg_load(job, a, arg_tensor(t->call, 0), index, false);
    t->lapack->geqrf[job->type](&job->m, &job->n, a, &job->m, tau, rest, &job->lwork, &info);
    char *upper = linalg_at(job, r, 2, index);
    for (int64_t j = 0; j < job->n; j++)
        memcpy(upper + j * job->k * job->width, a + j * job->m * job->width, (size_t)job->k * (size_t)job->width);
    linalg_clear_triangle(job, upper, job->k, job->n, true);
    if (job->how[HOW_MODE] == 'n') return info;
    t->lapack->orgqr[job->type](&job->m, &job->k, &rank, a, &job->m, tau, rest, &job->lwork, &info);
    memcpy(linalg_at(job, q, 2, index), a, (size_t)job->m * (size_t)job->k * (size_t)job->width);
    return info;
}

static nbx_status qr_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, qr_one, NULL, &failed, &info);
}

// --------------------------------------------------------------------------------------------------- householder_product
// The first n columns of H1 H2 ... Hk, whose vectors lie below the diagonal of input [m, n] and factors in tau [k].
static nbx_status infer_householder(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *tau = arg_tensor(c, 1);
    nbx_status status = linalg_need_matrix(c, 0);
    if (status != NBX_OK) return status;
    if (linalg_rows(a) < linalg_cols(a)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "input must have at least as many rows as columns");
    if (tau->rank != a->rank - 1 || !nbx_shape_equal(a->rank - 2, a->shape, tau->rank - 1, tau->shape))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "tau must have the batch of input and one more dim");
    if (tau->shape[tau->rank - 1] > linalg_cols(a)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more factors than columns");
    status = linalg_need_same_dtype(c, 0, 1);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, a) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    job->k = (int)tau->shape[tau->rank - 1];
    job->flops = 4.0 * job->m * job->n * job->k;
    status = query(c, job, false, job->n, job->k);
    linalg_work(job, job->k, (size_t)job->width);
    linalg_work(job, job->lwork, (size_t)job->width);
    if (status == NBX_OK) status = linalg_out(c, 0, (nbx_dtype)a->dtype, job, job->m, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int householder_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const nbx_tensor *tau = arg_tensor(t->call, 1);
    int info = 0;
    if (job->n == 0) return 0;
    linalg_job places = {0};
    linalg_work(&places, job->k, (size_t)job->width);
    char *q = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, q, arg_tensor(t->call, 0), index, false);
    const char *from = job->k ? linalg_at(job, tau, 1, index) : NULL;
    for (int64_t i = 0; i < job->k; i++)
        memcpy(work + i * job->width, from + i * tau->stride[tau->rank - 1] * job->width, (size_t)job->width);
    t->lapack->orgqr[job->type](&job->m, &job->n, &job->k, q, &job->m, work, work + places.work_bytes, &job->lwork, &info);
    return info;
}

static nbx_status householder_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, householder_one, NULL, &failed, &info);
}

// --------------------------------------------------------------------------------------------------------------- ormqr
// ormqr(A, tau, C, left, transpose): Q C or C Q, with Q = H1 H2 ... Hk or its adjoint.
static nbx_status infer_ormqr(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *tau = arg_tensor(c, 1), *other = arg_tensor(c, 2);
    const nbx_lapack *lapack = nbx_lapack_of(c);
    const bool left = arg_bool(c, 3), transpose = arg_bool(c, 4);
    nbx_status status = lapack ? linalg_need_matrix(c, 0) : nbx_last_status(c->ctx);
    if (status == NBX_OK) status = linalg_need_matrix(c, 2);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 1);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 2);
    if (status != NBX_OK) return status;
    const int64_t side = left ? linalg_rows(other) : linalg_cols(other);
    if (tau->rank != a->rank - 1 || other->rank != a->rank || !nbx_shape_equal(a->rank - 2, a->shape, tau->rank - 1, tau->shape) ||
        !nbx_shape_equal(a->rank - 2, a->shape, other->rank - 2, other->shape))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "input, tau and other must have one batch");
    if (tau->shape[tau->rank - 1] > linalg_cols(a)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more factors than columns");
    if (tau->shape[tau->rank - 1] > side || linalg_rows(a) != side)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "the reflectors have %lld rows, other %lld", (long long)linalg_rows(a), (long long)side);
    linalg_job *job = linalg_job_new(c, other);
    if (!job) return nbx_last_status(c->ctx);
    job->k = (int)tau->shape[tau->rank - 1];
    job->how[0] = left ? 'L' : 'R', job->how[1] = transpose ? job->type < LAPACK_C ? 'T' : 'C' : 'N';
    job->flops = 4.0 * job->m * job->n * job->k;
    const int all = -1, lda = linalg_ld((int)side), ldc = linalg_ld(job->m);
    char work[16] = {0};
    int info = 0;
    lapack->ormqr[job->type](&job->how[0], &job->how[1], &job->m, &job->n, &job->k, work, &lda, work, work, &ldc, work, &all, &info, 1, 1);
    job->lwork = linalg_queried(job->type, work);
    linalg_work(job, side * linalg_cols(a), (size_t)job->width);
    linalg_work(job, job->k, (size_t)job->width);
    linalg_work(job, job->lwork, (size_t)job->width);
    status = linalg_out(c, 0, (nbx_dtype)a->dtype, job, job->m, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int ormqr_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const nbx_tensor *from = arg_tensor(t->call, 0), *tau = arg_tensor(t->call, 1);
    linalg_job places = {0};
    int info = 0;
    if (job->m == 0 || job->n == 0) return 0;
    const int lda = linalg_ld((int)linalg_rows(from));
    char *a = work + linalg_work(&places, linalg_rows(from) * linalg_cols(from), (size_t)job->width);
    char *factors = work + linalg_work(&places, job->k, (size_t)job->width), *x = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, x, arg_tensor(t->call, 2), index, false);
    if (job->k == 0) return 0;
    linalg_load(job, a, from, index, false);
    for (int64_t i = 0; i < job->k; i++)
        memcpy(factors + i * job->width, linalg_at(job, tau, 1, index) + i * tau->stride[tau->rank - 1] * job->width, (size_t)job->width);
    t->lapack->ormqr[job->type](&job->how[0], &job->how[1], &job->m, &job->n, &job->k, a, &lda, factors, x, &job->m, work + places.work_bytes, &job->lwork, &info, 1, 1);
    return info;
}

static nbx_status ormqr_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, ormqr_one, NULL, &failed, &info);
}

static nbx_status plain_qr(nbx_op_call *c) { return NBX_FORWARD(c, "aten::linalg_qr", c->args[0], ((nbx_value){.kind = NBX_KIND_STRING, .as.string = arg_bool(c, 1) ? "reduced" : "complete"})); }

#define QR(NAME, F, FLAGS) {.name = NAME, .infer = infer_##F, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(F##_cpu), .flags = FLAGS}

const nbx_op nbx_ops_qr[] = {
    QR("aten::linalg_qr", qr, LINALG_FLAGS),
    QR("aten::geqrf", geqrf, NBX_OP_ON_HOST),
    QR("aten::linalg_householder_product", householder, NBX_OP_ON_HOST),
    QR("aten::ormqr", ormqr, LINALG_FLAGS),
    {.name = "aten::qr", .composite = plain_qr, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
