"""Forward mode: tensors with tangents, inside a dual level.

Takes tensors and the directions in which they move (`make_dual`), gives, after any computation, the
directions in which results move (`unpack_dual`). `weft.func.jvp` is the same with the level opened and
closed around a function.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NamedTuple

from weft.autograd.dual import STILL, Directions, dual, is_dual, is_still
from weft.autograd.grad_mode import _Mode
from weft.core import modes
from weft.tensor.base import Tensor
from weft.tensor.wrapper import levels

_open: ContextVar[tuple[Directions, ...]] = ContextVar("weft_dual_levels", default=())


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent (None where it has none)."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens the level in which duals can be made; there is one at a time."""
    if _open.get():
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    level = Directions()
    _open.set((level,))
    levels.set((*levels.get(), level))
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: every dual tensor made in it becomes its primal."""
    level = _number(level)
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != len(_open.get()) - 1:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not "
            "supported."
        )
    (closed,) = _open.get()
    _open.set(())
    levels.set(tuple(other for other in levels.get() if other is not closed))
    closed.close()


class dual_level(_Mode):
    """Context in which duals can be made."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_error: object) -> None:
        exit_dual_level()


class _set_fwd_grad_enabled(_Mode):
    """Context in which forward gradients are computed, or not: results are constants then."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before: Any = None

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self.before = None
        if self.mode is is_still():
            self.before = modes.modes().extra
            others = tuple([pair for pair in self.before if pair is not STILL])
            modes.enter(extra=others if self.mode else (*others, STILL))

    def __exit__(self, *_error: object) -> None:
        if self.before is not None:
            modes.enter(extra=self.before)


def _is_fwd_grad_enabled() -> bool:
    """Whether forward gradients are computed."""
    return not is_still()


def __getattr__(name: str) -> int:
    if name == "_current_level":
        return _number(None)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _number(level: int | None) -> int:
    """Which level is meant, as PyTorch numbers them: where none is open, -1 is."""
    return len(_open.get()) - 1 if level is None else level


def _level(level: int | None, text: str) -> Directions:
    level = _number(level)
    if level < 0:
        raise RuntimeError(text)
    if level >= len(_open.get()):
        raise RuntimeError(
            "Trying to access a forward AD level with an invalid index. This index was either not created "
            "or is already "
            "deleted."
        )
    return _open.get()[level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A dual tensor of `tensor` and `tangent`, on the tensor's memory."""
    where = _level(
        level,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() "
        "first.",
    )
    return checked_dual(tensor, tangent, where)


def checked_dual(tensor: Tensor, tangent: Tensor, level: Directions) -> Tensor:
    """A dual of this level, if its parts fit each other."""
    for label, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {label} to be floating point or complex, but got: {value.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, "
            "this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if is_dual(tensor, level):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            "0 is not supported."
        )
    return dual(tensor.view_as(tensor), tangent, level)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of a dual tensor."""
    level = _number(level)
    if level < 0 or level >= len(_open.get()) or not is_dual(tensor, _open.get()[level]):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(tensor.primal, tensor.tangent)
