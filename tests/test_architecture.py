"""The house rules that no linter knows: layers, cycles, sizes, dependencies, the shape of the test tree.

Takes the source tree, parsed but hardly imported. One idea: every rule is a function from modules to a
list of complaints, so each rule is tried on trees that break it as well as on ours.
"""

from __future__ import annotations

import ast
import dataclasses
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from weft.ops.record import REGISTRY

REPOSITORY = Path(__file__).resolve().parent.parent

FILE_LIMIT = 800
FUNCTION_LIMIT = 80
SETTINGS_LIMIT = 15

# Layer: what it may import besides itself. `namespaces` are single files beside the packages
# (weft/linalg.py); `weft` is the root module, which users import: it joins what is loaded at once, and may
# load the rest lazily.
TENSORS = {"core", "ops", "tensor", "autograd"}
LIBRARY = TENSORS | {"namespaces", "func", "amp", "nn"}
BELOW_COMPILER = LIBRARY | {"optim", "data", "utils", "graph", "trace", "fx", "capture", "native", "jit"}
BELOW_COMPILER |= {"array_api", "files", "report"}
BELOW_COMPILER |= {"aot", "aot.runtime", "aot.backends", "aot.compiled_autograd"}
TOP = BELOW_COMPILER | {"compiler", "weft"}
LAYERS: dict[str, set[str]] = {
    "core": set(),
    "ops": {"core"},
    "tensor": {"core", "ops"},
    "autograd": {"core", "ops", "tensor"},
    "namespaces": TENSORS,
    "func": TENSORS | {"namespaces"},
    "amp": TENSORS | {"namespaces"},
    "nn": TENSORS | {"namespaces"},
    "distributions": TENSORS,
    "optim": LIBRARY,
    "data": LIBRARY,
    "utils": LIBRARY | {"optim", "data"},
    "files": LIBRARY | {"optim"},
    "array_api": LIBRARY,
    "quantization": TENSORS | {"namespaces", "nn"},
    "graph": {"core", "ops"},
    "trace": TENSORS | {"namespaces", "nn", "graph"},
    "fx": {"graph", "trace"},
    "capture": LIBRARY | {"graph", "trace"},
    "aot": {"core", "ops", "graph", "trace"},
    "aot.runtime": {"core", "ops", "graph", "trace", "aot", "tensor", "autograd"},
    "aot.backends": {"core", "ops", "graph", "trace", "aot", "aot.runtime"},
    "aot.compiled_autograd": {"core", "ops", "graph", "trace", "aot", "aot.runtime", "tensor", "autograd"},
    "native": {"core", "ops", "graph"},
    "jit": TENSORS | {"namespaces", "nn", "graph", "trace", "aot.runtime", "files"},
    "report": {"core", "graph", "namespaces", "native"},
    "compiler": BELOW_COMPILER,
    "weft": BELOW_COMPILER | {"compiler"},
    "testing": TOP,
    "compat": TOP,
    "compat.torch_internals": TOP | {"compat", "testing"},  # in no other's list: see `room_complaints`
    "profiler": TOP,
    "cli": TOP | {"testing", "compat", "profiler"},
    "__main__": {"cli"},
}

# Packages and modules of `weft.native`, and which others of it they may import: what a target is asked for
# knows no target, and none knows another; the reference has rules and records of `cpu`, which are data.
NATIVE: dict[str, set[str]] = {
    "ir": set(),
    "maths": {"ir"},
    "plan": {"ir", "maths"},
    "target": set(),
    "lower": {"ir", "maths", "plan", "target"},
    "cpu": {"ir", "plan", "program", "target"},
    "reference": {"ir", "plan", "cpu", "program", "target"},
    "program": {"ir", "plan", "lower", "cpu", "target", "backend"},
    "backend": {"lower", "program", "target"},
    "eager": {"cpu", "program", "target"},
    "entry": {"ir", "plan", "lower", "cpu", "program", "target", "backend"},
}

