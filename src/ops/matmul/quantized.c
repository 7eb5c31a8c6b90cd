// Products with weights in 8 and 4 bits, and the packing of such weights.
//   _weight_int8pack_mm(x [m, k], int8 [n, k], scales [n])
//   _weight_int4pack_mm_for_cpu(x [m, k], uint8 [n, k / 2] packed, group, [k / group, n, 2] scales and zeros)
//   _weight_int4pack_mm: the same over CUDA's packed form
//   _dyn_quant_matmul_4bit(x [m, k], floats: n * k / 2 bytes, n * k / group scales, n of bias or none; group, k, n)
// x float32, float16 or bfloat16 (the last one: float32 or bfloat16), the result like x, contiguous.
//   errors: DTYPE and SHAPE where ATen refuses, and where it would read past the scales
#include <string.h>

#include "cpu/gemm.h"
#include "ops/compose.h"
#include "ops/matmul/quantized.h"

static quantized_format format_of(const nbx_op_call *c) { return *(const quantized_format *)c->op->data; }
static const void *data_of(const nbx_tensor *t) { return t->storage && t->numel ? nbx_data(t) : NULL; }

// ----------------------------------------------------------------------------------------------------------- products
static int64_t k_of(const nbx_op_call *c) { return format_of(c) == QUANTIZED_FLOATS ? arg_int(c, 3) : arg_tensor(c, 0)->shape[1]; }

void nbx_quantized_product(const nbx_op_call *c, quantized_product *p) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *y = out_get(c, 0);
    const quantized_format format = format_of(c);
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)x->dtype, p->m = y->shape[0], p->row_stride = x->stride[0], p->col_stride = 1;
    p->w = (quantized_weights){.format = format, .data = data_of(w), .n = y->shape[1], .k = k_of(c), .scale_dtype = p->dtype};
    if (format == QUANTIZED_INT8) {
        const nbx_tensor *scales = arg_tensor(c, 2);
        p->w.group = p->w.k;
        p->w.scale = data_of(scales), p->w.scale_stride_n = scales->stride[0];
    } else if (format == QUANTIZED_FLOATS) {
        const int64_t bytes = p->w.n * (p->w.k / 2), scales = p->w.n * (p->w.k / arg_int(c, 2));
        const float *floats = p->w.data;
        p->w.group = arg_int(c, 2), p->w.scale_dtype = NBX_FLOAT32;
        p->w.scale_stride_n = p->w.k / p->w.group, p->w.scale_stride_group = 1;
        p->rounds_input = true;
        if (x->contiguous) p->row_stride = p->w.k;
        else p->col_stride = x->stride[1];
        if (floats != NULL) p->w.scale = (const char *)(floats + bytes);
        if (floats != NULL && w->numel > bytes + scales) p->bias = floats + bytes + scales;
    } else {
        const nbx_tensor *pairs = arg_tensor(c, 3);
        p->w.group = arg_int(c, 2);
        p->w.scale_stride_n = pairs->stride[1], p->w.scale_stride_group = pairs->stride[0];
        p->w.scale = data_of(pairs);
        if (p->w.scale != NULL) p->w.zero = p->w.scale + pairs->stride[2] * (int64_t)nbx_dtype_size(p->dtype);
        if (format == QUANTIZED_TILES) p->w.tiles = w->shape[3] * 2;
    }
}

static nbx_status finish(nbx_op_call *c, int64_t m, int64_t n) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, 2, (int64_t[]){m, n}, NULL)) return c->ctx->status;
    quantized_product p;
    nbx_quantized_product(c, &p);
    const nbx_gemm g = {.m = m, .n = n, .k = p.w.k, .batch = 1, .dtype = p.rounds_input ? NBX_FLOAT32 : p.dtype, .out_dtype = p.dtype};
    c->scratch_bytes = (size_t)(nbx_quantized_rows(&p) + nbx_quantized_sums(&p)) * sizeof(float);
    if (c->device.type == NBX_CPU) c->scratch_bytes += nbx_gemm_scratch_bytes(&g, c->ctx->threads);
    return NBX_OK;
}

static nbx_status check_input(nbx_op_call *c, const nbx_tensor *x) {
    if (x->dtype != NBX_FLOAT32 && x->dtype != NBX_FLOAT16 && x->dtype != NBX_BFLOAT16)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s: expected float32, float16 or bfloat16", nbx_dtype_name((nbx_dtype)x->dtype));
    if (x->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must have 2 dims, found %d", x->rank);
    return NBX_OK;
}

static nbx_status check_weights(nbx_op_call *c, const nbx_tensor *w, nbx_dtype dtype, int rank) {
    if ((nbx_dtype)w->dtype != dtype || w->rank != rank || !w->contiguous)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s must be %s, of %d dims and contiguous, found %s with %d dims", c->schema->params[1].name,
                             nbx_dtype_name(dtype), rank, nbx_dtype_name((nbx_dtype)w->dtype), w->rank);
    return NBX_OK;
}

