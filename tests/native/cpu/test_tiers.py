"""Drafts and what takes their place: equal bits, on disk and in memory, across forks, errors and ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from tests.core.test_threads import struck
from weft.core import threads
from weft.core.dtypes import float32
from weft.core.settings import settings
from weft.native import eager
from weft.native.backend import listeners
from weft.native.cpu import engine, tiers
from weft.native.cpu.runner import Runner
from weft.native.cpu.target import cpu
from weft.native.program.planning import planned
from weft.native.target import Uncompiled
from weft.ops.record import REGISTRY
from weft.ops.samples import Maker

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, -np.nan, 1e-42, -3e38, 88.0, 1e20], np.float32
)
OPS = """
    sum mean prod amax softmax log_softmax layer_norm logsumexp cumsum argmax gather scatter_add index_select
    embedding matmul bmm addmm nn.functional.linear convolution max_pool2d_with_indices upsample_bilinear2d
    nn.functional.avg_pool2d nll_loss mse_loss batch_norm_training group_norm tril
"""
ONE = """
    exp expm1 log log1p sin cos tan tanh sigmoid erf lgamma sqrt rsqrt round floor sign abs neg reciprocal
    relu nn.functional.gelu nn.functional.softplus
"""
TWO = "add sub mul div pow maximum minimum fmax fmin atan2 remainder fmod hypot copysign"


@pytest.fixture(autouse=True)
def drafts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Drafts are made, from nothing."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "tiers", "auto")
    monkeypatch.setattr(engine, "_modules", type(engine._modules)())
    engine.forget()
    weft.compiler.reset()  # equal functions share what was captured
    yield
    tiers.wait()


def program_of(function: Callable[..., Any], *given: Any) -> Runner:
    """The program that a compiled function runs."""
    found: list[Any] = []

    def note(program: Any, _arrays: Any) -> None:
        found.append(program)

    listeners.append(note)
    try:
        function(*given)
    finally:
        listeners.remove(note)
    (program,) = found
    return program  # type: ignore[no-any-return]


def bits(values: Any) -> list[bytes]:
    return [np.ascontiguousarray(getattr(value, "array", value)).tobytes() for value in values]


def example(number: float) -> Callable[..., Any]:
    """A function whose kernels no other test has."""
    return weft.compile(lambda a: ((a * number).exp() + a, a.sum(-1)), backend="native")


def test_drafts_are_replaced_once_they_are_used() -> None:
    function, a = example(1.625), weft.arange(12.0).reshape(3, 4)
    program = program_of(function, a)
    before = program.functions.drafts()
    first = bits(function(a))
    assert before, "small work is compiled quickly first"
    tiers.wait()
    assert not program.functions.drafts()
    addresses = {module.address(name) for name, module in program.functions.modules.items()}
    assert {int(record[0]) for record in program.code[: program.count]} <= addresses
    assert not addresses & {module.address(name) for name, module in before.items()}
    for _ in range(3):
        assert bits(function(a)) == first
    assert example(1.625)(a)[0].array.tobytes() == first[0], "equal kernels are full from now on"


def test_what_is_called_once_stays_a_draft() -> None:
    program = program_of(example(1.375), weft.ones(3, 4))
    assert program.functions.drafts()
    tiers.wait()
    assert program.functions.drafts()


def test_results_do_not_change_meanwhile() -> None:
    function, a = example(0.8125), weft.arange(4000.0).reshape(40, 100) / 999
    first = bits(function(a))
    assert all(bits(function(a)) == first for _ in range(300))
    tiers.wait()
    assert bits(function(a)) == first


@pytest.mark.parametrize("mode, is_draft", [("full", False), ("draft", True)])
def test_settings(mode: str, is_draft: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "tiers", mode)
    function, a = example(2.375), weft.ones(3, 4)
    program = program_of(function, a)
    for _ in range(3):
        function(a)
    tiers.wait()
    assert bool(program.functions.drafts()) == is_draft


def test_what_fails_leaves_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    function, a = example(0.3125), weft.arange(12.0).reshape(3, 4)
    program = program_of(function, a)
    known = engine.object_of

    def refuse(text: str, key: str, level: int) -> bytes:
        if level == engine.FULL:
            raise Uncompiled("no")
        return known(text, key, level)

    monkeypatch.setattr(engine, "object_of", refuse)
    with pytest.raises(Uncompiled):
        program.improve()
    first = bits(program([a.array]))
    program.ask()
    tiers.wait()
    assert program.functions.drafts()
    assert bits(program([a.array])) == first


def test_work_decides() -> None:
    lines = ["line"] * 300
    assert set(tiers.drafts_of({"a": lines}, {"a": 1000})) == {"a"}
    assert tiers.drafts_of({"a": lines}, {"a": 10_000_000}) == {}, "it would run for longer than it saves"
    both = {"a": lines, "b": lines}
    assert set(tiers.drafts_of(both, {"a": 1000, "b": 10_000_000})) == {"a"}
    assert tiers.drafts_of(both | {"a": lines[:20]}, {"a": 0, "b": 10_000_000}) == {}, "not worth an object"
    assert tiers.drafts_of({"a": ["line"] * 10_000}, {"a": 0}) == {}, "the stack is not endless"


def test_templates_begin_with_good_code_where_there_is_work() -> None:
    """Also where an earlier program has drafts of it: a loop is going on, which would wait for it."""

    def step(x: Any) -> Any:
        y = x @ weft.ones(96, 96) * 0.71875
        return y.sin().sum(0), x.sum(1)

    compiled = weft.compile(step, backend="native")
    first = program_of(compiled, weft.ones(30, 96))
    drafts = first.functions.drafts()
    template = program_of(compiled, weft.ones(200, 96))
    better = {name for name, module in template.functions.modules.items() if module.level == engine.FULL}
    assert better & set(drafts), "made for the template, though there were drafts"
    assert template.functions.drafts(), "what is little work stays as it was"
    found = compiled(weft.ones(50, 96))
    tiers.wait()
    assert bits(compiled(weft.ones(50, 96))) == bits(found)


# -- bits ----------------------------------------------------------------------------------------------------
def both_codes(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """An op's program gives the same bits before and after."""
    op = REGISTRY[name]
    bound = op.signature.bind(args, kwargs)
    inputs = [value for value in bound if type(value) in (np.ndarray, float)]
    graph = SimpleNamespace(graph=eager.one_node(op, tuple(bound)))
    program = cpu.executable(planned(graph, inputs, cpu), inputs)
    if not program.functions.modules:
        return
    assert program.functions.drafts(), name
    draft = bits(program(inputs))
    program.improve()
    assert not program.functions.drafts(), name
    assert bits(program(inputs)) == draft, name


