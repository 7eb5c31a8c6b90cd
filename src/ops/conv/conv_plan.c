// How the blocked convolution cuts its work: blocks whose expanded input stays in the second-level cache.
#include <string.h>

#include "ops/conv/conv_kernels.h"

#define EXPANSION_FLOATS 65536  // 256 KiB: a quarter of the smallest L2 we care for

bool nbx_conv_is_depthwise(const nbx_conv *p) {
    return !p->transposed && p->in_channels == 1 && p->dilation[0] * (p->kernel[0] - 1) < 256 &&
           (p->dtype == NBX_FLOAT32 || p->dtype == NBX_FLOAT16 || p->dtype == NBX_BFLOAT16) && p->out_channels <= 4;
}

bool nbx_conv_is_blocked(const nbx_conv *p) {
    const double phases = p->transposed ? (double)p->stride[0] * (double)p->stride[1] * (double)p->stride[2] : 1;
    return phases < 65536 && (p->dtype == NBX_FLOAT32 || p->dtype == NBX_FLOAT16 || p->dtype == NBX_BFLOAT16);
}

static int64_t at_least(int64_t x, int64_t least) { return x < least ? least : x; }
static int64_t at_most(int64_t x, int64_t most) { return x > most ? most : x; }

bool conv_filters_are_runs(const nbx_conv *p) {
    int64_t step = 1;
    for (int d = CONV_DIMS - 1; d >= 0; d--) {
        if (p->kernel[d] != 1 && p->weight_stride[2 + d] != step) return false;
        step *= p->kernel[d];
    }
    return p->in_channels == 1 || p->weight_stride[1] == step;
}

bool nbx_conv_reports(const nbx_conv *p) { return !p->transposed && (p->out_stride[4] == 1 || p->out_stride[1] == 1); }

static void report_row(const nbx_conv *p, const conv_part *part, int64_t at) {
    const int64_t all = p->groups * p->out_channels;
    if (part->channels == all && p->out_stride[4] == all) {
        nbx_epilogue_run(p->epilogue, at, part->columns * all);
        return;
    }
    for (int64_t x = 0; x < part->columns; x++) nbx_epilogue_run(p->epilogue, at + x * p->out_stride[4], part->channels);
}

void nbx_conv_report(const nbx_conv *p, const conv_part *part) {
    const int64_t *stride = p->out_stride;
    const int64_t at = part->image * stride[0] + part->channel * stride[1] + part->slice * stride[2] + part->row * stride[3] + part->column * stride[4];
    if (!p->epilogue) return;
    for (int64_t y = 0; y < part->rows && stride[4] != 1; y++) report_row(p, part, at + y * stride[3]);
    if (stride[4] != 1) return;
    const bool whole = part->columns == stride[3] || part->rows == 1;
    for (int64_t c = 0; c < part->channels; c++)
        for (int64_t y = 0; y < (whole ? 1 : part->rows); y++)
            nbx_epilogue_run(p->epilogue, at + c * stride[1] + y * stride[3], whole ? part->rows * part->columns : part->columns);
}

// Range of positions a dim has (of the largest phase), and how far the taps reach beyond a position.
static void measure_axis(const nbx_conv *p, conv_plan *plan, int d, int64_t *positions, int64_t *halo) {
    if (!p->transposed) {
        plan->sub[d] = p->kernel[d] == 1 ? 1 : at_most(p->stride[d], (p->kernel[d] - 1) * p->dilation[d] + 1);
        plan->origin[d] = -p->padding[d];
        *positions = p->out[d];
        *halo = (p->kernel[d] - 1) * p->dilation[d] / p->stride[d];
        return;
    }
    int64_t least = INT64_MAX, most = INT64_MIN, shift;
    plan->sub[d] = 1;
    *positions = (p->out[d] + p->stride[d] - 1) / p->stride[d];
    for (int64_t phase = 0; phase < plan->phase_count[d]; phase++)
        for (int64_t k = 0; k < p->kernel[d]; k++) {
            if (!conv_tap_shift(p, d, phase, k, &shift)) continue;
            least = at_most(shift, least), most = at_least(shift, most);
        }
    if (least > most) least = most = 0;
    plan->origin[d] = least;
    *halo = most - least;
}

// May a tile read the input where it lies? Kernel and stride 1, no padding, rows of consecutive floats.
bool nbx_conv_reads_rows(const nbx_conv *p) {
    for (int d = 0; d < CONV_DIMS; d++)
        if (p->kernel[d] != 1 || p->stride[d] != 1 || p->padding[d] != 0) return false;
    return p->dtype == NBX_FLOAT32 && !p->transposed && p->in_stride[4] == 1 && p->in[2] >= 2 * CONV_MAX_LANES;
}

// a * b, or so much that no block fits: padding and dilation may be absurd.
static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX / 4 ? INT64_MAX / 4 : product;
}

