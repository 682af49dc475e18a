"""The op record: everything Weft knows of an op, in one place, and the families that fill in what they share.

Takes a name, an array kernel, a type rule and gradient rules; gives an `Op` that can be called on raw arrays
(runs the kernel with Weft's promotion), on tensors (through the face that the tensor layer generated) or on
tensor types (runs the type rule). One idea: every layer above interprets these same records.

# Note [Calling conventions]
Kernel, type rule and vjp receive *all* parameters of the signature, positionally and in order, defaults
filled in:

    sum: "input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None"
    kernel(x, dim, keepdim, dtype) -> array         x is an array
    rule(x, dim, keepdim, dtype) -> TensorType      x is a TensorType; raises the error the user sees
    vjp(g, out, x, dim, keepdim, dtype) -> gradient of x         may stop early: lambda g, _out, _x, dim: ...

A vjp is a tuple with one rule per tensor parameter (None: no gradient), a single rule for an op with one
tensor, or a `joint(fn)` whose fn takes `needs` (one bool per tensor) first and returns one gradient per
tensor. A rule's parameter whose name starts with `_` receives a TensorType instead of the value (or None,
where the rule does not read it), so what is saved is visible in the rule. Rules call ops, never Python
operators, so they run on arrays and on tensors alike. An op with several outputs gets tuples for g (None for
outputs without gradient) and out. A gradient may have the broadcast shape and dtype of the output in
POINTWISE ops: the family brings it back to its input's. `weft.ops.values` has the types of all these values.

# Note [Complex gradients]
The gradient of a real loss L at z = x + iy is dL/dx + i dL/dy, as in PyTorch. Through a holomorphic f this
is g times the conjugate of f'(z). A rule is written as for real numbers, g times f'(z); where complex numbers
take part, the node conjugates what goes in and what comes out: conj(conj(g) f'(z)). Linear rules are left as
they are by that. So only ops that are not holomorphic (abs, angle, eigh) say `conjugates=True`: their rules
are given g as it is and themselves say what is conjugated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any, Final, TypeVar, Unpack

import numpy as np

from weft.core.arrays import Array, as_array, is_array
from weft.core.devices import DEVICES, HOST, device_of
from weft.core.dtypes import BY_NUMPY, HALVES, NARROW, dtype, dtype_of, float32
from weft.core.interrupts import let_through
from weft.core.naming import named
from weft.core.types import TensorType
from weft.ops.facts import DEFAULTS, OpFacts, Placing, Refuses
from weft.ops.facts import Joint as Joint
from weft.ops.facts import Kind as Kind
from weft.ops.facts import Rule as Rule
from weft.ops.facts import joint as joint
from weft.ops.native_above import native_above
from weft.ops.signature import Signature
from weft.ops.values import Number, Sizes

ndarray = np.ndarray
Result = TypeVar("Result")
_QUIET: Final = copy_context()
_QUIET.run(np.seterr, all="ignore")
run_quietly: Final = _QUIET.run


def quiet(kernel: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Runs a kernel with NumPy's floating point warnings off (40 ns, where np.errstate takes a microsecond).

    A context can be entered by one thread at a time; whoever finds it taken pays for np.errstate.
    """
    try:
        return run_quietly(kernel, *args, **kwargs)
    except RuntimeError as error:
        if "cannot enter context" not in str(error):
            raise
    with np.errstate(all="ignore"):
        return kernel(*args, **kwargs)


