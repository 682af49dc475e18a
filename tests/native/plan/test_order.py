"""Programs that write their inputs: values, versions and order, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.native.cpu import pool
from weft.native.cpu.runner import Runner
from weft.native.ir.definitions import Definition, Given, Point
from weft.native.plan.build import Built
from weft.native.plan.order import bunches, copy_of, copying, is_dense, is_python, wished, writes_of
from weft.testing import assert_close


def momentum(p: Any, g: Any, m: Any) -> Any:
    m.mul_(0.9).add_(g)
    p.sub_(m * 0.1)
    return (p * p).sum()


def handed_on(p: Any, q: Any, m: Any) -> None:
    p.copy_(q)
    q.add_(1)
    m.add_(p.sum())


def swapped(p: Any, q: Any, m: Any) -> Any:
    t = p.clone()
    p.copy_(q)
    q.copy_(t)
    m.copy_(m.flip(0))
    return t.sort()[0]


def by_parts(p: Any, q: Any, m: Any) -> Any:
    p[1:].add_(q[:-1])
    q.add_(q.mean())
    m[:, 1].mul_(2)
    return q


def with_array_kernels(p: Any, q: Any, m: Any) -> None:
    p.add_(q)
    values, _ = p.sort()
    q.add_(values)
    m.mul_(q)


def by_rows(p: Any, q: Any, m: Any) -> Any:
    p.sub_(p.mean(1, keepdim=True)).div_(p.std(1, keepdim=True))
    q.copy_(weft.softmax(q, 1))
    m.add_(m.amax(0))
    return p + q


def read_by_others(p: Any, q: Any, m: Any) -> Any:
    old = p * 2
    p.add_(q)
    q.mul_(old)
    m.copy_(m @ (p.t() @ q))
    return old, p.sum()


PROGRAMS = [momentum, handed_on, swapped, by_parts, with_array_kernels, by_rows, read_by_others]


def tensors(layout: int) -> list[weft.Tensor]:
    weft.manual_seed(1)
    if layout == 0:
        return [weft.randn(7, 5) for _ in range(3)]
    if layout == 1:
        return [weft.randn(5, 7).t() for _ in range(3)]
    if layout == 2:
        return [weft.randn(5, 5).t(), weft.randn(5, 5), weft.randn(5, 5).t()]
    return [weft.randn(14, 5)[::2] for _ in range(3)]


@pytest.mark.parametrize("layout", [0, 1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_versions_are_eagers(program: Callable[..., Any], layout: int) -> None:
    results = []
    for function in (program, weft.compile(program, backend="native", fullgraph=True)):
        inputs = tensors(layout)
        outputs = [function(*inputs) for _ in range(3)]
        outputs = [each if each is not None else 0 for each in outputs]
        results.append((outputs, inputs, [each._version for each in inputs]))
    assert_close(results[0][:2], results[1][:2])
    assert results[0][2] == results[1][2]


def made(programs: list[Runner], program: Callable[..., Any]) -> Runner:
    """The program that a function's graph becomes."""
    weft.compile(program, backend="native", fullgraph=True)(*tensors(0))
    return programs[-1]


def test_elements_are_written_where_they_lie(programs: list[Runner]) -> None:
    program = made(programs, momentum)
    assert [number for _, number in program.written] == [0, 2]
    assert not any("copied" in reason for reason in program.program.listing.reasons)
    assert program.frame is not None and program.frame.written == program.written
    assert len(program.made) == 1  # the sum: new values of inputs need no arrays


def test_nothing_that_can_fail_comes_after_a_write(programs: list[Runner]) -> None:
    for function in (with_array_kernels, swapped):
        program = made(programs, function)
        assert len(program.written) == 3
        steps = program.program.listing.steps
        last = max(number for number, step in enumerate(steps) if is_python(step))
        for number, step in enumerate(steps):
            writes = any(id(value) in program.program.listing.homes for value in writes_of(step))
            assert number > last or not writes


def test_what_fails_has_written_as_eager_does() -> None:
    def f(p: Any, q: Any, index: Any) -> None:
        p.add_(1)
        q.add_(p[index])

    p, q = weft.zeros(4), weft.zeros(2)
    compiled = weft.compile(f, backend="native", fullgraph=True)
    compiled(p, q, weft.tensor([0, 1]))
    assert_close((p, q), (weft.ones(4), weft.ones(2)))
    with pytest.raises(IndexError):
        compiled(p, q, weft.tensor([0, 9]))
    with pytest.raises(IndexError):
        f(weft.zeros(4), weft.zeros(2), weft.tensor([0, 9]))
    assert p._version == 2  # eager's own: the first op of the second call has written