# Who may import what is not ours, and whether it must wait until it is used. Everything else is refused.
OUTSIDE: dict[str, tuple[set[str] | None, bool]] = {
    "numpy": (None, False),
    "ml_dtypes": (None, False),
    "scipy": (None, True),
    "cupy": (None, True),
    "llvmlite": ({"native"}, False),
    "rich": ({"cli", "report", "profiler"}, True),
    "matplotlib": ({"cli"}, True),
}

VERSION_READERS = ("weft.capture.bytecode", "weft.capture.resume")
LOADED_LATE = ("scipy", "llvmlite", "rich", "weft.native", "weft.jit", "weft.cli", "weft.report")


TORCH_INTERNALS = "weft.compat.torch_internals"
NAME_TORCH_INTERNALS = {
    "weft.compat.table": "says which names of the alias lie there, and the finder loads them",
    "weft.capture.wrapping": "its functions are inlined, as those of weft.testing are",
}
"""Who may speak of the room in which stands what only PyTorch's own test files need, and why."""


@dataclass(frozen=True)
class Import:
    """One imported module: `late` when it is loaded on use, `typing` when only a type checker sees it."""

    target: str
    line: int
    late: bool = False
    typing: bool = False


@dataclass
class Module:
    """One source file of the package."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def layer(self) -> str:
        parts = self.name.split(".")[1:]
        if not parts:
            return "weft"
        if ".".join(parts[:2]) in LAYERS:
            return ".".join(parts[:2])
        single_file = len(parts) == 1 and self.path.name != "__init__.py"
        return "namespaces" if single_file and parts[0] not in LAYERS else parts[0]

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"


def load(root: Path) -> dict[str, Module]:
    """Every module under the package folder `root`, by dotted name."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = list(path.relative_to(root.parent).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        name = ".".join(parts)
        modules[name] = Module(name, path, path.read_text(encoding="utf-8"))
    return modules


def imports(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """What a module imports, wherever the statement stands, and what it hands by name to a lazy loader."""

    def visit(node: ast.AST, late: bool, typing: bool) -> Iterator[Import]:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno, late, typing)
            case ast.ImportFrom(module=str(base), level=0):
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(inner if inner in modules else base, node.lineno, late, typing)
                    if inner in modules and base in modules:  # the package runs first, with all it imports
                        yield Import(base, node.lineno, late, typing)
            case ast.ImportFrom():
                raise AssertionError(f"{module.at(node.lineno)}: relative import; write the whole name")
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(str(name)), *_]
            ):
                if called in ("lazy", "import_module", "__import__"):
                    yield Import(name, node.lineno, late=True, typing=typing)
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for field, value in ast.iter_fields(node):
            checked = typing or (
                field == "body" and isinstance(node, ast.If) and _is_type_checking(node.test)
            )
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child, inside, checked)

    yield from visit(module.tree, False, False)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _is_ours(target: str) -> bool:
    return target == "weft" or target.startswith("weft.")


def _is_purpose_of_root(module: Module, found: Import) -> bool:
    """The root makes upper layers appear (`weft.testing`) by loading them on first use."""
    return module.layer == "weft" and found.late


def layer_complaints(modules: dict[str, Module]) -> list[str]:
    """Imports against the table. Those for types count: what a lower layer names is a Protocol in core."""
    complaints = [
        f"{module.name}: {module.layer!r} is in no layer"
        for module in modules.values()
        if module.layer not in LAYERS
    ]
    for module in modules.values():
        allowed = LAYERS.get(module.layer, set()) | {module.layer}
        for found in imports(module, modules):
            if not _is_ours(found.target) or _is_purpose_of_root(module, found):
                continue
            if found.target not in modules:
                complaints.append(f"{module.at(found.line)}: there is no module {found.target}")
            elif modules[found.target].layer not in allowed:
                complaints.append(f"{module.at(found.line)}: {module.layer} may not import {found.target}")
    return complaints


