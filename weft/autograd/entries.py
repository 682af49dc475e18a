"""What the reverse-mode transforms share: entering a function's arguments, and leaving with its results.

Takes the arguments of a function that is to be differentiated, gives tracked stand-ins (`entered`); takes
its results, gives them outside of the graph unless somebody beyond the transform still follows it.

# Note [Levels without wrappers]
The tape is one for all levels. An argument that is tracked already enters as a node that passes gradients
on, so that an outer transform, or the user's own backward, sees through; any other enters as a leaf that
nobody else knows. When a transform has ended, nobody asks for gradients with respect to its leaves any more.
What it gave may still have them in its history, so the edges that lead to nothing else are taken out
(`pruned`), and so is what was saved for them alone: no sweep follows them in vain, or minds that it was
written since, and a gradient that depends on nothing but such leaves cannot be differentiated. What `vjp`
gave asks later, and puts them back while it runs (`whole`). A recorder that sees the history of fakes tells
the leaves by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.autograd.batched import materialised
from weft.autograd.dual import OWNER, DualTensor, dual, plain_parts
from weft.autograd.reverse import cut, is_tracked
from weft.core import modes
from weft.core.trees import flatten
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.base import Tensor
from weft.tensor.meta import faking
from weft.tensor.saved import drop_unread
from weft.tensor.tape import transforming
from weft.tensor.wrapper import Wrapper, entry

if TYPE_CHECKING:
    from weft.tensor.tape import Node


NOT_A_TENSOR = "Thing passed to transform API must be Tensor, got {kind}"
Cuts = list[tuple[Any, tuple[Any, ...]]]
"""Nodes, with the edges that they had, what they had saved, and its versions."""


class Differentiation:
    """One run of a function that is being differentiated: its entries, and what to do with what comes out."""

    __slots__ = ("connected", "running", "token", "mark")

    def __init__(self) -> None:
        self.running = False
        self.connected = modes.grad_enabled() and not modes.modes().inference
        self.token: Any = None
        self.mark: Any = None

    def __enter__(self) -> Differentiation:
        self.token = modes.enter(grad=True, inference=False)
        self.mark = transforming.set(True)
        self.running = True
        return self

    def __exit__(self, *_error: object) -> None:
        self.running = False
        transforming.reset(self.mark)
        modes.leave(self.token)

    def enter(self, value: object) -> Tensor:
        """A tracked stand-in for an argument."""
        if not isinstance(value, Tensor):
            raise ValueError(NOT_A_TENSOR.format(kind=type(value)))
        if not value.is_floating_point() and not value.is_complex():
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self._enter(materialised(value))

    def _enter(self, value: Any) -> Tensor:
        if isinstance(value, DualTensor):
            return dual(self._enter(value.primal), value.tangent, value.level)
        if isinstance(value, Wrapper):
            return value.rebuilt(self._enter)
        made = entry(value, self.connected and is_tracked(value))
        if made.node is None:
            made.__dict__[OWNER] = self
        return made

    def followed(self, tensors: Iterable[Tensor]) -> bool:
        """Whether gradients can flow from these tensors beyond this run: to anything but its own leaves and
        those of runs that have ended.
        """
        if not self.connected:
            return False
        stack: list[Any] = []
        for part in plain_parts(tensors):
            if part.tracked and part.node is None:
                stack.append(part)
            elif part.tracked:
                if not part.node.next:
                    return True
                stack += [target for target in part.node.edges_from(part.index) if target is not None]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if isinstance(node, Tensor):
                owner = node.__dict__.get(OWNER)
                if owner is None or (owner is not self and owner.running):
                    return True
                continue
            if id(node) not in seen:
                seen.add(id(node))
                if not node.next:
                    return True  # the end of what a capture sees of a tape from outside
                stack += [target for target in node.next if target is not None]
        return False

    def pruned(self, tensors: Iterable[Any]) -> Cuts:
        """Takes edges to nothing but leaves of runs that have ended out of the tensors' history."""
        if not self.connected or faking(modes.current()):
            return []
        parts = plain_parts([value for value in tensors if isinstance(value, Tensor)])
        stack: list[tuple[Any, bool]] = [
            (part.node, False) for part in parts if part.tracked and part.node is not None
        ]
        leading: dict[Any, bool] = {}
        cuts: Cuts = []
        while stack:
            node, opened = stack.pop()
            if opened:
                live = [target is None or leading.get(target, True) for target in node.next]
                leading[node] = not node.next or any(
                    target is not None and useful for target, useful in zip(node.next, live, strict=True)
                )
                if leading[node] and not all(live):
                    cuts.append((node, _held(node)))
                    node.next = tuple(
                        [target if useful else None for target, useful in zip(node.next, live, strict=True)]
                    )
                    drop_unread(node)
            elif node not in leading:
                if node._seq == LEAF_SEQUENCE:
                    owner = node.__dict__.get(OWNER)
                    leading[node] = owner is None or owner.running
                    continue
                leading[node] = True
                stack.append((node, True))
                stack += [(target, False) for target in node.next if target is not None]
        return cuts

    def left(self, tree: object) -> Any:
        """Results as the caller gets them: outside of the graph, unless it reaches beyond this run."""
        leaves, build = flatten(tree)
        return build([self._left(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves])

    def _left(self, tensor: Tensor) -> Tensor:
        return tensor if self.followed([tensor]) else cut(tensor)


@contextmanager
def whole(cuts: Cuts) -> Iterator[None]:
    """The history as it was before edges were taken out of it."""
    before = [_held(node) for node, _ in cuts]
    for node, held in cuts:
        _hold(node, held)
    try:
        yield
    finally:
        for (node, _), held in zip(cuts, before, strict=True):
            _hold(node, held)


def _held(node: Node) -> tuple[Any, ...]:
    return node.next, node.saved, node.versions


def _hold(node: Node, held: tuple[Any, ...]) -> None:
    """Gives a node its edges back, and what it had saved unless a sweep has freed it since."""
    node.next = held[0]
    if node.saved is not None:
        node.saved, node.versions = held[1:]
