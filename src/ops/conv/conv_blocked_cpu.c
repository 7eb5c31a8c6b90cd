// Convolution without im2col: the input of a block is expanded once (padding, strides and dtype resolved), and every tap
// reads consecutive floats of it at an offset from a table. Sums run over channel, then tap, whatever the blocks and threads.
#include <string.h>

#include "core/half.h"
#include "cpu/gemm_load.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"
#include "ops/epilogue_simd.h"

#define INNER 128  // terms between two visits to the sums: a tile's part of the expansion, 24 KiB at most, stays in L1

typedef struct conv_job {
    const nbx_conv *p;
    const conv_plan *plan;
    const conv_tap *taps;
    const conv_phase *phases;
    const int32_t *offsets;  // [phase][channel][tap]
    float *weights;          // NULL, or packed: [group][phase][tile][channel][tap][row]
    char *threads;
    int64_t out_block, out_blocks;  // channels of the result per task
    int64_t first_tile, packed_tiles;  // what is to be packed, of all groups and phases
    nbx_epilogue_plain end;  // of float32: what is done to a vector before it is stored
    bool ends_tiles;         // float32, and more than that: the steps run on the sums of some lanes
} conv_job;

// ---------------------------------------------------------------------------------------------------------- preparation
static void list_taps(const nbx_conv *p, const conv_plan *plan, conv_phase *phases, conv_tap *taps) {
    int64_t count = 0, index = 0, shift[CONV_DIMS];
    for (int64_t a = 0; a < plan->phase_count[0]; a++)
        for (int64_t b = 0; b < plan->phase_count[1]; b++)
            for (int64_t c = 0; c < plan->phase_count[2]; c++) {
                conv_phase *phase = &phases[index++];
                *phase = (conv_phase){{conv_axis_of(p, 0, a), conv_axis_of(p, 1, b), conv_axis_of(p, 2, c)}, count, 0};
                for (int64_t k = 0; k < plan->taps; k++) {
                    const int64_t at[] = {k / (p->kernel[1] * p->kernel[2]), k / p->kernel[2] % p->kernel[1], k % p->kernel[2]};
                    if (!conv_tap_shift(p, 0, a, at[0], &shift[0]) || !conv_tap_shift(p, 1, b, at[1], &shift[1]) ||
                        !conv_tap_shift(p, 2, c, at[2], &shift[2]))
                        continue;
                    conv_tap *tap = &taps[count++];
                    tap->weight = 0;
                    for (int d = 0; d < CONV_DIMS; d++) {
                        const int64_t reach = shift[d] - plan->origin[d], step = p->transposed ? 1 : p->stride[d];
                        tap->weight += at[d] * p->weight_stride[2 + d];
                        tap->sub[d] = (int32_t)(reach % step);
                        tap->shift[d] = (int32_t)(reach / step);
                    }
                }
                phase->taps = count - phase->first_tap;
            }
}

static void list_offsets(const nbx_conv *p, const conv_plan *plan, const conv_phase *phases, const conv_tap *taps, int32_t *offsets) {
    for (int64_t i = 0; i < plan->phases; i++)
        for (int64_t c = 0; c < p->in_channels; c++)
            for (int64_t k = 0; k < phases[i].taps; k++) {
                const conv_tap *tap = &taps[phases[i].first_tap + k];
                int64_t at = c;
                for (int d = 0; d < CONV_DIMS; d++) at = at * plan->sub[d] + tap->sub[d];
                for (int d = 0; d < CONV_DIMS; d++) at = at * plan->size[d] + tap->shift[d];
                *offsets++ = (int32_t)at;
            }
}

static int64_t tiles_of(const nbx_conv *p) { return (p->out_channels + TILE_ROWS - 1) / TILE_ROWS; }

static float *packed_tile(const conv_job *job, int64_t group, const conv_phase *phase, int64_t tile) {
    const nbx_conv *p = job->p;
    const int64_t tiles = tiles_of(p), inner = p->in_channels * job->plan->taps;
    const int64_t at = group * tiles * inner + tiles * p->in_channels * phase->first_tap + tile * p->in_channels * phase->taps;
    return job->weights + at * TILE_ROWS;
}

