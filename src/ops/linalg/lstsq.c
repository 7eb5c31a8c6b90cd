// linalg_lstsq(A, B, rcond, driver): X that makes |A X - B| least, by LAPACK's gels, gelsy (the default), gelsd or gelss.
//   solution [..., n, k]; residuals, where A has full rank, more rows than columns, and the driver is not gelsy;
//   rank of A's batch (not of gels); singular values (of gelsd and gelss). What is not there has shape [0].
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/geometry.h"

enum { HOW_DRIVER };                          // in job->how: the last letter of gelsy, gelsd, gelss; n for gels
enum { ARG_A, ARG_B, ARG_RCOND, ARG_DRIVER };

typedef struct lstsq_run {
    linalg_job job;          // must be first
    char rcond[8];           // of the real dtype
    const nbx_tensor *b;     // a matrix
    nbx_tensor *x;           // [batch, k, max(m, n)]: columns of B, then of X and residuals
    nbx_tensor *rank, *values;
} lstsq_run;

typedef struct lstsq_places {
    size_t matrix, side, work, rwork, iwork, bytes;
} lstsq_places;

static int longest(const linalg_job *job) { return job->m > job->n ? job->m : job->n; }
static int least(const linalg_job *job) { return job->m < job->n ? job->m : job->n; }

static void lstsq_call(const nbx_lapack *l, const lstsq_run *r, void *a, void *b, void *s, int *rank, void *work, const int *lwork,
                       void *rwork, int *iwork, int *info) {
    const linalg_job *j = &r->job;
    const int t = (int)j->type, lda = linalg_ld(j->m), ldb = linalg_ld(longest(j)), *m = &j->m, *n = &j->n, *k = &j->k;
    const bool complex = t >= LAPACK_C;
    switch (j->how[HOW_DRIVER]) {
    case 'n': l->gels[t]("N", m, n, k, a, &lda, b, &ldb, work, lwork, info, 1); break;
    case 'y':
        if (complex) l->gelsy_complex[t](m, n, k, a, &lda, b, &ldb, iwork, r->rcond, rank, work, lwork, rwork, info);
        else l->gelsy[t](m, n, k, a, &lda, b, &ldb, iwork, r->rcond, rank, work, lwork, info);
        break;
    case 'd':
        if (complex) l->gelsd_complex[t](m, n, k, a, &lda, b, &ldb, s, r->rcond, rank, work, lwork, rwork, iwork, info);
        else l->gelsd[t](m, n, k, a, &lda, b, &ldb, s, r->rcond, rank, work, lwork, iwork, info);
        break;
    default:
        if (complex) l->gelss_complex[t](m, n, k, a, &lda, b, &ldb, s, r->rcond, rank, work, lwork, rwork, info);
        else l->gelss[t](m, n, k, a, &lda, b, &ldb, s, r->rcond, rank, work, lwork, info);
    }
}

static nbx_status query(nbx_op_call *c, lstsq_run *r) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    const int all = -1;
    char none[16] = {0}, work[16] = {0}, rwork[16] = {0};
    int rank = 0, iwork[2] = {0}, info = 0;
    if (!lapack) return nbx_last_status(c->ctx);
    lstsq_call(lapack, r, none, none, none, &rank, work, &all, rwork, iwork, &info);
    linalg_job *job = &r->job;
    const bool divides = job->how[HOW_DRIVER] == 'd';
    job->lwork = linalg_queried(job->type, work);
    job->lrwork = divides ? linalg_queried(job->type, rwork) : job->how[HOW_DRIVER] == 'y' ? 2 * job->n : 5 * least(job);
    job->liwork = divides && iwork[0] > job->n ? iwork[0] : job->n;
    return NBX_OK;
}

static lstsq_places places_of(const linalg_job *job) {
    linalg_job count = {0};
    lstsq_places p;
    p.matrix = linalg_work(&count, (int64_t)job->m * job->n, (size_t)job->width);
    p.side = linalg_work(&count, (int64_t)job->m * job->k, (size_t)job->width);
    p.work = linalg_work(&count, job->lwork, (size_t)job->width);
    p.rwork = linalg_work(&count, job->type < LAPACK_C ? 0 : job->lrwork, (size_t)job->width);
    p.iwork = linalg_work(&count, job->liwork, sizeof(int));
    p.bytes = count.work_bytes;
    return p;
}

