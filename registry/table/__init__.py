"""Kafka tables: the key and the value of a record as one row."""
