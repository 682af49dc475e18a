"""Random programs that differentiate: inside and outside of compiled code, with hooks, writes, Functions.

Takes a seed; gives source text with `main` and `arguments` as generator.py's programs have, and `after`,
which is run uncompiled on each result. One idea: what is differentiated by is always in scope (`W`, `Q`,
`NET`), so nearly every statement bears on some gradient, and `after` asks for gradients in all the ways there
are.
"""

from __future__ import annotations

import re

from tests.whole.fuzz.generator import IMPORTS, SPECIAL, Generator
from tests.whole.fuzz.grammar import EXPRESSIONS as PLAIN
from tests.whole.fuzz.tape_functions import custom_function
from tests.whole.fuzz.tape_tables import (
    AFTER,
    BETWEEN,
    BETWEEN_NET,
    CLIPS,
    EXPRESSIONS,
    HOOKS,
    LOSSES,
    MODULE_HOOKS,
    NETS,
    OF_COMPILED,
    OPTIMIZERS,
    POSTS,
    STATEMENTS,
)
from tests.whole.fuzz.templates import Choices, Scope

LIKELY = {
    "flow": 0.5,
    "views": 0.6,
    "writes": 0.45,
    "inside": 0.4,
    "hooks": 0.4,
    "failing": 0.2,
    "breaks": 0.15,
    "random": 0.2,
    "transforms": 0.15,
    "checkpoints": 0.1,
    "saved": 0.1,
}
STATE_LINES = """\
LOG = []
HISTORY = []
HANDLES = []
COUNT = 0
STATE = {}
W = weft.tensor([0.5, -1.25, 2.0], requires_grad=True)
Q = weft.tensor([[0.5, 0.1, -0.3], [0.2, -0.6, 0.4], [0.7, 0.3, 0.9]], requires_grad=True)
INDEX = weft.tensor([2, 0, 1])
""".splitlines()
ROLES = ("leaf", "leaf", "plain", "plain", "grown", "view")


