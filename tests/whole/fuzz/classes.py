"""The classes that random programs may have; see Note [Pieces] in definitions.py."""

from __future__ import annotations

from tests.whole.fuzz.definitions import Definition, Piece

POINT = Definition(
    Piece(
        "class Point:\n"
        "    made = 0\n"
        "    def __init__(self, n, t):\n"
        "        self.n = n\n"
        "        self.t = t\n"
        "        #: int:n V:t",
        gives={
            "P": ["Point($int, $V)", "Point(t=$V, n=$int)"],
            "int": ["$P.n", "$P.n", "Point.made"],
            "V": ["$P.t", "$P.t"],
            "bool": [
                "$P is $P",
                "isinstance($any, Point)",
                "hasattr($P, 'extra')",
                "any(map(bool, [$P, $P]))",
            ],
            "ints": [
                "[@v.n for @v in map(Point, $ints, $tensors)]",
                "list(map(operator.attrgetter('n'), [$P, $P]))",
                "list(map(getattr, [$P, $P], ['n', 'missing'], $ints))",
                "[@v.n for @v in sorted([$P, $P], key=operator.attrgetter('n'))]",
                "[@v.n for @v in filter(None, [$P, $P])]",
            ],
        },
        does=(
            "$new_P = $P",
            "$new_P = Point($int, $V)",
            "$var_P.n = $int",
            "$var_P.n += $int",
            "$var_P.t = $V",
            "$var_P.t.add_($V)",
            "$var_P.extra = $any",
            "if hasattr($var_P, 'extra'):\n    del $var_P.extra",
            "Point.made += 1",
            "$new_P = $var_P",
            "for $new_P in ($P, $P):\n    $loop",
            "setattr($var_P, 'm', $int)",
            "match $any:\n    case Point(n=0):\n        $block\n    case Point(n=@i, t=_):\n"
            "        LOG.append(@i)",
        ),
    ),
    (
        Piece(
            "    @property\n    def size(self):\n        #: int:self.n V:self.t\n        $block\n"
            "        return $int",
            gives={"int": ["$P.size"]},
        ),
        Piece(
            "    def __add__(self, other):\n        #: int:self.n,other.n V:self.t,other.t\n"
            "        if not isinstance(other, Point):\n            return NotImplemented\n"
            "        return Point($int, $V)\n"
            "    def __radd__(self, other):\n        #: int:self.n V:self.t\n        return Point($int, $V)",
            gives={"P": ["$P + $P", "$int + $P"]},
            does=("$set_P = $var_P + $P", "$set_P += $P"),
        ),
        Piece(
            "    def __eq__(self, other):\n        #: int:self.n\n"
            "        return isinstance(other, Point) and self.n == other.n\n"
            "    __hash__ = None",
            gives={"bool": ["$P == $P", "$P != $P", "$P in [$P, $P]"]},
        ),
        Piece(
            "    def __lt__(self, other):\n        #: int:self.n,other.n\n        return self.n < other.n",
            gives={"P": ["min($P, $P)", "sorted([$P, $P, $P])[0]"], "bool": ["$P < $P"]},
        ),
        Piece(
            "    def __len__(self):\n        #: int:self.n\n        return abs(self.n) % 4\n"
            "    def __getitem__(self, index):\n        #: int:self.n,index V:self.t\n"
            "        if index >= len(self):\n            raise IndexError(index)\n        return $int",
            gives={
                "int": ["len($P)", "sum($P)", "$P[0]", "max([$P, $P], key=len).n", "sum(map(len, [$P, $P]))"],
                "ints": ["list($P)", "[$int@i for @i in $P]"],
                "bool": ["bool($P)"],
            },
            does=("for $new_int in $P:\n    $loop",),
        ),
        Piece(
            "    def __call__(self, v, *, times=2):\n        #: int:self.n,times V:self.t,v\n"
            "        $block\n        return $V",
            gives={"V": ["$P($V)", "$P($V, times=$int)"], "fv": ["$P"], "bool": ["callable($P)"]},
        ),
        Piece(
            "    @classmethod\n    def make(cls, n):\n        #: int:n\n        cls.made += 1\n"
            "        return cls($int, $V)",
            gives={"P": ["Point.make($int)", "$P.make($int)", "type($P).make($int)"]},
        ),
        Piece(
            "    @staticmethod\n    def mix(a, b=3):\n        #: int:a,b\n        return $int",
            gives={"int": ["Point.mix($int)", "$P.mix($int, $int)"], "fn": ["Point.mix"]},
        ),
        Piece(
            "    def scale(self, factor):\n        #: int:self.n V:self.t float:factor\n"
            "        self.t = self.t * factor\n        $block\n        return self",
            gives={"P": ["$P.scale($float)", "$P.scale($float).scale($float)"]},
            does=("$var_P.scale($float)", "$new_any = $var_P.scale\n$new_P = $var_P.scale($float)"),
        ),
        Piece(
            "    def __iadd__(self, other):\n        #: int:self.n\n        self.n += 1\n"
            "        LOG.append('iadd')\n        return self",
            does=("$set_P += $P", "$set_P += $int"),
        ),
        Piece(
            '    def __repr__(self):\n        return f"Point({self.n})"',
            gives={
                "str": ["repr($P)", "str($P)", 'f"{$lit_P!r}"', "','.join(map(str, [$P, $P]))", "'%s' % [$P]"]
            },
            does=("LOG.append($P)",),
        ),
        Piece(
            "    def __contains__(self, item):\n        #: int:self.n\n        return item == self.n",
            gives={"bool": ["$int in $P"]},
        ),
    ),
    state=("ORIGIN: P = Point(1, weft.ones(3))",),
)

