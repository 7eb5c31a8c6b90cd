"""Hand-made cases: elementwise operators, reductions and scans. Special values, type promotion, shared memory, sizes around vectors."""
import itertools

import torch

from handmade_common import ALL, BF16, BOOL, C64, ERROR, F16, F32, F64, FLOATS, I8, I16, I32, I64, INF, INTS, NAN, U8, c, make, tensor


# ---- Elementwise ----

def elementwise(full):
    yield from clamps()
    yield from promotions(full)
    yield from overlaps()
    yield from integers()
    yield from quantised()
    yield from tails(full)
    x = tensor([NAN, -1.5, -0.0, 2.0, INF])
    for op in ("threshold", "hardtanh"):
        yield c(op, x, -1, 1)
    yield c("where", make(3, 4) > 0)
    yield c("where", tensor(True, BOOL))
    yield c("where", torch.zeros(0, 3))
    for dtype in (F32, I64, U8):
        for other in (2, 2.5, True, 300):
            yield c("sub.Scalar", make(5, dtype=dtype), other)
            yield c("sub.Scalar", make(5, dtype=dtype), other, 2)
            yield c("rsub.Scalar", make(5, dtype=dtype), other)
            yield c("add.Scalar", make(5, dtype=dtype), other, 3)
    yield c("sub.Tensor", make(3, dtype=BOOL), make(3, dtype=BOOL), opt=ERROR)
    yield c("neg", make(3, dtype=BOOL), opt=ERROR)
    yield c("add.Tensor", make(3, dtype=I64), make(3, dtype=I64), alpha=1.5, opt=ERROR)
    yield c("add.Tensor", make(3, dtype=BOOL), make(3, dtype=BOOL), alpha=1, opt={})
    yield c("add.Tensor", make(2, 3), make(4), opt=ERROR)
    yield c("add_.Tensor", make(3), make(2, 3), opt=ERROR)
    yield c("add_.Tensor", make(3, dtype=I64), make(3), opt=ERROR)
    yield c("mul_.Tensor", make(3, dtype=U8), 1.5, opt=ERROR)
    yield c("add.out", make(3), make(3), out=torch.zeros(3, dtype=I64), opt=ERROR)
    yield c("add.out", make(3, dtype=I32), make(3, dtype=I32), out=torch.zeros(3, dtype=F16))
    yield c("add.out", make(3), make(3), out=torch.zeros(2, 5))
    yield c("add.out", make(3), make(3), out=torch.zeros(6)[::2])
    yield c("add.out", make(2, 3), make(3), out=torch.zeros(3, 2).t())
    for base in ("lerp.Scalar", "lerp.Tensor"):
        for dtype in FLOATS:
            w = 0.7 if base.endswith("Scalar") else make(4, dtype=dtype, low=0, high=1)
            yield c(base, make(4, dtype=dtype), make(4, dtype=dtype), w)
    for n in range(4):
        yield c("polygamma", n, make(6, low=0.1))
        yield c("round.decimals", tensor([1.2345, -2.5, 0.125, 1e10, NAN, INF]), decimals=n - 1)
    for op in ("special_chebyshev_polynomial_t", "special_hermite_polynomial_h", "special_laguerre_polynomial_l", "special_legendre_polynomial_p"):
        yield c(op, make(8), tensor([0, 1, 2, 3, 4, 5, 6, 7], F32))
    yield c("gradient.scalarint", make(6))
    yield c("gradient.scalararray", make(4, 5), spacing=2.0, dim=[0, 1])
    for p in (2, 3, -1, 0, 0.5, -0.5, 1, -2):
        for dtype in (F32, F16, I64, C64):
            yield c("pow.Tensor_Scalar", tensor([-2, 0, 1, 3], dtype), p)
    yield c("pow.Tensor_Scalar", make(3, dtype=I32), -1, opt=ERROR)
    yield c("pow.Scalar", 2, tensor([-1, 0, 3], I64))
    yield c("pow.Scalar", 1, make(3))
    yield c("float_power.Tensor_Scalar", make(3, dtype=I32), 2)
    for op in ("isclose", "allclose"):
        yield c(op, tensor([1.0, NAN, INF]), tensor([1.0 + 1e-6, NAN, INF]), 1e-5, 1e-8, True)
        yield c(op, tensor([1, 2], I64), tensor([1, 3], I64), 0.5)
    for n in (None, 1.0):
        yield c("nan_to_num", tensor([NAN, INF, -INF, 1]), n, 7.0)
        yield c("nan_to_num", tensor([NAN, INF, -INF, 1], F16), n)
    yield c("nextafter", tensor([0.0, 1.0, -1.0, INF, NAN]), tensor([1.0, 1.0, INF, 0.0, 1.0]))
    yield c("prelu", make(2, 3, 4), make(3))
    yield c("prelu", make(2, 3, 4), make(1))
    yield c("prelu", make(2, 3, 4), make(2), opt=ERROR)
    yield c("glu", make(2, 6), -1)
    yield c("glu", make(2, 5), -1, opt=ERROR)
    yield c("where.ScalarOther", make(3) > 0, make(3), 1)
    yield c("where.ScalarSelf", make(3) > 0, 2.5, make(3, dtype=I64))
    yield c("where.Scalar", make(3) > 0, 2, 2.5)
    yield c("where.Scalar", make(3) > 0, 2, 3)
    yield c("where.self", make(3, dtype=U8), make(3), make(3, dtype=F64))
    yield c("where.self", make(3, dtype=I64), make(3), make(3), opt=ERROR)
    yield c("where.self", make(2, 1) > 0, make(3, dtype=I32), tensor(2.5))


