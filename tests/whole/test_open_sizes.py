"""Open sizes, natively: a template serves them, with the values, layouts and bits of programs of one size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.core.counters import built
from weft.core.expressions import Expression, in_order
from weft.core.settings import settings as options
from weft.native.ir.sizes import ORDERS, Sizes
from weft.native.program.template import Template
from weft.nn import functional as F

SIZES = (5, 7, 4, 64, 3, 200, 2, 1, 0, 2000)
Function = Callable[[Any], Any]
PROGRAMS: dict[str, Function] = {
    "sum": lambda x: (x * 2).sum(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(0),
    "tanh": lambda x: x.tanh(),
    "matmul": lambda x: x @ weft.ones(4, 3),
    "gram": lambda x: x.t() @ x,
    "outer gram": lambda x: (x @ x.t()).tril(),
    "sum of rows": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "softmax": lambda x: weft.softmax(x, -1),
    "log_softmax": lambda x: weft.log_softmax(x, 0),
    "size as a number": lambda x: x / x.shape[0] + x.shape[0] ** 2,
    "expand": lambda x: weft.ones(()).expand(x.shape[0], 1) * x,
    "flatten": lambda x: x.flatten() * 2,
    "view": lambda x: x.view(-1, 2).sum(1),
    "inner slice": lambda x: x[:-1].exp(),
    "last": lambda x: x[-1:] * 2,
    "cat": lambda x: weft.cat([x, x * 2], 0),
    "stack": lambda x: weft.stack([x, x + 1], 1),
    "transposed": lambda x: x.t().contiguous(),
    "transposed result": lambda x: x.t() * 2,
    "cumsum": lambda x: x.cumsum(0),
    "arange": lambda x: weft.arange(x.shape[0]) * 1.5,
    "full": lambda x: weft.full((x.shape[0],), 2.0) + x[:, 0],
    "linear": lambda x: F.linear(x, weft.ones(3, 4), weft.ones(3)),
    "gather": lambda x: x[weft.arange(x.shape[0] - 1, -1, -1)],
    "cross_entropy": lambda x: F.cross_entropy(x, weft.arange(x.shape[0]) % 4),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "pad": lambda x: F.pad(x, (1, 1)),
    "repeat": lambda x: x.repeat(2, 3),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=x.shape[0] > 1),
    "bmm": lambda x: weft.bmm(x[:, :, None], x[:, None, :]),
    "where": lambda x: weft.where(x > 0, x, 0.0),
    "index_add": lambda x: weft.zeros(4, 4).index_add(0, weft.arange(x.shape[0]) % 4, x),
    "unsqueezed": lambda x: x.unsqueeze(1).expand(-1, 3, -1).sum(2),
    "split": lambda x: x.split(2, 1)[1] * 2,
    "norm": lambda x: x.norm(),
    "max": lambda x: x.max(1)[0],
    "argmax": lambda x: x.argmax(1),
    "clamp": lambda x: x.clamp(-1, 1),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "embedding": lambda x: F.embedding(weft.arange(x.shape[0]) % 4, weft.ones(4, 4)),
    "conv1d": lambda x: F.conv1d(x[:, None, :], weft.ones(2, 1, 3)),
    "max_pool1d": lambda x: F.max_pool1d(x[:, None, :], 2),
    "scatter": lambda x: weft.zeros(x.shape[0], 6).scatter(1, (x > 0).long(), x[:, :4]),
    "random": lambda x: (weft.manual_seed(3), x + weft.rand(x.shape[0], 4))[1],
    "dropout": lambda x: (weft.manual_seed(3), F.dropout(x, 0.5))[1],
}
TINY = re.compile(r"\(.*\) <= (40|160)|\(?.*\)? >= 40")
"""A product whose rows take so few multiplications is a fold, which other kernels may hold: where both of its
sizes are open, it is another plan, and its sums have another order, so that bits would differ, too."""
HUGE = re.compile(r".* >= 4194304\).*")
"""What is 64 times less than what is worth packing has a plan without room for it."""
SPLITS = {"gram": (TINY,), "outer gram": (TINY, HUGE), "attention": (TINY, HUGE)}
"""Why there may be further templates, but for sizes of 0 and 1, how strides are ordered, and of which class
they are: products of two open sizes."""
MORE = {"gram": 2, "outer gram": 3, "attention": 4, "inner slice": 2}
"""Templates of a forward or a backward of those, and of a length that passes 1; all others take one."""


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> list[Template]:
    found: list[Template] = []
    before = Template.__init__

    def noted(self: Template, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(options, "strict", True)
    monkeypatch.setattr(Template, "__init__", noted)
    weft.compiler.reset()
    return found


def outcome(function: Function, x: Any) -> Any:
    """What a function gives, or raises."""
    try:
        return function(x)
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error), str(error)


def weighted(value: Any) -> Any:
    return (value * weft.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape)).sum()


def same(found: Any, wanted: Any, **tolerance: float) -> None:
    if isinstance(wanted, tuple):
        assert found == wanted
        return
    weft.testing.assert_close(found, wanted, equal_nan=True, **tolerance)
    if wanted.numel():
        assert found.stride() == wanted.stride()


def is_of_one(condition: Expression) -> bool:
    """Whether a condition says of a size whether it is 0, 1 or more, or of which sign."""
    if condition.op not in ORDERS | {"eq", "ne"} or condition.args[1].op != "constant":
        return False
    plain = {each.op for each in in_order([condition.args[0]])} <= {"symbol", "constant", "add", "sub", "mul"}
    return plain and condition.args[1].args[0] in (0, 1, 2)


def assert_splits(name: str, templates: list[Template]) -> None:
    """That templates are for other sizes for no reasons but these."""
    for each in templates:
        for condition in each.conditions:
            explained = any(reason.fullmatch(repr(condition)) for reason in SPLITS.get(name, ()))
            assert explained or is_of_one(condition), condition


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_layouts_and_errors_are_eagers(name: str, templates: list[Template]) -> None:
    function = PROGRAMS[name]
    compiled = weft.compile(function)
    for size in SIZES:
        if size < 2 and name in ("var", "std"):  # which warn
            continue
        x = weft.randn(size, 4, generator=weft.Generator().manual_seed(size))
        same(outcome(compiled, x), outcome(function, x), rtol=1e-4, atol=1e-5)
    assert 0 < len(templates) <= MORE.get(name, 1)
    assert_splits(name, templates)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("arange", "argmax", "embedding")])
def test_gradients_outside(name: str, templates: list[Template]) -> None:
    function = PROGRAMS[name]
    compiled = weft.compile(function)
    for size in (5, 7, 4, 64, 3, 2):
        x = weft.randn(size, 4, dtype=weft.float64, generator=weft.Generator().manual_seed(size))
        if name in ("linear", "matmul", "conv1d", "index_add", "embedding", "scatter"):
            x = x.float()
        one, other = (x.clone().requires_grad_() for _ in range(2))
        weighted(compiled(one)).backward()
        weighted(function(other)).backward()
        same(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert 0 < len(templates) <= 2 * MORE.get(name, 1)
    assert_splits(name, templates)


@pytest.fixture
def pool_of() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads, until a test ends."""
    before = weft.get_num_threads()
    yield weft.set_num_threads
    weft.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_programs_of_one_size(
    name: str, threads: int, templates: list[Template], pool_of: Callable[[int], None]
) -> None:
    function = PROGRAMS[name]
    pool_of(threads)
    compiled = weft.compile(function)
    sizes = (5, 7, 64, 130) if name in ("outer gram", "attention") else (5, 7, 64, 130, 40000)
    for size in sizes:
        x = weft.randn(size, 4)
        alone = weft.compile(lambda x, function=function: function(x), dynamic=False)
        same(compiled(x), alone(x), rtol=0, atol=0)
    assert templates


