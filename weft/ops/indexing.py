"""Gathers, scatters, masks and advanced indexing."""
