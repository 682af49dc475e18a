"""Guards: what must hold for a captured segment to serve a call.

One class per kind, by family: `identity` (TYPE, IS, SAME, DISTINCT, CODE, UNSET), `classes` (MRO, ABSENT),
`values` (EQ, CONTENTS), `containers` (LEN, KEYS, HAS, LACKS), `tensors` (TENSOR, STRIDE, FACT),
`surroundings` (MODE, AMBIENT) and `conditions` (CONDITION). `base` says what a kind has to have, `rendering`
in which order guards become Python text.
"""

from weft.capture.guards import containers as containers  # for the kinds that they add
from weft.capture.guards import surroundings as surroundings
from weft.capture.guards.base import (
    KINDS,
    Guard,
    GuardSet,
    Miss,
    explain_miss,
    fetching,
    holds,
    shown,
    wild,
)
from weft.capture.guards.classes import (
    ClassSources,
    class_source,
    guards_for_lookup,
    guards_for_member,
    lookup,
)
from weft.capture.guards.conditions import Condition
from weft.capture.guards.facts import TENSOR_FACTS, TensorFacts, strides_of
from weft.capture.guards.identity import Same
from weft.capture.guards.rendering import guarded, render_guards

__all__ = [
    "KINDS", "TENSOR_FACTS", "ClassSources", "Condition", "Guard", "GuardSet", "Miss", "Same", "TensorFacts",
    "class_source", "explain_miss", "fetching", "guarded", "guards_for_lookup", "guards_for_member", "holds",
    "lookup", "render_guards", "shown", "strides_of", "wild",
]  # fmt: skip
