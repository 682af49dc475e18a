"""Weights stored as length and direction, by a hook before forward: the older form of
`weft.nn.utils.parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.nn.utils.weights import check_shaped, check_unhooked, other_axes, removed

__all__ = ["WeightNorm", "norm_except_dim", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but one, kept as ones; over all of them for -1."""
    if dim == -1:
        return v.norm(pow)
    others = other_axes(v.dim(), dim)
    return v.norm(pow, others, True) if others else v.abs()


def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """The direction of `v` with the length `g`."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook: computes the weight from `name_g` and `name_v` before each forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """The weight."""
        return _weight_norm(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Splits the weight and adds the hook."""
        check_unhooked(module, WeightNorm, name, "weight_norm")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        check_shaped(weight, WeightNorm, "weight normalization")
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach()))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Makes the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Stores a weight as its norms along `dim` (`name_g`) and its direction (`name_v`)."""
    warnings.warn(
        "`weft.nn.utils.weight_norm` is deprecated in favor of `weft.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undoes `weight_norm`."""
    removed(module, WeightNorm, name, f"weight_norm of '{name}' not found in {module}")
    return module
