"""Debezium's own types: values are read by their Kafka Connect schema, not by the rules of Flink's formats.

connect_schema.py      a Connect schema, from the block `schema` of a JSON message or from a writer's Avro schema
value_readings.py      the wire type and the conversion for each pair of a Connect type and a Flink type
json_values.py         JSON values without a schema: the form of a value tells its type
conversions.py         wire values to column values, in Arrow; decimals.py, parse_texts.py, structured_times.py
embedded_schema.py     reads JSON messages that carry their schema, each by its own
envelopes.py           the operations and their rows, in JSON and in Avro
avro_changes.py        reads changes in Avro
flattened_avro.py      what a writer's schema in Avro says about rows without an envelope
hints.py               what an error says to do; other_messages.py the messages that do not change a row
"""
