// Regions of interest, one source for both devices. Every step is rounded to the dtype, as torchvision's kernels do, so that a
// sample falls into the same bin: in double, which rounds once more without a difference.
#ifndef NBX_OPS_ROI_REGIONS_H
#define NBX_OPS_ROI_REGIONS_H

#include <float.h>
#include <math.h>

#include "ops/vision/bilinear.h"
#include "ops/vision/roi.h"

// One region in the input's coordinates.
typedef struct region {
    int64_t image;
    double x, y, width, height;      // of the region
    double bin_w, bin_h;
} region;

INLINE double roi_number(const nbx_roi *j, int64_t k, int i, nbx_dtype d) {
    return load_real(j->rois, k * j->roi_stride[0] + i * j->roi_stride[1], d);
}

// roi_align and ps_roi_align: corners as they are, half a pixel less where pixels count by their centers.
INLINE region aligned_region(const nbx_roi *j, int64_t k, nbx_dtype d) {
    const bool half = j->kind == ROI_PS_ALIGN || j->aligned;
    double at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = in_dtype(roi_number(j, k, i + 1, d) * j->scale, d);
        if (half) at[i] = in_dtype(at[i] - 0.5, d);
    }
    region r = {0, at[0], at[1], in_dtype(at[2] - at[0], d), in_dtype(at[3] - at[1], d), 0, 0};
    if (!half && r.width < 1) r.width = 1;
    if (!half && r.height < 1) r.height = 1;
    return r;
}

// roi_pool and ps_roi_pool: corners are whole pixels; roi_pool counts the last one.
INLINE region pooled_region(const nbx_roi *j, int64_t k, nbx_dtype d) {
    const double last = j->kind == ROI_POOL ? 1 : 0;
    double at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = round(in_dtype(roi_number(j, k, i + 1, d) * j->scale, d));
        at[i] = at[i] > 1e9 ? 1e9 : at[i] > -1e9 ? at[i] : -1e9;
    }
    region r = {0, at[0], at[1], fmax(at[2] - at[0] + last, 1.0), fmax(at[3] - at[1] + last, 1.0), 0, 0};
    return r;
}

INLINE region region_of(const nbx_roi *j, int64_t k, nbx_dtype d) {
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

INLINE grid grid_of(const nbx_roi *j, const region *r) {
    const double h = ceil(r->bin_h), w = ceil(r->bin_w);
    grid g = {h < 1e6 ? (int64_t)h : 0, w < 1e6 ? (int64_t)w : 0};
    if (j->ratio > 0) g.h = g.w = j->ratio;
    return g;
}

INLINE double sample_place(double start, int64_t bin, double size, int64_t i, int64_t samples, nbx_dtype d) {
    const double from = in_dtype(start + in_dtype(in_dtype((double)bin, d) * size, d), d);
    return in_dtype(from + in_dtype(in_dtype(in_dtype((double)i + 0.5, d) * size, d) / in_dtype((double)samples, d), d), d);
}

INLINE void ps_align_bin(const nbx_roi *j, const region *r, grid g, int64_t k, int64_t c, int64_t bin, nbx_dtype d) {
    const int64_t *s = j->stride, from = c * j->bins + bin, to = (k * j->channels + c) * j->bins + bin;
    const double y0 = in_dtype(in_dtype(in_dtype((double)(bin / j->bins_w), d) * r->bin_h, d) + r->y, d);
    const double x0 = in_dtype(in_dtype(in_dtype((double)(bin % j->bins_w), d) * r->bin_w, d) + r->x, d);
    double sum = 0;
    for (int64_t iy = 0; iy < g.h; iy++) {
        for (int64_t ix = 0; ix < g.w; ix++) {
            const double y = in_dtype(y0 + in_dtype(in_dtype(in_dtype((double)iy + 0.5, d) * r->bin_h, d) / in_dtype((double)g.h, d), d), d);
            const double x = in_dtype(x0 + in_dtype(in_dtype(in_dtype((double)ix + 0.5, d) * r->bin_w, d) / in_dtype((double)g.w, d), d), d);
            bilinear b;
            if (!bilinear_clamped(&b, y, x, j->height, j->width, s[2], s[3], d)) continue;
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
    span s = {(int64_t)(low < 0 ? 0 : low > most ? most : low), (int64_t)(high < 0 ? 0 : high > most ? most : high)};
    return s;
}

INLINE void pool_bin(const nbx_roi *j, const region *r, int64_t k, int64_t c, int64_t bin, nbx_dtype d) {
    const bool sensitive = j->kind == ROI_PS_POOL;
    const int64_t *s = j->stride, height = j->height, width = j->width, from = sensitive ? c * j->bins + bin : c;
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

#endif
