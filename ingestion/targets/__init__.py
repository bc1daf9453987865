"""Targets: where the tables of an ingestion are written.

| module | contains |
| --- | --- |
| `target` | the interface that all targets implement |
| `discovery` | the target of a sink's type, also of other packages |
| `types` | types and values of a target's columns |
| `path` | tables as Parquet files below a path |
| `sql` | tables of a catalog of Spark, by SQL |
| `delta`, `iceberg` | what tables of Delta Lake and Iceberg do differently |
| `values` | rows as lines on the standard output |
| `topics` | topics: the sinks `kafka` and `upsert-kafka` |
"""
