// Runs plans: for each block, inputs that the loop cannot read in place are converted into tiles in the L1 cache, the
// operator's dense loop runs, and results are converted on the store. A tile whose source did not move (a number, a
// broadcast row) is kept. Results larger than the caches are made in tiles and streamed out of them.
#include "cpu/pool.h"
#include "cpu/stream_simd.h"
#include "ops/copy/convert.h"
#include "ops/elementwise/loops_simd.h"

#include <stddef.h>

typedef struct job {
    const ew_plan *plan;
    char *base[EW_OPERANDS];
    bool stream;
    int fault;
} job;

typedef struct worker {
    _Alignas(64) char tile[EW_OPERANDS][NBX_TILE_BYTES];
    const char *loaded[EW_OPERANDS];  // what a tile holds: source, columns and rows
    int64_t loaded0[EW_OPERANDS], loaded1[EW_OPERANDS];
    const ew_plan *plan;
    bool stream;
    ew_run run;
} worker;

static void load(worker *w, int k, const char *from, int64_t n0, int64_t n1) {
    const ew_plan *p = w->plan;
    const int64_t s0 = p->iter.dim[0].stride[k], s1 = p->iter.dim[1].stride[k];
    if (w->loaded[k] == from) {
        if (w->loaded0[k] == n0 && w->loaded1[k] >= n1) return;
        if (s0 == 0 && n1 == 1 && w->loaded0[k] >= n0) return;
        if (s0 == 0 && s1 == 0 && w->loaded0[k] * w->loaded1[k] >= n0 * n1) return;
    }
    const nbx_dtype dtype = (nbx_dtype)p->dtype[k], tile = (nbx_dtype)p->tile[k];
    if (ew_rounds_first(p, k) && p->number[k] < 0) {
        double rounded[NBX_TILE_BYTES / sizeof(double)];
        NBX_KERNEL(nbx_load_block)(p->compute, rounded, dtype, from, n0, n1, s0, s1);
        NBX_KERNEL(nbx_convert)(tile, w->tile[k], p->compute, rounded, n0 * n1);
    } else {
        NBX_KERNEL(nbx_load_block)(tile, w->tile[k], dtype, from, n0, n1, s0, s1);
    }
    w->loaded[k] = from;
    w->loaded0[k] = n0;
    w->loaded1[k] = n1;
}

// A tile of results to memory, in the dtype it has there; streamed where rows are dense.
static void store(worker *w, int k, char *to, int64_t n0, int64_t n1) {
    const ew_plan *p = w->plan;
    _Alignas(64) char rounded[NBX_TILE_BYTES], converted[NBX_TILE_BYTES];
    const nbx_dtype dtype = (nbx_dtype)p->dtype[k], by = (nbx_dtype)p->by[k];
    const int64_t b = (int64_t)nbx_dtype_size(dtype), s0 = p->iter.dim[0].stride[k], s1 = p->iter.dim[1].stride[k];
    nbx_dtype is = (nbx_dtype)p->tile[k];
    const char *from = w->tile[k];
    if (by != is) {
        NBX_KERNEL(nbx_convert)(by, rounded, is, from, n0 * n1);
        is = by, from = rounded;
    }
    if (!w->stream || s0 != b) {
        NBX_KERNEL(nbx_store_block)(dtype, to, is, from, n0, n1, s0, s1);
        return;
    }
    if (is != dtype) {
        NBX_KERNEL(nbx_convert)(dtype, converted, is, from, n0 * n1);
        from = converted;
    }
    if (n1 == 1 || s1 == n0 * b) stream_bytes(to, from, (size_t)(n0 * n1 * b));
    else
        for (int64_t j = 0; j < n1; j++) stream_bytes(to + j * s1, from + j * n0 * b, (size_t)(n0 * b));
}

