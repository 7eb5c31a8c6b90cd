// Products of groups of one matrix, each with a matrix of its own, as mixtures of experts need them; of float8 with scales, too.
//   _grouped_mm(a, b, offs): offs [groups] int32 says where each group ends:
//     a [m, k]  b [g, k, n]  rows of a in groups         -> [m, n]
//     a [g, m, k]  b [k, n]  columns of b in groups      -> [m, n]
//     a [m, k]  b [k, n]     both along k                -> [g, m, n]
//     a [g, m, k]  b [g, k, n], no offs                  -> [g, m, n]
//   float32, float16, bfloat16; rows of the result start 16 bytes apart or a multiple of that, as ATen lays them out. What no group
//   covers is zero (ATen leaves it unset); ends beyond the matrix count as its end.
//   errors: SHAPE, DTYPE; ARGUMENT for strides that are no multiple of 16 bytes, which ATen refuses
#include <string.h>

#include "cpu/gemm_kernels.h"
#include "ops/compose.h"

// One group as if it were all; the strides by which a, b and the result advance from one matrix to the next.
typedef struct grouped_product {
    nbx_gemm whole;
    enum { ALONG_M, ALONG_N, ALONG_K, ALONG_BATCH } along;
    int64_t groups;
} grouped_product;

static void product_of(const nbx_op_call *c, grouped_product *p) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *y = out_get(c, 0);
    const int64_t *as = a->stride + a->rank - 2, *bs = b->stride + b->rank - 2, *ys = y->stride + y->rank - 2;
    memset(p, 0, sizeof *p);
    p->along = a->rank == 2 ? (b->rank == 2 ? ALONG_K : ALONG_M) : b->rank == 2 ? ALONG_N : ALONG_BATCH;
    p->groups = p->along == ALONG_BATCH ? a->shape[0] : arg_tensor(c, 2)->shape[0];
    p->whole = (nbx_gemm){.m = a->shape[a->rank - 2], .k = a->shape[a->rank - 1], .n = b->shape[b->rank - 1], .batch = 1,
                          .dtype = (nbx_dtype)a->dtype, .out_dtype = (nbx_dtype)a->dtype, .row_stride_a = as[0], .col_stride_a = as[1],
                          .row_stride_b = bs[0], .col_stride_b = bs[1], .row_stride_c = ys[0], .col_stride_c = ys[1], .alpha = 1,
                          .batch_stride_a = a->rank == 3 ? a->stride[0] : 0, .batch_stride_b = b->rank == 3 ? b->stride[0] : 0,
                          .batch_stride_c = y->rank == 3 ? y->stride[0] : 0, .force_isa = 1 + c->ctx->isa};
}

static nbx_status describe(nbx_op_call *c, int64_t row_step) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *offs = arg_tensor(c, 2);
    const int64_t m = a->shape[a->rank - 2], n = b->shape[b->rank - 1], row = (n + row_step - 1) / row_step * row_step;
    const bool matrix = a->rank != b->rank;
    const int64_t shape[] = {a->rank == 3 ? a->shape[0] : offs ? offs->shape[0] : 0, m, n}, stride[] = {m * row, row, 1};
    if (!out_new(c, 0, (nbx_dtype)a->dtype, matrix ? 2 : 3, shape + matrix, stride + matrix)) return c->ctx->status;
    if (c->device.type != NBX_CPU) return NBX_OK;
    grouped_product p;
    product_of(c, &p);
    // Sizes are known later. Most scratch is wanted by all rows, or by the few that have a kernel of their own; a shorter
    // sum over k can ask for up to twice as much, since more rows are packed at a time.
    nbx_gemm few = p.whole;
    few.m = m < GEMV_ROWS ? m : GEMV_ROWS;
    const size_t all = nbx_gemm_scratch_bytes(&p.whole, c->ctx->threads), some = nbx_gemm_scratch_bytes(&few, c->ctx->threads);
    few = p.whole, few.n = n < GEMV_ROWS ? n : GEMV_ROWS;
    const size_t thin = nbx_gemm_scratch_bytes(&few, c->ctx->threads);
    c->scratch_bytes = 2 * (all > some ? all > thin ? all : thin : some > thin ? some : thin);
    return NBX_OK;
}

