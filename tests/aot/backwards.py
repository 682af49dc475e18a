"""Programs run with and without compiled autograd, from equal beginnings, and what they yield compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft.compiler import compiled_autograd, counters, lookup_backend, reset, settings
from weft.testing import assert_close

Compiler = Callable[[Any], Callable[..., Any]]


def as_it_is(module: Any) -> Callable[..., Any]:
    return module  # type: ignore[no-any-return]


def compiler(backend: str = "eager", fullgraph: bool = True, dynamic: bool | None = True) -> Compiler:
    """`weft.compile`, counting how often the backend is called."""

    def compile_graph(module: Any) -> Callable[..., Any]:
        def counted(graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
            counters["compiled_autograd"]["compiles"] += 1
            return lookup_backend(backend)(graph_module, example_inputs)

        made: Callable[..., Any] = weft.compile(module, backend=counted, fullgraph=fullgraph, dynamic=dynamic)
        return made

    return compile_graph


EAGER, AOT = compiler("eager"), compiler("aot_eager")
WITH_BREAKS = compiler("eager", fullgraph=False)
COMPILERS = pytest.mark.parametrize(
    "compile_graph", [as_it_is, EAGER, AOT, WITH_BREAKS], ids=["as_it_is", "eager", "aot_eager", "breaks"]
)


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    reset()
    counters.clear()
    compiled_autograd.reasons.clear()
    before = settings.strict
    settings.strict = True
    yield
    settings.strict = before
    settings.compiled_autograd = False
    reset()


def check(
    program: Callable[[], Any], compile_graph: Compiler, captures: int = 1, compiles: Any = None
) -> None:
    """Asserts that what a generator function yields is the same with and without compiled autograd."""
    weft.manual_seed(7)
    expected = [copied(value) for value in program()]
    weft.manual_seed(7)
    with compiled_autograd.enable(compile_graph):
        actual = [copied(value) for value in program()]
    assert len(expected) == len(actual) > 0
    for a, b in zip(expected, actual, strict=True):
        if isinstance(a, weft.Tensor):
            assert_close(b, a)
            assert b.stride() == a.stride()
        else:
            assert a == b
    counted = counters["compiled_autograd"]
    assert (counted["captures"], compiled_autograd.reasons) == (captures, [])
    if compiles is not None and compile_graph is not as_it_is:
        assert counted["compiles"] == compiles


def native(program: Callable[[], Any], reason: str, compile_graph: Compiler = EAGER) -> None:
    """Asserts that a program gives the same, and that some of its backwards ran natively for this reason."""
    expected = [copied(value) for value in program()]
    with compiled_autograd.enable(compile_graph):
        actual = [copied(value) for value in program()]
    for a, b in zip(expected, actual, strict=True):
        assert_close(b, a)
    assert reason in compiled_autograd.reasons


def copied(value: Any) -> Any:
    """A value as it is now: later steps may add to gradients in place."""
    return weft.tensor(value.detach().numpy().copy()) if value_is_dense(value) else value


def value_is_dense(value: Any) -> bool:
    return isinstance(value, weft.Tensor) and value.is_contiguous()


def model() -> Any:
    return weft.nn.Sequential(weft.nn.Linear(4, 4), weft.nn.ReLU(), weft.nn.Linear(4, 3), weft.nn.Tanh())


def gradients(module: Any) -> list[Any]:
    return [parameter.grad for parameter in module.parameters()]
