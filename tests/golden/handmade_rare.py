"""Hand-made cases: overloads that few programs hold, and what an out= or an in-place form takes of another dtype, shape or memory."""
import itertools

import torch

from handmade_common import ALL, BF16, BOOL, C64, C128, ERROR, F16, F32, F64, FLOATS, I8, I32, I64, INF, INTS, NAN, U8, c, make, tensor


def elementwise(full):
    x = make(3, 4, low=-4, high=4)
    for dtype in FLOATS:
        y, scale, zero = x.to(dtype), torch.tensor([0.3]), torch.tensor([2], dtype=I32)
        yield c("fake_quantize_per_tensor_affine.tensor_qparams", y, scale, zero, -5, 9)
        for enabled in (0, 1):
            yield c("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", y, scale, zero, torch.tensor([enabled]), -5, 9)
    for zero in (1.5, -0.4, 90.0):
        yield c("_fake_quantize_learnable_per_tensor_affine", x, torch.tensor([0.2]), torch.tensor([zero]), -10, 20)
    yield c("_fake_quantize_learnable_per_channel_affine", x, make(3, low=0.1, high=0.4), torch.tensor([0.4, 1.5, -3.0]), 0, -10, 20)
    for op, value in itertools.product(("fill_.Scalar", "zero_", "masked_fill_.Scalar", "threshold_"), (2.5,)):
        shared = make(1, 3).expand(4, 3)
        args = {"fill_.Scalar": [value], "zero_": [], "masked_fill_.Scalar": [torch.ones(4, 3, dtype=BOOL), value], "threshold_": [0.1, value]}[op]
        yield c(op, shared, *args)
    for a, b in itertools.product((F32, F16, C64, I64), (F32, F64, F16, I64, C64, C128, BOOL)):
        for op in ("abs", "neg", "angle", "conj_physical", "float_power.Tensor_Scalar", "lerp.Tensor", "pow.Tensor_Scalar", "exp", "sub.out"):
            more = {"float_power.Tensor_Scalar": [2], "pow.Tensor_Scalar": [2], "lerp.Tensor": [make(3, dtype=a), make(3, dtype=a)], "sub.out": [make(3)]}.get(op, [])
            name = op if op.endswith("out") else op + "_out" if "." in op else op + ".out"
            yield c(name, make(3, dtype=a, low=1), *more, out=torch.zeros(3, dtype=b))
    yield c("full_like.out", make(2), 1 + 2j, out=torch.zeros(2, dtype=BOOL))
    for base in (1.0, 2.0):
        yield c("pow.Scalar", base, make(3, 5).t())
    for dtype in (F16, BF16):
        yield c("mvlgamma", make(6, dtype=dtype, low=2.0, high=8.0), 3)
        yield c("special_ndtr", make(12, dtype=dtype, low=-5.0, high=5.0))
    yield c("special_erfcx", make(20, low=-9.0, high=9.0))
    for dtype in FLOATS:
        for exponent in (0.5, -0.5):
            yield c("pow.Tensor_Scalar", tensor([-INF, -0.0, -1.0, 2.5, INF, NAN], dtype), exponent)
    for number in (2, 2.5):
        yield c("prims::div", tensor([45, -7, 9], I64), number)


