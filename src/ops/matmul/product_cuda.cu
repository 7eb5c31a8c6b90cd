// Products of matrices on CUDA: every operator whose row describes an nbx_product.
//   float16, bfloat16   tensor cores (cuda/mma.cuh), summed in float32; vectors and few rows: one warp per row of the matrix
//   int8 into int32     tensor cores, exact
//   float32             FFMA (cuda/fma.cuh): exact float32; tensor cores where the context allows tf32
//   others              64 x 64 tiles, 4 x 4 outputs a thread (float64, complex, integers that wrap)
#include "cuda/fma.cuh"

// ------------------------------------------------------------------------------------------------------------- operands
enum { BATCH_DIMS = 6 };

typedef struct side {
    char *data;
    int64_t row, col;
    int64_t batch[BATCH_DIMS];
} side;

typedef struct problem {
    side a, b, self, c;
    int m, n, k, batch_rank;
    int batch_size[BATCH_DIMS];
    double alpha[2], beta[2];
    int64_t alpha_int, beta_int;
    bool conjugate_a, has_self, whole;  // whole: alpha 1, no self
    bool pairs;                         // two elements of c lie together, aligned
} problem;

// Batch dims that walk every operand alike become one.
static bool simplify(const nbx_product *p, problem *q) {
    int rank = 0;
    int64_t size[NBX_MAX_RANK];
    const product_side *from[4] = {&p->a, &p->b, &p->self, &p->c};
    side *to[4] = {&q->a, &q->b, &q->self, &q->c};
    int64_t stride[4][NBX_MAX_RANK];
    for (int d = p->batch_rank - 1; d >= 0; d--) {
        if (p->batch[d] == 1) continue;
        bool merge = rank > 0;
        for (int s = 0; s < 4 && merge; s++) merge = from[s]->batch[d] == stride[s][rank - 1] * size[rank - 1];
        if (merge) {
            size[rank - 1] *= p->batch[d];
            continue;
        }
        for (int s = 0; s < 4; s++) stride[s][rank] = from[s]->batch[d];
        size[rank++] = p->batch[d];
    }
    if (rank > BATCH_DIMS || p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX) return false;
    q->batch_rank = rank;
    for (int s = 0; s < 4; s++) {
        to[s]->data = (char *)from[s]->data;
        to[s]->row = from[s]->row;
        to[s]->col = from[s]->col;
        for (int d = 0; d < rank; d++) to[s]->batch[d] = stride[s][d];
    }
    for (int d = 0; d < rank; d++) q->batch_size[d] = (int)size[d];
    q->m = (int)p->m, q->n = (int)p->n, q->k = (int)p->k;
    for (int i = 0; i < 2; i++) q->alpha[i] = p->alpha[i], q->beta[i] = p->beta[i];
    q->alpha_int = p->alpha_int, q->beta_int = p->beta_int;
    q->conjugate_a = p->conjugate_a;
    q->has_self = p->self.data != NULL && (p->beta[0] != 0 || p->beta[1] != 0 || p->beta_int != 0);
    q->whole = !q->has_self && p->alpha[0] == 1 && p->alpha[1] == 0;
    const size_t pair = 2 * nbx_dtype_size(p->out_dtype);
    q->pairs = q->c.col == 1 && (q->c.row % 2 == 0 || q->m == 1) && (uintptr_t)q->c.data % pair == 0;
    for (int d = 0; d < rank; d++) q->pairs = q->pairs && q->c.batch[d] % 2 == 0;
    return true;
}

static __device__ __forceinline__ void batch_offsets(const problem &p, int64_t index, int64_t (&at)[4]) {
    at[0] = at[1] = at[2] = at[3] = 0;
    for (int d = 0; d < p.batch_rank; d++) {
        const int64_t i = index % p.batch_size[d];
        index /= p.batch_size[d];
        at[0] += i * p.a.batch[d], at[1] += i * p.b.batch[d], at[2] += i * p.self.batch[d], at[3] += i * p.c.batch[d];
    }
}

