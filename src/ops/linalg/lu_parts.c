// What is done with a finished LU factorisation: its three factors, and systems of equations.
//   lu_unpack(LU, pivots) -> P [m, m], L [m, k], U [k, n] with k = min(m, n); those not asked for have shape [0]; nothing is read of an LU without elements
//   lu_solve(LU, pivots, B): X of A X = B; right: X A = B; adjoint: of A^H
#include <string.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/element.h"

enum { HOW_TRANS, HOW_RIGHT, HOW_CONJUGATE };  // in job->how

static nbx_status need_pivots(nbx_op_call *c, int arg) {
    const nbx_tensor *pivots = arg_tensor(c, arg);
    if (pivots->dtype == NBX_INT32) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "pivots must be int32, found %s", nbx_dtype_name((nbx_dtype)pivots->dtype));
}

static int pivot_at(const linalg_task *t, int64_t index, int64_t i) {
    const nbx_tensor *pivots = arg_tensor(t->call, 1);
    return ((const int *)linalg_at(t->job, pivots, 1, index))[i * pivots->stride[pivots->rank - 1]];
}

// ---------------------------------------------------------------------------------------------------------------- unpack
static int least(const linalg_job *job) { return job->m < job->n ? job->m : job->n; }

static nbx_status part_out(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, bool wanted, int64_t rows, int64_t cols) {
    int64_t shape[NBX_MAX_RANK];
    if (!wanted) return linalg_out_empty(c, k, dtype);
    memcpy(shape, job->batch, sizeof *shape * (size_t)job->batch_rank);
    shape[job->batch_rank] = rows, shape[job->batch_rank + 1] = cols;
    return out_new(c, k, dtype, job->batch_rank + 2, shape, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status infer_unpack(nbx_op_call *c) {
    const nbx_tensor *lu = arg_tensor(c, 0), *pivots = arg_tensor(c, 1);
    const bool factors = arg_bool(c, 2), order = arg_bool(c, 3);
    const nbx_dtype dtype = (nbx_dtype)lu->dtype;
    if (lu->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "LU_data must have at least 2 dims");
    nbx_status status = order ? need_pivots(c, 1) : NBX_OK;
    if (status == NBX_OK) status = linalg_need_matrix(c, 0);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, lu) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    if (order && lu->numel && (pivots->rank != lu->rank - 1 || pivots->shape[pivots->rank - 1] != least(job) || !nbx_shape_equal(lu->rank - 2, lu->shape, pivots->rank - 1, pivots->shape)))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "LU_pivots do not fit LU_data");
    linalg_work(job, job->m, sizeof(int));
    status = part_out(c, 0, dtype, job, order, job->m, job->m);
    if (status == NBX_OK) status = part_out(c, 1, dtype, job, factors, job->m, least(job));
    if (status == NBX_OK) status = part_out(c, 2, dtype, job, factors, least(job), job->n);
    if (status == NBX_OK) status = linalg_ready(c, job);
    if (c->device.type != NBX_CPU) c->scratch_bytes = (size_t)(job->count * job->m) * sizeof(int);  // an order for each matrix
    return status;
}

static void one_at(const linalg_job *job, char *at) { element_set_double(linalg_dtype(job), at, 1); }

// The matrix whose row exchanges the pivots list: A = P L U.
static int permutation(const linalg_task *t, int64_t index, int *order) {
    const linalg_job *job = t->job;
    const int64_t m = job->m;
    char *to = linalg_at(job, out_get(t->call, 0), 2, index);
    for (int i = 0; i < m; i++) order[i] = i;
    for (int64_t i = 0; i < least(job); i++) {
        const int other = pivot_at(t, index, i) - 1;
        if (other < 0 || other >= m) return 1;
        const int held = order[i];
        order[i] = order[other], order[other] = held;
    }
    memset(to, 0, (size_t)(m * m * job->width));
    for (int64_t i = 0; i < m; i++) one_at(job, to + (order[i] * m + i) * job->width);
    return 0;
}

static int unpack_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const nbx_tensor *lu = arg_tensor(t->call, 0);
    const int64_t k = least(job), width = job->width, down = lu->stride[lu->rank - 2] * width, along = lu->stride[lu->rank - 1] * width;
    if (arg_bool(t->call, 3) && job->m && permutation(t, index, (int *)work)) return 1;
    if (!arg_bool(t->call, 2) || k == 0) return 0;
    const char *from = linalg_at(job, lu, 2, index);
    char *l = linalg_at(job, out_get(t->call, 1), 2, index), *u = linalg_at(job, out_get(t->call, 2), 2, index);
    memset(l, 0, (size_t)(job->m * k * width));
    memset(u, 0, (size_t)(k * job->n * width));
    for (int64_t i = 0; i < job->m; i++) {
        for (int64_t j = 0; j < i && j < k; j++) memcpy(l + (i * k + j) * width, from + i * down + j * along, (size_t)width);
        if (i < k) one_at(job, l + (i * k + i) * width);
        for (int64_t j = i; j < job->n && i < k; j++) memcpy(u + (i * job->n + j) * width, from + i * down + j * along, (size_t)width);
    }
    return 0;
}

