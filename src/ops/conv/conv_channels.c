// When channels of the result are the lanes (conv_channels_cpu.c), and how that cuts its work.
#include <string.h>

#include "ops/conv/conv_kernels.h"

enum { COPY_FLOATS = 65536, MOST_COPY_FLOATS = 1 << 20, DIRECT_POSITIONS = 8 * CONV_CHUNK, FEWEST_PANELS = 4 };

static int64_t at_least(int64_t x, int64_t least) { return x < least ? least : x; }
static int64_t at_most(int64_t x, int64_t most) { return x > most ? most : x; }
static int64_t panels_of(const nbx_conv *p) { return (p->out_channels + 15) / 16; }
static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

size_t nbx_conv_panel_bytes(const nbx_conv *p) {
    return (size_t)(p->groups * panels_of(p) * 16 * p->in_channels * p->kernel[0] * p->kernel[1] * p->kernel[2]) * sizeof(float);
}

// Planes far from each other, too: a page for every channel is more than the processor's table of pages holds, and they share cache sets.
static bool must_copy(const nbx_conv *p) {
    enum { MANY_CHANNELS = 16, FAR_FLOATS = 512 };
    const bool apart = p->in_channels >= MANY_CHANNELS && p->in_stride[1] >= FAR_FLOATS;
    return p->dtype != NBX_FLOAT32 || p->padding[0] || p->padding[1] || p->padding[2] || apart;
}

// Of rows or columns that no tap reads, none are copied.
int64_t nbx_conv_copy_step(const nbx_conv *p, int d) { return p->kernel[d] == 1 && p->padding[d] == 0 ? p->stride[d] : 1; }

// Rows and columns of the input that `rows` rows of the result read.
static int64_t reach(const nbx_conv *p, int d, int64_t count) { return ((count - 1) * p->stride[d] + (p->kernel[d] - 1) * p->dilation[d]) / nbx_conv_copy_step(p, d) + 1; }
static int64_t copy_rows(const nbx_conv *p, int64_t rows) { return reach(p, 1, rows); }
static int64_t copy_columns(const nbx_conv *p) { return reach(p, 2, p->out[2]); }

// Do offsets fit 32 bits, and the copy of one row some memory? Sizes may be absurd.
static bool has_plain_sizes(const nbx_conv *p) {
    double reach = 0;
    for (int i = 1; i < 5; i++) {
        const int64_t size = i == 1 ? p->in_channels : p->in[i - 2];
        reach += (double)size * (double)magnitude(p->in_stride[i]);
    }
    double sizes = 1;
    for (int d = 0; d < CONV_DIMS; d++) sizes *= (double)p->out[d] * (double)p->stride[d] + (double)p->kernel[d] * (double)p->dilation[d] + (double)p->padding[d];
    if (reach > 1e9 || sizes > 1e9 || (double)p->in_channels * (double)p->kernel[0] * (double)p->kernel[1] * (double)p->kernel[2] > 1e7) return false;
    return !must_copy(p) || p->in_channels * p->kernel[0] * copy_rows(p, 1) * copy_columns(p) <= MOST_COPY_FLOATS;
}

// Channels that are adjacent in the result; else where positions would fill lanes worse, or their vectors lie across cache lines. Rows of a
// 1 x 1 convolution are read where they lie by the other kernel, and its result is not turned over.
bool nbx_conv_channels_suit(const nbx_conv *p) {
    enum { FEWEST_CHANNELS = 8, FEWEST_TERMS = 24, MOST_POSITIONS = 256 };
    if (p->transposed || nbx_conv_is_depthwise(p) || !nbx_conv_is_blocked(p) || !has_plain_sizes(p)) return false;
    const int64_t inner = p->in_channels * p->kernel[0] * p->kernel[1] * p->kernel[2], channels = p->out_channels;
    if (channels < FEWEST_CHANNELS || inner < 1) return false;
    if (p->out_stride[1] == 1 && p->groups * channels > 1) return true;
    const bool rows = nbx_conv_reads_rows(p) && (p->out[2] > MOST_POSITIONS || inner < 128);
    return !rows && inner >= FEWEST_TERMS && 4 * channels >= 3 * 16 * panels_of(p);
}

