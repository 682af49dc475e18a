"""Spent histories: tensors whose tape was swept where it was made, inside a compiled function.

Takes a tensor without history, the name that its node would have and the leaves that its tape leads to; gives
it a node that raises what eager's raises when the tape behind it is asked for gradients again. One idea:
nothing else of that tape can matter to anybody, since all that it saved is gone.
"""

from __future__ import annotations

from typing import Any

from weft.core.once import once
from weft.tensor.base import Tensor
from weft.tensor.tape import FREED, RefusingNode, next_sequence


class SpentNode(RefusingNode):
    """Behind a tensor whose history was freed."""

    __slots__ = ()


@once
def spent_class(name: str) -> type[SpentNode]:
    return type(name, (SpentNode,), {"__slots__": (), "__module__": SpentNode.__module__})


def spend(tensor: Tensor, name: str, *leaves: Tensor) -> None:
    """Puts a spent node of this name between the tensor and the leaves. Spelt out (as `node_between` with
    nothing to ask): each call of a small compiled step ends with it.
    """
    node: Any = object.__new__(spent_class(name))
    node._seq = next_sequence()
    node.next, node.params = leaves, (FREED,)
    node.saved = node.slots = node.versions = node.hooks = None
    node.types = tuple([fact for leaf in leaves for fact in (leaf.array.shape, leaf.array.dtype)])
    tensor.node, tensor.index, tensor.tracked = node, 0, True
