"""Jacobians, Hessians and products with them, as functions of a function and its inputs
(`autograd.functional`).

Takes a function of tensors, its inputs (a tensor or a tuple) and where needed a vector; gives tensors,
nested in tuples as inputs and outputs are. One idea: everything is `autograd.grad` once or twice;
`vectorize=True` runs all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.autograd.dual import Directions, is_dual, tangents_of
from weft.autograd.engine import grad
from weft.autograd.entries import Differentiation
from weft.autograd.forward_ad import checked_dual
from weft.autograd.grad_mode import enable_grad
from weft.autograd.mapping import entered, vmap
from weft.autograd.reverse import gradients
from weft.core.naming import named
from weft.ops.record import ops
from weft.tensor.base import Tensor

Tensors = tuple[Tensor, ...]
NEEDS_VECTOR = "The vector v can only be None if the {} a single Tensor with a single element."
STRICT = "This is not allowed in strict mode."
TWICE = (
    " You should ensure that your function is twice differentiable and that the jacobian depends on the "
    "inputs (this would be violated by a linear function for example)."
)
BACK = "The output of the user-provided function is independent of input {}. " + STRICT
PUSHED = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
    "double backward trick to compute forward mode gradients. " + STRICT
)
SECOND = "The jacobian of the user-provided function is independent of input {}. " + STRICT
SECOND_PUSHED = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. "
    + STRICT
    + TWICE
)


# -- inputs and outputs -----------------------------------------------------------------------
def _as_tuple(value: object, label: str, name: str) -> tuple[bool, Tensors]:
    """Whether a tuple was given, and the tensors as a tuple."""
    wanted = f"The {label} given to {name} must be either a Tensor or a tuple of Tensors but the"
    if isinstance(value, tuple):
        for position, item in enumerate(value):
            if not isinstance(item, Tensor):
                raise TypeError(f"{wanted} value at index {position} has type {type(item)}.")
        return True, value
    if not isinstance(value, Tensor):
        raise TypeError(f"{wanted} given {label} has type {type(value)}.")
    return False, (value,)


def _outputs(func: Callable[..., Any], given: Tensors, name: str) -> tuple[bool, Tensors]:
    return _as_tuple(func(*given), "outputs of the user-provided function", name)


def _single(func: Callable[..., Any], given: Tensors, name: str, strict: bool) -> Tensor:
    """The one number that the function gives."""
    outputs_tuple, outputs = _outputs(func, given, name)
    if outputs_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    _check_recorded(outputs, strict)
    return outputs[0]


def _prepared(inputs: Tensors, create_graph: bool, need_graph: bool = True) -> Tensors:
    """Inputs for one computation: connected to the user's if the result shall be differentiable."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(need_graph)
        for x in inputs
    )


def _shape_back(values: Sequence[Any], is_tuple: bool) -> Any:
    return tuple(values) if is_tuple else values[0]


def _given_back(values: Tensors, is_tuple: bool, create_graph: bool) -> Any:
    """Results as the user wants them: outside of the graph, unless it was asked for."""
    return _shape_back(values if create_graph else _cut(values), is_tuple)


def _cut(values: Any) -> Any:
    return tuple([_cut(each) for each in values]) if isinstance(values, tuple) else values.detach()


