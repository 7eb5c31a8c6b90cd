"""Models of the zoo that leave higher-order operators in a program: control flow, regions, mutating operators of one's own, score functions."""
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.wrap import tag_activation_checkpoint, wrap
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.while_loop import while_loop

from zoo_small import AUTO, Call, r


# ---- Control flow ----

def cond_nested():
    def inner(x):
        return torch.cond(x.amax() > 1, lambda t: t * 2, lambda t: t - 1, (x,))
    return Call(lambda m, x: torch.cond(x.sum() > 0, inner, lambda t: t.neg(), (x,))), (r(3, 4),)


def cond_closure():
    def forward(m, x, y):
        z = x @ y
        return torch.cond(z.sum() > 0, lambda t: (t + z, m.w * t), lambda t: (t - z, t + m.w), (x,))
    return Call(forward, w=r(4)), (r(4, 4), r(4, 4))


def while_sizes():
    def forward(m, x):
        n = x.shape[0]
        return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5 + i), (torch.zeros((), dtype=torch.int64), x))
    return Call(forward), (r(5, 3),), {"dynamic": {"args": ({0: AUTO},)}}


def while_zero():
    return Call(lambda m, x: while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y.sin()), (torch.zeros((), dtype=torch.int64), x))), (r(3),)


def while_stacked():
    return Call(lambda m, x: torch.ops.higher_order.while_loop_stack_output(lambda i, y: i < 4, lambda i, y: (i + 1, y.tanh() + 1), (torch.zeros((), dtype=torch.int64), x), ())), (r(2, 3),)


def scan_reversed():
    def forward(m, x, y):
        return scan(lambda h, t: ((h[0] * 0.9 + t[0], h[1] + 1), {"a": h[0] + t[1] @ m.w, "b": t[0] + 0}), (x.new_zeros(2), torch.zeros(())), (x, y), dim=1, reverse=True)
    return Call(forward, w=r(3, 2)), (r(2, 5), r(3, 5))


def scan_dynamic():
    return Call(lambda m, x: scan(lambda h, t: (h + t, h * t), x.new_zeros(3), x)), (r(6, 3),), {"dynamic": {"args": ({0: AUTO},)}}


def associative(kept):
    """Exported for a CPU, an associative scan is taken apart; called by its operator, it stays in the program."""
    def combine(a, b, c, d):
        return a * c, b * c + d

    def forward(m, x, y):
        if kept:
            return torch.ops.higher_order.associative_scan(combine, (x, y), ())
        return associative_scan(lambda a, b: combine(*a, *b), (x, y), 0, combine_mode="generic")
    return Call(forward), (r(7, 3).sigmoid(), r(7, 3))


def mapped_tree():
    return Call(lambda m, x: mapped(lambda t, w: {"s": t["a"] @ w, "t": (t["b"] + 1, t["a"].sum())}, x, m.w), w=r(3, 2)), ({"a": r(4, 2, 3), "b": r(4, 5)},)


# ---- Regions ----

def regions():
    def forward(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            a = m.a(x)
            with torch.autocast("cpu", enabled=False):
                b = m.b(x)
            c = torch.cat([a, b], -1).softmax(-1)
            d = torch.nn.functional.mse_loss(a, b)
        with torch.no_grad():
            e = m.b(c[:, :8].float())
        return a, b, c, d, e
    return Call(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8)), (r(3, 8),)


def autocast_half():
    def forward(m, x):
        with torch.autocast("cpu", torch.float16):
            y = m.conv(x).relu()
            return y.flatten(1) @ m.w, y.sum(), torch.nn.functional.scaled_dot_product_attention(x.flatten(2), x.flatten(2), x.flatten(2))
    return Call(forward, conv=nn.Conv2d(2, 3, 3), w=r(48, 4)), (r(2, 2, 6, 6),)


def autocast_cuda():
    def forward(m, x):
        with torch.autocast("cuda", torch.float16):
            y = m.a(x)
            return y, torch.softmax(y, -1), y.exp(), y.sum(0), torch.nn.functional.layer_norm(y, (8,)), torch.cat([x, y], 1), y ** 2
    return Call(forward, a=nn.Linear(8, 8)), (r(3, 8),)


def strict():
    return Call(lambda m, x: strict_mode(lambda t: (t.sin() + 1, t @ m.w), (x,)), w=r(4, 2)), (r(3, 4),)