def reduce(full):
    for dtype in (F32, F64, C64, I64, F16):
        x = make(4, 6, dtype=dtype)
        yield c("cov", x)
        yield c("cov", x, correction=0)
        yield c("cov", x[0])
        yield c("corrcoef", x)
        yield c("corrcoef", x[1])
    x, often, much = make(3, 5), torch.tensor([1, 2, 0, 3, 1]), make(5, low=0.1, high=1)
    yield c("cov", x, fweights=often)
    yield c("cov", x, aweights=much)
    yield c("cov", x, correction=2, fweights=often, aweights=much)
    yield c("cov", x, fweights=-often, opt=ERROR)
    yield c("cov", x, aweights=often, opt=ERROR)
    yield c("cov", x, fweights=often * 0, opt=ERROR)
    yield c("cov", make(2, 3, 4), opt=ERROR)
    yield c("cov", make(3, dtype=BOOL), opt=ERROR)
    for dtype in (F32, I64, BOOL, BF16):
        yield c("_aminmax", make(3, 4, dtype=dtype))
        yield c("_aminmax.dim", make(3, 4, dtype=dtype), 1, True)
    for rule, dtype in itertools.product(("sum", "mean", "max", "min", "prod"), FLOATS):
        x = make(7, 3, dtype=dtype)
        x[2, 1] = NAN
        for initial in (None, 1.5):
            yield c("segment_reduce", x, rule, lengths=torch.tensor([2, 0, 4, 1]), initial=initial)
        yield c("segment_reduce", x, rule, offsets=torch.tensor([0, 3, 3, 7]))
        yield c("segment_reduce", make(2, 5, 2, dtype=dtype), rule, lengths=torch.tensor([[2, 3], [5, 0]], dtype=I32), axis=1)
    yield c("segment_reduce", make(4), "sum", lengths=torch.tensor([2, 3]), opt=ERROR)
    yield c("segment_reduce", make(4), "sum", opt=ERROR)
    for a, b, op in itertools.product((F32, F16, BF16, C64), (F32, F64, F16, I64, C128), ("std", "var")):
        for dims in (None, [1]):
            yield c(op + ".correction_out", make(3, 4, dtype=a), dims, correction=1, out=torch.zeros(() if dims is None else 3, dtype=b))
    for a, b in itertools.product((F32, F16, C64), (F64, I64, I8, BOOL)):
        yield c("mean.out", make(3, 4, dtype=a), [1], out=torch.zeros(3, dtype=b))
    yield c("linalg_vector_norm", torch.tensor([complex(INF, NAN), 1 + 1j]), 2)
    yield c("linalg_vector_norm", torch.tensor([complex(1, NAN), 1 + 1j]), 2)


def conv(full):
    for dtype in (F32, F64, BF16):
        x, w, b = make(2, 4, 7, 6, dtype=dtype), make(3, 4, 3, 2, dtype=dtype), make(3, dtype=dtype)
        for bias in (None, b):
            yield c("thnn_conv2d", x, w, [3, 2], bias, [2, 1], [1, 0])
            yield c("_slow_conv2d_forward", x, w, [3, 2], bias, [1, 1], [0, 1])
            yield c("slow_conv_dilated2d", x, w, [3, 2], bias, [1, 1], [1, 1], [2, 2])
            yield c("slow_conv_transpose2d", x, make(4, 3, 3, 2, dtype=dtype), [3, 2], bias, [2, 2], [1, 0], [1, 0], [1, 1])
        yield c("_convolution_mode", x, w, b, [1, 1], "same", [1, 1], 1)
        yield c("_convolution_mode", x, w, b, [2, 1], "valid", [1, 1], 1)
        x, w, b = make(1, 2, 4, 5, 4, dtype=dtype), make(3, 2, 2, 3, 2, dtype=dtype), make(3, dtype=dtype)
        yield c("slow_conv3d", x, w, [2, 3, 2], b, [1, 2, 1], [0, 1, 1])
        yield c("slow_conv_dilated3d", x, w, [2, 3, 2], b, [1, 1, 1], [1, 1, 1], [2, 1, 1])
        yield c("slow_conv_transpose3d", x, make(2, 3, 2, 3, 2, dtype=dtype), [2, 3, 2], b, [1, 2, 1], [0, 1, 0], [0, 1, 0], [1, 1, 1])
        yield c("conv_tbc", make(6, 2, 3, dtype=dtype), make(2, 3, 4, dtype=dtype), make(4, dtype=dtype), 1)
    yield c("thnn_conv2d", make(4, 5, 5), make(3, 4, 3, 3), [3, 3], opt=ERROR)
    yield c("_convolution_mode", make(1, 2, 5), make(3, 2, 3), None, [1], "other", [1], 1, opt=ERROR)


def copy(full):
    for name, source in itertools.product("Byte Char Short Int Long Half Float Double".split(), (F32, I64, U8, BOOL)):
        yield c("_cast_" + name, make(5, dtype=source))
    yield c("to_dense", make(2, 3).t())
    yield c("to_dense", make(2, 3), F64)


