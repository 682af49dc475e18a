"""The target that is no machine: programs read and done by NumPy, to compare others with."""
