"""Batch rules, derived by family."""
