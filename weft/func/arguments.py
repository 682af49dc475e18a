"""What the transforms share: which arguments they differentiate, and what functions may return.

Takes arguments and `argnums`, or the outputs of a function; gives the chosen parts, or raises PyTorch's
error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.trees import flatten
from weft.tensor.base import Tensor

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def checked_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions of the arguments to differentiate, counted from the front."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    if not wanted:
        raise RuntimeError("argnums must be non-empty")
    found = []
    for number in wanted:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -count <= number < count:
            raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
        found.append(number % count)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(found)}")
    return tuple(found)


def chosen(args: tuple[Any, ...], argnums: Any) -> Any:
    """The arguments to differentiate: one, or a tuple of them if argnums is one."""
    numbers = checked_argnums(argnums, len(args))
    return args[numbers[0]] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def replaced(args: tuple[Any, ...], argnums: Any, values: Any) -> tuple[Any, ...]:
    """The arguments with those of argnums replaced."""
    numbers = checked_argnums(argnums, len(args))
    given = (values,) if isinstance(argnums, int) else values
    found = list(args)
    for number, value in zip(numbers, given, strict=True):
        found[number] = value
    return tuple(found)


def split_aux(outputs: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux) of a function that returns both."""
    if not has_aux:
        return outputs, None
    if not (isinstance(outputs, tuple) and len(outputs) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return outputs


def check_aux(aux: Any) -> None:
    for leaf in flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")


def check_filled(outputs: Any, name: str) -> None:
    """Raises where a function to differentiate gives nothing at all."""
    leaves = [None] if outputs is None else flatten(outputs)[0]
    if outputs is None or not leaves:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = {leaves})"
        )


def check_real(leaves: list[Any], name: str, which: str) -> None:
    """Raises at complex arguments or results of a function whose Jacobian is wanted."""
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {which} to be real but received complex tensor at flattened input "
                f"idx: {position}"
            )


def check_tensors(outputs: Any, name: str) -> list[Any]:
    """The leaves of the outputs, all tensors."""
    leaves = flatten(outputs)[0]
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name} to return only tensors, got unsupported type {type(leaf)}")
    return leaves
