// Resampling kernels. Three walks:
//   nearest    elements are moved, whatever they mean
//   rows       the rows that a row of the result needs are summed with their weights into one row in cache, vectors along
//              the width; then every position sums its few columns of that row
//   bytes      uint8: whole numbers in two passes, columns then rows, rounded in between, as ATen
#include <string.h>

#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/resample/resample.h"

typedef struct resample_job {
    const nbx_resample *p;
    const int32_t *index[RESAMPLE_DIMS];
    const double *weight[RESAMPLE_DIMS];
    char *threads;
    size_t thread_bytes;
} resample_job;

// Row number `row` of the result, counted over batch, channel, depth, height.
typedef struct resample_row {
    int64_t n, c, z, y;
} resample_row;

static resample_row row_of(const nbx_resample *p, int64_t row) {
    resample_row r;
    r.y = row % p->axis[1].out, row /= p->axis[1].out;
    r.z = row % p->axis[0].out, row /= p->axis[0].out;
    r.c = row % p->channels;
    r.n = row / p->channels;
    return r;
}

static int64_t out_offset(const nbx_resample *p, const resample_row *r) {
    return r->n * p->out_stride[0] + r->c * p->out_stride[1] + r->z * p->out_stride[2] + r->y * p->out_stride[3];
}

// ------------------------------------------------------------------------------------------------------------- nearest
INLINE void move_row(const resample_job *job, const char *from, char *to, int64_t bytes) {
    const nbx_resample *p = job->p;
    const int64_t in = p->in_stride[4] * bytes, out = p->out_stride[4] * bytes;
    for (int64_t x = 0; x < p->axis[2].out; x++) memcpy(to + x * out, from + job->index[2][x] * in, (size_t)bytes);
}

static void nearest_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const resample_job *job = arg;
    const nbx_resample *p = job->p;
    const int64_t bytes = (int64_t)nbx_dtype_size(p->dtype);
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const resample_row r = row_of(p, i);
        const char *from = p->input + (r.n * p->in_stride[0] + r.c * p->in_stride[1] + job->index[0][r.z] * p->in_stride[2] +
                                       job->index[1][r.y] * p->in_stride[3]) * bytes;
        char *to = p->output + out_offset(p, &r) * bytes;
        if (bytes == 1) move_row(job, from, to, 1);
        else if (bytes == 2) move_row(job, from, to, 2);
        else if (bytes == 4) move_row(job, from, to, 4);
        else move_row(job, from, to, 8);
    }
}

// Channels last: a position's channels lie together.
static void nearest_channels(void *arg, int64_t begin, int64_t end, int thread) {
    const resample_job *job = arg;
    const nbx_resample *p = job->p;
    const int64_t bytes = (int64_t)nbx_dtype_size(p->dtype);
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = i % p->axis[1].out, z = i / p->axis[1].out % p->axis[0].out, n = i / p->axis[1].out / p->axis[0].out;
        const int64_t from = n * p->in_stride[0] + job->index[0][z] * p->in_stride[2] + job->index[1][y] * p->in_stride[3];
        const int64_t to = n * p->out_stride[0] + z * p->out_stride[2] + y * p->out_stride[3];
        for (int64_t x = 0; x < p->axis[2].out; x++)
            memcpy(p->output + (to + x * p->out_stride[4]) * bytes, p->input + (from + job->index[2][x] * p->in_stride[4]) * bytes,
                   (size_t)(p->channels * bytes));
    }
}

// ---------------------------------------------------------------------------------------------------------------- rows
INLINE vf32 load_vector(const char *p, int64_t i, nbx_dtype d) {
    if (d == NBX_FLOAT16) return v_load_f16((const uint16_t *)p + i);
    if (d == NBX_BFLOAT16) return v_load_bf16((const uint16_t *)p + i);
    return v_load((const float *)p + i);
}

