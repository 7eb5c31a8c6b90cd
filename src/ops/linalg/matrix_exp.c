// matrix_exp(A) = sum of A^j / j!: a Taylor polynomial of A / 2^s, squared s times. No LAPACK.
//   the degree m is the smallest of a list with |A|^m / (m + 1)! below the rounding of the dtype, which bounds the error of A
//   that the polynomial stands for; past the last one A is halved. In powers of A^q a degree q r costs q + r - 2 products.
// float16 and bfloat16 are computed in float32. A matrix with a norm that is not finite gives NaN.
#include <math.h>
#include <string.h>

#include "cpu/gemm.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/matrix_exp.h"
#include "ops/shape/element.h"
#include "ops/shape/move.h"

typedef struct exp_job {
    nbx_dtype dtype;         // of the computation
    int64_t n, count, bytes; // bytes of one buffer
    size_t gemm_bytes;
} exp_job;

typedef struct exp_work {
    nbx_op_call *call;
    const exp_job *job;
    char *buffers;           // of all threads, or of one when the products use the threads
    bool wide;               // products use the pool
} exp_work;

static nbx_gemm product_of(const exp_job *job, const char *a, const char *b, char *c) {
    const int64_t n = job->n;
    return (nbx_gemm){.m = n, .n = n, .k = n, .batch = 1, .dtype = job->dtype, .out_dtype = job->dtype, .a = a, .row_stride_a = n,
                      .col_stride_a = 1, .b = b, .row_stride_b = n, .col_stride_b = 1, .c = c, .row_stride_c = n, .col_stride_c = 1, .alpha = 1};
}

static double norm_of(const exp_job *job, const char *a) {  // the largest sum of a row
    const int64_t n = job->n, width = (int64_t)nbx_dtype_size(job->dtype);
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++, a += width) sum += hypot(element_double(job->dtype, a), element_imag(job->dtype, a));
        most = sum > most || sum != sum ? sum : most;
    }
    return most;
}

// to += factor from; factor times the identity where from is NULL. All are dense, so complex numbers are twice as many reals.
static void add_scaled(const exp_job *job, char *to, const char *from, double factor) {
    const bool narrow = nbx_dtype_to_real(job->dtype) == NBX_FLOAT32;
    const int parts = nbx_dtype_is_complex(job->dtype) ? 2 : 1;
    const int64_t count = from ? job->n * job->n * parts : job->n, step = from ? 1 : (job->n + 1) * parts;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i * step;
        if (narrow) ((float *)to)[at] += (float)factor * (from ? ((const float *)from)[at] : 1);
        else ((double *)to)[at] += factor * (from ? ((const double *)from)[at] : 1);
    }
}

// The degree for a norm; *halvings: how often A is halved first.
static int choose(nbx_dtype dtype, double norm, int *halvings) {
    const int last = nbx_exp_degree_count(dtype) - 1;
    *halvings = 0;
    for (int i = 0; i <= last; i++)
        if (norm <= nbx_exp_reach(dtype, i)) return i;
    *halvings = (int)ceil(log2(norm / nbx_exp_reach(dtype, last)));
    return last;
}

static void multiply(const exp_work *w, const char *a, const char *b, char *c) {
    const nbx_gemm g = product_of(w->job, a, b, c);
    char *scratch = w->buffers + w->job->bytes * NBX_EXP_BUFFERS;
    nbx_gemm_run(&g, w->wide ? w->call->pool : NULL, scratch);
}

// exp of the matrix in buffer 0; returns the buffer that holds it.
static char *exp_of(const exp_work *w, double norm) {
    const exp_job *job = w->job;
    char *power[NBX_EXP_POWERS + 1], *sum = w->buffers + job->bytes * NBX_EXP_POWERS, *next = sum + job->bytes;
    int halvings;
    const int at = choose(job->dtype, norm, &halvings), q = nbx_exp_degrees[at].q, r = nbx_exp_degrees[at].r;
    for (int i = 1; i <= q; i++) power[i] = w->buffers + (i - 1) * job->bytes;
    if (halvings) {
        memset(next, 0, (size_t)job->bytes);
        add_scaled(job, next, power[1], ldexp(1, -halvings));
        memcpy(power[1], next, (size_t)job->bytes);
    }
    for (int i = 2; i <= q; i++) multiply(w, power[i - 1], power[1], power[i]);
    memset(sum, 0, (size_t)job->bytes);
    add_scaled(job, sum, power[q], 1 / nbx_exp_factorial(q * r));
    for (int block = r - 1; block >= 0; block--) {
        if (block < r - 1) {
            multiply(w, sum, power[q], next);
            char *held = sum;
            sum = next, next = held;
        }
        for (int i = q - 1; i >= 1; i--) add_scaled(job, sum, power[i], 1 / nbx_exp_factorial(block * q + i));
        add_scaled(job, sum, NULL, 1 / nbx_exp_factorial(block * q));
    }
    for (int i = 0; i < halvings; i++) {
        multiply(w, sum, sum, next);
        char *held = sum;
        sum = next, next = held;
    }
    return sum;
}

