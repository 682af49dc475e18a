"""Joining and splitting: cat, stack, split, chunk, tile, repeat, flip, roll."""
