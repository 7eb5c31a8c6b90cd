"""Cases written by hand, by family: edges, errors, type promotion, memory shared between arguments, overloads that no sample reaches.

`calls(family, full)` gives (overload, args, kwargs, options of record). This file has the small families; handmade_pointwise.py, handmade_shapes.py,
handmade_networks.py, handmade_random.py and handmade_rare.py the others.
"""
import itertools

import torch

import handmade_networks
import handmade_pointwise
import handmade_random
import handmade_rare
import handmade_shapes
from families import KNOWN
from handmade_common import ALL, BF16, BOOL, C64, C128, ERROR, F32, F64, FLOATS, I64, INF, INTS, NAN, U8, c, make, tensor
from recorder import ANY


# ---- Sorting, padding, linear algebra, the rest ----

def sort(full):
    x = tensor([[3, 1, 3, 2], [NAN, 2, -INF, NAN], [0.0, -0.0, INF, 1]])
    for dim in (0, 1, -1):
        for down in (False, True):
            yield c("sort", x, dim, down)
            yield c("sort.stable", x, stable=True, dim=dim, descending=down)
            yield c("argsort", x, dim, down)
            yield c("argsort.stable", x, stable=True, dim=dim, descending=down)
            for k in (0, 1, 2, 3):
                yield c("topk", x, k, dim, down, True)
                yield c("topk", x, k, dim, down, False)
    for dtype in (*FLOATS, *INTS, BOOL):
        y = make(5, 7, dtype=dtype)
        yield c("sort.stable", y, stable=True, dim=0)
        yield c("sort", y, 1, True)
        yield c("msort", y)
        yield c("topk", y, 3)
        yield c("_unique2", y, True, True, True)
        yield c("unique_consecutive", y.flatten(), True, True)
        yield c("unique_dim", y, 0, True, True, True)
    for n in (1, 2, 17, 100, 1000) if full else (100,):
        yield c("sort.stable", make(n), stable=True, dim=0)
        yield c("sort.stable", torch.randint(0, 5, (n,)), stable=True, dim=0, descending=True)
        yield c("topk", make(n), max(1, n // 3))
    for long in (make(2, 5001), torch.randint(-9, 9, (9001,)), make(4500).to(torch.bfloat16)):  # several tiles of a GPU's sort
        yield c("sort.stable", long, stable=True, dim=-1, descending=True)
        yield c("topk", long, 40)
        yield c("topk", long, 2500, -1, False)
        yield c("kthvalue", long, 2100)
        yield c("median.dim", long, -1)
    yield c("topk", make(3), 4, opt=ERROR)
    yield c("topk", make(3), -1, opt=ERROR)
    yield c("topk", make(), 1)
    yield c("sort", make())
    yield c("sort", torch.zeros(0, 3), 0)
    yield c("sort", make(3, dtype=C64), opt=ERROR)
    edges = tensor([1.0, 2.0, 2.0, 5.0])
    for right in (False, True):
        for as32 in (False, True):
            for v in (tensor([[0.0, 1.0], [2.0, NAN]]), tensor([INF, -INF, 5.0])):
                yield c("bucketize.Tensor", v, edges, out_int32=as32, right=right)
                yield c("searchsorted.Tensor", edges, v, out_int32=as32, right=right)
            for v in (2, 2.5, NAN):
                yield c("bucketize.Scalar", v, edges, out_int32=as32, right=right)
                yield c("searchsorted.Scalar", edges, v, out_int32=as32, right=right)
    yield c("bucketize.Scalar_out", 2.0, edges, out=torch.zeros((), dtype=I64))
    yield c("searchsorted.Scalar_out", edges, 2.0, out=torch.zeros((), dtype=I64))
    order = tensor([1, 2, 0, 3], I64)
    yield c("searchsorted.Tensor", tensor([2.0, 1.0, 2.0, 5.0]), tensor([2.0, 0.0]), side="right", sorter=order[[1, 0, 2, 3]])
    yield c("searchsorted.Tensor", make(2, 4).sort().values, make(2, 3))
    yield c("searchsorted.Tensor", make(2, 4), make(3, 3), opt=ERROR)
    for y in (tensor([3, 1, 3, 2, 1], I64), tensor([NAN, 1, NAN, 1]), torch.zeros(0), tensor([[1, 1], [1, 1], [2, 0]], I64)):
        yield c("_unique2", y, True, True, True)
        yield c("unique_consecutive", y, True, True)
        yield c("unique_dim", y, 0, True, True, True)


def pad(full):
    x = make(2, 3, 4, 5)
    for p in ([1, 2], [1, 2, 0, 3], [-1, 2], [-1, -2, 1, 1], [0, 0], [1, 1, 1, 1, 1, 1, 1, 1], [5, 0, 0, 0, -1, 0]):
        for dtype in (F32, I64, BF16, C64, BOOL):
            yield c("constant_pad_nd", x.to(dtype) if dtype != BOOL else x > 0, p, 1)
            yield c("pad", x.to(dtype) if dtype != BOOL else x > 0, p)
    yield c("constant_pad_nd", x.to(memory_format=torch.channels_last), [1, 1, 1, 1], 2.5)
    yield c("constant_pad_nd", x, [-6, 0], 0, opt=ERROR)
    yield c("constant_pad_nd", x, [1], 0, opt=ERROR)
    for mode in ("reflect", "replicate", "circular"):
        yield c("pad", x, [1, 2], mode, opt={"errors": False})
        yield c("pad", x, [1, 2, 2, 1], mode)
        yield c("pad", make(2, 3, 4), [2, 1], mode)
        yield c("pad", make(2, 3, 4, 5, 3), [1, 2, 1, 0, 2, 1], mode)
    yield c("reflection_pad1d", make(2, 4), [4, 0], opt=ERROR)
    yield c("reflection_pad2d", make(1, 4, 4), [1, -1, 2, 0])
    yield c("replication_pad1d", make(2, 4), [-1, 3])
    lengths = (3, 1, 2)
    for first, value, side in itertools.product((False, True), (0.0, -1.5), ("right", "left")):
        yield c("pad_sequence", [make(n, 2) for n in lengths], first, value, side)


def fft(full):
    for n in (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 30, 31, 60, 64, 97, 100) if full else (1, 2, 5, 8, 13, 31):
        for norm in (0, 1, 2):
            for dtype in (F32, F64):
                z = make(2, n, dtype=C64 if dtype == F32 else C128)
                for forward in (True, False):
                    yield c("_fft_c2c", z, [1], norm, forward)
                for one in (True, False):
                    yield c("_fft_r2c", make(2, n, dtype=dtype), [1], norm, one)
                yield c("_fft_c2r", make(2, n // 2 + 1, dtype=z.dtype), [1], norm, n)
        for op in ("fft_fft", "fft_rfft", "fft_ifft", "fft_ihfft"):
            yield c(op, make(n, 2), None, 0)
            yield c(op, make(5, 2), n, 0, "ortho")
        for op in ("fft_irfft", "fft_hfft"):
            yield c(op, make(2, n // 2 + 1, dtype=C64), n, 1, "forward")
    for op in ("_fft_c2c",):
        yield c(op, make(3, 4, 5, dtype=C64), [0, 2], 0, True)
        yield c(op, make(3, 4, 5, dtype=C64).transpose(0, 2), [1, 0], 2, False)
    yield c("_fft_r2c", make(3, 4, 6), [0, 2], 0, True)
    yield c("_fft_c2r", make(3, 4, 4, dtype=C64), [0, 2], 2, 6)
    for n, d in ((8, 1.0), (5, 0.5), (1, 2.0)):
        yield c("fft_fftfreq", n, d)
        yield c("fft_rfftfreq", n, d)
    yield c("fft_fftfreq.out", 6, out=torch.zeros(6))
    yield c("fft_rfftfreq.out", 6, out=torch.zeros(4))
    for op in ("fft_fftshift", "fft_ifftshift"):
        yield c(op, make(4, 5))
        yield c(op, make(4, 5), [1])
    yield c("fft_fft", make(3), 0, opt={"errors": False})
    yield c("fft_irfft", make(1, dtype=C64), opt={"errors": False})
    signal, window = make(2, 40), torch.hann_window(8)
    for center, normal, one, mode in itertools.product((True, False), (False, True), (True, False), ("reflect", "constant")):
        yield c("stft.center", signal, 8, 3, None, window, center, mode, normal, one, True)
    for win in (None, torch.hann_window(6)):
        yield c("stft.center", signal, 8, 4, 6 if win is not None else None, win, True, "reflect", False, True, True)
        yield c("stft", signal, 8, 4, 6 if win is not None else None, win, False, True, True)
    yield c("stft.center", signal.to(C64), 8, 2, None, None, False, "reflect", False, False, True)
    for center, normal in itertools.product((True, False), (False, True)):
        spectrum = torch.stft(signal, 8, 2, window=window, center=center, normalized=normal, return_complex=True)
        win = window if center else torch.ones(8)
        yield c("istft", spectrum, 8, 2, None, win, center, normal)
        yield c("istft", spectrum, 8, 2, None, win, center, normal, True, 30)
    yield c("prims::fft_r2c", make(2, 6), dim=[1], onesided=True, opt={"oracle": lambda t, dim, onesided: [torch.fft.rfft(t)]})


def linalg(full):
    for n in (1, 2, 3, 5, 8, 20) if full else (1, 3, 5):
        for dtype in (F32, F64, C64, C128):
            a = make(n, n, dtype=dtype) + 4 * torch.eye(n, dtype=dtype)
            h = a @ a.mH + torch.eye(n, dtype=dtype)
            b = make(n, 2, dtype=dtype)
            for op in ("linalg_inv", "linalg_det", "linalg_slogdet", "_linalg_det", "_linalg_slogdet", "linalg_inv_ex", "linalg_lu_factor", "linalg_lu_factor_ex",
                       "linalg_matrix_exp", "logdet"):
                yield c(op, a)
            for op in ("linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh"):
                yield c(op, h)
            yield c("linalg_cholesky", h, upper=True)
            yield c("linalg_solve", a, b)
            yield c("linalg_solve_ex", a, b)
            yield c("_linalg_solve_ex", a, b)
            yield c("linalg_solve_triangular", a.triu(), b, upper=True)
            yield c("linalg_solve_triangular", a.tril(), b.mT.contiguous(), upper=False, left=False)
            yield c("triangular_solve", b, a)
            yield c("cholesky_solve", b, torch.linalg.cholesky(h))
            yield c("cholesky_inverse", torch.linalg.cholesky(h))
            yield c("_linalg_svd", make(n, n + 1, dtype=dtype), False, True)
            yield c("linalg_svd", make(n + 1, n, dtype=dtype), False)
            yield c("linalg_svdvals", make(n + 1, n, dtype=dtype))
            yield c("_linalg_eigh", h, "L", True)
            for mode in ("reduced", "r"):
                yield c("linalg_qr", make(n + 1, n, dtype=dtype), mode)
            yield c("geqrf", make(n + 1, n, dtype=dtype))
            yield c("linalg_pinv", make(n + 1, n, dtype=dtype), 1e-5)
    yield c("linalg_inv", torch.zeros(2, 2), opt=ERROR)
    yield c("linalg_cholesky", -torch.eye(2), opt=ERROR)
    yield c("linalg_solve", torch.zeros(2, 2), make(2, 1), opt=ERROR)
    yield c("linalg_inv", make(2, 3), opt=ERROR)
    yield c("linalg_det", torch.zeros(0, 0))
    yield c("linalg_inv", torch.zeros(0, 0))
    yield c("linalg_lstsq", make(5, 3), make(5, 2), opt={"oracle": lambda a, b: [torch.linalg.lstsq(a, b).solution, ANY, ANY, ANY]})
    yield c("linalg_cross", make(2, 3), make(2, 3))
    yield c("linalg_cross", make(3, 4), make(3, 1), dim=0)
    yield c("cross", make(4, 3), make(4, 3))
    for n in (0, 1, 2, 3, 5, -1):
        yield c("linalg_matrix_power", make(3, 3), n)


def misc(full):
    x = make(2, 3, 4).transpose(0, 1)[:, :, 1:]
    for op in ("size", "stride", "dim", "numel", "storage_offset", "is_contiguous", "is_complex", "is_floating_point", "is_non_overlapping_and_dense", "sym_size",
               "sym_numel", "sym_storage_offset", "sym_is_contiguous", "is_pinned"):
        for y in (x, make(), torch.zeros(0, 3), make(2, dtype=C64), make(2, 3, 4, 5).to(memory_format=torch.channels_last), make(1, 3).expand(2, 3)):
            yield c(op, y)
    for op in ("size.int", "stride.int", "sym_size.int", "sym_stride.int"):
        for d in (0, -1):
            yield c(op, x, d)
        yield c(op, x, 3, opt=ERROR)
    z = make(2, 3, 4, 5)
    for fmt in (torch.contiguous_format, torch.channels_last):
        for y in (z, z.to(memory_format=torch.channels_last), make(2, 1, 3, 3)):
            yield c("is_contiguous.memory_format", y, fmt)
    for dtype in ALL:
        for op in ("item", "_local_scalar_dense"):
            yield c(op, tensor([2], dtype))
            yield c(op, tensor(1, dtype))
    for y in (NAN, INF, -0.0, 0.1):
        yield c("item", tensor([[y]]))
    yield c("item", make(2), opt=ERROR)
    yield c("item", torch.zeros(0), opt=ERROR)
    yield c("is_same_size", make(2, 3), make(2, 3))
    yield c("is_same_size", make(2, 3), make(3, 2))
    for a, b in itertools.product(ALL, ALL):
        if full or a in (F32, I64, U8):
            yield c("result_type.Tensor", make(2, dtype=a), make(2, dtype=b))
            yield c("result_type.Tensor", make(2, dtype=a), make(dtype=b))
    for value in (tensor([True], BOOL), tensor([2], I64), tensor(0.5)):
        yield c("_assert_async", value)
        yield c("_assert_async.msg", value, "message")
    yield c("_assert_async", tensor([0], I64), opt=ERROR)
    yield c("_assert_async.msg", tensor([0.0]), "message", opt=ERROR)
    yield c("_assert_scalar", True, "message")
    yield c("_assert_scalar", 0, "message", opt=ERROR)
    yield c("_assert_tensor_metadata", make(2, 3), [2, 3], [3, 1], F32)
    yield c("_assert_tensor_metadata", make(2, 3), dtype=F64, opt=ERROR)
    yield c("_assert_tensor_metadata", make(2, 3), [3, 3], opt=ERROR)
    for n, low, high in ((3, None, None), (3, 2, 5), (3, 3, None)):
        yield c("sym_constrain_range", n, min=low, max=high)
        yield c("sym_constrain_range_for_size", n, min=low, max=high)
    yield c("sym_constrain_range", 7, min=2, max=5, opt=ERROR)
    yield c("_functional_assert_scalar", 1, "message", torch.zeros(0), opt={})
    yield c("_functional_assert_async.msg", tensor([1], I64), "message", torch.zeros(0), opt={})
    yield c("_functional_sym_constrain_range", 3, 1, 5, torch.zeros(0), opt={})
    yield c("_functional_sym_constrain_range_for_size", 3, 1, 5, torch.zeros(0), opt={})
    yield c("_print", "")
    yield c("_make_dep_token", opt={"check": "shape"})
    yield c("dequantize.self", make(3, dtype=F32), opt={})


FAMILY = {f.__name__: f for f in (sort, pad, fft, linalg, misc)} | handmade_pointwise.FAMILY | handmade_shapes.FAMILY


def calls(family, full, offset=0):
    """The calls of a family, but those of overloads that the table of operators does not list."""
    torch.manual_seed(20 + offset)
    sources = [FAMILY[family](full)] if family in FAMILY else []
    for call in itertools.chain(*sources, handmade_networks.calls(family, full), handmade_random.calls(family, full), handmade_rare.calls(family, full)):
        if call[0] in KNOWN:
            yield call
