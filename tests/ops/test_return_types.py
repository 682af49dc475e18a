"""Named results: fields, printing, building, pickling."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import weft
from weft.core.trees import tree_map
from weft.ops.return_types import result


def test_fields_and_printing() -> None:
    out = weft.from_numpy(np.array([1.0, 3.0])).max(0)
    assert isinstance(out, tuple)
    assert out[0] is out.values and out[1] is out.indices
    assert repr(type(out)) == "<class 'weft.return_types.max'>"
    assert repr(out).startswith("weft.return_types.max(\nvalues=tensor(3.")
    assert repr(out).endswith(",\nindices=tensor(1))")


def test_building() -> None:
    kind = result("max", "values", "indices")
    assert kind((1, 2)) == kind(1, 2) == (1, 2)
    assert kind is result("max", "values", "indices")
    with pytest.raises(TypeError, match="takes a 2-sequence"):
        kind((1, 2, 3))
    with pytest.raises(ValueError, match="has the fields"):
        result("max", "one")


def test_pickling_and_trees() -> None:
    pair = result("sort", "values", "indices")(1, 2)
    again = pickle.loads(pickle.dumps(pair))
    assert type(again) is type(pair) and again.indices == 2
    assert tree_map(lambda leaf: leaf + 1, pair).values == 2
