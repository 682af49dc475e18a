"""Graphs that are pure already are taken over as they are, with the facts that the long way finds."""

import pytest

import weft
from weft.aot import joint as joints
from weft.aot.backends import as_it_is
from weft.aot.facts import ViewOf
from weft.aot.partition import min_cut
from weft.aot.pure import pure
from weft.aot.runtime.around import PLAIN_MODES
from weft.aot.runtime.compiled import CompiledFunction
from weft.core.records import replace
from weft.core.symbolic import describe
from weft.nn import functional as F


def captured(function, *inputs, **options):
    """The graph of a function, and the inputs that it takes."""
    found = []

    def backend(module, examples):
        found.append((module, tuple(examples)))
        return module.forward

    weft.compile(function, backend=backend, fullgraph=True, **options)(*inputs)
    return found[0]


def stepped(function, *inputs, **options):
    """As `captured`, of the function's loss and gradients."""

    def step(*given):
        loss = function(*given)
        return loss, *weft.autograd.grad(loss, given)

    return captured(step, *[each.requires_grad_() for each in inputs], **options)


def long_way(monkeypatch, module, inputs, open_inputs=None):
    with monkeypatch.context() as patch:
        patch.setattr(joints, "pure", lambda *_: None)
        return joints.trace(module, inputs, open_inputs=open_inputs)


def facts_of(joint):
    """The facts; identities of tensors as numbers."""
    numbers = {}
    outputs = []
    for each in joint.facts.outputs:
        if isinstance(each, ViewOf):
            each = replace(each, tensors=tuple(numbers.setdefault(one, len(numbers)) for one in each.tensors))
        outputs.append(each)
    return outputs, joint.facts.values, joint.facts.written, joint.facts.draws, joint.facts.plain_histories


def texts(sizes):
    return ", ".join(map(describe, sizes))


def types_of(joint):
    return sorted(
        [
            (str(node.target), texts(node.meta["val"].array.shape), texts(node.meta["val"].array.strides))
            for node in joint.graph.nodes
            if node.op == "call_function" and isinstance(node.meta["val"], weft.Tensor)
        ]
    )


LOSSES = {
    "pointwise": (lambda a, b: (weft.tanh(a * b + a) * weft.exp(-b)).sum(), (5,), (5,)),
    "products": (lambda a, b: F.linear(a, b).relu().square().mean(), (3, 4), (2, 4)),
    "recurrent": (
        lambda a, b: sum((a @ b).chunk(2, 1)[i % 2].sigmoid().sum() for i in range(5)),
        (3, 4),
        (4, 4),
    ),
    "views": (
        lambda a, b: ((a * a).view(6).unsqueeze(0) + (b * b).transpose(0, 1).reshape(-1)).sum(),
        (2, 3),
        (3, 2),
    ),
    "norm": (lambda a, b: (F.layer_norm(a, (4,), b) ** 2).mean(), (3, 4), (4,)),
    "several": (lambda a, b: (weft.exp(a).chunk(2, 1)[1] * b).amax(1).sum(), (3, 4), (3, 2)),
}


TAKEN_APART = ("views", "several")
"""Losses with a `reshape`, which is a view or a copy and a view on the long way."""


@pytest.mark.parametrize("name", LOSSES)
def test_facts_and_types_are_those_of_the_long_way(name, monkeypatch):
    loss, *shapes = LOSSES[name]
    module, inputs = stepped(loss, *[weft.rand(shape) for shape in shapes])
    assert pure(module, inputs) is not None
    quick, slow = joints.trace(module, inputs), long_way(monkeypatch, module, inputs)
    assert facts_of(quick) == facts_of(slow)
    assert types_of(quick) == types_of(slow) or name in TAKEN_APART
    assert (quick.wanted, quick.stages, quick.fixed) == (slow.wanted, slow.stages, slow.fixed)
    assert [node.meta["val"].shape for node in quick.values] == [
        node.meta["val"].shape for node in slow.values
    ]


