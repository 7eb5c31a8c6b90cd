// The table of all operators, for the door and for programs.
#ifndef NBX_OPS_REGISTRY_H
#define NBX_OPS_REGISTRY_H

#include "ops/op.h"

nbx_operator *nbx_registry_find(const char *name);  // NULL: unknown
// The parsed schema, read on first use; NULL fails ctx (out of memory).
nbx_schema *nbx_operator_parsed(nbx_context *ctx, const nbx_operator *op);
// Adds a user's operator; the row is borrowed for the life of the process. Fails when the name has code already.
nbx_status nbx_registry_add(nbx_context *ctx, const char *schema_text, const nbx_op *op);
// Without code for a device, does the row run on the host? Kernels do, and composites that read data.
bool nbx_op_runs_on_host(const nbx_op *op);
// The kernel of a device and ISA; NULL: none.
nbx_op_fn nbx_operator_kernel(const nbx_operator *op, int device_type, int isa);

#endif