static int lstsq_one(const linalg_task *t, int64_t index, char *work) {
    const lstsq_run *r = (const lstsq_run *)t->job;
    const linalg_job *job = t->job;
    const lstsq_places p = places_of(job);
    const size_t column = (size_t)job->m * (size_t)job->width, step = (size_t)longest(job) * (size_t)job->width;
    int info = 0, rank = 0;
    if (r->rank) *(int64_t *)linalg_at(job, r->rank, 0, index) = 0;
    if (!r->x->numel) return 0;
    char *x = linalg_at(job, r->x, 2, index), *s = r->values && r->values->numel ? linalg_at(job, r->values, 1, index) : work;
    memset(x, 0, step * (size_t)job->k);
    if (column) {
        linalg_load(job, work + p.side, r->b, index, false);
        for (int64_t j = 0; j < job->k; j++) memcpy(x + (size_t)j * step, work + p.side + (size_t)j * column, column);
    }
    if (job->m && job->n) {
        linalg_load(job, work + p.matrix, arg_tensor(t->call, ARG_A), index, false);
        memset(work + p.iwork, 0, (size_t)job->liwork * sizeof(int));
        lstsq_call(t->lapack, r, work + p.matrix, x, s, &rank, work + p.work, &job->lwork, work + p.rwork, (int *)(work + p.iwork), &info);
    }
    if (r->rank) *(int64_t *)linalg_at(job, r->rank, 0, index) = rank;
    return info;
}

static nbx_status choose_driver(nbx_op_call *c, linalg_job *job) {
    static const char *const names[] = {"gels", "gelsy", "gelsd", "gelss"};
    const char *name = arg_string(c, ARG_DRIVER);
    job->how[HOW_DRIVER] = 'y';
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        job->how[HOW_DRIVER] = "nyds"[i];
        return NBX_OK;
    }
    return name ? nbx_call_fail(c, NBX_ERROR_ARGUMENT, "driver '%s' is not gels, gelsy, gelsd or gelss", name) : NBX_OK;
}

static nbx_status check(nbx_op_call *c, bool *vector) {
    nbx_status status = linalg_need_matrix(c, ARG_A);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, ARG_A, ARG_B);
    if (status != NBX_OK) return status;
    const nbx_tensor *a = arg_tensor(c, ARG_A), *b = arg_tensor(c, ARG_B);
    if (b->rank < 1 || b->rank > a->rank || b->rank < a->rank - 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "b must have the dims of self, or one less; found %d for %d", b->rank, a->rank);
    *vector = b->rank == 1 || (b->rank == a->rank - 1 && nbx_shape_equal(b->rank, b->shape, a->rank - 1, a->shape));
    if (!*vector && b->rank < a->rank) return nbx_call_fail(c, NBX_ERROR_SHAPE, "b has neither the dims of self nor is it a vector for each matrix");
    const int64_t rows = b->shape[b->rank - (*vector ? 1 : 2)];
    if (rows == linalg_rows(a) && (*vector || linalg_cols(b) <= INT32_MAX)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "self has %lld rows, b %lld", (long long)linalg_rows(a), (long long)rows);
}

// The tensors that the loop fills.
static nbx_status allocate(nbx_op_call *c, lstsq_run *r) {
    const nbx_tensor *a = arg_tensor(c, ARG_A);
    const nbx_dtype dtype = (nbx_dtype)a->dtype;
    const char driver = r->job.how[HOW_DRIVER];
    int64_t shape[NBX_MAX_RANK];
    const int rank = r->job.batch_rank;
    memcpy(shape, r->job.batch, sizeof *shape * (size_t)rank);
    shape[rank] = r->job.k, shape[rank + 1] = longest(&r->job);
    r->x = nbx_new(c->ctx, c->device, dtype, rank + 2, shape);
    memcpy(shape, a->shape, sizeof *shape * (size_t)(a->rank - 2));
    shape[a->rank - 2] = least(&r->job);
    if (driver != 'n') r->rank = nbx_new(c->ctx, c->device, NBX_INT64, a->rank - 2, shape);
    if (driver == 'd' || driver == 's') r->values = nbx_new(c->ctx, c->device, nbx_dtype_to_real(dtype), a->rank - 1, shape);
    return nbx_last_status(c->ctx);
}

static bool has_residuals(const lstsq_run *r) {
    const char driver = r->job.how[HOW_DRIVER];
    if (r->job.m <= r->job.n || driver == 'y') return false;
    for (int64_t i = 0; driver != 'n' && i < r->rank->numel; i++)
        if (((const int64_t *)nbx_data(r->rank))[i] != r->job.n) return false;
    return true;
}