static int64_t batches_of(const problem &q) {
    int64_t count = 1;
    for (int d = 0; d < q.batch_rank; d++) count *= q.batch_size[d];
    return count;
}

// ----------------------------------------------------------------------------------------------------------- arithmetic
template <typename T> struct complex_of {
    T re, im;
};

template <typename T> struct maths {  // real numbers and integers: Acc is what sums are kept in
    typedef T acc;
    static __device__ __forceinline__ acc zero() { return (acc)0; }
    static __device__ __forceinline__ acc get(const T &x, bool) { return x; }
    static __device__ __forceinline__ acc fma(acc a, acc b, acc c) { return a * b + c; }
};
template <> __device__ __forceinline__ float maths<float>::fma(float a, float b, float c) { return fmaf(a, b, c); }
template <> __device__ __forceinline__ double maths<double>::fma(double a, double b, double c) { return ::fma(a, b, c); }
template <> struct maths<__half> {
    typedef float acc;
    static __device__ __forceinline__ float zero() { return 0.f; }
    static __device__ __forceinline__ float get(const __half &x, bool) { return __half2float(x); }
    static __device__ __forceinline__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
};
template <> struct maths<__nv_bfloat16> {
    typedef float acc;
    static __device__ __forceinline__ float zero() { return 0.f; }
    static __device__ __forceinline__ float get(const __nv_bfloat16 &x, bool) { return __bfloat162float(x); }
    static __device__ __forceinline__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
};
template <typename R> struct maths<complex_of<R>> {
    typedef complex_of<R> acc;
    static __device__ __forceinline__ acc zero() { return {0, 0}; }
    static __device__ __forceinline__ acc get(const acc &x, bool conjugate) { return {x.re, conjugate ? -x.im : x.im}; }
    static __device__ __forceinline__ acc fma(acc a, acc b, acc c) {
        return {::fma(-a.im, b.im, ::fma(a.re, b.re, c.re)), ::fma(a.im, b.re, ::fma(a.re, b.im, c.im))};
    }
};

// An element of c, from its sum over k and its element of self.
static __device__ __forceinline__ float finished_float(const problem &p, float self, float sum) {
    const float y = (float)p.alpha[0] * sum;
    return p.has_self ? fmaf((float)p.beta[0], self, y) : y;
}
static __device__ __forceinline__ float finished(const problem &p, const float *self, float sum) { return finished_float(p, p.has_self ? *self : 0.f, sum); }
static __device__ __forceinline__ __half finished(const problem &p, const __half *self, float sum) {
    return __float2half_rn(finished_float(p, p.has_self ? __half2float(*self) : 0.f, sum));
}
static __device__ __forceinline__ __nv_bfloat16 finished(const problem &p, const __nv_bfloat16 *self, float sum) {
    return __float2bfloat16_rn(finished_float(p, p.has_self ? __bfloat162float(*self) : 0.f, sum));
}
static __device__ __forceinline__ double finished(const problem &p, const double *self, double sum) {
    const double y = p.alpha[0] * sum;
    return p.has_self ? fma(p.beta[0], *self, y) : y;
}
template <typename R> static __device__ __forceinline__ complex_of<R> finished(const problem &p, const complex_of<R> *self, complex_of<R> sum) {
    const complex_of<R> alpha = {(R)p.alpha[0], (R)p.alpha[1]}, beta = {(R)p.beta[0], (R)p.beta[1]};
    const complex_of<R> y = maths<complex_of<R>>::fma(alpha, sum, {0, 0});
    return p.has_self ? maths<complex_of<R>>::fma(beta, *self, y) : y;
}
// Integers are summed without sign, so that they wrap.
template <typename T, typename U> static __device__ __forceinline__ T finished_integer(const problem &p, const T *self, U sum) {
    U y = (U)p.alpha_int * sum;
    if (p.has_self) y += (U)p.beta_int * (U)*self;
    return (T)y;
}
static __device__ __forceinline__ int8_t finished(const problem &p, const int8_t *s, uint32_t x) { return finished_integer(p, s, x); }
static __device__ __forceinline__ uint8_t finished(const problem &p, const uint8_t *s, uint32_t x) { return finished_integer(p, s, x); }
static __device__ __forceinline__ int16_t finished(const problem &p, const int16_t *s, uint32_t x) { return finished_integer(p, s, x); }
static __device__ __forceinline__ int32_t finished(const problem &p, const int32_t *s, uint32_t x) { return finished_integer(p, s, x); }
static __device__ __forceinline__ int64_t finished(const problem &p, const int64_t *s, uint64_t x) { return finished_integer(p, s, x); }

