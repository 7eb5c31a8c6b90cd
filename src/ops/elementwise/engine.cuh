// The elementwise engine on CUDA: one kernel per group of operators and class of dtype, whatever the layout.
//
// A thread makes LANES neighbouring elements along the innermost dim. Operands are read as their own dtype into the class
// of computing (float, double, int64_t, cfloat, cdouble), the operator's code selects a formula once per thread (the
// branch is uniform), and results are converted on the store. An operand is read by vectors where it is dense along the
// innermost dim, once where it is broadcast along it, element by element otherwise. Outer dims cost one multiplication
// each (division by a constant found on the host), per thread and not per element.
#ifndef NBX_OPS_ELEMENTWISE_ENGINE_CUH
#define NBX_OPS_ELEMENTWISE_ENGINE_CUH

#include "cuda/cuda.h"
#include "ops/elementwise/elementwise.h"

#include <string.h>
#include <type_traits>

static __device__ __forceinline__ int nbx_cuda_dtype_bytes(int dtype) {
    switch (dtype) {
    case NBX_COMPLEX128: return 16;
    case NBX_COMPLEX64:
    case NBX_FLOAT64:
    case NBX_INT64:
    case NBX_UINT64: return 8;
    case NBX_FLOAT32:
    case NBX_INT32:
    case NBX_UINT32: return 4;
    case NBX_FLOAT16:
    case NBX_BFLOAT16:
    case NBX_INT16:
    case NBX_UINT16: return 2;
    default: return 1;
    }
}

enum { EWC_LANES = 8, EWC_DIMS = 12, EWC_THREADS = 256 };

struct cfloat { float re, im; };
struct cdouble { double re, im; };

// ------------------------------------------------------------------------------------------------------------ one value
template <typename C> struct ewc_class;
template <> struct ewc_class<float> { static constexpr bool integral = false, complex = false; };
template <> struct ewc_class<double> { static constexpr bool integral = false, complex = false; };
template <> struct ewc_class<int64_t> { static constexpr bool integral = true, complex = false; };
template <> struct ewc_class<cfloat> { static constexpr bool integral = false, complex = true; };
template <> struct ewc_class<cdouble> { static constexpr bool integral = false, complex = true; };

template <typename C, typename S> struct ewc_from { static __device__ __forceinline__ C get(S x) { return (C)x; } };
template <typename S> struct ewc_from<cfloat, S> { static __device__ __forceinline__ cfloat get(S x) { return {(float)x, 0.f}; } };
template <typename S> struct ewc_from<cdouble, S> { static __device__ __forceinline__ cdouble get(S x) { return {(double)x, 0.}; } };
// Floats become integers as on x86: NaN and what is out of range, the smallest one.
template <typename F> static __device__ __forceinline__ int64_t ewc_truncated(F x) { return x >= (F)-0x1p63 && x < (F)0x1p63 ? (int64_t)x : INT64_MIN; }
template <> struct ewc_from<int64_t, float> { static __device__ __forceinline__ int64_t get(float x) { return ewc_truncated(x); } };
template <> struct ewc_from<int64_t, double> { static __device__ __forceinline__ int64_t get(double x) { return ewc_truncated(x); } };

template <typename C> static __device__ __forceinline__ C ewc_of_complex(double re, double im) { (void)im; return ewc_from<C, double>::get(re); }
template <> __device__ __forceinline__ cfloat ewc_of_complex<cfloat>(double re, double im) { return {(float)re, (float)im}; }
template <> __device__ __forceinline__ cdouble ewc_of_complex<cdouble>(double re, double im) { return {re, im}; }

static __device__ __forceinline__ float ewc_half_bits(uint16_t x) { return __half2float(__ushort_as_half(x)); }
static __device__ __forceinline__ float ewc_bf16_bits(uint16_t x) { return __uint_as_float((uint32_t)x << 16); }
static __device__ __forceinline__ float ewc_fp8(uint8_t x, bool e5m2) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, e5m2 ? __NV_E5M2 : __NV_E4M3)));
}

// The rarer dtypes are a call, so that kernels stay small: ptxas took minutes for what was inlined everywhere.
template <typename C> static __device__ __noinline__ C ewc_load_rare(int dtype, const void *at) {
    switch (dtype) {
    case NBX_FLOAT64: return ewc_from<C, double>::get(*(const double *)at);
    case NBX_UINT64: return ewc_from<C, uint64_t>::get(*(const uint64_t *)at);
    case NBX_INT32: return ewc_from<C, int32_t>::get(*(const int32_t *)at);
    case NBX_UINT32: return ewc_from<C, uint32_t>::get(*(const uint32_t *)at);
    case NBX_INT16: return ewc_from<C, int16_t>::get(*(const int16_t *)at);
    case NBX_UINT16: return ewc_from<C, uint16_t>::get(*(const uint16_t *)at);
    case NBX_INT8: return ewc_from<C, int8_t>::get(*(const int8_t *)at);
    case NBX_UINT8: return ewc_from<C, uint8_t>::get(*(const uint8_t *)at);
    case NBX_BOOL: return ewc_from<C, uint8_t>::get(*(const uint8_t *)at != 0);
    case NBX_COMPLEX64: return ewc_of_complex<C>(((const float *)at)[0], ((const float *)at)[1]);
    case NBX_COMPLEX128: return ewc_of_complex<C>(((const double *)at)[0], ((const double *)at)[1]);
    case NBX_FLOAT8_E4M3FN: return ewc_from<C, float>::get(ewc_fp8(*(const uint8_t *)at, false));
    default: return ewc_from<C, float>::get(ewc_fp8(*(const uint8_t *)at, true));
    }
}