def native_complaints(modules: dict[str, Module]) -> list[str]:
    """Imports within `weft.native` against its table; those for types alone do not count."""
    complaints = []
    for module in modules.values():
        if module.layer != "native" or module.name == "weft.native":
            continue
        own = module.name.split(".")[2]
        if own not in NATIVE:
            complaints.append(f"{module.name}: {own!r} has no place in the table")
            continue
        for found in imports(module, modules):
            target = found.target.split(".")
            if target[:2] != ["weft", "native"] or len(target) < 3 or found.typing:
                continue
            if target[2] not in NATIVE[own] | {own}:
                complaints.append(f"{module.at(found.line)}: {own} may not import {found.target}")
    return complaints


def room_complaints(modules: dict[str, Module]) -> list[str]:
    """Modules outside that name the room of PyTorch's internals: an import by a name in a string counts."""
    complaints = []
    for module in modules.values():
        if module.layer == TORCH_INTERNALS.partition(".")[2] or module.name in NAME_TORCH_INTERNALS:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and str(node.value).startswith(TORCH_INTERNALS):
                complaints.append(f"{module.at(node.lineno)}: names {TORCH_INTERNALS}")
    return complaints


def cycle_complaints(modules: dict[str, Module]) -> list[str]:
    """A cycle of imports. An import inside a function counts, one for types does not."""
    graph: dict[str, set[str]] = {}
    for module in modules.values():
        graph[module.name] = {
            found.target
            for found in imports(module, modules)
            if found.target in modules and found.target != module.name and not found.typing
            if not _is_purpose_of_root(module, found)
        }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["import cycle: " + " <- ".join(error.args[1])]
    return []


def outside_complaints(modules: dict[str, Module]) -> list[str]:
    """Imports of other people's modules where they do not belong, or at once where they must wait."""
    complaints = []
    for module in modules.values():
        for found in imports(module, modules):
            top = found.target.partition(".")[0]
            if _is_ours(found.target) or top in sys.stdlib_module_names:
                continue
            layers, must_wait = OUTSIDE.get(top, (set(), False))
            if layers is not None and module.layer not in layers:
                complaints.append(f"{module.at(found.line)}: {module.layer} may not import {top}")
            elif must_wait and not found.late and not found.typing:
                complaints.append(
                    f"{module.at(found.line)}: {top} must be imported when used (weft.core.lazy)"
                )
    return complaints


ONE_MEANING = ("core", "ops", "tensor", "autograd", "graph", "aot", "trace", "capture")
"""Packages in which a class name says what it is, wherever it is read."""
SAME_NAME = {
    "Generator": "one meaning: the class of core, with the methods that take and give tensors",
    "Node": "both are PyTorch's names and public: torch.autograd.graph.Node and torch.fx.Node",
}


def class_name_complaints(modules: dict[str, Module]) -> list[str]:
    """Class names that two modules of the core packages define: one name, one meaning."""
    places: dict[str, list[str]] = {}
    for module in modules.values():
        if module.layer.partition(".")[0] in ONE_MEANING:
            for name in {node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}:
                places.setdefault(name, []).append(module.name)
    return [
        f"class {name} is defined in {' and in '.join(found)}"
        for name, found in places.items()
        if len(found) > 1 and name not in SAME_NAME
    ]


