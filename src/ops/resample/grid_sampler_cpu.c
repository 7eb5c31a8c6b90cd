// Samples an input at the points of a grid. The weights of a point are computed once and serve all channels.
#include <math.h>

#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/resample/resample.h"

#define TAPS 16  // of a point: 4 x 4 cubic, 8 linear in three dims

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct grid_job {
    const nbx_tensor *input, *grid, *out;
    int dims, mode, padding;
    bool align;
    int64_t points;  // of one image
} grid_job;

typedef struct grid_point {
    int taps;
    bool undefined;        // NaN
    int64_t offset[TAPS];  // -1: outside, counts as zero
    double weight[TAPS];
    double row[4];         // cubic: weights of the rows of taps
} grid_point;

// ATen rounds every step to the dtype, halves too; so does this.
static double narrowed(const grid_job *job, double x) {
    switch (job->input->dtype) {
    case NBX_FLOAT64: return x;
    case NBX_FLOAT16: return (double)nbx_from_f16(nbx_to_f16((float)x));
    case NBX_BFLOAT16: return (double)nbx_from_bf16(nbx_to_bf16((float)x));
    default: return (double)(float)x;
    }
}

// From [-1, 1] to elements. Two and three dims differ in the order of the steps.
static double to_elements(const grid_job *job, double x, int64_t size) {
    const double y = narrowed(job, x + 1);
    if (job->dims == 2) {
        const double t = narrowed(job, y * narrowed(job, (double)(job->align ? size - 1 : size) / 2));
        return job->align ? t : narrowed(job, t - 0.5);
    }
    if (job->align) return narrowed(job, narrowed(job, y / 2) * (double)(size - 1));
    return narrowed(job, narrowed(job, narrowed(job, y * (double)size) - 1) / 2);
}

// Folds x into [low / 2, high / 2] by reflections at the ends.
static double reflect(double x, int64_t low, int64_t high) {
    if (low == high) return 0;
    const double least = (double)low / 2, span = (double)(high - low) / 2;
    x = fabs(x - least);
    const double extra = fmod(x, span), flips = floor(x / span);
    return fmod(flips, 2) == 0 ? extra + least : span - extra + least;
}

static double clip(double x, int64_t size) { return x > 0 ? (x < (double)(size - 1) ? x : (double)(size - 1)) : 0; }

static double pad(const grid_job *job, double x, int64_t size) {
    if (job->padding == BORDER) return clip(x, size);
    if (job->padding != REFLECTION) return x;
    return clip(job->align ? reflect(x, 0, 2 * (size - 1)) : reflect(x, -1, 2 * size - 1), size);
}

static bool inside(double x, int64_t size) { return x >= 0 && x < (double)size; }

// Adds a tap at whole positions at[0 .. dims-1], slowest dim first.
static void add_tap(const grid_job *job, grid_point *g, const double *at, double weight) {
    int64_t offset = 0;
    for (int d = 0; d < job->dims; d++) {
        if (!inside(at[d], job->input->shape[2 + d])) offset = -1;
        if (offset >= 0) offset += (int64_t)at[d] * job->input->stride[2 + d];
    }
    g->offset[g->taps] = offset;
    g->weight[g->taps++] = weight;
}

static void linear_taps(const grid_job *job, grid_point *g, const double *x) {
    for (int corner = 0; corner < 1 << job->dims; corner++) {
        double at[3], part[3], weight = 1;
        for (int d = 0; d < job->dims; d++) {
            const double low = floor(x[d]), t = narrowed(job, x[d] - low);
            const bool high = corner >> (job->dims - 1 - d) & 1;
            at[d] = low + high;
            part[d] = high ? t : narrowed(job, 1 - t);
        }
        for (int d = job->dims - 1; d >= 0; d--) weight = narrowed(job, weight * part[d]);
        add_tap(job, g, at, weight);
    }
}

