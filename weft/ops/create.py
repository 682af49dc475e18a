"""Creation and copies: ops that make new memory, filled by a rule or from another tensor.

Takes sizes, numbers or a tensor to be like; gives new arrays. One idea: shape, dtype and device are settled
in the type rule (defaults and default devices included); kernels allocate what the same helpers say.
`requires_grad` is a parameter that the dispatcher reads after the call; `layout` and `pin_memory` are
accepted and mean nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from weft.core import dtypes
from weft.core.arrays import MODULES, NUMPY, Array, ArrayFunction, ArrayModule, HostArray, is_array, namespace
from weft.core.device import creation_device
from weft.core.devices import DEVICES, HOST, Device, device_at, device_of, transfer
from weft.core.dtypes import BY_NUMPY, dtype, scalar_dtype
from weft.core.symbolic import Symbolic, any_symbolic, applied, size_of
from weft.core.types import (
    TensorType,
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
)
from weft.ops.batching import unchanged
from weft.ops.facts import Placing
from weft.ops.families import composite, create, index
from weft.ops.index_batching import batch_assign
from weft.ops.options import (
    check_format,
    check_layout,
    check_number,
    checked_size,
    chosen,
    element_strides,
    fits,
    has_format,
    in_format,
    shaped_like,
)
from weft.ops.record import Op, broadcast_shapes, ops, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import DeviceLike, DType, Number, Sizes

OPTIONS: Final = (
    "dtype: DType = None, layout: Any = None, device: Device = None, pin_memory: bool = False, "
    "requires_grad: bool = False"
)
LIKE: Final = f"{OPTIONS}, memory_format: MemoryFormat = None"


# -- from sizes ----------------------------------------------------------------------------------------------
def _size_samples(make: Maker) -> Iterator[Sample]:
    yield Sample((2, 3))
    yield Sample((0, 2), dtype=dtypes.int64)
    yield Sample(())


def _sized(name: str, host: ArrayFunction, doc: str) -> Any:
    def rule(
        size: Sizes, dtype: DType, layout: layout | None, device: DeviceLike, *_ignored: object
    ) -> TensorType:
        check_layout(layout)
        return TensorType(checked_size(size, name), chosen(dtype, None, name), creation_device(device))

    def kernel(
        size: Sizes, dtype: DType, _layout: layout | None, device: DeviceLike, *_ignored: object
    ) -> Array:
        make: ArrayFunction = host if device is None else getattr(device_at(device).xp, name)
        return make(checked_size(size, name), dtype=chosen(dtype, None, name).numpy)

    return create(
        name, kernel, rule, f"*size: Shape, {OPTIONS}", out=True, method=False, doc=doc,
        samples=_size_samples, trusted=True,
        lowering="pointwise", uniform=True,
    )  # fmt: skip


zeros = _sized("zeros", NUMPY.zeros, "A tensor of zeros.")
ones = _sized("ones", NUMPY.ones, "A tensor of ones.")


def _empty_rule(
    size: Sizes, dtype: DType, layout: layout | None, device: DeviceLike, _pin: bool, _grad: bool,
    memory_format: memory_format | None,
) -> TensorType:  # fmt: skip
    check_layout(layout)
    shape = checked_size(size, "empty")
    if memory_format is not None:
        check_format(memory_format, len(shape))
    return TensorType(shape, chosen(dtype, None, "empty"), creation_device(device))


def _empty(
    size: Sizes, dtype: DType, _layout: layout | None, device: DeviceLike, _pin: bool, _grad: bool,
    memory_format: memory_format | None,
) -> Array:  # fmt: skip
    kind, xp = chosen(dtype, None, "empty").numpy, device_at(device).xp
    return in_format(lambda shape: xp.empty(shape, kind), checked_size(size, "empty"), memory_format)


empty = create(
    "empty",
    _empty,
    _empty_rule,
    f"*size: Shape, {LIKE}",
    out=True,
    method=False,
    doc="An uninitialised tensor.",
    trusted=True,
    samples=_size_samples,
)


def _strided_rule(
    size: Sizes, stride: Sizes, dtype: DType, layout: layout | None, device: DeviceLike, *_ignored: object
) -> TensorType:
    check_layout(layout)
    shape = checked_size(size, "empty_strided")
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(step < 0 for step in stride):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(stride)}"
        )
    return TensorType(shape, chosen(dtype, None, "empty_strided"), creation_device(device))


def strided_array(
    size: tuple[int, ...], stride: tuple[int, ...], kind: np.dtype[Any], device: Device = HOST
) -> Array:
    """New memory of just the extent that these sizes and strides (in elements) reach."""
    extent = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    steps = [step * kind.itemsize for step in stride]
    return device.window(device.xp.empty(extent, kind), tuple(size), kind, 0, steps)


empty_strided = create(
    "empty_strided",
    lambda size, stride, kind, _layout, device, *_i: strided_array(
        size, stride, chosen(kind, None, "empty_strided").numpy, device_at(device)
    ),
    _strided_rule,
    f"size: Shape, stride: Shape, *, {OPTIONS}",
    method=False,
    samples=lambda make: [Sample((2, 3), (1, 2))],
)


@composite(
    f"size: Shape, physical_layout: Dims, *, {OPTIONS}",
    method=False,
    samples=lambda make: [Sample((2, 3), (1, 0))],
)
def empty_permuted(
    size: Any,
    physical_layout: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
) -> Any:
    """An uninitialised tensor, its dimensions in this order in memory, outermost first."""
    if len(physical_layout) != len(size):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) "
            f"= {len(size)} is "
            f"not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for place, d in enumerate(physical_layout):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index "
                f"{place}).  NB: negative dims not currently supported; file an issue if you want it."
            )
    if len(set(physical_layout)) != len(size):
        raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(size), 1
    for d in reversed(physical_layout):
        strides[d], step = step, step * max(size[d], 1)
    return ops.empty_strided(
        tuple(size), tuple(strides), dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def _full_rule(
    size: Sizes, fill_value: Number, dtype: DType, layout: layout | None, device: DeviceLike,
    *_ignored: object,
) -> TensorType:  # fmt: skip
    check_layout(layout)
    shape = checked_size(size, "full")
    check_number(fill_value, "full", "fill_value", 2)
    kind = chosen(dtype, scalar_dtype(fill_value), "full")
    fits(fill_value, kind)
    return TensorType(shape, kind, creation_device(device))


def _full(
    size: Sizes, fill_value: Number, dtype: DType, _layout: layout | None, device: DeviceLike,
    *_ignored: object,
) -> Array:  # fmt: skip
    kind = chosen(dtype, scalar_dtype(fill_value), "full")
    return device_at(device).xp.full(checked_size(size, "full"), fits(fill_value, kind), kind.numpy)


full = create(
    "full", _full, _full_rule, f"size: Shape, fill_value: Number, *, {OPTIONS}", out=True, method=False,
    doc="A tensor whose elements all have one value.", trusted=True,
    samples=lambda make: [Sample((2, 3), 1.5), Sample((0,), True), Sample((), 3, dtype=dtypes.float16)],
    lowering="pointwise", uniform=True,
)  # fmt: skip


def _eye_sizes(n: Any, m: Any) -> tuple[int, int]:
    for label, value, position in (("n", n, 1), ("m", m, 2)):
        if value is None and label == "m":
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(
                f"eye(): argument '{label}' (position {position}) must be int, not {type(value).__name__}"
            )
        if value < 0:
            raise RuntimeError(f"{label} must be greater or equal to 0, got {value}")
    return size_of(n), size_of(n if m is None else m)


def _eye_rule(
    n: int, m: int | None, dtype: DType, layout: layout | None, device: DeviceLike, *_ignored: object
) -> TensorType:
    check_layout(layout)
    return TensorType(_eye_sizes(n, m), chosen(dtype, None, "eye"), creation_device(device))


def _eye(
    n: int, m: int | None, dtype: DType, _layout: layout | None, device: DeviceLike, *_ignored: object
) -> Array:
    return device_at(device).xp.eye(*_eye_sizes(n, m), dtype=chosen(dtype, None, "eye").numpy)


eye = create(
    "eye", _eye, _eye_rule, f"n: int, m: int = None, *, {OPTIONS}", out=True, method=False,
    doc="A matrix with ones on its diagonal.", trusted=True,
    samples=lambda make: [Sample(3), Sample(2, 4)],
    lowering="pointwise",
)  # fmt: skip


def keep_shape(_op: Op, target: Any, value: Any, _tensors: object) -> None:
    """Ranges leave an `out=` tensor of the right number of elements in its shape."""
    if target.array.size == value.array.size and not target.is_meta:
        value.array = value.array.reshape(target.array.shape)


# -- ranges --------------------------------------------------------------------------------------------------
class Steps:
    """The numbers of one `arange` call, checked: dtype, first value, step and how many."""

    __slots__ = ("kind", "start", "step", "count")

    def __init__(self, start: Any, end: Any, step: Any, kind: Any) -> None:
        if end is None:
            if start is None:
                raise TypeError("arange() received an invalid combination of arguments - got ()")
            start, end = 0, start
        start = 0 if start is None else start
        numbers = (start, end, step)
        whole = type(start) is int and type(end) is int and type(step) is int
        if not whole and any_symbolic(numbers) and all(isinstance(v, int) for v in numbers):
            whole = True
        elif not whole:
            for value, label in zip(numbers, ("start", "end", "step"), strict=True):
                check_number(value, "arange", label, 1)
                fits(value, dtypes.float64)
            start, end, step = (
                v.real if isinstance(v, (complex, np.complexfloating)) else v for v in numbers
            )
            whole = all(isinstance(v, (int, np.integer, np.bool_)) for v in numbers)
        self.kind = chosen(kind, dtypes.int64 if whole else None, "arange")
        if self.kind.category in (dtypes.BOOL, dtypes.COMPLEX):
            raise unsupported("arange_cpu", self.kind)
        self._check(start, end, step)
        if self.kind is dtypes.int64:
            if type(start) is not int or type(end) is not int or type(step) is not int:
                start, end, step = map(_whole, (start, end, step))
            if step == 0:
                raise ValueError("step must be nonzero")
            self.count = max(0, -((start - end) // step))
        else:
            self.count = int(
                math.ceil((end - start) / step)
            )  # which decides the structure: a symbol is asked
        if self.kind.category == dtypes.INTEGER:
            start, step = _whole(start), _whole(step)
        self.start, self.step = start, step

    @staticmethod
    def _check(start: Any, end: Any, step: Any) -> None:
        if step == 0:
            raise RuntimeError("step must be nonzero")
        if not all(isinstance(v, int) or applied(math.isfinite, v) for v in (start, end)):
            raise RuntimeError(f"unsupported range: {_short(start)} -> {_short(end)}")
        if (step > 0 and end < start) or (step < 0 and end > start):
            raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _whole(value: Any) -> Any:
    """The number cut to an int; symbolic ints stay."""
    return value if isinstance(value, Symbolic) and isinstance(value, int) else int(value)


def _short(value: float) -> str:
    return f"{value:g}"


def _arange_rule(
    start: Number | None, end: Number | None, step: Number, dtype: DType, layout: layout | None,
    device: DeviceLike, *_ignored: object,
) -> TensorType:  # fmt: skip
    check_layout(layout)
    steps = Steps(start, end, step, dtype)
    return TensorType((steps.count,), steps.kind, creation_device(device))


def _arange(
    start: Number | None, end: Number | None, step: Number, dtype: DType, _layout: layout | None,
    device: DeviceLike, *_ignored: object,
) -> Array:  # fmt: skip
    steps, xp = Steps(start, end, step, dtype), device_at(device).xp
    if steps.kind.category == dtypes.INTEGER:
        counted = xp.arange(steps.count, dtype=np.int64)
        counted *= steps.step
        counted += steps.start
    else:
        counted = xp.arange(steps.count, dtype=np.float64)
        counted *= float(steps.step)
        counted += float(steps.start)
    return counted.astype(steps.kind.numpy, copy=False)


arange = create(
    "arange", _arange, _arange_rule,
    f"start: Number = None, end: Number = None, step: Number = 1, *, {OPTIONS}", out=keep_shape, method=False,
    doc="Numbers from start (0) up to but not including end, by step.", trusted=True,
    samples=lambda make: [Sample(5), Sample(1, 6, 2), Sample(0, 1, 0.25)],
    lowering="pointwise",
)  # fmt: skip


def _steps_rule(name: str) -> Callable[..., TensorType]:
    def rule(start: Number, end: Number, steps: int, *rest: Any) -> TensorType:
        dtype, layout, device = rest[-5:-2]
        check_layout(layout)
        if isinstance(steps, bool) or not hasattr(steps, "__index__"):
            raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        where = device
        for label, value in (("start", start), ("end", end)):
            if not isinstance(value, TensorType):
                continue
            if value.ndim:
                raise RuntimeError(
                    f"{name} only supports 0-dimensional start and end tensors, but got {label} with "
                    f"{value.ndim} "
                    "dimension(s)."
                )
            where = value.device  # only a meta tensor comes here as a tensor
        numbers = tuple(v for v in (start, end, *rest[:-5]) if not isinstance(v, TensorType))
        return TensorType((int(steps),), _steps_dtype(name, numbers, dtype), creation_device(where))

    return rule


def _steps_dtype(name: str, numbers: tuple[Any, ...], asked: DType) -> dtype:
    kind = chosen(asked, None, name)
    if any(isinstance(v, (complex, np.complexfloating)) for v in numbers):
        inferred = dtypes.get_default_dtype().to_complex()
        if asked is not None and not kind.is_complex:
            raise RuntimeError(
                f"weft.{name}(): inferred dtype {inferred.c_name} can't be safely cast to passed dtype "
                f"{kind.scalar_name}"
            )
        kind = inferred if asked is None else kind
    if kind is dtypes.bool_:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return kind


def _even(start: Any, end: Any, steps: int, kind: dtype) -> HostArray:
    """Evenly spaced values, each half counted from its own end, in the dtype they are computed with. Halves
    (of 16 bits) are rounded after each step, counts too, as in PyTorch.
    """
    work = np.dtype(np.float64) if kind.category == dtypes.INTEGER else kind.numpy
    given = kind.computes_in.numpy if kind in dtypes.HALVES else work
    if kind.category == dtypes.INTEGER:
        start, end = int(start), int(end)
    first, last, count = (
        np.asarray([value], given).astype(work) for value in (start, end, max(steps - 1, 1))
    )
    if steps == 1:
        return first
    step = (last - first) / count
    up = np.arange(steps).astype(work)
    down = up[::-1]
    return np.asarray(np.where(np.arange(steps) < steps // 2, first + step * up, last - step * down))


def _linspace(start: Number, end: Number, steps: int, dtype: DType, *_ignored: object) -> Array:
    kind = _steps_dtype("linspace", (start, end), dtype)
    return _even(start, end, steps, kind).astype(kind.numpy)


linspace = create(
    "linspace", _linspace, _steps_rule("linspace"),
    f"start: Number, end: Number, steps: int, *, {OPTIONS}", out=keep_shape, method=False,
    samples=lambda make: [Sample(0, 1, 5), Sample(-3, 10, 4, dtype=dtypes.int64), Sample(1, 0, 0)],
    doc="Evenly spaced numbers from start to end, both included.",
    lowering="pointwise",
)  # fmt: skip


def _logspace(start: Number, end: Number, steps: int, base: float, dtype: DType, *_ignored: object) -> Array:
    kind = _steps_dtype("logspace", (start, end, base), dtype)
    wide = dtypes.complex128 if kind.is_complex else dtypes.float64
    powers = _even(start, end, steps, dtypes.int64 if kind.category == dtypes.INTEGER else wide)
    return np.asarray(np.power(wide.numpy.type(base), powers)).astype(kind.numpy)


logspace = create(
    "logspace", _logspace, _steps_rule("logspace"),
    f"start: Number, end: Number, steps: int, base: Number = 10.0, *, {OPTIONS}", out=keep_shape,
    method=False, doc="Powers of base with evenly spaced exponents.",
    samples=lambda make: [Sample(0, 2, 3), Sample(0, 3, 4, 2.0)],
)  # fmt: skip


# -- like a tensor -------------------------------------------------------------------------------------------
def _like_rule(x: TensorType, name: str, options: tuple[Any, ...]) -> TensorType:
    dtype, layout, device, _pin, _grad, form = options
    check_layout(layout)
    if form is not None and form is not preserve_format:
        check_format(form, x.ndim)
    return TensorType(
        x.shape, chosen(dtype, x.dtype, name), x.device if device is None else creation_device(device)
    )


def _like_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), grad=False)
    yield Sample(make(), grad=False)
    yield Sample(make(4, 0).T, grad=False)
    yield Sample(make(2, 3, 4).transpose(2, 0, 1), dtype=dtypes.int64, grad=False)


def _module(x: Array, device: DeviceLike) -> ArrayModule:
    """The module that makes arrays beside x, unless a device is named."""
    return MODULES[type(x)] if device is None else device_at(device).xp


def _like(name: str, make: str, doc: str, lowering: str | None = None) -> Any:
    def kernel(
        x: Array, dtype: DType, _layout: layout | None, device: DeviceLike, _pin: bool, _grad: bool,
        form: memory_format | None,
    ) -> Array:  # fmt: skip
        maker = getattr(_module(x, device), make)
        return shaped_like(maker, x, chosen(dtype, BY_NUMPY[x.dtype], name), form)

    return create(
        name, kernel, lambda x, *options: _like_rule(x, name, options), f"input: Tensor, *, {LIKE}",
        method=False, samples=_like_samples, doc=doc, trusted=True, lowering=lowering, reads_elements=False,
    )  # fmt: skip


zeros_like = _like("zeros_like", "zeros", "Zeros in the shape of another tensor.", lowering="pointwise")
ones_like = _like("ones_like", "ones", "Ones in the shape of another tensor.", lowering="pointwise")
empty_like = _like("empty_like", "empty", "An uninitialised tensor in the shape of another.")


def _full_like_rule(x: TensorType, fill_value: Number, *options: Any) -> TensorType:
    check_number(fill_value, "full_like", "fill_value", 2)
    result = _like_rule(x, "full_like", options)
    fits(fill_value, result.dtype)
    return result


def _full_like(
    x: Array, fill_value: Number, dtype: DType, _layout: layout | None, device: DeviceLike, *rest: Any
) -> Array:
    kind = chosen(dtype, BY_NUMPY[x.dtype], "full_like")
    return shaped_like(_module(x, device).full, x, kind, rest[-1], fits(fill_value, kind))


full_like = create(
    "full_like", _full_like, _full_like_rule, f"input: Tensor, fill_value: Number, *, {LIKE}", method=False,
    samples=lambda make: (Sample(*s.args, 2, grad=False, **s.kwargs) for s in _like_samples(make)),
    doc="One value in the shape of another tensor.", trusted=True,
    lowering="pointwise",
)  # fmt: skip


def _new_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), (4, 2), grad=False)
    yield Sample(make(), (), grad=False)
    yield Sample(make(2), (0, 3), dtype=dtypes.bool_, grad=False)


def _new(name: str, make: str, doc: str, lowering: str | None = None) -> Any:
    def rule(
        x: TensorType, size: Sizes, dtype: DType, layout: layout | None, device: DeviceLike, *_ignored: object
    ) -> TensorType:
        check_layout(layout)
        where = x.device if device is None else creation_device(device)
        return TensorType(checked_size(size, name), chosen(dtype, x.dtype, name), where)

    def kernel(
        x: Array, size: Sizes, dtype: DType, _layout: layout | None, device: DeviceLike, *_ignored: object
    ) -> Array:
        maker: ArrayFunction = getattr(_module(x, device), make)
        return maker(checked_size(size, name), dtype=chosen(dtype, BY_NUMPY[x.dtype], name).numpy)

    return create(
        name,
        kernel,
        rule,
        f"input: Tensor, *size: Shape, {OPTIONS}",
        function=False,
        samples=_new_samples,
        trusted=True,
        doc=doc,
        lowering=lowering,
    )


new_zeros = _new("new_zeros", "zeros", "Zeros of the tensor's dtype and device.", lowering="pointwise")
new_ones = _new("new_ones", "ones", "Ones of the tensor's dtype and device.", lowering="pointwise")
new_empty = _new("new_empty", "empty", "An uninitialised tensor of the tensor's dtype and device.")


def _new_full_rule(
    x: TensorType, size: Sizes, fill_value: Number, dtype: DType, layout: layout | None, device: DeviceLike,
    *_i: object,
) -> TensorType:  # fmt: skip
    check_layout(layout)
    shape = checked_size(size, "new_full")
    check_number(fill_value, "new_full", "fill_value", 2)
    kind = chosen(dtype, x.dtype, "new_full")
    fits(fill_value, kind)
    return TensorType(shape, kind, x.device if device is None else creation_device(device))


def _new_full(
    x: Array, size: Sizes, fill_value: Number, dtype: DType, _layout: layout | None, device: DeviceLike,
    *_ignored: object,
) -> Array:  # fmt: skip
    kind = chosen(dtype, BY_NUMPY[x.dtype], "new_full")
    return _module(x, device).full(checked_size(size, "new_full"), fits(fill_value, kind), kind.numpy)


new_full = create(
    "new_full", _new_full, _new_full_rule, f"input: Tensor, size: Shape, fill_value: Number, *, {OPTIONS}",
    function=False,
    samples=lambda make: (Sample(*s.args, 1, grad=False, **s.kwargs) for s in _new_samples(make)),
    doc="One value, of the tensor's dtype and device.",
    lowering="pointwise",
)  # fmt: skip


def _new_strided_rule(
    x: TensorType, size: Sizes, stride: Sizes, dtype: DType, layout: layout | None, device: DeviceLike,
    *rest: Any,
) -> TensorType:  # fmt: skip
    kind = chosen(dtype, x.dtype, "new_empty_strided")
    return _strided_rule(size, stride, kind, layout, x.device if device is None else device, *rest)


new_empty_strided = create(
    "new_empty_strided",
    lambda x, size, stride, dtype, _layout, device, *_i: strided_array(
        size, stride, chosen(dtype, BY_NUMPY[x.dtype], "new_empty_strided").numpy,
        device_of(x) if device is None else device_at(device),
    ),
    _new_strided_rule, f"input: Tensor, size: Shape, stride: Shape, *, {OPTIONS}", function=False,
    samples=lambda make: [Sample(make(2), (2, 3), (1, 2), grad=False)],
)  # fmt: skip


# -- filling and copying -------------------------------------------------------------------------------------
def _fill_rule(x: TensorType, value: TensorType | Number) -> TensorType:
    if isinstance(value, TensorType):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
    else:
        fits(value, x.dtype)
    return x


def _fill(x: Array, value: Array | Number) -> Array:
    xp = namespace(x)
    kind = BY_NUMPY[x.dtype]
    if is_array(value):
        out = shaped_like(xp.empty, x, kind, None)
        out[...] = cast(value, kind)
        return out
    return shaped_like(xp.full, x, kind, None, fits(value, kind))


fill = index(
    "fill", _fill, _fill_rule, "input: Tensor, value: Operand",
    vjp=(lambda g: ops.zeros_like(g), lambda g: ops.sum(g)), batch=batch_assign,
    samples=lambda make: [Sample(make(2, 3), 1.5), Sample(make(2, 3), make()), Sample(make(), make())],
    doc="The tensor's shape, filled with one value.",
    refuses="nothing", lowering="pointwise", exact=True, elementwise=True,
    placing=Placing(repeats=True, whole=True),
)  # fmt: skip
zero = index(
    "zero", lambda x: shaped_like(namespace(x).zeros, x, BY_NUMPY[x.dtype], None), lambda x: x,
    "input: Tensor",
    vjp=lambda g: ops.zeros_like(g), batch=unchanged, method=False, function=False,
    samples=lambda make: [Sample(make(2, 3)), Sample(make())],
    refuses="nothing", lowering="pointwise", exact=True, elementwise=True,
    placing=Placing(repeats=True, whole=True),
)  # fmt: skip


def _is_repeated(x: Array) -> bool:
    """Whether elements are repeated along some dimension (expanded): then PyTorch's copies are row-major."""
    return any(not step and n > 1 for n, step in zip(x.shape, x.strides, strict=True))