NAMES_OPS = ("weft.ops", "weft.compat", "weft.jit", "weft.trace.recorder")
"""Where ops may be listed by name: the records themselves, the alias, and what is to be rebuilt."""
OTHER_WORDS = {
    "weft.trace.scalars": "Python's operators and functions of math, on symbolic numbers",
    "weft.core.expressions": "Python's operators",
    "weft.core.checks": "Python's operators",
    "weft.trace.proxy": "Python's operators",
    "weft.core.polynomials": "Python's operators",
    "weft.tensor.older": "older forms of public functions",
    "weft.partners": "words of einops",
    "weft.optim.cycles": "words of schedules",
    "weft.optim.lr_scheduler": "words of schedules",
    "weft.autograd.graph": "words of a hook's mode",
    "weft.capture.arrays": "functions of NumPy",
    "weft.capture.array_program": "Python's operators",
    "weft.capture.captured_arrays": "functions of NumPy",
    "weft.capture.attributes": "attributes of tensors",
    "weft.files.torch_globals": "keys of a file's format",
    "weft.array_api": "names of a standard",
    "weft.native.ir": "instructions of kernels, kinds of folds, and Python's operators",
    "weft.native.cpu": "instructions of kernels, and kinds of folds",
    "weft.native.maths": "functions of numbers, as instructions of kernels",
    "weft.native.entry.checks": "Python's operators",
    "weft.native.lower.bitwise": "instructions of kernels",
    "weft.native.lower.folds": "kinds of folds",
    "weft.native.lower.scatter": "kinds of folds",
    "weft.native.lower.numbers": "functions of Python's module math",
    "weft.native.reference": "kinds of folds",
    "weft.nn": "words of options",
    "weft.cli": "examples",
    "weft.testing": "examples",
}
"""Literals that are no ops, though these have such names, and what they are."""


def op_name_complaints(modules: dict[str, Module]) -> list[str]:
    """Facts about ops belong to their records: no list of names of ops, and no question for an op's name."""
    names = {op.name for op in REGISTRY.values()} | set(REGISTRY)
    complaints = []
    for module in modules.values():
        if module.name.startswith((*NAMES_OPS, *OTHER_WORDS)):
            continue
        for node in ast.walk(module.tree):
            found = [text for text in _texts(node) if text in names]
            if len(found) > 1 and len(found) > len(_texts(node)) / 2:
                complaints.append(f"{module.name}:{node.lineno}: a list of ops: {found[:4]}")
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
                asked = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value in names]
                if node.left.attr in ("name", "qualified_name") and asked:
                    complaints.append(f"{module.name}:{node.lineno}: asks for the name of an op: {asked}")
    return complaints