template <typename C> static __device__ __forceinline__ C ewc_load(int dtype, const void *at) {
    switch (dtype) {
    case NBX_FLOAT32: return ewc_from<C, float>::get(*(const float *)at);
    case NBX_BFLOAT16: return ewc_from<C, float>::get(ewc_bf16_bits(*(const uint16_t *)at));
    case NBX_FLOAT16: return ewc_from<C, float>::get(ewc_half_bits(*(const uint16_t *)at));
    case NBX_INT64: return ewc_from<C, int64_t>::get(*(const int64_t *)at);
    default: return ewc_load_rare<C>(dtype, at);
    }
}

template <typename C> static __device__ __forceinline__ double ewc_real(C x) { return (double)x; }
template <> __device__ __forceinline__ double ewc_real<cfloat>(cfloat x) { return x.re; }
template <> __device__ __forceinline__ double ewc_real<cdouble>(cdouble x) { return x.re; }
template <typename C> static __device__ __forceinline__ float ewc_single(C x) { return (float)x; }
template <> __device__ __forceinline__ float ewc_single<cfloat>(cfloat x) { return x.re; }
template <> __device__ __forceinline__ float ewc_single<cdouble>(cdouble x) { return (float)x.re; }
template <typename C> static __device__ __forceinline__ int64_t ewc_integer(C x) { return ewc_truncated(x); }
template <> __device__ __forceinline__ int64_t ewc_integer<int64_t>(int64_t x) { return x; }
template <> __device__ __forceinline__ int64_t ewc_integer<cfloat>(cfloat x) { return ewc_truncated(x.re); }
template <> __device__ __forceinline__ int64_t ewc_integer<cdouble>(cdouble x) { return ewc_truncated(x.re); }
template <typename C> static __device__ __forceinline__ bool ewc_truth(C x) { return x != (C)0; }
template <> __device__ __forceinline__ bool ewc_truth<cfloat>(cfloat x) { return x.re != 0 || x.im != 0; }
template <> __device__ __forceinline__ bool ewc_truth<cdouble>(cdouble x) { return x.re != 0 || x.im != 0; }
template <typename C> static __device__ __forceinline__ double ewc_imaginary(C) { return 0; }
template <> __device__ __forceinline__ double ewc_imaginary<cfloat>(cfloat x) { return x.im; }
template <> __device__ __forceinline__ double ewc_imaginary<cdouble>(cdouble x) { return x.im; }

// A double goes to 16 bits in one rounding; a float is exact on the way.
template <typename C> static __device__ __forceinline__ uint16_t ewc_to_half(C x) { return __half_as_ushort(__float2half_rn(ewc_single(x))); }
template <> __device__ __forceinline__ uint16_t ewc_to_half<double>(double x) { return __half_as_ushort(__double2half(x)); }
template <typename C> static __device__ __forceinline__ uint16_t ewc_to_bf16(C x) { return __bfloat16_as_ushort(__float2bfloat16_rn(ewc_single(x))); }
static __device__ __forceinline__ uint8_t ewc_to_fp8(float x, bool e5m2) {
    return (uint8_t)__nv_cvt_float_to_fp8(x, __NV_NOSAT, e5m2 ? __NV_E5M2 : __NV_E4M3);
}

template <typename C> static __device__ __noinline__ void ewc_store_rare(int dtype, void *at, C x) {
    switch (dtype) {
    case NBX_FLOAT64: *(double *)at = ewc_real(x); break;
    case NBX_UINT64: *(uint64_t *)at = (uint64_t)ewc_integer(x); break;
    case NBX_INT32: *(int32_t *)at = (int32_t)ewc_integer(x); break;
    case NBX_UINT32: *(uint32_t *)at = (uint32_t)ewc_integer(x); break;
    case NBX_INT16: *(int16_t *)at = (int16_t)ewc_integer(x); break;
    case NBX_UINT16: *(uint16_t *)at = (uint16_t)ewc_integer(x); break;
    case NBX_INT8: *(int8_t *)at = (int8_t)ewc_integer(x); break;
    case NBX_UINT8: *(uint8_t *)at = (uint8_t)ewc_integer(x); break;
    case NBX_BOOL: *(uint8_t *)at = ewc_truth(x); break;
    case NBX_COMPLEX64: ((float *)at)[0] = ewc_single(x), ((float *)at)[1] = (float)ewc_imaginary(x); break;
    case NBX_COMPLEX128: ((double *)at)[0] = ewc_real(x), ((double *)at)[1] = ewc_imaginary(x); break;
    case NBX_FLOAT8_E4M3FN: *(uint8_t *)at = ewc_to_fp8(ewc_single(x), false); break;
    default: *(uint8_t *)at = ewc_to_fp8(ewc_single(x), true); break;
    }
}

