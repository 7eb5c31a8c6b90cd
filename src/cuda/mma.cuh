// Tensor-core matrix products through mma.sync: the pipeline that products and convolutions share (sm_80 and up).
//
// A block of WM x WN warps computes a BM x BN tile of C; A and B tiles of BK come through STAGES buffers of shared memory,
// filled by cp.async. Where an operand comes from is the loader's affair: a loader stores 16-byte chunks (8 elements along
// its contiguous dim) at swizzled places, so that ldmatrix reads them without bank conflicts.
// The order of sums over k depends on nothing but k: results are the same for every m, n and batch, from run to run.
#ifndef NBX_CUDA_MMA_CUH
#define NBX_CUDA_MMA_CUH

#include "cuda/cuda.h"

static __device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Copies 16 bytes, of which `valid` come from memory and the rest are zeros.
static __device__ __forceinline__ void copy_async(uint32_t to, const void *from, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid));
}
static __device__ __forceinline__ void copy_async_whole(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
static __device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;"); }
template <int N> static __device__ __forceinline__ void wait_async() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

static __device__ __forceinline__ void load_matrix(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
static __device__ __forceinline__ void load_matrix_transposed(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

template <typename T> static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ __forceinline__ void multiply<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Byte offset of chunk `chunk` of row `row` in a tile whose rows hold CHUNKS chunks of 16 bytes.
template <int CHUNKS> static __device__ __forceinline__ int swizzled(int row, int chunk) {
    if (CHUNKS == 4) return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
    return row * (CHUNKS * 16) + ((chunk ^ (row & 7)) << 4);
}

// A tile configuration.
template <int BM_, int BN_, int BK_, int STAGES_, int WM_, int WN_> struct mma_tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_, WM = WM_, WN = WN_;
    static constexpr int THREADS = WM * WN * 32;
    static constexpr int ROWS = BM / WM / 16;      // 16-row fragments of a warp
    static constexpr int COLS = BN / WN / 16;      // 16-column pairs of fragments of a warp
    static constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2;
    static constexpr int SHARED_BYTES = STAGES * (A_BYTES + B_BYTES);
};

// Fills the MN x BK tile at k0, a loader's chunk(i, to, mn, k) for each chunk; a K_MAJOR tile's i-th chunk of a thread lies in
// the same row at every k0. K_MAJOR tiles have MN rows of BK elements, others BK rows of MN elements.
template <typename Tile, int MN, bool K_MAJOR, typename Loader>
static __device__ __forceinline__ void fill_tile(const Loader &loader, uint32_t tile, int mn0, int k0) {
    constexpr int ROW_CHUNKS = K_MAJOR ? Tile::BK / 8 : MN / 8;
    constexpr int CHUNKS = MN * Tile::BK / 8;
#pragma unroll
    for (int i = 0; i < (CHUNKS + Tile::THREADS - 1) / Tile::THREADS; i++) {
        const int at = i * Tile::THREADS + (int)threadIdx.x;
        if (CHUNKS % Tile::THREADS && at >= CHUNKS) break;
        const int row = at / ROW_CHUNKS, chunk = at % ROW_CHUNKS;
        const uint32_t to = tile + (uint32_t)swizzled<ROW_CHUNKS>(row, chunk);
        if (K_MAJOR) loader.chunk(i, to, mn0 + row, k0 + chunk * 8);
        else loader.chunk(i, to, mn0 + chunk * 8, k0 + row);
    }
}

template <typename T, typename Tile, bool A_K_MAJOR, bool B_K_MAJOR>
static __device__ __forceinline__ void multiply_tile(uint32_t a_tile, uint32_t b_tile, float (&acc)[Tile::ROWS][Tile::COLS * 2][4]) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int row0 = warp / Tile::WN * (Tile::ROWS * 16), col0 = warp % Tile::WN * (Tile::COLS * 16);
    const int i = lane >> 3, r = lane & 7;
#pragma unroll
    for (int k = 0; k < Tile::BK; k += 16) {
        uint32_t a[Tile::ROWS][4], b[Tile::COLS][4];
#pragma unroll
        for (int m = 0; m < Tile::ROWS; m++) {
            const int row = row0 + m * 16;
            if (A_K_MAJOR) load_matrix(a[m], a_tile + swizzled<Tile::BK / 8>(row + r + (i & 1) * 8, k / 8 + (i >> 1)));
            else load_matrix_transposed(a[m], a_tile + swizzled<Tile::BM / 8>(k + r + (i >> 1) * 8, row / 8 + (i & 1)));
        }
#pragma unroll
        for (int n = 0; n < Tile::COLS; n++) {
            const int col = col0 + n * 16;
            if (B_K_MAJOR) load_matrix(b[n], b_tile + swizzled<Tile::BK / 8>(col + r + (i >> 1) * 8, k / 8 + (i & 1)));
            else load_matrix_transposed(b[n], b_tile + swizzled<Tile::BN / 8>(k + r + (i & 1) * 8, col / 8 + (i >> 1)));
        }
#pragma unroll
        for (int m = 0; m < Tile::ROWS; m++)
#pragma unroll
            for (int n = 0; n < Tile::COLS; n++) {
                multiply<T>(acc[m][2 * n], a[m], b[n][0], b[n][1]);
                multiply<T>(acc[m][2 * n + 1], a[m], b[n][2], b[n][3]);
            }
    }
}

// The whole tile at (m0, n0): acc = sum over k of A x B. Then store(row, column, v0, v1) is called for every pair of
// neighbouring columns (column is even); it checks bounds itself.
template <typename T, typename Tile, bool A_K_MAJOR, bool B_K_MAJOR, typename LoaderA, typename LoaderB, typename Store>
static __device__ __forceinline__ void mma_block(const LoaderA &load_a, const LoaderB &load_b, int m0, int n0, int k, const Store &store) {
    extern __shared__ __align__(128) char shared[];
    const uint32_t a_tiles = shared_address(shared), b_tiles = a_tiles + Tile::STAGES * Tile::A_BYTES;
    const int steps = (k + Tile::BK - 1) / Tile::BK;
    float acc[Tile::ROWS][Tile::COLS * 2][4];
#pragma unroll
    for (int m = 0; m < Tile::ROWS; m++)
#pragma unroll
        for (int n = 0; n < Tile::COLS * 2; n++)
#pragma unroll
            for (int j = 0; j < 4; j++) acc[m][n][j] = 0.f;
#pragma unroll
    for (int s = 0; s < Tile::STAGES - 1; s++) {
        if (s < steps) {
            fill_tile<Tile, Tile::BM, A_K_MAJOR>(load_a, a_tiles + s * Tile::A_BYTES, m0, s * Tile::BK);
            fill_tile<Tile, Tile::BN, B_K_MAJOR>(load_b, b_tiles + s * Tile::B_BYTES, n0, s * Tile::BK);
        }
        commit_async();
    }
    for (int step = 0, slot = 0; step < steps; step++) {
        wait_async<Tile::STAGES - 2>();
        __syncthreads();
        const int next = step + Tile::STAGES - 1, next_slot = slot == 0 ? Tile::STAGES - 1 : slot - 1;
        if (next < steps) {
            fill_tile<Tile, Tile::BM, A_K_MAJOR>(load_a, a_tiles + next_slot * Tile::A_BYTES, m0, next * Tile::BK);
            fill_tile<Tile, Tile::BN, B_K_MAJOR>(load_b, b_tiles + next_slot * Tile::B_BYTES, n0, next * Tile::BK);
        }
        commit_async();
        multiply_tile<T, Tile, A_K_MAJOR, B_K_MAJOR>(a_tiles + slot * Tile::A_BYTES, b_tiles + slot * Tile::B_BYTES, acc);
        slot = slot + 1 == Tile::STAGES ? 0 : slot + 1;
    }
    wait_async<0>();
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int row0 = m0 + warp / Tile::WN * (Tile::ROWS * 16) + (lane >> 2);
    const int col0 = n0 + warp % Tile::WN * (Tile::COLS * 16) + (lane & 3) * 2;
#pragma unroll
    for (int m = 0; m < Tile::ROWS; m++)
#pragma unroll
        for (int n = 0; n < Tile::COLS * 2; n++) {
            store(row0 + m * 16, col0 + n * 8, acc[m][n][0], acc[m][n][1]);
            store(row0 + m * 16 + 8, col0 + n * 8, acc[m][n][2], acc[m][n][3]);
        }
}

// Which tile a block computes: bands of 8 tiles along m, so that the blocks that run together share rows of B in L2.
static __device__ __forceinline__ void tile_of_block(int block, int tiles_m, int tiles_n, int *tm, int *tn) {
    const int band = 8 * tiles_n, first = block / band * 8;
    const int height = tiles_m - first < 8 ? tiles_m - first : 8;
    *tm = first + block % band % height;
    *tn = block % band / height;
}

#endif
