// What the operators of the family share: checks, column-major results, work of the threads, the loop over a batch.
#include "ops/linalg/linalg.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "cpu/pool.h"
#include "ops/shape/element.h"
#include "ops/shape/move.h"

// --------------------------------------------------------------------------------------------------------------- checks
static nbx_status fail_shape(nbx_op_call *c, int arg, const char *why) {
    char shape[NBX_SHAPE_TEXT];
    const nbx_tensor *t = arg_tensor(c, arg);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s %s: %s", c->schema->params[arg].name,
                         nbx_shape_text(t->rank, t->shape, shape, sizeof shape), why);
}

nbx_status linalg_need_matrix(nbx_op_call *c, int arg) {
    const nbx_tensor *t = arg_tensor(c, arg);
    if (t->rank < 2) return fail_shape(c, arg, "must have at least 2 dims");
    if (t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16 || nbx_dtype_is_float8((nbx_dtype)t->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "low precision dtypes are not supported, found %s", nbx_dtype_name((nbx_dtype)t->dtype));
    if (linalg_rows(t) > INT_MAX || linalg_cols(t) > INT_MAX) return fail_shape(c, arg, "too large for LAPACK");
    return nbx_call_need_float(c, t, true);
}

nbx_status linalg_need_square(nbx_op_call *c, int arg) {
    const nbx_status status = linalg_need_matrix(c, arg);
    if (status != NBX_OK) return status;
    const nbx_tensor *t = arg_tensor(c, arg);
    return linalg_rows(t) == linalg_cols(t) ? NBX_OK : fail_shape(c, arg, "must be batches of square matrices");
}

nbx_status linalg_need_same_dtype(nbx_op_call *c, int a, int b) {
    const nbx_dtype x = (nbx_dtype)arg_tensor(c, a)->dtype, y = (nbx_dtype)arg_tensor(c, b)->dtype;
    if (x == y) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is %s but %s is %s", c->schema->params[a].name, nbx_dtype_name(x),
                         c->schema->params[b].name, nbx_dtype_name(y));
}

// ---------------------------------------------------------------------------------------------------------------- infer
static void count_batch(linalg_job *job) {
    job->count = nbx_shape_numel(job->batch_rank, job->batch);
}

linalg_job *linalg_job_new(nbx_op_call *c, const nbx_tensor *t) {
    linalg_job *job = nbx_call_state(c, sizeof *job);
    if (!job) return NULL;
    job->type = lapack_type_of((nbx_dtype)t->dtype);
    job->width = (int)nbx_dtype_size((nbx_dtype)t->dtype);
    job->m = (int)linalg_rows(t), job->n = (int)linalg_cols(t);
    job->batch_rank = t->rank - 2;
    memcpy(job->batch, t->shape, sizeof *job->batch * (size_t)job->batch_rank);
    count_batch(job);
    return job;
}

nbx_status linalg_broadcast(nbx_op_call *c, linalg_job *job, const nbx_tensor *b) {
    const nbx_status status = nbx_broadcast(c, &job->batch_rank, job->batch, b->rank - 2, b->shape);
    count_batch(job);
    return status;
}

static nbx_status describe(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, int inner, int64_t rows, int64_t cols) {
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    const int rank = job->batch_rank + inner;
    memcpy(shape, job->batch, sizeof *shape * (size_t)job->batch_rank);
    if (inner) shape[rank - 1] = cols;
    if (inner == 2) shape[rank - 2] = rows;
    nbx_strides_contiguous(rank, shape, stride);
    if (inner == 2) stride[rank - 2] = 1, stride[rank - 1] = rows > 1 ? rows : 1;
    return out_new(c, k, dtype, rank, shape, stride) ? NBX_OK : nbx_last_status(c->ctx);
}

