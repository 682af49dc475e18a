from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from weft import compiler
from weft.capture.policy import MARK
from weft.compiler import counters, settings
from weft.core.seams import seams
from weft.testing import CompileCounter, EagerAndRecordGraphs, same

X = weft.ones(3)


@pytest.fixture(autouse=True)
def afresh():
    counters.clear()
    yield
    compiler.set_stance("default")
    settings.verify = settings.strict = False
    settings.recompile_limit = 8
    assert seams.callee is None


@pytest.fixture
def counter():
    return CompileCounter()


# -- compile -------------------------------------------------------------------------------------------------
def test_compile_as_function_and_as_decorator(counter):
    def function(x, y=2):
        """Adds."""
        return x + y

    @weft.compile
    def bare(x):
        return x + 1

    @weft.compile(backend=counter, fullgraph=True)
    def decorated(x):
        return x + 1

    compiled = weft.compile(function, backend=counter)
    assert same(compiled(X), X + 2) and same(compiled(X, y=5), X + 5)
    assert (compiled.__name__, compiled.__doc__, compiled.__wrapped__) == ("function", "Adds.", function)
    assert same(bare(X), X + 1) and same(decorated(X), X + 1)
    assert counter.frame_count >= 2


@pytest.mark.parametrize("backend", [None, "native"])
def test_machine_code_is_what_functions_become(backend, monkeypatch):
    made = []
    monkeypatch.setattr("weft.native.backend.listeners", [lambda program, _arrays: made.append(program)])
    x = weft.linspace(0, 1, 7, requires_grad=True)
    for compile in (weft.compile, compiler.optimize() if backend is None else compiler.optimize(backend)):
        compiler.reset()
        options = {"backend": backend} if compile is weft.compile else {}
        compile(lambda x: (x.sin() * 0.28125).sum(), **options)(x).backward()
        assert len(made) == 2, "one for values, one for gradients"
        made.clear()
    assert compiler.explain(lambda x: x.sin() * 0.78125)(x).programs


