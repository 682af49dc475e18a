"""Recurrent layers: `RNN`, `LSTM`, `GRU` over sequences, and their cells for one step.

Takes a sequence and the state before it, gives the states at every step and the last one. One idea: the
inputs of all steps go through one product; what is left for each step is a function `(gates, state) ->
state`, and a layer is a loop over it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.core import modes
from weft.core.dtypes import bfloat16, float32
from weft.nn.modules.module import Module
from weft.nn.modules.packed import PackedSequence, counts_of
from weft.nn.modules.utils import empty_parameter, unusual
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

State = tuple[Tensor, ...]
Weights = tuple[Tensor, Tensor | None, Tensor | None]
"""Of one layer in one direction: weight_hh, bias_hh, weight_hr (both None where there is none)."""


# -- one step ------------------------------------------------------------------------------------------------
def _parts(gates: Tensor, count: int) -> list[Tensor]:
    """The gates, which lie side by side. Slices, because for small steps one `chunk` costs more."""
    width = gates.shape[1] // count
    return [gates[:, start : start + width] for start in range(0, count * width, width)]


def _lstm_step(gates: Tensor, state: State, weights: Weights) -> State:
    """Gates from the input, in the order in, forget, cell, out; the state is (hidden, cell)."""
    hidden, cell = state
    enter, forget, candidate, leave = _parts(gates + F.linear(hidden, weights[0], weights[1]), 4)
    cell = F.sigmoid(forget) * cell + F.sigmoid(enter) * F.tanh(candidate)
    hidden = F.sigmoid(leave) * F.tanh(cell)
    return (hidden if weights[2] is None else F.linear(hidden, weights[2])), cell


def _gru_step(gates: Tensor, state: State, weights: Weights) -> State:
    """Gates from the input, in the order reset, update, new; reset acts on what the state adds to the
    last."""
    hidden = state[0]
    width = hidden.shape[1]
    recurrent = F.linear(hidden, weights[0], weights[1])
    both = F.sigmoid(gates[:, : 2 * width] + recurrent[:, : 2 * width])
    reset, update = _parts(both, 2)
    candidate = F.tanh(gates[:, 2 * width :] + reset * recurrent[:, 2 * width :])
    return (candidate + update * (hidden - candidate),)


def _tanh_step(gates: Tensor, state: State, weights: Weights) -> State:
    return (F.tanh(gates + F.linear(state[0], weights[0], weights[1])),)


def _relu_step(gates: Tensor, state: State, weights: Weights) -> State:
    return (F.relu(gates + F.linear(state[0], weights[0], weights[1])),)


Step = Callable[[Tensor, State, Weights], State]
MODES: dict[str, tuple[int, Step]] = {
    "LSTM": (4, _lstm_step),
    "GRU": (3, _gru_step),
    "RNN_TANH": (1, _tanh_step),
    "RNN_RELU": (1, _relu_step),
}
"""Mode: how many gates there are, and the step."""


# -- sequences -----------------------------------------------------------------------------------------------
class _Recurrent(Module):
    hidden_size: int

    def reset_parameters(self) -> None:
        """Draws new weights, uniform within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


