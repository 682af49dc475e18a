"""Trees of containers, under PyTorch's names: `tree_map`, `tree_flatten`, `register_pytree_node`.

Takes nested tuples, lists, dicts, named tuples, ordered and default dicts, deques, and what users register;
gives leaves and a `TreeSpec` that builds the like again. One idea: a kind of container is two functions, one
that takes it apart into children and a context, one that puts these together.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_cxx_pytree_dynamo_traceable = False
PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    """How containers of one class are taken apart and put together."""

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None


@dataclass(frozen=True)
class SequenceKey:
    """An item of a list or a tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """An item of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


def _with_keys(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(index), value) for index, value in enumerate(values)]


def _mapping_with_keys(value: Any) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), item) for key, item in value.items()]


SUPPORTED_NODES: dict[type, NodeDef] = {
    tuple: NodeDef(tuple, lambda v: (list(v), None), lambda c, _: tuple(c), lambda v: (_with_keys(v), None)),
    list: NodeDef(list, lambda v: (list(v), None), lambda c, _: list(c), lambda v: (_with_keys(v), None)),
    dict: NodeDef(
        dict,
        lambda v: (list(v.values()), list(v)),
        lambda c, keys: dict(zip(keys, c, strict=True)),
        lambda v: (_mapping_with_keys(v), list(v)),
    ),
    OrderedDict: NodeDef(
        OrderedDict,
        lambda v: (list(v.values()), list(v)),
        lambda c, keys: OrderedDict(zip(keys, c, strict=True)),
        lambda v: (_mapping_with_keys(v), list(v)),
    ),
    defaultdict: NodeDef(
        defaultdict,
        lambda v: (list(v.values()), [v.default_factory, list(v)]),
        lambda c, context: defaultdict(context[0], zip(context[1], c, strict=True)),
        lambda v: (_mapping_with_keys(v), [v.default_factory, list(v)]),
    ),
    deque: NodeDef(
        deque,
        lambda v: (list(v), v.maxlen),
        lambda c, length: deque(c, maxlen=length),
        lambda v: (_with_keys(v), v.maxlen),
    ),
}
_dict_flatten = SUPPORTED_NODES[dict].flatten_fn
_dict_unflatten = SUPPORTED_NODES[dict].unflatten_fn
_dict_flatten_with_keys = SUPPORTED_NODES[dict].flatten_with_keys_fn
_list_flatten, _list_unflatten = SUPPORTED_NODES[list].flatten_fn, SUPPORTED_NODES[list].unflatten_fn
_tuple_flatten, _tuple_unflatten = SUPPORTED_NODES[tuple].flatten_fn, SUPPORTED_NODES[tuple].unflatten_fn
_NAMEDTUPLE = NodeDef(
    tuple,
    lambda v: (list(v), type(v)),
    lambda c, kind: kind(*c),
    lambda v: ([(GetAttrKey(name), getattr(v, name)) for name in v._fields], type(v)),
)
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, dict, OrderedDict, defaultdict, deque})


def is_namedtuple(obj: Any) -> bool:
    """Whether it is an instance, or the class, of named tuples."""
    kind = obj if isinstance(obj, type) else type(obj)
    return is_namedtuple_class(kind)


def is_namedtuple_class(cls: type) -> bool:
    """Whether it is the class of named tuples."""
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    )


is_namedtuple_instance = is_namedtuple


def _definition(tree: Any) -> NodeDef | None:
    found = SUPPORTED_NODES.get(type(tree))
    return _NAMEDTUPLE if found is None and is_namedtuple(type(tree)) else found


@dataclass(init=True, frozen=True, eq=True, repr=False)
class TreeSpec:
    """The shape of a tree, without its leaves."""

    type: Any
    context: Any
    children_specs: list[TreeSpec]
    num_nodes: int = field(default=0, compare=False)
    num_leaves: int = field(default=0, compare=False)
    num_children: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        nodes = 1 + sum(child.num_nodes for child in self.children_specs)
        leaves = sum(child.num_leaves for child in self.children_specs)
        object.__setattr__(self, "num_nodes", nodes)
        object.__setattr__(self, "num_leaves", 1 if self.type is None else leaves)
        object.__setattr__(self, "num_children", len(self.children_specs))

    def __repr__(self, indent: int = 0) -> str:
        prefix = f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, ["
        inner = [child.__repr__(indent + 2) for child in self.children_specs]
        between = ",\n" + " " * (indent + 2)
        return prefix + between.join(inner) + "])"

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of another tree that stand where this one has leaves."""
        if self.type is None:
            return [tree]
        definition = _definition(tree)
        if definition is None or (type(tree) is not self.type and not is_namedtuple(tree)):
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = definition.flatten_fn(tree)
        if self.type in STANDARD_DICT_TYPES:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys!r}, but got {list(tree)!r}.")
            children = [tree[key] for key in keys]
        elif len(children) != len(self.children_specs):
            raise ValueError(
                f"Node arity mismatch; expected {len(self.children_specs)}, but got {len(children)}."
            )
        return [
            part
            for spec, child in zip(self.children_specs, children, strict=True)
            for part in spec.flatten_up_to(child)
        ]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A tree of this shape with these leaves."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec refers to a "
                f"pytree that holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(values))

    def _built(self, values: Any) -> Any:
        if self.type is None:
            return next(values)
        definition = SUPPORTED_NODES.get(self.type, _NAMEDTUPLE)
        return definition.unflatten_fn([child._built(values) for child in self.children_specs], self.context)


