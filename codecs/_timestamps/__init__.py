"""Timestamps in forms of the user's choice: the options, their patterns, time zones, reading and writing."""
