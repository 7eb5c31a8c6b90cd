// nonzero and its forms, masked_select and masked_scatter on CUDA: one pass counts the true elements of blocks of 4096, the
// counts are added up, a second pass writes in order. A thread looks at 16 neighbours at once; what is true in a block is
// listed in shared memory first, so that results are written by neighbouring threads. What has as many results as there are true elements reads that number
// back; the others can be recorded.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

enum { COUNT_BLOCK = 4096, COUNT_EACH = COUNT_BLOCK / FLAT_THREADS };

static __device__ __forceinline__ bool is_true(int dtype, const char *p) {
    switch (dtype) {
    case NBX_BOOL:
    case NBX_UINT8:
    case NBX_INT8: return *p != 0;
    case NBX_FLOAT16:
    case NBX_BFLOAT16: return (*(const uint16_t *)p & 0x7fff) != 0;
    case NBX_FLOAT32: return (*(const uint32_t *)p & 0x7fffffff) != 0;
    case NBX_INT64: return *(const int64_t *)p != 0;
    default: return ewc_truth(ewc_load<cdouble>(dtype, p));
    }
}

// Bit k: the thread's element k in the block is true.
static __device__ __forceinline__ uint32_t true_bits(const flat &mask) {
    const int64_t first = (int64_t)blockIdx.x * COUNT_BLOCK + (int64_t)threadIdx.x * COUNT_EACH;
    const bool whole = first + COUNT_EACH <= mask.count, dense = mask.rank == 1 && mask.stride[0] == mask.width;
    uint32_t bits = 0;
    if (whole && dense && mask.width == 1 && (uintptr_t)mask.data % 16 == 0) {
        const uint4 word = *(const uint4 *)(mask.data + first);
        const uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
        for (int k = 0; k < COUNT_EACH; k++) bits |= (uint32_t)((words[k / 4] >> (k % 4 * 8) & 255) != 0) << k;
    } else if (whole && dense) {
#pragma unroll 4
        for (int k = 0; k < COUNT_EACH; k++) bits |= (uint32_t)is_true(mask.dtype, mask.data + (first + k) * mask.width) << k;
    } else {
        for (int k = 0; k < COUNT_EACH && first + k < mask.count; k++) bits |= (uint32_t)is_true(mask.dtype, flat_at(mask, first + k)) << k;
    }
    return bits;
}

// starts[b + 1] = true elements of block b
static __global__ void __launch_bounds__(FLAT_THREADS) count_blocks(const __grid_constant__ flat mask, int64_t *starts) {
    __shared__ int room[33];
    int total;
    block_before(__popc(true_bits(mask)), room, &total);
    if (threadIdx.x == 0) starts[blockIdx.x + 1] = total;
}

// One block: the counts become sums; starts[0] = 0, starts[blocks] is the number of all.
static __global__ void __launch_bounds__(1024) add_up(int64_t *starts, int64_t blocks) {
    __shared__ int64_t room[33];
    int64_t carry = 0, total;
    for (int64_t begin = 1; begin <= blocks; begin += 1024) {
        const int64_t i = begin + threadIdx.x, mine = i <= blocks ? starts[i] : 0;
        const int64_t before = block_before(mine, room, &total);
        if (i <= blocks) starts[i] = carry + before + mine;
        carry += total;
    }
    if (threadIdx.x == 0) starts[0] = 0;
}

// What becomes of the true elements: the n-th of them, at i.
typedef struct places_sink {
    int rank;
    int64_t *to, shape[FLAT_DIMS], row_step, column_step, limit;
    __device__ void put(int64_t n, int64_t i) const {
        if (n >= limit) return;
        for (int d = rank - 1; d >= 0; d--) {
            const int64_t rest = d == 0 ? 0 : (uint64_t)(i | shape[d]) >> 32 ? i / shape[d] : (int64_t)((uint32_t)i / (uint32_t)shape[d]);
            to[n * row_step + d * column_step] = i - rest * shape[d];
            i = rest;
        }
    }
} places_sink;

typedef struct select_sink {
    flat from;
    char *to;
    __device__ void put(int64_t n, int64_t i) const { copy_element(from.width, to + n * from.width, flat_at(from, i)); }
} select_sink;

typedef struct scatter_sink {
    flat to, source;
    nbx_fault_slot *fault;
    int op;
    __device__ void put(int64_t n, int64_t i) const {
        if (n < source.count) copy_element(to.width, flat_at(to, i), flat_at(source, n));
        else raise_fault(fault, op, NBX_FAULT_INDEX, n, source.count);
    }
} scatter_sink;

