"""Spark's data source `kvformat`: tables of Flink on Kafka, read and written by Spark's Python workers, without a jar.

    spark.read.format("kvformat").option("ddl", "CREATE TABLE ...").load()

`source.py` is the data source, `options.py` declares its options, `batch.py` and `stream.py` read, `write.py` writes.
`reader/` beside this folder reads the records with librdkafka, `offset_plan.py` computes their offsets.
"""

NAME = "kvformat"
"""The name for `spark.read.format`."""
DDL = "ddl"
"""The option with the CREATE TABLE of a table."""
