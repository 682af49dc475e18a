"""Counting floating point operations of products and convolutions, by module, in forward and in backward.

    with FlopCounterMode() as counter:
        model(x).sum().backward()
    counter.get_total_flops()

A mode below autograd sees every operator; those with a formula are counted for all modules that run then. A
formula takes what the operator takes, with shapes for tensors, and `out_shape`.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Final, Self

from weft.core.trees import tree_map
from weft.tensor.base import Tensor
from weft.tensor.overloads import aten
from weft.utils._python_dispatch import TorchDispatchMode
from weft.utils.module_tracker import GLOBAL, ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

Shape = Sequence[int]
Formula = Callable[..., int]
flop_registry: Final[dict[Any, Formula]] = {}
"""Formulas by operator."""


def shapes(value: Any) -> Any:
    """Nested data with shapes in place of tensors."""
    return tree_map(lambda leaf: tuple(leaf.shape) if isinstance(leaf, Tensor) else leaf, value)


def shape_wrapper(formula: Formula) -> Formula:
    """A formula of shapes as one of tensors."""

    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        return formula(*shapes(args), out_shape=shapes(out_val), **shapes(kwargs))

    return counted


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Decorator: the function counts calls of these operators. It is given shapes, or (`get_raw`) tensors and
    `out_val`.
    """

    def register(formula: Formula) -> Formula:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not hasattr(target, "overloads") and not callable(target):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


# -- formulas ------------------------------------------------------------------------------------------------
@register_flop_formula(aten.mm)
def mm_flop(a_shape: Shape, b_shape: Shape, *_rest: Any, **_more: Any) -> int:
    """A product of matrices."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


@register_flop_formula(aten.addmm)
def addmm_flop(_bias: Shape, a_shape: Shape, b_shape: Shape, *_rest: Any, **_more: Any) -> int:
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, *_rest: Any, **_more: Any) -> int:
    """A product of batches of matrices."""
    return 2 * prod(a_shape) * b_shape[2]


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(_bias: Shape, a_shape: Shape, b_shape: Shape, *_rest: Any, **_more: Any) -> int:
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """A convolution: one product with a filter for each place of the smaller side."""
    places = prod((x_shape if transposed else out_shape)[2:])
    return 2 * x_shape[0] * places * prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool = False,
    *_rest: Any,
    out_shape: Shape,
    **_more: Any,
) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_forward)
def conv_forward_flop(x_shape: Shape, w_shape: Shape, *_rest: Any, out_shape: Shape, **_more: Any) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape)


@register_flop_formula(aten.convolution_input)
def conv_input_flop(grad_shape: Shape, w_shape: Shape, *_rest: Any, **_more: Any) -> int:
    return conv_flop_count(grad_shape, w_shape, (), transposed=True)


@register_flop_formula(aten.convolution_weight)
def conv_weight_flop(grad_shape: Shape, x_shape: Shape, w_shape: Shape, *_rest: Any, **_more: Any) -> int:
    """As PyTorch counts it, which takes no notice of groups here."""
    return 2 * prod(grad_shape) * x_shape[1] * prod(w_shape[2:])


# -- printing ------------------------------------------------------------------------------------------------
suffixes: Final = ("", "K", "M", "B", "T")


def get_suffix_str(number: int) -> str:
    """The suffix with which a number has at most three digits or so before the point."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: float, suffix: str) -> str:
    """`12.345K` for 12345 and "K"."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: float, denom: float) -> str:
    """`33.33%` for 1 of 3."""
    return "0%" if denom == 0 else f"{num / denom:.2%}"


HEADER: Final = ("Module", "FLOP", "% Total")


def table_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows under the header: names to the left, numbers to the right."""
    lines = [HEADER, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]

    def text(cells: Sequence[str]) -> str:
        first, *numbers = cells
        words = [first.ljust(widths[0]), *(n.rjust(w) for n, w in zip(numbers, widths[1:]))]
        return "  ".join(words)

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([text(HEADER), rule, *(text(row) for row in lines[1:])])


# -- the mode ------------------------------------------------------------------------------------------------
class FlopCounterMode:
    """Counts the operations of what runs inside; prints a table at the end, unless `display` is False.

    `custom_mapping` has further formulas by operator; `depth` is how deep the table goes.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.flop_registry = {
            **flop_registry,
            **{
                target: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
                for target, formula in (custom_mapping or {}).items()
            },
        }
        self.mod_tracker = ModuleTracker()
        self.mode: _Counting | None = None

    def get_total_flops(self) -> int:
        """How many there were."""
        return sum(self.flop_counts[GLOBAL].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module, "Global" among them, and operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, their operations, and what part of all these are."""
        depth = self.depth if depth is None else 999999 if depth < 0 else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)
        values: list[list[str]] = []
        is_whole = False  # one module alone may stand for all
        for name in sorted(self.flop_counts):
            if name == GLOBAL:
                continue
            level = name.count(".") + 1
            if level > depth:
                continue
            is_whole = is_whole or sum(self.flop_counts[name].values()) >= total
            values += self._rows(name, level - 1, total, suffix)
        if GLOBAL in self.flop_counts and not is_whole:
            values = [[f" {row[0]}", *row[1:]] for row in values]
            values = self._rows(GLOBAL, 0, total, suffix) + values
        return table_text(values or [[GLOBAL, "0", "0%"]])

    def _rows(self, name: str, level: int, total: int, suffix: str) -> list[list[str]]:
        counts, pad = self.flop_counts[name], " " * level

        def row(label: str, count: int) -> list[str]:
            number = convert_num_with_suffix(count, suffix) if suffix else str(count)
            return [label, number, convert_to_percent_str(count, total)]

        found = [row(pad + name, sum(counts.values()))]
        return found + [row(f"{pad} - {operator}", count) for operator, count in counts.items()]

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        assert self.mode is not None
        self.mode.__exit__(*error)
        self.mode = None
        self.mod_tracker.__exit__(*error)
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, packet: Any, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        formula = self.flop_registry.get(packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][packet] += count
        return out


class _Counting(TorchDispatchMode):
    """The mode of a counter."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = getattr(func, "overloadpacket", func)
        if packet not in self.counter.flop_registry and hasattr(func, "decompose"):
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        return self.counter._count_flops(packet, func(*args, **kwargs), args, kwargs)
