"""Look at objects without running any of their code.

No property, `__getattr__`, `__getattribute__`, `__class__`, `==`, hash, truth, length or repr of the user's runs, and
nothing of a metaclass: an attribute is read where Python keeps it, and what an object is, is asked of its type alone.
"""

from __future__ import annotations

import functools
from types import BuiltinFunctionType
from types import FunctionType
from types import GetSetDescriptorType
from types import MappingProxyType
from types import MemberDescriptorType
from types import MethodType
from types import ModuleType
from typing import Any

# What is returned for an attribute that isn't there; None can be one.
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "MISSING"})()

_MRO: Any = type.__dict__["__mro__"]
_CLASS_DICT: Any = type.__dict__["__dict__"]
_CLASS_NAME: Any = type.__dict__["__name__"]
_CLASS_QUALNAME: Any = type.__dict__["__qualname__"]
_CLASS_MODULE: Any = type.__dict__["__module__"]
_CLASS_FLAGS: Any = type.__dict__["__flags__"]
_MODULE_DICT: Any = vars(ModuleType)["__dict__"]
# How an object's own `__dict__` is read; a property of that name would be the user's code.
_DICTS = (GetSetDescriptorType, MemberDescriptorType)


def mro(cls: type) -> tuple[type, ...]:
    """Return the classes that a class looks its attributes up in."""
    found: tuple[type, ...] = _MRO.__get__(cls)
    return found


def class_name(value: object) -> str:
    """Return the name of an object's class."""
    found: str = _CLASS_NAME.__get__(type(value))
    return found


def module_name(cls: type) -> str:
    """Return the name of the module that a class says it is of."""
    found = _CLASS_MODULE.__get__(cls)
    return found if type(found) is str else ""


def flags(cls: type) -> int:
    """Return the flags that Python keeps of a class."""
    found: int = _CLASS_FLAGS.__get__(cls)
    return found


def qualified_name(value: Any) -> str:
    """Return the qualified name of a function or a class, for other objects that of the class."""
    if type(value) is FunctionType or type(value) is BuiltinFunctionType:
        return str(value.__qualname__)
    found = value if is_a(value, type) else type(value)
    copied = own(value, "__qualname__") if found is not value else None
    return copied if type(copied) is str else str(_CLASS_QUALNAME.__get__(found))


def class_attributes(cls: type) -> MappingProxyType[str, Any]:
    """Return the attributes that stand in a class itself."""
    found: MappingProxyType[str, Any] = _CLASS_DICT.__get__(cls)
    return found


def is_a(value: object, *kinds: type) -> bool:
    """Return whether an object's type is one of these classes or derives from one."""
    return any(base is kind for base in mro(type(value)) for kind in kinds)


def attributes(value: object) -> dict[str, Any] | None:
    """Return the `__dict__` of an object, None if it has none or is a class, whose `__dict__` can't be written to."""
    if type(value) is ModuleType:
        module: dict[str, Any] = _MODULE_DICT.__get__(value)
        return module
    for base in mro(type(value)):
        descriptor: Any = class_attributes(base).get("__dict__")
        if any(type(descriptor) is kind for kind in _DICTS):
            found = descriptor.__get__(value)
            return found if is_a(found, dict) else None
    return None


def own(value: object, name: str, default: Any = None) -> Any:
    """Return what stands under a name in an object's own `__dict__`."""
    found = attributes(value)
    return default if found is None else dict.get(found, name, default)


def of_class(cls: type, name: str, default: Any = None) -> Any:
    """Return what stands under a name in a class or its bases, as it stands there: a function isn't bound."""
    return next((class_attributes(base)[name] for base in mro(cls) if name in class_attributes(base)), default)


def static(value: object, name: str, default: Any = None) -> Any:
    """Return what an attribute of an object is kept as: its own before its class's, a function unbound."""
    if is_a(value, type):
        return of_class(value, name, default)  # type: ignore[arg-type]  # it is a class
    found = own(value, name, MISSING)
    return of_class(type(value), name, default) if found is MISSING else found


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """Return an attribute as Python would: methods bound, `__slots__` read; `default` for what only code could tell."""
    found = static(value, name, MISSING)
    is_class = is_a(value, type)
    if not is_class and own(value, name, MISSING) is not MISSING:
        return found
    if type(found) is FunctionType:
        return found if is_class else MethodType(found, value)
    if type(found) is staticmethod:
        return found.__func__
    if type(found) is classmethod:
        return MethodType(found.__func__, value if is_class else type(value))
    if type(found) is MemberDescriptorType and not is_class:
        return slot(found, value, default)
    # Anything else with a `__get__` is a property, or does what one does.
    computed = found is MISSING or of_class(type(found), "__get__", MISSING) is not MISSING
    return default if computed else found


def slot(descriptor: MemberDescriptorType, value: object, default: Any = None) -> Any:
    """Return what is in one of an object's `__slots__`."""
    try:
        return descriptor.__get__(value)
    except AttributeError:
        return default


def function_of(value: object) -> FunctionType | None:
    """Return the Python function that runs when an object is called; None for classes and what C implements."""
    if type(value) is MethodType:
        value = value.__func__
    if type(value) is FunctionType:
        return value
    if is_a(value, functools.partial):
        return function_of(partial_parts(value)[0])
    called = None if is_a(value, type) else of_class(type(value), "__call__")
    return called if type(called) is FunctionType else None


_PARTS = [functools.partial.__dict__[name] for name in ("func", "args", "keywords")]


def partial_parts(value: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the callable, the arguments and the keywords of a functools.partial."""
    func, args, keywords = (part.__get__(value) for part in _PARTS)
    return func, args, keywords
