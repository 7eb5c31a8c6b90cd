"""Hand-made cases: views, indexing, creation and copies."""
import itertools
import math

import torch

from handmade_common import ALL, BF16, BOOL, C64, COMPLEX, ERROR, F16, F32, F64, FLOATS, I8, I16, I32, I64, INF, INTS, NAN, U8, c, make, tensor


# ---- Shapes and views ----

def shape(full):
    x = make(2, 3, 4)
    views = [c("view", x, s) for s in ([24], [-1], [2, 12], [6, -1], [2, 3, 2, 2], [1, 24, 1], [3, -1, 2])]
    views += [c("view", x, s, opt=ERROR) for s in ([5, -1], [-1, -1], [23], [])]
    views += [c("view", x.transpose(0, 1), [3, 8], opt=ERROR), c("view", x.transpose(0, 1), [3, 2, 2, 2]), c("view", x.permute(1, 2, 0), [12, 2]),
              c("view", x[:, :, ::2], [6, 2]), c("view", x[:, 1:], [2, 8]), c("view", torch.zeros(2, 0), [0, -1], opt=ERROR),
              c("view", torch.zeros(2, 0), [-1, 2]), c("view", torch.zeros(0, 3), [3, 0]), c("view", make(), [1, 1]), c("view", make(1), []),
              c("view", make(4, 1).expand(4, 3), [2, 2, 3])]
    yield from views
    for s in ([24], [4, 6], [-1, 3]):
        for y in (x, x.transpose(0, 1), x.permute(2, 1, 0), make(1, 3, 4).expand(2, 3, 4)):
            yield c("reshape", y, s)
            yield c("_reshape_copy", y, s)
    yield c("_reshape_alias", x, [6, 4], [4, 1])
    for dtype in ALL:
        for to in ALL:
            for y in (make(2, 4, dtype=dtype), make(4, dtype=dtype)[1:3], make(4, 2, dtype=dtype).t(), make(dtype=dtype)):
                if full or (dtype in (F32, I16, C64) and to in (F32, U8, I64)):
                    yield c("view.dtype", y, to)
    for args in ((0, 0, 9, 1), (1, 1, 3, 1), (2, 0, 4, 2), (2, -3, -1, 1), (1, -100, 100, 2), (1, 2, 1, 1), (1, 5, 9, 1), (0, None, None, 1), (2, 1, None, 3)):
        yield c("slice.Tensor", x, *args)
    yield c("slice.Tensor", x, 0, 0, 2, 0, opt=ERROR)
    yield c("slice.Tensor", x, 0, 0, 2, -1, opt=ERROR)
    yield c("slice.Tensor", make(), 0, 0, 1, opt=ERROR)
    for dim, i in ((0, 1), (1, -1), (-1, -4)):
        yield c("select.int", x, dim, i)
    yield c("select.int", x, 0, 2, opt=ERROR)
    yield c("select.int", make(), 0, 0, opt=ERROR)
    for dim, start, length in ((0, 0, 2), (1, 1, 2), (2, -2, 2), (1, 3, 0)):
        yield c("narrow", x, dim, start, length)
    yield c("narrow", x, 1, 2, 2, opt=ERROR)
    yield c("narrow.Tensor", x, 1, tensor(1, I64), 2)
    for args in ((0, 2, 1), (2, 2, 2), (-1, 4, 1), (1, 3, 5), (2, 1, 3)):
        yield c("unfold", x, *args)
    yield c("unfold", x, 2, 5, 1, opt=ERROR)
    yield c("unfold", make(), 0, 1, 1)
    for d in (0, 1, 3, -1, -4):
        yield c("unsqueeze", x, d)
    yield c("unsqueeze", x, 4, opt=ERROR)
    y = make(1, 3, 1, 2)
    yield c("squeeze", y)
    yield c("squeeze", make())
    for d in (0, 1, -2):
        yield c("squeeze.dim", y, d)
    yield c("squeeze.dims", y, [0, 1, 2])
    yield c("squeeze.dims", y, [0, 0], opt=ERROR)
    yield c("squeeze.dim", make(), 0)
    for s in ([2, 3, 4], [5, 2, 3, 4], [-1, -1, 4], [2, -1, 4]):
        yield c("expand", x, s)
    yield c("expand", make(1, 3), [4, -1])
    yield c("expand", make(1, 3), [0, 3])
    yield c("expand", make(), [2, 2])
    yield c("expand", x, [2, 2, 4], opt=ERROR)
    yield c("expand", x, [3, 4], opt=ERROR)
    yield c("expand", x, [-1, 2, 3, 4], opt=ERROR)
    for order in ([2, 0, 1], [0, 1, 2], [-1, 0, 1]):
        yield c("permute", x, order)
    yield c("permute", x, [0, 1, 1], opt=ERROR)
    yield c("permute", x, [0, 1], opt=ERROR)
    yield c("permute", make(), [])
    for a, b in ((0, 2), (-1, -2), (1, 1)):
        for op in ("transpose.int", "swapaxes", "swapdims"):
            yield c(op, x, a, b)
        for op in ("transpose_", "swapaxes_", "swapdims_"):
            yield c(op, x, a, b)
    yield c("transpose.int", make(), 0, -1)
    yield c("t", x, opt=ERROR)
    for y in (make(), make(3), make(2, 3)):
        yield c("t", y)
        yield c("t_", y)
    yield c("unsqueeze_", x, 1)
    yield c("squeeze_", make(1, 3, 1))
    yield c("squeeze_.dim", make(1, 3, 1), 0)
    yield c("squeeze_.dims", make(1, 3, 1), [0, 2])
    yield c("as_strided_", make(12), [2, 3], [1, 2], 1)
    yield c("detach", x)
    yield c("detach_", x)
    yield c("alias", x.t() if x.dim() == 2 else x.transpose(0, 1))
    for args in (([2, 2], [1, 2]), ([3], [4], 2), ([2, 2], [0, 0]), ([], []), ([4, 4], [1, 1], 3), ([0, 2], [1, 1])):
        yield c("as_strided", make(24), *args)
    yield c("as_strided", make(4), [5], [1], opt=ERROR)
    yield c("as_strided", make(4), [2], [-1], opt=ERROR)
    for n, dim in ((2, 0), (3, 2), (5, 2), (1, 1), (4, 1)):
        yield c("chunk", x, n, dim)
        yield c("unsafe_chunk", x, n, dim)
        yield c("tensor_split.sections", x, n, dim)
        yield c("split.Tensor", x, n, dim)
        yield c("unsafe_split.Tensor", x, n, dim)
    yield c("chunk", x, 0, opt=ERROR)
    yield c("split.Tensor", x, 0, opt=ERROR)
    yield c("split.Tensor", torch.zeros(0, 2), 0)
    yield c("split.Tensor", torch.zeros(0, 2), 2)
    for sizes in ([1, 3], [4, 0], [2, 2]):
        for op in ("split_with_sizes", "unsafe_split_with_sizes", "split.sizes"):
            yield c(op, x, sizes, 2)
        yield c("unsafe_split_with_sizes.out", x, sizes, 2, out=[torch.zeros(2, 3, n) for n in sizes])
    yield c("split_with_sizes", x, [1, 2], 2, opt=ERROR)
    yield c("split_with_sizes", x, [5, -1], 2, opt=ERROR)
    for indices in ([1], [1, 3], [3, 1], [-1], [0, 0], [10]):
        yield c("tensor_split.indices", x, indices, 2)
        yield c("tensor_split.tensor_indices_or_sections", x, tensor(indices, I64), 2)
    yield c("tensor_split.tensor_indices_or_sections", x, tensor(3, I64), 2)
    for dim in (0, 1, -1):
        yield c("unbind.int", x, dim)
    yield c("unbind.int", make(), 0, opt=ERROR)
    for args in ((0, 0, 1), (1, 0, 1), (-1, 1, 2), (5, 0, 1), (0, -1, 0)):
        yield c("diagonal", x, *args)
    yield c("diagonal", x, 0, 1, 1, opt=ERROR)
    for s, d in ((0, 2), (2, 0), (-1, 1)):
        yield c("movedim.int", x, s, d)
        yield c("moveaxis.int", x, s, d)
    yield c("movedim.intlist", x, [0, 1], [1, 0])
    yield c("movedim.intlist", x, [0, 0], [1, 2], opt=ERROR)
    for args in ((0, -1), (1, 2), (0, 1), (1, 1)):
        yield c("flatten.using_ints", x, *args)
        yield c("flatten.using_ints", x.transpose(0, 1), *args)
    yield c("flatten.using_ints", make())
    yield c("flatten.using_ints", x, 2, 1, opt=ERROR)
    yield c("unflatten.int", x, 2, [2, -1])
    yield c("unflatten.int", x, 2, [3, 2], opt=ERROR)
    yield c("broadcast_tensors", [make(3, 1), make(4), make()])
    yield c("broadcast_tensors", [make(3), make(4)], opt=ERROR)
    yield c("broadcast_to", make(3, 1), [2, 3, 4])
    for op in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for y in (make(), make(3), make(2, 3), x):
            yield c(op, y)
        yield c(op + ".Sequence", [make(), make(3)])
    for way in ("ij", "xy"):
        yield c("meshgrid.indexing", [make(2), make(3)], indexing=way)
        yield c("meshgrid.indexing", [make(2), make(), make(4)], indexing=way)
    yield c("meshgrid", [make(2), make(3)])
    for op in ("hsplit", "vsplit"):
        yield c(op + ".int", make(4, 6), 2)
        yield c(op + ".array", make(4, 6), [1, 3])
        yield c(op + ".int", make(3, 5), 2, opt=ERROR)
    yield c("dsplit.int", make(2, 3, 4), 2)
    for op in ("mT", "mH", "adjoint", "numpy_T"):
        yield c(op, make(2, 3, dtype=F32))
    yield c("adjoint", make(2, 3, dtype=C64))
    for dtype in COMPLEX:
        z = make(2, 3, dtype=dtype)
        for op in ("real", "imag", "view_as_real", "conj", "_conj", "resolve_conj", "resolve_neg"):
            yield c(op, z)
            yield c(op, z.t())
    for dtype in (F32, F64):
        yield c("view_as_complex", make(3, 2, dtype=dtype))
        yield c("view_as_complex", make(3, 4, dtype=dtype)[:, ::2], opt=ERROR)
        yield c("view_as_complex", make(3, 3, dtype=dtype), opt=ERROR)
        for op in ("real", "conj", "resolve_conj"):
            yield c(op, make(3, dtype=dtype))
    yield c("_neg_view", make(3, 4), opt={"check": "values"})
    yield c("imag", make(3), opt=ERROR)
    for op in ("prims::view_of",):
        yield c(op, x, opt={"oracle": lambda t: [t], "check": "alias"})
    for s, dims in (([2, 3], [1]), ([3, 4], [0])):
        yield c("prims::broadcast_in_dim", make(3), s, dims, opt={"oracle": broadcast_in_dim, "check": "alias"})


