"""Flink SQL as text: types, expressions, CREATE TABLE, and files of statements."""
