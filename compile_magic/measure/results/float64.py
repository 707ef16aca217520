"""A run of the same code in float64, whatever its dtypes: the reference that says which side is off.

Each op runs twice. First as written, in its own dtype, which says what dtype, shape and strides the results have and
draws the random numbers; then in float64 on the float64 values of its arguments, which are kept beside the
tensors (`Shadows`). The tensor itself gets the float64 result rounded to its own dtype. So the program sees the dtypes
that it expects, autograd and optimizers work as always, and a value stays in float64 from op to op, through casts,
views, in-place writes, a backward and a step of an optimizer.

What it can't do:

- A write that isn't an op (by NumPy, `data_ptr`, a Triton kernel launched by hand) goes unseen: later reads take the
  float64 values from before it, if the tensor had any. `.numpy()` and `.tolist()` read values rounded to the dtype.
- An op without a float64 form, a higher-order op (flex attention, `torch.cond`), an op between processes, or one that
  draws random numbers into float results runs in its own dtype and is counted in `fell_back`. Dropout, and fused
  attention without dropout, are written out in float64 (`twins.py`).
- `flex_attention` outside torch.compile compiles itself, which torch refuses under a mode: it raises.
- Random numbers and factories (`torch.full`, `torch.linspace`) are rounded to their dtype: they are the same inputs.
- Sparse and nested results are rounded to their dtype after every op.
- Memory: eight bytes more for each number that the program writes and still holds.
- cuDNN and oneDNN are off meanwhile, but for convolutions: the buffers of their recurrent layers have a layout that
  goes with the dtype. So dropout between the layers of an LSTM may draw other numbers than cuDNN does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import ExitStack
from contextlib import contextmanager
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.results.float64_op import Op
from compile_magic.measure.results.float64_op import merged
from compile_magic.measure.results.shadows import Shadows
from compile_magic.measure.results.shadows import is_inexact
from compile_magic.measure.results.twins import TWINS
from compile_magic.measure.tensors import tensors_in


class Float64(_torch.DispatchMode):
    """While it is on, torch computes in float64 beside the dtypes of the program.

    The state that the program writes is written as always, so put it back afterwards. Read results by `value_of` before
    that, after the mode is off.

    Raises:
        torch.OutOfMemoryError: from inside the program, where the float64 values don't fit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fell_back: Counter[str] = Counter()
        self._shadows = Shadows()
        self._switches = ExitStack()
        self._cudnn = False

    @property
    def fallbacks(self) -> int:
        """The number of ops that ran in their own dtype only; `fell_back` has them by name."""
        return sum(self.fell_back.values())

    def value_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor's values in float64 (complex128), not to be written to; other dtypes as they are."""
        with torch.no_grad():
            return self._shadows.read(tensor.detach())

    def __enter__(self) -> Any:
        self._cudnn = self._switches.enter_context(_switched("cudnn", on=False))
        self._switches.enter_context(_switched("mkldnn", on=False))
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._switches.close()

    def __torch_dispatch__(
        self, op: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one op in its own dtype and in float64."""
        if any(getattr(kind, "__torch_dispatch__", None) is not torch.Tensor.__torch_dispatch__ for kind in types):
            # A subclass is asked first, and the ops that it runs inside come back here.
            return NotImplemented
        call = Op(op, args, kwargs or {}, self._shadows)
        if call.is_view or call.is_opaque:
            return self._once(call)
        with torch.no_grad(), _switched("cudnn", on=self._cudnn and call.is_convolution):
            return self._twice(call)

    def _once(self, call: Op) -> Any:
        """Run what changes no values, or what we can't look into."""
        out = call.run_as_written()
        return out if call.is_view else self._fall_back(call, out)

    def _twice(self, call: Op) -> Any:
        """Run an op in its own dtype, then in float64, and round the result of that."""
        call.prepare()
        before = call.random_states()
        out = call.run_as_written()
        drawn = not all(map(torch.equal, before, call.random_states()))
        if not call.computes or not (call.is_inexact or any(map(is_inexact, tensors_in(out)))):
            call.forget()
            return out
        if drawn and call.name not in TWINS:
            return self._fall_back(call, out, counted=call.reads)
        return self._settled(call, out)

    def _settled(self, call: Op, out: Any) -> Any:
        try:
            precise = call.run_precisely(out)
            call.write_back()
            return merged(out, precise, call.settle)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # noqa: BLE001 - whatever a missing float64 kernel raises, the op's own dtype has run
            return self._fall_back(call, out)

    def _fall_back(self, call: Op, out: Any, *, counted: bool = True) -> Any:
        call.forget()
        if counted:
            self.fell_back[call.name] += 1
        return out


@contextmanager
def _switched(library: str, *, on: bool) -> Iterator[bool]:
    """Switch a library's kernels on or off, and yield whether they were on before."""
    before = _torch.switch_library(library, on=on)
    try:
        yield before
    finally:
        _torch.switch_library(library, on=before)
