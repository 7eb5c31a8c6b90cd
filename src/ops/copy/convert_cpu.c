// Casts between all dtypes. Pairs that matter have a loop of their own; the others go through one or two dense tiles
// (float16 through float32, as ATen does; integers through int64; complex through their real type).
#include "core/half.h"
#include "cpu/simd.h"
#include "ops/copy/convert.h"

#include <assert.h>

typedef void (*convert_fn)(void *to, const void *from, int64_t count);

// ------------------------------------------------------------------------------------------------- plain C conversions
#define LOOP(NAME, TO, FROM, EXPRESSION)                                                                               \
    static void NAME(void *to, const void *from, int64_t count) {                                                      \
        TO *restrict y = to;                                                                                           \
        const FROM *restrict p = from;                                                                                 \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const FROM x = p[i];                                                                                       \
            y[i] = (TO)(EXPRESSION);                                                                                   \
        }                                                                                                              \
    }
#define WIDEN(NAME, TO)                                                                                                \
    LOOP(NAME##_from_u8, TO, uint8_t, x)                                                                               \
    LOOP(NAME##_from_i8, TO, int8_t, x)                                                                                \
    LOOP(NAME##_from_i16, TO, int16_t, x)                                                                              \
    LOOP(NAME##_from_i32, TO, int32_t, x)                                                                              \
    LOOP(NAME##_from_u16, TO, uint16_t, x)                                                                             \
    LOOP(NAME##_from_u32, TO, uint32_t, x)
WIDEN(f32, float)
LOOP(f32_from_i64, float, int64_t, x)
LOOP(f32_from_u64, float, uint64_t, x)
LOOP(f32_from_f64, float, double, x)
LOOP(f32_from_e4m3, float, uint8_t, nbx_from_e4m3fn(x))
LOOP(f32_from_e5m2, float, uint8_t, nbx_from_e5m2(x))
WIDEN(f64, double)
LOOP(f64_from_i64, double, int64_t, x)
LOOP(f64_from_u64, double, uint64_t, x)
LOOP(f64_from_f32, double, float, x)
WIDEN(i64, int64_t)
LOOP(u8_from_i64, uint8_t, int64_t, x)
LOOP(u16_from_i64, uint16_t, int64_t, x)
LOOP(u32_from_i64, uint32_t, int64_t, x)
LOOP(e4m3_from_f32, uint8_t, float, nbx_to_e4m3fn(x))
LOOP(e5m2_from_f32, uint8_t, float, nbx_to_e5m2(x))

// What x86 does with NaN and values out of range: the smallest integer. (C leaves them undefined.)
static inline int64_t f64_to_i64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
static inline int32_t f64_to_i32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN; }
static inline uint64_t f64_to_u64(double x) {
    return x >= 0x1p63 ? (uint64_t)f64_to_i64(x - 0x1p63) ^ (UINT64_C(1) << 63) : (uint64_t)f64_to_i64(x);
}
LOOP(u8_from_f64, uint8_t, double, (uint64_t)f64_to_i64(x))
LOOP(i8_from_f64, int8_t, double, f64_to_i32(x))
LOOP(i16_from_f64, int16_t, double, f64_to_i32(x))
LOOP(i32_from_f64, int32_t, double, f64_to_i32(x))
LOOP(i64_from_f64, int64_t, double, f64_to_i64(x))
LOOP(u16_from_f64, uint16_t, double, f64_to_i32(x))
LOOP(u32_from_f64, uint32_t, double, (uint64_t)f64_to_i64(x))
LOOP(u64_from_f64, uint64_t, double, f64_to_u64(x))
LOOP(i64_from_f32, int64_t, float, f64_to_i64((double)x))
LOOP(u32_from_f32, uint32_t, float, (uint64_t)f64_to_i64((double)x))
LOOP(u64_from_f32, uint64_t, float, f64_to_u64((double)x))

LOOP(bool_from_1, uint8_t, uint8_t, x != 0)
LOOP(bool_from_2, uint8_t, uint16_t, x != 0)
LOOP(bool_from_4, uint8_t, uint32_t, x != 0)
LOOP(bool_from_8, uint8_t, uint64_t, x != 0)
LOOP(bool_from_f8, uint8_t, uint8_t, (x & 0x7f) != 0)
LOOP(bool_from_f16, uint8_t, uint16_t, (x & 0x7fff) != 0)
LOOP(bool_from_f32, uint8_t, float, x != 0.0f)
LOOP(bool_from_f64, uint8_t, double, x != 0.0)

// Complex numbers are pairs.
#define COMPLEX(NAME, REAL)                                                                                            \
    static void NAME##_real(void *to, const void *from, int64_t count) {                                               \
        REAL *restrict y = to;                                                                                         \
        const REAL *restrict x = from;                                                                                 \
        for (int64_t i = 0; i < count; i++) y[i] = x[2 * i];                                                           \
    }                                                                                                                  \
    static void NAME##_from_real(void *to, const void *from, int64_t count) {                                          \
        REAL *restrict y = to;                                                                                         \
        const REAL *restrict x = from;                                                                                 \
        for (int64_t i = 0; i < count; i++) y[2 * i] = x[i], y[2 * i + 1] = 0;                                         \
    }                                                                                                                  \
    static void NAME##_bool(void *to, const void *from, int64_t count) {                                               \
        uint8_t *restrict y = to;                                                                                      \
        const REAL *restrict x = from;                                                                                 \
        for (int64_t i = 0; i < count; i++) y[i] = x[2 * i] != 0 || x[2 * i + 1] != 0;                                 \
    }
COMPLEX(c64, float)
COMPLEX(c128, double)
static void c128_from_c64(void *to, const void *from, int64_t count) { f64_from_f32(to, from, 2 * count); }
static void c64_from_c128(void *to, const void *from, int64_t count) { f32_from_f64(to, from, 2 * count); }

// ------------------------------------------------------------------------------------------------------------ vectors
static void f32_from_f16(void *to, const void *from, int64_t count) {
    float *y = to;
    const uint16_t *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_store(y + i, v_load_f16(x + i));
    if (i < count) v_store_n(y + i, v_load_f16_n(x + i, (int)(count - i)), (int)(count - i));
}
static void f16_from_f32(void *to, const void *from, int64_t count) {
    uint16_t *y = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_store_f16(y + i, v_load(x + i));
    if (i < count) v_store_f16_n(y + i, v_load_n(x + i, (int)(count - i)), (int)(count - i));
}
static void f32_from_bf16(void *to, const void *from, int64_t count) {
    float *y = to;
    const uint16_t *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_store(y + i, v_load_bf16(x + i));
    for (; i < count; i++) y[i] = nbx_from_bf16(x[i]);
}
static void bf16_from_f32(void *to, const void *from, int64_t count) {
    uint16_t *y = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_store_bf16(y + i, v_load(x + i));
    for (; i < count; i++) y[i] = nbx_to_bf16(x[i]);
}
static void i32_from_f32(void *to, const void *from, int64_t count) {
    int32_t *y = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) vi_store(y + i, v_to_i32(v_load(x + i)));
    for (; i < count; i++) y[i] = f64_to_i32((double)x[i]);
}
// int8 and int16 take the low bits of an int32, uint8 those of an int64: the same unless the value is out of int32.
static void u8_from_f32(void *to, const void *from, int64_t count) {
    uint8_t *y = to;
    const float *x = from;
    for (int64_t i = 0; i < count;) {
        if (i + 16 <= count) {
            const vi32 v = v_to_i32(v_load(x + i));
            if (!vm_any(vi_eq(v, vi_set1(INT32_MIN)))) {
                vi_store_u8(y + i, v);
                i += 16;
                continue;
            }
        }
        for (int64_t end = i + 16 < count ? i + 16 : count; i < end; i++) y[i] = (uint8_t)f64_to_i64((double)x[i]);
    }
}
static void i8_from_f32(void *to, const void *from, int64_t count) {
    uint8_t *y = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) vi_store_u8(y + i, v_to_i32(v_load(x + i)));
    for (; i < count; i++) y[i] = (uint8_t)f64_to_i32((double)x[i]);
}
static void i16_from_f32(void *to, const void *from, int64_t count) {
    uint16_t *y = to;
    const float *x = from;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) vi_store_u16(y + i, v_to_i32(v_load(x + i)));
    for (; i < count; i++) y[i] = (uint16_t)f64_to_i32((double)x[i]);
}

