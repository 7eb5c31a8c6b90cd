// LDL factorisations of symmetric and Hermitian matrices: A = L D L^T (L^H), of the lower triangle; D has blocks of 1 or 2.
#include <string.h>

#include "ops/linalg/linalg.h"

enum { HOW_HERMITIAN, HOW_CHECKED };  // in job->how

static bool is_hermitian(const linalg_job *job) { return job->how[HOW_HERMITIAN] && job->type >= LAPACK_C; }

// ---------------------------------------------------------------------------------------------------------------- factor
static nbx_status infer_ldl_factor(nbx_op_call *c) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    nbx_status status = linalg_need_square(c, 0);
    linalg_job *job = status == NBX_OK && lapack ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    const int all = -1, ld = linalg_ld(job->n);
    char a[16] = {0}, work[16] = {0};
    int pivot = 0, info = 0;
    job->how[HOW_HERMITIAN] = (char)arg_bool(c, 1), job->how[HOW_CHECKED] = (char)arg_bool(c, 2);
    job->flops = 1.0 / 3 * job->n * job->n * job->n;
    (is_hermitian(job) ? lapack->hetrf : lapack->sytrf)[job->type]("L", &job->n, a, &ld, &pivot, work, &all, &info, 1);
    job->lwork = linalg_queried(job->type, work);
    linalg_work(job, job->lwork, (size_t)job->width);
    status = linalg_out(c, 0, (nbx_dtype)arg_tensor(c, 0)->dtype, job, job->n, job->n);
    if (status == NBX_OK) status = linalg_out_vector(c, 1, NBX_INT32, job, job->n);
    if (status == NBX_OK) status = linalg_out_scalar(c, 2, NBX_INT32, job);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int ldl_factor_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    int info = 0;
    if (job->n == 0) return 0;
    char *a = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, a, arg_tensor(t->call, 0), index, false);
    linalg_clear_triangle(job, a, job->n, job->n, false);
    (is_hermitian(job) ? t->lapack->hetrf : t->lapack->sytrf)[job->type]("L", &job->n, a, &job->n, (int *)linalg_at(job, out_get(t->call, 1), 1, index), work,
                                                                         &job->lwork, &info, 1);
    return info;
}

static nbx_status ldl_factor_cpu(nbx_op_call *c) {
    const linalg_job *job = c->state;
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, job, ldl_factor_one, out_get(c, 2), &failed, &info);
    return status != NBX_OK || failed < 0 || !job->how[HOW_CHECKED] ? status : linalg_fail(c, job, failed, "the matrix is singular");
}

static nbx_status ldl_factor(nbx_op_call *c) {
    nbx_value r[NBX_MAX_RESULTS];
    const nbx_value args[] = {c->args[0], c->args[1], B(true)};
    nbx_status status = nbx_do_many(c->ctx, "aten::linalg_ldl_factor_ex", 3, args, r, NBX_MAX_RESULTS);
    for (int k = 0; k < 2 && status == NBX_OK; k++) status = out_tensor(c, k, r[k].as.tensor);
    return status;
}

// ----------------------------------------------------------------------------------------------------------------- solve
static nbx_status infer_ldl_solve(nbx_op_call *c) {
    const nbx_tensor *ld = arg_tensor(c, 0), *pivots = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    nbx_status status = linalg_need_square(c, 0);
    if (status == NBX_OK) status = linalg_need_matrix(c, 2);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 2);
    if (status == NBX_OK && pivots->dtype != NBX_INT32) status = nbx_call_fail(c, NBX_ERROR_DTYPE, "pivots must be int32");
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, ld) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    if (linalg_rows(b) != job->n) return nbx_call_fail(c, NBX_ERROR_SHAPE, "LD has %d columns, but B %lld rows", job->n, (long long)linalg_rows(b));
    if (pivots->rank != ld->rank - 1 || !nbx_shape_equal(ld->rank - 1, ld->shape, pivots->rank, pivots->shape))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "pivots do not fit LD");
    job->how[HOW_HERMITIAN] = (char)arg_bool(c, 3);
    job->k = (int)linalg_cols(b);
    job->flops = 2.0 * job->n * job->n * job->k;
    linalg_work(job, (int64_t)job->n * job->n, (size_t)job->width);
    linalg_work(job, job->n, sizeof(int));
    status = linalg_broadcast(c, job, b);
    if (status == NBX_OK) status = linalg_out(c, 0, (nbx_dtype)b->dtype, job, job->n, job->k);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

// A pair of equal negative pivots stands for a block of 2.
static bool pivots_fit(const int *pivots, int n) {
    for (int i = 0; i < n; i++) {
        if (pivots[i] == 0 || pivots[i] > n || pivots[i] < -n) return false;
        if (pivots[i] < 0 && (++i == n || pivots[i] != pivots[i - 1])) return false;
    }
    return true;
}

static int ldl_solve_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const nbx_tensor *from = arg_tensor(t->call, 1);
    linalg_job places = {0};
    int info = 0;
    if (job->n == 0 || job->k == 0) return 0;
    linalg_work(&places, (int64_t)job->n * job->n, (size_t)job->width);
    int *pivots = (int *)(work + places.work_bytes);
    char *x = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, work, arg_tensor(t->call, 0), index, false);
    linalg_load(job, x, arg_tensor(t->call, 2), index, false);
    for (int i = 0; i < job->n; i++) pivots[i] = ((const int *)linalg_at(job, from, 1, index))[i * from->stride[from->rank - 1]];
    if (!pivots_fit(pivots, job->n)) return 1;
    (is_hermitian(job) ? t->lapack->hetrs : t->lapack->sytrs)[job->type]("L", &job->n, &job->k, work, &job->n, pivots, x, &job->n, &info, 1);
    return 0;
}

static nbx_status ldl_solve_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, ldl_solve_one, NULL, &failed, &info);
    return status != NBX_OK || failed < 0 ? status : linalg_fail(c, c->state, failed, "a pivot is outside the matrix");
}

#define LDL(NAME, F) {.name = NAME, .infer = infer_##F, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(F##_cpu), .flags = LINALG_FLAGS}

const nbx_op nbx_ops_ldl[] = {
    LDL("aten::linalg_ldl_factor_ex", ldl_factor),
    LDL("aten::linalg_ldl_solve", ldl_solve),
    {.name = "aten::linalg_ldl_factor", .composite = ldl_factor, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
