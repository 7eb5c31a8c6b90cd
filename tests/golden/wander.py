"""Calls that stray from PyTorch's samples: random changes of each, many of them odd or wrong; a way to look for differences.

    python tests/golden/wander.py OUTDIR SEED [FAMILY ...] [--samples N] [--calls N] [--strays N] [--only REGEX]

N samples of an entry of op_db and dtype, N calls of an overload and dtype, N changed copies of each. A changed call runs in a forked child
first: some of PyTorch's operators crash where their arguments are wrong. What differs is to be judged one by one: PyTorch's own reading
beside its memory, order of sums with infinities, and arguments that no program has are among it.
"""
import argparse
import mmap
import os
import random
import re
import signal
import sys
import warnings
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import handmade
import harvest
from families import KNOWN, ORDER, base_of, family_of
from generate import TWINS, Files, fresh_outs
from handmade_common import ALL, COMPLEX, FLOATS, INTS
from harvest import entries_of, wanted_calls
from mutations import CAREFUL, LAYOUTS, TRUSTING
from recorder import Generator, Skip, bind, copied, cost, overload_of, record, tensors_of, writes

NUMBERS = [0, 1, -1, 2, 3, 2.5, -0.0, -0.5, float("nan"), float("inf"), -float("inf"), True, False, 300, -200, 70000, 2 ** 33, 1e-5, 1e39, 1 + 2j]
SMALL_INTS = [0, 1, -1, 2, -2, 3, 4, -3, 5, 7]
FLOATNUM = [0.0, 1.0, -1.0, 0.5, 2.0, 2.5, -0.0, float("nan"), float("inf"), 1e-8]
DTYPES = [*ALL, *FLOATS, *FLOATS, *INTS]


def sprinkle(t, rng):
    new = t.clone(memory_format=torch.contiguous_format)
    if not new.numel():
        return None
    if t.is_complex():
        values = [complex(a, b) for a in (0.0, -0.0, 1.0, float("inf"), float("nan")) for b in (0.0, -0.0, -2.0, float("-inf"), float("nan"))]
    elif t.is_floating_point():
        info = torch.finfo(t.dtype)
        values = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, info.max, info.min, info.tiny, info.tiny / 4, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 100.0, -100.0]
    elif t.dtype == torch.bool:
        return None
    else:
        info = torch.iinfo(t.dtype)
        values = [info.max, info.min + (info.min < 0), 0, 1, 2, 3] + ([-1, -2, -7] if info.min else [200])
    flat = new.view(-1)
    for _ in range(rng.randint(1, 6)):
        flat[rng.randrange(flat.numel())] = rng.choice(values)
    return new


