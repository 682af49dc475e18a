# ruff: noqa: UP006, UP035
"""Saved scripted programs: they come back whole, and damaged or hostile files are refused."""

import io
import json
import zipfile
from typing import List, NamedTuple

import pytest

import weft
from weft import Tensor, nn
from weft.files import FileFormatError, UnsafeFileError


class Pair(NamedTuple):
    left: Tensor
    right: int


def inner(x, n: int = 2):
    return x * n


def program(x, names: List[str]):
    pair = Pair(x, len(names))
    total = inner(pair.left)
    for i, name in enumerate(names):
        if name == "stop":
            break
        with weft.no_grad():
            total = total + inner(x, i)
    assert total.dim() == 1, "flat"
    return total, f"{pair.right} {1e-3}", weft.zeros(2, dtype=weft.float64)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.conv = nn.Conv1d(1, 2, 3, padding=1)
        self.register_buffer("shift", weft.ones(3))
        self.count = 0
        self.factor = 2.0

    def forward(self, x):
        self.count += 1
        y = self.layers(x) * self.factor + self.shift
        return self.conv(y.unsqueeze(1)).sum(1) + y, self.count


def saved(thing, **extra):
    stream = io.BytesIO()
    weft.jit.save(thing, stream, **extra)
    return stream.getvalue()


def test_function_comes_back():
    scripted = weft.jit.script(program)
    loaded = weft.jit.load(io.BytesIO(saved(scripted)))
    for names in (["a", "b"], ["a", "stop", "c"]):
        x = weft.rand(3)
        one, two = loaded(x, names), scripted(x, names)
        weft.testing.assert_close(one[0], two[0])
        assert one[1] == two[1] and one[2].dtype == two[2].dtype
    assert str(loaded.graph).count("\n") == str(scripted.graph).count("\n")
    again = weft.jit.load(io.BytesIO(saved(loaded)))
    weft.testing.assert_close(again(x, names)[0], one[0])
    with pytest.raises(weft.jit.Error, match="flat"):
        loaded(weft.rand(2, 2), names)


def test_module_comes_back(tmp_path):
    model = Model()
    scripted = weft.jit.script(model)
    scripted(weft.rand(2, 3))
    path = tmp_path / "model.zip"
    weft.jit.save(scripted, path, {"note.txt": "hello"})
    notes = {"note.txt": ""}
    loaded = weft.jit.load(path, _extra_files=notes)
    assert notes == {"note.txt": "hello"} and loaded.count == 1
    x = weft.rand(2, 3)
    weft.testing.assert_close(loaded(x)[0], model(x)[0])
    assert list(loaded.state_dict()) == list(model.state_dict())
    loaded(x)[0].sum().backward()
    assert all(p.grad is not None for p in loaded.parameters())


def test_python_calls_are_not_saved():
    @weft.jit.ignore
    def outside(x):
        return x

    def caller(x):
        return outside(x)

    with pytest.raises(RuntimeError, match="Could not export Python function call 'outside'"):
        saved(weft.jit.script(caller))


def changed(content, name, change):
    """The file with one member changed."""
    source = zipfile.ZipFile(io.BytesIO(content))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        for member in source.namelist():
            data = source.read(member)
            target.writestr(member, change(data.decode()) if member == name else data)
    return io.BytesIO(stream.getvalue())


HOSTILE = [
    lambda text: text.replace("aten::mul", "aten::load"),
    lambda text: text.replace("aten::mul(", 'aten::system{"_from": "os"}('),
    lambda text: text.replace("aten::mul", "evil::mul"),
    lambda text: text.replace("aten::mul(", "prim::DifferentiableGraph("),
    lambda text: text.replace("%n.1)", "a;b=%n.1)"),
    lambda text: text.replace("aten::mul(", 'prim::GetAttr{"name": "__class__"}('),
    lambda text: text.replace("aten::mul(%x.1, %n.1)", 'prim::PythonOp{"_library": "os", "name": "x"}(%x.1)'),
    lambda text: text.replace("aten::mul(%x.1, %n.1)", 'prim::CreateObject{"name": "eval"}()'),
]


@pytest.mark.parametrize("change", HOSTILE)
def test_hostile_graphs_are_refused(change):
    content = saved(weft.jit.script(inner))
    with pytest.raises(UnsafeFileError, match="the file"):
        weft.jit.load(changed(content, "graphs/0.txt", change))


DAMAGED = [
    ("graphs/0.txt", lambda text: text[: len(text) // 2]),
    ("graphs/0.txt", lambda text: text.replace("Tensor", "Tensro")),
    ("graphs/0.txt", lambda text: text.replace("%x.1,", "%q.1,")),
    ("graphs/0.txt", lambda text: ""),
    ("facts.json", lambda text: text[:-5]),
    ("facts.json", lambda text: text.replace('"version": 1', '"version": 99')),
    ("facts.json", lambda text: json.dumps({"format": "weft.jit", "version": 1})),
    ("facts.json", lambda text: "[]"),
    ("sources.json", lambda text: "{"),
    ("tensors.safetensors", lambda text: "short"),
]


@pytest.mark.parametrize("name, change", DAMAGED)
def test_damaged_files_are_refused(name, change):
    content = saved(weft.jit.script(inner))
    with pytest.raises(FileFormatError):
        weft.jit.load(changed(content, name, change))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileFormatError, match="not a scripted program"):
        weft.jit.load(io.BytesIO(b"nothing of the kind"))
    content = saved(weft.jit.script(inner))
    with pytest.raises(FileFormatError):
        weft.jit.load(io.BytesIO(content[: len(content) // 2]))
    assert b"pickle" not in content
