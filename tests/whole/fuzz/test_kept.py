"""Random programs that once differed when compiled, shrunk and kept.

Each is the text of a module with `main` and `arguments`, as the fuzzer writes them; see generator.py.
"""

from __future__ import annotations

import pytest

from tests.whole.fuzz.compare import agree


def test_line_of_a_users_exception():
    agree("""\
class Worse(KeyError):
    pass

def main():
    raise Worse()

def arguments():
    yield ((), {})
""")


def test_line_of_an_exception_made_elsewhere():
    agree("""\
import weft

def main(error, x):
    y = x + 1
    LOG.append(y)

    raise error

LOG = []

def arguments():
    yield ((KeyError(1), weft.ones(2)), {})
""")


def test_line_of_a_call_of_something_else():
    agree("""\
def main():
    1()

def arguments():
    yield ((), {})
""")


def test_exceptions_keep_arguments_that_their_init_takes():
    agree("""\
import weft

class Problem(ValueError):
    def __init__(self, n, more=2):
        self.n = n

def main(x):
    try:
        raise Problem(3)
    except Problem as error:
        held = error.args, error.n
    return Problem(4, more=1), held, x + 1

def arguments():
    yield ((weft.ones(2),), {})
""")


def test_a_number_that_changed_is_read_twice():
    agree("""\
import weft
COUNT = 0

def main(x):
    return x * (COUNT + 1), x * (COUNT + 2)

def arguments():
    global COUNT
    for COUNT in (0, 5, 7, 1):
        yield ((weft.ones(2),), {})
""")


def test_inputs_that_are_spelt_alike():
    agree("""\
import weft

class Box:
    pass

def main(x, x_a):
    return x.a + x_a.a * x.a_b + x.a.b

def arguments():
    x, x_a = Box(), Box()
    x.a, x_a.a, x.a_b = weft.ones(2), weft.ones(2), weft.ones(2)
    x.a.b = weft.ones(2)
    yield ((x, x_a), {})
""")


def test_sorting_as_list_sort_does():
    agree("""\
import weft
LOG = []

def main(reverse, x):
    items, mixed = [3, 1, 2], [3, 'a', 1]
    try:
        items.sort(key=lambda i: (LOG.append(len(items)), -i)[1], reverse=reverse)
    except TypeError as error:
        LOG.append(error.args)
    for key in (None, lambda i: i // 2):
        try:
            mixed.sort(key=key)
        except TypeError as error:
            LOG.append(error.args)
    return items, mixed, x + 1

def arguments():
    for reverse in (None, True, 2, 0.5):
        yield ((reverse, weft.ones(2)), {})
""")


def test_values_of_an_ordered_dict_as_arguments():
    agree("""\
from collections import OrderedDict
import weft
STATE = {'n': 1, 'a': 2}

def overloaded(*args, **rest):
    return args[::-1], sorted(rest)

def main(d, x):
    STATE.update(b=len(d | STATE), z=0)
    copied = OrderedDict(STATE)
    STATE['k'] = d.get('a', 0) + copied.get('b', 0)
    d.clear()
    return overloaded(*list(copied.values()), x, x=copied), x + 1

def arguments():
    yield ((dict(b=2, a=2), weft.ones(2)), {})
""")


def test_super_is_the_first_to_look_at_self():
    agree("""\
import weft

class Base:
    def apply(self, v):
        weft.compiler.graph_break()
        return v + 1

class Right(Base):
    def apply(self, v):
        return super().apply(v) + (super().apply(v) + v).clone()

    def lost(*args):
        return super().apply(1)

    def gone(self):
        del self
        return super().apply(1)

def main(x, name):
    y = weft.ones(2) * 2
    x.add_(Right().apply(x))
    return getattr(Right(), name)(), y

def arguments():
    yield ((weft.ones(3), 'lost'), {})
    yield ((weft.ones(3), 'gone'), {})
""")


