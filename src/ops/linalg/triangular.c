// Systems with triangular matrices, by trsm, which divides by what the diagonal holds, zeros too.
//   linalg_solve_triangular(A, B, upper, left, unitriangular): X of A X = B, or of X A = B
//   triangular_solve(B, A, upper, transpose, unitriangular): X, and a copy of A
#include "ops/linalg/linalg.h"
#include "ops/shape/element.h"

enum { HOW_SIDE, HOW_UPLO, HOW_TRANS, HOW_DIAG };  // in job->how

// Which argument is which: the two operators have them the other way round.
typedef struct triangular_form {
    int8_t a, b, upper, diag;
    bool copies;
} triangular_form;

static const triangular_form *form_of(const nbx_op_call *c) { return c->op->data; }

static nbx_status infer_triangular(nbx_op_call *c) {
    const triangular_form *f = form_of(c);
    nbx_status status = linalg_need_square(c, f->a);
    if (status == NBX_OK) status = linalg_need_matrix(c, f->b);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, f->a, f->b);
    if (status != NBX_OK) return status;
    const nbx_tensor *a = arg_tensor(c, f->a), *b = arg_tensor(c, f->b);
    const nbx_dtype dtype = (nbx_dtype)a->dtype;
    const bool left = f->copies || arg_bool(c, 3);
    const int64_t length = left ? linalg_rows(b) : linalg_cols(b);
    if (length != linalg_cols(a))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "A is %lld x %lld, which does not fit B's %lld", (long long)linalg_rows(a),
                             (long long)linalg_cols(a), (long long)length);
    linalg_job *job = linalg_job_new(c, b);
    if (!job) return nbx_last_status(c->ctx);
    job->k = (int)linalg_cols(a);
    job->how[HOW_SIDE] = left ? 'L' : 'R', job->how[HOW_UPLO] = arg_bool(c, f->upper) ? 'U' : 'L';
    job->how[HOW_TRANS] = f->copies && arg_bool(c, 3) ? 'T' : 'N', job->how[HOW_DIAG] = arg_bool(c, f->diag) ? 'U' : 'N';
    job->flops = (double)job->m * job->n * job->k;
    status = linalg_broadcast(c, job, a);
    if (status == NBX_OK) status = linalg_out(c, 0, dtype, job, job->m, job->n);
    if (status == NBX_OK && f->copies) status = linalg_out(c, 1, dtype, job, job->k, job->k);
    else linalg_work(job, (int64_t)job->k * job->k, (size_t)job->width);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int triangular_one(const linalg_task *t, int64_t index, char *work) {
    const triangular_form *f = form_of(t->call);
    const linalg_job *job = t->job;
    const nbx_tensor *out = out_get(t->call, 0);
    const int ld = linalg_ld(job->m);
    char one[16];
    if (job->k == 0) return 0;
    char *a = f->copies ? linalg_at(job, out_get(t->call, 1), 2, index) : work;
    linalg_load(job, a, arg_tensor(t->call, f->a), index, false);
    if (job->m == 0 || job->n == 0) return 0;
    char *x = linalg_at(job, out, 2, index);
    linalg_load(job, x, arg_tensor(t->call, f->b), index, false);
    element_set_double((nbx_dtype)out->dtype, one, 1);
    t->lapack->trsm[job->type](&job->how[HOW_SIDE], &job->how[HOW_UPLO], &job->how[HOW_TRANS], &job->how[HOW_DIAG], &job->m, &job->n,
                               one, a, &job->k, x, &ld, 1, 1, 1, 1);
    return 0;
}

static nbx_status triangular_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    return linalg_run(c, c->state, triangular_one, NULL, &failed, &info);
}

#define TRIANGULAR(NAME, A_ARG, B_ARG, UPPER, DIAG, COPIES)                                                            \
    {.name = NAME, .infer = infer_triangular, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(triangular_cpu),          \
     .flags = LINALG_FLAGS, .data = &(const triangular_form){A_ARG, B_ARG, UPPER, DIAG, COPIES}}

const nbx_op nbx_ops_triangular[] = {
    TRIANGULAR("aten::linalg_solve_triangular", 0, 1, 2, 4, false),
    TRIANGULAR("aten::triangular_solve", 1, 0, 2, 4, true),
    NBX_OPS_END,
};
