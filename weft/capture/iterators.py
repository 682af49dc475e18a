"""Iterators: how captured code, and C code on its behalf, walks over values.

Takes an iterable value; gives its items, its iterator, or something that C code may iterate in its place. One
idea: iterators in C are simply advanced; `__iter__` and `__next__` of the user's are interpreted, behind a
wrapper where C code does the walking.
"""

from __future__ import annotations

import operator
from collections.abc import Container
from enum import Enum
from typing import TYPE_CHECKING, Any

from weft.capture.attributes import HEAP, IMMUTABLE
from weft.capture.c_arguments import CONTAINERS, ITERATORS
from weft.capture.namespaces import InstanceDict
from weft.capture.protocols import answers_in_c
from weft.capture.sources import plain_part
from weft.capture.values import Args, CapturedGenerator, Raised, entered, has_type
from weft.capture.world import is_changed
from weft.capture.wrapping import SCALARS
from weft.core.naming import home
from weft.tensor.base import Tensor
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Iterators:
    """Walking over values."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.attributes = machine.calls, machine.attributes
        self.c_arguments, self.generators = machine.c_arguments, machine.generators
        self.world, self.native, self.fail = machine.world, machine.native, machine.fail

    def iterables(self, args: Args, places: Container[int]) -> tuple[Any, ...]:
        """The arguments, with those at some places made ready for C code to iterate."""
        return tuple(
            self.iterable(value) if place in places and is_iterable(value) else value
            for place, value in enumerate(args)
        )

    def iterable(self, value: Any) -> Any:
        """Something that C code may iterate in place of the value."""
        kind = type(value)
        if has_type(value, set):
            self.guard_order(value)
        if kind in CONTAINERS or kind in SCALARS or has_type(value, (CapturedGenerator, UserIterator)):
            return value
        if has_type(value, Tensor):
            return value
        if not kind.__flags__ & HEAP or kind.__flags__ & IMMUTABLE:
            self.c_arguments.refuse_opaque(value)
            return value
        if has_type(value, InstanceDict):
            return list(value)
        maker = self.attributes.python_method(value, "__iter__")
        if maker is not None:
            return self.iterator_for_c(self.calls.call_method(maker, value))
        if has_type(value, Enum) and defines(kind, "__iter__"):
            return self.native(list, value)  # the members of a flag
        if self.attributes.python_method(value, "__next__") is not None and defines(kind, "__iter__"):
            return UserIterator(value, self.machine)
        if self.attributes.python_method(value, "__getitem__") is not None and not defines(kind, "__iter__"):
            return SequenceIterator(value, self.machine)
        return value

    def rows(self, value: Any) -> Any:
        """As `iterable`, for what is walked at once: each row of a tensor is a node of its own where no
        gradient can tell.
        """
        if not has_type(value, Tensor) or value.requires_grad:
            return self.iterable(value)
        shape = value.shape
        if not shape or type(shape[0]) is not int:
            return value
        rows = [self.calls.call(operator.getitem, (value, row), {}) for row in range(shape[0])]
        return self.world.keep(rows)

    def guard_order(self, value: set[Any]) -> None:
        """A set that existed before, and that captured code changed, is about to be walked."""
        known = self.world.known.get(id(value))
        if known is not None and is_changed(known):
            if id(value) in self.world.cramped:
                raise Break("set-order", seen=f"{known.source}, whose table is larger than its contents need")
            self.world.guard("EQ", known.source.plain(), plain_part(known.original))

    def iterator_for_c(self, value: Any) -> Any:
        """What a user's `__iter__` gave, for C code to advance."""
        if self.attributes.python_method(value, "__next__") is not None:
            return UserIterator(value, self.machine)
        if not hasattr(type(value), "__next__"):
            text = f"iter() returned non-iterator of type '{type(value).__name__}'"
            raise self.fail(TypeError(text))
        self.c_arguments.refuse_opaque(value)
        return value

    def iterator(self, value: Any) -> Any:
        """`iter(value)`."""
        kind = type(value)
        if kind.__flags__ & HEAP and not kind.__flags__ & IMMUTABLE and not has_type(value, Tensor):
            maker = self.attributes.python_method(value, "__iter__")
            if maker is not None:
                result = self.calls.call_method(maker, value)
                self.iterator_for_c(result)
                return result
        ready = self.rows(value)
        return ready if has_type(ready, UserIterator) else self.world.keep(self.native(iter, ready))

    def next_item(self, iterator: Any) -> Any:
        """`next(iterator)`; raises Raised(StopIteration) at the end."""
        kind = type(iterator)
        if kind is CapturedGenerator:
            return self.generators.advance(iterator, None, None)
        step = self.attributes.python_method(iterator, "__next__")
        if step is not None:
            return self.calls.call_method(step, iterator)
        self.c_arguments.refuse_opaque(iterator)
        if kind not in ITERATORS and not has_type(iterator, (UserIterator, SequenceIterator)):
            if not hasattr(kind, "__next__"):
                raise self.fail(TypeError(f"'{kind.__name__}' object is not an iterator"))
            if not home(kind).startswith(("weft", "_collections_abc")):
                raise Break("opaque-iterator", seen=f"a {kind.__name__}")
        return self.native(next, iterator)

    def items(self, value: Any, asks: bool = False) -> list[Any]:
        """All items of an iterable, as captured code would get them."""
        ready = self.rows(value)
        if asks:
            self.ask_length(value)
        return self.native(list, ready)

    def ask_length(self, value: Any) -> None:
        """What makes a list or tuple of an iterable asks how long it may be."""
        if answers_in_c(value):
            return
        for name in ("__len__", "__length_hint__"):
            found = self.attributes.python_method(value, name)
            try:
                if found is not None and name == "__len__":
                    self.calls.call(len, (value,), {})
                    return
                if found is not None:
                    self.calls.call_method(found, value)
                    return
            except Raised as raised:
                if not has_type(raised.exception, TypeError):
                    raise


class UserIterator:
    """A user's iterator in a form that C code may advance."""

    __slots__ = ("iterator", "machine")

    def __init__(self, iterator: Any, machine: Machine) -> None:
        self.iterator, self.machine = iterator, machine

    def __iter__(self) -> UserIterator:
        return self

    def __next__(self) -> Any:
        return entered(self.machine.iterators.next_item, self.iterator)


class SequenceIterator:
    """Iterates an object that has only `__getitem__`."""

    __slots__ = ("machine", "position", "value")

    def __init__(self, value: Any, machine: Machine) -> None:
        self.value, self.machine, self.position = value, machine, 0

    def __iter__(self) -> SequenceIterator:
        return self

    def __next__(self) -> Any:
        machine = self.machine
        try:
            found = machine.attributes.python_method(self.value, "__getitem__")
            result = machine.calls.call_method(found, self.value, self.position)
        except Raised as raised:
            error = raised.exception
        else:
            self.position += 1
            return result
        if has_type(error, (IndexError, StopIteration)):
            raise StopIteration
        raise error


def defines(kind: type, name: str) -> bool:
    """Whether objects of a class have this method; `hasattr` of an Enum finds those of its metaclass, too."""
    return any(name in vars(base) for base in kind.__mro__)


def is_iterable(value: Any) -> bool:
    kind = type(value)
    return (
        kind not in SCALARS
        and (defines(kind, "__iter__") or defines(kind, "__getitem__"))
        and not has_type(value, type)
    )
