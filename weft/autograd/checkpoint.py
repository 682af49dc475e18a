"""Checkpointing: forgets what a part of the graph saved, and computes it again when backward needs it.

Takes a function and its arguments; gives what the function gives. One idea: everything autograd saves goes
through a pair of saved-tensor hooks, so the tensors of a checkpointed part can be replaced by their numbers.
The first of them that backward asks for runs the function again, with hooks that take the tensors as they
are saved anew, in the same order.

# Note [Checkpoints inside checkpoints]
The arguments of an inner checkpoint are themselves saved through the hooks of the outer one, so nothing of
the inner part stays in memory either. When backward asks for a tensor of the inner part, the inner function
is to run again; its arguments make the outer one run again first, up to where they were saved.

# Note [Reentrant checkpoints]
`use_reentrant=True` is the older way: a custom Function that runs without recording, and whose backward runs
the function again with recording and calls `backward` on the result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

from weft.autograd.engine import backward as run_backward
from weft.autograd.function import Function
from weft.autograd.graph import saved_tensors_hooks
from weft.autograd.tasks import local
from weft.core import modes
from weft.core.contexts import Block, set_to
from weft.core.device import device
from weft.core.generator import get_rng_state, set_rng_state
from weft.core.interrupts import is_interrupt
from weft.core.naming import named
from weft.core.warn import warn_at_level
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import MetaArray, recorder_of
from weft.tensor.overrides import name_of
from weft.tensor.saved import Item, run_pack, user_lines
from weft.tensor.shims import activate, deactivate

DETERMINISM = ("default", "none")
TIP = (
    "\n\nTip: To see a more detailed error message, either pass `debug=True` to "
    "`weft.utils.checkpoint.checkpoint(...)` or wrap the code block with "
    "`with weft.utils.checkpoint.set_checkpoint_debug_enabled(True):` to enable checkpoint-debug mode "
    "globally."
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """The recomputation differs from the forward."""


class Enough(BaseException):  # nothing on its way may take it for an error of its own
    """All saved tensors have been recomputed: the rest of the function need not run (early stop)."""

    def __init__(self, part: object) -> None:
        self.part = part


# -- random numbers and stopping, where a graph is recorded --------------------------------------
def random_state() -> Tensor:
    """The state of the default generator; a node where a graph is recorded."""
    recorder = recorder_of(modes.current())
    state = get_rng_state()
    if recorder is None:
        return wrap(state)
    made = wrap(MetaArray(state.shape, state.dtype, state.strides, device("cpu"), True))
    recorder.note_effect(random_state, (), made)
    return made


def put_random_state(state: Tensor) -> None:
    """Restores the state of the default generator; a node where a graph is recorded."""
    recorder = recorder_of(modes.current())
    if recorder is None:
        set_rng_state(state.array)
    else:
        recorder.note_effect(put_random_state, (state,), None)


class StopRecomputation:
    """Ends a recomputation. Where a graph is recorded, that waits until the op that has just saved its last
    tensor is written down.
    """

    def __init__(self, part: _Part) -> None:
        self.part = part

    def __call__(self) -> None:
        raise Enough(self.part)


def noop_context_fn() -> tuple[Any, Any]:
    """The default `context_fn`: null contexts for the forward and the recomputation."""
    return nullcontext(), nullcontext()


_settings: dict[str, Any] = {"early stop": True, "debug": None}


@contextmanager
def _setting(name: str, value: object) -> Any:
    before, _settings[name] = _settings[name], value
    try:
        yield
    finally:
        _settings[name] = before


def set_checkpoint_early_stop(enable: bool) -> Any:
    """Inside, checkpoints stop recomputing (or not) as soon as all that is needed is there."""
    return _setting("early stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """Inside, `debug` of all checkpoints is this; None leaves it to each of them."""
    return _setting("debug", enabled)


def _warn_of_default(name: str, more: str = "") -> None:
    """Says, to who calls a checkpoint so, that it takes `use_reentrant` to be True."""
    warn_at_level(
        named(
            f"weft.utils.{name}: the use_reentrant parameter should be passed explicitly. {more}"
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
            "you can pass use_reentrant=True. Refer to docs for more details on the differences between the "
            "two variants."
        ),
        UserWarning,
        stacklevel=3,
    )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[
        [], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
    ] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Runs `function(*args, **kwargs)`; what it would save for backward is recomputed when it is needed."""
    if use_reentrant is None:
        later = "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception. "
        _warn_of_default("checkpoint", later)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if modes.grad_enabled():
            check_backward_validity(args)
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in DETERMINISM:
        raise ValueError(
            f"determinism_check should be one of {list(DETERMINISM)}, but got {determinism_check}"
        )
    forward_context, again_context = context_fn()
    if not modes.grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    log = _Log() if (debug if _settings["debug"] is None else _settings["debug"]) else None
    early_stop = early_stop and _settings["early stop"]
    part = _Part(function, again_context, determinism_check == "default", early_stop, log)
    part.remember(args, kwargs, preserve)
    before = modes.state.get()
    try:
        with ExitStack() as stack:
            stack.enter_context(forward_context)
            if log is not None:
                stack.enter_context(log.listen(log.first))
            stack.enter_context(saved_tensors_hooks(part.pack, part.unpack))
            result = function(*args, **kwargs)
    except BaseException as error:
        if is_interrupt(error):
            modes.state.set(before)  # however it has left the blocks inside
        raise
    part.complete = True
    return result


