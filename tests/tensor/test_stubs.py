"""The stubs are current, and mypy --strict finds in them what users write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.ops.record import REGISTRY
from weft.tensor import stubs

USER = """
from typing import reveal_type

import weft
import weft.nn.functional as F
from weft import Tensor


def model(x: Tensor, w: Tensor) -> Tensor:
    with weft.no_grad():
        w.mul_(0.5).add_(1)
    h = F.relu(x @ w + 1.5, inplace=False)
    h = weft.add(h, 2, alpha=3).sum(dim=1, keepdim=True).view(-1, 1).view((1, -1)).clone()
    h = 2 ** h - 1 / h
    return h[0, ..., None].T.to(weft.float64).reshape(2, 3)


def step(x: Tensor) -> float:
    values, indices = x.max(1)
    loss: Tensor = x.max() + values.sum() + x.max(1).values[0]
    loss.backward()
    gradient = x.grad
    if gradient is not None:
        gradient.zero_()
    x += 1
    ok: bool = x.is_leaf and x.requires_grad and weft.is_grad_enabled()
    shape: weft.Size = x.shape
    kind: weft.dtype = x.dtype
    return float(loss) + len(shape)


class Mine(Tensor):
    def name(self) -> str:
        return "mine"


x = weft.tensor([[1.0, 2.0]], dtype=weft.float32, requires_grad=True)
y = weft.zeros(2, 3, dtype=weft.int64) + weft.ones((2, 3)) + weft.arange(3)
parts: tuple[Tensor, ...] = y.unbind(0)
reveal_type(weft.cat([x, y], dim=0))
reveal_type(x.as_subclass(Mine).name())
reveal_type(Mine([1, 2]).add_(1))
reveal_type(x.exp_())
reveal_type(x == y)
reveal_type(weft.linalg.inv(x))
reveal_type(weft.special.expit(x))
"""
REVEALED = ["Tensor", "str", "Mine", "Tensor", "Tensor", "Tensor", "Tensor"]
WRONG = """
import weft
weft.add("a", 1)
weft.zeros(2).no_such_method()
weft.zeros(2).sum(dim="x")
weft.no_such_function(1)
"""


@pytest.fixture(scope="module")
def written():
    return stubs.stubs()


def test_committed_stubs_are_current():
    """In an interpreter of its own: what other tests import would show up in the stubs."""
    checked = subprocess.run(
        [sys.executable, "-m", "weft.tensor.stubs", "--check"],
        cwd=stubs.ROOT.parent,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, f"run python -m weft.tensor.stubs\n{checked.stdout}{checked.stderr}"


def test_every_function_and_method_is_there(written):
    root = written[stubs.ROOT / "__init__.pyi"]
    methods = written[stubs.ROOT / "tensor" / "methods.pyi"]
    for op in REGISTRY.values():
        if op.function and not op.namespace:
            assert f"\ndef {op.name}(" in root, op
        if op.method:
            assert f"\n    def {op.name}(" in methods, op
        if op.inplace and not op.namespace:
            assert f"\n    def {op.name}_(self" in methods, op


def test_text_says_what_the_record_says(written):
    root = written[stubs.ROOT / "__init__.pyi"]
    line = next(line for line in root.splitlines() if line.startswith("def add("))
    assert (
        "other: Tensor | _Number, *, alpha: _Number = ..., out: Tensor | None = ...) -> Tensor: ..." in line
    )
    assert "from weft.tensor.creation import tensor as tensor" in root
    assert "\nfloat32: _dtype\n" in root


def test_check_finds_stale_files(monkeypatch, capsys, tmp_path):
    path = tmp_path / "a.pyi"
    monkeypatch.setattr(stubs, "stubs", lambda: {path: "text\n"})
    assert stubs.main(["--check"]) == 1
    assert "a.pyi is not current" in capsys.readouterr().out
    assert stubs.main([]) == 0
    assert path.read_text(encoding="utf-8") == "text\n"
    assert stubs.main(["--check"]) == 0


def test_every_stub_parses(written):
    for text in written.values():
        compile(text, "stub", "exec")


def _mypy(tmp_path: Path, text: str) -> list[str]:
    pytest.importorskip("mypy")
    script = tmp_path / "user.py"
    script.write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file=",
        "--follow-imports=silent",
    ]
    environment = {"MYPYPATH": str(stubs.ROOT.parent), "PATH": "/usr/bin:/bin"}
    cache = tmp_path / "cache"
    done = subprocess.run(
        [*command, f"--cache-dir={cache}", str(script)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert not done.stderr, done.stderr
    return [line.partition("user.py:")[2] for line in done.stdout.splitlines() if "user.py" in line]


@pytest.mark.slow
def test_mypy_understands_user_code(tmp_path):
    lines = _mypy(tmp_path, USER)
    assert [line for line in lines if "error" in line] == []
    revealed = [line.split('"')[1].rpartition(".")[2].split("[")[0] for line in lines if "Revealed" in line]
    assert revealed == REVEALED


@pytest.mark.slow
def test_mypy_finds_mistakes(tmp_path):
    lines = _mypy(tmp_path, WRONG)
    for number, word in [(3, "arg-type"), (4, "attr-defined"), (5, "overload"), (6, "attr-defined")]:
        assert any(line.startswith(f"{number}: error") for line in lines), (number, word, lines)


def test_weft_is_typed():
    assert (Path(weft.__file__).parent / "py.typed").exists()
