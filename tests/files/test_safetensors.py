"""Safetensors: what goes in comes out, others agree, and headers that lie are refused."""

from __future__ import annotations

import io
import json

import pytest

import weft
from weft.files import FileFormatError, safetensors

KINDS = [weft.bool, weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.bfloat16]
KINDS += [weft.float32, weft.float64, weft.complex64]


def test_tensors_come_back(tmp_path):
    tensors = {str(kind): weft.tensor([[0, 1, 1]]).to(kind) for kind in KINDS}
    tensors |= {
        "scalar": weft.tensor(2.5),
        "empty": weft.empty(0, 3),
        "turned": weft.arange(6).reshape(2, 3).t(),
    }
    path = tmp_path / "x.safetensors"
    safetensors.save_file(tensors, path, {"by": "me"})
    found = weft.files.load_file(path)
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert (
            found[name].dtype is tensor.dtype
            and weft.equal(found[name], tensor)
            and found[name].is_contiguous()
        )
    assert weft.equal(safetensors.load(safetensors.save(tensors))["turned"], tensors["turned"])
    assert weft.load(path).keys() == found.keys()
    with safetensors.safe_open(path) as file:
        assert file.metadata() == {"by": "me"} and set(file.keys()) == set(tensors)
        assert file.get_tensor("scalar").item() == 2.5
        with pytest.raises(KeyError, match="File does not contain tensor y"):
            file.get_tensor("y")
    assert safetensors.load_file(path, device="meta")["scalar"].is_meta


def test_the_other_implementation_agrees(tmp_path):
    others = pytest.importorskip("safetensors.numpy")
    tensors = {"b": weft.arange(6).reshape(2, 3), "a": weft.ones(3), "c": weft.tensor(True)}
    safetensors.save_file(tensors, tmp_path / "x")
    found = others.load_file(tmp_path / "x")
    assert {name: array.tolist() for name, array in found.items()} == {
        k: v.tolist() for k, v in tensors.items()
    }
    others.save_file(found, tmp_path / "y")
    assert all(weft.equal(safetensors.load_file(tmp_path / "y")[name], tensors[name]) for name in tensors)


def test_elements_lie_aligned():
    content = safetensors.save({"a": weft.ones(1, dtype=weft.uint8), "b": weft.ones(1, dtype=weft.float64)})
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert size % 8 == 0 and header["b"]["data_offsets"] == [0, 8] and header["a"]["data_offsets"] == [8, 9]


@pytest.mark.parametrize(
    ("tensors", "kind", "text"),
    [
        ([weft.ones(1)], ValueError, "Expected a dict"),
        ({"x": 1}, ValueError, "Key `x` is invalid"),
        ({1: weft.ones(1)}, ValueError, "Key 1 is no text"),
        ({"__metadata__": weft.ones(1)}, ValueError, "cannot be the name"),
        ({"x": weft.ones(1, dtype=weft.complex128)}, TypeError, "no dtype for weft.complex128"),
        ({"x": weft.empty(1, device="meta")}, ValueError, "meta tensor"),
    ],
    ids=range(6),
)
def test_what_cannot_be_saved(tensors, kind, text):
    with pytest.raises(kind, match=text):
        safetensors.save(tensors)


def entry(start, end, shape, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"a": entry(0, 8, [2]), "b": entry(4, 8, [1])}, "overlap or leave gaps"),
        ({"a": entry(0, 4, [1])}, "the header speaks of 4 bytes of elements, the file has 8"),
        ({"a": entry(4, 8, [1])}, "overlap or leave gaps"),
        ({"a": entry(0, 12, [3])}, "the header speaks of 12 bytes"),
        ({"a": entry(0, 8, [3])}, "needs 12 bytes"),
        ({"a": entry(0, 8, [-2])}, "has the shape"),
        ({"a": entry(8, 0, [2])}, "needs 8 bytes"),
        ({"a": entry(0, 8, [2**62, 2**62, 0])}, "needs 0 bytes"),
        ({"a": entry(0, 8, [2], "F4")}, "which Weft does not have"),
        ({"a": entry(0, 8, [2], 3)}, "a dtype that is no text"),
        ({"a": {"dtype": "F32"}}, "has the keys"),
        ({"a": 3}, "is no object"),
        ({"a": entry(0, 8, [2]), "__metadata__": {"x": 1}}, "must map names to texts"),
        ({"a": entry(0.0, 8, [2])}, "has the offsets"),
        ([1], r"begins with '\{'"),
    ],
    ids=str,
)
def test_headers_that_lie(header, text):
    raw = json.dumps(header).encode()
    with pytest.raises(FileFormatError, match=text):
        safetensors.load(len(raw).to_bytes(8, "little") + raw + bytes(8))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "too few"),
        ((2**63).to_bytes(8, "little") + b"{}", "over the limit"),
        ((10**7).to_bytes(8, "little") + b"{}", "cut off"),
        (b"\x02" + bytes(7) + b"{]", "is not JSON"),
        (b"\x04" + bytes(7) + b"{\xff\xff}", "is not JSON"),
        ((200_001).to_bytes(8, "little") + b'{"a":' + b"[" * 199_996, "nested too deeply|is not JSON"),
        (b"\x0f" + bytes(7) + b'{"a":{},"a":{}}', "a name twice"),
    ],
    ids=range(7),
)
def test_headers_that_are_none(content, text):
    with pytest.raises(FileFormatError, match=text):
        safetensors.load_file(io.BytesIO(content))
