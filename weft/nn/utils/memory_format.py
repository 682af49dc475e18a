"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from weft.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, kinds: tuple[type[Module], ...], memory_format: Any) -> Module:
    if isinstance(module, kinds):
        weight: Any = module.weight
        weight.data = weight.detach().clone(memory_format=memory_format)
    for child in module.children():
        _convert(child, kinds, memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lays out the weights of all 2d convolutions in the tree anew."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lays out the weights of all 3d convolutions in the tree anew."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
