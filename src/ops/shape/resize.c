// Operators that give a tensor another size or another storage: resize_, set_ and their kin. The tensor's address stays.
// (squeeze_, transpose_ and the like are derived by the door from the views they are named after.)
#include "ops/shape/geometry.h"

#include <string.h>

static nbx_tensor *written(const nbx_op_call *c) { return (nbx_tensor *)arg_tensor(c, 0); }

static nbx_status become(nbx_op_call *c, nbx_dtype dtype, const nbx_geometry *g, nbx_storage *storage) {
    nbx_tensor *self = written(c);
    if (!nbx_tensor_become(c->ctx, self, dtype, g->rank, g->shape, g->stride, g->offset, storage)) return c->ctx->status;
    return out_tensor(c, 0, self);
}

static nbx_status same(nbx_op_call *c) { return out_tensor(c, 0, written(c)); }

// ------------------------------------------------------------------------------------------------------------ resize_
static nbx_status resize_to(nbx_op_call *c, int rank, const int64_t *shape, nbx_memory_format format) {
    nbx_tensor *self = written(c);
    nbx_geometry g = {.rank = rank, .offset = self->offset};
    if (rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    for (int d = 0; d < rank; d++) {
        g.shape[d] = shape[d];
        if (shape[d] < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is negative", (long long)shape[d], d);
    }
    if (format == NBX_PRESERVE_FORMAT)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "memory_format preserve has no meaning here");
    if ((format == NBX_CHANNELS_LAST && rank != 4) || (format == NBX_CHANNELS_LAST_3D && rank != 5))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "memory_format channels last does not fit rank %d", rank);
    if (format == NBX_CONTIGUOUS_FORMAT && nbx_shape_equal(rank, g.shape, self->rank, self->shape)) return same(c);
    nbx_strides_format(format, rank, g.shape, g.stride);
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)self->dtype, rank, g.shape, g.stride, g.offset);
    if (bytes < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more bytes than 63 bits can count");
    if (nbx_storage_grow(c->ctx, self->storage, (size_t)bytes) != NBX_OK) return c->ctx->status;
    return become(c, (nbx_dtype)self->dtype, &g, NULL);
}

static nbx_memory_format format_or(const nbx_op_call *c, int i, nbx_memory_format absent) {
    return c->args[i].kind == NBX_KIND_MEMORY_FORMAT ? c->args[i].as.memory_format : absent;
}

static nbx_status resize_in_place(nbx_op_call *c) {
    int rank;
    const int64_t *shape = arg_ints(c, 1, &rank);
    return resize_to(c, rank, shape, format_or(c, 2, NBX_CONTIGUOUS_FORMAT));
}

static nbx_status resize_as_in_place(nbx_op_call *c) {
    const nbx_tensor *like = arg_tensor(c, 1);
    nbx_memory_format format = format_or(c, 2, NBX_CONTIGUOUS_FORMAT);
    if (format == NBX_PRESERVE_FORMAT) format = nbx_suggest_memory_format(like);
    return resize_to(c, like->rank, like->shape, format);
}

// resize, resize_as: the same on a copy.
static nbx_status resize_copy(nbx_op_call *c) {
    nbx_value args[3] = {T(NBX_DO(c->ctx, "aten::clone", c->args[0])), c->args[1], c->args[2]};
    return nbx_give(c, 0, nbx_do(c->ctx, c->op->data, 3, args));
}

// --------------------------------------------------------------------------------------------------------------- set_
// The geometry that set gives self: nothing, another tensor's, or a stretch of a storage (a tensor stands for its storage).
static nbx_status set_empty_geometry(nbx_op_call *c, nbx_geometry *g, nbx_storage **storage) {
    *g = (nbx_geometry){.rank = 1, .shape = {0}, .stride = {1}};
    *storage = nbx_storage_create(c->ctx, nbx_device_of(written(c)), 0);
    return *storage ? NBX_OK : c->ctx->status;
}

static nbx_status set_tensor_geometry(nbx_op_call *c, nbx_geometry *g, nbx_storage **storage) {
    const nbx_tensor *source = arg_tensor(c, 1);
    if (source->dtype != written(c)->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "source is %s, self is %s", nbx_dtype_name((nbx_dtype)source->dtype),
                             nbx_dtype_name((nbx_dtype)written(c)->dtype));
    nbx_geometry_of(source, g);
    *storage = source->storage;
    nbx_storage_retain(*storage);
    return NBX_OK;
}

