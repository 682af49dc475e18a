"""The pages of the site that are made when it is built: the reference, and the tour.

`mkdocs.yml` names this file as a hook. Takes the public names of Weft, with their signatures, docstrings and
op records; gives a page for each function and class, and an index. One idea: what the library knows is not
written down here, and examples are run, so a page cannot be out of date.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

import weft
from weft.native.lower import lowering
from weft.ops.descriptions import EXAMPLES
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker

HERE = Path(__file__).resolve().parent
MODULES = {
    "weft": "Tensors: making, computing, comparing",
    "weft.Tensor": "Methods of tensors",
    "weft.nn": "Layers and losses",
    "weft.nn.functional": "Layers and losses as functions",
    "weft.nn.init": "First values of parameters",
    "weft.nn.utils": "Clipping, vectors of parameters, parametrisations",
    "weft.optim": "Optimizers",
    "weft.optim.lr_scheduler": "Schedules of the learning rate",
    "weft.autograd": "Gradients, Functions, hooks",
    "weft.func": "Function transforms",
    "weft.compiler": "Compiling, and looking inside",
    "weft.amp": "Mixed precision",
    "weft.linalg": "Linear algebra",
    "weft.fft": "Fourier transforms",
    "weft.special": "Special functions",
    "weft.distributions": "Random variables",
    "weft.data": "Data sets and loaders",
    "weft.files": "Checkpoints",
    "weft.jit": "Scripted functions",
    "weft.profiler": "Profiles",
    "weft.utils.tensorboard": "What TensorBoard shows",
    "weft.testing": "Comparing results",
}
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
SHOWN = 12
"""Examples print at most so many elements."""


class Entry(NamedTuple):
    """A public name: its page is `reference/MODULE.NAME.md`."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"reference/{self.module}/{self.name}.md"

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"


def public_names(module: str) -> Iterator[Entry]:
    """Functions and classes that a module offers, by name."""
    owner: Any = weft
    for part in module.split(".")[1:]:
        owner = getattr(owner, part)
    listed = getattr(owner, "__all__", None) or [name for name in dir(owner) if not name.startswith("_")]
    for name in sorted(set(listed), key=str.lower):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of deprecated names
            value = getattr(owner, name, None)
        is_ours = (getattr(value, "__module__", None) or "").startswith("weft")
        if callable(value) and (is_ours or name in REGISTRY) and not name.startswith("_"):
            yield Entry(module, name, value)


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages: MkDocs calls this once it knows the others."""
    entries = {module: list(public_names(module)) for module in MODULES}
    for group in entries.values():
        for entry in group:
            files.append(File.generated(config, entry.path, content=page(entry)))
    files.append(File.generated(config, "reference/index.md", content=index_page(entries)))
    files.append(File.generated(config, "internals/tour.md", content=tour_page()))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Replaces the theme's script for searching files, which it would load from elsewhere, by one of ours."""
    return output.replace(ELSEWHERE, get_relative_url("assets/frame_worker.js", page.url))


# -- the index -----------------------------------------------------------------------------------------------
def index_page(entries: dict[str, list[Entry]]) -> str:
    count = sum(map(len, entries.values()))
    lines = ["# Reference", "", f"{count} functions and classes, by the module that offers them.", ""]
    for module, group in entries.items():
        lines += [f"## {MODULES[module]}", "", f"`{module}`", "", "| name | what it is |", "| --- | --- |"]
        for entry in group:
            link = entry.path.removeprefix("reference/")
            lines.append(f"| [`{entry.name}`]({link}) | {escaped(summary(entry))} |")
        lines.append("")
    return "\n".join(lines)


def summary(entry: Entry) -> str:
    """The first sentence of a docstring."""
    text = body_of(entry).strip().partition("\n\n")[0]
    return " ".join(text.split())


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


# -- a page --------------------------------------------------------------------------------------------------
def op_of(entry: Entry) -> Op | None:
    """The record behind a function or method, if it is an op's."""
    inner = "" if entry.module in ("weft", "weft.Tensor") else entry.module.removeprefix("weft.") + "."
    return REGISTRY.get(inner + entry.name)


