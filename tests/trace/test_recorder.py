"""The recorder: every op's samples, recorded and run; and each rule of what becomes a node."""

from __future__ import annotations

import operator
import time
import warnings

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests import refusals, wide
from tests.trace.recording import Recording, check
from weft.core.dtypes import float32
from weft.core.trees import tree_map
from weft.ops.record import REGISTRY
from weft.ops.samples import Maker
from weft.trace.breaks import Break
from weft.trace.fake import fake_of, is_fake
from weft.trace.host import Host
from weft.trace.recorder import _set_grad_enabled, _set_inference_mode

DATA_DEPENDENT = {
    "allclose", "equal", "repeat_interleave", "nonzero", "argwhere", "masked_select", "unique",
    "unique_consecutive", "masked_scatter", "bincount",
}  # fmt: skip
SAMPLED = [name for name, op in REGISTRY.items() if op.samples and name != "_unsafe_view"]


def as_tensors(tree, grad):
    def convert(leaf):
        if not isinstance(leaf, np.ndarray):
            return leaf
        copy = np.empty_like(leaf)
        copy = np.array(leaf, order="K") if copy.strides != leaf.strides else copy
        copy[...] = leaf
        tensor = weft.from_numpy(copy)
        return tensor.requires_grad_() if grad and leaf.dtype.kind in "fc" else tensor

    return tree_map(convert, tree)


def calls(op):
    """Each sample as a maker of fresh arguments, without and with gradients."""
    for number, _ in enumerate(op.samples(Maker(float32))):
        for grad in (False, True):

            def make(number=number, grad=grad):
                sample = list(op.samples(Maker(float32)))[number]
                return as_tensors((tuple(sample.args), dict(sample.kwargs)), grad)

            yield make


def through_view(written, x, *rest, **named):
    """Writes to a view of a new tensor; gives both."""
    base = x.detach().clone()
    view = base[None][0]
    written(view, *rest, **named)
    return base, view


def attempt(function, make, name):
    """Compares; a call that eager refuses must be refused in the same words."""
    args, kwargs = make()
    try:
        function(*args, **kwargs)
    except Exception as error:
        refusals.expect(error, float32, *refusals.OF_WRITES)
        with pytest.raises(type(error)) as caught:
            Recording(function, *(again := make())[0], **again[1])
        assert str(caught.value) == str(error)
        return
    if name not in DATA_DEPENDENT:
        check(function, make, elements="empty" not in name)
        return
    try:
        check(function, make)
    except Break as found:
        assert found.kind.startswith("data-dependent")


@wide.over(SAMPLED, "name")
def test_samples_recorded_and_run_do_what_eager_does(name):
    op = REGISTRY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in calls(op):
            attempt(op.face, make, name)
            if op.inplace:
                written = getattr(weft.Tensor, f"{op.name}_")
                attempt(written, make, name)
                attempt(lambda x, *rest, **named: written(x.clone(), *rest, **named), make, name)  # noqa: B023
                attempt(lambda x, *rest, **named: through_view(written, x, *rest, **named), make, name)  # noqa: B023


# -- how calls are written -----------------------------------------------------------------------------------
def test_functions_methods_operators_and_properties():
    def program(x):
        return (2 / x).sum() + weft.exp(x).T.reshape(6).relu().to(weft.float64)[0]

    recording = check(program, lambda: ((weft.randn(2, 3),), {}))
    assert recording.targets == [
        operator.truediv, weft.sum, weft.exp, getattr, weft.reshape, weft.relu, "to", operator.getitem,
        weft.add,
    ]  # fmt: skip


def test_calls_can_be_given_their_own_form():
    x = fake_of(weft.randn(2))
    recording = Recording(lambda x: x, weft.randn(2))
    recorder = recording.recorder
    recorder.bind(x, recording.graph.placeholders[0])
    with recorder:
        y = recorder.call(operator.add, (x, 1))
        z = recorder.call_method("sum", (y,), {"dim": 0})
        assert recorder.call_method("dim", (z,)) == 0
        with pytest.raises(Break, match="data-dependent-value"):
            recorder.call_method("item", (z,))
    assert [(node.op, node.target) for node in (recorder.node(y), recorder.node(z))] == [
        ("call_function", operator.add), ("call_method", "sum"),
    ]  # fmt: skip


