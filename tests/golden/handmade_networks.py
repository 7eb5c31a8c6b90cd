"""Cases of the families of neural networks that PyTorch's samples do not reach, or not all of.

Where PyTorch has no CPU kernel (cudnn_*, flash attention, the library's own fusions), the results come from its other operators, by the definition.
"""
import itertools
import math

import torch
import torch.nn.functional as F

from recorder import ANY

F32, F16, BF16, F64, I64, I32, I8, U8 = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8)
FLOATS, HALVES = (F32, F64, F16, BF16), (F16, BF16)
ops = torch.ops.aten
ERROR = {"expect_error": True}


def c(name, *args, opt=None, **kwargs):
    return name if "::" in name else f"aten::{name}", list(args), kwargs, opt or {}


def r(*shape, dtype=F32, low=None, high=None):
    x = torch.randn(shape, dtype=F64) if low is None else torch.empty(shape, dtype=F64).uniform_(low, high)
    return x.to(dtype)


def last(x):
    return x.to(memory_format=torch.channels_last)


# ---- Normalisation ----

def norm(full):
    for dtype in FLOATS:
        for shape in ((2, 4, 5), (3, 4), (2, 4, 3, 3), (1, 4, 2, 2, 2)):
            x, w, b, mean, var = r(*shape, dtype=dtype), r(4, dtype=dtype), r(4, dtype=dtype), r(4, dtype=dtype), r(4, dtype=dtype, low=0.5, high=2)
            for train in (True, False):
                yield c("batch_norm", x, w, b, mean, var, train, 0.1, 1e-5, True)
                yield c("native_batch_norm", x, w, b, mean, var, train, 0.1, 1e-5)
                yield c("_native_batch_norm_legit", x, w, b, mean, var, train, 0.3, 1e-3)
                yield c("_native_batch_norm_legit_functional", x, w, b, mean, var, train, 0.1, 1e-5)
                yield c("_batch_norm_impl_index", x, w, b, mean, var, train, 0.1, 1e-5, False, opt={"oracle": impl_index})
                if train:
                    yield c("_batch_norm_with_update_functional", x, w, b, mean, var, 0.1, 1e-5)
                if dtype == F32:
                    yield c("cudnn_batch_norm", x, w, b, mean, var, train, 0.1, 1e-5, opt={"oracle": cudnn_batch_norm})
                    yield c("miopen_batch_norm", x, w, b, mean, var, train, 0.1, 1e-5, opt={"oracle": lambda *a: cudnn_batch_norm(*a)[:3]})
            yield c("batch_norm", x, None, None, None, None, True, 0.1, 1e-5, True)
            yield c("batch_norm", x, None, None, mean, var, False, 0.1, 1e-5, True)
            yield c("_native_batch_norm_legit.no_stats", x, w, b, True, 0.1, 1e-5)
            yield c("_native_batch_norm_legit_no_training", x, w, b, mean, var, 0.1, 1e-5)
            yield c("_batch_norm_no_update", x, w, b, mean, var, 0.1, 1e-5)
            yield c("_batch_norm_with_update", x, w, b, mean, var, 0.1, 1e-5)
            if len(shape) > 2:
                yield c("instance_norm", x, w, b, mean, var, True, 0.1, 1e-5, False)
                yield c("instance_norm", x, w, b, mean, var, False, 0.1, 1e-5, False)
                yield c("instance_norm", x, None, None, None, None, True, 0.1, 1e-5, False)
                for groups in (1, 2, 4):
                    yield c("group_norm", x, groups, w, b, 1e-5, True)
                    rest = math.prod(shape[2:])
                    yield c("native_group_norm", x, w, b, shape[0], 4, rest, groups, 1e-5)
                    yield c("native_group_norm", x, None, None, shape[0], 4, rest, groups, 1e-3)
        x = last(r(2, 4, 3, 5, dtype=dtype))
        yield c("batch_norm", x, r(4, dtype=dtype), r(4, dtype=dtype), r(4, dtype=dtype), r(4, dtype=dtype, low=1, high=2), False, 0.1, 1e-5, True)
        yield c("group_norm", x, 2, r(4, dtype=dtype), r(4, dtype=dtype), 1e-5, True)
        for shape, normal in (((3, 4), [4]), ((2, 3, 4), [3, 4]), ((2, 3, 17), [17]), ((4, 100), [100]), ((0, 4), [4]), ((2, 3, 1), [1])):
            x, w, b = r(*shape, dtype=dtype), r(*normal, dtype=dtype), r(*normal, dtype=dtype)
            for weight, bias in ((w, b), (w, None), (None, None)):
                yield c("layer_norm", x, normal, weight, bias)
                yield c("native_layer_norm", x, normal, weight, bias, 1e-5)
            for eps in (None, 1e-6):
                yield c("rms_norm", x, normal, w, eps)
                yield c("rms_norm", x, normal, None, eps)
                yield c("_fused_rms_norm", x, normal, w, eps, opt={})
            if dtype in HALVES:
                yield c("native_layer_norm", x, normal, w.float(), b.float(), 1e-5)
        yield c("layer_norm", r(3, 4, dtype=dtype).t(), [3], r(3, dtype=dtype))
        yield c("layer_norm", 1000 + r(3, 64, dtype=dtype), [64])
        for dim in (0, 1, -1):
            v = r(4, 3, dtype=dtype)
            g = torch.norm_except_dim(v.float(), 2, dim).to(dtype) * 2
            yield c("_weight_norm", v, g, dim)
            if dim >= 0:
                yield c("_weight_norm_interface", v, g, dim)
        yield c("renorm", r(4, 5, dtype=dtype), 2, 0, 1.0)
    yield c("_weight_norm_interface.out", r(4, 3), r(4, 1), 0, out0=torch.zeros(4, 3), out1=torch.zeros(4, 1))
    yield c("layer_norm", r(3, 4), [3], opt=ERROR)
    yield c("batch_norm", r(3, 4), r(3), None, None, None, True, 0.1, 1e-5, True, opt=ERROR)
    yield c("group_norm", r(2, 3, 4), 2, opt=ERROR)
    for dtype in (F32, F64):
        x, w = r(4, 6, dtype=dtype), r(6, dtype=dtype)
        _, mean, rstd = ops.native_layer_norm(x, [6], w, w, 1e-5)
        for mask in ([True] * 3, [True, False, False]):
            yield c("native_layer_norm_backward", r(4, 6, dtype=dtype), x, [6], mean, rstd, w, w, mask)
        x, w = r(2, 4, 3, dtype=dtype), r(4, dtype=dtype)
        _, mean, rstd = ops.native_group_norm(x, w, w, 2, 4, 3, 2, 1e-5)
        for mask in ([True] * 3, [True, False, False]):
            yield c("native_group_norm_backward", r(2, 4, 3, dtype=dtype), x, mean, rstd, w, 2, 4, 3, 2, mask)


def impl_index(*args):
    out, mean, rstd, _, _ = ops._batch_norm_impl_index(*args)
    return [out, mean if args[5] else ANY, rstd if args[5] else ANY, ANY, ANY]


def cudnn_batch_norm(x, w, b, mean, var, train, momentum, eps):
    out, save_mean, save_rstd = ops.native_batch_norm(x, w, b, mean, var, train, momentum, eps)
    return [out, save_mean if train else torch.zeros(0), save_rstd if train else torch.zeros(0), ANY]


