"""The reference: a page for each public function and class, and an index, as Markdown.

Takes the public names of Weft, with their signatures, docstrings and op records; gives texts, which
`docs/site.py` puts into the site. One idea: what the library knows is not written down here, and examples are
run, so a page cannot be out of date.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from reference_examples import shown

import weft
from weft.native.lower import lowering
from weft.ops.record import REGISTRY, Kind, Op
from weft.ops.samples import Maker

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
SHOWN = 12
"""Examples print at most so many elements."""
WIDE = 72
"""So many characters of code a page shows without scrolling."""


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
    """The record behind a function or method, if it is an op's: of aliases and forms in place, too."""
    found = getattr(entry.value, "op", None)
    return found if isinstance(found, Op) else None


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
    lines += example_of(entry, op)
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
    text = re.sub(r"<function ([\w.]+) at \w+>", r"\1", re.sub(r" -> .*$", "", str(found)))
    return re.sub(r": '([^']*)'", r": \1", text).replace("'", '"')


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
    if op.samples is None:
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
def example_of(entry: Entry, op: Op | None) -> list[str]:
    """The example of the docstring, one that is written down, or a call with a small sample."""
    text = inspect.getdoc(entry.value) or ""
    if ">>> " in text:
        code = text[text.index(">>> ") :]
    else:
        code = shown(entry.module, entry.name) or ("" if op is None else sample_call(entry, op))
    return ["## Example", "", "```python", code, "```", ""] if code else []


def literal(value: Any, small: bool) -> str | None:
    """Python for a sample argument, with two digits behind the point: of many elements, drawn ones."""
    if isinstance(value, np.ndarray):
        if value.size > SHOWN and not small and value.dtype.kind in "fi":
            shape = ", ".join(map(str, value.shape))
            return f"weft.rand({shape})" if value.dtype.kind == "f" else f"weft.randint(0, 2, ({shape},))"
        if value.size > SHOWN or value.size == 0:
            return None
        return f"weft.tensor({(np.round(value, 2) if value.dtype.kind in 'fc' else value).tolist()!r})"
    if isinstance(value, (list, tuple)):
        parts = [literal(each, small) for each in value]
        if None in parts:
            return None
        return ("[{}]" if isinstance(value, list) else "({},)").format(", ".join(map(str, parts)))
    return repr(value) if isinstance(value, (int, float, bool, str, type(None))) else None


def sample_call(entry: Entry, op: Op) -> str:
    """A call with the first sample that is small enough to be written down, and what it gives; else with one
    of the same shapes, and the shapes of what it gives.
    """
    samples = [] if op.samples is None else list(itertools.islice(op.samples(Maker()), 24))
    for small in (True, False):
        for sample in samples:
            code = call_text(entry, sample, small)
            if code is None:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    weft.manual_seed(0)
                    result = eval(code, {"weft": weft})
            except Exception:  # rounding its arguments took them out of range, or it has another face
                continue
            head = ">>> " + "\n... ".join(wrapped(code))
            if small and len(repr(result)) < 600:
                return f"{head}\n{result!r}"
            return f"{head}  # {looks(result)}"
    return ""


def wrapped(code: str) -> list[str]:
    """The lines of a call: one, or where that is too wide for a page an argument each."""
    call = ast.parse(code, mode="eval").body
    if len(code) <= WIDE or not isinstance(call, ast.Call):
        return [code]
    given = [ast.unparse(each) for each in call.args]
    given += [f"{each.arg}={ast.unparse(each.value)}" for each in call.keywords]
    return [f"{ast.unparse(call.func)}(", *(f"    {each}," for each in given), ")"]


def call_text(entry: Entry, sample: Any, small: bool) -> str | None:
    parts = [literal(each, small) for each in sample.args]
    words = {name: literal(each, small) for name, each in sample.kwargs.items()}
    if None in parts or None in words.values():
        return None
    arguments = [*map(str, parts), *(f"{name}={text}" for name, text in words.items())]
    if entry.module == "weft.Tensor":
        if not arguments or not parts:
            return None
        return f"{arguments[0]}.{entry.name}({', '.join(arguments[1:])})"
    return f"{entry.full}({', '.join(arguments)})"


def members(entry: Entry) -> list[str]:
    """Methods that a class has of its own, in a table."""
    rows = []
    for name, value in vars(entry.value).items():
        text = inspect.getdoc(value) if callable(value) or isinstance(value, property) else None
        if name.startswith("_") or not text:
            continue
        rows.append(f"| `{name}` | {escaped(' '.join(text.partition(chr(10) * 2)[0].split()))} |")
    return ["## Members", "", "| name | what it does |", "| --- | --- |", *rows, ""] if rows else []


def without_example() -> dict[str, int]:
    """How many pages of each module show no example."""
    pages = {module: list(public_names(module)) for module in MODULES}
    return {
        module: sum(not example_of(entry, op_of(entry)) for entry in entries)
        for module, entries in pages.items()
    }


if __name__ == "__main__":
    print(json.dumps(without_example(), indent=1))
