"""Misses: what a failed guard says about the next capture (automatic dynamic shapes).

Takes guards and the call that they did not let through; gives the sources whose numbers changed, which are
symbols from then on. One idea: what changed once will change again.

# Note [Wild values]
    print(f"loss {loss.item():.3f}")      the text depends on a number that is another one in every call
Symbols do not help where code needs the value itself, and an entry for each value would soon be one too many.
So a float, or a text that a resumed frame was given, that made an entry miss is called wild: code that asks
for its value breaks the graph there, and runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

from weft.capture.bytecode.effects import STACK
from weft.capture.guards import Guard, explain_miss, fetching, shown, wild
from weft.capture.sources import Ref, fetch, local
from weft.core.counters import count
from weft.core.interrupts import let_through
from weft.tensor.base import Tensor


def changed_by(
    guards: Iterable[Guard], function: Any, arguments: dict[str, Any], dynamic: bool | None
) -> set[str]:
    """The sizes and numbers that made these guards fail, where it is left to us what is a symbol."""
    if dynamic is not None:
        return set()
    return set().union(*[changed_sources(guard, function, arguments) for guard in guards])


def wild_by(misses: list[Guard], function: Any, arguments: dict[str, Any], dynamic: bool | None) -> set[str]:
    """The marks of values that have made entries miss which ask for them."""
    found = set()
    for source in [source for guard in misses for source in guard.exact_sources()]:
        try:
            value = fetch(source, function, arguments)
        except Exception as error:
            let_through(error)
            continue
        if type(value) is float or (type(value) is str and str(source).startswith(ON_THE_STACK)):
            found.add(wild(source))
        elif type(value) is int and dynamic is None:
            found.add(shown(source))
    return found


ON_THE_STACK = str(local(STACK)).removesuffix("']")


def sizes_given(names: Sequence[str], values: Sequence[Any]) -> set[str]:
    """The sizes that only running an instruction could tell: the first one of what it has put on the stack,
    or of each of several tensors. They are others in the next call."""
    top = max([place for place, name in enumerate(names) if name.startswith(STACK)], default=None)
    if top is None:
        return set()
    source, given = local(names[top]), values[top]
    several = type(given) is tuple
    pairs = [(source.item(n), each) for n, each in enumerate(given)] if several else [(source, given)]
    return {str(each.size(0)) for each, value in pairs if isinstance(value, Tensor) and value.dim()}


def is_gone(guard: Guard) -> bool:
    """Whether the guard can never hold again: the object that it asks for is no more."""
    held = guard.payload
    return isinstance(held, Ref) and held.weak is not None and held() is None


def changed_sources(guard: Guard, function: Any, arguments: dict[str, Any]) -> set[str]:
    """The sizes and numbers whose change made this guard fail, as the text of their sources."""
    read = fetching(function, arguments)
    try:
        changed = guard.changed(read)
    except Exception as error:
        let_through(error)
        return set()
    return set() if guard.holds(read) else changed


def failing(guards: Iterable[Guard], function: Any, arguments: dict[str, Any]) -> list[Guard]:
    """The guards that do not hold."""
    read = fetching(function, arguments)
    return [guard for guard in guards if not guard.holds(read)]


def apart(guards: Iterable[Guard], function: Any, arguments: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The numbers, sizes and objects whose values made guards fail: what is asked for, and what was found."""
    read = fetching(function, arguments)
    found: dict[str, tuple[str, str]] = {}
    for guard in guards:
        try:
            found |= guard.apart(guard.found(read))
        except Exception as error:
            let_through(error)
    return found


# Note [Siblings]
# Guards say all that an entry relies upon, so it serves every function of its code. A model whose layers are
# compiled one by one, each by a `compile` of its own, captures what they have in common once.
def are_siblings(first: Any, second: Any) -> bool:
    """Whether two contexts compile alike."""
    given, other = first.options, second.options
    return (
        bool(given)
        and not given["options"]
        and given == other
        and given["backend"] is other["backend"]
        and not (first.on_entry or second.on_entry)
    )


def adopted(contexts: Iterable[Any], own: Any, function: FunctionType, arguments: dict[str, Any]) -> Any:
    """An entry for this call that a sibling of the context has made; None where there is none.

    Entries that end in a break go on in their own context, and are left there.
    """
    key = id(function.__code__), id(function.__globals__)
    for context in list(contexts):
        cache = None if context is own else context.caches.get(key)
        if cache is None or not cache.entries or not are_siblings(own, context):
            continue
        for installed in cache.entries:
            entry = installed.entry
            whole = entry.stop is None and entry.reason is None and not entry.kept and not installed.streak
            if whole and explain_miss(entry.guards, function, arguments) is None:
                count("siblings", "entries")
                return entry
    return None
