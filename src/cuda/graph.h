// Graphs of recorded plans (context.h: graph_*).
#ifndef NBX_CUDA_GRAPH_H
#define NBX_CUDA_GRAPH_H

#include "core/context.h"

void *nbx_cuda_graph_stand_in(int buffer, const void *address);
void *nbx_cuda_graph_create(nbx_context *ctx, nbx_status (*walk)(void *arg), void *arg, void *const *stand_ins, int count);
nbx_status nbx_cuda_graph_launch(nbx_context *ctx, void *graph, void *const *addresses);
void nbx_cuda_graph_destroy(void *graph);

#endif