static void pack_tile(const conv_job *job, int64_t group, const conv_phase *phase, int64_t tile) {
    const nbx_conv *p = job->p;
    float *to = packed_tile(job, group, phase, tile);
    for (int64_t c = 0; c < p->in_channels; c++)
        for (int64_t k = 0; k < phase->taps; k++)
            for (int64_t i = 0; i < TILE_ROWS; i++) {
                const int64_t row = tile * TILE_ROWS + i;
                const int64_t at = (group * (p->transposed ? 0 : p->out_channels) + row) * p->weight_stride[0] +
                                   (c + (p->transposed ? group * p->in_channels : 0)) * p->weight_stride[1] +
                                   job->taps[phase->first_tap + k].weight;
                *to++ = row < p->out_channels ? load_real_f32(p->dtype, p->weight, at) : 0;
            }
}

static void pack_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const conv_job *job = arg;
    const int64_t tiles = tiles_of(job->p);
    (void)thread;
    for (int64_t i = begin + job->first_tile; i < end + job->first_tile; i++)
        pack_tile(job, i / tiles / job->plan->phases, &job->phases[i / tiles % job->plan->phases], i % tiles);
}

// ------------------------------------------------------------------------------------------------------------ expansion
// One row of a plane: elements x = start + i * step of the input row, zero outside.
TILE_INLINE void expand_row(float *to, int64_t count, const char *row, int64_t stride, int64_t start, int64_t step, int64_t size,
                            nbx_dtype d) {
    int64_t i = 0, last = start >= size ? 0 : (size - start + step - 1) / step;
    if (last > count) last = count;
    for (; i < last && start + i * step < 0; i++) to[i] = 0;
    if (stride * step == 1 && d == NBX_FLOAT32) {
        if (last > i) memcpy(to + i, (const float *)row + start + i, (size_t)(last - i) * sizeof *to), i = last;
    } else if (stride * step == 1 && d == NBX_FLOAT16) {
        for (; i + 16 <= last; i += 16) v_store(to + i, v_load_f16((const uint16_t *)row + start + i));
        for (; i < last; i++) to[i] = load_real_f32(d, row, start + i);
    } else if (stride * step == 1 && d == NBX_BFLOAT16) {
        for (; i + 16 <= last; i += 16) v_store(to + i, v_load_bf16((const uint16_t *)row + start + i));
        for (; i < last; i++) to[i] = load_real_f32(d, row, start + i);
    } else if (stride == 1 && step == 2 && d == NBX_FLOAT32) {
        for (; i + 17 <= last; i += 16) {  // the 32nd element exists
            const float *at = (const float *)row + start + i * 2;
            v_store(to + i, v_even(v_load(at), v_load(at + 16)));
        }
        for (; i < last; i++) to[i] = load_real_f32(d, row, start + i * 2);
    } else {
        for (; i < last; i++) to[i] = load_real_f32(d, row, (start + i * step) * stride);
    }
    for (; i < count; i++) to[i] = 0;
}

typedef struct conv_block {
    const conv_phase *phase;
    int64_t batch, group;
    int64_t start[CONV_DIMS], count[CONV_DIMS];  // positions
} conv_block;

static void expand_plane(const conv_job *job, const conv_block *b, const char *channel, const int64_t *sub, float *to) {
    const nbx_conv *p = job->p;
    const conv_plan *plan = job->plan;
    const int64_t bytes = (int64_t)nbx_dtype_size(p->dtype);
    int64_t start[CONV_DIMS], step[CONV_DIMS];
    for (int d = 0; d < CONV_DIMS; d++) {
        step[d] = b->phase->axis[d].stride;
        start[d] = b->start[d] * step[d] + sub[d] + plan->origin[d];
    }
    for (int64_t i = 0; i < plan->size[0]; i++)
        for (int64_t j = 0; j < plan->size[1]; j++, to += plan->size[2]) {
            const int64_t z = start[0] + i * step[0], y = start[1] + j * step[1];
            if (z < 0 || z >= p->in[0] || y < 0 || y >= p->in[1]) {
                memset(to, 0, (size_t)plan->size[2] * sizeof *to);
                continue;
            }
            const char *row = channel + (z * p->in_stride[2] + y * p->in_stride[3]) * bytes;
            if (p->dtype == NBX_FLOAT16) expand_row(to, plan->size[2], row, p->in_stride[4], start[2], step[2], p->in[2], NBX_FLOAT16);
            else if (p->dtype == NBX_BFLOAT16) expand_row(to, plan->size[2], row, p->in_stride[4], start[2], step[2], p->in[2], NBX_BFLOAT16);
            else expand_row(to, plan->size[2], row, p->in_stride[4], start[2], step[2], p->in[2], NBX_FLOAT32);
        }
}

