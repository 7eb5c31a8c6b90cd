// topk and kthvalue. topk keeps the best k of a row in a heap: most elements cost one comparison with its root. Ties go to the
// lowest index, and results are sorted whether asked or not.
#include "cpu/pool.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/sort/keys.h"

enum { LONG = 1 << 16, MAX_PARTS = 64 };

typedef struct topk_job {
    nbx_row_walk in, values, indices;
    nbx_dtype dtype;
    bool falling;
    int width;
    int64_t k, row;
    const char *from;
    char *values_to, *indices_to;
    nbx_place *places;     // [threads or parts][room]
    int64_t room, parts, counts[MAX_PARTS];
} topk_job;

static nbx_row row_at(const topk_job *j, int64_t row) {
    return (nbx_row){.dtype = j->dtype, .falling = j->falling, .data = j->from + nbx_row_offset(&j->in, row), .stride = j->in.step};
}

static void write_row(const topk_job *j, int64_t row, const nbx_place *places) {
    const char *in = j->from + nbx_row_offset(&j->in, row);
    char *values = j->values_to + nbx_row_offset(&j->values, row), *indices = j->indices_to + nbx_row_offset(&j->indices, row);
    for (int64_t i = 0; i < j->k; i++) {
        const int64_t index = nbx_place_index(places[i]);
        memcpy(values + i * j->values.step, in + index * j->in.step, (size_t)j->width);
        element_put_i64(indices + i * j->indices.step, index);
    }
}

// Many of a row: the smallest k by quickselect, then sorted. Places has room for the whole row.
static void select_many(const nbx_row *row, int64_t length, int64_t k, nbx_place *places) {
    if (k < length) nbx_row_select(row, length, k - 1, places);
    else nbx_row_smallest(row, 0, length, k, places);
    nbx_places_sort(places, k);
}

static bool keeps_heap(int64_t k, int64_t length) { return k <= 1024 || k > length / 2; }

static void topk_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const topk_job *j = arg;
    nbx_place *places = j->places + thread * j->room;
    for (int64_t r = begin; r < end; r++) {
        const nbx_row row = row_at(j, r);
        if (keeps_heap(j->k, j->in.length)) nbx_row_smallest(&row, 0, j->in.length, j->k, places);
        else select_many(&row, j->in.length, j->k, places);
        write_row(j, r, places);
    }
}

// One long row: each part gives its best k, the best of all of them remain.
static void topk_parts(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    topk_job *j = arg;
    const nbx_row row = row_at(j, j->row);
    for (int64_t p = first; p < last; p++) {
        const int64_t begin = j->in.length / j->parts * p, end = p + 1 == j->parts ? j->in.length : begin + j->in.length / j->parts;
        j->counts[p] = nbx_row_smallest(&row, begin, end, j->k, j->places + p * j->k);
    }
}

static void topk_long_row(topk_job *j, nbx_pool *pool) {
    nbx_parallel_for(pool, j->parts, 1, topk_parts, j);
    int64_t total = j->counts[0];
    for (int64_t p = 1; p < j->parts; p++) {
        memmove(j->places + total, j->places + p * j->k, sizeof(nbx_place) * (size_t)j->counts[p]);
        total += j->counts[p];
    }
    nbx_places_select(j->places, total, j->k);
    nbx_places_sort(j->places, j->k);
    write_row(j, j->row, j->places);
}

static bool in_parts(int64_t rows, int64_t length, int64_t k, int threads) { return rows < threads && length >= LONG && k <= 1024; }

static nbx_status topk_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t k = arg_int(c, 1);
    int d;
    if (nbx_call_dim(c, arg_int(c, 2), self->rank, &d) != NBX_OK) return c->ctx->status;
    if (!nbx_keys_exist((nbx_dtype)self->dtype) || self->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no order", nbx_dtype_name((nbx_dtype)self->dtype));
    const int64_t length = self->rank == 0 ? 1 : self->shape[d];
    if (k < 0 || k > length) return nbx_call_fail(c, NBX_ERROR_INDEX, "k %lld is out of range [0, %lld] of dim %d", (long long)k, (long long)length, d);
    c->args[2] = I(d);
    int64_t shape[NBX_MAX_RANK];
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    if (self->rank > 0) shape[d] = k;
    const int threads = nbx_pool_threads(c->ctx->pool);
    const int64_t rows = length > 0 ? self->numel / length : 0, room = keeps_heap(k, length) ? k : length;
    if (c->device.type != NBX_CPU) c->scratch_bytes = k > NBX_DEVICE_TOPK ? nbx_device_sort_bytes(rows, length) : sizeof(uint64_t) * (size_t)(rows * nbx_device_topk_parts(rows, length) * k);
    else c->scratch_bytes = sizeof(nbx_place) * (size_t)((threads > MAX_PARTS && in_parts(rows, length, k, threads) ? MAX_PARTS : threads) * (room + 1));
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, shape, NULL) && out_new(c, 1, NBX_INT64, self->rank, shape, NULL) ? NBX_OK
                                                                                                                              : c->ctx->status;
}

