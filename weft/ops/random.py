"""Random ops: PyTorch's samplers, as composites that take numbers from a generator's stream.

Takes sizes or tensors, parameters of a distribution and a generator; gives draws. One idea: a sampler first
takes (key, offset) from its generator and then calls a pure op, `philox_*`, whose result is a function of its
arguments alone. So whoever replays or compiles a program passes the offsets in, and gets the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from threading import local
from typing import Any, Final

import numpy as np

import weft.ops.philox as philox
from weft.core import dtypes
from weft.core import generator as generators
from weft.core.arrays import Array, is_array, namespace
from weft.core.device import creation_device
from weft.core.devices import device_at
from weft.core.dtypes import BY_NUMPY, dtype
from weft.core.generator import Generator
from weft.core.naming import named
from weft.core.symbolic import applied
from weft.core.types import TensorType, layout, preserve_format
from weft.core.warn import warn
from weft.ops.create import LIKE, OPTIONS
from weft.ops.facts import Rule
from weft.ops.families import create, random, sampler
from weft.ops.options import check_layout, checked_size, chosen, fits
from weft.ops.philox import FORMULAS, Drawn
from weft.ops.record import Op, broadcast_shapes, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import DeviceLike, DType, Number, Operand, Sizes, TensorLike

PARAMETERS: Final = {
    "uniform": "low: float, high: float", "normal": "mean: Number, std: float", "exponential": "rate: float",
    "cauchy": "median: float, sigma: float", "log_normal": "mean: float, std: float", "geometric": "p: float",
    "integers": "low: int, high: int", "full_range": "", "bernoulli": "p: float",
}  # fmt: skip
NODES: Final = {
    "uniform": "UniformBackward0", "normal": "NormalBackward0", "exponential": "ExponentialBackward0",
    "cauchy": "CauchyBackward0",
    "log_normal": "LogNormalBackward0", "geometric": "GeometricBackward0", "integers": "RandomBackward0",
    "full_range": "RandomBackward2", "bernoulli": "BernoulliBackward2",
}  # fmt: skip
"""What the in-place samplers' gradient nodes are called; their gradients are zero."""


# -- pure draws ----------------------------------------------------------------------------------------------
def _sized(draw: str) -> Op:
    """`philox_<draw>`: draws in a shape."""

    formula = FORMULAS[draw]

    def kernel(size: Sizes, key: int, offset: int, *rest: Any) -> Array:
        *parameters, kind, device, _grad = rest
        xp = device_at(device).xp
        return formula(Drawn(key, offset, tuple(size), kind.numpy, xp), *parameters)

    def rule(size: Sizes, _key: int, _offset: int, *rest: Any) -> TensorType:
        return TensorType(size, rest[-3], creation_device(rest[-2]))

    words = [p for p in ("size: Shape, key: int, offset: int", PARAMETERS[draw]) if p]
    signature = ", ".join([*words, "dtype: DType, device: Device = None, requires_grad: bool = False"])
    examples = [
        Sample((2, 3), 7, 5, *_example(draw), dtypes.float32),
        Sample((0,), 7, 5, *_example(draw), dtypes.float64),
    ]
    return create(
        f"philox_{draw}",
        kernel,
        rule,
        signature,
        method=False,
        function=False,
        trusted=True,
        samples=lambda make: iter(examples),
    )


def _over(draw: str) -> Op:
    """`philox_<draw>_like`: draws in the place of a tensor's elements, to which no gradient flows."""

    formula = FORMULAS[draw]

    def kernel(x: Array, key: int, offset: int, *parameters: Any) -> Array:
        return formula(Drawn(key, offset, x.shape, x.dtype, namespace(x)), *parameters)

    words = [p for p in ("input: Tensor, key: int, offset: int", PARAMETERS[draw]) if p]
    return random(
        f"philox_{draw}_like", kernel, lambda x, *_rest: x, ", ".join(words), vjp=lambda g: ops.zeros_like(g),
        node=NODES[draw], method=False, function=False,
        samples=lambda make: [Sample(make(2, 3), 7, 5, *_example(draw), grad=False)],
        refuses="nothing",
    )  # fmt: skip