LOOSE = Definition(
    Piece(
        "class Loose:\n"
        "    def __init__(self, **values):\n"
        "        for name, value in values.items():\n"
        "            object.__setattr__(self, name, value)\n"
        "    def __getattr__(self, name):\n"
        "        #: str:name\n"
        "        if name.startswith('x_'):\n"
        "            LOG.append(name)\n"
        "            return len(name)\n"
        "        raise AttributeError(name)",
        gives={
            "Loose": ["Loose(n=$int)", "Loose(n=$int, t=$V)", "Loose()"],
            "int": ["$Loose.n", "$Loose.x_one", "getattr($Loose, 'n', $int)", "getattr($Loose, 'x_two')"],
            "V": ["getattr($Loose, 't', $V)"],
            "bool": ["hasattr($Loose, 'n')", "hasattr($Loose, 'x_y')"],
        },
        does=(
            "$new_Loose = $Loose",
            "$var_Loose.n = $int",
            "$var_Loose.x_one = $int",
            "$new_any = $Loose.__dict__",
        ),
    ),
    (
        Piece(
            "    def __setattr__(self, name, value):\n        LOG.append(('set', name))\n"
            "        object.__setattr__(self, name, value)",
        ),
        Piece(
            "    def __delattr__(self, name):\n        LOG.append(('del', name))\n"
            "        object.__delattr__(self, name)",
            does=("if 'n' in $var_Loose.__dict__:\n    del $var_Loose.n",),
        ),
    ),
    state=("LOOSE: Loose = Loose(n=3)",),
)