static nbx_status topk(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = out_get(c, 0), *indices = out_get(c, 1);
    const int d = (int)arg_int(c, 2), threads = nbx_pool_threads(c->pool);
    if (values->numel == 0) return NBX_OK;
    topk_job j = {.dtype = (nbx_dtype)self->dtype, .falling = arg_bool(c, 3), .width = (int)nbx_dtype_size((nbx_dtype)self->dtype), .k = arg_int(c, 1),
                  .from = nbx_data(self), .values_to = nbx_data(values), .indices_to = nbx_data(indices), .places = c->scratch};
    nbx_row_walk_of(self, d, &j.in);
    nbx_row_walk_of(values, d, &j.values);
    nbx_row_walk_of(indices, d, &j.indices);
    j.room = keeps_heap(j.k, j.in.length) ? j.k : j.in.length;
    if (in_parts(j.in.count, j.in.length, j.k, threads)) {
        j.parts = threads < MAX_PARTS ? threads : MAX_PARTS;
        for (j.row = 0; j.row < j.in.count; j.row++) topk_long_row(&j, c->pool);
        return NBX_OK;
    }
    nbx_parallel_for(c->pool, j.in.count, 8192 / j.in.length + 1, topk_rows, &j);
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- kthvalue
static nbx_status kthvalue_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t k = arg_int(c, 1);
    int d, rank = 0;
    if (nbx_call_dim(c, arg_int(c, 2), self->rank, &d) != NBX_OK) return c->ctx->status;
    if (!nbx_keys_exist((nbx_dtype)self->dtype) || self->dtype == NBX_BOOL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not accepted", nbx_dtype_name((nbx_dtype)self->dtype));
    const int64_t length = self->rank == 0 ? 1 : self->shape[d];
    if (self->rank > 0 && length == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "dim %d has size 0", d);
    if (k < 1 || k > length) return nbx_call_fail(c, NBX_ERROR_INDEX, "k %lld is out of range [1, %lld] of dim %d", (long long)k, (long long)length, d);
    c->args[2] = I(d);
    int64_t shape[NBX_MAX_RANK];
    for (int i = 0; i < self->rank; i++)
        if (i != d || arg_bool(c, 3)) shape[rank++] = i == d ? 1 : self->shape[i];
    if (c->device.type == NBX_CPU) c->scratch_bytes = sizeof(nbx_place) * (size_t)length * (size_t)nbx_pool_threads(c->ctx->pool);
    return out_new(c, 0, (nbx_dtype)self->dtype, rank, shape, NULL) && out_new(c, 1, NBX_INT64, rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

static void kth_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const topk_job *j = arg;
    for (int64_t r = begin; r < end; r++) {
        const nbx_row row = row_at(j, r);
        const int64_t index = nbx_row_select(&row, j->in.length, j->k - 1, j->places + thread * j->in.length);
        memcpy(j->values_to + nbx_row_offset(&j->values, r), row.data + index * row.stride, (size_t)j->width);
        element_put_i64(j->indices_to + nbx_row_offset(&j->indices, r), index);
    }
}

// The rows of a result that has lost dim, or keeps it with size 1: one element each.
static void results_of(const nbx_tensor *t, const nbx_tensor *self, int d, nbx_row_walk *w) {
    if (t->rank == self->rank) {
        nbx_row_walk_of(t, d, w);
        return;
    }
    w->rank = 0;
    for (int i = 0; i < t->rank; i++) {
        w->shape[w->rank] = t->shape[i];
        w->stride[w->rank++] = t->stride[i] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    }
}

static nbx_status kthvalue(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = out_get(c, 0), *indices = out_get(c, 1);
    const int d = (int)arg_int(c, 2);
    if (values->numel == 0) return NBX_OK;
    topk_job j = {.dtype = (nbx_dtype)self->dtype, .width = (int)nbx_dtype_size((nbx_dtype)self->dtype), .k = arg_int(c, 1), .from = nbx_data(self),
                  .values_to = nbx_data(values), .indices_to = nbx_data(indices), .places = c->scratch};
    nbx_row_walk_of(self, d, &j.in);
    results_of(values, self, d, &j.values);
    results_of(indices, self, d, &j.indices);
    nbx_parallel_for(c->pool, j.in.count, 8192 / j.in.length + 1, kth_rows, &j);
    return NBX_OK;
}

const nbx_op nbx_ops_topk[] = {
    {.name = "aten::topk", .infer = topk_infer, .cpu = NBX_CPU_KERNEL_ONE(topk), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::kthvalue", .infer = kthvalue_infer, .cpu = NBX_CPU_KERNEL_ONE(kthvalue), .flags = NBX_OP_STRIDED_SAME},
    NBX_OPS_END,
};
