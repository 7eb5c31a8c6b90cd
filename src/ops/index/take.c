// take and put: indices into the flattened tensor. one_hot.
#include "ops/index/combine.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/keys.h"

enum { GRAIN = 2048, TOGETHER = 64 };

// Byte offset of flat element i, in row-major order of the shape.
static int64_t flat_offset(const nbx_tensor *t, int64_t i) {
    return t->contiguous ? i * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype) : nbx_element_offset(t, t->rank, i);
}

typedef struct take_job {
    const nbx_tensor *self, *index, *out;
    bool failed;
    int64_t bad;
} take_job;

static bool wrapped(const nbx_tensor *index, int64_t i, int64_t numel, int64_t *at) {
    *at = element_get_i64((const char *)nbx_data(index) + flat_offset(index, i));
    if (*at < -numel || *at >= numel) return false;
    *at += *at < 0 ? numel : 0;
    return true;
}

static nbx_status check_index(nbx_op_call *c, const nbx_tensor *index) {
    if (index->dtype == NBX_INT64) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "the index must be int64, not %s", nbx_dtype_name((nbx_dtype)index->dtype));
}

static nbx_status out_of_range(nbx_op_call *c, int64_t value, int64_t numel) {
    return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [%lld, %lld] of all elements", (long long)value, (long long)-numel, (long long)numel - 1);
}

static nbx_status take_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1);
    if (check_index(c, index) != NBX_OK) return c->ctx->status;
    if (self->numel == 0 && index->numel != 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "an empty tensor has nothing to take");
    return out_new(c, 0, (nbx_dtype)self->dtype, index->rank, index->shape, NULL) ? NBX_OK : c->ctx->status;
}

// Dense: TOGETHER indices are checked and what they point at is asked for, then it is fetched (a million floats of as many: 14 ms one
// after the other, 1.8 so, on a Zen 3 core).
ELEMENT_INLINE int64_t take_piece(size_t width, char *to, const char *from, const int64_t *index, int64_t n, int64_t numel) {
    int64_t at[TOGETHER];
    uint64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        at[i] = index[i] + (index[i] < 0 ? numel : 0);
        bad |= (uint64_t)at[i] | ((uint64_t)numel - 1 - (uint64_t)at[i]);
        __builtin_prefetch(from + at[i] * (int64_t)width);
    }
    for (int64_t i = 0; bad >> 63 && i < n; i++)
        if (at[i] < 0 || at[i] >= numel) return i;
    for (int64_t i = 0; i < n; i++) memcpy(to + i * (int64_t)width, from + at[i] * (int64_t)width, width);
    return n;
}

// How many of n were taken: fewer, when the next one is out of range.
static int64_t take_dense(size_t width, char *to, const char *from, const int64_t *index, int64_t n, int64_t numel) {
    switch (width) {
    case 1: return take_piece(1, to, from, index, n, numel);
    case 2: return take_piece(2, to, from, index, n, numel);
    case 4: return take_piece(4, to, from, index, n, numel);
    case 8: return take_piece(8, to, from, index, n, numel);
    default: return take_piece(16, to, from, index, n, numel);
    }
}

static void take_fail(take_job *j, int64_t bad) {
    if (!__atomic_exchange_n(&j->failed, true, __ATOMIC_RELAXED)) j->bad = bad;
}

static void take_run(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    take_job *j = arg;
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)j->self->dtype), numel = j->self->numel;
    char *to = nbx_data(j->out);
    const char *from = nbx_data(j->self);
    if (j->self->contiguous && j->index->contiguous && j->out->contiguous) {
        const int64_t *index = nbx_data(j->index);
        for (int64_t i = begin; i < end; i += TOGETHER) {
            const int64_t n = end - i < TOGETHER ? end - i : TOGETHER, done = take_dense((size_t)width, to + i * width, from, index + i, n, numel);
            if (done < n) {
                take_fail(j, index[i + done]);
                return;
            }
        }
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t at;
        if (!wrapped(j->index, i, numel, &at)) {
            take_fail(j, at);
            return;
        }
        memcpy(to + flat_offset(j->out, i), from + flat_offset(j->self, at), (size_t)width);
    }
}

static nbx_status take(nbx_op_call *c) {
    take_job j = {.self = arg_tensor(c, 0), .index = arg_tensor(c, 1), .out = out_get(c, 0)};
    nbx_parallel_for(c->pool, j.out->numel, GRAIN, take_run, &j);
    return j.failed ? out_of_range(c, j.bad, j.self->numel) : NBX_OK;
}

static nbx_status put_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1), *source = arg_tensor(c, 2);
    if (check_index(c, index) != NBX_OK) return c->ctx->status;
    if (self->dtype != source->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, source is %s", nbx_dtype_name((nbx_dtype)self->dtype), nbx_dtype_name((nbx_dtype)source->dtype));
    if (index->numel != source->numel)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld indices for %lld elements", (long long)index->numel, (long long)source->numel);
    if (self->numel == 0 && index->numel != 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "an empty tensor has no place to put");
    if (arg_bool(c, 3) && nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)self->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s cannot be added", nbx_dtype_name((nbx_dtype)self->dtype));
    if (c->device.type != NBX_CPU) c->scratch_bytes = nbx_device_sort_bytes(1, index->numel) + sizeof(uint64_t) * (size_t)index->numel;
    return out_like(c, 0, (nbx_dtype)self->dtype, self) ? NBX_OK : c->ctx->status;
}

static nbx_status put(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1), *source = arg_tensor(c, 2), *out = out_get(c, 0);
    const nbx_combine_fn add = arg_bool(c, 3) ? nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)out->dtype) : NULL;
    const size_t width = nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t at;
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) nbx_move_tensor(c->pool, out, self);
    for (int64_t i = 0; i < index->numel; i++) {
        if (!wrapped(index, i, out->numel, &at)) return out_of_range(c, at, out->numel);
        char *to = (char *)nbx_data(out) + flat_offset(out, at);
        const char *from = (const char *)nbx_data(source) + flat_offset(source, i);
        if (add) add(to, 0, from, 0, 1);
        else memcpy(to, from, width);
    }
    return NBX_OK;
}

// one_hot(self, num_classes): -1 takes one more than the largest.
static nbx_status one_hot(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int64_t classes = arg_int(c, 1), shape[NBX_MAX_RANK];
    if (self->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes int64, not %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (self->rank == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    if (self->numel == 0 && classes <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the number of classes of no elements must be given");
    if (classes < -1 || classes == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld classes", (long long)classes);
    if (classes == -1) {
        nbx_value largest;
        const nbx_value all = T(NBX_DO(c->ctx, "aten::max", T(self)));
        if (nbx_do_many(c->ctx, "aten::item", 1, &all, &largest, 1) != NBX_OK) return c->ctx->status;
        if (largest.as.integer < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "class %lld is negative", (long long)largest.as.integer);
        classes = largest.as.integer + 1;
    }
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    shape[self->rank] = classes;
    const nbx_tensor *zeros = NBX_DO(c->ctx, "aten::new_zeros", T(self), nbx_of_ints(shape, self->rank + 1));
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::scatter_.value", T(zeros), I(-1), T(nbx_unsqueezed(c->ctx, self, -1)), I(1)));
}

const nbx_op nbx_ops_take[] = {
    {.name = "aten::take", .infer = take_infer, .cpu = NBX_CPU_KERNEL_ONE(take), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::put", .infer = put_infer, .cpu = NBX_CPU_KERNEL_ONE(put), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::one_hot", .composite = one_hot},
    NBX_OPS_END,
};