// -------------------------------------------------------------------------------------------- scalar tiles of any dtype
// A block computes 64 x 64 outputs, 16 x 16 threads with 4 x 4 outputs each; k in steps of 16 through shared memory.
template <typename T, typename Out, typename Acc>
static __global__ void __launch_bounds__(256) scalar_tiles(const __grid_constant__ problem p, int tiles_m, int tiles_n, int64_t batches) {
    constexpr int R = 4, BT = 16 * R, BK = 16;
    __shared__ Acc as[BK][BT + 4 / (sizeof(Acc) > 4 ? 2 : 1)], bs[BK][BT + 4 / (sizeof(Acc) > 4 ? 2 : 1)];
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    const int m0 = tm * BT, n0 = tn * BT, tid = (int)threadIdx.x, tx = tid & 15, ty = tid >> 4;
    for (int64_t batch = blockIdx.y; batch < batches; batch += gridDim.y) {
        int64_t at[4];
        batch_offsets(p, batch, at);
        const T *a = (const T *)p.a.data + at[0], *b = (const T *)p.b.data + at[1];
        Acc acc[R][R];
        for (int i = 0; i < R; i++)
            for (int j = 0; j < R; j++) acc[i][j] = maths<Acc>::zero();
        for (int k0 = 0; k0 < p.k; k0 += BK) {
            const bool a_rows = p.a.row == 1, b_cols = p.b.col == 1;  // which dim neighbouring threads walk along
#pragma unroll
            for (int i = 0; i < R; i++) {
                const int e = i * 256 + tid;
                const int am = a_rows ? e % BT : e / BK, ak = a_rows ? e / BT : e % BK;
                const int bn = b_cols ? e % BT : e / BK, bk = b_cols ? e / BT : e % BK;
                as[ak][am] = m0 + am < p.m && k0 + ak < p.k
                                 ? (Acc)maths<T>::get(a[(int64_t)(m0 + am) * p.a.row + (int64_t)(k0 + ak) * p.a.col], p.conjugate_a)
                                 : maths<Acc>::zero();
                bs[bk][bn] = n0 + bn < p.n && k0 + bk < p.k
                                 ? (Acc)maths<T>::get(b[(int64_t)(k0 + bk) * p.b.row + (int64_t)(n0 + bn) * p.b.col], false)
                                 : maths<Acc>::zero();
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < BK; k++) {
                Acc x[R], y[R];
#pragma unroll
                for (int i = 0; i < R; i++) x[i] = as[k][ty * R + i], y[i] = bs[k][tx * R + i];
#pragma unroll
                for (int i = 0; i < R; i++)
#pragma unroll
                    for (int j = 0; j < R; j++) acc[i][j] = maths<Acc>::fma(x[i], y[j], acc[i][j]);
            }
            __syncthreads();
        }
        const Out *self = (const Out *)p.self.data + at[2];
        Out *c = (Out *)p.c.data + at[3];
        for (int i = 0; i < R; i++)
            for (int j = 0; j < R; j++) {
                const int64_t row = m0 + ty * R + i, col = n0 + tx * R + j;
                if (row < p.m && col < p.n)
                    c[row * p.c.row + col * p.c.col] = finished(p, self + row * p.self.row + col * p.self.col, acc[i][j]);
            }
    }
}

