"""What `SummaryWriter` writes, read back from its files."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.utils.tensorboard.test_events import fields, records
from weft.utils.tensorboard import SummaryWriter


def values(folder: Path) -> list[tuple[int | None, dict[int, list[Any]]]]:
    """The values of a run and their steps, in order."""
    (path,) = folder.glob("events.out.tfevents.*")
    found = []
    for each in records(path):
        for content in each.get(5, []):
            found += [(each.get(2, [None])[0], fields(value)) for value in fields(content)[1]]
    return found


def test_scalars(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_scalar("loss", weft.tensor([0.25]), weft.tensor(4))
        writer.add_scalar("exact", 0.1, new_style=True, double_precision=True)
        with pytest.raises(AssertionError, match="should contain one element"):
            writer.add_scalar("loss", weft.ones(2))
    (_, first), (step, second), (none, third) = values(tmp_path)
    assert first[1] == [b"loss"] and first[2] == [0.5]
    assert step == 4 and second[2] == [0.25]
    assert none is None
    assert struct.unpack("<d", fields(third[8][0])[6][0]) == (0.1,)
    assert fields(fields(third[9][0])[1][0])[1] == [b"scalars"]


def test_scalars_of_one_chart_are_runs_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("a/loss", {"train": 1.0, "test": 2.0}, 7)
    assert values(tmp_path / "a_loss_train")[0][1][2] == [1.0]
    assert values(tmp_path / "a_loss_test")[0] == (7, {1: [b"a/loss"], 2: [2.0]})


def test_histograms(tmp_path: Path) -> None:
    given = weft.tensor([-1.0, 0.0, 1.0, 1.0, float("nan")])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", given, 1)
        writer.add_histogram("weights", given, 2, bins=4, max_bins=2)
        with pytest.raises(ValueError, match="has no element"):
            writer.add_histogram("weights", weft.ones(0))
    (_, fine), (_, coarse) = values(tmp_path)
    facts = fields(fine[5][0])
    assert [facts[place] for place in range(1, 6)] == [[-1.0], [1.0], [4.0], [1.0], [3.0]]
    limits, counts = np.frombuffer(facts[6][0]), np.frombuffer(facts[7][0])
    assert len(limits) == len(counts) and counts.sum() == 4 and counts[0] == 0
    assert counts[(limits > -1.1) & (limits <= -0.9)].sum() == 1
    assert counts[limits > 1].sum() == 2
    facts = fields(coarse[5][0])
    assert np.frombuffer(facts[6][0]).tolist() == [-1, 0, 1]
    assert np.frombuffer(facts[7][0]).tolist() == [0, 1, 3]


def pixels(encoded: bytes) -> np.ndarray:
    """The pixels of a PNG whose rows are not filtered."""
    width, height, _, colours = struct.unpack(">IIBB", encoded[16:26])
    at, body = 8, b""
    while at < len(encoded):
        (size,) = struct.unpack_from(">I", encoded, at)
        name = encoded[at + 4 : at + 8]
        assert struct.unpack_from(">I", encoded, at + 8 + size)[0] == zlib.crc32(
            encoded[at + 4 : at + 8 + size]
        )
        body += encoded[at + 8 : at + 8 + size] if name == b"IDAT" else b""
        at += 12 + size
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, {0: 1, 2: 3, 6: 4}[colours])


def test_images(tmp_path: Path) -> None:
    picture = weft.arange(24, dtype=weft.uint8).reshape(3, 2, 4)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", picture, 1)
        writer.add_image("grey", weft.tensor([[0.0, 0.5, 2.0]]), dataformats="HW")
        writer.add_images("grid", picture.expand(9, 3, 2, 4))
        with pytest.raises(AssertionError, match="input format are different"):
            writer.add_image("bad", weft.ones(3, 3))
    (_, first), (_, grey), (_, grid) = values(tmp_path)
    image = fields(first[4][0])
    assert (image[1], image[2], image[3]) == ([2], [4], [3])
    assert np.array_equal(pixels(image[4][0]), picture.permute(1, 2, 0).numpy())
    assert pixels(fields(grey[4][0])[4][0]).ravel().tolist() == [0, 127, 255]
    tiles = pixels(fields(grid[4][0])[4][0])
    assert tiles.shape == (4, 32, 3)
    assert np.array_equal(tiles[2:, :4], picture.permute(1, 2, 0).numpy()) and not tiles[2:, 4:].any()


def test_figures_need_only_savefig(tmp_path: Path) -> None:
    class Figure:
        def savefig(self, file: Any, format: str) -> None:
            assert format == "png"
            from weft.utils.tensorboard.summaries import png

            file.write(png(np.zeros((2, 5, 4), np.uint8)))

    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("plot", Figure(), 1)
        writer.add_figure("both", [Figure(), Figure()], 1)
    found = values(tmp_path)
    assert [each[1] for _, each in found] == [[b"plot"], [b"both/0"], [b"both/1"]]
    assert fields(found[0][1][4][0])[2] == [5]


def test_texts_and_sounds(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "**bold** ü", 2)
        writer.add_audio("tone", weft.tensor([0.0, 1.0, -1.0]), sample_rate=8000)
    (_, text), (_, sound) = values(tmp_path)
    assert text[1] == [b"note/text_summary"]
    assert fields(text[8][0])[8] == ["**bold** ü".encode()]
    audio = fields(sound[6][0])
    assert audio[1] == [8000.0] and audio[3] == [3] and audio[4][0][:4] == b"RIFF"
    assert struct.unpack("<3h", audio[4][0][-6:]) == (0, 32767, -32767)


def test_precision_and_recall(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("sure", weft.tensor([1, 0, 1, 0]), weft.tensor([0.9, 0.1, 0.4, 0.6]), 0, 3)
    ((_, value),) = values(tmp_path)
    table = np.frombuffer(fields(value[8][0])[5][0], "<f4").reshape(6, 3)
    assert table[:4].tolist() == [[2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2]]
    assert table[4].tolist() == [0.5, 0.5, 0.0] and table[5].tolist() == [1.0, 0.5, 0.0]


def test_hyperparameters(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "deep": True, "name": "a"}, {"accuracy": 0.5}, run_name="one")
        with pytest.raises(ValueError, match="value should be one of"):
            writer.add_hparams({"lr": [1]}, {})
    experiment, start, _, metric = (value for _, value in values(tmp_path / "one"))
    assert metric[1] == [b"accuracy"] and metric[2] == [0.5]
    content = fields(fields(fields(fields(experiment[9][0])[1][0])[2][0])[2][0])
    kinds = {fields(each)[1][0]: fields(each)[4] for each in content[4]}
    assert fields(fields(content[5][0])[1][0])[2] == [b"accuracy"]
    assert kinds == {b"lr": [3], b"deep": [2], b"name": [1]}
    session = fields(fields(fields(fields(start[9][0])[1][0])[2][0])[3][0])
    given = {fields(each)[1][0]: fields(fields(each)[2][0]) for each in session[1]}
    assert given == {b"lr": {2: [0.1]}, b"deep": {4: [1]}, b"name": {3: [b"a"]}}


def test_graphs(tmp_path: Path) -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.ReLU())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, weft.ones(4, 3))
        with pytest.raises(weft.fx.TraceError):
            writer.add_graph(lambda x: x if x.sum() > 0 else -x)
    (path,) = tmp_path.glob("events*")
    nodes = [fields(each) for each in fields(records(path)[1][4][0])[1]]
    assert [each[2][0] for each in nodes] == [b"Input", b"Linear", b"ReLU", b"Output"]
    assert nodes[1][3] == [nodes[0][1][0]] and nodes[2][3] == [nodes[1][1][0]]
    attribute = fields(nodes[1][5][0])
    assert attribute[1] == [b"_output_shapes"]
    shape = fields(fields(fields(attribute[2][0])[1][0])[7][0])
    assert [fields(size)[1] for size in shape[2]] == [[4], [2]]


def test_embeddings(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(weft.eye(3), ["a", "b", "c"], weft.rand(3, 1, 2, 2), global_step=2)
        with pytest.raises(AssertionError, match="#labels"):
            writer.add_embedding(weft.eye(3), ["a"])
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "00002/default/tensors.tsv"' in config and config.count("single_image_dim: 2") == 2
    assert (tmp_path / "00002/default/metadata.tsv").read_text() == "a\nb\nc\n"
    assert np.loadtxt(tmp_path / "00002/default/tensors.tsv").tolist() == weft.eye(3).tolist()
    assert pixels((tmp_path / "00002/default/sprite.png").read_bytes()).shape == (4, 4, 1)


def test_a_run_that_goes_on_purges_what_crashed(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=5, filename_suffix=".again"):
        pass
    (path,) = tmp_path.glob("*.again")
    assert records(path)[1][2] == [5] and fields(records(path)[1][7][0])[1] == [1]


def test_where_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr1") as writer:
        assert re.fullmatch(r"runs/\w{3}\d\d_\d\d-\d\d-\d\d_.+_lr1", writer.get_logdir())
    assert len(list(Path(writer.log_dir).glob("events*"))) == 1


def test_a_closed_writer_opens_another_file(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path)
    writer.close()
    writer.add_scalar("late", 1.0, 1)
    writer.close()
    assert len(list(tmp_path.glob("events*"))) == 2
