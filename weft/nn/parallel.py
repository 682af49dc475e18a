"""Modules on many devices and in many processes, where there is one of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.modules.parallel import DataParallel as DataParallel
from weft.ops.record import ops
from weft.tensor.base import Tensor


class DistributedDataParallel(Module):
    """The module, trained in many processes at once: there is one."""

    def __init__(self, module: Module, *_args: Any, **_kwargs: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """The module on each of the devices: on the one there is, itself."""
    return [network] * len(devices)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Inputs in as many parts as there are devices, along a dimension; what is no tensor goes to each."""
    if isinstance(inputs, Tensor):
        return list(inputs.chunk(len(target_gpus), dim))
    if isinstance(inputs, (tuple, list)) and inputs:
        parts = zip(*(scatter(each, target_gpus, dim) for each in inputs), strict=True)
        kind: Any = type(inputs)
        return [kind(*part) if hasattr(kind, "_fields") else kind(part) for part in parts]
    if isinstance(inputs, dict) and inputs:
        columns = [scatter(value, target_gpus, dim) for value in inputs.values()]
        return [type(inputs)(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]
    return [inputs] * len(target_gpus)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments and keyword arguments in parts."""
    first = scatter(inputs, target_gpus, dim) if inputs else []
    second = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(first), len(second))
    first += [()] * (count - len(first))
    second += [{}] * (count - len(second))
    return tuple(first), tuple(second)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[Any] | None = None,
    devices: Any = None,
) -> list[Any]:
    """What each module makes of its inputs."""
    given = [{}] * len(modules) if kwargs_tup is None else [each or {} for each in kwargs_tup]
    return [
        module(*(each if isinstance(each, (tuple, list)) else (each,)), **named)
        for module, each, named in zip(modules, inputs, given, strict=True)
    ]


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The parts of results as one."""
    first = outputs[0]
    if isinstance(first, Tensor):
        joined = ops.cat([each.unsqueeze(0) if not each.ndim else each for each in outputs], dim)
        return joined.to(target_device) if target_device not in (None, -1) else joined
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (key, gather([each[key] for each in outputs], target_device, dim)) for key in first
        )
    kind: Any = type(first)
    parts = [gather(part, target_device, dim) for part in zip(*outputs, strict=True)]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """A call of the module: with no device but the CPU nothing is split."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
