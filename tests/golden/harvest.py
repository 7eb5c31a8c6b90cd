"""Calls of operators out of PyTorch's own test samples (op_db): which overloads they reach, with which arguments.

A sample runs under two dispatch modes at once: one sees the composite overloads as a program calls them (conv2d, linear), the other what is left
below autograd (convolution, addmm). Each call is copied before it runs; `record` runs it again.
"""
import contextlib
import random
import warnings

import numpy
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from families import FAMILIES, KNOWN, base_of
from recorder import Skip, copied, name_of

DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.int8,
          torch.int16, torch.complex128]

# Entries of op_db whose name is not the operator's, by family.
SPECIAL = {"attention": "nn.functional.scaled_dot_product_attention torch.ops.aten._efficient_attention_forward torch.ops.aten._flash_attention_forward "
                        "nn.functional.multi_head_attention_forward",
           "loss": "nn.functional.cross_entropy nn.functional.nll_loss nn.functional.multilabel_soft_margin_loss nn.functional.gaussian_nll_loss "
                   "nn.functional.triplet_margin_with_distance_loss",
           "resample": "nn.functional.interpolate nn.functional.upsample_bilinear nn.functional.upsample_nearest nn.functional.grid_sample",
           "pad": "nn.functional.pad", "softmax": "nn.functional.softmin torch.ops.aten._safe_softmax.default masked.softmax masked.log_softmax",
           "norm": "nn.functional.normalize nn.functional.local_response_norm", "matmul": "__rmatmul__ torch._scaled_mm sparse.sampled_addmm",
           "index": "__getitem__ nn.functional.one_hot", "sort": "unique", "conv": "nn.functional.unfold nn.functional.fold",
           "random": "nn.functional.dropout2d nn.functional.dropout3d bernoulli nn.functional.rrelu", "linalg": "cholesky svd qr pinverse linalg.lu_solve",
           "copy": "bool byte char short int long half bfloat16 float double cfloat cdouble", "shape": "H T", "reduce": "masked.mean nanquantile",
           "fft": "signal.windows.hann", "elementwise": "__radd__ __rand__ __rdiv__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ "
                                                        "nn.functional.softsign nn.functional.tanhshrink nn.functional.logsigmoid polygamma special.polygamma"}
SPECIAL = {name: family for family, names in SPECIAL.items() for name in names.split()}
LEFT_OUT = ("jiterator", "sparse", "to_sparse", "nested")


def family_of_entry(op):
    name = op.name
    if name in SPECIAL:
        return SPECIAL[name]
    for stem in (name, name.replace(".", "_"), name.rpartition(".")[2], (op.aten_name or "")):
        for family, members in FAMILIES.items():
            if stem in members:
                return family
    pointwise = {base_of(known) for known, row in KNOWN.items() if "POINTWISE" in row[3]}
    return "elementwise" if {name, name.replace(".", "_"), name.rpartition(".")[2]} & pointwise else "misc"


class Calls:
    """Copies of the calls whose overload is wanted."""

    def __init__(self, wanted):
        self.wanted, self.list, self.busy = wanted, [], False

    def keep(self, overload, args, kwargs):
        if self.busy or not isinstance(overload, torch._ops.OpOverload) or not self.wanted(name_of(overload)):
            return
        self.busy = True        # copying calls operators too
        try:
            self.list.append((name_of(overload), *copied((args, kwargs))))
        except (Skip, RuntimeError):
            pass
        self.busy = False


class BelowAutograd(TorchDispatchMode):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, overload, types, args=(), kwargs=None):
        self.calls.keep(overload, args, kwargs or {})
        return overload(*args, **(kwargs or {}))


class AboveComposites(SchemaCheckMode):
    """Only a few classes may stand on the stack before dispatch; this one is otherwise unused here."""

    def __init__(self, calls):
        super().__init__()
        self.__dict__["_dispatch_key"] = torch._C.DispatchKey.PreDispatch
        self.calls = calls

    __torch_dispatch__ = BelowAutograd.__torch_dispatch__


def calls_of(function, wanted):
    """The calls that a function makes, outermost first, and whether it failed."""
    calls, failed = Calls(wanted), False
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            with enable_python_dispatcher(), BelowAutograd(calls), torch._C._EnablePreDispatch(), AboveComposites(calls):
                function()
    except Exception:  # noqa: BLE001
        failed = True
    return calls.list, failed


@contextlib.contextmanager
def filled_memory():
    """torch.empty gives the same contents in every run: samples use it."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


OFFSET = 0          # generate.py --seed: another number gives other samples


def seed(text):
    number = (sum(ord(c) * 131 ** (i % 7) for i, c in enumerate(text)) + OFFSET) % 2 ** 31
    torch.manual_seed(number), random.seed(number), numpy.random.seed(number)


def wanted_calls(entries, wanted, samples, dtypes=None):
    """(call, entry's name) of the samples of entries of op_db; at most so many samples of an entry and dtype, evenly taken."""
    for op in entries:
        if op.name.startswith(LEFT_OUT):
            continue
        supported = op.supported_dtypes("cpu")
        for dtype in dtypes or DTYPES:
            if dtype not in supported:
                continue
            seed(f"{op.name}{op.variant_test_name}{dtype}")
            try:
                with warnings.catch_warnings(), filled_memory():
                    warnings.simplefilter("ignore")
                    found = []
                    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                        found.append(sample)
                        if len(found) >= 400:
                            break
                    if op.reference_inputs_func is not None and samples > 40:
                        for sample in op.reference_inputs("cpu", dtype, requires_grad=False):
                            found.append(sample)
                            if len(found) >= 400:
                                break
            except Exception:  # noqa: BLE001  a dtype that the sample function itself refuses
                continue
            found = [s for s in found if sum(t.numel() for t in tree_leaves((s.input, s.args, s.kwargs)) if isinstance(t, torch.Tensor)) <= 4096] or found[:1]
            step = max(1, len(found) // samples)
            for sample in found[::step][:samples]:
                calls, _ = calls_of(lambda s=sample: op.op(s.input, *s.args, **s.kwargs), wanted)
                for call in calls:
                    yield call, op.name


def failing_calls(entries, wanted):
    """The calls of op_db's error inputs that PyTorch refuses: the outermost of each."""
    for op in entries:
        if op.error_inputs_func is None or op.name.startswith(LEFT_OUT):
            continue
        seed(op.name + "errors")
        try:
            with filled_memory():
                found = [error.sample_input for error in op.error_inputs("cpu")]
            for s in found:
                calls, failed = calls_of(lambda s=s: op.op(s.input, *s.args, **s.kwargs), wanted)
                if failed and calls:
                    yield calls[0], op.name
        except Exception:  # noqa: BLE001
            continue


def entries_of(family):
    return [op for op in op_db if family_of_entry(op) == family]
