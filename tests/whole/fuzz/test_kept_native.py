"""Random programs that once differed when compiled natively, shrunk and kept."""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_writes_to_what_may_be_a_copy(backend):
    """Whether `contiguous` gives the tensor itself depends on how it lies, which only running tells."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x):
    y = x * 2
    z = y.contiguous()
    z.add_(1)
    return (y * 1, z * 1)
def arguments():
    yield ((weft.arange(12.0).reshape(3, 4).t(),), {{}})
    yield ((weft.arange(12.0).reshape(4, 3),), {{}})
    yield ((weft.arange(12.0).reshape(2, 6).t(),), {{}})
    yield ((weft.arange(12.0).reshape(6, 2),), {{}})
""")


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("given", ["found", "found[0]", "found.add_(1)"])
def test_versions_of_what_may_be_a_copy(backend, given):
    """What `contiguous` gives counts the writes before it where it is the tensor itself, and only there."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x, y):
    both = weft.stack([y, x])
    both.clamp_(-1, 1)
    found = both.contiguous()
    return {given}
def after(result, *args):
    pass
def arguments():
    yield ((weft.randn(4, 5), weft.randn(4, 5)), {{}})
    yield ((weft.randn(8, 6)[::2, ::2], weft.randn(4, 3)), {{}})
    yield ((weft.randn(3, 4).t(), weft.randn(4, 3)), {{}})
    yield ((weft.randn(3, 8).t()[::2], weft.randn(3, 4).t()), {{}})
""")


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("asked", ["args[:1]", "args[1:]", "args"])
def test_freed_nodes_that_lead_elsewhere(backend, asked):
    """Two values share what a sweep inside has freed, and only one of them depends on the second argument: of
    the other, that argument is asked for in vain, and nothing that is freed is come by.
    """
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x, y):
    row = x[0]
    x.mul_(3.0)
    twice = row * 2
    x.add_(weft.relu(y))
    (twice.detach() * twice).sum().backward()
    return twice + twice
def after(result, *args):
    return weft.autograd.grad((result * result).sum(), {asked}, allow_unused=True)
def arguments():
    x = weft.tensor([[1.13, -0.7]], requires_grad=True)
    yield ((x * 1.5, weft.tensor([[0.35, -0.69]], requires_grad=True)), {{}})
""")


def test_warnings_stand_at_the_lines_of_the_program():
    agree("""\
import weft
def main(x):
    found = x.max(1).values
    return found.T
def after(result, *args):
    pass
def arguments():
    yield ((weft.ones(3, 4),), {})
""")


@pytest.mark.parametrize(
    "view, bad, good",
    [
        ("x.view(weft.int32)", "weft.ones(4, 3).double().t()", "weft.ones(3, 4).double()"),
        ("weft.view_as_complex(x)", "weft.ones(2, 3).t()", "weft.ones(3, 2)"),
        ("x.contiguous(memory_format=weft.preserve_format)", "weft.ones(4, 3).t()", "weft.ones(3, 4)"),
    ],
)
def test_errors_of_strides_are_raised_for_these_strides_alone(view, bad, good):
    agree(f"""\
import weft
def main(x):
    return {view}
def arguments():
    yield (({bad},), {{}})
    yield (({good},), {{}})
""")


def test_errors_of_strides_that_are_not_known():
    """Only running tells how the result of `cond` lies: capture took it to lie row by row, and went the way
    of the error.
    """
    agree("""\
import weft
def main(x):
    y = weft.cond(x.sum() > -100, lambda x: x * 1, lambda x: x.t().contiguous().t(), (x,))
    try:
        return y.t().view(-1)
    except RuntimeError:
        return y
def arguments():
    yield ((weft.arange(12.0).reshape(3, 4),), {})
    yield ((weft.arange(12.0).reshape(4, 3).t(),), {})
