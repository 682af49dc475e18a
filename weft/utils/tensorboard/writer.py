"""`SummaryWriter`: scalars, images and the rest by name and step, in event files that TensorBoard reads.

Takes PyTorch's calls; each is one event, appended to the file of a folder. One idea: a run is a folder, and
what has series of its own (`add_scalars`, `add_hparams`) is a folder inside it.
"""

from __future__ import annotations

import io
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

import weft.utils.tensorboard.summaries as summaries
from weft.core.lazy import load
from weft.utils.tensorboard.events import EventFile, data, event, whole


class SummaryWriter:
    """Writes what TensorBoard shows into `log_dir`, by default `runs/DATE_HOST` with `comment` behind it.

    Of `purge_step` and later steps TensorBoard forgets what an earlier run, one that crashed, has written
    there. Events are on the disk after `flush` or `close`, after `max_queue` of them, or `flush_secs`.

    >>> import tempfile
    >>> with SummaryWriter(tempfile.mkdtemp()) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (1 + step), step)
    """

    def __init__(
        self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: float = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if not log_dir:
            when = time.strftime("%b%d_%H-%M-%S")
            log_dir = Path("runs") / f"{when}_{socket.gethostname()}{comment}"
        self.log_dir = str(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self._files: dict[str, EventFile] = {}
        self._file()

    def _file(self, inner: str = "") -> EventFile:
        """The open file of the run, or of a folder inside it; a writer that was closed opens another."""
        if inner not in self._files:
            folder = Path(self.log_dir) / inner
            made = EventFile(folder, self.filename_suffix, self.max_queue, self.flush_secs)
            self._files[inner] = made
            if self.purge_step is not None and not inner:
                started = data(7, whole(1, 1))
                made.write(event(started, self.purge_step))
                self.purge_step = None
        return self._files[inner]

    def _add(self, content: bytes, step: Any, walltime: float | None, inner: str = "") -> None:
        number = int(step.item()) if hasattr(step, "item") else step
        self._file(inner).write(event(content, number, walltime))

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    def flush(self) -> None:
        """Writes what waits to the disk."""
        for file in list(self._files.values()):
            file.flush()

    def close(self) -> None:
        """Writes what waits, and closes the files."""
        while self._files:
            self._files.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- numbers ---------------------------------------------------------------------------------------------
    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: Any = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number: a point of the curve `tag`."""
        found = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._add(found, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: Any = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Numbers in one chart, each as a run of its own."""
        for tag, value in tag_scalar_dict.items():
            inner = f"{main_tag.replace('/', '_')}_{tag}"
            self._add(summaries.scalar(main_tag, value, False, False), global_step, walltime, inner)

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """How values are spread; those that are not finite are left out."""
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
        bucket_limits: Any, bucket_counts: Any, global_step: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A histogram that was counted elsewhere; `bucket_limits` say where bins end."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        facts = [min, max, num, sum, sum_squares]
        found = summaries.histogram_of_facts(tag, facts, bucket_counts, bucket_limits)
        self._add(found, global_step, walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: Any = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Precision against recall, from labels 0 or 1 and how sure the model is of 1."""
        found = summaries.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(found, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: Any = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """As `add_pr_curve`, from counts at each threshold."""
        found = summaries.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts,
            precision, recall,
        )  # fmt: skip
        self._add(found, global_step, walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None, run_name: str | None = None,
        global_step: Any = None,
    ) -> None:  # fmt: skip
        """Hyperparameters of a run and what came of it, for the table that compares runs."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        now = time.time()
        inner = str(now) if run_name is None else run_name
        values = {name: summaries.plain(value) for name, value in hparam_dict.items()}
        for found in summaries.hyperparameters(values, metric_dict, hparam_domain_discrete or {}, now):
            self._add(found, None, now, inner)
        for name, value in metric_dict.items():
            self._add(summaries.scalar(name, value, False, False), global_step, None, inner)

    # -- pictures, sounds, texts -----------------------------------------------------------------------------
    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """A picture: bytes, or numbers from 0 to 1."""
        pixels = summaries.png(summaries.as_pixels(img_tensor, dataformats))
        self._add(summaries.image_of_png(tag, pixels), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Pictures in a grid, eight a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A figure of matplotlib's, or several, each under a number behind the tag; closed afterwards unless
        told otherwise."""
        several = figure if isinstance(figure, (list, tuple)) else [figure]
        for number, each in enumerate(several):
            file = io.BytesIO()
            each.savefig(file, format="png")
            name = tag if len(several) == 1 else f"{tag}/{number}"
            self._add(summaries.image_of_png(name, file.getvalue()), global_step, walltime)
            pyplot = sys.modules.get("matplotlib.pyplot")
            if close and pyplot is not None:  # who else would keep it?
                pyplot.close(each)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """A sound: numbers from -1 to 1."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown by choice."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    # -- models ----------------------------------------------------------------------------------------------
    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """What a model computes, as it is traced (`weft.fx.symbolic_trace`); with an input, with the shapes.

        A model whose Python depends on values raises `TraceError`, which says where.
        """
        graph_module = load("weft.trace.fx").symbolic_trace(model)
        if input_to_model is not None:
            given = input_to_model if isinstance(input_to_model, (list, tuple)) else [input_to_model]
            load("weft.trace.shape_prop").ShapeProp(graph_module).propagate(*given)
        if verbose:
            print(graph_module.graph)
        self._add(summaries.graph(_nodes(graph_module)), None, None)

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: Any = None,
        tag: str = "default", metadata_header: Any = None,
    ) -> None:  # fmt: skip
        """Vectors, one a row, for the projector: by choice with labels, or rows of them, and pictures."""
        rows = summaries.as_array(mat)
        if rows.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        place = f"{0 if global_step is None else int(global_step):05d}/{tag}"
        folder = Path(self.log_dir) / place
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / "tensors.tsv", rows, delimiter="\t", fmt="%.8g")
        lines = [f'tensor_name: "{tag}:{place[:5]}"', f'tensor_path: "{place}/tensors.tsv"']
        if metadata is not None:
            if len(metadata) != len(rows):
                raise AssertionError("#labels should equal with #data points")
            (folder / "metadata.tsv").write_text(_table(metadata, metadata_header), encoding="utf-8")
            lines.append(f'metadata_path: "{place}/metadata.tsv"')
        if label_img is not None:
            sprite, size = _sprite(summaries.as_array(label_img), len(rows))
            (folder / "sprite.png").write_bytes(sprite)
            lines += ["sprite {", f'  image_path: "{place}/sprite.png"']
            lines += [f"  single_image_dim: {length}" for length in size] + ["}"]
        with open(Path(self.log_dir) / "projector_config.pbtxt", "a", encoding="utf-8") as config:
            config.write("embeddings {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


def _nodes(graph_module: Any) -> Iterator[tuple[str, str, list[str], tuple[int, ...] | None]]:
    """The nodes of a graph; those of a layer's under its path."""
    names: dict[Any, str] = {}
    for node in graph_module.graph.nodes:
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "call")
        path = f"{target.replace('.', '/')}/{node.name}" if node.op == "call_module" else node.name
        names[node] = path
        kind = target
        if node.op == "call_module":
            kind = type(graph_module.get_submodule(target)).__name__
        elif node.op in ("placeholder", "output", "get_attr"):
            kind = {"placeholder": "Input", "output": "Output", "get_attr": "Parameter"}[node.op]
        meta = node.meta.get("tensor_meta")
        shape = getattr(meta, "shape", None)
        yield path, kind, [names[each] for each in node.all_input_nodes], shape and tuple(shape)


def _table(metadata: Any, header: Any) -> str:
    if header:
        rows = ["\t".join(map(str, header)), *("\t".join(map(str, row)) for row in metadata)]
    else:
        rows = [str(each) for each in metadata]
    return "".join(f"{row}\n" for row in rows)


def _sprite(images: np.ndarray, count: int) -> tuple[bytes, tuple[int, int]]:
    """Pictures `(N, C, H, W)` as a square of them, and width and height of one."""
    if len(images) != count:
        raise AssertionError("#images should equal with #data points")
    side = int(np.ceil(np.sqrt(count)))
    blank = np.zeros((side * side - count, *images.shape[1:]), images.dtype)
    whole_ = np.concatenate([images, blank])
    rows = [np.concatenate(list(whole_[at : at + side]), axis=2) for at in range(0, side * side, side)]
    pixels = summaries.as_pixels(np.concatenate(rows, axis=1), "CHW")
    return summaries.png(pixels), (images.shape[3], images.shape[2])