def cast(x: Array, kind: dtype, order: str = "K") -> Array:
    """The array in another dtype (the real part, where a complex one becomes real)."""
    target = kind.numpy
    if x.dtype is target:
        return x
    if x.dtype.kind == "c" and target.kind not in "cb":
        x = x.real
    if kind is dtypes.float16 and x.dtype.char == "d":
        x = x.astype(np.float32, order=order)  # PyTorch rounds twice
    if kind in dtypes.NARROW:
        x = within(x, kind)
    return x.astype(target, order=order)


def within(x: Array, kind: dtype) -> Array:
    """Values that a dtype of eight bits holds: PyTorch keeps its largest where it has no infinity, and powers
    of two have no sign.
    """
    xp = namespace(x)
    x = x.astype(np.float32)
    if kind.name == "float8_e4m3fn":
        return xp.clip(x, -448.0, 448.0)
    return xp.maximum(xp.abs(x), 2.0**-127) if kind.name == "float8_e8m0fnu" else x


def copy_format(x: Array, kind: dtype, form: memory_format | None) -> Array:
    """A dense copy in a dtype and a memory format (x's own order where none is given)."""
    if form is None or form is preserve_format:
        order = "C" if _is_repeated(x) else "K"
        if x.dtype is kind.numpy:
            return x.copy(order=order)
        return cast(x, kind, order)
    out = in_format(lambda shape: namespace(x).empty(shape, kind.numpy), x.shape, form)
    out[...] = cast(x, kind)
    return out


