// Rows that choose or limit: where, masked_fill, clamp and its relatives; and the ternary ones addcmul, addcdiv, lerp.
#include "ops/elementwise/elementwise.h"

#include <math.h>

NBX_CPU_DECLARE(ew_where);
NBX_CPU_DECLARE(ew_masked_fill);
NBX_CPU_DECLARE(ew_clamp);
NBX_CPU_DECLARE(ew_clamp_tensor);
NBX_CPU_DECLARE(ew_addcmul);
NBX_CPU_DECLARE(ew_addcdiv);
NBX_CPU_DECLARE(ew_lerp);

// ------------------------------------------------------------------------------------------------------- where, masked_fill
static nbx_status bool_condition(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    (void)p;
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    if (dtype == NBX_BOOL || dtype == NBX_UINT8) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "the condition must be bool, not %s", nbx_dtype_name(dtype));
}

static nbx_status mask_and_value(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    const nbx_dtype mask = (nbx_dtype)arg_tensor(c, 1)->dtype;
    const nbx_tensor *value = arg_tensor(c, 2);
    if (mask != NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask must be bool, not %s", nbx_dtype_name(mask));
    if (!value) return ew_check_number(c, types->compute, &c->args[2]);
    if (value->rank != 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the value must be a 0-dim tensor, not one of %d dims", value->rank);
    if (nbx_dtype_is_complex((nbx_dtype)value->dtype) && !nbx_dtype_is_complex(types->compute))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a complex value does not fit %s", nbx_dtype_name(types->compute));
    return NBX_OK;
}

// ---------------------------------------------------------------------------------------------------------------- clamp
static nbx_status take_bound(nbx_op_call *c, const nbx_value *v, nbx_dtype compute, double *real, int64_t *integer) {
    if (v->kind == NBX_KIND_NONE) return NBX_OK;
    if (v->kind == NBX_KIND_COMPLEX) return nbx_call_fail(c, NBX_ERROR_DTYPE, "bounds must be real");
    const nbx_status status = ew_check_number(c, compute, v);
    if (nbx_dtype_is_integral(compute, true)) {
        union { int64_t wide; double room[2]; } number = {0};
        ew_store_number(compute, &number, v);
        const int64_t shift = 64 - 8 * (int64_t)nbx_dtype_size(compute);
        *integer = nbx_dtype_is_signed(compute) ? (int64_t)((uint64_t)number.wide << shift) >> shift : number.wide;
    }
    *real = nbx_scalar_to_double(v);
    return status;
}

// Bounds, which take part in the promotion, in params f[0], f[1] and i[0], i[1].
static nbx_status take_bounds(nbx_op_call *c, const nbx_value *low, const nbx_value *high, ew_types *types, ew_params *p) {
    nbx_promotion promotion;
    nbx_promotion_start(&promotion);
    nbx_promotion_tensor(&promotion, arg_tensor(c, 0));
    nbx_promotion_scalar(&promotion, low);
    nbx_promotion_scalar(&promotion, high);
    types->compute = types->out[0] = nbx_promotion_result(&promotion);
    p->f[0] = -(double)INFINITY;
    p->f[1] = (double)INFINITY;
    p->i[0] = INT64_MIN;
    p->i[1] = INT64_MAX;
    const nbx_status status = take_bound(c, low, types->compute, &p->f[0], &p->i[0]);
    return status == NBX_OK ? take_bound(c, high, types->compute, &p->f[1], &p->i[1]) : status;
}

static const nbx_value absent = {.kind = NBX_KIND_NONE};

static nbx_status clamp_bounds(nbx_op_call *c, ew_types *types, ew_params *p) {
    if (arg_is_none(c, 1) && arg_is_none(c, 2)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "at least one of min and max must be given");
    const nbx_status status = take_bounds(c, &c->args[1], &c->args[2], types, p);
    if (arg_is_none(c, 1) && isnan(p->f[1])) p->f[1] = (double)INFINITY;  // NaN limits nothing where it stands alone
    if (arg_is_none(c, 2) && isnan(p->f[0])) p->f[0] = -(double)INFINITY;
    return status;
}
static nbx_status clamp_min_bound(nbx_op_call *c, ew_types *types, ew_params *p) { return take_bounds(c, &c->args[1], &absent, types, p); }
static nbx_status clamp_max_bound(nbx_op_call *c, ew_types *types, ew_params *p) { return take_bounds(c, &absent, &c->args[1], types, p); }

// A bound that limits nothing stands for an absent one.
static nbx_value no_bound(nbx_dtype dtype, bool low) {
    if (!nbx_dtype_is_integral(dtype, true)) return nbx_of_float(low ? -(double)INFINITY : (double)INFINITY);
    const int bits = 8 * (int)nbx_dtype_size(dtype);
    if (!nbx_dtype_is_signed(dtype)) return nbx_of_int(low ? 0 : (int64_t)(UINT64_MAX >> (64 - bits)));
    return nbx_of_int(low ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
}

static nbx_status tensor_bounds(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    if (arg_is_none(c, 1) && arg_is_none(c, 2)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "at least one of min and max must be given");
    if (arg_is_none(c, 1)) c->args[1] = no_bound(types->compute, true);
    if (arg_is_none(c, 2)) c->args[2] = no_bound(types->compute, false);
    return NBX_OK;
}

// ----------------------------------------------------------------------------------------------------- addcmul, addcdiv
static nbx_status take_value(nbx_op_call *c, ew_types *types, ew_params *p) {
    const nbx_value *value = &c->args[3];
    if (value->kind == NBX_KIND_COMPLEX && !nbx_dtype_is_complex(types->compute))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "value must be real for real results");
    p->f[0] = nbx_scalar_to_double(value);
    p->f[1] = value->kind == NBX_KIND_COMPLEX ? value->as.complex[1] : 0;
    p->i[0] = nbx_scalar_to_int(value);
    return nbx_dtype_is_integral(types->compute, false) ? ew_check_number(c, types->compute, value) : NBX_OK;
}

static nbx_status divided_value(nbx_op_call *c, ew_types *types, ew_params *p) {
    if (nbx_dtype_is_integral((nbx_dtype)arg_tensor(c, 1)->dtype, true) && nbx_dtype_is_integral((nbx_dtype)arg_tensor(c, 2)->dtype, true))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "does not divide integers");
    return take_value(c, types, p);
}

static nbx_status lerp_dtypes(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)p;
    const nbx_tensor *end = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    if (end->dtype != types->compute)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "end must be %s as self is, not %s", nbx_dtype_name(types->compute),
                             nbx_dtype_name((nbx_dtype)end->dtype));
    if (weight && weight->rank > 0 && weight->dtype != types->compute)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "weight must be %s as self is, not %s", nbx_dtype_name(types->compute),
                             nbx_dtype_name((nbx_dtype)weight->dtype));
    return NBX_OK;
}

