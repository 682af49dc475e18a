"""What is no op in graphs (numbers read from tensors, arithmetic on them, checks), and where rules are."""

from __future__ import annotations

import copy
import operator
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.native.lower
from weft.core.requirements import require
from weft.graph.graph import Graph
from weft.native.cpu.runner import Runner
from weft.native.cpu.target import cpu
from weft.native.ir.definitions import Definition, Opaque
from weft.native.lower import lowering as lower
from weft.native.lower.lowering import Lowering, Unlowered
from weft.native.plan.fuse import fused
from weft.native.program.planning import Planned, checks_of
from weft.native.program.program import Failed
from weft.ops.record import REGISTRY


def program(graph: Graph, arrays: list[Any]) -> Runner:
    made = Lowering(graph, arrays, cpu).run(lambda path: None)
    wanted = [value for value in made.outputs if isinstance(value, Definition)]
    plan = fused([*wanted, *made.checks, *checks_of(made.failures, cpu)])
    return cpu.executable(Planned(made.outputs, plan, {}), arrays)


def test_numbers_are_read_and_used_as_the_program_runs() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    number = graph.call_function(operator.neg, (graph.call_method("item", (x,)),))
    made = graph.call_function(weft.tensor, (number,))
    product = graph.call_function(REGISTRY["mul"], (made, number))
    for node in (made, product):
        node.meta["val"] = weft.tensor(0.0)
    graph.output((number, made, product))
    run = program(graph, [np.array(2.5, np.float32)])
    for value in (2.5, 4.0):
        number_, made_, product_ = run([np.array(value, np.float32)])
        assert type(number_) is float and number_ == -value
        assert made_.dtype == np.float32 and (made_, product_) == (-value, value * value)


def test_numbers_that_are_given_are_known() -> None:
    graph = Graph()
    x, size = graph.placeholder("x"), graph.placeholder("size")
    double = graph.call_function(operator.mul, (size, 2))
    total = graph.call_function(REGISTRY["add"], (x, double))
    total.meta["val"] = weft.zeros(3)
    graph.output((total,))
    lowering = Lowering(graph, [np.ones(3, np.float32), 4], cpu)
    assert not isinstance(lowering.run(lambda path: None).outputs[0], Opaque)
    (found,) = program(graph, [np.ones(3, np.float32), 4])([np.ones(3, np.float32), 4])
    np.testing.assert_array_equal(found, [9, 9, 9])


def test_checks_that_nobody_reads_are_made() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(require, (x, True, "here"))
    twice = graph.call_function(REGISTRY["add"], (x, x))
    twice.meta["val"] = weft.tensor(True)
    graph.output((twice,))
    run = program(graph, [np.array(True)])
    assert run([np.array(True)])[0]
    with pytest.raises(Failed):
        run([np.array(False)])


def test_what_is_spread_is_stored_once() -> None:
    seen: list[Any] = []

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 2
        y.register_hook(seen.append)
        return y.sum(1)

    for call in (f, weft.compile(f, backend="native", fullgraph=True)):
        x = weft.ones(3, 4, requires_grad=True)
        call(x).backward(weft.arange(3.0))
    assert [grad.stride() for grad in seen] == [(1, 0), (1, 0)]
    assert weft.equal(*seen)


def test_other_functions_are_refused() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(print, (x,)),))
    with pytest.raises(Unlowered, match="print"):
        program(graph, [3])


@pytest.mark.parametrize("kind", [weft.bfloat16, weft.complex64])
def test_numbers_that_bodies_do_not_know(kind: Any) -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return (x.t()[1:] * 2).sum(0) + x.float().mean()

    x = weft.ones(3, 4).to(kind) if kind is weft.bfloat16 else weft.ones(3, 4, dtype=kind)
    g = f if kind is weft.bfloat16 else lambda x: (x.t()[1:] * 2).sum(0)
    ours, theirs = weft.compile(g, backend="native", fullgraph=True)(x), g(x)
    assert ours.dtype is theirs.dtype and weft.equal(ours, theirs)


