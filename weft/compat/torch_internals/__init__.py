"""PyTorch's internal names, as its own test files import them and a few programs do: helpers, settings to
patch, bindings, placeholders.

Takes nothing; gives modules, names of which the finder of `weft.compat` puts where PyTorch has them. One
idea: all that users of Weft do not need stands in this room. No module outside imports it (a test holds
that); the finder loads a part of it when a program under the alias asks for a name that lies there.
"""
