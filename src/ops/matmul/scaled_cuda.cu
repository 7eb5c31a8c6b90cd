// Products of float8 matrices with scales on CUDA: tensor cores of float8 (sm_89 and up) where both matrices are dense along k,
// else each element is widened to float16, which holds it exactly, on the way into shared memory. Scales, bias and the
// rounding of the result are applied as a tile is stored.
#include "cuda/mma.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/matmul/scaled.h"

typedef mma_tile<128, 64, 64, 3, 2, 2, 2> Tile;  // two sets of sums a thread leave registers for two blocks

// A matrix: m or n lines along k.
typedef struct lines_of {
    const void *data;
    int64_t step, along;  // from line to line, along k
    int count;
    __nv_fp8_interpretation_t format;
} lines_of;
// One scale, or one for every line.
typedef struct scale_of {
    const char *data;
    int64_t step;
    int dtype;
} scale_of;
typedef struct scaled_call {
    lines_of a, b;
    scale_of scale_a, scale_b, bias, result;  // bias, result: data may be NULL
    char *y;
    int k, tiles_m, tiles_n, dtype;
} scaled_call;

static __device__ __forceinline__ float number_of(const scale_of &s, int64_t i) {
    return ewc_load<float>(s.dtype, s.data + i * s.step * nbx_cuda_dtype_bytes(s.dtype));
}

struct scaled_store {
    const scaled_call &p;
    __device__ __noinline__ void one(int row, int col, float v) const {  // one copy: dtypes are chosen here
        if (row >= p.a.count || col >= p.b.count) return;
        float y = v * number_of(p.scale_a, row) * number_of(p.scale_b, col);
        if (p.bias.data) y += number_of(p.bias, col);
        if (p.result.data) y /= number_of(p.result, 0);
        ewc_store<float>(p.dtype, p.y + ((int64_t)row * p.b.count + col) * nbx_cuda_dtype_bytes(p.dtype), y);
    }
    __device__ __forceinline__ void operator()(int row, int col, float v0, float v1) const { one(row, col, v0), one(row, col + 1, v1); }
};

// float8 as float16, from any strides.
template <int MN> struct widened_source {
    typedef tile_part<Tile, MN, true> part;
    const uint8_t *from;
    int64_t step, along;
    __nv_fp8_interpretation_t format;
    int left, lines_left;
    __device__ __forceinline__ widened_source(const lines_of &of, int k, int mn0) {
        step = of.step, along = of.along, format = of.format;
        left = k - part::chunk() * 8, lines_left = of.count - mn0 - part::row();
        from = (const uint8_t *)of.data + (mn0 + part::row()) * step + part::chunk() * 8 * along;
    }
    __device__ __forceinline__ void fill(uint32_t tile) {
#pragma unroll 1
        for (int i = 0; i < part::COUNT; i++) {
            const uint8_t *line = from + i * part::ROWS * step;
            const int there = i * part::ROWS < lines_left ? left : 0;
#pragma unroll 1
            for (int e = 0; e < 8; e++) {
                const uint16_t half = e < there ? __nv_cvt_fp8_to_halfraw(line[e * along], format).x : 0;
                asm volatile("st.shared.u16 [%0], %1;" ::"r"(tile + part::place(i) + e * 2), "h"(half));
            }
        }
        from += Tile::BK * along;
        left -= Tile::BK;
    }
};

static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) widened_tiles(const __grid_constant__ scaled_call p) {
    int tm, tn;
    tile_of_block((int)blockIdx.x, p.tiles_m, p.tiles_n, &tm, &tn);
    const scaled_store store = {p};
    const int m0 = tm * Tile::BM, n0 = tn * Tile::BN;
    widened_source<Tile::BM> from_a(p.a, p.k, m0);
    widened_source<Tile::BN> from_b(p.b, p.k, n0);
    mma_block<__half, Tile, true, true>(from_a, from_b, m0, n0, p.k, store);
}

