"""`jit.trace`: what a function did to example inputs, as a scripted function.

Takes functions and modules with example inputs; gives scripted ones whose graph is a straight line. One idea:
`make_fx` records the ops, and its graph is written again in scripted code's notation.
"""

from __future__ import annotations

import copy
import inspect
import operator
import warnings
from typing import Any

import weft.jit.marks as marks
from weft.core.collection import put_off
from weft.core.handlers import handlers_outside
from weft.core.interrupts import let_through
from weft.core.trees import flatten
from weft.jit.annotations import resolve
from weft.jit.ir import Graph, Node, Value
from weft.jit.lookup import find_operator, operator_name
from weft.jit.modules import ModuleInfo, ScriptModule, TracedModule, script_module
from weft.jit.passes import inline, replace_values
from weft.jit.schema import Argument, Schema
from weft.jit.script import ScriptFunction
from weft.jit.types import NONE, TENSOR, DictType, ListType, TupleType, Type, optional, type_of
from weft.nn.modules.module import Module
from weft.ops.record import Op
from weft.overrides import TorchFunctionMode
from weft.tensor.base import Tensor
from weft.trace.make_fx import make_fx


class TracerWarning(Warning):
    """Something that a trace does not keep."""


class TracingCheckError(Exception):
    """A traced function that does not do what the original does."""


class Rewriter:
    """Writes one recorded graph again; `paths` says where tensors that were closed over live."""

    def __init__(self, recorded: Any, paths: dict[int, str], owner: Any) -> None:
        self.recorded, self.paths, self.owner = recorded, paths, owner
        self.graph = Graph("forward")
        self.values: dict[Any, Value] = {}
        self.receiver: Value | None = None

    def emit(self, called: str, args: list[Value], kind: Type, /, **facts: Any) -> Value:
        node = Node(called, self.graph, args, facts.pop("words", ()), facts)
        self.graph.block.append(node)
        return node.add_result(kind)

    def write(self, names: list[str], inputs: tuple[Any, ...]) -> Graph:
        if self.owner is not None:
            info = self.owner.__dict__["_script"]
            self.receiver = self.graph.block.add_parameter(info.kind, "self")
        given = iter(zip(names, inputs, strict=True))
        for node in self.recorded.graph.nodes:
            if node.op == "placeholder":
                name, value = next(given)
                self.values[node] = self.graph.block.add_parameter(type_of(value, resolve) or TENSOR, name)
            elif node.op == "output":
                result = self.argument(node.args[0])
                self.graph.block.returned = [result]
            elif node.op == "get_attr":
                self.values[node] = self.attribute(node)
            else:
                self.values[node] = self.call(node)
        return self.graph

    def attribute(self, node: Any) -> Value:
        return self.owned(getattr(self.recorded, node.target))

    def owned(self, value: Any) -> Value:
        """A tensor that the function closed over: the module's, or a constant."""
        path = self.paths.get(id(value))
        if path is None or self.receiver is None:
            return self.emit("prim::Constant", [], TENSOR, value=value)
        *modules, name = path.split(".")
        owner, live = self.receiver, self.owner
        for part in modules:
            live = live._modules[part]
            owner = self.emit(
                "prim::GetAttr", [owner], live.__dict__["_script"].kind, name=part, _table="_modules"
            )
        table = "_parameters" if name in live._parameters else "_buffers"
        return self.emit("prim::GetAttr", [owner], TENSOR, name=name, _table=table)

    def argument(self, value: Any) -> Value:
        """An argument of a recorded call as a value."""
        if (
            value in self.values
            if getattr(value, "__hash__", None) and not isinstance(value, (tuple, list))
            else False
        ):
            return self.values[value]
        if isinstance(value, (tuple, list)):
            items = [self.argument(item) for item in value]
            kinds = [item.kind for item in items]
            if isinstance(value, list):
                return self.emit("prim::ListConstruct", items, ListType(common(kinds)))
            cls = type(value) if hasattr(value, "_fields") else None
            kind = TupleType(kinds, cls, getattr(value, "_fields", ()))
            return self.emit("prim::TupleConstruct", items, kind)
        if isinstance(value, dict):
            pairs = [self.argument(part) for pair in value.items() for part in pair]
            kind_of = DictType(pairs[0].kind, common([item.kind for item in pairs[1::2]]))
            return self.emit("prim::DictConstruct", pairs, kind_of)
        return self.emit("prim::Constant", [], type_of(value) or NONE, value=value)

    def call(self, node: Any) -> Value:
        kind = kind_of_value(node.meta.get("val"))
        if node.target is operator.getitem:
            owner, index = self.argument(node.args[0]), node.args[1]
            if owner.kind == TENSOR:
                raise RuntimeError("a traced function indexes in a way that traces do not record")
            place = self.argument(index)
            name = "prim::TupleIndex" if isinstance(owner.kind, TupleType) else "aten::__getitem__"
            return self.emit(name, [owner, place], kind)
        target = node.target
        args = [self.sized(arg) for arg in node.args]
        words = {key: self.sized(arg) for key, arg in node.kwargs.items()}
        if isinstance(target, str):
            return self.emit(
                f"aten::{target}", [*args, *words.values()], kind, words=tuple(words), _from="Tensor"
            )
        op = target if isinstance(target, Op) else getattr(target, "op", None)
        if op is None:
            raise RuntimeError(f"Tried to trace a call of {target}, which is not an operator")
        if op.name.startswith("basic_") and isinstance(node.args[1], tuple) and not node.kwargs:
            return self.indexed(node)
        written = not isinstance(target, Op) and target.__name__.endswith("_") and not op.name.endswith("_")
        name = operator_name(op.name, op.namespace)
        facts: dict[str, Any] = {}
        if written:
            name, facts["_from"] = f"{op.name}_", "Tensor"
        elif getattr(find_operator(name, ""), "op", None) is not op:
            facts["_from"] = f"op:{op.qualified_name}"
        return self.emit(f"aten::{name}", [*args, *words.values()], kind, words=tuple(words), **facts)

    def indexed(self, node: Any) -> Value:
        """An index of numbers, slices and None, taken dimension by dimension."""
        value, indices = self.argument(node.args[0]), node.args[1]
        rank = node.args[0].meta["val"].dim()
        taken = sum(index is not None and index is not Ellipsis for index in indices)
        dim = 0
        for index in indices:
            place = self.argument(dim)
            if index is Ellipsis:
                dim += rank - taken
            elif index is None:
                value = self.emit("aten::unsqueeze", [value, place], TENSOR)
                dim += 1
            elif isinstance(index, slice):
                if index != slice(None):
                    step = 1 if index.step is None else index.step
                    bounds = [self.argument(part) for part in (index.start, index.stop, step)]
                    value = self.emit("aten::slice", [value, place, *bounds], TENSOR)
                dim += 1
            else:
                value = self.emit("aten::select", [value, place, self.argument(index)], TENSOR)
        return value

    def sized(self, value: Any) -> Value:
        """Tuples of numbers are lists in graphs."""
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return self.argument(list(value))
        return self.argument(value)


