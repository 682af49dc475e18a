"""Special functions, in PyTorch's special namespace."""
