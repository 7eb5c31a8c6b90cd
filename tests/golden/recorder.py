"""Records calls of PyTorch's operators as golden cases and writes them to files, in the format that nbx-conform reads.

A call is an overload's name with its arguments. `record` runs it on copies of the arguments (copies that keep strides, offsets and which tensors
share memory) and makes the case: results, what the call wrote into, aliasing, or that it failed. `Writer` holds each array once.
"""
import hashlib
import json
import math
import re
import struct
import warnings

import numpy
import scipy.special
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed.*
import torchvision  # noqa: F401               registers torchvision.*
from torch.utils._pytree import tree_leaves, tree_map

from families import KNOWN, base_of, family_of

CODES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
         torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL",
         torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2"}
PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}       # safetensors has no complex dtypes: pairs
WIDE = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.complex64: torch.complex128}

# Results whose contents are open, and those that only move bits.
UNINITIALISED = set("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize resize_as".split())
MOVES = set("cat concat stack hstack vstack dstack column_stack repeat tile flip fliplr flipud roll rot90 gather index_select where masked_select "
            "slice_scatter select_scatter diagonal_scatter as_strided_scatter constant_pad_nd tril triu clone contiguous zeros ones full zeros_like "
            "ones_like full_like new_zeros new_ones new_full eye pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle embedding take "
            "take_along_dim reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d im2col".split())
TIES = set("sort topk kthvalue mode median nanmedian argsort".split())
UNIQUE_UP_TO_SIGN = set("linalg_eig svd linalg_svd _linalg_svd linalg_qr geqrf linalg_eigh _linalg_eigh".split())
# Results from this one on are workspaces, which every backend fills as it likes.
WORKSPACE = {"embedding_bag": 1, "_embedding_bag": 1, "_embedding_bag_forward_only": 1, "_batch_norm_with_update": 3, "_batch_norm_no_update": 3}
WHOLE = ("as_strided", "set", "storage_offset", "sym_storage_offset")       # operators that see more of the storage than the tensor reaches
EXACT = set("elementwise reduce scan softmax norm loss".split())     # families that also get float64 results

# PyTorch computes these with constants of a few digits too few near some arguments, also in float64: what is right.
TRUTH = {f"special_{name}": function for name, function in (
    ("airy_ai", lambda x: scipy.special.airy(x)[0]), ("bessel_j0", scipy.special.j0), ("bessel_j1", scipy.special.j1), ("bessel_y0", scipy.special.y0),
    ("bessel_y1", scipy.special.y1))}

ANY = object()       # in results of an oracle: not compared


class Skip(Exception):
    """The call can't be a case: it says why."""


class Generator:
    """Stands for a freshly seeded torch.Generator in the arguments of a call."""

    def __init__(self, seed):
        self.seed = seed


def overload_of(name):
    space, rest = name.split("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


def name_of(overload):
    name = overload._schema.name
    return f"{name}.{overload._schema.overload_name}" if overload._schema.overload_name else name


# ---- Copies of arguments ----

def storage_key(tensor):
    return tensor.untyped_storage()._cdata


def copied(values, wide=False):
    """The same arguments over memory of their own. With wide, float64 and complex128 take the place of narrower types."""
    memory = {}

    def copy(tensor):
        if tensor.is_conj() or tensor.is_neg():
            raise Skip("lazy conjugation")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise Skip("not a strided tensor on the CPU")
        dtype = WIDE.get(tensor.dtype, tensor.dtype) if wide else tensor.dtype
        key = storage_key(tensor)
        if key not in memory:
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            memory[key] = (tensor.untyped_storage().clone() if not wide else
                           torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage(), 0, (count,)).to(dtype, copy=True).untyped_storage())
        return torch.empty(0, dtype=dtype).set_(memory[key], tensor.storage_offset(), tensor.shape, tensor.stride())

    def one(value):
        if isinstance(value, Generator):
            return torch.Generator().manual_seed(value.seed)
        if isinstance(value, torch.dtype) and wide:
            return WIDE.get(value, value)
        return copy(value.detach()) if isinstance(value, torch.Tensor) else value

    return tree_map(one, values)


