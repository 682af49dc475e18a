"""Generators: where a stream of random numbers stands. Takes seeds and states, gives (key, offset) pairs.

One idea: the numbers themselves are a pure function of (key, offset, element index), see `weft.ops.philox`.
So a generator is two integers: the key, which is the seed, and the offset, the first counter block that no
draw has used. Each draw takes its blocks with one `advance`; whoever holds the pair it returns can make the
same numbers again, eagerly or compiled, on any number of threads.

This layer knows no Tensor: a state is a NumPy uint8 array, which the tensor layer wraps.

# Note [Draws apart]
Some draws must leave no trace: those of a call that runs in types only, and those that run once more as they
ran. Putting the generator back behind them would hand out again what other threads have drawn meanwhile. So
they take from places of their own, which are known in their context alone (`apart`), and the generator itself
stays where it is. What has to be drawn again is noted when it is drawn (`noted`): draws of other threads may
stand between two of ours. What has failed is undone where nobody else has drawn since (`go_back`).
"""

from __future__ import annotations

import os
import struct
from _thread import get_ident
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, SupportsInt

import numpy as np

from weft.core.arrays import Array, HostArray
from weft.core.contexts import Block, set_to
from weft.core.device import as_device, device
from weft.core.naming import naming
from weft.core.once import lock
from weft.core.symbolic import Symbolic

DEFAULT_SEED: Final = 67280421310721  # PyTorch's seed of a Generator that nobody has seeded
OFFSET_LIMIT: Final = (
    2**63
)  # offsets fit a signed 64-bit integer, so that compiled programs can take them as one

_WORD: Final = 2**64
_STATE: Final = struct.Struct("<8sQQ")  # which algorithm and counter scheme, seed, offset
_SCHEME: Final = b"philox.1"


class StreamPosition:
    """Where a stream stands. One that draws once more goes through the stretches that were drawn."""

    __slots__ = ("seed", "offset", "left")

    def __init__(self, seed: int, offset: int, left: list[Stretch] | None = None) -> None:
        self.seed, self.offset, self.left = seed, offset, left

    def go_on(self, blocks: int) -> None:
        """Goes to the next stretch, where a draw needs more than is left of this one."""
        while self.left and self.offset + blocks > self.left[0][2]:
            del self.left[0]
            if not self.left:
                raise RuntimeError("the recomputation draws more random numbers than the first run")
            self.seed, self.offset, _ = self.left[0]


Stretch = tuple[int, int, int]
"""Seed, first block, and the one behind the last."""
Drawn = dict["Generator", list[Stretch]]


