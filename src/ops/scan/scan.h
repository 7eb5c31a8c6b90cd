// What the running sums, products and extremes share with their kernel.
#ifndef NBX_OPS_SCAN_H
#define NBX_OPS_SCAN_H

#include "ops/reduce/reduce.h"

typedef enum scan_op { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN, SCAN_LOGSUMEXP } scan_op;

typedef struct scan_job {
    uint8_t op, domain;  // scan_op, reduce_domain (floats are accumulated in double)
    uint8_t in, cast;    // dtype of x, and the dtype it is converted to first
    int dim;
} scan_job;

// Few long lines of sums are cut into pieces; how a line is cut depends on the shape only.
enum { SCAN_PIECE = 16384, SCAN_TASKS = 64 };
static inline int64_t scan_pieces(const scan_job *job, int64_t count, int64_t length) {
    if (job->op != SCAN_SUM || job->domain == REDUCE_COMPLEX || count >= SCAN_TASKS || length < 2 * SCAN_PIECE) return 1;
    return (length + SCAN_PIECE - 1) / SCAN_PIECE;
}

NBX_CPU_DECLARE(scan_cpu);

#endif
