// Copies, casts and fills on CUDA. The same dtype moves as bits: by vectors where rows are dense, through tiles of shared memory
// where source and destination run along different dims: lines of 128 bytes and more on both sides, 16 bytes at a time, or
// 32 x 32 elements where vectors do not fit. Casts go through the class that holds the source exactly.
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

// Tiles by vectors. A word of shared memory holds 4 / SIZE neighbours along dim 0, a row 32 words of each of ROUNDS; words lie in
// groups of 4 (a vector), swapped by the number of the source vector, so that neither side meets in a bank.
template <int SIZE> struct wide_tile {
    static constexpr int LANES = 16 / SIZE, PACK = 4 / SIZE, ROUNDS = SIZE == 4 ? 2 : 1, N0 = 32 * PACK * ROUNDS, N1 = 8 * LANES;
};

// word k of the result: byte (or 16-bit) k of every row's word; rows: PACK words of as many neighbours along dim 1
template <int SIZE> static __device__ __forceinline__ void transpose_words(const uint32_t (&in)[4 / SIZE], uint32_t (&out)[4 / SIZE]) {
    if constexpr (SIZE == 4) {
        out[0] = in[0];
    } else if constexpr (SIZE == 2) {
        out[0] = __byte_perm(in[0], in[1], 0x5410), out[1] = __byte_perm(in[0], in[1], 0x7632);
    } else {
        const uint32_t a = __byte_perm(in[0], in[1], 0x5140), b = __byte_perm(in[2], in[3], 0x5140);
        const uint32_t c = __byte_perm(in[0], in[1], 0x7362), d = __byte_perm(in[2], in[3], 0x7362);
        out[0] = __byte_perm(a, b, 0x5410), out[1] = __byte_perm(a, b, 0x7632);
        out[2] = __byte_perm(c, d, 0x5410), out[3] = __byte_perm(c, d, 0x7632);
    }
}

template <int SIZE> static __global__ void __launch_bounds__(256) move_wide_tiles(const __grid_constant__ tile_plan p) {
    typedef wide_tile<SIZE> T;
    __shared__ uint4 tile[T::N1][8 * T::ROUNDS];
    // Neighbouring blocks: 8 along dim 1, then along dim 0, so that longer lines are open on both sides.
    const int64_t plane = p.tiles0 * p.tiles1;
    int64_t at = blockIdx.x / plane;
    const int64_t in_plane = blockIdx.x - at * plane, band = in_plane / (8 * p.tiles0), in_band = in_plane - band * 8 * p.tiles0;
    const int64_t width = p.tiles1 - band * 8 < 8 ? p.tiles1 - band * 8 : 8, row = in_band / width;
    const int64_t t0 = row * T::N0, t1 = (band * 8 + in_band - row * width) * T::N1;
    const char *from = p.from;
    char *to = p.to;
    for (int d = 0; d < p.dims; d++) {
        const int64_t rest = at / p.size[d], i = at - rest * p.size[d];
        at = rest;
        from += i * p.from_stride[d];
        to += i * p.to_stride[d];
    }
    const int tid = (int)threadIdx.x, vector = tid % 8, word = tid / 8;  // of the source: 8 vectors of a line, words of lines
    const bool inside = t1 + vector * T::LANES < p.n1;
    uint4 in[T::ROUNDS][T::PACK];
    from += (t1 + vector * T::LANES) * SIZE;
#pragma unroll
    for (int k = 0; k < T::ROUNDS; k++)
#pragma unroll
        for (int i = 0; i < T::PACK; i++) {
            const int64_t at0 = t0 + (k * 32 + word) * T::PACK + i;
            in[k][i] = inside && at0 < p.n0 ? *(const uint4 *)(from + at0 * p.from0) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
    for (int k = 0; k < T::ROUNDS; k++)
#pragma unroll
        for (int w = 0; w < 4; w++) {
            uint32_t rows[T::PACK], columns[T::PACK];
#pragma unroll
            for (int i = 0; i < T::PACK; i++) rows[i] = w == 0 ? in[k][i].x : w == 1 ? in[k][i].y : w == 2 ? in[k][i].z : in[k][i].w;
            transpose_words<SIZE>(rows, columns);
#pragma unroll
            for (int i = 0; i < T::PACK; i++) {
                uint32_t *line = (uint32_t *)tile[vector * T::LANES + w * T::PACK + i];
                line[k * 32 + (word ^ vector * 4)] = columns[i];
            }
        }
    __syncthreads();
    enum { VECTORS = 8 * T::ROUNDS, EACH = T::N1 * VECTORS / 256 };
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int v = (k * 256 + tid) % VECTORS, line = (k * 256 + tid) / VECTORS;
        if (t1 + line >= p.n1 || t0 + v * T::LANES >= p.n0) continue;
        *(uint4 *)(to + (t1 + line) * p.to1 + (t0 + v * T::LANES) * SIZE) = tile[line][v ^ (line / T::LANES)];
    }
}