template <typename C> static __device__ __forceinline__ void ewc_store(int dtype, void *at, C x) {
    switch (dtype) {
    case NBX_FLOAT32: *(float *)at = ewc_single(x); break;
    case NBX_BFLOAT16: *(uint16_t *)at = ewc_to_bf16(x); break;
    case NBX_FLOAT16: *(uint16_t *)at = ewc_to_half(x); break;
    case NBX_INT64: *(int64_t *)at = ewc_integer(x); break;
    default: ewc_store_rare<C>(dtype, at, x); break;
    }
}

// x as an element of the dtype would have it.
template <typename C> static __device__ __noinline__ C ewc_through(int dtype, C x) {
    double room[2];
    ewc_store<C>(dtype, room, x);
    return ewc_load<C>(dtype, room);
}

// ------------------------------------------------------------------------------------------------------------- vectors
template <typename C, typename S, typename F> static __device__ __forceinline__ void ewc_widen(const void *at, C (&x)[EWC_LANES], F get) {
    constexpr int WORDS = (int)sizeof(S) * EWC_LANES / 16 > 0 ? (int)sizeof(S) * EWC_LANES / 16 : 1;
    if (sizeof(S) * EWC_LANES >= 16) {
        uint4 words[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++) words[i] = ((const uint4 *)at)[i];
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = get(((const S *)words)[i]);
    } else {
        const uint2 word = *(const uint2 *)at;
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = get(((const S *)&word)[i]);
    }
}

// bfloat16 and float16 two at a time, in half the instructions.
static __device__ __forceinline__ void ewc_widen_pairs(int dtype, const void *at, float (&x)[EWC_LANES]) {
    const uint4 word = *(const uint4 *)at;
    const uint32_t pairs[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == NBX_BFLOAT16) {
            x[2 * i] = __uint_as_float(pairs[i] << 16), x[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
        } else {
            const float2 two = __half22float2(*(const __half2 *)&pairs[i]);
            x[2 * i] = two.x, x[2 * i + 1] = two.y;
        }
    }
}
static __device__ __forceinline__ void ewc_narrow_pairs(int dtype, void *at, const float (&x)[EWC_LANES]) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == NBX_BFLOAT16) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
            memcpy(&pairs[i], &two, sizeof two);
        } else {
            const __half2 two = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
            memcpy(&pairs[i], &two, sizeof two);
        }
    }
    *(uint4 *)at = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// LANES dense elements at an address aligned for the vector: 16 bytes, or 8 for one-byte dtypes.
template <typename C> static __device__ __forceinline__ void ewc_load_dense(int dtype, const void *at, C (&x)[EWC_LANES]) {
    if constexpr (std::is_same_v<C, float>)
        if (dtype == NBX_BFLOAT16 || dtype == NBX_FLOAT16) return ewc_widen_pairs(dtype, at, x);
    switch (dtype) {
    case NBX_FLOAT32: ewc_widen<C, float>(at, x, [](float v) { return ewc_from<C, float>::get(v); }); break;
    case NBX_BFLOAT16: ewc_widen<C, uint16_t>(at, x, [](uint16_t v) { return ewc_from<C, float>::get(ewc_bf16_bits(v)); }); break;
    case NBX_FLOAT16: ewc_widen<C, uint16_t>(at, x, [](uint16_t v) { return ewc_from<C, float>::get(ewc_half_bits(v)); }); break;
    case NBX_INT64: ewc_widen<C, int64_t>(at, x, [](int64_t v) { return ewc_from<C, int64_t>::get(v); }); break;
    case NBX_INT32: ewc_widen<C, int32_t>(at, x, [](int32_t v) { return ewc_from<C, int32_t>::get(v); }); break;
    case NBX_INT16: ewc_widen<C, int16_t>(at, x, [](int16_t v) { return ewc_from<C, int16_t>::get(v); }); break;
    case NBX_UINT8: ewc_widen<C, uint8_t>(at, x, [](uint8_t v) { return ewc_from<C, uint8_t>::get(v); }); break;
    case NBX_BOOL: ewc_widen<C, uint8_t>(at, x, [](uint8_t v) { return ewc_from<C, uint8_t>::get(v != 0); }); break;
    case NBX_FLOAT64: ewc_widen<C, double>(at, x, [](double v) { return ewc_from<C, double>::get(v); }); break;
    default: {
        const int size = (int)nbx_cuda_dtype_bytes(dtype);
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = ewc_load<C>(dtype, (const char *)at + i * size);
    }
    }
}

template <typename S, typename C, typename F> static __device__ __forceinline__ void ewc_narrow(void *at, const C (&x)[EWC_LANES], F make) {
    constexpr int WORDS = (int)sizeof(S) * EWC_LANES / 16 > 0 ? (int)sizeof(S) * EWC_LANES / 16 : 1;
    if (sizeof(S) * EWC_LANES >= 16) {
        uint4 words[WORDS];
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) ((S *)words)[i] = make(x[i]);
#pragma unroll
        for (int i = 0; i < WORDS; i++) ((uint4 *)at)[i] = words[i];
    } else {
        uint2 word;
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) ((S *)&word)[i] = make(x[i]);
        *(uint2 *)at = word;
    }
}