SLOTTED = Definition(
    Piece(
        "class Slotted:\n"
        "    __slots__ = ('n', 't', 'late')\n"
        "    def __init__(self, n, t=None):\n"
        "        self.n = n\n"
        "        self.t = t",
        gives={
            "Slotted": ["Slotted($int)", "Slotted($int, $V)"],
            "int": ["$Slotted.n", "getattr($Slotted, 'late', $int)"],
            "bool": ["hasattr($Slotted, 'late')", "$Slotted.t is None"],
        },
        does=(
            "$new_Slotted = $Slotted",
            "$var_Slotted.n += $int",
            "$var_Slotted.late = $int",
            "if hasattr($var_Slotted, 'late'):\n    del $var_Slotted.late",
            "$var_Slotted.t = $V",
        ),
    ),
    (
        Piece(
            "    @property\n    def half(self):\n        #: int:self.n\n        return $int\n"
            "    @half.setter\n    def half(self, value):\n        #: int:self.n,value\n"
            "        LOG.append('half')\n        self.n = $int",
            gives={"int": ["$Slotted.half"]},
            does=("$var_Slotted.half = $int", "$var_Slotted.half += 1"),
        ),
    ),
    state=("SLOTTED: Slotted = Slotted(4)",),
)

FAMILY = Definition(
    Piece(
        "class Base:\n"
        "    kind = 'base'\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "    def value(self, k=1):\n"
        "        #: int:self.n,k str:self.kind\n"
        "        $block\n"
        "        return $int\n"
        "    def apply(self, v):\n"
        "        #: int:self.n V:v\n"
        "        return $V\n"
        "class Left(Base):\n"
        "    kind = 'left'\n"
        "    def value(self, k=2):\n"
        "        #: int:self.n,k,super().value(k)\n"
        "        return super().value(k) + $int\n"
        "class Right(Base):\n"
        "    def __init__(self, n, extra=5):\n"
        "        super().__init__(n)\n"
        "        self.extra = extra\n"
        "    def apply(self, v):\n"
        "        #: int:self.n V:v,super().apply(v)\n"
        "        $block\n"
        "        return super().apply(v) + $V\n"
        "class Both(Left, Right):\n"
        "    def value(self, k=3):\n"
        "        #: int:self.n,self.extra,k\n"
        "        return super().value(k=$int)\n"
        "    def apply(self, v):\n"
        "        #: int:self.n V:v\n"
        "        return super(Both, self).apply($V)",
        gives={
            "F": ["Base($int)", "Left($int)", "Right($int)", "Both($int)", "Both($int, extra=$int)"],
            "int": [
                "$F.value()",
                "$F.value($int)",
                "$F.n",
                "Base.value($F, $int)",
                "getattr($F, 'extra', 0)",
            ],
            "V": ["$F.apply($V)"],
            "fv": ["$F.apply"],
            "fn": ["$F.value"],
            "str": ["$F.kind", "type($F).kind", "type($F).__name__"],
            "bool": ["isinstance($F, Left)", "issubclass(type($F), Right)", "type($F) is Base"],
        },
        does=(
            "$new_F = $F",
            "$var_F.n = $int",
            "$var_F.kind = $str",
            "Base.kind = $str",
            "for $new_F in (Left($int), Both(2)):\n    $loop",
        ),
    ),
    state=("MEMBER: F = Both(2)",),
)

RECORD = Definition(
    Piece(
        "@dataclasses.dataclass\n"
        "class Record:\n"
        "    n: int\n"
        "    t: object = None\n"
        "    items: list = dataclasses.field(default_factory=list)\n"
        "    def grow(self, k):\n"
        "        #: int:self.n,k ints:self.items\n"
        "        self.items.append($int)\n"
        "        return self",
        gives={
            "R": [
                "Record($int)",
                "Record($int, $V)",
                "Record(n=$int, items=$ints)",
                "dataclasses.replace($R, n=$int)",
                "$R.grow($int)",
            ],
            "int": ["$R.n", "len($R.items)"],
            "ints": ["$R.items"],
            "bool": ["$R == $R", "Record($int) == Record($int)"],
            "str": ["repr(Record($int))"],
        },
        does=(
            "$new_R = $R",
            "$var_R.n = $int",
            "$var_R.items.append($int)",
            "$var_R.grow($int)",
            "$new_R = $var_R",
            "match $R:\n    case Record(0, _):\n        $block\n    case Record(@i, None):\n"
            "        LOG.append(@i)",
        ),
    ),
    (Piece("    def __post_init__(self):\n        #: int:self.n\n        LOG.append(self.n)"),),
    state=("RECORD: R = Record(1, None, [1])",),
)

