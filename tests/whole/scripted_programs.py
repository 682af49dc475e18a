# ruff: noqa: UP006, UP007, UP031, UP032, UP035, UP045
"""Programs for scripted code: small typed functions of tensors and plain values, with their plain arguments.

One idea: a program is a function whose first parameters are the tensors `x` and `y` (3 by 4, or named
otherwise in `SHAPES`); whatever else it takes is given in its decorator.
"""

import math
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import weft
from weft import Tensor

PROGRAMS = []


def program(*extra):
    def decorate(function):
        PROGRAMS.append((function, extra))
        return function

    return decorate


class Pair(NamedTuple):
    first: Tensor
    second: int


@weft.jit.ignore
def ignored(x):
    return x * 2


@weft.jit.ignore
def ignored_number(x: Tensor) -> int:
    return int(x.numel())


def helper(x, scale: float = 2.0):
    return x.sin() * scale


def early(x, n: int):
    if n > 2:
        return x * n
    return x - n


def both_kinds(x: Tensor, flag: bool) -> Optional[Tensor]:
    if flag:
        return x.exp()
    return None


@program()
def add(x, y):
    return x + y


@program()
def arithmetic(x, y):
    return (x * 2 - y / 3) ** 2 + -x


@program()
def matmul(x, y):
    return x @ y.t()


@program()
def twice_used(x, y):
    a = x * y
    return a.sin() + a.cos(), a


@program()
def relus(x, y):
    return x.relu() + y.relu(), x.relu()


@program()
def unused_input(x, y):
    return x.exp()


@program()
def returns_input(x, y):
    return x, y


@program()
def constant_result(x, y):
    return weft.ones(2), 3


@program(3)
def int_argument(x, y, n: int):
    return x * n + y


@program(2.5)
def float_argument(x, y, a: float):
    return x / a - y


@program(True)
@program(False)
def bool_argument(x, y, flag: bool):
    if flag:
        z = x
    else:
        z = y * 2
    return z


@program("left")
@program("right")
def string_argument(x, y, side: str):
    if side == "left":
        return x
    return y


@program(4)
@program(0)
def loop(x, y, n: int):
    z = x
    for i in range(n):
        z = z * y + i
    return z


@program()
def loop_start_stop(x, y):
    z = x
    for i in range(2, 7, 2):
        z = z + y * i
    return z


@program()
def loop_down(x, y):
    z = x
    for i in range(3, 0, -1):
        z = z * i
    return z


@program()
def nested_loops(x, y):
    z = x
    for i in range(2):
        for j in range(i + 1):
            z = z + y * (i + j)
    return z


@program()
def while_number(x, y):
    i = 0
    z = x
    while i < 3:
        z = z.tanh() + y
        i += 1
    return z, i


@program()
def while_tensor(x, y):
    z = x
    while z.abs().sum() < 50:
        z = z * 2 + 1
    return z


@program(5)
def loop_break(x, y, n: int):
    z = x
    for i in range(n):
        if i == 3:
            break
        z = z + i
    return z


@program(5)
def loop_continue(x, y, n: int):
    z = x
    for i in range(n):
        if i % 2 == 0:
            continue
        z = z * i
    return z


@program()
def while_break(x, y):
    i = 0
    while True:
        i += 1
        if i > 4:
            break
    return x * i


@program()
def while_continue(x, y):
    i, z = 0, x
    while i < 5:
        i += 1
        if i == 2:
            continue
        z = z + i
    return z


@program(3)
@program(9)
def return_in_loop(x, y, n: int):
    for i in range(n):
        if i == 5:
            return x
    return y


@program(1)
@program(5)
def early_return(x, y, n: int):
    if n > 3:
        return x * 2
    z = y + 1
    if n > 0:
        return z
    return z * x


@program(1)
@program(-1)
def nested_early_return(x, y, n: int):
    if n > 0:
        if n > 10:
            return x
        z = y
    else:
        z = x + y
    return z.sin()


@program()
def data_dependent(x, y):
    if x.sum() > y.sum():
        z = x.sin()
    else:
        z = y.cos()
    return z


@program()
def ternary(x, y):
    return x if bool(x.sum() > 0) else y * 2


@program(2)
def chained_comparison(x, y, n: int):
    if 0 < n < 3:
        return x
    return y


@program(2)
def boolean_operators(x, y, n: int):
    if (n > 1 and not n > 5) or n == 7:
        return x + 1
    return y


@program()
def tuples(x, y):
    a = (x, y, 3)
    b, c, d = a
    return b * d, c, a[2]


@program()
def nested_tuples(x, y):
    a, (b, c) = x, (y, 2)
    return (a, (b * c, a + b))