// -------------------------------------------------------------------------------------------------------------- table
#define D(X) NBX_##X
#define FROM_ALL_INTS(T)                                                                                               \
    [D(BOOL)] = T##_from_u8, [D(UINT8)] = T##_from_u8, [D(INT8)] = T##_from_i8, [D(INT16)] = T##_from_i16,             \
    [D(INT32)] = T##_from_i32, [D(UINT16)] = T##_from_u16, [D(UINT32)] = T##_from_u32

static const convert_fn direct[NBX_DTYPE_COUNT][NBX_DTYPE_COUNT] = {
    [D(FLOAT32)] = {FROM_ALL_INTS(f32), [D(INT64)] = f32_from_i64, [D(UINT64)] = f32_from_u64, [D(FLOAT16)] = f32_from_f16,
                    [D(BFLOAT16)] = f32_from_bf16, [D(FLOAT64)] = f32_from_f64, [D(FLOAT8_E4M3FN)] = f32_from_e4m3,
                    [D(FLOAT8_E5M2)] = f32_from_e5m2, [D(COMPLEX64)] = c64_real},
    [D(FLOAT64)] = {FROM_ALL_INTS(f64), [D(INT64)] = f64_from_i64, [D(UINT64)] = f64_from_u64, [D(FLOAT32)] = f64_from_f32,
                    [D(COMPLEX128)] = c128_real},
    [D(INT64)] = {FROM_ALL_INTS(i64), [D(FLOAT32)] = i64_from_f32, [D(FLOAT64)] = i64_from_f64},
    [D(UINT64)] = {FROM_ALL_INTS(i64), [D(FLOAT32)] = u64_from_f32, [D(FLOAT64)] = u64_from_f64},
    [D(INT32)] = {[D(INT64)] = u32_from_i64, [D(UINT64)] = u32_from_i64, [D(FLOAT32)] = i32_from_f32, [D(FLOAT64)] = i32_from_f64},
    [D(UINT32)] = {[D(INT64)] = u32_from_i64, [D(UINT64)] = u32_from_i64, [D(FLOAT32)] = u32_from_f32, [D(FLOAT64)] = u32_from_f64},
    [D(INT16)] = {[D(INT64)] = u16_from_i64, [D(UINT64)] = u16_from_i64, [D(FLOAT32)] = i16_from_f32, [D(FLOAT64)] = i16_from_f64},
    [D(UINT16)] = {[D(INT64)] = u16_from_i64, [D(UINT64)] = u16_from_i64, [D(FLOAT32)] = i16_from_f32, [D(FLOAT64)] = u16_from_f64},
    [D(INT8)] = {[D(INT64)] = u8_from_i64, [D(UINT64)] = u8_from_i64, [D(FLOAT32)] = i8_from_f32, [D(FLOAT64)] = i8_from_f64},
    [D(UINT8)] = {[D(INT64)] = u8_from_i64, [D(UINT64)] = u8_from_i64, [D(FLOAT32)] = u8_from_f32, [D(FLOAT64)] = u8_from_f64},
    [D(BOOL)] = {[D(UINT8)] = bool_from_1, [D(INT8)] = bool_from_1, [D(INT16)] = bool_from_2, [D(UINT16)] = bool_from_2,
                 [D(INT32)] = bool_from_4, [D(UINT32)] = bool_from_4, [D(INT64)] = bool_from_8, [D(UINT64)] = bool_from_8,
                 [D(FLOAT16)] = bool_from_f16, [D(BFLOAT16)] = bool_from_f16, [D(FLOAT8_E4M3FN)] = bool_from_f8,
                 [D(FLOAT8_E5M2)] = bool_from_f8, [D(FLOAT32)] = bool_from_f32, [D(FLOAT64)] = bool_from_f64,
                 [D(COMPLEX64)] = c64_bool, [D(COMPLEX128)] = c128_bool},
    [D(FLOAT16)] = {[D(FLOAT32)] = f16_from_f32},
    [D(BFLOAT16)] = {[D(FLOAT32)] = bf16_from_f32},
    [D(FLOAT8_E4M3FN)] = {[D(FLOAT32)] = e4m3_from_f32},
    [D(FLOAT8_E5M2)] = {[D(FLOAT32)] = e5m2_from_f32},
    [D(COMPLEX64)] = {[D(FLOAT32)] = c64_from_real, [D(COMPLEX128)] = c64_from_c128},
    [D(COMPLEX128)] = {[D(FLOAT64)] = c128_from_real, [D(COMPLEX64)] = c128_from_c64},
};

