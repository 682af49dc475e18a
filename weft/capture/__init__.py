"""Capture: bytecode interpreted over real objects, giving graphs, guards, effects and resume points."""
