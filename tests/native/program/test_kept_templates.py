"""Templates that earlier processes have made: they serve other sizes here, with the bits of new ones."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.whole.test_open_sizes import PROGRAMS, Function, outcome, same, weighted
from weft.core.counters import built, counters
from weft.core.settings import settings
from weft.native.cpu import engine, tiers
from weft.native.program import cache
from weft.native.program.kept_templates import KIND
from weft.native.program.template import Template
from weft.nn import functional as F

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "strict", True)
    forget()
    return tmp_path / "cache"


def forget() -> None:
    """What a new process does not know."""
    weft.compiler.reset()
    engine.forget()
    gc.collect()
    cache.counts.clear()
    counters.clear()


def opened(function: Function) -> Function:
    return weft.compile(lambda x: function(x), dynamic=True)  # type: ignore[no-any-return]


def given(size: int) -> weft.Tensor:
    return weft.randn(size, 4, generator=weft.Generator().manual_seed(size))


def rows(size: int) -> weft.Tensor:
    """The same, of which only the number of rows is open."""
    x = given(size)
    weft.compiler.mark_dynamic(x, 0)
    return x


BY_SIZE = ("gram", "outer gram", "attention", "inner slice")
"""Programs of which templates serve a part of all sizes."""


@pytest.mark.parametrize("name", [*PROGRAMS][::2])
def test_kept_templates_give_the_bits_of_new_ones(name: str) -> None:
    function = PROGRAMS[name]
    weft.compile(lambda x: function(x))(rows(12))
    kept = cache.counts[f"{KIND} written"]
    forget()
    compiled = weft.compile(lambda x: function(x))
    for size in (5, 64, 7, 130):
        found = outcome(compiled, rows(size))
        if name not in BY_SIZE:
            assert built()["programs"] == built()["kernels"] == 0
        alone = weft.compile(lambda x: function(x), dynamic=False)
        same(found, outcome(alone, given(size)), rtol=0, atol=0)
        counters.clear()
    assert kept


@pytest.mark.parametrize("name", ["linear", "softmax", "var", "std", "layer_norm", "cat", "inner slice"])
def test_gradients_outside(name: str) -> None:
    function = PROGRAMS[name]

    def gradient(compiled: Function, size: int) -> Any:
        x = rows(size).requires_grad_()
        weighted(compiled(x)).backward()
        return x.grad

    gradient(weft.compile(lambda x: function(x)), 12)
    forget()
    for size in (9, 33):
        found = gradient(weft.compile(lambda x: function(x)), size)
        assert built()["programs"] == 0
        same(found, gradient(weft.compile(lambda x: function(x), dynamic=False), size), rtol=0, atol=0)
        forget()


PROCESS = """
import sys
import weft
from weft.core.counters import built
from weft.nn import functional as F

weft.manual_seed(0)
net = weft.nn.Sequential(weft.nn.Linear(4, 32), weft.nn.Tanh(), weft.nn.Dropout(0.25), weft.nn.Linear(32, 3))
optimizer = weft.optim.AdamW(net.parameters(), lr=1e-2)

def step(x, y):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    weft.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return loss

compiled = weft.compile(step, fullgraph=True, dynamic=True)
results = []
for size in map(int, sys.argv[1].split(",")):
    weft.manual_seed(size)
    results.append(compiled(weft.randn(size, 4), weft.randint(0, 3, (size,))).item().hex())
print(built()["programs"], built()["kernels"], *results)
"""


def run(sizes: str, **environment: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROCESS, sizes], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, **environment}, check=True,
    )  # fmt: skip
    return found.stdout.split()


def test_a_template_of_one_process_serves_another_at_another_size() -> None:
    """Whatever order sets have in them."""
    first = run("16,8,20,300", PYTHONHASHSEED="1")
    assert int(first[0]) > 0 and int(first[1]) > 0
    second = run("33,7,64,128", PYTHONHASHSEED="2")
    assert second[:2] == ["0", "0"]
    assert second[2:] == run("33,7,64,128", WEFT_CACHE="0")[2:]


def test_templates_for_other_conditions_stand_beside_one_another() -> None:
    function = PROGRAMS["inner slice"]
    opened(function)(given(12))
    opened(function)(given(1))
    written = cache.counts[f"{KIND} written"]
    for size in (40, 1):
        forget()
        same(opened(function)(given(size)), function(given(size)), rtol=1e-5, atol=1e-6)
        assert built()["programs"] == 0
    assert written >= 1


def test_what_is_known_of_sizes_is_a_part_of_the_key() -> None:
    def halved(x: Any) -> Any:
        return x.view(2, -1) * 2 if x.shape[0] % 2 == 0 else x * 2

    opened(halved)(given(12))
    forget()
    for size in (8, 9):
        same(opened(halved)(given(size)), halved(given(size)))
    assert built()["programs"] == 1


def test_constants_and_inputs_that_are_written() -> None:
    table = weft.linspace(0, 1, 4)

    def function(x: Any) -> Any:
        x.mul_(2)
        return (x + table).sum(1), x.shape[0] / 2, F.pad(x, (1, 1))

    first = given(12)
    opened(function)(first)
    forget()
    one, other = given(9), given(9)
    found, wanted = opened(function)(one), function(other)
    assert built()["programs"] == 0 and found[1] == wanted[1]
    for left, right in ((one, other), (found[0], wanted[0]), (found[2], wanted[2])):
        same(left, right, rtol=1e-6, atol=1e-6)


def test_programs_of_which_python_does_a_part_are_not_kept(folder: Path) -> None:
    opened(lambda x: weft.sort(x * 2)[0])(given(12))
    assert not list(folder.glob(f"*.{KIND}"))


def test_what_is_cut_off_or_lacks_its_code_is_made_anew(folder: Path) -> None:
    function = PROGRAMS["softmax"]
    opened(function)(given(12))
    for path in folder.glob("*.object"):
        path.unlink()
    forget()
    same(opened(function)(given(9)), function(given(9)), rtol=1e-5, atol=1e-6)
    for path in folder.glob(f"*.{KIND}"):
        path.write_bytes(path.read_bytes()[:-7])
    forget()
    same(opened(function)(given(7)), function(given(7)), rtol=1e-5, atol=1e-6)


def test_they_are_kept_again_with_better_code(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Template] = []
    before = Template.__init__

    def noted(self: Template, *args: Any) -> None:
        before(self, *args)
        made.append(self)

    monkeypatch.setattr(Template, "__init__", noted)
    monkeypatch.setattr(tiers, "ask", lambda owner: None)
    monkeypatch.setattr(settings, "tiers", "auto")
    monkeypatch.setattr(tiers, "drafts_of", lambda missing, works, calls=1: missing)
    function = PROGRAMS["var"]
    compiled = opened(function)
    wanted = compiled(given(12)), compiled(given(30))
    (template,) = made
    assert template.first.functions.drafts()
    template.first.improve()
    assert not template.first.functions.drafts()
    made.clear()
    forget()
    compiled = opened(function)
    found = compiled(given(12)), compiled(given(30))
    (restored,) = made
    assert restored.first.is_restored and not restored.first.functions.drafts()
    for left, right in zip(found, wanted):
        same(left, right, rtol=0, atol=0)
