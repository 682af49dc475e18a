"""What a profile sees, and that it leaves nothing behind."""

from __future__ import annotations

import sys
import threading

import pytest

import weft
from weft.core.logs import observers
from weft.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def names_of(seen, kind=None):
    return [event.name for event in seen.events() if kind in (None, event.kind)]


def test_eager_ops_and_their_backward():
    x = weft.ones(3, requires_grad=True)
    with profile() as seen:
        (x * 2).relu().sum().backward()
    assert [name for name in names_of(seen, "op") if name in ("mul", "relu", "sum")] == ["mul", "relu", "sum"]
    assert names_of(seen, "backward") == ["backward of sum", "backward of relu", "backward of mul"]


def test_nothing_is_left_behind():
    before = list(observers)
    with pytest.raises(ValueError), profile():
        assert sys.getprofile() is not None
        raise ValueError
    assert sys.getprofile() is None and observers == before
    seen = profile()
    with seen:
        weft.ones(1) + 1
    count = len(seen.events())
    weft.ones(1) + 1
    assert len(seen.events()) == count > 0


def test_shapes_and_lines():
    with profile(record_shapes=True, with_stack=True) as seen:
        weft.ones(2, 3) @ weft.ones(3, 4)
    (event,) = [event for event in seen.events() if event.name == "matmul"]
    assert event.input_shapes == [(2, 3), (3, 4)]
    assert event.place.startswith(__file__ + ":")


def polynomial(x):
    return (x * x + 1).sum()


def test_compiled_code_shows_its_kernels():
    compiled = weft.compile(polynomial, backend="native")
    x = weft.randn(1000)
    expected = compiled(x)
    with profile() as seen:
        results = [compiled(x) for _ in range(3)]
    assert all(weft.equal(result, expected) for result in results)
    kernels = [event for event in seen.events() if event.kind == "kernel"]
    assert [event.name for event in kernels] == ["mul add sum"] * 3
    assert all(event.place == f"{__file__}:{polynomial.__code__.co_firstlineno + 1}" for event in kernels)
    assert names_of(seen, "compile").count("compile polynomial") == 1
    assert names_of(seen, "compiled") == ["polynomial"] * 3
    assert not names_of(seen, "op")  # what capture does to fakes is not shown
    assert weft.equal(compiled(x), expected)


def test_compiled_code_as_it_is():
    compiled = weft.compile(polynomial, backend="native")
    x = weft.randn(10)
    compiled(x)
    with profile(kernels=False) as seen:
        compiled(x)
    assert not names_of(seen, "compile") and not names_of(seen, "kernel")


def test_blocks_of_ones_own():
    with profile() as seen:
        with record_function("outer"), record_function("inner"):
            weft.ones(2) + 1

        @record_function("function")
        def function(x):
            return x * 2

        assert function(3) == 6
    assert set(names_of(seen, "user")) == {"outer", "inner", "function"}
    outer, inner = ([e for e in seen.events() if e.name == name][0] for name in ("outer", "inner"))
    assert outer.start <= inner.start and outer.duration >= inner.duration
    assert 0 <= outer.self_cpu_time_total <= outer.duration - inner.duration + 1e-6
    with record_function("alone"):
        pass


def test_other_threads_are_seen():
    with profile() as seen:
        thread = threading.Thread(target=lambda: weft.ones(2) + 1)
        thread.start()
        thread.join()
    assert "add" in names_of(seen, "op")
    assert len({event.thread for event in seen.events()}) == 1


def test_schedules():
    traces = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda seen: traces.append(names_of(seen, "user")),
    ) as seen:
        for step in range(6):
            with record_function(f"step {step}"):
                pass
            seen.step()
    assert traces == [["step 2", "step 3"]]
    assert seen.step_num == 6


def test_schedule_of_nothing():
    with pytest.raises(ValueError, match="active > 0"):
        schedule(wait=1, warmup=1, active=0)
    plan = schedule(wait=0, warmup=0, active=1, skip_first=2)
    assert [plan(step) for step in range(3)] == [ProfilerAction.NONE] * 2 + [ProfilerAction.RECORD_AND_SAVE]


def test_only_this_machine():
    with pytest.raises(ValueError, match="CPU"):
        profile(activities=[ProfilerActivity.CUDA])
