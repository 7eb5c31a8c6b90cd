// The plain convolution: every dtype and stride, a row of the result at a time. It serves float64, integers and complex
// numbers, and is what tests compare the blocked one with.
#include "cpu/simd.h"
#include "ops/conv/conv_kernels.h"
#include "ops/matmul/plain_numbers.h"

#define COLUMNS 64

// What a row of sums needs of one tap: columns [begin, end) read from `input` on, `step` elements apart.
typedef struct plain_tap {
    int64_t begin, end, input, step, weight, every;  // every: distance of the columns that the tap reaches
} plain_tap;

// Where tap k of dim d reads for output o; false: in the padding, or between the elements of a transposed one.
static bool reach(const nbx_conv *p, int d, int64_t o, int64_t k, int64_t *at) {
    if (p->transposed) {
        const int64_t t = o + p->padding[d] - k * p->dilation[d];
        if (t < 0 || t % p->stride[d]) return false;
        *at = t / p->stride[d];
    } else {
        *at = o * p->stride[d] - p->padding[d] + k * p->dilation[d];
    }
    return *at >= 0 && *at < p->in[d];
}

// The columns of [x, x + count) that tap k of the last dim reaches.
static bool reach_columns(const nbx_conv *p, int64_t x, int64_t count, int64_t k, plain_tap *tap) {
    int64_t at = 0, first = 0, last;
    tap->every = p->transposed ? p->stride[2] : 1;
    while (first < count && !reach(p, 2, x + first, k, &at)) first++;
    if (first == count) return false;
    reach(p, 2, x + first, k, &at);
    const int64_t step = p->transposed ? 1 : p->stride[2];
    last = first + (p->in[2] - 1 - at) / step * tap->every + 1;
    tap->begin = first;
    tap->end = last < count ? last : count;
    tap->input = at * p->in_stride[4];
    tap->step = step * p->in_stride[4];
    return true;
}

INLINE void add_real(double *sum, const nbx_conv *p, const plain_tap *t, nbx_dtype d) {
    const double w = load_real(p->weight, t->weight, d);
    if (t->step == 1 && t->every == 1) {
        for (int64_t j = t->begin; j < t->end; j++) sum[j] += w * load_real(p->input, t->input + j - t->begin, d);
        return;
    }
    for (int64_t j = t->begin, at = t->input; j < t->end; j += t->every, at += t->step) sum[j] += w * load_real(p->input, at, d);
}

INLINE void add_int(uint64_t *sum, const nbx_conv *p, const plain_tap *t, nbx_dtype d) {
    const uint64_t w = load_int(p->weight, t->weight, d);
    for (int64_t j = t->begin, at = t->input; j < t->end; j += t->every, at += t->step) sum[j] += w * load_int(p->input, at, d);
}

INLINE void add_complex(double *re, double *im, const nbx_conv *p, const plain_tap *t, nbx_dtype d) {
    double wr, wi, xr, xi;
    load_complex(p->weight, t->weight, d, &wr, &wi);
    for (int64_t j = t->begin, at = t->input; j < t->end; j += t->every, at += t->step) {
        load_complex(p->input, at, d, &xr, &xi);
        re[j] += wr * xr - wi * xi;
        im[j] += wr * xi + wi * xr;
    }
}

typedef enum plain_kind { PLAIN_REAL, PLAIN_INT, PLAIN_COMPLEX } plain_kind;

typedef struct plain_row {
    const nbx_conv *p;
    int64_t batch, group, channel, z, y, x, count;
} plain_row;