@pytest.mark.parametrize("name", LOSSES)
def test_open_sizes_are_those_of_the_long_way(name, monkeypatch):
    loss, *shapes = LOSSES[name]
    module, inputs = stepped(loss, *[weft.rand(shape) for shape in shapes], dynamic=True)
    function = CompiledFunction(module, as_it_is, as_it_is, min_cut)
    key = function.key(inputs, PLAIN_MODES[True])

    def open_inputs():
        return function.sizes.opened(key, function.sizes.values(key))

    assert pure(module, inputs, open_inputs()) is not None
    quick = joints.trace(module, inputs, open_inputs=open_inputs)
    slow = long_way(monkeypatch, module, inputs, open_inputs)
    assert any("s0" in shape for _, shape, _ in types_of(quick))
    assert facts_of(quick) == facts_of(slow)
    assert types_of(quick) == types_of(slow) or name in TAKEN_APART
    assert (quick.fixed, quick.relied().texts()) == (slow.fixed, slow.relied().texts())
    assert [texts(node.meta["val"].array.shape) for node in quick.values] == [
        texts(node.meta["val"].array.shape) for node in slow.values
    ]


def test_options_may_be_tensors():
    rows, values = weft.tensor([1.0, 2.0, 3.0]), weft.tensor([1.5, 2.5])
    order = weft.arange(3)

    def function(rows, values, order):
        return weft.searchsorted(rows, values, sorter=order)

    module, inputs = captured(function, rows, values, order)
    assert pure(module, inputs) is not None
    compiled = weft.compile(function, backend="aot_eager")
    assert compiled(rows, values, order).tolist() == function(rows, values, order).tolist() == [1, 2]


def weft_mul(x, y):
    return weft.mul(x, y)


def drawn(x):
    return x + weft.rand(3)


def written(x):
    y = x * 2
    y.add_(1)
    return y


def assigned(x):
    y = x * 2
    y[0] = 1.0
    return y


IMPURE = {
    "random": drawn,
    "written": written,
    "an item written": assigned,
    "a view given out": lambda x: (x * 2)[1:],
    "an input given out": lambda x: (x + 1, x),
    "a view of an input given out": lambda x: (x + 1, x[1:]),
    "a number read": lambda x: x * x.sum().item(),
    "in place by an option": lambda x: F.relu(x * 2, inplace=True),
}


@pytest.mark.parametrize("name", IMPURE)
def test_graphs_that_are_not_pure_go_the_long_way(name):
    module, inputs = captured(IMPURE[name], weft.rand(3))
    assert pure(module, inputs) is None


def test_outputs_with_a_history_go_the_long_way():
    module, inputs = captured(lambda x: weft.mul(x, 2), weft.rand(3, requires_grad=True))
    assert pure(module, inputs) is None
    assert pure(module, (weft.rand(3),)) is not None
    with weft.no_grad():
        assert pure(module, inputs) is not None


def test_numbers_subclasses_and_modes_go_the_long_way():
    module, inputs = captured(weft_mul, weft.rand(3), weft.rand(3))
    assert pure(module, inputs) is not None
    assert pure(module, (inputs[0], 2.0)) is None
    with weft.inference_mode():
        assert pure(module, inputs) is None
        made = weft.rand(3)
    assert pure(module, (inputs[0], made)) is None


def test_types_follow_from_the_inputs_given():
    module, _ = captured(lambda x: weft.add(weft.transpose(x, 0, 1), 1), weft.rand(3, 4))
    found = pure(module, (weft.rand(5, 2).double(),))
    assert found is not None
    (value,) = found.values
    assert (tuple(value.meta["val"].shape), value.meta["val"].dtype) == ((2, 5), weft.float64)


def test_a_view_becomes_a_reshape_as_values_may_lie_otherwise():
    module, inputs = captured(lambda x: weft.add(x.view(6), 1), weft.rand(2, 3))
    found = pure(module, inputs)
    assert found is not None
    assert ["reshape" in str(node.target) for node in found.graph.nodes if node.op == "call_function"][0]


def test_an_error_is_left_to_the_long_way():
    module, _ = captured(weft_mul, weft.rand(3), weft.rand(3))
    inputs = weft.rand(3), weft.rand(4)
    assert pure(module, inputs) is None
    with pytest.raises(joints.Refused, match="must match the size"):
        joints.trace(module, inputs)
