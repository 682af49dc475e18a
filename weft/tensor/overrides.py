"""Overrides: `__torch_function__` on subclasses and function modes, which may take any call over.

Takes a call that is not plain, decides who handles it. `intercept` answers `(True, result)` if somebody did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.modes import Modes, enter, leave
from weft.ops.record import Op
from weft.ops.signature import MISSING
from weft.tensor.base import PLAIN, Tensor


def has_override(value: Any) -> bool:
    """Whether this argument's class defines a `__torch_function__` of its own."""
    kind = type(value)
    return kind not in PLAIN and getattr(kind, "__torch_function__", None) is not None


def call_form(op: Op, bound: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The bound arguments as the user would write them: trailing defaults dropped, keyword-only ones by name."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    pending: list[Any] = []
    for parameter, value in zip(op.signature.parameters, bound, strict=True):
        default = parameter.default is not MISSING and value is parameter.default
        if parameter.keyword_only:
            if not default:
                keywords[parameter.name] = value
        elif default:
            pending.append(value)
        else:
            positional += [*pending, value]
            pending = []
    return tuple(positional), keywords


def intercept(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], mode: Any) -> tuple[bool, Any]:
    return intercept_function(op.face, op, bound, tensors, mode)


def intercept_function(
    function: Callable[..., Any], op: Op, bound: tuple[Any, ...], tensors: list[Any], mode: Any
) -> tuple[bool, Any]:
    """Offers the call to function modes, then to the arguments' classes."""
    if isinstance(mode, Modes) and mode.shielded:
        return False, None
    args, kwargs = call_form(op, bound)
    return offer(function, args, kwargs, [v for v in (*tensors, *bound) if has_override(v)], mode)


def offer(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], overloaded: list[Any], mode: Any
) -> tuple[bool, Any]:
    """The protocol itself: innermost mode first, then argument classes, subclasses before their bases."""
    classes: list[type] = []
    for value in overloaded:
        kind = type(value)
        if kind in classes:
            continue
        position = next((i for i, other in enumerate(classes) if issubclass(kind, other)), len(classes))
        classes.insert(position, kind)
    if isinstance(mode, Modes) and mode.functions:
        inner = mode.functions[-1]
        token = enter(functions=mode.functions[:-1])
        try:
            result = inner.__torch_function__(function, tuple(classes), args, kwargs)
        finally:
            leave(token)
        if result is not NotImplemented:
            return True, result
    for kind in classes:
        handler: Any = kind.__torch_function__  # type: ignore[attr-defined]
        result = handler(function, tuple(classes), args, kwargs)
        if result is not NotImplemented:
            return True, result
    if classes:
        names = ", ".join(repr(kind) for kind in classes)
        raise TypeError(
            f"no implementation found for '{function.__module__}.{function.__name__}' on types that implement "
            f"__torch_function__: [{names}]"
        )
    return False, None


def default_torch_function(
    cls: type[Tensor], func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """What a Tensor subclass does unless it says otherwise: run the op, and give results its own class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    token = enter(shielded=True)
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        leave(token)
    return convert(result, cls)


def convert(result: Any, cls: type[Tensor]) -> Any:
    """Plain tensors in a result take the subclass."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)  # type: ignore[attr-defined]
    if isinstance(result, (tuple, list)):
        items = [convert(item, cls) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def disabled_torch_function(
    func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """For subclasses that want no overriding: runs the op and leaves results plain."""
    token = enter(shielded=True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        leave(token)


Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[attr-defined]