static const char *channel_of(const nbx_conv *p, const conv_block *b, int64_t c) {
    return p->input + (b->batch * p->in_stride[0] + (b->group * p->in_channels + c) * p->in_stride[1]) * (int64_t)nbx_dtype_size(p->dtype);
}

static void expand(const conv_job *job, const conv_block *b, float *to) {
    const nbx_conv *p = job->p;
    const conv_plan *plan = job->plan;
    int64_t sub[CONV_DIMS];
    for (int64_t c = 0; c < p->in_channels; c++)
        for (sub[0] = 0; sub[0] < plan->sub[0]; sub[0]++)
            for (sub[1] = 0; sub[1] < plan->sub[1]; sub[1]++)
                for (sub[2] = 0; sub[2] < plan->sub[2]; sub[2]++, to += plan->size[0] * plan->size[1] * plan->size[2])
                    expand_plane(job, b, channel_of(p, b, c), sub, to);
    memset(to, 0, TILE_LANES * sizeof *to);
}

// ------------------------------------------------------------------------------------------------------------ one tile
// Runs of lanes that are positions of the block, and where each begins in the result's channel.
typedef struct conv_runs {
    int count;
    struct {
        int lane, length;
        int64_t out;
    } run[TILE_LANES];
} conv_runs;

// size: of the rows and slices that positions are counted in.
static void find_runs(const conv_job *job, const conv_block *b, const int64_t *size, int64_t flat, int lanes, conv_runs *runs) {
    const nbx_conv *p = job->p;
    runs->count = 0;
    for (int lane = 0; lane < lanes;) {
        const int64_t at = flat + lane, x = at % size[2], y = at / size[2] % size[1], z = at / size[2] / size[1];
        const int64_t left = size[2] - x;
        if (x < b->count[2] && y < b->count[1] && z < b->count[0]) {
            int64_t length = b->count[2] - x, out = 0;
            const int64_t position[] = {b->start[0] + z, b->start[1] + y, b->start[2] + x};
            for (int d = 0; d < CONV_DIMS; d++)
                out += (b->phase->axis[d].first + position[d] * b->phase->axis[d].step) * p->out_stride[2 + d];
            if (length > lanes - lane) length = lanes - lane;
            const int last = runs->count - 1;
            const int64_t step = b->phase->axis[2].step * p->out_stride[4];
            if (last >= 0 && runs->run[last].lane + runs->run[last].length == lane && runs->run[last].out + runs->run[last].length * step == out) {
                runs->run[last].length += (int)length;  // rows of a gathered image that lie side by side in the result, too
            } else {
                runs->run[runs->count].lane = lane;
                runs->run[runs->count].length = (int)length;
                runs->run[runs->count++].out = out;
            }
        }
        lane += (int)(left < lanes - lane ? left : lanes - lane);
    }
}

TILE_INLINE void store_row(const conv_job *job, const conv_runs *runs, const float *sums, float bias, char *out, int64_t step, nbx_dtype d) {
    const int64_t first = ((const char *)out - job->p->output) / (int64_t)sizeof(float);
    for (int r = 0; r < runs->count; r++) {
        const float *from = sums + runs->run[r].lane;
        const int64_t at = runs->run[r].out;
        const int length = runs->run[r].length;
        for (int i = 0; i < length; i += 16) {
            const int lanes = length - i < 16 ? length - i : 16;
            vf32 y = v_load(from + i);
            if (!job->ends_tiles) y = v_add(y, v_set1(bias));
            if (d == NBX_FLOAT32 && step == 1) y = epilogue_plain(y, &job->end, first + at + i, lanes);
            if (step == 1 && d == NBX_FLOAT32) {
                v_store_n((float *)out + at + i, y, lanes);
            } else if (step == 1 && lanes == 16) {
                if (d == NBX_FLOAT16) v_store_f16((uint16_t *)out + at + i, y);
                else v_store_bf16((uint16_t *)out + at + i, y);
            } else {
                float narrow[16];
                v_store(narrow, y);
                for (int l = 0; l < lanes; l++) {
                    if (d == NBX_FLOAT16) ((uint16_t *)out)[at + (i + l) * step] = nbx_to_f16(narrow[l]);
                    else if (d == NBX_BFLOAT16) ((uint16_t *)out)[at + (i + l) * step] = nbx_to_bf16(narrow[l]);
                    else ((float *)out)[at + (i + l) * step] = narrow[l];
                }
            }
        }
    }
}

