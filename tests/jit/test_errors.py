"""Mistakes in scripted code: what is said, and where it points."""

# ruff: noqa: UP006, UP035, UP045, B007
from typing import List, Optional

import pytest

import weft


def wrong_operand(x):
    return x + "a"


def undefined(x):
    return nowhere(x)  # noqa: F821


def no_method(x):
    return x.no_such_method(1)


def one_branch(x, n: int):
    if n > 1:
        y = x
    return y


def changed_type(x, n: int):
    y = 3
    if n > 2:
        y = "a"
    return y


def wrong_list(x):
    return weft.cat(x)


def wrong_return(x) -> int:
    return x


def optional_used(x: Optional[int]):
    return x + 1


def wrong_append(x):
    a: List[int] = []
    a.append(x)
    return a


def not_iterable(n: int):
    for i in n:
        pass
    return n


def lambda_inside(x):
    return (lambda y: y)(x)


def different_returns(x, n: int):
    if n > 1:
        return x
    return n


def bad_condition(x: List[int]):
    if x:
        return 1
    return 2


def helper_with_mistake(x):
    return x.nothing_here()


def calls_mistake(x):
    return helper_with_mistake(x)


def wrong_argument(x):
    return helper(x, "two")


def helper(x, n: int):
    return x * n


CASES = [
    (wrong_operand, "Arguments for call are not valid"),
    (undefined, "undefined value nowhere"),
    (no_method, "object has no attribute or method 'no_such_method'"),
    (one_branch, "y is not defined in the false branch"),
    (changed_type, "Variable 'y' previously had type int but is now being assigned to a value of type str"),
    (wrong_list, r"Expected a value of type 'List\[Tensor\]' for argument 'tensors'"),
    (wrong_return, "Return value was annotated as having type int but is actually of type Tensor"),
    (optional_used, "Arguments for call are not valid"),
    (wrong_append, "previously matched to type int"),
    (not_iterable, "'int' object is not iterable"),
    (lambda_inside, "Lambda"),
    (different_returns, "Previous return statement returned a value of type Tensor"),
    (bad_condition, "Could not cast value of type List"),
    (calls_mistake, "no attribute or method 'nothing_here'"),
    (wrong_argument, "Expected a value of type 'int' for argument 'n' but instead found type 'str'"),
]


@pytest.mark.parametrize("function, words", CASES, ids=[f.__name__ for f, _ in CASES])
def test_mistake_is_told_at_its_line(function, words):
    with pytest.raises(RuntimeError, match=words) as found:
        weft.jit.script(function)
    text = str(found.value)
    assert "~ <--- HERE" in text and "test_errors.py" in text


def test_failing_programs_raise_jit_errors():
    @weft.jit.script
    def positive(n: int):
        assert n > 0, f"found {n}"
        if n > 10:
            raise ValueError("too large")
        return n

    assert positive(3) == 3
    with pytest.raises(weft.jit.Error, match="AssertionError: found -1"):
        positive(-1)
    with pytest.raises(RuntimeError, match="too large"):
        positive(11)


def test_arguments_from_python_are_checked():
    scripted = weft.jit.script(helper)
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'n'"):
        scripted(weft.ones(1), "a")
    with pytest.raises(RuntimeError, match="missing value for argument 'n'"):
        scripted(weft.ones(1))
    with pytest.raises(RuntimeError, match="expected at most 2 argument"):
        scripted(weft.ones(1), 1, 2)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'q'"):
        scripted(weft.ones(1), 1, q=2)


def test_recursion_is_refused():
    def factorial(n: int) -> int:
        if n < 2:
            return 1
        return n * factorial(n - 1)

    with pytest.raises(RuntimeError, match="recursive"):
        weft.jit.script(factorial)
