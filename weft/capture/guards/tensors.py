"""Guards on tensors: the kinds TENSOR, STRIDE and FACT.

Takes `TensorFacts` and what else a graph relied on; asks slots and arrays alone. One idea: a graph is
specialised to class, dtype, gradients and sizes, of which those that were seen to vary are left open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weft.capture.checking import Checks, Unreadable
from weft.capture.digests import Unkept
from weft.capture.guards.base import LIST, Fetch, Form, Guard, holds, type_of
from weft.capture.guards.facts import TENSOR_FACTS, TensorFacts, strides_of
from weft.capture.reading import Reader
from weft.capture.sources import Source, is_a
from weft.core import checks as ask
from weft.tensor.base import PLAIN, Parameter, Tensor
from weft.tensor.meta import MetaArray
from weft.tensor.tape import INFERENCE

if TYPE_CHECKING:
    from weft.capture.entry_cache.read import EntryReader
    from weft.capture.entry_cache.write import EntryWriter


def write_facts(writer: EntryWriter, facts: TensorFacts) -> Any:
    if facts.cls not in PLAIN or facts.device.type != "cpu":
        raise Unkept(f"{facts}")
    return [facts.cls is Parameter, writer.dtype(facts.dtype), list(facts.shape), facts.requires_grad]


def read_facts(reader: EntryReader, source: Source | None, data: Any) -> TensorFacts:
    """Sizes that may vary are those of this call: the program is for these alone."""
    is_parameter, kind, shape, requires_grad = data
    sizes = reader.fetch(source).array.shape if source is not None and None in shape else shape
    found = [size if known is None else known for known, size in zip(shape, sizes, strict=True)]
    return TensorFacts(Parameter if is_parameter else Tensor, np.dtype(kind), tuple(found), requires_grad)


class TensorGuard(Guard, kind="TENSOR"):
    """A tensor as `TensorFacts` says."""

    tells_type = True
    tells_value = True
    form = Form(write_facts, read_facts)

    def fits(self, found: Any) -> bool:
        facts = self.payload
        if type(found) is not facts.cls:
            return False
        shape = found.array.shape
        return (
            has_type(found, facts.cls, facts.requires_grad, holder_of(facts), facts.dtype, shape)
            and len(shape) == len(facts.shape)
            and all(want in (None, size) for want, size in zip(facts.shape, shape, strict=True))
        )

    def describe(self) -> str:
        return f"{self.source} is {self.payload}"

    def turn(self) -> int:
        return 0 if self.is_open() and self.at.kind == "local" else 2

    def changed(self, fetch: Fetch) -> set[str]:
        value, facts = fetch(self.at), self.payload
        if not is_a(value, Tensor) or len(value.array.shape) != len(facts.shape):
            return set()
        pairs = enumerate(zip(facts.shape, value.array.shape))
        return {str(self.at.size(dim)) for dim, (was, now) in pairs if was is not None and was != now}

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        facts = self.payload
        if type(found) is not facts.cls or len(found.array.shape) != len(facts.shape):
            return {}
        pairs = enumerate(zip(facts.shape, found.array.shape))
        return {
            str(self.at.size(n)): (str(was), str(now)) for n, (was, now) in pairs if was not in (None, now)
        }

    def units(self) -> set[str]:
        return {str(self.at.size(dim)) for dim, size in enumerate(self.payload.shape) if size in (0, 1)}

    def is_open(self) -> bool:
        return None in self.payload.shape

    def render(self, reader: Reader) -> None:
        facts, holder = self.payload, holder_of(self.payload)
        name = reader.read(self.at)
        if reader.terse and not self.is_open():
            told = (facts.cls, facts.requires_grad, holder, facts.dtype)
            texts = [reader.constant(each, getattr(each, "__name__", "")) for each in told]
            call = f"{reader.constant(has_type, 'has_type')}({name}, {', '.join(texts)}, {facts.shape!r})"
            reader.miss_if(f"not {call}")
            reader.types[self.at], reader.facts[self.at] = facts.cls, facts
            return
        exact = f"{type_of(reader, name)} is not {reader.constant(facts.cls, facts.cls.__name__)} or "
        if reader.types.get(self.at) is facts.cls:
            exact = ""
        # A view whose base was told to require grad after it was made requires it, and is not tracked yet.
        follows = "" if facts.requires_grad else f" or {name}.origin is not None and {name}.requires_grad"
        reader.miss_if(f"{exact}{name}.tracked is not {facts.requires_grad}{follows}")
        reader.types[self.at], reader.facts[self.at] = facts.cls, facts
        array = reader.read_array(self.at)
        conditions = [
            f"{type_of(reader, array)} is not {reader.constant(holder, holder.__name__)}",
            f"{array}.dtype is not {reader.constant(facts.dtype, facts.dtype.name)}",
        ]
        if not self.is_open():
            reader.miss_if(" or ".join([*conditions, f"{array}.shape != {facts.shape!r}"]))
            return
        reader.miss_if(" or ".join(conditions))
        shape = reader.read_shape(self.at)
        conditions = [f"{reader.constant(len, 'len')}({shape}) != {len(facts.shape)}"]
        conditions += [f"{shape}[{i}] != {size}" for i, size in enumerate(facts.shape) if size is not None]
        reader.miss_if(" or ".join(conditions))

    def check(self, checks: Checks) -> None:
        facts = self.payload
        if facts.cls not in PLAIN or facts.device.type != "cpu":
            raise Unreadable(str(self))
        sizes: Iterable[int] = [-1 if size is None else size for size in facts.shape]
        if checks.sized and self.is_open():
            if not holds(self, checks.function, checks.values):
                raise Unreadable(str(self))
            sizes = checks.value(self.at).array.shape
        expected = [facts.cls, facts.requires_grad, facts.dtype, len(facts.shape), *sizes]
        array = checks.arrays[self.at] = ask.tensor(checks.read(self.at), expected)
        checks.need(array)
        checks.types[self.at] = facts.cls


def holder_of(facts: TensorFacts) -> Any:
    return MetaArray if facts.device.type == "meta" else np.ndarray


def has_type(tensor: Any, cls: Any, tracked: bool, holder: Any, kind: Any, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is what a guard says: for entries with many, whose text would be long otherwise."""
    if type(tensor) is not cls or tensor.tracked is not tracked:
        return False
    if not tracked and tensor.origin is not None and tensor.requires_grad:
        return False
    array = tensor.array
    return type(array) is holder and array.dtype is kind and bool(array.shape == shape)


