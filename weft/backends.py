"""What kinds of machines and libraries there are, under the names PyTorch gives them: here, the processor.

Takes nothing; gives objects that answer `is_available()` and keep the switches that programs set. One idea: a
switch of a library that is not there may be set, and does nothing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from weft.tensor.base import PUBLIC


class Backend(ModuleType):
    """A library that is, or is not, there."""

    def __init__(self, name: str, available: bool = False, **switches: Any) -> None:
        super().__init__(f"weft.backends.{name}", f"Whether {name} is there, and its switches.")
        self._available = available
        self.__dict__.update(switches)

    def is_available(self) -> bool:
        """Whether Weft can use it."""
        return self._available

    is_built = is_available

    def version(self) -> int | None:
        """Its version: None where it is not there."""
        return None

    @contextlib.contextmanager
    def flags(self, **switches: Any) -> Iterator[None]:
        """Sets switches for a while."""
        before = {name: self.__dict__.get(name) for name in switches}
        self.__dict__.update(switches)
        try:
            yield
        finally:
            self.__dict__.update(before)


class Switches:
    """Switches that do nothing here."""

    def __init__(self, **switches: Any) -> None:
        self.__dict__.update(switches)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"Unknown attribute {name}")
        self.__dict__[name] = value


cudnn = Backend(
    "cudnn",
    enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
    conv=Switches(fp32_precision="none"), rnn=Switches(fp32_precision="none"), fp32_precision="none",
)  # fmt: skip
cuda = Backend(
    "cuda",
    matmul=Switches(
        allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False, fp32_precision="none",
    ),
    preferred_linalg_library=lambda backend=None: None,
    flash_sdp_enabled=lambda: True, mem_efficient_sdp_enabled=lambda: True, math_sdp_enabled=lambda: True,
    cudnn_sdp_enabled=lambda: True,
    enable_flash_sdp=lambda enabled: None, enable_mem_efficient_sdp=lambda enabled: None,
    enable_math_sdp=lambda enabled: None, enable_cudnn_sdp=lambda enabled: None,
)  # fmt: skip
mkl = Backend("mkl")
mkldnn = Backend("mkldnn", enabled=True, deterministic=False, allow_tf32=True)
mps = Backend("mps", is_macos13_or_newer=lambda minor=0: False)
openmp = Backend("openmp")
opt_einsum = Backend("opt_einsum", enabled=False, strategy=None)
quantized = Backend("quantized", engine="none", supported_engines=["none"])


def show() -> str:
    """What Weft is built on, as text."""
    return (
        "Weft, in place of PyTorch\n"
        f"  - Python {sys.version.split()[0]}\n"
        f"  - NumPy {np.__version__}\n"
        f"  - CPU capability usage: {platform.machine()}\n"
    )


def parallel_info() -> str:
    """How many threads there are, as text."""
    threads = PUBLIC["get_num_threads"]()
    return f"Weft's own pool:\n\tget_num_threads() : {threads}\n\tos.cpu_count() : {os.cpu_count()}\n"


def _log_api_usage_once(event: str) -> None:
    """Tells whoever counts uses of PyTorch's parts: nobody does here."""