OVER_ALL: dict[str, Function] = {
    "of a broadcast": lambda x: (x * x[:, :1]).sum(),
    "beside sums of rows": lambda x: (x.sum(), x.sum(1)),
    "of what is a result, too": lambda x: ((y := x * x[:1]), y.mean()),
    "of a flat broadcast": lambda x: (x * x[:, :1]).flatten().sum(),
    "read again": lambda x: (x - x[:, :1]) / (x - x[:, :1]).norm(),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", OVER_ALL)
def test_sums_over_all_have_one_order(
    name: str, threads: int, templates: list[Template], pool_of: Callable[[int], None]
) -> None:
    """However many chunks there are, and whatever else a kernel computes."""
    function = OVER_ALL[name]
    compiled = weft.compile(function, dynamic=True)
    pool_of(threads)
    for rows, columns in ((64, 40), (3, 40), (500, 300), (500, 5), (9, 7), (1000, 40)):
        x = weft.randn(rows, columns, generator=weft.Generator().manual_seed(rows))
        alone = weft.compile(lambda x: function(x), dynamic=False)
        found, wanted = ([*weft.utils._pytree.tree_leaves(each(x))] for each in (compiled, alone))
        for one, other in zip(found, wanted, strict=True):
            same(one, other, rtol=0, atol=0)
    assert len(templates) == 1


def test_a_whole_step_over_many_batch_sizes(templates: list[Template]) -> None:
    def training() -> Callable[[Any, Any], Any]:
        weft.manual_seed(0)
        net = weft.nn.Sequential(weft.nn.Linear(4, 32), weft.nn.Tanh(), weft.nn.Linear(32, 3))
        optimizer = weft.optim.AdamW(net.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, compiled = training(), weft.compile(training(), fullgraph=True)
    for size in (16, 8, *range(2, 100, 7), 300):
        x, y = weft.randn(size, 4), weft.randint(0, 3, (size,))
        weft.testing.assert_close(compiled(x, y), eager(x, y), rtol=1e-4, atol=1e-5)
    assert len(templates) <= 2


def test_gradients_of_weights_have_one_template(templates: list[Template]) -> None:
    """However few rows there are."""
    compiled = weft.compile(lambda x, w: (x @ w).t() @ x)
    w = weft.randn(4, 2)
    for size in (20, 9, 2, 3, 64, 400):
        x = weft.randn(size, 4)
        weft.compiler.mark_dynamic(x, 0)
        alone = weft.compile(lambda x, w: (x @ w).t() @ x, dynamic=False)
        same(compiled(x, w), alone(x.clone(), w), rtol=0, atol=0)
    assert len(templates) == 1


WIDE: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "products of few rows and many": (lambda x, w: x @ w.t(), (330, 400, 5, 64, 260, 17)),
    "sums of products": (lambda x, w: ((x @ w.t()).tanh() @ w).t() @ x + (x * 2).t() @ x, (16, 50, 70, 300)),
}


@pytest.mark.parametrize("name", WIDE)
def test_sizes_do_not_decide_how_products_are_done(name: str, templates: list[Template]) -> None:
    """What is copied or joined for them is no reason for another template."""
    function, sizes = WIDE[name]
    compiled, w = weft.compile(function), weft.randn(48, 48)
    for size in sizes:
        x = weft.randn(size, 48)
        alone = weft.compile(lambda x, w: function(x, w), dynamic=False)
        same(compiled(x, w), alone(x, w), rtol=0, atol=0)
        same(compiled(x, w), function(x, w), rtol=1e-3, atol=1e-3)
    assert len(templates) == 1


@given(sizes=st.lists(st.tuples(st.integers(2, 9), st.integers(2, 9)), min_size=2, max_size=5))
@settings(max_examples=15, deadline=None)
def test_two_open_sizes(sizes: list[tuple[int, int]]) -> None:
    def function(x: Any, w: Any) -> Any:
        y = weft.softmax(x @ w, -1)
        return (y.transpose(0, 1) @ x + y.sum()).reshape(-1), y.shape[0] * y.shape[1], y[:, 1:].mean(0)

    compiled = weft.compile(function)
    for rows, columns in ((3, 5), *sizes):
        x, w = weft.randn(rows, columns), weft.randn(columns, rows)
        found, wanted = compiled(x, w), function(x, w)
        assert found[1] == wanted[1]
        for one, other in ((found[0], wanted[0]), (found[2], wanted[2])):
            weft.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_inputs_that_lie_otherwise(templates: list[Template]) -> None:
    compiled = weft.compile(PROGRAMS["softmax"])
    for size in (5, 7, 9):
        for x in (weft.randn(size, 4), weft.randn(4, size).t(), weft.randn(size, 8)[:, ::2]):
            same(compiled(x), PROGRAMS["softmax"](x))
    assert len(templates) <= 3


LAYOUTS: dict[str, Callable[[int, int], Any]] = {
    "turned": lambda rows, columns: weft.randn(columns, rows).t(),
    "stepped": lambda rows, columns: weft.randn(rows, 2 * columns)[:, ::2],
    "expanded": lambda rows, columns: weft.randn(columns).expand(rows, columns),
}


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:weft.compile built programs for 3 values")
def test_templates_of_squares_serve_all_sizes(
    name: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is equal in the first call alone is no fact: sums over all walked along one row, as if it was."""
    if name in ("conv1d", "max_pool1d"):  # whose tables are for one length: strict says so
        monkeypatch.setattr(options, "strict", False)
    function = PROGRAMS[name]
    compiled = weft.compile(function, dynamic=True)
    for rows, columns in ((4, 4), (6, 6), (5, 4), (4, 4)):
        x = LAYOUTS[layout](rows, columns)
        same(outcome(compiled, x), outcome(function, x), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("templates")
def test_gradients_that_nothing_but_sizes_tells() -> None:
    """The program of the backward reads no array: it went on to give zeros of the sizes before."""
    compiled = weft.compile(lambda x: (x.trunc(), x.shape))
    for size in (5, 7, 3, 50, 7):
        x = weft.randn(size, 2, requires_grad=True)
        compiled(x)[0].sum().backward()
        same(x.grad, weft.zeros(size, 2))


@pytest.mark.usefixtures("templates")
def test_sizes_that_only_what_is_computed_again_needs() -> None:
    """The backward makes the index again, whose size is a product: a factor of it was none of its inputs."""

    def index(shape: Any) -> Any:
        count = 1
        for n in shape:
            count *= n
        return (weft.arange(count) % shape[0]).reshape(shape)

    def function(x: Any, y: Any) -> Any:
        return y.scatter_add(0, index(y.shape), y), weft.minimum(x, y)

    compiled = weft.compile(function)
    for size in (4, 2, 3, 7):
        x, y = weft.randn(size, size), weft.randn(size, size)
        one, other = (y.clone().requires_grad_() for _ in range(2))
        weighted(compiled(x, one)[0]).backward()
        weighted(function(x, other)[0]).backward()
        same(one.grad, other.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("templates")
def test_tables_of_convolutions_are_made_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They list each pixel and tap: with expressions in place of numbers, 20,000 elements took minutes."""
    asked: list[str] = []
    before = Sizes.compared

    def noted(self: Sizes, op: str, left: Any, right: Any) -> bool:
        asked.append(op)
        return before(self, op, left, right)

    monkeypatch.setattr(Sizes, "compared", noted)
    compiled = weft.compile(lambda x: F.adaptive_avg_pool1d(x.reshape(1, 1, -1), 2), dynamic=True)
    for size in (300, 200):
        x = weft.randn(size, 4, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        compiled(x).sum().backward()
        F.adaptive_avg_pool1d(other.reshape(1, 1, -1), 2).sum().backward()
        same(x.grad, other.grad, rtol=1e-4, atol=1e-5)
    assert len(asked) < 1000


@pytest.mark.usefixtures("templates")
def test_results_with_names_of_ops_that_numpy_does() -> None:
    """Those that others read had the sizes of the first call."""
    compiled = weft.compile(weft.linalg.eigvalsh, dynamic=True)
    for size in (3, 6, 4):
        x = weft.randn(size, size, dtype=weft.float64)
        one, other = ((x + x.t()).requires_grad_() for _ in range(2))
        weighted(compiled(one)).backward()
        weighted(weft.linalg.eigvalsh(other)).backward()
        same(one.grad, other.grad)


def test_second_derivatives(templates: list[Template]) -> None:
    def curvature(x: Any) -> Any:
        (first,) = weft.autograd.grad(x.sin().pow(3).sum(), x, create_graph=True)
        (second,) = weft.autograd.grad((first * x).sum(), x)
        return second

    compiled = weft.compile(curvature)
    for size in (5, 7, 3, 50):
        x = weft.randn(size, 2, requires_grad=True)
        same(compiled(x), curvature(x), rtol=1e-4, atol=1e-5)
    assert 0 < len(templates) <= 2


def test_inputs_that_are_written(templates: list[Template]) -> None:
    def step(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        return x[1:].sum()

    compiled = weft.compile(step)
    for size in (5, 7, 3, 50):
        x, y = weft.randn(size, 3), weft.randn(size, 3)
        other = x.clone()
        same(compiled(x, y), step(other, y), rtol=1e-4, atol=1e-5)
        same(x, other)


def of_places(x: Any) -> Any:
    places = weft.nonzero(x > 0)
    return (x[places[:, 0]] * 2).sum() + places.shape[0]


def of_mask(x: Any) -> Any:
    chosen = x[x > 0]
    return (chosen * 2).sum() / chosen.numel()


def of_unique(x: Any) -> Any:
    values = weft.unique(x.round())
    return values.cumsum(0) * values.shape[0]


COUNTED: dict[str, Function] = {
    "nonzero": of_places,
    "a mask": of_mask,
    "masked_select": lambda x: weft.masked_select(x, x > 0).exp().sum(),
    "unique": of_unique,
}


@pytest.mark.parametrize("name", COUNTED)
def test_sizes_that_elements_tell_are_open_at_once(name: str, templates: list[Template]) -> None:
    """What comes behind nonzero, masks and unique is captured once, planned once and compiled once."""
    function = COUNTED[name]
    compiled = weft.compile(function)
    before, sizes = built(), set()
    for size in (20, 7, 50, 9, 33):
        x = weft.linspace(-6.0, 6.0, 60).roll(size).clone()
        x[size:] = -1.0
        sizes.add(function(x).numel() if name == "unique" else int((x > 0).sum()))
        same(compiled(x), function(x), rtol=1e-5, atol=1e-5)
        made = {kind: number - before[kind] for kind, number in built().items()}
        assert (made["captures"], made["plans"], made["programs"]) == (2, 2, 2)  # with what is in front
    assert len(sizes) > 3 and len(templates) == 1
