// The table of host.def: functions of libnbx that libnbx_cuda calls.
#ifndef NBX_OPS_HOST_H
#define NBX_OPS_HOST_H

#include "ops/iter.h"
#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// What families describe for the kernels of both devices.
#include "ops/copy/copy.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/index/rows.h"
#include "ops/matmul/product.h"
#include "ops/matmul/quantized.h"
#include "ops/pad/fold.h"
#include "ops/pool/pooling.h"
#include "ops/random/draw.h"
#include "ops/random/generator.h"
#include "ops/reduce/lines.h"
#include "ops/reduce/reduce.h"
#include "ops/resample/resample.h"
#include "ops/sort/search.h"
#include "ops/vision/deform.h"
#include "ops/vision/nms.h"
#include "ops/vision/roi.h"

#define NBX_HOST_ABI ((int)sizeof(nbx_host))  // grows with every function

typedef struct nbx_host {
    int abi;  // NBX_HOST_ABI of the library that filled it
#define NBX_HOST(type, name, params, args) type(*name) params;
#include "ops/host.def"
#undef NBX_HOST
} nbx_host;

// libnbx_cuda's only export. NULL: built against another nbx_host, or the driver is missing.
typedef const nbx_backend *(*nbx_backend_entry)(const nbx_host *host);
NBX_API const nbx_backend *nbx_cuda_backend(const nbx_host *host);

#ifdef __cplusplus
}
#endif
#endif
