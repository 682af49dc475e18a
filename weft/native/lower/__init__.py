"""Lowering: from a graph of pure ops to definitions, by rules of each family."""
