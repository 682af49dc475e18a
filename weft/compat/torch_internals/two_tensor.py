"""A subclass of tensors that holds two: what tests of subclasses use."""

from __future__ import annotations

from typing import Any

from weft.core.trees import tree_map
from weft.tensor.base import Tensor
from weft.tensor.overrides import disabled_torch_function
from weft.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing


class TwoTensor(Tensor):
    """Shows the type of the first of two tensors, and does to both what is done to it."""

    a: Tensor
    b: Tensor
    __torch_function__: Any = staticmethod(disabled_torch_function)

    @staticmethod
    def __new__(cls: Any, a: Tensor, b: Tensor, outer_size: Any = None, outer_stride: Any = None) -> Any:
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        make: Any = vars(Tensor)["_make_wrapper_subclass"].__func__
        size = a.size() if outer_size is None else outer_size
        strides = a.stride() if outer_stride is None else outer_stride
        grad = a.requires_grad or b.requires_grad
        made = make(cls, size, strides=strides, dtype=a.dtype, device=a.device, requires_grad=grad)
        made.a, made.b = a, b
        return made

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass

    def shown(self, **_options: Any) -> str:
        """What `repr` gives."""
        return f"TwoTensor({self.a!r}, {self.b!r})"

    __repr__: Any = shown

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], _context: Any, size: Any, stride: Any) -> TwoTensor:
        made: TwoTensor = TwoTensor(inner["a"], inner["b"], size, stride)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def side(name: str, tree: Any) -> Any:
            return tree_map(lambda leaf: getattr(leaf, name) if isinstance(leaf, TwoTensor) else leaf, tree)

        kwargs = kwargs or {}
        first = func(*side("a", args), **side("a", kwargs))
        second = iter(leaves(func(*side("b", args), **side("b", kwargs))))

        def paired(leaf: Any) -> Any:
            other = next(second)
            return cls(leaf, other) if isinstance(leaf, Tensor) else leaf

        return return_and_correct_aliasing(func, args, kwargs, tree_map(paired, first))


def leaves(tree: Any) -> list[Any]:
    """What lies in nested data, in order."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


class TwoTensorMode(TorchDispatchMode):
    """Makes tensors of factories pairs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        holds = any(isinstance(leaf, Tensor) for leaf in leaves((args, kwargs or {})))
        return result if holds or not isinstance(result, Tensor) else TwoTensor(result, result.clone())
