"""Interpreter, Transformer, symbolic_trace, replace_pattern."""

import operator

import pytest

import weft
from weft import nn
from weft.graph.graph import Graph
from weft.trace.fx import (
    Interpreter,
    ReplacedPatterns,
    Transformer,
    replace_pattern,
    replace_pattern_with_filters,
    symbolic_trace,
)
from weft.trace.module import GraphModule


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.weight = nn.Parameter(weft.ones(2))

    def forward(self, x, scale=3.0):
        return weft.sigmoid(self.linear(x)).sum(dim=0) * scale + self.weight


# -- Interpreter ---------------------------------------------------------------------------------------------
def test_interpreter_runs():
    model = Model()
    traced = symbolic_trace(model)
    x = weft.randn(3, 2)
    assert weft.equal(Interpreter(traced).run(x), model(x))
    assert weft.equal(Interpreter(traced, garbage_collect_values=False).run(x, 2.0), model(x, 2.0))
    assert weft.equal(Interpreter(model, graph=traced.graph).run(x), model(x))


def test_interpreter_methods_can_be_overridden():
    class Swapped(Interpreter):
        def call_function(self, target, args, kwargs):
            if target is weft.sigmoid:
                return weft.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("mean" if target == "sum" else target, args, kwargs)

    model = Model()
    x = weft.randn(3, 2)
    expected = weft.neg(model.linear(x)).mean(dim=0) * 3.0 + model.weight
    assert weft.equal(Swapped(symbolic_trace(model)).run(x), expected)


def test_interpreter_sees_nodes_and_frees_values():
    names, sizes = [], []

    class Watching(Interpreter):
        def run_node(self, n):
            names.append(n.name)
            sizes.append(len(self.env))
            return super().run_node(n)

    def function(x):
        for _ in range(4):
            x = -x
        return x

    traced = symbolic_trace(function)
    assert Watching(traced).run(5) == 5
    assert names == ["x", "neg", "neg_1", "neg_2", "neg_3", "output"]
    assert max(sizes) == 1


def test_interpreter_starts_from_given_values():
    traced = symbolic_trace(lambda x: -(x + 1))
    x, add = traced.graph.nodes[:2]
    assert Interpreter(traced).run(initial_env={x: None, add: 7}) == -7


def test_interpreter_arguments():
    traced = symbolic_trace(lambda x, y=2, *rest: (x, y, rest))
    assert Interpreter(traced).run(1) == (1, 2, [])
    assert Interpreter(traced).run(1, 3, 4, 5) == (1, 3, [4, 5])
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        Interpreter(traced).run()


def test_interpreter_of_a_broken_graph():
    traced = symbolic_trace(lambda x: -(x + 1))
    traced.graph.nodes[1].prepend(traced.graph.nodes[2])
    with pytest.raises(RuntimeError, match="Node neg referenced nonexistent value add"):
        Interpreter(traced).run(1)


def test_interpreter_without_output():
    graph = Graph()
    graph.placeholder("x")
    assert Interpreter(None, graph=graph).run(1) is None


# -- Transformer ---------------------------------------------------------------------------------------------
def test_transformer_copies():
    model = Model()
    traced = symbolic_trace(model)
    for node in traced.graph.nodes:
        node.meta = {"val": weft.ones(2), "source": ("f.py", 1, "f")}
    other = Transformer(traced).transform()
    x = weft.randn(3, 2)
    assert weft.equal(other(x), model(x))
    assert (other.code, type(other).__name__) == (traced.code, "Model")
    assert all(node.meta["source"] == ("f.py", 1, "f") for node in other.graph.nodes if node.op != "output")
    assert other.weight is model.weight


