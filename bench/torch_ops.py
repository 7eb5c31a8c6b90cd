"""The rows of bench_ops.c in PyTorch, row by row in turn with bench_ops, joined into one table.

    python bench/torch_ops.py BENCH_OPS [--rows bench/ops.txt] [--only REGEX] [--threads 2] [--json FILE] [--markdown]
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}  # as bench_ops does
if any(os.environ.get(k) != v for k, v in PAGES.items()):
    os.environ.update(PAGES)
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool,
          "c64": torch.complex64, "c128": torch.complex128}
TOKEN = re.compile(r'\{[^}]*\}|"[^"]*"|\S+')
TENSOR = re.compile(r"(\w+)\[([^]]*)\](?:/(\d+))?(\+)?(?:<(\w+))?$")


def integer(text):
    return int(text[:-1]) * {"k": 1024, "M": 1048576}[text[-1]] if text[-1] in "kM" else int(text)


def tensor(text):
    name, dims, permuted, positive, below = TENSOR.match(text).groups()
    dtype, shape = DTYPES[name], [integer(d) for d in dims.split(",") if d]
    if dtype == torch.bool:
        t = torch.randint(0, 2, shape).bool()
    elif dtype.is_floating_point or dtype.is_complex:
        t = torch.rand(shape, dtype=torch.complex64 if dtype.is_complex else torch.float32)
        t = (t if positive else t * 2 - 1).to(dtype)
    else:
        top = integer(below) if below else 65536
        t = torch.randint(0, min(top, torch.iinfo(dtype).max + 1), shape).to(dtype)
    return t.permute([int(d) for d in permuted]) if permuted else t


def argument(text):
    words = {"none": None, "true": True, "false": False}
    if text in words:
        return words[text]
    if text[0] == "{":
        return [tensor(t) for t in text[1:-1].split()]
    if text[0] == "(":
        return [integer(t) for t in text[1:-1].split(",") if t]
    if text[0] == '"':
        return text[1:-1]
    if text[0] == ":":
        return DTYPES[text[1:]]
    if "[" in text:
        return tensor(text)
    return float(text) if "." in text or "e" in text else integer(text)


def operator(name):
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(torch.ops, space), packet)
    return getattr(found, overload or "default")


def best_time(op, args):
    """As best_time of bench_ops.c, by the same clock. Keyword-only arguments are taken by position, too."""
    schema = op._schema.arguments
    positional = [a for a, s in zip(args, schema) if not s.kwarg_only]
    keywords = {s.name: a for a, s in zip(args, schema) if s.kwarg_only}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best, total, calls, turn = 1e30, 0.0, 1, 0
    with torch.no_grad():
        while turn < 5 or (total < 0.15 and turn < 1000):
            start = clock()
            for _ in range(calls):
                op(*positional, **keywords)
            took = (clock() - start) / calls
            if turn == 0 and took < 2e-5:
                calls = int(1e-4 / took) + 1
            total += took * calls
            best = min(best, took) if turn else best
            turn += 1
    return best


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench_ops")
    p.add_argument("--rows", default="bench/ops.txt")
    p.add_argument("--only", default="")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--json")
    p.add_argument("--markdown", action="store_true")
    options = p.parse_args()
    torch.set_num_threads(options.threads)
    ours = subprocess.Popen([options.bench_ops, "-", str(options.threads), "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    machine = json.loads(ours.stdout.readline())
    machine["torch"] = torch.__version__
    print(machine)
    form = "| `{}` | {} | {:.1f} | {:.1f} | {} | {:.2f} |" if options.markdown else "{:28} {:52.52} {:10.1f} {:10.1f} {:>9} {:6.2f}"
    table = []
    for line in open(options.rows):
        line = line.strip()
        if not line or line[0] == "#" or not re.search(options.only, line):
            continue
        limit, name, *args = TOKEN.findall(line)
        ours.stdin.write(line + "\n")
        ours.stdin.flush()
        answer = ours.stdout.readline()
        if not answer:
            sys.exit(f"bench_ops ended at: {line}")
        row = {"limit": limit, "op": name, "args": " ".join(args), **json.loads(answer)}
        try:
            row["torch"] = best_time(operator(name), [argument(a) for a in args])
        except Exception as e:  # noqa: BLE001
            print("torch:", line, str(e).splitlines()[0], file=sys.stderr)
            row["torch"] = float("nan")
        table.append(row)
        share = f"{row['share']:.2f} {limit.split(':')[0]}" if row["share"] else ""
        print(form.format(name.removeprefix("aten::"), row["args"], row["seconds"] * 1e6, row["torch"] * 1e6, share, row["torch"] / row["seconds"]), flush=True)
    if options.json:
        json.dump({"machine": machine, "rows": table}, open(options.json, "w"), indent=1)


main()