static void choose_block(const nbx_conv *p, conv_plan *plan, const int64_t *positions, const int64_t *halo) {
    const int64_t planes = at_least(plan->sub[0] * plan->sub[1] * plan->sub[2] * p->in_channels, 1);
    const int64_t floats = at_least(EXPANSION_FLOATS / planes, 1);
    int64_t slice = halo[0] + 1;  // floats per channel, dim by dim from the outside
    const int64_t row = at_least(floats / times(slice, halo[1] + 1), 1);
    plan->block[2] = at_most(positions[2], at_least(at_most(row - halo[2], 256), CONV_MAX_LANES));
    slice = times(slice, plan->block[2] + halo[2]);
    plan->block[1] = at_most(positions[1], at_least(floats / slice - halo[1], 1));
    plan->block[0] = 1;
    plan->direct = nbx_conv_reads_rows(p);
    if (plan->direct) {
        plan->block[1] = 1;
    } else if (plan->block[1] == positions[1] && plan->block[2] == positions[2]) {
        slice = times(plan->block[2] + halo[2], plan->block[1] + halo[1]);
        plan->block[0] = at_most(positions[0], at_least(floats / slice - halo[0], 1));
    }
    plan->channel = plan->sub[0] * plan->sub[1] * plan->sub[2];
    for (int d = 0; d < CONV_DIMS; d++) {
        plan->block[d] = at_least(plan->block[d], 1);
        plan->blocks[d] = (positions[d] + plan->block[d] - 1) / plan->block[d];
        plan->size[d] = plan->block[d] + halo[d];
        plan->channel *= plan->size[d];
    }
}

// The blocked kernel reads weights in tiles: where they are not floats in runs, they are copied to some.
static bool must_pack(const nbx_conv *p) {
    return p->dtype != NBX_FLOAT32 || p->transposed || !conv_filters_are_runs(p) || p->out_channels < CONV_MAX_ROWS;
}

// Of all tiles, whatever the rows of a tile of the instruction set are.
static size_t tiles_bytes(const nbx_conv *p, int64_t inner) {
    const int64_t rows = (p->out_channels + CONV_MAX_ROWS - 1) / CONV_MAX_ROWS * CONV_MAX_ROWS + CONV_MAX_ROWS;
    return (size_t)(p->groups * rows * inner) * sizeof(float);
}

size_t nbx_conv_packed_bytes(const nbx_conv *p) {
    if (nbx_conv_channels_suit(p)) return nbx_conv_panel_bytes(p);
    if (nbx_conv_is_depthwise(p) || !nbx_conv_is_blocked(p) || !must_pack(p)) return 0;
    return tiles_bytes(p, p->in_channels * p->kernel[0] * p->kernel[1] * p->kernel[2]);
}

// Tiles over the expansion spend lanes on the halo between rows. Where that costs a small image a vector or more, its positions
// are gathered: 16 x 4 x 4 with a 3 x 3 kernel and 32 filters took 4.0 us, 22 lanes for 16 positions.
static void choose_columns(const nbx_conv *p, conv_plan *plan) {
    enum { MOST_FLOATS = 32768, FEWEST_FILTERS = 16 };
    int64_t positions = 1, flat = 0;
    for (int d = 0; d < CONV_DIMS; d++) {
        if (plan->blocks[d] != 1) return;
        positions = times(positions, plan->block[d]);
        flat = flat * plan->size[d] + plan->block[d] - (d < CONV_DIMS - 1);
    }
    const int64_t lanes = (positions + 15) / 16 * 16;
    if (p->transposed || plan->direct || p->out_channels < FEWEST_FILTERS || lanes >= flat || lanes > MOST_FLOATS / at_least(p->in_channels * plan->taps, 1)) return;
    plan->columns = lanes;
}

static size_t place(size_t *total, size_t bytes) {
    const size_t at = *total;
    *total += (bytes + 63) & ~(size_t)63;
    return at;
}

void nbx_conv_plan(const nbx_conv *p, int threads, conv_plan *plan) {
    int64_t positions[CONV_DIMS], halo[CONV_DIMS];
    memset(plan, 0, sizeof *plan);
    plan->phases = plan->taps = 1;
    for (int d = 0; d < CONV_DIMS; d++) {
        plan->phase_count[d] = p->transposed ? p->stride[d] : 1;
        plan->phases *= plan->phase_count[d];
        plan->taps *= p->kernel[d];
        measure_axis(p, plan, d, &positions[d], &halo[d]);
    }
    choose_block(p, plan, positions, halo);
    plan->rows = (p->out_channels + CONV_MAX_ROWS - 1) / CONV_MAX_ROWS * CONV_MAX_ROWS;
    plan->pack = !p->packed && must_pack(p);
    const int64_t inner = p->in_channels * plan->taps;
    const int64_t block = at_most(plan->rows, CONV_OUT_BLOCK) + CONV_MAX_ROWS;
    plan->taps_at = place(&plan->total, (size_t)plan->taps * sizeof(conv_tap));
    plan->phases_at = place(&plan->total, (size_t)plan->phases * sizeof(conv_phase));
    plan->offsets_at = place(&plan->total, (size_t)inner * sizeof(int32_t));
    if (plan->pack) plan->weights_at = place(&plan->total, tiles_bytes(p, inner));
    plan->threads_at = plan->total;
    place(&plan->thread_bytes, (size_t)(plan->channel * p->in_channels + 2 * CONV_MAX_LANES) * sizeof(float));
    choose_columns(p, plan);
    plan->sums_floats = 2 * block * CONV_MAX_LANES;  // the second half for an epilogue
    place(&plan->thread_bytes, (size_t)plan->sums_floats * sizeof(float));
    place(&plan->thread_bytes, plan->columns ? (size_t)(plan->columns * inner + 32) * sizeof(float) : 0);
    plan->total += plan->thread_bytes * (size_t)threads;
}

