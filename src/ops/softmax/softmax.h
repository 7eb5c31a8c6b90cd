// What the softmax operators share with their kernels.
#ifndef NBX_OPS_SOFTMAX_H
#define NBX_OPS_SOFTMAX_H

#include "ops/op.h"

typedef struct softmax_job {
    int dim;
    bool log;   // x - logsumexp(x) instead of exp(x - logsumexp(x))
    bool safe;  // rows of nothing but -inf give 0 instead of NaN
} softmax_job;

NBX_CPU_DECLARE(softmax_cpu);

#endif
