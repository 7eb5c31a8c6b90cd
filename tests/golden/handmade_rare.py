"""Hand-made cases: overloads that few programs hold, and what an out= or an in-place form takes of another dtype, shape or memory."""
import itertools

import torch

from handmade_common import ALL, BF16, BOOL, C64, C128, ERROR, F16, F32, F64, FLOATS, I8, I32, I64, INF, INTS, NAN, U8, c, make, tensor
from recorder import Generator


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
    for dtype, value in ((I8, 200), (I32, -INF), (U8, 300)):
        yield c("addcmul", *(make(3, dtype=dtype) for _ in range(3)), value=value, opt=ERROR)
    yield c("pow.Tensor_Scalar", make(3, dtype=BF16), 1e39, opt=ERROR)
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
    for dtype in (BOOL, U8, I8, I32, I64, F16, BF16, F32, F64):
        x = tensor([0, 1, 2, 1], dtype) if dtype in (BOOL, U8) or dtype in (I8, I32, I64) else tensor([NAN, 1, -INF, 2.5], dtype)
        for op, number in itertools.product(("ge", "lt"), (1, 2.5, True, NAN)):
            yield c(op + ".Scalar", x, number)
        for op in ("ge_", "lt_"):
            yield c(op + ".Scalar", x, 1)
    yield c("ge.Scalar", make(3, dtype=C64), 1, opt=ERROR)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"):
        tensor_number, number_tensor = (".Tensor_Scalar", ".Scalar_Tensor") if "shift" in op else (".Scalar", ".Scalar_Tensor")
        for dtype in (BOOL, U8, I8, torch.int16, I32, I64):
            x = tensor([0, 1, 3, 5], dtype)
            for number in (1, 3):
                yield c(op + tensor_number, x, number)
                yield c(op + number_tensor, number, x)
            yield c(op + "_" + tensor_number, x, 1)
            yield c(op + tensor_number, x, True)
        yield c(op + tensor_number, make(3), 1, opt=ERROR)
        yield c(op + tensor_number, tensor([1, 2], I32), 1.5)
    x = make(9, low=-1, high=1)
    yield c("float_power_.Scalar", make(3, dtype=F64), 2)
    yield c("float_power_.Scalar", make(3), 2, opt=ERROR)
    shifted = [f"{kind}chebyshev_polynomial_{letter}" for kind in ("", "shifted_") for letter in "tuvw"]
    for name in shifted:
        yield c(f"special_{name}.n_scalar", x, 3)
        yield c(f"special_{name}.x_scalar", 0.5, tensor([0, 1, 2, 4], I64))
    for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"):
        for n in (0, 1, 2, 5):
            yield c("special_" + name + ".n_scalar", x, n)
        yield c("special_" + name + ".x_scalar", 0.5, tensor([0, 1, 2, 4], I64))


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


    for dtype, wider in ((F16, F32), (BF16, F32)):
        yield c("logsumexp.out", make(3, 4, dtype=dtype), [1], out=torch.zeros(3, dtype=wider))


def random(full):
    draws = (("cauchy", (2.0, 0.5)), ("geometric", (0.3,)), ("log_normal", ()), ("exponential", (2.0,)), ("random.from", (-5, 5)), ("random.to", (2,)),
             ("random.from", (0, None)))
    for seed, dtype, (name, args) in itertools.product((1, 7), (F32, F64, BF16, I64, U8), draws):
        if dtype in (I64, U8) and name not in ("geometric", "random.from", "random.to") or dtype == U8 and args == (-5, 5):
            continue
        yield c(name, torch.zeros(9, dtype=dtype), *args, generator=Generator(seed))
        base, dot, overload = name.partition(".")
        yield c(base + "_" + dot + overload, torch.zeros(9, dtype=dtype), *args, generator=Generator(seed))
    for seed in (1, 7):
        yield c("rand_like.generator", make(3, 4), generator=Generator(seed))
        yield c("randn_like.generator", make(3, 4), generator=Generator(seed))
        yield c("randint.generator", 7, [3, 5], generator=Generator(seed))
        yield c("randint.low_generator", -3, 7, [3, 5], generator=Generator(seed), dtype=F32)
        yield c("randint_like.generator", make(3, 4), 9, generator=Generator(seed))
        yield c("randint_like.low_generator_dtype", make(3, 4, dtype=I32), -2, 9, generator=Generator(seed))
        yield c("randperm.generator", 13, generator=Generator(seed))
        for dtype in (F32, F64):
            yield c("_standard_gamma", make(6, dtype=dtype, low=0.5, high=5.0), Generator(seed))
            yield c("binomial", torch.full((6,), 10.0, dtype=dtype), torch.full((6,), 0.3, dtype=dtype), Generator(seed))
            yield c("_sample_dirichlet", make(2, 3, dtype=dtype, low=0.5, high=3.0), Generator(seed))
    yield c("randint_like.Tensor", make(3, 4), tensor(7, I64), opt={"check": "shape", "ranges": [0, 6]})


