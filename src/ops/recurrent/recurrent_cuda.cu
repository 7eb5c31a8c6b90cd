// A recurrent layer on CUDA: the product with all inputs, then step by step the product with the states and a kernel of the
// gates, a thread for each unit of each sequence. Steps of packed sequences are taken with all rows, and threads of rows that
// do not go on leave: how many there are is only known on the device.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/recurrent/recurrent.h"

// Where the rows of a step lie.
typedef struct span { int64_t first, count; } span;

typedef struct step_call {
    const char *x, *h;       // products with the inputs (of all rows) and with the states
    char *cell, *full;       // full NULL: no projection
    char *state, *out;
    const char *bias[2];     // of input and state, or NULL
    int64_t bias_step[2];
    const span *packed;      // or NULL
    span rows;
    int64_t batch, hidden, units;  // units: of a state
    int dtype, width, mode;
} step_call;

// ---------------------------------------------------------------------------------------------------------------- steps
static __global__ void find_spans(const char *sizes, int64_t step, int64_t steps, int64_t batch, int64_t rows, bool reverse, span *to,
                                  nbx_fault_slot *fault, int op) {
    int64_t first = 0, before = batch;
    for (int64_t t = 0; t < steps; t++) {
        const int64_t count = *(const int64_t *)(sizes + t * step);
        const bool fits = count >= 1 && count <= before && (t > 0 || count == batch) && count <= rows - first && (t + 1 < steps || first + count == rows);
        if (!fits) raise_fault(fault, op, NBX_FAULT_ASSERT, count, rows);
        to[reverse ? steps - 1 - t : t] = {first, fits ? count : 0};
        before = fits ? count : 0, first += before;
    }
}

static __device__ __forceinline__ float sigmoid_of(float x) { return 1.f / (1.f + expf(-x)); }
static __device__ __forceinline__ double sigmoid_of(double x) { return 1. / (1. + exp(-x)); }
static __device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }
static __device__ __forceinline__ double tanh_of(double x) { return tanh(x); }

template <typename R> static __device__ __forceinline__ R part_of(const step_call &s, int which, int64_t row, int64_t gate, int64_t unit, int64_t width) {
    const int64_t at = gate * s.hidden + unit;
    const R x = ((const R *)(which ? s.h : s.x))[row * width + at];
    return s.bias[which] ? x + ewc_load<R>(s.dtype, s.bias[which] + at * s.bias_step[which]) : x;
}

template <typename R> static __global__ void __launch_bounds__(FLAT_THREADS) run_cells(const __grid_constant__ step_call s) {
    const int64_t item = flat_item(), row = item / s.hidden, unit = item - row * s.hidden;
    const span rows = s.packed ? *s.packed : s.rows;
    if (row >= rows.count) return;
    const int gates = s.mode == RECURRENT_LSTM ? 4 : s.mode == RECURRENT_GRU ? 3 : 1;
    R x[4], h[4], y;
    for (int g = 0; g < gates; g++) {
        x[g] = part_of<R>(s, 0, rows.first + row, g, unit, gates * s.hidden);
        h[g] = part_of<R>(s, 1, row, g, unit, gates * s.hidden);
    }
    R *cell = (R *)s.cell + item;
    if (s.mode == RECURRENT_LSTM) {
        const R c = sigmoid_of(x[1] + h[1]) * *cell + sigmoid_of(x[0] + h[0]) * tanh_of(x[2] + h[2]);
        *cell = c;
        y = sigmoid_of(x[3] + h[3]) * tanh_of(c);
    } else if (s.mode == RECURRENT_GRU) {
        const R fresh = tanh_of(x[2] + sigmoid_of(x[0] + h[0]) * h[2]);
        y = fresh + sigmoid_of(x[1] + h[1]) * (*cell - fresh);
        *cell = y;
    } else {
        const R sum = x[0] + h[0];
        y = s.mode == RECURRENT_TANH ? tanh_of(sum) : sum < 0 ? (R)0 : sum;
    }
    if (s.full) {
        ewc_store<R>(s.dtype, s.full + item * s.width, y);
    } else {
        ewc_store<R>(s.dtype, s.state + item * s.width, y);
        ewc_store<R>(s.dtype, s.out + (rows.first * s.hidden + item) * s.width, y);
    }
}

// Projected states, from h to where they belong.
static __global__ void __launch_bounds__(FLAT_THREADS) put_states(const __grid_constant__ step_call s) {
    const int64_t item = flat_item();
    const span rows = s.packed ? *s.packed : s.rows;
    if (item >= rows.count * s.units) return;
    copy_element(s.width, s.state + item * s.width, s.h + item * s.width);
    copy_element(s.width, s.out + (rows.first * s.units + item) * s.width, s.h + item * s.width);
}