def _texts(node: ast.AST) -> list[str]:
    """The texts in a literal, or in a text that is split."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        whole = node.func.value
        return whole.value.split() if isinstance(whole, ast.Constant) and isinstance(whole.value, str) else []
    if isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
        items = node.keys if isinstance(node, ast.Dict) else node.elts
        return [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
    return []


def version_complaints(modules: dict[str, Module]) -> list[str]:
    """Tests of the Python version outside the decoder of bytecode and the builder of resume functions."""
    complaints = []
    for module in modules.values():
        if any(module.name == reader or module.name.startswith(reader + ".") for reader in VERSION_READERS):
            continue
        for node in ast.walk(module.tree):
            names = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom) and node.module == "sys":
                names = {alias.name for alias in node.names}
            if names & {"version_info", "hexversion"}:
                complaints.append(f"{module.at(node.lineno)}: asks for the Python version")
    return complaints


def size_complaints(modules: dict[str, Module]) -> list[str]:
    """Files and functions that have grown too long to read."""
    complaints = []
    for module in modules.values():
        lines = len(module.text.splitlines())
        if lines > FILE_LIMIT:
            complaints.append(f"{module.name}: {lines} lines, more than {FILE_LIMIT}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LIMIT:
                    complaints.append(f"{module.at(node.lineno)}: {node.name} has {length} lines")
    return complaints


def docstring_complaints(modules: dict[str, Module]) -> list[str]:
    """Modules that do not open with what they take and give."""
    return [
        f"{module.name}: no docstring"
        for module in modules.values()
        if ast.get_docstring(module.tree) is None
    ]


# What changes the process for all of its threads, and where that is meant: where programs begin or are
# tested, never while something is compiled, traced or run.
SWITCHES = frozenset(
    {
        "warnings.catch_warnings", "warnings.simplefilter", "warnings.filterwarnings", "np.seterr",
        "gc.disable", "gc.enable", "gc.freeze", "gc.unfreeze", "gc.set_threshold", "warnings.resetwarnings",
        "sys.setrecursionlimit", "sys.setswitchinterval", "sys.setprofile", "sys.settrace",
        "threading.setprofile", "threading.settrace", "signal.signal", "signal.setitimer", "os.putenv",
        "locale.setlocale", "random.seed",
        # what a fork leaves locked, where `weft.core.once.lock` is free
        "threading.Lock", "threading.RLock", "threading.Condition", "threading.Semaphore",
    }
)  # fmt: skip
SWITCHED_BY: dict[str, set[str]] = {
    "weft.core.collection": {  # counts who wants it, under a lock that is new in a child
        "gc.set_threshold",
        "gc.freeze",
        "gc.unfreeze",
        "threading.RLock",
    },
    "weft.core.once": {"threading.RLock"},
    "weft.native.cpu.tiers": {"threading.Condition"},  # a new one in a child
    "weft.core.warn": {"warnings._showwarnmsg", "sys.setprofile"},  # a hook put in once; of one thread
    "weft.core.starting": {"signal.signal"},
    "weft.capture.deoptimise": {"sys.settrace"},  # of one thread
    "weft.capture.session": {"np.seterr"},  # of a context
    "weft.ops.record": {"np.seterr"},  # of a context
    "weft.data.worker": {"signal.signal", "random.seed"},  # in a process of its own
    "weft.data.workers": {"warnings.catch_warnings", "warnings.filterwarnings"},  # around a fork
    "weft.core.handlers": {"signal.signal"},  # the main thread's alone: nobody else may set or run handlers
    "weft.tensor.stubs": {"warnings.catch_warnings", "warnings.simplefilter"},  # a program
}
SWITCHED_IN = ("weft.cli", "weft.testing", "weft.compat", "weft.profiler")


def switch_complaints(modules: dict[str, Module]) -> list[str]:
    """What one thread would change under all others: attributes of modules of Python's own, and switches."""
    complaints = []
    for module in modules.values():
        if module.name.startswith(SWITCHED_IN):
            continue
        names = _modules_of_python(module)
        for node in ast.walk(module.tree):
            found = _switch(node, names)
            if found is not None and found not in SWITCHED_BY.get(module.name, ()):
                complaints.append(f"{module.at(node.lineno)}: {found} is everybody's")  # type: ignore[attr-defined]
    return complaints


def _modules_of_python(module: Module) -> dict[str, str]:
    """The names under which modules of Python's own, and what is theirs, are known in a module."""
    names = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    known = (*sys.stdlib_module_names, "numpy")
    return {name: whole for name, whole in names.items() if whole.partition(".")[0] in known}


def _switch(node: ast.AST, names: dict[str, str]) -> str | None:
    """What a node changes, as `module.attribute`."""
    match node:
        case ast.Attribute(value=ast.Name(id=first), attr=name, ctx=use) if first in names:
            written = not isinstance(use, ast.Load)
            return (
                f"{first}.{name}"
                if written or {f"{names[first]}.{name}", f"{first}.{name}"} & SWITCHES
                else None
            )
        case ast.Name(id=first) if names.get(first) in SWITCHES:
            return names[first]
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="os"), attr="environ"), ctx=use):
            return None if isinstance(use, ast.Load) else "os.environ"
    return None


BY_SUBJECT = frozenset({"custom_functions", "features", "attacks", "parity"})


