"""Numbers that only running can tell, in all that code may do with them: compiled as it is.

Each program is called with several tensors, plain and compiled, by both backends; what it gives, raises, logs
and draws must be equal, however often it breaks.
"""

# ruff: noqa: B009, C416, C417, E711, UP031

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import math
import operator
import statistics
import sys
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.committing import BACKENDS, observe
from tests.capture.features.harness import everything_strict
from tests.whole.fuzz.snapshot import difference
from weft import nn

LOG: list[Any] = []


@dataclasses.dataclass
class Pair:
    a: float
    b: object = None


class Meter:
    total = 0.0

    def __init__(self):
        self.n = 0

    def add(self, v, k=2):
        self.n += 1
        self.total += v * k
        return self


PROGRAMS: dict[str, Any] = {}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


@program
def least_and_most(x: Any):
    return min(x.sum().item(), 3), max(x[0].item(), x[1].item(), 0.5)


@program
def rounded(x: Any):
    return (
        round(x.sum().item(), 2),
        round(x.sum().item()),
        int(x.sum().item()),
        math.floor(x.sum().item()),
        math.ceil(x[0].item()),
    )


@program
def among_others(x: Any):
    return (
        x.sum().item() in (1, 6.0),
        x[0].item() in [1.0],
        1.0 in [x[0].item()],
        [1.0, 2.0].index(x[1].item()),
    )


@program
def sorted_and_summed(x: Any):
    return sorted([v.item() for v in x]), sum([v.item() for v in x]), sum(v.item() for v in x)


@program
def as_keys(x: Any):
    return {x[0].item(): x + 1}, {x[0].item(), 2.0}


@program
def as_text(x: Any):
    return f"{x.sum().item():.2f}", "%s" % x.sum().item(), str(x[0].item()), repr(x[0].item())


@program
def compared_to_itself(x: Any):
    return x * 2 if x.sum().item() == x.sum().item() else x


@program
def asked_for_their_class(x: Any):
    return (
        isinstance(x.sum().item(), float),
        type(x.sum().item()),
        type(x.sum().item()) is float,
        x.sum().item().is_integer(),
        callable(x[0].item()),
    )


@program
def handed_to_the_library(x: Any):
    return json.dumps([x.sum().item()]), statistics.mean([x[0].item(), x[1].item()])


@program
def as_truths(x: Any):
    return (x[0].item() and x[1]), (x[0].item() or 3)


@program
def in_a_loop_condition(x: Any):
    n = 0
    while x.sum().item() < 50:
        x = x * 2
        n += 1
    return x, n


@program
def truths_as_numbers(x: Any):
    return (
        (x > 1).any().item() + 1,
        int((x > 1).all().item()),
        (x > 1).any().item() is True,
        not (x > 100).any().item(),
    )


@program
def in_new_tensors(x: Any):
    return (
        weft.tensor([x[0].item(), x[1].item()]),
        weft.full((2,), x[0].item()),
        weft.tensor(x[1].item()),
        weft.as_tensor(x[1].item()),
    )


@program
def in_arithmetic(x: Any):
    return (
        x.clamp(max=x[1].item()),
        x ** x[0].item(),
        x[1].item() ** 2,
        2 ** x[1].item(),
        -x[0].item(),
        abs(x[0].item()),
        divmod(x[1].item(), 2),
        x[1].item() // 1.5,
        x[2].item() % 2,
        x[2].item() / x[1].item(),
    )


@program
def as_sizes(x: Any):
    return (
        x[int(x[0].item())],
        weft.zeros(int(x[1].item())),
        [i for i in range(int(x[1].item()))],
        x[: int(x[1].item())],
    )


@program
def across_a_break(x: Any):
    v = x.sum().item()
    weft.compiler.graph_break()
    return x * v, v


@program
def in_objects(x: Any):
    m = Meter().add(x.sum().item(), k=3)
    LOG.append(m.total)
    return m.total, m.n


@program
def in_closures(x: Any):
    v = x.sum().item()

    def inner(y):
        return y * v

    return inner(x), Pair(v, [v, v + 1])


@program
def in_generators(x: Any):
    def gen():
        for row in x:
            yield row.item()

    return list(gen()), next(gen())


@program
def in_a_loop(x: Any):
    total = 0
    for row in x:
        total += row.item()
        if total > 3:
            break
    return total


@program
def in_arrays(x: Any):
    return np.float32(x[0].item()), np.array([x[0].item()]), np.sqrt(x[1].item())


@program
def of_whole_numbers(x: Any):
    return (
        x.to(weft.int64)[1].item(),
        x.to(weft.int64).sum().item() + 1,
        x.to(weft.int64)[1].item() * x,
        x + x.to(weft.uint8)[2].item(),
    )


@program
def of_complex_numbers(x: Any):
    return weft.complex(x, x)[0].item(), complex(x[0].item()), complex(x[0])


@program
def by_conversions(x: Any):
    return float(x[0]), int(x[1]), bool(x[0]), bool(x[0] - 1), not x[0], float(x.sum() > 2)


@program
def by_mathematics(x: Any):
    return (
        math.sqrt(x[1].item()),
        math.log(x[2].item()),
        math.isnan(x[0].item()),
        math.hypot(x[0].item(), x[1].item()),
        math.exp(x[0].item()),
    )


@program
def errors_of_mathematics(x: Any):
    try:
        return math.log(x[0].item() - 100)
    except ValueError as e:
        return str(e)


@program
def errors_of_divisions(x: Any):
    try:
        return 1 / (x[0].item() - x[0].item())
    except ZeroDivisionError as e:
        return str(e), x + 1


@program
def printed(x: Any):
    print(x.sum().item(), file=sys.stderr)
    return x + 1


