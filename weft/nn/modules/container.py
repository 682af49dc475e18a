"""Containers: modules that hold modules or parameters in a row or by key.

Takes modules (or parameters), gives list- and dict-like objects whose items are registered, so that
`parameters()` and `state_dict()` see them. One idea: a list is the dict of its children under the names "0",
"1", …, rebuilt where an item moves.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Container as ContainerLike
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sized, ValuesView
from itertools import chain
from typing import Any, Self

from weft.nn.modules.module import Module, _addindent
from weft.nn.parameter import Parameter
from weft.tensor.base import Tensor
from weft.tensor.legacy import typename

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def position(index: Any, size: int) -> int:
    """The index counted from the front, or PyTorch's IndexError."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


def renumbered(modules: Iterable[Any]) -> dict[str, Any]:
    """The modules under the names "0", "1", …"""
    return {str(number): module for number, module in enumerate(modules)}


class Row(Module):
    """What Sequential and ModuleList have in common."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[position(index, len(self))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._modules = renumbered(self._modules.values())

    def pop(self, key: int | slice) -> Any:
        """Takes an item (or a slice) out and gives it."""
        taken = self[key]
        del self[key]
        return taken

    def __getitem__(self, idx: slice | int) -> Any:
        raise NotImplementedError

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self


class Sequential(Row):
    """Modules called one after the other, each with the result of the one before.

    >>> model = weft.nn.Sequential(weft.nn.Linear(4, 8), weft.nn.ReLU(), weft.nn.Linear(8, 2))
    >>> model(weft.zeros(3, 4)).shape
    weft.Size([3, 2])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
            return
        for module in args:
            self.append(module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, idx: slice | int) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise _not_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise _not_sequential(other)
        return self.extend(other)

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*(module for _ in range(other) for module in self))

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend([module for _ in range(other - 1) for module in self])

    def insert(self, index: int, module: Module) -> Self:
        """Puts a module before the one at this index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        place = index + size if index < 0 else index
        for number in range(place, size):
            if str(number) not in self._modules:
                raise KeyError(str(number))  # items under names of the user's cannot move
        modules = list(self)
        modules.insert(place, module)
        names = list(self._modules)[:place] + [str(number) for number in range(place, size + 1)]
        self._modules = dict(zip(names, modules, strict=True))
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self


def _not_sequential(other: Any) -> ValueError:
    return ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")


class ModuleList(Row):
    """Modules in a list.

    >>> layers = weft.nn.ModuleList(weft.nn.Linear(4, 4) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _name_at(self, index: Any) -> str:
        return str(position(index, len(self)))

    def __getitem__(self, idx: slice | int) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[self._name_at(idx)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before the one at this index."""
        modules = list(self)
        modules.insert(index, module)
        self._modules = renumbered(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """As for any module, but equal neighbours are shown once: `(0-2): 3 x ReLU()`."""
        runs: list[list[Any]] = []  # [first, last, text]
        for number, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = number
            else:
                runs.append([number, number, text])
        lines = []
        for first, last, text in runs:
            place = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("\n  " + _addindent(place + text, 2))
        return f"{self._get_name()}({''.join(lines)}\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """Modules in a dict, in order of insertion.

    >>> layers = weft.nn.ModuleDict({"in": weft.nn.Linear(2, 4), "out": weft.nn.Linear(4, 1)})
    >>> layers["out"](layers["in"](weft.zeros(3, 2))).shape
    weft.Size([3, 1])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes a module out and gives it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds or replaces modules from a mapping or from pairs."""
        for key, module in pairs(modules, "ModuleDict", "ModuleDict", (OrderedDict, ModuleDict, Mapping)):
            self[key] = module


def pairs(given: Any, name: str, plural: str, mappings: tuple[type, ...]) -> list[tuple[Any, Any]]:
    """The (key, value) pairs of what was passed to `update`."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{plural}.update should be called with an iterable of key/value pairs, but got "
            f"{type(given).__name__}"
        )
    if isinstance(given, mappings):
        return list(given.items())  # type: ignore[attr-defined]
    found = []
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{number} should be Iterable; is{type(pair).__name__}"
            )
        if not isinstance(pair, Sized) or not isinstance(pair, ContainerLike) or len(pair) != 2:
            length = len(pair) if isinstance(pair, Sized) else "unknown"
            raise ValueError(f"{name} update sequence element #{number} has length {length}; 2 is required")
        key, value = pair
        found.append((key, value))
    return found


def as_parameter(value: Any) -> Any:
    """What a container of parameters keeps: tensors as parameters, anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def described(key: Any, value: Any, kind: str) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    size = "x".join(str(length) for length in value.shape)
    label = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {label} containing: [{kind} of size {size}]"


class ParameterList(Module):
    """Parameters in a list; tensors become parameters, other values are kept as they are.

    >>> scales = weft.nn.ParameterList([weft.ones(2), weft.zeros(3)])
    >>> [tuple(scale.shape) for scale in scales]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[number] for number in range(len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[number] for number in range(*idx.indices(len(self))))
        return getattr(self, str(position(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(position(idx, len(self))), as_parameter(param))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(described(i, v, str(getattr(v, "dtype", ""))) for i, v in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters in a dict, in order of insertion, except that a plain mapping is inserted by sorted keys;
    tensors become parameters, other values are kept as they are.

    >>> scales = weft.nn.ParameterDict({"left": weft.ones(2), "right": weft.zeros(2)})
    >>> list(scales), scales["left"].requires_grad
    (['left', 'right'], True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._key_to_attr(key), as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set to `default` if it is not there."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Takes everything out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes a value out and gives it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes the last item out and gives it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with these keys, all with the same value."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds or replaces values from a mapping or from pairs."""
        mappings = (OrderedDict, ParameterDict, Mapping)
        found = pairs(parameters, "ParameterDict", "ParametersDict", mappings)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            found.sort(key=lambda pair: pair[0])  # optimizers number parameters in this order
        for key, value in found:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(described(key, value, typename(value)) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> Any:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self
