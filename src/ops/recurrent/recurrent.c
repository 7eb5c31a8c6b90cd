// Recurrent networks: layers and directions over nbx::recurrent_layer.
//   lstm.input(x [t, n, in], [h, c], params, has_biases, num_layers, dropout, train, bidirectional, batch_first) -> y, h, c
//   lstm.data(data, batch_sizes, [h, c], params, ...): packed sequences    gru, rnn_tanh, rnn_relu: one state, h
//   params, for each layer and direction: w_ih, w_hh, [b_ih, b_hh], [w_hr]; h [layers * dirs, n, state], c [.., hidden]
//   dropout falls between layers in training, PyTorch's random numbers
//   lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell: one step    _cudnn_rnn: the same networks by cuDNN's arguments; its buffers are empty
//   source: aten::lstm, gru, rnn_tanh, rnn_relu, their cells, _cudnn_rnn, mkldnn_rnn_layer
#include "ops/compose.h"
#include "ops/recurrent/recurrent.h"

typedef struct network {
    recurrent_mode mode;
    const nbx_tensor *x, *batch_sizes, *h, *c;  // x [t, n, in], or [rows, in] with batch_sizes; c: LSTM only
    const nbx_tensor *const *params;
    int param_count;
    bool has_biases, projects, train, bidirectional, batch_first;
    int64_t layers;
    double dropout;
} network;

typedef struct results { nbx_tensor *y, *h, *c; } results;

static nbx_status check(nbx_op_call *call, const network *n) {
    const int64_t dirs = n->bidirectional ? 2 : 1, each = (n->has_biases ? 4 : 2) + n->projects;
    const int rank = n->batch_sizes ? 2 : 3;
    if (n->x->rank != rank) return nbx_call_fail(call, NBX_ERROR_SHAPE, "input needs %d dims, found %d", rank, n->x->rank);
    if (n->layers < 1 || n->layers > 4096) return nbx_call_fail(call, NBX_ERROR_ARGUMENT, "num_layers %lld", (long long)n->layers);
    if (n->param_count != n->layers * dirs * each)
        return nbx_call_fail(call, NBX_ERROR_ARGUMENT, "%lld layers need %lld parameters, found %d", (long long)n->layers,
                             (long long)(n->layers * dirs * each), n->param_count);
    if (rank == 3 && n->x->shape[n->batch_first] == 0) return nbx_call_fail(call, NBX_ERROR_SHAPE, "sequences need at least one step");
    const nbx_tensor *const states[2] = {n->h, n->c};
    for (int i = 0; i < 2; i++) {
        const nbx_tensor *s = states[i];
        if (!s) continue;
        if (s->rank != 3 || s->shape[0] != n->layers * dirs || (rank == 3 && s->shape[1] != n->x->shape[!n->batch_first]))
            return nbx_call_fail(call, NBX_ERROR_SHAPE, "state %d must be [%lld, batch, size], one for each layer and direction", i, (long long)(n->layers * dirs));
    }
    return NBX_OK;
}

// Layer and direction number k on rows x.
static nbx_status run_layer(nbx_context *ctx, const network *n, const nbx_tensor *x, int64_t k, nbx_value *out) {
    const nbx_tensor *const *w = n->params + k * ((n->has_biases ? 4 : 2) + n->projects);
    const nbx_tensor *h = do_select(ctx, n->h, 0, k), *c = n->c ? do_select(ctx, n->c, 0, k) : NULL;
    if (!x || !h || (n->c && !c)) return ctx->status;
    return nbx_do_many(ctx, "nbx::recurrent_layer", 11,
                       (nbx_value[]){T(x), T(h), T_OR_NONE(c), T(w[0]), T(w[1]), n->has_biases ? T(w[2]) : NIL, n->has_biases ? T(w[3]) : NIL,
                                     n->projects ? T(w[n->has_biases ? 4 : 2]) : NIL, T_OR_NONE(n->batch_sizes), I(n->mode), B(n->bidirectional && k % 2)},
                       out, 3);
}

static nbx_tensor *stacked(nbx_context *ctx, const nbx_tensor *const *list, int64_t count) {
    return NBX_DO(ctx, "aten::stack", nbx_of_tensors(list, (int)count));
}

