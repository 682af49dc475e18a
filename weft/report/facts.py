"""Facts: what was observed, as plain data.

Takes an `Observed`; gives dictionaries, lists, texts and numbers, which a page or a program can read (they
are what stands in the page, as JSON). One idea: everything is linked by the user's lines, which graphs and
native programs both carry.
"""

from __future__ import annotations

import linecache
import math
import platform
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from weft.core import threads
from weft.core.lazy import lazy
from weft.graph.describe import describe
from weft.graph.node import Node
from weft.report.drawing import placed
from weft.report.naming import names_of_inputs
from weft.report.observing import Made, Observed
from weft.report.sums import Facts, Place, along_the_step, asks_for_gradients, by_likeness, by_line
from weft.report.timing import seconds_of_steps
from weft.version import __version__

_looking: Any = lazy("weft.native.program.describe")
_stepping: Any = lazy("weft.native.program.stepping")
_writes: Any = lazy("weft.native.plan.order")
_listing: Any = lazy("weft.native.program.listing")
_build: Any = lazy("weft.native.plan.build")

AROUND = 2
"""So many lines are shown around one that something comes from."""


def facts_of(seen: Observed, *, timed: bool = True) -> Facts:
    """All that a report shows. `timed`: native programs are run again, step by step, for their times."""
    names = {
        id(each.entry.graph_module): names_of_inputs(each.entry.guards, each.code) for each in seen.entries
    }
    drawings = [
        _drawn(f"graph {number}", list(module.graph.nodes), {}, names=names.get(id(module)))
        for number, (module, _) in enumerate(seen.graphs, 1)
    ]
    pairs = _pairs(seen.programs)
    programs = [
        _program_facts(number, made, timed, pairs.get(number), seen.programs)
        for number, made in enumerate(seen.programs)
    ]
    joint = [_joint(seen.programs, pairs[number], number) for number in pairs]
    breaks = [_break_facts(each) for each in seen.breaks]
    return {
        "title": seen.title,
        "machine": _machine(),
        "summary": _summary(seen, drawings, programs, breaks),
        "sources": _sources(seen, [*drawings, *joint], programs, breaks),
        "graphs": [*drawings, *joint],
        "programs": programs,
        "lines": by_line(programs),
        "kinds": by_likeness(programs),
        "memory": along_the_step(programs),
        "breaks": breaks,
        "misses": [{"function": code.co_qualname, "reasons": reasons} for code, reasons in seen.misses],
        "entries": [
            {
                "function": each.code.co_qualname,
                "milliseconds": 1000 * each.seconds,
                "guards": [str(guard) for guard in each.entry.guards],
                "text": each.entry.text,
            }
            for each in seen.entries
        ],
    }


def _machine() -> Facts:
    return {
        "weft": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads.count(),
    }


def _summary(seen: Observed, graphs: list[Facts], programs: list[Facts], breaks: list[Facts]) -> Facts:
    steps = [step for program in programs for step in program["steps"]]
    return {
        "calls compiled": len(seen.entries),
        "graphs": len(graphs),
        "breaks": len(breaks),
        "recompiles": len(seen.misses),
        "ops": sum(node["op"].startswith("call") for graph in graphs for node in graph["nodes"]),
        "guards": sum(len(list(each.entry.guards)) for each in seen.entries),
        **{kind: seen.built.get(kind, 0) for kind in ("plans", "native entries")},
        "programs": len(programs),
        "kernels": sum(step["kind"].startswith("kernel") for step in steps),
        "products": sum("product" in step["kind"] for step in steps),
        "compile milliseconds": round(1000 * seen.seconds, 1),
    }


# -- graphs --------------------------------------------------------------------------------------------------
def _pairs(programs: Sequence[Made]) -> dict[int, int]:
    """For each backward of a graph that was differentiated ahead of time, its forward, by their numbers."""
    waiting: list[int] = []
    found: dict[int, int] = {}
    for number, made in enumerate(programs):
        name = getattr(made.graph_module, "_class_name", "")
        if name == "Forward":
            waiting.append(number)
        elif name == "Backward" and waiting:
            taken = {node.target for node in made.graph_module.graph.nodes if node.op == "placeholder"}
            found[number] = max(waiting, key=lambda other: (len(taken & _names(programs[other])), other))
    return found


