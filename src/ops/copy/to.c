// The operators that copy only when something changes: to in all its forms, type_as, contiguous, float, half, ...
#include "ops/op.h"

static bool same_device(nbx_device a, nbx_device b) { return a.type == b.type && a.index == b.index; }

static nbx_memory_format format_of(const nbx_op_call *c, int arg) {
    return arg >= 0 && c->args[arg].kind == NBX_KIND_MEMORY_FORMAT ? c->args[arg].as.memory_format : NBX_PRESERVE_FORMAT;
}

// self when it is that already (and no copy is asked for), else _to_copy. dtype NONE, device NULL: as self.
static nbx_status to(nbx_op_call *c, nbx_dtype dtype, const nbx_device *device, bool copy, nbx_memory_format format) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const bool dtype_stays = dtype == NBX_DTYPE_NONE || dtype == (nbx_dtype)self->dtype;
    const bool device_stays = !device || !self->storage || same_device(*device, self->storage->device);
    const bool format_stays = format == NBX_PRESERVE_FORMAT || nbx_suggest_memory_format(self) == format;
    if (dtype_stays && device_stays && format_stays && !copy) return out_tensor(c, 0, self);
    return NBX_FORWARD(c, "aten::_to_copy", T(self), nbx_of_dtype(dtype), NIL, device ? nbx_of_device(*device) : NIL, NIL, B(false),
                       nbx_of_memory_format(format));
}

static const nbx_device *device_of(const nbx_op_call *c, int arg) {
    return c->args[arg].kind == NBX_KIND_DEVICE ? &c->args[arg].as.device : NULL;
}

static nbx_status to_dtype(nbx_op_call *c) { return to(c, arg_dtype(c, 1), NULL, arg_bool(c, 3), format_of(c, 4)); }

static nbx_status to_device(nbx_op_call *c) { return to(c, arg_dtype(c, 2), device_of(c, 1), arg_bool(c, 4), format_of(c, 5)); }

static nbx_status to_dtype_layout(nbx_op_call *c) {
    return to(c, arg_dtype(c, 1), device_of(c, 3), arg_bool(c, 6), format_of(c, 7));
}

static nbx_status convert_element_type(nbx_op_call *c) { return to(c, arg_dtype(c, 1), NULL, false, NBX_PRESERVE_FORMAT); }

static nbx_status device_put(nbx_op_call *c) { return to(c, NBX_DTYPE_NONE, device_of(c, 1), false, NBX_PRESERVE_FORMAT); }

// Host memory is as good as pinned: a copy, as ATen makes one of memory that is not.
static nbx_status pin_memory(nbx_op_call *c) { return NBX_FORWARD(c, "aten::clone", c->args[0]); }

static nbx_status to_other(nbx_op_call *c) {
    const nbx_tensor *other = arg_tensor(c, 1);
    return to(c, (nbx_dtype)other->dtype, &other->storage->device, arg_bool(c, 3), format_of(c, 4));
}

static nbx_status type_as(nbx_op_call *c) {
    const nbx_tensor *other = arg_tensor(c, 1);
    return to(c, (nbx_dtype)other->dtype, &other->storage->device, false, NBX_PRESERVE_FORMAT);
}

static nbx_status contiguous(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const nbx_memory_format format = c->args[1].kind == NBX_KIND_MEMORY_FORMAT ? c->args[1].as.memory_format
                                     : c->args[1].kind == NBX_KIND_INT         ? (nbx_memory_format)c->args[1].as.integer
                                                                               : NBX_CONTIGUOUS_FORMAT;
    if (format == NBX_PRESERVE_FORMAT) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "preserve is no memory format to be contiguous in");
    if (nbx_is_contiguous_format(self, format)) return out_tensor(c, 0, self);
    return NBX_FORWARD(c, "aten::clone", T(self), nbx_of_memory_format(format));
}

static nbx_status to_float(nbx_op_call *c) { return to(c, NBX_FLOAT32, NULL, false, format_of(c, 1)); }
static nbx_status to_half(nbx_op_call *c) { return to(c, NBX_FLOAT16, NULL, false, format_of(c, 1)); }
static nbx_status to_bfloat16(nbx_op_call *c) { return to(c, NBX_BFLOAT16, NULL, false, format_of(c, 1)); }
static nbx_status to_int(nbx_op_call *c) { return to(c, NBX_INT32, NULL, false, format_of(c, 1)); }
static nbx_status to_long(nbx_op_call *c) { return to(c, NBX_INT64, NULL, false, format_of(c, 1)); }

// _cast_X(self, non_blocking), to_dense(self, dtype) of what is dense: self, or its cast.
static nbx_status cast(nbx_op_call *c) { return to(c, *(const uint8_t *)c->op->data, NULL, false, NBX_PRESERVE_FORMAT); }
static nbx_status to_dense(nbx_op_call *c) {
    const nbx_dtype dtype = arg_dtype(c, 1);
    return to(c, dtype == NBX_DTYPE_NONE ? (nbx_dtype)arg_tensor(c, 0)->dtype : dtype, NULL, false, NBX_PRESERVE_FORMAT);
}
#define CAST(NAME, DTYPE) {.name = "aten::_cast_" NAME, .composite = cast, .data = &(const uint8_t){DTYPE}}

const nbx_op nbx_ops_to[] = {
    {.name = "aten::to.dtype", .composite = to_dtype, .flags = NBX_OP_ANY_DEVICE},
    {.name = "aten::to.device", .composite = to_device, .flags = NBX_OP_ANY_DEVICE},
    {.name = "aten::to.dtype_layout", .composite = to_dtype_layout, .flags = NBX_OP_ANY_DEVICE},
    {.name = "aten::to.other", .composite = to_other, .flags = NBX_OP_ANY_DEVICE},
    {.name = "aten::type_as", .composite = type_as, .flags = NBX_OP_ANY_DEVICE},
    {.name = "aten::contiguous", .composite = contiguous},
    {.name = "aten::pin_memory", .composite = pin_memory},
    {.name = "aten::_pin_memory", .composite = pin_memory, .flags = NBX_OP_EXACT_OUT},
    {.name = "prims::convert_element_type", .composite = convert_element_type},
    {.name = "prims::device_put", .composite = device_put, .flags = NBX_OP_ANY_DEVICE},
    CAST("Byte", NBX_UINT8),
    CAST("Char", NBX_INT8),
    CAST("Short", NBX_INT16),
    CAST("Int", NBX_INT32),
    CAST("Long", NBX_INT64),
    CAST("Half", NBX_FLOAT16),
    CAST("Float", NBX_FLOAT32),
    CAST("Double", NBX_FLOAT64),
    {.name = "aten::to_dense", .composite = to_dense},
    {.name = "nbx::float", .composite = to_float},
    {.name = "nbx::half", .composite = to_half},
    {.name = "nbx::bfloat16", .composite = to_bfloat16},
    {.name = "nbx::int", .composite = to_int},
    {.name = "nbx::long", .composite = to_long},
    NBX_OPS_END,
};
