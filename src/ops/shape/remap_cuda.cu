// Elements taken from other positions on CUDA: padding, flips, triangles; and cat, which is copies into parts of the result.
#include "ops/elementwise/engine.cuh"

#include <string.h>

enum { MAP_DIMS = 12, MAP_THREADS = 256 };

enum { MAP_PLAIN, MAP_CONSTANT, MAP_REFLECT, MAP_REPLICATE, MAP_FLIP };

typedef struct map_call {
    const char *from;
    char *to;
    char value[16];  // where nothing is taken
    int width, rank;
    int64_t count;
    int64_t shape[MAP_DIMS], to_stride[MAP_DIMS], from_stride[MAP_DIMS], before[MAP_DIMS], size[MAP_DIMS];
    uint8_t mode[MAP_DIMS];
    int triangle;    // 0 none, 1 lower, 2 upper: of the last two dims
    int64_t diagonal;
} map_call;

static __global__ void __launch_bounds__(MAP_THREADS) map_elements(const __grid_constant__ map_call p) {
    int64_t item = (int64_t)blockIdx.x * MAP_THREADS + threadIdx.x;
    if (item >= p.count) return;
    const char *from = p.from;
    char *to = p.to;
    bool taken = true;
    int64_t row = 0, column = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
        const int64_t rest = quotient_of(item, p.shape[d]), i = item - rest * p.shape[d];
        item = rest;
        int64_t at = i - p.before[d];
        const int64_t size = p.size[d];
        switch (p.mode[d]) {
        case MAP_CONSTANT: taken = taken && at >= 0 && at < size; break;
        case MAP_REFLECT:
            at = at < 0 ? -at : at;
            at = at >= size ? 2 * (size - 1) - at : at;
            break;
        case MAP_REPLICATE: at = at < 0 ? 0 : at >= size ? size - 1 : at; break;
        case MAP_FLIP: at = size - 1 - i; break;
        default: break;
        }
        if (d == p.rank - 1) column = i;
        if (d == p.rank - 2) row = i;
        from += at * p.from_stride[d];
        to += i * p.to_stride[d];
    }
    if (p.triangle == 1) taken = column - row <= p.diagonal;
    if (p.triangle == 2) taken = column - row >= p.diagonal;
    if (!taken) from = p.value;
    switch (p.width) {
    case 1: *to = *from; break;
    case 2: *(uint16_t *)to = *(const uint16_t *)from; break;
    case 4: *(uint32_t *)to = *(const uint32_t *)from; break;
    case 8: *(uint64_t *)to = *(const uint64_t *)from; break;
    default: ((uint64_t *)to)[0] = ((const uint64_t *)from)[0], ((uint64_t *)to)[1] = ((const uint64_t *)from)[1]; break;
    }
}

static nbx_status begin(nbx_op_call *c, map_call *p) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    if (out->rank > MAP_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims on CUDA", MAP_DIMS);
    memset(p, 0, sizeof *p);
    p->width = (int)nbx_dtype_size((nbx_dtype)out->dtype);
    p->from = (const char *)nbx_data(self), p->to = (char *)nbx_data(out);
    p->rank = out->rank, p->count = out->numel;
    for (int d = 0; d < out->rank; d++) {
        p->shape[d] = out->shape[d], p->size[d] = self->shape[d];
        p->to_stride[d] = out->stride[d] * p->width, p->from_stride[d] = self->stride[d] * p->width;
    }
    return NBX_OK;
}

static nbx_status finish(nbx_op_call *c, const map_call *p) {
    if (p->count) map_elements<<<(unsigned)((p->count + MAP_THREADS - 1) / MAP_THREADS), MAP_THREADS, 0, stream_of(c)>>>(*p);
    return launch_status(c);
}

static nbx_status pad_with(nbx_op_call *c, int mode) {
    map_call p;
    const nbx_status status = begin(c, &p);
    if (status != NBX_OK) return status;
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    for (int i = 0; i < count / 2; i++) {
        p.before[p.rank - 1 - i] = pad[2 * i];
        p.mode[p.rank - 1 - i] = (uint8_t)mode;
    }
    if (mode == MAP_CONSTANT) ew_store_number((nbx_dtype)out_get(c, 0)->dtype, p.value, &c->args[2]);
    return finish(c, &p);
}
static nbx_status constant_pad_cuda(nbx_op_call *c) { return pad_with(c, MAP_CONSTANT); }
static nbx_status reflection_pad_cuda(nbx_op_call *c) { return pad_with(c, MAP_REFLECT); }
static nbx_status replication_pad_cuda(nbx_op_call *c) { return pad_with(c, MAP_REPLICATE); }

static nbx_status flip_cuda(nbx_op_call *c) {
    map_call p;
    uint64_t mask;
    nbx_status status = begin(c, &p);
    if (status == NBX_OK) status = nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, false, &mask);
    if (status != NBX_OK) return status;
    for (int d = 0; d < p.rank && d < MAP_DIMS; d++)  // begin() has refused more dims, which GCC does not see
        if (mask >> d & 1) p.mode[d] = MAP_FLIP;
    return finish(c, &p);
}

static nbx_status triangle(nbx_op_call *c, int which) {
    map_call p;
    const nbx_status status = begin(c, &p);
    if (status != NBX_OK) return status;
    p.triangle = which;
    p.diagonal = arg_int(c, 1);
    return finish(c, &p);
}
static nbx_status tril_cuda(nbx_op_call *c) { return triangle(c, 1); }
static nbx_status triu_cuda(nbx_op_call *c) { return triangle(c, 2); }

// cat(tensors, dim): each into its part of the result.
static nbx_status cat_cuda(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const nbx_tensor *out = out_get(c, 0);
    const int d = (int)arg_int(c, 1);
    int64_t start = 0;
    if (out->numel == 0) return NBX_OK;
    for (int k = 0; k < count; k++) {
        if (list[k]->rank == 1 && list[k]->shape[0] == 0) continue;
        nbx_tensor part = *out;
        part.shape = list[k]->shape;
        part.numel = list[k]->numel;
        part.offset = out->offset + start * out->stride[d];
        part.contiguous = part.dense = false;
        start += list[k]->shape[d];
        const nbx_status status = part.numel ? nbx_cuda_copy(c, &part, list[k]) : NBX_OK;
        if (status != NBX_OK) return status;
    }
    return NBX_OK;
}

NBX_CUDA_KERNEL("aten::constant_pad_nd", constant_pad_cuda)
NBX_CUDA_KERNEL("aten::reflection_pad1d", reflection_pad_cuda)
NBX_CUDA_KERNEL("aten::reflection_pad2d", reflection_pad_cuda)
NBX_CUDA_KERNEL("aten::reflection_pad3d", reflection_pad_cuda)
NBX_CUDA_KERNEL("aten::replication_pad1d", replication_pad_cuda)
NBX_CUDA_KERNEL("aten::replication_pad2d", replication_pad_cuda)
NBX_CUDA_KERNEL("aten::replication_pad3d", replication_pad_cuda)
NBX_CUDA_KERNEL("aten::flip", flip_cuda)
NBX_CUDA_KERNEL("prims::rev", flip_cuda)
NBX_CUDA_KERNEL("aten::tril", tril_cuda)
NBX_CUDA_KERNEL("aten::triu", triu_cuda)
NBX_CUDA_KERNEL("aten::cat", cat_cuda)