template <typename Sink> static __global__ void __launch_bounds__(FLAT_THREADS) write_true(const __grid_constant__ flat mask, const int64_t *starts, const __grid_constant__ Sink sink) {
    __shared__ int room[33];
    __shared__ uint16_t found[COUNT_BLOCK];
    uint32_t bits = true_bits(mask);
    int total, before = block_before(__popc(bits), room, &total);
    for (; bits; bits &= bits - 1) found[before++] = (uint16_t)(threadIdx.x * COUNT_EACH + __ffs((int)bits) - 1);
    __syncthreads();
    const int64_t at = starts[blockIdx.x], first = (int64_t)blockIdx.x * COUNT_BLOCK;
    for (int n = (int)threadIdx.x; n < total; n += FLAT_THREADS) sink.put(at + n, first + found[n]);
}

static int64_t blocks_of(int64_t count) { return (count + COUNT_BLOCK - 1) / COUNT_BLOCK; }

static void count_all(const flat &mask, int64_t *starts, cudaStream_t stream) {
    const int64_t blocks = blocks_of(mask.count);
    if (blocks) count_blocks<<<(unsigned)blocks, FLAT_THREADS, 0, stream>>>(mask, starts);
    add_up<<<1, 1024, 0, stream>>>(starts, blocks);
}

template <typename Sink> static nbx_status write_all(nbx_op_call *c, const flat &mask, const int64_t *starts, const Sink &sink) {
    if (mask.count) write_true<Sink><<<(unsigned)blocks_of(mask.count), FLAT_THREADS, 0, stream_of(c)>>>(mask, starts, sink);
    return launch_status(c);
}

// ------------------------------------------------------------------------------------- results of as many as are true
// Counts; fills *starts (device memory of the scope) and *found.
static nbx_status count_and_read(nbx_op_call *c, const flat &mask, const int64_t **starts, int64_t *found) {
    const int64_t blocks = blocks_of(mask.count), shape = blocks + 1;
    const nbx_tensor *counts = nbx_new(c->ctx, c->device, NBX_INT64, 1, &shape);
    if (!counts) return c->ctx->status;
    int64_t *data = (int64_t *)nbx_data(counts);
    c->stream = c->ctx->stream;
    count_all(mask, data, stream_of(c));
    device_view last;
    last.shape[0] = 1, last.stride[0] = 1;
    last.storage = *counts->storage;
    nbx_tensor *one = (nbx_tensor *)view_of(&last, data + blocks, NBX_INT64, 1);
    one->contiguous = one->dense = true;
    last.storage.device = c->device;
    *starts = data;
    const nbx_status status = launch_status(c);
    return status == NBX_OK ? nbx_tensor_read(c->ctx, one, found) : status;
}

// [found, rank], stored by columns as ATen does.
static nbx_tensor *places_of(nbx_op_call *c, const nbx_tensor *self) {
    flat mask;
    const int64_t *starts;
    int64_t shape[2] = {self->rank, 0};
    if (self->rank > FLAT_DIMS) {
        nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims on CUDA", FLAT_DIMS);
        return NULL;
    }
    if (flat_of(c, self, &mask) != NBX_OK || count_and_read(c, mask, &starts, &shape[1]) != NBX_OK) return NULL;
    nbx_tensor *columns = nbx_new(c->ctx, c->device, NBX_INT64, 2, shape);
    if (!columns) return NULL;
    places_sink sink = {};
    sink.rank = self->rank, sink.to = (int64_t *)nbx_data(columns), sink.row_step = 1, sink.column_step = shape[1], sink.limit = INT64_MAX;
    for (int d = 0; d < self->rank; d++) sink.shape[d] = self->shape[d];
    if (columns->numel && write_all(c, mask, starts, sink) != NBX_OK) return NULL;
    const nbx_value args[] = {nbx_of_tensor(columns), nbx_of_int(0), nbx_of_int(1)};
    return nbx_do(c->ctx, "aten::transpose.int", 3, args);
}

static nbx_status give(nbx_op_call *c, const nbx_tensor *t) { return t ? out_tensor(c, 0, t) : c->ctx->status; }

static nbx_status nonzero_cuda(nbx_op_call *c) { return give(c, places_of(c, arg_tensor(c, 0))); }

// nonzero_numpy, where(condition): one vector for each dim; a 0-dim tensor counts as a vector.
static nbx_status nonzero_columns_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank == 0) {
        const nbx_value args[] = {nbx_of_tensor(self), nbx_of_int(0)};
        self = nbx_do(c->ctx, "aten::unsqueeze", 2, args);
    }
    const nbx_tensor *places = self ? places_of(c, self) : NULL;
    if (!places) return c->ctx->status;
    const nbx_value args[] = {nbx_of_tensor(places), nbx_of_int(1)};
    return nbx_forward(c, "aten::unbind.int", 2, args);
}

