"""Factorisations, solves, norms: the linalg namespace."""
