"""The shapes of bench_fft.c in PyTorch: microseconds a call. fft_torch.py [threads]"""
import sys
import time

import torch

SHAPES = [(1, 1 << 20), (64, 1009), (1, 1009), (1000, 1024), (1, 1024), (2000, 400), (1, 400), (512, 512), (1, 65536), (64, 4096), (10000, 16), (100, 1000),
          (4, 100003), (300, 243), (1, 1000000)]


def best_us(call):
    best, spent, i = 1e9, 0, 0
    while i < 400 and (i < 5 or spent < 0.5):
        start = time.perf_counter()
        call()
        t = time.perf_counter() - start
        best, spent, i = min(best, t), spent + t, i + 1
    return best * 1e6


if len(sys.argv) > 1:
    torch.set_num_threads(int(sys.argv[1]))
ops = torch.ops.aten
for dtype, shapes in ((torch.float32, SHAPES), (torch.float64, SHAPES[:5])):
    for lines, n in shapes:
        r = torch.randn(lines, n, dtype=dtype)
        x, h = torch.fft.fft(r), torch.fft.rfft(r)
        print(f"{lines} x {n} f{8 * dtype.itemsize}  c2c {best_us(lambda: ops._fft_c2c(x, [1], 0, True)):.1f}  "
              f"r2c {best_us(lambda: ops._fft_r2c(r, [1], 0, True)):.1f}  c2r {best_us(lambda: ops._fft_c2r(h, [1], 0, n)):.1f}", flush=True)
