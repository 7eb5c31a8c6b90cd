// LU factorisations and what comes from them: lu_factor, det, slogdet, solve, inv.
//   A = P L U with getrf; LU holds L below the diagonal and U; pivots count from 1; info is LAPACK's
// det and slogdet factor A^T where A is row-major and real, which LAPACK sees without a transpose, as ATen does.
#include <math.h>
#include <string.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/element.h"

typedef enum lu_kind { LU_FACTOR, LU_DET, LU_SLOGDET, LU_SOLVE, LU_INVERSE } lu_kind;
enum { HOW_TRANSPOSED, HOW_CHECKED, HOW_VECTOR, HOW_RIGHT };  // in job->how

// Which results are what; -1: none.
typedef struct lu_form {
    int8_t kind, lu, pivots, info;
} lu_form;

static const lu_form *form_of(const nbx_op_call *c) { return c->op->data; }

static const char singular[] = "the matrix is singular";

// ------------------------------------------------------------------------------------------------------- right-hand sides
static nbx_complex_number entry(const linalg_job *job, const char *a, int64_t row, int64_t col) {
    const char *at = a + (col * job->n + row) * job->width;
    return (nbx_complex_number){element_double(linalg_dtype(job), at), element_imag(linalg_dtype(job), at)};
}

// x -= a y; x /= a: as the textbook has it, so that what is divided by 0 or multiplied with NaN shows.
static void subtract(nbx_complex_number *x, nbx_complex_number a, nbx_complex_number y) {
    x->re -= a.re * y.re - a.im * y.im, x->im -= a.re * y.im + a.im * y.re;
}
static void divide(const linalg_job *job, nbx_complex_number *x, nbx_complex_number a) {
    if (job->type < LAPACK_C) {
        x->re /= a.re;
        return;
    }
    const double size = a.re * a.re + a.im * a.im;
    *x = (nbx_complex_number){(x->re * a.re + x->im * a.im) / size, (x->im * a.re - x->re * a.im) / size};
}

// One right-hand side for factors with a zero on U's diagonal. LAPACK's own solver passes over zeros of x, and so gives
// finite numbers where a division by 0 belongs.
static void substitute(const linalg_job *job, const char *lu, const int *pivots, char *x, bool transposed) {
    const int64_t n = job->n, width = job->width;
    char held[16];
    for (int64_t i = 0; i < n && !transposed; i++) {
        memcpy(held, x + i * width, (size_t)width);
        memmove(x + i * width, x + (pivots[i] - 1) * width, (size_t)width);
        memcpy(x + (pivots[i] - 1) * width, held, (size_t)width);
    }
    for (int pass = 0; pass < 2; pass++) {          // forwards, then backwards
        const bool unit = transposed == (pass == 1);  // L has ones on its diagonal
        for (int64_t k = 0; k < n; k++) {
            const int64_t i = pass ? n - 1 - k : k;
            nbx_complex_number sum = {element_double(linalg_dtype(job), x + i * width), element_imag(linalg_dtype(job), x + i * width)};
            for (int64_t j = pass ? i + 1 : 0; j < (pass ? n : i); j++) {
                const nbx_complex_number y = {element_double(linalg_dtype(job), x + j * width), element_imag(linalg_dtype(job), x + j * width)};
                subtract(&sum, transposed ? entry(job, lu, j, i) : entry(job, lu, i, j), y);
            }
            if (!unit) divide(job, &sum, entry(job, lu, i, i));
            element_set_double(linalg_dtype(job), x + i * width, sum.re);
            element_set_imag(linalg_dtype(job), x + i * width, sum.im);
        }
    }
    for (int64_t i = n - 1; i >= 0 && transposed; i--) {
        memcpy(held, x + i * width, (size_t)width);
        memmove(x + i * width, x + (pivots[i] - 1) * width, (size_t)width);
        memcpy(x + (pivots[i] - 1) * width, held, (size_t)width);
    }
}

// Solves for job->k right-hand sides, in place.
static void solve_factored(const linalg_task *t, const char *lu, const int *pivots, char *x, bool transposed) {
    const linalg_job *job = t->job;
    bool regular = true;
    int info = 0;
    for (int64_t i = 0; i < job->n && regular; i++) {
        const nbx_complex_number u = entry(job, lu, i, i);
        regular = u.re != 0 || u.im != 0;
    }
    if (regular) t->lapack->getrs[job->type](transposed ? "T" : "N", &job->n, &job->k, lu, &job->n, pivots, x, &job->n, &info, 1);
    for (int64_t j = 0; j < job->k && !regular; j++) substitute(job, lu, pivots, x + j * job->n * job->width, transposed);
}