nbx_status linalg_out(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, int64_t rows, int64_t cols) {
    return describe(c, k, dtype, job, 2, rows, cols);
}
nbx_status linalg_out_vector(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job, int64_t length) {
    return describe(c, k, dtype, job, 1, 1, length);
}
nbx_status linalg_out_scalar(nbx_op_call *c, int k, nbx_dtype dtype, const linalg_job *job) {
    return describe(c, k, dtype, job, 0, 1, 1);
}
nbx_status linalg_out_empty(nbx_op_call *c, int k, nbx_dtype dtype) {
    const int64_t none = 0;
    return out_new(c, k, dtype, 1, &none, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

size_t linalg_work(linalg_job *job, int64_t count, size_t bytes) {
    const size_t start = job->work_bytes;
    const size_t limit = (size_t)1 << 60;
    const bool fits = count >= 0 && start < limit && (size_t)count <= (limit - start) / bytes;
    job->work_bytes = fits ? (start + (size_t)count * bytes + 63) & ~(size_t)63 : limit;
    return start;
}

// In front of the threads' work lie the infos.
static size_t info_bytes(const linalg_job *job) { return ((size_t)job->count * sizeof(int) + 63) & ~(size_t)63; }

nbx_status linalg_ready(nbx_op_call *c, const linalg_job *job) {
    if (job->work_bytes >= (size_t)1 << 50) return nbx_call_fail(c, NBX_ERROR_MEMORY, "the matrices need more work space than there is memory");
    c->scratch_bytes = info_bytes(job) + job->work_bytes * (size_t)c->ctx->threads;
    return NBX_OK;
}

int linalg_queried(lapack_type type, const void *work) {
    const double length = type == LAPACK_S || type == LAPACK_C ? nextafterf(*(const float *)work, INFINITY) : *(const double *)work;
    return length < 1 ? 1 : length > INT_MAX ? INT_MAX : (int)ceil(length);
}

// --------------------------------------------------------------------------------------------------------------- kernels
char *linalg_at(const linalg_job *job, const nbx_tensor *t, int inner, int64_t index) {
    int64_t offset = 0;
    for (int i = job->batch_rank - 1; i >= 0; i--) {
        const int dim = t->rank - inner - job->batch_rank + i;
        if (dim >= 0 && t->shape[dim] != 1) offset += index % job->batch[i] * t->stride[dim];
        index /= job->batch[i];
    }
    return (char *)nbx_data(t) + offset * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}

static void move(const linalg_job *job, char *dense, const nbx_tensor *t, int64_t index, bool transposed, bool store) {
    const int64_t rows = linalg_rows(t), cols = linalg_cols(t), width = job->width;
    const int64_t strides[2] = {t->stride[t->rank - 2] * width, t->stride[t->rank - 1] * width};
    const int64_t packed[2] = {transposed ? cols * width : width, transposed ? width : rows * width};
    char *place = linalg_at(job, t, 2, index);
    nbx_move m = {.to = store ? place : dense, .from = store ? dense : place, .width = job->width, .rank = 2, .shape = {rows, cols}};
    memcpy(m.to_stride, store ? strides : packed, sizeof strides);
    memcpy(m.from_stride, store ? packed : strides, sizeof strides);
    nbx_move_run(NULL, &m);
}

void linalg_load(const linalg_job *job, char *to, const nbx_tensor *t, int64_t index, bool transposed) {
    move(job, to, t, index, transposed, false);
}
void linalg_store(const linalg_job *job, const nbx_tensor *t, int64_t index, const char *from, bool transposed) {
    move(job, (char *)(uintptr_t)from, t, index, transposed, true);
}

nbx_dtype linalg_dtype(const linalg_job *job) {
    static const nbx_dtype dtypes[] = {NBX_FLOAT32, NBX_FLOAT64, NBX_COMPLEX64, NBX_COMPLEX128};
    return dtypes[job->type];
}

void linalg_identity(const linalg_job *job, char *to, int rows, int cols) {
    memset(to, 0, (size_t)rows * (size_t)cols * (size_t)job->width);
    for (int64_t i = 0; i < rows && i < cols; i++) element_set_double(linalg_dtype(job), to + i * (rows + 1) * job->width, 1);
}

void linalg_clear_triangle(const linalg_job *job, char *a, int rows, int cols, bool lower) {
    for (int64_t j = 0; j < cols; j++) {
        const int64_t begin = lower ? j + 1 : 0, end = lower ? rows : j < rows ? j : rows;
        if (begin < end) memset(a + (j * rows + begin) * job->width, 0, (size_t)((end - begin) * job->width));
    }
}

typedef struct linalg_loop {
    linalg_task task;
    linalg_body body;
    int *infos;
    char *work;
} linalg_loop;

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    const linalg_loop *l = arg;
    for (int64_t i = begin; i < end; i++) l->infos[i] = l->body(&l->task, i, l->work + (size_t)thread * l->task.job->work_bytes);
}

nbx_status linalg_run(nbx_op_call *c, const linalg_job *job, linalg_body body, const nbx_tensor *infos, int64_t *failed, int *info) {
    char *scratch = c->scratch;
    const linalg_loop loop = {{c, job, nbx_lapack_of(c)}, body, (int *)c->scratch, scratch + info_bytes(job)};
    *failed = -1, *info = 0;
    if (!loop.task.lapack) return nbx_last_status(c->ctx);
    const double grain = job->flops > 0 ? 20000 / job->flops : 64;
    nbx_parallel_for(c->pool, job->count, grain < 1 ? 1 : (int64_t)grain, walk, (void *)(uintptr_t)&loop);
    for (int64_t i = job->count - 1; i >= 0; i--)
        if (loop.infos[i]) *failed = i, *info = loop.infos[i];
    if (infos && job->count) memcpy(nbx_data(infos), loop.infos, (size_t)job->count * sizeof(int));
    return NBX_OK;
}

nbx_status linalg_fail(nbx_op_call *c, const linalg_job *job, int64_t index, const char *why) {
    if (job->batch_rank == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s", why);
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "batch element %lld: %s", (long long)index, why);
}

void linalg_cost(const nbx_op_call *c, nbx_cost *cost) {
    const linalg_job *job = c->state;
    const nbx_tensor *a = arg_tensor(c, 0);
    cost->flops = (double)job->count * job->flops * (job->type >= LAPACK_C ? 4 : 1);
    cost->bytes_read = (double)a->numel * job->width;
    for (int i = 1; i < c->arg_count; i++) {
        const nbx_tensor *b = arg_tensor(c, i);
        if (b) cost->bytes_read += (double)b->numel * job->width;
    }
    cost->bytes_written = 0;
    for (int k = 0; k < c->out_count; k++)
        cost->bytes_written += (double)out_get(c, k)->numel * (double)nbx_dtype_size((nbx_dtype)out_get(c, k)->dtype);
    cost->scratch_bytes = c->scratch_bytes;
}
