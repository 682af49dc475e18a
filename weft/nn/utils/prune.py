"""Pruning: weights set to zero by a mask that a hook applies before each forward.

Takes a module and the name of a parameter; the parameter moves to `name_orig`, the mask is the buffer
`name_mask`, and `name` becomes their product. One idea: a method says which mask (`compute_mask`), given the
mask so far; pruning again puts methods in a container, which computes the last one on what the others left.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from weft.core.types import contiguous_format
from weft.nn.modules.module import Module
from weft.nn.utils.weights import other_axes, removed
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to prune; subclasses give `PRUNING_TYPE` ("unstructured", "structured" or "global") and
    `compute_mask`."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for this tensor, on top of the one it has."""

    def apply_mask(self, module: Any) -> Any:
        """The tensor as pruned."""
        if not hasattr(self, "_tensor_name"):
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (
            getattr(module, f"{self._tensor_name}_mask"),
            getattr(module, f"{self._tensor_name}_orig"),
        )
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prunes `module.name` by this method, on top of those that pruned it before."""
        method: Any = cls(*args, **kwargs)
        earlier = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(earlier) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        method._tensor_name = name
        if earlier:
            key, hook = earlier[0]
            del module._forward_pre_hooks[key]
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if not earlier:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            default = ops.ones_like(original)
        else:
            default = getattr(module, f"{name}_mask").detach().clone()
        try:
            module.register_buffer(f"{name}_mask", method.compute_mask(scores, default_mask=default))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not earlier:
                original = getattr(module, f"{name}_orig")
                module.register_parameter(name, original)
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """The tensor as this method prunes it, with no module involved."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default)

    def remove(self, module: Any) -> None:
        """Makes the pruning final: the parameter is there again, with zeros in it."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        name = self._tensor_name
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[f"{name}_orig"]
        original.data = weight.detach()
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods that pruned one tensor, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and isinstance(args[0], BasePruningMethod):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
        elif len(args) == 1 and isinstance(args[0], Iterable):
            for method in args[0]:
                self.add_pruning_method(method)
        else:
            for method in args:
                self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Adds a method for the same tensor."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last method, on what the mask so far leaves."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            places: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            # Whole slices are pruned: those that are all zero already do not count.
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            rank = t.dim()
            dim = method.dim + rank if method.dim < 0 else method.dim
            if dim >= rank:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {rank}")
            others = [axis for axis in range(rank) if axis != dim]
            alive = (mask.sum(dim=others) != 0) if others else mask != 0
            places = tuple([alive if axis == dim else slice(None) for axis in range(rank)])
        elif method.PRUNING_TYPE == "global":
            places = tuple([slice(None)] * t.dim())
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        part = method.compute_mask(t[places], default_mask=mask[places])
        combined = mask.clone()
        combined[places] = part.to(dtype=mask.dtype)
        return combined


# -- methods -------------------------------------------------------------------------------------------------
class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask and the names."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _ByAmount(BasePruningMethod):
    """A number of elements, or a part of them."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _places(self, t: Any, count: int) -> Any:
        """So many elements to prune."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _elements_to_prune(self.amount, t)
        mask = default_mask.clone(memory_format=contiguous_format)
        if count != 0:
            mask.view(-1)[self._places(t, count)] = 0
        return mask


class RandomUnstructured(_ByAmount):
    """Elements at random."""

    def _places(self, t: Any, count: int) -> Any:
        return ops.topk(ops.rand_like(t).view(-1), count)[1]


class L1Unstructured(_ByAmount):
    """The elements of least magnitude."""

    def _places(self, t: Any, count: int) -> Any:
        return ops.topk(t.abs().reshape(-1), count, largest=False)[1]


class RandomStructured(_ByAmount):
    """Slices along a dimension, at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = _slices_to_prune(self.amount, t, self.dim)
        if count == 0:
            return default_mask
        chances = ops.rand(t.shape[self.dim], device=t.device)
        threshold = ops.kthvalue(chances, count)[0]
        return _slice_mask(t, self.dim, chances > threshold) * default_mask.to(dtype=t.dtype)