#define WHERE EW_TERNARY, .in = {EW_BOOL}, .accepts = ~EW_UINTS, .setup = bool_condition
#define MASKED EW_TERNARY, .rule = EW_FIRST, .in = {EW_SAME, EW_BOOL}, .accepts = EW_NUMBERS | EW_BOOLS | EW_COMPLEXES, \
               .setup = mask_and_value, .flags = EW_PLAIN_OUT
#define CLAMP EW_UNARY, .accepts = EW_NUMBERS
#define LERP EW_TERNARY, .rule = EW_FIRST, .accepts = EW_FLOATS | EW_COMPLEXES, .setup = lerp_dtypes

const nbx_op nbx_ops_choose[] = {
    EW_OP_EXACT("where.self", ew_where, WHERE),
    EW_OP("where.ScalarSelf", ew_where, WHERE),
    EW_OP("where.ScalarOther", ew_where, WHERE),
    EW_OP("where.Scalar", ew_where, WHERE),
    EW_OP_SHARED("masked_fill.Scalar", ew_masked_fill, MASKED),
    EW_OP_SHARED("masked_fill.Tensor", ew_masked_fill, MASKED),
    EW_OP_EXACT("clamp", ew_clamp, CLAMP, .setup = clamp_bounds),
    EW_OP_EXACT("clip", ew_clamp, CLAMP, .setup = clamp_bounds),
    EW_OP_EXACT("clamp_min", ew_clamp, CLAMP, .setup = clamp_min_bound),
    EW_OP_EXACT("clamp_max", ew_clamp, CLAMP, .setup = clamp_max_bound),
    EW_OP("clamp.Tensor", ew_clamp_tensor, EW_TERNARY, .accepts = EW_NUMBERS, .setup = tensor_bounds),
    EW_OP("clip.Tensor", ew_clamp_tensor, EW_TERNARY, .accepts = EW_NUMBERS, .setup = tensor_bounds),
    EW_OP("addcmul", ew_addcmul, EW_TERNARY, .accepts = EW_NUMBERS | EW_COMPLEXES, .setup = take_value),
    EW_OP("addcdiv", ew_addcdiv, EW_TERNARY, .accepts = EW_FLOATS | EW_COMPLEXES, .setup = divided_value),
    EW_OP_EXACT("lerp.Tensor", ew_lerp, LERP),
    EW_OP("lerp.Scalar", ew_lerp, LERP, .flags = EW_EXACT_NUMBERS),
    NBX_OPS_END,
};
