"""Targets: where the tables of an ingestion are written.

| module | contains |
| --- | --- |
| `target` | the interface that all targets implement |
| `discovery` | the target of a sink's type, also of other packages |
| `types` | types and values of a target's columns |
| `path` | tables as Parquet files below a path |
| `values` | rows as lines on the standard output |
| `topics` | topics: the sinks `kafka` and `upsert-kafka` |
"""
