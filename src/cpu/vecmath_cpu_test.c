// The functions of vecmath.h over arrays, for vecmath_test.c.
#include "cpu/vecmath_inverse.h"

#define F32(NAME) if (strcmp(name, #NAME) == 0) { for (; i + 16 <= n; i += 16) v_store(y + i, v_##NAME(v_load(x + i))); return true; }
#define F64(NAME) if (strcmp(name, #NAME) == 0) { for (; i + 8 <= n; i += 8) vd_store(y + i, vd_##NAME(vd_load(x + i))); return true; }

bool NBX_KERNEL(vecmath_f32)(const char *name, const float *x, float *y, int n);
bool NBX_KERNEL(vecmath_f64)(const char *name, const double *x, double *y, int n);
void NBX_KERNEL(vecmath_pow)(const float *x, const float *y, float *r, int n);

// n is a multiple of 16. false: there is no such function.
bool NBX_KERNEL(vecmath_f32)(const char *name, const float *x, float *y, int n)
{
    int i = 0;
    F32(exp) F32(exp2) F32(expm1) F32(log) F32(log2) F32(log10) F32(log1p) F32(sigmoid) F32(tanh) F32(erf) F32(erfc)
    F32(sin) F32(cos) F32(tan) F32(rsqrt)
    F32(asin) F32(acos) F32(atan) F32(sinh) F32(cosh) F32(asinh) F32(acosh) F32(atanh) F32(erfinv)
    F32(silu) F32(gelu) F32(gelu_tanh) F32(exp_short) F32(sigmoid_short) F32(tanh_short) F32(erf_short) F32(silu_short) F32(gelu_short)
    return false;
}

bool NBX_KERNEL(vecmath_f64)(const char *name, const double *x, double *y, int n)
{
    int i = 0;
    F64(exp) F64(expm1) F64(log) F64(sigmoid) F64(tanh) F64(sin) F64(cos)
    return false;
}

void NBX_KERNEL(vecmath_pow)(const float *x, const float *y, float *r, int n)
{
    for (int i = 0; i + 16 <= n; i += 16) v_store(r + i, v_pow(v_load(x + i), v_load(y + i)));
}
