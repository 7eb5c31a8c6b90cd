// Decides how a matrix product is computed: which operand is copied, how the work is cut, who does what. None of these
// decisions changes a result (gemm.h says what fixes it).
//
// A unit of work is up to 336 rows x 128 columns of C. For every block of 256 k it brings 128 columns of B into panels
// (128 KB, in L2 with the rows of A, 336 KB) and runs the register tile over them. A is packed once, by all threads, before;
// B is packed by the unit that needs it, which costs 4 % of the unit and saves writing and reading all of B.
#include "cpu/gemm.h"

#include <string.h>

#include "cpu/gemm_kernels.h"
#include "cpu/gemv.h"

#define UNIT_ROWS 336                // a multiple of the tiles of 14 and of 6 rows
#define UNIT_BYTES_WIDE 512          // of a row of a unit: 128 floats, 64 doubles
#define K_CHUNK 16384                // values of k for which A is packed at a time
#define A_CHUNK_BYTES (16 << 20)
#define GRAIN_WORK (1 << 18)         // multiply-adds worth handing to a thread: about 4 us
#define ALIGN 64

typedef struct plan {
    const gemm_kernels *kernels;
    int64_t m, n, k;                 // n and k in reals
    int64_t unit_rows, unit_cols;
    int64_t chunk_rows, chunk_k;     // of A, packed at a time
    int64_t lanes;                   // reals of one vector, 64 bytes
    bool direct_a, direct_b;         // used where they lie
    bool sums_in_c;                  // C holds the sums as they grow
    bool jobs;                       // a thread does all columns of its rows and packs A itself (batches of small products)
    size_t a_bytes, sums_bytes;      // shared
    size_t unit_b_bytes, unit_sums_bytes, unit_a_bytes, thread_bytes;
} plan;

typedef struct run {
    const nbx_gemm *g;
    plan p;
    gemm_side a, b;                  // of the current entry of the batch
    char *a_packed, *sums, *threads; // parts of the scratch
    int64_t entry, row, k;           // the current chunk of A
    int64_t rows, ks;
} run;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
static int64_t round_up(int64_t n, int64_t to) { return pieces(n, to) * to; }
static size_t aligned(int64_t bytes) { return (size_t)round_up(bytes, ALIGN); }

static nbx_isa isa_of(const nbx_gemm *g) { return g->force_isa > 0 ? (nbx_isa)(g->force_isa - 1) : nbx_isa_best(); }

// NULL: the integers that have plain loops.
static const gemm_kernels *kernels_for(const nbx_gemm *g)
{
#if defined(NBX_HAVE_ISA_BASELINE)
#define BASELINE(name) &name##_baseline
#elif defined(NBX_HAVE_ISA_AVX2)
#define BASELINE(name) &name##_avx2
#else
#define BASELINE(name) &name##_avx512
#endif
#if defined(NBX_HAVE_ISA_AVX2)
#define AVX2(name) &name##_avx2
#else
#define AVX2(name) BASELINE(name)
#endif
#if defined(NBX_HAVE_ISA_AVX512)
#define AVX512(name) &name##_avx512
#else
#define AVX512(name) AVX2(name)
#endif
#define ALL(name) {BASELINE(name), AVX2(name), AVX512(name)}
    static const gemm_kernels *const table[GEMM_KINDS][NBX_ISA_COUNT] = {
        [GEMM_F32] = ALL(gemm_kernels_f32), [GEMM_F64] = ALL(gemm_kernels_f64), [GEMM_INT8] = ALL(gemm_kernels_int8),
        [GEMM_COMPLEX64] = ALL(gemm_kernels_c64), [GEMM_COMPLEX128] = ALL(gemm_kernels_c128),
    };
    gemm_kind kind;
    switch (g->dtype) {
    case NBX_FLOAT32: case NBX_FLOAT16: case NBX_BFLOAT16: kind = GEMM_F32; break;
    case NBX_FLOAT64: kind = GEMM_F64; break;
    case NBX_INT8: case NBX_UINT8: kind = GEMM_INT8; break;
    case NBX_COMPLEX64: kind = GEMM_COMPLEX64; break;
    case NBX_COMPLEX128: kind = GEMM_COMPLEX128; break;
    default: return NULL;
    }
    return table[kind][isa_of(g)];
}

