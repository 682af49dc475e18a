"""Averages, tables and traces of events."""

from __future__ import annotations

import json

import pytest

from weft.profiler.events import Event, EventList, nest


@pytest.fixture
def events():
    made = EventList(
        [
            Event("outer", "user", 0.0, 100.0, 1),
            Event("add", "op", 10.0, 20.0, 1, ((2, 3),)),
            Event("add", "op", 40.0, 30.0, 1, ((4,),)),
            Event("inner", "kernel", 45.0, 5.0, 1),
            Event("add", "op", 50.0, 1000.0, 2, ((2, 3),)),
        ]
    )
    nest(made)
    return made


def test_events_nest_within_their_thread(events):
    assert [event.self_cpu_time_total for event in events] == [50.0, 20.0, 25.0, 5.0, 1000.0]


def test_averages(events):
    averages = {each.key: each for each in events.key_averages()}
    assert averages["add"].count == 3 and averages["add"].cpu_time_total == 1050.0
    assert averages["add"].cpu_time == 350.0 and averages["add"].self_cpu_time_total == 1045.0
    by_shape = events.key_averages(group_by_input_shape=True)
    assert [(each.key, each.count, each.input_shapes) for each in by_shape] == [
        ("outer", 1, []), ("add", 2, [(2, 3)]), ("add", 1, [(4,)]), ("inner", 1, []),
    ]  # fmt: skip
    assert events.total_average().count == 5


def test_tables(events):
    text = events.table(sort_by="cpu_time_total", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split()[:2] == ["Name", "Kind"] and lines[1].endswith("CPU time avg  # of Calls")
    assert lines[3].startswith("add") and "1.050ms" in lines[3] and lines[4].startswith("outer")
    assert len(lines) == 7 and lines[-1] == "Self CPU time total: 1.100ms"
    assert "Input Shapes" in events.key_averages(group_by_input_shape=True).table()
    assert EventList().table().endswith("Self CPU time total: 0.000us")
    with pytest.raises(ValueError, match="cannot sort by 'name'"):
        events.table(sort_by="name")


def test_traces(events, tmp_path):
    events.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [each["name"] for each in trace] == [event.name for event in events]
    assert all(each["ph"] == "X" and each["dur"] > 0 for each in trace)


def test_kernels_and_eager_ops_of_one_name_are_two_things() -> None:
    events = EventList(
        [Event(*each) for each in (("sum", "op", 0.0, 3.0, 1), ("sum", "kernel", 5.0, 1.0, 1))]
    )
    assert [(each.key, each.kind, each.count) for each in events.key_averages()] == [
        ("sum", "op", 1),
        ("sum", "kernel", 1),
    ]
