"""Attention, embedding, dropout, linear layers."""
