// Plans of the elementwise engine on CUDA: which operands are read how, and the divisions of outer dims.
#include "ops/elementwise/engine.cuh"

#include <string.h>

ewc_divisor ewc_divisor_of(int64_t size) {
    ewc_divisor d = {(uint32_t)size, 0, 0};
    if (size <= 1) return d;  // multiplier 0: the quotient is n >> 0
    uint32_t shift = 0;
    while (((uint64_t)1 << shift) < (uint64_t)size) shift++;
    if (((uint64_t)1 << shift) == (uint64_t)size) {
        d.shift = shift;  // a power of two: n >> shift
        return d;
    }
    // n < 2^31: ceil(2^(31 + shift) / size) has at most 32 bits and n * it / 2^(31 + shift) is exact
    d.multiplier = (uint32_t)((((uint64_t)1 << (31 + shift)) + (uint64_t)size - 1) / (uint64_t)size);
    d.shift = shift - 1;
    return d;
}

static bool aligned_for_vectors(const ewc_plan *p, int k, size_t size) {
    const size_t vector = size == 1 ? 8 : 16;
    if ((uintptr_t)p->base[k] % vector) return false;
    for (int d = 0; d < p->dims; d++)
        if (p->stride[k][d] % (int64_t)vector) return false;
    return true;
}

