"""Random state with tensors: generators whose states are byte tensors, and the default generator's functions.

Takes and gives what `weft.core.generator` does, states wrapped as tensors.
"""

from __future__ import annotations

from typing import Any

from weft.core import generator as core
from weft.core.naming import named
from weft.tensor.base import PUBLIC, Tensor, public, wrap


class Generator(core.Generator):
    """A stream of random numbers that can be seeded, saved and restored."""

    __slots__ = ()
    __module__ = "weft"

    def get_state(self) -> Tensor:  # type: ignore[override]
        """Seed and offset as a tensor of bytes, for `set_state`."""
        return wrap(core.Generator.get_state(self))

    def set_state(self, new_state: object) -> Generator:
        """Goes to where the generator that gave this state stood."""
        core.Generator.set_state(self, state_array(new_state))
        return self

    def clone_state(self) -> Generator:
        """A new generator that stands where this one does, and goes its own way from here."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> Any:
        return Generator, (self.device,), self.advance(0)


def state_array(state: object) -> Any:
    if not isinstance(state, Tensor):
        raise TypeError(named(f"expected a weft.ByteTensor, but got {type(state).__name__}"))
    return state.array


default_generator = core.default_generator
default_generator.__class__ = Generator
PUBLIC.update(
    Generator=Generator, default_generator=default_generator, manual_seed=core.manual_seed, seed=core.seed,
    initial_seed=core.initial_seed,
)  # fmt: skip


@public
def get_rng_state() -> Tensor:
    """The default generator's state."""
    return wrap(core.get_rng_state())


@public
def set_rng_state(new_state: Tensor) -> None:
    """Goes back to a state of the default generator."""
    core.set_rng_state(state_array(new_state))
