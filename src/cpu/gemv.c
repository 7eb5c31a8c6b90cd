// Cuts a product with few rows for the threads. A piece is up to 1024 columns with all of k. When that makes fewer pieces than
// threads (one long dot product, say), the blocks of k are dealt out instead, their sums kept apart and added in order.
#include "cpu/gemv.h"

#define ALIGN 64
#define GRAIN_WORK (1 << 15) // elements of B worth handing to a thread: 4 us from memory
#define FEWEST_COLUMNS 64

typedef struct gemv_run_state {
    const nbx_gemm *g;
    const gemm_kernels *kernels;
    gemv_layout layout;
    int64_t piece, pieces;       // columns of a piece; pieces of an entry
    bool split;                  // by blocks of k
    int64_t blocks, padded_n;
    float *block_sums;           // [blocks, m, padded_n]
    char *threads;
    size_t thread_bytes;
} gemv_run_state;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool gemv_suits(const nbx_gemm *g, const gemm_kernels *kernels)
{
    return kernels->gemv != NULL && g->unpack_b == NULL && g->m <= GEMV_ROWS && (g->packed_b != NULL || g->row_stride_b == 1 || g->col_stride_b == 1);
}

static int64_t x_floats(const nbx_gemm *g) { return round_up(g->k, 16); }

// x, the sums of a piece, and the sums of one block
static size_t thread_bytes_for(const nbx_gemm *g)
{
    return (size_t)round_up(g->m * (x_floats(g) + 2 * GEMV_PART) * (int64_t)sizeof(float), ALIGN) + ALIGN;
}

static int64_t split_floats(const nbx_gemm *g)
{
    return g->n > FEWEST_COLUMNS * 64 ? 0 : (g->k + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK * g->m * round_up(g->n, 32);
}

size_t gemv_scratch_bytes(const nbx_gemm *g, int threads)
{
    return (size_t)round_up(split_floats(g) * (int64_t)sizeof(float), ALIGN) + (size_t)threads * thread_bytes_for(g);
}

// The rows of A as floats, where they lie if they are.
static const float *bring_x(const gemv_run_state *r, int64_t entry, float *to, int64_t *stride)
{
    const nbx_gemm *g = r->g;
    const int64_t size = (int64_t)nbx_dtype_size(g->dtype);
    const char *a = (const char *)g->a + entry * g->batch_stride_a * size;
    if (g->dtype == NBX_FLOAT32 && g->col_stride_a == 1) {
        *stride = g->row_stride_a;
        return (const float *)(const void *)a;
    }
    const gemm_side across = {a, g->col_stride_a, g->row_stride_a, g->dtype}; // one panel as wide as k, with m values of "k"
    *stride = x_floats(g);
    r->kernels->pack_a(&across, 0, g->k, 0, g->m, (int)*stride, to, 0);
    return to;
}

static gemv_work work_for(const gemv_run_state *r, int64_t entry, int thread)
{
    const nbx_gemm *g = r->g;
    const int64_t size = (int64_t)nbx_dtype_size(g->dtype), width = r->kernels->cols;
    float *own = (float *)(void *)(r->threads + (size_t)thread * r->thread_bytes);
    gemv_work w = {.rows = (int)g->m, .layout = r->layout, .dtype = g->dtype};
    w.x = bring_x(r, entry, own + 2 * GEMV_PART * g->m, &w.x_stride);
    w.sums = own;
    w.ld = GEMV_PART;
    w.part = own + GEMV_PART * g->m;
    if (r->layout == GEMV_PANELS) {
        w.b = (const char *)g->packed_b + (g->batch_stride_b == 0 ? 0 : entry * round_up(g->n, width) * g->k * size);
        w.stride = g->k * width;
    } else {
        w.b = (const char *)g->b + entry * g->batch_stride_b * size;
        w.stride = r->layout == GEMV_ALONG_N ? g->row_stride_b : g->col_stride_b;
    }
    return w;
}

static void do_pieces(void *arg, int64_t begin, int64_t end, int thread)
{
    const gemv_run_state *r = arg;
    const nbx_gemm *g = r->g;
    int64_t entry = -1;
    gemv_work w = {0};
    for (int64_t i = begin; i < end; i++) {
        if (i / r->pieces != entry) w = work_for(r, entry = i / r->pieces, thread);
        w.col = i % r->pieces * r->piece;
        w.cols = smaller(r->piece, g->n - w.col);
        w.ks = g->k;
        r->kernels->gemv(&w);
        r->kernels->finish(g, entry, 0, g->m, w.col, w.cols, w.sums, w.ld);
        gemm_report(g, entry, 0, g->m, w.col, w.cols);
    }
}

static void do_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
    const gemv_run_state *r = arg;
    const nbx_gemm *g = r->g;
    gemv_work w = work_for(r, 0, thread);
    w.ld = r->padded_n;
    if (g->m == 1 && g->n == 1 && r->layout == GEMV_ALONG_K) {  // the kernel takes many blocks together
        w.k = begin * GEMM_K_BLOCK, w.ks = smaller(end * GEMM_K_BLOCK, g->k) - w.k;
        w.cols = 1, w.apart = r->padded_n, w.sums = r->block_sums + begin * r->padded_n;
        r->kernels->gemv(&w);
        return;
    }
    for (int64_t block = begin; block < end; block++) {
        w.k = block * GEMM_K_BLOCK;
        w.ks = smaller(GEMM_K_BLOCK, g->k - w.k);
        for (w.col = 0; w.col < g->n; w.col += GEMV_PART) {
            w.cols = smaller(GEMV_PART, g->n - w.col);
            w.sums = r->block_sums + block * g->m * r->padded_n + w.col;
            r->kernels->gemv(&w);
        }
    }
}

