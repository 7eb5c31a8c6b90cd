// Binding: a caller's values become the arguments of a call, in schema order, with defaults and the schema's kinds.
#ifndef NBX_OPS_BIND_H
#define NBX_OPS_BIND_H

#include "ops/op.h"

// Fills c->args and c->arg_count after `schema`. Tensors and lists that conversion makes belong to the open scope.
nbx_status nbx_bind(nbx_op_call *c, const nbx_schema *schema, const nbx_value *args, int arg_count,
                    const nbx_named_value *keywords, int keyword_count);

#endif
