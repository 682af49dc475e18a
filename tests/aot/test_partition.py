"""What is kept between forward and backward, and what is computed again."""

from __future__ import annotations

import pytest

import weft
from weft.aot.joint import trace
from weft.aot.partition import cut, min_cut, once, save_everything
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
    assert [once(node) for node in joint.graph.nodes if node.name == "rand"] == ["random numbers"]


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