FROZEN = Definition(
    Piece(
        "@dataclasses.dataclass(frozen=True, order=True)\nclass Frozen:\n    a: int\n    b: str = 'q'",
        gives={
            "Frozen": ["Frozen($int)", "Frozen($int, $str)"],
            "int": ["$Frozen.a", "{$Frozen: $int}.get($Frozen, -2)"],
            "bool": ["$Frozen == $Frozen", "$Frozen < $Frozen"],
        },
        does=("$new_Frozen = $Frozen", "$var_Frozen.a = $int"),
    ),
)

NAMED = Definition(
    Piece(
        "class Named(typing.NamedTuple):\n"
        "    n: int\n"
        "    t: object\n"
        "    tag: str = 'tag'\n"
        "    def total(self):\n"
        "        #: int:self.n V:self.t\n"
        "        return $int",
        gives={
            "Named": ["Named($int, $V)", "Named(n=$int, t=$V, tag=$str)", "$Named._replace(n=$int)"],
            "int": ["$Named.n", "$Named[0]", "$Named.total()", "len($Named)"],
            "V": ["$Named.t", "$Named[1]"],
            "str": ["$Named.tag", "','.join(Named._fields)"],
            "bool": ["isinstance($Named, tuple)"],
        },
        does=("$new_Named = $Named", "$new_int, $new_V, $new_str = $Named", "$new_any = $Named._asdict()"),
    ),
)

COLOR = Definition(
    Piece(
        "class Color(enum.Enum):\n"
        "    RED = 1\n"
        "    BLUE = 2\n"
        "    def paint(self, n):\n"
        "        #: int:n,self.value\n"
        "        return $int\n"
        "class Level(enum.IntEnum):\n"
        "    LOW = 1\n"
        "    HIGH = 5",
        gives={
            "Color": [
                "Color.RED",
                "Color($int % 2 + 1)",
                "(Color.RED if $bool else Color.BLUE)",
                "Color['BLUE']",
            ],
            "int": [
                "$Color.value",
                "$Color.paint($int)",
                "Level.LOW + $int",
                "len(Color)",
                "Level($int % 2 * 4 + 1)",
                "{Color.RED: $int}.get($Color, 0)",
            ],
            "str": ["$Color.name", "str($Color)"],
            "bool": ["$Color is Color.RED", "$Color == $Color", "Level.HIGH > $int"],
            "ints": ["[@v.value for @v in Color]"],
        },
        does=(
            "$new_Color = $Color",
            "match $Color:\n    case Color.RED:\n        $block\n    case Color.BLUE:\n        $block",
        ),
    ),
)

MANAGER = Definition(
    Piece(
        "class Manager:\n"
        "    depth = 0\n"
        "    def __init__(self, swallow=False):\n"
        "        self.swallow = swallow\n"
        "    def __enter__(self):\n"
        "        #: int:Manager.depth\n"
        "        LOG.append('enter')\n"
        "        Manager.depth += 1\n"
        "        return $int\n"
        "    def __exit__(self, kind, error, trace):\n"
        "        #: int:Manager.depth\n"
        "        LOG.append(('exit', kind and kind.__name__))\n"
        "        Manager.depth -= 1\n"
        "        return self.swallow",
        gives={"int": ["Manager.depth"]},
        does=(
            "with Manager() as $new_int:\n    $block",
            "with Manager(True):\n    $block\n    $raising",
            "with Manager($bool) as $new_int:\n    $block\n    $raising",
            "with Manager(), Manager(True) as $new_int:\n    $block",
            "with MANAGER:\n    $block",
            "for $new_int in range(3):\n    with Manager(True):\n        $loop",
            "with Manager():\n    $block\n    return $result",
        ),
    ),
    state=("MANAGER: Manager = Manager()",),
)