template <typename C> static __device__ __forceinline__ void ewc_store_dense(int dtype, void *at, const C (&x)[EWC_LANES]) {
    if constexpr (std::is_same_v<C, float>)
        if (dtype == NBX_BFLOAT16 || dtype == NBX_FLOAT16) return ewc_narrow_pairs(dtype, at, x);
    switch (dtype) {
    case NBX_FLOAT32: ewc_narrow<float>(at, x, [](C v) { return ewc_single(v); }); break;
    case NBX_BFLOAT16: ewc_narrow<uint16_t>(at, x, [](C v) { return ewc_to_bf16(v); }); break;
    case NBX_FLOAT16: ewc_narrow<uint16_t>(at, x, [](C v) { return ewc_to_half(v); }); break;
    case NBX_INT64: ewc_narrow<int64_t>(at, x, [](C v) { return ewc_integer(v); }); break;
    case NBX_INT32: ewc_narrow<int32_t>(at, x, [](C v) { return (int32_t)ewc_integer(v); }); break;
    case NBX_INT16: ewc_narrow<int16_t>(at, x, [](C v) { return (int16_t)ewc_integer(v); }); break;
    case NBX_UINT8: ewc_narrow<uint8_t>(at, x, [](C v) { return (uint8_t)ewc_integer(v); }); break;
    case NBX_BOOL: ewc_narrow<uint8_t>(at, x, [](C v) { return (uint8_t)ewc_truth(v); }); break;
    case NBX_FLOAT64: ewc_narrow<double>(at, x, [](C v) { return ewc_real(v); }); break;
    default: {
        const int size = (int)nbx_cuda_dtype_bytes(dtype);
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) ewc_store<C>(dtype, (char *)at + i * size, x[i]);
    }
    }
}

// A word of 16 bytes as floats, and back.
template <int DTYPE> struct ewc_word { enum { LANES = DTYPE == NBX_FLOAT32 ? 4 : 8 }; };
template <int DTYPE> static __device__ __forceinline__ void ewc_widen_word(const uint4 &word, float (&x)[ewc_word<DTYPE>::LANES]) {
    if constexpr (DTYPE == NBX_FLOAT32) memcpy(x, &word, sizeof word);
    else ewc_widen_pairs(DTYPE, &word, x);
}
template <int DTYPE> static __device__ __forceinline__ uint4 ewc_narrow_word(const float (&x)[ewc_word<DTYPE>::LANES]) {
    uint4 word;
    if constexpr (DTYPE == NBX_FLOAT32) memcpy(&word, x, sizeof word);
    else ewc_narrow_pairs(DTYPE, &word, x);
    return word;
}

// --------------------------------------------------------------------------------------------------------------- plans
enum { EWC_DENSE, EWC_SPLAT, EWC_STRIDED };

typedef struct ewc_divisor {  // quotient of n < 2^31 by size: (n * multiplier) >> 32 >> shift
    uint32_t size, multiplier, shift;
} ewc_divisor;

// What formulas see beside the inputs.
typedef struct ewc_params {
    double f[8];
    int64_t i[4];
    int compute;            // dtype of computing
    int fault_op;
    nbx_fault_slot *fault;  // set where ewc_run was told so
} ewc_params;

typedef struct ewc_plan {
    int code, outs, operands, dims;  // dims: outer ones
    int64_t inner, chunks, items;    // innermost size; chunks of LANES in it; chunks in all
    bool wide;                       // more than 2^31 items: divide in 64 bits
    bool narrow;                     // steps and strides fit 31 bits
    uint32_t whole;                  // chunks of LANES elements in the innermost dim
    uint32_t jump[EW_OPERANDS];           // bytes from chunk to chunk of dense and broadcast operands
    char *base[EW_OPERANDS];         // NULL: the number in value[]
    uint8_t dtype[EW_OPERANDS], mode[EW_OPERANDS];
    bool round_first[EW_OPERANDS];   // to the dtype of computing, float16 or bfloat16, before anything else (a result: after all)
    bool truth[EW_OPERANDS];         // computing in bool: what is not zero is 1
    uint8_t compute;
    int64_t step[EW_OPERANDS];       // bytes along the innermost dim
    ewc_divisor by_chunks, size[EWC_DIMS];
    int64_t stride[EW_OPERANDS][EWC_DIMS];
    double value[EW_INPUTS][2];      // numbers, as an element of value_dtype
    float number[EW_INPUTS];         // the same for hot kernels (ewc_plain_numbers)
    uint8_t value_dtype[EW_INPUTS];
    ewc_params params;
} ewc_plan;

ewc_divisor ewc_divisor_of(int64_t size);
// Fills the plan of a call of an elementwise row; *empty when there is nothing to do.
nbx_status ewc_plan_make(nbx_op_call *c, int code, ewc_plan *plan, bool *empty);
// The same for operands given one by one: `operands` tensors, outputs first.
nbx_status ewc_plan_operands(nbx_op_call *c, int outs, int operands, const nbx_tensor *const *tensors, ewc_plan *plan, bool *empty);

static __device__ __forceinline__ uint32_t ewc_quotient(uint32_t n, const ewc_divisor &d) { return (__umulhi(n, d.multiplier) + (d.multiplier ? 0 : n)) >> d.shift; }

