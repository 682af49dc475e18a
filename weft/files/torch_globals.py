"""What the pickles of PyTorch's checkpoints may name, and what we make of it.

Takes the arguments that a pickle gives; gives tensors, containers and numbers. One idea: a maker is a
function of ours that believes nothing of its arguments.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weft.core.device import device, meta
from weft.core.dtypes import ALL, BY_NAME, dtype
from weft.core.types import LAYOUTS, Size, layout
from weft.files.errors import FileFormatError, UnsafeFileError, require
from weft.files.pickles import Allowed, Building, checked_key
from weft.files.rebuilding import parameter_of, rebuild_sparse, sizes, tensor_over
from weft.tensor.base import Tensor
from weft.tensor.storage import UntypedStorage


@dataclass
class Stored:
    """A storage in a file: its memory (None for one without), the dtype that its pickle reads it as, and
    where it is.
    """

    storage: UntypedStorage | None
    kind: dtype | None
    location: device


STORAGE_KINDS: Final[dict[str, dtype | None]] = {
    **{f"torch.{kind.scalar_name}Storage": kind for kind in ALL},
    "torch.storage.UntypedStorage": None,
    "torch.UntypedStorage": None,
}  # fmt: skip


# -- tensors -------------------------------------------------------------------------------------------------
def _stored(value: Any) -> Stored:
    require(type(value) is Stored, f"a tensor is made of a {type(value).__name__} instead of a storage")
    stored: Stored = value
    return stored


def _flipped(made: Tensor, metadata: Any) -> Tensor:
    """PyTorch notes conjugation and sign in bits; here elements are as they are."""
    if metadata is None:
        return made
    require(
        type(metadata) is dict and set(metadata) <= {"conj", "neg"}, f"a tensor has the bits {metadata!r}"
    )
    tracked, made.tracked = made.tracked, False
    if metadata.get("conj"):
        made = made.conj().resolve_conj() if hasattr(made, "resolve_conj") else made.conj()
    if metadata.get("neg"):
        made = -made
    made.tracked = tracked
    return made


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor of PyTorch before 0.4."""
    return rebuild_tensor_v2(storage, offset, size, stride, False, None)


def rebuild_tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    """A tensor, as PyTorch writes most."""
    found = _stored(storage)
    require(found.kind is not None, "a tensor is made of a storage without a dtype")
    assert found.kind is not None
    return _flipped(tensor_over(found.storage, found.kind, offset, size, stride, requires_grad), metadata)


def rebuild_tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    kind: Any,
    metadata: Any = None,
) -> Tensor:
    """A tensor whose storage has no dtype, but itself has."""
    require(type(kind) is dtype, f"a tensor's dtype is a {type(kind).__name__}")
    found = tensor_over(_stored(storage).storage, kind, offset, size, stride, requires_grad)
    return _flipped(found, metadata)


def rebuild_meta(kind: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor without elements."""
    require(type(kind) is dtype, f"a tensor's dtype is a {type(kind).__name__}")
    return tensor_over(None, kind, 0, size, stride, requires_grad)


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Tensor:
    """A parameter."""
    return parameter_of(data, requires_grad)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    """A parameter with attributes."""
    return _with_state(parameter_of(data, requires_grad), state)


def rebuild_from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor with attributes."""
    known = type(function) is Allowed and function.name in REBUILDERS
    require(known, "a tensor is rebuilt by something that does not rebuild tensors")
    require(
        type(kind) is Allowed and kind.name in ("torch.Tensor", "torch.nn.parameter.Parameter"),
        "a tensor of a class that is not PyTorch's own",
    )
    require(type(arguments) is tuple, "a tensor is rebuilt from no tuple")
    return _with_state(REBUILDERS[function.name](*arguments), state)


def _with_state(made: Tensor, state: Any) -> Tensor:
    slots: Any = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    good = (state is None or isinstance(state, dict)) and slots is None
    require(good, "a tensor's attributes are no dict")
    for name, value in (state or {}).items():
        require(
            type(name) is str and name.isidentifier() and not hasattr(type(made), name),
            f"a tensor has an attribute {str(name)[:80]!r}",
        )
        made.__dict__[name] = value
    return made


REBUILDERS: Final[dict[str, Callable[..., Tensor]]] = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
}


def _unknown_tensor(what: str) -> Callable[..., Any]:
    def refuse(*_arguments: Any) -> Any:
        raise FileFormatError(f"the file holds a {what} tensor, which Weft does not have")

    return refuse


