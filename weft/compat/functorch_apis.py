"""`functorch`: the transforms under the name of the package that had them before `torch.func`.

Takes a name, gives the function of `weft.func` behind one that warns, in PyTorch's words, that the package is
deprecated and where the function is now.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final

from weft import func

MOVED: Final = {
    "vmap": "torch.vmap",
    **{
        name: f"torch.func.{name}"
        for name in ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "functionalize")
        if hasattr(func, name)
    },
}
TEXT: Final = (
    "We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{}` is "
    "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{}` "
    "instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details "
    "https://pytorch.org/docs/main/func.migrating.html"
)


def _deprecated(name: str, instead: str) -> Callable[..., Any]:
    function = getattr(func, name)

    @functools.wraps(function)
    def moved(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(TEXT.format(name, instead), FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return moved


globals().update({name: _deprecated(name, instead) for name, instead in MOVED.items()})
__all__ = list(MOVED)
