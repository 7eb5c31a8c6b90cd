// Padding: a constant, or elements of the tensor itself, reflected, repeated at the edge or going round.
//   pad lists (before, after) of the last dim, then of the one before it, and so on; negative numbers cut off.
#include "ops/elementwise/elementwise.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

#include <string.h>

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

// The shape with pad pairs of the last count / 2 dims.
static nbx_status padded_shape(nbx_op_call *c, const nbx_tensor *self, int count, const int64_t *pad, int64_t *shape) {
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    for (int i = 0; i < count / 2; i++) {
        const int d = self->rank - 1 - i;
        if (__builtin_add_overflow(shape[d], pad[2 * i], &shape[d]) || __builtin_add_overflow(shape[d], pad[2 * i + 1], &shape[d]))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d grows beyond 63 bits", d);
        if (shape[d] < 0)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "padding %lld and %lld leaves a negative size of dim %d", (long long)pad[2 * i],
                                 (long long)pad[2 * i + 1], d);
    }
    return NBX_OK;
}

static nbx_status like_format(nbx_op_call *c, const nbx_tensor *self, const int64_t *shape) {
    int64_t stride[NBX_MAX_RANK];
    nbx_strides_format(nbx_suggest_memory_format(self), self->rank, shape, stride);
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, shape, stride) ? NBX_OK : c->ctx->status;
}

// ------------------------------------------------------------------------------------------------------ constant_pad_nd
static nbx_status constant_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    int64_t shape[NBX_MAX_RANK];
    if (count % 2 != 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "an odd number (%d) of paddings", count);
    if (count / 2 > self->rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d paddings for a tensor of %d dims", count, self->rank);
    if (padded_shape(c, self, count, pad, shape) != NBX_OK) return c->ctx->status;
    bool grows = false;
    for (int i = 0; i < count; i++) grows = grows || pad[i] > 0;
    if (grows && ew_check_number(c, (nbx_dtype)self->dtype, &c->args[2]) != NBX_OK) return c->ctx->status;
    if (!grows) {  // ATen clones the narrowed tensor
        nbx_tensor narrowed = *self;
        narrowed.shape = shape;
        narrowed.numel = nbx_shape_numel(self->rank, shape);
        narrowed.dense = self->dense && nbx_shape_equal(self->rank, shape, self->rank, self->shape);
        return out_like(c, 0, (nbx_dtype)self->dtype, &narrowed) ? NBX_OK : c->ctx->status;
    }
    return like_format(c, self, shape);
}

static int64_t positive(int64_t x) { return x > 0 ? x : 0; }

// Fills box after box around the centre, so that each element is written once.
static void fill_around(nbx_pool *pool, const nbx_tensor *out, int count, const int64_t *pad, const void *value) {
    int64_t shape[NBX_MAX_RANK];
    nbx_tensor box = *out;
    box.shape = shape;
    memcpy(shape, out->shape, sizeof(int64_t) * (size_t)out->rank);
    for (int i = count / 2 - 1; i >= 0; i--) {  // outer dims first: long runs
        const int d = out->rank - 1 - i;
        const int64_t before = positive(pad[2 * i]) < shape[d] ? positive(pad[2 * i]) : shape[d], rest = shape[d] - before;
        const int64_t after = positive(pad[2 * i + 1]) < rest ? positive(pad[2 * i + 1]) : rest;
        const int64_t base = box.offset;
        for (int side = 0; side < 2; side++) {
            shape[d] = side == 0 ? before : after;
            box.offset = base + (side == 0 ? 0 : (before + rest - after) * out->stride[d]);
            box.numel = nbx_shape_numel(out->rank, shape);
            nbx_fill_tensor(pool, &box, value);
        }
        shape[d] = rest - after;
        box.offset = base + before * out->stride[d];
    }
}

static nbx_status constant(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    char value[16];
    if (out->numel == 0) return NBX_OK;
    nbx_scalar_element(&c->args[2], (nbx_dtype)out->dtype, value);
    fill_around(c->pool, out, count, pad, value);
    nbx_tensor to = *out, from = *self;  // the centre of the result, the part of self that is kept
    int64_t shape[NBX_MAX_RANK];
    memcpy(shape, self->shape, sizeof(int64_t) * (size_t)self->rank);
    for (int i = 0; i < count / 2; i++) {
        const int d = self->rank - 1 - i;
        const int64_t cut_before = positive(-pad[2 * i]), cut_after = positive(-pad[2 * i + 1]);
        shape[d] = positive(shape[d] - cut_before - cut_after);
        from.offset += cut_before * self->stride[d];
        to.offset += positive(pad[2 * i]) * out->stride[d];
    }
    to.shape = from.shape = shape;
    to.numel = from.numel = nbx_shape_numel(self->rank, shape);
    nbx_move_tensor(c->pool, &to, &from);
    return NBX_OK;
}

// --------------------------------------------------------------------------------------- reflection_pad, replication_pad
// The row's data: dims that are padded, and how.
typedef struct edge_pad { int dims; pad_mode mode; } edge_pad;