static void exp_one(const exp_work *w, int64_t index) {
    const exp_job *job = w->job;
    const nbx_tensor *a = arg_tensor(w->call, 0), *out = out_get(w->call, 0);
    const nbx_dtype outside = (nbx_dtype)a->dtype;
    const int64_t n = job->n, inside = (int64_t)nbx_dtype_size(job->dtype), width = (int64_t)nbx_dtype_size(outside);
    linalg_job batch = {.batch_rank = a->rank - 2};
    memcpy(batch.batch, a->shape, sizeof *batch.batch * (size_t)batch.batch_rank);
    const char *from = linalg_at(&batch, a, 2, index);
    for (int64_t i = 0; i < n; i++)
        nbx_convert_run(job->dtype, w->buffers + i * n * inside, inside, outside, from + i * a->stride[a->rank - 2] * width,
                        a->stride[a->rank - 1] * width, n);
    const double norm = norm_of(job, w->buffers);
    char *result = w->buffers + job->bytes;
    if (isfinite(norm)) {
        result = exp_of(w, norm);
    } else {
        for (int64_t i = 0; i < n * n; i++) {
            element_set_double(job->dtype, result + i * inside, (double)NAN);
            element_set_imag(job->dtype, result + i * inside, (double)NAN);
        }
    }
    nbx_convert_run(outside, linalg_at(&batch, out, 2, index), width, job->dtype, result, inside, n * n);
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    exp_work w = *(const exp_work *)arg;
    w.buffers += (size_t)thread * ((size_t)w.job->bytes * NBX_EXP_BUFFERS + w.job->gemm_bytes);
    for (int64_t i = begin; i < end; i++) exp_one(&w, i);
}

static nbx_status matrix_exp_cpu(nbx_op_call *c) {
    const exp_job *job = c->state;
    exp_work w = {c, job, c->scratch, job->count < c->ctx->threads};
    if (job->n == 0) return NBX_OK;
    if (w.wide) walk(&w, 0, job->count, 0);
    else nbx_parallel_for(c->pool, job->count, 1 + 4096 / (job->n * job->n * job->n), walk, &w);
    return NBX_OK;
}

static nbx_status infer_matrix_exp(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0);
    if (a->rank < 2 || linalg_rows(a) != linalg_cols(a)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects batches of square matrices");
    if (nbx_dtype_is_float8((nbx_dtype)a->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)a->dtype));
    const nbx_status status = nbx_call_need_float(c, a, true);
    exp_job *job = status == NBX_OK ? nbx_call_state(c, sizeof *job) : NULL;
    if (!job) return nbx_last_status(c->ctx);
    job->dtype = a->dtype == NBX_FLOAT16 || a->dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : (nbx_dtype)a->dtype;
    job->n = linalg_rows(a);
    job->count = nbx_shape_numel(a->rank - 2, a->shape);
    job->bytes = (job->n * job->n * (int64_t)nbx_dtype_size(job->dtype) + 63) & ~(int64_t)63;
    if (!out_new(c, 0, (nbx_dtype)a->dtype, a->rank, a->shape, NULL)) return nbx_last_status(c->ctx);
    if (a->numel == 0) return NBX_OK;
    const bool wide = job->count < c->ctx->threads;
    const nbx_gemm g = product_of(job, NULL, NULL, NULL);
    job->gemm_bytes = (nbx_gemm_scratch_bytes(&g, wide ? c->ctx->threads : 1) + 63) & ~(size_t)63;
    c->scratch_bytes = ((size_t)job->bytes * NBX_EXP_BUFFERS + job->gemm_bytes) * (size_t)(wide ? 1 : c->ctx->threads);
    if (c->device.type != NBX_CPU) c->scratch_bytes = nbx_exp_device_bytes(job->count, job->n, job->dtype);
    return NBX_OK;
}

// About ten products of a matrix.
static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const exp_job *job = c->state;
    const double n = (double)job->n, bytes = (double)arg_tensor(c, 0)->numel * (double)nbx_dtype_size((nbx_dtype)arg_tensor(c, 0)->dtype);
    cost->flops = (double)job->count * 20 * n * n * n * (nbx_dtype_is_complex(job->dtype) ? 4 : 1);
    cost->bytes_read = cost->bytes_written = bytes;
    cost->scratch_bytes = c->scratch_bytes;
}

#define MATRIX_EXP(NAME)                                                                                               \
    {.name = NAME, .infer = infer_matrix_exp, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(matrix_exp_cpu), .flags = LINALG_FLAGS}

const nbx_op nbx_ops_matrix_exp[] = {
    MATRIX_EXP("aten::linalg_matrix_exp"),
    MATRIX_EXP("aten::matrix_exp"),
    NBX_OPS_END,
};
