"""Entries as text: what stands in them, in which order, and what they do."""

from __future__ import annotations

import dis
import gc
import itertools
import weakref

import pytest

import weft
from tests.capture.segments import Segment, stops_everywhere
from weft.capture.reading import MISS
from weft.core.settings import settings
from weft.trace.breaks import Break


class Thing:
    pass


def part(function, *args):
    return Segment(function, *args).part.splitlines()


def test_the_plain_path_is_short():
    def f(x, y):
        return (x + y) * 2

    segment = Segment(f, weft.ones(2), weft.ones(2))
    lines = segment.part.splitlines()
    assert len(lines) == 7 and lines[:2] == ["# graph", "try:"]
    name = lines[2].split("]")[0].removeprefix("    [")
    assert lines[2:4] == [f"    [{name}] = _v_graph(x, y)", f"    return {name}"]
    assert lines[6] == "return _v_deoptimise(_v_function, x, y)"
    code = dis.Bytecode(segment.entry)
    ops = [each.opname for each in code if each.opname not in ("CACHE", "NOP", "PRECALL", "PUSH_NULL")]
    names = [each.argval for each in code if each.opname not in ("CACHE", "NOP", "PRECALL", "PUSH_NULL")]
    start = names.index("_v_graph")
    end = ops.index("RETURN_VALUE", start)
    assert end - start <= 7, ops[start : end + 1]


def test_objects_stores_and_a_break():
    def f(x, out, log):
        y = x + 1
        out.result = [y, y]
        log.append("done")
        print("now")
        return y * 2

    out, log = Thing(), []
    segment = Segment(f, weft.ones(2), out, log)
    text = segment.part
    order = [
        text.index(word)
        for word in ("# graph", "_v_graph(", "# objects", "except", "# stores", "# break: CALL 1")
    ]
    assert order == sorted(order)
    assert segment().tolist() == [4.0, 4.0] and log == ["done"] and out.result[0] is out.result[1]
    assert text.splitlines()[-1] == "return _v_deoptimise(_v_function, x, out, log)"


def test_no_graph_no_call():
    def f(x, out):
        out.shape = x.shape
        print("now")
        return out.shape

    segment = Segment(f, weft.ones(2, 3), Thing())
    assert "_v_graph" not in segment.text and segment() == (2, 3)


def test_guards_decide():
    def f(x, k):
        return x * k

    segment = Segment(f, weft.ones(2), 3)
    assert segment(weft.ones(2), 4) is MISS and segment(weft.ones(3), 3) is MISS and segment(None, 3) is MISS
    assert segment(weft.ones(2) * 2, 3).tolist() == [6.0, 6.0]


def test_outputs_that_are_inputs_are_the_same_object():
    def f(x, items):
        items.append(x)
        return x, items, x + 1

    x, items = weft.ones(2), [1]
    a, b, _ = Segment(f, x, items)()
    assert a is x and b is items and items[1] is x


def test_written_in_place_it_stays_the_same_object():
    def f(x):
        y = x.add_(1)
        return y

    x = weft.zeros(2)
    assert Segment(f, x)() is x and x.tolist() == [1.0, 1.0]


def test_a_graph_that_fails_runs_the_original():
    def f(x, index, log):
        log.append("once")
        return x.gather(0, index)

    log = []
    segment = Segment(f, weft.arange(3.0), weft.tensor([0]), log)
    assert segment().tolist() == [0.0] and log == ["once"]
    with pytest.raises((IndexError, RuntimeError)) as caught:
        segment(weft.arange(3.0), weft.tensor([9]), log)
    assert log == ["once", "once"] and caught.value.__context__ is None
    assert f.__code__ in [entry.frame.code.raw for entry in caught.traceback]


def test_star_arguments_and_odd_names():
    def f(x, /, *args, k=1, **more):
        print("breaks")
        return x * k, args, more

    segment = Segment(f, weft.ones(1), 2, (3, 4), {"a": 5})
    assert segment.emitted.parameters == ("x", "k", "args", "more")
    result = segment()
    assert result[0].tolist() == [2.0] and result[1:] == ((3, 4), {"a": 5})


def test_dead_locals_stay_behind():
    def f(x, items):
        left = iter(items)
        window = itertools.pairwise(left)  # cannot be rebuilt, and need not be
        next(window)
        del items
        y = x + 1
        print("breaks")
        return y

    segment = Segment(f, weft.ones(1), [1, 2, 3])
    assert segment().tolist() == [2.0]
    (point,) = segment.runtime.points
    assert [parameter.name for parameter in point.parameters if parameter.kind == "local"] == ["y"]


def test_cells_are_shared_after_a_break():
    def f(x):
        count = 0

        def up():
            nonlocal count
            count += 1

        up()
        print("breaks")
        up()
        return x + count, up, lambda: count

    total, up, read = Segment(f, weft.zeros(1))()
    assert total.tolist() == [2.0]
    up()
    assert read() == 3