class TapeGenerator(Generator):
    """Writes one program that differentiates."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        chance = self.chance
        self.backend = ("eager", "aot_eager")[seed % 2]
        self.groups = ["math", *(group for group, share in LIKELY.items() if chance.random() < share)]
        self.definitions = []
        self.expressions: dict[str, Choices] = {}
        self.statements = Choices()
        self.stepping = chance.random() < 0.25
        for kind in ("int", "float", "bool"):
            for template in PLAIN["numbers"][kind]:
                self.offer(kind, template)
        for group in self.groups:
            for kind, templates in EXPRESSIONS.get(group, {}).items():
                for template in templates:
                    self.offer(kind, template)
            for template in STATEMENTS.get(group, ()):
                self.statements.add(template, factor=1.0 if group == "math" else 1.6)

    def write_lines(self, text: str, indent: str = "") -> None:
        self.lines += [indent + line for line in text.split("\n")]

    def define_names(self) -> None:
        """Hooks, Functions, a net and its optimizer, by chance."""
        chance = self.chance
        for table, kind in ((HOOKS, "hook"), (POSTS, "post")):
            for name, text in table.items():
                if chance.random() < 0.5 or name in ("noting", "halving", "noted"):
                    self.write_lines(text)
                    self.module.add(name, kind, settable=False)
        for index in range(chance.choice((0, 0, 1, 1, 2))):
            text, gives, does = custom_function(chance, f"Fn{index}")
            self.write_lines(text)
            for kind, templates in gives.items():
                for template in templates:
                    self.offer(kind, (2.0, template))
            for template in does:
                self.statements.add(template, factor=2.0)
        self.has_net = self.stepping or chance.random() < 0.3
        if self.has_net:
            self.write_lines(chance.choice(NETS))
            for hook in chance.sample(MODULE_HOOKS, chance.choice((0, 0, 1, 2))):
                self.lines.append(f"HANDLES.append({hook})")
            both = "list(NET.parameters()) + [W, Q]"
            parameters = both if chance.random() < 0.3 else "NET.parameters()"
            self.lines.append(f"OPT = {chance.choice(OPTIMIZERS).format(parameters=parameters)}")
            self.lines.append("SCHEDULE = weft.optim.lr_scheduler.StepLR(OPT, 2, gamma=0.5)")
            self.lines.append("SCALER = weft.amp.GradScaler('cpu', init_scale=4.0, growth_interval=2)")
            self.lines.append("EMA = [p.detach().clone() for p in NET.parameters()]")
            self.offer("T", (3.0, "NET($T)"))
            if "inside" in self.groups:
                self.statements.add("OPT.zero_grad()\nNET($T).sum().backward()\nOPT.step()", factor=2.0)

    def program(self) -> str:
        chance = self.chance
        self.lines = [f"OPTIONS = {{'backend': '{self.backend}'}}", *STATE_LINES]
        if chance.random() < 0.15:
            self.lines[0] = f"OPTIONS = {{'backend': '{self.backend}', 'dynamic': {chance.random() < 0.5}}}"
        self.module.add("W", "W", settable=False)
        self.module.add("Q", "Q", settable=False)
        self.define_names()
        parameters = self.step() if self.stepping else self.function()
        self.after()
        self.calls_of(parameters)
        body = "\n".join(self.lines)
        words = set(re.findall(r"\w+", body))
        imports = [line for name, line in IMPORTS.items() if name in words]
        return "\n".join([*imports, "import weft", "weft.manual_seed(0)", body, ""])

    # -- main --------------------------------------------------------------------------
    def function(self) -> list[tuple[str, str, str]]:
        """`main` as statements by chance; gives name, kind and role of each parameter."""
        chance = self.chance
        kinds = chance.choice(
            (["V"], ["T"], ["V", "T"], ["V", "V"], ["T", "V", "int"], ["T", "T", "float"], ["V", "bool"])
        )
        parameters = [(self.name(kind), kind, chance.choice(ROLES)) for kind in kinds]
        self.takes_tensor = kinds[0] in ("V", "T")
        self.lines.append(f"def main({', '.join(name for name, *_ in parameters)}):")
        self.lines.append("    global COUNT")
        scope = self.module.child(result="any", declares=True, depth=0)
        for name, kind, role in parameters:
            scope.add(name, kind, settable=role != "leaf" or kind in ("int", "float", "bool"))
            scope.local.append(name)
            if kind == "V" and role == "leaf":
                scope.add(name, "W", settable=False)
        self.block(scope, "    ", chance.choice((2, 3, 4, 5, 6, 8)))
        made = [
            name
            for kind in ("V", "T", "S", "any")
            for name in scope.names.get(kind, ())
            if name in scope.local
        ]
        results = chance.sample(made, min(len(made), chance.choice((1, 2, 3))))
        results += [self.expression(chance.choice(("V", "T", "S")), scope, chance.choice((1, 2)))]
        self.lines.append(f"    return {', '.join(results)},")
        return parameters

    def step(self) -> list[tuple[str, str, str]]:
        """`main` as a step of training, or its forward half."""
        chance = self.chance
        scope = self.module.child(result="any", declares=True, depth=0)
        self.lines += ["def main(x, y):", "    global COUNT"]
        scope.add("x", "T", settable=False)
        scope.add("y", "T", settable=False)
        whole = chance.random() < 0.75
        self.whole_step = whole
        clear = chance.choice(
            ("OPT.zero_grad()", "OPT.zero_grad(set_to_none=False)", "NET.zero_grad()", "pass")
        )
        if whole and chance.random() < 0.6:
            self.lines.append(f"    {clear}")
        self.block(scope, "    ", chance.choice((0, 0, 1, 2)))
        self.lines += ["    out = NET(x)", f"    loss = {chance.choice(LOSSES)}"]
        scope.add("out", "T", settable=False)
        scope.local.append("out")
        if chance.random() < 0.4:
            self.block(scope, "    ", chance.choice((1, 2)))
            self.lines.append(f"    loss = loss + {self.expression('S', scope, 2)}")
        if whole:
            self.update(clear)
        self.lines.append(
            f"    return {chance.choice(('loss.detach(),', 'loss,', 'loss, out', 'out, loss.detach()'))}"
        )
        return [("x", "T", "leaf" if chance.random() < 0.3 else "plain"), ("y", "T", "plain")]

    def update(self, clear: str) -> None:
        """Backward and the optimizer's step, plain or scaled, with what is done around them."""
        chance = self.chance
        scaled = chance.random() < 0.15
        if chance.random() < 0.15:
            self.lines.append("    loss.backward(retain_graph=True)")
        self.lines.append("    SCALER.scale(loss).backward()" if scaled else "    loss.backward()")
        if scaled and chance.random() < 0.5:
            self.lines.append("    SCALER.unscale_(OPT)")
        if chance.random() < 0.4:
            self.write_lines(chance.choice(CLIPS), "    ")
        if scaled:
            self.lines += ["    SCALER.step(OPT)", "    SCALER.update()"]
        else:
            self.lines.append(
                "    OPT.step()" if chance.random() < 0.9 else "    OPT.step(lambda: loss.detach())"
            )
        if chance.random() < 0.2:
            self.lines.append("    SCHEDULE.step()")
        if chance.random() < 0.3:
            self.lines.append(f"    {clear}")

    def after(self) -> None:
        """What is done with each result, uncompiled."""
        chance = self.chance
        weights, texts = zip(*AFTER)
        self.lines += [
            "def after(result, *args):",
            "    global COUNT",
            "    LEAVES = [W, Q, *(a for a in args if isinstance(a, weft.Tensor) and a.requires_grad)]",
            "    found = [t for t in result if isinstance(t, weft.Tensor) and t.requires_grad]",
            "    if not found:",
            "        return",
        ]
        if self.stepping and not self.whole_step:
            self.lines += ["    OPT.zero_grad()", "    found[-1].sum().backward()", "    OPT.step()"]
            return
        if self.stepping and chance.random() < 0.85:  # most of what there is has been differentiated
            self.lines.append("    LOG.append(len(found))")
            return
        pure = not {"writes", "inside", "hooks", "failing", "saved", "random"} & set(self.groups)
        if pure and not self.stepping and self.takes_tensor and chance.random() < 0.4:
            weights, texts = zip(*OF_COMPILED)
        self.write_lines(chance.choices(texts, weights)[0], "    ")

    # -- calls -------------------------------------------------------------------------
    def numbers(self, count: int) -> str:
        return ", ".join(str(round(self.chance.uniform(-1.5, 1.5), 2)) for _ in range(count))

    def tensor(self, kind: str, role: str, rows: int) -> str:
        text = f"weft.tensor([{self.numbers(3)}])"
        if kind == "T":
            text = f"weft.tensor([{', '.join(f'[{self.numbers(3)}]' for _ in range(rows))}])"
        if role == "leaf":
            return f"{text[:-1]}, requires_grad=True)"
        if role == "grown":
            return f"{text[:-1]}, requires_grad=True) * 1.5"
        if role == "view":
            grad = ", requires_grad=True) * 2" if self.chance.random() < 0.5 else ")"
            return f"(weft.tensor([{self.numbers(9)}]{grad})[{'3:6]' if kind == 'V' else ':6].view(2, 3)'}"
        return text

    def calls_of(self, parameters: list[tuple[str, str, str]]) -> None:
        chance = self.chance
        between = BETWEEN + (BETWEEN_NET if self.has_net else [])
        start = len(self.lines)
        assigned: set[str] = set()
        kept: dict[str, list[str]] = {}
        varying = chance.random() < 0.2
        # What a call writes to may carry that call's tape into the next one, where it has been spent.
        again = 0.15 if {"writes", "views"} & set(self.groups) else 0.5
        for call in range(chance.choice((2, 2, 3, 3, 4))):
            rows = chance.choice((1, 2, 3)) if varying and call else 2
            values = []
            for name, kind, role in parameters:
                if kind in ("int", "float", "bool"):
                    values.append(self.expression(kind, Scope(), 0))
                    continue
                old = kept.setdefault(f"{name}{rows}", [])
                if old and chance.random() < (0.6 if role == "leaf" else again):
                    values.append(chance.choice(old))
                    continue
                made = self.name(kind)
                self.lines.append(f"    {made} = {self.tensor(kind, role, rows)}")
                old.append(made)
                values.append(made)
            same = [spot for spot, (_, kind, _) in enumerate(parameters) if kind in ("V", "T")]
            if len(same) == 2 and parameters[same[0]][1] == parameters[same[1]][1] and chance.random() < 0.15:
                values[same[1]] = values[same[0]]
            if call and chance.random() < 0.3:
                line = chance.choice(between)
                self.lines.append(f"    {line}")
                target = re.match(r"(\w+) (\W)?= ", line)
                if target:
                    assigned.add(target[1])
            self.lines.append(f"    yield ({', '.join(values)},), {{}}")
        head = ["def arguments():"] + ([f"    global {', '.join(sorted(assigned))}"] if assigned else [])
        self.lines[start:start] = head


def hook_expression(generator: Generator, scope: Scope, depth: int) -> str:
    chance = generator.chance
    if chance.random() < 0.25:
        name = generator.bind("v", {})
        return f"lambda {name}: {name} * {generator.expression('float', scope, 0)}"
    return chance.choice(scope.names["hook"])


SPECIAL["hook"] = hook_expression
SPECIAL["post"] = lambda generator, scope, depth: generator.chance.choice(scope.names["post"])


def program(seed: int) -> str:
    """The source text of the differentiating program numbered `seed`."""
    return TapeGenerator(seed).program()
