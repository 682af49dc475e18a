"""What programs ask PyTorch about the world around it: exporters, tracers, Triton, caches.

There is none of it: gives the answer "no", or a context that changes nothing.
"""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import weft
from weft.tensor.base import Tensor
from weft.testing.cases import TestCase
from weft.utils import _pytree


def is_in_onnx_export() -> bool:
    """Whether the program is being written as ONNX."""
    return False


def is_fx_tracing() -> bool:
    """Whether a module is being traced symbolically, as PyTorch's compiler asks it."""
    return False


def has_triton() -> bool:
    """Whether kernels can be written in Triton."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of a tensor, as a tensor."""
    return weft.tensor(x.shape)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """The tensor with sizes that stand in another one."""
    return x.reshape(shape.tolist())


@contextlib.contextmanager
def _unchanged(*_args: Any, **_kwargs: Any) -> Iterator[None]:
    yield


preserve_node_meta = annotate = fresh_cache = fresh_inductor_cache = clear_inductor_caches = _unchanged


def get_decompositions(aten_ops: Any) -> dict[Any, Any]:
    """How ops are made of others: Weft's are whole."""
    return {}


core_aten_decompositions = get_decompositions
decomposition_table: dict[Any, Any] = {}
optim_db: list[Any] = []


class AnyName(str):
    """The name of any op."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, str)


class AnyOp:
    """The one entry of the table of ops: every name finds it, and no test is made from it.

    Files of tests look up entries while they load, to note in them which of the tests differ there.
    """

    name = variant_test_name = AnyName("")

    def __init__(self) -> None:
        self.decorators: tuple[Any, ...] = ()
        self.skips: tuple[Any, ...] = ()


class AnyKind:
    """Equal to any class."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type)


class AnyModule:
    """The one entry of the table of modules, likewise."""

    module_cls = AnyKind()

    def __init__(self) -> None:
        self.decorators: tuple[Any, ...] = ()
        self.skips: tuple[Any, ...] = ()


class Facts:
    """What an entry of a table is made with: kept by name."""

    def __init__(self, *args: Any, **facts: Any) -> None:
        self.args = args
        self.name = args[0] if args else facts.get("name", "")
        self.variant_test_name = ""
        self.decorators: tuple[Any, ...] = ()
        self.__dict__.update(facts)


OpInfo = DecorateInfo = SampleInput = SampleRule = XFailRule = SkipRule = ErrorInput = Facts


def sample_skips_and_xfails(rules: Any) -> Callable[[Any], Any]:
    """Decorator of tests that are made from PyTorch's table of ops."""
    return lambda test: test


module_db: list[Any] = [AnyModule()]
op_db: list[Any] = [AnyOp()]
"""PyTorch's tables of samples: none are here, and the tests that they make are none."""
more_ops: list[Any] = []
ops_and_refs = unary_ufuncs = binary_ufuncs = reduction_ops = shape_funcs = more_ops
L, M, S, XS = 20, 10, 5, 3
"""Sizes of samples."""


def mask_not_all_zeros(shape: Any) -> Tensor:
    """A random mask with something in it."""
    while True:
        mask = weft.randn(shape).gt(0)
        if mask.any():
            return mask


def optims(*_args: Any, **_kwargs: Any) -> Callable[[Any], Any]:
    """Decorator of tests that are made from PyTorch's table of optimizers."""
    return unittest.skip("needs PyTorch's table of optimizers")


class PytreeRegisteringTestCase(TestCase):
    """A test case whose containers are registered until the test ends."""

    def setUp(self) -> None:
        super().setUp()
        self._registered_pytree_nodes: list[type] = []

    def tearDown(self) -> None:
        for kind in self._registered_pytree_nodes:
            _pytree.SUPPORTED_NODES.pop(kind, None)
        super().tearDown()

    def register_pytree_node(self, cls: type, *args: Any, **kwargs: Any) -> None:
        """Makes instances of a class containers."""
        _pytree.register_pytree_node(cls, *args, **kwargs)
        self._registered_pytree_nodes.append(cls)

    register_constant = register_pytree_node
