"""Streams of changes: the current table, normalized changes, dead letters."""