@program()
def swap(x, y):
    x, y = y, x
    return x * 2, y


@program()
def lists(x, y):
    items = [x, y]
    items.append(x + y)
    return weft.cat(items), len(items)


@program()
def list_of_numbers(x, y):
    a: List[int] = []
    for i in range(4):
        a.append(i * i)
    a[0] = 7
    b = a[1:3]
    return x * a[0] + sum(b), a, b


@program()
def list_methods(x, y):
    a = [3, 1, 2]
    a.sort()
    a.extend([5])
    a.insert(0, 9)
    b = a.pop()
    a.reverse()
    return x, a, b, a.index(3), a.count(1), 2 in a, 8 not in a


@program()
def list_comprehension(x, y):
    a = [i * 2 for i in range(3)]
    b = [i for i in a if i > 0]
    c = [t * 2 for t in [x, y]]
    return c[0] + c[1], a, b


@program()
def list_arithmetic(x, y):
    a = [1, 2] + [3]
    b = [0] * 3
    return x, a, b, a == [1, 2, 3], max(a), min(a)


@program()
def list_in_place(x, y):
    a = [1]
    a += [2, 3]
    return x, a


@program([1, 2, 3])
def list_argument(x, y, ns: List[int]):
    z = x
    for n in ns:
        z = z + n
    return z, len(ns)


@program({"a": 1, "b": 2})
def dict_argument(x, y, d: Dict[str, int]):
    z = x
    for k in d:
        z = z + d[k]
    for k, v in d.items():
        if k == "b":
            z = z * v
    return z, "a" in d, len(d)


@program()
def dicts(x, y):
    d = {"x": x, "y": y}
    d["z"] = x + y
    e: Dict[int, str] = {}
    e[3] = "three"
    return d["z"], list(d.keys()), e, d.get("q") is None


@program()
def dict_methods(x, y):
    d = {"a": 1}
    d.update({"b": 2})
    n = d.pop("a")
    return x, n, d, d.get("c", 5)


@program()
def dict_comprehension(x, y):
    d = {i: i * 2 for i in range(3)}
    return x, d


@program(None)
@program(3)
def optional_number(x, y, n: Optional[int]):
    if n is None:
        return x
    return x * n


@program(None)
def optional_tensor(x, y, z: Optional[Tensor] = None):
    if z is not None:
        y = y + z
    return x * y


@program()
def optional_variable(x, y):
    best: Optional[Tensor] = None
    for i in range(3):
        if best is None:
            best = x * i
        else:
            best = best + y
    assert best is not None
    return best


@program(3)
def optional_and(x, y, n: Optional[int]):
    if n is not None and n > 2:
        return x * n
    return y


@program()
def calls_helper(x, y):
    return helper(x) + helper(y, 3.0) + helper(x, scale=0.5)


@program(4)
@program(1)
def calls_early(x, y, n: int):
    return early(x, n) + early(y, 1)


@program(True)
def calls_optional(x, y, flag: bool):
    z = both_kinds(x, flag)
    if z is None:
        return y
    return z


@program()
def ignored_call(x, y):
    z = ignored(x)
    return z.relu() + y, ignored_number(x)


@program()
def ignored_between(x, y):
    a = x.sin().relu()
    ignored(a)
    return a.relu(), y.cos().relu()


@program()
def without_gradients(x, y):
    a = x.sin()
    with weft.no_grad():
        b = a + y
    return a, b, a * b


@program()
def with_gradients(x, y):
    with weft.no_grad():
        a = x * 2
        with weft.enable_grad():
            b = y * 3
    return a, b


@program()
def detached(x, y):
    return x.detach() * y, x.detach()


@program()
def in_place(x, y):
    a = x * 1
    a += y
    a.mul_(2)
    a -= 1
    return a


@program()
def in_place_view(x, y):
    a = x * 1
    a[0] = y[1]
    a[1, 2] = 5.0
    a[:, 0] += 1
    return a


@program()
def in_place_masked(x, y):
    a = x * 1
    a[y > 0] = 0.0
    return a


@program()
def indexing(x, y):
    return x[0], x[-1, 2], x[:, 1:3], x[..., 0], x[None].shape, x[:, None, 1]


@program()
def index_steps(x, y):
    return x[::2], x[1:, :-1], x[0:2][1]


@program()
def index_tensor(x, y):
    i = weft.tensor([0, 2])
    return x[i], x[i, i], x[:, i], x[[0, 1]]


@program()
def index_mask(x, y):
    return x[x > 0].sum(), x[y.abs() > 0.5].numel()


@program()
def ellipsis(x, y):
    z = x.unsqueeze(0)
    return z[..., 1:3], z[..., None].shape, z[0, ..., 1]


