"""The runtime with captures made by hand: entries are given, what the runtime does with them is looked at."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import sys
import threading
import weakref
from types import FunctionType, SimpleNamespace

import pytest

import weft
from weft.capture import runtime
from weft.capture.fronts import FRONT
from weft.capture.guards import Guard, TensorFacts, shown
from weft.capture.policy import Policy
from weft.capture.reading import MISS
from weft.capture.regions import callee, current_region
from weft.capture.runtime import (
    BackendCompilerFailed,
    CaptureFailed,
    CompilerError,
    Context,
    Entry,
    RecompileLimitExceeded,
    is_compiling,
    put_stance,
)
from weft.capture.sources import local
from weft.core.counters import counters
from weft.core.seams import seams
from weft.core.settings import settings
from weft.trace.breaks import Break


@pytest.fixture(autouse=True)
def afresh():
    counters.clear()
    yield
    put_stance("default")
    assert seams.callee is None
    assert not is_compiling()


@pytest.fixture
def setting():
    before = dict(vars(settings))

    def put(**values):
        for name, value in values.items():
            setattr(settings, name, value)

    yield put
    for name, value in before.items():
        setattr(settings, name, value)


def never(*_args):
    raise AssertionError("no backend is needed here")


class Specialist:
    """A capture that makes an entry for exactly the first argument that it sees."""

    def __init__(self, **options):
        self.seen = []
        self.requests = []
        self.options = options

    def __call__(self, function, arguments, request):
        self.seen.append(arguments)
        self.requests.append(request)
        name, value = next(iter(arguments.items()))

        def call(_function, first, *_rest):
            return ("compiled", value) if first == value else MISS

        return Entry(call, [Guard("EQ", local(name), value)], **self.options)


def double(x, y=0):
    return 2 * x


# -- lookup --------------------------------------------------------------------------------------------------
def test_compiles_once_per_kind_of_call():
    capture = Specialist()
    front = Context(never, capture).front(double)
    assert [front(1), front(1, 5), front(2), front(1), front(2)] == [("compiled", n) for n in (1, 1, 2, 1, 2)]
    assert capture.seen == [{"x": 1, "y": 0}, {"x": 2, "y": 0}]
    assert counters["frames"] == {"total": 2, "ok": 2}
    assert counters["recompiles"] == {"L['x'] == 1  # actual 2": 1}


def test_the_entry_that_served_last_is_first():
    context = Context(never, Specialist())
    front = context.front(double)
    for value in (1, 2, 3, 1):
        front(value)
    cache = context.cache(double)
    assert [installed.entry.call(double, 1) for installed in cache.entries][0] == ("compiled", 1)
    assert cache.first.cell_contents is cache.entries[0].run
    assert len(cache.entries) == 3


def test_functions_with_one_code_share_entries():
    def make(n):
        def inner(x):
            return x + n

        return inner

    capture = Specialist()
    context = Context(never, capture)
    assert context.front(make(1))(7) == context.front(make(2))(7) == ("compiled", 7)
    assert len(capture.seen) == 1


def test_sizes_and_numbers_that_change_are_volatile_in_the_next_capture():
    seen = []

    def capture(_function, arguments, request):
        seen.append(request.volatile)
        x, n = arguments["x"], arguments["n"]
        shape = tuple(x.shape)

        def call(_function, x, n_):
            return "hit" if tuple(x.shape) == shape and n_ == n else MISS

        return Entry(call, [Guard("TENSOR", local("x"), TensorFacts.of(x)), Guard("EQ", local("n"), n)])

    def function(x, n):
        return x

    context = Context(never, capture)
    front = context.front(function)
    front(weft.ones(2, 3), 1)
    front(weft.ones(2, 4), 1)
    front(weft.ones(2, 4), 5)
    assert seen[0] == frozenset()
    assert len(seen[1]) == 1 and next(iter(seen[1])).endswith("[1]")
    assert seen[2] == seen[1] | {"L['n']", shown(local("n"))}


def test_nothing_is_volatile_where_the_user_said_so():
    capture = Specialist()
    front = Context(never, capture, dynamic=False).front(double)
    front(1), front(2)
    assert [request.volatile for request in capture.requests] == [frozenset(), frozenset()]
    assert capture.requests[0].dynamic is False


# -- limits and failures -------------------------------------------------------------------------------------
def test_too_many_entries_warn_once_and_run_the_original(setting):
    setting(recompile_limit=3)
    capture = Specialist()
    front = Context(never, capture).front(double)
    assert [front(n) for n in range(3)] == [("compiled", n) for n in range(3)]
    with pytest.warns(
        RuntimeWarning, match=r"recompile_limit \(3\).*double.*last reason: L\['x'\] == 2"
    ) as caught:
        assert front(10) == 20
    assert len(caught) == 1
    assert front(11) == 22
    assert front(1) == ("compiled", 1)
    assert len(capture.seen) == 3
    assert counters["fallbacks"] == {"recompile limit": 1}


@pytest.mark.parametrize("how", ["strict", "fullgraph"])
def test_too_many_entries_are_an_error_where_falling_back_is_not_allowed(setting, how):
    setting(strict=how == "strict")
    front = Context(never, Specialist(), fullgraph=how == "fullgraph", recompile_limit=1).front(double)
    front(1)
    with pytest.raises(RecompileLimitExceeded, match="recompile_limit"):
        front(2)


def broken_capture(*_args):
    raise Break("unsupported", "something new")


def test_a_failing_capture_runs_the_original(setting):
    front = Context(never, broken_capture).front(double)
    with pytest.warns(RuntimeWarning, match="capture of double.*something new.*runs uncompiled"):
        assert front(4) == 8
    assert front(5) == 10
    setting(strict=True)
    with pytest.raises(CaptureFailed, match="something new"):
        Context(never, broken_capture).front(double)(4)


def test_an_entry_that_does_not_fit_its_own_call_is_dropped():
    context = Context(never, lambda *_args: Entry(lambda *_values: MISS, [Guard("EQ", local("x"), 99)]))
    with pytest.warns(RuntimeWarning, match=r"its own guard does not hold: L\['x'\] == 99"):
        assert context.front(double)(4) == 8
    assert context.cache(double).entries == ()


def test_run_original_where_capture_says_so():
    front = Context(never, Specialist(reason="it raises ValueError")).front(double)
    assert (front(3), front(3), front(4)) == (6, 6, 8)
    assert counters["frames"] == {"total": 2}


def test_errors_of_the_function_pass_through():
    def fails(x):
        raise KeyError(x)

    front = Context(never, Specialist(reason="it raises KeyError")).front(fails)
    for _ in range(2):
        with pytest.raises(KeyError, match="3"):
            front(3)


def test_a_segment_that_fails_runs_the_original(setting):
    context = Context(never, Specialist())
    assert context.deoptimise(double, 4, 0) == 8
    assert counters["fallbacks"] == {"deoptimised": 1}
    setting(strict=True)
    with pytest.raises(CaptureFailed, match="double failed where the original did not"):
        context.deoptimise(double, 4, 0)
    with pytest.raises(TypeError):
        context.deoptimise(double, None, 0)


def test_entries_for_objects_that_are_gone_make_room():
    class Thing:
        pass

    def capture(_function, arguments, _request):
        watch = weakref.ref(arguments["x"])
        guard = Guard("IS", local("x"), arguments["x"])
        return Entry(lambda _function, x, _y: "hit" if x is watch() else MISS, [guard])

    context = Context(never, capture, recompile_limit=2)
    front = context.front(double)
    for _ in range(5):
        assert front(Thing()) == "hit"
        gc.collect()
    assert len(context.cache(double).entries) == 1


# -- stances and verify --------------------------------------------------------------------------------------
def test_stances():
    capture = Specialist()
    front = Context(never, capture).front(double)
    front(1)
    put_stance("force_eager")
    assert (front(1), front(2)) == (2, 4)
    put_stance("eager_on_recompile")
    assert (front(1), front(2)) == (("compiled", 1), 4)
    put_stance("fail_on_recompile")
    assert front(1) == ("compiled", 1)
    with pytest.raises(CompilerError, match="Detected recompile.*function name: 'double'"):
        front(2)
    put_stance("default")
    assert front(2) == ("compiled", 2)
    assert len(capture.seen) == 2


def test_verify_captures_again_on_each_hit(setting):
    texts = iter(["a", "a", "b"])
    capture = lambda *_args: Entry(lambda *_values: "hit", text=next(texts))
    front = Context(never, capture).front(double)
    assert front(1) == front(1) == "hit"
    setting(verify=True)
    assert front(1) == "hit"
    with pytest.raises(
        CaptureFailed, match="captures differently now: the generated function was\na\nand would be\nb"
    ):
        front(1)
    setting(verify=False)
    assert front(1) == "hit"


def test_reset_forgets_entries():
    capture = Specialist()
    context = Context(never, capture)
    front = context.front(double)
    front(1)
    context.reset()
    front(1)
    assert len(capture.seen) == 2


# -- backends ------------------------------------------------------------------------------------------------
class FakeModule:
    def __init__(self, ops):
        nodes = [SimpleNamespace(op="placeholder"), *[SimpleNamespace(op="call_function")] * ops]
        self.graph = SimpleNamespace(nodes=nodes)

    def forward(self, x):
        return ("graph", x)

    def print_readable(self, print_output):
        return "class GraphModule"


def with_backend(backend, ops=2):
    def capture(_function, arguments, request):
        compiled = request.backend(FakeModule(ops), list(arguments.values()))
        return Entry(lambda _function, x, y: compiled(x))

    return Context(backend, capture).front(double)


def test_backend_gets_the_graph_and_the_inputs():
    given = []

    def backend(module, inputs):
        given.append(inputs)
        return lambda x: ("mine", *module.forward(x))

    front = with_backend(backend)
    assert front(3) == front(3) == ("mine", "graph", 3)
    assert given == [[3, 0]]
    assert counters["stats"] == {"unique_graphs": 1, "calls_captured": 2}


def test_an_empty_graph_needs_no_backend():
    assert with_backend(never, ops=0)(3) == ("graph", 3)
    assert counters["stats"] == {}


def fails_to_compile(_module, _inputs):
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("backend", "text"),
    [
        (fails_to_compile, r"backend='fails_to_compile' raised:\nValueError: boom"),
        (
            lambda _module, _inputs: 3,
            r"backend='<lambda>' raised:\nAssertionError: compiler_fn did",
        ),
    ],
)
def test_backend_errors_name_the_backend(backend, text):
    with pytest.raises(BackendCompilerFailed, match=text):
        with_backend(backend)(3)


def test_a_backend_runs_as_code_of_its_own():
    asked = []

    def backend(module, _inputs):
        asked.append(is_compiling())
        return module.forward

    with_backend(backend)(1)
    assert asked == [False]


def test_capture_knows_that_it_captures():
    asked = []

    def capture(*_args):
        asked.append((is_compiling(), seams.is_compiling() if seams.is_compiling is is_compiling else True))
        return Entry(lambda *_values: None)

    Context(never, capture).front(double)(1)
    assert asked == [(True, True)]
    assert not is_compiling()


def test_a_compiled_function_called_while_capturing_runs_as_written():
    inner = Context(never, Specialist()).front(double)

    def capture(*_args):
        got = inner(4)
        return Entry(lambda *_values: got)

    outer = Context(never, capture).front(lambda x: x)
    assert outer(1) == 8


# -- regions and callees -------------------------------------------------------------------------------------
def breaking(body):
    """A capture whose entries run `body(context, *values)` where a segment would break."""

    def capture(_function, _arguments, request):
        context = request.context
        return Entry(lambda _function, *values: body(context, *values), stop=Break("unsupported"))

    return capture


def helper(x):
    return x + 1


def test_callee_is_the_compiled_form_under_a_break_only():
    assert callee(helper) is helper
    seen = []

    def body(context, _x, _y):
        compiled = callee(helper)
        seen.append((compiled is not helper, current_region().context is context, seams.callee is callee))
        return "done"

    assert Context(never, breaking(body)).front(double)(1) == "done"
    assert seen == [(True, True, True)]
    assert callee(helper) is helper


def test_a_break_is_counted():
    front = Context(never, breaking(lambda *_values: None)).front(double)
    front(1), front(2)
    assert counters["graph_break"] == {"unsupported": 1}


def test_an_original_runs_with_what_it_calls_compiled():
    module = weft.nn.Linear(2, 2)
    forwards = []

    def capture(function, arguments, request):
        forwards.append(function.__qualname__)
        return Entry(lambda *_values: None, reason="as an example")

    def calls_a_module(x):
        return module(x)

    x = weft.ones(1, 2)
    front = Context(never, capture).front(calls_a_module)
    assert weft.equal(front(x), module(x))
    assert forwards == [
        "test_an_original_runs_with_what_it_calls_compiled.<locals>.calls_a_module",
        "Linear.forward",
    ]


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_other_threads_and_tasks_run_plain():
    seen = {}

    def body(_context, _x, _y):
        seen["here"] = callee(helper) is helper
        seen["thread"] = in_thread(lambda: callee(helper) is helper)
        copied = contextvars.copy_context()
        seen["thread with a copied context"] = in_thread(lambda: copied.run(callee, helper) is helper)
        seen["copied"] = copied

        async def task():
            return callee(helper) is helper

        seen["task"] = asyncio.run(task())
        return

    Context(never, breaking(body)).front(double)(1)
    seen["later"] = seen.pop("copied").run(callee, helper) is helper
    assert seen == {
        "here": False,
        "thread": True,
        "thread with a copied context": True,
        "task": True,
        "later": True,
    }


def generator(x):
    yield x


async def coroutine(x):
    return x


class Caller:
    def __call__(self, x):
        return x

    def method(self, x):
        return x

    @classmethod
    def of_class(cls, x):
        return x


def test_what_callee_leaves_alone():
    context = Context(never, Specialist())
    own = Context(never, Specialist()).front(helper)
    disabled = runtime.outside(helper)
    disabled.__dict__[runtime.MARK] = (Policy.BREAK, "")
    for thing in (
        len,
        Caller,
        generator,
        coroutine,
        own,
        disabled,
        functools.reduce,
        asyncio.run,
        weft.sin,
        weft.nn.Linear(2, 2),
        [].append,
        functools.partial(len, []),
    ):
        assert context.callee(thing) is thing


@pytest.mark.parametrize(
    "thing",
    [helper, lambda x: x, Caller().method, Caller.of_class, Caller(), functools.partial(helper)],
    ids=["function", "lambda", "method", "class method", "object", "partial"],
)
def test_what_callee_compiles(thing):
    context = Context(never, lambda *_args: Entry(lambda *values: ("compiled", values[-1])))
    compiled = context.callee(thing)
    assert compiled is not thing
    assert compiled(5) == ("compiled", 5)


def test_callee_keeps_defaults():
    def function(a, b=2, *, c=3):
        return a, b, c

    capture = Specialist(reason="as an example")
    assert Context(never, capture).callee(function)(1) == (1, 2, 3)
    assert capture.seen == [{"a": 1, "b": 2, "c": 3}]


# -- tails ---------------------------------------------------------------------------------------------------
def counting_down(n):
    return n


def test_resumes_do_not_nest():
    depths = []

    def segment(context, n):
        depths.append(_depth())
        if n == 0:
            return "finished"
        point = SimpleNamespace(code=counting_down.__code__)
        return context.resume(point, counting_down, ())(n - 1)

    front = Context(never, breaking(segment)).front(counting_down)
    assert front(3000) == "finished"
    assert len(set(depths[5:])) == 1


def _depth():
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_a_resume_function_has_the_globals_name_and_cells_of_the_original():
    made = []

    def outer():
        cell = 5

        def resumed(value):
            return value, cell

        return resumed

    resumed = outer()

    def capture(function, arguments, request):
        made.append(function)
        if function.__code__ is resumed.__code__:
            return Entry(lambda *_values: None, reason="as an example")
        point = SimpleNamespace(code=resumed.__code__)
        context = request.context
        call = lambda function, x, y: context.resume(point, function, resumed.__closure__)(x)
        return Entry(call, stop=Break("unsupported"))

    assert Context(never, capture).front(double)(7) == (7, 5)
    assert isinstance(made[1], FunctionType)
    assert (made[1].__name__, made[1].__globals__) == ("double", double.__globals__)


def test_an_error_in_a_region_leaves_nothing_open():
    def body(*_values):
        raise ZeroDivisionError

    front = Context(never, breaking(body)).front(double)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            front(1)
    assert current_region() is None


# -- threads and memory --------------------------------------------------------------------------------------
def test_threads_compile_each_call_once():
    capture = Specialist()
    front = Context(never, capture, recompile_limit=100).front(double)
    barrier = threading.Barrier(8)
    results = []

    def work():
        barrier.wait()
        results.append([front(n % 10) for n in range(100)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[("compiled", n % 10) for n in range(100)]] * 8
    assert sorted(arguments["x"] for arguments in capture.seen) == list(range(10))


def test_entries_keep_no_arguments_alive():
    def capture(_function, _arguments, _request):
        return Entry(lambda *_values: None)

    front = Context(never, capture).front(double)
    module = weft.nn.Linear(2, 2)
    watch = weakref.ref(module)
    front(module)
    del module
    gc.collect()
    assert watch() is None


def test_a_context_goes_with_its_functions():
    context = Context(never, Specialist())
    front = context.front(double)
    front(1)
    assert front.__dict__[FRONT] is context
    watch = weakref.ref(context)
    del context, front
    gc.collect()
    assert watch() is None


def test_functions_that_are_given_other_code():
    def f(x, k=2.0):
        return x * k

    def other(x, k=2.0):
        return x + k

    def fewer(x):
        return x - 1

    x, first = weft.ones(3), f.__code__
    compiled = weft.compile(f, backend="eager")
    for code in (first, other.__code__, first, fewer.__code__, other.__code__):
        f.__code__ = code
        if code is fewer.__code__:
            for each in (f, compiled):
                with pytest.raises(TypeError, match="positional argument"):
                    each(x, 3.0)
            continue
        for _ in range(4):
            assert compiled(x, 3.0).tolist() == f(x, 3.0).tolist()
            assert compiled(x).tolist() == f(x).tolist()


@pytest.mark.filterwarnings("ignore:capture of")
@pytest.mark.parametrize("kind", [RecursionError, MemoryError])
def test_a_capture_that_lacked_room_is_tried_again(kind):
    """But not for ever."""
    failures = [kind("too little")] * 3

    def compile_frame(function, arguments, request):
        if failures:
            raise failures.pop()
        raise Break("unsupported", "as told")

    def f(x):
        return x + 1

    context = Context(lambda module, inputs: module.forward, compile_frame)
    front, cache = context.front(f), context.cache(f)
    for left in (2, 1, 0):
        assert front(1) == 2 and len(failures) == left and cache.given_up is None
    failures.extend([kind("too little")] * 30)
    for _ in range(20):
        assert front(1) == 2
    assert cache.given_up is not None and len(failures) > 20
    context.reset()
    assert cache.given_up is None
    front(1)
    assert cache.given_up is None