INLINE void add_row(float *sums, const char *from, int64_t stride, int64_t count, float weight, bool first, nbx_dtype d) {
    int64_t x = 0;
    for (; stride == 1 && x + 16 <= count; x += 16) {
        const vf32 term = v_mul(v_set1(weight), load_vector(from, x, d));
        v_store(sums + x, first ? term : v_add(v_load(sums + x), term));
    }
    for (; x < count; x++) {
        const float term = weight * (float)load_real(from, x * stride, d);
        sums[x] = first ? term : sums[x] + term;
    }
}

INLINE void sum_columns(const resample_job *job, const float *sums, char *out, nbx_dtype d) {
    const nbx_resample *p = job->p;
    const int taps = p->axis[2].taps;
    const int32_t *index = job->index[2];
    const double *weight = job->weight[2];
    for (int64_t x = 0; x < p->axis[2].out; x++, index += taps, weight += taps) {
        float y = sums[index[0]] * (float)weight[0];
        for (int k = 1; k < taps && index[k] >= 0; k++) y += sums[index[k]] * (float)weight[k];
        store_real(out, x * p->out_stride[4], d, (double)y);
    }
}

INLINE void float_row(const resample_job *job, const resample_row *r, float *sums, nbx_dtype d) {
    const nbx_resample *p = job->p;
    const int64_t bytes = (int64_t)nbx_dtype_size(d);
    const int taps_z = p->axis[0].taps, taps_y = p->axis[1].taps;
    const int32_t *z = job->index[0] + r->z * taps_z, *y = job->index[1] + r->y * taps_y;
    const double *wz = job->weight[0] + r->z * taps_z, *wy = job->weight[1] + r->y * taps_y;
    bool first = true;
    for (int i = 0; i < taps_z; i++)
        for (int k = 0; k < taps_y; k++) {
            if (y[k] < 0) continue;
            const int64_t at = r->n * p->in_stride[0] + r->c * p->in_stride[1] + z[i] * p->in_stride[2] + y[k] * p->in_stride[3];
            add_row(sums, p->input + at * bytes, p->in_stride[4], p->axis[2].in, (float)(wz[i] * wy[k]), first, d);
            first = false;
        }
    sum_columns(job, sums, p->output + out_offset(p, r) * bytes, d);
}

static void double_row(const resample_job *job, const resample_row *r) {
    const nbx_resample *p = job->p;
    const int taps[] = {p->axis[0].taps, p->axis[1].taps, p->axis[2].taps};
    const int32_t *z = job->index[0] + r->z * taps[0], *y = job->index[1] + r->y * taps[1];
    const double *wz = job->weight[0] + r->z * taps[0], *wy = job->weight[1] + r->y * taps[1];
    for (int64_t o = 0; o < p->axis[2].out; o++) {
        const int32_t *x = job->index[2] + o * taps[2];
        const double *wx = job->weight[2] + o * taps[2];
        double sum = 0;
        for (int i = 0; i < taps[0]; i++)
            for (int k = 0; k < taps[1] && y[k] >= 0; k++) {
                const int64_t at = r->n * p->in_stride[0] + r->c * p->in_stride[1] + z[i] * p->in_stride[2] + y[k] * p->in_stride[3];
                double row = 0;
                for (int j = 0; j < taps[2] && x[j] >= 0; j++) row += wx[j] * ((const double *)p->input)[at + x[j] * p->in_stride[4]];
                sum += wz[i] * wy[k] * row;
            }
        ((double *)p->output)[out_offset(p, r) + o * p->out_stride[4]] = sum;
    }
}

static void row_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const resample_job *job = arg;
    float *sums = (float *)(job->threads + (size_t)thread * job->thread_bytes);
    for (int64_t i = begin; i < end; i++) {
        const resample_row r = row_of(job->p, i);
        switch (job->p->dtype) {
        case NBX_FLOAT64: double_row(job, &r); break;
        case NBX_FLOAT16: float_row(job, &r, sums, NBX_FLOAT16); break;
        case NBX_BFLOAT16: float_row(job, &r, sums, NBX_BFLOAT16); break;
        default: float_row(job, &r, sums, NBX_FLOAT32);
        }
    }
}

