// Depthwise convolutions of one or two dims on CUDA: a thread makes OUTPUTS neighbouring results of a row and slides over
// their inputs, so that a tap costs one load and OUTPUTS multiplications. Rows dense along the width: of one channel. Channels
// dense: of CHANNELS channels at a time. Included by convolution_cuda.cu, whose descriptions it reads.
#ifndef NBX_OPS_DEPTHWISE_CUH
#define NBX_OPS_DEPTHWISE_CUH

enum { DEPTHWISE_OUTPUTS = 4 };

typedef struct depthwise_call {
    int64_t items;
    int filters;             // of all groups
    uint32_t pieces, groups_of_channels;
    ewc_divisor by_pieces, by_rows, by_filters, by_channels;
    bool slides;             // neighbouring results read neighbouring inputs
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
    const int64_t images = p.pixels / ((int64_t)p.a[1].count * p.a[2].count), places = images * p.a[1].count * d.pieces;
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