def test_transformer_rewrites():
    constant = weft.ones(2)

    class Rewriting(Transformer):
        def call_function(self, target, args, kwargs):
            if target is weft.sigmoid:
                return weft.neg(args[0]) + constant + model.weight
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return (
                args[0].mean(*args[1:], **kwargs)
                if target == "sum"
                else super().call_method(target, args, kwargs)
            )

        def call_module(self, target, args, kwargs):
            return super().call_module(target, args, kwargs) * 2

    model = Model()
    traced = symbolic_trace(model)
    traced.graph.nodes[2].meta = {"val": 1, "source": ("f.py", 2, "f")}
    other = Rewriting(traced).transform()
    x = weft.randn(3, 2)
    expected = (weft.neg(model.linear(x) * 2) + constant + model.weight).mean(dim=0) * 3.0 + model.weight
    assert weft.equal(other(x), expected)
    assert weft.equal(traced(x), model(x))
    other.graph.check()
    assert len(other.graph.find_nodes(op="get_attr", target="weight")) == 2


def test_transformer_forgets_types_of_what_changed():
    class Rewriting(Transformer):
        def call_function(self, target, args, kwargs):
            return weft.sum(args[0]) if target is weft.neg else super().call_function(target, args, kwargs)

    traced = symbolic_trace(lambda x: weft.exp(weft.neg(x)))
    for node in traced.graph.nodes:
        node.meta = {"val": weft.ones(2), "source": ("f.py", 1, "f")}
    total, exp = Rewriting(traced).transform().graph.nodes[1:3]
    assert total.meta == {"source": ("f.py", 1, "f")}
    assert "val" in exp.meta


def test_transformer_keeps_sub_graphs():
    inner = Graph()
    inner.output(inner.call_function(operator.neg, (inner.placeholder("a"),)))
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(lambda f, v: f(v), (graph.subgraph("body", inner), x), name="apply"))
    assert Transformer(GraphModule({}, graph)).transform()(3) == -3


# -- replace_pattern -----------------------------------------------------------------------------------------
def replaced(function, pattern, replacement):
    module = symbolic_trace(function)
    matches = replace_pattern(module, pattern, replacement)
    module.graph.check()
    return module, len(matches)


def test_replace():
    module, count = replaced(
        lambda x, y: weft.relu(x + y) * weft.relu(x + x),
        lambda a, b: weft.relu(a + b),
        lambda a, b: weft.sigmoid(a) - b,
    )
    x, y = weft.randn(3), weft.randn(3)
    assert count == 2
    assert weft.equal(module(x, y), (weft.sigmoid(x) - y) * (weft.sigmoid(x) - x))


def test_occurrences_in_a_chain():
    module, count = replaced(
        lambda x: weft.neg(weft.relu(weft.neg(weft.relu(x)))),
        lambda a: weft.neg(weft.relu(a)),
        lambda a: weft.exp(a),
    )
    assert count == 2
    assert module(weft.zeros(1)).item() == pytest.approx(2.718281828)


@pytest.mark.parametrize(
    ("function", "pattern"),
    [
        (lambda x: weft.relu(x) + weft.neg(weft.relu(x)), lambda a: weft.exp(a)),
        (lambda x, y: x + y, lambda a: a + a),
        (lambda x: x.sum(dim=0), lambda a: a.sum(dim=1)),
        (lambda x: weft.add(x, 1), lambda a: weft.add(a, 1.0)),
        (lambda x: weft.cat([x, x]), lambda a: weft.cat([a, a, a])),
        (lambda x: weft.relu(x), lambda a: weft.relu(weft.relu(a))),
    ],
)
def test_no_occurrence(function, pattern):
    assert replaced(function, pattern, lambda a: a)[1] == 0


def test_values_that_others_read_are_kept():
    def function(x):
        inner = weft.relu(x)
        return weft.neg(inner) * inner

    assert replaced(function, lambda a: weft.neg(weft.relu(a)), lambda a: a)[1] == 0