def test_inputs_that_programs_may_not_write() -> None:
    def f(p: Any, q: Any) -> None:
        p.add_(q)

    compiled = weft.compile(f, backend="native", fullgraph=True)
    compiled(weft.zeros(4), weft.ones(4))
    base = weft.zeros(8)
    compiled(base[:4], base[2:6] + 1)
    assert base.tolist() == [1] * 4 + [0] * 4
    raw = np.zeros(17, np.uint8)[1:].view(np.float32)
    tensor = weft.from_numpy(raw)
    compiled(tensor, weft.ones(4))
    assert raw.tolist() == [1] * 4


def test_inputs_whose_elements_coincide_are_not_written_by_programs() -> None:
    assert is_dense(Given(shape=(2, 3), type="f32", strides=(3, 1)))
    assert is_dense(Given(shape=(2, 3), type="f32", strides=(-1, 2)))
    assert not is_dense(Given(shape=(2, 3), type="f32", strides=(0, 1)))
    assert not is_dense(Given(shape=(2, 3), type="f32", strides=(2, 1)))
    assert is_dense(Given(shape=(1, 3), type="f32", strides=(0, 1)))


def test_old_values_that_are_given_out_are_copied_before() -> None:
    old, new = Given(shape=(3,), type="f32", input=0), Given(shape=(3,), type="f32", input=1)
    made = Point(shape=(3,), type="f32", operands=[old], make=lambda b, values, place: values[0])
    outputs, written = wished([made, old, made], [old, new], [(0, 0), (1, 2)])
    assert outputs[0] is made and written[0] == (made, old)
    assert outputs[1] is not old and isinstance(outputs[1], Point)
    assert outputs[2] is not made and written[2][1] is new


def test_small_steps_that_need_nothing_of_each_other_run_together() -> None:
    def many(*tensors: Any) -> None:
        for p, g in zip(tensors[::2], tensors[1::2]):
            p.sub_(weft.tanh(g) * 0.1)

    weft.manual_seed(0)
    given = [weft.randn(400 + number) for number in range(80) for _ in range(2)]
    results = []
    before = list(pool._pool)
    for function, threads in ((many, 1), (weft.compile(many, backend="native", fullgraph=True), 3)):
        pool._pool[:] = [pool.Pool(threads)]
        weft.compiler.reset()
        tensors = [each.clone() for each in given]
        for _ in range(50):
            function(*tensors)
        results.append(tensors)
        pool._pool[0].close()
    pool._pool[:] = before
    weft.compiler.reset()
    assert_close(results[0], results[1])


def test_what_runs_together_has_memory_apart() -> None:
    givens = [Given(shape=(40_000,), type="f32", input=number) for number in range(4)]

    def step(value: Definition) -> Built:
        return copying(copy_of(value))

    steps = [step(each) for each in givens]
    results = [next(writes_of(each)) for each in steps]
    again = [step(each) for each in results]
    works = [10_000] * 8
    assert [each[:2] for each in bunches([*steps, *again], works, {})] == [(0, 4), (4, 4)]
    homes = {id(results[1]): givens[0]}  # which the first step reads
    assert [each[:2] for each in bunches(steps, works, homes)] == [(1, 3)]
    homes = {id(results[0]): givens[0]}
    assert not list(bunches([steps[0], step(results[0])], [20_000] * 2, homes))  # it reads what was written
    assert not list(bunches(steps, [1_000] * 4, {})) and not list(bunches(steps, [90_000] * 4, {}))


def real_part(z: weft.Tensor) -> weft.Tensor:
    z.real.mul_(2)
    return z.abs()


def both_parts(z: weft.Tensor) -> tuple[weft.Tensor, ...]:
    z.real.mul_(2)
    z.imag[0] = 5
    return z.conj() * z, z.abs(), z.real


def as_pairs(z: weft.Tensor) -> weft.Tensor:
    weft.view_as_real(z).add_(1)
    return z * 2


def whole(z: weft.Tensor) -> weft.Tensor:
    z.mul_(2j)
    z[1:].sub_(1)
    return z


def fresh(z: weft.Tensor) -> weft.Tensor:
    made = z * 1
    made.imag.zero_()
    made.real[1:] += z.imag[1:]
    return made


@pytest.mark.parametrize("kind", [weft.complex64, weft.complex128])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("function", [real_part, both_parts, as_pairs, whole, fresh])
def test_complex_inputs_are_written(function: Any, turned: bool, kind: Any) -> None:
    def given() -> weft.Tensor:
        values = weft.arange(12.0).reshape(3, 4)
        z = weft.complex(values, values + 1).to(kind)
        return z.t() if turned else z

    def parts(value: Any) -> list[Any]:
        return [each.tolist() for each in (value if isinstance(value, tuple) else (value,))]

    expected, theirs = given(), given()
    result = function(expected)
    for backend in ("native", "aot_eager", "reference"):
        compiled = weft.compile(function, backend=backend)
        for _ in range(4):  # the last ones by a native entry
            theirs = given()
            assert parts(compiled(theirs)) == parts(result)
            assert theirs.tolist() == expected.tolist() and theirs.stride() == expected.stride()