nbx_status ewc_plan_operands(nbx_op_call *c, int outs, int operands, const nbx_tensor *const *tensors, ewc_plan *p, bool *empty) {
    const nbx_tensor *out = tensors[0];
    *empty = out->numel == 0;
    if (*empty) return NBX_OK;
    nbx_iter it;
    nbx_iter_plan(&it, out->rank, out->shape, operands, tensors);
    int rank = it.rank;
    while (rank > 1 && it.dim[rank - 1].size == 1) rank--;
    if (rank - 1 > EWC_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", EWC_DIMS + 1);
    p->outs = outs;
    p->operands = operands;
    p->dims = rank - 1;
    p->inner = it.dim[0].size;
    p->chunks = (p->inner + EWC_LANES - 1) / EWC_LANES;
    p->items = p->chunks;
    for (int d = 1; d < rank; d++) p->items *= it.dim[d].size;
    p->wide = p->items >= ((int64_t)1 << 31);
    if (p->items > (int64_t)EWC_THREADS * 0x7fffffff) return nbx_call_fail(c, NBX_ERROR_SHAPE, "too many elements for one launch");
    p->by_chunks = ewc_divisor_of(p->chunks);
    for (int d = 1; d < rank; d++) {
        p->size[d - 1] = ewc_divisor_of(it.dim[d].size);
        for (int k = 0; k < operands; k++) p->stride[k][d - 1] = it.dim[d].stride[k];
    }
    p->whole = p->wide ? 0 : (uint32_t)(p->inner / EWC_LANES);
    const int64_t most = INT32_MAX / EWC_LANES;
    p->narrow = !p->wide && p->inner < most;
    for (int k = 0; k < operands; k++) {
        const nbx_tensor *t = tensors[k];
        p->base[k] = t ? (char *)nbx_data(t) : NULL;
        p->dtype[k] = t ? t->dtype : NBX_FLOAT64;
        p->step[k] = t ? it.dim[0].stride[k] : 0;
        p->round_first[k] = p->truth[k] = false;
        const size_t size = nbx_dtype_size((nbx_dtype)p->dtype[k]);
        if (p->step[k] == 0 && p->inner > 1) p->mode[k] = EWC_SPLAT;
        else if ((p->step[k] == (int64_t)size || p->inner == 1) && aligned_for_vectors(p, k, size)) p->mode[k] = EWC_DENSE;
        else p->mode[k] = EWC_STRIDED;
        if (p->inner == 1) p->step[k] = (int64_t)size;
        p->jump[k] = p->mode[k] == EWC_DENSE ? (uint32_t)size * EWC_LANES : 0;
        p->narrow = p->narrow && llabs(p->step[k]) < most;
        for (int d = 0; d < p->dims; d++) p->narrow = p->narrow && llabs(p->stride[k][d]) <= INT32_MAX;
    }
    return NBX_OK;
}

bool ewc_plain_numbers(ewc_plan *p) {
    for (int k = p->outs; k < p->operands; k++) {
        double *v = p->value[k - p->outs];
        if (p->base[k]) continue;
        switch (p->value_dtype[k - p->outs]) {
        case NBX_FLOAT64: break;
        case NBX_FLOAT32: v[0] = *(const float *)v; break;
        case NBX_BFLOAT16: v[0] = __bfloat162float(__ushort_as_bfloat16(*(const uint16_t *)v)); break;
        case NBX_FLOAT16: v[0] = __half2float(__ushort_as_half(*(const uint16_t *)v)); break;
        case NBX_INT64: v[0] = (double)*(const int64_t *)v; break;
        case NBX_BOOL: v[0] = *(const bool *)v; break;
        default: return false;
        }
        p->value_dtype[k - p->outs] = NBX_FLOAT64;
        p->number[k - p->outs] = (float)v[0];
    }
    return true;
}

// A number among the inputs: an element of the dtype its argument is computed in, rounded to 16 bits first where ATen does.
static void plan_number(ewc_plan *p, const ew_row *row, int slot, nbx_dtype compute, const nbx_value *v) {
    nbx_dtype dtype = ew_dtype_of(row->in[slot], compute);
    const bool half = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16;
    if (half && ew_is_exact(row, slot)) dtype = NBX_FLOAT32;
    ew_store_number(dtype, p->value[slot], v);
    p->value_dtype[slot] = (uint8_t)dtype;
}

nbx_status ewc_plan_make(nbx_op_call *c, int code, ewc_plan *p, bool *empty) {
    const ew_row *row = (const ew_row *)c->op->data;
    ew_types types;
    ew_params params;
    nbx_status status = ew_resolve(c, row, &types, &params);
    if (status != NBX_OK) return status;
    memset(&p->params, 0, sizeof p->params);
    memcpy(p->params.f, params.f, sizeof params.f);
    memcpy(p->params.i, params.i, sizeof params.i);
    p->params.compute = types.compute;
    const int outs = row->outputs ? row->outputs : 1, operands = outs + row->inputs;
    const nbx_tensor *tensors[EW_OPERANDS];
    const nbx_value *numbers[EW_OPERANDS] = {NULL};
    nbx_value wrapped[EW_INPUTS];
    for (int k = 0; k < operands; k++) {
        const nbx_value *v = k < outs ? NULL : &c->args[row->arg[k - outs]];
        tensors[k] = k < outs ? out_get(c, k) : v->kind == NBX_KIND_TENSOR ? v->as.tensor : NULL;
        if (k >= outs && !tensors[k]) numbers[k] = v;
        if (k >= outs && tensors[k] && tensors[k]->storage->device.type == NBX_CPU) {  // a wrapped number stays on the host
            nbx_value *n = &wrapped[k - outs];
            const void *at = nbx_data(tensors[k]);
            if (tensors[k]->dtype == NBX_INT64) *n = nbx_of_int(*(const int64_t *)at);
            else if (tensors[k]->dtype == NBX_BOOL) *n = nbx_of_bool(*(const bool *)at);
            else if (tensors[k]->dtype == NBX_COMPLEX128) *n = nbx_of_complex(((const double *)at)[0], ((const double *)at)[1]);
            else *n = nbx_of_float(*(const double *)at);
            numbers[k] = n;
            tensors[k] = NULL;
        }
    }
    status = ewc_plan_operands(c, outs, operands, tensors, p, empty);
    if (status != NBX_OK || *empty) return status;
    p->code = code;
    p->compute = (uint8_t)types.compute;
    const bool half = types.compute == NBX_FLOAT16 || types.compute == NBX_BFLOAT16;
    for (int k = 0; k < outs; k++) p->round_first[k] = half && p->dtype[k] != types.compute && ew_dtype_of(row->out[k], types.compute) == types.compute;
    for (int k = outs; k < operands; k++) {
        p->truth[k] = tensors[k] && types.compute == NBX_BOOL && !nbx_dtype_is_integral((nbx_dtype)tensors[k]->dtype, true);
        if (numbers[k]) plan_number(p, row, k - outs, types.compute, numbers[k]);
        else p->round_first[k] = half && !ew_is_exact(row, k - outs) && p->dtype[k] != types.compute && row->in[k - outs] == EW_SAME;
    }
    return NBX_OK;
}
