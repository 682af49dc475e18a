"""Finding: what `import torch` and `torch.name` give.

Takes dotted paths under `torch` (and `functorch`), gives module objects by the table; a name that Weft lacks
is an ImportError or AttributeError that tells the nearest. One idea: the import system is asked before any
path on disk, so no file of Weft's is ever loaded twice under two names.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import opcode
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any, Final

from weft.compat.absences import ABSENT
from weft.compat.absent import absent, helper
from weft.compat.renaming import rename_classes
from weft.compat.table import EXTRA, INTERNAL, MODULES, Place, moved

ROOTS: Final = ("torch", "functorch")
HELPERS: Final = "torch.testing._internal"
"""Where PyTorch keeps what its own tests share: files of tests import much of it and use little."""
_IMPORT_FROM: Final = opcode.opmap["IMPORT_FROM"]
_MOVED: Final = moved()


def place_of(path: str) -> Place | None:
    """What stands at a path of PyTorch's; None where nothing does."""
    known = MODULES.get(path)
    if known is not None:
        return known
    parts = path.split(".")
    if parts[0] == "torch" and parts[1] not in INTERNAL:
        ours = ".".join(["weft", *parts[1:]])
        if _exists(ours):
            return Place(same=ours)
    return Place() if path in ABSENT or path.rpartition(".")[0] == HELPERS else None


def _exists(path: str) -> bool:
    if path in sys.modules:
        return isinstance(sys.modules[path], ModuleType)
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError:
        return False


def fetch(where: str) -> Any:
    """The object that `module:name`, or `module`, says."""
    module, _, name = where.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if not name.startswith("__") and not isinstance(value, ModuleType):
            yield name, value


class Gathering(ModuleType):
    """A module that holds names of others."""


def gathered(path: str, place: Place) -> ModuleType:
    """The module of names that a place says."""
    made = Gathering(path, f"{path}, as Weft has it.")
    for where in reversed(place.search):
        made.__dict__.update(_public(importlib.import_module(where)))
    for name, where in {**place.names, **_MOVED.get(path, {})}.items():
        made.__dict__[name] = fetch(where)
    for name in ABSENT.get(path, "").split():
        if name not in vars(made):
            made.__dict__[name] = absent(f"{path}.{name}")
    return made


def module_at(path: str) -> ModuleType:
    """The module object for a path; ModuleNotFoundError tells the nearest."""
    place = place_of(path)
    if place is None:
        raise ModuleNotFoundError(f"No module named {path!r}{_hint(path, _known_paths(path))}", name=path)
    made: ModuleType = fetch(place.same) if place.same else gathered(path, place)
    for name, where in EXTRA.get(path, {}).items():
        if name not in vars(made) and (":" not in where or _exists(where.partition(":")[0])):
            made.__dict__[name] = fetch(where)
    made.__dict__.setdefault("__path__", [])  # any may have parts under PyTorch's name
    rename_classes(made)
    made.__dict__["__getattr__"] = _asker(path, made, vars(made).get("__getattr__"))
    return made


def _known_paths(path: str) -> list[str]:
    parent = path.rpartition(".")[0]
    loaded = [name for name in sys.modules if name.startswith(f"{parent}.")]
    return [name for name in {*MODULES, *loaded} if name.rpartition(".")[0] == parent]


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return ": Weft has no such name" + (f"; the nearest is {near[0]!r}" if near else "")


# Note [Names that are not there]
# `from torch.nn import X` asks the module for X; where that raises AttributeError, Python itself makes the
# ImportError, with a text of its own. So `__getattr__` looks at the instruction that asks: where that is an
# import, it raises the ImportError, else an AttributeError, which `hasattr` and `getattr` with a default
# expect.
def _asker(path: str, module: ModuleType, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    if own is not None and getattr(own, "asks_for", None):
        return own

    def __getattr__(name: str) -> Any:
        if not name.startswith("__") and place_of(f"{path}.{name}") is not None:
            return importlib.import_module(f"{path}.{name}")
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        known = [word for word in dir(module) if not word.startswith("__")]
        if _is_import(sys._getframe(1)):
            if path.startswith(f"{HELPERS}."):
                return vars(module).setdefault(name, helper(f"{path}.{name}"))
            if name in ABSENT.get(path, "").split():
                return absent(f"{path}.{name}")
            text = f"cannot import name {name!r} from {path!r}{_hint(name, known)}"
            raise ImportError(text, name=name, path=path)
        raise AttributeError(
            f"module {path!r} has no attribute {name!r}{_hint(name, known)}", name=name, obj=module
        )

    __getattr__.asks_for = path  # type: ignore[attr-defined]
    return __getattr__


def _is_import(frame: FrameType) -> bool:
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


class Loader(importlib.abc.Loader):
    """Gives the import system a module that exists already, and leaves that one's own facts alone."""

    def __init__(self) -> None:
        self.specs: dict[str, Any] = {}

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = module_at(spec.name)
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        name = module.__spec__.name if module.__spec__ is not None else ""
        before = self.specs.pop(name, None)
        if before is not None:
            module.__spec__ = before


class Finder(importlib.abc.MetaPathFinder):
    """Answers for every path under `torch`."""

    def __init__(self) -> None:
        self.loader = Loader()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in ROOTS:
            return None
        if place_of(fullname) is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}{_hint(fullname, _known_paths(fullname))}", name=fullname
            )
        return importlib.machinery.ModuleSpec(fullname, self.loader, is_package=True)
