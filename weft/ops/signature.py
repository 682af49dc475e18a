"""Signatures: the parameters of an op, written as text in PyTorch's terms and read when first needed.

Takes text such as `"input: Tensor, other: Operand, *, alpha: Number = 1"`, gives a `Signature` that binds
arguments, knows which parameters are tensors, and prints itself for generated functions and stubs.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from weft.core.collection import parsed
from weft.core.once import cached

TENSOR: Final = "Tensor"  # must be a tensor
OPERAND: Final = "Operand"  # a tensor or a Python number
OPTIONAL: Final = "MaybeTensor"  # a tensor or None
OPTIONAL_OPERAND: Final = "MaybeOperand"  # a tensor, a number or None
TENSORS: Final = "Tensors"  # a sequence of tensors
SINGLE: Final = frozenset({TENSOR, OPERAND, OPTIONAL, OPTIONAL_OPERAND})
MISSING: Final = object()


class OpParameter:
    """One parameter: name, annotation (one of the words above, or a plain type) and default."""

    __slots__ = ("name", "annotation", "default", "keyword_only", "variadic")

    def __init__(self, name: str, annotation: str, default: Any, keyword_only: bool, variadic: bool) -> None:
        self.name, self.annotation, self.default = name, annotation, default
        self.keyword_only, self.variadic = keyword_only, variadic

    @property
    def is_tensor(self) -> bool:
        return self.annotation in SINGLE


class Signature:
    """The parameters of an op in order; parsing waits until one of its properties is read."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached
    def parameters(self) -> tuple[OpParameter, ...]:
        function = parsed(f"def f({self.text}): ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + [
            *arguments.defaults
        ]
        found = [_parameter(a, d, False, False) for a, d in zip(positional, defaults, strict=True)]
        if arguments.vararg is not None:
            found.append(_parameter(arguments.vararg, None, False, True))
        found += [
            _parameter(a, d, True, False)
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ]
        return tuple(found)

    @cached
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    @cached
    def tensor_slots(self) -> tuple[int, ...]:
        """Positions of the parameters that may hold one tensor."""
        return tuple(i for i, p in enumerate(self.parameters) if p.is_tensor)

    @cached
    def list_slots(self) -> tuple[int, ...]:
        """Positions of the parameters that hold a sequence of tensors."""
        return tuple(i for i, p in enumerate(self.parameters) if p.annotation == TENSORS)

    @cached
    def number_slots(self) -> tuple[int, ...]:
        """Positions of the parameters that hold numbers or sizes, for which a zero-dim tensor may stand."""
        return tuple(
            i for i, p in enumerate(self.parameters) if p.annotation in ("Number", "int", "float", "Shape")
        )

    @cached
    def float_slots(self) -> tuple[int, ...]:
        """Positions of the parameters that hold numbers to compute with."""
        return tuple(i for i, p in enumerate(self.parameters) if p.annotation in ("Number", "float"))

    @cached
    def positional(self) -> int:
        """How many leading parameters may be given by position."""
        return sum(not p.keyword_only for p in self.parameters)

    @cached
    def gradient_slot(self) -> int | None:
        """Position of `requires_grad`, in ops that make leaves."""
        return self.names.index("requires_grad") if "requires_grad" in self.names else None

    @cached
    def input_slots(self) -> tuple[int, ...]:
        """Positions of the parameters that hold tensors, one or several."""
        return tuple(sorted((*self.tensor_slots, *self.list_slots)))

    @cached
    def words(self) -> frozenset[str]:
        """The annotations that occur."""
        return frozenset(p.annotation for p in self.parameters)

    @cached
    def defaults(self) -> tuple[Any, ...]:
        return tuple(p.default for p in self.parameters)

    @cached
    def required(self) -> int:
        """How many leading parameters must be given."""
        return max((i + 1 for i, p in enumerate(self.parameters) if p.default is MISSING), default=0)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All parameters' values in order, defaults filled in. Variadic parameters are given as one
        sequence.
        """
        count = len(args)
        if not kwargs and count >= self.required:
            return args + self.defaults[count:]
        if not kwargs:
            bound = args + self.defaults[count:]
        else:
            values = list(args) + [
                kwargs.pop(n, d) for n, d in zip(self.names[count:], self.defaults[count:], strict=True)
            ]
            if kwargs:
                raise TypeError(f"got an unexpected keyword argument '{next(iter(kwargs))}'")
            bound = tuple(values)
        if any(value is MISSING for value in bound[count:]):
            missing = next(n for n, value in zip(self.names, bound, strict=True) if value is MISSING)
            raise TypeError(f"missing 1 required positional argument: '{missing}'")
        return bound


def _parameter(
    argument: ast.arg, default: ast.expr | None, keyword_only: bool, variadic: bool
) -> OpParameter:
    annotation = ast.unparse(argument.annotation) if argument.annotation is not None else "Any"
    value: Any = MISSING if default is None else ast.literal_eval(default)
    return OpParameter(argument.arg, annotation, value, keyword_only, variadic)


def flatten_variadic(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`f(2, 3)` and `f((2, 3))` mean the same: the variadic values as one flat tuple."""
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return tuple(values[0])
    return values
