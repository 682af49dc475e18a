"""Calls of programs with whatever a user may pass: nothing faults, and results are eager's."""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.native import backend
from weft.native.cpu import pool
from weft.native.cpu import runner as programs
from weft.native.cpu.calls import is_known
from weft.native.cpu.runner import Runner
from weft.native.plan import memory
from weft.native.plan.memory import Block, Blocks
from weft.testing import assert_close

PAGE = mmap.PAGESIZE


# -- programs ------------------------------------------------------------------------------------------------
def pointwise(x: Any, y: Any) -> Any:
    return (x * y + weft.sin(x)) / (y * y + 1), x > y


def rows(x: Any, y: Any) -> Any:
    return F.softmax(x * 2, -1) + y.sum(-1, keepdim=True), x.amax(0), (x * y).mean()


def views(x: Any, y: Any) -> Any:
    return x.t()[1:, ::2] + 1, y.flip(0) * x, x.reshape(-1)[3:] - 1


def products(x: Any, y: Any) -> Any:
    return x @ y.t(), x.t() @ y, (x.unsqueeze(0) @ y.t()).relu(), F.gelu(x @ y.t()) @ x


def normed(x: Any, y: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:]), F.log_softmax(y, 0), x.var(0), (x - x.mean(1, keepdim=True)).std()


def written(x: Any, y: Any) -> Any:
    x.mul_(y).add_(1)
    y.copy_(x.sum(-1, keepdim=True) + y)
    return x * 2


def with_array_kernels(x: Any, y: Any) -> Any:
    values, places = (x * 2).sort(dim=-1)
    y.add_(values)
    return y.cumsum(0) * 2, places


PROGRAMS = [pointwise, rows, views, products, normed, written, with_array_kernels]