def clamps():
    bounds = [(-1, 1), (None, 1), (-1, None), (1, -1), (-0.5, 2.5), (NAN, 1), (0, INF), (True, 2)]
    for op, dtype in itertools.product(("clamp", "clip"), (*FLOATS, *INTS)):
        for low, high in bounds if dtype in (F32, I64) else bounds[::3]:
            x = tensor([NAN, -3, -0.5, 0, 1, 7, INF], dtype) if dtype in FLOATS else make(7, dtype=dtype)
            yield c(op, x, low, high)
            if op == "clamp" and dtype in (F32, I64):
                yield c("clamp_", x, low, high)
                yield c("clamp.out", x, low, high, out=torch.zeros(7, dtype=F64 if dtype == F32 else dtype))
        yield c(op + ".Tensor", make(2, 3, dtype=dtype), make(3, dtype=dtype), make(2, 1, dtype=dtype))
        yield c(op + "_.Tensor", make(2, 3, dtype=dtype), None, make(3, dtype=dtype))
        yield c(op + ".Tensor_out", make(2, 3, dtype=dtype), make(3, dtype=dtype), out=torch.zeros(2, 3, dtype=dtype))
    for dtype in (F32, BF16, I64, I8):
        for op in ("clamp_max", "clamp_min"):
            for bound in (1, 0.5, -2):
                yield c(op, make(5, dtype=dtype), bound)
            yield c(op + "_", make(5, dtype=dtype), 1)
            yield c(op + ".out", make(5, dtype=dtype), 1, out=torch.zeros(5, dtype=dtype))
    yield c("clamp", make(3), None, None, opt=ERROR)
    yield c("clip_", make(5), -1, 1)
    yield c("clip.out", make(5), -1, 1, out=torch.zeros(5))
    yield c("clamp", make(3, dtype=C64), 0, 1, opt=ERROR)
    yield c("clamp", make(3, dtype=BOOL), 0, 1)


BINARY = ("add.Tensor mul.Tensor sub.Tensor div.Tensor pow.Tensor_Tensor eq.Tensor lt.Tensor maximum minimum remainder.Tensor fmod.Tensor floor_divide "
          "atan2 copysign.Tensor logical_and logical_xor bitwise_and.Tensor where.self fmax hypot xlogy.Tensor true_divide.Tensor heaviside "
          "bitwise_left_shift.Tensor gcd nextafter logaddexp float_power.Tensor_Tensor ge.Tensor ne.Tensor").split()


