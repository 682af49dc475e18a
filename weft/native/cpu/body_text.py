"""Scalar bodies as LLVM text: one instruction after the other, on vectors or on single numbers.

Takes a body, how many lanes a value has, and the names of its leaves; appends lines and gives the names of
the results. One idea: every instruction is defined for all inputs, as NumPy defines it, so nothing that a
user passes becomes undefined behaviour (division by zero, shifts out of range, floats that fit no int).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from weft.native.cpu.outside import place_of
from weft.native.cpu.writer import Writer, element_type, literal, vector_type
from weft.native.ir.scalar import COMPARISONS, FLOATS, FOLDED, HALVES, SIGNED, Instruction, bits_of

ORDERED: Final = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
ROUNDINGS: Final = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven"}


class BodyText:
    """Writes bodies for values of a number of lanes."""

    def __init__(self, writer: Writer, lanes: int, folded: int = 1) -> None:
        self.out, self.lanes = writer, lanes
        self.folded = folded
        """How many lanes the loops have of which chains are written out."""

    def type(self, type_: str) -> str:
        return vector_type(type_, self.lanes)

    def constant(self, number: Any, type_: str) -> str:
        text = literal(number, type_)
        return text if self.lanes == 1 else f"splat ({element_type(type_)} {text})"

    def write(
        self,
        body: Sequence[Instruction],
        leaf: Callable[..., str],
        known: dict[int, str] | None = None,
    ) -> list[str]:
        """The names of the results of all instructions, of which some may have been written before."""
        names: list[str] = []
        known = known or {}
        for place, each in enumerate(body):
            if place in known:
                names.append(known[place])
                continue
            args = [names[place] for place in each.args]
            types = [body[place].type for place in each.args]
            names.append(self.step(each, args, types, leaf))
        return names

    def step(self, each: Instruction, args: list[str], types: list[str], leaf: Any) -> str:
        op, type_ = each.op, each.type
        if op == "const":
            return self.constant(each.value, type_)
        if op in ("load", "index", "scalar", "fold", "given"):
            return str(leaf(each))
        if op == "gather":
            return str(leaf(each, *args))
        handler = HANDLERS.get(op)
        if handler is not None:
            return handler(self, type_, args, types)
        if op in COMPARISONS:
            return self.compare(op, types[0], args)
        if op in ROUNDINGS:
            return self.out.intrinsic(ROUNDINGS[op], type_, self.lanes, *args)
        if op == "call":
            return self.call(each, args)
        if op == "rarely":
            return self.rarely(each, args)
        if op == FOLDED:
            return self.chain(each, args)
        raise NotImplementedError(f"{op} has no text")

    def plain(self, word: str, type_: str, args: list[str]) -> str:
        return self.out.let(f"{word} {self.type(type_)} {', '.join(args)}")

    def compare(self, op: str, type_: str, args: list[str]) -> str:
        if type_ in FLOATS:
            return self.plain(f"fcmp {ORDERED[op]}", type_, args)
        sign = "" if op in ("eq", "ne") else "s" if type_ in SIGNED else "u"
        return self.plain(f"icmp {sign}{op}", type_, args)

    def choose(self, condition: str, type_: str, yes: str, no: str) -> str:
        whole = self.type(type_)
        if self.lanes == 1 and type_ in ("f32", "f64") and not (yes + no).count("%"):
            return self.choose_bits(condition, type_, yes, no)
        return self.out.let(f"select {self.type('b1')} {condition}, {whole} {yes}, {whole} {no}")

    def choose_bits(self, condition: str, type_: str, yes: str, no: str) -> str:
        """One of two constants. LLVM 22 reads such floats from a table, and ends the process where it finds
        out afterwards which it is and that it is spread over a vector: so they are ints to it."""
        whole, bits = self.type(type_), f"i{bits_of(type_)}"
        one, other = (self.out.let(f"bitcast {whole} {each} to {bits}") for each in (yes, no))
        chosen = self.out.let(f"select i1 {condition}, {bits} {one}, {bits} {other}")
        return self.out.let(f"bitcast {bits} {chosen} to {whole}")

    def rarely(self, each: Instruction, args: list[str]) -> str:
        """A branch around what no lane asks for."""
        out, (condition, usual, given) = self.out, args
        asked = condition
        if self.lanes > 1:
            lanes = out.let(f"bitcast {self.type('b1')} {condition} to i{self.lanes}")
            asked = out.let(f"icmp ne i{self.lanes} {lanes}, 0")
        rare, after, before = out.label("rare"), out.label("after"), out.block
        out.choose(asked, rare, after)
        out.begin(rare)
        body, place = each.value
        made = self.choose(condition, each.type, self.write(body, lambda _leaf: given)[place], usual)
        last = out.block
        out.go(after)
        out.begin(after)
        return out.let(f"phi {self.type(each.type)} [ {usual}, %{before} ], [ {made}, %{last} ]")

    def halved(self, op: str, type_: str, values: list[str]) -> str:
        """One value of several, in the order of a tree of neighbours."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2])
            values = [HANDLERS[op](self, type_, [a, b], [type_] * 2) for a, b in pairs]
        return values[0]

    def chain(self, each: Instruction, args: list[str]) -> str:
        """See Note [Chains] in `weft.native.ir.scalar`."""
        (op, start, unroll), type_, lanes = each.value, each.type, self.folded
        nothing = self.constant(start, type_)

        def both(a: str, b: str) -> str:
            return HANDLERS[op](self, type_, [a, b], [type_] * 2)

        place, made = 0, nothing
        if lanes > 1 and len(args) >= lanes:
            sums = [[nothing] * lanes for _ in range(unroll)]
            for step in dict.fromkeys((unroll, 1)):
                while place + lanes * step <= len(args):
                    for turn in range(step):
                        some = args[place + turn * lanes : place + (turn + 1) * lanes]
                        sums[turn] = list(map(both, sums[turn], some))
                    place += lanes * step
            while len(sums) > 1:
                sums = [list(map(both, a, b)) for a, b in zip(sums[::2], sums[1::2])]
            (parts,) = sums
            while len(parts) > 1:
                half = len(parts) // 2
                parts = list(map(both, parts[:half], parts[half:]))
            made = parts[0]
        for arg in args[place:]:
            made = both(made, arg)
        return made

    def call(self, each: Instruction, args: list[str]) -> str:
        """Lane by lane, a function whose address stands in the table."""
        element = element_type(each.type)
        place = place_of(f"{each.value}.{each.type}")
        slot = self.out.let(f"getelementptr ptr, ptr %outside, i64 {place}")
        function = self.out.let(f"load ptr, ptr {slot}")
        whole, result = self.type(each.type), "poison"
        for lane in range(self.lanes):
            one = args
            if self.lanes > 1:
                one = [self.out.let(f"extractelement {whole} {arg}, i64 {lane}") for arg in args]
            given = ", ".join(f"{element} {arg}" for arg in one)
            made = self.out.let(f"call {element} {function}({given})")
            if self.lanes == 1:
                return made
            result = self.out.let(f"insertelement {whole} {result}, {element} {made}, i64 {lane}")
        return result


