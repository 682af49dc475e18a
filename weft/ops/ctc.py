"""Connectionist temporal classification: the likelihood of a labelling, summed over all its alignments.

Takes log-probabilities `(T, N, C)`, labels and lengths; gives a loss per example. The one idea: the labels
with blanks between them are the states of a chain, so that one recursion over time, run for all examples and
states at once, gives the likelihood, and the same recursion backwards gives each state's share in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.arrays import Array, ArrayModule, namespace
from weft.core.dtypes import float32, float64
from weft.core.errors import underivable
from weft.core.types import TensorType
from weft.ops.families import HIDDEN, composite, contract
from weft.ops.losses import REDUCTION, check_reduction, reduced
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike

WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"


def _padded(xp: ArrayModule, targets: Array, lengths: Array) -> Array:
    """Labels as `(N, longest)`, whether they came that way or one after another."""
    longest = int(lengths.max()) if lengths.size else 0
    if targets.ndim == 2:
        if longest > targets.shape[1]:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{targets.shape[1]} for argument #2 'targets' {WHERE}"
            )
        return targets[:, :longest].astype(xp.int64)
    total = int(lengths.sum())
    if targets.shape[0] != total:
        raise RuntimeError(
            f"Expected tensor to have size {total} at dimension 0, but got size {targets.shape[0]} for "
            f"argument #2 'targets' {WHERE}"
        )
    starts = xp.cumsum(lengths) - lengths
    places = xp.minimum(starts[:, None] + xp.arange(longest), max(total - 1, 0))
    return targets.astype(xp.int64)[places] if total else xp.zeros((lengths.size, longest), xp.int64)


def _check_lengths(word: str, lengths: Array, most: int | None) -> None:
    for value in lengths.tolist():
        if value < 0:
            raise RuntimeError(f"Expected {word} to have value at least 0, but got value {value} {WHERE}")
        if most is not None and value > most:
            raise RuntimeError(f"Expected {word} to have value at most {most}, but got value {value} {WHERE}")


class _Chain:
    """The states of all examples: labels with blanks between, and which states may be skipped to."""

    def __init__(self, logs: Array, targets: Array, steps: Array, lengths: Array, blank: int) -> None:
        xp = self.xp = namespace(logs)
        _check_lengths("input_lengths", steps, logs.shape[0])
        _check_lengths("target_lengths", lengths, None)
        labels = _padded(xp, targets, lengths)
        labels = xp.where(xp.arange(labels.shape[1]) < lengths[:, None], labels, blank)
        count, longest = labels.shape
        self.states = xp.full((count, 2 * longest + 1), blank, xp.int64)
        self.states[:, 1::2] = labels
        self.skips = xp.zeros(self.states.shape, bool)
        self.skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]
        self.steps, self.lengths = steps, lengths
        self.places = xp.arange(self.states.shape[1])
        self.emitted = xp.take_along_axis(
            logs, xp.broadcast_to(self.states, (len(logs), *self.states.shape)), 2
        )

    def forward(self) -> tuple[Array, Array]:
        """Log-likelihoods of all ways into each state at each time, and of the whole; `(T, N, L)`, `(N)`."""
        xp, emitted = self.xp, self.emitted
        out = xp.full(emitted.shape, -xp.inf, emitted.dtype)
        if len(out):
            out[0, :, :2] = emitted[0, :, :2]
            out[0, :, 1:2] = xp.where(self.lengths[:, None] > 0, out[0, :, 1:2], -xp.inf)
        for time in range(1, len(out)):
            out[time] = self._into(out[time - 1]) + emitted[time]
        return out, self._total(out)

    def _into(self, before: Array) -> Array:
        xp = self.xp
        total = before.copy()
        total[:, 1:] = xp.logaddexp(total[:, 1:], before[:, :-1])
        skipped = xp.where(self.skips[:, 2:], before[:, :-2], -xp.inf)
        total[:, 2:] = xp.logaddexp(total[:, 2:], skipped)
        return total

    def _ends(self) -> Array:
        """The states in which an example may end."""
        last = 2 * self.lengths[:, None]
        return (self.places == last) | ((self.places == last - 1) & (last > 0))

    def _total(self, ways: Array) -> Array:
        xp = self.xp
        nothing = xp.where(self.lengths == 0, 0.0, -xp.inf).astype(ways.dtype)
        if not len(ways):
            return nothing
        rows = xp.arange(ways.shape[1])
        final = xp.where(self._ends(), ways[xp.maximum(self.steps - 1, 0), rows], -xp.inf)
        return xp.where(self.steps == 0, nothing, xp.logaddexp.reduce(final, 1))

    def backward(self) -> Array:
        """Log-likelihoods of all ways out of each state at each time, the state's own emission included."""
        xp, emitted = self.xp, self.emitted
        out = xp.full(emitted.shape, -xp.inf, emitted.dtype)
        ends = self._ends()
        for time in range(len(out) - 1, -1, -1):
            after = self._out_of(out[time + 1]) if time + 1 < len(out) else out[time]
            here = xp.where((self.steps == time + 1)[:, None] & ends, 0.0, after)
            here = xp.where((self.steps <= time)[:, None], -xp.inf, here)
            out[time] = here + emitted[time]
        return out

    def _out_of(self, after: Array) -> Array:
        xp = self.xp
        total = after.copy()
        total[:, :-1] = xp.logaddexp(total[:, :-1], after[:, 1:])
        skipped = xp.where(self.skips[:, 2:], after[:, 2:], -xp.inf)
        total[:, :-2] = xp.logaddexp(total[:, :-2], skipped)
        return total


