"""Random draws from a generator."""
