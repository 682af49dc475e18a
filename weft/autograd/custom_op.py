"""Custom ops: a Python function of tensors made an op of its own, with one record, as the built-in ones have.

Takes a function, its schema, and whatever is registered later (fake, gradient, batch rule, kernels of other
devices); gives a `CustomOpDef`. One idea: the record is what others see (capture, transforms, raw arrays),
the user's functions stand behind its fields; what they do inside is nobody's business.

# Note [What a custom op may do]
Its outputs must be new memory. It may write to the arguments named in `mutates_args`: their versions move
on. Gradients do not flow through such writes, so a leaf that requires grad may not be written to, and
another tensor with a history gets a node that raises when a gradient arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from weft.autograd.function import Function, VmapInfo
from weft.autograd.function_context import FunctionCtx
from weft.autograd.mapping import structure
from weft.autograd.shapes import typed
from weft.core import modes
from weft.core.arrays import is_array
from weft.core.device import device, meta
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.trees import flatten, tree_map
from weft.core.types import TensorType
from weft.ops import custom
from weft.ops.batching import batch_by_loop
from weft.ops.record import REGISTRY, Joint, Kind, Op, ops
from weft.tensor import overrides
from weft.tensor.base import PLAIN, Tensor, storage_root, wrap
from weft.tensor.inplace import check_writable, set_history
from weft.tensor.meta import faking, is_fake_array, meta_array, recorder_of
from weft.tensor.schema import (
    MISSING,
    Overload,
    OverloadPacket,
    Schema,
    infer_schema,
    signature_text,
)
from weft.tensor.tape import RefusingNode, gradient_edge, node_between
from weft.tensor.views import settled
from weft.tensor.wrapper import highest, mapping, without

DEVICES = ("cpu", "cuda", "meta")


class CustomOpDef:
    """A custom op: call it, or register more about it."""

    def __init__(self, namespace: str, name: str, schema: str, function: Callable[..., Any] | None) -> None:
        self._namespace, self._name, self._qualname = namespace, name, f"{namespace}::{name}"
        self._init_fn = function
        self._schema = Schema(self._qualname, schema)
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None
        self._opoverload = OpOverload(self)
        self._function = generated(self)
        self._op = record_of(self)
        custom.enter(namespace, name, OpOverloadPacket(self._opoverload))
        DEFINITIONS[self._qualname] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return invoke(self, self._schema.bind(args, kwargs))

    def register_kernel(self, device_types: object, fn: Callable[..., Any] | None = None, /) -> Any:
        """Gives the implementation for some devices (a name, several, or None for all). Also a decorator."""

        def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
            for name in device_names(device_types):
                self._kernels[name] = kernel
            return kernel

        device_names(device_types)
        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Gives what computes types only: it runs on meta tensors and returns meta tensors. A decorator."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Gives the gradient: `backward(ctx, *grads)` returns one gradient per argument, and
        `setup_context(ctx, inputs, output)` saves what it needs."""
        if self._schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema}. Please create a functional operator and register an autograd formula for "
                "that."
            )
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Gives the batch rule: `func(info, in_dims, *args)` returns outputs and out_dims. Also a
        decorator."""

        def register(rule: Callable[..., Any]) -> None:
            self._vmap = rule

        return register if func is None else register(func)

    def _destroy(self) -> None:
        """Forgets the op."""
        if DEFINITIONS.get(self._qualname) is self:
            del DEFINITIONS[self._qualname]
            REGISTRY.pop(self._op.qualified_name, None)
            custom.remove(self._namespace, self._name)


DEFINITIONS: dict[str, CustomOpDef] = {}
"""Every custom op by `namespace::name`."""


class OpOverload(Overload):
    """What `weft.ops.mylib.myop.default` is."""

    tags = ()
    _overloadname = "default"

    def __init__(self, definition: CustomOpDef) -> None:
        self._definition = definition
        self.namespace, self._opname = definition._namespace, definition._name
        self.__name__ = f"{definition._name}.default"

    @property
    def _schema(self) -> Schema:
        return self._definition._schema

    @property
    def overloadpacket(self) -> Any:
        """The op itself."""
        return getattr(custom.found(self.namespace), self._opname)

    def name(self) -> str:
        return self._definition._qualname

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._definition(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self}', overload='default')>"

    def __str__(self) -> str:
        return self._definition._qualname.replace("::", ".")


class OpOverloadPacket(OverloadPacket):
    """What `weft.ops.mylib.myop` is: an op that has one overload."""

    def __init__(self, default: OpOverload) -> None:
        self.default = default
        self.__name__ = self._opname = default._definition._name

    def overloads(self) -> list[str]:
        return ["default"]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.default(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return str(self.default)


# -- defining ----------------------------------------------------------------------------------------------
def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: object = None,
) -> Any:
    """Makes a function of tensors an op: `@custom_op("mylib::myop", mutates_args=())`.

    The schema comes from the function's annotations unless it is given. `mutates_args` names the arguments
    that the function writes to.
    """

    def define(function: Callable[..., Any]) -> CustomOpDef:
        if schema is None:
            text = infer_schema(function, mutates_args=mutates_args)
        else:
            text = schema
            told = Schema(name, text).mutated
            if mutates_args != "unknown" and told != set(mutates_args):
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and "
                    f"`schema={schema}. The "
                    f"schema suggests that the op mutates {told or 'set()'} which is different from what was "
                    "provided "
                    "to us in `mutates_args`. Please make these consistent."
                )
        made = define_op(name, text, function)
        made.register_kernel(device_types, function)
        return made

    return define if fn is None else define(fn)


def define_op(qualified: str, schema: str, function: Callable[..., Any] | None) -> CustomOpDef:
    """An op without kernels. An op of the same name is replaced."""
    parts = qualified.split("::")
    if len(parts) != 2 or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"{qualified!r} is no name for a custom op: it must be 'namespace::name', two identifiers"
        )
    before = DEFINITIONS.get(qualified)
    if before is not None:
        before._destroy()
    return CustomOpDef(parts[0], parts[1], schema, function)


def device_names(device_types: Any) -> list[str]:
    """The devices meant by a name, several names, or None for all."""
    if device_types is None:
        return list(DEVICES[:2])
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    return [device(name).type for name in names]


def record_of(definition: CustomOpDef) -> Op:
    """The op record whose fields call what was registered."""
    schema = definition._schema

    def batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
        return batched(definition, op, size, args, dims)

    def rule(needs: tuple[Any, ...], gradient: object, *values: object) -> list[Any]:
        return pulled_back(definition, needs, gradient, values[0], values[1:])

    op = Op(
        definition._name,
        Kind.CONTRACT,
        signature_text(schema.arguments),
        kernel=lambda *bound: unwrapped(execute(definition, tree_map(wrapped, bound))),
        rule=lambda *bound: tree_map(typed, execute_fake(definition, tree_map(without_elements, bound))),
        vjp=Joint(rule),
        batch=batch,
        namespace=f"ops.{definition._namespace}",
        node=definition._function._backward_cls.__name__,
        method=False,
        doc=(definition._init_fn.__doc__ or "") if definition._init_fn is not None else "",
    )
    for parameter, argument in zip(op.signature.parameters, schema.arguments):
        if argument.default is not MISSING:
            parameter.default = argument.default

    def called_as(*args: object, **kwargs: object) -> Any:
        return definition(*args, **kwargs)

    face: Any = called_as
    face.__name__ = face.__qualname__ = definition._name
    face.__module__ = f"weft.ops.{definition._namespace}"
    face.op = op
    op.face = face
    return op


# -- calling -----------------------------------------------------------------------------------------------
def invoke(definition: CustomOpDef, bound: tuple[Any, ...]) -> Any:
    """The op on checked arguments: modes and classes first, then transforms, then autograd, then the
    kernel.
    """
    op = definition._op
    tensors = tensors_among(bound)
    mode = modes.current()
    if type(mode) is not bool or any(type(tensor) not in PLAIN for tensor in tensors):
        handled, result = overrides.intercept_function(op.face, op, bound, tensors, mode)
        if handled:
            return result
        top = highest(bound)
        if top is not None:
            return type(top).call(op, bound, top.level)
    grad = mode if type(mode) is bool else mode.grad and not mode.inference
    if grad:
        for tensor in tensors:
            settled(tensor)
    live = grad and any(tensor.tracked for tensor in tensors)
    if definition._schema.is_mutable:
        return mutated(definition, bound, tensors, live)
    return recorded(definition, bound) if live else execute(definition, bound)


def execute(definition: CustomOpDef, bound: tuple[Any, ...]) -> Any:
    """Runs the kernel for the arguments' device, without recording, and checks what it returns. Handlers
    below autograd come first.
    """
    tensors = tensors_among(bound)
    mode = modes.current()
    if overrides.is_offered(mode, tensors):
        count = definition._schema.positional
        named_ones = zip(definition._schema.arguments[count:], bound[count:])
        kwargs = {argument.name: value for argument, value in named_ones}
        return seams.below.offered(definition._opoverload, bound[:count], kwargs, tensors)
    if any(is_fake_array(tensor.array) for tensor in tensors):
        result = execute_fake(definition, bound)
        note_writes(definition, bound)
        return result
    if any(tensor.is_meta for tensor in tensors) and "meta" not in definition._kernels:
        return execute_fake(definition, bound)
    kernel = definition._kernels.get("meta" if any(tensor.is_meta for tensor in tensors) else "cpu")
    if kernel is None:
        raise NotImplementedError(
            f"Could not run '{definition._qualname}' with arguments from the 'CPU' backend. This could be "
            "because the "
            f"operator doesn't exist for this backend. '{definition._qualname}' is only available for these "
            "backends: "
            f"{[name.upper() for name in definition._kernels]}. Use register_kernel to add one."
        )
    token = modes.enter(grad=False)
    try:
        result = call_user(definition, kernel, bound)
    finally:
        modes.leave(token)
    result = checked_result(definition._schema, result)
    refuse_aliases(definition, tensors, result)
    note_writes(definition, bound)
    return result


def note_writes(definition: CustomOpDef, bound: tuple[Any, ...]) -> None:
    """Moves on the versions of what the op writes to."""
    for tensor in written_to(definition, bound):
        tensor.bump()


def execute_fake(definition: CustomOpDef, bound: tuple[Any, ...]) -> Any:
    """The types of the results, as tensors without elements: fakes while a recorder is active, else of the
    meta device.
    """
    fake = definition._fake
    if fake is None:
        if definition._schema.is_mutable and not definition._schema.returns:
            return None
        raise RuntimeError(
            named(
                f"There was no fake impl registered for {definition}. This is necessary for "
                "weft.compile/export/fx tracing "
                f"to work. Please use `{definition._name}.register_fake` to add an fake impl."
            )
        )
    with modes.within(grad=False), nullcontext() if faking(modes.current()) else meta:
        result = call_user(definition, fake, bound)
    return checked_result(definition._schema, result)


def call_user(definition: CustomOpDef, function: Callable[..., Any], bound: tuple[Any, ...]) -> Any:
    """Calls a user's function with the op's arguments, keyword-only ones by name."""
    args, kwargs = by_position(definition._schema, bound)
    return function(*args, **kwargs)


def by_position(schema: Schema, bound: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional arguments, and the keyword-only ones by name."""
    count = schema.positional
    names = [argument.name for argument in schema.arguments[count:]]
    return tuple(bound[:count]), dict(zip(names, bound[count:]))


