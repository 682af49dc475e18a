"""A subclass of tensors that holds two: what tests of subclasses use."""

from __future__ import annotations

from typing import Any

from weft.tensor.base import Tensor


class TwoTensor(Tensor):
    """Shows the first of two tensors, and does to both what is done to it."""

    @staticmethod
    def __new__(cls: Any, a: Tensor, b: Tensor) -> Any:
        made = a.detach().as_subclass(cls).requires_grad_(a.requires_grad)
        made.a, made.b = a, b
        return made

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a, self.b = a, b

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"TwoTensor({self.a!r}, {self.b!r})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def side(name: str, value: Any) -> Any:
            if isinstance(value, TwoTensor):
                return value.__dict__[name]
            if isinstance(value, (list, tuple)):
                return type(value)(side(name, item) for item in value)
            return value

        if getattr(func, "__name__", "") in ("__get__", "__set__", "requires_grad_", "detach"):
            return super().__torch_function__(func, types, args, kwargs or {})
        results = []
        for name in ("a", "b"):
            options = {key: side(name, value) for key, value in (kwargs or {}).items()}
            results.append(func(*side(name, tuple(args)), **options))
        if isinstance(results[0], Tensor):
            return TwoTensor(results[0], results[1])
        return results[0]