// --------------------------------------------------------------------------------------------------------------- bytes
// Bits of fraction with which the largest weight of a pass fits 16 bits.
static int precision_of(const double *weight, int64_t count) {
    double most = 0;
    int bits = 0;
    for (int64_t i = 0; i < count; i++) most = weight[i] > most ? weight[i] : most;
    while (bits < 22 && (int)(0.5 + most * (double)(1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

static int fixed(double weight, int bits) {
    const double x = weight * (double)(1 << bits);
    return (int)(x < 0 ? x - 0.5 : x + 0.5);
}

static uint8_t sum_bytes(const uint8_t *from, int64_t stride, const int32_t *index, const double *weight, int taps, int bits) {
    int sum = 1 << (bits - 1);
    for (int k = 0; k < taps && index[k] >= 0; k++) sum += fixed(weight[k], bits) * from[index[k] * stride];
    sum >>= bits;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void byte_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const resample_job *job = arg;
    const nbx_resample *p = job->p;
    const resample_axis *ay = &p->axis[1], *ax = &p->axis[2];
    const int bits_x = precision_of(job->weight[2], ax->out * ax->taps), bits_y = precision_of(job->weight[1], ay->out * ay->taps);
    uint8_t *plane = (uint8_t *)job->threads + (size_t)thread * job->thread_bytes;
    for (int64_t i = begin; i < end; i++) {
        const uint8_t *from = (const uint8_t *)p->input + i / p->channels * p->in_stride[0] + i % p->channels * p->in_stride[1];
        uint8_t *to = (uint8_t *)p->output + i / p->channels * p->out_stride[0] + i % p->channels * p->out_stride[1];
        for (int64_t y = 0; y < ay->in; y++)
            for (int64_t x = 0; x < ax->out; x++)
                plane[y * ax->out + x] = sum_bytes(from + y * p->in_stride[3], p->in_stride[4], job->index[2] + x * ax->taps,
                                                   job->weight[2] + x * ax->taps, ax->taps, bits_x);
        for (int64_t y = 0; y < ay->out; y++)
            for (int64_t x = 0; x < ax->out; x++)
                to[y * p->out_stride[3] + x * p->out_stride[4]] = sum_bytes(plane + x, ax->out, job->index[1] + y * ay->taps,
                                                                            job->weight[1] + y * ay->taps, ay->taps, bits_y);
    }
}

nbx_status NBX_KERNEL(resample_cpu)(nbx_op_call *call) {
    nbx_resample p;
    resample_places places;
    if (out_get(call, 0)->numel == 0) return NBX_OK;
    nbx_resample_of(call, &p);
    nbx_resample_places(&p, call->ctx->threads, &places);
    char *base = call->scratch;
    resample_job job = {.p = &p, .threads = base + places.threads, .thread_bytes = places.thread_bytes};
    for (int d = 0; d < RESAMPLE_DIMS; d++) {
        job.index[d] = (int32_t *)(base + places.index[d]);
        job.weight[d] = (double *)(base + places.weight[d]);
        nbx_resample_table(&p, d, (int32_t *)(base + places.index[d]), (double *)(base + places.weight[d]));
    }
    const int64_t positions = p.axis[0].out * p.axis[1].out, planes = p.batch * p.channels;
    const bool together = p.in_stride[1] == 1 && p.out_stride[1] == 1 && p.channels > 1;
    if (p.kind < RESAMPLE_LINEAR && together) nbx_parallel_for(call->pool, p.batch * positions, 1 + 16384 / (p.axis[2].out * p.channels), nearest_channels, &job);
    else if (p.kind < RESAMPLE_LINEAR) nbx_parallel_for(call->pool, planes * positions, 1 + 16384 / p.axis[2].out, nearest_tasks, &job);
    else if (p.dtype == NBX_UINT8) nbx_parallel_for(call->pool, planes, 1, byte_tasks, &job);
    else nbx_parallel_for(call->pool, planes * positions, 1 + 4096 / (p.axis[2].out + p.axis[2].in), row_tasks, &job);
    return NBX_OK;
}