# -- guard pages ---------------------------------------------------------------------------------------------
class Guarded:
    """Memory that ends, or begins, at a page that may not be touched."""

    def __init__(self, size: int, at_end: bool) -> None:
        pages = max(-(-size // PAGE), 1)
        self.map = mmap.mmap(-1, (pages + 2) * PAGE)
        held = ctypes.c_char.from_buffer(self.map)
        start = ctypes.addressof(held)
        del held
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for page in (start, start + (pages + 1) * PAGE):
            assert protect(page, PAGE, 0) == 0
        self.address = start + PAGE + (pages * PAGE - size if at_end else 0)
        self.size = size

    def array(self, shape: tuple[int, ...], kind: Any) -> Any:
        whole = np.frombuffer(self.map, np.uint8)
        base = whole.__array_interface__["data"][0]
        return (
            np.ndarray(shape, kind, whole[self.address - base :].data) if self.size else np.empty(shape, kind)
        )


@pytest.fixture(params=["end", "start"])
def guarded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Outputs and blocks lie against guard pages; gives a function that makes such arrays."""
    at_end = request.param == "end"
    kept: list[Guarded] = []

    def empty(shape: Any, kind: Any = np.float64) -> Any:
        kept.append(Guarded(int(np.prod(shape)) * np.dtype(kind).itemsize, at_end))
        return kept[-1].array(tuple(shape), kind)

    class Narrow(Block):
        def __init__(self, room: int) -> None:
            held = Guarded(room, at_end)
            kept.append(held)
            self.array, self.address, self.room = held.array((room,), np.uint8), held.address, room

    class Exact(Blocks):
        def take(self, size: int) -> Block:
            return Narrow(memory.aligned(size))

        def give(self, block: Block) -> None:
            pass

    class Made:
        """NumPy, with `empty` of ours."""

        def __getattr__(self, name: str) -> Any:
            return empty if name == "empty" else getattr(np, name)

    monkeypatch.setattr(programs, "blocks", Exact())
    monkeypatch.setattr(programs, "np", Made())
    yield empty
    kept.clear()


def lent(make: Callable[..., Any], shape: tuple[int, int]) -> list[Any]:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(2):
        array = make(shape, np.float32)
        array[...] = generator.standard_normal(shape)
        found.append(array)
    return found


@pytest.mark.parametrize("shape", [(5, 7), (3, 33), (64, 16), (1, 1), (17, 130)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_nothing_outside_of_buffers_is_touched(
    program: Callable[..., Any], shape: tuple[int, int], guarded: Callable[..., Any], monkeypatch: Any
) -> None:
    found: list[Runner] = []
    before = Runner.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")  # programs are made, not read
    monkeypatch.setattr(Runner, "__init__", noted)
    if program is normed and shape == (1, 1):
        pytest.skip("variances of one element")
    weft.compiler.reset()
    compiled = weft.compile(program, backend="native", fullgraph=True)
    expected_inputs = [weft.from_numpy(array) for array in lent(np.empty, shape)]
    expected = program(*expected_inputs)
    compiled(*[weft.from_numpy(array) for array in lent(np.empty, shape)])
    assert found
    for each in found:  # entries have memory of their own: programs are called as they are
        arrays = lent(guarded, shape)
        if each.inputs == 2:
            each(arrays)
            if program is written:
                assert_close(weft.from_numpy(arrays[0].copy()), expected_inputs[0])
    results = compiled(*[weft.from_numpy(a) for a in lent(guarded, shape)])
    assert_close(results, expected, rtol=1e-4, atol=1e-4)


# -- odd inputs ----------------------------------------------------------------------------------------------
def both(program: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    """Eager and compiled calls, on inputs that are made twice."""
    weft.compiler.reset()
    compiled = weft.compile(program, backend="native", fullgraph=True)
    inputs, others = make(), make()
    assert_close(compiled(*others), program(*inputs), equal_nan=True)
    assert_close(others, inputs)


def test_misaligned_arrays() -> None:
    def make() -> tuple[Any, ...]:
        raw = np.arange(41, dtype=np.uint8)[1:].view(np.float32)
        return weft.from_numpy(raw.reshape(2, 5)), weft.ones(2, 5)

    for program in (pointwise, written, rows):
        both(program, make)


def test_arrays_of_fields() -> None:
    def make() -> tuple[Any, ...]:
        table = np.zeros(12, np.dtype([("name", "u1"), ("value", "f8"), ("other", "f4")], align=False))
        table["value"] = np.arange(12)
        x = weft.ones(3, 4, dtype=weft.float64)
        x.array = table["value"].reshape(3, 4)
        return x, weft.ones(3, 4, dtype=weft.float64)

    for program in (pointwise, written, rows):
        both(program, make)


def test_subclasses_of_arrays(tmp_path: Any) -> None:
    class Own(np.ndarray):
        pass

    def make() -> tuple[Any, ...]:
        return weft.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3).view(Own)), weft.ones(2, 3)

    for program in (pointwise, rows):
        both(program, make)


def test_read_only_arrays_are_read() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    array.flags.writeable = False
    x = weft.ones(2, 3)
    x.array = array
    compiled = weft.compile(pointwise, backend="native", fullgraph=True)
    assert_close(compiled(x, weft.ones(2, 3)), pointwise(x, weft.ones(2, 3)))


def test_dtypes_that_were_read_from_files() -> None:
    kind = pickle.loads(pickle.dumps(np.dtype(np.float32)))
    twin = np.ndarray((2, 3), kind, np.arange(6, dtype=np.float32).data)
    layout = backend.Layout(lambda value: value, lambda array: array)
    assert backend.plain(twin).dtype is np.dtype(np.float32)
    assert backend.key_of(0.0) is backend.key_of(1.0)
    assert backend.key_of(np.float64(0.0)) != backend.key_of(np.float64(-0.0))
    assert backend.key_of(complex("nan")) == backend.key_of(complex("nan"))
    assert backend.key_of((1, 2.0)) != backend.key_of((1.0, 2.0))
    assert layout.wrap(twin) is twin


def test_nothing_and_one() -> None:
    for shape in ((0, 3), (3, 0), (0, 0), (1, 1), (1, 5), (5, 1)):
        for program in (pointwise, written, with_array_kernels):
            both(program, lambda shape=shape: (weft.ones(*shape), weft.ones(*shape) * 2))  # type: ignore[misc]


def test_sizes_that_no_machine_has() -> None:
    def f(x: Any) -> Any:
        return x.expand(1 << 40, 1 << 16) + 1

    with pytest.raises(Exception, match=r"(?i)allocate|large|memory|big"):
        weft.compile(f, backend="native")(weft.ones(1))


def test_broadcast_inputs() -> None:
    def make() -> tuple[Any, ...]:
        return weft.arange(3.0).expand(4, 3), weft.ones(4, 1).expand(4, 3) * 2

    for program in (pointwise, rows, products):
        both(program, make)


# -- threads and processes -----------------------------------------------------------------------------------
def test_calls_from_several_threads() -> None:
    compiled = [weft.compile(program, backend="native", fullgraph=True) for program in PROGRAMS]
    weft.manual_seed(0)
    given = [(weft.randn(40, 30), weft.randn(40, 30)) for _ in range(4)]

    def results(number: int, functions: list[Any]) -> Any:
        return [function(given[number][0].clone(), given[number][1].clone()) for function in functions]

    expected = [results(number, PROGRAMS) for number in range(4)]
    for function in compiled:
        function(given[0][0].clone(), given[0][1].clone())
    found: dict[int, list[Any]] = {number: [] for number in range(4)}
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(8):
                found[number].append(results(number, compiled))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for number in range(4):
        for each in found[number]:
            assert_close(each, expected[number], rtol=1e-4, atol=1e-4)


def test_programs_within_programs() -> None:
    """A step of Python's may call a program, also the same one."""
    inner = weft.compile(rows, backend="native", fullgraph=True)
    x, y = weft.randn(6, 5), weft.randn(6, 5)
    expected = rows(x, y)

    class Nested(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return inner(a, y)[0]

    results = [inner(Nested.apply(x), y) for _ in range(3)]
    for each in results:
        assert_close(each, rows(expected[0], y))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_has_a_pool_of_its_own() -> None:
    compiled = weft.compile(products, backend="native", fullgraph=True)
    x, y = weft.randn(300, 200), weft.randn(300, 200)
    expected = [each.numpy().tobytes() for each in compiled(x, y)]
    parents = pool.pool()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = [each.numpy().tobytes() for each in compiled(x, y)] == expected
            code = 0 if same and pool.pool() is not parents else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert [each.numpy().tobytes() for each in compiled(x, y)] == expected


# -- bits ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_bits_do_not_depend_on_threads(program: Callable[..., Any]) -> None:
    x, y = weft.randn(500, 400), weft.randn(500, 400)
    results = []
    before = list(pool._pool)
    for threads in (1, 2, 3):
        pool._pool[:] = [pool.Pool(threads)]
        weft.compiler.reset()
        compiled = weft.compile(program, backend="native", fullgraph=True)
        for _ in range(3):
            inputs = x.clone(), y.clone()
            found = [*compiled(*inputs), *inputs]
            results.append([each.numpy().tobytes() for each in found])
        pool._pool[0].close()
    pool._pool[:] = before
    weft.compiler.reset()
    assert all(each == results[0] for each in results)


def test_other_layouts_of_objects_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_known()
    monkeypatch.setattr("weft.native.cpu.target.is_known", lambda: False)
    weft.compiler.reset()
    with pytest.raises(weft.compiler.NotCompiled, match="lays objects out in another way"):
        weft.compile(pointwise, backend="native", fullgraph=True)(weft.ones(2, 3), weft.ones(2, 3))
    weft.compiler.reset()