def body_of(entry: Entry) -> str:
    """The docstring without the signature that `help` begins with, and without examples."""
    text = inspect.getdoc(entry.value) or ""
    if text.startswith(f"{entry.name}("):
        text = text.partition("\n\n")[2]
    return text.partition("\n>>> ")[0] if not text.startswith(">>> ") else ""


def page(entry: Entry) -> str:
    op = op_of(entry)
    place = f"[Reference](../index.md) / `{entry.module}`"
    lines = [f"# {entry.name}", "", place, "", "```python", f"{entry.full}{signature(entry, op)}", "```", ""]
    lines += [body_of(entry), ""]
    if op is not None:
        lines += about_op(op)
        lines += example_of(op)
    else:
        lines += examples_in(entry.value)
    if inspect.isclass(entry.value):
        lines += members(entry)
    return "\n".join(lines)


def signature(entry: Entry, op: Op | None) -> str:
    if op is not None:
        return f"({op.signature.text})"
    try:
        found = inspect.signature(entry.value)
    except (TypeError, ValueError):
        return "(...)"
    return re.sub(r": '([^']*)'", r": \1", re.sub(r" -> .*$", "", str(found))).replace("'", '"')


def about_op(op: Op) -> list[str]:
    """A table of what the record knows: forms, gradient, what it is when compiled, shapes."""
    name = op.qualified_name
    composite = op.kind is Kind.COMPOSITE
    if op.vjp is not None:
        gradient = "yes, of any order"
    else:
        gradient = (
            "through the ops that it is made of" if composite else "none: its result does not require grad"
        )
    if op.emit is not None:
        compiled = "a scalar body, fused with its neighbours"
    elif op.lowering or name in lowering.RULES:
        compiled = "machine code of its own"
    else:
        compiled = "as the ops that it is made of" if composite else "a call of its array kernel"
    rows = [("kind", op.kind.name.lower()), ("gradient", gradient), ("compiled", compiled)]
    forms = forms_of(op)
    if forms:
        rows.append(("forms", ", ".join(f"`{form}`" for form in forms)))
    shapes = shapes_of(op)
    table = [f"| {fact} | {escaped(text)} |" for fact, text in rows]
    lines = ["| fact | of this operator |", "| --- | --- |", *table, ""]
    if shapes:
        lines += ["## Shapes and dtypes", "", "| arguments | result |", "| --- | --- |"]
        lines += [f"| `{escaped(given)}` | `{escaped(made)}` |" for given, made in shapes] + [""]
    return lines


def forms_of(op: Op) -> list[str]:
    """The other ways to call it."""
    found = [f"weft.{op.namespace + '.' if op.namespace else ''}{alias}" for alias in op.aliases]
    short = op.name
    if hasattr(weft.Tensor, short):
        found.append(f"Tensor.{short}")
    if hasattr(weft.Tensor, f"{short}_"):
        found.append(f"Tensor.{short}_")
    if op.out:
        found.append("out=")
    return found


def called(op: Op) -> Callable[..., Any] | None:
    """The public function of an op, or its method."""
    owner: Any = weft
    for part in op.namespace.split(".") if op.namespace else ():
        owner = getattr(owner, part, None)
    return getattr(owner, op.name, None) or getattr(weft.Tensor, op.name, None)


def samples_of(op: Op) -> list[Any]:
    if op.samples is None or op.kind is Kind.RANDOM:
        return []
    try:
        return list(op.samples(Maker()))
    except (TypeError, ValueError):
        return []


def as_tensors(value: Any) -> Any:
    """Sample arguments with tensors in place of arrays."""
    if isinstance(value, np.ndarray):
        return weft.from_numpy(value)
    if isinstance(value, (list, tuple)) and any(isinstance(each, np.ndarray) for each in value):
        return type(value)(map(as_tensors, value))
    return value


def outcome(op: Op, sample: Any) -> Any:
    """What a call with a sample gives; None where it does not go through."""
    function = called(op)
    if function is None:
        return None
    keywords = {name: as_tensors(value) for name, value in sample.kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*map(as_tensors, sample.args), **keywords)
    except Exception:  # a sample of another face
        return None


