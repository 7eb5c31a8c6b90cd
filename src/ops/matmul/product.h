// One matrix product of any dtype, batched and strided: what every operator of the family comes down to.
//   c = alpha * (a x b) + beta * self        a [batch, m, k]   b [batch, k, n]   self, c [batch, m, n]
// beta 0 does not read self. float16 and bfloat16 are summed in float32, integers wrap.
#ifndef NBX_OPS_PRODUCT_H
#define NBX_OPS_PRODUCT_H

#include "cpu/gemm.h"
#include "ops/epilogue.h"

// A matrix operand: strides in elements; batch strides are kept outside, one list per operand.
typedef struct product_side {
    const char *data;
    int64_t row, col;
    int64_t batch[NBX_MAX_RANK];
} product_side;

typedef struct nbx_product {
    nbx_dtype dtype;      // of a, b and self
    nbx_dtype out_dtype;  // of c: dtype, or float32 over float16 and bfloat16, or int32 over int8
    int batch_rank;
    int64_t batch[NBX_MAX_RANK];  // sizes of the batch dims
    int64_t m, n, k;
    product_side a, b, self, c;
    bool conjugate_a;
    double alpha[2], beta[2];         // complex; beta 0 when there is no self
    int64_t alpha_int, beta_int;      // for integers
} nbx_product;

// Which arguments of an operator are what; -1 for none. Rows of the family point at one of these with `data`.
typedef struct product_form {
    int8_t self, a, b, beta, alpha, out_dtype;
    int8_t kind;  // product_kind
} product_form;

typedef enum product_kind {
    PRODUCT_MATRIX,   // [m, k] x [k, n]
    PRODUCT_BATCH,    // [b, m, k] x [b, k, n]
    PRODUCT_VECTOR,   // [m, k] x [k]
    PRODUCT_DOT,      // [k] x [k]
    PRODUCT_VDOT,     // the same, the first one conjugated
    PRODUCT_OUTER,    // [m] x [n], inner size 1
    PRODUCT_LINEAR,   // [..., k] x [n, k] transposed
    PRODUCT_MATMUL,   // torch.matmul's broadcasting
} product_kind;

// Fills p from the arguments and the result of a call.
void nbx_product_of(const nbx_op_call *call, nbx_product *p);
// Products that the packed kernel does not do: conjugated complex ones, integer factors beyond 2^53.
bool nbx_product_is_plain(const nbx_product *p);
// The product over the last batch dim, for the packed kernel; earlier batch dims are the caller's loop.
void nbx_product_gemm(const nbx_product *p, nbx_gemm *g);
// Scratch bytes that running p needs.
size_t nbx_product_scratch(const nbx_product *p, int threads);

extern const nbx_packing nbx_product_packing;

NBX_CPU_DECLARE(product_cpu);

#endif