class Op:
    """One op: its name, kind and signature, and what `weft.ops.facts` lists. `face` is filled by the tensor
    layer.
    """

    __slots__ = (
        "name", "kind", "signature", "kernel", "rule", "promotion", "body", "known", "known_scalar", "face",
        "operands", "alike", "paths", *DEFAULTS,
    )  # fmt: skip
    vjp: tuple[Rule | None, ...] | Joint | None
    jvp: Rule | None
    batch: Rule | None
    unbatchable: str | None
    outputs_read: tuple[int, ...] | None
    conjugates: bool
    amp: str | None
    refuses: Refuses | None
    indexes: Callable[..., Any] | None
    draws: bool | None
    shares_memory: bool
    reads_elements: bool
    apart: bool
    placing: Placing | None
    elementwise: bool
    exact: bool
    uniform: bool
    row_major: bool
    returns: Any
    several: bool
    reshapes: bool
    stream: str | None
    overloads: tuple[tuple[str, str], ...]
    unrounded: tuple[int, ...]
    rounded: tuple[int, ...]
    stepwise: tuple[dtype, ...]
    cheap: bool
    emit: Any
    lowering: str | None
    native_above: bool | Callable[..., bool]
    overwrites: bool
    trusted: bool
    namespace: str
    aliases: tuple[str, ...]
    method: bool
    function: bool
    inplace: bool | str
    out: Any
    of_numbers: bool
    node: str | None
    node_name: Callable[[Any], str] | None
    samples: Callable[..., Iterable[Any]] | None
    doc: str

    def __init__(
        self,
        name: str,
        kind: Kind,
        signature: str,
        kernel: Callable[..., Any] | None = None,
        rule: Rule | None = None,
        promotion: Promotion | None = None,
        body: Callable[..., Any] | None = None,
        **facts: Unpack[OpFacts],
    ) -> None:
        self.name, self.kind, self.signature = name, kind, Signature(signature)
        self.kernel, self.rule, self.promotion, self.body = kernel, rule, promotion, body
        for field, default in DEFAULTS.items():
            setattr(self, field, facts.get(field, default))
        unknown = facts.keys() - DEFAULTS.keys()
        if unknown:
            raise TypeError(f"op {name!r} has no field {min(unknown)!r}")
        self.vjp = _as_rules(self.vjp)
        if self.method is None:
            self.method = not self.namespace
        if kernel is not None and self.native_above:
            self.kernel = native_above(self, kernel)
        self.known: set[Any] = set()  # dtypes (or tuples of them) for which the kernel alone is right
        self.known_scalar: dict[type, set[np.dtype[Any]]] = {float: set(), int: set()}
        self.paths: dict[Any, Callable[..., Any]] | None = {}  # of `weft.tensor.settled`
        self.operands = _ufunc_operands(self)
        self.alike = _operands_alike(self)
        self.face: Callable[..., Any] = _no_face
        if self.qualified_name in REGISTRY:
            raise ValueError(f"op {self.qualified_name!r} is defined twice")
        REGISTRY[self.qualified_name] = self

    @property
    def qualified_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def composed(self) -> bool:
        """Whether the op is a body written in other ops: composites, and samplers that draw from a
        generator.
        """
        return self.body is not None

    def __repr__(self) -> str:
        return f"<op {self.qualified_name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Gradient rules mostly come by the first two: arrays of one known dtype, where the ufunc alone is
        # right, and views of an array.
        if self.operands == len(args) and type(args[0]) is ndarray and not kwargs:
            first, other = args[0], args[-1]
            known: Any = self.known
            if self.operands == 2 and (type(other) is not ndarray or other.dtype is not first.dtype):
                known = self.known_scalar.get(type(other), ())
            if first.dtype in known:
                try:
                    if self.operands == 2:
                        return run_quietly(self.kernel, first, other, out=...)  # type: ignore[arg-type]
                    return run_quietly(self.kernel, first, out=...)  # type: ignore[arg-type]
                except RuntimeError as error:  # another thread has the quiet context
                    let_through(error)
                    kernel: Any = self.kernel
                    return quiet(kernel, *args, out=...)
        elif self.alike == len(args) and type(args[0]) is ndarray and not kwargs:
            kind = args[0].dtype
            for value in args:
                if type(value) is not ndarray or value.dtype is not kind:
                    break
            else:
                alone: Any = self.kernel
                if kind in self.known:
                    return as_array(quiet(alone, *args))
        elif self.kind is Kind.VIEW and not kwargs and type(args[0]) is ndarray:
            if len(args) == 1 or type(args[1]) not in INTERPRETERS:
                return self.kernel(*self.signature.bind(args, kwargs))  # type: ignore[misc]
        elif not kwargs and type(args[0]) in FACED and len(args) <= self.signature.positional:
            for value in args:
                kind = type(value)
                if kind in INTERPRETERS or kind is list or kind is tuple:
                    break
            else:
                return self.face(*args)
        for value in args:
            kind = type(value)
            if kind is ndarray or kind in DEVICES:
                if INTERPRETERS.keys().isdisjoint(map(type, args)):
                    return self.on_arrays(self.signature.bind(args, kwargs))
                break
            if kind is TensorType:
                return self.on_types(self.signature.bind(args, kwargs))
            if (kind is tuple or kind is list) and value and not isinstance(value[0], (int, float)):
                if type(value[0]) in DEVICES and all(type(item) in DEVICES for item in value):
                    return self.on_arrays(self.signature.bind(args, kwargs))
                if type(value[0]) is TensorType:
                    return self.on_types(self.signature.bind(args, kwargs))
                break
            if hasattr(value, "dtype"):
                break
        for value in args:
            for item in value if type(value) is list or type(value) is tuple else (value,):
                handler = INTERPRETERS.get(type(item))
                if handler is not None:
                    return handler(self, args, kwargs)
        count = self.signature.positional
        if len(args) > count:  # batch rules pass all parameters in order
            kwargs = dict(zip(self.signature.names[count:], args[count:])) | kwargs
            args = args[:count]
        return self.face(*args, **kwargs)

    def on_types(self, bound: tuple[Any, ...]) -> Any:
        """The type of the result for these types, or the error the user would see."""
        if self.rule is not None:
            return self.rule(*bound)
        if self.promotion is not None:
            return self.promotion.rule(self, bound)
        assert self.body is not None, f"{self.name} has neither a type rule nor a body"
        return self.body(*bound)

    def on_arrays(self, bound: tuple[Any, ...]) -> Any:
        """The result for raw arrays: the kernel, with Weft's promotion where the family promotes."""
        if self.promotion is not None:
            return self.promotion.run(self, bound)
        if self.kernel is None:
            assert self.body is not None, f"{self.name} has neither a kernel nor a body"
            return self.body(*bound)
        out = quiet(self.kernel, *bound)
        kind = type(out)
        return out if kind is ndarray or kind is tuple or kind is list else as_array(out)