static bool is_real(nbx_dtype d) { return d == NBX_FLOAT32 || d == NBX_FLOAT64; }

// Rows 4 KB apart share a set of the first cache; more of them than it has ways evict each other.
static bool rows_collide(int64_t rows, int64_t stride_bytes) { return rows > 8 && stride_bytes % 4096 == 0; }

static plan make_plan(const nbx_gemm *g, int threads)
{
    const gemm_kernels *kernels = kernels_for(g);
    const int64_t reals = nbx_dtype_is_complex(g->dtype) ? 2 : 1, size = kernels->real_bytes;
    plan p = {.kernels = kernels, .m = g->m, .n = g->n * reals, .k = g->k * reals};
    const int64_t tile = kernels->rows, panel = kernels->cols;
    const bool plain = is_real(g->dtype);
    p.direct_a = plain && (p.m <= 2 * tile || p.n <= 2 * panel) && !rows_collide(p.m, g->row_stride_a * size);
    p.direct_b = plain && g->packed_b == NULL && g->unpack_b == NULL && g->col_stride_b == 1 && p.m <= 2 * tile && p.k * p.n * size <= 512 << 10;
    p.lanes = 64 / size;
    p.sums_in_c = plain && g->out_dtype == g->dtype && g->alpha == 1 && g->beta == 0 && g->bias == NULL &&
                  g->activation == NBX_ACTIVATION_NONE && g->col_stride_c == 1;
    p.unit_rows = smaller(UNIT_ROWS, round_up(p.m, tile));
    p.unit_cols = smaller(UNIT_BYTES_WIDE / size, round_up(p.n, panel));
    p.chunk_k = smaller(p.k, K_CHUNK);
    p.chunk_rows = smaller(round_up(p.m, tile), larger(1, A_CHUNK_BYTES / (p.chunk_k * size * UNIT_ROWS)) * UNIT_ROWS);
    p.a_bytes = p.direct_a ? 0 : aligned(p.chunk_rows * p.chunk_k * size);
    p.sums_bytes = p.k > K_CHUNK ? aligned(p.chunk_rows * round_up(p.n, panel) * size) : 0;
    p.unit_b_bytes = aligned(smaller(GEMM_K_BLOCK, p.k) * p.unit_cols * size);
    p.unit_sums_bytes = aligned(p.unit_rows * p.unit_cols * size);
    p.unit_a_bytes = g->batch > 1 && !p.direct_a && p.k <= K_CHUNK ? aligned(p.unit_rows * p.k * size) : 0;
    p.thread_bytes = p.unit_b_bytes + p.unit_sums_bytes + p.unit_a_bytes + ALIGN; // ALIGN: not all in the same cache sets
    const int64_t row_units = pieces(p.m, p.unit_rows);
    p.jobs = g->batch > 1 && p.k <= K_CHUNK && (g->batch * row_units >= 2 * threads || p.m * p.n * p.k <= 8 * GRAIN_WORK);
    // Smaller units when there are too few for the threads.
    while (!p.jobs && pieces(p.m, p.unit_rows) * pieces(p.n, p.unit_cols) < 3 * threads) {
        if (p.unit_cols > panel) p.unit_cols = round_up(p.unit_cols / 2, panel);
        else if (p.unit_rows > 2 * tile) p.unit_rows = round_up(p.unit_rows / 2, tile);
        else break;
    }
    return p;
}

