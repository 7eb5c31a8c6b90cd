"""What the hand-made cases share: dtypes by short names, random tensors, the form of a call."""
import math

import torch

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
I64, I32, I16, I8, U8, BOOL, C64, C128 = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128)
FLOATS, INTS, COMPLEX = (F32, F16, BF16, F64), (I64, I32, I16, I8, U8), (C64, C128)
ALL = (*FLOATS, *INTS, BOOL, *COMPLEX)
NAN, INF = math.nan, math.inf


def make(*shape, dtype=F32, low=-3.0, high=3.0):
    """Random values of any dtype, from the seeded default generator."""
    if dtype == BOOL:
        return torch.rand(shape) < 0.5
    if dtype in COMPLEX:
        return torch.complex(*(torch.empty(shape, dtype=F64).uniform_(low, high) for _ in range(2))).to(dtype)
    if dtype in FLOATS:
        return torch.empty(shape, dtype=F64).uniform_(low, high).to(dtype)
    return torch.randint(0 if dtype == U8 else math.ceil(min(low, -1) * 3), math.ceil(high) * 3, shape).to(dtype)


def c(name, *args, opt=None, **kwargs):
    return name if "::" in name else f"aten::{name}", list(args), kwargs, opt or {}


ERROR = {"expect_error": True}


def tensor(values, dtype=F32):
    return torch.tensor(values, dtype=dtype)
