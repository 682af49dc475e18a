"""Jacobians, Hessians and products with them, as functions of a function and its inputs
(`autograd.functional`).

Takes a function of tensors, its inputs (a tensor or a tuple) and where needed a vector; gives tensors,
nested in tuples as inputs and outputs are. One idea: everything is `autograd.grad` once or twice;
`vectorize=True` runs all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
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
NEEDS_VECTOR = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
    "single "
    "element."
)
STRICT = "This is not allowed in strict mode."
TWICE = (
    " You should ensure that your function is twice differentiable and that the jacobian depends on the "
    "inputs (this would "
    "be violated by a linear function for example)."
)


# -- inputs and outputs -----------------------------------------------------------------------
def _as_tuple(value: object, label: str, name: str) -> tuple[bool, Tensors]:
    """Whether a tuple was given, and the tensors as a tuple."""
    if isinstance(value, tuple):
        for position, item in enumerate(value):
            if not isinstance(item, Tensor):
                raise TypeError(
                    f"The {label} given to {name} must be either a Tensor or a tuple of Tensors but the "
                    "value at index "
                    f"{position} has type {type(item)}."
                )
        return True, value
    if not isinstance(value, Tensor):
        raise TypeError(
            f"The {label} given to {name} must be either a Tensor or a tuple of Tensors but the given "
            f"{label} has type "
            f"{type(value)}."
        )
    return False, (value,)


def _outputs(value: object, name: str) -> tuple[bool, Tensors]:
    if not isinstance(value, (Tensor, tuple)):
        label = "outputs of the user-provided function"
        raise TypeError(
            f"The {label} given to {name} must be either a Tensor or a tuple of Tensors but the given "
            f"{label} has type "
            f"{type(value)}."
        )
    return _as_tuple(value, "outputs of the user-provided function", name)


def _prepared(inputs: Tensors, create_graph: bool, need_graph: bool = True) -> Tensors:
    """Inputs for one computation: connected to the user's if the result shall be differentiable."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(need_graph)
        for x in inputs
    )


def _shape_back(values: Any, is_tuple: bool) -> Any:
    return tuple(values) if is_tuple else values[0]


