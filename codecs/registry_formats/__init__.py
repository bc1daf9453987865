"""Formats with a schema registry: their bases, and what messages of several types need."""
