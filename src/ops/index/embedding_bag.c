// embedding_bag, and the backward operators of embedding and unfold.
//   A bag is a stretch of indices; its result is the sum (mode 0), mean (1) or maximum (2) of the rows of weight they name.
#include "ops/index/combine.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/keys.h"

enum { WEIGHT, INDICES, OFFSETS, SCALE_BY_FREQUENCY, MODE, SPARSE, SAMPLE_WEIGHTS, LAST_OFFSET, PADDING };
enum { SUM, MEAN, MAX };

static int64_t int_at(const nbx_tensor *t, int64_t i) {
    return element_int((nbx_dtype)t->dtype, (const char *)nbx_data(t) + i * t->stride[0] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype));
}

static void set_int_at(const nbx_tensor *t, int64_t i, int64_t x) {
    element_set_int((nbx_dtype)t->dtype, (char *)nbx_data(t) + i * t->stride[0] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), x);
}

static bool is_index(const nbx_tensor *t) { return t->dtype == NBX_INT64 || t->dtype == NBX_INT32; }

// ATen sums bags without padding through a kernel that needs no map from index to bag, and returns that map empty.
static bool sums_directly(const nbx_op_call *c, const nbx_tensor *weight, int64_t padding) {
    const nbx_tensor *scale = arg_tensor(c, SAMPLE_WEIGHTS);
    const nbx_dtype d = (nbx_dtype)weight->dtype;
    return (d == NBX_FLOAT32 || d == NBX_FLOAT16 || d == NBX_BFLOAT16) && padding < 0 && weight->stride[1] == 1 && (!scale || scale->stride[0] == 1);
}