static void store_rows(const conv_job *job, const conv_block *b, const conv_runs *runs, const float *sums, int64_t channel, int64_t rows) {
    const nbx_conv *p = job->p;
    const int64_t step = b->phase->axis[2].step * p->out_stride[4], bytes = (int64_t)nbx_dtype_size(p->dtype);
    for (int64_t i = 0; i < rows; i++, sums += TILE_LANES) {
        const int64_t c = b->group * p->out_channels + channel + i;
        const float bias = p->bias ? load_real_f32(p->dtype, p->bias, c * p->bias_stride) : 0;
        char *out = p->output + (b->batch * p->out_stride[0] + c * p->out_stride[1]) * bytes;
        if (p->dtype == NBX_FLOAT16) store_row(job, runs, sums, bias, out, step, NBX_FLOAT16);
        else if (p->dtype == NBX_BFLOAT16) store_row(job, runs, sums, bias, out, step, NBX_BFLOAT16);
        else store_row(job, runs, sums, bias, out, step, NBX_FLOAT32);
    }
}

// The weights of a tile: packed, or the filters where they lie (the last tile then starts early, so that it is full).
static const float *tile_weights(const conv_job *job, const conv_block *b, int64_t tile, int64_t *row, int64_t *step, int64_t *channel) {
    const nbx_conv *p = job->p;
    *channel = tile * TILE_ROWS;
    if (job->weights) {
        *row = 1, *step = TILE_ROWS;
        return packed_tile(job, b->group, b->phase, tile);
    }
    if (*channel + TILE_ROWS > p->out_channels) *channel = p->out_channels - TILE_ROWS;
    *row = p->weight_stride[0], *step = 1;
    return (const float *)p->weight + (b->group * p->out_channels + *channel) * p->weight_stride[0];
}

// Where a tile's finished sums go: to the result, when its lanes are one run of adjacent floats there; or NULL.
typedef struct conv_target {
    float *out;
    int64_t row;       // from a channel to the next
    int lanes;
    int skip;          // first rows of the tile that another one stores
    float bias[TILE_ROWS];
    const nbx_epilogue_plain *end;
    int64_t at;        // of out in the result
} conv_target;

// ends: something comes after the bias.
TILE_INLINE void store_tile(vf32 c[TILE_ROWS][TILE_VECTORS], const conv_target *target, int vectors, bool ends) {
    const int last = target->lanes - (vectors - 1) * 16;
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++) {
        const vf32 bias = v_set1(target->bias[i]);
        if (i < target->skip) continue;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *to = target->out + i * target->row + v * 16;
            const int lanes = v + 1 < vectors ? 16 : last;
            vf32 y = v_add(c[i][v], bias);
            if (ends) y = epilogue_plain(y, target->end, target->at + i * target->row + v * 16, lanes);
            if (lanes == 16) v_store(to, y);
            else v_store_n(to, y, lanes);
        }
    }
}

TILE_INLINE void sum_tile(const float *w, int64_t row, int64_t step, const float *x, const int32_t *offset, int64_t x_step, int64_t count,
                          float *sums, bool first, const conv_target *target, int vectors) {
    if (!target) {
        if (step == 1) tile_sums(w, row, 1, x, offset, x_step, count, sums, first, TILE_ROWS, vectors);
        else tile_sums(w, 1, TILE_ROWS, x, offset, x_step, count, sums, first, TILE_ROWS, vectors);
        return;
    }
    vf32 c[TILE_ROWS][TILE_VECTORS];
    if (step == 1) tile_multiply(c, w, row, 1, x, offset, x_step, count, sums, first, TILE_ROWS, vectors);
    else tile_multiply(c, w, 1, TILE_ROWS, x, offset, x_step, count, sums, first, TILE_ROWS, vectors);
    if (target->end->residual || target->end->clamps) store_tile(c, target, vectors, true);
    else store_tile(c, target, vectors, false);
}

TILE_INLINE void sum_vectors(const float *w, int64_t row, int64_t step, const float *x, const int32_t *offset, int64_t x_step, int64_t count,
                             float *sums, bool first, const conv_target *target, int vectors) {
    if (offset) sum_tile(w, row, step, x, offset, 0, count, sums, first, target, vectors);
    else sum_tile(w, row, step, x, NULL, x_step, count, sums, first, target, vectors);
}

// One function for each width, so that each is compiled on its own.
#define SUM_VECTORS(VECTORS)                                                                                                          \
    static void sum_##VECTORS(const float *w, int64_t row, int64_t step, const float *x, const int32_t *offset, int64_t x_step,      \
                              int64_t count, float *sums, bool first, const conv_target *target) {                                    \
        sum_vectors(w, row, step, x, offset, x_step, count, sums, first, target, VECTORS);                                            \
    }