@pytest.mark.parametrize("name", OPS.split())
@pytest.mark.filterwarnings("ignore")
def test_bits_of_samples(name: str) -> None:
    op = REGISTRY[name]
    assert op.samples is not None
    sample = next(iter(op.samples(Maker(float32))))
    both_codes(name, sample.args, sample.kwargs)


@pytest.mark.filterwarnings("ignore")
def test_bits_of_special_values() -> None:
    """All of them in one program: signs of zeros, NaN with its bits, denormals."""
    a, b = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    names = [*ONE.split(), *TWO.split()]
    faces = [attrgetter(name)(weft) for name in names]
    several = len(ONE.split())

    def values(a: Any, b: Any) -> Any:
        return tuple([face(a) for face in faces[:several]] + [face(a, b) for face in faces[several:]])

    given = weft.from_numpy(a), weft.from_numpy(b)
    function = weft.compile(values, backend="native", fullgraph=True)
    settings.tiers = "draft"
    program = program_of(function, *given)
    assert set(program.functions.drafts()) == set(program.functions.modules)
    draft = bits(program([a, b]))
    program.improve()
    for name, one, other in zip(names, draft, bits(program([a, b])), strict=True):
        assert one == other, name


# -- processes -----------------------------------------------------------------------------------------------
PROCESS = """
import os, sys
import weft
from weft.native.cpu import tiers
from weft.native.program.cache import counts

function = weft.compile(lambda a: (a * 1.75).tanh().sum(), backend="native")
a = weft.arange(24.0).reshape(4, 6)
results = {float(function(a)) for _ in range(int(sys.argv[1]))}
if sys.argv[2] == "wait":
    tiers.wait()
if sys.argv[2] == "fork":
    child = os.fork()
    if not child:
        other = weft.compile(lambda a: (a * 1.25).cosh().sum(), backend="native")
        for _ in range(3):
            other(a)
        tiers.wait()
        os._exit(0 if float(function(a)) in results else 1)
    assert os.waitpid(child, 0)[1] == 0
assert len(results) == 1
print(results.pop(), counts["text written"], counts["program found"], counts["program written"])
"""


def ran(calls: int, how: str) -> list[str]:
    """What a process says: its result, and how many texts it wrote, programs it found, and wrote."""
    environment = dict(os.environ, WEFT_TIERS="auto", WEFT_CACHE="programs")
    command = [sys.executable, "-W", "error", "-c", PROCESS, str(calls), how]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_drafts_on_disk_are_replaced_by_later_processes() -> None:
    result, *counts = ran(1, "end")
    assert counts == ["1", "0", "1"]
    assert ran(2, "wait") == [result, "0", "1", "1"], "found as a draft, and kept anew"
    assert ran(2, "wait") == [result, "0", "1", "0"], "found as it should be"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks_and_ends() -> None:
    """A process that forks, and then ends, while its drafts wait, or are compiled."""
    ran(2, "fork")