// Where position i of a padded dim comes from: before elements in front of `size`.
static int64_t source_of(pad_mode mode, int64_t i, int64_t before, int64_t size) {
    int64_t at = i - before;
    if (mode == PAD_REPLICATE) return at < 0 ? 0 : at >= size ? size - 1 : at;
    if (at < 0) at = -at;
    return at >= size ? 2 * (size - 1) - at : at;
}

static nbx_status edge_infer(nbx_op_call *c) {
    const edge_pad *e = c->op->data;
    const nbx_tensor *self = arg_tensor(c, 0);
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    int64_t shape[NBX_MAX_RANK], positions = 0;
    if (count != 2 * e->dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes %d paddings, not %d", 2 * e->dims, count);
    if (self->rank != e->dims + 1 && self->rank != e->dims + 2)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of %d or %d dims, not %d", e->dims + 1, e->dims + 2, self->rank);
    for (int d = self->rank == e->dims + 2; d < self->rank; d++)
        if (self->shape[d] == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d has size 0", d);
    if (padded_shape(c, self, count, pad, shape) != NBX_OK) return c->ctx->status;
    for (int i = 0; i < e->dims; i++) {
        const int d = self->rank - 1 - i;
        if (e->mode == PAD_REFLECT && (pad[2 * i] >= self->shape[d] || pad[2 * i + 1] >= self->shape[d]))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "padding %lld and %lld must be less than the size %lld of dim %d", (long long)pad[2 * i],
                                 (long long)pad[2 * i + 1], (long long)self->shape[d], d);
        if (__builtin_add_overflow(positions, shape[d], &positions) || positions > INT64_MAX / (int64_t)sizeof(int64_t))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes overflow");
    }
    if (positions == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "all padded dims of the result are empty");
    c->scratch_bytes = sizeof(int64_t) * (size_t)positions;
    c->restride_out = e->mode == PAD_REFLECT && e->dims == 2 && self->rank == 4;
    if (e->dims == 1) return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, shape, NULL) ? NBX_OK : c->ctx->status;
    return like_format(c, self, shape);
}

typedef struct edge_job {
    const nbx_tensor *self, *out;
    const int64_t *maps[3];  // of each padded dim, the last one first: byte offsets into self
    int dims;
    int64_t width, flat_begin, flat_end;  // along the last dim: where self runs unchanged
} edge_job;

// Lines of the result along its last dim.
static void edge_lines(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const edge_job *j = arg;
    const nbx_tensor *self = j->self, *out = j->out;
    const int last = out->rank - 1;
    const int64_t to_step = out->stride[last] * j->width, from_step = self->stride[last] * j->width;
    for (int64_t line = begin; line < end; line++) {
        const char *from = nbx_data(self);
        char *to = nbx_data(out);
        int64_t rest = line;
        for (int d = last - 1; d >= 0; d--) {
            const int64_t at = rest % out->shape[d];
            rest /= out->shape[d];
            to += at * out->stride[d] * j->width;
            from += last - d < j->dims ? j->maps[last - d][at] : at * self->stride[d] * j->width;
        }
        for (int64_t i = 0; i < j->flat_begin; i++) memcpy(to + i * to_step, from + j->maps[0][i], (size_t)j->width);
        if (j->flat_end > j->flat_begin)
            nbx_move_run_1d((int)j->width, j->flat_end - j->flat_begin, to + j->flat_begin * to_step, to_step, from + j->maps[0][j->flat_begin], from_step);
        for (int64_t i = j->flat_end; i < out->shape[last]; i++) memcpy(to + i * to_step, from + j->maps[0][i], (size_t)j->width);
    }
}

static nbx_status edge(nbx_op_call *c) {
    const edge_pad *e = c->op->data;
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    if (out->numel == 0) return NBX_OK;
    edge_job j = {.self = self, .out = out, .dims = e->dims, .width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype)};
    int64_t *map = c->scratch;
    for (int i = 0; i < e->dims; i++) {
        const int d = self->rank - 1 - i;
        for (int64_t k = 0; k < out->shape[d]; k++) map[k] = source_of(e->mode, k, pad[2 * i], self->shape[d]) * self->stride[d] * j.width;
        j.maps[i] = map;
        map += out->shape[d];
    }
    const int64_t columns = out->shape[out->rank - 1], before = positive(pad[0]);
    j.flat_begin = before < columns ? before : columns;
    j.flat_end = columns - positive(pad[1]) > j.flat_begin ? columns - positive(pad[1]) : j.flat_begin;
    nbx_parallel_for(c->pool, out->numel / columns, 32768 / (columns * j.width) + 1, edge_lines, &j);
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------------ pad
// _pad_circular(self [n, c, ...], pad): copies of the far side.
static nbx_status circular(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int count;
    const int64_t *pad = arg_ints(c, 1, &count);
    const int dims = self->rank - 2;
    int64_t shape[NBX_MAX_RANK];
    if (dims < 0 || count % 2 != 0 || count / 2 != dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d paddings for a tensor of %d dims", count, self->rank);
    for (int i = 0; i < dims; i++) {
        const int64_t size = self->shape[self->rank - 1 - i];
        if (pad[2 * i] > size || pad[2 * i + 1] > size)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "padding goes round more than once");
        if (size + pad[2 * i] + pad[2 * i + 1] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "negative padding leaves less than nothing");
    }
    if (padded_shape(c, self, count, pad, shape) != NBX_OK) return c->ctx->status;
    const nbx_tensor *out = self;
    for (int i = 0; i < dims && out != NULL; i++) {  // dim by dim: [end | kept | start], where negative padding keeps less
        const int d = self->rank - 1 - i;
        const int64_t before = pad[2 * i], after = pad[2 * i + 1], size = self->shape[d] - positive(-before) - positive(-after);
        const nbx_tensor *kept = nbx_narrowed(c->ctx, out, d, positive(-before), size), *parts[3];
        int n = 0;
        if (before > size || after > size) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "padding goes round more than once");
        if (before > 0) parts[n++] = nbx_narrowed(c->ctx, kept, d, size - before, before);
        parts[n++] = kept;
        if (after > 0) parts[n++] = nbx_narrowed(c->ctx, kept, d, 0, after);
        for (int k = 0; k < n; k++)
            if (parts[k] == NULL) return c->ctx->status;
        out = NBX_DO(c->ctx, "aten::cat", nbx_of_tensors(parts, n), I(d));
    }
    if (out == self) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(self), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT)));
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::contiguous", T(out)));
}

