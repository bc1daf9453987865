"""Recognize messages and propose columns: the parts that the hooks `recognize` and `propose_schema` of formats share.

message_kinds.py     what the bytes of a message are: JSON, text, Confluent's frame, compressed data, ...
documents.py         JSON messages as trees; recognitions by a test of their members
value_summary.py     what the values of a column have in common: kinds, ranges, forms of text
column_types.py      from the summary to a type of Flink
declared_types.py    types that messages name themselves: Kafka Connect's, MySQL's, JDBC's
debezium_columns.py  columns by Debezium's own types
json_rows.py         the columns of `json`
change_data.py       the columns of change data in JSON, and what tells Debezium's rows
needed_options.py    options that change data needs
primary_key.py       the key that the keys of records name
avro_schemas.py      columns of Avro schemas
confluent_frames.py  what a schema registry knows of messages in Confluent's frame
delimited.py         the columns of `csv`
protobuf_fields.py   the columns of a protobuf message type
"""
