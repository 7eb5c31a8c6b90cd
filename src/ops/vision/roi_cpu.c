// Regions of interest on the CPU.
#include "cpu/pool.h"
#include "ops/vision/roi_regions.h"

INLINE void align_bin(const nbx_roi *j, const region *r, grid g, int64_t k, int64_t bin, double *sums, nbx_dtype d) {
    const int64_t *s = j->stride, base = r->image * s[0];
    const double samples = g.h * g.w > 1 ? in_dtype((double)(g.h * g.w), d) : 1;
    for (int64_t c = 0; c < j->channels; c++) sums[c] = 0;
    for (int64_t iy = 0; iy < g.h; iy++) {
        for (int64_t ix = 0; ix < g.w; ix++) {
            const double y = sample_place(r->y, bin / j->bins_w, r->bin_h, iy, g.h, d), x = sample_place(r->x, bin % j->bins_w, r->bin_w, ix, g.w, d);
            bilinear b;
            if (!bilinear_clamped(&b, y, x, j->height, j->width, s[2], s[3], d)) continue;
            for (int64_t c = 0; c < j->channels; c++) sums[c] = in_dtype(sums[c] + bilinear_value(&b, j->input, base + c * s[1], d), d);
        }
    }
    for (int64_t c = 0; c < j->channels; c++) store_real(j->output, (k * j->channels + c) * j->bins + bin, d, sums[c] / samples);
}

// ------------------------------------------------------------------------------------------------------------- the walk
typedef struct roi_job {
    nbx_roi roi;
    double *sums;  // roi_align: one for each channel and thread
} roi_job;

INLINE void walk_regions(const roi_job *job, int64_t begin, int64_t end, int thread, nbx_dtype d) {
    const nbx_roi *j = &job->roi;
    for (int64_t k = begin; k < end; k++) {
        const region r = region_of(j, k, d);
        const grid g = j->kind == ROI_ALIGN || j->kind == ROI_PS_ALIGN ? grid_of(j, &r) : (grid){0, 0};
        for (int64_t bin = 0; bin < j->bins; bin++) {
            if (j->kind == ROI_ALIGN) {
                align_bin(j, &r, g, k, bin, job->sums + thread * j->channels, d);
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
    if (j->roi.dtype == NBX_FLOAT16) walk_regions(j, begin, end, thread, NBX_FLOAT16);
    else if (j->roi.dtype == NBX_FLOAT64) walk_regions(j, begin, end, thread, NBX_FLOAT64);
    else walk_regions(j, begin, end, thread, NBX_FLOAT32);
}

nbx_status roi_cpu(nbx_op_call *c) {
    roi_job job = {.sums = c->scratch};
    nbx_roi *j = &job.roi;
    nbx_roi_of(c, j);
    if (j->output == NULL) return NBX_OK;
    for (int64_t k = 0; k < j->regions; k++) {
        const double image = roi_number(j, k, 0, j->dtype);
        if (!(image > -1 && image < (double)j->images))
            return nbx_call_fail(c, NBX_ERROR_INDEX, "region %lld is of image %g, there are %lld", (long long)k, image, (long long)j->images);
    }
    if (j->input == NULL) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the input is empty");
    for (int64_t k = 0; k < j->regions && j->kind == ROI_ALIGN; k++) {
        const region r = region_of(j, k, j->dtype);
        const grid g = grid_of(j, &r);
        if (g.h * g.w < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "region %lld is turned over along one dim", (long long)k);
    }
    nbx_parallel_for(c->pool, j->regions, 1 + 1024 / (j->channels * j->bins), walk, &job);
    return NBX_OK;
}
