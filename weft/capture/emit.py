"""Emit: one segment as one Python function.

Takes an `Outcome` and the callable that the backend made of its graph; gives the text of a function, with the
globals it needs. One idea: everything that can fail comes before everything that changes the world.

# Note [An entry]
    def f(x, out):              def entry(_v_function, x, out):
        y = x + 1                   # guards
        out.append(y)               try:
        print(y)                        if type(x) is not Tensor or ...: return MISS
        return y * 2                except Exception:
                                        return MISS
                                    # graph
                                    try:
                                        [_v5_add] = _v_graph(x)
                                    except Exception as _v8_error:
                                        note(_v8_error)
                                    else:
                                        # stores
                                        out.append(_v5_add)
                                        # break: CALL 1 at m.py:4
                                        _v6_result = print(_v5_add)
                                        return _v_resume(_v7, _v_function, ())(_v5_add, _v6_result)
                                    return _v_deoptimise(_v_function, x, out)
A graph that fails has stored nothing that shows (see Note [Gradients let go]): the original runs on the same
arguments, and raises at its own line. It runs when the entry has returned (`_v_deoptimise` only takes note),
so tracebacks show the original alone. What it wrote in place is put back before. The function that results
from the text bears the name, the file and, at a break, the line and columns of the user's code, so that
tracebacks through it read as its own.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import field
from typing import Any

from weft.capture.binding import parameter_names
from weft.capture.break_instruction import Performed, Way, enter_original, perform
from weft.capture.bytecode.assembler import one_place
from weft.capture.bytecode.native import Positions, original_code
from weft.capture.bytecode.resume import StackKind
from weft.capture.deoptimise import Setbacks
from weft.capture.effects import (
    changes_modes,
    check_ready,
    large_let_go,
    late_inputs,
    let_go_lines,
    mode_lines,
    restore,
    save,
    saved_inputs,
    store_lines,
    switches_grad,
    with_grad,
    writes_of,
)
from weft.capture.frame import PreviousException
from weft.capture.fronts import BEGUN, original_call
from weft.capture.guards.rendering import render_guards
from weft.capture.higher_order import draws
from weft.capture.hooking import hook_lines
from weft.capture.outcome import Outcome
from weft.capture.reading import FUNCTION, MISS, Reader, local_name, missed
from weft.capture.rebuild.builder import Builder
from weft.capture.rebuild.types import late_spent_lines, make_builder, spent_lines
from weft.capture.resuming import Slot, resume_texts, slot_of
from weft.capture.shortcut import ShortcutRecipe, variables_read
from weft.capture.tape_calls import copies_in_order
from weft.core import modes
from weft.core.generator import Generator, default_generator
from weft.core.once import cached
from weft.core.records import record
from weft.core.settings import settings
from weft.core.warn import GRAPH
from weft.graph.node import Node
from weft.tensor.inplace import check_history
from weft.trace.breaks import Break

RESUME, CALLEE, DEOPTIMISE = "_v_resume", "_v_callee", "_v_deoptimise"
ENTER, READ = "_v_enter_original", "_v_read"
WARNED = "__warningregistry__"
INDENT = "    "
SEPARATE_GUARDS = 200
"""From so many lines on, guards are a function of their own."""
ASSIGNMENT, NAME = re.compile(r"(_v\w+) = "), re.compile(r"_v\w+")


@record(slots=True)
class Emitted:
    """A segment as source."""

    text: str
    namespace: dict[str, Any]
    parameters: tuple[str, ...]
    """The parameters after the function itself, as the text spells them."""
    outputs: list[Node]
    """What the graph must give, as a tuple in this order."""
    code: types.CodeType
    """The user's code, for the names and places that tracebacks show."""
    positions: Any = None
    """Where in the user's code the segment breaks."""
    setbacks: Setbacks | None = None
    """Where the segment tells that its graph failed."""
    recipe: ShortcutRecipe | None = None
    """What a shortcut needs to know; None where there is none."""

    def make(self) -> types.FunctionType:
        """The function."""
        space = self.namespace
        exec(compile(self.text, self.code.co_filename, "exec"), space)
        function: types.FunctionType = space.pop("entry")
        first, made = self.code.co_firstlineno, function.__code__
        place = self.positions
        if place is None or place.line is None:
            place = Positions(first, None, None, None)
        function.__code__ = made.replace(
            co_name=self.code.co_name,
            co_qualname=self.code.co_qualname,
            co_firstlineno=first,
            co_linetable=one_place(len(made.co_code) // 2, place, first),
        )
        return function


def plan_outputs(outcome: Outcome) -> list[Node]:
    """The nodes that the graph must give, in order. Raises Break or EscapingException where something that
    escapes cannot be rebuilt.
    """
    reader = Reader([], {}, parameter_names(outcome.frame.code))
    return list(_Segment(outcome, reader).builder.outputs)


def emit(outcome: Outcome, *, graph_callable: Callable[..., Any] | None, runtime: Any) -> Emitted:
    """The segment as a function. `runtime` gives `callee` and `resume`."""
    code = outcome.frame.code
    names = parameter_names(code)
    namespace: dict[str, Any] = {"__name__": outcome.frame.globals.get("__name__")}
    guards: list[str] = []
    reader = Reader(guards, namespace, names)
    render_guards(outcome.world.guards, reader)
    segment = _Segment(outcome, reader)
    lines = segment.lines()
    parameters = tuple(map(local_name, names))
    text = "\n".join(_functions(guards, lines, reader, [FUNCTION, *parameters])) + "\n"
    namespace.update({GRAPH: graph_callable, RESUME: runtime.resume, CALLEE: runtime.callee})
    namespace[DEOPTIMISE] = getattr(runtime, "graph_failed", None) or original_call(code)
    namespace[ENTER] = getattr(runtime, "enter_original", None) or enter_original
    positions = outcome.frame.instruction.positions if outcome.kind == "break" else None
    if outcome.kind == "break":  # which warnings the user's module has given
        namespace[WARNED] = outcome.frame.globals.setdefault(WARNED, {})
    outputs = list(segment.builder.outputs)
    recipe = _recipe(outcome, segment, guards, lines, graph_callable)
    return Emitted(text, namespace, parameters, outputs, code, positions, segment.setbacks, recipe)


def _recipe(
    outcome: Outcome, segment: _Segment, guards: list[str], lines: list[str], graph: Any
) -> ShortcutRecipe | None:
    """What a shortcut for the segment needs."""
    if outcome.kind != "return" or graph is None:
        return None
    ending = segment.behind_graph()
    read = variables_read(segment.reader, _used(guards, lines))
    behind = variables_read(segment.reader, _used(guards, ending or []))
    if read is None or behind is None:
        return None
    inputs = [each.known.source for each in outcome.inputs]
    outputs = list(segment.builder.outputs.values())
    code = outcome.frame.code
    let_go = large_let_go(segment.builder)
    guards_of = outcome.world.guards
    return ShortcutRecipe(code, guards_of, lines, read, inputs, outputs, ending, behind, graph, let_go)


def _used(guards: list[str], lines: list[str]) -> list[str]:
    """The variables that guards assign and these lines read."""
    assigned = {found.group(1) for line in guards if (found := ASSIGNMENT.match(line))}
    return sorted(assigned.intersection(NAME.findall("\n".join(lines))))


def _functions(guards: list[str], lines: list[str], reader: Reader, parameters: list[str]) -> list[str]:
    """The entry's lines; large guards become a function of their own.

    What guards read are local variables. Thousands of them make a frame that no longer fits CPython's chunk
    of stack, and every call below it would then allocate a new chunk.
    """
    given = ", ".join(parameters)
    head = f"def entry({given}):"
    if not guards:
        return [head, *_indent(lines)]
    miss, error = reader.constant(MISS, "MISS"), reader.bind(Exception, "Exception")
    raised = reader.constant(missed, "missed")
    body = ["# guards", "try:", *_indent(guards), f"except {error}:", f"{INDENT}return {raised}()"]
    if len(guards) < SEPARATE_GUARDS:
        return [head, *_indent(body + lines)]
    used = _used(guards, lines)
    values = "".join(f"{name}, " for name in used)
    check = [f"def check({given}):", *_indent([*body, f"return ({values})"])]
    read = [f"{READ} = check({given})", f"if {READ} is {miss}: return {miss}"]
    read += [f"({values}) = {READ}", f"del {READ}"] if used else []
    return [*check, head, *_indent(read + lines)]


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return [INDENT * depth + line for line in lines]


@record(slots=True)
class _Parts:
    """What the builder's text hangs on: expressions and lines that need its objects."""

    let_go: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)


