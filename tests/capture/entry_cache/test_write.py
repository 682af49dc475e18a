"""What is kept on disk of entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from weft.capture.entry_cache.write import Keep
from weft.native.entry.factory import Machine


@pytest.mark.parametrize("swapped", [False, True])
def test_entries_of_tensors_that_get_other_data_meanwhile_are_not_kept(
    swapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another thread may do it, between what is known of a call and of its inputs."""
    known, note = Machine.direct, Keep.note
    noted: list[Keep] = []
    x = weft.ones(8)

    def direct(machine: Machine, graph: Any, inputs: Any) -> Any:
        found = known(machine, graph, inputs)
        if swapped and noted:
            x.data = weft.ones(1000)
        return found

    def followed(keep: Keep, function: Any, inputs: Any) -> None:
        noted.append(keep)
        note(keep, function, inputs)
        ready.append(keep.ready is not None)

    ready: list[bool] = []
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Machine, "direct", direct)
    monkeypatch.setattr(Keep, "note", followed)
    weft.compiler.reset()
    compiled = weft.compile(lambda x: x * 2 + 1, backend="native")
    compiled(x)
    assert ready == [not swapped]
