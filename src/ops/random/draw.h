// What a random operator draws: read from a call for the kernels of both devices.
#ifndef NBX_OPS_DRAW_H
#define NBX_OPS_DRAW_H

#include "ops/op.h"

typedef enum draw_kind {
    DRAW_UNIFORM, DRAW_NORMAL, DRAW_LOG_NORMAL, DRAW_EXPONENTIAL, DRAW_GEOMETRIC, DRAW_CAUCHY, DRAW_BERNOULLI, DRAW_BERNOULLI_TENSOR,
    DRAW_FULL, DRAW_RANGE, DRAW_POISSON, DRAW_GAMMA, DRAW_BINOMIAL,
} draw_kind;

typedef struct nbx_draw {
    nbx_dtype dtype, second_dtype, third_dtype;
    draw_kind kind;
    double a, b;
    uint64_t range;    // DRAW_RANGE: of so many, from base on; 0: all 64 bits
    int64_t base;
    nbx_generator *g;  // of the host's kernel
    int isa;           // there, too
    int64_t failed;    // elements whose parameter is none of the distribution, there
} nbx_draw;

// How a row reads its arguments; -1: absent.
typedef struct nbx_fill_form {
    draw_kind kind;
    int a, b;          // parameters
    int generator;
    int size, dtype;   // of factories: rand(size, *, dtype)
    int like;          // the tensor that gives shape and dtype
    double standard_a, standard_b;  // the parameters when a and b are -1
} nbx_fill_form;

// Blocks of 16 uniform numbers become normal ones, on the host; count is a multiple of 16.
void nbx_normal_pairs_baseline(float *u, int64_t count, float mean, float std);
void nbx_normal_pairs_avx2(float *u, int64_t count, float mean, float std);
void nbx_normal_pairs_avx512(float *u, int64_t count, float mean, float std);

// Reads the parameters of a call that fills `dtype`, and checks them.
nbx_status nbx_draw_of(nbx_op_call *c, nbx_dtype dtype, nbx_draw *d);

// multinomial: checks the arguments, but for the weights; and samples without replacement.
nbx_status nbx_multinomial_check(nbx_op_call *c);
nbx_status nbx_multinomial_by_quotients(nbx_op_call *c);

#endif