// -------------------------------------------------------------------------------------------------------------- factors
static linalg_job *infer_lu(nbx_op_call *c) {
    if (linalg_need_square(c, 0) != NBX_OK) return NULL;
    const nbx_tensor *a = arg_tensor(c, 0);
    linalg_job *job = linalg_job_new(c, a);
    if (job) job->flops = 2.0 / 3 * job->n * job->n * job->n;
    return job;
}

// LU, pivots and infos have the batch of A, whatever B is.
static nbx_status factor_results(nbx_op_call *c, const linalg_job *job) {
    const lu_form *f = form_of(c);
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    const int least = job->m < job->n ? job->m : job->n;
    nbx_status status = NBX_OK;
    if (f->lu >= 0) status = linalg_out(c, f->lu, dtype, job, job->m, job->n);
    if (status == NBX_OK && f->pivots >= 0) status = linalg_out_vector(c, f->pivots, NBX_INT32, job, least);
    if (status == NBX_OK && f->info >= 0) status = linalg_out_scalar(c, f->info, NBX_INT32, job);
    return status;
}

static nbx_status infer_factor(nbx_op_call *c) {
    const nbx_status status = linalg_need_matrix(c, 0);
    if (status != NBX_OK) return status;
    if (!arg_bool(c, 1)) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "LU without pivoting is not there on the CPU");
    linalg_job *job = linalg_job_new(c, arg_tensor(c, 0));
    if (!job) return nbx_last_status(c->ctx);
    job->how[HOW_CHECKED] = (char)arg_bool(c, 2);
    job->flops = (double)job->m * job->n * (job->m < job->n ? job->m : job->n) * 2 / 3;
    const nbx_status described = factor_results(c, job);
    return described == NBX_OK ? linalg_ready(c, job) : described;
}

static nbx_status infer_det(nbx_op_call *c) {
    linalg_job *job = infer_lu(c);
    if (!job) return nbx_last_status(c->ctx);
    const nbx_tensor *a = arg_tensor(c, 0);
    const nbx_dtype dtype = (nbx_dtype)a->dtype;
    job->how[HOW_TRANSPOSED] = (char)(a->contiguous && job->type < LAPACK_C);
    nbx_status status = linalg_out_scalar(c, 0, dtype, job);
    if (status == NBX_OK && form_of(c)->kind == LU_SLOGDET) status = linalg_out_scalar(c, 1, nbx_dtype_to_real(dtype), job);
    if (status == NBX_OK) status = factor_results(c, job);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

// A row of LU's exchanges and its diagonal make the determinant. Products of floats are kept in double.
static void determinant(const linalg_task *t, int64_t index, const char *lu, const int *pivots) {
    const linalg_job *job = t->job;
    const nbx_tensor *out = out_get(t->call, 0);
    const nbx_dtype dtype = (nbx_dtype)out->dtype;
    const bool logarithm = form_of(t->call)->kind == LU_SLOGDET;
    double re = 1, im = 0, sum = 0;
    for (int64_t i = 0; i < job->n; i++) {
        const char *at = lu + i * (job->n + 1) * job->width;
        double x = element_double(dtype, at), y = element_imag(dtype, at);
        if (logarithm) {
            const double size = hypot(x, y);
            sum += log(size);
            x = size == 0 ? 0 : x / size, y = size == 0 ? 0 : y / size;
        }
        if (pivots[i] != i + 1) x = -x, y = -y;
        const double real = re * x - im * y;
        if (job->type >= LAPACK_C) im = re * y + im * x;
        re = real;
    }
    char *to = linalg_at(job, out, 0, index);
    element_set_double(dtype, to, re);
    element_set_imag(dtype, to, im);
    if (logarithm) element_set_double((nbx_dtype)out_get(t->call, 1)->dtype, linalg_at(job, out_get(t->call, 1), 0, index), sum);
}

static int factor_one(const linalg_task *t, int64_t index, char *work) {
    (void)work;
    const lu_form *f = form_of(t->call);
    const linalg_job *job = t->job;
    const int lda = linalg_ld(job->m);
    int info = 0;
    char *lu = linalg_at(job, out_get(t->call, f->lu), 2, index);
    int *pivots = (int *)linalg_at(job, out_get(t->call, f->pivots), 1, index);
    if (job->m && job->n) {
        linalg_load(job, lu, arg_tensor(t->call, 0), index, job->how[HOW_TRANSPOSED]);
        t->lapack->getrf[job->type](&job->m, &job->n, lu, &lda, pivots, &info);
    }
    if (f->kind == LU_DET || f->kind == LU_SLOGDET) determinant(t, index, lu, pivots);
    return info;
}

static nbx_status lu_cpu(nbx_op_call *c) {
    const lu_form *f = form_of(c);
    const linalg_job *job = c->state;
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, job, factor_one, f->info >= 0 ? out_get(c, f->info) : NULL, &failed, &info);
    if (status != NBX_OK || failed < 0 || !job->how[HOW_CHECKED]) return status;
    return linalg_fail(c, job, failed, singular);
}

