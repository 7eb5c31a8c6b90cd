// Convolution with 16 channels of the result in the lanes of a vector: a tile is a few positions times one to three such panels, and reads
// the input one element at a time, so that it may lie in any order and a tile may take any positions. Images whose channels are adjacent
// are written as they are made, others turned over, 16 x 16 at a time. Sums run over channel, then tap, as in the blocked kernel, so it
// depends on nothing but speed which of the two is taken. 1152 x 7 x 7 to 320, 1 x 1: 700 -> 420 us (Zen 3, AVX2, GCC 12).
#include <string.h>

#include "core/half.h"
#include "cpu/gemm_load.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"
#include "ops/epilogue_simd.h"

#define CHUNK CONV_CHUNK
#define INNER CONV_CHANNEL_TERMS  // terms between two visits to the sums: 16 KiB of weights a panel

typedef struct channels_job {
    const nbx_conv *p;
    const conv_channels_plan *plan;
    const int32_t *offsets;  // [channel][tap]
    const float *bias;       // [group][panel][16]
    float *weights;          // [group][panel][channel][tap][16]
    char *threads;
    int64_t part, parts;     // panels of a task, tasks for all panels
    int64_t first_panel;     // of those to be packed
    bool plain;              // the epilogue is one, and the result in runs
    nbx_epilogue_plain end;
} channels_job;

// ---------------------------------------------------------------------------------------------------------------- tiles
// What a tile computes: rows of `to` from positions whose inputs start at x + place[i].
typedef struct channels_tile {
    const float *w;        // panels, `panel` floats apart: [count][16]
    int64_t panel;
    const float *x;
    const int32_t *place;  // [rows]
    const int32_t *offset; // [count]; NULL: x is [count][TILE_ROWS]
    int64_t count;
    float *sums;           // [rows][row]
    int64_t row;
    bool first;            // the sums start from zero
    const float *bias;     // NULL, or [vectors][16]: added, and the result goes to `to`
    float *to;
    int64_t to_row;
    const nbx_epilogue_plain *end;  // NULL, or what comes after the bias
    int64_t at;            // of `to` in the result, for that
} channels_tile;

TILE_INLINE void tile_of_kind(const channels_tile *t, int rows, int vectors, bool packed) {
    vf32 c[TILE_ROWS][TILE_VECTORS];
    const float *x[TILE_ROWS];
    const float *w = t->w;
    const int64_t panel = t->panel, count = t->count;
    const int32_t *offset = t->offset;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        x[i] = packed ? t->x + i : t->x + t->place[i];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) c[i][v] = t->first ? v_zero() : v_load(t->sums + i * t->row + v * 16);
    }
    for (int64_t k = 0; k < count; k++) {
        const int64_t at = packed ? k * TILE_ROWS : offset[k];
        vf32 y[TILE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) y[v] = v_load(w + v * panel + k * 16);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const vf32 s = v_set1(x[i][at]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) c[i][v] = v_fma(y[v], s, c[i][v]);
        }
    }
    if (!t->bias) {
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) v_store(t->sums + i * t->row + v * 16, c[i][v]);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vf32 y = v_add(c[i][v], v_load(t->bias + v * 16));
            if (t->end) y = epilogue_plain(y, t->end, t->at + i * t->to_row + v * 16, 16);
            v_store(t->to + i * t->to_row + v * 16, y);
        }
}

TILE_INLINE void tile(const channels_tile *t, int rows, int vectors) {
    if (t->offset) tile_of_kind(t, rows, vectors, false);
    else tile_of_kind(t, rows, vectors, true);
}

// One function for each shape, so that each is compiled on its own.
#define TILE(R, V) static void tile_##R##_##V(const channels_tile *t) { tile(t, R, V); }
#if TILE_VECTORS > 1
#define TILES(R) TILE(R, 1) TILE(R, 2) TILE(R, 3)
#define ENTRY(R) {tile_##R##_1, tile_##R##_2, tile_##R##_3}
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) TILES(7) TILES(8)
static void (*const tile_of[TILE_ROWS][TILE_VECTORS])(const channels_tile *t) = {ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4),
                                                                                 ENTRY(5), ENTRY(6), ENTRY(7), ENTRY(8)};
#else
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
static void (*const tile_of[TILE_ROWS][TILE_VECTORS])(const channels_tile *t) = {{tile_1_1}, {tile_2_1}, {tile_3_1}, {tile_4_1}, {tile_5_1}, {tile_6_1}};
#endif

