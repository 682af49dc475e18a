"""Hooks: the handle that removes one, and marks for hooks that are not saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from weft.autograd.hooks import RemovableHandle as RemovableHandle


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a hook that is not saved with its tensor; saving warns."""
    marked: Any = f
    marked.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns of hooks that are not saved with their tensor."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can "
                "decorate the function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
