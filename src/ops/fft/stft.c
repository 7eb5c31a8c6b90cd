// Short-time transforms and back.
//   stft(x [len] or [batch, len], n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)
//     -> [batch, frequencies, frames]; stft.center pads n_fft / 2 at both ends first
//   istft(x [batch, frequencies, frames], n_fft, hop_length, win_length, window, center, normalized, onesided, length,
//     return_complex) -> [batch, len]: windowed frames added, over the sum of squared windows, which must not be 0 anywhere
//   hop_length none: n_fft / 4; win_length none: n_fft; a shorter window has zeros on both sides
//   source: aten::stft, stft.center, istft
#include <string.h>

#include "ops/compose.h"

static nbx_status check_window(nbx_op_call *c, int64_t n_fft, int64_t win, const nbx_tensor *window) {
    if (win < 1 || win > n_fft) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "win_length %lld lies outside 1 to n_fft %lld", (long long)win, (long long)n_fft);
    if (window && (window->rank != 1 || window->shape[0] != win))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "window must have %lld elements in one dim", (long long)win);
    return NBX_OK;
}

// The window with zeros around it to n_fft elements; ones of `dtype` when there is none. NULL: failed.
static const nbx_tensor *padded_window(nbx_op_call *c, const nbx_tensor *window, nbx_dtype dtype, int64_t n_fft, int64_t win) {
    const int64_t left = (n_fft - win) / 2, pads[2] = {left, n_fft - win - left};
    if (!window) window = do_full(c->ctx, c->device, dtype, 1, &win, I(1));
    return win == n_fft ? window : NBX_DO(c->ctx, "aten::constant_pad_nd", T(window), nbx_of_ints(pads, 2), I(0));
}

// Both overloads: arguments from `at` on follow the window (and center and pad_mode).
static nbx_status frames(nbx_op_call *c, bool center, const char *mode, int at) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *self = arg_tensor(c, 0), *window = arg_tensor(c, 4), *x = self;
    const int64_t n_fft = arg_int(c, 1), hop = arg_int_or(c, 2, n_fft >> 2), win = arg_int_or(c, 3, n_fft);
    const nbx_dtype dtype = (nbx_dtype)self->dtype;
    const bool complex_in = nbx_dtype_is_complex(dtype) || (window && nbx_dtype_is_complex((nbx_dtype)window->dtype));
    if (arg_is_none(c, at + 2) && !complex_in) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "return_complex must be given for real inputs");
    const bool return_complex = arg_is_none(c, at + 2) || arg_bool(c, at + 2);
    if (!nbx_dtype_is_float(dtype) && !nbx_dtype_is_complex(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(dtype));
    if (self->rank < 1 || self->rank > 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "needs 1 or 2 dims, found %d", self->rank);
    if (center && !arg_is_none(c, at + 3)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "align_to_window goes with center false only");
    if (self->rank == 1) x = do_unsqueeze(ctx, x, 0);
    if (center) {
        const int64_t pads[2] = {n_fft / 2, n_fft / 2};
        x = NBX_DO(ctx, "aten::pad", T(do_unsqueeze(ctx, x, 0)), nbx_of_ints(pads, 2), nbx_of_string(mode));
        x = do_squeeze(ctx, x, 0);
    }
    if (!x) return ctx->status;
    const bool aligned = !center && !arg_is_none(c, at + 3) && arg_bool(c, at + 3);
    const int64_t len = x->shape[1];
    if (n_fft < 1 || n_fft > len) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "n_fft %lld lies outside 1 to %lld", (long long)n_fft, (long long)len);
    if (hop < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "hop_length must be positive, found %lld", (long long)hop);
    const nbx_status status = check_window(c, n_fft, win, window);
    if (status) return status;
    if (aligned) {
        const int64_t left = (n_fft - win) / 2, pads[2] = {left, left};
        x = NBX_DO(ctx, "aten::constant_pad_nd", T(x), nbx_of_ints(pads, 2), I(0));
    }
    if (!x) return ctx->status;
    const int64_t count = 1 + (x->shape[1] - n_fft) / hop, shape[3] = {x->shape[0], count, n_fft};
    const int64_t stride[3] = {x->stride[0], hop * x->stride[1], x->stride[1]};
    x = NBX_DO(ctx, "aten::as_strided", T(x), nbx_of_ints(shape, 3), nbx_of_ints(stride, 3));
    if (window || win < n_fft) x = do_mul(ctx, x, padded_window(c, window, dtype, n_fft, win));
    if (!x) return ctx->status;
    const bool complex_fft = nbx_dtype_is_complex((nbx_dtype)x->dtype);
    const bool onesided = arg_is_none(c, at + 1) ? !complex_fft : arg_bool(c, at + 1);
    const int64_t last = 2, norm = arg_bool(c, at) ? 1 : 0;
    if (complex_fft && onesided) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "complex input has no one-sided result");
    const char *name = complex_fft ? "aten::_fft_c2c" : "aten::_fft_r2c";
    nbx_tensor *y = NBX_DO(ctx, name, T(x), nbx_of_ints(&last, 1), I(norm), B(complex_fft || onesided));
    y = do_transpose(ctx, y, 1, 2);
    if (self->rank == 1) y = do_squeeze(ctx, y, 0);
    return out_tensor(c, 0, return_complex ? y : NBX_DO(ctx, "aten::view_as_real", T(y)));
}

