// Costs of calls, from shapes alone.
#include "ops/epilogue.h"
#include "ops/record.h"

static double bytes_of(const nbx_tensor *t) {  // a broadcast operand is read once
    if (!t || nbx_is_none(t)) return 0;
    double count = 1;
    for (int d = 0; d < t->rank; d++)
        if (t->stride[d] || t->shape[d] == 0) count *= (double)t->shape[d];
    return count * (double)nbx_dtype_size((nbx_dtype)t->dtype);
}

static void cost_alone(const nbx_op_call *c, nbx_cost *cost) {
    if (c->op->cost) {
        c->op->cost(c, cost);
        return;
    }
    for (int i = 0; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_TENSOR) cost->bytes_read += bytes_of(c->args[i].as.tensor);
        for (int j = 0; c->args[i].kind == NBX_KIND_TENSORS && j < c->args[i].count; j++) cost->bytes_read += bytes_of(c->args[i].as.tensors[j]);
    }
    for (int k = 0; k < (c->list ? c->list_count : c->out_count); k++) {
        const nbx_tensor *t = out_get(c, k);
        if (!t) continue;
        cost->bytes_written += (double)t->numel * (double)nbx_dtype_size((nbx_dtype)t->dtype);
        cost->flops += (double)t->numel;
    }
}

// Of the steps of an epilogue only operands from elsewhere are read, and nothing is written a second time.
void nbx_call_cost(const nbx_op_call *c, nbx_cost *cost) {
    *cost = (nbx_cost){.scratch_bytes = c->scratch_bytes};
    cost_alone(c, cost);
    for (int s = 0; c->epilogue && s < c->epilogue->count; s++) {
        const nbx_op_call *step = c->epilogue->steps[s];
        nbx_cost more = {0};
        cost_alone(step, &more);
        cost->flops += more.flops;
        for (int i = 0; i < step->arg_count; i++)
            if (step->args[i].kind == NBX_KIND_TENSOR && step->args[i].as.tensor->storage != out_get(step, 0)->storage) cost->bytes_read += bytes_of(step->args[i].as.tensor);
    }
}
