"""Recurrent networks as functions: `lstm`, `gru`, `rnn_tanh`, `rnn_relu`, and one step of each.

Takes sequences (or packed ones), states and flat lists of weights, in the order of `_flat_weights`; gives
what the modules of `weft.nn.modules.rnn` give. One idea: both run `run_layers`, so each step is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.packed import counts_of
from weft.nn.modules.rnn import MODES, State, Weights, run_layers
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


PARAMETERS = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first",
)  # fmt: skip
"""Of packed sequences, `data` and `batch_sizes` stand for `input`, and there is no `batch_first`."""


def _signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with these parameters in its signature."""
    kinds = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in PARAMETERS]
    function.__dict__["__signature__"] = Signature(kinds)
    return function


def _layers(
    params: Sequence[Tensor], biases: bool, count: int, projected: bool
) -> list[tuple[Tensor, Any, Weights]]:
    """The weights of each layer in each direction, from the flat list."""
    each = 2 + 2 * biases + projected
    if len(params) != each * count:
        raise RuntimeError(
            f"expected {each * count} weights for {count} layers and directions, got {len(params)}"
        )
    found = []
    for start in range(0, len(params), each):
        entering, recurrent, *rest = params[start : start + each]
        bias_ih, bias_hh = rest[:2] if biases else (None, None)
        found.append((entering, bias_ih, (recurrent, bias_hh, rest[-1] if projected else None)))
    return found


def _run(mode: str, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[Tensor, State]:
    """`(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`; of packed
    sequences `(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)`.
    """
    names: tuple[str, ...] = PARAMETERS
    packed = "batch_sizes" in given or (len(args) > 2 and isinstance(args[2], (Tensor, tuple, list))
                                        and isinstance(args[1], Tensor) and _is_list(args, 3))  # fmt: skip
    if packed:
        names = ("data", "batch_sizes", *names[1:8])
    call = dict(zip(names, args)) | given
    if len(args) > len(names) or set(call) != set(names):
        raise TypeError(f"{mode.lower()}() takes {', '.join(names)}")
    state = call["hx"] if mode == "LSTM" else (call["hx"],)
    state = tuple(state)
    directions = 1 + bool(call["bidirectional"])
    projected = mode == "LSTM" and state[0].shape[-1] != state[1].shape[-1]
    layers = _layers(call["params"], call["has_biases"], call["num_layers"] * directions, projected)
    dropout = call["dropout"] if call["train"] else 0.0
    if packed:
        sizes: Any = counts_of(call["batch_sizes"])
        return run_layers(mode, call["data"], state, sizes, layers, directions, dropout)
    steps = call["input"]
    out, last = run_layers(
        mode,
        ops.transpose(steps, 0, 1) if call["batch_first"] else steps,
        state,
        None,
        layers,
        directions,
        dropout,
    )
    return (ops.transpose(out, 0, 1) if call["batch_first"] else out), last


def _is_list(args: tuple[Any, ...], place: int) -> bool:
    return len(args) > place and isinstance(args[place], (tuple, list))


@_signed
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of an LSTM over a sequence: the last layer's hidden states, the last hidden and cell states."""
    out, (hidden, cell) = _run("LSTM", args, kwargs)
    return out, hidden, cell


@_signed
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Layers of a GRU over a sequence: the hidden states of the last layer, and the last of each."""
    out, (hidden,) = _run("GRU", args, kwargs)
    return out, hidden


@_signed
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Layers of a recurrent network with tanh over a sequence."""
    out, (hidden,) = _run("RNN_TANH", args, kwargs)
    return out, hidden


@_signed
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Layers of a recurrent network with relu over a sequence."""
    out, (hidden,) = _run("RNN_RELU", args, kwargs)
    return out, hidden


def _cell(
    mode: str,
    input: Tensor,
    state: State,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> State:
    return MODES[mode][1](F.linear(input, w_ih, b_ih), state, (w_hh, b_hh, None))


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of an LSTM: the hidden state and that of the cell."""
    hidden, cell = _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return hidden, cell


def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a recurrent network with tanh."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a recurrent network with relu."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
