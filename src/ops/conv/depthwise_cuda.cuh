// Depthwise convolutions of one or two dims on CUDA. Filters 3, 5 and 7 wide of stride and dilation 1: a thread makes a tile of
// results from rows of inputs in registers, each row serving every result it reaches; channels dense: a warp has the tile of 64
// channels, or walks down a strip of them, else a thread that of one channel. Other filters: a thread makes OUTPUTS neighbouring results of a row and slides
// over their inputs, of one channel or, where they are dense, of CHANNELS at a time. Included by convolution_cuda.cu, whose
// descriptions it reads.
#ifndef NBX_OPS_DEPTHWISE_CUH
#define NBX_OPS_DEPTHWISE_CUH

enum { DEPTHWISE_OUTPUTS = 4 };

typedef struct depthwise_call {
    int64_t items;
    int filters;             // of all groups
    uint32_t pieces, rows, groups_of_channels;  // of results: pieces of a row, rows of an image
    ewc_divisor by_pieces, by_rows, by_tiles, by_filters, by_channels;
    bool slides;             // neighbouring results read neighbouring inputs
    int strip_rows;          // results of a strip along dim 1
} depthwise_call;

template <typename E> static __device__ __forceinline__ float of_element(E x) { return (float)x; }

// Where a row of results begins: y in dim 1, x in dim 2.
struct row_place {
    int64_t input, output;   // of the image and channel
    int64_t y, x;            // input position of tap 0 of the first result
    int left;                // results in this piece
};
static __device__ __forceinline__ row_place row_of(const conv_call &p, uint32_t image, uint32_t y, uint32_t piece) {
    row_place r;
    const uint32_t batch = ewc_quotient(image, p.by_count0), q0 = image - batch * (uint32_t)p.a[0].count;  // depths are images of their own
    const int64_t q1 = y, q2 = (int64_t)piece * DEPTHWISE_OUTPUTS;
    r.input = batch * p.in_stride[0] + q0 * p.in_stride[2];
    r.output = batch * p.out_stride[0] + q0 * p.out_stride[2] + (p.a[1].first + q1 * p.a[1].step) * p.out_stride[3] + (p.a[2].first + q2 * p.a[2].step) * p.out_stride[4];
    r.y = q1 * p.a[1].stride + p.a[1].shift;
    r.x = q2 * p.a[2].stride + p.a[2].shift;
    const int64_t left = p.a[2].count - q2;
    r.left = left < DEPTHWISE_OUTPUTS ? (int)left : DEPTHWISE_OUTPUTS;
    return r;
}

template <typename E> static __global__ void __launch_bounds__(256) depthwise_rows(const __grid_constant__ conv_call p, const __grid_constant__ depthwise_call d) {
    const int64_t item = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (item >= d.items) return;
    const uint32_t rows = ewc_quotient((uint32_t)item, d.by_pieces), piece = (uint32_t)item - rows * d.pieces;
    const uint32_t planes = ewc_quotient(rows, d.by_rows), y = rows - planes * (uint32_t)p.a[1].count;
    const uint32_t image = ewc_quotient(planes, d.by_filters), filter = planes - image * (uint32_t)d.filters;
    const row_place r = row_of(p, image, y, piece);
    const E *input = (const E *)p.input + r.input + filter / (uint32_t)p.filters * p.in_stride[1];
    const E *weight = (const E *)p.weight + (int64_t)filter * p.inner;
    float sum[DEPTHWISE_OUTPUTS];
#pragma unroll
    for (int i = 0; i < DEPTHWISE_OUTPUTS; i++) sum[i] = 0.f;
    const int taps = p.a[2].taps;
    for (int j1 = 0; j1 < p.a[1].taps; j1++, weight += taps) {
        const int64_t iy = r.y + j1 * p.a[1].shift_step;
        if ((uint64_t)iy >= (uint64_t)p.in[1]) continue;
        const E *row = input + iy * p.in_stride[3];
        const auto at = [&](int64_t x) { return (uint64_t)x < (uint64_t)p.in[2] ? of_element(row[x * p.in_stride[4]]) : 0.f; };
        if (d.slides) {
            float v[DEPTHWISE_OUTPUTS];
#pragma unroll
            for (int i = 0; i < DEPTHWISE_OUTPUTS - 1; i++) v[i] = at(r.x + i);
#pragma unroll 4
            for (int j2 = 0; j2 < taps; j2++) {
                const float w = of_element(weight[j2]);
                v[DEPTHWISE_OUTPUTS - 1] = at(r.x + j2 + DEPTHWISE_OUTPUTS - 1);
#pragma unroll
                for (int i = 0; i < DEPTHWISE_OUTPUTS; i++) sum[i] = fmaf(w, v[i], sum[i]);
#pragma unroll
                for (int i = 0; i < DEPTHWISE_OUTPUTS - 1; i++) v[i] = v[i + 1];
            }
        } else {
            for (int j2 = 0; j2 < taps; j2++) {
                const float w = of_element(weight[j2]);
#pragma unroll
                for (int i = 0; i < DEPTHWISE_OUTPUTS; i++) sum[i] = fmaf(w, at(r.x + i * p.a[2].stride + j2 * p.a[2].shift_step), sum[i]);
            }
        }
    }
    const float bias = p.bias ? of_element(((const E *)p.bias)[filter * p.bias_stride]) : 0.f;
    E *to = (E *)p.output + r.output + filter * p.out_stride[1];
#pragma unroll
    for (int i = 0; i < DEPTHWISE_OUTPUTS; i++)
        if (i < r.left) to[i * p.a[2].step * p.out_stride[4]] = (E)(sum[i] + bias);
}

