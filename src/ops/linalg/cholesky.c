// cholesky: A = L L^H with potrf, of the lower triangle (upper: A = U^H U); and systems and inverses from such factors.
// info counts the first leading minor that is not positive.
#include <string.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/element.h"

enum { HOW_UPLO, HOW_CHECKED };  // in job->how

static char letter(bool upper) { return upper ? 'U' : 'L'; }

// ------------------------------------------------------------------------------------------------------------ cholesky_ex
static nbx_status infer_cholesky(nbx_op_call *c) {
    nbx_status status = linalg_need_square(c, 0);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    job->how[HOW_UPLO] = letter(arg_bool(c, 1)), job->how[HOW_CHECKED] = (char)arg_bool(c, 2);
    job->flops = 1.0 / 3 * job->n * job->n * job->n;
    status = linalg_out(c, 0, (nbx_dtype)arg_tensor(c, 0)->dtype, job, job->n, job->n);
    if (status == NBX_OK) status = linalg_out_scalar(c, 1, NBX_INT32, job);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int cholesky_one(const linalg_task *t, int64_t index, char *work) {
    (void)work;
    const linalg_job *job = t->job;
    int info = 0;
    if (job->n == 0) return 0;
    char *factor = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, factor, arg_tensor(t->call, 0), index, false);
    t->lapack->potrf[job->type](&job->how[HOW_UPLO], &job->n, factor, &job->n, &info, 1);
    if (info > 0) {  // what comes after the failing minor is left as it was only by the unblocked one
        linalg_load(job, factor, arg_tensor(t->call, 0), index, false);
        t->lapack->potf2[job->type](&job->how[HOW_UPLO], &job->n, factor, &job->n, &info, 1);
    }
    linalg_clear_triangle(job, factor, job->n, job->n, job->how[HOW_UPLO] == 'U');
    return info;
}

static nbx_status cholesky_cpu(nbx_op_call *c) {
    const linalg_job *job = c->state;
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, job, cholesky_one, out_get(c, 1), &failed, &info);
    if (status != NBX_OK || failed < 0 || !job->how[HOW_CHECKED]) return status;
    return linalg_fail(c, job, failed, "the matrix is not positive-definite");
}

static nbx_status cholesky(nbx_op_call *c) {
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::linalg_cholesky_ex", c->args[0], c->args[1], B(true)));
}

// The older name takes what has no elements as it is.
static nbx_status plain_cholesky(nbx_op_call *c) {
    if (arg_tensor(c, 0)->numel == 0) return out_tensor(c, 0, NBX_DO(c->ctx, "aten::empty_like", c->args[0]));
    return cholesky(c);
}

// --------------------------------------------------------------------------------------------------------- cholesky_solve
// cholesky_solve(B, L): X of L L^H X = B; batches broadcast.
static nbx_status infer_cholesky_solve(nbx_op_call *c) {
    nbx_status status = linalg_need_matrix(c, 0);
    if (status == NBX_OK) status = linalg_need_square(c, 1);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 1);
    if (status != NBX_OK) return status;
    const nbx_tensor *b = arg_tensor(c, 0), *a = arg_tensor(c, 1);
    if (linalg_rows(b) != linalg_rows(a))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "the factor has %lld columns, but B %lld rows", (long long)linalg_cols(a), (long long)linalg_rows(b));
    linalg_job *job = linalg_job_new(c, b);
    if (!job) return nbx_last_status(c->ctx);
    job->k = job->n, job->n = job->m;
    job->how[HOW_UPLO] = letter(arg_bool(c, 2));
    job->flops = 2.0 * job->n * job->n * job->k;
    linalg_work(job, (int64_t)job->n * job->n, (size_t)job->width);
    status = linalg_broadcast(c, job, a);
    if (status == NBX_OK) status = linalg_out(c, 0, (nbx_dtype)b->dtype, job, job->n, job->k);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int cholesky_solve_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    int info = 0;
    if (job->n == 0 || job->k == 0) return 0;
    char *x = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, x, arg_tensor(t->call, 0), index, false);
    linalg_load(job, work, arg_tensor(t->call, 1), index, false);
    t->lapack->potrs[job->type](&job->how[HOW_UPLO], &job->n, &job->k, work, &job->n, x, &job->n, &info, 1);
    return 0;
}

static nbx_status cholesky_solve_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, cholesky_solve_one, NULL, &failed, &info);
}

// ------------------------------------------------------------------------------------------------------- cholesky_inverse
// cholesky_inverse(L): (L L^H)^-1.
static nbx_status infer_cholesky_inverse(nbx_op_call *c) {
    nbx_status status = linalg_need_square(c, 0);
    linalg_job *job = status == NBX_OK ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    job->how[HOW_UPLO] = letter(arg_bool(c, 1));
    job->flops = 2.0 / 3 * job->n * job->n * job->n;
    status = linalg_out(c, 0, (nbx_dtype)arg_tensor(c, 0)->dtype, job, job->n, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

// The other triangle from the one that LAPACK fills: its conjugate transpose.
static void mirror(const linalg_job *job, char *a, nbx_dtype dtype) {
    const int64_t n = job->n, width = job->width;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j + 1; i < n; i++) {
            char *low = a + (j * n + i) * width, *high = a + (i * n + j) * width;
            char *to = job->how[HOW_UPLO] == 'U' ? low : high;
            const char *from = job->how[HOW_UPLO] == 'U' ? high : low;
            memcpy(to, from, (size_t)width);
            element_set_imag(dtype, to, -element_imag(dtype, from));
        }
    }
}

static int cholesky_inverse_one(const linalg_task *t, int64_t index, char *work) {
    (void)work;
    const linalg_job *job = t->job;
    const nbx_tensor *out = out_get(t->call, 0);
    int info = 0;
    if (job->n == 0) return 0;
    char *a = linalg_at(job, out, 2, index);
    linalg_load(job, a, arg_tensor(t->call, 0), index, false);
    t->lapack->potri[job->type](&job->how[HOW_UPLO], &job->n, a, &job->n, &info, 1);
    mirror(job, a, (nbx_dtype)out->dtype);
    return info;
}

static nbx_status cholesky_inverse_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, cholesky_inverse_one, NULL, &failed, &info);
    return status != NBX_OK || failed < 0 ? status : linalg_fail(c, c->state, failed, "the factor is singular");
}

#define CHOLESKY(NAME, F, FLAGS)                                                                                       \
    {.name = NAME, .infer = infer_##F, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(F##_cpu), .flags = FLAGS}

const nbx_op nbx_ops_cholesky[] = {
    CHOLESKY("aten::linalg_cholesky_ex", cholesky, LINALG_FLAGS),
    CHOLESKY("aten::cholesky_solve", cholesky_solve, NBX_OP_ON_HOST),
    CHOLESKY("aten::cholesky_inverse", cholesky_inverse, NBX_OP_ON_HOST),
    {.name = "aten::linalg_cholesky", .composite = cholesky, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::cholesky", .composite = plain_cholesky, .flags = NBX_OP_EXACT_DTYPE | NBX_OP_PACKED_OUT},
    NBX_OPS_END,
};