def test_disable_gives_the_function_back():
    function = lambda x: x
    assert weft.compile(function, disable=True) is function


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"mode": "default", "options": {}},
            RuntimeError,
            "Either mode or options can be specified, but both",
        ),
        (
            {"backend": "nowhere"},
            compiler.InvalidBackend,
            "Invalid backend: 'nowhere', see `weft.compiler.list",
        ),
        ({"backend": 3}, compiler.InvalidBackend, "Invalid backend: 3"),
        ({"mode": "fastest"}, RuntimeError, "Unrecognized mode=fastest, should be one of: default, "),
        ({"dynamic": 3}, AssertionError, "Expected dynamic to be a bool or None"),
        ({"nonsense": 3}, TypeError, "nonsense"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        weft.compile(lambda x: x, **options)


def test_backend_errors():
    def failing(_module, _inputs):
        raise ValueError("boom")

    with pytest.raises(compiler.BackendCompilerFailed, match=r"backend='failing' raised:\nValueError: boom"):
        weft.compile(lambda x: x + 1, backend=failing)(X)


def test_backend_gets_mode_options_and_real_inputs():
    given = []

    def backend(module, inputs, **options):
        given.append((inputs, options))
        return module.forward

    weft.compile(lambda x: x + 1, backend=backend, options={"a": 1})(X)
    weft.compile(lambda x: x + 1, backend=backend, mode="max-autotune")(X)
    weft.compile(lambda x: x + 1, backend=backend, mode="default")(X)
    assert [options for _, options in given] == [{"options": {"a": 1}}, {"mode": "max-autotune"}, {}]
    assert given[0][0][0] is X


def test_fullgraph_refuses_a_break():
    def function(x):
        print("hello")
        return x + 1

    with pytest.raises(compiler.Unsupported, match="builtin: print"):
        weft.compile(function, fullgraph=True)(X)


def test_backends_have_names():
    assert "eager" in compiler.list_backends()

    @compiler.register_backend(name="mine-for-tests", tags=("debug",))
    def mine(module, _inputs):
        return lambda *args: tuple(value * 100 for value in module.forward(*args))

    assert "mine-for-tests" not in compiler.list_backends()
    assert "mine-for-tests" in compiler.list_backends(exclude_tags=None)
    assert same(weft.compile(lambda x: x + 1, backend="mine-for-tests")(X), (X + 1) * 100)
    assert compiler.lookup_backend("mine-for-tests") is mine
    with pytest.raises(AssertionError, match="duplicate name"):
        compiler.register_backend(mine, name="mine-for-tests")


def test_optimize_shares_one_cache(counter):
    decorate = compiler.optimize(counter)
    function = lambda x: x + 1
    assert same(decorate(function)(X), decorate(function)(X))
    assert counter.frame_count == 1
    with pytest.raises(compiler.Unsupported):
        compiler.optimize_assert(counter)(lambda x: print(x))(X)
    with pytest.raises(compiler.Unsupported):
        compiler.optimize(counter, nopython=True)(lambda x: print(x))(X)


def test_reset_compiles_again(counter):
    compiled = weft.compile(lambda x: x + 1, backend=counter)
    compiled(X)
    compiler.reset()
    compiled(X)
    assert counter.frame_count == 2


# -- recompiling ---------------------------------------------------------------------------------------------
def test_sizes_become_symbols_when_they_change(counter):
    compiled = weft.compile(lambda x: x * 2 + x.shape[0], backend=counter)
    for n in range(3, 9):
        assert same(compiled(weft.ones(n)), weft.ones(n) * 2 + n)
    assert counter.frame_count == 2


@pytest.mark.parametrize(("dynamic", "frames"), [(True, 1), (False, 4)])
def test_dynamic_says_whether_sizes_may_vary(counter, dynamic, frames):
    compiled = weft.compile(lambda x: x * 2, backend=counter, dynamic=dynamic)
    for n in range(3, 7):
        assert same(compiled(weft.ones(n)), weft.ones(n) * 2)
    assert counter.frame_count == frames


def test_marks_on_sizes(counter):
    compiled = weft.compile(lambda x: x * 2, backend=counter)
    for n in range(3, 7):
        x = weft.ones(n, 2)
        compiler.mark_dynamic(x, 0)
        compiled(x)
    assert counter.frame_count == 1
    counter.clear()
    compiled = weft.compile(lambda x: x * 2, backend=counter)
    for n in range(3, 6):
        x = weft.ones(n)
        compiler.mark_static(x)
        compiled(x)
    assert counter.frame_count == 3
    with pytest.raises(IndexError, match="Dimension out of range"):
        compiler.mark_dynamic(weft.ones(2), 1)
    compiler.maybe_mark_dynamic(weft.ones(2, 3), [0, -1])


def test_recompile_limit_names_the_guard(counter):
    compiled = weft.compile(lambda x, word: x * len(word), backend=counter, recompile_limit=2)
    with pytest.warns(RuntimeWarning, match=r"hit recompile_limit \(2\).*last reason: L\['word'\] == 'bb'"):
        for word in ("a", "bb", "ccc", "dddd"):
            assert same(compiled(X, word), X * len(word))
    assert counter.frame_count == 2


def test_strict_raises_at_the_recompile_limit():
    settings.strict, settings.recompile_limit = True, 1
    compiled = weft.compile(lambda x, word: x * len(word))
    compiled(X, "a")
    with pytest.raises(compiler.RecompileLimitExceeded, match=r"recompile_limit \(1\)"):
        compiled(X, "bb")


def test_verify(counter):
    settings.verify = True

    def function(x, n):
        y = x + n
        compiler.graph_break()
        return y * x

    compiled = weft.compile(function, backend=counter)
    for n in (1, 2, 1, 2, 3):
        assert same(compiled(X, n), function(X, n))
    assert counter.frame_count <= 6


def test_verify_of_sizes_that_may_vary(counter):
    settings.verify = True
    compiled = weft.compile(lambda x, n: x * n + x.shape[0], backend=counter, dynamic=True)
    for size, n in ((5, 7), (6, 1), (6, 0), (7, 2)):  # ones and zeros are captured as they are
        assert same(compiled(weft.ones(size), n), weft.ones(size) * n + size)
    assert counter.frame_count == 1


# -- marks ---------------------------------------------------------------------------------------------------
def test_disable(counter):
    asked = []

    @compiler.disable
    def aside(x):
        asked.append(compiler.is_compiling())
        return helper(x)

    def helper(x):
        return x * 3

    def function(x):
        return aside(x + 1) + 1

    assert same(weft.compile(function, backend=counter)(X), (X + 1) * 3 + 1)
    assert (counter.frame_count, counter.op_count) == (2, 2)
    assert asked == [False]
    with pytest.raises(compiler.Unsupported, match="aside is disabled: for a reason"):
        disabled = compiler.disable(aside.__wrapped__, reason="for a reason")
        weft.compile(lambda x: disabled(x), fullgraph=True)(X)


def test_disable_of_other_things():
    class Thing:
        def __init__(self, x):
            self.x = x

        def __call__(self):
            return self.x

    assert compiler.disable(Thing) is Thing and Thing(3)() == 3
    model = weft.nn.Linear(3, 3)
    expected = model(X)
    assert compiler.disable(model) is model
    assert same(model(X), expected)
    assert compiler.disable(recursive=False)(test_disable) is test_disable
    with pytest.raises(AssertionError, match="callable"):
        compiler.disable(3)


def test_graph_break(counter):
    def function(x):
        x = x + 1
        compiler.graph_break("here")
        return x * 2

    with pytest.raises(compiler.Unsupported, match=r"graph_break\('here'\)"):
        weft.compile(function, fullgraph=True)(X)
    counters.clear()
    assert same(weft.compile(function, backend=counter)(X), (X + 1) * 2)
    assert (counter.frame_count, counter.op_count) == (2, 2)
    assert sum(counters["graph_break"].values()) == 1
    assert counters["frames"] == {"total": 2, "ok": 2}
    assert counters["stats"] == {"unique_graphs": 2, "calls_captured": 2}


def test_breaks_in_a_long_loop_do_not_pile_up(counter):
    def function(x, n):
        for _ in range(n):
            x = x + 1
            compiler.graph_break()
        return x

    counts = []
    for turns in (300, 3000):
        counter.clear()
        compiler.reset()
        assert same(weft.compile(function, backend=counter)(X, turns), X + turns)
        counts.append(counter.frame_count)
    assert counts[0] == counts[1] <= 6  # places of the iterator are guarded, until they vary


def test_disallow_in_graph(counter):
    def function(x):
        x = weft.cos(x + 1)
        return weft.cos(x)

    compiler.disallow_in_graph(weft.cos)
    try:
        assert same(weft.compile(function, backend=counter)(X), function(X))
    finally:
        del weft.cos.__dict__[MARK]
    assert counter.op_count == 1


def test_allow_in_graph():
    backend = EagerAndRecordGraphs()

    @compiler.allow_in_graph
    def whole(x):
        return (x * 3 + x.sum()).exp()

    assert same(weft.compile(lambda x: whole(x) + 1, backend=backend, fullgraph=True)(X), whole(X) + 1)
    calls = [node.target for node in backend.graphs[0].graph.nodes if node.op == "call_function"]
    assert calls[0] is whole and len(calls) == 2


def test_assume_constant_result(counter):
    calls = []

    @compiler.assume_constant_result
    def configuration():
        calls.append(1)
        return 5

    compiled = weft.compile(lambda x: x * configuration(), backend=counter)
    assert same(compiled(X), X * 5) and same(compiled(X), X * 5)
    assert calls == [1]


@pytest.mark.parametrize("mark", [compiler.allow_in_graph, compiler.disallow_in_graph])
def test_marks_need_python_functions(mark):
    with pytest.raises(TypeError, match="cannot be marked"):
        mark(len)
    with pytest.raises(AssertionError, match="A callable function is expected"):
        mark(3)


def test_is_compiling(counter):
    def function(x):
        return x + (1 if compiler.is_compiling() and compiler.is_dynamo_compiling() else 2)

    assert same(function(X), X + 2)
    assert same(weft.compile(function, backend=counter)(X), X + 1)
    compiler.cudagraph_mark_step_begin()


# -- stances -------------------------------------------------------------------------------------------------
def test_stances(counter):
    def function(x):
        return x + (1 if compiler.is_compiling() else 2)

    compiled = weft.compile(function, backend=counter)
    assert same(compiled(X), X + 1)
    with compiler.set_stance("force_eager"):
        assert same(compiled(X), X + 2)
    assert same(compiled(X), X + 1)
    with compiler.set_stance("eager_on_recompile"):
        assert same(compiled(X), X + 1)
        assert same(compiled(X.double()), X.double() + 2)
    with compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        compiled(X.double())

    @compiler.set_stance("force_eager")
    def eagerly():
        return compiled(X)

    assert same(compiled(X), X + 1)
    assert same(eagerly(), X + 2)
    assert same(compiler.run(compiled)(X.double()), X.double() + 2)
    assert counter.frame_count == 1
    with pytest.raises(RuntimeError, match="invalid weft.compile stance 'lazy'"):
        compiler.set_stance("lazy")


def test_a_stance_stays_until_the_next():
    compiled = weft.compile(lambda x: compiler.is_compiling())
    compiler.set_stance("force_eager")
    assert compiled(X) is False
    compiler.set_stance("default")


# -- explaining ----------------------------------------------------------------------------------------------
def test_explain(capsys):
    def function(x):
        y = x + 1
        print("here")
        return y * 2

    found = compiler.explain(function)(X)
    assert capsys.readouterr().out == "here\n"
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    assert len(found.graphs) == 2 and [len(ops) for ops in found.ops_per_graph] == [1, 1]
    reason = found.break_reasons[0]
    assert f"    Why: {reason.why}\n    Try: {reason.try_}\n" in str(found) and reason.why and reason.try_
    assert "builtin: print" in reason.reason and reason.graph_break
    assert reason.user_stack[0].name == "function"
    assert any("L['x']" in str(guard) for guard in found.out_guards)
    text = str(found)
    assert text.startswith("Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\nBreak Reasons:\n")
    assert "builtin: print" in text


def test_explain_takes_compiled_things():
    model = weft.nn.Linear(3, 3)
    assert compiler.explain(weft.compile(model))(X).graph_count == 1
    assert compiler.explain(weft.compile(lambda x: x + 1))(X).op_count == 1


# -- callees -------------------------------------------------------------------------------------------------
def helper(x):
    return x * 2 + 1


def test_a_function_called_at_a_break_is_compiled(counter):
    def inner(x):
        x = x + 1
        compiler.graph_break()
        return x * 2

    def function(x):
        return inner(x) + 1

    assert same(weft.compile(function, backend=counter)(X), function(X))
    assert counter.frame_count == 3


def test_modules_behind_library_code_are_compiled(counter):
    backend = EagerAndRecordGraphs()

    class Inner(weft.nn.Module):
        def forward(self, x):
            compiler.graph_break()
            return x * 5

    inner = Inner()

    def function(x):
        return inner(x) + 1

    assert same(weft.compile(function, backend=backend)(X), function(X))
    assert len(backend.graphs) == 2


def test_threads_started_under_a_break_run_plain(counter):
    asked = []

    @compiler.disable(recursive=False)
    def start(x):
        thread = threading.Thread(target=lambda: asked.append(same(helper(x), x * 2 + 1)))
        thread.start()
        thread.join()
        return x

    assert same(weft.compile(lambda x: start(x + 1) + 1, backend=counter)(X), X + 2)
    assert asked == [True]
    assert counter.frame_count == 2


# -- loading -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "loaded"),
    [
        ("weft.Tensor", False),
        ("weft.compile", False),
        ("weft.nn.Linear(2, 2).compile", False),
        ("weft.compile(lambda x: x)", True),
        ("weft.compiler.reset()", True),
        ("weft.testing.same", True),
    ],
)
def test_the_compiler_is_loaded_on_first_use(first, loaded):
    program = (
        f"import sys, weft\n{first}\nprint('weft.compiler' in sys.modules, 'weft.capture' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(weft.__file__).parent.parent,
    )
    assert (result.stdout, result.stderr) == (f"{loaded} {loaded}\n", "")


