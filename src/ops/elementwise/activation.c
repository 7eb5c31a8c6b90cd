// Rows of activations, in ATen's formulas.
#include "ops/elementwise/elementwise.h"

#include <math.h>
#include <string.h>

#define KERNELS(X)                                                                                                     \
    X(relu) X(hardtanh) X(leaky_relu) X(elu) X(gelu) X(silu) X(mish) X(softplus) X(softshrink)            \
    X(hardshrink) X(hardsigmoid) X(hardswish) X(threshold) X(prelu) X(log_sigmoid) X(log_sigmoid_forward)
#define DECLARE(NAME) NBX_CPU_DECLARE(ew_##NAME);
KERNELS(DECLARE)

static nbx_status take(nbx_op_call *c, int arg, double *to) {
    if (c->args[arg].kind == NBX_KIND_COMPLEX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "argument %d must be real", arg);
    *to = nbx_scalar_to_double(&c->args[arg]);
    return NBX_OK;
}

// hardtanh(self, min_val, max_val): bounds take self's dtype.
static nbx_status hardtanh_bounds(nbx_op_call *c, ew_types *types, ew_params *p) {
    nbx_status status = take(c, 1, &p->f[0]);
    if (status == NBX_OK) status = take(c, 2, &p->f[1]);
    p->i[0] = nbx_scalar_to_int(&c->args[1]);
    p->i[1] = nbx_scalar_to_int(&c->args[2]);
    if (status == NBX_OK && types->compute == NBX_UINT8 && (p->i[0] < 0 || p->i[1] < 0))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "negative limits do not fit uint8");
    for (int k = 0; k < 2 && status == NBX_OK; k++) {  // integers: cut to one, which must then fit
        const bool whole = nbx_dtype_is_integral(types->compute, false);
        status = ew_check_number(c, whole ? NBX_INT64 : types->compute, &c->args[1 + k]);
        if (status == NBX_OK && whole) status = ew_check_number(c, types->compute, &(nbx_value){.kind = NBX_KIND_INT, .as.integer = p->i[k]});
    }
    return status;
}
static nbx_status six(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)c;
    (void)types;
    p->f[0] = 0;
    p->f[1] = 6;
    p->i[0] = 0;
    p->i[1] = 6;
    return NBX_OK;
}

static nbx_status slope(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    return take(c, 1, &p->f[0]);
}

// elu, selu, celu: x > 0 ? f[2] x : f[1] (e^(f[0] x) - 1)
static nbx_status elu(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    double alpha = 0, scale = 0;
    nbx_status status = take(c, 1, &alpha);
    if (status == NBX_OK) status = take(c, 2, &scale);
    if (status == NBX_OK) status = take(c, 3, &p->f[0]);
    if (status != NBX_OK) return status;
    p->f[1] = alpha * scale;
    p->f[2] = scale;
    return NBX_OK;
}
static nbx_status selu(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)c;
    (void)types;
    const double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    p->f[0] = 1;
    p->f[1] = alpha * scale;
    p->f[2] = scale;
    return NBX_OK;
}
static nbx_status celu(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    const nbx_status status = take(c, 1, &p->f[1]);
    if (status != NBX_OK) return status;
    if (p->f[1] == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "alpha must not be 0");
    p->f[0] = 1 / p->f[1];
    p->f[2] = 1;
    return NBX_OK;
}

static nbx_status softplus(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    const nbx_status status = take(c, 1, &p->f[0]);
    p->f[2] = 1 / p->f[0];
    return status == NBX_OK ? take(c, 2, &p->f[1]) : status;
}

static nbx_status softshrink(nbx_op_call *c, ew_types *types, ew_params *p) {
    const nbx_status status = take(c, 1, &p->f[0]);
    if (status == NBX_OK && (!(p->f[0] >= 0) || isinf(p->f[0])))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lambda %g is negative or no number", p->f[0]);
    return status == NBX_OK ? ew_check_number(c, types->compute, &c->args[1]) : status;
}

static nbx_status threshold(nbx_op_call *c, ew_types *types, ew_params *p) {
    nbx_status status = take(c, 1, &p->f[0]);
    if (status == NBX_OK) status = take(c, 2, &p->f[1]);
    const nbx_dtype held = EW_BIT(types->compute) & EW_HALVES ? NBX_FLOAT32 : types->compute;
    if (status == NBX_OK) status = ew_check_number(c, held, &c->args[1]);
    if (status == NBX_OK) status = ew_check_number(c, held, &c->args[2]);
    p->i[0] = nbx_scalar_to_int(&c->args[1]);
    p->i[1] = nbx_scalar_to_int(&c->args[2]);
    if (types->compute == NBX_UINT8) p->i[0] &= UINT8_MAX, p->i[1] &= UINT8_MAX;
    return status;
}

static nbx_status same_dtype(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    const nbx_dtype weight = (nbx_dtype)arg_tensor(c, 1)->dtype;
    if (weight == types->compute) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "weight must be %s as self is, not %s", nbx_dtype_name(types->compute), nbx_dtype_name(weight));
}

