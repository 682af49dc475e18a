"""README's example runs, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import weft

README = Path(__file__).resolve().parent.parent / "README.md"


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def run(code: str) -> dict[str, Any]:
    weft.manual_seed(0)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, str(README), "exec"), space)
    return space


def test_the_example_is_one_function_that_learns(capsys: Any) -> None:
    weft.compiler.counters.clear()
    space = run(example())
    assert weft.compiler.counters["stats"]["unique_graphs"] == 1
    assert len(space["norms"]) == 200  # the hook's effect, in every step
    first = run(example().replace("range(200)", "range(1)"))
    assert space["loss"].item() < 0.25 * first["loss"].item()
    assert capsys.readouterr().out.startswith("tensor(")


def test_the_example_does_what_eager_does() -> None:
    short = example().replace("range(200)", "range(5)")
    compiled, eager = run(short), run(short.replace("@weft.compile(fullgraph=True)", ""))
    weft.testing.assert_close(compiled["loss"], eager["loss"])
    weft.testing.assert_close(compiled["norms"], eager["norms"])


def test_the_gradient_is_the_functions_own() -> None:
    space = run(example().replace("range(200)", "range(1)"))
    x = weft.tensor([1.0], requires_grad=True)
    (space["Clipped"].apply(x) * 5).sum().backward()
    assert x.grad.item() == 1.0