PROBLEM = Definition(
    Piece(
        "class Problem(Exception):\n"
        "    def __init__(self, code, *rest):\n"
        "        super().__init__(code, *rest)\n"
        "        self.code = code\n"
        "class Worse(Problem, KeyError):\n"
        "    pass",
        does=(
            "try:\n    $block\n    raise Problem($int)\nexcept Problem as @e:\n    LOG.append(@e.code)",
            "try:\n    $raising\nexcept (Worse, KeyError) as @e:\n    raise Problem($int) from @e",
            "try:\n    raise Worse($int, $V)\nexcept KeyError as @e:\n    LOG.append((@e.args, @e.code))",
            "if $bool:\n    raise Worse($any)",
            "$new_any = Problem($int)",
        ),
    ),
)

MODULE = Definition(
    Piece(
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = nn.Linear(3, 3)\n"
        "        self.weight = nn.Parameter(weft.ones(3))\n"
        "        self.register_buffer('seen', weft.zeros(3))\n"
        "        self.calls = 0\n"
        "    def forward(self, v, k=1):\n"
        "        #: int:self.calls,k V:v,self.weight\n"
        "        self.calls += 1\n"
        "        $block\n"
        "        return self.inner($V) + v * k",
        gives={
            "V": ["NET($V)", "NET($V, k=$int)", "NET.weight", "NET.inner(NET.seen)", "NET.seen"],
            "T": ["NET($T)"],
            "int": ["NET.calls", "len(list(NET.parameters()))"],
            "fv": ["NET", "NET.forward"],
            "bool": ["NET.training"],
        },
        does=(
            "NET.calls = $int",
            "NET.seen.add_($V.detach())",
            "NET.train($bool)",
            "NET.seen = $V",
            "NET.extra = $any",
        ),
    ),
    state=("NET: Net = Net()",),
)

DESCRIPTOR = Definition(
    Piece(
        "class Tracked:\n"
        "    def __set_name__(self, owner, name):\n"
        "        self.name = '_' + name\n"
        "    def __get__(self, instance, owner=None):\n"
        "        if instance is None:\n"
        "            return self\n"
        "        LOG.append('get')\n"
        "        return getattr(instance, self.name, 4)\n"
        "    def __set__(self, instance, value):\n"
        "        #: int:value\n"
        "        setattr(instance, self.name, $int)\n"
        "class Holder:\n"
        "    n = Tracked()\n"
        "    def __init__(self, n=None):\n"
        "        if n is not None:\n"
        "            self.n = n\n"
        "    @functools.cached_property\n"
        "    def slow(self):\n"
        "        #: int:self.n\n"
        "        LOG.append('slow')\n"
        "        return $int",
        gives={"H": ["Holder()", "Holder($int)"], "int": ["$H.n", "$H.slow"]},
        does=("$new_H = $H", "$var_H.n = $int", "$var_H.n += $int"),
    ),
    state=("HOLDER: H = Holder(2)",),
)

CONTAINER = Definition(
    Piece(
        "class Bag(list):\n"
        "    def add(self, n):\n"
        "        #: int:n,len(self)\n"
        "        self.append($int)\n"
        "        return self\n"
        "class Table(dict):\n"
        "    def __missing__(self, key):\n"
        "        #: str:key\n"
        "        LOG.append(('missing', key))\n"
        "        return 9\n"
        "class Ticker:\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "    def __iter__(self):\n"
        "        return self\n"
        "    def __next__(self):\n"
        "        #: int:self.n\n"
        "        self.n -= 1\n"
        "        if self.n < 0:\n"
        "            raise StopIteration\n"
        "        return $int",
        gives={
            "Bag": ["Bag($ints)", "Bag([1]).add($int)"],
            "Table": ["Table($d)", "Table(a=$int)"],
            "ints": ["Bag($ints)", "list(Ticker($int % 4))", "list($Bag)"],
            "int": [
                "$Table[$key]",
                "$Table.get($key, 1)",
                "len($Bag)",
                "sum(Ticker(3))",
                "$Bag.add($int)[-1]",
            ],
            "d": ["dict($Table)"],
            "g": ["Ticker($int % 4)"],
            "bool": ["isinstance($Bag, list)", "type($Bag) is list"],
        },
        does=(
            "$new_Bag = $Bag",
            "$new_Table = $Table",
            "$var_Bag.add($int)",
            "$var_Table[$key] = $int",
            "for $new_int in Ticker($int % 4):\n    $loop",
        ),
    ),
)

