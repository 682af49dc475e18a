"""Writes the Python source of an op's face and of its two backward functions, from the op's record.

Takes an `Op` and its `Plan`, gives text; `weft.tensor.faces` compiles it on the op's first call. One idea:
what the generic dispatcher decides anew at each call (which arguments are tensors, what to save, how to
bring gradients back to shape) is decided here once.

# Note [Generated face]
For `mul` the text is, shortened:

    def mul(input, other, *, out=None):
        if type(input) is Tensor and type(other) is Tensor and out is None:
            x0 = input.array; x1 = other.array; m = _mode()
            if x0.dtype is x1.dtype and x0.dtype in K and (m is True or m is False):
                try: r = run(kernel, x0, x1, out=...)            # kernel first …
                except Exception as e: let_through(e)            # … unless somebody interrupts
                else:
                    t = new(Tensor); t.array = r; …
                    if m is True and (input.tracked or other.tracked): n = new(N); n.saved = …; t.node = n
                    return t
        return dispatch(OP, (input, other))                      # … the type rule when it raises

A dtype enters K once the dispatcher has seen the kernel agree with the rule for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ops.record import Kind, Op
from weft.ops.signature import MISSING, OPERAND, OPTIONAL, OpParameter
from weft.tensor.plan import OUT, Plan, RuleFacts

NUMBERS = (int, float, complex)
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


def parameter_list(op: Op, *, with_out: bool, first: str | None = None) -> str:
    """The Python parameter list of the face, with PyTorch's names and defaults and NumPy's spellings
    accepted.
    """
    words: list[str] = []
    star = False
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.variadic:
            words.append(f"*{parameter.name}_")
            star = True
            continue
        if parameter.keyword_only and not star:
            words.append("*older" if older_numbers(op) else "*")
            star = True
        name = first if position == 0 and first else parameter.name
        words.append(name if parameter.default is MISSING else f"{name}={parameter.default!r}")
    extra = [f"{alias}=None" for alias in numpy_aliases(op).values()]
    extra += [
        f"{p.name}=None" for p in op.signature.parameters if p.variadic
    ]  # view(size=(2, 3)) is view(2, 3)
    if views_dtypes(op):
        extra.append("dtype=None")
    if with_out:
        extra.append("out=None")
    if extra and not star:
        words.append("*")
    return ", ".join([*words, *extra])


# Note [Older positional forms]
# PyTorch still takes `x.add_(alpha, other)`, `x.addcmul_(value, a, b)` and `addmm(beta, x, alpha, a, b)`:
# numbers among the tensors, in the order beta, alpha or value, where there is one more argument than tensors.
# A face that has such numbers takes what is too many as `*older`, and calls itself with the numbers by their
# names.
def older_numbers(op: Op) -> tuple[str, ...]:
    """The numbers that may stand among the tensors of an op, in their order there."""
    named = {p.name for p in op.signature.parameters if p.keyword_only and p.annotation == "Number"}
    tensors = [p for p in op.signature.parameters if not p.keyword_only]
    if len(tensors) < 2 or any(p.annotation not in ("Tensor", OPERAND) or p.variadic for p in tensors):
        return ()
    return tuple(name for name in ("beta", "alpha", "value") if name in named)


def _older_lines(op: Op) -> list[str]:
    if not older_numbers(op):
        return []
    before = "".join(f"{p.name}, " for p in op.signature.parameters if not p.keyword_only)
    return ["    if older:", f"        return in_new_form(FACE, ({before}*older))"]


def in_new_form(face: Any, given: tuple[Any, ...]) -> Any:
    """A call with numbers among the tensors."""
    args, named = new_form(face.op, given, {})
    return face(*args, **named)


def new_form(op: Op, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the present form: numbers among the tensors by their names."""
    count, names = op.signature.positional, older_numbers(op)
    if len(given) <= count or not names:
        return given, named
    numbers = [value for value in given if isinstance(value, NUMBERS)]
    rest = tuple(value for value in given if not isinstance(value, NUMBERS))
    if len(rest) != count or not 0 < len(numbers) <= len(names):
        raise TypeError(f"{op.name}() takes {count} positional arguments but {len(given)} were given")
    return rest, {**named, **dict(zip(names, numbers))}


