"""Generators: seeding, states, copies, threads, and the default generator's functions."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from weft.core import generator as random
from weft.core.device import device
from weft.core.generator import DEFAULT_SEED, OFFSET_LIMIT, Generator


@contextmanager
def held_elsewhere(lock: Any) -> Iterator[None]:
    """Another thread has the lock."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture(autouse=True)
def keep_default_generator():
    state = random.get_rng_state()
    yield
    random.set_rng_state(state)


def test_new_generator_stands_at_the_default_seed() -> None:
    generator = Generator()
    assert generator.initial_seed() == DEFAULT_SEED == 67280421310721
    assert generator.get_offset() == 0
    assert generator.device == device("cpu")
    assert Generator(device="cpu").device == Generator(device("cpu")).device


def test_devices() -> None:
    assert Generator("cuda:1").device == device("cuda", 1)
    with pytest.raises(RuntimeError, match="META device type not an accelerator"):
        Generator("meta")
    with pytest.raises(RuntimeError, match="at start of device string: nowhere"):
        Generator("nowhere")


@pytest.mark.parametrize(
    ("seed", "stored"),
    [(0, 0), (5, 5), (-1, 2**64 - 1), (-(2**63), 2**63), (2**64 - 1, 2**64 - 1), (np.int32(-2), 2**64 - 2)],
)
def test_manual_seed_wraps_and_rewinds(seed: int, stored: int) -> None:
    generator = Generator()
    generator.advance(3)
    assert generator.manual_seed(seed) is generator
    assert generator.initial_seed() == stored
    assert type(generator.initial_seed()) is int
    assert generator.advance(0) == (stored, 0)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_manual_seed_out_of_range(seed: int) -> None:
    generator = Generator()
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        generator.manual_seed(seed)
    assert generator.initial_seed() == DEFAULT_SEED


@pytest.mark.parametrize(("seed", "name"), [(1.5, "float"), (True, "bool"), ("1", "str"), (None, "NoneType")])
def test_manual_seed_of_another_type(seed: object, name: str) -> None:
    with pytest.raises(RuntimeError, match=f"manual_seed expected a long, but got {name}"):
        Generator().manual_seed(seed)  # type: ignore[arg-type]


def test_seed_takes_entropy() -> None:
    generator = Generator()
    generator.advance(2)
    seeds = {generator.seed() for _ in range(8)}
    assert len(seeds) == 8
    assert generator.initial_seed() in seeds
    assert generator.get_offset() == 0


def test_advance_hands_out_adjacent_blocks() -> None:
    generator = Generator().manual_seed(9)
    assert [generator.advance(blocks) for blocks in (3, 0, 4, 1)] == [(9, 0), (9, 3), (9, 3), (9, 7)]
    assert generator.get_offset() == 8


def test_offset() -> None:
    generator = Generator()
    generator.set_offset(OFFSET_LIMIT - 1)
    assert generator.advance(0)[1] == generator.get_offset() == OFFSET_LIMIT - 1
    with pytest.raises(RuntimeError, match="cannot advance"):
        generator.advance(1)
    with pytest.raises(RuntimeError, match="cannot advance"):
        generator.advance(-1)
    for offset in (-1, OFFSET_LIMIT):
        with pytest.raises(RuntimeError, match=r"must lie in \[0, 2\*\*63\)"):
            generator.set_offset(offset)
    assert generator.get_offset() == OFFSET_LIMIT - 1


def test_state_round_trip() -> None:
    generator = Generator().manual_seed(2**64 - 3)
    generator.advance(17)
    state = generator.get_state()
    assert state.dtype == np.uint8 and state.ndim == 1 and state.flags.writeable
    taken = generator.advance(5)
    other = Generator()
    assert other.set_state(state) is other
    assert other.advance(5) == taken
    state[:] = 0  # a copy: the generator does not notice
    assert generator.get_offset() == 22


