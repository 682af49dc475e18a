"""The functions that random programs may have: generators, closures, context managers, custom gradients.

Takes nothing; gives Definitions by name; see Note [Pieces] in definitions.py.
"""

from __future__ import annotations

from tests.whole.fuzz.definitions import Definition, Piece

CONTEXT = Definition(
    Piece(
        "@contextlib.contextmanager\n"
        "def context(n):\n"
        "    #: int:n\n"
        "    LOG.append('in')\n"
        "    $block\n"
        "    try:\n"
        "        yield $int\n"
        "    except ValueError:\n"
        "        LOG.append('swallowed')\n"
        "    finally:\n"
        "        LOG.append('out')",
        does=(
            "with context($int) as $new_int:\n    $block",
            "with context($int):\n    $block\n    $raising",
            "with context($int), context($int) as $new_int:\n    $block\n    if $bool:\n"
            "        return $result",
        ),
    ),
)

# A generator that is left in the middle is closed by its last reference, whose moment is CPython's own
# affair: what `finally` does is looked at only in `closing`, which its statements close or exhaust.
YIELDING = Definition(
    Piece(
        "def counting(n):\n"
        "    #: int:n,total\n"
        "    total = 0\n"
        "    for step in range(n % 4):\n"
        "        $block\n"
        "        got = yield total + step\n"
        "        if got is not None:\n"
        "            total += got\n"
        "    LOG.append('done')\n"
        "    return total",
        gives={
            "g": ["counting($int)", "counting(3)"],
            "int": ["sum(counting($int))", "next(counting(2))", "next(counting($int), $int)"],
            "ints": [
                "list(counting($int))",
                "[*counting(3)]",
                "[$int@i for @i in counting($int)]",
                "sorted(counting(3), key=$fn)",
            ],
        },
        does=(
            "for $new_int in counting($int):\n    $loop",
            "@g = counting(3)\n$new_int = next(@g)\n$new_int = @g.send($int)\nLOG.extend(@g)",
            "@g = counting(2)\ntry:\n    while True:\n        LOG.append(next(@g))\n"
            "except StopIteration as @e:\n    LOG.append(('stop', @e.value))",
            "$new_g = counting(3)\n$new_int = next($var_g, 7)",
            "$new_g = counting($int)",
            "$new_int = next($var_g, 7)",
            "LOG.extend($var_g)",
            "@i, @f, @s = counting(3)\nLOG.append((@i, @f, @s))",
        ),
    ),
    (
        Piece(
            "def wrapping(n, v):\n"
            "    #: int:n V:v\n"
            "    got = yield from counting(n)\n"
            "    $block\n"
            "    yield got\n"
            "    yield from [1, 2]",
            gives={"g": ["wrapping($int, $V)"], "ints": ["list(wrapping($int, $V))"]},
            does=(
                "@g = wrapping(2, $V)\nnext(@g)\n$new_int = @g.send($int)\n@g.close()",
                "for $new_int in wrapping(2, $V):\n    $loop",
            ),
        ),
        Piece(
            "def flowing(v, n):\n"
            "    #: int:n V:v\n"
            "    for step in range(abs(n) % 3):\n"
            "        v = v + step\n"
            "        $block\n"
            "        yield $V",
            gives={
                "tensors": ["list(flowing($V, $int))"],
                "V": ["next(flowing($V, 1))", "sum(flowing($V, $int), $V)"],
            },
            does=("for $new_V in flowing($V, $int):\n    $loop",),
        ),
        Piece(
            "def closing(n):\n"
            "    #: int:n,total\n"
            "    total = n\n"
            "    try:\n"
            "        total += yield $int\n"
            "        total += yield $int\n"
            "    except ValueError as problem:\n"
            "        LOG.append(problem.args)\n"
            "        yield -1\n"
            "    finally:\n"
            "        LOG.append('closed')\n"
            "    return total\n"
            "def delegating(n):\n"
            "    #: int:n\n"
            "    try:\n"
            "        got = yield from closing(n)\n"
            "        LOG.append(got)\n"
            "    finally:\n"
            "        LOG.append('delegate')",
            does=(
                "@g = closing($int)\n$new_int = next(@g, 0)\n@g.close()",
                "@g = closing($int)\nLOG.append(next(@g))\nLOG.append(@g.send(1))\ntry:\n    @g.send(2)\n"
                "except StopIteration as @e:\n    LOG.append(@e.value)",
                "@g = closing($int)\nnext(@g)\nLOG.append(@g.throw(ValueError('x')))\n@g.close()",
                "@g = closing($int)\nnext(@g)\ntry:\n    @g.throw(KeyError('x'))\nexcept KeyError as @e:\n"
                "    LOG.append(@e.args)",
                "@g = delegating($int)\nLOG.append(next(@g))\n"
                "LOG.append(@g.throw(ValueError('x')))\n@g.close()",
                "@g = delegating($int)\nLOG.append(next(@g))\nLOG.append(@g.send(2))\n@g.close()",
                "@g = delegating($int)\ntry:\n    LOG.append(next(@g))\n"
                "    LOG.append(@g.send(2))\n    @g.send(4)\n"
                "except StopIteration:\n    $block",
            ),
        ),
    ),
)

