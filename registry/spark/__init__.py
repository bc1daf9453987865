"""Kernels as Spark Columns, and the Spark settings and workers that they need."""