def mirror_complaints(tests: Path, package: Path) -> list[str]:
    """Tests that stand where nobody would look for them.

    tests/ops/test_reduce.py needs weft/ops/reduce.py. A file of tests that grew too long becomes a folder of
    any number of files: tests/ops/reduce/test_*.py. What concerns the whole stands in tests/whole or tests/,
    what concerns all of a package in a folder named for its subject (`BY_SUBJECT`).
    """
    complaints = []
    for path in sorted(tests.rglob("test_*.py")):
        place = path.relative_to(tests)
        if len(place.parts) == 1 or place.parts[0] == "whole" or place.parent.name in BY_SUBJECT:
            continue
        tested = package / place.parent / path.stem.removeprefix("test_")
        candidates = (tested.with_suffix(".py"), tested / "__init__.py")
        split = (package / place.parent).with_suffix(".py")
        if not any(candidate.is_file() for candidate in (*candidates, split)):
            complaints.append(f"tests/{place}: there is no {package.name}/{tested.relative_to(package)}.py")
    return complaints


OURS = load(REPOSITORY / "weft")
TESTS = load(REPOSITORY / "tests")
BENCHMARKS = load(REPOSITORY / "benchmarks")


@pytest.mark.parametrize(
    "rule",
    [
        layer_complaints,
        native_complaints,
        room_complaints,
        cycle_complaints,
        class_name_complaints,
        op_name_complaints,
        outside_complaints,
        version_complaints,
        size_complaints,
        docstring_complaints,
        switch_complaints,
    ],
)
def test_package_keeps(rule):
    assert len(OURS) > 10
    assert rule(OURS) == []


def test_tests_and_benchmarks_keep_their_size():
    assert size_complaints(TESTS | BENCHMARKS) == []


def test_tests_mirror_the_package():
    assert mirror_complaints(REPOSITORY / "tests", REPOSITORY / "weft") == []


def test_every_layer_is_ordered():
    """The table itself has no cycle, so a layer that may import another can never be imported by it."""
    graphlib.TopologicalSorter(LAYERS).prepare()
    assert {layer for allowed in LAYERS.values() for layer in allowed} <= LAYERS.keys()


def test_settings_stay_few():
    from weft.core.settings import Settings

    assert 0 < len(dataclasses.fields(Settings)) <= SETTINGS_LIMIT


def test_import_loads_nothing_heavy():
    source = f"import sys, weft\nweft.Tensor\nprint(*(name for name in {LOADED_LATE} if name in sys.modules))"
    command = [sys.executable, "-W", "error", "-c", source]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


@pytest.mark.parametrize(
    "source",
    [
        "import weft",
        "import weft.testing; weft.testing.assert_close(1.0, 1.0); weft.testing.make_tensor",
        "import weft.compat; weft.compat.install(); import torch, torch.nn, torch._dynamo\n"
        "torch.compile(lambda x: x + 1)(torch.ones(2)); torch._dynamo.reset()\n"
        "torch.testing.assert_close(1.0, 1.0); torch.overrides.has_torch_function, torch.compiler.disable\n"
        "assert not hasattr(torch, 'export') and not hasattr(torch._dynamo, 'export')",
    ],
    ids=["weft", "testing", "alias"],
)
def test_what_pytorch_tests_need_is_loaded_by_nobody_else(source):
    source += f"\nimport sys\nprint(*(name for name in sys.modules if name.startswith({TORCH_INTERNALS!r})))"
    command = [sys.executable, "-W", "error", "-c", source]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


def tree(**sources: str) -> dict[str, Module]:
    """A small package from sources by name, `ops__reduce` for weft.ops.reduce."""
    modules = {}
    for key, text in {"": "", **sources}.items():
        name = ".".join(["weft", *key.split("__")]).rstrip(".")
        modules[name] = Module(name, Path(f"{name.rpartition('.')[2]}.py"), text)
    return modules


