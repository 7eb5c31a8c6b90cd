// _scaled_mm(self [m, k], mat2 [k, n], scale_a, scale_b, bias, scale_result, out_dtype): float8 by float8, summed in float32:
//   y = (self * scale_a) x (mat2 * scale_b) + bias, divided by scale_result where y is float8
//   scales: one number each; on a GPU also one a row of self [m, 1] and one a column of mat2 [1, n]. bias: n numbers.
//   out_dtype: that of self when absent; float32, float16, bfloat16 or float8
//   errors: SHAPE, DTYPE, ARGUMENT
#include "ops/matmul/scaled.h"

#include <string.h>

#include "cpu/gemm.h"
#include "ops/compose.h"
#include "ops/shape/move.h"

static nbx_gemm gemm_of(const nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, SCALED_A), *b = arg_tensor(c, SCALED_B);
    const int64_t m = a->shape[0], k = a->shape[1], n = b->shape[1];
    return (nbx_gemm){.m = m, .n = n, .k = k, .batch = 1, .dtype = NBX_FLOAT32, .out_dtype = NBX_FLOAT32, .row_stride_a = k, .col_stride_a = 1,
                      .row_stride_b = 1, .col_stride_b = k, .row_stride_c = n, .col_stride_c = 1, .alpha = 1, .force_isa = 1 + c->ctx->isa};
}

// Scratch of the CPU: self and mat2 in float32, lines of k, the result in float32, then the product's own.
static size_t place(size_t *end, int64_t floats) {
    const size_t at = *end;
    *end += ((size_t)floats * 4 + 63) & ~(size_t)63;
    return at;
}
typedef struct scaled_scratch {
    size_t a, b, c, gemm, end;
} scaled_scratch;
static scaled_scratch scratch_of(const nbx_op_call *call, const nbx_gemm *g) {
    scaled_scratch s = {0};
    s.a = place(&s.end, g->m * g->k), s.b = place(&s.end, g->n * g->k), s.c = place(&s.end, g->m * g->n);
    s.gemm = s.end;
    s.end += nbx_gemm_scratch_bytes(g, call->ctx->threads);
    return s;
}

static bool is_float8(const nbx_tensor *t) { return nbx_dtype_is_float8((nbx_dtype)t->dtype); }

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, SCALED_A), *b = arg_tensor(c, SCALED_B), *sa = arg_tensor(c, SCALED_SCALE_A), *sb = arg_tensor(c, SCALED_SCALE_B);
    const nbx_tensor *bias = arg_tensor(c, SCALED_BIAS), *sr = arg_tensor(c, SCALED_RESULT);
    const nbx_dtype dtype = arg_dtype(c, SCALED_DTYPE) == NBX_DTYPE_NONE ? (nbx_dtype)a->dtype : arg_dtype(c, SCALED_DTYPE);
    if (a->rank != 2 || b->rank != 2 || a->shape[1] != b->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self and mat2 must be matrices that multiply");
    if (!is_float8(a) || !is_float8(b))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, mat2 %s: expected float8", nbx_dtype_name((nbx_dtype)a->dtype), nbx_dtype_name((nbx_dtype)b->dtype));
    if (!nbx_dtype_is_float(dtype) || dtype == NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "out_dtype is %s: expected float32, float16, bfloat16 or float8", nbx_dtype_name(dtype));
    const int64_t m = a->shape[0], n = b->shape[1];
    const bool by_rows = c->device.type != NBX_CPU && sa->rank == 2 && sa->shape[0] == m && sa->shape[1] == 1 && sb->rank == 2 && sb->shape[0] == 1 && sb->shape[1] == n;
    if (!by_rows && (sa->numel != 1 || sb->numel != 1))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "scale_a and scale_b must be one number each%s", c->device.type == NBX_CPU ? "" : ", or [m, 1] and [1, n]");
    const nbx_tensor *scales[] = {sa, sb, bias};
    static const char *const names[] = {"scale_a", "scale_b", "bias"};
    for (int i = 0; i < 3; i++)
        if (scales[i] && (!nbx_dtype_is_float((nbx_dtype)scales[i]->dtype) || is_float8(scales[i])))
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is %s: expected numbers", names[i], nbx_dtype_name((nbx_dtype)scales[i]->dtype));
    if (bias && (bias->numel != n || (n > 1 && bias->shape[bias->rank - 1] != n)))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "bias has %lld numbers, not %lld", (long long)bias->numel, (long long)n);
    if (sr && (sr->numel != 1 || sr->dtype != NBX_FLOAT32)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "scale_result must be one float32");
    if (!out_new(c, 0, dtype, 2, (int64_t[]){m, n}, NULL)) return c->ctx->status;
    if (c->device.type == NBX_CPU) {
        const nbx_gemm g = gemm_of(c);
        c->scratch_bytes = scratch_of(c, &g).end;
    }
    return NBX_OK;
}