template <typename A, typename B> static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) float8_tiles(const __grid_constant__ scaled_call p) {
    typedef float8_pair<A, B> T;
    int tm, tn;
    tile_of_block((int)blockIdx.x, p.tiles_m, p.tiles_n, &tm, &tn);
    const scaled_store store = {p};
    const int m0 = tm * Tile::BM, n0 = tn * Tile::BN;
    dense_source<T, Tile, Tile::BM, true> from_a((const T *)p.a.data, p.a.step, p.a.count, p.k, m0);
    dense_source<T, Tile, Tile::BN, true> from_b((const T *)p.b.data, p.b.step, p.b.count, p.k, n0);
    mma_block<T, Tile, true, true>(from_a, from_b, m0, n0, p.k, store);
}

template <auto KERNEL> static void launch(const scaled_call &p, cudaStream_t stream) {
    shared_limit<KERNEL>(Tile::SHARED_BYTES);
    KERNEL<<<(unsigned)(p.tiles_m * p.tiles_n), Tile::THREADS, Tile::SHARED_BYTES, stream>>>(p);
}

// Of a GPU before sm_89 the kernel is there, without the instruction.
template <auto KERNEL> static bool has_float8() {
    cudaFuncAttributes built;
    return cudaFuncGetAttributes(&built, KERNEL) == cudaSuccess && built.ptxVersion >= 89;
}
static bool is_dense(const lines_of &of) { return of.along == 1 && (of.step % 16 == 0 || of.count == 1) && (uintptr_t)of.data % 16 == 0; }

static nbx_status scaled_cuda(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, SCALED_A), *b = arg_tensor(c, SCALED_B), *y = out_get(c, 0);
    if (y->numel == 0) return NBX_OK;
    const int64_t m = a->shape[0], k = a->shape[1], n = b->shape[1], tiles_m = (m + Tile::BM - 1) / Tile::BM, tiles_n = (n + Tile::BN - 1) / Tile::BN;
    if (m > INT32_MAX || k > INT32_MAX || n > INT32_MAX || tiles_m * tiles_n > INT32_MAX)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes of more than 2^31 on CUDA");
    const auto scale = [&](int arg, bool by_line) {
        const nbx_tensor *t = arg_tensor(c, arg);
        scale_of s = {NULL, 0, NBX_FLOAT32};
        if (t) s.data = (const char *)nbx_data(t), s.dtype = t->dtype;
        if (t && by_line && t->numel > 1) s.step = t->stride[arg == SCALED_SCALE_A ? 0 : t->rank - 1];
        return s;
    };
    scaled_call p = {};
    const auto format = [](const nbx_tensor *t) { return t->dtype == NBX_FLOAT8_E5M2 ? __NV_E5M2 : __NV_E4M3; };
    p.a = (lines_of){k ? nbx_data(a) : NULL, a->stride[0], a->stride[1], (int)m, format(a)};
    p.b = (lines_of){k ? nbx_data(b) : NULL, b->stride[1], b->stride[0], (int)n, format(b)};
    p.scale_a = scale(SCALED_SCALE_A, true), p.scale_b = scale(SCALED_SCALE_B, true), p.bias = scale(SCALED_BIAS, true);
    p.result = scale(SCALED_RESULT, false);
    if (!nbx_dtype_is_float8((nbx_dtype)y->dtype)) p.result.data = NULL;
    p.y = (char *)nbx_data(y), p.dtype = y->dtype;
    p.k = (int)k, p.tiles_m = (int)tiles_m, p.tiles_n = (int)tiles_n;
    typedef __nv_fp8_e4m3 e4m3;
    typedef __nv_fp8_e5m2 e5m2;
    const bool a5 = p.a.format == __NV_E5M2, b5 = p.b.format == __NV_E5M2;
    if ((a5 && b5) || !is_dense(p.a) || !is_dense(p.b) || !has_float8<float8_tiles<e4m3, e4m3>>()) launch<widened_tiles>(p, stream_of(c));
    else if (a5) launch<float8_tiles<e5m2, e4m3>>(p, stream_of(c));
    else if (b5) launch<float8_tiles<e4m3, e5m2>>(p, stream_of(c));
    else launch<float8_tiles<e4m3, e4m3>>(p, stream_of(c));
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_scaled_mm", scaled_cuda)
