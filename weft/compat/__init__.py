"""PyTorch programs unmodified: after `install()`, `import torch` means Weft.

Takes nothing; gives `install`, and `python -m weft.compat script.py`, `-m module` and `-c command`, which
install first. One idea: there is one table of paths (`weft.compat.table`), and what stands behind a path is
the very module that Weft's users import; what only PyTorch's own test files need is the room
`torch_internals`, loaded when they ask.
"""

from __future__ import annotations

import sys
from types import ModuleType

import weft
from weft import compiler
from weft.compat.finder import Finder, module_at, place_of
from weft.compat.renaming import rename_classes
from weft.compat.table import MODULES
from weft.core.naming import naming
from weft.torch_version import __version__ as torch_version

__all__ = ["install", "is_installed"]


def is_installed() -> bool:
    """Whether `import torch` means Weft in this process."""
    return sys.modules.get("torch") is weft


def install() -> None:
    """Makes `import torch`, and all that PyTorch's programs import under it, mean Weft from here on.

    Texts and classes speak of `torch`; the backend `inductor` is `native`. Raises ImportError where the real
    torch is imported already: one process cannot have both under one name.

    >>> import weft.compat
    >>> weft.compat.install()  # doctest: +SKIP
    >>> import torch  # doctest: +SKIP
    """
    if is_installed():
        return
    found = sys.modules.get("torch")
    if found is not None:
        place = getattr(found, "__file__", None) or "an unknown place"
        raise ImportError(
            f"weft.compat.install(): torch {getattr(found, '__version__', '')} is already imported, from "
            f"{place}. Call install() before anything imports torch, or run the program with "
            "`python -m weft.compat`."
        )
    sys.meta_path.insert(0, Finder())
    naming.namespace = "torch"
    vars(weft).update(__version__=torch_version, __name__="torch")
    sys.modules["torch"] = module_at("torch")
    loaded = [f"torch{name[4:]}" for name in sys.modules if name.startswith("weft.") and ".ops." not in name]
    modules = {f"torch.{name}" for name, value in vars(weft).items() if isinstance(value, ModuleType)}
    shadowed = modules & set(MODULES)
    for path in sorted({*loaded, *shadowed}):
        if place_of(path) is None or path in sys.modules:
            continue
        # What is reached by attributes is asked as what is imported; an import would put the module over a
        # function of its name, such as `torch.autograd.gradcheck`.
        sys.modules[path] = module_at(path)
        if path in shadowed:
            setattr(weft, path.partition(".")[2], sys.modules[path])
    if "inductor" not in compiler.list_backends(None):
        compiler.register_backend(compiler.native, name="inductor")
    for name, module in list(sys.modules.items()):
        if name == "weft" or name.startswith("weft."):
            rename_classes(module)
