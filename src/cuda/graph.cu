// Graphs: a recorded plan's launches, captured once. Addresses that change between replays (inputs, results) are stand-ins
// while capturing, in a part of the address space where nothing lies, so that every word of a kernel's parameters that holds
// one is known; before a replay these words are set, in the few nodes that have them. Nothing is captured again.
#include "cuda/cuda.h"
#include "cuda/graph.h"

#include <cuda.h>
#include <string.h>

enum { STAND_IN_BITS = 42 };
static const uint64_t STAND_INS = (uint64_t)0x5a << 56;

typedef struct patch {  // a word of a node's parameters
    int node, parameter;
    size_t offset;
    int buffer;
    uint64_t delta;     // from the buffer's start
} patch;

typedef struct patched_node {
    cudaGraphNode_t node;
    cudaKernelNodeParams params;  // kernelParams: memory of ours
    bool stale;
} patched_node;

typedef struct cuda_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    patched_node *nodes;
    patch *patches;
    int node_count, patch_count, patch_capacity;
    uint64_t *addresses;  // of the buffers, as they stand in exec
    int buffer_count;
} cuda_graph;

void *nbx_cuda_graph_stand_in(int buffer, const void *address) {
    return (void *)(uintptr_t)(STAND_INS + ((uint64_t)(buffer + 1) << STAND_IN_BITS) + ((uint64_t)(uintptr_t)address & 255));
}

// Which buffer a word points into (kernels may be handed addresses a little before or after it); -1: none.
static int buffer_of(const cuda_graph *g, uint64_t word, uint64_t *delta) {
    const uint64_t half = (uint64_t)1 << (STAND_IN_BITS - 1), index = (word - STAND_INS + half) >> STAND_IN_BITS;
    if (word < STAND_INS || index < 1 || index > (uint64_t)g->buffer_count) return -1;
    *delta = word - g->addresses[index - 1];
    return (int)index - 1;
}

typedef CUresult (*parameter_info)(CUfunction, size_t index, size_t *offset, size_t *bytes);

static parameter_info find_parameter_info(void) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuFuncGetParamInfo", &entry, 12040, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint("cuFuncGetParamInfo", &entry, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) cudaGetLastError();  // a driver older than 12.4: no graphs
    return (parameter_info)entry;
}

static bool add_patch(cuda_graph *g, patch p) {
    if (g->patch_count == g->patch_capacity) {
        const int capacity = g->patch_capacity ? 2 * g->patch_capacity : 32;
        patch *larger = (patch *)nbx_alloc(sizeof *larger * (size_t)capacity);
        if (!larger) return false;
        if (g->patch_count) memcpy(larger, g->patches, sizeof *larger * (size_t)g->patch_count);
        nbx_free(g->patches);
        g->patches = larger;
        g->patch_capacity = capacity;
    }
    g->patches[g->patch_count++] = p;
    return true;
}

// Copies the parameters of a kernel node and notes the words to be set. false: out of memory, or not to be understood.
static bool read_kernel(cuda_graph *g, patched_node *n, int index, parameter_info info) {
    enum { MOST = 64 };
    CUfunction function;
    size_t offsets[MOST], bytes[MOST], total = 0;
    int count = 0;
    if (cudaGraphKernelNodeGetParams(n->node, &n->params) != cudaSuccess) return false;
    if (cudaGetFuncBySymbol((cudaFunction_t *)&function, n->params.func) != cudaSuccess) return false;
    while (count < MOST && info(function, (size_t)count, &offsets[count], &bytes[count]) == CUDA_SUCCESS) total += (bytes[count++] + 15) & ~(size_t)15;
    if (count == MOST || !n->params.kernelParams) return false;
    void **copy = (void **)nbx_alloc(sizeof *copy * (size_t)count + 16 + total);
    if (!copy) return false;
    char *at = (char *)(((uintptr_t)(copy + count) + 15) & ~(uintptr_t)15);
    for (int i = 0; i < count; i++) {
        memcpy(at, n->params.kernelParams[i], bytes[i]);
        copy[i] = at;
        for (size_t offset = 0; offset + 8 <= bytes[i]; offset += 8) {
            uint64_t word, delta;
            memcpy(&word, at + offset, 8);
            const int buffer = buffer_of(g, word, &delta);
            const patch p = {index, i, offset, buffer, delta};
            if (buffer >= 0 && !add_patch(g, p)) {
                nbx_free(copy);
                return false;
            }
        }
        at += (bytes[i] + 15) & ~(size_t)15;
    }
    n->params.kernelParams = copy;
    return true;
}