def _copy_rule(x: TensorType, dtype: dtype, form: memory_format | None) -> TensorType:
    if form is not None and form is not preserve_format:
        check_format(form, x.ndim)
    return TensorType(x.shape, dtype, x.device)


def _to_copy_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), dtypes.float64)
    yield Sample(make(2, 3), dtypes.float32, grad=False)
    yield Sample(make(), dtypes.int64, grad=False)
    yield Sample(make(0, 3).T, dtypes.complex64, grad=False)
    yield Sample(make(2, 3, 4, 5), dtypes.float64, channels_last)


_to_copy = index(
    "_to_copy", copy_format, _copy_rule, "input: Tensor, dtype: DType, memory_format: MemoryFormat = None",
    vjp=lambda g, _out, _x: ops._to_copy(g, _x.dtype), node="ToCopyBackward0", samples=_to_copy_samples,
    batch=unchanged, method=False, function=False,
    refuses="nothing", lowering="pointwise", cheap=True,
    elementwise=True,
)  # fmt: skip


_to_device = index(
    "_to_device", lambda x, device, _source: transfer(x, device_at(device)),
    lambda x, device, _source: TensorType(x.shape, x.dtype, creation_device(device)),
    "input: Tensor, device: Device, source: Device",
    vjp=lambda g, _out, _x, device, source: ops._to_device(g, source, device), node="ToCopyBackward0",
    batch=unchanged, method=False, function=False,
)  # fmt: skip


