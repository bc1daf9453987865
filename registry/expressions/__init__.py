"""Expressions of Flink SQL with Flink's values: computed columns, watermarks, projections and filters.

`registry.sql.expressions` parses a text into `tree`. `bind` gives the tree its types and returns a `bound` expression,
which evaluates whole columns (`vectors`) for some `rows`. A row that fails has no effect on others. `functions` has the
functions by name, `java_times` has dates and times as Java writes and reads them.
"""
