"""What the arithmetic of pointwise ops costs: which primitives each op consists of, and how often a second they run.

A primitive is what a fused kernel can't do without: one special function, or one fused multiply-add. Costs are the
least that a compiler needs, since a floor must not be too high: a multiplication and an addition are half a fused
multiply-add each, a comparison or a select likewise; loads, stores, casts and random numbers are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

FMA = "fma"


# What one element costs: so many of each primitive.
Cost = Mapping[str, float]


def _each(names: str, cost: Cost | None = None) -> dict[str, Cost]:
    """Return the cost of each of these ops, without one: the primitive of its own name."""
    return {name: {name: 1.0} if cost is None else cost for name in names.split()}


_STEP: Cost = {FMA: 0.5}
_TWO_STEPS: Cost = {FMA: 1.0}

# Name of an op without its namespace, overload, outer underscores and "_foreach" -> what an element of it costs. An op
# that isn't here costs nothing.
COSTS: Mapping[str, Cost] = {
    **_each("add sub rsub mul relu threshold_backward where leaky_relu clamp_min clamp_max maximum minimum", _STEP),
    **_each("sum mean amax amin prod cumsum native_dropout masked_fill floor ceil round", _STEP),
    **_each("clamp hardtanh lerp addcmul tanh_backward sigmoid_backward var var_mean fused_sgd", _TWO_STEPS),
    **_each("native_layer_norm native_layer_norm_backward native_group_norm", {FMA: 1.5}),
    **_each("div reciprocal true_divide", {"div": 1}),
    **_each("softmax log_softmax", {"exp": 1}),
    **_each("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt pow sin cos tan atan tanh sigmoid softplus erf erfc"),
    **_each("gelu gelu_tanh gelu_backward silu silu_backward"),
    **_each("addcdiv", {"div": 1, FMA: 0.5}),
    **_each("fused_adamw fused_adam", {"sqrt": 1, "div": 1, FMA: 3}),
}


def _gelu(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return "gelu_tanh" if kwargs.get("approximate") == "tanh" else "gelu"


def _gelu_backward(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    return "gelu_tanh" if kwargs.get("approximate") == "tanh" else "gelu_backward"


def _div(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    # A division by a number is a multiplication by its inverse.
    return "mul" if len(args) > 1 and isinstance(args[1], int | float) else "div"


def _pow(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    exponent = args[1] if len(args) > 1 else None
    if not isinstance(exponent, int | float):
        return "pow"
    return {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent, "mul" if exponent in (1, 2, 3, -2) else "pow")


# Ops whose cost hangs on their arguments.
CASES: Mapping[str, Callable[[tuple[Any, ...], Mapping[str, Any]], str]] = {
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    "div": _div,
    "pow": _pow,
}


def costed(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return the name in `COSTS` of an op "aten::gelu_" with these arguments, None if its arithmetic costs nothing."""
    plain = name.rpartition("::")[2].removeprefix("_foreach").strip("_")
    plain = CASES[plain](args, kwargs) if plain in CASES else plain
    return plain if plain in COSTS else None


# --- the rates of the primitives on a CPU ----------------------------------------------------------------------------


def on_cpu(primitive: str, dtype: Any) -> tuple[Callable[[], object], int] | None:
    """Return a function that runs a primitive over a buffer that stays in the caches of the cores, and its elements.

    65,536 elements for each thread: with fewer ATen doesn't split the work (its grain is 32,768), and a float32
    buffer with its result (512 KiB a thread) still fits in the caches of a core.
    """
    import torch

    if primitive not in CPU_OPS:
        return None
    count = 65_536 * torch.get_num_threads()
    generator = torch.Generator(device="cpu").manual_seed(0)
    x = torch.empty(count, dtype=dtype, device="cpu").uniform_(0.25, 1.0, generator=generator)
    out, op = torch.empty_like(x), CPU_OPS[primitive]
    return lambda: op(torch.ops.aten, x, out), count


def _named(name: str) -> Callable[[Any, Any, Any], object]:
    return lambda aten, x, out: getattr(aten, name).out(x, out=out)