class Generator:
    """A stream of random numbers that can be seeded, saved and restored; safe to share between threads."""

    __slots__ = ("_device", "_place", "_thread", "_since", "_lock", "__weakref__")

    def __init__(self, device: device | str = "cpu") -> None:
        where = as_device(device)
        if where.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        self._device = where
        self._place = StreamPosition(DEFAULT_SEED, 0)
        self._thread = self._since = 0  # who has drawn last, and all from where on
        self._lock = lock()

    @property
    def device(self) -> device:
        """The device whose tensors this generator fills."""
        return self._device

    def advance(self, blocks: int) -> tuple[int, int]:
        """Take the next `blocks` counter blocks for one draw: (key, offset of the first of them).

        `advance(0)` looks without taking.
        """
        with self._lock:
            place, thread, notes = self._here(), get_ident(), _notes.get()
            if isinstance(blocks, Symbolic):
                return place.seed, place.offset  # a draw in types only
            if place.left is not None:
                place.go_on(blocks)
            # No call from here to the store: a handler of signals, which runs behind calls, may draw as well.
            key, offset = place.seed, place.offset
            after = offset + blocks
            if not offset <= after < OFFSET_LIMIT:
                raise RuntimeError(f"cannot advance a generator at offset {offset} by {blocks} blocks")
            place.offset = after
            if self._thread != thread and blocks and place is self._place:
                self._thread, self._since = thread, offset
        for drawn in notes if blocks else ():
            drawn.setdefault(self, []).append((key, offset, after))
        return key, offset

    def _here(self) -> StreamPosition:
        """Where draws of this context are taken; see Note [Draws apart]."""
        places = _places.get()
        if places is None:
            return self._place
        found = places.get(self)
        if found is None:
            found = places[self] = StreamPosition(self._place.seed, self._place.offset)
        return found

    def go_back(self, offset: int) -> None:
        """Undo the draws since an offset, if they were this thread's."""
        with self._lock:
            place = self._here()
            alone = self._thread == get_ident() and self._since <= offset
            if place is not self._place or (alone and offset <= place.offset):
                place.offset = offset
                self._forget(offset)

    def _forget(self, offset: int) -> None:
        """Notes nothing of what was undone."""
        for drawn in _notes.get():
            stretches = drawn.get(self, [])
            while stretches and stretches[-1][2] > offset:
                seed, first, _ = stretches.pop()
                if first < offset:
                    stretches.append((seed, first, offset))

    def take_back(self, key: int, offset: int, blocks: int) -> bool:
        """Undo the `advance` that gave this pair, if it was the last one; tells whether it was."""
        with self._lock:
            place = self._here()
            last = place.seed == key and place.offset == offset + blocks
            if last:
                place.offset = offset
                self._forget(offset)
        return last

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of this seed from its beginning; negative seeds wrap round to the upper half."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -_WORD // 2 <= seed < _WORD:
            raise ValueError("Overflow when unpacking long long")
        self._restore(int(seed) % _WORD, 0)
        return self

    def seed(self) -> int:
        """Seed from the operating system's entropy, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._restore(seed, 0)
        return seed

    def initial_seed(self) -> int:
        """The seed that the stream was last started from."""
        return self._here().seed

    def get_offset(self) -> int:
        """The first counter block that is still unused."""
        return self._here().offset

    def set_offset(self, offset: int) -> None:
        """Go to a counter block of the present seed's stream."""
        if not 0 <= offset < OFFSET_LIMIT:
            raise RuntimeError(f"a generator's offset must lie in [0, 2**63), but got {offset}")
        with self._lock:
            self._here().offset = int(offset)
            self._thread = 0

    def get_state(self) -> HostArray:
        """Seed and offset as an array of bytes, for `set_state`."""
        key, offset = self.advance(0)
        return np.frombuffer(_STATE.pack(_SCHEME, key, offset), np.uint8).copy()

    def set_state(self, new_state: Array) -> Generator:
        """Go to where the generator that gave this state stood."""
        if not isinstance(new_state, np.ndarray) or new_state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.size != _STATE.size:
            raise RuntimeError(
                f"Expected a generator state of size {_STATE.size} but found the input RNG state size to be "
                f"{new_state.size}"
            )
        scheme, seed, offset = _STATE.unpack(new_state.tobytes())
        if scheme != _SCHEME or offset >= OFFSET_LIMIT:
            raise RuntimeError("Invalid Philox state: these bytes do not come from a generator's get_state()")
        self._restore(seed, offset)
        return self

    def clone_state(self) -> Generator:
        """A new generator that stands where this one does, and goes its own way from here."""
        return Generator(self._device).set_state(self.get_state())

    def _restore(self, seed: int, offset: int) -> None:
        with self._lock:
            place = self._here()
            place.seed, place.offset = seed, offset
            self._thread = 0

    def __reduce__(self) -> Any:
        return Generator, (self._device,), self.advance(0)

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._restore(*state)

    def __repr__(self) -> str:
        key, offset = self.advance(0)
        return f"<{naming.namespace}.Generator device={self._device} seed={key} offset={offset}>"


_places: Final[ContextVar[dict[Generator, StreamPosition] | None]] = ContextVar("weft_places", default=None)
_notes: Final[ContextVar[tuple[Drawn, ...]]] = ContextVar("weft_drawn", default=())
"""What blocks note that this context is in, one in another."""


def apart(drawn: Drawn | None = None) -> Block:
    """Meanwhile, draws leave generators as they are: they give once more what was drawn, or begin where the
    generators stand. See Note [Draws apart].
    """
    places = dict(_places.get() or {})
    for generator in places:
        known = places[generator]
        places[generator] = StreamPosition(known.seed, known.offset, known.left and list(known.left))
    for generator, stretches in (drawn or {}).items():
        if stretches:
            places[generator] = StreamPosition(*stretches[0][:2], list(stretches))
    return set_to((_places, places), (_notes, ()))


def is_apart() -> bool:
    """Whether draws are taken from places of their own."""
    return _places.get() is not None


def noted() -> Block:
    """What is drawn meanwhile, in this context."""
    drawn: Drawn = {}
    return set_to((_notes, (*_notes.get(), drawn)), given=drawn)


default_generator: Final = Generator()
default_generator.seed()  # as in PyTorch, a program that sets no seed differs from run to run


def manual_seed(seed: SupportsInt) -> Generator:
    """Seed the default generator and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system's entropy, and return that seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> HostArray:
    """The default generator's state."""
    return Generator.get_state(default_generator)


def set_rng_state(new_state: Array) -> None:
    """Go back to a state of the default generator."""
    Generator.set_state(default_generator, new_state)


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str | None = None
) -> Iterator[None]:
    """Run a block whose draws leave no trace: at its end the default generator goes back to where it stood.

    In PyTorch `devices` and `device_type` name further generators; here one default generator serves all.
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
