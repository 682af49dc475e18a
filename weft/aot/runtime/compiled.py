"""The runtime: compiled graphs on real tensors, with their effects and one node of the tape.

Takes a captured graph module; gives a `CompiledFunction`. A call runs the forward graph without recording,
writes back what the graph has changed, rebuilds outputs that are inputs or views, and puts one node behind
the rest. One idea: wherever something is met that compiled code was not made for, the captured graph itself
runs, which is eager's own code.

# Note [Plans]
Captured graphs serve inputs of many shapes; compiled ones are made for one. A plan is kept per *key*: shapes,
strides, dtypes, what requires grad, numbers other than floats, and the grad mode. Floats are inputs of what
is compiled. Where tracing asks something of one (whether it is positive), the first plan takes it for a
constant, which makes the better program. Once it was another, plans serve all of which the answers are the
same; there may be several for one key. Sizes that the capture leaves open are open in what is compiled, too,
where its compiler takes that: see Note [Plans for open sizes] in `weft.aot.sizes`. Numbers that are others in
each call, and no inputs, since a compiler takes no open sizes, get no plan after a while: see Note [Numbers
that vary] in `weft.core.varying`.

# Note [Gradients that never came]
Eager does not run what no gradient reaches, and leaves `.grad` None there. A backward graph is made for the
set of outputs that get a gradient. The first time that another set is seen, gradients are computed by running
the captured graph again on the tape, and from then on forward runs keep what that set needs.

# Note [Any order]
With create_graph=True gradients must themselves have a history. They are computed by a function of inputs,
values of earlier stages and tangents, itself compiled: the joint graph as a captured graph. Where the tape
was bypassed (see `Facts.plain_histories`), the captured graph runs again on the tape.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.aot.boxed import of_list
from weft.aot.conditions import NONE as OF_ALL
from weft.aot.conditions import Conditions
from weft.aot.facts import Casts, Input, Value, ViewOf
from weft.aot.joint import JointGraph, Refused, trace
from weft.aot.partition import cut, derivative
from weft.aot.runtime.around import PLAIN_MODES, Around, around, entered
from weft.aot.runtime.counting import note, note_plan, refuse, strict
from weft.aot.runtime.nodes import (
    inputs_checked,
    inputs_copied,
    inputs_read,
    inputs_saved,
)
from weft.aot.runtime.plans import (
    AnyPlan,
    AsCaptured,
    CompiledCut,
    CompiledPlan,
    Pieces,
    Template,
    as_captured,
)
from weft.aot.runtime.rerun import cast_inputs, unchecked
from weft.aot.saved import INPUT, VALUE
from weft.aot.sizes import Values, open_sizes
from weft.aot.split import Part, natives_of, saves_copies, split
from weft.core import modes
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.errors import is_no_derivative
from weft.core.generator import Generator
from weft.core.handlers import in_own_context
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.core.once import lock
from weft.core.recent import Recent
from weft.core.varying import VARYING, Builds, Varying
from weft.graph.node import READ_FROM, Node
from weft.graph.text import TAKES_SIZES
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.tape import INFERENCE, STALE
from weft.tensor.views import refresh
from weft.trace.module import GraphModule

Compiler = Callable[[GraphModule, list[Any]], Callable[..., Any]]
Exposed = tuple[frozenset[int], frozenset[int]]
"""Inputs and outputs, by number: see Note [Writes that no version tells of] in `weft.aot.split`."""
ndarray = np.ndarray
PLANS_LIMIT = 64
SIZES_LIMIT = 512
"""How many there may be where most are those of templates at the sizes of a call: these are small."""
NONE: frozenset[int] = frozenset()
NO_NODES: frozenset[Node] = frozenset()
NO_PLAN = "a tensor of another class, without elements, or inside an object"
EXPOSED = "a tensor that eager code saves is written through `.data` later"
VALUES = (
    int, float, bool, complex, str, bytes, type(None), slice, range, enum.Enum, np.generic, dtype, device,
    Generator,
)  # fmt: skip
"""Kinds of arguments in which no tensor can be, which would be taken for a constant."""


def is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return not [each for each in value if not is_plain(each)]
    return isinstance(value, VALUES) or home(type(value)).startswith("weft.core")


def is_leaf_view(value: Any) -> bool:
    """Whether a tensor requires grad by itself, though it is a view."""
    return type(value) in PLAIN and value.origin is not None and value.tracked and value.node is None


def layout_of(key: Any) -> Any:
    """All of a plan's or a template's key but its numbers."""
    modes_of, facts = key
    return modes_of, tuple([fact if type(fact) is tuple and len(fact) > 2 else None for fact in facts])


def exactly(value: Any) -> Any:
    """A key that only indistinguishable values share: zeros have signs, and NaN equals itself."""
    if isinstance(value, (float, complex, np.inexact)):
        return repr(value)
    return tuple([exactly(each) for each in value]) if isinstance(value, tuple) else value


def keep(plans: Recent, key: Any, plan: AnyPlan | Template, most: int) -> None:
    """Keeps one more plan for a key."""
    if sum(map(len, plans.values())) >= most:
        plans.drop()
    plans.keep(key, [*plans.get(key, ()), plan])


class CompiledFunction:
    """A captured graph, compiled ahead of time."""

    def __init__(self, module: GraphModule, forward: Compiler, backward: Compiler, choose: Any) -> None:
        self.module = module
        self.compile_forward, self.compile_backward, self.choose = forward, backward, choose
        self.plans = Recent()  # lists of plans, by key
        self.templates = Recent()  # lists of templates, by key without open sizes
        takes_sizes = all(getattr(each, TAKES_SIZES, False) for each in (forward, backward))
        self.sizes = open_sizes(module.graph) if takes_sizes else None
        self.last: tuple[Any, AnyPlan] | None = None  # a key and its plan
        self.splits: dict[Any, Pieces] = {}
        self.natives = natives_of(module.graph)
        self.saves_copies = any(saves_copies(node) for node in module.graph.nodes)
        self.fixed = NONE  # floats that are constants of plans, by number
        self.needed = NONE  # those that cannot be anything else
        self.opened = NONE  # those that were, until they changed
        self.lock = lock()  # of what makes plans: keys say which floats were constants
        self.exposed: Exposed = (NONE, NONE)
        self.builds = Builds()
        self.varying = module.graph.meta.get(VARYING) or Varying()
        self.varying.follow(self.builds.calls)
        self.checkless: GraphModule | None = None  # the graph without its checks, when first needed

    def __call__(self, *args: object) -> Any:
        self.builds.calls[0] += 1
        mode = modes.state.get()
        if self.saves_copies:
            return as_captured(self.module, args, "hooks for saved tensors are switched on inside")
        if self.natives:
            return self.pieces(self.natives, NO_NODES).run(args)
        modes_of: Any = PLAIN_MODES[mode] if type(mode) is bool else around(mode)
        if type(modes_of) is str:
            return as_captured(self.module, args, modes_of)
        return self.plan_for(args, modes_of).run(args)

    # -- plans -----------------------------------------------------------------------------------------------
    def fact(self, value: Any, number: int) -> Any:
        """What a plan depends on in one argument; None where none can serve it."""
        kind = type(value)
        if kind in PLAIN:
            array, cell = value.array, value.cell
            if type(array) is not ndarray:
                return None
            if value.origin is not None and cell is not INFERENCE:
                refresh(value)
            facts = array.shape, array.strides, array.dtype, value.tracked, value.node is None
            return (*facts, cell is INFERENCE)
        if isinstance(value, Tensor) or not is_plain(value):
            return None
        if kind is float and number not in self.fixed:
            return float
        return Generator if isinstance(value, Generator) else (kind, exactly(value))

    def key(self, args: tuple[Any, ...], modes_of: Around) -> Any:
        """What a plan depends on; None for arguments that none can serve."""
        facts = tuple([self.fact(value, number) for number, value in enumerate(args)])
        return None if None in facts else (modes_of, facts)

    def holds(self, key: Any, args: tuple[Any, ...], modes_of: Around) -> bool:
        """Whether this is the arguments' key. One fact after another: all of them together would take more
        memory than the histories of eager tensors do."""
        known, facts = key
        if known != modes_of or len(facts) != len(args):
            return False
        for number, value in enumerate(args):  # noqa: SIM110 - a generator would change a StopIteration
            if self.fact(value, number) != facts[number]:
                return False
        return True

    def plan_for(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan:
        if self.natives:
            return self.pieces(self.natives, NO_NODES)
        try:
            last = self.last
            if last is not None and self.holds(last[0], args, modes_of) and last[1].conditions.hold(args):
                return last[1]
            key = self.key(args, modes_of)
            if key is None:
                return self.refused(NO_PLAN, expected=True)
            known = next((plan for plan in self.plans.find(key) or () if plan.conditions.hold(args)), None)
            if known is None and self.sizes is not None:
                known = self.at_sizes(key, args)
        except TypeError as error:
            let_through(error)
            return self.refused("an argument that cannot be compared")
        except RuntimeError as error:
            let_through(error)
            return self.refused("a view that may not be read")
        if known is None:
            numbers = key, [value for value in args if type(value) is float]
            if not self.builds.wants(layout_of(self.shared(key)), numbers):
                return self.refused("numbers that have no program, since they vary")
            key, known = self.new_plan(args, modes_of)
        self.last = key, known
        return known

    def plan_there(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan | None:
        """The plan that has served a call with these arguments; None where there is none."""
        if self.natives:
            return None
        try:
            key = self.key(args, modes_of)
            plans = None if key is None else self.plans.find(key)
        except (TypeError, RuntimeError) as error:  # an argument that cannot be compared, or a stale view
            let_through(error)
            return None
        return next((plan for plan in plans or () if plan.conditions.hold(args)), None)

    def new_plan(self, args: tuple[Any, ...], modes_of: Around) -> tuple[Any, AnyPlan]:
        """A plan and its key; says so where it is the last for numbers that vary."""
        with self.lock:
            key = self.key(args, modes_of)
            for plan in self.plans.get(key, ()):  # of another thread
                if plan.conditions.hold(args):
                    return key, plan
            shared = None if self.sizes is None else self.at_sizes(key, args)
            if shared is not None:
                return key, shared
            opened = self.open_changed(key)
            plan = self.make_plan(args, modes_of)
            key = self.key(args, modes_of)
            if type(plan) is CompiledPlan and plan.template is None:
                self.varying.build(*self.built_for(key))
            keep(self.plans, key, plan, PLANS_LIMIT)
            if type(plan) is CompiledPlan and not opened:
                self.builds.made(layout_of(self.shared(key)))
            return key, plan

    def built_for(self, key: Any) -> tuple[dict[str, str], list[str]]:
        """The numbers that a plan for this key is for, by name, and which of them were others for all plans
        for tensors that lie alike."""
        facts, layout = key[1], layout_of(self.shared(key))
        others = [
            known[1]
            for known, plans in self.plans.items()
            if layout_of(self.shared(known)) == layout and getattr(plans[-1], "template", None) is None
        ]
        values, changed = {}, []
        for node, fact, *known in zip(self.module.graph.placeholders, facts, *others, strict=True):
            if type(fact) is tuple and len(fact) == 2:
                name = node.meta.get(READ_FROM, (node.name,))[0]
                values[name] = fact[1] if type(fact[1]) is str else repr(fact[1])
                changed += [name] if known and fact not in known else []
        return values, changed

    def shared(self, key: Any) -> Any:
        """A key without the sizes that are open."""
        return key if self.sizes is None or self.sizes.values(key) is None else self.sizes.key(key)

    def at_sizes(self, key: Any, args: tuple[Any, ...]) -> AnyPlan | None:
        """A plan for these sizes, of a template for which they are open."""
        assert self.sizes is not None
        values = self.sizes.values(key)
        if values is None:
            return None
        for template in self.templates.find(self.sizes.key(key)) or ():
            if template.conditions.hold(args):
                plan: AnyPlan = template.plan(args, values) if type(template) is Template else template
                with self.lock:
                    keep(self.plans, key, plan, SIZES_LIMIT)
                return plan
        return None

    def open_changed(self, key: Any) -> bool:
        """Lets floats be inputs that are constants of other plans, and others now; whether there are any."""
        given, constant = key[1], self.fixed - self.needed
        changed = {
            place for facts, _ in self.alike(key) for place in constant if facts[place] != given[place]
        }
        self.fixed -= changed
        self.opened |= changed
        return bool(changed)

    def alike(self, key: object) -> list[tuple[Any, Conditions]]:
        """The facts and conditions of plans that differ from that of a key in nothing but numbers."""
        layout = layout_of(self.shared(key))
        every = [*self.plans.items(), *self.templates.items()]
        found = [(known[1], plans) for known, plans in every if layout_of(known) == layout]
        return [(facts, plan.conditions) for facts, plans in found for plan in plans]

    def refused(self, reason: str, expected: bool = False, conditions: Conditions = OF_ALL) -> AsCaptured:
        """A plan that runs the captured graph: `expected` where nothing but eager code does what is asked."""
        refuse(reason)
        return AsCaptured(self.module, None if expected else reason, conditions)

    def make_plan(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan:
        found = None if self.sizes is None else self.make_template(args, modes_of)
        if found is not None:
            return found
        try:
            joint, casts = in_own_context(self.trace_floats, args, modes_of)
        except Refused as refused:
            return self.without(refused, args)
        if any(self.exposed) and self.saves_exposed(joint):
            return self.refused(EXPOSED, expected=True)
        note_plan()
        program = in_own_context(self.program, joint, args)
        return CompiledPlan(self, joint.facts, program, modes_of, casts)

    def make_template(self, args: tuple[Any, ...], modes_of: Around) -> AnyPlan | None:
        """A plan, and its template; None where sizes are as they are in this call."""
        assert self.sizes is not None
        values = self.sizes.values(self.key(args, modes_of))
        if values is None:
            return None
        try:
            joint, casts = in_own_context(self.trace_floats, args, modes_of, values)
        except Refused as refused:
            return self.narrowed(refused, args, modes_of)
        if any(self.exposed) and self.saves_exposed(joint):
            made: Any = self.refused(EXPOSED, expected=True)
        else:
            note_plan()
            made = Template(self, in_own_context(self.program, joint, args), modes_of, casts)
        keep(self.templates, self.shared(self.key(args, modes_of)), made, PLANS_LIMIT)
        return made.plan(args, values) if type(made) is Template else made

    def narrowed(self, refused: Refused, args: tuple[Any, ...], modes_of: Around) -> AnyPlan | None:
        """None where the sizes of this call let a graph be compiled that was refused while they were open;
        else what serves it."""
        try:
            in_own_context(self.trace_floats, args, modes_of)
        except Refused:
            made = self.without(refused, args)
            keep(self.templates, self.shared(self.key(args, modes_of)), made, PLANS_LIMIT)
            return made
        note("narrowed", f"sizes could not be open: {refused.reason}")
        return None

    def saves_exposed(self, joint: JointGraph) -> bool:
        """Whether eager would have saved a tensor that is written through `.data` later."""
        inputs, outputs = self.exposed
        places: set[tuple[str, int]] = {(INPUT, index) for index in inputs}
        for output in outputs:
            fact = joint.facts.outputs[output]
            base = fact.base if isinstance(fact, ViewOf) else fact
            if isinstance(base, (Input, Value)):
                places.add((INPUT if isinstance(base, Input) else VALUE, base.index))
        return any((saved.kind, saved.number) in places for stage in joint.stages for saved in stage.saved)

    def without(self, found: Refused, args: tuple[Any, ...]) -> Pieces | AsCaptured:
        """A plan that runs the refused node as captured, where it is a single node."""
        if found.error is not None:
            text = f"{type(found.error).__name__}: {found.error}"
            # What has no derivative, or was written after it was saved, has no gradient in eager either,
            # which says so when asked. Fakes are no views, so views of a leaf that is one are refused writes
            # that concern its base, which need not require grad.
            expected = is_no_derivative(found.error) or str(found.error).startswith(STALE)
            return self.refused(text, expected or any(map(is_leaf_view, args)), found.conditions)
        nodes = [node for node in self.module.graph.nodes if node.op.startswith("call_")]
        if found.node not in nodes or (found.ends and found.node is nodes[-1]):
            return self.refused(found.reason, True, found.conditions)
        note("natives", found.reason)
        one = frozenset({found.node})
        return self.pieces(NO_NODES, one) if found.ends else self.pieces(one, NO_NODES)

    def pieces(self, natives: frozenset[Node], ends: frozenset[Node]) -> Pieces:
        if (natives, ends) not in self.splits:
            graph = self.module.graph
            later: list[Any] = []
            if any(self.exposed):  # this is a piece itself, and gives a tuple of nodes
                later = [graph.placeholders[index] for index in self.exposed[0]]
                later += [graph.output_node().args[0][index] for index in self.exposed[1]]
            parts = split(self.module, natives, ends, later)
            functions = [self.piece(part) for part in parts]
            self.splits[natives, ends] = Pieces(self.module, parts, functions)
        return self.splits[natives, ends]

    def piece(self, part: Part) -> CompiledFunction | None:
        if part.module is None:
            return None
        made = self.like(part.module)
        inputs = frozenset([i for i, node in enumerate(part.inputs) if node in part.exposed])
        made.exposed = inputs, frozenset([i for i, node in enumerate(part.outputs) if node in part.exposed])
        return made

    def like(self, module: GraphModule) -> CompiledFunction:
        module.graph.meta[VARYING] = self.varying
        return CompiledFunction(module, self.compile_forward, self.compile_backward, self.choose)

    def trace(
        self,
        args: tuple[Any, ...],
        modes_of: Around,
        fixed: frozenset[int],
        absent: frozenset[int] = NONE,
        casts: Casts = (),
        order: list[int] | None = None,
        values: Values | None = None,
    ) -> tuple[JointGraph, Casts]:
        """The joint graph, and the casts that it takes behind the inputs. `values`: those of open sizes."""
        opened = None
        if values is not None and self.sizes is not None:
            key = self.key(args[: len(args) - len(casts)], modes_of)
            opened = partial(self.sizes.opened, key, values)
        with entered(modes_of) as cache:
            joint = trace(
                self.module, args, absent=absent, fixed=fixed, casts=casts, cache=cache, order=order,
                open_inputs=opened,
            )  # fmt: skip
        if joint.casts and not casts and modes_of.keeps_casts:
            given = cast_inputs(args, joint.casts)
            return self.trace((*args, *given), modes_of, fixed, absent, joint.casts, order, values)
        return joint, casts

    def trace_floats(
        self, args: tuple[Any, ...], modes_of: Around, values: Values | None = None
    ) -> tuple[JointGraph, Casts]:
        """The same; the floats that something was asked of become constants, unless they have changed."""
        while True:
            joint, casts = self.trace(args, modes_of, self.fixed, values=values)
            found = joint.fixed | (joint.conditions.inputs - self.opened)
            if not found:
                return joint, casts
            self.fixed |= found
            self.needed |= joint.fixed & self.opened

    def program_for(self, plan: CompiledPlan, absent: frozenset[int], args: list[Any]) -> CompiledCut | None:
        """The program for gradients that never come for some values."""
        if absent not in plan.programs:
            found = None if plan.template is None else plan.template.program_for(absent, args)
            found = found or self.new_program(plan, absent, args)
            if found is None:
                return None
            plan.programs[absent] = found
        if plan.template is not None:
            plan.template.serves(plan.programs[absent])
        return plan.programs[absent]

    def new_program(self, plan: CompiledPlan, absent: frozenset[int], args: list[Any]) -> CompiledCut | None:
        for index, _, _ in plan.casts:  # leaves, as they were in the call: autocast keeps casts of these
            args[index] = wrap(args[index].array, True)
        order, given, values = plan.whole.joint.wanted, tuple(args), None
        if plan.template is not None and self.sizes is not None:
            values = self.sizes.values(self.key(given[: len(given) - len(plan.casts)], plan.around))
        try:
            joint, _ = in_own_context(
                self.trace, given, plan.around, plan.fixed, absent, plan.casts, order, values
            )
        except Refused as refused:
            self.on_the_tape(refused.reason)
            return None
        made = in_own_context(self.program, joint, given)
        if joint.fixed or not plan.conditions.cover(made.conditions.of_floats()):
            self.on_the_tape("gradients that ask for the values of numbers")
            return None
        made.read |= plan.whole.read  # gradients may come to other values after all
        made.copied |= plan.whole.copied
        made.saved |= plan.whole.saved
        return made

    def on_the_tape(self, reason: str) -> None:
        """Gradients are computed by running the captured graph again, in each call."""
        refuse(reason)
        strict(reason)

    def program(self, joint: JointGraph, args: tuple[Any, ...]) -> CompiledCut:
        made = cut(joint, self.choose)
        made.forward.materialise(self.compile_forward)
        made.forward.graph.meta[VARYING] = self.varying
        forward = of_list(self.compile_forward(made.forward, list(args)))
        backwards = []
        for stage, module, kept in zip(joint.stages, made.backwards, made.residuals, strict=True):
            module.materialise(self.compile_backward)
            module.graph.meta[VARYING] = self.varying
            examples = [node.meta["val"] for node in (*kept, *stage.tangents)]
            backwards.append(of_list(self.compile_backward(module, examples)))
        absent = [n for stage in joint.stages for n in stage.values if n not in stage.differentiated]
        read, checked = inputs_read(joint), inputs_checked(joint)
        copied, saved = inputs_copied(joint, made.residuals), inputs_saved(joint)
        return CompiledCut(
            joint, made, forward, backwards, read, copied, saved, checked, frozenset(absent), joint.relied()
        )

    def without_checks(self) -> GraphModule:
        if self.checkless is None:
            self.checkless = unchecked(self.module)
        return self.checkless

    def derivative(self, program: CompiledCut, stage: int) -> CompiledFunction:
        made: CompiledFunction | None = program.derivatives.get(stage)
        if made is None:
            made = self.like(derivative(program.joint, program.joint.stages[stage]))
            program.derivatives[stage] = made
        return made
