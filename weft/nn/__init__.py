"""Neural network pieces: modules, parameters, functional forms, initial values, helpers."""

from typing import Any as _Any

from weft.nn import functional as functional
from weft.nn import init as init
from weft.nn import parallel as parallel
from weft.nn import parameter as parameter
from weft.nn import utils as utils
from weft.nn.modules import *  # noqa: F403
from weft.nn.parameter import Buffer as Buffer
from weft.nn.parameter import Parameter as Parameter
from weft.nn.parameter import UninitializedBuffer as UninitializedBuffer
from weft.nn.parameter import UninitializedParameter as UninitializedParameter


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """What functions that make tensors are to be given, of a constructor's keywords: `device`, `dtype` and
    `memory_format`, named there or in its `factory_kwargs`.
    """
    if kwargs is None:
        return {}
    plain = ("device", "dtype", "memory_format")
    unknown = kwargs.keys() - {*plain, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in plain:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