def looks(value: Any) -> str:
    if isinstance(value, (np.ndarray, weft.Tensor)):
        kind = str(value.dtype).removeprefix("weft.")
        return f"{kind}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return ("[{}]" if isinstance(value, list) else "({})").format(", ".join(map(looks, value)))
    return repr(value)


def shapes_of(op: Op) -> list[tuple[str, str]]:
    """Arguments and results of the first few samples."""
    found: dict[str, str] = {}
    for sample in samples_of(op)[:6]:
        result = outcome(op, sample)
        if result is None:
            continue
        given = [looks(each) for each in sample.args]
        given += [f"{name}={looks(value)}" for name, value in sample.kwargs.items()]
        found.setdefault(", ".join(given), looks(result))
        if len(found) == 4:
            break
    return list(found.items())


# -- examples ------------------------------------------------------------------------------------------------
def literal(value: Any) -> str | None:
    """Python for a sample argument, with two digits behind the point; None if it would be long."""
    if isinstance(value, np.ndarray):
        if value.size > SHOWN or value.size == 0:
            return None
        short = np.round(value, 2) if value.dtype.kind in "fc" else value
        return f"weft.tensor({short.tolist()!r})"
    if isinstance(value, (list, tuple)):
        parts = [literal(each) for each in value]
        if None in parts:
            return None
        return ("[{}]" if isinstance(value, list) else "({},)").format(", ".join(map(str, parts)))
    return repr(value) if isinstance(value, (int, float, bool, str, type(None))) else None


def example_of(op: Op) -> list[str]:
    """The example of the docstring, or a small sample, with what it prints."""
    known = EXAMPLES.get(op.qualified_name)
    code = known[0] if known else next(filter(None, (call_text(op, each) for each in samples_of(op))), None)
    if code is None:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(code, {"weft": weft})
    except Exception:  # rounding its arguments took them out of range
        return []
    return ["## Example", "", "```python", f">>> {code}", repr(result), "```", ""]


def call_text(op: Op, sample: Any) -> str | None:
    parts = [literal(each) for each in sample.args]
    words = {name: literal(each) for name, each in sample.kwargs.items()}
    if None in parts or None in words.values() or called(op) is None:
        return None
    path = f"weft.{op.namespace + '.' if op.namespace else ''}"
    owner = path if hasattr(called(op), "__name__") and op.function else "weft.Tensor."
    arguments = ", ".join([*map(str, parts), *(f"{name}={text}" for name, text in words.items())])
    return f"{owner}{op.name}({arguments})"


def examples_in(value: Any) -> list[str]:
    text = inspect.getdoc(value) or ""
    if ">>> " not in text:
        return []
    return ["## Example", "", "```python", text[text.index(">>> ") :], "```", ""]


def members(entry: Entry) -> list[str]:
    """Methods that a class has of its own, in a table."""
    rows = []
    for name, value in vars(entry.value).items():
        text = inspect.getdoc(value) if callable(value) or isinstance(value, property) else None
        if name.startswith("_") or not text:
            continue
        rows.append(f"| `{name}` | {escaped(' '.join(text.partition(chr(10) * 2)[0].split()))} |")
    return ["## Members", "", "| name | what it does |", "| --- | --- |", *rows, ""] if rows else []


# -- the tour ------------------------------------------------------------------------------------------------
def tour_page() -> str:
    """`docs/tour.py` as a chapter: titles and comments at the margin are prose, the rest is code."""
    source = (HERE / "tour.py").read_text(encoding="utf-8")
    lines = ["# The system, rebuilt small", "", inspect.cleandoc(source.split('"""')[1]), ""]
    code: list[str] = []

    def close() -> None:
        text = "\n".join(code).strip("\n")
        if text:
            lines.extend(["```python", text, "```", ""])
        code.clear()

    for line in source.split('"""', 2)[2].splitlines():
        title = re.match(r"# -- (.*?) -*$", line)
        if title:
            close()
            lines.extend([f"## {title[1]}", ""])
        elif line.startswith("# ") or line == "#":
            close()
            if lines[-1] == "" and len(lines) > 1 and not lines[-2].startswith(("#", "```")):
                lines.pop()
            lines.extend([line[2:], ""])
        else:
            code.append(line)
    close()
    return "\n".join(lines)
