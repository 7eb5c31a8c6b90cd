// The functions of libnbx, under their own names: each forwards to the table that libnbx handed over.
#include "cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const nbx_host *host;

bool nbx_cuda_take_host(const nbx_host *table) {
    if (!table || table->abi != NBX_HOST_ABI) return false;
    host = table;
    return true;
}

extern "C" {

#define NBX_HOST(type, name, params, args)                                                                             \
    type name params { return host->name args; }
#include "ops/host.def"
#undef NBX_HOST

nbx_status nbx_fail(nbx_context *ctx, nbx_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return host->nbx_fail_text(ctx, status, text);
}

nbx_status nbx_call_fail(nbx_op_call *c, nbx_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return host->nbx_call_fail_text(c, status, text);
}
}
