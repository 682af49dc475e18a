"""Hooks of modules: the tables of hooks that all modules share, and the call of a module that has any hook.

Takes a module and the arguments of its call; gives what the call gives after every hook had its turn. One
idea: a call without hooks never comes here (`Module.__call__` asks five dicts and goes to `forward`), so this
file may be thorough.

# Note [Order of module hooks]
Forward: global pre-hooks, own pre-hooks, `forward`, global hooks, own hooks; each kind in order of
registration, except those registered with `prepend=True`. Backward: see Note [Backward hooks of modules].

# Note [Backward hooks of modules]
A module's gradients are seen by two identity nodes, one around the tensors among its arguments and one around
those among its results:

    arguments -> [node A] -> forward -> [node B] -> results

When B runs, the gradients of the results are known (`grad_output`): pre-hooks see them and may replace them.
When A runs, the gradients of the arguments are known (`grad_input`): hooks see both, and may replace
grad_input. If no argument requires a gradient there is no A, and the hooks are called from B with grad_input
all None.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from typing import Any

from weft.autograd.hooks import RemovableHandle
from weft.core.interrupts import let_through
from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.core.types import TensorType
from weft.nn.modules._functions import BackwardHookFunction
from weft.ops.record import ops, type_of
from weft.tensor.base import Tensor

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

Hook = Callable[..., Any]


_global_backward_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_forward_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_is_full_backward_hook: bool | None = None


# -- hooks of all modules ------------------------------------------------------------------------------------
def add(
    table: OrderedDict[int, Hook], hook: Hook, *marked: OrderedDict[int, bool], prepend: bool = False
) -> RemovableHandle:
    """Registers a hook, noted in the `marked` tables too; `prepend` puts it before those registered
    earlier."""
    handle = RemovableHandle(table, extra_dict=list(marked))
    table[handle.id] = hook
    for marks in marked:
        marks[handle.id] = True
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` when any module registers a buffer; what it returns is registered
    instead."""
    return add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, name, submodule)` when any module registers another; what it returns is registered
    instead."""
    return add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` when any module registers a parameter; what it returns is
    registered instead."""
    return add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, args)` before every module's forward; arguments it returns replace the given
    ones."""
    return add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls `hook(module, args, output)` after every module's forward; what it returns replaces the
    output."""
    marked = [_global_forward_hooks_with_kwargs] if with_kwargs else []
    marked += [_global_forward_hooks_always_called] if always_call else []
    return add(_global_forward_hooks, hook, *marked)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Deprecated in favour of `register_module_full_backward_hook`: sees the gradients of one node of each
    module."""
    return _global_backward(hook, False)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` when the gradients of any module's arguments are
    known."""
    return _global_backward(hook, True)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(module, grad_output)` when the gradients of any module's results are known."""
    return add(_global_backward_pre_hooks, hook)


def _global_backward(hook: Hook, full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please "
            "use only one of them."
        )
    _global_is_full_backward_hook = full
    return add(_global_backward_hooks, hook)


def registered(hooks: OrderedDict[int, Hook], module: Any, name: str, value: Any) -> Any:
    """What is registered under this name after the registration hooks had their say."""
    for hook in list(hooks.values()):
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value