static bool rows_are_aligned(const nbx_tensor *t) {
    const int64_t step = 16 / (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), *stride = t->stride + t->rank - 2, *shape = t->shape + t->rank - 2;
    if (stride[0] == 1 && stride[1] >= (shape[0] > 1 ? shape[0] : 1)) return stride[1] % step == 0;
    return stride[1] == 1 && stride[0] >= (shape[1] > 1 ? shape[1] : 1) && stride[0] % step == 0;
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *offs = arg_tensor(c, 2);
    if ((a->dtype != NBX_FLOAT32 && a->dtype != NBX_FLOAT16 && a->dtype != NBX_BFLOAT16) || a->dtype != b->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, mat2 %s: expected float32, float16 or bfloat16 for both",
                             nbx_dtype_name((nbx_dtype)a->dtype), nbx_dtype_name((nbx_dtype)b->dtype));
    if (a->rank < 2 || a->rank > 3 || b->rank < 2 || b->rank > 3)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self and mat2 must have 2 or 3 dims, found %d and %d", a->rank, b->rank);
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "inner sizes %lld and %lld differ", (long long)a->shape[a->rank - 1], (long long)b->shape[b->rank - 2]);
    const bool batched = a->rank == 3 && b->rank == 3;
    if (batched != !offs) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "offs belongs to matrices with 2 dims, and to them only");
    if (batched && a->shape[0] != b->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld and %lld matrices", (long long)a->shape[0], (long long)b->shape[0]);
    if (offs && (offs->rank != 1 || offs->dtype != NBX_INT32)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "offs must be int32 with one dim");
    const nbx_tensor *stack = a->rank == 3 ? a : b;
    if (offs && stack->rank == 3 && offs->shape[0] != stack->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld ends for %lld matrices", (long long)offs->shape[0], (long long)stack->shape[0]);
    if (!rows_are_aligned(a) || !rows_are_aligned(b)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "strides must be multiples of 16 bytes");
    if (arg_tensor(c, 3)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "bias is not supported");
    if (arg_dtype(c, 4) != NBX_DTYPE_NONE && arg_dtype(c, 4) != (nbx_dtype)a->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "out_dtype must be %s", nbx_dtype_name((nbx_dtype)a->dtype));
    return describe(c, 16 / (int64_t)nbx_dtype_size((nbx_dtype)a->dtype));
}

// grouped_mm_fallback(input [m, k], weight [groups, k, n], offs): any strides, a contiguous result.
static nbx_status infer_fallback(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *offs = arg_tensor(c, 2);
    if (a->rank != 2 || b->rank != 3 || a->shape[1] != b->shape[1] || offs->rank != 1 || offs->shape[0] > b->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects [m, k], [groups, k, n] and [groups]");
    if (a->dtype != b->dtype || nbx_dtype_is_complex((nbx_dtype)a->dtype) || !nbx_dtype_is_float((nbx_dtype)a->dtype) ||
        nbx_dtype_is_float8((nbx_dtype)a->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "input is %s, weight %s: expected one floating dtype", nbx_dtype_name((nbx_dtype)a->dtype),
                             nbx_dtype_name((nbx_dtype)b->dtype));
    if (offs->dtype != NBX_INT32 && offs->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "offs must be int32 or int64");
    return describe(c, 1);
}

static int64_t end_of(const nbx_tensor *offs, int64_t i, int64_t size) {
    const int64_t at = i * offs->stride[0];
    const int64_t end = offs->dtype == NBX_INT64 ? ((const int64_t *)nbx_data(offs))[at] : ((const int32_t *)nbx_data(offs))[at];
    return end < 0 ? 0 : end < size ? end : size;
}

static nbx_status grouped(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *offs = arg_tensor(c, 2), *y = out_get(c, 0);
    grouped_product p;
    if (y->numel == 0) return NBX_OK;
    product_of(c, &p);
    const int64_t size = (int64_t)nbx_dtype_size(p.whole.dtype), rows = y->numel / y->shape[y->rank - 1];
    for (int64_t i = 0; i < rows; i++) // rows lie evenly
        memset((char *)nbx_data(y) + i * p.whole.row_stride_c * size, 0, (size_t)(p.whole.n * size));
    const int64_t sizes[] = {p.whole.m, p.whole.n, p.whole.k};
    int64_t start = 0;
    for (int64_t i = 0; i < p.groups; i++) {
        nbx_gemm g = p.whole;
        const int64_t end = p.along == ALONG_BATCH ? 0 : end_of(offs, i, sizes[p.along]), count = end > start ? end - start : 0;
        int64_t at_a = i * g.batch_stride_a, at_b = i * g.batch_stride_b, at_c = i * g.batch_stride_c;
        if (p.along == ALONG_M) g.m = count, at_a += start * g.row_stride_a, at_c += start * g.row_stride_c;
        if (p.along == ALONG_N) g.n = count, at_b += start * g.col_stride_b, at_c += start * g.col_stride_c;
        if (p.along == ALONG_K) g.k = count, at_a += start * g.col_stride_a, at_b += start * g.row_stride_b;
        start = end;
        if (g.m == 0 || g.n == 0 || g.k == 0) continue;
        g.a = (const char *)nbx_data(a) + at_a * size, g.b = (const char *)nbx_data(b) + at_b * size, g.c = (char *)nbx_data(y) + at_c * size;
        nbx_gemm_run(&g, c->pool, c->scratch);
    }
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    grouped_product p;
    product_of(c, &p);
    const double m = (double)p.whole.m, n = (double)p.whole.n, k = (double)p.whole.k, size = (double)nbx_dtype_size(p.whole.dtype);
    cost->flops = 2 * m * n * k * (p.along == ALONG_BATCH ? (double)p.groups : 1);
    cost->bytes_read = (double)(arg_tensor(c, 0)->numel + arg_tensor(c, 1)->numel) * size;
    cost->bytes_written = (double)out_get(c, 0)->numel * size;
    cost->scratch_bytes = c->scratch_bytes;
}

// ------------------------------------------------------------------------------------------------------------- float8
static nbx_tensor *scaled(nbx_context *ctx, const nbx_tensor *t, const nbx_tensor *scale) {
    return do_mul(ctx, do_cast(ctx, t, NBX_FLOAT32), do_cast(ctx, scale, NBX_FLOAT32));
}

// A scale for every row of a [.., m, k] and every column of b [.., k, n]; with groups along k, for every group of them.
static nbx_status scaled_grouped_mm(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *sa = arg_tensor(c, 2), *sb = arg_tensor(c, 3), *offs = arg_tensor(c, 4);
    const nbx_dtype dtype = arg_dtype(c, 7) == NBX_DTYPE_NONE ? NBX_BFLOAT16 : arg_dtype(c, 7);
    if (a->rank < 2 || a->rank > 3 || b->rank < 2 || b->rank > 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self and mat2 must have 2 or 3 dims");
    if (a->dtype != NBX_FLOAT8_E4M3FN || b->dtype != NBX_FLOAT8_E4M3FN || sa->dtype != NBX_FLOAT32 || sb->dtype != NBX_FLOAT32)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expects float8_e4m3fn matrices and float32 scales");
    if (dtype != NBX_BFLOAT16) return nbx_call_fail(c, NBX_ERROR_DTYPE, "out_dtype must be bfloat16");
    if (arg_tensor(c, 5) || arg_tensor(c, 6)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "bias and scale_result are not supported");
    const bool inner = a->rank == 2 && b->rank == 2;
    const int64_t groups = inner && offs && offs->rank == 1 ? offs->shape[0] : 1, m = a->shape[a->rank - 2], n = b->shape[b->rank - 1];
    const bool fits = sa->rank == a->rank - 1 && sb->rank == b->rank - 1 && sa->shape[sa->rank - 1] == m * groups &&
                      sb->shape[sb->rank - 1] == n * groups && (a->rank == 2 || sa->shape[0] == a->shape[0]) &&
                      (b->rank == 2 || sb->shape[0] == b->shape[0]);
    if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects a scale for every row of self and every column of mat2");
    if (!inner) {
        const nbx_tensor *x = scaled(ctx, a, do_unsqueeze(ctx, sa, -1)), *w = scaled(ctx, b, do_unsqueeze(ctx, sb, -2));
        return out_tensor(c, 0, do_cast(ctx, NBX_DO(ctx, "aten::_grouped_mm", T(x), T(w), T_OR_NONE(offs), NIL, NIL), dtype));
    }
    nbx_tensor *y = NBX_DO(ctx, "aten::_grouped_mm", T(do_cast(ctx, a, NBX_FLOAT32)), T(do_cast(ctx, b, NBX_FLOAT32)), T_OR_NONE(offs), NIL, NIL);
    y = do_mul(ctx, y, do_reshape(ctx, sa, 3, (int64_t[]){groups, m, 1}));
    return out_tensor(c, 0, do_cast(ctx, do_mul(ctx, y, do_reshape(ctx, sb, 3, (int64_t[]){groups, 1, n})), dtype));
}

const nbx_op nbx_ops_grouped[] = {
    {.name = "aten::_grouped_mm", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(grouped)},
    {.name = "transformers::grouped_mm_fallback", .infer = infer_fallback, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(grouped)},
    {.name = "aten::_scaled_grouped_mm", .composite = scaled_grouped_mm},
    NBX_OPS_END,
};
