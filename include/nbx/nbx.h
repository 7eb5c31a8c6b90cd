// nbxtensor: tensors with ATen's operators and results, and programs exported by PyTorch, in C.
//
//   context.h   contexts, statuses, dtypes, devices, scopes      start here
//   tensor.h    tensors
//   ops.h       operators, typed        call.h   any operator, boxed, by name
//   program.h   exported programs       formats.h   safetensors, npy, npz
//   extension.h operators of your own
#ifndef NBX_NBX_H
#define NBX_NBX_H

#include "nbx/context.h"
#include "nbx/tensor.h"
#include "nbx/call.h"
#include "nbx/ops.h"
#include "nbx/program.h"
#include "nbx/formats.h"
#include "nbx/extension.h"

#endif
