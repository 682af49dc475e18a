"""Stubs: the `.pyi` files that tell type checkers what the generated functions and methods look like.

Takes the op records and the loaded package, gives text; `python -m weft.tensor.stubs` writes it, `--check`
tells whether what is written is current. One idea: a checker sees exactly what the records and the attached
functions say, so nothing is listed by hand.

# Note [Stubs]
    weft/tensor/methods.pyi  class Methods: what is attached to Tensor, which derives from it; so there is one
                             Tensor for users and package alike
    weft/__init__.pyi        ops as functions; what is written by hand is imported from where it is written
    weft/nn/functional.pyi, weft/fft.pyi, weft/linalg.pyi, weft/special.pyi     the same for these
Attributes such as `int`, `float` or `dtype` hide the types of these names, so stubs write `_int`, `_dtype`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, get_overloads

import numpy as np

from weft.core import modes
from weft.core.dtypes import dtype
from weft.ops.record import Kind, Op
from weft.ops.samples import Maker
from weft.ops.signature import MISSING, OpParameter
from weft.tensor.base import Tensor, wrap
from weft.tensor.faces import FUNCTIONS
from weft.tensor.source import numpy_aliases

if TYPE_CHECKING:
    from collections.abc import Callable


ROOT = Path(__file__).resolve().parent.parent
MODULES = ("weft", "weft.nn.functional", "weft.fft", "weft.linalg", "weft.special")
HEADER = '"""Generated from the op records by `python -m weft.tensor.stubs`; do not edit."""\n\n'

WORDS = {
    "Tensor": "Tensor",
    "Operand": "Tensor | _Number",
    "MaybeTensor": "Tensor | None",
    "MaybeOperand": "Tensor | _Number | None",
    "Tensors": "_Sequence[Tensor]",
    "Index": "_Any",
    "Dim": "_int",
    "MaybeDim": "_int | None",
    "Dims": "_int | _Sequence[_int] | None",
    "Shape": "_Sequence[_int]",
    "DType": "_DType | None",
    "Device": "_Device | None",
    "Generator": "_Generator | None",
    "MemoryFormat": "_memory_format | None",
    "Layout": "_Any",
    "Number": "_Number",
}
"""What the annotation words of signatures mean to a type checker; see `weft.ops.signature`."""
ELEMENTS = {"Shape": "_int", "Dims": "_int", "Dim": "_int", "Tensors": "Tensor", "Tensor": "Tensor"}
"""What one argument of a variadic parameter of these words is."""
OVERLOADED = {"compile": "weft.compiler"}
"""Functions of `weft` that call one of the same name elsewhere, whose overloads are theirs."""
SAMPLES = 40
PROPERTIES = {"grad": "Tensor | None", "_base": "Tensor | None"}
FIXED = """\
    def __new__(cls, *args: _Any, **kwargs: _Any) -> _Self: ...
    @_classmethod
    def __torch_function__(
        cls, func: _Callable[..., _Any], types: _Any, args: _Sequence[_Any] = ..., kwargs: _Any = ...
    ) -> _Any: ...
"""
COMPARISONS = ("__eq__", "__ne__")
OTHER_THAN_OBJECT = "  # type: ignore[override]"
REFLECTED = {
    f"__r{name}__" for name in ("pow", "floordiv", "mod", "matmul", "lshift", "rshift", "truediv")
} | {"__invert__"}


class Writer:
    """Collects the text of one stub and the imports it needs."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.lines: list[str] = []
        self.imports: set[str] = set()

    def name(self, imported: str, module: str) -> str:
        """A private name for something imported, which no attribute can hide."""
        if imported == "Tensor" and module == "weft.tensor.base":
            self.imports.add("from weft.tensor.base import Tensor as Tensor")
            return "Tensor"
        private = imported if imported.startswith("_") else f"_{imported}"
        if module != self.module:
            self.imports.add(f"from {module} import {imported} as {private}")
        return private

    def type(self, text: str) -> str:
        """A type written in the words of stubs; notes what it needs."""
        for node in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(node, ast.Name):
                self._need(node.id)
        return text

    def _need(self, word: str) -> None:
        if word == "Tensor":
            self.name("Tensor", "weft.tensor.base")
        elif word in IMPORTS:
            self.imports.add(f"from {IMPORTS[word]} import {word[1:]} as {word}")
        elif word in ("_Number", "_DType", "_Device") or word.endswith("_result"):
            self.imports.add(f"from weft.tensor.methods import {word} as {word}")
        elif hasattr(builtins, word[1:]) and word.startswith("_"):
            self.imports.add(f"from builtins import {word[1:]} as {word}")

    def text(self, before: str = "") -> str:
        imports = sorted(line for line in self.imports if f"from {self.module} import" not in line)
        body = "\n".join(self.lines) or "# nothing here yet"
        return HEADER + "\n".join(imports) + ("\n\n" if imports else "") + before + body + "\n"


