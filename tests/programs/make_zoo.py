"""Exports a zoo of models with torch.export.save, with inputs and what eager PyTorch answers, for `nbx run` to be tried on.

    python tests/programs/make_zoo.py OUTDIR [GROUP or NAME ...] [--part I/N]

Groups: vision (torchvision, timm), text, speech and other transformers, plain (our own small models), modules (torch.nn, one program each),
higher (sub-graphs), operators (one program for each entry of op_db), kept (what tests/programs/samples holds). Each in both dialects, NAME as export gives it and NAME_core after run_decompositions();
some also in bfloat16 and float16. Weights are random and seeded, sizes small. Needs torch 2.11; a group whose package is missing is skipped.

    NAME.pt2                    the program
    NAME.inputs.safetensors     the user inputs by their names in the graph signature; numbers as 0-dim tensors
    NAME.expected.safetensors   output_0, output_1, ...; inputs that the program changed, under their own names
    NAME.inputs.K.safetensors, NAME.expected.K.safetensors   instead of these two where a program is run at several sizes, or
                                keeps buffers: then set 1 is a second run on the inputs of set 0, after it
    index.PART.json             a line for each program: inputs, outputs, operators, how far the reloaded program is from eager

Complex tensors are stored as pairs under KEY#complex64. What can't be exported is printed and left out.
"""
import argparse
import copy
import json
import re
import signal
import sys
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

import zoo_models

DIALECTS = {"training": "", "core": "_core"}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LIMIT = {torch.float16: 2e-2, torch.bfloat16: 5e-2}
SECONDS = 150          # for one program; some exports never end
KEPT = """hf_bert hf_llama_dynamic plain_branch plain_branch_on_size plain_loop plain_scanned plain_mapped plain_counter plain_cache plain_nested plain_precision plain_tied
plain_symbolic plain_writes plain_written_input plain_picked plain_unique plain_sized plain_random_numbers plain_encoder_0 plain_lstm_2bf plain_gru_2b plain_complex_numbers
plain_promotion plain_mlp_gelu plain_views plain_integers higher_cond_nested higher_cond_closure higher_while_sizes higher_while_stacked higher_while_zero higher_scan_dynamic
higher_associative higher_associative_kept higher_scan_reversed higher_mapped_tree higher_regions higher_autocast_half higher_autocast_cuda higher_strict higher_hinted higher_repeated higher_raised higher_wrapped
higher_checkpointed""".split()


# ---- Running and comparing ----

def as_tensor(leaf):
    return leaf if leaf is None or isinstance(leaf, torch.Tensor) else torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)


def fresh(values):
    return pytree.tree_map_only(torch.Tensor, torch.clone, values)


def run(function, args, kwargs, names):
    """Outputs by name, and the inputs that changed."""
    args, kwargs = fresh((args, kwargs))
    before = fresh(pytree.tree_leaves((args, kwargs)))
    with torch.no_grad():
        leaves = pytree.tree_leaves(function(*args, **kwargs))
    found = {f"output_{i}": as_tensor(leaf) for i, leaf in enumerate(leaves)}
    for name, old, new in zip(names, before, pytree.tree_leaves((args, kwargs))):
        if isinstance(old, torch.Tensor) and not torch.equal(old.nan_to_num() if old.is_floating_point() else old,
                                                             new.nan_to_num() if new.is_floating_point() else new):
            found[name] = new
    return {name: value.detach().clone() for name, value in found.items() if value is not None}


def run_sets(function, sets, names, seed):
    results = []
    for args, kwargs in sets:
        torch.manual_seed(seed)
        results.append(run(function, args, kwargs, names))
    return results


