// im2col and col2im: the patches of an image as columns, and their sum back into an image.
//   im2col(self [n, c, h, w]) -> [n, c * kh * kw, positions];  col2im the other way, adding where patches overlap.
#include "ops/index/combine.h"
#include "ops/pad/fold.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

static nbx_status read_pair(nbx_op_call *c, int arg, const char *name, int64_t least, int64_t *pair) {
    int count;
    const int64_t *list = arg_ints(c, arg, &count);
    if (count != 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s has %d numbers, not 2", name, count);
    for (int i = 0; i < 2; i++) {
        pair[i] = list[i];
        if (pair[i] < least) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s %lld is too small", name, (long long)pair[i]);
    }
    return NBX_OK;
}

// first: the argument of kernel_size; dilation, padding and stride follow.
static nbx_status read_patches(nbx_op_call *c, int first, nbx_patches *p) {
    if (read_pair(c, first, "kernel_size", 1, p->kernel) != NBX_OK || read_pair(c, first + 1, "dilation", 1, p->dilation) != NBX_OK ||
        read_pair(c, first + 2, "padding", 0, p->padding) != NBX_OK || read_pair(c, first + 3, "stride", 1, p->step) != NBX_OK)
        return c->ctx->status;
    for (int i = 0; i < 2; i++) {
        int64_t reach, padded, span;
        const bool overflow = __builtin_mul_overflow(p->dilation[i], p->kernel[i] - 1, &reach) || __builtin_mul_overflow(p->padding[i], 2, &padded) ||
                              __builtin_add_overflow(padded, p->size[i], &padded) || __builtin_sub_overflow(padded, reach, &span) || span >= INT64_MAX / 2;
        p->count[i] = overflow || span < 1 ? 0 : (span - 1) / p->step[i] + 1;
        if (p->count[i] < 1)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "no patch fits into an image of %lld by %lld", (long long)p->size[0], (long long)p->size[1]);
    }
    return NBX_OK;
}

// Positions k with 0 <= k * step + shift < size: from *begin to *end.
static void inside(int64_t count, int64_t step, int64_t shift, int64_t size, int64_t *begin, int64_t *end) {
    *begin = shift >= 0 ? 0 : (-shift + step - 1) / step;
    *end = size - shift <= 0 ? 0 : (size - shift - 1) / step + 1;
    if (*end > count) *end = count;
    if (*begin > *end) *begin = *end;
}

// --------------------------------------------------------------------------------------------------------------- im2col
nbx_status nbx_im2col_plan(nbx_op_call *c, nbx_patches *p) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank != 3 && self->rank != 4) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of 3 or 4 dims, not %d", self->rank);
    const int64_t *shape = self->shape + self->rank - 3;
    p->channels = shape[0], p->size[0] = shape[1], p->size[1] = shape[2];
    if (p->channels == 0 || p->size[0] == 0 || p->size[1] == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "channels and image must not be empty");
    return read_patches(c, 1, p);
}

static nbx_status im2col_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    nbx_patches p;
    if (nbx_im2col_plan(c, &p) != NBX_OK) return c->ctx->status;
    int64_t shape[3] = {self->shape[0]};
    if (__builtin_mul_overflow(p.kernel[0], p.kernel[1], &shape[1]) || __builtin_mul_overflow(shape[1], p.channels, &shape[1]) ||
        __builtin_mul_overflow(p.count[0], p.count[1], &shape[2]))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes overflow");
    const int batched = self->rank == 4;
    return out_new(c, 0, (nbx_dtype)self->dtype, 2 + batched, shape + !batched, NULL) ? NBX_OK : c->ctx->status;
}

typedef struct fold_job {
    const nbx_patches *p;
    const nbx_tensor *image, *columns;  // image of rank 3 or 4, columns of rank 2 or 3
    int64_t width;
    nbx_combine_fn add;
} fold_job;

// Byte strides of the last `count` dims; the batch's in front (0 without).
static void strides_of(const nbx_tensor *t, int count, int64_t width, int64_t *batch, int64_t *strides) {
    *batch = t->rank > count ? t->stride[0] * width : 0;
    for (int i = 0; i < count; i++) strides[i] = t->stride[t->rank - count + i] * width;
}

// Rows of the columns: n, channel, kernel row, kernel column.
static void im2col_rows(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    static const char zero[16];
    const fold_job *j = arg;
    const nbx_patches *p = j->p;
    int64_t image_batch, columns_batch, is[3], cs[2];
    strides_of(j->image, 3, j->width, &image_batch, is);
    strides_of(j->columns, 2, j->width, &columns_batch, cs);
    const int64_t per_image = p->channels * p->kernel[0] * p->kernel[1];
    const int width = (int)j->width;
    for (int64_t r = begin; r < end; r++) {
        const int64_t n = r / per_image, row = r % per_image, kx = row % p->kernel[1], ky = row / p->kernel[1] % p->kernel[0];
        const int64_t dy = ky * p->dilation[0] - p->padding[0], dx = kx * p->dilation[1] - p->padding[1];
        const char *from = (const char *)nbx_data(j->image) + n * image_batch + row / (p->kernel[0] * p->kernel[1]) * is[0];
        char *to = (char *)nbx_data(j->columns) + n * columns_batch + row * cs[0];
        int64_t x0, x1;
        inside(p->count[1], p->step[1], dx, p->size[1], &x0, &x1);
        for (int64_t y = 0; y < p->count[0]; y++, to += p->count[1] * cs[1]) {
            const int64_t at = y * p->step[0] + dy;
            const bool out_of_image = at < 0 || at >= p->size[0];
            const int64_t a = out_of_image ? p->count[1] : x0, b = out_of_image ? p->count[1] : x1;
            nbx_move_run_1d(width, a, to, cs[1], zero, 0);
            if (b > a) nbx_move_run_1d(width, b - a, to + a * cs[1], cs[1], from + at * is[1] + (a * p->step[1] + dx) * is[2], p->step[1] * is[2]);
            nbx_move_run_1d(width, p->count[1] - b, to + b * cs[1], cs[1], zero, 0);
        }
    }
}

