"""What an editor knows of a user's program: mypy tells the types of what tensors, layers, optimizers and
`compile` give."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USER = """
from typing import reveal_type

import weft
from weft import Tensor, nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
        self.scale = nn.Parameter(weft.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result * self.scale


model = Model(8).to(weft.float32).train()
reveal_type(model)  # Model
reveal_type(model.scale)  # Parameter
reveal_type(model.scale.grad)  # Tensor | None
linear = nn.Linear(2, 3, bias=False)
reveal_type(linear.bias)  # Tensor | None
reveal_type(linear.in_features)  # int
reveal_type(linear(weft.ones(2)))  # Tensor
reveal_type(nn.Conv2d(2, 3, 1)(weft.ones(1, 2, 3, 3)).relu().flatten(1))  # Tensor
reveal_type(nn.Conv2d(2, 3, 1).stride)  # tuple[int, ...]
reveal_type(nn.LayerNorm(2)(weft.ones(2)))  # Tensor
reveal_type(nn.Embedding(2, 3)(weft.arange(2)))  # Tensor
reveal_type(nn.CrossEntropyLoss()(weft.ones(2, 3), weft.arange(2)))  # Tensor
reveal_type(nn.Dropout()(weft.ones(2)).mean())  # Tensor
states, (hidden, cell) = nn.LSTM(2, 3)(weft.ones(2, 2, 2))
reveal_type(hidden)  # Tensor
reveal_type(nn.LSTM(2, 3).forward(weft.ones(2, 2, 2)))  # tuple[Tensor, tuple[Tensor, Tensor]]
reveal_type(list(model.parameters()))  # list[Parameter]
reveal_type(dict(model.named_parameters()))  # dict[str, Parameter]
optimizer = weft.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
reveal_type(optimizer)  # AdamW
reveal_type(optimizer.param_groups)  # list[dict[str, Any]]
scheduler = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
reveal_type(scheduler)  # CosineAnnealingLR
compiled = weft.compile(model, mode="default")
reveal_type(compiled)  # Model
reveal_type(compiled.scale)  # Parameter


@weft.compile(fullgraph=True, dynamic=True)
def step(x: Tensor, y: Tensor) -> Tensor:
    loss = nn.functional.mse_loss(compiled(x), y)
    loss.backward()
    return loss.detach()


reveal_type(step)  # def (x: Tensor, y: Tensor) -> Tensor
loader = weft.data.DataLoader(weft.data.TensorDataset(weft.ones(8, 4), weft.ones(8, 2)), batch_size=4)
reveal_type(loader)  # DataLoader[tuple[Tensor, ...]]
for x, y in loader:
    reveal_type(step(x, y))  # Tensor
reveal_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0))  # Tensor
with weft.autocast("cpu", dtype=weft.bfloat16), weft.no_grad():
    reveal_type(weft.nn.functional.cross_entropy(weft.ones(2, 3), weft.ones(2)))  # Tensor
values, indices = weft.ones(3).topk(2)
reveal_type(indices)  # Tensor
reveal_type(weft.ones(3).shape)  # Size
reveal_type(weft.ones(3).dtype)  # dtype
reveal_type(weft.ones(3).view(-1, 1).T[0, None].unbind())  # tuple[Tensor, ...]
"""
WRONG = """
import weft
weft.compile(weft.nn.ReLU(), fullgraph="yes")
weft.compile(3)
weft.nn.Linear(2, out=3)
weft.optim.AdamW([], lr=1e-3, decay=0.1)
"""


def mypy(folder: Path, text: str) -> list[str]:
    """What mypy --strict says of a user's program."""
    pytest.importorskip("mypy")
    script = folder / "user.py"
    script.write_text(text, encoding="utf-8")
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={folder / 'cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--no-error-summary", str(script)],
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return [line.partition("user.py:")[2] for line in done.stdout.splitlines() if "user.py:" in line]


@pytest.mark.slow
def test_types_that_an_editor_shows(tmp_path: Path) -> None:
    said = mypy(tmp_path, USER)
    assert not [line for line in said if "note" not in line]
    found = {int(line.partition(":")[0]): line.split('"')[1] for line in said}
    lines = enumerate(USER.splitlines(), start=1)
    wanted = {number: line.rpartition("  # ")[2] for number, line in lines if "reveal_type(" in line}
    short = {number: re.sub(r"\b(?:\w+\.)+(?=\w)", "", text) for number, text in found.items()}
    assert short == wanted


@pytest.mark.slow
def test_mistakes_that_an_editor_finds(tmp_path: Path) -> None:
    said = mypy(tmp_path, WRONG)
    assert {int(line.partition(":")[0]) for line in said if "error" in line} == {3, 4, 5, 6}
