// Kernels of distances between rows.
#ifndef NBX_OPS_DISTANCE_H
#define NBX_OPS_DISTANCE_H

#include "ops/op.h"

NBX_CPU_DECLARE(cdist_cpu);
NBX_CPU_DECLARE(pdist_cpu);
NBX_CPU_DECLARE(embedding_renorm_cpu);

#endif