def test_composites_are_one_node():
    def program(x, w):
        return F.layer_norm(F.scaled_dot_product_attention(x, x, x), (4,), w)

    recording = check(program, lambda: ((weft.randn(2, 3, 4), weft.ones(4, requires_grad=True)), {}))
    assert recording.targets == [F.scaled_dot_product_attention, F.layer_norm]


def test_nodes_carry_types_and_places():
    recording = Recording(lambda x: x, weft.randn(2, 3))
    recording.recorder.where = lambda: ("model.py", 7, "forward")
    with recording.recorder:
        y = recording.inputs[0].sum(0)
    node = recording.recorder.node(y)
    assert node.meta["val"] is y and y.shape == (3,)
    assert node.meta["source"] == ("model.py", 7, "forward")


# -- what becomes a node -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.shape, lambda x: x.size(0), lambda x: x.dim(), lambda x: x.numel(), lambda x: len(x),
        lambda x: x.dtype, lambda x: x.device, lambda x: x.requires_grad, lambda x: x.is_floating_point(),
        lambda x: x.stride(), lambda x: x.is_contiguous(), lambda x: x.is_leaf, lambda x: weft.is_tensor(x),
        lambda x: weft.numel(x), lambda x: x.nbytes, lambda x: x.is_cpu, lambda x: x.is_meta,
        lambda x: weft.result_type(x, 1), lambda x: x.layout,
    ],
)  # fmt: skip
def test_what_types_tell_makes_no_node(read):
    x = weft.randn(2, 3, requires_grad=True)
    recording = Recording(lambda y: None, x)
    with recording.recorder:
        assert read(recording.inputs[0]) == read(x)
    assert not recording.targets


def test_results_that_are_an_argument_make_no_node():
    def program(x):
        assert (
            x.to(weft.float32) is x and x.float() is x and x.cpu() is x and F.dropout(x, training=False) is x
        )
        assert x.contiguous() is x
        return x

    recording = check(program, lambda: ((weft.randn(2, 3),), {}))
    assert not recording.targets
    assert recording.recorder.facts == [(recording.inputs[0], "stride")]


def test_facts_relied_upon():
    def program(x):
        return x.stride(), x.is_leaf, (x * 2).is_contiguous()

    recording = Recording(program, weft.randn(2, 3))
    fake = recording.inputs[0]
    assert recording.recorder.facts == [(fake, "stride"), (fake, "is_leaf"), (fake, "stride")]


def test_strides_that_only_a_kernel_knows_are_not_guessed():
    with pytest.raises(Break, match="tensor-strides"):
        Recording(lambda x: weft.linalg.solve(x, x).stride(), weft.eye(3))
    recording = check(lambda x: weft.linalg.solve(x, x).contiguous(), lambda: ((weft.eye(3),), {}))
    assert recording.targets == [
        weft.linalg.solve,
        weft.contiguous if hasattr(weft, "contiguous") else "contiguous",
    ]


def test_several_results_are_taken_apart_when_used():
    def program(x):
        a, b, _c = weft.split(x, 1)
        values, _indices = b.max(dim=1)
        return values, [a]

    recording = check(program, lambda: ((weft.randn(3, 4),), {}))
    assert recording.targets == [weft.split, operator.getitem, weft.max, operator.getitem, operator.getitem]


def test_writes_are_nodes_and_stand_for_their_tensor():
    def program(x, y):
        z = x * 2
        z.add_(y)
        z[0] = 7
        z += 1
        z.T.zero_()
        weft.mul(y, 3, out=x)
        return z, x

    recording = check(program, lambda: ((weft.randn(3, 3), weft.randn(3, 3)), {}))
    assert recording.targets == [
        weft.mul, weft.add_, operator.setitem, operator.iadd, getattr, weft.zero_, weft.mul,
    ]  # fmt: skip
    writes = [node.meta.get("writes") for node in recording.graph.nodes]
    assert sum(found is not None for found in writes) == 5


def test_writes_to_arguments_that_are_not_the_result():
    def program(x, mean, var):
        return F.batch_norm(x, mean, var, training=True)

    recording = check(program, lambda: ((weft.randn(5, 3), weft.zeros(3), weft.ones(3)), {}))
    (node,) = [node for node in recording.graph.nodes if node.op == "call_function"]
    assert node.meta["writes"] == tuple(recording.graph.placeholders[1:])