static nbx_status infer_int8(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *scales = arg_tensor(c, 2);
    nbx_status status = check_input(c, x);
    if (!status) status = check_weights(c, w, NBX_INT8, 2);
    if (status) return status;
    if (x->stride[1] != 1 && x->shape[1] != 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "self must be contiguous in its last dim");
    if (w->shape[1] != x->shape[1])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self has %lld columns, mat2 %lld", (long long)x->shape[1], (long long)w->shape[1]);
    if (scales->rank != 1 || scales->shape[0] != w->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected %lld scales", (long long)w->shape[0]);
    if (scales->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "scales and self must have one dtype");
    return finish(c, x->shape[0], w->shape[0]);
}

static nbx_status infer_int4(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *pairs = arg_tensor(c, 3);
    const bool tiles = format_of(c) == QUANTIZED_TILES;
    const int64_t group = arg_int(c, 2);
    nbx_status status = check_input(c, x);
    if (!status) status = check_weights(c, w, tiles ? NBX_INT32 : NBX_UINT8, tiles ? 4 : 2);
    if (status) return status;
    if (tiles && x->dtype != NBX_BFLOAT16) return nbx_call_fail(c, NBX_ERROR_DTYPE, "self must be bfloat16");
    if (!x->contiguous) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "self must be contiguous");
    if (group != 32 && group != 64 && group != 128 && group != 256)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "qGroupSize is %lld: expected 32, 64, 128 or 256", (long long)group);
    const int64_t k = x->shape[1], n = tiles ? w->shape[0] * 8 : w->shape[0];
    if (k % group) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld columns are no whole groups of %lld", (long long)k, (long long)group);
    const bool fits = !tiles ? w->shape[1] == k / 2 && n % 16 == 0
                             : (w->shape[3] == 1 || w->shape[3] == 2 || w->shape[3] == 4) && w->shape[2] == 32 && k % (32 * w->shape[3]) == 0 &&
                                   w->shape[1] == k / (32 * w->shape[3]);
    if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "mat2 does not fit %lld columns of self", (long long)k);
    if (pairs->rank != 3 || pairs->shape[1] != n || pairs->shape[2] != 2 || pairs->shape[0] < k / group)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected %lld x %lld x 2 scales and zeros", (long long)(k / group), (long long)n);
    if (pairs->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "qScaleAndZeros and self must have one dtype");
    return finish(c, x->shape[0], n);
}

// ATen takes the first size(0) rows of k numbers from the elements of an input of any shape.
static nbx_status infer_dynamic(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const int64_t group = arg_int(c, 2), k = arg_int(c, 3), n = arg_int(c, 4);
    if (x->dtype != NBX_FLOAT32 && !(x->dtype == NBX_BFLOAT16 && group == k))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "inp is %s: expected float32, or bfloat16 with one group", nbx_dtype_name((nbx_dtype)x->dtype));
    if (k < 2 || k % 2 || n < 0 || group < 1 || k % group || (group != k && group % 32))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld features in groups of %lld: expected one group, or multiples of 32", (long long)k,
                             (long long)group);
    int64_t rows, bytes, scales;
    if (x->rank < 1 || __builtin_mul_overflow(x->shape[0], k, &rows) || rows > x->numel || (!x->contiguous && (x->rank != 2 || x->shape[1] != k)))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "inp has not %lld features", (long long)k);
    if (w->dtype != NBX_FLOAT32 || !w->contiguous || __builtin_mul_overflow(n, k / 2, &bytes) || bytes > w->numel)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "packed_weights must be contiguous float32, as they were packed");
    scales = n * (k / group);
    if (w->numel != bytes + scales && w->numel != bytes + scales + n)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "packed_weights has %lld numbers", (long long)w->numel);
    return finish(c, x->shape[0], n);
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    quantized_product p;
    nbx_quantized_product(c, &p);
    const double m = (double)p.m, n = (double)p.w.n, k = (double)p.w.k, size = (double)nbx_dtype_size(p.dtype);
    cost->flops = 2 * m * n * k;
    cost->bytes_read = m * k * size + (double)arg_tensor(c, 1)->numel * (double)nbx_dtype_size((nbx_dtype)arg_tensor(c, 1)->dtype);
    cost->bytes_written = m * n * size;
    cost->scratch_bytes = c->scratch_bytes;
}