def test_what_is_not_there_is_not_there():
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'nothing'"):
        weft.nothing


def test_disallow_in_graph_is_for_what_is_allowed() -> None:
    def helper(x):
        return x.cos()

    with pytest.raises(RuntimeError, match="disallow_in_graph is expected to be used on an already allowed"):
        compiler.disallow_in_graph(helper)
    assert compiler.disallow_in_graph(compiler.allow_in_graph(helper)) is helper


def test_marks_inside_of_captured_code_do_nothing(counter):
    def function(x):
        compiler.mark_static(x, 0)
        compiler.mark_dynamic(x, 0)
        return x + 1

    assert same(weft.compile(function, backend=counter, fullgraph=True)(X), X + 1)
    assert counter.frame_count == 1


FORKS = """
import gc, os, signal, sys, threading, time
import weft

parent, inside, go_on = os.getpid(), threading.Event(), threading.Event()
threshold = gc.get_threshold()

def backend(module, inputs):
    if os.getpid() == parent:
        inside.set()
        go_on.wait()
    return module.forward

compiled = weft.compile(lambda a: a + 1, backend=backend)
thread = threading.Thread(target=compiled, args=(weft.ones(2),))
thread.start()
inside.wait()
child = os.fork()
if not child:
    os._exit(0 if gc.get_threshold() == threshold and compiled(weft.ones(2)).tolist() == [2, 2] else 1)
for _ in range(6000):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.01)
else:
    os.kill(child, signal.SIGKILL)
go_on.set()
thread.join()
ended = ended and status == 0 and gc.get_threshold() == threshold
sys.exit(0 if ended else "the child hangs, or has no collector")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks_while_another_thread_compiles() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