@pytest.mark.parametrize("value", [1.5, weft.tensor(2.0), weft.tensor([3.0])])
def test_writes_through_masks(value):
    def program(x, value):
        x = x * 1
        x[x > 0] = value
        x[1, x[1] < 0] = value
        return x

    check(program, lambda: ((weft.randn(3, 4),), {"value": value}))
    with pytest.raises(IndexError, match="shape of the mask"):
        Recording(lambda x, mask: operator.setitem(x, mask, 0), weft.randn(3, 4), weft.ones(3, 3) > 0)


def test_index_put_with_a_mask():
    check(
        lambda x, mask: weft.index_put(x, (mask,), weft.tensor(1.0)),
        lambda: ((weft.randn(3), weft.tensor([True, False, True])), {}),
    )


def test_creation_and_random_calls():
    def program(x):
        return (
            weft.zeros(2, 3) + weft.arange(3) + weft.rand(3) + weft.tensor([1.0, 2, 3]) + weft.randn_like(x)
        )

    recording = check(program, lambda: ((weft.randn(3),), {}))
    assert [target for target in recording.targets if target is not weft.add] == [
        weft.zeros, weft.arange, weft.rand, weft.tensor, weft.randn_like,
    ]  # fmt: skip


def test_tensors_made_while_recording_are_fakes():
    def program(x):
        made = [weft.zeros(2), weft.full((2,), 1.0), weft.tensor(3), x.new_tensor([1, 2]), weft.eye(2)]
        made += [weft.empty(2, 2), weft.tensor(x.sum()), weft.ones(2, requires_grad=True)]
        assert all(is_fake(tensor) for tensor in made)
        assert made[-1].requires_grad and made[-1].is_leaf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Recording(program, weft.randn(2))


def test_a_generator_is_an_input_and_keeps_its_place():
    generator = weft.Generator().manual_seed(3)
    recording = Recording(lambda x: x, weft.randn(2))
    seen = []
    recording.recorder.on_input = lambda value: seen.append(value) or recording.graph.placeholder("generator")
    with recording.recorder:
        weft.rand(3, generator=generator)
        recording.inputs[0].clone().normal_(generator=generator)
    assert seen == [generator] and generator.get_offset() == 0


def test_real_tensors_are_inputs_too():
    constant = weft.randn(3)
    recording = Recording(lambda x: x, weft.randn(3))
    recorder = recording.recorder
    seen = []
    recorder.on_input = lambda value: seen.append(value) or recording.graph.placeholder("constant")
    with recorder:
        total = constant * constant + recording.inputs[0]
        assert is_fake(total)
        before = constant.array.copy()
        assert constant.add_(1) is constant
    assert len(seen) == 1 and seen[0] is constant
    assert np.array_equal(constant.array, before), "recording wrote to a real tensor"


# -- modes ---------------------------------------------------------------------------------------------------
def test_grad_mode_changes_are_nodes():
    def program(x):
        with weft.no_grad():
            y = x * 2
            z = y + 1
        return x * z

    recording = check(program, lambda: ((weft.randn(2, requires_grad=True),), {}))
    assert recording.targets == [_set_grad_enabled, weft.mul, weft.add, _set_grad_enabled, weft.mul]


def test_the_graph_ends_in_the_mode_it_began_in():
    recording = Recording(lambda x: weft.no_grad()(lambda: x * 2)(), weft.randn(2))
    assert recording.targets == [_set_grad_enabled, weft.mul, _set_grad_enabled]
    assert weft.is_grad_enabled()


def test_leaving_restores_all_modes():
    with pytest.raises(ZeroDivisionError):
        Recording(lambda x: (weft.set_grad_enabled(False), 1 / 0), weft.randn(2))
    assert weft.is_grad_enabled()
    assert not is_fake(weft.zeros(2))


def test_changes_of_autocast_break_where_nobody_can_write_them_down(monkeypatch):
    def program(x):
        with weft.autocast("cpu"):
            return x @ x

    monkeypatch.setattr(Host, "set_autocast", None)
    with pytest.raises(Break, match="mode-change"):
        Recording(program, weft.randn(2, 2))
    with weft.autocast("cpu"):
        check(lambda x: x @ x, lambda: ((weft.randn(2, 2),), {}))


def test_inference_mode_changes_are_nodes():
    def program(x):
        with weft.inference_mode():
            y = x * 2
            y.add_(1)
        return x * 3

    recording = check(program, lambda: ((weft.randn(2, requires_grad=True),), {}))
    assert recording.targets == [
        _set_inference_mode, _set_grad_enabled, weft.mul, weft.add_,
        _set_inference_mode, _set_grad_enabled, weft.mul,
    ]  # fmt: skip


