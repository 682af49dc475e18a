"""Checkpoints of PyTorch: files that PyTorch 2.13 wrote, files that nobody should write, PyTorch itself."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import nn, optim
from weft.files import FileFormatError, UnsafeFileError

HERE = Path(__file__).parent / "checkpoints"


@pytest.mark.parametrize("name", ["data.pt", "legacy.pth"])
def test_what_pytorch_wrote(name):
    data = weft.load(HERE / name)
    assert data["base"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    for kind, tensor in data["every"].items():
        assert tensor.dtype is getattr(weft, kind)
        assert weft.equal(tensor, weft.tensor([0, 1, 1 if kind == "bool" else 3]).to(tensor.dtype))
    assert type(data["parameter"]) is nn.Parameter and data["parameter"].requires_grad
    assert data["tied"] is data["parameter"] and data["parameter"].tolist() == [[0, 0.25], [0.5, 0.75]]
    assert type(data["frozen"]) is nn.Parameter and not data["frozen"].requires_grad
    assert type(data["leaf"]) is weft.Tensor and data["leaf"].requires_grad
    assert data["scalar"].item() == 2.5 and data["empty"].shape == (0, 3)
    assert data["expanded"].stride() == (0,) and data["noted"].note == "kept"
    assert data["conj"].tolist() == [1 - 2j] and data["neg"].tolist() == [-2]
    assert data["size"] == weft.Size([2, 3]) and type(data["size"]) is weft.Size
    assert data["dtype"] is weft.bfloat16 and data["device"] == weft.device("cpu")
    assert type(data["ordered"]) is OrderedDict and data["counter"] == Counter("aab")
    assert type(data["default"]) is defaultdict and data["default"].default_factory is list
    assert data["set"] == {1, 2} and data["frozenset"] == frozenset("a") and data["range"] == range(1, 9, 2)
    assert data["numbers"] == [1, -2, 2**70, 1.5, True, None, 1 + 2j, float("inf")]
    assert data["text"] == "héé" and data["bytes"] == b"\0\xff" and data["tuple"] == (1, (2,))
    assert type(data["numpy"]) is np.float32 and data["numpy"] == 1.5
    assert data["array"].tolist() == [[0, 3], [1, 4], [2, 5]] and data["array"].dtype == np.int16
    assert data[5] == "five" and data["k", 1] == "pair"
    if name == "data.pt":
        assert data["meta"].is_meta and data["meta"].shape == (3,)
    data["base"][1, 0] = 99
    assert data["row"][0] == 99 == data["column"][1, 0] == data["turned"][0, 1]


@pytest.mark.parametrize("options", [{}, {"mmap": True}], ids=["read", "mapped"])
def test_training_moves_over(options):
    found = weft.load(HERE / "training.pt", **options)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model.load_state_dict(found["model"])
    assert found["model"]._metadata["1"] == {"version": 2}
    model.eval()
    weft.testing.assert_close(model(found["x"]), found["y"], rtol=1e-5, atol=1e-6)
    optimizer = optim.AdamW(model.parameters(), lr=1.0, amsgrad=True)
    optimizer.load_state_dict(found["optimizer"])
    assert optimizer.state[model[0].weight]["step"].item() == 3
    scheduler = optim.lr_scheduler.MultiStepLR(optimizer, [1])
    scheduler.load_state_dict(found["scheduler"])
    assert scheduler.get_last_lr() == [0.001] and scheduler.milestones == Counter([2, 4])


def test_locations():
    assert weft.load(HERE / "small.pt", map_location="meta")["w"].is_meta
    asked = []
    weft.load(HERE / "small.pt", map_location=lambda storage, where: asked.append((storage.nbytes(), where)))
    assert asked[0] == (24, "cpu")


def test_a_whole_module_is_refused():
    with pytest.raises(UnsafeFileError, match=r"GLOBAL torch\.nn\.modules\.container\.Sequential"):
        weft.load(HERE / "module.pt", weights_only=False)


# -- hostile zip files ---------------------------------------------------------------------------------------
def zipped(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def refused(content, text):
    with pytest.raises(FileFormatError, match=text):
        weft.load(io.BytesIO(content))


NOTHING = pickle.dumps(None, 2)


def test_zip_files_that_are_refused():
    assert weft.load(io.BytesIO(zipped({"a/data.pkl": NOTHING}))) is None
    refused(zipped({"a/data.pkl": bytes(10**6)}, zipfile.ZIP_DEFLATED), "is compressed")
    refused(zipped({"a/x": b""}), "has no data.pkl")
    refused(zipped({"a/data.pkl": NOTHING, "b/data.pkl": NOTHING}), "several data.pkl")
    refused(zipped({"a/data.pkl": NOTHING, "a/constants.pkl": NOTHING}), "TorchScript")
    scripted = {"a/code/__torch__/net.py": b"def forward", "a/data.pkl": NOTHING}
    refused(zipped(scripted, zipfile.ZIP_DEFLATED), "is a TorchScript archive.*state_dict")
    assert weft.load(io.BytesIO(zipped({"code/data.pkl": NOTHING}))) is None
    refused(zipped({"a/data.pkl": NOTHING, "a/byteorder": b"big"}), "byte order")
    for name in ("../data.pkl", "/data.pkl", "a/../../data.pkl", "a\\data.pkl"):
        content = zipped({"x" * len(name): NOTHING}).replace(b"x" * len(name), name.encode())
        refused(content, "is no name for a member")
    good = zipped({"a/data.pkl": NOTHING, "a/version": b"3"})
    refused(good[:-10], "cut off")
    refused(good + b"more", "something follows|cut off")
    end = good.rfind(b"PK\x05\x06")
    entries, size, start = struct.unpack_from("<HLL", good, end + 10)

    def with_end(**fields):
        made = bytearray(good)
        struct.pack_into("<HHLL", made, end + 8, fields.get("here", entries), fields.get("count", entries),
                         fields.get("size", size), fields.get("start", start))  # fmt: skip
        return bytes(made)

    refused(with_end(count=60_000, here=60_000), "do not fit")
    refused(with_end(here=1), "split zip file")
    refused(with_end(start=2**31), "directory of the zip file should lie")
    refused(with_end(start=start - 1), "damaged")

    def with_entry(offset, layout, value, which=0):
        made = bytearray(good)
        place = start
        for _ in range(which):
            place = made.index(b"PK\x01\x02", place + 4)
        struct.pack_into(layout, made, place + offset, value)
        return bytes(made)

    refused(with_entry(8, "<H", 1), "is encrypted")
    refused(with_entry(16, "<L", 1), "checksum of 'a/data.pkl' is wrong")
    refused(with_entry(20, "<L", 99), "is compressed")
    refused(with_entry(42, "<L", 5), "there is no member at the place")
    refused(with_entry(42, "<L", 0, which=1), "the member at the place of 'a/version' is b'a/data.pkl'")
    refused(with_entry(20, "<LL".replace("LL", "Q"), (10**6 << 32) | 10**6), "where the directory is|overlap")
    twice = zipped({"a/data.pkl": NOTHING, "a/data.pk1": NOTHING}).replace(b"data.pk1", b"data.pkl")
    refused(twice, "two members are named")


# -- hostile pickles -----------------------------------------------------------------------------------------
def checkpoint(code, **members):
    return zipped(
        {"a/data.pkl": code, **{f"a/data/{name.strip('_')}": content for name, content in members.items()}}
    )


FLOATS = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0%sX\x03\0\0\0cpu%stQ"


def storage(key=b"0", count=b"K\x02"):
    return FLOATS % (key, count)


def tensor(size=b"K\x02\x85", stride=b"K\x01\x85", offset=b"K\x00", source=None, rest=b"\x89N"):
    source = storage() if source is None else source
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + source + offset + size + stride + rest + b"tR."


def test_tensors_by_hand():
    content = np.array([1, 2], np.float32).tobytes()
    assert weft.load(io.BytesIO(checkpoint(tensor(), _0=content))).tolist() == [1, 2]
    for code, text in [
        (tensor(size=b"K\x03\x85"), "needs 12 bytes, but its storage has 8"),
        (tensor(offset=b"K\x01"), "needs 12 bytes"),
        (tensor(offset=b"J\xff\xff\xff\xff"), "a tensor's offset is -1"),
        (tensor(stride=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85"), "needs"),
        (tensor(stride=b"J\xff\xff\xff\xff\x85"), "a tensor's strides are"),
        (tensor(size=b"G" + bytes(8) + b"\x85"), "a tensor's sizes are"),
        (tensor(stride=b"K\x01K\x01\x86"), "1 sizes and 2 strides"),
        (tensor(source=b"N"), "instead of a storage"),
        (tensor(source=storage(count=b"K\x03")), "has 8 bytes, and should have 12"),
        (tensor(source=storage(count=b"J\xff\xff\xff\xff")), "described by strange things"),
        (tensor(source=storage(key=b"1")), "there is no 'a/data/1'"),
        (tensor(source=storage(key=b"/")), "a storage is named '/'"),
        (tensor(rest=b"K\x01N"), "neither True nor False"),
        (tensor(rest=b""), "cannot be made"),
        (b"ctorch._utils\n_rebuild_sparse_tensor\n)R.", "sparse tensor"),
        (
            b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR.",
            "a parameter is made of an object of type int",
        ),
    ]:
        refused(checkpoint(code, _0=content), text)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (b"cos\nsystem\n.", "Unsupported global: GLOBAL os.system"),
        (b"cbuiltins\neval\n(X\x01\0\0\x001tR.", "Unsupported global: GLOBAL builtins.eval"),
        (b"X\x02\0\0\0osX\x06\0\0\0system\x93.", "Unsupported global: GLOBAL os.system"),
        (b"cbuiltins\ngetattr\n.", "Unsupported global"),
        (b"ctorch.storage\n_load_from_bytes\n.", "Unsupported global"),
        (b"c__builtin__\n__import__\n.", "Unsupported global"),
        (b"(ios\nsystem\n.", r"opcode b'i'"),
        (b"(o.", "opcode b'o'"),
        (b"\x82\x01.", "opcode"),
        (b"K\x01K\x02R.", "the pickle calls int"),
        (b"cbuiltins\nint\n)R.", "the pickle calls builtins.int"),
        (b"cbuiltins\nint\n.", "holds a function or a class instead of data"),
        (b"](cbuiltins\nint\ne.", "holds a function or a class instead of data"),
        (b"}}X\x01\0\0\0aK\x01sb.", "sets attributes of an object of type dict"),
        (b"ccollections\nOrderedDict\n)R}X\x05\0\0\0clearK\x01sb.", "sets attributes"),
        (b"ccollections\ndefaultdict\ncbuiltins\nset\n\x85R.", None),
        (b"ccollections\ndefaultdict\nccollections\nOrderedDict\n\x85R.", "not allowed"),
        (b"K\x01.", None),
        (b"\x80\x63K\x01.", "unknown protocol 99"),
        (b"", "cut off"),
        (b".", "empty stack"),
        (b"K\x01", "cut off"),
        (b"X\xff\xff\xff\x7fab.", "cut off"),
        (b"\x8d" + b"\xff" * 8 + b"ab.", "cut off"),
        (b"h\x05.", "refers to object 5"),
        (b"K\x01K\x02a.", "appends to an object of type int"),
        (b"K\x01(K\x02K\x03u.", "sets items of an object of type int"),
        (b"t.", "ends a list that it did not begin"),
        (b"(K\x01.", "ends inside of a list"),
        (b"}]K\x01s.", "an object of type list as a key"),
        (b"I12x\n.", "a number in the pickle"),
        (b"I" + b"9" * 10_000 + b"\n.", "a number in the pickle"),
        (b"K\x01Q.", "something outside that is no storage"),
        (b"cnumpy\ndtype\n(X\x02\0\0\0O8\x89\x88tR.", "is not allowed"),
        (b"c_codecs\nencode\n(X\x01\0\0\0aX\x05\0\0\0zip_ttR.", "strange encoding"),
        (b"\xff", "opcode"),
    ],
    ids=range(36),
)
def test_pickles(code, text):
    content = checkpoint(code)
    if text is None:
        weft.load(io.BytesIO(content))
    else:
        refused(content, text)


def test_pickles_that_cost_too_much_are_refused():
    nested = b")" + b"".join(b"2\x86" for _ in range(70))  # each tuple is twice the one before
    refused(checkpoint(b"}" + nested + b"K\x01s."), "a key of more than 256 parts")
    many = b"](" + b"K\x01\x85" * 5_000 + b"e" + b"q\x00" + b"cbuiltins\nlist\nh\x00\x85R0" * 5_000 + b"."
    refused(checkpoint(many), "far more work than its size explains")
    deep = b"]" * 50_000 + b"a" * 49_999 + b"."
    assert type(weft.load(io.BytesIO(checkpoint(deep)))) is list


def test_old_files_that_are_refused():
    content = (HERE / "legacy.pth").read_bytes()
    refused(content[:-1], "cut off")
    refused(content.replace(b"\xe9\x03", b"\xea\x03", 1), "file format 1002, where 1001 is known")
    with pytest.raises(FileFormatError):
        weft.load(io.BytesIO(content[:14] + content[16:]))


# -- with PyTorch itself -------------------------------------------------------------------------------------
@pytest.mark.torch
@pytest.mark.parametrize("zipped_file", [True, False])
def test_side_by_side(tmp_path, zipped_file):
    import torch

    torch.manual_seed(0)
    kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16]
    kinds += [torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
    tensors = {}
    for kind in kinds:
        base = (torch.randn(4, 5, 3) * 3).to(kind)
        views = {
            "base": base,
            "t": base.transpose(0, 2),
            "part": base[1:3, ::2],
            "one": base[2, 3],
            "none": base[:0],
        }
        tensors |= {f"{kind}.{name}": view for name, view in views.items()}
    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    path = tmp_path / "x.pt"
    torch.save({"t": tensors, "m": model.state_dict()}, path, _use_new_zipfile_serialization=zipped_file)
    found = weft.load(path)
    for name, expected in [*tensors.items(), *((f"m.{k}", v) for k, v in model.state_dict().items())]:
        made = found["m"][name[2:]] if name.startswith("m.") else found["t"][name]
        assert str(made.dtype).partition(".")[2] == str(expected.dtype).partition(".")[2]
        assert made.stride() == expected.stride() and made.storage_offset() == expected.storage_offset()
        assert made.tolist() == expected.tolist()
    found["t"]["torch.float32.base"][1, 0, 0] = 77
    assert found["t"]["torch.float32.part"][0, 0, 0] == 77


@pytest.mark.torch
def test_side_by_side_optimizers(tmp_path):
    import torch

    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        extra = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
        theirs = torch.nn.Linear(3, 2)
        optimizer = getattr(torch.optim, name)(theirs.parameters(), lr=0.1, **extra)
        x = torch.ones(4, 3)

        def step(model, optimizer, x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        step(theirs, optimizer, x)
        torch.save({"m": theirs.state_dict(), "o": optimizer.state_dict()}, tmp_path / "x.pt")
        found = weft.load(tmp_path / "x.pt")
        ours = nn.Linear(3, 2)
        ours.load_state_dict(found["m"])
        mine = getattr(optim, name)(ours.parameters(), lr=1.0)
        mine.load_state_dict(found["o"])
        step(theirs, optimizer, x)
        step(ours, mine, weft.ones(4, 3))
        np.testing.assert_allclose(
            ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-5, atol=1e-7
        )
