"""Names that PyTorch's test files import, and that Weft has nothing behind.

Takes a dotted name, gives a class of that name which does nothing. One idea: a file that needs an inner part
of PyTorch's compiler for one of its tests can still be imported for the others; what is asked of a
placeholder, or of what it returns, is a placeholder again, until a value is needed.
"""

from __future__ import annotations

from typing import Any, NoReturn


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
