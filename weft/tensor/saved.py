"""Saved-tensor hooks: what a node holds when the user packs what autograd saves."""

from __future__ import annotations

from typing import Any

from weft.tensor.base import Tensor, wrap
from weft.tensor.plan import OUT, Plan
from weft.tensor.tape import Node


class Packed:
    """Stands for `node.saved` under hooks: packed values and the hook that unpacks them."""

    __slots__ = ("values", "unpack")

    def __init__(self, values: tuple[Any, ...], unpack: Any) -> None:
        self.values, self.unpack = values, unpack

    def tensors(self, _node: Node) -> tuple[Any, ...]:
        return tuple(self.unpack(v.value) if isinstance(v, _Item) else v for v in self.values)

    def arrays(self, node: Node) -> tuple[Any, ...]:
        return tuple(t.array if isinstance(t, Tensor) else t for t in self.tensors(node))


class _Item:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def pack_saved(node: Node, plan: Plan, bound: tuple[Any, ...], outputs: list[Tensor], mode: Any) -> None:
    """Runs the innermost pack hook over what the node saved, where hooks are active."""
    if not mode.saved_hooks or type(node.saved) is not tuple:
        return
    pack, unpack = mode.saved_hooks[-1]
    packed: list[Any] = []
    for source, value in zip(plan.saved, node.saved, strict=True):
        if value is None or not hasattr(value, "dtype"):
            packed.append(value)
        else:
            tensor = bound[source] if source != OUT else wrap(value)
            packed.append(_Item(pack(tensor)))
    node.saved = Packed(tuple(packed), unpack)
    node.versions = None