static void run_block(void *arg, char *const *pointers, int64_t n0, int64_t n1) {
    worker *w = arg;
    const ew_plan *p = w->plan;
    w->run.count = n0 * n1;
    for (int k = p->outs; k < p->operands; k++) {
        if (!p->direct[k]) load(w, k, pointers[k], n0, n1);
        w->run.in[k - p->outs] = p->direct[k] ? pointers[k] : w->tile[k];
    }
    for (int k = 0; k < p->outs; k++) w->run.out[k] = p->direct[k] && !w->stream ? pointers[k] : w->tile[k];
    p->loop(&w->run);
    for (int k = 0; k < p->outs; k++)
        if (w->stream || !p->direct[k]) store(w, k, pointers[k], n0, n1);
}

static void start_run(ew_run *run, job *j) {
    const ew_plan *p = j->plan;
    run->dtype = p->run_dtype;
    run->compute = p->compute;
    run->params = &p->params;
    run->fault = &j->fault;
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int thread) {
    job *j = arg;
    worker w;
    (void)thread;
    memset(w.loaded, 0, sizeof w.loaded);
    w.plan = j->plan;
    w.stream = j->stream;
    start_run(&w.run, j);
    nbx_iter_blocks(&j->plan->iter, j->base, begin, end, run_block, &w);
    if (j->stream) v_stream_end();
}

// The lines that a tile will be read from soon: the processor's own prefetcher stops at every page.
enum { AHEAD_BYTES = 1024 };
static inline void ask_ahead(const char *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) v_prefetch(p + i);
}

static void run_flat(void *arg, int64_t begin, int64_t end, int thread) {
    job *j = arg;
    const ew_plan *p = j->plan;
    _Alignas(64) char tile[EW_OUTPUTS][NBX_TILE_BYTES];
    ew_run run;
    (void)thread;
    start_run(&run, j);
    const int64_t most = j->stream ? p->iter.block[0] : end - begin;
    for (int64_t at = begin; at < end; at += run.count) {
        run.count = end - at < most ? end - at : most;
        for (int k = 0; k < p->operands; k++) {
            char *here = j->base[k] + at * (int64_t)nbx_dtype_size((nbx_dtype)p->dtype[k]);
            if (k < p->outs) run.out[k] = j->stream ? tile[k] : here;
            else run.in[k - p->outs] = here;
            if (k >= p->outs && j->stream) ask_ahead(here + AHEAD_BYTES, run.count * (int64_t)nbx_dtype_size((nbx_dtype)p->dtype[k]));
        }
        p->loop(&run);
        for (int k = 0; j->stream && k < p->outs; k++) {
            const size_t bytes = nbx_dtype_size((nbx_dtype)p->dtype[k]);
            stream_bytes(j->base[k] + (size_t)at * bytes, tile[k], (size_t)run.count * bytes);
        }
    }
    if (j->stream) v_stream_end();
}

// ------------------------------------------------------------------------- functions of one 16-bit number, by a table
typedef struct look_up {
    const uint16_t *table, *x;
    uint16_t *y;
    bool stream;
} look_up;

// Eight at a time: words for the indices, a vector for the results (1.07 cycles an element; one store each 2.3).
typedef uint16_t eight __attribute__((vector_size(16), aligned(2), may_alias));
static void look_up_run(const uint16_t *table, uint16_t *y, const uint16_t *x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t a, b;
        memcpy(&a, x + i, 8), memcpy(&b, x + i + 4, 8);
        *(eight *)(void *)(y + i) = (eight){table[a & 0xffff], table[a >> 16 & 0xffff], table[a >> 32 & 0xffff], table[a >> 48],
                                            table[b & 0xffff], table[b >> 16 & 0xffff], table[b >> 32 & 0xffff], table[b >> 48]};
    }
    for (; i < n; i++) y[i] = table[x[i]];
}