# ---- The arrays ----

def raw(tensor):
    """The bytes of a dense tensor."""
    return tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


class Writer:
    """Collects the cases of one file and the arrays they need, equal arrays once."""

    def __init__(self):
        self.cases, self.arrays, self.ids, self.bytes = [], {}, {}, 0

    def array(self, tensor):
        """The name of a dense array that is stored with its own dtype and shape."""
        if tensor.dtype in PARTS:
            tensor = torch.view_as_real(tensor.contiguous()).flatten(-2) if tensor.dim() else torch.view_as_real(tensor)
        if tensor.dtype not in CODES:
            raise Skip(f"{tensor.dtype} can't be stored")
        data = raw(tensor)
        key = (CODES[tensor.dtype], tuple(tensor.shape), hashlib.sha1(data).digest())
        if key not in self.arrays:
            self.arrays[key] = (f"t{len(self.arrays)}", data)
            self.bytes += len(data) + 70
        return self.arrays[key][0]

    def add(self, case):
        stem = case["id"]
        self.ids[stem] = self.ids.get(stem, -1) + 1
        case["id"] = f"{stem}/{self.ids[stem]}"
        self.cases.append(case)
        self.bytes += len(json.dumps(case)) + 1

    def write(self, path):
        """The arrays, widest elements first so that all are aligned; the cases as metadata."""
        cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in self.cases)
        used = set(re.findall(r'"tensor":"(t\d+)"', cases))
        order = sorted((item for item in self.arrays.items() if item[1][0] in used), key=lambda item: (-element_bytes(item[0][0]), int(item[1][0][1:])))
        version = torch.__version__.partition("+")[0]
        header = {"__metadata__": {"nbx_cases": f'{{"format": 1, "made_with": "torch {version}", "cases": [\n{cases}\n]}}'}}
        place = 0
        for (code, shape, _), (name, data) in order:
            header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [place, place + len(data)]}
            place += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, (_, data) in order:
                file.write(data)


def element_bytes(code):
    return {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}.get(code, 1)


# ---- Arguments as JSON ----

def number(value):
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, complex):
        return {"complex": [part(value.real), part(value.imag)]}
    return {"float": part(value)}


def part(value):
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


FORMATS = {torch.contiguous_format: "contiguous_format", torch.channels_last: "channels_last", torch.channels_last_3d: "channels_last_3d",
           torch.preserve_format: "preserve_format"}


def bounds(tensor):
    """First and one past the last element of the storage that a tensor reaches."""
    if tensor.numel() == 0:
        return tensor.storage_offset(), tensor.storage_offset()
    low = high = tensor.storage_offset()
    for size, stride in zip(tensor.shape, tensor.stride()):
        low, high = low + min(0, (size - 1) * stride), high + max(0, (size - 1) * stride)
    return low, high + 1


def row_major(tensor):
    return tensor.is_contiguous()