def test_looking_for_an_item_of_an_iterator_from_outside():
    agree("""\
import weft

def main(items, x):
    y = x + 1
    return 0 in items, items, y

def arguments():
    yield ((iter([0, 5]), weft.ones(2)), {})
""")


def test_views_made_without_gradients():
    agree("""\
import weft

def main(x, y):
    part = x[1]
    print()
    return part, y + 1, y.requires_grad

def arguments():
    x = weft.arange(6.0).requires_grad_()
    late = weft.arange(6.0)
    weft.set_grad_enabled(False)
    view = late[1]
    yield ((x, view), {})
    late.requires_grad_()
    yield ((x, view), {})
    yield ((x, weft.ones(2)), {})
""")


def test_attributes_of_a_thread():
    agree("""\
import threading
import weft
SHARED = threading.local()

def main(x):
    y = x + 1
    SHARED.value = 2
    return SHARED.value, y

def arguments():
    yield ((weft.ones(2),), {})
""")


LOGGING = """\
import functools, itertools, operator
from collections import Counter, defaultdict, deque
import weft
LOG = []

class Point:
    made = 0
    def __init__(self, n=0):
        LOG.append(n)
        self.n = n
        Point.made += 1
    def __len__(self):
        LOG.append('len')
        return self.n
    def __str__(self):
        LOG.append('str')
        return f'P{{self.n}}'
    def __index__(self):
        LOG.append('index')
        return self.n
    def __iter__(self):
        LOG.append('iter')
        return (k for k in range(self.n))
    def __add__(self, other):
        LOG.append('add')
        return Point(self.n + 1)
    def __bool__(self):
        LOG.append('bool')
        return self.n > 0

POINT = Point(2)
LOG.clear()

def main(x, points, n):
    y = x + 1
    result = {expression}
    return result, y * 2

def arguments():
    for n in (0, 1, 3, 5):
        yield ((weft.ones(2), [Point(n), POINT], n), {{}})
"""


@pytest.mark.parametrize(
    "expression",
    [
        "list(map(Point, [1, 2]))",
        "list(map(len, points))",
        "list(map(str, points))",
        "list(map(type, [n, 1.5, *points]))",
        "list(map(getattr, points, ['n', 'n']))",
        "list(map(setattr, points, ['n', 'm'], [7, 8]))",
        "list(map(operator.add, points, points))",
        "list(map('{}'.format, points))",
        "list(filter(None, points))",
        "list(filter(lambda point: point, points))",
        "list(itertools.takewhile(len, points))",
        "list(itertools.starmap(Point, [(1,), (2,)]))",
        "list(itertools.accumulate(points))",
        "[(k, len(list(g))) for k, g in itertools.groupby([n, 2, 2.5], type)]",
        "list(itertools.chain.from_iterable(p for p in points))",
        "itertools.chain(points[0], [n])",
        "list(itertools.compress('ab', (p for p in points)))",
        "list(itertools.repeat(points[0], 2))",
        "dict.fromkeys('ab', points[0])",
        "list(itertools.islice(range(9), points[0]))",
        "defaultdict(Point)['q'].n",
        "repr(defaultdict(Point))",
        "type(defaultdict(Point).default_factory)",
        "Counter(map(type, [n, 2, 'a']))",
        "[0] * points[0]",
        "'a' * points[0]",
        "weft.zeros(points[0].n), weft.zeros(len(points[0]))",
        "x[points[0]] if n < 2 else 0",
        "pow(2, n, 5)",
        "n.__add__(2), n.__index__(), n.bit_length(), (n * 0.5).is_integer(), float.hex(n * 0.5)",
    ],
)
def test_callables_and_objects_in_the_hands_of_c_code(expression):
    agree(LOGGING.format(expression=expression))


def test_an_exception_keeps_an_argument_that_can_be_iterated():
    agree("""\
import weft

class Items:
    def __iter__(self):
        return iter([1])

class Problem(Exception):
    def __init__(self, items):
        super().__init__(items)

def main(items, x):
    return Problem(items).args[0] is items, x + 1

def arguments():
    yield ((Items(), weft.ones(2)), {})
""")