class RNNBase(_Recurrent):
    """Layers of one mode over a sequence `(L, N, features)`, `(N, L, features)` or `(L, features)`.

    >>> layer = weft.nn.RNNBase("GRU", 4, 8)
    >>> [name for name, _ in layer.named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    dropout: float

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_options(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout = float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._all_weights: list[list[str]] = []
        rows, width, directions = MODES[mode][0] * hidden_size, proj_size or hidden_size, 1 + bidirectional
        for layer in range(num_layers):
            columns = input_size if layer == 0 else width * directions
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, width)}
            if bias:
                shapes.update(bias_ih=(rows,), bias_hh=(rows,))
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[:directions]:
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, empty_parameter(shape, device, dtype))
                self._all_weights.append(names)
        self.reset_parameters()

    def flatten_parameters(self) -> None:
        """Nothing to do: the weights need not lie in one piece."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    # -- checks ----------------------------------------------------------------------------------------------
    def check_input(self, input: Tensor, batch_sizes: Tensor | None = None) -> None:
        """Refuses input of another dtype, rank or width than the layer's."""
        kind = getattr(self, self._all_weights[0][0]).dtype
        if input.dtype != kind:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({kind}). "
                f"Convert input: input.to({kind}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None = None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state for this input."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])  # a tensor, or the numbers in it
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (1 + self.bidirectional), batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None = None
    ) -> tuple[int, int, int]:
        """The shape of the cell state for this input."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Refuses a state of another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None = None) -> None:
        """Refuses input or a state that does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    # -- running ---------------------------------------------------------------------------------------------
    def _layer_weights(self, position: int) -> tuple[Tensor, Any, Weights]:
        """weight_ih, bias_ih and what each step needs, of one layer in one direction."""
        weights = [getattr(self, name) for name in self._all_weights[position]]
        last = weights.pop() if self.proj_size else None
        entering, recurrent, *biases = weights
        bias_ih, bias_hh = biases or (None, None)
        return entering, bias_ih, (recurrent, bias_hh, last)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its sequences in another order."""
        return _reordered(hx, permutation)

    def _run(self, input: Tensor, state: State) -> tuple[Tensor, State]:
        """All layers over a batched sequence; the state is stacked by layer and direction."""
        steps = ops.transpose(input, 0, 1) if self.batch_first else input
        if steps.shape[0] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        out, last = self._layers(steps, state, None)
        return (ops.transpose(out, 0, 1) if self.batch_first else out), last

    def _layers(self, steps: Tensor, state: State, sizes: list[int] | None) -> tuple[Tensor, State]:
        """All layers over steps: `(L, N, features)`, or packed ones of these sizes."""
        layers = [self._layer_weights(place) for place in range(len(self._all_weights))]
        dropout = self.dropout if self.training else 0.0
        return run_layers(self.mode, steps, state, sizes, layers, 1 + self.bidirectional, dropout)

    def _run_packed(self, packed: PackedSequence, state: State | None) -> tuple[PackedSequence, State]:
        """All layers over a packed sequence; states come and go in the order of the sequences."""
        data, batch_sizes, order, back = packed
        sizes: Any = counts_of(batch_sizes)
        if state is None:
            hidden = ops.new_zeros(data, self.get_expected_hidden_size(data, sizes))
            cell = ops.new_zeros(data, self.get_expected_cell_size(data, sizes))
            state = (hidden, cell) if self.mode == "LSTM" else (hidden,)
        else:
            state = tuple(_reordered(part, order) for part in state)
        self.check_forward_args(data, state if self.mode == "LSTM" else state[0], sizes)
        out, last = self._layers(data, state, sizes)
        last = tuple(_reordered(part, back) for part in last)
        return PackedSequence(out, batch_sizes, order, back), last

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += unusual(self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0)
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text


def _check_options(
    mode: str, input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any, dropout: Any,
    proj_size: int,
) -> None:  # fmt: skip
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being "
            "zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
            f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if mode not in MODES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


def _reordered(part: Tensor, order: Tensor | None) -> Tensor:
    return part if order is None else ops.index_select(part, 1, order)


def _scan(
    step: Step, gates: Sequence[Tensor], state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """The hidden states of one layer in one direction, in order of time, and its last state."""
    hidden = []
    for entering in reversed(gates) if backwards else gates:
        state = step(entering, state, weights)
        hidden.append(state[0])
    if backwards:
        hidden.reverse()
    return ops.stack(hidden, 0), state


def _scan_packed(
    step: Step, gates: Sequence[Tensor], state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """As `_scan`, where the first so many sequences have each step."""
    sizes = [entering.shape[0] for entering in gates]
    hidden = []
    done: list[State] = []
    whole, state = state, tuple(part[: sizes[-1 if backwards else 0]] for part in state)
    for place in reversed(range(len(sizes))) if backwards else range(len(sizes)):
        size, known = sizes[place], state[0].shape[0]
        if size > known:  # backwards: sequences that end here begin
            state = tuple(ops.cat([part, start[known:size]], 0) for part, start in zip(state, whole))
        elif size < known:  # forwards: sequences that have ended leave
            done.append(tuple(part[size:] for part in state))
            state = tuple(part[:size] for part in state)
        state = step(gates[place], state, weights)
        hidden.append(state[0])
    if backwards:
        hidden.reverse()
    if done:
        state = tuple(ops.cat(parts, 0) for parts in zip(state, *reversed(done)))
    return ops.cat(hidden, 0), state


def run_layers(
    mode: str, steps: Tensor, state: State, sizes: list[int] | None,
    layers: Sequence[tuple[Tensor, Tensor | None, Weights]], directions: int, dropout: float,
) -> tuple[Tensor, State]:  # fmt: skip
    """All layers over steps, `(L, N, features)` or packed ones of these sizes: what they give, and the last
    states. `layers` has weight_ih, bias_ih and what each step needs, of each layer in each direction.
    """
    step = MODES[mode][1]
    starts = [ops.unbind(part, 0) for part in state]
    ends: list[State] = []
    for position in range(0, len(layers), directions):
        outputs = []
        for direction in range(directions):
            entering, bias, weights = layers[position + direction]
            gates = F.linear(steps, entering, bias)
            first = tuple(part[position + direction] for part in starts)
            backwards = direction == 1
            if sizes is None:
                hidden, end = _scan(step, ops.unbind(gates, 0), first, weights, backwards)
            else:
                hidden, end = _scan_packed(step, ops.split(gates, sizes), first, weights, backwards)
            outputs.append(hidden)
            ends.append(end)
        steps = outputs[0] if directions == 1 else ops.cat(outputs, -1)
        if dropout and position + directions < len(layers):
            steps = F.dropout(steps, dropout, True)
    return steps, tuple(ops.stack(parts, 0) for parts in zip(*ends))


class _OneState(RNNBase):
    """The layers whose state is one tensor."""

    _rank_error: str

    @staticmethod
    def _refuse_projections(proj_size: int | None) -> None:
        if proj_size is not None:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if isinstance(input, PackedSequence):
            packed, (last,) = self._run_packed(input, None if hx is None else (hx,))
            return packed, last
        if input.dim() not in (2, 3):
            raise ValueError(self._rank_error.format(input.dim()))
        batched = input.dim() == 3
        if hx is not None and hx.dim() != input.dim():
            word = "batched 3-D input, hx should also be 3-D" if batched else (
                "unbatched 2-D input, hx should also be 2-D"
            )  # fmt: skip
            raise RuntimeError(f"For {word} but got {hx.dim()}-D tensor")
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else hx.unsqueeze(1)
        if hx is None:
            hx = ops.new_zeros(input, self.get_expected_hidden_size(input))
        self.check_forward_args(input, hx)
        out, (last,) = self._run(input, (hx,))
        if batched:
            return out, last
        return out.squeeze(batch_dim), last.squeeze(1)


class RNN(_OneState):
    """`h = tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)`, or with relu.

    >>> layer = weft.nn.RNN(input_size=4, hidden_size=8, nonlinearity="relu")
    >>> states, last = layer(weft.zeros(5, 3, 4))
    >>> states.shape, last.shape
    (weft.Size([5, 3, 8]), weft.Size([1, 3, 8]))
    """

    _rank_error = "RNN: Expected input to be 2D or 3D, got {}D tensor instead"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, proj_size: int | None = None,
    ) -> None:  # fmt: skip
        self._refuse_projections(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Gated recurrent units: reset and update gates.

    >>> layer = weft.nn.GRU(input_size=4, hidden_size=8, batch_first=True)
    >>> states, last = layer(weft.zeros(3, 5, 4))
    >>> states.shape, last.shape
    (weft.Size([3, 5, 8]), weft.Size([1, 3, 8]))
    """

    _rank_error = "GRU: Expected input to be 2D or 3D, got {}D instead"

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        device: Any = None, dtype: Any = None, *, proj_size: int | None = None,
    ) -> None:  # fmt: skip
        self._refuse_projections(proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device,
            dtype,
        )  # fmt: skip


