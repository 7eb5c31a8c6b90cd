// The kernel of a recurrent layer: the product with all inputs, then step by step the product with the states and the gates.
#include "cpu/simd.h"

#include <string.h>

#include "cpu/pool.h"
#include "cpu/vecmath.h"
#include "ops/recurrent/recurrent.h"

#define REAL float
#define VEC vf32
#define LANES 16
#define V(op) v_##op
#define NAME(name) name##_f32
SIMD_INLINE void store_state_f32(nbx_dtype dtype, void *p, int64_t j, vf32 x, int n)
{
    if (dtype == NBX_FLOAT16) v_store_f16_n((uint16_t *)p + j, x, n);
    else if (dtype == NBX_BFLOAT16) v_store_bf16_n((uint16_t *)p + j, x, n);
    else v_store_n((float *)p + j, x, n);
}
#include "ops/recurrent/recurrent_cells.h"
#undef REAL
#undef VEC
#undef LANES
#undef V
#undef NAME

#define REAL double
#define VEC vf64
#define LANES 8
#define V(op) vd_##op
#define NAME(name) name##_f64
SIMD_INLINE void store_state_f64(nbx_dtype dtype, void *p, int64_t j, vf64 x, int n)
{
    (void)dtype;
    vd_store_n((double *)p + j, x, n);
}
#include "ops/recurrent/recurrent_cells.h"

// Rows of a matrix of any strides to packed ones: f16 and bf16 as they are, or as float.
static void copy_rows(const nbx_tensor *from, void *to, bool as_float)
{
    const size_t size = nbx_dtype_size((nbx_dtype)from->dtype);
    const char *data = nbx_data(from);
    for (int64_t i = 0; i < from->shape[0]; i++)
        for (int64_t j = 0; j < from->shape[1]; j++) {
            const char *p = data + (i * from->stride[0] + j * from->stride[1]) * (int64_t)size;
            const int64_t at = i * from->shape[1] + j;
            if (!as_float || from->dtype == NBX_FLOAT32 || from->dtype == NBX_FLOAT64) memcpy((char *)to + (size_t)at * size, p, size);
            else if (from->dtype == NBX_FLOAT16) v_store_n((float *)to + at, v_load_f16_n((const uint16_t *)(const void *)p, 1), 1);
            else v_store_n((float *)to + at, v_load_bf16_n((const uint16_t *)(const void *)p, 1), 1);
        }
}

// Adds a bias of a half type, which the product into float cannot read.
static void add_half_bias(float *x, int64_t rows, int64_t columns, const nbx_tensor *bias)
{
    const uint16_t *b = nbx_data(bias);
    for (int64_t j = 0; j < columns; j++) {
        const uint16_t *at = b + j * bias->stride[0];
        float value;
        v_store_n(&value, bias->dtype == NBX_FLOAT16 ? v_load_f16_n(at, 1) : v_load_bf16_n(at, 1), 1);
        for (int64_t i = 0; i < rows; i++) x[i * columns + j] += value;
    }
}

typedef struct layer {
    nbx_op_call *call;
    const recurrent_job *job;
    char *scratch, *out;
    nbx_gemm step, projection;
    bool wide;           // float64
    recurrent_mode mode;
    size_t real, size;   // bytes of a computed number, and of one of the dtype
} layer;

// One step of `count` sequences whose rows begin at `row`.
static void run_step(layer *l, int64_t row, int64_t count)
{
    const recurrent_job *job = l->job;
    nbx_op_call *c = l->call;
    const nbx_tensor *state = out_get(c, 1), *b_hh = arg_tensor(c, LAYER_B_HH);
    const int64_t width = job->gates * job->hidden;
    const bool projects = arg_tensor(c, LAYER_W_HR) != NULL, gru = l->mode == RECURRENT_GRU, half = l->size == 2;
    char *input = l->scratch + job->input_part + (size_t)(row * width) * l->real, *part = l->scratch + job->step_part;
    char *out = l->out + (size_t)(row * job->state) * l->size, *full = l->scratch + job->full;
    nbx_gemm g = l->step;
    g.m = count, g.a = nbx_data(state), g.c = part;
    if (!gru) g.beta = 1, g.d = input, g.row_stride_d = width, g.col_stride_d = 1;
    if (b_hh && !half) g.bias = nbx_data(b_hh), g.bias_stride = b_hh->stride[0];
    nbx_gemm_run(&g, c->pool, l->scratch + job->product);
    if (b_hh && half) add_half_bias((float *)(void *)part, count, width, b_hh);
    const int64_t grain = 1 + 2048 / (job->hidden + 1);
    char *to = projects ? full : nbx_data(state);
    const size_t row_bytes = (size_t)job->hidden * l->size;
    const nbx_dtype dtype = (nbx_dtype)state->dtype;
    if (l->wide) {
        step_f64 s = {job, (const double *)(void *)(gru ? input : part), gru ? (const double *)(void *)part : NULL,
                      (double *)(void *)(l->scratch + job->cell), to, projects ? NULL : out, row_bytes, l->mode, dtype};
        nbx_parallel_for(c->pool, count, grain, run_rows_f64, &s);
    } else {
        step_f32 s = {job, (const float *)(void *)(gru ? input : part), gru ? (const float *)(void *)part : NULL,
                      (float *)(void *)(l->scratch + job->cell), to, projects ? NULL : out, row_bytes, l->mode, dtype};
        nbx_parallel_for(c->pool, count, grain, run_rows_f32, &s);
    }
    if (!projects) return;
    nbx_gemm p = l->projection;
    p.m = count, p.a = full, p.c = out;
    nbx_gemm_run(&p, c->pool, l->scratch + job->product);
    memcpy(nbx_data(state), out, (size_t)(count * job->state) * l->size);
}

