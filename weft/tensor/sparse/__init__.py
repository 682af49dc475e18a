"""Sparse tensors: places and elements, over dense tensors that gradients flow through."""
