"""Kept entries: what another process has captured is used where it holds, and nowhere else.

A module is written, read and compiled; then, as if in another process, it is read again with something
changed. Results must be those of the function as it is then, whatever was kept. One idea: each attack says
whether the entry may be used, so that a change which is noticed for the wrong reason does not count.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import weft
from weft.capture.entry_cache import read, write
from weft.native.program.cache import store

SUBJECT = """
import enum

import weft
from weft import nn

SCALE = 2.0
TABLE = {"factor": 3.0, "names": ["a", "b"]}


def helper(x, power=2.0):
    return (x * power).tanh()


class Net(nn.Module):
    shift = 1.5

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return helper(self.layer(x)) + self.shift


class Kind(enum.Enum):
    HALF = 1
    FULL = 2


CHOSEN = Kind.FULL


def globals_(x):
    return helper(x) * SCALE + TABLE["factor"] + len(TABLE["names"]) + (3 if CHOSEN is Kind.FULL else 4)


def make_closure(count):
    def closed(x):
        return x.relu() + count
    return closed


def library(x):
    return weft.relu(x) + nn.functional.softplus(x)


def method(x):
    return x.relu().exp()
"""


class Other:
    """Stands for processes: `module` reads the file anew, and nothing of before is in memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.monkeypatch, self.count = folder / "kept_subject.py", monkeypatch, 0

    def module(self, text: str = SUBJECT) -> Any:
        if not self.file.exists() or self.file.read_text() != text:
            self.file.write_text(text)
            os.utime(self.file, (1, 1 + self.count))  # long before this process
        self.count += 1
        for each in (write, read):
            self.monkeypatch.setattr(each, "PROCESS", f"process {self.count}")
        weft.compiler.reset()
        read.counts.clear()
        sys.modules.pop("kept_subject", None)
        importlib.invalidate_caches()
        self.monkeypatch.setattr(sys, "dont_write_bytecode", True)
        return importlib.import_module("kept_subject")


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Other(tmp_path, monkeypatch)
    sys.modules.pop("kept_subject", None)


def taught(function: Callable[..., Any], *args: Any) -> None:
    """Compiles the function, and keeps the entry."""
    compiled = weft.compile(function, backend="native")
    for _ in range(2):
        compiled(*args)


def same(one: Any, two: Any) -> None:
    assert one.dtype == two.dtype and one.requires_grad == two.requires_grad
    np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-6)


