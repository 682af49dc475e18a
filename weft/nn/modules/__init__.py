"""The modules of `weft.nn`: containers, and the layers by family. `weft.nn` exports every class named
here."""

from weft.nn.modules.module import Module as Module

__all__ = [_name for _name, _value in globals().items() if isinstance(_value, type)]
