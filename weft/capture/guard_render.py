"""Guards as Python source: lines that return MISS where a guard fails.

Takes guards and a `Reader`, appends to its lines. One idea: each kind has a function that emits the condition
under which the guard FAILS, taking the short way where the lines before have checked a type.

The lines must stand in a `try` whose `except Exception` returns MISS: `guarded` puts them there.
"""

from __future__ import annotations

import operator
import re
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from weft.capture.guards import (
    TENSOR_FACTS,
    Condition,
    Guard,
    ModeFacts,
    cell_is_unset,
    has_type,
    is_object,
    is_watched,
    same_classes,
    same_keys,
    slot_is_unset,
    strides_of,
)
from weft.capture.plain import MAPPINGS, SEQUENCES, SINGLETONS, Tree, float_bits, identical
from weft.capture.reading import MISS, Reader
from weft.capture.sources import Ref, Source, class_dict, class_mro, safe_contains, safe_length, written_in_c
from weft.core import modes
from weft.tensor.base import PLAIN
from weft.tensor.meta import MetaArray
from weft.tensor.tape import INFERENCE
from weft.trace.expressions import NAMES

MANY: Final = 64  # tensors: from here on each is looked at by a call, since texts take long to compile
INLINE_LIMIT: Final = 24  # leaves of a container that are compared in the text, rather than by a call


def render_guards(guards: Iterable[Guard], reader: Reader) -> None:
    """Appends the guards to the reader's lines: modes first, then what is asked of classes (so that no read
    that relies on a class comes before its check), then the rest in order, types before parts.
    """
    ordered = list(guards)
    reader.terse = sum(guard.kind == "TENSOR" for guard in ordered) >= MANY
    around = [guard for guard in ordered if guard.kind in ("MODE", "AMBIENT")]
    classes = [g for g in ordered if g.source is not None and g.source.root().kind == "constant"]
    for guard in around:
        RENDERERS[guard.kind](guard, reader)
    _render_absent([guard for guard in classes if guard.kind == "ABSENT"], reader)
    done = {id(guard) for guard in ordered if guard.kind == "ABSENT"}.union(map(id, around))
    typing: dict[Source, list[Guard]] = {}
    for guard in ordered:
        if guard.source is not None and guard.kind in ("TYPE", "TENSOR", "CODE"):
            typing.setdefault(guard.source, []).append(guard)
    for guard in [*classes, *ordered]:
        if id(guard) in done:
            continue
        places = [place for source in _sources(guard) for place in source.path()]
        for needed in [*(first for place in places for first in typing.get(place, ())), guard]:
            if id(needed) not in done:
                done.add(id(needed))
                RENDERERS[needed.kind](needed, reader)


def _sources(guard: Guard) -> list[Source]:
    """Every source that the guard reads."""
    found = [] if guard.source is None else [guard.source]
    if guard.kind == "SAME":
        found.append(guard.payload)
    elif guard.kind == "DISTINCT":
        found += guard.payload
    elif guard.kind == "CONDITION":
        found += [source for _symbol, source in guard.payload.sources]
    return found


def guarded(reader: Reader) -> list[str]:
    """The reader's lines so far, in a `try` that turns any exception into a miss."""
    if not reader.lines:
        return []
    miss = reader.constant(MISS, "MISS")
    error = reader.bind(Exception, "Exception")
    return ["try:", *("    " + line for line in reader.lines), f"except {error}: return {miss}"]


# -- identity and constants ----------------------------------------------------------------------------------
def is_not(reader: Reader, text: str, ref: Ref) -> str:
    """The condition that `text` is not the object of a Ref (which gives None once it is gone)."""
    if ref.weak is None:
        return f"{text} is not {reader.constant(ref.strong, getattr(ref.strong, '__name__', ''))}"
    return f"{text} is not {reader.constant(ref.weak)}()"