// ------------------------------------------------------------------------------------------------------------ the input
typedef struct channels_block {
    int64_t image, group, slice, first, count;  // positions of the slice, row by row
    const float *x;                             // what the first one's first tap reads
} channels_block;

static const char *input_at(const nbx_conv *p, const channels_block *b, int64_t z, int64_t y) {
    return p->input + (b->image * p->in_stride[0] + b->group * p->in_channels * p->in_stride[1] + z * p->in_stride[2] + y * p->in_stride[3]) *
                          (int64_t)nbx_dtype_size(p->dtype);
}

TILE_INLINE void widen(float *to, const char *from, int64_t step, int64_t count, nbx_dtype d) {
    int64_t i = 0;
    if (d == NBX_FLOAT32 && step == 1) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    for (; d != NBX_FLOAT32 && step == 1 && i + 16 <= count; i += 16) v_store(to + i, load_vec_f32(d, (const uint16_t *)(const void *)from + i));
    for (; d == NBX_FLOAT32 && step == 2 && i + 17 <= count; i += 16) {  // the 32nd element exists
        const float *at = (const float *)(const void *)from + i * 2;
        v_store(to + i, v_even(v_load(at), v_load(at + 16)));
    }
    for (; i < count; i++) to[i] = load_real_f32(d, from, i * step);
}

static void widen_any(const nbx_conv *p, float *to, const char *from, int64_t step, int64_t count) {
    if (p->dtype == NBX_FLOAT32) widen(to, from, step, count, NBX_FLOAT32);
    else if (p->dtype == NBX_FLOAT16) widen(to, from, step, count, NBX_FLOAT16);
    else widen(to, from, step, count, NBX_BFLOAT16);
}

// Columns of the copy that lie in the image.
typedef struct channels_span {
    int64_t begin, end;
} channels_span;

static channels_span span_of(const nbx_conv *p, const conv_channels_plan *plan) {
    channels_span s = {p->padding[2], p->padding[2] + (p->in[2] - 1) / nbx_conv_copy_step(p, 2) + 1};
    if (s.end > plan->copy[2]) s.end = plan->copy[2];
    if (s.begin > s.end) s.begin = s.end;
    return s;
}

// Rows of the input with their padding, in float: [slice][row][column][channel], or channels first.
static void copy_input(const channels_job *job, const channels_block *b, float *to) {
    const nbx_conv *p = job->p;
    const conv_channels_plan *plan = job->plan;
    const channels_span s = span_of(p, plan);
    const int64_t bytes = (int64_t)nbx_dtype_size(p->dtype), planes = plan->adjacent ? 1 : p->in_channels, pixel = plan->adjacent ? p->in_channels : 1;
    const int64_t row_step = nbx_conv_copy_step(p, 1), step = nbx_conv_copy_step(p, 2) * p->in_stride[4];
    const int64_t y0 = b->first / p->out[2] * p->stride[1] - p->padding[1];
    for (int64_t c = 0; c < planes; c++)
        for (int64_t k = 0; k < plan->copy[0]; k++)
            for (int64_t i = 0; i < plan->copy[1]; i++, to += plan->copy[2] * pixel) {
                const int64_t z = b->slice * p->stride[0] - p->padding[0] + k * p->dilation[0], y = y0 + i * row_step;
                if (z < 0 || z >= p->in[0] || y < 0 || y >= p->in[1]) {
                    memset(to, 0, (size_t)(plan->copy[2] * pixel) * sizeof *to);
                    continue;
                }
                const char *row = input_at(p, b, z, y) + c * p->in_stride[1] * bytes;
                memset(to, 0, (size_t)(s.begin * pixel) * sizeof *to);
                if (!plan->adjacent) widen_any(p, to + s.begin, row, step, s.end - s.begin);
                else if (step == pixel) widen_any(p, to + s.begin * pixel, row, 1, (s.end - s.begin) * pixel);
                else
                    for (int64_t x = 0; x < s.end - s.begin; x++) widen_any(p, to + (s.begin + x) * pixel, row + x * step * bytes, 1, pixel);
                memset(to + s.end * pixel, 0, (size_t)((plan->copy[2] - s.end) * pixel) * sizeof *to);
            }
}