class _Segment:
    """The part of an entry after its guards."""

    def __init__(self, outcome: Outcome, reader: Reader) -> None:
        self.outcome, self.reader = outcome, reader
        self.setbacks = Setbacks()
        self._late: dict[Node, Any] | None = None
        self._last_switch: tuple[list[Node], Node | None] = [], None
        self.nodes = list(outcome.recorder.graph.nodes)
        self.builder: Builder = make_builder(outcome, reader)
        self.parts: _Parts = self.builder.build(self._parts)
        self.nodes = list(outcome.recorder.graph.nodes)  # asking for outputs may have added some
        self.builder.outputs = copies_in_order(self.builder.outputs, self.nodes)
        for generator in filter(None, [watched() for watched in outcome.world.generators]):
            if generator.would_act() and not self.builder.has(generator):
                stop = Break("generator-dies", seen=generator.code.co_qualname)
                stop.culprit = generator
                raise stop

    def _parts(self, builder: Builder) -> _Parts:
        parts = _Parts()
        parts.let_go = let_go_lines(builder)
        parts.stores = store_lines(builder) + spent_lines(builder)
        parts.modes = mode_lines(builder, self._modes_after_graph(), self.outcome.modes_after)
        if self.outcome.kind == "return":
            parts.end = [f"return {builder.text(self.outcome.value)}"]
        else:
            parts.end = _Break(self.outcome, builder).lines()
        parts.stores += late_spent_lines(builder) + hook_lines(builder)  # last: they ask what else leaves
        return parts

    # -- the graph -------------------------------------------------------------------------------------------
    def _modes_after_graph(self) -> Any:
        """The modes when the graph is done: it may switch gradients, and need not switch them back."""
        nodes, last = self._last_switch
        if nodes is not self.nodes:
            nodes, last = self.nodes, None
            for node in nodes:
                last = node if node.op == "call_function" and switches_grad(node) else last
            self._last_switch = nodes, last
        before = self.outcome.modes_before
        return before if last is None else with_grad(before, last.args[0])

    def lines(self) -> list[str]:
        builder = self.builder
        calls = any(node.op.startswith("call_") for node in self.nodes)
        ending = self._ending()
        if not calls and not builder.outputs:
            return _shorten([*_titled("objects", builder.lines), *ending])
        return self._with_graph(ending)

    def _ending(self) -> list[str]:
        """What changes the world. Modes first: until they are set, which happens at once or not at all, a
        tail has not begun (Note [Interrupted tails]). What interrupts the others in front of a break counts
        as raised by the instruction there, whose handler may have to leave what they have entered.
        """
        parts, code = self.parts, self.outcome.frame.code
        stores = [*_titled("stores", parts.stores), *self.builder.late]
        begun = [f"{FUNCTION}.{BEGUN} = True"] if parts.modes or len(stores) + len(parts.end) > 1 else []
        if not code.co_exceptiontable or original_code(code) is code:
            begun = []
        if parts.end[1:2] == ["try:"]:
            end = [*parts.end[:2], *_indent(stores), *parts.end[2:]]
        else:
            end = [*stores, *parts.end]
        return [*_titled("modes", parts.modes), *begun, *end]

    @cached
    def writes(self) -> tuple[dict[Node, Any], int]:
        """See `writes_of`."""
        before = self.outcome.modes_before
        return writes_of(self.nodes, before if isinstance(before, bool) else before.grad)

    def late(self) -> dict[Node, Any]:
        """The inputs that are written when nothing else can fail any more."""
        if self._late is None:
            self._late = late_inputs(self.writes)
        return self._late

    def behind_graph(self) -> list[str] | None:
        """What follows on a graph that can neither fail nor change modes; None where it may do either."""
        before, late = self.outcome.modes_before, self.late()
        if self._modes_after_graph() != before or any(found.history for found in late.values()):
            return None
        if not self.builder.outputs and not late:
            return None
        ending = self._ending()
        return _shorten([*_titled("objects", self.builder.lines), *ending])

    def _with_graph(self, ending: list[str]) -> list[str]:
        builder, reader = self.builder, self.reader
        inputs = ", ".join(reader.read(each.known.source) for each in self.outcome.inputs)
        call = f"{GRAPH}({inputs})"
        names = list(builder.outputs.values())
        ahead = [*self._readiness(), *self.parts.let_go]
        calls = [*ahead, f"[{', '.join(names)}] = {call}" if names else call]
        before, undo = self._saves()
        objects = _titled("objects", builder.lines)
        parameters = [FUNCTION, *map(local_name, parameter_names(self.outcome.frame.code))]
        deoptimise = f"return {DEOPTIMISE}({', '.join(parameters)})"
        error = reader.fresh("error")
        note = f"{reader.bind(self.setbacks.note, 'note')}({error})"
        failed = [f"except {reader.bind(Exception, 'Exception')} as {error}:", *_indent([*undo, note])]
        if len(ending) == 1 and ending[0].startswith("return "):
            whole = _shorten([*calls, *objects, *ending])
            return ["# graph", *before, "try:", *_indent(whole), *failed, deoptimise]
        body = ["try:", *_indent([*calls, *objects]), *failed, "else:", *_indent(ending)]
        return ["# graph", *before, *body, deoptimise]

    def _readiness(self) -> list[str]:
        """Lines that fail where the graph would write some of its inputs and then be refused to go on."""
        reader = self.reader
        sources = {each.node: each.known.source for each in self.outcome.inputs}
        late = {reader.read(sources[node]): found for node, found in self.late().items()}
        if not late:
            return []
        lists = [
            [name for name, found in late.items() if (found.several or found.again) is several]
            for several in (True, False)
        ]
        given = ", ".join(f"({''.join(f'{name}, ' for name in names)})" for names in lists)
        check = reader.constant(check_history, "check_history")
        return [
            f"{reader.constant(check_ready, 'check_ready')}({given})",
            *[f"{check}({name}, True, True)" for name, found in late.items() if found.history],
        ]

    def _saves(self) -> tuple[list[str], list[str]]:
        """Lines before the graph that save what it changes, and lines that put it back where it fails."""
        before, undo = [], []
        reader = self.reader
        sources = {each.node: each.known.source for each in self.outcome.inputs}
        saved_here = saved_inputs(self.writes)
        self.setbacks.writes = len(saved_here) < len(self.writes[0])
        for node in saved_here:
            tensor, saved = reader.read(sources[node]), reader.fresh("saved")
            before.append(f"{saved} = {reader.constant(save, 'save')}({tensor})")
            undo.append(f"{reader.constant(restore, 'restore')}({tensor}, {saved})")
        generators = [reader.constant(default_generator, "generator")] if draws(self.nodes) else []
        generators += [reader.read(s) for n, s in sources.items() if isinstance(n.meta.get("val"), Generator)]
        for generator in generators:
            saved = reader.fresh("offset")
            before.append(f"{saved} = {generator}.get_offset()")
            undo.append(f"{generator}.go_back({saved})")
        if any(map(changes_modes, self.nodes)):
            saved, state = reader.fresh("modes"), reader.constant(modes.state, "state")
            before.append(f"{saved} = {state}.get()")
            undo.append(f"{state}.set({saved})")
        return before, undo


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"# {title}", *lines] if lines else []