template <typename E> static __global__ void __launch_bounds__(256) depthwise_channels(const __grid_constant__ conv_call p, const __grid_constant__ depthwise_call d) {
    constexpr int CHANNELS = 16 / (int)sizeof(E);
    const int64_t item = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (item >= d.items) return;
    const uint32_t places = ewc_quotient((uint32_t)item, d.by_channels), channel = ((uint32_t)item - places * d.groups_of_channels) * CHANNELS;
    const uint32_t rows = ewc_quotient(places, d.by_pieces), piece = places - rows * d.pieces;
    const uint32_t image = ewc_quotient(rows, d.by_rows), y = rows - image * (uint32_t)p.a[1].count;
    const row_place r = row_of(p, image, y, piece);
    const E *input = (const E *)p.input + r.input + channel;
    const E *weight = (const E *)p.weight + (int64_t)channel * p.inner;
    float sum[DEPTHWISE_OUTPUTS][CHANNELS];
#pragma unroll
    for (int i = 0; i < DEPTHWISE_OUTPUTS; i++)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) sum[i][c] = 0.f;
    const int taps = p.a[2].taps;
    for (int j1 = 0; j1 < p.a[1].taps; j1++, weight += taps) {
        const int64_t iy = r.y + j1 * p.a[1].shift_step;
        if ((uint64_t)iy >= (uint64_t)p.in[1]) continue;
        const E *row = input + iy * p.in_stride[3];
        const auto load = [&](int64_t x, float (&v)[CHANNELS]) {
            uint4 words = {0, 0, 0, 0};
            if ((uint64_t)x < (uint64_t)p.in[2]) words = *(const uint4 *)(row + x * p.in_stride[4]);
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) v[c] = of_element(((const E *)&words)[c]);
        };
        float v[DEPTHWISE_OUTPUTS][CHANNELS];
        if (d.slides)
#pragma unroll
            for (int i = 0; i < DEPTHWISE_OUTPUTS - 1; i++) load(r.x + i, v[i]);
        for (int j2 = 0; j2 < taps; j2++) {
            float w[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) w[c] = of_element(weight[(int64_t)c * p.inner + j2]);
            if (d.slides) load(r.x + j2 + DEPTHWISE_OUTPUTS - 1, v[DEPTHWISE_OUTPUTS - 1]);
            else
#pragma unroll
                for (int i = 0; i < DEPTHWISE_OUTPUTS; i++) load(r.x + i * p.a[2].stride + j2 * p.a[2].shift_step, v[i]);
#pragma unroll
            for (int i = 0; i < DEPTHWISE_OUTPUTS; i++)
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) sum[i][c] = fmaf(w[c], v[i][c], sum[i][c]);
            if (d.slides)
