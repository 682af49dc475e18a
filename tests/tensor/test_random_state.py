"""Seeds and states as tensors."""

from __future__ import annotations

import pickle

import pytest

import weft


def test_states_are_byte_tensors_that_bring_a_stream_back() -> None:
    generator = weft.Generator().manual_seed(5)
    assert generator.initial_seed() == 5 and generator.device == weft.device("cpu")
    state = generator.get_state()
    assert isinstance(state, weft.Tensor) and state.dtype is weft.uint8
    first = weft.rand(4, generator=generator)
    assert weft.equal(weft.rand(4, generator=generator.set_state(state)), first)
    with pytest.raises(TypeError, match="expected a weft.ByteTensor, but got int"):
        generator.set_state(3)


def test_default_generator() -> None:
    assert weft.manual_seed(3) is weft.default_generator and isinstance(
        weft.default_generator, weft.Generator
    )
    assert weft.initial_seed() == 3
    state = weft.get_rng_state()
    first = weft.rand(3)
    weft.set_rng_state(state)
    assert weft.equal(weft.rand(3), first)
    with weft.random.fork_rng():
        weft.rand(3)
        inside = weft.get_rng_state()
    assert not weft.equal(weft.get_rng_state(), inside)


def test_clones_and_pickles_go_their_own_way() -> None:
    generator = weft.Generator().manual_seed(9)
    weft.rand(3, generator=generator)
    twins = [generator.clone_state(), pickle.loads(pickle.dumps(generator))]
    wanted = weft.rand(3, generator=generator)
    for twin in twins:
        assert type(twin) is weft.Generator and weft.equal(weft.rand(3, generator=twin), wanted)
