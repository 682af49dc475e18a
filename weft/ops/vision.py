"""Padding, interpolation, folding, pixel shuffles."""