def _shorten(lines: list[str]) -> list[str]:
    """`x = f(...)`, `return x` as `return f(...)`, for the sake of the shortest path."""
    if len(lines) < 2 or not lines[-1].startswith("return "):
        return lines
    name = lines[-1].removeprefix("return ")
    if name.isidentifier() and lines[-2].startswith(f"{name} = "):
        short = [*lines[:-2], f"return {lines[-2].removeprefix(f'{name} = ')}"]
        return [line for place, line in enumerate(short) if not _empty_title(short, place)]
    return lines


def _empty_title(lines: list[str], place: int) -> bool:
    return lines[place] == "# objects" and lines[place + 1].startswith("return ")


class _Break:
    """The end of a segment that stops before an instruction."""

    def __init__(self, outcome: Outcome, builder: Builder) -> None:
        self.outcome, self.builder = outcome, builder
        self.frame = outcome.frame
        self.instruction = self.frame.instruction

    def lines(self) -> list[str]:
        frame, instruction = self.frame, self.instruction
        file, line, _name = frame.place()
        short = file.rpartition("/")[2]
        arg = "" if instruction.arg is None else f" {instruction.arg!r}"
        title = f"# break: {instruction.op}{arg} at {short}:{line}"
        performed = perform(frame, self.builder, CALLEE)
        if performed is None:
            return [title, *self._enter_original()]
        handler = frame.bytecode.handlers[instruction.index]
        lines = self._under_handled(performed.lines)
        ways = self._ways(performed)
        if handler is None or not lines:
            return [title, *lines, *ways]
        error, kept, second = map(self.builder.reader.fresh, ("error", "caught", "error"))
        stack: list[Slot] = [slot_of(self.builder, value) for value in frame.stack[: handler.depth]]
        if handler.lasti:
            stack.append((StackKind.VALUE, str(instruction.offset // 2)))
        stack.append((StackKind.VALUE, kept))
        away, again = [
            self._resume(handler.target_index, stack, RESUME, instruction.index, each)
            for each in ("", second)
        ]
        every = self.builder.reader.bind(BaseException, "BaseException")  # a parameter may have that name
        caught = [f"except {every} as {error}:", f"{INDENT}{kept} = {error}"]
        normal = ["else:", *_indent(ways)] if ways else []
        # The exception's traceback holds this frame: it must not hold the exception.
        leave = ["try:", f"{INDENT}return {away}", f"except {every} as {second}:", f"{INDENT}return {again}"]
        leave += ["finally:", f"{INDENT}del {kept}"]
        return [title, "try:", *_indent(lines), *caught, *normal, *leave]

    def _under_handled(self, lines: list[str]) -> list[str]:
        """The lines, performed while the exception that the frame is handling is being handled."""
        handled = [value for value in self.frame.stack if type(value) is PreviousException]
        if not handled or not lines:
            return lines
        error = self.builder.text(handled[-1].current)
        trace, context = self.builder.reader.fresh("trace"), self.builder.reader.fresh("context")
        return [
            f"{trace}, {context} = {error}.__traceback__, {error}.__context__",
            "try:",
            f"{INDENT}raise {error}",
            f"except {self.builder.reader.bind(BaseException, 'BaseException')}:",
            f"{INDENT}{error}.__traceback__, {error}.__context__ = {trace}, {context}",
            *_indent(lines),
        ]

    def _ways(self, performed: Performed) -> list[str]:
        lines = []
        for way in performed.ways:
            going = self._going(way.target, self._stack_after(way))
            lines += going if way.condition is None else [f"if {way.condition}:", *_indent(going)]
        return lines

    def _going(self, target: int, stack: list[Slot], resume: str = RESUME) -> list[str]:
        """Lines that go on at an instruction. What interrupts them is met by the handler there or, where
        there is none, by that of the instruction that was performed: in between, nothing can be raised."""
        handlers, reader = self.frame.bytecode.handlers, self.builder.reader
        covered = [index for index in (target, self.instruction.index) if handlers[index] is not None]
        if not covered:
            return [f"return {self._resume(target, stack, resume)}"]
        error, every = reader.fresh("error"), reader.bind(BaseException, "BaseException")
        first = self._resume(target, stack, resume, covered[0])
        again = self._resume(target, stack, resume, covered[0], error)
        return [
            "try:", f"{INDENT}return {first}", f"except {every} as {error}:", f"{INDENT}return {again}"
        ]  # fmt: skip

    def _stack_after(self, way: Way) -> list[Slot]:
        stack = self.frame.stack
        kept = stack[: len(stack) - way.pops]
        pushed: list[Slot] = [
            (StackKind.NULL, None) if text is None else (StackKind.VALUE, text) for text in way.pushes
        ]
        return [*[slot_of(self.builder, value) for value in kept], *pushed]

    def _enter_original(self) -> list[str]:
        """The original code from the instruction on, uncompiled."""
        op = self.instruction.op
        if settings.strict and op not in WITHOUT_TEMPLATE:
            raise Break("cannot-perform", seen=op)
        stack = [slot_of(self.builder, value) for value in self.frame.stack]
        return self._going(self.instruction.index, stack, ENTER)

    def _resume(
        self, index: int, stack: list[Slot], resume: str = RESUME, at: int | None = None, error: str = ""
    ) -> str:
        """The call that goes on at an instruction; `at` is where what interrupts it counts as raised."""
        index = self._past_jumps(index) if resume == RESUME else index
        point, arguments, cells = resume_texts(self.builder, self.frame, index, stack)
        name = self.builder.constant(point, f"at_{index}")
        known = "".join(f", {each}" for each in (at, error) if each not in (None, ""))
        return f"{resume}({name}, {FUNCTION}, {cells}{known})({', '.join(arguments)})"

    def _past_jumps(self, index: int) -> int:
        """Where control gets to from here: a loop entered by several jumps goes on as one function."""
        instructions = self.frame.bytecode.instructions
        for _ in range(8):
            if instructions[index].op != "JUMP":
                break
            index = instructions[index].arg
        return index


WITHOUT_TEMPLATE = frozenset(
    {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "RERAISE"}
)
"""Ops that may run uncompiled under `settings.strict`: frame readers, and errors of names."""

__all__ = ["Emitted", "emit", "plan_outputs"]