@program()
def shapes(x, y):
    a, b = x.shape
    return x.reshape(b, a), x.view(-1), x.size(0) + x.dim(), x.size(), x.numel()


@program()
def views(x, y):
    return x.t(), x.transpose(0, 1) * 2, x.permute(1, 0), x.flatten(), x.unsqueeze(0).squeeze(0)


@program()
def expand(x, y):
    return x[0].expand(3, 4) + y, x.repeat(2, 1)


@program()
def reductions(x, y):
    return x.sum(), x.mean(dim=0), x.sum(1, keepdim=True), x.prod(), x.std()


@program()
def extremes(x, y):
    v, i = x.max(dim=1)
    return v, i, x.max(), weft.max(x, y), x.min(0)[0], x.argmax(), x.amax(1)


@program()
def named_results(x, y):
    r = x.sort(dim=1)
    return r.values, r.indices, x.topk(2, dim=1)[0]


@program()
def chunks(x, y):
    a, b = x.chunk(2, 1)
    c = x.split(3, dim=1)
    return a * b, c[1], len(c), weft.stack([a, b])


@program()
def unbinding(x, y):
    z = x[0]
    for row in x.unbind(0):
        z = z + row.sin()
    return z


@program()
def iterate_tensor(x, y):
    z = y[0]
    for row in x:
        z = z * row
    return z


@program()
def enumerating(x, y):
    z = x
    for i, t in enumerate([x, y, x]):
        z = z + t * i
    for i, n in enumerate([5, 6], 2):
        z = z * i + n
    return z


@program()
def zipping(x, y):
    z = x
    for a, b in zip([1, 2, 3], [x, y, x]):
        z = z + a * b
    for i, (a, n) in enumerate(zip([x, y], [3, 4])):
        z = z - a * n * i
    return z


@program()
def reverse_iteration(x, y):
    z = x
    for t in [x, y][::-1]:
        z = z.sin() + t
    return z, list(reversed([1, 2]))


@program()
def tuple_iteration(x, y):
    z = x
    for a in (x, y):
        z = z + a
    return z


@program()
def strings(x, y):
    s = "weft"
    return x, s.upper(), s + "!", s[1:3], len(s), s.startswith("w"), s.split("e"), "-".join(["a", "b"]), s * 2


@program(3)
def formatting(x, y, n: int):
    return x, f"n={n} and {n + 1}", "{} of {}".format(n, 2.5), "n: %d" % n


@program()
def characters(x, y):
    t = ""
    for c in "abc":
        t = c + t
    return x, t, ord("a"), chr(98)


@program(7, 2)
def integers(x, y, a: int, b: int):
    return x, a // b, a % b, a / b, -a // b, a & b, a | b, a ^ b, a << b, a >> 1, ~a, abs(-a)


@program(7.5, 2)
def floats(x, y, a: float, b: int):
    return x, a // b, a % b, a / b, a**b, a * b, a - b, round(a, 1), int(a), a > b


@program(0.7)
def maths(x, y, a: float):
    return (
        x * math.sin(a),
        math.sqrt(a),
        math.floor(a),
        math.ceil(a),
        math.exp(a),
        math.log(a),
        math.pi,
        math.inf > a,
    )


@program(3)
def casts(x, y, n: int):
    return x, float(n), int(2.9), bool(n), str(n), int(x.numel()), float(x.sum().detach() * 0)


@program()
def items(x, y):
    a = float(x.detach().sum().item())
    return y * 2, a == a


@program(3, -4)
def number_functions(x, y, a: int, b: int):
    return x, max(a, b), min(a, b), abs(b), max([a, b, 9]), sum([a, b]), divmod(a, 2)


@program()
def any_all(x, y):
    return x, any([False, True]), all([True, False]), bool((x == x).all())


@program()
def asserts(x, y):
    assert x.size(0) == 3, f"size {x.size(0)}"
    assert y.dim() == 2
    return x + y


@program(Pair(weft.ones(4), 3))
def named_tuple(x, y, p: Pair):
    q = Pair(x + p.first, second=p.second + 1)
    return q.first * q.second, q


@program(3)
@program("abc")
def unions(x, y, u: Union[int, str]):
    if isinstance(u, int):
        return x * u
    else:
        return y * len(u)


@program()
def annotated(x, y):
    a = weft.jit.annotate(List[int], [])
    a.append(1)
    b: List[Tensor] = []
    b.append(x)
    c: Tuple[int, float] = (1, 2.0)
    return b[0] * c[1], a


@program()
def scripting(x, y):
    if weft.jit.is_scripting():
        return x + 1
    else:
        return x + 1
