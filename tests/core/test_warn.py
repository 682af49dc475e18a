"""Warnings stand at the line that called the library, whichever way the call went."""

from __future__ import annotations

import inspect
import threading
import warnings

import pytest

import weft
from weft import nn
from weft.core.warn import heard, hidden, warn_at_level


def lines(function, *args):
    """The files, and the lines within the function, that a call warns at."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    start = inspect.getsourcelines(inspect.unwrap(function))[1]
    return [(one.filename == __file__ and one.lineno - start, one.category) for one in found]


def losses(x, y):
    first = nn.functional.mse_loss(x, y)
    return (
        first
        + nn.functional.l1_loss(x, y)
        + nn.functional.softmax(x).sum()
    )  # fmt: skip


def differentiated(x, y):
    loss = nn.functional.mse_loss(x, y)
    loss.backward()
    return loss


def reversed_axes(x, y):
    x = x.T
    return y.unsqueeze(0).T


def picked(x, y):
    low, high = weft.meshgrid(x, x)
    bits = weft.ones(3, dtype=weft.uint8)
    return low + high, weft.cross(y, y + 1), weft.where(bits, x, y)


def narrowed(x, y):
    wide = x.to(weft.complex64)
    return wide.to(weft.float32) + weft.zeros(3).copy_(wide)


def copied(x, y):
    first = weft.tensor(x)
    return first, y.new_tensor(y)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "native"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (copied, [1, 2]),
        (losses, [1, 4, 5]),
        (differentiated, [1]),
        (reversed_axes, [1, 2]),
        (picked, [1, 3, 3]),
        (narrowed, [2, 2]),
    ],
)
def test_at_the_line_of_the_user(function, expected, backend):
    called = function if backend is None else weft.compile(function, backend=backend, fullgraph=True)
    for kind in (weft.float32, weft.float64):
        x, y = weft.ones(3, dtype=kind, requires_grad=True), weft.ones(2, 3, dtype=kind)
        for _ in range(2):
            assert lines(called, x, y) == [(line, UserWarning) for line in expected]


def test_modules_warn_at_their_own_lines():
    x, y = weft.ones(3), weft.ones(2, 3)
    for called in (nn.MSELoss(), weft.compile(nn.MSELoss(), backend="eager")):
        with pytest.warns(UserWarning, match="different to the input size") as found:
            called(x, y)
        assert [one.filename.endswith("nn/modules/loss.py") for one in found] == [True]


def test_a_place_warns_once_by_default():
    compiled = weft.compile(differentiated, backend="eager")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            compiled(weft.ones(4, requires_grad=True), weft.ones(2, 4))
    assert len(found) == 1


def test_threads_that_compile_leave_warnings_as_they_are():
    before = warnings.warn, warnings.showwarning, warnings.filters[:]
    wrong: list[object] = []

    def work(number):
        for factor in range(8):
            function = eval(f"lambda x: (x.sin() * {factor} + x.cos() * {number}).sum()")
            weft.compile(function, backend="aot_eager")(weft.ones(3, requires_grad=True)).backward()
            if warnings.warn is not before[0] or warnings.showwarning is not before[1]:
                wrong.append(factor)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (warnings.warn, warnings.showwarning, warnings.filters[:]) == before


def test_what_is_hidden_is_not_known_as_shown():
    def warns():
        warnings.warn("of somebody's", stacklevel=1)
        warn_at_level("of the library", UserWarning)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            with hidden():
                warns()
        assert found == []
        warns()
        warns()
        assert [str(one.message) for one in found] == ["of somebody's", "of the library"]


class Heard(Exception):
    pass


def test_a_listener_hears_what_was_shown_already():
    def listener(text):
        raise Heard(text)

    def warns(warn):
        warn("the same", UserWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for warn in (warnings.warn, warn_at_level):
            warns(warn)
            for _ in range(2):
                with pytest.raises(Heard), heard(listener, by_users=True):
                    warns(warn)
            warns(warn)
    assert len(found) == 1  # both stand at one line


def test_functions_kept_in_the_graph_warn_each_time():
    @weft.compiler.allow_in_graph
    def twice(x):
        warnings.warn("of the user's", stacklevel=1)
        return x * 2

    compiled = weft.compile(lambda x: twice(x + 1).sum(), backend="aot_eager", fullgraph=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="of the user's") as found:
            compiled(weft.ones(3, requires_grad=True)).backward()
        assert len(found) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_what_a_graph_has_warned_of_is_not_said_again_where_it_fails(backend):
    def function(x, y, index):
        for _ in range(2):
            y[index] = 2
        x.var()
        return x, y.neg_()

    def caught(x, y, index):
        try:
            return function(x, y, index)
        except RuntimeError:
            return function(x, y, index)

    def told(call):
        index = weft.tensor([0, 1])
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for y in (weft.ones(3), weft.ones(1).expand(3), weft.ones(1).expand(3)):
                try:
                    call(weft.ones(1), y, index)
                except RuntimeError as error:
                    assert "more than one element" in str(error)
                found.append(None)
        return [one and (one.lineno, str(one.message)) for one in found]

    for each in (function, caught):
        compiled = weft.compile(each, backend=backend)
        assert told(compiled) == told(each)
