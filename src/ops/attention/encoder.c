// The fused layers of ATen's inference path: multi-head self-attention and a transformer encoder layer.
#include <math.h>

#include "ops/compose.h"

static nbx_tensor *linear(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *w, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::linear", T(x), T(w), T_OR_NONE(b));
}

// Projection number `part` of three, split in heads: [batch, heads, length, size].
static nbx_tensor *project(nbx_op_call *c, const nbx_tensor *x, int64_t part, int64_t width, int64_t heads) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *w = do_slice(ctx, arg_tensor(c, 5), 0, part * width, (part + 1) * width);
    const nbx_tensor *b = do_slice(ctx, arg_tensor(c, 6), 0, part * width, (part + 1) * width);
    nbx_tensor *y = linear(ctx, x, w, b);
    if (!y) return NULL;
    return do_transpose(ctx, do_view(ctx, y, 4, (int64_t[]){x->shape[0], x->shape[1], heads, width / heads}), 1, 2);
}

// Where the mask is true a key is not attended. Type 0 is [length, length], 1 [batch, length], 2 a full mask.
static nbx_tensor *apply_mask(nbx_op_call *c, nbx_tensor *scores, const nbx_tensor *mask, int64_t type) {
    if (!mask || !scores) return scores;
    if (type == 1 && mask->rank == 2) mask = do_view(c->ctx, mask, 4, (int64_t[]){mask->shape[0], 1, 1, mask->shape[1]});
    return NBX_DO(c->ctx, "aten::masked_fill.Scalar", T(scores), T(do_cast(c->ctx, mask, NBX_BOOL)), F(-INFINITY));
}

// (query, key, value, embed_dim, num_head, qkv weight and bias, projection weight and bias, mask, need_weights,
//  average_attn_weights, mask_type) -> (out [batch, length, width], weights or nothing)
static nbx_status multi_head_attention(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *query = arg_tensor(c, 0), *w = arg_tensor(c, 5);
    const int64_t width = arg_int(c, 3), heads = arg_int(c, 4);
    if (query->rank != 3 || arg_tensor(c, 1)->rank != 3 || arg_tensor(c, 2)->rank != 3)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "query, key and value need 3 dims");
    if (width < 1 || heads < 1 || width % heads || query->shape[2] != width || w->rank != 2 || w->shape[0] != 3 * width || w->shape[1] != width)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "embed_dim %lld and num_head %lld do not fit the query and the weights", (long long)width,
                             (long long)heads);
    nbx_tensor *q = project(c, query, 0, width, heads), *k = project(c, arg_tensor(c, 1), 1, width, heads);
    nbx_tensor *v = project(c, arg_tensor(c, 2), 2, width, heads);
    nbx_tensor *scores = do_matmul(ctx, do_mul_scalar(ctx, q, F(1 / sqrt((double)(width / heads)))), do_transpose(ctx, k, -2, -1));
    scores = apply_mask(c, scores, arg_tensor(c, 9), arg_int_or(c, 12, 2));
    nbx_tensor *weights = NBX_DO(ctx, "aten::_softmax", T(scores), I(-1), B(false));
    nbx_tensor *y = do_transpose(ctx, do_matmul(ctx, weights, v), 1, 2);
    y = linear(ctx, do_reshape(ctx, y, 3, query->shape), arg_tensor(c, 7), arg_tensor(c, 8));
    const nbx_status status = out_tensor(c, 0, y);
    if (status) return status;
    if (!arg_bool(c, 10)) {
        out_none(c, 1);
        return NBX_OK;
    }
    if (arg_bool(c, 11)) weights = NBX_DO(ctx, "aten::mean.dim", T(weights), nbx_of_ints(&(const int64_t){1}, 1), B(false));
    return out_tensor(c, 1, weights);
}

static nbx_tensor *layer_norm(nbx_op_call *c, const nbx_tensor *x, int weight) {
    const int64_t width = arg_int(c, 1);
    return NBX_DO(c->ctx, "aten::layer_norm", T(x), nbx_of_ints(&width, 1), c->args[weight], c->args[weight + 1], c->args[9]);
}

static nbx_status encoder_layer(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *src = arg_tensor(c, 0);
    const bool gelu = arg_bool(c, 7), norm_first = arg_bool(c, 8);
    const nbx_tensor *x = norm_first ? layer_norm(c, src, 10) : src;
    nbx_value results[2];
    if (!x) return ctx->status;
    const nbx_status status =
        nbx_do_many(ctx, "aten::_native_multi_head_attention", 13,
                    (nbx_value[]){T(x), T(x), T(x), c->args[1], c->args[2], c->args[3], c->args[4], c->args[5], c->args[6], c->args[18],
                                  B(false), B(false), c->args[19]},
                    results, 2);
    if (status) return status;
    x = do_add(ctx, results[0].as.tensor, src);
    if (!norm_first) x = layer_norm(c, x, 10);
    nbx_tensor *y = norm_first ? layer_norm(c, x, 12) : (nbx_tensor *)x;
    y = linear(ctx, y, arg_tensor(c, 14), arg_tensor(c, 15));
    y = gelu ? NBX_DO(ctx, "aten::gelu", T(y), nbx_of_string("none")) : do_unary(ctx, "aten::relu", y);
    y = do_add(ctx, linear(ctx, y, arg_tensor(c, 16), arg_tensor(c, 17)), x);
    return out_tensor(c, 0, norm_first ? y : layer_norm(c, y, 12));
}

const nbx_op nbx_ops_encoder[] = {
    {.name = "aten::_native_multi_head_attention", .composite = multi_head_attention},
    {.name = "aten::_transformer_encoder_layer_fwd", .composite = encoder_layer},
    NBX_OPS_END,
};
