// Scaled dot product attention: the kernel operator nbx::attention, and ATen's variants, each with its own order of
// arguments and its own results.
#include <math.h>
#include <string.h>

#include "ops/attention/attention.h"
#include "ops/compose.h"

// ------------------------------------------------------------------------------------------------------------- kernel
enum { QUERY, KEY, VALUE, MASK, CAUSAL, BOTTOM_RIGHT, LIKE_QUERY, COARSE, SCALE };

static nbx_status fail_shapes(nbx_op_call *c, const char *why) {
    char q[NBX_SHAPE_TEXT], k[NBX_SHAPE_TEXT], v[NBX_SHAPE_TEXT];
    const nbx_tensor *x = arg_tensor(c, QUERY), *y = arg_tensor(c, KEY), *z = arg_tensor(c, VALUE);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "query %s, key %s, value %s: %s", nbx_shape_text(x->rank, x->shape, q, sizeof q),
                         nbx_shape_text(y->rank, y->shape, k, sizeof k), nbx_shape_text(z->rank, z->shape, v, sizeof v), why);
}

// Floating tensors of one dtype, rank 4, [batch, heads, length, size]; key and value heads may be shared by groups.
static nbx_status check_operands(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, QUERY), *k = arg_tensor(c, KEY), *v = arg_tensor(c, VALUE);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "query is %s, key %s, value %s", nbx_dtype_name((nbx_dtype)q->dtype),
                             nbx_dtype_name((nbx_dtype)k->dtype), nbx_dtype_name((nbx_dtype)v->dtype));
    nbx_status status = nbx_call_need_float(c, q, false);
    if (status) return status;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4) return fail_shapes(c, "expects 4 dims");
    if (q->shape[0] != k->shape[0] || k->shape[0] != v->shape[0]) return fail_shapes(c, "batch sizes differ");
    if (k->shape[1] != v->shape[1] || k->shape[1] < 1 || q->shape[1] % k->shape[1]) return fail_shapes(c, "heads do not fit");
    if (k->shape[2] != v->shape[2]) return fail_shapes(c, "key and value lengths differ");
    if (q->shape[3] != k->shape[3]) return fail_shapes(c, "query and key sizes differ");
    return NBX_OK;
}

static nbx_status check_mask(nbx_op_call *c) {
    const nbx_tensor *m = arg_tensor(c, MASK), *q = arg_tensor(c, QUERY), *k = arg_tensor(c, KEY);
    if (!m) return NBX_OK;
    if (m->dtype != NBX_BOOL && m->dtype != NBX_FLOAT32 && m->dtype != q->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask is %s: expected bool, float32 or %s", nbx_dtype_name((nbx_dtype)m->dtype),
                             nbx_dtype_name((nbx_dtype)q->dtype));
    const int64_t want[] = {q->shape[0], q->shape[1], q->shape[2], k->shape[2]};
    bool fits = m->rank <= 4;
    for (int i = 0; fits && i < m->rank; i++) fits = m->shape[i] == 1 || m->shape[i] == want[4 - m->rank + i];
    char text[NBX_SHAPE_TEXT];
    if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the mask's shape %s does not broadcast to the scores", nbx_shape_text(m->rank, m->shape, text, sizeof text));
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    nbx_status status = check_operands(c);
    if (!status) status = check_mask(c);
    if (status) return status;
    const nbx_tensor *q = arg_tensor(c, QUERY), *v = arg_tensor(c, VALUE);
    const int64_t shape[] = {q->shape[0], q->shape[1], q->shape[2], v->shape[3]};
    const int64_t lse_stride[] = {shape[2] * shape[1], 1, shape[1]};
    int64_t stride[4];
    nbx_strides_contiguous(4, shape, stride);
    if (arg_bool(c, LIKE_QUERY) && shape[3] == q->shape[3]) nbx_strides_preserve(q, stride);
    if (!out_new(c, 0, (nbx_dtype)q->dtype, 4, shape, stride)) return c->ctx->status;
    if (!out_new(c, 1, q->dtype == NBX_FLOAT64 ? NBX_FLOAT64 : NBX_FLOAT32, 3, shape, lse_stride)) return c->ctx->status;
    nbx_attention p;
    nbx_attention_of(c, &p);
    c->scratch_bytes = nbx_attention_floats(&p) * sizeof(float) * (size_t)c->ctx->threads;
    return NBX_OK;
}