#pragma unroll
                for (int i = 0; i < DEPTHWISE_OUTPUTS - 1; i++)
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) v[i][c] = v[i + 1][c];
        }
    }
    E *to = (E *)p.output + r.output + channel;
#pragma unroll
    for (int i = 0; i < DEPTHWISE_OUTPUTS; i++) {
        if (i >= r.left) break;
        uint4 words;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            const float bias = p.bias ? of_element(((const E *)p.bias)[(channel + c) * p.bias_stride]) : 0.f;
            ((E *)&words)[c] = (E)(sum[i][c] + bias);
        }
        *(uint4 *)(to + i * p.a[2].step * p.out_stride[4]) = words;
    }
}

// ---------------------------------------------------------------------------------------------------------------- tiles
enum { TILE_WIDTH = 8 };

// A tile of results: where it is, and what of it exists.
struct tile_place {
    int64_t input, output;  // of the image; of the first result
    int y, x;               // input position of tap 0 of the first result
    int rows, columns;
};
template <int ROWS, int WIDTH = TILE_WIDTH> static __device__ __forceinline__ tile_place tile_of(const conv_call &p, const depthwise_call &d, uint32_t tile, int rows = ROWS) {
    const uint32_t lines = ewc_quotient(tile, d.by_pieces), tx = tile - lines * d.pieces;
    const uint32_t image = ewc_quotient(lines, d.by_rows), ty = lines - image * d.rows;
    const uint32_t batch = ewc_quotient(image, p.by_count0), q0 = image - batch * (uint32_t)p.a[0].count;
    const int q1 = (int)ty * rows, q2 = (int)tx * WIDTH;
    tile_place t;
    t.input = batch * p.in_stride[0] + q0 * p.in_stride[2];
    t.output = batch * p.out_stride[0] + q0 * p.out_stride[2] + (p.a[1].first + (int64_t)q1 * p.a[1].step) * p.out_stride[3] +
               (p.a[2].first + (int64_t)q2 * p.a[2].step) * p.out_stride[4];
    t.y = q1 + (int)p.a[1].shift, t.x = q2 + (int)p.a[2].shift;
    t.rows = (int)p.a[1].count - q1, t.columns = (int)p.a[2].count - q2;
    return t;
}

// sum[row][column][channel]; load(from, v): an input at an address; weight(j1, j2, w).
template <int TAPS, int ROWS, int CHANNELS, typename E, typename L, typename W>
static __device__ __forceinline__ void sum_tile(const conv_call &p, const tile_place &t, const E *input, L load, W weight, float (&sum)[ROWS][TILE_WIDTH][CHANNELS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < TILE_WIDTH; j++)
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) sum[i][j][c] = 0.f;
    const int taps = (int)p.a[1].taps;
#pragma unroll 1
    for (int r = 0; r < ROWS - 1 + taps; r++) {
        if ((unsigned)(t.y + r) >= (unsigned)p.in[1]) continue;
        float v[TILE_WIDTH + TAPS - 1][CHANNELS];
        const E *from = input + (t.y + r) * p.in_stride[3] + t.x * p.in_stride[4];
#pragma unroll
        for (int i = 0; i < TILE_WIDTH + TAPS - 1; i++, from += p.in_stride[4]) {
#pragma unroll
            for (int c = 0; c < CHANNELS; c++) v[i][c] = 0.f;
            if ((unsigned)(t.x + i) < (unsigned)p.in[2]) load(from, v[i]);
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (r - row < 0 || r - row >= taps) continue;
#pragma unroll
            for (int j = 0; j < TAPS; j++) {
                float w[CHANNELS];
                weight(r - row, j, w);
#pragma unroll
                for (int i = 0; i < TILE_WIDTH; i++)
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) sum[row][i][c] = fmaf(w[c], v[i + j][c], sum[row][i][c]);
            }
        }
    }
}

