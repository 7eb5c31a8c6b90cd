// Loops that choose or limit, and of addcmul, addcdiv, lerp.
#include "ops/elementwise/loops_simd.h"

#include "ops/elementwise/complex_math.h"

// --------------------------------------------------------------------------------------------------------------- choice
// z = condition ? x : y. The condition is the input number `mask`, true chooses `yes`.
#define CHOOSE(T)                                                                                                      \
    do {                                                                                                               \
        const T *x = r->in[yes], *y = r->in[no];                                                                       \
        T *z = r->out[0];                                                                                              \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = m[i] ? x[i] : y[i];                                      \
    } while (0)

EW_INLINE void choose_size(const ew_run *r, size_t bytes, int mask, int yes, int no) {
    const uint8_t *m = r->in[mask];
    const int64_t n = r->count;
    switch (bytes) {
    case 1: CHOOSE(uint8_t); break;
    case 2: CHOOSE(uint16_t); break;
    case 4: CHOOSE(uint32_t); break;
    case 8: CHOOSE(uint64_t); break;
    default: CHOOSE(ew_c128); break;
    }
}
EW_INLINE void choose_f32(const ew_run *r, int mask, int yes, int no) {
    const float *x = r->in[yes], *y = r->in[no];
    const uint8_t *m = r->in[mask];
    float *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(z + i, v_select(vm_load_bool(m + i), v_load(x + i), v_load(y + i)));
    for (; i < r->count; i++) z[i] = m[i] ? x[i] : y[i];
}
static void where_f32(const ew_run *r) { choose_f32(r, 0, 1, 2); }
static void where_any(const ew_run *r) { choose_size(r, nbx_dtype_size(r->dtype), 0, 1, 2); }
static void masked_f32(const ew_run *r) { choose_f32(r, 1, 2, 0); }
static void masked_any(const ew_run *r) { choose_size(r, nbx_dtype_size(r->dtype), 1, 2, 0); }
EW_KERNEL(ew_where, .f32 = where_f32, .f64 = where_any, .ints = where_any, .c64 = where_any, .c128 = where_any)
EW_KERNEL(ew_masked_fill, .f32 = masked_f32, .f64 = masked_any, .ints = masked_any, .c64 = masked_any, .c128 = masked_any)

// --------------------------------------------------------------------------------------------------------------- limits
static inline vf32 f_clamp(vf32 x, ew_k32 k) { return v_min(v_max(x, k.a), k.b); }
static inline vf32 f_clamp3(vf32 x, vf32 low, vf32 high) { return v_min(v_max(x, low), high); }
static inline double d_clamp3(double x, double low, double high) {
    const double y = x > low || x != x ? x : low;
    return y < high || y != y ? y : high;
}
static inline double d_clamp(double x, ew_k64 k) { return d_clamp3(x, k.a, k.b); }
static inline int64_t i_clamp3(int64_t x, int64_t low, int64_t high) {
    const int64_t y = x > low ? x : low;
    return y < high ? y : high;
}
static inline uint64_t u_clamp3(uint64_t x, uint64_t low, uint64_t high) {
    const uint64_t y = x > low ? x : low;
    return y < high ? y : high;
}
static void clamp_ints(const ew_run *r) {
    const int64_t n = r->count, low = r->params->i[0], high = r->params->i[1];
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0];                                                                                             \
    T *y = r->out[0];                                                                                                  \
    const T top = (T) ~(T)0 > 0 ? (T) ~(T)0 : (T)(((UINT64_C(1) << (8 * sizeof(T) - 1)) - 1));                         \
    const T bottom = (T) ~(T)0 > 0 ? 0 : (T)(-top - 1);                                                                \
    const T a = low < (int64_t)bottom ? bottom : (T)low, b = high > (int64_t)top ? top : (T)high;                      \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                   \
        const T raised = x[i] > a ? x[i] : a;                                                                          \
        y[i] = raised < b ? raised : b;                                                                                \
    }
    EW_EACH_INT(i_clamp3, u_clamp3)
