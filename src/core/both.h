// NBX_BOTH: a function of one source for the host and for CUDA kernels.
#ifndef NBX_CORE_BOTH_H
#define NBX_CORE_BOTH_H

#ifdef __CUDACC__
#define NBX_BOTH static __host__ __device__ __forceinline__
#else
#define NBX_BOTH static inline
#endif

#endif