static float number_of(const nbx_tensor *t, int64_t at) {
    float value;
    nbx_convert_run(NBX_FLOAT32, (char *)&value, 4, (nbx_dtype)t->dtype, (const char *)nbx_data(t) + at * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), 0, 1);
    return value;
}

// Lines of a matrix, `step` elements apart, as floats times scale.
static void widen(const nbx_tensor *t, int64_t lines, int64_t step, int64_t along, int64_t count, float scale, float *to) {
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    for (int64_t i = 0; i < lines; i++, to += count) {
        nbx_convert_run(NBX_FLOAT32, (char *)to, 4, (nbx_dtype)t->dtype, (const char *)nbx_data(t) + i * step * size, along * size, count);
        for (int64_t j = 0; j < count; j++) to[j] *= scale;
    }
}

static nbx_status scaled_cpu(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, SCALED_A), *b = arg_tensor(c, SCALED_B), *bias = arg_tensor(c, SCALED_BIAS), *sr = arg_tensor(c, SCALED_RESULT), *y = out_get(c, 0);
    nbx_gemm g = gemm_of(c);
    const scaled_scratch s = scratch_of(c, &g);
    char *scratch = (char *)c->scratch;
    float *sums = (float *)(scratch + s.c);
    if (y->numel == 0) return NBX_OK;
    widen(a, g.m, a->stride[0], a->stride[1], g.k, number_of(arg_tensor(c, SCALED_SCALE_A), 0), (float *)(scratch + s.a));
    widen(b, g.n, b->stride[1], b->stride[0], g.k, number_of(arg_tensor(c, SCALED_SCALE_B), 0), (float *)(scratch + s.b));
    g.a = scratch + s.a, g.b = scratch + s.b, g.c = sums;
    nbx_gemm_run(&g, c->pool, scratch + s.gemm);
    const bool divides = sr && is_float8(y);
    for (int64_t j = 0; bias && j < g.n; j++) {
        const float more = number_of(bias, j * bias->stride[bias->rank - 1]);
        for (int64_t i = 0; i < g.m; i++) sums[i * g.n + j] += more;
    }
    const float by = divides ? number_of(sr, 0) : 1;
    for (int64_t i = 0; divides && i < y->numel; i++) sums[i] /= by;
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)y->dtype);
    nbx_convert_run((nbx_dtype)y->dtype, (char *)nbx_data(y), size, NBX_FLOAT32, (const char *)sums, 4, y->numel);
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *a = arg_tensor(c, SCALED_A), *b = arg_tensor(c, SCALED_B), *y = out_get(c, 0);
    cost->flops = 2. * (double)a->shape[0] * (double)a->shape[1] * (double)b->shape[1];
    cost->bytes_read = (double)a->numel + (double)b->numel;
    cost->bytes_written = (double)y->numel * (double)nbx_dtype_size((nbx_dtype)y->dtype);
    cost->scratch_bytes = c->scratch_bytes;
}

const nbx_op nbx_ops_scaled[] = {
    {.name = "aten::_scaled_mm", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(scaled_cpu)},
    NBX_OPS_END,
};