// Where item `item` begins in every operand, and how many elements it has.
template <int MOST> static __device__ __forceinline__ int ewc_locate(const ewc_plan &p, int64_t item, int64_t (&offset)[MOST]) {
    int64_t outer, chunk;
    if (p.wide) {
        outer = item / p.chunks;
        chunk = item % p.chunks;
    } else {
        outer = ewc_quotient((uint32_t)item, p.by_chunks);
        chunk = item - outer * p.chunks;
    }
    if (p.narrow && p.dims <= 1) {  // most of them, by the fewest instructions
#pragma unroll
        for (int k = 0; k < MOST; k++)
            offset[k] = (int64_t)((int)chunk * EWC_LANES) * (int)p.step[k] + (p.dims ? (int64_t)(int)outer * (int)p.stride[k][0] : 0);
        const int64_t left = p.inner - chunk * EWC_LANES;
        return left < EWC_LANES ? (int)left : EWC_LANES;
    }
#pragma unroll
    for (int k = 0; k < MOST; k++) offset[k] = k < p.operands ? chunk * EWC_LANES * p.step[k] : 0;
    for (int d = 0; d < p.dims; d++) {
        const int64_t rest = p.wide ? outer / p.size[d].size : ewc_quotient((uint32_t)outer, p.size[d]);
        const int64_t at = outer - rest * p.size[d].size;
        outer = rest;
#pragma unroll
        for (int k = 0; k < MOST; k++)
            if (k < p.operands) offset[k] += p.narrow ? (int64_t)(int)at * (int)p.stride[k][d] : at * p.stride[k][d];
    }
    const int64_t left = p.inner - chunk * EWC_LANES;
    return left < EWC_LANES ? (int)left : EWC_LANES;
}

template <typename C> static __device__ __forceinline__ C ewc_rounded(int compute, C x) {
    if (compute == NBX_BFLOAT16) return ewc_from<C, float>::get(ewc_bf16_bits(ewc_to_bf16(x)));
    return ewc_from<C, float>::get(ewc_half_bits(ewc_to_half(x)));
}

static __device__ __noinline__ int64_t ewc_truth_at(int dtype, const void *at) { return ewc_truth(ewc_load<cdouble>(dtype, at)); }

template <typename C> static __device__ __forceinline__ void ewc_read(const ewc_plan &p, int k, int64_t offset, int count, C (&x)[EWC_LANES]) {
    const int dtype = p.dtype[k];
    if (!p.base[k]) {
        const C v = ewc_load<C>(p.value_dtype[k - p.outs], p.value[k - p.outs]);
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = v;
        return;
    }
    const char *at = p.base[k] + offset;
    if (ewc_class<C>::integral && p.truth[k]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = ewc_from<C, int64_t>::get(ewc_truth_at(dtype, at + (i < count ? i : 0) * (p.mode[k] == EWC_SPLAT ? 0 : p.step[k])));
        return;
    }
    if (p.mode[k] == EWC_SPLAT) {
        const C v = ewc_load<C>(dtype, at);
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = v;
    } else if (p.mode[k] == EWC_DENSE && count == EWC_LANES) {
        ewc_load_dense<C>(dtype, at, x);
    } else {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = ewc_load<C>(dtype, at + (i < count ? i : 0) * p.step[k]);
    }
    if (p.round_first[k])
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = ewc_rounded<C>(p.compute, x[i]);
}

template <typename C> static __device__ __forceinline__ void ewc_write(const ewc_plan &p, int k, int64_t offset, int count, C (&x)[EWC_LANES]) {
    char *at = p.base[k] + offset;
    if (p.round_first[k])
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) x[i] = ewc_rounded<C>(p.compute, x[i]);
    if (p.mode[k] == EWC_DENSE && count == EWC_LANES) {
        ewc_store_dense<C>(p.dtype[k], at, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < EWC_LANES; i++)
        if (i < count) ewc_store<C>(p.dtype[k], at + i * p.step[k], x[i]);
}

// ------------------------------------------------------------------------------------------------------------- kernels
// HOT in a group: kernels for operands of one dtype that lie dense, too.
// A group of operators: eval<C>(code, x, params, r) sets r[output][lane] from x[input][lane]; INPUTS and OUTPUTS are the most that
// an operator of the group has.
template <typename Group, typename C>
static __global__ void __launch_bounds__(EWC_THREADS) ewc_kernel(const __grid_constant__ ewc_plan p) {
    const int64_t item = (int64_t)blockIdx.x * EWC_THREADS + threadIdx.x;
    if (item >= p.items) return;
    int64_t offset[EW_OPERANDS];
    const int count = ewc_locate(p, item, offset);
    C x[Group::INPUTS][EWC_LANES], r[Group::OUTPUTS][EWC_LANES];
#pragma unroll
    for (int k = 0; k < Group::INPUTS; k++)
        if (k + p.outs < p.operands) {
            // the index of an operand must be known when compiling, so that offsets stay in registers
            if (p.outs == 1) ewc_read<C>(p, k + 1, offset[k + 1], count, x[k]);
            else if (Group::OUTPUTS > 1) ewc_read<C>(p, k + 2, offset[k + 2], count, x[k]);
        }
    Group::template eval<C>(p.code, x, p.params, r);
#pragma unroll
    for (int k = 0; k < Group::OUTPUTS; k++)
        if (k < p.outs) ewc_write<C>(p, k, offset[k], count, r[k]);
}