# -- containers and small things -----------------------------------------------------------------------------
def _size(items: Any = ()) -> Size:
    return Size(sizes(items, "sizes"))


def _device(kind: Any, index: Any = None) -> device:
    require(type(kind) is str and (index is None or type(index) is int), "a device that is no device")
    return device(kind, index)


def _layout(name: Any) -> Any:
    known = type(name) is str and name.startswith("torch.") and name[6:] in LAYOUTS
    require(known, f"the layout {str(name)[:80]}, which Weft does not have")
    return LAYOUTS[name[6:]]


def _sparse_tensor(form: Any = None, parts: Any = None) -> Any:
    """A sparse tensor: indices, elements, sizes, and of coordinates whether each is there once."""
    good = type(form) is layout and type(parts) is tuple and len(parts) in (3, 4)
    require(good, "a sparse tensor of strange parts")
    if form.name == "sparse_coo":
        return rebuild_sparse(form, parts[:2], parts[2], parts[3] if len(parts) == 4 else False)
    return rebuild_sparse(form, parts[:3], parts[3], True)


def _pairs(items: Any) -> Iterable[tuple[Any, Any]]:
    found = items.items() if isinstance(items, dict) else items
    good = isinstance(items, (dict, list, tuple))
    require(good, f"a dict is made of an object of type {type(items).__name__}")
    for pair in found:
        require(type(pair) in (tuple, list) and len(pair) == 2, "a dict is made of what are no pairs")
        yield checked_key(pair[0]), pair[1]


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict(_pairs(items))


def _plain_dict(items: Any = ()) -> dict[Any, Any]:
    return dict(_pairs(items))


FACTORIES: Final[dict[str, type]] = {
    f"{module}.{kind.__name__}": kind
    for module in ("builtins", "__builtin__")
    for kind in (list, dict, set, int, float, str, tuple, bool)
}


def _defaulting(factory: Any = None, items: Any = ()) -> defaultdict[Any, Any]:
    known = factory is None or (type(factory) is Allowed and factory.name in FACTORIES)
    require(known, "a defaultdict whose defaults come from a function that is not allowed")
    return defaultdict(None if factory is None else FACTORIES[factory.name], _pairs(items))


def _counter(items: Any = ()) -> Counter[Any]:
    found: Counter[Any] = Counter()
    dict.update(found, _pairs(items))
    return found


def _deque(items: Any = (), longest: Any = None) -> deque[Any]:
    require(isinstance(items, (list, tuple)), "a deque is made of no list")
    require(longest is None or (type(longest) is int and 0 <= longest < 2**31), "a deque of a strange length")
    return deque(items, longest)


def _items(value: Any) -> list[Any]:
    require(isinstance(value, (list, tuple, set, frozenset)), "a set is made of no list")
    return [checked_key(item) for item in value]


def _complex(real: Any = 0.0, imaginary: Any = 0.0) -> complex:
    parts = (real, imaginary)
    require(all(type(part) in (int, float) for part in parts), "a complex number of strange parts")
    return complex(real, imaginary)


def _integers(*values: Any) -> tuple[Any, ...]:
    good = all(value is None or type(value) is int for value in values)
    require(good, "a range or a slice of other things than numbers")
    return values


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    good = type(text) is str and encoding in ("latin1", "latin-1", "utf-8", "ascii")
    require(good, "bytes in a strange encoding")
    found: bytes = text.encode(encoding)
    return found


def _bytes(content: Any = b"", encoding: Any = "latin1") -> bytes:
    return content if type(content) is bytes else _encoded(content or "", encoding)


# -- NumPy ---------------------------------------------------------------------------------------------------
class NumpyDtype(Building):
    """A dtype of NumPy: its kind and size first, its byte order when it is built."""

    def __init__(self, name: Any, *_flags: Any) -> None:
        known = type(name) is str and re.fullmatch(r"[biufc](1|2|4|8|16)", name)
        require(known, f"the dtype {str(name)[:80]} of NumPy, which is not allowed")
        self.plain = self.made = np.dtype(name)
        require(self.plain.kind in "biufc", f"the dtype {name} of NumPy, which is not allowed")

    def build(self, state: Any) -> None:
        require(type(state) is tuple and len(state) >= 2, "a dtype of NumPy with a strange state")
        require(state[1] in ("<", "|", "=", ">"), "a dtype of NumPy with a strange byte order")
        self.made = self.plain.newbyteorder(state[1])


