// Copies, casts and fills on CUDA. The same dtype moves as bits: by the elementwise engine's vectors where rows are dense,
// through 32 x 32 tiles of shared memory where source and destination run along different dims. Casts go through the class
// that holds the source exactly.
#include "ops/elementwise/engine.cuh"

#include <string.h>

// ----------------------------------------------------------------------------------------------------- casts and moves
struct identity_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_ALL };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = x[0][i];
    }
};

// float16 with finite values limited to +-65504 (context option clamp_half).
struct clamp_group {
    enum { INPUTS = 1, OUTPUTS = 1, CLASSES = EWC_F64 };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[1][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = isfinite(x[0][i]) ? fmin(fmax(x[0][i], (C)-65504), (C)65504) : x[0][i];
    }
};

static nbx_dtype bits_of(nbx_dtype dtype) {  // an integer dtype of the same size
    switch (nbx_dtype_size(dtype)) {
    case 1: return NBX_UINT8;
    case 2: return NBX_INT16;
    case 4: return NBX_INT32;
    case 8: return NBX_INT64;
    default: return NBX_COMPLEX128;
    }
}

// ---------------------------------------------------------------------------------------------------------------- tiles
enum { TILE = 32, TILE_ROWS = 8, TILE_DIMS = 10 };

typedef struct tile_plan {
    char *to;
    const char *from;
    int64_t n0, n1;                 // dim 0 is dense in the destination, dim 1 in the source
    int64_t to1, from0;             // bytes along dim 1 of the destination, along dim 0 of the source
    int64_t tiles0, tiles1;
    int dims;
    int64_t size[TILE_DIMS], to_stride[TILE_DIMS], from_stride[TILE_DIMS];
} tile_plan;

template <typename E> static __global__ void __launch_bounds__(TILE *TILE_ROWS) move_tiles(const __grid_constant__ tile_plan p) {
    __shared__ E tile[TILE][TILE + 1];
    int64_t at = blockIdx.x;
    const int64_t t0 = at % p.tiles0 * TILE;
    at /= p.tiles0;
    const int64_t t1 = at % p.tiles1 * TILE;
    at /= p.tiles1;
    const char *from = p.from;
    char *to = p.to;
    for (int d = 0; d < p.dims; d++) {
        const int64_t i = at % p.size[d];
        at /= p.size[d];
        from += i * p.from_stride[d];
        to += i * p.to_stride[d];
    }
    const int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_ROWS)
        if (t1 + tx < p.n1 && t0 + ty + j < p.n0) tile[ty + j][tx] = *(const E *)(from + (t0 + ty + j) * p.from0 + (t1 + tx) * (int64_t)sizeof(E));
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILE; j += TILE_ROWS)
        if (t0 + tx < p.n0 && t1 + ty + j < p.n1) *(E *)(to + (t1 + ty + j) * p.to1 + (t0 + tx) * (int64_t)sizeof(E)) = tile[tx][ty + j];
}

// Is it a transposition? Then dim 0 is dense in `to`, and another one dense in `from`.
static bool plan_tiles(const nbx_tensor *to, const nbx_tensor *from, tile_plan *p) {
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)to->dtype);
    const nbx_tensor *tensors[2] = {to, from};
    nbx_iter it;
    nbx_iter_plan(&it, to->rank, to->shape, 2, tensors);
    int other = -1;
    for (int d = 1; d < it.rank; d++)
        if (it.dim[d].stride[1] == size && it.dim[d].size > 1) other = d;
    if (other < 0 || it.dim[0].stride[0] != size || it.dim[0].stride[1] == size || it.dim[0].stride[1] == 0 || it.rank - 2 > TILE_DIMS ||
        it.dim[0].size < 8 || it.dim[other].size < 8)
        return false;
    p->to = (char *)nbx_data(to);
    p->from = (const char *)nbx_data(from);
    p->n0 = it.dim[0].size;
    p->n1 = it.dim[other].size;
    p->from0 = it.dim[0].stride[1];
    p->to1 = it.dim[other].stride[0];
    p->tiles0 = (p->n0 + TILE - 1) / TILE;
    p->tiles1 = (p->n1 + TILE - 1) / TILE;
    p->dims = 0;
    int64_t blocks = p->tiles0 * p->tiles1;
    for (int d = 1; d < it.rank; d++) {
        if (d == other) continue;
        p->size[p->dims] = it.dim[d].size;
        p->to_stride[p->dims] = it.dim[d].stride[0];
        p->from_stride[p->dims++] = it.dim[d].stride[1];
        blocks *= it.dim[d].size;
    }
    return blocks <= 0x7fffffff;
}

