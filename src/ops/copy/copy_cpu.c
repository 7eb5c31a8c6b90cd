// Copies, casts and fills by plan. Dense: one long run. Same dtype: blocks moved as they lie, squares where the two sides
// run along different dims. Else: through a tile. Results larger than the caches are streamed.
#include "cpu/pool.h"
#include "cpu/stream_simd.h"
#include "ops/copy/convert.h"
#include "ops/copy/copy.h"

typedef struct copy_job {
    const nbx_copy_plan *plan;
    char *base[2];
} copy_job;

static void clamp_to_half(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float size = x[i] < 0 ? -x[i] : x[i];
        if (size > 65504.0f && size <= 3.4028235e38f) x[i] = x[i] < 0 ? -65504.0f : 65504.0f;
    }
}

static void clamped(const nbx_copy_plan *p, char *to, const char *from, int64_t n0, int64_t n1) {
    const nbx_iter_dim *d = p->iter.dim;
    float tile[NBX_TILE_BYTES / sizeof(float)];
    double wide[NBX_TILE_BYTES / sizeof(double)];
    if (p->from == NBX_FLOAT64) {  // finite doubles beyond float count as finite
        NBX_KERNEL(nbx_load_block)(NBX_FLOAT64, wide, NBX_FLOAT64, from, n0, n1, d[0].stride[1], d[1].stride[1]);
        for (int64_t i = 0; i < n0 * n1; i++) {
            const double x = wide[i], size = x < 0 ? -x : x;
            tile[i] = size > 65504.0 && size <= 1.7976931348623157e308 ? (x < 0 ? -65504.0f : 65504.0f) : (float)x;
        }
    } else {
        NBX_KERNEL(nbx_load_block)(NBX_FLOAT32, tile, (nbx_dtype)p->from, from, n0, n1, d[0].stride[1], d[1].stride[1]);
        clamp_to_half(tile, n0 * n1);
    }
    NBX_KERNEL(nbx_store_block)(NBX_FLOAT16, to, NBX_FLOAT32, tile, n0, n1, d[0].stride[0], d[1].stride[0]);
}

// A dense block made of any source, and streamed row by row.
static void stream_block(const nbx_copy_plan *p, char *to, const char *from, int64_t n0, int64_t n1) {
    _Alignas(64) char tile[NBX_TURNED_BYTES];
    const nbx_iter_dim *d = p->iter.dim;
    const nbx_dtype dtype = (nbx_dtype)p->to;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype);
    const int64_t together = p->iter.crossed && n1 >= NBX_TURNED_BYTES / NBX_TURNED_RUN ? 16 : n0;  // rows of the source, so many that the prefetcher follows all
    if (dtype == (nbx_dtype)p->from)
        for (int64_t i = 0; i < n0; i += together)
            NBX_KERNEL(nbx_move_block)((size_t)bytes, tile + i * bytes, bytes, n0 * bytes, from + i * d[0].stride[1], d[0].stride[1],
                                       d[1].stride[1], n0 - i < together ? n0 - i : together, n1);
    else NBX_KERNEL(nbx_load_block)(dtype, tile, (nbx_dtype)p->from, from, n0, n1, d[0].stride[1], d[1].stride[1]);
    if (n1 == 1 || d[1].stride[0] == n0 * bytes) stream_bytes(to, tile, (size_t)(n0 * n1 * bytes));
    else
        for (int64_t j = 0; j < n1; j++) stream_bytes(to + j * d[1].stride[0], tile + j * n0 * bytes, (size_t)(n0 * bytes));
}

static void copy_block(void *arg, char *const *pointers, int64_t n0, int64_t n1) {
    const nbx_copy_plan *p = arg;
    const nbx_iter_dim *d = p->iter.dim;
    const nbx_dtype to = (nbx_dtype)p->to, from = (nbx_dtype)p->from;
    if (p->clamp) {
        clamped(p, pointers[0], pointers[1], n0, n1);
    } else if (p->stream && to == from && p->rows) {
        for (int64_t j = 0; j < n1; j++)
            stream_bytes(pointers[0] + j * d[1].stride[0], pointers[1] + j * d[1].stride[1], (size_t)n0 * nbx_dtype_size(to));
    } else if (p->stream) {
        stream_block(p, pointers[0], pointers[1], n0, n1);
    } else if (to == from) {
        NBX_KERNEL(nbx_move_block)(nbx_dtype_size(to), pointers[0], d[0].stride[0], d[1].stride[0], pointers[1], d[0].stride[1],
                                   d[1].stride[1], n0, n1);
    } else if (p->rows) {
        for (int64_t j = 0; j < n1; j++)
            NBX_KERNEL(nbx_convert)(to, pointers[0] + j * d[1].stride[0], from, pointers[1] + j * d[1].stride[1], n0);
    } else {
        double tile[NBX_TILE_BYTES / sizeof(double)];
        NBX_KERNEL(nbx_load_block)(to, tile, from, pointers[1], n0, n1, d[0].stride[1], d[1].stride[1]);
        NBX_KERNEL(nbx_store_block)(to, pointers[0], to, tile, n0, n1, d[0].stride[0], d[1].stride[0]);
    }
}

