// Formulas of + - * / and the integer quotients and rests on CUDA.
#include "ops/elementwise/engine.cuh"

enum { ADD, SUB, MUL, DIV, DIV_MODE, REMAINDER, FMOD };


template <typename C> static __device__ __forceinline__ C scaled_sum(C a, C alpha, C b) { return a + alpha * b; }
template <> __device__ __forceinline__ float scaled_sum<float>(float a, float alpha, float b) { return fmaf(alpha, b, a); }

template <typename C> static __device__ __forceinline__ C quotient_floor(C a, C b) {  // from the exact rest, as Python's
    if (b == 0) return a / b;
    const C rest = (C)fmod(a, b);
    C q = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) q -= 1;
    if (q == 0) return (C)copysign((C)0, a / b);
    const C whole = (C)floor(q);
    return q - whole > (C)0.5 ? whole + 1 : whole;
}
template <> __device__ __forceinline__ int64_t quotient_floor<int64_t>(int64_t a, int64_t b) {
    if (b == 0) return -1;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    const int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
template <typename C> static __device__ __forceinline__ C quotient_trunc(C a, C b) { return (C)trunc(a / b); }
template <> __device__ __forceinline__ int64_t quotient_trunc<int64_t>(int64_t a, int64_t b) {
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
template <typename C> static __device__ __forceinline__ C rest_floor(C a, C b) {
    const C rest = (C)fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
template <> __device__ __forceinline__ int64_t rest_floor<int64_t>(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return b == 0 ? a : 0;
    const int64_t rest = a % b;
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
template <typename C> static __device__ __forceinline__ C rest_trunc(C a, C b) { return (C)fmod(a, b); }
template <> __device__ __forceinline__ int64_t rest_trunc<int64_t>(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

struct arithmetic_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_ALL, HOT = 1 };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[INPUTS][EWC_LANES], const ewc_params &p, C (&r)[OUTPUTS][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(ADD, scaled_sum(a, number<C>(p), b))
            EWC_CASE2(SUB, scaled_sum(a, -number<C>(p), b))
            EWC_CASE2(MUL, a *b)
        default:
            if constexpr (ewc_class<C>::integral) {
#pragma unroll
                for (int i = 0; i < EWC_LANES; i++) r[0][i] = 0;
            } else {
#pragma unroll
                for (int i = 0; i < EWC_LANES; i++) r[0][i] = x[0][i] / x[1][i];
            }
        }
    }
};

struct rest_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_REALS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[INPUTS][EWC_LANES], const ewc_params &p, C (&r)[OUTPUTS][EWC_LANES]) {
        switch (code) {
            EWC_CASE2(DIV_MODE, p.i[0] == 2 ? quotient_floor(a, b) : quotient_trunc(a, b))
            EWC_CASE2(REMAINDER, rest_floor(a, b))
            EWC_CASE2(FMOD, rest_trunc(a, b))
        }
        if constexpr (ewc_class<C>::integral) {
            bool zero = false;
#pragma unroll
            for (int i = 0; i < EWC_LANES; i++) zero |= x[1][i] == 0;  // lanes past the end repeat the first
            if (zero && p.fault) raise_fault(p.fault, p.fault_op, NBX_FAULT_DIVISION, 0, 0);
        }
    }
};

template <int CODE> static nbx_status rest(nbx_op_call *c) { return ewc_run<rest_group>(c, CODE, true); }

static nbx_status div_mode(nbx_op_call *c) {  // without a mode it is true division, for complex dtypes too
    return arg_is_none(c, 2) ? ewc_run<arithmetic_group>(c, DIV) : rest<DIV_MODE>(c);
}

// prims::div divides integers toward 0, also by fractions.
static nbx_status prim_division(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0);
    return nbx_dtype_is_integral((nbx_dtype)a->dtype, a->wrapped) ? rest<DIV_MODE>(c) : ewc_run<arithmetic_group>(c, DIV);
}

EWC_OP(arithmetic_group, ADD, "aten::add.Tensor")
EWC_OP(arithmetic_group, ADD, "aten::add.Scalar")
EWC_OP(arithmetic_group, SUB, "aten::sub.Tensor")
EWC_OP(arithmetic_group, SUB, "aten::sub.Scalar")
EWC_OP(arithmetic_group, SUB, "aten::subtract.Tensor")
EWC_OP(arithmetic_group, SUB, "aten::rsub.Tensor")
EWC_OP(arithmetic_group, SUB, "aten::rsub.Scalar")
EWC_OP(arithmetic_group, MUL, "aten::mul.Tensor")
EWC_OP(arithmetic_group, MUL, "aten::mul.Scalar")
EWC_OP(arithmetic_group, MUL, "aten::multiply.Tensor")
EWC_OP(arithmetic_group, DIV, "aten::div.Tensor")
EWC_OP(arithmetic_group, DIV, "aten::div.Scalar")
EWC_OP(arithmetic_group, DIV, "aten::divide.Tensor")
EWC_OP(arithmetic_group, DIV, "aten::true_divide.Tensor")
NBX_CUDA_KERNEL("aten::div.Tensor_mode", div_mode)
NBX_CUDA_KERNEL("aten::div.Scalar_mode", div_mode)
NBX_CUDA_KERNEL("prims::div", prim_division)
NBX_CUDA_KERNEL("aten::floor_divide", rest<DIV_MODE>)
NBX_CUDA_KERNEL("aten::floor_divide.Scalar", rest<DIV_MODE>)
NBX_CUDA_KERNEL("aten::remainder.Tensor", rest<REMAINDER>)
NBX_CUDA_KERNEL("aten::remainder.Scalar", rest<REMAINDER>)
NBX_CUDA_KERNEL("aten::remainder.Scalar_Tensor", rest<REMAINDER>)
NBX_CUDA_KERNEL("aten::fmod.Tensor", rest<FMOD>)
NBX_CUDA_KERNEL("aten::fmod.Scalar", rest<FMOD>)