def _released(values: Any, create_graph: bool) -> Any:
    """Results outside of the graph, unless it was asked for."""
    if create_graph:
        return values
    if isinstance(values, tuple):
        return tuple(_released(value, False) for value in values)
    return values.detach()


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
    v: object, like: Tensors, is_tuple: bool, create_graph: bool, name: str, text: str = NEEDS_VECTOR
) -> Tensors | None:
    """The vector as a tuple, connected to the user's as inputs are; None where it may be left out and is."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(text)
        return None
    _, vector = _as_tuple(v, "v", name)
    made = _prepared(vector, create_graph, need_graph=False)
    _check_vector(made, like, is_tuple)
    return made


def _check_dependence(outputs: Tensors, inputs: Tensors, kind: str) -> None:
    """In strict mode, outputs must come from the inputs by recorded ops."""
    for position, output in enumerate(outputs):
        requires = output.requires_grad
        if kind == "outputs":
            if not requires:
                raise RuntimeError(
                    f"Output {position} of the user-provided function does not require gradients. The "
                    "outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
        elif any(output is x for x in inputs):
            raise RuntimeError(f"Output {position} is one of the inputs")
        elif not requires and kind == "jacobian":
            raise RuntimeError(
                f"The jacobian of the user-provided function with respect to input {position} is "
                "independent of the input. "
                "This is not allowed in strict mode when create_graph=True."
            )
        elif not requires and kind == "hessian":
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with "
                "respect to input "
                f"{position} does not require gradients. {STRICT}"
            )


def _gradients(outputs: Any, inputs: Any, given: Any = None, graph: bool = False) -> tuple[Any, ...]:
    """Gradients of those outputs that have history; None where there is none."""
    seeds = (None,) * len(outputs) if given is None else given
    live = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o is not None and o.requires_grad]
    if not live:
        return (None,) * len(inputs)
    found: tuple[Any, ...] = grad(
        [o for o, _ in live], inputs, [s for _, s in live], True, graph, allow_unused=True
    )
    return found


def _filled(values: Any, like: Any, strict: bool, graph: bool, stage: str) -> Tensors:
    """Zeros in place of missing gradients; in strict mode, the error."""
    found: list[Any] = []
    for position, (value, x) in enumerate(zip(values, like, strict=True)):
        if value is None:
            if strict:
                raise RuntimeError(_independent(stage, position))
            value = ops.zeros_like(x)
        elif strict and graph and not value.requires_grad:
            if "double" not in stage:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {position}. This "
                    "is not allowed in "
                    "strict mode when create_graph=True."
                )
            raise RuntimeError(
                f"The hessian of the user-provided function is independent of input {position}. This is not "
                "allowed in "
                "strict mode when create_graph=True."
            )
        found.append(value)
    return tuple(found)


def _independent(stage: str, position: int) -> str:
    if stage == "back":
        return f"The output of the user-provided function is independent of input {position}. {STRICT}"
    if stage == "back_trick":
        return (
            f"The gradient with respect to the input is independent of entry {position} in the grad_outputs "
            "when using " + (f"the double backward trick to compute forward mode gradients. {STRICT}")
        )
    if stage == "double_back":
        return f"The jacobian of the user-provided function is independent of input {position}. {STRICT}"
    return (
        f"The hessian of the user-provided function is independent of entry {position} in the "
        f"grad_jacobian. {STRICT}" + TWICE
    )


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
        outputs_tuple, outputs = _outputs(func(*given), "vjp")
        if strict:
            _check_dependence(outputs, given, "outputs")
        text = (
            "The vector v can only be None if the user-provided function returns a single Tensor with a "
            "single "
            "element."
        )
        vector = _vector(v, outputs, outputs_tuple, create_graph, "vjp", text)
    with enable_grad():
        found = _gradients(outputs, given, vector, create_graph)
        result = _filled(found, given, strict, create_graph, "back")
    return _released(_shape_back(outputs, outputs_tuple), create_graph), _released(
        _shape_back(result, is_tuple), create_graph
    )


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
        vector = _vector(v, given, is_tuple, create_graph, "jvp")
        outputs_tuple, outputs = _outputs(func(*given), "jvp")
        if strict:
            _check_dependence(outputs, given, "outputs")
        probes = tuple(ops.zeros_like(o).requires_grad_() for o in outputs)
        pulled = _gradients(outputs, given, probes, True)
        if strict:
            for position, value in enumerate(pulled):
                if value is None:
                    raise RuntimeError(_independent("back", position))
        if vector is None:
            vector = tuple(ops.ones_like(x) for x in given)
        pairs = [(p, t) for p, t in zip(pulled, vector, strict=True) if p is not None]
        found = _gradients([p for p, _ in pairs], probes, [t for _, t in pairs], create_graph)
        result = _filled(found, outputs, strict, create_graph, "back_trick")
    return _released(_shape_back(outputs, outputs_tuple), create_graph), _released(
        _shape_back(result, outputs_tuple), create_graph
    )


def _single(func: Callable[..., Any], given: Tensors, name: str) -> Tensor:
    outputs_tuple, outputs = _outputs(func(*given), name)
    if outputs_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return outputs[0]


def _first_order(
    func: Callable[..., Any], inputs: object, v: object, create_graph: bool, strict: bool, name: str
) -> tuple[bool, Tensors, Tensors, Tensor, Tensors]:
    """What vhp and hvp share: inputs, vector, the function's value and its gradient, recorded."""
    is_tuple, given = _as_tuple(inputs, "inputs", name)
    given = _prepared(given, create_graph)
    vector = _vector(v, given, is_tuple, create_graph, name)
    if vector is None:
        vector = tuple(ops.ones_like(x) for x in given)
    output = _single(func, given, name)
    if strict:
        _check_dependence((output,), given, "outputs")
    jacobian = _filled(_gradients((output,), given, None, True), given, strict, False, "back")
    if strict:
        for position, value in enumerate(jacobian):
            if not value.requires_grad:
                raise RuntimeError(
                    "While computing the hessian, found that the jacobian of the user-provided function "
                    "with respect to "
                    f"input {position} is independent of the input. {STRICT}" + TWICE
                )
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
        result = _filled(found, given, strict, create_graph, "double_back")
    return _released(output, create_graph), _released(_shape_back(result, is_tuple), create_graph)


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
        probes = tuple(ops.zeros_like(x).requires_grad_() for x in given)
        pulled = _gradients(jacobian, given, probes, True)
        pairs = [(p, t) for p, t in zip(pulled, vector, strict=True) if p is not None]
        found = _gradients([p for p, _ in pairs], probes, [t for _, t in pairs], create_graph)
        result = _filled(found, given, strict, create_graph, "double_back_trick")
    return _released(output, create_graph), _released(_shape_back(result, is_tuple), create_graph)


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
        outputs_tuple, outputs = _outputs(func(*given), "jacobian")
        if strict:
            _check_dependence(outputs, given, "outputs")
        if vectorize:
            if strict:
                raise RuntimeError(_NOT_TOGETHER)
            rows = [_all_rows(output, given, create_graph) for output in outputs]
        else:
            rows = [_rows(i, output, given, create_graph, strict) for i, output in enumerate(outputs)]
    results = tuple(_shape_back(row, is_tuple) for row in rows)
    return _released(_shape_back(results, outputs_tuple), create_graph)


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
        for number, (column, value, x) in enumerate(zip(columns, found, given, strict=True)):
            if value is not None and strict and create_graph and not value.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {number}. This is "
                    "not allowed in "
                    "strict mode when create_graph=True."
                )
            if value is None:
                if strict:
                    raise RuntimeError(
                        f"Output {position} of the user-provided function is independent of input {number}. "
                        f"{STRICT}"
                    )
                value = ops.zeros_like(x)
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
        found = _gradients((output,), given, (seed,), create_graph)
        return tuple(
            ops.zeros_like(x) if value is None else value for value, x in zip(found, given, strict=True)
        )

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
                outputs_tuple, outputs = _outputs(func(*moved), "jacobian")
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
        output = _single(func, values, "hessian")
        if strict:
            _check_dependence((output,), values, "outputs")
        found: Tensor = ops.reshape(output, ())
        return found

    def first(*values: Any) -> Any:
        if forward:
            return _inner_jacobian(checked, values)
        with enable_grad():
            output = checked(*values)
            found = _gradients((output,), values, None, True)
            rows = _filled(found, values, False, False, "back")
            if strict:
                for position, row in enumerate(rows):
                    if not row.requires_grad:
                        raise RuntimeError(
                            "While computing the hessian, found that the jacobian of the user-provided "
                            "function with respect "
                            f"to input {position} is independent of the input. {STRICT}" + TWICE
                        )
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
    return tuple(ops.zeros_like(x) if g is None else g for g, x in zip(found, values, strict=True))