static nbx_status set_storage_geometry(nbx_op_call *c, nbx_geometry *g, nbx_storage **storage) {
    const nbx_tensor *source = arg_tensor(c, 1);
    const int64_t count = (int64_t)(source->storage->bytes / nbx_dtype_size((nbx_dtype)written(c)->dtype));
    *g = (nbx_geometry){.rank = 1, .shape = {count}, .stride = {1}};
    *storage = source->storage;
    nbx_storage_retain(*storage);
    return NBX_OK;
}

static nbx_status set_offset_geometry(nbx_op_call *c, nbx_geometry *g, nbx_storage **storage) {
    const nbx_tensor *source = arg_tensor(c, 1);
    int count, strides;
    const int64_t *size = arg_ints(c, 3, &count), *stride = arg_ints(c, 4, &strides);
    *g = (nbx_geometry){.rank = count, .offset = arg_int(c, 2)};
    if (count > NBX_MAX_RANK || (strides != 0 && strides != count))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d sizes and %d strides", count, strides);
    for (int d = 0; d < count; d++) {
        g->shape[d] = size[d];
        if (size[d] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "size %lld of dim %d is negative", (long long)size[d], d);
    }
    if (strides == 0) nbx_strides_contiguous(count, g->shape, g->stride);
    else memcpy(g->stride, stride, sizeof(int64_t) * (size_t)count);
    for (int d = 0; d < count; d++)
        if (g->stride[d] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "stride %lld of dim %d is negative", (long long)g->stride[d], d);
    const int64_t bytes = g->offset < 0 ? -1 : nbx_extent_bytes((nbx_dtype)written(c)->dtype, count, g->shape, g->stride, g->offset);
    if (bytes < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "offset %lld is out of range", (long long)g->offset);
    if (nbx_storage_grow(c->ctx, source->storage, (size_t)bytes) != NBX_OK) return c->ctx->status;
    *storage = source->storage;
    nbx_storage_retain(*storage);
    return NBX_OK;
}

typedef nbx_status (*set_geometry)(nbx_op_call *c, nbx_geometry *g, nbx_storage **storage);
typedef struct set_form { set_geometry geometry; } set_form;
static const set_form set_empty = {set_empty_geometry}, set_tensor = {set_tensor_geometry}, set_storage = {set_storage_geometry},
                      set_offset = {set_offset_geometry};

static nbx_status set_in_place(nbx_op_call *c) {
    nbx_geometry g;
    nbx_storage *storage = NULL;
    if (((const set_form *)c->op->data)->geometry(c, &g, &storage) != NBX_OK) return c->ctx->status;
    const nbx_status status = become(c, (nbx_dtype)written(c)->dtype, &g, storage);
    nbx_storage_release(storage);
    return status;
}

// set: the tensor that set_ would make of self.
static nbx_status set_functional(nbx_op_call *c) {
    nbx_geometry g;
    nbx_storage *storage = NULL;
    if (((const set_form *)c->op->data)->geometry(c, &g, &storage) != NBX_OK) return c->ctx->status;
    nbx_tensor *t = nbx_tensor_new(c->ctx, (nbx_dtype)written(c)->dtype, g.rank, g.shape, g.stride, g.offset, storage);
    nbx_storage_release(storage);
    return nbx_give(c, 0, t ? nbx_scope_own(c->ctx, t) : NULL);
}

enum { METADATA = NBX_OP_IN_PLACE | NBX_OP_EFFECT };

const nbx_op nbx_ops_resize[] = {
    {.name = "aten::detach_", .composite = same, .flags = METADATA},
    {.name = "aten::resize_", .composite = resize_in_place, .flags = METADATA},
    {.name = "aten::resize_as_", .composite = resize_as_in_place, .flags = METADATA},
    {.name = "aten::resize", .composite = resize_copy, .data = "aten::resize_"},
    {.name = "aten::resize_as", .composite = resize_copy, .data = "aten::resize_as_"},
    {.name = "aten::set_", .composite = set_in_place, .flags = METADATA, .data = &set_empty},
    {.name = "aten::set_.source_Tensor", .composite = set_in_place, .flags = METADATA, .data = &set_tensor},
    {.name = "aten::set_.source_Storage", .composite = set_in_place, .flags = METADATA, .data = &set_storage},
    {.name = "aten::set_.source_Storage_storage_offset", .composite = set_in_place, .flags = METADATA, .data = &set_offset},
    {.name = "aten::set_.source_Tensor_storage_offset", .composite = set_in_place, .flags = METADATA, .data = &set_offset},
    {.name = "aten::set", .composite = set_functional, .data = &set_empty},
    {.name = "aten::set.source_Tensor", .composite = set_functional, .data = &set_tensor},
    {.name = "aten::set.source_Storage", .composite = set_functional, .data = &set_storage},
    {.name = "aten::set.source_Storage_storage_offset", .composite = set_functional, .data = &set_offset},
    NBX_OPS_END,
};