# -- calling a module that has hooks -------------------------------------------------------------------------
class Call:
    """One call of a module on its way through the hooks."""

    __slots__ = ("module", "args", "kwargs", "result", "done")

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.done: list[int] = []  # forward hooks that have run

    def run(self) -> Any:
        """The call, hooks and all; a failed one still shows itself to hooks registered with always_call."""
        if not (_global_forward_hooks_always_called or self.module.__dict__["_forward_hooks_always_called"]):
            return self._through()
        try:
            return self._through()
        except Exception:
            self._show_failure()
            raise

    def _through(self) -> Any:
        module = self.module
        fields = module.__dict__
        full = regular = before = watch = None
        if _global_backward_hooks or fields["_backward_hooks"]:
            full, regular = module._get_backward_hooks()
        if _global_backward_pre_hooks or fields["_backward_pre_hooks"]:
            before = module._get_backward_pre_hooks()
        if _global_forward_pre_hooks or fields["_forward_pre_hooks"]:
            self._run_pre_hooks(fields["_forward_pre_hooks"], fields["_forward_pre_hooks_with_kwargs"])
        if full or before:
            watch = BackwardHook(module, full or [], before or [])
            self.args = watch.setup_input_hook(self.args)
        forward = module.forward if seams.callee is None else seams.callee(module.forward)
        self.result = forward(*self.args, **self.kwargs)
        if _global_forward_hooks:
            self._run_hooks(_global_forward_hooks, _global_forward_hooks_with_kwargs)
        if fields["_forward_hooks"]:
            self._run_hooks(fields["_forward_hooks"], fields["_forward_hooks_with_kwargs"])
        if watch is not None:
            if not isinstance(self.result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                    f"but received {type(self.result)}",
                    stacklevel=5,
                )
            self.result = watch.setup_output_hook(self.result)
        if regular:
            watch_node(module, regular, self.args, self.result)
        return self.result

    def _run_pre_hooks(self, hooks: Mapping[int, Hook], named: Container[int]) -> None:
        module = self.module
        # Snapshots here and below: a hook may remove itself.
        for number, hook in (*_global_forward_pre_hooks.items(), *hooks.items()):
            if number not in named:
                answer = hook(module, self.args)
                if answer is not None:
                    self.args = answer if isinstance(answer, tuple) else (answer,)
                continue
            answer = hook(module, self.args, self.kwargs)
            if answer is not None:
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{answer}."
                    )
                self.args, self.kwargs = answer

    def _run_hooks(self, hooks: Mapping[int, Hook], named: Container[int]) -> None:
        for number, hook in tuple(hooks.items()):
            self.done.append(number)
            if number in named:
                answer = hook(self.module, self.args, self.kwargs, self.result)
            else:
                answer = hook(self.module, self.args, self.result)
            if answer is not None:
                self.result = answer

    def _show_failure(self) -> None:
        """Runs those of the hooks registered with always_call that have not run yet."""
        own = self.module
        named = {*_global_forward_hooks_with_kwargs, *own._forward_hooks_with_kwargs}
        always = {*_global_forward_hooks_always_called, *own._forward_hooks_always_called}
        for number, hook in (*_global_forward_hooks.items(), *own._forward_hooks.items()):
            if number not in always or number in self.done:
                continue
            try:
                self._run_hooks({number: hook}, named)
            except Exception as error:
                let_through(error)
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                    f"another error was raised in forward: {error}",
                    stacklevel=4,
                )


# -- full backward hooks -------------------------------------------------------------------------------------
class BackwardHook:
    """What watches the gradients of one call of a module."""

    def __init__(self, module: Any, user_hooks: list[Hook], user_pre_hooks: list[Hook]) -> None:
        self.module = module
        self.user_hooks, self.user_pre_hooks = user_hooks, user_pre_hooks
        self.grad_outputs: Any = None
        self.n_inputs = self.n_outputs = -1
        self.input_places: list[int] | None = None
        self.constants: dict[int, TensorType] = {}  # tensor arguments that require no gradient
        self.output_places: list[int] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, their tensors behind a node that tells this object their gradients."""
        self.n_inputs = len(args)
        result, self.input_places = self._behind_node(args, self._on_inputs)
        self.constants = {
            place: type_of(args[place]) for place in self.input_places or () if not args[place].requires_grad
        }
        return result

    def setup_output_hook(self, results: Any) -> Any:
        """The same for a module's result: a tensor, or a tuple with tensors in it."""
        single = isinstance(results, Tensor)
        if not single and not isinstance(results, tuple):
            return results
        values = (results,) if single else results
        self.n_outputs = len(values)
        values, self.output_places = self._behind_node(values, self._on_outputs)
        return values[0] if single else values

    def _behind_node(self, values: Any, hook: Hook) -> tuple[Any, list[int] | None]:
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not (grad_enabled() and any(values[i].requires_grad for i in places)):
            return values, None
        tensors = BackwardHookFunction.apply(*(values[i] for i in places))
        node = next(t.grad_fn for t in tensors if t.grad_fn is not None)
        node.register_hook(hook)
        changed = list(values)
        for place, tensor in zip(places, tensors, strict=True):
            changed[place] = tensor
        return (type(values)(*changed) if hasattr(values, "_fields") else tuple(changed)), places

    def _on_outputs(self, _grad_inputs: Any, grad_outputs: tuple[Any, ...]) -> Any:
        assert self.output_places is not None
        known = spread(self.output_places, grad_outputs, self.n_outputs)
        for hook in self.user_pre_hooks:
            answer = hook(self.module, known)
            if answer is None:
                continue
            if len(answer) != len(known):
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(answer)}, but "
                    f"expected {len(known)}"
                )
            known = answer
        if self.input_places is None:
            self._without_inputs(known)
        else:
            self.grad_outputs = known
        return tuple(known[place] for place in self.output_places)

    def _without_inputs(self, grad_outputs: tuple[Any, ...]) -> None:
        if not self.user_hooks:
            return
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since "
            "no inputs require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=5,
        )
        for hook in self.user_hooks:
            answer = hook(self.module, (None,) * self.n_inputs, grad_outputs)
            if answer is not None and not (
                isinstance(answer, tuple) and all(value is None for value in answer)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or "
                    "None for all gradients."
                )

    def _on_inputs(self, grad_inputs: tuple[Any, ...], _grad_outputs: Any) -> Any:
        grad_outputs, self.grad_outputs = self.grad_outputs, None
        if grad_outputs is None:  # the results took no part in this backward
            return None
        assert self.input_places is not None
        known = spread(self.input_places, grad_inputs, self.n_inputs)
        if self.constants:  # hooks see zeros where a tensor argument requires no gradient
            zeros = {at: ops.zeros(kind.shape, dtype=kind.dtype) for at, kind in self.constants.items()}
            known = tuple(zeros.get(place, value) for place, value in enumerate(known))
        for hook in self.user_hooks:
            answer = hook(self.module, known, grad_outputs)
            if answer is None:
                continue
            if len(answer) != len(known):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(answer)}, but "
                    f"expected {len(known)}"
                )
            known = answer
        return tuple(known[place] for place in self.input_places)