IMPORTS = {
    "_Any": "typing",
    "_Literal": "typing",
    "_Self": "typing",
    "_overload": "typing",
    "_NamedTuple": "typing",
    "_Sequence": "collections.abc",
    "_Callable": "collections.abc",
    "_dtype": "weft.core.dtypes",
    "_device": "weft.core.device",
    "_Generator": "weft.core.generator",
    "_memory_format": "weft.core.types",
}


# -- ops ---------------------------------------------------------------------------------------------------
def word_type(parameter: OpParameter) -> str:
    """The type of one parameter of a signature."""
    text = WORDS.get(parameter.annotation)
    if text is None:
        names = [n.id for n in ast.walk(ast.parse(parameter.annotation)) if isinstance(n, ast.Name)]
        known = all(hasattr(builtins, name) for name in names)
        text = _private_builtins(parameter.annotation) if known else "_Any"
    if parameter.default is None and "None" not in text and text != "_Any":
        text += " | None"
    return text


def _private_builtins(text: str) -> str:
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = f"_{node.id}"
    return ast.unparse(tree)


def op_parameters(op: Op, *, method: bool, out: str | None, spread: bool) -> list[str]:
    """The parameters of one form of an op. `spread`: a variadic one takes its items, else one sequence."""
    words: list[str] = []
    star = False
    parameters = op.signature.parameters
    for position, parameter in enumerate(parameters):
        if method and position == 0:
            words.append("self")
        elif parameter.variadic and spread:
            words.append(f"*{parameter.name}: {ELEMENTS.get(parameter.annotation, word_type(parameter))}")
            star = True
        elif parameter.variadic:
            one = ELEMENTS.get(parameter.annotation, word_type(parameter))
            words.append(f"{parameter.name}: _Sequence[{one}]")
        else:
            if parameter.keyword_only and not star:
                words.append("*")
                star = True
            words.append(_typed(parameter.name, word_type(parameter), parameter.default is MISSING))
    by_name = {p.name: p for p in parameters}
    further = [
        _typed(theirs, f"{word_type(by_name[ours])} | None".replace("| None | None", "| None"), False)
        for ours, theirs in numpy_aliases(op).items()
    ]
    if out is not None:
        further.append(f"out: {out} = ...")
    if further and not star:
        words.append("*")
    return words + further


def _typed(name: str, kind: str, required: bool) -> str:
    return f"{name}: {kind}" if required else f"{name}: {kind} = ..."


def out_type(result: str) -> str:
    if result == "Tensor":
        return "Tensor | None"
    return "_Sequence[Tensor] | None" if "uple" in result or "_result" in result else "_Any"


def write_op(writer: Writer, op: Op, name: str, *, method: bool, pad: str, inplace: bool = False) -> None:
    """One form of an op: a function or a method, under this name."""
    own = "_Self" if method else "Tensor"
    forms = _spread_forms(op, method, None, own) if inplace else _forms(op, method)
    if name == "view" and method:
        forms.append((["self", "dtype: _DType"], "Tensor"))
    for words, outcome in forms:
        if len(forms) > 1:
            writer.type("_overload")
            writer.lines.append(f"{pad}@_overload")
        for word in words:
            if ": " in word:
                writer.type(word.partition(": ")[2].removesuffix(" = ..."))
        writer.type(outcome)
        writer.lines.append(f"{pad}def {name}({', '.join(words)}) -> {outcome}: ...")


Form = tuple[list[str], str]


def _spread_forms(op: Op, method: bool, out: str | None, result: str) -> list[Form]:
    """A variadic parameter may be given as one sequence, too."""
    variadic = any(p.variadic for p in op.signature.parameters)
    spreads = (True, False) if variadic else (True,)
    return [(op_parameters(op, method=method, out=out, spread=spread), result) for spread in spreads]