@pytest.mark.parametrize(
    ("rule", "package"),
    [
        (layer_complaints, tree(core__a="import weft.ops.b", ops__b="")),
        (layer_complaints, tree(core__a="def f():\n    from weft.ops.b import c", ops__b="")),
        (layer_complaints, tree(core__a="from weft.ops import b", ops__b="")),
        (layer_complaints, tree(core__a="if TYPE_CHECKING:\n    import weft.ops.b", ops__b="")),
        (layer_complaints, tree(core__a="b = lazy('weft.ops.b')", ops__b="")),
        (layer_complaints, tree(ops__a="import weft")),
        (layer_complaints, tree(ops__a="import weft.core.missing")),
        (layer_complaints, tree(aot__partition="import weft.tensor.a", tensor__a="")),
        (layer_complaints, tree(native__a="import weft.tensor.a", tensor__a="")),
        (native_complaints, tree(native__lower__a="from weft.native.cpu import b", native__cpu__b="")),
        (native_complaints, tree(native__plan__a="b = lazy('weft.native.cpu.b')", native__cpu__b="")),
        (native_complaints, tree(native__cpu__a="import weft.native.reference.b", native__reference__b="")),
        (native_complaints, tree(native__cuda__a="")),
        (layer_complaints, tree(capture__a="import weft.aot.b", aot__b="")),
        (layer_complaints, tree(jit__a="import weft.aot.b", aot__b="")),
        (layer_complaints, tree(nn__a="import weft.func.b", func__b="")),
        (layer_complaints, tree(tensor__a="import weft.linalg", linalg="")),
        (layer_complaints, tree(surprise__a="")),
        (
            layer_complaints,
            tree(testing__a="import weft.compat.torch_internals.b", compat__torch_internals__b=""),
        ),
        (
            layer_complaints,
            tree(compat__a="import weft.compat.torch_internals.b", compat__torch_internals__b=""),
        ),
        (room_complaints, tree(compat__a="fetch('weft.compat.torch_internals.b:c')")),
        (cycle_complaints, tree(ops__a="import weft.ops.b", ops__b="import weft.ops.a")),
        (class_name_complaints, tree(ops__a="class Plan: pass", aot__runtime__b="class Plan: pass")),
        (class_name_complaints, tree(ops__a="class A: pass", ops__b="def f():\n    class A: pass")),
        (class_name_complaints, tree(tensor__a="class A: pass", capture__guards__b="class A: pass")),
        (cycle_complaints, tree(ops__a="import weft.ops.b", ops__b="def f():\n    import weft.ops.a")),
        (op_name_complaints, tree(aot__a="CHEAP = {'clone', 'cat', 'mine'}")),
        (op_name_complaints, tree(aot__a="if op.name == 'masked_fill': pass")),
        (op_name_complaints, tree(graph__a="NAMES = 'add mul div'.split()")),
        (outside_complaints, tree(ops__a="import torch")),
        (outside_complaints, tree(ops__a="import scipy.special")),
        (outside_complaints, tree(cli__a="llvm = lazy('llvmlite.binding')")),
        (outside_complaints, tree(tensor__a="def f():\n    import rich")),
        (version_complaints, tree(ops__a="import sys\nif sys.version_info > (3, 12): pass")),
        (version_complaints, tree(capture__a="from sys import version_info")),
        (size_complaints, tree(ops__a="\n" * (FILE_LIMIT + 1))),
        (size_complaints, tree(ops__a="def f():\n" + "    pass\n" * FUNCTION_LIMIT)),
        (docstring_complaints, tree()),
        (switch_complaints, tree(aot__a="import warnings\nwarnings.warn = print")),
        (switch_complaints, tree(aot__a="import warnings as w\nwith w.catch_warnings(): pass")),
        (switch_complaints, tree(aot__a="from warnings import catch_warnings\nwith catch_warnings(): pass")),
        (switch_complaints, tree(aot__a="import gc\ngc.disable()")),
        (switch_complaints, tree(aot__a="def f():\n    import sys\n    sys.setrecursionlimit(9)")),
        (switch_complaints, tree(aot__a="import builtins\ndel builtins.print")),
        (switch_complaints, tree(aot__a="import threading\nguard = threading.Lock()")),
        (switch_complaints, tree(aot__a="import os\nos.environ['A'] = 'b'")),
    ],
)
def test_rule_sees_what_breaks_it(rule, package):
    assert len(rule(package)) == 1


