// Dtypes, shapes and plans of elementwise calls: all that does not depend on the instruction set.
#include "ops/elementwise/elementwise.h"
#include "cpu/cache.h"
#include "ops/copy/convert.h"

#include <math.h>
#include <string.h>

// ------------------------------------------------------------------------------------------------------------ numbers
static const nbx_dtype number_dtype[] = {[NBX_KIND_INT] = NBX_INT64, [NBX_KIND_FLOAT] = NBX_FLOAT64, [NBX_KIND_BOOL] = NBX_BOOL,
                                         [NBX_KIND_COMPLEX] = NBX_COMPLEX128};

static void convert_one(nbx_dtype to_dtype, void *to, nbx_dtype from_dtype, const void *from) {
#if defined(NBX_HAVE_ISA_BASELINE)
    nbx_convert_baseline(to_dtype, to, from_dtype, from, 1);
#elif defined(NBX_HAVE_ISA_AVX2)
    nbx_convert_avx2(to_dtype, to, from_dtype, from, 1);
#else
    nbx_convert_avx512(to_dtype, to, from_dtype, from, 1);
#endif
}

void ew_store_number(nbx_dtype dtype, void *to, const nbx_value *number) {
    if (number->kind == NBX_KIND_FLOAT && dtype == NBX_FLOAT32) {
        const float x = (float)number->as.real;
        memcpy(to, &x, sizeof x);
    } else {
        convert_one(dtype, to, number_dtype[number->kind], &number->as);
    }
}

// c10's overflows(): finite numbers past the largest of a float dtype; numbers an integer dtype cannot hold (but negative
// integers wrap into unsigned dtypes). Fractions between its numbers are cut off.
static bool overflows(nbx_dtype dtype, const nbx_value *v) {
    if (v->kind == NBX_KIND_BOOL || dtype == NBX_BOOL) return false;
    const double re = nbx_scalar_to_double(v), im = v->kind == NBX_KIND_COMPLEX ? v->as.complex[1] : 0;
    if (im != 0 && !nbx_dtype_is_complex(dtype)) return true;
    if (!nbx_dtype_is_integral(dtype, true)) {
        const double largest = dtype == NBX_FLOAT16                            ? 65504.0
                               : dtype == NBX_BFLOAT16                         ? 3.3895313892515355e38
                               : dtype == NBX_FLOAT8_E4M3FN                    ? 448.0
                               : dtype == NBX_FLOAT8_E5M2                      ? 57344.0
                               : nbx_dtype_size(nbx_dtype_to_real(dtype)) == 4 ? 3.4028234663852886e38
                                                                               : (double)INFINITY;
        return (isfinite(re) && fabs(re) > largest) || (isfinite(im) && fabs(im) > largest);
    }
    const int bits = (int)nbx_dtype_size(dtype) * 8;
    if (v->kind == NBX_KIND_INT) {
        const int64_t x = v->as.integer;
        if (nbx_dtype_is_signed(dtype)) return bits < 64 && (x < -((int64_t)1 << (bits - 1)) || x >= (int64_t)1 << (bits - 1));
        if (bits == 64) return false;
        return x < 0 ? x < -(((int64_t)1 << bits) - 1) : x >= (int64_t)1 << bits;
    }
    const double top = ldexp(1.0, nbx_dtype_is_signed(dtype) ? bits - 1 : bits);
    return isnan(re) || re > (bits < 64 ? top - 1 : top) || re < (nbx_dtype_is_signed(dtype) ? -top : 0);
}

nbx_status ew_check_number(nbx_op_call *c, nbx_dtype dtype, const nbx_value *number) {
    if (!overflows(dtype, number)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%g cannot be converted to %s without overflow", nbx_scalar_to_double(number),
                         nbx_dtype_name(dtype));
}

// ------------------------------------------------------------------------------------------------------------- dtypes
static nbx_status promote(nbx_op_call *c, const ew_row *row, nbx_dtype *compute) {
    nbx_promotion p;
    nbx_promotion_start(&p);
    for (int k = 0; k < row->inputs; k++) {
        if (row->in[k] == EW_BOOL) continue;
        const nbx_value *v = &c->args[row->arg[k]];
        const bool is_tensor = v->kind == NBX_KIND_TENSOR;
        if ((row->flags & EW_NO_BOOL_INPUT) && (is_tensor ? v->as.tensor->dtype == NBX_BOOL : v->kind == NBX_KIND_BOOL))
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes no bool operands; use bitwise or logical operators");
        if (is_tensor) nbx_promotion_tensor(&p, v->as.tensor);
        else nbx_promotion_scalar(&p, v);
        if (row->rule == EW_FIRST) break;
    }
    *compute = nbx_promotion_result(&p);
    if (*compute == NBX_DTYPE_NONE) return nbx_call_fail(c, NBX_ERROR_DTYPE, "its operands have dtypes with no common one");
    return NBX_OK;
}

