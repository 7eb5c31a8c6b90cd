"""Random numbers: exact values from a seeded generator, and shapes and ranges where a schema takes no generator.

The CPU's generator is a Mersenne Twister; sizes below and above 16 and strided tensors take different paths through it.
"""
import torch

from recorder import Generator

F32, F64, F16, BF16, I64 = torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64
FLOATS, INTS = (F32, F64, F16, BF16), (I64, torch.int32, torch.int16, torch.int8, torch.uint8)


def c(name, *args, opt=None, **kwargs):
    return f"aten::{name}", list(args), kwargs, opt or {}


def generators():
    number = 100
    while True:
        number += 1
        yield Generator(number)


def shapes(dtype):
    """Tensors to fill: sizes around 16, transposed and strided ones."""
    return [torch.zeros(n, dtype=dtype) for n in (1, 5, 15, 16, 17, 40)] + [torch.zeros(6, 4, dtype=dtype).t(), torch.zeros(5, 9, dtype=dtype)[:, ::2],
                                                                          torch.zeros(0, 3, dtype=dtype), torch.zeros((), dtype=dtype)]


def fills():
    g = generators()
    for dtype in FLOATS:
        for x in shapes(dtype):
            yield c("normal_", x, generator=next(g))
            yield c("normal_", x, 2.0, 0.5, generator=next(g))
            yield c("uniform_", x, generator=next(g))
            yield c("uniform_", x, -3.0, 5.0, generator=next(g))
            yield c("exponential_", x, generator=next(g))
            yield c("exponential_", x, 2.5, generator=next(g))
            yield c("random_", x, generator=next(g))
            yield c("bernoulli_.float", x, 0.3, generator=next(g))
        x = torch.zeros(20, dtype=dtype)
        for name, args in (("normal_functional", ()), ("uniform", ()), ("uniform", (1.0, 2.0)), ("exponential", (0.7,)), ("random", ()), ("bernoulli.p", (0.4,))):
            yield c(name, x, *args, generator=next(g))
        for name, args in (("normal.out", ()), ("uniform.out", ()), ("exponential.out", ()), ("random.out", ()), ("bernoulli.float_out", (0.5,))):
            yield c(name, x, *args, generator=next(g), out=torch.zeros(20, dtype=dtype))
        p = torch.rand(20).to(dtype)
        yield c("bernoulli", p, generator=next(g))
        yield c("bernoulli.out", p, generator=next(g), out=torch.zeros(20, dtype=dtype))
        yield c("bernoulli.Tensor", x, p, generator=next(g))
        yield c("bernoulli_.Tensor", x, p, generator=next(g))
        yield c("bernoulli.Tensor_out", x, p, generator=next(g), out=torch.zeros(20, dtype=dtype))
        yield c("poisson", p * 10, generator=next(g))
        yield c("poisson", p * 100, generator=next(g))
        yield c("poisson.out", p * 10, generator=next(g), out=torch.zeros(20, dtype=dtype))
        for n in (5, 20):
            mean, std = torch.randn(n).to(dtype), torch.rand(n).to(dtype)
            yield c("normal.Tensor_Tensor", mean, std, generator=next(g))
            yield c("normal.Tensor_float", mean, 2.0, generator=next(g))
            yield c("normal.float_Tensor", 1.0, std, generator=next(g))
            yield c("normal.float_float", 1.0, 2.0, [n], dtype=dtype, generator=next(g))
            yield c("normal.Tensor_Tensor_out", mean, std, generator=next(g), out=torch.zeros(n, dtype=dtype))
            yield c("normal.Tensor_float_out", mean, 0.5, generator=next(g), out=torch.zeros(n, dtype=dtype))
            yield c("normal.float_Tensor_out", 0.0, std, generator=next(g), out=torch.zeros(n, dtype=dtype))
            yield c("normal.float_float_out", 1.0, 2.0, [n], generator=next(g), out=torch.zeros(n, dtype=dtype))
            yield c("rand.generator", [n], generator=next(g), dtype=dtype)
            yield c("randn.generator", [n], generator=next(g), dtype=dtype)
            yield c("rand.generator", [2, n], generator=next(g), dtype=dtype)
            yield c("randn.generator", [2, n], generator=next(g), dtype=dtype)
            yield c("rand.generator_out", [n], generator=next(g), out=torch.zeros(n, dtype=dtype))
            yield c("randn.generator_out", [n], generator=next(g), out=torch.zeros(n, dtype=dtype))
        for weights in (torch.tensor([0.1, 0.0, 2.0, 0.5]), torch.rand(3, 5)):
            yield c("multinomial", weights.to(dtype), 6, True, generator=next(g))
            yield c("multinomial", weights.to(dtype), 2, generator=next(g))
            yield c("multinomial", weights.to(dtype), 1, generator=next(g))
            yield c("multinomial.out", weights.to(dtype), 2, generator=next(g), out=torch.zeros(0, dtype=I64))
        y = torch.randn(20).to(dtype)
        yield c("rrelu", y, 0.1, 0.4, True, next(g))
        yield c("rrelu_", y, 0.1, 0.4, True, next(g))
        yield c("rrelu", y, 0.1, 0.4, False)
        yield c("rrelu_with_noise_functional", y, torch.zeros(20, dtype=dtype), 0.1, 0.4, True, next(g))
        yield c("rrelu_with_noise_", y, torch.zeros(20, dtype=dtype), 0.1, 0.4, True, next(g))
    for dtype in INTS:
        for x in shapes(dtype)[2:7:2]:
            yield c("random_", x, generator=next(g))
            yield c("bernoulli_.float", x, 0.5, generator=next(g))
    yield c("random_", torch.zeros(9, dtype=torch.bool), generator=next(g))
    yield c("randint.low", 0, 0, [3], opt={"expect_error": True})
    for name, args in (("normal_", (0.0, -1.0)), ("uniform_", (2.0, 1.0)), ("exponential_", (-1.0,)), ("bernoulli_.float", (1.5,))):
        yield c(name, torch.zeros(4), *args, generator=next(g), opt={"expect_error": True})
    yield c("multinomial", torch.tensor([0.0, 1.0]), 2, generator=next(g), opt={"expect_error": True})
    yield c("multinomial", torch.tensor([-1.0, 1.0]), 1, generator=next(g), opt={"expect_error": True})
    yield c("bernoulli", torch.tensor([1.5]), generator=next(g), opt={"expect_error": True})


