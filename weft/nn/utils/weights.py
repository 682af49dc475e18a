"""What the ways to compute weights from others share: weights as matrices, and the hooks that compute them.

Takes modules, weights and the dimension that counts their outputs; gives matrices, and finds hooks by the
name of their weight.
"""

from __future__ import annotations

from typing import Any

from weft.nn.modules.conv import _ConvTransposeNd
from weft.nn.modules.module import Module
from weft.nn.parameter import is_lazy
from weft.ops.record import ops


def other_axes(rank: int, dim: int) -> list[int]:
    """All dimensions but one."""
    return [axis for axis in range(rank) if axis != dim % rank]


def as_matrix(weight: Any, dim: int) -> Any:
    """The weight with `dim` as rows and all else as columns."""
    if dim != 0:
        weight = weight.permute(dim, *other_axes(weight.dim(), dim))
    return weight.flatten(1) if weight.dim() > 1 else weight.unsqueeze(1)


def output_dim(module: Module, dim: int | None) -> int:
    """The dimension asked for, else that of the outputs of the module's weight."""
    return int(isinstance(module, _ConvTransposeNd)) if dim is None else dim


def drawn_vectors(matrix: Any) -> list[Any]:
    """Normal draws for the two singular vectors of a matrix: the left one, the right one."""
    return [ops.new_empty(matrix, (size,)).normal_(0, 1) for size in matrix.size()]


def check_iterations(n_power_iterations: int) -> None:
    if n_power_iterations <= 0:
        raise ValueError(
            f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
        )


def hook_on(module: Any, kind: type, name: str, attribute: str = "name") -> tuple[int, Any] | None:
    """The number of the hook of this kind that computes the weight of this name, and the hook itself."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and getattr(hook, attribute) == name:
            return key, hook
    return None


def check_unhooked(module: Any, kind: type, name: str, title: str) -> None:
    if hook_on(module, kind, name) is not None:
        raise RuntimeError(f"Cannot register two {title} hooks on the same parameter {name}")


def check_shaped(weight: Any, kind: type, advice: str) -> None:
    if is_lazy(weight):
        raise ValueError(
            f"The module passed to `{kind.__name__}` can't have uninitialized parameters. Make sure to run "
            f"the dummy forward before applying {advice}"
        )


def removed(module: Any, kind: type, name: str, missing: str, attribute: str = "name") -> Any:
    """Takes a hook away, which makes its weight a parameter again; gives the hook."""
    found = hook_on(module, kind, name, attribute)
    if found is None:
        raise ValueError(missing)
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return hook