# Primitive -> (torch.ops.aten, input, result). A fused multiply-add is not among them: from a buffer it is bound by
# loads and stores even in the first cache; a matrix product shows what the cores can do.
CPU_OPS: Mapping[str, Callable[[Any, Any, Any], object]] = {
    **{name: _named(name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt")},
    **{name: _named(name) for name in ("sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc", "atan", "silu", "gelu")},
    "softplus": lambda aten, x, out: aten.softplus.out(x, out=out),
    "div": lambda aten, x, out: aten.div.out(x, x, out=out),
    "pow": lambda aten, x, out: aten.pow.Tensor_Scalar_out(x, 0.7, out=out),
    "gelu_tanh": lambda aten, x, out: aten.gelu.out(x, approximate="tanh", out=out),
    "gelu_backward": lambda aten, x, out: aten.gelu_backward.grad_input(x, x, grad_input=out),
    "silu_backward": lambda aten, x, out: aten.silu_backward.grad_input(x, x, grad_input=out),
}


# --- the rates of the primitives on a GPU ----------------------------------------------------------------------------

# Primitive -> C++ that makes the next y of y; @ stands for the f of float functions. Each stays in the range in which
# people use it, however often it is applied, and on its cheap branch. Divisions and exponentials of float are the fast
# ones, as Triton's are.
GPU_STEPS: Mapping[str, str] = {
    FMA: "y * T(0.999) + T(0.001)",
    "div": "{div}(T(1.5), y)",
    "sqrt": "y * rsqrt@(y)",
    "rsqrt": "rsqrt@(y)",
    "exp": "{exp}(-y)",
    "exp2": "exp2@(-y)",
    "expm1": "expm1@(-y)",
    "log": "log@(fabs@(y))",
    "log2": "log2@(fabs@(y))",
    "log10": "log10@(fabs@(y))",
    "log1p": "log1p@(fabs@(y))",
    "sin": "sin@(y)",
    "cos": "cos@(y)",
    "tan": "tan@(y * T(0.5))",
    "atan": "atan@(y)",
    "tanh": "tanh@(y)",
    "sigmoid": "{div}(T(1), T(1) + {exp}(-y))",
    "softplus": "log1p@({exp}(-y))",
    "erf": "erf@(y)",
    "erfc": "erfc@(y)",
    "pow": "pow@(y, T(0.7))",
    "gelu": "y * T(0.5) * (T(1) + erf@(y * T(0.70710678118654752)))",
    "gelu_tanh": "y * T(0.5) * (T(1) + tanh@(T(0.79788456080286536) * (y + T(0.044715) * y * y * y)))",
    "gelu_backward": "T(0.5) * (T(1) + erf@(y * T(0.70710678118654752))) "
    "+ y * T(0.39894228040143268) * {exp}(T(-0.5) * y * y)",
    "silu": "{div}(y, T(1) + {exp}(-y))",
    "silu_backward": "{div}(T(1), T(1) + {exp}(-y)) * (T(1) + y * (T(1) - {div}(T(1), T(1) + {exp}(-y))))",
}
_FAST = {"exp": "__expf", "div": "__fdividef"}
_EXACT = {"exp": "exp", "div": "__ddiv_rn"}
# A loop has a counter to keep, so that a cheap step needs many in its body; a long one would not fit in the instruction
# cache.
_CHEAP_UNROLLED, _UNROLLED = 64, 8


def gpu_code(primitive: str, *, double: bool) -> tuple[str, int] | None:
    """Return C++ that applies a primitive `rounds` x so many times to a value in registers, and this "so many"."""
    if primitive not in GPU_STEPS:
        return None
    step = GPU_STEPS[primitive].format(**(_EXACT if double else _FAST)).replace("@", "" if double else "f")
    count = _CHEAP_UNROLLED if primitive == FMA else _UNROLLED
    body = f"y = {step}; " * count
    code = (
        f"template <typename T> T compile_magic_{primitive}(T x, T rounds) {{ "
        f"T y = x; for (int i = 0; i != (int)rounds; ++i) {{ {body}}} return y; }}"
    )
    return code, count


def seconds_each(op: str, rate: Callable[[str], float | None]) -> float | None:
    """Return the seconds that one element of an op takes where its primitives run at these rates, None if unknown."""
    rates = [(count, rate(primitive)) for primitive, count in COSTS.get(op, {}).items()]
    if not rates or not all(each for _, each in rates):
        return None
    return math.fsum(count / each for count, each in rates if each)
