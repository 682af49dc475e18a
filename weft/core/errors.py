"""Errors of our own. Whatever PyTorch raises as a built-in class (RuntimeError, TypeError, …) stays that
class.
"""

from __future__ import annotations


class LinAlgError(RuntimeError):
    """A matrix has no such factorisation (singular, not positive definite, …)."""


class OutOfMemoryError(RuntimeError):
    """An allocation was refused."""
