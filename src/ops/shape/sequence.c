// Lists of tensors and sequences of different lengths: cartesian_prod, combinations, pad_sequence, packed sequences.
#include "ops/index/nonzero.h"
#include "ops/shape/geometry.h"

#include <string.h>

static nbx_status cartesian_prod(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const int64_t minus_one = -1;
    nbx_value grids;
    for (int k = 0; k < count; k++)
        if (list[k]->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes vectors, not a tensor of %d dims", list[k]->rank);
    if (count == 1) return out_tensor(c, 0, list[0]);
    if (nbx_do_many(c->ctx, "aten::meshgrid", 1, c->args, &grids, 1) != NBX_OK) return c->ctx->status;
    const nbx_tensor **flat = nbx_scope_alloc(c->ctx, sizeof *flat * (size_t)(count ? count : 1));
    for (int k = 0; flat != NULL && k < count; k++) {
        flat[k] = nbx_reshaped(c->ctx, grids.as.tensors[k], 1, &minus_one);
        if (flat[k] == NULL) return c->ctx->status;
    }
    return flat == NULL ? c->ctx->status : NBX_FORWARD(c, "aten::stack", nbx_of_tensors(flat, count), I(1));
}

// combinations(self, r, with_replacement): index tuples in lexicographic order, then rows of self.
static nbx_status combinations(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t r = arg_int(c, 1), n = self->rank == 1 ? self->shape[0] : 0;
    const bool again = arg_bool(c, 2);
    if (self->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector, not a tensor of %d dims", self->rank);
    if (r < 0 || r > 1024) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "tuples of %lld elements", (long long)r);
    const int64_t nothing = 0;
    if (r == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::new_empty", T(self), nbx_of_ints(&nothing, 1)));
    int64_t at[1024], count = 0;
    const bool any = again ? n > 0 : n >= r;
    int64_t *tuples = NULL;
    const nbx_tensor *indices = NULL;
    for (int pass = 0; pass < 2; pass++) {  // count, then write
        for (int64_t i = 0; i < r; i++) at[i] = again ? 0 : i;
        count = 0;
        for (bool more = any; more; count++) {
            if (tuples != NULL) memcpy(tuples + count * r, at, sizeof(int64_t) * (size_t)r);
            int64_t i = r - 1;
            while (i >= 0 && at[i] == (again ? n - 1 : n - r + i)) i--;
            more = i >= 0;
            if (more) at[i]++;
            for (int64_t k = i + 1; more && k < r; k++) at[k] = again ? at[i] : at[k - 1] + 1;
        }
        const int64_t size = count * r;
        if (pass == 1) break;
        indices = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, 1, &size);
        if (indices == NULL) return c->ctx->status;
        tuples = size > 0 ? nbx_data(indices) : NULL;
    }
    const int64_t shape[2] = {count, r};
    const nbx_tensor *chosen = NBX_DO(c->ctx, "aten::index_select", T(self), I(0), T(nbx_from_host(c, indices)));
    return nbx_give(c, 0, nbx_reshaped(c->ctx, chosen, 2, shape));
}

// -------------------------------------------------------------------------------------------------------- pad_sequence
static nbx_status pad_sequence(nbx_op_call *c) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 0, &count);
    const bool batch_first = arg_bool(c, 1), left = strcmp(arg_string(c, 3), "left") == 0;
    int64_t shape[NBX_MAX_RANK], longest = 0;
    if (count == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at least one tensor");
    if (!left && strcmp(arg_string(c, 3), "right") != 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "padding_side must be 'left' or 'right', not '%s'", arg_string(c, 3));
    const int rank = list[0]->rank;
    for (int k = 0; k < count; k++) {
        if (list[k]->rank != rank || rank == 0 || rank + 1 > NBX_MAX_RANK)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "tensor %d has %d dims, the first %d", k, list[k]->rank, rank);
        if (!nbx_shape_equal(rank - 1, list[k]->shape + 1, rank - 1, list[0]->shape + 1))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "the trailing dims of tensor %d differ from those of the first", k);
        longest = list[k]->shape[0] > longest ? list[k]->shape[0] : longest;
    }
    memcpy(shape + 1, list[0]->shape, sizeof(int64_t) * (size_t)rank);
    shape[0] = batch_first ? count : longest;
    shape[1] = batch_first ? longest : count;
    const nbx_tensor *out = NBX_DO(c->ctx, "aten::new_full", T(list[0]), nbx_of_ints(shape, rank + 1), c->args[2]);
    for (int k = 0; k < count && out != NULL; k++) {
        const int64_t length = list[k]->shape[0];
        const nbx_tensor *line = NBX_DO(c->ctx, "aten::select.int", T(out), I(batch_first ? 0 : 1), I(k));
        if (NBX_DO(c->ctx, "aten::copy_", T(nbx_narrowed(c->ctx, line, 0, left ? longest - length : 0, length)), T(list[k])) == NULL)
            return c->ctx->status;
    }
    return nbx_give(c, 0, out);
}