// ---------------------------------------------------------------------------------------------------------------- solve
// A X = B or X A = B: first all factors, then all right-hand sides, whose batch may be larger than A's.
typedef struct lu_solve {
    linalg_job job;    // of the factors: must be first
    linalg_job sides;
} lu_solve;

// B is vectors when it has one dim, or the very shape of A without its last dim.
static bool is_vector_side(const nbx_tensor *a, const nbx_tensor *b) {
    return b->rank == 1 || (b->rank == a->rank - 1 && nbx_shape_equal(b->rank, b->shape, a->rank - 1, a->shape));
}

static lu_solve *widen(nbx_op_call *c) {
    linalg_job *first = infer_lu(c);
    if (!first) return NULL;
    const linalg_job job = *first;
    lu_solve *s = nbx_call_state(c, sizeof *s);
    if (s) s->job = s->sides = job;
    return s;
}

static nbx_status solve_ready(nbx_op_call *c, lu_solve *s) {
    linalg_work(&s->sides, (int64_t)s->sides.n * s->sides.k, (size_t)s->job.width);
    s->sides.flops = 2.0 * s->sides.n * s->sides.n * s->sides.k;
    nbx_status status = linalg_ready(c, &s->sides);
    const size_t bytes = c->scratch_bytes;
    if (status == NBX_OK) status = linalg_ready(c, &s->job);
    if (c->scratch_bytes < bytes) c->scratch_bytes = bytes;
    return status;
}

static nbx_status infer_solve(nbx_op_call *c) {
    lu_solve *s = widen(c);
    if (!s) return nbx_last_status(c->ctx);
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const bool left = arg_bool(c, 2), vector = is_vector_side(a, b);
    nbx_status status = linalg_need_same_dtype(c, 0, 1);
    if (status != NBX_OK) return status;
    if (b->rank < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "B must have at least one dim");
    if (vector && !left) return nbx_call_fail(c, NBX_ERROR_SHAPE, "vectors on the right-hand side need left=True");
    const int64_t length = b->shape[b->rank - (vector || !left ? 1 : 2)];
    if (length != s->job.n)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "A has %d columns, but B %lld rows", s->job.n, (long long)length);
    const int64_t sides = vector ? 1 : b->shape[b->rank - (left ? 1 : 2)];
    if (sides > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "too many right-hand sides for LAPACK");
    s->sides.k = (int)sides;
    s->job.how[HOW_CHECKED] = (char)arg_bool(c, 3);
    s->sides.how[HOW_VECTOR] = (char)vector, s->sides.how[HOW_RIGHT] = (char)!left;
    status = nbx_broadcast(c, &s->sides.batch_rank, s->sides.batch, b->rank - (vector ? 1 : 2), b->shape);
    if (status != NBX_OK) return status;
    s->sides.count = nbx_shape_numel(s->sides.batch_rank, s->sides.batch);
    // The result's strides are column-major in its last two dims, also where those are a batch of vectors.
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    int rank = s->sides.batch_rank;
    memcpy(shape, s->sides.batch, sizeof *shape * (size_t)rank);
    if (!vector) shape[rank++] = left ? s->job.n : sides;
    shape[rank++] = left && !vector ? sides : s->job.n;
    nbx_strides_contiguous(rank, shape, stride);
    if (left && rank > 1) stride[rank - 2] = 1, stride[rank - 1] = shape[rank - 2] > 1 ? shape[rank - 2] : 1;
    if (!out_new(c, 0, (nbx_dtype)a->dtype, rank, shape, stride)) return nbx_last_status(c->ctx);
    status = factor_results(c, &s->job);
    return status == NBX_OK ? solve_ready(c, s) : status;
}