// Where item `item` begins in every operand, by few instructions; false: it has less than LANES elements. For plans that are
// not wide, and operands that are dense or broadcast along the innermost dim.
template <int MOST> static __device__ __forceinline__ bool ewc_place(const ewc_plan &p, uint32_t item, char *(&at)[MOST]) {
    uint32_t outer = 0, chunk = item;
    if (p.dims) {
        outer = ewc_quotient(item, p.by_chunks);
        chunk = item - outer * (uint32_t)p.chunks;
    }
#pragma unroll
    for (int k = 0; k < MOST; k++) at[k] = p.base[k] + (uint64_t)chunk * p.jump[k];
#pragma unroll 1
    for (int d = 0; d < p.dims; d++) {
        const uint32_t rest = d + 1 < p.dims ? ewc_quotient(outer, p.size[d]) : 0, here = outer - rest * p.size[d].size;
        outer = rest;
#pragma unroll
        for (int k = 0; k < MOST; k++) at[k] += here * p.stride[k][d];
    }
    return chunk < p.whole;
}

// Every operand dense or broadcast along the innermost dim and of one common dtype (MASK: bit k for input k that is bool), or a
// number, as they mostly are: nothing is left to ask between the loads, which are all under way before the first is used. What
// keeps such a kernel at the rate of memory is that it has few instructions and few registers: TIMES vectors of 8 for a thread,
// BLOCKS a multiprocessor at least, the best of six pairs on an H200 (bf16: x + row 301 -> 242 us for 503 MB, silu 267 -> 241).
template <int DTYPE, int INPUTS> struct ewc_hot {
    enum {
        WIDE = DTYPE == NBX_FLOAT32,
        TIMES = WIDE && INPUTS != 2 ? 1 : 2,
        BLOCKS = INPUTS == 1 || (WIDE && INPUTS > 2) || (!WIDE && INPUTS == 2) ? 6 : 5,
        EACH = TIMES * EWC_THREADS,
    };
};

template <typename Group, typename C, int DTYPE, int MASK>
static __global__ void __launch_bounds__(EWC_THREADS, ewc_hot<DTYPE, Group::INPUTS>::BLOCKS) ewc_hot_kernel(const __grid_constant__ ewc_plan p) {
    constexpr int INPUTS = Group::INPUTS, TIMES = ewc_hot<DTYPE, INPUTS>::TIMES, SIZE = DTYPE == NBX_FLOAT32 ? 4 : 2;
    const uint32_t first = blockIdx.x * ewc_hot<DTYPE, INPUTS>::EACH + threadIdx.x, items = (uint32_t)p.items;
    char *at[TIMES][INPUTS + 1];
    bool whole[TIMES];
    uint4 words[TIMES][INPUTS][2];
#pragma unroll
    for (int t = 0; t < TIMES; t++) {
        whole[t] = false;
        const uint32_t item = first + t * EWC_THREADS;
        if (item >= items) continue;
        whole[t] = ewc_place(p, item, at[t]);
        if (!whole[t]) continue;
#pragma unroll
        for (int k = 0; k < INPUTS; k++) {
            if (!p.base[k + 1]) continue;
            const char *from = at[t][k + 1];
            uint4(&w)[2] = words[t][k];
            if (p.mode[k + 1] == EWC_SPLAT) w[0].x = MASK >> k & 1 ? *(const uint8_t *)from : SIZE == 2 ? *(const uint16_t *)from : *(const uint32_t *)from;
            else if (MASK >> k & 1) *(uint2 *)w = *(const uint2 *)from;
            else w[0] = ((const uint4 *)from)[0];
            if (!(MASK >> k & 1) && SIZE == 4 && p.mode[k + 1] != EWC_SPLAT) w[1] = ((const uint4 *)from)[1];
        }
    }
    const auto widened = [&](int k, bool mask, const void *from) {
        return mask ? ewc_from<C, uint8_t>::get(*(const uint8_t *)from != 0) : ewc_load<C>(DTYPE, from);
    };
#pragma unroll
    for (int t = 0; t < TIMES; t++) {
        if (!whole[t]) continue;
        C x[INPUTS][EWC_LANES], r[1][EWC_LANES];
#pragma unroll
        for (int k = 0; k < INPUTS; k++) {
            const bool mask = MASK >> k & 1;
            if (!p.base[k + 1] || p.mode[k + 1] == EWC_SPLAT) {
                const C v = !p.base[k + 1] ? (C)p.number[k] : widened(k, mask, words[t][k]);
#pragma unroll
                for (int i = 0; i < EWC_LANES; i++) x[k][i] = v;
            } else {
                ewc_load_dense<C>(mask ? (int)NBX_BOOL : DTYPE, words[t][k], x[k]);
            }
        }
        Group::template eval<C>(p.code, x, p.params, r);
        ewc_store_dense<C>(DTYPE, at[t][0], r[0]);
    }
    if (p.whole == p.chunks) return;
#pragma unroll 1
    for (int t = 0; t < TIMES; t++) {  // ends of rows, an element at a time
        const uint32_t item = first + t * EWC_THREADS;
        if (item >= items || ewc_place(p, item, at[0])) continue;
#pragma unroll 1
        for (int i = 0; i < (int)(p.inner % EWC_LANES); i++) {
            C x[INPUTS][EWC_LANES], r[1][EWC_LANES];
#pragma unroll
            for (int k = 0; k < INPUTS; k++) {
                const bool mask = MASK >> k & 1;
                const C v = !p.base[k + 1] ? (C)p.number[k] : widened(k, mask, at[0][k + 1] + (p.mode[k + 1] == EWC_SPLAT ? 0 : i) * (mask ? 1 : SIZE));
#pragma unroll
                for (int j = 0; j < EWC_LANES; j++) x[k][j] = v;
            }
            Group::template eval<C>(p.code, x, p.params, r);
            ewc_store<C>(DTYPE, at[0][0] + i * SIZE, r[0][0]);
        }
    }
}