def recurrent(full):
    for name in ("rnn_relu.data", "rnn_tanh.data"):
        sizes, one, two = tensor([3, 2, 1], I64), [make(4, 3), make(4, 4), make(4), make(4)], [make(4, 3), make(4, 4), make(4, 3), make(4, 4)]
        yield c(name, make(6, 3), sizes, make(1, 3, 4), one, True, 1, 0.0, False, False)
        yield c(name, make(6, 3), sizes, make(2, 3, 4), two, False, 1, 0.0, False, True)


def matmul(full):
    for eps in (-1e-3, NAN):
        yield c("cosine_similarity", make(3, 4), make(3, 4), 1, eps, opt=ERROR)
    yield c("_int_mm", make(17, 8, dtype=I8).t(), make(17, 4, dtype=I8))
    yield c("_int_mm", make(3, 4, dtype=U8), make(4, 5, dtype=I8), opt=ERROR)
    yield c("_int_mm.out", make(3, 4, dtype=I8), make(4, 5, dtype=I8), out=torch.zeros(3, 5, dtype=I32))
    yield c("_int_mm.out", make(3, 4, dtype=I8), make(4, 5, dtype=I8), out=torch.zeros(0, dtype=I32), opt=ERROR)
    for a, b in itertools.product((F32, F64, BF16, I64, C64), (F32, F16, I64)):
        if a != b:
            yield c("addmv", make(3, dtype=a), make(3, 4, dtype=b), make(4, dtype=b))
            yield c("addmv", make(1, dtype=a), make(3, 4, dtype=b), make(4, dtype=b), beta=2, alpha=3)
    yield c("addmv", make(3), make(3, 4, dtype=F64), make(4, dtype=F64), beta=0)
    yield c("addmv_", make(3), make(3, 4, dtype=F64), make(4, dtype=F64), opt=ERROR)
    yield c("addmv.out", make(3), make(3, 4, dtype=F64), make(4, dtype=F64), out=torch.zeros(3), opt=ERROR)
    yield c("addmv", make(3), torch.zeros(3, 0, dtype=I64), torch.zeros(0, dtype=I64), opt=ERROR)


def norm(full):
    x, one = make(2, 1, 4), make(low=0.5)
    for mode in (False, True):
        yield c("native_batch_norm", x, one, one, None if mode else make(1), None if mode else make(1, low=0.5), mode, 0.1, 1e-5)
    yield c("batch_norm", x, one, None, make(low=0.5), make(low=0.5), False, 0.1, 1e-5, False, opt=ERROR)


def scan(full):
    for shape, dim in itertools.product(((0,), (0, 3)), (2, -3)):
        for op in ("cummax", "cummin"):
            yield c(op, torch.zeros(shape), dim)
        yield c("cumsum", torch.zeros(shape), dim, opt=ERROR)


def linalg(full):
    yield c("linalg_lstsq", make(2, 5, 3), make(5, 2), opt=ERROR)


