"""The shapes of bench_recurrent.c in PyTorch: microseconds a call. recurrent_torch.py [threads]"""
import sys
import time

import torch

SHAPES = [(100, 1, 64), (100, 1, 256), (50, 1, 512), (50, 8, 256), (50, 32, 128), (30, 32, 512), (1, 1, 512)]

if len(sys.argv) > 1:
    torch.set_num_threads(int(sys.argv[1]))
for name, module in (("lstm", torch.nn.LSTM), ("gru ", torch.nn.GRU)):
    for steps, batch, width in SHAPES:
        layer, x = module(width, width), torch.randn(steps, batch, width)
        best, spent, i = 1e9, 0, 0
        with torch.no_grad():
            while i < 200 and (i < 5 or spent < 0.5):
                start = time.perf_counter()
                layer(x)
                t = time.perf_counter() - start
                best, spent, i = min(best, t), spent + t, i + 1
        print(f"{name} steps {steps} batch {batch} width {width}  {best * 1e6:.1f}", flush=True)
