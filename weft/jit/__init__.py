"""Scripted functions: typed Python, read into graphs that print, run, differentiate and can be saved.

>>> import weft
>>> @weft.jit.script
... def power(x: weft.Tensor, n: int):
...     y = x
...     for i in range(n - 1):
...         y = y * x
...     return y
>>> power(weft.tensor([2.0, 3.0]), 3)
tensor([ 8., 27.])
"""

from typing import Final as Final

from weft.jit.annotations import Future as Future
from weft.jit.api import CompilationUnit as CompilationUnit
from weft.jit.api import ScriptWarning as ScriptWarning
from weft.jit.api import export_opnames as export_opnames
from weft.jit.api import fork as fork
from weft.jit.api import interface as interface
from weft.jit.api import last_executed_optimized_graph as last_executed_optimized_graph
from weft.jit.api import optimized_execution as optimized_execution
from weft.jit.api import script as script
from weft.jit.api import set_fusion_strategy as set_fusion_strategy
from weft.jit.api import wait as wait
from weft.jit.errors import Error as Error
from weft.jit.errors import FrontendError as FrontendError
from weft.jit.errors import NotSupportedError as NotSupportedError
from weft.jit.marks import Attribute as Attribute
from weft.jit.marks import annotate as annotate
from weft.jit.marks import export as export
from weft.jit.marks import ignore as ignore
from weft.jit.marks import is_scripting as is_scripting
from weft.jit.marks import is_tracing as is_tracing
from weft.jit.marks import isinstance_ as isinstance  # noqa: F401
from weft.jit.marks import script_if_tracing as script_if_tracing
from weft.jit.marks import unused as unused
from weft.jit.modules import RecursiveScriptModule as RecursiveScriptModule
from weft.jit.modules import ScriptModule as ScriptModule
from weft.jit.modules import TracedModule as TopLevelTracedModule  # noqa: F401
from weft.jit.modules import TracedModule as TracedModule
from weft.jit.modules import script_method as script_method
from weft.jit.saving import load as load
from weft.jit.saving import save as save
from weft.jit.script import ScriptFunction as ScriptFunction
from weft.jit.tracing import TracerWarning as TracerWarning
from weft.jit.tracing import TracingCheckError as TracingCheckError
from weft.jit.tracing import freeze as freeze
from weft.jit.tracing import optimize_for_inference as optimize_for_inference
from weft.jit.tracing import trace as trace
from weft.jit.tracing import trace_module as trace_module

_fork = fork
_wait = wait
