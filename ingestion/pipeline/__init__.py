"""A pipeline: what is ingested from where, by which rules. Nothing here reads a record.

pipeline        the checked pipeline; `arguments` makes it from Python values, `yaml` and `from_sql` from texts
options         declarations of all options, and parsing of values
source, sink    where records come from, where rows go
transform       columns, filters and keys, with expressions in Spark SQL (`transform_sql`)
routes          names of tables in the target
settings        the block `pipeline`
explain         the pipeline in words
"""
