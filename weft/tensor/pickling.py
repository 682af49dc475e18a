"""Pickles and copies of tensors: storages travel once, so that views still share memory afterwards."""

from __future__ import annotations

import copy
from typing import Any

from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.modes import within
from weft.core.naming import named
from weft.core.warn import warn_at_level
from weft.tensor.base import Tensor, method, wrap
from weft.tensor.meta import MetaArray
from weft.tensor.overrides import has_handler
from weft.tensor.storage import described, rebuild
from weft.tensor.views import settled

NOT_A_LEAF = (
    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
    "moment.  If you were "
    "attempting to deepcopy a module, this may be because of a weft.nn.utils.weight_norm usage, see "
    "https://github.com/pytorch/pytorch/pull/103001"
)


def rebuild_tensor(
    kind: type[Tensor], description: tuple[Any, ...], requires_grad: bool, state: Any = None
) -> Tensor:
    """A tensor from what `__reduce_ex__` told of it."""
    tensor = wrap(rebuild(*description), requires_grad, kind)
    if state:
        tensor.__dict__.update(state)
    return tensor


def rebuild_meta(
    kind: type[Tensor],
    element: dtype,
    size: tuple[int, ...],
    steps: tuple[int, ...],
    requires_grad: bool,
    state: Any = None,
) -> Tensor:
    """The same for a tensor without elements."""
    tensor = wrap(MetaArray(size, element.numpy, steps), requires_grad, kind)
    if state:
        tensor.__dict__.update(state)
    return tensor


def rebuild_wrapper(
    kind: type[Tensor], element: dtype, size: Any, stride: Any, where: device, tracked: bool, state: Any
) -> Tensor:
    """The same for a tensor whose class knows its elements, which lie in its attributes."""
    make: Any = vars(Tensor)["_make_wrapper_subclass"].__func__
    made: Tensor = make(kind, size, strides=stride, dtype=element, device=where, requires_grad=tracked)
    for name, value in state.items():
        setattr(made, name, value)
    return made


def _is_wrapper(tensor: Tensor) -> bool:
    return type(tensor.array) is MetaArray and has_handler(tensor)


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """What a tensor of a user's class holds, be it in slots."""
    found = dict(tensor.__dict__)
    for kind in type(tensor).__mro__[: type(tensor).__mro__.index(Tensor)]:
        slots = kind.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found |= {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}
    return found


@method
def __reduce_ex__(self: Tensor, protocol: object) -> Any:
    settled(self)
    hooks = getattr(self, "_backward_hooks", None)
    if hooks:
        warn_at_level(
            named(
                f"backward hooks {list(hooks.values())!r} on tensor will not be serialized. If this is "
                "expected, you can decorate the function with @weft.utils.hooks.unserializable_hook to "
                "suppress this warning"
            ),
            UserWarning,
            stacklevel=2,
        )
    if _is_wrapper(self):
        facts = (self.dtype, tuple(self.shape), self.stride(), self.device, self.tracked)
        return rebuild_wrapper, (type(self), *facts, _attributes(self))
    state = dict(self.__dict__) or None
    if self.is_meta:
        return rebuild_meta, (
            type(self),
            self.dtype,
            self.array.shape,
            self.array.strides,
            self.tracked,
            state,
        )
    return rebuild_tensor, (type(self), described(self), self.tracked, state)


@method
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if settled(self).node is not None:
        raise RuntimeError(NOT_A_LEAF)
    if id(self) in memo:
        found: Tensor = memo[id(self)]
        return found
    if _is_wrapper(self):
        return _copied_wrapper(self, memo)
    with within(grad=False):
        if self.is_meta:
            array: Any = MetaArray(self.array.shape, self.array.dtype, self.array.strides)
        else:
            held, kind, offset, size, stride = described(self)
            array = rebuild(copy.deepcopy(held, memo), kind, offset, size, stride)
        made = wrap(array, self.tracked, type(self))
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = copy.deepcopy(self._grad, memo)
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return made


def _copied_wrapper(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    with within(grad=False):
        made: Tensor = tensor.clone()
        if type(made) is not type(tensor):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for "
                "subclass types that properly implement clone(), such that it gives an object of the class "
                f"{type(tensor).__name__}"
            )
        made.requires_grad_(tensor.tracked)
        memo[id(tensor)] = made
        if tensor._grad is not None:
            made._grad = copy.deepcopy(tensor._grad, memo)
        for name, value in _attributes(tensor).items():
            setattr(made, name, copy.deepcopy(value, memo))
    return made
