"""Autograd for tensors: the engine, grad modes, hooks, gradient checks."""