def test_states_that_are_none() -> None:
    generator = Generator()
    for wrong in ([1], np.zeros(24, np.float32), None):
        with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
            generator.set_state(wrong)
    with pytest.raises(RuntimeError, match="of size 24 but found the input RNG state size to be 3"):
        generator.set_state(np.zeros(3, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid Philox state"):
        generator.set_state(np.zeros(24, np.uint8))
    assert generator.advance(0) == (DEFAULT_SEED, 0)


@pytest.mark.parametrize(
    "duplicate",
    [
        Generator.clone_state,
        copy.copy,
        copy.deepcopy,
        *(lambda g, p=p: pickle.loads(pickle.dumps(g, p)) for p in (2, 5)),
    ],
)
def test_copies_go_their_own_way(duplicate) -> None:
    generator = Generator("cuda:0").manual_seed(4)
    generator.advance(6)
    other = duplicate(generator)
    assert other is not generator and other.device == generator.device
    assert other.advance(2) == (4, 6)
    assert generator.get_offset() == 6


def test_repr_names_where_it_stands() -> None:
    assert repr(Generator().manual_seed(3)) == "<weft.Generator device=cpu seed=3 offset=0>"


def test_threads_never_share_a_block() -> None:
    generator = Generator().manual_seed(0)
    taken: list[list[int]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def work(mine: list[int]) -> None:
        start.wait()
        mine.extend(generator.advance(3)[1] for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(taken, [])) == list(range(0, 3 * 4 * 2000, 3))


def test_default_generator_functions() -> None:
    assert random.manual_seed(-5) is random.default_generator
    assert random.initial_seed() == 2**64 - 5
    assert random.manual_seed(3.7).initial_seed() == 3  # PyTorch's function, unlike the method, converts
    random.default_generator.advance(4)
    state = random.get_rng_state()
    assert random.seed() == random.initial_seed()
    random.set_rng_state(state)
    assert random.default_generator.advance(0) == (3, 4)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        random.manual_seed(2**64)


def test_fork_rng_restores_also_after_an_error() -> None:
    random.manual_seed(11)
    random.default_generator.advance(2)
    with random.fork_rng():
        random.manual_seed(12)
    assert random.default_generator.advance(0) == (11, 2)
    with pytest.raises(KeyError), random.fork_rng(devices=[], device_type="cuda"):
        random.default_generator.advance(9)
        raise KeyError
    assert random.default_generator.advance(0) == (11, 2)
    with random.fork_rng(enabled=False):
        random.default_generator.advance(1)
    assert random.default_generator.advance(0) == (11, 3)


def test_fork_rng_as_a_decorator() -> None:
    @random.fork_rng()
    def draw() -> tuple[int, int]:
        return random.default_generator.advance(1)

    random.manual_seed(1)
    assert draw() == draw() == (1, 0)


def test_draws_apart_leave_the_generator_where_it_is() -> None:
    generator = Generator().manual_seed(3)
    generator.advance(5)
    with random.apart():
        assert generator.advance(2) == (3, 5) and generator.advance(2) == (3, 7)
        generator.manual_seed(8)
        assert generator.advance(1) == (8, 0)
        with random.apart():
            assert generator.advance(4) == (8, 1)
        assert generator.get_offset() == 1
    assert generator.initial_seed() == 3 and generator.get_offset() == 5


def test_a_thread_that_draws_apart_takes_nothing_back_of_another() -> None:
    """Where a generator is put back behind draws that leave no trace, another thread's are drawn twice."""
    generator, taken = Generator(), []

    def draw() -> None:
        taken.append(generator.advance(1)[1])

    for block in range(20):
        with random.apart():
            generator.advance(3)
            thread = threading.Thread(target=draw)
            thread.start()
            thread.join()
        assert taken[-1] == block


def test_what_is_noted_is_drawn_once_more() -> None:
    """Though others have drawn in between, and the generator has another seed since."""
    generator = Generator().manual_seed(3)
    with random.noted() as drawn:
        first = [generator.advance(2)]
        thread = threading.Thread(target=generator.advance, args=(7,))
        thread.start()
        thread.join()
        first += [generator.advance(1), generator.advance(4)]
        generator.advance(5)
        assert generator.take_back(3, 14, 5)
    assert first == [(3, 0), (3, 9), (3, 10)]
    generator.manual_seed(4)
    with random.apart(drawn), random.noted() as again:
        assert [generator.advance(blocks) for blocks in (2, 1, 4)] == first
        with pytest.raises(RuntimeError, match="draws more random numbers"):
            generator.advance(1)
    assert again == drawn
    assert generator.advance(0) == (4, 0)


def test_failed_draws_go_back_where_nobody_else_has_drawn() -> None:
    generator = Generator()
    before = generator.get_offset()
    generator.advance(3), generator.advance(4)
    generator.go_back(before)
    assert generator.get_offset() == 0
    generator.advance(3)
    thread = threading.Thread(target=generator.advance, args=(7,))
    thread.start()
    thread.join()
    generator.advance(2)
    generator.go_back(before)
    assert generator.get_offset() == 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_leaves_generators_free() -> None:
    generator = Generator()
    with held_elsewhere(generator._lock):
        child = os.fork()
        if not child:
            signal.alarm(10)
            os._exit(generator.advance(1)[1])
        assert os.waitpid(child, 0)[1] == 0


def test_a_handler_of_signals_draws() -> None:
    """At any point of another draw: nothing is drawn twice, and nobody waits for himself."""
    generator, taken = Generator(), []

    def profile(frame: Any, _event: str, _value: Any) -> None:
        if frame.f_code is Generator.advance.__code__:
            sys.setprofile(None)
            taken.append(generator.advance(2)[1])
            sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        taken.append(generator.advance(3)[1])
    finally:
        sys.setprofile(None)
    assert len(taken) > 3 and len(set(taken)) == len(taken)