def numpy_aliases(op: Op) -> dict[str, str]:
    """Parameters of this op that NumPy spells otherwise (dim: axis, keepdim: keepdims)."""
    names = {p.name for p in op.signature.parameters if not p.variadic}
    return {ours: theirs for ours, theirs in NUMPY_NAMES.items() if ours in names and theirs not in names}


def views_dtypes(op: Op) -> bool:
    """Whether the op takes a dtype in place of sizes: `view(dtype=...)` is `view(...)`."""
    return op.kind is Kind.VIEW and op.reshapes and not op.function


def _prologue(op: Op) -> list[str]:
    lines = _older_lines(op)
    if views_dtypes(op):
        lines += ["    if dtype is not None:", "        size_ = (dtype,)"]
    for ours, theirs in numpy_aliases(op).items():
        lines += [f"    if {theirs} is not None:", f"        {ours} = {theirs}"]
    for parameter in op.signature.parameters:
        if parameter.variadic:
            name = parameter.name
            if parameter.annotation == "Shape":  # zeros(()) is not zeros()
                lines += [
                    f"    if not {name}_ and {name} is None:",
                    f"        raise TypeError('{op.name}() missing 1 required positional arguments: "
                    f'"{name}"\')',
                ]
            lines.append(f"    {name} = flatten_variadic({name}_) if {name} is None else tuple({name})")
    return lines


def face_source(op: Op, plan: Plan, name: str, settles: bool = False) -> str:
    """The function form: `name(…, out=None)`; with `settles`, that of Note [Settled calls]."""
    parameters = op.signature.parameters
    bound = "(" + "".join(f"{p.name}, " for p in parameters) + ")"
    lines = [f"def {name}({parameter_list(op, with_out=bool(op.out))}):", *_prologue(op)]
    if op.out:
        lines += ["    if out is not None:", f"        return dispatch_out(OP, {bound}, out)"]
    if op.kind is Kind.POINTWISE and "inplace" in op.signature.names:  # relu(x, inplace=True) is relu_(x)
        lines += ["    if inplace:", f"        return dispatch_inplace(OP, {bound}, FACE)"]
    if op.composed:
        lines += composite_block(op, bound)
    elif op.trusted and op.kind is Kind.VIEW and not op.several:
        lines += _view_block(op, plan, bound)
    elif op.trusted and op.kind is Kind.CREATE and not plan.tensor_slots:
        lines += _create_block(op, plan)
    elif has_fast_path(op, plan):
        tensors = [parameters[i] for i in plan.tensor_slots]
        lines += fast_block(op, plan, tensors, None)
        if len(tensors) == 2 and tensors[1].annotation == OPERAND:
            lines += fast_block(op, plan, tensors, tensors[1])
        if len(tensors) > 1 and tensors[-1].annotation == OPTIONAL:
            lines += fast_block(op, plan, tensors, tensors[-1])
    if settles:
        classes = "".join(f"type({parameters[i].name}), " for i in plan.tensor_slots)
        lines += [
            f"    _p = PATHS.get(({classes}))",
            "    if _p is not None:",
            f"        _t = _p{bound}",
            "        if _t is not UNSURE:",
            "            return _t",
        ]
    lines.append(f"    return dispatch(OP, {bound})")
    return "\n".join(lines) + "\n"


LOCAL_NAME = re.compile(r"[mntrc]|[xscv]\d+")  # what the fast blocks call their own variables


def has_fast_path(op: Op, plan: Plan) -> bool:
    if any(LOCAL_NAME.fullmatch(name) for name in op.signature.names):
        return False
    return op.trusted and plan.fixed and op.kind is not Kind.VIEW and 1 <= len(plan.tensor_slots) <= 3


