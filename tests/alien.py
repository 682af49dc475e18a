"""An array library that is NumPy under another name: what a GPU's arrays would be to us, on the CPU.

Gives the class `Alien`, its namespace `aliens` and the `Device` that registers them. An alien holds a NumPy
array, but is none: nothing converts it silently, its namespace and its operators refuse NumPy's arrays, and
NumPy's functions refuse it. `aliens.asarray` and `aliens.asnumpy` are the only ways across. So whatever in
Weft names NumPy where it should ask the device of its arrays raises `Leak`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.device import device
from weft.core.devices import Device, forget, register


class Leak(TypeError):
    """Arrays of two libraries met without anybody saying so."""


WITHOUT = frozenset(
    {"__array_interface__", "__array_struct__", "ctypes", "data", "__dlpack__", "tofile", "dump"}
)
"""What NumPy's arrays have, and arrays in another memory do not."""


class Alien:
    """An array of the other library."""

    __slots__ = ("held", "base", "__weakref__")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, held: np.ndarray[Any, Any], base: Alien | None = None) -> None:
        assert type(held) is np.ndarray
        self.held, self.base = held, base

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise Leak("an alien array would have been converted to NumPy's")

    def __array_ufunc__(self, ufunc: Any, *_args: Any, **_kwargs: Any) -> Any:
        raise Leak(f"numpy.{ufunc.__name__} was given an alien array")

    def __array_function__(self, function: Any, *_args: Any, **_kwargs: Any) -> Any:
        raise Leak(f"numpy.{function.__name__} was given an alien array")

    @property
    def device(self) -> Any:
        """An object of the library's own, as CuPy's arrays have one: nothing that Weft knows."""
        return aliens

    def __getattr__(self, name: str) -> Any:
        if name in WITHOUT or name.startswith("__"):
            raise AttributeError(f"alien arrays have no {name}")
        value = getattr(self.held, name)
        return Function(value, name, self) if callable(value) else wrapped(value, [self])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("held", "base"):
            object.__setattr__(self, name, value)
        else:
            setattr(self.held, name, unwrapped(value, name))

    def __repr__(self) -> str:
        return f"Alien({self.held!r})"

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Alien]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.held)

    def __int__(self) -> int:
        return int(self.held)

    def __float__(self) -> float:
        return float(self.held[()])

    def __complex__(self) -> complex:
        return complex(self.held)

    def __index__(self) -> int:
        return self.held.__index__()

    def __getitem__(self, key: Any) -> Any:
        plain = unwrapped(key, "an index")
        found = self.held[plain]
        if isinstance(found, np.generic):  # a view without dimensions, where NumPy gives a number
            items = plain if isinstance(plain, tuple) else (plain,)
            if not any(item is Ellipsis for item in items):
                found = self.held[(*items, ...)]
        return wrapped(found, [self])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            raise Leak("an alien array was assigned a list")
        self.held[unwrapped(key, "an index")] = unwrapped(value, "an assignment")


def _install(name: str, ufunc: np.ufunc) -> None:
    own = Ufunc(ufunc)
    if ufunc.nin == 1:
        setattr(Alien, f"__{name}__", lambda self: own(self))
        return

    def known(other: Any) -> bool:
        return isinstance(other, (Alien, np.ndarray, np.generic, bool, int, float, complex))

    def into(self: Alien, other: Any) -> Alien:
        own(self, other, out=self)
        return self

    setattr(Alien, f"__{name}__", lambda self, other: own(self, other) if known(other) else NotImplemented)
    setattr(Alien, f"__r{name}__", lambda self, other: own(other, self) if known(other) else NotImplemented)
    setattr(Alien, f"__i{name}__", into)


def unwrapped(value: Any, where: str) -> Any:
    """What NumPy is to compute with; its own arrays must have been brought here explicitly."""
    kind = type(value)
    if kind is Alien:
        return value.held
    if isinstance(value, np.ndarray):
        raise Leak(f"aliens: {where} was given a NumPy array of {value.dtype}{list(value.shape)}")
    if kind is tuple or kind is list:
        return kind([unwrapped(item, where) for item in value])
    if kind is slice:
        return slice(*[unwrapped(item, where) for item in (value.start, value.stop, value.step)])
    return value


def owner(array: np.ndarray[Any, Any]) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def aliens_in(value: Any) -> list[Alien]:
    if type(value) is Alien:
        return [value]
    return [a for item in value for a in aliens_in(item)] if type(value) in (tuple, list) else []


