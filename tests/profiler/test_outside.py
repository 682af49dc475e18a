"""Traces for TensorBoard, and marks for tools that are not here."""

from __future__ import annotations

import gzip
import json

import pytest

import weft
from weft import profiler


@pytest.mark.parametrize("packed", [False, True])
def test_traces_are_written_where_tensorboard_looks(tmp_path, packed):
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "runs"), worker_name="me", use_gzip=packed)
    with profiler.profile(on_trace_ready=handler):
        weft.ones(3).exp()
    (written,) = (tmp_path / "runs").iterdir()
    assert written.name.startswith("me.") and written.name.endswith(".pt.trace.json" + ".gz" * packed)
    text = gzip.decompress(written.read_bytes()) if packed else written.read_bytes()
    assert "exp" in [event["name"] for event in json.loads(text)["traceEvents"]]


@pytest.mark.parametrize(("block", "tool"), [(profiler.emit_nvtx, "NVTX"), (profiler.emit_itt, "ITT")])
def test_marks_go_nowhere(block, tool):
    with block(enabled=False):
        pass
    with pytest.raises(RuntimeError, match=f"{tool} functions not installed"), block():
        pass
    assert not profiler.kineto_available()
