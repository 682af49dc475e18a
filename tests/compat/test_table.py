"""Every entry of the table can be imported, and holds what it says."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from weft.compat.finder import fetch, gathered, place_of
from weft.compat.table import EXTRA, MODULES, TORCH_INTERNALS
from weft.compat.torch_internals import table as of_tests

LATER = ("weft.jit", "weft.profiler")
"""What other layers bring."""


@pytest.mark.parametrize("path", [*MODULES, *of_tests.MODULES])
def test_entry(path: str) -> None:
    place = MODULES.get(path) or of_tests.MODULES[path]
    if place.same.startswith(LATER) and importlib.util.find_spec(place.same.partition(":")[0]) is None:
        pytest.skip("not there yet")
    if place.same:
        assert fetch(place.same) is not None
    else:
        made = gathered(path, place)
        assert made.__name__ == path
        late = {name for name, where in place.names.items() if where.startswith(TORCH_INTERNALS)}
        assert set(place.names) - late <= set(vars(made))
        assert all(fetch(place.names[name]) is not None for name in late)
    parent = path.rpartition(".")[0]
    assert parent in ("", "torch") or place_of(parent) is not None


@pytest.mark.parametrize("path", EXTRA)
def test_extra_names(path: str) -> None:
    for where in EXTRA[path].values():
        assert fetch(where) is not None


def test_a_path_by_the_rule() -> None:
    place = place_of("torch.nn.modules.linear")
    assert place is not None and place.same == "weft.nn.modules.linear"
    assert place_of("torch.nn.modules.linaer") is None
    assert place_of("torch.capture.machine") is None
    assert importlib.import_module("weft").__name__ == "weft"