def conv(full):
    for dtype, other in ((F64, F32), (F32, F64), (BF16, F32)):
        x, w, b = make(1, 2, 5, 5, dtype=dtype), make(3, 2, 3, 3, dtype=dtype), make(3, dtype=other)
        yield c("convolution", x, w, b, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        yield c("convolution", x, w.transpose(0, 1).contiguous(), b, [1, 1], [0, 0], [1, 1], True, [0, 0], 1)
        yield c("conv2d.padding", x, w, b)
        yield c("conv_transpose2d.input", x, w.transpose(0, 1).contiguous(), b)
        yield c("conv_transpose3d.input", x.unsqueeze(2), w.transpose(0, 1).unsqueeze(2).contiguous(), b, opt=ERROR)
        yield c("conv2d", x, w, b, opt=ERROR)
        yield c("conv1d", x[0], w[:, :, 0], b, opt=ERROR)
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


    x, w = make(1, 2, 4, 4, 4), make(3, 2, 2, 2, 2)
    yield c("slow_conv3d_forward", x, w, [2, 2, 2], make(3), [1, 1, 1], [0, 1, 0])


def copy(full):
    for shape, dim in itertools.product(((0,), (0, 3)), (2, -3)):
        yield c("roll", torch.zeros(shape), [1], [dim])
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
    for op, reduction, (dtype, wider) in itertools.product(("mse_loss", "smooth_l1_loss", "huber_loss"), (1, 2), ((F16, F32), (BF16, F32), (F32, F64))):
        yield c(op + ".out", make(3, 4, dtype=dtype), make(3, 4, dtype=dtype), reduction, out=torch.zeros((), dtype=wider))
    for reduction in (0, 1):
        yield c("huber_loss", make(5), make(4, 1), reduction)
        yield c("soft_margin_loss.out", make(5), make(5), reduction, out=torch.zeros((), dtype=F64), opt=ERROR)
        yield c("nll_loss.out", make(3, 5), tensor([0, 4, 2], I64), None, reduction, out=torch.zeros(0, dtype=F64), opt=ERROR)
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


    grad, y = make(3, 5), torch.softmax(make(3, 5), 1)
    yield c("_softmax_backward_data", make(5, 3).t(), torch.softmax(make(5, 3), 0).t(), 1, F32)
    for op in ("_softmax_backward_data", "_log_softmax_backward_data"):
        yield c(op + ".out", grad, y, 1, F32, **{"grad_input" if op[1] == "s" else "out": torch.zeros(3, 5, dtype=F64)}, opt=ERROR)


def pad(full):
    x = make(1, 2, 4, 5)
    for p in ([-1, 1, -2, 1], [2, -2, 1, 0], [-1, -1, 2, 2]):
        yield c("pad", x, p, "circular")


def index(full):
    mask = make(3, 4) > 0
    for dtype, other in ((F32, I64), (BF16, F32), (I64, F32), (F16, F64), (BOOL, I64)):
        x, one = make(3, 4, dtype=dtype), torch.ones((), dtype=other) * 3
        for where in ([mask], [mask[:, 0]], [None, mask[0]]):
            yield c("index_put", x, where, one)
            yield c("index_put_", x, where, one.reshape(1, 1))
            yield c("_unsafe_index_put", x, where, one)
        yield c("index_put", x, [mask], one, True, opt=ERROR)
        yield c("index_put", x, [mask], one.expand(2), opt=ERROR)
        yield c("index_put", x, [tensor([0], I64)], one, opt=ERROR)
    weight = make(6, 3)
    weight[2, 1] = NAN
    yield c("embedding_bag", weight, tensor([1, 2, 3, 2, 4], I64), tensor([0, 3], I64), False, 2)
    yield c("masked_scatter", make(3, 4).t(), (make(3, 4) > 0).t(), make(12))
    for op, reduce in itertools.product(("scatter", "scatter_"), ("add", "multiply")):
        for dtype in (F32, BF16, I64, BOOL, C64):
            yield c(op + ".value_reduce", make(3, 4, dtype=dtype), 1, tensor([[0, 2, 2], [1, 0, 0]], I64), 2, reduce=reduce)
            yield c(op + ".reduce", make(3, 4, dtype=dtype), 0, tensor([[0, 2, 2]], I64), make(2, 3, dtype=dtype), reduce=reduce)
    yield c("scatter.value_reduce", make(3, 4), 1, tensor([[4]], I64), 2, reduce="add", opt=ERROR)
    yield c("scatter.value_reduce", make(3, 4), 1, tensor([[1]], I64), 2, reduce="mean", opt=ERROR)
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
    yield from other_names()
    yield from foreach()
    yield from inner_names()


def foreach():
    """_foreach_X: lists of tensors, of numbers, one number or one 0-dim tensor for all."""
    unary = ("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh "
             "sqrt tan tanh trunc zero").split()
    for name in unary:
        yield c("_foreach_" + name, [make(3), make(2, 2)])
        yield c(f"_foreach_{name}_", [make(3, dtype=BF16), make(2, 2)])
    yield c("_foreach_max", [make(3), make(2, 2, dtype=I64)])
    yield c("_foreach_neg_", [make(2) for _ in range(14)])
    yield c("_foreach_exp", [], opt=ERROR)
    yield c("_foreach_exp.out", [make(3), make(2, 2)], out=[torch.zeros(3), torch.zeros(0)])
    for name, (a, b) in itertools.product("add sub mul div clamp_min clamp_max maximum minimum pow".split(), ((F32, F32), (F32, I64), (I64, I64), (BF16, F32))):
        x = [make(3, dtype=a, low=1), make(2, 2, dtype=a, low=1)]
        y = [make(3, dtype=b, low=1).abs(), make(2, 1, dtype=b, low=1).abs()]
        for form in ("", "_"):
            yield c(f"_foreach_{name}{form}.List", x, y)
            yield c(f"_foreach_{name}{form}.Scalar", x, 2)
            yield c(f"_foreach_{name}{form}.ScalarList", x, [2, 1.5])
            if name in ("add", "mul", "div"):
                yield c(f"_foreach_{name}{form}.Tensor", x, make(dtype=b, low=1))
        yield c(f"_foreach_{name}.List", x, y[:1], opt=ERROR)
    yield c("_foreach_add.List", [make(3)], [make(3)], alpha=2.5)
    yield c("_foreach_mul.Tensor", [make(3)], make(1), opt=ERROR)
    yield c("_foreach_pow.ScalarAndTensor", 2, [make(3), make(2, dtype=F64)])
    for name, dtype in itertools.product(("addcmul", "addcdiv"), (F32, BF16, C64)):
        x, y, z = ([make(3, dtype=dtype), make(2, 2, dtype=dtype)] for _ in range(3))
        for form in ("", "_"):
            yield c(f"_foreach_{name}{form}.Scalar", x, y, z, 2)
            yield c(f"_foreach_{name}{form}.ScalarList", x, y, z, [0.5, 2])
            yield c(f"_foreach_{name}{form}.Tensor", x, y, z, tensor([0.5, 2]))
        yield c(f"_foreach_{name}.Tensor", x, y, z, tensor([0.5, 2, 3]), opt=ERROR)
    x, y, z = ([make(3), make(2, 2)] for _ in range(3))
    for form in ("", "_"):
        yield c(f"_foreach_lerp{form}.List", x, y, z)
        yield c(f"_foreach_lerp{form}.Scalar", x, y, 0.3)
        yield c(f"_foreach_lerp{form}.ScalarList", x, y, [0.3, 0.7])
    for name, order, dtype in itertools.product(("norm", "powsum"), (1, 2, 2.5), (None, F64)):
        yield c(f"_foreach_{name}.Scalar", x, order, dtype)
    yield c("_foreach_norm.Scalar", [make(3, dtype=C64), make(2, dtype=BF16)], INF)
    yield c("_foreach_copy", x, y)
    yield c("_foreach_copy_", x, [t.double() for t in y])


def inner_names():
    """Names that programs rarely hold."""
    for accumulate, unsafe in itertools.product((False, True), (False, True)):
        yield c("_index_put_impl_", make(4, 3), [tensor([1, 3, 1], I64)], make(1, 3), accumulate, unsafe)
        yield c("_index_put_impl", make(4, 3), [None, tensor([1, 0], I64)], make(4, 2), accumulate, unsafe)
    yield c("_linalg_eigvals", make(3, 3))
    yield c("_reshape_alias_copy", make(3, 4), [4, 3], [3, 1])
    yield c("lift", make(3))
    yield c("is_inference", make(2))
    yield c("orgqr", *torch.geqrf(make(4, 3)))
    yield c("qr", make(4, 3))
    yield c("qr", make(3, 4), False)
    yield c("svd", make(4, 3))
    yield c("slice_inverse", make(3, 4), make(3, 4), 0, 0, 3, 1)
    yield c("sym_stride", make(3, 4).t())
    yield c("lu_unpack.out", *torch.linalg.lu_factor(make(3, 3))[:2], P=torch.zeros(3, 3), L=torch.zeros(3, 3), U=torch.zeros(3, 3))
    yield c("rnn_relu_cell", make(2, 3), make(2, 4), make(4, 3), make(4, 4), make(4), make(4))
    yield c("rnn_relu_cell", make(2, 3), make(2, 4), make(4, 3), make(4, 4))


def other_names():
    """Names that are other names of much-tested operators, or compositions of them: a case or two each."""
    yield c("polygamma_", make(3, low=1.0), 2)
    yield c("polygamma_", make(3, dtype=I64), 1, opt=ERROR)
    x, square, number = make(3, 4, low=-0.9, high=0.9), make(3, 3), tensor([4, 6, 7], I64)
    spd = square @ square.t() + 3 * torch.eye(3)
    for name in ("arccos", "arcsin", "arcsinh", "arctan", "arctanh"):
        yield c(name, x)
        yield c(name + "_", x.clone())
    yield c("arccosh", x + 2)
    yield c("arccosh_", x + 2)
    yield c("arctan2", x, x.flip(0))
    yield c("arctan2_", x.clone(), x.flip(1))
    for name in ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "psi", "round", "sinc"):
        for dtype in (F32, BF16):
            yield c("special_" + name, (x * 1.1).to(dtype))
    yield c("special_multigammaln", x + 4, 2)
    yield c("special_softmax", x, 1, F64)
    yield c("special_log_softmax", x, 0, dtype=F64)
    yield c("special_logsumexp", x, [0, 1])
    yield c("special_xlogy", x, x.abs())
    for name in ("special_xlogy", "special_xlog1py", "special_zeta"):
        yield c(name + ".other_scalar", x + 2, 2.5)
        yield c(name + ".self_scalar", 2, x.abs() + 1.5)
    yield c("xlogy.Scalar_Other", x, 3)
    yield c("xlogy.Scalar_Self", 3, number)
    yield c("xlogy_.Scalar_Other", x.clone(), 3)
    for name in ("greater_equal", "less", "subtract", "true_divide"):
        for y in (x, number):
            yield c(name + ".Scalar", y, 2)
        yield c(name + "_.Scalar", x.clone(), 2)
    for mode in (None, "floor", "trunc"):
        yield c("divide.Scalar_mode", number, -4, rounding_mode=mode)
        yield c("divide_.Scalar_mode", x.clone(), 0.3, rounding_mode=mode)
    yield c("float_power.Scalar", 2, number)
    yield c("_unsafe_view", x, [2, -1])
    yield c("_euclidean_dist", make(4, 3), make(5, 3))
    yield c("_is_all_true", x > -1)
    yield c("_is_any_true", x > 1)
    yield c("_conj_copy", make(3, dtype=C64))
    yield c("_neg_view_copy", x)
    yield c("_logcumsumexp", x, 1)
    yield c("_stack", [x, x + 1], 1)
    yield c("_pad_circular", make(1, 2, 5), [2, 1])
    for mode in range(4):
        yield c("_pad_enum", make(1, 2, 5), [2, 1], mode)
    yield c("_shape_as_tensor", make(2, 0, 3))
    yield c("_reshape_from_tensor", x, tensor([2, 6], I64))
    yield c("_unique", tensor([3, 1, 3, 2], I64), True, True)
    yield c("_upsample_nearest_exact3d", make(1, 2, 2, 3, 2), [3, 5, 4])
    for name in ("__lshift__", "__rshift__", "__ilshift__", "__irshift__"):
        yield c(name + ".Tensor", number.clone(), tensor([1, 2, 0], I64))
    yield c("atleast_3d.Sequence", [x, x[0], x[0, 0]])
    for name, n in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
        yield c(name + ".array", make(4, 4, 4), [1, 3])
    yield c("chain_matmul", [make(2, 3), make(3, 4), make(4, 2)])
    yield c("concatenate", [x, x], 1)
    yield c("row_stack", [x, x[0]])
    yield c("moveaxis.intlist", make(2, 3, 4), [0, 1], [2, 0])
    yield c("cumulative_trapezoid.x", x, make(4), dim=1)
    yield c("gradient.array", make(4, 5), dim=[0, 1])
    yield c("gradient.tensorarrayint", make(4, 5), spacing=[tensor([0.0, 1, 3, 4])], dim=0)
    yield c("det", square)
    yield c("inverse", spd)
    yield c("cholesky", spd)
    yield c("slogdet", spd)
    yield c("pinverse", spd)
    yield c("matrix_power", square, 3)
    yield c("matrix_power", spd, -2)
    yield c("matrix_H", make(2, 3, dtype=C64))
    yield c("nuclear_norm", x)
    yield c("nuclear_norm.dim", make(2, 3, 4), [0, 2])
    yield c("norm_except_dim", make(2, 3, 4), 2, 1)
    yield c("linalg_cond.p_str", spd, "fro")
    yield c("linalg_diagonal", make(2, 3, 4), offset=1)
    yield c("linalg_matmul", x, x.t())
    yield c("linalg_matrix_rank", spd, 0.1)
    yield c("linalg_matrix_rank.tol_tensor", spd, tensor([0.1]))
    yield c("linalg_matrix_rank.atol_rtol_float", spd, atol=0.1, rtol=0.2)
    yield c("linalg_pinv.atol_rtol_float", spd, atol=0.1, rtol=0.01)
    yield c("linalg_pinv.rcond_tensor", spd, torch.tensor(0.01))
    yield c("linalg_vander", make(4), N=3)
    yield c("nonzero_numpy", x > 0)
    yield c("fill_diagonal_", make(5, 3), 2.5)
    yield c("fill_diagonal_", make(8, 3), 2.5, True)
    yield c("unique_dim_consecutive", tensor([[1, 2], [1, 2], [0, 1]], I64), 0, True, True)
    yield c("range", 1, 5)
    for self, other in itertools.product((BOOL, I32, F16, C64), (BOOL, I64, BF16, F64)):
        yield c("can_cast", self, other)
        yield c("promote_types", self, other)
    for y in (number, x):
        yield c("is_signed", y)
        yield c("is_conj", y)
        yield c("is_neg", y)
        yield c("result_type.Scalar", y, 2.5)
        yield c("result_type.Scalar_Tensor", 2, y)
    yield c("result_type.Scalar_Scalar", 2, 2.5)
    for dtype, other in itertools.product((BOOL, U8, I32, F16, F32), (1, 2.5, True, 1 + 2j)):
        yield c("add.Scalar", tensor([0, 1, 1], dtype), other)
    for name in ("any.dims", "all.dims", "sum.dim_IntList", "mean.dim", "amax"):
        for dims in (None, []) if name != "amax" else ([],):
            yield c(name, x > 0 if name[:3] in ("any", "all") else x, dims)
    yield c("addr", x * NAN, make(3), make(4), beta=0)


FAMILY = {f.__name__: f for f in (elementwise, reduce, random, recurrent, matmul, norm, scan, linalg, conv, copy, loss, softmax, pad, index, misc)}


def calls(family, full):
    if family in FAMILY:
        yield from FAMILY[family](full)
