"""Programs: made, run, kept on disk, looked at."""