static bool read_nodes(cuda_graph *g) {
    const parameter_info info = find_parameter_info();
    size_t count = 0;
    if (!info || cudaGraphGetNodes(g->graph, NULL, &count) != cudaSuccess) return false;
    cudaGraphNode_t *nodes = (cudaGraphNode_t *)nbx_alloc(sizeof *nodes * (count + 1));
    g->nodes = (patched_node *)nbx_alloc_zero(sizeof *g->nodes * (count + 1));
    bool good = nodes && g->nodes && cudaGraphGetNodes(g->graph, nodes, &count) == cudaSuccess;
    for (size_t i = 0; i < count && good; i++) {
        cudaGraphNodeType type;
        good = cudaGraphNodeGetType(nodes[i], &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;  // operators only launch kernels
        const int before = g->patch_count;
        patched_node *n = &g->nodes[g->node_count];
        n->node = nodes[i];
        if (good) good = read_kernel(g, n, g->node_count, info);
        if (good && g->patch_count > before) g->node_count++;
        else if (good) nbx_free(n->params.kernelParams);
    }
    nbx_free(nodes);
    return good;
}

void nbx_cuda_graph_destroy(void *graph) {
    cuda_graph *g = (cuda_graph *)graph;
    if (!g) return;
    if (g->exec) cudaGraphExecDestroy(g->exec);
    if (g->graph) cudaGraphDestroy(g->graph);
    for (int i = 0; i < g->node_count; i++) nbx_free(g->nodes[i].params.kernelParams);
    nbx_free(g->nodes);
    nbx_free(g->patches);
    nbx_free(g->addresses);
    nbx_free(g);
}

static bool capture(nbx_context *ctx, cuda_graph *g, nbx_status (*walk)(void *arg), void *arg) {
    cudaStream_t stream = (cudaStream_t)ctx->stream;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return false;
    const nbx_status walked = walk(arg);
    if (cudaStreamEndCapture(stream, &g->graph) != cudaSuccess || walked != NBX_OK) return false;
    return read_nodes(g) && cudaGraphInstantiate(&g->exec, g->graph, 0) == cudaSuccess;
}

void *nbx_cuda_graph_create(nbx_context *ctx, nbx_status (*walk)(void *arg), void *arg, void *const *stand_ins, int count) {
    cuda_graph *g = (cuda_graph *)nbx_alloc_zero(sizeof *g);
    if (!g) return NULL;
    g->addresses = (uint64_t *)nbx_alloc(sizeof *g->addresses * (size_t)(count + 1));
    for (int i = 0; g->addresses && i < count; i++) g->addresses[i] = (uint64_t)(uintptr_t)stand_ins[i];
    g->buffer_count = count;
    if (g->addresses && capture(ctx, g, walk, arg)) return g;
    cudaGetLastError();
    nbx_cuda_graph_destroy(g);
    return NULL;
}

// The words that hold addresses of buffers that moved, then their nodes.
static cudaError_t set_addresses(cuda_graph *g, void *const *addresses) {
    bool moved = false;
    for (int i = 0; i < g->buffer_count; i++) moved |= g->addresses[i] != (uint64_t)(uintptr_t)addresses[i];
    if (!moved) return cudaSuccess;
    for (int i = 0; i < g->patch_count; i++) {
        const patch *p = &g->patches[i];
        const uint64_t address = (uint64_t)(uintptr_t)addresses[p->buffer];
        if (address == g->addresses[p->buffer]) continue;
        const uint64_t word = address + p->delta;
        memcpy((char *)g->nodes[p->node].params.kernelParams[p->parameter] + p->offset, &word, 8);
        g->nodes[p->node].stale = true;
    }
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < g->node_count && error == cudaSuccess; i++) {
        if (!g->nodes[i].stale) continue;
        error = cudaGraphExecKernelNodeSetParams(g->exec, g->nodes[i].node, &g->nodes[i].params);
        g->nodes[i].stale = false;
    }
    for (int i = 0; i < g->buffer_count; i++) g->addresses[i] = (uint64_t)(uintptr_t)addresses[i];
    return error;
}

nbx_status nbx_cuda_graph_launch(nbx_context *ctx, void *graph, void *const *addresses) {
    cuda_graph *g = (cuda_graph *)graph;
    cudaError_t error = set_addresses(g, addresses);
    if (error == cudaSuccess) error = cudaGraphLaunch(g->exec, (cudaStream_t)ctx->stream);
    if (error == cudaSuccess) return NBX_OK;
    cudaGetLastError();
    return nbx_fail(ctx, NBX_ERROR_DEVICE, "CUDA: launch a graph: %s", cudaGetErrorString(error));
}
