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
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from weft.compat.renaming import rename_class, rename_classes
from weft.compat.table import EXTRA, INTERNAL, MODULES, OF_TESTS, TORCH_INTERNALS, Place, moved
from weft.torch_version import __version__ as torch_version

ROOTS: Final = ("torch", "functorch")
_IMPORT_FROM: Final = opcode.opmap["IMPORT_FROM"]
_READS: Final = frozenset(opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap)
_FINDING: Final = importlib.util.find_spec.__code__
_MOVED: Final = moved()


def place_of(path: str) -> Place | None:
    """The modules and names behind a path of PyTorch's; None where Weft has none."""
    known = MODULES.get(path)
    if known is None and _is_of_tests(path):
        known = fetch(f"{TORCH_INTERNALS}.table:MODULES").get(path)
    if known is not None:
        return known
    parts = path.split(".")
    if parts[0] == "torch" and parts[1] not in INTERNAL:
        ours = ".".join(["weft", *parts[1:]])
        if _exists(ours):
            return Place(same=ours)
    return None


# Note [Placeholders are for PyTorch's own tests]
# A program that asks for a name that Weft lacks gets an ImportError or AttributeError at once: a placeholder
# that takes calls would let it go on without what it asked for. A file of PyTorch's own tests gets
# placeholders, so that it loads though some of its tests look into PyTorch's inner parts. Such a file is told
# by what the code that asks, or the module that runs it, imports (`OF_TESTS`); packages that probe with
# `hasattr`, `getattr`, `find_spec` or `try: import` see what is really there.
def _is_placeholder(path: str, asking: FrameType | None) -> bool:
    """Whether a placeholder module stands at a path, for the code that asks."""
    return _loads_tests(asking) and bool(fetch(f"{TORCH_INTERNALS}.absent:is_module")(path))


def _loads_tests(frame: FrameType | None) -> bool:
    """Whether the code of a frame, or the module whose loading runs it, belongs to PyTorch's own tests."""
    while frame is not None:
        if _imports_helpers(frame.f_code):
            return True
        below = frame.f_back
        if below is None or below.f_globals is not frame.f_globals:
            return False
        frame = below
    return False


def _imports_helpers(code: CodeType) -> bool:
    return any(map(_is_of_tests, code.co_names))


def _is_of_tests(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}.") for root in OF_TESTS)


def _asking_frame() -> FrameType | None:
    """The frame of the code that imports: the first outside of the import system and of what answers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib._bootstrap")
        or frame.f_globals.get("__name__") in (__name__, f"{TORCH_INTERNALS}.absent", "importlib")
    ):
        frame = frame.f_back
    return frame


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
        if _waits(where):
            made.__dict__.pop(name, None)
        else:
            made.__dict__[name] = fetch(where)
    return made


# Note [What waits]
# Names that PyTorch keeps in a module that programs use, and that lie in the room of what its tests need
# (`TORCH_INTERNALS`), are fetched when they are asked for: `torch._dynamo.reset()` loads nothing of the room.
def _waits(where: str) -> bool:
    return where.startswith(f"{TORCH_INTERNALS}.")


def _is_late(where: str) -> bool:
    """Whether a name beside a module's own waits until it is asked for: one of a module not yet loaded."""
    return _waits(where) or where.partition(":")[0] not in sys.modules


def _waiting(path: str, place: Place) -> dict[str, str]:
    """The names at a path that wait, and where they lie."""
    gathered = {name: where for name, where in place.names.items() if _waits(where)}
    return gathered | {name: where for name, where in EXTRA.get(path, {}).items() if _is_late(where)}


def module_at(path: str) -> ModuleType:
    """The module object for a path; ModuleNotFoundError tells the nearest."""
    place = place_of(path)
    if place is None and _is_placeholder(path, _asking_frame()):
        place = Place()
    if place is None:
        raise ModuleNotFoundError(f"No module named {path!r}{_hint(path, _known_paths(path))}", name=path)
    made: ModuleType = fetch(place.same) if place.same else gathered(path, place)
    for name, where in EXTRA.get(path, {}).items():
        if name not in vars(made) and not _is_late(where):
            made.__dict__[name] = fetch(where)
    made.__dict__.setdefault("__path__", [])  # any may have parts under PyTorch's name
    rename_classes(made)
    made.__dict__["__getattr__"] = _asker(path, made, _waiting(path, place), vars(made).get("__getattr__"))
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
def _asker(
    path: str, module: ModuleType, waiting: Mapping[str, str], own: Callable[[str], Any] | None
) -> Callable[[str], Any]:
    if own is not None and getattr(own, "asks_for", None):
        return own

    def __getattr__(name: str) -> Any:
        if name in waiting:
            value = fetch(waiting[name])
            rename_class(value)
            vars(module)[name] = value
            return value
        below = f"{path}.{name}"
        if (below in MODULES or not name.startswith("__")) and place_of(below) is not None:
            return importlib.import_module(f"{path}.{name}")
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        frame = sys._getframe(1)
        instruction = _instruction(frame)
        if (instruction == _IMPORT_FROM or instruction in _READS) and _loads_tests(frame):
            found = fetch(f"{TORCH_INTERNALS}.absent:stand_in")(path, name, instruction == _IMPORT_FROM)
            if found is not NotImplemented:
                return found
        known = [word for word in (*dir(module), *waiting) if not word.startswith("__")]
        if instruction == _IMPORT_FROM:
            text = f"cannot import name {name!r} from {path!r}{_hint(name, known)}"
            raise ImportError(text, name=name, path=path)
        raise AttributeError(
            f"module {path!r} has no attribute {name!r}{_hint(name, known)}", name=name, obj=module
        )

    asked: Any = __getattr__
    asked.asks_for = path
    return __getattr__


def _instruction(frame: FrameType) -> int | None:
    """The opcode that a frame is at."""
    return frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else None


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


class Installed(metadata.Distribution):
    """What is told of an installed `torch`."""

    def read_text(self, filename: str) -> str | None:
        facts = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch_version}\n"
        return facts if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class Finder(importlib.abc.MetaPathFinder):
    """Answers for every path under `torch`."""

    def __init__(self) -> None:
        self.loader = Loader()

    def find_distributions(self, context: Any = None) -> Iterator[metadata.Distribution]:
        """What `importlib.metadata` finds of `torch`: the version that the alias stands for."""
        if context is None or context.name is None or context.name.replace("_", "-").lower() == "torch":
            yield Installed()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in ROOTS:
            return None
        frame = _asking_frame()
        if place_of(fullname) is None and not _is_placeholder(fullname, frame):
            if (
                frame is not None
                and frame.f_code is _FINDING
                and not _exists(f"weft.{fullname.partition('.')[2]}")
            ):
                return None  # `importlib.util.find_spec` gives None for what is not there
            raise ModuleNotFoundError(
                f"No module named {fullname!r}{_hint(fullname, _known_paths(fullname))}", name=fullname
            )
        return importlib.machinery.ModuleSpec(fullname, self.loader, is_package=True)
