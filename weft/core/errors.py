"""Errors of our own, and what errors call a class. Whatever PyTorch raises as a built-in class (RuntimeError,
TypeError, …) stays that class.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

IMMUTABLE_TYPE: Final = 1 << 8  # in type.__flags__: a class written in C; a class statement never makes one


class LinAlgError(RuntimeError):
    """A matrix has no such factorisation (singular, not positive definite, …)."""


class AcceleratorError(RuntimeError):
    """A device failed; programs name it to catch it."""

    __module__ = "weft"


class OutOfMemoryError(RuntimeError):
    """A device has no memory left; programs name it to catch it."""

    __module__ = "weft"


class NotCompiled(BaseException):
    """Something was not compiled, or compiled too often, though it runs. Raised in strict mode only.

    No Exception: an entry whose graph raises one runs its original instead.
    """


def no_derivative(text: str, kind: type[RuntimeError] = RuntimeError) -> NoReturn:
    """Raises: a rule says that a derivative is not there, which is no failure of whoever asks for it ahead of
    time.
    """
    error: Any = kind(text)
    error.no_derivative = True
    raise error


def underivable(name: str) -> NoReturn:
    """Raises what PyTorch does in backward of an op that has none."""
    no_derivative(f"derivative for aten::{name} is not implemented")


def is_no_derivative(error: BaseException) -> bool:
    """Whether an error was raised by `no_derivative`."""
    return getattr(error, "no_derivative", False) is True


def qualified_name(kind: type) -> str:
    """The class with its module: `int`, `collections.deque`, `weft.nn.modules.linear.Linear`."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def argument_name(kind: type) -> str:
    """What PyTorch's parser of arguments calls it: `int`, `numpy.ndarray`, a Python class by name alone."""
    return qualified_name(kind) if kind.__flags__ & IMMUTABLE_TYPE else kind.__name__