static attention_side side_of(const nbx_tensor *t) {
    attention_side s = {t->storage && t->numel ? nbx_data(t) : NULL, 0, 0, 0, 0};
    int64_t *to[] = {&s.batch, &s.head, &s.row, &s.col};
    for (int i = 0; i < t->rank; i++) *to[4 - t->rank + i] = t->shape[i] == 1 ? 0 : t->stride[i];
    return s;
}

void nbx_attention_of(const nbx_op_call *c, nbx_attention *p) {
    const nbx_tensor *q = arg_tensor(c, QUERY), *k = arg_tensor(c, KEY), *v = arg_tensor(c, VALUE), *m = arg_tensor(c, MASK);
    const nbx_tensor *y = out_get(c, 0), *lse = out_get(c, 1);
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)q->dtype;
    p->batch = q->shape[0], p->heads = q->shape[1], p->kv_heads = k->shape[1];
    p->q_len = q->shape[2], p->k_len = k->shape[2], p->head_dim = q->shape[3], p->v_dim = v->shape[3];
    p->q = side_of(q), p->k = side_of(k), p->v = side_of(v), p->out = side_of(y);
    p->lse = side_of(lse);
    p->lse = (attention_side){p->lse.data, p->lse.head, p->lse.row, p->lse.col, 0};
    if (m) p->mask = side_of(m), p->mask_dtype = (nbx_dtype)m->dtype;
    p->scale64 = arg_float_or(c, SCALE, p->head_dim ? 1 / sqrt((double)p->head_dim) : 1);
    p->scale = (float)p->scale64;
    p->coarse_exp = arg_bool(c, COARSE) && (p->dtype == NBX_FLOAT16 || p->dtype == NBX_BFLOAT16);
    p->causal = arg_bool(c, CAUSAL);
    p->causal_shift = arg_bool(c, BOTTOM_RIGHT) ? p->k_len - p->q_len : 0;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    nbx_attention p;
    nbx_attention_of(c, &p);
    const double scores = (double)p.batch * (double)p.heads * (double)p.q_len * (double)p.k_len * (p.causal ? 0.5 : 1);
    const double size = (double)nbx_dtype_size(p.dtype);
    cost->flops = 2 * scores * (double)(p.head_dim + p.v_dim);
    cost->bytes_read = size * (double)(arg_tensor(c, QUERY)->numel + arg_tensor(c, KEY)->numel + arg_tensor(c, VALUE)->numel);
    cost->bytes_written = size * (double)out_get(c, 0)->numel;
    cost->scratch_bytes = c->scratch_bytes;
}

// ------------------------------------------------------------------------------------------------------------ variants
typedef struct attention_args {
    const nbx_tensor *q, *k, *v, *mask;
    double dropout;
    bool causal, bottom_right, gqa, like_query;
    nbx_value scale;
} attention_args;

static nbx_tensor *zeros_for(nbx_op_call *c, nbx_dtype dtype, int rank, const int64_t *shape) {
    return do_full(c->ctx, c->device, dtype, rank, shape, I(0));
}

// -inf where a bool mask is false, 0 where it is true.
static nbx_tensor *additive_mask(nbx_op_call *c, const nbx_tensor *mask, nbx_dtype dtype) {
    if (!mask || mask->dtype != NBX_BOOL) return (nbx_tensor *)mask;
    nbx_tensor *zeros = do_full(c->ctx, c->device, dtype, mask->rank, mask->shape, F(0));
    return NBX_DO(c->ctx, "aten::masked_fill.Scalar", T(zeros), T(do_unary(c->ctx, "aten::logical_not", mask)), F(-INFINITY));
}

static nbx_tensor *repeat_heads(nbx_context *ctx, const nbx_tensor *t, int64_t heads) {
    if (!t || t->rank < 3 || t->shape[t->rank - 3] == heads || t->shape[t->rank - 3] == 0) return (nbx_tensor *)t;
    return NBX_DO(ctx, "aten::repeat_interleave.self_int", T(t), I(heads / t->shape[t->rank - 3]), I(-3));
}

