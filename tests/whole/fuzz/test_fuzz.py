"""Random programs do the same compiled as uncompiled; and the fuzzer finds what it is meant to find.

The campaign is `python -m tests.whole.fuzz --count 20000 --seed 1 --jobs 2`; here are a short run with
fixed seeds and tests of the fuzzer itself, on compile functions that are wrong on purpose.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

import pytest

import weft
from tests.whole.fuzz import campaign
from tests.whole.fuzz.compare import FILE, Difference, agree, compare, compiled, execute, identity
from tests.whole.fuzz.generator import program
from tests.whole.fuzz.mutants import MUTANTS, TAPE_MUTANTS
from tests.whole.fuzz.native_programs import TABLES, Maker
from tests.whole.fuzz.native_tables import BINARY, PREAMBLE
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


ENDS = """\
import weft
OPTIONS = {'backend': 'aot_eager'}
W = weft.tensor(0.5, requires_grad=True)
class Odd(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g, g
def main(x):
    made = W.sin()
    made.sum().backward(%s)
    return made * W, Odd.apply(x)
def after(result, *args):
    sum(t.sum() for t in result).backward()
def arguments():
    yield ((weft.ones(3, requires_grad=True),), {})
"""


def saying(text):
    """Results whose sweep says so first."""

    def compile_function(function):
        def run(*args):
            made, other = function(*args)

            def told(grad):
                raise RuntimeError(text)

            other.register_hook(told)
            return made, other

        return run

    return compile_function


def test_which_of_two_errors_a_sweep_comes_to_first_is_open_where_both_are():
    spent = "Trying to backward through the graph a second time"
    assert compare(ENDS % "", saying(spent)) is None
    found = compare(ENDS % "", saying("something else"))
    assert found is not None and found.kind.startswith("after: exception's facts something else")
    found = compare(ENDS % "retain_graph=True", saying(spent))
    assert found is not None and found.kind.startswith("after: exception's facts Trying to backward")


def test_strides_count_but_those_of_axes_with_one_element():
    def restrided(*strides):
        return lambda function: lambda: function().as_strided((2, 1, 3), strides)

    source = "import weft\ndef main():\n    return weft.ones(12)[:6].reshape(2, 1, 3)\ndef arguments():\n"
    source += "    yield (), {}\n"
    assert compare(source, restrided(3, 1, 1)) is None
    found = compare(source, restrided(3, 3, 2))
    assert found is not None and "strides" in found.detail


@pytest.mark.parametrize("write", ["x1.exp_()", "x2[1:].exp_()"])
def test_what_calls_may_pass_as_one_tensor_is_written_as_one(write, monkeypatch):
    maker = Maker(0)
    maker.sizes = [3]
    for number in range(1, 4):
        maker.names[f"x{number}"] = weft.ones(3)
        maker.values.append(f"x{number}")
    maker.exact.update(maker.values)
    maker.given.update(maker.values)
    monkeypatch.setattr(maker, "some", lambda *_args: write[:2])
    monkeypatch.setattr(maker, "filled", lambda *_args: write)
    monkeypatch.setattr(maker.chance, "random", lambda: 1.0)
    maker.write()
    assert maker.lines == [write]
    assert maker.exact == {"x3"}


ASKED = [table for table, _, exact in TABLES if not exact and table[0] in BINARY]


@pytest.mark.parametrize("text", sorted({text for table in ASKED for text in table}))
def test_values_that_are_not_exact_are_asked_no_questions_whose_answer_jumps(text):
    """What differs by rounding gives what differs by little, also where operands are equal or zero."""
    names = {}
    exec(PREAMBLE, names)
    names["m"] = weft.tensor([True, False, True, False])
    for hole, name in {"@": "a", "$near": "b", "$same": "b", "$mask": "m", "$small": "2"}.items():
        text = text.replace(hole, name)
    given = weft.tensor([-1.5, 0.0, 0.0, 2.0], dtype=weft.float64)
    noise = weft.tensor([1.0, 1.0, -1.0, -1.0], dtype=weft.float64) * 1e-12
    first, *others = [
        eval(text, names | {"a": given + e, "b": given - e}).double() for e in (noise, -noise, noise * 0)
    ]
    assert all(weft.allclose(first, other, atol=1e-9) for other in others)


ROUNDING = """\
import weft
OPTIONS = {{'backend': 'native'}}
def main(x):
    return weft.nn.functional.normalize((x.softmax(-1).log() - x.log_softmax(-1)).sum(), dim=0{eps})
def after(result, *args):
    pass
def arguments():
    yield ((weft.arange(60.0, dtype=weft.float64).cos().reshape(4, 15),), {{}})
"""


def test_numbers_that_are_rounding_are_no_difference() -> None:
    """The norm of what is zero but for rounding: the number of eager code follows from last bits."""

    def shifted(function: Any) -> Any:
        return lambda *args: compiled(function)(*args) + 1e-3

    assert campaign.difference_of(ROUNDING.format(eps=""), shifted) is None
    found = campaign.difference_of(ROUNDING.format(eps=", eps=1"), shifted)
    assert found is not None and found.kind == "result: numbers"