def _example(draw: str) -> tuple[Any, ...]:
    return {
        "full_range": (),
        "exponential": (2.0,),
        "geometric": (0.5,),
        "bernoulli": (0.5,),
        "integers": (0, 5),
    }.get(draw, (0.5, 1.5))


for _draw in PARAMETERS:
    _sized(_draw)
    _over(_draw)

philox_permutation = create(
    "philox_permutation",
    lambda n, key, offset, dtype, device, _grad: philox.permutation(
        key, offset, n, dtype.numpy, device_at(device).xp
    ),
    lambda n, key, offset, dtype, device, _grad: TensorType((n,), dtype, creation_device(device)),
    "n: int, key: int, offset: int, dtype: DType, device: Device = None, requires_grad: bool = False",
    method=False, function=False,
    samples=lambda make: [Sample(5, 7, 5, dtypes.int64)],
)  # fmt: skip


def _bernoulli_by(p: Array, key: int, offset: int, kind: dtype, size: Sizes) -> Array:
    xp = namespace(p)
    if not bool(((p >= 0) & (p <= 1)).all()):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    return philox.bernoulli(key, offset, tuple(size), kind.numpy, xp.broadcast_to(p, tuple(size)), xp=xp)


philox_bernoulli_by = random(
    "philox_bernoulli_by", _bernoulli_by,
    lambda p, key, offset, kind, size: TensorType(size, kind, p.device),
    "p: Tensor, key: int, offset: int, dtype: DType, size: Any",
    vjp=lambda g, _out, _p: ops.new_zeros(g, _p.shape), node="BernoulliBackward0", method=False,
    function=False,
    samples=lambda make: [Sample(make(2, 3, low=0, high=1), 7, 5, dtypes.float64, (2, 3), grad=False)],
)  # fmt: skip


def _normal_by(mean: Array | Number, std: Any, key: int, offset: int) -> Array:
    tensor = mean if is_array(mean) else std
    xp = namespace(tensor)
    if is_array(std) and std.size and not bool((std >= 0).all()):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    shape = broadcast_shapes(*[v.shape for v in (mean, std) if is_array(v)])
    draws = philox.normal(key, offset, shape, tensor.dtype, xp=xp)
    work = BY_NUMPY[tensor.dtype].computes_in.numpy
    result = xp.multiply(draws, std, dtype=work, casting="unsafe")
    result = xp.add(result, mean, dtype=work, casting="unsafe")
    return xp.asarray(result).astype(tensor.dtype, copy=False)


def _normal_rule(mean: TensorType | Number, std: TensorType | Number, _key: int, _offset: int) -> TensorType:
    types = [v for v in (mean, std) if isinstance(v, TensorType)]
    return TensorType(broadcast_shapes(*[t.shape for t in types]), types[0].dtype, types[0].device)


philox_normal_by = random(
    "philox_normal_by", _normal_by, _normal_rule, "mean: Operand, std: Operand, key: int, offset: int",
    vjp=(lambda g, _out, _mean: ops.new_zeros(g, _mean.shape), lambda g, _out, _mean, _std: ops.new_zeros(g,
    _std.shape)),
    node="NormalBackward3", method=False, function=False,
    samples=lambda make: [Sample(make(2, 1), make(3, low=0.5), 7, 5, grad=False),
        Sample(make(2), 2.0, 7, 5, grad=False)],
)  # fmt: skip


def _multinomial(x: Array, key: int, offset: int, num_samples: int, replacement: bool) -> Array:
    philox.check_multinomial(x, num_samples, replacement)
    return philox.multinomial(key, offset, x, num_samples, replacement)


def _multinomial_rule(
    x: TensorType, _key: int, _offset: int, num_samples: int, replacement: bool
) -> TensorType:
    return TensorType((*x.shape[:-1], num_samples), dtypes.int64, x.device)


