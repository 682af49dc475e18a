"""Activations of nn.functional."""