static void list_places(const channels_job *job, const channels_block *b, int32_t *place) {
    const nbx_conv *p = job->p;
    const conv_channels_plan *plan = job->plan;
    int64_t y = plan->copies ? 0 : b->first / p->out[2], x = b->first % p->out[2];
    for (int64_t i = 0; i < b->count; i++) {
        place[i] = (int32_t)(y * plan->place_step[0] + x * plan->place_step[1]);
        if (++x == p->out[2]) x = 0, y++;
    }
}

// ----------------------------------------------------------------------------------------------------------- the result
// Finished sums: [position][16 * vectors], of channels from `channel` of the group on.
typedef struct channels_part {
    const channels_block *b;
    int64_t position, count;    // of the slice
    int64_t channel, channels;  // channels: those that exist
    int64_t width;              // floats of a row
    float *sums;
} channels_part;

static int64_t output_at(const nbx_conv *p, const channels_part *t, int64_t position) {
    return t->b->image * p->out_stride[0] + (t->b->group * p->out_channels + t->channel) * p->out_stride[1] + t->b->slice * p->out_stride[2] +
           position / p->out[2] * p->out_stride[3] + position % p->out[2] * p->out_stride[4];
}

static void put(const nbx_conv *p, int64_t at, float y) {
    if (p->dtype == NBX_FLOAT32) ((float *)p->output)[at] = y;
    else if (p->dtype == NBX_FLOAT16) ((uint16_t *)p->output)[at] = nbx_to_f16(y);
    else ((uint16_t *)p->output)[at] = nbx_to_bf16(y);
}

TILE_INLINE void put_vector(const channels_job *job, int64_t at, vf32 y, int count) {
    const nbx_conv *p = job->p;
    if (p->dtype == NBX_FLOAT32) {
        y = epilogue_plain(y, &job->end, at, count);
        if (count == 16) v_store((float *)p->output + at, y);
        else v_store_n((float *)p->output + at, y, count);
    } else if (p->dtype == NBX_FLOAT16) {
        if (count == 16) v_store_f16((uint16_t *)p->output + at, y);
        else v_store_f16_n((uint16_t *)p->output + at, y, count);
    } else {
        if (count == 16) v_store_bf16((uint16_t *)p->output + at, y);
        else v_store_bf16_n((uint16_t *)p->output + at, y, count);
    }
}

static void store_pixels(const channels_job *job, const channels_part *t) {
    const nbx_conv *p = job->p;
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t at = output_at(p, t, t->position + i);
        for (int64_t c = 0; c < t->channels; c += 16) put_vector(job, at + c, v_load(t->sums + i * t->width + c), (int)(t->channels - c < 16 ? t->channels - c : 16));
    }
}

// to[j][i] = from[i][j]. Whole lines of `to` at a time.
TILE_INLINE void turn_square(const channels_job *job, float *to, int64_t to_row, const float *from, int64_t from_row) {
    const int64_t at = to - (float *)job->p->output;
    float square[16 * 16];
    v_copy_transposed(square, 16, from, from_row);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) v_store(to + k * to_row, epilogue_plain(v_load(square + k * 16), &job->end, at + k * to_row, 16));
}

// 16 positions of 16 channels at a time; of fewer channels the other rows of the turned square are not stored.
static void store_planes(const channels_job *job, const channels_part *t) {
    const nbx_conv *p = job->p;
    const int64_t next = p->out_stride[1], at = output_at(p, t, t->position);
    float square[16 * 16];
    for (int64_t c = 0; c < t->channels; c += 16) {
        const int64_t channels = t->channels - c < 16 ? t->channels - c : 16;
        for (int64_t i = 0; i < t->count; i += 16) {
            const int64_t positions = t->count - i < 16 ? t->count - i : 16;
            const float *from = t->sums + i * t->width + c;
            if (p->dtype == NBX_FLOAT32 && channels == 16 && positions == 16) {
                turn_square(job, (float *)p->output + at + c * next + i, next, from, t->width);
                continue;
            }
            v_copy_transposed(square, 16, from, t->width);  // rows past the last position lie in the scratch, too
            for (int64_t k = 0; k < channels; k++) put_vector(job, at + (c + k) * next + i, v_load(square + k * 16), (int)positions);
        }
    }
}

static void store_any(const nbx_conv *p, const channels_part *t) {
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t at = output_at(p, t, t->position + i);
        for (int64_t c = 0; c < t->channels; c++) put(p, at + c * p->out_stride[1], t->sums[i * t->width + c]);
    }
}