REGISTRY: Final[dict[str, Op]] = {}
INTERPRETERS: Final[dict[type, Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]]] = {}
"""Value classes that take op calls over (`Batched`): class to handler."""


FACED: Final[set[type]] = set()
"""Classes of the tensor layer: a call whose first argument is of one goes to the face, unless an interpreter
takes it."""


class Ops:
    """Late-bound access to every op, for rules that need one from a module imported later: `ops.mul`,
    `ops.linalg_inv`.
    """

    def __getattr__(self, name: str) -> Op:
        op = REGISTRY.get(name)
        if op is None:
            op = next((o for key, o in REGISTRY.items() if key.replace(".", "_") == name), None)
        if op is None:
            raise AttributeError(f"there is no op {name!r}")
        self.__dict__[name] = op
        return op


ops: Final = Ops()


def _ufunc_operands(op: Op) -> int:
    """How many operands a promoting op passes straight to its ufunc; 0 if its kernel is something else."""
    kernel = op.kernel
    if op.promotion is None or not isinstance(kernel, np.ufunc) or kernel.nin > 2:
        return 0
    return int(kernel.nin)


def _operands_alike(op: Op) -> int:
    """How many operands a promoting op passes straight to its kernel, which is no ufunc, where they have one
    dtype that it knows; 0 if there is more to it.
    """
    if op.promotion is None or op.kernel is None or isinstance(op.kernel, np.ufunc):
        return 0
    plain = type(op.promotion).run is Promotion.run and type(op.promotion).operands is Promotion.operands
    return (
        len(op.signature.tensor_slots) if plain and all(p.is_tensor for p in op.signature.parameters) else 0
    )


def _no_face(*_args: object, **_kwargs: object) -> Any:
    raise NotImplementedError(named("this op has no face for tensors; import weft, not only weft.ops"))


def _as_rules(vjp: tuple[Rule | None, ...] | Rule | Joint | None) -> tuple[Rule | None, ...] | Joint | None:
    return vjp if vjp is None or isinstance(vjp, (tuple, Joint)) else (vjp,)