philox_multinomial = random(
    "philox_multinomial", _multinomial, _multinomial_rule,
    "input: Tensor, key: int, offset: int, num_samples: int, replacement: bool", method=False, function=False,
    samples=lambda make: [Sample(make(3, 4, low=0.1), 7, 5, 2, False),
        Sample(make(4, low=0.1), 7, 5, 6, True)],
)  # fmt: skip


# -- taking from a stream ------------------------------------------------------------------------------------
class Drawing(local):
    """Whether this thread may draw: not while a body is run on types, when no generator may move on."""

    allowed = True


drawing: Final = Drawing()


def take(draw: str, count: int, kind: dtype, generator: Generator | None, name: str) -> tuple[int, int]:
    """(key, offset) for one draw of so many elements; the generator moves on."""
    if not drawing.allowed:
        raise RuntimeError(f"{name}() would draw")
    source = generators.default_generator if generator is None else generator
    if not isinstance(source, generators.Generator):
        raise TypeError(
            named(f"{name}(): argument 'generator' must be weft.Generator, not {type(generator).__name__}")
        )
    return source.advance(philox.blocks(draw, count, kind.numpy))


def _created(
    name: str, draw: str, size: Sizes, parameters: tuple[Any, ...], kind: dtype, generator: Generator | None,
    device: DeviceLike, requires_grad: bool,
) -> Any:  # fmt: skip
    """A new tensor of draws."""
    shape = checked_size(size, name)
    key, offset = take(draw, math.prod(shape), kind, generator, name)
    op = getattr(ops, f"philox_{draw}")
    return op.face(shape, key, offset, *parameters, kind, device, requires_grad)


def _like(
    name: str, draw: str, x: TensorLike, parameters: tuple[Any, ...], generator: Generator | None,
    options: tuple[Any, ...], check: Callable[..., None] | None = None,
) -> Any:  # fmt: skip
    """Draws in the shape of a tensor, an array or a type."""
    dtype_, layout, device, _pin, requires_grad, form = options
    check_layout(layout)
    like = type_of(x)
    kind = chosen(dtype_, like.dtype, name)
    if check is not None:
        check(kind)
    where = like.device if device is None else creation_device(device)
    key, offset = take(draw, like.numel(), kind, generator, name)
    bound = (like.shape, key, offset, *parameters, kind, where, requires_grad)
    op = getattr(ops, f"philox_{draw}")
    if isinstance(x, TensorType):
        return op.on_types(bound)
    if is_array(x):
        return op.on_arrays(bound)
    made = op.face(*bound)
    if form is None or form is preserve_format or where.type == "meta":
        return made
    return ops.clone(made, memory_format=form)


def _written(
    name: str, draw: str, x: TensorLike, parameters: tuple[Any, ...], generator: Generator | None
) -> Any:
    """Draws for all elements of a tensor: what an in-place sampler stores."""
    like = type_of(x)
    key, offset = take(draw, like.numel(), like.dtype, generator, name)
    return getattr(ops, f"philox_{draw}_like")(x, key, offset, *parameters)


def _floats(*values: Any) -> tuple[Any, ...]:
    """Parameters as the floats they stand for; those that a capture keeps open are not asked for values."""
    return tuple([value if isinstance(value, complex) else applied(float, value) for value in values])


# -- checks --------------------------------------------------------------------------------------------------
def _number(value: float) -> str:
    return f"{value:g}"


def _refuse(kernel: str, kind: dtype) -> None:
    raise unsupported(kernel, kind)


ZERO: Final = 0.0
ONE: Final = 1.0
"""The bounds that every floating dtype has numbers between, told by identity."""


def check_uniform(kind: dtype, low: float = ZERO, high: float = ONE) -> None:
    """Raises unless [low, high) can be drawn from in this dtype."""
    if low is ZERO and high is ONE and kind.category == dtypes.FLOAT:
        return
    if kind.is_complex:
        kind = kind.to_real()
    if not kind.is_floating_point:
        _refuse("check_uniform_bounds", kind)
    most = dtypes.finfo(kind).max
    for label, value in (("from", low), ("to", high)):
        if not -most <= value <= most:
            raise RuntimeError(f"{label} is out of bounds for {kind.c_name}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={_number(low)} > "
            f"to={_number(high)}"
        )
    if high - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{kind.scalar_name}>::max(), but found "
            f"to={_number(high)} and "
            f"from={_number(low)} which result in to-from to exceed the limit"
        )


