"""`python -m weft.compat script.py …`, `-m module …`, `-c command …`: the program, with Weft for torch."""

from __future__ import annotations

import io
import os
import runpy
import sys
from types import ModuleType, TracebackType

from weft.compat import install

USAGE = "usage: python -m weft.compat (script.py | -m module | -c command) [arguments ...]"


def run(arguments: list[str]) -> None:
    """Runs the program that the arguments name, as Python itself would."""
    sys.excepthook = _from_the_program
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        raise SystemExit(0 if arguments else 2)
    if arguments[0] in ("-m", "-c"):
        if len(arguments) == 1:
            raise SystemExit(f"Argument expected for the {arguments[0]} option\n{USAGE}")
        install()
        sys.path[0] = os.getcwd() if arguments[0] == "-m" else ""
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *arguments[2:]]
            _execute(arguments[1], "<string>")
        return
    script = arguments[0]
    try:
        with io.open_code(os.path.abspath(script)) as file:
            source = file.read()
    except OSError as error:
        raise SystemExit(f"weft.compat: can't open file {script!r}: {error.strerror}") from None
    install()
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    sys.argv = arguments
    _execute(source, script)


def _from_the_program(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Shows an error as Python does, without the frames that lead to the program."""
    start = trace
    while start is not None and start.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        start = start.tb_next
    sys.__excepthook__(kind, error.with_traceback(start or trace), start or trace)


def _execute(source: str | bytes, name: str) -> None:
    """Runs source as the module `__main__`, which stays: what the program leaves behind may need it."""
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if name != "<string>":
        main.__file__ = name
    sys.modules["__main__"] = main
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)


if __name__ == "__main__":
    run(sys.argv[1:])