static void multiply_inputs(layer *l)
{
    nbx_op_call *c = l->call;
    const nbx_tensor *x = arg_tensor(c, LAYER_INPUT), *w = arg_tensor(c, LAYER_W_IH), *b = arg_tensor(c, LAYER_B_IH);
    nbx_gemm g = nbx_recurrent_input_product(c, l->job);
    g.a = nbx_data(x), g.row_stride_a = x->stride[0], g.col_stride_a = x->stride[1];
    g.b = nbx_data(w), g.c = l->scratch + l->job->input_part;
    if (b && l->size != 2) g.bias = nbx_data(b), g.bias_stride = b->stride[0];
    nbx_gemm_run(&g, c->pool, l->scratch + l->job->product);
    if (b && l->size == 2) add_half_bias((float *)g.c, g.m, g.n, b);
}

// Are the batch sizes falling, positive, the first that of the states, and all rows theirs?
static bool sizes_fit(const recurrent_job *job, const nbx_tensor *sizes)
{
    const int64_t *size = nbx_data(sizes);
    int64_t rows = 0, before = job->batch;
    for (int64_t t = 0; t < sizes->shape[0]; t++) {
        const int64_t now = size[t * sizes->stride[0]];
        if (now < 1 || now > before || (t == 0 && now != job->batch)) return false;
        before = now, rows += now;
        if (rows > job->rows) return false;
    }
    return rows == job->rows;
}

static void run_steps(layer *l)
{
    const recurrent_job *job = l->job;
    const nbx_tensor *sizes = arg_tensor(l->call, LAYER_BATCH_SIZES);
    const bool reverse = arg_bool(l->call, LAYER_REVERSE);
    const int64_t steps = sizes ? sizes->shape[0] : job->steps;
    int64_t row = reverse ? job->rows : 0;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t t = reverse ? steps - 1 - i : i;
        const int64_t count = sizes ? ((const int64_t *)nbx_data(sizes))[t * sizes->stride[0]] : job->batch;
        if (reverse) row -= count;
        run_step(l, row, count);
        if (!reverse) row += count;
    }
}

// The cells of the last steps, rounded to the dtype.
static void put_cells(const layer *l, const nbx_tensor *to)
{
    const int64_t count = to->numel;
    if (l->wide) memcpy(nbx_data(to), l->scratch + l->job->cell, (size_t)count * 8);
    else {
        const float *c = (const float *)(const void *)(l->scratch + l->job->cell);
        for (int64_t i = 0; i < count; i += 16) {
            const int n = count - i < 16 ? (int)(count - i) : 16;
            store_state_f32((nbx_dtype)to->dtype, nbx_data(to), i, v_load_n(c + i, n), n);
        }
    }
}

nbx_status NBX_KERNEL(recurrent_cpu)(nbx_op_call *call)
{
    const recurrent_job *job = call->state;
    const nbx_tensor *sizes = arg_tensor(call, LAYER_BATCH_SIZES), *cx = arg_tensor(call, LAYER_CX), *state = out_get(call, 1);
    const nbx_dtype dtype = (nbx_dtype)state->dtype;
    layer l = {.call = call, .job = job, .scratch = call->scratch, .wide = dtype == NBX_FLOAT64, .mode = (recurrent_mode)arg_int(call, LAYER_MODE)};
    l.size = nbx_dtype_size(dtype), l.real = l.wide ? 8 : 4;
    if (sizes && !sizes_fit(job, sizes)) return nbx_call_fail(call, NBX_ERROR_ARGUMENT, "batch_sizes do not fit %lld rows and %lld sequences", (long long)job->rows, (long long)job->batch);
    if (job->batch == 0 || job->hidden == 0) return NBX_OK;
    copy_rows(arg_tensor(call, LAYER_HX), nbx_data(state), false);
    if (cx) copy_rows(cx, l.scratch + job->cell, true);
    else if (l.mode == RECURRENT_GRU) copy_rows(arg_tensor(call, LAYER_HX), l.scratch + job->cell, true);
    if (job->rows == 0) return NBX_OK;
    l.out = nbx_data(out_get(call, 0));
    multiply_inputs(&l);
    l.step = nbx_recurrent_state_product(call, job);
    l.step.b = nbx_data(arg_tensor(call, LAYER_W_HH));
    if (job->packs && nbx_gemm_packed_bytes(&l.step)) {
        nbx_gemm_pack_b(&l.step, l.scratch + job->packed, call->pool);
        l.step.packed_b = l.scratch + job->packed;
    }
    if (arg_tensor(call, LAYER_W_HR)) {
        l.projection = nbx_recurrent_projection(call, job);
        l.projection.b = nbx_data(arg_tensor(call, LAYER_W_HR));
    }
    run_steps(&l);
    if (cx) put_cells(&l, out_get(call, 2));
    return NBX_OK;
}
