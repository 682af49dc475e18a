"""Random programs of tensor code: what a backend has to lower, fuse, cut into chunks and write in place.

Takes a seed; gives source text of the form that compare.py runs. One idea: the program is made by running it:
each line is tried on tensors, uncompiled, and lines that raise are not taken, so that shapes and types need
no rules here.

# Note [Exact values]
Ops that round once (sums and products of two, comparisons, views) give the same bits in every backend, as
long as what they are given has the same bits. Such values are told apart: they are compared without
tolerance, and only they are asked questions whose answer jumps (rounding, comparing, sorting).
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import weft
from tests.whole.fuzz.native_tables import (
    BINARY,
    BINARY_EXACT,
    BINARY_INT,
    BINARY_STEADY,
    CREATED,
    FOLDS,
    FOLDS_EXACT,
    INDEXED,
    INDEXED_EXACT,
    JOINED,
    LARGE,
    NETS,
    NUMBERS,
    OPTIMIZERS,
    PREAMBLE,
    PRODUCTS,
    RANDOM,
    ROWS,
    UNARY,
    UNARY_EXACT,
    UNARY_INT,
    VIEWS,
    WINDOWS,
    WRITES,
)

SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
MOST = 20_000
"""How many elements a value may have."""
TRIES = 12
JUMPING = frozenset({"@[@ > 0] = 1"})
"""Writes that ask what only exact values are asked."""


class Maker:
    """One program: its lines so far, and what they gave when they were run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"native {seed}")
        self.names: dict[str, Any] = {}
        exec(PREAMBLE, self.names)
        self.values: list[str] = []
        self.exact: set[str] = set()
        self.given: set[str] = set()
        self.lines: list[str] = []
        self.count = 0

    # -- names and numbers -------------------------------------------------------------
    def name(self, start: str) -> str:
        self.count += 1
        return f"{start}{self.count}"

    def some(self, wanted: Callable[[Any], bool] = lambda _: True, exact: bool = False) -> str | None:
        found = [
            name
            for name in self.values[-10:]
            if is_usable(self.names[name]) and wanted(self.names[name]) and (not exact or name in self.exact)
        ]
        return self.chance.choice(found) if found else None

    def shape(self) -> tuple[int, ...]:
        rank = self.chance.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        shape = tuple(self.chance.choice(self.sizes) for _ in range(rank))
        return shape if prod(shape) <= MOST else shape[:2]

    def filled(self, text: str, value: str, exact: bool = False) -> str | None:
        """A template with its holes filled: see Note [Holes of tensor code] in native_tables.py."""
        chance, tensor = self.chance, self.names[value]
        rank = tensor.dim()
        holes: dict[str, Callable[[], Any]] = {
            "axis": lambda: chance.randrange(-rank, rank) if rank else 0,
            "other": lambda: chance.randrange(rank) if rank else 0,
            "keep": lambda: chance.random() < 0.5,
            "axes": lambda: (
                tuple(sorted(chance.sample(range(rank), chance.randint(1, rank)))) if rank else ()
            ),
            "order": lambda: tuple(chance.sample(range(rank), rank)),
            "number": lambda: chance.choice(NUMBERS),
            "small": lambda: chance.choice((0, 1, 1, 2, 3)),
            "shape": self.shape,
            "last": lambda: tensor.shape[-1] if rank else 1,
            "size": lambda: chance.choice(self.sizes),
            "seed": lambda: chance.randrange(1000),
        }
        for hole, made in holes.items():
            while f"${hole}" in text:
                text = text.replace(f"${hole}", str(self.number(hole, value, made)), 1)
        for hole, wanted in WANTED.items():
            while f"${hole}" in text:
                found = self.some(partial(wanted, tensor), exact)
                if found is None:
                    return None
                text = text.replace(f"${hole}", found, 1)
        return text.replace("@", value)

    def number(self, _hole: str, _value: str, made: Callable[[], Any]) -> Any:
        """What stands in a hole that is no tensor's; `made` draws a literal."""
        return made()

    # -- lines -------------------------------------------------------------------------
    def expression(self) -> tuple[str, bool] | None:
        """An expression of values, and whether it is exact."""
        chance = self.chance
        table, wanted, exact = chance.choices(TABLES, WEIGHTS)[0]
        value = self.some(wanted, exact)
        if value is None:
            return None
        text = self.filled(chance.choice(table), value, exact)
        if text is None:
            return None
        return text, (exact or table is VIEWS or table is JOINED) and self.is_exact(text)

    def take(self, line: str) -> bool:
        """Runs a line; keeps it if it does not raise."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                exec(line, self.names)
        except Exception:
            return False
        self.lines.append(line)
        return True

    def statement(self) -> None:
        chance = self.chance
        for _ in range(TRIES):
            if chance.random() < self.writing:
                self.write()
                return
            found = self.expression()
            if found is None:
                continue
            text, exact = found
            name = self.name("t")
            if not self.take(f"{name} = {text}"):
                self.names.pop(name, None)
                continue
            made = self.names[name]
            if not isinstance(made, weft.Tensor) or made.numel() > MOST or made.is_complex():
                self.lines.pop()
                continue
            self.values.append(name)
            if exact or (not made.dtype.is_floating_point and self.is_exact(text)):
                self.exact.add(name)
            return

    def is_exact(self, text: str) -> bool:
        return all(name in self.exact for name in self.values if name in text)

    def write(self) -> None:
        """A write to a value, directly or through a view; those of inputs are seen by the caller."""
        value = self.some(lambda t: not (t.is_leaf and t.requires_grad))
        if value is None:
            return
        write = self.chance.choice(WRITES)
        text = self.filled(write, value)
        if write in JUMPING and value not in self.exact:
            return
        if text is None or self.chance.random() < 0.3 and value in self.given:
            return
        if self.take(text):
            reached = self.reached(self.names[value])
            self.exact -= {
                name
                for name in self.values
                if not is_usable(self.names[name]) or any(shares(self.names[name], each) for each in reached)
            }

    def reached(self, value: Any) -> list[Any]:
        """Tensors on all memory that a write to this one may change: calls pass one tensor as two inputs."""
        pair = [self.names[name] for name in self.values[:2] if name in self.given]
        return [value, *pair] if any(shares(value, each) for each in pair) else [value]

    # -- parts of the program ----------------------------------------------------------
    def inputs(self) -> None:
        chance = self.chance
        for _ in range(chance.choice((1, 2, 2, 3, 3, 4))):
            name = self.name("x")
            shape = self.shape()
            if self.values and chance.random() < 0.6:
                shape = tuple(self.names[chance.choice(self.values)].shape)
            self.shapes[name] = shape
            self.kinds[name] = chance.choices(KINDS, KIND_WEIGHTS)[0]
            self.grads[name] = self.kinds[name] in FLOATS and chance.random() < 0.5
            self.special[name] = chance.random() < self.specials
            self.names[name] = eval(self.input(name, 0, shape, "plain"), self.names)
            self.values.append(name)
            self.exact.add(name)
            self.given.add(name)

    def input(self, name: str, number: int, shape: tuple[int, ...], layout: str) -> str:
        kind = self.kinds[name]
        how = "special" if self.special[name] else "plain"
        text = f"data({shape}, {number + len(name) * 7 + int(name[1:])}, weft.{kind}, {how!r}, {layout!r})"
        return f"{text}.requires_grad_()" if self.grads[name] else text

    def program(self) -> str:
        chance = self.chance
        large = chance.random() < 0.06
        self.sizes = (
            LARGE
            if large
            else [chance.choice(SIZES) for _ in range(3)] + ([0] if chance.random() < 0.08 else [])
        )
        self.writing = chance.choice((0.0, 0.0, 0.1, 0.3))
        self.specials = chance.choice((0.0, 0.0, 0.0, 0.5))
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, str] = {}
        self.grads: dict[str, bool] = {}
        self.special: dict[str, bool] = {}
        weft.manual_seed(0)
        self.inputs()
        inputs = list(self.values)
        for _ in range(chance.choice((2, 4, 6, 8, 12, 20) if not large else (2, 4, 6))):
            self.statement()
        made = [name for name in self.values if name not in self.given]
        results = chance.sample(made, min(len(made), chance.choice((1, 2, 3, 4))))
        if made and made[-1] not in results:
            results.append(made[-1])
        exact = [name for name in results if name in self.exact]
        lines = [
            PREAMBLE + self.options(),
            f"def main({', '.join((*inputs, *self.numbers))}):",
            *[f"    {line}" for line in self.lines],
            f"    return {', '.join(results)}," if results else "    return ()",
            "def after(result, *args):",
            f"    told = [result[i].tolist() for i in {[results.index(name) for name in exact]}]",
            "    found = [t for t in result if t.requires_grad]",
            "    if found:",
            "        sum((t * weights(t)).sum() for t in found).backward()",
            "    return repr(told)",
            *self.arguments(inputs),
        ]
        return "\n".join(lines) + "\n"

    numbers: tuple[str, ...] = ()
    """Parameters behind the tensors."""

    def options(self) -> str:
        """A line that says how it is compiled, if not as the others."""
        return ""

    def arguments(self, inputs: list[str]) -> list[str]:
        chance = self.chance
        lines = ["def arguments():"]
        shapes = dict(self.shapes)
        varied = chance.choice((2, 2, 3))
        for call in range(varied + 2):
            if call >= varied:
                shapes = self.shapes  # as in the first call, whose program is there
            elif call and chance.random() < 0.3:
                changed = {size: chance.choice(SIZES) for size in self.sizes}
                shapes = {
                    name: tuple(changed.get(n, n) for n in shape) for name, shape in self.shapes.items()
                }
            values = []
            for name in inputs:
                layout = chance.choice(LAYOUTS) if 0 < call < varied else "plain"
                values.append(self.input(name, call * 100, shapes[name], layout))
            if 0 < call < varied and len(inputs) > 1 and chance.random() < 0.1:
                first = self.name("y")
                lines.append(f"    {first} = {values[0]}")
                values[0] = first
                values[1] = chance.choice((first, f"{first}.detach()", f"{first}[...]"))
            lines.append(f"    yield ({', '.join(values)},), {{}}")
        return lines


def is_usable(value: Any) -> bool:
    """Whether a value can be looked at: views of a tensor that was split cannot, once it is written."""
    try:
        return value.shape is not None and value.is_leaf is not None
    except RuntimeError:
        return False


def shares(one: Any, other: Any) -> bool:
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


def is_float(value: Any) -> bool:
    return bool(value.dtype.is_floating_point)


def is_whole(value: Any) -> bool:
    return not value.dtype.is_floating_point and value.dtype is not weft.bool


def anything(value: Any) -> bool:
    return True


WANTED: dict[str, Callable[[Any, Any], bool]] = {
    "same": lambda value, other: other.shape == value.shape and other.dtype is value.dtype,
    "float": lambda value, other: is_float(other),
    "near": lambda value, other: bool(
        other.dim() == 0
        or value.dim() == 0
        or other.shape[-1] in (1, value.shape[-1])
        or value.shape[-1] == 1
    ),
    "mask": lambda value, other: other.dtype is weft.bool,
}
FLOATS = ("float32", "float64", "bfloat16", "float16")
KINDS = ("float32", "float64", "int64", "int32", "bool", "uint8", "int8", "int16", "bfloat16", "float16")
KIND_WEIGHTS = (14, 3, 3, 1.5, 1.5, 1, 0.5, 0.5, 0.8, 0.5)
LAYOUTS = ("plain", "plain", "plain", "turned", "stepped", "shifted", "expanded", "flipped")
TABLES: list[tuple[list[str], Callable[[Any], bool], bool]] = [
    (UNARY, is_float, False),
    (UNARY_EXACT, is_float, True),
    (UNARY_INT, is_whole, False),
    (BINARY, is_float, False),
    (BINARY_EXACT, anything, True),
    (BINARY_STEADY, anything, False),
    (BINARY_INT, is_whole, False),
    (FOLDS, is_float, False),
    (FOLDS_EXACT, anything, True),
    (VIEWS, anything, False),
    (JOINED, anything, False),
    (INDEXED, is_float, False),
    (INDEXED_EXACT, anything, True),
    (PRODUCTS, is_float, False),
    (ROWS, is_float, False),
    (WINDOWS, is_float, False),
    (RANDOM, is_float, False),
    (CREATED, anything, False),
]
WEIGHTS = (9, 6, 2, 6, 6, 4, 2, 8, 5, 12, 4, 6, 4, 4, 4, 1.5, 1.5, 2)


def training(seed: int) -> str:
    """A step of training, with batches of several sizes."""
    chance = random.Random(f"training {seed}")
    net, shape, target = chance.choice(NETS)
    rows = [chance.choice((1, 2, 3, 4, 4, 5, 8, 17, 32)) for _ in range(4)]
    batches = [rows[0], rows[0], *chance.choices(rows, k=chance.choice((1, 2, 3)))]
    lines = [
        PREAMBLE,
        f"NET = {net}",
        f"OPT = {chance.choice(OPTIMIZERS)}",
        "def main(x, y):",
        f"    OPT.zero_grad({chance.choice(('', 'set_to_none=False'))})",
        "    out = NET(x)",
        f"    loss = {chance.choice(target)}",
        "    loss.backward()",
    ]
    if chance.random() < 0.3:
        lines.append("    nn.utils.clip_grad_norm_(NET.parameters(), 0.5)")
    lines += [
        "    OPT.step()",
        f"    return {chance.choice(('loss.detach(),', 'loss.detach(), out.detach()', 'loss, out'))}",
        "def after(result, *args):",
        "    return len(result)",
        "def arguments():",
        *[f"    yield batch({shape}, {count}, {number}), {{}}" for number, count in enumerate(batches)],
    ]
    return "\n".join(lines) + "\n"


def program(seed: int) -> str:
    """The source text of the program numbered `seed`."""
    return training(seed) if seed % 10 == 7 else Maker(seed).program()
