"""State of modules: `state_dict` and `load_state_dict`, with their hooks.

Takes a module, gives its parameters and buffers by dotted name; or takes such a dict and writes it into the
module. One idea: a module saves and loads what is its own (`_save_to_state_dict`, `_load_from_state_dict`,
which subclasses may replace), and the walk over the children is here.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from weft.autograd.hooks import RemovableHandle
from weft.core.interrupts import let_through
from weft.core.modes import enter, leave
from weft.nn.modules.hooks import add
from weft.nn.parameter import Parameter, is_lazy
from weft.tensor.base import Tensor
from weft.tensor.overrides import has_override

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
STRAY = (
    "Reached a code path in Module.{}() that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)
POSITIONAL = (
    "Positional args are being deprecated, use kwargs instead. Refer to "
    "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details."
)


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` found in only one of the two."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WrappedHook:
    """A hook that is given its module first, held weakly: a module that is copied takes the hook along, and
    the copy's
    hook is given the copy."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module: Any = weakref.ref(module) if module is not None else None
        self.__name__ = _name_of(hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module = state["hook"], state["with_module"]
        self.__name__ = _name_of(self.hook)
        self.module = None
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


def _name_of(hook: Any) -> str:
    """The name of a function; what another callable looks like. A method's module may be half made, as copies
    are: it is not shown unless it must be."""
    return hook.__name__ if hasattr(hook, "__name__") else repr(hook)


class Stateful:
    """The part of Module that saves and loads."""

    _version: int
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Any]
    _state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_pre_hooks: OrderedDict[int, Any]
    _load_state_dict_post_hooks: OrderedDict[int, Any]

    # -- saving ----------------------------------------------------------------------------------------------
    def get_extra_state(self) -> Any:
        """What else belongs in the state dict; subclasses that define it define `set_extra_state` too."""
        raise RuntimeError(STRAY.format("get_extra_state"))

    def set_extra_state(self, state: Any) -> None:
        """Takes back what `get_extra_state` gave."""
        raise RuntimeError(STRAY.format("set_extra_state"))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Puts this module's own tensors, not its children's, into `destination`."""
        skipped = self._non_persistent_buffers_set
        buffers = {name: tensor for name, tensor in self._buffers.items() if name not in skipped}
        for table in (self._parameters, buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if _redefines(self, "get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by dotted name, detached unless `keep_vars`."""
        if args:
            warnings.warn(POSITIONAL, FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if answer is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif answer is not None:
                destination = answer
        return destination

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, metadata)` after saving; a dict it returns replaces the
        result."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, metadata)` after saving; it may change the dict, and
        returns None."""
        hook._from_public_api = True
        return add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before saving."""
        return add(self._state_dict_pre_hooks, hook)

    # -- loading ---------------------------------------------------------------------------------------------
    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Calls `hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before
        loading, with the module in front if asked for."""
        return add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`
        before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return add(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own tensors, not its children's; complaints go to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        skipped = self._non_persistent_buffers_set
        buffers = {name: tensor for name, tensor in self._buffers.items() if name not in skipped}
        own = {name: tensor for name, tensor in (self._parameters | buffers).items() if tensor is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                complaint = _load_one(self, name, key, tensor, state_dict[key], assign)
                if complaint is not None:
                    error_msgs.append(complaint)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if _redefines(self, "set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            unexpected_keys += [
                key
                for key in state_dict
                if key != extra and key.startswith(prefix) and self._unknown(key[len(prefix) :], own)
            ]

    def _unknown(self, name: str, own: dict[str, Any]) -> bool:
        first, dot, _rest = name.partition(".")
        return first not in self._modules if dot else first not in own

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copies a state dict into this module and its children (`assign`: takes the tensors themselves)."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module: Any, local: Any, prefix: str) -> None:
            facts = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                facts = {**facts, "assign_to_params_buffers": assign}
            module._load_from_state_dict(local, prefix, facts, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {key: value for key, value in local.items() if key.startswith(inner)}, inner)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                        "return new values, "
                        "if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return _IncompatibleKeys(missing, unexpected)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def _redefines(module: Any, name: str) -> bool:
    return getattr(type(module), name, None) is not getattr(Stateful, name)


def _load_one(module: Any, name: str, key: str, tensor: Any, given: Any, assign: bool) -> str | None:
    """Writes one tensor of a state dict into a module; gives the complaint where that cannot be."""
    if not (isinstance(given, Tensor) or has_override(given)):
        return (
            f'While copying the parameter named "{key}", expected weft.Tensor or Tensor-like object from '
            f"checkpoint but received {type(given)}"
        )
    lazy = is_lazy(tensor)
    if not lazy and not tensor.shape and tuple(given.shape) == (1,):
        given = given[0]  # checkpoints of long ago have no zero-dim tensors
    if not lazy and given.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape "
            f"in current model is {tensor.shape}."
        )
    if not lazy and tensor.is_meta and not given.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
            "current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the "
            "state dictionary to their corresponding key in the module instead of copying them in place?)",
            stacklevel=5,
        )
    token = enter(grad=False)
    try:
        if assign:
            if isinstance(tensor, Parameter):
                if isinstance(given, Parameter):
                    given = given.requires_grad_(tensor.requires_grad)
                else:
                    given = Parameter(given, requires_grad=tensor.requires_grad)
            setattr(module, name, given)
        else:
            tensor.copy_(given)
    except Exception as error:
        let_through(error)
        sizes = tuple(value.size() for value in (tensor, given))
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are {sizes[0]} and '
            f"whose dimensions in the checkpoint are {sizes[1]}, an exception occurred : {error.args}."
        )
    finally:
        leave(token)
    return None
