// Rows of bitwise operators and shifts.
#include "ops/elementwise/elementwise.h"

NBX_CPU_DECLARE(ew_bitwise_and);
NBX_CPU_DECLARE(ew_bitwise_or);
NBX_CPU_DECLARE(ew_bitwise_xor);
NBX_CPU_DECLARE(ew_bitwise_not);
NBX_CPU_DECLARE(ew_left_shift);
NBX_CPU_DECLARE(ew_right_shift);
NBX_CPU_DECLARE(ew_gcd);
NBX_CPU_DECLARE(ew_lcm);

#define BITS EW_BINARY, .accepts = EW_INTS | EW_UINTS | EW_BOOLS
#define WHOLE EW_BINARY, .accepts = EW_INTS

const nbx_op nbx_ops_bitwise[] = {
    EW_OP("bitwise_and.Tensor", ew_bitwise_and, BITS),
    EW_OP("bitwise_and.Scalar", ew_bitwise_and, BITS),
    EW_OP("bitwise_and.Scalar_Tensor", ew_bitwise_and, BITS),
    EW_OP("__and__.Tensor", ew_bitwise_and, BITS),
    EW_OP("__and__.Scalar", ew_bitwise_and, BITS),
    EW_OP("bitwise_or.Tensor", ew_bitwise_or, BITS),
    EW_OP("bitwise_or.Scalar", ew_bitwise_or, BITS),
    EW_OP("bitwise_or.Scalar_Tensor", ew_bitwise_or, BITS),
    EW_OP("__or__.Tensor", ew_bitwise_or, BITS),
    EW_OP("__or__.Scalar", ew_bitwise_or, BITS),
    EW_OP("bitwise_xor.Tensor", ew_bitwise_xor, BITS),
    EW_OP("bitwise_xor.Scalar", ew_bitwise_xor, BITS),
    EW_OP("bitwise_xor.Scalar_Tensor", ew_bitwise_xor, BITS),
    EW_OP("__xor__.Tensor", ew_bitwise_xor, BITS),
    EW_OP("__xor__.Scalar", ew_bitwise_xor, BITS),
    EW_OP_EXACT("bitwise_not", ew_bitwise_not, EW_UNARY, .accepts = EW_INTS | EW_BOOLS),
    EW_OP("bitwise_left_shift.Tensor", ew_left_shift, WHOLE),
    EW_OP("bitwise_left_shift.Tensor_Scalar", ew_left_shift, WHOLE),
    EW_OP("bitwise_left_shift.Scalar_Tensor", ew_left_shift, WHOLE),
    EW_OP("__lshift__.Scalar", ew_left_shift, WHOLE),
    EW_OP("__lshift__.Tensor", ew_left_shift, WHOLE),
    EW_OP("bitwise_right_shift.Tensor", ew_right_shift, WHOLE),
    EW_OP("bitwise_right_shift.Tensor_Scalar", ew_right_shift, WHOLE),
    EW_OP("bitwise_right_shift.Scalar_Tensor", ew_right_shift, WHOLE),
    EW_OP("__rshift__.Scalar", ew_right_shift, WHOLE),
    EW_OP("__rshift__.Tensor", ew_right_shift, WHOLE),
    EW_OP("gcd", ew_gcd, WHOLE, .flags = EW_HEAVY),
    EW_OP("lcm", ew_lcm, WHOLE, .flags = EW_HEAVY),
    NBX_OPS_END,
};