#undef EW_INT_LOOP
}
EW_LOOP(clamp_f32, ew_map1k, f_clamp)
EW_LOOP(clamp_f64, ew_apply1k_f64, d_clamp)
EW_LOOP(clamp3_f32, ew_map3, f_clamp3)
EW_LOOP(clamp3_f64, ew_apply3_f64, d_clamp3)
EW_LOOP(clamp3_ints, ew_ints3, i_clamp3, u_clamp3)
EW_KERNEL(ew_clamp, .f32 = clamp_f32, .f64 = clamp_f64, .ints = clamp_ints)
EW_KERNEL(ew_clamp_tensor, .f32 = clamp3_f32, .f64 = clamp3_f64, .ints = clamp3_ints)

// ----------------------------------------------------------------------------------------------- addcmul, addcdiv, lerp
static inline vf32 f_addcmul(vf32 x, vf32 a, vf32 b, ew_k32 k) { return v_add(x, v_mul(v_mul(k.a, a), b)); }
static inline vf32 f_addcdiv(vf32 x, vf32 a, vf32 b, ew_k32 k) { return v_add(x, v_div(v_mul(k.a, a), b)); }
static inline double d_addcmul(double x, double a, double b, ew_k64 k) { return x + k.a * a * b; }
static inline double d_addcdiv(double x, double a, double b, ew_k64 k) { return x + k.a * a / b; }
static inline ew_c128 z_addcmul(ew_c128 x, ew_c128 a, ew_c128 b, ew_k64 k) {
    return complex_add(x, complex_mul(complex_mul(complex_make(k.a, k.b), a), b));
}
static inline ew_c128 z_addcdiv(ew_c128 x, ew_c128 a, ew_c128 b, ew_k64 k) {
    return complex_add(x, complex_div(complex_mul(complex_make(k.a, k.b), a), b));
}
static void addcmul_ints(const ew_run *r) {
    const int64_t n = r->count;
    const uint64_t value = (uint64_t)r->params->i[0];
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *a = r->in[1], *b = r->in[2];                                                               \
    T *y = r->out[0];                                                                                                  \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (T)((uint64_t)x[i] + value * (uint64_t)a[i] * (uint64_t)b[i]);
    EW_EACH_INT(, )
#undef EW_INT_LOOP
}
EW_LOOP(addcmul_f32, ew_map3k, f_addcmul)
EW_LOOP(addcdiv_f32, ew_map3k, f_addcdiv)
EW_LOOP(addcmul_f64, ew_apply3k_f64, d_addcmul)
EW_LOOP(addcdiv_f64, ew_apply3k_f64, d_addcdiv)
EW_LOOP(addcmul_c128, ew_apply3k_c128, z_addcmul)
EW_LOOP(addcdiv_c128, ew_apply3k_c128, z_addcdiv)
EW_KERNEL(ew_addcmul, .f32 = addcmul_f32, .f64 = addcmul_f64, .ints = addcmul_ints, .c128 = addcmul_c128)
EW_KERNEL(ew_addcdiv, .f32 = addcdiv_f32, .f64 = addcdiv_f64, .c128 = addcdiv_c128)

// From the nearer end, so that both ends are exact.
static inline vf32 f_lerp(vf32 x, vf32 end, vf32 w) {
    const vf32 difference = v_sub(end, x);
    const vf32 from_start = v_fma(w, difference, x), from_end = v_fnma(difference, v_sub(v_set1(1.0f), w), end);
    return v_select(v_lt(v_abs(w), v_set1(0.5f)), from_start, from_end);
}
static inline double d_lerp(double x, double end, double w) {
    return fabs(w) < 0.5 ? x + w * (end - x) : end - (end - x) * (1 - w);
}
static inline ew_c128 z_lerp(ew_c128 x, ew_c128 end, ew_c128 w) {
    const ew_c128 difference = complex_sub(end, x);
    if (__real__ w * __real__ w + __imag__ w * __imag__ w < 0.25) return complex_add(x, complex_mul(w, difference));
    return complex_sub(end, complex_mul(difference, complex_sub(complex_make(1, 0), w)));
}
EW_LOOP(lerp_f32, ew_map3, f_lerp)
EW_LOOP(lerp_f64, ew_apply3_f64, d_lerp)
EW_LOOP(lerp_c128, ew_apply3_c128, z_lerp)
EW_KERNEL(ew_lerp, .f32 = lerp_f32, .f64 = lerp_f64, .c128 = lerp_c128)
