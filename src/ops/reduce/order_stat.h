// What the order statistics share with their kernels.
#ifndef NBX_OPS_ORDER_STAT_H
#define NBX_OPS_ORDER_STAT_H

#include "ops/op.h"

typedef enum order_stat { ORDER_MEDIAN, ORDER_NANMEDIAN, ORDER_MODE, ORDER_QUANTILE, ORDER_NANQUANTILE } order_stat;
typedef enum order_between { ORDER_LINEAR, ORDER_LOWER, ORDER_HIGHER, ORDER_MIDPOINT, ORDER_NEAREST } order_between;

typedef struct order_job {
    uint64_t mask;    // reduced dims
    uint8_t stat, between;
} order_job;

// One element: a key that sorts like its value (NaN last), and where it stood.
typedef struct order_item {
    int64_t key, index;
} order_item;

NBX_CPU_DECLARE(order_stat_cpu);
NBX_CPU_DECLARE(quantile_cpu);

#endif
