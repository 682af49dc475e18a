"""Tracing: graphs as modules, and the machinery that records operations into graphs."""
