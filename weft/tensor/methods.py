"""The base of Tensor: empty when it runs, and described in full by `methods.pyi` to type checkers.

Ops and methods are attached to Tensor after its class statement, where no checker sees them.
`weft.tensor.stubs` writes what was attached into the stub beside this file; see Note [Stubs] there.
"""

from __future__ import annotations


class Methods:
    """What is attached to Tensor."""

    __slots__ = ()
