"""Makes the golden cases: operators, arguments and the results PyTorch gives for them.

    python tests/golden/generate.py [FAMILY ...]                  the checked-in set, tests/golden/FAMILY.safetensors
    python tests/golden/generate.py --full OUTDIR [FAMILY ...]    many times as many, in files of at most 60 MB, OUTDIR/FAMILY_N.safetensors
    python tests/golden/generate.py --full OUTDIR --seed N [...]  the same of other random numbers
    python tests/golden/generate.py --coverage [DIR]              which overloads of src/ops/schemas.def have no case

Needs torch 2.11, torchvision, numpy, scipy, expecttest; everything is seeded, so a second run gives the same cases. The checked-in ones
come from a CPU with AVX-512: where there is none, PyTorch packs int4 weights in another layout (matmul), and gelu of infinite bfloat16 differs. Cases come from
harvest.py (PyTorch's own samples), their in-place and out= twins (below), and handmade.py (edges, errors, views, random numbers, and
overloads that no sample reaches). recorder.py runs and writes them; families.py says what goes where.
"""
import argparse
import json
import struct
import sys
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten

import handmade
import harvest
from families import KNOWN, ORDER, base_of, family_of
from harvest import entries_of, failing_calls, wanted_calls
from mutations import Mutator
from recorder import Skip, Writer, cost, copied, overload_of, raw, record, tensors_of

HERE = Path(__file__).parent
SMALL = {"cases": 3, "twins": 1, "samples": 10, "bytes": 6_000, "errors": 2}
FULL = {"cases": 40, "twins": 4, "samples": 60, "bytes": 300_000, "errors": 12}


def dtypes_of(values):
    return tuple(t.dtype for t in tensors_of(values))


def shape_of_call(args, kwargs):
    """What two calls have in common that test the same: ranks, which arguments stand there, the constants, emptiness, layout."""
    leaves, spec = tree_flatten((args, kwargs))
    marks = tuple((t.dim(), t.numel() == 0, t.is_contiguous()) if isinstance(t, torch.Tensor) else (type(t).__name__, t if isinstance(t, (bool, str)) else 0)
                  for t in leaves)
    return str(spec), marks


def fingerprint(leaf):
    return (leaf.shape, leaf.stride(), leaf.dtype, raw(leaf)) if isinstance(leaf, torch.Tensor) else str(leaf)


class Chooser:
    """Takes the first calls of every overload and dtype, and prefers shapes of calls not seen yet."""

    def __init__(self, limit):
        self.limit, self.count, self.seen, self.later, self.contents = limit, {}, set(), {}, set()

    def take(self, name, args, kwargs):
        key = (name, dtypes_of((args, kwargs)))
        content = hash((name, str((args, kwargs)) if not key[1] else tuple(map(fingerprint, tree_flatten((args, kwargs))[0]))))
        if content in self.contents:                # both modes see a call that is no composite
            return False
        self.contents.add(content)
        shape = (key, shape_of_call(args, kwargs))
        if self.count.get(key, 0) >= self.limit:
            return False
        if shape in self.seen:                      # a second call of one shape waits until the others had their turn
            self.later.setdefault(key, []).append((name, args, kwargs))
            return False
        self.seen.add(shape)
        self.count[key] = self.count.get(key, 0) + 1
        return True

    def rest(self):
        for key, calls in self.later.items():
            for call in calls[:max(0, self.limit - self.count.get(key, 0))]:
                self.count[key] = self.count.get(key, 0) + 1
                yield call


# ---- In-place and out= twins of a functional call ----

# Names for the same operator: they get the calls of the second, overload by overload.
ALIASES = dict(pair.split("=") for pair in (
    "absolute=abs clip=clamp divide=div fix=trunc greater=gt greater_equal=ge less=lt less_equal=le multiply=mul negative=neg not_equal=ne subtract=sub "
    "special_expit=sigmoid special_gammainc=igamma special_gammaincc=igammac special_gammaln=lgamma special_logit=logit true_divide=div prims::div=div "
    "special_ndtr=special_erfcx swapaxes=transpose swapdims=transpose moveaxis=movedim concat=cat adjoint=mH ger=outer _conj_physical=sgn "
    "view_as_complex_copy=view_as_complex view_as_real_copy=view_as_real select_copy=select slice_copy=slice split_copy=split conj=_conj "
    "linalg_matrix_exp=matrix_exp _unsafe_index=index _unsafe_index_put=index_put detach=alias detach_copy=alias_copy lift_fresh=alias "
    "lift_fresh_copy=alias_copy unsafe_split_with_sizes=split_with_sizes").split())


