"""Elementary functions: exponentials, logarithms, powers, trigonometry, rounding."""