SUM_VECTORS(1)
#if TILE_VECTORS > 1
SUM_VECTORS(2)
SUM_VECTORS(3)
#endif

static void sum_lanes(const float *w, int64_t row, int64_t step, const float *x, const int32_t *offset, int64_t x_step, int64_t count,
                      float *sums, bool first, const conv_target *target, int lanes) {
#if TILE_VECTORS > 1
    if (lanes > 32) sum_3(w, row, step, x, offset, x_step, count, sums, first, target);
    else if (lanes > 16) sum_2(w, row, step, x, offset, x_step, count, sums, first, target);
    else sum_1(w, row, step, x, offset, x_step, count, sums, first, target);
#else
    (void)lanes;
    sum_1(w, row, step, x, offset, x_step, count, sums, first, target);
#endif
}

// Fills `target` when the channels of a whole tile from `channel` on can be stored from registers.
static const conv_target *target_of(const conv_job *job, const conv_block *b, const conv_runs *runs, int lanes, int64_t channel, int64_t skip,
                                    conv_target *target) {
    const nbx_conv *p = job->p;
    if (p->dtype != NBX_FLOAT32 || job->ends_tiles || channel + TILE_ROWS > p->out_channels || runs->count != 1 || runs->run[0].length != lanes ||
        b->phase->axis[2].step * p->out_stride[4] != 1)
        return NULL;
    const int64_t c = b->group * p->out_channels + channel;
    target->out = (float *)p->output + b->batch * p->out_stride[0] + c * p->out_stride[1] + runs->run[0].out;
    target->row = p->out_stride[1];
    target->end = &job->end;
    target->at = target->out - (float *)p->output;
    target->lanes = lanes;
    target->skip = (int)skip;
    for (int i = 0; i < TILE_ROWS; i++) target->bias[i] = p->bias ? ((const float *)p->bias)[(c + i) * p->bias_stride] : 0;
    return target;
}

// The sums of some lanes of a few channels, and the same elements of another tensor.
typedef struct lanes_end {
    const conv_job *job;
    const conv_block *b;
    const conv_runs *runs;
    int64_t first_tile, last_tile;
} lanes_end;

static int64_t first_channel(const conv_job *job, int64_t tile) {
    const int64_t last = job->p->out_channels - TILE_ROWS;
    return !job->weights && tile * TILE_ROWS > last ? last : tile * TILE_ROWS;
}

static void gather_lanes(const void *arg, const void *data, float *to) {
    const lanes_end *e = arg;
    const nbx_conv *p = e->job->p;
    const int64_t step = e->b->phase->axis[2].step * p->out_stride[4];
    for (int64_t t = e->first_tile; t < e->last_tile; t++)
        for (int64_t i = 0; i < TILE_ROWS; i++, to += TILE_LANES) {
            const int64_t c = first_channel(e->job, t) + i;
            const float *from = (const float *)data + e->b->batch * p->out_stride[0] + (e->b->group * p->out_channels + c) * p->out_stride[1];
            memset(to, 0, TILE_LANES * sizeof *to);
            for (int r = 0; r < e->runs->count && c < p->out_channels; r++)
                for (int l = 0; l < e->runs->run[r].length; l++) to[e->runs->run[r].lane + l] = from[e->runs->run[r].out + l * step];
        }
}

// Bias, epilogue and storing of all channels of some lanes, whose sums lie behind one another.
static void end_lanes(const conv_job *job, const conv_block *b, const conv_runs *runs, int64_t first_tile, int64_t last_tile, float *sums) {
    const nbx_conv *p = job->p;
    const int64_t floats = (last_tile - first_tile) * TILE_ROWS * TILE_LANES;
    const lanes_end e = {job, b, runs, first_tile, last_tile};
    float *at = sums;
    for (int64_t t = first_tile; t < last_tile; t++)
        for (int64_t i = 0; i < TILE_ROWS; i++, at += TILE_LANES) {
            const int64_t c = b->group * p->out_channels + first_channel(job, t) + i;
            const float bias = p->bias && c < p->groups * p->out_channels ? ((const float *)p->bias)[c * p->bias_stride] : 0;
            for (int v = 0; v < TILE_LANES; v += 16) v_store(at + v, v_add(v_load(at + v), v_set1(bias)));
        }
    nbx_epilogue_run_tile(p->epilogue, sums, floats, sums + floats, gather_lanes, &e);
    for (int64_t t = first_tile; t < last_tile; t++) {
        const int64_t skip = t * TILE_ROWS - first_channel(job, t), left = p->out_channels - t * TILE_ROWS;
        store_rows(job, b, runs, sums + ((t - first_tile) * TILE_ROWS + skip) * TILE_LANES, t * TILE_ROWS, left < TILE_ROWS ? left : TILE_ROWS);
    }
}

