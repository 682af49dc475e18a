"""Rebuilding: Python text that makes the objects which escape from a segment, on each call."""