// inv_ex has no LU among its results: it lies in the work of the thread.
static nbx_status infer_inverse(nbx_op_call *c) {
    linalg_job *job = infer_lu(c);
    if (!job) return nbx_last_status(c->ctx);
    const int n = job->n;
    job->how[HOW_CHECKED] = (char)arg_bool(c, 1);
    job->k = n;
    job->flops = 8.0 / 3 * n * n * n;
    linalg_work(job, (int64_t)n * n, (size_t)job->width);
    linalg_work(job, n, sizeof(int));
    nbx_status status = linalg_out(c, 0, (nbx_dtype)arg_tensor(c, 0)->dtype, job, n, n);
    if (status == NBX_OK) status = linalg_out_scalar(c, 1, NBX_INT32, job);
    return status == NBX_OK ? linalg_ready(c, job) : status;
}

static int inverse_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    const int n = job->n;
    int *pivots = (int *)(work + (((size_t)n * (size_t)n * (size_t)job->width + 63) & ~(size_t)63)), info = 0;
    if (n == 0) return 0;
    char *inverse = linalg_at(job, out_get(t->call, 0), 2, index);
    linalg_load(job, work, arg_tensor(t->call, 0), index, false);
    t->lapack->getrf[job->type](&n, &n, work, &n, pivots, &info);
    linalg_identity(job, inverse, n, n);
    solve_factored(t, work, pivots, inverse, false);
    return info;
}

static nbx_status inverse_cpu(nbx_op_call *c) {
    const linalg_job *job = c->state;
    int64_t failed;
    int info;
    const nbx_status status = linalg_run(c, job, inverse_one, out_get(c, 1), &failed, &info);
    if (status != NBX_OK || failed < 0 || !job->how[HOW_CHECKED]) return status;
    return linalg_fail(c, job, failed, singular);
}

// A right-hand side as a matrix: vectors get a column.
static void move_side(const linalg_job *job, const nbx_tensor *t, int64_t index, char *work, bool store) {
    nbx_tensor seen = *t;
    int64_t shape[NBX_MAX_RANK + 1], stride[NBX_MAX_RANK + 1];
    if (job->how[HOW_VECTOR]) {
        memcpy(shape, t->shape, sizeof *shape * (size_t)t->rank);
        memcpy(stride, t->stride, sizeof *stride * (size_t)t->rank);
        shape[t->rank] = stride[t->rank] = 1;
        seen.rank++, seen.shape = shape, seen.stride = stride;
    }
    if (store) linalg_store(job, &seen, index, work, job->how[HOW_RIGHT]);
    else linalg_load(job, work, &seen, index, job->how[HOW_RIGHT]);
}

static int solve_one(const linalg_task *t, int64_t index, char *work) {
    const linalg_job *job = t->job;
    if (job->n == 0 || job->k == 0) return 0;
    move_side(job, arg_tensor(t->call, 1), index, work, false);
    solve_factored(t, linalg_at(job, out_get(t->call, 1), 2, index), (const int *)linalg_at(job, out_get(t->call, 2), 1, index), work,
                   job->how[HOW_RIGHT]);
    move_side(job, out_get(t->call, 0), index, work, true);
    return 0;
}

static nbx_status solve_cpu(nbx_op_call *c) {
    const lu_solve *s = c->state;
    int64_t failed, ignored;
    int info;
    nbx_status status = linalg_run(c, &s->job, factor_one, out_get(c, 3), &failed, &info);
    if (status == NBX_OK && failed >= 0 && s->job.how[HOW_CHECKED]) status = linalg_fail(c, &s->job, failed, singular);
    if (status != NBX_OK) return status;
    return linalg_run(c, &s->sides, solve_one, NULL, &ignored, &info);
}

static void solve_cost(const nbx_op_call *c, nbx_cost *cost) {
    const lu_solve *s = c->state;
    linalg_cost(c, cost);
    cost->flops += (double)s->sides.count * s->sides.flops * (s->sides.type >= LAPACK_C ? 4 : 1);
}