@pytest.mark.parametrize(
    ("rule", "package"),
    [
        (layer_complaints, tree(ops__a="from weft.core.b import c", core__b="")),
        (layer_complaints, tree(aot__runtime="import weft.tensor.a", tensor__a="")),
        (layer_complaints, tree(jit__a="import weft.aot.runtime", aot__runtime="")),
        (layer_complaints, tree(linalg="import weft.autograd.a", autograd__a="")),
        (layer_complaints, tree(**{"": "test = lazy('weft.testing.a')", "testing__a": "import weft"})),
        (cycle_complaints, tree(**{"": "test = lazy('weft.testing.a')", "testing__a": "import weft"})),
        (
            cycle_complaints,
            tree(ops__a="import weft.ops.b", ops__b="if TYPE_CHECKING:\n    import weft.ops.a"),
        ),
        (outside_complaints, tree(native__a="import llvmlite", ops__a="scipy = lazy('scipy.special')")),
        (class_name_complaints, tree(ops__a="class A: pass", nn__b="class A: pass")),
        (class_name_complaints, tree(graph__node="class Node: pass", tensor__tape="class Node: pass")),
        (
            op_name_complaints,
            tree(ops__a="CHEAP = {'clone', 'cat'}", aot__b="ONE = ('clone', 'size', 'dim')"),
        ),
        (op_name_complaints, tree(aot__a="if kind == 'masked_fill': pass")),
        (version_complaints, tree(capture__bytecode__decode="import sys\nsys.version_info")),
        (size_complaints, tree(ops__a="def f():\n" + "    pass\n" * (FUNCTION_LIMIT - 1))),
        (switch_complaints, tree(aot__a="import warnings, gc\nwarnings.warn('a')\ngc.collect()")),
        (switch_complaints, tree(core__collection="import gc\ngc.freeze()")),
        (switch_complaints, tree(aot__a="def f(warnings):\n    warnings.seen = 1")),
    ],
)
def test_rule_lets_pass_what_keeps_it(rule, package):
    assert rule(package) == []


def test_mirror_rule_sees_a_stray_test(tmp_path):
    for name in ("weft/ops/reduce.py", "weft/ops/kernels/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    kept = [
        "test_all.py",
        "whole/test_any.py",
        "ops/test_reduce.py",
        "ops/reduce/test_sums.py",
        "ops/test_kernels.py",
        "ops/features/test_subject.py",
    ]
    for name in (*kept, "ops/test_stray.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    complaints = mirror_complaints(tmp_path / "tests", tmp_path / "weft")
    assert complaints == ["tests/ops/test_stray.py: there is no weft/ops/stray.py"]


PACKAGE = REPOSITORY / "weft"
MOST_SILENCED, MOST_ANY = 100, 0.15
TYPED = ("core", "ops", "tensor", "autograd", "graph", "aot")


def any_parameters(tree: ast.AST) -> list[bool]:
    """Of each parameter with an annotation, whether that is Any."""
    functions = [each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    given = [
        parameter
        for each in functions
        for parameter in (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs, each.args.vararg,
                          each.args.kwarg)
        if parameter is not None and parameter.annotation is not None
    ]  # fmt: skip
    return [ast.unparse(parameter.annotation) == "Any" for parameter in given if parameter.annotation]


@pytest.mark.parametrize("package", TYPED)
def test_parameters_say_what_they_take(package: str) -> None:
    files = (PACKAGE / package).rglob("*.py")
    found = [is_any for file in files for is_any in any_parameters(ast.parse(file.read_text()))]
    assert sum(found) <= MOST_ANY * len(found)


def test_few_comments_silence_the_checker() -> None:
    silenced = [line for file in PACKAGE.rglob("*.py") for line in file.read_text().splitlines()
                if "# type: ignore" in line]  # fmt: skip
    assert len(silenced) <= MOST_SILENCED
