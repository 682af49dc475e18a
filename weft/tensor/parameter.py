"""Parameters: how `Parameter(data, requires_grad)` is made, shown and copied.

The class lies in `weft.tensor.base`, because the fast paths of ops name it; here it gets what users see of
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.dtypes import get_default_dtype
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.tensor.base import PLAIN, PUBLIC, Parameter, Tensor, wrap
from weft.tensor.dispatch import require_gradient
from weft.tensor.views import attach_alias


def _new(cls: type[Parameter], data: Any = None, requires_grad: bool = True) -> Any:
    if data is None:
        data = wrap(np.empty(0, get_default_dtype().numpy))
    if type(data) in PLAIN:
        made = attach_alias(data)
        made.__class__ = cls
    else:  # a tensor of another class keeps it, and is marked
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
                f"detach() returns an "
                f"instance of the same type, but return type {type(made).__name__} was found instead. To "
                f"use the type as a "
                "Parameter, please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        made._is_param = True
        return made
    return require_gradient(made) if requires_grad else made


def _deepcopy(self: Parameter, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    copied = type(self)(ops.clone(attach_alias(self), memory_format=preserve_format), self.tracked)
    memo[id(self)] = copied
    return copied


def _reduce(self: Parameter, protocol: object) -> Any:
    data = attach_alias(self)
    state = self.__dict__
    return rebuild_parameter, (data, self.tracked, dict(state)) if state else (data, self.tracked)


def rebuild_parameter(data: Tensor, requires_grad: bool, state: dict[str, Any] | None = None) -> Parameter:
    made = Parameter(data, requires_grad)
    made.__dict__.update(state or {})
    return made


for _name, _function in (("__new__", _new), ("__deepcopy__", _deepcopy), ("__reduce_ex__", _reduce)):
    setattr(Parameter, _name, _function)
PUBLIC["nn.Parameter"] = Parameter
