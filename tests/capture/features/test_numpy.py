"""NumPy in captured code: scalars are constants, arrays are inputs, functions of constants are folded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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


def test_arithmetic_on_arrays_breaks() -> None:
    def f(x: Tensor, a: np.ndarray) -> Tensor:
        y = x + 1
        b = a * 2
        return y + weft.from_numpy(b)

    check(f, lambda: (tensor(), np.ones(3, np.float32)), frames=2, breaks=1)


def test_numpy_function_of_an_array_breaks() -> None:
    def f(x: Tensor, a: np.ndarray) -> Tensor:
        y = x + 1
        b = np.sin(a)
        return y + weft.from_numpy(b)

    check(f, lambda: (tensor(), np.ones(3, np.float32)), frames=2, breaks=1)


def test_tensor_to_numpy_and_back_breaks() -> None:
    def f(x: Tensor) -> Tensor:
        a = (x + 1).numpy()
        return weft.from_numpy(a) * 2

    check(f, frames=2, breaks=1)


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