def difference(got, want):
    """The largest difference as a share of the largest value; infinite where dtypes, shapes or integers differ."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return float("inf")
    if not (want.is_floating_point() or want.is_complex()):
        return 0.0 if torch.equal(got, want) else float("inf")
    wide = torch.complex128 if want.is_complex() else torch.float64
    got, want = got.to(wide), want.to(wide)
    finite = want.isfinite()
    if not torch.equal(got.isfinite(), finite) or not finite.any():
        return 0.0 if torch.equal(got.isfinite(), finite) else float("inf")
    return ((got - want)[finite].abs().max() / want[finite].abs().max().clamp(min=1e-30)).item()


# ---- Files ----

def store(path, tensors):
    flat = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor.is_complex():
            name, tensor = f"{name}#{str(tensor.dtype)[6:]}", torch.view_as_real(tensor)
        flat[name] = tensor.clone(memory_format=torch.contiguous_format)
    save_file(flat, path, {"order": json.dumps(list(flat))})


def operators(path):
    """How often each target occurs in a program, sub-graphs included."""
    def targets(value):
        if isinstance(value, dict):
            if isinstance(value.get("target"), str):
                yield value["target"].removeprefix("torch.ops.")
            value = list(value.values())
        for item in value if isinstance(value, list) else ():
            yield from targets(item)
    with zipfile.ZipFile(path) as archive:
        model = next(name for name in archive.namelist() if name.endswith("/models/model.json"))
        return dict(sorted(Counter(targets(json.loads(archive.read(model)))).items()))


def tidy(program):
    """Stack traces without the folders of this machine; nothing that only PyTorch can use or that holds addresses."""
    for module in program.graph_module.modules():
        for node in list(module.graph.nodes) if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("from_node", None)
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = re.sub(r'File "[^"]*/', 'File "', node.meta["stack_trace"])
            if "lazy_load_decompositions" in str(node.target):
                module.graph.erase_node(node)      # prepares PyTorch itself; cannot be saved
    return program


def make(outdir, name, model, args, kwargs, options, dialect):
    """Writes one program in one dialect and returns its line of the index."""
    full = name + DIALECTS[dialect]
    program = torch.export.export(copy.deepcopy(model), *fresh((args, kwargs)), dynamic_shapes=options.get("dynamic"), strict=False)
    if dialect == "core":
        program = program.run_decompositions()
    tidy(program)
    path = outdir / f"{full}.pt2"
    torch.export.save(program, path)
    specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    names, seed = [spec.name for spec in specs], options.get("seed", 0)
    sets = [(args, kwargs)] + [(more, {}) for more in options.get("sizes", [])]
    state = copy.deepcopy(model)
    run_sets(state, sets[:1], names, seed)
    if any(not torch.equal(a, b) for a, b in zip(state.buffers(), model.buffers()) if not a.dtype.is_floating_point or not a.isnan().any()):
        sets *= 2
    expected, loaded = run_sets(copy.deepcopy(model), sets, names, seed), run_sets(torch.export.load(path).module(), sets, names, seed)
    worst = max((difference(have.get(k, torch.empty(0)), v) for want, have in zip(expected, loaded) for k, v in want.items()), default=0.0)
    note = {}
    if worst > max([LIMIT.get(v.dtype, 1e-4) for want in expected for v in want.values()], default=1e-4):
        expected, note = loaded, {"note": f"the exported program differs from eager by {worst:.2g}: what PyTorch gives for the program is stored"}
    for k, ((args, kwargs), results) in enumerate(zip(sets, expected)):
        given = {spec.name: as_tensor(leaf) for spec, leaf in zip(specs, pytree.tree_leaves((args, kwargs))) if not isinstance(spec, ConstantArgument) and leaf is not None}
        number = f".{k}" if len(sets) > 1 else ""
        store(outdir / f"{full}.inputs{number}.safetensors", given)
        store(outdir / f"{full}.expected{number}.safetensors", results)
    return {"name": full, "dialect": dialect, "bytes": path.stat().st_size,
            "inputs": [{"name": s.name, "constant": s.value} if isinstance(s, ConstantArgument) else {"name": s.name} for s in specs],
            "outputs": list(expected[0]), "difference": worst, "ops": operators(path), **({"seed": seed} if "seed" in options else {}), **note}


def in_dtype(model, args, kwargs, dtype):
    def convert(t):
        return t.to(dtype) if t.dtype == torch.float32 else t
    return copy.deepcopy(model).to(dtype), *pytree.tree_map_only(torch.Tensor, convert, (args, kwargs))


def too_long(*_):
    raise TimeoutError(f"took longer than {SECONDS} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--part", default="0/1", help="I/N: only every Nth program, beginning with the Ith")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, too_long)
    options.outdir.mkdir(parents=True, exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    index = options.outdir / f"index.{'_'.join(options.names) or 'all'}.{part}.json"
    lines, failed = [], 0
    for number, (group, name, factory, settings) in enumerate(zoo_models.programs()):
        wanted = not options.names or group in options.names or name in options.names or "kept" in options.names and name in KEPT
        if number % parts != part or not wanted:
            continue
        torch.manual_seed(number)
        try:
            signal.alarm(SECONDS)
            model, args, kwargs = zoo_models.built(factory)
        except BaseException as error:  # noqa: BLE001
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"{name}: not built: {type(error).__name__}: {str(error)[:200]}", flush=True)
            failed += 1
            continue
        finally:
            signal.alarm(0)
        for dtype in settings.get("dtypes", ["f32"]):
            for dialect in DIALECTS:
                label = name + ("" if dtype == "f32" else "_" + dtype)
                if any(options.outdir.glob(f"{label}{DIALECTS[dialect]}.expected*.safetensors")):
                    continue
                try:
                    signal.alarm(SECONDS)
                    these = (model, args, kwargs) if dtype == "f32" else in_dtype(model, args, kwargs, DTYPES[dtype])
                    lines.append(make(options.outdir, label, *these, settings, dialect))
                    print(f"{lines[-1]['name']}: {lines[-1]['bytes']} bytes, differs by {lines[-1]['difference']:.2g}", flush=True)
                except BaseException as error:  # noqa: BLE001
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    failed += 1
                    (options.outdir / f"{label}{DIALECTS[dialect]}.pt2").unlink(missing_ok=True)
                    where = traceback.extract_tb(error.__traceback__)[-1].name
                    print(f"{label}{DIALECTS[dialect]} failed: {type(error).__name__} in {where}: {str(error).strip()[:200]!r}", flush=True)
                finally:
                    signal.alarm(0)
        index.write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
    print(f"{len(lines)} programs, {failed} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
