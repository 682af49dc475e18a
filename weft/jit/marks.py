"""What users write around code that is scripted: decorators, annotations, questions.

Gives the public helpers that mean something in eager code too. One idea: a mark is an attribute of the
function, read when a scripted caller meets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from weft.jit.annotations import resolve
from weft.jit.schema import Mismatch, converter

MODIFIER = "_torchscript_modifier"
IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
UNUSED = "unused (ignored and replaced with raising of an exception)"
EXPORT = "export (compile this function even if nothing calls it)"
DEFAULT = "default (compile if called from a exported function / forward)"
Function = TypeVar("Function", bound=Callable[..., Any])


class Attribute(NamedTuple):
    """A module's attribute with its type: `self.names = jit.Attribute([], List[str])`."""

    value: Any
    type: Any


def is_scripting() -> bool:
    """Whether this code runs scripted: False in Python, True in scripted code."""
    return False


def is_tracing() -> bool:
    """Whether this code is being traced."""
    return TRACING[0] > 0


TRACING = [0]


def ignore(drop: Any = False, **_options: Any) -> Any:
    """Decorator: scripted code calls the function as Python does.

    >>> import weft
    >>> @weft.jit.ignore
    ... def helper(x):
    ...     return x + 1
    """
    if callable(drop):
        setattr(drop, MODIFIER, IGNORE)
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")

    def decorate(function: Any) -> Any:
        setattr(function, MODIFIER, UNUSED if drop else IGNORE)
        return function

    return decorate


def unused(function: Any) -> Any:
    """Decorator: scripted code raises where the function is called."""
    if isinstance(function, property):
        for part in (function.fget, function.fset):
            if part is not None:
                setattr(part, MODIFIER, UNUSED)
        return function
    setattr(function, MODIFIER, UNUSED)
    return function


def export(function: Function) -> Function:
    """Decorator: the method is scripted with its module, though `forward` does not call it."""
    setattr(function, MODIFIER, EXPORT)
    return function


def script_if_tracing(function: Function) -> Function:
    """Decorator: the function itself; traced code records what it did."""
    return function


def modifier(function: Any) -> str:
    """What a function was decorated with."""
    found = getattr(function, MODIFIER, None)
    if found is None and hasattr(function, "__func__"):
        found = getattr(function.__func__, MODIFIER, None)
    return DEFAULT if found is None else str(found)


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; scripted code takes it to be of the type: `jit.annotate(List[int], [])`."""
    return the_value


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type such as `List[int]`."""
    targets = target_type if isinstance(target_type, (tuple, list)) else (target_type,)
    for target in targets:
        try:
            converter(resolve(target))(obj)
        except Mismatch:
            continue
        return True
    return False


def copy_torchscript_modifier(original: Any, new: Any) -> None:
    """Gives a function the mark of another."""
    found = getattr(original, MODIFIER, None)
    if found is not None:
        setattr(new, MODIFIER, found)
