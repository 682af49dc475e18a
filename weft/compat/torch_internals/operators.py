"""Higher-order operators by rules, as PyTorch's own tests define them.

Takes a name and rules by dispatch key, gives an operator: a call runs the rule for plain calls. One idea: the
other rules belong to PyTorch's dispatcher, so they are kept and never run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLAIN = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CPU")
"""Keys of rules that say what a plain call does, the first first."""


class HigherOrderOperator:
    """An operator that takes functions, made of rules by dispatch key."""

    def __init__(self, name: str, **_options: Any) -> None:
        self._name = self.__name__ = name
        self.rules: dict[Any, Callable[..., Any]] = {}

    def py_impl(self, key: Any) -> Callable[[Any], Any]:
        """Decorator: the rule for a key."""

        def keep(rule: Any) -> Any:
            self.rules[getattr(key, "__name__", str(key))] = rule
            return rule

        return keep

    py_functionalize_impl = py_autograd_impl = lambda self, rule: rule

    def fallthrough(self, key: Any) -> None:
        """The key has no rule."""

    def name(self) -> str:
        """What the operator is called."""
        return self._name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for key in PLAIN:
            if key in self.rules:
                return self.rules[key](*args, **kwargs)
        raise NotImplementedError(f"{self._name} has no rule for plain calls")

    def __repr__(self) -> str:
        return self._name


PyOperator = HigherOrderOperator
