// nbx::recurrent_layer: one layer, one direction.
//   input [rows, inputs]: the steps one after the other, each with as many rows as sequences that still go on
//   hx [batch, state]    cx [batch, hidden], LSTM only    w_ih [gates * hidden, inputs]    w_hh [gates * hidden, state]
//   b_ih, b_hh [gates * hidden] or none    w_hr [state, hidden] or none: the projection of an LSTM
//   batch_sizes [steps] int64, not rising, or none: every step has batch rows    reverse: from the last step to the first
//   -> output [rows, state], h [batch, state], c [batch, hidden] (LSTM; else empty)
//   gates: LSTM i f g o: c' = f c + i g, h' = o tanh(c').  GRU r z n: n = tanh(x_n + r h_n), h' = n + z (h - n).  Else h' = act(x + h)
// The products with the inputs of all steps are one; a step then has the product with the states, and the functions. Half
// types are computed in float, and rounded where they become a state.
#include "ops/recurrent/recurrent.h"

static bool is_matrix(const nbx_tensor *t, int64_t rows, int64_t columns) {
    return t && t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
}
static bool is_vector(const nbx_tensor *t, int64_t size) { return !t || (t->rank == 1 && t->shape[0] == size); }

static nbx_status check(nbx_op_call *c, recurrent_job *job) {
    const nbx_tensor *x = arg_tensor(c, LAYER_INPUT), *hx = arg_tensor(c, LAYER_HX), *cx = arg_tensor(c, LAYER_CX), *w_hh = arg_tensor(c, LAYER_W_HH);
    const nbx_tensor *w_hr = arg_tensor(c, LAYER_W_HR), *sizes = arg_tensor(c, LAYER_BATCH_SIZES);
    const int64_t mode = arg_int(c, LAYER_MODE);
    if (mode < RECURRENT_RELU || mode > RECURRENT_GRU) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode %lld is none of 0 to 3", (long long)mode);
    const nbx_dtype dtype = (nbx_dtype)x->dtype;
    if (!nbx_dtype_is_float(dtype) || nbx_dtype_is_float8(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(dtype));
    for (int i = LAYER_HX; i <= LAYER_W_HR; i++)
        if (arg_tensor(c, i) && (nbx_dtype)arg_tensor(c, i)->dtype != dtype)
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "input is %s, but %s is %s", nbx_dtype_name(dtype), c->schema->params[i].name,
                                 nbx_dtype_name((nbx_dtype)arg_tensor(c, i)->dtype));
    job->gates = recurrent_gates(mode);
    if (x->rank != 2 || hx->rank != 2 || w_hh->rank != 2 || w_hh->shape[0] % job->gates)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "input, states and weights need two dims");
    job->rows = x->shape[0], job->inputs = x->shape[1], job->batch = hx->shape[0];
    job->hidden = w_hh->shape[0] / job->gates, job->state = w_hr ? w_hr->shape[0] : job->hidden;
    const int64_t all = job->gates * job->hidden;
    if (!is_matrix(arg_tensor(c, LAYER_W_IH), all, job->inputs) || !is_matrix(w_hh, all, job->state) || !is_matrix(hx, job->batch, job->state) ||
        !is_vector(arg_tensor(c, LAYER_B_IH), all) || !is_vector(arg_tensor(c, LAYER_B_HH), all) ||
        (w_hr && !is_matrix(w_hr, job->state, job->hidden)) || (mode == RECURRENT_LSTM) != (cx != NULL) ||
        (cx && !is_matrix(cx, job->batch, job->hidden)) || (w_hr && mode != RECURRENT_LSTM))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "input of %lld features, states of %lld and weights of %lld hidden units do not fit together",
                             (long long)job->inputs, (long long)job->state, (long long)job->hidden);
    if (sizes && (sizes->rank != 1 || sizes->dtype != NBX_INT64)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "batch_sizes must be int64 of one dim");
    if (!sizes && (job->batch ? job->rows % job->batch : job->rows))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld rows are not whole steps of %lld", (long long)job->rows, (long long)job->batch);
    job->steps = sizes || !job->batch ? 0 : job->rows / job->batch;
    return NBX_OK;
}

static nbx_gemm product_of(const nbx_op_call *c, int weight, int64_t m, int64_t n, int64_t k, nbx_dtype out) {
    const nbx_tensor *w = arg_tensor(c, weight);
    return (nbx_gemm){.m = m, .n = n, .k = k, .batch = 1, .dtype = (nbx_dtype)w->dtype, .out_dtype = out, .row_stride_a = k, .col_stride_a = 1,
                      .row_stride_b = w->stride[1], .col_stride_b = w->stride[0], .row_stride_c = n, .col_stride_c = 1, .alpha = 1};
}

