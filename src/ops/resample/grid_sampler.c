// grid_sample in two and three dims, affine_grid_generator, and interpolate as torch.nn.functional has it.
#include <string.h>

#include "ops/compose.h"
#include "ops/resample/resample.h"

// ------------------------------------------------------------------------------------------------------- grid samplers
static nbx_status check_grid(nbx_op_call *c, int rank) {
    const nbx_tensor *x = arg_tensor(c, 0), *grid = arg_tensor(c, 1);
    char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
    bool fits = x->rank == rank && grid->rank == rank && x->shape[0] == grid->shape[0] && grid->shape[rank - 1] == rank - 2;
    for (int i = 2; fits && i < rank; i++) fits = x->shape[i] > 0;
    if (!fits)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "input %s and grid %s do not fit together", nbx_shape_text(x->rank, x->shape, a, sizeof a),
                             nbx_shape_text(grid->rank, grid->shape, b, sizeof b));
    if (x->dtype != grid->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "input is %s, grid %s", nbx_dtype_name((nbx_dtype)x->dtype), nbx_dtype_name((nbx_dtype)grid->dtype));
    if (rank == 5 && arg_int(c, 2) == 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "cubic interpolation takes 4 dims");
    return nbx_call_need_float(c, x, false);
}

static nbx_status infer_grid(nbx_op_call *c) {
    const int rank = *(const int8_t *)c->op->data;
    const nbx_tensor *x = arg_tensor(c, 0), *grid = arg_tensor(c, 1);
    const nbx_status status = check_grid(c, rank);
    if (status) return status;
    int64_t shape[5] = {x->shape[0], x->shape[1]};
    for (int i = 2; i < rank; i++) shape[i] = grid->shape[i - 1];
    return out_new(c, 0, (nbx_dtype)x->dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status grid_sampler(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank != 4 && x->rank != 5) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects 4 or 5 dims, found %d", x->rank);
    return nbx_forward(c, x->rank == 4 ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d", 5, c->args);
}

// ---------------------------------------------------------------------------------------------------------- affine grid
// Coordinates from -1 to 1 of n points: of the corners, or of the middles of n cells.
static nbx_tensor *points(nbx_op_call *c, nbx_dtype dtype, int64_t n, bool align) {
    if (n <= 1) return do_full(c->ctx, c->device, dtype, 1, &n, I(0));
    nbx_tensor *t = NBX_DO(c->ctx, "aten::linspace", I(-1), I(1), I(n), nbx_of_dtype(dtype), NIL, nbx_of_device(c->device));
    return align ? t : NBX_DO(c->ctx, "aten::div.Scalar", T(do_mul_scalar(c->ctx, t, I(n - 1))), I(n));
}

// theta [n, 2, 3] or [n, 3, 4] times (x, y, [z,] 1) at every point of an output of `size`.
static nbx_status affine_grid(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *theta = arg_tensor(c, 0), *parts[4];
    int rank;
    const int64_t *size = arg_ints(c, 1, &rank);
    if (rank != 4 && rank != 5) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "size needs 4 or 5 numbers, found %d", rank);
    const int dims = rank - 2;
    if (theta->rank != 3 || theta->shape[0] != size[0] || theta->shape[1] != dims || theta->shape[2] != dims + 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "theta must be [%lld, %d, %d]", (long long)size[0], dims, dims + 1);
    int64_t shape[5], count = 1;
    for (int i = 0; i < dims; i++) count *= shape[i] = size[2 + i];
    shape[dims] = 1;
    for (int i = 0; i < dims; i++) {  // x runs along the last dim
        int64_t line[5] = {1, 1, 1, 1, 1};
        line[dims - 1 - i] = size[2 + dims - 1 - i];
        nbx_tensor *t = points(c, (nbx_dtype)theta->dtype, line[dims - 1 - i], arg_bool(c, 2));
        parts[i] = do_expand(ctx, do_view(ctx, t, dims + 1, line), dims + 1, shape);
        if (!parts[i]) return ctx->status;
    }
    parts[dims] = do_full(ctx, c->device, (nbx_dtype)theta->dtype, dims + 1, shape, I(1));
    if (!parts[dims]) return ctx->status;
    nbx_tensor *base = NBX_DO(ctx, "aten::cat", nbx_of_tensors(parts, dims + 1), I(-1));
    base = do_view(ctx, base, 2, (int64_t[]){count, dims + 1});
    int64_t result[5] = {size[0]};
    memcpy(result + 1, size + 2, (size_t)dims * sizeof *result);
    result[1 + dims] = dims;
    nbx_tensor *grid = do_matmul(ctx, base, do_transpose(ctx, theta, 1, 2));
    return out_tensor(c, 0, do_view(ctx, grid, dims + 2, result));
}

// ---------------------------------------------------------------------------------------------------------- interpolate
static nbx_value spread(nbx_op_call *c, int arg, int dims, int64_t *ints, double *floats) {
    const nbx_value *v = &c->args[arg];
    if (v->kind == NBX_KIND_NONE) return NIL;
    for (int i = 0; i < dims; i++) {
        if (ints) ints[i] = v->as.ints[v->count == 1 ? 0 : i];
        else floats[i] = v->as.floats[v->count == 1 ? 0 : i];
    }
    return ints ? nbx_of_ints(ints, dims) : nbx_of_floats(floats, dims);
}

// (input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
static nbx_status interpolate(nbx_op_call *c) {
    static const char *const names[][4] = {
        {"nearest", "aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest3d.vec"},
        {"nearest-exact", "aten::_upsample_nearest_exact1d.vec", "aten::_upsample_nearest_exact2d.vec", "aten::_upsample_nearest_exact3d.vec"},
        {"linear", "aten::upsample_linear1d.vec", NULL, NULL},
        {"bilinear", NULL, "aten::upsample_bilinear2d.vec", NULL},
        {"bicubic", NULL, "aten::upsample_bicubic2d.vec", NULL},
        {"trilinear", NULL, NULL, "aten::upsample_trilinear3d.vec"},
        {"area", "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d"},
    };
    const nbx_tensor *x = arg_tensor(c, 0);
    const char *mode = arg_string(c, 3);
    const int dims = x->rank - 2;
    int64_t sizes[3];
    double scales[3];
    if (dims < 1 || dims > 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects 3 to 5 dims, found %d", x->rank);
    for (int arg = 1; arg < 3; arg++)
        if (!arg_is_none(c, arg) && c->args[arg].count != 1 && c->args[arg].count != dims)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s needs 1 or %d numbers", c->schema->params[arg].name, dims);
    if (arg_is_none(c, 1) == arg_is_none(c, 2)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "exactly one of size and scale_factor must be given");
    nbx_value size = spread(c, 1, dims, sizes, NULL), scale = spread(c, 2, dims, NULL, scales);
    const bool recompute = !arg_is_none(c, 5) && arg_bool(c, 5), area = !strcmp(mode, "area");
    if (scale.kind != NBX_KIND_NONE && (recompute || area)) {
        for (int i = 0; i < dims; i++) sizes[i] = (int64_t)((double)x->shape[2 + i] * scales[i]);
        size = nbx_of_ints(sizes, dims), scale = NIL;
    }
    const char *name = NULL;
    int row = 0;
    for (int i = 0; i < 7; i++)
        if (!strcmp(mode, names[i][0])) name = names[i][dims], row = i;
    if (name && arg_bool(c, 6)) {
        name = row == 3 ? "aten::_upsample_bilinear2d_aa.vec" : row == 4 ? "aten::_upsample_bicubic2d_aa.vec" : NULL;
    }
    if (!name) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode '%s' does not fit %d spatial dims", mode, dims);
    if (area) return NBX_FORWARD(c, name, T(x), size);
    const bool align = !arg_is_none(c, 4) && arg_bool(c, 4);
    if (row < 2 && !arg_is_none(c, 4)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "align_corners does not apply to mode '%s'", mode);
    if (row < 2) return NBX_FORWARD(c, name, T(x), size, scale);
    return NBX_FORWARD(c, name, T(x), size, B(align), scale);
}

static const int8_t four = 4, five = 5;

const nbx_op nbx_ops_grid_sampler[] = {
    {.name = "aten::grid_sampler_2d", .infer = infer_grid, .cpu = NBX_CPU_KERNEL(grid_sampler_cpu), .flags = NBX_OP_EXACT_OUT, .data = &four},
    {.name = "aten::grid_sampler_3d", .infer = infer_grid, .cpu = NBX_CPU_KERNEL(grid_sampler_cpu), .flags = NBX_OP_EXACT_OUT, .data = &five},
    {.name = "aten::grid_sampler", .composite = grid_sampler},
    {.name = "aten::affine_grid_generator", .composite = affine_grid, .flags = NBX_OP_EXACT_OUT},
    {.name = "nbx::interpolate", .composite = interpolate},
    NBX_OPS_END,
};