class Promotion:
    """How a pointwise family treats dtypes: which dtype it computes in and which it gives."""

    __slots__ = ("name", "dtypes")

    def __init__(self, name: str, dtypes: Callable[[list[Any]], tuple[dtype, dtype]]) -> None:
        self.name = name
        self.dtypes = dtypes

    def operands(self, op: Op, bound: tuple[Any, ...]) -> list[Any]:
        return [bound[i] for i in op.signature.tensor_slots if bound[i] is not None]

    def rule(self, op: Op, bound: tuple[Any, ...]) -> TensorType:
        operands = self.operands(op, bound)
        types = [value for value in operands if isinstance(value, TensorType)]
        if not types:
            given = ", ".join(type(value).__name__ for value in operands)
            raise TypeError(
                f"{op.name}() received an invalid combination of arguments - got ({given}), but "
                "expected a Tensor"
            )
        shape = broadcast_shapes(*[t.shape for t in types])
        compute, result = self.dtypes(operands)
        if compute in NARROW:
            raise unsupported(op.name, compute)
        return TensorType(shape, result, common_device(types))

    def run(self, op: Op, bound: tuple[Any, ...]) -> Array:
        slots = op.signature.tensor_slots
        operands = self.operands(op, bound)
        first = operands[0]
        kernel: Any = op.kernel
        assert kernel is not None
        same = all(type(v) in DEVICES and v.dtype is first.dtype for v in operands)
        is_ufunc, device = isinstance(kernel, np.ufunc), device_of(*operands)
        if is_ufunc and device is not HOST:
            kernel = device.ufunc(kernel)
        if same and device is HOST and first.dtype in op.known:
            return as_array(quiet(kernel, *operands, out=...) if is_ufunc else quiet(kernel, *bound))
        compute, result = self.dtypes(operands)
        if compute in NARROW:
            raise unsupported(op.name, compute)
        exact = device is HOST and compute in HALVES and same and self.is_exact(op, compute)
        if exact and accepted(op, bound):
            op.known.add(compute.numpy)  # at once: strides of what is cast before may be others
            return self.run(op, bound)
        stepwise = compute in op.stepwise
        carrier = (compute if stepwise else compute.computes_in).numpy
        cast = list(bound) if compute not in HALVES else in_half(op, bound, compute.numpy)
        for slot in slots:
            if cast[slot] is not None:
                cast[slot] = self.cast(slot, cast[slot], carrier)
                if device is not HOST and type(cast[slot]) is ndarray:
                    cast[slot] = device.asarray(cast[slot])
        if is_ufunc:
            out: Array = quiet(kernel, *[cast[slot] for slot in slots], out=...)
        else:
            out = as_array(quiet(kernel, *cast))
        if device is HOST and accepted(op, bound):  # other libraries may promote otherwise
            self.remember(op, operands, same, compute, out.dtype is result.numpy)
        return out if out.dtype is result.numpy else quiet(out.astype, result.numpy)

    def cast(self, _slot: int, value: Any, carrier: np.dtype[Any]) -> Any:
        """An operand as the kernel takes it."""
        return cast_operand(value, carrier)

    def is_exact(self, op: Op, compute: dtype) -> bool:
        """Whether the kernel takes this half type itself."""
        return isinstance(op.kernel, np.ufunc) and exact_half(op.kernel, compute.numpy)

    def remember(self, op: Op, operands: list[Any], same: bool, compute: dtype, exact: bool) -> None:
        """Notes the operand dtypes for which the kernel alone gives what the rule says."""
        native = compute.numpy
        if compute in HALVES:
            return
        first = operands[0]
        if not exact or type(first) is not ndarray or first.dtype is not native or native.kind == "c":
            return  # complex operands go the long way, which refuses to record them
        if same:
            op.known.add(native)
        elif type(operands[-1]) in op.known_scalar and native.kind in "fiu":
            if all(type(v) is ndarray and v.dtype is native for v in operands[:-1]):
                op.known_scalar[type(operands[-1])].add(native)


def accepted(op: Op, bound: tuple[Any, ...]) -> bool:
    """Whether an op's own rule takes what its kernel was given: who calls kernels may not have asked it."""
    if op.rule is None:
        return True
    types = [type_of(v) if type(v) in DEVICES else v for v in bound]
    try:
        op.rule(*types)
    except Exception as error:
        let_through(error)
        return False
    return True