// ----------------------------------------------------------------------------------------------------- packed sequences
// _pack_padded_sequence(input [t, b, ...], lengths falling): for every step the rows of the sequences still going on.
static nbx_status pack_padded(nbx_op_call *c) {
    const nbx_tensor *input = arg_tensor(c, 0), *lengths_tensor = arg_tensor(c, 1);
    if (input->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a batch of sequences, not a tensor of %d dims", input->rank);
    if (arg_bool(c, 2)) input = nbx_transposed(c->ctx, input, 0, 1);
    int64_t batch, total = 0;
    const int64_t *lengths = input ? nbx_read_ints(c, lengths_tensor, &batch) : NULL;
    if (lengths == NULL) return c->ctx->status;
    if (input->numel == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "an empty batch cannot be packed");
    if (batch != input->shape[1])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld lengths for a batch of %lld", (long long)batch, (long long)input->shape[1]);
    for (int64_t b = 0; b < batch; b++) {
        if (lengths[b] <= 0 || (b > 0 && lengths[b] > lengths[b - 1]))
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lengths must be positive and in falling order");
        total += lengths[b];
    }
    if (lengths[0] > input->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "length %lld is more than the %lld steps", (long long)lengths[0], (long long)input->shape[0]);
    const int64_t steps = lengths[0];
    const nbx_device host = {NBX_CPU, 0};
    const nbx_tensor *sizes = nbx_new(c->ctx, host, NBX_INT64, 1, &steps), *rows = nbx_new(c->ctx, host, NBX_INT64, 1, &total);
    if (sizes == NULL || rows == NULL) return c->ctx->status;
    int64_t *size = nbx_data(sizes), *row = nbx_data(rows), left = batch;
    for (int64_t t = 0; t < steps; t++) {
        while (lengths[left - 1] <= t) left--;
        size[t] = left;
        for (int64_t b = 0; b < left; b++) *row++ = t * batch + b;
    }
    int64_t flat[NBX_MAX_RANK];
    memcpy(flat, input->shape + 1, sizeof(int64_t) * (size_t)(input->rank - 1));
    flat[0] = -1;
    if (input->rank == 2) flat[0] = input->numel;
    const nbx_tensor *lines = nbx_reshaped(c->ctx, input, input->rank - 1, flat);
    const nbx_tensor *data = NBX_DO(c->ctx, "aten::index_select", T(lines), I(0), T(nbx_from_host(c, rows)));
    return nbx_give(c, 0, data) != NBX_OK ? c->ctx->status : out_tensor(c, 1, sizes);
}

// _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length) -> (padded [t, b, ...], lengths)
static nbx_status pad_packed(nbx_op_call *c) {
    const nbx_tensor *data = arg_tensor(c, 0), *sizes_tensor = arg_tensor(c, 1);
    int64_t steps, total_length = arg_int(c, 4), shape[NBX_MAX_RANK];
    const int64_t *sizes = nbx_read_ints(c, sizes_tensor, &steps);
    if (sizes == NULL) return c->ctx->status;
    if (steps == 0 || data->rank == 0 || data->rank + 1 > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "batch_sizes must not be empty");
    const int64_t batch = sizes[0];
    int64_t sum = 0;
    for (int64_t t = 0; t < steps; t++) {
        if (sizes[t] <= 0 || (t > 0 && sizes[t] > sizes[t - 1])) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "batch_sizes must be positive and in falling order");
        if (sizes[t] > data->shape[0] - sum) return nbx_call_fail(c, NBX_ERROR_SHAPE, "batch_sizes add up to more than the %lld rows of data", (long long)data->shape[0]);
        sum += sizes[t];
    }
    if (sum != data->shape[0]) return nbx_call_fail(c, NBX_ERROR_SHAPE, "batch_sizes add up to %lld, data has %lld rows", (long long)sum, (long long)data->shape[0]);
    if (total_length > 0 && total_length < steps)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "total_length %lld is less than the longest sequence %lld", (long long)total_length, (long long)steps);
    const int64_t padded_steps = total_length > 0 ? total_length : steps;
    const nbx_device host = {NBX_CPU, 0};
    const nbx_tensor *lengths = nbx_new(c->ctx, host, NBX_INT64, 1, &batch), *rows = nbx_new(c->ctx, host, NBX_INT64, 1, &sum);
    if (lengths == NULL || rows == NULL) return c->ctx->status;
    int64_t *length = nbx_data(lengths), *row = nbx_data(rows);
    for (int64_t b = 0; b < batch; b++) length[b] = 0;
    for (int64_t t = 0; t < steps; t++)
        for (int64_t b = 0; b < sizes[t]; b++) {
            length[b]++;
            *row++ = t * batch + b;
        }
    memcpy(shape, data->shape, sizeof(int64_t) * (size_t)data->rank);
    shape[0] = padded_steps * batch;
    const nbx_tensor *lines = NBX_DO(c->ctx, "aten::new_full", T(data), nbx_of_ints(shape, data->rank), c->args[3]);
    lines = NBX_DO(c->ctx, "aten::index_copy_", T(lines), I(0), T(nbx_from_host(c, rows)), T(data));
    memmove(shape + 1, shape, sizeof(int64_t) * (size_t)data->rank);
    shape[0] = padded_steps;
    shape[1] = batch;
    const nbx_tensor *padded = nbx_reshaped(c->ctx, lines, data->rank + 1, shape);
    if (arg_bool(c, 2) && padded != NULL) padded = nbx_transposed(c->ctx, padded, 0, 1);
    return nbx_give(c, 0, padded) != NBX_OK ? c->ctx->status : out_tensor(c, 1, lengths);
}

