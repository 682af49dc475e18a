"""Random programs that write their inputs, views of them and values on the way, against eager."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from weft.core.settings import settings as weft_settings
from weft.testing import assert_close

Instruction = tuple[str, int, int, int]

MAKING = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sub": lambda a, b: a - b * 0.5,
    "tanh": lambda a, b: weft.tanh(a),
    "rows": lambda a, b: a - b.mean(-1, keepdim=True),
    "columns": lambda a, b: a + b.amax(0),
    "softmax": lambda a, b: weft.softmax(a, -1) * b,
    "turned": lambda a, b: a.flip(0) + b.flip(1),
    "sorted": lambda a, b: a.sort(dim=-1)[0] + b,
    "square": lambda a, b: (a @ b.t()) @ b * 0.1,
    "scan": lambda a, b: a.cumsum(0) * 0.1,
    "total": lambda a, b: a * b.sum().item() * 0.01,
    "where": lambda a, b: weft.where(a > b, a, b),
    "clone": lambda a, b: a.clone(),
}
WRITING = {
    "add_": lambda a, b: a.add_(b, alpha=0.5),
    "mul_": lambda a, b: a.mul_(weft.tanh(b)),
    "copy_": lambda a, b: a.copy_(b),
    "row_": lambda a, b: a[1].sub_(b[0]),
    "rows_": lambda a, b: a[::2].mul_(0.5),
    "column_": lambda a, b: a[:, 0].copy_(b[:, 1]),
    "normed_": lambda a, b: a.sub_(a.mean(1, keepdim=True)),
    "turned_": lambda a, b: a.copy_(a.flip(0)),
    "fill_": lambda a, b: a[2:].fill_(0.25),
    "sorted_": lambda a, b: a.copy_(b.sort(dim=-1)[0]),
    "lerp_": lambda a, b: a.lerp_(b, 0.1),
}


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fallbacks are errors."""
    monkeypatch.setattr(weft_settings, "strict", True)


@st.composite
def programs(draw: Any) -> list[Instruction]:
    """Instructions: a name, which values it takes, and whether what it makes is given out."""
    count = 3
    found: list[Instruction] = []
    for _ in range(draw(st.integers(1, 9))):
        name = draw(st.sampled_from([*MAKING, *WRITING]))
        left, right = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if name in WRITING and left == right and name in ("row_", "column_"):
            right = (left + 1) % 3
        found.append((name, left, right, draw(st.integers(0, 1))))
        count += name in MAKING
    return found


def run(program: list[Instruction], inputs: list[Any]) -> list[Any]:
    values, given_out = list(inputs), []
    for name, left, right, out in program:
        if name in MAKING:
            values.append(MAKING[name](values[left], values[right]))
            if out:
                given_out.append(values[-1])
        else:
            WRITING[name](values[left], values[right])
    return given_out


def tensors(layout: int) -> list[Any]:
    weft.manual_seed(5)
    if layout == 0:
        return [weft.randn(4, 6) for _ in range(3)]
    if layout == 1:
        return [weft.randn(6, 4).t() for _ in range(3)]
    if layout == 2:
        return [weft.randn(5, 5), weft.randn(5, 5).t(), weft.randn(10, 5)[::2]]
    return [weft.randn(4, 6), weft.randn(8, 12)[::2, ::2], weft.randn(6, 4).t()]


@given(programs(), st.integers(0, 3))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_values_versions_and_identities_are_eagers(program: list[Instruction], layout: int) -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        return run(program, [a, b, c])

    weft.compiler.reset()
    compiled = weft.compile(function, backend="native", fullgraph=True)
    eager, ours = tensors(layout), tensors(layout)
    for _ in range(3):
        expected, found = function(*eager), compiled(*ours)
        assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert_close(ours, eager, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert [t._version for t in ours] == [t._version for t in eager]
        for each in (*ours, *eager):
            each.mul_(0.1)
    kept = [each.clone() for each in found]
    compiled(*tensors(layout))
    assert_close(kept, found, rtol=0, atol=0, equal_nan=True)  # nobody writes what was given out