META = Definition(
    Piece(
        "class Registry(type):\n"
        "    def __call__(cls, *args, **kwargs):\n"
        "        #: int:len(args)\n"
        "        LOG.append((cls.__name__, len(args)))\n"
        "        return super().__call__(*args, **kwargs)\n"
        "    def __len__(cls):\n"
        "        return len(cls.made)\n"
        "class Plain(metaclass=Registry):\n"
        "    made = []\n"
        "    registry = {}\n"
        "    def __init_subclass__(cls, **options):\n"
        "        super().__init_subclass__()\n"
        "        Plain.registry[cls.__name__.lower()] = cls\n"
        "    def __new__(cls, n=1, *rest):\n"
        "        self = super().__new__(cls)\n"
        "        cls.made.append(n)\n"
        "        return self\n"
        "    def __init__(self, n=1, *rest):\n"
        "        self.n = n\n"
        "        self.rest = rest\n"
        "    def __class_getitem__(cls, key):\n"
        "        return cls.registry.get(key, cls)\n"
        "class Sealed(Plain):\n"
        "    def __getattribute__(self, name):\n"
        "        if name == 'hidden':\n"
        "            return 8\n"
        "        return super().__getattribute__(name)\n"
        "    def __bool__(self):\n"
        "        return self.n > 1\n"
        "    def __index__(self):\n"
        "        return abs(self.n) % 3",
        gives={
            "M": ["Plain($int)", "Sealed($int)", "Plain['sealed']($int)", "Plain($int, *$ints)"],
            "int": [
                "$M.n",
                "len(Plain)",
                "Sealed($int).hidden",
                "[4, 5, 6][Sealed($int)]",
                "len($M.rest)",
                "operator.index(Sealed($int))",
            ],
            "bool": ["bool($M)", "not $M", "isinstance($M, Sealed)", "Plain.made == []", "type($M) is Plain"],
            "ints": ["list(Plain.made)", "list(range(Sealed($int)))"],
            "str": ["type(type($M)).__name__", "Plain[$key].__name__"],
        },
        does=(
            "$new_M = $M",
            "$var_M.n = $int",
            "Plain.made.append($int)",
            "if $var_M:\n    $block\nelse:\n    $block",
        ),
    ),
    state=("SEALED: M = Sealed(3)",),
)