size_t nbx_gemm_scratch_bytes(const nbx_gemm *g, int threads)
{
    if (g->m == 0 || g->n == 0 || g->k == 0 || g->batch == 0 || kernels_for(g) == NULL) return 0;
    const nbx_gemm turned = {.m = g->n, .n = g->m, .k = g->k, .batch = g->batch, .dtype = g->dtype, .force_isa = g->force_isa};
    const plan p = make_plan(g, threads), q = make_plan(&turned, threads); // the run may exchange A and B
    const size_t bytes = p.a_bytes + p.sums_bytes + p.thread_bytes * (size_t)threads;
    const size_t turned_bytes = q.a_bytes + q.sums_bytes + q.thread_bytes * (size_t)threads;
    size_t most = bytes > turned_bytes ? bytes : turned_bytes;
    for (int i = 0; i < 2 && p.kernels->gemv != NULL; i++) {
        const nbx_gemm *way = i == 0 ? g : &turned;
        const size_t few = way->m <= GEMV_ROWS ? gemv_scratch_bytes(way, threads) : 0;
        most = few > most ? few : most;
    }
    return most;
}

static gemm_side side_of(const nbx_gemm *g, const void *data, int64_t entry_stride, int64_t entry, int64_t outer, int64_t inner)
{
    const char *p = (const char *)data + entry * entry_stride * (int64_t)nbx_dtype_size(g->dtype);
    return (gemm_side){p, outer, inner, g->dtype};
}

// The packed form of B: panels of all k one after the other, in g's dtype.
static int64_t packed_entry_bytes(const nbx_gemm *g, const gemm_kernels *kernels)
{
    return round_up(g->n, kernels->cols) * g->k * (int64_t)nbx_dtype_size(g->dtype);
}

// B's values for one unit and one block of k: where panel 0 lies, and how far it is to the next panel and the next k.
typedef struct panels {
    const char *data;
    int64_t next_panel, next_k; // in reals
} panels;

// Finds them where they are, or packs them to `to`.
static panels bring_b(const run *r, int64_t col, int64_t cols, int64_t k, int64_t ks, char *to)
{
    const gemm_kernels *kernels = r->p.kernels;
    const int64_t width = kernels->cols, size = kernels->real_bytes;
    const panels packed = {to, ks * width, width};
    if (r->g->unpack_b != NULL) {
        r->g->unpack_b(r->g->weights, col, cols, k, ks, (int)width, (float *)(void *)to, packed.next_panel);
        return packed;
    }
    if (r->g->packed_b != NULL) {
        const int64_t bytes = (int64_t)nbx_dtype_size(r->g->dtype), panel = r->g->k * width;
        const char *source = (const char *)r->g->packed_b + (col / width * panel + k * width) * bytes;
        if (r->g->batch_stride_b != 0) source += r->entry * packed_entry_bytes(r->g, kernels);
        if (is_real(r->g->dtype)) return (panels){source, panel, width};
        for (int64_t i = 0; i * width < cols; i++) {
            const gemm_side s = {source + i * panel * bytes, 1, width, r->g->dtype};
            kernels->pack_b(&s, 0, width, 0, ks, (int)width, (void *)(to + i * packed.next_panel * size), 0);
        }
        return packed;
    }
    if (r->p.direct_b && cols % r->p.lanes == 0) return (panels){r->b.data + (k * r->b.inner + col) * size, width, r->b.inner};
    kernels->pack_b(&r->b, col, cols, k, ks, (int)width, to, packed.next_panel);
    return packed;
}

// Where the sums of a unit are kept: in C itself when they are the result, else in the thread's or the shared scratch.
static char *sums_of(const run *r, int64_t row, int64_t col, int64_t cols, char *thread, int64_t *ld)
{
    const nbx_gemm *g = r->g;
    const int64_t size = r->p.kernels->real_bytes;
    if (r->p.sums_in_c && cols % r->p.lanes == 0) {
        *ld = g->row_stride_c;
        return (char *)g->c + (r->entry * g->batch_stride_c + row * g->row_stride_c + col) * size;
    }
    if (r->p.sums_bytes == 0) {
        *ld = r->p.unit_cols;
        return thread + r->p.unit_b_bytes;
    }
    *ld = round_up(r->p.n, r->p.kernels->cols);
    return r->sums + ((row - r->row) * *ld + col) * size;
}

