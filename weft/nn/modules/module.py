"""`nn.Module`: something that is called, and holds parameters, buffers and other modules.

Takes attributes as users assign them and files them away by kind; gives them back by name, in walks over the
tree, and as a state dict. One idea: the three dicts `_parameters`, `_buffers` and `_modules` are the whole
truth of what a module holds; everything else reads or writes them.

# Note [Calling a module]
`module(x)` must cost little more than `module.forward(x)`. So `__call__` asks whether there is any hook or
compiled form, and if not goes straight to `forward`. The question reads the instance's dict directly: a class
with `__getattr__` pays for each attribute it reads. `weft.nn.modules.hooks.Call` serves all other calls.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import weft.nn.modules.hooks as _hooks
from weft.autograd.hooks import RemovableHandle
from weft.core.naming import named
from weft.core.seams import seams
from weft.nn.modules.hooks import *  # noqa: F403
from weft.nn.modules.hooks import BackwardHook as BackwardHook
from weft.nn.modules.hooks import (
    Call,
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    add,
    missing_from_regular,
    registered,
)
from weft.nn.modules.moving import Movable
from weft.nn.modules.state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from weft.nn.modules.state import Stateful
from weft.nn.modules.state import _IncompatibleKeys as _IncompatibleKeys
from weft.nn.modules.utils import clear_gradient
from weft.nn.parameter import Buffer, Parameter
from weft.tensor.base import Tensor
from weft.tensor.legacy import typename

__all__ = ["Module"]
__all__ += _hooks.__all__

T = TypeVar("T", bound="Module")
Hook = Callable[..., Any]
HOOK_TABLES = (
    "_backward_pre_hooks", "_backward_hooks", "_is_full_backward_hook", "_forward_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
BOTH_KINDS = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. "
    "Please use only one of them."
)


def _addindent(text: str, width: int) -> str:
    """The text with all lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * width)