static nbx_status pad_as(nbx_op_call *c, pad_mode mode, const nbx_value *value) {
    static const char *const names[2][3] = {{"aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d"},
                                            {"aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d"}};
    const nbx_tensor *self = arg_tensor(c, 0);
    int count;
    arg_ints(c, 1, &count);
    if (count % 2 != 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "an odd number (%d) of paddings", count);
    if (count > 2 * self->rank) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d paddings for a tensor of %d dims", count, self->rank);
    if (mode == PAD_CONSTANT) return NBX_FORWARD(c, "aten::constant_pad_nd", c->args[0], c->args[1], value->kind == NBX_KIND_NONE ? F(0) : *value);
    if (value->kind != NBX_KIND_NONE && nbx_scalar_to_double(value) != 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "only the constant mode takes a value");
    const int dims = count / 2;
    const bool fits = (dims == 1 || dims == 2 || dims == 3) && (self->rank == dims + 1 || self->rank == dims + 2);
    if (!fits) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "%d paddings for a tensor of %d dims in this mode", count, self->rank);
    if (mode != PAD_CIRCULAR) return NBX_FORWARD(c, names[mode - PAD_REFLECT][dims - 1], c->args[0], c->args[1]);
    if (self->rank == dims + 2) return NBX_FORWARD(c, "aten::_pad_circular", c->args[0], c->args[1]);
    const nbx_tensor *batch = NBX_DO(c->ctx, "aten::_pad_circular", T(nbx_unsqueezed(c->ctx, self, 0)), c->args[1]);
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::squeeze.dim", T(batch), I(0)));
}

static nbx_status pad(nbx_op_call *c) {
    static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
    for (int i = 0; i < 4; i++)
        if (strcmp(arg_string(c, 2), names[i]) == 0) return pad_as(c, (pad_mode)i, &c->args[3]);
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode '%s' is not constant, reflect, replicate or circular", arg_string(c, 2));
}

static nbx_status pad_enum(nbx_op_call *c) {
    const int64_t mode = arg_int(c, 2);
    if (mode < 0 || mode > 3) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "mode %lld is none of 0 to 3", (long long)mode);
    static const pad_mode numbered[] = {PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR, PAD_CONSTANT};
    return pad_as(c, numbered[mode], &c->args[3]);
}

static const edge_pad reflect1 = {1, PAD_REFLECT}, reflect2 = {2, PAD_REFLECT}, reflect3 = {3, PAD_REFLECT}, replicate1 = {1, PAD_REPLICATE},
                      replicate2 = {2, PAD_REPLICATE}, replicate3 = {3, PAD_REPLICATE};

#define EDGE(overload, kind, restride)                                                                                 \
    {.name = "aten::" overload, .infer = edge_infer, .cpu = NBX_CPU_KERNEL_ONE(edge), .flags = NBX_OP_STRIDED_SAME | (restride), .data = &(kind)}
const nbx_op nbx_ops_pad[] = {
    {.name = "aten::constant_pad_nd", .infer = constant_infer, .cpu = NBX_CPU_KERNEL_ONE(constant), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::pad", .composite = pad},
    {.name = "aten::_pad_enum", .composite = pad_enum},
    {.name = "aten::_pad_circular", .composite = circular},
    EDGE("reflection_pad1d", reflect1, 0),
    EDGE("reflection_pad2d", reflect2, 0),
    EDGE("reflection_pad3d", reflect3, NBX_OP_RESTRIDE_OUT),
    EDGE("replication_pad1d", replicate1, 0),
    EDGE("replication_pad2d", replicate2, NBX_OP_RESTRIDE_OUT),
    EDGE("replication_pad3d", replicate3, NBX_OP_RESTRIDE_OUT),
    NBX_OPS_END,
};