// The dtype between two that have no loop of their own.
static nbx_dtype between(nbx_dtype to, nbx_dtype from) {
    if (from == NBX_COMPLEX64) return NBX_FLOAT32;
    if (from == NBX_COMPLEX128) return NBX_FLOAT64;
    if (to == NBX_COMPLEX64) return NBX_FLOAT32;
    if (to == NBX_COMPLEX128) return nbx_dtype_is_float(from) ? (from == NBX_FLOAT32 ? NBX_FLOAT64 : NBX_FLOAT32) : NBX_FLOAT64;
    if (nbx_dtype_is_float(to) || nbx_dtype_is_float(from)) return NBX_FLOAT32;
    return NBX_INT64;
}

static bool same_bits(nbx_dtype to, nbx_dtype from) {
    return to == from || (nbx_dtype_size(to) == nbx_dtype_size(from) && nbx_dtype_is_integral(to, false) &&
                          nbx_dtype_is_integral(from, true));
}

void NBX_KERNEL(nbx_convert)(nbx_dtype to_dtype, void *to, nbx_dtype from_dtype, const void *from, int64_t count) {
    if (same_bits(to_dtype, from_dtype)) {
        memcpy(to, from, nbx_dtype_size(to_dtype) * (size_t)count);
        return;
    }
    const convert_fn fn = direct[to_dtype][from_dtype];
    if (fn) {
        fn(to, from, count);
        return;
    }
    const nbx_dtype middle = between(to_dtype, from_dtype);
    double tile[256];
    while (count > 0) {
        const int64_t n = count < 256 ? count : 256;
        NBX_KERNEL(nbx_convert)(middle, tile, from_dtype, from, n);
        NBX_KERNEL(nbx_convert)(to_dtype, to, middle, tile, n);
        to = (char *)to + nbx_dtype_size(to_dtype) * (size_t)n;
        from = (const char *)from + nbx_dtype_size(from_dtype) * (size_t)n;
        count -= n;
    }
}

