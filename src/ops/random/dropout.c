// What is made of random tensors: dropout in all its forms, rrelu, normal with tensor parameters, multinomial.
#include "ops/compose.h"
#include "ops/random/draw.h"
#include "ops/random/generator.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"

#include <math.h>

// -------------------------------------------------------------------------------------------------------------- dropout
typedef struct dropout_form { bool feature, alpha; } dropout_form;
static const dropout_form plain = {false, false}, feature = {true, false}, alpha = {false, true}, feature_alpha = {true, true};

static nbx_value dtype_like(const nbx_tensor *t) { return nbx_of_dtype((nbx_dtype)t->dtype); }

static const nbx_tensor *noise_for(nbx_op_call *c, const nbx_tensor *input, bool per_feature) {
    if (!per_feature) return NBX_DO(c->ctx, "aten::empty_like", T(input));
    int64_t shape[NBX_MAX_RANK];
    for (int d = 0; d < input->rank; d++) shape[d] = d < 2 ? input->shape[d] : 1;
    return NBX_DO(c->ctx, "aten::new_empty", T(input), nbx_of_ints(shape, input->rank), dtype_like(input));
}

// The result; input itself where nothing is dropped. NULL: failed.
static const nbx_tensor *dropped(nbx_op_call *c) {
    const dropout_form *f = c->op->data;
    const nbx_tensor *input = arg_tensor(c, 0);
    const double p = arg_float(c, 1);
    nbx_context *ctx = c->ctx;
    if (!(p >= 0 && p <= 1)) {
        nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p %g lies outside [0, 1]", p);
        return NULL;
    }
    if (p == 0 || !arg_bool(c, 2) || input->numel == 0) return input;
    if (p == 1) return NBX_DO(ctx, "aten::mul.Tensor", T(input), T(NBX_DO(ctx, "aten::new_zeros", T(input), nbx_of_ints(NULL, 0))));
    if (f->feature && input->rank < 2) {
        nbx_call_fail(c, NBX_ERROR_SHAPE, "features need a tensor of at least 2 dims");
        return NULL;
    }
    const nbx_tensor *noise = NBX_DO(ctx, "aten::bernoulli_.float", T(noise_for(c, input, f->feature)), F(1 - p));
    if (!f->alpha) return do_mul(ctx, input, NBX_DO(ctx, "aten::div_.Scalar", T(noise), F(1 - p)));
    const double saturation = 1.7580993408473766, a = 1 / sqrt((saturation * saturation * p + 1) * (1 - p));
    const nbx_tensor *shift = NBX_DO(ctx, "aten::add.Scalar", T(noise), F(-1));
    shift = NBX_DO(ctx, "aten::mul_.Scalar", T(shift), F(saturation * a));
    shift = NBX_DO(ctx, "aten::add_.Scalar", T(shift), F(saturation * a * p));
    noise = NBX_DO(ctx, "aten::mul_.Scalar", T(noise), F(a));
    return do_add(ctx, do_mul(ctx, input, noise), shift);
}

static nbx_status dropout(nbx_op_call *c) { return nbx_give(c, 0, dropped(c)); }

static nbx_status dropout_in_place(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *result = dropped(c);
    if (result != self && NBX_DO(c->ctx, "aten::copy_", T(self), T(result)) == NULL) return c->ctx->status;
    return out_tensor(c, 0, self);
}