def broadcast_in_dim(t, size, dims):
    for i in range(len(size)):
        if i not in dims:
            t = t.unsqueeze(i)
    return [t.expand(size)]


# ---- Indexing ----

def index(full):
    x = make(4, 5, 6)
    i, j = tensor([0, 2, -1], I64), tensor([[1], [-2]], I64)
    mask = torch.rand(4, 5) < 0.4
    lists = [[i], [None, i], [i, None, i], [i, i], [None, i, i], [j, i], [j, None, i], [None, None, j], [mask], [None, torch.tensor([True, False, True, True, False])],
             [torch.rand(4, 5, 6) < 0.3], [i.to(I32)], [torch.tensor([], dtype=I64)], [torch.tensor([True, False, True, True]), torch.tensor([1, 2, 0])],
             [tensor(1, I64)], [None, tensor(1, I64), i], [tensor([1, 0, 1, 0], U8)], [torch.zeros(4, dtype=BOOL)], [mask, i[:1]]]
    for what in lists:
        for y in (x, x.transpose(0, 1).contiguous().transpose(0, 1)) + ((x.to(C64), x.to(I8), x.to(BF16)) if full else ()):
            yield c("index.Tensor", y, what)
            yield c("_unsafe_index.Tensor", y, what)
        try:
            picked = x[tuple(slice(None) if w is None else w.bool() if w.dtype == U8 else w.long() if w.dtype == I32 else w for w in what)]
        except IndexError:
            continue
        for accumulate in (False, True):
            unique = what not in () and all(w is None or w.dtype == BOOL or w.numel() == w.unique().numel() for w in what)
            if accumulate or unique:
                yield c("index_put", x, what, make(*picked.shape), accumulate)
                yield c("index_put_", x.clone(), what, make(), accumulate)
                yield c("_unsafe_index_put", x, what, make(), accumulate)
    yield c("index.Tensor", x, [tensor([4], I64)], opt=ERROR)
    yield c("index.Tensor", x, [tensor([-5], I64)], opt=ERROR)
    yield c("index.Tensor", x, [i, i, i, i], opt=ERROR)
    yield c("index.Tensor", x, [tensor([0, 1], I64), i], opt=ERROR)
    yield c("index.Tensor", x, [torch.rand(3) < 0.5], opt=ERROR)
    yield c("index_put_", x, [i], make(3, dtype=F64), opt=ERROR)
    yield c("index_put_", x, [i], make(7), opt=ERROR)
    yield c("index_put_", x.clone().transpose(0, 2), [i], make(5, 1))
    yield c("index_put", make(3), [tensor([0, 0, 2], I64)], make(3), True)
    for dtype in (I64, I32):
        for src in (F32, F16, BF16, I64, BOOL, C64):
            k = tensor([2, 0, 0], dtype)
            yield c("index_select", make(3, 4, dtype=src), 0, k)
            yield c("index_add", make(3, 4, dtype=src), 0, k, make(3, 4, dtype=src))
            yield c("index_copy", make(3, 4, dtype=src), 1, tensor([3, 1], I64), make(3, 2, dtype=src))
            yield c("index_fill.int_Scalar", make(3, 4, dtype=src), 1, k.long(), 1)
    yield c("index_select", make(3), 0, tensor([3], I64), opt=ERROR)
    yield c("index_select", make(3), 0, tensor([-1], I64), opt=ERROR)
    yield c("index_select", make(), 0, tensor([0], I64))
    yield c("index_select", make(3, 4), 1, tensor([], I64))
    yield c("index_add", make(3), 0, tensor([5], I64), make(1), opt=ERROR)
    yield c("index_add", make(3, 2), 0, tensor([0, 1, 0], I64), make(3, 2), alpha=2)
    for reduce_ in ("sum", "prod", "mean", "amax", "amin"):
        for self_ in (True, False):
            for dtype in (F32, BF16, I64, I32):
                yield c("scatter_reduce.two", make(3, 4, dtype=dtype), 1, tensor([[0, 0, 3], [1, 1, 1]], I64), make(2, 3, dtype=dtype), reduce_, include_self=self_)
        if reduce_ != "sum":
            for self_ in (True, False):
                yield c("index_reduce", make(3, 4), 0, tensor([0, 0, 2], I64), make(3, 4), reduce_, include_self=self_)
    yield c("scatter_reduce.two", tensor([1.0, NAN, 2.0]), 0, tensor([0, 0, 2], I64), tensor([NAN, 1.0, 5.0]), "amax")
    g = tensor([[0, 1, 2], [2, 1, 0]], I64)
    yield c("gather", make(3, 4), 0, g)
    yield c("gather", make(2, 5), 1, g)
    yield c("gather", make(3), 0, tensor([3], I64), opt=ERROR)
    yield c("gather", make(3), 0, tensor([-1], I64), opt=ERROR)
    yield c("gather", make(3), 0, tensor([0], I32), opt={})
    yield c("gather", make(), 0, tensor(0, I64))
    yield c("scatter.src", make(3, 4), 0, g, make(2, 3))
    yield c("scatter.value", make(3, 4), 1, g, 2.5)
    yield c("scatter.value", make(3, 4, dtype=I64), 1, g, 2.5)
    yield c("scatter_add", make(3, 4), 1, tensor([[0, 0, 0]], I64), make(1, 3))
    yield c("scatter.src", make(3, 4), 0, tensor([[7]], I64), make(1, 1), opt=ERROR)
    yield c("scatter.src", make(3, 4), 0, g, make(2, 2), opt=ERROR)
    for dtype in (F32, I64, C64, BOOL):
        yield c("take", make(3, 4, dtype=dtype), tensor([[0, 11], [-1, 5]], I64))
        yield c("masked_fill.Scalar", make(3, 4, dtype=dtype), torch.rand(3, 1) < 0.5, 1)
        yield c("masked_fill.Tensor", make(3, 4, dtype=dtype), torch.rand(4) < 0.5, tensor(1, dtype))
        yield c("masked_select", make(3, 4, dtype=dtype), torch.rand(4) < 0.5)
        yield c("masked_scatter", make(3, 4, dtype=dtype), torch.rand(4) < 0.5, make(12, dtype=dtype))
        yield c("nonzero", make(3, 4, dtype=dtype))
        yield c("argwhere", make(3, 4, dtype=dtype).t())
    yield c("take", make(3), tensor([3], I64), opt=ERROR)
    yield c("masked_fill.Scalar", make(3, dtype=I64), torch.ones(3, dtype=BOOL), 2.5)
    yield c("masked_fill_.Scalar", make(3, dtype=I64), torch.ones(3, dtype=BOOL), INF, opt={})
    yield c("masked_fill.Scalar", make(3), torch.ones(3, dtype=U8), 1)
    yield c("masked_fill.Tensor", make(3), torch.ones(3, dtype=BOOL), make(1), opt=ERROR)
    yield c("masked_scatter", make(3), torch.ones(3, dtype=BOOL), make(2), opt=ERROR)
    yield c("nonzero", make())
    yield c("nonzero", torch.zeros(()))
    yield c("nonzero", torch.zeros(2, 0, 3))
    yield c("nonzero", tensor([NAN, 0.0, -0.0, INF]))
    for size in (0, 2, 20):
        yield c("nonzero_static", tensor([[1, 0], [2, 3]], I64), size=size)
        yield c("nonzero_static", tensor([[1, 0], [2, 3]], I64), size=size, fill_value=7)
    w = make(6, 3)
    for idx in (tensor([1, 5, 0], I64), tensor([[1], [2]], I32), torch.zeros(0, dtype=I64), tensor(3, I64)):
        yield c("embedding", w, idx)
    yield c("embedding", w, tensor([1, 5], I64), 5)
    yield c("embedding", w, tensor([6], I64), opt=ERROR)
    yield c("embedding", w, tensor([-1], I64), opt=ERROR)
    yield c("embedding", w, make(2), opt=ERROR)
    yield c("embedding", w.to(BF16), tensor([1, 0], I64))
    yield c("embedding_dense_backward", make(3, 4), tensor([0, 2, 2], I64), 5, -1, False)
    yield c("embedding_dense_backward", make(3, 4), tensor([0, 2, 2], I64), 5, 0, True)
    yield c("embedding_dense_backward.out", make(3, 4), tensor([0, 2, 2], I64), 5, -1, False, out=torch.zeros(5, 4))
    for norm in (1.0, 2.0):
        yield c("embedding_renorm", w, tensor([1, 3, 1], I64), 1.0, norm)
        yield c("embedding_renorm_", w, tensor([1, 3, 1], I64), 0.5, norm)
    yield c("embedding_renorm.out", w, tensor([1, 3], I64), 1.0, 2.0, out=torch.zeros(6, 3))
    for mode, offsets, padding in itertools.product((0, 1, 2), ([0, 2], [0, 0, 3], [0, 5]), (-1, 1)):
        idx, off = tensor([1, 4, 1, 0, 5], I64), tensor(offsets, I64)
        per = make(5) if mode == 0 else None
        yield c("embedding_bag.padding_idx", w, idx, off, False, mode, False, None, False, padding if padding > 0 else None)
        yield c("_embedding_bag_forward_only", w, idx, off, False, mode, False, per, False, padding)
        yield c("_embedding_bag", w, idx, tensor([*offsets, 5], I64), False, mode, False, per, True, padding)
        yield c("embedding_bag", w, idx, off, False, mode, False, per, False)
    for n in (-1, 7):
        yield c("one_hot", tensor([[0, 2], [6, 1]], I64), n)
    yield c("one_hot", tensor([0, 2], I64), 2, opt=ERROR)
    yield c("one_hot", tensor([-1], I64), opt=ERROR)
    yield c("one_hot", tensor([], I64), 3)
    for dtype in (F32, I64, U8):
        a, b = make(3, 4, dtype=dtype), tensor([1, 2, 0], dtype)
        yield c("isin.Tensor_Tensor", a, b)
        yield c("isin.Tensor_Tensor", a, b, invert=True)
        yield c("isin.Tensor_Scalar", a, 1)
        yield c("isin.Scalar_Tensor", 2, b)
        yield c("isin.Tensor_Scalar_out", a, 1, out=torch.zeros(3, 4, dtype=BOOL))
        yield c("isin.Scalar_Tensor_out", 2, b, out=torch.zeros((), dtype=BOOL))
    for args in (([4], 0, 2, 1), ([4], 0, 2, 2), ([5], -1, 3, 2)):
        n = (args[0][0] - args[2]) // args[3] + 1
        yield c("unfold_backward", make(n, args[2]), *args)
        yield c("unfold_backward.out", make(n, args[2]), *args, out=torch.zeros(0))
    for args in ((0, 1, 3, 1), (1, 0, 5, 2), (0, -1, None, 1), (1, 3, 3, 1)):
        part = torch.ops.aten.slice.Tensor(make(4, 5), *args)
        yield c("slice_scatter", make(4, 5), make(*part.shape), *args)
    yield c("slice_scatter", make(4, 5), make(2, 5), 0, 0, 3, opt=ERROR)
    yield c("select_scatter", make(4, 5), make(4), 1, -1)
    yield c("select_scatter", make(4, 5), make(5), 1, 0, opt=ERROR)
    yield c("diagonal_scatter", make(4, 5), make(3), -1)
    for values in ((make(2), False), (make(), True)):
        yield c("_unsafe_masked_index", make(4), tensor([True, False], BOOL), [tensor([1, 9], I64)], 0.5, opt={})
        yield c("put", make(2, 3), tensor([1, -1], I64), make(2), values[1])


