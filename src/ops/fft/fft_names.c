// The transforms of torch.fft: promotion, sizes and dims, names of norms; and what goes with them.
//   norm, of a forward transform: none or "backward" 1, "ortho" 1 / sqrt(n), "forward" 1 / n; of a backward one the reverse
//   n and s trim or pad with zeros at the end; -1 in s keeps a size
//   source: aten::fft_*
#include <string.h>

#include "ops/compose.h"
#include "ops/reduce/reduce.h"

// A real or complex tensor of default precision or double. NULL: failed.
static const nbx_tensor *promoted(nbx_op_call *c, bool complex) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_dtype dtype = (nbx_dtype)x->dtype;
    if (!nbx_dtype_is_float(dtype) && !nbx_dtype_is_complex(dtype)) dtype = NBX_FLOAT32;
    if (dtype != NBX_FLOAT32 && dtype != NBX_FLOAT64 && dtype != NBX_COMPLEX64 && dtype != NBX_COMPLEX128) {
        nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)x->dtype));
        return NULL;
    }
    if (complex) dtype = nbx_dtype_to_complex(dtype);
    return do_cast(c->ctx, x, dtype);
}

static nbx_status norm_of(nbx_op_call *c, int arg, bool forward, int64_t *normalization) {
    const char *name = arg_string(c, arg);
    if (!name || !strcmp(name, "backward")) *normalization = forward ? 0 : 2;
    else if (!strcmp(name, "forward")) *normalization = forward ? 2 : 0;
    else if (!strcmp(name, "ortho")) *normalization = 1;
    else return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "norm '%s' is none of backward, ortho, forward", name);
    return NBX_OK;
}

// out= of real results must be real.
static nbx_status need_real_target(nbx_op_call *c) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (!target || nbx_dtype_is_float((nbx_dtype)target->dtype)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs a floating point output, found %s", nbx_dtype_name((nbx_dtype)target->dtype));
}

// x with `size` entries along dim, -1: as it is.
static const nbx_tensor *resized(nbx_context *ctx, const nbx_tensor *x, int dim, int64_t size) {
    int64_t pads[2 * NBX_MAX_RANK] = {0};
    if (!x || size == -1 || x->shape[dim] == size) return x;
    if (x->shape[dim] > size) return do_slice(ctx, x, dim, 0, size);
    pads[2 * (x->rank - 1 - dim) + 1] = size - x->shape[dim];
    return NBX_DO(ctx, "aten::constant_pad_nd", T(x), nbx_of_ints(pads, 2 * (x->rank - dim)), I(0));
}

static nbx_status need_points(nbx_op_call *c, int64_t n) {
    return n >= 1 ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld points cannot be transformed", (long long)n);
}

// --------------------------------------------------------------------------------------------------------------- one dim
typedef struct line_form {
    enum { LINE_ANY, LINE_REAL, LINE_HERMITIAN } input;  // real or complex to complex; real to half of it; back
    bool forward;
} line_form;

static const line_form fft = {LINE_ANY, true}, ifft = {LINE_ANY, false}, rfft = {LINE_REAL, true}, ihfft = {LINE_REAL, false},
                       irfft = {LINE_HERMITIAN, false}, hfft = {LINE_HERMITIAN, true};

static nbx_value dims_value(const int64_t *dim) { return nbx_of_ints(dim, 1); }