static int64_t tiles(int64_t size, int tile) { return (size + tile - 1) / tile; }

// Tiles along x, batches along y and z.
static dim3 grid_of(int64_t tile_count, int64_t batches) {
    const int64_t rows = batches < 65535 ? batches : 65535;
    return dim3((unsigned)tile_count, (unsigned)rows, (unsigned)((batches + rows - 1) / rows));
}
static __device__ __forceinline__ int64_t batch_of_block() { return (int64_t)blockIdx.z * gridDim.y + blockIdx.y; }

template <typename T, typename Out, typename Acc> static void launch_scalar(const problem &q, cudaStream_t stream) {
    const int64_t tiles_m = tiles(q.m, 64), tiles_n = tiles(q.n, 64), batches = batches_of(q);
    scalar_tiles<T, Out, Acc><<<grid_of(tiles_m * tiles_n, batches), 256, 0, stream>>>(q, (int)tiles_m, (int)tiles_n, batches);
}

// --------------------------------------------------------------------------------------------------- tensor-core tiles
// One pair of neighbouring columns of the result.
template <typename Out> struct product_store {
    const problem &p;
    Out *c;
    const Out *self;
    template <typename Sum> __device__ __forceinline__ void operator()(int row, int col, Sum v0, Sum v1) const {
        if (row >= p.m || col >= p.n) return;
        Out *at = c + (int64_t)row * p.c.row + (int64_t)col * p.c.col;
        const Out *from = self + (int64_t)row * p.self.row + (int64_t)col * p.self.col;
        alignas(2 * sizeof(Out)) Out pair[2];
        pair[0] = finished(p, from, v0);
        if (col + 1 < p.n) pair[1] = finished(p, from + p.self.col, v1);
        if (p.pairs && col + 1 < p.n) {
            if (sizeof(Out) == 2) *(uint32_t *)at = *(const uint32_t *)pair;
            else *(uint64_t *)at = *(const uint64_t *)pair;
            return;
        }
        at[0] = pair[0];
        if (col + 1 < p.n) at[p.c.col] = pair[1];
    }
};

template <typename T, typename Out, typename Tile, bool A_K, bool B_K, bool DENSE>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) tensor_tiles(const __grid_constant__ problem p, int tiles_m, int tiles_n, int64_t batches) {
    const int64_t batch = batch_of_block();
    if (batch >= batches) return;
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    int64_t at[4];
    batch_offsets(p, batch, at);
    const T *a = (const T *)p.a.data + at[0], *b = (const T *)p.b.data + at[1];
    const product_store<Out> store = {p, (Out *)p.c.data + at[3], (const Out *)p.self.data + at[2]};
    const int m0 = tm * Tile::BM, n0 = tn * Tile::BN;
    if constexpr (!DENSE) {
        strided_source<T, Tile, Tile::BM> from_a(a, p.a.row, p.a.col, p.m, p.k, m0);
        strided_source<T, Tile, Tile::BN> from_b(b, p.b.col, p.b.row, p.n, p.k, n0);
        mma_block<T, Tile, true, true>(from_a, from_b, m0, n0, p.k, store);
    } else {
        dense_source<T, Tile, Tile::BM, A_K> from_a(a, A_K ? p.a.row : p.a.col, p.m, p.k, m0);
        dense_source<T, Tile, Tile::BN, B_K> from_b(b, B_K ? p.b.col : p.b.row, p.n, p.k, n0);
        mma_block<T, Tile, A_K, B_K>(from_a, from_b, m0, n0, p.k, store);
    }
}