def _forward_unimplemented(self: Module, *input: Any) -> None:
    """What a call of the module computes; every subclass defines it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _misfit(value: Any, wanted: str) -> TypeError:
    return TypeError(named(f"cannot assign '{typename(value)}' {wanted}"))


def _tracer() -> Any:
    """Who traces symbolically in this context."""
    ask = seams.tracer  # other threads put it there, and take it away
    return None if ask is None else ask()


class Module(Stateful, Movable):
    """Base class of everything with parameters that can be called.

    >>> class Scale(weft.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = weft.nn.Parameter(weft.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    ...
    >>> Scale()(weft.ones(2)).tolist()
    [2.0, 2.0]
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: OrderedDict[int, Hook]
    _backward_hooks: OrderedDict[int, Hook]
    _forward_hooks: OrderedDict[int, Hook]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if self.call_super_init is False and kwargs:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if self.call_super_init is False and args:
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        fields: dict[str, Any] = {"training": True, "_parameters": {}, "_buffers": {}}
        fields["_non_persistent_buffers_set"] = set()
        for table in HOOK_TABLES:
            fields[table] = OrderedDict()
        fields["_is_full_backward_hook"] = None
        fields["_modules"] = {}
        self.__dict__.update(fields)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented

    # -- calling ---------------------------------------------------------------------------------------------
    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        fields = self.__dict__
        try:
            plain = not (
                fields["_backward_hooks"]
                or fields["_backward_pre_hooks"]
                or fields["_forward_hooks"]
                or fields["_forward_pre_hooks"]
                or "_compiled_call_impl" in fields
                or _global_backward_hooks
                or _global_backward_pre_hooks
                or _global_forward_hooks
                or _global_forward_pre_hooks
                or seams.callee is not None
                or seams.tracer is not None
            )
        except KeyError as error:  # `__init__` has not run
            name = error.args[0]
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'") from None
        if plain:
            return self.forward(*args, **kwargs)
        compiled = self._compiled_call_impl
        if seams.tracer is not None:
            tracer = _tracer()
            if tracer is not None and id(self) in tracer.paths:
                return tracer.call_module(
                    self, self._call_impl if compiled is None else compiled, args, kwargs
                )
        return Call(self, args, kwargs).run() if compiled is None else compiled(*args, **kwargs)

    __call__: Callable[..., Any] = _wrapped_call_impl

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """The call as it runs where there is no compiled form of it."""
        return Call(self, args, kwargs).run()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Calls of this module run compiled from now on; the arguments are those of `weft.compile`."""
        self._compiled_call_impl = seams.compile(self._call_impl, *args, **kwargs)

    # -- filing attributes away ------------------------------------------------------------------------------
    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if seams.tracer is not None:
            tracer = _tracer()
            for table in ("_parameters", "_buffers") if tracer is not None else ():
                if name in fields.get(table, ()):
                    return tracer.read(name, fields[table][name])
        try:
            if name in (table := fields["_parameters"]):
                return table[name]
            if name in (table := fields["_buffers"]):
                return table[name]
            if name in (table := fields["_modules"]):
                return table[name]
        except KeyError:  # before `__init__` has run, or of a module that took a table away
            pass
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        parameters, modules = fields.get("_parameters"), fields.get("_modules")
        buffers = fields.get("_buffers")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, fields, buffers, modules, fields["_non_persistent_buffers_set"])
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise _misfit(value, f"as parameter '{name}' (weft.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, fields, parameters, buffers, fields["_non_persistent_buffers_set"])
            modules[name] = registered(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise _misfit(value, f"as child module '{name}' (weft.nn.Module or None expected)")
            modules[name] = registered(_global_module_registration_hooks, self, name, value)
        elif (buffers is not None and name in buffers) or isinstance(value, Buffer):
            self._assign_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _assign_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise _misfit(value, f"as buffer '{name}' (weft.nn.Buffer, weft.Tensor or None expected)")
        fields = self.__dict__
        if fields.get("_buffers") is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in fields["_non_persistent_buffers_set"]
        own = type(self).register_buffer
        if own is Module.register_buffer or "persistent" in inspect.signature(own).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                "without the persistent argument is not allowed."
            )

    @staticmethod
    def _forget(name: str, *places: Any) -> None:
        for place in places:
            if name in place:
                if isinstance(place, dict):
                    del place[name]
                else:
                    place.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def _check_name(self, name: Any, kind: str, table: dict[str, Any]) -> None:
        """Raises where a parameter, buffer or module cannot go by this name."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if kind == "module" and hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if kind != "module" and hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter, or a name that shall have none."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                wanted = f"object to parameter '{name}' (weft.nn.Parameter or None required)"
                raise _misfit(param, wanted)
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                    f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                    "the forward() method."
                )
            param = registered(_global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is state but no parameter; in the state dict if `persistent`."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (weft Tensor or None required)"
            )
        self._buffers[name] = registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child under this name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # -- finding by name -------------------------------------------------------------------------------------
    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; itself for the empty one."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def _get_tensor(self, target: str) -> tuple[Module, str, Any]:
        path, _dot, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        _module, name, found = self._get_tensor(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        module, name, found = self._get_tensor(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a dotted path; `strict` demands that there is one already."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _dot, name = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    # -- walking over the tree -------------------------------------------------------------------------------
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, parents before children; each once unless `remove_duplicate` is
        False."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """As `named_modules`, without the names."""
        for _name, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, each once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """As `named_children`, without the names."""
        for _name, child in self.named_children():
            yield child

    def _named_members(
        self, get_members_fn: Callable[[Module], Any], prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        """Each (dotted name, value) of what `get_members_fn` gives for the modules of the tree."""
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """As `named_parameters`, without the names."""
        for _name, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """As `named_buffers`, without the names."""
        for _name, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls `fn` on every module of the tree, children before parents."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Sets `training` in the whole tree."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether gradients flow to the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes the gradients of the parameters away, or sets them to zero."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The "
                "parameters are copied (in a differentiable manner) from the original module. This means "
                "they are not leaf nodes in autograd and so don't accumulate gradients. If you need "
                "gradients in your forward method, consider using autograd.grad instead.",
                stacklevel=2,
            )
        for parameter in self.parameters():
            if set_to_none:
                parameter._grad = None
            else:
                clear_gradient(parameter._grad)

    # -- hooks -----------------------------------------------------------------------------------------------
    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before forward (`with_kwargs`: `hook(module, args, kwargs)`); arguments
        it returns
        replace the given ones."""
        marked = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add(self._forward_pre_hooks, hook, *marked, prepend=prepend)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after forward (`with_kwargs`: `hook(module, args, kwargs,
        output)`); what it
        returns replaces the output. `always_call`: also when forward raised."""
        marked = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marked += [self._forward_hooks_always_called] if always_call else []
        return add(self._forward_hooks, hook, *marked, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` when the gradients of the results are known; a tuple replaces
        them."""
        return add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the arguments are known; a
        tuple replaces
        grad_input."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(BOTH_KINDS)
        self._is_full_backward_hook = True
        return add(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Deprecated in favour of `register_full_backward_hook`: sees the gradients of the last node only."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(BOTH_KINDS)
        self._is_full_backward_hook = False
        return add(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Hook], list[Hook]]:
        """Full backward hooks and those of the old kind, global ones first."""
        full: list[Hook] = []
        regular: list[Hook] = []
        if _global_backward_hooks:
            chosen = full if _hooks._global_is_full_backward_hook else regular
            chosen += _global_backward_hooks.values()
        if self._backward_hooks:
            chosen = full if self._is_full_backward_hook else regular
            chosen += self._backward_hooks.values()
        return full, regular

    def _get_backward_pre_hooks(self) -> list[Hook]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _maybe_warn_non_full_backward_hook(self, inputs: Any, result: Any, grad_fn: Any) -> None:
        text = missing_from_regular(inputs, result, grad_fn)
        if text is not None:
            warnings.warn(text, FutureWarning, stacklevel=2)

    # -- showing and copying ---------------------------------------------------------------------------------
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows between the parentheses besides the children."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(child), 2)}" for name, child in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        body = "".join(f"\n  {line}" for line in lines + children)
        return f"{self._get_name()}({body}\n)" if body else f"{self._get_name()}()"

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)  # made again by whoever wants it
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for table in HOOK_TABLES:  # what a module pickled by an older version does not have
            if table not in self.__dict__:
                self.__dict__[table] = None if table == "_is_full_backward_hook" else OrderedDict()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