def test_a_call_that_writes_and_then_fails_breaks():
    def careless(x):
        x.add_(1)
        raise ValueError("too late")

    recording = Recording(lambda x: x, weft.randn(2))
    with recording.recorder, pytest.raises(Break, match="writes to a tensor and then fails"):
        recording.recorder.call(careless, (recording.inputs[0],))


def test_writes_in_inference_mode_are_nodes():
    def program(x):
        y = x * 2
        y.add_(1)
        y[0] = 3
        y += x
        return y

    with weft.inference_mode():
        recording = check(program, lambda: ((weft.randn(3),), {}))
    assert recording.targets == [weft.mul, weft.add_, operator.setitem, operator.iadd]


# -- custom ops ----------------------------------------------------------------------------------------------
@weft.library.custom_op("recorder_tests::twice", mutates_args=())
def twice(x: weft.Tensor) -> weft.Tensor:
    return weft.from_numpy(x.detach().numpy() * 2)


twice.register_fake(lambda x: weft.empty_like(x))
twice.register_autograd(lambda ctx, g: g * 2, setup_context=lambda ctx, inputs, output: None)


@weft.library.custom_op("recorder_tests::put", mutates_args=("x",))
def put(x: weft.Tensor, y: weft.Tensor) -> None:
    x.numpy()[...] = y.numpy()


@weft.library.custom_op("recorder_tests::opaque", mutates_args=())
def opaque(x: weft.Tensor) -> weft.Tensor:
    return weft.from_numpy(x.numpy() * 2)


def test_custom_ops_are_nodes():
    recording = check(lambda x: twice(x) + 1, lambda: ((weft.randn(3, requires_grad=True),), {}))
    assert [target.__name__ for target in recording.targets] == ["twice", "add"]


def test_custom_ops_that_write():
    recording = check(lambda x, y: (put(x, y), x * 2)[1], lambda: ((weft.randn(3), weft.randn(3)), {}))
    node = next(node for node in recording.graph.nodes if node.op == "call_function")
    assert node.meta["writes"] == (recording.graph.placeholders[0],)


def test_custom_ops_without_types_break():
    with pytest.raises(Break, match="no fake impl registered"):
        Recording(opaque, weft.randn(2))


# -- breaks and errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "program"),
    [
        ("data-dependent-branch", lambda x: bool(x.sum() > 0)),
        ("data-dependent-value", lambda x: x.sum().item()),
        ("data-dependent-value", lambda x: int(x.sum())),
        ("data-dependent-value", lambda x: x.tolist()),
        ("data-dependent-value", lambda x: x.numpy()),
        ("data-dependent-value", lambda x: np.asarray(x)),
        ("data-dependent-value", lambda x: 1.0 in x),
        ("data-dependent-value", lambda x: weft.equal(x, x)),
        ("data-dependent-value", lambda x: weft.tensor([x.sum(), 1.0])),
        ("data-dependent-value", lambda x: [0, 1, 2][x.sum().long()]),
        ("data-dependent-print", lambda x: f"{x}"),
        ("data-dependent-shape", lambda x: x[x > 0]),
        ("data-dependent-shape", lambda x: x.nonzero()),
        ("data-dependent-shape", lambda x: weft.unique(x)),
        ("data-dependent-shape", lambda x: weft.masked_select(x, x > 0)),
        ("data-dependent-shape", lambda x: weft.where(x > 0)),
        ("data-dependent-shape", lambda x: weft.repeat_interleave(x, weft.tensor([1, 2, 3]))),
        ("tensor-metadata-write", lambda x: x.detach().requires_grad_()),
        ("tensor-metadata-write", lambda x: x.resize_(2)),
        ("tensor-metadata-write", lambda x: setattr(x, "data", x)),
        ("tensor-metadata-write", lambda x: setattr(x, "grad", None)),
        ("tensor-metadata-write", lambda x: x.t_()),
        ("tensor-memory", lambda x: x.data_ptr()),
        ("tensor-memory", lambda x: x._version),
        ("autograd-inside", lambda x: x.sum().backward()),
        ("autograd-inside", lambda x: weft.autograd.grad(x.sum(), x)),
        ("autograd-inside", lambda x: x.register_hook(print)),
        ("autograd-inside", lambda x: x.grad),
        ("autograd-inside", lambda x: (x * 2).grad_fn),
    ],
)  # fmt: skip
def test_what_only_running_can_tell_breaks(kind, program):
    with pytest.raises(Break) as found:
        Recording(program, weft.randn(3, requires_grad=True))
    assert found.value.kind == kind and found.value.seen


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x @ x,
        lambda x: x + weft.ones(7),
        lambda x: x.view(5),
        lambda x: x[9],
        lambda x: x.sum(dim=4),
        lambda x: weft.cat([x, x[0]]),
        lambda x: x.add_("no"),
        lambda x: x.add_(1),
        lambda x: F.cross_entropy(x, x, reduction="none such"),
        lambda x: x.frobnicate(),
        lambda x: x.exp().long().requires_grad,
    ],
)
def test_errors_are_eagers(program):
    def make():
        return weft.randn(2, 3, requires_grad=True)

    try:
        wanted = program(make())
    except Exception as error:
        with pytest.raises(type(error)) as found:
            Recording(program, make())
        assert str(found.value) == str(error)
    else:
        assert Recording(program, make()).result == wanted


