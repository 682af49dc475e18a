"""GPUs by CUDA: there are none that Weft uses yet. What asks is answered so; what needs one says so."""

from __future__ import annotations

from typing import Any, NoReturn

from weft.core.errors import AcceleratorError as AcceleratorError
from weft.core.errors import OutOfMemoryError as OutOfMemoryError

MISSING = "Torch not compiled with CUDA enabled"


def is_available() -> bool:
    """Whether there is a GPU that Weft can use."""
    return False


def device_count() -> int:
    """How many GPUs there are."""
    return 0


def is_initialized() -> bool:
    """Whether CUDA has been started."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU knows bfloat16."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether a CUDA graph is being recorded."""
    return False


def manual_seed(seed: int) -> None:
    """Seeds the GPU's random numbers: without one, nothing."""


def manual_seed_all(seed: int) -> None:
    """Seeds the random numbers of all GPUs: without one, nothing."""


def seed_all() -> None:
    """Seeds the random numbers of all GPUs anew: without one, nothing."""


def empty_cache() -> None:
    """Frees memory of the GPU: without one, nothing."""


def get_rng_state_all() -> list[Any]:
    """The states of the random numbers of all GPUs."""
    return []


def set_rng_state_all(new_states: list[Any]) -> None:
    """Sets the states of the random numbers of all GPUs."""


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on the GPU."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts the statistics of memory again."""


def _needs_a_gpu(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Needs a GPU."""
    raise AssertionError(MISSING)


synchronize = current_device = set_device = get_device_name = get_device_properties = _needs_a_gpu
get_device_capability = current_stream = default_stream = get_rng_state = set_rng_state = init = _needs_a_gpu


class Stream:
    """A queue of work on a GPU."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise AssertionError(MISSING)


class Event(Stream):
    """A point in a queue of work on a GPU."""


class ExternalStream(Stream):
    """A queue of work that another library made."""


class StreamContext:
    """Chooses a queue of work for a while: None changes nothing, and there are no others."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *_error: object) -> None:
        """Nothing has changed."""


def stream(stream: Stream | None) -> StreamContext:
    """A block in which a queue of work is chosen."""
    return StreamContext(stream)


class CUDAGraph(Stream):
    """A recording of work on a GPU."""


class graph:
    """Records work on a GPU."""

    def __init__(self, cuda_graph: CUDAGraph, *_args: Any, **_kwargs: Any) -> None:
        raise AssertionError(MISSING)


class device:
    """Chooses a GPU for a while; without one, nothing happens."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: Any) -> None:
        return None