class NumpyArray(Building):
    """An array of NumPy, whose content comes when it is built."""

    def __init__(self, kind: Any, shape: Any, _code: Any) -> None:
        require(
            type(kind) is Allowed and kind.name == "numpy.ndarray", "an array of a class that is not NumPy's"
        )

    def build(self, state: Any) -> None:
        require(type(state) is tuple and len(state) == 5, "an array of NumPy with a strange state")
        _, shape, kind, by_columns, content = state
        require(isinstance(kind, np.dtype) and type(content) is bytes, "an array of NumPy of strange content")
        shape = sizes(shape, "an array's sizes")
        flat = np.frombuffer(content, kind).copy()
        require(flat.size == int(np.prod(shape, dtype=object)), "an array of NumPy of the wrong size")
        self.made = flat.reshape(shape, order="F" if by_columns else "C")


def numpy_scalar(kind: Any, content: Any) -> Any:
    """A number of NumPy."""
    require(isinstance(kind, np.dtype) and type(content) is bytes, "a number of NumPy of strange content")
    require(len(content) == kind.itemsize, "a number of NumPy of the wrong size")
    return np.frombuffer(content, kind)[0]


def _table() -> dict[str, Allowed]:
    makers: dict[str, Callable[..., Any] | None] = {
        **REBUILDERS,
        "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
        "torch._utils._rebuild_sparse_tensor": _sparse_tensor,
        "torch._utils._rebuild_qtensor": _unknown_tensor("quantized"),
        "torch._utils._rebuild_nested_tensor": _unknown_tensor("nested"),
        "torch.Size": _size,
        "torch.device": _device,
        "torch.serialization._get_layout": _layout,
        "torch.Tensor": None,
        "torch.nn.parameter.Parameter": None,
        "collections.OrderedDict": _ordered,
        "collections.defaultdict": _defaulting,
        "collections.Counter": _counter,
        "collections.deque": _deque,
        "_codecs.encode": _encoded,
        "numpy.ndarray": None,
        "numpy.dtype": NumpyDtype,
        **dict.fromkeys(STORAGE_KINDS),
    }
    for core in ("numpy.core", "numpy._core"):
        makers[f"{core}.multiarray.scalar"] = numpy_scalar
        makers[f"{core}.multiarray._reconstruct"] = NumpyArray
    for builtin in ("builtins", "__builtin__"):
        makers.update(
            {
                **dict.fromkeys(name for name in FACTORIES if name.startswith(builtin)),
                f"{builtin}.dict": _plain_dict,
                f"{builtin}.list": lambda items=(): list(_sequence(items)),
                f"{builtin}.tuple": lambda items=(): tuple(_sequence(items)),
                f"{builtin}.set": lambda items=(): set(_items(items)),
                f"{builtin}.frozenset": lambda items=(): frozenset(_items(items)),
                f"{builtin}.complex": _complex,
                f"{builtin}.range": lambda *values: range(*_integers(*values)),
                f"{builtin}.xrange": lambda *values: range(*_integers(*values)),
                f"{builtin}.slice": lambda *values: slice(*_integers(*values)),
                f"{builtin}.bytes": _bytes,
                f"{builtin}.bytearray": lambda *parts: bytearray(_bytes(*parts)),
            }
        )
    found = {name: Allowed(name, make) for name, make in makers.items()}
    for name, kind in BY_NAME.items():
        found[f"torch.{name}"] = Allowed(f"torch.{name}", None, kind)
    return found


def _sequence(items: Any) -> Any:
    require(isinstance(items, (list, tuple)), "a list is made of no list")
    return items


TABLE: Final = _table()


def storage_facts(identity: Any, length: int, where: str) -> tuple[Any, ...]:
    """The parts of a persistent id that names a storage: dtype, key, location, count, the rest."""
    if type(identity) is not tuple or not identity or identity[0] != "storage" or len(identity) != length:
        raise UnsafeFileError(f"{where}: the pickle refers to something outside that is no storage")
    _, kind, key, location, count, *rest = identity
    known = type(kind) is Allowed and kind.name in STORAGE_KINDS
    require(known, f"{where}: a storage of an unknown kind")
    good = type(key) is str and type(location) is str and type(count) is int and count >= 0
    require(good, f"{where}: a storage is described by strange things")
    return STORAGE_KINDS[kind.name], key, location, count, *rest


def on_meta(where: Any) -> bool:
    """Whether tensors there have no elements."""
    return isinstance(where, device) and where == meta