// The definition, step by step, with the matrix of weights: for weights as a result, dropout, and ranks other than four.
static nbx_status by_steps(nbx_op_call *c, const attention_args *a, const nbx_tensor *dropout_mask, nbx_tensor **out, nbx_tensor **weights) {
    nbx_context *ctx = c->ctx;
    const nbx_dtype dtype = (nbx_dtype)a->q->dtype, inside = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : dtype;
    if (a->q->rank < 2 || a->k->rank < 2 || a->v->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects at least 2 dims");
    if (a->mask && a->causal) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "attn_mask and is_causal exclude each other");
    const int64_t size = a->q->shape[a->q->rank - 1], heads = a->q->rank > 2 ? a->q->shape[a->q->rank - 3] : 1;
    const double scale = a->scale.kind == NBX_KIND_NONE ? (size ? 1 / sqrt((double)size) : 1) : a->scale.as.real;
    const nbx_tensor *k = a->gqa ? repeat_heads(ctx, a->k, heads) : a->k, *v = a->gqa ? repeat_heads(ctx, a->v, heads) : a->v;
    const nbx_tensor *mask = a->mask;
    if (a->causal) {
        nbx_tensor *all = do_full(ctx, c->device, NBX_BOOL, 2, (int64_t[]){a->q->shape[a->q->rank - 2], a->k->shape[a->k->rank - 2]}, B(true));
        mask = additive_mask(c, NBX_DO(ctx, "aten::tril", T(all), I(0)), inside);
        if (!mask) return ctx->status;
    }
    nbx_tensor *q = do_mul_scalar(ctx, do_cast(ctx, a->q, inside), F(scale < 0 ? -sqrt(-scale) : sqrt(scale)));
    nbx_tensor *kt = do_mul_scalar(ctx, do_transpose(ctx, do_cast(ctx, k, inside), -2, -1), F(sqrt(fabs(scale))));
    nbx_tensor *w = do_matmul(ctx, q, kt);
    if (mask) w = do_add(ctx, w, mask);
    w = mask ? NBX_DO(ctx, "aten::_safe_softmax", T(w), I(-1)) : NBX_DO(ctx, "aten::_softmax", T(w), I(-1), B(false));
    v = do_cast(ctx, v, inside);
    nbx_tensor *p = w;
    if (a->dropout > 0 && dropout_mask) {
        p = NBX_DO(ctx, "aten::masked_fill.Scalar", T(w), T(do_unary(ctx, "aten::logical_not", dropout_mask)), F(0));
        v = do_mul_scalar(ctx, v, F(1 / (1 - a->dropout)));
    } else if (a->dropout > 0) {
        p = w = NBX_DO(ctx, "aten::dropout", T(w), F(a->dropout), B(true));
    }
    *out = do_cast(ctx, do_matmul(ctx, p, v), dtype);
    *weights = do_cast(ctx, w, dtype);
    return *out && *weights ? NBX_OK : ctx->status;
}

// The kernel; out and lse as it gives them.
static nbx_status by_kernel(nbx_op_call *c, const attention_args *a, bool coarse_exp, nbx_tensor **out, nbx_tensor **lse) {
    nbx_value results[2];
    const nbx_status status =
        nbx_do_many(c->ctx, "nbx::attention", 9,
                    (nbx_value[]){T(a->q), T(a->k), T(a->v), T_OR_NONE(a->mask), B(a->causal), B(a->bottom_right), B(a->like_query), B(coarse_exp),
                                  a->scale},
                    results, 2);
    if (status) return status;
    *out = (nbx_tensor *)results[0].as.tensor;
    *lse = (nbx_tensor *)results[1].as.tensor;
    return NBX_OK;
}

static bool same_size(const nbx_tensor *a, const nbx_tensor *b, int dim) { return a->shape[dim] == b->shape[dim]; }

// Would ATen take its fused kernel? Then the result has the layout of the query, otherwise it is contiguous.
static bool is_fused(const attention_args *a) {
    const nbx_tensor *q = a->q, *k = a->k, *v = a->v;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || a->dropout > 0) return false;
    if (!same_size(q, k, 0) || !same_size(q, v, 0) || !same_size(k, v, 1) || !same_size(q, k, 3) || !same_size(q, v, 3)) return false;
    if (!same_size(q, k, 1) && !(a->gqa && k->shape[1] > 0 && q->shape[1] % k->shape[1] == 0)) return false;
    if (q->shape[2] == 0 || k->shape[2] == 0 || q->shape[3] == 0) return false;
    if (q->stride[3] != 1 || k->stride[3] != 1 || v->stride[3] != 1) return false;
    return !a->mask || a->mask->rank == 2 || a->mask->rank == 4;
}

