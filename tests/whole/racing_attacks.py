"""The programs of `tests.capture.attacks`, compiled by eight threads at once, each a first use.

Run as `python -m tests.whole.racing_attacks PART PARTS`: does every PARTS-th program, from PART on, each in a
process of its own; prints what differs from eager. Programs that change what threads share (the output of the
process, warnings, defaults) are left out, and those that tell something else in eager threads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import weft
from tests.capture.attacks.scenario import Compile
from tests.capture.features.harness import everything_strict
from tests.whole.first_uses import forked, raced
from tests.whole.fuzz.snapshot import Snapshot, difference

Scenario = Callable[[Compile], Any]
FOLDER = Path(__file__).parents[1] / "capture" / "attacks"


SHARED = frozenset(
    {"watch", "watched", "warnings", "catch_warnings", "redirect_stdout", "__defaults__", "sys"}
)
SHARED |= {"set_default_dtype", "set_default_device", "manual_seed", "settings", "set_stance"}


def names_in(function: Any, space: dict[str, Any]) -> set[str]:
    """The names that a function uses, with those of functions of its module that it names."""
    found: set[str] = set()
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        for name in set(code.co_names) - found:
            found.add(name)
            if isinstance(space.get(name), FunctionType):
                waiting.append(space[name].__code__)
    return found


def scenarios() -> list[tuple[str, Scenario]]:
    """What the tests compare; of parametrized ones, the first."""
    found: list[tuple[str, Scenario]] = []
    for file in sorted(FOLDER.glob("test_*.py")):
        module = import_module(f"tests.capture.attacks.{file.stem}")
        if not hasattr(module, "same"):
            continue
        told: list[Scenario] = []
        module.same = lambda scenario, told=told, **_counts: told.append(scenario)
        for name, test in vars(module).items():
            if not name.startswith("test_"):
                continue
            given: list[Any] = []
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "parametrize":
                    first = next(iter(mark.args[1]))
                    given += first if isinstance(first, tuple) else [getattr(first, "values", [first])[0]]
            if test.__code__.co_argcount == len(given):
                told.clear()
                test(*given)
                apart = [each for each in told if not SHARED & names_in(each, vars(module))]
                found += [(f"{file.stem}.{name}", scenario) for scenario in apart]
    return found


def differences(scenario: Scenario) -> list[str]:
    """What threads get that differs from what one gets alone; nothing where that is so in eager, too."""

    def seen(compile: Compile) -> Any:
        return Snapshot(scenario.__module__).see(scenario(compile))

    def differing(results: list[Any], expected: Any) -> list[str]:
        texts = [each[1] if each[0] == "failed" else difference(expected, each[1]) for each in results]
        return [str(text) for text in texts if text is not None]

    with everything_strict():
        expected = seen(lambda function: function)
        if differing(raced(lambda: seen(lambda function: function)), expected):
            return []
        return differing(
            raced(lambda: seen(lambda function: weft.compile(function, backend="aot_eager"))), expected
        )


def main(part: int, parts: int) -> int:
    wrong = []
    for name, scenario in scenarios()[part::parts]:
        how, found = forked(lambda scenario=scenario: differences(scenario))  # type: ignore[misc]
        wrong += [f"{name}: {text}" for text in ([found] if how == "failed" else found)]
    print("\n".join(wrong))
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
