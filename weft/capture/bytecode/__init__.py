"""CPython bytecode of 3.11 to 3.13: decoded to one canonical set, and entered in the middle."""
