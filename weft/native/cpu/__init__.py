"""The target: LLVM text, libraries, threads and calls of this machine."""
