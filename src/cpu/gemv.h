// Products with few rows, for gemm.c: cut into pieces of columns, or of blocks of k when there are few columns.
#ifndef NBX_CPU_GEMV_H
#define NBX_CPU_GEMV_H

#include "cpu/gemm_kernels.h"

// Whether g (already turned) is one of these.
bool gemv_suits(const nbx_gemm *g, const gemm_kernels *kernels);
size_t gemv_scratch_bytes(const nbx_gemm *g, int threads);
void gemv_run(const nbx_gemm *g, const gemm_kernels *kernels, nbx_pool *pool, void *scratch);

#endif
