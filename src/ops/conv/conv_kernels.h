// The kernels that convolution_cpu.c chooses from.
#ifndef NBX_OPS_CONV_KERNELS_H
#define NBX_OPS_CONV_KERNELS_H

#include "cpu/isa.h"
#include "ops/conv/conv.h"

// Scratch of the blocked kernel, which depends on the tile; the largest of all instruction sets is taken.
#define CONV_MAX_ROWS 8
#define CONV_MAX_LANES 48
#define CONV_OUT_BLOCK 256  // channels of the result a task computes at most

typedef struct conv_tap {
    int64_t weight;            // offset in the weight
    int32_t sub[CONV_DIMS];    // which plane of the expanded input
    int32_t shift[CONV_DIMS];  // and where in it
} conv_tap;

typedef struct conv_phase {
    conv_axis axis[CONV_DIMS];
    int64_t first_tap, taps;
} conv_phase;

// How the blocked kernel cuts the work. A task expands the input of one block of positions (all channels of a group, with
// padding, split by stride into planes so that every tap reads consecutive elements) and multiplies it.
typedef struct conv_plan {
    int64_t phases, taps;       // taps in all
    int64_t phase_count[CONV_DIMS];
    int64_t sub[CONV_DIMS];     // planes along a dim: the stride
    int64_t origin[CONV_DIMS];  // input position of element 0 of the expansion of position 0
    int64_t block[CONV_DIMS], blocks[CONV_DIMS];  // positions of a block, and blocks (of the largest phase)
    int64_t size[CONV_DIMS];    // of a plane of the expansion
    int64_t channel;            // floats of one channel of the expansion
    bool direct;                // 1 x 1: tiles read the input where it lies
    int64_t columns;            // 0, or lanes of the positions of a small image, which are then gathered for every tap
    int64_t sums_floats;        // of a task
    bool pack;                  // the weights are copied to tiles
    int64_t rows;               // channels of the result of a group, rounded up to CONV_MAX_ROWS
    size_t taps_at, phases_at, offsets_at, weights_at, threads_at, thread_bytes;  // places in scratch
    size_t total;
} conv_plan;

void nbx_conv_plan(const nbx_conv *p, int threads, conv_plan *plan);

// Part of the result: channels (of all groups), rows and columns of one slice of one image.
typedef struct conv_part {
    int64_t image, slice, channel, channels, row, rows, column, columns;
} conv_part;

bool nbx_conv_reports(const nbx_conv *p);  // is the result in runs, so that its parts may be reported to the epilogue?
void nbx_conv_report(const nbx_conv *p, const conv_part *part);
bool conv_filters_are_runs(const nbx_conv *p);  // is every filter one run of floats, in the order channel, depth, height, width?

// How the kernel with channels of the result in its lanes cuts the work. A task has some positions of a slice and some panels of channels.
#define CONV_CHUNK 96             // positions whose sums are kept at a time
#define CONV_CHANNEL_TERMS 256    // of the sums between two visits to them
#define CONV_CHANNEL_PANELS 16    // of 16 channels each, of a task at most

typedef struct conv_channels_plan {
    bool copies;                  // rows of the input are copied, with padding and as floats; else they are read where they lie
    bool adjacent;                // channels of the copy are
    bool gathers;                 // what a tile reads is brought together first
    bool flat;                    // rows of the result follow each other
    int64_t taps, inner, panels;  // inner: terms of a sum; panels of a group
    int64_t block, blocks;        // positions of a task, and how many of these in a slice
    int64_t copy[CONV_DIMS];      // slices, rows and columns of the copy
    int64_t step[4];              // floats from channel to channel, tap to tap in depth, row to row, column to column of what is read
    int64_t place_step[2];        // from a row and a column of the result to the next
    size_t offsets_at, bias_at, weights_at, threads_at;
    size_t copy_at, places_at, gathered_at, sums_at, space_at, thread_bytes;  // of a thread
    size_t total;
} conv_channels_plan;

// Do rows of the result follow each other, and positions or channels lie side by side in them?
static inline bool nbx_conv_is_flat(const nbx_conv *p) {
    return (p->out[1] == 1 || p->out_stride[3] == p->out[2] * p->out_stride[4]) && (p->out_stride[4] == 1 || p->out_stride[1] == 1);
}
bool nbx_conv_is_channels(const nbx_conv *p);    // is this call, packed or not, for that kernel?
int64_t nbx_conv_copy_step(const nbx_conv *p, int d);
bool nbx_conv_reads_rows(const nbx_conv *p);     // may positions be read where they lie, as vectors?
void nbx_conv_channels_plan(const nbx_conv *p, int threads, conv_channels_plan *plan);

bool nbx_conv_is_blocked(const nbx_conv *p);    // else plain or depthwise
bool nbx_conv_is_depthwise(const nbx_conv *p);

typedef struct conv_depthwise_plan {
    int64_t band;               // rows of the result per task
    int64_t zeros_at, rows_at;  // places in a thread's scratch, in floats; taps come first
    size_t thread_bytes;
} conv_depthwise_plan;

void nbx_conv_depthwise_plan(const nbx_conv *p, conv_depthwise_plan *plan);

// The same with a channel in each lane.
typedef struct conv_lanes_plan {
    bool turns;             // 16 planes at a time become vectors of channels, and the result planes again
    int64_t band;           // rows of the result per task
    int64_t in_at, out_at;  // places of the turned planes in a thread's scratch, in floats; taps and bias come first
    size_t thread_bytes;
} conv_lanes_plan;

bool nbx_conv_is_lanes(const nbx_conv *p);  // of the depthwise ones
void nbx_conv_lanes_plan(const nbx_conv *p, conv_lanes_plan *plan);

#ifdef NBX_ISA_SUFFIX
void NBX_KERNEL(conv_plain)(nbx_pool *pool, const nbx_conv *p);
void NBX_KERNEL(conv_blocked)(nbx_pool *pool, const nbx_conv *p, void *scratch, int threads);
void NBX_KERNEL(conv_channels)(nbx_pool *pool, const nbx_conv *p, void *scratch, int threads);
void NBX_KERNEL(conv_channels_pack)(nbx_pool *pool, const nbx_conv *p, int64_t piece, int64_t pieces);
void NBX_KERNEL(conv_depthwise)(nbx_pool *pool, const nbx_conv *p, void *scratch);
void NBX_KERNEL(conv_depthwise_lanes)(nbx_pool *pool, const nbx_conv *p, void *scratch);
#endif

#endif
