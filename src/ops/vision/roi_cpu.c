// Regions of interest on the CPU. Every step is rounded to the dtype, as torchvision's kernels do, so that a sample falls
// into the same bin: in double, which rounds once more without a difference.
#include <float.h>
#include <math.h>

#include "cpu/pool.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/vision/bilinear.h"
#include "ops/vision/roi.h"

typedef struct roi_job {
    const nbx_op_call *call;
    roi_kind kind;
    nbx_dtype dtype;
    const nbx_tensor *x, *rois, *y;
    const char *input;
    char *output;
    int32_t *places;
    double scale;
    int64_t bins_h, bins_w, bins;    // bins of a region
    int64_t channels;                // of the result
    double *sums;                    // roi_align: one for each channel and thread
} roi_job;

// One region in the input's coordinates.
typedef struct region {
    int64_t image;
    double x, y, width, height;      // of the region
    double bin_w, bin_h;
} region;

INLINE double roi_number(const roi_job *j, int64_t k, int i, nbx_dtype d) {
    return load_real(nbx_data(j->rois), k * j->rois->stride[0] + i * j->rois->stride[1], d);
}

// roi_align and ps_roi_align: corners as they are, half a pixel less where pixels count by their centers.
INLINE region aligned_region(const roi_job *j, int64_t k, nbx_dtype d) {
    const bool half = j->kind == ROI_PS_ALIGN || arg_bool(j->call, ROI_ALIGNED);
    double at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = in_dtype(roi_number(j, k, i + 1, d) * j->scale, d);
        if (half) at[i] = in_dtype(at[i] - 0.5, d);
    }
    region r = {.x = at[0], .y = at[1], .width = in_dtype(at[2] - at[0], d), .height = in_dtype(at[3] - at[1], d)};
    if (!half && r.width < 1) r.width = 1;
    if (!half && r.height < 1) r.height = 1;
    return r;
}

// roi_pool and ps_roi_pool: corners are whole pixels; roi_pool counts the last one.
INLINE region pooled_region(const roi_job *j, int64_t k, nbx_dtype d) {
    const double last = j->kind == ROI_POOL ? 1 : 0;
    double at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = round(in_dtype(roi_number(j, k, i + 1, d) * j->scale, d));
        at[i] = at[i] > 1e9 ? 1e9 : at[i] > -1e9 ? at[i] : -1e9;
    }
    return (region){.x = at[0], .y = at[1], .width = fmax(at[2] - at[0] + last, 1), .height = fmax(at[3] - at[1] + last, 1)};
}

INLINE region region_of(const roi_job *j, int64_t k, nbx_dtype d) {
    region r = j->kind == ROI_ALIGN || j->kind == ROI_PS_ALIGN ? aligned_region(j, k, d) : pooled_region(j, k, d);
    r.image = (int64_t)roi_number(j, k, 0, d);
    r.bin_w = in_dtype(in_dtype(r.width, d) / in_dtype((double)j->bins_w, d), d);
    r.bin_h = in_dtype(in_dtype(r.height, d) / in_dtype((double)j->bins_h, d), d);
    return r;
}

// ----------------------------------------------------------------------------------------------------------- the aligned
typedef struct grid {
    int64_t h, w;  // samples of a bin
} grid;

static grid grid_of(const roi_job *j, const region *r) {
    const int64_t ratio = arg_int(j->call, ROI_RATIO);
    if (ratio > 0) return (grid){ratio, ratio};
    const double h = ceil(r->bin_h), w = ceil(r->bin_w);
    return (grid){h < 1e6 ? (int64_t)h : 0, w < 1e6 ? (int64_t)w : 0};
}

INLINE double sample_place(double start, int64_t bin, double size, int64_t i, int64_t samples, nbx_dtype d) {
    const double from = in_dtype(start + in_dtype(in_dtype((double)bin, d) * size, d), d);
    return in_dtype(from + in_dtype(in_dtype(in_dtype((double)i + 0.5, d) * size, d) / in_dtype((double)samples, d), d), d);
}