static nbx_status transform_line(nbx_op_call *c) {
    const line_form *f = c->op->data;
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = promoted(c, f->input == LINE_HERMITIAN);
    int at;
    int64_t norm = 0;
    if (!x) return ctx->status;
    if (f->input == LINE_REAL && nbx_dtype_is_complex((nbx_dtype)x->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs real numbers");
    if (!x->rank) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the tensor has no dims");
    nbx_status status = nbx_call_dim(c, arg_int(c, 2), x->rank, &at);
    if (status) return status;
    const int64_t dim = at;
    const int64_t n = arg_int_or(c, 1, f->input == LINE_HERMITIAN ? 2 * (x->shape[at] - 1) : x->shape[at]);
    status = need_points(c, n);
    if (!status) status = norm_of(c, 3, f->forward, &norm);
    if (status) return status;
    if (!arg_is_none(c, 1)) x = resized(ctx, x, at, f->input == LINE_HERMITIAN ? n / 2 + 1 : n);
    if (!x) return ctx->status;
    if (f->input == LINE_HERMITIAN) {
        if (need_real_target(c) != NBX_OK) return ctx->status;
        if (f->forward) x = NBX_DO(ctx, "aten::_conj_physical", T(x));
        return NBX_FORWARD(c, "aten::_fft_c2r", T(x), dims_value(&dim), I(norm), I(n));
    }
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) return NBX_FORWARD(c, "aten::_fft_c2c", T(x), dims_value(&dim), I(norm), B(f->forward));
    const nbx_tensor *y = NBX_DO(ctx, "aten::_fft_r2c", T(x), dims_value(&dim), I(norm), B(f->input == LINE_REAL));
    return out_tensor(c, 0, f->forward ? y : NBX_DO(ctx, "aten::_conj_physical", T(y)));
}

// ----------------------------------------------------------------------------------------------------------- several dims
typedef struct plane_form {
    enum { PLANE_COMPLEX, PLANE_REAL, PLANE_HERMITIAN } input;
    bool forward;
} plane_form;

static const plane_form fftn = {PLANE_COMPLEX, true}, ifftn = {PLANE_COMPLEX, false}, rfftn = {PLANE_REAL, true}, irfftn = {PLANE_HERMITIAN, false};

// Dims and sizes of (self, s, dim): all dims, the last ones, or those listed.
static nbx_status dims_and_sizes(nbx_op_call *c, int64_t *dims, int64_t *sizes, int *count) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int given_sizes, given_dims;
    const int64_t *s = arg_ints(c, 1, &given_sizes), *d = arg_ints(c, 2, &given_dims);
    const bool has_sizes = !arg_is_none(c, 1), has_dims = !arg_is_none(c, 2);
    uint64_t seen = 0;
    if (has_sizes && has_dims && given_sizes != given_dims)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d sizes for %d dims", given_sizes, given_dims);
    *count = has_dims ? given_dims : has_sizes ? given_sizes : x->rank;
    if (*count > x->rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d dims for a tensor of %d", *count, x->rank);
    for (int i = 0; i < *count; i++) {
        int at = x->rank - *count + i;
        const nbx_status status = has_dims ? nbx_call_dim(c, d[i], x->rank, &at) : NBX_OK;
        if (status) return status;
        if (seen >> at & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d is listed twice", at);
        seen |= (uint64_t)1 << at;
        dims[i] = at, sizes[i] = has_sizes && s[i] != -1 ? s[i] : x->shape[at];
        if (need_points(c, sizes[i]) != NBX_OK) return c->ctx->status;
    }
    return NBX_OK;
}

static nbx_status transform_planes(nbx_op_call *c) {
    const plane_form *f = c->op->data;
    int64_t dims[NBX_MAX_RANK], sizes[NBX_MAX_RANK], norm = 0, n = 0;
    int count = 0;
    if (f->input == PLANE_REAL && nbx_dtype_is_complex((nbx_dtype)arg_tensor(c, 0)->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs real numbers");
    nbx_status status = dims_and_sizes(c, dims, sizes, &count);
    if (!status) status = norm_of(c, 3, f->forward, &norm);
    if (status) return status;
    if (f->input != PLANE_COMPLEX && !count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "at least one dim must be transformed");
    const nbx_tensor *x = promoted(c, f->input != PLANE_REAL);
    if (x && f->input == PLANE_HERMITIAN) {
        int given;
        const int64_t *s = arg_ints(c, 1, &given);
        n = arg_is_none(c, 1) || s[given - 1] == -1 ? 2 * (x->shape[dims[count - 1]] - 1) : s[given - 1];
        if (need_points(c, n) != NBX_OK) return c->ctx->status;
        sizes[count - 1] = n / 2 + 1;
    }
    for (int i = 0; i < count; i++) x = resized(c->ctx, x, (int)dims[i], sizes[i]);
    if (!x) return c->ctx->status;
    if (!count) return out_tensor(c, 0, NBX_DO(c->ctx, "aten::clone", T(x)));
    const nbx_value list = nbx_of_ints(dims, count);
    if (f->input == PLANE_COMPLEX) return NBX_FORWARD(c, "aten::_fft_c2c", T(x), list, I(norm), B(f->forward));
    if (f->input == PLANE_REAL) return NBX_FORWARD(c, "aten::_fft_r2c", T(x), list, I(norm), B(true));
    if (need_real_target(c) != NBX_OK) return c->ctx->status;
    return NBX_FORWARD(c, "aten::_fft_c2r", T(x), list, I(norm), I(n));
}

// hfftn: real results of a half, a forward transform; ihfftn: the half of a real input, a backward one. The last dim is the halved one.
static nbx_status transform_hermitian(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const bool forward = *(const bool *)c->op->data;
    int64_t dims[NBX_MAX_RANK], sizes[NBX_MAX_RANK], norm = 0, n = 0;
    int count = 0, given;
    const int64_t *s = arg_ints(c, 1, &given);
    if (!forward && nbx_dtype_is_complex((nbx_dtype)arg_tensor(c, 0)->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs real numbers");
    nbx_status status = dims_and_sizes(c, dims, sizes, &count);
    if (!status) status = norm_of(c, 3, forward, &norm);
    if (!status && forward) status = need_real_target(c);
    if (status) return status;
    if (!count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "at least one dim must be transformed");
    const nbx_tensor *x = promoted(c, forward);
    if (x && forward) {
        n = arg_is_none(c, 1) || s[given - 1] == -1 ? 2 * (x->shape[dims[count - 1]] - 1) : s[given - 1];
        if (need_points(c, n) != NBX_OK) return ctx->status;
        sizes[count - 1] = n / 2 + 1;
    }
    for (int i = 0; i < count; i++) x = resized(ctx, x, (int)dims[i], sizes[i]);
    if (!x) return ctx->status;
    const nbx_value last = nbx_of_ints(dims + count - 1, 1), others = nbx_of_ints(dims, count - 1);
    if (forward) {
        if (count > 1) x = NBX_DO(ctx, "aten::_fft_c2c", T(x), others, I(norm), B(true));
        return NBX_FORWARD(c, "aten::_fft_c2r", T(do_unary(ctx, "aten::_conj_physical", x)), last, I(norm), I(n));
    }
    x = do_unary(ctx, "aten::_conj_physical", NBX_DO(ctx, "aten::_fft_r2c", T(x), last, I(norm), B(true)));
    return out_tensor(c, 0, count > 1 ? NBX_DO(ctx, "aten::_fft_c2c", T(x), others, I(norm), B(false)) : x);
}

// ----------------------------------------------------------------------------------------------------- order of frequencies
static const bool shift = false, unshift = true;

// Rolls each dim by half of its size, ifftshift by the other half.
static nbx_status shifted(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t dims[NBX_MAX_RANK], by[NBX_MAX_RANK];
    int count;
    const int64_t *given = arg_ints(c, 1, &count);
    if (arg_is_none(c, 1)) count = x->rank;
    if (count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d dims for a tensor of %d", count, x->rank);
    for (int i = 0; i < count; i++) {
        int at = i;
        const nbx_status status = arg_is_none(c, 1) ? NBX_OK : nbx_call_dim(c, given[i], x->rank, &at);
        if (status) return status;
        const int64_t size = x->rank ? x->shape[at] : 1;
        dims[i] = at, by[i] = (size + *(const bool *)c->op->data) / 2;
    }
    return NBX_FORWARD(c, "aten::roll", T(x), nbx_of_ints(by, count), nbx_of_ints(dims, count));
}

// (n, d, dtype, layout, device, pin_memory): [0, 1 ... (n - 1) / 2, -n / 2 ... -1] / (n d); the half form [0 ... n / 2] / (n d).
static nbx_status frequencies(nbx_op_call *c) {
    const bool half = *(const bool *)c->op->data;
    const int64_t n = arg_int(c, 0);
    nbx_context *ctx = c->ctx;
    const nbx_tensor *target = nbx_call_target(c, 0);
    const nbx_dtype dtype = target ? (nbx_dtype)target->dtype : arg_is_none(c, 2) ? NBX_FLOAT32 : arg_dtype(c, 2);
    if (!nbx_dtype_is_float(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(dtype));
    if (n < 0 || n > INT64_MAX / 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld", (long long)n);
    const nbx_value device = nbx_of_device(c->device);
    nbx_tensor *x = NBX_DO(ctx, "aten::arange", I(half ? n / 2 + 1 : (n + 1) / 2), nbx_of_dtype(dtype), NIL, device);
    if (!half) {
        nbx_tensor *negative = NBX_DO(ctx, "aten::arange.start", I(-(n / 2)), I(0), nbx_of_dtype(dtype), NIL, device);
        if (!x || !negative) return ctx->status;
        x = NBX_DO(ctx, "aten::cat", nbx_of_tensors((const nbx_tensor *[]){x, negative}, 2));
    }
    return out_tensor(c, 0, do_mul_scalar(ctx, x, F(1 / ((double)n * arg_float(c, 1)))));
}

static const bool all_of_them = false, half_of_them = true;

#define LINE(NAME, FLAGS) {.name = "aten::fft_" #NAME, .composite = transform_line, .data = &NAME, .flags = FLAGS}
#define PLANES(NAME, FORM) {.name = "aten::fft_" #NAME, .composite = transform_planes, .data = &FORM, .flags = NBX_OP_PACKED_OUT}
#define HERMITIAN(NAME, FORWARD) {.name = "aten::fft_" #NAME, .composite = transform_hermitian, .data = &(const bool){FORWARD}, .flags = NBX_OP_PACKED_OUT}

const nbx_op nbx_ops_fft_names[] = {
    LINE(fft, NBX_OP_PACKED_OUT), LINE(rfft, NBX_OP_PACKED_OUT), LINE(irfft, NBX_OP_PACKED_OUT), LINE(hfft, NBX_OP_PACKED_OUT),
    LINE(ifft, 0), LINE(ihfft, 0),  // conjugated into out=, which then takes the strides of the transform
    PLANES(fft2, fftn), PLANES(ifft2, ifftn), PLANES(rfft2, rfftn), PLANES(irfft2, irfftn),
    PLANES(fftn, fftn), PLANES(ifftn, ifftn), PLANES(rfftn, rfftn), PLANES(irfftn, irfftn),
    HERMITIAN(hfft2, true), HERMITIAN(hfftn, true), HERMITIAN(ihfft2, false), HERMITIAN(ihfftn, false),
    {.name = "aten::fft_fftshift", .composite = shifted, .data = &shift},
    {.name = "aten::fft_ifftshift", .composite = shifted, .data = &unshift},
    {.name = "aten::fft_fftfreq", .composite = frequencies, .data = &all_of_them},
    {.name = "aten::fft_rfftfreq", .composite = frequencies, .data = &half_of_them},
    NBX_OPS_END,
};
