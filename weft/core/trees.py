"""Trees of containers: flatten nested tuples, lists and dicts into leaves and build them back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def sequence_like(value: Any, items: list[Any]) -> Any:
    """These items in a tuple, list or named tuple like the value."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def flatten(tree: object) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of a tree in order, and the function that builds an equal tree from other leaves."""
    leaves: list[Any] = []

    def visit(value: object) -> Callable[[Any], Any]:
        if isinstance(value, dict):
            parts = {key: visit(item) for key, item in value.items()}
            if isinstance(value, defaultdict):
                factory = value.default_factory
                return lambda take: defaultdict(factory, {key: part(take) for key, part in parts.items()})
            kind = OrderedDict if isinstance(value, OrderedDict) else dict
            return lambda take: kind((key, part(take)) for key, part in parts.items())
        if isinstance(value, (tuple, list, deque)):
            items = [visit(item) for item in value]
            if _is_namedtuple(value):
                named: Any = type(value)
                return lambda take: named(*[item(take) for item in items])
            sequence = (
                type(value)
                if type(value) in (tuple, list, deque)
                else tuple
                if isinstance(value, tuple)
                else list
            )
            return lambda take: sequence([item(take) for item in items])
        leaves.append(value)
        return next

    build = visit(tree)
    return leaves, lambda values: build(iter(values))


def tree_map(function: Callable[[Any], Any], tree: object) -> Any:
    """The tree with `function` applied to each leaf."""
    leaves, build = flatten(tree)
    return build([function(leaf) for leaf in leaves])