static nbx_tensor *or_empty(nbx_op_call *c, const nbx_tensor *t, nbx_dtype dtype) {
    const int64_t none = 0;
    return t ? (nbx_tensor *)t : nbx_new(c->ctx, c->device, dtype, 1, &none);
}

static nbx_status hand_over(nbx_op_call *c, const lstsq_run *r, bool vector) {
    nbx_context *ctx = c->ctx;
    const nbx_dtype real = nbx_dtype_to_real((nbx_dtype)r->x->dtype);
    const nbx_tensor *x = do_transpose(ctx, r->x, -2, -1), *residuals = NULL;
    if (has_residuals(r)) {
        const int64_t rows = -2;
        const nbx_tensor *size = do_unary(ctx, "aten::abs", nbx_narrowed(ctx, x, -2, r->job.n, r->job.m - r->job.n));
        residuals = do_sum(ctx, do_mul(ctx, size, size), 1, &rows, false);
    }
    const nbx_tensor *solution = nbx_narrowed(ctx, x, -2, 0, r->job.n);
    nbx_status status = out_tensor(c, 0, vector ? do_squeeze(ctx, solution, -1) : solution);
    if (status == NBX_OK) status = out_tensor(c, 1, or_empty(c, residuals, real));
    if (status == NBX_OK) status = out_tensor(c, 2, or_empty(c, r->rank, NBX_INT64));
    return status == NBX_OK ? out_tensor(c, 3, or_empty(c, r->values, real)) : status;
}

static nbx_status lstsq(nbx_op_call *c) {
    bool vector = false;
    nbx_status status = check(c, &vector);
    lstsq_run *r = status == NBX_OK ? nbx_call_state(c, sizeof *r) : NULL;
    if (!r) return nbx_last_status(c->ctx);
    const nbx_tensor *a = arg_tensor(c, ARG_A), *b = arg_tensor(c, ARG_B);
    const double eps = nbx_dtype_to_real((nbx_dtype)a->dtype) == NBX_FLOAT32 ? 0x1p-23 : 0x1p-52;
    linalg_job *job = &r->job;
    job->type = lapack_type_of((nbx_dtype)a->dtype), job->width = (int)nbx_dtype_size((nbx_dtype)a->dtype);
    job->m = (int)linalg_rows(a), job->n = (int)linalg_cols(a);
    job->batch_rank = a->rank - 2;
    memcpy(job->batch, a->shape, sizeof *job->batch * (size_t)job->batch_rank);
    r->b = vector ? do_unsqueeze(c->ctx, b, -1) : b;
    if (!r->b) return nbx_last_status(c->ctx);
    job->k = (int)linalg_cols(r->b);
    job->flops = 2.0 * job->m * job->n * (least(job) + job->k);
    const double rcond = arg_float_or(c, ARG_RCOND, eps * longest(job));
    const float narrow = (float)rcond;
    if (eps == 0x1p-23) memcpy(r->rcond, &narrow, sizeof narrow);
    else memcpy(r->rcond, &rcond, sizeof rcond);
    status = choose_driver(c, job);
    if (status == NBX_OK) status = linalg_broadcast(c, job, r->b);
    if (status == NBX_OK) status = query(c, r);
    if (status == NBX_OK) status = allocate(c, r);
    job->work_bytes = places_of(job).bytes;
    if (status == NBX_OK) status = linalg_ready(c, job);
    if (status != NBX_OK) return status;
    c->scratch = nbx_scope_alloc(c->ctx, c->scratch_bytes);
    if (!c->scratch) return nbx_last_status(c->ctx);
    c->pool = nbx_shape_equal(job->batch_rank, job->batch, a->rank - 2, a->shape) ? c->ctx->pool : NULL;  // ranks are written once
    int64_t failed;
    int info;
    status = linalg_run(c, job, lstsq_one, NULL, &failed, &info);
    if (status == NBX_OK && failed >= 0) status = linalg_fail(c, job, failed, "the input has no full rank, or its singular values did not converge");
    return status == NBX_OK ? hand_over(c, r, vector) : status;
}

const nbx_op nbx_ops_lstsq[] = {
    {.name = "aten::linalg_lstsq", .composite = lstsq, .flags = NBX_OP_READS_DATA | NBX_OP_ON_HOST},
    NBX_OPS_END,
};
