"""A mode and a class below autograd that hand every operator on, for the tests of `__torch_dispatch__`."""

from __future__ import annotations

from typing import Any

from weft import Tensor
from weft.overrides import _disabled_torch_function_impl
from weft.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from weft.utils._pytree import tree_map


class Through(TorchDispatchMode):
    """Notes the operators and runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Held(Tensor):
    """Holds a tensor, on which it runs what is done to it; has no elements itself."""

    held: Tensor
    seen: list[str] = []
    __torch_function__ = _disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, requires_grad: bool = False) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), dtype=held.dtype, device=held.device,
            requires_grad=requires_grad or held.requires_grad,
        )  # fmt: skip
        made.held = held.detach() if held.requires_grad else held
        return made

    def __repr__(self, **_options: Any) -> str:
        return f"Held({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func))

        def unwrapped(value):
            return value.held if isinstance(value, cls) else value

        def wrapped(value):
            return cls(value) if isinstance(value, Tensor) and not isinstance(value, cls) else value

        out = tree_map(wrapped, func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {})))
        return return_and_correct_aliasing(func, args, kwargs, out)