AMOUNT = Definition(
    Piece(
        "class Amount:\n    def __init__(self, n, f=0.5):\n        self.n = n\n        self.f = f",
        gives={
            "Amount": ["Amount($int)", "Amount($int, $float)", "Amount($lit_int, $float)"],
            "int": ["$Amount.n"],
            "float": ["$Amount.f"],
        },
        does=("$new_Amount = $Amount", "$var_Amount.n = $int", "$var_Amount.f = $float"),
    ),
    (
        Piece(
            "    def __hash__(self):\n        #: int:self.n\n        $block\n        return self.n\n"
            "    def __eq__(self, other):\n        return self.n == getattr(other, 'n', other)",
            gives={
                "int": [
                    "hash($Amount) % 50",
                    "hash(($Amount, $int)) % 50",
                    "{$Amount: $int}.get($Amount, $int)",
                ],
                "bool": ["$Amount in {$Amount, $Amount}", "$Amount == $int", "$Amount in [$int, $Amount]"],
            },
        ),
        Piece(
            "    def __float__(self):\n        #: float:self.f\n        return $float\n"
            "    def __int__(self):\n        #: int:self.n\n        return $int",
            gives={
                "float": ["float($Amount)", "math.fabs($Amount)", "math.fsum([$Amount, $float])"],
                "int": ["int($Amount)", "int(math.copysign(2, $Amount))"],
                "str": ["'%.1f' % $Amount", "'%d' % $Amount"],
            },
        ),
        Piece(
            "    def __index__(self):\n        #: int:self.n\n        return self.n",
            gives={
                "int": ["operator.index($Amount)", "math.gcd($Amount, 12)", "len(range($Amount))"],
                "ints": ["$ints[$Amount:]", "[1, 2, 3][:$Amount]"],
                "str": ["hex($Amount)", "'ab'.center($Amount)[:9]"],
            },
        ),
        Piece(
            "    def __round__(self, digits=None):\n        #: int:self.n\n        return $int\n"
            "    def __floor__(self):\n        #: int:self.n\n        return self.n\n"
            "    __ceil__ = __trunc__ = __abs__ = __floor__",
            gives={
                "int": [
                    "round($Amount)",
                    "round($Amount, $int)",
                    "math.floor($Amount)",
                    "math.ceil($Amount)",
                    "math.trunc($Amount)",
                    "abs($Amount)",
                ],
            },
        ),
        Piece(
            "    def __str__(self):\n        #: float:self.f str:'s'\n"
            "        return f'{self.f:.2f}' if self.n else $str\n"
            "    def __format__(self, how):\n        return format(self.f, how or '.1f')",
            gives={
                "str": [
                    "str($Amount)",
                    'f"{$lit_Amount}"',
                    'f"{$lit_Amount:.3f}"',
                    "'%s' % $Amount",
                    "'{:.2e}'.format($Amount)",
                    "format($Amount)",
                ],
            },
        ),
        Piece(
            "    def __bool__(self):\n        #: int:self.n\n        return self.n > 1",
            gives={"bool": ["bool($Amount)", "not $Amount", "any([$Amount])", "all([$Amount, $Amount])"]},
            does=("if $Amount:\n    $block\nelse:\n    $block",),
        ),
        Piece(
            "    def __iter__(self):\n        #: int:self.n\n        yield self.n\n        yield $int\n"
            "    def __length_hint__(self):\n        return abs(self.n)",
            gives={
                "ints": ["list($Amount)", "[*$Amount]", "sorted($Amount)"],
                "int": [
                    "sum($Amount)",
                    "max($Amount)",
                    "operator.length_hint($Amount)",
                    "math.prod($Amount)",
                ],
                "bool": ["$int in $Amount", "all($Amount)"],
                "str": ["','.join(map(str, $Amount))"],
            },
        ),
        Piece(
            "    def __divmod__(self, other):\n        #: int:self.n\n        return divmod(self.n, other)\n"
            "    def __pow__(self, other, modulus=None):\n        #: int:self.n\n        return $int\n"
            "    def __rsub__(self, other):\n        return other - self.n",
            gives={
                "int": ["$Amount ** $int", "pow($Amount, 2, 7)", "$int - $Amount"],
                "ii": ["divmod($Amount, 5)", "divmod($Amount, $int)"],
            },
        ),
    ),
    state=("AMOUNT: Amount = Amount(2, 1.5)",),
)

CLASSES: dict[str, Definition] = {
    "amount": AMOUNT,
    "meta": META,
    "point": POINT,
    "loose": LOOSE,
    "slotted": SLOTTED,
    "family": FAMILY,
    "record": RECORD,
    "frozen": FROZEN,
    "named": NAMED,
    "color": COLOR,
    "manager": MANAGER,
    "problem": PROBLEM,
    "module": MODULE,
    "descriptor": DESCRIPTOR,
    "container": CONTAINER,
}
