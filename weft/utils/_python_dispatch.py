"""Modes below autograd: `with Mode(): ...` hands every operator to `Mode.__torch_dispatch__`.

The names of `torch.utils._python_dispatch`. What a handler receives and when is written in
`weft.tensor.below`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from weft.core.contexts import Block, set_to
from weft.core.modes import changed, enter, modes, state
from weft.tensor.base import Tensor
from weft.tensor.overrides import handling

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "_disable_current_modes",
    "_get_current_dispatch_mode",
    "_get_current_dispatch_mode_stack",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """Is handed every operator that runs while it is active: `with Mode(): ...`.

    Inside `__torch_dispatch__` the mode itself is off: `func(*args, **kwargs)` goes on to the mode around it,
    and `with self:` puts it on again.
    """

    def __init__(self, _dispatch_key: object = None) -> None:
        if _dispatch_key is not None:
            self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
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
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether it is part of a compiler: none is."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether compiled code runs compiled while it is on: it never does."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchDispatchMode) -> None:
    handling.append(mode)
    enter(dispatch=(*modes().dispatch, mode))


def _pop_mode(_key: object = None) -> TorchDispatchMode:
    *rest, mode = modes().dispatch
    enter(dispatch=tuple(rest))
    place = next((i for i, each in enumerate(handling) if each is mode), None)
    if place is not None:
        del handling[place]
    found: TorchDispatchMode = mode
    return found


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode."""
    active = modes().dispatch
    return active[-1] if active else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The active modes, innermost last."""
    return list(modes().dispatch)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active."""
    return bool(modes().dispatch)


def _disable_current_modes() -> Block:
    """Inside, none of the modes that are active now is; gives them."""
    return set_to((state, changed(dispatch=())), given=list(modes().dispatch))


def _pop_mode_temporarily(_key: object = None) -> Block:
    """Inside, the innermost mode is off; gives it."""
    *rest, mode = modes().dispatch
    return set_to((state, changed(dispatch=tuple(rest))), given=mode)


# -- subclasses ----------------------------------------------------------------------------------------------
def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is a tensor whose class says which tensors it holds (`__tensor_flatten__`)."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class of tensors says which tensors its objects hold."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A tensor of the same class around what `callback(name, tensor)` gives for the tensors that it holds."""
    size = outer_size if outer_size is not None else t.size()
    stride = outer_stride if outer_stride is not None else t.stride()
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    assert made.shape == size, (
        f"expected {type(t).__name__}'s __tensor_unflatten__ to give a size of {size}, not {made.shape}"
    )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a handler is to return: the argument itself, where the operator writes to it; results that lie in
    the memory of an argument, where it is a view.
    """
    schema = func._schema
    written = [argument for argument in schema.arguments
               if argument.alias_info is not None and argument.alias_info.is_write]  # fmt: skip
    if not written:
        return out
    positions = {argument.name: place for place, argument in enumerate(schema.arguments)}
    given = []
    for argument in written:
        place = positions[argument.name]
        kwargs = kwargs or {}
        given.append(kwargs[argument.name] if argument.name in kwargs else args[place])
    if len(given) == 1:
        return given[0]
    return type(out)(given) if isinstance(out, (tuple, list)) else given[0]
