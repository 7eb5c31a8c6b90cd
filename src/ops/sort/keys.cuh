// Keys and sorted rows on CUDA, as keys.h has them on the host.
#ifndef NBX_OPS_KEYS_CUH
#define NBX_OPS_KEYS_CUH

#include "cuda/flat.cuh"
#include "ops/sort/keys.h"

enum { SORT_SMALL = 2048 };  // rows up to here are sorted in shared memory

// Rows of keys: the elements of x at rows[r] + along[i].
typedef struct key_rows {
    flat rows, along;  // along.data is not used
    bool falling;
} key_rows;

// Sorted rows in scratch of nbx_device_sort_bytes: keys[row][rank], and where each stood.
typedef struct sorted_rows {
    const uint64_t *keys;
    const uint32_t *places;
} sorted_rows;
nbx_status nbx_cuda_sort_rows(nbx_op_call *c, const key_rows *k, void *scratch, sorted_rows *sorted);

// What becomes of sorted entries: values and places, or the arrays in scratch. The first `limit` of each row.
typedef struct sort_sink {
    flat values, places;       // over the rows
    int64_t values_step, places_step;
    uint64_t *keys;            // not NULL: these, [row][length]
    uint32_t *where;
    int64_t limit;
} sort_sink;
// The s->limit first of each row, of elements of at most 4 bytes, 0 < limit <= NBX_DEVICE_TOPK (topk_cuda.cu).
nbx_status nbx_cuda_select_rows(nbx_op_call *c, const key_rows *k, const sort_sink *s);

#ifdef __CUDACC__
static __device__ __forceinline__ void emit(const key_rows &k, const sort_sink &s, int64_t row, int64_t rank, uint64_t key, uint32_t place) {
    if (s.keys) {
        s.keys[row * k.along.count + rank] = key;
        s.where[row * k.along.count + rank] = place;
        return;
    }
    copy_element(k.rows.width, flat_at(s.values, row) + rank * s.values_step, flat_at(k.rows, row) + flat_offset(k.along, place));
    *(int64_t *)(flat_at(s.places, row) + rank * s.places_step) = place;
}

static __device__ __forceinline__ uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1), size = bits & (sign - 1);
    if (size > infinity) return all;
    if (size == 0) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}

static __device__ __forceinline__ uint64_t key_of(int dtype, const char *p) {
    switch (dtype) {
    case NBX_BOOL: return *(const uint8_t *)p != 0;
    case NBX_UINT8: return *(const uint8_t *)p;
    case NBX_INT8: return *(const uint8_t *)p ^ 0x80u;
    case NBX_INT16: return *(const uint16_t *)p ^ 0x8000u;
    case NBX_UINT16: return *(const uint16_t *)p;
    case NBX_INT32: return *(const uint32_t *)p ^ 0x80000000u;
    case NBX_UINT32: return *(const uint32_t *)p;
    case NBX_INT64: return *(const uint64_t *)p ^ (uint64_t)1 << 63;
    case NBX_FLOAT16: return float_key(*(const uint16_t *)p, 16, 0x7c00);
    case NBX_BFLOAT16: return float_key(*(const uint16_t *)p, 16, 0x7f80);
    case NBX_FLOAT32: return float_key(*(const uint32_t *)p, 32, 0x7f800000);
    case NBX_FLOAT64: return float_key(*(const uint64_t *)p, 64, 0x7ff0000000000000);
    default: return *(const uint64_t *)p;
    }
}

// The element of a key that does not fall, as bits. False for zeros and NaN, of which several share a key.
static __device__ __forceinline__ bool element_of_key(int dtype, uint64_t key, uint64_t *bits) {
    uint64_t sign = 0;
    switch (dtype) {
    case NBX_INT8: *bits = key ^ 0x80u; return true;
    case NBX_INT16: *bits = key ^ 0x8000u; return true;
    case NBX_INT32: *bits = key ^ 0x80000000u; return true;
    case NBX_INT64: *bits = key ^ (uint64_t)1 << 63; return true;
    case NBX_FLOAT16:
    case NBX_BFLOAT16: sign = 0x8000u; break;
    case NBX_FLOAT32: sign = 0x80000000u; break;
    case NBX_FLOAT64: sign = (uint64_t)1 << 63; break;
    default: *bits = key; return true;
    }
    const uint64_t all = sign | (sign - 1);
    *bits = key & sign ? key ^ sign : ~key & all;
    return key != all && key != sign;
}

static __device__ __forceinline__ uint64_t key_mask(int width) { return ~(uint64_t)0 >> (64 - 8 * width); }
static __device__ __forceinline__ uint64_t row_key(const key_rows &k, const char *row, int64_t i) {
    const uint64_t key = key_of(k.rows.dtype, row + flat_offset(k.along, i));
    return k.falling ? key ^ key_mask(k.rows.width) : key;
}

// Sorts count (a power of two) entries of shared memory by key, then place: bitonic, by threads first ... first + stride - 1.
static __device__ __forceinline__ void sort_shared(uint64_t *keys, uint32_t *places, int count, int thread, int threads) {
    for (int size = 2; size <= count; size <<= 1)
        for (int step = size >> 1; step > 0; step >>= 1) {
            for (int i = thread; i < count / 2; i += threads) {
                const int a = 2 * i - (i & (step - 1)), b = a + step;
                const bool rising = (a & size) == 0;
                const uint64_t ka = keys[a], kb = keys[b];
                const uint32_t pa = places[a], pb = places[b];
                const bool above = ka > kb || (ka == kb && pa > pb);
                if (above == rising) keys[a] = kb, keys[b] = ka, places[a] = pb, places[b] = pa;
            }
            __syncthreads();
        }
}

// Radix selection by a block: *rank becomes the rank among the elements that share the returned key. hist: 257 words of
// shared memory and more are not needed. Elements for which `skip` is set by the caller do not exist here.
static __device__ __forceinline__ uint64_t select_key(const key_rows &k, const char *row, int64_t length, int64_t *rank, unsigned long long *hist) {
    uint64_t prefix = 0;
    int64_t left = *rank;
    for (int byte = k.rows.width - 1; byte >= 0; byte--) {
        for (int i = (int)threadIdx.x; i < 256; i += (int)blockDim.x) hist[i] = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
            const uint64_t key = row_key(k, row, i);
            if (byte == k.rows.width - 1 || key >> (8 * byte + 8) == prefix) atomicAdd(&hist[key >> (8 * byte) & 255], 1ull);
        }
        __syncthreads();
        int digit = 0;
        while (digit < 255 && left >= (int64_t)hist[digit]) left -= (int64_t)hist[digit++];
        prefix = prefix << 8 | (uint64_t)digit;
        __syncthreads();
    }
    *rank = left;
    return prefix;
}
#endif

#endif
