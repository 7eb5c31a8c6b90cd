// The kernel of all products: the packed one of cpu/gemm.h over every batch, or the plain one where that does not serve.
#include "cpu/simd.h"
#include "ops/matmul/product_kernels.h"

typedef struct product_end {
    const nbx_epilogue *epilogue;
    int64_t at;  // of the batch's matrix in the result
} product_end;

static void end_product(const void *arg, int64_t first, int64_t count) {
    const product_end *end = arg;
    nbx_epilogue_run(end->epilogue, end->at + first, count);
}

nbx_status NBX_KERNEL(product_cpu)(nbx_op_call *call) {
    nbx_product p;
    nbx_gemm g;
    nbx_product_of(call, &p);
    const int64_t count = nbx_product_batches(&p);
    if (count == 0 || p.m == 0 || p.n == 0) return NBX_OK;
    if (nbx_product_is_plain(&p)) {
        NBX_KERNEL(product_plain)(call->pool, &p);
        nbx_epilogue_run_all(call->epilogue, call->pool);
        return NBX_OK;
    }
    nbx_product_gemm(&p, &g);
    g.force_isa = 1 + call->ctx->isa;
    g.packed_b = call->packed;
    product_end end = {call->epilogue, 0};
    const bool reports = call->epilogue && (g.col_stride_c == 1 || g.n == 1);
    if (reports) g.finished = end_product, g.finished_arg = &end;
    for (int64_t i = 0; i < count; i += g.batch) {
        const char *a, *b, *self;
        char *c;
        nbx_product_batch(&p, i, &a, &b, &self, &c);
        g.a = a, g.b = b, g.d = p.self.data ? self : NULL, g.c = c;
        end.at = (c - p.c.data) / (int64_t)nbx_dtype_size(p.out_dtype);
        nbx_gemm_run(&g, call->pool, call->scratch);
    }
    if (!reports) nbx_epilogue_run_all(call->epilogue, call->pool);
    return NBX_OK;
}
