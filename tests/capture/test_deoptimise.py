"""Failed graphs: when the original runs, and when it must not."""

from __future__ import annotations

import sys

import pytest

import weft
from weft.native.cpu import runner


def leave_no_more_than(left: int) -> None:
    """Sets the limit of recursion so that the caller may call as many functions in each other."""
    depth = 1
    while True:
        try:
            sys.setrecursionlimit(depth)
        except RecursionError:  # it is deeper
            depth += 1
        else:
            break
    sys.setrecursionlimit(depth + left)


@pytest.mark.parametrize("backend", ["native", "aot_eager", "eager"])
def test_where_stack_is_short_nothing_is_written_twice(backend: str) -> None:
    """What fails behind the writes for want of stack must not run as written: it writes as well."""

    def f(x: weft.Tensor, count: weft.Tensor) -> weft.Tensor:
        count.add_(1)
        y = x.sin()
        print(end="")
        return y.sum(0)

    x, limit, raised = weft.ones(3, requires_grad=True), sys.getrecursionlimit(), 0
    for left in range(2, 28):
        compiled, count = weft.compile(f, backend=backend), weft.zeros(4)
        for _ in range(2):
            compiled(x, count)
        least = 2
        try:
            leave_no_more_than(left)
            compiled(x, count)
            least = 3
        except RecursionError:
            raised += 1
        finally:
            sys.setrecursionlimit(limit)
        assert least <= count[0].item() <= 3, left
        assert (count == count[0]).all()
    assert raised


def test_where_memory_is_short_nothing_is_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: weft.Tensor, count: weft.Tensor) -> weft.Tensor:
        count.add_(1)
        return x.sin().sum(0)

    def fail(*_args: object) -> None:
        raise MemoryError

    compiled, x, count = weft.compile(f), weft.ones(3), weft.zeros(4)
    compiled(x, count)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "found", fail)
        with pytest.raises(MemoryError):
            compiled(x, count)
    assert count.tolist() == [2.0] * 4
