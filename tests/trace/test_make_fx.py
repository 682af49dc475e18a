"""make_fx: every op's samples and their gradients, op by op; transforms; trees of inputs."""

from __future__ import annotations

import warnings
from itertools import islice

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests import refusals, wide
from tests.trace.recording import tensors_in, type_facts
from tests.trace.test_recorder import DATA_DEPENDENT, as_tensors
from weft.core.dtypes import float64
from weft.core.trees import tree_map
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker
from weft.trace.make_fx import make_fx

SAMPLED = [name for name, op in REGISTRY.items() if op.samples and "empty" not in name]


def agree(function, *args, facts=True, **options):
    """The graph of the function, checked against it."""
    weft.manual_seed(0)
    wanted = function(*args)
    module = make_fx(function, **options)(*args)
    module.graph.lint()
    weft.manual_seed(0)
    got = module(*args)
    assert type(got) is type(wanted)
    for eager, graphed in zip(tensors_in(wanted), tensors_in(got), strict=True):
        assert not facts or type_facts(eager) == type_facts(graphed)
        np.testing.assert_allclose(
            graphed.detach().numpy(), eager.detach().numpy(), rtol=1e-12, atol=1e-12, equal_nan=True
        )
    return module


def ops_of(module):
    """The records behind the nodes."""
    found = []
    for node in module.graph.nodes:
        target = node.target
        op = target if isinstance(target, Op) else getattr(target, "op", None)
        op = getattr(getattr(weft.Tensor, target), "op", None) if node.op == "call_method" else op
        if op is not None:
            found.append(op)
    return found


def positional(op, sample, grad):
    """The sample's call as a function of its tensors alone."""
    tree = as_tensors((tuple(sample.args), dict(sample.kwargs)), grad)

    def call(*given):
        left = iter(given)
        args, kwargs = tree_map(lambda leaf: next(left) if isinstance(leaf, weft.Tensor) else leaf, tree)
        return op.face(*args, **kwargs)

    return call, tensors_in(tree)


def has_gradients(function, inputs):
    """Whether eager can do it at all."""
    try:
        function(*inputs)
    except (NotImplementedError, RuntimeError) as error:
        refusals.expect(error, float64, *refusals.OF_GRADIENTS)
        return False
    return True


def agree_unless_data_dependent(name, function, inputs):
    try:
        return agree(function, *inputs)
    except RuntimeError as error:
        if name in DATA_DEPENDENT and "data-dependent" in str(error):
            return None
        if name == "index_put" and "unknown-tensor" in str(error):  # the gradient of a write through a mask
            return None
        raise


@wide.over(SAMPLED, "name")
def test_samples_op_by_op(name):
    op = REGISTRY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in islice(op.samples(Maker(float64)), 4):
            call, inputs = positional(op, sample, False)
            module = agree_unless_data_dependent(name, call, inputs)
            if module is not None:
                composed = {op.name for op in ops_of(module) if op.composed and op.kind is not Kind.RANDOM}
                assert composed <= {"reshape", "index_put"}  # strides and masks decide when the graph runs


@wide.over(SAMPLED, "name")
def test_gradients_of_samples_op_by_op(name):
    op = REGISTRY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in islice(op.samples(Maker(float64)), 2):
            call, inputs = positional(op, sample, True)

            def gradients(*given, call=call):
                outputs = [t for t in tensors_in(call(*given)) if t.requires_grad and not t.is_complex()]
                wanted = [t for t in given if t.requires_grad]
                total = sum((t.sum() for t in outputs), weft.zeros((), dtype=weft.float64))
                return weft.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else ()

            if has_gradients(gradients, inputs) and not any(t.is_complex() for t in inputs):
                agree_unless_data_dependent(name, gradients, inputs)


# -- functions of users --------------------------------------------------------------------------------------
def x(*shape):
    weft.manual_seed(3)
    return weft.randn(*(shape or (3, 4)), dtype=weft.float64)


def written(x, w):
    y = x @ w
    y.mul_(w.sum(0))
    y[0] = 2.0
    y[:, 1] = w[0, 0]
    return weft.autograd.grad(y.sum(), w)


