// One number at a time between float and the narrow formats: float16, bfloat16, float8_e4m3fn, float8_e5m2, as raw bits.
// Rounds to nearest even. Subnormals are exact; a NaN stays a quiet NaN with its sign. Vectors: cpu/simd.h.
#ifndef NBX_CORE_HALF_H
#define NBX_CORE_HALF_H

#include <stdint.h>
#include <string.h>

#include "core/both.h"

NBX_BOTH uint32_t nbx_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

NBX_BOTH float nbx_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

NBX_BOTH float nbx_from_bf16(uint16_t h) { return nbx_bits_float((uint32_t)h << 16); }

NBX_BOTH uint16_t nbx_to_bf16(float x) {
    const uint32_t bits = nbx_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A format of 1 sign, `exponent` exponent and `mantissa` mantissa bits whose largest exponent holds infinity and NaN.
NBX_BOTH float nbx_widen_bits(uint32_t h, int exponent, int mantissa) {
    const uint32_t sign = (h >> (exponent + mantissa) & 1) << 31, bias = (1u << (exponent - 1)) - 1;
    const uint32_t e = h >> mantissa & ((1u << exponent) - 1), m = h & ((1u << mantissa) - 1);
    if (e == (1u << exponent) - 1) {
        const uint32_t payload = m ? m << (23 - mantissa) | 0x400000 : 0;
        return nbx_bits_float(sign | 0x7f800000 | payload);
    }
    if (e == 0) {  // m * 2^(1 - bias - mantissa), exact in float
        const float size = (float)m * nbx_bits_float((128u - bias - (uint32_t)mantissa) << 23);
        return nbx_bits_float(sign | nbx_float_bits(size));
    }
    return nbx_bits_float(sign | (e + 127 - bias) << 23 | m << (23 - mantissa));
}

// The bits nearest to x, without a limit at the top: what is too large carries into the exponent.
NBX_BOTH uint32_t nbx_narrow_bits(uint32_t bits, int exponent, int mantissa) {
    const int bias = (1 << (exponent - 1)) - 1, e = (int)(bits >> 23 & 0xff) - 127 + bias;
    uint32_t m = bits & 0x7fffff;
    int drop = 23 - mantissa;
    uint32_t base = (uint32_t)e << mantissa;
    if (e <= 0) {  // a subnormal result: the hidden bit becomes an ordinary one
        if (e < -mantissa) return 0;
        m |= 0x800000, drop += 1 - e, base = 0;
    }
    const uint32_t half = 1u << (drop - 1), rest = m & ((1u << drop) - 1);
    const uint32_t kept = e <= 0 ? m >> drop : base + (m >> drop);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

NBX_BOTH float nbx_from_f16(uint16_t h) { return nbx_widen_bits(h, 5, 10); }

NBX_BOTH uint16_t nbx_to_f16(float x) {
    const uint32_t bits = nbx_float_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00);  // 65536 and above
    return (uint16_t)(sign | nbx_narrow_bits(size, 5, 10));
}

NBX_BOTH float nbx_from_e5m2(uint8_t h) { return nbx_widen_bits(h, 5, 2); }

// Too large becomes infinity, as in float16.
NBX_BOTH uint8_t nbx_to_e5m2(float x) {
    const uint32_t bits = nbx_float_bits(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint8_t)(sign | 0x7f);
    if (size >= 0x47800000) return (uint8_t)(sign | 0x7c);
    return (uint8_t)(sign | nbx_narrow_bits(size, 5, 2));
}

// e4m3fn has no infinity; its NaN is all ones, its largest number 448.
NBX_BOTH float nbx_from_e4m3fn(uint8_t h) {
    if ((h & 0x7f) == 0x7f) return nbx_bits_float((uint32_t)(h & 0x80) << 24 | 0x7fc00000);
    if ((h >> 3 & 15) == 15) return (h & 0x80 ? -1.0f : 1.0f) * (256.0f + 32.0f * (float)(h & 7));
    return nbx_widen_bits(h, 4, 3);
}

// Too large becomes NaN, as ATen's cast does.
NBX_BOTH uint8_t nbx_to_e4m3fn(float x) {
    const uint32_t bits = nbx_float_bits(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
    if (size >= 0x43f00000) return (uint8_t)(sign | 0x7f);  // 480 and above, infinity, NaN
    const uint32_t h = nbx_narrow_bits(size, 4, 3);
    return (uint8_t)(sign | (h > 0x7f ? 0x7f : h));
}

#endif
