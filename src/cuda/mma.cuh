// Tensor-core matrix products through mma.sync: the pipeline that products and convolutions share (sm_80 and up).
//
// A block of WM x WN warps computes a BM x BN tile of C; A and B tiles of BK come through STAGES buffers of shared memory,
// filled by cp.async. Where an operand comes from is the affair of a source: source.fill(tile) stores the chunks of this
// thread (16 bytes: 8 elements along the contiguous dim) of the next BK at the places that tile_part names, swizzled so that
// ldmatrix reads them without bank conflicts. Fragments are read one step of 16 ahead of the products that use them. A fill has
// no branches: instructions are scheduled among the products only within a straight line (a branch cost a fifth of the speed).
// The order of sums over k depends on nothing but k: results are the same for every tile, m, n and batch, from run to run.
// Elements have 16 bits, or 8 (int8, float8) or 32 (tf32): these lie dense along k in shared memory, a tile holds as many bytes
// of k whatever the size, and a fragment of 16 bytes a row is filled by the same ldmatrix. BK and steps count in 16-bit elements.
#ifndef NBX_CUDA_MMA_CUH
#define NBX_CUDA_MMA_CUH

#include "cuda/cuda.h"

#include <math.h>

static __device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Copies 16 bytes, of which `valid` come from memory and the rest are zeros; nothing is read when valid is 0.
static __device__ __forceinline__ void copy_async(uint32_t to, const void *from, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid));
}
static __device__ __forceinline__ void copy_async_whole(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
static __device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;"); }
template <int N> static __device__ __forceinline__ void wait_async() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }
static __device__ __forceinline__ void store_shared(uint32_t to, const uint32_t (&v)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]));
}

