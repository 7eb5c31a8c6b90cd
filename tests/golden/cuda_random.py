"""What PyTorch draws on a GPU, as golden cases for `nbx-conform FILE --device cuda`: run where there is one.

    python tests/golden/cuda_random.py random_cuda.safetensors && nbx-conform random_cuda.safetensors --device cuda

Large tensors depend on how many threads the GPU holds; the file is right for GPUs like the one it was made on.
"""
import json
import struct
import sys

import torch

CODES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8",
         torch.bool: "BOOL"}
arrays, cases = {}, []


def keep(t):
    name = f"t{len(arrays)}"
    arrays[name] = t.detach().cpu().contiguous()
    return {"tensor": name}


def argument(x):
    if isinstance(x, torch.Tensor):
        return keep(x)
    if isinstance(x, list):
        return {"list": [argument(i) for i in x]}
    if isinstance(x, torch.dtype):
        return {"dtype": str(x).removeprefix("torch.")}
    return {{bool: "bool", int: "int", float: "float", type(None): "none"}[type(x)]: x}


def case(name, draw, *args):
    """draw(generator) gives what the operator of this name gives for args."""
    seed = 1000 + len(cases)
    generator = torch.Generator("cuda").manual_seed(seed)
    result = draw(generator)
    cases.append({"id": f"{name}/{len(cases)}", "op": f"aten::{name}", "args": [argument(a) for a in args], "kwargs": {"generator": {"cuda_generator": seed}},
                  "out": [keep(result)]})


def main(path):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for shape in ([1], [7, 5], [5000], [3, 0]):
            x = torch.zeros(shape, dtype=dtype, device="cuda")
            case("uniform", lambda g: x.clone().uniform_(-1.5, 2.25, generator=g), x, -1.5, 2.25)
            case("normal_functional", lambda g: x.clone().normal_(0.5, 2.0, generator=g), x, 0.5, 2.0)
            case("exponential", lambda g: x.clone().exponential_(1.5, generator=g), x, 1.5)
            case("log_normal", lambda g: x.clone().log_normal_(0.25, 0.5, generator=g), x, 0.25, 0.5)
            case("cauchy", lambda g: x.clone().cauchy_(0.5, 1.5, generator=g), x, 0.5, 1.5)
            case("geometric", lambda g: x.clone().geometric_(0.3, generator=g), x, 0.3)
            case("bernoulli.p", lambda g: x.clone().bernoulli_(0.3, generator=g), x, 0.3)
            case("random", lambda g: x.clone().random_(generator=g), x)
            p = torch.rand(shape, dtype=dtype, device="cuda")
            case("bernoulli", lambda g: torch.bernoulli(p, generator=g), p)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
        x = torch.zeros([999], dtype=dtype, device="cuda")
        case("random", lambda g: x.clone().random_(generator=g), x)
        case("random.to", lambda g: x.clone().random_(2, generator=g), x, 2)
        case("bernoulli.p", lambda g: x.clone().bernoulli_(0.6, generator=g), x, 0.6)
    x = torch.zeros([999], dtype=torch.int64, device="cuda")
    for low, high in ((-5, 7), (0, 2**28), (-2**40, 2**41), (-2**62, 2**62)):
        case("random.from", lambda g: x.clone().random_(low, high, generator=g), x, low, high)
    large = torch.zeros([1_500_000], dtype=torch.uint8, device="cuda")  # more than one number for each thread
    case("random", lambda g: large.clone().random_(generator=g), large)
    case("bernoulli.p", lambda g: large.clone().bernoulli_(0.25, generator=g), large, 0.25)
    for n in (1, 2, 10, 1000, 70000):
        case("randperm.generator", lambda g: torch.randperm(n, generator=g, device="cuda"), n)
    for rows in ([50], [3, 50]):
        w = torch.rand(rows, device="cuda") * (torch.rand(rows, device="cuda") > 0.2)
        case("multinomial", lambda g: torch.multinomial(w, 200, True, generator=g), w, 200, True)
        case("multinomial", lambda g: torch.multinomial(w, 20, False, generator=g), w, 20, False)
        case("multinomial", lambda g: torch.multinomial(w, 1, False, generator=g), w, 1, False)
    header, offset, data = {}, 0, []
    for name, t in arrays.items():
        raw = t.view(torch.uint8).numpy().tobytes() if t.numel() else b""
        header[name] = {"dtype": CODES[t.dtype], "shape": list(t.shape), "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    header["__metadata__"] = {"nbx_cases": json.dumps({"format": 1, "made_with": f"torch {torch.__version__}", "cases": cases})}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    print(len(cases), "cases")


main(sys.argv[1])
