"""One feature of Python a test: compiled code does what the original does, in as many graphs as it must."""