def test_iterators_from_outside_are_not_drawn_from_by_the_library():
    agree("""\
import weft

def main(items, x):
    y = x + 1
    return weft.stack(list(items)), y

def arguments():
    yield ((iter([weft.ones(2), weft.zeros(2)]), weft.ones(2)), {})
""")


DRAWING = """\
import functools
import weft
LOG = []

class Number:
    def __init__(self, n):
        self.n = n
    def __add__(self, other):
        LOG.append(('add', self.n))
        return Number(self.n + other.n)
    def __iter__(self):
        LOG.append('iter')
        return iter([1, 2])
    def __len__(self):
        LOG.append('len')
        if self.n > 2:
            raise ValueError('no length')
        return 2

def items(*values):
    for value in values:
        LOG.append(str(type(value)))
        yield value

def attempt(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, error.args

def main(x, n, f):
    y = x + 1
    return attempt(lambda: {expression}), y * 2

def arguments():
    for n in (2, 3, 5):
        yield ((weft.ones(2), n, n * 0.1), {{}})
"""


@pytest.mark.parametrize(
    "expression",
    [
        "sum(items(1, 'a', 3))",
        "sum(items(Number(1), Number(n)), Number(5)).n",
        "sum([f, 0.1, 0.2, 0.3, 0.7, f])",
        "sum(f * 0.1 for _ in range(10))",
        "sum([n, 0.1, 0.2, 0.3, n, 0.7])",
        "max(items(3, 1, 5), key=lambda value: LOG.append(value) or -value)",
        "max(items(1, 'a', 2))",
        "max(1, 2, default=3)",
        "functools.reduce(lambda a, b: a + b, items(1, 'a', 3))",
        "list(Number(n))",
        "[*Number(n)]",
        "sorted(Number(n))",
        "(lambda *values: values)(*Number(n))",
        "dict.fromkeys(Number(n))",
        "dict.fromkeys(iter([1, n]), 2)",
    ],
)
def test_items_are_drawn_one_by_one(expression):
    agree(DRAWING.format(expression=expression))