def alias_calls(name, args, kwargs):
    """The same call under the operator's other names, where the arguments fit."""
    base, overload = base_of(name), name.partition(".")[2]
    for alias, original in ALIASES.items():
        if original == base and not name.split(".")[0].endswith("_"):
            full = alias if "::" in alias else f"aten::{alias}"
            for candidate in ([full + "." + overload] if overload else []) + [full]:
                if candidate in KNOWN:
                    yield candidate, args, kwargs
                    break


TWINS = {}
for _name, (_kind, _, _functional, _) in KNOWN.items():
    if _functional:
        TWINS.setdefault(_functional, []).append((_name, _kind))


def fresh_outs(results, style):
    """Out arguments for results: right, of size 0 (resized), transposed in memory, or of another dtype."""
    def out(result, first):
        if style == "empty":
            return torch.empty(0, dtype=result.dtype)
        if style == "strided" and result.dim() > 1:
            return torch.full(tuple(reversed(result.shape)), 7, dtype=torch.float32).to(result.dtype).permute(*reversed(range(result.dim())))
        dtype = torch.float64 if style == "wider" and first and result.dtype in (torch.float32, torch.int64, torch.bool) else result.dtype
        return torch.zeros(result.shape, dtype=dtype)
    return [[out(r, True) for r in result] if isinstance(result, (list, tuple)) else out(result, not i) for i, result in enumerate(results)]


def twin_options(options):
    """The options of record for the out= twin of a call: an oracle gets the out arguments and fills them."""
    oracle = options.get("oracle")

    def filled(*args, **kwargs):
        outs = [value for key, value in kwargs.items() if key.startswith("out")]
        results = oracle(*args, **{key: value for key, value in kwargs.items() if not key.startswith("out")})
        return [out.copy_(result) for out, result in zip(outs, results)]
    return {**options, "oracle": filled} if oracle else options


def fills(twin, args, kwargs, outs, results):
    """Whether out arguments that are not contiguous get the results: some kernels of PyTorch write them as if they were, or elsewhere."""
    run_args, run_kwargs = copied((list(args), kwargs))
    try:
        with torch.no_grad():
            overload_of(twin)(*run_args, **run_kwargs)
    except Exception:  # noqa: BLE001
        return True
    return all(torch.isclose(run_kwargs[name], result, rtol=0.02, atol=0.02, equal_nan=True).all() for name, result in zip(outs, results)
               if isinstance(result, torch.Tensor) and result.shape == run_kwargs[name].shape and result.dtype == run_kwargs[name].dtype)


def twin_calls(name, args, kwargs, turn, oracle=None):
    """The calls of an overload's twins that do the same work."""
    if name.startswith("aten::lu_unpack"):      # its out= form may write past its arguments
        return
    for twin, kind in TWINS.get(name, ()):
        schema = torch._C.parse_schema(KNOWN[twin][1])
        if oracle and kind == "INPLACE":
            continue
        if kind == "INPLACE":
            yield twin, list(args), dict(kwargs)
            continue
        functional = oracle or overload_of(name)
        try:
            run_args, run_kwargs = copied((list(args), kwargs))
            with torch.no_grad():
                results = functional(*run_args, **run_kwargs)
        except Exception:  # noqa: BLE001
            continue
        results = list(results) if isinstance(results, tuple) or oracle else [results]
        results = [r for r in results if isinstance(r, (torch.Tensor, list))]
        outs = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if len(outs) != len(results):
            continue
        allowed = {a.name for a in schema.arguments}
        style = ("right", "strided", "empty", "wider")[turn % 4] if base_of(name) != "linalg_lu" else "right"      # it calls lu_unpack's
        new_kwargs = {k: v for k, v in kwargs.items() if k in allowed} | dict(zip(outs, fresh_outs(results, style)))
        if style == "strided" and not oracle and not fills(twin, args, new_kwargs, outs, results):
            new_kwargs |= dict(zip(outs, fresh_outs(results, "right")))
        yield twin, list(args), new_kwargs


# ---- One family ----

class Files:
    """The writer of a family; starts a new file when one has reached the limit."""

    def __init__(self, folder, family, limit):
        self.folder, self.family, self.limit, self.writer, self.number, self.total, self.cases = folder, family, limit, Writer(), 0, 0, 0

    def room(self):
        if self.limit and self.writer.bytes > self.limit:
            self.flush()

    def flush(self):
        if self.writer.cases:
            path = self.folder / (f"{self.family}_{self.number}.safetensors" if self.limit else f"{self.family}.safetensors")
            self.writer.write(path)
            self.total += path.stat().st_size
            self.cases += len(self.writer.cases)
            self.number += 1
        self.writer = Writer()


