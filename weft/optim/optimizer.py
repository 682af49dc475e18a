"""The base of all optimizers: groups of parameters with their options, state per parameter, hooks, saving.

Takes parameters (or named parameters, or groups of either) and default options; subclasses give `step`. One
idea: everything an optimizer knows lies in three plain things, `defaults`, `param_groups` and `state`, and a
state dict is those with parameters replaced by numbers.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial, wraps
from itertools import chain
from typing import Any, Final

from weft.autograd.grad_mode import enable_grad, put_grad
from weft.autograd.hooks import RemovableHandle
from weft.core.dtypes import dtype, float32, float64, get_default_dtype
from weft.nn.modules.hooks import add
from weft.nn.modules.utils import clear_gradient
from weft.tensor.base import Tensor
from weft.tensor.legacy import typename

StateDict = dict[str, Any]
Step = Callable[..., Any]
Hooks = OrderedDict[int, Callable[..., Any]]


class _RequiredParameter:
    """Stands for an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Final = _RequiredParameter()


# -- hooks of all optimizers ---------------------------------------------------------------------------------
_global_optimizer_pre_hooks: Hooks = OrderedDict()
_global_optimizer_post_hooks: Hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs before every step of every optimizer; may return new (args,
    kwargs)."""
    return add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` runs after every step of every optimizer."""
    return add(_global_optimizer_post_hooks, hook)


# -- what subclasses use -------------------------------------------------------------------------------------
def without_recording(step: Step) -> Step:
    """Decorator of `step`: gradients are recorded inside only if the optimizer is differentiable."""

    @wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = put_grad(bool(self.defaults.get("differentiable")))
        try:
            return step(self, *args, **kwargs)
        finally:
            put_grad(before)

    return run


