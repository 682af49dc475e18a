"""Words that every layer uses: dtypes, devices, tensor types, modes, settings, lazy loading and the seams."""