def promotions(full):
    """Every pair of dtypes: tensors with dims, 0-dim tensors, Python numbers."""
    pairs = list(itertools.product(ALL, ALL))
    for op in BINARY if full else ("add.Tensor", "div.Tensor", "eq.Tensor"):
        for a, b in pairs if full or op == "add.Tensor" else pairs[::5]:
            x, y = make(3, dtype=a, low=1), make(3, dtype=b, low=1)
            first = [make(3, dtype=BOOL)] if op.startswith("where") else []
            yield c(op, *first, x, y)
            yield c(op, *first, x, y[0])
            if full:
                yield c(op, *first, x[0], y)
                yield c(op, *first, x[0], y[0])
    for op in BINARY if full else ("add.Tensor", "mul.Tensor", "div.Tensor", "lt.Tensor", "pow.Tensor_Tensor", "floor_divide"):
        if op.startswith("where"):
            continue
        for dtype, number in itertools.product(ALL, (2, 2.5, True, 300, 1 + 2j)):
            yield c(op, make(3, dtype=dtype, low=1), number)
            if full:
                yield c(op, make(dtype=dtype, low=1), number)
    for a, b in pairs if full else pairs[::3]:
        yield c("add_.Tensor", make(3, dtype=a), make(3, dtype=b))
        yield c("mul_.Tensor", make(3, dtype=a), make(dtype=b))
        yield c("add.out", make(3), make(3), out=torch.zeros(3, dtype=b)) if a == F32 else c("mul.out", make(3, dtype=a), make(3), out=torch.zeros(3, dtype=b))
    for a, b in itertools.product((F32, F64, F16, I64, C64), repeat=2):
        yield c("addcmul", make(3, dtype=a), make(3, dtype=b), make(3, dtype=a))
        yield c("lerp.Tensor", make(3, dtype=a), make(3, dtype=b), make(3, dtype=a))


def overlaps():
    """Arguments that share memory: the whole of it is fine, a part is refused."""
    x = make(8)
    yield c("add_.Tensor", x, x)
    yield c("add_.Tensor", x[1:], x[:-1], opt=ERROR)
    yield c("mul_.Tensor", x[::2], x[1::2])
    yield c("add.out", x, x, out=x)
    yield c("add.out", x[:4], x[4:], out=x[2:6])
    y = make(3, 3)
    yield c("add_.Tensor", y, y.t(), opt=ERROR)
    yield c("add_.Tensor", y.t(), make(3, 3))
    yield c("mul_.Tensor", make(1, 3).expand(2, 3), make(2, 3), opt=ERROR)
    yield c("relu_", make(4, 5)[1:3, ::2])
    yield c("exp_", make(4, 5).t())
    yield c("neg_", make(2, 3, 4, 5).permute(0, 2, 3, 1))
    yield c("add_.Scalar", make(4, 5)[:, 2], 1)
    yield c("sub_.Scalar", make(4, 5)[:, 2], 1)


def integers():
    a, b = tensor([-7, 7, -7, 7, 0, 5], I64), tensor([2, -2, -2, 2, 3, 5], I64)
    for dtype in (I64, I32, I16, I8, F32, F64, F16, BF16):
        x, y = a.to(dtype), b.to(dtype)
        for mode in (None, "trunc", "floor"):
            yield c("div.Tensor_mode", x, y, rounding_mode=mode)
            yield c("div.Scalar_mode", x, 2, rounding_mode=mode)
            yield c("div.Scalar_mode", x, -2.5, rounding_mode=mode)
            yield c("div_.Scalar_mode", x, 2, rounding_mode=mode)
            yield c("div.Scalar_mode_out", x, 3, rounding_mode=mode, out=torch.zeros(6, dtype=F64 if mode is None else dtype))
        for op in ("remainder", "fmod"):
            yield c(op + ".Tensor", x, y)
            yield c(op + ".Scalar", x, -3)
            yield c(op + ".Scalar", x, 2.5)
        yield c("floor_divide", x, y)
        yield c("floor_divide.Scalar", x, -3)
        yield c("floor_divide_.Scalar", x, 3)
        yield c("floor_divide.Scalar_out", x, 3, out=torch.zeros(6, dtype=dtype))
        yield c("remainder.Scalar_Tensor", 7, y)
    for dtype in (I64, I32, U8):
        x, zero = tensor([1, 2], dtype), tensor([1, 0], dtype)
        for op in ("floor_divide", "remainder.Tensor", "fmod.Tensor"):
            yield c(op, x, zero, opt=ERROR)
        yield c("div.Tensor_mode", x, zero, rounding_mode="floor", opt=ERROR)
        yield c("div.Tensor_mode", x, zero, rounding_mode="trunc", opt=ERROR)
    x = tensor([1.0, -1.0, 0.0, NAN, INF, -INF, 5.3, -0.0])
    for op in ("remainder", "fmod"):
        for y in (0.0, INF, -INF, NAN, 2.0, -2.0):
            yield c(op + ".Tensor", x, torch.full((8,), y))
    for mode in ("floor", "trunc"):
        for y in (0.0, INF, -INF, 0.1, -0.1):
            yield c("div.Tensor_mode", x, torch.full((8,), y), rounding_mode=mode)
    for dtype in (I64, I32, I16, I8, U8, BOOL):
        x, y = make(6, dtype=dtype), make(6, dtype=dtype)
        for op in ("__and__", "__or__", "__xor__"):
            yield c(op + ".Tensor", x, y)
            yield c(op + ".Scalar", x, 1 if dtype != BOOL else True)
        if dtype != BOOL:
            for op in ("__lshift__", "__rshift__"):
                yield c(op + ".Scalar", x, 2)
                yield c(op + ".Scalar_out", x, 2, out=torch.zeros(6, dtype=dtype))
            for op in ("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"):
                yield c(op, x, tensor([0, 1, 3, 7, 40, 70], dtype))
            info = torch.iinfo(dtype)
            edge = tensor([info.min, info.max, 0, 1], dtype)
            for op in ("neg", "abs", "square", "sgn", "sign", "relu"):
                yield c(op, edge)
            yield c("add.Tensor", edge, tensor([1, 1, 1, 1], dtype))
            yield c("mul.Tensor", edge, edge)
            yield c("gcd", edge[1:], tensor([6, 4, 0], dtype))
            yield c("lcm", tensor([0, 4, 6], dtype), tensor([6, 6, 0], dtype))