INLINE void run_row(const plain_row *r, nbx_dtype d, plain_kind kind) {
    const nbx_conv *p = r->p;
    const int64_t c = r->group * p->out_channels + r->channel;
    double re[COLUMNS] = {0}, im[COLUMNS] = {0};
    uint64_t whole[COLUMNS] = {0};
    plain_tap tap;
    int64_t iz, iy;
    for (int64_t i = 0; i < p->in_channels; i++)
        for (int64_t kz = 0; kz < p->kernel[0]; kz++) {
            if (!reach(p, 0, r->z, kz, &iz)) continue;
            for (int64_t ky = 0; ky < p->kernel[1]; ky++) {
                if (!reach(p, 1, r->y, ky, &iy)) continue;
                for (int64_t kx = 0; kx < p->kernel[2]; kx++) {
                    if (!reach_columns(p, r->x, r->count, kx, &tap)) continue;
                    const int64_t from = r->group * p->in_channels + i;
                    tap.input += r->batch * p->in_stride[0] + from * p->in_stride[1] + iz * p->in_stride[2] + iy * p->in_stride[3];
                    tap.weight = (p->transposed ? r->channel : c) * p->weight_stride[0] + (p->transposed ? from : i) * p->weight_stride[1] +
                                 kz * p->weight_stride[2] + ky * p->weight_stride[3] + kx * p->weight_stride[4];
                    if (kind == PLAIN_REAL) add_real(re, p, &tap, d);
                    else if (kind == PLAIN_INT) add_int(whole, p, &tap, d);
                    else add_complex(re, im, p, &tap, d);
                }
            }
        }
    const int64_t to = r->batch * p->out_stride[0] + c * p->out_stride[1] + r->z * p->out_stride[2] + r->y * p->out_stride[3];
    for (int64_t j = 0; j < r->count; j++) {
        const int64_t at = to + (r->x + j) * p->out_stride[4];
        if (kind == PLAIN_REAL) {
            store_real(p->output, at, d, re[j] + (p->bias ? load_real(p->bias, c * p->bias_stride, d) : 0));
        } else if (kind == PLAIN_INT) {
            store_int(p->output, at, d, whole[j] + (p->bias ? load_int(p->bias, c * p->bias_stride, d) : 0));
        } else {
            double br = 0, bi = 0;
            if (p->bias) load_complex(p->bias, c * p->bias_stride, d, &br, &bi);
            store_complex(p->output, at, d, re[j] + br, im[j] + bi);
        }
    }
}

static void dispatch_row(const plain_row *r) {
    switch (r->p->dtype) {
    case NBX_FLOAT32: run_row(r, NBX_FLOAT32, PLAIN_REAL); break;
    case NBX_FLOAT64: run_row(r, NBX_FLOAT64, PLAIN_REAL); break;
    case NBX_FLOAT16: run_row(r, NBX_FLOAT16, PLAIN_REAL); break;
    case NBX_BFLOAT16: run_row(r, NBX_BFLOAT16, PLAIN_REAL); break;
    case NBX_UINT8: run_row(r, NBX_UINT8, PLAIN_INT); break;
    case NBX_INT8: run_row(r, NBX_INT8, PLAIN_INT); break;
    case NBX_INT16: run_row(r, NBX_INT16, PLAIN_INT); break;
    case NBX_INT32: run_row(r, NBX_INT32, PLAIN_INT); break;
    case NBX_INT64: run_row(r, NBX_INT64, PLAIN_INT); break;
    case NBX_COMPLEX64: run_row(r, NBX_COMPLEX64, PLAIN_COMPLEX); break;
    default: run_row(r, NBX_COMPLEX128, PLAIN_COMPLEX);
    }
}

static void plain_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const nbx_conv *p = arg;
    const int64_t chunks = (p->out[2] + COLUMNS - 1) / COLUMNS;
    (void)thread;
    for (int64_t task = begin; task < end; task++) {
        plain_row r = {.p = p};
        int64_t rest = task;
        r.x = rest % chunks * COLUMNS, rest /= chunks;
        r.y = rest % p->out[1], rest /= p->out[1];
        r.z = rest % p->out[0], rest /= p->out[0];
        r.channel = rest % p->out_channels, rest /= p->out_channels;
        r.group = rest % p->groups;
        r.batch = rest / p->groups;
        r.count = p->out[2] - r.x < COLUMNS ? p->out[2] - r.x : COLUMNS;
        dispatch_row(&r);
    }
}

void NBX_KERNEL(conv_plain)(nbx_pool *pool, const nbx_conv *p) {
    const int64_t rows = p->batch * p->groups * p->out_channels * p->out[0] * p->out[1] * ((p->out[2] + COLUMNS - 1) / COLUMNS);
    const int64_t work = p->in_channels * p->kernel[0] * p->kernel[1] * p->kernel[2] * COLUMNS;
    nbx_parallel_for(pool, rows, 1 + 32768 / (work + 1), plain_tasks, (void *)p);
}
