"""Tensors in captured code: operators, views, indexing, properties, creation and random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import weft
from tests.capture.features.harness import Call, check, everything_strict, tensor

Tensor = weft.Tensor
EXPECTED: Any = None


def matrix(rows: int = 3, columns: int = 4) -> Tensor:
    return weft.arange(rows * columns).reshape(rows, columns).float()


def square() -> tuple[Tensor]:
    return (matrix(),)


def seeded() -> tuple[Tensor]:
    return (tensor(),)


# -- operators, methods, functions ---------------------------------------------------------------------------
def test_arithmetic_operators() -> None:
    check(
        lambda x, y: (x + y, x - 1, 2 * x, x / y, x // y, x % y, x**2, 2**x, -x, abs(x), +x),
        lambda: (tensor(), tensor(4.0, 5.0, 6.0)),
    )


def test_comparison_and_bitwise_operators() -> None:
    check(
        lambda x, y: (x < y, x <= 2, x >= y, x == y, x != 1, ~(x < y), (x < y) & (y > 1), (x < y) | (x > 1)),
        lambda: (tensor(), tensor(3.0, 2.0, 1.0)),
    )


def test_matrix_operators_and_transposes() -> None:
    check(lambda x: (x @ x.T, x.mT @ x, weft.mm(x, x.t()), x.T.shape), square)


def test_augmented_assignment_writes_the_argument() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += y
        x *= 2
        x -= 1
        return x

    check(f, lambda: (tensor(), tensor()), ops=3)


def test_methods_and_functions_are_one_node_each() -> None:
    check(lambda x: weft.relu(x.sin()).softmax(-1), square, ops=3)


def test_in_place_methods_change_arguments_and_views() -> None:
    def f(x: Tensor) -> Tensor:
        row = x[0]
        row.add_(10)
        x.mul_(2)
        return row.neg_()

    check(f, square)


def test_views_share_storage_with_arguments() -> None:
    check(lambda x: (x.view(4, 3), x[1:], x.T, x.unsqueeze(0), x.reshape(-1), x.expand(2, 3, 4)), square)


def test_argument_returned_is_the_same_object() -> None:
    check(lambda x, y: (x, x + y, y, x), lambda: (tensor(), tensor()))


def test_detach_and_clone() -> None:
    check(lambda x: (x.detach(), x.clone(), x.data.shape), lambda: (tensor().requires_grad_(),))


# -- indexing ------------------------------------------------------------------------------------------------
def test_index_with_ints_slices_none_ellipsis() -> None:
    check(lambda x: (x[0], x[-1, 2], x[1:], x[::2, 1:3], x[None], x[..., 0], x[:, None, 1], x[...]), square)


def test_index_with_tensors_and_lists() -> None:
    check(
        lambda x, i: (x[i], x[:, i], x[[0, 2]], x[i, i], x[i.long()][0]),
        lambda: (matrix(), weft.tensor([0, 2])),
    )


def test_index_assignment() -> None:
    def f(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
        x[0] = 7
        x[:, 1] = v
        x[i] = 0.5
        x[1, ...] += 1
        x[None, 2] *= 2
        return x.sum()

    check(f, lambda: (matrix(), weft.tensor([2]), tensor()))


def test_boolean_mask_assignment_is_captured() -> None:
    def f(x: Tensor) -> Tensor:
        x[x > 5] = -1
        return x + 1

    check(f, square)


def test_boolean_mask_read_breaks() -> None:
    check(lambda x: (x + 1)[x > 5] * 2, square, frames=2, breaks=1)


def test_out_argument() -> None:
    def f(x: Tensor, out: Tensor) -> Tensor:
        result = weft.add(x, 1, out=out)
        assert result is out
        return result * 2

    check(f, lambda: (tensor(), weft.empty(3)))


# -- several results -----------------------------------------------------------------------------------------
def test_multiple_results_unpack() -> None:
    def f(x: Tensor) -> Any:
        values, indices = x.max(dim=1)
        a, *rest = x.split(1)
        top = x.topk(2)
        return values, indices, a, len(rest), rest[1], top.values, top.indices, top[0] + 1

    check(f, square)


def test_named_results_are_returned_as_such() -> None:
    check(lambda x: (x.sort(dim=1, descending=True), weft.unbind(x), x.var(dim=0)), square)


def test_iteration_over_a_tensor() -> None:
    def f(x: Tensor) -> Any:
        total = 0
        for row in x:
            total = total + row.sum()
        first, second, third = x
        return total, second, [r * 2 for r in x], len(x)

    check(f, square)


# -- properties and sizes ------------------------------------------------------------------------------------
def test_tensor_properties() -> None:
    check(lambda z: (z.real, z.imag, z.mH, z.T, z.H), lambda: (weft.complex(matrix(), matrix()),))


def test_writing_the_real_part() -> None:
    def f(z: Tensor) -> Tensor:
        z.real = z.real + 1
        return z * 2

    check(f, lambda: (weft.complex(matrix(), matrix()),))


def test_metadata_as_values() -> None:
    def f(x: Tensor) -> Any:
        facts = (
            x.shape,
            x.size(),
            x.size(0),
            x.ndim,
            x.dim(),
            x.dtype,
            x.device,
            x.numel(),
            x.stride(),
            x.stride(1),
        )
        return (
            x + 1,
            facts,
            x.is_contiguous(),
            x.T.is_contiguous(),
            x.element_size(),
            x.is_floating_point(),
            x.layout,
        )

    check(f, square)


def test_shape_arithmetic_and_unpacking() -> None:
    def f(x: Tensor) -> Tensor:
        rows, columns = x.shape
        (*batch, last) = x.size()
        side = rows * columns // 2
        assert batch == [rows] and last == columns and x.shape == (3, 4) and len(x.shape) == 2
        return x.reshape(side, -1)[: rows - 1] * (columns / rows) + x.shape.numel() + sum(x.shape)

    check(f, square)


def test_dtype_and_device_decide_branches() -> None:
    def f(x: Tensor) -> Tensor:
        if x.dtype == weft.float32 and x.device.type == "cpu" and x.device == weft.device("cpu"):
            return x.to(weft.float64) + 1
        if x.dtype.is_floating_point:
            return x.float()
        return x.to(dtype=weft.float32) / 2

    check(f, lambda: (tensor(),), lambda: (tensor().double(),), lambda: (weft.arange(3),), frames=3)


def test_dtype_and_device_keywords() -> None:
    def f(x: Tensor) -> Any:
        zeros = weft.zeros(2, 3, dtype=x.dtype, device=x.device)
        return (
            zeros + x,
            weft.full_like(x, 2, dtype=weft.int64),
            x.new_ones(2),
            x.type_as(zeros),
            x.to("cpu", weft.float16),
        )

    check(f, lambda: (tensor(),))


def test_finfo_and_iinfo() -> None:
    def f(x: Tensor) -> Tensor:
        info = weft.finfo(x.dtype)
        assert weft.iinfo(weft.int32).max == 2**31 - 1 and info.bits == 32
        return x.masked_fill(x > 2, info.min) + info.eps + weft.finfo(weft.float64).tiny

    check(f, lambda: (tensor(),))


def test_strides_are_guarded_where_read() -> None:
    def f(x: Tensor) -> Tensor:
        return x + 1 if x.is_contiguous() else x.contiguous() * 2

    check(f, square, lambda: (matrix(4, 3).T,), square, frames=2)


def test_strides_are_free_where_unread() -> None:
    check(lambda x: x + 1, square, lambda: (matrix(4, 3).T,))


# -- creation and random numbers -----------------------------------------------------------------------------
def test_creation_functions() -> None:
    def f(x: Tensor) -> Any:
        made = (
            weft.zeros(2),
            weft.ones(2, 2),
            weft.full((2,), 3.0),
            weft.arange(4),
            weft.linspace(0, 1, 5),
            weft.eye(2),
        )
        return (
            made,
            weft.tensor([1.0, 2.0]),
            weft.empty(0),
            weft.ones_like(x),
            weft.tensor(3),
            weft.zeros_like(x) + x,
        )

    check(f, lambda: (tensor(),))


def test_tensor_made_from_python_numbers_of_arguments() -> None:
    check(lambda x, n: x + weft.tensor([n, n + 1, 2]) + weft.scalar_tensor(2.0), lambda: (tensor(), 3))


def test_stacking_tensors_of_lists_and_generators() -> None:
    check(
        lambda x: (weft.stack([x * i for i in range(3)]), weft.cat(tuple(x + i for i in range(2)))),
        lambda: (tensor(),),
    )


def test_random_numbers_follow_the_eager_stream() -> None:
    def f(x: Tensor) -> Any:
        noise = weft.randn(3)
        picked = weft.randint(0, 10, (2,))
        dropped = weft.nn.functional.dropout(x, 0.5, training=True)
        return (
            noise + x,
            picked,
            dropped,
            weft.bernoulli(weft.full((4,), 0.5)),
            weft.randperm(5),
            x.clone().normal_(),
        )

    check(
        f,
        lambda: (tensor(),),
        lambda: (tensor(),),
        lambda: (tensor(),),
        state=lambda: weft.manual_seed(7) and None,
        after=lambda _: weft.rand(2),
    )


def test_random_numbers_of_a_generator_argument() -> None:
    def f(x: Tensor, generator: Any) -> Tensor:
        return x + weft.rand(3, generator=generator)

    check(f, lambda: (tensor(), weft.Generator().manual_seed(3)))


def test_seeding_inside_is_a_break_that_keeps_the_stream() -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        weft.manual_seed(5)
        return y + weft.rand(3)

    check(f, lambda: (tensor(),), frames=2, breaks=1, after=lambda _: weft.rand(2))


# -- gradients -----------------------------------------------------------------------------------------------
def leaf() -> tuple[Tensor]:
    return (tensor().requires_grad_(),)


def backward(result: Tensor) -> Tensor:
    result.sum().backward()
    return result


def test_requires_grad_of_results_and_backward_through() -> None:
    check(lambda x: (x * 2).sin(), leaf, after=backward)


def test_requires_grad_is_guarded_and_read() -> None:
    check(lambda x: x * 2 if x.requires_grad else x * 3, leaf, lambda: (tensor(),), leaf, frames=2)


def test_no_grad_block() -> None:
    def f(x: Tensor) -> Any:
        with weft.no_grad():
            a = x * 2
            assert not weft.is_grad_enabled()
        return a, a + x, weft.is_grad_enabled()

    check(f, leaf)


def test_nested_grad_modes() -> None:
    def f(x: Tensor) -> Any:
        with weft.no_grad():
            with weft.enable_grad():
                a = x * 2
            b = x * 3
            with weft.set_grad_enabled(True):
                c = x * 4
        return a, b, c, x * 5

    check(f, leaf)


def test_set_grad_enabled_as_a_function() -> None:
    def f(x: Tensor) -> Any:
        weft.set_grad_enabled(False)
        a = x * 2
        weft.set_grad_enabled(True)
        return a, x * 3

    check(f, leaf)


def test_grad_mode_left_changed_is_seen_by_the_caller() -> None:
    def f(x: Tensor) -> Tensor:
        weft.set_grad_enabled(False)
        return x * 2

    def enable() -> None:
        weft.set_grad_enabled(True)

    def seen() -> bool:
        was = weft.is_grad_enabled()
        enable()
        return was

    check(f, leaf, state=enable, watch=seen)


@weft.no_grad()
def untracked(x: Tensor) -> Tensor:
    return x * 2


@weft.enable_grad()
def tracked(x: Tensor) -> Tensor:
    return x * 3


def test_grad_mode_decorators() -> None:
    check(lambda x: (untracked(x), tracked(x), untracked(x) + x), leaf)


@weft.no_grad()
def untracked_steps(x: Tensor) -> Any:
    for step in range(3):
        yield x * step


def test_decorated_generator() -> None:
    check(lambda x: ([y.requires_grad for y in untracked_steps(x)], x * 2), leaf)


def with_gradient() -> tuple[Tensor]:
    x = tensor().requires_grad_()
    (x * x).sum().backward()
    return (x,)


def test_gradient_is_read_and_written_in_place() -> None:
    def f(p: Tensor) -> Tensor:
        p.grad.mul_(2)
        with weft.no_grad():
            p -= 0.1 * p.grad
        return p.sum()

    check(f, with_gradient)


def test_gradient_is_assigned_and_removed() -> None:
    def f(p: Tensor, q: Tensor) -> Tensor:
        p.grad = None
        q.grad = p.detach() * 2
        assert p.grad is None
        return q.grad + 1

    check(f, lambda: (*with_gradient(), *with_gradient()), lambda: (*with_gradient(), *leaf()))


def test_absence_of_a_gradient_is_guarded() -> None:
    check(lambda p: p * 2 if p.grad is None else p + p.grad, leaf, with_gradient, leaf, frames=2)


def test_gradient_of_another_shape_raises_as_eager() -> None:
    def f(p: Tensor) -> Tensor:
        p.grad = weft.ones(2)
        return p * 2

    check(f, leaf, frames=0, breaks=0, raises=RuntimeError)


def test_parameter_made_inside() -> None:
    def f(x: Tensor) -> Any:
        p = weft.nn.Parameter(x * 2)
        return p, p * 3, p.is_leaf, p.grad_fn

    check(f, after=lambda result: result[1].sum().backward())


def test_decorated_function_compiled() -> None:
    check(untracked, leaf)


def test_grad_mode_around_the_call_is_guarded() -> None:
    def f(x: Tensor) -> Tensor:
        return x * 2

    counter = weft.testing.CompileCounter()
    compiled = weft.compile(f, backend=counter, fullgraph=True)
    (x,) = leaf()
    assert compiled(x).requires_grad
    with weft.no_grad():
        assert not compiled(x).requires_grad
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad
    assert counter.frame_count == 2


def test_inference_mode_block() -> None:
    def f(x: Tensor) -> Any:
        with weft.inference_mode():
            a = x * 2
        return a, a.is_inference(), x * 3

    check(f, lambda: (tensor(),))


def test_inference_mode_decorator() -> None:
    check(weft.inference_mode()(lambda x: x * 2 + 1), lambda: (tensor(),))


# -- attributes, keys, identity ------------------------------------------------------------------------------
def labelled(label: str) -> Tensor:
    x = tensor()
    x.label = label
    return x


def test_attribute_of_a_tensor_is_read_and_guarded() -> None:
    check(
        lambda x: x + 1 if x.label == "plus" else x - 1,
        lambda: (labelled("plus"),),
        lambda: (labelled("minus"),),
        frames=2,
    )


def test_attribute_is_set_on_an_argument() -> None:
    def f(x: Tensor) -> Tensor:
        x.label = "seen"
        x.twice = x * 2
        return x.twice + len(x.label)

    check(f, lambda: (tensor(),))


def test_attribute_is_set_on_a_new_tensor() -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        y.label = "new"
        y.source = x
        return y * 1 if y.label != "new" else y

    check(f, lambda: (tensor(),))


def test_dict_of_a_tensor() -> None:
    def f(x: Tensor) -> Any:
        x.__dict__["count"] = len(vars(x))
        return x * 2, x.__dict__.get("label"), vars(x * 3), sorted(vars(x))

    check(f, lambda: (labelled("plus"),), lambda: (tensor(),), frames=2)


def test_missing_attribute_raises_as_eager() -> None:
    def f(x: Tensor) -> Any:
        try:
            x.nothing
        except AttributeError as error:
            return x + 1, str(error), hasattr(x, "nothing"), getattr(x, "nothing", 3)

    check(f, lambda: (tensor(),))


def test_tensors_as_dict_keys() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        names = {x: "x", y: "y"}
        names[x + 1] = "new"
        return x * 2, names[x], names.get(y), x in names, len(names)

    check(f, lambda: (tensor(), tensor()))


def test_identity_of_tensors() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        return x + y, x is y, x is x, x is not y, y in [x] if x is y else None

    def same() -> Any:
        x = tensor()
        return x, x

    check(f, lambda: (tensor(), tensor()), same, frames=2)


def test_same_tensor_passed_twice_is_written_once() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    def same() -> Any:
        x = tensor()
        return x, x

    check(f, same, lambda: (tensor(), tensor()), same, frames=2)


def test_views_of_one_base_as_arguments() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    def overlapping() -> Any:
        base = matrix()
        return base, base[0]

    check(f, overlapping)


# -- structures of tensors -----------------------------------------------------------------------------------
@dataclass
class Pair:
    left: Tensor
    right: Tensor
    scale: float = 2.0


def test_lists_dicts_and_dataclasses_of_tensors() -> None:
    def f(items: list[Tensor], table: dict[str, Tensor], pair: Pair) -> Any:
        items.append(items[0] + table["a"])
        table["b"] = pair.left * pair.scale
        pair.right = items[-1]
        return Pair(pair.right, table["b"], 3.0), {k: v + 1 for k, v in table.items()}

    check(f, lambda: ([tensor()], {"a": tensor()}, Pair(tensor(), tensor())))


def test_nested_structures_as_keywords() -> None:
    check(
        lambda x, *, extra: x + extra["deep"][0][1], lambda: Call(tensor(), extra={"deep": [(1, tensor())]})
    )


def test_list_length_is_guarded() -> None:
    check(lambda xs: sum(xs), lambda: ([tensor()],), lambda: ([tensor(), tensor()],), frames=2)


# -- what only elements can tell -----------------------------------------------------------------------------
def test_branch_on_a_tensor_breaks() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1

    check(f, lambda: (tensor(),), frames=2, breaks=1)
    check(f, lambda: (tensor(),), lambda: (-tensor(),), frames=3, breaks=1)


def test_loop_until_a_tensor_says_so() -> None:
    def f(x: Tensor) -> Tensor:
        while x.sum() < 100:
            x = x * 2
        return x

    check(f, lambda: (tensor(),), frames=3, breaks=3)


@pytest.mark.parametrize("read", ["item", "tolist", "bool", "int", "float", "numpy"])
def test_reading_elements(read: str) -> None:
    def f(x: Tensor) -> Any:
        total = (x + 1).sum()
        if read == "item":
            value = total.item()
        elif read == "tolist":
            value = (x + 2).tolist()[0]
        elif read == "bool":
            value = bool(total)
        elif read == "int":
            value = int(total)
        elif read == "float":
            value = float(total)
        else:
            value = total.numpy().item()
        return x * value, value

    breaks = {"numpy": 2, "tolist": 1, "int": 1}.get(read, 0)
    check(f, lambda: (tensor(),), frames=2 if breaks else 1, breaks=breaks)


def test_where_and_clamp_keep_one_graph() -> None:
    check(
        lambda x: (weft.where(x > 1, x, -x), x.clamp(min=1.5), weft.maximum(x, x.flip(0))),
        lambda: (tensor(),),
        ops=6,
    )


def test_error_of_shapes_is_the_eager_one() -> None:
    check(lambda x, y: x + y, lambda: (tensor(), matrix()), frames=0, raises=RuntimeError)


def test_error_of_shapes_is_caught_inside() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        try:
            return x @ y
        except RuntimeError as error:
            return x + 1, str(error)

    check(f, lambda: (tensor(), tensor(1.0, 2.0)))


def test_isinstance_and_type_of_tensors() -> None:
    def f(x: Any, p: Any) -> Any:
        kinds = isinstance(x, Tensor), type(p) is weft.nn.Parameter, isinstance(p, Tensor), weft.is_tensor(x)
        return x + p, kinds, isinstance(x, weft.nn.Parameter), type(x + 1).__name__

    check(f, lambda: (tensor(), weft.nn.Parameter(tensor())))


def test_global_and_closed_over_tensors_are_inputs() -> None:
    outer = tensor()

    def f(x: Tensor) -> Tensor:
        return x + outer + GLOBAL

    check(f, lambda: (tensor(),))
    graphs = weft.testing.EagerAndRecordGraphs()
    compiled = weft.compile(f, backend=graphs)
    before = compiled(tensor())
    outer.add_(1)
    assert weft.equal(compiled(tensor()), before + 1)
    assert len(graphs.graphs) == 1
    assert sum(node.op == "placeholder" for node in graphs.graphs[0].graph.nodes) == 3


GLOBAL = weft.tensor([1.0, 1.0, 1.0])


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x.t_(), lambda x: x.zero_()])
def test_strides_are_guarded_of_inputs_that_were_written(write: Any) -> None:
    def f(x: Tensor) -> Tensor:
        write(x)
        return x * (2 if x.is_contiguous() else 3) + x.stride(0)

    compiled = weft.compile(f, backend="aot_eager")
    for make in (lambda: matrix(3, 3), lambda: matrix(3, 3).t(), lambda: matrix(6, 6)[::2, ::2]):
        assert compiled(make()).tolist() == f(make()).tolist()


def test_strides_are_guarded_where_a_view_of_what_was_written_raises() -> None:
    def f(x: Tensor) -> Tensor:
        x.fill_(3)
        return x.view(-1)[::2]

    compiled = weft.compile(f, backend="aot_eager", dynamic=True)
    with everything_strict():
        with pytest.raises(RuntimeError, match="view size"):
            compiled(matrix(8, 8)[::2, ::2])
        assert compiled(matrix(4, 4)).tolist() == [3.0] * 8
