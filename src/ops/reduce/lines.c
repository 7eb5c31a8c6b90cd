// Plans of walks along one dim.
#include "ops/reduce/lines.h"

static void swap_dims(lines *l, int a, int b) {
    const int64_t shape = l->shape[a];
    l->shape[a] = l->shape[b], l->shape[b] = shape;
    for (int k = 0; k < l->operands; k++) {
        const int64_t step = l->step[k][a];
        l->step[k][a] = l->step[k][b], l->step[k][b] = step;
    }
}

static bool follows(const lines *l, int inner, int outer) {
    for (int k = 0; k < l->operands; k++)
        if (l->step[k][outer] != l->step[k][inner] * l->shape[inner]) return false;
    return true;
}

void lines_plan(lines *l, int dim, int operands, const nbx_tensor *const *tensors) {
    const nbx_tensor *first = tensors[0];
    l->operands = operands;
    l->length = first->rank ? first->shape[dim] : 1;
    l->count = 1;
    l->rank = 0;
    for (int k = 0; k < operands; k++) {
        const nbx_tensor *t = tensors[k];
        l->along[k] = t && t->rank ? t->stride[dim] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype) : 0;
    }
    for (int d = first->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        l->count *= first->shape[d];
        if (first->shape[d] == 1) continue;
        l->shape[l->rank] = first->shape[d];
        for (int k = 0; k < operands; k++) {
            const nbx_tensor *t = tensors[k];
            l->step[k][l->rank] = t ? t->stride[d] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype) : 0;
        }
        l->rank++;
    }
    for (int i = 1; i < l->rank; i++)
        for (int k = i; k > 0 && l->step[0][k] < l->step[0][k - 1]; k--) swap_dims(l, k, k - 1);
    int kept = 0;
    for (int i = 0; i < l->rank; i++) {
        if (kept > 0) swap_dims(l, i, kept);
        if (kept > 0 && follows(l, kept - 1, kept)) l->shape[kept - 1] *= l->shape[kept];
        else kept++;
    }
    l->rank = kept;
}
