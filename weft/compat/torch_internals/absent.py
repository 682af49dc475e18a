"""Names that PyTorch's test files import, and that Weft has nothing behind.

Takes a dotted name, gives a class of that name which does nothing; `is_module` and `stand_in` tell which
names have one. One idea: a file that needs an inner part of PyTorch's compiler for one of its tests can still
be imported for the others; what is asked of a placeholder, or of what it returns, is a placeholder again,
until a value is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NoReturn

from weft.compat.torch_internals.absences import ABSENT

HELPERS: Final = "torch.testing._internal"
"""Where PyTorch keeps what its own tests share: files of tests import much of it and use little."""
MARKS: Final = re.compile(
    r"(skip|xfail|only|expectedFailure|requires|run|unless|large|slow|precision|tolerance)"
)
"""How names of decorators of tests begin."""
FACTS: Final = re.compile(
    r"(TEST|IS|HAS|PLATFORM|BUILD|NO|SM\d+OrLater|CDNA|MI\d+|NAVI|ROCM|CUDA\d+)(_|$|[A-Z\d])"
)
"""And those of facts of the machine, none of which holds here."""


def _refuse(path: str) -> NoReturn:
    raise NotImplementedError(f"{path} is an inner part of PyTorch that Weft does not have")


class Kind(type):
    """The class of placeholders."""

    path: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.path}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return absent(f"{cls.path}()")

    def __bool__(cls) -> bool:
        return _refuse(cls.path)

    def __iter__(cls) -> Any:
        return _refuse(cls.path)

    def __len__(cls) -> int:
        return _refuse(cls.path)

    def __enter__(cls) -> Any:
        return _refuse(cls.path)

    def __exit__(cls, *_error: Any) -> None:
        return None


def absent(path: str) -> Any:
    """A placeholder that says, where a value is needed of it, what Weft does not have."""
    return Kind(path.rpartition(".")[2], (BaseException,), {"path": path, "__doc__": f"Not in Weft: {path}."})


def is_module(path: str) -> bool:
    """Whether a placeholder of a module stands at a path."""
    return path in ABSENT or path.rpartition(".")[0] == HELPERS


def stand_in(path: str, name: str, imported: bool) -> Any:
    """What stands for a name that a module lacks; NotImplemented where nothing does.

    Helpers are invented only for what is `imported`: what is merely read may be a probe.
    """
    whole = f"{path}.{name}"
    if whole in ABSENT:
        return import_module(whole)
    if name in ABSENT.get(path, "").split():
        return absent(whole)
    if imported and path.startswith(f"{HELPERS}."):
        return helper(whole)
    return NotImplemented


def helper(path: str) -> Any:
    """What stands for a helper of PyTorch's own tests that Weft has no helper for: a decorator that changes
    nothing, a fact that does not hold, or a placeholder.
    """
    name = path.rpartition(".")[2]
    if MARKS.match(name):
        return _mark
    return False if FACTS.match(name) else absent(path)


def _mark(*args: Any, **_options: Any) -> Any:
    """A decorator, with or without arguments."""
    plain: Callable[[Any], Any] = lambda test: test
    return args[0] if len(args) == 1 and callable(args[0]) else plain
