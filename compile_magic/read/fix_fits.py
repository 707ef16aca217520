"""Which changes a fix of a recompile is for: one that would not help is not told."""

from __future__ import annotations

import re
from collections.abc import Callable

from compile_magic.read.changes import Change

_NUMBER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+|nan|inf")
_ARGUMENT = re.compile(r"[A-Za-z]\w*(?:\[[^\]]+\]|\.[A-Za-z]\w*)*")
_SELF = re.compile(r"self(?:\.[A-Za-z]\w*|\._modules\['\w+'\])*")
GLOBAL = re.compile(r"G\['(\w+)'\]")


def always(_change: Change) -> bool:
    """Return True."""
    return True


def argument(change: Change) -> bool:
    """Return whether the caller has the thing at hand, under a name of his."""
    return bool(_ARGUMENT.fullmatch(GLOBAL.sub(r"\1", change.source))) and not change.source.startswith("self")


def _numbers(change: Change) -> bool:
    """Return whether it went from a number to another: 0 and 1 never become symbols."""
    both = {change.expected, change.actual}
    return all(map(_NUMBER.fullmatch, both)) and not both & {"0", "1"}


def size(change: Change) -> bool:
    """Return whether a size may become a symbol, and the caller can mark it."""
    return _numbers(change) and argument(change)


def _float(change: Change) -> bool:
    return bool(_FLOAT.fullmatch(change.expected)) and bool(_FLOAT.fullmatch(change.actual) or not change.actual)


def float_argument(change: Change) -> bool:
    """Return whether it is a float that the caller can pass as a tensor."""
    return _float(change) and argument(change) and "__" not in change.source


def float_attribute(change: Change) -> bool:
    """Return whether it is a float attribute of a module."""
    owner, _, name = change.source.rpartition(".")
    return _float(change) and bool(_SELF.fullmatch(owner)) and name.isidentifier()


def int_attribute(change: Change) -> bool:
    """Return whether it is an int attribute of a module that may become a symbol."""
    owner, _, name = change.source.rpartition(".")
    return _numbers(change) and bool(_SELF.fullmatch(owner)) and name.isidentifier()


def learning_rate(change: Change) -> bool:
    """Return whether it is the learning rate of an optimizer."""
    return change.source.endswith("['lr']")


def after_break(change: Change) -> bool:
    """Return whether it is a number that was read from a tensor at a break."""
    return change.source.startswith("___stack") and bool(_NUMBER.match(change.expected))


def function(change: Change) -> bool:
    """Return whether it is a function with another code."""
    return change.source.endswith(".__code__")


def gone(change: Change) -> bool:
    """Return whether the object that it was compiled for is gone."""
    return not change.expected and "no longer exists" in change.words


def sequence(change: Change) -> bool:
    """Return whether it is the length of a list that the caller can stack."""
    return _numbers(change) and argument(change)


def became(actual: str) -> Callable[[Change], bool]:
    """Return the test for a thing of the caller's that has become this."""
    return lambda change: change.actual == actual and argument(change)


def mode(change: Change) -> bool:
    """Return whether a mode was switched."""
    return {change.expected, change.actual} == {"on", "off"}


def same_name(change: Change) -> bool:
    """Return whether the two go by one name."""
    return change.expected == change.actual != ""
