"""Times PyTorch over the cases that bench_layers prints, in the same minutes, and prints both.

    python bench/against_pytorch.py build/bench/bench_layers [threads [FILTER]]

Each line: case, our microseconds, part of the measured peak of float32, part of the measured rate of reading (products with few
rows), PyTorch's microseconds, how many times faster we are. With one thread processor time is measured on both sides.
"""
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
clock = time.thread_time if THREADS == 1 else time.perf_counter


def layer(text):
    kind, dtype, *numbers = text.split()
    v, dtype = list(map(int, numbers)), getattr(torch, dtype)

    def noise(*shape):
        return torch.randn(*shape).to(dtype)

    if kind == "linear":
        x, count = noise(v[0], v[1]), 1 if v[0] > 16 else int(160e6 / (v[1] * v[2] * dtype.itemsize)) + 1
        weights = [noise(v[2], v[1]) for _ in range(count)]
        return lambda i: F.linear(x, weights[i % count])
    if kind == "conv":
        n, c, h, w, out, kernel, stride, padding, groups = v
        x, weight = noise(n, c, h, w), noise(out, c // groups, kernel, kernel)
        return lambda i: F.conv2d(x, weight, None, stride, padding, 1, groups)
    q, k, value = (noise(*v[:4]) for _ in range(3))
    return lambda i: F.scaled_dot_product_attention(q, k, value, is_causal=bool(v[4]))


def best_time(call):
    best, until, i = 1e9, clock() + 0.6, 0
    while i < 4 or clock() < until:
        start = clock()
        call(i)
        best, i = min(best, clock() - start), i + 1
    return best


def main():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    print(f"# torch {torch.__version__}, {THREADS} threads")
    command = [sys.argv[1], str(THREADS), *sys.argv[3:4]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = process.stdout.read().splitlines()
    for line in lines:
        if line.startswith("#") or " us " not in line:
            print(line)
            continue
        case, rest = line[:42].strip(), line[42:].split()
        theirs = best_time(layer(case)) * 1e6
        reads = case.startswith("linear") and int(case.split()[2]) <= 16
        print(f"{case:<42} {float(rest[0]):>10.1f} us  {rest[4]:>5} of peak  {rest[7] if reads else '':>5} of reading  "
              f"torch {theirs:>10.1f} us  {theirs / float(rest[0]):>6.2f} x", flush=True)


main()