// native_dropout(input, p, train) -> (output, mask)
static nbx_status native_dropout(nbx_op_call *c) {
    const nbx_tensor *input = arg_tensor(c, 0);
    const double p = arg_float(c, 1), keep = 1 - p, scale = keep == 0 ? 0 : 1 / keep;
    nbx_context *ctx = c->ctx;
    if (!(p >= 0 && p <= 1)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p %g lies outside [0, 1]", p);
    if (input->numel == 0)
        return nbx_give(c, 0, input) != NBX_OK ? ctx->status : nbx_give(c, 1, NBX_DO(ctx, "aten::empty_like", T(input)));
    if (arg_is_none(c, 2) || arg_bool(c, 2)) {
        const nbx_tensor *mask = NBX_DO(ctx, "aten::bernoulli_.float", T(NBX_DO(ctx, "aten::empty_like", T(input), nbx_of_dtype(NBX_BOOL))), F(keep));
        const nbx_tensor *output = NBX_DO(ctx, "aten::mul_.Scalar", T(do_mul(ctx, input, mask)), F(scale));
        return nbx_give(c, 0, output) != NBX_OK ? ctx->status : nbx_give(c, 1, mask);
    }
    if (nbx_give(c, 0, NBX_DO(ctx, "aten::clone", T(input))) != NBX_OK) return ctx->status;
    return nbx_give(c, 1, NBX_DO(ctx, "aten::ones_like", T(input), nbx_of_dtype(NBX_BOOL)));
}

// native_dropout_backward(grad_output, mask, scale): grad_output * mask * scale
static nbx_status native_dropout_backward(nbx_op_call *c) {
    return out_tensor(c, 0, do_mul_scalar(c->ctx, do_mul(c->ctx, arg_tensor(c, 0), arg_tensor(c, 1)), c->args[2]));
}

// ---------------------------------------------------------------------------------------------------------------- rrelu
// rrelu_with_noise(self, noise, lower, upper, training): negative elements times a random slope, which noise remembers.

static nbx_status rrelu_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (nbx_call_need_float(c, self, false) != NBX_OK) return c->ctx->status;
    if (nbx_scalar_to_double(&c->args[2]) > nbx_scalar_to_double(&c->args[3])) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lower is above upper");
    if (!nbx_same_shape(self, arg_tensor(c, 1))) return nbx_call_fail(c, NBX_ERROR_SHAPE, "noise must have the shape of self");
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, self->shape, NULL) && out_like(c, 1, (nbx_dtype)arg_tensor(c, 1)->dtype, arg_tensor(c, 1)) ? NBX_OK : c->ctx->status;
}

static char *at_index(const nbx_tensor *t, int64_t i) {
    return (char *)nbx_data(t) + nbx_element_offset(t, t->rank, i);
}

static nbx_status rrelu_run(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *noise_in = arg_tensor(c, 1), *out = out_get(c, 0), *noise = out_get(c, 1);
    const nbx_dtype d = (nbx_dtype)self->dtype, nd = (nbx_dtype)noise->dtype;
    const double lower = nbx_scalar_to_double(&c->args[2]), upper = nbx_scalar_to_double(&c->args[3]);
    const bool training = arg_bool(c, 4);
    nbx_generator *g = training ? nbx_generator_of(c, 5) : NULL;
    if (training && g == NULL) return c->ctx->status;
    for (int64_t i = 0; i < self->numel; i++) {
        const double x = element_double(d, at_index(self, i));
        char slope[16];
        if (!training) element_set_double(nd, slope, element_double((nbx_dtype)noise_in->dtype, at_index(noise_in, i)));
        else element_set_double(nd, slope, x <= 0 ? nbx_generator_double(g) * (upper - lower) + lower : 1);
        memcpy(at_index(noise, i), slope, nbx_dtype_size(nd));
        const double factor = training ? element_double(nd, slope) : x <= 0 ? (lower + upper) / 2 : 1;
        element_set_double(d, at_index(out, i), x <= 0 ? x * factor : x);
    }
    return NBX_OK;
}

// rrelu(self, lower, upper, training, generator)
static nbx_status rrelu(nbx_op_call *c) {
    const nbx_tensor *noise = NBX_DO(c->ctx, "aten::empty_like", c->args[0]);
    nbx_value results[2];
    const nbx_value args[] = {c->args[0], T(noise), c->args[1], c->args[2], c->args[3], c->args[4]};
    if (!arg_bool(c, 3)) {
        if (nbx_scalar_to_double(&c->args[1]) > nbx_scalar_to_double(&c->args[2])) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lower is above upper");
        return NBX_FORWARD(c, "aten::leaky_relu", c->args[0], F((nbx_scalar_to_double(&c->args[1]) + nbx_scalar_to_double(&c->args[2])) / 2));
    }
    if (nbx_do_many(c->ctx, "aten::rrelu_with_noise_functional", 6, args, results, 2) != NBX_OK) return c->ctx->status;
    return out_tensor(c, 0, results[0].as.tensor);
}

// rrelu_with_noise_: writes both self and noise.
static nbx_status rrelu_in_place(nbx_op_call *c) {
    nbx_value results[2];
    if (nbx_do_many(c->ctx, "aten::rrelu_with_noise_functional", 6, c->args, results, 2) != NBX_OK) return c->ctx->status;
    for (int i = 0; i < 2; i++)
        if (NBX_DO(c->ctx, "aten::copy_", c->args[i], results[i]) == NULL) return c->ctx->status;
    return out_tensor(c, 0, arg_tensor(c, 0));
}

