"""Generators: seeding, states, copies, threads, and the default generator's functions."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from weft.core import generator as random
from weft.core.device import device
from weft.core.generator import DEFAULT_SEED, OFFSET_LIMIT, Generator


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
