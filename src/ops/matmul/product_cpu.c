// The kernel of all products: the packed one of cpu/gemm.h over every batch, or the plain one where that does not serve.
#include "cpu/simd.h"
#include "ops/matmul/product_kernels.h"

nbx_status NBX_KERNEL(product_cpu)(nbx_op_call *call) {
    nbx_product p;
    nbx_gemm g;
    nbx_product_of(call, &p);
    const int64_t count = nbx_product_batches(&p);
    if (count == 0 || p.m == 0 || p.n == 0) return NBX_OK;
    if (nbx_product_is_plain(&p)) {
        NBX_KERNEL(product_plain)(call->pool, &p);
        return NBX_OK;
    }
    nbx_product_gemm(&p, &g);
    g.force_isa = 1 + call->ctx->isa;
    g.packed_b = call->packed;
    for (int64_t i = 0; i < count; i += g.batch) {
        const char *a, *b, *self;
        char *c;
        nbx_product_batch(&p, i, &a, &b, &self, &c);
        g.a = a, g.b = b, g.d = p.self.data ? self : NULL, g.c = c;
        nbx_gemm_run(&g, call->pool, call->scratch);
    }
    return NBX_OK;
}