// ------------------------------------------------------------------------------------------------------------- blocks
static inline __attribute__((always_inline)) void move_element(size_t bytes, char *to, const char *from) {
    memcpy(to, from, bytes);
}

static inline __attribute__((always_inline)) void move_rows(size_t bytes, char *to, int64_t to0, int64_t to1,
                                                            const char *from, int64_t from0, int64_t from1, int64_t n0,
                                                            int64_t n1) {
    for (int64_t j = 0; j < n1; j++) {
        char *y = to + j * to1;
        const char *x = from + j * from1;
        for (int64_t i = 0; i < n0; i++) move_element(bytes, y + i * to0, x + i * from0);
    }
}

// Squares whose sides run along different dims are turned over in registers: 16 x 16 floats; smaller elements by shuffling rows as
// one shuffles cards, the first half of them with the second, as often as it takes (two squares side by side, one in each half of
// the vectors).
typedef uint64_t words __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t row8 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t row16 __attribute__((vector_size(32), aligned(1), may_alias));

static inline __attribute__((always_inline)) void store_halves(char *low, char *high, words w) {
    memcpy(low, &w, 16);
    memcpy(high, (const char *)&w + 16, 16);
}

// 16 rows of 32 bytes into 32 rows of 16.
static inline __attribute__((always_inline)) void turn_bytes(char *to, int64_t to_row, const char *from, int64_t from_row) {
    row8 r[16], t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = *(const row8 *)(const void *)(from + i * from_row);
#pragma GCC unroll 4
    for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 8], 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                               16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 8], 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47,
                                                   24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) r[i] = t[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) store_halves(to + i * to_row, to + (i + 16) * to_row, (words)r[i]);
}

