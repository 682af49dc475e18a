"""A node: one line of a graph.

Takes an op code, a target and arguments, in which other nodes may stand at any depth; gives the value's name,
its users and its inputs. One idea: arguments are written only through `args` and `kwargs`, so that `users` is
always the exact reverse of what the arguments say.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.core.types import Size
from weft.graph.names import Paths

if TYPE_CHECKING:
    from weft.graph.graph import Graph

OP_CODES: Final = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
READ_FROM: Final = "read_from"
"""In `meta` of a number that is an input: where it was read, as text, and by which function."""
SYMBOL: Final = "symbol"
"""In `meta` of a placeholder that is a float: the symbol that stands for it in sizes."""


class AnyGraph:
    """What `Graph` derives from, for modules that it imports itself."""

    __slots__ = ()


def map_arg(value: object, function: Callable[[Node], Any]) -> Any:
    """The argument with `function` applied to each node in it."""
    if isinstance(value, Node):
        return function(value)
    handler = _CONTAINERS.get(type(value))
    if handler is not None:
        return handler(value, function)
    if isinstance(value, tuple):
        if not any(True for _ in nodes_in(value)):
            return value
        items = [map_arg(item, function) for item in value]
        kind: Any = type(value)
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    for base in (list, dict):
        if isinstance(value, base) and any(True for _ in nodes_in(value)):
            return _CONTAINERS[base](value, function)
    return value


def _map_tuple(value: tuple[Any, ...], function: Callable[[Node], Any]) -> tuple[Any, ...]:
    items, same = [], True
    for item in value:
        kind = type(item)
        made = function(item) if kind is Node else item if kind in _ATOMS else map_arg(item, function)
        items.append(made)
        same = same and made is item
    return value if same else tuple(items)


def _map_list(value: list[Any], function: Callable[[Node], Any]) -> list[Any]:
    return [map_arg(item, function) for item in value]


def _map_dict(value: dict[Any, Any], function: Callable[[Node], Any]) -> dict[Any, Any]:
    return {key: map_arg(item, function) for key, item in value.items()}


def _map_slice(value: slice, function: Callable[[Node], Any]) -> slice:
    return slice(map_arg(value.start, function), map_arg(value.stop, function), map_arg(value.step, function))


_ATOMS: Final = frozenset({int, str, float, bool, type(None)})
_CONTAINERS: Final[dict[type, Callable[..., Any]]] = {
    tuple: _map_tuple, list: _map_list, dict: _map_dict, slice: _map_slice,
    int: lambda value, _function: value, str: lambda value, _function: value,
    float: lambda value, _function: value, bool: lambda value, _function: value,
    type(None): lambda value, _function: value, Size: _map_tuple,
}  # fmt: skip


def map_aggregate(value: object, function: Callable[[Any], Any]) -> Any:
    """The argument with `function` applied to each thing in it that is no container."""
    if isinstance(value, tuple):
        items = [map_aggregate(item, function) for item in value]
        kind: Any = type(value)
        return kind(*items) if hasattr(kind, "_fields") else tuple(items)
    if isinstance(value, list):
        return [map_aggregate(item, function) for item in value]
    if isinstance(value, dict):
        return {key: map_aggregate(item, function) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*[map_aggregate(item, function) for item in (value.start, value.stop, value.step)])
    return function(value)


SIDE_EFFECTS: Final[set[Any]] = set()
"""Functions whose calls users want to stay."""


def has_side_effect(function: Any) -> Any:
    """Decorator: calls of the function stay in graphs though nobody reads what they give."""
    SIDE_EFFECTS.add(function)
    return function


def nodes_in(value: object) -> list[Node]:
    """The nodes of an argument, in order, each as often as it stands there."""
    found: list[Node] = []
    _collect(value, found)
    return found


def _collect(value: object, found: list[Node]) -> None:
    if isinstance(value, Node):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, slice):
        _collect((value.start, value.stop, value.step), found)


def _own(value: object, inputs: dict[Node, None]) -> Any:
    """The argument with lists and dicts copied, as the caller may change theirs; notes its nodes."""
    if isinstance(value, Node):
        inputs[value] = None
    elif type(value) is list:
        return [_own(item, inputs) for item in value]
    elif type(value) is dict:
        return {key: _own(item, inputs) for key, item in value.items()}
    elif type(value) is tuple:
        items, same = [], True
        for item in value:
            kind = type(item)
            if kind is Node:
                inputs[item] = None
            elif kind not in _ATOMS:
                own = _own(item, inputs)
                same = same and own is item
                item = own
            items.append(item)
        return value if same else tuple(items)
    elif isinstance(value, (tuple, list, dict, slice)):
        inputs.update(dict.fromkeys(nodes_in(value)))
    return value


class Node:
    """One operation of a `Graph`. Made by the graph's methods only.

    `op` says what `target` is: a function, a method's name, an attribute's or a submodule's path, a
    parameter's name. `meta["val"]` holds the value's type (a fake tensor or a scalar), `meta["source"]` the
    user's (file, line, function), perhaps the text that stands there, and of what a gradient rule has called
    the (file, line) of the op whose gradient it is.
    """

    __slots__ = (
        "graph", "name", "op", "target", "_args", "_kwargs", "_inputs", "users", "type", "meta",
        "_prev", "_next", "_erased", "__weakref__",
        "__dict__",  # what passes of users keep there
    )  # fmt: skip
    graph: Graph
    name: str
    op: str
    target: Any
    users: dict[Node, None]
    type: Any
    meta: dict[str, Any]
    _inputs: dict[Node, None]
    _prev: Node
    _next: Node

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: object = None,
    ) -> None:
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.users = {}
        self.type = return_type
        self.meta = {}
        self._prev = self._next = self
        self._erased = False
        inputs: dict[Node, None] = {}
        self._args: tuple[Any, ...] = _own(args, inputs)
        self._kwargs: dict[str, Any] = {key: _own(kwargs[key], inputs) for key in kwargs} if kwargs else {}
        self._inputs = inputs
        for each in inputs:
            each.users[self] = None

    # -- arguments -------------------------------------------------------------------------------------------
    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, value: Any) -> None:
        self._set(tuple(value), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._set(self._args, dict(value))

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs: dict[Node, None] = {}
        args, kwargs = _own(args, inputs), {key: _own(value, inputs) for key, value in kwargs.items()}
        for old in self._inputs:
            if old not in inputs:
                old.users.pop(self, None)
        for new in inputs:
            new.users[self] = None
        self._args, self._kwargs, self._inputs = args, kwargs, inputs

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes it reads, each once, in order of appearance."""
        return list(self._inputs)

    def update_arg(self, index: int, value: object) -> None:
        args = list(self._args)
        args[index] = value
        self._set(tuple(args), self._kwargs)

    def insert_arg(self, index: int, value: object) -> None:
        self._set((*self._args[:index], value, *self._args[index:]), self._kwargs)

    def update_kwarg(self, key: str, value: object) -> None:
        self._set(self._args, {**self._kwargs, key: value})

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Reads `new_input` wherever it read `old_input`."""
        change = {old_input: new_input}
        self._set(
            map_arg(self._args, lambda node: change.get(node, node)),
            map_arg(self._kwargs, lambda node: change.get(node, node)),
        )

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Makes the users read `replace_with` instead; gives the users that changed."""
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        if propagate_meta:
            for key, value in self.meta.items():
                replace_with.meta.setdefault(key, value)
        return changed

    # -- place -----------------------------------------------------------------------------------------------
    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def prepend(self, node: Node) -> None:
        """Moves `node` right before this one."""
        if node.graph is not self.graph:
            raise RuntimeError(f"{node.name} belongs to another graph than {self.name}")
        if node is self:
            return
        node._unlink()
        before = self._prev
        before._next, node._prev, node._next, self._prev = node, before, self, node

    def append(self, node: Node) -> None:
        """Moves `node` right behind this one."""
        if node is not self and node is not self._next:
            self._next.prepend(node)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    # -- facts -----------------------------------------------------------------------------------------------
    @property
    def stack_trace(self) -> str | None:
        """The user's line, as a traceback shows it; None where it is not known."""
        told: str | None = self.meta.get("stack_trace")
        return self.told_source('  File "{}", line {}, in {}', "\n    {}") if told is None else told

    @stack_trace.setter
    def stack_trace(self, text: str | None) -> None:
        self.meta["stack_trace"] = text

    def told_source(self, place: str, text: str) -> str | None:
        """The user's line: its file, number and function in one form, what stands there in another."""
        source = self.meta.get("source")
        if source is None:
            return None
        file, line, function = source[:3]
        code = source[3] if len(source) > 3 else None
        code = linecache.getline(file, line).strip() if code is None else code
        return place.format(file, line, function) + (text.format(code) if code else "")

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node has side effects, so that it stays even if it is unused."""
        return self.target in SIDE_EFFECTS or self.graph.impure(self)

    def _place(self) -> int:
        """How many nodes of its graph stand before it."""
        return next(place for place, node in enumerate(self.graph.nodes) if node is self)

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def format_node(self) -> str:
        """One line in FX's own notation: `%add : [num_users=1] = call_function[target=…](args = …)`."""
        if self.op == "output":
            return f"return {self._args[0]}"
        kind = "" if self.type is None else f"{Paths().of(self.type)} "
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._target_text()}]"
        if self.op == "placeholder":
            return f"{head}(default={self._args[0]})" if self._args else head
        if self.op == "get_attr":
            return head
        kwargs = ", ".join(f"{key}: {_percent(value)}" for key, value in self._kwargs.items())
        return f"{head}(args = {_percent(self._args)}, kwargs = {{{kwargs}}})"

    def _target_text(self) -> str:
        if isinstance(self.target, str):
            return self.target
        path = Paths().of(self.target)
        return path if "." in path else f"builtins.{path}"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        raise TypeError(f"node {self.name} cannot be copied or saved alone; copy or save its graph")


def _percent(value: object) -> str:
    """An argument with `%` before each node."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if type(value) is tuple:
        items = ", ".join(map(_percent, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if type(value) is list:
        return f"[{', '.join(map(_percent, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{key}: {_percent(item)}" for key, item in value.items()) + "}"
    return str(value)