def checked_result(schema: Schema, result: object) -> Any:
    """What a user's function returned, as the schema says, outside of any history."""
    if not schema.returns:
        return None
    if schema.single:
        return _checked_value(schema.returns[0], result)
    if not isinstance(result, (tuple, list)):
        raise TypeError(f"Object of type '{type(result).__name__}' is not an instance of 'sequence'")
    if len(result) != len(schema.returns):
        raise RuntimeError(
            f"{schema.name} returned {len(result)} values, but its schema says {len(schema.returns)}: "
            f"{schema}"
        )
    return tuple(_checked_value(word, value) for word, value in zip(schema.returns, result))


def _checked_value(word: str, value: object) -> Any:
    if word == "Tensor":
        if value is not None and not isinstance(value, Tensor):
            raise RuntimeError(f"Unable to cast {value!r} to Tensor")
        return value.detach() if value is not None and value.tracked else value
    if word == "Tensor[]":
        if not isinstance(value, (tuple, list)):
            raise RuntimeError(f"Unable to cast {value!r} to Tensor[]")
        return [_checked_value("Tensor", item) for item in value]
    return value


def refuse_aliases(definition: CustomOpDef, tensors: list[Tensor], result: object) -> None:
    """See Note [What a custom op may do]."""
    taken = {id(storage_root(tensor.array)) for tensor in tensors}
    for leaf in tensors_among(result):
        memory = id(storage_root(leaf.array))
        if memory in taken:
            raise RuntimeError(
                f"{definition._name} (with implementation in "
                f"{getattr(definition._init_fn, '__module__', '???')}): The "
                "output of this custom operator (1) must not also be an input to this custom operator and "
                "(2) may not "
                "alias any inputs to this custom operator or other returns. The most common way to trigger "
                "this error "
                "is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a "
                "clone of the "
                "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                "return y."
            )
        taken.add(memory)