def _check_vector(vector: Tensors, other: Tensors, is_tuple: bool) -> None:
    if len(vector) != len(other):
        if is_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(other)} but got {len(vector)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for position, (v, x) in enumerate(zip(vector, other, strict=True)):
        if v.shape != x.shape:
            where = f"Entry {position} in " if is_tuple else ""
            raise RuntimeError(f"{where}v has invalid size: should be {x.shape} but got {v.shape}.")


def _vector(
    v: object,
    like: Tensors,
    is_tuple: bool,
    create_graph: bool,
    name: str,
    where: str = "input to the user-provided function is",
) -> Tensors | None:
    """The vector as a tuple, connected to the user's as inputs are; None where it may be left out and is."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(NEEDS_VECTOR.format(where))
        return None
    _, vector = _as_tuple(v, "v", name)
    made = _prepared(vector, create_graph, need_graph=False)
    _check_vector(made, like, is_tuple)
    return made


def _direction(v: object, given: Tensors, is_tuple: bool, create_graph: bool, name: str) -> Tensors:
    """The vector, which is one where it may be left out and is."""
    vector = _vector(v, given, is_tuple, create_graph, name)
    return tuple(ops.ones_like(x) for x in given) if vector is None else vector


def _check_recorded(outputs: Tensors, strict: bool) -> None:
    """In strict mode, outputs must come from the inputs by recorded ops."""
    for position, output in enumerate(outputs if strict else ()):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {position} of the user-provided function does not require gradients. The outputs "
                "must be computed in a differentiable manner from the input when running in strict mode."
            )


def _check_jacobian(jacobian: Tensors, strict: bool) -> None:
    """In strict mode, first derivatives that are differentiated again must depend on the inputs."""
    for position, value in enumerate(jacobian if strict else ()):
        if not value.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with "
                f"respect to input {position} is independent of the input. {STRICT}{TWICE}"
            )


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any] | None = None, graph: bool = False
) -> tuple[Any, ...]:
    """Gradients of those outputs that have history; None where there is none."""
    seeds = (None,) * len(outputs) if given is None else given
    live = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o is not None and o.requires_grad]
    if not live:
        return (None,) * len(inputs)
    found: tuple[Any, ...] = grad(
        [o for o, _ in live], inputs, [s for _, s in live], True, graph, allow_unused=True
    )
    return found


def _pushed(outputs: Tensors, given: Tensors, vector: Tensors, graph: bool, strict: bool) -> tuple[Any, ...]:
    """The outputs' derivatives along a vector: the gradient, differentiated with respect to its own."""
    probes = tuple(ops.zeros_like(o).requires_grad_() for o in outputs)
    pulled = _gradients(outputs, given, probes, True)
    for position, value in enumerate(pulled if strict else ()):
        if value is None:
            raise RuntimeError(BACK.format(position))
    pairs = [(p, t) for p, t in zip(pulled, vector, strict=True) if p is not None]
    return _gradients([p for p, _ in pairs], probes, [t for _, t in pairs], graph)


def _or_zeros(values: Sequence[Any], like: Tensors) -> Tensors:
    """Zeros in place of missing gradients."""
    return tuple(ops.zeros_like(x) if g is None else g for g, x in zip(values, like, strict=True))


def _filled(
    values: Sequence[Any], like: Tensors, strict: bool, graph: bool, independent: str, what: str = "jacobian"
) -> Tensors:
    """Zeros in place of missing gradients; in strict mode the error, also where those that a graph was asked
    for do not depend on the inputs."""
    for position, value in enumerate(values if strict else ()):
        if value is None:
            raise RuntimeError(independent.format(position))
        if graph and not value.requires_grad:
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {position}. This is not "
                "allowed in strict mode when create_graph=True."
            )
    return _or_zeros(values, like)