// Two neighbours as one word.
static __device__ __forceinline__ float2 load_pair(const float *at) { return *(const float2 *)at; }
static __device__ __forceinline__ float2 load_pair(const __half *at) { return __half22float2(*(const __half2 *)at); }
static __device__ __forceinline__ float2 load_pair(const __nv_bfloat16 *at) {
    const uint32_t word = *(const uint32_t *)at;
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
static __device__ __forceinline__ void store_pair(float *to, float a, float b) { *(float2 *)to = make_float2(a, b); }
static __device__ __forceinline__ void store_pair(__half *to, float a, float b) { *(__half2 *)to = __floats2half2_rn(a, b); }
static __device__ __forceinline__ void store_pair(__nv_bfloat16 *to, float a, float b) { *(__nv_bfloat162 *)to = __floats2bfloat162_rn(a, b); }

enum { PAIR_ROWS = 4, PAIR_CHANNELS = 64, PAIR_PITCH = PAIR_CHANNELS + 2, SINGLE_ROWS = 8 };

template <typename E, int TAPS> static __global__ void __launch_bounds__(256, 2) depthwise_pairs(const __grid_constant__ conv_call p, const __grid_constant__ depthwise_call d) {
    extern __shared__ float weights[];  // [tap][channel]
    const uint32_t group = ewc_quotient(blockIdx.x, d.by_channels), first = (blockIdx.x - group * d.groups_of_channels) * PAIR_CHANNELS;
    const int lane = (int)threadIdx.x % 32, channel = (int)first + 2 * lane;
    for (int i = (int)threadIdx.x; i < p.inner * PAIR_CHANNELS; i += 256) {
        const int c = i / p.inner, tap = i - c * p.inner;
        weights[tap * PAIR_PITCH + c] = (int)first + c < d.filters ? of_element(((const E *)p.weight)[(int64_t)first * p.inner + i]) : 0.f;
    }
    __syncthreads();
    const uint32_t tile = group * 8 + threadIdx.x / 32;
    if (tile >= d.items || channel >= d.filters) return;
    const tile_place t = tile_of<PAIR_ROWS>(p, d, tile);
    const E *input = (const E *)p.input + t.input + channel;
    float sum[PAIR_ROWS][TILE_WIDTH][2];
    sum_tile<TAPS, PAIR_ROWS, 2>(
        p, t, input,
        [&](const E *from, float(&v)[2]) {
            const float2 two = load_pair(from);
            v[0] = two.x, v[1] = two.y;
        },
        [&](int j1, int j2, float(&w)[2]) {
            const float2 two = *(const float2 *)&weights[(j1 * TAPS + j2) * PAIR_PITCH + 2 * lane];
            w[0] = two.x, w[1] = two.y;
        },
        sum);
    float bias[2] = {0.f, 0.f};
    if (p.bias)
        for (int c = 0; c < 2; c++) bias[c] = of_element(((const E *)p.bias)[(channel + c) * p.bias_stride]);
    E *to = (E *)p.output + t.output + channel;
#pragma unroll
    for (int row = 0; row < PAIR_ROWS; row++)
#pragma unroll
        for (int i = 0; i < TILE_WIDTH; i++) {
            if (row >= t.rows || i >= t.columns) continue;
            store_pair(to + row * p.a[1].step * p.out_stride[3] + i * p.a[2].step * p.out_stride[4], sum[row][i][0] + bias[0], sum[row][i][1] + bias[1]);
        }
}

// Keeps a number as it is: else the compiler makes it from its 16 bits again wherever it is used.
static __device__ __forceinline__ void stay_wide(float &x) { asm volatile("" : "+f"(x)); }

// Square filters of 16-bit elements (7 x 7, 384 channels of 64 x 56 x 56 on an H200: 346 us by tiles, 288 by strips): a warp walks down a strip of 7 columns and 64 channels, and reads each of its input
// rows once. Result row o is summed in slot o mod TAPS; input row r meets it through filter row
// (r - o) mod TAPS, so which weights a slot takes is an address, and only the slot that is complete is chosen by a branch.
enum { STRIP_ROWS = 7, STRIP_WIDTH = 7, STRIP_THREADS = 128, STRIPS = 2048 };

template <typename E, int TAPS> static __global__ void __launch_bounds__(STRIP_THREADS, 3) depthwise_strips(const __grid_constant__ conv_call p, const __grid_constant__ depthwise_call d) {
    constexpr int WIDTH = STRIP_WIDTH + TAPS - 1;
    __shared__ float weights[TAPS * TAPS * PAIR_PITCH], biases[PAIR_CHANNELS];  // [tap][channel]
    const uint32_t group = ewc_quotient(blockIdx.x, d.by_channels), first = (blockIdx.x - group * d.groups_of_channels) * PAIR_CHANNELS;
    const int lane = (int)threadIdx.x % 32, channel = (int)first + 2 * lane;
    for (int i = (int)threadIdx.x; i < TAPS * TAPS * PAIR_CHANNELS; i += STRIP_THREADS) {
        const int c = i / (TAPS * TAPS), tap = i - c * (TAPS * TAPS);
        weights[tap * PAIR_PITCH + c] = (int)first + c < d.filters ? of_element(((const E *)p.weight)[(int64_t)first * (TAPS * TAPS) + i]) : 0.f;
    }
    for (int c = (int)threadIdx.x; c < PAIR_CHANNELS; c += STRIP_THREADS)
        biases[c] = p.bias && (int)first + c < d.filters ? of_element(((const E *)p.bias)[(first + c) * p.bias_stride]) : 0.f;
    __syncthreads();
    const uint32_t strip = group * (STRIP_THREADS / 32) + threadIdx.x / 32;
    if (strip >= d.items || channel >= d.filters) return;
    const tile_place t = tile_of<STRIP_ROWS, STRIP_WIDTH>(p, d, strip, d.strip_rows);
    const int rows = t.rows < d.strip_rows ? t.rows : d.strip_rows;
    const int64_t step = p.in_stride[4] * (int64_t)sizeof(E), line = p.in_stride[3] * (int64_t)sizeof(E), to_step = p.a[2].step * p.out_stride[4] * (int64_t)sizeof(E);
    const char *from = p.input + (t.input + channel + t.y * p.in_stride[3] + t.x * p.in_stride[4]) * (int64_t)sizeof(E);
    unsigned inside = 0;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) inside |= (unsigned)((unsigned)(t.x + i) < (unsigned)p.in[2]) << i;
    E *to = (E *)p.output + t.output + channel;
    float sum[TAPS][STRIP_WIDTH][2];
#pragma unroll
    for (int s = 0; s < TAPS; s++)
#pragma unroll
        for (int i = 0; i < STRIP_WIDTH; i++) sum[s][i][0] = sum[s][i][1] = 0.f;
    int turn = 0;  // r mod TAPS
#pragma unroll 1
    for (int r = 0; r < rows + TAPS - 1; r++) {
        if ((unsigned)(t.y + r) < (unsigned)p.in[1]) {
            uint32_t words[WIDTH];
            const char *at = from + r * line;
#pragma unroll
            for (int i = 0; i < WIDTH; i++, at += step) words[i] = inside >> i & 1 ? *(const uint32_t *)at : 0u;
            float v[WIDTH][2];
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float2 two = load_pair((const E *)&words[i]);
                v[i][0] = two.x, v[i][1] = two.y;
                stay_wide(v[i][0]), stay_wide(v[i][1]);
            }
#pragma unroll
            for (int s = 0; s < TAPS; s++) {
                const int tap = turn - s < 0 ? turn - s + TAPS : turn - s;
                if ((unsigned)(r - tap) >= (unsigned)rows) continue;
                const float *w = &weights[tap * TAPS * PAIR_PITCH + 2 * lane];
                float2 two[TAPS];
#pragma unroll
                for (int j = 0; j < TAPS; j++) two[j] = *(const float2 *)(w + j * PAIR_PITCH);
#pragma unroll
                for (int j = 0; j < TAPS; j++)
#pragma unroll
                    for (int i = 0; i < STRIP_WIDTH; i++) {
                        sum[s][i][0] = fmaf(two[j].x, v[i + j][0], sum[s][i][0]);
                        sum[s][i][1] = fmaf(two[j].y, v[i + j][1], sum[s][i][1]);
                    }
            }
        }
        turn = turn + 1 == TAPS ? 0 : turn + 1;
        if (r < TAPS - 1) continue;
        const float2 bias = *(const float2 *)&biases[2 * lane];
        char *at = (char *)(to + (r - (TAPS - 1)) * p.a[1].step * p.out_stride[3]);
#pragma unroll
        for (int s = 0; s < TAPS; s++) {
            if (turn != s) continue;
#pragma unroll
            for (int i = 0; i < STRIP_WIDTH; i++, at += to_step) {
                if (i < t.columns) store_pair((E *)at, sum[s][i][0] + bias.x, sum[s][i][1] + bias.y);
                sum[s][i][0] = sum[s][i][1] = 0.f;
            }
        }
    }
}