class LnStructured(_ByAmount):
    """The slices along a dimension that have the least n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        size = t.shape[self.dim] if -t.dim() <= self.dim < t.dim() else 0
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = _compute_nparams_toprune(self.amount, size)
        kept = size - count
        _validate_pruning_amount(count, size)
        if count == 0:
            return default_mask
        norms = _compute_norm(t, self.n, self.dim)
        places = ops.topk(norms, kept, largest=True)[1]
        chosen = ops.new_zeros(norms, (size,), dtype=t.dtype)
        chosen[places] = 1
        return _slice_mask(t, self.dim, chosen) * default_mask.to(dtype=t.dtype)


class CustomFromMask(BasePruningMethod):
    """By a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- for users -----------------------------------------------------------------------------------------------
def identity(module: Module, name: str) -> Module:
    """Makes mask and names without pruning anything."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prunes elements at random: a number of them, or a part."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Any = None) -> Module:
    """Prunes the elements of least magnitude, or of least score.

    >>> import weft
    >>> layer = weft.nn.Linear(3, 1)
    >>> _ = layer.weight.data.copy_(weft.tensor([[3.0, -1.0, 2.0]]))
    >>> _ = weft.nn.utils.prune.l1_unstructured(layer, "weight", amount=1)
    >>> layer.weight.tolist(), sorted(layer.state_dict())
    ([[3.0, -0.0, 2.0]], ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prunes slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prunes the slices along `dim` of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prunes several parameters, `(module, name)` each, as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    relevance = ops.cat([scores.get(pair, getattr(*pair)).detach().reshape(-1) for pair in parameters])
    masks = ops.cat(
        [getattr(m, f"{name}_mask", ops.ones_like(getattr(m, name))).reshape(-1) for m, name in parameters]
    )
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(relevance, masks)
    start = 0
    for module, name in parameters:
        tensor = getattr(module, name)
        count = tensor.numel()
        custom_from_mask(module, name, mask=final[start : start + count].view_as(tensor))
        start += count


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prunes by a mask that is given."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Makes the pruning of a parameter final, and takes mask and hook away."""
    missing = f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    removed(module, BasePruningMethod, name, missing, "_tensor_name")
    return module


def is_pruned(module: Module) -> bool:
    """Whether anything in the tree is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for child in module.modules()
        for hook in child._forward_pre_hooks.values()
    )


# -- amounts -------------------------------------------------------------------------------------------------
def _validate_pruning_amount_init(amount: Any) -> None:
    """Refuses what is no number, or out of range whatever the tensor."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    value: Any = amount
    if (whole and value < 0) or (not whole and not 0.0 <= value <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:  # type: ignore[operator]
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _validate_structured_pruning(t: Any) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {len(t.shape)} dims"
        )


def _validate_pruning_dim(t: Any, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """A number as it is, a part of the size rounded."""
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)  # type: ignore[return-value]


def _elements_to_prune(amount: Any, t: Any) -> int:
    count = _compute_nparams_toprune(amount, t.numel())
    _validate_pruning_amount(count, t.numel())
    return count


def _slices_to_prune(amount: Any, t: Any, dim: int) -> int:
    _validate_structured_pruning(t)
    _validate_pruning_dim(t, dim)
    count = _compute_nparams_toprune(amount, t.shape[dim])
    _validate_pruning_amount(count, t.shape[dim])
    return count


def _compute_norm(t: Any, n: Any, dim: int) -> Any:
    """The n-norm of each slice along `dim`."""
    return ops.norm(t, n, other_axes(t.dim(), dim))


def _slice_mask(t: Any, dim: int, chosen: Tensor) -> Any:
    """The mask that keeps the chosen slices along `dim`."""
    shape = [1] * t.dim()
    shape[dim] = t.shape[dim]
    return chosen.to(dtype=t.dtype).view(shape).expand(t.shape).clone()
