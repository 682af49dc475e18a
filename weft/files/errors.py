"""Errors of files: what is wrong with one, in a sentence."""

from __future__ import annotations

import pickle


class FileFormatError(RuntimeError):
    """A file that is not what it says, or says what cannot be."""


class UnsafeFileError(FileFormatError, pickle.UnpicklingError):
    """A file that asks for something that reading a file must not do."""


def require(condition: object, text: str) -> None:
    """Refuses a file, unless the condition holds."""
    if not condition:
        raise FileFormatError(text)
