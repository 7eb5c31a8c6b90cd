// y = (conv(x, w) + b - mean) / sqrt(var + eps) * gamma + beta is conv(x, w s) + (b - mean) s + beta with s = gamma / sqrt(var + eps)
// for every output channel: where all of these are constants, no batch norm is left to run. s is computed in float64, and each
// weight rounded once: in float32 a network's output moves by up to 2e-6 of its largest element (docs/numerics.md).
// Left alone: half precision, where a rounding of the weights shows; weights that something else reads, which would be kept twice.
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "program/passes.h"

enum { CONV_WEIGHT = 1, CONV_BIAS = 2, CONV_TRANSPOSED = 6, NORM_WEIGHT = 1, NORM_BIAS = 2, NORM_MEAN = 3, NORM_VAR = 4 };

static bool is_one_of(const nbx_node *node, int count, const char *const *names) {
    if (node->kind != NBX_NODE_OPERATOR || !node->schema) return false;
    for (int i = 0; i < count; i++)
        if (strcmp(node->op->name, names[i]) == 0) return true;
    return false;
}

static bool is_false(const nbx_operand *o) { return o->kind == NBX_OPERAND_CONSTANT && o->as.constant.kind == NBX_KIND_BOOL && !o->as.constant.as.boolean; }

static bool is_convolution(const nbx_node *node) {
    static const char *const plain[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding"};
    static const char *const general[] = {"aten::convolution"};
    return is_one_of(node, 6, plain) || (is_one_of(node, 1, general) && is_false(&node->args[CONV_TRANSPOSED]));
}

// Position of eps in a batch norm in evaluation mode; -1: it is none.
static int norm_eps(const nbx_node *node) {
    static const char *const always[] = {"aten::_native_batch_norm_legit_no_training"};
    static const char *const if_told[] = {"aten::batch_norm", "aten::native_batch_norm"};
    if (is_one_of(node, 1, always)) return 6;
    return is_one_of(node, 2, if_told) && is_false(&node->args[5]) ? 7 : -1;
}

// ------------------------------------------------------------------------------------------------------------- numbers
// All elements of a constant in row-major order as float64, or `otherwise` for an absent one. NULL: fails ctx.
static double *read_all(nbx_context *ctx, const nbx_tensor *t, int64_t count, double otherwise) {
    double *x = nbx_alloc(((size_t)count + 1) * sizeof *x);
    if (!x) return nbx_fail_memory(ctx, (size_t)count * sizeof *x, "a folded weight"), NULL;
    for (int64_t i = 0; i < count && !t; i++) x[i] = otherwise;
    if (!t || !count) return x;
    if (nbx_tensor_read(ctx, t, x) != NBX_OK) return nbx_free(x), NULL;
    const float *narrow = (const float *)x;
    for (int64_t i = count; i-- > 0 && t->dtype == NBX_FLOAT32;) {  // from the end: what is not yet widened lies in front
        float element;
        memcpy(&element, (const char *)narrow + i * 4, 4);
        x[i] = (double)element;
    }
    return x;
}

typedef struct channels {
    const nbx_tensor *weight, *bias, *gamma, *beta, *mean, *var;  // bias, gamma, beta may be NULL
    double eps;
} channels;

// x[k] *= scale[k] for rows of `inner` elements.
static void scale_rows(nbx_dtype dtype, void *x, int64_t rows, int64_t inner, const double *scale) {
    for (int64_t k = 0, i = 0; k < rows; k++)
        for (const int64_t end = (k + 1) * inner; i < end; i++) {
            if (dtype == NBX_FLOAT32) ((float *)x)[i] = (float)(((float *)x)[i] * scale[k]);
            else ((double *)x)[i] *= scale[k];
        }
}

// A contiguous copy of t, each of its n channels times its scale. It is made piece by piece, and what was read of the mapped file
// is given back after each: the two are never held together.
static nbx_tensor *scaled(nbx_context *ctx, const nbx_tensor *t, int64_t n, const double *scale) {
    enum { PIECE_BYTES = 1 << 20 };
    const nbx_device host = {NBX_CPU, 0}, device = nbx_device_of(t);
    const nbx_dtype dtype = (nbx_dtype)t->dtype;
    const int64_t inner = n ? t->numel / n : 0, row_bytes = inner * (int64_t)nbx_dtype_size(dtype), piece = PIECE_BYTES / (row_bytes + 1) + 1;
    nbx_tensor *y = nbx_new(ctx, device, dtype, t->rank, t->shape);
    void *own = device.type == NBX_CPU ? NULL : nbx_alloc((size_t)(piece * row_bytes + 1));
    bool good = y && (device.type == NBX_CPU || own);
    if (y && !good) nbx_fail_memory(ctx, (size_t)(piece * row_bytes), "a folded weight");
    for (int64_t k = 0; k < n && y->numel && good; k += piece) {
        const int64_t rows = n - k < piece ? n - k : piece;
        char *to = (char *)nbx_data(y) + k * row_bytes, *x = own ? own : to;
        const nbx_scope scope = nbx_scope_open(ctx);
        const nbx_tensor *part = NBX_DO(ctx, "aten::narrow", T(t), I(0), I(k), I(rows));
        good = part && nbx_tensor_read(ctx, part, x) == NBX_OK;
        nbx_scope_close(ctx, scope, NULL);
        if (good) scale_rows(dtype, x, rows, inner, scale + k);
        if (own) good = good && nbx_copy_bytes(ctx, device, to, host, x, (size_t)(rows * row_bytes)) == NBX_OK;
        nbx_store_rest(t->storage);
    }
    nbx_free(own);
    return good ? y : NULL;
}

// Narrows x in place.
static nbx_tensor *vector_of(nbx_context *ctx, nbx_dtype dtype, double *x, int64_t n) {
    for (int64_t i = 0; i < n && dtype == NBX_FLOAT32; i++) {
        const float element = (float)x[i];
        memcpy((char *)x + i * 4, &element, 4);
    }
    return nbx_tensor_from_host(ctx, dtype, 1, &n, x);
}

static bool fold_numbers(nbx_context *ctx, const channels *c, const nbx_tensor **weight, const nbx_tensor **bias) {
    const int64_t n = c->weight->shape[0];
    const nbx_tensor *const given[5] = {c->bias, c->gamma, c->beta, c->mean, c->var};
    const double otherwise[5] = {0, 1, 0, 0, 0};
    double *x[5] = {NULL};
    bool good = true;
    for (int i = 0; i < 5 && good; i++) good = (x[i] = read_all(ctx, given[i], n, otherwise[i])) != NULL;
    for (int64_t k = 0; k < n && good; k++) {
        x[1][k] /= sqrt(x[4][k] + c->eps);
        x[0][k] = (x[0][k] - x[3][k]) * x[1][k] + x[2][k];
    }
    *weight = good ? scaled(ctx, c->weight, n, x[1]) : NULL;
    *bias = *weight ? vector_of(ctx, (nbx_dtype)c->weight->dtype, x[0], n) : NULL;
    for (int i = 0; i < 5; i++) nbx_free(x[i]);
    return *bias != NULL;
}

// ------------------------------------------------------------------------------------------------------------- pattern
static bool is_absent(const nbx_operand *o) { return o->kind == NBX_OPERAND_CONSTANT && o->as.constant.kind == NBX_KIND_NONE; }

// A vector of n elements, or absent where that is allowed.
static bool fits(const nbx_pass *pass, const nbx_operand *o, const nbx_tensor *weight, bool optional, const nbx_tensor **t) {
    *t = nbx_pass_constant_operand(pass, o);
    if (!*t) return optional && is_absent(o);
    return (*t)->rank == 1 && (*t)->numel == weight->shape[0] && (*t)->dtype == weight->dtype;
}

static bool take_channels(const nbx_pass *pass, const nbx_node *conv, const nbx_node *norm, int eps, channels *c) {
    c->weight = nbx_pass_constant_operand(pass, &conv->args[CONV_WEIGHT]);
    if (!c->weight || (c->weight->dtype != NBX_FLOAT32 && c->weight->dtype != NBX_FLOAT64) || c->weight->rank < 3) return false;
    const nbx_operand *number = &norm->args[eps];
    if (number->kind != NBX_OPERAND_CONSTANT || number->as.constant.kind != NBX_KIND_FLOAT) return false;
    c->eps = number->as.constant.as.real;
    return fits(pass, &conv->args[CONV_BIAS], c->weight, true, &c->bias) && fits(pass, &norm->args[NORM_WEIGHT], c->weight, true, &c->gamma) &&
           fits(pass, &norm->args[NORM_BIAS], c->weight, true, &c->beta) && fits(pass, &norm->args[NORM_MEAN], c->weight, false, &c->mean) &&
           fits(pass, &norm->args[NORM_VAR], c->weight, false, &c->var);
}

static bool read_once(const nbx_pass *pass, const nbx_operand *o) { return o->kind == NBX_OPERAND_VALUE && pass->readers[o->as.value] == 1; }

// Does another weight of the program lie in the same memory?
static bool is_shared(const nbx_pass *pass, const nbx_operand *o) {
    const nbx_storage *storage = nbx_pass_constant_operand(pass, o)->storage;
    int users = 0;
    for (int32_t v = 0; v < pass->graph->value_count; v++) {
        const nbx_tensor *t = nbx_pass_constant(pass, v);
        users += t && t->storage == storage && pass->readers[v] > 0;
    }
    return users > 1;
}

// The convolution's bias, or whichever vector of the batch norm nobody else reads, becomes the new bias.
static const nbx_operand *bias_place(const nbx_pass *pass, const nbx_node *conv, const nbx_node *norm) {
    const nbx_operand *places[] = {&conv->args[CONV_BIAS], &norm->args[NORM_MEAN], &norm->args[NORM_VAR], &norm->args[NORM_BIAS], &norm->args[NORM_WEIGHT]};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (read_once(pass, places[i])) return places[i];
    return NULL;
}

static bool join(nbx_pass *pass, nbx_node *conv, nbx_node *norm, const channels *c) {
    const nbx_tensor *weight, *bias;
    const nbx_operand place = *bias_place(pass, conv, norm);
    const nbx_scope scope = nbx_scope_open(pass->ctx);
    const bool good = fold_numbers(pass->ctx, c, &weight, &bias) && nbx_pass_give(pass, conv->args[CONV_WEIGHT].as.value, weight) &&
                      nbx_pass_give(pass, place.as.value, bias);
    nbx_scope_close(pass->ctx, scope, NULL);
    if (!good) return false;
    nbx_pass_drop(pass, norm);
    if (conv->args[CONV_BIAS].kind == NBX_OPERAND_VALUE) pass->readers[conv->args[CONV_BIAS].as.value]--;
    pass->readers[place.as.value]++;
    conv->args[CONV_BIAS] = place;
    if (conv->arg_count <= CONV_BIAS) conv->arg_count = CONV_BIAS + 1;
    conv->outputs[0] = norm->outputs[0];
    return true;
}

static bool has_other_results(const nbx_pass *pass, const nbx_node *norm) {
    for (int32_t k = 1; k < norm->output_count; k++)
        if (norm->outputs[k] >= 0 && pass->readers[norm->outputs[k]]) return true;
    return norm->output_count < 1 || norm->outputs[0] < 0;
}

static bool try_norm(nbx_pass *pass, nbx_node **made_by, nbx_node *norm) {
    const int eps = norm_eps(norm);
    if (eps < 0 || norm->arg_count <= eps || !read_once(pass, &norm->args[0]) || has_other_results(pass, norm)) return true;
    nbx_node *conv = made_by[norm->args[0].as.value];
    channels c;
    if (!conv || !is_convolution(conv) || pass->graph->written[norm->args[0].as.value]) return true;
    if (!take_channels(pass, conv, norm, eps, &c) || !read_once(pass, &conv->args[CONV_WEIGHT]) || is_shared(pass, &conv->args[CONV_WEIGHT])) return true;
    return !bias_place(pass, conv, norm) || join(pass, conv, norm, &c);
}

bool nbx_pass_batch_norm(nbx_pass *pass) {
    nbx_graph *g = pass->graph;
    nbx_node **made_by = nbx_alloc_zero(((size_t)g->value_count + 1) * sizeof *made_by);
    if (!made_by) return nbx_fail_memory(pass->ctx, (size_t)g->value_count * sizeof *made_by, "a pass"), false;
    bool good = true;
    for (int32_t i = 0; i < g->node_count && good; i++) {
        nbx_node *node = &g->nodes[i];
        if (node->kind == NBX_NODE_DROPPED) continue;
        for (int32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k] >= 0) made_by[node->outputs[k]] = node;
        good = try_norm(pass, made_by, node);
    }
    nbx_free(made_by);
    return good;
}