// The same elements of a tensor that lies as the result does, as the sums lie.
static void gather(const void *arg, const void *data, float *to) {
    const channels_job *job = ((const void *const *)arg)[0];
    const channels_part *t = ((const void *const *)arg)[1];
    const nbx_conv *p = job->p;
    const float *from = data;
    const int64_t next = p->out_stride[1], at = output_at(p, t, t->position);
    if (next == 1) {
        for (int64_t i = 0; i < t->count; i++) memcpy(to + i * t->width, from + output_at(p, t, t->position + i), (size_t)t->channels * sizeof *to);
        return;
    }
    for (int64_t c = 0; c < t->channels; c += 16)
        for (int64_t i = 0; i < t->count; i += 16) {
            if (t->channels - c >= 16 && t->count - i >= 16) {
                v_copy_transposed(to + i * t->width + c, t->width, from + at + c * next + i, next);
                continue;
            }
            for (int64_t l = i; l < t->count && l < i + 16; l++)
                for (int64_t k = c; k < t->channels && k < c + 16; k++) to[l * t->width + k] = from[at + k * next + l];
        }
}

static void store_part(const channels_job *job, const channels_part *t, float *space) {
    const nbx_conv *p = job->p;
    const bool inside = p->epilogue && p->dtype == NBX_FLOAT32 && job->plan->flat;
    if (inside && !job->plain) nbx_epilogue_run_tile(p->epilogue, t->sums, t->count * t->width, space, gather, (const void *[]){job, t});
    if (p->out_stride[1] == 1) store_pixels(job, t);
    else if (job->plan->flat && p->out_stride[4] == 1) store_planes(job, t);
    else store_any(p, t);
    if (p->epilogue && !inside && job->plan->flat)
        nbx_conv_report(p, &(conv_part){t->b->image, t->b->slice, t->b->group * p->out_channels + t->channel, t->channels, 0, 1, t->position, t->count});
}

// ---------------------------------------------------------------------------------------------------------------- tasks
// `vectors` panels from `panel` on, of the positions of a chunk. direct: rows of the result are written where they belong.
static void compute_panels(const channels_job *job, const channels_block *b, const int32_t *place, const float *gathered, int64_t count, int64_t panel,
                           int vectors, int64_t k, int64_t terms, channels_part *t, bool direct) {
    const nbx_conv *p = job->p;
    const int64_t inner = job->plan->inner, all = b->group * job->plan->panels + panel, tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
    channels_tile c = {.w = job->weights + (all * inner + k) * 16, .panel = inner * 16, .x = b->x, .offset = job->offsets + k, .count = terms,
                       .row = t->width, .first = k == 0, .to_row = direct ? p->out_stride[4] : t->width};
    if (k + terms >= inner) c.bias = job->bias + all * 16;
    if (direct && p->epilogue) c.end = &job->end;
    const int64_t first = direct ? output_at(p, t, t->position) : 0;
    float *to = direct ? (float *)p->output + first : t->sums;
    const int64_t height = count / tiles, higher = count % tiles, lines = (terms + tiles - 1) / tiles;
    // what the next panel reads is asked for meanwhile, a part with each tile: 1280 filters of 320 x 7 x 7 take 567 -> 509 us
    const float *next = panel + vectors < job->plan->panels ? c.w + vectors * c.panel : NULL;
    for (int64_t i = 0, at = 0; i < tiles; i++) {  // of equal height, or one row less
        const int64_t rows = height + (i < higher);
        for (int64_t l = i * lines; next && l < (i + 1) * lines && l < terms; l++) __builtin_prefetch(next + l * 16, 0, 2);
        c.place = place + at;
        if (gathered) c.x = gathered + i * terms * TILE_ROWS, c.offset = NULL;
        c.sums = t->sums + at * t->width;
        c.to = to + at * c.to_row, c.at = first + at * c.to_row;
        tile_of[rows - 1][vectors - 1](&c);
        at += rows;
    }
}

