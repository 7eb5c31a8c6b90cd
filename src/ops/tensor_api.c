// Public creation, wrapping, views and transport of tensors: what needs operators of its own (clone, copy_).
#include "core/context.h"
#include "core/memory.h"
#include "ops/op.h"

#include <string.h>

nbx_tensor *nbx_tensor_create_strided(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank, const int64_t *shape,
                                      const int64_t *strides) {
    nbx_tensor *t = nbx_tensor_new(ctx, dtype, rank, shape, strides, 0, NULL);
    if (!t) return NULL;
    const int64_t bytes = nbx_extent_bytes(dtype, rank, t->shape, t->stride, 0);
    if (bytes < 0) nbx_fail(ctx, NBX_ERROR_SHAPE, "strides reach beyond any memory, or are negative");
    else t->storage = nbx_storage_create(ctx, device, (size_t)bytes);
    if (t->storage) return nbx_scope_own(ctx, t);
    nbx_release(t);
    return NULL;
}

nbx_tensor *nbx_tensor_create(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape) {
    return nbx_tensor_create_strided(ctx, ctx->device, dtype, rank, shape, NULL);
}

nbx_tensor *nbx_tensor_from_host(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape, const void *elements) {
    nbx_tensor *t = nbx_tensor_create(ctx, dtype, rank, shape);
    if (!t || nbx_tensor_write(ctx, t, elements) != NBX_OK) return NULL;
    return t;
}

typedef struct wrapping {
    void (*release)(void *owner);
    void *owner;
} wrapping;

static void release_wrapped(nbx_storage *s) {
    wrapping *w = s->owner;
    if (w->release) w->release(w->owner);
    nbx_free(w);
}

static bool lies_on(nbx_device device, const void *data) {
    const nbx_backend *backend = nbx_backend_of(device.type);
    return backend && backend->reaches(device, data);
}

nbx_tensor *nbx_tensor_wrap(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank, const int64_t *shape,
                            const int64_t *strides, void *data, size_t storage_bytes, void (*release)(void *owner), void *owner) {
    nbx_tensor *t = nbx_tensor_new(ctx, dtype, rank, shape, strides, 0, NULL);
    if (!t) return NULL;
    const int64_t bytes = nbx_extent_bytes(dtype, rank, t->shape, t->stride, 0);
    wrapping *w = NULL;
    if (bytes < 0 || (uint64_t)bytes > storage_bytes || (bytes > 0 && !data))
        nbx_fail(ctx, NBX_ERROR_SHAPE, "the tensor reaches over %lld bytes, the memory holds %zu", (long long)bytes, storage_bytes);
    else if (bytes > 0 && device.type != NBX_CPU && !lies_on(device, data))
        nbx_fail(ctx, NBX_ERROR_DEVICE, "%p is no address that kernels on cuda:%d can read: the memory of a GPU is asked for", data, device.index);
    else if (!(w = nbx_alloc(sizeof *w))) nbx_fail_memory(ctx, sizeof *w, "wrapped tensor");
    else t->storage = nbx_storage_wrap(ctx, device, storage_bytes, data, release_wrapped, w);
    if (!t->storage) {
        nbx_free(w);
        nbx_release(t);
        return NULL;
    }
    *w = (wrapping){NULL, owner};
    t = nbx_scope_own(ctx, t);  // a failure here releases t, and must not call release
    if (t) w->release = release;
    return t;
}

// NULL is a failed expression, whose message stays; it may also have failed in another context.
static nbx_status null_given(nbx_context *ctx, const char *function) {
    return ctx->status != NBX_OK ? ctx->status : nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: the tensor is NULL", function);
}

nbx_tensor *nbx_tensor_view(nbx_context *ctx, const nbx_tensor *base, nbx_dtype dtype, int rank, const int64_t *shape,
                            const int64_t *strides, int64_t offset) {
    if (!base) return null_given(ctx, "nbx_tensor_view"), NULL;
    nbx_tensor *t = nbx_tensor_new(ctx, dtype, rank, shape, strides, offset, base->storage);
    if (!t) return NULL;
    const int64_t bytes = nbx_extent_bytes(dtype, rank, t->shape, t->stride, offset);
    if (bytes >= 0 && (uint64_t)bytes <= base->storage->bytes) return nbx_scope_own(ctx, t);
    nbx_fail(ctx, NBX_ERROR_SHAPE, "a view that reaches over %lld bytes does not fit into a storage of %zu", (long long)bytes,
             base->storage->bytes);
    nbx_release(t);
    return NULL;
}

static nbx_tensor *contiguous(nbx_context *ctx, const nbx_tensor *t) {
    return t->contiguous ? (nbx_tensor *)t : NBX_DO(ctx, "aten::clone", T(t), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT));
}

static bool same_device(nbx_device a, nbx_device b) { return a.type == b.type && a.index == b.index; }

nbx_tensor *nbx_tensor_to_device(nbx_context *ctx, const nbx_tensor *t, nbx_device device) {
    if (!t) return null_given(ctx, "nbx_tensor_to_device"), NULL;
    if (same_device(t->storage->device, device)) return nbx_scope_own(ctx, nbx_retain(t));
    const nbx_scope scope = nbx_scope_open(ctx);
    // As .to(device): a dense tensor keeps its strides, another the order of its dims.
    const nbx_tensor *dense = t->dense ? t : NBX_DO(ctx, "aten::clone", T(t), nbx_of_memory_format(NBX_PRESERVE_FORMAT));
    nbx_tensor *there = dense ? nbx_tensor_create_strided(ctx, device, (nbx_dtype)t->dtype, t->rank, t->shape, dense->stride) : NULL;
    if (there && nbx_copy_bytes(ctx, device, nbx_data(there), dense->storage->device, nbx_data(dense), nbx_tensor_nbytes(t)) != NBX_OK)
        there = NULL;
    return nbx_scope_close(ctx, scope, there);
}

nbx_status nbx_tensor_read(nbx_context *ctx, const nbx_tensor *t, void *elements) {
    if (!t) return null_given(ctx, "nbx_tensor_read");
    if (!elements && t->numel) return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "nbx_tensor_read: elements is NULL");
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *dense = contiguous(ctx, t);
    nbx_status status = dense ? NBX_OK : ctx->status;
    if (dense) status = nbx_copy_bytes(ctx, (nbx_device){NBX_CPU, 0}, elements, dense->storage->device, nbx_data(dense), nbx_tensor_nbytes(t));
    nbx_scope_close(ctx, scope, NULL);
    return status;
}

nbx_status nbx_tensor_write(nbx_context *ctx, const nbx_tensor *t, const void *elements) {
    if (!t) return null_given(ctx, "nbx_tensor_write");
    if (!elements && t->numel) return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "elements to copy from are NULL");
    const nbx_device host = {NBX_CPU, 0};
    if (t->contiguous) return nbx_copy_bytes(ctx, t->storage->device, nbx_data(t), host, elements, nbx_tensor_nbytes(t));
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_tensor *dense = nbx_tensor_create_strided(ctx, t->storage->device, (nbx_dtype)t->dtype, t->rank, t->shape, NULL);
    nbx_status status = dense ? nbx_tensor_write(ctx, dense, elements) : ctx->status;
    if (status == NBX_OK && !NBX_DO(ctx, "aten::copy_", T(t), T(dense))) status = ctx->status;
    nbx_scope_close(ctx, scope, NULL);
    return status;
}
