// A decoder block written by hand: y = x + attention(norm(x)), y + mlp(norm(y)), causal, with a gated MLP.
// Weights are random; what is checked is the meaning of causal: the first tokens do not see the later ones.
#include <math.h>
#include <nbx/nbx.h>
#include <stdio.h>

enum { LENGTH = 12, SEEN = 5, WIDTH = 64, HEADS = 4, HIDDEN = 160 };

typedef struct block {
    nbx_tensor *norm1, *qkv, *out;         // [WIDTH]  [3 WIDTH, WIDTH]  [WIDTH, WIDTH]
    nbx_tensor *norm2, *gate, *up, *down;  // [WIDTH]  [HIDDEN, WIDTH] twice  [WIDTH, HIDDEN]
} block;

static nbx_tensor *weight(nbx_context *ctx, int64_t rows, int64_t columns) {
    return nbx_div_scalar(ctx, nbx_randn(ctx, NBX_FLOAT32, 2, (int64_t[]){rows, columns}), sqrt((double)columns));
}

static block make_block(nbx_context *ctx) {
    const int64_t width = WIDTH;
    return (block){.norm1 = nbx_ones(ctx, NBX_FLOAT32, 1, &width), .qkv = weight(ctx, 3 * WIDTH, WIDTH), .out = weight(ctx, WIDTH, WIDTH),
                   .norm2 = nbx_ones(ctx, NBX_FLOAT32, 1, &width), .gate = weight(ctx, HIDDEN, WIDTH), .up = weight(ctx, HIDDEN, WIDTH),
                   .down = weight(ctx, WIDTH, HIDDEN)};
}

static nbx_tensor *rms_norm(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *w) { return nbx_rms_norm(ctx, x, 1, (int64_t[]){WIDTH}, w, 1e-6); }

// Third `part` of the projection as [HEADS, length, WIDTH / HEADS]: a view.
static nbx_tensor *heads(nbx_context *ctx, const nbx_tensor *qkv, int part) {
    const nbx_tensor *third = nbx_narrow(ctx, qkv, -1, part * WIDTH, WIDTH);
    return nbx_transpose(ctx, nbx_reshape(ctx, third, 3, (int64_t[]){nbx_tensor_size(qkv, 0), HEADS, WIDTH / HEADS}), 0, 1);
}

static nbx_tensor *attention(nbx_context *ctx, const block *b, const nbx_tensor *x) {
    const nbx_tensor *qkv = nbx_linear(ctx, x, b->qkv, NBX_NONE);
    if (!qkv) return NULL;
    const nbx_tensor *mixed = nbx_scaled_dot_product_attention(ctx, heads(ctx, qkv, 0), heads(ctx, qkv, 1), heads(ctx, qkv, 2), NBX_NONE, true, 0, false);
    return nbx_linear(ctx, nbx_flatten(ctx, nbx_transpose(ctx, mixed, 0, 1), 1, 2), b->out, NBX_NONE);
}

static nbx_tensor *mlp(nbx_context *ctx, const block *b, const nbx_tensor *x) {
    const nbx_tensor *gate = nbx_silu(ctx, nbx_linear(ctx, x, b->gate, NBX_NONE));
    return nbx_linear(ctx, nbx_mul(ctx, gate, nbx_linear(ctx, x, b->up, NBX_NONE)), b->down, NBX_NONE);
}

static nbx_tensor *run_block(nbx_context *ctx, const block *b, const nbx_tensor *x) {
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *y = nbx_add(ctx, x, attention(ctx, b, rms_norm(ctx, x, b->norm1)));
    nbx_tensor *z = nbx_add(ctx, y, mlp(ctx, b, rms_norm(ctx, y, b->norm2)));
    return nbx_scope_close(ctx, scope, z);  // frees everything in between
}

int main(void) {
    nbx_context *ctx = nbx_context_create(NULL);
    if (!ctx) return 1;
    nbx_manual_seed(ctx, 1);
    const block b = make_block(ctx);
    const nbx_tensor *x = nbx_randn(ctx, NBX_FLOAT32, 2, (int64_t[]){LENGTH, WIDTH});
    const nbx_tensor *whole = run_block(ctx, &b, x), *start = run_block(ctx, &b, nbx_narrow(ctx, x, 0, 0, SEEN));
    const nbx_tensor *apart = nbx_amax(ctx, nbx_abs(ctx, nbx_sub(ctx, nbx_narrow(ctx, whole, 0, 0, SEEN), start)), 0, NULL, false);
    float difference = NAN;
    char text[1200] = "";
    if (!apart || nbx_tensor_read(ctx, apart, &difference) != NBX_OK) fprintf(stderr, "%s\n", nbx_last_message(ctx));
    else nbx_tensor_format(ctx, whole, text, sizeof text);
    printf("%s\nthe first %d of %d tokens alone give the same within %g\n", text, SEEN, LENGTH, (double)difference);
    nbx_context_destroy(ctx);
    return difference < 1e-4f ? 0 : 1;
}
