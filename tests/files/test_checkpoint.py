"""`weft.save` and `weft.load`: what goes in comes out, shared memory shared, and what is refused."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
from tests.files import mutations
from weft import nn, optim
from weft.files import FileFormatError, UnsafeFileError, safetensors
from weft.files.tree import CannotSave


def through(value, **options):
    file = io.BytesIO()
    weft.save(value, file)
    file.seek(0)
    return weft.load(file, **options)


KINDS = [weft.bool, weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.bfloat16]
KINDS += [weft.float32, weft.float64, weft.complex64, weft.complex128]

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary(max_size=8)
    | st.sampled_from(KINDS)
    | st.builds(weft.Size, st.lists(st.integers(0, 9), max_size=3))
    | st.builds(
        lambda kind, shape: weft.ones(shape, dtype=kind),
        st.sampled_from(KINDS),
        st.sampled_from([(), (2, 3), (0,)]),
    )
    | st.builds(np.float32, st.floats(width=32))
    | st.just(weft.device("cpu"))
    | st.builds(slice, st.none() | st.integers(0, 5), st.integers(0, 5))
)
keys = st.recursive(
    st.text() | st.integers(-(2**63), 2**63) | st.booleans() | st.none(),
    lambda x: st.tuples(x, x),
    max_leaves=3,
)
data = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: deque(items, 5))
    ),
    max_leaves=5,
)


def same(one, two):
    if isinstance(one, deque):
        return type(two) is deque and one.maxlen == two.maxlen and same(list(one), list(two))
    if isinstance(one, (complex, np.floating)):
        return type(one) is type(two) and repr(one) == repr(two)
    if isinstance(one, (list, tuple)) and type(one) is type(two):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and type(one) is type(two):
        return list(one) == list(two) and all(map(same, one.values(), two.values()))
    return mutations.same(one, two)


@hypothesis.settings(max_examples=40)
@hypothesis.given(data)
def test_data_comes_back(value):
    assert same(through(value), value)


def test_containers_of_the_library():
    value = {
        "c": Counter("aab"),
        "d": defaultdict(list, {1: [2]}),
        "n": defaultdict(None, {}),
        "b": bytearray(b"ab"),
    }
    found = through(value)
    assert found == value and [type(each) for each in found.values()] == [
        type(each) for each in value.values()
    ]
    assert found["d"].default_factory is list and found["n"].default_factory is None
    array = np.arange(6, dtype=np.uint16).reshape(2, 3).T
    assert mutations.same(np.asfortranarray(through(array)), np.asfortranarray(array))
    assert through(weft.channels_last) is weft.channels_last and through(weft.strided) is weft.strided


def test_things_that_are_one_stay_one():
    shared = [1]
    value = {"a": shared, "b": (shared, shared), "self": None}
    value["self"] = value
    found = through(value)
    assert found["a"] is found["b"][0] is found["b"][1] and found["self"] is found
    deep = ()
    for _ in range(60):  # 2 ** 60 tuples, if each were written out
        deep = (deep, deep)
    assert through(deep)[0] is not None
    loop = []
    loop.append((loop,))
    assert type(through(loop)[0]) is tuple


def test_memory_that_is_shared_is_shared_again():
    base = weft.arange(24.0).reshape(4, 6)
    weight = nn.Parameter(weft.ones(2, 3))
    found = through(
        {
            "row": base[1],
            "base": base,
            "turned": base.t(),
            "bits": base.view(weft.int32),
            "w": weight,
            "v": weight,
            "part": base[2:, 1::2],
            "other": weft.zeros(2),
            "data": weight.detach(),
        }  # fmt: skip
    )
    found["base"][1] = 7
    found["base"][2, 3] = 9
    assert found["row"].tolist() == [7] * 6 and found["turned"][0, 1] == 7
    assert found["bits"].view(weft.float32)[1, 1] == 7 and found["part"][0, 1] == 9
    assert found["turned"].stride() == (1, 6) and found["part"].storage_offset() == 13
    assert found["w"] is found["v"] and type(found["w"]) is nn.Parameter and found["w"].requires_grad
    found["data"][0, 0] = 5
    assert found["w"][0, 0] == 5 and found["other"].sum() == 0


def test_a_view_brings_no_more_memory_than_it_spans():
    large = weft.zeros(100_000)
    file = io.BytesIO()
    weft.save([large[10:14], large[20]], file)
    assert len(file.getvalue()) < 2_000


def test_gradients_and_strange_tensors():
    leaf = weft.ones(2, requires_grad=True)
    found = through(
        {"leaf": leaf, "made": leaf * 2, "frozen": nn.Parameter(weft.ones(1), requires_grad=False)}
    )
    assert found["leaf"].requires_grad and found["made"].is_leaf and found["made"].requires_grad
    assert type(found["frozen"]) is nn.Parameter and not found["frozen"].requires_grad
    found = through(
        [weft.ones(1).expand(3), weft.empty(2, 3, device="meta"), weft.tensor(1), weft.empty(0, 3)]
    )
    assert found[0].stride() == (0,) and found[1].is_meta and found[1].shape == (2, 3)
    assert found[2].shape == () and found[3].shape == (0, 3)


def trained(seed):
    weft.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 2))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])
    return model, optimizer, scheduler


def steps(model, optimizer, scheduler, count):
    x = weft.arange(15.0).reshape(5, 3)
    for _ in range(count):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        scheduler.step()


def test_training_goes_on_where_it_was(tmp_path):
    first = trained(0)
    steps(*first, 2)
    weft.save([each.state_dict() for each in first] + [weft.get_rng_state()], tmp_path / "all.weft")
    second = trained(1)
    *states, generator = weft.load(tmp_path / "all.weft")
    assert isinstance(states[0], OrderedDict) and states[0]._metadata == first[0].state_dict()._metadata
    for each, state in zip(second, states, strict=True):
        each.load_state_dict(state)
    weft.set_rng_state(generator)
    steps(*first, 3)
    weft.set_rng_state(generator)
    steps(*second, 3)
    for one, two in zip(first[0].state_dict().values(), second[0].state_dict().values(), strict=True):
        assert weft.equal(one, two)
    assert first[2].get_last_lr() == second[2].get_last_lr()


def test_files_and_paths(tmp_path):
    path = tmp_path / "x.weft"
    weft.save({"x": weft.arange(3)}, str(path))
    assert weft.load(path)["x"].tolist() == [0, 1, 2] == weft.load(str(path), weights_only=True)["x"].tolist()
    mapped = weft.load(path, mmap=True)
    mapped["x"][0] = 9
    assert mapped["x"][0] == 9 and weft.load(path)["x"][0] == 0
    with path.open("rb") as file:
        assert weft.load(file)["x"].tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
            weft.load(file, mmap=True)
    two = io.BytesIO()
    weft.save(1, two)
    weft.save([weft.ones(1)], two)
    two.seek(0)
    assert weft.load(two) == 1 and weft.load(two)[0].item() == 1
    with pytest.raises(FileNotFoundError):
        weft.load(tmp_path / "none")
    with pytest.raises(AttributeError, match="read"):
        weft.load(3)
    with pytest.raises(AttributeError, match="write"):
        weft.save(3, 3)
    with pytest.raises(FileFormatError, match="open as text"):
        weft.load(io.StringIO("x"))

    class Stream:
        def __init__(self, content):
            self.read = io.BytesIO(content).read

    assert weft.load(Stream(path.read_bytes()))["x"].tolist() == [0, 1, 2]


def test_map_location():
    value = {"x": weft.ones(2), "p": nn.Parameter(weft.ones(1))}
    for place in (
        "cpu",
        weft.device("cpu"),
        {"cpu": "cpu"},
        lambda storage, where: storage,
        lambda storage, where: None,
    ):
        assert through(value, map_location=place)["x"].device.type == "cpu"
    for place in ("meta", {"cpu": "meta"}):
        found = through(value, map_location=place)
        assert found["x"].is_meta and type(found["p"]) is nn.Parameter
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        through(value, map_location="cuda")
    with pytest.raises(TypeError):
        through(value, map_location=3)
    with pytest.raises(ZeroDivisionError):
        through(value, map_location=lambda storage, where: 1 / 0)


def test_others_read_what_is_saved(tmp_path):
    model = nn.Linear(2, 3)
    weft.save(model.state_dict(), tmp_path / "m.weft")
    found = safetensors.load_file(tmp_path / "m.weft")
    assert set(found) == {"weight", "bias"} and weft.equal(found["weight"], model.weight)
    safetensors.save_file(model.state_dict(), tmp_path / "m.safetensors")
    model.load_state_dict(weft.load(tmp_path / "m.safetensors"))


class Strange(weft.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [object()]}, r"an object of type builtins.object at 'a.0' is no data"),
        (nn.Linear(1, 1), r"Linear is no data.*save its state_dict\(\) instead"),
        (len, "no code"),
        (defaultdict(lambda: 3), "a defaultdict with a function of its own"),
        ({weft.ones(1): 1}, "an object of type Tensor as a key"),
        (weft.ones(1).as_subclass(Strange), "a tensor of class Strange"),
    ],
    ids=["object", "module", "function", "factory", "key", "subclass"],
)
def test_what_is_no_data_is_not_saved(value, text):
    with pytest.raises(CannotSave, match=text):
        weft.save(value, io.BytesIO())


def test_depth_is_an_error_and_no_crash():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CannotSave, match="nested too deeply"):
        weft.save(deep, io.BytesIO())
    text = b'{"__metadata__":{"weft":' + b"[" * 100_000
    with pytest.raises(FileFormatError, match="nested too deeply|not JSON"):
        weft.load(io.BytesIO(len(text).to_bytes(8, "little") + text))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"hello, this is a text", "is none of the files that weft.load"),
        (b"\x80\x04\x95" + bytes(40), "is none of the files"),
        (bytes(257) + b"ustar" + bytes(300), "is a tar file"),
        (b"PK\x03\x04" + bytes(80), "no directory at the end of the zip file"),
    ],
)
def test_what_is_no_file_of_ours(content, text):
    with pytest.raises(FileFormatError, match=text):
        weft.load(io.BytesIO(content))


def own(change):
    """A file of ours whose tree was changed, with the right checksum."""
    import zlib

    file = io.BytesIO()
    weft.save({"x": weft.arange(4.0)}, file)
    content = file.getvalue()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    told = json.loads(header["__metadata__"]["weft"])
    change(told)
    text = json.dumps(told)
    header["__metadata__"].update({"weft": text, "weft.crc32": f"{zlib.crc32(text.encode()):08x}"})
    raw = json.dumps(header).encode()
    return io.BytesIO(len(raw).to_bytes(8, "little") + raw + content[8 + size :])


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"size": [5]}, "needs 20 bytes, but its storage has 16"),
        ({"offset": 1}, "needs 20 bytes"),
        ({"offset": -1}, "a tensor's offset is -1"),
        ({"stride": [2**62]}, "needs"),
        ({"stride": [-1]}, "a tensor's strides are"),
        ({"size": [2**40], "stride": [0]}, None),
        ({"size": [2**62], "stride": [0]}, "is too large"),
        ({"size": [1] * 65, "stride": [1] * 65}, "a tensor's sizes are"),
        ({"dtype": "object"}, "the unknown dtype object"),
        ({"storage": "y"}, "there is no storage 'y'"),
        ({"dtype": "int32", "requires_grad": True}, "that requires gradients"),
        ({"requires_grad": 1}, "neither True nor False"),
        ({"dtype": "bool", "size": [16], "stride": [1]}, "bytes other than 0 and 1"),
        ({"more": 1}, "lacks its facts"),
    ],
)
def test_tensors_that_cannot_be(facts, text):
    file = own(lambda told: told["tensors"][0].update(facts))
    if text is None:
        assert weft.load(file)["x"].shape == (2**40,)
        return
    with pytest.raises(FileFormatError, match=text):
        weft.load(file)


@pytest.mark.parametrize(
    "root",
    [
        [],
        {"nothing": 1},
        {"again": 0},
        {"list": 1},
        {"dict": [1]},
        {"dict": [[{"list": []}, 1]]},
        {"tensor": 9},
    ]
    + [{"bytes": "%"}, {"float": "x"}, {"int": "0xg"}, {"complex": [1]}, {"dtype": "x"}, {"device": "x"}]
    + [{"size": [-1]}, {"range": [1, 2, 0]}, {"numpy": ["<f4", ""]}, {"ndarray": ["|O8", [1], ""]}]
    + [
        {"defaultdict": ["eval", []]},
        {"tuple": [], "list": []},
        {"dict": [], "metadata": 1},
        {"set": [{"set": []}]},
    ],
    ids=str,
)
def test_trees_that_cannot_be(root):
    with pytest.raises(FileFormatError):
        weft.load(own(lambda told: told.update(root=root)))


def test_damage_is_noticed():
    told = mutations.run(400, seed=7)
    assert sum(told.values()) == 400
    assert sum(count for name, count in told.items() if name.endswith("refused")) > 300


def test_a_pickle_that_would_run_something_runs_nothing(tmp_path):
    source = (
        "import os, pickle, sys, zipfile\n"
        "class Evil:\n"
        "    def __reduce__(self): return os.system, (f'touch {sys.argv[1]}/ran',)\n"
        "with zipfile.ZipFile(sys.argv[1] + '/evil.pt', 'w') as file:\n"
        "    file.writestr('evil/data.pkl', pickle.dumps({'x': Evil()}, 2))\n"
    )
    subprocess.run([sys.executable, "-c", source, str(tmp_path)], check=True)
    for safe in (True, False, None):
        with pytest.raises(UnsafeFileError, match=r"Unsupported global: GLOBAL (posix|nt|os)\.system"):
            weft.load(tmp_path / "evil.pt", weights_only=safe)
    assert [path.name for path in Path(tmp_path).iterdir()] == ["evil.pt"]
    assert math.isnan(through(math.nan))


def test_options_that_nobody_knows_are_refused() -> None:
    file = io.BytesIO()
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        weft.save(1, file, zzz=1)
    weft.save(1, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    with pytest.raises(TypeError, match=r"Unpickler.__init__\(\) got an unexpected keyword argument 'zzz'"):
        weft.load(file, zzz=1)
    assert weft.load(file, encoding="latin1") == 1
