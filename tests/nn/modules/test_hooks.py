"""Hooks of modules: who is called when, with what, and what their answers change."""

import warnings

import pytest

import weft
from weft import func, nn
from weft.nn.modules import module as module_file


class Run(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def leaf(*values):
    return weft.tensor(values, requires_grad=True)


def lists(values):
    """Tensors of a hook's argument as lists."""
    return tuple(None if value is None else value.tolist() for value in values)


@pytest.fixture
def log():
    return []


@pytest.fixture
def note(log):
    """Makes hooks that write their arguments (less the module) down and give a fixed answer."""

    def make(name, answer=None):
        def hook(_module, *args):
            log.append((name, *args))
            return answer

        return hook

    return make


# -- forward -------------------------------------------------------------------------------------------------
def test_order_of_forward_hooks(log, note):
    m = Run(lambda x, y=0: x + y)
    handles = [
        module_file.register_module_forward_pre_hook(note("all before")),
        module_file.register_module_forward_hook(note("all after")),
        module_file.register_module_forward_hook(note("all after, named"), with_kwargs=True),
    ]
    try:
        m.register_forward_pre_hook(note("before"))
        m.register_forward_pre_hook(note("before, first"), prepend=True)
        m.register_forward_pre_hook(note("before, named"), with_kwargs=True)
        m.register_forward_hook(note("after"))
        m.register_forward_hook(note("after, first"), prepend=True)
        m.register_forward_hook(note("after, named"), with_kwargs=True)
        assert m(1, y=2) == 3
    finally:
        for handle in handles:
            handle.remove()
    assert log == [
        ("all before", (1,)),
        ("before, first", (1,)),
        ("before", (1,)),
        ("before, named", (1,), {"y": 2}),
        ("all after", (1,), 3),
        ("all after, named", (1,), {"y": 2}, 3),
        ("after, first", (1,), 3),
        ("after", (1,), 3),
        ("after, named", (1,), {"y": 2}, 3),
    ]
    assert not module_file._global_forward_hooks and not module_file._global_forward_pre_hooks


def test_pre_hooks_replace_arguments(note):
    m = Run(lambda x, y=0: (x, y))
    m.register_forward_pre_hook(note("one", 5))
    assert m(1) == (5, 0)
    m.register_forward_pre_hook(note("two", (6, 7)))
    assert m(1) == (6, 7)
    m = Run(lambda x, y=0: (x, y))
    m.register_forward_pre_hook(note("both", ((8,), {"y": 9})), with_kwargs=True)
    assert m(1) == (8, 9)


@pytest.mark.parametrize("answer", [5, (1, 2, 3)])
def test_pre_hooks_with_keywords_must_return_a_pair(note, answer):
    m = Run(lambda x: x)
    m.register_forward_pre_hook(note("bad", answer), with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple of"):
        m(1)


def test_forward_hooks_replace_the_output(note):
    m = Run(lambda x: x)
    m.register_forward_hook(note("a", "first"))
    m.register_forward_hook(lambda module, args, output: output + " then second")
    assert m(1) == "first then second"


def test_handles_take_hooks_away(log, note):
    m = Run(lambda x: x)
    handle = m.register_forward_hook(note("a"), with_kwargs=True, always_call=True)
    handle.remove()
    handle.remove()
    assert not (m._forward_hooks or m._forward_hooks_with_kwargs or m._forward_hooks_always_called)
    with m.register_forward_pre_hook(note("b")):
        m(1)
    m(1)
    assert log == [("b", (1,))]


def test_a_hook_may_remove_itself(log):
    m = Run(lambda x: x)
    handles = []

    def once(*_):
        log.append("once")
        handles[0].remove()

    handles.append(m.register_forward_hook(once))
    m(1)
    m(1)
    assert log == ["once"]


def fail(*_args):
    raise ValueError("from forward")


def test_hooks_that_are_always_called(log, note):
    m = Run(fail)
    m.register_forward_hook(note("sometimes"))
    m.register_forward_hook(note("always"), always_call=True)
    m.register_forward_hook(note("named"), always_call=True, with_kwargs=True)
    with pytest.raises(ValueError, match="from forward"):
        m(1)
    assert log == [("always", (1,), None), ("named", (1,), {}, None)]


def test_an_error_of_such_a_hook_only_warns():
    m = Run(fail)

    def broken(*_args):
        raise RuntimeError("from hook")

    m.register_forward_hook(broken, always_call=True)
    with (
        pytest.warns(UserWarning, match="silenced as another error was raised in forward: from hook"),
        pytest.raises(ValueError, match="from forward"),
    ):
        m(1)


def test_hooks_that_ran_before_a_later_one_failed_are_not_called_again(log, note):
    m = Run(lambda x: x)
    m.register_forward_hook(note("first"), always_call=True)
    m.register_forward_hook(fail)
    m.register_forward_hook(note("last"), always_call=True)
    with pytest.raises(ValueError, match="from forward"):
        m(1)
    assert [entry[0] for entry in log] == ["first", "last"]


# -- full backward -------------------------------------------------------------------------------------------
def watched(function, log, answer=None):
    m = Run(function)

    def hook(_module, grad_input, grad_output):
        log.append((lists(grad_input), lists(grad_output)))
        return answer(grad_input) if answer else None

    m.register_full_backward_hook(hook)
    return m


def test_full_backward_hooks_see_both_gradients(log):
    x = leaf(1.0, 2.0)
    out = watched(lambda a: a * 2, log)(x)
    assert out.grad_fn.name() == "BackwardHookFunctionBackward"
    out.sum().backward()
    assert log == [(([2, 2],), ([1, 1],))]
    assert x.grad.tolist() == [2, 2]


def test_what_is_no_tensor_has_no_gradient(log):
    x = leaf(1.0)
    watched(lambda a, n, c: (a * n * c, 5, None), log)(x, 3, weft.ones(1))[0].sum().backward()
    assert log == [(([3.0], None, [0.0]), ([1.0], None, None))]


def test_results_without_gradient_are_none_and_arguments_zero(log):
    x, unused = leaf(1.0), leaf(1.0)
    watched(lambda a, b: (a * 2, a * 3), log)(x, unused)[0].sum().backward()
    assert log == [(([2.0], [0.0]), ([1.0], None))]
    assert unused.grad.tolist() == [0]


def test_keyword_arguments_are_not_watched(log):
    x, y = leaf(2.0), leaf(3.0)
    watched(lambda a, b: a * b, log)(x, b=y).sum().backward()
    assert log == [(([3.0],), ([1.0],))]
    assert y.grad.tolist() == [2]


def test_hooks_replace_gradients(log):
    x = leaf(1.0)
    m = watched(lambda a: a * 2, log, lambda grad_input: (grad_input[0] * 10,))
    m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 5,))
    m(x).sum().backward()
    assert log == [(([10.0],), ([5.0],))]
    assert x.grad.tolist() == [100]