static nbx_status unpack_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, unpack_one, NULL, &failed, &info);
    return status != NBX_OK || failed < 0 ? status : linalg_fail(c, c->state, failed, "a pivot is outside the matrix");
}

static nbx_status lu(nbx_op_call *c) {
    nbx_value r[NBX_MAX_RESULTS];
    const nbx_status status = nbx_do_many(c->ctx, "aten::linalg_lu_factor_ex", 2, c->args, r, NBX_MAX_RESULTS);
    return status == NBX_OK ? NBX_FORWARD(c, "aten::lu_unpack", r[0], r[1]) : status;
}

// ----------------------------------------------------------------------------------------------------------------- solve
static nbx_status infer_solve(nbx_op_call *c) {
    const nbx_tensor *lu = arg_tensor(c, 0), *pivots = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    const bool left = arg_bool(c, 3), adjoint = arg_bool(c, 4);
    nbx_status status = linalg_need_square(c, 0);
    if (status == NBX_OK) status = linalg_need_matrix(c, 2);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 2);
    if (status == NBX_OK) status = need_pivots(c, 1);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, lu) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    const int64_t length = left ? linalg_rows(b) : linalg_cols(b), sides = left ? linalg_cols(b) : linalg_rows(b);
    if (length != job->n) return nbx_call_fail(c, NBX_ERROR_SHAPE, "LU has %d columns, but B %lld", job->n, (long long)length);
    if (pivots->rank != lu->rank - 1 || pivots->shape[pivots->rank - 1] != job->n || !nbx_shape_equal(lu->rank - 2, lu->shape, pivots->rank - 1, pivots->shape))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "pivots do not fit LU");
    // X A = B is A^T X^T = B^T; X A^H = B is A conj(X^T) = conj(B^T).
    job->how[HOW_TRANS] = left ? adjoint ? 'C' : 'N' : adjoint ? 'N' : 'T';
    job->how[HOW_RIGHT] = (char)!left, job->how[HOW_CONJUGATE] = (char)(!left && adjoint);
    job->k = (int)sides;
    job->flops = 2.0 * job->n * job->n * job->k;
    linalg_work(job, (int64_t)job->n * job->n, (size_t)job->width);
    linalg_work(job, job->n, sizeof(int));
    linalg_work(job, (int64_t)job->n * job->k, (size_t)job->width);
    status = linalg_broadcast(c, job, b);
    if (status != NBX_OK) return status;
    status = left ? linalg_out(c, 0, (nbx_dtype)b->dtype, job, job->n, sides) : part_out(c, 0, (nbx_dtype)b->dtype, job, true, sides, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static void conjugate(const linalg_job *job, char *x) {
    const nbx_dtype dtype = linalg_dtype(job);
    if (!nbx_dtype_is_complex(dtype) || !job->how[HOW_CONJUGATE]) return;
    for (int64_t i = 0; i < (int64_t)job->n * job->k; i++) element_set_imag(dtype, x + i * job->width, -element_imag(dtype, x + i * job->width));
}

static int lu_solve_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    linalg_job places = {0};
    const bool right = job->how[HOW_RIGHT];
    int info = 0;
    if (job->n == 0 || job->k == 0) return 0;
    char *lu = work + linalg_work(&places, (int64_t)job->n * job->n, (size_t)job->width);
    int *pivots = (int *)(work + linalg_work(&places, job->n, sizeof(int)));
    char *x = work + places.work_bytes;
    linalg_load(job, lu, arg_tensor(t->call, 0), index, false);
    for (int i = 0; i < job->n; i++) {
        pivots[i] = pivot_at(t, index, i);
        if (pivots[i] < 1 || pivots[i] > job->n) return 1;
    }
    linalg_load(job, x, arg_tensor(t->call, 2), index, right);
    conjugate(job, x);
    t->lapack->getrs[job->type](&job->how[HOW_TRANS], &job->n, &job->k, lu, &job->n, pivots, x, &job->n, &info, 1);
    conjugate(job, x);
    linalg_store(job, out_get(t->call, 0), index, x, right);
    return 0;
}

static nbx_status lu_solve_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, lu_solve_one, NULL, &failed, &info);
    return status != NBX_OK || failed < 0 ? status : linalg_fail(c, c->state, failed, "a pivot is outside the matrix");
}

static nbx_status plain_lu_solve(nbx_op_call *c) { return NBX_FORWARD(c, "aten::linalg_lu_solve", c->args[1], c->args[2], c->args[0]); }

const nbx_op nbx_ops_lu_parts[] = {
    {.name = "aten::lu_unpack", .infer = infer_unpack, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(unpack_cpu), .flags = LINALG_FLAGS},
    {.name = "aten::linalg_lu_solve", .infer = infer_solve, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(lu_solve_cpu), .flags = LINALG_FLAGS},
    {.name = "aten::linalg_lu", .composite = lu, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::lu_solve", .composite = plain_lu_solve, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};
