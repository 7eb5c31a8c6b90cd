// float16 <-> float32 on a part without the instruction: integer steps, the results of F16C. Included by the part files.

// Scaling by 2^112 moves the exponent from bias 15 to bias 127 and makes subnormals normal, exactly.
static inline pf pf_load_f16(const uint16_t *p)
{
    const pi h = pi_load_u16(p);
    const pi sign = pi_shl(pi_and(h, pi_set1(0x8000)), 16), rest = pi_shl(pi_and(h, pi_set1(0x7fff)), 13);
    const pi finite = pf_bits(pf_mul(pi_float_bits(rest), pf_set1(0x1p112f)));
    const pi quiet = pi_select(pi_gt(rest, pi_set1(0x0f800000)), pi_set1(0x00400000), pi_set1(0));
    const pi special = pi_or(pi_or(rest, pi_set1(0x7f800000)), quiet);
    const pi size = pi_select(pi_gt(rest, pi_set1(0x0f7fffff)), special, finite);
    return pi_float_bits(pi_or(size, sign));
}

// Below 2^-14 adding 0.5 lets the float adder round to the subnormal grid of 2^-24; above, half an ulp less one, plus the
// odd bit, is added to the dropped 13 bits, and a carry into the exponent is right by construction.
static inline void pf_store_f16(uint16_t *p, pf x)
{
    const pi bits = pf_bits(x), size = pi_and(bits, pi_set1(0x7fffffff));
    const pi sign = pi_shr(pi_xor(bits, size), 16);
    const pi small = pi_sub(pf_bits(pf_add(pi_float_bits(size), pf_set1(0.5f))), pi_set1(0x3f000000));
    const pi odd = pi_and(pi_shr(size, 13), pi_set1(1));
    const pi normal = pi_shr(pi_add(pi_add(size, pi_set1((int32_t)0xc8000fff)), odd), 13);
    const pi nan = pi_or(pi_and(pi_shr(size, 13), pi_set1(0x3ff)), pi_set1(0x7e00));
    pi r = pi_select(pi_gt(pi_set1(0x38800000), size), small, normal);
    r = pi_select(pi_gt(size, pi_set1(0x477fefff)), pi_set1(0x7c00), r);
    r = pi_select(pi_gt(size, pi_set1(0x7f800000)), nan, r);
    pi_store_u16(p, pi_or(r, sign));
}
