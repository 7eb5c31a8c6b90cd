// The plain product: every dtype and stride, sums of 64 columns at a time in double (integers in 64 bits, wrapping).
// It serves integers and complex numbers, and is what tests compare the packed one with.
#include "cpu/simd.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/matmul/product_kernels.h"

#define COLUMNS 64
#define ROWS 8

typedef struct plain_job {
    const nbx_product *p;
    int64_t row_blocks, col_blocks;
} plain_job;

// The operands of one batch.
typedef struct matrices {
    const char *a, *b, *self;
    char *c;
} matrices;

INLINE void real_row(const nbx_product *p, const matrices *x, int64_t i, int64_t j0, int64_t count, nbx_dtype d, nbx_dtype out) {
    double sum[COLUMNS] = {0};
    for (int64_t k = 0; k < p->k; k++) {
        const double a = load_real(x->a, i * p->a.row + k * p->a.col, d);
        const int64_t at = k * p->b.row + j0 * p->b.col;
        if (p->b.col == 1) {
            for (int64_t j = 0; j < count; j++) sum[j] += a * load_real(x->b, at + j, d);
        } else {
            for (int64_t j = 0; j < count; j++) sum[j] += a * load_real(x->b, at + j * p->b.col, d);
        }
    }
    for (int64_t j = 0; j < count; j++) {
        double y = p->alpha[0] * sum[j];
        if (p->beta[0] != 0) y += p->beta[0] * load_real(x->self, i * p->self.row + (j0 + j) * p->self.col, out);
        store_real(x->c, i * p->c.row + (j0 + j) * p->c.col, out, y);
    }
}

INLINE void int_row(const nbx_product *p, const matrices *x, int64_t i, int64_t j0, int64_t count, nbx_dtype d, nbx_dtype out) {
    uint64_t sum[COLUMNS] = {0};
    for (int64_t k = 0; k < p->k; k++) {
        const uint64_t a = load_int(x->a, i * p->a.row + k * p->a.col, d);
        const int64_t at = k * p->b.row + j0 * p->b.col;
        for (int64_t j = 0; j < count; j++) sum[j] += a * load_int(x->b, at + j * p->b.col, d);
    }
    for (int64_t j = 0; j < count; j++) {
        uint64_t y = (uint64_t)p->alpha_int * sum[j];
        if (p->beta_int != 0)
            y += (uint64_t)p->beta_int * load_int(x->self, i * p->self.row + (j0 + j) * p->self.col, out);
        store_int(x->c, i * p->c.row + (j0 + j) * p->c.col, out, y);
    }
}

INLINE void complex_row(const nbx_product *p, const matrices *x, int64_t i, int64_t j0, int64_t count, nbx_dtype d) {
    double re[COLUMNS] = {0}, im[COLUMNS] = {0};
    const double sign = p->conjugate_a ? -1 : 1;
    for (int64_t k = 0; k < p->k; k++) {
        double ar, ai, br, bi;
        load_complex(x->a, i * p->a.row + k * p->a.col, d, &ar, &ai);
        ai *= sign;
        const int64_t at = k * p->b.row + j0 * p->b.col;
        for (int64_t j = 0; j < count; j++) {
            load_complex(x->b, at + j * p->b.col, d, &br, &bi);
            re[j] += ar * br - ai * bi;
            im[j] += ar * bi + ai * br;
        }
    }
    for (int64_t j = 0; j < count; j++) {
        double yr = p->alpha[0] * re[j] - p->alpha[1] * im[j], yi = p->alpha[0] * im[j] + p->alpha[1] * re[j];
        if (p->beta[0] != 0 || p->beta[1] != 0) {
            double sr, si;
            load_complex(x->self, i * p->self.row + (j0 + j) * p->self.col, d, &sr, &si);
            yr += p->beta[0] * sr - p->beta[1] * si;
            yi += p->beta[0] * si + p->beta[1] * sr;
        }
        store_complex(x->c, i * p->c.row + (j0 + j) * p->c.col, d, yr, yi);
    }
}

static void one_row(const nbx_product *p, const matrices *x, int64_t i, int64_t j, int64_t count) {
    switch (p->dtype) {
    case NBX_FLOAT32: real_row(p, x, i, j, count, NBX_FLOAT32, NBX_FLOAT32); break;
    case NBX_FLOAT64: real_row(p, x, i, j, count, NBX_FLOAT64, NBX_FLOAT64); break;
    case NBX_FLOAT16: real_row(p, x, i, j, count, NBX_FLOAT16, p->out_dtype); break;
    case NBX_BFLOAT16: real_row(p, x, i, j, count, NBX_BFLOAT16, p->out_dtype); break;
    case NBX_UINT8: int_row(p, x, i, j, count, NBX_UINT8, NBX_UINT8); break;
    case NBX_INT8: int_row(p, x, i, j, count, NBX_INT8, p->out_dtype); break;
    case NBX_INT16: int_row(p, x, i, j, count, NBX_INT16, NBX_INT16); break;
    case NBX_INT32: int_row(p, x, i, j, count, NBX_INT32, NBX_INT32); break;
    case NBX_INT64: int_row(p, x, i, j, count, NBX_INT64, NBX_INT64); break;
    case NBX_COMPLEX64: complex_row(p, x, i, j, count, NBX_COMPLEX64); break;
    default: complex_row(p, x, i, j, count, NBX_COMPLEX128);
    }
}

static void plain_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const plain_job *job = arg;
    const nbx_product *p = job->p;
    (void)thread;
    for (int64_t task = begin; task < end; task++) {
        const int64_t col = task % job->col_blocks * COLUMNS, rest = task / job->col_blocks;
        const int64_t row = rest % job->row_blocks * ROWS;
        matrices x;
        nbx_product_batch(p, rest / job->row_blocks, &x.a, &x.b, &x.self, &x.c);
        const int64_t count = p->n - col < COLUMNS ? p->n - col : COLUMNS;
        for (int64_t i = row; i < row + ROWS && i < p->m; i++) one_row(p, &x, i, col, count);
    }
}

void NBX_KERNEL(product_plain)(nbx_pool *pool, const nbx_product *p) {
    plain_job job = {p, (p->m + ROWS - 1) / ROWS, (p->n + COLUMNS - 1) / COLUMNS};
    const int64_t tasks = nbx_product_batches(p) * job.row_blocks * job.col_blocks;
    const int64_t work = ROWS * COLUMNS * (p->k + 4);
    nbx_parallel_for(pool, tasks, 1 + 32768 / work, plain_tasks, &job);
}
