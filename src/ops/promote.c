// ATen's result_type: tensors with dims decide, then 0-dim tensors, then wrapped numbers, each only if its category is higher.
#include "ops/op.h"

void nbx_promotion_start(nbx_promotion *p) { *p = (nbx_promotion){NBX_DTYPE_NONE, NBX_DTYPE_NONE, NBX_DTYPE_NONE}; }

static void join(nbx_dtype *slot, nbx_dtype dtype) { *slot = *slot == NBX_DTYPE_NONE ? dtype : nbx_promote(*slot, dtype); }

void nbx_promotion_tensor(nbx_promotion *p, const nbx_tensor *t) {
    if (!t || nbx_is_none(t)) return;
    nbx_dtype dtype = (nbx_dtype)t->dtype;
    if (t->wrapped) {
        if (nbx_dtype_is_complex(dtype)) dtype = NBX_COMPLEX64;
        else if (nbx_dtype_is_float(dtype)) dtype = NBX_FLOAT32;
        join(&p->wrapped, dtype);
    } else {
        join(t->rank ? &p->dim : &p->zero, dtype);
    }
}

void nbx_promotion_scalar(nbx_promotion *p, const nbx_value *v) {
    if (nbx_is_scalar_kind(v->kind)) join(&p->wrapped, nbx_scalar_dtype(v));
}

static nbx_dtype combine(nbx_dtype high, nbx_dtype low) {
    if (high == NBX_DTYPE_NONE) return low;
    if (low == NBX_DTYPE_NONE) return high;
    if (nbx_dtype_category(high) >= nbx_dtype_category(low)) return high;
    if (nbx_dtype_is_complex(low) && nbx_dtype_is_float(high)) return nbx_dtype_to_complex(high);  // the precision of the tensors
    return nbx_promote(high, low);
}

nbx_dtype nbx_promotion_result(const nbx_promotion *p) { return combine(combine(p->dim, p->zero), p->wrapped); }
