"""Calls made from a call that works: other memory layouts, special values, empty tensors, other dims.

Each is a function (name, args, kwargs, turn) -> (args, kwargs, options of record) or None where it has nothing to say.
"""
import torch
from torch.utils._pytree import tree_map_only

from families import base_of, family_of
from recorder import bind, overload_of, tensors_of, writes

UNSUITED = set("linalg conv fft recurrent attention random matmul misc".split())     # special values there say nothing, or depend on the order of sums
FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -3.5]
DIVIDING = set("fmod remainder floor_divide div divide true_divide gcd lcm".split())


def first_tensor(args):
    return next((t for a in args for t in (a if isinstance(a, (list, tuple)) else [a]) if isinstance(t, torch.Tensor)), None)


# ---- Memory layouts ----

def reversed_memory(t):
    """Strides in the opposite order: a transpose."""
    order = list(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def every_other(t):
    """Every second element of a larger block, from an offset."""
    block = torch.zeros((*t.shape[:-1], 2 * t.shape[-1] + 1), dtype=t.dtype)
    block[..., 1::2] = t
    return block[..., 1::2]


def padded_rows(t):
    """Rows with gaps between them, beginning in the middle of the storage."""
    block = torch.ones((t.shape[0] + 1, *t.shape[1:-1], t.shape[-1] + 3) if t.dim() > 1 else (t.shape[0] + 3,), dtype=t.dtype)
    part = (block[1:] if t.dim() > 1 else block)[..., 2:2 + t.shape[-1]]
    part.copy_(t)
    return part


def expanded(t):
    """One slice along the first dim, repeated with stride 0."""
    return t[:1].clone().expand(t.shape)


def last_dim_expanded(t):
    return t[..., :1].clone().expand(t.shape)


def channels_last(t):
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t.contiguous(memory_format=torch.channels_last_3d) if t.dim() == 5 else \
        reversed_memory(t)


LAYOUTS = [reversed_memory, every_other, padded_rows, expanded, channels_last, last_dim_expanded]


def layout(name, args, kwargs, turn):
    change = LAYOUTS[turn % len(LAYOUTS)]
    written = any(writes(a) for a in overload_of(name)._schema.arguments)
    if written and change in (expanded, last_dim_expanded):
        change = padded_rows
    if not any(t.dim() and t.numel() for t in tensors_of((args, kwargs))):
        return None

    def one(t):
        return change(t) if t.dim() and t.numel() and not t.is_conj() and not t.is_neg() else t
    return *tree_map_only(torch.Tensor, one, (list(args), kwargs)), {"errors": False}


# ---- Values ----

def special(name, args, kwargs, turn):
    if family_of(name) in UNSUITED or not args or not isinstance(args[0], torch.Tensor) or args[0].numel() < 2:
        return None
    t = args[0]
    elementwise = family_of(name) == "elementwise"
    values = list(FLOATS)
    if t.is_floating_point():
        info = torch.finfo(t.dtype)
        if elementwise:
            values += [info.max, info.min, info.tiny, info.smallest_normal / 2, info.eps, 1 + info.eps, 10.0, -10.0, 88.8, 100.0]
    elif t.is_complex():
        inf, nan = float("inf"), float("nan")
        values = [complex(*p) for p in ((nan, 0), (inf, 0), (-inf, 1), (0, -0.0), (-0.0, 0), (1, 1), (0, inf), (1, nan), (inf, nan))]
    elif t.dtype != torch.bool and elementwise:
        info = torch.iinfo(t.dtype)
        smallest = 1 - info.max if base_of(name) in DIVIDING else info.min    # min / -1 ends the process
        values = [smallest, info.max, 0, 1, info.max - 1] + ([-1] if info.min else [])
    else:
        return None
    start = (turn * 7) % len(values)
    values = (values[start:] + values[:start] + values[:start])[:max(1, t.numel() * 2 // 3)]
    new = t.clone(memory_format=torch.contiguous_format)
    flat = new.view(-1)
    step = max(1, t.numel() // len(values))
    places = torch.arange(0, t.numel(), step)[:len(values)]
    flat[places] = torch.tensor(values[:len(places)], dtype=t.dtype)
    return [new, *args[1:]], kwargs, {"errors": False}


def empty(name, args, kwargs, turn):
    """Some dim of the first tensor, and of those of the same shape, is 0."""
    t = first_tensor(args)
    if t is None or t.dim() == 0 or t.numel() == 0:
        return None
    shape, dim = t.shape, turn % t.dim()

    def one(o):
        return o.narrow(dim, 0, 0).clone() if o.shape == shape else o
    return *tree_map_only(torch.Tensor, one, (list(args), kwargs)), {}


# ---- Dims ----

DIMS = {"dim", "dim0", "dim1", "dims", "axis", "dim2", "axis0", "axis1", "source", "destination"}


def dim_arguments(name, args, kwargs):
    return [(key, a, v) for key, a, v in bind(overload_of(name)._schema, args, kwargs) if a.name in DIMS and
            (type(v) is int or isinstance(v, (list, tuple)) and v and all(type(i) is int for i in v))]


def replaced(args, kwargs, key, value):
    args, kwargs = list(args), dict(kwargs)
    if isinstance(key, int):
        args[key] = value
    else:
        kwargs[key] = value
    return args, kwargs


def out_of_range(name, args, kwargs, turn):
    found = dim_arguments(name, args, kwargs) if base_of(name) != "tile" else []
    if not found:
        return None
    key, _, value = found[turn % len(found)]
    wrong = (9, -9)[turn % 2]
    return *replaced(args, kwargs, key, wrong if isinstance(value, int) else [wrong, *value[1:]]), {"expect_error": True}


def repeated_dim(name, args, kwargs, turn):
    for key, _, value in dim_arguments(name, args, kwargs):
        if not isinstance(value, int):
            return *replaced(args, kwargs, key, [*value, value[0]]), {"expect_error": True}
    return None


def counted_from_the_end(name, args, kwargs, turn):
    t, found = first_tensor(args), dim_arguments(name, args, kwargs)
    if t is None or not found or t.dim() == 0:
        return None
    for key, _, value in found:
        values = [value] if isinstance(value, int) else value
        turned = [v - t.dim() if v >= 0 else v + t.dim() for v in values]
        args, kwargs = replaced(args, kwargs, key, turned[0] if isinstance(value, int) else turned)
    return args, kwargs, {"errors": False}


# function, most of one overload and dtype in the checked-in set and in the full one, dtypes of the checked-in set (None: all)
SOME = (torch.float32, torch.int64)
MUTATIONS = [(layout, 1, 6, (torch.float32, torch.bfloat16, torch.int64, torch.complex64)), (special, 1, 3, None), (empty, 1, 3, SOME),
             (out_of_range, 1, 3, (torch.float32,)), (repeated_dim, 1, 1, (torch.float32,)), (counted_from_the_end, 1, 2, SOME)]


# Internal operators that check their arguments; others trust their callers, read garbage or crash.
CAREFUL = ("_softmax", "_log_softmax", "_safe_softmax", "_to_copy", "_conj", "_fft", "_prelu", "_unsafe_index", "_unsafe_view", "__", "_unique2", "_upsample")


TRUSTING = ("lu_unpack", "lu_solve", "linalg_lu_solve")      # pivots are not checked


class Mutator:
    """Counts what was made of every overload and dtype."""

    def __init__(self, full):
        self.full, self.count = full, {}

    def calls(self, name, args, kwargs):
        dtype = next((t.dtype for t in tensors_of((args, kwargs))), None)
        internal = base_of(name).startswith("_") and not base_of(name).startswith(CAREFUL) or base_of(name) in TRUSTING
        for function, few, many, dtypes in MUTATIONS:
            if internal or base_of(name).startswith("_fft") and function is not layout:
                continue
            key = (function, name, dtype)
            turn = self.count.get(key, 0)
            if turn >= (many if self.full else few) or (not self.full and dtypes and dtype not in dtypes):
                continue
            made = function(name, args, kwargs, turn + len(base_of(name)) if function is layout else turn)
            if made:
                yield key, made

    def made(self, key):
        self.count[key] = self.count.get(key, 0) + 1