static __device__ __forceinline__ void load_matrix(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
static __device__ __forceinline__ void load_matrix_transposed(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

// A float32 whose lower 13 bits are rounded away before it is multiplied.
struct tf32 {
    float value;
};
// float8 by float8, whose formats may differ: sm_89 and up.
template <typename A, typename B> struct float8_pair {
    uint8_t bits;
};
// What products of T are summed in. IN_PARTS: the tensor cores keep fewer bits of such sums than a float has, so every tile of BK
// is summed alone and added in float32.
template <typename T> struct mma_sum {
    typedef float type;
    static constexpr bool IN_PARTS = false;
};
template <> struct mma_sum<int8_t> {
    typedef int type;
    static constexpr bool IN_PARTS = false;
};
template <typename A, typename B> struct mma_sum<float8_pair<A, B>> {
    typedef float type;
    static constexpr bool IN_PARTS = true;
};
// How many elements of T a chunk of 16 bytes, a tile of BK holds.
template <typename T> static constexpr int in_chunk = 16 / (int)sizeof(T);
template <typename T, typename Tile> static constexpr int in_tile = Tile::BK * 2 / (int)sizeof(T);

template <typename T> static __device__ __forceinline__ void multiply(typename mma_sum<T>::type (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ __forceinline__ void multiply<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <> __device__ __forceinline__ void multiply<tf32>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply<int8_t>(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define NBX_MULTIPLY_FLOAT8(A, B, TYPES)                                                                                                                    \
    template <> __device__ __forceinline__ void multiply<float8_pair<A, B>>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {          \
        asm("mma.sync.aligned.m16n8k32.row.col.f32." TYPES ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                  \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                            \
    }
#else
#define NBX_MULTIPLY_FLOAT8(A, B, TYPES) \
    template <> __device__ __forceinline__ void multiply<float8_pair<A, B>>(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t) { __trap(); }
#endif
NBX_MULTIPLY_FLOAT8(__nv_fp8_e4m3, __nv_fp8_e4m3, "e4m3.e4m3")
NBX_MULTIPLY_FLOAT8(__nv_fp8_e4m3, __nv_fp8_e5m2, "e4m3.e5m2")
NBX_MULTIPLY_FLOAT8(__nv_fp8_e5m2, __nv_fp8_e4m3, "e5m2.e4m3")
#undef NBX_MULTIPLY_FLOAT8

// Byte offset of chunk `chunk` of row `row` in a tile whose rows hold CHUNKS chunks of 16 bytes.
template <int CHUNKS> static __device__ __forceinline__ int swizzled(int row, int chunk) {
    if (CHUNKS == 4) return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4);
    return row * (CHUNKS * 16) + ((chunk ^ (row & 7)) << 4);
}

// A tile configuration.
template <int BM_, int BN_, int BK_, int STAGES_, int WM_, int WN_, int BLOCKS_> struct mma_tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, STAGES = STAGES_, WM = WM_, WN = WN_;
    static constexpr int BLOCKS = BLOCKS_;         // a multiprocessor holds
    static constexpr int THREADS = WM * WN * 32;
    static constexpr int ROWS = BM / WM / 16;      // 16-row fragments of a warp
    static constexpr int COLS = BN / WN / 16;      // 16-column pairs of fragments of a warp
    static constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2;
    static constexpr int SHARED_BYTES = STAGES * (A_BYTES + B_BYTES);
};

// This thread's chunks of an MN x BK tile: chunk() of the rows row() + i * ROWS, i < COUNT. K_MAJOR tiles have MN rows of BK
// elements, others BK rows of MN elements.
template <typename Tile, int MN, bool K_MAJOR> struct tile_part {
    static constexpr int ROW_CHUNKS = (K_MAJOR ? Tile::BK : MN) / 8;
    static constexpr int ROWS = Tile::THREADS / ROW_CHUNKS, COUNT = MN * Tile::BK / 8 / Tile::THREADS;
    static_assert(COUNT * Tile::THREADS * 8 == MN * Tile::BK && ROWS % 8 == 0, "every thread fills the same chunk of several rows");
    static __device__ __forceinline__ int row() { return (int)threadIdx.x / ROW_CHUNKS; }
    static __device__ __forceinline__ int chunk() { return (int)threadIdx.x % ROW_CHUNKS; }
    static __device__ __forceinline__ uint32_t place(int i) { return (uint32_t)(swizzled<ROW_CHUNKS>(row(), chunk()) + i * ROWS * ROW_CHUNKS * 16); }
};

// Lines that are dense along k (K_MAJOR) or along m or n and 16-byte aligned, `step` elements apart.
template <typename T, typename Tile, int MN, bool K_MAJOR> struct dense_source {
    typedef tile_part<Tile, MN, K_MAJOR> part;
    const T *from;
    int64_t next_rows, next_tile;  // elements to the next of this thread's rows, to the next BK
    int left, rows_left;           // elements of the line, and lines, from this thread's first chunk on
    __device__ __forceinline__ dense_source(const T *data, int64_t step, int mn, int k, int mn0) {
        static_assert(K_MAJOR || sizeof(T) == 2, "ldmatrix transposes 16-bit elements");
        const int line = part::row() + (K_MAJOR ? mn0 : 0), along = part::chunk() * in_chunk<T> + (K_MAJOR ? 0 : mn0);
        from = data + line * step + along;
        next_rows = part::ROWS * step;
        next_tile = K_MAJOR ? in_tile<T, Tile> : Tile::BK * step;
        left = (K_MAJOR ? k : mn) - along;
        rows_left = (K_MAJOR ? mn : k) - line;
    }
    __device__ __forceinline__ void fill(uint32_t tile) {
        const int bytes = left >= in_chunk<T> ? 16 : left > 0 ? left * (int)sizeof(T) : 0;
#pragma unroll
        for (int i = 0; i < part::COUNT; i++) copy_async(tile + part::place(i), from + i * next_rows, i * part::ROWS < rows_left ? bytes : 0);
        from += next_tile;
        if (K_MAJOR) left -= in_tile<T, Tile>;
        else rows_left -= Tile::BK;
    }
};

// Any strides, any alignment: element by element, as K_MAJOR chunks.
template <int BYTES> struct mma_bits {
    typedef uint16_t type;
};
template <> struct mma_bits<1> {
    typedef uint8_t type;
};
template <> struct mma_bits<4> {
    typedef uint32_t type;
};
template <typename T, typename Tile, int MN> struct strided_source {
    typedef tile_part<Tile, MN, true> part;
    typedef typename mma_bits<sizeof(T)>::type bits;
    const bits *from;
    int64_t step_mn, step_k;
    int left, rows_left;
    __device__ __forceinline__ strided_source(const T *data, int64_t mn_step, int64_t k_step, int mn, int k, int mn0) {
        step_mn = mn_step, step_k = k_step;
        left = k - part::chunk() * in_chunk<T>, rows_left = mn - mn0 - part::row();
        from = (const bits *)data + (mn0 + part::row()) * step_mn + part::chunk() * in_chunk<T> * step_k;
    }
    __device__ __forceinline__ void fill(uint32_t tile) {
        constexpr int PER_WORD = 4 / (int)sizeof(T);
#pragma unroll 1
        for (int i = 0; i < part::COUNT; i++) {
            const bits *line = from + i * part::ROWS * step_mn;
            uint32_t v[4] = {0, 0, 0, 0};
            if (i * part::ROWS < rows_left)
#pragma unroll
                for (int e = 0; e < in_chunk<T>; e++)
                    if (e < left) v[e / PER_WORD] |= (uint32_t)line[e * step_k] << e % PER_WORD * (32 / PER_WORD % 32);
            store_shared(tile + part::place(i), v);
        }
        from += in_tile<T, Tile> * step_k;
        left -= in_tile<T, Tile>;
    }
};

// What a warp multiplies in one step of 16.
template <typename T, typename Tile, bool A_K_MAJOR, bool B_K_MAJOR> struct mma_fragments {
    uint32_t a[Tile::ROWS][4], b[Tile::COLS][4];
    __device__ __forceinline__ void load(uint32_t a_tile, uint32_t b_tile, int k) {
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = lane >> 3, r = lane & 7;
        const int row0 = warp / Tile::WN * (Tile::ROWS * 16), col0 = warp % Tile::WN * (Tile::COLS * 16);
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
        if constexpr (sizeof(T) == 4) {
            round_all(a);
            round_all(b);
        }
    }
    template <int N> static __device__ __forceinline__ void round_all(uint32_t (&x)[N][4]) {  // to the nearest tf32
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i][j]) : "f"(__uint_as_float(x[i][j])));
    }
    typedef typename mma_sum<T>::type sums[Tile::ROWS][Tile::COLS * 2][4];
    __device__ __forceinline__ void multiply_into(sums &acc) const {
#pragma unroll
        for (int m = 0; m < Tile::ROWS; m++)
#pragma unroll
            for (int n = 0; n < Tile::COLS; n++) {
                multiply<T>(acc[m][2 * n], a[m], b[n][0], b[n][1]);
                multiply<T>(acc[m][2 * n + 1], a[m], b[n][2], b[n][3]);
            }
    }
};

// The whole tile at (m0, n0): acc = sum over k of A x B. Then store(row, column, v0, v1) is called for every pair of
// neighbouring columns (column is even); it checks bounds itself. The shared memory of the tiles is free by then.
template <typename T, typename Tile, bool A_K_MAJOR, bool B_K_MAJOR, typename SourceA, typename SourceB, typename Store>
static __device__ __forceinline__ void mma_block(SourceA &source_a, SourceB &source_b, int m0, int n0, int k, const Store &store) {
    extern __shared__ __align__(128) char shared[];
    constexpr int STEPS = Tile::BK / 16;
    static_assert(STEPS % 2 == 0, "the two sets of fragments take turns");
    const uint32_t a_tiles = shared_address(shared), b_tiles = a_tiles + Tile::STAGES * Tile::A_BYTES;
    const int tiles = (k + in_tile<T, Tile> - 1) / in_tile<T, Tile>;
    constexpr bool IN_PARTS = mma_sum<T>::IN_PARTS;
    typename mma_fragments<T, Tile, A_K_MAJOR, B_K_MAJOR>::sums acc, part;
    const auto each = [](auto &&what) {
#pragma unroll
        for (int m = 0; m < Tile::ROWS; m++)
#pragma unroll
            for (int n = 0; n < Tile::COLS * 2; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) what(m, n, j);
    };
    each([&](int m, int n, int j) { acc[m][n][j] = part[m][n][j] = 0; });
#pragma unroll
    for (int s = 0; s < Tile::STAGES - 1; s++) {
        if (s < tiles) {
            source_a.fill(a_tiles + s * Tile::A_BYTES);
            source_b.fill(b_tiles + s * Tile::B_BYTES);
        }
        commit_async();
    }
    wait_async<Tile::STAGES - 2>();
    __syncthreads();
    mma_fragments<T, Tile, A_K_MAJOR, B_K_MAJOR> fragments[2];
    fragments[0].load(a_tiles, b_tiles, 0);
    for (int tile = 0, slot = 0; tile < tiles; tile++) {
        const int free_slot = slot == 0 ? Tile::STAGES - 1 : slot - 1, next_slot = slot + 1 == Tile::STAGES ? 0 : slot + 1;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            int from = slot;
            if (s + 1 == STEPS) {
                wait_async<Tile::STAGES - 2>();
                __syncthreads();  // the next tile is there, and this one is read no more
                from = next_slot;
            }
            fragments[(s + 1) % 2].load(a_tiles + from * Tile::A_BYTES, b_tiles + from * Tile::B_BYTES, (s + 1) % STEPS * 16);
            if (s == 0) {
                if (tile + Tile::STAGES - 1 < tiles) {
                    source_a.fill(a_tiles + free_slot * Tile::A_BYTES);
                    source_b.fill(b_tiles + free_slot * Tile::B_BYTES);
                }
                commit_async();
            }
            fragments[s % 2].multiply_into(IN_PARTS ? part : acc);
        }
        if (IN_PARTS) each([&](int m, int n, int j) { acc[m][n][j] += part[m][n][j], part[m][n][j] = 0; });
        slot = next_slot;
    }
    wait_async<0>();
    __syncthreads();
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

// ------------------------------------------------------------------------------------------------------- configurations
// 128 x 128 by 4 warps, two blocks a multiprocessor: ahead of 128 x 256, whose barriers nothing hides, and of BK 32, whose
// loaders cost twice (H200, 4096^3: 418 against 347 TFLOP/s).
typedef mma_tile<128, 128, 64, 3, 2, 2, 2> mma_large;
typedef mma_tile<96, 128, 64, 3, 2, 2, 2> mma_medium;
typedef mma_tile<128, 64, 64, 3, 2, 2, 3> mma_narrow;
typedef mma_tile<64, 64, 64, 3, 2, 2, 4> mma_small;
enum { MMA_LARGE, MMA_MEDIUM /* A along k only */, MMA_NARROW, MMA_SMALL, MMA_KINDS };

// The configuration with the least time: an even share of the tiles a multiprocessor, at the speed of a full multiprocessor
// (relative); what is left over when no more than some of its blocks remain runs slower.
static inline int mma_choose(const nbx_cuda_facts *facts, int64_t m, int64_t n, int64_t batches) {
    static const struct {
        int bm, bn, blocks;
        double speed;
    } kinds[MMA_KINDS] = {{mma_large::BM, mma_large::BN, mma_large::BLOCKS, 1.0},
                          {mma_medium::BM, mma_medium::BN, mma_medium::BLOCKS, 0.95},
                          {mma_narrow::BM, mma_narrow::BN, mma_narrow::BLOCKS, 0.85},
                          {mma_small::BM, mma_small::BN, mma_small::BLOCKS, 0.6}};
    int best = 0;
    double least = 0;
    for (int i = 0; i < MMA_KINDS; i++) {
        const double tiles = (double)((m + kinds[i].bm - 1) / kinds[i].bm) * (double)((n + kinds[i].bn - 1) / kinds[i].bn) * (double)batches;
        const double share = ceil(tiles / facts->sm_count), rest = fmod(share, kinds[i].blocks);
        const double time = (share - rest + rest / (0.25 + 0.75 * rest / kinds[i].blocks)) * kinds[i].bm * kinds[i].bn / kinds[i].speed;
        if (i == 0 || time < least) best = i, least = time;
    }
    return best;
}

#endif
