"""Named results: the tuples with fields that PyTorch calls `torch.return_types.max`, `.sort`, `.slogdet`, ….

Takes a name and field names, gives the class; it is built from its values or from one sequence of them.
Asking twice for one name gives the same class, so that ops of different modules may share it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from weft.core.naming import naming


class Result(tuple[Any, ...]):
    """A tuple whose items are attributes too."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, *values: Any) -> Result:
        if len(values) == 1 and len(cls._fields) != 1:
            values = tuple(values[0])
        if len(values) != len(cls._fields):
            wanted = len(cls._fields)
            raise TypeError(f"{cls._path()} takes a {wanted}-sequence ({len(values)}-sequence given)")
        return tuple.__new__(cls, values)

    @classmethod
    def _path(cls) -> str:
        return f"{naming.namespace}.return_types.{cls.__name__}"

    @property
    def n_fields(self) -> int:
        return len(self._fields)

    @property
    def n_sequence_fields(self) -> int:
        return len(self._fields)

    @property
    def n_unnamed_fields(self) -> int:
        return 0

    def __repr__(self) -> str:
        words = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)]
        return f"{self._path()}(\n" + ",\n".join(words) + ")"

    def __reduce__(self) -> Any:
        return _rebuild, (type(self).__name__, self._fields, tuple(self))


_KNOWN: dict[str, type[Result]] = {}


def result(name: str, *fields: str) -> type[Result]:
    """The class `weft.return_types.<name>` with these fields."""
    known = _KNOWN.get(name)
    if known is None:
        members: dict[str, Any] = {field: property(itemgetter(i)) for i, field in enumerate(fields)}
        members |= {"__slots__": (), "_fields": fields, "__module__": "weft.return_types"}
        known = _KNOWN.setdefault(name, type(name, (Result,), members))
    if known._fields != fields:
        raise ValueError(f"return type {name!r} has the fields {known._fields}, not {fields}")
    return known


def _rebuild(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Result:
    return result(name, *fields)(*values)


def __getattr__(name: str) -> type[Result]:
    if name in _KNOWN:
        return _KNOWN[name]
    raise AttributeError(f"there is no return type {name!r}")