// ----------------------------------------------------------------------------------------------------------- composites
// gelu(self, *, approximate): params i[0] is 1 for tanh.
static nbx_status gelu_kind(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    const char *kind = arg_string(c, 1);
    p->i[0] = kind && strcmp(kind, "tanh") == 0;
    if (p->i[0] || !kind || strcmp(kind, "none") == 0) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "approximate is 'none' or 'tanh', not '%s'", kind);
}

// prelu(self, weight): one weight, or one for each channel (dim 1).
static nbx_status prelu(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *weight = arg_tensor(c, 1);
    if (weight->rank > 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "weight must have 0 or 1 dims, not %d", weight->rank);
    if (weight->numel != 1) {
        const int64_t channels = self->rank > 1 ? self->shape[1] : 1;
        if (self->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "a 0-dim input takes one weight, not %lld", (long long)weight->numel);
        if (channels != weight->numel)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld weights do not match %lld channels", (long long)weight->numel, (long long)channels);
    }
    if (self->rank == 0 && weight->rank == 0) return NBX_FORWARD(c, "aten::_prelu_kernel", T(self), T(weight));
    int64_t shape[NBX_MAX_RANK];
    for (int i = 0; i < self->rank; i++) shape[i] = 1;
    if (self->rank > 1) shape[1] = weight->numel;
    const nbx_tensor *w = NBX_DO(c->ctx, "aten::reshape", T(weight), nbx_of_ints(shape, self->rank));
    return NBX_FORWARD(c, "aten::_prelu_kernel", T(self), T(w));
}

// glu(self, dim): the first half times the sigmoid of the second.
static nbx_status glu(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int dim;
    if (self->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes no 0-dim tensors");
    const nbx_status status = nbx_call_dim(c, arg_int(c, 1), self->rank, &dim);
    if (status != NBX_OK) return status;
    const int64_t size = self->shape[dim];
    if (size % 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d has the odd size %lld", dim, (long long)size);
    if (nbx_call_need_float(c, self, false) != NBX_OK) return c->ctx->status;
    const nbx_tensor *first = NBX_DO(c->ctx, "aten::narrow", T(self), I(dim), I(0), I(size / 2));
    const nbx_tensor *second = NBX_DO(c->ctx, "aten::narrow", T(self), I(dim), I(size / 2), I(size / 2));
    return NBX_FORWARD(c, "aten::mul.Tensor", T(first), T(NBX_DO(c->ctx, "aten::sigmoid", T(second))));
}

#define ACTIVATION EW_UNARY, .accepts = EW_FLOATS

const nbx_op nbx_ops_activation[] = {
    EW_OP("relu", ew_relu, EW_UNARY, .accepts = EW_NUMBERS),
    EW_OP("relu6", ew_hardtanh, EW_UNARY, .accepts = EW_NUMBERS, .setup = six),
    EW_OP_EXACT("hardtanh", ew_hardtanh, EW_UNARY, .accepts = EW_NUMBERS, .setup = hardtanh_bounds),
    EW_OP_EXACT("leaky_relu", ew_leaky_relu, ACTIVATION, .setup = slope),
    EW_OP_EXACT("elu", ew_elu, ACTIVATION, .flags = EW_TABLED, .setup = elu),
    EW_OP("selu", ew_elu, ACTIVATION, .flags = EW_TABLED, .setup = selu),
    EW_OP("celu", ew_elu, ACTIVATION, .flags = EW_TABLED, .setup = celu),
    EW_OP_EXACT("gelu", ew_gelu, ACTIVATION, .flags = EW_TABLED, .setup = gelu_kind),
    EW_OP_EXACT("silu", ew_silu, EW_UNARY, .accepts = EW_FLOATS | EW_COMPLEXES, .flags = EW_TABLED),
    EW_OP_EXACT("mish", ew_mish, ACTIVATION, .flags = EW_TABLED),
    EW_OP_EXACT("softplus", ew_softplus, ACTIVATION, .flags = EW_TABLED, .setup = softplus),
    EW_OP_EXACT("softshrink", ew_softshrink, ACTIVATION, .setup = softshrink),
    EW_OP_EXACT("hardshrink", ew_hardshrink, ACTIVATION, .setup = slope),
    EW_OP_EXACT("hardsigmoid", ew_hardsigmoid, ACTIVATION),
    EW_OP_EXACT("hardswish", ew_hardswish, ACTIVATION),
    EW_OP_SHARED("threshold", ew_threshold, EW_UNARY, .accepts = EW_NUMBERS, .setup = threshold),
    EW_OP("_prelu_kernel", ew_prelu, EW_BINARY, .rule = EW_FIRST, .accepts = EW_FLOATS, .setup = same_dtype),
    EW_OP_EXACT("log_sigmoid", ew_log_sigmoid, ACTIVATION, .flags = EW_PLAIN_OUT | EW_TABLED),
    EW_OP_EXACT("log_sigmoid_forward", ew_log_sigmoid_forward, ACTIVATION, .outputs = 2, .flags = EW_PLAIN_OUT),
    {.name = "aten::prelu", .composite = prelu},
    {.name = "aten::glu", .composite = glu},
    NBX_OPS_END,
};