// ---------------------------------------------------------------------------------------------------------------- entry
// c [m, n] = a [m, k] x weight [n, k] transposed
static nbx_status multiply(nbx_op_call *c, const void *a, int64_t row, int64_t col, int64_t m, int weight, nbx_dtype out, void *to) {
    const nbx_tensor *w = arg_tensor(c, weight);
    nbx_product p = {};
    p.dtype = (nbx_dtype)w->dtype, p.out_dtype = out;
    p.m = m, p.n = w->shape[0], p.k = w->shape[1];
    p.a.data = (const char *)a, p.a.row = row, p.a.col = col;
    p.b.data = (const char *)nbx_data(w), p.b.row = w->stride[1], p.b.col = w->stride[0];
    p.c.data = (const char *)to, p.c.row = p.n, p.c.col = 1;
    p.alpha[0] = 1, p.alpha_int = 1;
    return nbx_cuda_product(c, &p);
}

static nbx_status run_steps(nbx_op_call *c, const recurrent_job *job, step_call *s, nbx_dtype real) {
    const nbx_tensor *sizes = arg_tensor(c, LAYER_BATCH_SIZES);
    const bool reverse = arg_bool(c, LAYER_REVERSE);
    const int64_t steps = sizes ? sizes->shape[0] : job->steps;
    span *spans = sizes ? (span *)((char *)c->scratch + job->spans) : NULL;
    char *part = (char *)c->scratch + job->step_part;
    nbx_status status = NBX_OK;
    if (sizes) {
        int op;
        nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
        find_spans<<<1, 1, 0, stream_of(c)>>>((const char *)nbx_data(sizes), sizes->stride[0] * 8, steps, job->batch, job->rows, reverse, spans, fault, op);
    }
    s->h = part;
    for (int64_t t = 0; t < steps && status == NBX_OK; t++) {
        s->packed = sizes ? spans + t : NULL;
        s->rows = {(reverse ? steps - 1 - t : t) * job->batch, job->batch};
        status = multiply(c, s->state, job->state, 1, job->batch, LAYER_W_HH, real, part);
        if (real == NBX_FLOAT64) run_cells<double><<<flat_blocks(job->batch * job->hidden), FLAT_THREADS, 0, stream_of(c)>>>(*s);
        else run_cells<float><<<flat_blocks(job->batch * job->hidden), FLAT_THREADS, 0, stream_of(c)>>>(*s);
        if (!s->full || job->state == 0 || status != NBX_OK) continue;
        status = multiply(c, s->full, job->hidden, 1, job->batch, LAYER_W_HR, (nbx_dtype)s->dtype, part);
        put_states<<<flat_blocks(job->batch * job->state), FLAT_THREADS, 0, stream_of(c)>>>(*s);
    }
    return status == NBX_OK ? launch_status(c) : status;
}

static nbx_status recurrent_cuda(nbx_op_call *c) {
    const recurrent_job *job = (const recurrent_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, LAYER_INPUT), *hx = arg_tensor(c, LAYER_HX), *cx = arg_tensor(c, LAYER_CX), *state = out_get(c, 1);
    const nbx_dtype real = x->dtype == NBX_FLOAT64 ? NBX_FLOAT64 : NBX_FLOAT32;
    const int64_t mode = arg_int(c, LAYER_MODE);
    char *scratch = (char *)c->scratch;
    if (job->batch == 0 || job->hidden == 0) return NBX_OK;
    device_view view;
    view.shape[0] = job->batch, view.shape[1] = view.stride[0] = job->hidden, view.stride[1] = 1;
    const nbx_tensor *cell = view_of(&view, scratch + job->cell, real, 2);
    nbx_status status = nbx_cuda_copy(c, state, hx);
    if (status == NBX_OK && (cx || mode == RECURRENT_GRU)) status = nbx_cuda_copy(c, cell, cx ? cx : hx);
    if (status == NBX_OK && job->rows > 0) {
        step_call s = {};
        s.x = scratch + job->input_part, s.cell = scratch + job->cell, s.full = arg_tensor(c, LAYER_W_HR) ? scratch + job->full : NULL;
        s.state = (char *)nbx_data(state), s.out = (char *)nbx_data(out_get(c, 0));
        s.dtype = x->dtype, s.width = (int)nbx_dtype_size((nbx_dtype)x->dtype), s.mode = (int)mode;
        s.batch = job->batch, s.hidden = job->hidden, s.units = job->state;
        for (int i = 0; i < 2; i++) {
            const nbx_tensor *b = arg_tensor(c, LAYER_B_IH + i);
            if (b) s.bias[i] = (const char *)nbx_data(b), s.bias_step[i] = b->stride[0] * s.width;
        }
        status = multiply(c, nbx_data(x), x->stride[0], x->stride[1], job->rows, LAYER_W_IH, real, scratch + job->input_part);
        if (status == NBX_OK) status = run_steps(c, job, &s, real);
    }
    return status == NBX_OK && cx ? nbx_cuda_copy(c, out_get(c, 2), cell) : status;
}

NBX_CUDA_KERNEL("nbx::recurrent_layer", recurrent_cuda)