def check_normal(kind: dtype, std: float = 1.0) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {_number(std)}")
    if kind.category < dtypes.FLOAT:
        _refuse("normal_kernel_cpu", kind)


def check_integers(kind: dtype, low: int, high: int) -> None:
    """Raises unless integers of [low, high) can be drawn in this dtype."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    bounds = (("from", low), ("to - 1", high - 1))
    if kind.is_floating_point:
        most = dtypes.finfo(kind).max
        for label, value in bounds:
            if not -most <= value <= most:
                raise RuntimeError(f"{label} is out of bounds for {kind.c_name}")
            if abs(value) > 2**kind.digits:
                warn(
                    f"{label} is out of bounds [-(2^{kind.digits}), 2^{kind.digits}]. Due to precision "
                    f"limitations "
                    f"{kind.c_name} can support discrete uniform distribution only within this range."
                )
        return
    least, most = (0, 1) if kind is dtypes.bool_ else (np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max)
    for label, value in bounds:
        if not least <= value <= most:
            raise RuntimeError(f"{label} is out of bounds for {kind.cpp_name.removesuffix(' int')}")


def _whole(value: Any, name: str, label: str) -> Any:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - '{label}' must be int, not "
            f"{type(value).__name__}"
        )
    return applied(int, value)


# -- new tensors ---------------------------------------------------------------------------------------------
DRAWN: Final = f"generator: Generator = None, {OPTIONS}"


def _standard(name: str, doc: str, draw: str, check: Callable[..., None]) -> Op:
    def body(
        size: Sizes, generator: Generator | None, dtype: DType, layout: layout | None, device: DeviceLike,
        _pin: bool, requires_grad: bool,
    ) -> Any:  # fmt: skip
        check_layout(layout)
        kind = chosen(dtype, None, name)
        check(kind)
        return _created(name, draw, size, (0.0, 1.0), kind, generator, device, requires_grad)

    return sampler(
        f"*size: Shape, {DRAWN}", name, method=False, out=True, doc=doc, refuses="nothing", lowering="random",
        stream=draw, samples=lambda make: [Sample((2, 3))],
    )(body)  # fmt: skip


rand = _standard("rand", "Uniform numbers in [0, 1).", "uniform", check_uniform)
randn = _standard("randn", "Normal numbers of mean 0 and variance 1.", "normal", check_normal)


@sampler(
    f"low: int = None, high: int = None, size: Shape = None, *, {DRAWN}",
    stream="integers",
    method=False,
    out=True,
    samples=lambda make: [Sample(5, (2, 3)), Sample(-2, 5, (4,))],
    refuses="nothing",
    lowering="random",
)
def randint(
    low: Any,
    high: Any,
    size: Any,
    generator: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
) -> Any:
    """Uniform random integers in [low, high); low is 0 where only high is given."""
    check_layout(layout)
    if isinstance(high, (tuple, list)) and size is None:
        low, high, size = None, low, high
    elif size is None and low is not None and high is not None:
        raise TypeError(
            f"randint(): argument 'size' (position 2) must be tuple of ints, not {type(high).__name__}"
        )
    if high is None or size is None:
        raise TypeError("randint() received an invalid combination of arguments: it needs high and size")
    low, high = _whole(0 if low is None else low, "randint", "low"), _whole(high, "randint", "high")
    kind = chosen(dtype, dtypes.int64, "randint")
    checked_size(size, "randint")
    check_integers(kind, low, high)
    return _created("randint", "integers", size, (low, high), kind, generator, device, requires_grad)


@sampler(
    f"n: int, *, {DRAWN}",
    stream="permutation",
    method=False,
    out=True,
    samples=lambda make: [Sample(5)],
    refuses="nothing",
)
def randperm(
    n: int, generator: Generator | None, dtype: DType, layout: layout | None, device: DeviceLike,
    pin_memory: bool, requires_grad: bool,
) -> Any:  # fmt: skip
    """The numbers 0 to n - 1 in random order."""
    check_layout(layout)
    kind = chosen(dtype, dtypes.int64, "randperm")
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if kind.category in (dtypes.BOOL, dtypes.COMPLEX):
        _refuse("randperm", kind)
    fits(n, kind)
    if kind.digits and n > 2**kind.digits + 1:
        raise RuntimeError(f"n cannot be greater than 2^{kind.digits}+1 for {kind.scalar_name} type.")
    key, offset = take("permutation", n, kind, generator, "randperm")
    return ops.philox_permutation.face(int(n), key, offset, kind, device, requires_grad)


def _like_samples(*rest: Any) -> Callable[[Maker], Iterator[Sample]]:
    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make(2, 3), *rest, grad=False)
        yield Sample(make(0, 3), *rest, dtype=dtypes.float32, grad=False)
        yield Sample(make(), *rest, grad=False)

    return samples


LIKE_DRAWN: Final = f"generator: Generator = None, {LIKE}"


def _standard_like(name: str, doc: str, draw: str, check: Callable[..., None]) -> Op:
    def body(x: TensorLike, generator: Generator | None, *options: Any) -> Any:
        return _like(name, draw, x, (0.0, 1.0), generator, options, check)

    return sampler(
        f"input: Tensor, *, {LIKE_DRAWN}", name, method=False, samples=_like_samples(), doc=doc,
        refuses="nothing", lowering="random", reads_elements=False, stream=draw,
    )(body)  # fmt: skip


rand_like = _standard_like(
    "rand_like", "Uniform numbers in [0, 1) in the shape of another tensor.", "uniform", check_uniform
)
randn_like = _standard_like(
    "randn_like", "Normal numbers in the shape of another tensor.", "normal", check_normal
)


@sampler(
    f"input: Tensor, low: int = None, high: int = None, *, {LIKE_DRAWN}",
    stream="integers",
    method=False,
    samples=_like_samples(5),
    refuses="nothing",
    lowering="random",
    reads_elements=False,
)
def randint_like(x: Any, low: Any, high: Any, generator: Any, *options: Any) -> Any:
    """Uniform random integers in [low, high) in the shape of another tensor."""
    if high is None:
        low, high = 0, low
    first, last = (
        _whole(0 if low is None else low, "randint_like", "low"),
        _whole(high, "randint_like", "high"),
    )
    check = lambda kind: check_integers(kind, first, last)
    return _like("randint_like", "integers", x, (first, last), generator, options, check)


# -- from tensors of parameters ------------------------------------------------------------------------------
def _become(_op: Op, target: Any, value: Any, _tensors: object) -> None:
    """An `out=` of another shape is resized without a word; one of another dtype takes the values cast."""
    value.array = value.array.astype(target.array.dtype, copy=False)
    if target.array.shape != value.array.shape:
        target.array = namespace(target.array).empty(value.array.shape, target.array.dtype)


def _become_indices(op: Op, target: Any, value: Any, tensors: Any) -> None:
    if target.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {target.dtype.scalar_name}")
    _become(op, target, value, tensors)


def _bernoulli_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=0, high=1), grad=False)
    yield Sample(make(2, 3, low=0, high=1), 0.25, grad=False)
    yield Sample(make(0, 3, low=0, high=1), grad=False)


@sampler(
    "input: Tensor, p: float = None, *, generator: Generator = None",
    stream="bernoulli",
    out=_become,
    samples=_bernoulli_samples,
    lowering="random",
)
def bernoulli(x: Any, p: Any, generator: Any) -> Any:
    """Zeros and ones; a one has the probability that the tensor holds (or p, in its shape)."""
    like = type_of(x)
    if p is not None:
        _check_probability(p)
        return _written("bernoulli", "bernoulli", x, _floats(p), generator)
    if not like.dtype.is_floating_point:
        _refuse("bernoulli_tensor_cpu_p_", like.dtype)
    key, offset = take("bernoulli", like.numel(), like.dtype, generator, "bernoulli")
    return ops.philox_bernoulli_by(x, key, offset, like.dtype, like.shape)


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={_number(p)}")


def _multinomial_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(3, 4, low=0.1), 2)
    yield Sample(make(4, low=0.1), 6, True)


@sampler(
    "input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator = None",
    stream="multinomial", out=_become_indices, samples=_multinomial_samples,
)  # fmt: skip
def multinomial(x: TensorLike, num_samples: int, replacement: bool, generator: Generator | None) -> Any:
    """Indices along the last dimension, drawn with the probabilities that the tensor's elements are
    proportional to.
    """
    like = type_of(x)
    if like.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not like.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {like.dtype.scalar_name}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > like.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    count = philox.multinomial_count(like.shape, num_samples, replacement)
    key, offset = take("multinomial", count, like.dtype, generator, "multinomial")
    return ops.philox_multinomial(x, key, offset, int(num_samples), bool(replacement))


def _normal_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(3, low=0.5), grad=False)
    yield Sample(make(2, 3), 2.0, grad=False)
    yield Sample(0.5, make(2, 3, low=0.5), grad=False)


@sampler(
    f"mean: Operand, std: Operand = 1.0, size: Shape = None, *, {DRAWN}",
    stream="normal",
    method=False,
    out=True,
    samples=_normal_samples,
    lowering="random",
)
def normal(
    mean: Operand, std: Any, size: Sizes | None, generator: Generator | None, dtype: Any,
    layout: layout | None, device: DeviceLike, pin_memory: bool, requires_grad: bool,
) -> Any:  # fmt: skip
    """Normal numbers of these means and standard deviations."""
    numbers = [not hasattr(value, "shape") for value in (mean, std)]
    if all(numbers):
        if size is None:
            raise TypeError("normal() received an invalid combination of arguments - numbers need a size")
        check_layout(layout)
        kind = chosen(dtype, None, "normal")
        check_normal(kind, std)
        return _created("normal", "normal", size, (mean, std), kind, generator, device, requires_grad)
    like = type_of(std if numbers[0] else mean)
    if dtype is not None:  # that of out=
        check_normal(dtype)
    if not numbers[1] and type_of(std).dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    check_normal(like.dtype, std if numbers[1] else 0.0)
    shape = broadcast_shapes(
        *[type_of(v).shape for v, number in zip((mean, std), numbers, strict=True) if not number]
    )
    key, offset = take("normal", math.prod(shape), like.dtype, generator, "normal")
    return ops.philox_normal_by(mean, std, key, offset)


# -- in place ------------------------------------------------------------------------------------------------
def _tensor_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), grad=False)
    yield Sample(make(0), grad=False)


def _filler(signature: str, name: str | None = None, **facts: Any) -> Callable[[Rule], Op]:
    """Decorator: as `sampler`, for what fills a tensor with draws, in its in-place form alone."""
    told: dict[str, Any] = {"samples": _tensor_samples, "refuses": "nothing", "lowering": "random"} | facts
    signature = f"input: Tensor, {signature}, *, generator: Generator = None"
    return sampler(signature, name, method=False, function=False, inplace=True, **told)


@_filler("from_: float = 0, to: float = 1", stream="uniform")
def uniform(x: TensorLike, from_: float, to: float, generator: Generator | None) -> Any:
    """Uniform numbers in [from, to)."""
    check_uniform(type_of(x).dtype, from_, to)
    return _written("uniform_", "uniform", x, _floats(from_, to), generator)


@_filler("mean: float = 0, std: float = 1", stream="normal", aliases=("normal",))
def _normal(x: TensorLike, mean: float, std: float, generator: Generator | None) -> Any:
    """Normal numbers."""
    check_normal(type_of(x).dtype, std)
    return _written("normal_", "normal", x, _floats(mean, std), generator)


@_filler("p: Operand = 0.5", stream="bernoulli", aliases=("bernoulli",), refuses=None)
def _bernoulli(x: TensorLike, p: TensorLike | float, generator: Generator | None) -> Any:
    """Ones with probability p (a number, or a tensor that broadcasts), else zeros."""
    like = type_of(x)
    if not hasattr(p, "shape"):
        _check_probability(p)
        return _written("bernoulli_", "bernoulli", x, _floats(p), generator)
    given = type_of(p)
    if not given.dtype.is_floating_point:
        _refuse("bernoulli_tensor_cpu_p_", given.dtype)
    _check_expands(given.shape, like.shape)
    key, offset = take("bernoulli", like.numel(), like.dtype, generator, "bernoulli_")
    return ops.philox_bernoulli_by(p, key, offset, like.dtype, like.shape)


def _check_expands(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raises what `expand` would, were the shape to become the target."""
    if len(shape) > len(target):
        raise RuntimeError(
            f"expand(FloatTensor{{{list(shape)}}}, size={list(target)}): the number of sizes provided "
            f"({len(target)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    for back in range(1, len(shape) + 1):
        if shape[-back] not in (1, target[-back]):
            raise RuntimeError(
                f"The expanded size of the tensor ({target[-back]}) must match the existing size "
                f"({shape[-back]}) at "
                f"non-singleton dimension {len(target) - back}.  Target sizes: {list(target)}.  Tensor "
                f"sizes: {list(shape)}"
            )


@_filler("lambd: float = 1", stream="exponential")
def exponential(x: TensorLike, lambd: float, generator: Generator | None) -> Any:
    """Exponentially distributed numbers of this rate."""
    kind = type_of(x).dtype
    if not kind.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a floating "
            "point but you "
            f"specified {kind.scalar_name}"
        )
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={_number(lambd)}")
    return _written("exponential_", "exponential", x, _floats(lambd), generator)


