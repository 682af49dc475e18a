"""Native entries: one function that checks the guards, runs the program and makes the results."""
