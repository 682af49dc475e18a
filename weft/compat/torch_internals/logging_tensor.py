"""A subclass of tensors, and a mode, that log the operators they are handed: what tests of handlers use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from weakref import ref

from weft.core.trees import tree_map
from weft.tensor.base import Tensor
from weft.tensor.overrides import disabled_torch_function
from weft.utils._python_dispatch import TorchDispatchMode

logger = logging.getLogger("LoggingTensor")


class LoggingTensor(Tensor):
    """Holds a tensor, and logs what is done to it; results are of this class, too."""

    elem: Tensor
    __torch_function__: Any = staticmethod(disabled_torch_function)

    @staticmethod
    def __new__(cls: Any, elem: Tensor, *_args: Any, requires_grad: bool = False, **_options: Any) -> Any:
        make: Any = vars(Tensor)["_make_wrapper_subclass"].__func__
        grad = requires_grad or elem.requires_grad
        made = make(cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device,
                    requires_grad=grad)  # fmt: skip
        made.elem = elem.detach() if grad else elem
        return made

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass

    def shown(self, **_options: Any) -> str:
        """What `repr` gives."""
        return f"LoggingTensor({self.elem!r})"

    __repr__: Any = shown

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrapped(leaf: Any) -> Any:
            return leaf.elem if isinstance(leaf, cls) else leaf

        def wrapped(leaf: Any) -> Any:
            return cls(leaf) if isinstance(leaf, Tensor) else leaf

        result = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        return _logged(func, args, kwargs or {}, tree_map(wrapped, result))


class LoggingTensorMode(TorchDispatchMode):
    """Logs every operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _logged(func, args, kwargs or {}, func(*args, **(kwargs or {})))


def _logged(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    logger.info(f"{func.__module__}.{func.__name__}", extra={"call": (args, kwargs, result)})
    return result


class _Lines(logging.Handler):
    """Writes calls with a number for each tensor: `$2 = torch._ops.aten.mul.Tensor($1, $0)`."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines
        self.numbers: dict[int, tuple[Any, int]] = {}
        self.next_number = count().__next__

    def shown(self, value: Any) -> str:
        if isinstance(value, Tensor):
            known = self.numbers.get(id(value))
            if known is None or known[0]() is not value:  # another's, which is gone
                known = self.numbers[id(value)] = ref(value), self.next_number()
            return f"${known[1]}"
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(self.shown, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        return repr(value)

    def emit(self, record: logging.LogRecord) -> None:
        args, kwargs, result = vars(record)["call"]
        named = [f"{name}={self.shown(value)}" for name, value in kwargs.items()]
        words = [*map(self.shown, args), *named]
        results = result if isinstance(result, (list, tuple)) else (result,)
        self.lines.append(f"{', '.join(map(self.shown, results))} = {record.msg}({', '.join(words)})")


def log_input(name: str, value: Any) -> None:
    """Logs a tensor as an input of what follows."""
    logger.info("input", extra={"call": ((name,), {}, value)})


@contextmanager
def capture_logs(is_mode: bool = False, python_tb: bool = False, script_tb: bool = False, cpp_tb: bool = False
                 ) -> Iterator[list[str]]:  # fmt: skip
    """Inside, calls of handlers are written to the list that it gives."""
    lines: list[str] = []
    handler = _Lines(lines)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        if is_mode:
            with LoggingTensorMode():
                yield lines
        else:
            yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def capture_logs_with_logging_tensor_mode(**_options: Any) -> Iterator[list[str]]:
    """`capture_logs` with the mode on."""
    with capture_logs(True) as lines:
        yield lines
