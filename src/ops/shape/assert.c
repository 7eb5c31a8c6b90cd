// Assertions that exported programs carry. A failing one is an error with the program's own message.
#include "ops/shape/geometry.h"

static bool truth(const nbx_value *v) {
    return v->kind == NBX_KIND_COMPLEX ? v->as.complex[0] != 0 || v->as.complex[1] != 0 : nbx_scalar_to_double(v) != 0;
}

static nbx_status broken(nbx_op_call *c, const char *message) {
    return nbx_call_fail(c, NBX_ERROR_ASSERT, "%s", message && message[0] ? message : "assertion failed");
}

// _assert_async(x), _assert_async.msg(x, message): x has one element, which is not zero.
static nbx_status assert_async_infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->numel == 1) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes a tensor of one element, not of %lld", (long long)x->numel);
}

// Zero is all bits zero but for the sign of floats, whose part is then alone set.
static nbx_status assert_async(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const uint8_t *bytes = nbx_data(x);
    const size_t size = nbx_dtype_size((nbx_dtype)x->dtype);
    const bool complex = nbx_dtype_is_complex((nbx_dtype)x->dtype), real = complex || nbx_dtype_is_float((nbx_dtype)x->dtype);
    bool zero = true;
    for (size_t i = 0; i < size; i++) {
        const bool sign = real && (i + 1 == size || (complex && i + 1 == size / 2));
        if (bytes[i] != 0 && !(sign && bytes[i] == 0x80)) zero = false;
    }
    return zero ? broken(c, c->arg_count > 1 ? arg_string(c, 1) : NULL) : NBX_OK;
}

static nbx_status assert_scalar(nbx_op_call *c) { return truth(&c->args[0]) ? NBX_OK : broken(c, arg_string(c, 1)); }

// The functional forms return dep_token, which orders them.
static nbx_status functional_assert_async(nbx_op_call *c) {
    if (nbx_do_many(c->ctx, "aten::_assert_async.msg", 2, c->args, NULL, 0) != NBX_OK) return c->ctx->status;
    return out_tensor(c, 0, arg_tensor(c, 2));
}

static nbx_status functional_assert_scalar(nbx_op_call *c) {
    return truth(&c->args[0]) ? out_tensor(c, 0, arg_tensor(c, 2)) : broken(c, arg_string(c, 1));
}

static nbx_status make_dep_token(nbx_op_call *c) {
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::empty.memory_format", nbx_of_ints(NULL, 0)));
}

static nbx_status in_range(nbx_op_call *c) {
    const int64_t size = nbx_scalar_to_int(&c->args[0]), low = arg_int_or(c, 1, INT64_MIN), high = arg_int_or(c, 2, INT64_MAX);
    if (low > high) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "max %lld is less than min %lld", (long long)high, (long long)low);
    if (size >= low && size <= high) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ASSERT, "value %lld is outside [%lld, %lld]", (long long)size, (long long)low, (long long)high);
}

static nbx_status functional_in_range(nbx_op_call *c) { return in_range(c) != NBX_OK ? c->ctx->status : out_tensor(c, 0, arg_tensor(c, 3)); }

static nbx_status check_list(nbx_op_call *c, int arg, int rank, const int64_t *found, const char *what) {
    int count;
    const int64_t *want = arg_ints(c, arg, &count);
    if (arg_is_none(c, arg) || nbx_shape_equal(count, want, rank, found)) return NBX_OK;
    char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_ASSERT, "tensor has %s %s, not %s", what, nbx_shape_text(rank, found, a, sizeof a),
                         nbx_shape_text(count, want, b, sizeof b));
}

static nbx_status assert_metadata(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype want = arg_dtype(c, 3);
    if (check_list(c, 1, x->rank, x->shape, "shape") != NBX_OK || check_list(c, 2, x->rank, x->stride, "strides") != NBX_OK)
        return c->ctx->status;
    if (want != NBX_DTYPE_NONE && want != (nbx_dtype)x->dtype)
        return nbx_call_fail(c, NBX_ERROR_ASSERT, "tensor is %s, not %s", nbx_dtype_name((nbx_dtype)x->dtype), nbx_dtype_name(want));
    return NBX_OK;  // a program may run on another device than it was traced on
}

static nbx_status nothing(nbx_op_call *c) {
    (void)c;
    return NBX_OK;
}

const nbx_op nbx_ops_assert[] = {
    {.name = "aten::_assert_async", .infer = assert_async_infer, .cpu = NBX_CPU_KERNEL_ONE(assert_async), .flags = NBX_OP_EFFECT},
    {.name = "aten::_assert_async.msg", .infer = assert_async_infer, .cpu = NBX_CPU_KERNEL_ONE(assert_async), .flags = NBX_OP_EFFECT},
    {.name = "aten::_assert_scalar", .composite = assert_scalar, .flags = NBX_OP_EFFECT},
    {.name = "aten::_assert_tensor_metadata", .composite = assert_metadata, .flags = NBX_OP_EFFECT},
    {.name = "aten::_functional_assert_async.msg", .composite = functional_assert_async, .flags = NBX_OP_EFFECT},
    {.name = "aten::_functional_assert_scalar", .composite = functional_assert_scalar, .flags = NBX_OP_EFFECT},
    {.name = "aten::_make_dep_token", .composite = make_dep_token},
    {.name = "aten::sym_constrain_range", .composite = in_range, .flags = NBX_OP_EFFECT},
    {.name = "aten::sym_constrain_range_for_size", .composite = in_range, .flags = NBX_OP_EFFECT},
    {.name = "aten::_functional_sym_constrain_range", .composite = functional_in_range, .flags = NBX_OP_EFFECT},
    {.name = "aten::_functional_sym_constrain_range_for_size", .composite = functional_in_range, .flags = NBX_OP_EFFECT},
    {.name = "aten::_print", .composite = nothing, .flags = NBX_OP_EFFECT},
    NBX_OPS_END,
};