# ---- Convolution ----

def conv(full):
    for dtype in FLOATS:
        for rank in (1, 2, 3):
            size, kernel = (8, 7, 6)[:rank], (3, 2, 3)[:rank]
            x, w, b = r(2, 4, *size, dtype=dtype), r(6, 2, *kernel, dtype=dtype), r(6, dtype=dtype)
            ones, name = [1] * rank, f"conv{rank}d"
            yield c(name, x, w, b, [2] * rank, [1] * rank, ones, 2)
            yield c(name, x, w, None, ones, [0] * rank, [2] * rank, 2)
            yield c(name, x[0], w, b, ones, ones, ones, 2)
            for padding in ("same", "valid"):
                yield c(name + ".padding", x, w, b, ones, padding, ones, 2)
            yield c("convolution", x, w, b, [2] * rank, [1] * rank, ones, False, [0] * rank, 2)
            yield c("convolution", x, r(4, 3, *kernel, dtype=dtype), r(6, dtype=dtype), [2] * rank, [1] * rank, ones, True, [1] * rank, 2)
            yield c("_convolution", x, w, b, ones, ones, ones, False, [0] * rank, 2, False, False, True, True)
            transposed = f"conv_transpose{rank}d" + (".input" if rank > 1 else "")
            yield c(transposed, x, r(4, 3, *kernel, dtype=dtype), None, [2] * rank, [1] * rank, [1] * rank, 2, ones)
            yield c(transposed, x, r(4, 3, *kernel, dtype=dtype), r(6, dtype=dtype), [3] * rank, [0] * rank, [0] * rank, 2, [2] * rank)
            yield c(transposed, x, r(4, 5, *kernel, dtype=dtype), r(5, dtype=dtype))
            yield c(name, x, r(4, 1, *kernel, dtype=dtype), r(4, dtype=dtype), ones, ones, ones, 4)      # depthwise
            yield c(name, x, r(8, 1, *kernel, dtype=dtype), None, [2] * rank, [0] * rank, ones, 4)
            yield c(name, x, r(5, 4, *ones, dtype=dtype), r(5, dtype=dtype))                               # pointwise
            yield c(name, r(0, 4, *size, dtype=dtype), r(5, 4, *kernel, dtype=dtype), r(5, dtype=dtype))
            yield c("mkldnn_convolution", x, w, b, [1] * rank, ones, ones, 2, opt={"oracle": lambda x, w, b, p, s, d, g: [ops.convolution(x, w, b, s, p, d, False, [0] * len(p), g)]})
            yield c("cudnn_convolution", x, w, [1] * rank, [2] * rank, ones, 2, False, False, True,
                    opt={"oracle": lambda x, w, p, s, d, g, *a: [ops.convolution(x, w, None, s, p, d, False, [0] * len(p), g)]})
            if rank > 1:
                depthwise = "_conv_depthwise2d" if rank == 2 else "conv_depthwise3d"
                yield c(depthwise, x, r(4, 1, *kernel, dtype=dtype), list(kernel), r(4, dtype=dtype), ones, ones, ones,
                        opt={"oracle": lambda x, w, k, b, s, p, d: [ops.convolution(x, w, b, s, p, d, False, [0] * len(k), x.shape[1])]})
        yield c("nbx::depthwise_conv2d", r(2, 4, 6, 5, dtype=dtype), r(4, 1, 3, 3, dtype=dtype), r(4, dtype=dtype), [1, 1], [1, 1],
                opt={"oracle": lambda x, w, b, s, p: [F.conv2d(x, w, b, s, p, 1, x.shape[1])]})
        yield c("conv2d", last(r(2, 8, 9, 7, dtype=dtype)), last(r(6, 8, 3, 3, dtype=dtype)), r(6, dtype=dtype), [1, 1], [1, 1])
        yield c("conv2d", r(1, 3, 16, 16, dtype=dtype), r(8, 3, 7, 7, dtype=dtype), None, [2, 2], [3, 3])
        yield c("conv1d", r(1, 40, 50, dtype=dtype), r(33, 40, 3, dtype=dtype))
        x = r(2, 3, 6, 5, dtype=dtype)
        for k, d, p, s in (([2, 3], [1, 1], [0, 0], [1, 1]), ([3, 2], [1, 2], [1, 1], [2, 1]), ([1, 1], [1, 1], [0, 0], [1, 1])):
            yield c("im2col", x, k, d, p, s)
            columns = F.unfold(x.float(), k, d, p, s).to(dtype)
            yield c("col2im", columns, [6, 5], k, d, p, s)
            yield c("col2im", columns[0], [6, 5], k, d, p, s)
        yield c("col2im.out", F.unfold(x.float(), [2, 2]).to(dtype), [6, 5], [2, 2], [1, 1], [0, 0], [1, 1], out=torch.zeros(0, dtype=dtype))
    for dtype in (torch.complex64, I64):
        yield c("conv2d", r(1, 2, 5, 5).mul(3).to(dtype), r(3, 2, 2, 2).mul(3).to(dtype), opt={"errors": False})
        yield c("conv1d", r(1, 2, 5).mul(3).to(dtype), r(3, 2, 2).mul(3).to(dtype), opt={"errors": False})
    for bad in ((r(1, 3, 5, 5), r(2, 4, 3, 3)), (r(1, 3, 2, 2), r(2, 3, 3, 3)), (r(3, 5), r(2, 3, 3, 3)), (r(1, 3, 5, 5), r(2, 3, 3, 3, dtype=F64))):
        yield c("conv2d", *bad, opt=ERROR)
    yield c("conv2d", r(1, 3, 5, 5), r(2, 3, 3, 3), r(3), opt=ERROR)
    yield c("conv2d", r(1, 3, 5, 5), r(2, 3, 3, 3), None, [0, 1], opt=ERROR)
    yield c("conv2d", r(1, 3, 5, 5), r(2, 3, 3, 3), None, [1, 1], [-1, 0], opt=ERROR)
    for transposed in (False, True):
        x, w = r(2, 4, 6, 5), r(4 if transposed else 6, 6 // 2 if transposed else 2, 3, 3)
        out = ops.convolution(x, w, None, [2, 1], [1, 1], [1, 1], transposed, [1, 0] if transposed else [0, 0], 2)
        for mask in ([True] * 3, [True, False, False]):
            yield c("convolution_backward", r(*out.shape), x, w, [6], [2, 1], [1, 1], [1, 1], transposed, [1, 0] if transposed else [0, 0], 2, mask)
    for dtype in (F32, F64, F16):
        for offset_groups, mask in ((1, True), (2, False)):
            x, w = r(2, 4, 6, 5, dtype=dtype), r(6, 2, 3, 3, dtype=dtype)
            offset, m = r(2, 2 * offset_groups * 9, 4, 3, dtype=dtype), r(2, offset_groups * 9, 4, 3, dtype=dtype, low=0, high=1)
            yield c("torchvision::deform_conv2d", x, w, offset, m if mask else torch.zeros(2, 1, dtype=dtype), r(6, dtype=dtype), 1, 1, 0, 0, 1, 1, 2, offset_groups, mask)
            yield c("torchvision::deform_conv2d", x, w, r(2, 2 * offset_groups * 9, 3, 3, dtype=dtype), r(2, offset_groups * 9, 3, 3, dtype=dtype), r(6, dtype=dtype),
                    2, 2, 1, 1, 1, 1, 2, offset_groups, True)


# ---- Pooling, resampling, detection ----

def pool(full):
    for dtype in FLOATS:
        x1, x2, x3 = r(2, 3, 9, dtype=dtype), r(2, 3, 7, 8, dtype=dtype), r(1, 2, 5, 6, 7, dtype=dtype)
        for ceil in (False, True):
            for k, s, p, d in ((2, [], 0, 1), (3, 2, 1, 1), (2, 3, 1, 2)):
                for rank, x in ((1, x1), (2, x2), (3, x3)):
                    stride = s if s == [] else [s] * rank
                    yield c(f"max_pool{rank}d", x, [k] * rank, stride, [p] * rank, [d] * rank, ceil)
                    yield c(f"max_pool{rank}d_with_indices", x, [k] * rank, stride, [p] * rank, [d] * rank, ceil)
                    if d == 1:
                        for counted in (True, False):
                            yield c(f"avg_pool{rank}d", x, [k] * rank, stride, [p] * rank, ceil, counted, *([] if rank == 1 else [None if counted else 3]))
        yield c("max_pool2d", last(x2), [3, 3], [2, 2], [1, 1])
        yield c("avg_pool2d", last(x2), [3, 3], [2, 2], [1, 1])
        for n in (1, 3, 4):
            for rank, x in ((1, x1), (2, x2), (3, x3)):
                yield c(f"adaptive_avg_pool{rank}d", x, [n] * rank)
                yield c(f"adaptive_max_pool{rank}d", x, [n] * rank)
        yield c("adaptive_avg_pool2d", last(x2), [3, 2])
        nan = x2.clone()
        nan[0, 0, 2, 2] = math.nan
        yield c("max_pool2d_with_indices", nan, [2, 2])
        yield c("adaptive_max_pool2d", nan, [3, 3])
        yield c("max_pool2d", torch.full((1, 1, 3, 3), -math.inf, dtype=dtype), [2, 2], [], [1, 1])
    for dtype in (F32, F64):
        x = r(2, 3, 7, 8, dtype=dtype)
        yield c("_adaptive_avg_pool2d_backward", r(2, 3, 3, 2, dtype=dtype), x)
        yield c("avg_pool2d_backward", r(2, 3, 3, 4, dtype=dtype), x, [2, 2], [2, 2], [0, 0], False, True, None)
        yield c("avg_pool2d_backward", r(2, 3, 4, 4, dtype=dtype), x, [3, 3], [2, 2], [1, 1], False, False, None)
        out, where = ops.max_pool2d_with_indices(x, [2, 2])
        yield c("max_pool2d_with_indices_backward", r(*out.shape, dtype=dtype), x, [2, 2], [], [0, 0], [1, 1], False, where)
        yield c("max_unpool2d", out, where, [7, 8])
    yield c("_adaptive_avg_pool2d_backward.out", r(1, 2, 2, 2), r(1, 2, 4, 4), out=torch.zeros(0))
    yield c("avg_pool2d_backward.grad_input", r(1, 2, 2, 2), r(1, 2, 4, 4), [2, 2], [2, 2], [0, 0], False, True, None, grad_input=torch.zeros(0))
    yield c("max_pool2d", r(1, 2, 4, 4), [2, 2], [1, 1], [2, 2], opt=ERROR)
    yield c("max_pool2d", r(1, 2, 2, 2), [3, 3], opt=ERROR)
    yield c("avg_pool2d", r(1, 2, 4, 4), [2, 2], [0, 0], opt=ERROR)
    yield c("avg_pool2d", r(1, 2, 4, 4), [2, 2], [1, 1], [0, 0], False, True, 0, opt=ERROR)


def resample(full):
    for dtype in (F32, F64, F16, BF16, U8):
        make = (lambda *s: torch.randint(0, 256, s, dtype=U8)) if dtype == U8 else (lambda *s, d=dtype: r(*s, dtype=d))
        x1, x2, x3 = make(2, 3, 7), make(2, 3, 5, 6), make(1, 2, 3, 4, 5)
        for kind, x, rank in (("nearest1d", x1, 1), ("nearest2d", x2, 2), ("nearest3d", x3, 3), ("linear1d", x1, 1), ("bilinear2d", x2, 2), ("bicubic2d", x2, 2), ("trilinear3d", x3, 3)):
            aligned = [] if kind.startswith("near") else [None]
            for size in ([9, 4, 8], [3, 11, 2], [1, 1, 1], [7, 6, 5])[:4 if full else 2]:
                size = size[:rank]
                scales = [None] * rank
                for align in ((False, True) if aligned else (None,)):
                    extra = [align] if aligned else []
                    yield c("upsample_" + kind, x, size, *extra, *scales)
                    yield c("upsample_" + kind, x, [int(n * 1.7) for n in x.shape[2:]], *extra, *[1.7] * rank)
                    yield c(f"upsample_{kind}.vec", x, size, *extra, None)
                    yield c(f"upsample_{kind}.vec", x, None, *extra, [0.6] * rank)
                    yield c(f"upsample_{kind}.vec", x, None, *extra, [2.3] * rank)
                    if rank == 2:
                        yield c("upsample_" + kind, last(x), size, *extra, *scales)
                        if kind != "nearest2d":
                            aa = f"_upsample_{kind}_aa"
                            yield c(aa, x, size, align, None, None)
                            yield c(aa + ".vec", x, None, align, [0.5, 0.7])
                            yield c(aa, make(1, 2, 13, 12), [4, 5], align, None, None)
                if not aligned:
                    exact = f"_upsample_nearest_exact{rank}d"
                    yield c(exact, x, size, *scales)
                    yield c(exact, x, [int(n * 1.7) for n in x.shape[2:]], *[1.7] * rank)
                    yield c(exact + ".vec", x, None, [0.6] * rank)
            yield c(f"upsample_{kind}.out", x, [4] * rank, *([False] if aligned else []), *[None] * rank, out=torch.zeros(0, dtype=dtype))
        for aa in ("bilinear2d", "bicubic2d"):
            yield c(f"_upsample_{aa}_aa.out", x2, [3, 4], False, None, None, out=torch.zeros(0, dtype=dtype))
        for rank, x in ((1, x1), (2, x2), (3, x3)):
            yield c(f"_upsample_nearest_exact{rank}d.out", x, [4] * rank, *[None] * rank, out=torch.zeros(0, dtype=dtype))
        if dtype != U8:
            for mode in ("nearest", "bilinear", "bicubic", "nearest-exact", "area"):
                for size, scale, align in (([7, 4], None, None), (None, [1.5, 2.0], None)):
                    align = False if mode in ("bilinear", "bicubic") else None
                    yield c("nbx::interpolate", x2, size, scale, mode, align, opt={"oracle": lambda x, s, f, m, a: [F.interpolate(x, s, f, m, a)]})
            yield c("nbx::interpolate", x2, None, [0.4, 0.5], "bilinear", False, None, True,
                    opt={"oracle": lambda x, s, f, m, a, rc, aa: [F.interpolate(x, s, f, m, a, rc, aa)]})
    for dtype in (F32, F64, F16, BF16):
        for align in (False, True):
            theta2, theta3 = r(2, 2, 3, dtype=dtype), r(1, 3, 4, dtype=dtype)
            yield c("affine_grid_generator", theta2, [2, 3, 4, 5], align)
            yield c("affine_grid_generator", theta3, [1, 2, 2, 3, 4], align)
            x, grid = r(2, 3, 5, 6, dtype=dtype), r(2, 4, 3, 2, dtype=dtype, low=-1.5, high=1.5)
            for mode, padding in itertools.product((0, 1, 2), (0, 1, 2)):
                yield c("grid_sampler_2d", x, grid, mode, padding, align)
                if mode < 2:
                    yield c("grid_sampler_3d", r(1, 2, 3, 4, 5, dtype=dtype), r(1, 2, 3, 2, 3, dtype=dtype, low=-1.5, high=1.5), mode, padding, align)
            special = torch.tensor([[[[math.nan, 0.0], [math.inf, 1.0], [-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [0.2, 0.4]]]], dtype=dtype)
            yield c("grid_sampler_2d", r(1, 1, 5, 5, dtype=dtype), special, 0, 0, align)
            yield c("grid_sampler", x, grid, 1, 1, align)
    yield c("affine_grid_generator.out", r(1, 2, 3), [1, 1, 2, 2], False, out=torch.zeros(0))
    v = "torchvision::"
    boxes = torch.tensor([[0, 0, 0, 6, 7], [1, 1.5, 2.2, 7.3, 5.1], [0, 3, 3, 2, 2], [1, -2, -2, 20, 20.0]])
    for dtype in (F32, F64, F16):
        x, b = r(2, 8, 8, 9, dtype=dtype), boxes.to(dtype)
        for scale, ratio, aligned in ((1.0, 2, False), (0.5, -1, True), (0.25, 1, True)):
            yield c(v + "roi_align", x, b, scale, 2, 3, ratio, aligned)
        if dtype != F16:
            yield c(v + "roi_pool", x, b, 0.7, 2, 2)
            yield c(v + "ps_roi_align", x, b, 0.8, 2, 2, 2)
            yield c(v + "ps_roi_pool", x, b, 0.8, 2, 2)
    for n, threshold in ((0, 0.5), (1, 0.5), (30, 0.3), (30, 0.7), (100, 0.5)):
        corner, size = r(n, 2, low=0, high=20), r(n, 2, low=1, high=15)
        for dtype in (F32, F64):
            yield c(v + "nms", torch.cat([corner, corner + size], 1).to(dtype), torch.rand(n).to(dtype), threshold)
    same = torch.tensor([[0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6.0]])
    yield c(v + "nms", same, torch.tensor([0.5, 0.5, 0.5]), 0.5)
    yield c(v + "nms", r(3, 5), torch.rand(3), 0.5, opt=ERROR)


# ---- Matrix products ----

def matmul(full):
    shapes = [((), (), ERROR), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
              ((2, 1, 2, 3), (5, 3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((5, 0, 3), (5, 3, 2)), ((2, 3), (4, 5), ERROR), ((2, 2, 3), (3, 3, 4), ERROR), ((1, 1), (1, 1)),
              ((17, 33), (33, 19)), ((1, 64), (64, 48)), ((64, 1), (1, 5)), ((40, 70), (70, 50))]
    for dtype in (*FLOATS, torch.complex64, I64, I32, U8):
        make = (lambda *s, d=dtype: torch.randint(0, 9, s, dtype=d)) if dtype in (I64, I32, U8) else (lambda *s, d=dtype: torch.randn(s, dtype=d) if d.is_complex else r(*s, dtype=d))
        for a, b, *opt in shapes:
            yield c("matmul", make(*a), make(*b), opt=opt[0] if opt else {})
        yield c("mm", make(3, 2).t(), make(4, 3).t())
        yield c("bmm", make(2, 3, 4).transpose(0, 1).contiguous().transpose(0, 1), make(4, 2, 3).permute(1, 0, 2))
        for beta, alpha in ((1, 1), (0, 1), (2, 3), (0, 0)) + (((0.5, -1.5),) if dtype.is_floating_point else ()):
            yield c("addmm", make(4), make(3, 5), make(5, 4), beta=beta, alpha=alpha)
            yield c("baddbmm", make(2, 1, 4), make(2, 3, 5), make(2, 5, 4), beta=beta, alpha=alpha)
            yield c("addmv", make(3), make(3, 5), make(5), beta=beta, alpha=alpha)
            yield c("addbmm", make(3, 4), make(2, 3, 5), make(2, 5, 4), beta=beta, alpha=alpha)
            yield c("addr", make(3, 4), make(3), make(4), beta=beta, alpha=alpha)
        yield c("addmm", make(3, 4), make(3, 0), make(0, 4))
        if dtype.is_floating_point:
            nan = torch.full((3, 4), math.nan, dtype=dtype)
            yield c("addmm", nan, make(3, 5), make(5, 4), beta=0)
            yield c("baddbmm", nan.expand(2, 3, 4), make(2, 3, 5), make(2, 5, 4), beta=0)
            yield c("addmv", nan[:, 0], make(3, 5), make(5), beta=0)
            for gelu in (False, True):
                yield c("_addmm_activation", make(4), make(3, 5), make(5, 4), use_gelu=gelu)
            yield c("_addmm_activation.out", make(4), make(3, 5), make(5, 4), out=torch.zeros(3, 4, dtype=dtype))
            for kind, gelu in (("silu", "none"), ("gelu", "none"), ("gelu", "tanh")):
                yield c("nbx::mm_epilogue", make(3, 5), make(5, 4), kind, gelu, opt={"oracle": lambda a, b, k, g: [activation(a @ b, k, g)]})
                yield c("nbx::addmm_epilogue", make(4), make(3, 5), make(5, 4), 1, 1, kind, gelu,
                        opt={"oracle": lambda s, a, b, beta, alpha, k, g: [activation(torch.addmm(s, a, b, beta=beta, alpha=alpha), k, g)]})
        yield c("linear", make(2, 3, 5), make(4, 5), make(4))
        yield c("linear", make(5), make(4, 5))
        yield c("linear", make(0, 5), make(4, 5), make(4))
        yield c("ger", make(3), make(4))
        yield c("ger.out", make(3), make(4), out=torch.zeros(3, 4, dtype=dtype))
        yield c("dot", make(0), make(0))
    yield c("mm", r(2, 3), r(3, 4, dtype=F64), opt=ERROR)
    yield c("mm", r(3), r(3, 4), opt=ERROR)
    yield c("linear", r(2, 3), r(4, 5), opt=ERROR)
    for dtype in HALVES:
        a, b = r(3, 5, dtype=dtype), r(5, 4, dtype=dtype)
        yield c("mm.dtype", a, b, F32, opt={"oracle": lambda a, b, d: [a.float() @ b.float()]})
        yield c("bmm.dtype", a[None], b[None], F32, opt={"oracle": lambda a, b, d: [a.float() @ b.float()]})
        yield c("addmm.dtype", r(4), a, b, F32, opt={"oracle": lambda s, a, b, d: [s + a.float() @ b.float()]})
        yield c("baddbmm.dtype", r(1, 3, 4), a[None], b[None], F32, opt={"oracle": lambda s, a, b, d: [s + a.float() @ b.float()]})
    for dtype in (F32, BF16):
        for offs in ([2, 5, 6], [0, 6, 6]):
            offs = torch.tensor(offs, dtype=I32)
            x, w = r(6, 16, dtype=dtype), r(3, 16, 8, dtype=dtype)
            yield c("transformers::grouped_mm_fallback", x, w, offs, opt={"oracle": grouped})
            yield c("_grouped_mm", x.to(BF16), w.to(BF16), offs)
            yield c("_grouped_mm", x.to(BF16), w.to(BF16).transpose(1, 2).contiguous().transpose(1, 2), offs)
    a8, b8 = torch.randint(-128, 128, (20, 16), dtype=I8), torch.randint(-128, 128, (16, 24), dtype=I8)
    yield c("_int_mm", a8, b8)
    yield c("_int_mm", a8, b8.t().contiguous().t())
    yield c("_int_mm.out", a8, b8, out=torch.zeros(20, 24, dtype=I32))
    yield c("_int_mm", a8.int(), b8, opt=ERROR)
    for fp8 in (torch.float8_e4m3fn, torch.float8_e5m2):
        x, w = r(4, 16).to(fp8 if fp8 != torch.float8_e5m2 else torch.float8_e4m3fn), r(8, 16).to(fp8).t()
        for out in (None, F32, BF16):
            yield c("_scaled_mm", x, w, torch.tensor(0.5), torch.tensor(2.0), None, None, out, opt={"errors": False})
        yield c("_scaled_mm", x, w, torch.tensor(0.5), torch.tensor(2.0), r(8).to(BF16), None, BF16, opt={"errors": False})
        yield c("_scaled_mm", x, w, r(4, 1, low=0.5, high=1), r(1, 8, low=0.5, high=1), None, None, BF16, opt={"errors": False})
    yield from quantized()
    yield c("_trilinear", r(2, 3, 1), r(2, 3, 1), r(2, 3, 4), [], [], [], [1], 1)
    for p in (0.0, 1.0, 2.0, math.inf, 3.5):
        yield c("cdist", r(2, 3, 4), r(2, 5, 4), p)
        yield c("pdist", r(4, 3), p)
        yield c("_cdist_forward", r(3, 4), r(5, 4), p, None)
    for mode in (0, 1, 2):
        yield c("cdist", r(30, 4), r(28, 4), 2.0, mode)
    for text, shapes in (("ij,jk->ik", ((2, 3), (3, 4))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("ii->i", ((3, 3),)), ("ij->", ((2, 3),)), ("i,j->ij", ((2,), (3,))),
                         ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))), ("...ij,...jk", ((2, 3, 4), (4, 2))), ("ijk,il,jl->kl", ((2, 3, 4), (2, 5), (3, 5))), ("ij->ji", ((2, 3),)),
                         ("b i, b j -> b i j", ((2, 3), (2, 4))), ("iij->ij", ((2, 2, 3),))):
        yield c("einsum", text, [r(*s) for s in shapes])
    yield c("einsum", "ij,jk->ik", [r(2, 3), r(4, 5)], opt=ERROR)
    yield c("tensordot", r(2, 3, 4), r(4, 3, 5), [1, 2], [1, 0])


def quantized():
    for dtype in (BF16, F16, F32):
        for m, n, k in ((5, 8, 16), (1, 33, 320), (7, 3, 64)):
            yield c("_weight_int8pack_mm", r(m, k, dtype=dtype), torch.randint(-128, 128, (n, k), dtype=I8), r(n, dtype=dtype, low=0.01, high=0.1))
    weights = torch.randint(-128, 128, (4, 8), dtype=I8)
    yield c("_weight_int8pack_mm", r(3, 16)[:, :8], weights, r(4))
    yield c("_weight_int8pack_mm", r(0, 8), weights, r(4))
    for x, w, s in ((r(3, 16)[:, ::2], weights, r(4)), (r(3, 8, dtype=F64), weights, r(4, dtype=F64)), (r(3, 8, dtype=F16), weights, r(4)),
                    (r(3, 8), weights.t().contiguous().t(), r(4)), (r(3, 8), weights, r(5)), (r(3, 7), weights, r(4)), (r(3, 8), weights, r(4, 1))):
        yield c("_weight_int8pack_mm", x, w, s, opt=ERROR)
    for n in (16, 48, 64, 80, 144):                 # PyTorch must run with AVX-512: its layout depends on the processor
        yield c("_convert_weight_to_int4pack_for_cpu", torch.randint(0, 16, (n, 6), dtype=I32), 2)
    yield c("_convert_weight_to_int4pack_for_cpu", torch.randint(-9, 25, (6, 64), dtype=I32).t(), 1)
    for q in (torch.zeros(15, 4, dtype=I32), torch.zeros(16, 3, dtype=I32), torch.zeros(16, 4, dtype=U8), torch.zeros(16, dtype=I32)):
        yield c("_convert_weight_to_int4pack_for_cpu", q, 1, opt=ERROR)
    for dtype in (BF16, F16, F32):
        for m, n, k, group in ((3, 32, 64, 32), (1, 144, 64, 64), (5, 80, 256, 128), (2, 64, 512, 256)):
            q = torch.randint(0, 16, (n, k), dtype=I32)
            yield c("_weight_int4pack_mm_for_cpu", r(m, k, dtype=dtype), packed4(q), group, r(k // group, n, 2, dtype=dtype, low=0.01, high=0.1),
                    opt={"errors": False})
    q = packed4(torch.randint(0, 16, (16, 64), dtype=I32))
    for x, w, group, s in ((r(3, 64, dtype=F64), q, 32, r(2, 16, 2, dtype=F64)), (r(3, 64), q, 16, r(4, 16, 2)), (r(3, 64), q, 128, r(1, 16, 2)),
                           (r(3, 32), q, 32, r(1, 16, 2)), (r(3, 64), q, 32, r(2, 16, 3)), (r(3, 128)[:, ::2], q, 32, r(2, 16, 2)), (r(3, 64), q, 32, r(2, 16, 2, dtype=BF16))):
        yield c("_weight_int4pack_mm_for_cpu", x, w, group, s, opt=ERROR)
    for k, n, group in ((32, 16, 32), (128, 8, 32), (64, 5, 64), (30, 4, 30)):
        for bias in (None, r(n)):
            w, s = torch.randint(0, 256, (n, k // 2), dtype=U8), r(n, k // group, low=0.1, high=1)
            yield c("_dyn_quant_pack_4bit_weight", w, s, bias, group, k, n, opt={"errors": False})
            packed = ops._dyn_quant_pack_4bit_weight(w, s, bias, group, k, n)
            for dtype in (F32, BF16)[:1 + (group == k)]:
                yield c("_dyn_quant_matmul_4bit", r(3, k, dtype=dtype), packed, group, k, n, opt={"errors": False})
    for x, size, group, k in ((r(3, 32), 271, 32, 32), (r(3, 32), 272, 16, 32), (r(3, 48), 400, 32, 48), (r(3, 32, dtype=F16), 272, 32, 32), (r(3, 64, dtype=BF16), 544, 32, 64)):
        yield c("_dyn_quant_matmul_4bit", x, r(size), group, k, 16, opt=ERROR)
    for dtype in (F32, F16, BF16):
        offs = torch.tensor([8, 8, 16], dtype=I32)
        yield c("_grouped_mm", r(3, 6, 16, dtype=dtype), r(3, 7, 16, dtype=dtype).transpose(1, 2), None)
        yield c("_grouped_mm", r(3, 6, 16, dtype=dtype), r(16, 16, dtype=dtype).t(), offs)
        yield c("_grouped_mm", r(16, 16, dtype=dtype), r(3, 7, 16, dtype=dtype).transpose(1, 2), offs)
        yield c("_grouped_mm", r(6, 16, dtype=dtype), r(24, 16, dtype=dtype).t(), offs)
    offs = torch.tensor([2, 5, 6], dtype=I32)
    for x, w, o in ((r(6, 16), r(3, 16, 8), None), (r(6, 16), r(3, 16, 8), offs.long()), (r(6, 16), r(3, 16, 8), offs[:2]), (r(6, 15), r(3, 15, 8), offs),
                    (r(6, 16), r(3, 12, 8), offs), (r(3, 6, 16), r(2, 16, 8), None), (r(6, 16, dtype=F64), r(3, 16, 8, dtype=F64), offs), (r(6, 32)[:, ::2], r(3, 16, 8), offs)):
        yield c("_grouped_mm", x, w, o, opt=ERROR)


def activation(x, kind, approximate):
    return F.silu(x) if kind == "silu" else F.gelu(x, approximate=approximate)


def grouped(x, w, offs):
    ends = offs.tolist()
    return [torch.cat([x[a:b] @ w[i] for i, (a, b) in enumerate(zip([0, *ends], ends))])]


def packed4(q):
    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(q, 1)


# ---- Attention ----

def masked_scores(q, k, mask, causal, scale):
    scale = scale or 1 / math.sqrt(q.shape[-1])
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1 + k.shape[-2] - q.shape[-2]), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores


def fused(q, k, v, mask=None, causal=False, scale=None):
    """Output and log-sum-exp by the definition, in float64; causal is aligned to the bottom right, as the kernels called directly have it."""
    scores = masked_scores(q, k, mask, causal, scale)
    return (scores.softmax(-1).nan_to_num(0) @ v.double()).to(q.dtype), scores.logsumexp(-1).float()


def flash(q, k, v, dropout=0.0, causal=False, debug=False, *, scale=None):
    out, lse = fused(q, k, v, None, causal, scale)
    return [out, lse, None, None, q.shape[-2], k.shape[-2], ANY, ANY, ANY]


def efficient(q, k, v, bias, compute, dropout=0.0, causal=False, *, scale=None):
    out, lse = fused(q, k, v, bias, causal, scale)
    return [out, ANY if not compute else F.pad(lse, (0, -lse.shape[-1] % 32), value=math.inf) if lse.shape[-1] % 32 == 0 else ANY, ANY, ANY]


def cudnn(q, k, v, bias, compute, dropout=0.0, causal=False, debug=False, *, scale=None):
    out, lse = fused(q, k, v, bias, causal, scale)
    return [out, lse[..., None] if compute else ANY, None, None, q.shape[-2], k.shape[-2], ANY, ANY, ANY]


def overrideable(q, k, v, bias=None, dropout=0.0, causal=False, debug=False, *, scale=None):
    return [fused(q, k, v, bias, causal, scale)[0], ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY]


def attention(full):
    for dtype in FLOATS:
        for batch, heads, lq, lk, d in ((2, 3, 5, 5, 8), (1, 2, 4, 7, 16), (1, 2, 7, 4, 8), (2, 1, 1, 9, 8), (1, 1, 33, 40, 24), (1, 2, 3, 3, 5)):
            q, k, v = (r(batch, heads, n, d, dtype=dtype) for n in (lq, lk, lk))
            yield c("scaled_dot_product_attention", q, k, v)
            yield c("scaled_dot_product_attention", q, k, v, scale=0.3)
            yield c("scaled_dot_product_attention", q, k, v, None, 0.0, True)
            boolean, additive = torch.rand(lq, lk) < 0.6, r(batch, 1, lq, lk, dtype=dtype)
            boolean[:, 0] = True
            yield c("scaled_dot_product_attention", q, k, v, boolean)
            yield c("scaled_dot_product_attention", q, k, v, additive)
            dead = boolean.clone()
            dead[0] = False
            yield c("scaled_dot_product_attention", q, k, v, dead)
            yield c("_scaled_dot_product_attention_math", q, k, v)
            yield c("_scaled_dot_product_attention_math", q, k, v, additive, scale=0.2)
            yield c("_scaled_dot_product_attention_math", q, k, v, dead)
            yield c("_scaled_dot_product_attention_math", q, k, v, None, 0.0, True)
            yield c("_scaled_dot_product_flash_attention_for_cpu", q, k, v)
            yield c("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, True)
            yield c("_scaled_dot_product_flash_attention_for_cpu", q, k, v, attn_mask=additive, scale=0.2)
            yield c("_fused_sdp_choice", q, k, v, opt={"oracle": lambda *a: [ANY]})
            if dtype != F64:
                yield c("_scaled_dot_product_flash_attention", q, k, v, opt={"oracle": flash})
                yield c("_scaled_dot_product_flash_attention", q, k, v, scale=0.5, opt={"oracle": flash})
                yield c("_scaled_dot_product_efficient_attention", q, k, v, None, True, opt={"oracle": efficient})
                yield c("_scaled_dot_product_efficient_attention", q, k, v, additive.expand(batch, heads, lq, lk), False, opt={"oracle": efficient})
                yield c("_scaled_dot_product_cudnn_attention", q, k, v, None, True, opt={"oracle": cudnn})
                yield c("_scaled_dot_product_cudnn_attention", q, k, v, additive.expand(batch, heads, lq, lk), False, scale=0.5, opt={"oracle": cudnn})
                yield c("_scaled_dot_product_fused_attention_overrideable", q, k, v, opt={"oracle": overrideable})
                yield c("_scaled_dot_product_attention_math_for_mps", q, k, v, opt={"oracle": lambda q, k, v: [fused(q, k, v)[0], ANY]})
                if lq == lk:
                    yield c("_scaled_dot_product_flash_attention", q, k, v, 0.0, True, opt={"oracle": flash})
                    yield c("_scaled_dot_product_efficient_attention", q, k, v, None, True, 0.0, True, opt={"oracle": efficient})
                    yield c("_scaled_dot_product_cudnn_attention", q, k, v, None, True, 0.0, True, opt={"oracle": cudnn})
                    yield c("nbx::_scaled_dot_product_attention", q, k, v, None, 0.0, False, True,
                            opt={"oracle": lambda q, k, v, *a: [fused(q, k, v, None, True)[0], ANY]})
                tq, tk, tv = (t.transpose(1, 2).contiguous() for t in (q, k, v))
                yield c("_flash_attention_forward", tq, tk, tv, None, None, lq, lk, 0.0, False, False,
                        opt={"oracle": lambda q, k, v, *a: flash_rows(q, k, v)})
                yield c("_efficient_attention_forward", tq, tk, tv, None, None, None, None, None, 0.0, 0, False,
                        opt={"oracle": lambda q, k, v, *a: [*flash_rows(q, k, v)[:1], ANY, ANY, ANY, ANY, ANY]})
                yield c("_cudnn_attention_forward", q, k, v, None, None, None, lq, lk, True, 0.0, False, False,
                        opt={"oracle": lambda q, k, v, *a: [fused(q, k, v)[0], ANY, None, None, ANY, ANY, ANY, ANY, ANY]})
                yield c("nbx::_scaled_dot_product_attention", q, k, v, additive, 0.0, True, False,
                        opt={"oracle": lambda q, k, v, m, *a: [fused(q, k, v, m)[0], masked_scores(q, k, m, False, None).softmax(-1).to(q.dtype)]})
        q, k, v = r(2, 4, 5, 8, dtype=dtype), r(2, 2, 6, 8, dtype=dtype), r(2, 2, 6, 8, dtype=dtype)
        yield c("scaled_dot_product_attention", q, k, v, enable_gqa=True)
        yield c("scaled_dot_product_attention", q, k, v, None, 0.0, True, enable_gqa=True)
        yield c("scaled_dot_product_attention", q, k, v)
        yield c("scaled_dot_product_attention", r(2, 3, 4, dtype=dtype), r(2, 5, 4, dtype=dtype), r(2, 5, 6, dtype=dtype))
        yield c("scaled_dot_product_attention", r(3, 4, dtype=dtype), r(5, 4, dtype=dtype), r(5, 4, dtype=dtype))
        wide = r(2, 5, 3, 8, dtype=dtype).transpose(1, 2)
        yield c("scaled_dot_product_attention", wide, wide, wide)
        yield c("scaled_dot_product_attention", q, q, q, torch.ones(5, 5, dtype=torch.bool), 0.0, True)
        yield c("nbx::swiglu_fused", r(3, 5, dtype=dtype), r(3, 5, dtype=dtype), opt={"oracle": lambda g, u: [(F.silu(g.double()) * u.double()).to(g.dtype)]})
        angle = torch.randn(5, 4, dtype=F64)
        cos, sin = (torch.cat([f(angle)] * 2, -1).to(dtype) for f in (torch.cos, torch.sin))
        yield c("nbx::rope_fused", r(2, 3, 5, 8, dtype=dtype), r(2, 1, 5, 8, dtype=dtype), cos, sin, opt={"oracle": rope})
    for need, average in ((True, True), (True, False), (False, True)):
        x = r(2, 4, 8)
        weights = r(24, 8), r(24), r(8, 8), r(8)
        yield c("_native_multi_head_attention", x, x, x, 8, 2, *weights, None, need, average)
    for gelu, first in itertools.product((False, True), (False, True)):
        rest = r(24, 8) * 0.3, r(24), r(8, 8) * 0.3, r(8)
        tail = r(8), r(8), r(8), r(8), r(16, 8) * 0.3, r(16), r(8, 16) * 0.3, r(8)
        yield c("_transformer_encoder_layer_fwd", r(2, 4, 8), 8, 2, *rest, gelu, first, 1e-5, *tail)
    yield c("_transformer_encoder_layer_fwd.out", r(2, 4, 8), 8, 2, *rest, gelu, first, 1e-5, *tail, out=torch.zeros(2, 4, 8))
    yield c("_native_multi_head_attention.out", x, x, x, 8, 2, *weights, out0=torch.zeros(0), out1=torch.zeros(0), opt={"errors": False})


def flash_rows(q, k, v):
    out, lse = fused(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    return [out.transpose(1, 2).contiguous(), lse, ANY, ANY, ANY]


def rope(q, k, cos, sin):
    def turn(x):
        a, b = x.double().chunk(2, -1)
        return (x.double() * cos.double() + torch.cat([-b, a], -1) * sin.double()).to(x.dtype)
    return [turn(q), turn(k)]


# ---- Recurrent ----

def recurrent(full):
    for dtype in (F32, F64, BF16, F16):
        for kind, layers, two, first, bias, projection in (("lstm", 1, False, False, True, 0), ("lstm", 2, True, True, True, 0), ("lstm", 2, True, False, False, 3), ("gru", 1, False, True, True, 0),
                                                          ("gru", 2, True, False, True, 0), ("gru", 1, False, False, False, 0), ("rnn_tanh", 2, True, True, True, 0), ("rnn_relu", 1, False, False, True, 0),
                                                          ("lstm", 1, False, True, True, 2)):
            module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(kind)
            options = dict(num_layers=layers, bidirectional=two, batch_first=first, bias=bias, **({"proj_size": projection} if projection else {}))
            m = module(4, 5, **options) if module else torch.nn.RNN(4, 5, nonlinearity=kind[4:], **options)
            weights = [p.detach().to(dtype) for p in m._flat_weights]
            n, t, dirs = 3, 6, 2 if two else 1
            x = r(*((n, t) if first else (t, n)), 4, dtype=dtype)
            h, cell = r(layers * dirs, n, projection or 5, dtype=dtype), r(layers * dirs, n, 5, dtype=dtype)
            state = [h, cell] if kind == "lstm" else h
            yield c(kind + ".input", x, state, weights, bias, layers, 0.0, False, two, first)
            yield c(kind + ".input", x, state, weights, bias, layers, 0.0, True, two, first)
            packed = torch.nn.utils.rnn.pack_padded_sequence(x.float(), torch.tensor([6, 4, 1]), first)
            if kind in ("lstm", "gru"):
                yield c(kind + ".data", packed.data.to(dtype), packed.batch_sizes, state, weights, bias, layers, 0.0, False, two)
            if dtype == F32:
                mode = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}[kind]
                yield c("_cudnn_rnn", x, weights, (4 if bias else 2) + bool(projection), None, h, cell if kind == "lstm" else None, mode, 5, projection, layers, first, 0.0, False,
                        two, [], None, opt={"oracle": cudnn_rnn})
        x, h, cell = r(3, 4, dtype=dtype), r(3, 5, dtype=dtype), r(3, 5, dtype=dtype)
        for kind, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
            w = r(gates * 5, 4, dtype=dtype), r(gates * 5, 5, dtype=dtype), r(gates * 5, dtype=dtype), r(gates * 5, dtype=dtype)
            yield c(kind + "_cell", x, [h, cell] if kind == "lstm" else h, *w)
            yield c(kind + "_cell", x, [h, cell] if kind == "lstm" else h, *w[:2])
        for first in (False, True):
            y, lengths = r(*((3, 6) if first else (6, 3)), 2, dtype=dtype), torch.tensor([6, 4, 1])
            yield c("_pack_padded_sequence", y, lengths, first)
            data, sizes = ops._pack_padded_sequence(y, lengths, first)
            for value, total in ((0.0, -1), (-2.5, 8)):
                yield c("_pad_packed_sequence", data, sizes, first, value, total)
    yield c("_pack_padded_sequence", r(6, 3, 2), torch.tensor([4, 6, 1]), False, opt=ERROR)
    yield c("_pack_padded_sequence", r(6, 3, 2), torch.tensor([6, 4, 0]), False, opt=ERROR)
    yield c("_pack_padded_sequence.out", r(6, 3, 2), torch.tensor([6, 4, 1]), False, out0=torch.zeros(0), out1=torch.zeros(0, dtype=I64))
    w = r(20, 4), r(20, 5), r(20), r(20)
    for reverse in (False, True):
        yield c("mkldnn_rnn_layer", r(6, 3, 4), *w, r(3, 5), r(3, 5), reverse, [], 2, 5, 1, True, False, False, False, opt={"oracle": mkldnn_layer})
    yield c("torchaudio::_lfilter_core_loop", r(2, 3, 9), r(3, 3) * 0.3, torch.zeros(2, 3, 11), opt={"oracle": lfilter})


def cudnn_rnn(x, weights, stride, buffer, h, cell, mode, hidden, projection, layers, first, dropout, train, two, sizes, state):
    bias = stride - bool(projection) == 4
    args = (weights, bias, layers, 0.0, False, two, first)
    if mode == 2:
        return [*ops.lstm.input(x, [h, cell], *args), ANY, ANY]
    out, last_h = {0: ops.rnn_relu.input, 1: ops.rnn_tanh.input, 3: ops.gru.input}[mode](x, h, *args)
    return [out, last_h, ANY, ANY, ANY]


def mkldnn_layer(x, w0, w1, w2, w3, h, cell, reverse, *rest):
    out, last_h, last_c = ops.lstm.input(x.flip(0) if reverse else x, [h[None], cell[None]], [w0, w1, w2, w3], True, 1, 0.0, False, False, False)
    return [out.flip(0) if reverse else out, last_h[0], last_c[0], ANY]


def lfilter(windows, a, padded):
    order = a.shape[1]
    for i in range(windows.shape[2]):
        padded[:, :, i + order - 1] = windows[:, :, i] - (padded[:, :, i:i + order] * a).sum(-1)
    return [padded]


# ---- Losses, softmax ----

def loss(full):
    for dtype in FLOATS:
        x, target = r(4, 5, dtype=dtype), torch.tensor([0, 4, -100, 2])
        weight = r(5, dtype=dtype, low=0, high=1)
        for reduction, w in itertools.product((0, 1, 2), (None, weight)):
            logs = x.log_softmax(1)
            yield c("nll_loss", logs, target, w, reduction)
            yield c("nll_loss.out", logs, target, w, reduction, out=torch.zeros(0, dtype=dtype))
            yield c("nll_loss_forward", logs, target, w, reduction, -100)
            yield c("nll_loss_nd", logs, target, w, reduction)
            image, labels = r(2, 5, 3, 2, dtype=dtype), torch.randint(0, 5, (2, 3, 2))
            yield c("nll_loss2d", image, labels, w, reduction)
            yield c("nll_loss2d.out", image, labels, w, reduction, out=torch.zeros(0, dtype=dtype))
            yield c("nll_loss2d_forward", image, labels, w, reduction, 1)
            for smooth in (0.0, 0.2):
                yield c("cross_entropy_loss", x, target, w, reduction, -100, smooth)
                yield c("cross_entropy_loss", image, labels, w, reduction, 0, smooth)
                yield c("cross_entropy_loss", x, r(4, 5, dtype=dtype).softmax(1), w, reduction, -100, smooth)
        yield c("nll_loss", x, torch.full((4,), -100), None, 1)
        yield c("nll_loss", x[0], torch.tensor(3), None, 1)
        for reduction in (0, 1, 2):
            logs = r(6, 2, 5, dtype=dtype).log_softmax(-1) if dtype in (F32, F64) else None
            if logs is not None:
                yield c("ctc_loss.IntList", logs, torch.tensor([[1, 2, 2], [3, 1, 4]]), [6, 5], [3, 2], 0, reduction, False)
                yield c("ctc_loss.Tensor", logs, torch.tensor([[1, 2, 2], [3, 1, 4]]), torch.tensor([6, 2]), torch.tensor([3, 3]), 0, reduction, True)
            p, t = torch.tensor([0.0, 1.0, 0.5, 0.9], dtype=dtype), torch.tensor([0.0, 0.0, 1.0, 0.3], dtype=dtype)
            yield c("binary_cross_entropy", p, t, None, reduction)
            yield c("binary_cross_entropy_with_logits", torch.tensor([-100.0, 100, 0, 2], dtype=dtype), t, None, r(4, dtype=dtype, low=1, high=2), reduction)
    yield c("nll_loss", r(3, 4), torch.tensor([0, 4, 1]), None, 1, opt=ERROR)
    yield c("cross_entropy_loss", r(3, 4), torch.tensor([0, 1]), opt=ERROR)
    yield c("mse_loss", r(3, 4), r(4), 1)


def softmax(full):
    inf, nan = math.inf, math.nan
    for op in ("softmax.int", "log_softmax.int", "_softmax", "_log_softmax", "_safe_softmax"):
        tail = [False] if op in ("_softmax", "_log_softmax") else []
        for dtype in FLOATS:
            rows = torch.tensor([[1, 2, 3, 4], [-inf, 0, -inf, 1], [-inf] * 4, [nan, 0, 1, 2], [inf, 0, 1, 2], [1e4, -1e4, 0, 1e4], [0, 0, 0, 0]], dtype=dtype)
            for dim in (0, 1, -1):
                yield c(op, rows, dim, *tail)
            for shape in ((2, 3, 4, 5), (1,), (), (0, 3), (3, 0), (2, 1), (3, 100), (2, 1000), (4, 33)):
                for dim in range(-1, min(2, len(shape))):
                    yield c(op, r(*shape, dtype=dtype), dim, *tail)
            yield c(op, r(4, 5, dtype=dtype).t(), 0, *tail)
            yield c(op, last(r(2, 3, 4, 5, dtype=dtype)), 1, *tail)
            if not tail:
                yield c(op, r(3, 4, dtype=dtype), -1, F64 if op == "softmax.int" else None) if op != "_safe_softmax" else c(op, r(3, 4, dtype=dtype), -1, dtype=F64)
        yield c(op, r(3), 1, *tail, opt=ERROR)
    for op in ("softmax.int", "log_softmax.int"):
        yield c(op, torch.tensor([1, 2, 3]), 0, opt={"errors": False})
        yield c(op, torch.tensor([1, 2, 3]), 0, F32)
    for dtype in (F16,):
        for op in ("_softmax", "_log_softmax"):
            f = torch.softmax if op == "_softmax" else torch.log_softmax
            yield c(op, r(3, 7, dtype=dtype), 1, True, opt={"oracle": lambda x, d, h, f=f: [f(x.float(), d)]})
    yield c("log_softmax.int", torch.full((2, 3), -1e30), 1)
    for dtype in FLOATS:
        for shape, dim in (((3, 5), 1), ((3, 5), 0), ((2, 3, 4), -2), ((), 0), ((0, 3), 1)):
            y = r(*shape, dtype=dtype).softmax(dim)
            yield c("_softmax_backward_data", r(*shape, dtype=dtype), y, dim, dtype)
            yield c("_log_softmax_backward_data", r(*shape, dtype=dtype), y.log(), dim, dtype)
    yield c("_softmax_backward_data", r(3), r(3, dtype=F64), 0, F32, opt=ERROR)


FAMILY = {f.__name__: f for f in (norm, conv, pool, resample, matmul, attention, recurrent, loss, softmax)}


def calls(family, full):
    if family in FAMILY:
        torch.manual_seed(21)
        yield from FAMILY[family](full)