def test_a_hook_may_drop_a_gradient(log):
    x = leaf(1.0)
    watched(lambda a: a * 2, log, lambda grad_input: (None,))(x).sum().backward()
    assert x.grad is None


def test_order_of_backward_hooks(log):
    def note(name):
        return lambda *_: log.append(name)

    inner, outer = Run(lambda x: x * 2), nn.Sequential()
    outer.append(inner)
    handles = [
        module_file.register_module_full_backward_hook(note("all")),
        module_file.register_module_full_backward_pre_hook(note("all, pre")),
    ]
    try:
        inner.register_full_backward_hook(note("inner"))
        inner.register_full_backward_hook(note("inner, first"), prepend=True)
        inner.register_full_backward_pre_hook(note("inner, pre"))
        outer.register_full_backward_hook(note("outer"))
        outer.register_full_backward_pre_hook(note("outer, pre"))
        outer(leaf(1.0)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert log == [
        "all, pre", "outer, pre",
        "all, pre", "inner, pre", "all", "inner, first", "inner",
        "all", "outer",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("register", "answer", "text"),
    [
        (
            "register_full_backward_hook",
            lambda g: (g, g),
            "Backward hook returned an invalid number of grad_input",
        ),
        (
            "register_full_backward_pre_hook",
            lambda g: (g, g),
            "Backward pre hook returned an invalid number of grad_output",
        ),
    ],
)
def test_wrong_numbers_of_gradients(register, answer, text):
    m = Run(lambda a: a * 2)
    getattr(m, register)(lambda module, first, *rest: answer(first[0]))
    with pytest.raises(RuntimeError, match=f"{text}, got 2, but expected 1"):
        m(leaf(1.0)).sum().backward()


def test_no_argument_requires_a_gradient(log):
    w = leaf(2.0)
    m = watched(lambda a: a * w, log)
    with pytest.warns(UserWarning, match="Full backward hook is firing .* since no inputs require gradients"):
        m(weft.ones(1)).sum().backward()
    assert log == [((None,), ([1.0],))]
    m = watched(lambda a: a * w, log, lambda _: (weft.ones(1),))
    with (
        pytest.warns(UserWarning, match="Full backward hook is firing"),
        pytest.raises(RuntimeError, match="should always return None or None for all gradients"),
    ):
        m(weft.ones(1)).sum().backward()


def test_only_tensors_and_tuples_are_watched(log):
    m = watched(lambda a: [a * 2], log)
    with pytest.warns(UserWarning, match="a Tensor or a tuple of Tensors but received <class 'list'>"):
        out = m(leaf(1.0))
    out[0].sum().backward()
    assert log == []


def test_nothing_is_put_on_the_tape_for_nothing(log):
    m = watched(lambda a: a * 2, log)
    x = weft.ones(1)
    assert m(x).grad_fn is None
    with weft.no_grad():
        assert not m(leaf(1.0)).requires_grad


@pytest.mark.parametrize("function", [lambda a: a.mul_(2), lambda a: a * 2])
def test_watched_tensors_may_not_be_written_to(function, log):
    m = watched(function, log)
    with pytest.raises(
        RuntimeError, match="Output 0 of BackwardHookFunction is a view and is being modified inplace"
    ):
        m(leaf(1.0) * 1).mul_(2)


def test_a_module_used_twice_and_a_graph_used_twice(log):
    x = leaf(1.0)
    m = watched(lambda a: a * 2, log)
    total = m(m(x)).sum()
    total.backward(retain_graph=True)
    total.backward()
    assert log == [(([2.0],), ([1.0],)), (([4.0],), ([2.0],))] * 2
    assert x.grad.tolist() == [8]


def test_second_order_through_hooks():
    x = leaf(2.0)
    m = Run(lambda a: a**3)
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 2,))
    (first,) = weft.autograd.grad(m(x).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x)
    assert first.item() == 24 and second.item() == 24