static void add_blocks(const gemv_run_state *r)
{
    const int64_t count = r->g->m * r->padded_n;
    float *total = r->block_sums;
    for (int64_t block = 1; block < r->blocks; block++) {
        const float *sums = r->block_sums + block * count;
        for (int64_t i = 0; i < count; i++) total[i] += sums[i];
    }
    r->kernels->finish(r->g, 0, 0, r->g->m, 0, r->g->n, total, r->padded_n);
    gemm_report(r->g, 0, 0, r->g->m, 0, r->g->n);
}

void gemv_run(const nbx_gemm *g, const gemm_kernels *kernels, nbx_pool *pool, void *scratch)
{
    const int threads = nbx_pool_threads(pool);
    gemv_run_state r = {.g = g, .kernels = kernels};
    r.layout = g->packed_b != NULL ? GEMV_PANELS : g->col_stride_b == 1 && !(g->n == 1 && g->row_stride_b == 1) ? GEMV_ALONG_N : GEMV_ALONG_K;
    r.thread_bytes = thread_bytes_for(g);
    r.block_sums = scratch;
    r.threads = (char *)scratch + (size_t)round_up(split_floats(g) * (int64_t)sizeof(float), ALIGN);
    r.padded_n = round_up(g->n, 32);
    r.blocks = (g->k + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK;
    r.piece = smaller(GEMV_PART, larger(FEWEST_COLUMNS, round_up(g->n * g->batch / (2 * threads), FEWEST_COLUMNS)));
    r.pieces = (g->n + r.piece - 1) / r.piece;
    r.split = g->batch == 1 && r.pieces < threads && r.blocks > 1 && split_floats(g) > 0;
    if (r.split) {
        nbx_parallel_for(pool, r.blocks, larger(1, GRAIN_WORK / (GEMM_K_BLOCK * g->n)), do_blocks, &r);
        add_blocks(&r);
    } else {
        nbx_parallel_for(pool, g->batch * r.pieces, larger(1, GRAIN_WORK / (g->k * smaller(g->n, r.piece))), do_pieces, &r);
    }
}
