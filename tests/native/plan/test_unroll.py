"""Short loops that are written out give what the loops give, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.native.fenced import Fenced
from weft.native.plan import build
from weft.native.plan.build import Built
from weft.native.program.executable import Executable
from weft.testing import assert_close

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(-1),
    "product": lambda x: x.prod(-1),
    "greatest": lambda x: (x.amax(-1), x.argmin(-1)),
    "truth": lambda x: (x > 1).any(-1),
    "softmax": lambda x: weft.softmax(x, -1),
    "norm": lambda x: weft.nn.functional.layer_norm(x, (x.shape[-1],)),
    "spread": lambda x: x * x[..., :1] + x[..., -1:],
    "stacked": lambda x: weft.stack([x[..., 0], x[..., -1] + 1, x[..., 0] * 2], -1),
    "all": lambda x: ((x > x.amax(-1, keepdim=True) - 0.1).any(-1, keepdim=True) & (x > 0)).all(),
    "over all": lambda x: (x - x.sum(-1, keepdim=True)).amax(),
    "running": lambda x: x.cumsum(-1),
}


def given(rows: int, size: int, dtype: Any = weft.float32) -> Any:
    weft.manual_seed(size)
    return weft.randn(rows, size, dtype=dtype)


def compiled(program: Any, x: Any, **options: Any) -> Any:
    made = weft.compile(lambda x: program(x), backend="native", fullgraph=True, **options)(x)
    return made if isinstance(made, tuple) else (made,)


def bits(values: Any) -> list[bytes]:
    return [each.numpy().tobytes() for each in values]


pytestmark = pytest.mark.usefixtures("programs")  # which are made, not read


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [3, 8, 17, 32])
def test_bits_are_those_of_loops(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, dtype in ((8, weft.float64), (53, weft.float32)):
        x = given(rows, size, dtype)
        written_out = compiled(PROGRAMS[name], x)
        expected = PROGRAMS[name](x)
        assert_close(written_out, expected if isinstance(expected, tuple) else (expected,))
        with monkeypatch.context() as patch:
            patch.setattr(build, "unrolled", lambda *_: None)
            assert bits(compiled(PROGRAMS[name], x)) == bits(written_out)


def test_bits_do_not_depend_on_how_sums_over_all_rows_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    x = given(20_011, 3)

    def program(x: Any) -> Any:
        return (weft.softmax(x, -1) * x[:, :1]).sum()

    written_out = compiled(program, x)
    assert_close(written_out, (program(x.double()).float(),), rtol=1e-4, atol=1e-3)
    monkeypatch.setattr(build, "unrolled", lambda *_: None)
    assert bits(compiled(program, x)) == bits(written_out)


@pytest.mark.parametrize("name", ["sum", "softmax", "norm"])
def test_open_sizes_have_the_same_bits(name: str) -> None:
    function = weft.compile(lambda x: PROGRAMS[name](x), backend="native", dynamic=True)
    for rows, size in ((40, 5), (41, 7), (100, 20)):
        x = given(rows, size)
        assert bits([function(x)]) == bits(compiled(PROGRAMS[name], x, dynamic=False))


def steps_of(programs: list[Executable], program: Any, *inputs: Any) -> list[Any]:
    weft.compile(program, backend="native", fullgraph=True)(*inputs)
    return programs[-1].plan.steps


def test_vectors_run_over_rows(programs: list[Executable]) -> None:
    (step,) = steps_of(programs, lambda x: weft.softmax(x, -1), given(1000, 5))
    assert isinstance(step, Built) and step.sizes == (1000,)
    assert {access.apart for access in step.kernel.accesses} == {5}
    assert len({access.leader for access in step.kernel.accesses}) == 2
    (step,) = steps_of(programs, lambda x: weft.softmax(x, -1), given(1000, 500))
    assert step.sizes == (1000, 500)


def test_thin_products_are_kernels(programs: list[Executable]) -> None:
    a, b = weft.randn(50, 4, 4), weft.randn(50, 4, 4)
    (step,) = steps_of(programs, lambda a, b: weft.tanh(a @ b), a, b)
    assert isinstance(step, Built) and step.sizes == (50,)
    function = weft.compile(lambda a, b: weft.tanh(a @ b), backend="native")
    assert_close(function(a, b), weft.tanh(a @ b))
    points, turn = weft.randn(70, 3), weft.randn(3, 3)
    (step,) = steps_of(programs, lambda a, b: a @ b.t() + 1, points, turn)
    assert isinstance(step, Built)
    assert_close(
        weft.compile(lambda a, b: a @ b.t() + 1, backend="native")(points, turn), points @ turn.t() + 1
    )


def test_cross_products_are_kernels(programs: list[Executable]) -> None:
    a, b = weft.randn(70, 3), weft.randn(70, 3)
    (step,) = steps_of(programs, lambda a, b: weft.linalg.cross(a, b) * 2, a, b)
    assert isinstance(step, Built) and step.sizes == (70,)
    assert_close(weft.compile(weft.linalg.cross, backend="native")(a, b), weft.linalg.cross(a, b))


def test_copies_of_blocks_have_few_accesses(programs: list[Executable]) -> None:
    x = given(256, 16).reshape(16, 16, 16)
    (step,) = steps_of(programs, lambda x: x.transpose(1, 2).contiguous(), x)
    assert len(step.kernel.accesses) <= 128
    (step,) = steps_of(programs, lambda x: x.permute(2, 1, 0) + 1, given(32, 32).reshape(32, 8, 4))
    assert len(step.kernel.accesses) <= 128


def test_nothing_behind_the_last_element_is_read() -> None:
    fenced = Fenced(at_end=True)
    x = fenced.copy(given(64, 7).numpy())
    for place in range(7):
        seen = weft.from_numpy(x)[:, place : place + 2]
        made = weft.compile(lambda x: x.sum(-1) * 2, backend="native", dynamic=False)(seen)
        assert_close(made, seen.sum(-1) * 2)
    fenced.open()
