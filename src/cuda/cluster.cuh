// Clusters (sm_90): neighbouring blocks of a grid that run at the same time and write into each other's shared memory. A row
// that is too long for one block is held by a cluster in registers, so that it is read once; meanwhile the next row is on its way
// to shared memory, where a thread finds what it asked for itself.
#ifndef NBX_CUDA_CLUSTER_CUH
#define NBX_CUDA_CLUSTER_CUH

#include "cuda/cuda.h"
#include "cuda/mma.cuh"

#include <string.h>

// Beside __launch_bounds__: blocks of the kernel come in clusters of N. Portable code has none.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define NBX_CLUSTER(N) __cluster_dims__(N, 1, 1)
#else
#define NBX_CLUSTER(N)
#endif

// How many clusters (blocks, for clusters of one) of a kernel fit on the device at a time; 0: its code there has no clusters.
static inline int cluster_slots(const void *kernel, int cluster, int threads, size_t shared, int sm_count) {
    cudaFuncAttributes facts;
    int count = 0;
    cudaError_t error = cudaFuncGetAttributes(&facts, kernel);
    if (error == cudaSuccess && cluster > 1 && facts.requiredClusterWidth != cluster) return 0;
    if (error == cudaSuccess) error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (cluster == 1) {
        if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, threads, shared);
        count *= sm_count;
    } else if (error == cudaSuccess) {
        cudaLaunchAttribute shape;
        memset(&shape, 0, sizeof shape);
        shape.id = cudaLaunchAttributeClusterDimension;
        shape.val.clusterDim.x = (unsigned)cluster, shape.val.clusterDim.y = shape.val.clusterDim.z = 1;
        cudaLaunchConfig_t config;
        memset(&config, 0, sizeof config);
        config.gridDim = dim3((unsigned)cluster), config.blockDim = dim3((unsigned)threads);
        config.dynamicSmemBytes = shared, config.attrs = &shape, config.numAttrs = 1;
        error = cudaOccupancyMaxActiveClusters(&count, kernel, &config);
    }
    if (error == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

// The same, asked once per device: room holds what is known, plus one.
enum { CLUSTER_DEVICES = 64 };
static inline int cluster_slots_known(int (&room)[CLUSTER_DEVICES], int device, const void *kernel, int cluster, int threads, size_t shared) {
    if (device < 0 || device >= CLUSTER_DEVICES) return 0;
    if (room[device] == 0) room[device] = 1 + cluster_slots(kernel, cluster, threads, shared, nbx_cuda_device_facts(device)->sm_count);
    return room[device] - 1;
}

static __device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
static __device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Keeps 16 bytes as they are: else the compiler remembers what they were widened to, in twice the registers.
static __device__ __forceinline__ void stay_packed(uint4 &w) { asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w)); }

// Puts a number where `own` is in the shared memory of a block of the cluster.
static __device__ __forceinline__ void cluster_store(float *own, int block, float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((uint32_t)__cvta_generic_to_shared(own)), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#else
    if (block == 0) *own = value;
#endif
}

#endif