CLOSURES = Definition(
    Piece(
        "def make_counter(start, v=None):\n"
        "    #: int:start\n"
        "    total = start\n"
        "    def step(k=1):\n"
        "        nonlocal total\n"
        "        #: int:total,k,start\n"
        "        total += k\n"
        "        $block\n"
        "        return total\n"
        "    def read(k=0):\n"
        "        return total + k\n"
        "    return step, read",
        gives={
            "fn": ["make_counter($int)[0]", "make_counter($int)[1]", "STEP", "READ"],
            "int": ["STEP($int)", "READ()"],
        },
        does=(
            "$new_fn, $new_fn = make_counter($int)",
            "$new_any = make_counter($int)",
            "STEP($int)",
            "$new_fn, $new_fn = make_counter($int, $V)\n$new_int = $var_fn($int)",
        ),
    ),
    (
        Piece(
            "def logged(function):\n"
            "    @functools.wraps(function)\n"
            "    def wrapper(*args, **kwargs):\n"
            "        LOG.append((function.__name__, len(args), sorted(kwargs)))\n"
            "        return function(*args, **kwargs)\n"
            "    wrapper.calls = 0\n"
            "    return wrapper\n"
            "@logged\n"
            "def decorated(n, v=2, *, w=3):\n"
            "    #: int:n,v,w\n"
            "    decorated.calls += 1\n"
            "    $block\n"
            "    return $int",
            gives={
                "int": [
                    "decorated($int)",
                    "decorated($int, w=$int)",
                    "decorated(n=$int, v=$int)",
                    "decorated.calls",
                ],
                "fn": ["decorated", "logged($fn)"],
            },
        ),
        Piece(
            "def late_binding():\n"
            "    functions = []\n"
            "    for index in range(3):\n"
            "        functions.append(lambda k: k + index)\n"
            "    index = 10\n"
            "    return functions",
            gives={"fn": ["late_binding()[$idx]"], "ints": ["[@v(1) for @v in late_binding()]"]},
        ),
        Piece(
            "def recursive(n, depth=0):\n"
            "    #: int:n,depth\n"
            "    if depth >= 3 or n % 5 == 0:\n"
            "        return $int\n"
            "    return recursive($int, depth + 1) + depth",
            gives={"int": ["recursive($int)", "recursive($int, 1)"], "fn": ["recursive"]},
        ),
        Piece(
            "@functools.lru_cache(maxsize=None)\ndef cached(n):\n    #: int:n\n"
            "    LOG.append(('cached', n))\n    return $int",
            gives={"int": ["cached($int)", "cached($int)"]},
        ),
    ),
    state=("STEP, READ: functions = make_counter(10)",),
)

FUNCTION = Definition(
    Piece(
        "class Twice(weft.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, v, k):\n"
        "        #: V:v float:k\n"
        "        ctx.k = k\n"
        "        $block\n"
        "        return v * k\n"
        "    @staticmethod\n"
        "    def backward(ctx, gradient):\n"
        "        LOG.append('backward')\n"
        "        return gradient * ctx.k * 2, None",
        gives={"V": ["Twice.apply($V, $float)"], "T": ["Twice.apply($T, 2.0)"]},
        does=(
            "@v = $V.detach().requires_grad_()\nTwice.apply(@v, $float).sum().backward()\n$new_V = @v.grad",
        ),
    ),
)

DISPATCH = Definition(
    Piece(
        "@functools.singledispatch\n"
        "def describe(value):\n"
        "    return 'thing'\n"
        "@describe.register\n"
        "def _(value: int):\n"
        "    #: int:value\n"
        "    LOG.append($int)\n"
        "    return 'int'\n"
        "@describe.register(list)\n"
        "def _(value):\n"
        "    return 'list' * (len(value) % 3)\n"
        "def overloaded(*args, key=None, **rest):\n"
        "    #: int:len(args),len(rest)\n"
        "    if key is not None:\n"
        "        return key, args, rest\n"
        "    return args[::-1], sorted(rest), $int",
        gives={"str": ["describe($any)", "describe($int)"]},
        does=(
            "$new_any = overloaded($any, $any, key=$any)",
            "$new_any = overloaded(*$ints, **$d)",
            "$new_any = overloaded(*$ints, $V, x=$any, **{'y': $int})",
            "$new_any = functools.partial(overloaded, $int, key=$any)($V, z=1)",
        ),
    ),
)

FUNCTIONS: dict[str, Definition] = {
    "context": CONTEXT,
    "yielding": YIELDING,
    "closures": CLOSURES,
    "function": FUNCTION,
    "dispatch": DISPATCH,
}