AT = weft.tensor([0, 9])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:0].index_put((AT,), weft.tensor(1.0)).sum(),
        lambda x: x[:0].index_add(0, AT, x).mean(),
        lambda x: x[:0].index_fill(0, AT, 2.0).t(),
        lambda x: x[:0].scatter(0, AT.reshape(1, 2), x).exp().sum(0),
        lambda x: (weft.linalg.inv(x * 0) * 2)[:, :0].sum(),
        lambda x: weft.linalg.solve(x * 0, x)[:0],
        lambda x: x.masked_scatter(x == x, weft.ones(1))[:0].sum(),
    ],
)
def test_errors_of_what_is_read_in_no_element(function: Any) -> None:
    """Compiled programs have them, too, though nothing of the result depends on such ops."""
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(weft.ones(2, 2))
    with pytest.raises(expected.type) as found:
        weft.compile(function, backend="native")(weft.ones(2, 2))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_failures_of_ops_whose_readers_give_no_elements_are_seen(backend: str) -> None:
    def writing() -> Any:
        v = weft.arange(4.0).expand(0, 4)
        try:
            v.index_put_((weft.tensor([0]),), weft.tensor(1.0))
        except IndexError:
            return "refused"
        return v

    def factored(x: Any) -> Any:
        return weft.linalg.cholesky(x)[:0]

    if backend != "eager":
        writing, factored = weft.compile(writing, backend=backend), weft.compile(factored, backend=backend)
    assert writing() == "refused"
    with pytest.raises(RuntimeError, match="not positive-definite"):
        factored(-weft.eye(2))


# -- where rules are found -----------------------------------------------------------------------------------
LATE = """
import sys
import weft

function = weft.compile(lambda a: (a * a).sum(), backend="native")
print(float(function(weft.ones(3))))
print(" ".join(name for name in sys.modules if name.startswith("weft.native.lower.")))
"""


FILES = {name: f"weft.native.lower.{op.lowering}" for name, op in REGISTRY.items() if op.lowering is not None}


def test_records_say_what_files_register() -> None:
    for module in set(FILES.values()):
        import_module(module)
    registered = {name: function.__module__ for name, function in lower.RULES.items()}
    elsewhere = {name for name, module in registered.items() if module == "weft.native.lower.lowering"}
    assert {name: module for name, module in FILES.items() if module != registered.get(name)} == {}
    assert set(registered) - elsewhere == set(FILES), "records of new rules have a field `lowering`"


def test_all_files_are_named_by_records() -> None:
    written = {
        f"weft.native.lower.{path.stem}"
        for path in Path(lower.__file__).parent.glob("*.py")
        if path.stem != "lowering" and "\n@rule(" in path.read_text()
    }
    assert written <= set(FILES.values())


def test_files_are_loaded_on_demand() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=True)
    result, loaded = done.stdout.splitlines()
    assert result == "3.0"
    assert "weft.native.lower.folds" in loaded.split()
    assert "weft.native.lower.conv" not in loaded.split()


SLOW = """
import threading
from weft.native.lower.lowering import RULES, rule_of

seen = []

def slowly_loaded():
    return helper

RULES["slowly_loaded"] = slowly_loaded

def ask():
    seen.append("helper" in rule_of("slowly_loaded").__globals__)

thread = threading.Thread(target=ask)
thread.start()
thread.join(0.05)  # what asks here either waits until this file is loaded, or has its answer by then
helper = True
"""


def test_rules_of_files_that_another_thread_loads_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "slowly_loaded.py").write_text(SLOW)
    monkeypatch.setattr(weft.native.lower, "__path__", [*weft.native.lower.__path__, str(tmp_path)])
    op = copy.copy(REGISTRY["exp"])
    op.lowering = "slowly_loaded"
    monkeypatch.setitem(REGISTRY, "slowly_loaded", op)
    try:
        assert lower.rule_of("slowly_loaded") is not None
        module = sys.modules["weft.native.lower.slowly_loaded"]
        module.thread.join()
        assert module.seen == [True]
    finally:
        lower.RULES.pop("slowly_loaded", None)
        sys.modules.pop("weft.native.lower.slowly_loaded", None)
