"""The engine: LLVM text to functions in this process.

Takes the text of a module; gives addresses. One idea: a module is compiled once and lives as long as somebody
holds its `Loaded`; nothing of LLVM is loaded before it is needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.core.lazy import lazy

llvm: Any = lazy("llvmlite.binding")


@cache
def host() -> tuple[str, str, int]:
    """This machine: its name, its features, and how many bytes a vector has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return llvm.get_host_cpu_name(), features.flatten(), width


class Loaded:
    """A compiled module."""

    def __init__(self, text: str, level: int = 2) -> None:
        name, features, _ = host()
        module = llvm.parse_assembly(text)
        module.verify()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=name, features=features, opt=level, jit=True)
        self.engine = llvm.create_mcjit_compiler(module, machine)  # which owns the machine from here on
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        return int(self.engine.get_function_address(name))