def _type(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    kind = guard.payload()
    if kind is not None and reader.types.get(source) is kind:
        return
    reader.miss_if(is_not(reader, type_of(reader, reader.read(source)), guard.payload))
    if kind is not None:
        reader.types[source] = kind


def type_of(reader: Reader, text: str) -> str:
    return f"{reader.constant(type, 'type')}({text})"


def _is(guard: Guard, reader: Reader) -> None:
    name = reader.read(_source(guard))
    if guard.payload.parts is not None:
        reader.miss_if(f"not {reader.constant(is_object, 'is_object')}({name}, {reader.bind(guard.payload)})")
        return
    text = is_not(reader, name, guard.payload)
    reader.miss_if(text if guard.payload.weak is None else f"{text} or {name} is None")


def _equal(guard: Guard, reader: Reader) -> None:
    source, picture = _source(guard), guard.payload
    kind = picture.kind if type(picture) is Tree else type(picture)
    conditions = differs(reader, reader.read(source), picture, reader.types.get(source) is kind)
    reader.miss_if(" or ".join(conditions))
    reader.types[source] = kind


def differs(reader: Reader, name: str, picture: Any, typed: bool = False) -> list[str]:
    """Conditions, to be joined by `or`, under which the value of a variable is not what the picture shows."""
    if type(picture) is Tree:
        return _tree_differs(reader, name, picture, typed)
    kind = type(picture)
    if kind in SINGLETONS:
        return [f"{name} is not {reader.constant(picture, getattr(picture, 'name', ''))}"]
    exact = [] if typed else [f"{type_of(reader, name)} is not {reader.constant(kind, kind.__name__)}"]
    if kind in (int, str, bytes) or (kind is float and picture - picture == 0.0 and picture != 0.0):
        return [*exact, f"{name} != {reader.constant(picture)}"]
    if kind is float:
        return [*exact, f"{reader.constant(float_bits, 'bits')}({name}) != {float_bits(picture)!r}"]
    return [_not_identical(reader, name, picture)]


def _not_identical(reader: Reader, name: str, picture: Any) -> str:
    return f"not {reader.constant(identical, 'identical')}({name}, {reader.bind(picture, 'picture')})"


def _leaves(picture: Any) -> int:
    return sum(map(_leaves, picture.items)) + 1 if type(picture) is Tree else 1


def _tree_differs(reader: Reader, name: str, tree: Tree, typed: bool) -> list[str]:
    sequence = tree.kind in SEQUENCES
    mapping = tree.kind in MAPPINGS and all(type(key) is str for key in tree.items[::2])
    if not (sequence or mapping) or _leaves(tree) > INLINE_LIMIT:
        return [_not_identical(reader, name, tree)]
    conditions = []
    if not typed:
        conditions.append(f"{type_of(reader, name)} is not {reader.constant(tree.kind, tree.kind.__name__)}")
    values = tree.items if sequence else tree.items[1::2]
    conditions.append(f"{reader.constant(len, 'len')}({name}) != {len(values)}")
    if mapping and values:
        conditions.append(_other_keys(reader, name, name, tree.items[::2]))
    for position, value in enumerate(values):
        place = f"{name}[{position if sequence else reader.constant(tree.items[2 * position])}]"
        if type(value) in SINGLETONS:
            conditions += differs(reader, place, value)
        else:
            item = reader.fresh()
            first, *rest = differs(reader, item, value)
            conditions += [first.replace(item, f"({item} := {place})", 1), *rest]
    return conditions


# -- containers ----------------------------------------------------------------------------------------------
def _length(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    kind = reader.known(source)
    short = kind is not None and written_in_c(kind)
    measure = reader.constant(len, "len") if short else reader.constant(safe_length, "len")
    reader.miss_if(f"{measure}({reader.read(source)}) != {guard.payload}")


def _keys(guard: Guard, reader: Reader) -> None:
    source, keys = _source(guard), guard.payload.items
    name, kind = reader.read(source), reader.known(source)
    if kind is None or not written_in_c(kind):
        reader.miss_if(f"not {reader.constant(same_keys)}({name}, {reader.bind(keys, 'keys')})")
    elif not keys:
        reader.miss_if(name)
    else:
        conditions = [
            f"{reader.constant(len, 'len')}({name}) != {len(keys)}",
            _other_keys(reader, name, name, keys),
        ]
        reader.miss_if(" or ".join(conditions))


def _other_keys(reader: Reader, name: str, iterable: str, keys: tuple[Any, ...]) -> str:
    """Of a dict of the right length: keys are mostly the very objects seen before, which C code can tell."""
    all_, map_, is_ = (
        reader.constant(all, "all"),
        reader.constant(map, "map"),
        reader.constant(operator.is_, "is"),
    )
    expected = reader.bind(keys, "keys")
    slow = f"{reader.constant(same_keys, 'same_keys')}({name}, {expected})"
    return f"not ({all_}({map_}({is_}, {iterable}, {expected})) or {slow})"


def _membership(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    name, key = reader.read(source), reader.constant(guard.payload)
    kind = reader.known(source)
    if kind is dict or kind is OrderedDict:
        reader.miss_if(f"{key} {'not in' if guard.kind == 'HAS' else 'in'} {name}")
    else:
        negation = "not " if guard.kind == "HAS" else ""
        reader.miss_if(f"{negation}{reader.constant(safe_contains, 'contains')}({name}, {key})")


# -- classes and functions -----------------------------------------------------------------------------------
def _render_absent(guards: list[Guard], reader: Reader) -> None:
    """All names that one class must lack are asked for at once."""
    by_class: dict[Source, list[str]] = {}
    for guard in guards:
        by_class.setdefault(_source(guard), []).append(guard.payload)
    for source, names in by_class.items():
        ref = source.detail
        if len(names) > 2 and source.kind == "constant" and ref.weak is None:
            lacks = reader.bind(class_dict(ref.strong).keys().isdisjoint, f"{ref.strong.__name__}_lacks")
            reader.miss_if(f"not {lacks}({reader.bind(frozenset(names), 'names')})")
        else:
            members = reader.read_class_dict(source)
            reader.miss_if(" or ".join(f"{name!r} in {members}" for name in names))


def _absent(guard: Guard, reader: Reader) -> None:
    _render_absent([guard], reader)


def _mro(guard: Guard, reader: Reader) -> None:
    source, refs = _source(guard), guard.payload
    ref = source.detail
    if source.kind == "constant" and ref.weak is None and all(base.weak is None for base in refs):
        order = class_mro(ref.strong)
        if same_classes(ref.strong, refs):  # a new tuple stands there as soon as the bases change
            name = reader.bind(order, f"{ref.strong.__name__}_mro")
            reader.miss_if(f"{reader.constant(class_mro, 'mro')}({reader.read(source)}) is not {name}")
            return
    check = (
        f"{reader.constant(same_classes, 'same_classes')}({reader.read(source)}, {reader.bind(refs, 'mro')})"
    )
    reader.miss_if(f"not {check}")


def _code(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    name = reader.read(source)
    code = reader.constant(guard.payload, guard.payload.co_name)
    kind = reader.constant(types.FunctionType, "function")
    exact = (
        "" if reader.types.get(source) is types.FunctionType else f"{type_of(reader, name)} is not {kind} or "
    )
    reader.miss_if(f"{exact}{name}.__code__ is not {code}")
    reader.types[source] = types.FunctionType


def _same(guard: Guard, reader: Reader) -> None:
    reader.miss_if(f"{reader.read(_source(guard))} is not {reader.read(guard.payload)}")


def _distinct(guard: Guard, reader: Reader) -> None:
    names = [reader.read(source) for source in dict.fromkeys([_source(guard), *guard.payload])]
    if len(names) <= 3:
        pairs = [f"{a} is {b}" for i, a in enumerate(names) for b in names[i + 1 :]]
        if pairs:
            reader.miss_if(" or ".join(pairs))
        return
    identity = reader.constant(id, "id")
    found = ", ".join(f"{identity}({name})" for name in names)
    reader.miss_if(f"{reader.constant(len, 'len')}({{{found}}}) != {len(names)}")


def _unset(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    assert source.parent is not None
    above = reader.read(source.parent)
    if source.kind == "cell":
        reader.miss_if(f"not {reader.constant(cell_is_unset, 'unset')}({above})")
    else:
        owner, name = reader.read_ref(source.detail[0]), source.detail[1]
        reader.miss_if(f"not {reader.constant(slot_is_unset, 'unset')}({above}, {owner}, {name!r})")


# -- tensors -------------------------------------------------------------------------------------------------
def _tensor(guard: Guard, reader: Reader) -> None:
    source, facts = _source(guard), guard.payload
    name = reader.read(source)
    holder = MetaArray if facts.device.type == "meta" else np.ndarray
    if reader.terse and None not in facts.shape:
        told = (facts.cls, facts.requires_grad, holder, facts.dtype, facts.shape)
        texts = [reader.constant(each, getattr(each, "__name__", "")) for each in told[:-1]]
        call = f"{reader.constant(has_type, 'has_type')}({name}, {', '.join(texts)}, {facts.shape!r})"
        reader.miss_if(f"not {call}")
        reader.types[source], reader.facts[source] = facts.cls, facts
        return
    exact = f"{type_of(reader, name)} is not {reader.constant(facts.cls, facts.cls.__name__)} or "
    if reader.types.get(source) is facts.cls:
        exact = ""
    # A view whose base was told to require grad after it was made requires it too, and is not tracked yet.
    follows = "" if facts.requires_grad else f" or {name}.origin is not None and {name}.requires_grad"
    reader.miss_if(f"{exact}{name}.tracked is not {facts.requires_grad}{follows}")
    reader.types[source] = facts.cls
    reader.facts[source] = facts
    array = reader.read_array(source)
    conditions = [
        f"{type_of(reader, array)} is not {reader.constant(holder, holder.__name__)}",
        f"{array}.dtype is not {reader.constant(facts.dtype, facts.dtype.name)}",
    ]
    if None not in facts.shape:
        reader.miss_if(" or ".join([*conditions, f"{array}.shape != {facts.shape!r}"]))
        return
    reader.miss_if(" or ".join(conditions))
    shape = reader.read_shape(source)
    conditions = [f"{reader.constant(len, 'len')}({shape}) != {len(facts.shape)}"]
    conditions += [f"{shape}[{i}] != {size}" for i, size in enumerate(facts.shape) if size is not None]
    reader.miss_if(" or ".join(conditions))


def _stride(guard: Guard, reader: Reader) -> None:
    source = _source(guard)
    facts = reader.facts.get(source)
    if facts is not None and None not in facts.shape and 0 not in facts.shape:
        steps = tuple(step * facts.dtype.itemsize for step in guard.payload)
        reader.miss_if(f"{reader.read_array(source)}.strides != {steps!r}")
    else:
        name, strides = reader.read(source), reader.constant(strides_of, "strides")
        reader.miss_if(f"{_not_plain(reader, source)}{strides}({name}) != {guard.payload!r}")


def _not_plain(reader: Reader, source: Source) -> str:
    if reader.known(source) in PLAIN:
        return ""
    return f"{type_of(reader, reader.read(source))} not in {reader.constant(PLAIN, 'PLAIN')} or "


FACT_TEXTS: Final[dict[str, str]] = {
    "is_leaf": "({0}.node is None)",
    "is_view": "({0}.origin is not None)",
    "is_inference": "({0}.cell is {INFERENCE})",
    "has_grad": "({0}._grad is not None)",
}


def _fact(guard: Guard, reader: Reader) -> None:
    source, (fact, value) = _source(guard), guard.payload
    name, exact = reader.read(source), _not_plain(reader, source)
    text = FACT_TEXTS.get(fact)
    if text is None:
        reader.miss_if(f"{exact}{reader.constant(TENSOR_FACTS[fact], fact)}({name}) is not {value!r}")
    else:
        found = text.format(name, INFERENCE=reader.constant(INFERENCE, "INFERENCE"))
        reader.miss_if(f"{exact}{'not ' if value else ''}{found}")


# -- what is around ------------------------------------------------------------------------------------------
def _mode(guard: Guard, reader: Reader) -> None:
    now = f"{reader.constant(modes.current, 'modes')}()"
    if type(guard.payload) is ModeFacts:
        reader.miss_if(f"not {reader.bind(guard.payload.holds, 'mode')}({now})")
    else:
        watched = f"{reader.constant(is_watched, 'watched')}({now}, {guard.payload!r})"
        reader.miss_if(f"{now} is not {guard.payload!r} and not {watched}")


def _ambient(guard: Guard, reader: Reader) -> None:
    ref, picture = guard.payload
    found = reader.assign(f"{reader.read_ref(ref)}()")
    reader.miss_if(" or ".join(differs(reader, found, picture)))


def _condition(guard: Guard, reader: Reader) -> None:
    condition: Condition = guard.payload
    names = {symbol: reader.read(source) for symbol, source in condition.sources}
    negation = "not " if condition.truth else ""
    letters = {symbol: f"_v_{i}" for i, (symbol, _source) in enumerate(condition.sources)}
    body = condition.expression.render(lambda symbol: letters[symbol])
    words = set(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", body)) - set(letters.values())
    if words <= {"and", "or", "not", "is", "None", "True", "False"}:
        reader.miss_if(f"{negation}{condition.expression.render(lambda symbol: names[symbol])}")
        return
    # A parameter may be called `abs` or `math`: what needs such names is a function of its own.
    function = eval(f"lambda {', '.join(letters.values())}: {body}", dict(NAMES))
    reader.miss_if(f"{negation}{reader.bind(function, 'condition')}({', '.join(names.values())})")


def _source(guard: Guard) -> Source:
    if guard.source is None:
        raise ValueError(f"a {guard.kind} guard needs a source")
    return guard.source


RENDERERS: Final[dict[str, Callable[[Guard, Reader], None]]] = {
    "TYPE": _type,
    "IS": _is,
    "EQ": _equal,
    "CONTENTS": _equal,
    "LEN": _length,
    "KEYS": _keys,
    "HAS": _membership,
    "LACKS": _membership,
    "ABSENT": _absent,
    "MRO": _mro,
    "TENSOR": _tensor,
    "STRIDE": _stride,
    "FACT": _fact,
    "CODE": _code,
    "SAME": _same,
    "DISTINCT": _distinct,
    "UNSET": _unset,
    "MODE": _mode,
    "AMBIENT": _ambient,
    "CONDITION": _condition,
}
