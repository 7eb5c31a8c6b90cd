// The kernel of all products.
#include "cpu/simd.h"
#include "ops/matmul/product_kernels.h"

nbx_status NBX_KERNEL(product_cpu)(nbx_op_call *call) {
    nbx_product p;
    nbx_product_of(call, &p);
    if (nbx_product_batches(&p) == 0 || p.m == 0 || p.n == 0) return NBX_OK;
    NBX_KERNEL(product_plain)(call->pool, &p);
    return NBX_OK;
}
