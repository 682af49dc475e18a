"""Nested data as JSON: dicts, lists, numbers, texts, and tensors as numbers of a table beside it.

Takes objects and gives JSON values, and back. One idea: what JSON has stands as it is, and everything else is
an object with one key that says what it is; things that are met twice are written once.

# Note [Words]
    null true false 1 1.5 "text"        as in JSON, floats that are finite
    {"list": [...]} {"tuple": [...]} {"set": [...]} {"frozenset": [...]} {"deque": [[...], longest]}
    {"dict": [[key, value], ...]}, the same for OrderedDict, Counter; {"defaultdict": [factory, [...]]}
    {"tensor": 3}                        the third of the table
    {"sparse": [layout, [places ..., elements], sizes, coalesced]}
    {"float": "nan"} {"int": "0x..."} {"complex": [re, im]} {"bytes": base64} {"bytearray": base64}
    {"dtype": name} {"device": name} {"size": [...]} {"layout": name} {"memory_format": name}
    {"slice": [...]} {"range": [...]} {"numpy": [dtype, base64]} {"ndarray": [dtype, shape, base64]}
Each may also have "as": n, the number under which {"again": n} finds it, and "metadata", the `_metadata` of
an OrderedDict.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.core.device import device
from weft.core.dtypes import BY_NAME, dtype
from weft.core.types import LAYOUTS, Size, layout, memory_format, memory_format_by_name, strided
from weft.files.errors import FileFormatError, require
from weft.files.pickles import checked_key
from weft.files.rebuilding import rebuild_sparse, sizes
from weft.tensor.base import Tensor

PLAIN: Final = frozenset({type(None), bool, str})
FACTORIES: Final[dict[str, type]] = {
    kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple, bool)
}
MAPPINGS: Final[dict[str, type[dict[Any, Any]]]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
}
LONGEST_INT: Final = 2**63
NUMERIC: Final = "biufc"


class CannotSave(TypeError):
    """An object that is no data."""


class Writer:
    """Makes JSON of objects; `tensor` gives the number of a tensor in the table."""

    def __init__(self, tensor: Callable[[Tensor, tuple[str, ...]], int]) -> None:
        self.tensor = tensor
        self.known: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.open: set[int] = set()
        self.count = 0

    def write(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is int:
            return value if -LONGEST_INT <= value < LONGEST_INT else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Tensor) and value.layout is strided:
            return {"tensor": self.tensor(value, path)}
        small = self._small(value)
        if small is not None:
            return small
        found = self.known.get(id(value))
        if found is not None:
            return self._again(value, found[1], path)
        node: dict[str, Any] = {}
        self.known[id(value)] = (value, node)
        self.open.add(id(value))
        self._container(value, node, path)
        self.open.discard(id(value))
        return node

    def _again(self, value: Any, node: dict[str, Any], path: tuple[str, ...]) -> dict[str, int]:
        if id(value) in self.open and type(value) in (tuple, frozenset):
            raise CannotSave(f"weft.save: a {type(value).__name__} that contains itself{_at(path)}")
        if "as" not in node:
            node["as"] = self.count
            self.count += 1
        return {"again": node["as"]}

    def _small(self, value: Any) -> dict[str, Any] | None:
        """Things without parts that could be shared."""
        kind = type(value)
        if kind is complex:
            return {"complex": [repr(value.real), repr(value.imag)]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if kind is dtype:
            return {"dtype": value.name}
        if kind is device:
            return {"device": str(value)}
        if kind is Size:
            return {"size": list(value)}
        if kind is layout:
            return {"layout": value.name}
        if kind is memory_format:
            return {"memory_format": value.name}
        if kind is range or (
            kind is slice and {type(value.start), type(value.stop), type(value.step)} <= {int, type(None)}
        ):
            return {kind.__name__: [value.start, value.stop, value.step]}
        if isinstance(value, np.generic) and value.dtype.kind in NUMERIC:
            return {"numpy": [value.dtype.str, base64.b64encode(value.tobytes()).decode()]}
        return None

    def _container(self, value: Any, node: dict[str, Any], path: tuple[str, ...]) -> None:
        kind = type(value)
        if kind in (list, tuple):
            node[kind.__name__] = [self.write(item, (*path, str(place))) for place, item in enumerate(value)]
        elif kind in (set, frozenset):
            node[kind.__name__] = [self._key(item, path) for item in value]
        elif isinstance(value, Tensor):
            form, parts, elements, shape, unique = value.__reduce_ex__(2)[1]
            written = [self.write(part, (*path, str(place))) for place, part in enumerate((*parts, elements))]
            node["sparse"] = [form.name, written, list(shape), unique]
        elif kind in MAPPINGS.values():
            node[kind.__name__] = self._pairs(value, path)
            extra = getattr(value, "_metadata", None)
            if extra is not None:
                node["metadata"] = self.write(extra, path)
        elif kind is defaultdict:
            factory = value.default_factory
            if factory is not None and FACTORIES.get(factory.__name__) is not factory:
                raise CannotSave(f"weft.save: a defaultdict with a function of its own{_at(path)}")
            name = None if factory is None else factory.__name__
            node["defaultdict"] = [name, self._pairs(value, path)]
        elif kind is deque:
            node["deque"] = [[self.write(item, path) for item in value], value.maxlen]
        elif kind is bytearray:
            node["bytearray"] = base64.b64encode(value).decode()
        elif kind is np.ndarray and value.dtype.kind in NUMERIC:
            content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            node["ndarray"] = [value.dtype.str, list(value.shape), content]
        else:
            advice = ": save its state_dict() instead" if hasattr(value, "state_dict") else ""
            raise CannotSave(
                f"weft.save: an object of type {kind.__module__}.{kind.__qualname__}{_at(path)} is no data; "
                f"files hold tensors, containers, numbers and texts, and no code{advice}"
            )

    def _key(self, value: Any, path: tuple[str, ...]) -> Any:
        try:
            return self.write(checked_key(value), path)
        except FileFormatError as error:
            raise CannotSave(f"weft.save: {error}{_at(path)}") from None

    def _pairs(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        return [[self._key(key, path), self.write(item, (*path, str(key)))] for key, item in value.items()]


def _at(path: tuple[str, ...]) -> str:
    return f" at {'.'.join(path)!r}" if path else ""


class Reader:
    """Makes objects of JSON; `tensor` gives the tensor of a number."""

    def __init__(self, tensor: Callable[[int], Tensor]) -> None:
        self.tensor = tensor
        self.known: dict[int, Any] = {}

    def read(self, node: Any) -> Any:
        kind = type(node)
        if kind in PLAIN or kind is int or kind is float:
            return node
        require(kind is dict, f"the tree has a {kind.__name__} where an object should be")
        words = set(node) - {"as", "metadata"}
        require(len(words) == 1, f"the tree has an object with the keys {sorted(node)[:8]}")
        (word,) = words
        require(word in READERS, f"the tree has the unknown word {word[:80]!r}")
        return READERS[word](self, node[word], node)

    def keep(self, node: dict[str, Any], made: Any) -> Any:
        """Notes what was made under its number."""
        if "as" in node:
            number = node["as"]
            require(type(number) is int and number not in self.known, "the tree gives a number twice")
            self.known[number] = made
        return made

    def key(self, node: Any) -> Any:
        return checked_key(self.read(node))

    def pairs(self, items: Any) -> list[tuple[Any, Any]]:
        require(type(items) is list, "the tree has a dict without a list of pairs")
        require(
            all(type(pair) is list and len(pair) == 2 for pair in items), "the tree has no pairs in a dict"
        )
        return [(self.key(key), self.read(value)) for key, value in items]


def _items(value: Any) -> list[Any]:
    require(type(value) is list, "the tree has no list where one should be")
    items: list[Any] = value
    return items


def _list(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    made: list[Any] = reader.keep(node, [])
    made.extend(reader.read(item) for item in _items(value))
    return made


def _tuple(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    return reader.keep(node, tuple(reader.read(item) for item in _items(value)))


def _set(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    made: set[Any] = reader.keep(node, set())
    made.update(reader.key(item) for item in _items(value))
    return made


def _frozenset(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    return reader.keep(node, frozenset(reader.key(item) for item in _items(value)))


def _mapping(kind: type[dict[Any, Any]]) -> Callable[..., Any]:
    def read(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
        made = reader.keep(node, kind())
        for key, item in reader.pairs(value):
            made[key] = item
        if "metadata" in node:
            require(kind is OrderedDict, "the tree has metadata where there can be none")
            made._metadata = reader.read(node["metadata"])
        return made

    return read


def _defaultdict(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    good = type(value) is list and len(value) == 2 and (value[0] is None or value[0] in FACTORIES)
    require(good, "the tree has a strange defaultdict")
    made: Any = reader.keep(node, defaultdict(None if value[0] is None else FACTORIES[value[0]]))
    for key, item in reader.pairs(value[1]):
        made[key] = item
    return made


def _deque(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    good = type(value) is list and len(value) == 2 and type(value[0]) is list
    good = good and (value[1] is None or (type(value[1]) is int and 0 <= value[1] < 2**31))
    require(good, "the tree has a strange deque")
    made: deque[Any] = reader.keep(node, deque(maxlen=value[1]))
    made.extend(reader.read(item) for item in value[0])
    return made


def _again(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    known = type(value) is int and value in reader.known
    require(known, "the tree refers to something that it has not made")
    return reader.known[value]


def _bytes(value: Any) -> bytes:
    require(type(value) is str, "the tree has bytes that are no text")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise FileFormatError("the tree has bytes that are not base64") from None


def _numpy_dtype(name: Any) -> np.dtype[Any]:
    good = type(name) is str and len(name) <= 5 and name[:1] in "<>|=" and name[1:2] in tuple(NUMERIC)
    require(good, f"the tree has a strange dtype of NumPy, {str(name)[:80]}")
    try:
        found: np.dtype[Any] = np.dtype(name)
    except TypeError:
        raise FileFormatError(f"the tree has a strange dtype of NumPy, {name!r}") from None
    require(found.kind in NUMERIC, f"the tree has a strange dtype of NumPy, {name!r}")
    return found


def _numpy(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    require(type(value) is list and len(value) == 2, "the tree has a strange number of NumPy")
    kind, content = _numpy_dtype(value[0]), _bytes(value[1])
    require(len(content) == kind.itemsize, "the tree has a number of NumPy of the wrong size")
    return np.frombuffer(content, kind)[0]


def _ndarray(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    require(type(value) is list and len(value) == 3, "the tree has a strange array of NumPy")
    kind, shape, content = _numpy_dtype(value[0]), sizes(value[1], "an array's sizes"), _bytes(value[2])
    require(len(content) == math.prod(shape) * kind.itemsize, "the tree has an array of the wrong size")
    return reader.keep(node, np.frombuffer(content, kind).copy().reshape(shape))


def _number(text: Any, make: Callable[[str], Any]) -> Any:
    require(type(text) is str, "the tree has a number that is no text")
    try:
        return make(text)
    except ValueError:
        raise FileFormatError(f"the tree has the number {text[:80]!r}") from None


def _complex(reader: Reader, value: Any, node: dict[str, Any]) -> complex:
    require(type(value) is list and len(value) == 2, "the tree has a strange complex number")
    return complex(_number(value[0], float), _number(value[1], float))


def _bounds(make: Callable[..., Any]) -> Callable[..., Any]:
    def read(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
        good = type(value) is list and len(value) == 3
        good = good and all(each is None or type(each) is int for each in value)
        require(good, "the tree has a strange range or slice")
        try:
            return make(*value)
        except (TypeError, ValueError):
            raise FileFormatError("the tree has a strange range or slice") from None

    return read


def _named(table: Callable[[str], Any]) -> Callable[..., Any]:
    def read(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
        require(type(value) is str, "the tree has a name that is no text")
        try:
            return table(value)
        except (KeyError, RuntimeError, AssertionError):
            raise FileFormatError(f"the tree has the unknown name {value[:80]!r}") from None

    return read


def _tensor(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    require(type(value) is int, "the tree has a tensor without a number")
    return reader.tensor(value)


def _sparse(reader: Reader, value: Any, node: dict[str, Any]) -> Any:
    require(type(value) is list and len(value) == 4 and type(value[1]) is list, "a strange sparse tensor")
    parts = [reader.read(part) for part in value[1]]
    return reader.keep(node, rebuild_sparse(_LAYOUT(reader, value[0], node), parts, value[2], value[3]))


_LAYOUT = _named(lambda name: LAYOUTS[name])
READERS: Final[dict[str, Callable[[Reader, Any, dict[str, Any]], Any]]] = {
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "frozenset": _frozenset,
    **{name: _mapping(kind) for name, kind in MAPPINGS.items()},
    "defaultdict": _defaultdict,
    "deque": _deque,
    "again": _again,
    "tensor": _tensor,
    "int": lambda reader, value, node: _number(value, lambda text: int(text, 16)),
    "float": lambda reader, value, node: _number(value, float),
    "complex": _complex,
    "bytes": lambda reader, value, node: _bytes(value),
    "bytearray": lambda reader, value, node: reader.keep(node, bytearray(_bytes(value))),
    "dtype": _named(lambda name: BY_NAME[name]),
    "device": _named(device),
    "layout": _LAYOUT,
    "sparse": _sparse,
    "memory_format": _named(memory_format_by_name),
    "size": lambda reader, value, node: Size(sizes(value, "sizes")),
    "slice": _bounds(slice),
    "range": _bounds(range),
    "numpy": _numpy,
    "ndarray": _ndarray,
}
