"""Moving modules: to other dtypes and devices, tensor by tensor.

Takes a module and a function of tensors; gives the module with each parameter, gradient and buffer replaced
by what the function made of it. One idea: everything meets in `_apply`, and a parameter stays the same object
wherever its new value can live in it, so that optimizers keep theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

from weft.core import dtypes
from weft.core.device import creation_device
from weft.core.dtypes import dtype
from weft.core.modes import enter, leave
from weft.core.naming import named
from weft.nn.parameter import Parameter, is_lazy
from weft.ops.record import ops
from weft.tensor.base import Tensor

TO_FORMS = (
    " * (weft.device device = None, weft.dtype dtype = None, bool non_blocking = False, bool copy = False, "
    "*, weft.memory_format memory_format = None)\n * (weft.dtype dtype, bool non_blocking = False, bool copy "
    "= False, *, weft.memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, "
    "bool copy = False, *, weft.memory_format memory_format = None)\n"
)
COMPLEX = (
    "Complex modules are a new feature under active development whose design may change, and some modules "
    "might not work as expected when using complex tensors as parameters or buffers. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work "
    "as expected."
)


class Movable:
    """The part of Module that changes its tensors all alike."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]

    def children(self) -> Any:
        raise NotImplementedError

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replaces every parameter, gradient and buffer by what `fn` makes of it."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _applied(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Casts floating point parameters and buffers to float32."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Casts floating point parameters and buffers to float64."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Casts floating point parameters and buffers to float16."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Casts floating point parameters and buffers to bfloat16."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def cpu(self) -> Self:
        """Moves all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Moves all parameters and buffers to a GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values."""
        where = creation_device(device)
        return self._apply(lambda tensor: ops.empty_like(tensor, device=where), recurse=recurse)

    def share_memory(self) -> Self:
        """Moves parameters and buffers to memory that processes share."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """`to(device, dtype)`, `to(dtype)`, `to(tensor)`, `to(memory_format=...)`: moves all parameters and
        buffers, and
        casts those of floating point."""
        where, kind, non_blocking, form = parse_to(args, kwargs)
        if kind is not None:
            if not (kind.is_floating_point or kind.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={kind}"
                )
            if kind.is_complex:
                warnings.warn(COMPLEX, stacklevel=2)

        def moved(tensor: Any) -> Any:
            floating = tensor.is_floating_point() or tensor.is_complex()
            options: dict[str, Any] = (
                {"memory_format": form} if form is not None and tensor.dim() in (4, 5) else {}
            )
            try:
                return tensor.to(where, kind if floating else None, non_blocking, **options)
            except NotImplementedError as error:
                if str(error) == "Cannot copy out of meta tensor; no data!":
                    raise NotImplementedError(
                        named(
                            f"{error} Please use weft.nn.Module.to_empty() instead of weft.nn.Module.to() "
                            "when moving module from meta to a different device."
                        )
                    ) from None
                raise

        return self._apply(moved)


def _applied(parameter: Any, fn: Callable[[Any], Any]) -> Any:
    """The parameter after `fn`: the same object with new data if its device stays, else a new one; its
    gradient too."""
    gradient = parameter._grad
    token = enter(grad=False)
    try:
        value = fn(parameter)
        if gradient is not None:
            gradient_value = fn(gradient)
    finally:
        leave(token)
    stays = is_lazy(parameter) or (
        value.device == parameter.device and type(value) in (Tensor, type(parameter))
    )
    if stays:
        if value is not parameter:
            parameter.data = value
        moved = parameter
    else:
        moved = Parameter(value, parameter.requires_grad)
    if gradient is not None:
        if stays:
            if gradient_value is not gradient:
                gradient.data = gradient_value
            parameter._grad = gradient
        else:
            moved.grad = gradient_value.requires_grad_(gradient.requires_grad)
    return moved


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, dtype | None, bool, Any]:
    """As `parse_to`, of arguments as they are given."""
    return parse_to(args, kwargs)


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dtype | None, bool, Any]:
    """Device, dtype, non_blocking and memory format asked for by the arguments of `Module.to`."""
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    if args:
        if isinstance(args[0], Tensor):
            names = ("tensor", "non_blocking", "copy")
        elif isinstance(args[0], dtype):
            names = ("dtype", "non_blocking", "copy")
    given = dict(zip(names, args, strict=False))
    allowed = {*names, "memory_format", *(("tensor",) if not args else ())}
    if len(args) > len(names) or given.keys() & kwargs.keys() or not kwargs.keys() <= allowed:
        raise _no_such_to(args, kwargs)
    given.update(kwargs)
    if not (
        isinstance(given.get("non_blocking", False), bool) and isinstance(given.get("copy", False), bool)
    ):
        raise _no_such_to(args, kwargs)
    kind, where, other = given.get("dtype"), given.get("device"), given.get("tensor")
    if other is not None:
        kind, where = other.dtype, other.device
    if kind is not None and not isinstance(kind, dtype):
        if kind not in (float, int, bool, complex):
            raise _no_such_to(args, kwargs)
        kind = dtypes.as_dtype(kind)
    if where is not None:
        where = creation_device(where)
    return where, kind, given.get("non_blocking", False), given.get("memory_format")


def _no_such_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = ", ".join(
        [_short(value) for value in args] + [f"{name}={_short(value)}" for name, value in kwargs.items()]
    )
    got += ", " if kwargs else ""
    return TypeError(
        f"to() received an invalid combination of arguments - got ({got}), but expected one of:\n"
        + named(TO_FORMS)
    )


def _short(value: Any) -> str:
    name = type(value).__name__
    return f"weft.{name}" if name in ("dtype", "device", "memory_format") else name