static void run_copy_blocks(void *arg, int64_t begin, int64_t end, int thread) {
    copy_job *j = arg;
    (void)thread;
    nbx_iter_blocks(&j->plan->iter, j->base, begin, end, copy_block, (void *)j->plan);
    if (j->plan->stream) v_stream_end();
}

static void stream_flat(const nbx_copy_plan *p, char *to, const char *from, int64_t count) {
    _Alignas(64) char tile[NBX_TILE_BYTES];
    const nbx_dtype dtype = (nbx_dtype)p->to, source = (nbx_dtype)p->from;
    const int64_t b = (int64_t)nbx_dtype_size(dtype), s = (int64_t)nbx_dtype_size(source), most = dtype == source ? count : NBX_STREAM_TILE / b;
    for (int64_t i = 0; i < count; i += most) {
        const int64_t n = count - i < most ? count - i : most;
        if (dtype != source) NBX_KERNEL(nbx_convert)(dtype, tile, source, from + i * s, n);
        stream_bytes(to + i * b, dtype == source ? from + i * s : tile, (size_t)(n * b));
    }
    v_stream_end();
}

static void run_copy_flat(void *arg, int64_t begin, int64_t end, int thread) {
    const copy_job *j = arg;
    const nbx_dtype to = (nbx_dtype)j->plan->to, from = (nbx_dtype)j->plan->from;
    char *y = j->base[0] + begin * (int64_t)nbx_dtype_size(to);
    const char *x = j->base[1] + begin * (int64_t)nbx_dtype_size(from);
    (void)thread;
    if (j->plan->stream) stream_flat(j->plan, y, x, end - begin);
    else NBX_KERNEL(nbx_convert)(to, y, from, x, end - begin);
}

// A pattern of 64 bytes, stored over and over.
static void fill_dense(char *to, const char *element, size_t bytes, int64_t count) {
    char pattern[64];
    for (size_t i = 0; i < sizeof pattern; i += bytes) memcpy(pattern + i, element, bytes);
    const vf32 v = v_load((const float *)(const void *)pattern);
    const int64_t total = count * (int64_t)bytes;
    int64_t i = 0;
    for (; i + 64 <= total; i += 64) v_store((float *)(void *)(to + i), v);
    memcpy(to + i, pattern, (size_t)(total - i));
}

static void run_fill_flat(void *arg, int64_t begin, int64_t end, int thread) {
    const copy_job *j = arg;
    const size_t bytes = nbx_dtype_size((nbx_dtype)j->plan->to);
    (void)thread;
    fill_dense(j->base[0] + begin * (int64_t)bytes, j->base[1], bytes, end - begin);
}

static void fill_block(void *arg, char *const *pointers, int64_t n0, int64_t n1) {
    const nbx_copy_plan *p = arg;
    const nbx_iter_dim *d = p->iter.dim;
    const size_t bytes = nbx_dtype_size((nbx_dtype)p->to);
    if (d[0].stride[0] == (int64_t)bytes) {
        for (int64_t j = 0; j < n1; j++) fill_dense(pointers[0] + j * d[1].stride[0], pointers[1], bytes, n0);
    } else {
        NBX_KERNEL(nbx_move_block)(bytes, pointers[0], d[0].stride[0], d[1].stride[0], pointers[1], 0, 0, n0, n1);
    }
}

static void run_fill_blocks(void *arg, int64_t begin, int64_t end, int thread) {
    copy_job *j = arg;
    (void)thread;
    nbx_iter_blocks(&j->plan->iter, j->base, begin, end, fill_block, (void *)j->plan);
}

void NBX_KERNEL(nbx_copy_run)(nbx_pool *pool, const nbx_copy_plan *p, void *to, const void *from) {
    if (p->iter.numel == 0) return;
    double element[2];
    copy_job j = {p, {to, (char *)(uintptr_t)from}};
    if (p->fill) {
        NBX_KERNEL(nbx_convert)((nbx_dtype)p->to, element, (nbx_dtype)p->from, from, 1);
        j.base[1] = (char *)element;
    }
    const int64_t count = p->flat ? p->iter.numel : p->iter.block_count;
    void (*const body)(void *, int64_t, int64_t, int) =
        p->fill ? (p->flat ? run_fill_flat : run_fill_blocks) : (p->flat ? run_copy_flat : run_copy_blocks);
    if (pool && count > p->grain) nbx_parallel_for(pool, count, p->grain, body, &j);
    else body(&j, 0, count, 0);
}