static nbx_status stft(nbx_op_call *c) { return frames(c, false, "constant", 5); }
static nbx_status stft_center(nbx_op_call *c) { return frames(c, arg_bool(c, 5), arg_string(c, 6), 7); }

// Frames [batch, count, n_fft] added where they came from: [batch, len].
static nbx_tensor *overlapped(nbx_context *ctx, const nbx_tensor *x, int64_t len, int64_t n_fft, int64_t hop) {
    if (!x) return NULL;
    const int64_t sizes[2] = {x->shape[0], len};
    return NBX_DO(ctx, "aten::unfold_backward", T(x), nbx_of_ints(sizes, 2), I(1), I(n_fft), I(hop));
}

static nbx_status istft(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *window = arg_tensor(c, 4);
    const int64_t n_fft = arg_int(c, 1), hop = arg_int_or(c, 2, n_fft >> 2), win = arg_int_or(c, 3, n_fft);
    const bool center = arg_bool(c, 5), return_complex = arg_bool(c, 9), single = x->rank == 2;
    if (!nbx_dtype_is_complex((nbx_dtype)x->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs complex numbers, found %s", nbx_dtype_name((nbx_dtype)x->dtype));
    if (x->numel == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the input has no elements");
    if (x->rank != 2 && x->rank != 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "needs 2 or 3 dims, found %d", x->rank);
    const int64_t count = x->shape[x->rank - 1], size = x->shape[x->rank - 2];
    const bool onesided = arg_is_none(c, 7) ? size != n_fft : arg_bool(c, 7);
    if (size != (onesided ? n_fft / 2 + 1 : n_fft))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld frequencies do not belong to n_fft %lld", (long long)size, (long long)n_fft);
    if (hop < 1 || hop > win) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "hop_length %lld lies outside 1 to win_length %lld", (long long)hop, (long long)win);
    const nbx_status status = check_window(c, n_fft, win, window);
    if (status) return status;
    if (return_complex && onesided) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a complex result needs all frequencies");
    if (!return_complex && window && nbx_dtype_is_complex((nbx_dtype)window->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a complex window needs return_complex");
    const int64_t full = n_fft + hop * (count - 1), last = 2, norm = arg_bool(c, 6) ? 1 : 2;
    if (single) x = do_unsqueeze(ctx, x, 0);
    x = do_transpose(ctx, x, 1, 2);
    if (return_complex) x = NBX_DO(ctx, "aten::_fft_c2c", T(x), nbx_of_ints(&last, 1), I(norm), B(false));
    else {
        if (!onesided) x = do_slice(ctx, x, -1, 0, n_fft / 2 + 1);
        x = NBX_DO(ctx, "aten::_fft_c2r", T(x), nbx_of_ints(&last, 1), I(norm), I(n_fft));
    }
    const nbx_tensor *w = x ? padded_window(c, window, nbx_dtype_to_real((nbx_dtype)x->dtype), n_fft, win) : NULL;
    nbx_tensor *y = overlapped(ctx, do_mul(ctx, x, w), full, n_fft, hop);
    const int64_t windows[3] = {1, count, n_fft};
    nbx_tensor *sum = overlapped(ctx, do_expand(ctx, do_mul(ctx, w, w), 3, windows), full, n_fft, hop);
    const int64_t start = center ? n_fft / 2 : 0;
    const int64_t end = !arg_is_none(c, 8) ? start + arg_int(c, 8) : center ? -(n_fft / 2) : full;
    y = do_slice(ctx, y, 1, start, end);
    sum = do_slice(ctx, sum, 1, start, end);
    nbx_tensor *least = do_unary(ctx, "aten::min", do_unary(ctx, "aten::abs", sum));
    nbx_tensor *bad = NBX_DO(ctx, "aten::logical_not", T(NBX_DO(ctx, "aten::lt.Scalar", T(least), F(1e-11))));
    if (!bad) return ctx->status;
    if (nbx_do_many(ctx, "aten::_assert_async.msg", 2, (nbx_value[]){T(bad), nbx_of_string("the windows leave a sample uncovered")}, NULL, 0) != NBX_OK)
        return ctx->status;
    y = do_div(ctx, y, sum);
    if (single) y = do_squeeze(ctx, y, 0);
    const int64_t pads[2] = {0, end - full};
    return out_tensor(c, 0, end > full ? NBX_DO(ctx, "aten::constant_pad_nd", T(y), nbx_of_ints(pads, 2), I(0)) : y);
}

const nbx_op nbx_ops_stft[] = {
    {.name = "aten::stft", .composite = stft},
    {.name = "aten::stft.center", .composite = stft_center},
    {.name = "aten::istft", .composite = istft},
    NBX_OPS_END,
};