template <typename E, int TAPS> static __global__ void __launch_bounds__(128) depthwise_singles(const __grid_constant__ conv_call p, const __grid_constant__ depthwise_call d) {
    const int64_t item = (int64_t)blockIdx.x * 128 + threadIdx.x;
    if (item >= d.items) return;
    // tiles of an image and a filter, filters, images
    const uint32_t tiles = d.pieces * d.rows, planes = ewc_quotient((uint32_t)item, d.by_tiles), image = ewc_quotient(planes, d.by_filters);
    const uint32_t filter = planes - image * (uint32_t)d.filters;
    const tile_place t = tile_of<SINGLE_ROWS>(p, d, image * tiles + ((uint32_t)item - planes * tiles));
    const E *input = (const E *)p.input + t.input + filter / (uint32_t)p.filters * p.in_stride[1];
    const E *weight = (const E *)p.weight + (int64_t)filter * p.inner;
    float sum[SINGLE_ROWS][TILE_WIDTH][1];
    sum_tile<TAPS, SINGLE_ROWS, 1>(
        p, t, input, [&](const E *from, float(&v)[1]) { v[0] = of_element(*from); },
        [&](int j1, int j2, float(&w)[1]) { w[0] = of_element(weight[j1 * TAPS + j2]); }, sum);
    const float bias = p.bias ? of_element(((const E *)p.bias)[filter * p.bias_stride]) : 0.f;
    E *to = (E *)p.output + t.output + filter * p.out_stride[1];
#pragma unroll
    for (int row = 0; row < SINGLE_ROWS; row++)
#pragma unroll
        for (int i = 0; i < TILE_WIDTH; i++)
            if (row < t.rows && i < t.columns) to[row * p.a[1].step * p.out_stride[3] + i * p.a[2].step * p.out_stride[4]] = (E)(sum[row][i][0] + bias);
}