def without_generator():
    for dtype in (None, *FLOATS):
        kw = {"dtype": dtype} if dtype else {}
        for size in ([3, 4], [0], []):
            yield c("rand", size, **kw, opt={"check": "shape", "ranges": [0, 1]})
            yield c("randn", size, **kw, opt={"check": "shape", "ranges": [-9, 9]})
        x = torch.zeros(2, 3, 4, dtype=dtype or F32).transpose(0, 2)
        yield c("rand_like", x, opt={"check": "shape", "ranges": [0, 1]})
        yield c("randn_like", x, opt={"check": "shape", "ranges": [-9, 9]})
        yield c("randint_like", x, 7, opt={"check": "shape", "ranges": [0, 6]})
        yield c("randint_like.low_dtype", x, -3, 7, opt={"check": "shape", "ranges": [-3, 6]})
    for name, args, low, high in (("rand", ([4],), 0, 1), ("randn", ([4],), -9, 9), ("randint", (7, [4]), 0, 6), ("randint.low", (2, 7, [4]), 2, 6)):
        out = name + (".out" if "." not in name else "_out")
        yield c(out, *args, out=torch.zeros(4), opt={"check": "shape", "ranges": [low, high]})
    for dtype in (I64, F32, torch.uint8):
        yield c("randint", 9, [3, 4], dtype=dtype, opt={"check": "shape", "ranges": [0, 8]})
        yield c("randint.low", 2, 9, [3, 4], dtype=dtype, opt={"check": "shape", "ranges": [2, 8]})
    for name, args, low, high in (("rand_like", (), 0, 1), ("randn_like", (), -9, 9), ("randint_like", (5,), 0, 4), ("randint_like.low_dtype", (1, 5), 1, 4)):
        out = name + (".out" if "." not in name else "_out")
        yield c(out, torch.zeros(4), *args, out=torch.zeros(4), opt={"check": "shape", "ranges": [low, high]})
    for n in (0, 1, 10):
        yield c("randperm", n, opt={"check": "set"})
        yield c("randperm", n, dtype=torch.int32, opt={"check": "set"})
        yield c("randperm.out", n, out=torch.zeros(n, dtype=I64), opt={"check": "set"})
    yield c("randperm", -1, opt={"expect_error": True})


def dropouts():
    for dtype in FLOATS:
        x = torch.randn(3, 8).to(dtype)
        for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
            for twin in (name, name + "_"):
                for p, train in ((0.5, False), (0.0, True), (0.5, True)):
                    random = p > 0 and train
                    yield c(twin, x, p, train, opt={"check": "shape"} if random else {})
        for p, train in ((0.5, False), (0.0, True), (1.0, True), (0.3, None), (0.5, True)):
            yield c("native_dropout", x, p, train)
        yield c("dropout", x, 1.0, True)
        yield c("native_dropout_backward", x, torch.arange(24).view(3, 8) % 3 == 0, 1.5)
        yield c("native_dropout.out", x, 0.5, False, out0=torch.zeros(3, 8, dtype=dtype), out1=torch.zeros(3, 8, dtype=torch.bool))
    yield c("dropout", torch.zeros(3), 1.5, True, opt={"expect_error": True})


def calls(family, full):
    if family == "random":
        yield from fills()
        yield from without_generator()
        yield from dropouts()
