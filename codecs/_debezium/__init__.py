"""Debezium's own types: values read by what Kafka Connect says they are, not by what Flink takes them for.

connect.py   a schema of Connect, from the block `schema` of a JSON message or from a writer's Avro schema
types.py     what a value of a Connect type is on the wire, for a column of a Flink type
convert.py   from the wire's values to the column's, in Arrow
read.py      batches: messages of one schema together
"""