// All channels of the result in [begin, end) for up to TILE_LANES positions whose inputs start at x.
static void compute_lanes(const conv_job *job, const conv_block *b, const float *x, const int32_t *offset, int64_t x_step,
                          const conv_runs *runs, int lanes, int64_t begin, int64_t end, float *sums) {
    const int64_t inner = job->p->in_channels * b->phase->taps;
    const int64_t first_tile = begin / TILE_ROWS, last_tile = (end + TILE_ROWS - 1) / TILE_ROWS;
    int64_t row, step, channel;
    for (int64_t k = 0; k < inner || k == 0; k += INNER) {
        const int64_t count = inner - k < INNER ? inner - k : INNER;
        const bool last = k + count >= inner;
        for (int64_t t = first_tile; t < last_tile; t++) {
            const float *w = tile_weights(job, b, t, &row, &step, &channel);
            const int64_t skip = t * TILE_ROWS - channel, left = job->p->out_channels - t * TILE_ROWS;
            float *at = sums + (t - first_tile) * TILE_ROWS * TILE_LANES;
            conv_target space;
            const conv_target *target = last ? target_of(job, b, runs, lanes, channel, skip, &space) : NULL;
            sum_lanes(w + k * step, row, step, offset ? x : x + k * x_step, offset ? offset + k : NULL, x_step, count, at, k == 0, target, lanes);
            if (last && !target && !job->ends_tiles) store_rows(job, b, runs, at + skip * TILE_LANES, channel + skip, left < TILE_ROWS ? left : TILE_ROWS);
        }
    }
    if (job->ends_tiles) end_lanes(job, b, runs, first_tile, last_tile, sums);
}

// ------------------------------------------------------------------------------------------------------------ one block
enum { REPORTED_FLOATS = 16384 };  // of the result that wait in the caches for the epilogue, or more

// Channels [begin, end) of rows [row, row + rows) and columns [column, column + columns) of a block are done; of all its slices.
static void report(const conv_job *job, const conv_block *b, int64_t begin, int64_t end, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const nbx_conv *p = job->p;
    if (!p->epilogue || job->ends_tiles || p->dtype == NBX_FLOAT32 || !nbx_conv_reports(p)) return;
    for (int64_t z = 0; z < b->count[0]; z++)
        nbx_conv_report(p, &(conv_part){b->batch, b->start[0] + z, b->group * p->out_channels + begin, end - begin, b->start[1] + row, rows, b->start[2] + column, columns});
}

static void compute_expanded(const conv_job *job, const conv_block *b, const float *x, int64_t begin, int64_t end, float *sums) {
    const int64_t *size = job->plan->size;
    const int32_t *offset = job->offsets + job->p->in_channels * b->phase->first_tap;
    const int64_t total = ((b->count[0] - 1) * size[1] + b->count[1] - 1) * size[2] + b->count[2];
    conv_runs runs;
    int64_t reported = 0;
    for (int64_t flat = 0; flat < total;) {
        const int64_t col = flat % size[2];
        if (col >= b->count[2]) {  // nothing but halo up to the next row
            flat += size[2] - col;
            continue;
        }
        const int lanes = (int)(total - flat < TILE_LANES ? total - flat : TILE_LANES);
        find_runs(job, b, size, flat, lanes, &runs);
        if (runs.count) compute_lanes(job, b, x + flat, offset, 0, &runs, lanes, begin, end, sums);
        flat += TILE_LANES;
        const int64_t done = b->count[0] > 1 || flat < b->count[2] ? 0 : (flat - b->count[2]) / size[2] + 1;
        if ((done - reported) * b->count[2] * (end - begin) < REPORTED_FLOATS || done >= b->count[1]) continue;
        report(job, b, begin, end, reported, done - reported, 0, b->count[2]);
        reported = done;
    }
    report(job, b, begin, end, reported, b->count[1] - reported, 0, b->count[2]);
}

// Rows of an image behind one another, `piece` floats at a time; what is too much of one is overwritten by the next.
TILE_INLINE void gather_rows(const float *x, const int64_t *size, const int64_t *count, float *to, int piece) {
    for (int64_t z = 0; z < count[0]; z++)
        for (int64_t y = 0; y < count[1]; y++, to += count[2]) {
            const float *from = x + (z * size[1] + y) * size[2];
            for (int64_t i = 0; i < count[2]; i += piece) memcpy(to + i, from + i, (size_t)piece * sizeof *to);
        }
}