// Weights of the four inputs around t, step by step as ATen rounds them.
static void cubic_weights(const grid_job *job, double t, double *w) {
    const double a = -0.75;
    double x[4] = {narrowed(job, t + 1), t};
    x[2] = narrowed(job, 1 - t), x[3] = narrowed(job, x[2] + 1);
    for (int k = 0; k < 4; k++) {
        const bool near = k == 1 || k == 2;
        double y = near ? narrowed(job, narrowed(job, (a + 2) * x[k]) - (a + 3)) : narrowed(job, narrowed(job, a * x[k]) - 5 * a);
        y = near ? narrowed(job, y * x[k]) : narrowed(job, narrowed(job, y * x[k]) + 8 * a);
        w[k] = narrowed(job, narrowed(job, y * x[k]) + (near ? 1 : -4 * a));
    }
}

// Four rows of four taps; `row` has the weights of the rows.
static void cubic_taps(const grid_job *job, grid_point *g, const double *x) {
    const double y0 = floor(x[0]), x0 = floor(x[1]);
    double wx[4];
    cubic_weights(job, narrowed(job, x[0] - y0), g->row);
    cubic_weights(job, narrowed(job, x[1] - x0), wx);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const double at[] = {pad(job, y0 - 1 + i, job->input->shape[2]), pad(job, x0 - 1 + k, job->input->shape[3])};
            add_tap(job, g, (double[]){trunc(at[0]), trunc(at[1])}, wx[k]);
        }
}

static void find_taps(const grid_job *job, const double *grid, grid_point *g) {
    double x[3];
    g->taps = 0, g->undefined = false;
    for (int d = 0; d < job->dims; d++) {
        const int64_t size = job->input->shape[2 + d];
        x[d] = to_elements(job, grid[job->dims - 1 - d], size);
        if (job->mode != BICUBIC) x[d] = pad(job, x[d], size);
        if (!isfinite(x[d]) && job->dims == 2 && job->mode != NEAREST) g->undefined = true;
        if (!(fabs(x[d]) < 1e15)) x[d] = copysign(1e15, x[d]);  // lies outside
        if (job->mode == NEAREST) x[d] = rint(x[d]);
    }
    if (g->undefined) return;
    if (job->mode == NEAREST) add_tap(job, g, x, 1);
    else if (job->mode == BICUBIC) cubic_taps(job, g, x);
    else linear_taps(job, g, x);
}

INLINE double sum_taps(const grid_job *job, const grid_point *g, int64_t base, int first, int last, nbx_dtype d) {
    double sum = 0;
    for (int k = first; k < last; k++)
        if (g->offset[k] >= 0) sum = narrowed(job, sum + narrowed(job, g->weight[k] * load_real(nbx_data(job->input), base + g->offset[k], d)));
    return sum;
}

// All channels of a point in float32, whose products and sums are rounded like narrowed ones.
static void float_channels(const grid_job *job, const grid_point *g, const float *x, float *y) {
    const int64_t x_step = job->input->stride[1], y_step = job->out->stride[1], channels = job->input->shape[1];
    int64_t offset[TAPS];
    float weight[TAPS];
    int taps = 0;
    for (int k = 0; k < g->taps; k++)
        if (g->offset[k] >= 0) offset[taps] = g->offset[k], weight[taps++] = (float)g->weight[k];
    for (int64_t c = 0; c < channels; c++, x += x_step, y += y_step) {
        float sum = 0;
        for (int k = 0; k < taps; k++) sum += weight[k] * x[offset[k]];
        *y = sum;
    }
}

