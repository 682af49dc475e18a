"""What modules hold: `Parameter`, `Buffer`, and their forms whose shape is not known yet.

Takes tensors, gives tensors that `Module.__setattr__` recognises. One idea: a `Parameter` is a class of its
own because ops name it, a `Buffer` is any tensor that carries a mark, so that it behaves as the tensor it was
made from.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from weft.core.dtypes import get_default_dtype
from weft.core.naming import named
from weft.ops.record import ops
from weft.tensor.base import Parameter as Parameter
from weft.tensor.base import Tensor, wrap
from weft.tensor.overrides import disabled_torch_function

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

Parameter.__module__ = __name__  # where users import it from, and find it in pickles


class _BufferKind(type):
    """`isinstance(x, Buffer)` asks for the mark, because making a Buffer keeps the tensor's own class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False) is True
        return type.__instancecheck__(cls, instance)


class Buffer(metaclass=_BufferKind):
    """A tensor that becomes a buffer of the module it is assigned to.

    Arguments:

    - `data`: the tensor whose elements it holds, by default none
    - `persistent`: whether the module's state dict has it

    Shapes:

    - that of `data`

    >>> module = weft.nn.Module()
    >>> module.steps = weft.nn.Buffer(weft.zeros(1))
    >>> list(module.state_dict())
    ['steps']
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = wrap(np.empty(0, get_default_dtype().numpy))
        made = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


# -- shape not known yet -------------------------------------------------------------------------------------
NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
    "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
    "`forward` to initialize the parameters before accessing their attributes."
)
USABLE = frozenset(
    {
        "__hash__", "char", "copy_", "cpu", "cuda", "double", "float", "get_device", "half", "int",
        "is_complex", "is_floating_point", "long", "short", "size", "to",
    }
)  # fmt: skip
"""Methods of a tensor that mean something before its shape is known."""


class UninitializedTensorMixin:
    """What uninitialized parameters and buffers have in common: a dtype and a device, but no shape; ops
    refuse them."""

    __slots__ = ()
    cls_to_become: ClassVar[type[Tensor]]
    array: Any
    requires_grad: bool

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Becomes an ordinary parameter or buffer of this shape, its elements arbitrary."""
        given: Any = self
        where = given.device if device is None else device
        made = ops.empty(tuple(shape), dtype=given.dtype if dtype is None else dtype, device=where)
        self.array = made.array
        given.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(NO_SHAPE)

    def share_memory_(self) -> None:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = _again(*self.__reduce_ex__(2)[1])
        return memo[id(self)]

    def __reduce_ex__(self, proto: Any) -> Any:
        given: Any = self
        return _again, (type(self), given.requires_grad, given.device, given.dtype)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(getattr(func, "__self__", None), property) or func.__name__ in USABLE:
            return disabled_torch_function(func, types, args, kwargs)
        raise ValueError(
            named(
                f"Attempted to use an uninitialized parameter in {func}. This error happens when you are "
                "using a `LazyModule` or explicitly manipulating `weft.nn.parameter.UninitializedParameter` "
                "objects. When using LazyModules Call `forward` with a dummy batch to initialize the "
                "parameters before calling weft functions"
            )
        )


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter that waits for its shape.

    Arguments:

    - `requires_grad`: whether gradients are computed for it
    - `device`: where it will lie; the CPU is the only place
    - `dtype`: of its elements; by default that of `weft.get_default_dtype()`

    Shapes:

    - none, until `materialize` gives it one

    >>> waiting = weft.nn.UninitializedParameter()
    >>> waiting.materialize((2, 3))
    >>> type(waiting).__name__, waiting.shape
    ('Parameter', weft.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        made = ops.empty((0,), device=device, dtype=dtype)
        made.__class__ = cls
        made.tracked = requires_grad
        return made


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer that waits for its shape.

    Arguments:

    - `requires_grad`: whether gradients are computed for it
    - `device`: where it will lie; the CPU is the only place
    - `dtype`: of its elements; by default that of `weft.get_default_dtype()`
    - `persistent`: whether the module's state dict has it

    Shapes:

    - none, until `materialize` gives it one

    >>> waiting = weft.nn.UninitializedBuffer()
    >>> waiting.materialize((2, 3))
    >>> type(waiting).__name__, waiting.shape
    ('Tensor', weft.Size([2, 3]))
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        made = ops.empty((0,), device=device, dtype=dtype)
        made.__class__ = cls
        made.tracked = requires_grad
        made.persistent = persistent
        made._is_buffer = True
        return made


def _again(kind: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    """From a pickle."""
    return kind(requires_grad, device, dtype)


def is_lazy(tensor: Any) -> bool:
    """Whether this is a parameter or buffer whose shape is not known yet."""
    return isinstance(tensor, UninitializedTensorMixin)