def evaluate(closure: Callable[[], Any] | None) -> Any:
    """The loss of a closure, computed with recording on; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def scalar_dtype(fused: Any = None) -> dtype:
    """The dtype of step counters."""
    return float64 if get_default_dtype() is float64 and not fused else float32


def to_scalar(value: Any) -> Any:
    """A one-element tensor without dimensions; numbers as they are."""
    return value.squeeze() if isinstance(value, Tensor) and value.dim() else value


def to_number(value: Any) -> Any:
    """The number in a one-element tensor."""
    return value.item() if isinstance(value, Tensor) else value


def check_one_element(name: str, value: Any) -> None:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")


def check_fused(optimizer: Any, fused: Any, foreach: Any, differentiable: bool) -> None:
    """Refuses combinations of `fused`; such an optimizer unscales gradients itself (see
    `GradScaler.step`)."""
    if not fused:
        return
    if differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    optimizer._step_supports_amp_scaling = True
    for parameter in chain.from_iterable(group["params"] for group in optimizer.param_groups):
        if not parameter.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                f"['cpu'] but {parameter.dtype} and {parameter.device.type}"
            )


def overflowed(grads: list[Tensor], grad_scale: Any, found_inf: Any) -> bool:
    """What GradScaler asks of a fused optimizer: skip the step after an overflow, unscale otherwise."""
    if found_inf is not None and found_inf.item():
        return True
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale)
    return False


class Optimizer:
    """Holds parameters in groups, each with its options, and state per parameter."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + typename(params)
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for name in HOOK_TABLES:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- groups ----------------------------------------------------------------------------------------------
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, `{"params": …, option: value …}`; options left out take their defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of "
                "tensors in sets will change between runs. Please use a list instead."
            )
        entries = [given] if isinstance(given, Tensor) else list(given)
        names = [entry[0] for entry in entries if isinstance(entry, tuple)]
        params = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        param_group["params"] = params
        if names:
            if len(names) != len(params):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are missing"
                )
            param_group["param_names"] = names
        for param in params:
            self._check_parameter(param)
        for option, default in self.defaults.items():
            if default is required and option not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {option}"
                )
            param_group.setdefault(option, default)
        self._check_against_others(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {typename(param)}"
            )
        facts: Any = param
        if not self.defaults.get("differentiable") and not (facts.is_leaf or facts.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_against_others(self, group: dict[str, Any]) -> None:
        fresh = set(group["params"])
        if len(fresh) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will "
                "cause an error; see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        named = "param_names" in group
        for other in self.param_groups:
            if named != ("param_names" in other):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{'with' if named else 'without'} names to the optimizer"
                )
        if not fresh.isdisjoint(chain.from_iterable(other["params"] for other in self.param_groups)):
            raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros in place."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                else:
                    clear_gradient(param.grad)

    # -- steps -----------------------------------------------------------------------------------------------
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once; subclasses give this. A closure computes the loss anew and returns
        it."""
        raise NotImplementedError

    def _patch_step_function(self) -> None:
        """Puts the calls of hooks around the class's `step`, once per class."""
        cls: Any = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    @staticmethod
    def profile_hook_step(func: Step) -> Step:
        """`step` with the hooks of all optimizers and of this one around it."""

        @wraps(func)
        def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            own_pre, own_post = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if not (_global_optimizer_pre_hooks or own_pre or own_post or _global_optimizer_post_hooks):
                return func(self, *args, **kwargs)
            args = (self, *args)
            for hook in chain(_global_optimizer_pre_hooks.values(), own_pre.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                            f"{changed}."
                        )
                    args, kwargs = changed
            result = func(*args, **kwargs)
            for hook in chain(own_post.values(), _global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
            return result

        return hooked

    _opt_called: bool
    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step; may return new (args, kwargs)."""
        return add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step."""
        return add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` before `state_dict()` collects anything."""
        return add(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` on what `state_dict()` is about to give; may return another."""
        return add(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` on a shallow copy of what is loaded; may return another."""
        return add(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after a state dict was loaded."""
        return add(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # -- saving ----------------------------------------------------------------------------------------------
    def state_dict(self) -> StateDict:
        """`{"state": …, "param_groups": …}`, with parameters numbered in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        position = 0
        for group in self.param_groups:
            for offset, param in enumerate(group["params"]):
                numbers.setdefault(id(param), position + offset)
            position += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()
        }
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over what `state_dict()` of such an optimizer gave; tensors get their parameter's dtype."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        owners: dict[Any, tuple[Tensor, dict[str, Any]]] = {}
        for group, saved in zip(self.param_groups, saved_groups):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            for number, param in zip(saved["params"], group["params"]):
                owners[number] = (param, saved)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                param, saved = owners[key]
                state[param] = _fitted(value, param, saved, None)
            else:
                state[key] = value
        groups = []
        for group, saved in zip(self.param_groups, saved_groups):
            loaded = dict(saved)
            loaded["params"] = group["params"]
            if "param_names" in group:
                loaded.setdefault("param_names", group["param_names"])
            groups.append(loaded)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _note_call(self) -> Callable[[], None]:
        """Notes for schedules that `step` was called; gives what takes the note away again."""
        self._opt_called = True
        return partial(delattr, self, "_opt_called")

    def _keeps_state(self, group: dict[str, Any]) -> bool:
        """Whether parameters of this group get state from `_init_state`."""
        return True


def new_step(param: Any, fused: Any = None, count: float = 0.0) -> Any:
    """A step counter."""
    return param.new_full((), count, dtype=scalar_dtype(fused), requires_grad=False)


def _fitted(value: Any, param: Any, group: dict[str, Any], key: Any) -> Any:
    """Loaded state in the form this parameter wants: its dtype and device, but step counters as they are."""
    if isinstance(value, Tensor):
        tensor: Any = value
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return tensor.to(dtype=float32, device=param.device)
            return tensor
        if param.is_floating_point():
            return tensor.to(dtype=param.dtype, device=param.device)
        return tensor.to(device=param.device)
    if isinstance(value, dict):
        return {name: _fitted(item, param, group, name) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_fitted(item, param, group, None) for item in value)
    return value


HOOK_TABLES: Final = tuple(name for name in Optimizer.__annotations__ if name.endswith("_hooks"))