class LiveRecorder(Rewriter):
    """Records a function that looks at elements, while it runs on real tensors."""

    def __init__(self, paths: dict[int, str], owner: Any) -> None:
        super().__init__(None, paths, owner)
        self.kept: list[Any] = []

    def record(self, function: Any, names: list[str], inputs: tuple[Any, ...]) -> Graph:
        if self.owner is not None:
            self.receiver = self.graph.block.add_parameter(self.owner.__dict__["_script"].kind, "self")
        given = [copy.deepcopy(value) if isinstance(value, (list, dict)) else value for value in inputs]
        for name, value in zip(names, given, strict=True):
            self.bind(self.graph.block.add_parameter(type_of(value, resolve) or TENSOR, name), value)
        held = put_off()
        try:
            with handlers_outside(), _Listening(self):
                result = function(*given)
        finally:
            del held
        self.graph.block.returned = [self.argument(result)]
        return self.graph

    def bind(self, value: Value, thing: Any) -> None:
        """Notes the value of a tensor, and those of the tensors in a list or a tuple."""
        if isinstance(thing, Tensor):
            self.values[thing] = value
            self.kept.append(thing)
        elif isinstance(thing, (tuple, list)) and any(isinstance(item, Tensor) for item in thing):
            for place, item in enumerate(thing):
                name = "prim::TupleIndex" if isinstance(value.kind, TupleType) else "aten::__getitem__"
                self.bind(self.emit(name, [value, self.argument(place)], kind_of_value(item)), item)

    def argument(self, value: Any) -> Value:
        if isinstance(value, Tensor) and value not in self.values:
            self.values[value] = self.owned(value)
            self.kept.append(value)
        return super().argument(value)

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        name = getattr(function, "__name__", "")
        if name == "__setitem__":
            self.emit("aten::_set_item", [self.argument(arg) for arg in args], NONE)
            return
        if name in ("__bool__", "__float__", "__int__", "item", "__index__"):
            warnings.warn(
                f"Converting a tensor to a Python {type(result).__name__} might cause the trace to be "
                "incorrect. We can't record the data flow of Python values, so this value will be treated "
                "as a constant in the future.", TracerWarning, stacklevel=4,
            )  # fmt: skip
        found = result if isinstance(result, (tuple, list)) else [result]
        if not any(isinstance(item, Tensor) for item in found):
            return
        if name == "__getitem__":
            made = self.emit("aten::__getitem__", [self.argument(arg) for arg in args], TENSOR)
        elif name == "__get__":
            made = self.emit(f"prim::{property_name(function)}", [self.argument(args[0])], TENSOR)
        else:
            made = self.operator(function, args, kwargs, result)
        self.bind(made, result)

    def operator(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Value:
        op = getattr(function, "op", None)
        values, words = (
            [self.sized(arg) for arg in args],
            {key: self.sized(arg) for key, arg in kwargs.items()},
        )
        name = function.__name__
        facts: dict[str, Any] = {}
        if op is None:
            facts["_from"] = "Tensor"
        elif name.startswith("__i") or name.endswith("_") and not op.name.endswith("_"):
            name, facts["_from"] = f"{op.name}_", "Tensor"
        else:
            name = operator_name(op.name, op.namespace)
            if getattr(find_operator(name, ""), "op", None) is not op:
                facts["_from"] = f"op:{op.qualified_name}"
        kind = kind_of_value(result)
        return self.emit(f"aten::{name}", [*values, *words.values()], kind, words=tuple(words), **facts)


class _Listening(TorchFunctionMode):
    """Tells a recorder of every call."""

    def __init__(self, recorder: LiveRecorder) -> None:
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.recorder.called(func, args, kwargs or {}, result)
        return result


def property_name(function: Any) -> str:
    """The name of a tensor's property, by its getter."""
    for name in dir(Tensor):
        if inspect.getattr_static(Tensor, name) is function.__self__:
            return name
    raise RuntimeError("a traced function reads an attribute that traces do not record")


def common(kinds: list[Type]) -> Type:
    found = kinds[0] if kinds else TENSOR
    return found if all(kind == found for kind in kinds) else optional(TENSOR) if TENSOR in kinds else found


def kind_of_value(value: Any) -> Type:
    if isinstance(value, Tensor) or value is None:
        return TENSOR
    if isinstance(value, (tuple, list)):
        return TupleType([kind_of_value(item) for item in value])
    return type_of(value) or TENSOR


def tensor_paths(module: Any) -> dict[int, str]:
    named = [*module.named_parameters(), *module.named_buffers()]
    return {id(tensor): name for name, tensor in named}


def parameter_names(function: Any, count: int) -> list[str]:
    try:
        found = [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError) as error:
        let_through(error)
        found = []
    return found[:count] if len(found) >= count else [f"argument_{place + 1}" for place in range(count)]


def record(
    function: Any, inputs: tuple[Any, ...], owner: Any, name: str, named: Any = None
) -> ScriptFunction:
    """The scripted form of what a function does to these inputs."""
    paths = tensor_paths(owner) if owner is not None else {}
    names = parameter_names(named or function, len(inputs))
    marks.TRACING[0] += 1
    try:
        recorded = make_fx(lambda *args: function(*args))(*inputs)
        graph = Rewriter(recorded, paths, owner).write(names, inputs)
    except RuntimeError as error:
        if not str(error).startswith("make_fx:"):
            raise
        graph = LiveRecorder(paths, owner).record(function, names, inputs)
    finally:
        marks.TRACING[0] -= 1
    arguments = [Argument(n, type_of(v, resolve) or TENSOR) for n, v in zip(names, inputs, strict=True)]
    made = ScriptFunction(name, Schema(name, arguments, graph.block.returned[0].kind), graph)
    if owner is not None:
        made.receiver = ("self", owner.__dict__["_script"].kind, None)
    return made


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """What a function or a module does to example inputs, as a scripted function or module.

    >>> import weft
    >>> double = weft.jit.trace(lambda x: x * 2, weft.ones(2))
    >>> double(weft.tensor([3.0]))
    tensor([6.])
    """
    if isinstance(func, (ScriptFunction, ScriptModule)):
        return func
    if isinstance(func, Module):
        if example_kwarg_inputs is not None:
            example_inputs = bound(func.forward, example_kwarg_inputs)
        return trace_module(
            func, {"forward": example_inputs}, None, check_trace, check_inputs, check_tolerance
        )
    if example_kwarg_inputs is not None:
        example_inputs = bound(func, example_kwarg_inputs)
    inputs = as_tuple(example_inputs)
    made = record(func, inputs, None, getattr(func, "__name__", "traced"), func)
    if check_trace:
        for case in [inputs, *map(as_tuple, check_inputs or ())]:
            compare(made(*case), func(*case), check_tolerance)
    return made


def bound(function: Any, words: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments by name in order."""
    names = list(inspect.signature(function).parameters)
    return tuple(words[name] for name in names if name in words)


def as_tuple(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, (Tensor, dict)):
        return (inputs,)
    return tuple(inputs) if inputs is not None else ()


def trace_module(
    mod: Any,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    **_options: Any,
) -> Any:
    """A module whose methods are what they did to example inputs, given by the methods' names."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    made = script_module(mod, methods=False)
    made.__class__ = TracedModule
    info: ModuleInfo = made.__dict__["_script"]
    for name, given in inputs.items():
        function = mod if name == "forward" else getattr(mod, name)
        case = as_tuple(given)
        info.methods[name] = record(function, case, made, name, getattr(mod, name))
        if check_trace:
            method = made if name == "forward" else getattr(made, name)
            for each in [case, *(map(as_tuple, check_inputs or ()) if name == "forward" else ())]:
                compare(method(*each), function(*each), check_tolerance)
    return made


def compare(traced: Any, expected: Any, tolerance: float) -> None:
    """Warns where a trace gives something else."""
    for number, (one, two) in enumerate(zip(flatten(traced)[0], flatten(expected)[0], strict=False)):
        if not isinstance(one, Tensor) or not isinstance(two, Tensor):
            continue
        wide = one.detach().double() if one.dtype.is_floating_point else one.detach()
        other = two.detach().double() if two.dtype.is_floating_point else two.detach()
        same = tuple(one.shape) == tuple(two.shape)
        if not same or not bool(
            ((wide - other).abs() <= tolerance + tolerance * other.abs()).logical_or(wide != wide).all()
            if one.dtype.is_floating_point
            else (wide == other).all()
        ):
            warnings.warn(
                f"Output nr {number + 1}. of the traced function does not match the corresponding "
                f"output of the "
                "Python function. Detailed error:\nTensor-likes are not close!",
                TracerWarning,
                stacklevel=3,
            )


# -- freezing ----------------------------------------------------------------------------------------------
def freeze(
    mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True, preserve_parameters: bool = False
) -> Any:
    """A module in which parameters and attributes are constants of the graph."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call "
            ".eval() on your module "
            "before freezing."
        )
    info = mod.__dict__["_script"]
    made = script_module(Module(), methods=False)
    made.__dict__["original_name"] = mod.__dict__.get("original_name", type(mod).__name__)
    made.__dict__["training"] = False
    fresh = ModuleInfo(made, info.original_class)
    made.__dict__["_script"] = fresh
    for name in ["forward", *(preserved_attrs or ())]:
        method = info.methods.get(name)
        if not isinstance(method, ScriptFunction):
            if name != "forward":
                made.__dict__[name] = getattr(mod, name)
            continue
        method.ensure()
        graph = constants_for(inline(method.graph), mod)
        if any(node.operator == "prim::PythonOp" for node in graph.walk()):
            made._modules.update(mod._modules)  # layers that are called as they are
        copied = ScriptFunction(method.name, method.schema, graph)
        copied.receiver = ("self", fresh.kind, None)
        fresh.methods[name] = copied
    return made


def constants_for(graph: Graph, module: Any) -> Graph:
    """The graph with what it reads of the module as constants; what it writes stays an error."""
    objects: dict[Value, Any] = {graph.block.parameters[0]: module}
    if any(node.operator == "prim::SetAttr" for node in graph.walk()):
        raise RuntimeError("Freezing found a method that sets an attribute of its module")
    known: dict[Value, Value] = {}
    for node in list(graph.walk()):
        if node.operator != "prim::GetAttr" or node.arguments[0] not in objects:
            continue
        owner = objects[node.arguments[0]]
        name, table = node.attributes["name"], node.attributes.get("_table")
        found = owner.__dict__[table][name] if table else getattr(owner, name)
        if isinstance(found, Module):
            objects[node.results[0]] = found
        elif not isinstance(found, (list, dict)):
            value = found.detach() if isinstance(found, Tensor) else found
            made = Node("prim::Constant", graph, (), (), {"value": value})
            known[node.results[0]] = made.add_result(node.results[0].kind)
            graph.block.nodes_.insert(0, made)
            made.block = graph.block
    replace_values(graph, known)
    return inline(graph)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module, frozen if it is not."""
    return freeze(mod.eval(), other_methods)