nbx_status ew_resolve(nbx_op_call *c, const ew_row *row, ew_types *types, ew_params *params) {
    const nbx_tensor *first = arg_tensor(c, row->arg[0]);
    nbx_status status = NBX_OK;
    if (row->inputs == 1 && first && !first->wrapped) types->compute = (nbx_dtype)first->dtype;
    else status = promote(c, row, &types->compute);
    if (status != NBX_OK) return status;
    if (row->rule == EW_FLOAT && nbx_dtype_is_integral(types->compute, true)) types->compute = NBX_FLOAT32;
    types->out[0] = ew_dtype_of(row->out[0], types->compute);
    if (row->outputs > 1) types->out[1] = ew_dtype_of(row->out[1], types->compute);
    if (row->setup) status = row->setup(c, types, params);
    if (status != NBX_OK) return status;
    if (row->accepts && !(row->accepts >> types->compute & 1))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(types->compute));
    return NBX_OK;
}

// -------------------------------------------------------------------------------------------------------------- shapes
static size_t plan_bytes(int rank) { return offsetof(ew_plan, iter) + nbx_iter_bytes(rank); }

nbx_status ew_infer(nbx_op_call *c) {
    const ew_row *row = c->op->data;
    ew_types types;
    ew_params params;
    nbx_status status = ew_resolve(c, row, &types, &params);
    if (status != NBX_OK) return status;

    const nbx_tensor *tensors[EW_INPUTS];
    int count = 0, rank = 0;
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    for (int k = 0; k < row->inputs; k++) {
        const nbx_tensor *t = arg_tensor(c, row->arg[k]);
        if (!t) continue;
        if (count == 0) {
            rank = t->rank;
            memcpy(shape, t->shape, sizeof *shape * (size_t)rank);
        } else if (t->rank && !nbx_shape_equal(t->rank, t->shape, rank, shape)) {
            status = nbx_broadcast(c, &rank, shape, t->rank, t->shape);
            if (status != NBX_OK) return status;
        }
        tensors[count++] = t;
    }
    const bool plain = (row->flags & EW_PLAIN_OUT) || ((row->flags & EW_PLAIN_COMPLEX) && nbx_dtype_is_complex(types.compute));
    const bool strided = !plain && nbx_iter_out_strides(rank, shape, count, tensors, stride);
    const int outputs = row->outputs ? row->outputs : 1;
    for (int k = 0; k < outputs; k++)
        if (!out_new(c, k, types.out[k], rank, shape, strided ? stride : NULL)) return c->ctx->status;
    if ((row->flags & EW_TABLED) && (types.compute == NBX_FLOAT16 || types.compute == NBX_BFLOAT16) && c->device.type == NBX_CPU &&
        count == 1 && tensors[0]->numel >= EW_TABLED_LEAST)
        c->scratch_bytes = EW_TABLE_ELEMENTS * sizeof(uint16_t);
    if (c->ctx->recorder && !nbx_call_state(c, plan_bytes(rank))) return c->ctx->status;
    return NBX_OK;
}

// --------------------------------------------------------------------------------------------------------------- plans
// The loop for a dtype of computing, and the dtype of its tiles.
static ew_loop choose_loop(const ew_loops *l, nbx_dtype compute, nbx_dtype *tile) {
    switch (nbx_dtype_category(compute)) {
    case NBX_CATEGORY_COMPLEX:
        *tile = compute == NBX_COMPLEX64 && l->c64 ? NBX_COMPLEX64 : NBX_COMPLEX128;
        return *tile == NBX_COMPLEX64 ? l->c64 : l->c128;
    case NBX_CATEGORY_FLOAT:
        *tile = compute != NBX_FLOAT64 && l->f32 ? NBX_FLOAT32 : NBX_FLOAT64;
        return *tile == NBX_FLOAT32 ? l->f32 : l->f64;
    case NBX_CATEGORY_BOOL:
        *tile = compute;
        if (l->boolean) return l->boolean;
        break;
    case NBX_CATEGORY_INTEGER: break;
    }
    *tile = compute;
    if (l->ints) return l->ints;
    if (compute == NBX_UINT64 && l->u64) return l->u64;
    *tile = NBX_INT64;
    return l->i64;
}

// Do all operands lie in memory in the 16-bit dtype of computing?
static bool all_halves(const nbx_op_call *c, const ew_row *row, const ew_types *types) {
    if (types->compute != NBX_FLOAT16 && types->compute != NBX_BFLOAT16) return false;
    for (int i = 0; i < row->inputs; i++) {
        const nbx_value *v = &c->args[row->arg[i]];
        if (v->kind != NBX_KIND_TENSOR || v->as.tensor->dtype != types->compute || row->in[i] != EW_SAME) return false;
    }
    for (int k = 0; k < (row->outputs ? row->outputs : 1); k++)
        if (types->out[k] != types->compute || out_get(c, k)->dtype != types->compute) return false;
    return true;
}