def make(family, folder, sizes, limit):
    files, skipped = Files(folder, family, limit), {}

    def add(name, args, kwargs, **options):
        try:
            record(files.writer, name, args, kwargs, **options)
            files.room()
            return True
        except Skip as skip:
            skipped[str(skip)[:100]] = skipped.get(str(skip)[:100], 0) + 1
        except Exception as error:  # noqa: BLE001
            text = f"{name}: {type(error).__name__} {error}"[:140]
            skipped[text] = skipped.get(text, 0) + 1
        return False

    def wanted(name):
        return name in KNOWN and family_of(name) == family

    chooser, mutator, twins, turn = Chooser(sizes["cases"]), Mutator(sizes is FULL), {}, {}

    def mutate(name, args, kwargs):
        for key, (new_args, new_kwargs, options) in mutator.calls(name, args, kwargs):
            if add(name, new_args, new_kwargs, limit=4 * sizes["bytes"], **options):
                mutator.made(key)

    def call(name, args, kwargs):
        if family == "random":          # all by hand, with generators
            return
        if add(name, args, kwargs, limit=4 * sizes["bytes"]):
            mutate(name, args, kwargs)
            for alias, *_ in alias_calls(name, args, kwargs):
                key = (alias, dtypes_of((args, kwargs)))
                if twins.get(key, 0) < 2 * sizes["twins"] and wanted(alias):
                    twins[key] = twins.get(key, 0) + 1
                    call(alias, args, kwargs)
        for twin, twin_args, twin_kwargs in twin_calls(name, args, kwargs, turn.get(name, 0)):
            key = (twin, dtypes_of((args, kwargs)))
            if twins.get(key, 0) < sizes["twins"]:
                twins[key] = twins.get(key, 0) + 1
                turn[name] = turn.get(name, 0) + 1
                if add(twin, twin_args, twin_kwargs, limit=4 * sizes["bytes"]) and KNOWN[twin][0] == "INPLACE":
                    mutate(twin, twin_args, twin_kwargs)

    entries = entries_of(family)
    for (name, args, kwargs), _ in wanted_calls(entries, wanted, sizes["samples"]):
        if cost((args, kwargs)) <= sizes["bytes"] and chooser.take(name, args, kwargs):
            call(name, args, kwargs)
    for name, args, kwargs in chooser.rest():
        call(name, args, kwargs)
    errors = {}
    for (name, args, kwargs), _ in failing_calls(entries, wanted):
        errors[name] = errors.get(name, 0) + 1
        if errors[name] <= sizes["errors"] and cost((args, kwargs)) <= sizes["bytes"]:
            add(name, args, kwargs, expect_error=True)
    for name, args, kwargs, options in handmade.calls(family, sizes is FULL, harvest.OFFSET):
        if sizes is SMALL and cost((args, kwargs)) > 4 * sizes["bytes"]:
            continue
        if add(name, args, kwargs, **options) and not options.get("expect_error"):
            for twin, twin_args, twin_kwargs in twin_calls(name, args, kwargs, 0, options.get("oracle")):
                key = (twin, dtypes_of((args, kwargs)))
                if twins.get(key, 0) < sizes["twins"]:
                    twins[key] = twins.get(key, 0) + 1
                    add(twin, twin_args, twin_kwargs, **twin_options(options))
    files.flush()
    return files, skipped


# ---- Coverage ----

def cases_of(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header["__metadata__"]["nbx_cases"])["cases"]


def coverage(folder):
    count = {}
    for path in sorted(folder.glob("*.safetensors")):
        for case in cases_of(path):
            kind = "errors" if case.get("error") else "cases"
            count.setdefault(case["op"], {"cases": 0, "errors": 0})[kind] += 1
    names = [n for n in KNOWN if not n.startswith("sym::")]
    for family in ORDER:
        members = [n for n in names if family_of(n) == family]
        missing = [n for n in members if not count.get(n, {}).get("cases")]
        print(f"{family}: {len(members) - len(missing)} of {len(members)} overloads, "
              f"{sum(sum(count[n].values()) for n in members if n in count)} cases" + ("; none for " + " ".join(missing) if missing else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="families.py lists them; all if none is given")
    parser.add_argument("--full", type=Path, metavar="OUTDIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", nargs="?", const=HERE, type=Path, metavar="DIR")
    options = parser.parse_args()
    torch.set_num_threads(1)
    harvest.OFFSET = options.seed
    if options.coverage:
        return coverage(options.coverage)
    folder = options.full or HERE
    folder.mkdir(parents=True, exist_ok=True)
    for family in options.families or ORDER:
        files, skipped = make(family, folder, FULL if options.full else SMALL, 50_000_000 if options.full else 0)
        print(f"{family}: {files.cases} cases, {files.total / 1e6:.1f} MB; {sum(skipped.values())} calls skipped", flush=True)
        for text, count in sorted(skipped.items(), key=lambda item: -item[1])[:12]:
            print(f"    {count} x {text}", file=sys.stderr)
    return None


if __name__ == "__main__":
    main()