INLINE void align_bin(const roi_job *j, const region *r, grid g, int64_t k, int64_t bin, double *sums, nbx_dtype d) {
    const int64_t *s = j->x->stride, base = r->image * s[0];
    const double samples = g.h * g.w > 1 ? in_dtype((double)(g.h * g.w), d) : 1;
    for (int64_t c = 0; c < j->channels; c++) sums[c] = 0;
    for (int64_t iy = 0; iy < g.h; iy++) {
        for (int64_t ix = 0; ix < g.w; ix++) {
            const double y = sample_place(r->y, bin / j->bins_w, r->bin_h, iy, g.h, d), x = sample_place(r->x, bin % j->bins_w, r->bin_w, ix, g.w, d);
            bilinear b;
            if (!bilinear_clamped(&b, y, x, j->x->shape[2], j->x->shape[3], s[2], s[3], d)) continue;
            for (int64_t c = 0; c < j->channels; c++) sums[c] = in_dtype(sums[c] + bilinear_value(&b, j->input, base + c * s[1], d), d);
        }
    }
    for (int64_t c = 0; c < j->channels; c++) store_real(j->output, (k * j->channels + c) * j->bins + bin, d, sums[c] / samples);
}

INLINE void ps_align_bin(const roi_job *j, const region *r, grid g, int64_t k, int64_t c, int64_t bin, nbx_dtype d) {
    const int64_t *s = j->x->stride, from = c * j->bins + bin, to = (k * j->channels + c) * j->bins + bin;
    const double y0 = in_dtype(in_dtype(in_dtype((double)(bin / j->bins_w), d) * r->bin_h, d) + r->y, d);
    const double x0 = in_dtype(in_dtype(in_dtype((double)(bin % j->bins_w), d) * r->bin_w, d) + r->x, d);
    double sum = 0;
    for (int64_t iy = 0; iy < g.h; iy++) {
        for (int64_t ix = 0; ix < g.w; ix++) {
            const double y = in_dtype(y0 + in_dtype(in_dtype(in_dtype((double)iy + 0.5, d) * r->bin_h, d) / in_dtype((double)g.h, d), d), d);
            const double x = in_dtype(x0 + in_dtype(in_dtype(in_dtype((double)ix + 0.5, d) * r->bin_w, d) / in_dtype((double)g.w, d), d), d);
            bilinear b;
            if (!bilinear_clamped(&b, y, x, j->x->shape[2], j->x->shape[3], s[2], s[3], d)) continue;
            sum = in_dtype(sum + bilinear_value(&b, j->input, r->image * s[0] + from * s[1], d), d);
        }
    }
    store_real(j->output, to, d, sum / in_dtype((double)(g.h * g.w), d));
    j->places[to] = (int32_t)from;
}

// ------------------------------------------------------------------------------------------------------------ the pooled
typedef struct span {
    int64_t begin, end;
} span;

INLINE span bin_span(double start, double size, int64_t bin, int64_t limit, nbx_dtype d) {
    const double low = floor(in_dtype((double)bin * size, d)) + start, high = ceil(in_dtype((double)(bin + 1) * size, d)) + start;
    const double most = (double)limit;
    return (span){(int64_t)(low < 0 ? 0 : low > most ? most : low), (int64_t)(high < 0 ? 0 : high > most ? most : high)};
}