def change_tensor(t, rng, family, is_index):
    kind = rng.choice("dtype dtype zero layout layout empty unsqueeze drop one narrow sprinkle sprinkle expand rows scalar1".split())
    if kind == "dtype":
        dtype = rng.choice(DTYPES if not is_index else [torch.int64, torch.int32, torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = t.nan_to_num(0, 1, -1) if t.is_floating_point() and not dtype.is_floating_point and not dtype.is_complex else t
            if source.dtype != t.dtype or source is not t:
                source = source.clamp(-100, 100)
            return source.to(dtype)
    if kind == "zero":
        return t.reshape(-1)[0].clone() if t.numel() else None
    if kind == "scalar1":
        return t.reshape(-1)[:1].clone() if t.numel() else None
    if kind == "layout":
        return rng.choice(LAYOUTS)(t) if t.dim() and t.numel() else None
    if kind == "empty":
        if not t.dim():
            return torch.empty(0, dtype=t.dtype)
        shape = list(t.shape)
        shape[rng.randrange(t.dim())] = 0
        return torch.empty(shape, dtype=t.dtype)
    if kind == "unsqueeze":
        return t.unsqueeze(rng.choice([0, -1])).clone() if t.dim() < 6 else None
    if kind == "drop":
        return t[0].clone() if t.dim() and t.shape[0] else None
    if kind in ("one", "narrow", "expand"):
        if not t.dim() or not t.numel():
            return None
        dim = rng.randrange(t.dim())
        part = t.narrow(dim, 0, 1 if kind != "narrow" else max(1, t.shape[dim] - 1)).clone()
        return part.expand(t.shape) if kind == "expand" else part
    if kind == "rows":
        return torch.cat([t, t], 0) if t.dim() and t.numel() < 200 else None
    if is_index or family in ("linalg",):
        return None
    return sprinkle(t, rng)


def change_leaf(value, kind, rng, family, is_index):
    """Another value for an argument of the schema's kind; None if there is none."""
    if isinstance(value, torch.Tensor):
        if value.is_conj() or value.is_neg():
            return None
        return change_tensor(value, rng, family, is_index)
    if isinstance(value, bool) and "Scalar" not in kind and "number" not in kind:
        return not value
    if isinstance(value, (int, float, complex)):
        if "Scalar" in kind or "number" in kind:
            return rng.choice(NUMBERS)
        if "float" in kind:
            return rng.choice(FLOATNUM)
        return rng.choice(SMALL_INTS)
    if isinstance(value, torch.dtype):
        return rng.choice(DTYPES)
    return None


def stray(name, args, kwargs, rng):
    """A changed copy of a call, or None."""
    schema, family = overload_of(name)._schema, family_of(name)
    args, kwargs = copied((list(args), dict(kwargs)))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        given = bind(schema, args, kwargs)
        if not given:
            return None
        if "dtype" not in kwargs and any(a.name == "dtype" and a.kwarg_only for a in schema.arguments) and rng.random() < 0.15:
            kwargs["dtype"] = rng.choice(DTYPES)
            continue
        key, argument, value = rng.choice(given)
        kind = str(argument.real_type)
        target = args if isinstance(key, int) else kwargs
        is_index = argument.name in ("index", "indices", "target", "offsets", "lengths", "sorter", "tensor_indices_or_sections", "batch_sizes")
        if isinstance(value, (list, tuple)):
            value = list(value)
            action = rng.random()
            if value and action < 0.7:
                i = rng.randrange(len(value))
                new = change_leaf(value[i], kind.replace("List", ""), rng, family, is_index)
                if new is None:
                    continue
                value[i] = new
            elif value and action < 0.8:
                value.pop()
            elif value:
                value.append(value[-1])
            target[key] = value
        else:
            new = change_leaf(value, kind, rng, family, is_index)
            if new is None:
                if not isinstance(value, torch.Tensor) and "Optional" in kind:
                    target[key] = None
                continue
            target[key] = new
    return args, kwargs


def run_quietly(overload, args, kwargs):
    """Whether the results are of a size to record."""
    try:
        args, kwargs = copied((args, kwargs))
        with torch.no_grad():
            results = overload(*args, **kwargs)
        return all(t.numel() <= 200000 for t in tensors_of(results))
    except Exception:  # noqa: BLE001
        return True


def survivors(calls):
    """The calls that return, one way or the other: a forked child runs them, and another one goes on behind a crash."""
    marks, start = mmap.mmap(-1, len(calls) + 1), 0
    while start < len(calls):
        sys.stdout.flush()
        child = os.fork()
        if not child:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1), os.dup2(null, 2)
            warnings.simplefilter("ignore")
            for i in range(start, len(calls)):
                marks[i] = 1
                signal.alarm(5)
                marks[i] = 2 if run_quietly(overload_of(calls[i][0]), *calls[i][1:]) else 3
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
        while start < len(calls) and marks[start] > 1:
            start += 1
        start += 1
    return [call for i, call in enumerate(calls) if marks[i] == 2]


def trusted(name):
    base = base_of(name)
    return (base.startswith("_") and not base.startswith(CAREFUL)) or base in TRUSTING or base in (
        "resize", "resize_as", "set", "as_strided", "as_strided_copy", "as_strided_scatter", "lu_unpack", "segment_reduce", "native_batch_norm", "native_layer_norm",
        "native_group_norm", "batch_norm", "empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted", "matrix_exp", "linalg_matrix_exp")


def with_out(name, args, kwargs, rng):
    """The out= twin of a call, with out arguments that may be odd."""
    twins = [t for t in TWINS.get(name, ()) if t[1] in ("OUT", "INPLACE")]
    if not twins:
        return None
    twin, kind = rng.choice(twins)
    schema = torch._C.parse_schema(KNOWN[twin][1])
    if kind == "INPLACE":
        return twin, args, kwargs
    try:
        run_args, run_kwargs = copied((list(args), kwargs))
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = overload_of(name)(*run_args, **run_kwargs)
    except Exception:  # noqa: BLE001
        return None
    results = list(results) if isinstance(results, tuple) else [results]
    outs = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(outs) != len(results) or not all(isinstance(r, torch.Tensor) for r in results):
        return None
    made = []
    for r in results:
        out = fresh_outs([r], rng.choice(["right", "strided", "empty", "wider", "right"]))[0]
        if rng.random() < 0.4:
            out = out.to(rng.choice(DTYPES))
        if rng.random() < 0.1:
            out = torch.zeros(3, 2, dtype=out.dtype)
        made.append(out)
    allowed = {a.name for a in schema.arguments}
    return twin, list(args), {k: v for k, v in kwargs.items() if k in allowed} | dict(zip(outs, made))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--strays", type=int, default=3)
    parser.add_argument("--only")
    parser.add_argument("--samples", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    harvest.OFFSET = options.seed
    options.folder.mkdir(parents=True, exist_ok=True)
    for family in options.families or ORDER:
        if family == "random":
            continue
        rng = random.Random(f"{options.seed}{family}")
        files, count, skipped, waiting = Files(options.folder, family, 50_000_000), {}, {}, []

        def wanted(name):
            return name in KNOWN and family_of(name) == family and not trusted(name) and (not options.only or re.search(options.only, name))

        def calls():
            for (name, args, kwargs), _ in wanted_calls(entries_of(family), wanted, options.samples):
                yield name, args, kwargs
            for name, args, kwargs, opt in handmade.calls(family, False, options.seed):
                if not opt.get("expect_error") and not opt.get("oracle") and wanted(name):
                    yield name, args, kwargs

        def attempt(name, args, kwargs):
            if any(isinstance(v, Generator) for v in tree_flatten((args, kwargs))[0]) or "RANDOM" in KNOWN[name][3] or cost((args, kwargs)) > 40000:
                return
            waiting.append((name, args, kwargs))
            if len(waiting) >= 500:
                make()

        def make():
            for name, args, kwargs in survivors(waiting):
                try:
                    record(files.writer, name, args, kwargs, limit=80000)
                    files.room()
                except Skip as skip:
                    skipped[str(skip)[:60]] = skipped.get(str(skip)[:60], 0) + 1
                except Exception as error:  # noqa: BLE001
                    text = f"{type(error).__name__} {error}"[:80]
                    skipped[text] = skipped.get(text, 0) + 1
            waiting.clear()

        for name, args, kwargs in calls():
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
            dtype = next((t.dtype for t in tensors_of((args, kwargs))), None)
            if cost((args, kwargs)) > 8000 or count.get((name, dtype), 0) >= options.calls:
                continue
            count[(name, dtype)] = count.get((name, dtype), 0) + 1
            for _ in range(options.strays):
                try:
                    made = stray(name, args, kwargs, rng)
                except (Skip, RuntimeError, ValueError):
                    made = None
                if made is None:
                    continue
                if rng.random() < 0.7:
                    attempt(name, *made)
                else:
                    out = with_out(name, *(made if rng.random() < 0.5 else (args, kwargs)), rng)
                    if out:
                        attempt(*out)
        make()
        files.flush()
        print(f"{family}: {files.cases} cases, {files.total / 1e6:.1f} MB; {sum(skipped.values())} skipped", flush=True)
        for text, n in sorted(skipped.items(), key=lambda item: -item[1])[:6]:
            print(f"    {n} x {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