def test_replacing_by_an_input_or_a_number():
    module, count = replaced(lambda x: weft.exp(weft.relu(x)), lambda a: weft.relu(a), lambda a: a)
    assert (count, module(weft.ones(1)).item()) == (1, pytest.approx(2.718281828))
    module, count = replaced(lambda x: x + x.abs(), lambda a: a.abs(), lambda a: 2)
    assert (count, module(3)) == (1, 5)


def test_a_pattern_gives_one_value():
    with pytest.raises(ValueError, match="one value"):
        replaced(lambda x: x, lambda a: (a, a), lambda a: a)


# -- beside torch --------------------------------------------------------------------------------------------
SAME_TEXT = [
    lambda t: lambda x, y: t.relu(x + y * 2).sum(dim=0),
    lambda t: lambda x, y, *, z=3: (-x, [x[0:1, ..., None], {"k": (y,)}], z, 2 - x),
    lambda t: lambda x: t.cat([x, x.T]).view(3, -1).clone(memory_format=t.contiguous_format),
    lambda t: lambda x, *args: x.sum() + x.max() + x.abs() + args[0],
    lambda t: lambda x: (x > 1) & (x != 2) | ~(x < 3) ^ (x == x),
    lambda t: lambda x: x.to(t.float64).sum(dtype=t.float32).item(),
    lambda t: lambda x: t.where(x > 0, x, float("-inf")) + float("nan"),
    lambda t: lambda x: (t.exp(x), x @ x, x // 2, x % 2, x / 3, x**2, x << 1, x >> 1),
]


@pytest.mark.torch
@pytest.mark.parametrize("make", SAME_TEXT)
def test_same_text_as_torch(make):
    import torch
    from torch import fx

    theirs, ours = fx.symbolic_trace(make(torch)), symbolic_trace(make(weft))
    assert ours.graph.python_code(namespace="torch").src == theirs.code
    assert (
        ours.print_readable(False, namespace="torch").splitlines()[1:]
        == (theirs.print_readable(print_output=False).splitlines()[1:])
    )


def test_arguments_in_a_list_are_let_go():
    args = [weft.ones(1), weft.ones(1)]
    assert Interpreter(symbolic_trace(lambda x, y: x + y)).boxed_run(args).item() == 2 and args == []


def test_errors_say_which_node_raised():
    runner = Interpreter(symbolic_trace(lambda x, y: x @ y))
    with pytest.raises(RuntimeError, match=r"While executing %matmul : .*target=operator\.matmul"):
        runner.run(weft.ones(2, 3), weft.ones(2, 3))
    runner.extra_traceback = False
    with pytest.raises(RuntimeError) as raised:
        runner.run(weft.ones(2, 3), weft.ones(2, 3))
    assert "While executing" not in str(raised.value)
    assert runner.name == "Interpreter" and "" in runner.submodules


def test_occurrences_may_be_filtered():
    def function(x):
        return weft.relu(x) + weft.relu(x * 2)

    def replaced_where(**options):
        module = symbolic_trace(function)
        return module, replace_pattern_with_filters(module, lambda x: weft.relu(x), **options)

    def first_only(match, graph, pattern):
        return match.anchor.args[0].op == "placeholder"

    module, found = replaced_where(replacement=lambda x: x.sigmoid(), match_filters=[first_only])
    assert len(found) == 1 and isinstance(found[0], ReplacedPatterns)
    assert [node.target for node in found[0].replacements] == ["sigmoid"]
    weft.testing.assert_close(module(weft.ones(1)), weft.ones(1).sigmoid() + 2)
    module, found = replaced_where(replacement_callback=lambda *_given: symbolic_trace(lambda x: x * 0))
    assert len(found) == 2 and module(weft.ones(1)).item() == 0


def test_literals_of_a_pattern_may_stand_for_any():
    def counted(**options):
        module = symbolic_trace(lambda x: (x + 1) * 3)
        return len(replace_pattern_with_filters(module, lambda x: x + 2, lambda x: x, **options))

    assert (counted(), counted(ignore_literals=True)) == (0, 1)
