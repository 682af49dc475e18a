"""The runtime: compiled graphs on real tensors, with their effects and their nodes of the tape."""

from weft.aot.runtime.compiled import CompiledFunction as CompiledFunction
from weft.aot.runtime.compiled import Compiler as Compiler
from weft.aot.runtime.counting import NotCompiled as NotCompiled
from weft.aot.runtime.counting import counters as counters
from weft.aot.runtime.counting import reasons as reasons