// As long as there are strips enough: input rows beside a strip are read again, and its ends take fewer filter rows.
static int strip_rows_of(const conv_call &p, int64_t images, int filters) {
    const int64_t others = images * ((p.a[2].count + STRIP_WIDTH - 1) / STRIP_WIDTH) * ((filters + PAIR_CHANNELS - 1) / PAIR_CHANNELS);
    int rows = p.a[1].count;
    while (rows > STRIP_ROWS && others * ((p.a[1].count + rows - 1) / rows) < STRIPS) rows = (rows + 1) / 2;
    return rows;
}

template <typename E, int TAPS> static bool launch_tiles(const conv_call &p, depthwise_call d, int64_t images, bool pairs, cudaStream_t stream) {
    const bool strips = pairs && sizeof(E) == 2 && p.a[1].taps == TAPS && p.a[1].count > PAIR_ROWS;
    const int rows = strips ? strip_rows_of(p, images, d.filters) : pairs ? PAIR_ROWS : SINGLE_ROWS, together = strips ? STRIP_THREADS / 32 : 8;
    const int width = strips ? (int)STRIP_WIDTH : (int)TILE_WIDTH;
    d.pieces = (uint32_t)((p.a[2].count + width - 1) / width), d.rows = (uint32_t)((p.a[1].count + rows - 1) / rows);
    d.by_pieces = ewc_divisor_of(d.pieces), d.by_rows = ewc_divisor_of(d.rows), d.by_tiles = ewc_divisor_of((int64_t)d.pieces * d.rows);
    d.strip_rows = rows;
    d.items = images * d.pieces * d.rows * (pairs ? 1 : d.filters);
    if (!pairs) {
        if (d.items >= (int64_t)1 << 31) return false;
        depthwise_singles<E, TAPS><<<(unsigned)((d.items + 127) / 128), 128, 0, stream>>>(p, d);
        return true;
    }
    d.groups_of_channels = (uint32_t)((d.filters + PAIR_CHANNELS - 1) / PAIR_CHANNELS);
    d.by_channels = ewc_divisor_of(d.groups_of_channels);
    const int64_t blocks = (d.items + together - 1) / together * d.groups_of_channels;
    if (d.items >= (int64_t)1 << 31 || blocks >= (int64_t)1 << 31) return false;
    if constexpr (sizeof(E) == 2)
        if (strips) {
            depthwise_strips<E, TAPS><<<(unsigned)blocks, STRIP_THREADS, 0, stream>>>(p, d);
            return true;
        }
    depthwise_pairs<E, TAPS><<<(unsigned)blocks, 256, (size_t)p.inner * PAIR_PITCH * sizeof(float), stream>>>(p, d);
    return true;
}

