"""Random programs do the same compiled as uncompiled; and the fuzzer finds what it is meant to find.

The campaign is `python -m tests.whole.fuzz --count 20000 --seed 1 --jobs 2`; here are a short run with
fixed seeds and tests of the fuzzer itself, on compile functions that are wrong on purpose.
"""

from __future__ import annotations

import ast
import warnings

import pytest

from tests.whole.fuzz.compare import FILE, Difference, agree, compare, compiled, execute, identity
from tests.whole.fuzz.generator import program
from tests.whole.fuzz.mutants import MUTANTS, TAPE_MUTANTS
from tests.whole.fuzz.shrink import shrink
from tests.whole.fuzz.tape_programs import program as tape_program
from weft.compiler import counters

CHUNK = 25


@pytest.mark.parametrize("first", range(0, 150, CHUNK))
def test_random_programs_agree(first):
    counters.clear()
    for seed in range(first, first + CHUNK):
        agree(program(seed), compiled)
    assert counters["stats"]["unique_graphs"] > CHUNK  # a compiler that gives up agrees with everything


def test_a_seed_is_a_program():
    assert program(7) == program(7) != program(8)


def test_programs_repeat_themselves():
    """Nothing in a program depends on what ran before it: uncompiled, it does the same twice."""
    for seed in range(1000, 1060):
        agree(program(seed), identity)


def test_most_calls_return():
    """Programs that raise early test little after that."""
    counts = {"returned": 0, "raised": 0, "no call": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(60):
            for call in execute(compile(program(seed), FILE, "exec"), identity).calls[:-1]:
                counts[call[0][0]] += 1
    assert counts["returned"] > 2 * counts["raised"] > 10
    assert counts["no call"] < 5


CHAINED = """\
def main(x):
    try:
        return [x][1]
    except IndexError:
        raise KeyError(x)

def arguments():
    yield ((1,), {})
"""
"""What random programs do not do: they catch what they raise while they handle another error."""


@pytest.fixture(scope="module")
def programs():
    return [*[program(seed) for seed in range(300)], CHAINED]


@pytest.mark.parametrize("name", MUTANTS)
def test_finds_a_compile_that(name, programs):
    assert any(compare(source, MUTANTS[name]) for source in programs)


# -- programs that differentiate ---------------------------------------------------
@pytest.mark.parametrize("first", range(50_000, 50_000 + 120, CHUNK))
def test_random_differentiating_programs_agree(first):
    counters.clear()
    for seed in range(first, first + CHUNK):
        agree(tape_program(seed), compiled)
    assert counters["stats"]["unique_graphs"] > CHUNK


def test_a_seed_is_a_differentiating_program():
    assert tape_program(7) == tape_program(7) != tape_program(8)
    assert "'eager'" in tape_program(8) and "'aot_eager'" in tape_program(7)


def test_differentiating_programs_repeat_themselves():
    for seed in range(1000, 1060):
        agree(tape_program(seed), identity)


def test_most_differentiating_programs_are_valid():
    """Seven in ten run to their end without an error, in `main` or after it."""
    valid = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(100):
            calls = execute(compile(tape_program(seed), FILE, "exec"), identity).calls
            valid += all(call[0][0] == "returned" and call[-1][0][0] == "returned" for call in calls)
    assert 65 <= valid <= 95


@pytest.mark.parametrize("name", TAPE_MUTANTS)
def test_finds_a_differentiation_that(name):
    assert any(compare(tape_program(seed), TAPE_MUTANTS[name]) for seed in range(60))


SMALL = """\
import weft
LOG = []
COUNT = 0
def main(items, n):
    {body}
def arguments():
    items = [3, 1]
    yield (items, 2), {{}}
    yield (items, 3), {{}}
"""


def small(body: str) -> str:
    return SMALL.format(body=body)


def kind_of(body: str, mutant: str) -> str:
    found = compare(small(body), MUTANTS[mutant])
    assert isinstance(found, Difference)
    return found.kind


def test_kinds_tell_what_is_wrong():
    assert kind_of("items.append(n)", "drops_argument_effects") == "arguments"
    assert kind_of("LOG.append(n)", "repeats_effects") == "globals"
    assert kind_of("return n", "widens_ints") == "result"
    assert kind_of("return items[5]", "loses_exceptions").startswith("exception lost: IndexError")
    assert kind_of("print(n)", "swallows_output") == "stdout"
    assert kind_of("return n", "forgets_guards") == "result"


def test_the_same_object_is_not_an_equal_one():
    assert kind_of("return items", "copies_lists") == "arguments"
    assert kind_of("t = weft.ones(3); LOG.append(t); return t", "copies_tensors") == "globals"
    assert compare(small("return [1]"), MUTANTS["copies_lists"]) is None


def test_a_view_is_not_a_copy():
    body = "t = weft.ones(2, 3); LOG.append(t); return t[0]"
    found = compare(small(body), MUTANTS["copies_tensors"])
    assert found is not None and "storage" in found.detail


def test_rows_that_repeat_lie_where_they_lie_but_for_gradients_of_sweeps_outside():
    source = """\
import weft
OPTIONS = {'backend': 'aot_eager'}
HERE = %s
def main(x):
    return (x.sum(0).sin(), weft.ones(3).expand(2, 3) if HERE else None)
def after(result, *args):
    made, = weft.autograd.grad(result[0].sum(), args)
    return made if run is main else made + 0
def arguments():
    yield ((weft.ones(2, 3, requires_grad=True),), {})
"""

    def whole(function):
        return lambda *args: tuple([t if t is None else t.contiguous() for t in function(*args)])

    assert compare(source % "False", whole) is None
    found = compare(source % "True", whole)
    assert found is not None and found.kind == "result: strides"


def test_cells_are_shared_or_not():
    body = "def step(k):\n        nonlocal n\n        n += k\n        return n\n    return step, lambda: n"
    assert kind_of(body, "unshares_cells") == "result"


def test_dict_order_is_seen():
    assert kind_of("return {'b': n, 'a': 1}", "reorders_dicts") == "result"


def test_lines_of_exceptions_are_seen():
    def moved(function):
        def run(*args):
            return function.__globals__["items_of"](*args)

        return run

    source = small("return items[5]") + "def items_of(items, n):\n    return items[5]\n"
    found = compare(source, moved)
    assert found is not None and found.kind == "exception's line"


def test_programs_that_hang_when_compiled():
    def endless(function):
        def run(*args):
            while True:
                pass

        return run

    found = compare(small("return n"), endless, seconds=0.2)
    assert found is not None and found.kind == "too long"


def test_shrinks_to_the_statement_that_matters():
    mutant = MUTANTS["swallows_output"]
    source = next(text for text in map(program, range(300)) if compare(text, mutant))

    def fails(text):
        try:
            found = compare(text, mutant)
        except Exception:
            return False
        return found is not None and found.kind == "stdout"

    text = shrink(source, fails, seconds=10)
    assert fails(text)
    assert "print(" in text
    assert sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text))) <= 8
