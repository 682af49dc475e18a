"""`weft.library`: ops that users define.

    @weft.library.custom_op("mylib::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return weft.from_numpy(numpy.sin(x.numpy()))

    sine.register_fake(lambda x: weft.empty_like(x))
    sine.register_autograd(backward, setup_context=setup_context)
    weft.ops.mylib.sine(x)

`opcheck` tries an op on sample arguments and says which of its parts disagree.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager
from typing import Any

from weft.autograd import custom_op as _defining
from weft.autograd.custom_op import CustomOpDef as CustomOpDef
from weft.autograd.custom_op import OpOverload as OpOverload
from weft.autograd.custom_op import custom_op as custom_op
from weft.autograd.engine import grad as _grad
from weft.autograd.shapes import typed as _typed
from weft.core.modes import enter as _enter
from weft.core.modes import leave as _leave
from weft.core.trees import flatten as _flatten
from weft.core.trees import tree_map as _tree_map
from weft.ops import custom as _custom
from weft.ops.record import ops as _ops
from weft.tensor.base import Tensor as _Tensor
from weft.tensor.schema import infer_schema as infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "impl",
    "infer_schema",
    "opcheck",
    "ops",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]


class _Ops:
    """Custom ops by namespace and name, also where a module of `weft.ops` has the namespace's name."""

    def __getattr__(self, name: str) -> Any:
        found = _custom.found(name)
        return _custom.Namespace(name) if found is None else found

    def __dir__(self) -> list[str]:
        return sorted(_custom.NAMESPACES.keys() | _custom.LATE.keys())


ops = _Ops()


def _found(op: Any, asker: str) -> CustomOpDef:
    """The definition meant by a name, an op or its overload."""
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, OpOverload):
        return op._definition
    if not isinstance(op, str):
        raise ValueError(f"{asker}({op}): got unexpected type for op: {type(op)}")
    if op not in _defining.DEFINITIONS:
        raise RuntimeError(f"operator {op} does not exist")
    return _defining.DEFINITIONS[op]


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Gives an op what computes types only: see `CustomOpDef.register_fake`. Also a decorator."""
    definition = _found(op, "register_fake")
    return definition.register_fake if func is None else definition.register_fake(func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Gives an op its gradient: see `CustomOpDef.register_autograd`."""
    _found(op, "register_autograd").register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Gives an op its batch rule: see `CustomOpDef.register_vmap`. Also a decorator."""
    return _found(op, "register_vmap").register_vmap(func)


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Gives an op its implementation for some devices: see `CustomOpDef.register_kernel`. Also a
    decorator.
    """
    return _found(op, "register_kernel").register_kernel(device_types, func)


class Library:
    """The ops of one namespace, made and given their implementations by name.

    `kind` is "DEF", "FRAGMENT" or "IMPL": only the first two may define ops. What an instance has defined is
    forgotten with it (`_destroy`).
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Makes an op: `library.define("sine(Tensor x) -> Tensor")`; gives its name."""
        if self.kind == "IMPL":
            raise RuntimeError(f"{self}: library of kind IMPL cannot define new operators")
        name, opened, rest = schema.partition("(")
        plain = name.strip().partition(".")[0]
        _defining.define_op(f"{self.ns}::{plain}", opened + rest, None)
        self._defined.append(plain)
        return plain

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Gives an op its implementation: for a device ("CPU"), for none ("Meta"), or for all."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        named = op_name if isinstance(op_name, str) else op_name.name()
        definition = _found(f"{self.ns}::{named.rpartition('::')[2].partition('.')[0]}", "impl")
        key = dispatch_key or self.dispatch_key
        if key == "Meta":
            definition.register_fake(fn)
        elif key in ("CPU", "CUDA"):
            definition.register_kernel(key.lower(), fn)
        else:
            definition.register_kernel(None, fn)

    def _register_fake(self, op_name: str, fn: Callable[..., Any], _stacklevel: int = 1) -> None:
        _found(f"{self.ns}::{op_name}", "register_fake").register_fake(fn)

    def _destroy(self) -> None:
        """Forgets the ops that this instance has defined."""
        for name in self._defined:
            definition = _defining.DEFINITIONS.get(f"{self.ns}::{name}")
            if definition is not None:
                definition._destroy()
        self._defined.clear()


def _implemented(library: Library, name: Any, function: Callable[..., Any], key: str) -> Callable[..., Any]:
    library.impl(name, function, key)
    return function


