"""Custom Functions in captured code: one node, and the same values, gradients and errors as in eager."""
