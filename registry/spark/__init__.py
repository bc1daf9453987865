"""Formats as Spark Columns, and checks of Spark's settings and workers."""