class Encoder:
    """Turns the arguments of one call into ARGs. Tensors that share storage, and written ones that are not dense, show their storage."""

    def __init__(self, writer, tensors, whole=False):
        self.writer, self.span, self.names, self.whole = writer, {}, {}, whole
        count = {}
        for tensor in tensors:
            key = storage_key(tensor)
            low, high = bounds(tensor) if not whole else (0, tensor.untyped_storage().nbytes() // tensor.element_size())
            old = self.span.get(key)
            self.span[key] = (min(low, old[0]), max(high, old[1]), old[2] if old[2] == tensor.dtype else None) if old else (low, high, tensor.dtype)
            count[key] = count.get(key, 0) + 1
        for key, n in count.items():
            if n > 1:
                if self.span[key][2] is None:
                    raise Skip("one storage, several dtypes")
                self.names[key] = f"s{len(self.names)}"

    def dense(self, tensor):
        arg = {"tensor": self.writer.array(tensor)}
        if tensor.dtype in PARTS:
            arg |= {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape)}
        return arg

    def tensor(self, tensor):
        key = storage_key(tensor)
        low, high, _ = self.span[key]
        if key not in self.names and row_major(tensor) and (not self.whole or high - low == tensor.numel()):
            return self.dense(tensor)
        if tensor.numel() == 0 and key not in self.names and not self.whole:
            low = high = tensor.storage_offset()
        arg = {"tensor": self.writer.array(flat_storage(tensor, low, high))}
        if tensor.dtype in PARTS:
            arg["dtype"] = str(tensor.dtype)[6:]
        arg |= {"shape": list(tensor.shape), "stride": list(tensor.stride()), "offset": tensor.storage_offset() - low}
        if key in self.names:
            arg["storage"] = self.names[key]
        return arg

    def arg(self, value, kind):
        """kind is the schema's type as text."""
        if value is None:
            return {"none": True}
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple, torch.Size)):
            return {"list": [self.arg(v, kind) for v in value]}
        if isinstance(value, Generator):
            return {"generator": value.seed}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)[6:]}
        if isinstance(value, torch.layout):
            return {"layout": str(value)[6:]}
        if isinstance(value, torch.memory_format):
            return {"memory_format": FORMATS[value]}
        if isinstance(value, (torch.device, str)) and "Device" in kind:
            return {"device": "cpu"}
        if isinstance(value, str):
            return {"string": value}
        if isinstance(value, (bool, int, float, complex)):
            if "float" in kind and isinstance(value, int):
                value = float(value)
            return number(value)
        raise Skip(f"argument of type {type(value).__name__}")

    def result(self, value, strides=True):
        """A result: its values, dense, and its strides."""
        if value is None or isinstance(value, (list, tuple)):
            return {"none": True} if value is None else {"list": [self.result(v, strides) for v in value]}
        if not isinstance(value, torch.Tensor):
            return self.arg(value, "")
        value = value.detach().resolve_conj().resolve_neg()
        if not strides:
            return self.dense(value)
        if row_major(value):
            if value.dim() < 2:
                return self.dense(value)
            arg = {"tensor": self.writer.array(value.reshape(-1))} | ({"dtype": str(value.dtype)[6:]} if value.dtype in PARTS else {})
            return arg | {"shape": list(value.shape), "stride": list(value.stride())}
        low, high = bounds(value)
        arg = {"tensor": self.writer.array(flat_storage(value, low, high))} | ({"dtype": str(value.dtype)[6:]} if value.dtype in PARTS else {})
        return arg | {"shape": list(value.shape), "stride": list(value.stride()), "offset": value.storage_offset() - low}


def zeros_as(tensor):
    """Zeros with the very strides of a tensor, also where its elements share memory."""
    low, high = bounds(tensor)
    return torch.zeros(high - low, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())


def flat_storage(tensor, low, high):
    return tensor.as_strided((high - low,), (1,), low)


# ---- Recording ----