# ---- Creation and copies ----

def create(full):
    for dtype in (None, F32, F16, BF16, I64, I32, BOOL, C64, F64):
        kw = {"dtype": dtype} if dtype else {}
        for op in ("zeros", "ones", "empty.memory_format"):
            for s in ([2, 3], [], [0, 4]):
                yield c(op, s, **kw)
        for value in (1, 2.5, True, 1j, NAN, -0.0):
            if not (dtype and isinstance(value, complex)) or dtype == C64:
                yield c("full", [2, 2], value, **kw, opt={"errors": False})
                yield c("full_like", make(2, 2, dtype=I64 if dtype is None else dtype), 1, **kw)
        for args in ((5,), (2.5,), (0,)):
            yield c("arange", *args, **kw, opt={"errors": False})
        for args in ((1, 7), (1.0, 3.5), (3, 3), (-2, 2)):
            yield c("arange.start", *args, **kw, opt={"errors": False})
        for args in ((1, 7, 2), (5, 0, -2), (0.0, 1.0, 0.3), (1, 2, 0.5)):
            if dtype not in (I32, I64) or int(args[-1]):      # PyTorch divides by a step that its dtype makes 0
                yield c("arange.start_step", *args, **kw, opt={"errors": False})
        for args in ((0, 1, 5), (3, -3, 7), (2, 2, 3), (1, 9, 1), (0, 1, 0), (-1, 1, 33)):
            if dtype is not BOOL:
                yield c("linspace", *args, **kw)
                if dtype not in (I32, I64):
                    yield c("logspace", *args[:2], args[2], 2.0, **kw)
        for args in ((3,), (0,)):
            yield c("eye", *args, **kw)
        yield c("eye.m", 2, 4, **kw)
        yield c("scalar_tensor", 3, **kw)
        for op in ("tril_indices", "triu_indices"):
            if dtype in (None, I64, I32):
                for args in ((3, 4), (3, 3, 1), (2, 5, -1), (0, 3), (4, 2, 3), (4, 2, -3)):
                    yield c(op, *args, **kw)
        if dtype in (None, F32, F64, F16, BF16):
            for n in (0, 1, 2, 7, 8):
                for op in ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"):
                    yield c(op, n, **kw)
                    if n in (1, 7):
                        yield c(op + ".periodic", n, False, **kw)
                if n in (1, 7):
                    yield c("hamming_window.periodic_alpha", n, True, 0.6, **kw)
                    yield c("hamming_window.periodic_alpha_beta", n, False, 0.6, 0.3, **kw)
                    yield c("kaiser_window.beta", n, False, 5.0, **kw)
            yield c("range.step", 1.5, -9, -2, **kw)
            yield c("logspace.Tensor_Tensor", torch.tensor(0.0), torch.tensor(2.0), 5, **kw)
            yield c("logspace.Tensor_Scalar", torch.tensor(0.0), 2, 5, **kw)
            yield c("logspace.Scalar_Tensor", 0, torch.tensor(2.0), 5, 2.0, **kw)
    for op in ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"):
        yield c(op + ".out", 6, out=torch.zeros(6))
        yield c(op, -1, opt=ERROR)
    yield c("hann_window.periodic_out", 6, False, out=torch.zeros(6))
    yield c("range.out", 1, 9, 2, out=torch.zeros(0, dtype=I32))
    yield c("linspace.out", 0, 9, 6, out=torch.zeros(2, 3))      # so many elements: it keeps its shape
    for op, args in (("arange.start_step", (0, 5, 0)), ("arange.start_step", (0, 5, -1)), ("arange.start", (5, 0)), ("zeros", ([-1],)), ("linspace", (0, 1, -1)),
                     ("eye", (-1,)), ("full", ([-2], 1)), ("arange", (NAN,)), ("arange", (INF,))):
        yield c(op, *args, opt=ERROR)
    for fmt in (torch.contiguous_format, torch.channels_last, torch.preserve_format):
        for y in (make(2, 3, 4, 5), make(2, 3, 4, 5).to(memory_format=torch.channels_last), make(2, 3, 4, 5).permute(3, 1, 0, 2), make(2, 1, 4, 5)[:, :, ::2]):
            for op in ("empty_like", "zeros_like", "ones_like"):
                yield c(op, y, memory_format=fmt)
            yield c("full_like", y, 2, memory_format=fmt)
    yield c("empty.memory_format", [2, 3, 4, 5], memory_format=torch.channels_last)
    yield c("empty_strided", [2, 3], [1, 2])
    yield c("empty_permuted", [2, 3, 4], [2, 0, 1])
    yield c("new_empty", make(3), [2, 2], dtype=I32)
    yield c("new_empty_strided", make(3), [2, 2], [1, 2])
    yield c("new_full", make(3, dtype=I32), [2], 7)
    yield c("new_zeros", make(3, dtype=BF16), [2, 0])
    yield c("new_ones", make(3, dtype=BF16), [2])
    for dtype in ALL:
        x = make(4, 5, dtype=dtype)
        yield c("fill.Scalar", x, 1)
        yield c("fill.Tensor", x, tensor(1, F32 if dtype != C64 else C64))
        yield c("fill_.Scalar", x[:, ::2], 0)
        yield c("fill_.Tensor", x.t(), tensor(1, I64))
        yield c("zero_", x[1:3])
        yield c("zero", x)
        for k in (0, 1, -1, 9, -9):
            yield c("tril", x, k)
            yield c("triu", x.t(), k)
        yield c("diag", make(3, dtype=dtype), 1)
        yield c("diag", x, -1)
        yield c("diag_embed", make(2, 3, dtype=dtype), 1)
        yield c("diag_embed", make(2, 3, dtype=dtype), 0, 0, 2)
    yield c("zero.out", make(3), out=torch.zeros(3))
    yield c("fill.Tensor_out", make(3), tensor(2.0), out=torch.zeros(3))
    yield c("fill_.Tensor", make(3), make(2), opt=ERROR)
    yield c("fill_.Scalar", make(3, dtype=I64), 2.7)
    yield c("fill_.Scalar", make(3, dtype=U8), 300, opt={"errors": False})
    for n in (None, 2, 4, 0):
        yield c("vander", make(3), n)
        yield c("vander", tensor([1, 2, 3], I64), n, True)
    for dtype in (F32, F64):
        yield c("complex", make(3, dtype=dtype), make(3, dtype=dtype))
        yield c("polar", make(3, dtype=dtype, low=0), make(3, dtype=dtype))
    yield c("complex", make(3), make(3, dtype=F64), opt=ERROR)
    for n, start, step in ((5, 0, 1), (3, 2, -2), (0, 0, 1)):
        yield c("prims::iota", n, start=start, step=step, dtype=I64, device="cpu", requires_grad=False,
                opt={"oracle": lambda n, start, step, **kw: [torch.arange(n) * step + start]})
    yield c("scalar_tensor", 2.5, dtype=I64)