static bool same_memory_form(nbx_dtype a, nbx_dtype b) {
    return a == b || (nbx_dtype_size(a) == nbx_dtype_size(b) && nbx_dtype_is_integral(a, false) && nbx_dtype_is_integral(b, false));
}

// Does a block of the plan lie dense in the operand's memory?
static bool dense_blocks(const nbx_iter *it, int k, int64_t size) {
    const nbx_iter_dim *d = it->dim;
    if (d[0].size != 1 && d[0].stride[k] != size) return false;
    return it->block[1] == 1 || (it->block[0] >= d[0].size && d[1].stride[k] == d[0].size * size);
}

static void plan_number(ew_plan *p, int k, nbx_dtype compute, const nbx_value *v) {
    const nbx_dtype tile = (nbx_dtype)p->tile[k];
    const int slot = k - p->outs;
    p->number[k] = (int8_t)slot;
    const bool exact = p->exact && slot > 0 && !nbx_dtype_is_integral(compute, true);
    if (exact || compute == p->run_dtype || tile != p->run_dtype) {
        ew_store_number(tile, p->value[slot], v);
    } else {
        double rounded[2];
        ew_store_number(compute, rounded, v);
        convert_one(tile, p->value[slot], compute, rounded);
    }
}

nbx_status ew_plan_make(nbx_op_call *c, const ew_row *row, const ew_loops *loops, ew_plan *p) {
    ew_types types;
    const nbx_status status = ew_resolve(c, row, &types, &p->params);
    if (status != NBX_OK) return status;
    p->compute = types.compute;
    p->exact = row->flags & EW_EXACT_NUMBERS;
    p->loop = choose_loop(loops, types.compute, &p->run_dtype);
    if (loops->halves && all_halves(c, row, &types)) p->loop = loops->halves, p->run_dtype = types.compute;
    if (!p->loop) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(types.compute));

    const nbx_tensor *tensors[EW_OPERANDS];
    size_t widest = 1;
    p->outs = row->outputs ? row->outputs : 1;
    p->operands = (uint8_t)(p->outs + row->inputs);
    for (int k = 0; k < p->operands; k++) {
        const bool is_out = k < p->outs;
        const nbx_value *v = is_out ? NULL : &c->args[row->arg[k - p->outs]];
        p->tile[k] = (uint8_t)ew_dtype_of(is_out ? row->out[k] : row->in[k - p->outs], p->run_dtype);
        p->number[k] = -1;
        tensors[k] = is_out ? out_get(c, k) : v->kind == NBX_KIND_TENSOR ? v->as.tensor : NULL;
        if (!tensors[k]) plan_number(p, k, types.compute, v);
        p->dtype[k] = tensors[k] ? tensors[k]->dtype : p->tile[k];
        if (is_out) p->by[k] = p->dtype[k] == (uint8_t)types.out[k] ? p->tile[k] : (uint8_t)types.out[k];
        const size_t a = nbx_dtype_size((nbx_dtype)p->dtype[k]), b = nbx_dtype_size((nbx_dtype)p->tile[k]);
        if (a > widest) widest = a;
        if (b > widest) widest = b;
    }

    const nbx_tensor *out = tensors[0];
    nbx_iter_plan(&p->iter, out->rank, out->shape, p->operands, tensors);
    int64_t written = 0;
    for (int k = 0; k < p->outs; k++) written += p->iter.numel * (int64_t)nbx_dtype_size((nbx_dtype)p->dtype[k]);
    p->stream = nbx_past_caches(written);
    nbx_iter_set_blocks(&p->iter, NBX_TILE_BYTES / (int64_t)widest);
    if (!p->iter.crossed) nbx_iter_set_blocks(&p->iter, (p->stream ? NBX_STREAM_TILE : NBX_TILE_BYTES / 4) / (int64_t)widest);
    p->flat = p->iter.dim[1].size == 1 && p->iter.rank == 2;
    for (int k = 0; k < p->operands; k++) {
        const nbx_dtype dtype = (nbx_dtype)p->dtype[k];
        p->direct[k] = same_memory_form(dtype, (nbx_dtype)p->tile[k]) && (k >= p->outs || p->by[k] == p->tile[k]) &&
                       (p->iter.numel == 1 || (p->number[k] < 0 && dense_blocks(&p->iter, k, (int64_t)nbx_dtype_size(dtype))));
        p->flat = p->flat && p->direct[k];
    }
    const int64_t elements = row->flags & EW_HEAVY ? 1024 : 16384, block = p->iter.block[0] * p->iter.block[1];
    p->grain = p->flat ? elements : block ? (elements + block - 1) / block : 1;
    p->ready = true;
    return NBX_OK;
}

nbx_status ew_fail_fault(nbx_op_call *c, int fault) {
    if (fault == EW_FAULT_ZERO_DIVISION) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "integer division by zero");
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "integers to negative integer powers are not allowed");
}