INLINE void one_point(const grid_job *job, int64_t n, int64_t point, nbx_dtype d) {
    const nbx_tensor *grid = job->grid, *input = job->input, *out = job->out;
    int64_t rest = point, at_grid = n * grid->stride[0], at_out = n * out->stride[0];
    double x[3];
    grid_point g;
    for (int i = job->dims - 1; i >= 0; i--) {
        const int64_t k = rest % grid->shape[1 + i];
        rest /= grid->shape[1 + i];
        at_grid += k * grid->stride[1 + i], at_out += k * out->stride[2 + i];
    }
    for (int i = 0; i < job->dims; i++) x[i] = load_real(nbx_data(grid), at_grid + i * grid->stride[1 + job->dims], d);
    find_taps(job, x, &g);
    if (d == NBX_FLOAT32 && job->mode != BICUBIC && !g.undefined) {
        float_channels(job, &g, (const float *)nbx_data(input) + n * input->stride[0], (float *)nbx_data(out) + at_out);
        return;
    }
    for (int64_t c = 0; c < input->shape[1]; c++) {
        const int64_t base = n * input->stride[0] + c * input->stride[1];
        double sum = g.undefined ? NAN : 0;
        if (job->mode != BICUBIC && !g.undefined) sum = sum_taps(job, &g, base, 0, g.taps, d);
        for (int i = 0; i < 4 && job->mode == BICUBIC && !g.undefined; i++)
            sum = narrowed(job, sum + narrowed(job, g.row[i] * sum_taps(job, &g, base, 4 * i, 4 * i + 4, d)));
        store_real(nbx_data(out), at_out + c * out->stride[1], d, sum);
    }
}

// ------------------------------------------------- 16 points at once: two dims, float32, not cubic, nothing reflected
// The same steps in the same order, so the same bits.
static bool has_vectors(const grid_job *job) {
    const nbx_tensor *x = job->input;
    const int64_t reach = (x->shape[2] - 1) * x->stride[2] + (x->shape[3] - 1) * x->stride[3];
    return job->dims == 2 && x->dtype == NBX_FLOAT32 && job->mode != BICUBIC && job->padding != REFLECTION && x->shape[2] < 1 << 24 &&
           x->shape[3] < 1 << 24 && reach <= INT32_MAX && job->out->stride[3] == 1 && job->out->stride[2] == job->out->shape[3];
}

// Coordinates of 16 points along dim d; where they are not finite is added to `undefined`.
SIMD_INLINE vf32 vector_coordinate(const grid_job *job, const float *grid, int d, vm32 *undefined) {
    const int64_t size = job->input->shape[2 + d];
    const vf32 t = v_mul(v_add(v_load(grid), v_set1(1)), v_set1((float)((double)(job->align ? size - 1 : size) / 2)));
    float lanes[16];
    v_store(lanes, job->align ? t : v_sub(t, v_set1(0.5f)));
    for (int i = 0; i < 16 && job->padding == BORDER; i++) lanes[i] = (float)clip((double)lanes[i], size);
    const vf32 x = v_load(lanes);
    *undefined = vm_or(*undefined, vm_not(v_lt(v_abs(x), v_set1(INFINITY))));
    return job->mode == NEAREST ? v_rint(x) : x;
}

// Adds weight * the input at whole positions y, x to the sums of all channels.
SIMD_INLINE void vector_tap(const grid_job *job, const float *input, vf32 y, vf32 x, vf32 weight, vf32 *sum, int64_t channels) {
    const nbx_tensor *t = job->input;
    const vm32 inside = vm_and(vm_and(v_ge(y, v_zero()), v_lt(y, v_set1((float)t->shape[2]))), vm_and(v_ge(x, v_zero()), v_lt(x, v_set1((float)t->shape[3]))));
    if (!vm_any(inside)) return;
    int32_t at[16], row[16], column[16];
    vi_store(row, v_to_i32(v_select(inside, y, v_zero()))), vi_store(column, v_to_i32(v_select(inside, x, v_zero())));
    for (int i = 0; i < 16; i++) at[i] = row[i] * (int32_t)t->stride[2] + column[i] * (int32_t)t->stride[3];
    const vi32 index = vi_load(at);
    for (int64_t c = 0; c < channels; c++)
        sum[c] = v_select(inside, v_add(sum[c], v_mul(weight, v_gather(input + c * t->stride[1], index))), sum[c]);
}

#define CHANNELS 16  // whose sums are kept at a time

