"""Where NaN and infinities come from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import weft
from weft.core.settings import settings
from weft.testing import assert_close


@pytest.fixture(autouse=True)
def tracing() -> Iterator[None]:
    settings.nan_trace = True
    yield
    settings.nan_trace = False


def f(x: weft.Tensor) -> weft.Tensor:
    y = weft.softmax(x, -1)
    z = weft.log(y - 0.25)
    return (z @ z.t()).sum()


def test_the_line_is_named() -> None:
    compiled = weft.compile(f, backend="native", fullgraph=True)
    x = weft.eye(4)
    with pytest.warns(RuntimeWarning, match="NaN comes from log") as seen:
        assert compiled(x).isnan()
    (warned,) = seen
    line = f.__code__.co_firstlineno + 2
    text = str(warned.message)
    assert text.startswith("NaN comes from log (") and text.count("test_nan_trace.py") == 1
    assert f"test_nan_trace.py:{line} in f" in text and "WEFT_DEBUG=step" in text
    assert warned.filename == __file__


def test_infinities() -> None:
    compiled = weft.compile(lambda x: (1 / x).sum(), backend="native", fullgraph=True)
    with pytest.warns(RuntimeWarning, match="an infinity comes from"):
        compiled(weft.zeros(3))


def test_finite_numbers_are_silent() -> None:
    compiled = weft.compile(f, backend="native", fullgraph=True)
    x = weft.zeros(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(compiled(x), f(x))


def test_numbers_that_were_given_are_not_blamed() -> None:
    compiled = weft.compile(lambda x: (x * 2).sum(), backend="native", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(weft.tensor([1.0, float("nan")])).isnan()
        assert compiled(weft.tensor([1.0, float("inf")])).isinf()


def test_gradients_stand_where_they_belong() -> None:
    def g(x: weft.Tensor) -> weft.Tensor:
        y = weft.sqrt(x)
        return (y * 2).sum()

    x = weft.zeros(3, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="an infinity comes from") as seen:
        weft.compile(g, backend="native", fullgraph=True)(x).backward()
    assert f"test_nan_trace.py:{g.__code__.co_firstlineno + 1} in g" in str(seen[0].message)


def test_functions_that_are_compiled_already() -> None:
    settings.nan_trace = False
    compiled = weft.compile(lambda x: weft.log(x).sum(), backend="native", fullgraph=True)
    compiled(weft.ones(3))
    settings.nan_trace = True
    with pytest.warns(RuntimeWarning, match="NaN comes from log"):
        compiled(-weft.ones(3))


def test_programs_are_those_of_their_sizes() -> None:
    compiled = weft.compile(lambda x: x.sin().cos().sum(0), backend="native", fullgraph=True, dynamic=True)
    for rows in (4, 4, 9, 2, 5, 6, 7, 8):
        x = weft.ones(rows, 4, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape
    with pytest.warns(RuntimeWarning, match="an infinity comes from"):
        weft.compile(lambda x: (1 / x).sum(), backend="native", dynamic=True)(weft.zeros(3))


def test_one_op_of_a_step_that_does_many() -> None:
    """The kernel does all of this; the first op at fault is named, and its line alone."""

    def many(x: weft.Tensor) -> weft.Tensor:
        a = (x * 2).abs() - 0.5
        b = a.sqrt()
        return (b.exp() + a).mean()

    compiled = weft.compile(many, backend="native", fullgraph=True)
    with pytest.warns(RuntimeWarning) as seen:
        compiled(weft.tensor([0.1, 3.0])).isnan()
    line = many.__code__.co_firstlineno + 2
    assert f"NaN comes from sqrt ({__file__}:{line} in many)" in str(seen[0].message)


def test_inputs_that_are_written_are_looked_at_as_they_were() -> None:
    def writes(x: weft.Tensor) -> None:
        x.sub_(1)
        x.log_()

    x = weft.tensor([0.5, 2.0])
    with pytest.warns(RuntimeWarning, match="NaN comes from log"):
        weft.compile(writes, backend="native", fullgraph=True)(x)
    assert x.isnan().tolist() == [True, False]


def test_what_is_drawn_is_not_drawn_again() -> None:
    def noisy(x: weft.Tensor) -> weft.Tensor:
        return (weft.rand(3) - 2 + x).sqrt()

    weft.manual_seed(3)
    expected = weft.rand(3), weft.rand(3)
    weft.manual_seed(3)
    with pytest.warns(RuntimeWarning, match="NaN comes from step"):
        weft.compile(noisy, backend="native", fullgraph=True)(weft.zeros(3))
    assert weft.equal(weft.rand(3), expected[1])
