"""Parameters computed from others: `register_parametrization` puts a module between what is stored and what
is read.

Takes a module, the name of one of its tensors and a module that computes it; gives the module with that name
turned into a property. One idea: the module gets a class of its own, whose property runs the parametrization
each time the tensor is read, and takes what is assigned back through `right_inverse`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.autograd.grad_mode import no_grad
from weft.nn.modules.container import ModuleDict, ModuleList
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.tensor.base import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, however often it is read."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _put(tensor: Any, value: Any) -> None:
    """Gives a tensor that is stored another value, maybe of another shape, and keeps it the same object."""
    if value is not tensor:
        tensor.data = value.detach()


def _facts(first: str, before: Any, second: str, after: Any) -> str:
    return f"\n{first}: {before}\n{second}: {after}"


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order in which they act, and what is stored: `original`, or
    `original0`, `original1` and so on."""

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass  # stored as it is
        several = isinstance(new, Sequence)
        if not (isinstance(new, Tensor) or several):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor: bool = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._check_kept("dtype", original.dtype, new.dtype)
            self._check_kept("device", original.device, new.device)
            with no_grad():
                _put(original, new)
            _register(self, "original", original)
        else:
            self._store_several(original, new)
        if not unsafe:
            self._check_result(self(), shape, dtype)

    def _store_several(self, original: Any, new: Sequence[Any]) -> None:
        for number, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {number} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register(self, f"original{number}", part)

    @staticmethod
    def _check_kept(what: str, before: Any, after: Any) -> None:
        if before != after:
            raise ValueError(
                f"When `right_inverse` outputs one tensor, it may not change the {what}."
                + _facts(f"original.{what}", before, f"right_inverse(original).{what}", after)
            )

    @staticmethod
    def _check_result(made: Any, shape: Any, dtype: Any) -> None:
        if not isinstance(made, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        for what, before, after in (("dtype", dtype, made.dtype), ("shape", shape, made.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless "
                    "`unsafe` flag is enabled."
                    + _facts(f"unparametrized {what}", before, f"parametrized {what}", after)
                )

    def right_inverse(self, value: Any) -> None:
        """Stores what the parametrizations make this value of."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} "
                        f"while `original` has dtype {self.original.dtype}"
                    )
                _put(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(value)}."
                )
            for number, part in enumerate(value):
                stored = getattr(self, f"original{number}")
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {number} of type "
                        f"{type(part).__name__}"
                    )
                if stored.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {number} returned by `right_inverse` has dtype {part.dtype} "
                        f"while `original{number}` has dtype {stored.dtype}"
                    )
                _put(stored, part)

    def forward(self) -> Any:
        if self.is_tensor:
            value = self[0](self.original)
        else:
            value = self[0](*(getattr(self, f"original{number}") for number in range(self.ntensors)))
        for number in range(1, len(self)):
            value = self[number](value)
        return value


# -- the class of a parametrized module ----------------------------------------------------------------------
def _refuse_pickling(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deep_copy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    made = self.__new__(self.__class__)
    memo[id(self)] = made
    made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made


def _inject_new_class(module: Module) -> None:
    """Gives the module a class of its own, derived from the one it has."""
    kind = module.__class__
    body: dict[str, Any] = {"__getstate__": _refuse_pickling}
    if not hasattr(kind, "__deepcopy__"):
        body["__deepcopy__"] = _deep_copy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    if hasattr(module, tensor_name):
        raise AssertionError(f"module already has an attribute named '{tensor_name}'")

    def read(self: Any) -> Any:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(module), tensor_name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = parametrization()
        return value

    def write(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(module.__class__, tensor_name, property(read, write))


# -- for users -----------------------------------------------------------------------------------------------
def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether the module, or this tensor of it, has parametrizations."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def type_before_parametrizations(module: Any) -> type[Any]:
    """The class that the module had."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes `module.tensor_name` what `parametrization` computes from the tensor that was there.

    >>> import weft
    >>> class Symmetric(weft.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = weft.nn.Linear(3, 3)
    >>> _ = weft.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all())
    True
    >>> sorted(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        listed: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_another(module, tensor_name, parametrization)
        listed.append(parametrization)
        listed.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        listed = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = listed
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_another(module: Module, name: str, parametrization: Any) -> None:
    """Refuses a parametrization on top of others that changes the dtype or shape."""
    given = getattr(module, name)
    made = parametrization(given)
    if not isinstance(made, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
    for what in ("dtype", "shape"):
        before, after = getattr(given, what), getattr(made, what)
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the "
                "`unsafe` flag is enabled."
                + _facts(f"module.{name}.{what}", before, f"parametrization(module.{name}).{what}", after)
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(made)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        before, after = getattr(given, what), getattr(back, what)
        if before != after:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                f"module.{name}, unless the `unsafe` flag is enabled."
                + _facts(f"module.{name}.{what}", before, f"returned {what}", after)
            )


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes `module.tensor_name` a stored tensor again: as computed, or as it was stored."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed: Any = module.parametrizations[tensor_name]
    if listed.is_tensor:
        original = listed.original
        if leave_parametrized:
            with no_grad():
                _put(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
            "terms of a sequence of tensors."
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = module.__class__.__bases__[0]
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Moves parametrizations, and what they store, from one module to another; without a name all of them,
    and the other parameters too."""
    if not is_parametrized(from_module):
        return to_module
    listed: Any = from_module.parametrizations
    if tensor_name is None:
        names = list(listed)
    elif tensor_name in listed:
        names = [tensor_name]
    else:
        raise AssertionError(f"Parametrization for '{tensor_name}' not found")
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in listed[name]:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        if target.is_tensor:
            target.original = listed[name].original
        else:
            for number in range(target.ntensors):
                part = f"original{number}"
                setattr(target, part, getattr(listed[name], part))
    return to_module