// ------------------------------------------------------------------------------------------- normal of tensor parameters
static const nbx_tensor *standard_normal(nbx_op_call *c, const nbx_tensor *like, int rank, const int64_t *shape, double std, int generator) {
    const nbx_tensor *empty = NBX_DO(c->ctx, "aten::new_empty", T(like), nbx_of_ints(shape, rank), dtype_like(like));
    return NBX_DO(c->ctx, "aten::normal_", T(empty), F(0), F(std), c->args[generator]);
}

static nbx_status normal_tensor_float(nbx_op_call *c) {
    const nbx_tensor *mean = arg_tensor(c, 0);
    const nbx_tensor *x = standard_normal(c, mean, mean->rank, mean->shape, arg_float(c, 1), 2);
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::add_.Tensor", T(x), T(mean)));
}

static nbx_status scaled_and_moved(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *std, nbx_value mean) {
    x = NBX_DO(c->ctx, "aten::mul_.Tensor", T(x), T(std));
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::add_.Tensor", T(x), mean));
}

static nbx_status normal_float_tensor(nbx_op_call *c) {
    const nbx_tensor *std = arg_tensor(c, 1);
    return scaled_and_moved(c, standard_normal(c, std, std->rank, std->shape, 1, 2), std, c->args[0]);
}

static nbx_status normal_tensor_tensor(nbx_op_call *c) {
    const nbx_tensor *mean = arg_tensor(c, 0), *std = arg_tensor(c, 1);
    int rank = 0;
    int64_t shape[NBX_MAX_RANK];
    if (nbx_dtype_is_complex((nbx_dtype)std->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "std must not be complex");
    if (nbx_broadcast(c, &rank, shape, mean->rank, mean->shape) != NBX_OK || nbx_broadcast(c, &rank, shape, std->rank, std->shape) != NBX_OK) return c->ctx->status;
    return scaled_and_moved(c, standard_normal(c, mean, rank, shape, 1, 2), std, T(mean));
}

// ---------------------------------------------------------------------------------------------------------- multinomial
// multinomial(self, num_samples, replacement): each row of self holds weights.
nbx_status nbx_multinomial_check(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t samples = arg_int(c, 1);
    if (self->rank != 1 && self->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector or a matrix, not a tensor of %d dims", self->rank);
    if (!nbx_dtype_is_float((nbx_dtype)self->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes floating weights, not %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (samples <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld samples", (long long)samples);
    const int64_t categories = self->shape[self->rank - 1];
    if (!arg_bool(c, 2) && samples > categories)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld samples of %lld categories without replacement", (long long)samples, (long long)categories);
    if (categories > (int64_t)1 << 24) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "more than 2^24 categories");
    return NBX_OK;
}

// Weights as float64 on the host, checked: finite, not negative, with a positive sum.
static const double *read_weights(nbx_op_call *c, const nbx_tensor *self, int64_t rows, int64_t categories) {
    const nbx_tensor *wide = nbx_cast(c->ctx, self, NBX_FLOAT64);
    double *w = wide ? nbx_scope_alloc(c->ctx, sizeof(double) * (size_t)(wide->numel + 1)) : NULL;
    if (w == NULL || nbx_tensor_read(c->ctx, wide, w) != NBX_OK) return NULL;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t k = 0; k < categories; k++) {
            const double x = w[r * categories + k];
            if (!(x >= 0) || isinf(x)) {
                nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weight %g is negative or not finite", x);
                return NULL;
            }
            sum += x;
        }
        if (!(sum > 0)) {
            nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the weights of row %lld add up to nothing", (long long)r);
            return NULL;
        }
    }
    return w;
}

static nbx_status sample_with_replacement(nbx_op_call *c, const nbx_tensor *self, const double *weights, int64_t rows, int64_t categories) {
    const int64_t samples = arg_int(c, 1), shape[2] = {rows, samples};
    const bool wide = self->dtype == NBX_FLOAT64;
    nbx_generator *g = nbx_generator_of(c, 3);
    const nbx_tensor *out = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, 2, shape);
    double *sums = nbx_scope_alloc(c->ctx, sizeof(double) * (size_t)(categories + 1));
    if (g == NULL || out == NULL || sums == NULL) return c->ctx->status;
    int64_t *to = nbx_data(out);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t k = 0; k < categories; k++) {  // in the precision of self
            sum = wide ? sum + weights[r * categories + k] : (double)((float)sum + (float)weights[r * categories + k]);
            sums[k] = sum;
        }
        for (int64_t k = 0; k < categories; k++) sums[k] = wide ? sums[k] / sum : (double)((float)sums[k] / (float)sum);
        sums[categories - 1] = 1;
        for (int64_t s = 0; s < samples; s++) {
            const double u = nbx_generator_double(g);
            int64_t low = 0, high = categories;
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (sums[middle] < u) low = middle + 1;
                else high = middle;
            }
            *to++ = low;
        }
    }
    if (self->rank == 2) return out_tensor(c, 0, out);
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::select.int", T(out), I(0), I(0)));
}