def _lengths(xp: ArrayModule, tensor: Array | None, given: Sequence[int] | None) -> Array:
    values = (
        tensor if tensor is not None else xp.asarray(given if isinstance(given, (tuple, list)) else (given,))
    )
    return values.reshape(-1).astype(xp.int64)


def _chain(logs: Array, targets: Array, steps: Any, lengths: Any, given: Any, blank: int) -> _Chain:
    xp = namespace(logs)
    return _Chain(logs, targets, _lengths(xp, steps, given[0]), _lengths(xp, lengths, given[1]), blank)


def _ctc_kernel(
    logs: Array, targets: Array, steps: Array | None, lengths: Array | None, given: Any, blank: int,
    zero_infinity: bool,
) -> Array:  # fmt: skip
    loss = -_chain(logs, targets, steps, lengths, given, blank).forward()[1]
    xp = namespace(logs)
    return xp.where(xp.isinf(loss), loss.dtype.type(0), loss) if zero_infinity else loss


def _ctc_backward_kernel(
    g: Array, logs: Array, targets: Array, steps: Array | None, lengths: Array | None, given: Any, blank: int,
    zero_infinity: bool,
) -> Array:  # fmt: skip
    """What each class is likely, less what the alignments say: the gradient behind a softmax."""
    xp = namespace(logs)
    chain = _chain(logs, targets, steps, lengths, given, blank)
    ways, total = chain.forward()
    shares = xp.exp(ways + chain.backward() - total[:, None] - chain.emitted)
    out = xp.zeros(logs.shape, logs.dtype)
    times, rows = xp.arange(len(logs))[:, None, None], xp.arange(logs.shape[1])[:, None]
    xp.add.at(out, (times, rows, chain.states), shares)
    out = xp.exp(logs) - out
    alive = xp.arange(len(logs))[:, None] < chain.steps
    if zero_infinity:
        alive = alive & xp.isfinite(total)
    return xp.where(alive[..., None], out * g[:, None], out.dtype.type(0))


def _ctc_rule(
    logs: TensorType, targets: TensorType, steps: TensorType | None, lengths: TensorType | None, given: Any,
    blank: int, zero_infinity: bool,
) -> TensorType:  # fmt: skip
    if logs.dtype not in (float32, float64):
        raise unsupported("ctc_loss_cpu", logs.dtype)
    if not 0 <= blank < logs.shape[2]:
        raise RuntimeError("blank must be in label range")
    for word, tensor, values in (("input_lengths", steps, given[0]), ("target_lengths", lengths, given[1])):
        count = tensor.numel() if tensor is not None else len(values)
        if count != logs.shape[1]:
            raise RuntimeError(f"{word} must be of size batch_size")
    return TensorType((logs.shape[1],), logs.dtype, logs.device)


def _ctc_backward_rule(_g: object, logs: TensorType, *rest: Any) -> TensorType:
    _ctc_rule(logs, *rest)
    return logs


