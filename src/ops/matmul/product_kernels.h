// What the kernels of products share: where the operands of a batch lie.
#ifndef NBX_OPS_PRODUCT_KERNELS_H
#define NBX_OPS_PRODUCT_KERNELS_H

#include "cpu/isa.h"
#include "ops/matmul/product.h"

static inline int64_t nbx_product_batches(const nbx_product *p) {
    int64_t count = 1;
    for (int i = 0; i < p->batch_rank; i++) count *= p->batch[i];
    return count;
}

// Pointers to the matrices of batch number `index`, counted row-major over the batch dims.
static inline void nbx_product_batch(const nbx_product *p, int64_t index, const char **a, const char **b,
                                     const char **self, char **c) {
    int64_t at[4] = {0};
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        const int64_t k = index % p->batch[i];
        index /= p->batch[i];
        at[0] += k * p->a.batch[i], at[1] += k * p->b.batch[i], at[2] += k * p->self.batch[i], at[3] += k * p->c.batch[i];
    }
    const int64_t in = (int64_t)nbx_dtype_size(p->dtype), out = (int64_t)nbx_dtype_size(p->out_dtype);
    *a = p->a.data + at[0] * in;
    *b = p->b.data + at[1] * in;
    *self = p->self.data + at[2] * out;
    *c = (char *)p->c.data + at[3] * out;
}

#ifdef NBX_ISA_SUFFIX
void NBX_KERNEL(product_plain)(nbx_pool *pool, const nbx_product *p);
#endif

#endif
