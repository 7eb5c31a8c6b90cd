// Runs plans: for each block, inputs that the loop cannot read in place are converted into tiles in the L1 cache, the
// operator's dense loop runs, and results are converted on the store. A tile whose source did not move (a number, a
// broadcast row) is kept.
#include "cpu/pool.h"
#include "ops/copy/convert.h"
#include "ops/elementwise/loops_simd.h"

typedef struct job {
    const ew_plan *plan;
    char *base[EW_OPERANDS];
    int fault;
} job;

typedef struct worker {
    _Alignas(64) char tile[EW_OPERANDS][NBX_TILE_BYTES];
    const char *loaded[EW_OPERANDS];  // what a tile holds: source, columns and rows
    int64_t loaded0[EW_OPERANDS], loaded1[EW_OPERANDS];
    const ew_plan *plan;
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

static void store(worker *w, int k, char *to, int64_t n0, int64_t n1) {
    const ew_plan *p = w->plan;
    double rounded[NBX_TILE_BYTES / sizeof(double)];
    const nbx_dtype tile = (nbx_dtype)p->tile[k], by = (nbx_dtype)p->by[k];
    if (by != tile) NBX_KERNEL(nbx_convert)(by, rounded, tile, w->tile[k], n0 * n1);
    NBX_KERNEL(nbx_store_block)((nbx_dtype)p->dtype[k], to, by, by != tile ? (void *)rounded : w->tile[k], n0, n1,
                                p->iter.dim[0].stride[k], p->iter.dim[1].stride[k]);
}

static void run_block(void *arg, char *const *pointers, int64_t n0, int64_t n1) {
    worker *w = arg;
    const ew_plan *p = w->plan;
    w->run.count = n0 * n1;
    for (int k = p->outs; k < p->operands; k++) {
        if (!p->direct[k]) load(w, k, pointers[k], n0, n1);
        w->run.in[k - p->outs] = p->direct[k] ? pointers[k] : w->tile[k];
    }
    for (int k = 0; k < p->outs; k++) w->run.out[k] = p->direct[k] ? pointers[k] : w->tile[k];
    p->loop(&w->run);
    for (int k = 0; k < p->outs; k++)
        if (!p->direct[k]) store(w, k, pointers[k], n0, n1);
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
    start_run(&w.run, j);
    nbx_iter_blocks(&j->plan->iter, j->base, begin, end, run_block, &w);
}

static void run_flat(void *arg, int64_t begin, int64_t end, int thread) {
    job *j = arg;
    const ew_plan *p = j->plan;
    ew_run run;
    (void)thread;
    start_run(&run, j);
    run.count = end - begin;
    for (int k = 0; k < p->operands; k++) {
        char *at = j->base[k] + begin * (int64_t)nbx_dtype_size((nbx_dtype)p->dtype[k]);
        if (k < p->outs) run.out[k] = at;
        else run.in[k - p->outs] = at;
    }
    p->loop(&run);
}

nbx_status NBX_KERNEL(ew_execute)(nbx_op_call *c, const ew_loops *loops) {
    const ew_row *row = c->op->data;
    ew_plan local, *p = c->state ? c->state : &local;
    if (p == &local || !p->ready) {
        const nbx_status status = ew_plan_make(c, row, loops, p);
        if (status != NBX_OK) return status;
    }
    if (p->iter.numel == 0) return NBX_OK;
    job j = {.plan = p, .fault = EW_FAULT_NONE};
    for (int k = 0; k < p->outs; k++) j.base[k] = nbx_data(out_get(c, k));
    for (int k = p->outs; k < p->operands; k++)
        j.base[k] = p->number[k] >= 0 ? (char *)p->value[p->number[k]] : nbx_data(c->args[row->arg[k - p->outs]].as.tensor);
    const int64_t count = p->flat ? p->iter.numel : p->iter.block_count;
    void (*const body)(void *, int64_t, int64_t, int) = p->flat ? run_flat : run_blocks;
    if (count > p->grain && c->pool) nbx_parallel_for(c->pool, count, p->grain, body, &j);
    else body(&j, 0, count, 0);
    return j.fault == EW_FAULT_NONE ? NBX_OK : ew_fail_fault(c, j.fault);
}
