"""What is shown, as messages: scalars, histograms, images, sounds, texts, curves, hyperparameters, graphs.

Takes tensors, arrays or numbers, gives bytes of a `Summary` or a `GraphDef`.
"""

from __future__ import annotations

import io
import struct
import wave
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from weft.tensor.base import Tensor
from weft.utils.tensorboard.events import data, double, doubles, single, whole

FLOAT, DOUBLE, TEXT = 1, 2, 7
"""Types of elements of a `TensorProto`."""
SCALARS, TENSORS = 1, 2
"""Classes of data, which say what a plugin's tensors are."""


def as_array(values: Any) -> np.ndarray:
    """Numbers of any kind as an array; there is always one dimension at least."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype).endswith("bfloat16") else values
        values = values.numpy()
    return np.atleast_1d(np.asarray(values))


# -- messages ------------------------------------------------------------------------------------------------
def summary(tag: str, content: bytes) -> bytes:
    """The field `summary` of an event, with one value."""
    return data(5, data(1, data(1, tag) + content))


def plugin(name: str, content: bytes = b"", kind: int = 0) -> bytes:
    """The field `metadata` of a value, which says whose it is."""
    return data(9, data(1, data(1, name) + data(2, content)) + (whole(4, kind) if kind else b""))


def _tensor(kind: int, shape: Iterable[int], elements: bytes) -> bytes:
    sizes = b"".join(data(2, whole(1, size)) for size in shape)
    return data(8, whole(1, kind) + data(2, sizes) + elements)


def scalar(tag: str, value: Any, new_style: bool, double_precision: bool) -> bytes:
    """A number; in the new style as a tensor, which may have 64 bits."""
    found = as_array(value).squeeze()
    if found.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {found.size} and "
            f"{found.ndim} dimensions."
        )
    number = float(found)
    if double_precision:
        content = _tensor(DOUBLE, (), doubles(6, [number]))
    elif new_style:
        content = _tensor(FLOAT, (), data(5, struct.pack("<f", number)))
    else:
        return summary(tag, single(2, number))
    return summary(tag, content + plugin("scalars", kind=SCALARS))


def text(tag: str, value: str) -> bytes:
    """A text, which may be Markdown."""
    content = plugin("text", kind=0) + _tensor(TEXT, [1], data(8, value))
    return summary(f"{tag}/text_summary", content)


# -- histograms ----------------------------------------------------------------------------------------------
def _edges() -> np.ndarray:
    """Edges a tenth apart from each other, of both signs, with zero between the least two."""
    positive = 1e-12 * 1.1 ** np.arange(775)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> bytes:
    """How many values lie in each bin: of growing width ("tensorflow"), or as `numpy.histogram` says."""
    found = as_array(values).astype(np.float64).ravel()
    if found.size == 0:
        raise ValueError("The input has no element.")
    finite = found[np.isfinite(found)]
    if finite.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    counts, edges = np.histogram(finite, bins=_edges() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        edges = np.append(edges[:-1:step], edges[-1])
    return histogram_raw(tag, finite, *_without_ends(counts, edges))


def _without_ends(counts: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bins between the first and the last that are not empty, behind one that is: a value's bin begins
    where the one before ends."""
    filled = np.flatnonzero(counts)
    if len(filled) == 0:  # all beyond the edges
        return counts[:0], edges[:0]
    first, last = filled[0], filled[-1] + 1
    return np.concatenate([[0], counts[first:last]]), edges[first : last + 1]


def histogram_raw(tag: str, values: np.ndarray, counts: Any, limits: Any) -> bytes:
    """A histogram whose bins were counted before, and are said by where they end."""
    facts = [values.min(), values.max(), values.size, values.sum(), (values * values).sum()]
    return histogram_of_facts(tag, facts, counts, limits)


def histogram_of_facts(tag: str, facts: Iterable[float], counts: Any, limits: Any) -> bytes:
    """A histogram from least and greatest value, number, sum, sum of squares, and bins."""
    content = b"".join(double(place, float(fact)) for place, fact in enumerate(facts, start=1))
    return summary(tag, data(5, content + doubles(6, limits) + doubles(7, counts)))


# -- images and sounds ---------------------------------------------------------------------------------------
def _chunk(name: bytes, content: bytes) -> bytes:
    body = name + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png(pixels: np.ndarray) -> bytes:
    """Pixels `(H, W, 1, 2, 3 or 4)` of bytes as a file of PNG's."""
    height, width, channels = pixels.shape
    colours = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    body = _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + body + _chunk(b"IEND", b"")