def spread(places: list[int], values: Any, count: int) -> tuple[Any, ...]:
    """The values at their places among `count`, None elsewhere."""
    full: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return tuple(full)


# -- backward hooks of the old kind --------------------------------------------------------------------------
def watch_node(module: Any, hooks: list[Hook], args: Any, result: Any) -> None:
    """Puts deprecated backward hooks on the node behind the first tensor of the result."""
    tensor = result
    while not isinstance(tensor, Tensor):
        if isinstance(tensor, dict):
            tensor = next(value for value in tensor.values() if isinstance(value, Tensor))
        else:
            tensor = tensor[0]
    node: Any = tensor.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_bound(hook, module))
    module._maybe_warn_non_full_backward_hook(args, result, node)


def _bound(hook: Hook, module: Any) -> Hook:
    return lambda grad_input, grad_output: hook(module, grad_input, grad_output)


def missing_from_regular(args: Any, result: Any, node: Any) -> str | None:
    """What a deprecated backward hook on this node does not see, as a warning; None where it sees all."""
    results = (result,) if isinstance(result, Tensor) else result
    given = (args,) if isinstance(args, Tensor) else args
    if not (isinstance(results, tuple) and all(isinstance(value, Tensor) for value in results)):
        when, lost = (
            "s on a Module that does not return a single Tensor or a tuple of Tensors",
            "some of the grad_output",
        )
    elif not (isinstance(given, tuple) and all(isinstance(value, Tensor) for value in given)):
        when = "s on a Module that does not take as input a single Tensor or a tuple of Tensors"
        lost = "some of the grad_input"
    elif (
        node not in (makers := {value.grad_fn for value in results if value.grad_fn is not None})
        and len(makers) < 2
    ):
        return (
            "Using a non-full backward hook when outputs are nested in python data structure is deprecated "
            "and will be removed in future versions. This hook will be missing some grad_output."
        )
    elif len(makers) > 1:
        when, lost = " when outputs are generated by different autograd Nodes", "some grad_output"
    elif {value.grad_fn for value in given if value.grad_fn is not None} != {
        end for end, _ in node.next_functions
    }:
        when, lost = " when the forward contains multiple autograd Nodes", "some grad_input"
    else:
        return None
    subject = "non-full backward hook" if when.startswith("s ") else "a non-full backward hook"
    return (
        f"Using {subject}{when} is deprecated and will be removed in future versions. This hook will be "
        f"missing {lost}. Please use register_full_backward_hook to get the documented behavior."
    )