@_filler("median: float = 0, sigma: float = 1", stream="cauchy")
def cauchy(x: TensorLike, median: float, sigma: float, generator: Generator | None) -> Any:
    """Numbers of a Cauchy distribution."""
    kind = type_of(x).dtype
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={_number(sigma)}")
    if not kind.is_floating_point:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point "
            "but you specified "
            f"{kind.c_name.replace('int64_t', 'long int')}"
        )
    return _written("cauchy_", "cauchy", x, _floats(median, sigma), generator)


@_filler("mean: float = 1, std: float = 2", stream="log_normal", lowering=None)
def log_normal(x: TensorLike, mean: float, std: float, generator: Generator | None) -> Any:
    """Exponentials of normal numbers."""
    kind = type_of(x).dtype
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={_number(std)}")
    if not kind.is_floating_point:
        _refuse("log_normal_cpu", kind)
    return _written("log_normal_", "log_normal", x, _floats(mean, std), generator)


@_filler("p: float", stream="geometric", samples=lambda make: [Sample(make(2, 3), 0.25, grad=False)])
def geometric(x: TensorLike, p: float, generator: Generator | None) -> Any:
    """How many trials until the first success, each with probability p."""
    kind = type_of(x).dtype
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={_number(p)}")
    if kind.category in (dtypes.BOOL, dtypes.COMPLEX):
        _refuse("geometric_cpu", kind)
    return _written("geometric_", "geometric", x, _floats(p), generator)


@_filler("from_: int = None, to: int = None", stream="integers", name="random")
def random_(x: Any, from_: Any, to: Any, generator: Any) -> Any:
    """Uniform random integers in [from, to), or of all that the dtype represents."""
    kind = type_of(x).dtype
    if from_ is None and to is None:
        if kind.is_complex:
            _refuse("random_kernel_cpu", kind)
        return _written("random_", "full_range", x, (), generator)
    low, high = (0, from_) if to is None else (0 if from_ is None else from_, to)
    low, high = _whole(low, "random_", "from"), _whole(high, "random_", "to")
    check_integers(kind, low, high)
    return _written("random_", "integers", x, (low, high), generator)
