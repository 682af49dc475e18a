"""Overriding Weft's functions from outside: function modes, and questions about `__torch_function__`.

The names of `torch.overrides`. Classes override calls that their instances take part in (see
`weft.tensor.overrides`); a `TorchFunctionMode` overrides every call made while it is active.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Self

from weft.autograd import engine
from weft.core.modes import enter, modes
from weft.tensor import shims
from weft.tensor.base import Parameter, Tensor
from weft.tensor.faces import FUNCTIONS
from weft.tensor.overrides import NO_WRAP, name_of
from weft.tensor.overrides import DisableTorchFunction as DisableTorchFunction
from weft.tensor.overrides import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from weft.tensor.overrides import disabled_torch_function as _disabled_torch_function_impl
from weft.tensor.overrides import handle_torch_function as handle_torch_function
from weft.tensor.overrides import has_torch_function as has_torch_function
from weft.tensor.overrides import wrap_torch_function as wrap_torch_function

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "_disabled_torch_function_impl",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

shims.FURTHER += [engine.grad, engine.backward]


class TorchFunctionMode:
    """Takes over every call of a Weft function while it is active: `with Mode(): ...`.

    Inside `__torch_function__` the mode itself is off, so calling `func` runs it or hands it to the next.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *_error: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The old spelling of `cls(...)`."""
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            UserWarning,
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    shims.activate()
    enter(functions=(*modes().functions, mode))


def _pop_mode() -> TorchFunctionMode:
    functions = modes().functions
    mode: TorchFunctionMode = functions[-1]
    enter(functions=functions[:-1])
    shims.deactivate()
    return mode


def _get_current_function_mode() -> TorchFunctionMode | None:
    functions = modes().functions
    return functions[-1] if functions else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(modes().functions)


class _pop_mode_temporarily:
    def __enter__(self) -> TorchFunctionMode:
        self.mode = _pop_mode()
        return self.mode

    def __exit__(self, *_error: object) -> None:
        _push_mode(self.mode)


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor or an object that stands for one: its class has `__torch_function__`."""
    return type(inp) in (Tensor, Parameter) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function given to `__torch_function__` is (also) a method or a property of Tensor."""
    owner = getattr(func, "__self__", None)
    return any(value is func or (owner is not None and value is owner) for value in Tensor.__dict__.values())


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of an overridable function, None for others."""
    known = isinstance(getattr(f, "__self__", None), property) or hasattr(f, "op")
    return name_of(f) if known or is_tensor_method_or_property(f) or f in shims.functions().values() else None


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results the default `Tensor.__torch_function__` leaves in the class they have."""
    return {Tensor.__dict__[name].__get__ for name in NO_WRAP}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions and Tensor attributes that cannot be overridden."""
    root = sys.modules["weft"]
    found = {getattr(root, name, None) for name in shims.NOT_OFFERED}
    found |= {getattr(Tensor, name, None) for name in shims.IGNORED}
    return {value for value in found if callable(value)}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Every overridable function by where it lives: modules, `Tensor`, properties with their accessors."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for name, function in (FUNCTIONS | shims.functions()).items():
        space = name.rpartition(".")[0]
        module = sys.modules.get(f"weft.{space}" if space else "weft")
        if module is not None:
            found.setdefault(module, []).append(function)
    methods = {id(value): value for value in Tensor.__dict__.values() if hasattr(value, "op")}
    for value in shims.attributes().values():
        if isinstance(value, property):
            accessors: list[Callable[..., Any]] = [
                value.__get__,
                *([value.__set__] if value.fset else []),
                *([value.__delete__] if value.fdel else []),
            ]
            found[value] = accessors
        else:
            methods[id(value)] = value
    found[Tensor] = list(methods.values())
    return found