# -- products -----------------------------------------------------------------------
def vjp(
    func: Callable[..., Any],
    inputs: object,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(func(*inputs), the vector v times the Jacobian)."""
    with enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        given = _prepared(given, create_graph)
        outputs_tuple, outputs = _outputs(func, given, "vjp")
        _check_recorded(outputs, strict)
        where = "user-provided function returns"
        vector = _vector(v, outputs, outputs_tuple, create_graph, "vjp", where)
        found = _gradients(outputs, given, vector, create_graph)
        result = _filled(found, given, strict, create_graph, BACK)
    return _given_back(outputs, outputs_tuple, create_graph), _given_back(result, is_tuple, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: object,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(func(*inputs), the Jacobian times the vector v), by differentiating the gradient with respect to its
    vector."""
    with enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        given = _prepared(given, create_graph)
        vector = _direction(v, given, is_tuple, create_graph, "jvp")
        outputs_tuple, outputs = _outputs(func, given, "jvp")
        _check_recorded(outputs, strict)
        found = _pushed(outputs, given, vector, create_graph, strict)
        result = _filled(found, outputs, strict, create_graph, PUSHED)
    return tuple(_given_back(values, outputs_tuple, create_graph) for values in (outputs, result))


def _first_order(
    func: Callable[..., Any], inputs: object, v: object, create_graph: bool, strict: bool, name: str
) -> tuple[bool, Tensors, Tensors, Tensor, Tensors]:
    """What vhp and hvp share: inputs, vector, the function's value and its gradient, recorded."""
    is_tuple, given = _as_tuple(inputs, "inputs", name)
    given = _prepared(given, create_graph)
    vector = _direction(v, given, is_tuple, create_graph, name)
    output = _single(func, given, name, strict)
    jacobian = _filled(_gradients((output,), given, None, True), given, strict, False, BACK)
    _check_jacobian(jacobian, strict)
    return is_tuple, given, vector, output, jacobian


def vhp(
    func: Callable[..., Any],
    inputs: object,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(func(*inputs), the vector v times the Hessian)."""
    with enable_grad():
        is_tuple, given, vector, output, jacobian = _first_order(func, inputs, v, create_graph, strict, "vhp")
        found = _gradients(jacobian, given, vector, create_graph)
        result = _filled(found, given, strict, create_graph, SECOND, "hessian")
    return _given_back((output,), False, create_graph), _given_back(result, is_tuple, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: object,
    v: object = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """(func(*inputs), the Hessian times the vector v)."""
    with enable_grad():
        is_tuple, given, vector, output, jacobian = _first_order(func, inputs, v, create_graph, strict, "hvp")
        found = _pushed(jacobian, given, vector, create_graph, False)
        result = _filled(found, given, strict, create_graph, SECOND_PUSHED, "hessian")
    return _given_back((output,), False, create_graph), _given_back(result, is_tuple, create_graph)


# -- matrices -----------------------------------------------------------------------
def jacobian(
    func: Callable[..., Any],
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of func at the inputs: per output and per input, a tensor of shape output + input."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has '
            "more outputs than "
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                named(
                    "weft.autograd.functional.jacobian: `create_graph=True` and "
                    '`strategy="forward-mode"` are '
                    "not supported "
                    'together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
                )
            )
        return _forward_jacobian(func, inputs, strict, vectorize)
    with enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        given = _prepared(given, create_graph)
        outputs_tuple, outputs = _outputs(func, given, "jacobian")
        _check_recorded(outputs, strict)
        if vectorize:
            if strict:
                raise RuntimeError(_NOT_TOGETHER)
            rows = [_all_rows(output, given, create_graph) for output in outputs]
        else:
            rows = [_rows(i, output, given, create_graph, strict) for i, output in enumerate(outputs)]
    results = tuple(_shape_back(row, is_tuple) for row in rows)
    return _given_back(results, outputs_tuple, create_graph)


_NOT_TOGETHER = (
    "weft.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
    "Please either set "
    "`strict=False` or `vectorize=False`."
)


def _rows(position: int, output: Tensor, given: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The Jacobian of one output, element by element."""
    columns: list[list[Any]] = [[] for _ in given]
    line = ops.reshape(output, (-1,))
    for element in range(output.numel()):
        found = _gradients((ops.select(line, 0, element),), given, None, create_graph)
        text = f"Output {position} of the user-provided function is independent of input {{}}. {STRICT}"
        for column, value in zip(columns, _filled(found, given, strict, create_graph, text), strict=True):
            column.append(value)
    return tuple(
        ops.reshape(ops.stack(column, 0), (*output.shape, *x.shape))
        if column
        else ops.new_zeros(x, (*output.shape, *x.shape))
        for column, x in zip(columns, given, strict=True)
    )


def _identity(like: Tensor) -> Any:
    """One direction per element of the tensor."""
    size = prod(like.shape)
    rows = ops.new_zeros(like.detach(), (size, size))
    if size:
        ops.diagonal(rows, 0, 0, 1).fill_(1)
    return ops.reshape(rows, (size, *like.shape))


def _all_rows(output: Tensor, given: Tensors, create_graph: bool) -> Tensors:
    """The Jacobian of one output, all elements at once."""

    def pull(seed: Tensor) -> Any:
        return _or_zeros(_gradients((output,), given, (seed,), create_graph), given)

    rows = vmap(pull)(_identity(output))
    return tuple(ops.reshape(row, (*output.shape, *x.shape)) for row, x in zip(rows, given, strict=True))


def _forward_jacobian(func: Callable[..., Any], inputs: object, strict: bool, vectorize: bool) -> Any:
    if strict:
        raise RuntimeError(
            named(
                'weft.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
                "supported together "
                '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
            )
        )
    is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )
    kinds: list[bool] = []
    columns = []
    for position, x in enumerate(given):

        def push(tangent: Tensor, position: int = position) -> Any:
            level = Directions()
            with entered(level):
                moved = [checked_dual(v, tangent, level) if i == position else v for i, v in enumerate(given)]
                outputs_tuple, outputs = _outputs(func, tuple(moved), "jacobian")
                kinds.append(outputs_tuple)
                found = tuple(
                    tangents_of(o, level) if is_dual(o, level) else ops.zeros_like(o) for o in outputs
                )
            level.close()
            return found

        moves = vmap(push)(_identity(x))
        columns.append([ops.reshape(ops.movedim(m, 0, m.ndim - 1), (*m.shape[1:], *x.shape)) for m in moves])
    results = tuple(_shape_back(row, is_tuple) for row in zip(*columns, strict=True))
    return _shape_back(results, kinds[0])


def hessian(
    func: Callable[..., Any],
    inputs: object,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a function with one number as its result."""
    is_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    forward = outer_jacobian_strategy == "forward-mode"

    def checked(*values: Any) -> Tensor:
        found: Tensor = ops.reshape(_single(func, values, "hessian", strict), ())
        return found

    def first(*values: Any) -> Any:
        if forward:
            return _inner_jacobian(checked, values)
        with enable_grad():
            rows = _or_zeros(_gradients((checked(*values),), values, None, True), values)
            _check_jacobian(rows, strict)
            return rows

    found = jacobian(first, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if is_tuple else found[0][0]


def _inner_jacobian(function: Callable[..., Any], values: Tensors) -> Tensors:
    """The gradient of a function of duals, itself a function of duals: what forward over reverse
    differentiates."""
    with Differentiation() as run:
        entries = tuple(run.enter(x) for x in values)
        output = function(*entries)
        found = gradients([output], entries, [ops.ones_like(output)], run.followed([output]))
    return _or_zeros(found, values)
