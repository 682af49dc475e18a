"""Modules as functions, under the older names of `functorch`: `make_functional` and what goes with it.

Takes a module, gives a function of its parameters and the parameters. New programs use `func.functional_call`
and `func.stack_module_state`, which do the work here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft.func.arguments import checked_argnums
from weft.func.modules import functional_call
from weft.tensor.base import Tensor

Tensors = tuple[Tensor, ...]


class _Called:
    """A module as a function of tensors for its parameters (and buffers)."""

    def __init__(self, module: Any, names: Sequence[str], buffers: Sequence[str] | None) -> None:
        self.stateless_model = copy.deepcopy(module)
        self.param_names, self.buffer_names = tuple(names), buffers

    def __call__(self, params: Any, *rest: Any, **kwargs: Any) -> Any:
        given = dict(zip(self.param_names, params, strict=True))
        if self.buffer_names is not None:
            given.update(zip(self.buffer_names, rest[0], strict=True))
            rest = rest[1:]
        return functional_call(self.stateless_model, given, rest, kwargs, tie_weights=True)


class FunctionalModule(_Called):
    """A module as a function of its parameters."""


class FunctionalModuleWithBuffers(_Called):
    """A module as a function of its parameters and buffers."""


def _leaves(named: dict[str, Any], untracked: bool) -> Tensors:
    values = tuple(value.detach() for value in named.values())
    return values if untracked else tuple(value.requires_grad_() for value in values)


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, Tensors]:
    """The module as a function of its parameters, and the parameters."""
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) "
            "instead."
        )
    named = dict(model.named_parameters())
    values = _leaves(named, disable_autograd_tracking)
    return FunctionalModule(model, list(named), None), values


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[Any, Tensors, Tensors]:
    """The module as a function of its parameters and buffers, and both."""
    named, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    values = _leaves(named, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model, list(named), list(buffers)), values, tuple(buffers.values())


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Any, Tensors, Tensors]:
    """One function for several modules of a kind, with their parameters and buffers stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(model.training for model in models) or all(not model.training for model in models)):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if not all(type(model) is type(models[0]) for model in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made = [make_functional_with_buffers(model) for model in models]
    params = tuple(weft.stack(group).detach().requires_grad_() for group in zip(*(one[1] for one in made)))
    buffers = tuple(weft.stack(group) for group in zip(*(one[2] for one in made)))
    return made[0][0], params, buffers


def _joined(groups: list[Tensors], shape: Any) -> Tensors:
    return tuple(weft.stack(group) for group in zip(*groups)) if shape else groups[0]


def _unpacking(call: Any) -> Callable[..., Any]:
    """The function, as one that is given its arguments after the state in a tuple."""
    return lambda *given: call(*given[:-1], *given[-1])


def _count(ensemble_shape: Any) -> int:
    """How many modules an ensemble has."""
    if len(ensemble_shape) >= 2:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    count: int = ensemble_shape[0] if ensemble_shape else 1
    if count <= 0:
        raise ValueError(f"num_models {count} should be > 0")
    return count


def functional_init(
    model_class: Any, ensemble_shape: Any = (), device: Any = "cpu"
) -> Callable[..., tuple[Tensors, Any, Tensors]]:
    """A function that makes modules of a class; gives their parameters, stacked, one function `f(params,
    args)` of them, and the parameters' names.
    """

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count = _count(ensemble_shape)
        made = [make_functional(model_class(*args, **kwargs).to(device)) for _ in range(count)]
        call = made[0][0]
        return _joined([one[1] for one in made], ensemble_shape), _unpacking(call), call.param_names

    return wrapped


def functional_init_with_buffers(
    model_class: Any, ensemble_shape: Any = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """`functional_init` of modules that have buffers."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count = _count(ensemble_shape)
        made = [make_functional_with_buffers(model_class(*args, **kwargs).to(device)) for _ in range(count)]
        params, buffers = (_joined([one[place] for one in made], ensemble_shape) for place in (1, 2))
        call = made[0][0]
        return params, buffers, _unpacking(call), call.param_names, tuple(call.buffer_names)

    return wrapped


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Every batch norm in the module uses the statistics of its batch, and keeps none. Changes the module."""
    for module in root.modules():
        if isinstance(module, (weft.nn.BatchNorm1d, weft.nn.BatchNorm2d, weft.nn.BatchNorm3d)):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def chunk_vmap(
    func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Any:
    """`vmap` over pieces of the batch, one after another."""
    if chunks == 1:
        return weft.func.vmap(func, in_dims=in_dims, out_dims=out_dims, randomness=randomness)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        positions = [place for place, value in enumerate(args) if isinstance(value, Tensor)]
        size = args[positions[0]].shape[in_dims if isinstance(in_dims, int) else in_dims[positions[0]]]
        piece = -(-size // chunks)
        whole = weft.func.vmap(
            func, in_dims=in_dims, out_dims=out_dims, randomness=randomness, chunk_size=piece
        )
        return whole(*args, **kwargs)

    return mapped


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: whether it writes to memory is not seen from outside."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid "
            "options are:\n     remove='mutations'\n     remove='mutations_and_views'"
        )
    return func


def _slice_argnums(args: tuple[Any, ...], argnums: Any, as_tuple: bool = True) -> Any:
    """The arguments to differentiate."""
    numbers = checked_argnums(argnums, len(args))
    if isinstance(argnums, int) and not as_tuple:
        return args[numbers[0]]
    return tuple(args[number] for number in numbers)