void gemm_report(const nbx_gemm *g, int64_t entry, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    for (int64_t i = row; g->finished != NULL && i < row + rows; i++)
        g->finished(g->finished_arg, entry * g->batch_stride_c + i * g->row_stride_c + col, cols);
}

static void report_all(const nbx_gemm *g)
{
    for (int64_t entry = 0; entry < g->batch; entry++) gemm_report(g, entry, 0, g->m, 0, g->n);
}

// rows x cols of C over the chunk's values of k. a: the packed rows of the unit, unused when A is direct.
static void do_unit(const run *r, int64_t row, int64_t rows, int64_t col, int64_t cols, const char *a, int64_t a_panel, char *thread)
{
    const plan *p = &r->p;
    const gemm_kernels *kernels = p->kernels;
    const int64_t size = kernels->real_bytes, width = kernels->cols;
    gemm_block block = {.rows = rows};
    char *sums = sums_of(r, row, col, cols, thread, &block.ld);
    for (int64_t k = r->k; k < r->k + r->ks; k += GEMM_K_BLOCK) {
        block.k = smaller(GEMM_K_BLOCK, r->k + r->ks - k);
        block.first = k == 0;
        if (p->direct_a) {
            block.a = r->a.data + (row * r->a.outer + k * r->a.inner) * size;
            block.a_outer = r->a.outer;
            block.a_inner = r->a.inner;
        } else {
            block.a = a + (k - r->k) * kernels->rows * size;
            block.a_panel = a_panel;
        }
        const panels b = bring_b(r, col, cols, k, block.k, thread);
        block.b_inner = b.next_k;
        for (int64_t i = 0; i * width < cols; i++) {
            block.b = b.data + i * b.next_panel * size;
            block.cols = smaller(width, cols - i * width);
            block.acc = sums + i * width * size;
            kernels->block(&block);
        }
    }
    const bool in_c = p->sums_in_c && cols % p->lanes == 0;
    if (r->k + r->ks < p->k) return;
    if (!in_c) kernels->finish(r->g, r->entry, row, rows, col, cols, sums, block.ld);
    gemm_report(r->g, r->entry, row, rows, col, cols);
}

static void pack_a_panels(void *arg, int64_t begin, int64_t end, int thread)
{
    const run *r = arg;
    const gemm_kernels *kernels = r->p.kernels;
    const int64_t stride = r->ks * kernels->rows, first = begin * kernels->rows;
    (void)thread;
    kernels->pack_a(&r->a, r->row + first, smaller(end * kernels->rows, r->rows) - first, r->k, r->ks, kernels->rows,
                    (void *)(r->a_packed + begin * stride * kernels->real_bytes), stride);
}

static void do_units(void *arg, int64_t begin, int64_t end, int thread)
{
    const run *r = arg;
    const plan *p = &r->p;
    const int64_t across = pieces(p->n, p->unit_cols), stride = r->ks * p->kernels->rows;
    char *own = r->threads + (size_t)thread * p->thread_bytes;
    for (int64_t u = begin; u < end; u++) {
        const int64_t row = u / across * p->unit_rows, col = u % across * p->unit_cols;
        const char *a = r->a_packed + row / p->kernels->rows * stride * p->kernels->real_bytes;
        do_unit(r, r->row + row, smaller(p->unit_rows, r->rows - row), col, smaller(p->unit_cols, p->n - col), a, stride, own);
    }
}

static int64_t grain_for(int64_t work) { return larger(1, GRAIN_WORK / larger(1, work)); }

static void run_entry(run *r, nbx_pool *pool)
{
    const plan *p = &r->p;
    for (r->row = 0; r->row < p->m; r->row += p->chunk_rows) {
        r->rows = smaller(p->chunk_rows, p->m - r->row);
        for (r->k = 0; r->k < p->k; r->k += p->chunk_k) {
            r->ks = smaller(p->chunk_k, p->k - r->k);
            if (!p->direct_a) {
                nbx_parallel_for(pool, pieces(r->rows, p->kernels->rows), grain_for(r->ks * p->kernels->rows * 16), pack_a_panels, r);
            }
            nbx_parallel_for(pool, pieces(r->rows, p->unit_rows) * pieces(p->n, p->unit_cols),
                             grain_for(p->unit_rows * smaller(p->n, p->unit_cols) * r->ks), do_units, r);
        }
    }
}