static void look_up_body(void *arg, int64_t begin, int64_t end, int thread) {
    const look_up *j = arg;
    enum { TOGETHER = NBX_STREAM_TILE / 2 };
    _Alignas(64) uint16_t results[TOGETHER];
    (void)thread;
    if (!j->stream) {
        look_up_run(j->table, j->y + begin, j->x + begin, end - begin);
        return;
    }
    for (int64_t i = begin; i < end; i += TOGETHER) {
        const int64_t n = end - i < TOGETHER ? end - i : TOGETHER;
        ask_ahead((const char *)(j->x + i) + AHEAD_BYTES, n * 2);
        look_up_run(j->table, results, j->x + i, n);
        stream_bytes(j->y + i, results, (size_t)n * 2);
    }
    v_stream_end();
}

// Is the call one of those? Its operands are dense halves of the dtype of computing.
static bool is_tabled(const nbx_op_call *c, const ew_row *row, const ew_plan *p) {
    const nbx_iter_dim *d = p->iter.dim;
    return (row->flags & EW_TABLED) && c->scratch && p->operands == 2 && p->number[1] < 0 && p->iter.numel >= EW_TABLED_LEAST &&
           (p->compute == NBX_FLOAT16 || p->compute == NBX_BFLOAT16) && p->dtype[0] == (uint8_t)p->compute && p->dtype[1] == (uint8_t)p->compute &&
           p->iter.rank == 2 && d[1].size == 1 && d[0].stride[0] == 2 && d[0].stride[1] == 2;
}

// The table is the same call on all numbers there are, in place.
static void run_by_table(nbx_op_call *c, const job *j) {
    uint16_t *table = c->scratch;
    ew_plan p;
    memcpy(&p, j->plan, offsetof(ew_plan, iter) + nbx_iter_bytes(2));
    p.iter.numel = p.iter.dim[0].size = EW_TABLE_ELEMENTS;
    p.stream = false;
    nbx_iter_set_blocks(&p.iter, NBX_TILE_BYTES / 8);
    for (int i = 0; i < EW_TABLE_ELEMENTS; i++) table[i] = (uint16_t)i;
    job all = {.plan = &p, .base = {(char *)table, (char *)table}, .fault = EW_FAULT_NONE};
    const int64_t count = p.flat ? p.iter.numel : p.iter.block_count;
    nbx_parallel_for(c->pool, count, p.flat ? 4096 : 4, p.flat ? run_flat : run_blocks, &all);
    look_up l = {table, (const uint16_t *)(const void *)j->base[1], (uint16_t *)(void *)j->base[0], j->stream};
    nbx_parallel_for(c->pool, j->plan->iter.numel, 65536, look_up_body, &l);
}

nbx_status NBX_KERNEL(ew_execute)(nbx_op_call *c, const ew_loops *loops) {
    const ew_row *row = c->op->data;
    ew_plan local, *p = c->state ? c->state : &local;
    if (p == &local || !p->ready) {
        const nbx_status status = ew_plan_make(c, row, loops, p);
        if (status != NBX_OK) return status;
    }
    if (p->iter.numel == 0 || c->plan_only) return NBX_OK;
    job j = {.plan = p, .fault = EW_FAULT_NONE};
    for (int k = 0; k < p->outs; k++) j.base[k] = nbx_data(out_get(c, k));
    for (int k = p->outs; k < p->operands; k++)
        j.base[k] = p->number[k] >= 0 ? (char *)p->value[p->number[k]] : nbx_data(c->args[row->arg[k - p->outs]].as.tensor);
    j.stream = p->stream;
    for (int k = 0; k < p->outs; k++)
        for (int i = p->outs; i < p->operands; i++) j.stream = j.stream && j.base[i] != j.base[k];  // in place: the lines are there
    if (is_tabled(c, row, p)) {
        run_by_table(c, &j);
        return NBX_OK;
    }
    const int64_t count = p->flat ? p->iter.numel : p->iter.block_count;
    void (*const body)(void *, int64_t, int64_t, int) = p->flat ? run_flat : run_blocks;
    if (count > p->grain && c->pool) nbx_parallel_for(c->pool, count, p->grain, body, &j);
    else body(&j, 0, count, 0);
    return j.fault == EW_FAULT_NONE ? NBX_OK : ew_fail_fault(c, j.fault);
}