// Can the kernel compute it once dims are added in front?
static bool suits_kernel(const attention_args *a) {
    const nbx_tensor *q = a->q, *k = a->k, *v = a->v;
    if (q->rank > 4 || q->rank < 2 || k->rank != q->rank || v->rank != q->rank || a->dropout > 0) return false;
    if (a->mask && (a->mask->rank > q->rank || a->mask->rank < 2 || a->causal)) return false;
    for (int i = 0; i < q->rank - 2; i++) {
        const bool grouped = a->gqa && i == q->rank - 3 && k->shape[i] > 0 && q->shape[i] % k->shape[i] == 0;
        if (!same_size(k, v, i) || (!same_size(q, k, i) && !grouped)) return false;
    }
    return true;
}

static nbx_status check_sdpa(nbx_op_call *c, const attention_args *a) {
    const nbx_tensor *q = a->q;
    if (q->dtype != a->k->dtype || q->dtype != a->v->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "query, key and value must have one dtype");
    const nbx_status status = nbx_call_need_float(c, q, false);
    if (status) return status;
    if (q->rank < 2 || a->k->rank < 2 || a->v->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects at least 2 dims");
    if (a->mask && a->mask->dtype != NBX_BOOL && a->mask->dtype != NBX_FLOAT32 && a->mask->dtype != q->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask is %s: expected bool, float32 or the query's dtype",
                             nbx_dtype_name((nbx_dtype)a->mask->dtype));
    if (a->mask && a->mask->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the mask needs at least 2 dims");
    return NBX_OK;
}

static nbx_tensor *to_rank4(nbx_context *ctx, const nbx_tensor *t) {
    while (t && t->rank < 4) t = do_unsqueeze(ctx, t, 0);
    return (nbx_tensor *)t;
}

static nbx_status sdpa_of(nbx_op_call *c, attention_args *a, nbx_tensor **out) {
    nbx_tensor *other;
    nbx_status status = check_sdpa(c, a);
    if (status) return status;
    a->like_query = is_fused(a);
    if (a->like_query) return by_kernel(c, a, false, out, &other);
    if (!suits_kernel(a)) {
        attention_args steps = *a;
        steps.mask = additive_mask(c, a->mask, (nbx_dtype)a->q->dtype);
        if (a->mask && !steps.mask) return c->ctx->status;
        return by_steps(c, &steps, NULL, out, &other);
    }
    const int rank = a->q->rank;
    attention_args four = *a;
    four.q = to_rank4(c->ctx, a->q), four.k = to_rank4(c->ctx, a->k), four.v = to_rank4(c->ctx, a->v);
    if (!four.q || !four.k || !four.v) return c->ctx->status;
    status = by_kernel(c, &four, false, out, &other);
    for (int i = rank; i < 4 && !status && *out; i++) *out = do_squeeze(c->ctx, *out, 0);
    return status ? status : *out ? NBX_OK : c->ctx->status;
}

static nbx_status sdpa(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), arg_float(c, 4),
                        arg_bool(c, 5),   false,            arg_bool(c, 7),   false,            c->args[6]};
    nbx_tensor *out = NULL;
    const nbx_status status = sdpa_of(c, &a, &out);
    return status ? status : out_tensor(c, 0, out);
}

static nbx_status finish_math(nbx_op_call *c, nbx_status status, nbx_tensor *out, nbx_tensor *weights) {
    if (!status) status = out_tensor(c, 0, out);
    return status ? status : out_tensor(c, 1, weights);
}

static nbx_status sdpa_math(nbx_op_call *c) {
    const bool mps = c->arg_count < 9;
    const attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), arg_float(c, 4), arg_bool(c, 5), false,
                              !mps && arg_bool(c, 8), false, c->args[7]};
    nbx_tensor *out = NULL, *weights = NULL;
    const nbx_status status = by_steps(c, &a, arg_tensor(c, 6), &out, &weights);
    return finish_math(c, status, out, weights);
}

// The form of 2.0's development: (q, k, v, mask, dropout_p, need_attn_weights, is_causal) -> (out, weights or nothing).
static nbx_status sdpa_historical(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), arg_float(c, 4), arg_bool(c, 6), false, false, false, NIL};
    nbx_tensor *out = NULL, *weights = NULL;
    if (arg_bool(c, 5)) {
        a.mask = additive_mask(c, a.mask, (nbx_dtype)a.q->dtype);
        const nbx_status done = by_steps(c, &a, NULL, &out, &weights);
        return finish_math(c, done, out, weights);
    }
    nbx_status status = sdpa_of(c, &a, &out);
    if (!status) status = out_tensor(c, 0, out);
    out_none(c, 1);
    return status;
}

