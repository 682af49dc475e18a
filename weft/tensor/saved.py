"""Saved tensors under hooks, and where nodes were made under anomaly detection.

Takes a new node, lets the innermost pack hook have what it saved, and gives it back through the unpack hook.
One idea: a node under hooks holds `PackedValues` where others hold a plain tuple, and the generated backward
asks it for arrays or tensors.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from weft.core import modes
from weft.core.seams import seams
from weft.tensor.backward import revive
from weft.tensor.base import Tensor, wrap
from weft.tensor.overrides import has_handler
from weft.tensor.plan import OUT, Plan, plan_of
from weft.tensor.tape import Node, saved_arrays

evaluating: ContextVar[Any] = ContextVar("weft_evaluating", default=None)
"""The node whose backward runs now, under anomaly detection: the parent of the nodes that it records."""


class Item:
    """One packed value and the hook that unpacks it."""

    __slots__ = ("value", "unpack", "shape", "dtype")

    def __init__(self, value: Any, unpack: Callable[[Any], Any], array: Any) -> None:
        self.value, self.unpack, self.shape, self.dtype = value, unpack, array.shape, array.dtype

    def array(self) -> Any:
        return self.tensor().array

    def tensor(self) -> Tensor:
        tensor = self.unpack(self.value)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}"
            )
        return tensor


class PackedValues:
    """Stands for `node.saved` under hooks: values in the same order, some of them packed."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def tensors(self, node: Node) -> tuple[Any, ...]:
        return tuple(revive(node, source, unpacked(v)) for source, v in zip(node.saved_sources, self.values))

    def arrays(self, _node: Node) -> tuple[Any, ...]:
        return tuple([unpacked(each) for each in self.values])


def unpacked(value: object) -> Any:
    """A saved value with packed arrays unpacked."""
    if type(value) is Item:
        return value.array()
    if type(value) is tuple or type(value) is list:
        return type(value)([unpacked(each) for each in value])
    return value


def pack_saved(node: Node, plan: Plan, bound: tuple[Any, ...], outputs: list[Tensor], mode: Any) -> None:
    """Notes where the node was made, and runs the innermost pack hook over what it saved, where these are
    active."""
    if mode.anomaly is not None:
        note_origin(node)
    if not mode.saved_hooks or type(node.saved) is not tuple:
        return
    pack, unpack = mode.saved_hooks[-1]
    packed: list[Any] = []
    for source, value in zip(plan.saved, node.saved):
        original = outputs_of_classes(outputs, value) if source == OUT else bound[source]
        packed.append(_packed(value, original, pack, unpack))
    node.saved = PackedValues(tuple(packed))
    node.versions = None


def outputs_of_classes(outputs: list[Tensor], saved: object) -> Any:
    """The outputs whose arrays were saved, without their history, if a class of theirs has a handler: hooks
    are given those.
    """
    if not any(map(has_handler, outputs)):
        return None
    found = [seams.below.shallow(each) for each in outputs]
    return found if type(saved) is tuple else found[0]


def _packed(value: object, original: object, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Any:
    if type(value) is tuple or type(value) is list:
        sources = original if isinstance(original, (tuple, list)) else (None,) * len(value)
        return type(value)(_packed(v, o, pack, unpack) for v, o in zip(value, sources))
    if not hasattr(value, "dtype"):
        return value
    tensor = original if isinstance(original, Tensor) and original.array is value else wrap(value)
    return Item(run_pack(pack, tensor), unpack, value)


def run_pack(pack: Callable[[Any], Any], tensor: Tensor) -> Any:
    """What a pack hook makes of a tensor; it must leave the tensor itself alone."""
    before = _writes(tensor)
    with modes.within(grad=False):
        packed = pack(tensor)
    if _writes(tensor) != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
            "hook cannot be modified "
            "by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
            "need to perform "
            "in-place operations on the input to a pack hook."
        )
    return packed


def _writes(tensor: Tensor) -> int:
    """How often a tensor was written to, as far as is known: recorders do not let hooks ask for it."""
    cell = tensor.cell
    return cell[0] if type(cell) is list else 0


def note_origin(node: Node) -> None:
    """Keeps the user's lines that led to this node, and the node whose backward made it."""
    notes = node.__dict__.setdefault("_metadata", {})
    notes["traceback_"] = traceback.format_list(user_lines())
    parent = evaluating.get()
    if parent is not None:
        notes["parent_"] = parent


def user_lines() -> list[traceback.FrameSummary]:
    """The stack up to the last line outside this library."""
    frames = traceback.extract_stack()
    while frames and _is_ours(frames[-1].filename):
        frames.pop()
    return frames


def _is_ours(filename: str) -> bool:
    return filename.startswith((_HERE, "<weft"))


_HERE = __file__.rpartition("tensor")[0]


class SavedTensor:
    """What `grad_fn._raw_saved_self` gives: one saved tensor, to which hooks can be attached."""

    __slots__ = ("node", "position")

    def __init__(self, node: Any = None, position: int = 0) -> None:
        if node is None:
            raise RuntimeError(
                "Trying to create a SavedTensor object from Python is forbidden; nodes make them for what "
                "they saved"
            )
        self.node, self.position = node, position

    def register_hooks(self, pack_hook: Any = None, unpack_hook: Any = None) -> None:
        """Packs this saved tensor now; it is unpacked when backward needs it."""
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError(
                "register_hooks(): incompatible function arguments. It takes two functions, pack_hook and "
                "unpack_hook."
            )
        values = self.values()
        if values is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values "
                "of the graph are freed when you call .backward() or autograd.grad(). Specify "
                "retain_graph=True if you need to backward through the graph a second time or if you need to "
                "access saved variables after calling backward."
            )
        value = values[self.position]
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if type(value) is self.packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one "
                "pair of hooks is allowed at a time."
            )
        self.pack(values, pack_hook, unpack_hook)

    packed: ClassVar[type] = Item
    """What stands for a value that hooks have packed."""

    def values(self) -> list[Any] | None:
        """All that the node saved; None once it is freed."""
        saved = self.node.saved
        return None if saved is None else list(saved if type(saved) is tuple else saved.values)

    def pack(self, values: list[Any], pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        drop_versions(self.node, self.position)
        values[self.position] = _packed(values[self.position], None, pack, unpack)
        self.node.saved = PackedValues(tuple(values))


def drop_versions(node: Node, position: int) -> None:
    """Stops checking the version of the tensor saved at this position."""
    if node.versions is None:
        return
    pairs = [p for p in zip(node.versions[::2], node.versions[1::2]) if p[0] is not None]
    places = [p for p, _, item in saved_arrays(node) if type(item) is not Item]
    left = [pair for i, pair in enumerate(pairs) if i >= len(places) or places[i] != position]
    node.versions = tuple(x for pair in left for x in pair) or None


def drop_unread(node: Node) -> None:
    """Drops what a node saved for inputs to which it has no edge any more, as if these had never had one."""
    if type(node.saved) is not tuple or node.op is None or not plan_of(node.op).fixed:
        return
    read = plan_of(node.op).saved_for(tuple(target is not None for target in node.next))
    for position, source in enumerate(node.saved_sources):
        if source not in read and hasattr(node.saved[position], "dtype"):
            drop_versions(node, position)
            node.saved = (*node.saved[:position], None, *node.saved[position + 1 :])