# -- gradients ---------------------------------------------------------------------------------------------
class CustomOpCall(NamedTuple):
    """One recorded call: how to build the arguments from leaves, and, once it ran, the outputs."""

    definition: CustomOpDef
    build: Callable[[list[Any]], Any]
    rebuild: list[Any]  # the way from leaves back to the result; filled by forward


def generated(definition: CustomOpDef) -> Any:
    """The Function that stands behind recorded calls: its arguments are the op's, laid out, and the call."""

    def forward(ctx: Any, *values: Any) -> Any:
        call: CustomOpCall = values[-1]
        bound = call.build(list(values[:-1]))
        ctx.call, ctx.inputs_structure = call, structure(bound)
        needs = call.build(list(ctx.needs_input_grad[:-1]))
        ctx.needs_input_grad = by_position(definition._schema, needs)[0]
        result = execute(definition, bound)
        set_up(definition, ctx, bound, result)
        leaves, rebuild = flatten(result)
        call.rebuild.append(rebuild)
        return tuple(leaves)

    def backward(ctx: Any, *gradients: Any) -> Any:
        given = ctx.call.rebuild[0](list(gradients))
        if definition._schema.single:
            given = (given,)
        found = run_backward(definition, ctx, given)
        if structure(found) != ctx.inputs_structure:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got: "
                f"{structure(found)} (return from backward), {ctx.inputs_structure} (inputs)"
            )
        return (*flatten(found)[0], None)

    name = f"GeneratedBackwardFor_{definition._namespace}_{definition._name}_default"
    facts = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (Function,), facts)