static nbx_status masked_select_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    int rank = 0;
    int64_t shape[NBX_MAX_RANK], found;
    const int64_t *starts;
    flat truth;
    select_sink sink;
    if (mask->dtype != NBX_BOOL && mask->dtype != NBX_UINT8)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask must be bool, not %s", nbx_dtype_rows[mask->dtype].name);
    nbx_status status = nbx_broadcast(c, &rank, shape, self->rank, self->shape);
    if (status == NBX_OK) status = nbx_broadcast(c, &rank, shape, mask->rank, mask->shape);
    if (status == NBX_OK) status = flat_broadcast(c, mask, rank, shape, &truth);
    if (status == NBX_OK) status = flat_broadcast(c, self, rank, shape, &sink.from);
    if (status == NBX_OK) status = count_and_read(c, truth, &starts, &found);
    if (status != NBX_OK) return status;
    const nbx_tensor *out = nbx_new(c->ctx, c->device, (nbx_dtype)self->dtype, 1, &found);
    if (!out) return c->ctx->status;
    sink.to = (char *)nbx_data(out);
    status = found ? write_all(c, truth, starts, sink) : NBX_OK;
    return status == NBX_OK ? out_tensor(c, 0, out) : status;
}

// ---------------------------------------------------------------------------------------------------- results of a fixed size
// scratch holds the block starts.
static __global__ void __launch_bounds__(FLAT_THREADS) fill_rest(int64_t *to, int64_t columns, int64_t count, const int64_t *found, int64_t value) {
    const int64_t i = flat_item();
    if (i < count && i >= *found * columns) to[i] = value;
}

static nbx_status nonzero_static_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    flat mask;
    places_sink sink = {};
    if (out->numel == 0) return NBX_OK;
    if (self->rank > FLAT_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims on CUDA", FLAT_DIMS);
    nbx_status status = flat_of(c, self, &mask);
    if (status != NBX_OK) return status;
    int64_t *starts = (int64_t *)c->scratch;
    count_all(mask, starts, stream_of(c));
    sink.rank = self->rank, sink.to = (int64_t *)nbx_data(out), sink.row_step = self->rank, sink.column_step = 1, sink.limit = out->shape[0];
    for (int d = 0; d < self->rank; d++) sink.shape[d] = self->shape[d];
    status = write_all(c, mask, starts, sink);
    fill_rest<<<flat_blocks(out->numel), FLAT_THREADS, 0, stream_of(c)>>>(sink.to, self->rank, out->numel, starts + blocks_of(mask.count), arg_int(c, 2));
    return status == NBX_OK ? launch_status(c) : status;
}

static nbx_status masked_scatter_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *source = arg_tensor(c, 2), *out = out_get(c, 0);
    flat truth, from;
    scatter_sink sink;
    if (out->numel == 0) return NBX_OK;
    nbx_status status = flat_broadcast(c, mask, out->rank, out->shape, &truth);
    if (status == NBX_OK) status = flat_broadcast(c, self, out->rank, out->shape, &from);
    if (status == NBX_OK) status = flat_of(c, out, &sink.to);
    if (status == NBX_OK) status = flat_of(c, source, &sink.source);
    if (status != NBX_OK) return status;
    sink.fault = nbx_cuda_fault_slot(c, &sink.op);
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) {
        device_view v;
        for (int d = 0; d < out->rank; d++) {
            v.shape[d] = out->shape[d];
            v.stride[d] = nbx_broadcast_stride(self, out->rank, d);
        }
        status = nbx_cuda_copy(c, out, view_of(&v, nbx_data(self), (nbx_dtype)self->dtype, out->rank));
        if (status != NBX_OK) return status;
    }
    int64_t *starts = (int64_t *)c->scratch;
    count_all(truth, starts, stream_of(c));
    return write_all(c, truth, starts, sink);
}

NBX_CUDA_KERNEL("aten::nonzero", nonzero_cuda)
NBX_CUDA_KERNEL("aten::argwhere", nonzero_cuda)
NBX_CUDA_KERNEL("aten::nonzero_numpy", nonzero_columns_cuda)
NBX_CUDA_KERNEL("aten::where", nonzero_columns_cuda)
NBX_CUDA_KERNEL("aten::masked_select", masked_select_cuda)
NBX_CUDA_KERNEL("aten::nonzero_static", nonzero_static_cuda)
NBX_CUDA_KERNEL("aten::masked_scatter", masked_scatter_cuda)