# -- one function per instruction ----------------------------------------------------------------------------
Handler = Callable[[BodyText, str, list[str], list[str]], str]


def _arithmetic(float_word: str, int_word: str) -> Handler:
    def write(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
        return text.plain(float_word if type_ in FLOATS else int_word, type_, args)

    return write


def _divide(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.plain("fdiv", type_, args) if type_ in FLOATS else _whole(text, type_, args, "div")


def _remainder(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    if type_ in FLOATS:
        return text.plain("frem", type_, args)
    return _whole(text, type_, args, "rem")


def _whole(text: BodyText, type_: str, args: list[str], word: str) -> str:
    """Division of ints where the machine's would fault: by zero gives 0, the smallest by -1 itself."""
    x, y = args
    zero, one = text.constant(0, type_), text.constant(1, type_)
    nothing = text.compare("eq", type_, [y, zero])
    safe = text.choose(nothing, type_, one, y)
    if type_ not in SIGNED:
        made = text.plain(f"u{word}", type_, [x, safe])
        return text.choose(nothing, type_, zero, made)
    minus = text.compare("eq", type_, [y, text.constant(-1, type_)])
    safe = text.choose(minus, type_, one, safe)
    made = text.plain(f"s{word}", type_, [x, safe])
    if word == "div":
        negative = text.plain("sub", type_, [zero, x])
        made = text.choose(minus, type_, negative, made)
    return text.choose(nothing, type_, zero, made)


def _smaller(op: str) -> Handler:
    def write(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
        x, y = args
        first = text.compare("lt" if op == "min" else "gt", type_, [x, y])
        if type_ in FLOATS:
            strange = text.plain("fcmp uno", type_, [x, x])
            first = text.plain("or", "b1", [first, strange])
        return text.choose(first, type_, x, y)

    return write


def _shift(word: str) -> Handler:
    def write(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
        x, y = args
        bits = bits_of(type_)
        signed = word == "shr" and type_ in SIGNED
        llvm = "shl" if word == "shl" else "ashr" if signed else "lshr"
        if y.startswith("splat") or y.lstrip("-").isdigit():
            return text.plain(llvm, type_, [x, y])
        inside = text.plain("icmp ult", type_, [y, text.constant(bits, type_)])
        amount = text.choose(inside, type_, y, text.constant(bits - 1 if signed else 0, type_))
        made = text.plain(llvm, type_, [x, amount])
        return made if signed else text.choose(inside, type_, made, text.constant(0, type_))

    return write


def _negate(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    if type_ in FLOATS:
        return text.plain("fneg", type_, args)
    return text.plain("sub", type_, [text.constant(0, type_), *args])


def _absolute(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    if type_ in FLOATS:
        return text.out.intrinsic("fabs", type_, text.lanes, *args)
    negative = text.compare("lt", type_, [args[0], text.constant(0, type_)])
    return text.choose(negative, type_, _negate(text, type_, args, []), args[0])


def _root(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.out.intrinsic("sqrt", type_, text.lanes, *args)


def _fused(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.out.intrinsic("fma", type_, text.lanes, *args)


def _not(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.plain("xor", type_, [args[0], text.constant(1 if type_ == "b1" else -1, type_)])


def _popcount(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.out.intrinsic("ctpop", type_, text.lanes, *args)


def _select(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    return text.choose(args[0], type_, args[1], args[2])


def _bitcast(text: BodyText, type_: str, args: list[str], types: list[str]) -> str:
    if element_type(types[0]) == element_type(type_):
        return args[0]
    return text.out.let(f"bitcast {text.type(types[0])} {args[0]} to {text.type(type_)}")


def _high(text: BodyText, type_: str, args: list[str], _types: list[str]) -> str:
    """The upper half of a product of unsigned numbers."""
    bits = bits_of(type_)
    wide = f"i{2 * bits}" if text.lanes == 1 else f"<{text.lanes} x i{2 * bits}>"
    x, y = (text.out.let(f"zext {text.type(type_)} {arg} to {wide}") for arg in args)
    product = text.out.let(f"mul {wide} {x}, {y}")
    amount = str(bits) if text.lanes == 1 else f"splat (i{2 * bits} {bits})"
    upper = text.out.let(f"lshr {wide} {product}, {amount}")
    return text.out.let(f"trunc {wide} {upper} to {text.type(type_)}")


def _cast(text: BodyText, type_: str, args: list[str], types: list[str]) -> str:
    (x,), (given,) = args, types

    def convert(word: str, source: str, target: str, value: str) -> str:
        return text.out.let(f"{word} {text.type(source)} {value} to {text.type(target)}")

    if given in HALVES or type_ in HALVES:
        return _half(text, type_, x, given, convert)
    if given in FLOATS and type_ in FLOATS:
        return convert("fpext" if type_ == "f64" else "fptrunc", given, type_, x)
    if type_ in FLOATS and given == "b1" and text.lanes == 1:
        return text.choose(x, type_, text.constant(1, type_), text.constant(0, type_))
    if type_ in FLOATS:
        return convert("sitofp" if given in SIGNED else "uitofp", given, type_, x)
    if given in FLOATS:
        return _to_int(text, type_, x, given, convert)
    before, after = bits_of(given), bits_of(type_)
    if before == after:
        return x
    word = "trunc" if after < before else "sext" if given in SIGNED else "zext"
    return convert(word, given, type_, x)


def _half(text: BodyText, type_: str, x: str, given: str, convert: Callable[..., str]) -> str:
    """Between float32 and the halves. The machine converts float16; bfloat16 is the upper half of a float32,
    rounded to the nearest, of two to the even one.
    """
    if "f16" in (given, type_):
        return convert("fpext" if given == "f16" else "fptrunc", given, type_, x)
    plain, constant = text.plain, text.constant
    if given == "b16":
        wide = convert("zext", "b16", "i32", x)
        return convert("bitcast", "i32", "f32", plain("shl", "i32", [wide, constant(16, "i32")]))
    bits = convert("bitcast", "f32", "i32", x)
    upper = plain("lshr", "i32", [bits, constant(16, "i32")])
    odd = plain("and", "i32", [upper, constant(1, "i32")])
    more = plain("add", "i32", [plain("add", "i32", [bits, constant(0x7FFF, "i32")]), odd])
    near = plain("lshr", "i32", [more, constant(16, "i32")])
    quiet = plain("or", "i32", [upper, constant(0x40, "i32")])
    strange = plain("fcmp uno", "f32", [x, x])
    return convert("trunc", "i32", "b16", text.choose(strange, "i32", quiet, near))


def _to_int(text: BodyText, type_: str, x: str, given: str, convert: Callable[..., str]) -> str:
    """Truncates; where the number fits no int of 64 bits (of 32, for smaller types), what x86 gives."""
    wide = "i32" if type_ in ("i8", "u8", "i16", "i32") else "i64"
    limit = 2.0 ** (bits_of(wide) - 1)
    if type_ == "u64":
        limit = 2.0**64
    low = text.compare("ge", given, [x, text.constant(0.0 if type_ == "u64" else -limit, given)])
    high = text.compare("lt", given, [x, text.constant(limit, given)])
    fits = text.plain("and", "b1", [low, high])
    safe = text.choose(fits, given, x, text.constant(0.0, given))
    target = type_ if type_ == "u64" else wide
    made = convert("fptoui" if type_ == "u64" else "fptosi", given, target, safe)
    made = text.choose(fits, target, made, text.constant(1 << (bits_of(wide) - 1), target))
    return _cast(text, type_, [made], [target])


HANDLERS: Final[dict[str, Handler]] = {
    "add": _arithmetic("fadd", "add"), "sub": _arithmetic("fsub", "sub"), "mul": _arithmetic("fmul", "mul"),
    "and": _arithmetic("and", "and"), "or": _arithmetic("or", "or"), "xor": _arithmetic("xor", "xor"),
    "div": _divide, "rem": _remainder, "min": _smaller("min"), "max": _smaller("max"), "shl": _shift("shl"),
    "shr": _shift("shr"), "neg": _negate, "abs": _absolute, "sqrt": _root, "fma": _fused, "not": _not,
    "popcount": _popcount, "select": _select, "bitcast": _bitcast, "mulhigh": _high, "cast": _cast,
}  # fmt: skip