def test_super_after_a_break():
    class Parent:
        def go(self, x):
            return x + 1

    class Child(Parent):
        def go(self, x):
            print("breaks")
            return super().go(x), __class__

    result, cls = Segment(Child.go, Child(), weft.ones(1))()
    assert result.tolist() == [2.0] and cls is Child


def test_a_class_made_after_a_break():
    def f(x):
        class Local:
            value = x.shape

            def get(self):
                return x + 1

        return Local().get(), Local.value

    result, shape = Segment(f, weft.ones(1))()
    assert result.tolist() == [2.0] and shape == (1,)


def test_exceptions_that_captured_code_raised_escape_natively():
    def f(x, log):
        y = x + 1
        try:
            raise ValueError("a", y.shape)
        except ValueError as error:
            log.append(error)
        return y

    log = []
    segment = Segment(f, weft.ones(2), log)
    assert segment().tolist() == [2.0, 2.0]
    (error,) = log
    assert error.args == ("a", (2,)) and error.__traceback__.tb_frame.f_code.co_name == "f"
    assert error.__traceback__.tb_lineno == f.__code__.co_firstlineno + 3


def test_an_entry_keeps_nothing_alive():
    def f(x, thing):
        thing.items.append(thing)
        y = x + 1
        print("breaks")
        return y

    x, thing = weft.ones(2), Thing()
    thing.items = []
    segment = Segment(f, x, thing)
    entry = segment.entry
    seen = [weakref.ref(x), weakref.ref(thing)]
    entry(f, x, thing)
    thing.items.clear()
    del segment, x, thing
    gc.collect()
    assert [ref() for ref in seen] == [None, None] and entry is not None


def test_what_looks_at_its_frame_runs_in_the_users_own():
    def f(x):
        a = 1
        found = locals()
        return sorted(found), a

    for step in range(4, 9):
        segment = Segment(f, weft.ones(1), stop_at=step)
        assert segment() == (["a", "x"], 1), segment.text


def test_strict_refuses_what_has_no_template():
    def f(x, a):
        match a:
            case {"k": value}:
                return x + value
        return x

    segments = [Segment(f, weft.ones(1), {"k": 1}, stop_at=step) for step in range(14)]
    ops = [each.outcome.frame.instruction.op for each in segments]
    step = ops.index("MATCH_KEYS")
    assert "_v_enter" in segments[step].text.replace("enter_original", "_v_enter")
    assert segments[step]().tolist() == [2.0]
    settings.strict, before = True, settings.strict
    try:
        with pytest.raises(Break, match="cannot-perform: MATCH_KEYS"):
            Segment(f, weft.ones(1), {"k": 1}, stop_at=step)
    finally:
        settings.strict = before


def test_symbolic_sizes_are_read_from_the_tensor():
    def f(x):
        n = x.shape[0]
        return x + 1, n * 2, [n, x.shape]

    from weft.capture.session import capture

    x = weft.ones(4, 3)
    outcome = capture(f, {"x": x}, dynamic=True)
    from weft.capture.emit import emit, plan_outputs
    from weft.trace.module import GraphModule

    outputs = plan_outputs(outcome)
    outcome.recorder.graph.output(tuple(outputs))
    module = GraphModule({}, outcome.recorder.graph)
    from tests.capture.segments import PlainRuntime

    entry = emit(outcome, graph_callable=module, runtime=PlainRuntime()).make()
    for size in (4, 7):
        result = entry(f, weft.ones(size, 3))
        assert result[1] == 2 * size and result[2] == [size, (size, 3)] and type(result[1]) is int
        assert type(result[2][1]) is weft.Size


def test_breaks_within_everything_at_once():
    def f(x, log):
        class Context:
            def __enter__(self):
                log.append("in")

            def __exit__(self, *error):
                log.append(error[0])
                return True

        def numbers():
            for i in range(3):
                try:
                    yield i
                finally:
                    log.append(f"after {i}")

        total = x
        for i in numbers():
            with Context():
                try:
                    total = total + i
                    if i == 1:
                        raise KeyError(i)
                except KeyError as error:
                    log.append(error.args)
                    raise ValueError from error
                else:
                    log.append("fine")
        return total

    assert stops_everywhere(f, lambda: (weft.zeros(1), [])) > 0


def test_parameters_named_like_exceptions():
    def f(x, Exception, BaseException, log):
        try:
            log.append(x.gather(0, Exception))
            print("breaks")
        finally:
            log.append("done")
        return BaseException

    log = []
    segment = Segment(f, weft.arange(2.0), weft.tensor([0]), 5, log)
    assert segment() == 5 and log[1] == "done"
    with pytest.raises((IndexError, RuntimeError)):
        segment(weft.arange(2.0), weft.tensor([7]), 5, log)
    assert log[2:] == ["done"]
