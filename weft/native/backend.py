"""The compiler that `native` gives to differentiation: graphs of pure ops to functions of tensors.

Takes a graph and, in each call, tensors; compiles a program per layout of the inputs. One idea: whatever
cannot be compiled runs as it is, and says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from struct import pack
from time import perf_counter
from typing import Any, Final

import numpy as np

from weft.core.collection import promote, put_off
from weft.core.counters import count
from weft.core.generator import Generator
from weft.core.handlers import in_own_context
from weft.core.interrupts import let_through
from weft.core.lazy import lazy
from weft.core.logs import is_heard, log, observers, tell
from weft.core.once import lock
from weft.core.recent import Recent
from weft.core.records import record
from weft.core.settings import settings
from weft.core.varying import VARYING, Builds, Staying, Varying
from weft.graph.node import READ_FROM
from weft.graph.text import READS_GRAPH, TAKES_SIZES
from weft.native.lower.opening import (
    Fixed,
    Opened,
    SettledModule,
    open_key,
    open_places,
    sizes_agree,
    unread,
    values_of,
)
from weft.native.program.program import Changed, Failed
from weft.native.program.stored import kept_or_made
from weft.native.target import Running, Target, Uncompiled, Unlowered

_planning: Any = lazy("weft.native.program.planning")
_template: Any = lazy("weft.native.program.template")
_kept: Any = lazy("weft.native.program.kept_templates")
_looking: Any = lazy("weft.native.program.describe")
"""Not needed where all programs are on disk."""
WATCHED: Final = ("fusion", "kernels", "memory", "llvm", "asm")
"""Topics for which programs are made anew, though they may be on disk."""
listeners: list[Callable[[Any, list[Any]], None]] = []
"""Told each program that is made, and for which inputs."""


@record(frozen=True, slots=True)
class Layout:
    """What this package has to know of tensors."""

    array: Callable[[Any], Any]
    """The array of a tensor; numbers as they are."""
    wrap: Callable[[Any], Any]
    """A tensor on an array."""
    refuse: Callable[[str], None] = lambda reason: None
    """Told why a graph has no program; may raise."""
    otherwise: Callable[[Any, list[Any]], Callable[[list[Any]], Any]] = lambda module, examples: (
        lambda values: module.forward(*values)
    )
    """Compiles a graph that has no program."""


_warned: set[str] = set()
"""Reasons that were said already: a process that cannot run code says so once."""
MOST_PROGRAMS: Final = 64
MOST_GENERAL: Final = 4
"""So many templates for all numbers, as sizes of 0 and 1 and signs take others."""
MOST_SETTLED: Final = 512
"""How many there may be where most are those of templates: these hold nothing but numbers."""


class Compiled:
    """A graph, with a program per layout of its inputs."""

    def __init__(self, graph_module: Any, layout: Layout, target: Target) -> None:
        self.graph_module, self.layout, self.target = graph_module, layout, target
        self.programs = Recent()  # programs, or why there are none, by layout
        self.last: Running | None = None
        """The program of the last call, if arrays are all that it depends on: it looks at them itself."""
        self.otherwise: Callable[[list[Any]], Any] | None = None
        self.lock = lock()
        self.builds = Builds()
        self.varying: Varying = graph_module.graph.meta.get(VARYING) or Varying()
        self.narrow: list[tuple[Any, Any]] = []
        """Layouts and keys of programs that are for the very numbers of their calls, the latest last."""
        self.staying = Staying()
        self.places = open_places(graph_module.graph)
        """Of sizes that are open: see `weft.native.lower.opening`."""
        self.unread = unread(graph_module.graph, self.places)
        self.templates: list[tuple[Any, Any]] = []
        self.generals: dict[Any, int] = {}
        """By layout: how many more templates for all numbers may be tried, once there are enough for one."""
        self.fixed: dict[Any, Running] = {}
        """By programs that call Python and the floats they were given for long: those with these in them."""

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        self.builds.calls[0] += 1
        arrays = [self.layout.array(each) for each in inputs]
        last = self.last
        if last is not None:
            last = self.with_floats(last, arrays) if last.python else last
            try:
                return self.results(last, inputs, last(arrays))
            except Changed:
                pass
            except Failed:
                return self.op_by_op(inputs)  # as Python does it
        return self.looked_up(inputs, arrays)

    def looked_up(self, inputs: tuple[Any, ...], arrays: list[Any]) -> tuple[Any, ...]:
        """A call of the program that there is for these inputs, or of a new one."""
        given = [plain(array) for array in arrays]
        key = self.key(given)
        program: Running | str | None = self.programs.find(key)
        if program is None:
            if self.places and not sizes_agree(self.graph_module.graph, self.places, given):
                return self.op_by_op(inputs)
            program = self.settled(key, given) if self.templates else None
        if program is None:
            layout = self.layout_of(key, given)
            if self.builds.are_enough(layout):
                program = self.general(layout, key, given)
            if program is None and not self.builds.wants(layout, key):
                return self.op_by_op(inputs, "numbers that have no program, since they vary")
            program = program or self.new_program(key, given)
        if isinstance(program, str):
            return self.op_by_op(inputs)
        if any(is_copied(given[n], arrays[n]) for _, n in program.written):
            return self.op_by_op(inputs)
        sees = program.looks and self.tells(program) and all(is_looked_at(each) for each in arrays)
        self.last = program if sees else None
        program = self.with_floats(program, given) if program.python else program
        try:
            return self.results(program, inputs, program(given))
        except Changed:
            return self.op_by_op(inputs, "an input that may not be written")
        except Failed:
            return self.op_by_op(inputs)  # as Python does it

    def key(self, given: list[Any]) -> Any:
        """What a program depends on in its inputs: floats, too, where a size is made of one."""
        told = [given[number] for one, (number, _) in self.places.items() if one.kind is float]
        return tuple([key_of(array) for array in given] + [pack("<d", value) for value in told])

    def new_program(self, key: Any, given: list[Any]) -> Running | str:
        """The program for inputs that had none."""
        with self.lock:
            known: Running | str | None = self.programs.get(key)
            if known is not None:  # of another thread
                return known
            if len(self.programs) >= MOST_PROGRAMS:
                self.programs.drop()
            program = in_own_context(self.program, given)
            self.programs.keep(key, program)
            if self.is_narrow(program):
                layout = self.layout_of(key, given)
                self.builds.made(layout)
                values, changed = self.built_for(key, layout)
                self.narrow = [*self.narrow[1 - MOST_PROGRAMS :], (layout, key)]
                self.varying.build(values, changed)
        return program

    def tells(self, program: Running) -> bool:
        """Whether the inputs at which a program looks tell all sizes: zeros like an input do not read it."""
        return {number for number, _ in self.places.values()} <= {number for _, number in program.givens}

    def settled(self, key: Any, given: list[Any]) -> Running | None:
        """The program for these sizes of a template that there is."""
        values, layout = values_of(self.places, given), self.layout_of(key, given)
        for known, template in [*self.templates]:
            if known == layout and template.fits(values):
                program: Running = in_own_context(template.at, values, given)
                if len(self.programs) >= MOST_SETTLED:
                    self.programs.drop()
                self.programs.keep(key, program)
                return program
        return None

    def general(self, layout: Any, key: Any, given: list[Any]) -> Running | None:
        """The program for these numbers of a template that serves others, too, though it must do without
        knowing them while it is made; None where there is none.
        """
        with self.lock:
            left = self.generals.get(layout, MOST_GENERAL)
            found = self.settled(key, given) if self.templates else None
            if found is None and left and self.target.keeps and self.places and not settings.bitwise:
                self.generals[layout] = left - 1
                if in_own_context(self.template, given, True) is None:
                    self.generals[layout] = 0
                else:
                    found = self.settled(key, given)
        return found

    def template_of(self, program: Running) -> Any:
        """The template of a program; None where it is for one size alone."""
        own = getattr(program, "template", None)
        return own or next((each for _, each in [*self.templates] if each.first is program), None)

    def layout_of(self, key: Any, given: list[Any]) -> Any:
        """All that programs depend on but the numbers of a call."""
        if not self.target.keeps or not self.places:
            return layout_of(key)
        return open_key(self.graph_module.graph, given, key_of)

    def is_narrow(self, program: Running | str) -> bool:
        """Whether a new program is for the very numbers of its call."""
        if isinstance(program, str) or (self.places and program.is_restored):
            return False  # what is on disk costs next to nothing
        return all(template.is_narrow or template.first is not program for _, template in self.templates[-1:])

    def with_floats(self, program: Running, arrays: list[Any]) -> Running:
        """For a program that calls Python: one with the floats of this call in it, which may do without, if
        they have stayed the same for long.
        """
        key = program, tuple([pack("<d", value) for value in arrays if type(value) is float])
        found = self.fixed.get(key)
        if found is not None or not key[1] or not self.staying.again(key):
            return found or program
        if len(self.fixed) >= MOST_PROGRAMS:
            self.fixed.clear()
        given = [Fixed(value) if type(value) is float else plain(value) for value in arrays]
        made = in_own_context(self.program, given)
        self.fixed[key] = found = program if isinstance(made, str) or made.python else made
        return found

    def built_for(self, key: Any, layout: Any) -> tuple[dict[str, str], list[str]]:
        """The numbers that a program for this key is for, by name, and which of them were others for all
        programs for arrays that lie alike."""
        others = [known for lies, known in self.narrow if lies == layout]
        values, changed = {}, []
        for node, fact, *known in zip(self.graph_module.graph.placeholders, key, *others, strict=True):
            if type(fact) is tuple and len(fact) == 2:
                name = node.meta.get(READ_FROM, (node.name,))[0]
                values[name] = fact[1] if type(fact[1]) is str else repr(fact[1])
                changed += [name] if known and fact not in known else []
        return values, changed

    def op_by_op(self, inputs: tuple[Any, ...], reason: str = "") -> tuple[Any, ...]:
        """A call without a program; one that there is none for at all was told of when that was found."""
        if self.otherwise is None:
            self.otherwise = self.layout.otherwise(self.graph_module, list(inputs))
        results: tuple[Any, ...] = self.otherwise(list(inputs))
        if reason:
            self.layout.refuse(f"no native program: {reason}")
        return results

    def results(self, program: Running, inputs: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
        """Tensors for arrays; an input where it is one's own."""
        wrap = self.layout.wrap
        found = []
        for (how, where), value in zip(program.results, values, strict=True):
            if how == "input":
                found.append(inputs[where])
            else:
                found.append(wrap(value) if isinstance(value, np.ndarray) else value)
        return tuple(found)

    def made(self, arrays: list[Any]) -> Running:
        unusable = self.target.unusable()
        if unusable:
            raise Uncompiled(unusable)
        module = self.module_for(arrays)
        if not self.target.keeps:
            return self.new(module, arrays)
        if self.unread:
            raise Uncompiled("sizes that are computed elsewhere")
        if self.places and not settings.bitwise:  # of open sizes nobody knows how arrays lie
            return self.open_program(arrays)
        return kept_or_made(module, arrays, partial(self.new, module), is_watched())

    def open_program(self, arrays: list[Any]) -> Running:
        """The first program of a template, of a kept one where there is one for these sizes."""
        kept = _kept.KeptTemplates(self.graph_module, self.places, arrays)
        template = None if is_watched() else kept.found()
        if template is not None:
            self.add_template(template, arrays)
            return template.first  # type: ignore[no-any-return]
        made = kept_or_made(self.module_for(arrays), arrays, self.from_template, is_watched())
        if self.templates and self.templates[-1][1].first is made:
            kept.keep(self.templates[-1][1])
        return made

    def from_template(self, arrays: list[Any]) -> Running:
        """The first program of a new template, or one for these sizes alone."""
        made = self.template(arrays)
        return self.new(self.module_for(arrays), arrays) if made is None else made

    def template(self, arrays: list[Any], general: bool = False) -> Running | None:
        """The first program of a new template; None where there can be none."""
        began = perf_counter()
        try:
            opened = Opened(self.graph_module.graph, self.places, arrays, self.layout.wrap, general)
            planned = _planning.planned(self.graph_module, arrays, self.target, opened)
            template = _template.Template(self.target.executable(planned, arrays))
        except Exception as error:
            let_through(error)
            reason = f"a program for these sizes alone: {reason_of(error)}"
            log("recompiles", lambda: reason)
            return None
        self.add_template(template, arrays)
        return told(template.first, arrays, self.graph_module, perf_counter() - began)

    def add_template(self, template: Any, arrays: list[Any]) -> None:
        if len(self.templates) >= MOST_PROGRAMS:
            self.templates.clear()
        self.templates.append((self.layout_of(None, arrays), template))

    def module_for(self, arrays: list[Any]) -> Any:
        """The graph at the sizes of these inputs."""
        if not self.places:
            return self.graph_module
        return SettledModule(self.graph_module, values_of(self.places, arrays), self.layout.wrap)

    def new(self, graph_module: Any, arrays: list[Any]) -> Running:
        began = perf_counter()
        program = self.target.executable(_planning.planned(graph_module, arrays, self.target), arrays)
        return told(program, arrays, self.graph_module, perf_counter() - began)

    def program(self, arrays: list[Any]) -> Running | str:
        """The program for these inputs, or why there is none."""
        held = put_off()
        try:
            made = self.made(arrays)
            if held is not None:
                promote()
            return made
        except Exception as error:
            let_through(error)
            reason = reason_of(error)
            self.layout.refuse(f"no native program: {reason}")
            warn_of(reason)
            return reason
        finally:
            held = None