// ------------------------------------------------------------------------------------------------------------ odds and ends
static nbx_status narrow_copy(nbx_op_call *c) {
    return nbx_give(c, 0, nbx_cloned(c->ctx, NBX_DO(c->ctx, "aten::narrow", c->args[0], c->args[1], c->args[2], c->args[3])));
}

static nbx_status shape_as_tensor(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t rank = self->rank;
    const nbx_tensor *out = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, 1, &rank);
    if (out != NULL && rank > 0) memcpy(nbx_data(out), self->shape, sizeof(int64_t) * (size_t)rank);
    return nbx_give(c, 0, out);
}

static nbx_status reshape_from_tensor(nbx_op_call *c) {
    int64_t count;
    const int64_t *shape = nbx_read_ints(c, arg_tensor(c, 1), &count);
    return shape == NULL ? c->ctx->status : NBX_FORWARD(c, "aten::reshape", c->args[0], nbx_of_ints(shape, count));
}

// slice_inverse(self, src, ...): self as the base whose slice was src, for functionalised programs.
static nbx_status slice_inverse(nbx_op_call *c) {
    return NBX_FORWARD(c, "aten::alias", c->args[0]);
}

const nbx_op nbx_ops_sequence[] = {
    {.name = "aten::cartesian_prod", .composite = cartesian_prod},
    {.name = "aten::combinations", .composite = combinations},
    {.name = "aten::pad_sequence", .composite = pad_sequence},
    {.name = "aten::_pack_padded_sequence", .composite = pack_padded, .flags = NBX_OP_READS_BACK},
    {.name = "aten::_pad_packed_sequence", .composite = pad_packed, .flags = NBX_OP_READS_BACK},
    {.name = "aten::narrow_copy", .composite = narrow_copy, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_shape_as_tensor", .composite = shape_as_tensor, .flags = NBX_OP_READS_BACK},
    {.name = "aten::_reshape_from_tensor", .composite = reshape_from_tensor, .flags = NBX_OP_READS_BACK},
    {.name = "aten::slice_inverse", .composite = slice_inverse},
    NBX_OPS_END,
};
