// What the normalisations share: checks of dtypes, jobs of their kernels.
#ifndef NBX_OPS_NORM_H
#define NBX_OPS_NORM_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// Parameters (absent ones NULL) have the dtype of x, or float32 where x is half. Gives the dtype of the statistics:
// float32 when mixed so, else that of x.
nbx_status norm_dtypes(nbx_op_call *c, const nbx_tensor *x, int count, const nbx_tensor *const *parameters, nbx_dtype *stats);

// layer_norm and rms_norm: rows of x, normalised over the last dims.
typedef struct layer_norm_job {
    double eps;
    bool rms;          // divided by the root of the mean square, nothing subtracted
    int8_t weight, bias;  // numbers of the arguments; -1: none
    int8_t mean, rstd;    // numbers of the results; -1: not wanted
    int normalized;    // how many of the last dims
} layer_norm_job;

// group_norm: x is [batch, channels, ...]; batch_norm the same with a group of its own for every channel.
typedef struct group_norm_job {
    double eps;
    int64_t batch, channels, area, groups;
} group_norm_job;

typedef struct batch_norm_job {
    double eps, momentum;
    bool training;
    int8_t weight, bias, running_mean, running_var;  // numbers of the arguments; -1: none
    int8_t new_mean, new_var;  // numbers of results that receive the updated statistics; -1: they are updated in place
    int8_t mean, rstd;         // numbers of the results; -1: not wanted
} batch_norm_job;

NBX_CPU_DECLARE(layer_norm_cpu);
NBX_CPU_DECLARE(group_norm_cpu);
NBX_CPU_DECLARE(batch_norm_cpu);

#ifdef __cplusplus
}
#endif
#endif
