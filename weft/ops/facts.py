"""The facts of an op: what its record may say, each with its type.

`OpFacts` are the keyword arguments of `Op` and of every family; a field that a record leaves out has a value
in `DEFAULTS`. One idea: an op of which nothing is known is taken to refuse data, to draw, to share memory and
to be costly, so what is left out is never wrong, only slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Literal, TypedDict

from weft.core.dtypes import dtype
from weft.core.records import record

Rule = Callable[..., Any]


class Kind(Enum):
    """What sort of op this is."""

    POINTWISE = "pointwise"
    REDUCE = "reduce"
    VIEW = "view"
    CONTRACT = "contract"
    INDEX = "index"
    RANDOM = "random"
    CREATE = "create"
    COMPOSITE = "composite"


Refuses = Literal["nothing", "zero divisors", "integers", "anything"]
"""Which data make a kernel raise, of types that the type rule takes: an integer divisor of zero, where the
result is an integer; some integers or truths (indices, labels, counts, masks), and no floating point numbers.
"""


@record(frozen=True, slots=True)
class Placing:
    """How the in-place form of an op puts values in places of memory that overlaps itself."""

    repeats: bool = False
    """Whether PyTorch lets it write to repeated dimensions (`expand`)."""
    whole: bool = False
    """Whether it writes every element."""
    deprecated: tuple[str, str] | None = None
    """The method and the example that PyTorch's warning names, where repeated dimensions are deprecated."""


class Joint:
    """A gradient rule for all inputs at once: `fn(needs, g, out, *params) -> one gradient per tensor`."""

    __slots__ = ("function",)

    def __init__(self, function: Rule) -> None:
        self.function = function


def joint(function: Rule) -> Joint:
    return Joint(function)


class OpFacts(TypedDict, total=False):
    """Every field of a record but its name, kind and signature, and what computes it: kernel, type rule,
    promotion or body.
    """

    # Gradients: see Note [Calling conventions] in `weft.ops.record`
    vjp: tuple[Rule | None, ...] | Rule | Joint | None
    jvp: Rule | None
    batch: Rule | None
    unbatchable: str | None  # the error under vmap, where results would differ in shape, or are Python's own
    outputs_read: tuple[int, ...] | None  # by the vjp; None: all
    conjugates: bool  # see Note [Complex gradients]
    amp: str | None
    # What a call does
    refuses: Refuses | None  # None: anything, or for a composite what the ops in its body refuse
    indexes: Callable[..., Any] | None  # triples of arguments: indices, the size they index, if below 0, too
    draws: bool | None  # whether it moves a generator on; None: yes, or as the ops in its body
    shares_memory: bool  # whether a result may lie in the memory of an argument, or be one
    reads_elements: bool  # False: it asks tensors for their shape, dtype and device alone
    apart: bool  # whether it writes here and there while it reads: what it reads must lie elsewhere
    placing: Placing | None
    # What a result is like
    elementwise: bool  # whether each element depends on those in its place alone
    exact: bool  # whether an element has the same bits whatever lies beside it
    uniform: bool  # whether all elements are the same
    row_major: bool  # whether row-major arguments give a row-major result
    returns: Any  # a named tuple class, where PyTorch gives one
    several: bool  # a view op with a tuple of results
    reshapes: bool  # whether a result has the elements of the first operand, in their order, in another shape
    stream: str | None  # what a sampler draws: a name that `weft.ops.philox.blocks` knows
    overloads: tuple[tuple[str, str], ...]  # for type checkers: signatures with their results
    # Halves
    unrounded: tuple[int, ...]  # operands that are taken in float32 where they are single numbers
    rounded: tuple[int, ...]  # numbers that are rounded as operands are
    stepwise: tuple[dtype, ...]  # halves that are rounded after each step of the formula, as in PyTorch
    # Code and cost
    cheap: bool  # whether it may be computed again instead of saved
    emit: Any
    lowering: str | None  # the module `weft.native.lower....` that has its rule
    native_above: (
        bool | Callable[..., bool]
    )  # whether large arrays are left to machine code, or for which arguments
    overwrites: (
        bool  # whether the kernel may leave its result in its first operand, though it has no such form
    )
    trusted: bool
    # Names and forms
    namespace: str
    aliases: tuple[str, ...]
    method: bool | None  # None: unless it has a namespace
    function: bool
    inplace: bool | str  # "exact": the tensor must have the result's dtype
    out: Any  # as `inplace`, or a check of what `out=` is given
    of_numbers: bool  # whether it takes numbers alone, too
    node: str | None  # the class of its node on the tape
    node_name: Callable[[Any], str] | None  # what a node is called, where that depends on the call
    samples: Callable[..., Iterable[Any]] | None
    doc: str


DEFAULTS: Final[OpFacts] = {
    "vjp": None, "jvp": None, "batch": None, "unbatchable": None, "outputs_read": None,
    "conjugates": False, "amp": None,
    "refuses": None, "indexes": None, "draws": None, "shares_memory": True, "reads_elements": True,
    "apart": False, "placing": None,
    "elementwise": False, "exact": False, "uniform": False, "row_major": False, "returns": None,
    "several": False, "reshapes": False, "stream": None, "overloads": (),
    "unrounded": (), "rounded": (), "stepwise": (),
    "cheap": False, "emit": None, "lowering": None, "native_above": False, "overwrites": False,
    "trusted": False,
    "namespace": "", "aliases": (), "method": None, "function": True, "inplace": False, "out": False,
    "of_numbers": False, "node": None, "node_name": None, "samples": None, "doc": "",
}  # fmt: skip
