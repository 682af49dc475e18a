"""Anomaly detection: which line of the forward pass made the node whose gradient failed, or gave NaN.

Takes nothing; while it is on, nodes remember the lines that made them (`weft.tensor.saved` does that), and
the engine runs them through `watched`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core import modes
from weft.core.warn import warn_at_level
from weft.tensor.saved import evaluating

if TYPE_CHECKING:
    from weft.core.arrays import Array


class detect_anomaly:
    """Context manager: backward raises at the first NaN and names the line of the forward op."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.prev: bool | None = None
        warn_at_level(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.prev = modes.modes().anomaly
        modes.enter(anomaly=self.check_nan)

    def __exit__(self, *_error: object) -> None:
        modes.enter(anomaly=self.prev)


class set_detect_anomaly:
    """Switches anomaly detection at once when called; as a context manager, puts it back at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = modes.modes().anomaly
        modes.enter(anomaly=check_nan if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        modes.enter(anomaly=self.prev)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switches anomaly detection on or off."""
    modes.enter(anomaly=check_nan if enabled else None)


def is_anomaly_enabled() -> bool:
    """Whether backward passes name the call whose gradient fails."""
    return modes.modes().anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection also looks for NaN."""
    return modes.modes().anomaly is not False


def watched(node: Any, gradient: Any, graph: bool, check: bool) -> Any:
    """Runs a node's rules; reports where the node was made if they raise or give NaN."""
    before = evaluating.get()
    try:
        evaluating.set(node)
        results = node.graph_backward(gradient) if graph else node.raw_backward(gradient)
        if check:
            for position, value in enumerate(results):
                if value is not None and has_nan(value.array if graph else value):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {position}th output."
                    )
    except Exception:
        report(node)
        raise
    finally:
        evaluating.set(before)
    return results


def has_nan(array: Array) -> bool:
    return array.dtype.kind not in "biu" and bool((array != array).any())


def report(node: Any) -> None:
    """Warns with the forward lines of the node, and of the nodes whose backward made it."""
    name, first = node.name(), True
    seen: list[Any] = []
    while node is not None and node not in seen:
        seen.append(node)
        trace = node.metadata.get("traceback_")
        start = (
            f"Error detected in {name}. "
            if first
            else f"\n\nPrevious calculation was induced by {node.name()}. "
        )
        if trace is None:
            text = (
                "No forward pass information available. Enable detect anomaly during forward pass for more "
                "information."
            )
        else:
            lead = (
                "Traceback of forward call that caused the error:"
                if first
                else "Traceback of forward call that induced the previous calculation:"
            )
            text = f"{lead}\n{''.join(trace)}"
        warn_at_level(start + text, UserWarning, stacklevel=2)
        node, first = node.metadata.get("parent_"), False