class _Number:
    """Stands on the graph for one saved tensor. While it lives, the tensor may be asked for."""

    __slots__ = ("index", "facts", "__weakref__")

    def __init__(self, index: int, facts: tuple[Any, ...]) -> None:
        self.index, self.facts = index, facts


class _Part:
    """One call of a checkpointed function: how to run it again, and what that has given."""

    def __init__(
        self, function: Callable[..., Any], context: Any, checked: bool, early_stop: bool, log: _Log | None
    ) -> None:
        self.function, self.context = function, context
        self.checked, self.early_stop, self.log = checked, early_stop, log
        self.numbers: list[weakref.ref[_Number]] = []
        self.complete = False
        self.runs: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()

    def remember(self, args: tuple[Any, ...], kwargs: dict[str, Any], preserve: bool) -> None:
        """Keeps the arguments (through the hooks around us, if any), the modes and the random state."""
        mode = modes.modes()
        hooks = mode.saved_hooks[-1] if mode.saved_hooks else None
        self.args = [_kept(value, hooks) for value in args]
        self.kwargs = {name: _kept(value, hooks) for name, value in kwargs.items()}
        self.extra = mode.extra
        self.random = random_state() if preserve else None

    # -- forward ---------------------------------------------------------------
    def pack(self, tensor: Tensor) -> _Number:
        number = _Number(len(self.numbers), _facts(tensor))
        self.numbers.append(weakref.ref(number))
        return number

    # -- backward ---------------------------------------------------------------
    def unpack(self, number: _Number) -> Any:
        """The tensor with this number: computed again, together with the others, on the first request."""
        task = local.task
        found = None if task is None else self.runs.get(task)
        if found is None or number.index not in found:
            before = modes.state.get()
            try:
                found = self.again()
            finally:
                modes.state.set(before)  # however an interrupt has left the blocks inside
            if task is not None:
                self.runs[task] = found
        if number.index not in found:
            self.fail(
                "A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.numbers)}\n"
                f"Number of tensors saved during recomputation: {len(found)}."
            )
        return found.pop(number.index)  # whoever asked has it now: it is not to live longer

    def again(self) -> dict[int, Any]:
        """Runs the function once more; the tensors it saved, by number."""
        found: dict[int, Any] = {}
        wrong: list[str] = []
        count = 0

        def take(tensor: Tensor) -> Any:
            nonlocal count
            index, count = count, count + 1
            if index >= len(self.numbers):
                if self.complete:
                    self.fail(
                        "trying to save more tensors during recomputation than during the original forward "
                        "pass."
                    )
                return tensor.detach()
            number = self.numbers[index]()
            if number is not None:
                if self.checked and _facts(tensor) != number.facts:
                    wrong.append(_difference(index, number.facts, _facts(tensor)))
                found[index] = tensor.detach()
            if self.early_stop and self.complete and count == len(self.numbers):
                recorder = recorder_of(modes.current())
                if recorder is None:
                    raise Enough(self)
                recorder.waiting.append(StopRecomputation(self))
            return tensor.detach()

        with ExitStack() as stack:
            recorder = recorder_of(modes.current())
            if recorder is not None:
                stack.enter_context(recorder.repeating())
            stack.enter_context(self.context if self.context is not None else nullcontext())
            stack.enter_context(_surroundings(self.extra, self.random))
            if self.log is not None:
                stack.enter_context(self.log.listen(self.log.second))
            stack.enter_context(saved_tensors_hooks(take, lambda packed: packed))
            try:
                args = [_given(value) for value in self.args]
                self.function(*args, **{name: _given(value) for name, value in self.kwargs.items()})
            except Enough as enough:
                if enough.part is not self:
                    raise
        if wrong:
            self.fail(
                "Recomputed values for the following tensors have different metadata than during the forward "
                "pass.\n" + "\n".join(wrong)
            )
        return found

    def fail(self, reason: str) -> None:
        if self.log is not None:
            raise CheckpointError(named(f"weft.utils.checkpoint: {reason}\n\n{self.log.text()}"))
        raise CheckpointError(named(f"weft.utils.checkpoint: {reason}{TIP}"))