def _joint(programs: Sequence[Made], forward: int, backward: int) -> Facts:
    """A forward and its backward in one drawing: what is kept for the backward is an edge from one to the
    other.
    """
    before = list(programs[forward].graph_module.graph.nodes)
    known = {node.name: node for node in before}
    nodes = list(programs[backward].graph_module.graph.nodes)
    same = {
        node: known[str(node.target)]
        for node in nodes
        if node.op == "placeholder" and str(node.target) in known
    }
    title = f"programs {forward + 1} and {backward + 1}: forward and backward"
    return _drawn(title, [*before, *(node for node in nodes if node not in same)], same, set(nodes))


def _names(made: Made) -> set[str]:
    return {node.name for node in made.graph_module.graph.nodes}


def _drawn(
    title: str,
    nodes: list[Node],
    same: dict[Node, Node],
    backward: Iterable[Node] = (),
    names: dict[str, str] | None = None,
) -> Facts:
    """A graph's nodes, where they stand, and its edges. `names`: what its inputs are called by the user."""
    known = names or {}
    labels = {node: known.get(str(node.target), node.name) for node in nodes if node.op == "placeholder"}
    numbers = {node: number for number, node in enumerate(nodes)}
    edges = sorted(
        {
            (numbers[same.get(source, source)], numbers[node])
            for node in nodes
            for source in node.all_input_nodes
            if same.get(source, source) in numbers
        }
    )
    behind = set(backward)
    found = [_node_facts(node, node in behind, labels) for node in nodes]
    for facts, (x, y) in zip(found, placed(len(nodes), edges)):
        facts["x"], facts["y"] = round(x, 1), round(y, 1)
    return {"title": title, "nodes": found, "edges": edges}


def _node_facts(node: Node, backward: bool, labels: dict[Node, str]) -> Facts:
    target = node.target if isinstance(node.target, str) else _target_name(node.target)
    place = _place(node.meta.get("source"))
    arguments = [_short(each, labels) for each in node.args]
    arguments += [f"{name}={_short(value, labels)}" for name, value in node.kwargs.items()]
    is_input = node.op in ("placeholder", "get_attr")
    text = labels.get(node, target) if is_input else f"{target}({', '.join(arguments)})"
    return {
        "name": labels.get(node, node.name),
        "op": node.op,
        "target": target,
        "type": describe(node.meta.get("val")) or "",
        "text": text,
        "place": place,
        "phase": _phase(node, place, backward),
    }


def _phase(node: Node, place: Place | None, backward: bool) -> str:
    """For the colour of a node: by where it stands, what it writes, and what its line says."""
    if node.op in ("placeholder", "get_attr", "output"):
        return node.op.replace("get_attr", "placeholder")
    if backward or (place and asks_for_gradients(place)):
        return "backward"
    return "write" if node.meta.get("writes") else "forward"


def _target_name(target: Any) -> str:
    return str(getattr(target, "name", None) or getattr(target, "__name__", None) or target)


