"""Custom ops: calls, checks, gradients, transforms, writes, and the record that others see."""

import collections.abc
import warnings

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.autograd import gradcheck, gradgradcheck
from weft.autograd.custom_op import DEFINITIONS, custom_op
from weft.core.types import TensorType
from weft.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from weft.ops.record import REGISTRY, Kind


@pytest.fixture(autouse=True)
def forget():
    before = set(DEFINITIONS)  # those of other files, which are made when they are read
    yield
    for name, definition in list(DEFINITIONS.items()):
        if name not in before:
            definition._destroy()


def define(function, name="mine::op", mutates_args=(), **options):
    return custom_op(name, function, mutates_args=mutates_args, **options)


def sine_op():
    """sin, computed by NumPy behind Weft's back."""

    @custom_op("mine::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        """Sine."""
        return weft.from_numpy(np.sin(x.detach().numpy()))

    sine.register_fake(lambda x: weft.empty_like(x))
    sine.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return sine


def double(*shape, seed=0):
    weft.manual_seed(seed)
    return weft.randn(*shape, dtype=weft.float64, requires_grad=True)


# -- calls ---------------------------------------------------------------------------------------------------
def test_call_and_names():
    sine = sine_op()
    x = weft.ones(3)
    for call in (sine, weft.ops.mine.sine, weft.ops.mine.sine.default):
        assert weft.equal(call(x), x.sin())
    assert weft.equal(sine(x=x), x.sin())
    assert repr(sine) == "<CustomOpDef(mine::sine)>"
    assert repr(weft.ops.mine.sine) == "<OpOverloadPacket(op='mine.sine')>"
    assert repr(weft.ops.mine.sine.default) == "<OpOverload(op='mine.sine', overload='default')>"
    assert str(sine._opoverload._schema) == "mine::sine(Tensor x) -> Tensor"
    assert weft.ops.mine.sine.default.name() == "mine::sine" and weft.ops.mine.sine.overloads() == ["default"]


def test_name_is_checked_and_may_be_taken_over():
    def one(x: Tensor) -> Tensor:
        return x * 1

    def two(x: Tensor) -> Tensor:
        return x * 2

    for name in ("mine", "a::b::c", "a.b::c", "a::b c"):
        with pytest.raises(ValueError, match="is no name for a custom op"):
            define(one, name)
    define(one)
    define(two)
    assert weft.ops.mine.op(weft.ones(1)).item() == 2
    with pytest.raises(TypeError, match="mutates_args"):
        custom_op("mine::op")


def test_given_schema_must_agree():
    op = custom_op(
        "mine::scaled", lambda x, y: x * y, mutates_args=(), schema="(Tensor x, float y) -> Tensor"
    )
    assert op(weft.ones(2), 3).tolist() == [3, 3]
    with pytest.raises(ValueError, match="Please make these consistent"):
        custom_op("mine::s", lambda x: x, mutates_args={"x"}, schema="(Tensor x) -> Tensor")


def test_kernel_runs_without_recording_on_the_very_tensors():
    seen = []

    def function(x: Tensor, xs: collections.abc.Sequence[Tensor], k: int = 2, *, s: float = 1.5) -> Tensor:
        seen.append((weft.is_grad_enabled(), x, xs, k, s))
        return x.detach() * k * s

    op = define(function)
    x = weft.ones(2, requires_grad=True)
    assert op(x, (x,)).tolist() == [3, 3]
    (enabled, given, many, k, s) = seen[0]
    assert not enabled and given is x and type(many) is list and (k, s) == (2, 1.5)


def test_outputs_are_checked():
    def alias(x: Tensor) -> Tensor:
        return x

    def view(x: Tensor) -> Tensor:
        return x[0:1]

    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x + 1
        return z, z

    for function in (alias, view, twice):
        op = define(function)
        for x in (weft.ones(2), weft.ones(2, requires_grad=True)):
            with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
                op(x)

    def number(x: Tensor) -> Tensor:
        return 3

    def pair(x: Tensor) -> tuple[Tensor, int]:
        return x + 1

    def short(x: Tensor) -> tuple[Tensor, int]:
        return (x + 1,)

    with pytest.raises(RuntimeError, match="Unable to cast 3 to Tensor"):
        define(number)(weft.ones(1))
    with pytest.raises(TypeError, match="Object of type 'Tensor' is not an instance of 'sequence'"):
        define(pair)(weft.ones(1))
    with pytest.raises(RuntimeError, match="returned 1 values, but its schema says 2"):
        define(short)(weft.ones(1))


def test_history_made_inside_is_cut_off():
    w = weft.ones(2, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        with weft.enable_grad():
            return x * w

    assert not define(function)(weft.ones(2)).requires_grad


# -- devices and types ---------------------------------------------------------------------------------------
def test_fake_serves_meta():
    sine = sine_op()
    out = sine(weft.ones(2, 3, device="meta", requires_grad=True))
    assert out.is_meta and out.shape == (2, 3) and out.requires_grad

    def made(n: int, x: Tensor) -> Tensor:
        return weft.ones(n)

    op = define(made)
    with pytest.raises(RuntimeError, match="There was no fake impl registered for <CustomOpDef.mine::op.>"):
        op(3, weft.ones(1, device="meta"))
    op.register_fake(lambda n, x: weft.empty(n))
    assert op(3, weft.ones(1, device="meta")).is_meta


def test_kernels_by_device():
    def function(x: Tensor) -> Tensor:
        return x * 2

    op = define(function, device_types="cuda")
    with pytest.raises(
        NotImplementedError, match="Could not run 'mine::op' with arguments from the 'CPU' backend"
    ):
        op(weft.ones(1))

    @op.register_kernel("cpu")
    def on_cpu(x):
        return x * 3

    assert op(weft.ones(1)).item() == 3 and on_cpu(weft.ones(1)).item() == 3
    op.register_kernel(None, lambda x: x * 4)
    assert op(weft.ones(1)).item() == 4
    op.register_kernel(["meta"], lambda x: weft.empty(7, device="meta"))
    assert op(weft.ones(1, device="meta")).shape == (7,)
    with pytest.raises(RuntimeError, match="device type at start of device string: bogus"):
        op.register_kernel("bogus")


def test_the_record_is_one_op():
    sine = sine_op()
    op = REGISTRY["ops.mine.sine"]
    assert op is sine._op and op.kind is Kind.CONTRACT and op.doc == "Sine."
    x = np.linspace(-1, 1, 5)
    assert np.array_equal(op(x), np.sin(x))
    assert op(TensorType((2, 3), weft.float32)) == TensorType((2, 3), weft.float32)
    (gradient,) = op.vjp.function((True,), np.ones(5), np.sin(x), x)
    assert np.allclose(gradient, np.cos(x)) and type(gradient) is np.ndarray
    sine._destroy()
    assert "ops.mine.sine" not in REGISTRY and not hasattr(weft.ops, "mine")


def test_modes_and_classes_see_one_call():
    sine = sine_op()
    names = []

    class Log(weft.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(weft.overrides.resolve_name(function) or function.__name__)
            return function(*args, **(kwargs or {}))

    x = weft.ones(2)
    with Log():
        sine(x)
    assert names == ["weft.ops.mine.sine"]

    class Mine(Tensor):
        pass

    assert type(sine(weft.ones(2).as_subclass(Mine))) is Mine


# -- gradients -----------------------------------------------------------------------------------------------
def test_gradients_to_second_order():
    sine = sine_op()
    assert gradcheck(sine, (double(3),)) and gradgradcheck(sine, (double(3),))
    out = sine(weft.ones(2, requires_grad=True))
    assert type(out.grad_fn).__name__ == "GeneratedBackwardFor_mine_sine_defaultBackward"
    with weft.no_grad():
        assert not sine(weft.ones(2, requires_grad=True)).requires_grad
    with weft.inference_mode():
        assert not sine(weft.ones(2, requires_grad=True)).requires_grad


def test_without_formula_backward_raises():
    def function(x: Tensor) -> Tensor:
        return x * 2

    out = define(function)(weft.ones(2, requires_grad=True))
    assert out.requires_grad
    with pytest.raises(
        RuntimeError, match="Trying to backward through mine.op.default but no autograd formula was"
    ):
        out.sum().backward()


def test_context_inputs_and_needs():
    seen = []

    def function(x: Tensor, k: int, y: Tensor | None = None, *, s: float = 2.0) -> Tensor:
        return x.detach() * k * s if y is None else x.detach() * k * s + y

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.factor = inputs[1] * keyword_only_inputs["s"]
        seen.append((len(inputs), output.requires_grad))

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g * ctx.factor, None, g if ctx.needs_input_grad[2] else None

    op = define(function)
    op.register_autograd(backward, setup_context=setup)
    x, y = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
    assert weft.autograd.grad(op(x, 3).sum(), x)[0].tolist() == [6, 6]
    assert [g.tolist() for g in weft.autograd.grad(op(x, 3, y, s=1.0).sum(), (x, y))] == [[3, 3], [1, 1]]
    assert weft.autograd.grad(op(x.detach(), 3, y).sum(), y)[0].tolist() == [1, 1]
    assert seen[::2] == [(3, False)] * 3
    assert seen[1::2] == [(True, False, False), (True, False, True), (False, False, True)]


def test_lists_and_several_outputs():
    def function(xs: collections.abc.Sequence[Tensor], k: float) -> tuple[list[Tensor], Tensor, int]:
        return [x.detach() * k for x in xs], xs[0].detach().long(), len(xs)

    seen = []

    def backward(ctx, grads, whole, count):
        seen.append((ctx.needs_input_grad, whole.tolist(), count))
        return [g * ctx.k for g in grads], None

    def setup(ctx, inputs, output):
        ctx.k = inputs[1]
        assert type(inputs[0]) is list and type(output) is tuple and output[2] == 2

    op = define(function)
    op.register_autograd(backward, setup_context=setup)
    x, y = weft.ones(2, requires_grad=True), weft.ones(3)
    outs, whole, count = op((x, y), 2.0)
    assert type(outs) is list and count == 2 and outs[0].requires_grad and not whole.requires_grad
    assert weft.autograd.grad(outs[0].sum(), x)[0].tolist() == [2, 2]
    assert seen == [(([True, False], False), [0, 0], None)]
    for wrong in (lambda ctx, *g: (None, None), lambda ctx, g, *_: ([g[0]], None)):
        op.register_autograd(wrong, setup_context=setup)
        with pytest.raises(
            RuntimeError, match="Expected the return from backward to be of the same structure"
        ):
            op([x, y], 2.0)[0][0].sum().backward()


@pytest.mark.parametrize(
    ("backward", "text"),
    [
        (lambda ctx, g: g, r"returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: (g, g, g), r"returned an incorrect number of gradients \(expected 2, got 3\)"),
        (
            lambda ctx, g: (g.sum(), None),
            r"returned an invalid gradient at index 0 - got \[\] but expected shape",
        ),
        (lambda ctx, g: (3, None), r"expected Variable or None \(got int\)"),
    ],
)
def test_wrong_gradients_are_refused(backward, text):
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    op = define(function)
    op.register_autograd(backward)
    x = weft.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=text):
        op(x, weft.ones(3)).sum().backward()


def test_saved_tensors_are_watched():
    sine = sine_op()
    x = weft.ones(2, requires_grad=True) * 1
    out = sine(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# -- transforms ----------------------------------------------------------------------------------------------
def close(a, b):
    return weft.allclose(a, b, rtol=1e-6, atol=1e-8)


def test_under_transforms():
    sine = sine_op()
    calls = []

    @sine.register_vmap
    def rule(info, in_dims, x):
        calls.append((info.batch_size, info.randomness, in_dims))
        return sine(x), in_dims[0]

    xs = double(3, 4).detach()
    assert close(vmap(sine)(xs), xs.sin())
    assert close(vmap(sine, in_dims=1, out_dims=1)(xs), xs.sin())
    assert calls == [(3, "error", (0,)), (4, "error", (1,))]
    assert close(grad(lambda x: sine(x).sum())(xs), xs.cos())
    assert close(vmap(grad(lambda x: sine(x).sum()))(xs), xs.cos())
    assert close(vmap(vmap(sine))(xs), xs.sin())
    value, tangent = jvp(sine, (xs,), (weft.ones_like(xs),))
    assert close(value, xs.sin()) and close(tangent, xs.cos())
    assert close(jacrev(sine)(xs[0]), weft.diag(xs[0].cos()))
    assert close(jacfwd(sine)(xs[0]), weft.diag(xs[0].cos()))
    assert close(hessian(lambda x: sine(x).sum())(xs[0]), weft.diag(-xs[0].sin()))


def test_vmap_without_a_rule_runs_example_by_example():
    sine = sine_op()
    xs = weft.ones(3, 2)
    with pytest.warns(
        UserWarning, match="sine has no batch rule for these arguments and runs example by example"
    ):
        assert close(vmap(sine)(xs), xs.sin())
    sine.register_vmap(lambda info, in_dims, x: sine(x))
    with pytest.raises(RuntimeError, match="must return two things, outputs and out_dims"):
        vmap(sine)(xs)


def test_forward_mode_without_formula_raises():
    def function(x: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        jvp(define(function), (weft.ones(2),), (weft.ones(2),))


def test_vmap_rule_with_keyword_only_arguments_and_lists():
    def function(xs: list[Tensor], y: Tensor, *, k: float = 1.0) -> list[Tensor]:
        return [x * y * k for x in xs]

    op = define(function)

    @op.register_vmap
    def rule(info, in_dims, xs, y, *, k):
        assert in_dims == ((0, None), None)
        return op([xs[0], xs[1].expand(info.batch_size, -1)], y, k=k), [0, 0]

    xs = weft.arange(6.0).reshape(3, 2)
    first, second = vmap(lambda x: op([x, weft.ones(2)], weft.ones(2), k=2.0))(xs)
    assert close(first, xs * 2) and close(second, weft.full((3, 2), 2.0))


# -- writes --------------------------------------------------------------------------------------------------
def adder():
    def function(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    return define(function, mutates_args={"x"})


def test_writes_move_versions():
    op, x = adder(), weft.ones(2)
    before = x._version
    assert op(x, weft.ones(2)) is None
    assert x.tolist() == [2, 2] and x._version > before
    y = weft.ones(2, requires_grad=True)
    saved = y * x
    op(x, weft.ones(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    assert op(weft.ones(2, device="meta"), weft.ones(2, device="meta")) is None


def test_gradients_do_not_flow_through_writes():
    op, one = adder(), weft.ones(2)
    leaf = weft.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"
    ):
        op(leaf, one)
    assert leaf.tolist() == [1, 1]
    with weft.no_grad():
        op(leaf, one)
    assert leaf.tolist() == [2, 2]
    buffer = weft.zeros(2)
    op(buffer, leaf)  # a buffer stays a constant
    assert buffer.tolist() == [2, 2] and not buffer.requires_grad
    inner = leaf * 2
    op(inner, one)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        inner.sum().backward()
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, g: g)


def test_writes_and_results_and_batches():
    def function(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    op = define(function, mutates_args="unknown")
    x = weft.ones(2)
    assert op(x).tolist() == [4, 4] and x.tolist() == [2, 2]
    out = op(weft.ones(2, requires_grad=True) * 1)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()
    with pytest.raises(
        RuntimeError, match="Batching rule not implemented for mine::op; the fallback path doesn't"
    ):
        vmap(op)(weft.ones(3, 2))


def test_quiet_under_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sine, x = sine_op(), weft.ones(2, requires_grad=True)
        sine(x).sum().backward()
    weft.testing.assert_close(x.grad, weft.ones(2).cos())


def test_autocast_leaves_custom_ops_alone():
    sine = sine_op()
    with weft.autocast("cpu", dtype=weft.bfloat16):
        assert sine(weft.ones(2)).dtype is weft.float32
