"""A subclass of tensors that logs what is done to it: what tests of subclasses use."""

from __future__ import annotations

import logging
from typing import Any

from weft.tensor.base import Tensor

logger = logging.getLogger("LoggingTensor")


class LoggingTensor(Tensor):
    """A tensor whose calls are logged by name; results are of this class, too."""

    elem: Tensor

    @staticmethod
    def __new__(cls: Any, elem: Tensor, *_args: Any, requires_grad: bool = False, **_options: Any) -> Any:
        made = elem.detach().as_subclass(cls).requires_grad_(requires_grad or elem.requires_grad)
        made.elem = elem
        return made

    def __init__(self, elem: Tensor, *_args: Any, **_options: Any) -> None:
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        logger.info("%s", getattr(func, "__name__", func))
        return super().__torch_function__(func, types, args, kwargs or {})