static nbx_status im2col(nbx_op_call *c) {
    nbx_patches p;
    fold_job j = {.p = &p, .image = arg_tensor(c, 0), .columns = out_get(c, 0)};
    if (j.columns->numel == 0) return NBX_OK;
    if (nbx_im2col_plan(c, &p) != NBX_OK) return c->ctx->status;
    j.width = (int64_t)nbx_dtype_size((nbx_dtype)j.image->dtype);
    const int64_t line = p.count[0] * p.count[1];
    nbx_parallel_for(c->pool, j.columns->numel / line, 16384 / (line * j.width) + 1, im2col_rows, &j);
    return NBX_OK;
}

// --------------------------------------------------------------------------------------------------------------- col2im
nbx_status nbx_col2im_plan(nbx_op_call *c, nbx_patches *p) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank != 2 && self->rank != 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of 2 or 3 dims, not %d", self->rank);
    if (read_pair(c, 1, "output_size", 1, p->size) != NBX_OK || read_patches(c, 2, p) != NBX_OK) return c->ctx->status;
    const int64_t rows = self->shape[self->rank - 2], positions = self->shape[self->rank - 1], per_channel = p->kernel[0] * p->kernel[1];
    if (rows == 0 || positions == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "columns must not be empty");
    if (rows % per_channel != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld rows are not divisible by %lld elements of a patch", (long long)rows, (long long)per_channel);
    if (positions != p->count[0] * p->count[1])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld columns for %lld by %lld positions", (long long)positions, (long long)p->count[0], (long long)p->count[1]);
    p->channels = rows / per_channel;
    return NBX_OK;
}

static nbx_status col2im_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    nbx_patches p;
    if (nbx_col2im_plan(c, &p) != NBX_OK) return c->ctx->status;
    if (nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)self->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s cannot be added", nbx_dtype_name((nbx_dtype)self->dtype));
    const int64_t shape[4] = {self->shape[0], p.channels, p.size[0], p.size[1]};
    const int batched = self->rank == 3;
    return out_new(c, 0, (nbx_dtype)self->dtype, 3 + batched, shape + !batched, NULL) ? NBX_OK : c->ctx->status;
}

// Channels of all images; each is summed by one thread, in the order of the kernel's elements.
static void col2im_channels(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const fold_job *j = arg;
    const nbx_patches *p = j->p;
    int64_t image_batch, columns_batch, is[3], cs[2];
    strides_of(j->image, 3, j->width, &image_batch, is);
    strides_of(j->columns, 2, j->width, &columns_batch, cs);
    const int64_t per_channel = p->kernel[0] * p->kernel[1];
    for (int64_t r = begin; r < end; r++) {
        const int64_t n = r / p->channels, channel = r % p->channels;
        char *to = (char *)nbx_data(j->image) + n * image_batch + channel * is[0];
        const char *from = (const char *)nbx_data(j->columns) + n * columns_batch + channel * per_channel * cs[0];
        for (int64_t k = 0; k < per_channel; k++, from += cs[0]) {
            const int64_t dy = k / p->kernel[1] * p->dilation[0] - p->padding[0], dx = k % p->kernel[1] * p->dilation[1] - p->padding[1];
            int64_t x0, x1, y0, y1;
            inside(p->count[0], p->step[0], dy, p->size[0], &y0, &y1);
            inside(p->count[1], p->step[1], dx, p->size[1], &x0, &x1);
            for (int64_t y = y0; y < y1; y++)
                j->add(to + (y * p->step[0] + dy) * is[1] + (x0 * p->step[1] + dx) * is[2], p->step[1] * is[2],
                       from + (y * p->count[1] + x0) * cs[1], cs[1], x1 - x0);
        }
    }
}

static nbx_status col2im(nbx_op_call *c) {
    static const char zero[16];
    nbx_patches p;
    fold_job j = {.p = &p, .image = out_get(c, 0), .columns = arg_tensor(c, 0)};
    if (j.image->numel == 0) return NBX_OK;
    if (nbx_col2im_plan(c, &p) != NBX_OK) return c->ctx->status;
    j.width = (int64_t)nbx_dtype_size((nbx_dtype)j.image->dtype);
    j.add = nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)j.image->dtype);
    nbx_fill_tensor(c->pool, j.image, zero);
    nbx_parallel_for(c->pool, j.image->numel / (p.size[0] * p.size[1]), 1, col2im_channels, &j);
    return NBX_OK;
}

const nbx_op nbx_ops_fold[] = {
    {.name = "aten::im2col", .infer = im2col_infer, .cpu = NBX_CPU_KERNEL_ONE(im2col), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::col2im", .infer = col2im_infer, .cpu = NBX_CPU_KERNEL_ONE(col2im), .flags = NBX_OP_STRIDED_SAME},
    NBX_OPS_END,
};
