"""Refuse what a run would do to an autograd graph, or to the hooks of a tensor, from before it: it can't be undone."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import ExitStack
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from compile_magic import _torch
from compile_magic.measure.state.patching import patched
from compile_magic.measure.state.writes import UnrepeatableError

# Position of `retain_graph` in the engine's arguments: the tensors, their gradients, then this.
_RETAIN = 2
_ON_TENSORS = {
    "register_hook": "a hook is put on `{}`, one more in each run",
    "register_post_accumulate_grad_hook": "a hook is put on `{}`, one more in each run",
    "retain_grad": "`{}` is told to keep its gradient, which can't be taken back",
    "detach_": "`{}` is taken out of its graph, which can't be undone",
}
_INSTEAD = "Do that in a cell of its own and bench the rest"

Paths = Callable[[torch.Tensor], "str | None"]


@contextmanager
def guarded_graphs(nodes: Mapping[int, tuple[str, Any]], path_of: Paths) -> Iterator[None]:
    """Refuse, before it happens, what would use up or change a graph from before.

    Args:
        nodes: the nodes of tensors from before by `id`, each with a tensor's path.
        path_of: gives the path of a tensor from before, None for another.

    Raises:
        UnrepeatableError: inside the context, from the call that is refused.
    """
    with ExitStack() as stack:
        for holder, name in _torch.engine_entries():
            stack.enter_context(patched(holder, name, partial(_engine, nodes)))
        for name, words in _ON_TENSORS.items():
            stack.enter_context(patched(torch.Tensor, name, partial(_method, words, path_of)))
        yield


def _method(words: str, path_of: Paths, method: Callable[..., Any]) -> Callable[..., Any]:
    def guard(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        path = path_of(tensor)
        if path is not None and (method.__name__ != "detach_" or not tensor.is_leaf):
            raise UnrepeatableError(f"{words.format(path)}. {_INSTEAD}")
        return method(tensor, *args, **kwargs)

    return guard


def _engine(nodes: Mapping[int, tuple[str, Any]], run: Callable[..., Any]) -> Callable[..., Any]:
    def guard(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        retains = args[_RETAIN - 1] if len(args) >= _RETAIN else kwargs.get("keep_graph", False)
        path = None if retains else old_graph(outputs, nodes)
        if path is not None:
            raise UnrepeatableError(
                f"a backward goes through the graph of `{path}`, which an earlier cell made: it works once. Compute "
                f"`{path}` in the benched cell, or pass retain_graph=True"
            )
        return run(outputs, *args, **kwargs)

    return guard


def old_graph(outputs: Iterable[Any], nodes: Mapping[int, tuple[str, Any]]) -> str | None:
    """Return the path of a tensor from before whose node the graph of `outputs` leads to, None if there is none.

    Args:
        outputs: tensors, or edges of a graph (`torch.autograd.graph.GradientEdge`).
        nodes: the nodes from before by `id`, each with a tensor's path.
    """
    starts = [o.grad_fn if isinstance(o, torch.Tensor) else getattr(o, "node", None) for o in outputs]
    todo = [node for node in starts if node is not None]
    # With the nodes themselves: the id of one that is freed goes to another.
    seen: dict[int, Any] = {}
    while todo and nodes:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if id(node) in nodes:
            return nodes[id(node)][0]
        todo += [following for following, _ in node.next_functions if following is not None]
    return None