def _facts(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def _difference(index: int, before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    def words(facts: tuple[Any, ...]) -> str:
        return str(dict(zip(("shape", "dtype", "device"), facts)))

    return (
        f"tensor at position {index}:\nsaved metadata: {words(before)}\nrecomputed metadata: {words(after)}"
    )


class _PackedArgument:
    """A tensor argument that the hooks around the checkpoint packed."""

    __slots__ = ("item", "tracked")

    def __init__(self, tensor: Tensor, hooks: Any) -> None:
        pack, unpack = hooks
        self.item = Item(run_pack(pack, tensor), unpack, tensor.array)
        self.tracked: bool = tensor.requires_grad


def _kept(value: object, hooks: object) -> Any:
    return _PackedArgument(value, hooks) if hooks is not None and isinstance(value, Tensor) else value


def _given(value: object) -> Any:
    """An argument as the function got it: recomputation must record where forward did."""
    if type(value) is not _PackedArgument:
        return value
    tensor = value.item.tensor().detach()
    tensor.tracked = value.tracked
    return tensor


def _surroundings(extra: object, random: Any) -> Block:
    """The modes and the random state that forward had, with recording on."""
    state = set_to((modes.state, modes.changed(grad=True, extra=extra)))
    if random is None:
        return state
    put, put_back = partial(put_random_state, random), partial(put_random_state, random_state())
    return Block([put, state.__enter__], [state.close], last=put_back)


# -- what happened, for debug=True ---------------------------------------------------------------
class _Log:
    """The calls of forward and of recomputation, each with the user's line."""

    def __init__(self) -> None:
        self.first: list[str] = []
        self.second: list[str] = []

    def listen(self, lines: list[str]) -> Block:
        lines.clear()
        functions = *modes.modes().functions, _Listener(lines)
        state = set_to((modes.state, modes.changed(functions=functions)))
        return Block([activate, state.__enter__], [state.close], last=deactivate)

    def text(self) -> str:
        lines = [
            "An error happened while unpacking tensors; the calls of the latest computation follow, because "
            "debug is on.",
            "",
            "Operations executed during the original forward:",
            *self.first,
            "",
            "Operations executed during recomputation:",
            *self.second,
        ]
        return "\n".join(lines)


class _Listener:
    """A function mode that notes each call."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        place = user_lines()[-1:]
        where = f"   ({place[0].filename}:{place[0].lineno} in {place[0].name})" if place else ""
        position = len(self.lines)
        self.lines.append(f"    {name_of(function)}{where}")
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.lines[position] = f"    {name_of(function)} -> {result.dtype} {list(result.shape)}{where}"
        return result


# -- the older way ---------------------------------------------------------------
class CheckpointFunction(Function):
    """See Note [Reentrant checkpoints]."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        ctx.run_function = run_function
        ctx.random = random_state() if preserve_rng_state else None
        ctx.extra = modes.modes().extra
        ctx.inputs = [None if isinstance(value, Tensor) else value for value in args]
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        task = local.task
        if task is None or task.captures is not None or task.needed is not None:
            raise RuntimeError(
                named(
                    "When use_reentrant=True, weft.utils.checkpoint is incompatible with "
                    ".grad() or passing an "
                    "`inputs` parameter to .backward(). To resolve this error, you can either set "
                    "use_reentrant=False, or call .backward() without passing the `inputs` argument."
                )
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor
        fresh = detach_variable(tuple(inputs))
        with _surroundings(ctx.extra, ctx.random):
            outputs = ctx.run_function(*fresh)
        results = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(results, gradients) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        run_backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *[value.grad if isinstance(value, Tensor) else None for value in fresh]


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each tensor of a tuple as a leaf of its own, that requires grad as it did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    results: list[Any] = []
    for value in inputs:
        if isinstance(value, Tensor):
            leaf = value.detach()
            leaf.tracked = value.requires_grad
            value = leaf
        results.append(value)
    return tuple(results)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns where no gradient can flow through a reentrant checkpoint."""
    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
        warn_at_level(
            "None of the inputs have requires_grad=True. Gradients will be None", UserWarning, stacklevel=3
        )


# -- chains ---------------------------------------------------------------
def checkpoint_sequential(
    functions: Any, segments: int, input: object, use_reentrant: bool | None = None, **kwargs: object
) -> Any:
    """Runs functions one after the other, cut into parts of which all but the last are checkpointed."""
    if use_reentrant is None:
        _warn_of_default("checkpoint.checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(chain) // segments
    if not size:
        raise ValueError(f"{len(chain)} functions cannot be cut into {segments} segments")
    ends = [size * i for i in range(1, segments)]
    start = 0
    for end in ends:
        input = checkpoint(
            _in_turn(chain[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
        start = end
    return _in_turn(chain[start:])(input)


def _in_turn(functions: list[Any]) -> Callable[[Any], Any]:
    def run(value: object) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run
