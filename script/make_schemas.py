"""Writes src/ops/schemas.def: the schema of every operator the library knows, as PyTorch 2.11 states it.

    python script/make_schemas.py --tables DIR      list = rows of DIR/*.tsv and their in-place and out= twins
    python script/make_schemas.py                   list = what schemas.def holds now: refresh the texts, find new twins

Needs torch and torchvision; their output is checked in, so building the library needs neither. One line an overload, sorted:

    NBX_SCHEMA(text, tags)                functional, view, or writing without a functional twin
    NBX_INPLACE(text, functional, tags)   writes its first argument; else the same as the named functional overload
    NBX_OUT(text, functional, tags)       writes its results into out arguments, which come last
    NBX_NAMED(name, tags)                 a name without a schema: takes sub-graphs, or is bound by position (higher_order)

A twin is found by its arguments (names, types, order), never by its overload name alone: `mul_.Scalar` is of `mul.Scalar`,
`normal_` of `normal_functional`, `bernoulli_.float` of `bernoulli.p`, `zeros.out` (no dtype argument) of `zeros`.
Enumerations appear in defaults as PyTorch's numbers: reduction 1 is mean, MemoryFormat 0 contiguous.
"""
import argparse
import csv
import re
import sys
from pathlib import Path

import torch
import torchgen
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed.*
import torchvision  # noqa: F401               registers torchvision.*

TARGET = Path(__file__).parent.parent / "src/ops/schemas.def"

# What the library adds to ATen (seed names that no PyTorch knows), and operators of libraries not imported here.
OWN = """
nbx::attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, bool is_causal=False, bool bottom_right=False, bool like_query=False, bool coarse_exp=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp)
nbx::swiglu_fused(Tensor gate, Tensor up) -> Tensor
nbx::rope_fused(Tensor q, Tensor k, Tensor cos, Tensor sin) -> (Tensor, Tensor)
nbx::mm_epilogue(Tensor self, Tensor mat2, str epilogue="silu", str approximate="none") -> Tensor
nbx::addmm_epilogue(Tensor self, Tensor mat1, Tensor mat2, Scalar beta=1, Scalar alpha=1, str epilogue="silu", str approximate="none") -> Tensor
nbx::interpolate(Tensor input, SymInt[]? size=None, float[]? scale_factor=None, str mode="nearest", bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor
nbx::depthwise_conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1) -> Tensor
nbx::_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool need_attn_weights=False, bool is_causal=False) -> (Tensor, Tensor)
nbx::float(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)
nbx::half(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)
nbx::bfloat16(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)
nbx::int(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)
nbx::long(Tensor(a) self, *, MemoryFormat? memory_format=None) -> Tensor(a)
transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor
torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> Tensor(a!)
""".strip().splitlines()

# Functions on symbolic numbers: `_operator.NAME`, `math.NAME`, `torch.NAME` in a program are `sym::NAME` here.
ARITHMETIC = "add sub mul truediv floordiv mod pow and_ or_ lshift rshift sym_max sym_min".split()
COMPARISONS = "eq ne lt le gt ge".split()
UNARY = "neg pos abs ceil floor trunc round sqrt sym_int sym_float sym_sqrt _sym_sqrt".split()
SYM = ([f"sym::{name}(Scalar a, Scalar b) -> Scalar" for name in ARITHMETIC] + [f"sym::{name}(Scalar a, Scalar b) -> bool" for name in COMPARISONS]
       + [f"sym::{name}(Scalar a) -> Scalar" for name in UNARY]
       + ["sym::not_(Scalar a) -> Scalar", "sym::sym_not(bool a) -> bool", "sym::sym_ite(bool condition, Scalar yes, Scalar no) -> Scalar",
          "sym::sym_sum(Scalar[] args) -> Scalar"])

FACTORY = {"dtype", "layout", "device", "pin_memory"}       # what an out= form has no need of
TORCH_TAGS = {torch.Tag.pointwise: "POINTWISE", torch.Tag.nondeterministic_seeded: "RANDOM", torch.Tag.dynamic_output_shape: "DYNAMIC_SHAPE",
              torch.Tag.data_dependent_output: "DATA_DEPENDENT", torch.Tag.core: "CORE", torch.Tag.inplace_view: "INPLACE_VIEW"}
TABLE_TAGS = {"core": "CORE", "view": "VIEW", "maybe_view": "MAYBE_VIEW", "nondeterministic": "RANDOM", "dynamic_shape": "DYNAMIC_SHAPE",
              "data_dependent": "DATA_DEPENDENT", "own": "OWN", "historical": "OWN"}


