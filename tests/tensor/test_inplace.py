"""In-place forms: values, versions, what PyTorch forbids, and gradients through writes to tensors and their
views."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import weft
from weft.autograd import grad

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
NO_GRAD_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that "
    "this use case is "
    "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
    "inplace either "
    "both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you "
    "want the inplace "
    "to be tracked)."
)
SEVERAL = (
    " This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to "
    "be modified inplace. You should replace the inplace operation by an out-of-place one."
)


def leaf(*values: float) -> weft.Tensor:
    return weft.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.array.tolist()


def quietly(function):
    with weft.no_grad():
        return function()


def set_first(tensor):
    tensor[0] = 1


# -- what is forbidden -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: leaf().add_(1), LEAF),
        (lambda: leaf().exp_(), LEAF),
        (lambda: leaf().zero_(), LEAF),
        (lambda: leaf().copy_(weft.ones(3)), LEAF),
        (lambda: set_first(leaf()), VIEW_OF_LEAF),
        (lambda: leaf()[:2].add_(1), VIEW_OF_LEAF),
        (lambda: leaf().view(3, 1)[:2].add_(1), VIEW_OF_LEAF),
        (lambda: weft.ones(3)[:2].requires_grad_().add_(1), VIEW_OF_LEAF),
        (lambda: (y := leaf() * 1, quietly(lambda: y[:2]))[1].mul_(2), NO_GRAD_VIEW),
        (lambda: quietly(lambda: weft.ones(3)[:2]).mul_(leaf()[:2]), NO_GRAD_VIEW),
        (lambda: (x := leaf(), quietly(lambda: x[:2]))[1].mul_(2), NO_GRAD_VIEW),
        (
            lambda: (leaf() * 1).split([1, 2])[0].add_(1),
            "Output 0 of SplitWithSizes is a view and is being modified inplace." + SEVERAL,
        ),
        (
            lambda: (leaf() * 1).unbind()[1].mul_(1),
            "Output 1 of Unbind is a view and is being modified inplace." + SEVERAL,
        ),
        (
            lambda: (leaf() * 1).view(3, 1).split([1, 2])[0].view(-1).mul_(2),
            "Output 0 of View is a view and is being modified inplace." + SEVERAL,
        ),
        (
            lambda: weft.ones(3).split([1, 2])[0].mul_(leaf()[0]),
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled."
            + SEVERAL,
        ),
        (
            lambda: weft.ones(3, dtype=weft.int64).add_(leaf()),
            "result type Float can't be cast to the desired output type Long",
        ),
        (lambda: weft.ones(1).add_(leaf()), "output with shape [1] doesn't match the broadcast shape [3]"),
        (
            lambda: weft.ones(1).expand(3).add_(1),
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. "
            "Please clone() the tensor before performing the operation.",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "call",
    [lambda x: x[1:].add_(x[:-1]), lambda x: x.add_(x[0]), lambda x: x.view(2, 2).mul_(x.view(2, 2).t())],
)
def test_operands_may_not_overlap_in_part(call):
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"
    ):
        call(weft.ones(4))


def test_operands_may_be_the_tensor_itself():
    x = weft.tensor([1.0, 2.0])
    assert values(x.add_(x)) == [2, 4]
    assert values(x.mul_(x.view(2))) == [4, 16]


def test_a_refused_write_changes_nothing():
    x = leaf()
    y = x * 1
    with pytest.raises(RuntimeError):
        y.add_(weft.ones(2))
    assert (values(y), y._version, y.grad_fn.name()) == ([1, 2, 3], 0, "MulBackward0")


def test_leaves_may_be_written_to_in_no_grad():
    x = leaf()
    with weft.no_grad():
        x.add_(1)
        x[0] = 5
        x[1:].mul_(2)
    assert values(x) == [5, 6, 8]
    assert (x._version, x.is_leaf, x.requires_grad) == (3, True, True)


def test_writes_in_no_grad_keep_history():
    x = leaf()
    y = x * 2
    with weft.no_grad():
        y.mul_(3)
    y.sum().backward()
    assert values(x.grad) == [2, 2, 2]


# -- versions --------------------------------------------------------------------------------------
def test_versions_are_shared_by_views():
    x = weft.ones(4)
    v, d = x[1:], x.detach()
    v.add_(1)
    d.mul_(2)
    assert x._version == v._version == d._version == 2
    assert x.data._version == 0


STALE = "one of the variables needed for gradient computation has been modified by an inplace operation: "
HINT = (
    " instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
    "with "
    "weft.autograd.set_detect_anomaly(True, check_nan=False)."
)


def output_overwritten():
    z = (leaf() * 2).exp()
    z.add_(1)
    return z


def input_overwritten():
    y = leaf() * 2
    z = y * y
    y.add_(1)
    return z


def constant_overwritten():
    y = weft.ones(2, 3, dtype=weft.float64)
    z = leaf() * y
    y.add_(1)
    y.add_(1)
    return z


def overwritten_through_detach():
    z = leaf().exp()
    z.detach().add_(1)
    return z


def overwritten_through_a_view():
    y = leaf() * 1
    z = y.sin()
    y[:1].zero_()
    return z


def index_overwritten():
    index = weft.tensor([0, 1])
    z = leaf()[index]
    index.add_(1)
    return z


def multiplied_by_itself():
    y = leaf() * 2
    return y.mul_(y)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            output_overwritten,
            "[weft.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0",
        ),
        (
            input_overwritten,
            "[weft.FloatTensor [3]], which is output 0 of Mul, is at version 1; expected version 0",
        ),
        (constant_overwritten, "[weft.DoubleTensor [2, 3]] is at version 2; expected version 0"),
        (
            overwritten_through_detach,
            "[weft.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0",
        ),
        (
            overwritten_through_a_view,
            "[weft.FloatTensor [3]], which is output 0 of Mul, is at version 1; expected version 0",
        ),
        (index_overwritten, "[weft.LongTensor [2]] is at version 1; expected version 0"),
        (
            multiplied_by_itself,
            "[weft.FloatTensor [3]], which is output 0 of Mul, is at version 1; expected version 0",
        ),
    ],
)
def test_stale_saved_tensors(make, text):
    with pytest.raises(RuntimeError) as caught:
        make().sum().backward()
    assert str(caught.value) == STALE + text + HINT


def test_what_is_not_needed_may_be_overwritten():
    x = leaf()
    y = x * 2
    z = y + y
    y.add_(1)
    z.sum().backward()
    assert values(x.grad) == [4, 4, 4]
    a, b = leaf(), weft.ones(3)
    c = a * b
    a.data.add_(1)
    c.sum().backward()
    assert values(a.grad) == [1, 1, 1]


# -- gradients -------------------------------------------------------------------------------------
def test_a_chain_of_writes():
    x = leaf()
    y = x * 2
    y.add_(1).mul_(3).sin_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.array, 6 * np.cos(3 * (2 * np.array([1, 2, 3]) + 1)), rtol=1e-5)


def test_writes_that_need_the_old_value():
    x, w = leaf(), leaf(2.0, 3.0, 4.0)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert values(x.grad) == [2, 3, 4]
    assert values(w.grad) == [1, 2, 3]
    y = x * 2
    y.div_(y + 1)
    x.grad = None
    y.sum().backward()
    np.testing.assert_allclose(x.grad.array, [2 / 9, 2 / 25, 2 / 49], rtol=1e-6)


def test_writes_that_need_the_new_value():
    x = leaf()
    y = x * 1
    y.exp_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.array, np.exp([1, 2, 3]), rtol=1e-6)


def test_a_write_makes_a_constant_part_of_the_graph():
    x, p = weft.ones(3), leaf()
    x.mul_(p)
    assert x.requires_grad
    assert not x.is_leaf
    x.sum().backward()
    assert values(p.grad) == [1, 1, 1]


def test_writes_to_views_reach_the_base():
    x = leaf()
    y = x * 2
    v = y[:2]
    w = v[:1]
    w.mul_(3)
    assert y.grad_fn.name() == "weft::autograd::CopySlices"
    y.sum().backward()
    assert values(x.grad) == [6, 2, 2]


def test_views_see_writes_to_the_base():
    x = leaf()
    y = x * 2
    v = y[1:]
    y.mul_(5)
    v.sum().backward()
    assert values(x.grad) == [0, 10, 10]


def test_views_see_writes_to_other_views():
    x = leaf()
    y = x * 1
    a, b = y[:2], y[1:]
    a.mul_(10)
    b.mul_(3)
    assert values(a) == [10, 60]
    (a.sum() + b.sum() * 2).backward()
    assert values(x.grad) == [10, 90, 6]


def test_writes_to_a_view_of_a_constant():
    x, p = weft.ones(3), leaf(1.0, 2.0)
    v = x[:2]
    v.mul_(p)
    assert x.requires_grad
    assert not x.is_leaf
    assert not v.is_leaf
    x.sum().backward()
    assert values(p.grad) == [1, 1]


def test_writes_of_tracked_values_into_views():
    x = leaf()
    y = x * 2
    y[0] = x[1]
    y[1:] = 5
    assert y.grad_fn.name() == "weft::autograd::CopySlices"
    y.sum().backward()
    assert values(x.grad) == [0, 1, 0]


def test_writes_through_transposes_and_reshapes():
    x = weft.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = x * 1
    y.t()[1].mul_(4)
    y.view(-1)[::2].add_(1)
    y.sum().backward()
    assert values(x.grad) == [[1, 4, 1], [1, 4, 1]]
    assert values(y) == [[1, 4, 3], [3, 17, 5]]


def test_second_order_through_writes_to_views():
    x = weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64, requires_grad=True)

    def function(a):
        y = a * a
        y[1:].mul_(a[1:])
        y[0].exp_()
        return y

    assert weft.autograd.gradcheck(function, (x,))
    assert weft.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize(
    "write", [lambda y: y.zero_(), lambda y: y.fill_(3), lambda y: y.copy_(weft.ones(3))]
)
def test_overwriting_keeps_requires_grad(write):
    x = leaf()
    y = x * 2
    write(y)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is None or values(x.grad) == [0, 0, 0]


def test_copying_in():
    x = leaf()
    y = weft.zeros(2, 3)
    y.copy_(x)
    y.sum().backward()
    assert values(x.grad) == [2, 2, 2]


def test_base_told_to_require_grad_later():
    x = weft.ones(3)
    v = x[:2]
    x.requires_grad_()
    assert v.requires_grad
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        v.add_(1)


def test_writing_to_what_is_detached():
    x = leaf()
    d = x.detach()
    d.mul_(2)
    assert values(x) == [2, 4, 6]
    assert not d.requires_grad


def test_out_arguments_take_no_part():
    x = leaf()
    with pytest.raises(RuntimeError) as caught:
        weft.add(x, 1, out=weft.empty(3))
    assert str(caught.value) == (
        "add(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments "
        "requires grad."
    )
    out = weft.empty(3)
    with weft.no_grad():
        weft.add(x, 1, out=out)
    assert (values(out), out._version) == ([2, 3, 4], 1)


def test_gradients_with_respect_to_an_overwritten_tensor():
    x = leaf()
    y = x * 2
    y.mul_(3)
    assert values(grad(y.sum(), y, retain_graph=True)[0]) == [1, 1, 1]
    assert values(grad(y.sum(), x)[0]) == [6, 6, 6]


def test_copying_a_tensor_onto_itself_is_a_write():
    x = weft.ones(2)
    x.copy_(x)
    assert x._version == 1
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        y = leaf()
        y.copy_(y)


def test_writes_through_expanded_and_keyword_views():
    x = leaf()
    y = x * 1
    v = y.expand(3)
    y.mul_(2)
    v.sum().backward()
    assert values(x.grad) == [2, 2, 2]
    w = (x * 1).view(1, 3)
    w.expand(1, -1)[0, 1:].mul_(5)
    x.grad = None
    w.sum().backward()
    assert values(x.grad) == [1, 5, 5]


OVERLAP = "unsupported operation: some elements of the input tensor and the written-to tensor refer to"


def test_writes_from_partly_the_same_memory_are_refused() -> None:
    x = weft.arange(6.0)
    square = weft.arange(9.0).reshape(3, 3)
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[1:5].copy_(x[0:4])
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[1:] = x[:-1]
    with pytest.raises(RuntimeError, match=OVERLAP):
        square.copy_(square.T)
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[[0, 1]] = x[1:3]
    with pytest.raises(RuntimeError, match=OVERLAP):
        weft.add(x[:4], 1, out=x[1:5])
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[:4].scatter_(0, weft.tensor([0, 1]), x[1:3])
    with pytest.raises(RuntimeError, match=OVERLAP), weft.no_grad():
        x[1:] = x[:-1]
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and square[0].tolist() == [0, 1, 2]
    square[0] = square[1]
    x[:4].masked_fill_(x[:4] > 1, x[0])
    assert square[0].tolist() == [3, 4, 5] and x.tolist() == [0, 1, 0, 0, 4, 5]


def test_integer_tensors_take_no_history() -> None:
    x, w = weft.arange(4), weft.tensor(1.5, requires_grad=True)
    x.chunk(2)[0].copy_(w)
    assert x.tolist() == [1, 1, 2, 3] and not x.requires_grad


def test_restriding_in_place_obeys_the_rules_for_writes() -> None:
    x = weft.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match=VIEW_OF_LEAF):
        x.view(4).unsqueeze_(0)
    with pytest.raises(RuntimeError, match="Output 0 of Split is a view"):
        (x * 2).split(1)[0].transpose_(0, 1)
    y = x * 2
    with weft.no_grad():
        row = y[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        row.unsqueeze_(0)


def test_in_place_forms_of_meta_tensors() -> None:
    x = weft.ones(2, device="meta")
    assert x.add_(1) is x and x.mul_(2.0) is x and x.sub_(weft.ones(2, device="meta")) is x


def test_dense_memory_in_any_order_overlaps() -> None:
    x = weft.arange(12.0).reshape(3, 2, 2)
    with pytest.raises(RuntimeError, match=OVERLAP):
        x.mT.mul_(x)
    one = weft.ones(1)
    one[weft.tensor([True])] = one
    assert one.item() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x / 2,
        lambda x: x / (x + 1),
        lambda x: x**3,
        lambda x: (x / 4).erfinv(),
        lambda x: weft.nn.functional.max_pool1d(x[None], 2),
        lambda x: weft.nn.functional.adaptive_max_pool1d(x[None], 2),
        lambda x: weft.nn.functional.softsign(x),
    ],
)
def test_results_that_no_gradient_reads_can_be_written_to(call) -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = leaf(1.0, 2.0, 3.0)
    call(x).mul_(2).sum().backward()
    (call(y) * 2).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()


def test_a_tensor_copied_onto_itself_with_another_shape() -> None:
    x = weft.arange(3.0)
    x[None] = x
    assert x.tolist() == [0, 1, 2]


def test_no_grad_views_of_a_view_that_requires_grad_alone() -> None:
    x = weft.arange(4.0).reshape(2, 2).requires_grad_()
    with weft.no_grad():
        assert not x.t().requires_grad and not x[0].requires_grad
        assert weft.ones(2, 2, requires_grad=True).t().requires_grad


def test_division_of_nothing_by_zero() -> None:
    empty = weft.zeros(0, dtype=weft.int64)
    assert (empty // 0).shape == (0,) and empty.fmod(0).shape == (0,)


# -- memory that overlaps itself: expected values are PyTorch's -----------------------------------
CHECKERS = weft.tensor([[True, False, False], [False, True, False]])
SHARED = "unsupported operation: more than one element of the written-to tensor refers to a single memory"
PLACES = weft.tensor([0, 1])


def expanded() -> weft.Tensor:
    return (weft.arange(3.0) + 1).expand(2, 3)


def folded() -> weft.Tensor:
    return (weft.arange(4.0) + 1).unfold(0, 2, 1)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    ("write", "memory"),
    [
        (lambda x: x.zero_(), [0, 0, 0]),
        (lambda x: x.fill_(7), [7, 7, 7]),
        (lambda x: x.t().fill_(7), [7, 7, 7]),
        (lambda x: x.tril_(), [1, 0, 0]),
        (lambda x: x.triu_(), [0, 2, 3]),
        (lambda x: x.fill_diagonal_(7), [7, 7, 3]),
        (lambda x: weft.nn.functional.threshold(x, 1.5, 9.0, inplace=True), [9, 2, 3]),
        (lambda x: weft.zeros(2, 3, out=x), [0, 0, 0]),
        (lambda x: weft._foreach_zero_([x]), [0, 0, 0]),
        (lambda x: weft.nn.init.ones_(x), [1, 1, 1]),
    ],
)
def test_expanded_memory_is_written_where_pytorch_writes_it(write, memory, grad) -> None:
    x = expanded()
    with weft.set_grad_enabled(grad):
        write(x)
    assert x.tolist() == [memory, memory]


@pytest.mark.parametrize(
    ("write", "memory", "names"),
    [
        (lambda x: x.masked_fill_(CHECKERS, 7), [7, 7, 3], ["masked_fill_"]),
        (lambda x: x.index_fill_(1, PLACES, 7), [7, 7, 3], ["index_fill_"]),
        (lambda x: x.index_put_((PLACES,), weft.tensor(7.0)), [7, 7, 7], ["index_put_"]),
        (lambda x: x.index_put_((PLACES,), weft.tensor(3.0), True), [7, 8, 9], ["index_put_"]),
        (lambda x: x.__setitem__((slice(None), PLACES), 7), [7, 7, 3], ["index_put_"]),
        (lambda x: x.__setitem__(CHECKERS, 7), [7, 7, 3], ["index_put_", "masked_fill_"]),
        (lambda x: x.__setitem__(PLACES, weft.tensor([4.0, 5, 6])), [4, 5, 6], ["index_put_"]),
    ],
)
def test_writes_at_places_of_expanded_memory_warn(write, memory, names) -> None:
    x = expanded()
    with pytest.warns(UserWarning) as seen:
        write(x)
    texts = [str(warning.message) for warning in seen]
    assert [text.split()[2] for text in texts] == names
    assert all("on expanded tensors is deprecated. Please clone() the tensor" in text for text in texts)
    assert x.tolist() == [memory, memory]


@pytest.mark.parametrize(
    ("write", "memory"),
    [
        (lambda x: x.zero_(), [0, 0, 0, 0]),
        (lambda x: x.fill_(weft.tensor(7.0)), [7, 7, 7, 7]),
        (lambda x: x.copy_(weft.tensor([[5.0, 6], [6, 7], [7, 8]])), [5, 6, 7, 8]),
        (lambda x: x.__setitem__(slice(1, None), 7), [1, 7, 7, 7]),
        (lambda x: x.masked_fill_(weft.eye(3, 2).bool(), 7), [7, 2, 7, 4]),
        (lambda x: x.index_put_((PLACES,), weft.tensor(3.0), True), [4, 8, 6, 4]),
        (lambda x: x.index_copy_(0, PLACES, weft.ones(2, 2)), [1, 1, 1, 4]),
        (lambda x: x.scatter_(0, weft.zeros(3, 2, dtype=weft.int64), 9.0), [9, 9, 3, 4]),
        (lambda x: x.masked_scatter_(weft.eye(3, 2).bool(), weft.tensor([8.0, 9])), [8, 2, 9, 4]),
        (lambda x: x.tril_(), [1, 0, 3, 4]),
    ],
)
def test_unfolded_memory_takes_values(write, memory) -> None:
    x = folded()
    write(x)
    assert [*x[:, 0].tolist(), x[2, 1].item()] == memory


@pytest.mark.parametrize(
    ("make", "write"),
    [
        (expanded, lambda x: x.add_(1)),
        (expanded, lambda x: x.copy_(weft.ones(2, 3))),
        (expanded, lambda x: x.fill_(weft.tensor(1.0))),
        (expanded, lambda x: x.__setitem__(slice(None), 1)),
        (expanded, lambda x: x.scatter_(0, weft.zeros(2, 3, dtype=weft.int64), 1.0)),
        (expanded, lambda x: x.uniform_()),
        (expanded, lambda x: weft.add(weft.ones(2, 3), 1, out=x)),
        (folded, lambda x: x.add_(1)),  # the order of PyTorch's loops decides
        (folded, lambda x: x.copy_(weft.arange(6.0).view(3, 2))),
        (folded, lambda x: x.scatter_(0, weft.zeros(3, 2, dtype=weft.int64), 1.0, reduce="add")),
    ],
)
def test_writes_to_shared_memory_that_depend_on_their_order_are_refused(make, write) -> None:
    x = make()
    before = x.tolist()
    with pytest.raises(RuntimeError, match=SHARED):
        write(x)
    assert x.tolist() == before


def test_no_gradient_goes_through_writes_to_shared_memory() -> None:
    base = leaf() * 1
    with pytest.raises(RuntimeError, match=SHARED):
        base.expand(2, 3).zero_()
    with weft.no_grad():
        base.expand(2, 3).zero_()
    assert values(base) == [0, 0, 0]


def test_writes_of_several_threads_are_all_counted():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            x, barrier = weft.ones(3), threading.Barrier(4)

            def write(x=x, barrier=barrier):
                barrier.wait()
                x.add_(1)

            threads = [threading.Thread(target=write) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert x._version == 4
    finally:
        sys.setswitchinterval(before)
