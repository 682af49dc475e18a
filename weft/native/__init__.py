"""Graphs of pure ops as machine code, through LLVM, in process."""