def as_pixels(values: Any, dataformats: str) -> np.ndarray:
    """An image, or several as a grid, in letters such as "CHW" or "NCHW", as `(H, W, C)` of bytes."""
    found, letters = as_array(values), dataformats.upper()
    if len(letters) != found.ndim:
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {found.shape}, "
            f"input_format: {dataformats}"
        )
    if sorted(letters) not in (sorted("HW"), sorted("CHW"), sorted("NCHW"), sorted("NHW")):
        raise AssertionError(f"dataformats must be HW, CHW, NHW or NCHW in any order, not {dataformats}")
    is_bytes = found.dtype == np.uint8
    for letter in "NHWC":
        if letter not in letters:
            found, letters = np.expand_dims(found, -1), letters + letter
    found = found.transpose([letters.index(letter) for letter in "NHWC"])
    if not is_bytes:  # numbers from 0 to 1
        found = np.clip(found.astype(np.float32) * 255, 0, 255).astype(np.uint8)
    count, height, width, channels = found.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = found
    grid = grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def image_of_png(tag: str, encoded: bytes) -> bytes:
    """An image that is a file of PNG's already, whose header tells its size."""
    width, height, _depth, colours = struct.unpack(">IIBB", encoded[16:26])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}.get(colours, 3)
    content = whole(1, height) + whole(2, width) + whole(3, channels) + data(4, encoded)
    return summary(tag, data(4, content))


def audio(tag: str, values: Any, sample_rate: int) -> bytes:
    """A sound of one channel, of numbers from -1 to 1."""
    found = as_array(values).squeeze()
    if found.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    samples = (np.clip(found.astype(np.float64), -1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes(samples.tobytes())
    content = single(1, sample_rate) + whole(2, 1) + whole(3, len(samples)) + data(4, file.getvalue())
    return summary(tag, data(6, content + data(5, "audio/wav")))


# -- curves --------------------------------------------------------------------------------------------------
def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int, weights: Any) -> bytes:
    """Precision and recall where everything predicted at least so sure counts as true."""
    truth, sure = (
        as_array(labels).astype(np.float64).ravel(),
        as_array(predictions).astype(np.float64).ravel(),
    )
    count = np.ones_like(truth) if weights is None else as_array(weights).astype(np.float64).ravel()
    places = np.clip(np.floor(sure * (num_thresholds - 1)), 0, num_thresholds - 1).astype(np.int64)
    right = np.bincount(places, truth * count, num_thresholds)[::-1].cumsum()[::-1]
    wrong = np.bincount(places, (1 - truth) * count, num_thresholds)[::-1].cumsum()[::-1]
    return pr_curve_raw(tag, right, wrong, wrong[0] - wrong, right[0] - right)


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any = None, recall: Any = None
) -> bytes:
    """The curve from how many are truly and falsely positive and negative at each threshold."""
    tp, fp, tn, fn = (as_array(each).astype(np.float64) for each in (tp, fp, tn, fn))
    precision = tp / np.maximum(1e-7, tp + fp) if precision is None else as_array(precision)
    recall = tp / np.maximum(1e-7, tp + fn) if recall is None else as_array(recall)
    table = np.stack([tp, fp, tn, fn, precision, recall]).astype("<f4")
    content = plugin("pr_curves", whole(2, table.shape[1]), TENSORS)
    return summary(tag, content + _tensor(FLOAT, table.shape, data(5, table.tobytes())))


# -- hyperparameters -----------------------------------------------------------------------------------------
def _any_value(value: Any) -> bytes:
    """A `google.protobuf.Value`."""
    if isinstance(value, (bool, np.bool_)):
        return whole(4, bool(value))
    return data(3, value) if isinstance(value, str) else double(2, float(value))


def _kind(value: Any) -> int:
    return 2 if isinstance(value, (bool, np.bool_)) else 1 if isinstance(value, str) else 3


def plain(value: Any) -> Any:
    """A hyperparameter as a bool, a text or a number; other things are refused."""
    if isinstance(value, (bool, str, int, float, np.bool_)):
        return value
    if isinstance(value, (Tensor, np.generic, np.ndarray)) and as_array(value).size == 1:
        return float(as_array(value).item())
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def hyperparameters(
    values: Mapping[str, Any], metrics: Iterable[str], domains: Mapping[str, Any], now: float
) -> list[bytes]:
    """The three values by which a run tells its hyperparameters and which metrics it has."""
    experiment = b""
    for name, value in values.items():
        domain = b"".join(data(1, _any_value(choice)) for choice in domains.get(name, ()))
        known = data(1, name) + whole(4, _kind(value)) + (data(5, domain) if domain else b"")
        experiment += data(4, known)
    experiment += b"".join(data(5, data(1, data(2, name))) for name in metrics)
    start = b"".join(data(1, data(1, name) + data(2, _any_value(value))) for name, value in values.items())
    contents = [
        ("experiment", data(2, double(3, now) + experiment)),
        ("session_start_info", data(3, start + double(5, now))),
        ("session_end_info", data(4, whole(1, 1) + double(2, now))),
    ]
    return [summary(f"_hparams_/{name}", plugin("hparams", content)) for name, content in contents]


# -- graphs --------------------------------------------------------------------------------------------------
def graph(nodes: Iterable[tuple[str, str, list[str], tuple[int, ...] | None]]) -> bytes:
    """The field `graph_def` of an event: nodes by name, kind, the names of what they read, and shape."""
    content = b""
    for name, kind, inputs, shape in nodes:
        node = data(1, name) + data(2, kind) + b"".join(data(3, each) for each in inputs)
        if shape is not None:
            sizes = b"".join(data(2, whole(1, size)) for size in shape)
            node += data(5, data(1, "_output_shapes") + data(2, data(1, data(7, sizes))))
        content += data(1, node)
    return data(4, content + data(4, whole(1, 22)))