static nbx_status run(nbx_op_call *call, const network *n, results *r) {
    nbx_context *ctx = call->ctx;
    const int64_t dirs = n->bidirectional ? 2 : 1;
    const nbx_tensor *x = n->x, **last;  // the states of layers, then their cells
    if (check(call, n) != NBX_OK) return ctx->status;
    if (n->batch_first) x = do_transpose(ctx, x, 0, 1);
    if (!x) return ctx->status;
    const int64_t steps = x->shape[0], batch = x->shape[1];
    if (!n->batch_sizes) x = do_reshape(ctx, x, 2, (int64_t[]){steps * batch, x->shape[2]});
    last = nbx_scope_alloc(ctx, sizeof *last * (size_t)(2 * n->layers * dirs));
    if (!last) return ctx->status;
    for (int64_t layer = 0; layer < n->layers; layer++) {
        const nbx_tensor *y[2] = {NULL, NULL};
        for (int64_t d = 0; d < dirs; d++) {
            const int64_t k = layer * dirs + d;
            nbx_value out[3];
            if (run_layer(ctx, n, x, k, out) != NBX_OK) return ctx->status;
            y[d] = out[0].as.tensor, last[k] = out[1].as.tensor, last[n->layers * dirs + k] = out[2].as.tensor;
        }
        x = dirs == 1 ? y[0] : NBX_DO(ctx, "aten::cat", nbx_of_tensors(y, 2), I(1));
        if (n->train && n->dropout != 0 && layer < n->layers - 1) x = NBX_DO(ctx, "aten::dropout", T(x), F(n->dropout), B(true));
    }
    if (!x) return ctx->status;
    r->y = n->batch_sizes ? (nbx_tensor *)x : do_view(ctx, x, 3, (int64_t[]){steps, batch, x->shape[1]});
    if (n->batch_first) r->y = do_transpose(ctx, r->y, 0, 1);
    r->h = stacked(ctx, last, n->layers * dirs);
    r->c = n->c ? stacked(ctx, last + n->layers * dirs, n->layers * dirs) : NULL;
    return r->y && r->h && (r->c || !n->c) ? NBX_OK : ctx->status;
}

// ------------------------------------------------------------------------------------------------------------ operators
typedef struct form { recurrent_mode mode; bool packed; } form;
static const form lstm = {RECURRENT_LSTM, false}, lstm_data = {RECURRENT_LSTM, true}, gru = {RECURRENT_GRU, false}, gru_data = {RECURRENT_GRU, true},
                  rnn_tanh = {RECURRENT_TANH, false}, rnn_tanh_data = {RECURRENT_TANH, true}, rnn_relu = {RECURRENT_RELU, false},
                  rnn_relu_data = {RECURRENT_RELU, true};

static nbx_status recurrent(nbx_op_call *c) {
    const form *f = c->op->data;
    const int at = f->packed;  // arguments after batch_sizes
    network n = {.mode = f->mode, .x = arg_tensor(c, 0), .batch_sizes = f->packed ? arg_tensor(c, 1) : NULL, .has_biases = arg_bool(c, at + 3),
                 .layers = arg_int(c, at + 4), .dropout = arg_float(c, at + 5), .train = arg_bool(c, at + 6), .bidirectional = arg_bool(c, at + 7),
                 .batch_first = !f->packed && arg_bool(c, 8)};
    if (f->mode == RECURRENT_LSTM) {
        int states;
        const nbx_tensor *const *hx = arg_tensors(c, at + 1, &states);
        if (states != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "needs two states, found %d", states);
        n.h = hx[0], n.c = hx[1];
        n.projects = n.h->rank == 3 && n.c->rank == 3 && n.h->shape[2] != n.c->shape[2];
    } else n.h = arg_tensor(c, at + 1);
    n.params = arg_tensors(c, at + 2, &n.param_count);
    if (n.batch_sizes && n.batch_sizes->storage->device.type != c->device.type) {  // they lie on the host, as PyTorch has them
        n.batch_sizes = nbx_tensor_to_device(c->ctx, n.batch_sizes, c->device);
        if (!n.batch_sizes) return c->ctx->status;
    }
    results r = {0};
    nbx_status status = run(c, &n, &r);
    if (!status) status = out_tensor(c, 0, r.y);
    if (!status) status = out_tensor(c, 1, r.h);
    if (!status && n.c) status = out_tensor(c, 2, r.c);
    return status;
}

static nbx_tensor *nothing(nbx_op_call *c) {
    const int64_t none = 0;
    return nbx_new(c->ctx, c->device, NBX_UINT8, 1, &none);
}

// (input, weight, weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size, num_layers, batch_first, dropout, train,
//  bidirectional, batch_sizes, dropout_state) -> y, h, c, reserve, weight_buf
static nbx_status cudnn_rnn(nbx_op_call *c) {
    int sizes;
    const int64_t *batch_sizes = arg_ints(c, 14, &sizes), mode = arg_int(c, 6), each = arg_int(c, 2), count = sizes;
    network n = {.mode = (recurrent_mode)mode, .x = arg_tensor(c, 0), .h = arg_tensor(c, 4), .c = arg_tensor(c, 5), .projects = arg_int(c, 8) > 0,
                 .layers = arg_int(c, 9), .batch_first = arg_bool(c, 10), .dropout = arg_float(c, 11), .train = arg_bool(c, 12),
                 .bidirectional = arg_bool(c, 13)};
    if (mode < RECURRENT_RELU || mode > RECURRENT_GRU) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode %lld is none of 0 to 3", (long long)mode);
    if ((mode == RECURRENT_LSTM) != (n.c != NULL)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "cx goes with an LSTM, and only with one");
    n.has_biases = each == 4 + n.projects;
    n.params = arg_tensors(c, 1, &n.param_count);
    if (sizes) {
        n.batch_first = false;
        n.batch_sizes = nbx_tensor_from_host(c->ctx, NBX_INT64, 1, &count, batch_sizes);
        if (!n.batch_sizes) return c->ctx->status;
    }
    results r = {0};
    nbx_status status = run(c, &n, &r);
    if (!status) status = out_tensor(c, 0, r.y);
    if (!status) status = out_tensor(c, 1, r.h);
    if (!status) status = out_tensor(c, 2, n.c ? r.c : nothing(c));
    if (!status) status = out_tensor(c, 3, nothing(c));
    return status ? status : out_tensor(c, 4, nothing(c));
}

