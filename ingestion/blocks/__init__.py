"""The blocks of a pipeline: their options, and the checks of each block.

options         declarations of all options, and parsing of values
source, sink    where records come from, where rows go
transform       columns, filters and keys, with expressions in Spark SQL (`transform_sql`)
settings        the block `pipeline`
"""