template <typename T, typename Out, typename Tile, bool A_K, bool B_K, bool DENSE> static void launch_tensor(const problem &q, cudaStream_t stream) {
    const int64_t tiles_m = tiles(q.m, Tile::BM), tiles_n = tiles(q.n, Tile::BN), batches = batches_of(q);
    shared_limit<tensor_tiles<T, Out, Tile, A_K, B_K, DENSE>>(Tile::SHARED_BYTES);
    tensor_tiles<T, Out, Tile, A_K, B_K, DENSE><<<grid_of(tiles_m * tiles_n, batches), Tile::THREADS, Tile::SHARED_BYTES, stream>>>(q, (int)tiles_m, (int)tiles_n, batches);
}

// Is the operand dense along one dim, with 16-byte aligned lines? 1: along k, 0: along m or n, -1: neither.
template <typename T> static int major(const side &s, int64_t step_mn, int64_t step_k, int size_mn, int size_k, int batch_rank) {
    if ((uintptr_t)s.data % 16) return -1;
    for (int d = 0; d < batch_rank; d++)
        if (s.batch[d] % in_chunk<T>) return -1;
    if (step_k == 1 && (step_mn % in_chunk<T> == 0 || size_mn == 1)) return 1;
    return step_mn == 1 && (step_k % in_chunk<T> == 0 || size_k == 1) ? 0 : -1;
}

template <typename T, typename Out, typename Tile> static void launch_major(const problem &q, int a, int b, cudaStream_t stream) {
    if (a == 1 && b == 1) launch_tensor<T, Out, Tile, true, true, true>(q, stream);
    else if (a == 1) launch_tensor<T, Out, Tile, true, false, true>(q, stream);
    else if (b == 1) launch_tensor<T, Out, Tile, false, true, true>(q, stream);
    else launch_tensor<T, Out, Tile, false, false, true>(q, stream);
}

template <typename T, typename Out> static void multiply_halves(const problem &q, const nbx_cuda_facts *facts, cudaStream_t stream) {
    const int a = major<T>(q.a, q.a.row, q.a.col, q.m, q.k, q.batch_rank), b = major<T>(q.b, q.b.col, q.b.row, q.n, q.k, q.batch_rank);
    const int kind = mma_choose(facts, q.m, q.n, batches_of(q));
    if (a < 0 || b < 0) launch_tensor<T, Out, mma_narrow, true, true, false>(q, stream);
    else if (kind == MMA_SMALL) launch_major<T, Out, mma_small>(q, a, b, stream);
    else if (kind == MMA_NARROW) launch_major<T, Out, mma_narrow>(q, a, b, stream);
    else if (kind == MMA_MEDIUM && a == 1) {
        if (b == 1) launch_tensor<T, Out, mma_medium, true, true, true>(q, stream);
        else launch_tensor<T, Out, mma_medium, true, false, true>(q, stream);
    }
    else launch_major<T, Out, mma_large>(q, a, b, stream);
}

// Elements that ldmatrix does not transpose: dense along k, or gathered.
template <typename T, typename Out> static void multiply_lines(const problem &q, const nbx_cuda_facts *facts, cudaStream_t stream) {
    const bool dense = major<T>(q.a, q.a.row, q.a.col, q.m, q.k, q.batch_rank) == 1 && major<T>(q.b, q.b.col, q.b.row, q.n, q.k, q.batch_rank) == 1;
    if (!dense) launch_tensor<T, Out, mma_narrow, true, true, false>(q, stream);
    else if (mma_choose(facts, q.m, q.n, batches_of(q)) >= MMA_NARROW) launch_tensor<T, Out, mma_small, true, true, true>(q, stream);
    else launch_tensor<T, Out, mma_large, true, true, true>(q, stream);
}