// One layer in one direction: (input [t, n, in], w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, batch_sizes, mode, hidden_size,
// num_layers, has_biases, bidirectional, batch_first, train) -> y, h, c, workspace. States of 2 or 3 dims.
static nbx_status mkldnn_layer(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *h = arg_tensor(c, 5), *cell = arg_tensor(c, 6);
    const bool biases = arg_bool(c, 12), lstm_mode = arg_int(c, 9) == RECURRENT_LSTM;
    if (x->rank != 3 || h->rank < 2 || h->rank > 3 || cell->rank != h->rank) return nbx_call_fail(c, NBX_ERROR_SHAPE, "input needs 3 dims, states 2 or 3");
    const int64_t rows = x->shape[0] * x->shape[1];
    const nbx_tensor *h2 = do_reshape(ctx, h, 2, (int64_t[]){-1, h->shape[h->rank - 1]}), *c2 = do_reshape(ctx, cell, 2, (int64_t[]){-1, cell->shape[cell->rank - 1]});
    const nbx_tensor *x2 = do_reshape(ctx, x, 2, (int64_t[]){rows, x->shape[2]});
    nbx_value out[3];
    if (!h2 || !c2 || !x2) return ctx->status;
    if (nbx_do_many(ctx, "nbx::recurrent_layer", 11,
                    (nbx_value[]){T(x2), T(h2), lstm_mode ? T(c2) : NIL, c->args[1], c->args[2], biases ? c->args[3] : NIL, biases ? c->args[4] : NIL, NIL, NIL,
                                  c->args[9], c->args[7]},
                    out, 3) != NBX_OK)
        return ctx->status;
    const nbx_tensor *y = out[0].as.tensor;
    nbx_status status = out_tensor(c, 0, do_view(ctx, y, 3, (int64_t[]){x->shape[0], x->shape[1], y->shape[1]}));
    if (!status) status = out_tensor(c, 1, do_view(ctx, out[1].as.tensor, h->rank, h->shape));
    if (!status) status = out_tensor(c, 2, lstm_mode ? do_view(ctx, out[2].as.tensor, cell->rank, cell->shape) : nothing(c));
    return status ? status : out_tensor(c, 3, nothing(c));
}

// (input [n, in], state or [h, c], w_ih, w_hh, b_ih, b_hh) -> h, or h and c
static nbx_status cell(nbx_op_call *c) {
    const form *f = c->op->data;
    const nbx_tensor *x = arg_tensor(c, 0), *h = arg_tensor(c, 1), *old = NULL;
    if (f->mode == RECURRENT_LSTM) {
        int states;
        const nbx_tensor *const *hx = arg_tensors(c, 1, &states);
        if (states != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "needs two states, found %d", states);
        h = hx[0], old = hx[1];
    }
    if (x->rank != 2 || h->rank != 2 || x->shape[0] != h->shape[0]) return nbx_call_fail(c, NBX_ERROR_SHAPE, "input and state need two dims and one batch size");
    nbx_value out[3];
    if (nbx_do_many(c->ctx, "nbx::recurrent_layer", 10,
                    (nbx_value[]){T(x), T(h), T_OR_NONE(old), c->args[2], c->args[3], c->args[4], c->args[5], NIL, NIL, I(f->mode)}, out, 3) != NBX_OK)
        return c->ctx->status;
    const nbx_status status = out_tensor(c, 0, out[1].as.tensor);
    return status || !old ? status : out_tensor(c, 1, out[2].as.tensor);
}

#define NETWORK(NAME, FORM) {.name = "aten::" NAME, .composite = recurrent, .data = &FORM}
#define CELL(NAME, FORM) {.name = "aten::" NAME "_cell", .composite = cell, .data = &FORM}

const nbx_op nbx_ops_recurrent[] = {
    NETWORK("lstm.input", lstm), NETWORK("lstm.data", lstm_data), NETWORK("gru.input", gru), NETWORK("gru.data", gru_data),
    NETWORK("rnn_tanh.input", rnn_tanh), NETWORK("rnn_tanh.data", rnn_tanh_data), NETWORK("rnn_relu.input", rnn_relu),
    NETWORK("rnn_relu.data", rnn_relu_data),
    CELL("lstm", lstm), CELL("gru", gru), CELL("rnn_tanh", rnn_tanh), CELL("rnn_relu", rnn_relu),
    {.name = "aten::_cudnn_rnn", .composite = cudnn_rnn},
    {.name = "aten::mkldnn_rnn_layer", .composite = mkldnn_layer},
    NBX_OPS_END,
};
