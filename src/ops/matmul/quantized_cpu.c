// Products with weights in 8 and 4 bits: the packed kernel of cpu/gemm.h, whose panels of B are made from the weights here,
// so a weight is widened once for all rows of a unit and never written to memory as a float.
#include "cpu/simd.h"

#include <math.h>

#include "cpu/gemm_kernels.h"
#include "cpu/gemm_load.h"
#include "ops/matmul/quantized.h"

// Every column of a panel by its scale, plus its zero.
static void scale_panels(const quantized_weights *w, int64_t col, int64_t cols, int64_t k, int64_t ks, int width, float *to, int64_t stride) {
    for (int64_t i = 0; i < cols; i += 16) {
        float *at = to + i / width * stride + i % width;
        for (int64_t done = 0; done < ks;) {
            const int64_t group = (k + done) / w->group, end = (group + 1) * w->group - k < ks ? (group + 1) * w->group - k : ks;
            float scale[16] = {0}, zero[16] = {0};
            for (int64_t j = 0; j < 16 && i + j < cols; j++) {
                const int64_t from = group * w->scale_stride_group + (col + i + j) * w->scale_stride_n;
                scale[j] = load_real_f32(w->scale_dtype, w->scale, from);
                if (w->zero != NULL) zero[j] = load_real_f32(w->scale_dtype, w->zero, from);
            }
            const vf32 s = v_load(scale), z = v_load(zero);
            for (; done < end; done++) v_store(at + done * width, v_fma(v_load(at + done * width), s, z));
        }
    }
}

// 16 columns of QUANTIZED_BLOCKS from `col` on, a multiple of 16.
static void block_columns(const quantized_weights *w, int64_t col, int64_t k, int64_t ks, int width, float *to) {
    const int64_t block = col / 64 * 64, wide = w->n - block < 64 ? w->n - block : 64, at = col - block;
    const uint8_t *rows = (const uint8_t *)w->data + block * (w->k / 2);
    const vi32 mask = vi_set1(15), eight = vi_set1(8);
    for (int64_t i = k; i < k + ks; i++, to += width) {
        if (wide == 64) {
            const vi32 bytes = vi_load_u8(rows + i * 32 + at % 32);
            v_store(to, v_from_i32(vi_sub(vi_and(at < 32 ? bytes : vi_shr(bytes, 4), mask), eight)));
        } else {
            for (int64_t j = 0; j < 16; j++) to[j] = (float)((rows[i * (wide / 2) + (at + j) / 2] >> 4 * (j % 2) & 15) - 8);
        }
    }
}

static int nibble(const quantized_weights *w, int64_t n, int64_t k) {
    int shift;
    if (w->format == QUANTIZED_FLOATS) return (int)((const float *)w->data)[n * (w->k / 2) + k / 2] >> 4 * (k % 2) & 15;
    return (int)(((const uint32_t *)w->data)[quantized_tile(n, k, w->k, w->tiles, &shift)] >> shift & 15);
}

static void unpack(const void *weights, int64_t col, int64_t cols, int64_t k, int64_t ks, int width, float *to, int64_t stride) {
    const quantized_weights *w = weights;
    if (w->format == QUANTIZED_INT8) {
        const gemm_side side = {w->data, w->k, 1, NBX_INT8};
        NBX_KERNEL(gemm_kernels_f32).pack_b(&side, col, cols, k, ks, width, to, stride);
    } else {
        for (int64_t i = 0; i < (cols + width - 1) / width * width; i += 16) {
            float *at = to + i / width * stride + i % width;
            if (w->format == QUANTIZED_BLOCKS && i < cols) {
                block_columns(w, col + i, k, ks, width, at);
                continue;
            }
            for (int64_t j = 0; j < 16; j++)
                for (int64_t l = 0; l < ks; l++) at[l * width + j] = i + j < cols ? (float)(nibble(w, col + i + j, k + l) - 8) : 0;
        }
    }
    scale_panels(w, col, cols, k, ks, width, to, stride);
}

// ------------------------------------------------------------------------------------------------------- rounded input
// A row in 8 bits.
static void round_row(nbx_dtype dtype, const void *x, int64_t first, int64_t stride, int64_t count, float *to) {
    float least = 0, most = 0;
    for (int64_t i = 0; i < count; i++) {
        to[i] = load_real_f32(dtype, x, first + i * stride);
        least = to[i] < least ? to[i] : least;
        most = to[i] > most ? to[i] : most;
    }
    const quantized_scale s = quantized_scale_of(least, most);
    for (int64_t i = 0; i < count; i++) to[i] = quantized_rounded(&s, to[i]);
}

typedef struct rounding {
    const quantized_product *p;
    const void *x;
    float *rows;
} rounding;

static void round_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const rounding *r = arg;
    const quantized_product *p = r->p;
    (void)thread;
    for (int64_t i = begin; i < end; i++) round_row(p->dtype, r->x, i * p->row_stride, p->col_stride, p->w.k, r->rows + i * p->w.k);
}

nbx_status NBX_KERNEL(quantized_cpu)(nbx_op_call *call) {
    quantized_product p;
    const nbx_tensor *x = arg_tensor(call, 0), *y = out_get(call, 0);
    if (y->numel == 0) return NBX_OK;
    nbx_quantized_product(call, &p);
    float *rows = call->scratch, *sums = rows + nbx_quantized_rows(&p);
    const bool cuts = nbx_quantized_sums(&p) > 0;  // ATen drops the lower 16 bits there, without rounding
    nbx_gemm g = {.m = p.m, .n = p.w.n, .k = p.w.k, .batch = 1, .dtype = p.dtype, .out_dtype = p.dtype, .a = x->numel ? nbx_data(x) : NULL,
                  .row_stride_a = p.row_stride, .col_stride_a = 1, .c = nbx_data(y), .row_stride_c = p.w.n, .col_stride_c = 1, .alpha = 1,
                  .unpack_b = unpack, .weights = &p.w, .bias = p.bias, .force_isa = 1 + call->ctx->isa};
    if (p.rounds_input) {
        rounding r = {&p, g.a, rows};
        nbx_parallel_for(call->pool, p.m, 1 + 4096 / p.w.k, round_rows, &r);
        g.dtype = g.out_dtype = NBX_FLOAT32, g.a = rows, g.row_stride_a = p.w.k;
        if (cuts) g.c = sums;
    }
    nbx_gemm_run(&g, call->pool, sums + nbx_quantized_sums(&p));
    for (int64_t i = 0; cuts && i < y->numel; i++) ((uint16_t *)nbx_data(y))[i] = (uint16_t)(nbx_float_bits(sums[i]) >> 16);
    return NBX_OK;
}
