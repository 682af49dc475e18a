"""Ahead-of-time differentiation: captured graphs without mutation, with their gradients, cut in two."""
