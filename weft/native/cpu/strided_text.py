"""Elements that lie apart, as vectors: memory is read and written as it lies, and shuffled.

Takes vectors that lie one behind the other; gives those of the elements at each place modulo a distance, and
back. One idea: elements are dealt out by one prime factor of the distance after the other, so that each
shuffle takes two vectors, and a distance of 16 takes four rounds rather than sixteen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.native.cpu.writer import Writer

POISON = "poison"


def factor_of(distance: int) -> int:
    """Its least prime factor."""
    return next(n for n in range(2, distance + 1) if distance % n == 0)


class Shuffles:
    """Writes shuffles of vectors of a type."""

    def __init__(self, writer: Writer, element: str, lanes: int) -> None:
        self.out, self.lanes, self.vector = writer, lanes, f"<{lanes} x {element}>"

    def shuffled(self, a: str, b: str, places: Sequence[int | None]) -> str:
        """A vector of lanes of two, which are counted through; of lanes of None nothing is known."""
        lanes = ", ".join("i32 poison" if place is None else f"i32 {place}" for place in places)
        return self.out.let(
            f"shufflevector {self.vector} {a}, {self.vector} {b}, <{self.lanes} x i32> <{lanes}>"
        )

    def chosen(self, vectors: Sequence[str], places: Sequence[int]) -> str:
        """A vector of lanes of several, each of which gives one at least."""
        made, lanes = vectors[0], self.lanes
        known: list[int | None] = [place if place < lanes else None for place in places]
        for number in range(1, len(vectors)):
            taken = [
                lanes + place - number * lanes
                if number * lanes <= place < (number + 1) * lanes
                else (before if number == 1 else lane)
                if before is not None
                else None
                for lane, (place, before) in enumerate(zip(places, known))
            ]
            made = self.shuffled(made, vectors[number], taken)
            known = taken
        return made

    def apart(self, vectors: Sequence[str], distance: int) -> list[str]:
        """As many vectors as there are: one for each place modulo the distance."""
        if distance == 1:
            return [vectors[0]]
        factor, lanes = factor_of(distance), self.lanes
        found = [POISON] * distance
        for first in range(factor):
            stream = []
            for start in range(0, distance, factor):
                places = [lane * factor + first for lane in range(lanes)]
                stream.append(self.chosen(vectors[start : start + factor], places))
            for place, vector in enumerate(self.apart(stream, distance // factor)):
                found[first + factor * place] = vector
        return found

    def together(self, vectors: Sequence[str], distance: int) -> list[str]:
        """The reverse."""
        if distance == 1:
            return [vectors[0]]
        factor, lanes = factor_of(distance), self.lanes
        streams = [
            self.together([vectors[place] for place in range(first, distance, factor)], distance // factor)
            for first in range(factor)
        ]
        found = []
        for part in range(distance // factor):
            some = [stream[part] for stream in streams]
            for turn in range(factor):
                numbers = [turn * lanes + lane for lane in range(lanes)]
                places = [number % factor * lanes + number // factor for number in numbers]
                found.append(self.chosen(some, places))
        return found


def loaded(
    shuffles: Shuffles, distance: int, places: Sequence[int], load: Callable[[int], str]
) -> Mapping[int, str]:
    """Vectors of the elements at these places of each stretch of so many; `load` gives the vector that begins
    so many elements behind the first one, and nothing behind the last element that is asked for is read.
    """
    lanes = shuffles.lanes
    needed = (lanes - 1) * distance + max(places) + 1
    vectors = []
    for number in range(distance):
        start, end = number * lanes, (number + 1) * lanes
        if start >= needed:
            vectors.append(POISON)
        elif end <= needed:
            vectors.append(load(start))
        else:
            moved: list[int | None] = [lane + end - needed for lane in range(needed - start)]
            moved += [None] * (lanes - len(moved))
            vectors.append(shuffles.shuffled(load(needed - lanes), POISON, moved))
    found = shuffles.apart(vectors, distance)
    return {place: found[place] for place in places}
