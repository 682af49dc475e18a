"""Libraries that work on tensors of many kinds: einops and opt_einsum learn of Weft's when they are loaded.

Takes nothing; gives them what they ask of a library of tensors. One idea: neither is imported here. Where one
is loaded already it is told at once, otherwise when its table of libraries has been loaded.

opt_einsum looks for `tensordot`, `transpose` and `einsum` in a module of a library's: this is it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any, Final

from weft.tensor.base import Tensor
from weft.tensor.faces import FUNCTIONS

einsum: Final[Callable[..., Tensor]] = FUNCTIONS["einsum"]
_tensordot: Final[Callable[..., Tensor]] = FUNCTIONS["tensordot"]


def tensordot(x: Tensor, y: Tensor, axes: Any = 2) -> Tensor:
    """The sum of products over these axes, as NumPy spells it."""
    return _tensordot(x, y, axes if isinstance(axes, int) else tuple(list(each) for each in axes))


def transpose(x: Tensor, axes: Any) -> Tensor:
    """The tensor with its dimensions in this order, as NumPy spells it."""
    return x.permute(tuple(axes))


def register_einsum(module: Any) -> None:
    """Tells opt_einsum (its module `backends.dispatch`) where Weft's functions are."""
    module._aliases["weft"] = __name__


def register_einops(module: Any) -> None:
    """Tells einops (its module `_backends`) what to do with tensors."""

    class WeftBackend(module.AbstractBackend):  # type: ignore[misc]
        framework_name = "weft"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            made: Tensor = sys.modules["weft"].from_numpy(x)
            return made.requires_grad_() if made.is_floating_point() else made

        def to_numpy(self, x: Tensor) -> Any:
            return x.detach().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            found: Tensor = FUNCTIONS["arange"](start, stop)
            return found

        def reduce(self, x: Tensor, operation: str, axes: Any) -> Any:
            if operation in ("min", "max"):
                return getattr(x, f"a{operation}")(tuple(axes))
            if operation in ("sum", "mean"):
                return getattr(x, operation)(tuple(axes))
            if operation not in ("any", "all", "prod"):
                raise NotImplementedError("Unknown reduction ", operation)
            for axis in sorted(axes, reverse=True):
                x = getattr(x, operation)(axis)
            return x

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Any:
            return FUNCTIONS["stack"](tensors)

        def add_axis(self, x: Tensor, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
            sizes = [-1] * n_axes
            for place, length in pos2len.items():
                x = self.add_axis(x, place)
                sizes[place] = length
            return x.expand(sizes)

        def tile(self, x: Tensor, repeats: Any) -> Any:
            return x.repeat(tuple(repeats))

        def concat(self, tensors: list[Tensor], axis: int) -> Any:
            return FUNCTIONS["cat"](tensors, axis)

        def is_float_type(self, x: Tensor) -> bool:
            return x.is_floating_point()

        def einsum(self, pattern: str, *x: Tensor) -> Any:
            return einsum(pattern, *x)

    # einops asks each kind of backend whose library is loaded; and it is found sooner where it is noted
    module._loaded_backends["weft"] = WeftBackend()


IN_GRAPH: Final = {
    "einops.einops": ("rearrange", "reduce", "repeat", "einsum"),
    "opt_einsum.contract": ("contract",),
}
"""Functions that are one node of a graph: they keep caches, which capture would not look into."""


def mark(_module: Any = None) -> None:
    """Tells the compiler of those that are loaded, if it is loaded itself."""
    compiler = sys.modules.get("weft.compiler")
    allow: Any = getattr(compiler, "allow_in_graph", None)
    for name, functions in IN_GRAPH.items() if allow is not None else ():
        for function in functions:
            found = getattr(sys.modules.get(name), function, None)
            if found is not None:
                allow(found)


PARTNERS: Final[dict[str, Callable[[Any], None]]] = {
    "einops._backends": register_einops,
    "opt_einsum.backends.dispatch": register_einsum,
    **dict.fromkeys(IN_GRAPH, mark),
}


class Watcher:
    """Among the finders of modules: sees a partner's module being looked for, and is told when it has run."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        register = PARTNERS.get(name)
        if register is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is Watcher else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module

                def exec_module(module: Any, run: Any = run, register: Any = register) -> None:
                    run(module)
                    register(module)

                spec.loader.exec_module = exec_module  # type: ignore[method-assign]
                return spec
        return None


def install() -> None:
    """Tells partners that are loaded, and watches for the others."""
    for name, register in PARTNERS.items():
        if name in sys.modules:
            register(sys.modules[name])
    if Watcher not in sys.meta_path:
        sys.meta_path.insert(0, Watcher)