// ------------------------------------------------------------------------------------------------------- float32 tiles
struct float_store {
    const problem &p;
    float *c;
    const float *self;
    bool vectors;
    __device__ __forceinline__ void operator()(int row, int col, const float (&v)[4]) const {
        if (row >= p.m) return;
        float *at = c + (int64_t)row * p.c.row + (int64_t)col * p.c.col;
        if (vectors && col + 3 < p.n) {
            *(float4 *)at = *(const float4 *)v;
            return;
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (col + j < p.n) at[j * p.c.col] = finished(p, self + (int64_t)row * p.self.row + (int64_t)(col + j) * p.self.col, v[j]);
    }
};

template <typename Tile, bool A_K, bool B_K>
static __global__ void __launch_bounds__(Tile::THREADS, 2) float_tiles(const __grid_constant__ problem p, int tiles_m, int tiles_n, int64_t batches) {
    const int64_t batch = batch_of_block();
    if (batch >= batches) return;
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    int64_t at[4];
    batch_offsets(p, batch, at);
    const int m0 = tm * Tile::BT, n0 = tn * Tile::BT;
    float *c = (float *)p.c.data + at[3];
    const bool vectors = p.whole && p.c.col == 1 && p.c.row % 4 == 0 && (uintptr_t)c % 16 == 0;
    const float_store store = {p, c, (const float *)p.self.data + at[2], vectors};
    fma_source<Tile, A_K> from_a((const float *)p.a.data + at[0], p.a.row, p.a.col, p.m, p.k, m0);
    fma_source<Tile, B_K> from_b((const float *)p.b.data + at[1], p.b.col, p.b.row, p.n, p.k, n0);
    fma_block<Tile>(from_a, from_b, m0, n0, p.k, store);
}

template <typename Tile, bool A_K, bool B_K> static void launch_floats(const problem &q, cudaStream_t stream) {
    const int64_t tiles_m = tiles(q.m, Tile::BT), tiles_n = tiles(q.n, Tile::BT), batches = batches_of(q);
    shared_limit<float_tiles<Tile, A_K, B_K>>(Tile::SHARED_BYTES);
    float_tiles<Tile, A_K, B_K><<<grid_of(tiles_m * tiles_n, batches), Tile::THREADS, Tile::SHARED_BYTES, stream>>>(q, (int)tiles_m, (int)tiles_n, batches);
}

template <typename Tile> static void multiply_floats(const problem &q, cudaStream_t stream) {
    const bool a = q.a.col == 1, b = q.b.row == 1;
    if (a && b) launch_floats<Tile, true, true>(q, stream);
    else if (a) launch_floats<Tile, true, false>(q, stream);
    else if (b) launch_floats<Tile, false, true>(q, stream);
    else launch_floats<Tile, false, false>(q, stream);
}

// --------------------------------------------------------------------------------------------------------- few vectors
// A matrix of rows that are dense along k times at most VECTORS vectors: one warp per row, the row is read once.
enum { VECTORS = 8 };

template <typename T, typename Out, int V>
static __global__ void __launch_bounds__(256) few_vectors(const __grid_constant__ problem p, bool rows_are_m, bool wide, bool wide_vectors) {
    const side &matrix = rows_are_m ? p.a : p.b, &vectors = rows_are_m ? p.b : p.a;
    const int rows = rows_are_m ? p.m : p.n, count = rows_are_m ? p.n : p.m;
    const int64_t row_step = rows_are_m ? p.a.row : p.b.col, vector_step = rows_are_m ? p.b.col : p.a.row;
    const int64_t vector_k = rows_are_m ? p.b.row : p.a.col;
    const int row = (int)(blockIdx.x * 8 + (threadIdx.x >> 5)), lane = (int)(threadIdx.x & 31);
    if (row >= rows) return;
    int64_t at[4];
    batch_offsets(p, blockIdx.y, at);
    const T *m = (const T *)matrix.data + at[rows_are_m ? 0 : 1] + row * row_step;
    const T *x = (const T *)vectors.data + at[rows_are_m ? 1 : 0];
    float acc[V];
    for (int v = 0; v < V; v++) acc[v] = 0.f;
    constexpr int W = 16 / (int)sizeof(T);
    const auto gather = [&](T (&e)[W], int v, int k) {  // elements k .. of a vector
        const T *from = x + v * vector_step + k * vector_k;
        if (wide_vectors) *(uint4 *)e = *(const uint4 *)from;
        else
#pragma unroll
            for (int i = 0; i < W; i++) e[i] = from[i * vector_k];
    };
    if (wide)
#pragma unroll 4
        for (int k = lane * W; k + W <= p.k; k += 32 * W) {
            const uint4 chunk = __ldcs((const uint4 *)(m + k));
            const T *e = (const T *)&chunk;
#pragma unroll
            for (int v = 0; v < V; v++)
                if (v < count) {
                    alignas(16) T y[W];
                    gather(y, v, k);
#pragma unroll
                    for (int i = 0; i < W; i++) acc[v] = fmaf(maths<T>::get(e[i], false), maths<T>::get(y[i], false), acc[v]);
                }
        }
    const int tail = wide ? p.k / W * W + lane : lane;
    for (int j = tail; j < p.k; j += 32)
        for (int v = 0; v < V; v++)
            if (v < count) acc[v] = fmaf(maths<T>::get(m[j], false), maths<T>::get(x[v * vector_step + j * vector_k], false), acc[v]);
    Out *c = (Out *)p.c.data + at[3];
    const Out *self = (const Out *)p.self.data + at[2];
#pragma unroll
    for (int v = 0; v < V; v++) {
        float sum = acc[v];
        for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
        const int64_t i = rows_are_m ? row : v, j = rows_are_m ? v : row;
        if (lane == 0 && v < count) c[i * p.c.row + j * p.c.col] = finished(p, self + i * p.self.row + j * p.self.col, sum);
    }
}

template <typename T, typename Out> static bool multiply_few(const problem &q, cudaStream_t stream) {
    const int64_t batches = batches_of(q);
    const bool rows_are_m = q.n <= VECTORS && q.a.col == 1 && q.m >= q.n, rows_are_n = q.m <= VECTORS && q.b.row == 1;
    if ((!rows_are_m && !rows_are_n) || batches > 65535) return false;
    const side &s = rows_are_m ? q.a : q.b;
    const int64_t step = rows_are_m ? q.a.row : q.b.col;
    const auto aligned = [&](const side &of, int64_t lines) {
        bool fits = (uintptr_t)of.data % 16 == 0 && lines * (int64_t)sizeof(T) % 16 == 0;
        for (int d = 0; d < q.batch_rank; d++) fits = fits && of.batch[d] * (int64_t)sizeof(T) % 16 == 0;
        return fits;
    };
    const side &other = rows_are_m ? q.b : q.a;
    const bool wide = aligned(s, step), wide_vectors = (rows_are_m ? q.b.row : q.a.col) == 1 && aligned(other, rows_are_m ? q.b.col : q.a.row);
    const dim3 grid((unsigned)tiles(rows_are_m ? q.m : q.n, 8), (unsigned)batches);
    const int count = rows_are_m ? q.n : q.m;
    if (count == 1) few_vectors<T, Out, 1><<<grid, 256, 0, stream>>>(q, rows_are_m, wide, wide_vectors);
    else if (count <= 4) few_vectors<T, Out, 4><<<grid, 256, 0, stream>>>(q, rows_are_m, wide, wide_vectors);
    else few_vectors<T, Out, 8><<<grid, 256, 0, stream>>>(q, rows_are_m, wide, wide_vectors);
    return true;
}

// ---------------------------------------------------------------------------------------------------------------- entry
template <typename T> static void multiply_halves_to(const nbx_product &p, const problem &q, const nbx_cuda_facts *facts, cudaStream_t stream) {
    if (p.out_dtype == NBX_FLOAT32) {
        if (!multiply_few<T, float>(q, stream)) multiply_halves<T, float>(q, facts, stream);
    } else if (!multiply_few<T, T>(q, stream)) {
        multiply_halves<T, T>(q, facts, stream);
    }
}

static void multiply_integers(const nbx_product &p, const problem &q, const nbx_cuda_facts *facts, cudaStream_t stream) {
    switch (p.dtype) {
    case NBX_INT8:
        if (p.out_dtype == NBX_INT32) multiply_lines<int8_t, int32_t>(q, facts, stream);
        else launch_scalar<int8_t, int8_t, uint32_t>(q, stream);
        break;
    case NBX_UINT8: launch_scalar<uint8_t, uint8_t, uint32_t>(q, stream); break;
    case NBX_INT16: launch_scalar<int16_t, int16_t, uint32_t>(q, stream); break;
    case NBX_INT32: launch_scalar<int32_t, int32_t, uint32_t>(q, stream); break;
    default: launch_scalar<int64_t, int64_t, uint64_t>(q, stream); break;
    }
}

nbx_status nbx_cuda_product(nbx_op_call *c, const nbx_product *whole) {
    const nbx_product &p = *whole;
    problem q;
    for (int d = 0; d < p.batch_rank; d++)
        if (p.batch[d] == 0) return NBX_OK;
    if (p.m == 0 || p.n == 0) return NBX_OK;
    if (!simplify(&p, &q)) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d batch dims that do not merge on CUDA", BATCH_DIMS);
    const nbx_cuda_facts *facts = nbx_cuda_device_facts(c->device.index);
    cudaStream_t stream = stream_of(c);
    switch (p.dtype) {
    case NBX_FLOAT16: multiply_halves_to<__half>(p, q, facts, stream); break;
    case NBX_BFLOAT16: multiply_halves_to<__nv_bfloat16>(p, q, facts, stream); break;
    case NBX_FLOAT32:
        if (multiply_few<float, float>(q, stream)) break;
        if (c->ctx->allow_tf32) multiply_lines<tf32, float>(q, facts, stream);
        else if (tiles(q.m, 128) * tiles(q.n, 128) * batches_of(q) >= facts->sm_count) multiply_floats<fma_tile<8>>(q, stream);
        else multiply_floats<fma_tile<4>>(q, stream);
        break;
    case NBX_FLOAT64: launch_scalar<double, double, double>(q, stream); break;
    case NBX_COMPLEX64: launch_scalar<complex_of<float>, complex_of<float>, complex_of<float>>(q, stream); break;
    case NBX_COMPLEX128: launch_scalar<complex_of<double>, complex_of<double>, complex_of<double>>(q, stream); break;
    default: multiply_integers(p, q, facts, stream); break;
    }
    return launch_status(c);
}

static nbx_status product_cuda(nbx_op_call *c) {
    nbx_product p;
    nbx_product_of(c, &p);
    return nbx_cuda_product(c, &p);
}

NBX_CUDA_KERNEL("aten::mm", product_cuda)
NBX_CUDA_KERNEL("aten::mm.dtype", product_cuda)
NBX_CUDA_KERNEL("aten::bmm", product_cuda)
NBX_CUDA_KERNEL("aten::bmm.dtype", product_cuda)
NBX_CUDA_KERNEL("aten::addmm", product_cuda)
NBX_CUDA_KERNEL("aten::addmm.dtype", product_cuda)
NBX_CUDA_KERNEL("aten::baddbmm", product_cuda)
NBX_CUDA_KERNEL("aten::baddbmm.dtype", product_cuda)
NBX_CUDA_KERNEL("aten::addmv", product_cuda)
NBX_CUDA_KERNEL("aten::mv", product_cuda)
NBX_CUDA_KERNEL("aten::dot", product_cuda)
NBX_CUDA_KERNEL("aten::vdot", product_cuda)
NBX_CUDA_KERNEL("aten::linear", product_cuda)
NBX_CUDA_KERNEL("aten::matmul", product_cuda)
NBX_CUDA_KERNEL("aten::_int_mm", product_cuda)