bool nbx_conv_is_channels(const nbx_conv *p) {
    enum { FEWEST_POSITIONS = 128 };  // packing takes the time of about 30
    return nbx_conv_channels_suit(p) && (p->packed || p->batch * p->out[0] * p->out[1] * p->out[2] >= FEWEST_POSITIONS);
}

static size_t place(size_t *total, size_t bytes) {
    const size_t at = *total;
    *total += (bytes + 63) & ~(size_t)63;
    return at;
}

static void measure_input(const nbx_conv *p, conv_channels_plan *plan) {
    plan->adjacent = p->in_stride[1] == 1 && p->in_channels > 1;
    if (!plan->copies) {
        plan->step[0] = p->in_stride[1], plan->step[1] = p->in_stride[2] * p->dilation[0], plan->step[2] = p->in_stride[3], plan->step[3] = p->in_stride[4];
        plan->place_step[0] = p->stride[1] * p->in_stride[3], plan->place_step[1] = p->stride[2] * p->in_stride[4];
        return;
    }
    const int64_t pixel = plan->adjacent ? p->in_channels : 1;
    plan->place_step[0] = p->stride[1] / nbx_conv_copy_step(p, 1) * plan->copy[2] * pixel;
    plan->place_step[1] = p->stride[2] / nbx_conv_copy_step(p, 2) * pixel;
    plan->step[3] = pixel;
    plan->step[2] = plan->copy[2] * pixel;
    plan->step[1] = plan->copy[1] * plan->step[2];
    plan->step[0] = plan->adjacent ? 1 : plan->copy[0] * plan->step[1];
}

void nbx_conv_channels_plan(const nbx_conv *p, int threads, conv_channels_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->copies = must_copy(p);
    plan->flat = nbx_conv_is_flat(p);
    plan->taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    plan->inner = plan->taps * p->in_channels;
    plan->panels = panels_of(p);
    int64_t rows = at_least(at_most(DIRECT_POSITIONS / at_least(p->out[2], 1), p->out[1]), 1);
    if (plan->copies) {
        const int64_t row = p->in_channels * p->kernel[0] * copy_columns(p);
        while (rows > 1 && row * copy_rows(p, rows) > COPY_FLOATS) rows--;
        plan->copy[0] = p->kernel[0], plan->copy[1] = copy_rows(p, rows), plan->copy[2] = copy_columns(p);
    }
    plan->block = plan->copies ? rows * p->out[2] : at_most(DIRECT_POSITIONS, p->out[1] * p->out[2]);
    plan->blocks = (p->out[1] * p->out[2] + plan->block - 1) / plan->block;
    measure_input(p, plan);
    plan->offsets_at = place(&plan->total, (size_t)plan->inner * sizeof(int32_t));
    plan->bias_at = place(&plan->total, (size_t)(p->groups * plan->panels) * 16 * sizeof(float));
    plan->weights_at = place(&plan->total, p->packed || !nbx_conv_is_channels(p) ? 0 : nbx_conv_panel_bytes(p));
    plan->copy_at = place(&plan->thread_bytes, (size_t)(plan->copies ? p->in_channels * plan->copy[0] * plan->copy[1] * plan->copy[2] : 0) * sizeof(float));
    plan->places_at = place(&plan->thread_bytes, (size_t)plan->block * sizeof(int32_t));
    plan->gathers = plan->taps == 1 && !plan->adjacent && plan->panels >= FEWEST_PANELS;
    plan->gathered_at = place(&plan->thread_bytes, (size_t)(plan->gathers ? (CONV_CHUNK + CONV_MAX_ROWS) * CONV_CHANNEL_TERMS : 0) * sizeof(float));
    plan->sums_at = place(&plan->thread_bytes, (size_t)at_most(plan->panels, CONV_CHANNEL_PANELS) * 16 * CONV_CHUNK * sizeof(float));
    plan->space_at = place(&plan->thread_bytes, (size_t)(3 * 16 * CONV_CHUNK) * sizeof(float));
    plan->threads_at = place(&plan->total, plan->thread_bytes * (size_t)threads);
}