// 8 rows of 16 halves into 16 rows of 8.
static inline __attribute__((always_inline)) void turn_halves(char *to, int64_t to_row, const char *from, int64_t from_row) {
    row16 r[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = *(const row16 *)(const void *)(from + i * from_row);
#pragma GCC unroll 3
    for (int round = 0; round < 3; round++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) r[i] = t[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) store_halves(to + i * to_row, to + (i + 8) * to_row, (words)r[i]);
}

// 4 rows of 4 words of 64 bits.
static inline __attribute__((always_inline)) void turn_words(char *to, int64_t to_row, const char *from, int64_t from_row) {
    const words a = *(const words *)(const void *)from, b = *(const words *)(const void *)(from + from_row);
    const words c = *(const words *)(const void *)(from + 2 * from_row), d = *(const words *)(const void *)(from + 3 * from_row);
    const words even_ab = __builtin_shufflevector(a, b, 0, 4, 2, 6), odd_ab = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    const words even_cd = __builtin_shufflevector(c, d, 0, 4, 2, 6), odd_cd = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    *(words *)(void *)to = __builtin_shufflevector(even_ab, even_cd, 0, 1, 4, 5);
    *(words *)(void *)(to + to_row) = __builtin_shufflevector(odd_ab, odd_cd, 0, 1, 4, 5);
    *(words *)(void *)(to + 2 * to_row) = __builtin_shufflevector(even_ab, even_cd, 2, 3, 6, 7);
    *(words *)(void *)(to + 3 * to_row) = __builtin_shufflevector(odd_ab, odd_cd, 2, 3, 6, 7);
}

enum { SQUARE_ROWS = 16 };  // of the source, whose rows are dense
// Whole lines of the source, whose rows, a power of two apart, throw each other out of the caches before the second half is read;
// halves of them where it is the target's rows that do (8000 x 8200 halves: 38 -> 28 ms on a Zen 3 core).
static inline __attribute__((always_inline)) int64_t square_columns(size_t bytes, int64_t to_row) {
    return bytes >= 4 ? 16 : (to_row % 1024 ? 64 : 32) / (int64_t)bytes;
}

static inline __attribute__((always_inline)) void turn_square(size_t bytes, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t columns) {
    if (bytes == 4) {
        v_copy_transposed((float *)(void *)to, to_row / 4, (const float *)(const void *)from, from_row / 4);
    } else if (bytes == 1) {
        for (int64_t j = 0; j < columns; j += 32) turn_bytes(to + j * to_row, to_row, from + j, from_row);
    } else if (bytes == 2) {
        for (int i = 0; i < SQUARE_ROWS; i += 8)
            for (int64_t j = 0; j < columns; j += 16) turn_halves(to + i * 2 + j * to_row, to_row, from + i * from_row + j * 2, from_row);
    } else if (bytes == 8) {
        for (int64_t j = 0; j < columns; j += 4)
            for (int64_t i = 0; i < SQUARE_ROWS; i += 4) turn_words(to + i * 8 + j * to_row, to_row, from + i * from_row + j * 8, from_row);
    } else {
        move_rows(bytes, to, (int64_t)bytes, to_row, from, from_row, (int64_t)bytes, SQUARE_ROWS, columns);
    }
}

// The rows of one side are the columns of the other: to0 = bytes = from1, or to1 = bytes = from0.
static inline __attribute__((always_inline)) void move_squares(size_t bytes, char *to, int64_t to0, int64_t to1,
                                                               const char *from, int64_t from0, int64_t from1, int64_t n0,
                                                               int64_t n1) {
    const int64_t b = (int64_t)bytes;
    const bool along0 = to0 == b;  // i counts rows of the source, j its columns
    const int64_t rows_in = along0 ? n0 : n1, columns_in = along0 ? n1 : n0, to_row = along0 ? to1 : to0, from_row = along0 ? from0 : from1;
    const int64_t columns = square_columns(bytes, to_row);
    for (int64_t j = 0; j < columns_in; j += columns) {
        for (int64_t i = 0; i < rows_in; i += SQUARE_ROWS) {
            char *y = to + i * b + j * to_row;
            const char *x = from + i * from_row + j * b;
            if (columns_in - j >= columns && rows_in - i >= SQUARE_ROWS) turn_square(bytes, y, to_row, x, from_row, columns);
            else
                move_rows(bytes, y, b, to_row, x, from_row, b, rows_in - i < SQUARE_ROWS ? rows_in - i : SQUARE_ROWS,
                          columns_in - j < columns ? columns_in - j : columns);
        }
    }
}

static inline __attribute__((always_inline)) void move_sized(size_t bytes, char *to, int64_t to0, int64_t to1,
                                                             const char *from, int64_t from0, int64_t from1, int64_t n0,
                                                             int64_t n1) {
    const int64_t b = (int64_t)bytes;
    if (to0 == b && from0 == 0) {
        move_rows(bytes, to, b, to1, from, 0, from1, n0, n1);
    } else if (to0 == b && from1 == b) {
        move_squares(bytes, to, b, to1, from, from0, b, n0, n1);
    } else if (from0 == b && to1 == b) {
        move_squares(bytes, to, to0, b, from, b, from1, n0, n1);
    } else {
        move_rows(bytes, to, to0, to1, from, from0, from1, n0, n1);
    }
}

void NBX_KERNEL(nbx_move_block)(size_t bytes, void *to, int64_t to0, int64_t to1, const void *from, int64_t from0,
                                int64_t from1, int64_t n0, int64_t n1) {
    const int64_t b = (int64_t)bytes;
    char *y = to;
    const char *x = from;
    if (to0 == b && from0 == b) {
        if (n1 == 1 || (to1 == n0 * b && from1 == to1)) {
            memcpy(y, x, (size_t)(n0 * n1 * b));
        } else {
            for (int64_t j = 0; j < n1; j++) memcpy(y + j * to1, x + j * from1, (size_t)(n0 * b));
        }
        return;
    }
    switch (bytes) {
    case 1: move_sized(1, y, to0, to1, x, from0, from1, n0, n1); break;
    case 2: move_sized(2, y, to0, to1, x, from0, from1, n0, n1); break;
    case 4: move_sized(4, y, to0, to1, x, from0, from1, n0, n1); break;
    case 8: move_sized(8, y, to0, to1, x, from0, from1, n0, n1); break;
    default: move_sized(16, y, to0, to1, x, from0, from1, n0, n1); break;
    }
}

void NBX_KERNEL(nbx_load_block)(nbx_dtype tile_dtype, void *tile, nbx_dtype dtype, const void *from, int64_t n0, int64_t n1,
                                int64_t s0, int64_t s1) {
    const int64_t b = (int64_t)nbx_dtype_size(dtype), t = (int64_t)nbx_dtype_size(tile_dtype);
    assert(n0 * n1 * b <= NBX_TILE_BYTES && n0 * n1 * t <= NBX_TILE_BYTES);
    if (s0 == b || n0 == 1) {
        if (n1 == 1 || (n0 == 1 && s1 == b) || (n0 > 1 && s1 == n0 * b)) {
            NBX_KERNEL(nbx_convert)(tile_dtype, tile, dtype, from, n0 * n1);
            return;
        }
        if (n0 > 1) {
            for (int64_t j = 0; j < n1; j++) {
                NBX_KERNEL(nbx_convert)(tile_dtype, (char *)tile + j * n0 * t, dtype, (const char *)from + j * s1, n0);
            }
            return;
        }
    }
    if (same_bits(tile_dtype, dtype)) {
        NBX_KERNEL(nbx_move_block)((size_t)b, tile, b, n0 * b, from, s0, s1, n0, n1);
        return;
    }
    if (s0 == 0 && n0 > 1) {  // convert one element of each row, then spread it
        double one[NBX_TILE_BYTES / sizeof(double)];
        NBX_KERNEL(nbx_load_block)(tile_dtype, one, dtype, from, s1 ? n1 : 1, 1, s1, 0);
        NBX_KERNEL(nbx_move_block)((size_t)t, tile, t, n0 * t, one, 0, s1 ? t : 0, n0, n1);
        return;
    }
    double gathered[NBX_TILE_BYTES / sizeof(double)];
    NBX_KERNEL(nbx_move_block)((size_t)b, gathered, b, n0 * b, from, s0, s1, n0, n1);
    NBX_KERNEL(nbx_convert)(tile_dtype, tile, dtype, gathered, n0 * n1);
}

void NBX_KERNEL(nbx_store_block)(nbx_dtype dtype, void *to, nbx_dtype tile_dtype, const void *tile, int64_t n0, int64_t n1,
                                 int64_t s0, int64_t s1) {
    const int64_t b = (int64_t)nbx_dtype_size(dtype), t = (int64_t)nbx_dtype_size(tile_dtype);
    assert(n0 * n1 * b <= NBX_TILE_BYTES && n0 * n1 * t <= NBX_TILE_BYTES);
    if (s0 == b && (n1 == 1 || s1 == n0 * b)) {
        NBX_KERNEL(nbx_convert)(dtype, to, tile_dtype, tile, n0 * n1);
    } else if (s0 == b && n0 >= 16) {
        for (int64_t j = 0; j < n1; j++) {
            NBX_KERNEL(nbx_convert)(dtype, (char *)to + j * s1, tile_dtype, (const char *)tile + j * n0 * t, n0);
        }
    } else if (same_bits(dtype, tile_dtype)) {
        NBX_KERNEL(nbx_move_block)((size_t)b, to, s0, s1, tile, b, n0 * b, n0, n1);
    } else {
        double converted[NBX_TILE_BYTES / sizeof(double)];
        NBX_KERNEL(nbx_convert)(dtype, converted, tile_dtype, tile, n0 * n1);
        NBX_KERNEL(nbx_move_block)((size_t)b, to, s0, s1, converted, b, n0 * b, n0, n1);
    }
}