def _short(value: Any, labels: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return labels.get(value, value.name)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_short(each, labels) for each in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _place(source: Any) -> Place | None:
    return None if not source else (str(source[0]), int(source[1]))


# -- programs ------------------------------------------------------------------------------------------------
def _program_facts(
    number: int, made: Made, timed: bool, forward: int | None, programs: Sequence[Made]
) -> Facts:
    """A program. `forward`: the number of the one whose gradients it computes."""
    program = made.program.program.settled()
    times = seconds_of_steps(made.program, made.inputs) if timed else None
    steps = [_step_facts(program, each, times) for each in range(program.count)]
    is_backward = getattr(made.graph_module, "_class_name", "") == "Backward"
    return {
        "title": f"program {number + 1}" + ": backward" * is_backward,
        "backward": is_backward,
        "forward": forward,
        "kept": None if forward is None else _bytes_kept(programs[forward], made),
        "steps": steps,
        "reasons": list(dict.fromkeys(map(str, program.listing.reasons))),
        "memory": _memory_facts(program),
    }


def _bytes_kept(forward: Made, backward: Made) -> int:
    """How much memory a forward's own values take that its backward reads."""
    own = {node.name for node in forward.graph_module.graph.nodes if node.op != "placeholder"}
    inputs = [node.target for node in backward.graph_module.graph.nodes if node.op == "placeholder"]
    return sum(getattr(each, "nbytes", 0) for name, each in zip(inputs, backward.inputs) if name in own)


def _step_facts(program: Any, number: int, times: list[float] | None) -> Facts:
    step = program.listing.steps[number]
    is_kernel = isinstance(step, _build.Built)
    return {
        "kind": _looking.kind_of(step),
        "ops": _stepping.ops_of(step),
        "writes": [_looking.value_text(program, value) for value in _writes.writes_of(step)],
        "reads": list(dict.fromkeys(_looking.value_text(program, value) for value in _writes.reads_of(step))),
        "places": [(str(file), int(line)) for file, line, _ in _stepping.lines_of(step)],
        "shares": [(str(file), int(line), behind) for file, line, behind in _stepping.shares_of(step)],
        "text": str(step.kernel) if is_kernel else "",
        "microseconds": None if times is None else round(1e6 * times[number], 2),
    }


def _memory_facts(program: Any) -> Facts:
    """The memory plan of a program: the offset of each value, its lifetime in steps, and its results."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, step in enumerate(program.listing.steps):
        for value in (*_writes.writes_of(step), *_writes.reads_of(step)):
            place = program.listing.places.get(id(value))
            if place is not None:
                first.setdefault(place, number)
                last[place] = number
    values = []
    for place, offset in program.arena:
        value = program.listing.values[place]
        size = value.size * _listing.numpy_type(value.type).itemsize
        span = first.get(place, 0), last.get(place, program.count - 1)
        values.append({"name": f"%{place} {value.name}", "offset": offset, "bytes": size, "span": span})
    live = [
        sum(value["bytes"] for value in values if value["span"][0] <= step <= value["span"][1])
        for step in range(program.count)
    ]
    results = [
        {"step": first.get(place, 0), "bytes": math.prod(shape) * np.dtype(kind).itemsize}
        for place, shape, kind in program.made
    ]
    return {"block": program.arena_bytes, "values": values, "live": live, "results": results}


# -- breaks and lines ----------------------------------------------------------------------------------------
def _break_facts(each: Any) -> Facts:
    entry = each.entry
    if entry.stop is None:
        reason, place = f"runs as written: {entry.reason}", None
    else:
        reason, place = str(entry.stop), _place(entry.where)
    why, remedy = entry.advice()
    return {"function": each.code.co_qualname, "reason": reason, "place": place, "why": why, "try": remedy}


def _sources(seen: Observed, graphs: list[Facts], programs: list[Facts], breaks: list[Facts]) -> list[Facts]:
    """The user's lines: the functions that were compiled, and whatever anything comes from."""
    places: set[Place] = {node["place"] for graph in graphs for node in graph["nodes"] if node["place"]}
    places |= {place for program in programs for step in program["steps"] for place in step["places"]}
    places |= {each["place"] for each in breaks if each["place"]}
    wanted: dict[str, set[int]] = {}
    for file, line in places:
        wanted.setdefault(file, set()).update(range(line - AROUND, line + AROUND + 1))
    for each in seen.entries:
        if each.code.co_filename in wanted:
            wanted[each.code.co_filename].update(range(*_extent(each.code)))
    found = []
    for file in sorted(wanted):
        last = len(linecache.getlines(file))
        numbers = [line for line in sorted(wanted[file]) if 0 < line <= last or (file, line) in places]
        lines = [(line, linecache.getline(file, line).rstrip("\n")) for line in numbers]
        found.append({"file": file, "lines": lines})
    return found


def _extent(code: CodeType) -> tuple[int, int]:
    """From a function's first line to behind its last."""
    inner = [_extent(each)[1] for each in code.co_consts if isinstance(each, CodeType)]
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return code.co_firstlineno, max([*(line + 1 for line in lines), *inner, code.co_firstlineno + 1])
