"""What is kept between forward and backward, and what is computed again."""

from __future__ import annotations

import pytest

import weft
from weft.aot.joint import trace
from weft.aot.partition import (
    bases_kept,
    cut,
    min_cut,
    price,
    save_everything,
    why_not_recompute,
    why_not_save,
)
from weft.graph.graph import Graph
from weft.nn import functional as F
from weft.testing import EagerAndRecordGraphs


def joint_of(function, *inputs):
    recorder = EagerAndRecordGraphs()
    weft.compiler.reset()
    weft.compile(function, backend=recorder)(*inputs)
    [module] = recorder.graphs
    return trace(module, inputs)


def floats(*shape):
    weft.manual_seed(len(shape))
    return weft.randn(*shape, dtype=weft.float64, requires_grad=True)


def names_kept(joint, choose=min_cut):
    return [node.name for kept in cut(joint, choose).residuals for node in kept]


def test_chain_of_cheap_ops_keeps_one_value():
    joint = joint_of(lambda x, w: ((x @ w).sin().exp() * 2).tanh().sum(), floats(4, 4), floats(4, 4))
    assert names_kept(joint) == ["primals_1", "primals_2", "matmul"]
    assert len(names_kept(joint, save_everything)) > 3


def test_of_equal_bytes_the_last_is_kept():
    joint = joint_of(lambda x, w: (x @ w).exp().sum(), floats(4, 4), floats(4, 4))
    assert names_kept(joint) == ["primals_1", "primals_2", "exp"]


def test_random_numbers_are_drawn_once():
    joint = joint_of(lambda x: (x * weft.rand(4, dtype=weft.float64)).sin(), floats(4))
    made = cut(joint, min_cut)
    [backward] = made.backwards
    assert not [node for node in backward.graph.nodes if "rand" in node.name and node.op != "placeholder"]
    assert [why_not_recompute(node) for node in joint.graph.nodes if node.name == "rand"] == [
        "random numbers"
    ]


def test_what_eager_does_not_keep_may_be_written():
    x = floats(4)
    compiled = weft.compile(lambda y: y.exp() * 2, backend="aot_eager")
    y = x * 1
    out = compiled(y)
    y.add_(1)
    out.sum().backward()
    weft.testing.assert_close(x.grad, x.detach().exp() * 2)


@pytest.mark.parametrize("choose", [min_cut, save_everything], ids=lambda f: f.__name__)
def test_ten_layers_keep_no_more_than_eager(choose):
    layers = [(floats(16, 16), floats(16)) for _ in range(10)]

    def model(x, *parameters):
        for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
            x = F.layer_norm((x @ weight + bias).relu(), (16,))
        return x.sum()

    x = floats(32, 16)
    flat = [p for layer in layers for p in layer]
    joint = joint_of(model, x, *flat)
    [kept] = cut(joint, choose).residuals
    held = sum(node.meta["val"].array.nbytes for node in kept if node.op != "placeholder")
    sizes: dict[int, int] = {}
    owned = {id(t.array) for t in (x, *flat)}

    def pack(tensor):
        if id(tensor.array) not in owned:
            sizes[id(tensor.array)] = tensor.array.nbytes
            keep.append(tensor)
        return tensor

    keep: list[weft.Tensor] = []
    with weft.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x, *flat)
    assert held <= sum(sizes.values())


def spread(x):
    """Eager keeps the large result; a cut by bytes alone would keep the one element that it comes from."""
    return (x.expand(1000) * 2).exp().sum()


def doubled_then_spread(x):
    y = x * 2
    return y, (y.expand(1000) * 1).exp().sum()


def part_of_input(x):
    return (x[:1].expand(1000) * 2).exp().sum()


@pytest.mark.parametrize("backend", ["aot_eager", "native", "reference"])
@pytest.mark.parametrize("function", [spread, part_of_input])
def test_inputs_written_before_the_backward_do_not_change_gradients(function, backend):
    leaf = weft.tensor([0.5], dtype=weft.float64, requires_grad=True)
    x = leaf * 1
    out = weft.compile(function, backend=backend)(x)
    with weft.no_grad():
        x.add_(1)
    out.backward()
    weft.testing.assert_close(leaf.grad, 2000 * (2 * leaf.detach()).exp())


@pytest.mark.parametrize("backend", ["aot_eager", "native", "reference"])
def test_values_written_before_the_backward_do_not_change_gradients(backend):
    x = weft.tensor([0.5], dtype=weft.float64, requires_grad=True)
    y, out = weft.compile(doubled_then_spread, backend=backend)(x)
    with weft.no_grad():
        y.add_(1)
    out.backward()
    weft.testing.assert_close(x.grad, 2000 * (2 * x.detach()).exp())


def reasons(joint):
    """Why nodes of the forward are not kept, by name."""
    [stage] = joint.stages
    shared = {node for node in (*joint.inputs, *joint.values) if hasattr(node, "meta")}
    kept = bases_kept(joint, stage)
    return {node.name: why_not_save(node, shared, kept) for node in joint.forward}


def test_what_is_not_kept_and_why():
    joint = joint_of(spread, floats(1))
    found = reasons(joint)
    assert found["primals_1"] == "the user has it and may write it, and eager code does not save it"
    assert found["expand"] == "a view: it would keep all of its base alive"
    assert found["exp"] is None and names_kept(joint) == ["exp"]


def test_of_several_results_each_is_kept_for_itself():
    def function(x):
        parts = weft.frexp(x.exp()).mantissa, x.max(0)
        return (parts[0] * parts[1].values).sin().sum()

    joint = joint_of(function, floats(3, 3))
    found = reasons(joint)
    several = [n for n in joint.forward if isinstance(n.meta.get("val"), (tuple, list))]
    assert several and {found[node.name] for node in several} == {"several results: each is saved by itself"}
    assert not {node.name for node in several} & set(names_kept(joint))


def test_constants_are_in_both_graphs():
    constant = Graph().get_attr("table")
    constant.meta["val"] = weft.ones(2)
    assert why_not_save(constant, set(), {constant}) == "a constant, which both graphs have"


def test_a_view_does_not_keep_its_base():
    def function(x, w):
        return (x @ w)[0].sin().sum()

    joint = joint_of(function, floats(64, 2), floats(2, 64))
    views = [
        n for n, reason in reasons(joint).items() if reason == "a view: it would keep all of its base alive"
    ]
    assert views and not set(views) & set(names_kept(joint))


def test_leaves_cost_nothing_to_keep():
    joint = joint_of(lambda w, x: (w * x).sin().sum(), floats(4), floats(4) * 1)
    leaf, other = joint.inputs
    assert price(leaf) == 0  # it lives on anyway
    assert price(other) == other.meta["val"].array.nbytes == 32
