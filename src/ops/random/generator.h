// The generator of random numbers: a Mersenne Twister (mt19937) with the two cached normals of PyTorch's CPU generator, and
// the counter of Philox for devices. The same seed and the same calls give PyTorch's numbers.
#ifndef NBX_OPS_GENERATOR_H
#define NBX_OPS_GENERATOR_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nbx_generator {
    uint64_t seed;
    uint32_t state[624];
    int left, next;            // words until the state is renewed; the next word
    bool has_double, has_float;
    double next_double;        // the second of a pair of normals, for the next call
    float next_float;
    uint64_t philox_offset;    // of CUDA kernels, in multiples of 4
    bool of_host, of_device;   // which of the two streams it stands for: the context's generator both
};

#define NBX_GENERATOR_DEFAULT_SEED 67280421310721u

void nbx_generator_seed(nbx_generator *g, uint64_t seed);
uint32_t nbx_generator_next32(nbx_generator *g);
void nbx_generator_fill32(nbx_generator *g, uint32_t *to, int64_t count);  // the next so many
uint64_t nbx_generator_next64(nbx_generator *g);  // the first word drawn is the upper half
// Uniform in [0, 1): 24 bits of one word; 53 bits of two.
static inline float nbx_generator_float(nbx_generator *g) { return (float)(nbx_generator_next32(g) & 0xffffff) * 0x1p-24f; }
static inline double nbx_generator_double(nbx_generator *g) {
    return (double)(nbx_generator_next64(g) & (((uint64_t)1 << 53) - 1)) * 0x1p-53;
}
// Standard normal by Box and Muller: pairs, of which the second is kept for the next call.
double nbx_generator_normal(nbx_generator *g);

// Takes so many words of a thread's stream on CUDA; returns where they begin.
static inline uint64_t nbx_generator_reserve(nbx_generator *g, uint64_t words) {
    const uint64_t offset = g->philox_offset;
    g->philox_offset += (words + 3) / 4 * 4;
    return offset;
}

// The generator of an argument, or the context's own, which is made on first use. NULL: out of memory.
nbx_generator *nbx_generator_of(nbx_op_call *c, int arg);
nbx_generator *nbx_context_generator(nbx_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