// Small images: what every tap reads of all positions, side by side.
static void gather_columns(const conv_job *job, const conv_block *b, const float *x, float *to) {
    const int64_t *size = job->plan->size, inner = job->p->in_channels * b->phase->taps;
    const int32_t *offset = job->offsets + job->p->in_channels * b->phase->first_tap;
    for (int64_t k = 0; k < inner; k++, to += job->plan->columns) {
        if (b->count[2] <= 4) gather_rows(x + offset[k], size, b->count, to, 4);
        else if (b->count[2] <= 8) gather_rows(x + offset[k], size, b->count, to, 8);
        else gather_rows(x + offset[k], size, b->count, to, 16);
    }
}

static void compute_columns(const conv_job *job, const conv_block *b, const float *columns, int64_t begin, int64_t end, float *sums) {
    const int64_t positions = b->count[0] * b->count[1] * b->count[2];
    conv_runs runs;
    for (int64_t i = 0; i < positions; i += TILE_LANES) {
        const int lanes = (int)(positions - i < TILE_LANES ? positions - i : TILE_LANES);
        find_runs(job, b, b->count, i, lanes, &runs);
        compute_lanes(job, b, columns + i, NULL, job->plan->columns, &runs, lanes, begin, end, sums);
    }
    report(job, b, begin, end, 0, b->count[1], 0, b->count[2]);
}

// The last lanes of a row, which a whole vector may not read, are copied.
enum { FEW_CHANNELS = 32 };  // of the result: more take long enough anyway
static void compute_direct(const conv_job *job, const conv_block *b, float *copy, int64_t begin, int64_t end, float *sums) {
    const nbx_conv *p = job->p;
    conv_runs runs = {.count = 1};
    int64_t reported = 0;
    for (int64_t i = 0; i < b->count[2]; i += TILE_LANES) {
        const int lanes = (int)(b->count[2] - i < TILE_LANES ? b->count[2] - i : TILE_LANES);
        const int64_t at = b->start[0] * p->in_stride[2] + b->start[1] * p->in_stride[3] + b->start[2] + i;
        const float *x = (const float *)channel_of(p, b, 0) + at;
        int64_t step = p->in_stride[1];
        if (b->start[2] + i + (lanes + 15) / 16 * 16 > p->in[2]) {
            for (int64_t c = 0; c < p->in_channels; c++) memcpy(copy + c * TILE_LANES, x + c * step, (size_t)lanes * sizeof *x);
            x = copy, step = TILE_LANES;
        }
        // lines of the next lanes: each channel lies on another page, more of them than the processor follows
        for (int64_t c = 0; end - begin <= FEW_CHANNELS && c < p->in_channels && i + 2 * TILE_LANES <= b->count[2]; c++)
            for (int l = 0; l < TILE_LANES; l += 16) v_prefetch(x + c * p->in_stride[1] + TILE_LANES + l);
        runs.run[0].lane = 0, runs.run[0].length = lanes;
        runs.run[0].out = b->start[0] * p->out_stride[2] + b->start[1] * p->out_stride[3] + (b->start[2] + i) * p->out_stride[4];
        compute_lanes(job, b, x, NULL, step, &runs, lanes, begin, end, sums);
        if ((i + lanes - reported) * (end - begin) < REPORTED_FLOATS && i + lanes < b->count[2]) continue;
        report(job, b, begin, end, 0, 1, reported, i + lanes - reported);
        reported = i + lanes;
    }
}

static bool block_of(const conv_job *job, int64_t task, conv_block *b) {
    const conv_plan *plan = job->plan;
    for (int d = CONV_DIMS - 1; d >= 0; d--) {
        b->start[d] = task % plan->blocks[d] * plan->block[d];
        task /= plan->blocks[d];
    }
    b->phase = &job->phases[task % plan->phases];
    task /= plan->phases;
    b->group = task % job->p->groups;
    b->batch = task / job->p->groups;
    for (int d = 0; d < CONV_DIMS; d++) {
        const int64_t left = b->phase->axis[d].count - b->start[d];
        if (left <= 0) return false;
        b->count[d] = left < plan->block[d] ? left : plan->block[d];
    }
    return true;
}

