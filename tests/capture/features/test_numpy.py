"""NumPy in captured code: scalars are constants, arrays are inputs, functions of constants are folded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.harness import check, tensor

Tensor = weft.Tensor
SCALE = np.float32(2.5)
TABLE = np.arange(3, dtype=np.float32)


def test_numpy_scalar_argument_is_a_constant() -> None:
    check(
        lambda x, n: x * n + 1,
        lambda: (tensor(), np.float32(2)),
        lambda: (tensor(), np.float32(3)),
        lambda: (tensor(), np.float64(3)),
        frames=3,
    )


def test_numpy_scalar_of_a_module() -> None:
    check(lambda x: (x * SCALE, SCALE, type(SCALE).__name__))


def test_numpy_scalar_arithmetic() -> None:
    check(
        lambda x, n: (x * (n + 1), n * 2, n.dtype == np.float32, n > 1, float(n), n.item()),
        lambda: (tensor(), np.float32(2)),
    )


def test_numpy_functions_of_constants() -> None:
    def f(x: Tensor, n: int) -> Any:
        return x * np.sqrt(16.0) + np.prod([2, 3]) + np.log2(n), np.pi, np.ceil(2.5), int(np.prod(x.shape))

    check(f, lambda: (tensor(), 8))


def test_numpy_functions_of_varying_numbers() -> None:
    calls = [lambda n=n: (tensor(), n) for n in (3, 4, 5)]
    check(lambda x, n: x * np.maximum(n, 4) + np.isnan(n) + np.sqrt(n), *calls, frames=3)


def test_numpy_scalar_types_are_called() -> None:
    check(lambda x: (x + np.float32(1.5), np.int64(3), np.dtype("float32"), np.float32))


def test_array_argument_becomes_a_tensor() -> None:
    def f(x: Tensor, a: np.ndarray) -> Any:
        return x + weft.from_numpy(a), weft.as_tensor(a) * 2, weft.tensor(a) + 1

    check(f, lambda: (tensor(), np.ones(3, np.float32)), lambda: (tensor(), np.zeros(3, np.float32)))


def test_array_shape_and_dtype_are_guarded() -> None:
    def f(x: Tensor, a: np.ndarray) -> Any:
        return x + a.shape[0] + a.ndim + len(a) + a.size, a.dtype == np.float32

    check(
        f,
        lambda: (tensor(), np.ones(3, np.float32)),
        lambda: (tensor(), np.ones(3, np.float32) * 2),
        lambda: (tensor(), np.ones((3, 1))),
        frames=2,
    )


def test_array_strides_are_guarded() -> None:
    def f(x: Tensor, a: np.ndarray) -> Any:
        made = weft.from_numpy(a)
        return made + x, made.stride(), made.is_contiguous()

    strided = np.arange(6, dtype=np.float32)
    check(f, lambda: (tensor(), strided[::2]), lambda: (tensor(), strided[:3]), frames=2)


def test_same_array_twice() -> None:
    def f(a: np.ndarray, b: np.ndarray) -> Any:
        return weft.from_numpy(a).add_(1), weft.from_numpy(b) * 2

    def twice() -> Any:
        a = np.ones(3, np.float32)
        return a, a

    check(f, twice, lambda: (np.ones(3, np.float32), np.ones(3, np.float32)), frames=2)


def test_arrays_in_containers() -> None:
    def f(x: Tensor, arrays: list[np.ndarray], table: dict[str, np.ndarray]) -> Tensor:
        return x + sum(weft.from_numpy(a) for a in arrays) * weft.as_tensor(table["a"])

    check(f, lambda: (tensor(), [np.ones(3, np.float32)] * 2, {"a": np.ones(3, np.float32)}))


def test_global_array_becomes_a_tensor() -> None:
    check(lambda x: x + weft.from_numpy(TABLE))


def test_from_numpy_shares_memory() -> None:
    def f(a: np.ndarray) -> Tensor:
        t = weft.from_numpy(a)
        t.add_(1)
        return t * 2

    check(f, lambda: (np.ones(3, np.float32),))


def test_arithmetic_on_arrays() -> None:
    def f(x: Tensor, a: np.ndarray) -> Tensor:
        y = x + 1
        b = -a * 2 + a[0:1] // 3
        return y + weft.from_numpy(b)

    check(f, lambda: (tensor(), np.ones(3, np.float32)), lambda: (tensor(), np.full(3, 7, np.float32)))


def test_numpy_functions_of_an_array() -> None:
    def f(x: Tensor, a: np.ndarray) -> Any:
        b = np.where(np.sin(a) > 0.5, a, np.clip(a, 0.1, 0.2))
        return (
            x + weft.from_numpy(b),
            np.stack([a, b], axis=1),
            np.concatenate((a, a)).mean(axis=0, keepdims=True),
        )

    check(f, lambda: (tensor(), np.linspace(0, 2, 3, dtype=np.float32)))


def test_tensor_to_numpy_and_back() -> None:
    def f(x: Tensor) -> Any:
        a = np.exp((x + 1).numpy())
        return (
            weft.from_numpy(a) * 2,
            weft.as_tensor(a),
            weft.tensor(a),
            weft.as_tensor(a, dtype=weft.float64),
        )

    for backend in ("eager", "aot_eager", "native"):
        check(f, backend=backend, tolerance=1e-6)


def test_arrays_of_arrays_and_arrays_as_they_are() -> None:
    def f(x: Tensor, given: np.ndarray) -> Any:
        a = x.numpy()
        made = np.array([a, given], dtype=np.float64), np.array(a), np.asarray([a, a])
        same = np.asarray(a), np.asarray(given), a.astype(np.float32, copy=False)
        return made, same, same[0] is a, same[1] is given, same[2] is a, np.array(given) is given

    for backend in ("eager", "native"):
        check(f, lambda: (weft.ones(3), np.arange(3, dtype=np.float32)), backend=backend)


def test_numpy_promotes_as_numpy_does() -> None:
    def f(x: Tensor, n: Tensor) -> Any:
        a, b = x.numpy(), n.numpy()
        return (
            a + b,
            b / b,
            np.sqrt(b),
            a * 2.0,
            a * np.float64(2),
            b.sum(axis=0, keepdims=True),
            a @ a.T,
            np.mean(a, 0),
        )

    check(f, lambda: (weft.full((2, 3), 0.3), weft.arange(1, 4, dtype=weft.int32)))


def test_arrays_share_memory_as_they_do_uncompiled() -> None:
    def f(x: Tensor) -> Any:
        a = x.numpy()
        b = np.exp(a)
        return (
            a,
            a.T,
            b,
            b.reshape(3, 2),
            b[1:, None],
            b[..., ::2],
            np.expand_dims(b, 0),
            np.moveaxis(b, 0, 1),
        )

    for backend in ("eager", "aot_eager", "native"):
        x = weft.rand(2, 3)
        compiled = weft.compile(f, backend=backend, fullgraph=True)
        for _ in range(2):
            results, expected = compiled(x), f(x)
            for i, (one, other) in enumerate(zip(results, expected, strict=True)):
                assert type(one) is np.ndarray and one.shape == other.shape and one.dtype == other.dtype
                np.testing.assert_allclose(one, other)
                shared = [np.shares_memory(one, each) for each in (x.numpy(), *results)]
                assert shared == [np.shares_memory(other, each) for each in (x.numpy(), *expected)], i


def test_an_array_sees_later_writes_to_its_tensor() -> None:
    def f(x: Tensor) -> Any:
        a = x.numpy()
        before = a * 2
        x.add_(1)
        return a, before, a * 2

    check(f, lambda: (tensor(),))


def test_types_of_arrays_are_known() -> None:
    def f(x: Tensor) -> Any:
        a = np.exp(x.numpy())
        return x + len(a) + a.shape[0] + a.ndim, type(a), isinstance(a, np.ndarray), a.dtype, a.size, [a]

    check(f)


def test_functions_with_several_results() -> None:
    def f(x: Tensor) -> Any:
        rows, columns = np.meshgrid(x.numpy(), np.arange(2))
        return rows * 2, columns, np.broadcast_to

    check(f, frames=None, breaks=None)
    check(lambda x: np.meshgrid(x.numpy(), x.numpy()))
    check(lambda x: np.array_split(np.exp(x.numpy()), 2), frames=None, breaks=None)


def test_linear_algebra_and_transforms() -> None:
    def f(x: Tensor) -> Any:
        a = x.numpy()
        return (
            np.linalg.norm(a, axis=0),
            np.linalg.inv(a),
            np.fft.fft(a),
            np.fft.fftshift(a),
            np.einsum("ij,kj->ik", a, a),
        )

    check(f, lambda: (weft.eye(3) * 2 + weft.arange(9.0).reshape(3, 3) / 9,))


def test_what_a_matrix_refuses_is_raised_when_the_graph_runs() -> None:
    compiled = weft.compile(lambda x: np.linalg.inv(x.numpy()), fullgraph=True)
    assert compiled(weft.eye(2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compiled(weft.zeros(2, 2))


def test_warnings_of_arithmetic_are_given() -> None:
    compiled = weft.compile(lambda x: np.log(x.numpy()), fullgraph=True)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
            compiled(weft.zeros(2))
    weft.compiler.reset()
    with np.errstate(divide="ignore"):
        assert compiled(weft.zeros(2)).tolist() == [-math.inf] * 2


def test_elements_of_captured_arrays_break() -> None:
    def number(x: Tensor) -> Any:
        a = np.exp(x.numpy())
        return float(a[0]) + a.sum(), a.tolist(), sum(a), list(a), str(a)

    check(number, frames=None, breaks=None)

    def branch(x: Tensor) -> Any:
        a = x.numpy() * 2
        return a * 2 if a[0] > 1 else a[a > 1]

    check(branch, frames=None, breaks=None)
    check(lambda x: x.numpy() in [1, 2], lambda: (weft.ones(1),), frames=None, breaks=None)


def test_shapes_that_depend_on_elements_break() -> None:
    def f(x: Tensor, n: Tensor) -> Any:
        a, counts = x.numpy(), n.numpy()
        parts = np.split(a, counts[:1])
        return np.repeat(a, counts, axis=0), np.where(a > 0.5), np.where(a), parts, a.sum(axis=counts[0])

    check(f, lambda: (weft.tensor([[0.2, 0.0], [0.7, 0.9]]), weft.tensor([1, 3])), frames=None, breaks=None)
    check(lambda x: np.where(x.numpy() > 0.5, 1.0, x.numpy()), lambda: (weft.tensor([0.2, 0.7]),))


def test_writing_to_captured_arrays_breaks() -> None:
    def f(x: Tensor) -> Any:
        a = x.numpy()
        a[0] = 5
        a += 1
        b = np.exp(a)
        np.add(b, 1, out=b)
        b.sort()
        return a, b, x

    check(f, frames=None, breaks=None)


def test_tensors_that_have_no_array_say_so() -> None:
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        weft.compile(lambda x: x.numpy())(weft.ones(2, requires_grad=True))


def test_array_is_handed_through() -> None:
    check(lambda x, a: (x + 1, a, [a]), lambda: (tensor(), np.ones(2)))


def test_array_elements_break() -> None:
    check(lambda x, a: (x + 1) * float(a[0]), lambda: (tensor(), np.ones(2)), frames=2, breaks=1)


def test_isinstance_of_numpy_types() -> None:
    def f(x: Any, n: Any) -> Any:
        kinds = (
            isinstance(n, np.generic),
            isinstance(n, np.floating),
            isinstance(x, np.ndarray),
            isinstance(n, (int, float)),
        )
        return x * 1, kinds

    check(f, lambda: (tensor(), np.float64(2)), lambda: (tensor(), np.float32(2)), frames=2)


def test_numpy_and_math_constants_mix() -> None:
    check(lambda x: x * math.sqrt(np.float64(4)) + np.inf * 0 + np.finfo(np.float32).eps, frames=1)


def test_numpy_integers_as_sizes_and_indices() -> None:
    def f(x: Tensor, n: Any) -> Any:
        return x[n], x.reshape(int(n) + 2, 1), weft.zeros(int(n)) + 1, [10, 20, 30][n]

    check(f, lambda: (tensor(), np.int64(1)))


def test_numpy_dtype_converted() -> None:
    check(lambda x: x.to(weft.as_tensor(TABLE).dtype) + 1, lambda: (tensor().double(),))
