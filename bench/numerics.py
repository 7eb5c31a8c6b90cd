"""Errors of elementwise operators in units of the last place against float64, ours beside PyTorch's: the table of docs/numerics.md.

    python bench/numerics.py build/nbx-conform > table

Every operator gets a dense sample: numbers of all magnitudes that its domain holds (float16 and bfloat16: each number of the format).
The sample with PyTorch's answers in the dtype and in float64 is written as a file of golden cases, which nbx-conform measures.
Needs torch.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/golden"))
import recorder  # noqa: E402

SAMPLE = 1 << 20
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
INF = float("inf")
ALL, POSITIVE, UNIT, ABOVE_ONE, ABOVE_MINUS_ONE = (-INF, INF), (0.0, INF), (-1.0, 1.0), (1.0, INF), (-1.0, INF)

# name, domain, further arguments
UNARY = [("exp", ALL), ("exp2", ALL), ("expm1", ALL), ("log", POSITIVE), ("log2", POSITIVE), ("log10", POSITIVE), ("log1p", ABOVE_MINUS_ONE),
         ("sqrt", POSITIVE), ("rsqrt", POSITIVE), ("reciprocal", ALL), ("sin", (-1e4, 1e4)), ("cos", (-1e4, 1e4)), ("tan", (-1e4, 1e4)),
         ("asin", UNIT), ("acos", UNIT), ("atan", ALL), ("sinh", (-88.7, 88.7)), ("cosh", (-88.7, 88.7)), ("tanh", ALL), ("asinh", ALL), ("acosh", ABOVE_ONE),
         ("atanh", UNIT), ("sigmoid", ALL), ("erf", ALL), ("erfc", ALL), ("erfinv", UNIT), ("lgamma", (0.0, 1e36)), ("digamma", POSITIVE), ("gelu", (-1e30, 1e30)),
         ("silu", ALL), ("mish", ALL), ("softplus", ALL), ("elu", ALL), ("selu", ALL), ("celu", ALL), ("hardswish", (-1e30, 1e30)), ("hardsigmoid", ALL),
         ("log_sigmoid", ALL), ("logit", (0.0, 1.0)), ("i0", (-80.0, 80.0)), ("sinc", (-1e3, 1e3)), ("square", ALL)]
BINARY = [("add.Tensor", ALL, ALL), ("mul.Tensor", ALL, ALL), ("div.Tensor", ALL, ALL), ("pow.Tensor_Tensor", (0.0, 1e3), (-10.0, 10.0)),
          ("atan2", ALL, ALL), ("hypot", ALL, ALL), ("logaddexp", (-80.0, 80.0), (-80.0, 80.0)), ("xlogy.Tensor", ALL, POSITIVE),
          ("fmod.Tensor", (-1e3, 1e3), (1.0, 1e2)), ("remainder.Tensor", (-1e3, 1e3), (1.0, 1e2))]
EXTRA = {"gelu": [{}, {"approximate": "tanh"}]}


def numbers(dtype, domain, seed):
    """All magnitudes: random bits of float32, or every number of a 16-bit format, within the domain."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.itemsize == 2:
        x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
        x = x[torch.randperm(len(x), generator=generator)] if seed else x
    else:
        half = torch.randint(-(1 << 31), 1 << 31, (SAMPLE // 2,), generator=generator).to(torch.int32).view(torch.float32)
        low, high = max(domain[0], -100.0), min(domain[1], 100.0)
        x = torch.cat([half, torch.rand(SAMPLE // 2, generator=generator) * (high - low) + low])
    x = x[torch.isfinite(x) & (x.double() >= domain[0]) & (x.double() <= domain[1])]
    return x[x.double().abs() >= torch.finfo(dtype).tiny]      # subnormal inputs are measured by nbx-tests vecmath_test


def sample(writer):
    for dtype in DTYPES:
        for name, domain in UNARY:
            for extra in EXTRA.get(name, [{}]):
                recorder.record(writer, f"aten::{name}", (numbers(dtype, domain, 0),), extra, exact=True)
        for name, a, b in BINARY:
            x, y = numbers(dtype, a, 0), numbers(dtype, b, 1)
            count = min(len(x), len(y))
            recorder.record(writer, f"aten::{name}", (x[:count], y[:count]), {}, exact=True)


def measured(conform):
    """(operator, dtype) -> (our largest error, PyTorch's), in units of the last place."""
    with tempfile.TemporaryDirectory() as folder:
        path, report = Path(folder) / "numerics.safetensors", Path(folder) / "report.json"
        writer = recorder.Writer()
        sample(writer)
        writer.write(path)
        subprocess.run([conform, path, "--json", report], stdout=subprocess.DEVNULL, check=False)
        cases = json.loads(report.read_text())["cases"]
    found = {}
    for case in cases:
        name = case["op"].removeprefix("aten::").partition(".")[0] + (" tanh" if case["op"] == "aten::gelu" and case["id"].endswith("/1") else "")
        if case.get("ulp") is not None:
            found[name, case["dtype"]] = case["ulp"], case["ulp_recorded"]
    return found


def text(pair):
    return "" if pair is None else " / ".join("inf" if not isinstance(x, (int, float)) else f"{x:.2f}" if x < 100 else f"{x:.1e}" for x in pair)


def main():
    found = measured(sys.argv[1])
    names = [str(d)[6:] for d in DTYPES]
    print("| operator | " + " | ".join(names) + " |\n|" + " --- |" * (len(names) + 1))
    for name in dict.fromkeys(n for n, _ in found):
        print(f"| {name} | " + " | ".join(text(found.get((name, d))) for d in names) + " |")


if __name__ == "__main__":
    main()
