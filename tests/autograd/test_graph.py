"""Hooks on saved tensors, hooks on several gradients, versions."""

from __future__ import annotations

import threading

import pytest

import weft
from weft.autograd import grad, graph


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.array.tolist()


# -- saved tensors ---------------------------------------------------------------------------------
def test_pack_and_unpack():
    log = []

    def pack(tensor):
        log.append(("pack", values(tensor)))
        return tensor * 2

    def unpack(packed):
        log.append(("unpack", values(packed)))
        return packed

    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    assert [name for name, _ in log] == ["pack"]
    y.sum().backward()
    assert [name for name, _ in log] == ["pack", "unpack"]
    assert values(x.grad) == pytest.approx([2 * v for v in values(y)])


def test_only_the_innermost_pair_runs():
    log = []
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: log.append("outer"), lambda p: p):
        with graph.saved_tensors_hooks(lambda t: (log.append("inner"), t)[1], lambda p: p):
            x.exp()
        assert log == ["inner"]
        x.exp()
    assert log == ["inner", "outer"]
    x.exp()
    assert log == ["inner", "outer"]


def test_gradients_of_gradients_pass_through_hooks():
    x = weft.tensor([0.5, 1.0], dtype=weft.float64, requires_grad=True)

    def second(function):
        y = function(x)
        (first,) = grad(y.sum(), x, create_graph=True)
        return values(grad(first.sum(), x)[0])

    plain = second(lambda v: v.exp() * v * v)
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lambda p: weft.from_numpy(p)):
        assert second(lambda v: v.exp() * v * v) == pytest.approx(plain)


def test_hooked_tensors_may_be_written_to():
    x = leaf()
    y = x * 1
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda p: p):
        z = y * y
    y.add_(100)
    z.sum().backward()
    assert values(x.grad) == [2, 4, 6]


def test_pack_hooks_must_not_write():
    x = leaf()
    words = "A saved tensor pack hook is modifying its input in place"
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda p: p),
        pytest.raises(RuntimeError, match=words),
    ):
        (x * 1).exp()


def test_unpack_hooks_must_return_tensors():
    x = leaf()
    with graph.saved_tensors_hooks(lambda t: 3, lambda p: p):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        y.sum().backward()


def test_disabling():
    inner = graph.saved_tensors_hooks(len, len)
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="^not here$"),
        inner,
    ):
        pass
    with (
        inner,
        pytest.raises(RuntimeError, match="^nor here$"),
        graph.disable_saved_tensors_hooks("nor here"),
    ):
        pass
    with graph.saved_tensors_hooks(lambda t: t, lambda p: p):
        pass


def test_raw_saved_tensors_take_hooks():
    x = leaf()
    y = x * x
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: t * 2, lambda p: p)
    assert values(y.grad_fn._saved_self) == [2, 4, 6]
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda p: p)
    y.sum().backward()
    assert values(x.grad) == [3, 6, 9]
    with pytest.raises(
        RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"
    ):
        raw.register_hooks(lambda t: t, lambda p: p)


def test_raw_hooks_free_only_their_own_tensor_from_version_checks():
    x, y = leaf() * 1, leaf() * 1
    z = x * y
    z.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda p: p)
    x.add_(1)
    z.sum().backward(retain_graph=True)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_raw_hooks_on_what_was_not_saved():
    y = leaf() * weft.ones(3)
    with pytest.raises(RuntimeError, match="saved tensor with value None is forbidden"):
        y.grad_fn._raw_saved_self.register_hooks(len, len)


def test_save_on_cpu():
    x = leaf()
    y = x * 1
    with graph.save_on_cpu(pin_memory=True):
        z = y.exp() * y
    y.zero_()
    z.sum().backward()
    expected = weft.tensor([1.0, 2.0, 3.0])
    assert values(x.grad) == pytest.approx(values(expected.exp() * (expected + 1)))


def test_mutation_of_saved_tensors_can_be_allowed():
    with graph.allow_mutation_on_saved_tensors():
        x = leaf()
        y = x * 1
        z = y.sin()
        y.mul_(3)
        z.sum().backward()
    assert values(x.grad) == pytest.approx(values(leaf().cos()))
    with graph.allow_mutation_on_saved_tensors():
        late = leaf().sin()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        late.sum().backward()


# -- several gradients -----------------------------------------------------------------------------
def test_multi_grad_hook_waits_for_all():
    a, b, c = leaf(), leaf(), leaf()
    log = []
    handle = graph.register_multi_grad_hook([a, b, c], log.append)
    (a * b).sum().backward()
    assert [None if g is None else values(g) for g in log[0]] == [[1, 2, 3], [1, 2, 3], None]
    (a * b).sum().backward()
    assert len(log) == 2
    (a * b * c).sum().backward()
    assert all(g is not None for g in log[2])
    handle.remove()
    (a * b * c).sum().backward()
    assert len(log) == 3


def test_multi_grad_hook_in_grad():
    a, b = leaf(), leaf()
    y = a * b
    log = []
    graph.register_multi_grad_hook([a, y], log.append)
    grad(y.sum(), b, retain_graph=True)
    assert len(log) == 1
    assert log[0][0] is None
    grad(y.sum(), [a, b])
    assert len(log) == 2
    assert log[1][0] is not None


def test_multi_grad_hook_for_any():
    a, b, c = leaf(), leaf(), leaf()
    log = []
    graph.register_multi_grad_hook([a, b, c], log.append, mode="any")
    (a * b).sum().backward()
    assert [values(g) for g in log] == [[1, 2, 3]]
    (a * b).sum().backward()
    assert len(log) == 2


def test_multi_grad_hook_counts_threads_apart():
    a, b = leaf(), leaf()
    log = []
    graph.register_multi_grad_hook([a, b], log.append)
    threads = [threading.Thread(target=lambda: (a * b).sum().backward()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log) == 8
    assert all(g is not None for gradients in log for g in gradients)


def test_multi_grad_hook_refuses():
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got x"):
        graph.register_multi_grad_hook([leaf()], print, mode="x")
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        graph.register_multi_grad_hook([weft.ones(2)], print)


def test_increment_version():
    x = weft.ones(2)
    graph.increment_version(x)
    graph.increment_version([x, x])
    assert x._version == 3


def test_writes_that_are_not_noted() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 1
    out = y * y
    with weft.autograd._unsafe_preserve_version_counter(y):
        y.detach().mul_(3)
    assert y._version == 0
    out.sum().backward()
    assert x.grad.tolist() == [6, 6]
    with weft.autograd._unsafe_preserve_version_counter((y, out)):
        y.detach().mul_(3)
        out.detach().mul_(3)
    assert (y._version, out._version) == (0, 0)


def test_a_stop_iteration_of_a_hook_is_not_the_end_of_what_was_saved():
    def unpack(_value):
        raise StopIteration("of the hook")

    x = weft.ones(2, requires_grad=True)
    with weft.autograd.graph.saved_tensors_hooks(lambda value: value, unpack):
        y = x * x
    with pytest.raises(StopIteration, match="of the hook"):
        y.sum().backward()