// ------------------------------------------------------------------------------------------------------------ packing
static nbx_status infer_pack(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, 0);
    const bool tiles = format_of(c) == QUANTIZED_TILES;
    const nbx_dtype want = tiles ? NBX_UINT8 : NBX_INT32;
    const int64_t inner = arg_int(c, 1);
    if ((nbx_dtype)q->dtype != want || q->rank != 2)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "self must be %s with 2 dims", nbx_dtype_name(want));
    if (!tiles) {
        if (q->shape[0] % 16 || q->shape[1] % 2)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld x %lld: expected multiples of 16 and 2", (long long)q->shape[0], (long long)q->shape[1]);
        return out_new(c, 0, NBX_UINT8, 2, (int64_t[]){q->shape[0], q->shape[1] / 2}, NULL) ? NBX_OK : c->ctx->status;
    }
    if (inner != 2 && inner != 4 && inner != 8) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "innerKTiles is %lld: expected 2, 4 or 8", (long long)inner);
    if (q->shape[1] % (8 * inner) || !q->contiguous)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must be contiguous, with a multiple of %lld columns", (long long)(8 * inner));
    const int64_t shape[] = {(q->shape[0] + 7) / 8, q->shape[1] / (8 * inner), 32, inner / 2};
    return out_new(c, 0, NBX_INT32, 4, shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status pack_blocks(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, 0), *y = out_get(c, 0);
    if (y->numel == 0) return NBX_OK;
    const int64_t n = q->shape[0], k = q->shape[1];
    uint8_t *to = nbx_data(y);
    for (int64_t block = 0; block < n; block += 64) {
        const int64_t half = (n - block < 64 ? n - block : 64) / 2, next = half == 32 ? 1 : 2, high = half == 32 ? 32 : 1;
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < half; j++) {
                const int32_t *from = (const int32_t *)nbx_data(q) + (block + j * next) * q->stride[0] + i * q->stride[1];
                *to++ = (uint8_t)((uint32_t)from[0] | (uint32_t)from[high * q->stride[0]] << 4);
            }
    }
    return NBX_OK;
}

// A byte of self holds k = 2 i in its high half and 2 i + 1 in its low one.
static nbx_status pack_tiles(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, 0), *y = out_get(c, 0);
    if (y->numel == 0) return NBX_OK;
    const int64_t n = q->shape[0], k = q->shape[1] * 2;
    uint32_t *to = nbx_data(y);
    memset(to, 0, (size_t)y->numel * sizeof *to);
    for (int64_t row = 0; row < n; row++)
        for (int64_t i = 0; i < k; i++) {
            int shift;
            const uint32_t byte = ((const uint8_t *)nbx_data(q))[row * q->shape[1] + i / 2];
            uint32_t *word = to + quantized_tile(row, i, k, arg_int(c, 1), &shift);
            *word |= (i % 2 ? byte & 15 : byte >> 4) << shift;
        }
    return NBX_OK;
}

static nbx_tensor *flat_floats(nbx_op_call *c, const nbx_tensor *t) {
    return do_reshape(c->ctx, do_cast(c->ctx, t, NBX_FLOAT32), 1, (int64_t[]){-1});
}

static nbx_status pack_dynamic(nbx_op_call *c) {
    const int64_t group = arg_int(c, 3), k = arg_int(c, 4);
    const nbx_tensor *w = arg_tensor(c, 0), *bias = arg_tensor(c, 2);
    if (w->dtype != NBX_UINT8) return nbx_call_fail(c, NBX_ERROR_DTYPE, "weights is %s: expected uint8", nbx_dtype_name((nbx_dtype)w->dtype));
    if (group != k && (group < 1 || group % 32 || k % group))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld features in groups of %lld: expected one group, or multiples of 32", (long long)k,
                             (long long)group);
    const nbx_tensor *parts[] = {flat_floats(c, w), flat_floats(c, arg_tensor(c, 1)), bias ? flat_floats(c, bias) : NULL};
    if (!parts[0] || !parts[1] || (bias && !parts[2])) return c->ctx->status;
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::cat", nbx_of_tensors(parts, bias ? 3 : 2), I(0)));
}

// ---------------------------------------------------------------------------------------------------------------- rows
#define QUANTIZED(NAME, INFER, FORMAT) \
    {.name = NAME, .infer = INFER, .cost = cost, .cpu = NBX_CPU_KERNEL(quantized_cpu), .data = &(const quantized_format){FORMAT}}
#define PACKING(NAME, KERNEL, FORMAT) \
    {.name = NAME, .infer = infer_pack, .cpu = NBX_CPU_KERNEL_ONE(KERNEL), .data = &(const quantized_format){FORMAT}}

const nbx_op nbx_ops_quantized[] = {
    QUANTIZED("aten::_weight_int8pack_mm", infer_int8, QUANTIZED_INT8),
    QUANTIZED("aten::_weight_int4pack_mm", infer_int4, QUANTIZED_TILES),
    QUANTIZED("aten::_weight_int4pack_mm_for_cpu", infer_int4, QUANTIZED_BLOCKS),
    QUANTIZED("aten::_dyn_quant_matmul_4bit", infer_dynamic, QUANTIZED_FLOATS),
    PACKING("aten::_convert_weight_to_int4pack", pack_tiles, QUANTIZED_TILES),
    PACKING("aten::_convert_weight_to_int4pack_for_cpu", pack_blocks, QUANTIZED_BLOCKS),
    {.name = "aten::_dyn_quant_pack_4bit_weight", .composite = pack_dynamic},
    NBX_OPS_END,
};