def copy(full):
    x = make(2, 3, 4)
    for a, b in itertools.product(ALL, ALL):
        if a in COMPLEX and b not in COMPLEX and not full:
            continue
        y = tensor([0, 1, 2, 100, 3], a) if a != BOOL else tensor([True, False], BOOL)
        if a in FLOATS and b in INTS:
            y = tensor([0.0, -0.0, 1.9, -1.9 if b != U8 else 2.2, 100.5], a)
        elif a in INTS and a != U8 and b not in (U8,):
            y = tensor([0, -1, 127, -128, 5], a)
        yield c("to.dtype", y, b)
        yield c("_to_copy", y, dtype=b)
        if full or a == F32:
            yield c("copy_", torch.zeros(len(y), dtype=b), y)
            yield c("type_as", y, torch.zeros(1, dtype=b))
            yield c("to.other", y, torch.zeros(1, dtype=b))
            yield c("to.dtype_layout", y, dtype=b)
            yield c("prims::convert_element_type", y, b, opt={"oracle": lambda t, d: [t.to(d)]})
    for name, dtype in (("float", F32), ("half", F16), ("bfloat16", BF16), ("int", I32), ("long", I64)):
        for a in (F32, F64, I32, I64, BF16, F16, BOOL):
            yield c("nbx::" + name, make(2, 3, dtype=a), opt={"oracle": lambda t, d=dtype: [t.to(d)]})
    wide = tensor([65504.0, 65520.0, 65536.0, 1e-8, 6e-8, 5.9604645e-8, 2.9802322e-8, 1e-40, -1e-7, 3.0e38, NAN, INF, 1.00048828125, 1.0009765625, 0.33333334, 2049.0])
    for dtype in (F16, BF16, torch.float8_e4m3fn, torch.float8_e5m2):
        yield c("to.dtype", wide, dtype)
        yield c("to.dtype", wide.double() * 1.0000001, dtype)
        yield c("to.dtype", wide.to(dtype), F32)
        yield c("to.dtype", torch.arange(-300, 300).to(I32), dtype)
    for y in (x, x.transpose(0, 1), x[:, 1:, ::2], make(1, 3, 4).expand(2, 3, 4), make(), torch.zeros(0, 2)):
        for op in ("clone", "contiguous"):
            for fmt in (None, torch.contiguous_format, torch.preserve_format):
                if op == "contiguous" and fmt is not torch.contiguous_format:
                    yield c(op, y) if fmt is None else c("clone", y, memory_format=fmt)
                else:
                    yield c(op, y, **({"memory_format": fmt} if fmt else {}))
        yield c("copy_", torch.zeros(y.shape), y)
        yield c("copy", torch.zeros(y.shape), y)
        yield c("to.dtype", y, F32)
        yield c("to.dtype", y, F32, False, True)
        for op in ("alias_copy", "detach_copy", "lift_fresh_copy"):
            yield c(op, y)
        yield c("lift_fresh", y)
    z = make(2, 3, 4, 5)
    for fmt in (torch.channels_last, torch.contiguous_format, torch.preserve_format):
        yield c("clone", z, memory_format=fmt)
        yield c("clone", z.to(memory_format=torch.channels_last), memory_format=fmt)
        yield c("to.dtype", z, F16, memory_format=fmt)
        yield c("_to_copy", z.to(memory_format=torch.channels_last), dtype=F64, memory_format=fmt)
        if fmt is not torch.preserve_format:
            yield c("contiguous", z, memory_format=fmt)
            yield c("contiguous", z.to(memory_format=torch.channels_last), memory_format=fmt)
    yield c("copy_", torch.zeros(4, 5)[:, ::2], make(3))
    yield c("copy_", torch.zeros(4, 5).t(), make(5, 4))
    yield c("copy_", torch.zeros(3), make(2, 3), opt=ERROR)
    y = make(8)
    yield c("copy_", y[1:], y[:-1], opt={"errors": False})
    yield c("copy_", make(2, 3)[0:1].expand(4, 3), make(4, 3), opt=ERROR)
    yield c("to.device", x, "cpu", F64)
    yield c("to.device", x, "cpu", F32)
    yield c("prims::device_put", x, "cpu", opt={"oracle": lambda t, d: [t]})
    for op in ("pin_memory", "_pin_memory"):
        yield c(op, x, opt={"oracle": lambda t: [t.clone()]})
    yield c("prims::rev", x, [0, 2], opt={"oracle": lambda t, d: [t.flip(d)]})
    for tensors in ([make(2, 3), make(1, 3)], [make(2, 3), torch.zeros(0)], [make(2, 3, dtype=I64), make(2, 3)], [make(2, 3, dtype=U8), make(1, 3, dtype=I8)],
                    [torch.zeros(0, 3), make(2, 3)], [make(3, 2).t(), make(2, 3)], [make(2, 3, dtype=C64), make(2, 3)], [make(2, 3)],
                    [make(2, 3, dtype=BOOL), make(2, 3, dtype=BF16), make(2, 3, dtype=F16)]):
        for op in ("cat", "concat"):
            yield c(op, tensors, 0)
    for dim in (1, -1, 2):
        yield c("cat", [make(2, 3, 4), make(2, 3, 4)], dim)
    yield c("cat", [z.to(memory_format=torch.channels_last), z.to(memory_format=torch.channels_last)], 1)
    yield c("cat", [make(2, 3), make(2, 4)], 0, opt=ERROR)
    yield c("cat", [make(2, 3), make(3)], 0, opt=ERROR)
    yield c("cat", [], 0, opt=ERROR)
    yield c("cat", [make()], 0, opt=ERROR)
    yield c("cat.out", [make(2, 3), make(1, 3)], 0, out=torch.zeros(3, 3, dtype=F64))
    yield c("concat.out", [make(2, 3), make(1, 3)], 0, out=torch.zeros(3, 3))
    for dim in (0, 1, -1, 2):
        yield c("stack", [make(2, 3), make(2, 3)], dim)
    yield c("stack", [make(2, 3), make(3, 2)], 0, opt=ERROR)
    for dim, chunks in ((0, 2), (0, 3), (1, 2), (-1, 4)):
        yield c("_chunk_cat", [make(3, 5, 2), make(3, 5, 3)] if dim else [make(3, 2), make(5, 4), make(1)], dim, chunks)
    yield c("_chunk_cat", [make(3, 2), make(2, 2, dtype=I64)], 0, 2, opt=ERROR)
    yield c("stack", [make(2, dtype=I64), make(2)], 0)
    for r in ([2], [2, 1], [1, 2, 3, 2], [0, 2], []):
        yield c("repeat", make(3, 2), r) if len(r) >= 2 else c("repeat", make(3, 2), r, opt=ERROR)
        yield c("tile", make(3, 2), r)
    yield c("repeat", make(), [2, 3])
    for r in (tensor([1, 0, 3], I64), tensor([2], I64), tensor([0, 0, 0], I32)):
        yield c("repeat_interleave.Tensor", r)
        yield c("repeat_interleave.self_Tensor", make(3, 2), r, 0)
    yield c("repeat_interleave.self_Tensor", make(3), tensor([1, -1, 0], I64), 0, opt=ERROR)
    yield c("repeat_interleave.self_int", make(3, 2), 2, 1)
    yield c("repeat_interleave.self_int", make(3, 2), 2)
    yield c("repeat_interleave.self_Tensor", make(3, 2), tensor([1, 2, 0], I64), 0, output_size=3)
    for dims in ([0], [0, 2], [-1], []):
        yield c("flip", x, dims)
    yield c("flip", x, [0, 0], opt=ERROR)
    for args in (([1],), ([2, -1], [0, 1]), ([7], [2]), ([0], [0])):
        yield c("roll", x, *args)
    yield c("roll", x, [1, 2], [0], opt=ERROR)
    for k in (0, 1, 2, 3, -1, 5):
        yield c("rot90", x, k, [0, 2])
    yield c("rot90", x, 1, [0, 0], opt=ERROR)
    for r in (2, 3):
        for dtype in (F32, I64, BF16):
            yield c("pixel_shuffle", make(2, r * r * 2, 3, 2, dtype=dtype), r)
            yield c("pixel_unshuffle", make(2, 2, 2 * r, 3 * r, dtype=dtype), r)
    yield c("pixel_shuffle", make(2, 3, 2, 2), 2, opt=ERROR)
    for op in ("channel_shuffle", "native_channel_shuffle"):
        yield c(op, make(2, 6, 2, 2), 3)
        yield c(op, make(2, 6, 2, 2), 2)
    for op, args in (("select_copy.int", (1, -1)), ("slice_copy.Tensor", (1, 0, 2, 1)), ("squeeze_copy.dims", ([0, 1],)), ("split_copy.Tensor", (2, 2)),
                     ("view_copy.dtype", (I32,)), ("unbind_copy.int", (1,)), ("expand_copy", ([2, 2, 3, 4],)), ("permute_copy", ([2, 0, 1],)),
                     ("unfold_copy", (2, 2, 1)), ("diagonal_copy", (0, 1, 2))):
        yield c(op, x, *args)
    yield c("select_copy.int_out", x, 1, 0, out=torch.zeros(2, 4))
    yield c("slice_copy.Tensor_out", x, 1, 0, 2, out=torch.zeros(2, 2, 4))
    yield c("squeeze_copy.dims_out", make(1, 3), [0], out=torch.zeros(3))
    yield c("split_copy.Tensor_out", x, 2, 2, out=[torch.zeros(2, 3, 2), torch.zeros(2, 3, 2)])
    for dtype in COMPLEX:
        yield c("view_as_real_copy", make(2, 3, dtype=dtype))
        yield c("_conj_physical", make(2, 3, dtype=dtype))
        yield c("_conj_physical.out", make(2, 3, dtype=dtype), out=torch.zeros(2, 3, dtype=dtype))
    yield c("view_as_complex_copy", make(3, 2))
    yield c("view_as_complex_copy.out", make(3, 2), out=torch.zeros(3, dtype=C64))
    yield c("view_as_real_copy.out", make(3, dtype=C64), out=torch.zeros(3, 2))
    for op in ("detach_copy", "lift_fresh_copy"):
        yield c(op + ".out", x, out=torch.zeros(2, 3, 4))
    for s in ([2, 2], [6], [0], [1, 2, 3], [7, 2]):
        fits = math.prod(s) <= 6
        for op in ("resize", "resize_"):
            yield c(op, make(2, 3), s, opt={} if not fits else {"check": "values"})
    yield c("resize_", make(2, 3, 4, 5), [1, 2, 3, 4], memory_format=torch.channels_last)
    yield c("resize_as", make(2, 3), make(3, 2))
    yield c("resize_as_", make(2, 3), make(3, 2))
    src = make(3, 4)
    for op in ("set", "set_"):
        yield c(op + ".source_Tensor", make(2), src.t())
        own = torch.Tensor.detach if op == "set" else lambda t: t
        yield c(op + ".source_Storage", make(2), src, opt={"oracle": lambda t, s, own=own: [own(t).set_(s.untyped_storage())]})
        yield c(op + ".source_Storage_storage_offset", make(2), src, 2, [2, 3], [1, 2],
                opt={"oracle": lambda t, s, *a, own=own: [own(t).set_(s.untyped_storage(), *a)]})
        yield c(op, make(2))
    yield c("set_.source_Tensor_storage_offset", make(2), src, 1, [2, 2], [4, 1])


FAMILY = {f.__name__: f for f in (shape, index, create, copy)}
