// Reductions on CUDA, for other families: a job over memory of the device.
#ifndef NBX_OPS_REDUCE_CUDA_CUH
#define NBX_OPS_REDUCE_CUDA_CUH

#include "cuda/cuda.h"
#include "ops/reduce/reduce.h"

// Runs job (in, cast, op, finish, domain, p, mask filled) over x; results are contiguous; NULL ones are not wanted.
// scratch holds 32 bytes for each of reduce_device_pieces x results.
nbx_status nbx_cuda_reduce(nbx_op_call *c, const reduce_job *job, const nbx_tensor *x, void *const out[2], const nbx_dtype dtype[2], void *scratch);

#endif
