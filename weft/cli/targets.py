"""Targets: programs and functions that a command line names.

Takes `script.py` with arguments, or `module:function`; runs the one, gives the other. One idea: an error in
the user's own code is reported in one line that names the place, behind the program's own traceback where a
program was run; `--traceback` shows Weft's frames, too.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import weft
from weft import compiler
from weft.capture.kinds import Unsupported
from weft.cli.errors import CommandError, doing

PACKAGE = os.path.dirname(os.path.abspath(weft.__file__)) + os.sep


def add_program_arguments(parser: argparse.ArgumentParser) -> None:
    """All that stands behind a program is its own, also what looks like an option."""
    rest = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, default=[], help="its arguments, if any"
    )
    rest.required = False
    usage = parser.format_usage().partition(": ")[2].strip()
    parser.usage = usage.removesuffix("...") + "[arguments ...]"


def add_traceback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traceback", action="store_true", help="show the whole traceback of an error")


def run_script(path: str, arguments: Sequence[str], *, torch: bool, show_traceback: bool) -> int:
    """Runs a program as Python would; gives its exit status."""
    with doing(f"open {path}"), io.open_code(os.path.abspath(path)) as file:
        source = file.read()
    install(torch)
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    before = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"], sys.argv = main, [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    try:
        exec(compile(source, path, "exec"), main.__dict__)
    except SystemExit as stop:
        return _status(stop)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, SyntaxError) and error.filename is None:
            error.filename = path  # a file with null bytes is refused before Python knows its name
        if not show_traceback:
            sys.stderr.write("".join(own_frames(traceback.TracebackException.from_exception(error)).format()))
        return told(error, show_traceback)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before
    return 0


def install(torch: bool) -> None:
    """Makes `import torch` mean Weft, where that is wanted."""
    if torch:
        try:
            importlib.import_module("weft.compat").install()
        except RuntimeError as error:
            raise CommandError(str(error)) from None


def _status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1


def told(error: BaseException, show_traceback: bool) -> int:
    """Says in one line what the user's code has raised, and where."""
    if show_traceback:
        own = error.__traceback__
        while own is not None and own.tb_frame.f_code.co_filename.startswith(PACKAGE + "cli"):
            own = own.tb_next
        traceback.print_exception(type(error), error, own)
        return 1
    print(f"weft: {_place(error)}{_line(error)} (--traceback shows all of it)", file=sys.stderr)
    return 1


def own_frames(shown: traceback.TracebackException) -> traceback.TracebackException:
    """A traceback with the program's frames alone, as if Weft were written in C."""
    shown.stack[:] = [each for each in shown.stack if _is_users(each)]
    for inner in (shown.__cause__, shown.__context__):
        if inner is not None:
            own_frames(inner)
    return shown


def _is_users(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith((PACKAGE, "<weft", "<frozen"))


def _line(error: BaseException) -> str:
    """What an error says, in one line."""
    said = str(error.msg if isinstance(error, SyntaxError) else error)
    first, *rest = f"{type(error).__name__}: {said}".rstrip(": ").split("\n")
    if first.endswith(":") and rest:
        first = f"{first} {rest[0].strip()}"
    if isinstance(error, Unsupported):  # what broke a graph, and what to try, stand in lines of their own
        parts = {name: text.strip() for name, colon, text in (line.partition(":") for line in rest) if colon}
        what = f": {parts['Seen']}" if "Seen" in parts else ""
        return f"{first}{what}. Try: {parts['Try'].rstrip('.')}" if "Try" in parts else first
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
        return f"{first}. Try: --torch, which lets it mean Weft"
    return first


def _place(error: BaseException) -> str:
    """The innermost line that is not ours: `script.py:3: `."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: " if error.lineno else f"{error.filename}: "
    frames = traceback.extract_tb(error.__traceback__)
    user = [each for each in frames if _is_users(each)]
    return f"{user[-1].filename}:{user[-1].lineno}: " if user else ""


def function_named(name: str) -> tuple[Callable[..., Any], ModuleType]:
    """What `module:function` or `file.py:function` names, with its module."""
    where, colon, path = name.rpartition(":")
    if not colon or not where or not path:
        whole = f". `weft run {name}` takes all of it" if name.endswith(".py") else ""
        raise CommandError(f"{name!r} names no function. Write module:function, or file.py:function{whole}")
    module = _module(where)
    found: Any = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise CommandError(f"{where} has no {path!r}") from None
    if not callable(found):
        raise CommandError(f"{name} is a {type(found).__name__}, which cannot be called")
    return found, module


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
                raise CommandError(f"there is no module {where}") from None
            raise
        finally:
            sys.path.pop(0)
    if not os.path.isfile(where):
        raise CommandError(f"cannot open {where}: No such file or directory")
    name = os.path.splitext(os.path.basename(where))[0]
    spec = importlib.util.spec_from_file_location(name, where)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
    spec.loader.exec_module(module)
    return module


def explained(name: str, given: str, options: argparse.Namespace, backend: Any = None) -> Any:
    """What `weft.compiler.explain` gives of a function called with these arguments; the exit status where
    the user's code raises."""
    install(options.torch)
    try:
        function, module = function_named(name)
        args, kwargs = arguments_from(given, module)
        check_arguments(function, args, kwargs)
        return compiler.explain(function, backend=backend)(*args, **kwargs)
    except CommandError:
        raise
    except Exception as error:
        return told(error, options.traceback)


def check_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Says how arguments are given, where the function needs others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of C code: the call will tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise CommandError(
            f"{name}{signature}: {error}. Give them with --args 'weft.randn(3), flag=True'"
        ) from None


def arguments_from(text: str, module: ModuleType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What `weft.randn(3), flag=True` gives, with the names of the module."""
    space = {"weft": weft, **vars(module)}
    try:
        found: tuple[tuple[Any, ...], dict[str, Any]] = eval(
            f"(lambda *args, **kwargs: (args, kwargs))({text})", space
        )
        return found
    except Exception as error:
        raise CommandError(f"--args {text!r}: {type(error).__name__}: {error}") from None