def not_plain(reader: Reader, source: Source) -> str:
    if reader.known(source) in PLAIN:
        return ""
    return f"{type_of(reader, reader.read(source))} not in {reader.constant(PLAIN, 'PLAIN')} or "


class Listed(Guard):
    """A kind whose payload is a tuple of what JSON knows."""

    form = LIST

    def normal(self, payload: Any) -> Any:
        return tuple(payload)


class Stride(Listed, kind="STRIDE"):
    """A tensor's strides, in elements."""

    def fits(self, found: Any) -> bool:
        return type(found) in PLAIN and strides_of(found) == self.payload

    def describe(self) -> str:
        return f"{self.source}.stride() == {self.payload}"

    def actual(self, found: Any) -> str:
        return str(strides_of(found))

    def render(self, reader: Reader) -> None:
        facts = reader.facts.get(self.at)
        if facts is not None and None not in facts.shape and 0 not in facts.shape:
            steps = tuple(step * facts.dtype.itemsize for step in self.payload)
            reader.miss_if(f"{reader.read_array(self.at)}.strides != {steps!r}")
        else:
            name, strides = reader.read(self.at), reader.constant(strides_of, "strides")
            reader.miss_if(f"{not_plain(reader, self.at)}{strides}({name}) != {self.payload!r}")

    def check(self, checks: Checks) -> None:
        array, found = checks.array(self.at), checks.value(self.at).array
        if found.size == 0:
            raise Unreadable(str(self))
        checks.need(ask.strides(array, [step * found.itemsize for step in self.payload]))


FACT_TEXTS: Final[dict[str, str]] = {
    "is_leaf": "({0}.node is None)",
    "is_view": "({0}.origin is not None)",
    "is_inference": "({0}.cell is {INFERENCE})",
    "has_grad": "({0}._grad is not None)",
}
SLOT_FACTS: Final[dict[str, tuple[str, Any, bool]]] = {
    "is_leaf": ("node", None, True),
    "is_view": ("origin", None, False),
    "is_inference": ("cell", INFERENCE, True),
    "has_grad": ("_grad", None, False),
    "has_hooks": ("hooks", None, False),
}
"""A fact as a slot, an object, and whether the slot holds that object where the fact does."""
FLAG_FACTS: Final = {"is_contiguous": 0x1, "writeable": 0x400}
"""A fact as a flag of NumPy's arrays."""


class Fact(Listed, kind="FACT"):
    """(name, value): one of `TENSOR_FACTS`."""

    def fits(self, found: Any) -> bool:
        fact, value = self.payload
        return type(found) in PLAIN and TENSOR_FACTS[fact](found) is value

    def describe(self) -> str:
        return f"{self.source}.{self.payload[0]} is {self.payload[1]}"

    def actual(self, found: Any) -> str:
        return str(TENSOR_FACTS[self.payload[0]](found))

    def render(self, reader: Reader) -> None:
        fact, value = self.payload
        name, exact = reader.read(self.at), not_plain(reader, self.at)
        text = FACT_TEXTS.get(fact)
        if text is None:
            reader.miss_if(f"{exact}{reader.constant(TENSOR_FACTS[fact], fact)}({name}) is not {value!r}")
        else:
            found = text.format(name, INFERENCE=reader.constant(INFERENCE, "INFERENCE"))
            reader.miss_if(f"{exact}{'not ' if value else ''}{found}")

    def check(self, checks: Checks) -> None:
        fact, value = self.payload
        if checks.known(self.at) not in PLAIN or (fact == "has_hooks" and value):
            raise Unreadable(str(self))
        if fact in FLAG_FACTS:
            mask = FLAG_FACTS[fact]
            checks.need(ask.flags(checks.array(self.at), mask, mask if value else 0))
            return
        name, there, when = SLOT_FACTS[fact]
        asked = ask.slot_is if when is value else ask.slot_isnt
        checks.need(asked(checks.read(self.at), checks.factory.slot(Tensor, name), there))
