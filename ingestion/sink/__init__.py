"""The bytes of tables in topics: Flink CDC's Kafka sink, batch by batch on Arrow arrays.

| module | contains |
| --- | --- |
| `settings` | how records are written, from the options of the sink |
| `changes` | the changes of a table as operations and rows before and after |
| `records` | keys and values of the records of one table |
| `frame` | a DataFrame of rows as a DataFrame of records |
| `connect_schema` | the schema of Kafka Connect beside a Debezium message |
| `connect_payload` | values that follow this schema |

Rules: Flink CDC's `PipelineKafkaRecordSerializationSchema` and the classes that it calls.
"""