def full_name(schema):
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def text_name(text):
    return text.partition("(")[0]


def generated_forms():
    """Overloads that PyTorch derives by itself (autogen): their out arguments must have the dtype of the result."""
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text()
    return {"aten::" + name for line in re.findall(r"^  autogen: (.*)$", text, re.M) for name in re.split(r",\s*", line.strip())}


GENERATED = generated_forms()
SCHEMAS = {full_name(s): s for s in torch._C._jit_get_all_schemas()}
BY_BASE = {}
for _schema in SCHEMAS.values():
    BY_BASE.setdefault(_schema.name, []).append(_schema)


def writes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def signature(arguments):
    """Names and types without the marks of aliasing and without sizes of lists, to compare two overloads by."""
    return [(a.name, str(a.real_type if hasattr(a, "real_type") else a.type)) for a in arguments]


def outs(schema):
    return [a for a in schema.arguments if writes(a) and (a.kwarg_only or a.is_out)]


def is_out_form(schema):
    """The results are arguments: as many written keyword arguments, at the end, as results (or none returned: foreach, split_copy)."""
    written = outs(schema)
    return bool(written) and all(writes(a) for a in schema.arguments[-len(written):]) and not any(
        writes(a) for a in schema.arguments[:-len(written)])


def is_inplace_form(schema):
    base = schema.name.split("::")[1]
    return (base.endswith("_") and not base.endswith("__") or base.startswith("__i")) and bool(schema.arguments) and writes(schema.arguments[0]) and not outs(schema)


def pure(schema):
    return not any(writes(a) for a in schema.arguments)


def functional_of(schema):
    """The functional overload that an in-place or out= overload is derived from, or None."""
    space, base = schema.name.split("::")
    if is_out_form(schema):
        names, own = [base, base + "_functional", base + "_copy"], schema.arguments[:-len(outs(schema))]
    elif is_inplace_form(schema):
        names = ["__" + base[3:]] if base.startswith("__i") else [base[:-1], base[:-1] + "_functional"]
        own = schema.arguments
    else:
        return None
    found = [f for name in names for f in BY_BASE.get(f"{space}::{name}", []) if pure(f) and f.returns]
    for compare in (lambda args: signature(args), lambda args: [t for _, t in signature(args)]):
        exact = [f for f in found if compare(f.arguments) == compare(own)]
        loose = [f for f in found if compare([a for a in f.arguments if a.name not in FACTORY]) == compare([a for a in own if a.name not in FACTORY])]
        for match in (exact, loose):
            if match:     # several only where overloads differ in defaults: then the overload names decide
                same = [f for f in match if f.overload_name and f.overload_name in (schema.overload_name, schema.overload_name.removesuffix("_out"))]
                return (same or match)[0]
    return None


def twins(schema):
    """The in-place and out= overloads that are derived from a functional overload."""
    space, base = schema.name.split("::")
    stem = base.removesuffix("_functional").removesuffix("_copy")
    candidates = [s for name in {base, base + "_", stem, stem + "_", "__i" + base[2:]} for s in BY_BASE.get(f"{space}::{name}", [])]
    return [s for s in candidates if (f := functional_of(s)) is not None and full_name(f) == full_name(schema)]


def program_name(name):
    """aten.add.Tensor, as the tables and programs write it, is aten::add.Tensor; operator.add and math.ceil are sym::add, sym::ceil."""
    parts = name.split(".")
    if parts[0] in ("operator", "math", "builtins"):
        return f"sym::{parts[1]}"
    if parts[0] == "torch":
        return f"sym::{parts[1]}" if parts[1].lstrip("_").startswith("sym_") else "named"
    if parts[0] == "higher_order":
        return f"higher_order::{parts[1]}"
    return f"{parts[0]}::{'.'.join(p for p in parts[1:] if p != 'default')}"