// ----------------------------------------------------------------------------------------------------------- composites
// The first results of a call by another name.
static nbx_status first_results(nbx_op_call *c, const char *name, int arg_count, const nbx_value *args, int count, const int *which) {
    nbx_value results[NBX_MAX_RESULTS];
    nbx_status status = nbx_do_many(c->ctx, name, arg_count, args, results, NBX_MAX_RESULTS);
    for (int k = 0; k < count && status == NBX_OK; k++) status = out_tensor(c, k, results[which[k]].as.tensor);
    return status;
}

static nbx_status lu_factor(nbx_op_call *c) {
    const nbx_value args[] = {c->args[0], c->args[1], B(true)};
    return first_results(c, "aten::linalg_lu_factor_ex", 3, args, 2, (int[]){0, 1});
}
static nbx_status det(nbx_op_call *c) { return first_results(c, "aten::_linalg_det", 1, c->args, 1, (int[]){0}); }
static nbx_status slogdet(nbx_op_call *c) { return first_results(c, "aten::_linalg_slogdet", 1, c->args, 2, (int[]){0, 1}); }
static nbx_status inv(nbx_op_call *c) { return out_tensor(c, 0, NBX_DO(c->ctx, "aten::linalg_inv_ex", c->args[0], B(true))); }

static nbx_status solve(nbx_op_call *c) {
    const nbx_value args[] = {c->args[0], c->args[1], c->args[2], B(true)};
    return first_results(c, "aten::_linalg_solve_ex", 4, args, 1, (int[]){0});
}
static nbx_status solve_ex(nbx_op_call *c) { return first_results(c, "aten::_linalg_solve_ex", 4, c->args, 2, (int[]){0, 3}); }

// log det A: NaN where a real determinant is negative.
static nbx_status logdet(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    nbx_value r[NBX_MAX_RESULTS];
    const nbx_status status = nbx_do_many(ctx, "aten::_linalg_slogdet", 1, c->args, r, NBX_MAX_RESULTS);
    if (status != NBX_OK) return status;
    const nbx_tensor *sign = r[0].as.tensor, *size = r[1].as.tensor;
    if (nbx_dtype_is_complex((nbx_dtype)sign->dtype)) return out_tensor(c, 0, do_add(ctx, do_unary(ctx, "aten::log", sign), size));
    return out_tensor(c, 0, NBX_DO(ctx, "aten::where.ScalarSelf", T(NBX_DO(ctx, "aten::eq.Scalar", T(sign), I(-1))), F((double)NAN), T(size)));
}

#define LU(NAME, INFER, CPU, COST, KIND, AT_LU, AT_PIVOTS, AT_INFO)                                                    \
    {.name = NAME, .infer = INFER, .cost = COST, .cpu = NBX_CPU_KERNEL_ONE(CPU), .flags = LINALG_FLAGS,                \
     .data = &(const lu_form){KIND, AT_LU, AT_PIVOTS, AT_INFO}}
#define COMPOSITE(NAME, F) {.name = NAME, .composite = F, .flags = NBX_OP_EXACT_DTYPE}

const nbx_op nbx_ops_lu[] = {
    LU("aten::linalg_lu_factor_ex", infer_factor, lu_cpu, linalg_cost, LU_FACTOR, 0, 1, 2),
    LU("aten::_linalg_det", infer_det, lu_cpu, linalg_cost, LU_DET, 1, 2, -1),
    LU("aten::_linalg_slogdet", infer_det, lu_cpu, linalg_cost, LU_SLOGDET, 2, 3, -1),
    LU("aten::_linalg_solve_ex", infer_solve, solve_cpu, solve_cost, LU_SOLVE, 1, 2, 3),
    LU("aten::linalg_inv_ex", infer_inverse, inverse_cpu, linalg_cost, LU_INVERSE, -1, -1, 1),
    COMPOSITE("aten::linalg_lu_factor", lu_factor),
    COMPOSITE("aten::linalg_det", det),
    COMPOSITE("aten::linalg_slogdet", slogdet),
    COMPOSITE("aten::logdet", logdet),
    COMPOSITE("aten::linalg_inv", inv),
    COMPOSITE("aten::linalg_solve", solve),
    COMPOSITE("aten::linalg_solve_ex", solve_ex),
    NBX_OPS_END,
};