static nbx_dtype computed(const nbx_op_call *c) { return arg_tensor(c, LAYER_INPUT)->dtype == NBX_FLOAT64 ? NBX_FLOAT64 : NBX_FLOAT32; }

nbx_gemm nbx_recurrent_input_product(const nbx_op_call *c, const recurrent_job *job) {
    return product_of(c, LAYER_W_IH, job->rows, job->gates * job->hidden, job->inputs, computed(c));
}

nbx_gemm nbx_recurrent_state_product(const nbx_op_call *c, const recurrent_job *job) {
    return product_of(c, LAYER_W_HH, job->batch, job->gates * job->hidden, job->state, computed(c));
}

nbx_gemm nbx_recurrent_projection(const nbx_op_call *c, const recurrent_job *job) {
    return product_of(c, LAYER_W_HR, job->batch, job->state, job->hidden, (nbx_dtype)arg_tensor(c, LAYER_INPUT)->dtype);
}

static size_t place(size_t *total, size_t bytes) {
    const size_t at = *total;
    *total += (bytes + 63) & ~(size_t)63;
    return at;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static nbx_status infer(nbx_op_call *c) {
    recurrent_job *job = nbx_call_state(c, sizeof *job);
    if (!job || check(c, job) != NBX_OK) return c->ctx->status;
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, LAYER_INPUT)->dtype;
    const size_t real = nbx_dtype_size(computed(c)), size = nbx_dtype_size(dtype);
    const bool lstm = arg_int(c, LAYER_MODE) == RECURRENT_LSTM;
    if (!out_new(c, 0, dtype, 2, (int64_t[]){job->rows, job->state}, NULL) || !out_new(c, 1, dtype, 2, (int64_t[]){job->batch, job->state}, NULL) ||
        !out_new(c, 2, dtype, 2, (int64_t[]){lstm ? job->batch : 0, job->hidden}, NULL))
        return c->ctx->status;
    const int64_t width = job->gates * job->hidden;
    if (nbx_shape_numel(2, (int64_t[]){job->rows, width}) < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes overflow");
    const nbx_gemm input = nbx_recurrent_input_product(c, job), step = nbx_recurrent_state_product(c, job);
    size_t total = 0, product = larger(nbx_gemm_scratch_bytes(&input, c->ctx->threads), nbx_gemm_scratch_bytes(&step, c->ctx->threads));
    if (arg_tensor(c, LAYER_W_HR)) {
        const nbx_gemm projection = nbx_recurrent_projection(c, job);
        product = larger(product, nbx_gemm_scratch_bytes(&projection, c->ctx->threads));
    }
    job->packs = job->rows > (job->batch < 8 ? 8 : 2) * job->batch;  // one sequence of 100 steps and 64 units: 287 -> 192 us
    job->input_part = place(&total, (size_t)job->rows * (size_t)width * real);
    job->step_part = place(&total, (size_t)job->batch * (size_t)(width > job->state ? width : job->state) * real);
    job->cell = place(&total, (size_t)job->batch * (size_t)job->hidden * real);
    job->full = place(&total, (size_t)job->batch * (size_t)job->hidden * size);
    job->packed = place(&total, job->packs ? nbx_gemm_packed_bytes(&step) : 0);
    job->product = place(&total, product);
    job->spans = place(&total, arg_tensor(c, LAYER_BATCH_SIZES) ? (size_t)arg_tensor(c, LAYER_BATCH_SIZES)->shape[0] * 16 : 0);
    c->scratch_bytes = total;
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const recurrent_job *job = c->state;
    const double size = (double)nbx_dtype_size((nbx_dtype)arg_tensor(c, LAYER_INPUT)->dtype), width = (double)(job->gates * job->hidden);
    cost->flops = 2 * (double)job->rows * width * (double)(job->inputs + job->state);
    cost->bytes_read = size * ((double)job->rows * (double)job->inputs + width * (double)(job->inputs + job->state));
    cost->bytes_written = size * (double)job->rows * (double)job->state;
    cost->scratch_bytes = c->scratch_bytes;
}

const nbx_op nbx_ops_recurrent_layer[] = {
    {.name = "nbx::recurrent_layer", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL(recurrent_cpu)},
    NBX_OPS_END,
};
