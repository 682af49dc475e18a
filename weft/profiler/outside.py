"""What the profiler has of other tools: none of them is here, so programs are told so, as by builds without.

Takes what PyTorch's functions of these names take; gives a writer of traces for TensorBoard, and blocks that
raise where they would mark time lines of NVTX or ITT.
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from typing import Any

from weft.autograd import kineto_available as kineto_available

__all__ = ["emit_itt", "emit_nvtx", "kineto_available", "tensorboard_trace_handler"]


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready` of `profile`: writes each trace into a folder where TensorBoard looks for it."""

    def handle(seen: Any) -> None:
        if not os.path.isdir(dir_name):
            try:
                os.makedirs(dir_name, exist_ok=True)
            except OSError as error:
                raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json")
        if not use_gzip:
            seen.export_chrome_trace(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            seen.export_chrome_trace(plain)
            with open(plain, "rb") as read, gzip.open(path + ".gz", "wb") as written:
                shutil.copyfileobj(read, written)

    return handle


class _Emit:
    """A block whose ops another profiler sees, where there is one. Switched off, it does nothing."""

    tool = ""
    lacking = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes, self.entered = enabled, record_shapes, False

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.tool} annotation context manager is not reentrant")
        raise RuntimeError(self.lacking)

    def __exit__(self, *_error: object) -> None:
        return None


class emit_nvtx(_Emit):
    """Marks every op for NVIDIA's profilers: there is no device that they watch."""

    tool = "NVTX"
    lacking = "NVTX functions not installed. Are you sure you have a CUDA build?"


class emit_itt(_Emit):
    """Marks every op for Intel's VTune."""

    tool = "ITT"
    lacking = "ITT functions not installed. Are you sure you have a ITT build?"