def _ctc_vjp(
    g: TensorLike, _out: object, logs: TensorLike, targets: TensorLike, steps: MaybeTensor,
    lengths: MaybeTensor, given: Any, blank: int, zero: bool,
) -> Any:  # fmt: skip
    return ctc_backward(g, logs, targets, steps, lengths, given, blank, zero)


def _no_second(*_rest: object) -> Any:
    underivable("_ctc_loss_backward")


def _no_second_g(g: TensorLike, _out: object) -> Any:
    return _no_second()


def _inner_samples(make: Maker) -> Iterator[Sample]:
    labels = make.ints(2, 3, low=1, high=4)
    yield Sample(make(5, 2, 4), labels, None, None, ((5, 4), (3, 2)), 0, False, grad=False)
    yield Sample(make(5, 2, 4), labels.reshape(-1), None, None, ((5, 4), (3, 3)), 0, True, grad=False)


def _backward_samples(make: Maker) -> Iterator[Sample]:
    labels = make.ints(2, 3, low=1, high=4)
    yield Sample(make(2), make(5, 2, 4), labels, None, None, ((5, 4), (3, 2)), 0, False, grad=False)


LENGTHS = "targets: Tensor, input_lengths: MaybeTensor, target_lengths: MaybeTensor, given: Any, blank: int"
ctc_elements: Op = contract(
    "_ctc_loss", _ctc_kernel, _ctc_rule, f"log_probs: Tensor, {LENGTHS}, zero_infinity: bool",
    vjp=(_ctc_vjp, None, None, None), samples=_inner_samples, node="CtcLossBackward0", **HIDDEN,
    refuses="integers",
)  # fmt: skip
ctc_backward: Op = contract(
    "_ctc_loss_backward", _ctc_backward_kernel, _ctc_backward_rule,
    f"grad: Tensor, log_probs: Tensor, {LENGTHS}, zero_infinity: bool",
    vjp=(_no_second_g, _no_second_g, None, None, None), samples=_backward_samples, **HIDDEN,
    refuses="integers",
)  # fmt: skip


def _ctc_samples(make: Maker) -> Iterator[Sample]:
    labels = make.ints(2, 3, low=1, high=4)
    for reduction in ("mean", "sum", "none"):
        yield Sample(make(5, 2, 4), labels, (5, 4), (3, 2), reduction=reduction, grad=False)
    yield Sample(make(5, 4), labels[0], (5,), (3,), grad=False)


@composite(
    "log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, "
    f"{REDUCTION}, zero_infinity: bool = False",
    namespace="nn.functional", amp="float32", samples=_ctc_samples,
)  # fmt: skip
def ctc_loss(
    log_probs: TensorLike, targets: TensorLike, input_lengths: Any, target_lengths: Any, blank: int,
    reduction: str, zero_infinity: bool,
) -> Any:  # fmt: skip
    """The negative log-likelihood of labels without alignment, given log-probabilities `(T, N, C)`."""
    check_reduction(reduction)
    single = type_of(log_probs).ndim == 2
    if single:
        log_probs = ops.unsqueeze(log_probs, 1)
        targets = ops.unsqueeze(targets, 0) if type_of(targets).ndim == 1 else targets
    tensors: list[Any] = []
    for word, value in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        tensors.append(value if hasattr(value, "shape") else None)
        if tensors[-1] is not None and type_of(value).dtype.category != 1:
            raise RuntimeError(f"{word} must be integral")
    if (tensors[0] is None) != (tensors[1] is None) or isinstance(input_lengths, int):
        raise TypeError("ctc_loss() received an invalid combination of arguments")
    given = None if tensors[0] is not None else (tuple(input_lengths), tuple(target_lengths))
    loss = ctc_elements(log_probs, targets, *tensors, given or ((), ()), blank, zero_infinity)
    if reduction == "mean":
        if tensors[1] is not None:
            counts = ops.clamp_min(ops._to_copy(ops.reshape(tensors[1], (-1,)), type_of(loss).dtype), 1)
            return ops.mean(ops.div(loss, counts))
        parts = [
            ops.div(part, max(n, 1)) for part, n in zip(ops.unbind(loss, 0), target_lengths, strict=True)
        ]
        return ops.mean(ops.stack(parts, 0))
    return reduced(ops.squeeze(loss, 0) if single else loss, reduction)