static void launch_tiles(const tile_plan &p, size_t size, cudaStream_t stream) {
    int64_t blocks = p.tiles0 * p.tiles1;
    for (int d = 0; d < p.dims; d++) blocks *= p.size[d];
    const unsigned grid = (unsigned)blocks, threads = TILE * TILE_ROWS;
    switch (size) {
    case 1: move_tiles<uint8_t><<<grid, threads, 0, stream>>>(p); break;
    case 2: move_tiles<uint16_t><<<grid, threads, 0, stream>>>(p); break;
    case 4: move_tiles<uint32_t><<<grid, threads, 0, stream>>>(p); break;
    case 8: move_tiles<uint2><<<grid, threads, 0, stream>>>(p); break;
    default: move_tiles<uint4><<<grid, threads, 0, stream>>>(p); break;
    }
}

// --------------------------------------------------------------------------------------------------------------- copies
static void launch_cast(ewc_plan *p, nbx_dtype to, nbx_dtype from, bool clamp, cudaStream_t stream) {
    if (clamp && to == NBX_FLOAT16 && from != NBX_FLOAT16 && !nbx_dtype_is_complex(from)) ewc_launch<clamp_group, double>(*p, stream);
    else if (to == from) {
        const nbx_dtype bits = bits_of(to);
        p->dtype[0] = p->dtype[1] = (uint8_t)bits;
        if (bits == NBX_COMPLEX128) ewc_launch<identity_group, cdouble>(*p, stream);
        else ewc_launch<identity_group, int64_t>(*p, stream);
    } else if (nbx_dtype_is_complex(from) && nbx_dtype_is_complex(to)) ewc_launch<identity_group, cdouble>(*p, stream);
    else if (nbx_dtype_is_complex(from)) ewc_launch<identity_group, cdouble>(*p, stream);
    else if (from == NBX_FLOAT64 || (from == NBX_UINT64 && nbx_dtype_is_float(to))) ewc_launch<identity_group, double>(*p, stream);
    else if (nbx_dtype_is_float(from)) ewc_launch<identity_group, float>(*p, stream);
    else ewc_launch<identity_group, int64_t>(*p, stream);
}

static bool same_dense_layout(const nbx_tensor *a, const nbx_tensor *b) {
    if (!a->dense || a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->stride[d] != b->stride[d])) return false;
    return true;
}