def served(function: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Whether a kept entry serves a call of it, which must give what the function gives."""
    compiled = weft.compile(function, backend="native", **options)
    for _ in range(3):
        same(compiled(*args), function(*args))
    return read.counts["found"] > 0


X = weft.tensor([[0.5, -1.0, 2.0]])


# -- what may be used ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["globals_", "library", "method"])
def test_another_process_captures_nothing(other: Other, name: str) -> None:
    taught(getattr(other.module(), name), X)
    assert served(getattr(other.module(), name), X)


def test_a_model_of_other_weights(other: Other) -> None:
    text = SUBJECT + "\n\ndef run(net, x):\n    return net(x)\n"
    for count in range(2):
        module = other.module(text)
        net = module.Net().requires_grad_(False)
        assert served(module.run, net, X) is (count > 0)


MODEL_CHANGES: dict[str, Callable[[Any], Any]] = {
    "mode": lambda net: net.train(),
    "hook": lambda net: net.layer.register_forward_hook(lambda module, args, out: out * 3),
    "layer": lambda net: setattr(net, "layer", weft.nn.Identity()),
    "no bias": lambda net: setattr(net.layer, "bias", None),
    "attribute": lambda net: setattr(net, "shift", 3),
    "class": lambda net: setattr(type(net), "shift", 4),
    "method": lambda net: setattr(net, "forward", lambda x: x * 5),
    "class method": lambda net: setattr(type(net), "forward", lambda self, x: x * 6),
    "layer method": lambda net: setattr(net.layer, "forward", lambda x: x * 7),
}


@pytest.mark.parametrize("change", MODEL_CHANGES)
def test_a_model_that_differs(other: Other, change: str) -> None:
    text = SUBJECT.replace("shift = 1.5", "shift = 2") + (
        "\n\ndef run(net, x):\n    return net(x) * (2 if net.training else 1)\n"
    )
    module = other.module(text)
    taught(module.run, module.Net().eval().requires_grad_(False), X)
    module = other.module(text)
    net = module.Net().eval().requires_grad_(False)
    MODEL_CHANGES[change](net)
    assert not served(module.run, net, X)
    assert served(other.module(text).run, sys.modules["kept_subject"].Net().eval().requires_grad_(False), X)


# -- attacks -------------------------------------------------------------------------------------------------
TEXTS: dict[str, tuple[str, str, str]] = {
    "a global": ("SCALE = 2.0", "SCALE = 2.5", "globals_"),
    "a helper's body": ("(x * power).tanh()", "(x * power).sin()", "globals_"),
    "a default": ("power=2.0", "power=2.25", "globals_"),
    "a constant in a table": ('"factor": 3.0', '"factor": 3.5', "globals_"),
    "a length": ('["a", "b"]', '["a", "b", "c"]', "globals_"),
    "a comment": ("SCALE = 2.0", "SCALE = 2.0  # two", "globals_"),
}


@pytest.mark.parametrize("attack", TEXTS)
def test_another_file(other: Other, attack: str) -> None:
    old, new, name = TEXTS[attack]
    taught(getattr(other.module(), name), X)
    assert not served(getattr(other.module(SUBJECT.replace(old, new)), name), X)


def set_scale(module: Any) -> None:
    module.SCALE = 7.0


def set_helper(module: Any) -> None:
    module.helper = lambda x, power=1.0: x - power


def set_default(module: Any) -> None:
    module.helper.__defaults__ = (4.0,)


def set_table(module: Any) -> None:
    module.TABLE["names"].append("c")


def set_code(module: Any) -> None:
    module.helper.__code__ = (lambda x, power: x / power).__code__


def mark_helper(module: Any) -> None:
    module.helper = weft.compiler.disable(module.helper)


def constant_helper(module: Any) -> None:
    weft.compiler.allow_in_graph(module.helper)


def set_member(module: Any) -> None:
    module.Kind.FULL._value_ = 5


def swap_member(module: Any) -> None:
    module.CHOSEN = module.Kind.HALF


CHANGES = [set_member, swap_member, set_helper, set_table, set_code, mark_helper, constant_helper]


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_file_with_something_changed(other: Other, change: Callable[[Any], None]) -> None:
    taught(other.module().globals_, X)
    module = other.module()
    change(module)
    assert not served(module.globals_, X)


@pytest.mark.parametrize("change", [set_scale, set_default])
def test_floats_may_be_others(other: Other, change: Callable[[Any], None]) -> None:
    taught(other.module().globals_, X)
    module = other.module()
    change(module)
    assert served(module.globals_, X)


@pytest.mark.parametrize(
    "text", ["x.clamp(max=SCALE)", "x + weft.full((3,), SCALE)", "x.var(correction=SCALE)"]
)
def test_floats_that_are_part_of_a_program(other: Other, text: str) -> None:
    text = f"{SUBJECT}\n\ndef subject(x):\n    return {text}\n"
    taught(other.module(text).subject, X)
    module = other.module(text)
    module.SCALE = 0.25
    assert not served(module.subject, X)
    assert served(other.module(text).subject, X)


def test_conditions_on_floats(other: Other) -> None:
    text = f"{SUBJECT}\n\ndef subject(x):\n    return x.tanh() if SCALE > 1.5 else x.sin()\n"
    taught(other.module(text).subject, X)
    for scale, found in ((1.75, True), (1.0, False)):
        module = other.module(text)
        module.SCALE = scale
        assert served(module.subject, X) is found


def test_containers_that_grow(other: Other) -> None:
    body = (
        "    y = x + 1\n    H.setdefault('a', []).append(y)\n    SEEN[len(SEEN)] = y\n    return H['a'][-1]\n"
    )
    text = f"{SUBJECT}\nH = {{}}\nSEEN = {{}}\n\ndef subject(x):\n{body}"
    compiled = weft.compile(other.module(text).subject, backend="native")
    for _ in range(5):
        compiled(X)
    module = other.module(text)
    module.SEEN.update({0: None, 1: None})
    module.H["a"] = [None, None]
    assert served(module.subject, X) and len(module.H["a"]) == len(module.SEEN) == 8


def test_sizes_that_vary(other: Other) -> None:
    text = f"{SUBJECT}\n\ndef subject(x):\n    return x.sum(0) / x.shape[0] if x.shape[0] > 2 else x\n"
    for found in (False, True):
        function = other.module(text).subject
        compiled = weft.compile(function, backend="native")
        for size in (4, 4, 6, 4, 6, 6):
            x = weft.randn(size, 3)
            same(compiled(x), function(x))
        assert read.counts["found"] == 2 * found
        for size in (7, 1, 4, 6, 8):
            x = weft.randn(size, 3)
            same(compiled(x), function(x))
    assert not served(other.module(text).subject, weft.randn(2, 3))


def test_globals_of_its_own(other: Other) -> None:
    taught(other.module().globals_, X)
    module = other.module()
    space = {**module.__dict__, "TABLE": {"factor": 4.0, "names": ["a", "b"]}}
    assert not served(FunctionType(module.globals_.__code__, space), X)


def test_closures(other: Other) -> None:
    taught(other.module().make_closure(3), X)
    assert not served(other.module().make_closure(4), X)
    assert not served(other.module().make_closure(3.0), X)
    assert served(other.module().make_closure(3), X)


ARGUMENTS = [
    X.double(), weft.ones(2, 3), weft.ones(3, 1).t(), weft.ones(1, 3, requires_grad=True),
    weft.nn.Parameter(weft.ones(1, 3), requires_grad=False), weft.ones(1, 6)[:, ::2],
]  # fmt: skip


@pytest.mark.parametrize("value", ARGUMENTS, ids=["dtype", "shape", "layout", "grad", "class", "stride"])
def test_other_arguments(other: Other, value: Any) -> None:
    taught(other.module().method, X)
    function = other.module().method
    assert not served(function, value)
    same(weft.compile(function, backend="native")(X), function(X))


def changed_relu(x: Any) -> Any:
    return x * 100


@pytest.mark.parametrize("how", ["replaced", "wrapped", "swapped", "code"])
def test_an_op_is_patched(other: Other, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    taught(other.module().library, X)
    module = other.module()
    patches = {
        "replaced": changed_relu, "wrapped": functools.wraps(weft.relu)(changed_relu), "swapped": weft.tanh,
    }  # fmt: skip
    if how == "code":
        made = functools.wraps(weft.relu)(changed_relu)
        made.__dict__["op"] = weft.tanh.op
        patches["code"] = made
    monkeypatch.setattr(weft, "relu", patches[how])
    assert not served(module.library, X)


@pytest.mark.parametrize("owner", [weft.Tensor, weft.nn.functional], ids=["method", "functional"])
def test_the_library_is_patched(other: Other, monkeypatch: pytest.MonkeyPatch, owner: Any) -> None:
    name = "relu" if owner is weft.Tensor else "softplus"
    subject = "method" if owner is weft.Tensor else "library"
    taught(getattr(other.module(), subject), X)
    module = other.module()
    monkeypatch.setattr(owner, name, changed_relu)
    assert not served(getattr(module, subject), X)


def test_settings_and_defaults(other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    taught(other.module().method, X)
    assert not served(other.module().method, X, dynamic=True)
    assert not served(other.module().method, X, fullgraph=True)
    monkeypatch.setattr(weft.compiler.settings, "recompile_limit", 5)
    assert not served(other.module().method, X)
    monkeypatch.undo()


def test_default_dtype(other: Other) -> None:
    text = SUBJECT + "\n\ndef makes(x):\n    return weft.ones(3) + x.double()\n"
    taught(other.module(text).makes, X)
    module = other.module(text)
    weft.set_default_dtype(weft.float64)
    try:
        assert not served(module.makes, X)
    finally:
        weft.set_default_dtype(weft.float32)
    assert served(other.module(text).makes, X)


def test_modes(other: Other) -> None:
    taught(other.module().method, X)
    module = other.module()
    with weft.no_grad():
        assert not served(module.method, X)
    with weft.autocast("cpu", weft.bfloat16):
        assert not served(module.method, X)


def test_a_file_that_changes_while_the_process_runs(other: Other) -> None:
    module = other.module()
    os.utime(other.file)
    taught(module.method, X)
    assert not served(other.module().method, X)


def test_a_module_of_the_same_name_elsewhere(other: Other, tmp_path: Path) -> None:
    taught(other.module().globals_, X)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other.file = elsewhere / "kept_subject.py"
    other.monkeypatch.syspath_prepend(str(elsewhere))
    assert not served(other.module(SUBJECT.replace("SCALE = 2.0", "SCALE = 9.0")).globals_, X)


REFUSED = {
    "a result that is assumed": """
import random
import weft


def constant():
    return VALUE


weft.compiler.assume_constant_result(constant)
VALUE = 1.0


def subject(x):
    return x * constant()
""",
    "an array": """
import numpy as np
import weft

ROWS = np.array([1.0, 2.0, 3.0], np.float32)


def subject(x):
    return x + weft.from_numpy(ROWS)
""",
    "a function of its own": """
import weft


class Double(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def subject(x):
    return Double.apply(x)
""",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_kept(other: Other, what: str) -> None:
    taught(other.module(REFUSED[what]).subject, X)
    module = other.module(REFUSED[what])
    if hasattr(module, "VALUE"):
        module.VALUE = 5.0
    assert not served(module.subject, X)


@pytest.mark.parametrize("damage", ["cut", "flipped", "no json", "other keys", "no program"])
def test_damaged_files(other: Other, damage: str) -> None:
    taught(other.module().method, X)
    folder = Path(str(store().folder))
    (entry,) = folder.glob("*.entry")
    content = entry.read_bytes()
    key = entry.name.removesuffix(".entry")
    if damage == "cut":
        entry.write_bytes(content[:-20])
    elif damage == "flipped":
        entry.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    elif damage == "no json":
        store().put("entry", key, b"[{")
    elif damage == "other keys":
        store().put("entry", key, json.dumps([{"process": ""}, 3, None]).encode())
    else:
        for each in folder.glob("*.program"):
            each.unlink()
    assert not served(other.module().method, X)
    assert served(other.module().method, X)  # it was kept again


# -- training ------------------------------------------------------------------------------------------------
STEP = (
    SUBJECT
    + """

def make_step(lr, hook=False):
    weft.manual_seed(0)
    net = Net()
    optimizer = weft.optim.Adam(net.parameters(), lr=lr)
    if hook:
        net.register_forward_hook(lambda module, args, out: out * 2)

    def step(x):
        loss = net(x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return net, optimizer, step
"""
)


def trained(module: Any, compile_it: bool, lr: float = 0.01, hook: bool = False) -> list[Any]:
    net, optimizer, step = module.make_step(lr, hook)
    run = weft.compile(step, backend="native") if compile_it else step
    losses = [run(X).numpy() for _ in range(3)]
    state = [value for each in optimizer.state.values() for value in each.values()]
    tensors = [*net.parameters(), *[each.grad for each in net.parameters()], *state]
    return [*losses, *[each.detach().numpy() for each in tensors]]


@pytest.mark.parametrize(
    ("lr", "hook", "found"), [(0.01, False, True), (0.5, False, True), (0.01, True, False)]
)
def test_a_whole_step(other: Other, lr: float, hook: bool, found: bool) -> None:
    trained(other.module(STEP), True)
    module = other.module(STEP)
    got = trained(module, True, lr, hook)
    assert (read.counts["found"] > 0) is found
    for one, two in zip(got, trained(module, False, lr, hook), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_a_step_whose_entry_does_not_hold_leaves_no_state(other: Other) -> None:
    trained(other.module(STEP), True)
    module = other.module(STEP)
    module.SCALE = None  # not read
    module.Net.shift = 2.5
    net, optimizer, step = module.make_step(0.01)
    states: list[int] = []
    found = read.restored

    def noted(*args: Any) -> Any:
        try:
            return found(*args)
        finally:
            states.append(len(optimizer.state))

    other.monkeypatch.setattr(read, "restored", noted)
    weft.compile(step, backend="native")(X)
    assert states == [0] and read.counts["found"] == 0


# -- real processes ------------------------------------------------------------------------------------------
SCRIPT = """
import sys
import weft
from weft.capture.entry_cache import read

WEIGHT = int(sys.argv[1])


def f(x):
    total = x * WEIGHT
    for name in ("one", "three"):
        total = total * len(name) + 1
    return total


def g(x):
    total = x * WEIGHT
    for name in {"one", "three", "five", "eleven"}:
        total = total * len(name) + 1
    return total


chosen, x = g if len(sys.argv) > 2 else f, weft.ones(2)
print(weft.compile(chosen, backend="native")(x).tolist() == chosen(x).tolist(), read.counts["found"])
"""


def run(tmp_path: Path, *args: str, count: int = 1, **environment: str) -> list[str]:
    script = tmp_path / "script.py"
    if not script.exists():
        script.write_text(SCRIPT)
        os.utime(script, (1, 1))
    root = str(Path(weft.__file__).parents[1])
    space = {"PYTHONPATH": root, "WEFT_CACHE_DIR": str(tmp_path / "cache"), **environment}
    command = [sys.executable, str(script), *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": space}
    running = [subprocess.Popen(command, **pipes) for _ in range(count)]  # type: ignore[call-overload]
    said = [each.communicate(timeout=120) for each in running]
    assert [error for _, error in said] == [""] * count
    return [out for out, _ in said]


def test_processes(tmp_path: Path) -> None:
    at_once = run(tmp_path, "2", count=2)  # one may find what the other kept, if it is slower
    assert "True 0\n" in at_once and set(at_once) <= {"True 0\n", "True 1\n"}
    assert run(tmp_path, "2") == ["True 1\n"]
    assert run(tmp_path, "3") == ["True 0\n"]


def test_hashes_of_texts(tmp_path: Path) -> None:
    said = [run(tmp_path, "2", "sets", PYTHONHASHSEED=seed) for seed in ("1", "1", "2")]
    assert said == [["True 0\n"], ["True 1\n"], ["True 0\n"]]


def test_nothing_is_kept_of_a_module_without_a_file(other: Other) -> None:
    module = ModuleType("kept_nowhere")
    exec(SUBJECT, module.__dict__)
    sys.modules["kept_nowhere"] = module
    try:
        taught(module.method, X)
        assert not list(Path(str(store().folder)).glob("*.entry"))
    finally:
        del sys.modules["kept_nowhere"]


def test_functions_that_transforms_make(other: Other) -> None:
    text = f"{SUBJECT}\nslope = weft.func.grad(lambda x: helper(x).sum())\n"
    text += "\n\ndef subject(x):\n    return slope(x)\n"
    taught(other.module(text).subject, X)
    assert served(other.module(text).subject, X)


DISPATCHED = f"""{SUBJECT}
import functools


@functools.singledispatch
def chosen(x):
    return x * 2


def subject(x):
    return chosen(x)
"""


def test_generic_functions_may_have_other_implementations(other: Other) -> None:
    taught(other.module(DISPATCHED).subject, X)
    module = other.module(DISPATCHED)
    module.chosen.register(weft.Tensor)(lambda x: x * 3)
    assert not served(module.subject, X)