@_contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> _Iterator[Library]:
    """A library for a while."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Makes an op of this schema, without kernels: `define("mylib::sine", "(Tensor x) -> Tensor")`."""
    _defining.define_op(qualname, schema, None)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Gives an op made by `define` its implementation for some devices ("default" for all). Also a
    decorator. `impl(library, name, key)` is one of an op of that library.
    """
    if isinstance(qualname, Library):
        return lambda function: _implemented(qualname, types, function, func or "")
    names = None if types in ("default", "CompositeExplicitAutograd") else types
    return _found(qualname, "impl").register_kernel(names.lower() if isinstance(names, str) else names, func)


# -- checking an op ----------------------------------------------------------------------------------------
class OpCheckError(Exception):
    """What `opcheck` found wrong."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Runs an op on these arguments and tests what was registered for it: `{"test_schema": "SUCCESS", …}`."""
    definition = _found(getattr(op, "default", op), "opcheck")
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    tolerances = {"atol": 1e-5 if atol is None else atol, "rtol": 1e-4 if rtol is None else rtol}
    results: dict[str, Any] = {}
    for name in names:
        if name not in _CHECKS:
            raise RuntimeError(f"test_util {name!r} is none of {tuple(_CHECKS)}")
        bound = definition._schema.bind(args, dict(kwargs or {}))
        try:
            _CHECKS[name](definition, bound, tolerances)
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            traceback.clear_frames(error.__traceback__)
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results


def _copied(leaf: Any) -> Any:
    """A copy that requires grad where the original does, as a leaf."""
    if not isinstance(leaf, _Tensor):
        return leaf
    copy = _ops.clone(leaf.detach())
    return copy.requires_grad_(leaf.requires_grad)


def _check_schema(definition: CustomOpDef, bound: tuple[Any, ...], _tolerances: Any) -> None:
    """Nothing but what `mutates_args` names is written to, and outputs are as declared."""
    given = _tree_map(_copied, bound)
    before = _tree_map(_copied, bound)
    token = _enter(grad=False)
    try:
        _defining.execute(definition, given)
    finally:
        _leave(token)
    for argument, value, old in zip(definition._schema.arguments, given, before):
        for a, b in zip(_flatten(value)[0], _flatten(old)[0]):
            if isinstance(a, _Tensor) and not argument.mutated and not _ops.equal(a.detach(), b.detach()):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined as mutable but was mutated: "
                    f"{definition._schema}"
                )


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in _flatten(tree)[0] if isinstance(leaf, _Tensor)]


def _check_registration(definition: CustomOpDef, bound: tuple[Any, ...], _tolerances: Any) -> None:
    """Outputs of a differentiable call have a history that the op itself made."""
    given = _tree_map(_copied, bound)
    if definition._backward is None or not any(tensor.requires_grad for tensor in _tensors(given)):
        return
    for output in _tensors(_defining.invoke(definition, given)):
        if output.is_floating_point() and not output.requires_grad:
            raise RuntimeError(f"an output of {definition} does not require grad although an input does")


def _check_fake(definition: CustomOpDef, bound: tuple[Any, ...], _tolerances: Any) -> None:
    """The fake implementation gives the types that the kernel gives."""
    token = _enter(grad=False)
    try:
        real = _tree_map(_typed, _defining.execute(definition, _tree_map(_copied, bound)))
        types = _tree_map(_typed, bound)
        empty = _tree_map(_defining.without_elements, types)
        fake = _tree_map(_typed, _defining.execute_fake(definition, empty))
    finally:
        _leave(token)
    wanted, found = _flatten(real)[0], _flatten(fake)[0]
    if len(wanted) != len(found) or any(
        type(a) is not type(b) or (hasattr(a, "shape") and a != b) for a, b in zip(wanted, found)
    ):
        raise RuntimeError(f"the fake impl of {definition} gives {fake}, but its kernel gives {real}")


def _check_gradients(definition: CustomOpDef, bound: tuple[Any, ...], tolerances: Any) -> None:
    """The tape's gradients are those that the record's gradient rule gives to a compiler."""
    given = _tree_map(_copied, bound)
    inputs = [tensor for tensor in _tensors(given) if tensor.requires_grad]
    if definition._backward is None or not inputs:
        return
    result = _defining.invoke(definition, given)
    outputs = [output for output in _tensors(result) if output.requires_grad]
    if not outputs:
        return
    ones = [_ops.ones_like(output) for output in outputs]
    taped = _grad(outputs, inputs, ones, allow_unused=True)
    seeds = _tree_map(
        lambda leaf: _ops.ones_like(leaf) if isinstance(leaf, _Tensor) and leaf.requires_grad else None,
        result,
    )
    slots = definition._op.signature.input_slots
    needs = tuple(
        _tree_map(lambda leaf: isinstance(leaf, _Tensor) and leaf.requires_grad, given[i]) for i in slots
    )
    results, operands = _tree_map(_detached, result), _tree_map(_detached, given)
    ruled = _defining.pulled_back(definition, needs, seeds, results, operands)
    by_rule = {}
    for position, value in zip(slots, ruled):
        for tensor, gradient in zip(_flatten(given[position])[0], _flatten(value)[0]):
            by_rule[id(tensor)] = gradient
    for position, (tensor, a) in enumerate(zip(inputs, taped)):
        b = by_rule.get(id(tensor))
        if (a is None) != (b is None) or (a is not None and not _ops.allclose(a, b, **tolerances)):
            raise RuntimeError(
                f"the gradient of input {position} is {a} on the tape, but the gradient rule alone gives "
                f"{b}: does setup_context depend on something that changes between calls?"
            )


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, _Tensor) else leaf


_CHECKS = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_registration,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_dynamic": _check_gradients,
}