// Half precision: as many rows as keep the widened input near 24 KiB, of 32 of the first-level cache. Else tasks of some size.
void nbx_conv_depthwise_plan(const nbx_conv *p, conv_depthwise_plan *plan) {
    const bool widens = p->dtype != NBX_FLOAT32;
    const int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const int64_t rows = widens ? 6144 / at_least(p->in[2] * p->kernel[0] * p->stride[1], 1) : 65536 / at_least(p->out[2], 1);
    plan->band = at_most(at_least(rows, 8), at_least(p->out[1], 1));
    const int64_t lines = at_most(p->in[1], (plan->band - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1);
    const int64_t slices = (p->kernel[0] - 1) * p->dilation[0] + 1;
    plan->zeros_at = (taps + 15) / 16 * 16;
    plan->rows_at = plan->zeros_at + (p->in[2] + 15) / 16 * 16;
    plan->thread_bytes = (size_t)(plan->rows_at + (widens ? (slices * lines * p->in[2] + 15) / 16 * 16 : 0)) * sizeof(float);
}

static bool channels_are_adjacent(const nbx_conv *p) { return p->in_stride[1] == 1 && p->out_stride[1] == 1; }

// Planes of floats without gaps whose rows are short, or whose taps are many: by rows against by lanes 47 and 37 us for 384 of 14 x 14
// and 3 x 3, 68 and 86 for 192 of 28 x 28 and 3 x 3, 170 and 160 for 240 of 28 x 28 and 5 x 5, 512 and 380 for 96 of 56 x 56 and 7 x 7.
static bool turns_to_lanes(const nbx_conv *p) {
    const bool dense = p->in_stride[4] == 1 && p->in_stride[3] == p->in[2] && p->out_stride[4] == 1 && p->out_stride[3] == p->out[2];
    const int64_t widest = p->kernel[2] < 5 ? 16 : p->kernel[2] < 7 ? 28 : 64;
    return p->dtype == NBX_FLOAT32 && dense && p->kernel[0] == 1 && p->in[1] * p->in[2] <= 64 * widest && p->out[2] <= widest;
}

bool nbx_conv_is_lanes(const nbx_conv *p) {
    return nbx_conv_is_depthwise(p) && p->out_channels == 1 && p->groups >= 16 && (channels_are_adjacent(p) || turns_to_lanes(p));
}

void nbx_conv_lanes_plan(const nbx_conv *p, conv_lanes_plan *plan) {
    plan->turns = !channels_are_adjacent(p);
    plan->band = plan->turns ? p->out[1] : at_most(at_least(16384 / at_least(16 * p->out[2], 1), 1), at_least(p->out[1], 1));
    plan->in_at = p->kernel[0] * p->kernel[1] * p->kernel[2] * 16 + 16;
    plan->out_at = plan->in_at + (plan->turns ? p->in[1] * p->in[2] * 16 : 0);
    plan->thread_bytes = (size_t)(plan->out_at + (plan->turns ? p->out[1] * p->out[2] * 16 : 0)) * sizeof(float);
}

// Packed weights come later, and may bring another kernel.
static size_t dense_scratch(const nbx_conv *p, int threads) {
    conv_plan plan = {0};
    conv_channels_plan channels = {0};
    if (nbx_conv_channels_suit(p)) nbx_conv_channels_plan(p, threads, &channels);
    if (!nbx_conv_is_channels(p)) nbx_conv_plan(p, threads, &plan);
    return plan.total > channels.total ? plan.total : channels.total;
}

size_t nbx_conv_scratch(const nbx_conv *p, int threads) {
    if (nbx_conv_is_lanes(p)) {
        conv_lanes_plan lanes;
        nbx_conv_lanes_plan(p, &lanes);
        return lanes.thread_bytes * (size_t)threads;
    }
    if (nbx_conv_is_depthwise(p)) {
        conv_depthwise_plan depthwise;
        nbx_conv_depthwise_plan(p, &depthwise);
        return depthwise.thread_bytes * (size_t)threads;
    }
    return nbx_conv_is_blocked(p) ? dense_scratch(p, threads) : 0;
}
