// Tensors as flat lists: element i of a tensor in the row-major order of a shape, whatever its strides; and the groups of
// dims that such a list is made of.
#ifndef NBX_CUDA_FLAT_CUH
#define NBX_CUDA_FLAT_CUH

#include "cuda/cuda.h"

enum { FLAT_DIMS = 16, FLAT_THREADS = 256 };

// Dims in row-major order, neighbours merged where strides allow. Strides in bytes.
typedef struct flat {
    char *data;
    int dtype, width, rank;  // rank 0: one element
    int64_t count, shape[FLAT_DIMS], stride[FLAT_DIMS];
} flat;

static inline nbx_status flat_push(nbx_op_call *c, flat *f, int64_t size, int64_t stride) {
    f->count *= size;
    if (size == 1) return NBX_OK;
    if (f->rank > 0 && f->stride[f->rank - 1] == stride * size) {
        f->shape[f->rank - 1] *= size;
        f->stride[f->rank - 1] = stride;
        return NBX_OK;
    }
    if (f->rank == FLAT_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", FLAT_DIMS);
    f->shape[f->rank] = size;
    f->stride[f->rank++] = stride;
    return NBX_OK;
}

static inline void flat_begin(flat *f, const nbx_tensor *t) {
    f->data = t->storage ? (char *)nbx_data(t) : NULL;
    f->dtype = t->dtype;
    f->width = (int)nbx_dtype_size((nbx_dtype)t->dtype);
    f->rank = 0;
    f->count = 1;
}

// The dims of t that `mask` names, in their order.
static inline nbx_status flat_of_dims(nbx_op_call *c, const nbx_tensor *t, uint64_t mask, flat *f) {
    nbx_status status = NBX_OK;
    flat_begin(f, t);
    for (int d = 0; d < t->rank && status == NBX_OK; d++)
        if (mask >> d & 1) status = flat_push(c, f, t->shape[d], t->stride[d] * f->width);
    return status;
}

static inline nbx_status flat_of(nbx_op_call *c, const nbx_tensor *t, flat *f) { return flat_of_dims(c, t, ~(uint64_t)0, f); }

// t broadcast to a shape.
static inline nbx_status flat_broadcast(nbx_op_call *c, const nbx_tensor *t, int rank, const int64_t *shape, flat *f) {
    nbx_status status = NBX_OK;
    flat_begin(f, t);
    for (int d = 0; d < rank && status == NBX_OK; d++) {
        const int own = d - (rank - t->rank);
        status = flat_push(c, f, shape[d], own < 0 || t->shape[own] == 1 ? 0 : t->stride[own] * f->width);
    }
    return status;
}

static inline unsigned flat_blocks(int64_t items) { return (unsigned)((items + FLAT_THREADS - 1) / FLAT_THREADS); }

#ifdef __CUDACC__
static __device__ __forceinline__ int64_t flat_offset(const flat &f, int64_t i) {
    if (f.rank == 0) return 0;
    int64_t offset = 0;
    for (int d = f.rank - 1; d > 0; d--) {
        const int64_t rest = quotient_of(i, f.shape[d]);
        offset += (i - rest * f.shape[d]) * f.stride[d];
        i = rest;
    }
    return offset + i * f.stride[0];
}
static __device__ __forceinline__ char *flat_at(const flat &f, int64_t i) { return f.data + flat_offset(f, i); }
static __device__ __forceinline__ int64_t flat_item() { return (int64_t)blockIdx.x * FLAT_THREADS + threadIdx.x; }

static __device__ __forceinline__ void copy_element(int width, char *to, const char *from) {
    switch (width) {
    case 1: *to = *from; break;
    case 2: *(uint16_t *)to = *(const uint16_t *)from; break;
    case 4: *(uint32_t *)to = *(const uint32_t *)from; break;
    case 8: *(uint64_t *)to = *(const uint64_t *)from; break;
    default: ((uint64_t *)to)[0] = ((const uint64_t *)from)[0], ((uint64_t *)to)[1] = ((const uint64_t *)from)[1]; break;
    }
}

// Exclusive sum over the threads of a block (a multiple of 32, at most 1024); *total is the sum of all. `room`: 33 words of
// shared memory. All threads must come here.
template <typename I> static __device__ __forceinline__ I block_before(I x, I *room, I *total) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, warps = (int)blockDim.x >> 5;
    I sum = x;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const I other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) room[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        I w = lane < warps ? room[lane] : 0;
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const I other = __shfl_up_sync(~0u, w, step);
            if (lane >= step) w += other;
        }
        room[lane] = w;
    }
    __syncthreads();
    *total = room[warps - 1];
    const I before = (warp ? room[warp - 1] : 0) + sum - x;
    __syncthreads();
    return before;
}
#endif

#endif