def _forms(op: Op, method: bool) -> list[Form]:
    """Parameters and result for each way to call an op that types tell apart."""
    if op.overloads:
        forms: list[Form] = []
        for signature, outcome in op.overloads:
            shape = Op.__new__(Op)
            shape.signature = type(op.signature)(signature)
            out = out_type(outcome) if op.out else None
            forms.append((op_parameters(shape, method=method, out=out, spread=True), outcome))
        return forms
    result = result_type(op)
    out = out_type(result) if op.out else None
    if result == "_Any":
        flag, results = result_by_flag(op)
        if flag:
            words = op_parameters(op, method=method, out=out, spread=True)
            return [(_with_flag(words, flag, value), results[value]) for value in (False, True)]
    return _spread_forms(op, method, out, result)


def _with_flag(words: list[str], flag: str, value: bool) -> list[str]:
    """The parameters where this flag has this value; the one that is not the default must be named."""
    if not value:
        return [f"{flag}: _Literal[False] = ..." if w.startswith(f"{flag}: ") else w for w in words]
    rest = [w for w in words if not w.startswith(f"{flag}: ")]
    cut = rest.index("*") + 1 if "*" in rest else len(rest)
    return [*rest[:cut], *([] if "*" in rest else ["*"]), f"{flag}: _Literal[True]", *rest[cut:]]


def write_operator(writer: Writer, op: Op, name: str) -> None:
    """A special method made from an op: parameters beyond the operands stand at their defaults."""
    operands = [op.signature.parameters[i] for i in op.signature.tensor_slots[1:]]
    kinds = ["_Any" if name in COMPARISONS else word_type(p) for p in operands]
    words = ["self", *(f"other: {writer.type(kind)}" for kind in kinds)]
    result = "_Self" if name.startswith("__i") else result_type(op)
    comment = OTHER_THAN_OBJECT if name in COMPARISONS else ""
    writer.lines.append(f"    def {name}({', '.join(words)}) -> {writer.type(result)}: ...{comment}")


_RESULTS: dict[Op, str] = {}


def result_type(op: Op) -> str:
    """What an op gives, found by running its samples."""
    if op not in _RESULTS:
        _RESULTS[op] = _merged({describe(op, result) for _, result in _results(op)}) or "Tensor"
    return _RESULTS[op]


def _merged(found: set[str]) -> str:
    if len(found) > 1 and all(text.startswith("_tuple[Tensor") for text in found):
        return "_tuple[Tensor, ...]"
    return next(iter(found)) if len(found) == 1 else "_Any" if found else ""


def result_by_flag(op: Op) -> tuple[str, dict[bool, str]]:
    """A boolean parameter that decides the type of the result, and the two types; else an empty name."""
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.annotation != "bool" or parameter.default is not False:
            continue
        found: dict[bool, set[str]] = {False: set(), True: set()}
        for bound, result in _results(op):
            found[bool(bound[position])].add(describe(op, result))
        if all(len(kinds) == 1 for kinds in found.values()) and found[False] != found[True]:
            return parameter.name, {value: _merged(kinds) for value, kinds in found.items()}
    return "", {}