// true: launched.
template <typename E> static bool launch_fixed(const conv_call &p, const depthwise_call &d, int groups, int64_t images, cudaStream_t stream) {
    if (!d.slides || p.a[1].stride != 1 || (p.a[1].shift_step != 1 && p.a[1].taps > 1) || p.inner > 180 || p.in[1] > INT32_MAX / 2 || p.in[2] > INT32_MAX / 2) return false;
    bool pairs = p.filters == 1 && p.in_stride[1] == 1 && p.out_stride[1] == 1 && groups % 2 == 0 && (uintptr_t)p.input % (2 * sizeof(E)) == 0 && (uintptr_t)p.output % (2 * sizeof(E)) == 0;
    for (int k = 0; k < 5; k++) pairs = pairs && (k == 1 || (p.in_stride[k] % 2 == 0 && p.out_stride[k] % 2 == 0));
    switch (p.a[2].taps) {
    case 3: return launch_tiles<E, 3>(p, d, images, pairs, stream);
    case 5: return launch_tiles<E, 5>(p, d, images, pairs, stream);
    case 7: return launch_tiles<E, 7>(p, d, images, pairs, stream);
    default: return false;
    }
}

// true: launched.
template <typename E> static bool launch_depthwise(const conv_call &p, int groups, cudaStream_t stream) {
    constexpr int64_t CHANNELS = 16 / (int64_t)sizeof(E);
    if (p.transposed || p.channels != 1 || p.a[0].taps != 1 || p.a[0].shift != 0 || p.a[0].stride != 1 || p.a[0].count != p.in[0]) return false;
    depthwise_call d;
    memset(&d, 0, sizeof d);
    d.filters = p.filters * groups;
    d.slides = p.a[2].stride == 1 && (p.a[2].shift_step == 1 || p.a[2].taps == 1);
    d.pieces = (uint32_t)((p.a[2].count + DEPTHWISE_OUTPUTS - 1) / DEPTHWISE_OUTPUTS);
    d.by_pieces = ewc_divisor_of(d.pieces), d.by_rows = ewc_divisor_of(p.a[1].count), d.by_filters = ewc_divisor_of(d.filters);
    const int64_t images = p.pixels / ((int64_t)p.a[1].count * p.a[2].count);
    if (launch_fixed<E>(p, d, groups, images, stream)) return true;
    const int64_t places = images * p.a[1].count * d.pieces;
    bool vectors = p.filters == 1 && p.in_stride[1] == 1 && p.out_stride[1] == 1 && groups % CHANNELS == 0 && (uintptr_t)p.input % 16 == 0 && (uintptr_t)p.output % 16 == 0;
    for (int k = 0; k < 5; k++) vectors = vectors && (k == 1 || (p.in_stride[k] % CHANNELS == 0 && p.out_stride[k] % CHANNELS == 0));
    d.groups_of_channels = (uint32_t)(groups / CHANNELS);
    d.by_channels = ewc_divisor_of(vectors ? d.groups_of_channels : 1);
    d.items = places * (vectors ? (int64_t)d.groups_of_channels : d.filters);
    if (d.items >= (int64_t)1 << 31) return false;
    const unsigned blocks = (unsigned)((d.items + 255) / 256);
    if (vectors) depthwise_channels<E><<<blocks, 256, 0, stream>>>(p, d);
    else depthwise_rows<E><<<blocks, 256, 0, stream>>>(p, d);
    return true;
}

#endif
