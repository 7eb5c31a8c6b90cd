// Windows for spectra. Every step is rounded to the dtype, as ATen's steps are; kaiser's are taken in double.
#include "ops/compose.h"
#include "ops/create/create.h"

#include <math.h>

typedef struct window_form window_form;
typedef nbx_tensor *(*window_fn)(nbx_op_call *c, const window_form *f, const nbx_tensor *x, int64_t length);
// How a row reads its arguments (-1: absent), and the function of x = 0, 1, ..., length - 1.
struct window_form {
    window_fn function;
    int periodic, dtype;
    int a, b;  // kaiser's beta; hamming's alpha and beta
    double standard_a, standard_b;
};

static const double pi = 3.14159265358979323846;

static double number(const nbx_op_call *c, int arg, double absent) { return arg < 0 ? absent : arg_float(c, arg); }
// The number comes first, as in ATen's mul_.Scalar: so it is rounded to the dtype of x.
static nbx_tensor *scale(nbx_context *ctx, const nbx_tensor *x, double factor) { return NBX_DO(ctx, "aten::mul.Tensor", F(factor), T(x)); }
static nbx_tensor *shift(nbx_context *ctx, const nbx_tensor *x, double by) { return NBX_DO(ctx, "aten::add.Scalar", T(x), F(by)); }
static nbx_tensor *cosine(nbx_context *ctx, const nbx_tensor *x) { return do_unary(ctx, "aten::cos", x); }

// Up to the middle, then down.
static nbx_tensor *bartlett(nbx_op_call *c, const window_form *f, const nbx_tensor *x, int64_t length) {
    (void)f;
    const int64_t half = (length - 1) / 2 + 1;
    nbx_tensor *up = scale(c->ctx, x, 2.0 / (double)(length - 1));
    const nbx_tensor *down = shift(c->ctx, scale(c->ctx, do_slice(c->ctx, up, 0, half, length), -1), 2);
    const nbx_tensor *parts[] = {do_slice(c->ctx, up, 0, 0, half), down};
    return parts[0] && down ? NBX_DO(c->ctx, "aten::cat", nbx_of_tensors(parts, 2)) : NULL;
}

static nbx_tensor *blackman(nbx_op_call *c, const window_form *f, const nbx_tensor *x, int64_t length) {
    (void)f;
    const nbx_tensor *t = scale(c->ctx, x, pi / (double)(length - 1));
    const nbx_tensor *fast = scale(c->ctx, cosine(c->ctx, scale(c->ctx, t, 4)), 0.08);
    const nbx_tensor *slow = scale(c->ctx, cosine(c->ctx, scale(c->ctx, t, 2)), 0.5);
    return shift(c->ctx, do_sub(c->ctx, fast, slow), 0.42);
}

static nbx_tensor *hamming(nbx_op_call *c, const window_form *f, const nbx_tensor *x, int64_t length) {
    const double alpha = number(c, f->a, f->standard_a), beta = number(c, f->b, f->standard_b);
    return shift(c->ctx, scale(c->ctx, cosine(c->ctx, scale(c->ctx, x, 2 * pi / (double)(length - 1))), -beta), alpha);
}

// I0(beta sqrt(1 - t^2)) / I0(beta), t from -1 to 1
static nbx_tensor *kaiser(nbx_op_call *c, const window_form *f, const nbx_tensor *x, int64_t length) {
    const double beta = number(c, f->a, f->standard_a), middle = (double)(length - 1) / 2;
    const nbx_tensor *t = scale(c->ctx, shift(c->ctx, do_cast(c->ctx, x, NBX_FLOAT64), -middle), 1 / middle);
    const nbx_tensor *root = do_unary(c->ctx, "aten::sqrt", NBX_DO(c->ctx, "aten::rsub.Scalar", T(do_unary(c->ctx, "aten::square", t)), F(1)));
    const nbx_tensor *peak = do_full(c->ctx, c->device, NBX_FLOAT64, 0, NULL, F(beta));
    const nbx_tensor *y = do_div(c->ctx, do_unary(c->ctx, "aten::i0", scale(c->ctx, root, beta)), do_unary(c->ctx, "aten::i0", peak));
    return do_cast(c->ctx, y, x ? (nbx_dtype)x->dtype : NBX_FLOAT64);
}

static nbx_status window(nbx_op_call *c) {
    const window_form *f = c->op->data;
    const nbx_dtype dtype = create_dtype(c, f->dtype, NBX_FLOAT32);
    const int64_t length = arg_int(c, 0);
    const bool periodic = f->periodic < 0 || arg_bool(c, f->periodic);
    if (length < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "window_length %lld is negative", (long long)length);
    if (length == INT64_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "window_length %lld overflows", (long long)length);
    if (!nbx_dtype_is_float(dtype) || nbx_dtype_size(dtype) == 1)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(dtype));
    if (length <= 1) return out_tensor(c, 0, do_full(c->ctx, c->device, dtype, 1, &length, I(1)));
    const int64_t whole = length + periodic;  // a periodic window is one longer, without its last element
    const nbx_tensor *x = NBX_DO(c->ctx, "aten::arange", I(whole), nbx_of_dtype(dtype), NIL, nbx_of_device(c->device));
    const nbx_tensor *y = f->function(c, f, x, whole);
    return out_tensor(c, 0, periodic ? do_slice(c->ctx, y, 0, 0, length) : y);
}

#define WINDOW(NAME, ...) {.name = "aten::" NAME, .composite = window, .data = &(const window_form){__VA_ARGS__}}
#define HANN .function = hamming, .standard_a = 0.5, .standard_b = 0.5, .a = -1, .b = -1
#define HAMMING .function = hamming, .standard_a = 0.54, .standard_b = 0.46, .b = -1
#define KAISER .function = kaiser, .standard_a = 12

const nbx_op nbx_ops_window[] = {
    WINDOW("bartlett_window", .function = bartlett, .periodic = -1, .dtype = 1),
    WINDOW("bartlett_window.periodic", .function = bartlett, .periodic = 1, .dtype = 2),
    WINDOW("blackman_window", .function = blackman, .periodic = -1, .dtype = 1),
    WINDOW("blackman_window.periodic", .function = blackman, .periodic = 1, .dtype = 2),
    WINDOW("hann_window", HANN, .periodic = -1, .dtype = 1),
    WINDOW("hann_window.periodic", HANN, .periodic = 1, .dtype = 2),
    WINDOW("hamming_window", HAMMING, .a = -1, .periodic = -1, .dtype = 1),
    WINDOW("hamming_window.periodic", HAMMING, .a = -1, .periodic = 1, .dtype = 2),
    WINDOW("hamming_window.periodic_alpha", HAMMING, .a = 2, .periodic = 1, .dtype = 3),
    WINDOW("hamming_window.periodic_alpha_beta", .function = hamming, .a = 2, .b = 3, .periodic = 1, .dtype = 4),
    WINDOW("kaiser_window", KAISER, .a = -1, .periodic = -1, .dtype = 1),
    WINDOW("kaiser_window.periodic", KAISER, .a = -1, .periodic = 1, .dtype = 2),
    WINDOW("kaiser_window.beta", KAISER, .a = 2, .periodic = 1, .dtype = 3),
    NBX_OPS_END,
};