def loss(full):
    logs = torch.log_softmax(make(6, 2, 5), -1)
    for name, lengths in (("_ctc_loss", ([6, 6], [3, 3])), ("_ctc_loss.Tensor", (torch.tensor([6, 6]), torch.tensor([3, 3])))):
        yield c(name, logs, torch.tensor([[1, 2, 2], [3, 1, 4]]), *lengths, 0, False)
    yield c("_ctc_loss", logs.double(), torch.tensor([[1, 2, 3], [3, 1, 4]]), [6, 6], [3, 3], 0, True)
    for dtype, reduction in itertools.product((F16, BF16), (0, 1, 2)):       # every operator of the formula rounds
        x, y, p = make(6, dtype=dtype), make(6, dtype=dtype), make(6, dtype=dtype, low=0.05, high=0.95)
        for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"):
            yield c(op, x, y, reduction)
        yield c("kl_div", x, p, reduction)
        yield c("poisson_nll_loss", p + 1, p + 3, False, True, 1e-3, reduction)
        yield c("binary_cross_entropy", p, p.flip(0), None, reduction)
        yield c("binary_cross_entropy_with_logits", x, p, p, p, reduction)
        yield c("hinge_embedding_loss", x, tensor([1, -1, 1, 1, -1, -1], dtype), 0.7, reduction)
        yield c("margin_ranking_loss", x, y, tensor([1, -1, 1, 1, -1, -1], dtype), 0.3, reduction)
        rows = [make(3, 5, dtype=dtype) for _ in range(3)]
        yield c("triplet_margin_loss", *rows, 1.0, 2.0, 1e-6, False, reduction)
        yield c("cosine_embedding_loss", rows[0], rows[1], tensor([1, -1, 1], I64), 0.1, reduction)
        yield c("cross_entropy_loss", rows[0], tensor([1, 4, 0], I64), make(5, dtype=dtype, low=0.1, high=1), reduction, -100, 0.1)
    for dtype in INTS:
        yield c("hinge_embedding_loss", make(5, dtype=dtype), torch.tensor([1, -1, 1, 1, -1]), 2.5, 0)
    yield c("kl_div", tensor([1, 2], I64), tensor([1, 2], I64), opt=ERROR)
    yield c("binary_cross_entropy.out", make(2, 3, low=0.1, high=0.9), make(2, 3, low=0.1, high=0.9), None, 0, out=torch.zeros(2, 3, dtype=F64), opt=ERROR)


def softmax(full):
    x = make(2, 3, 4, 4)
    yield c("_masked_softmax", x, make(2, 3, 4, 4) > 0)
    yield c("_masked_softmax", x, make(4, 4) > 0, None, 0)
    yield c("_masked_softmax", x, make(2, 4) > 0, 3, 1)
    yield c("_masked_softmax", make(2, 3), torch.ones(2, 3, dtype=BOOL))
    yield c("_masked_softmax", make(2, 3, dtype=F64), tensor([[True, False, False], [False, True, False]], BOOL), 0)
    for dtype in (F16, BF16):
        for shape, dim in (((3, 5), 1), ((3, 40), 0), ((2, 5, 9), 1)):
            yield c("_log_softmax", make(*shape, dtype=dtype), dim, False)


def pad(full):
    x = make(1, 2, 4, 5)
    for p in ([-1, 1, -2, 1], [2, -2, 1, 0], [-1, -1, 2, 2]):
        yield c("pad", x, p, "circular")


def index(full):
    weight = make(6, 3)
    weight[2, 1] = NAN
    yield c("embedding_bag", weight, tensor([1, 2, 3, 2, 4], I64), tensor([0, 3], I64), False, 2)
    yield c("masked_scatter", make(3, 4).t(), (make(3, 4) > 0).t(), make(12))
    yield c("index_fill_.int_Scalar", make(1, 3).expand(4, 3), 0, tensor([1], I64), 2.0)


def misc(full):
    x, weight = make(20, 2, low=0, high=1), make(20, low=0, high=1)
    yield c("histogramdd.int_bins", x, 3)
    for density in (False, True):
        edges = [tensor([0.0, 0.25, 0.5, 1.0]), tensor([0.0, 0.3, 1.0])]
        yield c("histogramdd.TensorList_bins", x, edges, None, weight, density)
        yield c("_histogramdd_from_bin_tensors", x, edges, weight=weight, density=density)
    yield c("diff", make(5, 2), 0, 0, make(1, 5), opt=ERROR)
    yield c("gradient.scalarint", tensor([2 ** 63 - 1, 6, 9, 0], I64), spacing=1, dim=0, edge_order=2)
    yield c("trapezoid.dx", make(4, dtype=BOOL), opt=ERROR)
    yield c("cumulative_trapezoid.dx", make(4, dtype=BOOL), opt=ERROR)


FAMILY = {f.__name__: f for f in (elementwise, reduce, conv, copy, loss, softmax, pad, index, misc)}


def calls(family, full):
    if family in FAMILY:
        yield from FAMILY[family](full)