def set_up(definition: CustomOpDef, ctx: FunctionCtx, bound: tuple[Any, ...], result: object) -> None:
    """Runs the user's setup_context, which wants its arguments by name."""
    setup = definition._setup_context
    if setup is None:
        return
    inputs, keywords = by_position(definition._schema, bound)
    named = {"ctx": ctx, "inputs": inputs, "output": result}
    if len(inputs) < len(bound):
        named["keyword_only_inputs"] = keywords
    called(definition, "_setup_context", setup)(**named)


def called(definition: CustomOpDef, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called for a function of the user's: itself, unless a program is being captured."""
    recorder = recorder_of(modes.current())
    if recorder is None:
        return function
    found: Callable[..., Any] = recorder.host.user_function(definition, name, function)
    return found


def run_backward(definition: CustomOpDef, ctx: FunctionCtx, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """The user's gradients, one per argument, None for keyword-only ones."""
    backward = definition._backward
    if backward is None:
        raise RuntimeError(no_formula(definition))
    found = called(definition, "_backward", backward)(ctx, *gradients)
    values = found if isinstance(found, tuple) else (found,)
    count = definition._schema.positional
    name = definition._function._backward_cls.__name__
    if len(values) > count and all(value is None for value in values[count:]):
        values = values[:count]
    if len(values) != count:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {count}, got {len(values)})"
        )
    return (*values, *(None,) * (len(definition._schema.arguments) - count))


def no_formula(definition: CustomOpDef) -> str:
    return (
        f"Trying to backward through {definition._opoverload}.default but no autograd formula was "
        "registered. Please "
        "use register_autograd to add one."
    )


def recorded(definition: CustomOpDef, bound: tuple[Any, ...]) -> Any:
    """The op with a node behind its outputs."""
    leaves, build = flatten(bound)
    call = CustomOpCall(definition, build, [])
    outputs = definition._function.apply(*leaves, call)
    return call.rebuild[0](list(outputs))