def wrapped(value: Any, given: list[Alien]) -> Any:
    """What NumPy gave as this library gives it: an array, of whatever rank."""
    if isinstance(value, np.generic):
        return Alien(np.asarray(value))
    if isinstance(value, np.ndarray):
        for alien in given:
            if value is alien.held:
                return alien
        memory = owner(value)
        parents = [a for a in given if owner(a.held) is memory and memory is not value]
        roots = [a if a.base is None else a.base for a in parents]
        return Alien(value, roots[0] if roots else None)
    if isinstance(value, tuple) and type(value) is not tuple:  # a named one
        return type(value)(*[wrapped(item, given) for item in value])
    if type(value) in (tuple, list):
        return type(value)([wrapped(item, given) for item in value])
    return value


class Function:
    """A function of NumPy's for aliens."""

    takes_numpy = False

    def __init__(self, function: Any, name: str, *bound: Alien) -> None:
        self.function, self.__name__, self.bound = function, name, bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return called(self.function, self.__name__, args, kwargs, self.bound)


def called(function: Any, name: str, args: Any, kwargs: Any, bound: Any = ()) -> Any:
    plain = [unwrapped(arg, name) for arg in args]
    named = {key: unwrapped(value, name) for key, value in kwargs.items()}
    given = [*bound, *aliens_in(tuple(args)), *aliens_in(tuple(kwargs.values()))]
    return wrapped(function(*plain, **named), given)


class Ufunc:
    """One of the library's ufuncs: its results are arrays, whatever `out` says."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc, self.__name__ = ufunc, ufunc.__name__
        self.nin, self.nout = ufunc.nin, ufunc.nout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is ... and self.nout > 1:
            del kwargs["out"]
        return called(self.ufunc, self.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name not in ("reduce", "accumulate", "reduceat", "outer", "at"):
            raise AttributeError(name)
        return Function(getattr(self.ufunc, name), f"{self.__name__}.{name}")


class Namespace:
    """The library's modules: NumPy's names, other functions behind them."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __repr__(self) -> str:
        return f"<aliens' {self.module}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("random", "errstate", "nditer", "seterr", "frombuffer", "memmap"):
            raise AttributeError(f"aliens have no {name}")
        module = importlib.import_module(self.module)
        if name.startswith("__") or not hasattr(module, name):
            raise AttributeError(f"{self!r} has no {name}")
        value = getattr(module, name)
        made: Any = value
        if isinstance(value, np.ufunc):
            made = Ufunc(value)
        elif type(value) is type(np):
            made = Namespace(value.__name__)
        elif callable(value) and not isinstance(value, type):
            made = Function(value, name)
        self.__dict__[name] = made
        return made

    def asarray(self, value: Any, dtype: Any = None, **options: Any) -> Alien:
        """The way here: NumPy's arrays are copied, as to another memory."""
        if type(value) is Alien:
            return wrapped(np.asarray(value.held, dtype, **options), [value])  # type: ignore[no-any-return]
        if isinstance(value, (list, tuple)) and aliens_in(value):
            raise Leak("aliens.asarray was given a list of arrays")
        return Alien(np.array(value, dtype))

    def array(self, value: Any, dtype: Any = None, **options: Any) -> Alien:
        if isinstance(value, (list, tuple)) and aliens_in(value):
            raise Leak("aliens.array was given a list of arrays")
        return Alien(np.array(value.held if type(value) is Alien else value, dtype, **options))

    def asnumpy(self, array: Alien) -> np.ndarray[Any, Any]:
        """The way back."""
        return array.held.copy(order="K")


aliens: Any = Namespace("numpy")

for _name, _ufunc in (
    ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.true_divide),
    ("floordiv", np.floor_divide), ("mod", np.remainder), ("pow", np.power), ("matmul", np.matmul),
    ("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor), ("lshift", np.left_shift),
    ("rshift", np.right_shift), ("neg", np.negative), ("pos", np.positive), ("abs", np.absolute),
    ("invert", np.invert), ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
    ("gt", np.greater), ("ge", np.greater_equal),
):  # fmt: skip
    _install(_name, _ufunc)


class AlienDevice(Device):
    """Aliens stand where CuPy's arrays will."""

    def asnumpy(self, array: Any) -> np.ndarray[Any, Any]:
        return aliens.asnumpy(array)  # type: ignore[no-any-return]

    def address(self, array: Any) -> int:
        return int(array.held.__array_interface__["data"][0])

    def window(
        self, memory: Any, shape: tuple[int, ...], kind: np.dtype[Any], offset: int, strides: Any = None
    ) -> Any:
        return Alien(np.ndarray(shape, kind, memory.held, offset, strides), self.base(memory))


ALIENS = AlienDevice(device("cuda", 0), Alien, aliens, Namespace("scipy.special"))


@contextlib.contextmanager
def registered() -> Iterator[AlienDevice]:
    """Aliens are known inside of it."""
    register(ALIENS)
    try:
        yield ALIENS
    finally:
        forget(ALIENS)
