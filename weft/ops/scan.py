"""Cumulative ops: cumsum, cumprod, diff."""
