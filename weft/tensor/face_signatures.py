"""Signatures of generated functions, for `inspect.signature`, `help` and editors.

Takes the signature of a record, gives an `inspect.Signature` with its names and defaults. One idea: there are
some thousand of them at import, and few are ever looked at, so a signature is read when it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from inspect import Parameter
from types import MappingProxyType
from typing import Any

from weft.ops.signature import MISSING, OpParameter, Signature


class FaceSignature(inspect.Signature):
    """The signature of an op's function, method or in-place form, whose parameters are made on demand."""

    __slots__ = ("record",)

    def __init__(self, record: Signature) -> None:
        self.record = record

    @property
    def _parameters(self) -> Mapping[str, Parameter]:
        return MappingProxyType({each.name: as_parameter(each) for each in self.record.parameters})

    @property
    def _return_annotation(self) -> Any:
        return inspect.Signature.empty

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """An ordinary signature: what is read off methods and partial functions is made so."""
        return inspect.Signature(tuple(self.parameters.values())).replace(**changes)

    def __reduce__(self) -> Any:
        return inspect.Signature, (tuple(self.parameters.values()),)


def as_parameter(given: OpParameter) -> Parameter:
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    if given.variadic:
        kind = Parameter.VAR_POSITIONAL
    elif given.keyword_only:
        kind = Parameter.KEYWORD_ONLY
    default = Parameter.empty if given.default is MISSING else given.default
    return Parameter(given.name, kind, default=default, annotation=given.annotation or Parameter.empty)