template <typename Group, typename = void> struct ewc_is_hot { static constexpr bool value = false; };
template <typename Group> struct ewc_is_hot<Group, decltype((void)Group::HOT)> { static constexpr bool value = true; };
// HOT_MASK in a group, by an operator's code: which of its inputs are bool.
template <typename Group, typename = void> struct ewc_is_masked { static constexpr bool value = false; };
template <typename Group> struct ewc_is_masked<Group, decltype((void)Group::HOT_MASK)> { static constexpr bool value = true; };

static inline bool ewc_is_plain(const ewc_plan &p, int dtype, int mask) {
    for (int k = 0; k < p.operands; k++) {
        if (!p.base[k]) continue;
        const int wanted = k > 0 && mask >> (k - 1) & 1 ? NBX_BOOL : dtype;
        if (p.dtype[k] != wanted || (p.mode[k] != EWC_DENSE && (k == 0 || p.mode[k] != EWC_SPLAT)) || p.round_first[k] || p.truth[k]) return false;
    }
    return p.outs == 1;
}

// Numbers as hot kernels read them. false: one has an imaginary part.
bool ewc_plain_numbers(ewc_plan *p);

template <typename Group, typename C, int DTYPE, int MASK> static bool ewc_launch_plain(ewc_plan &p, cudaStream_t stream) {
    if (p.wide || !ewc_is_plain(p, DTYPE, MASK) || !ewc_plain_numbers(&p)) return false;
    for (int k = p.operands; k <= Group::INPUTS; k++) p.base[k] = NULL, p.number[k - 1] = 0;
    const int64_t each = ewc_hot<DTYPE, Group::INPUTS>::EACH;
    ewc_hot_kernel<Group, C, DTYPE, MASK><<<(unsigned)((p.items + each - 1) / each), EWC_THREADS, 0, stream>>>(p);
    return true;
}

template <typename Group, typename C, int MASK> static bool ewc_launch_hot(ewc_plan &p, cudaStream_t stream) {
    return ewc_launch_plain<Group, C, NBX_FLOAT32, MASK>(p, stream) || ewc_launch_plain<Group, C, NBX_BFLOAT16, MASK>(p, stream) ||
           ewc_launch_plain<Group, C, NBX_FLOAT16, MASK>(p, stream);
}

template <typename Group, typename C> static void ewc_launch(ewc_plan &p, cudaStream_t stream) {
    const int64_t blocks = (p.items + EWC_THREADS - 1) / EWC_THREADS;
    if constexpr (ewc_is_masked<Group>::value && sizeof(C) == 4) {
        if (Group::mask(p.code) == 1 ? ewc_launch_hot<Group, C, 1>(p, stream) : ewc_launch_hot<Group, C, 2>(p, stream)) return;
    } else if constexpr (ewc_is_hot<Group>::value && sizeof(C) == 4) {
        if (ewc_launch_hot<Group, C, 0>(p, stream)) return;
    }
    ewc_kernel<Group, C><<<(unsigned)blocks, EWC_THREADS, 0, stream>>>(p);
}

// The kernel of an operator of a group. Group::CLASSES says which classes it has formulas for.
enum { EWC_F32 = 1, EWC_F64 = 2, EWC_INT = 4, EWC_C64 = 8, EWC_C128 = 16, EWC_REALS = 7, EWC_ALL = 31, EWC_FLOATS = 3 };

template <typename Group> static nbx_status ewc_run(nbx_op_call *c, int code, bool faults = false) {
    ewc_plan p;
    bool empty;
    const nbx_status status = ewc_plan_make(c, code, &p, &empty);
    if (status != NBX_OK || empty) return status;
    if (faults) p.params.fault = nbx_cuda_fault_slot(c, &p.params.fault_op);
    cudaStream_t stream = stream_of(c);
    const nbx_dtype compute = (nbx_dtype)p.compute;
    bool launched = true;
    if (compute == NBX_COMPLEX64) {
        if constexpr (Group::CLASSES & EWC_C64) ewc_launch<Group, cfloat>(p, stream);
        else launched = false;
    } else if (compute == NBX_COMPLEX128) {
        if constexpr (Group::CLASSES & EWC_C128) ewc_launch<Group, cdouble>(p, stream);
        else launched = false;
    } else if (compute == NBX_FLOAT64) {
        if constexpr (Group::CLASSES & EWC_F64) ewc_launch<Group, double>(p, stream);
        else launched = false;
    } else if (nbx_dtype_is_float(compute)) {
        if constexpr (Group::CLASSES & EWC_F32) ewc_launch<Group, float>(p, stream);
        else launched = false;
    } else {
        if constexpr (Group::CLASSES & EWC_INT) ewc_launch<Group, int64_t>(p, stream);
        else launched = false;
    }
    if (!launched) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s on CUDA", nbx_dtype_rows[compute].name);
    return launch_status(c);
}