INLINE void pool_bin(const roi_job *j, const region *r, int64_t k, int64_t c, int64_t bin, nbx_dtype d) {
    const bool sensitive = j->kind == ROI_PS_POOL;
    const int64_t *s = j->x->stride, height = j->x->shape[2], width = j->x->shape[3], from = sensitive ? c * j->bins + bin : c;
    const span y = bin_span(r->y, r->bin_h, bin / j->bins_w, sensitive ? height - 1 : height, d);
    const span x = bin_span(r->x, r->bin_w, bin % j->bins_w, sensitive ? width - 1 : width, d);
    const bool empty = y.end <= y.begin || x.end <= x.begin;
    const int64_t base = r->image * s[0] + from * s[1], to = (k * j->channels + c) * j->bins + bin;
    double most = empty ? 0 : in_dtype(-FLT_MAX, d), sum = 0;
    int64_t place = -1;
    for (int64_t h = y.begin; h < y.end; h++) {
        for (int64_t w = x.begin; w < x.end; w++) {
            const double value = load_real(j->input, base + h * s[2] + w * s[3], d);
            if (sensitive) sum = in_dtype(sum + value, d);
            else if (value > most) most = value, place = h * width + w;
        }
    }
    if (sensitive) most = empty ? 0 : sum / in_dtype((double)((y.end - y.begin) * (x.end - x.begin)), d);
    store_real(j->output, to, d, most);
    j->places[to] = (int32_t)(sensitive ? from : place);
}

// ------------------------------------------------------------------------------------------------------------- the walk
INLINE void walk_regions(const roi_job *j, int64_t begin, int64_t end, int thread, nbx_dtype d) {
    for (int64_t k = begin; k < end; k++) {
        const region r = region_of(j, k, d);
        const grid g = j->kind == ROI_ALIGN || j->kind == ROI_PS_ALIGN ? grid_of(j, &r) : (grid){0, 0};
        for (int64_t bin = 0; bin < j->bins; bin++) {
            if (j->kind == ROI_ALIGN) {
                align_bin(j, &r, g, k, bin, j->sums + thread * j->channels, d);
                continue;
            }
            for (int64_t c = 0; c < j->channels; c++) {
                if (j->kind == ROI_PS_ALIGN) ps_align_bin(j, &r, g, k, c, bin, d);
                else pool_bin(j, &r, k, c, bin, d);
            }
        }
    }
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    const roi_job *j = arg;
    if (j->dtype == NBX_FLOAT16) walk_regions(j, begin, end, thread, NBX_FLOAT16);
    else if (j->dtype == NBX_FLOAT64) walk_regions(j, begin, end, thread, NBX_FLOAT64);
    else walk_regions(j, begin, end, thread, NBX_FLOAT32);
}

nbx_status roi_cpu(nbx_op_call *c) {
    const nbx_tensor *y = out_get(c, 0), *places = ((const roi_form *)c->op->data)->kind == ROI_ALIGN ? NULL : out_get(c, 1);
    roi_job j = {.call = c, .kind = (roi_kind)((const roi_form *)c->op->data)->kind, .x = arg_tensor(c, ROI_INPUT), .rois = arg_tensor(c, ROI_ROIS), .y = y};
    if (y->numel == 0) return NBX_OK;
    j.dtype = (nbx_dtype)y->dtype;
    j.input = j.x->numel ? nbx_data(j.x) : NULL;
    j.output = nbx_data(y), j.places = places ? nbx_data(places) : NULL;
    j.scale = in_dtype(arg_float(c, ROI_SCALE), j.dtype);
    j.bins_h = y->shape[2], j.bins_w = y->shape[3], j.bins = j.bins_h * j.bins_w;
    j.channels = y->shape[1], j.sums = c->scratch;
    for (int64_t k = 0; k < j.rois->shape[0]; k++) {
        const double image = roi_number(&j, k, 0, j.dtype);
        if (!(image > -1 && image < (double)j.x->shape[0]))
            return nbx_call_fail(c, NBX_ERROR_INDEX, "region %lld is of image %g, there are %lld", (long long)k, image, (long long)j.x->shape[0]);
    }
    if (j.x->numel == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the input is empty");
    for (int64_t k = 0; k < j.rois->shape[0] && j.kind == ROI_ALIGN; k++) {
        const region r = region_of(&j, k, j.dtype);
        const grid g = grid_of(&j, &r);
        if (g.h * g.w < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "region %lld is turned over along one dim", (long long)k);
    }
    nbx_parallel_for(c->pool, j.rois->shape[0], 1 + 1024 / (j.channels * j.bins), walk, &j);
    return NBX_OK;
}