def test_a_call_that_fails_leaves_no_node():
    def program(x):
        with pytest.raises(RuntimeError):
            weft.matmul(x, x)
        return x

    assert not Recording(program, weft.randn(2, 3)).targets


def test_gradient_reads_of_tensors_made_here():
    def program(x):
        y = x.detach() * 2
        assert y.grad is None and y.is_leaf
        return y

    check(program, lambda: ((weft.randn(3, requires_grad=True),), {}))


def test_recording_is_quick():
    recording = Recording(lambda x: x, weft.randn(4, 4, requires_grad=True))
    x = recording.inputs[0]
    with recording.recorder:
        best = float("inf")
        for _ in range(20):
            start = time.process_time()
            for _ in range(20):
                x + 1
            best = min(best, (time.process_time() - start) / 20)
    assert best < 200e-6, "recording a call is meant to cost less than 60 us"


# -- random programs -----------------------------------------------------------------------------------------
def quietly_doubled(x, _y, _s):
    with weft.no_grad():
        return x.mul_(2)


STEPS = [
    lambda x, y, s: x + y,
    lambda x, y, s: x.transpose(0, -1) * 2,
    lambda x, y, s: x[int(s * 3)],
    lambda x, y, s: x.add_(y),
    lambda x, y, s: x.mul_(1.5),
    quietly_doubled,
    lambda x, y, s: operator.setitem(x, 0, s),
    lambda x, y, s: operator.setitem(x, x > 0.5, s),
    lambda x, y, s: x.sum(-1),
    lambda x, y, s: x.reshape(-1),
    lambda x, y, s: x.unbind(0)[-1],
    lambda x, y, s: x.detach(),
    lambda x, y, s: x.split(2)[0],
    lambda x, y, s: weft.where(x > 0, x, y),
    lambda x, y, s: weft.max(x, dim=0)[0],
    lambda x, y, s: x.contiguous().view(-1),
    lambda x, y, s: x.zero_(),
    lambda x, y, s: x.expand(2, *x.shape),
]
OF_MEMORY = ("single memory location", "returns multiple views")  # eager's answers that depend on addresses


def random_program(seed):
    """A function of two tensors that computes, views and writes at random; errors are part of it."""
    random = np.random.default_rng(seed)
    plan = [(int(random.integers(len(STEPS))), *random.random(3)) for _ in range(random.integers(3, 12))]

    def program(a, b):
        values = [a, b, a * 1, b + 0.5]
        for step, first, second, number in plan:
            x, y = values[int(first * len(values))], values[int(second * len(values))]
            try:
                result = STEPS[step](x, y, number)
            except (RuntimeError, IndexError) as error:
                if any(words in str(error) for words in OF_MEMORY):
                    raise
                result = weft.tensor(float(len(str(error))))
            if result is not None:
                values.append(result)
        return values[-3:]

    return program


def random_inputs(seed):
    random = np.random.default_rng(seed)
    a, b = (weft.from_numpy(random.standard_normal((3, 3))) for _ in range(2))
    return (a.requires_grad_() if seed % 2 else a, b.requires_grad_() if seed % 3 else b.T), {}


@pytest.mark.filterwarnings("ignore:Use of")  # writes to expanded memory
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs(first):
    for seed in range(first, first + 20):
        try:
            check(random_program(seed), lambda seed=seed: random_inputs(seed))
        except Break as found:
            assert found.kind.startswith("data-dependent") or OF_MEMORY[0] in str(found), seed
        except RuntimeError as error:
            assert any(words in str(error) for words in OF_MEMORY), seed
