"""Modules as functions of their parameters: `functional_call`, `stack_module_state`, norms without state.

Takes a module and tensors by the names of its parameters and buffers; runs the module with those in their
place. One idea: the module itself is used, its parameters exchanged for the time of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from weft.core.naming import named
from weft.ops.record import ops
from weft.tensor.base import Tensor


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls the module with the given tensors in place of its parameters and buffers of these names."""
    given = _one_dict(parameter_and_buffer_dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with exchanged(module, given, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _one_dict(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, Mapping):
        return dicts  # type: ignore[return-value]  # itself: it is told what the module stored
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(part, Mapping) for part in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    keys = [key for part in dicts for key in part]
    repeated = [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return {key: value for part in dicts for key, value in part.items()}


def _tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors under every name that the tensor they replace has in the module."""
    names: dict[Any, list[str]] = {}
    for source in (
        module.named_parameters(remove_duplicate=False),
        module.named_buffers(remove_duplicate=False),
    ):
        for name, tensor in source:
            names.setdefault(tensor, []).append(name)
    result = dict(given)
    for group in names.values():
        known = sorted(name for name in group if name in given)
        if any(given[name] is not given[known[0]] for name in known):
            raise ValueError(
                f"functional_call got multiple values for keys {known}, which are tied. Consider using "
                "tie_weights=False"
            )
        if known:
            result.update(dict.fromkeys(group, given[known[0]]))
    return result


@contextmanager
def exchanged(module: Any, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    """The module with other tensors as its parameters and buffers, until the block ends."""
    wanted = _tied(module, given) if tie_weights else given
    if strict:
        _check_keys(module, wanted)
    before: list[tuple[dict[str, Any], str, Any, str]] = []
    try:
        for name, tensor in wanted.items():
            table, last = _place(module, name)
            before.append((table, last, table.get(last, ABSENT), name))
            table[last] = tensor
        yield
    finally:
        for table, last, tensor, name in reversed(before):
            if name in given and isinstance(table.get(last), Tensor):
                given[name] = table[last]  # what the call stored there
            if tensor is ABSENT:
                table.pop(last, None)
            else:
                table[last] = tensor


ABSENT = object()


def _place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The dict and the key under which the module keeps the tensor of this name; a name that nothing has yet
    is an attribute for the time of the call.
    """
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    path, _, last = name.rpartition(".")
    owner = module
    walked: list[str] = []
    for part in path.split(".") if path else ():
        if not hasattr(owner, part):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
        owner = getattr(owner, part)
        walked.append(part)
        if not hasattr(owner, "_parameters"):
            raise TypeError(
                named(f"submodule `{'.'.join(walked)}`: {owner} is not an instance of weft.nn.Module")
            )
    for table in (owner._parameters, owner._buffers):
        if last in table:
            return table, last
    if hasattr(owner, last) and not isinstance(getattr(owner, last), Tensor):
        raise TypeError(
            named(f"attribute `{last}`: {getattr(owner, last)} is not an instance of weft.Tensor")
        )
    return owner.__dict__, last


def _check_keys(module: Any, wanted: dict[str, Any]) -> None:
    named = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    lines = []
    unexpected = sorted(wanted.keys() - named.keys())
    missing = sorted(named.keys() - wanted.keys())
    if unexpected:
        lines.append("\tUnexpected key(s): " + ", ".join(map(repr, unexpected)) + ".")
    if missing:
        lines.append("\tMissing key(s): " + ", ".join(map(repr, missing)) + ".")
    if lines:
        raise RuntimeError("\n".join([f"Error(s) in reparametrizing for {type(module).__name__}:", *lines]))


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one class, stacked by name: what
    `vmap(functional_call)` takes."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked([dict(model.named_parameters())[name] for model in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _stacked([dict(model.named_buffers())[name] for model in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked(tensors: list[Any]) -> Any:
    if not all(tensor.requires_grad == tensors[0].requires_grad for tensor in tensors):
        raise RuntimeError("Expected parameters from each model to have the same .requires_grad")
    if not all(tensor.is_leaf for tensor in tensors):
        raise RuntimeError(
            "Expected parameters to be leaf tensors"
        )  # stacking would record a graph nobody asked for
    return ops.stack(tensors, 0).detach().requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Has every batch norm in a module take the statistics of each batch, and follow none, so that
    transforms, which allow no such writes, can run it.
    """
    for module in root.modules():
        is_norm = any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__)
        if is_norm and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
