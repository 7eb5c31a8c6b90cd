// Float32 matrix products by FFMA, exact float32: the pipeline that products and convolutions share.
//
// 256 threads compute a BT x BT tile of C, R x R results each; tiles of BK come through STAGES buffers of shared memory as
// [k][m or n], filled element by element with cp.async, so that any strides will do. source.fill(tile) stores this thread's
// elements of the next BK. Every result is one chain of FFMA over k in order: the same for every tile, m, n and batch.
#ifndef NBX_CUDA_FMA_CUH
#define NBX_CUDA_FMA_CUH

#include "cuda/mma.cuh"

template <int R_> struct fma_tile {
    static constexpr int R = R_, BT = 16 * R, BK = 16, STAGES = 3, THREADS = 256, PITCH = BT + 4;
    static constexpr int SHARED_BYTES = STAGES * 2 * BK * PITCH * 4;
};

static __device__ __forceinline__ void copy_element_async(uint32_t to, const float *from, bool valid) {  // zero when not valid
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0));
}

// This thread's R elements of a tile: i-th at (mn() + i * MN_STEP, k() + i * K_STEP). Neighbouring threads walk along k, or m or n.
template <typename Tile, bool ALONG_K> struct fma_part {
    static constexpr int MN_STEP = ALONG_K ? Tile::THREADS / Tile::BK : 0, K_STEP = ALONG_K ? 0 : Tile::THREADS / Tile::BT;
    static __device__ __forceinline__ int mn() { return (int)threadIdx.x / (ALONG_K ? Tile::BK : 1) % Tile::BT; }
    static __device__ __forceinline__ int k() { return ALONG_K ? (int)threadIdx.x % Tile::BK : (int)threadIdx.x / Tile::BT; }
    static __device__ __forceinline__ uint32_t place(int i) { return (uint32_t)(k() * Tile::PITCH + mn() + i * (K_STEP * Tile::PITCH + MN_STEP)) * 4; }
};

// A matrix of any strides; ALONG_K where k is the denser dim.
template <typename Tile, bool ALONG_K> struct fma_source {
    typedef fma_part<Tile, ALONG_K> part;
    const float *from;
    int64_t next, next_tile;
    int mn_left, k_left;
    __device__ __forceinline__ fma_source(const float *data, int64_t mn_step, int64_t k_step, int mn, int k, int mn0) {
        from = data + (mn0 + part::mn()) * mn_step + part::k() * k_step;
        next = part::MN_STEP * mn_step + part::K_STEP * k_step, next_tile = Tile::BK * k_step;
        mn_left = mn - mn0 - part::mn(), k_left = k - part::k();
    }
    __device__ __forceinline__ void fill(uint32_t tile) {
#pragma unroll
        for (int i = 0; i < Tile::R; i++)
            copy_element_async(tile + part::place(i), from + i * next, i * part::MN_STEP < mn_left && i * part::K_STEP < k_left);
        from += next_tile;
        k_left -= Tile::BK;
    }
};

// The whole tile at (m0, n0). Then store(row, column, v) is called for every 4 neighbouring columns; it checks bounds itself.
template <typename Tile, typename SourceA, typename SourceB, typename Store>
static __device__ __forceinline__ void fma_block(SourceA &source_a, SourceB &source_b, int m0, int n0, int k, const Store &store) {
    extern __shared__ __align__(128) char shared[];
    constexpr int R = Tile::R, BYTES = Tile::BK * Tile::PITCH * 4;
    const uint32_t tiles = shared_address(shared);
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    const int tx = (warp & 1) * 8 + (lane & 7), ty = (warp >> 1) * 4 + (lane >> 3);  // a warp reads 4 x 8 vectors
    const int steps = (k + Tile::BK - 1) / Tile::BK;
    float acc[R][R];
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j++) acc[i][j] = 0.f;
#pragma unroll
    for (int s = 0; s < Tile::STAGES - 1; s++) {
        if (s < steps) source_a.fill(tiles + 2 * s * BYTES), source_b.fill(tiles + (2 * s + 1) * BYTES);
        commit_async();
    }
    for (int step = 0, slot = 0; step < steps; step++) {
        wait_async<Tile::STAGES - 2>();
        __syncthreads();
        const int free_slot = slot == 0 ? Tile::STAGES - 1 : slot - 1;
        if (step + Tile::STAGES - 1 < steps) source_a.fill(tiles + 2 * free_slot * BYTES), source_b.fill(tiles + (2 * free_slot + 1) * BYTES);
        commit_async();
        const float *a = (const float *)(shared + 2 * slot * BYTES) + ty * 4, *b = (const float *)(shared + (2 * slot + 1) * BYTES) + tx * 4;
#pragma unroll
        for (int kk = 0; kk < Tile::BK; kk++) {
            float x[R], y[R];
#pragma unroll
            for (int i = 0; i < R; i += 4) {
                *(float4 *)&x[i] = *(const float4 *)&a[kk * Tile::PITCH + i * 16];
                *(float4 *)&y[i] = *(const float4 *)&b[kk * Tile::PITCH + i * 16];
            }
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
        }
        slot = slot + 1 == Tile::STAGES ? 0 : slot + 1;
    }
    wait_async<0>();
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < R; j += 4) {
            const float v[4] = {acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
            store(m0 + i / 4 * 64 + ty * 4 + i % 4, n0 + j * 16 + tx * 4, v);
        }
}

#endif
