// Eigenvalues and eigenvectors of any square matrix (geev). Results are complex; the length of a vector is 1, its phase LAPACK's.
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/element.h"

enum { HOW_JOB };  // in job->how: V or N

// Of one thread; a real matrix has parts of its eigenvalues and vectors of its own.
typedef struct eig_places {
    size_t matrix, values, vectors, work, rwork, bytes;
} eig_places;

static eig_places places_of(const linalg_job *job) {
    linalg_job count = {0};
    const int64_t n = job->n, real = job->type < LAPACK_C;
    eig_places p;
    p.matrix = linalg_work(&count, n * n, (size_t)job->width);
    p.values = linalg_work(&count, 2 * n, (size_t)job->width);
    p.vectors = linalg_work(&count, real && job->how[HOW_JOB] == 'V' ? n * n : 1, (size_t)job->width);
    p.work = linalg_work(&count, job->lwork, (size_t)job->width);
    p.rwork = linalg_work(&count, real ? 0 : 2 * n, (size_t)job->width / 2);
    p.bytes = count.work_bytes;
    return p;
}

static void eig_call(const nbx_lapack *lapack, const linalg_job *job, char *a, char *values, char *vectors, void *work, const int *lwork, void *rwork,
                     int *info) {
    const int ld = linalg_ld(job->n), one = 1, *ldv = job->how[HOW_JOB] == 'V' ? &ld : &one;
    char none[16];
    if (job->type < LAPACK_C)
        lapack->geev[job->type]("N", &job->how[HOW_JOB], &job->n, a, &ld, values, values + job->n * job->width, none, &one, vectors, ldv, work, lwork, info, 1, 1);
    else
        lapack->geev_complex[job->type]("N", &job->how[HOW_JOB], &job->n, a, &ld, values, none, &one, vectors, ldv, work, lwork, rwork, info, 1, 1);
}

static nbx_status describe(nbx_op_call *c, bool vectors) {
    const nbx_lapack *lapack = nbx_lapack_of(c);
    nbx_status status = linalg_need_square(c, 0);
    linalg_job *job = status == NBX_OK && lapack ? linalg_job_new(c, arg_tensor(c, 0)) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    const nbx_dtype dtype = nbx_dtype_to_complex((nbx_dtype)arg_tensor(c, 0)->dtype);
    const int all = -1;
    char a[16] = {0}, work[16] = {0};
    int info = 0;
    job->how[HOW_JOB] = vectors ? 'V' : 'N';
    job->flops = (vectors ? 25.0 : 10.0) * job->n * job->n * job->n;
    eig_call(lapack, job, a, a, a, work, &all, a, &info);
    job->lwork = linalg_queried(job->type, work);
    job->work_bytes = places_of(job).bytes;
    status = linalg_out_vector(c, 0, dtype, job, job->n);
    if (status == NBX_OK && vectors) status = linalg_out(c, 1, dtype, job, job->n, job->n);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static nbx_status infer_eig(nbx_op_call *c) { return describe(c, true); }
static nbx_status infer_eigvals(nbx_op_call *c) { return describe(c, false); }

// Vectors j and j + 1 of a pair of conjugate values are the real and the imaginary part of one.
static void pair_up(const linalg_job *job, const char *values, const char *vectors, char *to) {
    const nbx_dtype real = linalg_dtype(job), complex = nbx_dtype_to_complex(real);
    const int64_t n = job->n, width = job->width;
    for (int64_t j = 0; j < n; j++) {
        const double part = element_double(real, values + (n + j) * width);
        const int64_t first = part < 0 ? j - 1 : j;
        for (int64_t i = 0; i < n; i++) {
            char *at = to + (j * n + i) * 2 * width;
            const double im = part == 0 ? 0 : element_double(real, vectors + ((first + 1) * n + i) * width);
            element_set_double(complex, at, element_double(real, vectors + (first * n + i) * width));
            element_set_imag(complex, at, part < 0 ? -im : im);
        }
    }
}

static bool is_finite(const linalg_job *job, const char *a) {
    const nbx_dtype dtype = linalg_dtype(job);
    for (int64_t i = 0; i < (int64_t)job->n * job->n; i++)
        if (!isfinite(element_double(dtype, a + i * job->width)) || !isfinite(element_imag(dtype, a + i * job->width))) return false;
    return true;
}

static int eig_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const eig_places p = places_of(job);
    const bool vectors = job->how[HOW_JOB] == 'V', real = job->type < LAPACK_C;
    int info = 0;
    if (job->n == 0) return 0;
    char *to = vectors ? linalg_at(job, out_get(t->call, 1), 2, index) : NULL, *values = linalg_at(job, out_get(t->call, 0), 1, index);
    linalg_load(job, work + p.matrix, arg_tensor(t->call, 0), index, false);
    if (!is_finite(job, work + p.matrix)) return -1;
    eig_call(t->lapack, job, work + p.matrix, work + p.values, vectors && !real ? to : work + p.vectors, work + p.work, &job->lwork, work + p.rwork, &info);
    if (!real) {
        memcpy(values, work + p.values, (size_t)job->n * (size_t)job->width);
        return info;
    }
    for (int64_t i = 0; i < job->n; i++) {
        memcpy(values + 2 * i * job->width, work + p.values + i * job->width, (size_t)job->width);
        memcpy(values + (2 * i + 1) * job->width, work + p.values + (job->n + i) * job->width, (size_t)job->width);
    }
    if (vectors) pair_up(job, work + p.values, work + p.vectors, to);
    return info;
}

static nbx_status eig_cpu(nbx_op_call *c) {
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, c->state, eig_one, NULL, &failed, &info);
    if (status != NBX_OK || failed < 0) return status;
    return linalg_fail(c, c->state, failed, info < 0 ? "the matrix is not finite" : "the algorithm did not converge");
}

#define EIG(NAME, INFER) {.name = "aten::" NAME, .infer = INFER, .cost = linalg_cost, .cpu = NBX_CPU_KERNEL_ONE(eig_cpu), .flags = NBX_OP_ON_HOST}

const nbx_op nbx_ops_eig[] = {
    EIG("linalg_eig", infer_eig),
    EIG("linalg_eigvals", infer_eigvals),
    EIG("_linalg_eigvals", infer_eigvals),
    NBX_OPS_END,
};
