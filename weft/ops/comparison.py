"""Comparisons, logic and bits, element by element."""