static bool captured(cudaStream_t stream) {  // into a graph, which takes kernels only
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

nbx_status nbx_cuda_copy(nbx_op_call *c, const nbx_tensor *to, const nbx_tensor *from) {
    const nbx_tensor *tensors[2] = {to, from};
    cudaStream_t stream = stream_of(c);
    tile_plan tiles;
    if (to->numel == 0) return NBX_OK;
    if (to->dtype == from->dtype && same_dense_layout(to, from) && !captured(stream))
        return nbx_cuda_status(c, cudaMemcpyAsync(nbx_data(to), nbx_data(from), (size_t)to->numel * nbx_dtype_size((nbx_dtype)to->dtype),
                                                  cudaMemcpyDeviceToDevice, stream));
    if (to->dtype == from->dtype && plan_tiles(to, from, &tiles)) {
        launch_tiles(tiles, nbx_dtype_size((nbx_dtype)to->dtype), stream);
        return launch_status(c);
    }
    ewc_plan p;
    bool empty;
    const nbx_status status = ewc_plan_operands(c, 1, 2, tensors, &p, &empty);
    if (status != NBX_OK || empty) return status;
    p.compute = NBX_FLOAT32;
    launch_cast(&p, (nbx_dtype)to->dtype, (nbx_dtype)from->dtype, c->ctx->clamp_half, stream);
    return launch_status(c);
}

static nbx_status copy_any(nbx_op_call *c, const nbx_tensor *from) {
    const nbx_tensor *to = out_get(c, 0);
    if (to == from) return NBX_OK;
    const nbx_device a = to->storage->device, b = from->storage->device;
    if (a.type == NBX_CUDA && b.type == NBX_CUDA && a.index == b.index) return nbx_cuda_copy(c, to, from);
    return nbx_copy_tensor(c->ctx, to, from);
}

static nbx_status copy_self_cuda(nbx_op_call *c) { return copy_any(c, arg_tensor(c, 0)); }
static nbx_status copy_source_cuda(nbx_op_call *c) { return copy_any(c, arg_tensor(c, 1)); }

NBX_CUDA_KERNEL("aten::copy", copy_source_cuda)
NBX_CUDA_KERNEL("aten::clone", copy_self_cuda)
NBX_CUDA_KERNEL("aten::_to_copy", copy_self_cuda)

// ---------------------------------------------------------------------------------------------------------------- fills
// out = one element of any dtype, of the host (a number) or of the device.
static __global__ void __launch_bounds__(256) fill_words(uint4 *to, int64_t count, uint4 word) {
    const int64_t first = (int64_t)blockIdx.x * 1024 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (first + i * 256 < count) to[first + i * 256] = word;
}

// Dense memory of whole words, with one element over and over.
static bool fill_dense(const nbx_tensor *to, const nbx_value *number, cudaStream_t stream) {
    const size_t size = nbx_dtype_size((nbx_dtype)to->dtype);
    const int64_t words = to->numel * (int64_t)size / 16;
    union { double room[2]; char bytes[16]; uint4 word; } pattern;
    if (!to->dense || (uintptr_t)nbx_data(to) % 16 || to->numel * (int64_t)size % 16 || words == 0 || words > (int64_t)0x7fffffff * 1024) return false;
    ew_store_number((nbx_dtype)to->dtype, pattern.room, number);
    for (size_t i = size; i < 16; i++) pattern.bytes[i] = pattern.bytes[i - size];
    fill_words<<<(unsigned)((words + 1023) / 1024), 256, 0, stream>>>((uint4 *)nbx_data(to), words, pattern.word);
    return true;
}

nbx_status nbx_cuda_fill(nbx_op_call *c, const nbx_value *number, const nbx_tensor *value) {
    const nbx_tensor *to = out_get(c, 0);
    const nbx_tensor *tensors[2] = {to, value};
    ewc_plan p;
    bool empty;
    if (!value && fill_dense(to, number, stream_of(c))) return launch_status(c);
    const nbx_status status = ewc_plan_operands(c, 1, 2, tensors, &p, &empty);
    if (status != NBX_OK || empty) return status;
    nbx_dtype from = (nbx_dtype)to->dtype;
    if (value) {
        from = (nbx_dtype)value->dtype;
    } else {
        ew_store_number(from, p.value[0], number);
        from = bits_of(from);
        p.dtype[0] = p.value_dtype[0] = (uint8_t)from;
        if (from == NBX_COMPLEX128) ewc_launch<identity_group, cdouble>(p, stream_of(c));
        else ewc_launch<identity_group, int64_t>(p, stream_of(c));
        return launch_status(c);
    }
    p.compute = NBX_FLOAT32;
    launch_cast(&p, (nbx_dtype)to->dtype, from, false, stream_of(c));
    return launch_status(c);
}

static nbx_status fill_cuda(nbx_op_call *c) {
    const nbx_tensor *value = arg_tensor(c, 1);
    if (!value || value->storage->device.type == NBX_CUDA) return nbx_cuda_fill(c, &c->args[1], value);
    nbx_value number = nbx_of_none();
    const void *at = nbx_data(value);
    if (value->dtype == NBX_INT64) number = nbx_of_int(*(const int64_t *)at);
    else if (value->dtype == NBX_FLOAT64) number = nbx_of_float(*(const double *)at);
    else if (value->dtype == NBX_FLOAT32) number = nbx_of_float(*(const float *)at);
    else if (value->dtype == NBX_BOOL) number = nbx_of_bool(*(const bool *)at);
    else return nbx_copy_tensor(c->ctx, out_get(c, 0), value);
    return nbx_cuda_fill(c, &number, NULL);
}

static nbx_status zero_cuda(nbx_op_call *c) {
    const nbx_value zero = nbx_of_int(0);
    return nbx_cuda_fill(c, &zero, NULL);
}

NBX_CUDA_KERNEL("aten::fill.Scalar", fill_cuda)
NBX_CUDA_KERNEL("aten::fill.Tensor", fill_cuda)
NBX_CUDA_KERNEL("aten::zero", zero_cuda)
