"""Drawing: the random numbers that a call of a program takes from generators.

Takes what a graph draws, in its order; gives, for each call, the key and the first counter block of every
draw. One idea: all numbers are functions of these two and of their index, so a program computes them like
anything else, and a call that comes to nothing gives them back.

# Note [Seeds]
The last input of a program that draws is an array of u64, made for the call: key and offset of draw 0, of
draw 1, ... Draws from one generator that follow each other are taken at once, so that no other thread's come
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.generator import Drawn as Stretches
from weft.core.generator import Generator, default_generator, is_apart

Source = int | Generator | None
"""An input, a generator that is known, or the default one."""


class Draws:
    """All draws of a program."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        self.rows = [(source, blocks) for source, blocks in rows]
        self.counts = np.array([blocks for _, blocks in self.rows], np.int64)
        """How many blocks each takes; native entries for all sizes write them."""
        self.runs: list[tuple[Source, int, int]] = []
        """Neighbours from one generator: the first, and the one behind the last."""
        for number, (source, _) in enumerate(self.rows):
            first = self.runs.pop()[1] if self.runs and self.runs[-1][0] == source else number
            self.runs.append((source, first, number + 1))

    @property
    def example(self) -> Any:
        return np.zeros(2 * len(self.rows), np.uint64)

    @property
    def needs_inputs(self) -> bool:
        """Whether generators are passed by callers."""
        return any(isinstance(source, int) for source, _ in self.rows)

    @property
    def is_default(self) -> bool:
        """Whether all is drawn from the default generator."""
        return all(source is None for source, _ in self.rows)

    def generator(self, source: Source, inputs: Sequence[Any]) -> Any:
        if isinstance(source, int):
            return inputs[source]
        return default_generator if source is None else source

    def take(self, inputs: Sequence[Any] = ()) -> Any:
        """The seeds of a call; generators move on."""
        numbers: list[int] = []
        for source, first, end in self.runs:
            generator, parts = self.generator(source, inputs), self.counts[first:end].tolist()
            # A class of the user's is asked as often as eagerly, and so are draws that run once more.
            if type(generator).advance is not Generator.advance or is_apart():
                for blocks in parts:
                    numbers += generator.advance(blocks)
                continue
            key, offset = generator.advance(sum(parts))
            for blocks in parts:
                numbers += (key, offset)
                offset += blocks
        return np.array(numbers, np.uint64)

    def drawn(self, seeds: Any, counts: Any = None) -> Stretches:
        """What a call has drawn from the default generator. `counts`: what these were in that call."""
        numbers = seeds.tolist()
        parts = zip(numbers[::2], numbers[1::2], (self.counts if counts is None else counts).tolist())
        return {default_generator: [(key, offset, offset + blocks) for key, offset, blocks in parts]}

    def give_back(self, seeds: Any, inputs: Sequence[Any] = ()) -> None:
        """Undoes a call's draws, where nobody has drawn since."""
        numbers = seeds.tolist()
        for source, first, end in reversed(self.runs):
            generator, parts = self.generator(source, inputs), self.counts[first:end].tolist()
            for number in reversed(range(first, end)):
                key, offset = numbers[2 * number : 2 * number + 2]
                generator.take_back(key, offset, parts[number - first])