def quantised():
    x, q = make(3, 4, low=-20, high=20), "quantized_decomposed::"
    for scale, zero, low, high, dtype in ((0.1, 0, -128, 127, I8), (0.37, 10, 0, 255, U8), (0.05, -3, -100, 90, I8), (0.01, 0, -32768, 32767, I16)):
        yield c(q + "quantize_per_tensor", x, scale, zero, low, high, dtype)
        y = torch.randint(max(low, -100), 100, (3, 4)).clamp(low, high).to(dtype)
        yield c(q + "dequantize_per_tensor", y, scale, zero, low, high, dtype)
        yield c(q + "dequantize_per_tensor", y, scale, zero, low, high, dtype, out_dtype=F16)
    for axis in (0, 1):
        scales, zeros = make(x.shape[axis], low=0.05, high=0.5), torch.randint(-5, 5, (x.shape[axis],))
        yield c(q + "quantize_per_channel", x, scales, zeros, axis, -128, 127, I8)
        yield c(q + "dequantize_per_channel", make(3, 4, dtype=I8), scales, zeros, axis, -128, 127, I8)
        yield c(q + "dequantize_per_channel", make(3, 4, dtype=I8), scales, None, axis, -128, 127, I8)
        yield c("fake_quantize_per_channel_affine", x, scales, zeros.to(I32), axis, -128, 127)
        yield c("fake_quantize_per_channel_affine_cachemask", x, scales, zeros.to(I32), axis, -10, 20)
    yield c("fake_quantize_per_tensor_affine", x, 0.1, 5, -128, 127)
    yield c("fake_quantize_per_tensor_affine_cachemask", x, 0.3, 0, -8, 7)
    yield c("fake_quantize_per_tensor_affine", x, 0.1, 500, -128, 127, opt=ERROR)
    edges = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.26, 0.25, -0.24, 100.0, 3.0])
    for dtype in (F32, F64, F16, BF16):
        yield c("fake_quantize_per_tensor_affine_cachemask", edges.to(dtype), 0.1, 3, -5, 50)
        for zeros in (torch.tensor([3, 1], dtype=I32), torch.tensor([3.0, 1.6]), torch.tensor([3.0, 1.6], dtype=F16)):
            yield c("fake_quantize_per_channel_affine_cachemask", torch.stack([edges, edges]).to(dtype), torch.tensor([0.1, 0.2]), zeros, 0, -5, 50)
    scale, zero, low, high = torch.tensor(0.1), torch.tensor(3), torch.tensor(-100), torch.tensor(100)
    yield c(q + "quantize_per_tensor.tensor", x, scale, zero, -100, 100, I8)
    yield c(q + "quantize_per_tensor.tensor2", x, scale, zero, low, high, I8)
    yield c(q + "dequantize_per_tensor.tensor", make(3, 4, dtype=I8), scale, zero, -100, 100, I8)
    yield c(q + "dequantize_per_tensor.tensor2", make(3, 4, dtype=I8), scale, zero, low, high, I8)
    scales, zeros = make(3, 2, low=0.05, high=0.5), torch.randint(-5, 5, (3, 2))
    yield c(q + "quantize_per_channel_group", x, scales, zeros, -8, 7, I8, 2)
    yield c(q + "dequantize_per_channel_group", make(3, 4, dtype=I8), scales, zeros, -8, 7, I8, 2, F32)
    yield c(q + "dequantize_per_channel_group", make(3, 4, dtype=I8), scales, None, -8, 7, I8, 2, F16)
    yield c(q + "quantize_per_token", x, scales[:, :1], zeros[:, :1], -128, 127, I8)
    yield c(q + "dequantize_per_token", make(3, 4, dtype=I8), scales[:, :1], zeros[:, :1], -128, 127, I8, F32)
    yield c(q + "fake_quant_per_channel", x, scales[:, 0], zeros[:, 0], 0, -8, 7)
    yield c("isnan.out", make(20, 20, dtype=F64), out=torch.zeros(20, 20, dtype=BOOL).t())      # blocks narrower than a row of the result
    yield c("exp.out", make(5, dtype=F16), out=torch.zeros(5))                                    # rounded to float16 on the way


