"""Pickles and copies of tensors: storages travel once, so that views still share memory afterwards."""

from __future__ import annotations

import copy
from typing import Any

from weft.core.dtypes import dtype
from weft.core.modes import within
from weft.core.naming import named
from weft.core.warn import warn_at_level
from weft.tensor.base import Tensor, method, wrap
from weft.tensor.meta import MetaArray
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
