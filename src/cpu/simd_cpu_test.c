// The functions of simd.h over 16 lanes, for simd_test.c.
#include "cpu/simd.h"

// Results of every function, as bits, one row of 16 words each; the test holds the same rows computed lane by lane.
int NBX_KERNEL(simd_rows)(const float *x, const float *y, const float *z, uint32_t (*rows)[16]);
int NBX_KERNEL(simd_double_rows)(const double *x, const double *y, const double *z, uint64_t (*rows)[8]);
void NBX_KERNEL(simd_narrow)(const float *x, uint16_t *f16, uint16_t *bf16);
void NBX_KERNEL(simd_widen)(const uint16_t *x, float *f16, float *bf16);
bool NBX_KERNEL(simd_partial)(int n);
float NBX_KERNEL(simd_sum)(const float *x);

#define F(expression) v_store((float *)rows[r++], expression)
#define I(expression) vi_store((int32_t *)rows[r++], expression)
#define M(expression) I(vm_to_i32(expression))
#define D(expression) vd_store((double *)rows[r++], expression)

int NBX_KERNEL(simd_rows)(const float *px, const float *py, const float *pz, uint32_t (*rows)[16])
{
    const vf32 x = v_load(px), y = v_load(py), z = v_load(pz);
    const vi32 i = v_bits(x), j = v_bits(y);
    int r = 0;
    F(v_add(x, y)); F(v_sub(x, y)); F(v_mul(x, y)); F(v_div(x, y)); F(v_sqrt(x));
    F(v_fma(x, y, z)); F(v_fnma(x, y, z)); F(v_fms(x, y, z));
    F(v_floor(x)); F(v_ceil(x)); F(v_trunc(x)); F(v_rint(x)); F(v_abs(x)); F(v_neg(x)); F(v_copysign(x, y));
    F(v_min_fast(x, y)); F(v_max_fast(x, y)); F(v_min(x, y)); F(v_max(x, y)); F(v_select(v_lt(x, y), x, z));
    M(v_eq(x, y)); M(v_ne(x, y)); M(v_lt(x, y)); M(v_le(x, y)); M(v_gt(x, y)); M(v_ge(x, y)); M(v_isnan(x));
    I(v_to_i32(x)); I(v_round_to_i32(x)); F(v_from_i32(i));
    I(vi_add(i, j)); I(vi_sub(i, j)); I(vi_mul(i, j)); I(vi_and(i, j)); I(vi_or(i, j)); I(vi_xor(i, j)); I(vi_andnot(i, j));
    I(vi_shl(i, 5)); I(vi_shr(i, 7)); I(vi_sar(i, 9)); I(vi_shlv(i, vi_iota())); I(vi_shrv(i, vi_add(vi_iota(), vi_set1(20))));
    M(vi_eq(i, j)); M(vi_gt(i, j)); I(vi_min(i, j)); I(vi_max(i, j));
    F(v_from_f64(v_low_f64(x), v_high_f64(x)));
    M(vm_join(vm_low(v_lt(x, y)), vm_high(v_lt(x, y)))); M(vm_xor(v_lt(x, y), vm_not(v_isnan(z)))); M(vm_first(11));
    F(v_gather(px, vi_and(j, vi_set1(15))));
    return r;
}

int NBX_KERNEL(simd_double_rows)(const double *px, const double *py, const double *pz, uint64_t (*rows)[8])
{
    const vf64 x = vd_load(px), y = vd_load(py), z = vd_load(pz);
    const vi64 i = vd_bits(x), j = vd_bits(y);
    int r = 0;
    D(vd_add(x, y)); D(vd_mul(x, y)); D(vd_div(x, y)); D(vd_sqrt(x)); D(vd_fma(x, y, z)); D(vd_fnma(x, y, z)); D(vd_fms(x, y, z));
    D(vd_floor(x)); D(vd_ceil(x)); D(vd_trunc(x)); D(vd_rint(x)); D(vd_min(x, y)); D(vd_max(x, y)); D(vd_copysign(x, y));
    D(vd_select(vd_le(x, y), x, z)); D(vd_select(vl_eq(vl_and(i, vl_set1(3)), vl_set1(2)), x, y));
    D(vd_from_bits(vl_add(i, j))); D(vd_from_bits(vl_sub(i, j))); D(vd_from_bits(vl_shl(i, 13))); D(vd_from_bits(vl_shr(i, 21)));
    return r;
}

void NBX_KERNEL(simd_narrow)(const float *x, uint16_t *f16, uint16_t *bf16)
{
    v_store_f16(f16, v_load(x));
    v_store_bf16(bf16, v_load(x));
}

void NBX_KERNEL(simd_widen)(const uint16_t *x, float *f16, float *bf16)
{
    v_store(f16, v_load_f16(x));
    v_store(bf16, v_load_bf16(x));
}

// Whether loads and stores of n lanes touch those lanes and no others.
bool NBX_KERNEL(simd_partial)(int n)
{
    float in[16], out[18], back[18];
    uint16_t half[18], half_in[16];
    uint8_t bytes[18] = {0};
    bool right = true;
    for (int i = 0; i < 16; i++) in[i] = (float)(i + 1), half_in[i] = (uint16_t)(0x3c00 + i);
    for (int i = 0; i < 18; i++) out[i] = back[i] = -1, half[i] = 7;
    v_store(out + 1, v_load_n(in, n));
    v_store_n(back + 1, v_load(in), n);
    v_store_f16_n(half + 1, v_load_f16_n(half_in, n), n);
    vm_store_bool(bytes + 1, vm_first(n));
    for (int i = 0; i < 16; i++) {
        right = right && out[i + 1] == (i < n ? in[i] : 0) && back[i + 1] == (i < n ? in[i] : -1);
        right = right && half[i + 1] == (i < n ? half_in[i] : 7) && bytes[i + 1] == (i < n);
    }
    right = right && vm_bits(vm_load_bool(bytes + 1)) == (1u << n) - 1u;
    right = right && back[0] == -1 && back[17] == -1 && half[0] == 7 && half[17] == 7 && bytes[0] == 0 && bytes[17] == 0;
    for (int low = 0; low <= n; low++) {
        v_store(out, v_load_where(in, vm_and(vm_first(n), vm_not(vm_first(low)))));
        for (int i = 0; i < 16; i++) right = right && out[i] == (i >= low && i < n ? in[i] : 0);
    }
    double d[10], d_in[8];
    for (int i = 0; i < 8; i++) d_in[i] = i + 1;
    for (int i = 0; i < 10; i++) d[i] = -1;
    vd_store_n(d + 1, vd_load_n(d_in, n / 2), n / 2);
    for (int i = 0; i < 8; i++) right = right && d[i + 1] == (i < n / 2 ? i + 1 : -1);
    return right && d[0] == -1 && d[9] == -1;
}

float NBX_KERNEL(simd_sum)(const float *x) { return v_reduce_add(v_load(x)); }
