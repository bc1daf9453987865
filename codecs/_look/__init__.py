"""What messages contribute to the schemas of their tables: the parts that the hook `looker` of formats shares.

value_types.py     the type of a JSON value, and whether a known type reads a value
declared_types.py  types of MySQL and JDBC that messages name, and whether one type holds another
findings.py        collects tables, columns, keys and errors of a batch
rows.py            what the columns of a row contribute
json_rows.py       `json`: tables by topic or by members, flattened columns
change_data.py     change data in JSON: tables and rows of envelopes
canal.py           Canal's declared types
debezium.py        Debezium's declared types, and its rows without an envelope
avro_schemas.py    Avro messages of a schema registry, by the schemas of their ids
"""