static nbx_status need_no_dropout(nbx_op_call *c, double p) {
    return p > 0 ? nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "dropout in the fused forms") : NBX_OK;
}

static nbx_status sdpa_flash_for_cpu(nbx_op_call *c) {
    const attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 5), 0, arg_bool(c, 4), false, true, true, c->args[6]};
    nbx_tensor *out = NULL, *lse = NULL;
    nbx_status status = need_no_dropout(c, arg_float(c, 3));
    if (status) return status;
    if (a.mask && (a.mask->dtype == NBX_BOOL || (a.mask->rank != 2 && a.mask->rank != 4)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the mask must be floating, of 2 or 4 dims");
    if (a.q->rank == 4 && a.v->rank == 4 && a.q->shape[3] != a.v->shape[3])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "query, key and value must have one size");
    status = by_kernel(c, &a, true, &out, &lse);
    return finish_math(c, status, out, lse);
}

// Results 2 ... of the accelerators' forms: lengths as numbers, seeds of zero, empty workspaces.
static nbx_status other_results(nbx_op_call *c, int64_t q_len, int64_t k_len) {
    nbx_status status = NBX_OK;
    for (int k = 2; k < c->schema->result_count && !status; k++) {
        const char *name = c->schema->results[k].name;
        if (name && !strncmp(name, "cum_seq", 7)) out_none(c, k);
        else if (name && (!strcmp(name, "max_q") || !strcmp(name, "max_seqlen_batch_q"))) out_value(c, k, I(q_len));
        else if (name && (!strcmp(name, "max_k") || !strcmp(name, "max_seqlen_batch_k"))) out_value(c, k, I(k_len));
        else if (name && strstr(name, "mask")) status = out_tensor(c, k, zeros_for(c, (nbx_dtype)arg_tensor(c, 0)->dtype, 1, (int64_t[]){0}));
        else status = out_tensor(c, k, zeros_for(c, NBX_INT64, 0, NULL));
    }
    return status;
}

static nbx_status accelerator_form(nbx_op_call *c, attention_args *a, double dropout, bool want_lse, bool pad_lse, bool lse_column) {
    nbx_tensor *out = NULL, *lse = NULL;
    nbx_status status = need_no_dropout(c, dropout);
    if (!status) status = by_kernel(c, a, false, &out, &lse);
    if (status) return status;
    const int64_t length = a->q->shape[2], rest = (length + 31) / 32 * 32 - length;
    if (!want_lse) lse = zeros_for(c, NBX_FLOAT32, 3, (int64_t[]){a->q->shape[0], a->q->shape[1], 0});
    else if (pad_lse && rest) lse = NBX_DO(c->ctx, "aten::constant_pad_nd", T(lse), nbx_of_ints(((int64_t[]){0, rest}), 2), F(INFINITY));
    else lse = do_contiguous(c->ctx, lse);
    if (want_lse && lse_column) lse = do_unsqueeze(c->ctx, lse, -1);
    status = finish_math(c, NBX_OK, out, lse);
    return status ? status : other_results(c, length, a->k->shape[2]);
}

static nbx_status need_rank4(nbx_op_call *c) {
    for (int i = 0; i < 3; i++)
        if (arg_tensor(c, i)->rank != 4) return nbx_call_fail(c, NBX_ERROR_SHAPE, "query, key and value need 4 dims");
    return NBX_OK;
}

static nbx_status sdpa_flash(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), NULL, 0, arg_bool(c, 4), true, true, true, c->args[6]};
    const nbx_status status = need_rank4(c);
    return status ? status : accelerator_form(c, &a, arg_float(c, 3), true, false, false);
}

static nbx_status sdpa_efficient(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), 0, arg_bool(c, 6), false, true, true, c->args[7]};
    const nbx_status status = need_rank4(c);
    return status ? status : accelerator_form(c, &a, arg_float(c, 5), arg_bool(c, 4), true, false);
}

static nbx_status sdpa_cudnn(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), 0, arg_bool(c, 6), false, true, true, c->args[8]};
    const nbx_status status = need_rank4(c);
    return status ? status : accelerator_form(c, &a, arg_float(c, 5), arg_bool(c, 4), false, true);
}

