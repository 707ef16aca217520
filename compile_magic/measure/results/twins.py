"""Ops that have no float64 kernel, or draw random numbers of their own, written out in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import torch

# From the op's arguments by name, in float64, and what the op itself has returned; None leaves a result as it is.
Given = Mapping[str, Any]
Twin = Callable[[Given, Any], tuple[torch.Tensor | None, ...]]


def can_draw(given: Given) -> bool:
    """Return whether an attention op drops weights at random, with a mask that only its own kernel knows."""
    return bool(given.get("dropout_p"))


def _dropout(given: Given, out: Any) -> tuple[torch.Tensor | None, ...]:
    """Scale what the op has kept, by the mask that it returns (`torch.nn.functional.dropout`)."""
    keep = 1 - given["p"]
    scale = 1 / keep if keep else 0.0
    return given["input"] * out[1] * scale, None


def _attention(given: Given, out: Any) -> tuple[torch.Tensor | None, ...]:
    """Attention as the documentation of `torch.nn.functional.scaled_dot_product_attention` writes it out."""
    value = _repeated(given["value"], given["query"])
    return (_weights(given) @ value, *(None for _ in out[1:]))


def _attention_backward(given: Given, out: Any) -> tuple[torch.Tensor | None, ...]:
    """Gradients of softmax(q kᵀ s + m) v: with P the weights, dP = g vᵀ and dS = P (dP - sum(dP P))."""
    query, key, value = given["query"], given["key"], given["value"]
    grad = given["grad_out"] if "grad_out" in given else given["grad_out_"]
    weights = _weights(given)
    by_weight = grad @ _repeated(value, query).mT
    by_score = weights * (by_weight - (by_weight * weights).sum(-1, keepdim=True))
    scale = _scale(given)
    bias = [by_score.sum_to_size(made.shape) if made is not None else None for made in out[3:]]
    return (
        by_score @ _repeated(key, query) * scale,
        _summed(by_score.mT @ query * scale, key),
        _summed(weights.mT @ grad, value),
        *bias,
    )


def _weights(given: Given) -> torch.Tensor:
    query: torch.Tensor = given["query"]
    key: torch.Tensor = given["key"]
    scores = query @ _repeated(key, query).mT * _scale(given)
    mask = given.get("attn_bias", given.get("attn_mask"))
    if given.get("is_causal"):
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    # A row with nothing allowed in it gives zeros, as in the kernels.
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return scores.softmax(-1).masked_fill(nothing, 0.0)


def _scale(given: Given) -> float:
    scale = given.get("scale")
    return 1 / math.sqrt(given["query"].shape[-1]) if scale is None else float(scale)


def _repeated(heads: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Repeat the heads of a key or value, (batch, heads, length, width), for grouped-query attention."""
    groups = query.shape[1] // heads.shape[1]
    return heads.repeat_interleave(groups, dim=1) if groups > 1 else heads


def _summed(grad: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    """Add up the gradients of repeated heads."""
    batch, count, *rest = heads.shape
    return grad.reshape(batch, count, -1, *rest).sum(2)


_FUSED_ATTENTION = tuple(f"aten::_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn"))

TWINS: Mapping[str, Twin] = {
    "aten::native_dropout": _dropout,
    **dict.fromkeys(_FUSED_ATTENTION, _attention),
    **{f"{name}_backward": _attention_backward for name in _FUSED_ATTENTION},
}