def reason_of(error: Exception) -> str:
    """Why something could not be compiled. Errors that say so are expected; others are our mistakes, which
    must not keep programs from running.
    """
    text = str(error)
    if isinstance(error, (Unlowered, Uncompiled, NotImplementedError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def warn_of(reason: str) -> None:
    """Says that a graph was not compiled, once for each reason."""
    if reason not in _warned:
        _warned.add(reason)
        text = f"a graph runs op by op, since it has no native program: {reason}"
        warnings.warn(text, stacklevel=4)


def is_watched() -> bool:
    """Whether a listener, an observer or a log topic wants to see programs."""
    return bool(listeners or observers) or any(map(is_heard, WATCHED))


def told(program: Running, arrays: list[Any], graph_module: Any, seconds: float = 0.0) -> Running:
    """Says what a new program does, and how long it took to make."""
    count("built", "programs")
    count("built", "kernels", _looking.kernels_in(program.program))
    if is_watched():
        _looking.say(program.program)
        tell("program", graph_module, program, arrays, seconds)
        for listener in listeners:
            listener(program, arrays)
    return program


def is_looked_at(value: Any) -> bool:
    """Whether programs check by themselves that an input is as they need it."""
    return isinstance(value, (np.ndarray, Generator)) or type(value) is float


def plain(value: Any) -> Any:
    """An input as programs take it: arrays of other classes, and those whose elements do not lie at multiples
    of their size, are copied.
    """
    if not isinstance(value, np.ndarray):
        return value
    if type(value) is not np.ndarray or not value.flags.aligned:
        return np.array(value, order="C", subok=False)
    kind = np.dtype(value.dtype.type) if value.dtype.isnative and value.dtype.names is None else value.dtype
    if (
        kind is not value.dtype and kind == value.dtype
    ):  # one that was read from a file: programs know its twin
        return value.view(kind)
    return value


def is_copied(given: Any, array: Any) -> bool:
    return given is not array and not np.may_share_memory(given, array)


def key_of(value: Any) -> Any:
    """What a program depends on."""
    if isinstance(value, np.ndarray):
        strides = tuple([0 if size == 1 else step for size, step in zip(value.shape, value.strides)])
        return value.shape, strides, value.dtype
    if type(value) is float:
        return float
    if isinstance(value, Generator):
        return Generator
    if isinstance(value, (tuple, list)):
        return type(value), tuple([key_of(each) for each in value])
    if isinstance(value, (complex, np.inexact)):  # by bits: zeros have signs, and NaN is equal to itself
        return type(value), repr(value)
    return type(value), value


def layout_of(key: tuple[Any, ...]) -> Any:
    """All of a key but its numbers."""
    return tuple([each if type(each) is tuple and len(each) == 3 else None for each in key])


def compiler(
    layout: Layout, target: Target, kind: type[Compiled] = Compiled
) -> Callable[[Any, list[Any]], Callable[..., Any]]:
    """A compiler for `weft.compiler.aot`; `kind` says what is done around calls."""

    def compile_graph(graph_module: Any, _example_inputs: list[Any]) -> Callable[..., Any]:
        return kind(graph_module, layout, target)

    setattr(compile_graph, READS_GRAPH, True)
    setattr(compile_graph, TAKES_SIZES, True)
    return compile_graph