def pulled_back(
    definition: CustomOpDef, needs: tuple[Any, ...], gradient: Any, out: Any, bound: tuple[Any, ...]
) -> list[Any]:
    """The gradient rule of the record: the same two user functions, one right after the other."""
    raw = any(is_array(leaf) for leaf in flatten(bound)[0])
    if raw:
        gradient, out, bound = tree_map(wrapped, gradient), tree_map(wrapped, out), tree_map(wrapped, bound)
    schema = definition._schema
    ctx: Any = FunctionCtx()
    ctx._forward_cls = definition._function
    given = dict(zip(definition._op.signature.input_slots, needs))
    ctx.needs_input_grad = tuple(
        list(need) if isinstance(need := given.get(i, False), tuple) else need
        for i in range(schema.positional)
    )
    set_up(definition, ctx, bound, out)
    ctx._items = () if ctx.to_save is None else ctx.to_save
    gradients = (gradient,) if schema.single else tuple(gradient)
    if ctx.materialize_grads:
        outs = (out,) if schema.single else tuple(out)
        gradients = tuple(zeros_for(g, o) for g, o in zip(gradients, outs))
    found = run_backward(definition, ctx, gradients)
    results = [found[position] for position in definition._op.signature.input_slots]
    return unwrapped(results) if raw else results


def zeros_for(gradient: Any, out: Any) -> Any:
    """The gradient of an output, zeros where none arrived."""
    if isinstance(out, list):
        return [zeros_for(g, o) for g, o in zip(gradient or (None,) * len(out), out)]
    return ops.zeros_like(out) if gradient is None and isinstance(out, Tensor) else gradient


# -- arguments that are written to ---------------------------------------------------------------------------
class WrittenByCustomOpBackward(RefusingNode):
    """Behind a tensor that a custom op wrote to."""

    __slots__ = ()


def written_to(definition: CustomOpDef, bound: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among the arguments that the op writes to."""
    pairs = zip(definition._schema.arguments, bound)
    return tensors_among([value for argument, value in pairs if argument.mutated])


def mutated(definition: CustomOpDef, bound: tuple[Any, ...], tensors: list[Tensor], live: bool) -> Any:
    """The op where it writes to arguments: see Note [What a custom op may do]."""
    written = written_to(definition, bound)
    for tensor in written:
        check_writable(tensor, live, live and tensor.tracked)
    edges = [gradient_edge(tensor) for tensor in tensors]
    result = (
        recorded(definition, bound) if live and definition._schema.returns else execute(definition, bound)
    )
    for tensor in written:
        if live and tensor.tracked:
            types = (tensor,) * (len(edges) + 1)
            text = no_formula(definition)
            set_history(tensor, node_between(WrittenByCustomOpBackward, edges, types, (text,)))
    return result


# -- batches -----------------------------------------------------------------------------------------------
def batched(
    definition: CustomOpDef, op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The op over a batch: by the user's rule, or example by example."""
    rule = definition._vmap
    if rule is None:
        if definition._schema.is_mutable:
            raise RuntimeError(
                f"Batching rule not implemented for {definition._qualname}; the fallback path doesn't work "
                "on out= or "
                "view ops."
            )
        return batch_by_loop(op, size, args, dims)
    maps = mapping()
    around = maps[-1] if maps else None
    with without(around):
        values, keywords = by_position(definition._schema, args)
        places = tuple(dims[: len(values)])
        info = VmapInfo(size, around.randomness if around else "error")
        out = called(definition, "_vmap", rule)(info, places, *values, **keywords)
    if not isinstance(out, tuple) or len(out) != 2:
        raise RuntimeError(
            f"the vmap rule of {definition._qualname} must return two things, outputs and out_dims, but it "
            "returned "
            f"{type(out).__name__}"
        )
    return out


# -- between tensors, arrays and types -----------------------------------------------------------------------
def wrapped(leaf: object) -> Any:
    return wrap(leaf) if is_array(leaf) else leaf


def unwrapped(tree: object) -> Any:
    return tree_map(lambda leaf: leaf.array if isinstance(leaf, Tensor) else leaf, tree)


def without_elements(leaf: object) -> Any:
    return wrap(meta_array(leaf)) if isinstance(leaf, TensorType) else leaf


def tensors_among(tree: object) -> list[Tensor]:
    return [leaf for leaf in flatten(tree)[0] if isinstance(leaf, Tensor)]