static nbx_status bag_infer(nbx_op_call *c) {
    const nbx_tensor *weight = arg_tensor(c, WEIGHT), *indices = arg_tensor(c, INDICES), *offsets = arg_tensor(c, OFFSETS), *scale = arg_tensor(c, SAMPLE_WEIGHTS);
    const int64_t mode = arg_int(c, MODE);
    const bool last = arg_bool(c, LAST_OFFSET), forward_only = c->op->data != NULL;
    if (weight->rank != 2 || indices->rank != 1 || offsets->rank != 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a matrix of weights and vectors of indices and offsets");
    if (!is_index(indices) || !is_index(offsets)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices and offsets must be int64 or int32");
    if (!nbx_dtype_is_float((nbx_dtype)weight->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "weights must be floating, not %s", nbx_dtype_name((nbx_dtype)weight->dtype));
    if (mode < SUM || mode > MAX) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode %lld is not 0 (sum), 1 (mean) or 2 (max)", (long long)mode);
    if (last && offsets->numel < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "include_last_offset needs an offset");
    if (scale != NULL && (mode != SUM || scale->rank != 1 || scale->numel != indices->numel || scale->dtype != weight->dtype))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "per_sample_weights go with mode sum, one of weight's dtype for each index");
    int64_t padding = arg_int(c, PADDING);
    if (padding >= weight->shape[0]) return nbx_call_fail(c, NBX_ERROR_INDEX, "padding_idx %lld is out of range", (long long)padding);
    const int64_t bags = offsets->numel - last, nothing = 0, shape[2] = {bags, weight->shape[1]};
    const nbx_dtype wide = indices->dtype == NBX_INT64 || offsets->dtype == NBX_INT64 ? NBX_INT64 : NBX_INT32;
    const int64_t sizes = mode == SUM && forward_only ? offsets->numel : bags;
    const int64_t *map = mode == SUM && sums_directly(c, weight, padding) ? &nothing : &indices->numel;
    const bool made = out_new(c, 0, (nbx_dtype)weight->dtype, 2, shape, NULL) && out_new(c, 1, wide, 1, map, NULL) && out_new(c, 2, wide, 1, &sizes, NULL) &&
                      (mode == MAX ? out_new(c, 3, wide, 2, shape, NULL) : out_new(c, 3, wide, 1, &sizes, NULL));
    c->scratch_bytes = sizeof(double) * (size_t)(weight->shape[1] + 1) * (size_t)nbx_pool_threads(c->ctx->pool);
    return made ? NBX_OK : c->ctx->status;
}

typedef struct bag_job {
    nbx_op_call *c;
    const nbx_tensor *weight, *indices, *offsets, *scale, *out, *sizes, *largest;
    int64_t mode, padding, bags;
    double *sums;
} bag_job;

static int64_t bag_end(const bag_job *j, int64_t bag) {
    return bag + 1 < j->offsets->numel ? int_at(j->offsets, bag + 1) : j->indices->numel;
}

static void bag_run(void *arg, int64_t begin, int64_t end, int thread) {
    const bag_job *j = arg;
    const nbx_tensor *w = j->weight, *out = j->out;
    const nbx_dtype d = (nbx_dtype)w->dtype;
    const int64_t columns = w->shape[1], width = (int64_t)nbx_dtype_size(d);
    double *sums = j->sums + thread * (columns + 1);
    for (int64_t bag = begin; bag < end; bag++) {
        int64_t count = 0;
        for (int64_t k = 0; k < columns; k++) sums[k] = 0;
        for (int64_t i = int_at(j->offsets, bag); i < bag_end(j, bag); i++) {
            const int64_t row = int_at(j->indices, i);
            if (row == j->padding) continue;
            const char *from = (const char *)nbx_data(w) + row * w->stride[0] * width;
            const double factor = j->scale ? element_double(d, (const char *)nbx_data(j->scale) + i * j->scale->stride[0] * width) : 1;
            for (int64_t k = 0; k < columns; k++) {
                const double x = element_double(d, from + k * w->stride[1] * width);
                if (j->mode != MAX) sums[k] += factor * x;
                else if (count == 0 || x > sums[k]) {  // a NaN stays where it is the first
                    sums[k] = x;
                    element_set_int((nbx_dtype)j->largest->dtype, (char *)nbx_data(j->largest) + (bag * j->largest->stride[0] + k * j->largest->stride[1]) * (int64_t)nbx_dtype_size((nbx_dtype)j->largest->dtype), row);
                }
            }
            count++;
        }
        char *to = (char *)nbx_data(out) + bag * out->stride[0] * width;
        for (int64_t k = 0; k < columns; k++) element_set_double(d, to + k * out->stride[1] * width, j->mode == MEAN && count > 0 ? sums[k] / (double)count : sums[k]);
        if (j->mode != SUM) set_int_at(j->sizes, bag, count);
    }
}

static nbx_status check_bags(nbx_op_call *c, const bag_job *j) {
    for (int64_t i = 0; i < j->indices->numel; i++) {
        const int64_t row = int_at(j->indices, i);
        if (row < 0 || row >= j->weight->shape[0])
            return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [0, %lld] of weight", (long long)row, (long long)j->weight->shape[0] - 1);
    }
    int64_t before = 0;
    for (int64_t i = 0; i < j->offsets->numel; i++) {
        const int64_t at = int_at(j->offsets, i);
        if ((i == 0 && at != 0) || at < before || at > j->indices->numel)
            return nbx_call_fail(c, NBX_ERROR_INDEX, "offset %lld at %lld must rise from 0 to the %lld indices", (long long)at, (long long)i, (long long)j->indices->numel);
        before = at;
    }
    return NBX_OK;
}

static nbx_status bag(nbx_op_call *c) {
    static const char zero[16];
    bag_job j = {.c = c, .weight = arg_tensor(c, WEIGHT), .indices = arg_tensor(c, INDICES), .offsets = arg_tensor(c, OFFSETS), .scale = arg_tensor(c, SAMPLE_WEIGHTS),
                 .out = out_get(c, 0), .sizes = out_get(c, 2), .largest = out_get(c, 3), .mode = arg_int(c, MODE), .padding = arg_int(c, PADDING), .sums = c->scratch};
    if (check_bags(c, &j) != NBX_OK) return c->ctx->status;
    const nbx_tensor *map = out_get(c, 1);
    nbx_fill_tensor(c->pool, j.sizes, zero);
    nbx_fill_tensor(c->pool, j.largest, zero);
    j.bags = j.out->shape[0];
    nbx_parallel_for(c->pool, j.bags, 4096 / (j.weight->shape[1] + 1) + 1, bag_run, &j);
    if (j.mode == MEAN) nbx_move_tensor(c->pool, j.largest, j.sizes);
    for (int64_t b = 0; b < j.bags && map->numel > 0; b++)
        for (int64_t i = int_at(j.offsets, b); i < bag_end(&j, b); i++) set_int_at(map, i, b);
    return NBX_OK;
}

// embedding_bag, with padding_idx None or counted from the end in the longer overload.
static nbx_status bag_composite(nbx_op_call *c) {
    nbx_value args[9];
    memcpy(args, c->args, sizeof(nbx_value) * 8);
    args[PADDING] = I(-1);
    if (c->arg_count > PADDING && !arg_is_none(c, PADDING)) {
        const nbx_tensor *weight = arg_tensor(c, WEIGHT);
        int row;
        if (nbx_call_dim(c, arg_int(c, PADDING), (int)(weight->rank > 0 ? weight->shape[0] : 0), &row) != NBX_OK) return c->ctx->status;
        args[PADDING] = I(row);
    }
    return nbx_forward(c, "aten::_embedding_bag_forward_only", 9, args);
}

// ------------------------------------------------------------------------------------------------------------- backward
// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq): rows of grad, added up by index.
static nbx_status dense_backward_infer(nbx_op_call *c) {
    const nbx_tensor *grad = arg_tensor(c, 0), *indices = arg_tensor(c, 1);
    if (!is_index(indices)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices must be int64 or int32, not %s", nbx_dtype_name((nbx_dtype)indices->dtype));
    if (grad->rank == 0 || arg_int(c, 2) < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the gradient must have a row for each index");
    const int64_t columns = grad->shape[grad->rank - 1], shape[2] = {arg_int(c, 2), columns};
    if (grad->numel != indices->numel * columns || nbx_combine_of(NBX_COMBINE_ADD, (nbx_dtype)grad->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "the gradient must have a row for each index");
    if (!out_new(c, 0, (nbx_dtype)grad->dtype, 2, shape, NULL)) return c->ctx->status;
    if (__builtin_mul_overflow((size_t)shape[0] + 1, sizeof(int64_t), &c->scratch_bytes)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld weights are more than any memory holds", (long long)shape[0]);
    if (c->device.type != NBX_CPU) c->scratch_bytes = nbx_device_sort_bytes(1, indices->numel) + sizeof(uint64_t) * (size_t)indices->numel;
    return NBX_OK;
}

// Byte offset of row i of t, whose last `tail` dims make a row.
static int64_t row_of(const nbx_tensor *t, int64_t i, int tail) {
    return nbx_element_offset(t, t->rank - tail, i);
}

static nbx_status dense_backward(nbx_op_call *c) {
    static const char zero[16];
    const nbx_tensor *grad = arg_tensor(c, 0), *indices = arg_tensor(c, 1), *out = out_get(c, 0);
    const nbx_dtype d = (nbx_dtype)grad->dtype;
    const int64_t width = (int64_t)nbx_dtype_size(d), columns = out->shape[1], step = grad->stride[grad->rank - 1] * width, to_step = out->stride[1] * width;
    const nbx_combine_fn add = nbx_combine_of(NBX_COMBINE_ADD, d);
    int64_t *counts = c->scratch;
    nbx_fill_tensor(c->pool, out, zero);
    for (int64_t r = 0; r < out->shape[0]; r++) counts[r] = 0;
    for (int64_t i = 0; i < indices->numel; i++) {
        const int64_t row = element_int((nbx_dtype)indices->dtype, (const char *)nbx_data(indices) + row_of(indices, i, 0));
        if (row == arg_int(c, 3)) continue;
        if (row < 0 || row >= out->shape[0])
            return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [0, %lld]", (long long)row, (long long)out->shape[0] - 1);
        counts[row]++;
        if (columns > 0)
            add((char *)nbx_data(out) + row * out->stride[0] * width, to_step, (const char *)nbx_data(grad) + row_of(grad, i, 1), step, columns);
    }
    for (int64_t r = 0; arg_bool(c, 4) && r < out->shape[0]; r++)
        if (counts[r] > 1) nbx_divide_run(d, (char *)nbx_data(out) + r * out->stride[0] * width, to_step, counts[r], columns);
    return NBX_OK;
}

// unfold_backward(grad, sizes, dim, size, step): windows added back to where unfold took them from.
static nbx_status unfold_backward(nbx_op_call *c) {
    const nbx_tensor *grad = arg_tensor(c, 0);
    int rank, d;
    const int64_t *shape = arg_ints(c, 1, &rank), size = arg_int(c, 3), step = arg_int(c, 4);
    const nbx_tensor *out = NBX_DO(c->ctx, "aten::new_zeros", T(grad), nbx_of_ints(shape, rank));
    if (out == NULL || rank == 0) return out == NULL ? c->ctx->status : nbx_give(c, 0, NBX_DO(c->ctx, "aten::add_.Tensor", T(out), T(NBX_DO(c->ctx, "aten::sum", T(grad)))));
    if (nbx_call_dim(c, arg_int(c, 2), rank, &d) != NBX_OK) return c->ctx->status;
    const int64_t windows = grad->rank == rank + 1 ? grad->shape[d] : 0;
    if (windows > 0 && (step < 1 || size < 0 || (windows - 1) > (shape[d] - size) / step || shape[d] < size || grad->shape[rank] != size))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld windows of %lld do not fit dim %d", (long long)windows, (long long)size, d);
    // Windows `apart` from each other share no element, so all of them are added at once.
    const int64_t apart = windows > 0 && size > 0 ? (size + step - 1) / step : 0;
    for (int64_t k = 0; k < apart && k < windows; k++) {
        int64_t sizes[NBX_MAX_RANK + 1], strides[NBX_MAX_RANK + 1];
        const nbx_tensor *part = NBX_DO(c->ctx, "aten::slice.Tensor", T(grad), I(d), I(k), I(windows), I(apart));
        for (int i = 0; part && i <= rank; i++) sizes[i] = part->shape[i], strides[i] = i == rank ? out->stride[d] : out->stride[i] * (i == d ? apart * step : 1);
        const nbx_tensor *place = NBX_DO(c->ctx, "aten::as_strided", T(out), nbx_of_ints(sizes, part ? rank + 1 : 0), nbx_of_ints(strides, part ? rank + 1 : 0),
                                         I(out->offset + k * step * out->stride[d]));
        if (!part || NBX_DO(c->ctx, "aten::add_.Tensor", T(place), T(part)) == NULL) return c->ctx->status;
    }
    return out_tensor(c, 0, out);
}

static const char forward_only[] = "forward only";

const nbx_op nbx_ops_embedding_bag[] = {
    {.name = "aten::_embedding_bag", .infer = bag_infer, .cpu = NBX_CPU_KERNEL_ONE(bag), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::_embedding_bag_forward_only", .infer = bag_infer, .cpu = NBX_CPU_KERNEL_ONE(bag), .flags = NBX_OP_STRIDED_SAME, .data = forward_only},
    {.name = "aten::embedding_bag", .composite = bag_composite},
    {.name = "aten::embedding_bag.padding_idx", .composite = bag_composite},
    {.name = "aten::embedding_dense_backward", .infer = dense_backward_infer, .cpu = NBX_CPU_KERNEL_ONE(dense_backward), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::unfold_backward", .composite = unfold_backward, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};