def _at_home(op: Op) -> list[str]:
    """What the options of a creation op must be for its kernel alone to give the result: nothing but sizes
    and dtypes.
    """
    if op.kind is not Kind.CREATE:
        return []
    conditions = {
        "device": "(device is None or device is CPU)",
        "layout": "layout is None",
        "requires_grad": "not requires_grad",
    }
    memory = [f"type({p.name}.array) is ndarray" for p in op.signature.parameters if p.is_tensor]
    return [*(text for name, text in conditions.items() if name in op.signature.names), *memory]


def _create_block(op: Op, plan: Plan) -> list[str]:
    """The straight-line path of an op that makes a tensor from no tensor."""
    return [
        "    _m = _mode()",
        f"    if {' and '.join([*_at_home(op), '(_m is True or _m is False)', '_on_cpu()'])}:",
        "        try:",
        f"            _r = {_kernel_call(op, plan)}",
        "        except Exception as _error:",
        "            let_through(_error)",
        "        else:",
        "            _t = new(Tensor)",
        "            _t.array = _r",
        "            _t.node = _t.cell = _t.origin = _t._grad = _t.hooks = None",
        "            _t.index = 0",
        "            _t.tracked = False",
        "            return _t",
    ]


def inplace_source(op: Op, plan: Plan, name: str) -> str:
    """The in-place form, `name(input, …)`, where `name` ends in an underscore."""
    parameters = op.signature.parameters
    bound = "(" + "".join(f"{p.name}, " for p in parameters) + ")"
    lines = [f"def {name}({parameter_list(op, with_out=False)}):", *_prologue(op)]
    tensors = [parameters[i] for i in plan.tensor_slots]
    if op.kind is Kind.POINTWISE and has_fast_path(op, plan) and plan.tensor_slots[0] == 0:
        lines += _inplace_block(op, plan, tensors, None)
        writes = hasattr(op.kernel, "into")  # then it knows what numbers are to be taken for
        if (len(tensors) == 2 or (writes and len(tensors) == 3)) and tensors[-1].annotation == OPERAND:
            lines += _inplace_block(op, plan, tensors, tensors[-1])
    lines.append(f"    return dispatch_inplace(OP, {bound}, FACE)")
    return "\n".join(lines) + "\n"


def _inplace_block(op: Op, plan: Plan, tensors: list[OpParameter], scalar: OpParameter | None) -> list[str]:
    """Writes straight into contiguous memory where no gradient is recorded; whatever raises goes the
    generic way.
    """
    live = [p for p in tensors if p is not scalar]
    target = tensors[0].name
    untracked = [f"not {p.name}.tracked and {p.name}.origin is None" for p in live]
    conditions, known = _operand_conditions(tensors, scalar)
    conditions += _number_conditions(op)
    same = [f"x{i}.dtype is x0.dtype" for i, p in enumerate(tensors) if i and p is not scalar]
    operands = ", ".join(f"x{i}" for i in range(len(tensors)))
    if isinstance(op.kernel, np.ufunc):
        write = f"run(KERNEL, {operands}, out=x0)"
    else:
        write = f"copyto(x0, {_kernel_call(op, plan)})"
        if hasattr(op.kernel, "into"):  # a kernel that writes over its first operand itself
            write = f"run(INTO, {', '.join([operands, *_plain_names(op, plan)])})"
        if hasattr(op.kernel, "ufunc"):
            write = f"run(UFUNC, {operands}, out=x0) if {_at_defaults(op, plan)} else {write}"
    return [
        f"    if {' and '.join(conditions)}:",
        *_array_lines(tensors, scalar),
        "        m = _mode()",
        f"        if (m is False or (m is True and {' and '.join(untracked)})) and "
        f"{' and '.join([*same, f'x0.dtype in {known}', 'x0.flags.c_contiguous'])}:",
        f"            c = {target}.cell",
        "            if c is None or type(c) is list:",
        "                try:",
        f"                    {write}",
        "                except Exception as _error:",
        "                    let_through(_error)",
        "                else:",
        f"                    c = {target}.cell",  # another thread may have made one meanwhile
        "                    if c is None:",
        f"                        {target}.cell = [1]",
        "                    else:",
        "                        c[0] += 1",
        f"                    return {target}",
    ]


