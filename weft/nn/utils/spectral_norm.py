"""Weights divided by their greatest singular value, by a hook before forward: the older form of
`weft.nn.utils.parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import Any

import weft.linalg as linalg
import weft.nn.functional as F
from weft.autograd.grad_mode import no_grad
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.nn.utils.weights import (
    as_matrix,
    check_iterations,
    check_shaped,
    check_unhooked,
    drawn_vectors,
    output_dim,
    removed,
)
from weft.ops.record import ops

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: computes the weight from `name_orig` before each forward, and keeps `name_u` and `name_v`."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check_iterations(n_power_iterations)
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with `dim` as rows and all else as columns."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight; with an iteration, the two vectors are brought up to date in place."""
        weight = getattr(module, f"{self.name}_orig")
        left, right = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    right.copy_(F.normalize(ops.mv(matrix.t(), left), dim=0, eps=self.eps))
                    left.copy_(F.normalize(ops.mv(matrix, right), dim=0, eps=self.eps))
                if self.n_power_iterations > 0:
                    left, right = left.clone(), right.clone()  # written to by the next forward
        return weight / ops.dot(left, ops.mv(matrix, right))

    def remove(self, module: Any) -> None:
        """Makes the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Puts the weight aside and adds the hooks."""
        check_unhooked(module, SpectralNorm, name, "spectral_norm")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        check_shaped(weight, SpectralNorm, "spectral normalization")
        with no_grad():
            drawn = drawn_vectors(hook.reshape_weight_to_matrix(weight))
            left, right = (F.normalize(vector, dim=0, eps=eps) for vector in drawn)
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute for the time until the first forward: what reads it then finds the weight.
        setattr(module, name, weight.detach())
        module.register_buffer(f"{name}_u", left)
        module.register_buffer(f"{name}_v", right)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_MarkVersion(hook))
        module._register_load_state_dict_pre_hook(_TakeOldStates(hook))
        return hook


class _MarkVersion:
    """A hook of `state_dict`: notes which version of the hook wrote it."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, _module: Any, _state: Any, _prefix: str, metadata: Any) -> None:
        versions = metadata.setdefault("spectral_norm", {})
        key = f"{self.hook.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.hook._version


class _TakeOldStates:
    """A hook of `load_state_dict`, for states from before the right vector was kept: it is had back from the
    weight and the left one."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(
        self, state: Any, prefix: str, metadata: Any, strict: bool, missing: Any, *_rest: Any
    ) -> None:
        version = metadata.get("spectral_norm", {}).get(f"{self.hook.name}.version")
        stem = prefix + self.hook.name
        if version is not None and version >= 1:
            return
        parts = ("_orig", "_u", "_v")
        if version is None and all(stem + part in state for part in parts) and stem not in state:
            return
        absent = [stem + part for part in ("_orig", "", "_u") if stem + part not in state]
        if absent:
            if strict:
                missing.extend(absent)
            return
        with no_grad():
            original, weight = state[f"{stem}_orig"], state.pop(stem)
            sigma = (original / weight).mean()
            matrix = self.hook.reshape_weight_to_matrix(original)
            left = state[f"{stem}_u"]
            normal = matrix.t().mm(matrix)
            right = linalg.pinv(normal).mm(matrix.t()).matmul(left.unsqueeze(1)).squeeze(1)
            state[f"{stem}_v"] = right.mul_(sigma / ops.dot(left, ops.mv(matrix, right)))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """Divides a weight by its greatest singular value, estimated by power iteration."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undoes `spectral_norm`."""
    hook = removed(module, SpectralNorm, name, f"spectral_norm of '{name}' not found in {module}")
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, known in list(table.items()):
            owner = known if isinstance(known, KINDS) else getattr(known, "hook", None)  # or it is wrapped
            if isinstance(owner, KINDS) and owner.hook is hook:
                del table[key]
    return module


KINDS = (_MarkVersion, _TakeOldStates)