// What the tiles of a chunk read, tile after tile: planes lie too far apart for the first cache where each term reads another one.
static void gather_positions(const channels_job *job, const channels_block *b, const int32_t *place, int64_t count, int64_t k, int64_t terms, float *to) {
    const int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS, height = count / tiles, higher = count % tiles;
    const int32_t *offset = job->offsets + k;
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t rows = height + (i < higher);
        const float *x = b->x + place[0];
        if (rows == TILE_ROWS && place[TILE_ROWS - 1] - place[0] == TILE_ROWS - 1) {
            for (int64_t l = 0; l < terms; l++, to += TILE_ROWS) memcpy(to, x + offset[l], TILE_ROWS * sizeof *to);
        } else {
            for (int64_t l = 0; l < terms; l++, to += TILE_ROWS)
                for (int64_t r = 0; r < rows; r++) to[r] = b->x[place[r] + offset[l]];
        }
        place += rows;
    }
}

static void compute_chunk(const channels_job *job, const channels_block *b, const int32_t *place, int64_t first, int64_t count, int64_t begin,
                          int64_t end, float *sums, float *space, float *gathered) {
    const nbx_conv *p = job->p;
    const int64_t inner = job->plan->inner;
    for (int64_t k = 0; k < inner; k += INNER) {
        const int64_t terms = inner - k < INNER ? inner - k : INNER;
        if (gathered) gather_positions(job, b, place + first, count, k, terms, gathered);
        const int64_t groups = (end - begin + TILE_VECTORS - 1) / TILE_VECTORS;
        for (int64_t g = 0, panel = begin; g < groups; g++) {
            const int vectors = (int)((end - panel + groups - g - 1) / (groups - g));
            channels_part t = {b, b->first + first, count, panel * 16, p->out_channels - panel * 16, vectors * 16, sums + (panel - begin) * 16 * CHUNK};
            if (t.channels > t.width) t.channels = t.width;
            const bool direct = p->dtype == NBX_FLOAT32 && p->out_stride[1] == 1 && job->plan->flat && t.channels == t.width && (!p->epilogue || job->plain);
            compute_panels(job, b, place + first, gathered, count, panel, vectors, k, terms, &t, direct);
            if (!direct && k + terms >= inner) store_part(job, &t, space);
            panel += vectors;
        }
    }
}

static void channels_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const channels_job *job = arg;
    const nbx_conv *p = job->p;
    const conv_channels_plan *plan = job->plan;
    char *own = job->threads + (size_t)thread * plan->thread_bytes;
    float *copy = (float *)(own + plan->copy_at), *sums = (float *)(own + plan->sums_at), *space = (float *)(own + plan->space_at);
    float *gathered = plan->gathers ? (float *)(own + plan->gathered_at) : NULL;
    int32_t *place = (int32_t *)(own + plan->places_at);
    int64_t made = -1;
    channels_block b = {0};
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task / job->parts;
        if (rest != made) {
            made = rest;
            b.first = rest % plan->blocks * plan->block, rest /= plan->blocks;
            b.slice = rest % p->out[0], rest /= p->out[0];
            b.group = rest % p->groups;
            b.image = rest / p->groups;
            b.count = p->out[1] * p->out[2] - b.first < plan->block ? p->out[1] * p->out[2] - b.first : plan->block;
            b.x = copy;
            if (plan->copies) copy_input(job, &b, copy);
            else b.x = (const float *)input_at(p, &b, b.slice * p->stride[0], 0);
            list_places(job, &b, place);
        }
        const int64_t first = task % job->parts * job->part, last = first + job->part < plan->panels ? first + job->part : plan->panels;
        for (int64_t i = 0; i < b.count;) {
            const int64_t left = b.count - i, count = left <= CHUNK ? left : left < 2 * CHUNK ? (left / 2 + 15) / 16 * 16 : CHUNK;
            compute_chunk(job, &b, place, i, count, first, last, sums, space, gathered);
            i += count;
        }
    }
}