static bool wide_tiles_fit(const tile_plan &p, int64_t size) {
    const int64_t lanes = size <= 4 ? 16 / size : 1;
    bool fit = size <= 4 && p.n0 % lanes == 0 && p.n1 % lanes == 0 && (uintptr_t)p.to % 16 == 0 && (uintptr_t)p.from % 16 == 0 && p.to1 % 16 == 0 && p.from0 % 16 == 0;
    for (int d = 0; d < p.dims; d++) fit = fit && p.to_stride[d] % 16 == 0 && p.from_stride[d] % 16 == 0;
    return fit && p.n0 * size >= 64 && p.n1 * size >= 64;
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

static void launch_tiles(tile_plan p, size_t size, cudaStream_t stream) {
    const bool wide = wide_tiles_fit(p, (int64_t)size);
    const int64_t n0 = !wide ? TILE : size == 1 ? wide_tile<1>::N0 : size == 2 ? wide_tile<2>::N0 : wide_tile<4>::N0;
    const int64_t n1 = !wide ? TILE : size == 1 ? wide_tile<1>::N1 : size == 2 ? wide_tile<2>::N1 : wide_tile<4>::N1;
    p.tiles0 = (p.n0 + n0 - 1) / n0, p.tiles1 = (p.n1 + n1 - 1) / n1;
    int64_t blocks = p.tiles0 * p.tiles1;
    for (int d = 0; d < p.dims; d++) blocks *= p.size[d];
    const unsigned grid = (unsigned)blocks, threads = TILE * TILE_ROWS;
    switch (wide ? -(int)size : (int)size) {
    case -1: move_wide_tiles<1><<<grid, 256, 0, stream>>>(p); break;
    case -2: move_wide_tiles<2><<<grid, 256, 0, stream>>>(p); break;
    case -4: move_wide_tiles<4><<<grid, 256, 0, stream>>>(p); break;
    case 1: move_tiles<uint8_t><<<grid, threads, 0, stream>>>(p); break;
    case 2: move_tiles<uint16_t><<<grid, threads, 0, stream>>>(p); break;
    case 4: move_tiles<uint32_t><<<grid, threads, 0, stream>>>(p); break;
    case 8: move_tiles<uint2><<<grid, threads, 0, stream>>>(p); break;
    default: move_tiles<uint4><<<grid, threads, 0, stream>>>(p); break;
    }
}

// ----------------------------------------------------------------------------------------------------------------- rows
// Dense along the innermost dim on both sides: whole words of 16 bytes, two for a thread, whatever the dtype.
enum { ROW_WORDS = 2 };
static __global__ void __launch_bounds__(EWC_THREADS, 8) move_rows(const __grid_constant__ ewc_plan p) {
    const uint32_t first = blockIdx.x * (ROW_WORDS * EWC_THREADS) + threadIdx.x, items = (uint32_t)p.items;
    char *at[ROW_WORDS][2];
    bool whole[ROW_WORDS];
    uint4 words[ROW_WORDS];
#pragma unroll
    for (int t = 0; t < ROW_WORDS; t++) {
        const uint32_t item = first + t * EWC_THREADS;
        whole[t] = item < items && ewc_place(p, item, at[t]);
        if (whole[t]) words[t] = *(const uint4 *)at[t][1];
    }
#pragma unroll
    for (int t = 0; t < ROW_WORDS; t++)
        if (whole[t]) *(uint4 *)at[t][0] = words[t];
    if (p.whole == p.chunks) return;
#pragma unroll 1
    for (int t = 0; t < ROW_WORDS; t++) {  // ends of rows
        const uint32_t item = first + t * EWC_THREADS;
        if (item >= items || ewc_place(p, item, at[0])) continue;
        for (int i = 0; i < (int)(p.inner % 16); i++) at[0][0][i] = at[0][1][i];
    }
}

// The plan of a copy as one of bytes, in words of 16.
static bool launch_rows(ewc_plan p, size_t size, cudaStream_t stream) {
    const int64_t outer = p.items / p.chunks;
    bool fits = p.mode[0] == EWC_DENSE && p.mode[1] == EWC_DENSE && p.inner * (int64_t)size >= 16;
    for (int k = 0; k < 2; k++) {
        fits = fits && (uintptr_t)p.base[k] % 16 == 0;
        for (int d = 0; d < p.dims; d++) fits = fits && p.stride[k][d] % 16 == 0;
    }
    p.inner *= (int64_t)size;
    p.chunks = (p.inner + 15) / 16, p.items = p.chunks * outer;
    if (!fits || p.items >= (int64_t)1 << 31) return false;
    p.whole = (uint32_t)(p.inner / 16), p.by_chunks = ewc_divisor_of(p.chunks);
    p.jump[0] = p.jump[1] = 16;
    move_rows<<<(unsigned)((p.items + ROW_WORDS * EWC_THREADS - 1) / (ROW_WORDS * EWC_THREADS)), EWC_THREADS, 0, stream>>>(p);
    return true;
}

// --------------------------------------------------------------------------------------------------------------- copies
static void launch_cast(ewc_plan *p, nbx_dtype to, nbx_dtype from, bool clamp, cudaStream_t stream) {
    if (clamp && to == NBX_FLOAT16 && from != NBX_FLOAT16 && !nbx_dtype_is_complex(from)) ewc_launch<clamp_group, double>(*p, stream);
    else if (to == from) {
        if (launch_rows(*p, nbx_dtype_size(to), stream)) return;
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

// 16 bytes a thread, at once where they are aligned.
static __global__ void __launch_bounds__(256) set_bytes(char *to, size_t bytes, uint32_t word) {
    const size_t first = ((size_t)blockIdx.x * 256 + threadIdx.x) * 16;
    if (first + 16 <= bytes && (uintptr_t)to % 16 == 0) *(uint4 *)(to + first) = make_uint4(word, word, word, word);
    else
        for (size_t i = first; i < first + 16 && i < bytes; i++) to[i] = (char)word;
}

nbx_status nbx_cuda_set_bytes(nbx_op_call *c, void *to, int byte, size_t bytes) {
    if (bytes == 0) return NBX_OK;
    set_bytes<<<(unsigned)((bytes + 4095) / 4096), 256, 0, stream_of(c)>>>((char *)to, bytes, (uint32_t)(byte & 255) * 0x01010101u);
    return launch_status(c);
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