def unsupported(kernel: str, kind: dtype) -> NotImplementedError:
    """What PyTorch raises where its kernel has no loop for a dtype."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


TAKING_THE_FIRST: Final = frozenset({np.maximum, np.minimum})
"""Ufuncs that give the first of two zeros for halves, and the second for float32."""


def exact_half(kernel: np.ufunc, native: np.dtype[Any]) -> bool:
    """Whether the ufunc has a loop for this half type that keeps it (those loops round once, from
    float32) and gives what its loop for float32 gives.
    """
    if kernel in TAKING_THE_FIRST:
        return False
    try:
        resolved = kernel.resolve_dtypes((native,) * kernel.nin + (None,) * kernel.nout)
    except TypeError as error:
        let_through(error)
        return False
    return all(kind == native for kind in resolved[: kernel.nin]) and resolved[-1] in (native, np.dtype(bool))


def in_half(op: Op, bound: tuple[Any, ...], kind: np.dtype[Any]) -> list[Any]:
    """The arguments of an op that computes with halves: what is of another type is rounded to the half first,
    as in PyTorch, where it is promoted before the kernel widens it.
    """
    cast = list(bound)
    for slot in (*op.signature.tensor_slots, *op.rounded):
        value = cast[slot]
        if value is None or getattr(value, "dtype", None) is kind:
            continue
        single = not getattr(value, "shape", ())
        if not (single and slot in op.unrounded):
            cast[slot] = to_half(value, kind)
    return cast


def to_half(value: Any, kind: np.dtype[Any]) -> Any:
    """An array or a number, rounded to a half by way of float32; a number remains one."""
    rounded: Any = quiet(cast_operand(value, float32.numpy).astype, kind)
    if type(value) is int:
        return int(rounded) if np.isfinite(rounded) else float(rounded)
    return rounded if hasattr(value, "shape") else float(rounded)


def cast_operand(value: Array | Number, carrier: np.dtype[Any]) -> Array:
    """The operand as an array of the computing dtype; integers wrap, as in PyTorch."""
    if is_array(value):
        return value if value.dtype is carrier else quiet(value.astype, carrier)
    array = np.asarray(value)
    if array.dtype == object:
        raise RuntimeError(f"value cannot be converted to type {BY_NUMPY[carrier].name} without overflow")
    return quiet(array.astype, carrier)


def common_device(types: list[TensorType]) -> Any:
    """The device all operands share; a zero-dim CPU operand may join any."""
    device = types[0].device
    for other in types[1:]:
        if other.device != device:
            first_meta, second_meta = device.type == "meta", other.device.type == "meta"
            if first_meta or second_meta:
                device = other.device if second_meta else device
                continue
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{device} and {other.device}!"
            )
    return device


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape, or PyTorch's error naming the sizes and the dimension."""
    result = shapes[0]
    for shape in shapes[1:]:
        if len(shape) == len(result) and shape == result:
            continue
        rank = max(len(result), len(shape))
        left = (1,) * (rank - len(result)) + tuple(result)
        right = (1,) * (rank - len(shape)) + tuple(shape)
        merged = list(left)
        for i in reversed(range(rank)):
            a, b = left[i], right[i]
            if a != b and a != 1 and b != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                    f"non-singleton dimension {i}"
                )
            merged[i] = b if a == 1 else a
        result = tuple(merged)
    return tuple(result)


def same_shape(one: Sizes, two: Sizes) -> bool:
    """Whether two shapes are equal; of shapes of different ranks no size is looked at (tuples compare sizes
    first, and a symbolic size that was compared is guarded).
    """
    return len(one) == len(two) and tuple(one) == tuple(two)


def type_of(value: Any) -> TensorType:
    """The TensorType of an array, a tensor or a type."""
    if isinstance(value, TensorType):
        return value
    device = DEVICES.get(type(value))
    place = getattr(value, "device", None) if device is None else device.place
    kind = dtype_of(value)
    return (
        TensorType(value.shape, kind)
        if place is None or isinstance(place, str)
        else TensorType(value.shape, kind, place)
    )
