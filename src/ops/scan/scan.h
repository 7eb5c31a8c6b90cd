// What the running sums, products and extremes share with their kernel.
#ifndef NBX_OPS_SCAN_H
#define NBX_OPS_SCAN_H

#include "ops/op.h"

typedef enum scan_op { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGSUMEXP } scan_op;

typedef struct scan_job {
    uint8_t op, domain;  // scan_op, reduce_domain (floats are accumulated in double)
    uint8_t in, cast;    // dtype of x, and the dtype it is converted to first
    int dim;
} scan_job;

NBX_CPU_DECLARE(scan_cpu);

#endif
