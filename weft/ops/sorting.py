"""Sorts and selections: sort, argsort, topk, median, unique."""