def hinted():
    return Call(lambda m, x, y: hints_wrapper(lambda a, b: (a @ b).relu(), (x, y), {}, hints={"outer": True})), (r(3, 4), r(4, 2))


def checkpointed():
    from torch.utils.checkpoint import checkpoint
    return Call(lambda m, x: checkpoint(lambda t: m.a(t).gelu() if hasattr(t, "gelu") else torch.nn.functional.gelu(m.a(t)), x, use_reentrant=False), a=nn.Linear(4, 4)), (r(3, 4),)


def wrapped():
    return Call(lambda m, x: wrap(lambda t: (t.cos(), t * 2), x)), (r(3, 4),)


def repeated():
    from torch._higher_order_ops.invoke_subgraph import mark_compile_region

    @mark_compile_region
    def block(t, w):
        return torch.tanh(t @ w) + t
    return Call(lambda m, x: block(block(x, m.w), m.w), w=r(4, 4)), (r(3, 4),)


def raised():
    def forward(m, x):
        y = out_dtype(torch.ops.aten.mm.default, torch.int32, x, m.w)
        z = out_dtype(torch.ops.aten.mul.Tensor, torch.int32, x, 100)
        return y, z
    return Call(forward, w=torch.randint(-128, 127, (8, 5), dtype=torch.int8)), (torch.randint(-128, 127, (3, 8), dtype=torch.int8),)


# ---- Operators of a library of one's own (src/program/program_test.c has them in C) ----

def library():
    if hasattr(torch.ops.testprograms, "bump"):
        return
    from torch._higher_order_ops.effects import _register_effectful_op
    from torch._library.effects import EffectType

    @torch.library.custom_op("testprograms::scale_into", mutates_args=("out",))
    def scale_into(x: torch.Tensor, out: torch.Tensor, factor: float) -> torch.Tensor:
        out.copy_(x * factor)
        return x + 1

    @torch.library.custom_op("testprograms::bump", mutates_args=("outs",))
    def bump(outs: list[torch.Tensor], by: int) -> None:
        for out in outs:
            out.add_(by)
    scale_into.register_fake(lambda x, out, factor: torch.empty_like(x))
    bump.register_fake(lambda outs, by: None)
    torch.library.define("testprograms::say", "(Tensor x, str text) -> Tensor")
    torch.library.impl("testprograms::say", "CompositeExplicitAutograd", lambda x, text: x + len(text))
    torch.library.register_fake("testprograms::say", lambda x, text: torch.empty_like(x))
    _register_effectful_op("testprograms::say", EffectType.ORDERED)


def functional():
    def forward(m, x):
        out = torch.zeros_like(x)
        whole = torch.ones(3)
        y = torch.ops.testprograms.scale_into(x[1], out[0], 2.0) + torch.ops.testprograms.scale_into(x[0, :2], out.t()[1:3, 1], 3.0).sum()
        torch.ops.testprograms.bump([m.total, out, whole, out[:, 1:]], 3)
        return y, out, whole, m.total * 2
    return Call(forward, total=torch.zeros(4)), (r(2, 4),)


def effects():
    def forward(m, x):
        y = torch.ops.testprograms.say(x, "hello")
        torch.ops.aten._print("hello")
        return torch.ops.testprograms.say(y, "you") * 2
    return Call(forward), (r(2, 4),)


def programs():
    makers = {"cond_nested": cond_nested, "cond_closure": cond_closure, "while_sizes": while_sizes, "while_zero": while_zero, "while_stacked": while_stacked, "scan_reversed": scan_reversed,
              "scan_dynamic": scan_dynamic, "associative": lambda: associative(False), "associative_kept": lambda: associative(True), "mapped_tree": mapped_tree, "regions": regions, "autocast_half": autocast_half,
              "autocast_cuda": autocast_cuda, "strict": strict, "hinted": hinted, "checkpointed": checkpointed, "wrapped": wrapped, "repeated": repeated, "raised": raised}
    for name, make in makers.items():
        settings = make()[2] if name in ("while_sizes", "scan_dynamic") else {}
        yield "higher", f"higher_{name}", lambda make=make: make()[:2], settings
    library()
    for name, make in (("functional", functional), ("effects", effects)):
        yield "library", f"library_{name}", make, {}