@program
def by_comparisons(x: Any):
    return weft.equal(x, x), weft.allclose(x, x + 1), x.equal(x * 1), (x + 1).allclose(x)


@program
def branches_on_comparisons(x: Any):
    return x + 1 if weft.equal(x, x.flip(0)) else x - 1


@program
def in_containers(x: Any):
    v = x.sum().item()
    v += 1
    v *= 2
    lst = [v] * 3
    lst[1] = v - 1
    return lst, tuple(lst), {"v": v}, lst[-1] > 3, lst[0] == lst[2]


@program
def branches_with_effects(x: Any):
    best = getattr(Meter, "total")
    v = x.sum().item()
    if v > best:
        LOG.append(("best", v))
    return best


@program
def folded(x: Any):
    return (
        functools.reduce(operator.add, [r.item() for r in x]),
        list(itertools.accumulate([r.item() for r in x])),
        list(map(lambda r: r.item() * 2, x)),
    )


@program
def as_options(x: Any):
    return (
        nn.functional.dropout(x, p=0.0 * x[0].item()),
        nn.functional.leaky_relu(x, x[0].item()),
        weft.add(x, 1, alpha=x[1].item()),
        x.mul(x[1].item()).add_(x[0].item()),
    )


@program
def as_places(x: Any):
    return (
        x.argmax().item(),
        x.argmax().item() == 2,
        x[x.argmax().item()],
        x.argmax().item() + x.shape[0],
        (x.shape[0] > x.argmax().item()),
    )


@program
def as_arguments(x: Any):
    return (
        [x.sum().item()][0],
        (lambda v: v + 1)(x.sum().item()),
        (lambda *a, **k: (a, k))(x[0].item(), z=x[1].item()),
    )


@program
def written_into_tensors(x: Any):
    y = weft.zeros(3)
    y[0] = x[0].item()
    y[1:] = x[1].item()
    y.fill_(x[2].item())
    return y


@program
def read_twice(x: Any):
    a = x[0].item()
    b = x[0].item()
    return a is b, a == b, a


@program
def as_limits(x: Any):
    return (
        weft.where(x > x.mean().item(), x, x.min().item()),
        weft.linspace(0, x[2].item(), 3),
        weft.arange(0, x[2].item()),
    )


@program
def read_in_modes(x: Any):
    with weft.no_grad():
        v = x.sum().item()
    return v * x


@program
def of_one_or_many(x: Any):
    return x[0].item() if x.shape[0] == 3 else 0, x.tolist()[0], x[0].tolist()


@program
def in_chained_comparisons(x: Any):
    return x.std().item() < 2 < x.sum().item(), 0 < x[0].item() <= 1


@program
def of_known_tensors(x: Any):
    s = weft.tensor(3.0)
    return s.item() * 2, weft.tensor(5).item(), bool(weft.tensor(0))


@program
def by_methods(x: Any):
    return (
        x.sum().item().__add__(1),
        x.sum().item().hex(),
        float.__add__(x[0].item(), 2.0),
        x[0].item().real,
        x[0].item().as_integer_ratio(),
    )


@program
def matched(x: Any):
    match x[0].item():
        case 1.0:
            return x + 1
        case _:
            return x


@program
def as_lengths(x: Any):
    return (
        weft.Size([int(x[1].item())]),
        [0] * int(x[1].item()),
        "a" * int(x[1].item()),
        bytes(int(x[1].item())),
    )


@program
def beside_other_classes(x: Any):
    return (
        x.sum().item() == "a",
        x.sum().item() is None,
        x.sum().item() != None,
        x[0].item() < x[1],
        x[1] > x[0].item(),
    )


@program
def beside_arrays(x: Any):
    return np.asarray(x)[0], x.numpy() + x[0].item()


@program
def in_other_containers(x: Any):
    return (
        (x[0].item(), x),
        [x, x[0].item()].count(1.0),
        collections.Counter([x[0].item()]),
        collections.deque([x[0].item()], 2),
    )


@program
def by_evaluation(x: Any):
    return eval("x[0].item() + 1"), x.sum().item().conjugate()


@program
def by_bits(x: Any):
    return (
        (x > 1).sum().item() & 1,
        (x > 1).sum().item() | 4,
        ~(x > 1).sum().item(),
        (x > 1).sum().item() << 2,
        (x > 1).any().item() & True,
        (x > 1).any().item() ^ (x > 2).any().item(),
    )


@program
def beside_random_numbers(x: Any):
    return weft.rand(3) * x[0].item(), x.sum().item()


@program
def of_narrow_floats(x: Any):
    return x.half().sum().item(), x.double()[0].item(), x.bfloat16()[1].item() * 3


@program
def with_digits(x: Any):
    return (
        round(x[1].item(), int(x[0].item())),
        pow(x[1].item(), 2),
        pow(2, int(x[1].item())),
        math.gcd(int(x[1].item()), 4),
    )


VALUES = ([1.0, 2, 3], [1.0, 2, 3], [2.0, 1.5, 3.25], [0.0, -1, 4], [math.nan, 1, math.inf])


def side(function: Any) -> list[Any]:
    LOG.clear()
    weft.manual_seed(1)
    made = [lambda v=v: (weft.tensor(v),) for v in VALUES]
    return [observe(function, make, lambda: (list(LOG), weft.get_rng_state()), None) for make in made]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str) -> None:
    function = PROGRAMS[name]
    for backend in BACKENDS:
        with everything_strict():
            expected = side(function)
            actual = side(weft.compile(function, backend=backend))
        for number, (left, right) in enumerate(zip(expected, actual)):
            found = difference(left, right)
            assert found is None, f"{backend}, call {number}: {found}"
