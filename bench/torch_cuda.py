"""The rows of bench_cuda beside PyTorch on the same device, one after the other, as a Markdown table.

    python bench/torch_cuda.py path/to/bench-bench_cuda [FILTER]

Needs torch with CUDA. Times are of calls made back to back over three sets of operands; the best of three rounds.
"""
import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

FILTER = sys.argv[2] if len(sys.argv) > 2 else ""
ROTATE = 3
times = {}


def measure(name, dtype, sets, f):
    if FILTER and FILTER not in name:
        return
    best = 1e30
    for round in range(4):
        calls = 3 if round == 0 else 12
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(calls):
            f(*sets[i % ROTATE])
        torch.cuda.synchronize()
        if round:
            best = min(best, (time.perf_counter() - start) / calls)
    times[name, dtype] = best * 1e6


def many(make):
    return [make() for _ in range(ROTATE)]


def memory_bound(dtype, name, size):
    rows = int(512e6 / size) // 4096 // 2048 * 2048
    r = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)
    x = many(lambda: (r(rows, 4096), r(rows, 4096)))
    masks = [b > 0 for _, b in x]
    one = [(a,) for a, _ in x]
    measure("copy", name, one, torch.clone)
    measure("add", name, x, torch.add)
    measure("mul", name, x, torch.mul)
    measure("where", name, [(m, a, b) for (a, b), m in zip(x, masks)], torch.where)
    measure("masked_fill", name, [(a, m, -1.0) for (a, b), m in zip(x, masks)], torch.masked_fill)
    measure("cast", name, one, lambda a: a.to(torch.float32 if dtype != torch.float32 else torch.bfloat16))
    measure("gelu", name, one, F.gelu)
    measure("silu", name, one, F.silu)
    measure("transpose", name, one, lambda a: a.t().contiguous())
    measure("sum all", name, one, torch.sum)
    measure("sum rows", name, one, lambda a: a.sum(1))
    measure("sum cols", name, one, lambda a: a.sum(0))
    measure("argmax", name, one, lambda a: a.argmax(-1))
    measure("softmax 4096", name, one, lambda a: a.softmax(-1))
    measure("cumsum", name, one, lambda a: a.cumsum(-1))
    measure("cat", name, x, lambda a, b: torch.cat([a, b], -1))
    row, column = many(lambda: r(4096)), many(lambda: r(rows, 1))
    measure("add row", name, [(a[0], w) for a, w in zip(one, row)], torch.add)
    measure("layer_norm 4096", name, [(a[0], w) for a, w in zip(one, row)], lambda a, w: F.layer_norm(a, (4096,), w, w))
    measure("rms_norm 4096", name, [(a[0], w) for a, w in zip(one, row)], lambda a, w: F.rms_norm(a, (4096,), w))
    measure("add column", name, [(a[0], w) for a, w in zip(one, column)], torch.add)
    index = many(lambda: torch.randint(rows, (rows,), device="cuda"))
    measure("embedding", name, [(i, a[0]) for a, i in zip(one, index)], F.embedding)
    measure("index_select", name, [(a[0], 0, i) for a, i in zip(one, index)], torch.index_select)
    order = torch.arange(rows, device="cuda")
    measure("index_copy_", name, x, lambda a, b: a.index_copy_(0, order, b))
    places = many(lambda: torch.randint(4096, (rows, 4096), device="cuda"))
    measure("gather", name, [(a[0], 1, i) for a, i in zip(one, places)], torch.gather)
    del places
    measure("permute 0213", name, [(a[0].view(rows // 2048, 2048, 32, 128),) for a in one], lambda a: a.permute(0, 2, 1, 3).contiguous())
    w = r(512)
    measure("group_norm 32", name, [(a[0].view(-1, 512, 64, 64),) for a in one], lambda a: F.group_norm(a, 32, w, w))
    measure("fill", name, one, lambda a: a.fill_(0.25))
    del x, one, masks
    wide = many(lambda: (r(int(1e9 / size) // 2 // 128256, 128256),))
    measure("softmax 128256", name, wide, lambda a: a.softmax(-1))
    measure("topk 50 of 128256", name, wide, lambda a: a.topk(50))


def compute_bound(dtype, name):
    r = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)
    n = 1024
    while n <= (8192 if dtype != torch.float32 else 4096):
        measure(f"mm {n}", name, many(lambda: (r(n, n), r(n, n))), torch.mm)
        n *= 2
    measure("linear 1x14336x4096", name, many(lambda: (r(1, 4096), r(14336, 4096))), F.linear)
    if dtype != torch.float32:
        q = many(lambda: (r(2, 16, 4096, 128), r(2, 16, 4096, 128), r(2, 16, 4096, 128)))
        measure("attention s4096 d128", name, q, F.scaled_dot_product_attention)
        measure("attention causal", name, q, lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True))
    q = many(lambda: (r(8, 16, 1024, 64), r(8, 16, 1024, 64), r(8, 16, 1024, 64)))
    measure("attention s1024 d64", name, q, F.scaled_dot_product_attention)
    last = torch.channels_last
    x = many(lambda: (r(64, 512, 14, 14), r(512, 512, 3, 3)))
    measure("conv 3x3 512 NCHW", name, x, lambda a, w: F.conv2d(a, w, padding=1))
    x = [(a.to(memory_format=last), w.to(memory_format=last)) for a, w in x]
    measure("conv 3x3 512 NHWC", name, x, lambda a, w: F.conv2d(a, w, padding=1))
    x = many(lambda: (r(64, 64, 56, 56).to(memory_format=last), r(64, 64, 3, 3).to(memory_format=last)))
    measure("conv 3x3 64 NHWC", name, x, lambda a, w: F.conv2d(a, w, padding=1))
    x = many(lambda: (r(64, 3, 224, 224), r(64, 3, 7, 7)))
    measure("conv stem 7x7", name, x, lambda a, w: F.conv2d(a, w, stride=2, padding=3))
    x = many(lambda: (r(64, 384, 56, 56), r(384, 1, 7, 7)))
    measure("conv depthwise 7x7 NCHW", name, x, lambda a, w: F.conv2d(a, w, padding=3, groups=384))
    x = [(a.to(memory_format=last), w) for a, w in x]
    measure("conv depthwise 7x7 NHWC", name, x, lambda a, w: F.conv2d(a, w, padding=3, groups=384))


with torch.no_grad():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    memory_bound(torch.bfloat16, "bf16", 2)
    memory_bound(torch.float32, "f32", 4)
    measure("sort 64 Mi", "f32", many(lambda: (torch.randn(64 << 20, device="cuda"),)), torch.sort)
    compute_bound(torch.bfloat16, "bf16")
    compute_bound(torch.float32, "f32")
torch.cuda.empty_cache()

print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
print("| row | dtype | ours, us | of the limit | PyTorch, us | PyTorch / ours |")
print("| --- | --- | --- | --- | --- | --- |")
for line in subprocess.run([sys.argv[1]] + sys.argv[2:3], capture_output=True, text=True, check=False).stdout.splitlines():
    found = re.match(r"(.{28}) (\S+) +([\d.]+) us +(.*)", line)
    if not found:
        print(f"| {line} | | | | | |")
        continue
    name, dtype, ours, limit = found.group(1).strip(), found.group(2), float(found.group(3)), found.group(4)
    other = times.get((name, dtype))
    print(f"| {name} | {dtype} | {ours:.1f} | {limit} | {'' if other is None else f'{other:.1f}'} | {'' if other is None else f'{other / ours:.2f}'} |")