def through_mask(x, w):
    y = x @ w
    y[y > 0] = 0.5
    return y.sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.layer_norm(F.gelu(x @ w), (4,)).softmax(-1),
        lambda x, w: weft.autograd.grad((x @ w).tanh().sum(), w),
        lambda x, w: weft.autograd.grad(
            weft.autograd.grad((x @ w).tanh().sum(), w, create_graph=True)[0].sum(), w
        ),
        lambda x, w: weft.autograd.grad((x @ w).exp(), w, x.sum() * weft.ones(3, 4, dtype=weft.float64)),
        lambda x, w: 2 / (w[1:, None, 0].T + 3) ** 2 % 1.5,
        lambda x, w: x.to(weft.float32).double().mT.real,
        written,
        through_mask,
    ],
)
def test_functions_of_tensors(function):
    agree(function, x(), x(4, 4).requires_grad_())


@pytest.mark.parametrize(
    "function",
    [
        weft.func.grad(lambda x: (x.sin() ** 2).sum()),
        weft.func.hessian(lambda x: (x.sin() ** 2).prod()),
        weft.func.jacrev(lambda x: x.sin() * x.sum()),
        weft.func.jacfwd(lambda x: x.sin() * x.sum()),
        weft.func.vmap(weft.func.grad(lambda x: x * x.exp())),
        lambda x: weft.func.jvp(lambda y: y.sin() * y, (x,), (x,)),
        lambda x: weft.func.vjp(lambda y: y.sin() * y, x)[1](x),
        weft.func.vmap(lambda x: weft.stack([x, x * 2]).sum(0)),
    ],
)
def test_transforms(function):
    agree(function, x(3))


def test_a_batch_of_gradients_is_straight_line_code():
    module = agree(weft.func.vmap(lambda row: (row * row).sum()), x())
    assert [node.target for node in module.graph.nodes if node.op == "call_function"] == [weft.mul, weft.sum]


def test_trees_of_inputs_and_outputs():
    def function(batch, scale, pair):
        return {"sum": batch["a"] + batch["b"][0] * scale, "pair": [pair[0], (pair[1],)]}

    args = ({"a": x(), "b": [x(3, 1), 5]}, 3.0, (x(2), x(2)))
    module = agree(function, *args)
    assert [node.target for node in module.graph.placeholders] == ["batch_1", "scale_1", "pair_1"]


def test_closed_over_tensors_become_attributes():
    weight, parameter = x(4, 4), weft.nn.Parameter(x(4))
    module = agree(lambda x: x @ weight + parameter, x())
    assert dict(module.named_buffers())["_tensor_constant0"] is weight
    assert dict(module.named_parameters())["_param_constant0"] is parameter


def test_modules_are_functions_too():
    model = weft.nn.Sequential(weft.nn.Linear(4, 5), weft.nn.ReLU(), weft.nn.Linear(5, 2)).double()
    module = agree(model, x())
    assert len(list(module.parameters())) == 4


def test_gradients_of_closed_over_tensors():
    model = weft.nn.Sequential(weft.nn.Linear(4, 5), weft.nn.Tanh(), weft.nn.Linear(5, 2)).double()
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        return weft.func.functional_call(model, parameters, (x,)).pow(2).sum()

    agree(lambda x: weft.autograd.grad(model(x).pow(2).sum(), list(model.parameters())), x())
    agree(lambda x: weft.func.grad(loss)(parameters, x), x())


def test_backward_inside():
    def function(x, w):
        loss = (x @ w).pow(2).sum()
        loss.backward()
        return w.grad * 2

    def eager(x, w):
        return function(x, w.detach().requires_grad_())

    inputs = x(), x(4, 4).requires_grad_()
    module = make_fx(function)(*inputs)
    np.testing.assert_allclose(module(*inputs).detach().numpy(), eager(*inputs).numpy())
    assert inputs[1].grad is None


def test_random_calls_stay_random_calls():
    module = make_fx(lambda x: F.dropout(x, 0.5))(x())
    assert "bernoulli" in module.code
    value = x()
    weft.manual_seed(5)
    first, second = module(value), module(value)
    weft.manual_seed(5)
    assert weft.equal(first, F.dropout(value, 0.5)) and not weft.equal(first, second)


def test_sizes_stay_open_when_asked():
    def function(x):
        return x.softmax(-1).reshape(-1, 2) * x.shape[0]

    module = make_fx(function, tracing_mode="symbolic")(x(3, 4))
    other = x(6, 8)
    np.testing.assert_allclose(module(other).numpy(), function(other).numpy())


def test_what_needs_elements_says_so():
    with pytest.raises(RuntimeError, match="data-dependent-branch"):
        make_fx(lambda x: x if x.sum() > 0 else -x)(x())
    with pytest.raises(ValueError, match="Unexpected tracing type"):
        make_fx(lambda x: x, tracing_mode="none such")
