"""The generic dispatcher: what it does for calls that the generated fast path does not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F
from weft.tensor import dispatch
from weft.trace.fake import fake_input, hollowly


def test_complex_values_pass_gradients_on() -> None:
    x = weft.tensor([3.0, -2.0], requires_grad=True)
    y = weft.complex(x, x) * 2
    assert weft.equal(y.real.detach(), 2 * x.detach())
    y.abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * 2**0.5 * np.sign(x.detach().numpy()), rtol=1e-6)


@pytest.mark.parametrize("times", [1, 3])
def test_complex_leaves_never_get_a_wrong_gradient(times: int) -> None:
    """Also on the second call, when a real dtype would have reached the fast path."""
    x = weft.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    for _ in range(times):
        y = x * x
    y.real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.conj(x.detach().numpy()))
    assert type(y.grad_fn).__name__ == "MulBackward0"


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.ones(3) - weft.ones(2),
        lambda: weft.add(weft.ones(3), weft.ones(2), alpha=2),
        lambda: weft.ones(3, requires_grad=True) * weft.ones(2),
        lambda: weft.ones(3).mul_(weft.ones(2)),
        lambda: weft.ones(3).view(2),
        lambda: weft.zeros(-1),
        lambda: weft.ones(3) @ weft.ones(2),
    ],
)
def test_errors_of_calls_name_no_other_error(call: Callable[[], object]) -> None:
    for _ in range(2):  # kernels run first for dtypes that they were seen to agree with the rules for
        weft.add(weft.ones(3) - weft.ones(3), weft.ones(3) * weft.ones(3), alpha=2)
    with pytest.raises(RuntimeError) as raised:
        call()
    assert raised.value.__context__ is None


def test_types_of_calls_that_are_alike_follow_from_all_that_they_depend_on() -> None:
    """While a program is recorded, the type of a call's result is taken from one that was alike."""
    kinds = (weft.float32, weft.float16, weft.int64)
    x, halves, ints = [fake_input(weft.ones(2, 3, dtype=kind)) for kind in kinds]

    def typed() -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        calls = [
            lambda: x * x,
            lambda: x * x.t().contiguous().t(),
            lambda: x * halves,
            lambda: ints * ints,
            lambda: ints * 2,
            lambda: ints * 2.0,
            lambda: ints * True,
            lambda: ints / ints,
            lambda: x @ x.t(),
            lambda: halves @ halves.t(),
            lambda: x[:1] * x,
        ]
        with hollowly():
            found = [call() for call in [*calls, *calls]]
        return [(str(each.dtype), tuple(each.shape), each.stride()) for each in found]

    try:
        for kind in (weft.float32, weft.float64, weft.float32):
            weft.set_default_dtype(kind)
            values = typed()
            assert values[: len(values) // 2] == values[len(values) // 2 :]
            assert values[5][0] == values[7][0] == str(kind)
    finally:
        weft.set_default_dtype(weft.float32)


def test_results_of_calls_that_are_alike_have_memory_of_their_own() -> None:
    fake = fake_input(weft.ones(3, requires_grad=True))
    with hollowly():
        first, second = fake * 2, fake * 2
        assert first.array is not second.array
        first.add_(1)
    assert (first._version, second._version) == (1, 0)


def test_sizes_that_vary_are_not_decided_on_by_what_is_remembered() -> None:
    weft.compiler.reset()
    weft.compiler.counters.clear()
    compiled = weft.compile(lambda x: (x * 2).sum(), backend="eager", fullgraph=True)
    for size in (3, 4, 5, 6, 7):
        assert compiled(weft.ones(size)).item() == 2 * size
    assert weft.compiler.counters["stats"]["unique_graphs"] == 2  # one for 3, one for any size


def test_functions_of_users_ops_are_called_each_time() -> None:
    seen = []

    @weft.library.custom_op("alike::twice", mutates_args=())
    def twice(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: weft.Tensor) -> weft.Tensor:
        seen.append(x.shape)
        return weft.empty_like(x)

    fake = fake_input(weft.ones(3))
    with hollowly():
        twice(fake)
        twice(fake)
    assert len(seen) == 2


def test_what_is_remembered_may_be_cleared_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fleeting(dict):  # type: ignore[type-arg]
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    monkeypatch.setattr(dispatch, "HOLLOW", Fleeting())
    fake = fake_input(weft.ones(3))
    with hollowly():
        shapes = [(fake * 2).shape for _ in range(3)]
    assert shapes == [(3,)] * 3


class Half(float):
    """A number of a class of somebody's own."""


NUMBERED: dict[str, Callable[..., weft.Tensor]] = {
    "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "softshrink": lambda x, s: F.softshrink(x, s),
    "huber_loss": lambda x, s: F.huber_loss(x, x * 3, delta=s),
    "smooth_l1_loss": lambda x, s: F.smooth_l1_loss(x, x * 3, beta=s),
    "logit": lambda x, s: x.sigmoid().logit(s),
    "rrelu": lambda x, s: F.rrelu(x, s, s, False),
    "add": lambda x, s: weft.add(x, x, alpha=s),
    "addcmul_": lambda x, s: x.clone().addcmul_(x, x, value=s),
    "lerp": lambda x, s: x.lerp(x * 2, s),
}


@pytest.mark.parametrize("number", [Half(0.5), np.float64(0.5), np.float32(0.5)])
@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_of_other_classes_are_taken_for_their_values(name: str, number: float) -> None:
    """Also on the second call, when kernels get what was given. NumPy has a dtype for each of these."""
    call = NUMBERED[name]
    for _ in range(3):
        x = weft.tensor([0.5, -1.25, 3.0], requires_grad=True)
        same = x.detach().clone().requires_grad_()
        made, expected = call(x, number), call(same, 0.5)
        made.sum().backward()
        expected.sum().backward()
        assert made.dtype is weft.float32 and weft.equal(made, expected)
        assert x.grad is not None and same.grad is not None
        assert x.grad.dtype is weft.float32 and weft.equal(x.grad, same.grad)


EXPANDED = [
    lambda v: weft.add(weft.ones(3, 4), 1, out=v),
    lambda v: weft.matmul(weft.ones(3, 3), weft.ones(3, 4), out=v),
    lambda v: weft.cat([weft.ones(1, 4), weft.ones(2, 4)], out=v),
    lambda v: weft.gather(weft.ones(3, 4), 0, weft.zeros(3, 4, dtype=weft.int64), out=v),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("write", EXPANDED)
def test_out_on_elements_that_share_memory_is_refused(write: Any, backend: str) -> None:
    def program(b: Any) -> Any:
        v = (b * 2).expand(3, 4)
        write(v)
        return v

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to"):
        run(weft.ones(3, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_out_that_is_read_by_data_is_refused(backend: str) -> None:
    def program(b: Any) -> Any:
        v = b * 2
        return weft.index_select(v, 0, weft.tensor([2, 1, 0]), out=v)

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        run(weft.ones(3, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_an_operand_that_is_out_is_not_resized(backend: str) -> None:
    def program(x: Any, y: Any) -> Any:
        x = x * 2
        return weft.add(x, y, out=x)

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    with pytest.raises(RuntimeError, match=r"with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        run(weft.ones(3), weft.ones(2, 3))