static void set_entry(run *r, int64_t entry)
{
    const nbx_gemm *g = r->g;
    r->entry = entry;
    r->a = side_of(g, g->a, g->batch_stride_a, entry, g->row_stride_a, g->col_stride_a);
    r->b = side_of(g, g->b, g->batch_stride_b, entry, g->col_stride_b, g->row_stride_b);
}

// Jobs: one for each unit of rows of each entry of the batch.
static void do_jobs(void *arg, int64_t begin, int64_t end, int thread)
{
    run r = *(const run *)arg;
    const plan *p = &r.p;
    const int64_t row_units = pieces(p->m, p->unit_rows), stride = p->k * p->kernels->rows;
    char *own = r.threads + (size_t)thread * p->thread_bytes, *a = own + p->unit_b_bytes + p->unit_sums_bytes;
    for (int64_t job = begin; job < end; job++) {
        set_entry(&r, job / row_units);
        r.row = job % row_units * p->unit_rows;
        r.rows = smaller(p->unit_rows, p->m - r.row);
        if (!p->direct_a) p->kernels->pack_a(&r.a, r.row, r.rows, 0, p->k, p->kernels->rows, (void *)a, stride);
        for (int64_t col = 0; col < p->n; col += p->unit_cols)
            do_unit(&r, r.row, r.rows, col, smaller(p->unit_cols, p->n - col), a, stride, own);
    }
}

static void do_integer_rows(void *arg, int64_t begin, int64_t end, int thread)
{
    const nbx_gemm *g = arg;
    (void)thread;
    for (int64_t row = begin; row < end; row++) gemm_integer_rows(g, row / g->m, row % g->m, 1);
}

// (A B)^T = B^T A^T: turned so that C's columns are adjacent, or that the short side is the rows. The sums stay the same,
// except complex ones, where re and im would change places in the order.
static bool turn(const nbx_gemm *g, nbx_gemm *t)
{
    if (g->packed_b != NULL || g->unpack_b != NULL || nbx_dtype_is_complex(g->dtype)) return false;
    if (!((g->n <= GEMV_ROWS && g->m > g->n) || (g->row_stride_c == 1 && g->col_stride_c != 1 && g->m > 4))) return false;
    *t = *g;
    t->m = g->n, t->n = g->m;
    t->a = g->b, t->row_stride_a = g->col_stride_b, t->col_stride_a = g->row_stride_b, t->batch_stride_a = g->batch_stride_b;
    t->b = g->a, t->row_stride_b = g->col_stride_a, t->col_stride_b = g->row_stride_a, t->batch_stride_b = g->batch_stride_a;
    t->row_stride_c = g->col_stride_c, t->col_stride_c = g->row_stride_c;
    t->row_stride_d = g->col_stride_d, t->col_stride_d = g->row_stride_d;
    t->bias_per_row = !g->bias_per_row;
    return true;
}

static void without_products(const nbx_gemm *g, const gemm_kernels *kernels)
{
    const int64_t reals = nbx_dtype_is_complex(g->dtype) ? 2 : 1;
    for (int64_t entry = 0; entry < g->batch; entry++) kernels->finish(g, entry, 0, g->m, 0, g->n * reals, NULL, 0);
}

static void run_product(const nbx_gemm *g, const gemm_kernels *kernels, nbx_pool *pool, void *scratch)
{
    run r = {.g = g};
    if (gemv_suits(r.g, kernels)) {
        gemv_run(r.g, kernels, pool, scratch);
        return;
    }
    r.p = make_plan(r.g, nbx_pool_threads(pool));
    r.a_packed = scratch;
    r.sums = r.a_packed + r.p.a_bytes;
    r.threads = r.sums + r.p.sums_bytes;
    if (r.p.jobs) {
        r.ks = r.p.k;
        const int64_t row_units = pieces(r.p.m, r.p.unit_rows);
        nbx_parallel_for(pool, r.g->batch * row_units, grain_for(r.p.unit_rows * r.p.n * r.p.k), do_jobs, &r);
        return;
    }
    for (int64_t entry = 0; entry < r.g->batch; entry++) {
        set_entry(&r, entry);
        run_entry(&r, pool);
    }
}