def _autocast_dtype() -> Any:
    """What an active autocast casts to."""
    mode = modes.current()
    if type(mode) is bool:
        return None
    return next((value.dtype for name, value in mode.extra if name == "autocast"), None)


class LSTM(RNNBase):
    """Long short-term memory: a hidden state, by choice projected, and a cell state.

    >>> layer = weft.nn.LSTM(input_size=4, hidden_size=8, num_layers=2, bidirectional=True)
    >>> states, (hidden, memory) = layer(weft.zeros(5, 3, 4))
    >>> states.shape, hidden.shape
    (weft.Size([5, 3, 16]), weft.Size([4, 3, 8]))
    """

    __call__: Callable[..., tuple[Any, tuple[Tensor, Tensor]]]

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
            device, dtype,
        )  # fmt: skip

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None = None) -> None:
        """Refuses input or states that do not fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Both states with their sequences in another order."""
        return hx if permutation is None else tuple(_reordered(part, permutation) for part in hx)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Gives the hidden states of all steps, and the last (hidden, cell)."""
        if isinstance(input, PackedSequence):
            out, (last, cell) = self._run_packed(input, None if hx is None else tuple(hx))
            return out, (last, cell)
        rank = input.dim()
        if rank not in (2, 3):
            raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {rank}D instead")
        batched = rank == 3
        batch_dim = 0 if self.batch_first else 1
        if hx is not None and (hx[0].dim() != rank or hx[1].dim() != rank):
            raise RuntimeError(
                f"For {'batched' if batched else 'unbatched'} {rank}-D input, hx and cx should "
                f"also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        if hx is None:
            hidden = ops.new_zeros(input, self.get_expected_hidden_size(input))
            hx = hidden, ops.new_zeros(input, self.get_expected_cell_size(input))
        self.check_forward_args(input, hx)
        out, (last, cell) = self._run(input, tuple(hx))
        if self.proj_size == 0 and out.dtype is float32 and _autocast_dtype() is bfloat16:
            # PyTorch's CPU kernel is lowered as a whole, unlike the loops of GRU, cells and projections.
            out, last, cell = (part.to(bfloat16) for part in (out, last, cell))
        if batched:
            return out, (last, cell)
        return out.squeeze(batch_dim), (last.squeeze(1), cell.squeeze(1))


# -- cells ---------------------------------------------------------------------------------------------------
class RNNCellBase(_Recurrent):
    """One step of a recurrent layer, on `(N, features)` or `(features,)`.

    >>> cell = weft.nn.RNNCellBase(4, 8, bias=False, num_chunks=3)
    >>> cell.weight_ih.shape, cell.weight_hh.shape
    (weft.Size([24, 4]), weft.Size([24, 8]))
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = empty_parameter((rows, input_size), device, dtype)
        self.weight_hh = empty_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def _step(self, step: Step, input: Tensor, state: Sequence[Tensor] | None, parts: int) -> State:
        """One step; without a batch, with one made up for it."""
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if state is None:
            state = (ops.new_zeros(input, (input.size(0), self.hidden_size)),) * parts
        elif not batched:
            state = [part.unsqueeze(0) for part in state]
        self._check_step(input, state)
        gates = F.linear(input, self.weight_ih, self.bias_ih)
        made = step(gates, tuple(state), (self.weight_hh, self.bias_hh, None))
        return made if batched else tuple(part.squeeze(0) for part in made)

    def _check_step(self, input: Tensor, state: Sequence[Tensor]) -> None:
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}"
            )
        for position, part in enumerate(state):
            if part.size(0) != input.size(0):
                raise RuntimeError(
                    f"Input batch size {input.size(0)} doesn't match hidden{position} "
                    f"batch size {part.size(0)}"
                )
            if part.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{position} has inconsistent hidden_size: "
                    f"got {part.size(1)}, expected {self.hidden_size}"
                )

    def _check_ranks(self, input: Tensor, hidden: Tensor | None) -> None:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if hidden is not None and hidden.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hidden.dim()}D instead")

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of an `RNN`.

    >>> cell = weft.nn.RNNCell(4, 8)
    >>> cell(weft.zeros(3, 4)).shape
    weft.Size([3, 8])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        self._check_ranks(input, hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = _tanh_step if self.nonlinearity == "tanh" else _relu_step
        return self._step(step, input, None if hx is None else (hx,), 1)[0]


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    >>> cell = weft.nn.GRUCell(4, 8)
    >>> cell(weft.zeros(3, 4), weft.zeros(3, 8)).shape
    weft.Size([3, 8])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        self._check_ranks(input, hx)
        return self._step(_gru_step, input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`; the state is (hidden, cell).

    >>> cell = weft.nn.LSTMCell(4, 8)
    >>> hidden, memory = cell(weft.zeros(3, 4))
    >>> hidden.shape, memory.shape
    (weft.Size([3, 8]), weft.Size([3, 8]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        self._check_ranks(input, None)
        for position, part in enumerate(hx or ()):
            if part.dim() not in (1, 2):
                raise ValueError(
                    f"LSTMCell: Expected hx[{position}] to be 1D or 2D, got {part.dim()}D instead"
                )
        hidden, cell = self._step(_lstm_step, input, hx, 2)
        return hidden, cell