def test_a_method_that_appends_is_one_object_after_a_break():
    agree("""\
import weft
HISTORY = []

def main(x):
    append = HISTORY.append
    weft.compiler.graph_break()
    def read():
        return append
    append(2)
    return append, read, [append], x + 1, append is read(), len(HISTORY)

def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


def test_a_local_that_is_not_looked_at_lives_as_long_as_its_frame():
    agree("""\
import weft
LOG = []

class Noticed:
    def __del__(self):
        LOG.append('gone')

def make(kind):
    weft.compiler.graph_break()
    return kind()

def main(x, kind):
    held = make(kind)
    print()
    y = x + 1
    print()
    LOG.append('still there')
    return y * 2

def arguments():
    yield ((weft.ones(2), int), {})
    yield ((weft.ones(2), Noticed), {})
""")


@pytest.mark.parametrize("expression", ["len(odd)", "bool(odd)", "list(odd)", "[1] * odd", "[4, 5][odd]"])
def test_answers_of_methods_that_are_not_of_their_kind(expression):
    agree(f"""\
import weft
COUNT = 0

class Odd:
    def __len__(self):
        return COUNT
    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return index
    def __index__(self):
        return COUNT

class Truth:
    def __bool__(self):
        return COUNT

def attempt(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, error.args

def main(x):
    odd = Odd()
    return attempt(lambda: {expression}), attempt(lambda: not Truth()), x + 1

def arguments():
    global COUNT
    for COUNT in (0, 1.5, 2.5, 3.5, -1, -2, 1, True, 2):
        yield ((weft.ones(2),), {{}})
""")


def test_errors_of_writes_depend_on_leaves():
    agree("""\
import weft
RUNNING = weft.tensor(1.0)

def main(v):
    v.add_(RUNNING.detach().requires_grad_())

def arguments():
    yield ((weft.tensor([1.0, 2.0, -0.5]).requires_grad_(),), {})
    v = weft.tensor([1.0, 2.0, 0.5])
    yield ((v,), {})
    yield ((v,), {})
""")


@pytest.mark.parametrize("items", ["", "[2]", "'abc'", "range(40)"])
def test_a_frozenset_is_made_in_each_call(items):
    agree(f"""\
import weft

def main():
    touch = weft.ones(2)
    return frozenset({items})

def arguments():
    yield ((), {{}})
    yield ((), {{}})
""")


def test_a_view_that_refuses_a_layout_after_a_write():
    for backend in ("eager", "native"):
        agree(f"""\
import weft
OPTIONS = {{'backend': '{backend}'}}
def main(x):
    x.add_(1)
    return x.view(-1)
def arguments():
    yield ((weft.arange(6.0).reshape(3, 2),), {{}})
    yield ((weft.arange(6.0).reshape(2, 3).t(),), {{}})
""")


@pytest.mark.parametrize("caught", [False, True])
def test_a_view_that_refused_a_layout(caught):
    body = "try: return x.view(-1)\n    except RuntimeError: return x + 1" if caught else "return x.view(-1)"
    agree(f"""\
import weft
def main(x):
    {body}
def arguments():
    yield ((weft.arange(6.0).reshape(2, 3).t(),), {{}})
    yield ((weft.arange(6.0).reshape(3, 2),), {{}})
""")


def test_the_line_of_a_warning_of_variances():
    agree("""\
import weft
OPTIONS = {'backend': 'native'}
def main(x):
    y = x * 2
    return y.var(0)
def arguments():
    yield ((weft.ones(1, 3),), {})
""")


def test_a_write_that_refused_a_layout():
    agree("""\
import weft
def main(x):
    x.index_copy_(0, weft.tensor([1, 0]), weft.ones(2, 3))
    return x + 1
def arguments():
    yield ((weft.ones(1, 3).expand(2, 3),), {})
    yield ((weft.ones(2, 3),), {})
""")


@pytest.mark.parametrize(
    "mode", ["no_grad()", "enable_grad()", "inference_mode()", "set_grad_enabled(False)"]
)
def test_modes_that_breaks_interrupt_are_put_back(mode):
    agree(f"""\
import weft
def main(x):
    with weft.{mode}:
        weft.compiler.graph_break()
        y = x + 1
    return x * y
def arguments():
    for before in (True, False, True):
        weft.set_grad_enabled(before)
        yield ((weft.ones(3),), {{}})
    weft.set_grad_enabled(True)
""")


def test_writes_to_nothing_of_a_tensor_whose_elements_share_memory():
    """Also where sizes vary: a tensor without elements overlaps nothing."""
    agree("""\
import weft
def main(x):
    x[1:].add_(x[:-1].clone())
    return x * 2
def arguments():
    yield ((weft.ones(1, 2),), {})
    yield ((weft.ones(1, 1).expand(1, 8),), {})
    yield ((weft.ones(1, 1).expand(1, 9),), {})
    yield ((weft.ones(2, 1).expand(2, 9),), {})
""")


def test_views_beyond_a_tensor_whose_sizes_vary():
    """Whether there is memory behind a tensor, only its storage knows."""
    agree("""\
import weft
def main(x):
    return x.as_strided((3, 2), (0, 1)) * 2
def arguments():
    yield ((weft.ones(3),), {})
    yield ((weft.ones(1).expand(9),), {})
    yield ((weft.ones(9),), {})
    yield ((weft.ones(12)[1:2].expand(9),), {})
""")
    agree("""\
import weft
def main(x):
    y = x + 1
    return y[:, 1:-1].as_strided((3, 2), (0, 1)) * 2
def arguments():
    yield ((weft.ones(9, 4),), {})
    yield ((weft.ones(5, 2),), {})
    yield ((weft.ones(6, 2),), {})
""")


def test_methods_of_what_something_stands_for_are_builtin():
    agree("""\
import functools
import weft
LOG = []
def counting():
    yield 1
    yield 2
def main(x):
    append, it = LOG.append, counting()
    send = it.send
    seen = [(type(f), isinstance(f, functools.partial), callable(f)) for f in (append, send)]
    seen += [append == LOG.append, append != [].append, send == it.send, hasattr(append, "func")]
    append(send(None))
    weft.compiler.graph_break()
    seen += [type(append), append.__name__, append.__self__ is LOG, send.__self__ is it, type(send)]
    return (seen, list(map(append, [3, 4])), x + 1)
def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


def test_names_of_nodes_are_those_of_compiled_graphs():
    agree("""\
import weft
OPTIONS = {'backend': 'aot_eager'}
def main(x):
    y = (x * 2).relu()
    z = y * y
    y.add_(1)
    print(y, [y + 0.5])
    return (str(z), repr(y.sum()), z)
def arguments():
    yield ((weft.ones(2, requires_grad=True),), {})
""")


def test_numbers_that_were_drawn_before_a_write_that_is_refused():
    """The original runs then, and draws them: they must not have been drawn before."""
    agree("""\
import weft
def main(x):
    t = x * 2
    t.normal_()
    x.index_copy_(0, weft.arange(x.shape[0]), t)
    return t
def arguments():
    yield ((weft.ones(3, 4, 5),), {})
    yield ((weft.ones(3, 4, 1).expand(3, 4, 5),), {})
    yield ((weft.ones(3, 4, 5),), {})
""")


def test_what_reads_random_numbers_draws_none():
    agree("""\
import weft
OPTIONS = {'backend': 'native'}
ONES = weft.ones(3)
def main(x):
    return (weft.equal(ONES, weft.rand(3)), weft.allclose(weft.rand(3), ONES), x + 1)
def arguments():
    yield ((weft.ones(2),), {})
    yield ((weft.ones(2),), {})
""")


def test_one_element_of_an_input_whose_elements_lie_in_one_place():
    agree("""\
import weft
def main(x, y, value):
    y.relu_()
    x[0] = value
    return x + y
def arguments():
    yield ((weft.ones(1).expand(3), weft.ones(3), 2.5), {})
    yield ((weft.ones(3), weft.ones(3), 2.5), {})
""")


@pytest.mark.parametrize("breaks", [0, 1])
def test_locals_in_the_order_of_the_code(breaks):
    agree(f"""\
import weft
def main(a, b, c=3):
    x = weft.ones(2)
    def inner():
        return b, late
    del c
    for _ in range({breaks}):
        weft.compiler.graph_break()
    found = locals()
    late = found["x"] + 1
    return (list(found), found["b"], late, inner()[0])
def arguments():
    yield ((1, 2), {{}})
    yield ((1, 3), {{}})
""")


def test_a_call_that_gives_its_argument_back_warns() -> None:
    agree("""\
import weft
def main(x):
    y = x.mT
    x.mH
    return y * 2
def arguments():
    yield ((weft.tensor(1.5),), {})
    yield ((weft.tensor(2.5),), {})
""")


def test_texts_that_vary_in_cells() -> None:
    agree("""\
def main(number):
    def inner(found=number):
        return number()
def arguments():
    yield ((7,), {})
    yield ((2.5,), {})
    yield (('q',), {})
    yield (('r',), {})
""")


def test_a_function_of_a_view_that_a_write_made_unusable() -> None:
    agree("""\
import weft
class Passes(weft.autograd.Function):
    pass
def main(x):
    view = x.view(3)
    view.mul_(2)
    Passes.apply(view)
def arguments():
    x = weft.tensor([0.26, 1.3, 1.43, 0.21, 0.02, 0.28], requires_grad=True)[3:6]
    weft.set_grad_enabled(False)
    yield ((x,), {})
""")
