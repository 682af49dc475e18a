"""Sizes and numbers that vary: symbols, their guards, and how often a function is captured."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict, tensor
from weft.compiler import mark_dynamic, mark_static
from weft.testing import CompileCounter, CompileCounterWithBackend

Tensor = weft.Tensor


def sized(*shape: int) -> Tensor:
    return weft.arange(weft.Size(shape).numel()).reshape(*shape).float() + 1


def run(function: Any, *calls: Any, frames: int, dynamic: bool | None = None) -> list[Any]:
    """Runs a function compiled on each call's arguments, asserts that it gives what it gives as it is, and
    that it is captured `frames` times."""
    backend = CompileCounterWithBackend("eager")
    with everything_strict():
        compiled = weft.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
        for args in calls:
            expected, actual = function(*args), compiled(*args)
            assert repr(expected) == repr(actual) and type(expected) is type(actual)
    assert backend.frame_count == frames, weft.compiler.counters["recompiles"]
    return backend.graphs


# -- dynamic=None --------------------------------------------------------------------------------------------
def test_size_is_static_at_first_and_a_symbol_after_the_first_miss() -> None:
    run(lambda x: x * 2, *[(sized(n, 3),) for n in (4, 5, 6, 7)], frames=2)


def test_each_size_that_changed_is_a_symbol() -> None:
    shapes = [(4, 3), (5, 3), (5, 4), (6, 7)]
    run(lambda x: x + x.shape[0] * x.shape[1], *[(sized(*shape),) for shape in shapes], frames=3)


def test_int_argument_is_a_symbol_after_the_first_miss() -> None:
    run(lambda x, n: x * n + 1, *[(tensor(), n) for n in (3, 4, 5, 6)], frames=2)


def test_float_argument_never_recompiles() -> None:
    run(lambda x, f: x * f + f / 2, *[(tensor(), f) for f in (0.5, 1.5, 2.0, -1.0)], frames=1)


def test_all_sizes_that_changed_are_symbols_at_once() -> None:
    run(lambda x, y: x @ y, *[(sized(n, n + 1), sized(n + 1, n)) for n in (3, 5, 6)], frames=2)
    run(lambda xs, k: sum(xs) * k, *[([sized(n), sized(n)], n) for n in (3, 5, 6)], frames=2)


def test_numbers_in_containers_are_symbols() -> None:
    calls = [(tensor(), [n, n + 1], {"k": n}, (n, 2)) for n in (3, 5, 6, 8)]
    run(lambda x, a, b, c: x * a[0] + sum(a) - b["k"] * c[0], *calls, frames=2)
    run(lambda x, a, b, c: x * a[0] + sum(a) - b["k"] * c[0], *calls, dynamic=True, frames=1)


def test_sizes_after_a_break_are_symbols_too() -> None:
    def f(x: Tensor) -> Tensor:
        n = x.shape[0]
        y = x * 2
        weft.compiler.graph_break()
        return y.reshape(-1) + weft.ones(n) * n

    counter = CompileCounter()
    compiled = weft.compile(f, backend=counter)
    for n in (3, 5, 6, 7):
        assert weft.equal(compiled(sized(n)), f(sized(n)))
    assert counter.frame_count == 4


def test_int_of_a_symbolic_float() -> None:
    run(lambda x: x[: int(x.shape[0] * 0.5)], *[(sized(n),) for n in (4, 5, 6, 9)], dynamic=True, frames=1)
    run(lambda x, s: x * int(s) + float(int(s)), *[(tensor(), s) for s in (1.5, 2.75, -3.8)], frames=1)


def test_strides_of_varying_sizes() -> None:
    def f(x: Tensor) -> Any:
        return x * 2, x.stride(), x.T.stride(), x.is_contiguous(), x.T.is_contiguous()

    run(f, *[(sized(n, 4),) for n in (3, 5, 6)], dynamic=True, frames=1)
    run(f, (sized(4, 3),), (sized(5, 6).T,), (sized(7, 2).T,), dynamic=True, frames=3)


def test_tensor_of_a_symbol() -> None:
    run(
        lambda x, n: x + weft.tensor([n, n * 2, 1]) + weft.tensor(n),
        *[(tensor(), n) for n in (3, 4, 5)],
        frames=2,
    )


def test_int_attribute_is_a_symbol_after_the_first_miss() -> None:
    class Holder:
        count = 0

    holder = Holder()

    def f(x: Tensor) -> Tensor:
        return x * holder.count

    counter = CompileCounter()
    compiled = weft.compile(f, backend=counter, fullgraph=True)
    for count in (5, 6, 7, 8):
        holder.count = count
        assert weft.equal(compiled(tensor()), tensor() * count)
    assert counter.frame_count == 2


def test_bool_and_string_arguments_recompile() -> None:
    calls = [(tensor(), True, "a"), (tensor(), False, "a"), (tensor(), False, "b"), (tensor(), True, "a")]
    run(lambda x, flag, name: x + 1 if flag else x * len(name), *calls, frames=3)


# -- dynamic=True and False ----------------------------------------------------------------------------------
def test_dynamic_true_captures_once() -> None:
    run(
        lambda x: x.reshape(-1, x.shape[1] * 2) + x.shape[0],
        *[(sized(n, 3),) for n in (4, 6, 8)],
        dynamic=True,
        frames=1,
    )


def test_dynamic_false_captures_each_size() -> None:
    run(lambda x: x + 1, *[(sized(n),) for n in (4, 5, 6)], dynamic=False, frames=3)


def test_dynamic_false_captures_each_int() -> None:
    run(lambda x, n: x + n, *[(tensor(), n) for n in (4, 5, 6)], dynamic=False, frames=3)


def test_zero_and_one_are_never_symbols() -> None:
    run(lambda x: x + x.shape[0], *[(sized(n, 3),) for n in (4, 1, 5, 1)], dynamic=True, frames=2)
    run(lambda x, n: x * n, *[(tensor(), n) for n in (1, 2, 3, 0)], dynamic=True, frames=2)


# -- marks ---------------------------------------------------------------------------------------------------
def test_mark_dynamic() -> None:
    def marked(n: int) -> tuple[Tensor]:
        x = sized(n, 3)
        mark_dynamic(x, 0)
        return (x,)

    run(lambda x: x * 2, *[marked(n) for n in (4, 5, 6)], frames=1)


def test_mark_static() -> None:
    def marked(n: int) -> tuple[Tensor]:
        x = sized(n, 3)
        mark_static(x, 0)
        return (x,)

    run(lambda x: x * 2, *[marked(n) for n in (4, 5, 6)], dynamic=True, frames=3)


def test_mark_dynamic_out_of_range() -> None:
    with pytest.raises(IndexError):
        mark_dynamic(sized(2), 3)


# -- symbols in programs -------------------------------------------------------------------------------------
def test_branch_on_a_size_is_guarded_by_its_condition() -> None:
    def f(x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 5 else x + 1

    run(f, *[(sized(n),) for n in (4, 3, 5, 6, 9, 2, 7)], dynamic=True, frames=2)


def test_branches_on_arithmetic_of_sizes() -> None:
    def f(x: Tensor) -> Tensor:
        half = x.shape[0] // 2
        return x[:half] if x.shape[0] % 2 == 0 and half * 2 == x.shape[0] else x[half:]

    run(f, *[(sized(n),) for n in (4, 6, 8, 5, 7)], dynamic=True, frames=2)


def test_shape_arithmetic_of_symbols() -> None:
    def f(x: Tensor) -> Any:
        rows, columns = x.shape
        y = x.reshape(rows * columns).view(columns, rows).T
        return (
            y,
            rows * columns,
            rows + 1,
            rows // 2,
            -rows,
            rows / columns,
            x.numel() * 2,
            max(rows, 2),
            x.size(0),
        )

    run(f, *[(sized(n, 3),) for n in (4, 6, 8)], dynamic=True, frames=1)


def test_creation_with_symbolic_sizes() -> None:
    def f(x: Tensor) -> Any:
        n = x.shape[0]
        return (
            weft.zeros(n, 2) + 1,
            weft.arange(n) * 2,
            weft.ones((n, n)).sum(),
            x.new_full((n,), n),
            weft.eye(n),
        )

    run(f, *[(sized(n),) for n in (4, 6, 8)], dynamic=True, frames=1)


def test_loop_over_a_size_specialises() -> None:
    def f(x: Tensor) -> Tensor:
        total = x
        for _ in range(x.shape[0]):
            total = total + 1
        return total

    run(f, *[(sized(n),) for n in (3, 4, 3)], dynamic=True, frames=2)


def test_two_tensors_of_one_size() -> None:
    run(lambda x, y: x + y, *[(sized(n), sized(n)) for n in (3, 4, 5)], dynamic=True, frames=1)


def test_broadcasting_against_a_size_is_a_guard() -> None:
    calls = [(sized(4), sized(4)), (sized(5), sized(5)), (sized(5), sized(1)), (sized(6), sized(1))]
    run(lambda x, y: x * y, *calls, dynamic=True, frames=2)


def test_views_and_reductions_of_symbols() -> None:
    def f(x: Tensor) -> Any:
        return (
            x.sum(0),
            x.mean(-1),
            x.transpose(0, 1).contiguous(),
            x.unsqueeze(0).expand(2, -1, -1),
            x[1:, :2],
            x.flatten(),
        )

    run(f, *[(sized(n, 4),) for n in (3, 5, 6)], dynamic=True, frames=1)


def test_matrix_products_of_symbols() -> None:
    run(
        lambda x, w: weft.nn.functional.linear(x, w).softmax(-1) @ w,
        *[(sized(n, 4), sized(5, 4)) for n in (3, 6, 7)],
        dynamic=True,
        frames=1,
    )


def test_concatenation_and_padding_of_symbols() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        joined = weft.cat([x, y])
        return joined, weft.nn.functional.pad(joined, (0, 2)), weft.stack([x, x]), joined.shape[0]

    run(f, *[(sized(n), sized(m)) for n, m in ((3, 4), (5, 2), (6, 7))], dynamic=True, frames=1)


def test_int_and_float_arithmetic_of_symbols() -> None:
    def f(x: Tensor, n: int, s: float) -> Any:
        return x * (n * s) + n**2 - s // 2, n * s, abs(-n), -s, float(n), divmod(n, 2), n % 3, s**2

    run(f, *[(tensor(), n, s) for n, s in ((5, 0.5), (6, 0.75), (7, 1.25), (8, 1.5))], frames=2)


def test_symbols_in_containers_and_returned() -> None:
    def f(x: Tensor, n: int) -> Any:
        sizes = [n, n + 1, x.shape[0]]
        table = {"n": n, "double": n * 2}
        return x + sizes[1] + table["double"], sizes, table, (n, str(type(n)))

    run(f, *[(tensor(), n) for n in (5, 6, 7, 8)], frames=2)


def test_symbol_as_a_key_or_text_specialises() -> None:
    def f(x: Tensor, n: int) -> Any:
        return x * {2: 10, 3: 20}.get(n, 30), f"{n}"

    run(f, *[(tensor(), n) for n in (2, 3, 4, 3)], frames=3)


def test_index_by_a_symbol() -> None:
    run(lambda x, i: (x[i], x[: i + 1], x[-i:]), *[(sized(9), i) for i in (2, 3, 4, 5)], frames=2)


def test_isinstance_and_type_of_symbols() -> None:
    def f(x: Tensor, n: int, s: float) -> Any:
        return (
            x + n,
            isinstance(n, int),
            type(n) is int,
            isinstance(s, float),
            type(s),
            isinstance(x.shape[0], int),
        )

    run(f, *[(sized(n), n, n / 2) for n in (4, 5, 6)], dynamic=True, frames=1)


def test_gradients_through_symbolic_sizes() -> None:
    counter = CompileCounter()
    compiled = weft.compile(lambda x: (x * x.shape[0]).sin().sum(), backend=counter, dynamic=True)
    for n in (3, 4, 5):
        left, right = sized(n).requires_grad_(), sized(n).requires_grad_()
        compiled(left).backward()
        (right * n).sin().sum().backward()
        assert weft.equal(left.grad, right.grad)
    assert counter.frame_count == 1


def test_modules_with_dynamic_batches() -> None:
    model = weft.nn.Sequential(
        weft.nn.Linear(4, 8), weft.nn.LayerNorm(8), weft.nn.GELU(), weft.nn.Linear(8, 2)
    )
    run(lambda x: model(x), *[(sized(n, 4),) for n in (2, 3, 4, 5)], frames=2)


def test_convolution_with_dynamic_batches() -> None:
    model = weft.nn.Sequential(
        weft.nn.Conv2d(1, 2, 3, padding=1), weft.nn.BatchNorm2d(2), weft.nn.MaxPool2d(2)
    ).eval()
    run(lambda x: model(x), *[(sized(n, 1, 4, 4),) for n in (2, 3, 4)], frames=2)


def test_symbols_print_as_pytorch_prints_them() -> None:
    (module,) = run(lambda x, n: x * n, (sized(4), 5), (sized(6), 7), dynamic=True, frames=1)
    text = module.print_readable(print_output=False)
    assert "Sym(s" in text and "f32[s" in text
    first = next(node for node in module.graph.nodes if node.op == "placeholder")
    assert "Sym(" in text.split("\n")[1] and first.name.startswith(("s", "l_"))


def test_sizes_come_first_as_placeholders_named_by_their_symbol() -> None:
    (module,) = run(
        lambda x: x.reshape(x.shape[0] * x.shape[1]), (sized(4, 6),), (sized(3, 8),), dynamic=True, frames=1
    )
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    assert names[0].startswith("s") and names[-1] == "l_x_"
    assert f'{names[0]}: "Sym({names[0]})"' in module.print_readable(print_output=False)
