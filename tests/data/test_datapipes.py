"""Pipes: steps as methods of their own family, loaded by workers and pickled like any data set."""

from __future__ import annotations

import pickle

import pytest

from weft.data import DataChunk, DataLoader, DFIterDataPipe, IterDataPipe, MapDataPipe, functional_datapipe


@pytest.fixture(autouse=True)
def steps():
    before = dict(IterDataPipe.functions), dict(MapDataPipe.functions)
    yield
    for kind, known in zip((IterDataPipe, MapDataPipe), before):
        kind.functions.clear()
        kind.functions.update(known)


class Numbers(IterDataPipe):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        yield from range(self.count)


class Squares(MapDataPipe):
    def __getitem__(self, key):
        return key * key

    def __len__(self):
        return 4


def test_steps_are_methods_of_their_family():
    @functional_datapipe("multiplied")
    class Times(IterDataPipe):
        """Products."""

        def __init__(self, source, factor=2):
            self.source, self.factor = source, factor

        def __iter__(self):
            return (item * self.factor for item in self.source)

    assert list(Numbers(3).multiplied().multiplied(factor=5)) == [0, 10, 20]
    assert Numbers(3).multiplied.func.__doc__ == "Products."
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("multiplied")(Times)
    with pytest.raises(AttributeError, match="'Squares' object has no attribute 'multiplied"):
        Squares().multiplied
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("more")(list)
    IterDataPipe.register_function("counted", lambda source: len(list(source)))
    assert Numbers(3).counted() == 3 and isinstance(Times(Numbers(1)), IterDataPipe)


def test_pipes_are_data_sets():
    assert [batch.tolist() for batch in DataLoader(Numbers(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in DataLoader(Squares(), batch_size=2)] == [[0, 1], [4, 9]]
    again = pickle.loads(pickle.dumps(Numbers(3)))
    assert list(again) == [0, 1, 2] and str(again) == "Numbers"
    assert issubclass(DFIterDataPipe, IterDataPipe)


def test_chunks():
    chunk = DataChunk(iter([1, 2]))
    assert chunk == [1, 2] and list(chunk.raw_iterator()) == [1, 2] and chunk.as_str(" ") == " [1, 2]"