def _clone_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield Sample(make())
    yield Sample(make(0, 3).T)
    yield Sample(make(2, 3, 4, 5), memory_format=channels_last)
    yield Sample(make(2, 3).T, memory_format=contiguous_format)


clone = index(
    "clone", lambda x, form: copy_format(x, BY_NUMPY[x.dtype], form),
    lambda x, form: _copy_rule(x, x.dtype, form), "input: Tensor, *, memory_format: MemoryFormat = None",
    vjp=lambda g: g, samples=_clone_samples, batch=unchanged, trusted=True,
    doc="A copy that gradients flow through.",
    refuses="nothing", lowering="pointwise", cheap=True,
    elementwise=True,
)  # fmt: skip


def _contiguous_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3))
    yield Sample(make(2, 3).T)
    yield Sample(make(2, 3, 4, 5), memory_format=channels_last)


NOT_PRESERVED = "preserve memory format is unsupported by the contiguous operator"


@composite(
    "input: Tensor, *, memory_format: MemoryFormat = None", function=False, samples=_contiguous_samples
)
def contiguous(x: Any, form: Any) -> Any:
    """The tensor itself if it has this memory format, else a copy that does."""
    form = contiguous_format if form is None else form
    if isinstance(x, TensorType):
        return _copy_rule(x, x.dtype, form)
    array: Any = getattr(x, "array", x)
    if form is contiguous_format and type(array) in DEVICES and array.flags.c_contiguous:
        return x
    if not hasattr(array, "strides"):  # a value of an interpreter, which has no memory of its own
        return x
    if form is preserve_format:
        if has_format(array.shape, element_strides(array), contiguous_format):
            return x
        raise RuntimeError(NOT_PRESERVED)
    check_format(form, len(array.shape))
    if has_format(array.shape, element_strides(array), form):
        return x
    return ops.clone(x, memory_format=form)


def _assign_rule(x: TensorType, src: TensorType, _non_blocking: bool) -> TensorType:
    shape = broadcast_shapes(x.shape, src.shape)
    if shape != x.shape:
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    return x


def _assigned(x: Array, src: Array, _non_blocking: bool) -> Array:
    out = shaped_like(namespace(x).empty, x, BY_NUMPY[x.dtype], None)
    out[...] = cast(src, BY_NUMPY[x.dtype])
    return out


copy = index(
    "copy", _assigned, _assign_rule, "input: Tensor, src: Tensor, non_blocking: bool = False",
    method=False, function=False, node="CopyBackwards", batch=batch_assign,
    vjp=(lambda g: ops.zeros_like(g), lambda g, _out, _x, _src: ops.sum_to_size(g, _src.shape)),
    samples=lambda make: [Sample(make(2, 3), make(2, 3)), Sample(make(2, 3), make(3)),
        Sample(make(2, 3), make())],
    refuses="nothing", lowering="pointwise", exact=True, elementwise=True, cheap=True,
    placing=Placing(whole=True),
)  # fmt: skip