// Points `point` to point + count of image n, count <= 16.
static void some_points(const grid_job *job, int64_t n, int64_t point, int count) {
    const nbx_tensor *grid = job->grid, *input = job->input, *out = job->out;
    const int64_t width = grid->shape[2];
    const float *points = (const float *)nbx_data(grid) + n * grid->stride[0];
    float gx[16] = {0}, gy[16] = {0};
    for (int i = 0; i < count; i++) {
        const float *at = points + (point + i) / width * grid->stride[1] + (point + i) % width * grid->stride[2];
        gx[i] = at[0], gy[i] = at[grid->stride[3]];
    }
    vm32 undefined = vm_first(0);
    const vf32 y = vector_coordinate(job, gy, 0, &undefined), x = vector_coordinate(job, gx, 1, &undefined);
    const vf32 y0 = v_floor(y), x0 = v_floor(x), one = v_set1(1), ty = v_sub(y, y0), tx = v_sub(x, x0), uy = v_sub(one, ty), ux = v_sub(one, tx);
    for (int64_t c = 0; c < input->shape[1]; c += CHANNELS) {
        const int64_t channels = input->shape[1] - c < CHANNELS ? input->shape[1] - c : CHANNELS;
        const float *from = (const float *)nbx_data(input) + n * input->stride[0] + c * input->stride[1];
        float *to = (float *)nbx_data(out) + n * out->stride[0] + c * out->stride[1] + point;
        vf32 sum[CHANNELS];
        for (int64_t i = 0; i < channels; i++) sum[i] = v_zero();
        if (job->mode == NEAREST) {
            vector_tap(job, from, y, x, one, sum, channels);
        } else {
            vector_tap(job, from, y0, x0, v_mul(ux, uy), sum, channels);
            vector_tap(job, from, y0, v_add(x0, one), v_mul(tx, uy), sum, channels);
            vector_tap(job, from, v_add(y0, one), x0, v_mul(ux, ty), sum, channels);
            vector_tap(job, from, v_add(y0, one), v_add(x0, one), v_mul(tx, ty), sum, channels);
        }
        for (int64_t i = 0; i < channels; i++)
            v_store_n(to + i * out->stride[1], job->mode == NEAREST ? sum[i] : v_select(undefined, v_set1(NAN), sum[i]), count);
    }
}

static void vector_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const grid_job *job = arg;
    const int64_t blocks = (job->points + 15) / 16;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t point = i % blocks * 16;
        some_points(job, i / blocks, point, (int)(job->points - point < 16 ? job->points - point : 16));
    }
}

static void grid_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const grid_job *job = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / job->points, point = i % job->points;
        switch (job->input->dtype) {
        case NBX_FLOAT64: one_point(job, n, point, NBX_FLOAT64); break;
        case NBX_FLOAT16: one_point(job, n, point, NBX_FLOAT16); break;
        case NBX_BFLOAT16: one_point(job, n, point, NBX_BFLOAT16); break;
        default: one_point(job, n, point, NBX_FLOAT32);
        }
    }
}

nbx_status NBX_KERNEL(grid_sampler_cpu)(nbx_op_call *call) {
    const nbx_tensor *out = out_get(call, 0), *input = arg_tensor(call, 0);
    if (out->numel == 0) return NBX_OK;
    grid_job job = {input, arg_tensor(call, 1), out, input->rank - 2, (int)arg_int(call, 2), (int)arg_int(call, 3), arg_bool(call, 4), 1};
    for (int i = 2; i < out->rank; i++) job.points *= out->shape[i];
    if (has_vectors(&job)) {
        nbx_parallel_for(call->pool, input->shape[0] * ((job.points + 15) / 16), 1 + 256 / (input->shape[1] + 8), vector_tasks, &job);
        return NBX_OK;
    }
    nbx_parallel_for(call->pool, input->shape[0] * job.points, 1 + 1024 / (input->shape[1] + 8), grid_tasks, &job);
    return NBX_OK;
}