def read_tables(folder):
    """name -> (tags, text) of every row of the four tables."""
    rows = {}

    def add(name, tags=(), text=None):
        old_tags, old_text = rows.get(name, (set(), None))
        rows[name] = (old_tags | set(tags), old_text or text)

    def table(name):
        with open(folder / name, newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    for row in table("seed_ops.tsv"):
        tags = {TABLE_TAGS[t] for t in row["tags"].split(",") if t in TABLE_TAGS} | {"SEED"}
        if "OWN" in tags:
            add(f"nbx::{row['name']}", tags)
        else:
            add("aten::" + text_name(row["schema"]), tags, "aten::" + row["schema"])
    for row in table("core_aten.tsv"):
        name = row["overload"] if "." in row["overload"] else text_name(row["schema"])
        add("aten::" + name, {"CORE"} | ({"VIEW"} if row["kind"] == "view" else set()), "aten::" + row["schema"])
    for file in ("exported_extra.tsv", "frequency.tsv"):
        for row in table(file):
            name = program_name(row["name"] if "name" in row else row["overload"])
            if name != "named" and not name.startswith("zoo::"):
                add(name, {"EXTRA"}, f"{name.split('::')[0]}::{row['schema']}" if row.get("schema") and "::" in name else None)
    return rows


def read_definitions(path):
    """name -> (tags, text) of what schemas.def holds now."""
    rows = {}
    for kind, text, tags in re.findall(r'^NBX_(\w+)\("((?:[^"\\]|\\.)*)".*?, ([A-Z_|0-9]+)\)$', path.read_text(), re.M):
        text = text.replace('\\"', '"')
        rows[text_name(text)] = ({t.removeprefix("NBX_TAG_") for t in tags.split("|")} - {"0"}, text)
    return rows


def tags_of(schema, tags):
    """The tables' tags and what PyTorch itself says about an overload."""
    tags = set(tags)
    space, base = schema.name.split("::")
    try:
        overload = getattr(getattr(getattr(torch.ops, space), base), schema.overload_name or "default")
        tags |= {TORCH_TAGS[t] for t in overload.tags if t in TORCH_TAGS}
    except (AttributeError, RuntimeError):      # lives in the script runtime only: aten::size, aten::__and__.bool
        pass
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns) and "MAYBE_VIEW" not in tags:
        tags.add("VIEW")
    if full_name(schema) in GENERATED:
        tags.add("GENERATED")
    if any(a.name == "generator" for a in schema.arguments):
        tags.add("RANDOM")
    if tags & {"MAYBE_VIEW", "INPLACE_VIEW"}:
        tags.discard("VIEW")
    return tags


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of seed_ops.tsv, core_aten.tsv, exported_extra.tsv, frequency.tsv")
    options = parser.parse_args()
    rows = read_tables(options.tables) if options.tables else read_definitions(TARGET)
    own = {text_name(text): text for text in OWN + SYM}
    rows |= {name: rows.get(name, (set(), None)) for name in own}
    rows |= {name: rows.get(name, ({"EXTRA"}, None)) for name, schema in SCHEMAS.items() if schema.name.startswith("aten::_foreach_") and pure(schema)}

    # every row, its functional overload, and all twins of that
    wanted = {}
    for name, (tags, _) in rows.items():
        schema = SCHEMAS.get(name)
        if schema is None or name in own:
            continue
        functional = functional_of(schema) or schema
        for s in [schema, functional] + twins(functional):
            wanted.setdefault(full_name(s), set())
        wanted[name] |= tags

    lines, missing = {}, []

    def line(kind, text, tags, functional=None):
        quoted = ", ".join('"' + t.replace('"', '\\"') + '"' for t in (text, functional) if t)
        bits = "|".join(f"NBX_TAG_{t}" for t in sorted(tags)) or "0"
        lines[text_name(text)] = f"NBX_{kind}({quoted}, {bits})"

    for name, tags in wanted.items():
        schema, functional = SCHEMAS[name], functional_of(SCHEMAS[name])
        text = re.sub(r"\) -> \((Tensor(?:\([^)]*\))?(?:\[\])?)\)$", r") -> \1", str(schema))
        kind = "SCHEMA" if functional is None else "OUT" if is_out_form(schema) else "INPLACE"
        line(kind, text, tags_of(schema, tags), functional and full_name(functional))
    for name, (tags, text) in rows.items():
        if name in lines:
            continue
        if name in own:
            line("SCHEMA", own[name], tags | {"OWN"} if name.startswith("nbx::") else tags)
        elif name.startswith("higher_order::"):
            line("NAMED", name, tags)
        elif text and "->" in text:
            missing.append(name)
            line("SCHEMA", text, tags)
        else:
            missing.append(name + " (left out)")
    head = "// Every operator the library knows, as PyTorch %s states it; written by script/make_schemas.py, which explains the four macros.\n"
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(head % torch.__version__.partition("+")[0] + "\n".join(lines[name] for name in sorted(lines)) + "\n")
    print(f"{len(lines)} lines; not in PyTorch, text of the tables:", *missing, file=sys.stderr)


if __name__ == "__main__":
    main()