def test_transforms_carry_backward_hooks(log):
    m = watched(lambda a: a * a, log)
    assert func.grad(lambda x: m(x).sum())(weft.tensor([3.0])).tolist() == [6]
    assert log == [(([6.0],), ([1.0],))]
    rows = weft.tensor([[3.0], [4.0]])
    assert func.vmap(func.grad(lambda x: m(x).sum()))(rows).tolist() == [[6], [8]]
    value, tangent = func.jvp(m, (weft.tensor([3.0]),), (weft.tensor([2.0]),))
    assert value.tolist() == [9] and tangent.tolist() == [12]


# -- of the old kind -----------------------------------------------------------------------------------------
def regular(function, log):
    m = Run(function)
    m.register_backward_hook(lambda module, grad_input, grad_output: log.append(lists(grad_output)))
    return m


@pytest.mark.parametrize(
    ("function", "argument", "text"),
    [
        (lambda a: (a * 2).exp(), leaf(1.0), "forward contains multiple autograd Nodes"),
        (lambda a: (a * 2, a * 3), leaf(1.0), "outputs are generated by different autograd Nodes"),
        (lambda a: [a * 2], leaf(1.0), "does not return a single Tensor or a tuple of Tensors"),
        (lambda a: {"key": a * 2}, leaf(1.0), "does not return a single Tensor or a tuple of Tensors"),
        (lambda a: a[0] * 2, [leaf(1.0)], "does not take as input a single Tensor or a tuple of Tensors"),
    ],
)
def test_old_hooks_say_what_they_miss(function, argument, text, log):
    with pytest.warns(FutureWarning, match=text):
        out = regular(function, log)(argument)
    while not isinstance(out, weft.Tensor):
        out = next(iter(out.values() if isinstance(out, dict) else out))
    out.sum().backward()
    assert log == [([1.0],)]


def test_old_hooks_are_quiet_where_they_miss_nothing(log):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = regular(lambda a: a.exp(), log)(leaf(1.0) * 1)
    out.sum().backward()
    assert log == [([1.0],)]


def test_the_two_kinds_do_not_mix(note):
    both = "Cannot use both regular backward hooks and full backward hooks"
    m = Run(lambda a: a)
    m.register_full_backward_hook(note("a"))
    with pytest.raises(RuntimeError, match=both):
        m.register_backward_hook(note("b"))
    m = Run(lambda a: a)
    m.register_backward_hook(note("a"))
    with pytest.raises(RuntimeError, match=both):
        m.register_full_backward_hook(note("b"))