UNARY = ("abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p log2 neg "
         "reciprocal relu round rsqrt sigmoid sign sgn sin sinc sinh sqrt square tan tanh trunc silu mish gelu softplus hardswish hardsigmoid elu selu "
         "leaky_relu relu6 log_sigmoid special_i0e special_i1e special_ndtri special_erfcx special_ndtr special_log_ndtr special_entr i0 logit signbit "
         "isnan isinf isfinite logical_not positive angle").split()


def tails(full):
    """Sizes around the width of vectors, and values all over the range, with float64 results beside them."""
    for op in UNARY:
        for dtype in (F32, BF16, F16, F64) if full else (F32,):
            for n in (1, 7, 15, 16, 17, 33, 100) if full else (19,):
                yield c(op, make(n, dtype=dtype, low=-4, high=4))
            if full:
                wide = torch.cat([torch.linspace(-100, 100, 301, dtype=F64), torch.logspace(-30, 30, 121, dtype=F64), -torch.logspace(-30, 30, 121, dtype=F64)])
                yield c(op, wide.to(dtype))
        yield c(op, make(4, 5, 6)[:, ::2, 1:4].transpose(0, 2))
        yield c(op, make(0, 3))
        yield c(op, make())
        for dtype in (BOOL, U8, I64):
            yield c(op, make(5, dtype=dtype))
        if full:
            yield c(op, make(3, 4, 5, 6).to(memory_format=torch.channels_last))
            yield c(op, make(4, 1).expand(4, 3))
    for op in ("add.Tensor", "mul.Tensor", "div.Tensor", "maximum", "atan2", "pow.Tensor_Tensor", "eq.Tensor"):
        for n in (1, 15, 16, 17, 33) if full else (33,):
            yield c(op, make(n, low=0.1), make(n, low=0.1))
        for shapes in (((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((), (3,)), ((0, 3), (1, 3)), ((0,), (1,)), ((2, 1, 4), (5, 1)), ((1,), (1, 1))):
            yield c(op, make(*shapes[0], low=0.1), make(*shapes[1], low=0.1))
        yield c(op, make(3, 4, low=0.1).t(), make(4, 3, low=0.1))
        yield c(op, make(2, 3, 4, 4, low=0.1).to(memory_format=torch.channels_last), make(2, 3, 4, 4, low=0.1))
        yield c(op, make(2, 3, 4, 4, low=0.1).to(memory_format=torch.channels_last), make(3, 1, 1, low=0.1))
        yield c(op, make(4, low=0.1).expand(3, 4), make(3, 1, low=0.1).expand(3, 4))
        yield c(op, make(6, low=0.1)[2:5], make(3, 3, low=0.1)[:, 1])


# ---- Reductions and scans ----

def reduce(full):
    odd = tensor([1.0, NAN, 3.0, -INF, INF, NAN, -0.0])
    for op in "sum prod mean amax amin max min argmax argmin any all nansum nanmean norm.Scalar std var logsumexp median nanmedian mode aminmax".split():
        for x in (odd, make(), torch.zeros(0), torch.zeros(2, 0, 3), make(3, 4, 5).permute(2, 0, 1), make(1)):
            if op in ("amax", "amin", "logsumexp"):
                yield c(op, x, [] if op != "logsumexp" else list(range(x.dim())))
                yield c(op, x, [0], True)
            elif op == "mode":
                yield c(op, x)
            else:
                yield c(op, x)
    for op in ("sum.dim_IntList", "mean.dim", "var.dim", "std.dim", "nansum", "nanmean"):
        for dims in (None, [], [0], [-1], [0, 2], [2, 0], [1, 1], [3], [-4]):
            for keep in (False, True):
                yield c(op, make(2, 3, 4), dims, **({"keepdim": keep} if "var" not in op and "std" not in op else {"unbiased": True, "keepdim": keep}))
        yield c(op, make(), [0])
        yield c(op, make(2, 0, 3), [1])
    for op in ("any.dims", "all.dims"):
        for dims in (None, [], [0], [0, -1], [1, 1], [3]):
            yield c(op, make(2, 3, 4) > 0, dims)
            yield c(op, make(2, 3, dtype=U8), dims, True) if dims != [3] else c(op, make(2, 3), [2], opt=ERROR)
    for op in ("max.dim", "min.dim", "median.dim", "nanmedian.dim", "mode", "kthvalue", "cummax", "cummin", "argmax", "argmin", "any.dim", "all.dim", "prod.dim_int",
               "aminmax", "std.correction", "var.correction"):
        k = [2] if op == "kthvalue" else []
        if op in ("cummax", "cummin"):
            continue
        if op == "aminmax":
            yield c(op, make(3, 4), dim=1, keepdim=True)
            yield c(op, odd, dim=0)
            yield c(op, torch.zeros(0, 3), dim=0)
            continue
        if "correction" in op:
            for correction in (0, 1, 2, None, 1.5, 5):
                yield c(op, make(4, 5), [1], correction=correction)
                yield c(op, make(4, 5, dtype=BF16), None, correction=correction, keepdim=True)
            yield c(op, make(1), None, correction=1)
            continue
        for x in (tensor([[3, 1, 3], [NAN, 2, NAN], [-INF, INF, -INF]]), tensor([[2, 2, 1, 1], [5, 5, 5, 1]], I64), tensor([[0, 1], [1, 1]], U8)):
            for dim in (0, 1, -1):
                yield c(op, x, *k, dim)
                yield c(op, x, *k, dim, True)
        yield c(op, make(3), *(k or []), 1, opt=ERROR)
        yield c(op, make(0, 3), *k, 0)
        yield c(op, make(2, 0), *k, 0)
        yield c(op, make(), *([1] if k else []), 0)
        yield c(op, tensor([1, 1, 1, 1]), *k, 0)
    for n in ((100, 1000, 4099) if full else (1000,)):
        for dtype in (F32, F16, BF16):
            for op in ("sum", "mean", "var", "std", "norm.Scalar", "prod", "logsumexp", "linalg_vector_norm"):
                x = make(n, dtype=dtype) if op != "prod" else make(n, dtype=dtype, low=0.99, high=1.01)
                yield c(op, x, *([[0]] if op == "logsumexp" else []))
            yield c("sum.dim_IntList", make(n // 10, 10, dtype=dtype), [0])
            yield c("sum.dim_IntList", make(10, n // 10, dtype=dtype).t(), [1])
    for op in ("sum", "prod", "mean", "nansum"):
        for dtype in ALL:
            yield c(op, make(4, dtype=dtype))
            yield c(op, make(4, dtype=dtype), dtype=F64)
            yield c(op, make(4, dtype=F32), dtype=dtype)
    yield c("mean", make(4, dtype=I64), opt=ERROR)
    for order in (0, 1, 2, 3, -1, 0.5, INF, -INF, -2):
        for dtype in (F32, F64, F16, BF16, C64):
            yield c("linalg_vector_norm", make(3, 4, dtype=dtype), order, [1])
            yield c("norm.ScalarOpt_dim", make(3, 4, dtype=dtype), order, [0], True)
        yield c("linalg_vector_norm", make(2, 0), order, [1])
        yield c("linalg_vector_norm", make(5), order, None, True, dtype=F64)
        yield c("norm.Scalar", make(5), order)
        yield c("norm.ScalarOpt_dim_dtype", make(3, 4), order, [0], False, dtype=F64)
        yield c("norm.ScalarOpt_dtype", make(3, 4), order, dtype=F64)
        yield c("norm.out", make(3, 4), order, [0], out=torch.zeros(0))
        yield c("norm.dtype_out", make(3, 4), order, [0], False, dtype=F32, out=torch.zeros(4))
        yield c("norm.Scalar_out", make(3, 4), order, out=torch.zeros(()))
        yield c("norm.ScalarOpt_dtype_out", make(3, 4), order, dtype=F32, out=torch.zeros(()))
        yield c("dist", make(3, 4), make(4), order)
    for dtype in (F32, F64, C64):
        yield c("frobenius_norm.dim", make(3, 4, dtype=dtype), [0, 1])
        yield c("frobenius_norm.dim", make(3, 4, dtype=dtype), [1], True)
        yield c("frobenius_norm.out", make(3, 4, dtype=dtype), [1], out=torch.zeros(3, dtype=F64 if dtype == F64 else F32))
    for order in ("fro", "nuc"):
        yield c("linalg_matrix_norm.str_ord", make(2, 3, 4), order)
    for order in (1, -1, INF, -INF, 2, -2):
        yield c("linalg_matrix_norm", make(2, 3, 4), order)
        yield c("linalg_norm", make(3, 4), order)
    for x in (1, 0, 2.5, NAN, True, 1j):
        yield c("is_nonzero", torch.tensor([x]))
    yield c("is_nonzero", make(2), opt=ERROR)
    yield c("is_nonzero", torch.zeros(0), opt=ERROR)
    for x, y in ((make(3), make(4)), (odd, odd), (tensor([1, 2]), tensor([1, 2])), (torch.zeros(0), torch.zeros(0)), (make(2, 1), make(2))):
        yield c("equal", x, y)
    for args in ((10, 0, 0), (4, -1, 2), (1, 0, 0), (5, 3, 3)):
        yield c("histc", tensor([0.5, 1.0, -1.0, 2.0, 2.0, 3.0]), *args)
    for dtype in (I64, I32, U8, I8):
        yield c("bincount", tensor([0, 3, 1, 3], dtype))
        yield c("bincount", tensor([0, 3, 1, 3], dtype), None, 6)
        for weights in (F32, F64, I64, F16):
            yield c("bincount", tensor([0, 3, 1, 3], dtype), make(4, dtype=weights))
    yield c("bincount", tensor([], I64))
    yield c("bincount", tensor([-1], I64), opt=ERROR)
    yield c("bincount", make(3), opt=ERROR)
    for q in (0.0, 0.25, 0.5, 1.0):
        for way in ("linear", "lower", "higher", "nearest", "midpoint"):
            yield c("quantile.scalar", make(7), q, interpolation=way)
            yield c("quantile", make(3, 6), tensor([q, 0.9]), 1, True, interpolation=way)
    yield c("quantile.scalar", odd, 0.5)
    for x in (make(4, 4), make(2, 5), make(3, 3, dtype=I32), make(3, 3, dtype=BOOL)):
        yield c("trace", x)
    for p in ("prims::sum", "prims::amax"):
        for dims in ([0], [0, 1], [1], None):
            yield c(p, make(3, 4), dims, opt={"oracle": {"prims::sum": lambda x, d: [x.sum(d)], "prims::amax": lambda x, d: [x.amax(d or [0, 1])]}[p]})
    for dims, correction in (([0], 1), ([0, 1], 0), ([1], 2)):
        yield c("prims::var", make(3, 4), dims, correction, opt={"oracle": lambda x, d, k: [x.var(d, correction=k)]})


def scan(full):
    odd = tensor([1.0, NAN, 3.0, -INF, INF, NAN, -0.0])
    for op in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
        for x in (odd, make(), torch.zeros(0), torch.zeros(2, 0), make(3, 4).t(), tensor([1.0, 1.0, 0.0, 1.0]), make(2, 3, 4)):
            yield c(op, x, 0)
            yield c(op, x, -1)
        for n in (33, 1000) if full else (33,):
            for dtype in (F32, F16, BF16):
                yield c(op, make(n, dtype=dtype, low=0.9, high=1.1), 0)
        if op in ("cumsum", "cumprod"):
            for dtype in ALL:
                yield c(op, make(4, dtype=dtype), 0)
                yield c(op, make(4), 0, dtype=dtype)
                yield c(op + "_", make(4, dtype=dtype), 0)
    for n in (0, 1, 2, 3, 5):
        yield c("diff", make(4, 3), n, 0)
    yield c("diff", make(4, 3), 1, 1, make(4, 1), make(4, 2))
    yield c("diff", make(5, dtype=BOOL))


FAMILY = {f.__name__: f for f in (elementwise, reduce, scan)}