FORKS = """
import os, signal, sys, threading, time
import weft
from llvmlite.binding import ffi

function = weft.compile(lambda a: (a * 1.75).tanh().sum(), backend="native")
a = weft.arange(24.0)
function(a)
inside = threading.Event()

def compiling():
    with ffi.lib._lock:  # as while any function of LLVM runs
        inside.set()
        time.sleep(0.05)

thread = threading.Thread(target=compiling)
thread.start()
inside.wait()
child = os.fork()
if not child:
    other = weft.compile(lambda a: (a * 1.125).cosh().sum(), backend="native")
    other(a)
    os._exit(0)
for _ in range(6000):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        break
    time.sleep(0.01)
else:
    os.kill(child, signal.SIGKILL)
    sys.exit("the child hangs")
assert status == 0
thread.join()
function(weft.ones(3, 5))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks_while_another_thread_is_in_llvm() -> None:
    environment = dict(os.environ, WEFT_CACHE="0")
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


HANDLED = """
import faulthandler, signal, sys
import llvmlite.binding
import weft

faulthandler.dump_traceback_later(60, exit=True)
x = weft.arange(24.0)

def handle(number, frame):
    weft.compile(lambda a: (a * 1.125).cosh().sum(), backend="native")(x)

signal.signal(signal.SIGUSR1, handle)

def profile(frame, event, value):
    if event == "c_return" and frame.f_code.co_qualname == "_LLVMLock.__enter__":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGUSR1)

sys.setprofile(profile)
llvmlite.binding.get_default_triple()  # who uses it beside us
assert sys.getprofile() is None
"""
LIMITED = """
import faulthandler, resource, warnings
import weft

faulthandler.dump_traceback_later(60, exit=True)
x = weft.arange(24.0)
weft.compile(lambda a: (a * 1.125).cosh().sum(), backend="native")(x)
size = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmSize"))
function = lambda a: (a * 1.75).tanh().sum()
for number, left in enumerate((0, 100, 1000, 3000, 6000, 20000)):
    resource.setrlimit(resource.RLIMIT_AS, (size + (left << 10), resource.RLIM_INFINITY))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weft.compile(lambda a, n=number: (a * 1.75 * n).tanh().sum(), backend="native")(x)
    except MemoryError:
        pass
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
compiled = weft.compile(function, backend="native", fullgraph=True)
weft.testing.assert_close(compiled(x), function(x))
"""


@pytest.mark.parametrize("script", [HANDLED, LIMITED], ids=["a handler on top of LLVM", "little memory"])
def test_what_llvm_must_not_meet(script: str) -> None:
    """A lock that the interrupted code has taken, and memory too short: it would wait for ever, and abort."""
    environment = dict(os.environ, WEFT_CACHE="0")
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Late(BaseException):
    pass


def test_interrupts_leave_the_lock_free() -> None:
    """Wherever one strikes while a program asks to be improved, in lines of Python's own, too: others may."""

    class Owner:
        def improve(self) -> None:
            pass

    owner, left = Owner(), [0]

    def profile(_frame: Any, event: str, _value: Any) -> None:
        left[0] -= event in ("call", "c_return")  # where handlers of signals run
        if not left[0]:
            sys.setprofile(None)
            raise Late

    for point in range(1, 200):
        left[0] = point
        try:
            sys.setprofile(profile)
            tiers.ask(owner)
        except Late:
            pass
        finally:
            sys.setprofile(None)
        other = threading.Thread(target=tiers.ask, args=(owner,), daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive(), point
        tiers.wait()
        if left[0] > 0:
            break
    assert 5 < point < 199


@pytest.mark.parametrize("count", [1, 2])
def test_drafts_are_replaced_though_who_asks_is_struck(count: int) -> None:
    """As by what another thread raises: `threading.Thread.start`, so interrupted, waited for ever."""
    point = 1
    while True:
        improved = threading.Event()
        owner, files = Owner(improved.set), (tiers.__file__, threads.__file__, threading.__file__)
        came = struck(partial(tiers.ask, owner), point, count, files)
        if not came:
            break
        assert not tiers._lock._is_owned() and tiers._lock.acquire(timeout=10)
        tiers._lock.release()
        tiers.ask(owner)
        assert improved.wait(10)
        tiers.wait()
        point += 1
    assert point > 5


class Owner:
    """Of a draft. Weak references to it are possible."""

    def __init__(self, improve: Callable[[], None]) -> None:
        self.improve = improve


FORKING = """
import os, threading
import llvmlite.binding as llvm
import weft
from weft.core import forks

weft.compile(lambda a: (a * 1.125).cosh().sum(), backend="native")(weft.arange(24.0))
states = []
def ask():
    llvm.get_default_triple()
def is_free():
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()
def fork():
    child = os.fork()
    if child == 0:
        os._exit(not is_free())
    states.append(os.waitpid(child, 0)[1])
def once():
    if not states:
        states.append(0)
        fork()  # as a finalizer that the collector runs in a hook
forks.around(once, int, int)
fork()
assert is_free() and states == [0, 0, 0], states
"""


def test_a_fork_in_a_hook_of_another_one_leaves_llvm() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    assert subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr == ""
