"""Tensors from nothing: zeros, arange, eye, full, and the like-forms."""
