"""The node of a custom Function: runs the user's backward and checks what it returns.

Takes gradients of the outputs from the engine, as arrays or as tensors; calls `backward(ctx, *gradients)`;
gives one gradient per tensor input. One idea: everything about one call is in `ctx`; the node adds the edges
and the shapes.

# Note [Layout of a Function's node]
    next, slots, types   as of any node, one entry per tensor argument (not per argument)
    layout               which arguments are tensors, None if all are
    outputs              None for one output that is no tuple; else types, None for what is no tensor
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from weft.autograd.function_context import FunctionCtx, SavedItem, unpack
from weft.core.dtypes import BY_NUMPY
from weft.core.modes import state
from weft.core.naming import naming
from weft.core.seams import seams
from weft.core.types import TensorType
from weft.ops.record import REGISTRY
from weft.tensor.backward import cast, finish, unbroadcast
from weft.tensor.base import Tensor, wrap
from weft.tensor.tape import Node

NO_BACKWARD = (
    "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
    "backward mode AD."
)


class FunctionNode(Node):
    """Behind the outputs of a custom Function; each Function has a subclass, `FooBackward`."""

    __slots__ = ("ctx", "layout", "outputs")
    runs_without_gradient = True
    _forward_cls: ClassVar[Any] = None
    positions: ClassVar[dict[int, bool]] = {}  # see Note [Watched calls] in `function_witness`
    watched: ClassVar[bool] = True
    parameters: ClassVar[tuple[Any, Any]] = (None, None)  # forward, and what its parameters are called
    stands_in: ClassVar[bool] = False  # whether the Function stands for another while code is captured
    ctx: FunctionCtx
    layout: tuple[bool, ...] | None
    outputs: Any

    def raw_backward(self, grad: Any) -> Any:
        backward = self.user_backward()
        if self._forward_cls.boxed_grads_call:
            given = grad if self.outputs is not None else (grad,)
            result = backward(
                self.ctx, [self.given(i, None if g is None else wrap(g)) for i, g in enumerate(given)]
            )
        elif self.outputs is not None:
            result = backward(
                self.ctx, *[self.given(i, None if g is None else wrap(g)) for i, g in enumerate(grad)]
            )
        else:
            result = backward(self.ctx, self.given(0, None) if grad is None else wrap(grad))
        if type(result) is Tensor and len(self.next) == 1 and self.layout is None:
            array, types = result.array, self.types
            if array.shape == types[0] and array.dtype is types[1]:
                return (array,)
        values = self.per_tensor(result)
        for position, value in enumerate(values):
            if value is not None:
                values[position] = self.fitted(position, value)
        return values

    def graph_backward(self, grad: Any) -> Any:
        if self.outputs is not None:
            given = [self.given(i, g) for i, g in enumerate(grad)]
        else:
            given = [self.given(0, grad)]
        backward = self.user_backward()
        boxed = self._forward_cls.boxed_grads_call
        values = self.per_tensor(backward(self.ctx, given) if boxed else backward(self.ctx, *given))
        for position, value in enumerate(values):
            if value is not None:
                self.check_shape(position, value)
                values[position] = finish(value, *self.types[2 * position : 2 * position + 2])
        return values

    def apply(self, *gradients: Any) -> Any:
        """Runs backward by hand, as calling the node does."""
        if self._forward_cls.boxed_grads_call:
            return self.user_backward()(self.ctx, list(gradients))
        return self(*gradients)  # type: ignore[operator]

    @classmethod
    def find_backward(cls) -> Any:
        """The Function's `backward`, or its `vjp`."""
        owner: Any = cls._forward_cls
        backward, vjp = owner.backward, owner.vjp
        if vjp is not missing_backward:
            if backward is not missing_backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                    "only implement one of them."
                )
            backward = vjp
        return backward

    def user_backward(self) -> Any:
        """What is called for backward: the compiled form of the user's, or what stands in for it."""
        captured = self.ctx._captured
        if captured is not None and captured.interprets:
            return captured.backward
        backward = self.find_backward()
        called = backward if seams.callee is None else seams.callee(backward)
        return called if captured is None else captured.around(called, backward)

    def given(self, position: int, gradient: object) -> Any:
        """What backward gets for one output: zeros where no gradient came, unless it wants to know."""
        if gradient is not None or not self.ctx.materialize_grads:
            return gradient
        if self.outputs is None:
            shape, kind = self.types[-2:]
            if type(state.get()) is bool:
                return wrap(np.zeros(shape, kind))
            return REGISTRY["zeros"](shape, dtype=BY_NUMPY[kind])
        made = self.outputs[position]
        if made is None:
            return None
        return REGISTRY["zeros"](made.shape, dtype=made.dtype, device=made.device)

    def per_tensor(self, result: object) -> list[Any]:
        """What backward returned, counted and checked: one gradient, or None, per tensor argument."""
        values = list(result) if isinstance(result, tuple) else [result]
        layout = self.layout
        expected = len(self.next) if layout is None else len(layout)
        count = len(values)
        if count > expected and all(value is None for value in values[expected:]):
            count = expected
        if count != expected:
            raise RuntimeError(
                f"function {type(self).__name__} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(values)})"
            )
        kept: list[Any] = []
        for position in range(expected):
            value = values[position]
            if layout is not None and not layout[position]:
                if value is not None:
                    raise RuntimeError(
                        f"function {type(self).__name__} returned a gradient different than None at position "
                        f"{position + 1}, but the corresponding forward input was not a Variable"
                    )
                continue
            if value is not None and not isinstance(value, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")
            kept.append(None if self.next[len(kept)] is None else value)
        return kept

    def check_shape(self, position: int, gradient: Tensor) -> None:
        """Raises if a gradient cannot be brought to the shape and the kind of number of its input."""
        array, (shape, kind) = gradient.array, self.types[2 * position : 2 * position + 2]
        if array.shape != shape:
            lead = array.ndim - len(shape)
            if lead < 0 or any(n != 1 and n != array.shape[lead + i] for i, n in enumerate(shape)):
                raise RuntimeError(
                    f"Function {type(self).__name__} returned an invalid gradient at index {position} - got "
                    f"{list(array.shape)} but expected shape compatible with {list(shape)}"
                )
        if array.dtype is not kind and array.dtype.kind == "c" and kind.kind != "c":
            raise RuntimeError(
                f"Function {type(self).__name__} returned an invalid gradient at index {position} - expected "
                f"a real gradient but got dtype {BY_NUMPY[array.dtype]}"
            )

    def fitted(self, position: int, gradient: Tensor) -> Any:
        """The array of a gradient, in the shape and dtype of its input."""
        array, (shape, kind) = gradient.array, self.types[2 * position : 2 * position + 2]
        if array.shape == shape and array.dtype is kind:
            return array
        self.check_shape(position, gradient)
        if array.shape != shape:
            array = unbroadcast(array, shape)
        return array if array.dtype is kind else cast(array, kind)

    def release(self) -> None:
        """Drops what was saved; backward raises when it asks for it again."""
        self.ctx._items = None

    def __repr__(self) -> str:
        return f"<{naming.namespace}.autograd.function.{type(self).__name__} object at {id(self):#x}>"

    # -- what users see -----------------------------------------------------------------------
    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return unpack(self.ctx)

    @property
    def _raw_saved_tensors(self) -> tuple[SavedItem, ...]:
        self.saved_tensors  # noqa: B018  (raises where they were freed)
        return tuple(SavedItem(self, position) for position in range(len(self.ctx._items)))

    def __getattr__(self, name: str) -> Any:
        """What the context has beyond what both share."""
        if name == "saved_tensors":  # an AttributeError in an unpack hook led here
            return unpack(self.ctx)
        if not name.startswith("__") and name in FunctionCtx.__dict__:
            return getattr(self.ctx, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def missing_backward(ctx: FunctionCtx, *grad_outputs: object) -> Any:
    """Stands for a backward that the user did not write."""
    raise NotImplementedError(NO_BACKWARD)


def type_of_output(value: object) -> Any:
    """The type of a tensor among several outputs; None for anything else."""
    if not isinstance(value, Tensor):
        return None
    return TensorType(value.array.shape, BY_NUMPY[value.array.dtype], value.device)


def node_class_for(owner: type) -> type[FunctionNode]:
    """The class of a Function's nodes."""
    name = f"{owner.__name__}Backward"
    facts = {
        "__slots__": (),
        "__module__": "weft.autograd.function",
        "__qualname__": name,
        "_forward_cls": owner,
        "positions": {},
        "watched": True,
        "stands_in": False,
    }
    return type(name, (FunctionNode,), facts)