def writes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def bind(schema, args, kwargs):
    """(position or name, schema argument, value) of all arguments given."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    by_name = {a.name: a for a in schema.arguments}
    return ([(i, positional[i], value) for i, value in enumerate(args)] + [(name, by_name[name], value) for name, value in kwargs.items()])


def tensors_of(values):
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


def cost(values):
    return sum(t.numel() * t.element_size() for t in tensors_of(values))


UNSUPPORTED = ("not implemented for", "not supported on CPU", "not yet implemented", "Could not run", "NYI", "CUDA", "is not compiled", "MKL", "quantized",
               "requires grad", "deprecated", "on CPU", "output must be contiguous", "INTERNAL ASSERT", "undefined symbol", "named tensor", "expects all tensors to be on", "not supported for CPU")


def record(writer, name, args=(), kwargs=None, *, label=None, note=None, exact=None, errors=True, expect_error=None, check=None, tol=None, limit=None,
           oracle=None, ranges=None, strides=True):
    """Makes the case of one call and adds it to the writer; returns True, or raises Skip. name is the overload's, args may hold Generator.

    errors: whether a failing call becomes an error case; expect_error: True demands one, and False a success.
    oracle: a function of the same arguments that gives the list of results where PyTorch has none (ANY: not compared).
    """
    kwargs = dict(kwargs or {})
    overload = oracle or overload_of(name)
    schema = torch._C.parse_schema(KNOWN[name][1]) if oracle else overload._schema
    run_args, run_kwargs = copied((list(args), kwargs))
    base, family = base_of(name), family_of(name)
    given = bind(schema, args, kwargs)
    encoder = Encoder(writer, [t.detach() for t in tensors_of((list(args), kwargs))], base.startswith(WHOLE) or name == "aten::view.dtype")
    kinds = {key: str(a.real_type) for key, a, _ in given}
    case = {"id": label or f"{name.removeprefix('aten::').replace('::', '.')}", "op": name,
            "args": [encoder.arg(v.detach() if isinstance(v, torch.Tensor) else v, kinds[i]) for i, v in enumerate(args)]}
    if kwargs:
        case["kwargs"] = {k: encoder.arg(v.detach() if isinstance(v, torch.Tensor) else v, kinds[k]) for k, v in kwargs.items()}
    if name == "aten::binary_cross_entropy.out" and next((v for _, a, v in given if a.name == "reduction"), 1):
        raise Skip(f"{name}: the elements' losses go to out, which fits the reduced one only")
    if base in ("median", "nanmedian") and name.endswith(("dim", "dim_values")) and 0 in args[0].stride():
        raise Skip(f"{name}: reads beside the memory of an expanded dim")
    if base == "linalg_cond" and 0 in args[0].stride():
        raise Skip(f"{name}: rounding decides whether the condition of a matrix of equal columns is infinite")
    if "_polynomial_" in base and isinstance(args[0], torch.Tensor) and bool(args[0].isnan().any()):
        raise Skip(f"{name}: a NaN ends its loop before the result is set")
    dtype = next((str(t.dtype)[6:] for t in tensors_of((list(args), kwargs))), "none")
    case["id"] += "/" + dtype

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(1)
            results = overload(*run_args, **run_kwargs)
    except Exception as error:  # noqa: BLE001  any failure of the operator is the recorded fact
        text = str(error)
        if not errors or expect_error is False or any(word in text for word in UNSUPPORTED) or oracle or not isinstance(
                error, (RuntimeError, IndexError, ValueError)) or isinstance(error, NotImplementedError):
            raise Skip(f"{name}: {text.splitlines()[0] if text else type(error).__name__}") from error
        case |= {"error": True, "note": text.splitlines()[0][:120]}
        writer.add(case)
        return True
    if expect_error:
        raise Skip(f"{name}: no error")

    if name.startswith("aten::result_type") and results == 8:
        raise Skip(f"{name}: complex of half")
    flat = results if oracle else [] if not schema.returns else list(results) if len(schema.returns) > 1 else [results]
    strided = strides and not oracle and not (family == "conv" and any(not row_major(t) for t in tensors_of((list(args), kwargs))))
    if limit and cost(flat) > limit:
        raise Skip("results too large")
    if any(writes(a) and not isinstance(v, (torch.Tensor, list, tuple)) for _, a, v in given):
        raise Skip(f"{name}: writes into a number")
    if family == "linalg" and not oracle:
        if open_in_aten(base, args):
            raise Skip(f"{name}: no defined result")
        if is_unstable(overload, args, kwargs, flat):
            raise Skip(f"{name}: ill-conditioned")
        flat = [ANY if i in null_space(base, flat) else r for i, r in enumerate(flat)]
    mutated = {}
    for (key, argument, before), after in zip(given, [v for _, _, v in bind(schema, run_args, run_kwargs)]):
        if writes(argument) and isinstance(after, torch.Tensor):
            if after.untyped_storage().nbytes() and before.shape == after.shape and before.stride() == after.stride() and not row_major(before):
                low, high, _ = encoder.span[storage_key(before)]
                mutated[str(key)] = ({"tensor": writer.array(flat_storage(after, low, high))} |
                                     ({"dtype": str(after.dtype)[6:]} if after.dtype in PARTS else {}) |
                                     {"shape": list(after.shape), "stride": list(after.stride()), "offset": after.storage_offset() - low})
            else:
                mutated[str(key)] = encoder.result(after)
        elif writes(argument) and isinstance(after, (list, tuple)):
            mutated[str(key)] = {"list": [encoder.result(t) for t in after]}
    if limit and cost(flat) > limit:
        raise Skip("results too large")
    if not check and is_random(overload, name, args, kwargs, flat):
        check = "shape"
    check = check or check_of(base, name, schema, given, (run_args, run_kwargs), flat, case, mutated)
    flat = [r if i < WORKSPACE.get(base, len(flat)) else ANY for i, r in enumerate(flat)]
    if check == "shape" and not ranges:         # the contents are open: no garbage into the file
        flat = [zeros_as(r) if isinstance(r, torch.Tensor) else r for r in flat]
        mutated = {}
    case["out"] = [{"any": True} if r is ANY else encoder.result(r, strided) for r in flat]
    if mutated:
        case["mutated"] = mutated
    if check and check != "values":
        case["check"] = check
        if ranges:
            case["range"] = ranges
    if tol is not None:
        case["tol"] = tol
    elif is_widened(family, given, run_kwargs):
        case["tol"] = [1.3e-6, 1e-5 + 1.3e-6 * max((float(r.abs().nan_to_num(0, 0, 0).max()) for r in tensors_of(flat) if r.numel()), default=0)]
    elif base in MOVES and not mutated or check == "alias":
        case["tol"] = "bits"
    if not oracle and exact is not False and check != "shape" and "RANDOM" not in KNOWN.get(name, (0, 0, 0, ()))[3] and (exact or family in EXACT):
        wide = truth(name, args[0], flat) if base in TRUTH else in_float64(overload, args, kwargs, flat)
        if wide:
            case["exact64"] = [encoder.result(w, False) if w is not None else {"any": True} for w in wide]
    if note:
        case["note"] = note
    writer.add(case)
    return True


def truth(name, x, flat):
    """What SciPy gives for the numbers that PyTorch computes with: float32 for whole ones."""
    x = x if x.is_floating_point() else x.to(torch.float32)
    right = torch.from_numpy(numpy.asarray(TRUTH[base_of(name)](x.to(torch.float64).numpy())))
    if bool((right.isnan() & ~flat[0].isnan()).any()):
        raise Skip(f"{name}: an argument so large that SciPy gives no number")
    return [right]


def is_widened(family, given, kwargs):
    """Whether results go to a float64 or complex128 out= though nothing else is so wide: they were computed in float32."""
    wide = (torch.float64, torch.complex128)
    return family in ("elementwise", "fft") and any(a.name.startswith("out") and writes(a) and t.dtype in wide for _, a, v in given for t in tensors_of(v)) and not any(
        t.dtype in wide for _, a, v in given if not writes(a) for t in tensors_of(v)) and kwargs.get("dtype") not in wide


# ---- Linear algebra ----

def open_in_aten(base, args):
    """matrix_exp of float16 and bfloat16 gives noise in PyTorch 2.11."""
    return base in ("matrix_exp", "linalg_matrix_exp") and args[0].dtype in (torch.float16, torch.bfloat16)


def is_unstable(overload, args, kwargs, flat):
    """Whether arguments that differ by roundings give quite other results, signs and phases aside: then no two programs agree."""
    def shaken(value):
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()) or value.dim() < 2:
            return value
        return value * (1 + 2 * torch.finfo(value.dtype).eps * torch.randn(value.shape, dtype=value.dtype))
    if any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors_of(flat)):
        return False
    if not all(r.isfinite().all() for r in tensors_of(flat)):       # of equal rows in complex numbers, rounding leaves what is no zero
        return any(t.is_complex() and 0 in t.stride() for t in tensors_of(args))
    torch.manual_seed(3)
    try:
        with torch.no_grad():
            again = overload(*tree_map(shaken, copied(list(args))), **{k: v if k.startswith("out") else shaken(v) for k, v in copied(kwargs).items()})
    except Exception:  # noqa: BLE001
        return True
    again = list(again) if isinstance(again, (list, tuple)) else [again]
    return any(r.shape != a.shape or (r.numel() and bool((r.abs().to(torch.float64) - a.abs().to(torch.float64)).abs().max() > 1e-3 * (1 + r.abs().max())))
               for r, a in zip(tensors_of(flat), tensors_of(again)))


def null_space(base, flat):
    """Results of a full singular value decomposition whose last vectors are any basis of a space of two dims or more."""
    if base not in ("linalg_svd", "_linalg_svd") or not all(r.dim() >= 2 for r in (flat[0], flat[2])):
        return ()
    k = flat[1].shape[-1]
    return [i for i, size in ((0, flat[0].shape[-1]), (2, flat[2].shape[-2])) if size - k > 1 and k]


def is_random(overload, name, args, kwargs, flat):
    """Whether a call gives something else with another seed of the default generator."""
    if "RANDOM" not in KNOWN[name][3] and "dropout" not in name and "attention" not in name and "rrelu" not in name:
        return False
    again_args, again_kwargs = copied((list(args), kwargs))
    torch.manual_seed(2)
    with torch.no_grad():
        again = overload(*again_args, **again_kwargs)
    return any(raw(a.detach()) != raw(b.detach()) for a, b in zip(tensors_of(flat), tensors_of(again)))


def check_of(base, name, schema, given, run, flat, case, mutated):
    """The check that suits an operator; fills in dim and alias_of."""
    values = {argument.name: value for _, argument, value in given}
    if base in UNINITIALISED:
        return "shape"
    if base in TIES and (len(flat) > 1 or base == "argsort") and not values.get("stable"):
        dim = values.get("dim", None)
        if dim is None and base in ("median", "nanmedian"):
            return "values"
        if isinstance(dim, bool) or not isinstance(dim, int):
            dim = -1
        case["dim"] = dim
        return "set" if base == "topk" and values.get("sorted") is False else "ties"
    if base in UNIQUE_UP_TO_SIGN:
        return "abs"
    if not mutated and flat:
        outs = tensors_of(flat)
        if outs and not any(t.is_conj() or t.is_neg() for t in outs):
            for i, v in enumerate(run[0]):
                owners = [t for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)]
                if not owners:
                    continue
                pairs = zip(outs, owners) if len(owners) > 1 and len(owners) == len(outs) else ((o, owners[0]) for o in outs)
                if all(storage_key(o) == storage_key(t) for o, t in pairs):
                    if i:
                        case["alias_of"] = i
                    return "alias"
    return None


def in_float64(overload, args, kwargs, flat):
    """The floating results computed in float64, or None where nothing would be narrower."""
    outs = tensors_of(flat)
    if any(isinstance(f, (list, tuple)) for f in flat) or not any(o.dtype in WIDE for o in outs):
        return None
    try:
        wide_args, wide_kwargs = copied((list(args), kwargs), wide=True)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = overload(*wide_args, **wide_kwargs)
    except Exception:  # noqa: BLE001
        return None
    results = list(results) if isinstance(results, tuple) else [results]
    if len(results) != len(flat):
        return None
    return [r if isinstance(r, torch.Tensor) and isinstance(f, torch.Tensor) and f.dtype in WIDE and r.dtype == WIDE[f.dtype] and r.shape == f.shape
            else None for r, f in zip(results, flat)] if any(isinstance(r, torch.Tensor) and isinstance(f, torch.Tensor) and f.dtype in WIDE
                                                               for r, f in zip(results, flat)) else None