static void block_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const conv_job *job = arg;
    const conv_plan *plan = job->plan;
    float *x = (float *)(job->threads + (size_t)thread * plan->thread_bytes);
    float *sums = x + (((size_t)(plan->channel * job->p->in_channels + 2 * CONV_MAX_LANES) * sizeof *x + 63) & ~(size_t)63) / sizeof *x;
    float *columns = sums + (size_t)plan->sums_floats;
    int64_t expanded = -1;
    for (int64_t task = begin; task < end; task++) {
        conv_block b;
        if (!block_of(job, task / job->out_blocks, &b)) continue;
        const int64_t first = task % job->out_blocks * job->out_block;
        const int64_t last = first + job->out_block < job->p->out_channels ? first + job->out_block : job->p->out_channels;
        if (plan->direct) {
            compute_direct(job, &b, x, first, last, sums);
            continue;
        }
        if (expanded != task / job->out_blocks) {
            expand(job, &b, x);
            if (plan->columns) gather_columns(job, &b, x, columns);
        }
        expanded = task / job->out_blocks;
        if (plan->columns) compute_columns(job, &b, columns, first, last, sums);
        else compute_expanded(job, &b, x, first, last, sums);
    }
}

// Fills the tables, and packs what is to be packed.
static void prepare(nbx_pool *pool, conv_job *job, char *scratch) {
    const nbx_conv *p = job->p;
    const conv_plan *plan = job->plan;
    conv_tap *taps = (conv_tap *)(scratch + plan->taps_at);
    conv_phase *phases = (conv_phase *)(scratch + plan->phases_at);
    int32_t *offsets = (int32_t *)(scratch + plan->offsets_at);
    list_taps(p, plan, phases, taps);
    list_offsets(p, plan, phases, taps, offsets);
    job->taps = taps, job->phases = phases, job->offsets = offsets;
    job->threads = scratch + plan->threads_at;
    const int64_t work = p->in_channels * plan->taps / plan->phases * TILE_ROWS;
    nbx_parallel_for(pool, job->packed_tiles, 1 + 8192 / (work + 1), pack_tasks, job);
}

nbx_status NBX_KERNEL(conv_pack)(nbx_op_call *call, int64_t piece, int64_t pieces) {
    nbx_conv p;
    conv_plan plan;
    nbx_conv_of(call, &p);
    if (nbx_conv_channels_suit(&p)) return NBX_KERNEL(conv_channels_pack)(call->pool, &p, piece, pieces), NBX_OK;
    nbx_conv_plan(&p, call->ctx->threads, &plan);
    const int64_t tiles = p.groups * plan.phases * tiles_of(&p), step = (tiles + pieces - 1) / pieces, first = piece * step;
    conv_job job = {.p = &p, .plan = &plan, .weights = p.packed, .first_tile = first, .packed_tiles = tiles - first < step ? tiles - first : step};
    if (first < tiles) prepare(call->pool, &job, call->scratch);
    return NBX_OK;
}

void NBX_KERNEL(conv_blocked)(nbx_pool *pool, const nbx_conv *p, void *scratch, int threads) {
    conv_plan plan;
    nbx_conv_plan(p, threads, &plan);
    conv_job job = {.p = p, .plan = &plan, .weights = p->packed ? p->packed : plan.pack ? (float *)((char *)scratch + plan.weights_at) : NULL,
                    .packed_tiles = plan.pack ? p->groups * plan.phases * tiles_of(p) : 0};
    const bool vectors = p->out_stride[4] == 1 && (!p->transposed || p->stride[2] == 1);
    job.ends_tiles = p->epilogue && p->dtype == NBX_FLOAT32 && !(nbx_epilogue_is_plain(p->epilogue, &job.end) && vectors);
    if (job.ends_tiles || p->dtype != NBX_FLOAT32) job.end = (nbx_epilogue_plain){0};
    prepare(pool, &job, scratch);
    const int64_t blocks = p->batch * p->groups * plan.phases * plan.blocks[0] * plan.blocks[1] * plan.blocks[2];
    int64_t parts = (p->out_channels + CONV_OUT_BLOCK - 1) / CONV_OUT_BLOCK;
    while (blocks * parts < 2 * threads && p->out_channels / (parts + 1) >= 4 * TILE_ROWS) parts++;
    const int64_t tiles = (tiles_of(p) + parts - 1) / parts;
    job.out_block = tiles * TILE_ROWS;
    job.out_blocks = (tiles_of(p) + tiles - 1) / tiles;
    nbx_parallel_for(pool, blocks * job.out_blocks, 1, block_tasks, &job);
}
