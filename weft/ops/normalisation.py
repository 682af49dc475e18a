"""Softmax and the normalisation layers."""
