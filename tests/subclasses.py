"""Subclasses, lookalikes and modes that record or refuse what they see, for the tests of overriding."""

from __future__ import annotations

from weft import Tensor
from weft.overrides import TorchFunctionMode, _disabled_torch_function_impl, resolve_name


class Plain(Tensor):
    pass


class Derived(Plain):
    pass


class Other(Tensor):
    pass


class Disabled(Tensor):
    __torch_function__ = _disabled_torch_function_impl


class Logged(Tensor):
    log: list[tuple] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append((resolve_name(func), types, args, kwargs))
        return super().__torch_function__(func, types, args, kwargs)


class Duck:
    """No tensor, but takes calls over."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "duck", func, types, args, kwargs


class Shy:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class ShyTensor(Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Recorder(TorchFunctionMode):
    def __init__(self, name="mode", sink=None):
        self.name, self.calls = name, [] if sink is None else sink

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((self.name, resolve_name(func)))
        return func(*args, **(kwargs or {}))

    @property
    def names(self):
        return [name for _, name in self.calls]


def seen():
    return [entry[0] for entry in Logged.log]
