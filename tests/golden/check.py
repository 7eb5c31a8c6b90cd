"""Runs golden files through PyTorch again, from what they say alone: shows that a file means what was recorded.

    python tests/golden/check.py FILE ...
"""
import json
import struct
import sys
import warnings

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401
import torchvision  # noqa: F401

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool,
          "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    cases = json.loads(header.pop("__metadata__")["nbx_cases"])["cases"]
    return cases, {name: (DTYPES[t["dtype"]], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


class Decoder:
    def __init__(self, arrays):
        self.arrays, self.shared = arrays, {}

    def tensor(self, arg):
        dtype, shape, data = self.arrays[arg["tensor"]]
        flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
        if "dtype" in arg and arg["dtype"].startswith("complex"):
            dtype = getattr(torch, arg["dtype"])
            flat = torch.view_as_complex(flat.view(-1, 2)) if data else torch.empty(0, dtype=dtype)
        flat = flat.clone()
        if "storage" in arg:
            flat = self.shared.setdefault(arg["storage"], flat)
        if "base" in arg:
            raise NotImplementedError("base")
        shape = arg.get("shape", shape)
        if "stride" in arg:
            return flat.as_strided(shape, arg["stride"], arg.get("offset", 0))
        return flat.view(shape)

    def value(self, arg):
        kind = next(iter(arg))
        value = arg[kind]
        if kind == "tensor":
            return self.tensor(arg)
        if kind == "float":
            return float(value)
        if kind == "complex":
            return complex(float(value[0]), float(value[1]))
        if kind == "list":
            return [self.value(v) for v in value]
        if kind == "generator":
            return torch.Generator().manual_seed(value)
        if kind in ("dtype", "layout", "memory_format"):
            return getattr(torch, value)
        if kind == "result":
            raise NotImplementedError("result")
        return {"none": None, "device": torch.device("cpu"), "any": ...}.get(kind, value)


def same(got, want, arg, case):
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) and all(same(g, w, a, case) for g, w, a in zip(got, want, arg["list"]))
    if not isinstance(want, torch.Tensor):
        return want is ... or got == want or (got != got and want != want)
    got = got.resolve_conj().resolve_neg()
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if "stride" in arg and any(a != b for a, b, n in zip(got.stride(), want.stride(), want.shape) if n != 1 and want.numel()):
        return False
    if case.get("check") == "shape":
        return True
    tol = case.get("tol") or ([1e-5, 1e-6] if want.dtype not in (torch.float16, torch.bfloat16) else [1e-2, 1e-3])
    rtol, atol = (0, 0) if tol == "bits" else tol
    if case.get("check") == "set" and "dim" not in case:
        got, want = got.flatten().sort().values, want.flatten().sort().values
    if case.get("check") == "abs":
        got, want = got.abs(), want.abs()
    if want.dtype.itemsize == 1 and want.is_floating_point():
        got, want = got.float(), want.float()
    return torch.allclose(got, want, rtol, atol, equal_nan=True) if want.is_floating_point() or want.is_complex() else torch.equal(got, want)


def check(case, arrays):
    space, rest = case["op"].split("::")
    base, _, overload = rest.partition(".")
    decoder = Decoder(arrays)
    args, kwargs = [decoder.value(a) for a in case["args"]], {k: decoder.value(a) for k, a in case.get("kwargs", {}).items()}
    if space in ("nbx", "transformers", "torchaudio", "prims") or "Storage" in case["op"]:
        return None
    function = getattr(getattr(getattr(torch.ops, space), base), overload or "default")
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        without = ("Could not run", "not supported on CPU", "path needs the cpu support", "itensor_view", "pin memory", "has no attribute", "not available", "not implemented", "No NVIDIA", "no NVIDIA", "detach views")
        return None if case.get("error") or any(text in str(error) for text in without) else f"failed: {error}"
    if case.get("error"):
        return "no error"
    results = [] if not function._schema.returns else list(results) if len(function._schema.returns) > 1 else [results]
    for i, (got, arg) in enumerate(zip(results, case["out"], strict=True)):
        if not same(got, Decoder(arrays).value(arg), arg, case):
            return f"result {i} differs"
    for key, arg in case.get("mutated", {}).items():
        got = args[int(key)] if key.isdigit() else kwargs[key]
        if not same(got, Decoder(arrays).value(arg), arg, case):
            return f"argument {key} differs"
    return None


def main():
    torch.set_num_threads(1)
    for path in sys.argv[1:]:
        cases, arrays = read(path)
        failed = [(c["id"], why) for c in cases if (why := check(c, arrays))]
        print(f"{path}: {len(cases)} cases, {len(failed)} differ")
        for name, why in failed[:20]:
            print(f"    {name}: {str(why)[:150]}")


if __name__ == "__main__":
    main()