def _results(op: Op) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All arguments and the result of a few samples, as tensors."""
    if op.samples is None:
        return
    token = modes.enter(grad=False)
    try:
        for sample in islice(op.samples(Maker()), SAMPLES):
            keywords = {key: _tensors(value) for key, value in sample.kwargs.items()}
            arguments = _tensors(sample.args)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = op.face(*arguments, **keywords)
                    bound = op.signature.bind(arguments, dict(keywords))
                except Exception:  # the op's own suite says so; its type does not hang on one sample
                    continue
            yield bound, result
    finally:
        modes.leave(token)


def _tensors(value: object) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return wrap(np.asarray(value))
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)(_tensors(item) for item in value)
    return value


def describe(op: Op, result: object) -> str:
    """The type of one result, in the words of stubs."""
    if isinstance(result, Tensor):
        return "Tensor"
    if op.returns is not None and isinstance(result, tuple):
        return f"_{op.name}_result"
    if isinstance(result, tuple):
        items = [describe(op, item) for item in result]
        many = op.kind is Kind.VIEW or not items or bool(op.signature.list_slots)
        return f"_tuple[{items[0] if items else 'Tensor'}, ...]" if many else f"_tuple[{', '.join(items)}]"
    if isinstance(result, list):
        items = sorted({describe(op, item) for item in result})
        return f"_list[{items[0]}]" if len(items) == 1 else "_list[_Any]"
    if result is None:
        return "None"
    return f"_{type(result).__name__}" if type(result) in (bool, int, float, complex, str) else "_Any"


# -- functions written by hand -----------------------------------------------------------------------------
def annotation(writer: Writer, text: object, function: object) -> str:
    """An annotation from a source file, with each of its names imported from where it is defined."""
    if not isinstance(text, str):
        return writer.type("None" if text is None else "_Any")
    spaces = getattr(function, "__globals__", {})
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = _resolve(writer, node.id, spaces)
    return ast.unparse(tree)


def home_of(value: object) -> ModuleType | None:
    """The module that defines a value; classes may present themselves as living in `weft` itself."""
    name = getattr(value, "__module__", None) or ""
    if name == "weft" and isinstance(value, type):
        functions = [member for member in vars(value).values() if isinstance(member, FunctionType)]
        name = functions[0].__globals__["__name__"] if functions else name
    return sys.modules.get(name)


def _resolve(writer: Writer, word: str, spaces: dict[str, Any]) -> str:
    if word not in spaces:
        known = hasattr(builtins, word) and isinstance(getattr(builtins, word), type)
        return writer.type(f"_{word}" if known else "_Any")
    value = spaces[word]
    module = home_of(value)
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    if module is None or name is None or getattr(module, name, None) is not value:
        return writer.type("_Any")
    return writer.name(name, module.__name__)


def write_function(
    writer: Writer, name: str, function: Callable[..., Any], *, method: bool, pad: str
) -> None:
    """A function written by hand, as its source annotates it."""
    words: list[str] = []
    keyword_only = False
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        kind = parameter.kind
        if method and position == 0:
            words.append("self")
            continue
        if kind is parameter.KEYWORD_ONLY and not keyword_only:
            words.append("*")
        keyword_only |= kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        star = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
        missing = parameter.annotation is parameter.empty
        typed = writer.type("_Any") if missing else annotation(writer, parameter.annotation, function)
        words.append(star + _typed(parameter.name, typed, parameter.default is parameter.empty))
    result = function.__annotations__.get("return", "Any")
    if name in REFLECTED and result == "Any":  # NotImplemented is for Python, not for users
        result = "Tensor"
    outcome = writer.type("_Any") if result == "Any" else annotation(writer, result, function)
    comment = OTHER_THAN_OBJECT if name in COMPARISONS else ""
    writer.lines.append(f"{pad}def {name}({', '.join(words)}) -> {outcome}: ...{comment}")


def write_property(writer: Writer, name: str, value: property, pad: str) -> None:
    stated = getattr(value.fget, "__annotations__", {}).get("return", "Any")
    result = annotation(writer, stated, value.fget)
    if name in PROPERTIES:
        result = writer.type(PROPERTIES[name])
    elif stated == "Any":
        result = writer.type(_seen(name))
    writer.lines += [f"{pad}@property", f"{pad}def {name}(self) -> {result}: ..."]
    if value.fset is not None:
        writer.lines += [
            f"{pad}@{name}.setter",
            f"{pad}def {name}(self, value: {writer.type('_Any')}) -> None: ...",
        ]
    if value.fdel is not None:
        writer.lines += [f"{pad}@{name}.deleter", f"{pad}def {name}(self) -> None: ..."]


def _seen(name: str) -> str:
    """The type of a property that its source does not state, as it is on a tensor."""
    try:
        value = getattr(wrap(np.zeros((1, 1), np.complex64)), name)
    except Exception:
        return "_Any"
    return "Tensor" if isinstance(value, Tensor) else "_bool" if isinstance(value, bool) else "_Any"


# -- whole files -------------------------------------------------------------------------------------------
def attached() -> dict[str, Any]:
    """What was put on Tensor after its class statement: faces of ops, methods, properties."""
    skipped = {"__torch_function__", "__init_subclass__", "__new__", "__hash__"}
    found: dict[str, Any] = {}
    for name, value in sorted(Tensor.__dict__.items()):
        if name in skipped or not isinstance(value, (FunctionType, property, staticmethod)):
            continue
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if getattr(inner, "__module__", "") != "weft.tensor.base":
            found[name] = value
    return found


def methods_stub() -> str:
    writer = Writer("weft.tensor.methods")
    for name, value in attached().items():
        op = getattr(value, "op", None)
        if isinstance(value, property):
            write_property(writer, name, value, "    ")
        elif isinstance(value, staticmethod):
            writer.lines.append("    @staticmethod")
            write_function(writer, name, value.__func__, method=False, pad="    ")
        elif op is None:
            write_function(writer, name, value, method=True, pad="    ")
        elif name.startswith("__"):
            write_operator(writer, op, name)
        else:
            write_op(writer, op, name, method=True, pad="    ", inplace=value is not op.face)
    before = [
        "_Number = _int | _float | _complex",
        "_DType = _dtype | _type[_bool] | _type[_int] | _type[_float] | _type[_complex]",
        "_Device = _device | _str | _int",
    ]
    for line in before:
        writer.type(line.partition(" = ")[2])
    before += _result_classes(writer)
    for word in ("_Any", "_Self", "_classmethod", "_Callable", "_Sequence", "_type"):
        writer.type(word)
    return writer.text("\n".join(before) + "\n\nclass Methods:\n" + FIXED)


def _result_classes(writer: Writer) -> Iterator[str]:
    """Named tuples with typed fields, for the results that have names."""
    seen: dict[str, Any] = {}
    for face in FUNCTIONS.values():
        made: Any = face
        op: Op = made.op
        if op.returns is not None:
            seen[f"_{op.name}_result"] = op.returns
    for name, kind in sorted(seen.items()):
        writer.type("_NamedTuple")
        yield f"\nclass {name}(_NamedTuple):"
        yield from (f"    {field}: Tensor" for field in kind._fields)


def module_stub(name: str) -> str:
    """The stub of a module that shows ops as functions."""
    module = sys.modules[name]
    writer = Writer(name)
    exported: list[str] = []
    for key, value in sorted(vars(module).items()):
        op = getattr(value, "op", None)
        if isinstance(value, FunctionType) and isinstance(op, Op):
            write_op(writer, op, key, method=False, pad="", inplace=value is not op.face)
        elif key.startswith("_"):
            continue
        elif isinstance(value, ModuleType):
            parent, _, child = value.__name__.rpartition(".")
            if parent.split(".")[0] == "weft" and key == child:
                exported.append(f"from {parent} import {child} as {key}")
        else:
            exported += _hand_written(writer, key, value)
    exported += [f"from {name} import {key} as {key}" for key in getattr(module, "_LATE", ())]
    return writer.text("\n".join(sorted(exported)) + ("\n\n" if exported else ""))


def _hand_written(writer: Writer, key: str, value: object) -> Iterator[str]:
    """An import of what is defined elsewhere, or the definition itself."""
    if isinstance(value, dtype):
        writer.lines.append(f"{key}: {writer.type('_dtype')}")
        return
    home = home_of(value)
    name = getattr(value, "__name__", None)
    if home is not None and name is not None and getattr(home, name, None) is value:
        if home.__name__ != writer.module and home.__name__.startswith("weft"):
            yield f"from {home.__name__} import {name} as {key}"
        elif isinstance(value, FunctionType):
            forms = get_overloads(getattr(import_module(OVERLOADED[key]), key)) if key in OVERLOADED else []
            for form in forms:
                writer.lines.append(f"@{writer.type('_overload')}")
                write_function(writer, key, form, method=False, pad="")
            if not forms:
                write_function(writer, key, value, method=False, pad="")
    elif isinstance(value, (bool, int, float, str)):
        writer.lines.append(f"{key}: {writer.type('_' + type(value).__name__)}")
    else:
        kind = type(value)
        home = home_of(kind)
        if home is not None and home.__name__.startswith("weft"):
            writer.lines.append(f"{key}: {writer.name(kind.__name__, home.__name__)}")


def stubs() -> dict[Path, str]:
    """Every stub's text by its path."""
    found = {ROOT / "tensor" / "methods.pyi": methods_stub()}
    for name in MODULES:
        path = ROOT.joinpath(*name.split(".")[1:])
        found[path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")] = module_stub(name)
    return found


def stale() -> list[Path]:
    """The stubs that are not what they would be if written now."""
    return [p for p, text in stubs().items() if not p.exists() or p.read_text(encoding="utf-8") != text]


def main(arguments: Iterable[str]) -> int:
    if "--check" in arguments:
        wrong = stale()
        for path in wrong:
            print(f"{path} is not current: run python -m weft.tensor.stubs")
        return bool(wrong)
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