// -------------------------------------------------------------------------------------------------------------- weights
// Panels of 16 filters, in the order channel, tap.
static void pack_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const channels_job *job = arg;
    const nbx_conv *p = job->p;
    const conv_channels_plan *plan = job->plan;
    const int64_t area = p->kernel[1] * p->kernel[2], bytes = (int64_t)nbx_dtype_size(p->dtype);
    const bool runs = conv_filters_are_runs(p);
    float square[16 * 16];
    (void)thread;
    for (int64_t i = begin + job->first_panel; i < end + job->first_panel; i++) {
        float *to = job->weights + i * plan->inner * 16;
        const int64_t group = i / plan->panels, channel = i % plan->panels * 16, rows = p->out_channels - channel < 16 ? p->out_channels - channel : 16;
        const char *from = p->weight + (group * p->out_channels + channel) * p->weight_stride[0] * bytes;
        int64_t k = 0;
        for (; runs && rows == 16 && k + 16 <= plan->inner; k += 16) {
            for (int64_t r = 0; r < 16; r++) widen_any(p, square + r * 16, from + (r * p->weight_stride[0] + k) * bytes, 1, 16);
            v_copy_transposed(to + k * 16, 16, square, 16);
        }
        for (; k < plan->inner; k++) {
            const int64_t c = k / plan->taps, tap = k % plan->taps;
            const int64_t at = c * p->weight_stride[1] + tap / area * p->weight_stride[2] + tap / p->kernel[2] % p->kernel[1] * p->weight_stride[3] +
                               tap % p->kernel[2] * p->weight_stride[4];
            for (int64_t r = 0; r < 16; r++) to[k * 16 + r] = r < rows ? load_real_f32(p->dtype, from, r * p->weight_stride[0] + at) : 0;
        }
    }
}

static void pack_panels(nbx_pool *pool, channels_job *job, int64_t first, int64_t count) {
    job->first_panel = first;
    nbx_parallel_for(pool, count, 1 + 8192 / (job->plan->inner * 16), pack_tasks, job);
}

void NBX_KERNEL(conv_channels_pack)(nbx_pool *pool, const nbx_conv *p, int64_t piece, int64_t pieces) {
    conv_channels_plan plan;
    nbx_conv_channels_plan(p, 1, &plan);
    channels_job job = {.p = p, .plan = &plan, .weights = p->packed};
    const int64_t panels = p->groups * plan.panels, step = (panels + pieces - 1) / pieces, first = piece * step;
    if (first < panels) pack_panels(pool, &job, first, panels - first < step ? panels - first : step);
}

// ----------------------------------------------------------------------------------------------------------- everything
static void list_offsets(const nbx_conv *p, const conv_channels_plan *plan, int32_t *offset) {
    for (int64_t c = 0; c < p->in_channels; c++)
        for (int64_t z = 0; z < p->kernel[0]; z++)
            for (int64_t y = 0; y < p->kernel[1]; y++)
                for (int64_t x = 0; x < p->kernel[2]; x++)
                    *offset++ = (int32_t)(c * plan->step[0] + z * plan->step[1] + y * p->dilation[1] * plan->step[2] + x * p->dilation[2] * plan->step[3]);
}

void NBX_KERNEL(conv_channels)(nbx_pool *pool, const nbx_conv *p, void *scratch, int threads) {
    conv_channels_plan plan;
    nbx_conv_channels_plan(p, threads, &plan);
    char *memory = scratch;
    int32_t *offsets = (int32_t *)(memory + plan.offsets_at);
    float *bias = (float *)(memory + plan.bias_at);
    channels_job job = {.p = p, .plan = &plan, .offsets = offsets, .bias = bias, .threads = memory + plan.threads_at,
                        .weights = p->packed ? p->packed : (float *)(memory + plan.weights_at)};
    job.plain = p->dtype == NBX_FLOAT32 && plan.flat && nbx_epilogue_is_plain(p->epilogue, &job.end);
    if (!job.plain) job.end = (nbx_epilogue_plain){0};
    list_offsets(p, &plan, offsets);
    for (int64_t i = 0; i < p->groups * plan.panels * 16; i++) {
        const int64_t channel = i % (plan.panels * 16), at = (i / (plan.panels * 16) * p->out_channels + channel) * p->bias_stride;
        bias[i] = p->bias && channel < p->out_channels ? load_real_f32(p->dtype, p->bias, at) : 0;
    }
    if (!p->packed) pack_panels(pool, &job, 0, p->groups * plan.panels);
    const int64_t blocks = p->batch * p->groups * p->out[0] * plan.blocks;
    job.parts = (plan.panels + CONV_CHANNEL_PANELS - 1) / CONV_CHANNEL_PANELS;
    while (blocks * job.parts < 2 * threads && threads > 1 && plan.panels / (job.parts + 1) >= 2) job.parts++;
    job.part = (plan.panels + job.parts - 1) / job.parts;
    job.parts = (plan.panels + job.part - 1) / job.part;
    nbx_parallel_for(pool, blocks * job.parts, 1, channels_tasks, &job);
}