void nbx_gemm_run(const nbx_gemm *g, nbx_pool *pool, void *scratch)
{
    if (g->m == 0 || g->n == 0 || g->batch == 0) return;
    const gemm_kernels *kernels = kernels_for(g);
    if (kernels == NULL) {
        nbx_gemm copy = *g; // the loop's argument is not const
        nbx_parallel_for(pool, g->batch * g->m, grain_for(g->n * larger(1, g->k)), do_integer_rows, &copy);
        report_all(g);
        return;
    }
    if (g->k == 0) {
        without_products(g, kernels);
        report_all(g);
        return;
    }
    nbx_gemm turned;
    if (turn(g, &turned)) {  // its columns are not adjacent
        turned.finished = NULL;
        run_product(&turned, kernels, pool, scratch);
        report_all(g);
    } else {
        run_product(g, kernels, pool, scratch);
    }
}
// ---- packing B once -------------------------------------------------------------------------------------------------

static bool can_pack(nbx_dtype d) { return d == NBX_FLOAT32 || d == NBX_FLOAT64 || d == NBX_FLOAT16 || d == NBX_BFLOAT16; }

size_t nbx_gemm_packed_bytes(const nbx_gemm *g)
{
    if (!can_pack(g->dtype)) return 0;
    const int64_t entries = g->batch_stride_b == 0 ? 1 : g->batch;
    return (size_t)(entries * packed_entry_bytes(g, kernels_for(g)));
}

typedef struct packing {
    const nbx_gemm *g;
    char *out;
} packing;

// 16-bit elements are moved as they are; the panel's end is zero.
static void pack_halves(const gemm_side *s, int64_t first, int64_t count, int64_t ks, int64_t width, uint16_t *out)
{
    const uint16_t *p = (const uint16_t *)(const void *)s->data + first * s->outer;
    for (int64_t k = 0; k < ks; k += 32) { // 32 values of k: 64 bytes of a column when k is adjacent
        const int64_t end = smaller(ks, k + 32);
        for (int64_t i = 0; i < width; i++) {
            for (int64_t l = k; l < end; l++) out[l * width + i] = i < count ? p[i * s->outer + l * s->inner] : 0;
        }
    }
}

static void pack_panels(void *arg, int64_t begin, int64_t end, int thread)
{
    const packing *job = arg;
    const nbx_gemm *g = job->g;
    const gemm_kernels *kernels = kernels_for(g);
    const int64_t width = kernels->cols, across = pieces(g->n, width), size = (int64_t)nbx_dtype_size(g->dtype);
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const gemm_side s = side_of(g, g->b, g->batch_stride_b, i / across, g->col_stride_b, g->row_stride_b);
        const int64_t first = i % across * width, count = smaller(width, g->n - first);
        char *out = job->out + i * width * g->k * size;
        if (size == 2) pack_halves(&s, first, count, g->k, width, (uint16_t *)(void *)out);
        else kernels->pack_b(&s, first, count, 0, g->k, (int)width, out, 0);
    }
}

void nbx_gemm_pack_b(const nbx_gemm *g, void *packed, nbx_pool *pool)
{
    if (!can_pack(g->dtype) || g->n == 0 || g->k == 0) return;
    const gemm_kernels *kernels = kernels_for(g);
    packing job = {g, packed};
    const int64_t entries = g->batch_stride_b == 0 ? 1 : g->batch;
    nbx_parallel_for(pool, entries * pieces(g->n, kernels->cols), grain_for(g->k * kernels->cols * 16), pack_panels, &job);
}