class LeafSpec(TreeSpec):
    """The shape of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"

    __hash__ = TreeSpec.__hash__


_LEAF = LeafSpec()
IsLeaf = Callable[[Any], bool] | None


def treespec_leaf() -> LeafSpec:
    """The shape of a leaf."""
    return _LEAF


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree has no parts."""
    return (is_leaf is not None and is_leaf(tree)) or _definition(tree) is None


def _flattened(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    definition = _definition(tree)
    if definition is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    children, context = definition.flatten_fn(tree)
    kind = type(tree) if definition is not _NAMEDTUPLE else NAMEDTUPLE
    return TreeSpec(kind, context, [_flattened(child, leaves, is_leaf) for child in children])


def namedtuple(*args: Any, **kwargs: Any) -> Any:  # what PyTorch's specs of named tuples are labelled with
    """`collections.namedtuple`."""
    from collections import namedtuple as make

    return make(*args, **kwargs)


NAMEDTUPLE = namedtuple


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree in order, and its shape.

    >>> tree_flatten([1, (2, {"a": 3})])[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """A tree of this shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got "
            f"item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The leaves of a tree in order, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with the function applied to each leaf, and to what stands there in other trees.

    >>> tree_map(lambda x, y: x + y, [1, {"a": 2}], [10, {"a": 20}])
    [11, {'a': 22}]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(map(func, *others))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls the function for each leaf, and gives the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(kind: Any) -> Callable[[Any], bool]:
    if isinstance(kind, type) or not callable(kind) or hasattr(kind, "__args__"):
        return lambda leaf: isinstance(leaf, kind)
    chosen: Callable[[Any], bool] = kind
    return chosen


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Any], Any]:
    """Decorator: the function is applied to values of these classes, others stay as they are."""
    chosen = _chosen(type_or_types_or_pred)

    def wrapper(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: func(value) if chosen(value) else value

    return wrapper


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map` for leaves of these classes."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """`tree_map_` for leaves of these classes."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for all leaves of these classes."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it holds for any leaf of these classes."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def _with_paths(tree: Any, path: tuple[Any, ...], is_leaf: IsLeaf) -> Iterable[tuple[tuple[Any, ...], Any]]:
    definition = _definition(tree)
    if definition is None or (is_leaf is not None and is_leaf(tree)):
        yield path, tree
        return
    if definition.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}. ")
    for key, child in definition.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves with their paths, and the shape."""
    return list(_with_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves with their paths."""
    return list(_with_paths(tree, (), is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` whose function gets the path first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(func(path, leaf, *more) for (path, leaf), *more in zip(found, *others, strict=True))


def keystr(kp: tuple[Any, ...]) -> str:
    """A path as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    flatten_with_keys_fn: Any = None,
    **_serialising: Any,
) -> None:
    """Makes a class of users' a kind of container."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]


def register_constant(cls: type) -> None:
    """Values of a class are part of a tree's shape."""
    register_pytree_node(cls, lambda value: ([], value), lambda _children, context: context)


def register_dataclass(cls: type[Any], **_options: Any) -> None:
    """Makes a dataclass a kind of container."""
    names = list(cls.__dataclass_fields__)
    register_pytree_node(
        cls,
        lambda value: ([getattr(value, name) for name in names], names),
        lambda children, context: cls(**dict(zip(context, children, strict=True))),
        flatten_with_keys_fn=lambda value: (
            [(GetAttrKey(name), getattr(value, name)) for name in names],
            names,
        ),
    )


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments."""
    return tree_leaves((args, kwargs))


def _get_node_type(tree: Any) -> Any:
    """The class by which a container is known: that of all named tuples is one."""
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether it is no container."""
    return tree_is_leaf(tree, is_leaf)
