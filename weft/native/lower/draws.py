"""Draws in graphs: which stream they take from, and what rules of random ops are given in its place.

Gives records that stand for generators. One idea: a rule gets the seeds of a draw where an op has a
generator, and asks for words; what has no rule runs its array kernel on a stream made of the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from weft.core.generator import Generator
from weft.core.records import record
from weft.native.ir.definitions import Definition, Shape
from weft.native.target import Target
from weft.ops import philox

GENERATOR: Final = "generator"


@record(frozen=True, slots=True)
class Stream:
    """A generator that is an input."""

    number: int


@record(frozen=True, slots=True)
class Drawn:
    """A draw of a program: where its seeds stand, and its number among them."""

    target: Target
    seeds: Any
    number: int
    dtype: Any
    """NumPy's, of the result: rules compute halves in float32, and do not see them."""

    def words(self, shape: Shape, type_: str, threshold: int = 0) -> Definition:
        """The words of a draw, of type u32 or u64; or (b1) whether words of 32 bits are below the
        threshold."""
        return self.target.words(self.seeds, self.number, shape, type_, threshold)


def blocks_of(stream: str, given: dict[str, Any], result: Any) -> int:
    """How many counter blocks a sampler takes that draws this; its tensors are known by their shapes."""
    count = prod(result.shape)
    if stream == "multinomial":
        count = philox.multinomial_count(given["input"].shape, given["num_samples"], given["replacement"])
    return philox.blocks(stream, count, result.dtype)


def sampled(op: Callable[..., Any], slot: int, number: int) -> Callable[..., Any]:
    """A sampler's own array kernel, on the seeds of a call in the place of its generator."""

    def run(*bound: Any) -> Any:
        key, offset = bound[slot][2 * number : 2 * number + 2].tolist()
        stream = Generator().manual_seed(key)
        stream.set_offset(offset)
        return op(*bound[:slot], stream, *bound[slot + 1 :])

    return run
