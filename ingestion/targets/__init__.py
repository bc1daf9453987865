"""Targets: where the tables of an ingestion are written.

| module | contains |
| --- | --- |
| `target` | the interface that all targets implement |
| `topics` | topics: the sinks `kafka` and `upsert-kafka` |
"""