def _view_block(op: Op, plan: Plan, bound: str) -> list[str]:
    """The straight-line path of a view op on a plain tensor."""
    first, *rest = op.signature.parameters
    arguments = "".join(f", {p.name}" for p in rest)
    lines = [
        f"    if {_plain(first.name)}:",
        "        m = _mode()",
        "        if m is True or m is False:",
        f"            x0 = {first.name}.array",
        "            try:",
        f"                r = KERNEL(x0{arguments})",
        *AFTERWARDS,
    ]
    made = [
        "            if r.dtype is not x0.dtype:",  # bits read anew: the dispatcher knows what that records
        f"                return dispatch(OP, {bound})",
        f"            t = attach_view({first.name}, r, (OP, ({arguments[2:]}{',' if rest else ''}), "
        "None), 0 if m else 2)",
    ]
    if op.vjp is not None:
        made += record_block(op, plan, [first])
    return [*lines, *_deeper([*made, "            return t"])]


AFTERWARDS = [
    "            except Exception as _error:",
    "                let_through(_error)",
    "            else:",
]
"""What follows the kernel: where it raises, control falls through to the dispatcher, whose error then does
not say that it was raised while another one was handled."""


def _deeper(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def composite_block(op: Op, bound: str) -> list[str]:
    """A composite runs its body at once where nothing can override it."""
    if op.kind is Kind.RANDOM:
        return _sampler_block(op, bound)
    tensors = [p.name for p in op.signature.parameters if p.is_tensor]
    if not tensors:
        return []
    first = tensors[0]
    checks = [f"(type({first}) is Tensor or type({first}) is Parameter)"]
    for name in tensors[1:]:
        checks.append(f"({name} is None or type({name}) in PLAIN)")
    if op.signature.list_slots:
        return []
    return [
        f"    if {' and '.join(checks)}:",
        "        m = _mode()",
        "        if m is True or m is False:",
        f"            return labelled(BODY{bound}, {op.node!r})"
        if op.node
        else f"            return BODY{bound}",
    ]


def _sampler_block(op: Op, bound: str) -> list[str]:
    """A draw of numbers from plain tensors and numbers, with nothing around that would see it."""
    if op.signature.list_slots:
        return []
    checks = ["not _levels()"]
    for p in op.signature.parameters:
        if p.annotation == "Tensor":
            checks.append(f"type({p.name}) in PLAIN")
        elif p.is_tensor:
            checks.append(f"(type({p.name}) in PLAIN or type({p.name}) in NUMBERS)")
        elif p.annotation == "Shape":
            checks.append(
                f"({p.name} is None or (type({p.name}) is tuple and INTS.issuperset(map(type, {p.name}))))"
            )
        elif p.annotation in ("Number", "int", "float"):
            checks.append(f"type({p.name}) in NUMBERS")
    if not op.signature.tensor_slots:
        checks.append("_on_cpu()")
    body = f"labelled(BODY{bound}, {op.node!r})" if op.node else f"BODY{bound}"
    return [
        "    m = _mode()",
        f"    if (m is True or m is False) and {' and '.join(checks)}:",
        f"        return {body}",
    ]


def _plain(name: str) -> str:
    return f"(type({name}) is Tensor or type({name}) is Parameter)"


def fast_block(op: Op, plan: Plan, tensors: list[OpParameter], scalar: OpParameter | None) -> list[str]:
    """The straight-line path for plain tensors (and, with `scalar`, a Python number as second operand)."""
    conditions, known = _operand_conditions(tensors, scalar)
    conditions = [*conditions, *_number_conditions(op), *_at_home(op)]
    lines = [f"    if {' and '.join(conditions)}:", *_array_lines(tensors, scalar)]
    others = [i for i, p in enumerate(tensors) if p is not scalar][1:]
    same = " and ".join(f"x{i}.dtype is x0.dtype" for i in others)
    dtypes = f"x0.dtype in {known}"
    if others and op.promotion is not None:
        dtypes = f"{same} and {dtypes}"
    elif others:  # no promotion: the op knows combinations, as `weft.tensor.dispatch.dtypes_key` writes them
        mixed = "(x0.dtype, " + ", ".join(f"x{i}.dtype" for i in others) + ")"
        dtypes = f"(x0.dtype if {same} else {mixed}) in {known}"
    lines += [
        "        m = _mode()",
        f"        if {dtypes} and (m is True or m is False):",
        "            try:",
        f"                r = {_kernel_call(op, plan)}",
        *AFTERWARDS,
    ]
    rest: list[str] = []
    if not isinstance(op.kernel, np.ufunc):
        rest += ["            if type(r) is not ndarray:", "                r = asarray(r)"]
    rest += [
        "            t = new(Tensor)",
        "            t.array = r",
        "            t.cell = t.origin = t._grad = t.hooks = None",
        "            t.index = 0",
    ]
    if op.vjp is not None:
        rest += record_block(op, plan, tensors, () if scalar is None else (scalar,))
    rest += ["            t.node = None", "            t.tracked = False", "            return t"]
    return [*lines, *_deeper(rest)]


def _operand_conditions(tensors: list[OpParameter], scalar: OpParameter | None) -> tuple[list[str], str]:
    """What the operands must be for a fast block, and the name of the set that knows their dtypes."""
    conditions = [_plain(p.name) for p in tensors if p is not scalar]
    if scalar is None:
        return conditions, "K"
    if scalar.annotation == OPTIONAL:
        return [*conditions, f"{scalar.name} is None"], "K"
    return [
        *conditions,
        f"(type({scalar.name}) is float or type({scalar.name}) is int)",
    ], f"KS[type({scalar.name})]"


def _number_conditions(op: Op) -> list[str]:
    """Numbers that kernels compute with must be Python's own: NumPy has dtypes for others, as for its own and
    for subclasses of `float`, and makes results of these.
    """
    found = []
    for position in op.signature.float_slots:
        parameter = op.signature.parameters[position]
        text = f"type({parameter.name}) in NUMBERS"
        is_default = f"{parameter.name} is D_{parameter.name} or "
        found.append(text if parameter.default is MISSING else f"({is_default}{text})")
    return found


def _array_lines(tensors: list[OpParameter], scalar: OpParameter | None) -> list[str]:
    return [f"        x{i} = {p.name if p is scalar else p.name + '.array'}" for i, p in enumerate(tensors)]


def _kernel_call(op: Op, plan: Plan) -> str:
    """Calls the kernel. One with a `ufunc` attribute names the ufunc that does its work when all else is at
    its default.
    """
    operands = ", ".join(f"x{i}" for i in range(len(plan.tensor_slots)))
    if isinstance(op.kernel, np.ufunc):
        return f"run(KERNEL, {operands}, out=...)"
    words = []
    for position, parameter in enumerate(op.signature.parameters):
        words.append(
            f"x{plan.tensor_slots.index(position)}" if position in plan.tensor_slots else parameter.name
        )
    call = f"run(KERNEL, {', '.join(words)})"
    if hasattr(op.kernel, "ufunc"):
        return f"run(UFUNC, {operands}, out=...) if {_at_defaults(op, plan)} else {call}"
    return call


def _at_defaults(op: Op, plan: Plan) -> str:
    """Whether the parameters that are no tensors are the very defaults (so True is not 1)."""
    return " and ".join(f"{name} is D_{name}" for name in _plain_names(op, plan)) or "True"


def _plain_names(op: Op, plan: Plan) -> list[str]:
    return [op.signature.parameters[i].name for i in plan.plain_slots]


def record_block(
    op: Op, plan: Plan, tensors: list[OpParameter], absent: Sequence[OpParameter] = ()
) -> list[str]:
    """Puts a node behind the result `t` where an operand is tracked; `absent` are those that are numbers, or
    none, in this call.
    """
    live = [p for p in tensors if p not in absent]
    pad = " " * 20
    lines = ["            if m is True:"]
    for parameter in live:
        lines += [
            f"                if {parameter.name}.origin is not None:",
            f"                    refresh({parameter.name})",
        ]
    lines.append(f"                if {' or '.join(f'{p.name}.tracked' for p in live)}:")
    lines += [f"{pad}n = new(N)", f"{pad}n._seq = sequence()"]
    edges = [
        "None" if p in absent else f"({p.name}.node or {p.name}) if {p.name}.tracked else None"
        for p in tensors
    ]
    lines.append(f"{pad}n.next = ({', '.join(edges)},)")
    indices = ", ".join("0" if p in absent else f"{p.name}.index" for p in tensors)
    nonzero = " or ".join(f"{p.name}.index" for p in live)
    lines.append(f"{pad}n.slots = ({indices},) if {nonzero} else None")
    lines.append(f"{pad}n.hooks = None")
    plain = "".join(f"{op.signature.parameters[i].name}, " for i in plan.plain_slots)
    lines.append(f"{pad}n.params = ({plain})")
    types = "".join(
        "None, None, " if p in absent else f"x{i}.shape, x{i}.dtype, " for i, p in enumerate(tensors)
    )
    types += "r.shape, r.dtype, " if plan.out_type else ""
    lines.append(f"{pad}n.types = ({types})")
    lines += _save_lines(plan, tensors, absent, pad)
    lines += [f"{pad}t.node = n", f"{pad}t.tracked = True", f"{pad}return t"]
    return lines


def _save_lines(plan: Plan, tensors: list[OpParameter], absent: Sequence[OpParameter], pad: str) -> list[str]:
    """Saves each source under the condition that some input whose rule reads it needs a gradient."""
    lines: list[str] = []
    values: list[str] = []
    versions: list[str] = []
    for source in plan.saved:
        if source == OUT:
            condition = _save_condition(plan, tensors, absent, OUT)
            if condition is None:
                lines.append(f"{pad}t.cell = [0]")
                values.append("r")
                versions.append("t.cell, 0")
            else:
                lines += [
                    f"{pad}s_out = c_out = v_out = None",
                    f"{pad}if {condition}:",
                    f"{pad}    s_out = r",
                    f"{pad}    c_out = t.cell = [0]",
                    f"{pad}    v_out = 0",
                ]
                values.append("s_out")
                versions.append("c_out, v_out")
            continue
        position = plan.tensor_slots.index(source)
        name = tensors[position].name
        if tensors[position] in absent:
            values.append(f"x{position}")
            continue
        condition = _save_condition(plan, tensors, absent, source)
        inner = pad if condition is None else pad + "    "
        if condition is not None:
            lines += [f"{pad}s{position} = c{position} = v{position} = None", f"{pad}if {condition}:"]
        lines += [
            f"{inner}s{position} = x{position}",
            f"{inner}c{position} = {name}.cell",
            f"{inner}if c{position} is None:",
            f"{inner}    c{position} = {name}.cell = [0]",
            f"{inner}v{position} = c{position}[0]",
        ]
        values.append(f"s{position}")
        versions.append(f"c{position}, v{position}")
    lines.append(f"{pad}n.saved = ({''.join(v + ', ' for v in values)})")
    lines.append(f"{pad}n.versions = " + (f"({', '.join(versions)},)" if versions else "None"))
    return lines


def _save_condition(
    plan: Plan, tensors: list[OpParameter], absent: Sequence[OpParameter], source: int
) -> str | None:
    if plan.joint is not None:
        return None
    live = [i for i, p in enumerate(tensors) if p not in absent]
    readers = [
        i
        for i in live
        if i < len(plan.rules) and (rule := plan.rules[i]) is not None and source in rule.saves
    ]
    if not readers:
        return "False"
    return None if readers == live else " or ".join(f"{tensors[i].name}.tracked" for i in readers)


def backward_source(op: Op, plan: Plan, *, graph: bool) -> str:
    """The function that runs the gradient rules of one node, on arrays or (graph) on tensors."""
    name = "graph_backward" if graph else "raw_backward"
    lines = [f"def {name}(n, g):", "    s = n.saved", "    if s is None:", "        freed()"]
    names = [f"s{i}" for i in range(len(plan.saved))]
    if graph:
        lines.append("    s = unpack(n)")
    else:
        lines += ["    if type(s) is not tuple:", "        s = s.arrays(n)"]
    if names:
        lines += [
            "    v = n.versions",
            "    if v is not None:",
            "        check_versions(n, v)",
            f"    {', '.join(names)}, = s",
        ]
    count = len(plan.tensor_slots)
    lines += ["    e = n.next", "    y = n.types", "    p = n.params"]
    if plan.joint is not None:
        needs = "(" + "".join(f"e[{i}] is not None, " for i in range(count)) + ")"
        arguments = _rule_arguments(op, plan, plan.joint)
        lines.append(f"    {', '.join(f'g{i}' for i in range(count))}, = JOINT({needs}, g, {arguments})")
        for i in range(count):
            lines += [
                f"    if e[{i}] is None:",
                f"        g{i} = None",
                "    else:",
                *_finish(op, i, graph, "        "),
            ]
    else:
        for i in range(count):
            rule = plan.rules[i] if i < len(plan.rules) else None
            lines.append(f"    g{i} = None")
            if rule is not None:
                lines += [
                    f"    if e[{i}] is not None:",
                    f"        g{i} = V{i}(g, {_rule_arguments(op, plan, rule)})",
                ]
                lines += _finish(op, i, graph, "        ")
    lines.append(f"    return ({''.join(f'g{i}, ' for i in range(count))})")
    return "\n".join(lines) + "\n"


def _finish(op: Op, position: int, graph: bool, pad: str) -> list[str]:
    """Brings a gradient to its input's shape and dtype."""
    g, shape, kind = f"g{position}", f"y[{2 * position}]", f"y[{2 * position + 1}]"
    if graph:
        return [f"{pad}if {g} is not None:", f"{pad}    {g} = finish({g}, {shape}, {kind})"]
    lines = [f"{pad}if {g} is not None:"]
    if op.kind is Kind.POINTWISE:
        lines += [f"{pad}    if {g}.shape != {shape}:", f"{pad}        {g} = unbroadcast({g}, {shape})"]
    return [*lines, f"{pad}    if {g}.dtype is not {kind}:", f"{pad}        {g} = cast({g}, {kind})"]


def _rule_arguments(op: Op, plan: Plan, rule: RuleFacts) -> str:
    words: list[str] = []
    saved = {source: i for i, source in enumerate(plan.saved)}
    count = len(plan.tensor_slots)
    sources: list[Any] = [OUT, *range(len(op.signature.parameters))][: rule.arity]
    for source in sources:
        if source in plan.plain_slots:
            words.append(f"p[{plan.plain_slots.index(source)}]")
        elif source in rule.saves:
            words.append(f"s{saved[source]}")
        elif source in rule.types:
            position = count if source == OUT else plan.tensor_slots.index(source)
            words.append(f"type_of(y[{2 * position}], y[{2 * position + 1}])")
        else:
            words.append("None")
    return ", ".join(words)
