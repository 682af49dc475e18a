"""Modules that learn their sizes from the first input: `LazyModuleMixin`.

Takes a module with parameters whose shape is not known; gives them one before its first forward. One idea: a
hook before forward asks the module to make its parameters, takes itself away, and turns the module into the
class that it was lazy for, which knows nothing of all this.
"""

from __future__ import annotations

import itertools
from typing import Any

from weft.autograd.grad_mode import no_grad
from weft.nn.parameter import UninitializedParameter, is_lazy

__all__ = ["LazyModuleMixin"]


class _Numbered:
    """A hook by its number. Unlike a handle it names no table, so that copies of a module and modules out of
    a pickle find the hook in their own."""

    def __init__(self, id: int) -> None:
        self.id = id


class LazyModuleMixin:
    """Comes before a Module among a class's bases; the class gives `initialize_parameters(*args, **kwargs)`
    and the class it turns into, `cls_to_become`.

    >>> import weft
    >>> layer = weft.nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> _ = layer(weft.ones(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        loading = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        starting = module.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        module._load_hook, module._initialize_hook = _Numbered(loading.id), _Numbered(starting.id)

    def _tensors(self) -> Any:
        return itertools.chain(self._parameters.items(), self._buffers.items())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        skipped = self._non_persistent_buffers_set  # type: ignore[attr-defined]
        for name, tensor in self._tensors():
            if tensor is not None and name not in skipped:
                keep = is_lazy(tensor) or keep_vars
                destination[prefix + name] = tensor if keep else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_rest: Any) -> None:
        """Takes shapes from a state dict that knows them."""
        for name, tensor in self._tensors():
            key = prefix + name
            if tensor is not None and key in state_dict and is_lazy(tensor):
                given = state_dict[key]
                if not is_lazy(given):
                    with no_grad():
                        tensor.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives parameters their shape, from the arguments of forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer still waits for its shape."""
        return any(is_lazy(tensor) for _name, tensor in self._tensors())

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        for table in (module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs):
            table.pop(module._initialize_hook.id, None)
        module._load_state_dict_pre_hooks.pop(module._load_hook.id, None)
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward "
            "pass to correctly initialize the modules"
        )


class LazyLayer(LazyModuleMixin):
    """A layer whose first input tells one size, the attribute `_size`."""

    _size: str
    weight: Any
    bias: Any

    def _make_lazy(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """New initial values, once there are parameters."""
        if not self.has_uninitialized_params() and getattr(self, self._size) != 0:
            super().reset_parameters()  # type: ignore[misc]
