"""Entries on disk: what a process has captured, written for those to come and read by them."""
