"""Programs before machine code, as data: definitions, scalar bodies, kernels."""