// Without replacement: the largest of weight / exponential are a sample.
nbx_status nbx_multinomial_by_quotients(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t samples = arg_int(c, 1);
    const nbx_tensor *q = NBX_DO(c->ctx, "aten::exponential_", T(NBX_DO(c->ctx, "aten::empty_like", T(self))), F(1), c->args[3]);
    q = do_div(c->ctx, self, q);
    if (samples == 1) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::argmax", T(q), I(-1), B(true)));
    nbx_value both[2];
    const nbx_value args[] = {T(q), I(samples)};
    if (nbx_do_many(c->ctx, "aten::topk", 2, args, both, 2) != NBX_OK) return c->ctx->status;
    return out_tensor(c, 0, both[1].as.tensor);
}

static nbx_status multinomial(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (nbx_multinomial_check(c) != NBX_OK) return c->ctx->status;
    const int64_t categories = self->shape[self->rank - 1], rows = self->rank == 2 ? self->shape[0] : 1, samples = arg_int(c, 1);
    const double *weights = read_weights(c, self, rows, categories);
    if (weights == NULL) return c->ctx->status;
    if (arg_bool(c, 2) && samples > 1) return sample_with_replacement(c, self, weights, rows, categories);
    return nbx_multinomial_by_quotients(c);
}

// _sample_dirichlet(alpha): gamma numbers, divided by their sum.
static nbx_status dirichlet(nbx_op_call *c) {
    const int64_t last = -1;
    const nbx_tensor *x = NBX_DO(c->ctx, "aten::_standard_gamma", c->args[0], c->args[1]);
    return nbx_give(c, 0, do_div(c->ctx, x, do_sum(c->ctx, x, 1, &last, true)));
}

#define DROPOUT(overload, form)                                                                                        \
    {.name = "aten::" overload, .composite = dropout, .flags = NBX_OP_RANDOM, .data = &(form)},                        \
    {.name = "aten::" overload "_", .composite = dropout_in_place, .flags = NBX_OP_RANDOM | NBX_OP_IN_PLACE | NBX_OP_EFFECT, .data = &(form)}
const nbx_op nbx_ops_dropout[] = {
    DROPOUT("dropout", plain),
    DROPOUT("feature_dropout", feature),
    DROPOUT("alpha_dropout", alpha),
    DROPOUT("feature_alpha_dropout", feature_alpha),
    {.name = "aten::native_dropout", .composite = native_dropout, .flags = NBX_OP_RANDOM | NBX_OP_EXACT_OUT},
    {.name = "aten::native_dropout_backward", .composite = native_dropout_backward, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::rrelu_with_noise_functional", .infer = rrelu_infer, .cpu = NBX_CPU_KERNEL_ONE(rrelu_run), .flags = NBX_OP_RANDOM},
    {.name = "aten::rrelu_with_noise_", .composite = rrelu_in_place, .flags = NBX_OP_RANDOM | NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    {.name = "aten::rrelu", .composite = rrelu, .flags = NBX_OP_RANDOM},
    {.name = "aten::normal.Tensor_float", .composite = normal_tensor_float, .flags = NBX_OP_RANDOM},
    {.name = "aten::normal.float_Tensor", .composite = normal_float_tensor, .flags = NBX_OP_RANDOM},
    {.name = "aten::normal.Tensor_Tensor", .composite = normal_tensor_tensor, .flags = NBX_OP_RANDOM},
    {.name = "aten::multinomial", .composite = multinomial, .flags = NBX_OP_RANDOM | NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::_sample_dirichlet", .composite = dirichlet, .flags = NBX_OP_RANDOM | NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