// Registers an operator of a group: EWC_OP(basic_group, EWC_ADD, "aten::add.Tensor").
#define EWC_OP(GROUP, CODE, NAME)                                                                                      \
    static nbx_status NBX_CUDA_JOIN(ewc_op_, __LINE__)(nbx_op_call * c) { return ewc_run<GROUP>(c, CODE); }            \
    NBX_CUDA_KERNEL(NAME, NBX_CUDA_JOIN(ewc_op_, __LINE__))

template <bool LARGEST> static __device__ __forceinline__ float nan_extreme(float a, float b) {  // NaN if either is
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float r;
    if (LARGEST) asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    else asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return (LARGEST ? a > b : a < b) || a != a ? a : b;
#endif
}
// 2^x and 1 / x by the hardware, to about 2^-22 and without subnormals.
static __device__ __forceinline__ float quick_exp2(float x) {
#ifdef __CUDA_ARCH__
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return exp2f(x);
#endif
}
static __device__ __forceinline__ float quick_reciprocal(float x) {
#ifdef __CUDA_ARCH__
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return 1.f / x;
#endif
}

// A formula for every lane, a its input.
#define EWC_EACH(...)                                                                                                  \
    _Pragma("unroll") for (int i = 0; i < EWC_LANES; i++) {                                                            \
        [[maybe_unused]] const C a = x[0][i];                                                                          \
        r[0][i] = (__VA_ARGS__);                                                                                       \
    }
// One formula of eval: EWC_CASE(EWC_ADD, a + b) with a, b, c, d, e the inputs of one lane.
#define EWC_CASE(CODE, ...)                                                                                            \
    case CODE:                                                                                                         \
        EWC_EACH(__VA_ARGS__)                                                                                          \
        break;
#define EWC_CASE2(CODE, ...)                                                                                           \
    case CODE:                                                                                                         \
        _Pragma("unroll") for (int i = 0; i < EWC_LANES; i++) {                                                        \
            [[maybe_unused]] const C a = x[0][i], b = x[1][i];                                                         \
            r[0][i] = (__VA_ARGS__);                                                                                   \
        }                                                                                                              \
        break;
#define EWC_CASE3(CODE, ...)                                                                                           \
    case CODE:                                                                                                         \
        _Pragma("unroll") for (int i = 0; i < EWC_LANES; i++) {                                                        \
            [[maybe_unused]] const C a = x[0][i], b = x[1][i], d = x[2][i];                                            \
            r[0][i] = (__VA_ARGS__);                                                                                   \
        }                                                                                                              \
        break;

// --------------------------------------------------------------------------------------------------- complex arithmetic
template <typename Z, typename R> static __device__ __forceinline__ Z complex_of(R re, R im) { Z z; z.re = re; z.im = im; return z; }
#define EWC_COMPLEX(Z, R)                                                                                              \
    static __device__ __forceinline__ Z operator+(Z x, Z y) { return {x.re + y.re, x.im + y.im}; }                     \
    static __device__ __forceinline__ Z operator-(Z x, Z y) { return {x.re - y.re, x.im - y.im}; }                     \
    static __device__ __forceinline__ Z operator-(Z x) { return {-x.re, -x.im}; }                                      \
    static __device__ __forceinline__ Z operator*(Z x, Z y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; } \
    static __device__ __forceinline__ Z operator/(Z x, Z y) {                                                          \
        if (fabs(y.re) >= fabs(y.im)) {                                                                                \
            if (y.re == 0 && y.im == 0) return {x.re / fabs(y.re), x.im / fabs(y.im)};                                 \
            const R ratio = y.im / y.re, scale = (R)1 / (y.re + y.im * ratio);                                         \
            return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};                                     \
        }                                                                                                              \
        const R ratio = y.re / y.im, scale = (R)1 / (y.re * ratio + y.im);                                             \
        return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};                                         \
    }                                                                                                                  \
    static __device__ __forceinline__ bool operator==(Z x, Z y) { return x.re == y.re && x.im == y.im; }               \
    static __device__ __forceinline__ bool operator!=(Z x, Z y) { return !(x == y); }
EWC_COMPLEX(cfloat, float)
EWC_COMPLEX(cdouble, double)

// ---------------------------------------------------------------------------------------------- formulas of several files
template <typename C> static __device__ __forceinline__ C larger(C x, C y) { return x > y || x != x ? x : y; }
template <typename C> static __device__ __forceinline__ C smaller(C x, C y) { return x < y || x != x ? x : y; }
// The number of a row's setup (alpha, value), in the class of computing.
template <typename C> static __device__ __forceinline__ C number(const ewc_params &p) { return (C)p.f[0]; }
template <> __device__ __forceinline__ int64_t number<int64_t>(const ewc_params &p) { return p.i[0]; }
template <> __device__ __forceinline__ cfloat number<cfloat>(const ewc_params &p) { return {(float)p.f[0], (float)p.f[1]}; }
template <> __device__ __forceinline__ cdouble number<cdouble>(const ewc_params &p) { return {p.f[0], p.f[1]}; }
static __device__ __forceinline__ bool is_half(const ewc_params &p) { return p.compute == NBX_BFLOAT16 || p.compute == NBX_FLOAT16; }
// Rounded to the dtype of computing where that is narrower than float.
template <typename C> static __device__ __forceinline__ C narrowed(C x, const ewc_params &p) {
    return is_half(p) ? ewc_rounded<C>(p.compute, x) : x;
}

#endif
