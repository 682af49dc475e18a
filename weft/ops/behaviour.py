"""Behaviour: what a call of an op does besides computing its value.

Takes an op and its arguments with types in place of tensors; says whether the call may refuse data, whether
it draws random numbers, and which arguments it writes. One idea: a record tells for its own kernel, and a
composite does what the ops in its body do, so its body is run on types, and the ops that it calls are noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.types import TensorType
from weft.core.warn import heard
from weft.ops.facts import Kind
from weft.ops.random import drawing
from weft.ops.record import INTERPRETERS, REGISTRY, Op


@record(frozen=True, slots=True)
class Behaviour:
    """What a call does."""

    refuses: bool
    draws: bool
    writes: tuple[int, ...] = ()
    """Positions of parameters."""


PLAIN: Final = {
    (refuses, draws): Behaviour(refuses, draws) for refuses in (False, True) for draws in (False, True)
}
"""What a kernel does, by what its record says."""
KNOWN: Final[dict[Any, Behaviour]] = {}
"""What was found, by op and arguments."""
MOST: Final = 4096
UNTYPED: Final = object()
"""Stands for an argument of which no type is known: no body takes it."""


def behaviour(op: Op, bound: tuple[Any, ...], result: Any = None) -> Behaviour:
    """What a call with these arguments does (all parameters, types for tensors); `result` is its type,
    where the caller knows it.
    """
    if not follows_body(op):
        return PLAIN[_refuses(op, bound, result), op.draws is not False]
    try:
        key: Any = (op, bound)
        found = KNOWN.get(key)
    except TypeError as error:  # an argument that has no hash
        let_through(error)
        key = found = None
    if found is None:
        found = _run(op, bound)
        if key is not None:
            if len(KNOWN) >= MOST:
                KNOWN.clear()
            KNOWN[key] = found
    return found


def follows_body(op: Op) -> bool:
    """Whether what an op does is what the ops in its body do."""
    return op.kind is Kind.COMPOSITE and op.body is not None and (op.refuses is None or op.draws is None)


def depends_on_types(op: Op) -> bool:
    """Whether two calls of an op may behave differently."""
    return op.refuses in ("zero divisors", "integers") or follows_body(op)


def _refuses(op: Op, bound: tuple[Any, ...], result: Any) -> bool:
    """Whether a record lets its kernel raise for some data of these types."""
    if op.refuses == "nothing":
        return False
    if op.refuses == "zero divisors":
        return not isinstance(result, TensorType) or not _is_floating(result)
    if op.refuses == "integers":
        return _is_untyped(bound) or any(
            _is_given(kind) for kind in types_in(bound) if not _is_floating(kind)
        )
    return True


def _is_floating(kind: TensorType) -> bool:
    return bool(kind.dtype.is_floating_point or kind.dtype.is_complex)


def _is_untyped(value: Any) -> bool:
    return value is UNTYPED or (isinstance(value, (tuple, list)) and any(map(_is_untyped, value)))


def _is_given(kind: TensorType) -> bool:
    """Whether data may be the caller's: a body does not refuse the indices that it has found itself."""
    return not isinstance(kind, Probe) or kind.given


def types_in(value: Any) -> Iterator[TensorType]:
    """The types among arguments or results."""
    if isinstance(value, TensorType):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from types_in(item)


class Trace:
    """What the ops in a body do."""

    __slots__ = ("refuses", "draws", "writes")

    def __init__(self) -> None:
        self.refuses = self.draws = False
        self.writes: set[int] = set()

    def note(self, op: Op, bound: tuple[Any, ...], result: Any, writes: bool) -> None:
        found = behaviour(op, bound, result)
        self.refuses = self.refuses or found.refuses
        self.draws = self.draws or found.draws
        written = [bound[0]] if writes else [bound[position] for position in found.writes]
        self.writes.update(place for probe in probes_in(written) for place in probe.places)


class Probe(TensorType):
    """The type of a tensor in a body that is run to see what it does: `places` are the parameters in whose
    memory it may lie, and `given` says whether its elements may be any that the caller likes.
    """

    __slots__ = ("trace", "places", "given")

    def __init__(self, kind: TensorType, trace: Trace, places: frozenset[int], given: bool) -> None:
        super().__init__(kind.shape, kind.dtype, kind.device)
        self.trace, self.places, self.given = trace, places, given

    def __getattr__(self, name: str) -> Any:
        """A method that writes in place, as bodies call those."""
        op = REGISTRY.get(name[:-1]) if name.endswith("_") else None
        if op is None or not (op.inplace or op.placing):
            raise AttributeError(name)

        def write(*args: Any, **kwargs: Any) -> Probe:
            self.trace.note(op, op.signature.bind((self, *args), kwargs), self, True)
            return self

        return write


def probes_in(value: Any) -> Iterator[Probe]:
    return (kind for kind in types_in(value) if isinstance(kind, Probe))


def probed(value: Any, trace: Trace, places: frozenset[int], given: bool = True) -> Any:
    """Types as probes, also those in tuples, lists and named tuples."""
    if isinstance(value, TensorType):
        return Probe(value, trace, places, given)
    if isinstance(value, (tuple, list)):
        return type(value)([probed(item, trace, places, given) for item in value])
    return value


def plain(value: Any) -> Any:
    """Probes as types."""
    if isinstance(value, Probe):
        return TensorType(value.shape, value.dtype, value.device)
    if type(value) is tuple or type(value) is list:
        return type(value)(map(plain, value))
    return value


def _call(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An op that a body calls."""
    bound = op.signature.bind(args, kwargs)
    probes = [*probes_in(bound)]
    trace = probes[0].trace
    writes = op.name.endswith("_") or bool(dict(zip(op.signature.names, bound, strict=True)).get("inplace"))
    if op.kind is Kind.COMPOSITE and op.body is not None:
        before = trace.refuses, trace.draws
        result = op.body(*bound)
        if not follows_body(op):
            trace.refuses, trace.draws = before
            trace.note(op, bound, result, writes)
        return result
    if op.composed:
        trace.note(op, bound, None, writes)
        return probes[0]  # draws have the shape of what they are like
    result = op.on_types(plain(bound))
    trace.note(op, bound, result, writes)
    copies = op.elementwise or op.kind is Kind.VIEW
    given = any(probe.given and (copies or not _is_floating(probe)) for probe in probes)
    lies = [probe.places for probe in probes] if op.shares_memory else []
    return probed(result, trace, frozenset[int]().union(*lies), given)


INTERPRETERS[Probe] = _call


def _run(op: Op, bound: tuple[Any, ...]) -> Behaviour:
    """What the ops in a body do for these arguments: anything, where the body does not run on types."""
    assert op.body is not None
    trace = Trace()
    given = tuple(probed(value, trace, frozenset((place,))) for place, value in enumerate(bound))
    with heard(lambda _text: True):
        try:
            drawing.allowed = False
            op.body(*given)
        except Exception as error:
            let_through(error)
            trace.refuses = trace.draws = True
            trace.writes.update(range(len(bound)))
        finally:
            drawing.allowed = True
    refuses = trace.refuses if op.refuses is None else _refuses(op, bound, None)
    draws = trace.draws if op.draws is None else op.draws
    return Behaviour(refuses, draws, tuple(sorted(trace.writes)))
