// Tensor descriptors: construction with every derived fact computed once, retain and release, public accessors.
#include "core/context.h"
#include "core/memory.h"

#include <string.h>

static nbx_storage none_storage = {.refs = 1 << 30, .plan = -1};
const nbx_tensor nbx_none_tensor = {.refs = 1 << 30, .dtype = NBX_FLOAT32, .contiguous = true, .dense = true, .storage = &none_storage};

static bool row_major(const nbx_tensor *t) {
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->shape[d] == 1) continue;
        if (t->stride[d] != step) return false;
        step *= t->shape[d];
    }
    return true;
}

// Non-overlapping and dense: sorted by stride, each stride is the product of the smaller dims' sizes.
static bool spans_densely(const nbx_tensor *t) {
    uint64_t seen = 0;
    int64_t step = 1;
    for (int n = 0; n < t->rank; n++) {
        int next = -1;
        for (int d = 0; d < t->rank; d++)
            if (!(seen >> d & 1) && t->shape[d] != 1 && t->stride[d] == step) next = d;
        if (next < 0) break;
        seen |= (uint64_t)1 << next;
        step *= t->shape[next];
    }
    return step == t->numel;
}

static void derive(nbx_tensor *t) {
    t->contiguous = t->numel == 0 || row_major(t);
    t->dense = t->contiguous || spans_densely(t);
}

static bool describe(nbx_context *ctx, nbx_tensor *t, nbx_dtype dtype, int rank, const int64_t *shape,
                     const int64_t *stride, int64_t offset) {
    if (dtype < 0 || dtype >= NBX_DTYPE_COUNT) {
        nbx_fail(ctx, NBX_ERROR_DTYPE, "there is no dtype for the result of these dtypes");
        return false;
    }
    for (int d = 0; d < rank; d++)
        if (shape[d] < 0) {
            char text[NBX_SHAPE_TEXT];
            nbx_fail(ctx, NBX_ERROR_SHAPE, "negative size %lld in shape %s", (long long)shape[d],
                     nbx_shape_text(rank, shape, text, sizeof text));
            return false;
        }
    const int64_t numel = nbx_shape_numel(rank, shape);
    int64_t bytes;
    if (numel < 0 || __builtin_mul_overflow(numel, (int64_t)nbx_dtype_size(dtype), &bytes)) {
        char text[NBX_SHAPE_TEXT];
        nbx_fail(ctx, NBX_ERROR_SHAPE, "shape %s of %s is larger than any memory",
                 nbx_shape_text(rank, shape, text, sizeof text), nbx_dtype_name(dtype));
        return false;
    }
    t->dtype = (uint8_t)dtype;
    t->rank = (int16_t)rank;
    t->numel = numel;
    t->offset = offset;
    if (rank > 0) memmove(t->shape, shape, sizeof *shape * (size_t)rank);  // of a 0-dim one, shape may be NULL
    if (stride && rank > 0) memmove(t->stride, stride, sizeof *stride * (size_t)rank);
    else if (!stride) nbx_strides_contiguous(rank, shape, t->stride);
    derive(t);
    return true;
}

static bool rank_is_valid(nbx_context *ctx, nbx_dtype dtype, int rank) {
    if ((unsigned)dtype >= NBX_DTYPE_COUNT) {
        nbx_fail(ctx, NBX_ERROR_DTYPE, "%d is not a dtype", (int)dtype);
        return false;
    }
    if (rank >= 0 && rank <= NBX_MAX_RANK) return true;
    nbx_fail(ctx, NBX_ERROR_SHAPE, "a tensor has 0 to %d dims, not %d", NBX_MAX_RANK, rank);
    return false;
}

nbx_tensor *nbx_tensor_new(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride,
                           int64_t offset, nbx_storage *storage) {
    if (!rank_is_valid(ctx, dtype, rank)) return NULL;
    if (rank && !shape) return nbx_fail(ctx, NBX_ERROR_SHAPE, "a tensor of %d dims is given no shape", rank), NULL;
    const int capacity = rank < 8 ? 8 : NBX_MAX_RANK;  // room for unsqueeze_ and the like
    const size_t bytes = sizeof(nbx_tensor) + 2 * sizeof(int64_t) * (size_t)capacity;
    nbx_tensor *t = nbx_alloc(bytes);
    if (!t) {
        nbx_fail_memory(ctx, bytes, "tensor descriptor");
        return NULL;
    }
    t->refs = 1;
    t->wrapped = false;
    t->capacity = (int16_t)capacity;
    t->shape = t->dims;
    t->stride = t->dims + capacity;
    t->storage = storage;
    if (!describe(ctx, t, dtype, rank, shape, stride, offset)) {
        nbx_free(t);
        return NULL;
    }
    if (storage) nbx_storage_retain(storage);
    return t;
}

bool nbx_tensor_become(nbx_context *ctx, nbx_tensor *t, nbx_dtype dtype, int rank, const int64_t *shape,
                       const int64_t *stride, int64_t offset, nbx_storage *storage) {
    if (!rank_is_valid(ctx, dtype, rank)) return false;
    if (rank > t->capacity) {
        nbx_fail(ctx, NBX_ERROR_SHAPE, "a tensor made with %d dims cannot become one of %d", t->capacity, rank);
        return false;
    }
    if (!describe(ctx, t, dtype, rank, shape, stride, offset)) return false;
    if (storage && storage != t->storage) {
        nbx_storage_retain(storage);
        nbx_storage_release(t->storage);
        t->storage = storage;
    }
    return true;
}

nbx_tensor *nbx_retain(const nbx_tensor *t) {
    nbx_tensor *own = (nbx_tensor *)t;
    if (t && t != NBX_NONE) __atomic_fetch_add(&own->refs, 1, __ATOMIC_RELAXED);
    return own;
}

void nbx_release(const nbx_tensor *t) {
    nbx_tensor *own = (nbx_tensor *)t;
    if (!t || t == NBX_NONE || __atomic_fetch_sub(&own->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    nbx_storage_release(own->storage);
    nbx_free(own);
}

nbx_dtype nbx_tensor_dtype(const nbx_tensor *t) { return (nbx_dtype)t->dtype; }
nbx_device nbx_tensor_device(const nbx_tensor *t) { return t->storage->device; }
int nbx_tensor_rank(const nbx_tensor *t) { return t->rank; }
const int64_t *nbx_tensor_shape(const nbx_tensor *t) { return t->shape; }
const int64_t *nbx_tensor_strides(const nbx_tensor *t) { return t->stride; }
int64_t nbx_tensor_numel(const nbx_tensor *t) { return t->numel; }
int64_t nbx_tensor_offset(const nbx_tensor *t) { return t->offset; }
size_t nbx_tensor_nbytes(const nbx_tensor *t) { return (size_t)t->numel * nbx_dtype_size((nbx_dtype)t->dtype); }
size_t nbx_tensor_storage_bytes(const nbx_tensor *t) { return t->storage->bytes; }
bool nbx_tensor_shares_storage(const nbx_tensor *a, const nbx_tensor *b) { return a->storage == b->storage; }
bool nbx_tensor_is_contiguous(const nbx_tensor *t, nbx_memory_format format) { return nbx_is_contiguous_format(t, format); }
void *nbx_tensor_data(const nbx_tensor *t) { return t->numel ? nbx_data(t) : NULL; }

int64_t nbx_tensor_size(const nbx_tensor *t, int dim) {
    const int d = dim < 0 ? dim + t->rank : dim;
    return d >= 0 && d < t->rank ? t->shape[d] : -1;
}
