"""Generators: where a stream of random numbers stands. Takes seeds and states, gives (key, offset) pairs.

One idea: the numbers themselves are a pure function of (key, offset, element index), see `weft.ops.philox`.
So a generator is two integers: the key, which is the seed, and the offset, the first counter block that no
draw has used. Each draw takes its blocks with one `advance`; whoever holds the pair it returns can make the
same numbers again, eagerly or compiled, on any number of threads.

This layer knows no Tensor: a state is a NumPy uint8 array, which the tensor layer wraps.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from weft.core.arrays import Array
from weft.core.device import as_device, device
from weft.core.naming import naming
from weft.core.symbolic import Symbolic

DEFAULT_SEED: Final = 67280421310721  # PyTorch's seed of a Generator that nobody has seeded
OFFSET_LIMIT: Final = (
    2**63
)  # offsets fit a signed 64-bit integer, so that compiled programs can take them as one

_WORD: Final = 2**64
_STATE: Final = struct.Struct("<8sQQ")  # which algorithm and counter scheme, seed, offset
_SCHEME: Final = b"philox.1"


class Generator:
    """A stream of random numbers that can be seeded, saved and restored; safe to share between threads."""

    __slots__ = ("_device", "_seed", "_offset", "_lock", "__weakref__")

    def __init__(self, device: Any = "cpu") -> None:
        where = as_device(device)
        if where.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        self._device = where
        self._seed = DEFAULT_SEED
        self._offset = 0
        self._lock = threading.Lock()

    @property
    def device(self) -> device:
        """The device whose tensors this generator fills."""
        return self._device

    def advance(self, blocks: int) -> tuple[int, int]:
        """Take the next `blocks` counter blocks for one draw: (key, offset of the first of them).

        `advance(0)` looks without taking.
        """
        with self._lock:
            key, offset = self._seed, self._offset
            if isinstance(blocks, Symbolic):
                return key, offset  # a draw in types only
            after = offset + blocks
            if not offset <= after < OFFSET_LIMIT:
                raise RuntimeError(f"cannot advance a generator at offset {offset} by {blocks} blocks")
            self._offset = after
        return key, offset

    def take_back(self, key: int, offset: int, blocks: int) -> bool:
        """Undo the `advance` that gave this pair, if it was the last one; tells whether it was."""
        with self._lock:
            last = self._seed == key and self._offset == offset + blocks
            if last:
                self._offset = offset
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
        return self._seed

    def get_offset(self) -> int:
        """The first counter block that is still unused."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Go to a counter block of the present seed's stream."""
        if not 0 <= offset < OFFSET_LIMIT:
            raise RuntimeError(f"a generator's offset must lie in [0, 2**63), but got {offset}")
        with self._lock:
            self._offset = int(offset)

    def get_state(self) -> Array:
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
            self._seed, self._offset = seed, offset

    def __reduce__(self) -> Any:
        return Generator, (self._device,), self.advance(0)

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._restore(*state)

    def __repr__(self) -> str:
        key, offset = self.advance(0)
        return f"<{naming.namespace}.Generator device={self._device} seed={key} offset={offset}>"


default_generator: Final = Generator()
default_generator.seed()  # as in PyTorch, a program that sets no seed differs from run to run


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator and return it."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system's entropy, and return that seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Array:
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
