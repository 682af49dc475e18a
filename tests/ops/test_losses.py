"""Losses against their formulas, reductions and legacy arguments, edges, and PyTorch's error texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int, low: float = -2.0, high: float = 2.0) -> weft.Tensor:
    return weft.from_numpy(random.uniform(low, high, shape))


ELEMENTWISE = {
    "mse_loss": lambda d: d**2,
    "l1_loss": np.abs,
    "huber_loss": lambda d: np.where(np.abs(d) < 1, d**2 / 2, np.abs(d) - 0.5),
    "smooth_l1_loss": lambda d: np.where(np.abs(d) < 1, d**2 / 2, np.abs(d) - 0.5),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_differences_and_reductions(name: str) -> None:
    x, y = make(2, 3), make(2, 3)
    elements = ELEMENTWISE[name](x.numpy() - y.numpy())
    function = getattr(F, name)
    np.testing.assert_allclose(function(x, y, reduction="none").numpy(), elements, rtol=1e-12)
    assert function(x, y).item() == pytest.approx(elements.mean())
    assert function(x, y, reduction="sum").item() == pytest.approx(elements.sum())
    with pytest.raises(ValueError, match="soft is not a valid value for reduction"):
        function(x, y, reduction="soft")


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights_make_a_weighted_mean(name: str) -> None:
    x, y, w = make(2, 3), make(2, 3), make(2, 3, low=0.5)
    elements = ELEMENTWISE[name](x.numpy() - y.numpy()) * w.numpy()
    total = 6 if name == "huber_loss" else w.numpy().sum()  # PyTorch's huber_loss takes a plain mean
    assert getattr(F, name)(x, y, weight=w).item() == pytest.approx(elements.sum() / total)
    with pytest.raises(ValueError, match="Weights and input must have the same size."):
        getattr(F, name)(x, y, weight=w[0])


def test_legacy_arguments_still_choose_the_reduction() -> None:
    x, y = make(2, 3), make(2, 3)
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.mse_loss(x, y, size_average=False).item() == F.mse_loss(x, y, reduction="sum").item()
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.l1_loss(x, y, reduce=False).shape == (2, 3)


def test_a_broadcast_target_is_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match="Using a target size .* that is different to the input size"):
        F.mse_loss(make(2, 3), make(3))


def test_mixed_dtypes_promote() -> None:
    assert F.mse_loss(make(2, 3), make(2, 3).float()).dtype is weft.float64
    assert F.mse_loss(make(2).bfloat16(), weft.ones(2, dtype=weft.int64)).dtype is weft.bfloat16
    with pytest.raises(NotImplementedError, match="\"mse_cpu\" not implemented for 'Long'"):
        F.mse_loss(weft.ones(2, dtype=weft.int64), weft.ones(2, dtype=weft.int64))


def test_robust_losses_refuse_their_widths() -> None:
    x = make(2)
    with pytest.raises(RuntimeError, match="does not support non-positive values for delta"):
        F.huber_loss(x, x, delta=0)
    with pytest.raises(RuntimeError, match="does not support negative values for beta"):
        F.smooth_l1_loss(x, x, beta=-1)
    assert F.smooth_l1_loss(x, x + 1, beta=0).item() == pytest.approx(1.0)


def test_kullback_leibler() -> None:
    p, q = make(2, 3, low=0.1, high=1), make(2, 3, low=0.1, high=1)
    expected = (p.numpy() * (np.log(p.numpy()) - np.log(q.numpy()))).sum()
    assert F.kl_div(q.log(), p, reduction="sum").item() == pytest.approx(expected)
    assert F.kl_div(q.log(), p, reduction="batchmean").item() == pytest.approx(expected / 2)
    assert F.kl_div(q.log(), p.log(), reduction="sum", log_target=True).item() == pytest.approx(expected)
    with pytest.warns(
        UserWarning, match="'mean' divides the total loss by both the batch size and the support size"
    ):
        F.kl_div(q.log(), p)


def test_binary_cross_entropy_at_the_edges() -> None:
    x = weft.tensor([0.0, 1.0, 0.25], requires_grad=True)
    y = weft.tensor([1.0, 1.0, 1.0])
    loss = F.binary_cross_entropy(x, y, reduction="none")
    assert loss.tolist() == [100.0, 0.0, pytest.approx(np.log(4))]
    loss.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    assert x.grad[2].item() == pytest.approx(-4)
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(x.detach() * 2, y)
    with pytest.raises(ValueError, match="that is different to the input size"):
        F.binary_cross_entropy(x, y[:2])


def test_logits_are_probabilities_in_disguise() -> None:
    x, y, w, p = make(4, 3), make(4, 3, low=0, high=1), make(3, low=0.5), make(3, low=0.5)
    s = 1 / (1 + np.exp(-x.numpy()))
    t = y.numpy()
    elements = -(p.numpy() * t * np.log(s) + (1 - t) * np.log(1 - s)) * w.numpy()
    loss = F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p)
    assert loss.item() == pytest.approx(elements.mean())
    assert F.binary_cross_entropy_with_logits(weft.tensor([-800.0]), weft.tensor([1.0])).item() == 800.0


def picked(x: Any, t: Any) -> Any:
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    return -np.take_along_axis(logs, np.expand_dims(t, 1), 1).squeeze(1)


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (2, 4, 3, 2), (2, 4, 2, 3, 2)])
def test_cross_entropy_of_classes(shape: tuple[int, ...]) -> None:
    x = make(*shape)
    t = random.integers(0, 4, (shape[0], *shape[2:]))
    target = weft.from_numpy(t)
    expected = picked(x.numpy(), t)
    np.testing.assert_allclose(F.cross_entropy(x, target, reduction="none").numpy(), expected, rtol=1e-12)
    assert F.cross_entropy(x, target).item() == pytest.approx(expected.mean())
    w = make(4, low=0.5)
    weights = w.numpy()[t] * (t != 2)
    loss = F.cross_entropy(x, target, w, ignore_index=2)
    assert loss.item() == pytest.approx((expected * weights).sum() / weights.sum())


def test_smoothed_classes_are_smoothed_probabilities() -> None:
    x, t = make(5, 4), random.integers(0, 4, 5)
    smooth = 0.9 * np.eye(4)[t] + 0.1 / 4
    by_class = F.cross_entropy(x, weft.from_numpy(t), label_smoothing=0.1)
    by_probability = F.cross_entropy(x, weft.from_numpy(smooth))
    assert by_class.item() == pytest.approx(by_probability.item())
    assert F.cross_entropy(x, weft.from_numpy(np.eye(4)[t]), label_smoothing=0.1).item() == pytest.approx(
        by_class.item()
    )


def test_one_example_without_a_batch() -> None:
    x = make(4)
    assert F.cross_entropy(x, weft.tensor(2)).item() == pytest.approx(
        F.cross_entropy(x[None], weft.tensor([2])).item()
    )


def test_nothing_left_to_average_is_not_a_number() -> None:
    assert np.isnan(F.nll_loss(weft.zeros(2, 3), weft.tensor([-100, -100])).item())
    assert F.nll_loss(weft.zeros(2, 3), weft.tensor([-100, -100]), reduction="sum").item() == 0.0


def test_gradient_of_the_mean_loss() -> None:
    x = weft.zeros(2, 4, requires_grad=True)
    loss = F.cross_entropy(x, weft.tensor([1, 3]))
    assert type(loss.grad_fn).__name__ == "NllLossBackward0"
    loss.backward()
    assert x.grad[0].tolist() == [0.125, -0.375, 0.125, 0.125]


def test_half_precision_is_kept() -> None:
    assert F.cross_entropy(weft.zeros(2, 4, dtype=weft.bfloat16), weft.tensor([1, 3])).dtype is weft.bfloat16


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.cross_entropy(weft.zeros(2, 3), weft.tensor([0, 3])),
            IndexError,
            "Target 3 is out of bounds.",
        ),
        (
            lambda: F.cross_entropy(weft.zeros(2, 3), weft.tensor([0, -1])),
            IndexError,
            "Target -1 is out of bounds.",
        ),
        (
            lambda: F.cross_entropy(weft.zeros(2, 3), weft.tensor([0, 1, 2])),
            ValueError,
            r"Expected input batch_size \(2\) to match target batch_size \(3\).",
        ),
        (
            lambda: F.nll_loss(weft.zeros(2, 3), weft.zeros(2)),
            RuntimeError,
            "expected target dtype to be Long or Byte, but got Float",
        ),
        (
            lambda: F.nll_loss(weft.zeros(2, 3), weft.tensor([0, 1]), weft.ones(2)),
            RuntimeError,
            "weight tensor should be defined either for all 3 classes or no classes",
        ),
        (
            lambda: F.cross_entropy(weft.zeros(2, 3), weft.ones(2, 3, dtype=weft.int64)),
            RuntimeError,
            "Expected floating point type for target with class probabilities, got Long",
        ),
        (
            lambda: F.cross_entropy(weft.zeros(2, 3), weft.tensor([0, 1]), label_smoothing=1.5),
            RuntimeError,
            "label_smoothing must be between 0.0 and 1.0. Got: 1.5",
        ),
        (
            lambda: F.nll_loss(weft.zeros(2, 3, 4, 4), weft.zeros(2, 4, 5, dtype=weft.int64)),
            RuntimeError,
            r"size mismatch \(got input: \[2, 3, 4, 4\] , target: \[2, 4, 5\]",
        ),
    ],
)
def test_class_losses_refuse(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_kl_div_of_integers_is_refused() -> None:
    with pytest.raises(RuntimeError, match="kl_div: Integral inputs not supported."):
        weft.nn.functional.kl_div(weft.ones(2, dtype=weft.int64), weft.ones(2), reduction="sum")


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_one_row_of_scores_has_one_target(backend: str) -> None:
    function = weft.compile(weft.nn.functional.nll_loss, backend=backend)
    for each in (weft.nn.functional.nll_loss, function):
        assert each(weft.ones(3), weft.tensor([2])).item() == -1
        with pytest.raises(
            ValueError, match="For 1D input, 1D target must have size 1, but got target size: 3"
        ):
            each(weft.ones(3), weft.tensor([0, 1, 2]))


@pytest.mark.parametrize("kind", [weft.float32, weft.float16, weft.float64])
@pytest.mark.parametrize("compiled", [False, True])
def test_edges_beyond_all_elements(kind: weft.dtype, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge that the dtype cannot hold is never reached: the loss is half a square, its slope the
    difference."""
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    y = weft.tensor([2.0, 5.0, 3.0], dtype=kind)
    for delta in (0.5, 1e300, float("inf")):
        huber = lambda x, edge: F.huber_loss(x, y, "sum", edge)
        huber = weft.compile(huber) if compiled else huber
        x = weft.tensor([1.0, 2.0, -3.0], dtype=kind, requires_grad=True)
        (slope,) = weft.autograd.grad(huber(x, delta), x, create_graph=True)
        (second,) = weft.autograd.grad(slope.sum(), x)
        near = delta > 1
        assert slope.tolist() == ([-1.0, -3.0, -6.0] if near else [-0.5] * 3)
        assert second.tolist() == [float(near)] * 3


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("name", "stepwise"), [("huber_loss", "bfloat16"), ("smooth_l1_loss", "float16")])
def test_which_halves_are_rounded_after_each_step(name: str, stepwise: str, compiled: bool) -> None:
    """PyTorch rounds each step of one half type, for each of the two losses another, and not of the other."""

    def formula(x: weft.Tensor, y: weft.Tensor, edge: weft.Tensor) -> weft.Tensor:
        half, gap = edge.new_tensor([0.5]), (x - y).abs()
        if name == "huber_loss":
            return weft.where(gap <= edge, half * gap * gap, edge * (gap - half * edge))
        return weft.where(gap < edge, half * gap * gap / edge, gap - half * edge)

    word = "delta" if name == "huber_loss" else "beta"

    def loss(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return getattr(F, name)(x, y, reduction="none", **{word: 0.7})

    for kind in (weft.float16, weft.bfloat16, weft.float32):
        x, y = (make(300).to(kind) for _ in range(2))
        if kind is getattr(weft, stepwise):
            wanted = formula(x, y, weft.tensor([0.7], dtype=kind))
        else:
            wanted = formula(x.float(), y.float(), weft.tensor([0.7])).to(kind)
        assert weft.equal((weft.compile(loss) if compiled else loss)(x, y), wanted)


def test_slopes_of_the_smooth_loss_are_exact_beyond_its_tip() -> None:
    x = weft.tensor([-2.0, -0.35, 0.0, 0.35, 2.0], requires_grad=True)
    F.smooth_l1_loss(x, weft.zeros(5), reduction="sum", beta=0.7).backward()
    assert x.grad.tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_single_examples_in_a_batch_are_reduced_each_for_itself(reduction, ignore):
    logs = weft.randn(4, 3, dtype=weft.float64).log_softmax(-1)
    targets = weft.tensor([0, 2, 1, 1])

    def loss(logs, target, weight=None):
        return F.nll_loss(logs, target, weight, ignore_index=ignore, reduction=reduction)

    weight = weft.tensor([0.5, 2.0, 3.0], dtype=weft.float64)
    for given in (None, weight):
        each = [(loss(*pair, given), weft.func.grad(loss)(*pair, given)) for pair in zip(logs, targets)]
        values = weft.func.vmap(loss, (0, 0, None))(logs, targets, given)
        assert weft.allclose(values, weft.stack([value for value, _ in each]), equal_nan=True)
        found = weft.func.vmap(weft.func.grad(loss), (0, 0, None))(logs, targets, given)
        assert weft.allclose(found, weft.stack([gradient for _, gradient in each]))
        scale = 1 if given is None or reduction == "mean" else weight[targets, None]
        assert weft.allclose(found, -F.one_hot(targets, 3).double() * scale * (targets != ignore)[:, None])


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_batches_of_gradients_that_come_to_a_loss(shape, reduction):
    logs = weft.randn(*shape, dtype=weft.float64)
    targets = weft.zeros(shape[:1] + shape[2:] if len(shape) > 1 else (), dtype=weft.int64) + 1
    for weight in (None, weft.tensor([0.5, 2.0, 3.0], dtype=weft.float64)):
        loss = lambda logs, weight=weight: F.nll_loss(logs, targets, weight, reduction=reduction)
        out, pull = weft.func.vjp(loss, logs)
        seeds = weft.randn(5, *out.shape, dtype=weft.float64)
        (found,) = weft.func.vmap(pull)(seeds)
        assert weft.allclose(found, weft.stack([pull(seed)[0] for seed in seeds]))


@pytest.mark.parametrize(
    ("kind", "word"), [(weft.complex64, "Complex"), (weft.int64, "Integral"), (weft.bool, "Integral")]
)
def test_divergence_of_what_is_no_float(kind, word):
    for pair in ((kind, kind), (weft.float32, kind), (kind, weft.float32)):
        with pytest.raises(RuntimeError, match=f"^kl_div: {word} inputs not supported.$"):
            F.kl_div(*[weft.ones(2, dtype=each) for each in pair], reduction="sum")
