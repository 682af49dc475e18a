"""An autograd engine that a user might write in plain Python over Weft tensors: a global tape of closures.

It leans on what such programs lean on: globals, name counters, closures over operands, NamedTuples, lists
that grow, dicts by name, reversed iteration, and in-place `+=` on a tensor that sits in an object's
attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import weft

counter = 0


def next_name() -> str:
    global counter
    name = f"v{counter}"
    counter += 1
    return name


class Variable:
    """A tensor with a name; operators on it write to the tape."""

    def __init__(self, value: weft.Tensor, name: str | None = None) -> None:
        self.value = value
        self.name = name or next_name()

    @staticmethod
    def constant(value: weft.Tensor, name: str | None = None) -> Variable:
        return Variable(value, name)

    def __repr__(self) -> str:
        return repr(self.value)

    def __add__(self, other: Variable) -> Variable:
        result = Variable(self.value + other.value)
        record([self, other], result, lambda grad: [grad.times(1.0), grad.times(1.0)])
        return result

    def __mul__(self, other: Variable | float) -> Variable:
        return self.times(other)

    def times(self, other: Variable | float) -> Variable:
        if isinstance(other, float):
            assert other == 1.0
            return self
        result = Variable(self.value * other.value)

        def pull(grad: Variable) -> list[Variable]:
            by_self = other
            by_other = self
            return [grad * by_self, grad * by_other]

        record([self, other], result, pull)
        return result

    def sum(self, name: str | None = None) -> Variable:
        result = Variable(weft.sum(self.value), name)

        def pull(grad: Variable) -> list[Variable]:
            size = self.value.size()
            return [grad.expand(*size)]

        record([self], result, pull)
        return result

    def expand(self, *sizes: int) -> Variable:
        assert self.value.dim() == 0
        result = Variable(self.value.expand(sizes))
        record([self], result, lambda grad: [grad.sum()])
        return result


class Entry(NamedTuple):
    inputs: list[str]
    outputs: list[str]
    pull: Callable[[Variable], list[Variable]]


tape: list[Entry] = []


def record(inputs: Sequence[Variable], output: Variable, pull: Callable[[Variable], list[Variable]]) -> None:
    tape.append(Entry(inputs=[v.name for v in inputs], outputs=[output.name], pull=pull))


def reset() -> None:
    global counter
    tape.clear()
    counter = 0


def grad(loss: Variable, wanted: Sequence[Variable]) -> list[Variable | None]:
    """Gradients of the loss by walking the tape backwards; the walk itself writes to the tape."""
    found: dict[str, Variable] = {loss.name: Variable(weft.ones(()))}

    def gather(names: Sequence[str]) -> list[Variable | None]:
        return [found.get(name) for name in names]

    for entry in reversed(tape[:]):
        (outgoing,) = gather(entry.outputs)
        if outgoing is None:
            continue
        for name, incoming in zip(entry.inputs, entry.pull(outgoing), strict=True):
            if name not in found:
                found[name] = incoming
            else:
                found[name].value += incoming.value
    return gather([v.name for v in wanted])


def simple(a: Variable, b: Variable) -> Variable:
    return (a + b) * b