static nbx_status sdpa_overrideable(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), 0, arg_bool(c, 5), false, true, true, c->args[7]};
    const nbx_status status = need_rank4(c);
    return status ? status : accelerator_form(c, &a, arg_float(c, 4), true, false, false);
}

// The forward forms take [batch, length, heads, size]. Packed sequences have 3 dims and cumulative lengths.
static nbx_status swap_heads(nbx_op_call *c, attention_args *a, int cumulative_q, int cumulative_k) {
    if (!arg_is_none(c, cumulative_q) || !arg_is_none(c, cumulative_k))
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "packed sequences of different lengths");
    const nbx_status status = need_rank4(c);
    if (status) return status;
    a->q = do_transpose(c->ctx, a->q, 1, 2), a->k = do_transpose(c->ctx, a->k, 1, 2), a->v = do_transpose(c->ctx, a->v, 1, 2);
    return a->q && a->k && a->v ? NBX_OK : c->ctx->status;
}

static nbx_status swap_result(nbx_op_call *c, nbx_status status) {
    if (status) return status;
    return out_tensor(c, 0, do_transpose(c->ctx, out_get(c, 0), 1, 2));
}

static nbx_status flash_forward(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), NULL, 0, arg_bool(c, 8), true, true, true, c->args[10]};
    if (arg_int_or(c, 11, -1) >= 0 || arg_int_or(c, 12, -1) >= 0 || !arg_is_none(c, 13) || !arg_is_none(c, 14))
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "windows, seqused_k and alibi_slopes");
    nbx_status status = swap_heads(c, &a, 3, 4);
    return status ? status : swap_result(c, accelerator_form(c, &a, arg_float(c, 7), true, false, false));
}

static nbx_status efficient_forward(nbx_op_call *c) {
    const int64_t kind = arg_int(c, 9);
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), 0, kind != 0, kind == 2, true, true, c->args[11]};
    if (kind < 0 || kind > 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "custom_mask_type %lld", (long long)kind);
    if (!arg_is_none(c, 12) || arg_int_or(c, 13, -1) > 0) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "seqlen_k and window_size");
    nbx_status status = swap_heads(c, &a, 4, 5);
    return status ? status : swap_result(c, accelerator_form(c, &a, arg_float(c, 8), arg_bool(c, 10), true, false));
}

static nbx_status cudnn_forward(nbx_op_call *c) {
    attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), 0, arg_bool(c, 10), false, true, true, c->args[12]};
    if (!arg_is_none(c, 4) || !arg_is_none(c, 5)) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "packed sequences of different lengths");
    const nbx_status status = need_rank4(c);
    return status ? status : accelerator_form(c, &a, arg_float(c, 9), arg_bool(c, 8), false, true);
}

// Which backend ATen would take: 1 the fused one, 0 the steps.
static nbx_status sdp_choice(nbx_op_call *c) {
    const attention_args a = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2), arg_tensor(c, 3), arg_float(c, 4), arg_bool(c, 5), false,
                              arg_bool(c, 7),   false,            c->args[6]};
    out_value(c, 0, I(is_fused(&a) ? 1 : 0));
    return NBX_OK;
}

const nbx_op nbx_ops_attention[] = {
    {.name = "nbx::attention", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL(attention_cpu)},
    {.name = "aten::scaled_dot_product_attention", .composite = sdpa},
    {.name = "aten::_scaled_dot_product_attention_math", .composite = sdpa_math},
    {.name = "aten::_scaled_dot_product_attention_math_for_mps", .composite = sdpa_math},
    {.name = "nbx::_scaled_dot_product_attention", .composite = sdpa_historical},
    {.name = "aten::_scaled_dot_product_flash_attention_for_cpu", .composite = sdpa_flash_for_cpu},
    {.name = "aten::_scaled_dot_product_flash_attention", .composite = sdpa_flash},
    {.name = "aten::_scaled_dot_product_efficient_attention", .composite = sdpa_efficient},
    {.name = "aten::_scaled_dot_product_cudnn_attention", .composite = sdpa_cudnn},
    {.name = "aten::_scaled_dot_product_fused_attention_overrideable", .composite = sdpa_overrideable},
    {.name = "aten::_flash_attention_forward", .composite = flash_forward},
    {.name = "aten::_efficient_attention_forward", .composite = efficient_forward},
    {.name = "aten::_cudnn_attention_forward", .composite = cudnn_forward},
    {.name = "aten::_fused_sdp_choice", .composite = sdp_choice},
    NBX_OPS_END,
};
