"""`gradcheck` and `gradgradcheck`: gradients against finite differences, with PyTorch's arguments and texts.

Takes a function and inputs in double precision; perturbs each element of each input, compares with what
backward gives, and checks that backward is repeatable, linear in its gradient and content with undefined
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.engine import grad
from weft.autograd.forward_ad import dual_level, make_dual, unpack_dual
from weft.core.dtypes import BY_NUMPY, float64
from weft.core.interrupts import let_through
from weft.core.warn import warn_at_level
from weft.ops.record import REGISTRY
from weft.tensor.base import Tensor, wrap
from weft.tensor.tape import Node, gradient_edge, node_between
from weft.tensor.views import settled

if TYPE_CHECKING:
    from weft.core.arrays import Array


Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ, or backward breaks a rule."""


NONDETERMINISTIC = """
NOTE: If your op relies on non-deterministic operations this failure might be expected; call gradcheck or
gradgradcheck with `nondet_tol=<tol>` then.
"""
NEW_CHECK = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it "
    "may break existing callers of this function. If this is true for you, you can call this function with "
    '"check_undefined_grad=False" to disable the feature'
)
REFUSED_UNDEFINED = (
    "Expected backward function to handle undefined output grads. Please look at "
    '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)
UNDEFINED = "Expected all input grads to be undefined or zero when all output grads are undefined or zero."


def gradcheck(
    func: Function,
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` at `inputs` agree with finite differences; raises GradcheckError if
    not."""
    del masked
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert not (check_batched_grad and not check_backward_ad), (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert not (check_batched_forward_grad and not check_forward_ad), (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    check = _Check(*_as_pairs(func, inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        if check_backward_ad:
            check.run(fast_mode, check_undefined_grad, check_batched_grad)
        if check_forward_ad:
            check.compare_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _as_pairs(func: Function, inputs: object) -> tuple[Function, tuple[Any, ...]]:
    """The function on real numbers: a complex input or output is a pair. The gradient of a complex number is
    that of its pair, by definition.
    """
    given = as_tuple(inputs)
    places = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.array.dtype.kind == "c"]
    leaves = list(given)
    for i in places:
        pair = REGISTRY["view_as_real"](wrap(given[i].array.copy()))
        leaves[i] = wrap(pair.array, settled(given[i]).tracked)

    def on_pairs(*args: object) -> Any:
        own = [REGISTRY["view_as_complex"](x) if i in places else x for i, x in enumerate(args)]
        outputs = func(*own)
        parts = [
            REGISTRY["view_as_real"](o) if isinstance(o, Tensor) and o.array.dtype.kind == "c" else o
            for o in as_tuple(outputs)
        ]
        return tuple(parts) if isinstance(outputs, (tuple, list)) else parts[0]

    return on_pairs, tuple(leaves)


def gradgradcheck(
    func: Function,
    inputs: object,
    grad_outputs: object = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether gradients of gradients of `func` agree with finite differences of its gradients."""
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    for name, asked in (("undefined", check_undefined_grad), ("batched", check_batched_grad)):
        assert check_rev_over_rev or not asked, (
            f"Setting check_{name}_grad=True requires check_rev_over_rev to be True"
        )
    given = as_tuple(inputs)
    if grad_outputs is None:
        generator = np.random.default_rng(0)
        made = [
            _random_like(out, generator, gen_non_contig_grad_outputs) for out in differentiable(func(*given))
        ]
    else:
        made = list(as_tuple(grad_outputs))
    count = len(made)

    def first_gradients(*args: object) -> tuple[Any, ...]:
        own, seeds = args[: len(args) - count], args[len(args) - count :]
        wanted = tuple(x for x in own if isinstance(x, Tensor) and x.tracked)
        outs = differentiable(func(*own))
        results = grad(outs, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in results if g is not None)

    return gradcheck(
        first_gradients,
        (*given, *made),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def as_tuple(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(outputs: object) -> tuple[Tensor, ...]:
    """The outputs that require grad."""
    return tuple(o for o in as_tuple(outputs) if isinstance(o, Tensor) and settled(o).tracked)


def _random_like(out: Tensor, generator: np.random.Generator, spread: bool) -> Tensor:
    """A gradient for an output: random, and with gaps in memory if asked."""
    array = generator.uniform(-1, 1, (*out.array.shape, 2) if spread else out.array.shape)
    array = np.asarray(array).astype(out.array.dtype)
    return wrap(array[..., 0] if spread else array, True)


class _Undefined(Node):
    """Lets no gradient pass: what an output looks like whose gradient is undefined."""

    __slots__ = ()

    def raw_backward(self, grad: object) -> Any:
        return (None,)

    graph_backward = raw_backward


def _without_gradient(tensor: Tensor) -> Tensor:
    alias = wrap(tensor.array, True)
    alias.node = node_between(_Undefined, [gradient_edge(tensor)], (tensor, tensor))
    return alias


class _Check:
    """One call of gradcheck."""

    def __init__(
        self,
        func: Function,
        inputs: object,
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
        dtypes: bool,
    ) -> None:
        self.func, self.inputs = func, as_tuple(inputs)
        self.eps, self.atol, self.rtol, self.nondet_tol, self.dtypes = eps, atol, rtol, nondet_tol, dtypes
        self.numbers = [i for i, x in enumerate(self.inputs) if isinstance(x, Tensor) and settled(x).tracked]
        self.wanted: tuple[Tensor, ...] = tuple(self.inputs[i] for i in self.numbers)
        self.check_inputs()

    def check_inputs(self) -> None:
        if not self.wanted:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True."
            )
        for i, x in zip(self.numbers, self.wanted):
            if BY_NUMPY[x.array.dtype] is not float64 and not x.dtype.is_complex:
                warn_at_level(
                    f"Input #{i} requires gradient and is not a double precision floating point or complex. "
                    "This check will "
                    "likely fail if all the inputs are not of double precision floating point or complex. ",
                    UserWarning,
                    stacklevel=4,
                )
            if any(step == 0 and size > 1 for step, size in zip(x.stride(), x.array.shape)):
                raise RuntimeError(
                    f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                    "non-overlapping to "
                    "be able to compute the numerical gradients correctly. You should call .contiguous on "
                    "the input before "
                    "passing it to gradcheck."
                )

    def run(self, fast: bool, undefined: bool, batched: bool) -> None:
        outputs = differentiable(self.func(*self.inputs))
        if not outputs:
            self.expect_zero()
            return
        if fast:
            self.compare_projections(outputs)
        else:
            self.compare(outputs)
        self.check_linearity()
        if batched:
            self.check_batched()
        if undefined:
            self.check_undefined()

    # -- numerical ---------------------------------------------------------------------------------
    def values(self, everything: bool = False) -> list[Any]:
        """The arrays of the outputs, as they are now."""
        outputs = self.func(*self.inputs)
        chosen = as_tuple(outputs) if everything else differentiable(outputs)
        return [
            np.array(o.array, copy=True)
            for o in chosen
            if isinstance(o, Tensor) and o.array.dtype.kind != "b"
        ]

    def slopes(self, x: Tensor, everything: bool = False) -> Iterator[list[Any]]:
        """The change of each output along each element of x."""
        array = x.array
        for index in np.ndindex(array.shape):
            before = array[index]
            array[index] = before + self.eps
            above = self.values(everything)
            array[index] = before - self.eps
            below = self.values(everything)
            array[index] = before
            self.check_alike(below, above, f" on index {index}")
            yield [(a - b) / (2 * self.eps) for a, b in zip(above, below)]

    def check_alike(self, below: list[Any], above: list[Any], where: str) -> None:
        """Outputs must have the same type on both sides of an input."""
        for a, b in zip(below, above):
            for what in ("shape", "dtype"):
                one, other = getattr(wrap(a), what), getattr(wrap(b), what)
                if one != other:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed"
                        f"{where} by {self.eps}, but got: {what}s {one} and {other}."
                    )

    def numerical(self, x: Tensor, outputs: tuple[Tensor, ...]) -> list[Any]:
        """One matrix per output: rows are elements of x, columns elements of the output."""
        rows = list(self.slopes(x))
        return [
            np.array([np.ravel(row[k]) for row in rows], dtype=out.array.dtype).reshape(
                x.array.size, out.array.size
            )
            for k, out in enumerate(outputs)
        ]

    def expect_zero(self) -> None:
        for x in self.wanted:
            for changes in self.slopes(x, everything=True):
                if any(np.any(change != 0) for change in changes):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    # -- analytical --------------------------------------------------------------------------------
    def gradients(self, output: Tensor, seed: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = grad(
            (output,), self.wanted, (wrap(seed),), retain_graph=True, allow_unused=True
        )
        return found

    def analytical(self, output: Tensor) -> list[Any]:
        """One matrix per input, from one backward per element of the output."""
        size = output.array.size
        matrices = [np.zeros((x.array.size, size), x.array.dtype) for x in self.wanted]
        for column in range(size):
            seed = np.zeros(size, output.array.dtype)
            seed[column] = 1
            for x, matrix, result in zip(
                self.wanted, matrices, self.gradients(output, seed.reshape(output.array.shape))
            ):
                if result is None:
                    continue
                if result.array.shape != x.array.shape:
                    raise GradcheckError("Analytical gradient has incorrect size")
                if self.dtypes and result.array.dtype is not x.array.dtype:
                    raise GradcheckError("Gradient has dtype mismatch")
                matrix[:, column] = np.ravel(result.array)
        return matrices

    def repeatable(self, output: Tensor) -> list[Any]:
        first, second = self.analytical(output), self.analytical(output)
        for a, b in zip(first, second):
            self.check_equal(a, b)
        return first

    def check_equal(self, first: Any, second: Any) -> None:
        """Two runs of one backward must give the same."""
        if np.any(np.abs(first - second) > self.nondet_tol):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives "
                "different values, although analytical gradient matches numerical gradient."
                f"The tolerance for nondeterminism was {self.nondet_tol}.\n{NONDETERMINISTIC}"
            )

    # -- comparisons -------------------------------------------------------------------------------
    def compare(self, outputs: tuple[Tensor, ...]) -> None:
        numerical = [self.numerical(x, outputs) for x in self.wanted]
        for k, output in enumerate(outputs):
            for i, analytical in enumerate(self.repeatable(output)):
                if not np.allclose(analytical, numerical[i][k], self.rtol, self.atol):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {i},\n"
                        f"numerical:{wrap(numerical[i][k])}\nanalytical:{wrap(analytical)}\n"
                    )

    def compare_projections(self, outputs: tuple[Tensor, ...]) -> None:
        """Compares one number per pair of input and output, instead of a matrix."""
        generator = np.random.default_rng(0)
        sides = [_direction(out.array, generator) for out in outputs]
        for i, x in enumerate(self.wanted):
            along = _direction(x.array, generator)
            before = x.array.copy()
            x.array[...] = before + self.eps * along
            above = self.values()
            x.array[...] = before - self.eps * along
            below = self.values()
            x.array[...] = before
            self.check_alike(below, above, "")
            for k, (output, side) in enumerate(zip(outputs, sides)):
                numerical = float(np.sum((above[k] - below[k]) / (2 * self.eps) * side))
                result, again = (self.gradients(output, side)[i] for _ in range(2))
                if result is not None and again is not None:
                    self.check_equal(result.array, again.array)
                analytical = 0.0 if result is None else float(np.sum(result.array * along))
                slack = self.atol * float(along.sum()) * float(side.sum())
                if not np.isclose(analytical, numerical, self.rtol, slack):
                    raise GradcheckError(self.projection_text(outputs, i, k, numerical, analytical))

    def projection_text(
        self, outputs: tuple[Tensor, ...], i: int, k: int, numerical: float, analytical: float
    ) -> str:
        slow, exact = self.numerical(self.wanted[i], outputs)[k], self.analytical(outputs[k])[i]
        return (
            f"Jacobian mismatch for output {k} with respect to input "
            f"{i},\nnumerical:{numerical}\nanalytical:{analytical}\n\n"
            "The above quantities relating the numerical and analytical jacobians are computed \nin fast "
            "mode. Below, we recompute "
            "numerical and analytical jacobians in slow mode:\n\nNumerical:\n "
            f"{wrap(slow)}\nAnalytical:\n{wrap(exact)}\n\n"
            "The max per-element difference (slow mode) is: "
            f"{np.abs(slow - exact).max() if slow.size else 0.0}.\n"
        )

    def compare_forward(self) -> None:
        """Compares what forward mode gives along each element of each input."""
        outputs = differentiable(self.func(*self.inputs))
        for i, (place, x) in enumerate(zip(self.numbers, self.wanted)):
            numerical = self.numerical(x, outputs)
            rows = [np.zeros_like(matrix) for matrix in numerical]
            for element, index in enumerate(np.ndindex(x.array.shape)):
                along = np.zeros_like(x.array)
                along[index] = 1
                for matrix, tangent in zip(rows, self.tangents(place, along)):
                    if tangent is not None:
                        matrix[element] = np.ravel(tangent.array)
            for k, (expected, found) in enumerate(zip(numerical, rows)):
                if not np.allclose(found, expected, self.rtol, self.atol):
                    raise GradcheckError(
                        f"Jacobian computed with forward mode mismatch for output {k} with respect to input "
                        f"{i},\nnumerical:{wrap(expected)}\nanalytical:{wrap(found)}\n"
                    )

    def tangents(self, place: int, along: object) -> list[Any]:
        """How the differentiable outputs move where one input moves along this direction."""
        with dual_level():
            given = list(self.inputs)
            for number in self.numbers:  # the others stand still
                given[number] = make_dual(given[number], wrap(np.zeros_like(given[number].array)))
            given[place] = make_dual(self.inputs[place], wrap(along))
            moved = as_tuple(self.func(*given))
            plain = as_tuple(self.func(*self.inputs))
            chosen = [isinstance(o, Tensor) and settled(o).tracked for o in plain]
            return [unpack_dual(o).tangent for o, taken in zip(moved, chosen) if taken]

    def check_linearity(self) -> None:
        """A gradient of zeros must give zeros."""
        outputs = differentiable(self.func(*self.inputs))
        seeds = tuple(wrap(np.zeros_like(o.array)) for o in outputs)
        for x, result in zip(self.wanted, grad(outputs, self.wanted, seeds, allow_unused=True)):
            if result is None:
                continue
            if np.any(result.array != 0):
                raise GradcheckError("backward not multiplied by grad_output")
            if result.array.dtype is not x.array.dtype:
                raise GradcheckError("grad is incorrect type")
            if result.array.shape != x.array.shape:
                raise GradcheckError("grad is incorrect size")

    def check_undefined(self) -> None:
        """Gradients of the inputs are undefined or zero where those of the outputs are undefined."""
        for number in (None, *range(len(differentiable(self.func(*self.inputs))))):
            outputs = differentiable(self.func(*self.inputs))
            seeds = tuple(wrap(np.zeros_like(o.array)) for o in outputs)
            chosen = tuple(_without_gradient(o) if number in (None, i) else o for i, o in enumerate(outputs))
            for result in self.gradients_of_undefined(chosen, seeds):
                if result is not None and np.any(result.array != 0):
                    raise GradcheckError(UNDEFINED)

    def gradients_of_undefined(self, outputs: tuple[Any, ...], seeds: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            found: tuple[Any, ...] = grad(outputs, self.wanted, seeds, allow_unused=True)
        except RuntimeError as error:
            let_through(error)
            warn_at_level(NEW_CHECK, UserWarning, stacklevel=6)
            raise GradcheckError(REFUSED_UNDEFINED) from error
        return found

    def check_batched(self) -> None:
        """Gradients taken several at a time equal those taken one by one."""
        outputs = differentiable(self.func(*self.inputs))
        generator = np.random.default_rng(0)
        for output in outputs:
            seeds = np.asarray(generator.uniform(-1, 1, (2, *output.array.shape))).astype(output.array.dtype)
            together = grad(
                (output,),
                self.wanted,
                (wrap(seeds),),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
            alone = [self.gradients(output, np.array(seed)) for seed in seeds]
            for i, batch in enumerate(together):
                for j, single in enumerate(alone):
                    if batch is not None and not np.allclose(batch.array[j], single[i].array):
                        raise GradcheckError(
                            f"For output 0 and input {i}: gradients taken as a batch differ from single ones"
                        )


def _direction(array: Array, generator: np.random.Generator) -> Any:
    """A random direction of length one, with positive entries so that errors do not cancel."""
    raw = np.asarray(generator.uniform(0, 1, array.shape))
    length = float(np.sqrt((raw * raw).sum()))
    return np.asarray(raw / length if length else raw, array.dtype)