""")


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("write", ["x.mul_(w); x.view(-1)[0] = 1", "x = x * w; x.flatten()[0] = 1"])
@pytest.mark.parametrize("gradient", ["weft.ones(3).expand(4, 3)", "weft.ones(3, 4).t()", "weft.ones(4, 3)"])
def test_gradients_of_what_was_written_by_a_view_lie_as_they_please(backend, write, gradient):
    """They were viewed as the base was, which their strides may not allow."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x, w):
    {write}
    return x
def after(result, x, w):
    result.backward({gradient})
def arguments():
    yield ((weft.arange(12.0).reshape(4, 3), weft.ones(3, requires_grad=True)), {{}})
""")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("rows", [0, 2])
def test_items_of_no_items_are_refused_at_once(backend, rows):
    """Eager read none of no rows, and its gradient was refused."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x):
    return (x * 2)[:, (3,)]
def after(result, x):
    result.sum().backward()
def arguments():
    yield ((weft.ones({rows}, 0, requires_grad=True),), {{}})
""")


def test_what_is_written_in_place_through_a_cast_lies_as_before_7203573():
    agree("""\
import weft
OPTIONS = {'backend': 'native'}

def main(x, y, wide):
    a, b, c = y * 2, y + 1, y - 1
    a.mul_(wide)
    b.clamp_(min=wide).gt_(x)
    weft.add(x, x, out=c)
    return a, b, c

def arguments():
    x = weft.linspace(-1, 1, 10).reshape(5, 2)
    for y in (x * 3, (x * 3).t().contiguous().t()):
        yield (x, y, x.double()), {}
""")


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_ops_in_place_without_a_derivative_say_so_when_asked(backend):
    """That no gradient can be made ahead of time is no failure: eager has none either."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x, y):
    y = y * 2
    y.gt_(x)
    return y
def after(result, x, y):
    return result.requires_grad, result.grad_fn is None, result.sum().backward()
def arguments():
    yield ((weft.arange(6.0, requires_grad=True), weft.ones(6)), {{}})
""")


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize(
    "view", ["x.unfold(0, 2, 1)", "x.unfold(0, 2, n)", "x.unfold(0, n, 2)", "x[:, :n].unfold(0, 2, 1)"]
)
def test_windows_that_overlap_at_some_sizes_are_not_written(backend, view):
    """Whether elements of a window share memory follows from sizes, and so does eager's refusal."""
    agree(f"""\
import weft
OPTIONS = {{'backend': {backend!r}}}
def main(x, n):
    windows = {view}
    windows.sub_(windows)
    return windows.sum()
def after(result, *args):
    return args[0]._version
def arguments():
    for rows, n in ((2, 2), (2, 1), (3, 2), (8, 3), (8, 2), (3, 4), (9, 1)):
        for columns in (0, 5, 6):
            yield ((weft.arange(rows * columns * 1.0).reshape(rows, columns), n), {{}})
""")


def test_bools_are_filled_with_whole_numbers_that_vary():
    """Of an open number all bits count, not the last one."""
    agree("""\
import weft
OPTIONS = {'backend': 'native'}
def main(x, n):
    y = x.masked_fill(x, n), weft.full_like(x, n), x.new_full((2,), n), weft.where(x, n, x)
    return (*y, x.fill_(n))
def arguments():
    for n in (3, 2, -1, 4, 0, 6, 1, 256, 1 << 32):
        yield ((weft.tensor([True, False, True]), n), {})
""")


def test_lists_that_are_going_on_behind_a_break_are_appended_to():
    """A list's display that a warning breaks, and that has been looked into by then."""
    agree("""\
import itertools
import operator
import warnings
import weft
def main(x, y):
    warnings.warn('here')
    first, second = itertools.tee([*sorted(y, key=operator.neg), warnings.warn('w') or 7])
    return next(first, 0), list(second), x + 1
def arguments():
    for y in ([1, 0], [-1, -1], [2, 0]):
        yield ((weft.ones(2), y), {})
""")
